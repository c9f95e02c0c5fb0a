"""Element-wise functions in blocks: widened, computed and rounded piece by piece, so that temporaries stay in the caches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Callable, Optional

import numpy as np

from ascend_aclnn.numerics.convert import BLOCK, is_low_precision, parts, round_into, widen
from ascend_aclnn.numerics.threads import Array, for_blocks, scratch

SMALL = 1 << 15  # elements up to which all at once is as fast


def elementwise(function: Callable[..., Any], inputs: Sequence[Any], outputs: Sequence[Any]) -> bool:
    """Stores ``function(*inputs)`` into the outputs, block by block on all cores. False, and nothing done, where it cannot.

    ``function`` makes each element of its results (one array, or a tuple of as many as there are outputs) from the
    elements at the same place of the arrays among the inputs, which broadcast to the outputs' shape; the other inputs
    are passed on. It sees pieces of other shapes than the whole.
    """
    targets = [output for output in outputs if output is not None]
    arrays = [item for item in inputs if isinstance(item, np.ndarray)]
    if not targets or not arrays or not all(isinstance(target, np.ndarray) for target in targets):
        return False
    shape = targets[0].shape
    if targets[0].size <= SMALL or any(target.shape != shape for target in targets[1:]):
        return False
    if any(isinstance(item, list) for item in inputs) or not _broadcast_to(arrays, shape):
        return False
    if any(_overlap(array, target) for array in arrays for target in targets):
        return False
    views, sizes = _merged(shape, [*targets, *arrays])
    if any(view.shape != sizes for view in views[: len(targets)]):
        return False  # an output that keeps several elements in one place
    places = dict(zip(map(id, [*targets, *arrays]), views))
    given = [places.get(id(item)) for item in inputs]
    wanted = [places.get(id(output)) for output in outputs]
    pieces = parts(sizes)

    def work(lo: int, hi: int) -> None:
        for piece in pieces[lo:hi]:
            _compute(function, piece, inputs, given, wanted)

    for_blocks(len(pieces), 1, work)
    return True


def _compute(
    function: Callable[..., Any],
    piece: tuple[Any, ...],
    inputs: Sequence[Any],
    views: Sequence[Optional[Array]],
    outputs: Sequence[Optional[Array]],
) -> None:
    """One piece; ``views`` has the views of the inputs that are arrays."""
    arguments = list(inputs)
    for number, view in enumerate(views):
        if view is not None:
            part = view[_thin(piece, view.shape)]
            if is_low_precision(part.dtype):
                part = widen(part, scratch(f"elementwise.{number}", part.shape, np.float32))
            arguments[number] = part
    results = function(*arguments)
    several = results if isinstance(results, tuple) else (results,)
    if len(several) != len(outputs):
        raise RuntimeError(f"the function gave {len(several)} results for {len(outputs)} outputs")
    for result, output in zip(several, outputs):
        if output is not None:
            round_into(output[piece], np.asarray(0 if result is None else result))


def _thin(piece: tuple[Any, ...], shape: tuple[int, ...]) -> tuple[Any, ...]:
    """A piece of an array, all of the axes along which its elements repeat."""
    if piece == (...,):
        return piece
    return tuple(slice(None) if n == 1 else part for part, n in zip(piece, shape))


def _broadcast_to(arrays: Sequence[Array], shape: tuple[int, ...]) -> bool:
    try:
        return np.broadcast_shapes(*(array.shape for array in arrays)) == shape
    except ValueError:
        return False


def _overlap(array: Array, target: Array) -> bool:
    """True where writing a block could change an input of another; the very same elements are none's but their own."""
    if array.strides == target.strides and array.shape == target.shape and array.itemsize == target.itemsize:
        first, second = array.__array_interface__["data"][0], target.__array_interface__["data"][0]
        if first == second:
            return False
    return bool(np.may_share_memory(array, target))


def _merged(shape: tuple[int, ...], arrays: Sequence[Array]) -> tuple[list[Array], tuple[int, ...]]:
    """Views of the arrays over as few axes as possible, in the order of the first one's memory, and the axes' sizes.

    An axis along which an array's elements repeat has size 1 in its view.
    """
    steps = [
        (0,) * (len(shape) - array.ndim) + tuple(0 if n == 1 else step for n, step in zip(array.shape, array.strides))
        for array in arrays
    ]
    axes = [axis for axis in range(len(shape)) if shape[axis] != 1]
    axes.sort(key=lambda axis: -abs(steps[0][axis]))
    sizes: list[int] = []
    strides: list[list[int]] = [[] for _ in arrays]
    for axis in axes:
        n = shape[axis]
        if sizes and all(made[-1] == step[axis] * n for made, step in zip(strides, steps)):
            sizes[-1] *= n
            for made, step in zip(strides, steps):
                made[-1] = step[axis]
        else:
            sizes.append(n)
            for made, step in zip(strides, steps):
                made.append(step[axis])
    views = [
        np.lib.stride_tricks.as_strided(
            array, tuple(n if step else 1 for n, step in zip(sizes, made)), made, writeable=array.flags.writeable
        )
        for array, made in zip(arrays, strides)
    ]
    return views, tuple(sizes)


__all__ = ["BLOCK", "elementwise"]
