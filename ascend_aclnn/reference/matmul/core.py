"""Matrix products (ops-nn/matmul): accumulated in float32 and rounded once.

The order of summation is BLAS's, not the cube unit's. cubeMathType only allows the hardware to be less exact (HFLOAT32)
and changes nothing here, except that USE_FP16 rounds float32 operands to float16, whose range is smaller.
"""

from __future__ import annotations

from typing import Any, Optional

import numpy as np

from ascend_aclnn.numerics import (
    BLOCK,
    Array,
    is_low_precision,
    matmul,
    matmul_few_rows,
    multiply_bf16,
    multiply_narrow,
    round_into,
    widen,
)
from ascend_aclnn.reference._unchanged import of_unchanged
from ascend_aclnn.reference.declare import reference

_USE_FP16 = 2  # cubeMathType
_FLOAT32 = np.dtype(np.float32)


def _cube_operand(x: Array, cube_math_type: int) -> Array:
    """An operand as the cube unit takes it, in the precision to accumulate in."""
    if cube_math_type == _USE_FP16 and x.dtype == np.float32:
        with np.errstate(over="ignore"):
            x = x.astype(np.float16)
    return widen(x)


def operand(x: Array, cube_math_type: int) -> Array:
    """The same, contiguous, for sums that depend on strides."""
    return np.asarray(_cube_operand(x, cube_math_type), order="C")


_FEW_ROWS = 16  # of the first operand: with more of them the product takes longer than widening the second one


def _are_few_rows(a: Array, b: Array) -> bool:
    return a.ndim == b.ndim == 2 and len(a) <= _FEW_ROWS and is_low_precision(b.dtype)


def _product_of_few_rows(a: Array, b: Array, cube_math_type: int) -> Array:
    """a @ b, the second one as it lies, or widened once while its bytes stay the same: that is most of the work."""
    left = _cube_operand(a, cube_math_type)
    narrow = multiply_narrow(left, b)
    return matmul_few_rows(left, of_unchanged(widen, [b])) if narrow is None else narrow


def product(a: Array, b: Array, cube_math_type: int = 0) -> Array:
    """a @ b, with the broadcasting of batches and the vectors of np.matmul."""
    narrow = multiply_bf16(a, b)
    if narrow is not None:
        return narrow
    if _are_few_rows(a, b):
        return _product_of_few_rows(a, b, cube_math_type)
    return matmul(_cube_operand(a, cube_math_type), _cube_operand(b, cube_math_type))


def _as(factor: Any, term: Array) -> Any:
    """A scalar in the precision of the floats that it multiplies."""
    return term.dtype.type(factor) if np.issubdtype(term.dtype, np.floating) else factor


def _scaled_sum(addend: Optional[Array], beta: Any, term: Any, alpha: Any) -> Any:
    """beta * addend + alpha * term; an addend with beta 0 is not looked at, so its NaN and infinities do not count."""
    alpha, beta = _as(alpha, term), _as(beta, term)
    total = term if alpha == 1 else term * alpha
    if addend is None or beta == 0:
        return total
    scaled = addend if beta == 1 else addend * beta
    in_place = scaled.dtype == total.dtype and np.broadcast_shapes(scaled.shape, total.shape) == total.shape
    return np.add(scaled, total, out=total if in_place else None)


@reference("aclnnMm", "aclnnMatmul", "aclnnBatchMatMul", raw=True)
def plain_product(a: Array, b: Array, cube_math_type: int, *, out: tuple[Array]) -> None:
    target = out[0]
    if a.dtype is not _FLOAT32 or b.dtype is not _FLOAT32 or cube_math_type == _USE_FP16:  # else they stay as they are
        if multiply_bf16(a, b, target) is not None or (a.ndim > 2 and _by_batches(a, b, target)):
            return
        if _are_few_rows(a, b):
            round_into(target, _product_of_few_rows(a, b, cube_math_type))
            return
        a, b = _cube_operand(a, cube_math_type), _cube_operand(b, cube_math_type)
    fits = a.shape[:-2] == b.shape[:-2] and target.shape == (*a.shape[:-1], b.shape[-1]) and a.dtype == b.dtype
    if fits and a.ndim > 1 and target.dtype == a.dtype and target.flags.c_contiguous and target.flags.aligned:
        matmul(a, b, target)
    else:
        round_into(target, matmul(a, b))


