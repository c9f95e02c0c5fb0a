"""Convolutions of 8-bit operands (part of ops-nn/conv)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional

import numpy as np

from ascend_aclnn.numerics import Array, is_integer, widen
from ascend_aclnn.reference._quantise import scale_of, store
from ascend_aclnn.reference.conv.core import Window, convolve
from ascend_aclnn.reference.declare import reference

Ints = Sequence[int]


@reference("aclnnQuantConvolution", "aclnnQuantConvolutionWeightNz", raw=True)
def quant_convolution(
    x: Array,
    weight: Array,
    bias: Optional[Array],
    scale: Array,
    offset: Optional[Array],
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    transposed: bool,
    output_padding: Optional[Ints],
    groups: int,
    offset_x: int,
    round_mode: Optional[str],
    *,
    out: tuple[Array],
) -> None:
    """The sums of a convolution, exact, by the scale of their channel, plus its bias; padding of integers is offsetx.

    Scales in the fixpipe's format, and matrices on Ascend 950, have the bias added first (QuantConv3d and ExtendConv2d
    start their sums at it), as the prototypes of those kernels say.
    """
    rank = x.ndim - 2
    window = Window.of(rank, stride, padding, dilation, groups)
    wide = widen(x).astype(np.float64)
    if offset_x and is_integer(x.dtype):
        wide = np.pad(wide, [(0, 0), (0, 0), *zip(window.before, window.after)], constant_values=offset_x)
        window = window._replace(before=(0,) * rank, after=(0,) * rank)
    # Sums of products of 8-bit integers are exact in float64.
    sums = convolve(wide, widen(weight).astype(np.float64), window)
    each = (slice(None), *(None,) * rank)
    scales, biases = scale_of(scale).astype(np.float32)[each], None if bias is None else widen(bias)[each]
    if scale.dtype != np.float32 or rank == 2:
        y = np.asarray(sums if biases is None else sums + biases, np.float32) * scales
    else:
        y = np.asarray(sums, np.float32) * scales
        y = y if biases is None else y + biases
    store(out[0], y)
