"""Triton's kernels as operators, element by element."""

from __future__ import annotations

import numpy as np
import pytest
import vllm_ascend_operators  # noqa: F401 - declares the operators

import ascend_aclnn as aclnn
from ascend_aclnn import ops


@pytest.mark.parametrize("ranks, rank, interleave", [(1, 0, 1), (2, 1, 1), (2, 0, 4)])
@pytest.mark.parametrize("dtype", [np.int32, np.int64], ids=str)
def test_slots_of_tokens(aclnn_backend, ranks, rank, interleave, dtype):
    size, stride, lengths, tokens, most = 8, 5, [3, 0, 6], 10, 14
    random = np.random.default_rng(1)
    loc = np.cumsum([0, *lengths]).astype(np.int32)
    positions = np.concatenate([np.arange(9, 12), np.arange(13, 19), np.zeros(6)]).astype(np.int64)
    table = random.permutation(4 * stride).reshape(4, stride).astype(np.int32)
    slots = np.full(16, 77, dtype)
    expected = slots.copy()
    expected[tokens:most] = -1
    for request in range(len(lengths)):
        for token in range(loc[request], loc[request + 1]):
            block, within = divmod(int(positions[token]), size * ranks)
            turn, place = divmod(within, interleave)
            if turn % ranks == rank:
                expected[token] = table[request, block] * size + turn // ranks * interleave + place
            else:
                expected[token] = -1
    tensor = aclnn.asarray(slots)
    ops.triton_compute_slot_mapping(
        loc, positions, table, tensor, len(lengths), tokens, most, stride, size, ranks, rank, interleave, -1
    )
    assert (tensor.numpy() == expected).all()


def test_slots_of_requests_that_do_not_follow_each_other_are_refused(aclnn_backend):
    arrays = np.array([0, 5, 3], np.int32), np.zeros(8, np.int64), np.zeros((2, 2), np.int32)
    with pytest.raises(aclnn.AclError, match=r"start_loc is \[0, 5, 3\]"):
        ops.triton_compute_slot_mapping(*arrays, aclnn.asarray(np.zeros(8, np.int32)), 2, 5, 8, 2, 4, 1, 0, 1, -1)
        aclnn.synchronize()


@pytest.mark.parametrize("neox", [True, False])
@pytest.mark.parametrize("by_position", [True, False])
@pytest.mark.parametrize("width", [8, 6])
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_rope(aclnn_backend, dtype, neox, by_position, width):
    tokens, half = 3, width // 2
    random = np.random.default_rng(2)
    query, key = (random.normal(size=(tokens, heads, 10)).astype(dtype) for heads in (4, 2))
    rows = random.normal(size=(12, 8)).astype(dtype)  # sines begin at 4, where those of a width of 8 do
    positions = np.array([7, 0, 11])
    cos, sin = rows[positions, :half].copy(), rows[positions, 4 : 4 + half].copy()
    angles = (None, None, rows, positions) if by_position else (cos, sin, None, None)
    tensors = [aclnn.asarray(query), aclnn.asarray(key)]
    ops.triton_rope(*tensors, *angles, width, neox)
    for array, tensor in zip((query, key), tensors):
        expected = array.astype(np.float32)
        for token, head, i in np.ndindex(tokens, array.shape[1], half):
            first, second = (i, i + half) if neox else (2 * i, 2 * i + 1)
            x, y = expected[token, head, first], expected[token, head, second]
            c, s = np.float32(cos[token, i]), np.float32(sin[token, i])
            expected[token, head, [first, second]] = x * c - y * s, y * c + x * s
        assert (tensor.numpy() == expected.astype(dtype)).all()


@pytest.mark.parametrize("greedy", [None, [True, False, True, True, True]], ids=["all", "some"])
@pytest.mark.parametrize("counts", [[2, 3, 0, 1, 3], [1, 1, 1, 1, 1]], ids=["any", "one"])
def test_greedy_rejection(aclnn_backend, counts, greedy):
    most, ends = 3, np.cumsum(counts).astype(np.int32)
    random = np.random.default_rng(4)
    targets = random.integers(10, 99, ends[-1]).astype(np.int64)
    drafts = np.where(random.random(ends[-1]) < 0.7, targets, 5).astype(np.int32)
    bonus = random.integers(100, 199, (5, 1)).astype(np.int32)
    output = np.full((5, most + 1), -1, np.int32)
    expected = output.copy()
    for request, (count, end) in enumerate(zip(counts, ends)):
        if greedy is not None and not greedy[request]:
            continue
        for place in range(count):
            token = end - count + place
            expected[request, place] = targets[token]
            if drafts[token] != targets[token]:
                break
        else:
            expected[request, count] = bonus[request, 0]
    tensor = aclnn.asarray(output)
    mask = None if greedy is None else np.array(greedy)
    ops.triton_reject_greedy(tensor, None if max(counts) == 1 else ends, drafts, targets, bonus, mask, 5)
    assert (tensor.numpy() == expected).all()
