"""Communicators of the npu backend: libhccl by ctypes, stream-ordered.

HCCL refuses the null handle of the default stream: what is called on it runs on a created stream in its order.

The first collective of each kind makes links, in the call itself: it waits for the other ranks' calls as long as
HCCL_CONNECT_TIMEOUT. So ranks that are devices of one process need a thread each, which ``CollectiveBlock`` provides.

Communicators belong to the runtime: what is open at exit is destroyed after the devices were waited for, and before they
are reset. A finalizer, which runs on any thread, destroys none: it leaves a note.
"""

from __future__ import annotations

import ctypes
import functools
import threading
import warnings
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Optional

from ascend_aclnn.backends.interface import Collective, CommunicatorEndpoint
from ascend_aclnn.backends.npu import prototypes
from ascend_aclnn.backends.npu.runtime import STREAM_COMPLETE, DeviceState, StreamState
from ascend_aclnn.backends.npu.session import Session
from ascend_aclnn.core.dtypes import DataType
from ascend_aclnn.core.errors import AclError, LibraryNotFound
from ascend_aclnn.core.hccl import DEFAULT_CONFIG, ROOT_INFO_BYTES, CommunicatorConfig, hccl_type, match_items
from ascend_aclnn.core.interface import Storage
from ascend_aclnn.core.spec import TensorSpec
from ascend_aclnn.core.streams import Stream
from ascend_aclnn.core.tensor import Tensor

NAME_BYTES = 128

_CLOSED = "the communicator is closed"


class _SendRecvItem(ctypes.Structure):
    _fields_ = [
        ("kind", ctypes.c_int32),
        ("buffer", ctypes.c_void_p),
        ("count", ctypes.c_uint64),
        ("dtype", ctypes.c_int32),
        ("peer", ctypes.c_uint32),
    ]


class CollectiveBlock:
    """``with`` block whose collectives are called at its end: a device's in order, those of several devices at the same time."""

    def __init__(self) -> None:
        self._calls: dict[DeviceState, list[_QueuedCollective]] = {}
        self._outer: Optional[CollectiveBlock] = None

    def __enter__(self) -> None:
        self._outer = _open.group
        if self._outer is None:
            _open.group = self

    def __exit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        if self._outer is not None:
            return
        _open.group = None
        if kind is not None:
            return
        failures: list[BaseException] = []
        threads = [threading.Thread(target=_call_all, args=(calls, failures)) for calls in self._calls.values()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]

    def add(self, call: _QueuedCollective) -> None:
        calls = self._calls.setdefault(call.target.device, [])
        if (
            calls
            and call.items
            and calls[-1].items
            and calls[-1].owner is call.owner
            and calls[-1].target is call.target
        ):
            calls[-1].items.extend(call.items)  # sends and receives that may wait for each other
        else:
            calls.append(call)


class _QueuedCollective:
    """A collective, or sends and receives (items), of a communicator on a stream."""

    def __init__(
        self,
        owner: HcclCommunicator,
        target: StreamState,
        collective: Optional[Collective] = None,
        items: Sequence[tuple[bool, Tensor, int]] = (),
    ) -> None:
        self.owner, self.target, self.collective, self.items = owner, target, collective, list(items)

    def operands(self) -> tuple[list[Optional[Tensor]], list[Optional[Tensor]]]:
        """The tensors that it reads, and those that it writes."""
        if self.collective is not None:
            return [self.collective.send], [self.collective.receive]
        read, written = ([tensor for is_send, tensor, _ in self.items if is_send is side] for side in (True, False))
        return read, written  # type: ignore[return-value]  # of a list that may have None


class _Open(threading.local):
    group: Optional[CollectiveBlock] = None  # of this thread


_open = _Open()


def _call_all(calls: Sequence[_QueuedCollective], failures: list[BaseException]) -> None:
    try:
        for call in calls:
            with call.owner.runtime.on(call.target.device):
                call.owner.run(call)
    except BaseException as error:
        failures.append(error)


