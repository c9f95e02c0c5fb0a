"""Attention to chosen blocks, query by query in float64; Floyd attention and its gradients against torch."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from attention_tools import attend, close, numbers, wide

import ascend_aclnn as aclnn
from ascend_aclnn import ops

RNG = np.random.default_rng(17)
F32 = np.float32
FP8 = np.dtype(ml_dtypes.float8_e4m3fn)
WIDE = 2**31 - 1


def lay(x: Any, layout: str, lengths: list[int]) -> Any:
    """(batch, heads, tokens, width) in a layout."""
    if layout == "BNSD":
        return x
    turned = np.ascontiguousarray(x.swapaxes(1, 2))
    return turned if layout == "BSND" else np.concatenate([turned[b, :n] for b, n in enumerate(lengths)])


def row_of(y: Any, layout: str, lengths: list[int], b: int, head: int, i: int) -> Any:
    return y[b, head, i] if layout == "BNSD" else y[b, i, head] if layout == "BSND" else y[sum(lengths[:b]) + i, head]


def case(width: int = 64) -> Any:
    lengths, key_lengths = [20, 13], [300, 200]
    q, k, v = numbers(RNG, 2, 4, 20, width), numbers(RNG, 2, 2, 300, width), numbers(RNG, 2, 2, 300, width)
    mask = (RNG.random((2, 4, 3, 3)) < 0.5).astype(np.int8)
    mask[:, :, :, 0] |= (mask[:, :, :, :2].sum(-1) == 0).astype(np.int8)
    mask[0, 0, 1] = 0
    return q, k, v, mask, lengths, key_lengths


def chosen_tokens(mask: Any, b: int, head: int, i: int, there: int) -> list[int]:
    return [t for t in range(there) if mask[b, head, i // 8, t // 128]]


@pytest.mark.parametrize("layout", ["BNSD", "BSND", "TND"])
def test_block_sparse_attention_and_its_gradients(layout: str) -> None:
    q, k, v, mask, lengths, key_lengths = case()
    laid = lay(q, layout, lengths), *(lay(x, layout, key_lengths) for x in (k, v))
    tail = (layout, layout, 2, 0, 0.125)
    out, lse = ops.block_sparse_attention(
        *laid, mask, None, [8, 128], lengths, key_lengths, None, *tail, 0, 0, WIDE, WIDE, 1
    )
    grad = numbers(RNG, *q.shape)
    soc = "Ascend950PR_9599" if layout == "BSND" else "Ascend910B1"
    with aclnn.use_backend("numpy", soc=soc):
        actual = ops.block_sparse_attention_grad(
            lay(grad, layout, lengths), *laid, out, lse, mask.astype(bool), None, [8, 128], lengths, key_lengths, *tail,
            WIDE, WIDE,
        )  # fmt: skip
    want = np.zeros(q.shape), np.zeros(k.shape), np.zeros(v.shape)
    for b in range(2):
        for head in range(4):
            for i in range(lengths[b]):
                tokens = chosen_tokens(mask, b, head, i, key_lengths[b])
                if not tokens:
                    assert not row_of(out, layout, lengths, b, head, i).any()
                    continue
                keys, values = k[b, head // 2, tokens], v[b, head // 2, tokens]
                result, p = attend(q[b, head, i], keys, values, 0.125)
                close(row_of(out, layout, lengths, b, head, i), result)
                s = wide(keys) @ wide(q[b, head, i]) * 0.125
                expected = s.max() + np.log(np.exp(s - s.max()).sum())
                assert row_of(lse, layout, lengths, b, head, i)[0] == pytest.approx(expected, rel=1e-4)
                dy = wide(grad[b, head, i])
                dp = wide(values) @ dy
                ds = p * (dp - p @ dp) * 0.125
                want[0][b, head, i] = ds @ wide(keys)
                want[1][b, head // 2, tokens] += np.outer(ds, wide(q[b, head, i]))
                want[2][b, head // 2, tokens] += np.outer(p, dy)
    for found, wanted, many in zip(actual, want, (lengths, key_lengths, key_lengths)):
        close(found, lay(wanted, layout, many), 2.0**-6)


def test_gradients_take_the_output_of_all_keys() -> None:
    """The document's dS = P * (dP - softmaxGrad(dOut, attentionOut)), with an output that other keys had a part in."""
    q, k, v, grad, out = (numbers(RNG, 1, 1, s, 128) for s in (8, 128, 128, 8, 8))
    lse = np.abs(numbers(RNG, 1, 1, 8, 1, dtype=F32)) + 9
    actual = ops.block_sparse_attention_grad(
        grad, q, k, v, out, lse, np.ones((1, 1, 1, 1), bool), None, [8, 128], None, None, "BNSD", "BNSD", 1, 0, 0.125,
        WIDE, WIDE,
    )  # fmt: skip
    rows, keys, values, dy = (wide(x[0, 0]) for x in (q, k, v, grad))
    p = np.exp(rows @ keys.T * 0.125 - wide(lse[0, 0]))
    ds = p * (dy @ values.T - (dy * wide(out[0, 0])).sum(-1, keepdims=True)) * 0.125
    for one, wanted in zip(actual, (ds @ keys, ds.T @ rows, p.T @ dy)):
        close(one[0, 0], wanted, 2.0**-6)


