"""References of ops-math/conversion: axes in another order, other shapes, other storage formats."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Optional

import numpy as np

from ascend_aclnn.core.layouts import holds
from ascend_aclnn.numerics import Array, move
from ascend_aclnn.reference._arrays import cast_into
from ascend_aclnn.reference._rows import codes
from ascend_aclnn.reference.declare import reference


@reference("aclnnPermute", raw=True)
def permute(x: Array, dims: Sequence[int], *, out: tuple[Array]) -> None:
    cast_into(out[0], np.transpose(x, dims))


@reference("aclnnRoll", raw=True)
def roll(x: Array, shifts: Sequence[int], dims: Sequence[int], *, out: tuple[Array]) -> None:
    """Axes shifted, what leaves at their end coming in at their start; the flattened tensor if none are named."""
    if not dims or not x.ndim:
        cast_into(codes(out[0]), np.roll(codes(x), sum(shifts)))
        return
    by = [0] * x.ndim
    for axis, shift in zip(dims, shifts):
        by[axis] += shift
    # Of each axis where the two parts come from and go to.
    parts = []
    for n, shift in zip(x.shape, by):
        cut = shift % n if n else 0
        whole = [(slice(None), slice(None))]
        parts.append([(slice(n - cut), slice(cut, None)), (slice(n - cut, None), slice(cut))] if cut else whole)
    for part in itertools.product(*parts):
        move(out[0][tuple(target for _, target in part)], x[tuple(source for source, _ in part)])


@reference("aclnnFlatten", raw=True)
def flatten(x: Array, axis: int, *, out: tuple[Array]) -> None:
    cast_into(out[0], x.reshape(out[0].shape))


@reference("aclnnChannelShuffle", raw=True)
def channel_shuffle(x: Array, groups: int, *, out: tuple[Array]) -> None:
    """The first channel of each group, then the second of each, and so on."""
    batch, channels, *rest = x.shape
    grouped = codes(x).reshape(batch, groups, channels // groups, *rest)
    cast_into(codes(out[0]), np.swapaxes(grouped, 1, 2).reshape(x.shape))


@reference("aclnnConfusionTranspose", raw=True)
def confusion_transpose(
    x: Array, perm: Sequence[int], shape: Sequence[int], transpose_first: bool, *, out: tuple[Array]
) -> None:
    """Transposed and then reshaped, or the other way round."""
    x = codes(x)
    result = np.transpose(x, perm).reshape(shape) if transpose_first else np.transpose(x.reshape(shape), perm)
    cast_into(codes(out[0]), result)


@reference("aclnnNpuFormatCast", raw=True)
def npu_format_cast(x: Array, *, out: tuple[Array]) -> None:
    """The same elements in another storage format; the tensors do the conversion."""
    cast_into(out[0], x.reshape(out[0].shape))


def _ambiguous(call: Any) -> Optional[str]:
    """The blocks are of the transposed matrix: strides say so, or blocks that hold no other."""
    weight = call["outWeight"]
    turned = not weight.is_contiguous or not holds(weight.storage_shape, *weight.shape[-2:])
    return (
        None
        if turned
        else "outWeight needs the strides of weight where its blocks hold both the matrix and the transposed one"
    )


@reference("aclnnWeightQuantPreprocess", raw=True, unsupported=_ambiguous)
def weight_quant_preprocess(
    weight: Array,
    scale: Array,
    offset: None,
    bias: Optional[Array],
    x_dtype: int,
    x_scale_dtype: int,
    group_size: int,
    *,
    out: Sequence[Any],
) -> None:
    """The weight in blocks of its columns, which the tensor makes; scales and bias are copied."""
    out_weight, out_scale, _, out_bias = out
    np.copyto(codes(out_weight), codes(weight))
    np.copyto(codes(out_scale), codes(scale))
    if bias is not None:
        np.copyto(out_bias, bias)
