"""The products that one rank computes before or after it communicates, in float32 until they are sent."""

from __future__ import annotations

from typing import Optional

import ml_dtypes
import numpy as np

from ascend_aclnn.numerics import Array, is_integer, matmul, widen
from ascend_aclnn.reference import _mx as mx
from ascend_aclnn.reference.matmul.quant import fixed_scale, grouped_product, integers, scaled_product

E8M0 = np.dtype(ml_dtypes.float8_e8m0fnu)


def columns_of(x2: Array, inner: int, transposed: Optional[bool] = None) -> Array:
    """The right operand as (k, n); without a flag, it is transposed if its first axis is not the inner one."""
    return x2.T if (x2.shape[0] != inner if transposed is None else transposed) else x2


def plain_product(x1: Array, x2: Array, bias: Optional[Array]) -> Array:
    y = matmul(widen(x1), np.asarray(widen(x2), order="C"))
    return y if bias is None else y + widen(bias)


def restored_columns(x2: Array, scale: Array) -> Array:
    """A right operand (k, n) by scales of blocks of 32 along k, which lie as (n, k / 64, 2) or (k / 64, n, 2)."""
    if scale.shape[0] == x2.shape[1]:
        return mx.restored(np.ascontiguousarray(x2.T), scale, -1).T
    return mx.restored(x2, scale, -2)


def product(
    x1: Array,
    x2: Array,
    bias: Optional[Array],
    scale1: Optional[Array],
    scale2: Optional[Array],
    group_size: int = 0,
    scaled_bias: bool = False,
) -> Array:
    """x1 (m, k) by x2 (k, n), scaled by rows and columns, by blocks, or by shared exponents, according to the scales' shapes.

    A bias of integers is added before the scaling; one of floats behind it, or with ``scaled_bias`` before it too.
    """
    if scale2 is None:
        return plain_product(x1, x2, bias)
    left, right = integers(x1), integers(x2)
    shape = (left.shape[0], right.shape[1])
    y = np.empty(shape, np.float32)
    if scale1 is not None and scale2.dtype == E8M0:
        y = matmul(mx.restored(left, scale1, -1), restored_columns(right, scale2))
    elif scale1 is not None and scale1.ndim > 1 and scale1.shape[-1] != 1:
        blocks = (-(-right.shape[0] // 128), -(-right.shape[1] // 128))
        # Scales of a transposed operand lie as it is stored.
        lying = scale2 if scale2.shape == blocks else scale2.T
        grouped_product(left, right, scale1, lying, None, None, group_size, y)
    else:
        flat1, flat2 = None if scale1 is None else scale1.reshape(-1), scale2.reshape(-1)
        whole = bias is not None and is_integer(bias.dtype)
        scaled_product(left, right, flat2, flat1, None, bias if whole else None, y)
        if bias is not None and not whole:
            factor = 1.0 if not scaled_bias else fixed_scale(flat2) * (1.0 if flat1 is None else flat1.reshape(-1, 1))
            y = y + widen(bias) * np.asarray(factor, np.float32)
        return y
    return y if bias is None else y + widen(bias)