def test_a_gradient_refuses_a_mask_of_int8() -> None:
    """The forward pass takes INT8, and op_api of the gradient BOOL and UINT8 alone."""
    x, lse = numbers(RNG, 1, 1, 8, 128), np.zeros((1, 1, 8, 1), F32)
    with pytest.raises(aclnn.AclError, match=r"(?s)block_sparse_mask has dtype INT8.*161002"):
        ops.block_sparse_attention_grad(
            x, x, x, x, x, lse, np.ones((1, 1, 1, 1), np.int8), None, [8, 128], None, None, "BNSD", "BNSD", 1, 0, 0.1,
            WIDE, WIDE,
        )  # fmt: skip


@pytest.mark.parametrize("block", [[128, 128], [64, 256]], ids=str)
@pytest.mark.parametrize("version", [2, 3])
def test_block_sparse_attention_of_8_bits(version: int, block: list[int]) -> None:
    """One scale for each block of block_shape, as CANN's kernel takes them and its tiling checks their number."""
    q, k, v = (numbers(RNG, 1, h, s, 64, dtype=FP8) for h, s in ((2, 140), (1, 300), (1, 300)))
    rows, columns = -(-140 // block[0]), -(-300 // block[1])
    shapes = ((2, rows), (1, columns), (1, columns))
    scales = [np.abs(numbers(RNG, 1, h, n, 1, dtype=F32)) for h, n in shapes]
    mask = np.ones((1, 2, rows, columns), np.int8)
    more: dict[str, Any] = {"quant_mode": 1, "dst_type_max": 0.0} if version == 3 else {}
    with aclnn.use_backend("numpy", soc="Ascend950PR_9599"):
        function = getattr(ops, f"block_sparse_attention_v{version}")

        def attention(*factors: Any) -> Any:
            return function(
                q, k, v, mask, None, block, None, None, None, *factors, q_input_layout="BNSD", kv_input_layout="BNSD",
                num_key_value_heads=1, mask_type=0, scale_value=0.1, inner_precise=4, block_size=0, pre_tokens=WIDE,
                next_tokens=WIDE, softmax_lse_flag=0, **more,
            )  # fmt: skip

        out, _ = attention(*scales)
        with pytest.raises(aclnn.AclError, match=r"(?s)k_dequant_scale.*561002"):
            attention(scales[0], np.ones((1, 1, columns + 1, 1), F32), scales[2])
    whole = [wide(x)[0, 0] * np.repeat(wide(s)[0, 0], block[1], 0)[:300] for x, s in ((k, scales[1]), (v, scales[2]))]
    for head, i in ((0, 3), (1, 139), (0, 128)):
        query = wide(q[0, head, i]) * wide(scales[0])[0, head, i // block[0]]
        close(out[0, head, i], attend(query, *whole, 0.1)[0])


def test_rain_fusion_attention() -> None:
    q, k, v, mask, lengths, key_lengths = case(128)
    blocks = [3, 2]
    indices, counts = np.full((5, 4, 3), -1, np.int64), np.zeros((5, 4), np.int64)
    for b in range(2):
        for head in range(4):
            for block in range(blocks[b]):
                own = np.flatnonzero(mask[b, head, block, : -(-key_lengths[b] // 128)])
                row = sum(blocks[:b]) + block
                indices[row, head, : len(own)], counts[row, head] = own, len(own)
    out, _ = ops.rain_fusion_attention(
        lay(q, "TND", lengths), *(lay(x, "TND", key_lengths) for x in (k, v)), indices, counts, [8, 128], None, lengths,
        key_lengths, None, "TND", "TND", 2, 0, 0.09, 0, 0,
    )  # fmt: skip
    for b, head, i in ((0, 1, 2), (0, 3, 19), (1, 0, 0), (1, 2, 12)):
        tokens = chosen_tokens(mask, b, head, i, key_lengths[b])
        result, _ = attend(q[b, head, i], k[b, head // 2, tokens], v[b, head // 2, tokens], 0.09)
        close(row_of(out, "TND", lengths, b, head, i), result)


@pytest.mark.parametrize("partly", [False, True])
def test_choice_of_blocks(partly: bool) -> None:
    q, k = numbers(RNG, 1, 2, 256, 128), numbers(RNG, 1, 2, 128, 128)
    lengths = [64, 20, 7, 64], [64, 0] if partly else None
    counts = lengths if partly else (None, None)
    mask = ops.bsa_select_block_mask(q, k, [64, 64], None, None, None, *counts, "BNSD", "BNSD", 2, 0.1, 0.3)
    assert mask.shape == (1, 2, 4, 2)
    for head in range(2):
        scores = np.zeros((4, 2))
        for x in range(4):
            for y in range(2):
                rows = wide(q[0, head, x * 64 : x * 64 + (lengths[0][x] if partly else 64)])
                columns = wide(k[0, head, y * 64 : y * 64 + 64])
                scores[x, y] = rows.mean(0) @ columns.mean(0) * 0.1
        if partly:
            scores[:, 1] = -np.inf
        p = np.exp(scores - scores.max(-1, keepdims=True))
        p /= p.sum(-1, keepdims=True)
        count = round(0.3 * 8)
        best = sorted(p.reshape(-1), reverse=True)[:count]
        assert mask[0, head].sum() == count
        np.testing.assert_allclose(sorted(p[mask[0, head] == 1], reverse=True), best)


@pytest.mark.parametrize("masked", [False, True])
def test_floyd_attention_and_its_gradients(masked: bool) -> None:
    torch = pytest.importorskip("torch", reason="Floyd attention is checked against torch")
    b, h, n, m, k, d, scale = 2, 2, 3, 4, 5, 16, 0.25
    shapes = (b, h, n, m, d), (b, h, n, k, d), (b, h, n, k, d), (b, h, k, m, d), (b, h, k, m, d)
    arrays = [numbers(RNG, *s) for s in shapes]
    mask = (RNG.random((b, 1, n, 1, k)) < 0.3) & (np.arange(k) > 0) if masked else None
    row_max, row_sum, out = ops.fused_floyd_attention(*arrays, mask, scale)
    q, k1, v1, k2, v2 = (torch.tensor(wide(x), requires_grad=True) for x in arrays)
    scores = scale * (
        (q[..., None, :] * k1[:, :, :, None]).sum(-1) + (q[..., None, :] * k2.transpose(2, 3)[:, :, None]).sum(-1)
    )
    if masked:
        scores = scores.masked_fill(torch.tensor(mask), -torch.inf)
    p = scores.softmax(-1)
    wanted = (p[..., None] * v1[:, :, :, None]).sum(-2) + (p[..., None] * v2.transpose(2, 3)[:, :, None]).sum(-2)
    close(out, wanted.detach().numpy())
    np.testing.assert_allclose(row_max[..., 0], scores.max(-1).values.detach().numpy(), rtol=1e-4)
    grad = numbers(RNG, *out.shape)
    actual = ops.fused_floyd_attention_grad(*arrays, grad, mask, row_max, row_sum, out, scale)
    wanted.backward(torch.tensor(wide(grad)))
    for found, tensor in zip(actual, (q, k1, v1, k2, v2)):
        close(found, tensor.grad.numpy(), 2.0**-6)


def test_floyd_gradients_of_a_part_of_the_keys() -> None:
    """With statistics and output of the whole sequence, the parts' gradients of the queries sum up to the whole's."""
    torch = pytest.importorskip("torch", reason="Floyd attention is checked against torch")
    b, h, n, m, k, d, scale = 1, 2, 3, 4, 6, 16, 0.25
    shapes = (b, h, n, m, d), (b, h, n, k, d), (b, h, n, k, d), (b, h, k, m, d), (b, h, k, m, d)
    arrays = [numbers(RNG, *s) for s in shapes]
    row_max, row_sum, out = ops.fused_floyd_attention(*arrays, None, scale)
    q, k1, v1, k2, v2 = (torch.tensor(wide(x), requires_grad=True) for x in arrays)
    scores = scale * torch.einsum("bhnmd,bhnkd->bhnmk", q, k1) + scale * torch.einsum("bhnmd,bhkmd->bhnmk", q, k2)
    p = scores.softmax(-1)
    whole = torch.einsum("bhnmk,bhnkd->bhnmd", p, v1) + torch.einsum("bhnmk,bhkmd->bhnmd", p, v2)
    grad = numbers(RNG, *out.shape)
    whole.backward(torch.tensor(wide(grad)))
    parts = []
    for keys in (slice(0, 2), slice(2, 6)):
        some = [np.ascontiguousarray(x[:, :, :, keys]) for x in arrays[1:3]]
        some += [np.ascontiguousarray(x[:, :, keys]) for x in arrays[3:]]
        found = ops.fused_floyd_attention_grad(arrays[0], *some, grad, None, row_max, row_sum, out, scale)
        parts.append(found)
    close(sum(wide(part[0]) for part in parts), q.grad.numpy(), 2.0**-6)
    close(np.concatenate([wide(part[1]) for part in parts], 3), k1.grad.numpy(), 2.0**-6)
    close(np.concatenate([wide(part[3]) for part in parts], 2), k2.grad.numpy(), 2.0**-6)


def test_chosen_pages_of_a_cache() -> None:
    """Causal, from the ends of the sequences; a list of pages for each query and head of keys."""
    heads, of_keys, page = 4, 2, 128
    lengths, keys = [3, 2], [300, 150]
    q = numbers(RNG, sum(lengths), heads, 128)
    cache = [numbers(RNG, 7, page, of_keys, 128) for _ in range(2)]
    tables = np.array([[6, 1, 3], [0, 5, 2]], np.int32)
    lists = np.full((of_keys, sum(lengths), 3), -1, np.int32)
    counts = RNG.integers(1, 3, (of_keys, sum(lengths))).astype(np.int32)
    for head in range(of_keys):
        for token in range(sum(lengths)):
            there = 3 if token < 3 else 2
            lists[head, token, : counts[head, token]] = RNG.permutation(there)[: counts[head, token]]
    ends, key_ends = np.array([0, 3, 5]), np.array([0, 384, 640])
    used = np.array(keys, np.int32)
    plan = ops.generic_block_sparse_attention_metadata(
        lists,
        counts,
        ends,
        key_ends,
        None,
        used,
        3,
        384,
        heads,
        of_keys,
        128,
        [1, 128],
        1,
        "TND",
        "PA_BBND",
        1,
        0,
        0,
        -1,
        -1,
    )
    out = ops.generic_block_sparse_attention(
        q, *cache, lists, counts, plan, None, None, None, None, None, ends, key_ends, None, used, tables,
        [1, 128], 1, "TND", "PA_BBND", 0.0, 1, 0, 0.0, 0, -1, -1, 0,
    )[0]  # fmt: skip
    for b in range(2):
        whole = [x[tables[b]].reshape(-1, of_keys, 128) for x in cache]
        for i in range(lengths[b]):
            token = int(ends[b]) + i
            for head in range(heads):
                chosen = lists[head // 2, token, : counts[head // 2, token]]
                tokens = [t for block in chosen for t in range(block * page, (block + 1) * page)]
                tokens = [t for t in tokens if t <= keys[b] - lengths[b] + i]
                expected = (
                    attend(q[token, head], *(x[tokens, head // 2] for x in whole), 128**-0.5)[0]
                    if tokens
                    else np.zeros(128)
                )
                close(out[token, head], expected)
