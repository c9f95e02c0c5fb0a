"""References of ops-math/random: random tensors, and dropout with its bit masks.

The numbers are those of CANN's public kernels (ops-math, random/): Philox 4x32 of 10 rounds with the seed as key. Which
word an element gets, and what becomes of it, differs by operator:

- InplaceUniform, InplaceNormal, InplaceRandom and Normal follow the kernels of Ascend 950 (stateless_random_uniform_v3.h,
  stateless_random_normal_v3.h) in the mode that is the default there, which makes numbers "compatible with A2 / A3"
  (aclnn_set_pytorch_random.cpp). Atlas A2 and A3 themselves draw with an undocumented unit of the device.
- SimThreadExponential follows the kernel of Atlas A2 and A3 (sim_thread_exponential.h).
- DropoutGenMask and Dropout (stateless_drop_out_gen_mask_pt.h), DropoutV3, Bernoulli, Multinomial, Randperm and
  InplaceRandomWithoutFromTo follow the kernels of Ascend 950. What A2 and A3 draw for them comes from the device's unit or from
  kernels on its CPUs; neither is public, and agreement with 950 is not documented.
- Numbers of DOUBLE come from kernels on the device's CPUs, which are not public: here from a generator of NumPy's, whose
  stream (seed, offset) is always the same.

Logarithms, sines and cosines are NumPy's, so that normal and exponential numbers may differ in their last bits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Callable, Optional

import ml_dtypes
import numpy as np

from ascend_aclnn.numerics import (
    BLOCK,
    Array,
    DataError,
    elementwise,
    is_low_precision,
    round_into,
    rounded_to,
    where,
    widen,
)
from ascend_aclnn.reference._arrays import cast_into
from ascend_aclnn.reference._philox import below_one, by_thread, consecutive, grid, in_runs, up_to_one, words
from ascend_aclnn.reference.declare import reference
from ascend_aclnn.reference.math.sorting import search_sorted

Stream = tuple[int, int]  # seed and offset
_MANTISSAS = {"float16": 10, "bfloat16": 7}  # float32 has 23
_HALF_EPSILON = np.float32(2.0**-24)


def double_stream(stream: Stream) -> np.random.Generator:
    """NumPy's generator for numbers of DOUBLE."""
    seed, offset = (value % 2**64 for value in stream)
    return np.random.Generator(np.random.Philox(key=seed | offset << 64))


def _first(argument: str, tensor: Array) -> int:
    """The one number of a seed or offset on the device; CANN reads the first of more."""
    if tensor.size == 0:
        raise DataError(argument, f"has shape {tensor.shape}; it must hold one number")
    return int(tensor.reshape(-1)[0])


