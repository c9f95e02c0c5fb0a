"""Convolutions of 8-bit integers (part of ops-nn/conv)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional

import numpy as np

from ascend_aclnn.numerics import Array
from ascend_aclnn.reference.conv.core import Window, convolve
from ascend_aclnn.reference.declare import reference

Ints = Sequence[int]


def _unsupported(call: Any) -> Optional[str]:
    """The document adds bias to the scaled sums, the prototypes of Ascend 950's operators scale the sums with bias."""
    if call.product == "950":
        return "the NumPy backend has INT8 convolutions of A2 and A3 only: 950's order of scale and bias is not settled"
    return None


@reference("aclnnQuantConvolution", unsupported=_unsupported)
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
) -> Array:
    """The sums of a convolution, exact, by the scale of their channel, plus its bias."""
    rank = x.ndim - 2
    window = Window.of(rank, stride, padding, dilation, groups)
    # Sums of products of 8-bit integers are exact in float64.
    sums = convolve(x.astype(np.float64), weight.astype(np.float64), window).astype(np.float32)
    each = (slice(None), *(None,) * rank)
    y = sums * scale[each]
    return y if bias is None else y + bias[each]
