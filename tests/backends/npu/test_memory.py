"""The caching allocator, on a runtime of a few lines whose streams pass when the test says so."""

from __future__ import annotations

import collections
import contextlib
import ctypes
import itertools
import random
import threading
from collections.abc import Iterator
from typing import Any, Callable, Optional

import pytest

from ascend_aclnn.backends.npu.memory import GRAIN, SEGMENT, SMALL, Block, NpuStorage, Pool, block_size
from ascend_aclnn.backends.npu.runtime import DeviceState, StreamState
from ascend_aclnn.core.errors import AclError

MEGABYTE = 1 << 20


class FakeLibraries:
    def __init__(self, runtime: FakeRuntime) -> None:
        self.runtime = runtime

    def optional(self, name: str) -> Any:
        return {"aclrtMallocAlign32": self.runtime.malloc, "aclrtFree": self.runtime.free}[name]

    function = optional


class FakeRuntime:
    """What a Pool needs of a Runtime. Device memory is a counter; an event passes when the test says so."""

    def __init__(self, capacity: int = 1 << 40) -> None:
        self.libraries = FakeLibraries(self)
        self.lock = threading.Lock()
        self.record_origins = False
        self.deferred: collections.deque[Callable[[], None]] = collections.deque()
        self.memory_limit: Optional[int] = None
        self.closed = ""
        self.devices: dict[int, DeviceState] = {}
        self.captures: dict[tuple[int, int], Any] = {}
        self.capacity = capacity
        self.held: dict[int, int] = {}
        self.freed: list[int] = []
        self.waited: list[StreamState] = []
        self.events: dict[int, StreamState] = {}  # event -> the stream it was last recorded on
        self.tickets: dict[int, int] = {}  # event -> number of that record
        self.passed: set[int] = set()  # numbers of records
        self._addresses = itertools.count(1 << 32, 1 << 32)
        self._events = itertools.count(1)
        self._tickets = itertools.count(1)

    def captured_elsewhere(self, stream: StreamState) -> int:
        return 0

    def malloc(self, pointer: Any, size: int, policy: int) -> int:
        if sum(self.held.values()) + size > self.capacity:
            return 207001
        address = next(self._addresses)
        self.held[address] = size
        ctypes.cast(pointer, ctypes.POINTER(ctypes.c_void_p))[0] = address
        return 0

    def free(self, address: int) -> int:
        del self.held[address]
        self.freed.append(address)
        return 0

    def run_deferred(self) -> None:
        while self.deferred:
            self.deferred.popleft()()

    def drain(self) -> None:
        with self.lock:
            self.run_deferred()

    @contextlib.contextmanager
    def on(self, device: DeviceState) -> Iterator[None]:
        yield

    def create_event(self, device: DeviceState, flags: int) -> int:
        return next(self._events)

    def destroy_event(self, device: int, event: int) -> None:
        del self.events[event]

    def record_event(self, event: int, handle: int) -> int:
        self.events[event] = self.devices[0].streams[handle]
        self.tickets[event] = next(self._tickets)
        return 0

    def pass_all(self) -> None:
        self.passed.update(self.tickets.values())

    def event_done(self, event: int) -> bool:
        return self.tickets[event] in self.passed

    def wait_event(self, event: int, timeout: Optional[float]) -> None:
        self.passed.add(self.tickets[event])

    def wait_for_memory(self, stream: StreamState) -> None:
        self.waited.append(stream)

    def recent_error(self) -> str:
        return "no memory left"

    def check(self, routine: str, status: int) -> None:
        assert status == 0

    def warn(self, routine: str, status: int) -> None:
        assert status == 0


