"""References of ops-math/math: operators of training and inference frameworks that fit no other group."""

from __future__ import annotations

import math
from typing import Any, Optional

import numpy as np

from ascend_aclnn.numerics import Array, DataError
from ascend_aclnn.reference._arrays import total
from ascend_aclnn.reference._rows import check_range
from ascend_aclnn.reference.declare import reference

# ------------------------------------------------------------------------------------------------- segment sums


@reference("aclnnExpSegsum")
def exp_segsum(x: Array) -> Any:
    """out[i, j] = exp(x[j + 1] + ... + x[i]); 1 on the diagonal, 0 above it."""
    n = x.shape[-1]
    terms = np.where(np.tri(n, k=-1, dtype=bool), x[..., None].astype(np.float64), 0)
    return np.where(np.tri(n, dtype=bool), np.exp(np.cumsum(terms, -2)), 0)


@reference("aclnnExpSegsumBackward")
def exp_segsum_backward(grad: Array, result: Array) -> Any:
    """From the forward operator's result: x[k] is in all out[i, j] with i >= k > j."""
    below = np.tri(grad.shape[-1], k=-1, dtype=bool)
    products = np.where(below, grad.astype(np.float64) * result, 0)
    sums = np.flip(np.cumsum(np.flip(products, -2), -2), -2)
    return np.where(below, sums, 0).sum(-1)


# ------------------------------------------------------------------------------------------------- bias gradients


@reference("aclnnGroupedBiasAddGrad", "aclnnGroupedBiasAddGradV2")
def grouped_bias_add_grad(grad: Array, groups: Optional[Array], kind: int = 0) -> Any:
    """Sums of the rows of each group; groups are named by where they end, or by their sizes (kind 1)."""
    if groups is None:
        return total(grad, (1,))
    ends = np.cumsum(groups) if kind == 1 else groups
    check_range("groupIdxOptional", ends, 0, len(grad) + 1)
    starts = np.concatenate([[0], ends[:-1]])
    sums = [total(grad[start:end], (0,)) for start, end in zip(starts.tolist(), ends.tolist())]
    return np.stack(sums) if sums else np.zeros((0, grad.shape[1]))


# ------------------------------------------------------------------------------------------------- routing

# What keeps the divisors of Sinkhorn's method from being zero.
_EPSILON = 1e-8
_MOST_ROUNDS = 100_000


@reference("aclnnSinkhorn")
def sinkhorn(cost: Array, tol: Optional[float]) -> Any:
    """exp(cost) with its rows and columns scaled in turn, until the columns' factors change by no more than ``tol``."""
    costs = np.exp(cost.astype(np.float64))
    rows, columns = costs.shape
    of_columns = np.ones(columns)
    for _ in range(_MOST_ROUNDS):
        of_rows = 1 / (rows * (costs @ of_columns + _EPSILON))
        before, of_columns = of_columns, 1 / (columns * (of_rows @ costs + _EPSILON))
        if not np.mean(np.abs(before - of_columns)) > (1e-4 if tol is None else tol):
            return of_columns * costs * of_rows[:, None]
    raise DataError("tol", f"is {tol}; the scales still change by more after {_MOST_ROUNDS} rounds")


# ------------------------------------------------------------------------------------------------- weights


@reference("aclnnAddLora")
def add_lora(
    y: Array,
    x: Array,
    weight_b: Array,
    indices: Array,
    weight_a: Optional[Array],
    layer: int,
    scale: float,
    y_offset: int,
    y_slice_size: int,
) -> Any:
    """y with each row's x, times the low-rank weights that its index names, added to some of the columns.

    Rows with a negative index keep their y: the kernel (add_lora_base.h) counts them after the last weight and skips them.
    """
    check_range("indices", np.maximum(indices, 0), 0, len(weight_b))
    result = y.copy()
    width = weight_b.shape[2] if y_slice_size == -1 else y_slice_size
    for name in np.unique(indices[indices >= 0]).tolist():
        rows = np.flatnonzero(indices == name)
        inner = x[rows] if weight_a is None else x[rows] @ weight_a[name, layer].T
        product = (inner @ weight_b[name, layer, :width].T) * np.float32(scale)
        result[rows, y_offset : y_offset + width] += product
    return result


@reference("aclnnTransformBiasRescaleQkv")
def transform_bias_rescale_qkv(qkv: Array, bias: Array, heads: int) -> Any:
    """Queries, keys and values with their bias, head by head; queries divided by the root of a head's size."""
    batch, tokens, width = qkv.shape
    parts = (qkv + bias).reshape(batch, tokens, 3, heads, width // 3 // heads).transpose(2, 0, 3, 1, 4)
    return parts[0] / math.sqrt(parts.shape[-1]), parts[1], parts[2]
