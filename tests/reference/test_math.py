"""References of ops-math/math that reduce, sort, solve and create, through the public functions, against torch."""

from __future__ import annotations

from typing import Any, Callable

import ml_dtypes
import numpy as np
import pytest

from ascend_aclnn import AclError, ops

torch = pytest.importorskip("torch", reason="torch is the oracle of the references of ops-math/math")

BF16 = np.dtype(ml_dtypes.bfloat16)
F16, F32, F64 = np.dtype(np.float16), np.dtype(np.float32), np.dtype(np.float64)
I32, I64 = np.dtype(np.int32), np.dtype(np.int64)
FLOATS = [F32, F16, BF16]
EPS = {F64: 1e-12, F32: 3e-7, F16: 6e-4, BF16: 4.1e-3}


def of(value: Any) -> Any:
    """Arguments as torch takes them: floats in float64, so that the result is rounded only once, by ``close``."""
    if not isinstance(value, np.ndarray):
        return value
    if value.dtype.kind in "iub":
        return torch.from_numpy(value.copy())
    return torch.from_numpy(value.astype(np.complex128 if value.dtype.kind == "c" else np.float64))


def test_a_product_overflows_and_underflows_as_float32_does() -> None:
    x = np.array([1e30, 1e30, 1e-30, 1e-30], F32)
    for values, wanted in ((x, np.inf), (x[::-1], 0), (np.array([3e38, 1e-3, 2], F32), 6e35)):
        close(ops.prod(values.copy(), 0), np.asarray(wanted).astype(F32))
        close(ops.prod(values.copy(), 0), torch.from_numpy(values.copy()).prod())


@pytest.mark.parametrize("shape", [(), (1,)])
def test_a_number_is_searched_with_an_output_of_any_rank(shape: tuple[int, ...]) -> None:
    sequence = np.array([1, 3, 5], F32)
    assert ops.search_sorteds(sequence, 3.5, False, False, None, out=np.zeros(shape, I64)).reshape(()) == 2


def test_what_the_decomposition_does_not_converge_for_is_named() -> None:
    with pytest.raises(AclError, match="aclnnSvd: input "):
        ops.svd(np.full((3, 3), np.nan, F32), True, True)
    x = np.array([1.5, -2.25], F32)
    close(ops.round_decimals(x, 2**62), torch.round(torch.from_numpy(x), decimals=50))  # 10**decimals overflows


def close(actual: Any, expected: Any, slack: float = 1.0) -> None:
    """Same shape, and values that differ by no more than a rounding of the actual data type."""
    expected = np.asarray(expected)
    assert actual.shape == expected.shape
    if actual.dtype.kind in "iub":
        np.testing.assert_array_equal(actual, expected)
        return
    eps = EPS.get(actual.dtype, 3e-7) * slack
    wide = np.complex128 if actual.dtype.kind == "c" else np.float64
    np.testing.assert_allclose(actual.astype(wide), expected.astype(wide), rtol=eps, atol=eps)


