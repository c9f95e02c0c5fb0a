"""Flash attention and its gradient against attention written out in float64, and its gradients by torch."""

from __future__ import annotations

import functools
from typing import Any, Optional

import numpy as np
import pytest

from ascend_aclnn import catalog
from ascend_aclnn.reference import find

WIDE = 2147483647


def operator(name: str) -> Any:
    found = find(catalog.get(name))
    assert found is not None
    return found.function


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def hidden(mode: int, queries: int, keys: int, before: int, after: int, prefix: Any, batch: int) -> np.ndarray:
    """Which scores a mode hides when its mask is a compressed one, element by element as the document draws it."""
    made = np.zeros((batch, queries, keys), bool)
    for b, i, j in np.ndindex(*made.shape):
        own = i + keys - queries  # the key that belongs to a query when the last ones belong together
        if mode == 2:
            made[b, i, j] = j > i
        elif mode == 3:
            made[b, i, j] = j > own
        elif mode == 4:
            made[b, i, j] = j > own + after or j < own - before
        elif mode == 6:
            made[b, i, j] = j > own and j >= prefix[b]
    return made


def attention(
    q: Any, k: Any, v: Any, scale: float, mask: Any = None, bias: Any = 0.0, kept: Any = 1.0, add_first: bool = True
) -> Any:
    """softmax of whole rows in double precision; operands with heads first, NumPy or torch."""
    share = q.shape[1] // k.shape[1]
    scores = (
        q @ k.repeat(share, 1).swapaxes(2, 3) if isinstance(k, np.ndarray) else q @ _repeat(k, share).swapaxes(2, 3)
    )
    scores = (scores + bias) * scale if add_first else scores * scale + bias
    if mask is not None:
        scores = (
            scores + np.where(mask, -1e30, 0.0)
            if isinstance(q, np.ndarray)
            else scores.masked_fill(_torch(mask), -1e30)
        )
    if isinstance(q, np.ndarray):
        chances = np.exp(scores - scores.max(-1, keepdims=True))
        return (chances / chances.sum(-1, keepdims=True) * kept) @ v.repeat(share, 1)
    return (scores.softmax(-1) * kept) @ _repeat(v, share)


def _torch(array: np.ndarray) -> Any:
    import torch

    return torch.from_numpy(array)


def _repeat(tensor: Any, share: int) -> Any:
    return tensor.repeat_interleave(share, 1)


def lay_out(tensor: np.ndarray, layout: str) -> np.ndarray:
    """From heads first to a layout."""
    batch, heads, length, width = tensor.shape
    rows = tensor.transpose(0, 2, 1, 3)
    made = {
        "BNSD": tensor,
        "BSND": rows,
        "BSH": rows.reshape(batch, length, heads * width),
        "SBH": rows.reshape(batch, length, heads * width).transpose(1, 0, 2),
    }
    return np.ascontiguousarray(made[layout])


def forward(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, layout: str = "BNSD", bias: Any = None, dropped: Any = None,
    mask: Any = None, prefix: Any = None, keep: float = 1.0, before: int = WIDE, after: int = WIDE, mode: int = 0,
) -> Any:  # fmt: skip
    operands = (lay_out(x, layout) for x in (q, k, v))
    rest = (None, mask, prefix, 0.3, keep, before, after, q.shape[1], layout, 0, mode)
    return operator("aclnnFlashAttentionScore")(*operands, bias, dropped, *rest)


Q, K, V = numbers(2, 4, 5, 8), numbers(2, 2, 7, 8, seed=1), numbers(2, 2, 7, 8, seed=2)


@pytest.mark.parametrize("layout", ["BNSD", "BSND", "BSH", "SBH"])
def test_layouts_and_shared_heads(layout: str) -> None:
    highest, total, scores, found = forward(Q, K, V, layout)
    wanted = attention(*(x.astype(np.float64) for x in (Q, K, V)), 0.3)
    np.testing.assert_allclose(found, lay_out(wanted, layout), rtol=1e-5, atol=1e-6)
    products = np.einsum("bnid,bnjd->bnij", Q, K.repeat(2, 1)) * 0.3
    assert scores is None
    assert highest.shape == total.shape == (2, 4, 5, 8)
    np.testing.assert_allclose(highest, np.broadcast_to(products.max(-1)[..., None], highest.shape), rtol=1e-5)
    exponents = np.exp(products - products.max(-1, keepdims=True)).sum(-1)
    np.testing.assert_allclose(total, np.broadcast_to(exponents[..., None], total.shape), rtol=1e-5)