class Bench:
    """A pool on a fake runtime, with two streams beside the default one."""

    def __init__(self, capacity: int = 1 << 40) -> None:
        self.runtime = FakeRuntime(capacity)
        self.device = DeviceState(0, 1, True)
        self.pool = Pool(self.runtime, self.device)  # type: ignore[arg-type]  # a stand-in
        self.device.pool = self.pool
        self.runtime.devices[0] = self.device
        self.default = self.device.default
        self.one, self.two = (self._stream(handle) for handle in (1, 2))

    def _stream(self, handle: int) -> StreamState:
        stream = self.device.streams[handle] = StreamState(self.device, handle, True)
        return stream

    def allocate(self, nbytes: int, stream: Optional[StreamState] = None) -> Block:
        return self.pool.allocate(nbytes, stream or self.default)

    def drop(self, block: Block, *others: StreamState) -> None:
        if others:
            with self.runtime.lock:
                self.pool.release(block, others, None)
        else:
            self.pool.returned.append(block)

    def storage(self, nbytes: int) -> NpuStorage:
        return NpuStorage(None, self.runtime, 0, nbytes)  # type: ignore[arg-type]  # stand-ins


@pytest.fixture
def bench() -> Bench:
    return Bench()


def overlap(a: Block, b: Block) -> bool:
    return a.address < b.address + b.size and b.address < a.address + a.size