def sample(shape: Any, dtype: Any = F32, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    if np.dtype(dtype).kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if np.dtype(dtype).kind in "iu":
        return rng.integers(0 if np.dtype(dtype).kind == "u" else -9, 10, shape).astype(dtype)
    if np.dtype(dtype).kind == "c":
        return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(dtype)
    return rng.standard_normal(shape).astype(dtype)


def agree(actual: Any, expected: Any, slack: float = 1.0) -> None:
    """One result, or several."""
    if isinstance(actual, tuple):
        for one, other in zip(actual, expected):
            close(one, other, slack)
    else:
        close(actual, expected, slack)


# ------------------------------------------------------------------------------------------------- reductions

REDUCTIONS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "sum": (lambda x: ops.reduce_sum(x, [1], False, x.dtype), lambda x: x.sum(1)),
    "sum_axes": (lambda x: ops.reduce_sum(x, [0, -1], True, x.dtype), lambda x: x.sum((0, -1), True)),
    "sum_all": (lambda x: ops.reduce_sum(x, [], False, x.dtype), lambda x: x.sum()),
    "mean": (lambda x: ops.mean(x, [-1], True, x.dtype), lambda x: x.mean(-1, True)),
    "mean_v2": (lambda x: ops.mean_v2(x, [], False, False), lambda x: x.mean()),
    "mean_noop": (lambda x: ops.mean_v2(x, [], False, True), lambda x: x),
    "prod": (lambda x: ops.prod(x, x.dtype), lambda x: x.prod()),
    "prod_dim": (lambda x: ops.prod_dim(x, 1, True, x.dtype), lambda x: x.prod(1, True)),
    "logsumexp": (lambda x: ops.log_sum_exp(x, [0, 2], False), lambda x: x.logsumexp((0, 2))),
    "var": (lambda x: ops.var(x, [1], True, False), lambda x: x.var(1)),
    "var_correction": (
        lambda x: ops.var_correction(x, [0, 1], 2, True),
        lambda x: x.var((0, 1), correction=2, keepdim=True),
    ),
    "var_all": (lambda x: ops.var_correction(x, [], 0, False), lambda x: x.var(correction=0)),
    "std": (lambda x: ops.std(x, [2], 1, False), lambda x: x.std(2)),
    "std_mean": (lambda x: ops.std_mean_correction(x, [2], 1, True), lambda x: torch.std_mean(x, 2, keepdim=True)),
    "max": (lambda x: ops.max(x), lambda x: x.max()),
    "min": (lambda x: ops.min(x), lambda x: x.min()),
    "amax": (lambda x: ops.amax(x, [0, -1], True), lambda x: x.amax((0, -1), True)),
    "amin": (lambda x: ops.amin(x, [], False), lambda x: x.amin()),
    "max_v2": (lambda x: ops.max_v2(x, [1], False, True), lambda x: x.amax(1)),
    "aminmax": (lambda x: ops.aminmax(x, [1], False), lambda x: torch.aminmax(x, dim=1)),
    "aminmax_dim": (lambda x: ops.aminmax_dim(x, -1, True), lambda x: torch.aminmax(x, dim=-1, keepdim=True)),
    "aminmax_all": (lambda x: ops.aminmax_all(x), lambda x: torch.aminmax(x)),
    "max_dim": (lambda x: ops.max_dim(x, 1, False), lambda x: x.max(1)),
    "min_dim": (lambda x: ops.min_dim(x, 0, True), lambda x: x.min(0, True)),
    "argmax": (lambda x: ops.arg_max(x, -1, False), lambda x: x.argmax(-1)),
    "argmin": (lambda x: ops.arg_min(x, 1, True), lambda x: x.argmin(1, True)),
    "all": (lambda x: ops.all(x, [1], False), lambda x: x.all(1)),
    "any": (lambda x: ops.any(x, [0, 2], True), lambda x: (x != 0).sum((0, 2), True) > 0),
}


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name: str, dtype: Any) -> None:
    ours, theirs = REDUCTIONS[name]
    x = sample((5, 7, 33), dtype).transpose(2, 0, 1)
    agree(ours(x), theirs(of(x)))


@pytest.mark.parametrize("name", ["max", "min", "amax", "max_dim", "min_dim", "argmax", "argmin", "mean", "sum", "any"])
def test_nan_wins(name: str) -> None:
    ours, theirs = REDUCTIONS[name]
    x = sample((3, 4, 5))
    x[1, 2, 3] = x[0, 2, 4] = np.nan
    agree(ours(x), theirs(of(x)))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.int64, np.bool_])
def test_reductions_of_integers(dtype: Any) -> None:
    x = sample((4, 6), dtype)
    close(ops.reduce_sum(x, [1], False, np.int64), of(x).sum(1))
    close(ops.max(x), of(x).max())
    close(ops.amin(x, [0], False), of(x).amin(0))
    close(ops.all(x, [0], False), of(x).bool().all(0))
    close(ops.prod_dim(x, 1, False, np.int64), of(x).prod(1))


def test_integer_sums_wrap_around() -> None:
    x = np.array([100, 100, 100], np.int8)
    assert ops.reduce_sum(x, [0], False, np.int8)[()] == 44
    assert ops.cumsum(x, 0, np.int8).tolist() == [100, -56, 44]
    assert ops.prod(x, np.int8)[()] == np.prod(x, dtype=np.int8)


