"""Grouped products of single tensors (part of ops-transformer/gmm)."""

from __future__ import annotations

from typing import Any, Optional

import numpy as np

from ascend_aclnn.numerics import Array, matmul, round_into
from ascend_aclnn.reference.declare import reference
from ascend_aclnn.reference.gmm._groups import ENDS, SIZES, parts
from ascend_aclnn.reference.matmul.mx import mx_product
from ascend_aclnn.reference.matmul.quant import quantised_product, turned


@reference("aclnnGroupedMatmulAdd", "aclnnGroupedMatmulAddV2")
def grouped_matmul_add(
    x: Array,
    weight: Array,
    groups: Array,
    y: Array,
    transpose_x: bool,
    transpose_weight: bool,
    kind: int,
    list_type: int = ENDS,
) -> Array:
    """y plus, for each group of the first axes of x (K, M) and weight (K, N), their product (M, N)."""
    total = y.reshape(len(groups), x.shape[1], weight.shape[1]).copy()
    for number, part in parts(groups, list_type):
        total[number] += matmul(x[part].T, weight[part])
    return np.asarray(total.reshape(y.shape))


@reference("aclnnQuantGroupedMatmulDequant", "aclnnQuantGroupedMatmulDequantWeightNZ", raw=True)
def quant_grouped_matmul_dequant(
    x: Array,
    weight: Array,
    weight_scale: Array,
    groups: Array,
    bias: Optional[Array],
    x_scale: Optional[Array],
    x_offset: Optional[Array],
    smooth: Optional[Array],
    mode: str,
    transpose: bool,
    *,
    out: tuple[Array],
) -> None:
    """Each group of rows quantised to 8 bits, multiplied, and scaled back."""
    out[0][...] = 0
    matrices = turned(weight, transpose)
    for number, part in parts(groups):
        scales = x_scale if x_scale is None or x_scale.size == 1 else x_scale[part]
        y = quantised_product(x[part], matrices[number], weight_scale[number], None, scales, smooth, mode)
        round_into(out[0][part], y)


def _unsupported(call: Any) -> Optional[str]:
    """CANN takes the memory of scale1 as if its first two axes were stored in the other order, whether they are or not."""
    scale = call["scale1Optional"]
    if call["yRef"].size == 0 or scale is None or scale.ndim != 3:  # nothing is computed, or CANN refuses it
        return None
    rows, pairs = scale.shape[:2]
    if scale.strides != (2, rows * 2, 1) and min(pairs, rows) > 1:
        return "the NumPy backend takes scale1 with its first two axes stored in the other order"
    return None


@reference("aclnnQuantGroupedMatmulInplaceAdd", raw=True, unsupported=_unsupported)
def quant_grouped_matmul_inplace_add(
    x1: Array,
    x2: Array,
    scale1: Optional[Array],
    scale2: Array,
    groups: Array,
    y: Array,
    list_type: int,
    group_size: int,
    *,
    out: tuple[Array],
) -> None:
    """y plus, for each group of the summed axis of x1 (M, K) and x2 (K, N), their product (M, N).

    Each 32 of the summed axis share an exponent; the pairs of a group begin at its start // 64 + its number.
    """
    total = np.array(y, np.float32)
    for number, span in parts(groups, SIZES if list_type else ENDS) if y.size else ():
        assert scale1 is not None
        if span.stop > span.start:
            place = span.start // 64 + number
            pairs = slice(place, place + -(-(span.stop - span.start) // 64))
            total[number] += mx_product(x1[:, span], x2[span], scale1[:, pairs], scale2[pairs], False, False)
    round_into(out[0], total)
