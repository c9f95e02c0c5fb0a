"""Convolutions (ops-nn/conv): one matrix product for each position of the kernel, accumulated in float32.

Layouts are channel-first: input (N, C, *spatial), weight (O, C / groups, *kernel), or (C, O / groups, *kernel) for
transposed ones.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Optional

import numpy as np

from ascend_aclnn.numerics import Array, matmul
from ascend_aclnn.reference.declare import reference
from ascend_aclnn.reference.matmul.core import operand

Ints = Sequence[int]


class Window(NamedTuple):
    """How a kernel moves over the spatial axes."""

    stride: tuple[int, ...]
    before: tuple[int, ...]  # padding
    after: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int

    @classmethod
    def of(cls, rank: int, stride: Ints, padding: Ints, dilation: Ints, groups: int) -> Window:
        """A window from attributes: one number for each axis, or one for all; padding may have two for each axis."""

        def each(values: Ints) -> tuple[int, ...]:
            return tuple(values) * rank if len(values) == 1 else tuple(values)

        pads = each(padding)
        before, after = (pads[::2], pads[1::2]) if len(pads) == 2 * rank else (pads, pads)
        return cls(each(stride), before, after, each(dilation), groups)

    def taps(self, kernel: Ints, steps: Ints) -> Iterator[tuple[Any, Any]]:
        """Indices of each position of the kernel, and of what it meets of the padded input in so many steps."""
        for tap in itertools.product(*map(range, kernel)):
            where = (
                slice(t * d, t * d + (n - 1) * s + 1, s) if n else slice(0, 0)
                for t, d, n, s in zip(tap, self.dilation, steps, self.stride)
            )
            yield (..., *tap), (..., *where)

    def padded(self, x: Array) -> Array:
        if not any(self.before) and not any(self.after):
            return x
        return np.pad(x, [(0, 0), (0, 0), *zip(self.before, self.after)])

    def cropped(self, x: Array) -> Array:
        """The inverse of ``padded``."""
        inner = (slice(b, n - a) for b, a, n in zip(self.before, self.after, x.shape[2:]))
        inside: Any = (..., *inner)
        return np.asarray(x[inside])

    def steps(self, size: Ints, kernel: Ints) -> tuple[int, ...]:
        """Spatial shape of the output for an input of a spatial shape."""
        sizes = zip(size, kernel, self.stride, self.before, self.after, self.dilation)
        return tuple((n + b + a - d * (k - 1) - 1) // s + 1 for n, k, s, b, a, d in sizes)


def _grouped(x: Array, groups: int) -> Array:
    """(N, C, *spatial) -> (N, groups, C / groups, positions)."""
    return x.reshape(x.shape[0], groups, x.shape[1] // groups, math.prod(x.shape[2:]))


def convolve(x: Array, w: Array, window: Window) -> Array:
    """The cross-correlation of x with w: (N, O, *output)."""
    kernel, g = w.shape[2:], window.groups
    steps = window.steps(x.shape[2:], kernel)
    weight = w.reshape(g, w.shape[0] // g, *w.shape[1:])
    total = np.zeros((x.shape[0], g, w.shape[0] // g, int(np.prod(steps))), np.result_type(x, w))
    source = window.padded(x)
    for tap, where in window.taps(kernel, steps):
        total += matmul(weight[tap], _grouped(source[where], g))
    return total.reshape(x.shape[0], w.shape[0], *steps)


def spread(y: Array, w: Array, window: Window, size: Ints) -> Array:
    """The gradient of ``convolve`` for its input of a spatial shape: also the transposed convolution of y with w."""
    kernel, g = w.shape[2:], window.groups
    weight = np.swapaxes(w.reshape(g, w.shape[0] // g, *w.shape[1:]), 1, 2)
    whole = [n + b + a for n, b, a in zip(size, window.before, window.after)]
    total = np.zeros((y.shape[0], g * w.shape[1], *whole), np.result_type(y, w))
    source = _grouped(y, g)
    for tap, where in window.taps(kernel, y.shape[2:]):
        part = matmul(weight[tap], source)
        total[where] += part.reshape(total[where].shape)
    return window.cropped(total)


def weight_gradient(x: Array, y: Array, kernel: Ints, window: Window) -> Array:
    """The gradient of ``convolve`` for its weight, y being the output's gradient."""
    g = window.groups
    out = _grouped(y, g)
    gradient = np.empty((g, y.shape[1] // g, x.shape[1] // g, *kernel), np.result_type(x, y))
    source = window.padded(x)
    for tap, where in window.taps(kernel, y.shape[2:]):
        gradient[tap] = matmul(out, np.swapaxes(_grouped(source[where], g), 2, 3)).sum(axis=0)
    return gradient.reshape(y.shape[1], x.shape[1] // g, *kernel)


def _with_bias(y: Array, bias: Optional[Array]) -> Array:
    return y if bias is None else y + bias.reshape(-1, *(1,) * (y.ndim - 2))


@reference("aclnnConvolution")
def convolution(
    x: Array,
    w: Array,
    bias: Optional[Array],
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    transposed: bool,
    output_padding: Ints,
    groups: int,
    cube_math_type: int,
) -> Any:
    """The convolution of input and weight, or the transposed one, plus bias."""
    x, w = operand(x, cube_math_type), operand(w, cube_math_type)
    window = Window.of(x.ndim - 2, stride, padding, dilation, groups)
    if not transposed:
        return _with_bias(convolve(x, w, window), bias)
    return _with_bias(spread(x, w, window, _transposed_size(x, w, window, output_padding)), bias)


def _transposed_size(x: Array, w: Array, window: Window, output_padding: Ints) -> tuple[int, ...]:
    extra = tuple(output_padding) or (0,) * (x.ndim - 2)
    extra = extra * (x.ndim - 2) if len(extra) == 1 else extra
    rows = zip(x.shape[2:], w.shape[2:], window.stride, window.before, window.after, window.dilation, extra)
    return tuple((n - 1) * s - b - a + d * (k - 1) + e + 1 for n, k, s, b, a, d, e in rows)


@reference("aclnnConvolutionBackward")
def convolution_backward(
    dy: Array,
    x: Array,
    w: Array,
    bias_sizes: Optional[Ints],
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    transposed: bool,
    output_padding: Ints,
    groups: int,
    output_mask: Sequence[bool],
    cube_math_type: int,
) -> tuple[Any, Any, Any]:
    """The gradients for input, weight and bias that outputMask asks for."""
    dy, x, w = (operand(a, cube_math_type) for a in (dy, x, w))
    window = Window.of(x.ndim - 2, stride, padding, dilation, groups)
    dx = dw = db = None
    if output_mask[0]:
        dx = convolve(dy, w, window) if transposed else spread(dy, w, window, x.shape[2:])
    if output_mask[1]:
        # A transposed convolution spreads x: its weight's gradient is that of the convolution of dy to x.
        pair = (dy, x) if transposed else (x, dy)
        dw = weight_gradient(*pair, w.shape[2:], window)
    if output_mask[2]:
        db = dy.sum(axis=(0, *range(2, dy.ndim)))
    return dx, dw, db


@reference("aclnnConvDepthwise2d")
def conv_depthwise2d(
    x: Array,
    w: Array,
    kernel_size: Ints,
    bias: Optional[Array],
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    cube_math_type: int,
) -> Any:
    """Each channel convolved with its own kernels: weight (C * multiplier, 1, kh, kw)."""
    window = Window.of(2, stride, padding, dilation, x.shape[1])
    return _with_bias(convolve(operand(x, cube_math_type), operand(w, cube_math_type), window), bias)


@reference("aclnnConvTbc")
def conv_tbc(x: Array, w: Array, bias: Array, pad: int, cube_math_type: int) -> Any:
    """The convolution over time of (time, batch, channel) with a weight (kernel, channel, output)."""
    x, w = operand(x, cube_math_type), operand(w, cube_math_type)
    source = np.pad(x, ((pad, pad), (0, 0), (0, 0))) if pad else np.ascontiguousarray(x)
    steps, (_, batch, channels) = max(0, len(source) - len(w) + 1), source.shape
    total = np.zeros((steps * batch, w.shape[2]), np.result_type(x, w))
    for tap, weight in enumerate(w):  # a step of time is adjacent rows: one product of a matrix, without a copy
        total += matmul(source[tap : tap + steps].reshape(-1, channels), weight)
    return total.reshape(steps, batch, -1) + bias


@reference("aclnnConvTbcBackward")
def conv_tbc_backward(
    dy: Array, x: Array, w: Array, bias: Array, pad: int, cube_math_type: int
) -> tuple[Any, Any, Any]:
    """The gradients of ``conv_tbc`` for input, weight and bias."""
    dy, x, w = (operand(a, cube_math_type) for a in (dy, x, w))
    window = Window.of(1, (1,), (pad,), (1,), 1)
    y, source, weight = dy.transpose(1, 2, 0), x.transpose(1, 2, 0), w.transpose(2, 1, 0)
    dx = spread(y, weight, window, source.shape[2:])
    dw = weight_gradient(source, y, weight.shape[2:], window)
    return dx.transpose(2, 0, 1), dw.transpose(2, 1, 0), dy.sum(axis=(0, 1))