def test_sums_take_the_named_type_first() -> None:
    x = np.array([0.9, -1.9, 3.7], np.float32)
    assert ops.reduce_sum(x, [0], False, np.int32)[()] == 0 - 1 + 3
    assert ops.reduce_sum(x, [0], False, np.bool_)[()]
    assert ops.mean(np.array([1.0, 2.0], np.float32), [0], False, F16).dtype == F16


def test_sums_of_many_small_terms() -> None:
    x = np.full((1 << 20, 2), 0.1, np.float32)
    np.testing.assert_allclose(ops.reduce_sum(x, [0], False, F32), float(np.float32(0.1)) * (1 << 20), rtol=1e-7)
    half = np.full(100_000, 0.25, np.float16)
    assert ops.mean(half, [0], False, F16)[()] == 0.25


def test_reductions_of_complex_numbers() -> None:
    x = sample((3, 5), np.complex64)
    close(ops.reduce_sum(x, [1], False, np.complex64), of(x).sum(1))
    close(ops.mean(x, [0], False, np.complex64), of(x).mean(0))
    close(ops.prod(x, np.complex64), of(x).prod(), 10)


def test_reductions_of_one_number_and_of_none() -> None:
    one = np.array(2.5, np.float32)
    assert ops.reduce_sum(one, [0], False, F32)[()] == 2.5
    assert ops.arg_max(one, 0, False)[()] == 0
    assert [r[()] for r in ops.max_dim(one, -1, False)] == [2.5, 0]
    assert ops.var_correction(one, [], 0, False)[()] == 0 and np.isnan(ops.var_correction(one, [], 1, False)[()])
    none = np.zeros((0, 3), np.float32)
    assert ops.reduce_sum(none, [0], False, F32).tolist() == [0, 0, 0]
    assert np.isnan(ops.mean(none, [0], False, F32)).all()
    assert ops.prod_dim(none, 0, False, F32).tolist() == [1, 1, 1]
    assert ops.log_sum_exp(none, [0], False).tolist() == [-np.inf] * 3
    assert ops.all(none, [0], False).tolist() == [True] * 3 and ops.any(none, [0], False).tolist() == [False] * 3
    assert ops.arg_max(none, 1, False).shape == (0,)


@pytest.mark.parametrize(
    ("reduce", "filled"),
    [
        (lambda x, out: ops.reduce_sum(x, [1], False, F32, out=out), [0.0, 0.0]),
        (lambda x, out: ops.mean(x, [1], False, F32, out=out), [np.nan, np.nan]),
        (lambda x, out: ops.prod_dim(x, 1, False, F32, out=out), [1.0, 1.0]),
        (lambda x, out: ops.max(x, out=out), [7.0, 7.0]),
        (lambda x, out: ops.kl_div(x, x, 2, False, out=out), [0.0, 0.0]),
    ],
)
def test_outputs_of_empty_tensors_are_only_filled(reduce: Any, filled: Any) -> None:
    """Their shape does not matter; extremes leave them alone."""
    out = np.full(2, 7, np.float32)
    reduce(np.zeros((2, 0), np.float32), out)
    np.testing.assert_array_equal(out, filled)


def test_logsumexp_does_not_overflow() -> None:
    x = np.array([[1e4, 1e4], [-np.inf, -np.inf], [np.inf, 0], [-1e4, -1e4]], np.float32)
    agree(ops.log_sum_exp(x, [1], False), of(x).logsumexp(1))


def test_nansum() -> None:
    x = sample((4, 5))
    x[1, 1:3] = np.nan
    close(ops.reduce_nansum(x, [1], True, F32), of(x).nansum(1, True))


def test_log_of_sum() -> None:
    x = np.abs(sample((4, 5)))
    close(ops.reduce_log_sum(x, [1], False, False), of(x).sum(1).log())


def test_var_mean() -> None:
    x = sample((4, 50)) + np.float32(1000)
    agree(ops.var_mean(x, [1], 1, False), torch.var_mean(of(x), 1))


def test_batch_norm_stats() -> None:
    x = sample((4, 3, 5, 6), F16)
    mean, invstd = ops.batch_norm_stats(x, 1e-5)
    variance, wanted = torch.var_mean(of(x), (0, 2, 3), correction=0)
    agree((mean, invstd), (wanted, (variance + 1e-5).rsqrt()))


