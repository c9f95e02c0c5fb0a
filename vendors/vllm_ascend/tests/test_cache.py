"""Runs of slots, token by token."""

from __future__ import annotations

import numpy as np
import pytest
import vllm_ascend_operators  # noqa: F401 - declares the operators

import ascend_aclnn as aclnn
from ascend_aclnn import ops

# Blocks of four slots: a run of two, one that ends with its block, one of one, and what is left out.
SLOTS = np.array([4, 5, -1, 10, 11, 12, 3, 2, -1, 6], np.int32)
RUNS = [(2, 0, 4), (2, 3, 10), (1, 5, 12), (1, 6, 3), (1, 7, 2), (1, 9, 6)]


def test_store_kv_block_metadata(aclnn_backend):
    lengths, tokens, slots = (np.asarray(runs) for runs in ops.store_kv_block_metadata(SLOTS, 4))
    assert list(zip(lengths, tokens, slots)) == [*RUNS, *[(0, 0, 0)] * 4]


def test_slots_below_zero_alone(aclnn_backend):
    assert [np.asarray(runs).tolist() for runs in ops.store_kv_block_metadata(np.array([-1, -1], np.int32), 4)] == [
        [0, 0]
    ] * 3


def test_too_many_runs_are_refused(aclnn_backend):
    out = tuple(np.zeros(2, np.int32) for _ in range(3))
    with pytest.raises(aclnn.AclError, match="has 2 elements; there are 6 runs"):
        ops.store_kv_block_metadata(SLOTS, 4, out=out)
        aclnn.synchronize()


@pytest.mark.parametrize("dtype", [np.float16, np.int8], ids=str)
def test_store_kv_block(aclnn_backend, dtype):
    keys = np.arange(10 * 2 * 8).reshape(10, 2, 8).astype(dtype)
    expected = np.zeros((4, 4, 2, 8), dtype)
    for token, slot in enumerate(SLOTS):
        if slot >= 0:
            expected[slot // 4, slot % 4] = keys[token]
    cache = aclnn.asarray(np.zeros_like(expected))
    ops.store_kv_block(keys, cache, *ops.store_kv_block_metadata(SLOTS, 4), 4)
    assert (cache.numpy() == expected).all()


@pytest.mark.parametrize("form", [1, 2])
def test_compressor_metadata(aclnn_backend, form):
    """Groups of four tokens in blocks of two slots; the third request completes none, the last group has no block."""
    random = np.random.default_rng(3)
    cos, sin = (random.normal(size=(64, 8)).astype(np.float32) for _ in range(2))
    starts, positions = np.array([0, 9, 13, 15], np.int32), np.array([3, 8, 0], np.int32)
    table = np.array([[7, 5], [6, -1], [1, 1]], np.int32)
    out = np.zeros((6, 1, 1, 8), np.float32), np.zeros((6, 1, 1, 8), np.float32)
    slots = np.zeros(6 if form == 1 else (6, 2), np.int32)
    found = ops.compressor_metadata(cos, sin, starts, positions, table, 2, form, 4, 3, out=(*out, slots))
    expected = []  # the group's number within its request, block and place in it
    for request, (start, end) in enumerate(zip(starts, starts[1:])):
        for token in range(positions[request], positions[request] + end - start):
            if token % 4 == 3:
                block = table[request, token // 4 // 2]
                expected.append((token // 4, block, token // 4 % 2) if block >= 0 else None)
    for row in range(6):
        group = expected[row] if row < len(expected) else None
        rotation = (1, 0) if group is None else (cos[group[0] * 4], sin[group[0] * 4])
        assert all((np.asarray(part)[row] == values).all() for part, values in zip(found, rotation))
        place = (-1, 1) if group is None else group[1:]
        flat = -1 if group is None else group[1] * 2 + group[2]
        assert np.asarray(found[2])[row].tolist() == (flat if form == 1 else list(place))


def test_reshape_and_cache_bnsd(aclnn_backend):
    """Two requests of five and two tokens, each with all tokens of a head behind each other."""
    heads, width, slots = 3, 32, np.array([6, 7, 0, 1, 2, 12, 13], np.int32)
    keys = np.random.default_rng(4).integers(0, 256, (7 * heads, width), np.uint8)
    cache = aclnn.asarray(np.zeros((4, heads, 4, width), np.uint8))
    ops.reshape_and_cache_bnsd(keys, cache, slots, np.array([5, 2], np.int32), cache)
    expected = np.zeros((4, heads, 4, width), np.uint8)
    for first, count in ((0, 5), (5, 2)):
        for token in range(count):
            slot = slots[first + token]
            for head in range(heads):
                expected[slot // 4, head, slot % 4] = keys[first * heads + head * count + token]
    assert (cache.numpy() == expected).all()
