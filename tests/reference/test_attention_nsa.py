"""Native sparse attention against its formulas, query by query in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from attention_tools import BF16, attend, close, numbers, wide

from ascend_aclnn import AclError, ops

RNG = np.random.default_rng(11)


def test_compress() -> None:
    x, weight, ends = numbers(RNG, 84, 2, 16), numbers(RNG, 32, 2), [50, 84]
    out = ops.nsa_compress(x, weight, ends, "TND", 32, 16, 0)
    expected = [
        (wide(x[a : a + 32]) * wide(weight)[:, :, None]).sum(0)
        for a in (0, 16, 50)  # 2 windows of 50, 1 of 34 tokens
    ]
    close(out, np.stack(expected))


def test_compress_grad_is_the_transpose() -> None:
    x, weight, ends = numbers(RNG, 84, 2, 16), numbers(RNG, 32, 2), [50, 84]
    grad = numbers(RNG, 3, 2, 16)
    dx, dweight = ops.nsa_compress_grad(grad, x, weight, ends, 32, 16, 0, "TND")
    change, change_of_weight = numbers(RNG, *x.shape), numbers(RNG, *weight.shape)

    def loss(a: Any, w: Any) -> float:
        return sum(
            float((wide(grad[i]) * (wide(a[s : s + 32]) * wide(w)[:, :, None]).sum(0)).sum())
            for i, s in enumerate((0, 16, 50))
        )

    assert float((wide(dx) * wide(change)).sum()) == pytest.approx(loss(change, weight), rel=0.02, abs=0.5)
    assert float((wide(dweight) * wide(change_of_weight)).sum()) == pytest.approx(
        loss(x, change_of_weight), rel=0.02, abs=0.5
    )


@pytest.mark.parametrize("paged", [False, True])
def test_compress_with_cache(paged: bool) -> None:
    lengths, size, stride = [48, 40, 80], 32, 16
    whole = [numbers(RNG, n, 2, 16) for n in lengths]
    weight, cache = numbers(RNG, size, 2), np.full((12, 2, 16), 7, BF16)
    if paged:
        x, table = np.zeros((6, 64, 2, 16), BF16), np.array([[4, 0], [2, 0], [1, 5]], np.int32)
        for rows, tokens in zip(table, whole):
            for i in range(len(tokens)):
                x[rows[i // 64], i % 64] = tokens[i]
    else:
        x, table = np.concatenate(whole), None
    slots = np.array([3, 4, 9], np.int32)
    ops.nsa_compress_with_cache(x, weight, slots, lengths, table, "TND", size, stride, 1, 64, out=cache)
    for slot, tokens, complete in zip(slots, whole, (True, False, True)):
        expected = (wide(tokens[-size:]) * wide(weight)[:, :, None]).sum(0) if complete else np.full((2, 16), 7.0)
        close(cache[slot], expected)
    assert (cache[[0, 1, 2, 5]] == 7).all()


def importance(probabilities: Any, per_block: int, per_window: int, blocks: int, shift: int) -> Any:
    """The document's sum, window by window; blocks count from 1, and windows that are not there are 0."""
    found = np.zeros(blocks)
    for block in range(blocks):
        for m in range(per_block):
            for n in range(per_window):
                window = per_block * (block + 1) - m - n - shift
                found[block] += probabilities[window] if 0 <= window < len(probabilities) else 0
    return found


