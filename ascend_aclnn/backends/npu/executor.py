"""Calling an operator: arguments, phase one, workspace, phase two, and what must stay alive meanwhile.

Phase one makes an executor from the handles. A plain executor is gone after phase two, whatever that returns; a
repeatable one stays until it is destroyed, and reads the addresses of the very handles it was made with. Handles may go
when phase two has returned; memory must stay until the stream has passed, which the storages see to (memory.py).
"""

from __future__ import annotations

import ctypes
import os
import threading
import weakref
from collections.abc import Iterable, Sequence
from typing import Any, Optional

from ascend_aclnn import rules
from ascend_aclnn.backends.interface import PreparedCall, operands
from ascend_aclnn.backends.npu import handles as native_handles
from ascend_aclnn.backends.npu.handles import Handles, Undo
from ascend_aclnn.backends.npu.library import Libraries
from ascend_aclnn.backends.npu.memory import NpuStorage, block_size
from ascend_aclnn.backends.npu.runtime import DeviceState, StreamState
from ascend_aclnn.backends.npu.session import Session
from ascend_aclnn.backends.npu.versions import warn_of_deprecated
from ascend_aclnn.catalog import Kind, Operator
from ascend_aclnn.core.errors import INNER_ERROR, AclError
from ascend_aclnn.core.socs import soc
from ascend_aclnn.core.streams import Stream, entered_streams
from ascend_aclnn.core.tensor import Tensor

_NO_KERNELS = frozenset({148049, 561107, 561112})  # the operator package was not found
_PLAIN = frozenset(kind for kind in Kind if not kind.pointer)
_ARRAYS = frozenset({Kind.INT_ARRAY, Kind.FLOAT_ARRAY, Kind.BOOL_ARRAY})


class LaunchPlan:
    """What is the same in all calls of one operator, worked out once."""

    __slots__ = (
        "again",
        "changed",
        "communicates",
        "keeps_arguments",
        "kinds",
        "memory",
        "name",
        "operator",
        "phase_one",
        "phase_two",
        "pointers",
        "rewrites_arguments",
        "shaped",
        "tensors",
    )

    def __init__(self, operator: Operator, libraries: Libraries) -> None:
        self.operator = operator
        self.name = operator.name
        self.phase_one, self.phase_two, _ = libraries.operator(operator)
        kinds = [p.kind for p in operator.parameters]
        self.kinds = tuple(kinds)
        self.tensors = tuple(kind is Kind.TENSOR for kind in kinds)
        # the other arguments that are more than passed on
        self.pointers = tuple((i, k) for i, k in enumerate(kinds) if k is not Kind.TENSOR and k not in _PLAIN)
        memory = [i for i, kind in enumerate(kinds) if kind in (Kind.TENSOR, Kind.TENSOR_LIST)]
        self.memory = tuple(memory)
        self.changed = tuple(i for i in memory if operator.parameters[i].direction != "in")
        self.keeps_arguments = operator.keeps_arguments  # so the aclTensors that Tensors keep may be passed
        self.rewrites_arguments = operator.rewrites_arguments
        # outputs whose aclTensor the caller asks for the shape afterwards
        self.shaped = frozenset(self.changed) if operator.data_dependent else frozenset[int]()
        self.communicates = bool(
            operator.groups
        )  # HCCL makes resources for the stream, which must not be the null handle
        self.again = tuple(operator.positions[name] for _, name in operator.phase_two)

    def arguments(
        self, values: Sequence[Any], stream: StreamState, handles: Handles, undo: list[Undo], fresh_handles: bool
    ) -> list[Any]:
        """The C arguments of phase one less its two results.

        Operators that change the description of their arguments get fresh aclTensors, and so does every call with
        ``fresh_handles``: an aclTensor that a Tensor keeps must not describe anything else.
        """
        fresh = fresh_handles or not self.keeps_arguments
        if len(values) != len(self.tensors):
            raise TypeError(f"{self.name} takes {len(self.tensors)} arguments, {len(values)} were given")
        arguments = list(values)
        for position, is_tensor in enumerate(self.tensors):
            if is_tensor:
                tensor = values[position]
                if tensor is None:
                    continue
                storage = tensor.storage
                if storage.home is not stream:
                    storage.use(stream)
                handle = tensor.handle
                if position in self.shaped and not fresh_handles:
                    tensor.handle = None
                    arguments[position] = handles.shared(tensor, undo)
                elif fresh:
                    arguments[position] = handles.tensor(tensor, undo)
                elif handle is not None and handle.format is tensor._format:
                    arguments[position] = handle.pointer
                else:
                    arguments[position] = handles.shared(tensor, undo)
        for position, kind in self.pointers:
            value = values[position]
            if value is not None:
                arguments[position] = self._pointer(kind, value, stream, handles, undo)
        return arguments

    def _pointer(self, kind: Kind, value: Any, stream: StreamState, handles: Handles, undo: list[Undo]) -> Any:
        if kind is not Kind.TENSOR_LIST:
            return self.host_pointer(kind, value, handles, undo)
        for storage in _storages([value]):
            if storage.home is not stream:
                storage.use(stream)
        return handles.tensor_list(value, undo)

    def host_pointer(self, kind: Kind, value: Any, handles: Handles, undo: list[Undo]) -> Any:
        """The C argument for a value that is no tensor and is not passed as it is."""
        if kind in _ARRAYS:
            return handles.array(kind, value, undo)
        if kind is Kind.SCALAR:
            return handles.scalar(value, undo)
        if kind is Kind.STRING:
            return value.encode()
        return handles.scalar_list(value, undo)

    def written(self, values: Sequence[Any]) -> list[NpuStorage]:
        """The storages that the operator changes."""
        return _storages(values[position] for position in self.changed)

    def storages(self, values: Sequence[Any]) -> list[NpuStorage]:
        """The storages that the operator reads or changes."""
        return _storages(values[position] for position in self.memory)


