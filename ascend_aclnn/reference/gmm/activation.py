"""Grouped products with an activation and quantisation of the results (part of ops-transformer/gmm)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional

import numpy as np

from ascend_aclnn.numerics import Array, round_into, widen
from ascend_aclnn.reference import _mx as mx
from ascend_aclnn.reference._gates import swiglu
from ascend_aclnn.reference._quantise import by_row, store
from ascend_aclnn.reference.declare import reference
from ascend_aclnn.reference.gmm._groups import ENDS, SIZES, parts
from ascend_aclnn.reference.matmul.mx import mx_product
from ascend_aclnn.reference.matmul.quant import exact_product, integers, product_with_int4

List = Optional[Sequence[Any]]


def _only_int8_rows(call: Any) -> Optional[str]:
    """4-bit rows have sums of their own, shared exponents gates of their own."""
    weights = call.items("weight")
    if call["x"].dtype.name == "INT8" and all(w.dtype.name in ("INT8", "INT4", "INT32") for w in weights):
        return None
    return f"the NumPy backend takes INT8 by INT8 or INT4, not {call['x'].dtype.name} by {weights[0].dtype.name}"


def _matrices(weight: Array, plain: int) -> Array:
    """Weights, unpacked; a view of their blocks, (..., n / inner, k / 16, 16, inner), as (..., k, n)."""
    weight = integers(weight)
    if weight.ndim == plain:
        return weight
    moved = np.moveaxis(weight, -4, -2)
    return np.asarray(moved.reshape(*weight.shape[:-4], weight.shape[-3] * 16, -1))


@reference(
    "aclnnGroupedMatmulSwigluQuant", "aclnnGroupedMatmulSwigluQuantWeightNZ", raw=True, unsupported=_only_int8_rows
)
def grouped_matmul_swiglu_quant(
    x: Array,
    weight: Array,
    bias: Optional[Array],
    offset: Optional[Array],
    weight_scale: Array,
    x_scale: Array,
    groups: Array,
    *,
    out: tuple[Array, Array, Optional[Array]],
) -> None:
    """x @ weight * xScale * weightScale, swiglu with the left half activated, each row quantised by its largest."""
    _swiglu_quant(x, _matrices(weight, 3), weight_scale, bias, x_scale, None, groups, ENDS, out[0], out[1])


def _swiglu_quant(
    x: Array,
    weight: Any,
    weight_scale: Any,
    assist: Any,
    x_scale: Array,
    smooth: Optional[Array],
    groups: Array,
    list_type: int,
    y: Array,
    y_scale: Array,
) -> None:
    y[...], y_scale[...] = 0, 0
    for number, part in parts(groups, list_type):
        if weight_scale[number].dtype.kind in "iu":
            total = product_with_int4(x[part], weight[number], weight_scale[number], assist[number])
            total = total * widen(x_scale)[part, None]
        else:
            total = exact_product(x[part], weight[number]).astype(np.float32)
            total = total * widen(x_scale)[part, None] * widen(weight_scale[number])
        gated = swiglu(total, True)
        if smooth is not None:
            gated = gated * (smooth[number] if len(smooth) > 1 or smooth.ndim > 1 else smooth)
        rows, scales = by_row(gated)
        store(y[part], rows)
        round_into(y_scale[part], scales)


@reference(
    "aclnnGroupedMatmulSwigluQuantV2", "aclnnGroupedMatmulSwigluQuantWeightNzV2", raw=True, unsupported=_only_int8_rows
)
def grouped_matmul_swiglu_quant_v2(
    x: Array,
    weight: Sequence[Array],
    weight_scale: Sequence[Array],
    assist: List,
    bias: Optional[Array],
    x_scale: Array,
    smooth: Optional[Array],
    groups: Array,
    dequant_mode: int,
    dequant_dtype: int,
    quant_mode: int,
    list_type: int,
    tuning: Optional[Sequence[int]],
    *,
    out: tuple[Array, Array],
) -> None:
    """``grouped_matmul_swiglu_quant`` with weights in lists and factors in front of the quantisation.

    ``assist`` is that of 4-bit weights, eight times the sums of their columns.
    """
    single = len(weight) == 1 and weight[0].ndim in (3, 5)
    weights = _matrices(weight[0], 3) if single else [_matrices(w, 2) for w in weight]
    scales, assists = (weight_scale[0], assist and assist[0]) if single else (weight_scale, assist)
    _swiglu_quant(x, weights, scales, assists, x_scale, smooth, groups, list_type, out[0], out[1])


@reference("aclnnGroupedMatmulActivationQuantWeightNz", raw=True)
def grouped_matmul_activation_quant(
    x: Array,
    groups: Array,
    weight: Sequence[Array],
    weight_scale: Sequence[Array],
    bias: List,
    x_scale: Optional[Array],
    activation: str,
    list_type: int,
    tuning: Any,
    quant_mode: Optional[str],
    round_mode: Optional[str],
    algorithm: int,
    type_max: float,
    *,
    out: tuple[Array, Array],
) -> None:
    """Rows by the matrices of their groups, gelu, in blocks of 32 columns that share an exponent."""
    assert x_scale is not None
    y = np.zeros((len(x), out[0].shape[1]), np.float32)
    covered = 0
    for number, span in parts(groups, SIZES if list_type else ENDS):
        matrix, scale = weight[0][number], weight_scale[0][number]
        product = mx_product(x[span], matrix, x_scale[span], scale, False, False)
        y[span] = product / (1 + np.exp(np.float32(-1.595769121) * (product + np.float32(0.044715) * product**3)))
        covered = max(covered, span.stop)
    quantised, codes = mx.along(y, -1, out[0].dtype, mx.Scaling(algorithm, round_mode or "rint", type_max=type_max))
    quantised[covered:], codes[covered:] = 0, 0
    mx.store(*out, quantised, codes)
