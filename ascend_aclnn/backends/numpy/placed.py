"""Calls whose tensors lie in one block of memory, at different places each time: what the emulated device runs."""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Sequence
from typing import Any, Callable, NamedTuple, Optional

import numpy as np
import numpy.typing as npt

from ascend_aclnn import numerics, reference
from ascend_aclnn.backends.numpy.run import Runner
from ascend_aclnn.catalog import Operator
from ascend_aclnn.core.dtypes import Format
from ascend_aclnn.core.scalar import Scalar
from ascend_aclnn.core.socs import Soc
from ascend_aclnn.core.spec import TensorSpec

Memory = npt.NDArray[np.uint8]


class Layout(NamedTuple):
    """How a tensor's elements lie from its address on, in bytes."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    offset: int
    strides: tuple[int, ...]
    low: int  # the bytes that are touched
    high: int
    view: Callable[[Memory, int], npt.NDArray[Any]]  # makes the array of a tensor at an address

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def is_plain(self) -> bool:
        """float32, contiguous."""
        steps, behind = [], 4
        for n in reversed(self.shape):
            steps.append(behind if n > 1 else 0)
            behind *= n
        return self.dtype == np.float32 and self.strides == tuple(reversed(steps))


class Tensors(NamedTuple):
    """Stands for a parameter's tensors: their numbers, one for a tensor and any count for a list."""

    numbers: Sequence[int]
    is_list: bool


_FEW_PAIRS = 16  # of tensors, up to which comparing each is faster than sorting


