"""Device memory: a caching allocator whose reuse is ordered by streams, and the Storage that tensors hold.

A block belongs to the stream on which it was first used. When it is dropped it goes back to that stream at once,
because whatever is launched there next runs after the work that still uses it. Work on other streams is noted in the
Storage; then the block comes back only after an event on each of those streams has passed. aclrtFree does not wait for
the device, so memory is given back to it only after its stream has been waited for.
"""

from __future__ import annotations

import collections
import ctypes
import functools
import sys
from pathlib import Path
from typing import Any, Optional

import numpy as np
import numpy.typing as npt

from ascend_aclnn.backends.npu import prototypes
from ascend_aclnn.backends.npu.runtime import (
    DEVICE_TO_DEVICE,
    DEVICE_TO_HOST,
    HOST_TO_DEVICE,
    DeviceState,
    Runtime,
    StreamState,
)
from ascend_aclnn.core.errors import AclError
from ascend_aclnn.core.interface import (
    DeviceInterface,
    MemoryBlock,
    MemoryInfo,
    MemoryStatistics,
    Storage,
    StreamHandle,
)
from ascend_aclnn.core.streams import Stream
from ascend_aclnn.core.torch_interop import empty_torch_cache

GRAIN = 512  # blocks start at and span multiples of this
SEGMENT = 2 << 20  # what the device hands out in one piece (a huge page)
SMALL = 1 << 20  # blocks up to this share segments of 2 MiB; larger ones never mix with them

MEMORY_ALLOCATION = 207001
OUT_OF_MEMORY = frozenset({MEMORY_ALLOCATION, 207018, 200000})


def block_size(nbytes: int) -> int:
    """Bytes that a block for ``nbytes`` takes: kernels may read up to 32 bytes past the rounded end."""
    return (((nbytes + 31) & -32) + 32 + GRAIN - 1) & -GRAIN


class Segment:
    """One aclrtMalloc; all its blocks belong to one stream."""

    __slots__ = ("address", "first", "pool", "size", "small", "stream")

    def __init__(self, pool: Pool, address: int, size: int, stream: StreamState, small: bool) -> None:
        self.pool = pool
        self.address = address
        self.size = size
        self.stream = stream
        self.small = small
        self.first = Block(self, address, size)


class Block:
    """A piece of a segment, in use or free, and its neighbours there."""

    __slots__ = ("address", "after", "before", "fresh", "in_use", "origin", "segment", "size")

    def __init__(self, segment: Segment, address: int, size: int) -> None:
        self.in_use = False
        self.origin = ""  # the line of the program that asked for it, where that is recorded
        self.segment = segment
        self.address = address
        self.size = size
        self.fresh = True  # nothing has been launched on it since the device handed it out
        self.before: Optional[Block] = None
        self.after: Optional[Block] = None

    @property
    def whole(self) -> bool:
        """True if the block is its entire segment."""
        return self.before is None and self.after is None


