"""Repeated calls: what is known about a call holds for all that differ in data and addresses only.

Phase one and the inference of outputs see shapes, dtypes, strides, formats and attribute values, never data. So a call that
has succeeded is remembered by its ``signature``. Where operators run on host arrays, the next one of the same signature goes
straight to the reference; on a device, to phase one with the new addresses. Calls that metadata alone cannot
distinguish are never remembered, nor are failures.
"""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Sequence
from typing import Any, Callable, Optional

import numpy as np

from ascend_aclnn.backends.interface import Backend, HostRunner, RememberedCall, current_backend
from ascend_aclnn.call.arguments import Invocation
from ascend_aclnn.call.plan import CallPlan
from ascend_aclnn.catalog import Kind
from ascend_aclnn.core.scalar import Scalar
from ascend_aclnn.core.spec import TensorSpec
from ascend_aclnn.core.streams import Stream
from ascend_aclnn.core.tensor import Tensor

_DEEPEST = 64  # lists within lists: more than an array has axes, and a list may contain itself
REMEMBERED = 256  # calls that a plan remembers

PLAIN = frozenset((int, bool, str, type(None)))


def signature(items: Sequence[Any], start: tuple[Any, ...] = (), depth: int = 0) -> Optional[tuple[Any, ...]]:
    """Everything but data that a call depends on, as a key; None where an item has no such key."""
    key: list[Any] = [*start]
    ndarray = np.ndarray
    for item in items:
        kind = type(item)
        if kind is Tensor:
            storage, description = item.storage, item._description or item.description  # the property is a call
            key += (description, storage.backend)
            if not description.at_start:
                key.append(storage.nbytes)
        elif kind is ndarray:
            key += (item.dtype, item.shape, item.strides)
        elif kind in PLAIN:
            key.append(item)
        elif kind is float:
            key.append(item if item and item == item else str(item))  # float_key, without the call
        elif kind is tuple or kind is list:
            types = tuple(map(type, item))
            if PLAIN.issuperset(types):  # the most frequent case, without a further call
                key.append((*item, types))
                continue
            inner = signature(item, (), depth + 1) if depth < _DEEPEST else None
            if inner is None:
                return None
            key.append(inner)
        elif kind is Scalar:
            value = item.value
            if isinstance(value, complex):
                return None
            key += (item.dtype, type(value), float_key(value) if isinstance(value, float) else value)
        elif isinstance(item, (np.dtype, type, enum.Enum)):
            key.append(item)
        elif isinstance(item, np.generic) and item.dtype.kind in "biuf":
            key.append(float_key(float(item)) if item.dtype.kind == "f" else int(item))
        else:
            return None
    # The types are part of the key: 1, 1.0 and True are equal, and so may be a shape and a tuple of numbers.
    key.append(tuple(map(type, items)))
    return tuple(key)


def float_key(value: float) -> Any:
    """A float as a key that keeps 0.0 and -0.0 apart and makes all NaN equal."""
    return value if value and value == value else str(value)


class NotSettled(Exception):
    """The signature does not determine everything in a call."""


def remember(call: Invocation, key: tuple[Any, ...], arguments: Sequence[Any], runner: HostRunner) -> None:
    """Remembers a successful call, if its signature determines it."""
    try:
        replay = Replay(call, runner, arguments)
    except NotSettled:
        return
    _keep(call.plan, key, replay)


def _keep(plan: CallPlan, key: tuple[Any, ...], replay: Any) -> None:
    plan.replays[key] = replay
    while len(plan.replays) > REMEMBERED:
        with contextlib.suppress(KeyError):  # another thread was faster
            plan.replays.popitem(last=False)


def find_on_device(plan: CallPlan, key: tuple[Any, ...]) -> Optional[Any]:
    """What makes a call on a device again that is remembered; None where it is not."""
    replay = plan.replays.get(key)
    if replay is None or replay is _SEEN:
        return None
    if len(plan.replays) > REMEMBERED // 2:  # long before any is forgotten, and else not worth another look-up
        with contextlib.suppress(KeyError):  # another thread has forgotten it
            plan.replays.move_to_end(key)
    return replay


