"""References of ops-math/math: products of vectors, matrix decompositions, distances, transforms to frequencies.

Matrices are decomposed in float64 (complex128) with LAPACK's choice of signs, which another library may make otherwise.
"""

from __future__ import annotations

import math
from typing import Any, Callable, Optional

import numpy as np

from ascend_aclnn.numerics import BLOCK, Array, DataError, rows_per_block, sum_type
from ascend_aclnn.reference._arrays import total
from ascend_aclnn.reference._pointwise import is_whole, number
from ascend_aclnn.reference.declare import reference

# ------------------------------------------------------------------------------------------------- vectors


@reference("aclnnDot")
def dot(x: Array, other: Array) -> Any:
    """Sum of products; integers wrap around."""
    return np.dot(x.astype(sum_type(x.dtype)), other.astype(sum_type(other.dtype)))


reference("aclnnGer")(np.outer)


@reference("aclnnAddr", "aclnnInplaceAddr")
def addr(x: Array, vec1: Array, vec2: Array, beta: Any, alpha: Any) -> Any:
    """beta * x + alpha * outer(vec1, vec2); with a beta of 0, x does not count even where it is NaN.

    Without elements in a vector CANN leaves the output alone.
    """
    if vec1.size == 0 or vec2.size == 0:
        return None
    common = np.result_type(x, vec1, vec2)
    product = np.outer(vec1, vec2).astype(common, copy=False)
    if alpha is not None and alpha != 1:
        product = product * number(alpha, product)
    if beta is not None and beta == 0:
        return product
    return (x if beta is None or beta == 1 else x * number(beta, product)) + product


@reference("aclnnLinalgCross")
def cross(x: Array, other: Array, dim: int) -> Any:
    """The vector product along an axis of three elements."""
    axis = dim % x.ndim - x.ndim
    x, other = np.broadcast_arrays(x, other)
    if x.size == 0:
        return x.copy()
    after, before = [1, 2, 0], [2, 0, 1]
    return x.take(after, axis) * other.take(before, axis) - x.take(before, axis) * other.take(after, axis)


# ------------------------------------------------------------------------------------------------- matrices


@reference("aclnnTrace")
def trace(x: Array) -> Any:
    """The sum of the diagonal; of integers and booleans as INT64."""
    diagonal = np.diagonal(x)
    return total(diagonal.astype(np.int64) if is_whole(x) else diagonal)


def _double(x: Array) -> Array:
    return x.astype(sum_type(x.dtype), copy=False)


@reference("aclnnSlogdet")
def slogdet(x: Array) -> Any:
    """Sign and logarithm of the magnitude of determinants: 0 and -inf for singular matrices."""
    sign, logarithm = np.linalg.slogdet(_double(x))
    return sign, logarithm


@reference("aclnnLogdet")
def logdet(x: Array) -> Any:
    """The logarithm of determinants; NaN for negative ones."""
    sign, logarithm = np.linalg.slogdet(_double(x))
    return logarithm + np.log(sign)


@reference("aclnnLinalgCholesky")
def cholesky(x: Array, upper: bool) -> Any:
    """The triangular factor of symmetric matrices, of which only the wanted triangle is read."""
    matrices = np.swapaxes(x, -1, -2) if upper else x
    try:
        factor = np.linalg.cholesky(_double(matrices))
    except np.linalg.LinAlgError:
        raise DataError("self", "has a matrix that is not positive definite") from None
    return np.swapaxes(factor, -1, -2) if upper else factor


def _qr(x: Array, complete: bool) -> tuple[Any, Any]:
    q, r = np.linalg.qr(_double(x), "complete" if complete else "reduced")
    return q, r


@reference("aclnnLinalgQr")
def linalg_qr(x: Array, mode: int) -> Any:
    """Mode 0: as many columns as needed; 1: all; 2: R alone, beside a Q without elements."""
    q, r = _qr(x, mode == 1)
    return (q[..., :0].reshape(0) if mode == 2 else q), r


@reference("aclnnQr")
def qr(x: Array, some: bool) -> Any:
    return _qr(x, not some)


@reference("aclnnSvd")
def svd(x: Array, full_matrices: bool, compute_uv: bool) -> Any:
    """Singular values, left vectors, and right vectors as columns; CANN leaves the vectors alone if not asked for."""
    matrices = _double(x)
    try:
        if not compute_uv:
            return np.linalg.svd(matrices, compute_uv=False), None, None
        u, sigma, vh = np.linalg.svd(matrices, full_matrices)
    except np.linalg.LinAlgError:
        raise DataError(
            "input", "has no singular values that the iteration converges to: it holds NaN or infinity"
        ) from None
    return sigma, u, np.conj(np.swapaxes(vh, -1, -2))


@reference("aclnnTriangularSolve")
def triangular_solve(b: Array, a: Array, upper: bool, transpose: bool, unitriangular: bool) -> Any:
    """X of A X = b, reading one triangle of A, and A itself in the shape that it takes beside b."""
    triangle = _double(np.triu(a) if upper else np.tril(a))
    if unitriangular:
        index = np.arange(a.shape[-1])
        triangle[..., index, index] = 1
    if transpose:
        triangle = np.swapaxes(triangle, -1, -2)
    batches = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    triangle = np.broadcast_to(triangle, batches + a.shape[-2:])
    solution = np.zeros(batches + b.shape[-2:], triangle.dtype)
    rows = range(a.shape[-1])
    # Substitution row by row: a zero on the diagonal gives infinities and NaN, as on the device.
    for row in reversed(rows) if upper != transpose else rows:
        solved = (triangle[..., row, None, :] @ solution)[..., 0, :]
        solution[..., row, :] = (b[..., row, :] - solved) / triangle[..., row, row, None]
    return solution, np.broadcast_to(a, batches + a.shape[-2:])