def _storages(values: Iterable[Any]) -> list[NpuStorage]:
    storages: list[NpuStorage] = []
    for value in values:
        if isinstance(value, (list, tuple)):
            storages += [tensor.storage for tensor in value if tensor is not None]
        elif value is not None:
            storages.append(value.storage)
    return storages


def phase_one(session: Session, plan: LaunchPlan, values: Sequence[Any], arguments: list[Any]) -> tuple[int, int]:
    """Workspace size and executor; AclError with CANN's status."""
    cells = session.runtime.cells
    status = plan.phase_one(*arguments, cells.workspace_size_at, cells.executor_at)
    if status:
        raise phase_one_error(session, plan, status, values)
    return cells.workspace_size.value, cells.executor.value or 0


def phase_one_error(session: Session, plan: LaunchPlan, status: int, values: Sequence[Any]) -> AclError:
    """Names the argument and says what is allowed, where the operator's rules come to the same status as CANN."""
    text = session.runtime.recent_error()
    argument = rule = None
    try:
        violation = rules.check(plan.operator, values, soc(session.runtime.soc))
    except Exception as error:  # the explanation must not stand in the way of what it explains
        text += f"\n  (the rules of {plan.name} cannot tell the argument: {error!r})"
        violation = None
    if status in _NO_KERNELS:
        opp = os.environ.get("ASCEND_OPP_PATH")
        place = f"is {opp}" if opp else "is not set"
        text += f"\n  operators look for their kernels in ASCEND_OPP_PATH, which {place}"
    if violation is not None and violation.status == status:
        position = plan.operator.positions.get(violation.argument or "")
        argument = None if position is None else plan.operator.parameters[position].python_name
        rule = rules.identifier(plan.operator, violation)
        adds_nothing = violation.detail in text or not text  # the emulated device answers by the same rules
        text = violation.detail if adds_nothing else f"{violation.detail}\n  CANN: {text}"
    return AclError(status, plan.operator.phase_one, text, operator=plan.name, argument=argument, rule=rule)


