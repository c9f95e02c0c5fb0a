"""References of ops-math/random: random tensors, and dropout with its bit masks.

Every (seed, offset) names a stream of its own, always the same: NumPy's Philox with both as its key. Devices use Philox
generators too, but number their elements otherwise, and differ by product: the numbers are not theirs. Public are the
kernels of SimThreadExponential and, on Ascend 950, of StatelessBernoulli and DropoutV3 (ops-math, random/): Philox 4x32
of 10 rounds with the seed as key, the offset / 4 in the lower half of the counter and the thread of an element in the
upper. The other operators of Atlas A2 and A3 draw with a unit of the device whose numbers nobody documents.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Callable, Optional

import numpy as np

from ascend_aclnn.numerics import BLOCK, Array, DataError, is_low_precision, round_into
from ascend_aclnn.reference._arrays import cast_into
from ascend_aclnn.reference.declare import reference
from ascend_aclnn.reference.math.sorting import search_sorted

_WORD = 2**64 - 1


def stream(seed: Any, offset: Any) -> np.random.Generator:
    """The stream of a seed and an offset."""
    return np.random.Generator(np.random.Philox(key=(int(seed) & _WORD) | (int(offset) & _WORD) << 64))


def _first(argument: str, tensor: Array) -> int:
    """The one number of a seed or offset on the device; CANN reads the first of more."""
    if tensor.size == 0:
        raise DataError(argument, f"has shape {tensor.shape}; it must hold one number")
    return int(tensor.reshape(-1)[0])


def _seeded(draw: Callable[..., Any], at: int) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Two references of ``draw(..., generator, ...)``: seed and offset as numbers, and as tensors of one number.

    ``at`` is where they stand among the arguments; beside the tensors there is a number to add to the offset.
    """

    def by_numbers(*arguments: Any, **out: Any) -> Any:
        seed, offset = arguments[at : at + 2]
        return draw(*arguments[:at], stream(seed, offset), *arguments[at + 2 :], **out)

    def by_tensors(*arguments: Any, **out: Any) -> Any:
        seed, offset, added = arguments[at : at + 3]
        chosen = stream(_first("seedTensor", seed), _first("offsetTensor", offset) + added)
        return draw(*arguments[:at], chosen, *arguments[at + 3 :], **out)

    return by_numbers, by_tensors


def _register(name: str, draw: Callable[..., Any], at: int, raw: bool = True) -> None:
    """An operator and its variant that takes seed and offset from the device."""
    by_numbers, by_tensors = _seeded(draw, at)
    reference(f"aclnn{name}", raw=raw)(by_numbers)
    reference(f"aclnn{name}Tensor", raw=raw)(by_tensors)


# ------------------------------------------------------------------------------------------------- dropout


def _fill_mask(mask: Array, prob: float, generator: Optional[np.random.Generator]) -> None:
    """A bit for each element, 1 with probability 1 - prob; all or none of them where that is certain."""
    if prob in (0, 1):
        mask[...] = 255 if prob == 0 else 0
        return
    assert generator is not None
    flat = np.empty(mask.size, np.uint8)
    for low in range(0, flat.size, BLOCK):
        part = flat[low : low + BLOCK]
        part[...] = np.packbits(generator.random((part.size, 8), np.float32) >= np.float32(prob), 1).reshape(-1)
    mask[...] = flat.reshape(mask.shape)


def _kept(mask: Array, shape: tuple[int, ...]) -> Array:
    """The bits of a mask, lowest first, as True and False."""
    bits = np.unpackbits(np.ascontiguousarray(mask).reshape(-1), count=math.prod(shape), bitorder="little")
    return bits.view(np.bool_).reshape(shape)


@reference("aclnnDropoutDoMask")
def dropout_do_mask(x: Array, mask: Array, prob: float) -> Any:
    """x / (1 - prob) where the mask has a 1, else 0. The mask does not count where prob is 0 or 1."""
    if prob == 0:
        return x
    scale = np.float32(0 if prob == 1 else 1 / (1 - prob))
    return np.where(_kept(mask, x.shape) if prob < 1 else np.False_, x * scale, np.float32(0))


