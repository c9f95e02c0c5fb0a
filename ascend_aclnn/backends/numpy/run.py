"""Running a reference on tensors: widen, compute, round once into the outputs."""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Callable, NoReturn, Optional

import numpy as np
import numpy.typing as npt

from ascend_aclnn import numerics, reference, rules
from ascend_aclnn.backends.numpy.storage import HostStorage, host_view
from ascend_aclnn.catalog import Operator
from ascend_aclnn.core.dtypes import KERNEL_FORMATS, NZ_FORMATS, Format
from ascend_aclnn.core.errors import (
    OUT_OF_MEMORY,
    PARAM_INVALID,
    RUNTIME_ERROR,
    AclError,
    DataError,
    RuleViolation,
    UnsupportedOperator,
)
from ascend_aclnn.core.scalar import Scalar
from ascend_aclnn.core.socs import Soc
from ascend_aclnn.core.spec import TensorSpec
from ascend_aclnn.core.tensor import Tensor
from ascend_aclnn.numerics import floating_errors
from ascend_aclnn.numerics.floating_errors import restore, silence
from ascend_aclnn.reference.declare import REFERENCES, Reference
from ascend_aclnn.reference.unavailable import REASONS
from ascend_aclnn.rules.language import RULES, Call

# Allocates a result whose shape is not its output's: parameter position, item of a list, shape.
Shrink = Callable[[int, int, tuple[int, ...]], Any]

_READABLE = NZ_FORMATS | KERNEL_FORMATS  # private formats that the host stores


def unsupported(operator: Operator, values: Sequence[Any], soc: Soc) -> Optional[str]:
    """Why the NumPy backend cannot run an operator on such values (specs suffice), though CANN can; None if it can."""
    entry = reference.find(operator)
    if entry is None:
        reason = REASONS.get(operator.name)
        text = "the NumPy backend has no reference for this operator"
        return f"{text}{f': {reason}' if reason else '; docs/adding-an-operator.md says how to register one'}"
    for parameter, value in zip(operator.parameters, values):
        if value is None:
            continue
        for spec in value if isinstance(value, list) else (value,):
            if not isinstance(spec, TensorSpec):
                continue
            if spec.format is Format.ND and spec.dtype.numpy is not None:  # most of them
                continue
            if spec.dtype.numpy is None:
                return f"{parameter.python_name} has dtype {spec.dtype.name}, which has no host type"
            if spec.format.private and spec.format not in _READABLE:
                return f"{parameter.python_name} has format {spec.format.name}, whose layout is not known"
        if isinstance(value, str) and parameter.name.startswith("roundMode") and value == "hybrid":
            return f"{parameter.python_name} is 'hybrid', which rounds to HIFLOAT8 by random bits of the device"
    return None if entry.unsupported is None else entry.unsupported(Call(operator, values, soc))


def missing_group(operator: Operator, values: Sequence[Any]) -> Optional[RuleViolation]:
    """Phase one's message about an argument that names a communicator that does not exist; None if all exist."""
    from ascend_aclnn.collectives import groups  # imported on use: few operators communicate

    for position in operator.groups:
        parameter = operator.parameters[position]
        name = parameter.name
        tensor_parallel = operator.positions.get("tpWorldSize")  # a vendor's operator may have a groupTp without
        if name == "groupTp" and tensor_parallel is not None and values[tensor_parallel] <= 1:
            continue  # not used
        if not groups.exists(values[position] or ""):
            detail = f"{parameter.python_name} {groups.missing(values[position])}"
            return RuleViolation(RUNTIME_ERROR, name, detail)
    return None


def _references() -> int:
    """What sys.getrefcount says of a value that is in one list and one local variable."""
    several = [object()]
    value = several[0]
    return sys.getrefcount(value)


_REFERENCES = _references()

# Called with what a reference leaves unwritten, as CANN does.
when_unwritten: Optional[Callable[[Sequence[Any]], None]] = None