@pytest.mark.parametrize("window", [16, 32])
@pytest.mark.parametrize("forced", [False, True])
def test_compress_attention(window: int, forced: bool) -> None:
    stride, block, count = 16, 32, 3
    lengths, windows = [5, 7], [9, 6]
    q, k, v = numbers(RNG, 12, 4, 16), numbers(RNG, 15, 2, 16), numbers(RNG, 15, 2, 8)
    mask, topk_mask = np.zeros((7, 9), bool), np.zeros((7, 5), bool)
    mask[1, 3:] = True
    topk_mask[2, 2] = forced
    row_max, row_sum, out, chosen = ops.nsa_compress_attention(
        q,
        k,
        v,
        mask,
        topk_mask if forced else None,
        [5, 12],
        [9, 15],
        [5, 8],
        0.25,
        4,
        "TND",
        1,
        window,
        stride,
        block,
        count,
    )
    for batch, (first, first_key) in enumerate(((0, 0), (5, 9))):
        for i in range(lengths[batch]):
            seen = 3 if i == 1 else windows[batch]
            scores = np.zeros((2, -(-windows[batch] // 2)))
            for head in range(4):
                keys, values = (x[first_key : first_key + seen, head // 2] for x in (k, v))
                result, p = attend(q[first + i, head], keys, values, 0.25)
                close(out[first + i, head], result)
                s = wide(keys) @ wide(q[first + i, head]) * 0.25
                close(row_max[first + i, head], np.full(8, s.max()), 1e-4)
                close(row_sum[first + i, head], np.full(8, np.exp(s - s.max()).sum()), 1e-4)
                p = np.concatenate([p, np.zeros(windows[batch] - seen)])
                scores[head // 2] += importance(
                    p, block // stride, window // stride, scores.shape[1], int(window == 16)
                )
            if forced and i == 2:
                scores[:, 2] = np.inf
            for head in range(2):
                assert (
                    list(chosen[first + i, head])
                    == sorted(range(scores.shape[1]), key=lambda b: -scores[head, b])[:count]
                )


def test_compress_attention_hides_everything_evenly() -> None:
    q, k, v = numbers(RNG, 2, 1, 16), numbers(RNG, 4, 1, 16), numbers(RNG, 4, 1, 16)
    out = ops.nsa_compress_attention(
        q, k, v, np.array([[True] * 4, [False] * 4]), None, [2], [4], [2], 1.0, 1, "TND", 1, 16, 16, 32, 1
    )
    close(out[2][0, 0], wide(v).mean((0, 1)))


def test_compress_attention_takes_masks_of_bytes() -> None:
    """As the document's example passes them."""
    q, k, v = numbers(RNG, 5, 1, 16), numbers(RNG, 9, 1, 16), numbers(RNG, 9, 1, 16)
    masks = np.triu(np.ones((5, 9), bool), 3), np.eye(5, dtype=bool)
    rest = ([5], [9], [5], 0.25, 1, "TND", 1, 16, 16, 32, 3)
    expected = ops.nsa_compress_attention(q, k, v, *masks, *rest)
    for types in ((np.uint8, np.uint8), (bool, np.uint8), (np.uint8, bool)):
        found = ops.nsa_compress_attention(q, k, v, *(m.astype(t) for m, t in zip(masks, types)), *rest)
        for one, other in zip(found, expected):
            np.testing.assert_array_equal(one, other)


def test_more_blocks_than_there_are() -> None:
    q, k, v = numbers(RNG, 2, 1, 16), numbers(RNG, 4, 1, 16), numbers(RNG, 4, 1, 16)
    with pytest.raises(AclError, match="select_block_count is 3; a sequence has 2 blocks only"):
        ops.nsa_compress_attention(q, k, v, None, None, [2], [4], [2], 1.0, 1, "TND", 0, 16, 16, 32, 3)


def into_pages(x: Any, lengths: list[int], size: int) -> tuple[Any, Any]:
    """Sequences (batch, tokens, ...) in pages, in an order that is not theirs."""
    most = max(-(-n // size) for n in lengths)
    order = RNG.permutation(len(lengths) * most).astype(np.int32)
    table = order.reshape(len(lengths), most)
    pages = np.zeros((len(order), size, *x.shape[2:]), x.dtype)
    for b, n in enumerate(lengths):
        for i in range(n):
            pages[table[b, i // size], i % size] = x[b, i]
    return pages, table


@pytest.mark.parametrize("layout", ["TND", "BSND"])
def test_compress_attention_infer(layout: str) -> None:
    window, stride, block, count, lengths = 32, 16, 32, 4, [20, 13]
    k, v = numbers(RNG, 2, 20, 2, 16), numbers(RNG, 2, 20, 2, 8)
    (keys, table), values = into_pages(k, lengths, 16), None
    values = np.zeros((*keys.shape[:3], 8), BF16)
    for b, n in enumerate(lengths):
        for i in range(n):
            values[table[b, i // 16], i % 16] = v[b, i]
    q = numbers(RNG, 4, 4, 16)
    whole = [(n - 1) * stride + window for n in lengths]  # before compression
    out, chosen = ops.nsa_compress_attention_infer(
        q if layout == "TND" else q.reshape(2, 2, 4, 16),
        keys.reshape(*keys.shape[:2], -1),
        values.reshape(*values.shape[:2], -1),
        np.zeros((2, 2), bool),
        table,
        [2, 2],
        lengths,
        [whole[0], whole[1] + 5],
        None,
        4,
        2,
        block,
        count,
        window,
        stride,
        0.25,
        layout,
        16,
        0,
    )
    out, chosen = out.reshape(4, 4, 8), chosen.reshape(4, 2, count)
    for row in range(4):
        b, place = divmod(row, 2)
        # The first sequence ends with its last window, so the query before its last does not see that window.
        seen = lengths[b] - (1 if b == 0 and place == 0 else 0)
        blocks = -(-whole[b] // block)
        scores = np.zeros((2, blocks))
        for head in range(4):
            result, p = attend(q[row, head], k[b, :seen, head // 2], v[b, :seen, head // 2], 0.25)
            close(out[row, head], result)
            p = np.concatenate([p, np.zeros(lengths[b] - seen)])
            scores[head // 2] += importance(p, 2, 2, blocks, 0)
        scores[:, [0, -2, -1]] = np.inf
        for head in range(2):
            assert list(chosen[row, head]) == sorted(range(blocks), key=lambda j: -scores[head, j])[:count]


def selected_case() -> Any:
    q, k, v = numbers(RNG, 6, 4, 192), numbers(RNG, 128, 2, 192), numbers(RNG, 128, 2, 128)
    blocks = np.stack([[RNG.permutation(4)[:2] for _ in range(2)] for _ in range(6)]).astype(np.int32)
    blocks[0, 0] = [0, 3]
    return q, k, v, blocks, [2, 6], [64, 128]


@pytest.mark.parametrize("causal", [False, True])
def test_selected_attention_and_its_gradients(causal: bool) -> None:
    q, k, v, blocks, ends, key_ends = selected_case()
    if causal:
        blocks[:, :, 0] = 0  # something is always seen
        blocks[:, :, 1] = RNG.integers(1, 4, (6, 2))
    mask, mode, scale = (np.zeros((2, 2), np.uint8), 2, 0.05) if causal else (None, 0, 0.05)
    row_max, row_sum, out = ops.nsa_selected_attention(
        q, k, v, blocks, mask, ends, key_ends, scale, 4, "TND", mode, 16, 2
    )
    grad = numbers(RNG, *out.shape)
    dq, dk, dv = ops.nsa_selected_attention_grad(
        q, k, v, out, grad, row_max, row_sum, blocks, ends, key_ends, mask, scale, 16, 2, 4, "TND", mode
    )
    want = np.zeros(q.shape), np.zeros(k.shape), np.zeros(v.shape)
    for row in range(6):
        place, first = (row, 0) if row < 2 else (row - 2, 64)
        for head in range(4):
            tokens = [b * 16 + i for b in blocks[row, head // 2] for i in range(16)]
            tokens = [first + t for t in tokens if not causal or t <= place]
            result, p = attend(q[row, head], k[tokens, head // 2], v[tokens, head // 2], scale)
            close(out[row, head], result)
            dy = wide(grad[row, head])
            dp = np.array([dy @ wide(v[t, head // 2]) for t in tokens])
            ds = p * (dp - p @ dp) * scale
            for t, pt, dst in zip(tokens, p, ds):
                want[0][row, head] += dst * wide(k[t, head // 2])
                want[1][t, head // 2] += dst * wide(q[row, head])
                want[2][t, head // 2] += pt * dy
    for actual, expected in zip((dq, dk, dv), want):
        close(actual, expected, 2.0**-7)


@pytest.mark.parametrize("layout", ["TND", "BSND", "BSH"])
def test_selected_attention_infer(layout: str) -> None:
    lengths = [100, 75]
    k, v = numbers(RNG, 2, 100, 2, 192), numbers(RNG, 2, 100, 2, 128)
    keys, table = into_pages(k, lengths, 64)
    values = np.zeros((*keys.shape[:3], 128), BF16)
    for b, n in enumerate(lengths):
        for i in range(n):
            values[table[b, i // 64], i % 64] = v[b, i]
    q = numbers(RNG, 4, 4, 192)
    blocks = np.array([[[0, 3, 6], [6, -1, -1]], [[6, 5, 0], [1, 2, 3]]] * 2, np.int32)
    blocks[2:] -= blocks[2:] == 6  # the second sequence has 5 blocks
    blocks[2:] -= blocks[2:] == 5
    shaped = {"TND": q, "BSND": q.reshape(2, 2, 4, 192), "BSH": q.reshape(2, 2, 4 * 192)}[layout]
    merged = [x if layout == "BSND" else x.reshape(*x.shape[:2], -1) for x in (keys, values)]
    out = ops.nsa_selected_attention_infer(
        shaped,
        *merged,
        blocks if layout == "TND" else blocks.reshape(2, 2, 2, 3),
        None,
        table,
        [2, 2],
        lengths,
        layout,
        4,
        2,
        16,
        3,
        64,
        0.05,
        0,
    )
    out = out.reshape(4, 4, 128)
    for row in range(4):
        b, place = divmod(row, 2)
        for head in range(4):
            tokens = [j * 16 + i for j in blocks[row, head // 2] if j >= 0 for i in range(16)]
            tokens = [t for t in tokens if t < lengths[b] - (1 - place)]
            result, _ = attend(q[row, head], k[b, tokens, head // 2], v[b, tokens, head // 2], 0.05)
            close(out[row, head], result)


def test_gradients_take_the_output_of_all_keys() -> None:
    """The kernel's SoftmaxGradFront(attentionOutGrad, attentionOut): the output may be one of more keys than there are here."""
    q, k, v, blocks, ends, key_ends = selected_case()
    row_max, row_sum, _ = ops.nsa_selected_attention(q, k, v, blocks, None, ends, key_ends, 0.05, 4, "TND", 0, 16, 2)
    out, grad = numbers(RNG, 6, 4, 128), numbers(RNG, 6, 4, 128)
    dq = ops.nsa_selected_attention_grad(
        q, k, v, out, grad, row_max, row_sum, blocks, ends, key_ends, None, 0.05, 16, 2, 4, "TND", 0
    )[0]
    for row, head in ((0, 0), (5, 3)):
        first = 0 if row < 2 else 64
        tokens = [first + b * 16 + i for b in blocks[row, head // 2] for i in range(16)]
        keys, values = (wide(x[tokens, head // 2]) for x in (k, v))
        p, dy = attend(q[row, head], keys, values, 0.05)[1], wide(grad[row, head])
        close(dq[row, head], (p * (values @ dy - dy @ wide(out[row, head])) * 0.05) @ keys, 2.0**-7)


def test_compress_attention_by_its_other_name() -> None:
    q, k, v = numbers(RNG, 4, 2, 16), numbers(RNG, 4, 1, 16), numbers(RNG, 4, 1, 16)
    arguments = (q, k, v, np.zeros((4, 4), bool), None, [4], [4], [2], 1.0, 2, "TND", 1, 16, 16, 32, 1)
    for one, other in zip(ops.nsa_compress_attention_var_len_score(*arguments), ops.nsa_compress_attention(*arguments)):
        np.testing.assert_array_equal(one, other)
