"""Keys of indexers in FLOAT8, written into the blocks of a cache, and read from them (Ascend 950)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Optional

import ml_dtypes
import numpy as np

import ascend_aclnn as aclnn
from ascend_aclnn.numerics import Array, DataError, rounded_to, widen
from ascend_aclnn.reference import reference
from ascend_aclnn.reference._quantise import largest
from ascend_aclnn.rules.language import *

_GROUP = 128  # elements of a row that share a scale
_SCALE_BYTES = 4
_LEAST = np.float32(1e-4)  # of the largest magnitude, where scales are FLOAT8_E8M0
_E4M3 = np.dtype(ml_dtypes.float8_e4m3fn)


def _groups(x: Array) -> tuple[Array, Array]:
    """Rows as groups that share a scale, the last one filled up with 0, and the largest finite magnitude of each."""
    rows = widen(x).astype(np.float32).reshape(-1, x.shape[-1])
    groups = np.pad(rows, ((0, 0), (0, -rows.shape[1] % _GROUP))).reshape(len(rows), -1, _GROUP)
    return groups, np.abs(np.where(np.isfinite(groups), groups, 0)).max(-1)


def _by_magnitude(x: Array, dtype: np.dtype) -> tuple[Array, Array]:
    """Rows over their scales, the largest magnitude over that of the data type, and these as float32; 0 / 0 is 0."""
    groups, most = _groups(x)
    scales = most * (np.float32(1) / np.float32(largest(dtype)))
    divisors = np.where(scales > 0, scales, np.float32(1))[..., None]
    return rounded_to(groups / divisors, dtype).reshape(len(groups), -1)[:, : x.shape[-1]], scales


def _by_exponent(x: Array, dtype: np.dtype, round_scale: bool) -> tuple[Array, Array]:
    """Rows over their scales, rounded up to powers of two if so asked, and the exponents of these."""
    groups, most = _groups(x)
    scales = np.maximum(most, _LEAST) * (np.float32(1) / np.float32(largest(dtype)))
    if round_scale:
        fraction, exponent = np.frexp(scales)
        scales = np.ldexp(np.float32(1), exponent - (fraction == 0.5)).astype(np.float32)
    limit = np.float32(largest(dtype))
    rows = rounded_to(np.clip(groups / scales[..., None], -limit, limit), dtype)
    exponents = (scales.view(np.uint32) >> 23).astype(np.uint8).view(ml_dtypes.float8_e8m0fnu)
    return rows.reshape(len(groups), -1)[:, : x.shape[-1]], exponents


def _places(slots: Array, blocks: int, size: int) -> tuple[Array, Array, Array]:
    """The rows that have a slot, -1 being none, and the slots' blocks and places in them."""
    slots = slots.reshape(-1).astype(np.int64)
    if slots.size and not (slots.min() >= -1 and slots.max() < blocks * size):
        raise DataError(
            "slotMapping", f"lies between {slots.min()} and {slots.max()}; allowed: -1 to {blocks * size - 1}"
        )
    there = np.flatnonzero(slots >= 0)
    return (there, *np.divmod(slots[there], size))


# ------------------------------------------------------------------------------------------------- values and scales apart

_CACHES = ("indexerCompressCache", "indexerCompressCacheScale")

aclnn.register_operator(
    """
aclnnStatus aclnnIndexerCompressEpilogGetWorkspaceSize(
    const aclTensor *indexerCompressCache, const aclTensor *indexerCompressCacheScale, const aclTensor *x,
    const aclTensor *slotMapping, int64_t quantMode, bool roundScale, uint64_t *workspaceSize, aclOpExecutor **executor);
""",
    directions=dict.fromkeys(_CACHES, "inout"),
)

rule(
    "aclnnIndexerCompressEpilog",
    only_products("950"),
    dtypes("FLOAT8_E4M3FN FLOAT8_E5M2", "indexerCompressCache"),
    dtypes("FLOAT FLOAT8_E8M0", "indexerCompressCacheScale"),
    dtypes(HALVES, "x"),
    dtypes("INT32", "slotMapping"),
    contiguous(*_CACHES),
    tiling(
        rank(1, "slotMapping"),
        rank(2, 8, "x", *_CACHES),
        one_of("quantMode", 0, 1),
        require("x.size == slotMapping[0] * x[-1]", argument="slotMapping"),
        require("indexerCompressCache[-1] == x[-1]"),
        require("indexerCompressCacheScale[-1] == ceil_div(x[-1], 128)"),
        require("prod(indexerCompressCacheScale[:-1]) == prod(indexerCompressCache[:-1])"),
    ),
)


def _scales_of_other_mode(call: Call) -> Optional[str]:
    dtype, mode = call["indexerCompressCacheScale"].dtype.name, call["quantMode"]
    if (dtype == "FLOAT") == (mode == 1):
        return None
    return f"the kernel of quantMode {mode} writes scales of another type than {dtype}"


@reference("aclnnIndexerCompressEpilog", raw=True, unsupported=_scales_of_other_mode)
def indexer_compress_epilog(
    _cache: Array, _scale: Array, x: Array, slots: Array, mode: int, round_scale: bool, *, out: Sequence[Array]
) -> None:
    """Rows in 8 bits at their slots, and a scale for each 128 elements: float32 (mode 1), or an exponent (mode 0)."""
    cache, scale = (part.reshape(-1, part.shape[-1]) for part in out)
    there, slot, _ = _places(slots, len(cache), 1)
    rows, scales = _by_magnitude(x, cache.dtype) if mode == 1 else _by_exponent(x, cache.dtype, round_scale)
    cache[slot], scale[slot] = rows[there], scales[there]