def launch(
    session: Session,
    plan: LaunchPlan,
    executor: int,
    size: int,
    arguments: Sequence[Any],
    stream: StreamState,
    keep: bool,
) -> None:
    """Phase two on a stream, whose device is current. Without ``keep`` the executor is gone afterwards in any case."""
    if plan.communicates and not stream.handle:
        try:
            created = session.runtime.created(stream)
        except BaseException:
            if not keep:
                session.destroy_executor(executor)
            raise
        try:
            launch(session, plan, executor, size, arguments, created, keep)
        finally:
            session.runtime.queue_after(created, stream)
        return
    again = [arguments[i] for i in plan.again] if plan.again else ()
    if size:
        with stream.lock:  # no other thread may exchange the workspace between here and the launch
            try:
                address = workspace(stream, size)
            except BaseException:
                if not keep:
                    session.destroy_executor(executor)
                raise
            status = plan.phase_two(address, size, executor, *again, stream.handle)
    else:
        status = plan.phase_two(None, 0, executor, *again, stream.handle)
    runtime = session.runtime
    if status:
        captured = stream.graph is not None  # then the text says what is wrong, and the device is well
        raise AclError(status, plan.name, runtime.recent_error(), operator=plan.name, explained=captured)
    stream.launched.append(plan.name)
    if (
        runtime.blocking and stream.graph is None and not runtime.captured_elsewhere(stream)
    ):  # so that a fault of the device carries the operator's name
        outcome = runtime.await_stream(stream)
        stream.launched.clear()
        if outcome is not None and outcome.status:
            text = outcome.text or runtime.recent_error()
            raise AclError(outcome.status, "aclrtSynchronizeStream", text, operator=plan.name)


def workspace(stream: StreamState, size: int) -> int:
    """Address of the stream's workspace, grown where it is too small. The stream's lock is held.

    One is enough: what runs on a stream runs one after another. A smaller one goes back to the stream's memory, where
    only later work of the same stream can get it.
    """
    pool = stream.device.pool
    model = pool.runtime.captured_elsewhere(stream)
    if model:
        workspace = pool.workspaces.get((model, stream.handle))
        if workspace is None or workspace.size < block_size(size):
            workspace = pool.workspaces[model, stream.handle] = pool.allocate(size, stream)
        return int(workspace.address)
    block = stream.workspace
    if block is None or block.size < block_size(size):
        larger = stream.device.pool.allocate(size, stream)
        stream.workspace = larger
        if block is not None:
            stream.device.pool.free(block)
        block = larger
    address: int = block.address
    return address


def run(session: Session, plan: LaunchPlan, values: Sequence[Any], stream: StreamState) -> None:
    """Both phases, once. The stream's device is current."""
    undo: list[Undo] = []
    try:
        arguments = plan.arguments(values, stream, session.handles, undo, False)
        size, executor = phase_one(session, plan, values, arguments)
        for position in plan.changed:
            value = values[position]
            if value.__class__ is Tensor:
                value.storage.writer = stream  # type: ignore[attr-defined]  # tensors of this backend have an NpuStorage
            else:
                for storage in _storages([value]):
                    storage.writer = stream
        launch(session, plan, executor, size, arguments, stream, False)
        if stream.graph is not None:
            stream.graph.add("operator", plan.name, stream, *operands(plan.operator, values))
    finally:
        if undo:
            native_handles.destroy(undo)


class _OneShots:
    """The executors of a thread that run once. They point into a cache of libnnopbase that ends with the thread."""

    def __init__(self) -> None:
        self.calls: weakref.WeakSet[NpuPreparedCall] = weakref.WeakSet()

    def __del__(self) -> None:
        # Runs when the thread ends, before C's own thread-local data goes.
        for call in list(self.calls):
            call.discard()


class _ThreadData(threading.local):
    def __init__(self) -> None:
        self.one_shots = _OneShots()


_thread = _ThreadData()