def test_global_pools() -> None:
    x = sample((2, 3, 4, 5))
    close(ops.global_average_pool(x), of(x).mean((2, 3), True))
    close(ops.global_max_pool(x), of(x).amax((2, 3), True))


@pytest.mark.filterwarnings("ignore:reduction. 'mean' divides")
@pytest.mark.parametrize("reduction", range(4))
@pytest.mark.parametrize("log_target", [False, True])
def test_kl_div(reduction: int, log_target: bool) -> None:
    x, target = sample((4, 6)), np.abs(sample((4, 6), seed=1))
    target[0, :2] = 0
    name = ("none", "mean", "sum", "batchmean")[reduction]
    expected = torch.nn.functional.kl_div(of(x), of(target), reduction=name, log_target=log_target)
    close(ops.kl_div(x, target, reduction, log_target), expected, 3)


def test_equal() -> None:
    x = sample((3, 4))
    assert ops.equal(x, x.copy()).tolist() == [True]
    assert ops.equal(x, x + np.float32(1)).tolist() == [False]
    assert ops.equal(x, x[:2]).tolist() == [False]
    assert ops.equal(np.float32([np.nan]), np.float32([np.nan])).tolist() == [False]
    assert ops.precision_compare(x, x.copy())[()] == 0 and ops.precision_compare(x, -x)[()] != 0


# ------------------------------------------------------------------------------------------------- order


@pytest.mark.parametrize("dtype", [*FLOATS, np.dtype(np.int8), np.dtype(np.uint8), I64], ids=str)
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dim", [0, -1])
def test_sort(dtype: Any, descending: bool, dim: int) -> None:
    x = (sample((40, 5), F32) * 3).astype(np.int8).astype(dtype)  # with equal elements
    if dtype in FLOATS:
        x[3, 1] = x[30, 1] = np.nan
    values, positions = torch.sort(of(x), dim=dim, descending=descending, stable=True)
    agree(ops.sort(x, True, dim, descending), (values, positions))
    close(ops.argsort(x, dim, descending), positions)


def test_sort_one_number() -> None:
    assert [r.tolist() for r in ops.sort(np.array(3, np.int32), False, 0, True)] == [3, 0]


@pytest.mark.parametrize("right", [False, True])
def test_search_sorted(right: bool) -> None:
    sequence, values = np.sort(sample((3, 11), I32), -1), sample((3, 8), I32, 1)
    close(ops.search_sorted(sequence, values, False, right), torch.searchsorted(of(sequence), of(values), right=right))
    one, many = sequence[0], sample((2, 3, 4), I32, 2)
    found = ops.search_sorted(one, many, True, right)
    assert found.dtype == I32
    close(found, torch.searchsorted(of(one), of(many), right=right))
    assert ops.search_sorteds(one, 3, False, right).tolist() == [np.searchsorted(one, 3, "right" if right else "left")]


def test_search_with_sorter_and_specials() -> None:
    sequence = sample(9)
    sorter = np.argsort(sequence)
    values = np.float32([-np.inf, 0, np.inf, np.nan])
    expected = torch.searchsorted(of(sequence), of(values), sorter=of(sorter))
    close(ops.search_sorted(sequence, values, False, False, sorter), expected)
    assert ops.search_sorted(np.zeros(0, np.float32), values, False, False).tolist() == [0] * 4


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_running(dtype: Any, dim: int) -> None:
    x = sample((4, 30, 3), dtype)
    close(ops.cumsum(x, dim, x.dtype), of(x).cumsum(dim))
    close(ops.cumprod(x, dim, x.dtype), of(x).cumprod(dim))
    close(ops.cumsum_v2(x, dim, False, True), of(x).flip(dim).cumsum(dim).flip(dim))
    close(ops.cumsum_v2(x, dim, True, False), of(x).cumsum(dim) - of(x))
    x[1, 7, 1] = np.nan
    agree(ops.cummax(x, dim), of(x).cummax(dim))
    agree(ops.cummin(x, dim), of(x).cummin(dim))


def test_running_extremes_of_equals_name_the_last() -> None:
    x = np.array([3, 1, 3, 3, 5, 5, 2], np.int32)
    agree(ops.cummax(x, 0), of(x).cummax(0))
    agree(ops.cummin(x, 0), of(x).cummin(0))


