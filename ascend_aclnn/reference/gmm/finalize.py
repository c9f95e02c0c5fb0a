"""Grouped products whose rows are weighted and added up: the last step of routing to experts (ops-transformer/gmm)."""

from __future__ import annotations

from typing import Any, Optional

import numpy as np

from ascend_aclnn.numerics import Array, matmul, round_into, widen
from ascend_aclnn.reference._rows import check_range
from ascend_aclnn.reference.declare import DataError, reference
from ascend_aclnn.reference.gmm.common import ENDS, SIZES, parts, scale_bits
from ascend_aclnn.reference.matmul.mx import E8M0, mx_product
from ascend_aclnn.reference.matmul.quant import exact_product, integers


def _unsupported(call: Any) -> Optional[str]:
    """For Ascend 950 products of elements with shared exponents only; for INT8 weights scales that are floats."""
    x, weight, scale = (
        call[next(name for name in names if name in call.operator.positions)]
        for names in (("x1", "x"), ("x2", "w"), ("scale", "scaleOptional"))
    )
    if scale is None:
        return "the NumPy backend needs scales of the weights"
    if weight.dtype.name == "INT8" and scale.dtype.name == "INT64":
        return "the NumPy backend takes FLOAT or BF16 scales of INT8 weights"
    if x.dtype.name != "INT8" and scale.dtype.name != "FLOAT8_E8M0":
        return f"the NumPy backend takes {x.dtype.name} rows with FLOAT8_E8M0 scales only"
    return None


def _rows_of_expert(
    x: Array,
    weight: Array,
    scale: Array,
    bias: Optional[Array],
    offset: Optional[Array],
    tokens: Optional[Array],
    turned: bool,
) -> Array:
    """Rows by the matrix of their expert, scaled by its columns and (``tokens``) themselves."""
    if scale.dtype == E8M0:
        assert tokens is not None
        y = mx_product(x, weight, tokens, scale, False, turned)
        return y if bias is None else y + widen(bias)
    if scale.dtype.kind in "iu":  # weights of 4 bits
        # 8-bit rows are taken apart into halves, the lower ones less 8: bias has what that takes away.
        y = matmul(x.astype(np.float32) - 8, weight.astype(np.float32)) * scale_bits(scale).reshape(-1)
        y = y if bias is None else y + bias
        y = y if offset is None else y + x.sum(-1, dtype=np.float32)[:, None] * offset.reshape(-1)
        return y if tokens is None else y * tokens[:, None]
    y = exact_product(x, weight).astype(np.float32) * widen(scale).reshape(-1)
    y = y if tokens is None else y * tokens[:, None]
    return y if bias is None else y + widen(bias)


def _finalize(
    x: Array,
    weight: Array,
    scale: Array,
    bias: Optional[Array],
    offset: Optional[Array],
    tokens: Optional[Array],
    groups: Array,
    shared: Optional[Array],
    logits: Optional[Array],
    index: Optional[Array],
    shared_weight: float,
    start: int,
    turned: bool,
    list_type: int,
    out: Array,
) -> None:
    """out[rowIndex[i]] += logit[i] * the product of row i; rows from sharedInputOffset on have sharedInput besides.

    Rows behind the groups are left out. The order of the sum is not the device's; the device's products of INT4 weights
    are rounded to FLOAT16 in halves.
    """
    if index is None or logits is None:
        raise DataError("rowIndexOptional", "and logit are needed to know where rows belong")
    kind = SIZES if list_type else ENDS
    spans = [span for _, span in parts(groups, kind)]
    last = max((span.stop for span in spans), default=0)
    if last > len(x) or any(span.stop < span.start for span in spans):
        raise DataError("groupListOptional", f"reaches to row {last}, or falls; x has {len(x)} rows")
    check_range("rowIndexOptional", index[:last], 0, len(out))
    total = np.zeros(out.shape, np.float64)
    if shared is not None:
        total[start : start + len(shared)] = widen(shared) * np.float32(shared_weight)
    weights = integers(weight)
    for number, span in enumerate(spans):
        if span.stop > span.start:
            y = _rows_of_expert(
                x[span],
                weights[number],
                scale[number],
                None if bias is None else bias[number],
                None if offset is None else offset[number],
                None if tokens is None else tokens[span],
                turned,
            )
            np.add.at(total, index[span], y * logits[span, None])
    round_into(out, total.astype(np.float32))


@reference(
    "aclnnGroupedMatmulFinalizeRouting",
    "aclnnGroupedMatmulFinalizeRoutingWeightNz",
    raw=True,
    unsupported=_unsupported,
)
def grouped_matmul_finalize_routing(
    x: Array,
    weight: Array,
    scale: Array,
    bias: Optional[Array],
    tokens: Optional[Array],
    groups: Array,
    shared: Optional[Array],
    logits: Optional[Array],
    index: Optional[Array],
    dtype: int,
    shared_weight: float,
    start: int,
    transpose_x: bool,
    transpose_w: bool,
    list_type: int,
    *,
    out: tuple[Array],
) -> None:
    _finalize(
        x, weight, scale, bias, None, tokens, groups, shared, logits, index, shared_weight, start, transpose_w,
        list_type, out[0],
    )  # fmt: skip


@reference(
    "aclnnGroupedMatmulFinalizeRoutingV2",
    "aclnnGroupedMatmulFinalizeRoutingV3",
    "aclnnGroupedMatmulFinalizeRoutingWeightNzV2",
    raw=True,
    unsupported=_unsupported,
)
def grouped_matmul_finalize_routing_v3(
    x: Array,
    weight: Array,
    scale: Array,
    bias: Optional[Array],
    offset: Optional[Array],
    antiquant_scale: Optional[Array],
    antiquant_offset: Optional[Array],
    tokens: Optional[Array],
    groups: Array,
    shared: Optional[Array],
    logits: Optional[Array],
    index: Optional[Array],
    dtype: int,
    shared_weight: float,
    start: int,
    transpose_x: bool,
    transpose_w: bool,
    list_type: int,
    tuning: Any = None,
    *,
    out: tuple[Array],
) -> None:
    _finalize(
        x, weight, scale, bias, offset, tokens, groups, shared, logits, index, shared_weight, start, transpose_w,
        list_type, out[0],
    )  # fmt: skip
