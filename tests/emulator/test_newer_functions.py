"""Virtual memory, batches of copies, limits of resources and what else clients ask for by name."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
from emulator_client import D2H, H2D, NEWEST, Cann, Location, Property, client, environment

MIB = 1 << 20


class Attribute(ctypes.Structure):
    _fields_ = [("dst", Location), ("src", Location), ("rsv", ctypes.c_uint8 * 16)]


def on_device() -> Property:
    return Property(0, 0, 4, Location(0, 1), 0)


def physical(cann: Cann, size: int) -> int:
    return cann.create("aclrtMallocPhysical", size, ctypes.byref(on_device()), 0)


def used(cann: Cann) -> int:
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    cann.aclrtGetMemInfo(1, ctypes.byref(free), ctypes.byref(total))
    return total.value - free.value


def write(cann: Cann, address: int, values: np.ndarray) -> None:
    cann.aclrtMemcpy(address, values.nbytes, values.ctypes.data, values.nbytes, H2D)


def read(cann: Cann, address: int, count: int) -> list[float]:
    out = np.zeros(count, np.float32)
    cann.aclrtMemcpy(out.ctypes.data, out.nbytes, address, out.nbytes, D2H)
    return out.tolist()


@client()
def test_memory_is_mapped_to_reserved_addresses(cann: Cann) -> None:
    granule = ctypes.c_size_t()
    cann.aclrtMemGetAllocationGranularity(ctypes.byref(on_device()), 1, ctypes.byref(granule))
    assert granule.value == 2 * MIB
    base = cann.create("aclrtReserveMemAddress", 256 << 30, 0, None, 1)  # more than the device has
    assert base % (2 * MIB) == 0
    assert used(cann) == 0
    values = np.arange(8, dtype=np.float32)
    assert cann.failure("aclrtMemcpy", base, 32, values.ctypes.data, 32, H2D).error == "EMULATOR_INVALID_ADDRESS"
    first, second = physical(cann, 2 * MIB), physical(cann, 4 * MIB)
    assert used(cann) == 6 * MIB
    cann.aclrtMapMem(base, 2 * MIB, 0, first, 0)
    cann.aclrtMapMem(base + 2 * MIB, 4 * MIB, 0, second, 0)
    # A tensor across both: operators see one piece of memory.
    across = base + 2 * MIB - 16
    write(cann, across, values)
    x, out = cann.describe((8,), np.float32, across), cann.tensor(np.zeros(8, np.float32))
    cann.run("aclnnNeg", x, out)
    assert cann.read(out).tolist() == (-values).tolist()
    cann.aclDestroyTensor(x)
    assert cann.failure("aclrtMapMem", base, 2 * MIB, 0, first, 0).status != 0
    assert cann.failure("aclrtReleaseMemAddress", base).error == "EMULATOR_FREE_IN_USE"
    assert cann.failure("aclrtFree", base).error == "EMULATOR_INVALID_ADDRESS"
    cann.aclrtUnmapMem(base + 2 * MIB)
    error = cann.failure("aclrtMemcpy", across, 32, values.ctypes.data, 32, H2D)
    assert error.error == "EMULATOR_INVALID_ADDRESS"
    assert "no memory is mapped there" in error.message
    cann.aclrtFreePhysical(second)
    cann.aclrtUnmapMem(base)
    cann.aclrtFreePhysical(first)
    assert cann.failure("aclrtFreePhysical", first).error == "EMULATOR_DOUBLE_DESTROY"
    cann.aclrtReleaseMemAddress(base)
    assert cann.failure("aclrtReleaseMemAddress", base).status != 0
    cann.drop(out)
    assert used(cann) == 0


@client()
def test_addresses_are_reserved_before_a_device_is_set(cann: Cann) -> None:
    cann.aclrtResetDevice(0)
    base = cann.create("aclrtReserveMemAddress", 512, 0, None, 1)
    cann.aclrtReleaseMemAddress(base)
    cann.aclrtSetDevice(0)


@client()
def test_physical_memory_keeps_its_bytes_where_it_is_mapped_next(cann: Cann) -> None:
    base = cann.create("aclrtReserveMemAddress", 8 * MIB, 0, None, 0)
    first, second = physical(cann, 2 * MIB), physical(cann, 2 * MIB)
    ones, twos = np.full(4, 1, np.float32), np.full(4, 2, np.float32)
    cann.aclrtMapMem(base, 2 * MIB, 0, first, 0)
    write(cann, base, ones)
    cann.aclrtUnmapMem(base)
    cann.aclrtMapMem(base, 2 * MIB, 0, second, 0)  # takes the first one's place
    write(cann, base, twos)
    cann.aclrtMapMem(base + 4 * MIB, 2 * MIB, 0, first, 0)
    assert read(cann, base + 4 * MIB, 4) == ones.tolist()
    cann.aclrtUnmapMem(base)
    cann.aclrtMapMem(base + 2 * MIB, 2 * MIB, 0, second, 0)
    assert read(cann, base + 2 * MIB, 4) == twos.tolist()
    for handle, address in ((first, base + 4 * MIB), (second, base + 2 * MIB)):
        cann.aclrtFreePhysical(handle)  # before it is unmapped
        cann.aclrtUnmapMem(address)
    cann.aclrtReleaseMemAddress(base)


@client()
def test_physical_memory_is_limited_and_goes_with_a_reset(cann: Cann) -> None:
    total = ctypes.c_size_t()
    cann.aclrtGetMemInfo(1, ctypes.byref(ctypes.c_size_t()), ctypes.byref(total))
    result, prop = ctypes.byref(ctypes.c_void_p()), ctypes.byref(on_device())
    error = cann.failure("aclrtMallocPhysical", result, total.value + 2 * MIB, prop, 0)
    assert error.status == 207001
    base = cann.create("aclrtReserveMemAddress", 2 * MIB, 0, None, 0)
    handle = physical(cann, 2 * MIB)
    cann.aclrtMapMem(base, 2 * MIB, 0, handle, 0)
    cann.aclrtResetDevice(0)
    cann.aclrtSetDevice(0)
    block = cann.malloc(4 * MIB)
    write(cann, block, np.ones(4, np.float32))
    cann.aclrtFreePhysical(handle)  # nothing of what is there now
    assert read(cann, block, 4) == [1.0] * 4
    cann.aclrtFree(block)
    assert used(cann) == 0


def run_batch(cann: Cann, asynchronous: bool) -> None:
    sources = [np.arange(i + 1, dtype=np.float32) for i in range(3)]
    blocks = [cann.malloc(64) for _ in sources]
    back = [np.zeros_like(source) for source in sources]
    sizes = (ctypes.c_size_t * 3)(*(source.nbytes for source in sources))
    host, device, failed = Location(0, 0), Location(0, 1), ctypes.c_size_t()
    there = (Attribute * 1)(Attribute(device, host))
    here = (Attribute * 1)(Attribute(host, device))
    blocks_, sources_, back_ = (
        (ctypes.c_void_p * 3)(*values)
        for values in (blocks, [s.ctypes.data for s in sources], [b.ctypes.data for b in back])
    )
    start = (ctypes.c_size_t * 1)(0)
    name = "aclrtMemcpyBatchAsync" if asynchronous else "aclrtMemcpyBatch"
    stream = (None,) if asynchronous else ()
    copy = getattr(cann, name)
    copy(blocks_, sizes, sources_, sizes, 3, there, start, 1, ctypes.byref(failed), *stream)
    copy(back_, sizes, blocks_, sizes, 3, here, start, 1, ctypes.byref(failed), *stream)
    cann.aclrtSynchronizeDevice()
    assert failed.value == (1 << 64) - 1
    for source, found in zip(sources, back):
        assert found.tolist() == source.tolist()
    blocks_[1] = blocks[1] + 60
    error = cann.failure(name, blocks_, sizes, sources_, sizes, 3, there, start, 1, ctypes.byref(failed), *stream)
    assert (error.error, failed.value) == ("EMULATOR_OUT_OF_BOUNDS", 1)
    cann.aclrtSynchronizeDevice()  # the copy before it is on its way
    for block in blocks:
        cann.aclrtFree(block)


@client(ASCEND_EMULATOR_CANN="8.5.0")
def test_batches_of_copies(cann: Cann) -> None:
    run_batch(cann, False)
    run_batch(cann, True)


@client(ASCEND_EMULATOR_CANN="8.5.0")
def test_limits_of_resources(cann: Cann) -> None:
    value, stream = ctypes.c_uint32(), cann.create("aclrtCreateStream")
    cann.aclrtGetDeviceResLimit(0, 0, ctypes.byref(value))
    assert value.value == 24
    cann.aclrtSetDeviceResLimit(0, 0, 12)
    cann.aclrtSetStreamResLimit(stream, 1, 8)
    for name, arguments, expected in (
        ("aclrtGetDeviceResLimit", (0, 0), 12),
        ("aclrtGetStreamResLimit", (stream, 0), 12),
        ("aclrtGetStreamResLimit", (stream, 1), 8),
        ("aclrtGetResInCurrentThread", (1,), 48),
    ):
        getattr(cann, name)(*arguments, ctypes.byref(value))
        assert value.value == expected, name
    cann.aclrtUseStreamResInCurrentThread(stream)
    cann.aclrtGetResInCurrentThread(1, ctypes.byref(value))
    assert value.value == 8
    cann.aclrtUnuseStreamResInCurrentThread(stream)
    cann.aclrtResetDeviceResLimit(0)
    cann.aclrtGetDeviceResLimit(0, 0, ctypes.byref(value))
    assert value.value == 24
    assert cann.failure("aclrtSetDeviceResLimit", 0, 0, 25).status == 107000
    cann.aclrtDestroyStream(stream)


@client(ASCEND_EMULATOR_CANN=NEWEST, ASCEND_ACLNN_SOC="Ascend950PR_9579")
def test_asking_for_an_errors_details_leaves_its_text(cann: Cann) -> None:
    assert cann._function("aclrtMalloc")(None, 64, 0) == 107000
    information = ctypes.create_string_buffer(8192)
    assert cann._function("aclrtGetErrorVerbose")(0, information) == 0
    assert cann.message().startswith("aclrtMalloc: devPtr is a null pointer")


@client()
def test_what_is_refused_is_an_error_for_every_client(cann: Cann) -> None:
    """torch_npu takes 207000 for a warning."""
    error = cann.failure("aclrtMemUceRepair", 0, None, 0)
    assert (error.status, error.error) == (200006, "EMULATOR_NOT_SUPPORTED")
    assert cann.failure("aclrtPeekAtLastError", 0).status == 200006


@client(ASCEND_EMULATOR_CANN=NEWEST, ASCEND_EMULATOR_DEVICES="4", ASCEND_RT_VISIBLE_DEVICES="1,3")
def test_numbers_of_devices_are_told_in_other_terms(cann: Cann) -> None:
    """The program's own numbers are places in ASCEND_RT_VISIBLE_DEVICES; outside of containers there are no others.

    Where a name has both LogicDevId and PhyDevId, the former is the program's number, as CANN's document says.
    """
    number = ctypes.c_int32(9)
    to_logic = ["LogicDevIdByUserDevId", "PhyDevIdByLogicDevId", "PhyDevIdByUserDevId"]
    to_user = ["UserDevIdByLogicDevId", "LogicDevIdByPhyDevId", "UserDevIdByPhyDevId"]
    for names, pairs, wrong in ((to_logic, [(0, 1), (1, 3)], 2), (to_user, [(1, 0), (3, 1)], 0)):
        for name in [f"aclrtGet{name}" for name in names]:
            for argument, expected in pairs:
                getattr(cann, name)(argument, ctypes.byref(number))
                assert number.value == expected, name
            error = cann.failure(name, wrong, ctypes.byref(number))
            assert error.status == 107001, error
            assert f"is {wrong}, which is none of the 2 devices" in error.message
            error = cann.failure(name, -1, ctypes.byref(number))
            assert error.status == 107000 and "is -1; it must not be negative" in error.message, error
            assert cann.failure(name, 1, None).status == 107000


def count_devices(cann: Cann) -> None:
    """The variable is set after the libraries were asked for their version, as by a program that imports torch first."""
    text = ctypes.create_string_buffer(2048)
    cann.aclsysGetCANNVersion(0, text)
    ctypes.CDLL(None).setenv(b"ASCEND_RT_VISIBLE_DEVICES", b"1", 1)
    count = ctypes.c_uint32()
    cann.aclrtGetDeviceCount(ctypes.byref(count))
    assert count.value == 1


def test_visible_devices_count_when_devices_are_first_asked_for(emulator_home: Path) -> None:
    code = (
        f"import sys; sys.path.append({str(Path(__file__).parent)!r})\n"
        "import emulator_client, test_newer_functions as t; t.count_devices(emulator_client.Cann(False))"
    )
    done = subprocess.run([sys.executable, "-c", code], env=environment(emulator_home), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


# ------------------------------------------------------------------------------------------------- registered host memory


def at(address: int, count: int) -> np.ndarray:
    """Host memory at an address."""
    return np.frombuffer((ctypes.c_float * count).from_address(address), np.float32)


def negate_at(cann: Cann, address: int, count: int) -> None:
    x = cann.describe((count,), np.float32, address)
    cann.run("aclnnNeg", x, x)
    cann.aclDestroyTensor(x)


@client(ASCEND_EMULATOR_CANN=NEWEST)
def test_operators_work_on_registered_host_memory(cann: Cann) -> None:
    count = 3000  # three pages, the last one not full
    host, mapped = cann.create("aclrtMallocHost", 4 * count), ctypes.c_void_p()
    at(host, count)[:] = np.arange(count)
    x = cann.describe((count,), np.float32, host)
    executor, size = cann.prepare("aclnnNeg", x, x)
    workspace = cann.malloc(max(size, 1))
    error = cann.failure("aclnnNeg", workspace, size, executor, None)  # pinned memory alone is not the device's
    assert (error.status, error.error) == (161002, "EMULATOR_INVALID_ADDRESS")
    assert "aclrtHostGetDevicePointer" in error.message
    cann.aclDestroyTensor(x)
    cann.aclrtFree(workspace)
    cann.aclrtHostRegister(host, 4 * count, 0, ctypes.byref(mapped))
    assert cann.failure("aclrtHostRegister", host, 4 * count, 0, ctypes.byref(ctypes.c_void_p())).status == 507910
    assert mapped.value is not None
    found = ctypes.c_void_p()
    cann.aclrtHostGetDevicePointer(host + 400, ctypes.byref(found), 0)
    assert found.value == mapped.value + 400
    negate_at(cann, mapped.value, count)
    assert at(host, count).tolist() == (-np.arange(count)).tolist()
    at(host, count)[:] = 5  # the host's writes reach the device
    negate_at(cann, mapped.value + 400, 10)
    assert at(host, 111).tolist() == [5] * 100 + [-5] * 10 + [5]
    assert cann.live("allocation") == 0
    cann.aclrtHostUnregister(host)
    x = cann.describe((count,), np.float32, mapped.value)
    executor, size = cann.prepare("aclnnNeg", x, x)
    workspace = cann.malloc(max(size, 1))
    assert cann.failure("aclnnNeg", workspace, size, executor, None).error == "EMULATOR_USE_AFTER_FREE"
    cann.aclDestroyTensor(x)
    cann.aclrtFree(workspace)
    assert at(host, 111).tolist() == [5] * 100 + [-5] * 10 + [5]  # private again
    assert "ascend-host-memory" not in Path("/proc/self/maps").read_text()
    cann.aclrtFreeHost(host)


@client(ASCEND_EMULATOR_CANN=NEWEST)
def test_memory_of_the_program_is_mapped_where_it_can_be(cann: Cann) -> None:
    import mmap
    import tempfile

    found = ctypes.c_void_p()
    private = mmap.mmap(-1, 2 * mmap.PAGESIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    address = ctypes.addressof(ctypes.c_char.from_buffer(private))
    at(address, 4)[:] = np.arange(4)
    cann.aclrtHostRegisterV2(address, 2 * mmap.PAGESIZE, 2)
    cann.aclrtHostGetDevicePointer(address, ctypes.byref(found), 0)
    assert found.value is not None
    negate_at(cann, found.value, 4)
    assert at(address, 4).tolist() == [0, -1, -2, -3]
    cann.aclrtResetDevice(0)  # takes the mapping away
    assert "ascend-host-memory" not in Path("/proc/self/maps").read_text()
    assert at(address, 4).tolist() == [0, -1, -2, -3]
    cann.aclrtSetDevice(0)
    cann.aclrtHostUnregister(address)
    # A file's pages stay the file's.
    with tempfile.TemporaryFile() as file:
        file.truncate(2 * mmap.PAGESIZE)
        shared = mmap.mmap(file.fileno(), 2 * mmap.PAGESIZE)
        address = ctypes.addressof(ctypes.c_char.from_buffer(shared))
        cann.aclrtHostRegister(address, 2 * mmap.PAGESIZE, 0, ctypes.byref(found))
        assert found.value == address
        at(address, 1)[:] = 3
        cann.aclrtHostUnregister(address)
        assert np.frombuffer(os.pread(file.fileno(), 4, 0), np.float32).tolist() == [3]


# ---------------------------------------------------------------------------------------- values in memory, hints, aborting


def value_at(cann: Cann, address: int) -> int:
    out = np.zeros(1, np.uint64)
    cann.aclrtMemcpy(out.ctypes.data, 8, address, 8, D2H)
    return int(out[0])


@client(ASCEND_EMULATOR_CANN=NEWEST)
def test_streams_wait_for_values(cann: Cann) -> None:
    block = cann.malloc(64)
    cann.aclrtMemset(block, 64, 0, 64)
    waiting, writing = cann.create("aclrtCreateStream"), cann.create("aclrtCreateStream")
    status = ctypes.c_int32()
    # What the value is at first, what is waited for and how, and a value that satisfies it.
    for first, value, flag, last in ((4, 5, 0, 5), ((1 << 63) + 5, 1, 0, 7), (0, 9, 1, 9), (2, 1, 2, 3), (-1, 0, 3, 1)):
        cann.aclrtValueWrite(block, first % (1 << 64), 0, writing)
        cann.aclrtSynchronizeStream(writing)
        cann.aclrtValueWait(block, value, flag, waiting)
        cann.aclrtValueWrite(block + 8, 100 + flag, 0, waiting)
        cann.aclrtStreamQuery(waiting, ctypes.byref(status))
        assert status.value != 0, flag
        assert cann.failure("aclrtFree", block).error == "EMULATOR_FREE_IN_USE"
        cann.aclrtValueWrite(block, last, 0, writing)
        cann.aclrtSynchronizeStream(waiting)
        assert (value_at(cann, block), value_at(cann, block + 8)) == (last, 100 + flag)
    for name, arguments in (
        ("aclrtValueWrite", (block + 4, 0, 0, None)),
        ("aclrtValueWrite", (block, 0, 1, None)),
        ("aclrtValueWait", (block, 0, 4, None)),
        ("aclrtValueWait", (block + 64, 0, 0, None)),
    ):
        assert cann.failure(name, *arguments).status == 107000
    for stream in (waiting, writing):
        cann.aclrtDestroyStream(stream)
    cann.aclrtFree(block)


@client()
def test_a_cache_hint_needs_memory_and_does_nothing(cann: Cann) -> None:
    block = cann.malloc(64)
    cann.aclrtCmoAsync(block, 64, 0, None)
    assert cann.failure("aclrtCmoAsync", block, 65, 0, None).error == "EMULATOR_OUT_OF_BOUNDS"
    assert cann.failure("aclrtCmoAsync", block, 64, 3, None).status == 107000
    cann.aclrtFree(block)


def drop_launches(cann: Cann, stream: int) -> None:
    """Matrix products that take a while, and behind them, in the device process's hands already, many additions."""
    x, product = (cann.tensor(np.ones((1500, 1500), np.float32)) for _ in range(2))
    counter, one = cann.tensor(np.zeros(16, np.float32)), cann.tensor(np.ones(16, np.float32))
    unit = ctypes.c_float(1)
    scale = cann.aclCreateScalar(ctypes.byref(unit), 0)
    workspace = cann.malloc(1 << 20)

    def launch(products: int, additions: int) -> None:
        for _ in range(products):
            executor, size = cann.prepare("aclnnMm", x, x, product, 0)
            cann.aclnnMm(workspace, size, executor, stream)
        for _ in range(additions):
            executor, size = cann.prepare("aclnnInplaceAdd", counter, one, scale)
            cann.aclnnInplaceAdd(workspace, size, executor, stream)

    products, launched = 10, 0
    while cann.read(counter)[0] == launched:  # until they take longer than launching does
        products, launched = 2 * products, launched + 100
        launch(products, 100)
        cann.aclrtDeviceTaskAbort(0, 0)
        cann.aclrtSynchronizeStream(stream)  # the device is as new
    before = cann.read(counter)[0]
    assert before < launched
    launch(1, 3)  # nobody aborts
    cann.aclrtSynchronizeStream(stream)
    assert cann.read(counter)[0] == before + 3
    assert cann.read(product)[0, 0] == 1500
    cann.aclDestroyScalar(scale)
    cann.aclrtFree(workspace)
    for tensor in (x, product, counter, one):
        cann.drop(tensor)


