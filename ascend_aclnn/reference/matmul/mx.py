"""Products of operands with shared exponents, on Ascend 950 (part of ops-nn/matmul).

Elements of 8 and 4 bits times powers of two are exact in float32; they are multiplied and summed there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional

import ml_dtypes
import numpy as np

from ascend_aclnn.numerics import Array, matmul, round_into, widen
from ascend_aclnn.reference import _mx as mx
from ascend_aclnn.reference._gates import activated
from ascend_aclnn.reference.declare import reference
from ascend_aclnn.reference.matmul.quant import turned

E8M0 = np.dtype(ml_dtypes.float8_e8m0fnu)


def mx_product(
    x1: Array, x2: Array, scale1: Array, scale2: Array, transpose_x1: bool = False, transpose_x2: bool = False
) -> Array:
    """The product of two operands whose blocks of 32 along the summed axis have scales."""
    left = mx.restored(x1, scale1, -2 if transpose_x1 else -1)
    right = mx.restored(x2, scale2, -1 if transpose_x2 else -2)
    return matmul(turned(left, transpose_x1), turned(right, transpose_x2))


@reference("aclnnTransposeQuantBatchMatMul", "aclnnTransposeQuantBatchMatMulWeightNz", raw=True)
def transpose_quant_batch_matmul(
    x1: Array,
    x2: Array,
    bias: Optional[Array],
    scale1: Optional[Array],
    scale2: Optional[Array],
    dtype: int,
    group_size: int,
    perm_x1: Sequence[int],
    perm_x2: Sequence[int],
    perm_y: Sequence[int],
    split: int,
    *,
    out: tuple[Array],
) -> None:
    """The product of transposed operands, transposed itself, by scales of rows and columns or of blocks of 32."""
    axes1, axes2 = tuple(perm_x1), tuple(perm_x2)
    left, right = widen(x1).transpose(axes1), widen(x2).transpose(axes2)
    if scale2 is not None and scale2.dtype == E8M0:
        assert scale1 is not None
        # Scales of x2 lie as x2 does, with pairs in place of the summed axis.
        y = mx_product(left, right, scale1.transpose(*axes1, 3), scale2.transpose(*axes2, 3))
    else:
        y = matmul(left, right)
        y = y if scale2 is None else y * scale2
        y = y if scale1 is None else y * scale1.reshape(-1, 1)
    round_into(out[0], y.transpose(tuple(perm_y)))


@reference("aclnnQuantBatchMatmulInplaceAdd", raw=True)
def quant_batch_matmul_inplace_add(
    x1: Array,
    x2: Array,
    scale1: Optional[Array],
    scale2: Array,
    y: Array,
    transpose_x1: bool,
    transpose_x2: bool,
    group_size: int,
    *,
    out: tuple[Array],
) -> None:
    """y plus the product: of blocks of 32 that share an exponent, or of HIFLOAT8 with one scale for each operand."""
    assert scale1 is not None
    if scale2.dtype == E8M0:
        product = mx_product(x1, x2, scale1, scale2, transpose_x1, transpose_x2)
    else:
        product = matmul(turned(widen(x1), transpose_x1), turned(widen(x2), transpose_x2)) * (scale1 * scale2)
    np.copyto(out[0], y + product)


@reference("aclnnQuantMatmulActivationQuantWeightNz", raw=True)
def quant_matmul_activation_quant(
    x1: Array,
    x2: Array,
    scale1: Optional[Array],
    scale2: Array,
    bias: Optional[Array],
    transpose_x1: bool,
    transpose_x2: bool,
    group_size: int,
    activation: str,
    quant_mode: str,
    round_mode: Optional[str],
    algorithm: int,
    type_max: float,
    *,
    out: tuple[Array, Array],
) -> None:
    """The product plus bias, activated in float32, in blocks of 32 columns that share an exponent."""
    assert scale1 is not None
    y = mx_product(x1, x2, scale1, scale2, transpose_x1, transpose_x2)
    y = activated(y if bias is None else y + bias, activation)
    how = mx.Scaling(algorithm, round_mode or "rint", type_max=type_max)
    mx.store(*out, *mx.along(y, -1, out[0].dtype, how))


@reference("aclnnDualLevelQuantMatmulWeightNz", raw=True)
def dual_level_quant_matmul(
    x1: Array,
    x2: Array,
    level0_scale1: Array,
    level0_scale2: Array,
    level1_scale1: Array,
    level1_scale2: Array,
    bias: Optional[Array],
    transpose_x1: bool,
    transpose_x2: bool,
    level0_size: int,
    level1_size: int,
    *,
    out: tuple[Array],
) -> None:
    """x1 (m, k) by x2 (n, k): blocks of 32 that share an exponent, 16 of them a scale (x2's lie in columns)."""
    left, right = mx.restored(x1, level1_scale1, -1), mx.restored(x2, level1_scale2, -1)
    y: Any = 0 if bias is None else bias
    for number, start in enumerate(range(0, x1.shape[1], level0_size)):
        part = np.s_[:, start : start + level0_size]
        y = y + matmul(left[part], right[part].T) * level0_scale1[:, number, None] * level0_scale2[number]
    round_into(out[0], y)