def test_cumprod_in_place() -> None:
    x = sample((3, 4))
    expected = of(x).cumprod(1)
    ops.inplace_cumprod(x, 1)
    close(x, expected)
    assert ops.cumsum(np.array(4.0, np.float32), 0, F32)[()] == 4
    assert ops.cumsum(np.array([1.7, 1.7], np.float32), 0, np.int32).tolist() == [1, 2]


# ------------------------------------------------------------------------------------------------- linear algebra


def matrices(*shape: int, dtype: Any = F32) -> Any:
    """Well-conditioned matrices."""
    n = min(shape[-2:])
    x = sample(shape, dtype)
    x[..., range(n), range(n)] += 3
    return x


def test_vectors() -> None:
    a, b = sample(50), sample(50, seed=1)
    close(ops.dot(a, b), of(a).dot(of(b)), 5)
    close(ops.ger(a, b[:7]), torch.outer(of(a), of(b[:7])))
    x = sample((50, 7))
    close(ops.addr(x, a, b[:7], 0.5, 2.0), torch.addr(of(x), of(a), of(b[:7]), beta=0.5, alpha=2.0), 2)
    close(ops.addr(x * np.float32(np.nan), a, b[:7], 0.0, 1.0), torch.outer(of(a), of(b[:7])))
    expected = torch.addr(of(x), of(a), of(b[:7]))
    ops.inplace_addr(x, a, b[:7])
    close(x, expected, 2)
    i, j = sample(5, np.int8) * np.int8(20), sample(5, np.int8, 1) * np.int8(20)
    assert ops.dot(i, j)[()] == np.dot(i, j)
    flags = sample(4, np.bool_)
    close(ops.addr(np.zeros((4, 4), bool), flags, flags), np.outer(flags, flags))


def test_cross() -> None:
    a, b = sample((4, 3, 2)), sample((1, 3, 2), seed=1)
    close(ops.linalg_cross(a, b, 1), torch.linalg.cross(of(a), of(b), dim=1), 3)
    close(
        ops.linalg_cross(sample((5, 3), I32), sample((5, 3), I32, 1), -1),
        np.cross(sample((5, 3), I32), sample((5, 3), I32, 1)),
    )


def test_trace_and_determinants() -> None:
    close(ops.trace(sample((4, 6), F16)), of(sample((4, 6), F16)).trace())
    assert ops.trace(np.full((3, 3), 100, np.int8)).tolist() == 300
    x = matrices(2, 5, 5)
    x[1, 0] *= -1
    agree(ops.slogdet(x), torch.linalg.slogdet(of(x)), 3)
    close(ops.logdet(x), of(x).logdet(), 3)
    singular = np.ones((2, 2), np.float32)
    agree(ops.slogdet(singular), (np.float32(0), np.float32(-np.inf)))
    agree(
        ops.slogdet(matrices(3, 3, dtype=np.complex64)),
        torch.linalg.slogdet(of(matrices(3, 3, dtype=np.complex64))),
        10,
    )


@pytest.mark.parametrize("upper", [False, True])
def test_cholesky(upper: bool) -> None:
    x = sample((2, 6, 6))
    x = x @ x.swapaxes(1, 2) + np.eye(6, dtype=np.float32)
    close(ops.linalg_cholesky(x, upper), torch.linalg.cholesky(of(x), upper=upper), 30)
    with pytest.raises(AclError, match="self has a matrix that is not positive definite"):
        ops.linalg_cholesky(-x, upper)


