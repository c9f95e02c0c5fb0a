"""References of the experimental operators of ops-nn/index."""

from __future__ import annotations

from typing import Any

import numpy as np

from ascend_aclnn.numerics import Array, sum_type
from ascend_aclnn.reference.declare import reference
from ascend_aclnn.reference.index._places import along, combine, places, vectors


@reference("aclnnDataFormatDimMap")
def data_format_dim_map(x: Array, source: str, target: str) -> Any:
    """Numbers of axes in one format as those of the same letters in another; negative ones count from the end."""
    wide = places("x", x, len(source), negative=True)
    return np.array([target.index(letter) for letter in source], x.dtype)[wide]


@reference("aclnnEmbeddingDenseGrad")
def embedding_dense_grad(grad: Array, indices: Array, weights: int, padding: int, by_frequency: bool) -> Any:
    """The gradients of a table: rows of grad added up by index, and divided by how often it comes."""
    flat = indices.reshape(-1).astype(np.int64)
    used = np.flatnonzero(flat != padding)
    rows = places("indices", flat[used], weights)
    table = np.zeros((weights, grad.shape[-1]), sum_type(grad.dtype))
    combine(np.add, table, rows, grad.reshape(len(flat), grad.shape[-1])[used].astype(table.dtype))
    if by_frequency:
        table /= np.maximum(np.bincount(rows, minlength=weights), 1)[:, None]
    return table


@reference("aclnnGatherElementsV3")
def gather_elements(x: Array, index: Array, dim: int) -> Any:
    vector, axis = vectors(x, dim)
    at = along(places("index", index.reshape(1) if index.ndim == 0 else index, vector.shape[axis]), axis)
    return vector[at].reshape(index.shape)


@reference("aclnnScatterupdateV2")
def scatter_update_v2(x: Array, indices: Array, updates: Array) -> Any:
    """The input with rows of updates in place of those named; of several for one row the last counts.

    The kernel writes these rows only: a program has the input's memory as out.
    """
    result = x.copy()
    result[places("indices", indices.reshape(-1), len(x))] = updates
    return result
