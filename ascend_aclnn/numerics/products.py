"""Matrix products whose results do not depend on how their operands lie in memory."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Optional

import ml_dtypes
import numpy as np

from ascend_aclnn import native
from ascend_aclnn.numerics.threads import Array, scratch, side_by_side, thread_count

# Multiplications from which a product's matrices go to BLAS as they lie. It packs their blocks, transposed or not, into
# the same order, and then sums in one; but OpenBLAS multiplies up to 10^6 on AVX-512, and vectors, without packing.
_PACKED = 1 << 20


def matmul(a: Array, b: Array, out: Optional[Array] = None) -> Array:
    """np.matmul whose result does not depend on strides: operands that BLAS does not pack are made contiguous first.

    The number of BLAS threads may still change a large product's last bits. ``out`` is contiguous and shares no memory
    with the operands.
    """
    packed = a.ndim > 1 and b.ndim > 1 and a.dtype == b.dtype and a.dtype.char in "fd"
    if packed and min(a.shape[-2], b.shape[-1]) > 1 and a.shape[-2] * a.shape[-1] * b.shape[-1] >= _PACKED:
        a = a if _is_matrix(a) else np.ascontiguousarray(a)
        # Operands that share memory may be transposes of each other, which NumPy multiplies differently.
        b = b if _is_matrix(b) and not np.may_share_memory(a, b) else np.array(b, order="C")
    else:
        a, b = np.asarray(a, order="C"), np.asarray(b, order="C")
    return np.asarray(np.matmul(a, b, out))


# OpenBLAS multiplies up to so many pairs of elements by one thread, without packing. Just above, it packs the operands and wakes
# its other threads, which takes longer than the product of a few rows: 4 x 256 by 256 x 1024 took 0.5 to 2 ms of a busy
# machine's two processors, and takes 0.15 in two pieces.
_UNPACKED = 1_000_000
_PIECES = 4  # beyond them threads are worth their wake-up


def matmul_few_rows(a: Array, b: Array, out: Optional[Array] = None) -> Array:
    """``matmul`` of matrices for a few rows: where the product is small, some columns at a time, by one thread."""
    columns = _UNPACKED // max(1, a.size)
    if not columns < b.shape[1] <= _PIECES * columns:
        return matmul(a, b, out)
    a, b = np.asarray(a, order="C"), np.asarray(b, order="C")
    if out is None:
        out = np.empty((len(a), b.shape[1]), a.dtype)
    for low in range(0, b.shape[1], columns):
        np.matmul(a, b[:, low : low + columns], out=out[:, low : low + columns])
    return out


_BF16 = np.dtype(ml_dtypes.bfloat16)
_NARROW = (np.dtype(np.float16), _BF16)
_LEAST, _MOST = 1 << 16, 1 << 22  # elements of a matrix of 16 bits that is not widened


def multiply_narrow(a: Array, b: Array) -> Optional[Array]:
    """``matmul_few_rows`` of float32 and of a matrix of 16 bits, which is not widened in memory, with the same bits.

    None where the helper cannot, where BLAS has other bits, and where columns are not contiguous. Those of torch's weights are.
    """
    if not (_LEAST <= b.size <= _MOST and 1 < len(a) <= native.MOST_ROWS and b.flags.aligned):
        return None
    if (
        b.strides[0] != 2
        or b.dtype not in _NARROW
        or not native.multiplies_few_rows()
        or not _adds_as_blas(len(a), *b.shape)
    ):
        return None
    out = np.empty((len(a), b.shape[1]), np.float32)
    native.multiply_few_rows(np.asarray(a, order="C"), b, out)
    return out


@functools.lru_cache(1 << 12)
def _adds_as_blas(m: int, k: int, n: int) -> bool:
    """True where the helper has BLAS's bits for these sizes: where BLAS adds up each sum from the first k to the last."""
    numbers = np.random.default_rng(0).standard_normal(65_521).astype(np.float16)  # a prime: no two columns are equal
    a, b = np.resize(numbers[::-1], (m, k)).astype(np.float32), np.resize(numbers, (n, k)).T
    a[0], b[:, 0] = -1, 0
    found = np.empty((m, n), np.float32)
    native.multiply_few_rows(a, b, found)
    return np.array_equal(found.view(np.uint32), matmul_few_rows(a, b.astype(np.float32)).view(np.uint32))


_MOST_ROWS_OF_VECTORS = 16  # up to which a product is bound by reading the second operand


def multiply_bf16(a: Array, b: Array, out: Optional[Array] = None) -> Optional[Array]:
    """np.matmul of bfloat16 matrices by the processor's own instructions for them, summed in float32, without widened copies.

    The result is ``out``, which is float32 or bfloat16, or a new float32 array. It depends neither on strides nor on the number
    of threads, but its last bits are not BLAS's, and denormals count as 0; ``ASCEND_ACLNN_BF16_PRODUCTS=0`` switches this off.
    None, with nothing written, where the processor or the helper cannot, and where BLAS is as fast: on small matrices.
    """
    if not a.dtype == b.dtype == _BF16 or min(a.ndim, b.ndim) < 2 or a.shape[:-2] != b.shape[:-2]:
        return None
    (m, k), n = a.shape[-2:], b.shape[-1]
    if m <= _MOST_ROWS_OF_VECTORS or n <= _MOST_ROWS_OF_VECTORS or m * k * n < _PACKED or a.size == 0:
        return None
    if not (a.flags.aligned and b.flags.aligned and native.multiplies_bf16()):
        return None
    shape = (*a.shape[:-1], n)
    result = np.empty(shape, np.float32) if out is None else out
    if out is not None and (
        out.shape != shape
        or out.dtype not in (np.float32, _BF16)
        or out.strides[-1] != out.itemsize
        or not out.flags.aligned
        or np.may_share_memory(a, out)
        or np.may_share_memory(b, out)
    ):
        return None
    for matrices in _batches(a, b, result):
        pieces = np.zeros(1, np.int64)

        def work(matrices: tuple[Array, Array, Array] = matrices, pieces: Array = pieces) -> None:
            memory = scratch("products", (native.product_memory(),), np.float32)
            native.multiply_bf16(*matrices, memory, pieces)

        side_by_side(work, thread_count())
    return result


def _batches(a: Array, b: Array, out: Array) -> Iterator[tuple[Array, Array, Array]]:
    """Views of three axes, one of them batches."""
    if a.ndim <= 3:
        yield (a, b, out) if a.ndim == 3 else (a[None], b[None], out[None])
        return
    for parts in zip(a, b, out):
        yield from _batches(*parts)


def _is_matrix(x: Array) -> bool:
    """Whether BLAS can take its matrices as they lie: the rows or the columns are contiguous and do not overlap."""
    (rows, columns), (down, across), size = x.shape[-2:], x.strides[-2:], x.itemsize
    if down % size or across % size or not x.flags.aligned:
        return False
    return (across == size and down >= columns * size) or (down == size and across >= rows * size)


__all__ = ["matmul", "matmul_few_rows", "multiply_bf16", "multiply_narrow"]
