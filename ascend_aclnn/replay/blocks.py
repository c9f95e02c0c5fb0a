"""Large launches by blocks of rows: which operators compute the rows of their results from the same rows of their inputs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, NamedTuple, Optional

import numpy as np
import numpy.typing as npt

from ascend_aclnn import reference
from ascend_aclnn.catalog import Kind, Operator, Parameter
from ascend_aclnn.core.dtypes import DataType
from ascend_aclnn.core.tensor import Tensor
from ascend_aclnn.creation import asarray, empty
from ascend_aclnn.recording import Launch, Recording, TensorValue

# Operators that are not elementwise: the tensors that have the rows, in their first dimension. The others come whole.
_ROWS = {
    "aclnnMm": ("self", "out"),
    "aclnnMatmul": ("self", "out"),
    "aclnnBatchMatMul": ("self", "mat2", "out"),
    "aclnnRmsNorm": ("x", "yOut", "rstdOut"),
    "aclnnAddRmsNorm": ("x1", "x2", "yOut", "rstdOut", "xOut"),
    "aclnnLayerNorm": ("input", "out", "meanOutOptional", "rstdOutOptional"),
    "aclnnSoftmax": ("self", "out"),
    "aclnnSoftmaxBackward": ("gradOutput", "output", "out"),
    "aclnnLogSoftmax": ("self", "out"),
    "aclnnSwiGlu": ("x", "out"),
    "aclnnEmbedding": ("indices", "out"),
}
_RANK = {"aclnnMm": 2, "aclnnMatmul": 2, "aclnnBatchMatMul": 3}  # of every tensor


class Rows(NamedTuple):
    """How a launch is cut: the dimension of the rows by a parameter's position, how many there are, bytes of one, of the rest."""

    dimensions: dict[int, int]
    number: int
    row_bytes: int
    whole_bytes: int

    def blocks(self, nbytes: int) -> list[tuple[int, int]]:
        """First row and end of blocks whose tensors have about so many bytes; the first and the last block come first."""
        step = max((nbytes - self.whole_bytes) // max(self.row_bytes, 1), 1)
        listed = [(start, min(start + step, self.number)) for start in range(0, self.number, step)]
        middle = listed[1:-1]
        spread = [middle[at] for begin in range(_STRIDE) for at in range(begin, len(middle), _STRIDE)]
        return [*listed[:1], *listed[1:][-1:], *spread]


_STRIDE = 16  # blocks in the middle are taken far apart, so that some of them tell about all


def nbytes_of(launch: Launch) -> int:
    """The bytes of a launch's tensors together."""
    return sum(_bytes(tensor) for value in launch.values for tensor in value.tensors())


def rows_of(operator: Operator, launch: Launch) -> Optional[Rows]:
    """The rows of a launch; None where its results cannot be computed by rows, or are not known to be."""
    entry = reference.find(operator)
    pairs = [(at, p, v) for at, (p, v) in enumerate(zip(operator.parameters, launch.values))]
    tensors = [(at, p, v.content) for at, p, v in pairs if v.kind == "tensor"]
    if entry is None or any(p.kind is Kind.TENSOR_LIST or v.kind in ("tensors", "unknown") for _, p, v in pairs):
        return None
    if any(_is_private(tensor) for _, _, tensor in tensors):
        return None
    if entry.elementwise:
        dimensions, count = _elementwise(tensors)
    elif operator.name in _ROWS:
        dimensions, count = _named(operator, launch, tensors)
    else:
        return None
    if count < 2 or any(p.direction != "in" and at not in dimensions for at, p, _ in tensors):
        return None
    cut = sum(_bytes(tensor) for at, _, tensor in tensors if at in dimensions)
    whole = sum(_bytes(tensor) for at, _, tensor in tensors if at not in dimensions)
    return Rows(dimensions, count, -(-cut // count), whole)


Tensors = list[tuple[int, Parameter, TensorValue]]


def _elementwise(tensors: Tensors) -> tuple[dict[int, int], int]:
    shapes = [tensor.description.shape for _, _, tensor in tensors]
    results = {t.description.shape for _, p, t in tensors if p.direction != "in"}
    if len(results) != 1:
        return {}, 0
    shape = next(iter(results))
    axis = next((at for at, n in enumerate(shape) if n > 1), None)
    if axis is None or any(len(other) > len(shape) for other in shapes):
        return {}, 0
    dimensions = {}
    for at, _, tensor in tensors:
        place = axis - (len(shape) - len(tensor.description.shape))
        if place >= 0 and tensor.description.shape[place] == shape[axis]:
            dimensions[at] = place
        elif place >= 0 and tensor.description.shape[place] != 1:
            return {}, 0
    return dimensions, shape[axis]


def _named(operator: Operator, launch: Launch, tensors: Tensors) -> tuple[dict[int, int], int]:
    names = _ROWS[operator.name]
    cut = [(at, tensor.description.shape) for at, p, tensor in tensors if p.name in names]
    rank = _RANK.get(operator.name)
    if rank is not None and any(len(tensor.description.shape) != rank for _, _, tensor in tensors):
        return {}, 0
    counts = {shape[0] if shape else 0 for _, shape in cut}
    if len(counts) != 1:
        return {}, 0
    longest = max(len(shape) for _, shape in cut)
    along = launch.named.get("dim")
    if along is not None and (
        along.kind != "integer" or not -longest <= along.content < longest or along.content % longest == 0
    ):
        return {}, 0
    # A norm over all dimensions has no rows.
    others = [len(tensor.description.shape) for _, p, tensor in tensors if p.name in ("gamma", "weightOptional")]
    normalized = launch.named.get("normalizedShape")
    others += [len(normalized.content)] if normalized is not None and normalized.kind == "integers" else []
    if any(rank >= longest for rank in others) and operator.name != "aclnnEmbedding":
        return {}, 0
    return {at: 0 for at, _ in cut}, counts.pop()


class Block:
    """The tensors of some rows of a launch."""

    def __init__(self, rows: Rows, start: int, stop: int, arrays: Arrays) -> None:
        self._rows, self._start, self._stop, self._arrays = rows, start, stop, arrays

    def tensor(self, value: TensorValue, at: int) -> Tensor:
        """The rows of a parameter's tensor, with memory of their own."""
        dimension = self._rows.dimensions.get(at)
        before = self._arrays.before(value)
        if before is not None:
            return asarray(np.ascontiguousarray(before if dimension is None else self.cut(before, dimension)))
        shape = list(value.description.shape)
        if dimension is not None:
            shape[dimension] = self._stop - self._start
        return empty(tuple(shape), DataType(value.description.dtype))

    def cut(self, array: npt.NDArray[Any], dimension: int) -> npt.NDArray[Any]:
        """The block's rows of an array."""
        return array[(slice(None),) * dimension + (slice(self._start, self._stop),)]


class Arrays:
    """The recorded arrays of a launch, each read once."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._read: dict[str, npt.NDArray[Any]] = {}

    def before(self, value: TensorValue) -> Optional[npt.NDArray[Any]]:
        return None if value.before is None else self._array(value, "before")

    def after(self, value: TensorValue) -> Optional[npt.NDArray[Any]]:
        return None if value.after is None else self._array(value, "after")

    def _array(self, value: TensorValue, when: str) -> npt.NDArray[Any]:
        key = f"{value.description} {value.before if when == 'before' else value.after}"
        if key not in self._read:
            self._read[key] = self._recording.array(value, when)
        return self._read[key]


def timed(blocks: list[tuple[int, int]], seconds: Optional[float]) -> Iterator[tuple[int, int]]:
    """The blocks, until so many seconds have passed; the first two always."""
    begin = time.monotonic()
    for number, block in enumerate(blocks):
        if seconds is not None and number >= 2 and time.monotonic() - begin > seconds:
            return
        yield block


def _bytes(tensor: TensorValue) -> int:
    start, stop = tensor.description.byte_range
    return max(stop - start, 0)


def _is_private(tensor: TensorValue) -> bool:
    try:
        return tensor.description.spec.format.private
    except ValueError:
        return True


__all__ = ["Arrays", "Block", "Rows", "nbytes_of", "rows_of", "timed"]