class NpuPreparedCall(PreparedCall):
    """An executor with its handles and tensors. It is used by one thread at a time.

    ``repeatable`` tells whether CANN keeps it; where that was asked for and refused, each ``run`` repeats phase one. So does
    an executor that runs once on another thread than the one that made it, or after that thread's end.
    """

    def __init__(
        self, session: Session, plan: LaunchPlan, values: Sequence[Any], repeatable: bool, stream: StreamState
    ) -> None:
        self.workspace_size = 0
        self.repeatable = False
        self._session = session
        self._plan = plan
        self._values = list(values)
        self._device: DeviceState = stream.device
        self._cell = ctypes.c_int32()
        self._cell_at = ctypes.addressof(self._cell)
        self._undo: list[Undo] = []
        self._arguments: list[Any] = []
        self._executor = 0
        self._often = repeatable
        self._spent = ""
        self._maker = threading.get_ident()
        self._noted = stream  # the stream that all storages know of
        try:
            self._phase_one(stream)
        except BaseException:
            self.close()
            raise
        self._written = plan.written(self._values)
        # nothing to be done in phase two but the call
        special = self.workspace_size or plan.again or plan.communicates or session.runtime.blocking
        self._plain = self.repeatable and not special

    def _phase_one(self, stream: StreamState) -> None:
        session, plan = self._session, self._plan
        fresh_handles = self._often or bool(plan.shaped)
        self._arguments = plan.arguments(self._values, stream, session.handles, self._undo, fresh_handles)
        if not self._often:
            self.workspace_size, self._executor = phase_one(session, plan, self._values, self._arguments)
            _thread.one_shots.calls.add(self)
            return
        self.repeatable = self._make_repeatable()
        if not self.repeatable:  # perhaps it came from CANN's cache, which does not give its executors away
            with session.without_executor_cache():
                self.repeatable = self._make_repeatable()
        if not self.repeatable:
            native_handles.destroy(self._undo)

    def _make_repeatable(self) -> bool:
        """Phase one of an executor that is to be kept, directly followed by asking CANN to keep it; False if it refuses.

        A refused executor goes back at once: one of a generated operator would no longer go by itself after its run.
        """
        session = self._session
        self.workspace_size, executor = phase_one(session, self._plan, self._values, self._arguments)
        status = session.set_repeatable(executor)
        if status == 0:
            self._executor = executor
            return True
        error = session.runtime.error("aclSetAclOpExecutorRepeatable", status, self._plan.name)
        session.destroy_executor(executor)
        if status != INNER_ERROR:
            raise error
        return False

    def discard(self) -> None:
        """Gives an executor that runs once back, at the end of its thread; ``run`` repeats phase one."""
        executor, self._executor = self._executor, 0
        if executor and self._session.runtime.usable():
            self._session.destroy_executor(executor)
            native_handles.destroy(self._undo)

    def run(self, stream: Optional[Stream] = None) -> None:
        executor = self._executor
        if not executor or (not self.repeatable and self._maker != threading.get_ident()):
            self._run_again(stream)
            return
        session, plan, device = self._session, self._plan, self._device
        runtime = session.runtime
        # what target() does in the common case, without the call
        common = stream is None and not runtime.closed and runtime.cells.has_context
        if (
            common
            and runtime.get_device(self._cell_at) == 0
            and self._cell.value == device.index
            and not entered_streams()
        ):
            target = device.default
        else:
            target = session.target(stream)
        if target is not self._noted:
            self._note(target)
        for storage in self._written:
            storage.writer = target
        if target.graph is not None:
            target.graph.add("operator", plan.name, target, *operands(plan.operator, self._values))
        if self._plain:
            status = plan.phase_two(None, 0, executor, target.handle)
            if status:
                raise runtime.error(plan.name, status, plan.name)
            target.launched.append(plan.name)
            return
        if self.repeatable:
            launch(session, plan, executor, self.workspace_size, self._arguments, target, True)
            return
        self._executor, self._spent = 0, "has run"
        try:
            launch(session, plan, executor, self.workspace_size, self._arguments, target, False)
        finally:
            native_handles.destroy(self._undo)

    def _note(self, stream: StreamState) -> None:
        """Tells every storage that work on another stream than before uses it."""
        if stream.device is not self._device:
            raise ValueError(
                f"{self._plan.name}: the executor was made on device {self._device.index}, "
                f"the stream is of device {stream.device.index}"
            )
        for storage in self._plan.storages(self._values):
            if storage.home is not stream:
                storage.use(stream)
        self._noted = stream

    def _run_again(self, stream: Optional[Stream]) -> None:
        """The executor is gone, or another thread's: repeats phase one if it may run still."""
        if self._spent and (not self._often or self._spent == "is closed"):
            raise RuntimeError(f"{self._plan.name}: the executor {self._spent}")
        self._spent = "has run"
        run(self._session, self._plan, self._values, self._session.target(stream))

    def replace(self, position: int, tensor: Tensor, member: Optional[int] = None) -> None:
        """Another tensor in place of a tensor argument (or of a member of a list) from the next run on.

        Only the memory may differ: CANN takes a new address, not a new description.
        """
        values, plan = self._values, self._plan
        before: Tensor = values[position] if member is None else values[position][member]
        if _description(before) != _description(tensor):
            raise ValueError(f"{plan.name}: {tensor!r} cannot take the place of {before!r}: only the memory may differ")
        storage: NpuStorage = tensor.storage  # type: ignore[assignment]  # a tensor of this backend
        storage.use(self._noted)
        if member is None:
            values[position] = tensor
        else:
            values[position] = [tensor if i == member else t for i, t in enumerate(values[position])]
        self._written = plan.written(values)
        if not self.repeatable:
            return
        if plan.operator.knows_tensor_indices:
            self._refresh(position, storage.address, member)
        else:
            self._session.destroy_executor(self._executor)
            self._executor, self.repeatable = 0, False
            native_handles.destroy(self._undo)
            self._phase_one(self._noted)

    def _refresh(self, position: int, address: int, member: Optional[int]) -> None:
        """Gives CANN a new address for the tensor with an index among the inputs or outputs.

        A list counts as many as it has members, and not at all where it is null. What is changed in place counts on both
        sides.
        """
        operator = self._plan.operator
        output = operator.parameters[position].direction == "out"
        side, other = ("Output", "in") if output else ("Input", "out")
        before = [
            len(value or ()) if p.kind is Kind.TENSOR_LIST else 1
            for p, value in zip(operator.parameters[:position], self._values)
            if (p.kind in (Kind.TENSOR, Kind.TENSOR_LIST) and p.direction != other)
            or (p.name in operator.slots and not output)
        ]
        index = (sum(before),) if member is None else (len(before), member)
        routine = f"aclSet{'' if member is None else 'Dynamic'}{side}TensorAddr"
        arguments = (self._executor, *index, self._arguments[position], address)
        runtime = self._session.runtime
        runtime.check(routine, runtime.libraries.function(routine)(*arguments), operator.name)

    def close(self) -> None:
        self._spent = "is closed"
        executor, self._executor = self._executor, 0
        if self._session.runtime.usable():
            if executor:
                self._session.destroy_executor(executor)
            native_handles.destroy(self._undo)

    def __del__(self) -> None:
        if self._executor or self._undo:
            self.close()


