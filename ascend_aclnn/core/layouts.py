"""Storage layouts that differ from row-major: blocks of matrices, kernels and images, and sub-byte elements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ascend_aclnn.core.dtypes import DataType

# A FRACTAL_NZ block has 16 rows of 32 bytes.
BLOCK_ROWS = 16
BLOCK_BYTES = 32


def nz_shape(shape: Sequence[int], dtype: DataType) -> tuple[int, ...]:
    """Storage shape of a FRACTAL_NZ tensor: (..., m, n) -> (..., ceil(n / c0), ceil(m / 16), 16, c0), c0 being 32 bytes."""
    if len(shape) < 2:
        raise ValueError(f"FRACTAL_NZ needs a rank of at least 2; the shape is {tuple(shape)}")
    return matrix_blocks(shape, BLOCK_BYTES * 8 // dtype.bits)


def matrix_blocks(shape: Sequence[int], c0: int) -> tuple[int, ...]:
    """Storage shape of FRACTAL_NZ with blocks of 16 rows and so many columns."""
    *lead, m, n = shape
    return (*lead, -(-n // c0), -(-m // BLOCK_ROWS), BLOCK_ROWS, c0)


def holds(storage_shape: Sequence[int], rows: int, columns: int) -> bool:
    """True if blocks are those of a matrix of so many rows and columns."""
    n1, m1, m0, n0 = storage_shape[-4:]
    return m0 > 0 and n0 > 0 and (n1, m1) == (-(-columns // n0), -(-rows // m0))


def counts_bytes(storage_shape: Sequence[int], dtype: DataType) -> bool:
    """True if FRACTAL_NZ blocks of a wider type are described by their bytes.

    torch_npu describes INT8 blocks that are viewed as INT32 by the blocks of INT8: eight 4-bit weights to an element.
    CANN leaves the storage shape aside and reads the blocks of the tensor's own type.
    """
    return len(storage_shape) >= 4 and dtype.bits > 8 and tuple(storage_shape[-2:]) == (BLOCK_ROWS, BLOCK_BYTES)


def to_nz(array: npt.NDArray[Any], storage_shape: Sequence[int]) -> npt.NDArray[Any]:
    """Row-major values in FRACTAL_NZ order, zero where the blocks reach past the matrix."""
    *lead, n1, m1, m0, n0 = storage_shape
    m, n = array.shape[-2:]
    padded = np.zeros((*lead, m1 * m0, n1 * n0), array.dtype)
    padded[..., :m, :n] = array
    return np.ascontiguousarray(np.moveaxis(padded.reshape(*lead, m1, m0, n1, n0), -2, -4))


def from_nz(array: npt.NDArray[Any], shape: Sequence[int]) -> npt.NDArray[Any]:
    """The row-major matrix of values in FRACTAL_NZ order (an array of the storage shape)."""
    *lead, n1, m1, m0, n0 = array.shape
    m, n = shape[-2:]
    return np.moveaxis(array, -4, -2).reshape(*lead, m1 * m0, n1 * n0)[..., :m, :n]


def kernel_blocks(shape: Sequence[int], c0: int) -> tuple[int, ...]:
    """Storage shape of FRACTAL_Z (O, C, H, W) and FRACTAL_Z_3D (O, C, D, H, W), without groups: (D C1 H W, O1, 16, C0)."""
    kernels, channels, *kernel = shape
    return -(-channels // c0) * math.prod(kernel), -(-kernels // BLOCK_ROWS), BLOCK_ROWS, c0


def to_kernel_blocks(array: npt.NDArray[Any], storage_shape: Sequence[int]) -> npt.NDArray[Any]:
    """Kernels in the order of FRACTAL_Z and FRACTAL_Z_3D, zero where the blocks reach past them."""
    _, o1, o0, c0 = storage_shape
    kernels, channels, *kernel = array.shape
    c1, depth = -(-channels // c0), kernel[:-2]
    padded = np.zeros((o1 * o0, c1 * c0, *kernel), array.dtype)
    padded[:kernels, :channels] = array
    blocks = padded.reshape(o1, o0, c1, c0, *depth, *kernel[-2:])
    order = (*range(4, 4 + len(depth)), 2, 4 + len(depth), 5 + len(depth), 0, 1, 3)
    return np.ascontiguousarray(blocks.transpose(order)).reshape(tuple(storage_shape))


def from_kernel_blocks(array: npt.NDArray[Any], shape: Sequence[int]) -> npt.NDArray[Any]:
    """The kernels of an array of the storage shape: the inverse of ``to_kernel_blocks``."""
    _, o1, o0, c0 = array.shape
    kernels, channels, *kernel = shape
    c1, depth = -(-channels // c0), kernel[:-2]
    blocks = array.reshape(*depth, c1, *kernel[-2:], o1, o0, c0)
    d = len(depth)
    order = (d + 3, d + 4, d, d + 5, *range(d), d + 1, d + 2)
    return blocks.transpose(order).reshape(o1 * o0, c1 * c0, *kernel)[:kernels, :channels]


def channel_blocks(shape: Sequence[int], c0: int) -> tuple[int, ...]:
    """Storage shape of NC1HWC0 (N, C, H, W) and NDC1HWC0 (N, C, D, H, W): (N, D, C1, H, W, C0)."""
    images, channels, *image = shape
    return images, *image[:-2], -(-channels // c0), *image[-2:], c0


def to_channel_blocks(array: npt.NDArray[Any], storage_shape: Sequence[int]) -> npt.NDArray[Any]:
    """Images in the order of NC1HWC0 and NDC1HWC0, zero where the blocks reach past the channels."""
    images, channels, *image = array.shape
    c1, c0 = storage_shape[-4], storage_shape[-1]
    padded = np.zeros((images, c1 * c0, *image), array.dtype)
    padded[:, :channels] = array
    blocks = np.moveaxis(padded.reshape(images, c1, c0, *image), 2, -1)
    return np.ascontiguousarray(np.moveaxis(blocks, 1, -4))


def from_channel_blocks(array: npt.NDArray[Any], shape: Sequence[int]) -> npt.NDArray[Any]:
    """The images of an array of the storage shape: the inverse of ``to_channel_blocks``."""
    images, channels, *image = shape
    blocks = np.moveaxis(np.moveaxis(array, -4, 1), -1, 2)
    return blocks.reshape(images, array.shape[-4] * array.shape[-1], *image)[:, :channels]


_PAIR = np.dtype("<u2")  # two elements of four bits, a byte each


def pack_bits(array: npt.NDArray[Any], bits: int) -> npt.NDArray[np.uint8]:
    """Sub-byte elements as device memory holds them: the first element in the lowest bits."""
    flat = array.reshape(-1).view(np.uint8) & np.uint8((1 << bits) - 1)
    if bits == 4:
        pairs = np.append(flat, np.uint8(0)) if flat.size % 2 else flat
        pairs = pairs.view(_PAIR)
        return (pairs | pairs >> 4).astype(np.uint8)  # which keeps the lower byte
    planes = (flat[:, None] >> np.arange(bits, dtype=np.uint8)) & np.uint8(1)
    return np.packbits(planes.reshape(-1), bitorder="little")


def unpack_bits(data: npt.NDArray[np.uint8], count: int, dtype: DataType) -> npt.NDArray[Any]:
    """The inverse of ``pack_bits``: ``count`` elements in the dtype's one-byte host type, which reads its lowest bits only."""
    assert dtype.numpy is not None
    if dtype.bits == 4:
        pairs = data[: -(-count // 2)].astype(_PAIR)
        pairs |= pairs << 4
        pairs &= 0x0F0F
        values = pairs.view(np.uint8)[:count]
    else:
        planes = np.unpackbits(data, count=count * dtype.bits, bitorder="little").reshape(count, dtype.bits)
        values = (planes << np.arange(dtype.bits, dtype=np.uint8)).sum(axis=1, dtype=np.uint8)
    elements: npt.NDArray[Any] = values.view(dtype.numpy)
    return elements


def elements(shape: Sequence[int]) -> int:
    """Number of elements of a shape; 0 for one with a negative size."""
    return max(math.prod(shape), 0) if all(n >= 0 for n in shape) else 0
