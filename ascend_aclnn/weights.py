"""CANN's functions on the host that lay weights out, as its sources have them: nothing here needs a device.

size = calculate_matmul_weight_size((k, n), "INT8")       # elements of the weight in FRACTAL_NZ
weight, index = trans_sparse4to2_para(sparse)             # for ops.sparse4to2_quant_matmul_weight_nz
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Optional

import numpy as np
import numpy.typing as npt

from ascend_aclnn.core.dtypes import DataType, DTypeLike, as_datatype
from ascend_aclnn.core.errors import PARAM_INVALID, AclError

_BLOCK = 16  # rows of a block, and columns of one of 16-bit numbers
_ROW = 32  # columns of a block of bytes
_KEPT = 8  # weights of which four are kept, with one byte of the index

# For each four weights, by which of them are not zero (the first in the highest bit): those kept, and four bits of the index.
_PATTERNS = {
    0b0000: (0, 0, 0b0000),
    0b0001: (0, 3, 0b1000),
    0b0010: (2, 3, 0b0010),
    0b0011: (2, 3, 0b1010),
    0b0100: (1, 2, 0b0001),
    0b0101: (1, 3, 0b1001),
    0b0110: (1, 2, 0b0101),
    0b1000: (0, 1, 0b0000),
    0b1001: (0, 3, 0b1000),
    0b1010: (0, 2, 0b0100),
    0b1100: (0, 1, 0b0000),
}


def calculate_matmul_weight_size(shape: Sequence[int], dtype: Optional[DTypeLike] = None) -> int:
    """Elements of a weight of 2 to 6 axes in FRACTAL_NZ: aclnnCalculateMatmulWeightSize, with ``dtype`` its V2.

    Blocks are of 16 rows by 16 numbers of 16 bits (without ``dtype``, too), or by 32 of others.
    """
    routine = "aclnnCalculateMatmulWeightSize" if dtype is None else "aclnnCalculateMatmulWeightSizeV2"
    sizes = _sizes(routine, shape)
    if not 2 <= len(sizes) <= 6:
        raise AclError(PARAM_INVALID, routine, f"shape has {len(sizes)} axes; it must have 2 to 6")
    if dtype is not None and 0 in sizes:
        raise AclError(PARAM_INVALID, routine, "shape has an axis of size 0")
    halves = dtype is None or as_datatype(dtype) in (DataType.FLOAT16, DataType.BF16)
    *lead, rows, columns = sizes
    return math.prod(lead) * _up(rows, _BLOCK) * _up(columns, _BLOCK if halves else _ROW)


def calculate_convolution_weight_size(shape: Sequence[int], groups: int = 1) -> int:
    """Elements of a FLOAT16 weight (O, C / groups, H, W) in FRACTAL_Z: aclnnCalculateConvolutionWeightSize.

    As many groups share a block as fill it, so that blocks of channels and of kernels belong to whole groups.
    """
    routine = "aclnnCalculateConvolutionWeightSize"
    sizes = _sizes(routine, shape)
    if len(sizes) != 4:
        raise AclError(PARAM_INVALID, routine, f"shape has {len(sizes)} axes; it must have 4")
    if groups <= 0 or sizes[0] % groups:
        raise AclError(PARAM_INVALID, routine, f"groups is {groups}; it must divide the {sizes[0]} kernels")
    if 0 in sizes:
        return 0
    kernels, channels, height, width = sizes[0] // groups, *sizes[1:]
    together = min(math.lcm(*(math.lcm(n, _BLOCK) // n for n in (channels, kernels))), groups)
    blocks = _up(together * channels, _BLOCK) * _up(together * kernels, _BLOCK)
    return -(-groups // together) * blocks * height * width


def trans_sparse4to2_para(weight: npt.ArrayLike) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.uint8]]:
    """Keeps two of each four weights (n, k) of INT8, of which no more are not zero: aclnnTransSparse4to2Para.

    Returned are the kept ones in blocks, (ceil(k / 64), ceil(n / 16), 16, 32), and the index of where they were,
    (..., 16, 8); to ``ops.sparse4to2_quant_matmul_weight_nz`` the first goes with the format "FRACTAL_NZ".
    """
    routine = "aclnnTransSparse4to2Para"
    dense = np.asarray(weight)
    if dense.ndim != 2 or dense.dtype != np.int8:
        raise AclError(PARAM_INVALID, routine, f"weight is {dense.dtype}{dense.shape}; it must be an INT8 matrix")
    rows, columns = dense.shape
    outer, blocks = -(-columns // (2 * _ROW)), -(-rows // _BLOCK)
    padded = np.zeros((blocks * _BLOCK, outer * 2 * _ROW), np.int8)
    padded[:rows, :columns] = dense
    fours = padded.reshape(blocks * _BLOCK, -1, 4)
    patterns = (fours != 0) @ np.array([8, 4, 2, 1])
    table = np.full((16, 3), -1)
    table[list(_PATTERNS)] = list(_PATTERNS.values())
    first, second, bits = np.moveaxis(table[patterns], -1, 0)
    if (bits < 0).any():
        row, group = (int(x[0]) for x in np.nonzero(bits < 0))
        raise AclError(PARAM_INVALID, routine, f"more than two of weight[{row}, {4 * group}:{4 * group + 4}] are not 0")
    kept = np.take_along_axis(fours, np.stack([first, second], -1), -1).reshape(blocks, _BLOCK, outer, _ROW)
    pairs = bits.reshape(blocks, _BLOCK, outer, _KEPT, 2)
    index = (pairs[..., 1] << 4 | pairs[..., 0]).astype(np.uint8)
    return np.ascontiguousarray(kept.transpose(2, 0, 1, 3)), np.ascontiguousarray(index.transpose(2, 0, 1, 3))


def _sizes(routine: str, shape: Sequence[int]) -> list[int]:
    sizes = [int(n) for n in shape]
    if any(n < 0 for n in sizes):
        raise AclError(PARAM_INVALID, routine, f"shape {tuple(sizes)} has a negative size")
    return sizes


def _up(value: int, step: int) -> int:
    return -(-value // step) * step


__all__ = ["calculate_convolution_weight_size", "calculate_matmul_weight_size", "trans_sparse4to2_para"]
