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


def hamming_arguments(group, random):
    """Three requests of 5, 3 and 0 blocks of 64 keys of 128 bits, with two heads of keys."""
    keys = random.integers(0, 256, (12, 2, 64, 16), np.uint8)
    query = random.integers(0, 256, (3, 2 * group, 1, 16), np.uint8)
    table = random.permutation(12)[:8].astype(np.int32)
    tables = np.array([[*table[:5], 0], [*table[5:8], 0, 0, 0], [9] * 6], np.int32)
    return query, keys, tables, np.array([5 * 64 - 10, 3 * 64, 0], np.int32)


def in_common(queries, key):
    """How many bits of a key are those of the queries."""
    return sum(8 - bin(a ^ b).count("1") for query in queries.tolist() for a, b in zip(query, key.tolist()))


@pytest.mark.parametrize("offload", [0, 1])
def test_hamming_dist_top_k(aclnn_backend, offload):
    """One block of the beginning and one of the end, and the nearest two of the others; a short request has all of its own."""
    query, keys, tables, lengths = hamming_arguments(2, np.random.default_rng(7))
    before = np.full((3, 2, 5), -7, np.int32)
    arguments = np.full(3, 4, np.int32), lengths, np.full(3, 64, np.int32), tables, before
    out = aclnn.asarray(before)
    ops.hamming_dist_top_k(query, keys, *arguments, None, np.ones(3, bool), 6 * 64, 1, 1, offload, out)
    for head in range(2):
        queries = query[0, 2 * head : 2 * head + 2, 0]
        nearest = [max(in_common(queries, key) for key in keys[block, head]) for block in tables[0, :5]]
        middle = sorted((1, 2, 3), key=lambda number: -nearest[number])[:2]
        chosen = [0, 4, *middle] if offload else tables[0, sorted([0, 4, *middle])].tolist()
        assert out.numpy()[0, head].tolist() == [*chosen, -7]
        found = out.numpy()[1, head]
        assert sorted(found[:3].tolist()) == sorted([0, 1, 2] if offload else tables[1, :3].tolist())
        assert (found[3:] == -7).all() and (out.numpy()[2] == -7).all()


