"""The mixture-of-experts references against plain formulas, element by element or in float64, and against torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from reference_tools import BF16, EPSILON, F16, F32, FLOATS, close, floats, run, same
from row_tools import in_one_test

from ascend_aclnn.numerics import DataError
from ascend_aclnn.reference import _rows
from ascend_aclnn.reference.moe import tokens as moe

I32 = np.int32


@pytest.fixture(params=[None, 1, 3], ids=["usual blocks", "1-row blocks", "3-row blocks"], autouse=True)
def blocks(request: Any, monkeypatch: Any) -> None:
    """Every test also runs with blocks so small that several are needed, and the last is short."""
    if request.param:
        for module in (moe, _rows):
            monkeypatch.setattr(module, "rows_per_block", lambda width, elements=0: request.param)


def routing(rng: Any, tokens: Any, top_k: Any, experts: Any = 5) -> Any:
    """Expert ids, and the place of each copy when copies are sorted by expert."""
    ids = rng.integers(0, experts, (tokens, top_k)).astype(I32)
    order = sorted(range(ids.size), key=lambda copy: (ids.reshape(-1)[copy], copy))
    places = np.empty(ids.size, I32)
    for place, copy in enumerate(order):
        places[copy] = place
    return ids, np.array(order, np.int64), places


SHAPES = [(0, 2, 4), (1, 1, 1), (7, 1, 5), (4, 3, 17), (8, 8, 33)]


# ----------------------------------------------------------------------------------------------------- permute


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize(("tokens", "top_k", "width"), SHAPES)
@pytest.mark.parametrize("strided", [False, True])
def test_permute(dtype: Any, tokens: Any, top_k: Any, width: Any, strided: Any) -> None:
    rng = np.random.default_rng(tokens)
    x = floats(rng, (tokens, width), dtype)
    ids, order, places = routing(rng, tokens, top_k)
    for rows in {0, len(order) // 2, len(order)}:
        out = [((rows, width), dtype), ((len(order),), I32)]
        permuted, inverse = run(moe.moe_token_permute, x, ids, rows, False, out=out, strided=strided)
        same(permuted, x[order[:rows] // top_k])
        same(inverse, places)


def test_permute_tokens_of_more_dimensions_with_a_flat_index() -> None:
    x = floats(np.random.default_rng(0), (3, 2, 4), F32)
    permuted, inverse = run(
        moe.moe_token_permute, x, np.array([7, 2, 7]), 0, False, out=[((3, 2, 4), F32), ((3,), I32)], strided=True
    )
    same(permuted, x[[1, 0, 2]])
    same(inverse, np.array([1, 0, 2], I32))


@pytest.mark.parametrize("top", [200, 60_000, 16_777_214])
def test_permute_is_stable_however_ids_are_sorted(top: Any) -> None:
    """Ids are narrowed to 8 or 16 bits where they fit."""
    ids = np.random.default_rng(top).integers(0, 4, 500)
    ids = np.where(ids == 3, top, ids)[:, None]
    x = np.arange(500, dtype=np.float32)[:, None]
    permuted, _ = run(moe.moe_token_permute, x, ids, 0, False, out=[((500, 1), F32), ((500,), I32)])
    assert permuted[:, 0].tolist() == sorted(range(500), key=lambda i: (ids[i, 0], i))


@pytest.mark.parametrize("bad", [-1, 16_777_215])
def test_permute_refuses_ids_that_its_sort_confuses(bad: Any) -> None:
    ids, out = np.array([[0], [bad]]), [((2, 1), F32), ((2,), I32)]
    with pytest.raises(DataError, match=rf"indices: element \[1, 0\] is {bad}; allowed: 0 to 16777214"):
        run(moe.moe_token_permute, np.ones((2, 1), F32), ids, 0, False, out=out)


# ------------------------------------------------------------------------------------------ permute's gradient


def permute_grad_step_by_step(grad: Any, indices: Any, top_k: Any, dtype: Any) -> Any:
    """The kernel's order: row after row in float32, rows past the end skipped, the first one copied."""
    out = np.zeros((len(indices) // top_k, grad.shape[1]), np.float32)
    for token in range(len(out)):
        for j, index in enumerate(indices[token * top_k : (token + 1) * top_k]):
            if index < len(grad):
                row = grad[index].astype(np.float32)
                out[token] = row if j == 0 else out[token] + row
    return out.astype(dtype)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@in_one_test("tokens,top_k,width", SHAPES)
@in_one_test("strided", [False, True])
@in_one_test("kept", [1.0, 0.5, 0.0])
def test_permute_grad_bit_for_bit(dtype: Any, tokens: Any, top_k: Any, width: Any, strided: Any, kept: Any) -> None:
    rng = np.random.default_rng(tokens + top_k)
    grad = floats(rng, (int(tokens * top_k * kept), width), dtype)
    grad[rng.random(grad.shape) < 0.2] = -0.0
    indices = rng.permutation(tokens * top_k).astype(I32)
    out = [((tokens, width), dtype)]
    (result,) = run(moe.moe_token_permute_grad, grad, indices, top_k, False, out=out, strided=strided)
    same(result, permute_grad_step_by_step(grad, indices, top_k, dtype))


def test_permute_grad_keeps_minus_zero_and_special_values() -> None:
    grad = np.array([[-0.0, np.inf, np.nan, 3e38]], np.float32)
    (result,) = run(moe.moe_token_permute_grad, grad, np.array([0, 5, 0], I32), 1, False, out=[((3, 4), F32)])
    same(result, np.array([grad[0], [0] * 4, grad[0]], np.float32))
    (result,) = run(moe.moe_token_permute_grad, grad, np.array([0, 5, 5, 0], I32), 2, False, out=[((2, 4), F32)])
    same(result, np.array([grad[0], [0, np.inf, np.nan, 3e38]], np.float32))
    (result,) = run(moe.moe_token_permute_grad, grad, np.array([0, 0], I32), 2, False, out=[((1, 4), F32)])
    same(result, np.array([[-0.0, np.inf, np.nan, np.inf]], np.float32))


def test_permute_grad_overflows_to_infinity_quietly() -> None:
    (result,) = run(
        moe.moe_token_permute_grad, np.full((2, 1), 40000, F16), np.array([0, 1], I32), 2, False, out=[((1, 1), F16)]
    )
    same(result, np.array([[np.inf]], F16))


def test_permute_grad_is_the_derivative_of_permute() -> None:
    """<grad, permute(x)> = <permute_grad(grad), x> for any x, also with dropped rows."""
    rng = np.random.default_rng(5)
    x = rng.integers(-8, 8, (6, 4)).astype(np.float32)
    ids, _, _ = routing(rng, 6, 3)
    for rows in (18, 11, 0):
        grad = rng.integers(-8, 8, (rows, 4)).astype(np.float32)
        permuted, indices = run(moe.moe_token_permute, x, ids, rows, False, out=[((rows, 4), F32), ((18,), I32)])
        (back,) = run(moe.moe_token_permute_grad, grad, indices, 3, False, out=[((6, 4), F32)])
        assert (grad * permuted).sum() == (back * x).sum()


# --------------------------------------------------------------------------------------------------- unpermute


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@in_one_test("probs_dtype", FLOATS)
@in_one_test("tokens,top_k,width", SHAPES)
@in_one_test("strided", [False, True])
def test_unpermute_bit_for_bit(dtype: Any, probs_dtype: Any, tokens: Any, top_k: Any, width: Any, strided: Any) -> None:
    rng = np.random.default_rng(tokens)
    permuted = floats(rng, (tokens * top_k * 3 // 4, width), dtype)
    indices = rng.permutation(tokens * top_k).astype(I32)
    probs = floats(rng, (tokens, top_k), probs_dtype)
    probs[rng.random(probs.shape) < 0.3] = 0
    expected = np.zeros((tokens, width), np.float32)
    for token in range(tokens):
        for j in range(top_k):
            index, prob = indices[token * top_k + j], probs[token, j].astype(np.float32)
            if index < len(permuted) and prob != 0:
                term = permuted[index].astype(np.float32) * prob
                expected[token] = term if j == 0 else expected[token] + term
    out = [((tokens, width), dtype)]
    (result,) = run(moe.moe_token_unpermute, permuted, indices, probs, False, None, out=out, strided=strided)
    same(result, expected.astype(dtype))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_unpermute_without_probs_is_a_gather(dtype: Any) -> Any:
    def gather(permuted: Any, indices: Any) -> Any:
        out = [((len(indices), 1), dtype)]
        return run(moe.moe_token_unpermute, permuted, np.array(indices, I32), None, False, None, out=out)[0]

    permuted = np.arange(65536, dtype=np.uint16).view(dtype if dtype != F32 else F16).astype(dtype)[:, None]
    indices = np.random.default_rng(0).permutation(40).astype(I32) * 1600
    same(gather(permuted, indices), permuted[indices])
    same(gather(permuted[:1], [1, 0]), np.zeros((2, 1), dtype))


def test_unpermute_skips_rows_of_probability_zero() -> None:
    permuted = np.array([[np.nan], [np.inf], [2]], np.float32)
    for indices, probs, expected in [([0, 1, 2], [0, -0.0, 0.5], 1), ([2, 1, 2], [np.nan, 0, 1], np.nan)]:
        given = permuted, np.array(indices, I32), np.array([probs], np.float32), False, None
        (result,) = run(moe.moe_token_unpermute, *given, out=[((1, 1), F32)])
        same(result, np.array([[expected]], np.float32))


# ---------------------------------------------------------------------------------------- unpermute's gradient


def unpermute_grad(permuted: Any, grad: Any, indices: Any, probs: Any, strided: Any = False) -> Any:
    out = [(permuted.shape, permuted.dtype), None if probs is None else (probs.shape, probs.dtype)]
    return run(moe.moe_token_unpermute_grad, permuted, grad, indices, probs, False, None, out=out, strided=strided)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@in_one_test("probs_dtype", FLOATS)
@in_one_test("tokens,top_k,width", SHAPES)
@in_one_test("strided", [False, True])
def test_unpermute_grad(dtype: Any, probs_dtype: Any, tokens: Any, top_k: Any, width: Any, strided: Any) -> None:
    rng = np.random.default_rng(tokens)
    permuted = floats(rng, (tokens * top_k * 3 // 4, width), dtype)
    grad = floats(rng, (tokens, width), dtype)
    probs = floats(rng, (tokens, top_k), probs_dtype)
    indices = rng.permutation(tokens * top_k).astype(I32)
    permuted_grad, probs_grad = unpermute_grad(permuted, grad, indices, probs, strided)

    wanted = np.zeros(permuted.shape, np.float32)
    wanted_probs, scale = np.zeros(probs.shape), np.zeros(probs.shape)
    for copy, index in enumerate(indices):
        token, j = divmod(copy, top_k)
        if index < len(permuted):
            wanted[index] = grad[token].astype(np.float32) * probs[token, j].astype(np.float32)
            terms = permuted[index].astype(np.float64) * grad[token].astype(np.float64)
            wanted_probs[token, j], scale[token, j] = terms.sum(), np.abs(terms).sum()
    same(permuted_grad, wanted.astype(dtype))
    close(probs_grad, wanted_probs, width, scale)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_unpermute_grad_without_probs(dtype: Any) -> None:
    rng = np.random.default_rng(1)
    grad = floats(rng, (6, 5), dtype)
    indices = np.array([3, 0, 9, 1, 7, 4], I32)
    permuted_grad, _ = unpermute_grad(np.ones((6, 5), dtype), grad, indices, None)
    wanted = np.zeros((6, 5), dtype)
    wanted[[3, 0, 1, 4]] = grad[[0, 1, 3, 5]]
    same(permuted_grad, wanted)
    out = [((6, 5), dtype), ((6, 1), dtype)]
    _, probs_grad = run(moe.moe_token_unpermute_grad, np.ones((6, 5), dtype), grad, indices, None, False, None, out=out)
    same(probs_grad, np.zeros((6, 1), dtype))


def test_unpermute_grad_where_everything_is_dropped() -> None:
    grad, probs = np.ones((2, 3), np.float32), np.ones((2, 1), np.float32)
    permuted_grad, probs_grad = unpermute_grad(np.ones((4, 3), np.float32), grad, np.array([4, 5], I32), probs)
    same(permuted_grad, np.zeros((4, 3), np.float32))
    same(probs_grad, np.zeros((2, 1), np.float32))
    permuted_grad, probs_grad = unpermute_grad(np.ones((0, 3), np.float32), grad, np.array([0, 1], I32), probs)
    same(probs_grad, np.zeros((2, 1), np.float32))


def test_unpermute_grad_with_a_repeated_index_takes_the_later() -> None:
    grad, probs = np.array([[1], [2]], np.float32), np.ones((2, 1), np.float32)
    permuted_grad, _ = unpermute_grad(np.ones((1, 1), np.float32), grad, np.array([0, 0], I32), probs)
    same(permuted_grad, np.array([[2]], np.float32))


def test_unpermute_grad_agrees_with_torchs_derivative() -> None:
    torch = pytest.importorskip("torch", reason="torch is absent: gradients are not compared with its autograd")
    rng = np.random.default_rng(2)
    permuted, probs, grad = floats(rng, (10, 7), F32), floats(rng, (5, 2), F32), floats(rng, (5, 7), F32)
    indices = rng.permutation(10).astype(I32)
    p, w = torch.tensor(permuted, requires_grad=True), torch.tensor(probs, requires_grad=True)
    y = (p[torch.tensor(indices).long()].view(5, 2, 7) * w[..., None]).sum(1)
    y.backward(torch.tensor(grad))
    (out,) = run(moe.moe_token_unpermute, permuted, indices, probs, False, None, out=[((5, 7), F32)])
    np.testing.assert_allclose(out, y.detach().numpy(), rtol=1e-6, atol=1e-6)
    permuted_grad, probs_grad = unpermute_grad(permuted, grad, indices, probs)
    np.testing.assert_allclose(permuted_grad, p.grad.numpy(), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(probs_grad, w.grad.numpy(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("which", ["unpermute", "unpermute_grad"])
def test_negative_sorted_indices_are_refused(which: Any) -> None:
    x, indices = np.ones((2, 1), np.float32), np.array([0, -3], I32)
    with pytest.raises(DataError, match=r"sortedIndices: element \[1\] is -3; allowed: 0 or more"):
        if which == "unpermute":
            run(moe.moe_token_unpermute, x, indices, None, False, None, out=[((2, 1), F32)])
        else:
            unpermute_grad(x, x, indices, None)


# ----------------------------------------------------------------------------------------------------- routing


def route(x: Any, row_idx: Any, expert_idx: Any, active_num: Any, *quant: Any, strided: Any = False) -> Any:
    (n, k), h = expert_idx.shape, x.shape[1]
    out = [((min(n, active_num) * k, h), np.int8 if quant else x.dtype), ((n * k,), I32), ((n * k,), I32)]
    function = moe.moe_init_routing_quant if quant else moe.moe_init_routing
    return run(function, x, row_idx, expert_idx, active_num, *quant, out=out, strided=strided)


def column_major(n: Any, k: Any) -> Any:
    return np.arange(n * k, dtype=I32).reshape(k, n).T


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize(("tokens", "top_k", "width"), [(0, 2, 3), (1, 1, 1), (5, 3, 7), (9, 2, 130)])
@pytest.mark.parametrize("strided", [False, True])
@pytest.mark.parametrize("any_permutation", [False, True])
def test_routing(dtype: Any, tokens: Any, top_k: Any, width: Any, strided: Any, any_permutation: Any) -> None:
    rng = np.random.default_rng(width)
    x = floats(rng, (tokens, width), dtype)
    experts = rng.integers(-2, 3, (tokens, top_k)).astype(I32)
    rows = column_major(tokens, top_k)
    if any_permutation:
        rows = rng.permutation(tokens * top_k).astype(I32).reshape(tokens, top_k)
    order = sorted(range(experts.size), key=lambda i: (experts.reshape(-1)[i], i))
    source = rows.reshape(-1)[order]
    places = np.empty(experts.size, I32)
    for i, row in enumerate(source):
        places[row] = i
    for active in {0, 1, tokens, tokens + 5}:
        expanded, row_places, sorted_experts = route(x, rows, experts, active, strided=strided)
        same(expanded, x[source[: min(tokens, active) * top_k] % max(1, tokens)])
        same(row_places, places)
        same(sorted_experts, experts.reshape(-1)[order])


def test_routing_sorts_experts_as_float32() -> None:
    experts = np.array([[2**24 + 1], [2**24], [2**31 - 1], [-(2**31)], [-(2**24) - 1]], I32)
    _, places, sorted_experts = route(np.ones((5, 1), F32), column_major(5, 1), experts, 5)
    same(sorted_experts, np.array([-(2**31), -(2**24), 2**24, 2**24, 2**31 - 1], I32))
    same(places, np.array([2, 3, 4, 0, 1], I32))


def quantise_in_steps(x: Any, scale: Any, offset: Any) -> Any:
    """The kernel's steps, each exact in float64 and then rounded to half."""

    def half(values: Any) -> Any:
        return values.astype(np.float16).astype(np.float64)

    with np.errstate(all="ignore"):
        scale, offset = half(np.float32(scale)), half(np.float32(offset))
        rounded = np.rint(half(half(half(x.astype(np.float64)) * scale) + offset))
        return np.where(np.isnan(rounded), 0, np.clip(rounded, -128, 127)).astype(np.int8)


SCALES = [(1, 0), (4, 0.25), (23.5, -7.25), (-0.5, 100), (0.001, 0.5), (1e-9, 3), (1e6, 0), (65504, -65504)]
SCALES += [(1, np.inf), (np.nan, 1)]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@in_one_test("scale,offset", SCALES)
@in_one_test("rows", [5, 300])
def test_quantisation_bit_for_bit(dtype: Any, scale: Any, offset: Any, rows: Any) -> None:
    """Values of every magnitude that a dtype has, more and fewer than the table of a 16-bit dtype has entries."""
    rng = np.random.default_rng(3)
    codes = rng.integers(0, 1 << 32, (rows, 257), dtype=np.uint32)
    if dtype == F32:
        x = np.where(rng.random(codes.shape) < 0.3, codes.view(np.float32), rng.standard_normal(codes.shape) * 50)
        x = x.astype(np.float32)
    else:
        x = (codes >> 16).astype(np.uint16).view(dtype)
    expected = quantise_in_steps(x, scale, offset)
    expanded, places, _ = route(x, column_major(rows, 1), np.zeros((rows, 1), I32), rows, scale, offset)
    same(expanded, expected)
    same(places, np.arange(rows, dtype=I32))


def test_quantisation_of_strided_tokens() -> None:
    x = floats(np.random.default_rng(4), (300, 257), F32)
    expanded, _, _ = route(x, column_major(300, 1), np.zeros((300, 1), I32), 300, 30.0, 1.0, strided=True)
    same(expanded, quantise_in_steps(x, 30.0, 1.0))


def test_quantisation_of_an_empty_row() -> None:
    expanded, places, _ = route(np.ones((3, 0), F32), column_major(3, 2), np.zeros((3, 2), I32), 3, 1.0, 0.0)
    assert expanded.shape == (6, 0)
    assert len(places) == 6


def test_half_epsilons_are_what_the_tolerances_assume() -> None:
    assert [EPSILON[dtype] for dtype in (F32, F16, BF16)] == [2.0**-24, 2.0**-11, 2.0**-8]