class PlacedCall:
    """Values that phase one has passed, with ``Tensors`` in place of tensors.

    ``place`` returns a function that runs the call at some addresses; ``possible`` says for which calls this works. Unlike a
    BoundCall it makes no Tensors and checks specs only once.
    """

    def __init__(
        self, operator: Operator, values: Sequence[Any], layouts: Sequence[Optional[Layout]], soc: Soc
    ) -> None:
        entry = reference.find(operator)
        if entry is None:
            raise LookupError(f"{operator.name} has no reference")
        # On the emulated device, which leaves what CANN leaves.
        self._runner = Runner(operator, entry, soc.product)
        self._layouts = layouts
        self._views = [None if layout is None else layout.view for layout in layouts]
        self._arguments = [_host_value(value) for value in values]  # of each parameter, but for the tensors
        self._tensors = [(at, value) for at, value in enumerate(values) if type(value) is Tensors]
        self._raw = entry.raw
        if entry.raw:  # only these ask whether outputs overlap inputs
            self._read = self._reach(operator, lambda direction: direction != "out")
            self._written = self._reach(operator, lambda direction: direction == "out")
        self._runs: dict[
            bool, Callable[[Sequence[Any]], None]
        ] = {}  # by whether the outputs share no memory with inputs

    @staticmethod
    def possible(operator: Operator, specs: Sequence[Optional[TensorSpec]], soc: Soc) -> bool:
        """False where a tensor is read or written through a copy, or gets its shape from the data."""
        entry = reference.find(operator)
        if entry is None or operator.data_dependent:
            return False
        channels_first = entry.channels_first is True or soc.product in (entry.channels_first or "").split()
        return not any(
            spec.dtype.packed
            or spec.dtype.numpy is None
            or spec.format.private
            or (channels_first and spec.format in (Format.NHWC, Format.NDHWC))
            for spec in {id(spec): spec for spec in specs if spec is not None}.values()  # lists have many of few kinds
        )

    def place(self, memory: Memory, addresses: Sequence[int]) -> Callable[[], None]:
        """A function that runs the call on tensors at these offsets in the memory."""
        arrays = [None if view is None else view(memory, address) for view, address in zip(self._views, addresses)]
        arguments = self._arguments.copy()
        for at, (numbers, is_list) in self._tensors:
            arguments[at] = [arrays[number] for number in numbers] if is_list else arrays[numbers[0]]
        new = self._raw and not self._overlap(addresses)
        run = self._runs.get(new)
        if run is None:
            run = self._runs[new] = self._runner.prepare(arguments, new)
        return self._runner.on(run, arguments)

    def direct(self, memory: Memory) -> Optional[Callable[[bytes], bool]]:
        """``place`` and what it returns in one call of the helper, for small element-wise calls on float32; None for others.

        Takes the offsets packed as int64. False, with nothing written, where ``place`` has to be asked.
        """
        formula, tensors, (read, written) = self._runner.formula, dict(self._tensors), self._runner.places
        target = tensors.get(written[0]) if len(written) == 1 else None
        layouts = [layout for layout in self._layouts if layout is not None and layout.is_plain]
        if formula is None or target is None or len(layouts) < len(self._layouts):
            return None
        shapes = [layouts[number].shape for number in target.numbers]
        sizes = [layouts[number].size for number in target.numbers]
        if not sizes or min(sizes) == 0 or max(sizes) > numerics.SMALL:
            return None
        inputs: list[Any] = []
        for at in read:
            if at not in tensors:
                inputs.append(self._arguments[at])
                continue
            numbers, is_list = tensors[at]
            each = [layouts[number].shape for number in numbers] == shapes
            one = not is_list and layouts[numbers[0]].size == 1 and len(layouts[numbers[0]].shape) <= len(shapes[0])
            if is_list != target.is_list or not (each or one):
                return None
            inputs.append(numerics.Placed(numbers[0], each))
        output, starts = numerics.Placed(target.numbers[0], True), [layout.offset for layout in layouts]
        return numerics.placed(formula, inputs, output, target.is_list, starts, sizes, memory)

    def _reach(self, operator: Operator, belongs: Callable[[str], bool]) -> list[tuple[int, int, int]]:
        """The tensors of such parameters, and the bytes that they touch."""
        numbers = [
            number
            for at, value in self._tensors
            if belongs(operator.parameters[at].direction)
            for number in value.numbers
        ]
        layouts = ((number, self._layouts[number]) for number in numbers)
        return [(number, layout.low, layout.high) for number, layout in layouts if layout is not None]

    def _overlap(self, addresses: Sequence[int]) -> bool:
        """True where written memory may overlap read memory."""
        if len(self._written) * len(self._read) <= _FEW_PAIRS:
            for number, low, high in self._written:
                start, end = addresses[number] + low, addresses[number] + high
                for other, first, last in self._read:
                    if addresses[other] + first < end and start < addresses[other] + last:
                        return True
            return False
        read = sorted([(addresses[number] + low, addresses[number] + high) for number, low, high in self._read])
        starts = [start for start, _ in read]
        ends = [*itertools.accumulate([end for _, end in read], max)]  # the furthest of all that start before the next
        for number, low, high in self._written:
            before = bisect.bisect_left(starts, addresses[number] + high)
            if before and addresses[number] + low < ends[before - 1]:
                return True
        return False


def _host_value(value: Any) -> Any:
    if isinstance(value, Scalar):
        return value.value
    if isinstance(value, list):
        return [_host_value(item) for item in value]
    return value


def layout_of(spec: TensorSpec) -> Optional[Layout]:
    """How a tensor lies; None where its data type has no host type."""
    dtype = spec.dtype.numpy
    if dtype is None:
        return None
    size = dtype.itemsize
    strides = tuple(s * size if n > 1 else 0 for n, s in zip(spec.shape, spec.strides))  # of one element: any number
    low, high = spec.span
    start = spec.offset * size
    return Layout(
        spec.shape,
        dtype,
        start,
        strides,
        low * size,
        high * size,
        _view(spec.shape, dtype, start, strides, low == high),
    )


def _view(
    shape: tuple[int, ...], dtype: np.dtype[Any], start: int, strides: tuple[int, ...], is_empty: bool
) -> Callable[[Memory, int], npt.NDArray[Any]]:
    if is_empty:
        return lambda memory, address: np.empty(shape, dtype)
    array = np.ndarray
    return lambda memory, address: array(shape, dtype, memory, address + start, strides)