@reference("aclnnDropoutBackward")
def dropout_backward(grad: Array, mask: Array, scale: float) -> Any:
    """The gradient of DropoutDoMask, whose factor was ``scale``; 0 stands for a probability of 1."""
    return dropout_do_mask(grad, mask, 1.0 if scale == 0 else 1 - 1 / scale)


@reference("aclnnDropoutV3Grad")
def dropout_v3_grad(grad: Array, mask: Array, scale: float) -> Any:
    """grad * mask * scale: where the mask has a 0, NaN and infinities give NaN."""
    return grad * _kept(mask, grad.shape) * np.float32(scale)


def _dropout(x: Array, prob: float, seed: int, offset: int, out: tuple[Array, Array], changes_certain: bool) -> None:
    result, mask = out
    if x.size == 0:
        return
    if changes_certain or prob not in (0, 1):
        _fill_mask(mask, prob, stream(seed, offset))
    round_into(result, np.asarray(dropout_do_mask(x.astype(np.float32, copy=False), mask, prob)))


@reference("aclnnDropout", raw=True)
def dropout(x: Array, p: float, train: bool, seed: int, offset: int, *, out: tuple[Array, Array]) -> None:
    """Zeroes elements with probability p and scales the others; CANN leaves the mask alone where nothing is random."""
    _dropout(x, p if train else 0.0, seed, offset, out, changes_certain=False)


@reference("aclnnDropoutV3", raw=True)
def dropout_v3(x: Array, noise_shape: None, p: float, seed: int, offset: int, *, out: tuple[Array, Array]) -> None:
    _dropout(x, p, seed, offset, out, changes_certain=True)


def _gen_mask(
    shape: Sequence[int], prob: float, generator: np.random.Generator, dtype: int = 0, *, out: tuple[Array]
) -> None:
    _fill_mask(out[0], prob, generator)


reference("aclnnDropoutGenMask", raw=True)(_seeded(_gen_mask, 2)[0])
_register("DropoutGenMaskV2", _gen_mask, 2)

# ------------------------------------------------------------------------------------------------- bernoulli


def _probable(shape: tuple[int, ...], prob: Any, generator: np.random.Generator) -> Array:
    """True with a probability: one for all elements, or one for each."""
    chances = np.asarray(prob, np.float64)
    try:
        chances = np.broadcast_to(chances.reshape(()) if chances.size == 1 else chances, shape)
    except ValueError:
        raise DataError("prob", f"has shape {chances.shape}, which does not broadcast to {shape}") from None
    return np.asarray(generator.random(shape) < chances)


# BernoulliTensor takes its probabilities, not its seed, from a tensor.
@reference("aclnnBernoulli", "aclnnInplaceBernoulli", "aclnnBernoulliTensor", "aclnnInplaceBernoulliTensor")
def bernoulli(x: Array, prob: Any, seed: int, offset: int) -> Any:
    """1 with probability ``prob``, else 0."""
    return _probable(x.shape, prob, stream(seed, offset))


@reference("aclnnStatelessBernoulli")
def stateless_bernoulli(
    shape: Sequence[int], prob: Array, seed: Sequence[int], offset: Optional[Sequence[int]], dtype: int
) -> Any:
    """As Bernoulli, with the last item of each array as seed and as offset."""
    return _probable(tuple(shape), prob, stream(seed[-1] if seed else 0, offset[-1] if offset else 0))


# ------------------------------------------------------------------------------------------------- in place


def _below(dst: Array, end: float) -> None:
    """Keeps floats that were rounded up to the end of a half-open range below it."""
    if dst.dtype.kind == "f" or is_low_precision(dst.dtype):
        limit = np.array(end).astype(dst.dtype)
        if float(limit) >= end:
            limit = np.nextafter(limit, np.array(-np.inf, dst.dtype))
        np.minimum(dst, limit, out=dst)


def _normal(x: Array, mean: float, std: float, generator: np.random.Generator, *, out: tuple[Array]) -> None:
    cast_into(out[0], _normals(generator, x.shape, out[0].dtype) * std + mean)