@pytest.mark.parametrize("queries, keys", [(5, 5), (5, 8), (8, 8)])
@pytest.mark.parametrize("mode", [2, 3, 4, 6])
def test_modes_with_a_compressed_mask(mode: int, queries: int, keys: int) -> None:
    q, k, v = numbers(2, 2, queries, 8), numbers(2, 2, keys, 8, seed=1), numbers(2, 2, keys, 8, seed=2)
    compressed = np.triu(np.ones((2048, 2048), bool), 1)
    prefix = (keys, keys - 1) if mode == 6 else None
    found = forward(q, k, v, mask=compressed, prefix=prefix, before=2, after=1, mode=mode)[3]
    seen = hidden(mode, queries, keys, 2, 1, prefix, 2)[:, None]
    np.testing.assert_allclose(found, attention(*map(np.float64, (q, k, v)), 0.3, seen), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("shape", [(5, 7), (1, 1, 5, 7), (2, 1, 5, 7), (2, 4, 5, 7)])
@pytest.mark.parametrize("mode", [0, 1])
def test_whole_masks(shape: tuple[int, ...], mode: int) -> None:
    mask = np.random.default_rng(3).random(shape) < 0.4
    mask[..., 0] = False
    found = forward(Q, K, V, mask=mask.astype(np.uint8), mode=mode)[3]
    np.testing.assert_allclose(found, attention(*map(np.float64, (Q, K, V)), 0.3, mask), rtol=1e-5, atol=1e-6)


def test_a_band_beside_a_mask() -> None:
    mask = np.zeros((5, 5), bool)
    q, k, v = Q, K[:, :, :5], V[:, :, :5]
    found = forward(q, k, v, mask=mask, before=1, after=0, mode=0)[3]
    i, j = np.indices((5, 5))
    np.testing.assert_allclose(
        found, attention(*map(np.float64, (q, k, v)), 0.3, (j > i) | (j < i - 1)), rtol=1e-5, atol=1e-6
    )


def test_without_a_mask_the_mode_means_nothing() -> None:
    for mode in range(7):
        np.testing.assert_array_equal(forward(Q, K, V, mode=mode, before=0, after=0)[3], forward(Q, K, V)[3])


def test_a_query_that_sees_nothing_gets_zeros() -> None:
    mask = np.zeros((5, 7), bool)
    mask[2] = True
    found = forward(Q, K, V, mask=mask, mode=1)[3]
    assert (found[:, :, 2] == 0).all()
    assert np.isfinite(found).all()


@pytest.mark.parametrize("shape", [(2, 4, 5, 7), (1, 4, 5, 7), (2, 4, 1, 7)])
@pytest.mark.parametrize("bias_type", [0, 1])
def test_bias(shape: tuple[int, ...], bias_type: int) -> None:
    bias = numbers(*shape, seed=4)
    rest = (None, None, None, None, (0,), (0,), 0.3, 1.0, WIDE, WIDE, 4, "BNSD", 0, 0, bias_type)
    found = operator("aclnnFlashAttentionScoreV2")(Q, K, V, bias, *rest)[3]
    wanted = attention(*map(np.float64, (Q, K, V)), 0.3, bias=bias.astype(np.float64), add_first=bias_type == 1)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("bias_type", [2, 3])
def test_bias_from_slopes(bias_type: int) -> None:
    slopes = np.array([0.5, 0.25, 0.125, 1.0], np.float32)
    k, v = K[:, :, :5], V[:, :, :5]
    rest = (None, None, None, None, (3,), (1,), 0.3, 1.0, WIDE, WIDE, 4, "BNSD", 0, 0, bias_type)
    found = operator("aclnnFlashAttentionScoreV2")(Q, k, v, slopes, *rest)[3]
    distance = np.abs((np.arange(5)[:, None] + 3) - (np.arange(5) + 1)).astype(np.float64)
    bias = -slopes[:, None, None] * (distance if bias_type == 2 else np.sqrt(distance))
    np.testing.assert_allclose(
        found, attention(*map(np.float64, (Q, k, v)), 0.3, bias=bias, add_first=False), rtol=1e-5, atol=1e-6
    )


def packed_dropout(keep: float) -> tuple[np.ndarray, np.ndarray]:
    """A bit for each of the 2 * 4 * 5 * 7 scores, and the factors that it stands for."""
    bits = np.random.default_rng(5).random((2, 4, 5, 7)) < keep
    flat = np.zeros(384, bool)
    flat[: bits.size] = bits.reshape(-1)
    return np.packbits(flat, bitorder="little"), bits / keep


def test_dropout() -> None:
    packed, kept = packed_dropout(0.75)
    found = forward(Q, K, V, dropped=packed, keep=0.75)[3]
    np.testing.assert_allclose(found, attention(*map(np.float64, (Q, K, V)), 0.3, kept=kept), rtol=1e-5, atol=1e-6)


def test_unknown_layouts_are_refused() -> None:
    from ascend_aclnn.numerics import DataError

    with pytest.raises(DataError, match="inputLayout"):
        rest = (None, None, None, None, None, 0.3, 1.0, WIDE, WIDE, 4, "NBSD", 0, 0)
        operator("aclnnFlashAttentionScore")(Q, K, V, *rest)


@functools.cache
def _masks() -> dict[str, Optional[np.ndarray]]:
    i, j = np.indices((5, 7))
    return {"no mask": None, "a mask": (j > i + 2)}


@pytest.mark.parametrize("given", [True, False], ids=["from the statistics", "anew"])
@pytest.mark.parametrize("drop", [False, True], ids=["", "dropout"])
@pytest.mark.parametrize("masked", ["no mask", "a mask"])
@pytest.mark.parametrize("layout", ["BNSD", "SBH"])
def test_gradients(layout: str, masked: str, drop: bool, given: bool) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed: gradients are not compared with it")
    mask, bias, dy = _masks()[masked], numbers(1, 4, 5, 7, seed=6), numbers(2, 4, 5, 8, seed=7)
    packed, kept = packed_dropout(0.75) if drop else (None, 1.0)
    keep = 0.75 if drop else 1.0

    highest, total, _, output = forward(Q, K, V, layout, bias=bias, dropped=packed, mask=mask, keep=keep, mode=1)
    statistics = (highest, total, None, output) if given else (None, None, None, None)
    operands = [lay_out(x, layout) for x in (Q, K, V, dy)]
    rest = (None, 0.3, keep, WIDE, WIDE, 4, layout, 0, 1)
    found = operator("aclnnFlashAttentionScoreGrad")(*operands, bias, packed, None, mask, *statistics, *rest)

    leaves = [torch.from_numpy(x).double().requires_grad_() for x in (Q, K, V, bias)]
    factors = torch.from_numpy(kept) if drop else 1.0
    result = attention(*leaves[:3], 0.3, mask, leaves[3], factors)
    wanted = torch.autograd.grad(result, leaves, torch.from_numpy(dy).double())
    for ours, theirs in zip(found[:3], wanted):
        np.testing.assert_allclose(ours, lay_out(theirs.numpy(), layout), rtol=1e-4, atol=2e-6)
    np.testing.assert_allclose(found[3], wanted[3].numpy(), rtol=1e-4, atol=2e-6)


def test_gradients_in_several_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    from ascend_aclnn.reference.attention import _dense as module

    rest = (None, None, None, None, None, None, None, None, None, 0.3, 1.0, WIDE, WIDE, 4, "BNSD", 0, 0)
    whole = operator("aclnnFlashAttentionScoreGrad")(Q, K, V, Q, *rest)
    forward_whole = forward(Q, K, V)[3]
    monkeypatch.setattr(module, "_SCORES", 20)
    parts = operator("aclnnFlashAttentionScoreGrad")(Q, K, V, Q, *rest)
    np.testing.assert_allclose(forward(Q, K, V)[3], forward_whole, rtol=1e-5, atol=1e-6)
    for ours, theirs in zip(parts[:3], whole[:3]):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("layout", ["BNSD", "SBH"])
def test_gradients_with_the_statistics_of_more_keys(layout: str) -> None:
    """Ring attention: maxima, sums and output belong to all keys, the call has a part of them; parts add up."""
    torch = pytest.importorskip("torch", reason="torch is not installed: gradients are not compared with it")
    dy = numbers(2, 4, 5, 8, seed=7)
    highest, total, _, output = forward(Q, K, V, layout)
    rest = (None, 0.3, 1.0, WIDE, WIDE, 4, layout, 0, 0)
    parts = []
    for keys in (slice(0, 3), slice(3, 7)):
        operands = [lay_out(x, layout) for x in (Q, K[:, :, keys], V[:, :, keys], dy)]
        parts.append(
            operator("aclnnFlashAttentionScoreGrad")(
                *operands, None, None, None, None, highest, total, None, output, *rest
            )
        )
    leaves = [torch.from_numpy(x).double().requires_grad_() for x in (Q, K, V)]
    dq, dk, dv = torch.autograd.grad(attention(*leaves, 0.3), leaves, torch.from_numpy(dy).double())
    np.testing.assert_allclose(parts[0][0] + parts[1][0], lay_out(dq.numpy(), layout), rtol=1e-4, atol=2e-6)
    for place, wanted in ((1, dk), (2, dv)):
        for keys, part in zip((slice(0, 3), slice(3, 7)), parts):
            np.testing.assert_allclose(part[place], lay_out(wanted.numpy()[:, :, keys], layout), rtol=1e-4, atol=2e-6)
