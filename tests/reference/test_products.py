"""Matrix products and convolutions against float64 and torch."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from comparisons import assert_near

from ascend_aclnn import native, numerics, ops
from ascend_aclnn.numerics import products

RNG = np.random.default_rng(5)
DTYPES = [np.float32, np.float16, ml_dtypes.bfloat16]
TOLERANCE = {"float32": 1e-5, "float16": 2e-3, "bfloat16": 1e-2}


def numbers(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32).astype(dtype)


def wide(*arrays: np.ndarray) -> list[np.ndarray]:
    return [a.astype(np.float64) for a in arrays]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "left,right",
    [((3, 4), (4, 5)), ((4,), (4,)), ((4,), (4, 5)), ((3, 4), (4,)), ((2, 3, 4), (4, 5)), ((2, 1, 3, 4), (7, 4, 5)),
     ((0, 4), (4, 5))],
)  # fmt: skip
def test_matmul(left: tuple[int, ...], right: tuple[int, ...], dtype: Any) -> None:
    a, b = numbers(*left, dtype=dtype), numbers(*right, dtype=dtype)
    expected = np.matmul(*wide(a, b))
    assert_near(np.asarray(ops.matmul(a, b)), expected, TOLERANCE, floor=1e-30, dtype=dtype)


@pytest.mark.parametrize("dtype", DTYPES[1:])
@pytest.mark.parametrize("rows,inner,columns", [(4, 256, 1024), (16, 64, 2047), (15, 1000, 67), (3, 2, 200_000)])
def test_few_rows_in_pieces(rows: int, inner: int, columns: int, dtype: Any) -> None:
    """Each piece is where it belongs, and results do not depend on strides."""
    a, b = numbers(rows, inner, dtype=dtype), numbers(columns, inner, dtype=dtype).T
    product = ops.mm(a, b)
    assert_near(product, np.matmul(*wide(a, b)), TOLERANCE, floor=1e-30, dtype=dtype)
    np.testing.assert_array_equal(product.view(np.uint16), ops.mm(a, np.ascontiguousarray(b)).view(np.uint16))


def chain(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a @ b, each sum from the first product on, rounded once for each: float64 holds what is rounded, of numbers like these."""
    sums = np.zeros((len(a), b.shape[1]), np.float32)
    for k in range(len(b)):
        sums = (a[:, k, None].astype(np.float64) * b[k].astype(np.float64) + sums).astype(np.float32)
    return sums


@pytest.mark.parametrize("dtype", DTYPES[1:])
@pytest.mark.parametrize("rows,inner,columns", [(2, 256, 320), (3, 67, 1000), (5, 1021, 67), (16, 300, 333)])
def test_few_rows_by_16_bits_as_they_lie(helper: str, rows: int, inner: int, columns: int, dtype: Any) -> None:
    assert native.multiplies_few_rows() is (helper in ("avx2", "avx512"))
    if not native.multiplies_few_rows():
        return
    a = (RNG.integers(-64, 65, (rows, inner)) / 64).astype(dtype).astype(np.float32)
    b = (RNG.integers(-64, 65, (columns, inner + 3)) / 64).astype(dtype).T[1 : inner + 1]
    found = np.full((rows, columns), np.nan, np.float32)
    native.multiply_few_rows(a, b, found)
    np.testing.assert_array_equal(found.view(np.uint32), chain(a, b).view(np.uint32))


