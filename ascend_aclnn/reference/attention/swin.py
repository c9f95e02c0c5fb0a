"""Attention within the windows of Swin transformers, in 8 bits."""

from __future__ import annotations

from typing import Any, Optional

import numpy as np

from ascend_aclnn.numerics import Array, widen
from ascend_aclnn.reference._named import NamedArguments, reference_by_name
from ascend_aclnn.reference.attention._blocks import softmax
from ascend_aclnn.reference.matmul.quant import exact_product, fixed_scale

_HALF = np.float16


def _dequantised(a: Array, b: Array, scale: Array, bias: Optional[Array]) -> Array:
    """(a @ b + bias) * scale by columns, as FLOAT16."""
    total = exact_product(a, b)
    total = total if bias is None else total + bias.reshape(-1)
    return np.asarray(np.asarray(total, np.float32) * fixed_scale(scale).reshape(-1)).astype(_HALF)


@reference_by_name("aclnnSwinAttentionScoreQuant", raw=True)
def swin_attention_score_quant(args: NamedArguments) -> dict[str, Any]:
    """softmax(dequantised q @ k^T + masks) @ v, the probabilities quantised by columns between the products."""
    q, k, v = args["query"], args["key"], args["value"]
    scores = _dequantised(q, k.swapaxes(-1, -2), args["scaleDequant1"], args["biasDequant1"]).astype(np.float32)
    for name in ("paddingMask1", "paddingMask2"):
        if args[name] is not None:
            scores = scores + widen(args[name])
    weights = softmax(scores).probabilities * widen(args["scaleQuant"]).reshape(-1)
    if args["biasQuant"] is not None:
        weights = weights + widen(args["biasQuant"]).reshape(-1)
    weights = np.clip(np.rint(weights), -128, 127).astype(np.int8)
    return {"out": _dequantised(weights, v, args["scaleDequant2"], args["biasDequant2"])}