def test_hamming_dist_top_k_of_many_queries(aclnn_backend):
    """Sums of 16 equal queries are halved and cut to -8 and 7: a bit that they have not set counts more where it differs."""
    query, keys, tables, lengths = hamming_arguments(16, np.random.default_rng(8))
    query[:] = query[:, :1]
    out = aclnn.asarray(np.zeros((3, 2, 1), np.int32))
    sizes = np.full(3, 64, np.int32)
    ops.hamming_dist_top_k(query, keys, sizes // 64, lengths, sizes, tables, out, None, None, 6 * 64, 0, 0, 0, out)
    wanted = [bit for byte in query[0, 0, 0].tolist() for bit in f"{byte:08b}"]
    for head in range(2):
        nearest = []
        for block in tables[0, :5]:
            bits = [[bit for byte in key for bit in f"{byte:08b}"] for key in keys[block, head].tolist()]
            weights = {("1", "1"): 7, ("1", "0"): -7, ("0", "0"): 8, ("0", "1"): -8}
            nearest.append(max(sum(weights[pair] for pair in zip(wanted, row)) for row in bits))
        assert out.numpy()[0, head, 0] == tables[0, nearest.index(max(nearest))]


def test_a_request_whose_mask_is_off_has_its_whole_table(aclnn_backend):
    """With one head, whose axis the table leaves out."""
    query, keys, tables, lengths = hamming_arguments(1, np.random.default_rng(9))
    query, keys = query[:, :1], keys[:, :1]
    sizes, mask = np.full(3, 64, np.int32), np.array([False, True, False])
    out = aclnn.asarray(np.full((3, 4), -7, np.int32))
    ops.hamming_dist_top_k(query, keys, sizes // 64, lengths, sizes, tables, out, None, mask, 6 * 64, 1, 0, 0, out)
    for request, expected in enumerate(([*tables[0, :4]], [tables[1, 0], -7, -7, -7], [*tables[2, :4]])):
        assert (out.numpy()[request] == expected).all()


@pytest.mark.parametrize(
    ("changed", "message"), [("chunk", "is 16; the reference"), ("length", "there is room for 384")]
)
def test_hamming_dist_top_k_refuses(aclnn_backend, changed, message):
    query, keys, tables, lengths = hamming_arguments(1, np.random.default_rng(9))
    sizes, out = np.full(3, 64, np.int32), np.zeros((3, 2, 4), np.int32)
    (sizes if changed == "chunk" else lengths)[1] = 16 if changed == "chunk" else 385
    with pytest.raises(aclnn.AclError, match=message):
        ops.hamming_dist_top_k(query, keys, sizes // 16, lengths, sizes, tables, out, None, None, 384, 1, 1, 0, out)
        aclnn.synchronize()


@pytest.mark.parametrize("rotation", [1, 2])
@pytest.mark.parametrize("coff", [1, 2])
def test_compressor(aclnn_backend, rotation, coff):
    """Two sequences, packed and in two calls: groups of four tokens, of which those of the first call's end wait in the cache."""
    random, ratio, width, rotated, hidden = np.random.default_rng(5), 4, 16, 8, 32
    wkv, wgate = (random.normal(size=(coff * width, hidden), scale=0.2).astype(np.float16) for _ in range(2))
    ape, norm = (
        random.normal(size=(ratio, coff * width)).astype(np.float32),
        random.normal(size=width).astype(np.float16),
    )
    sequences = [random.normal(size=(n, hidden)).astype(np.float16) for n in (11, 14)]
    angles = random.normal(size=(16, rotated))
    cache = aclnn.asarray(np.zeros((9, 4, 2 * coff * width), np.float32))
    table = np.array([[1, 2, 3, 4], [5, 6, 7, 8]], np.int32)
    rows = [[], []]
    for first, last in ((0, 6), (6, 14)):
        parts = [x[first:last] for x in sequences]
        ends = np.array([0, len(parts[0]), len(parts[0]) + len(parts[1])], np.int32)
        most = min(ends[2], ends[2] // ratio + 2)
        groups = [
            (number, group)
            for number in range(2)
            for group in range(first // ratio, min(last, len(sequences[number])) // ratio)
        ]
        turns = np.zeros((most, rotated))
        turns[: len(groups)] = angles[[group for _, group in groups]]
        sides = np.sin(turns).astype(np.float32), np.cos(turns).astype(np.float32)
        states = table, ends, None, np.array([first, first], np.int32)
        rest = rotated, ratio, coff, 1e-6, rotation, 1, 4 * 2 * coff * width
        result = np.asarray(
            ops.compressor(np.concatenate(parts), wkv, wgate, cache, ape, norm, *sides, *states, *rest)[1]
        )
        for row, (number, _) in enumerate(groups):
            rows[number].append(result[row].astype(np.float64))
        assert not result[len(groups) :].any()
    for x, got in zip(sequences, rows):
        keys = x.astype(np.float64) @ wkv.T.astype(np.float64)
        scores = x.astype(np.float64) @ wgate.T.astype(np.float64) + ape[np.arange(len(x)) % ratio]
        for group, result in enumerate(got):
            here = slice(group * ratio, group * ratio + ratio)
            of_keys, of_scores = keys[here, (coff - 1) * width :], scores[here, (coff - 1) * width :]
            if coff == 2 and group:
                before = slice(here.start - ratio, here.start)
                of_keys = np.concatenate([keys[before, :width], of_keys])
                of_scores = np.concatenate([scores[before, :width], of_scores])
            weights = np.exp(of_scores - of_scores.max(0))
            golden = (weights / weights.sum(0) * of_keys).sum(0)
            golden = golden / np.sqrt((golden**2).mean() + 1e-6) * norm.astype(np.float64)
            tail = golden[-rotated:].copy()
            cos, sin = np.cos(angles[group]), np.sin(angles[group])
            for i in range(rotated):
                if rotation == 1:
                    partner = -tail[i + rotated // 2] if i < rotated // 2 else tail[i - rotated // 2]
                else:
                    partner = -tail[i + 1] if i % 2 == 0 else tail[i - 1]
                golden[width - rotated + i] = tail[i] * cos[i] + partner * sin[i]
            assert np.abs(result - golden).max() < 5e-3 * max(np.abs(golden).max(), 1)
        assert len(got) == len(x) // ratio