def _description(tensor: Tensor) -> tuple[Any, ...]:
    return tensor.shape, tensor.dtype, tensor.strides, tensor.offset, tensor.format, tensor.storage_shape


class Launcher:
    """Calls operators: what NpuBackend and the conversion of formats share."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._plans: dict[Operator, LaunchPlan] = {}
        self._prepared: weakref.WeakSet[NpuPreparedCall] = weakref.WeakSet()

    def plan(self, operator: Operator) -> LaunchPlan:
        plan = self._plans.get(operator)
        if plan is None:
            plan = self._plans[operator] = LaunchPlan(operator, self.session.libraries)
            warn_of_deprecated(operator, self.session.libraries)  # once, whatever a filter makes of it
        return plan

    def run(self, operator: Operator, values: Sequence[Any], stream: Optional[Stream]) -> None:
        plan = self._plans.get(operator) or self.plan(operator)
        run(self.session, plan, values, self.session.target(stream))

    def prepare(self, operator: Operator, values: Sequence[Any], repeatable: bool) -> NpuPreparedCall:
        session = self.session
        prepared = NpuPreparedCall(session, self.plan(operator), values, repeatable, session.target(None))
        self._prepared.add(prepared)
        return prepared

    def close(self) -> None:
        """At exit, before the aclTensors that Tensors still hold go."""
        for prepared in list(self._prepared):
            prepared.close()
