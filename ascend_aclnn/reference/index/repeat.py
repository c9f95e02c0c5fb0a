"""Repeating items, and what is laid out by offsets."""

from __future__ import annotations

from typing import Any, Union

import numpy as np

from ascend_aclnn.numerics import Array, DataError, sum_type
from ascend_aclnn.reference._arrays import cast_into
from ascend_aclnn.reference._rows import check_range, codes
from ascend_aclnn.reference.declare import reference
from ascend_aclnn.reference.index._places import vectors


def _check_total(argument: str, detail: str, times: Array, size: int) -> None:
    """The repeats add up to a size; in float64 first, because the sum of large ones wraps around."""
    if times.sum(dtype=np.float64) > 2.0**62 or int(times.sum(dtype=np.int64)) != size:
        raise DataError(argument, f"{detail} {times.sum(dtype=object)}")


def _repeated(x: Array, repeats: Union[Array, int], axis: int, size: int, out: Array) -> None:
    """Each item of an axis so many times; ``size`` is how many that must be."""
    if out.size == 0 or x.size == 0:
        return
    check_range("repeats", np.asarray(repeats), 0, None)
    times = np.broadcast_to(np.asarray(repeats).reshape(-1), x.shape[axis])
    _check_total("outputSize", f"is {size}; the repeats add up to", times, size)
    cast_into(out, np.repeat(codes(x), times, axis).view(x.dtype).reshape(out.shape))


@reference("aclnnRepeatInterleave", "aclnnRepeatInterleaveInt", raw=True)
def repeat_interleave(x: Array, repeats: Union[Array, int], size: int, *, out: tuple[Array]) -> None:
    """Each element of the flattened tensor so many times."""
    _repeated(x.reshape(-1), repeats, 0, size, out[0])


@reference("aclnnRepeatInterleaveWithDim", "aclnnRepeatInterleaveIntWithDim", raw=True)
def repeat_interleave_with_dim(x: Array, repeats: Union[Array, int], dim: int, size: int, *, out: tuple[Array]) -> None:
    """Each entry of an axis so many times."""
    _repeated(x, repeats, dim % x.ndim, size, out[0])


@reference("aclnnRepeatInterleaveTensor", raw=True)
def repeat_interleave_tensor(repeats: Array, size: int, *, out: tuple[Array]) -> None:
    """Each number 0, 1, ... so many times."""
    _repeated(np.arange(repeats.size, dtype=out[0].dtype), repeats, 0, size, out[0])


@reference("aclnnRepeatInterleaveGrad")
def repeat_interleave_grad(grad: Array, repeats: Array, axis: int) -> Any:
    """Adds up again what RepeatInterleave had made of one entry; a single number of repeats is for all of them."""
    grad, axis = vectors(grad, axis)
    check_range("repeats", repeats, 0, None)
    times, size = repeats.reshape(-1), grad.shape[axis]
    if times.size == 1 and times[0] > 0:
        times = np.repeat(times, size // times[0])
    _check_total("repeats", f"must add up to {size}, the length of the axis; they add up to", times, size)
    lines = np.moveaxis(grad, axis, 0).astype(sum_type(grad.dtype))
    total = np.zeros((len(times), *lines.shape[1:]), lines.dtype)
    filled = times > 0
    if filled.any():
        total[filled] = np.add.reduceat(lines, (np.cumsum(times) - times)[filled], axis=0)
    return np.moveaxis(total, 0, axis)


@reference("aclnnExpandIntoJaggedPermute")
def expand_into_jagged_permute(permute: Array, input_offset: Array, output_offset: Array, size: int) -> Any:
    """out[output_offset[i] :] = input_offset[permute[i]], and the numbers after it, up to output_offset[i + 1]."""
    permute, input_offset, output_offset = permute.reshape(-1), input_offset.reshape(-1), output_offset.reshape(-1)
    check_range("permute", permute, 0, permute.size)
    for argument, items in (("inputOffset", input_offset.size), ("outputOffset", output_offset.size)):
        if items != permute.size + 1:
            raise DataError(argument, f"has {items} items; it must have {permute.size + 1}, one more than permute")
    lengths = np.diff(output_offset)
    check_range("outputOffset", lengths, 0, None)
    if output_offset[0] != 0 or output_offset[-1] != size:
        raise DataError(
            "outputOffset", f"goes from {output_offset[0]} to {output_offset[-1]}; it must go from 0 to {size}"
        )
    starts = input_offset[permute] - output_offset[:-1]
    return np.repeat(starts, lengths) + np.arange(size, dtype=permute.dtype)