def _segment_size(size: int) -> int:
    """Bytes that the device is asked for when a block of a size is wanted."""
    return -(-size // SEGMENT) * SEGMENT


def _size(block: Block) -> int:
    return block.size


def _address(block: Block) -> int:
    return block.address


class Pool:
    """The memory of one device. Its methods are called with the runtime's lock held, except where they say so.

    Freed blocks first go to a bin of their exact size, which the common case (the same shapes again) takes them from.
    Only when that fails are the free blocks of the stream joined with their neighbours and searched for the best fit.
    """

    def __init__(self, runtime: Runtime, device: DeviceState) -> None:
        self.runtime = runtime
        self.device = device
        self.reserved = 0
        self.used = 0
        self.peak_used = 0
        self.peak_reserved = 0
        self.allocations = 0
        self.searches = 0  # allocations that asked the device
        self.segments: dict[int, Segment] = {}
        self.returned: collections.deque[Block] = collections.deque()  # dropped, used on their own stream only
        self.spare: list[Block] = []  # whole free segments whose stream is gone: for any stream
        # what waits for events: a block, or the owner of borrowed memory
        self.pending: list[tuple[list[int], Optional[Block], object]] = []
        self.free_events: list[int] = []
        # out of circulation for good: whether the kernels that use it have passed could not be learnt
        self.lost: list[tuple[Optional[Block], object]] = []
        # workspaces of the graphs of other components, by graph and stream; kept, because their end is not known
        self.workspaces: dict[tuple[int, int], Block] = {}
        self.passed_owners: list[object] = []  # dropped outside the lock, because their finalizers may do anything
        align32 = runtime.libraries.optional("aclrtMallocAlign32")
        # aclrtMalloc adds 32 bytes to each request, which would cost a second huge page.
        self._malloc = align32 or runtime.libraries.function("aclrtMalloc")
        self._routine = "aclrtMallocAlign32" if align32 else "aclrtMalloc"
        self._slack = 0 if align32 else 32

    # ---------------------------------------------------------------------------------------- allocate
    def allocate(self, nbytes: int, stream: StreamState) -> Block:
        """A block for use on a stream. Takes the lock itself.

        What the device refuses is asked for once more when torch_npu, if it is in this process, has emptied its cache.
        """
        try:
            return self._allocate(nbytes, stream)
        except AclError as error:
            if error.status not in OUT_OF_MEMORY or self._over_limit(_segment_size(block_size(nbytes))):
                raise
            if not empty_torch_cache():  # without the lock, which torch's own threads may want
                raise
        return self._allocate(nbytes, stream)

    def _allocate(self, nbytes: int, stream: StreamState) -> Block:
        size = block_size(nbytes)
        runtime = self.runtime
        with runtime.lock:
            if runtime.deferred:
                runtime.run_deferred()
            while self.returned:
                self._take(self.returned.popleft())
            bin_ = stream.bins.get(size)
            block = bin_.pop() if bin_ else self._search(size, stream)
            block.in_use = True
            self.allocations += 1
            self.used += block.size
            if self.used > self.peak_used:
                self.peak_used = self.used
        if runtime.record_origins:
            block.origin = _origin()
        if self.passed_owners:
            self._let_owners_go()
        return block

    def _let_owners_go(self) -> bool:
        """Drops owners of borrowed memory whose streams have passed; True if there were any. Without the lock."""
        owners, self.passed_owners = self.passed_owners, []
        return bool(owners)

    def collect(self) -> None:
        """Takes what tensors have left."""
        self.runtime.run_deferred()
        while self.returned:
            self._take(self.returned.popleft())

    def _search(self, size: int, stream: StreamState) -> Block:
        with self.runtime.on(self.device):
            return self._search_here(size, stream)

    def _search_here(self, size: int, stream: StreamState) -> Block:
        self._poll()
        self._join(stream)
        small = size <= SMALL
        for blocks in (stream.free, self.spare):
            fits = (block for block in blocks if block.size >= size and block.segment.small is small)
            best = min(fits, key=_size, default=None)
            if best is not None:
                blocks.remove(best)
                best.segment.stream = stream
                return self._split(best, size, stream)
        return self._split(self._reserve(size, stream, small), size, stream)

    def _join(self, stream: StreamState) -> None:
        """Merges the stream's free blocks with free neighbours; afterwards all are in ``stream.free``."""
        if not stream.bins:
            return
        loose = [block for bin_ in stream.bins.values() for block in bin_] + stream.free
        stream.bins.clear()
        joined: list[Block] = []
        for block in sorted(loose, key=_address):
            adjacent = bool(joined) and joined[-1].after is block
            if adjacent:
                last = joined[-1]
                last.size += block.size
                last.after = block.after
                if block.after is not None:
                    block.after.before = last
                last.fresh = last.fresh and block.fresh
            else:
                joined.append(block)
        stream.free[:] = joined

    def _split(self, block: Block, size: int, stream: StreamState) -> Block:
        rest = block.size - size
        if rest < (GRAIN if block.segment.small else SMALL):
            return block
        tail = Block(block.segment, block.address + size, rest)
        tail.fresh = block.fresh
        tail.before, tail.after = block, block.after
        if block.after is not None:
            block.after.before = tail
        block.after, block.size = tail, size
        stream.free.append(tail)
        return block

    def _reserve(self, size: int, stream: StreamState, small: bool) -> Block:
        """A new segment; if the device (or the limit) has none left, once more without the cache."""
        wanted = _segment_size(size)
        for attempt in (0, 1):
            if self._over_limit(wanted):
                limit = self.runtime.memory_limit
                status, text = MEMORY_ALLOCATION, f"the limit is {limit} bytes (set_memory_limit)"
            else:
                pointer = ctypes.c_void_p()
                status = self._malloc(ctypes.byref(pointer), wanted - self._slack, _huge_first())
                if status == 0:
                    segment = Segment(self, pointer.value or 0, wanted, stream, small)
                    self.segments[segment.address] = segment
                    self.reserved += wanted
                    self.peak_reserved = max(self.peak_reserved, self.reserved)
                    self.searches += 1
                    return segment.first
                text = self.runtime.recent_error()
            trimmed = attempt or self.runtime.captures  # while a stream is captured, it cannot be waited for
            if trimmed or status not in OUT_OF_MEMORY:
                break
            self.reclaim()
        detail = (
            f"cannot allocate {size} bytes on device {self.device.index}: {self.used} in use, {self.reserved} reserved"
        )
        raise AclError(status, self._routine, f"{detail}; {text}" if text else detail)

    def _over_limit(self, wanted: int) -> bool:
        limit = self.runtime.memory_limit
        return limit is not None and self.reserved + wanted > limit

    # ---------------------------------------------------------------------------------------- give back
    def release(self, block: Optional[Block], others: tuple[StreamState, ...], owner: object) -> None:
        """Takes a dropped block (or lets an owner of borrowed memory go) once the other streams have passed."""
        waiting = [stream for stream in others if stream.alive]
        for stream in waiting:
            if stream.graph is not None:  # it may run there again, and an event would become part of the capture
                stream.graph.keep(block, owner)
                return
        events: list[int] = []
        try:
            if waiting:
                with self.runtime.on(self.device):
                    for stream in waiting:
                        events.append(self._event())
                        self.runtime.check("aclrtRecordEvent", self.runtime.record_event(events[-1], stream.handle))
        except AclError as error:
            self.free_events += events
            self.lost.append((block, owner))
            self.runtime.warn(error.routine, error.status)
            return
        if events:
            self.pending.append((events, block, owner))
        else:
            self.pass_on(block, owner)

    def free(self, block: Block) -> None:
        """Takes a block that only its own stream has used. Takes the lock itself."""
        with self.runtime.lock:
            self._take(block)

    def _event(self) -> int:
        if self.free_events:
            return self.free_events.pop()
        # enough for an event that is only asked whether it has passed
        flags = prototypes.constant("constants", "ACL_EVENT_CAPTURE_STREAM_PROGRESS")
        return self.runtime.create_event(self.device, flags)

    def _take(self, block: Block) -> None:
        self.used -= block.size
        block.fresh = block.in_use = False
        block.origin = ""
        stream = block.segment.stream
        bin_ = stream.bins.get(block.size)
        if bin_ is None:
            stream.bins[block.size] = [block]
        else:
            bin_.append(block)
        if not stream.alive:
            self.forget(stream)

    def _poll(self) -> None:
        """Takes back what waited for events that have passed."""
        at = 0
        while at < len(self.pending):
            if not all(map(self.runtime.event_done, self.pending[at][0])):
                at += 1
                continue
            events, block, owner = self.pending.pop(at)
            self.free_events += events
            self.pass_on(block, owner)

    def pass_on(self, block: Optional[Block], owner: object) -> None:
        """Takes a block, or lets an owner go, that nothing uses any more."""
        if block is not None:
            self._take(block)
        else:
            self.passed_owners.append(owner)

    def forget(self, stream: StreamState) -> None:
        """After a stream's end: its whole free segments serve any stream, the rest follows when it is dropped."""
        if stream.workspace is not None:
            workspace, stream.workspace = stream.workspace, None
            self._take(workspace)
            return
        self._join(stream)
        self.spare += [block for block in stream.free if block.whole]
        stream.free[:] = [block for block in stream.free if not block.whole]

    def reclaim(self) -> None:
        """Gives every segment that holds nothing back to the device, after waiting for the work that used it."""
        with self.runtime.on(self.device):
            for events, _, _ in self.pending:
                for event in events:
                    self.runtime.wait_event(event, None)
            self.collect()
            self._poll()
            for stream in list(self.device.streams.values()):
                self._join(stream)
                whole = [block for block in stream.free if block.whole]
                if whole and not all(block.fresh for block in whole):
                    self.runtime.wait_for_memory(stream)
                stream.free[:] = [block for block in stream.free if not block.whole]
                self.spare += whole
            while self.spare:
                self._free(self.spare.pop().segment)

    def _free(self, segment: Segment) -> None:
        del self.segments[segment.address]
        self.reserved -= segment.size
        self.runtime.warn("aclrtFree", self.runtime.libraries.function("aclrtFree")(segment.address))

    def close(self) -> None:
        """At exit, after the device has been waited for: gives everything back. Never raises."""
        for event in [e for events, _, _ in self.pending for e in events] + self.free_events:
            self.runtime.destroy_event(self.device.index, event)
        self.pending, self.free_events = [], []
        try:
            with self.runtime.on(self.device):
                for segment in list(self.segments.values()):
                    self._free(segment)
        except AclError as error:
            self.runtime.warn(error.routine, error.status)

    # ---------------------------------------------------------------------------------------- look
    def empty(self) -> None:
        """Gives what is kept for reuse back to the device. Takes the lock itself."""
        self.runtime.drain()
        for stream in list(self.device.streams.values()):
            with stream.lock:
                workspace, stream.workspace = stream.workspace, None
            if workspace is not None:
                self.free(workspace)
        while True:
            with self.runtime.lock:
                self.reclaim()
                while self.free_events:
                    self.runtime.destroy_event(self.device.index, self.free_events.pop())
            if not self._let_owners_go():  # else their memory may have come back
                return

    def info(self) -> MemoryInfo:
        """Takes the lock itself."""
        runtime = self.runtime
        runtime.drain()
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        with runtime.on(self.device):
            for kind in ("ACL_HBM_MEM", "ACL_DDR_MEM"):  # parts with DDR answer 0 for HBM
                attribute = prototypes.constant("aclrtMemAttr", kind)
                runtime.call("aclrtGetMemInfo", attribute, ctypes.byref(free), ctypes.byref(total))
                if total.value:
                    break
            with runtime.lock:
                self.collect()
                self._poll()
        self._let_owners_go()
        return MemoryInfo(free.value, total.value, self.used, self.reserved - self.used)

    def statistics(self) -> MemoryStatistics:
        """Takes the lock itself."""
        with self.runtime.lock:
            self.collect()
            return MemoryStatistics(
                self.used,
                self.peak_used,
                self.reserved,
                self.peak_reserved,
                len(self.segments),
                self.allocations,
                self.allocations - self.searches,
            )

    def reset_peaks(self) -> None:
        """The peaks begin again at what is in use. Takes the lock itself."""
        with self.runtime.lock:
            self.collect()
            self.peak_used, self.peak_reserved = self.used, self.reserved

    def snapshot(self) -> list[MemoryBlock]:
        """The blocks in use, by address. Takes the lock itself."""
        blocks = []
        with self.runtime.lock:
            self.collect()
            for segment in self.segments.values():
                block: Optional[Block] = segment.first
                while block is not None:
                    if block.in_use:
                        blocks.append(MemoryBlock(block.address, block.size, segment.stream.handle, block.origin))
                    block = block.after
        return blocks


_PACKAGE = str(Path(__file__).parents[2])


def _origin() -> str:
    """The innermost line of the program that is not this package's."""
    frame: Any = sys._getframe(1)
    while frame is not None and (frame.f_code.co_filename.startswith((_PACKAGE, "ascend_aclnn.ops/"))):
        frame = frame.f_back
    return "" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno} {frame.f_code.co_name}"


