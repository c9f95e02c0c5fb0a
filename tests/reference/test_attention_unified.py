"""Flash attention in its newest versions, query by query in float64, and its gradients against torch."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from attention_tools import BF16, attend, close, hifloat8_numbers, numbers, wide

import ascend_aclnn as aclnn
from ascend_aclnn import ops

RNG = np.random.default_rng(18)
F32 = np.float32
FP8 = np.dtype(ml_dtypes.float8_e4m3fn)
A5 = "Ascend950PR_9599"


def i32(*values: Any) -> Any:
    return np.array(values, np.int32)


LENGTHS, KEYS = [5, 3], [20, 12]


def seen(mode: int, i: int, queries: int, keys: int) -> list[int]:
    own = keys - queries + i
    return [j for j in range(keys) if mode == 0 or (mode == 3 and j <= own) or (mode == 4 and own - 4 <= j <= own + 1)]


@pytest.mark.parametrize(
    "layouts",
    ["BSND BSND BSND", "BNSD BNSD BSND", "TND TND TND", "BSND PA_BBND BNSD", "TND PA_BNBD TND", "BNSD PA_NZ BNSD"],
)
@pytest.mark.parametrize("mode", [0, 3, 4])
def test_flash_attn(layouts: str, mode: int) -> None:
    layout_q, layout_kv, layout_out = layouts.split()
    q, k, v = numbers(RNG, 2, 5, 4, 64), numbers(RNG, 2, 20, 2, 64), numbers(RNG, 2, 20, 2, 64)
    given: dict[str, Any] = {}
    if layout_q == "TND":
        query = np.concatenate([q[b, :n] for b, n in enumerate(LENGTHS)])
        given["cu_seqlens_q"] = i32(0, 5, 8)
    else:
        query = q if layout_q == "BSND" else np.ascontiguousarray(q.swapaxes(1, 2))
        given["seqused_q"] = i32(*LENGTHS)
    if layout_kv == "TND":
        keys = [np.concatenate([x[b, :n] for b, n in enumerate(KEYS)]) for x in (k, v)]
        given["cu_seqlens_kv"] = i32(0, 20, 32)
    elif layout_kv.startswith("PA"):
        keys = []
        for x in (k, v):
            pages = np.zeros((5, 16, 2, 64), BF16)
            pages[3], pages[0, :4], pages[4, :12] = x[0, :16], x[0, 16:], x[1, :12]
            if layout_kv != "PA_BBND":
                pages = np.ascontiguousarray(pages.swapaxes(1, 2))
            if layout_kv == "PA_NZ":
                pages = np.ascontiguousarray(pages.reshape(5, 2, 16, 4, 16).swapaxes(2, 3))
            keys.append(pages)
        given |= {"block_table": i32([3, 0], [4, 4]), "seqused_kv": i32(*KEYS)}
    else:
        keys = [x if layout_kv == "BSND" else np.ascontiguousarray(x.swapaxes(1, 2)) for x in (k, v)]
        given["seqused_kv"] = i32(*KEYS)
    mask = np.triu(np.ones((2048, 2048), np.int8), 1) if mode else None
    out, lse = ops.flash_attn(
        query, *keys, attn_mask=mask, softmax_scale=0.125, mask_mode=mode, win_left=4 if mode == 4 else -1,
        win_right=1 if mode == 4 else -1, max_seqlen_q=-1, max_seqlen_kv=-1, layout_q=layout_q, layout_kv=layout_kv,
        layout_out=layout_out, return_softmax_lse=1, **given,
    )  # fmt: skip
    for b in range(2):
        for i in range(LENGTHS[b]):
            tokens = seen(mode, i, LENGTHS[b], KEYS[b])
            for head in range(4):
                own, values = k[b, tokens, head // 2], v[b, tokens, head // 2]
                result, _ = attend(q[b, i, head], own, values, 0.125)
                found = (
                    out[b * 5 + i, head]
                    if layout_out == "TND"
                    else out[b, head, i]
                    if layout_out == "BNSD"
                    else out[b, i, head]
                )
                close(found, result)
                s = wide(own) @ wide(q[b, i, head]) * 0.125
                sums = lse[b * 5 + i, head] if layout_q == "TND" else lse[b, head, i]
                assert sums == pytest.approx(s.max() + np.log(np.exp(s - s.max()).sum()), rel=1e-4)


def test_a_query_that_sees_nothing() -> None:
    q, k = numbers(RNG, 1, 4, 1, 64), numbers(RNG, 1, 2, 1, 64)
    out, lse = ops.flash_attn(
        q, k, k, attn_mask=np.zeros((2048, 2048), np.int8), softmax_scale=1.0, mask_mode=3, win_left=-1, win_right=-1,
        max_seqlen_q=-1, max_seqlen_kv=-1, layout_q="BSND", layout_kv="BSND", layout_out="BSND", return_softmax_lse=1,
    )  # fmt: skip
    assert not out[0, :2].any()
    assert np.isposinf(lse[0, 0, :2]).all()
    assert np.isfinite(lse[0, 0, 2:]).all()


@pytest.mark.parametrize("paged", [False, True])
def test_quantised_by_microscaling(paged: bool) -> None:
    """Queries and keys have a power of two for each 32 elements, values one for each 32 tokens."""
    e8m0 = np.dtype(ml_dtypes.float8_e8m0fnu)
    q, k, v = (
        numbers(RNG, 3, 2, 128, dtype=FP8),
        numbers(RNG, 128, 1, 128, dtype=FP8),
        numbers(RNG, 128, 1, 128, dtype=FP8),
    )
    powers = [np.exp2(RNG.integers(-2, 2, s)).astype(F32) for s in ((3, 2, 2, 2), (128, 1, 2, 2), (2, 1, 128, 2))]
    whole_q = wide(q) * np.repeat(powers[0].reshape(3, 2, 4), 32, -1)
    whole_k = wide(k) * np.repeat(powers[1].reshape(128, 1, 4), 32, -1)
    whole_v = np.array(
        [[wide(v)[t, 0, d] * powers[2][t // 64, 0, d, t % 64 // 32] for d in range(128)] for t in range(128)]
    )
    given: dict[str, Any] = {"cu_seqlens_q": i32(0, 3)}
    if paged:
        order = i32([1, 0])
        k, v = (np.ascontiguousarray(x.reshape(2, 64, 1, 128)[::-1].swapaxes(1, 2)) for x in (k, v))
        powers[1] = np.ascontiguousarray(powers[1].reshape(2, 64, 1, 2, 2)[::-1].swapaxes(1, 2))
        powers[2] = np.ascontiguousarray(powers[2][::-1].reshape(2, 1, 1, 128, 2))
        given |= {"block_table": order, "seqused_kv": i32(128)}
    else:
        given["cu_seqlens_kv"] = i32(0, 128)
    with aclnn.use_backend("numpy", soc=A5):
        out, _ = ops.quant_flash_attn(
            q, k, v, *(p.astype(e8m0) for p in powers), quant_mode=1, softmax_scale=0.05, mask_mode=0, win_left=-1,
            win_right=-1, max_seqlen_q=-1, max_seqlen_kv=-1, layout_q="TND", layout_q_descale="TND",
            layout_kv="PA_BNBD" if paged else "TND", layout_out="TND", return_softmax_lse=False, **given,
        )  # fmt: skip
    for i in range(3):
        for head in range(2):
            close(out[i, head], attend(whole_q[i, head], whole_k[:, 0], whole_v, 0.05)[0])


def test_quantised_by_token_and_head() -> None:
    q, k, v = (
        numbers(RNG, 3, 2, 128, dtype=FP8),
        numbers(RNG, 2, 1, 16, 128, dtype=FP8),
        numbers(RNG, 2, 1, 16, 128, dtype=FP8),
    )
    sq, sk, sv = (np.abs(numbers(RNG, *s, dtype=F32)) for s in ((2, 3), (2, 1, 16), (1,)))
    with aclnn.use_backend("numpy", soc=A5):
        out, lse = ops.quant_flash_attn(
            q, k, v, sq, sk, sv, block_table=i32([1, 0]), cu_seqlens_q=i32(0, 3), seqused_kv=i32(20), quant_mode=6,
            softmax_scale=0.05, mask_mode=3, win_left=-1, win_right=-1, max_seqlen_q=-1, max_seqlen_kv=-1, layout_q="TND",
            layout_q_descale="NT", layout_kv="PA_BNBD", layout_out="TND", return_softmax_lse=True,
        )  # fmt: skip
    keys = (wide(k) * sk[..., None])[::-1, 0].reshape(32, 128)
    values = (wide(v) * sv[0])[::-1, 0].reshape(32, 128)
    assert lse.shape == (2, 3)
    for i in range(3):
        for head in range(2):
            close(out[i, head], attend(wide(q)[i, head] * sq[head, i], keys[: 18 + i], values[: 18 + i], 0.05)[0])


@pytest.mark.parametrize("layout", ["BSND", "BNSD", "BSH", "SBH", "TND"])
def test_flash_attention_score_v4_and_its_gradients(layout: str) -> None:
    torch = pytest.importorskip("torch", reason="gradients are checked against torch")
    batch, queries, keys, heads, kv_heads, width, rope, scale = 2, 4, 6, 4, 2, 32, 16, 0.2
    shapes = (
        (queries, heads, width),
        (keys, kv_heads, width),
        (keys, kv_heads, width),
        (queries, heads, rope),
        (keys, kv_heads, rope),
    )
    whole = [numbers(RNG, batch, *s) for s in shapes]
    sink, mask = numbers(RNG, heads, dtype=F32), np.triu(np.ones((queries, keys), bool), 3)
    with_rope = layout == "TND"  # rotated parts are packed ones only

    def lay(x: Any) -> Any:
        if layout == "TND":
            return x.reshape(-1, *x.shape[2:])
        if layout == "BNSD":
            return np.ascontiguousarray(x.swapaxes(1, 2))
        flat = x if layout == "BSND" else x.reshape(*x.shape[:2], -1)
        return np.ascontiguousarray(flat.swapaxes(0, 1)) if layout == "SBH" else flat

    q, k, v, qr, kr = map(lay, whole)
    ends = ([queries, 2 * queries], [keys, 2 * keys]) if layout == "TND" else (None, None)
    ropes = (qr, kr) if with_rope else (None, None)
    tail: dict[str, Any] = {
        "scale_value": scale, "keep_prob": 1.0, "pre_tokens": 2**31 - 1, "next_tokens": 2**31 - 1, "head_num": heads,
        "input_layout": layout, "inner_precise": 0, "sparse_mode": 1, "out_dtype": 0, "pse_type": 1, "seed": 0, "offset": 0,
        "actual_seq_q_len": ends[0], "actual_seq_kv_len": ends[1], "atten_mask": mask,
    }  # fmt: skip
    with aclnn.use_backend("numpy", soc=A5):
        actual = ops.flash_attention_score_v4(
            q, k, v, query_rope=ropes[0], key_rope=ropes[1], sink=sink, softmax_out_layout="same_as_input", **tail
        )
        row_max, row_sum, _, out = actual
        grad = numbers(RNG, batch, queries, heads, width)
        gradients = ops.flash_attention_score_grad_v4(
            q, k, v, lay(grad), softmax_max=row_max, softmax_sum=row_sum, attention_in=out, sink_in=sink,
            query_rope=ropes[0], key_rope=ropes[1], softmax_in_layout="", **tail,
        )  # fmt: skip
    tq, tk, tv, tqr, tkr = (torch.tensor(wide(x), requires_grad=True) for x in whole)
    ts = torch.tensor(wide(sink), requires_grad=True)
    query = torch.cat([tq, tqr], -1) if with_rope else tq
    key = torch.cat([tk, tkr], -1) if with_rope else tk
    key, value = (x.repeat_interleave(heads // kv_heads, 2) for x in (key, tv))
    scores = torch.einsum("bind,bjnd->bnij", query, key) * scale
    scores = scores.masked_fill(torch.tensor(mask), -torch.inf)
    with_sink = torch.cat([scores, ts.view(1, -1, 1, 1).expand(batch, heads, queries, 1)], -1)
    wanted = torch.einsum("bnij,bjnd->bind", with_sink.softmax(-1)[..., :-1], value)
    close(out, lay(wanted.detach().numpy()))
    wanted.backward(torch.tensor(wide(grad)))
    pairs = [(gradients.dq, tq), (gradients.dk, tk), (gradients.dv, tv)]
    pairs += [(gradients.dq_rope, tqr), (gradients.dk_rope, tkr)] if with_rope else []
    for found, tensor in pairs:
        close(found, lay(tensor.grad.numpy()), 2.0**-6)
    np.testing.assert_allclose(gradients.dsink, ts.grad.numpy(), rtol=0.05, atol=1e-2)


@pytest.mark.long
def test_quant_flash_attention_score() -> None:
    """Codes times scales of 128 queries, 256 keys and 512 values; the device rounds its probabilities to HIFLOAT8 as well."""
    heads, queries, keys, width, scale = 40, 7200, 512, 128, 0.05  # as tiling asks for
    q, k, v = (hifloat8_numbers(RNG, 1, n, heads, width) for n in (queries, keys, keys))
    scales = [
        np.exp2(RNG.normal(0, 0.5, (1, heads, -(-n // block), 1))).astype(F32)
        for n, block in ((queries, 128), (keys, 256), (keys, 512))
    ]
    with aclnn.use_backend("numpy", soc=A5):
        row_max, row_sum, nothing, out = ops.quant_flash_attention_score(
            q, k, v, None, *scales, np.ones(1, F32), scale, 2**31 - 1, 2**31 - 1, heads, "BSND", 0
        )
    assert nothing.size == 0 and row_max.shape == row_sum.shape == (1, heads, queries, 1)
    for i in (0, 127, 128, 4000, 7199):
        for head in (0, 17, 39):
            query = wide(q[0, i, head]) * scales[0][0, head, i // 128]
            key = wide(k[0, :, head]) * scales[1][0, head, np.arange(keys) // 256]
            value = wide(v[0, :, head]) * scales[2][0, head, np.arange(keys) // 512]
            close(out[0, i, head], attend(query, key, value, scale)[0])
            scores = key @ query * scale
            assert row_max[0, head, i, 0] == pytest.approx(scores.max(), rel=1e-5)
            assert row_sum[0, head, i, 0] == pytest.approx(np.exp(scores - scores.max()).sum(), rel=1e-5)