def _seeded(draw: Callable[..., Any], at: int) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Two references of ``draw(..., stream, ...)``: seed and offset as numbers, and as tensors of one number.

    ``at`` is where they stand among the arguments; beside the tensors there is a number to add to the offset.
    """

    def by_numbers(*arguments: Any, **out: Any) -> Any:
        seed, offset = map(int, arguments[at : at + 2])
        return draw(*arguments[:at], (seed, offset), *arguments[at + 2 :], **out)

    def by_tensors(*arguments: Any, **out: Any) -> Any:
        seed, offset, added = arguments[at : at + 3]
        chosen = _first("seedTensor", seed), _first("offsetTensor", offset) + int(added)
        return draw(*arguments[:at], chosen, *arguments[at + 3 :], **out)

    return by_numbers, by_tensors


def _register(name: str, draw: Callable[..., Any], at: int, raw: bool = True) -> None:
    """An operator and its variant that takes seed and offset from the device."""
    by_numbers, by_tensors = _seeded(draw, at)
    reference(f"aclnn{name}", raw=raw)(by_numbers)
    reference(f"aclnn{name}Tensor", raw=raw)(by_tensors)


def _in_blocks(dst: Array, fill: Callable[[Array, int], None]) -> None:
    """``fill(part, start)`` for each part of the elements, in their order."""
    flat = dst.reshape(-1) if dst.flags.c_contiguous else np.empty(dst.size, dst.dtype)
    for start in range(0, flat.size, BLOCK):
        fill(flat[start : start + BLOCK], start)
    if not dst.flags.c_contiguous:
        dst[...] = flat.reshape(dst.shape)


def _exponentials(drawn: Array) -> Array:
    """Exponentially distributed numbers with the mean 1; 1 itself has half an epsilon for its logarithm."""
    uniform = up_to_one(drawn)
    return np.where(uniform < 1 - _HALF_EPSILON, -np.log(uniform), _HALF_EPSILON)


# ------------------------------------------------------------------------------------------------- dropout


def _fill_mask(mask: Array, count: int, prob: float, stream: Stream) -> None:
    """A bit for each element, 1 with probability 1 - prob; all or none of them where that is certain."""
    if prob in (0, 1):
        mask[...] = 255 if prob == 0 else 0
        return
    least = np.float32(1 - prob)

    def fill(part: Array, start: int) -> None:
        elements = min(8 * part.size, max(count - 8 * start, 0))
        bits = np.zeros(8 * part.size, np.bool_)
        np.less(up_to_one(consecutive(*stream, 8 * start, elements)), least, out=bits[:elements])
        part[...] = np.packbits(bits, bitorder="little")

    _in_blocks(mask, fill)


def _unpacked_mask(mask: Array, shape: tuple[int, ...]) -> Array:
    """The bits of a mask, lowest first, as True and False."""
    count = math.prod(shape)
    bits = np.unpackbits(np.ascontiguousarray(mask).reshape(-1)[: -(-count // 8)], count=count, bitorder="little")
    return bits.view(np.bool_).reshape(shape)


def _scaled_where(x: Any, mask: Any, scale: float) -> Any:
    return where(mask, x * np.float32(scale), 0)


@reference("aclnnDropoutDoMask", raw=True)
def dropout_do_mask(x: Array, mask: Array, prob: float, *, out: tuple[Array]) -> None:
    """x / (1 - prob) where the mask has a 1, else 0. The mask does not count where prob is 0 or 1."""
    if prob == 0:
        round_into(out[0], x)
    elif prob == 1:
        out[0][...] = 0
    elif x.flags.c_contiguous and out[0].flags.c_contiguous:
        flat, bits, target = x.reshape(-1), mask.reshape(-1), out[0].reshape(-1)
        for low in range(0, x.size, _AT_ONCE):
            some = slice(low, low + _AT_ONCE)
            _drop(flat[some], bits[low // 8 :], 1 / (1 - prob), target[some])
    else:
        _drop(x, mask, 1 / (1 - prob), out[0])


_AT_ONCE = 8 * BLOCK  # elements whose bits are unpacked at a time


def _drop(x: Array, mask: Array, scale: float, out: Array) -> None:
    bits = _unpacked_mask(mask, x.shape)
    if not elementwise(_scaled_where, [x, bits, scale], [out]):
        round_into(out, _scaled_where(widen(x), bits, scale))


@reference("aclnnDropoutBackward", raw=True)
def dropout_backward(grad: Array, mask: Array, scale: float, *, out: tuple[Array]) -> None:
    """The gradient of DropoutDoMask, whose factor was ``scale``; 0 stands for a probability of 1."""
    dropout_do_mask(grad, mask, 1.0 if scale == 0 else 1 - 1 / scale, out=out)


@reference("aclnnDropoutV3Grad")
def dropout_v3_grad(grad: Array, mask: Array, scale: float) -> Any:
    """grad * mask * scale: where the mask has a 0, NaN and infinities give NaN."""
    return grad * _unpacked_mask(mask, grad.shape) * np.float32(scale)


def _dropout_v3_mask(count: int, width: int, prob: float, stream: Stream) -> Array:
    """What drop_out_v3_impl.h keeps of ``count`` elements of ``width`` bytes: threads take runs as long as these allow."""
    seed, offset = stream
    run = math.gcd(count, min(8, 16 // width))
    if run == 1:
        drawn = by_thread(seed, -(-offset // 4) * 4, count)[:, 0]
    else:
        drawn = in_runs(seed, offset, count, grid(count), run)
    return up_to_one(drawn) < np.float32(1 - prob)


@reference("aclnnDropout", raw=True)
def dropout(x: Array, p: float, train: bool, seed: int, offset: int, *, out: tuple[Array, Array]) -> list[Array]:
    """Zeroes elements with probability p and scales the others; CANN leaves the mask alone where nothing is random."""
    result, mask = out
    prob = p if train else 0.0
    random = bool(x.size) and prob not in (0, 1)
    if random:
        _fill_mask(mask, x.size, prob, (seed, offset))
    dropout_do_mask(x, mask, prob, out=(result,))
    return [] if random else [mask]


@reference("aclnnDropoutV3", raw=True)
def dropout_v3(x: Array, noise_shape: None, p: float, seed: int, offset: int, *, out: tuple[Array, Array]) -> None:
    """As Dropout, with a mask always, whose bits after the last element are 0; infinities that are dropped give NaN."""
    result, mask = out
    if x.size == 0:
        return
    keep_mask = _dropout_v3_mask(x.size, x.dtype.itemsize, p, (seed, offset)) if p < 1 else np.zeros(x.size, np.bool_)
    bits = np.zeros(8 * mask.size, np.bool_)
    bits[: x.size] = keep_mask
    mask[...] = np.packbits(bits, bitorder="little").reshape(mask.shape)
    scaled = (
        x.astype(np.float32, copy=False) * keep_mask.reshape(x.shape) / np.float32(1 - p)
        if p < 1
        else np.zeros(x.shape)
    )
    round_into(result, np.asarray(scaled))


def _gen_mask(shape: Sequence[int], prob: float, stream: Stream, dtype: int = 0, *, out: tuple[Array]) -> None:
    _fill_mask(out[0], math.prod(shape), prob, stream)


reference("aclnnDropoutGenMask", raw=True)(_seeded(_gen_mask, 2)[0])
_register("DropoutGenMaskV2", _gen_mask, 2)

# ------------------------------------------------------------------------------------------------- bernoulli


def _probable(shape: tuple[int, ...], prob: Any, stream: Stream) -> Array:
    """True with a probability: one for all elements, or one for each (stateless_bernoulli_simt.h)."""
    probs = np.asarray(prob, np.float32)
    try:
        probs = np.broadcast_to(probs.reshape(()) if probs.size == 1 else probs, shape)
    except ValueError:
        raise DataError("prob", f"has shape {probs.shape}, which does not broadcast to {shape}") from None
    count = math.prod(shape)
    drawn = in_runs(*stream, count, max(-(-count // 2048), 1) * 512, 4)
    return np.asarray(up_to_one(drawn).reshape(shape) <= probs)


# BernoulliTensor takes its probabilities, not its seed, from a tensor.
@reference("aclnnBernoulli", "aclnnInplaceBernoulli", "aclnnBernoulliTensor", "aclnnInplaceBernoulliTensor")
def bernoulli(x: Array, prob: Any, seed: int, offset: int) -> Any:
    """1 with probability ``prob``, else 0."""
    return _probable(x.shape, prob, (seed, offset))


@reference("aclnnStatelessBernoulli")
def stateless_bernoulli(
    shape: Sequence[int], prob: Array, seed: Sequence[int], offset: Optional[Sequence[int]], dtype: int
) -> Any:
    """As Bernoulli, with the last item of each array as seed and as offset."""
    return _probable(tuple(shape), prob, (seed[-1] if seed else 0, offset[-1] if offset else 0))


# ------------------------------------------------------------------------------------------------- in place


def _rounded(x: Any, dtype: np.dtype[Any]) -> Array:
    """float32 numbers with the precision of a data type."""
    return widen(rounded_to(np.asarray(x, np.float32), dtype))


def _uniform(x: Array, start: float, end: float, stream: Stream, *, out: tuple[Array]) -> None:
    """Numbers from ``start`` on below ``end``, but for what rounding does to the largest.

    Half precision gets as many bits as its mantissa has; FLOAT16 is scaled in FLOAT16, as the vector unit does.
    """
    (dst,) = out
    if dst.dtype == np.float64:
        cast_into(dst, start + double_stream(stream).random(x.shape) * (end - start))
        return
    low = np.float32(start)
    extent = np.float32(end) - low
    bits = _MANTISSAS.get(dst.dtype.name, 23)

    def fill(part: Array, at: int) -> None:
        unit = below_one(consecutive(*stream, at, part.size), bits)
        if part.dtype == np.float16:
            unit = _rounded(unit * _rounded(extent, part.dtype), part.dtype) + _rounded(low, part.dtype)
        else:
            unit = unit * extent + low
        cast_into(part, unit)

    _in_blocks(dst, fill)


def _integers(x: Array, start: int, end: int, stream: Stream, *, out: tuple[Array]) -> None:
    """Integers from ``start`` on below ``end``: real numbers of that range, rounded down.

    For such ranges CANN casts, which cuts off towards zero, and may reach ``end`` where float32 rounds up to it; here the
    range and its frequencies are as documented, with negative numbers too. Of BOOL the number is rounded, as in CANN.
    """
    (dst,) = out
    if dst.dtype == np.float64:
        cast_into(dst, np.asarray(double_stream(stream).integers(start, end, x.shape)))
        return
    low, high = np.float32(start), np.float32(end)

    def fill(part: Array, at: int) -> None:
        unit = below_one(consecutive(*stream, at, part.size), 23)
        numbers = unit * high - (unit * low - low)
        if part.dtype.kind == "b":
            cast_into(part, np.rint(numbers))
        else:
            cast_into(part, np.clip(np.floor(numbers.astype(np.float64)), start, end - 1).astype(np.int64))
            _below(part, end)

    _in_blocks(dst, fill)


def _below(dst: Array, end: int) -> None:
    """Keeps floats that were rounded up to the end of a half-open range below it."""
    if dst.dtype.kind == "f" or is_low_precision(dst.dtype):
        limit = np.array(end).astype(dst.dtype)
        if float(limit) >= end:
            limit = np.nextafter(limit, np.array(-np.inf, dst.dtype))
        np.minimum(dst, limit, out=dst)


# Up to which number a float holds every integer.
_EXACT = {"float16": 2**11, "bfloat16": 2**8, "float32": 2**24}


def _any_integer(x: Array, stream: Stream, *, out: tuple[Array]) -> None:
    """An integer from 0 to the largest up to which the data type holds all (stateless_random_impl.h)."""
    (dst,) = out
    most = 1 if dst.dtype.kind == "b" else _EXACT.get(dst.dtype.name) or int(np.iinfo(dst.dtype).max)
    seed, offset = stream
    width = 2 if dst.dtype == np.int64 else 1
    drawn = by_thread(seed, -(-offset // 4) * 4, dst.size, width).astype(np.uint64)
    whole = drawn[:, 0] << np.uint64(32) | drawn[:, 1] if width == 2 else drawn[:, 0]
    cast_into(dst, (whole % np.uint64(most + 1)).astype(np.int64).reshape(dst.shape))


def _standard_normals(stream: Stream, start: int, count: int) -> Array:
    """Box and Muller's transform of pairs of numbers; the first of a pair is kept away from 0 by 1e-7."""
    unit = below_one(consecutive(*stream, start, count + count % 2), 23).reshape(-1, 2)
    radius = np.sqrt(np.float32(-2) * np.log(np.maximum(unit[:, 0], np.float32(1e-7))))
    angle = unit[:, 1] * np.float32(2 * math.pi)
    return np.stack((np.sin(angle) * radius, np.cos(angle) * radius), 1).reshape(-1)[:count]


