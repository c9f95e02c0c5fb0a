"""Every function of the runtime after the device process was killed: what answers that the device is lost, and why others do not.

The runtime's functions are those that the emulator's sources implement. Each stands in one of the tables, so that a new one
cannot be forgotten.
"""

from __future__ import annotations

import ctypes
import os
import re
import threading
from typing import Any

import numpy as np
from emulator_client import D2D, H2D, NEWEST, Cann, CannError, Location, Property, client
from graph_client import RELAXED, create_event, end
from process_tools import kill

from ascend_aclnn.emulator.build import headers
from ascend_aclnn.emulator.build.generated import emulated_functions

PAGE = 2 << 20

# A line is a function and its arguments: numbers, and things that Bench has. Each call succeeds while the device lives.

# What uses, makes or asks about something of the device, or waits for it.
ANSWERS = """
aclmdlRIBuildBegin out 0
aclmdlRICaptureBegin stream relaxed
aclmdlRICaptureEnd capturing out
aclmdlRIExecute model 1000
aclrtCreateContext out 0
aclrtCreateEvent out
aclrtCreateEventExWithFlag out 1
aclrtCreateEventWithFlag out 1
aclrtCreateNotify out 0
aclrtCreateStream out
aclrtCreateStreamV2 out stream_config
aclrtCreateStreamWithConfig out 0 1
aclrtEventElapsedTime out recorded recorded
aclrtEventGetTimestamp recorded out
aclrtFreeHostWithDevSync pinned
aclrtFreeWithDevSync block
aclrtGetMemInfo 1 out out
aclrtGetMemUsageInfo 0 out 2 out
aclrtHostRegister host 4096 0 out
aclrtHostRegisterV2 host 4096 2
aclrtIpcGetEventHandle shared_event out
aclrtIpcMemGetExportKey block 4096 out 65 0
aclrtIpcMemImportByKey out key 0
aclrtMalloc out 32 0
aclrtMallocAlign32 out 32 0
aclrtMallocCached out 32 0
aclrtMallocPhysical out page property 0
aclrtMallocWithCfg out 32 0 0
aclrtMapMem reserved page 0 physical 0
aclrtMemExportToShareableHandle physical 0 0 out
aclrtMemExportToShareableHandleV2 physical 0 1 out
aclrtMemFlush block 64
aclrtMemInvalidate block 64
aclrtMemcpy block 16 block 16 d2d
aclrtMemcpy2d block 16 host 16 16 4 h2d
aclrtMemcpyBatch blocks sizes hosts sizes 1 attributes zeros 1 out
aclrtMemcpyBatchV2 blocks sizes hosts sizes 1 attributes zeros 1
aclrtMemset block 16 1 16
aclrtNotifyBatchReset notifies 1
aclrtQueryEvent recorded out
aclrtQueryEventStatus recorded out
aclrtQueryEventWaitStatus recorded out
aclrtStreamQuery stream out
aclrtSynchronizeDevice
aclrtSynchronizeDeviceWithTimeout 1000
aclrtSynchronizeEvent recorded
aclrtSynchronizeEventWithTimeout recorded 1000
aclrtSynchronizeStream stream
aclrtSynchronizeStreamWithTimeout stream 1000
"""

# What is queued on a stream: it is refused, or the next wait for the stream is.
QUEUED = """
aclmdlRIExecuteAsync model stream
aclnnAbs workspace 4096 executor stream
aclrtCmoAsync block 64 0 stream
aclrtLaunchCallback function 0 0 subscribed
aclrtLaunchHostFunc stream function 0
aclrtMemcpy2dAsync block 16 pinned 16 16 4 h2d stream
aclrtMemcpyAsync block 16 block 16 d2d stream
aclrtMemcpyAsyncWithCondition block 16 block 16 d2d stream
aclrtMemcpyBatchAsync blocks sizes hosts sizes 1 attributes zeros 1 out stream
aclrtMemcpyBatchAsyncV2 blocks sizes hosts sizes 1 attributes zeros 1 stream
aclrtMemsetAsync mapped 16 1 16 stream
aclrtRecordEvent event stream
aclrtRecordEventWithFlag event stream 0
aclrtRecordNotify notify stream
aclrtResetEvent recorded stream
aclrtStreamWaitEvent stream recorded
aclrtStreamWaitEventWithTimeout stream recorded 1000
aclrtValueWait zeroed 0 0 stream
aclrtValueWrite block 7 0 stream
aclrtWaitAndResetNotify recorded_notify stream 1000
"""