class _PinnedMemory:
    """Host memory from aclrtMallocHost, freed when no ndarray uses it any more."""

    def __init__(self, runtime: Runtime, nbytes: int) -> None:
        runtime.current()
        self.runtime = runtime
        self.address = runtime.create("aclrtMallocHost", nbytes)
        self.__array_interface__ = {"version": 3, "data": (self.address, False), "shape": (nbytes,), "typestr": "|u1"}

    def __del__(self) -> None:
        runtime = getattr(self, "runtime", None)
        if runtime is not None and not runtime.closed:
            runtime.deferred.append(functools.partial(_free_pinned, runtime, self.address))


def _free_pinned(runtime: Runtime, address: int) -> None:
    runtime.warn("aclrtFreeHost", runtime.libraries.function("aclrtFreeHost")(address))


def pinned_array(runtime: Runtime, nbytes: int) -> npt.NDArray[np.uint8]:
    """Bytes in pinned host memory."""
    if nbytes == 0:
        return np.empty(0, np.uint8)
    runtime.drain()
    return np.asarray(_PinnedMemory(runtime, nbytes))


class NpuStorage(Storage):
    """Memory on a device: a block of the pool, reserved when it is first touched, or memory of another owner.

    ``home`` is the stream whose launches need no note: the block's own, or the first that used borrowed memory.
    ``others`` are the streams that must have passed before the memory is reused, ``writer`` the one that wrote last.
    ``owners_stream`` is where the owner of borrowed memory works on it too, without saying so.
    """

    __slots__ = (
        "_address",
        "backend",
        "block",
        "borrowed",
        "device",
        "home",
        "nbytes",
        "others",
        "owner",
        "owners_stream",
        "runtime",
        "writer",
    )

    def __init__(self, backend: DeviceInterface, runtime: Runtime, device: int, nbytes: int) -> None:
        self.backend = backend
        self.runtime = runtime
        self.device = device
        self.nbytes = nbytes
        self.base = 0
        self.block: Optional[Block] = None
        self.borrowed = False
        self.owner: object = None
        self.owners_stream: Optional[StreamHandle] = None
        self.home: Optional[StreamState] = None
        self.others: tuple[StreamState, ...] = ()
        self.writer: Optional[StreamState] = None

    @classmethod
    def borrow(
        cls, backend: DeviceInterface, runtime: Runtime, device: int, nbytes: int, address: int, owner: object
    ) -> NpuStorage:
        """Memory of another owner; the owner is kept until the streams that used it have passed."""
        storage = cls(backend, runtime, device, nbytes)
        storage.base, storage.borrowed, storage.owner = address, True, owner
        return storage

    @property
    def has_memory(self) -> bool:
        return self.block is not None or self.borrowed

    @property
    def address(self) -> int:
        if self.block is None and self.nbytes and not self.borrowed:
            stream = self.runtime.current_stream(self.device)
            # What the host touches in a capture is no memory of its tasks: each replay would overwrite it.
            self._reserve(stream if stream.graph is None else stream.device.default)
        return self.base

    def _reserve(self, stream: StreamState) -> Block:
        block: Block = stream.device.pool.allocate(self.nbytes, stream)
        self.base = block.address
        if self.runtime.captured_elsewhere(stream):
            self.borrowed = True  # it is not given back: the graph may be replayed as long as the process lives
            return block
        self.block = block
        if stream.graph is not None:
            self.graph = stream.graph  # type: ignore[assignment]  # a NpuGraph
        return block

    def use(self, stream: StreamState) -> None:
        """Notes that work on a stream is about to use the memory."""
        if stream.device.index != self.device:
            raise ValueError(
                f"a tensor on device {self.device} is used on a stream of device {stream.device.index}; "
                f"run it under  with Device({self.device})"
            )
        if stream.graph is not None:
            stream.graph.use(self, stream)
        if self.owners_stream is not None and self.owner is None:
            self.home = stream  # where the owner works now, and keeps its own order
            return
        if self.block is None and self.nbytes and not self.borrowed:
            self._reserve(stream)
            self.home = stream
            return
        if self.block is not None and self.block.segment.stream is stream:
            self.home = stream
            return
        if self.home is None:
            self.home = stream
        if stream not in self.others:
            self.others = (*self.others, stream)

    def record_stream(self, stream: StreamHandle) -> None:
        self.use(self.runtime.stream(stream.device, stream.handle))

    def read(self, offset: int, nbytes: int) -> npt.NDArray[np.uint8]:
        address = self._inside(offset, nbytes)
        host = np.empty(nbytes, np.uint8)
        if nbytes:
            self.wait()
            self._copy(address_of(host), address, nbytes, DEVICE_TO_HOST)
        return host

    def wait(self) -> None:
        """Waits for the stream that wrote last, and only for it."""
        theirs = self._owners_state()
        if theirs is not None:
            self.runtime.wait_stream(theirs)
        if self.writer is not None and self.writer is not theirs:
            self.runtime.wait_stream(self.writer)

    def make_wait(self, stream: StreamHandle) -> None:
        writer = self.writer
        if writer is None or not writer.alive:
            return
        replays = writer.graph is not None and not writer.graph.capturing
        for each in writer.graph.streams() if writer.graph is not None and replays else [writer]:
            stream.wait_stream(Stream.adopt(self.backend, self.device, each.handle))

    def _owners_state(self) -> Optional[StreamState]:
        """The stream that the owner of borrowed memory works on now, if it said so."""
        stream = self.owners_stream
        return None if stream is None else self.runtime.stream(stream.device, stream.handle)

    def write(self, offset: int, data: npt.NDArray[np.uint8]) -> None:
        address = self._inside(offset, data.nbytes)
        if not data.nbytes:
            return
        host = np.ascontiguousarray(data)
        self._wait_for_users()
        # aclrtMemcpy is not ordered with any stream, which is why they were waited for.
        self._copy(address, address_of(host), host.nbytes, HOST_TO_DEVICE)
        self.writer = None

    def _wait_for_users(self) -> None:
        """Waits for all work that may still use the memory."""
        streams = {self.home, self.writer, self._owners_state(), *self.others}
        if self.block is not None and not self.block.fresh:
            streams.add(self.block.segment.stream)  # kernels of the block's former user may still run there
        for stream in streams:
            if stream is not None:
                self.runtime.wait_stream(stream)

    def copy_from_device(self, source: Storage) -> None:
        """Copies all bytes of another storage, of this or another device that this one may read; done when this returns."""
        target, origin = self._inside(0, source.nbytes), source.address
        source.wait()
        self._wait_for_users()
        self._copy(target, origin, source.nbytes, DEVICE_TO_DEVICE)

    def write_async(self, offset: int, data: npt.NDArray[np.uint8], stream: Optional[StreamHandle]) -> None:
        self._queue_copy(offset, data, HOST_TO_DEVICE, stream)

    def read_async(self, offset: int, data: npt.NDArray[np.uint8], stream: Optional[StreamHandle]) -> None:
        self._queue_copy(offset, data, DEVICE_TO_HOST, stream)

    def _queue_copy(self, offset: int, data: npt.NDArray[np.uint8], kind: int, stream: Optional[StreamHandle]) -> None:
        """Queues a copy on a stream, which waits for the last writer on another; both sides are kept until it has run."""
        if not data.nbytes:
            return
        runtime = self.runtime
        target = runtime.current_stream(self.device) if stream is None else runtime.stream(stream.device, stream.handle)
        self.use(target)
        # a capture cannot wait for what is not part of it: the order counts when it is replayed
        if self.writer is not target and (target.graph is None or getattr(self.writer, "graph", None) is target.graph):
            self.make_wait(Stream.adopt(self.backend, self.device, target.handle))
        device, host = self._inside(offset, data.nbytes), address_of(data)
        to, source = (device, host) if kind == HOST_TO_DEVICE else (host, device)
        with runtime.on(target.device):
            runtime.call("aclrtMemcpyAsync", to, data.nbytes, source, data.nbytes, kind, target.handle)
        if kind == HOST_TO_DEVICE:
            self.writer = target
        if target.graph is not None:
            target.graph.add("copy", "aclrtMemcpyAsync", target, nbytes=data.nbytes)
        runtime.keep_until_passed(data, target)

    def _inside(self, offset: int, nbytes: int) -> int:
        if offset < 0 or offset + nbytes > self.nbytes:
            raise IndexError(f"bytes {offset} to {offset + nbytes} of a storage of {self.nbytes} bytes")
        return self.address + offset

    def _copy(self, target: int, source: int, nbytes: int, kind: int) -> None:
        runtime = self.runtime
        with runtime.on(runtime.devices[self.device]):
            runtime.check("aclrtMemcpy", runtime.memcpy(target, nbytes, source, nbytes, kind))

    def __del__(self) -> None:
        # Only a note, because this runs anywhere; and nothing once the runtime is closed, whose memory is gone.
        block = self.block
        if self.runtime.closed:
            return
        if self.others:
            pool = self.runtime.devices[self.device].pool
            self.runtime.deferred.append(functools.partial(pool.release, block, self.others, self.owner))
        elif block is not None:
            block.segment.pool.returned.append(block)


def address_of(array: npt.NDArray[Any]) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


def _huge_first() -> int:
    return prototypes.constant("aclrtMemMallocPolicy", "ACL_MEM_MALLOC_HUGE_FIRST")