def _normals(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    """Standard normal numbers: in float64 for DOUBLE, else in float32."""
    return np.asarray(generator.standard_normal(shape, np.float64 if dtype == np.float64 else np.float32))


def _uniform(x: Array, start: float, end: float, generator: np.random.Generator, *, out: tuple[Array]) -> None:
    (dst,) = out
    numbers: Array = np.asarray(generator.random(x.shape, np.float64 if dst.dtype == np.float64 else np.float32))
    cast_into(dst, start + numbers * (end - start))
    if end > start:
        _below(dst, end)


def _integers(x: Array, start: int, end: int, generator: np.random.Generator, *, out: tuple[Array]) -> None:
    cast_into(out[0], np.asarray(generator.integers(start, end, x.shape)))
    _below(out[0], end)


# Up to which number a float holds every integer.
_EXACT = {"float16": 2**11, "bfloat16": 2**8, "float32": 2**24, "float64": 2**53, "complex64": 2**24}


def _any_integer(x: Array, generator: np.random.Generator, *, out: tuple[Array]) -> None:
    """An integer from 0 to the largest up to which the data type holds all."""
    dtype = x.dtype
    most = 1 if dtype.kind == "b" else int(np.iinfo(dtype).max) if dtype.kind in "iu" else _EXACT.get(dtype.name, 2**53)
    cast_into(out[0], np.asarray(generator.integers(0, most, x.shape, endpoint=True)))


_register("InplaceNormal", _normal, 3)
_register("InplaceUniform", _uniform, 3)
_register("InplaceRandom", _integers, 3)
_register("InplaceRandomWithoutFromTo", _any_integer, 1)


@reference("aclnnSimThreadExponential")
def sim_thread_exponential(x: Array, count: int, rate: float, seed: int, offset: int) -> Any:
    """Exponentially distributed numbers with the mean 1 / rate."""
    return stream(seed, offset).standard_exponential(x.shape, np.float32) / np.float32(rate)


# ------------------------------------------------------------------------------------------------- normal


@reference(
    "aclnnNormalTensorTensor",
    "aclnnNormalTensorFloat",
    "aclnnNormalFloatTensor",
    "aclnnNormalFloatFloat",
    raw=True,
)
def normal(mean: Any, std: Any, seed: int, offset: int, *, out: tuple[Array]) -> None:
    """Normal numbers; means and deviations of tensors are broadcast to the result."""
    (dst,) = out
    numbers = _normals(stream(seed, offset), dst.shape, dst.dtype)
    mean, std = (np.asarray(value).astype(numbers.dtype, copy=False) for value in (mean, std))
    round_into(dst, np.asarray(numbers * std + mean))


# ------------------------------------------------------------------------------------------------- choices


@reference("aclnnRandperm")
def randperm(n: int, seed: int, offset: int) -> Any:
    """The numbers below n in any order."""
    return stream(seed, offset).permutation(n)


def _choose(weights: Array, samples: int, replacement: bool, generator: np.random.Generator) -> Any:
    """Categories of each row, drawn with probabilities in proportion to its weights."""
    weights = weights.astype(np.float64)
    sums = weights.sum(-1, keepdims=True)
    if not (np.isfinite(sums) & (sums > 0)).all() or weights.min(initial=0) < 0:
        raise DataError("self", "has weights that are negative or not finite, or a row of zeros")
    if replacement:
        ends = np.cumsum(weights, -1)
        drawn = generator.random((*weights.shape[:-1], samples)) * ends[..., -1:]
        last = weights.shape[-1] - 1 - np.argmax(np.flip(weights, -1) > 0, -1, keepdims=True)
        return np.minimum(search_sorted(ends, drawn, False, True, None), last)
    # The first arrivals of independent processes, one for each category.
    arrivals = generator.standard_exponential(weights.shape) / weights
    return np.argsort(arrivals, -1, kind="stable")[..., :samples]


_register("Multinomial", _choose, 3, raw=False)