def _for_each(value: Array, shape: tuple[int, ...]) -> Array:
    """One number for all elements, or one for each, in a row."""
    return value.reshape(1) if value.size == 1 else np.broadcast_to(value, shape).reshape(-1)


def _scaled_normals(stream: Stream, mean: Any, std: Any, dtype: np.dtype[Any], dst: Array) -> None:
    """normal numbers * std + mean, each step rounded to a data type, into another."""
    if dtype == np.float64:
        round_into(dst, np.asarray(double_stream(stream).standard_normal(dst.shape) * std + mean))
        return
    means, deviations = (_for_each(_rounded(value, dtype), dst.shape) for value in (mean, std))

    def fill(part: Array, at: int) -> None:
        numbers = _standard_normals(stream, at, part.size)
        here = slice(at, at + part.size) if len(deviations) > 1 else slice(1)
        of_means = slice(at, at + part.size) if len(means) > 1 else slice(1)
        if dtype == np.float32:
            cast_into(part, numbers * deviations[here] + means[of_means])
        else:
            cast_into(part, _rounded(_rounded(numbers, dtype) * deviations[here], dtype) + means[of_means])

    _in_blocks(dst, fill)


def _normal(x: Array, mean: float, std: float, stream: Stream, *, out: tuple[Array]) -> None:
    (dst,) = out
    floats = dst.dtype.kind == "f" or dst.dtype == ml_dtypes.bfloat16
    _scaled_normals(stream, mean, std, dst.dtype if floats else np.dtype(np.float32), dst)