class Hccl:
    """libhccl and its functions; opened at first use."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._functions: dict[str, Any] = {}
        directory = Path(session.library_path).parent
        libraries = []
        for name in ("libhccl.so", "libhcomm.so"):  # newer CANN keeps the communicators' functions in the second
            for candidate in (str(directory / name), name):
                try:
                    libraries.append(ctypes.CDLL(candidate))
                    break
                except OSError as error:
                    reason = str(error)
        if not libraries:
            raise LibraryNotFound(f"libhccl.so cannot be loaded: {reason}\n  source <CANN>/set_env.sh")
        self._libraries = libraries
        self.communicators: set[HcclCommunicator] = set()  # that have not been destroyed
        session.runtime.at_exit.append(self._destroy_all)

    def _destroy_all(self) -> None:
        """At exit, after the devices have been waited for."""
        for communicator in list(self.communicators):
            communicator.close()

    def function(self, name: str) -> Any:
        function = self._functions.get(name)
        if function is None:
            function = next((f for f in (getattr(library, name, None) for library in self._libraries) if f), None)
            if function is None:
                raise LibraryNotFound(f"libhccl.so exports no {name}: this CANN is too old for it")
            prototype = prototypes.runtime_function(name)
            function.restype, function.argtypes = prototype.returns, prototype.parameters
            self._functions[name] = function
        return function

    def call(self, name: str, *arguments: Any, about: str = "") -> None:
        status = self.function(name)(*arguments)
        if status:
            text = self.error_text(status)
            recent = self.session.runtime.recent_error()
            detail = ": ".join(part for part in (about, text) if part)
            raise AclError(status, name, f"{detail}\n  {recent}" if recent else detail)

    def error_text(self, status: int) -> str:
        text = self.function("HcclGetErrorString")(status)
        return text.decode(errors="replace") if isinstance(text, bytes) else str(text)

    def root_info(self) -> bytes:
        info = ctypes.create_string_buffer(ROOT_INFO_BYTES)
        self.session.target(None)  # a device must be current
        self.call("HcclGetRootInfo", ctypes.addressof(info))
        return info.raw

    def join(self, info: bytes, rank: int, size: int, config: CommunicatorConfig) -> HcclCommunicator:
        if len(info) != ROOT_INFO_BYTES:
            raise ValueError(f"info has {len(info)} bytes; a root info has {ROOT_INFO_BYTES}")
        self.session.target(None)
        handle, root = ctypes.c_void_p(), ctypes.create_string_buffer(info, ROOT_INFO_BYTES)
        about, arguments = f"rank {rank} of {size}", (size, ctypes.addressof(root), rank)
        if config == DEFAULT_CONFIG:
            self.call("HcclCommInitRootInfo", *arguments, ctypes.addressof(handle), about=about)
        else:
            configuration = self._configuration(config)
            addresses = ctypes.addressof(configuration), ctypes.addressof(handle)
            self.call("HcclCommInitRootInfoConfig", *arguments, *addresses, about=about)
        return self._owned([handle], [rank])[0]

    def join_devices(self, devices: Sequence[int]) -> list[HcclCommunicator]:
        for device in devices:
            self.session.runtime.stream(device, 0)  # opens it
        self.session.target(None)
        numbers, handles = (ctypes.c_int32 * len(devices))(*devices), (ctypes.c_void_p * len(devices))()
        self.call("HcclCommInitAll", len(devices), ctypes.addressof(numbers), ctypes.addressof(handles))
        communicators = self._owned([ctypes.c_void_p(handle) for handle in handles], range(len(devices)), devices)
        for communicator in communicators:
            communicator.maker = threading.get_ident() if len(devices) > 1 else None
        return communicators

    def join_cluster(self, path: str, rank: int, config: CommunicatorConfig) -> HcclCommunicator:
        self.session.target(None)
        handle, about, arguments = ctypes.c_void_p(), f"rank {rank} of {path}", (path.encode(), rank)
        if config == DEFAULT_CONFIG:
            self.call("HcclCommInitClusterInfo", *arguments, ctypes.addressof(handle), about=about)
        else:
            configuration = self._configuration(config)
            addresses = ctypes.addressof(configuration), ctypes.addressof(handle)
            self.call("HcclCommInitClusterInfoConfig", *arguments, *addresses, about=about)
        return self._owned([handle], [rank])[0]

    def split(
        self, parent: HcclCommunicator, ranks: Sequence[int], number: int, config: CommunicatorConfig
    ) -> HcclCommunicator:
        part_handle, handle = ctypes.c_void_p(), ctypes.c_void_p(parent.handle.value)
        members, place = (ctypes.c_uint32 * len(ranks))(*ranks), list(ranks).index(parent.rank)
        configuration = self._configuration(config)  # HCCL wants one
        arguments = (ctypes.addressof(handle), len(ranks), ctypes.addressof(members), number, place)
        addresses = ctypes.addressof(configuration), ctypes.addressof(part_handle)
        self.call("HcclCreateSubCommConfig", *arguments, *addresses, about=f"rank {parent.rank} of {parent.size}")
        part = self._owned([part_handle], [place], [parent.device])[0]
        part.maker = parent.maker
        return part

    def _configuration(self, config: CommunicatorConfig) -> Any:
        """HcclCommConfig, which older HCCL reads as far as it knows it; ValueError for an item that it does not know."""
        missing = config.missing(self.function("HcclGetCommConfigCapability")())
        if missing is not None:
            raise ValueError(f"{missing} cannot be chosen: this CANN's HCCL does not have it yet")
        data = config.pack()
        return ctypes.create_string_buffer(data, len(data))

    def _owned(
        self, handles: Sequence[ctypes.c_void_p], ranks: Sequence[int], devices: Optional[Sequence[int]] = None
    ) -> list[HcclCommunicator]:
        """The communicators of handles, by default of the current device.

        Where one of them cannot be asked for its size and name, all are destroyed.
        """
        self.session.runtime.drain()
        places = [self.session.runtime.current().index] if devices is None else devices
        communicators = [HcclCommunicator(self, *each) for each in zip(handles, ranks, places)]
        try:
            for communicator in communicators:
                communicator.identify()
        except BaseException:
            for communicator in communicators:
                communicator.close()
            raise
        return communicators


class HcclCommunicator(CommunicatorEndpoint):
    """One HcclComm."""

    ends_with_backend = True

    def __init__(self, hccl: Hccl, handle: ctypes.c_void_p, rank: int, device: int) -> None:
        self.runtime = hccl.session.runtime
        self.device = device
        self.maker: Optional[int] = None  # the thread that has made the communicators of several devices
        self._hccl = hccl
        self._handle: Optional[ctypes.c_void_p] = handle
        self._window: Optional[tuple[ctypes.c_void_p, Storage]] = None  # HCCL's handle, and the memory
        self._streams: set[StreamState] = set()  # that it was used on
        self.rank = rank
        hccl.communicators.add(self)

    def identify(self) -> None:
        """Asks for the number of ranks and the name."""
        size, name = ctypes.c_uint32(), ctypes.create_string_buffer(NAME_BYTES)
        self._hccl.call("HcclGetRankSize", self.handle, ctypes.addressof(size))
        self._hccl.call("HcclGetCommName", self.handle, name)
        self.size, self.name = size.value, name.value.decode()

    def split(self, ranks: Sequence[int], number: int, config: CommunicatorConfig) -> HcclCommunicator:
        return self._hccl.split(self, ranks, number, config)

    def collective(self, call: Collective) -> None:
        self._queue(_QueuedCollective(self, self._hccl.session.target(call.stream), call))

    def exchange(self, items: Sequence[tuple[bool, Tensor, int]], stream: Optional[Stream]) -> None:
        self._queue(_QueuedCollective(self, self._hccl.session.target(stream), None, items))

    def _queue(self, call: _QueuedCollective) -> None:
        """Calls HCCL now, or at the end of this thread's group."""
        if self._handle is None:
            raise ValueError(_CLOSED)
        if self.runtime.clean_up_work:
            self.runtime.drain()
        if _open.group is not None:
            _open.group.add(call)
        elif self.maker == threading.get_ident():
            raise RuntimeError(
                f"rank {self.rank} of {self.size}: the ranks are devices of this process, and HCCL waits in a collective for "
                "the calls of all ranks, so that one thread cannot make one after the other: put them into "
                "with Communicator.group(): or call each rank's from a thread of its own"
            )
        else:
            self.run(call)

    def run(self, call: _QueuedCollective) -> None:
        """Calls HCCL. The device is current."""
        target = call.target
        stream = target if target.handle else self.runtime.created(target)
        try:
            self._streams.add(stream)
            if call.collective is None:
                self._exchange(call.items, target, stream)
            else:
                self._collective(call.collective, target, stream)
            if stream.graph is not None:
                stream.graph.add("collective", stream.launched[-1], stream, *call.operands())
        finally:
            if stream is not target:
                self.runtime.queue_after(stream, target)

    # Tensors are used on the stream of the caller, ``target``, whatever stream stands for it.
    def _collective(self, call: Collective, target: StreamState, stream: StreamState) -> None:
        comm = self.handle
        if call.operation == "barrier" or call.receive is None:
            self._launch(stream, "HcclBarrier", comm, stream.handle)
            return
        operation, send, receive = call.operation, call.send, call.receive
        reduction, root, end = call.reduction, call.root, (comm, stream.handle)
        to, dtype = self._address(receive, target, True), hccl_type(receive.dtype)
        source = None if send is None else self._address(send, target, False)
        launch = functools.partial(self._launch, stream)
        count = receive.size if send is None else send.size
        if operation == "all_reduce":
            launch("HcclAllReduce", source, to, count, dtype, reduction, *end)
        elif operation == "reduce":
            launch("HcclReduce", source, to, count, dtype, reduction, root, *end)
        elif operation == "broadcast":
            launch("HcclBroadcast", to, count, dtype, root, *end)
        elif operation == "scatter":
            launch("HcclScatter", source, to, receive.size, dtype, root, *end)
        elif operation == "reduce_scatter" and not call.send_counts:
            launch("HcclReduceScatter", source, to, receive.size, dtype, reduction, *end)
        elif operation == "reduce_scatter":
            counts, starts = _counts(call.send_counts)
            launch("HcclReduceScatterV", source, counts, starts, to, receive.size, dtype, reduction, *end)
        elif operation == "all_gather" and not call.receive_counts:
            launch("HcclAllGather", source, to, count, dtype, *end)
        elif operation == "all_gather":
            counts, starts = _counts(call.receive_counts)
            launch("HcclAllGatherV", source, count, to, counts, starts, dtype, *end)
        elif not call.send_counts:
            part = count // self.size
            launch("HcclAlltoAll", source, part, dtype, to, part, dtype, *end)
        else:
            sends, receives = _counts(call.send_counts), _counts(call.receive_counts)
            launch("HcclAlltoAllV", source, *sends, dtype, to, *receives, dtype, *end)

    def _exchange(self, items: Sequence[tuple[bool, Tensor, int]], target: StreamState, stream: StreamState) -> None:
        sends, receives = (
            [(tensor.size, tensor.dtype) for is_send, tensor, peer in items if peer == self.rank and is_send == side]
            for side in (True, False)
        )
        match_items(sends, receives, self.rank)  # HCCL ignores what is left
        rows = (_SendRecvItem * len(items))()
        for row, (is_send, tensor, peer) in zip(rows, items):
            address = self._address(tensor, target, not is_send)
            row.kind, row.buffer, row.count, row.peer = int(not is_send), address, tensor.size, peer
            row.dtype = hccl_type(tensor.dtype)
        self._launch(stream, "HcclBatchSendRecv", ctypes.addressof(rows), len(items), self.handle, stream.handle)

    def window(self, nbytes: int, peers: Sequence[int]) -> Tensor:
        session = self._hccl.session
        memory = session.allocate(nbytes, session.runtime.current().index)
        tensor = Tensor.on(memory, TensorSpec((nbytes,), DataType.INT8))
        tensor.assign(0)
        window, ranks = ctypes.c_void_p(), (ctypes.c_uint32 * len(peers))(*peers)
        self._call("HcclCommRegister", self.handle, tensor.data_ptr, nbytes, ctypes.addressof(window), 0)
        try:
            self._call("HcclCommExchangeMem", self.handle, window, ctypes.addressof(ranks), len(peers))
        except BaseException:
            self._hccl.function("HcclCommDeregister")(self.handle, window)
            raise
        self._window = window, memory  # peers may write there as long as the communicator lives
        return tensor

    def abort(self) -> None:
        self._call("HcclCommSuspend", self.handle)

    def resume(self) -> None:
        self._call("HcclCommResume", self.handle)
        self._drop_window(self.handle)

    def check(self) -> None:
        status = ctypes.c_int32()
        self._call("HcclGetCommAsyncError", self.handle, ctypes.addressof(status))
        if status.value:
            text = self._hccl.error_text(status.value)
            raise AclError(status.value, "HcclGetCommAsyncError", f"rank {self.rank} of {self.size}: {text}")

    def close(self) -> None:
        """Destroys the communicator; never raises, and does nothing once the runtime has ended."""
        handle, self._handle = self._handle, None
        if handle is None or not self.runtime.usable():
            return
        self._hccl.communicators.discard(self)
        try:
            with self.runtime.on(self.runtime.devices[self.device]):
                self._drop_window(handle)
                status = self._hccl.function("HcclCommDestroy")(handle)
                text = f"{self._hccl.error_text(status)} {self.runtime.recent_error()}".strip() if status else ""
        except AclError as error:
            status, text = error.status, str(error)
        if status:
            warnings.warn(f"HcclCommDestroy failed: {status} {text}", ResourceWarning, stacklevel=2)

    def let_go(self) -> None:
        if self._handle is not None:
            self.runtime.leave(self._close_if_passed)

    def _close_if_passed(self) -> bool:
        """Destroys the communicator unless its collectives are still under way."""
        if self._handle is not None and not all(map(self._has_passed, self._streams)):
            return False
        self.close()
        return True

    def _has_passed(self, stream: StreamState) -> bool:
        if not stream.alive:
            return True
        answer = ctypes.c_int32()
        with self.runtime.on(stream.device):
            status = self.runtime.libraries.function("aclrtStreamQuery")(stream.handle, ctypes.byref(answer))
            if status:  # the next wait for the stream raises it
                self.runtime.recent_error()
        return bool(status) or answer.value == STREAM_COMPLETE

    def _drop_window(self, handle: ctypes.c_void_p) -> None:
        if self._window is not None:
            self._hccl.function("HcclCommDeregister")(handle, self._window[0])
            self._window = None

    # ---------------------------------------------------------------------------------------- helpers
    @property
    def handle(self) -> ctypes.c_void_p:
        if self._handle is None:
            raise ValueError(_CLOSED)
        return self._handle

    def _call(self, routine: str, *arguments: Any) -> None:
        self._hccl.call(routine, *arguments, about=f"rank {self.rank} of {self.size}")

    def _launch(self, stream: StreamState, routine: str, *arguments: Any) -> None:
        self._call(routine, *arguments)
        stream.launched.append(routine)

    @staticmethod
    def _address(tensor: Tensor, stream: StreamState, written: bool) -> int:
        storage: Any = tensor.storage
        if storage.home is not stream:
            storage.use(stream)
        if written:
            storage.writer = stream
        return tensor.data_ptr


def _counts(counts: Sequence[int]) -> tuple[Any, Any]:
    """Counts and displacements as uint64_t[]."""
    array = (ctypes.c_uint64 * len(counts))(*counts)
    starts = (ctypes.c_uint64 * len(counts))(*(sum(counts[:rank]) for rank in range(len(counts))))
    return array, starts