@functools.cache
def _places(operator: Operator) -> tuple[list[int], list[int], list[int], list[int]]:
    """The positions of what is read, of what is written, of outputs, and of inputs that end the operator where they are empty."""
    directions = [parameter.direction for parameter in operator.parameters]
    inputs = [i for i, direction in enumerate(directions) if direction != "out"]
    written = [i for i, direction in enumerate(directions) if direction != "in"]
    outputs = [i for i, direction in enumerate(directions) if direction == "out"]
    return inputs, written, outputs, [operator.positions[name] for name in operator.idle_if_empty]


class Runner:
    """An operator's reference, and the rule that has passed its arguments: runs on one host value per C parameter."""

    __slots__ = (
        "_idle",
        "_inputs",
        "_operator",
        "_outputs",
        "_pure",
        "_reference",
        "_registered",
        "_rule",
        "_wide",
        "_widened",
    )

    def __init__(self, operator: Operator, registered: Reference, product: str) -> None:
        entry = registered.of(product)
        self._operator = operator
        self._registered = registered
        self._reference = entry
        self._rule = rules.find(operator)
        self._inputs, self._outputs, self._pure, self._idle = _places(operator)
        self._wide = self._inputs  # or to be widened
        if entry.stored:
            self._wide = [i for i in self._inputs if operator.parameters[i].name not in entry.stored]
        self._widened: frozenset[int] = frozenset()  # positions that ``_run_whole`` widens

    @property
    def valid(self) -> bool:
        """False once another rule or reference is registered under the operator's name."""
        name = self._operator.name
        return REFERENCES.get(name) is self._registered and RULES.get(name) is self._rule

    @property
    def formula(self) -> Optional[Callable[..., Any]]:
        """What computes each element from those at its place; None where the reference is none of that kind."""
        return self._reference.function if self._reference.elementwise else None

    @property
    def places(self) -> tuple[list[int], list[int]]:
        """The positions of the parameters that are read and of those that are written."""
        return self._inputs, self._outputs

    def run(self, arguments: Sequence[Any], shrink: Optional[Shrink] = None) -> None:
        """Fills the output arrays. Arguments: ndarrays for tensors, lists of them, Python values for the rest."""
        entry = self._reference
        try:
            with floating_errors.ignored():
                inputs = [arguments[i] for i in self._inputs]
                outputs = [arguments[i] for i in self._outputs]
                if _nothing_to_write(outputs) and not entry.communicates:
                    return
                if self._is_idle(arguments):
                    self._zero([arguments[i] for i in self._pure])
                    return
                if entry.raw:
                    written = [arguments[i] for i in self._pure]
                    separate = [_separate(value, written) for value in inputs]
                    self._zero(entry.function(*separate, out=tuple(outputs)))
                    return
                if entry.elementwise and numerics.elementwise(entry.function, inputs, outputs):
                    return
                if entry.along is not None and _along(entry, inputs, outputs):
                    return
                wide = self._wide
                results = entry.function(*[_widened(arguments[i]) if i in wide else arguments[i] for i in self._inputs])
                if type(results) is np.ndarray and len(outputs) == 1:  # the most frequent case, without a further call
                    target = outputs[0]
                    if type(target) is np.ndarray and target.shape == results.shape:
                        numerics.round_into(target, results)
                        return
                self._store(results, outputs, shrink)
        except Exception as error:
            self._fail(error, arguments)

    def prepare(self, arguments: Sequence[Any], new: bool) -> Callable[[Sequence[Any]], None]:
        """``run`` for arguments of these shapes and data types, without the checks that depend on these alone.

        ``new``: the outputs share no memory with inputs.
        """
        entry = self._reference
        if _nothing_to_write([arguments[i] for i in self._outputs]) or self._is_idle(arguments):
            return self.run
        if entry.raw:
            return self._run_raw if new else self._run_apart
        if (entry.elementwise or entry.along is not None) and _are_large(arguments):
            return self._prepared(arguments, new) or self.run
        self._widened = frozenset([i for i in self._wide if _are_low_precision(arguments[i])])
        return self._run_whole

    def returning(self, arguments: Sequence[Any]) -> Optional[Callable[[list[Any]], list[Any]]]:
        """``run`` for arguments of these shapes and data types that takes the inputs and returns new small outputs.

        A result of the reference that no one else refers to becomes the output itself, without a copy. None if ``prepare`` is
        as fast.
        """
        outputs = [arguments[i] for i in self._outputs]
        if _are_large(outputs if self._reference.raw else arguments):
            return None
        if not all(type(output) is np.ndarray for output in outputs):
            return None
        run = self.prepare(arguments, True)
        if run == self._run_raw:
            return self._returning_raw(outputs)
        return self._returning_small(outputs) if run == self._run_whole else None

    def _returning_raw(self, outputs: Sequence[npt.NDArray[Any]]) -> Callable[[list[Any]], list[Any]]:
        function, empty = self._reference.function, np.empty
        layouts = [(output.shape, output.dtype) for output in outputs]

        def run(inputs: list[Any]) -> list[Any]:
            before = silence()
            try:
                results = tuple([empty(shape, dtype) for shape, dtype in layouts])
                unwritten = function(*inputs, out=results)
                if unwritten is not None:
                    self._zero(unwritten)
                return [*results]
            except Exception as error:
                self._fail(error, self._arguments(inputs, outputs))
            finally:
                restore(before)

        return run

    def _returning_small(self, outputs: Sequence[npt.NDArray[Any]]) -> Callable[[list[Any]], list[Any]]:
        function, ndarray, references = self._reference.function, np.ndarray, sys.getrefcount
        widen, round_into = numerics.widen, numerics.round_into
        layouts = [(output.shape, output.dtype, output.strides) for output in outputs]
        low = [at for at, i in enumerate(self._inputs) if i in self._widened]
        count = len(layouts)

        def run(inputs: list[Any]) -> list[Any]:
            before = silence()
            try:
                for at in low:
                    value = inputs[at]
                    inputs[at] = widen(value) if type(value) is ndarray else _widened(value)
                results = function(*inputs)
                several = [*results] if isinstance(results, tuple) else [results]
                results = None
                fit = len(several) == count
                if fit:
                    for at, (shape, dtype, strides) in enumerate(layouts):
                        value = several[at]
                        if type(value) is not ndarray or value.shape != shape:
                            fit = False
                            break
                        if (
                            value.dtype != dtype
                            or value.strides != strides
                            or value.base is not None
                            or references(value) > _REFERENCES  # an input, or what the reference keeps
                        ):
                            several[at] = np.empty(shape, dtype)
                            round_into(several[at], value)
                if not fit:
                    values = tuple(several)
                    several = [np.empty(shape, dtype) for shape, dtype, _ in layouts]
                    self._store(values, several, None)
                return several
            except Exception as error:
                self._fail(error, self._arguments(inputs, outputs))
            finally:
                restore(before)

        return run

    def _arguments(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> list[Any]:
        """One value per C parameter."""
        arguments = [None] * len(self._operator.parameters)
        for places, values in ((self._inputs, inputs), (self._outputs, outputs)):
            for place, value in zip(places, values):
                arguments[place] = value
        return arguments

    def on(self, run: Callable[[Sequence[Any]], None], arguments: Sequence[Any]) -> Callable[[], None]:
        """What ``prepare`` has returned, for a call that is made many times on these very arrays."""
        inputs, outputs = [arguments[i] for i in self._inputs], [arguments[i] for i in self._outputs]
        if run == self._run_raw:
            return self._fixed_raw(inputs, tuple(outputs), arguments)
        if run == self._run_whole and not self._widened and len(outputs) == 1 and type(outputs[0]) is np.ndarray:
            return self._fixed_small(inputs, outputs[0], arguments)
        return functools.partial(run, arguments)

    def _fixed_raw(
        self, inputs: Sequence[Any], outputs: tuple[Any, ...], arguments: Sequence[Any]
    ) -> Callable[[], None]:
        function = self._reference.function

        def run() -> None:
            try:
                with floating_errors.ignored():
                    unwritten = function(*inputs, out=outputs)
                    if unwritten is not None:
                        self._zero(unwritten)
            except Exception as error:
                self._fail(error, arguments)

        return run

    def _fixed_small(
        self, inputs: Sequence[Any], target: npt.NDArray[Any], arguments: Sequence[Any]
    ) -> Callable[[], None]:
        function, ignored, ndarray = self._reference.function, floating_errors.ignored, np.ndarray
        copy: Callable[..., None] = np.copyto if target.size <= numerics.SMALL else numerics.round_into  # on all cores
        shape, dtype = target.shape, target.dtype

        def run() -> None:
            try:
                result = function(*inputs)
                if type(result) is ndarray and result.dtype is dtype and result.shape == shape:
                    copy(target, result)
                else:
                    self._store(result, [target], None)
            except Exception as error:
                self._fail(error, arguments)

        def run_alone() -> None:
            with ignored():
                run()

        return run if floating_errors.are_ignored() else run_alone

    def _prepared(self, arguments: Sequence[Any], new: bool) -> Optional[Callable[[Sequence[Any]], None]]:
        """``run`` by a program that computes everything; None where there is none."""
        entry = self._reference
        try:
            inputs, outputs = [arguments[i] for i in self._inputs], [arguments[i] for i in self._outputs]
            program = numerics.prepared(
                entry.function, None if entry.elementwise else entry.along, inputs, outputs, new
            )
        except DataError:
            return None
        if program is None:
            return None

        def run(arguments: Sequence[Any]) -> None:
            try:
                done = program([arguments[i] for i in self._inputs], [arguments[i] for i in self._outputs])
            except Exception as error:
                self._fail(error, arguments)
            if not done:
                self.run(arguments)

        return run

    def _is_idle(self, arguments: Sequence[Any]) -> bool:
        """True where an input without elements ends the operator before any kernel."""
        return bool(self._idle) and any(a.size == 0 for i in self._idle for a in _all_arrays([arguments[i]]))

    def _run_raw(self, arguments: Sequence[Any]) -> None:
        before = silence()
        try:
            outputs = tuple([arguments[i] for i in self._outputs])
            unwritten = self._reference.function(*[arguments[i] for i in self._inputs], out=outputs)
            if unwritten is not None:
                self._zero(unwritten)
        except Exception as error:
            self._fail(error, arguments)
        finally:
            restore(before)

    def _run_apart(self, arguments: Sequence[Any]) -> None:
        """``_run_raw`` where no output shares memory with an input, else ``run``."""
        outputs = [*_all_arrays([arguments[i] for i in self._pure])]
        inputs = _all_arrays([arguments[i] for i in self._inputs])
        if any(np.may_share_memory(a, b) for a in inputs for b in outputs):
            self.run(arguments)
        else:
            self._run_raw(arguments)

    def _run_whole(self, arguments: Sequence[Any]) -> None:
        before = silence()
        try:
            if self._widened:
                low = self._widened
                inputs = [_widened(arguments[i]) if i in low else arguments[i] for i in self._inputs]
            else:
                inputs = [arguments[i] for i in self._inputs]
            results = self._reference.function(*inputs)
            several = results if type(results) is tuple else (results,)
            if len(several) == len(self._outputs):
                for value, i in zip(several, self._outputs):
                    target = arguments[i]
                    if type(value) is not np.ndarray or type(target) is not np.ndarray:
                        break
                    if target.shape != value.shape:
                        break
                    if target.dtype == value.dtype and value.size <= numerics.SMALL:
                        np.copyto(target, value)
                    else:
                        numerics.round_into(target, value)
                else:
                    return
            self._store(results, [arguments[i] for i in self._outputs], None)
        except Exception as error:
            self._fail(error, arguments)
        finally:
            restore(before)

    def _store(self, results: Any, outputs: Sequence[Any], shrink: Optional[Shrink]) -> None:
        """Rounds what the reference returned into the outputs."""
        several = results if isinstance(results, tuple) else (results,)
        if len(several) != len(outputs):
            name = self._operator.name
            raise RuntimeError(f"{name}: the reference gave {len(several)} results for {len(outputs)} outputs")
        for value, target, position in zip(several, outputs, self._outputs):
            if target is None:
                continue
            if type(value) is np.ndarray and type(target) is np.ndarray and value.shape == target.shape:
                numerics.round_into(target, value)
                continue
            parameter = self._operator.parameters[position]
            targets = target if isinstance(target, list) else [target]
            if value is None:
                self._zero(targets if parameter.direction == "out" else ())
                continue
            sources = value if isinstance(target, list) else [value]
            if len(sources) != len(targets):
                raise DataError(parameter.name, f"has {len(targets)} tensors; it must have {len(sources)}")
            for item, (source, destination) in enumerate(zip(sources, targets)):
                if (
                    type(source) is np.ndarray
                    and source.dtype == destination.dtype
                    and source.shape == destination.shape
                ):
                    np.copyto(destination, source)
                    continue
                source = np.asarray(source)
                if source.size == destination.size == 1:  # CANN takes one element in any shape; phase one says where
                    source = source.reshape(destination.shape)
                if source.shape != destination.shape:
                    if shrink is None:
                        raise DataError(parameter.name, f"has shape {destination.shape}; it must be {source.shape}")
                    destination = shrink(position, item, source.shape)
                numerics.round_into(destination, source)

    def _zero(self, unwritten: Optional[Sequence[Any]]) -> None:
        """Zeroes what CANN leaves unwritten, so that results do not depend on what memory held."""
        if unwritten is not None:
            for array in _all_arrays(unwritten):
                array[...] = 0
            if when_unwritten is not None:
                when_unwritten(list(_all_arrays(unwritten)))

    def _fail(self, error: Exception, arguments: Sequence[Any]) -> NoReturn:
        """Raises a reference's exception as the caller is to see it; called within its handler."""
        operator = self._operator
        if isinstance(error, DataError):
            position = operator.positions.get(error.argument)
            argument = None if position is None else operator.parameters[position].python_name
            detail = f"{argument or error.argument} {error.detail}"
            raise AclError(PARAM_INVALID, operator.name, detail, operator=operator.name, argument=argument) from None
        if isinstance(error, MemoryError):
            detail = f"the reference needs more memory than this host has: {error}"
            raise AclError(OUT_OF_MEMORY, operator.name, detail, operator=operator.name) from error
        if isinstance(error, AclError):
            raise error
        empty = self._first_empty(arguments)
        if empty is not None:
            detail = f"the reference does not compute calls whose {empty} has no elements: {error}"
            raise UnsupportedOperator(operator.name, detail, argument=empty) from error
        # a fault of the reference, not of the arguments
        note = f"in the NumPy reference of {operator.name} ({_shapes(operator, arguments)})"
        if sys.version_info >= (3, 11):
            error.add_note(note)
            raise error
        raise error from RuntimeError(note)

    def _first_empty(self, arguments: Sequence[Any]) -> Optional[str]:
        """The first input without elements."""
        for i in self._inputs:
            if any(array.size == 0 for array in _all_arrays([arguments[i]])):
                return self._operator.parameters[i].python_name
        return None


def _along(entry: Reference, inputs: Sequence[Any], outputs: Sequence[Any]) -> bool:
    assert entry.along is not None
    try:
        return numerics.along(entry.function, entry.along, inputs, outputs)
    except DataError:
        return False  # raised again by the whole computation, with the indices of the whole data


def _nothing_to_write(outputs: Sequence[Any]) -> bool:
    """True where every output is empty: CANN launches no kernel either."""
    written = False
    for value in outputs:
        for array in value if isinstance(value, list) else (value,):
            if array is not None:
                if array.size:
                    return False
                written = True
    return written


def _all_arrays(values: Sequence[Any]) -> Iterator[Any]:
    """The arrays among values and the lists among them."""
    for value in values:
        if isinstance(value, np.ndarray):
            yield value
        elif isinstance(value, list):
            yield from _all_arrays(value)


def _are_large(values: Sequence[Any]) -> bool:
    """Whether an array among values, or in a list of them, is too large for one pass."""
    for value in values:
        if isinstance(value, np.ndarray):
            if value.size > numerics.SMALL:
                return True
        elif isinstance(value, list) and _are_large(value):
            return True
    return False


def _are_low_precision(value: Any) -> bool:
    """Whether an array, or one in a list, is to be widened."""
    if isinstance(value, np.ndarray):
        return numerics.is_low_precision(value.dtype)
    return isinstance(value, list) and any(map(_are_low_precision, value))


class BoundCall:
    """A runner and the values of one call, which phase one has passed; the results are in the output tensors."""

    def __init__(self, operator: Operator, values: Sequence[Any], soc: Soc) -> None:
        why = unsupported(operator, values, soc)
        entry = reference.find(operator)
        if why is not None or entry is None:
            raise UnsupportedOperator(operator.name, why or "")
        self.runner = Runner(operator, entry, soc.product)
        self._operator, self._values = operator, values
        first = entry.channels_first
        self._channels_first = first if isinstance(first, bool) else soc.product in first.split()
        self._hosts = self._host_values()
        self.arguments = None if self._changes_between_runs() else [_arrays(host) for host in self._hosts]
        self._run = self.runner.run if self.arguments is None else self.runner.prepare(self.arguments, False)

    def settle(self) -> None:
        """Prepares the call for many runs: whether outputs share memory with inputs is found out once."""
        arguments, runner = self.arguments, self.runner
        if arguments is None:
            return
        outputs = list(_all_arrays([arguments[i] for i in runner._pure]))
        inputs = list(_all_arrays([arguments[i] for i in runner._inputs]))
        new = not any(np.may_share_memory(a, b) for a in outputs for b in inputs)
        self.run = runner.on(runner.prepare(arguments, new), arguments)  # type: ignore[method-assign]  # nothing but the reference

    def run(self) -> None:
        """Computes the outputs from what the inputs hold now."""
        if self.arguments is not None:
            self._run(self.arguments)
            return
        hosts, self._hosts = self._hosts or self._host_values(), []
        if self._channels_first:
            _move_channels_first(hosts)
        self.runner.run([_arrays(host) for host in hosts], lambda *place: self._shrink(hosts, *place))
        for position in self.runner._outputs:
            output = hosts[position]
            for item in output if isinstance(output, list) else (output,):
                if isinstance(item, _HostTensor):
                    item.commit()

    def _host_values(self) -> list[Any]:
        operator = self._operator
        return [_host(operator, p.name, value, p.direction) for p, value in zip(operator.parameters, self._values)]

    def _changes_between_runs(self) -> bool:
        """True where a tensor is read or written through a copy, or gets its shape from the data."""
        tensors = [item for host in self._hosts for item in (host if isinstance(host, list) else (host,))]
        return self._operator.data_dependent or any(
            item.decoded or (self._channels_first and item.channels_last)
            for item in tensors
            if isinstance(item, _HostTensor)
        )

    def _shrink(self, hosts: Sequence[Any], position: int, item: int, shape: tuple[int, ...]) -> Any:
        """An output whose shape depends on data takes the front of its allocation, as aclGetViewShape reports."""
        output = hosts[position][item] if isinstance(hosts[position], list) else hosts[position]
        tensor, whole = output.tensor, output.array
        fits = math.prod(shape) <= whole.size and whole.flags.c_contiguous and not output.decoded
        if not self._operator.data_dependent or not fits:
            raise DataError(self._operator.parameters[position].name, f"has shape {whole.shape}; it must be {shape}")
        output.array = whole.reshape(-1)[: math.prod(shape)].reshape(shape)
        tensor.set_shape(shape)
        tensor.handle = None
        assert isinstance(tensor.storage, HostStorage)
        if tensor.storage.array is not None:
            tensor.storage.array = output.array
        return output.array


class _HostTensor:
    """A tensor's elements as an ndarray: over its own memory, or decoded (packed and blocked storage) and encoded again.

    What is decoded is read when the array is first asked for: the call runs then, perhaps long after it was bound.
    """

    __slots__ = ("_array", "_operator", "_parameter", "decoded", "tensor")

    def __init__(self, operator: Operator, parameter: str, tensor: Tensor, direction: str) -> None:
        self.tensor = tensor
        self._operator, self._parameter = operator, parameter
        self.decoded = tensor.storage.array is None and (tensor.dtype.packed or tensor.format.private)
        self._array: Optional[npt.NDArray[Any]] = None
        if not self.decoded:
            self._array = self._readable(host_view)
        elif direction == "out":
            self._array = np.empty(tensor.shape, tensor.dtype.numpy)

    @property
    def array(self) -> npt.NDArray[Any]:
        if self._array is None:
            with _on_device(self.tensor):
                self._array = self._readable(Tensor.numpy)
        return self._array

    @array.setter
    def array(self, array: npt.NDArray[Any]) -> None:
        self._array = array

    def _readable(self, read: Callable[[Tensor], npt.NDArray[Any]]) -> npt.NDArray[Any]:
        """The elements; UnsupportedOperator where the host cannot read them."""
        try:
            return read(self.tensor)
        except (TypeError, ValueError) as error:
            text = f"{self._parameter}: the NumPy backend cannot use it: {error}"
            raise UnsupportedOperator(self._operator.name, text) from None

    @property
    def channels_last(self) -> bool:
        return self.tensor.format in (Format.NHWC, Format.NDHWC)

    def commit(self) -> None:
        if self.decoded:
            with _on_device(self.tensor):
                self.tensor.assign(self.array)


def _on_device(tensor: Tensor) -> AbstractContextManager[None]:
    """A block whose copies are the operator's own, which a capture does not refuse."""
    storage = tensor.storage
    assert isinstance(storage, HostStorage)
    return storage.backend.graphs.on_device()


def _host(operator: Operator, name: str, value: Any, direction: str) -> Any:
    """One value as a reference takes it, tensors still with what is needed to write them."""
    if value is None:
        return None
    if isinstance(value, Tensor):
        return _HostTensor(operator, name, value, direction)
    if isinstance(value, Scalar):
        return value.value
    if isinstance(value, list):
        return [_host(operator, name, item, direction) for item in value]
    return value


def _move_channels_first(arguments: Sequence[Any]) -> None:
    """Views with the channels in axis 1 of tensors that have them last."""
    for item in arguments:
        if isinstance(item, _HostTensor) and item.channels_last:
            item.array = np.moveaxis(item.array, -1, 1)


def _arrays(argument: Any) -> Any:
    if isinstance(argument, list):
        return [_arrays(item) for item in argument]
    return argument.array if isinstance(argument, _HostTensor) else argument


def _separate(value: Any, written: Sequence[Any]) -> Any:
    """An input that no destination overlaps: the input itself, or a copy."""
    if isinstance(value, list):
        return [_separate(item, written) for item in value]
    if isinstance(value, np.ndarray):
        for target in written:
            for array in target if isinstance(target, list) else (target,):
                if array is not None and np.may_share_memory(value, array):
                    return value.copy()
    return value


def _widened(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return numerics.widen(value)
    return [_widened(item) for item in value] if isinstance(value, list) else value


def _shapes(operator: Operator, arguments: Sequence[Any]) -> str:
    """The shapes of the tensor arguments, for a message: "x (2, 3), gamma (3,)"."""
    words = []
    for parameter, value in zip(operator.parameters, arguments):
        arrays = [item for item in (value if isinstance(value, list) else [value]) if isinstance(item, np.ndarray)]
        if arrays:
            words.append(f"{parameter.python_name} {', '.join(str(array.shape) for array in arrays)}")
    return "; ".join(words)