@pytest.mark.parametrize("shape", [(2, 6, 4), (4, 6)])
def test_qr(shape: Any) -> None:
    x = matrices(*shape)
    for mode, name in enumerate(("reduced", "complete")):
        q, r = ops.linalg_qr(x, mode)
        close(q @ r, x, 10)
        close(np.tril(r, -1), np.zeros_like(r))
        agree((np.abs(q), np.abs(r)), [t.abs() for t in torch.linalg.qr(of(x), name)], 10)
    q, r = ops.linalg_qr(x, 2)
    assert q.shape == (0,)
    agree(ops.qr(x, True), ops.linalg_qr(x, 0))
    agree(ops.qr(x, False), ops.linalg_qr(x, 1))


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("dtype", [F32, np.dtype(np.complex64)], ids=str)
def test_svd(full: bool, dtype: Any) -> None:
    x = sample((2, 5, 3), dtype)
    sigma, u, v = ops.svd(x, full, True)
    close(sigma.real, torch.linalg.svdvals(of(x)), 5)
    assert u.shape == (2, 5, 5 if full else 3) and v.shape == (2, 3, 3)
    close((u[..., :3] * sigma[:, None, :]) @ v.conj().swapaxes(1, 2), x, 10)
    close(ops.svd(x, full, False).sigma.real, torch.linalg.svdvals(of(x)), 5)


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("unit", [False, True])
def test_triangular_solve(upper: bool, transpose: bool, unit: bool) -> None:
    b, a = sample((2, 4, 3)), matrices(4, 4)
    x, copy = ops.triangular_solve(b, a, upper, transpose, unit)
    matrix = of(a).T if transpose else of(a)
    expected = torch.linalg.solve_triangular(matrix, of(b), upper=upper != transpose, unitriangular=unit)
    close(x, expected, 30)
    close(copy, np.broadcast_to(a, (2, 4, 4)))


def test_triangular_solve_of_a_singular_matrix() -> None:
    a = np.float32([[1, 2], [0, 0]])
    assert not np.isfinite(ops.triangular_solve(np.ones((2, 1), np.float32), a)[0]).any()


# ------------------------------------------------------------------------------------------------- distances


@pytest.mark.parametrize("p", [0.0, 1.0, 1.5, 2.0, 3.0, np.inf])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_cdist(p: float, dtype: Any) -> None:
    a, b = sample((2, 5, 4), dtype), sample((2, 6, 4), dtype, 1)
    b[:, 0] = a[:, 0]
    expected = torch.cdist(of(a), of(b), p, compute_mode="donot_use_mm_for_euclid_dist")
    close(ops.cdist(a, b, p, 2), expected, 5)
    if dtype != BF16:
        close(ops.pdist(a[0], p), torch.nn.functional.pdist(of(a[0]), p), 5)
        close(ops.pdist_forward(a[0], p), torch.nn.functional.pdist(of(a[0]), p), 5)


@pytest.mark.parametrize("p", [0.0, 1.0, 1.5, 2.0, 3.0, np.inf])
def test_cdist_backward(p: float) -> None:
    a, b, grad = sample((2, 5, 4)), sample((2, 6, 4), seed=1), sample((2, 5, 6), seed=2)
    b[:, 0] = a[:, 0]
    left = of(a).requires_grad_()
    distance = torch.cdist(left, of(b), p, compute_mode="donot_use_mm_for_euclid_dist")
    distance.backward(of(grad))
    # The largest difference is found by comparing with the distance, which must not have been rounded.
    result = ops.cdist_backward(grad, a, b, distance.detach().numpy().astype(np.float32), p)
    close(result, left.grad, 20)


# ------------------------------------------------------------------------------------------------- frequencies


@pytest.mark.parametrize("n", [-1, 5, 12])
@pytest.mark.parametrize("norm", [1, 2, 3])
def test_rfft(n: int, norm: int) -> None:
    x = sample((3, 8, 2))
    name = ("backward", "forward", "ortho")[norm - 1]
    expected = torch.view_as_real(torch.fft.rfft(of(x), None if n == -1 else n, 1, name))
    close(ops.rfft1_d(x, n, 1, norm), expected, 10)


@pytest.mark.parametrize("window", [8, 6, None])
@pytest.mark.parametrize("normalized", [False, True])
@pytest.mark.parametrize("onesided", [False, True])
def test_stft(window: Any, normalized: bool, onesided: bool) -> None:
    x = sample((3, 40))
    weights = None if window is None else np.hanning(window).astype(np.float32)
    options = {"center": False, "normalized": normalized, "onesided": onesided, "return_complex": True}
    length = window or 8
    given = torch.ones(length, dtype=torch.float64) if window is None else of(weights)
    expected = torch.stft(of(x), 8, 3, length, given, **options)
    close(ops.stft(x, weights, 8, 3, length, normalized, onesided, True), expected, 10)
    close(ops.stft(x, weights, 8, 3, length, normalized, onesided, False), torch.view_as_real(expected), 10)