def remember_on_device(
    call: Invocation, key: tuple[Any, ...], items: Sequence[Any], wrap: Optional[Callable[[RememberedCall], Any]] = None
) -> None:
    """Remembers a call on a device that has succeeded for the second time, if it can be made again by its signature.

    A remembered call has handles of its own, which are not worth their price for shapes that never come again. ``wrap`` makes
    of it what ``find_on_device`` returns.
    """
    plan = call.plan
    if key not in plan.replays:
        _keep(plan, key, _SEEN)
    elif plan.replays[key] is _SEEN:
        sources = _device_sources(call, items)
        operator = plan.operator
        remembered = None if sources is None else call.backend.remember(operator, call.values, sources, plan.results)
        if remembered is None:
            return
        if wrap is not None:
            _keep(plan, key, wrap(remembered))
        else:
            _keep(plan, key, remembered if call.on_device else HostReplay(call, remembered, items))


_SEEN = object()  # in place of a call that has succeeded once


def _device_sources(call: Invocation, items: Sequence[Any]) -> Optional[list[int]]:
    """For each C parameter the index of the item that its Tensor comes from, -1 without one; None where data decides."""
    plan = call.plan
    sources = [-1] * len(call.values)
    for index, ((position, kind, direction), item) in enumerate(zip(plan.places, items)):
        if kind is None:
            if type(item) is np.ndarray:
                return None
        elif item is not None:
            value = call.values[position]
            if call.on_device:
                as_it_is = type(item) is Tensor and value.storage is item.storage
                if not as_it_is or (value is not item and direction != "in"):
                    return None
            elif type(item) is not np.ndarray or value.dtype.packed or item.dtype != value.dtype.numpy:
                return None
            sources[position] = index
    if not call.on_device and not all(map(_has_plain_memory, (call.values[position] for position in plan.results))):
        return None
    return sources


def _has_plain_memory(value: Any) -> bool:
    """Whether a result's memory is that of an ndarray."""
    if value is None:
        return True
    if type(value) is not Tensor or value.dtype.packed or value.format.private:
        return False
    return value.is_contiguous and value.offset == 0


class HostReplay:
    """A call on a device with ndarrays, ready for others of its signature: copies around a remembered call."""

    __slots__ = ("_call", "_inputs", "_passed", "_specs", "_written")

    def __init__(self, call: Invocation, remembered: RememberedCall, items: Sequence[Any]) -> None:
        plan = call.plan
        places = plan.places
        self._call = remembered
        self._inputs = [index for index, item in enumerate(items) if type(item) is np.ndarray]
        self._specs = [_spec(call.values[places[index][0]]) for index in self._inputs]
        self._written = [index for index in self._inputs if places[index][2] != "in"]
        sources = {places[index][0]: index for index in self._written}
        self._passed = [sources.get(position) for position in plan.results]  # the caller's own array, for each result

    def run(self, items: Sequence[Any], stream: Optional[Stream]) -> Optional[list[Any]]:
        """The results; None, and nothing done, where an array that is to be written is read-only."""
        for index in self._written:
            if not items[index].flags.writeable:
                return None
        backend = current_backend()
        tensors = list(items)
        for index, tensor in zip(self._inputs, backend.copy_in([items[i] for i in self._inputs], self._specs)):
            tensors[index] = tensor
        results = backend.copy_out(self._call.run(tensors, stream))
        for n, source in enumerate(self._passed):
            if source is not None:
                items[source][...] = results[n]
                results[n] = items[source]
        return results


