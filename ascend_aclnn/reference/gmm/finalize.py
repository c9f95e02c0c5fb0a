"""Grouped products whose rows are weighted and added up: the last step of routing to experts (ops-transformer/gmm)."""

from __future__ import annotations

from typing import Any, Optional

import numpy as np

from ascend_aclnn.numerics import Array, matmul, widen
from ascend_aclnn.reference._named import NamedArguments, reference_by_name
from ascend_aclnn.reference._rows import check_range
from ascend_aclnn.reference.declare import DataError
from ascend_aclnn.reference.gmm._groups import ENDS, SIZES, parts, scale_bits
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
    tokens: Optional[Array],
    turned: bool,
    scale: Array,
    bias: Optional[Array] = None,
    offset: Optional[Array] = None,
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


@reference_by_name(
    "aclnnGroupedMatmulFinalizeRouting",
    "aclnnGroupedMatmulFinalizeRoutingV2",
    "aclnnGroupedMatmulFinalizeRoutingV3",
    "aclnnGroupedMatmulFinalizeRoutingWeightNz",
    "aclnnGroupedMatmulFinalizeRoutingWeightNzV2",
    raw=True,
    unsupported=_unsupported,
)
def grouped_matmul_finalize_routing(args: NamedArguments) -> dict[str, Array]:
    """out[rowIndex[i]] += logit[i] * the product of row i; rows from sharedInputOffset on have sharedInput besides.

    Rows after the groups are left out. The order of the sum is not the device's; the device's products of INT4 weights
    are rounded to FLOAT16 in halves.
    """
    x, weight, turned = args.either("x1", "x"), args.either("x2", "w"), args.either("transposeX2", "transposeW")
    logits, index, shared = args["logit"], args["rowIndex"], args["sharedInput"]
    if index is None or logits is None:
        raise DataError("rowIndexOptional", "and logit are needed to know where rows belong")
    spans = [span for _, span in parts(args["groupList"], SIZES if args["groupListType"] else ENDS)]
    last = max((span.stop for span in spans), default=0)
    if last > len(x) or any(span.stop < span.start for span in spans):
        raise DataError("groupListOptional", f"reaches to row {last}, or falls; x has {len(x)} rows")
    ((name, out),) = args.outputs.items()
    check_range("rowIndexOptional", index[:last], 0, len(out))
    total = np.zeros(out.shape, np.float64)
    if shared is not None:
        start = args["sharedInputOffset"]
        total[start : start + len(shared)] = widen(shared) * np.float32(args["sharedInputWeight"])
    tokens, weights = args["pertokenScale"], integers(weight)
    of_expert = {key: args[key] for key in ("scale", "bias", "offset") if args[key] is not None}
    for number, span in enumerate(spans):
        if span.stop > span.start:
            operands = {key: values[number] for key, values in of_expert.items()}
            y = _rows_of_expert(x[span], weights[number], None if tokens is None else tokens[span], turned, **operands)
            np.add.at(total, index[span], y * logits[span, None])
    return {name: total.astype(np.float32)}