# ------------------------------------------------------------------------------------------------- creation


@pytest.mark.parametrize("arguments", [(0, 10, 1), (5, -4, -2), (0.0, 1.0, 0.1), (1, 2.5, 0.5), (3, 3, 1)])
def test_arange(arguments: Any) -> None:
    close(
        ops.arange(*arguments), torch.arange(*arguments, dtype=None if type(sum(arguments)) is int else torch.float64)
    )
    half = ops.arange(*arguments, out=np.empty(len(torch.arange(*arguments)), F16))
    close(half, torch.arange(*arguments, dtype=torch.float64))


def test_sequences() -> None:
    close(ops.range(1, 7, 2), np.arange(1, 8, 2))
    close(ops.range(0.0, 1.0, 0.25), np.arange(5) / 4)
    close(ops.linspace(-3, 7.5, 11), torch.linspace(-3, 7.5, 11, dtype=torch.float64))
    assert ops.linspace(2, 9, 1).tolist() == [2] and ops.linspace(2, 9, 0).tolist() == []
    assert ops.linspace(0, 10, 4, out=np.empty(4, np.int32)).tolist() == [0, 3, 6, 10]
    assert ops.linspace(0, 3, 4, out=np.empty((2, 2), np.float32)).tolist() == [[0, 1], [2, 3]]
    close(ops.log_space(-1, 2, 7, 10.0), torch.logspace(-1, 2, 7, dtype=torch.float64), 3)
    close(ops.eye(3, 5), torch.eye(3, 5))
    assert ops.eye(2, 2, out=np.empty((2, 2), np.int8)).tolist() == [[1, 0], [0, 1]]


@pytest.mark.parametrize("axis", [-1, 0, 1])
def test_one_hot(axis: int) -> None:
    indices = np.array([[0, 2, 7], [1, -1, 3]], np.int64)
    result = ops.one_hot(indices, 4, np.int32([5]), np.int32([1]), axis)
    expected = np.moveaxis(np.where(indices[..., None] == np.arange(4), 5, 1), -1, axis)
    close(result, expected)


def test_repetition() -> None:
    x = sample((2, 1, 3))
    close(ops.expand(x, [4, 2, 5, 3]), of(x).expand(4, 2, 5, 3))
    close(ops.repeat(x, [2, 1, 3, 2]), of(x).repeat(2, 1, 3, 2))
    assert ops.repeat(x, [2, 0, 1]).shape == (4, 0, 3)
    assert ops.repeat(np.array(7, np.int8), []).tolist() == 7


@pytest.mark.filterwarnings("ignore:Since version 1.3.0, affine_grid")
@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("size", [(2, 3, 4, 5), (2, 1, 3, 4, 5), (2, 1, 1, 1)])
def test_affine_grid(align: bool, size: Any) -> None:
    axes = len(size) - 2
    theta = sample((2, axes, axes + 1))
    close(ops.affine_grid(theta, size, align), torch.nn.functional.affine_grid(of(theta), size, align), 3)


@pytest.mark.parametrize("limits", [(-1, 1), (0, 0), (-100, 100)])
@pytest.mark.parametrize("dtype", [F32, I32], ids=str)
def test_histc(limits: Any, dtype: Any) -> None:
    x = sample(1000, dtype)
    close(ops.histc(x, 7, *limits), torch.histc(torch.from_numpy(x).float(), 7, *limits).numpy())
    assert ops.histc(np.full(3, 2, dtype), 4, 2, 2).tolist() == [0, 0, 3, 0]
    assert ops.histc(np.zeros(0, dtype), 2, 0, 1).tolist() == [0, 0]


def test_bincount() -> None:
    x = np.array([1, 4, 1, 0], np.int32)
    assert ops.bincount(x, None, 3, out=np.empty(6, np.int64)).tolist() == [1, 2, 0, 0, 1, 0]
    weights = np.float32([0.5, 1, 0.25, 2])
    assert ops.bincount(x, weights, 0, out=np.empty(5, np.float32)).tolist() == [2, 0.75, 0, 0, 1]
    with pytest.raises(AclError, match=r"self element \[1\] is 4; allowed: 0 to 3"):
        ops.bincount(x, None, 0, out=np.empty(4, np.int64))


