"""Quantising in blocks of rows and columns that share a scale (ops-nn/quant)."""

from __future__ import annotations

from typing import Optional

import numpy as np

from ascend_aclnn.numerics import Array, round_into, widen
from ascend_aclnn.reference._quantise import largest, store
from ascend_aclnn.reference.declare import DataError, reference


def _over_blocks(wide: Array, min_scale: float, most: float, row_block: int, col_block: int) -> tuple[Array, Array]:
    """Blocks of the last two axes over their scales, and the scales; 1 / minScale is the largest scale."""
    rows, columns = wide.shape[-2:]
    blocks = [-(-rows // row_block), -(-columns // col_block)]
    padding = [(0, 0)] * (wide.ndim - 2) + [(0, blocks[0] * row_block - rows), (0, blocks[1] * col_block - columns)]
    cut = np.pad(np.abs(wide), padding).reshape(*wide.shape[:-2], blocks[0], row_block, blocks[1], col_block)
    scales = cut.max(axis=(-3, -1), initial=0) / np.float32(most)
    if min_scale > 0:
        scales = np.where(np.isfinite(scales), np.minimum(scales, np.float32(1 / min_scale)), scales)
    spread = scales.repeat(row_block, axis=-2)[..., :rows, :].repeat(col_block, axis=-1)[..., :columns]
    return np.where(spread == 0, 0, wide / np.where(spread == 0, 1, spread)), scales


@reference("aclnnDynamicBlockQuant", "aclnnDynamicBlockQuantV2", raw=True)
def dynamic_block_quant(
    x: Array,
    min_scale: float,
    round_mode: Optional[str],
    dst_type: int,
    row_block: int,
    col_block: int,
    type_max: float = 0.0,
    *,
    out: tuple[Array, Array],
) -> None:
    """Blocks of the last two axes over their scales, such that their largest magnitude becomes that of the data type."""
    y, scales = _over_blocks(widen(x), min_scale, type_max or largest(out[0].dtype), row_block, col_block)
    store(out[0], y, round_mode or "rint")
    round_into(out[1], scales)


@reference("aclnnGroupedDynamicBlockQuant", "aclnnGroupedDynamicBlockQuantV2", raw=True)
def grouped_dynamic_block_quant(
    x: Array,
    group_list: Array,
    min_scale: float,
    round_mode: Optional[str],
    dst_type: int,
    row_block: int,
    col_block: int,
    group_list_type: int,
    type_max: float = 0.0,
    *,
    out: tuple[Array, Array],
) -> None:
    """``dynamic_block_quant`` of each group of rows by itself; groupList has their ends.

    The scales of a group begin at row start // rowBlockSize + its number; rows between are zero.
    """
    ends = [int(end) for end in group_list]
    starts = [0, *ends[:-1]]
    rows = x.shape[-2]
    if any(end < start for start, end in zip(starts, ends)) or ends[-1] != rows:
        raise DataError("groupList", f"is {ends}; it must not fall, and must end with {rows}, the rows of x")
    wide, most = widen(x), type_max or largest(out[0].dtype)
    y, scales = np.zeros(x.shape, np.float32), np.zeros(out[1].shape, np.float32)
    for number, (start, end) in enumerate(zip(starts, ends)):
        if end > start:
            part = wide[..., start:end, :]
            y[..., start:end, :], group_scales = _over_blocks(part, min_scale, most, row_block, col_block)
            place = start // row_block + number
            scales[..., place : place + group_scales.shape[-2], :] = group_scales
    store(out[0], y, round_mode or "rint")
    round_into(out[1], scales)


@reference("aclnnTurboQuantCompressLatent", raw=True)
def turbo_quant_compress_latent(latent: Array, centroids: Array, *, out: tuple[Array]) -> None:
    """For each element over its token's norm the nearest centroid in 4 bits, even ones first; then the norm in FLOAT16."""
    cent = centroids.reshape(-1)
    if (np.diff(cent) < 0).any():
        raise DataError("centroids", "do not ascend")
    norm = np.sqrt(np.square(latent).sum(-1, keepdims=True) + np.float32(1e-16))
    bounds = (cent[:-1] + cent[1:]) * np.float32(0.5)
    codes = np.searchsorted(bounds, latent * (np.float32(1) / norm), "right").astype(np.uint8)
    packed = codes.shape[-1] // 2
    out[0][...] = 0
    out[0][:, :packed] = codes[:, ::2] | codes[:, 1::2] << 4
    out[0][:, packed : packed + 2] = np.ascontiguousarray(norm.astype("<f2")).view(np.uint8)
