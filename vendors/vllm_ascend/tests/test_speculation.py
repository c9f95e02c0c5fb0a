"""Drafts of speculative decoding, token by token."""

from __future__ import annotations

import numpy as np
import pytest
import vllm_ascend_operators  # noqa: F401 - declares the operators

import ascend_aclnn as aclnn
from ascend_aclnn import ops

PADDING, DRAFTING = -7, 99


def expand(tokens, positions, next_tokens, starts, ends, slots, shift):
    """The six outputs of eagle's inputs, a request at a time."""
    ids, places, rejected, masked, new, mapping = [], [], [], [], [], []
    for request, (start, end, following) in enumerate(zip(starts, ends, starts[1:])):
        begin = len(ids)
        mapping += range(begin, begin + following - start)
        accepted = [int(token) for token in tokens[start + shift : end + 1]]
        rows = [(token, False, False) for token in [*accepted, next_tokens[request]]]
        rows += [(DRAFTING, False, True)] * (slots - 1)
        new += range(begin + len(accepted), begin + len(rows))
        for row, (token, _, masked_here) in enumerate(rows):
            ids.append(token)
            places.append(positions[start] + row)
            rejected.append(0)
            masked.append(int(masked_here))
        for _ in range(following - end - 1):
            ids.append(PADDING)
            places.append(0)
            rejected.append(1)
            masked.append(0)
    return ids, places, rejected, masked, new, mapping if shift else [0] * len(tokens)


@pytest.mark.parametrize("shift", [False, True])
@pytest.mark.parametrize("slots", [1, 3])
def test_copy_and_expand_eagle_inputs(aclnn_backend, shift, slots):
    starts, ends = np.array([0, 3, 4, 9], np.int32), np.array([2, 3, 6], np.int32)  # the last has two rejected tokens
    tokens = np.arange(100, 109, dtype=np.int32)
    positions = np.array([5, 6, 7, 20, 0, 1, 2, 3, 4], np.int32)
    next_tokens = np.array([11, 12, 13], np.int32)
    arguments = tokens, positions, next_tokens, starts, ends, PADDING, DRAFTING, slots, shift, len(tokens)
    results = ops.copy_and_expand_eagle_inputs(*arguments)
    golden = expand(tokens, positions, next_tokens, starts, ends, slots, int(shift))
    assert [result.tolist() for result in results] == [list(map(int, values)) for values in golden]


def test_queries_that_fall_are_refused(aclnn_backend):
    ones = np.ones(4, np.int32)
    with pytest.raises(aclnn.AclError, match="it must rise from 0 to at most 4"):
        ops.copy_and_expand_eagle_inputs(
            ones, ones, ones, np.array([0, 5], np.int32), np.array([3], np.int32), 0, 0, 1, False, 4
        )
        aclnn.synchronize()


def test_ngram_spec_decode(aclnn_backend):
    """Row 0 repeats three tokens, row 1 one token; row 2 is discarded; row 3 has no room; the word 50 is outside."""
    tokens = np.zeros((4, 10), np.int32)
    tokens[0, :7] = [1, 2, 3, 9, 8, 1, 2]
    tokens[1, :5] = [4, 5, 4, 6, 7]
    tokens[2, :3] = [1, 1, 1]
    tokens[3] = np.arange(10)
    lengths = np.array([7, 5, 3, 10], np.int32)
    sampled = np.array([[3, -1], [4, 50], [1, 1], [1, 2]], np.int32)
    discard = np.array([0, 0, 1, 0], np.int32)
    after, following, drafts, counts = ops.ngram_spec_decode(tokens, lengths, sampled, discard, 50, 1, 3, 4)
    expected = tokens.copy()
    expected[0, 7], expected[1, 5] = 3, 4
    assert after.tolist() == expected.tolist() and following.tolist() == [3, 4, 1, 9]
    assert drafts.tolist() == [[9, 8, 1, 2], [5, 4, 6, 7], [-1] * 4, [-1] * 4] and counts.tolist() == [4, 4, 0, 0]


def test_ngram_spec_decode_drafts_as_a_search_does(aclnn_backend):
    random = np.random.default_rng(9)
    tokens = random.integers(0, 3, (6, 40), dtype=np.int32)
    lengths = random.integers(5, 38, 6, dtype=np.int32)
    sampled = random.integers(0, 3, (6, 2), dtype=np.int32)
    after, _, drafts, counts = ops.ngram_spec_decode(tokens, lengths, sampled, np.zeros(6, np.int32), 3, 2, 4, 5)
    for row in range(6):
        text = [*tokens[row, : lengths[row]], *sampled[row]]
        assert after[row, : len(text)].tolist() == text
        found = [
            (size, start)
            for size in (4, 3, 2)
            for start in range(len(text) - size)
            if text[start : start + size] == text[-size:]
        ]
        draft = text[found[0][0] + found[0][1] :][:5] if found else []
        assert drafts[row].tolist() == [*draft, *[-1] * (5 - len(draft))] and counts[row] == len(draft)