# What lets go of something succeeds.
RELEASES = """
aclDestroyAclOpExecutor executor
aclmdlRIDestroy model
aclrtDestroyContext context
aclrtDestroyEvent event
aclrtDestroyNotify notify
aclrtDestroyStream stream
aclrtDestroyStreamForce stream
aclrtFree block
aclrtFreeHost pinned
aclrtFreePhysical physical
aclrtHostUnregister registered
aclrtIpcMemClose key
aclrtReleaseMemAddress reserved
aclrtUnmapMem mapped
"""

# Why the others do not answer so: patterns of whole names.
OTHERS = {
    "computes, describes or keeps something in the program's memory": (
        "acl(Create|Destroy|Get|InitTensor|Set|Update)(?!.*Executor|RecentErrMsg).*|AclSet.*Addr|aclFloat.*|aclDataTypeSize|aclAppLog|aclsysGet.*"
        "|aclrtAllocator.*|aclrtGet.*FromExceptionInfo|aclrt(Create|Destroy|Set)StreamConfig.*|aclrt(Create|Destroy)Binary"
    ),
    "settings of the process or of a handle, which a new device process has too": (
        "aclrt(Ctx)?[GS]etSysParamOpt|aclrtSetOp.*TimeOut.*|aclrtSetOpWaitTimeout|aclrtGetOpExecuteTimeout|aclrt[GS]etDeviceSatMode"
        "|aclrtSetExceptionInfoCallback|aclrtSetTsDevice|aclrt[GS]etStream(Attribute|OverflowSwitch)|aclrtSetStreamFailureMode"
        "|aclrt((Get|Set|Reset)(Device|Stream)ResLimit|(Use|Unuse)StreamResInCurrentThread|GetResInCurrentThread)"
        "|aclSetAclOpExecutorRepeatable|aclrtDevice(EnablePeerAccess|DisablePeerAccess|PeerAccessStatus|CanAccessPeer)"
        "|aclrtMem[GS]etAccess|aclrt(Ipc|)Mem(Set|)(Import|SetPid).*Pid|aclrtMemSetPid.*|aclmdlRICaptureThreadExchangeMode"
    ),
    "says what the host or the program has: numbers, names, kinds of memory": (
        "aclrtGet(RunMode|SocName|Version|Device|DeviceCount|DeviceInfo|CurrentContext|PrimaryCtxState|EventId|NotifyId)"
        "|aclrtGet(EventAvailNum|StreamAvailableNum|MemUceInfo|DeviceUtilizationRate)|aclrtGet(Logic|User|Phy)DevIdBy.*"
        "|aclrtDeviceGet(BareTgid|Uuid)|aclrtStreamGet.*|aclrtCtxGetCurrentDefaultStream|aclrtMemGetAllocationGranularity"
        "|aclrtPointerGetAttributes|aclrtHostGetDevicePointer"
    ),
    "reports the state or the last error itself": (
        "aclrtQueryDeviceStatus|aclrt(Peek|Get)(At)?LastError|aclrtGetErrorVerbose|aclGetRecentErrMsg"
    ),
    "begins, resets or ends the device or the process; test_processes.py": (
        "aclInit|aclFinalize(Reference)?|aclnn(Init|Finalize)|aclrt(Set|Reset)Device|aclrtResetDeviceForce|aclrtDeviceTaskAbort"
        "|aclrtSetCurrentContext"
    ),
    "memory and callbacks of the host": "aclrtMallocHost(WithCfg)?|aclrt(Un)?SubscribeReport|aclrtProcessReport",
    "addresses without memory": "aclrtReserveMemAddress",
    "what another process has exported; test_sharing.py": "aclrtMemImportFromShareableHandle(V2)?|aclrtIpcOpenEventHandle",
    "builds, lists or edits a graph in the program's memory; what runs it answers": (
        "aclmdlRI(Abort|AddCondTask|BindStream|BuildEnd|CaptureGetInfo|CaptureTask.*|CaptureToModelRIBegin|CondHandle.*|Debug.*)"
        "|aclmdlRI(DestroyRegisterCallback|DestroyUnregisterCallback|EndTask|Get.*|KernelTask.*|SetName|Task.*|UnbindStream|Update)"
    ),
    "finds the kernels of a binary in the program's memory; most launches break their stream with the kernel's name": (
        "aclrtBinary.*|aclrtLaunchKernel.*|aclrtGetHardwareSyncAddr"
    ),
}


