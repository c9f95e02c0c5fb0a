"""Large launches by blocks of rows: which operators compute the rows of their results from the same rows of their inputs."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Optional

import numpy as np
import numpy.typing as npt

from ascend_aclnn import reference
from ascend_aclnn.catalog import Operator, Parameter
from ascend_aclnn.core.tensor import Tensor
from ascend_aclnn.creation import asarray, empty
from ascend_aclnn.recording import Launch, Recording, TensorValue, Value
from ascend_aclnn.replay.arguments import Unavailable, tensor_of


class _By(NamedTuple):
    """How an operator that is not elementwise computes rows from rows. What is not named comes whole."""

    rows: tuple[str, ...]  # tensors that have the rows in their first dimension
    maybe: Mapping[
        str, int
    ] = {}  # that have them where they have this rank or more, and as many in their first dimension
    items: tuple[str, ...] = ()  # integers of which each row has one, where they are as many as rows
    rank: int = 0  # of each tensor of ``rows``; 0: any
    whole_rank: int = 0  # of every other tensor
    null: tuple[str, ...] = ()  # what must not be there
    false: tuple[str, ...] = ()  # flags that must not be set


_MATMUL = _By(("self", "out"), rank=2, whole_rank=2)
_QUANT_MATMUL = _By(
    ("x1", "out"),
    {"pertokenScaleOptional": 1, "x1Scale": 1},
    rank=2,
    false=("transposeX1",),
    null=("yScale", "yOffset"),
)
_WEIGHT_QUANT = _By(("x", "y"), rank=2)
_QUERIES = ("query", "key", "value", "queryRopeOptional", "keyRopeOptional", "blocktable", "blockTableOptional")
_MASKS = {"pseShift": 4, "attenMask": 3, "pseShiftOptional": 4, "attenMaskOptional": 3, "realShiftOptional": 4}
_LENGTHS = (
    "actualSeqLengths",
    "actualSeqLengthsKv",
    "actualSeqLengthsOptional",
    "actualSeqLengthsKvOptional",
    "prefixOptional",
)
_DROP = ("dropMaskOptional", "paddingMaskOptional")
_SHARED: tuple[str, ...] = (
    "keySharedPrefixOptional",
    "valueSharedPrefixOptional",
    "keyAntiquantScaleOptional",
    "valueAntiquantScaleOptional",
)
_SHARED += (
    "antiquantScaleOptional",
    "antiquantScale",
    "kvPaddingSize",
    "kvPaddingSizeOptional",
    "queryPaddingSizeOptional",
)
_STATISTICS = ("softmaxMaxOut", "softmaxSumOut", "attentionOutOut")
_SCORE = _By((*_QUERIES, *_STATISTICS), _MASKS, _LENGTHS, null=_DROP)
_SCORE_GRAD = _By(
    (
        *_QUERIES,
        "keyIn",
        "dy",
        "softmaxMaxOptional",
        "softmaxSumOptional",
        "attentionInOptional",
        "dqOut",
        "dkOut",
        "dvOut",
    ),
    {**_MASKS, "dpseOut": 4},
    _LENGTHS,
    null=(*_DROP, "softmaxInOptional"),
)
_INFER = _By((*_QUERIES, "attentionOut"), {**_MASKS, "softmaxLse": 3}, _LENGTHS, null=_SHARED)
_LAYOUTS = (
    "BSH",
    "BSND",
    "BNSD",
    "BNSD_BSND",
    "BSH_BNSD",
    "BSND_BNSD",
)  # of attention, with the batch in the first dimension
_REDUCED = _By(("self", "out"))
_OF_NAMES = {
    "aclnnMm": _MATMUL,
    "aclnnMatmul": _MATMUL,
    "aclnnMatmulWeightNz": _By(("self", "out"), rank=2),
    "aclnnAddmm": _By(("mat1", "out"), {"self": 2}, rank=2),
    "aclnnBatchMatMul": _By(("self", "mat2", "out"), rank=3),
    "aclnnBaddbmm": _By(("batch1", "batch2", "out"), {"self": 3}, rank=3),
    **{f"aclnnQuantMatmulV{version}": _QUANT_MATMUL for version in (3, 4, 5)},
    **{f"aclnnWeightQuantBatchMatmul{version}": _WEIGHT_QUANT for version in ("", "V2", "V3")},
    "aclnnConvolution": _By(("input", "output")),
    **{f"aclnnFlashAttentionScore{version}": _SCORE for version in ("", "V2")},
    **{f"aclnnFlashAttentionScoreGrad{version}": _SCORE_GRAD for version in ("", "V2")},
    **{f"aclnnPromptFlashAttention{version}": _INFER for version in ("", "V2", "V3")},
    **{f"aclnnIncreFlashAttention{version}": _INFER for version in ("", "V2", "V3", "V4")},
    **{f"aclnnFusedInferAttentionScore{version}": _INFER for version in ("", "V2", "V3", "V4")},
    "aclnnRmsNorm": _By(("x", "yOut", "rstdOut")),
    "aclnnAddRmsNorm": _By(("x1", "x2", "yOut", "rstdOut", "xOut")),
    "aclnnLayerNorm": _By(("input", "out", "meanOutOptional", "rstdOutOptional")),
    "aclnnSoftmax": _REDUCED,
    "aclnnLogSoftmax": _REDUCED,
    **{f"aclnn{name}": _By(("gradOutput", "output", "out")) for name in ("SoftmaxBackward", "LogSoftmaxBackward")},
    **{
        f"aclnn{name}": _REDUCED
        for name in ("ReduceSum", "Mean", "MeanV2", "Amax", "Amin", "ArgMax", "ArgMin", "Cumsum")
    },
    **{f"aclnn{name}": _By(("self", "valuesOut", "indicesOut")) for name in ("Topk", "Sort")},
    "aclnnGather": _By(("self", "index", "out")),
    "aclnnIndexSelect": _REDUCED,
    "aclnnSwiGlu": _By(("x", "out")),
    "aclnnSwiGluGrad": _By(("yGrad", "x", "out")),
    "aclnnDynamicQuant": _By(("x", "yOut", "scaleOut")),
    "aclnnDequantBias": _By(("x", "out"), {"activateScaleOptional": 1}),
    "aclnnEmbedding": _By(("indices", "out")),
}
_ALONG = ("dim", "dims", "axis")  # the dimensions along which an operator works
_OVER_THE_LAST = ("gamma", "weightOptional")  # tensors with the dimensions that a norm works along
_TENSORS_OF_LISTS = "aclnnForeach"  # operators that compute each member of a list from the members of the others


class Rows(NamedTuple):
    """How a launch is cut: the dimension of the rows by a parameter's position, how many there are, bytes of one, of the rest."""

    dimensions: dict[int, int]
    number: int
    row_bytes: int
    whole_bytes: int
    items: frozenset[int] = frozenset()  # lists of which each row has an item
    title: str = "rows"  # "members": of lists

    def blocks(self, nbytes: int) -> list[tuple[int, int]]:
        """First row and end of blocks whose tensors have about so many bytes; the first and the last block come first."""
        step = max((nbytes - self.whole_bytes) // max(self.row_bytes, 1), 1)
        if self.number // step > _MOST_BLOCKS:  # no program has such tensors
            raise Unavailable(f"it would be compared in {self.number // step} blocks; the limit is {_MOST_BLOCKS}")
        listed = [(start, min(start + step, self.number)) for start in range(0, self.number, step)]
        middle = listed[1:-1]
        spread = [middle[at] for begin in range(_STRIDE) for at in range(begin, len(middle), _STRIDE)]
        return [*listed[:1], *listed[1:][-1:], *spread]


_MOST_BLOCKS = 1 << 20
_STRIDE = 16  # blocks in the middle are taken far apart, so that some of them tell about all


def nbytes_of(launch: Launch) -> int:
    """The bytes of a launch's tensors together."""
    return sum(_bytes(tensor) for value in launch.values for tensor in value.tensors())


def rows_of(operator: Operator, launch: Launch) -> Optional[Rows]:
    """The rows of a launch; None where its results cannot be computed by rows, or are not known to be."""
    entry = reference.find(operator)
    if entry is None or any(value.kind == "unknown" for value in launch.values):
        return None
    if operator.name.startswith(_TENSORS_OF_LISTS):
        return _members(operator, launch)
    by = _OF_NAMES.get(operator.name)
    tensors: Tensors = []
    for at, (parameter, value) in enumerate(zip(operator.parameters, launch.values)):
        listed = list(value.tensors())
        if value.kind == "tensors" and len(listed) != 1:
            return None
        tensors += [(at, parameter, tensor) for tensor in listed]
    items: frozenset[int] = frozenset()
    if entry.elementwise and not any(value.kind == "tensors" for value in launch.values):
        dimensions, count = _elementwise(tensors)
    elif by is not None:
        dimensions, items, count = _named(by, operator, launch, tensors)
    else:
        return None
    if any(_is_private(tensor) for at, p, tensor in tensors if at in dimensions or p.direction != "in" or by is None):
        return None
    left = [tensor for at, p, tensor in tensors if p.direction != "in" and at not in dimensions]
    if count < 2 or any(
        math.prod(tensor.description.shape) > 1 for tensor in left
    ):  # attention's that was not asked for may be there
        return None
    cut = sum(_bytes(tensor) for at, _, tensor in tensors if at in dimensions)
    whole = sum(_bytes(tensor) for at, _, tensor in tensors if at not in dimensions)
    return Rows(dimensions, count, -(-cut // count), whole, items)


def _members(operator: Operator, launch: Launch) -> Optional[Rows]:
    """The members of lists as rows."""
    pairs = list(enumerate(zip(operator.parameters, launch.values)))
    lists = {at: len(value.content) for at, (_, value) in pairs if value.kind == "tensors"}
    if len(set(lists.values())) != 1 or any(None in launch.values[at].content for at in lists):
        return None
    count = next(iter(lists.values()))
    if count < 2 or any(p.direction != "in" and at not in lists for at, (p, _) in pairs):
        return None
    scalars = {at: len(value.content) for at, (_, value) in pairs if value.kind == "scalars"}
    if any(number != count for number in scalars.values()):
        return None
    largest = max(sum(_bytes(launch.values[at].content[member]) for at in lists) for member in range(count))
    whole = sum(_bytes(tensor) for at, (_, value) in pairs if at not in lists for tensor in value.tensors())
    return Rows({}, count, largest, whole, frozenset({*lists, *scalars}), title="members")


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


def _named(by: _By, operator: Operator, launch: Launch, tensors: Tensors) -> tuple[dict[int, int], frozenset[int], int]:
    """The dimension of the rows by position, the lists with an item of each row, and how many rows there are; 0: not by rows."""
    nothing: tuple[dict[int, int], frozenset[int], int] = ({}, frozenset(), 0)
    named = launch.named
    layout = named.get("inputLayout")
    if layout is not None and layout.content not in _LAYOUTS:
        return nothing
    if any(name in named and named[name].kind != "null" for name in by.null):
        return nothing
    if any(name in named and named[name].content for name in by.false):
        return nothing
    paged = any(named[name].kind != "null" for name in ("blocktable", "blockTableOptional") if name in named)
    names = [name for name in by.rows if not (paged and name in ("key", "value"))]  # blocks of all rows' keys
    cut = [(at, tensor.description.shape) for at, p, tensor in tensors if p.name in names]
    counts = {shape[0] if shape else 0 for _, shape in cut}
    if len(counts) != 1:
        return nothing
    (count,) = counts
    rank = max(len(shape) for _, shape in cut)
    if by.rank and any(len(shape) != by.rank for _, shape in cut):
        return nothing
    if by.whole_rank and any(len(tensor.description.shape) != by.whole_rank for _, _, tensor in tensors):
        return nothing
    if not _is_along_others(operator, launch, tensors, rank):
        return nothing
    for at, parameter, tensor in tensors:
        shape = tensor.description.shape
        if len(shape) >= by.maybe.get(parameter.name, 99) and shape[0] == count:
            cut.append((at, shape))
        elif parameter.name in by.maybe and shape[:1] == (count,):
            return nothing  # it may have the rows in another way
    lengths = [(at, value) for at, value in enumerate(launch.values) if operator.parameters[at].name in by.items]
    items = frozenset(at for at, value in lengths if value.kind == "integers" and len(value.content) == count)
    return {at: 0 for at, _ in cut}, items, count


def _is_along_others(operator: Operator, launch: Launch, tensors: Tensors, rank: int) -> bool:
    """Whether an operator works along other dimensions than the first."""
    for name in _ALONG:
        value = launch.named.get(name)
        if value is None:
            continue
        along = value.content if value.kind == "integers" else (value.content,)
        known = value.kind in ("integer", "integers") and len(along) > 0
        if not known or any(not -rank <= one < rank or one % rank == 0 for one in along):
            return False
    others = [len(tensor.description.shape) for _, p, tensor in tensors if p.name in _OVER_THE_LAST]
    normalized = launch.named.get("normalizedShape")
    others += [len(normalized.content)] if normalized is not None and normalized.kind == "integers" else []
    return not any(other >= rank for other in others) or operator.name == "aclnnEmbedding"


class Block:
    """The values of some rows of a launch."""

    def __init__(self, rows: Rows, start: int, stop: int, arrays: Arrays) -> None:
        self._rows, self._start, self._stop, self._arrays = rows, start, stop, arrays

    def value(self, value: Value, at: int) -> Value:
        """A parameter's value, of a list with an item for each row those of the block."""
        return Value(value.kind, value.content[self._start : self._stop]) if at in self._rows.items else value

    def tensor(self, value: TensorValue, at: int) -> Tensor:
        """The rows of a parameter's tensor, with memory of their own."""
        dimension = self._rows.dimensions.get(at)
        if dimension is None:
            return self._arrays.tensor(value, kept=at not in self._rows.items)
        before, spec = self._arrays.before(value), value.description.spec
        if before is not None:
            return asarray(np.ascontiguousarray(self.cut(before, dimension)), spec.dtype, spec.format)
        shape = list(value.description.shape)
        shape[dimension] = self._stop - self._start
        return empty(tuple(shape), spec.dtype, format=spec.format)

    def cut(self, array: npt.NDArray[Any], dimension: int) -> npt.NDArray[Any]:
        """The block's rows of an array."""
        return array[(slice(None),) * dimension + (slice(self._start, self._stop),)]


class Arrays:
    """The recorded arrays of a launch, each read once."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._read: dict[str, npt.NDArray[Any]] = {}
        self._tensors: dict[TensorValue, Tensor] = {}

    def tensor(self, value: TensorValue, kept: bool) -> Tensor:
        """A whole tensor; ``kept``: for the next block, too."""
        if value in self._tensors:
            return self._tensors[value]
        tensor = tensor_of(self._recording, value)
        if kept:
            self._tensors[value] = tensor
        return tensor

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