_AT_ONCE = 8 * BLOCK  # elements of both operands and the product


def _by_batches(a: Array, b: Array, out: Array) -> bool:
    """The product of low-precision batches, some matrices at a time, so that what is widened stays in the caches.

    False, with nothing written, where there are no such batches. BLAS multiplies each pair of matrices by itself in any case.
    """
    narrow = is_low_precision(a.dtype) and a.dtype == b.dtype and a.shape[:-2] == b.shape[:-2]
    if (
        not narrow
        or out.shape != (*a.shape[:-1], b.shape[-1])
        or np.may_share_memory(a, out)
        or np.may_share_memory(b, out)
    ):
        return False
    if a.ndim > 3:
        for matrices in zip(a, b, out):
            plain_product(*matrices[:2], 0, out=matrices[2:])
        return True
    step = max(1, _AT_ONCE // max(1, a[0].size + b[0].size + out[0].size)) if len(a) else 1
    if len(a) <= step:
        return False
    for low in range(0, len(a), step):
        some = slice(low, low + step)
        round_into(out[some], matmul(widen(a[some]), widen(b[some])))
    return True


@reference("aclnnMatmulWeightNz", "aclnnBatchMatMulWeightNz", "aclnnMv")
def matmul_decoded(a: Array, b: Array, cube_math_type: int) -> Any:
    """The weight's blocks are decoded before this is called."""
    return product(a, b, cube_math_type)


_OPERANDS = ("mat1", "mat2", "batch1", "batch2")  # which a product may take as they are stored


@reference(
    "aclnnAddmm", "aclnnInplaceAddmm", "aclnnBaddbmm", "aclnnInplaceBaddbmm", "aclnnAddmmWeightNz", stored=_OPERANDS
)
def addmm(x: Array, a: Array, b: Array, beta: Any, alpha: Any, cube_math_type: int) -> Any:
    """beta * self + alpha * (mat1 @ mat2), batch by batch for baddbmm; self broadcasts."""
    return _scaled_sum(x, beta, product(a, b, cube_math_type), alpha)


@reference("aclnnAddbmm", "aclnnInplaceAddbmm")
def addbmm(x: Array, a: Array, b: Array, beta: Any, alpha: Any, cube_math_type: int) -> Any:
    """beta * self + alpha * the sum over the batch of batch1 @ batch2; a batch of 1 is that of the other operand."""
    # One product over batch and inner axis together, so that the sum is rounded once.
    batch = max(len(a), len(b)) if len(a) and len(b) else 0
    a, b = (np.broadcast_to(x, (batch, *x.shape[1:])) for x in (a, b))
    left = np.moveaxis(a, 0, 1).reshape(a.shape[1], batch * a.shape[2])
    right = b.reshape(batch * b.shape[1], b.shape[2])
    return _scaled_sum(x, beta, product(left, right, cube_math_type), alpha)


@reference("aclnnAddmv")
def addmv(x: Array, matrix: Array, vector: Array, alpha: Any, beta: Any, cube_math_type: int) -> Any:
    """beta * self + alpha * (mat @ vec); a factor of 0 leaves its term unread, so NaN and infinities in it do not count.

    Without a product (alpha 0, or nothing to sum) self is read even with beta 0.
    """
    rows, none = len(matrix), np.finfo(np.float32).eps
    if abs(alpha) <= none or matrix.size == 0:
        whole = np.broadcast_to(x, (rows,))
        return whole if abs(beta - 1) <= none else whole * _as(beta, whole)
    return _scaled_sum(x, 0 if abs(beta) <= none else beta, product(matrix, vector, cube_math_type), alpha)


@reference("aclnnGemm")
def gemm(
    a: Array, b: Array, c: Array, alpha: float, beta: float, trans_a: int, trans_b: int, cube_math_type: int
) -> Any:
    """alpha * op(A) @ op(B) + beta * C, op transposing where its flag is not 0."""
    left, right = a.T if trans_a else a, b.T if trans_b else b
    return _scaled_sum(c, beta, product(left, right, cube_math_type), alpha)


@reference("aclnnEinsum")
def einsum(tensors: list[Array], equation: str) -> Any:
    operands = (np.asarray(x, order="C") for x in tensors)  # the order of summation depends on strides
    return np.einsum(equation.replace(" ", ""), *operands, optimize="greedy")