class Bench:
    """Makes what a word of the tables names, anew for each call."""

    page, d2d, h2d, relaxed = PAGE, D2D, H2D, RELAXED

    def __init__(self, cann: Cann) -> None:
        self.cann = cann
        self.alive: list[Any] = []  # memory that calls refer to
        self.latest_stream = 0

    def arguments(self, words: list[str]) -> list[Any]:
        values = [int(word) if word.isdigit() else getattr(self, word) for word in words]
        return [value() if callable(value) else value for value in values]

    def address(self, value: Any) -> int:
        self.alive.append(value)
        return ctypes.addressof(value)

    # -- memory of the host
    def out(self) -> int:
        return self.address(ctypes.create_string_buffer(1024))

    zeros = out

    def host(self) -> int:
        memory = np.zeros(8192, np.uint8)
        self.alive.append(memory)
        return int(memory.ctypes.data + 4095) // 4096 * 4096

    def function(self) -> Any:
        callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: None)
        self.alive.append(callback)
        return ctypes.cast(callback, ctypes.c_void_p)

    def pinned(self) -> int:
        return self.cann.create("aclrtMallocHost", 4096)

    def registered(self) -> int:
        host = self.host()
        self.cann.aclrtHostRegister(host, 4096, 0, self.out())
        return host

    def property(self) -> int:
        return self.address(Property(0, 0, 4, Location(0, 1), 0))

    # -- batches of one copy
    def blocks(self) -> int:
        return self.address((ctypes.c_void_p * 1)(self.block()))

    def hosts(self) -> int:
        return self.address((ctypes.c_void_p * 1)(self.pinned()))

    def sizes(self) -> int:
        return self.address((ctypes.c_size_t * 1)(16))

    def attributes(self) -> int:
        return self.address((Location * 6)(Location(0, 1), Location(0, 0)))

    # -- streams and events
    def stream(self) -> int:
        self.latest_stream = self.cann.create("aclrtCreateStream")
        return self.latest_stream

    def stream_config(self) -> int:
        return int(self.cann.aclrtCreateStreamConfigHandle())

    def event(self) -> int:
        return create_event(self.cann)

    def recorded(self) -> int:
        event = self.cann.create("aclrtCreateEventWithFlag", 8 | 1)
        self.cann.aclrtRecordEvent(event, None)
        self.cann.aclrtSynchronizeStream(None)
        return event

    def shared_event(self) -> int:
        return self.cann.create("aclrtCreateEventExWithFlag", 64)

    def notify(self) -> int:
        return self.cann.create("aclrtCreateNotify", 0)

    def subscribed(self) -> int:
        """A stream whose callbacks this thread would run."""
        stream = self.stream()
        self.cann.aclrtSubscribeReport(threading.get_ident(), stream)
        return stream

    def recorded_notify(self) -> int:
        notify = self.notify()
        self.cann.aclrtRecordNotify(notify, None)
        return notify

    def notifies(self) -> int:
        return self.address(ctypes.c_void_p(self.notify()))

    def context(self) -> int:
        """Made current by its creation, so the one before it is set again."""
        before = self.cann.create("aclrtGetCurrentContext")
        context = self.cann.create("aclrtCreateContext", 0)
        self.cann.aclrtSetCurrentContext(before)
        return context

    # -- memory of the device
    def block(self) -> int:
        return self.cann.malloc(4096)

    workspace = block

    def zeroed(self) -> int:
        block = self.block()
        self.cann.aclrtMemset(block, 4096, 0, 4096)
        return block

    def physical(self) -> int:
        return self.cann.create("aclrtMallocPhysical", PAGE, self.property(), 0)

    def reserved(self) -> int:
        return self.cann.create("aclrtReserveMemAddress", PAGE, 0, None, 0)

    def mapped(self) -> int:
        base = self.reserved()
        self.cann.aclrtMapMem(base, PAGE, 0, self.physical(), 0)
        return base

    def key(self) -> int:
        """Of memory that is shared within the process."""
        key = self.out()
        self.cann.aclrtIpcMemGetExportKey(self.block(), 4096, key, 65, 1)
        return key

    # -- operators and graphs
    def executor(self) -> int:
        tensor = self.cann.describe((4,), np.float32, self.zeroed())
        return self.cann.prepare("aclnnAbs", tensor, tensor)[0]

    def capturing(self) -> int:
        stream = self.stream()
        self.cann.aclmdlRICaptureBegin(stream, RELAXED)
        self.cann.aclrtMemsetAsync(self.block(), 16, 1, 16, stream)
        return stream

    def model(self) -> int:
        return end(self.cann, self.capturing())


