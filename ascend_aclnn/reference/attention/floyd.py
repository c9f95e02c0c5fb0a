"""Floyd attention: scores and values that each have a part by the first and a part by the second of two axes."""

from __future__ import annotations

from typing import Any

import numpy as np

from ascend_aclnn.numerics import Array
from ascend_aclnn.reference._named import NamedArguments, reference_by_name
from ascend_aclnn.reference.attention._blocks import HIDDEN, softmax, softmax_derivative
from ascend_aclnn.reference.attention._dense import COPIES

# Axes: batch b, heads h, two axes of queries n and m, keys k, width d.


def _scores(args: NamedArguments, batch: int, scale: float) -> Array:
    query = args["query"][batch]
    scores = np.einsum("hnmd,hnkd->hnmk", query, args["key1"][batch], optimize=True)
    scores = scores + np.einsum("hnmd,hkmd->hnmk", query, args["key2"][batch], optimize=True)
    scores = scores * np.float32(scale)
    mask = args["attenMask"]
    return np.asarray(scores if mask is None else np.where(mask[batch] != 0, HIDDEN, scores))


@reference_by_name("aclnnFusedFloydAttention")
def fused_floyd_attention(args: NamedArguments) -> dict[str, Array]:
    """weights = softmax(scale (q k1^T + q k2^T)), keys k1 for each n and k2 for each m; weights v1 + weights v2."""
    scale = args["scaleValue"]
    parts = [softmax(_scores(args, batch, scale)) for batch in range(len(args["query"]))]
    output = [
        np.einsum("hnmk,hnkd->hnmd", p.probabilities, args["value1"][batch], optimize=True)
        + np.einsum("hnmk,hkmd->hnmd", p.probabilities, args["value2"][batch], optimize=True)
        for batch, p in enumerate(parts)
    ]
    statistics = (np.repeat(np.stack([getattr(p, name) for p in parts]), COPIES, -1) for name in ("row_max", "row_sum"))
    row_max, row_sum = statistics
    return {"softmaxMaxOut": row_max, "softmaxSumOut": row_sum, "attentionOutOut": np.stack(output)}


@reference_by_name("aclnnFusedFloydAttentionGrad")
def fused_floyd_attention_grad(args: NamedArguments) -> dict[str, Any]:
    """The kernel takes each row's sum of dy * attentionIn off (SoftmaxGradFront), not one of the weights it works out."""
    scale, row_max, row_sum = args["scaleValue"], args["softmaxMax"], args["softmaxSum"]
    gradients: dict[str, list[Array]] = {name: [] for name in ("dqOut", "dk1Out", "dv1Out", "dk2Out", "dv2Out")}
    for batch in range(len(args["query"])):
        q, dy = args["query"][batch], args["dy"][batch]
        key1, key2, value1, value2 = (args[name][batch] for name in ("key1", "key2", "value1", "value2"))
        scores = _scores(args, batch, scale)
        if row_max is None or row_sum is None or row_max.size == 0:
            p = softmax(scores).probabilities
        else:
            p = np.exp(scores - row_max[batch, ..., :1]) / row_sum[batch, ..., :1]
        inner = np.einsum("hnmd,hnkd->hnmk", dy, value1, optimize=True)
        inner = inner + np.einsum("hnmd,hkmd->hnmk", dy, value2, optimize=True)
        output = args["attentionIn"]
        total = None if output is None or output.size == 0 else (dy * output[batch]).sum(-1, keepdims=True)
        ds = softmax_derivative(p, inner, total) * np.float32(scale)
        gradients["dqOut"].append(
            np.einsum("hnmk,hnkd->hnmd", ds, key1, optimize=True)
            + np.einsum("hnmk,hkmd->hnmd", ds, key2, optimize=True)
        )
        gradients["dk1Out"].append(np.einsum("hnmk,hnmd->hnkd", ds, q, optimize=True))
        gradients["dv1Out"].append(np.einsum("hnmk,hnmd->hnkd", p, dy, optimize=True))
        gradients["dk2Out"].append(np.einsum("hnmk,hnmd->hkmd", ds, q, optimize=True))
        gradients["dv2Out"].append(np.einsum("hnmk,hnmd->hkmd", p, dy, optimize=True))
    return {name: np.stack(parts) for name, parts in gradients.items()}
