"""Norms of vectors, rows scaled down to a norm, and the softmax of windows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Optional

import numpy as np

from ascend_aclnn.numerics import Array, sum_of_squares, sum_over
from ascend_aclnn.reference._arrays import reduced_axes
from ascend_aclnn.reference._rows import check_range
from ascend_aclnn.reference.declare import reference

_TINY = 1e-7  # keeps rows of zeros from being divided by zero


def _norm(x: Array, p: float, axes: tuple[int, ...]) -> Any:
    """(sum |x|^p)^(1/p), with reduced axes kept: infinity is the largest, -infinity the smallest, 0 counts non-zeros."""
    if p == 2 and x.dtype.kind != "c":
        return np.sqrt(sum_of_squares(x, axes, True))
    size = np.abs(x)
    if math.isinf(p):
        return np.max(size, axes, keepdims=True) if p > 0 else np.min(size, axes, keepdims=True)
    if p == 0:
        return np.sum(size != 0, axes, np.float64, keepdims=True)
    if p == 1:
        return sum_over(size, axes, True)
    if p == 2:
        return np.sqrt(sum_of_squares(size, axes, True))
    wide = np.asarray(size, np.float64)  # of a tensor without axes, too, whose absolute value is a number
    return np.sum(np.power(wide, p), axes, keepdims=True) ** (1 / p)


def _axes(x: Array, p: float, dims: Optional[Sequence[int]], *_: Any) -> tuple[int, ...]:
    return reduced_axes(dims, x.ndim)


@reference("aclnnNorm", along=_axes)
def norm(x: Array, p: float, dim: Optional[Sequence[int]], keepdim: bool) -> Any:
    axes = reduced_axes(dim, x.ndim)
    size = _norm(x, float(p), axes)
    return size if keepdim else np.squeeze(size, axes)


@reference("aclnnLinalgVectorNorm", along=_axes)
def linalg_vector_norm(x: Array, p: float, dims: Optional[Sequence[int]], keep_dims: bool, dtype: int) -> Any:
    """The output has the data type asked for; the computation is never less exact than it."""
    return norm(x, p, dims, keep_dims)


@reference("aclnnRenorm", "aclnnInplaceRenorm", "aclnnRenormV2")
def renorm(x: Array, p: float, dim: int, max_norm: float) -> Any:
    """Slices along an axis whose norm is larger than the limit, scaled down to it."""
    axes = tuple(axis for axis in range(x.ndim) if axis != dim % x.ndim)
    size = _norm(x, float(p), axes)
    factor = np.where(size > max_norm, max_norm / np.maximum(size, _TINY), 1)
    return x * factor.astype(np.float32)


@reference("aclnnEmbeddingRenorm")
def embedding_renorm(weight: Array, indices: Array, max_norm: float, norm_type: float) -> Any:
    """The rows named by indices, each scaled down once where its norm is larger than the limit."""
    check_range("indices", indices, 0, len(weight))
    rows = np.unique(indices)
    chosen = weight[rows]
    size = _norm(chosen, norm_type, (1,))
    result = weight.copy()
    result[rows] = chosen * np.where(size > max_norm, max_norm / (size + _TINY), 1).astype(np.float32)
    return result


@reference("aclnnMaskedSoftmaxWithRelPosBias")
def masked_softmax_with_rel_pos_bias(
    x: Array, mask: Optional[Array], bias: Array, scale: float, inner_precision_mode: int
) -> Any:
    """softmax(scale * x + mask + bias) of windows: one mask for each window, one bias for each head."""
    heads, rows, columns = x.shape[-3:]
    windows = 1 if mask is None else mask.size // (rows * columns)
    scores = np.float32(scale) * x.reshape(-1, windows, heads, rows, columns)
    if mask is not None:
        scores += mask.reshape(windows, 1, rows, columns)
    scores += bias.reshape(heads, rows, columns)
    scores -= np.max(scores, -1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= np.sum(scores, -1, keepdims=True)
    return scores.reshape(x.shape)