_register("InplaceNormal", _normal, 3)
_register("InplaceUniform", _uniform, 3)
_register("InplaceRandom", _integers, 3)
_register("InplaceRandomWithoutFromTo", _any_integer, 1)


@reference("aclnnSimThreadExponential")
def sim_thread_exponential(x: Array, count: int, rate: float, seed: int, offset: int) -> Any:
    """Exponentially distributed numbers with the mean 1 / rate.

    Threads begin in the middle of a counter's words where the offset is 2 or 3 more than a multiple of 4; of 1 more the
    kernel takes no notice. (Ascend 950 refuses such offsets.)
    """
    drawn = by_thread(seed, offset - (offset % 4 == 1), x.size)[:, 0]
    return (_exponentials(drawn) / np.float32(rate)).reshape(x.shape)


# ------------------------------------------------------------------------------------------------- normal


@reference(
    "aclnnNormalTensorTensor",
    "aclnnNormalTensorFloat",
    "aclnnNormalFloatTensor",
    "aclnnNormalFloatFloat",
    raw=True,
)
def normal(mean: Any, std: Any, seed: int, offset: int, *, out: tuple[Array]) -> None:
    """Normal numbers; means and deviations of tensors are broadcast to the result, and their data type is computed in."""
    types = [value.dtype for value in (mean, std) if isinstance(value, np.ndarray)] or [out[0].dtype]
    dtype = types[0] if len(set(types)) == 1 else np.dtype(np.float64 if np.float64 in types else np.float32)
    wide = np.float64 if dtype == np.float64 else np.float32
    mean, std = (np.asarray(value).astype(wide) for value in (mean, std))
    _scaled_normals((seed, offset), mean, std, dtype, out[0])