def test_sizes_leave_room_for_what_kernels_read_past_the_end() -> None:
    for nbytes in (1, 31, 32, 479, 480, 481, 512, 10**6):
        size = block_size(nbytes)
        assert size % GRAIN == 0 and size >= -(-nbytes // 32) * 32 + 32 and size - nbytes < 64 + GRAIN


def test_blocks_start_at_the_grain_and_do_not_overlap(bench: Bench) -> None:
    blocks = [bench.allocate(n) for n in (1, 100, 1000, 5000, SMALL, 3 * MEGABYTE)]
    assert all(b.address % GRAIN == 0 for b in blocks)
    assert not any(overlap(a, b) for a, b in itertools.combinations(blocks, 2))


def test_small_blocks_share_what_the_device_hands_out(bench: Bench) -> None:
    for _ in range(100):
        bench.allocate(1000)
    assert list(bench.runtime.held.values()) == [SEGMENT]
    bench.allocate(5 * MEGABYTE)
    assert sorted(bench.runtime.held.values()) == [SEGMENT, 3 * SEGMENT]


def test_a_dropped_block_is_reused_on_its_own_stream_at_once(bench: Bench) -> None:
    block = bench.allocate(1000, bench.one)
    bench.drop(block)
    assert not overlap(bench.allocate(1000, bench.two), block)
    assert bench.allocate(1000, bench.one) is block


def test_a_block_that_another_stream_used_comes_back_after_that_stream_has_passed(bench: Bench) -> None:
    block = bench.allocate(1000, bench.one)
    bench.drop(block, bench.two)
    assert list(bench.runtime.events.values()) == [bench.two]
    others = [bench.allocate(1000, bench.one) for _ in range(3)]
    assert not any(overlap(block, other) for other in others)
    bench.runtime.pass_all()
    blocks = [bench.allocate(1000, bench.one) for _ in range(2000)]
    assert any(b.address == block.address for b in blocks)
    assert not any(overlap(b, other) for b in blocks for other in others)


def test_events_are_used_again(bench: Bench) -> None:
    for size in (1000, 2000, 3000):
        bench.drop(bench.allocate(size, bench.one), bench.two)
        bench.runtime.pass_all()
        bench.allocate(size + 10_000, bench.one)  # looks at what has passed
    assert len(bench.runtime.events) == 1


def test_a_question_that_fails_takes_nothing_back_twice(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    for size in (1000, 2000, 3000):
        bench.drop(bench.allocate(size, bench.one), bench.two)
    answers = iter([True, AclError(507899, "aclrtQueryEventStatus")])

    def answer(event: int) -> bool:
        value = next(answers)
        if isinstance(value, AclError):
            raise value
        return value

    with monkeypatch.context() as patch:
        patch.setattr(bench.runtime, "event_done", answer)
        with pytest.raises(AclError):
            bench.allocate(10_000, bench.one)
    bench.runtime.pass_all()
    bench.pool.empty()
    assert bench.pool.used == 0 and bench.pool.reserved == 0 and not bench.runtime.events


def test_memory_whose_passing_cannot_be_learnt_is_never_handed_out(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    block = bench.allocate(1000, bench.one)
    warned: list[str] = []

    def refuse(routine: str, status: int) -> None:
        raise AclError(507899, "aclrtRecordEvent")

    with monkeypatch.context() as patch:
        patch.setattr(bench.runtime, "check", refuse)
        patch.setattr(bench.runtime, "warn", lambda routine, status: warned.append(routine))
        bench.drop(block, bench.two)
    assert warned == ["aclrtRecordEvent"]
    bench.runtime.pass_all()
    assert not any(overlap(bench.allocate(1000, bench.one), block) for _ in range(3000))


def test_neighbours_are_merged_for_a_larger_request(bench: Bench) -> None:
    blocks = [bench.allocate(SEGMENT // 4 - 32) for _ in range(4)]
    assert len(bench.runtime.held) == 1
    for block in blocks:
        bench.drop(block)
    bench.allocate(SMALL - 32)
    bench.allocate(SMALL - 32)
    assert len(bench.runtime.held) == 1


def test_a_used_neighbour_is_not_swallowed(bench: Bench) -> None:
    left, middle, right = (bench.allocate(SEGMENT // 4 - 32) for _ in range(3))
    bench.drop(left)
    bench.drop(right)
    for _ in range(4):
        assert not overlap(bench.allocate(SEGMENT // 2 - 32), middle)


def test_the_best_fit_is_taken_and_the_rest_is_kept(bench: Bench) -> None:
    large, small = bench.allocate(20 * MEGABYTE), bench.allocate(6 * MEGABYTE)
    bench.drop(large)
    bench.drop(small)
    assert bench.allocate(5 * MEGABYTE).address == small.address
    first, second = bench.allocate(9 * MEGABYTE), bench.allocate(9 * MEGABYTE)
    assert {first.address, second.address} >= {large.address} and not overlap(first, second)
    assert len(bench.runtime.held) == 2


def test_memory_information_counts_blocks_and_cache(bench: Bench) -> None:
    block = bench.allocate(1000)
    assert (bench.pool.used, bench.pool.reserved) == (block_size(1000), SEGMENT)
    bench.drop(block)
    with bench.runtime.lock:
        bench.pool.collect()
    assert (bench.pool.used, bench.pool.reserved) == (0, SEGMENT)


def test_emptying_waits_for_the_stream_and_keeps_what_is_in_use(bench: Bench) -> None:
    used, unused = bench.allocate(1000, bench.one), bench.allocate(5 * MEGABYTE, bench.one)
    bench.drop(unused)
    bench.pool.empty()
    assert bench.runtime.waited == [bench.one]
    assert list(bench.runtime.held) == [used.segment.address]
    bench.drop(used)
    bench.pool.empty()
    assert not bench.runtime.held and bench.pool.reserved == 0


def test_emptying_gives_the_workspaces_and_events_back(bench: Bench) -> None:
    bench.one.workspace = bench.allocate(1000, bench.one)
    bench.drop(bench.allocate(1000, bench.one), bench.two)
    bench.pool.empty()
    assert not bench.runtime.held and not bench.runtime.events and bench.pool.used == 0


def test_a_full_device_is_asked_again_without_the_cache() -> None:
    bench = Bench(capacity=16 * MEGABYTE)
    bench.drop(bench.allocate(9 * MEGABYTE, bench.one))
    assert bench.allocate(12 * MEGABYTE, bench.two).size >= 12 * MEGABYTE
    assert bench.runtime.waited == [bench.one]


def test_out_of_memory_says_how_much_of_what(bench: Bench) -> None:
    bench = Bench(capacity=4 * MEGABYTE)
    bench.allocate(1000)
    with pytest.raises(AclError) as caught:
        bench.allocate(9 * MEGABYTE)
    assert caught.value.status == 207001 and caught.value.routine == "aclrtMallocAlign32"
    for part in (str(block_size(9 * MEGABYTE)), "device 0", str(SEGMENT), "no memory left"):
        assert part in str(caught.value)
    bench.allocate(1000)


def test_the_limit_is_kept_after_the_cache_was_tried(bench: Bench) -> None:
    bench.drop(bench.allocate(3 * MEGABYTE))
    bench.runtime.memory_limit = 4 * MEGABYTE
    bench.allocate(1000)
    with pytest.raises(AclError, match="set_memory_limit") as caught:
        bench.allocate(3 * MEGABYTE)
    assert caught.value.status == 207001
    bench.runtime.memory_limit = None
    bench.allocate(3 * MEGABYTE)


def test_memory_of_an_ended_stream_is_reused_by_any_stream(bench: Bench) -> None:
    kept, gone = bench.allocate(1000, bench.one), bench.allocate(3 * MEGABYTE, bench.one)
    bench.one.workspace = bench.allocate(9 * MEGABYTE, bench.one)
    bench.drop(gone)
    bench.one.alive = False
    with bench.runtime.lock:
        bench.pool.collect()
        bench.pool.forget(bench.one)
    assert bench.allocate(3 * MEGABYTE, bench.two).address == gone.address
    bench.allocate(9 * MEGABYTE, bench.two)
    assert len(bench.runtime.held) == 3
    bench.drop(kept)
    assert bench.allocate(1000, bench.two).address == kept.address


# ------------------------------------------------------------------------------------------ storages


def test_a_storage_reserves_at_its_first_use_and_returns_its_block(bench: Bench) -> None:
    storage = bench.storage(1000)
    assert not bench.runtime.held
    storage.use(bench.one)
    address, block = storage.address, storage.block
    assert block is not None and address == block.address and storage.home is bench.one
    del storage
    assert bench.allocate(1000, bench.one) is block


def test_a_storage_used_on_other_streams_waits_for_each_of_them(bench: Bench) -> None:
    storage = bench.storage(1000)
    for stream in (bench.one, bench.two, bench.default, bench.two):
        storage.use(stream)
    assert storage.others == (bench.two, bench.default)
    del storage
    bench.runtime.drain()
    assert set(bench.runtime.events.values()) == {bench.two, bench.default}


def test_borrowed_memory_keeps_its_owner_until_the_streams_have_passed(bench: Bench) -> None:
    class Owner:
        pass

    owner: Any = Owner()
    gone: list[bool] = []
    Owner.__del__ = lambda self: gone.append(True)  # type: ignore[attr-defined]
    storage = NpuStorage.borrow(None, bench.runtime, 0, 64, 4096, owner)  # type: ignore[arg-type]  # stand-ins
    storage.use(bench.one)
    del owner, storage
    bench.runtime.drain()
    assert not gone
    bench.runtime.pass_all()
    bench.allocate(1000)
    assert gone == [True]


def test_a_storage_of_another_device_is_refused(bench: Bench) -> None:
    storage = bench.storage(1000)
    elsewhere = DeviceState(1, 2, True)
    with pytest.raises(ValueError, match=r"device 0 is used on a stream of device 1"):
        storage.use(elsewhere.default)


def test_nothing_that_is_in_use_is_ever_handed_out(bench: Bench) -> None:
    """Random allocations and drops on three streams; a block must not overlap one that is in use or not passed yet."""
    rng = random.Random(0)
    streams = [bench.default, bench.one, bench.two]
    used: list[tuple[Block, StreamState, set[StreamState]]] = []
    waiting: list[tuple[int, int, set[int]]] = []  # dropped: start, end, records that must have passed
    for _ in range(4000):
        if used and rng.random() < 0.48:
            block, _, others = used.pop(rng.randrange(len(used)))
            extent = block.address, block.address + block.size
            before = set(bench.runtime.tickets.values())
            bench.drop(block, *others)
            if others:
                waiting.append((*extent, set(bench.runtime.tickets.values()) - before))
        elif rng.random() < 0.02:
            bench.pool.empty()
            waiting.clear()
        else:
            stream = rng.choice(streams)
            size = rng.choice([rng.randrange(1, 4000), rng.randrange(1, SMALL), rng.randrange(SMALL, 6 * MEGABYTE)])
            block = bench.allocate(size, stream)
            assert block.size >= block_size(size)
            assert not any(overlap(block, other) for other, _, _ in used)
            for start, end, records in waiting:
                free = block.address >= end or block.address + block.size <= start
                assert free or records <= bench.runtime.passed
            others = {s for s in streams if s is not stream and rng.random() < 0.1}
            used.append((block, stream, others))
        if rng.random() < 0.3:
            bench.runtime.passed.update(t for t in bench.runtime.tickets.values() if rng.random() < 0.5)
    assert bench.pool.reserved == sum(bench.runtime.held.values())
