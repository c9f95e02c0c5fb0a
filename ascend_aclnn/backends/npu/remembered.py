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
from collections.abc import Sequence
from typing import Any, Callable, Optional

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


class _Arguments:
    """The C arguments of a call. They are used by one thread at a time, and destroyed once."""

    __slots__ = ("addresses", "runtime", "tensors", "undo", "values")

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.values: list[Any] = []  # one for each C parameter
        self.tensors: list[int] = []  # the aclTensors among them
        self.addresses: list[int] = []  # that these have
        self.undo: list[Undo] = []

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
        self._always_launch = bool(plan.again) or plan.communicates  # what phase two alone would not do
        self._constants = [None if value.__class__ is Tensor else value for value in values]
        tensors = [position for position, value in enumerate(values) if value.__class__ is Tensor]
        inputs = [position for position in tensors if sources[position] >= 0]
        outputs = [position for position in tensors if sources[position] < 0]
        self._positions = inputs + outputs
        self._inputs = [(sources[position], position in plan.changed) for position in inputs]
        self._outputs = [(spec, spec.storage_nbytes) for spec in (_spec(values[position]) for position in outputs)]
        self._descriptions = [handles.description(values[position]) for position in self._positions]
        self._set_address = handles.set_address
        self._initialize = None if plan.keeps_arguments else handles.initialize
        # of each result: the index of its item, or -1 less its place among the new outputs; None for a null pointer
        self._results = [
            None if values[p] is None else sources[p] if sources[p] >= 0 else -1 - outputs.index(p) for p in results
        ]
        self._unused: list[_Arguments] = []

    def run(
        self, items: Sequence[Any], stream: Optional[Stream], allocate: Optional[Callable[[TensorSpec], Tensor]] = None
    ) -> list[Any]:
        session = self._session
        target = session.target(stream)
        try:
            arguments = self._unused.pop()
        except IndexError:
            arguments = self._make_arguments()
        try:
            outputs = self._launch(arguments, items, target, allocate)
        except BaseException:
            arguments.close()
            raise
        self._unused.append(arguments)
        return [None if at is None else items[at] if at >= 0 else outputs[-1 - at] for at in self._results]

    def _make_arguments(self) -> _Arguments:
        plan, handles, constants = self._plan, self._session.handles, self._constants
        arguments = _Arguments(self._session.runtime)
        arguments.values = list(constants)
        for position, kind in plan.pointers:
            if constants[position] is not None:
                arguments.values[position] = plan.host_pointer(kind, constants[position], handles, arguments.undo)
        for position, description in zip(self._positions, self._descriptions):
            tensor = arguments.values[position] = handles.described(description, 0, arguments.undo)
            arguments.tensors.append(tensor)
        arguments.addresses = [0] * len(arguments.tensors)
        return arguments

    def _launch(
        self,
        arguments: _Arguments,
        items: Sequence[Any],
        target: StreamState,
        allocate: Optional[Callable[[TensorSpec], Tensor]],
    ) -> list[Tensor]:
        """Both phases; the outputs that were made for them."""
        session, plan = self._session, self._plan
        runtime = session.runtime
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
            if allocate is None:
                storage = NpuStorage(session.backend, runtime, target.device.index, nbytes)
                outputs.append(Tensor.on(storage, spec))
            else:
                outputs.append(allocate(spec))
                storage = outputs[-1].storage
            if storage.home is not target:
                storage.use(target)
            addresses.append(storage.base)
            written.append(storage)
        if self._initialize is not None:
            for tensor, description, address in zip(arguments.tensors, self._descriptions, addresses):
                status = self._initialize(tensor, *description.arguments, address)
                if status:
                    raise runtime.error("aclInitTensor", status, plan.name)
        if addresses != arguments.addresses:
            self._readdress(arguments, addresses)
        cells = runtime.cells
        status = plan.phase_one(*arguments.values, cells.workspace_size_at, cells.executor_at)
        if status:
            raise phase_one_error(session, plan, status, self._values(items, outputs))
        for storage in written:
            storage.writer = target
        size, executor = cells.workspace_size.value, cells.executor.value or 0
        if size or self._always_launch or runtime.blocking:
            launch(session, plan, executor, size, arguments.values, target, False)
            return outputs
        status = plan.phase_two(None, 0, executor, target.handle)
        if status:
            raise runtime.error(plan.name, status, plan.name)
        target.launched.append(plan.name)
        return outputs

    def _readdress(self, arguments: _Arguments, addresses: list[int]) -> None:
        """Gives the aclTensors the addresses of this call, where they have others. aclInitTensor ignores null."""
        for tensor, address, before in zip(arguments.tensors, addresses, arguments.addresses):
            if address != before and (address == 0 or self._initialize is None):
                status = self._set_address(tensor, address)
                if status:
                    raise self._session.runtime.error("aclSetRawTensorAddr", status, self._plan.name)
        arguments.addresses = addresses

    def _values(self, items: Sequence[Any], outputs: Sequence[Tensor]) -> list[Any]:
        """One value for each C parameter, for the text of an error."""
        values = list(self._constants)
        tensors = [items[index] for index, _ in self._inputs] + list(outputs)
        for position, tensor in zip(self._positions, tensors):
            values[position] = tensor
        return values

    def release(self) -> None:
        """Destroys what no thread uses now."""
        while self._unused:
            with contextlib.suppress(IndexError):  # another thread was faster
                self._unused.pop().close()


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