@pytest.mark.parametrize("dtype", DTYPES[1:])
@pytest.mark.parametrize("rows", [1, 2, 3, 4, 8, 16])
def test_few_rows_have_the_bits_of_blas(helper: str, rows: int, dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what a decoding step multiplies, infinities and numbers without a leading 1 among them."""
    for inner, columns in [(256, 256), (256, 1024), (512, 256), (2048, 96)]:
        a, b = numbers(rows, inner, dtype=dtype), numbers(columns, inner, dtype=dtype).T
        a[0, 3], b[5, 7], b[:, 9] = np.inf, -np.inf, b[:, 9] * dtype(1e-6)
        found = ops.mm(a, b).view(np.uint16)
        with monkeypatch.context() as patched:
            patched.setattr(native, "multiplies_few_rows", lambda: False)
            np.testing.assert_array_equal(found, ops.mm(a, b).view(np.uint16))


def test_few_rows_are_left_to_another_blas(helper: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that adds in another order, whose bits the helper does not have."""
    a, b = numbers(3, 256), numbers(320, 256, dtype=np.float16).T
    monkeypatch.setattr(products, "_adds_as_blas", products._adds_as_blas.__wrapped__)
    monkeypatch.setattr(products, "matmul_few_rows", lambda a, b: np.matmul(a[:, ::-1].copy(), b[::-1].copy()))
    assert products.multiply_narrow(a, b) is None


@pytest.mark.parametrize("dtype", DTYPES)
def test_batches(dtype: Any) -> None:
    a, b, x = numbers(6, 3, 4, dtype=dtype), numbers(6, 4, 5, dtype=dtype), numbers(6, 3, 5, dtype=dtype)
    assert_near(ops.batch_mat_mul(a, b), np.matmul(*wide(a, b)), TOLERANCE, floor=1e-30, dtype=dtype)
    product = np.matmul(*wide(a, b))
    assert_near(
        ops.baddbmm(x, a, b, 0.5, 2.0), 0.5 * x.astype(float) + 2 * product, TOLERANCE, floor=1e-30, dtype=dtype
    )
    assert_near(
        ops.addbmm(x[0], a, b, 0.5, 2.0),
        0.5 * x[0].astype(float) + 2 * product.sum(axis=0),
        TOLERANCE,
        floor=1e-30,
        dtype=dtype,
    )


@pytest.mark.parametrize("dtype", DTYPES)
def test_addmm_and_friends(dtype: Any) -> None:
    x, a, b, v = (numbers(*s, dtype=dtype) for s in [(3, 5), (3, 4), (4, 5), (4,)])
    product = np.matmul(*wide(a, b))
    assert_near(ops.addmm(x, a, b, 0.5, 2.0), 0.5 * x.astype(float) + 2 * product, TOLERANCE, floor=1e-30, dtype=dtype)
    assert_near(ops.addmm(x[0], a, b, 1, 1), x[0].astype(float) + product, TOLERANCE, floor=1e-30, dtype=dtype)
    assert_near(ops.mv(a, v), np.matmul(*wide(a, v)), TOLERANCE, floor=1e-30, dtype=dtype)
    assert_near(
        ops.addmv(x[:, 0].copy(), a, v, 2.0, 0.5),
        0.5 * x[:, 0].astype(float) + 2 * np.matmul(*wide(a, v)),
        TOLERANCE,
        floor=1e-30,
        dtype=dtype,
    )
    y = x.copy()
    ops.inplace_addmm(y, a, b, 1, 1)
    assert_near(y, x.astype(float) + product, TOLERANCE, floor=1e-30, dtype=dtype)
    assert_near(
        ops.gemm(a, b, x, 2.0, 0.5, 0, 0), 0.5 * x.astype(float) + 2 * product, TOLERANCE, floor=1e-30, dtype=dtype
    )


def test_beta_zero_does_not_read_self() -> None:
    nan = np.full((2, 2), np.nan, np.float32)
    one = np.ones((2, 2), np.float32)
    assert ops.addmm(nan, one, one, 0, 1).tolist() == [[2, 2], [2, 2]]


def test_low_precision_sums_are_wide() -> None:
    ones = np.ones((1, 4096), ml_dtypes.bfloat16)
    assert float(ops.matmul(ones, ones.T)[0, 0]) == 4096


def test_weights_in_nz() -> None:
    import ascend_aclnn as aclnn

    with aclnn.use_backend("numpy"):
        a, b = numbers(20, 40, dtype=np.float16), numbers(40, 33, dtype=np.float16)
        out = ops.matmul_weight_nz(aclnn.asarray(a), aclnn.asarray(b).to_format("FRACTAL_NZ"))
        assert_near(out.numpy(), np.matmul(*wide(a, b)), TOLERANCE, floor=1e-30, dtype=np.float16)


CONVOLUTIONS = [
    # spatial, kernel, stride, padding, dilation, groups, transposed, output padding
    ((9,), (3,), 2, 1, 1, 1, False, 0),
    ((8, 9), (3, 2), 1, 0, 1, 1, False, 0),
    ((8, 9), (3, 3), 2, 1, 2, 2, False, 0),
    ((8, 9), (1, 1), 1, 0, 1, 4, False, 0),
    ((5, 6, 7), (2, 3, 2), 2, 1, 1, 2, False, 0),
    ((5,), (3,), 2, 1, 1, 1, True, 1),
    ((4, 5), (3, 2), 2, 1, 1, 2, True, 1),
    ((3, 4, 5), (2, 2, 3), 1, 0, 2, 1, True, 0),
]


@pytest.mark.parametrize("spatial,kernel,stride,padding,dilation,groups,transposed,extra", CONVOLUTIONS)
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_convolution_and_its_gradients(
    spatial: Any,
    kernel: Any,
    stride: int,
    padding: int,
    dilation: int,
    groups: int,
    transposed: bool,
    extra: int,
    dtype: Any,
) -> None:
    torch = pytest.importorskip("torch", reason="torch is the oracle of convolutions: left out without it")
    n = len(spatial)
    x = numbers(2, 4, *spatial, dtype=dtype)
    w = numbers(4 if transposed else 8, (8 if transposed else 4) // groups, *kernel, dtype=dtype)
    bias = numbers(8, dtype=dtype)
    attributes = ([stride] * n, [padding] * n, [dilation] * n, transposed, [extra] * n, groups)

    tx, tw, tb = (torch.tensor(a.astype(np.float64), requires_grad=True) for a in (x, w, bias))
    expected = torch.convolution(tx, tw, tb, *attributes)
    out = ops.convolution(x, w, bias, *attributes, cube_math_type=0)
    assert_near(out, expected.detach().numpy(), TOLERANCE, floor=1e-30, dtype=dtype)

    dy = numbers(*out.shape, dtype=dtype)
    expected.backward(torch.tensor(dy.astype(np.float64)))
    made = ops.convolution_backward(dy, x, w, [8], *attributes, [True, True, True], 0)
    for actual, leaf in zip(made, (tx, tw, tb)):
        assert_near(actual, leaf.grad.numpy(), TOLERANCE, floor=1e-30, dtype=dtype)


def test_depthwise() -> None:
    torch = pytest.importorskip("torch", reason="torch is the oracle of convolutions: left out without it")
    x, w, bias = numbers(2, 4, 7, 8), numbers(8, 1, 3, 2), numbers(8)
    expected = torch.conv2d(*map(torch.tensor, (x, w, bias)), stride=(1, 2), padding=(1, 0), groups=4).numpy()
    assert_near(
        ops.conv_depthwise2d(x, w, [3, 2], bias, [1, 2], [1, 0], [1, 1], 0),
        expected,
        TOLERANCE,
        floor=1e-30,
        dtype=np.float32,
    )


def test_conv_tbc() -> None:
    torch = pytest.importorskip("torch", reason="torch is the oracle of convolutions: left out without it")
    x, w, bias = numbers(7, 2, 3), numbers(3, 3, 4), numbers(4)
    leaves = [torch.tensor(a, requires_grad=True) for a in (x, w, bias)]
    expected = torch.conv_tbc(*leaves, 1)
    assert_near(ops.conv_tbc(x, w, bias, 1, 0), expected.detach().numpy(), TOLERANCE, floor=1e-30, dtype=np.float32)
    dy = numbers(*expected.shape)
    expected.backward(torch.tensor(dy))
    for actual, leaf in zip(ops.conv_tbc_backward(dy, x, w, bias, 1, 0), leaves):
        assert_near(actual, leaf.grad.numpy(), TOLERANCE, floor=1e-30, dtype=np.float32)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_convolutions_of_empty_batches(rank: int, transposed: bool) -> None:
    torch = pytest.importorskip("torch", reason="the shapes are torch's")
    x, w, b = numbers(0, 3, *(6,) * rank), numbers(*((3, 4) if transposed else (4, 3)), *(3,) * rank), numbers(4)
    ones, zeros = [1] * rank, [0] * rank
    leaves = [torch.tensor(a, requires_grad=True) for a in (x, w, b)]
    expected = torch.convolution(*leaves, ones, zeros, ones, transposed, zeros, 1)
    y = ops.convolution(x, w, b, ones, zeros, ones, transposed, zeros, 1, 0)
    assert y.shape == tuple(expected.shape)
    expected.sum().backward()
    made = ops.convolution_backward(
        np.ones(y.shape, np.float32), x, w, [4], ones, zeros, ones, transposed, zeros, 1, [True] * 3, 0
    )
    for leaf, gradient in zip(leaves, made):
        np.testing.assert_array_equal(gradient, leaf.grad.numpy())


def test_a_batch_of_one_in_addbmm() -> None:
    a, b, x = numbers(1, 3, 4), numbers(5, 4, 2), numbers(3, 2)
    assert_near(
        ops.addbmm(x, a, b, 1, 1), x + np.matmul(*wide(a, b)).sum(axis=0), TOLERANCE, floor=1e-30, dtype=np.float32
    )


def test_addmv_reads_no_term_with_a_factor_of_zero() -> None:
    """As aclnnAddmv composes it: without a product self is taken, even with beta 0."""
    x, a, v = numbers(3), numbers(3, 4), numbers(4)
    poisoned = np.full((3, 4), np.nan, np.float32)
    assert_near(ops.addmv(x, poisoned, v, 0.0, 2.0), 2 * x.astype(float), TOLERANCE, floor=1e-30, dtype=np.float32)
    assert_near(
        ops.addmv(np.full(3, np.inf, np.float32), a, v, 2.0, 0.0),
        2 * (a.astype(float) @ v.astype(float)),
        TOLERANCE,
        floor=1e-30,
        dtype=np.float32,
    )
    assert np.isnan(ops.addmv(np.full(3, np.nan, np.float32), a, v, 0.0, 0.0)).all()
    assert_near(
        ops.addmv(x, a[:, :0], v[:0], 1.0, 0.5), 0.5 * x.astype(float), TOLERANCE, floor=1e-30, dtype=np.float32
    )


@pytest.mark.parametrize("dtype", DTYPES)
def test_products_do_not_depend_on_memory_order(dtype: Any) -> None:
    a, b, c = numbers(2, 33, 130, dtype=dtype), numbers(2, 130, 65, dtype=dtype), numbers(33, 65, dtype=dtype)

    def strided(array: np.ndarray) -> np.ndarray:
        wide_ = np.zeros(tuple(2 * n for n in array.shape), array.dtype, order="F")
        view = wide_[tuple(slice(None, None, -2) for _ in array.shape)]
        view[...] = array
        return view

    for name, tensors, attributes in [
        ("matmul", (a, b), ()),
        ("batch_mat_mul", (a, b), ()),
        ("mm", (a[0], b[0]), ()),
        ("addmm", (c, a[0], b[0]), (1, 1)),
        ("addbmm", (c, a, b), (1, 1)),
    ]:
        plain = getattr(ops, name)(*(np.ascontiguousarray(t) for t in tensors), *attributes)
        other = getattr(ops, name)(*map(strided, tensors), *attributes)
        assert plain.tobytes() == np.ascontiguousarray(other).tobytes(), name


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("m,k,n", [(200, 170, 130), (64, 64, 256), (2, 3000, 200), (65, 1, 20000)])
def test_bits_do_not_depend_on_the_layout(m: int, k: int, n: int, dtype: Any) -> None:
    """Of products that are large enough to go to BLAS without a copy."""
    a, b = numbers(m, k, dtype=dtype), numbers(k, n, dtype=dtype)
    expected = np.matmul(a, b)

    def layouts(x: np.ndarray) -> list[np.ndarray]:
        wide = np.zeros((x.shape[0] * 2, x.shape[1] + 3), dtype)
        padded, every_other = wide[: len(x), 3:], np.zeros_like(wide)[::2, 3:]
        padded[...] = every_other[...] = x
        spread = np.zeros((x.shape[0], x.shape[1] * 2), dtype)[:, ::2]
        spread[...] = x
        backwards = np.ascontiguousarray(x[::-1, ::-1])[::-1, ::-1]
        return [x, np.asfortranarray(x), padded, every_other, spread, backwards]

    pairs = [*((left, b) for left in layouts(a)), *((a, right) for right in layouts(b)), (layouts(a)[1], layouts(b)[1])]
    for left, right in pairs:
        assert numerics.matmul(left, right).tobytes() == expected.tobytes()


def test_a_matrix_with_its_own_transpose_is_a_product_like_others() -> None:
    a = numbers(300, 200)
    assert numerics.matmul(a, a.T).tobytes() == np.matmul(a, np.ascontiguousarray(a.T)).tobytes()
    assert numerics.matmul(a.T, a).tobytes() == np.matmul(np.ascontiguousarray(a.T), a.copy()).tobytes()
