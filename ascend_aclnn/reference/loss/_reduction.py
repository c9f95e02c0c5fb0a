"""What the references of losses share: reductions, and outputs that may hold their one number in any rank."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, Callable

import numpy as np

from ascend_aclnn.numerics import BLOCK, Array, along, elementwise, for_blocks, round_into, sum_over, widen
from ascend_aclnn.reference._arrays import total

NONE, MEAN, SUM, BATCH_MEAN = range(4)


def reduced(loss: Array, reduction: int) -> Any:
    """The loss, its sum or its mean; the mean of nothing is NaN."""
    if reduction == NONE:
        return loss
    number = total(loss)
    return np.true_divide(number, loss.size) if reduction == MEAN else number


def block_sums(function: Callable[..., Any], inputs: Sequence[Any]) -> Any:
    """The sum of an element-wise function of arrays of one shape, block by block; None where it is not worth it."""
    arrays = [item for item in inputs if isinstance(item, np.ndarray)]
    if arrays[0].size <= BLOCK or any(a.shape != arrays[0].shape or not a.flags.c_contiguous for a in arrays):
        return None
    flat = [item.reshape(-1) if isinstance(item, np.ndarray) else item for item in inputs]
    size = arrays[0].size
    sums = np.zeros(-(-size // BLOCK))

    def add(lo: int, hi: int) -> None:
        parts = [widen(item[lo:hi]) if isinstance(item, np.ndarray) else item for item in flat]
        sums[lo // BLOCK] = total(function(*parts))

    whole = size // BLOCK
    rows = [item[: whole * BLOCK].reshape(whole, BLOCK) if isinstance(item, np.ndarray) else item for item in flat]
    if not along(_summed(function), lambda *_: (1,), rows, [sums[:whole]]):
        for_blocks(size, BLOCK, add)
    elif size > whole * BLOCK:
        add(whole * BLOCK, size)
    return total(sums)


@functools.lru_cache(64)
def _summed(function: Callable[..., Any]) -> Callable[..., Any]:
    """The sum of a function's results along rows. Cached, because its programs are cached with it."""
    return lambda *inputs: sum_over(function(*inputs), (1,))


def store_loss(function: Callable[..., Any], inputs: Sequence[Any], reduction: int, out: Array) -> None:
    """Stores an element-wise loss of inputs as they are stored, or its sum or mean, which may have any rank."""
    if reduction == NONE and elementwise(function, inputs, [out]):
        return
    sums = block_sums(function, inputs) if reduction != NONE else None
    if sums is None:
        wide = [widen(item) if isinstance(item, np.ndarray) else item for item in inputs]
        result = np.asarray(reduced(function(*wide), reduction))
    else:
        result = np.asarray(sums / inputs[0].size if reduction == MEAN else sums)
    round_into(out, result.reshape(out.shape) if result.size == out.size else np.broadcast_to(result, out.shape))


def share(reduction: int, *shapes: Sequence[int]) -> float:
    """What the gradient of a reduced loss is multiplied by, for operands that broadcast."""
    sizes = np.broadcast_shapes(*map(tuple, shapes))
    divisor = {MEAN: math.prod(sizes), BATCH_MEAN: sizes[0] if sizes else 1}.get(reduction, 1)
    return 1 / divisor if divisor else math.nan


def sum_to(x: Array, shape: tuple[int, ...]) -> Array:
    """Sums over the axes along which an operand of a shape was broadcast."""
    lead = x.ndim - len(shape)
    axes = (*range(lead), *(lead + i for i, n in enumerate(shape) if n == 1 != x.shape[lead + i]))
    return np.asarray(total(x, axes)).reshape(shape) if axes else x


def any_rank(function: Callable[..., Any], wide: bool = True) -> Callable[..., None]:
    """Makes a raw reference, whose outputs may have another shape than the result where that is one number.

    The function gets its inputs widened; unless ``wide``, as they are stored.
    """

    def raw(*inputs: Any, out: tuple[Array, ...]) -> None:
        results = function(*(widen(x) if wide and isinstance(x, np.ndarray) else x for x in inputs))
        for value, target in zip(results if isinstance(results, tuple) else (results,), out):
            store(target, value)

    return raw


def store(target: Array, value: Any) -> None:
    """Rounds a result into an output, which may have another shape where the result is one number."""
    value = np.asarray(value)
    same_size = value.size == target.size
    round_into(target, value.reshape(target.shape) if same_size else np.broadcast_to(value, target.shape))