@client(ASCEND_EMULATOR_CANN=NEWEST)
def test_aborting_drops_what_is_queued_and_the_device_goes_on(cann: Cann) -> None:
    block = cann.malloc(64)
    cann.aclrtMemset(block, 64, 0, 64)
    first, second = cann.create("aclrtCreateStream"), cann.create("aclrtCreateStream")
    event = cann.create("aclrtCreateEventExWithFlag", 1)
    cann.aclrtValueWait(block, 1, 1, second)  # for ever
    cann.aclrtRecordEvent(event, second)
    cann.aclrtStreamWaitEvent(first, event)
    cann.aclrtValueWrite(block + 8, 5, 0, first)
    told: list[int] = []

    def wait() -> None:
        cann.aclrtSetDevice(0)
        told.append(cann.failure("aclrtSynchronizeStream", second).status)

    waiting = threading.Thread(target=wait)
    waiting.start()
    while not told:  # until it waits: who does not wait is not told
        time.sleep(0.2)
        cann.aclrtValueWait(block, 1, 1, second)
        cann.aclrtDeviceTaskAbort(0, 0)
    waiting.join()
    assert told == [107022]
    for stream in (first, second):
        cann.aclrtSynchronizeStream(stream)
    assert value_at(cann, block + 8) == 0
    cann.aclrtValueWrite(block + 8, 6, 0, first)
    cann.aclrtSynchronizeStream(first)
    assert value_at(cann, block + 8) == 6
    cann.aclrtFree(block)
    drop_launches(cann, first)
    cann.aclrtDeviceTaskAbort(0, 1000)  # nothing is queued: nobody is told
    cann.aclrtSynchronizeDevice()
    cann.aclrtDestroyEvent(event)
    for stream in (first, second):
        cann.aclrtDestroyStream(stream)