def rows(table: str) -> list[list[str]]:
    return [line.split() for line in table.strip().splitlines()]


def test_every_function_stands_in_one_table() -> None:
    runtime = {
        name
        for name, row in headers.runtime_functions().items()
        if name in emulated_functions() and row["library"] in ("libascendcl.so", "libacl_rt.so", "libnnopbase.so")
    }
    called = {row[0] for table in (ANSWERS, QUEUED, RELEASES) for row in rows(table)} - {"aclnnAbs"}
    places = {
        name: (name in called) + sum(re.fullmatch(pattern, name) is not None for pattern in OTHERS.values())
        for name in runtime | called
    }
    assert {name: count for name, count in places.items() if count != 1} == {}
    assert called <= runtime


@client(ASCEND_EMULATOR_CANN=NEWEST, ASCEND_EMULATOR_LEAKS="0")
def test_a_killed_device_is_an_error_of_every_call(cann: Cann) -> None:
    bench = Bench(cann)
    tables = {"answers": ANSWERS, "queued": QUEUED, "releases": RELEASES}
    calls = [(kind, name, words) for kind, table in tables.items() for name, *words in rows(table)]
    for _, name, words in calls:
        getattr(cann, name)(*bench.arguments(words))
        if name == "aclmdlRICaptureBegin":
            end(cann, bench.latest_stream)
    late = [(kind, name, bench.arguments(words), bench.latest_stream) for kind, name, words in calls]
    kill(cann.device_pid())
    wrong = {}
    for kind, name, arguments, stream in late:
        try:
            getattr(cann, name)(*arguments)
            if kind == "queued":
                cann.aclrtSynchronizeStream(stream)
            text = "0"
        except CannError as error:
            text = f"{error.status}: {error.message.splitlines()[:1]}"
        if ("507899: ['EMULATOR_DEVICE_LOST" not in text) if kind != "releases" else text != "0":
            wrong[name] = text
    assert wrong == {}, wrong
    os._exit(0)  # what the calls have made is alive