# ------------------------------------------------------------------------------------------------- choices


@reference("aclnnRandperm")
def randperm(n: int, seed: int, offset: int) -> Any:
    """The numbers below n in any order: sorted by random keys, those of equal keys shuffled (stateless_randperm.h)."""
    order = np.arange(n)
    if n < 2:
        return order
    bits = min(64, math.ceil(math.log2(n - (6.0 * n * n + 1) / (math.log(0.9) * 12))))
    pairs = by_thread(seed, offset, n, 2).astype(np.uint64)
    span = np.uint64(2**32 - 1 if bits <= 32 else 2**64 - 1)
    keys = (pairs[:, 0] << np.uint64(32) | pairs[:, 1]) % span & np.uint64(2**bits - 1)
    order = np.argsort(keys, kind="stable")
    sorted_keys = keys[order]
    same = sorted_keys[1:] == sorted_keys[:-1]
    starts = np.flatnonzero(same & ~np.concatenate(([False], same[:-1])))
    following = offset + (n // (2 * grid(n)) + 1) * 4
    for start in starts.tolist():  # few: there are enough bits for seven in eight orders to have no equal keys at all
        size = 1 + int(np.argmin(np.append(same[start:], False)))
        drawn = _of_thread(seed, following, start, size - 1)
        for last, word in zip(range(size - 1, 0, -1), drawn.tolist()):
            a, b = start + last, start + word % (last + 1)
            order[a], order[b] = order[b], order[a]
    return order


def _of_thread(seed: int, offset: int, thread: int, count: int) -> Array:
    """The words that one thread draws, one after the other."""
    first, skipped = divmod(offset, 4)
    counters = np.arange(first, first + (skipped + count + 3) // 4, dtype=np.uint64)
    return words(seed, counters, np.array([thread], np.uint64)).reshape(-1)[skipped : skipped + count]


def _choose(weights: Array, samples: int, replacement: bool, stream: Stream) -> Any:
    """Categories of each row, drawn with probabilities in proportion to its weights.

    A draw with replacement looks its number up in the sums of the probabilities (stateless_sample_multinomial_impl.h); one
    draw, or several without replacement, take the largest quotients of weights and exponential numbers.
    """
    weights = weights.astype(np.float32)
    sums = weights.sum(-1, keepdims=True)
    if not (np.isfinite(sums) & (sums > 0)).all() or weights.min(initial=0) < 0:
        raise DataError("self", "has weights that are negative or not finite, or a row of zeros")
    seed, offset = stream
    base = -(-offset // 4)
    if not replacement or samples == 1:
        times = _exponentials(by_thread(seed, 4 * base, weights.size)[:, 0]).reshape(weights.shape)
        return np.argsort(-(weights / times), -1, kind="stable")[..., :samples]
    ends = np.cumsum(weights / sums, -1, dtype=np.float32)
    rows = math.prod(weights.shape[:-1])
    place: Array = np.arange(rows, dtype=np.uint64)[:, None] * np.uint64(-(-samples // 128) * 128)
    place = (place + np.arange(samples, dtype=np.uint64)).reshape(-1)
    drawn = up_to_one(words(seed, np.array([base % 2**64], np.uint64), place)[:, 0])
    chosen = search_sorted(ends, drawn.reshape(*weights.shape[:-1], samples), False, False, None)
    chosen = np.minimum(chosen, weights.shape[-1] - 1)
    # The first of equal sums: those after it have no weight.
    return search_sorted(ends, np.take_along_axis(ends, chosen, -1), False, False, None)


_register("Multinomial", _choose, 3, raw=False)