def test_is_in() -> None:
    elements = np.float32([[1, 2], [3, np.nan]])
    assert [ops.is_in_scalar_tensor(v, elements, False, i).tolist() for v in (2.0, 5.0) for i in (False, True)] == [
        True,
        False,
        False,
        True,
    ]


def test_sign_bits() -> None:
    x = sample(20, F16)
    x[3] = 0
    packed = ops.sign_bits_pack(x, 1)
    assert packed.tolist() == [[sum(1 << i for i, v in enumerate(x[j : j + 8]) if v >= 0) for j in (0, 8, 16)]]
    unpacked = ops.sign_bits_unpack(packed[0], 2, F32)
    assert unpacked.reshape(-1).tolist() == [1.0 if v >= 0 else -1.0 for v in x] + [-1.0] * 4


# ------------------------------------------------------------------------------------------------- others


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_exp_segsum(dtype: Any) -> None:
    x = sample((2, 3, 6), dtype)
    leaf = of(x).requires_grad_()
    ones = torch.ones(6, 6, dtype=torch.bool)
    terms = leaf[..., None].expand(2, 3, 6, 6).masked_fill(~ones.tril(-1), 0)
    expected = terms.cumsum(-2).masked_fill(~ones.tril(), -torch.inf).exp()
    result = ops.exp_segsum(x)
    close(result, expected.detach())
    if dtype == F32:
        grad = sample((2, 3, 6, 6), seed=1)
        expected.backward(of(grad))
        close(ops.exp_segsum_backward(grad, result), leaf.grad, 30)


def test_grouped_bias_add_grad() -> None:
    grad = sample((10, 4), F16)
    parts = [of(grad)[:3].sum(0), of(grad)[3:3].sum(0), of(grad)[3:].sum(0)]
    close(ops.grouped_bias_add_grad(grad, np.int32([3, 3, 10])), torch.stack(parts))
    close(ops.grouped_bias_add_grad_v2(grad, np.int64([3, 0, 7]), 1), torch.stack(parts))
    close(ops.grouped_bias_add_grad(grad.reshape(2, 5, 4)), of(grad).reshape(2, 5, 4).sum(1))
    with pytest.raises(AclError, match=r"group_idx element \[1\] is 11"):
        ops.grouped_bias_add_grad(grad, np.int32([3, 11]))


def test_sinkhorn() -> None:
    result = ops.sinkhorn(sample((6, 4)), 1e-6).astype(np.float64)
    np.testing.assert_allclose(result.sum(0), 1 / 4, rtol=1e-3)
    np.testing.assert_allclose(result.sum(1), 1 / 6, rtol=1e-3)


def test_add_lora() -> None:
    y, x = sample((3, 48), F16), sample((3, 16), F16, 1)
    a, b = sample((2, 2, 16, 16), F16, 2), sample((2, 2, 32, 16), F16, 3)
    indices = np.int32([1, 0, 1])
    result = ops.add_lora(y, x, b, indices, a, 1, 0.5, 16, 32)
    expected = of(y).clone()
    for row, name in enumerate([1, 0, 1]):
        expected[row, 16:] += 0.5 * of(b)[name, 1] @ (of(a)[name, 1] @ of(x)[row])
    close(result, expected, 3)
    expected[1] = of(y)[1]
    close(ops.add_lora(y, x, b, np.int32([1, -1, 1]), a, 1, 0.5, 16, 32), expected, 3)  # no adapter for the second row
    with pytest.raises(AclError, match=r"indices element \[2\] is 2; allowed: 0 to 1"):
        ops.add_lora(y, x, b, np.int32([1, -1, 2]), a, 1, 0.5, 16, 32)


def test_transform_bias_rescale_qkv() -> None:
    qkv, bias = sample((2, 5, 24)), sample(24, seed=1)
    q, k, v = ops.transform_bias_rescale_qkv(qkv, bias, 2)
    whole = (of(qkv) + of(bias)).reshape(2, 5, 3, 2, 4).permute(2, 0, 3, 1, 4)
    agree((q, k, v), (whole[0] / 2, whole[1], whole[2]))
