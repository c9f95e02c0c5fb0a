"""Max-unpooling: elements put back where a pooling had found them, and its gradient."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ascend_aclnn.numerics import Array
from ascend_aclnn.reference._arrays import cast_into
from ascend_aclnn.reference._rows import codes
from ascend_aclnn.reference.declare import reference
from ascend_aclnn.reference.index._places import places


def _planes(x: Array, axes: int) -> Array:
    """A tensor whose last axes are one."""
    return np.ascontiguousarray(x).reshape(*x.shape[:-axes], -1)


def _unpool(x: Array, indices: Array, out: Array, axes: int) -> None:
    if out.size == 0:
        return
    target = np.zeros((*out.shape[:-axes], int(np.prod(out.shape[-axes:]))), codes(x).dtype)
    at = places("indices", _planes(indices, axes), target.shape[-1])
    np.put_along_axis(target, at, _planes(codes(x), axes), -1)
    cast_into(out, target.view(x.dtype).reshape(out.shape))


def _pool(grad: Array, indices: Array, out: Array, axes: int) -> None:
    if out.size == 0:
        return
    planes = _planes(grad, axes)
    at = places("indices", _planes(indices, axes), planes.shape[-1])
    cast_into(out, np.take_along_axis(planes, at, -1).reshape(out.shape))


@reference("aclnnMaxUnpool2d", raw=True)
def max_unpool2d(x: Array, indices: Array, size: Sequence[int], *, out: tuple[Array]) -> None:
    """out[n][c][indices[n][c][i]] = x[n][c][i], i going through a plane; zeros elsewhere."""
    _unpool(x, indices, out[0], 2)


@reference("aclnnMaxUnpool3d", raw=True)
def max_unpool3d(
    x: Array,
    indices: Array,
    size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    _: Array,
    *,
    out: tuple[Array],
) -> None:
    """The same for volumes; the size alone says where to."""
    _unpool(x, indices, out[0], 3)


@reference("aclnnMaxUnpool2dBackward", raw=True)
def max_unpool2d_backward(grad: Array, x: Array, indices: Array, size: Sequence[int], *, out: tuple[Array]) -> None:
    """out[n][c][i] = grad[n][c][indices[n][c][i]]."""
    _pool(grad, indices, out[0], 2)


@reference("aclnnMaxUnpool3dBackward", raw=True)
def max_unpool3d_backward(
    grad: Array,
    x: Array,
    indices: Array,
    size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    *,
    out: tuple[Array],
) -> None:
    """The same for volumes."""
    _pool(grad, indices, out[0], 3)