# ------------------------------------------------------------------------------------------------- distances


def _norm(differences: Array, p: float) -> Any:
    """The p-norm of magnitudes along the last axis."""
    if p == 0:
        return np.count_nonzero(differences, -1)
    if p == 1:
        return total(differences, (-1,))
    if p == 2:
        return np.sqrt(total(differences * differences, (-1,)))
    if math.isinf(p):
        return differences.max(-1, initial=0)
    return total(differences**p, (-1,)) ** (1 / p)


def _by_rows(left: Array, right: Array, use: Callable[[Array, slice], None]) -> None:
    """Calls ``use`` with the differences of all pairs of rows, for some rows of ``left`` at a time."""
    step = rows_per_block(max(1, right.size) * max(1, math.prod(left.shape[:-2])), 4 * BLOCK)
    for low in range(0, left.shape[-2], step):
        rows = slice(low, low + step)
        use(left[..., rows, None, :] - right[..., None, :, :], rows)


def _distances(left: Array, right: Array, p: float) -> Array:
    batches = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    result = np.zeros((*batches, left.shape[-2], right.shape[-2]), np.float64)

    def use(differences: Array, rows: slice) -> None:
        result[..., rows, :] = _norm(np.abs(differences), p)

    _by_rows(left, right, use)
    return result


@reference("aclnnCdist")
def cdist(x1: Array, x2: Array, p: float, compute_mode: int) -> Any:
    """The distance of each row of x1 from each row of x2; CANN leaves the output alone where there are no rows."""
    if math.prod(x1.shape[:-1]) == 0 or math.prod(x2.shape[:-1]) == 0:
        return None
    return _distances(x1, x2, p)


@reference("aclnnCdistBackward")
def cdist_backward(grad: Array, x1: Array, x2: Array, distance: Array, p: float) -> Any:
    """The gradient of x1; pairs without distance have none. A p of -1 stands for infinity, as infinity does."""
    batches = np.broadcast_shapes(x1.shape[:-2], x2.shape[:-2])
    columns = max(x1.shape[-1], x2.shape[-1])
    result = np.zeros((*batches, x1.shape[-2], columns), np.float64)

    def use(differences: Array, rows: slice) -> None:
        far, upstream = distance[..., rows, :, None], grad[..., rows, :, None]
        size, sign = np.abs(differences), np.sign(differences)
        if p == 0:
            return
        if p == 1:
            derivative = sign
        elif p == -1 or math.isinf(p):
            derivative = np.where(size == far, sign, 0)
        else:
            derivative = sign * np.where(size > 0, (size / np.where(far > 0, far, 1)) ** (p - 1), 0)
        result[..., rows, :] = total(np.where(far > 0, upstream * derivative, 0), (-2,))

    _by_rows(x1, x2, use)
    shared = tuple(i for i, (n, m) in enumerate(zip(x1.shape, result.shape)) if n != m)
    return total(result, shared, True)


@reference("aclnnPdist", "aclnnPdistForward")
def pdist(x: Array, p: Any) -> Any:
    """The distances of all pairs of rows: (0, 1), (0, 2), ... (1, 2), ..."""
    rows, columns = np.triu_indices(len(x), 1)
    result = np.empty(len(rows), np.float64)
    step = rows_per_block(x.shape[1], 4 * BLOCK)
    for low in range(0, len(rows), step):
        part = slice(low, low + step)
        result[part] = _norm(np.abs(x[rows[part]] - x[columns[part]]), float(p))
    return result


# ------------------------------------------------------------------------------------------------- frequencies

_NORMS: dict[int, Any] = {1: "backward", 2: "forward", 3: "ortho"}


def _pairs(values: Array) -> Array:
    """Complex numbers as pairs of real ones."""
    return np.stack([values.real, values.imag], -1)


@reference("aclRfft1D")
def rfft(x: Array, n: int, dim: int, norm: int) -> Any:
    """The frequencies that are not negative, of x cut or filled up with zeros to n elements."""
    return _pairs(np.fft.rfft(x.astype(np.float64), None if n == -1 else n, dim, _NORMS[norm]))


@reference("aclStft")
def stft(
    x: Array,
    window: Optional[Array],
    n_fft: int,
    hop_length: int,
    win_length: int,
    normalized: bool,
    onesided: bool,
    return_complex: bool,
) -> Any:
    """Frequencies of each n_fft elements, hop_length apart; a shorter window lies in their middle, zeros around it."""
    weights = np.zeros(n_fft, sum_type(x.dtype))
    left = (n_fft - win_length) // 2
    weights[left : left + win_length] = 1 if window is None else window[:win_length]
    frames = np.lib.stride_tricks.sliding_window_view(x, n_fft, -1)[..., ::hop_length, :] * weights
    transform = np.fft.rfft if onesided else np.fft.fft
    frequencies = np.swapaxes(transform(frames, norm="ortho" if normalized else None), -1, -2)
    return frequencies if return_complex else _pairs(frequencies)
