"""Calls made again: what differs from the call before are addresses, so that only they and the two phases are left to do.

A remembered call has aclTensors of its own, one for each tensor argument, and gives them the addresses of the tensors that
come this time. CANN allows that between phase two of one call and phase one of the next. Phase one runs each time, so
CANN itself sees settings that have changed; its own cache of executors makes that cheap.

Operators whose source is known to leave descriptions alone get a new address where it differs from the one before
(aclSetRawTensorAddr). For others the whole description is written again (aclInitTensor). Those that are known to change
descriptions are not remembered.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Sequence
from typing import Any, Optional, Union

from ascend_aclnn import native
from ascend_aclnn.backends.interface import RememberedCall
from ascend_aclnn.backends.npu import handles as native_handles
from ascend_aclnn.backends.npu.executor import LaunchPlan, launch, phase_one_error
from ascend_aclnn.backends.npu.handles import Undo
from ascend_aclnn.backends.npu.memory import NpuStorage
from ascend_aclnn.backends.npu.runtime import Runtime, StreamState
from ascend_aclnn.backends.npu.session import Session
from ascend_aclnn.catalog import Kind
from ascend_aclnn.core.spec import TensorSpec
from ascend_aclnn.core.streams import Stream
from ascend_aclnn.core.tensor import Tensor
from ascend_aclnn.native.calls import (
    LAUNCHED,
    NO_ADDRESS,
    NO_EXECUTOR,
    NOT_INITIALIZED,
    NOT_LAUNCHED,
    PREPARED,
    NativeCall,
    can_call,
)


class _PythonCall:
    """NativeCall without the compiled helper: the same native calls in the same order."""

    __slots__ = (
        "_addresses",
        "_arguments",
        "_descriptions",
        "_executor",
        "_functions",
        "_tensors",
        "_workspace_size",
        "status",
    )

    def __init__(
        self,
        initialize: Optional[Any],
        set_address: Any,
        phase_one: Any,
        phase_two: Any,
        values: Sequence[Any],
        tensors: Sequence[int],
        descriptions: Sequence[tuple[int, ...]],
    ) -> None:
        self._functions = initialize, set_address, phase_one, phase_two
        self._tensors, self._descriptions = tensors, descriptions
        self._addresses: Sequence[int] = [0] * len(tensors)
        self._workspace_size, self._executor = ctypes.c_uint64(), ctypes.c_void_p()
        self._arguments = (*values, ctypes.addressof(self._workspace_size), ctypes.addressof(self._executor))
        self.status = 0

    def call(self, addresses: Sequence[int], stream: int, at_once: bool) -> int:
        initialize, set_address, phase_one, phase_two = self._functions
        if initialize is not None:
            for tensor, description, address in zip(self._tensors, self._descriptions, addresses):
                self.status = initialize(tensor, *description, address)
                if self.status:
                    return NOT_INITIALIZED
        if addresses != self._addresses:
            for tensor, address, before in zip(self._tensors, addresses, self._addresses):
                # aclInitTensor ignores null
                if address != before and (address == 0 or initialize is None):
                    self.status = set_address(tensor, address)
                    if self.status:
                        return NO_ADDRESS
            self._addresses = addresses
        self.status = phase_one(*self._arguments)
        if self.status:
            return NO_EXECUTOR
        if self._workspace_size.value or not at_once:
            return PREPARED
        self.status = phase_two(None, 0, self._executor.value, stream)
        return NOT_LAUNCHED if self.status else LAUNCHED

    @property
    def workspace_size(self) -> int:
        return self._workspace_size.value

    @property
    def executor(self) -> int:
        return self._executor.value or 0


class _Arguments:
    """The C arguments of a call. They are used by one thread at a time, and destroyed once."""

    __slots__ = ("call", "runtime", "undo", "values")

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.values: list[Any] = []  # one for each C parameter
        self.undo: list[Undo] = []
        self.call: Union[NativeCall, _PythonCall]

    def close(self) -> None:
        if self.runtime.usable():
            native_handles.destroy(self.undo)

    def __del__(self) -> None:
        self.close()


class NpuRememberedCall(RememberedCall):
    """See ``backends.interface.Backend.remember``. Any thread may run it at any time."""

    def __init__(
        self, session: Session, plan: LaunchPlan, values: Sequence[Any], sources: Sequence[int], results: Sequence[int]
    ) -> None:
        handles = session.handles
        self._session = session
        self._plan = plan
        self._at_once = not (plan.again or plan.communicates)  # phase two is all that follows phase one
        self._constants = [None if value.__class__ is Tensor else value for value in values]
        tensors = [position for position, value in enumerate(values) if value.__class__ is Tensor]
        inputs = [position for position in tensors if sources[position] >= 0]
        outputs = [position for position in tensors if sources[position] < 0]
        self._positions = inputs + outputs
        self._specs = [_spec(values[position]) for position in self._positions]
        self._inputs = [(sources[position], position in plan.changed) for position in inputs]
        self._outputs = [(spec, spec.storage_nbytes) for spec in self._specs[len(inputs) :]]
        self._descriptions = [handles.description(values[position]) for position in self._positions]
        self._helper = native.call_function() if can_call(plan.phase_one) else None
        self._unused: list[_Arguments] = []
        self.inputs = [index for index, _ in self._inputs]
        self.outputs = self._specs[len(inputs) :]
        self.results = [
            None if values[p] is None else sources[p] if sources[p] >= 0 else -1 - outputs.index(p) for p in results
        ]
        self._only_new = self.results == [-1 - n for n in range(len(outputs))]

    def run(self, items: Sequence[Any], stream: Optional[Stream]) -> list[Any]:
        session = self._session
        backend, runtime, target = session.backend, session.runtime, session.target(stream)
        addresses: list[int] = []
        written: list[Any] = []
        storage: Any  # a NpuStorage
        for index, changed in self._inputs:
            storage = items[index].storage
            if storage.home is not target:
                storage.use(target)
            addresses.append(storage.base)
            if changed:
                written.append(storage)
        outputs: list[Tensor] = []
        for spec, nbytes in self._outputs:
            storage = NpuStorage(backend, runtime, target.device.index, nbytes)
            storage.use(target)
            outputs.append(Tensor.on(storage, spec))
            addresses.append(storage.base)
            written.append(storage)
        self._launch(addresses, target, written)
        if self._only_new:
            return outputs
        return [None if at is None else items[at] if at >= 0 else outputs[-1 - at] for at in self.results]

    def run_at(self, addresses: Sequence[int], stream: Stream) -> bool:
        state = self._session.device()
        if state.index != stream.device:
            return False
        handle = stream.handle
        self._launch(addresses, state.streams.get(handle) or self._session.runtime.stream(state.index, handle), ())
        return True

    def _launch(self, addresses: Sequence[int], target: StreamState, written: Sequence[NpuStorage]) -> None:
        """Both phases."""
        try:
            arguments = self._unused.pop()
        except IndexError:
            arguments = self._make_arguments()
        runtime, call = self._session.runtime, arguments.call
        try:
            done = call.call(addresses, target.handle, self._at_once and not runtime.blocking)
            if done != LAUNCHED and done != PREPARED:
                self._fail(done, call.status, written, target)
            for storage in written:
                storage.writer = target
            if done == LAUNCHED:
                target.launched.append(self._plan.name)
            else:
                launch(self._session, self._plan, call.executor, call.workspace_size, arguments.values, target, False)
        except BaseException:
            arguments.close()
            raise
        self._unused.append(arguments)

    def _fail(self, done: int, status: int, written: Sequence[NpuStorage], target: StreamState) -> None:
        session, plan = self._session, self._plan
        if done == NO_EXECUTOR:
            values = list(self._constants)
            for position, spec in zip(self._positions, self._specs):
                values[position] = spec
            raise phase_one_error(session, plan, status, values)
        if done == NOT_LAUNCHED:
            for storage in written:
                storage.writer = target
        raise session.runtime.error(_FAILED[done] or plan.name, status, plan.name)

    def _make_arguments(self) -> _Arguments:
        plan, handles, constants = self._plan, self._session.handles, self._constants
        arguments = _Arguments(self._session.runtime)
        arguments.values = list(constants)
        for position, kind in plan.pointers:
            if constants[position] is not None:
                arguments.values[position] = plan.host_pointer(kind, constants[position], handles, arguments.undo)
        tensors = []
        for position, description in zip(self._positions, self._descriptions):
            tensor = arguments.values[position] = handles.described(description, 0, arguments.undo)
            tensors.append(tensor)
        initialize = None if plan.keeps_arguments else handles.initialize
        functions = (initialize, handles.set_address, plan.phase_one, plan.phase_two)
        descriptions = [description.arguments for description in self._descriptions]
        if self._helper is None:
            arguments.call = _PythonCall(*functions, arguments.values, tensors, descriptions)
        else:
            arguments.call = NativeCall(self._helper, *functions, arguments.values, tensors, descriptions)
        return arguments

    def release(self) -> None:
        """Destroys what no thread uses now."""
        while self._unused:
            with contextlib.suppress(IndexError):  # another thread was faster
                self._unused.pop().close()


# The function that failed, by what was done; "": phase two, which has the operator's name.
_FAILED = {NOT_INITIALIZED: "aclInitTensor", NO_ADDRESS: "aclSetRawTensorAddr", NO_EXECUTOR: "", NOT_LAUNCHED: ""}


def can_be_remembered(plan: LaunchPlan, values: Sequence[Any]) -> bool:
    """Whether addresses are all that a further call with arguments of the same descriptions has to tell CANN."""
    if plan.rewrites_arguments or plan.shaped:
        return False
    # aclInitTensor leaves the shape of a tensor without dimensions as it is
    again = not plan.keeps_arguments
    return not any(
        (kind is Kind.TENSOR_LIST and value is not None) or (again and value.__class__ is Tensor and not value.shape)
        for value, kind in zip(values, plan.kinds)
    )


def _spec(tensor: Tensor) -> TensorSpec:
    spec = TensorSpec(tensor.shape, tensor.dtype, tensor.strides, tensor.offset, tensor._format, tensor._storage_shape)
    spec._description = tensor.description
    return spec