class Replay:
    """A successful call, ready for other arguments of the same signature."""

    __slots__ = (
        "_changed",
        "_constants",
        "_input_constants",
        "_inputs",
        "_lists",
        "_nbytes",
        "_new",
        "_on_device",
        "_outputs",
        "_results",
        "_returns",
        "_run",
        "_sources",
        "runner",
    )

    def __init__(self, call: Invocation, runner: HostRunner, arguments: Sequence[Any]) -> None:
        """``arguments``: those of the call, then the items of ``out=``. NotSettled where other data could give another call."""
        plan = call.plan
        self.runner = runner
        self._on_device = call.on_device
        self._constants: list[Any] = [None] * len(call.values)
        self._inputs: list[tuple[int, int, bool]] = []  # position, index in ``arguments``, is a Tensor
        self._changed: list[tuple[int, int]] = []  # ndarrays that are written
        self._lists: list[tuple[int, int, bool]] = []  # position, index, is written
        self._run: Optional[Callable[[Sequence[Any]], None]] = None  # the runner's, once arguments are there
        self._nbytes: dict[int, int] = {}  # of the storage of each output to make, by its spec
        self._new = True  # outputs share no memory with inputs
        self._outputs: list[tuple[int, Any]] = []  # position and spec (or specs) of the outputs to make
        self._results = plan.results
        self._returns: Optional[Callable[[list[Any]], list[Any]]] = None  # where outputs are new ndarrays
        self._sources: dict[int, int] = {}  # the index in ``arguments`` of a position's value
        for index, ((position, kind, direction), item) in enumerate(zip(plan.places, arguments)):
            value = call.values[position]
            written = direction != "in"
            self._sources[position] = index
            if kind is None:
                if type(item) is np.ndarray:
                    raise NotSettled("the value of an attribute is data")
                self._constants[position] = _plain(value)
                continue
            if item is None:
                if value is not None:
                    spec = _spec(value)
                    self._outputs.append((position, spec))
                    if call.on_device:
                        for output_spec in spec if isinstance(spec, list) else [spec]:
                            self._nbytes[id(output_spec)] = output_spec.storage_nbytes
                continue
            if direction == "out":
                self._new = False
            if kind is Kind.TENSOR_LIST:
                for part, output_spec in zip(item, value):
                    _check_same(part, output_spec, written)
                self._lists.append((position, index, written))
            else:
                _check_same(item, value, written)
                if written and type(item) is np.ndarray:
                    self._changed.append((position, index))
                else:
                    self._inputs.append((position, index, type(item) is Tensor))
        self._input_constants = [self._constants[position] for position, _, _ in plan.inputs]

    def run(self, backend: Backend, items: Sequence[Any]) -> Optional[list[Any]]:
        """The results; None, with nothing written, if an array to be written is read-only."""
        if self._returns is not None:
            inputs = self._input_constants.copy()
            for _, index, _ in self._inputs:
                inputs[index] = items[index]
            for _, index, _ in self._lists:
                inputs[index] = [*items[index]]
            return self._returns(inputs)
        arguments = self._constants.copy()
        for position, index, is_tensor in self._inputs:
            item = items[index]
            arguments[position] = backend.host_array(item) if is_tensor else item
        for position, index in self._changed:
            array = items[index]
            if not array.flags.writeable:
                return None
            arguments[position] = array
        for position, index, written in self._lists:
            arrays = [backend.host_array(item) if type(item) is Tensor else item for item in items[index]]
            if written and not all(array.flags.writeable for array in arrays):
                return None
            arguments[position] = arrays
        outputs = {}
        for position, spec in self._outputs:
            outputs[position], arguments[position] = self._make(backend, spec)
        if self._run is None:
            self._run = self.runner.prepare(arguments, self._new)
            if not self._on_device and len(outputs) == len(self._results):
                self._returns = self.runner.returning(arguments)
        self._run(arguments)
        sources = self._sources
        return [outputs[i] if i in outputs else items[sources[i]] for i in self._results]

    def _make(self, backend: Backend, spec: Any) -> tuple[Any, Any]:
        """A new output as the caller gets it, and as the reference fills it."""
        if isinstance(spec, list):
            both = [self._make(backend, part) for part in spec]
            return [result for result, _ in both], [array for _, array in both]
        if not self._on_device:
            try:
                array = np.empty(spec.shape, spec.dtype.numpy)
            except MemoryError:  # the backend's own message
                array = backend.host_array(backend.allocate_output(spec, True))
            return array, array
        tensor = Tensor.on(backend.allocate(self._nbytes[id(spec)], backend.current_device()), spec)
        return tensor, backend.host_array(tensor)


def _check_same(item: Any, value: Any, written: bool) -> None:
    """NotSettled unless a bound tensor is the item itself, or stands for its memory."""
    if type(item) is np.ndarray:
        same = value.storage.array is item
    else:
        same = value is item or (not written and type(item) is Tensor and value.storage is item.storage)
    if not same:
        raise NotSettled("an argument was converted")


def _spec(value: Any) -> Any:
    """The spec of a bound output, or those of a list."""
    if isinstance(value, list):
        return [_spec(item) for item in value]
    return TensorSpec(value.shape, value.dtype, value.strides, value.offset, value._format, value._storage_shape)


def _plain(value: Any) -> Any:
    """A value that is no tensor, as references take it."""
    if isinstance(value, Scalar):
        return value.value
    return [_plain(item) for item in value] if isinstance(value, list) else value