# ------------------------------------------------------------------------------------------------- scales behind the values


def _other_stride(name: str) -> Callable[[Call], Optional[str]]:
    """Kernels find blocks by ``blockStride``, which callers take from the tensor; 0 stands for blocks without gaps."""

    def check(call: Call) -> Optional[str]:
        cache, stride = call[name], call["blockStride"]
        dense = cache.shape[1] * cache.shape[2] * cache.shape[3]
        expected = cache.strides[0] if cache.shape[0] > 1 else stride or dense
        if cache.strides[1:] == (cache.shape[2] * cache.shape[3], cache.shape[3], 1) and expected == (stride or dense):
            return None
        return f"blockStride {stride} for a cache of strides {cache.strides}, whose blocks lie elsewhere"

    return check


def _parts(cache: Array, width: int) -> tuple[Array, Array]:
    """Blocks of a cache as bytes: of so many values for each token, and behind those of all tokens their scales."""
    blocks, size = cache.shape[:2]
    scales = -(-width // _GROUP) * _SCALE_BYTES
    room = cache.shape[2] * cache.shape[3]
    if room < width + scales:
        raise DataError("cache", f"has {room} bytes for a token; {width} values and their scales are {width + scales}")
    # A block's memory, however far apart blocks are: reshape would copy.
    raw = np.lib.stride_tricks.as_strided(cache.view(np.uint8), (blocks, size * room), (cache.strides[0], 1))
    values, behind = raw[:, : size * width], raw[:, size * width : size * (width + scales)]
    return (
        np.lib.stride_tricks.as_strided(values, (blocks, size, width), (raw.strides[0], width, 1)),
        np.lib.stride_tricks.as_strided(behind, (blocks, size, scales), (raw.strides[0], scales, 1)),
    )


aclnn.register_operator(
    """
aclnnStatus aclnnIndexerCompressEpilogV2GetWorkspaceSize(
    const aclTensor *indexerCompressCache, const aclTensor *x, const aclTensor *slotMapping, int64_t layout,
    int64_t blockStride, uint64_t *workspaceSize, aclOpExecutor **executor);
""",
    directions={"indexerCompressCache": "inout"},
)

rule(
    "aclnnIndexerCompressEpilogV2",
    only_products("950"),
    dtypes("UINT8", "indexerCompressCache"),
    dtypes(HALVES, "x"),
    dtypes("INT32", "slotMapping"),
    tiling(
        rank(4, "indexerCompressCache"),
        rank(1, 8, "x", "slotMapping"),
        require("indexerCompressCache[2] == 1"),
        require("x.size == slotMapping.size * x[-1]", argument="slotMapping"),
        require("blockStride == 0 or blockStride >= indexerCompressCache[1] * indexerCompressCache[3]"),
        one_of("layout", 2),
    ),
)


@reference("aclnnIndexerCompressEpilogV2", raw=True, unsupported=_other_stride("indexerCompressCache"))
def indexer_compress_epilog_v2(
    _: Array, x: Array, slots: Array, _layout: int, _stride: int, *, out: Sequence[Array]
) -> None:
    """Rows in FLOAT8_E4M3FN at their slots, and behind the rows of a block a float32 scale for each 128 elements."""
    values, behind = _parts(out[0], x.shape[-1])
    there, block, place = _places(slots, *values.shape[:2])
    rows, scales = _by_magnitude(x, _E4M3)
    values[block, place] = rows.view(np.uint8)[there]
    behind[block, place] = scales.view(np.uint8)[there]


aclnn.register_operator(
    """
aclnnStatus aclnnLoadIndexKvCacheGetWorkspaceSize(
    const aclTensor *kvCache, const aclTensor *slotMapping, int64_t blockStride, const aclTensor *kv, const aclTensor *kvScale,
    uint64_t *workspaceSize, aclOpExecutor **executor);
""",
    directions={"kv": "out", "kvScale": "out"},
)

rule(
    "aclnnLoadIndexKvCache",
    only_products("950"),
    dtypes("FLOAT8_E4M3FN", "kvCache"),
    dtypes("INT32", "slotMapping"),
    tiling(
        rank(4, "kvCache"),
        rank(1, "slotMapping"),
        require("blockStride == 0 or blockStride >= kvCache[1] * kvCache[3]"),
        # Rows of 128 elements, with one scale, are all that there are.
        output_dtype(kv="FLOAT8_E4M3FN", kvScale="FLOAT"),
        output_shape(kv="(slotMapping[0], 128)", kvScale="(slotMapping[0],)"),
    ),
)


@reference("aclnnLoadIndexKvCache", raw=True, unsupported=_other_stride("kvCache"))
def load_index_kv_cache(cache: Array, slots: Array, _stride: int, *, out: Sequence[Array]) -> None:
    """Rows at slots, and their scales, of a cache that IndexerCompressEpilogV2 has written; 0 for slot -1."""
    values, behind = _parts(cache, _GROUP)
    there, block, place = _places(slots, *values.shape[:2])
    rows, scales = out
    rows[...], scales[...] = 0, 0
    rows[there] = values[block, place].view(rows.dtype)
    scales[there] = behind[block, place].view(np.float32)[:, 0]
