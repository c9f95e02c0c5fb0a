"""Writing at indices, and caches in place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional

import numpy as np

import ascend_aclnn as aclnn
from ascend_aclnn.numerics import Array, DataError
from ascend_aclnn.reference import reference
from ascend_aclnn.rules.language import *

aclnn.register_operator("""
aclnnStatus aclnnScatterNdUpdateV2GetWorkspaceSize(
    aclTensor *varRef, const aclTensor *indices, const aclTensor *updates, const aclIntArray *strides,
    uint64_t *workspaceSize, aclOpExecutor **executor);
""")

rule(
    "aclnnScatterNdUpdateV2",
    only_products("A2 A3"),
    dtypes(f"{FLOATS} BOOL INT64 INT32 INT16 INT8", "varRef"),
    dtypes(INDICES, "indices"),
    same_dtype("varRef", "updates"),
    tiling(
        rank(1, 8, "varRef", "indices"),
        define(axes="indices[-1]"),
        require("0 < axes <= len(varRef)", argument="indices"),
        require("len(strides) >= axes"),
        require("updates.size == prod(indices[:-1]) * prod(varRef[axes:])", argument="updates"),
    ),
)


def _other_strides(call: Call) -> Optional[str]:
    """Kernels go by ``strides``, which callers take from the tensor."""
    axes = call.shape("indices")[-1]
    if tuple(call["strides"][:axes]) != call["varRef"].strides[:axes]:
        return f"strides {tuple(call['strides'])} that are not those of var, {call['varRef'].strides}"
    return None


@reference("aclnnScatterNdUpdateV2", raw=True, unsupported=_other_strides)
def scatter_nd_update_v2(
    _: Array, indices: Array, updates: Array, strides: Sequence[int], *, out: Sequence[Array]
) -> None:
    """var[indices[i]] = updates[i]; an index that lies before or behind var (-1) is left out, the last of equal ones stays."""
    var = out[0]
    axes = indices.shape[-1]
    rows = indices.reshape(-1, axes).astype(np.int64)
    offsets = rows @ np.array(strides[:axes], np.int64)
    # Kernels leave out what has an offset outside of all that var covers.
    covered = sum((size - 1) * stride for size, stride in zip(var.shape, strides[:axes]))
    inside = (offsets >= 0) & (offsets <= covered)
    rows = rows[inside]
    if (wrong := (rows < 0) | (rows >= np.array(var.shape[:axes]))).any():
        raise DataError("indices", f"{rows[wrong.any(1)][0].tolist()} is outside of var's {var.shape[:axes]}")
    var[tuple(rows.T)] = updates.reshape(-1, *var.shape[axes:])[inside]


aclnn.register_operator(
    """
aclnnStatus aclnnTransposeKvCacheByBlockGetWorkspaceSize(
    const aclTensorList *kCache, const aclTensorList *vCache, const aclTensor *blockIDs, int64_t blockSize, int64_t headNum,
    int64_t headDim, int64_t splitNum, int64_t layerNum, uint64_t *workspaceSize, aclOpExecutor **executor);
""",
    directions={"kCache": "inout", "vCache": "inout"},
)

rule(
    "aclnnTransposeKvCacheByBlock",
    only_products("A2 A3"),
    dtypes(HALVES, "kCache", "vCache"),
    dtypes("INT64", "blockIDs"),
    contiguous("kCache", "vCache"),
    tiling(
        rank(1, "blockIDs"),
        positive("blockSize", "headNum", "headDim", "splitNum", "layerNum"),
        require("headDim % 16 == 0"),
        require("headNum % splitNum == 0"),
        define(block="blockSize * headNum * headDim"),
        require("len(kCache) >= layerNum", "all(prod(shape) % block == 0 for shape in kCache)", argument="kCache"),
        require("len(vCache) >= layerNum", "all(prod(shape) % block == 0 for shape in vCache)", argument="vCache"),
    ),
)


@reference("aclnnTransposeKvCacheByBlock", raw=True)
def transpose_kv_cache_by_block(
    _keys: Sequence[Array],
    _values: Sequence[Array],
    blocks: Array,
    size: int,
    heads: int,
    width: int,
    parts: int,
    layers: int,
    *,
    out: Sequence[Sequence[Array]],
) -> None:
    """Blocks that lie as (parts, tokens, heads of a part) are made (tokens, heads), in place, in every layer."""
    for cache in [*out[0][:layers], *out[1][:layers]]:
        each = cache.reshape(-1, size * heads * width)
        if blocks.size and not (blocks.min() >= 0 and blocks.max() < len(each)):
            raise DataError("blockIDs", f"lie between {blocks.min()} and {blocks.max()}; allowed: 0 to {len(each) - 1}")
        chosen = each[blocks].reshape(-1, parts, size, heads // parts * width)
        each[blocks] = chosen.swapaxes(1, 2).reshape(len(blocks), -1)
