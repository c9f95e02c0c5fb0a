"""Communicators of the npu backend: libhccl by ctypes, stream-ordered."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional

from ascend_aclnn.backends.npu import prototypes
from ascend_aclnn.backends.npu.runtime import StreamState
from ascend_aclnn.core.dtypes import DataType
from ascend_aclnn.core.errors import AclError, LibraryNotFound
from ascend_aclnn.core.hccl import DEFAULT_CONFIG, CommunicatorConfig, hccl_type
from ascend_aclnn.core.interface import Collective, CommunicatorEndpoint, Storage
from ascend_aclnn.core.spec import TensorSpec
from ascend_aclnn.core.streams import Stream
from ascend_aclnn.core.tensor import Tensor

if TYPE_CHECKING:
    from ascend_aclnn.backends.npu.backend import NpuBackend

ROOT_INFO_BYTES = 4108
NAME_BYTES = 128


class _SendRecvItem(ctypes.Structure):
    _fields_ = [
        ("kind", ctypes.c_int32),
        ("buffer", ctypes.c_void_p),
        ("count", ctypes.c_uint64),
        ("dtype", ctypes.c_int32),
        ("peer", ctypes.c_uint32),
    ]


class Hccl:
    """libhccl and its functions; opened at first use."""

    def __init__(self, backend: NpuBackend) -> None:
        self.backend = backend
        self._functions: dict[str, Any] = {}
        directory = Path(backend.library_path).parent
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

    def function(self, name: str) -> Any:
        found = self._functions.get(name)
        if found is None:
            found = next((f for f in (getattr(library, name, None) for library in self._libraries) if f), None)
            if found is None:
                raise LibraryNotFound(f"libhccl.so exports no {name}: this CANN is too old for it")
            prototype = prototypes.runtime_function(name)
            found.restype, found.argtypes = prototype.returns, prototype.parameters
            self._functions[name] = found
        return found

    def call(self, name: str, *arguments: Any, about: str = "") -> None:
        status = self.function(name)(*arguments)
        if status:
            text = self.function("HcclGetErrorString")(status)
            text = text.decode(errors="replace") if isinstance(text, bytes) else str(text)
            recent = self.backend.runtime.recent_error()
            detail = ": ".join(part for part in (about, text) if part)
            raise AclError(status, name, f"{detail}\n  {recent}" if recent else detail)

    def root_info(self) -> bytes:
        info = ctypes.create_string_buffer(ROOT_INFO_BYTES)
        self.backend.target(None)  # a device must be current
        self.call("HcclGetRootInfo", ctypes.addressof(info))
        return info.raw

    def join(self, info: bytes, rank: int, size: int, config: CommunicatorConfig) -> HcclCommunicator:
        if len(info) != ROOT_INFO_BYTES:
            raise ValueError(f"info has {len(info)} bytes; a root info has {ROOT_INFO_BYTES}")
        self.backend.target(None)
        made, root = ctypes.c_void_p(), ctypes.create_string_buffer(info, ROOT_INFO_BYTES)
        about, arguments = f"rank {rank} of {size}", (size, ctypes.addressof(root), rank)
        if config == DEFAULT_CONFIG:
            self.call("HcclCommInitRootInfo", *arguments, ctypes.addressof(made), about=about)
        else:
            given = self._configuration(config)
            addresses = ctypes.addressof(given), ctypes.addressof(made)
            self.call("HcclCommInitRootInfoConfig", *arguments, *addresses, about=about)
        return self._owned([made], [rank])[0]

    def join_devices(self, devices: Sequence[int]) -> list[HcclCommunicator]:
        self.backend.target(None)
        numbers, handles = (ctypes.c_int32 * len(devices))(*devices), (ctypes.c_void_p * len(devices))()
        self.call("HcclCommInitAll", len(devices), ctypes.addressof(numbers), ctypes.addressof(handles))
        return self._owned([ctypes.c_void_p(handle) for handle in handles], range(len(devices)))

    def join_cluster(self, path: str, rank: int, config: CommunicatorConfig) -> HcclCommunicator:
        self.backend.target(None)
        made, about, arguments = ctypes.c_void_p(), f"rank {rank} of {path}", (path.encode(), rank)
        if config == DEFAULT_CONFIG:
            self.call("HcclCommInitClusterInfo", *arguments, ctypes.addressof(made), about=about)
        else:
            given = self._configuration(config)
            addresses = ctypes.addressof(given), ctypes.addressof(made)
            self.call("HcclCommInitClusterInfoConfig", *arguments, *addresses, about=about)
        return self._owned([made], [rank])[0]

    def split(
        self, parent: HcclCommunicator, ranks: Sequence[int], number: int, config: CommunicatorConfig
    ) -> HcclCommunicator:
        made, handle = ctypes.c_void_p(), ctypes.c_void_p(parent.handle.value)
        members, place = (ctypes.c_uint32 * len(ranks))(*ranks), list(ranks).index(parent.rank)
        given = self._configuration(config)  # HCCL wants one
        arguments = (ctypes.addressof(handle), len(ranks), ctypes.addressof(members), number, place)
        addresses = ctypes.addressof(given), ctypes.addressof(made)
        self.call("HcclCreateSubCommConfig", *arguments, *addresses, about=f"rank {parent.rank} of {parent.size}")
        return self._owned([made], [place])[0]

    def _configuration(self, config: CommunicatorConfig) -> Any:
        """HcclCommConfig, which older HCCL reads as far as it knows it; ValueError for an item that it does not know."""
        missing = config.missing(self.function("HcclGetCommConfigCapability")())
        if missing is not None:
            raise ValueError(f"{missing} cannot be chosen: this CANN's HCCL does not have it yet")
        data = config.pack()
        return ctypes.create_string_buffer(data, len(data))

    def _owned(self, handles: Sequence[ctypes.c_void_p], ranks: Sequence[int]) -> list[HcclCommunicator]:
        """The communicators of handles; where one of them cannot be asked for its size and name, all are destroyed."""
        made = [HcclCommunicator(self, handle, rank) for handle, rank in zip(handles, ranks)]
        try:
            for communicator in made:
                communicator.identify()
        except BaseException:
            for communicator in made:
                communicator.close()
            raise
        return made


class HcclCommunicator(CommunicatorEndpoint):
    """One HcclComm."""

    def __init__(self, hccl: Hccl, handle: ctypes.c_void_p, rank: int) -> None:
        self._hccl = hccl
        self._handle: Optional[ctypes.c_void_p] = handle
        self._window: Optional[tuple[ctypes.c_void_p, Storage]] = None  # HCCL's handle, and the memory
        self.rank = rank

    def identify(self) -> None:
        """Asks for the number of ranks and the name."""
        size, name = ctypes.c_uint32(), ctypes.create_string_buffer(NAME_BYTES)
        self._hccl.call("HcclGetRankSize", self.handle, ctypes.addressof(size))
        self._hccl.call("HcclGetCommName", self.handle, name)
        self.size, self.name = size.value, name.value.decode()

    def split(self, ranks: Sequence[int], number: int, config: CommunicatorConfig) -> HcclCommunicator:
        return self._hccl.split(self, ranks, number, config)

    def collective(self, call: Collective) -> None:
        target, comm = self._hccl.backend.target(call.stream), self.handle
        if call.operation == "barrier" or call.receive is None:
            self._call("HcclBarrier", comm, target.handle)
            return
        operation, send, receive = call.operation, call.send, call.receive
        reduction, root, end = call.reduction, call.root, (comm, target.handle)
        to, dtype = self._address(receive, target, True), hccl_type(receive.dtype)
        source = None if send is None else self._address(send, target, False)
        count = receive.size if send is None else send.size
        if operation == "all_reduce":
            self._call("HcclAllReduce", source, to, count, dtype, reduction, *end)
        elif operation == "reduce":
            self._call("HcclReduce", source, to, count, dtype, reduction, root, *end)
        elif operation == "broadcast":
            self._call("HcclBroadcast", to, count, dtype, root, *end)
        elif operation == "scatter":
            self._call("HcclScatter", source, to, receive.size, dtype, root, *end)
        elif operation == "reduce_scatter" and not call.send_counts:
            self._call("HcclReduceScatter", source, to, receive.size, dtype, reduction, *end)
        elif operation == "reduce_scatter":
            counts, starts = _counts(call.send_counts)
            self._call("HcclReduceScatterV", source, counts, starts, to, receive.size, dtype, reduction, *end)
        elif operation == "all_gather" and not call.receive_counts:
            self._call("HcclAllGather", source, to, count, dtype, *end)
        elif operation == "all_gather":
            counts, starts = _counts(call.receive_counts)
            self._call("HcclAllGatherV", source, count, to, counts, starts, dtype, *end)
        elif not call.send_counts:
            part = count // self.size
            self._call("HcclAlltoAll", source, part, dtype, to, part, dtype, *end)
        else:
            sends, receives = _counts(call.send_counts), _counts(call.receive_counts)
            self._call("HcclAlltoAllV", source, *sends, dtype, to, *receives, dtype, *end)

    def exchange(self, items: Sequence[tuple[bool, Tensor, int]], stream: Optional[Stream]) -> None:
        target, comm = self._hccl.backend.target(stream), self.handle
        rows = (_SendRecvItem * len(items))()
        for row, (is_send, tensor, peer) in zip(rows, items):
            address = self._address(tensor, target, not is_send)
            row.kind, row.buffer, row.count, row.peer = int(not is_send), address, tensor.size, peer
            row.dtype = hccl_type(tensor.dtype)
        self._call("HcclBatchSendRecv", ctypes.addressof(rows), len(items), comm, target.handle)

    def window(self, nbytes: int, peers: Sequence[int]) -> Tensor:
        backend = self._hccl.backend
        memory = backend.allocate(nbytes, backend.current_device())
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
            text = self._hccl.function("HcclGetErrorString")(status.value)
            text = text.decode(errors="replace") if isinstance(text, bytes) else str(text)
            raise AclError(status.value, "HcclGetCommAsyncError", f"rank {self.rank} of {self.size}: {text}")

    def close(self) -> None:
        """Destroys the communicator; never raises, and does nothing once the runtime has ended."""
        handle, self._handle = self._handle, None
        if handle is not None and self._hccl.backend.runtime.usable():
            self._drop_window(handle)
            self._hccl.function("HcclCommDestroy")(handle)

    def _drop_window(self, handle: ctypes.c_void_p) -> None:
        if self._window is not None:
            self._hccl.function("HcclCommDeregister")(handle, self._window[0])
            self._window = None

    # ---------------------------------------------------------------------------------------- helpers
    @property
    def handle(self) -> ctypes.c_void_p:
        if self._handle is None:
            raise ValueError("the communicator is closed")
        return self._handle

    def _call(self, routine: str, *arguments: Any) -> None:
        self._hccl.call(routine, *arguments, about=f"rank {self.rank} of {self.size}")

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
    made = (ctypes.c_uint64 * len(counts))(*counts)
    starts = (ctypes.c_uint64 * len(counts))(*(sum(counts[:rank]) for rank in range(len(counts))))
    return made, starts
