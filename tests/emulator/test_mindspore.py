"""What MindSpore 2.10 asks of CANN beside operators, and itself, where ASCEND_ACLNN_MINDSPORE names a Python that has it."""

from __future__ import annotations

import ctypes
import mmap
import os
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from emulator_client import Cann, CannError, client
from ports import free_port

from ascend_aclnn.cli.emulator import environment
from ascend_aclnn.emulator.build import build, emulated_functions, headers

CLIENTS = Path(__file__).parent / "clients"
ROOT = Path(__file__).parents[2]


# ---------------------------------------------------------------------------------------------------------- the runtime


def test_the_overflow_mode_is_the_processs(emulator_home: Path) -> None:
    """MindSpore sets it before it has a device."""
    code = """if True:
        import ctypes
        runtime = ctypes.CDLL("libascendcl.so")
        mode = ctypes.c_int32(9)
        def get():
            assert runtime.aclrtGetDeviceSatMode(ctypes.byref(mode)) == 0
            return mode.value
        assert get() == 1
        assert runtime.aclrtSetDeviceSatMode(0) == 0 and get() == 0
        assert runtime.aclrtSetDeviceSatMode(2) == 107000 and get() == 0
        assert runtime.aclInit(None) == 0
        for device in (0, 1):
            assert runtime.aclrtSetDevice(device) == 0 and get() == 0
        assert runtime.aclrtSetDeviceSatMode(1) == 0 and get() == 1
        assert runtime.aclrtResetDevice(1) == 0 and runtime.aclrtResetDevice(0) == 0
        assert get() == 1
    """
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(emulator_home), capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr


CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


@client()
def test_a_program_is_told_what_failed(cann: Cann) -> None:
    told: list[tuple[int, ...]] = []
    getters = [
        cann._function(f"aclrtGet{part}FromExceptionInfo")
        for part in ("ErrorCode", "StreamId", "DeviceId", "ThreadId", "TaskId")
    ]
    for getter in getters:
        getter.restype, getter.argtypes = ctypes.c_uint32, [ctypes.c_void_p]
    callback = CALLBACK(lambda info: told.append(tuple(getter(info) for getter in getters)))
    cann.aclrtSetExceptionInfoCallback(callback)
    assert [getter(None) for getter in getters] == [0xFFFFFFFF] * 5

    table, out = cann.tensor(np.ones((3, 2), np.float32)), cann.tensor(np.zeros((1, 2), np.float32))
    good, bad = (cann.tensor(np.array([value], np.int64)) for value in (2, 99))
    stream = cann.create("aclrtCreateStream")
    number = ctypes.c_int32()
    cann.aclrtStreamGetId(stream, ctypes.byref(number))

    def look_up(indices: Any) -> int:
        executor, size = cann.prepare("aclnnEmbedding", table, indices, out)
        try:
            cann.launch("aclnnEmbedding", executor, size, stream)
            cann.aclrtSynchronizeStream(stream)
        except CannError as error:
            assert "99" in error.message
            return error.status
        return 0

    assert look_up(good) == 0 and told == []
    status = look_up(bad)
    assert status != 0
    assert told == [(status, number.value, 0, threading.get_native_id(), told[0][4])]
    cann.aclrtSetExceptionInfoCallback(None)
    assert look_up(bad) != 0 and len(told) == 1
    cann.aclrtDestroyStream(stream)


@client()
def test_the_driver_registers_host_memory(cann: Cann) -> None:
    driver = ctypes.CDLL("libascend_hal.so")
    driver.halHostRegister.argtypes = [
        ctypes.c_void_p,
        ctypes.c_uint64,
        ctypes.c_uint32,
        ctypes.c_uint32,
        ctypes.c_void_p,
    ]
    driver.halHostUnregister.argtypes = [ctypes.c_void_p, ctypes.c_uint32]
    size = 2 * mmap.PAGESIZE
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    host = np.frombuffer(memory, np.float32)
    address, mapped = host.ctypes.data, ctypes.c_void_p()

    def register(where: Any, flag: int, device: int, result: Any) -> int:
        status: int = driver.halHostRegister(where, size, flag, device, result)
        return status

    assert register(None, 3, 0, ctypes.byref(mapped)) == 3  # DRV_ERROR_INVALID_VALUE
    assert register(address, 3, 0, None) == 3
    assert register(address, 2, 0, ctypes.byref(mapped)) == 0xFFFE  # DEV_SVM_MAP_HOST: not supported
    assert register(address, 3, 1, ctypes.byref(mapped)) == 2  # not this thread's device
    for flag in (0, 1, 3):
        assert register(address, flag, 0, ctypes.byref(mapped)) == 0
        host[:] = flag + 1
        x = cann.tensor(np.zeros(4, np.float32))
        operand = cann.describe((4,), np.float32, mapped.value)
        cann.run("aclnnInplaceCopy", x, operand)
        cann.aclDestroyTensor(operand)
        np.testing.assert_array_equal(cann.read(x), np.full(4, flag + 1, np.float32))
        assert driver.halHostUnregister(address, 0) == 0
        assert driver.halHostUnregister(address, 0) != 0
    cann.message()


@client()
def test_allocators_of_streams(cann: Cann) -> None:
    setters = ("Obj", "AllocFunc", "FreeFunc", "GetAddrFromBlockFunc", "AllocAdviseFunc")
    cann._function("aclrtAllocatorCreateDesc").restype = ctypes.c_void_p
    stream = cann.create("aclrtCreateStream")
    allocator = cann._function("aclrtAllocatorCreateDesc")()
    for setter in setters:
        if setter != "AllocAdviseFunc":  # all others are needed
            assert cann.failure("aclrtAllocatorRegister", stream, allocator).status == 100000
        assert cann.failure(f"aclrtAllocatorSet{setter}ToDesc", allocator, None).status == 107000
        getattr(cann, f"aclrtAllocatorSet{setter}ToDesc")(allocator, 0x1000)
    assert cann.failure("aclrtAllocatorRegister", None, allocator).status == 107000
    for _ in range(2):  # the second takes the place of the first
        cann.aclrtAllocatorRegister(stream, allocator)
    assert cann.live("allocator") == 1
    cann.aclrtAllocatorDestroyDesc(allocator)
    cann.aclrtAllocatorUnregister(stream)
    cann.aclrtAllocatorUnregister(stream)
    assert cann.failure("aclrtAllocatorDestroyDesc", allocator).status != 0
    cann.aclrtDestroyStream(stream)


@client()
def test_channels_and_offline_models_are_refused(cann: Cann) -> None:
    channels = ctypes.CDLL("libacl_tdt_channel.so")
    channels.acltdtCreateChannelWithCapacity.restype = ctypes.c_void_p
    assert channels.acltdtCreateChannelWithCapacity(0, b"log", ctypes.c_size_t(8)) is None
    assert "acltdtCreateChannelWithCapacity" in cann.message()
    assert ctypes.CDLL("libacl_tdt_queue.so").acltdtCreateQueue(None, None) == 200006
    assert "acltdtCreateQueue" in cann.message()
    assert cann.failure("aclmdlExecute", 0, None, None).status == 200006


@client()
def test_settings_of_sampling_are_taken(cann: Cann) -> None:
    prof = ctypes.CDLL("libascendcl.so").aclprofSetConfig
    prof.argtypes = [ctypes.c_int32, ctypes.c_char_p, ctypes.c_size_t]
    assert prof(1, b"200MB", 5) == 0
    for arguments, text in (
        ((1, None, 5), "config"),
        ((1, b"200MB", 9), "9 bytes"),
        ((11, b"x", 1), "allowed: 1 to 10"),
    ):
        assert prof(*arguments) != 0
        assert text in cann.message()


# ----------------------------------------------------------------------------------------------------- the graph engine

PROGRAM = r"""
#include <cstdint>
#include <cstdio>
#include <map>
#include <functional>
#include <stdexcept>
#include <string>

namespace ge {
class Operator;
class AscendString;
class StatusFactory {  // its methods are inline in CANN's header, too, so programs and the library share the map's layout
 public:
  static StatusFactory *Instance();
  void add(uint32_t status, const std::string &text) { if (texts_.find(status) == texts_.end()) texts_[status] = text; }
  std::string get(uint32_t status) { auto found = texts_.find(status); return found == texts_.end() ? "" : found->second; }
 private:
  std::map<uint32_t, std::string> texts_;
};
class OperatorFactory {
 public:
  static bool IsExistOp(const char *type);
  static bool IsExistOp(const std::string &type);
};
class InferShapeFuncRegister {
 public:
  InferShapeFuncRegister(const std::string &type, const std::function<uint32_t(Operator &)> &function);
};
class Session {
 public:
  uint32_t RemoveGraph(uint32_t number);
};
uint32_t GEInitialize(const std::map<std::string, std::string> &options);
}

static ge::InferShapeFuncRegister registered("MyType", [](ge::Operator &) -> uint32_t { return 0; });

int main() {
  for (uint32_t i = 0; i < 1000; i++) ge::StatusFactory::Instance()->add(i * 7919 % 1000, "text " + std::to_string(i));
  ge::StatusFactory *texts = ge::StatusFactory::Instance();
  std::printf("%s, %s\n", texts->get(7919 % 1000).c_str(), texts->get(0).c_str());
  bool there[] = {ge::OperatorFactory::IsExistOp("MyType"), ge::OperatorFactory::IsExistOp(std::string("MyType"))};
  std::printf("%d %d %u\n", there[0], there[1], ge::GEInitialize({}));
  try {
    reinterpret_cast<ge::Session *>(&registered)->RemoveGraph(1);
  } catch (const std::runtime_error &error) {
    std::printf("%s\n", error.what());
  }
}
"""


def test_a_program_that_registers_with_the_graph_engine(emulator_home: Path, tmp_path: Path) -> None:
    compiler = shutil.which("g++") or shutil.which("c++")
    if compiler is None:
        pytest.skip("no C++ compiler (g++)")
    source, program = tmp_path / "graph.cpp", tmp_path / "graph"
    source.write_text(PROGRAM)
    libraries = [f"-L{emulator_home / 'lib64'}", "-lge_runner", "-lgraph"]
    old_strings = "-D_GLIBCXX_USE_CXX11_ABI=0"  # what CANN and MindSpore are compiled with
    built = subprocess.run(
        [compiler, "-std=c++14", old_strings, str(source), "-o", str(program), *libraries],
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, built.stderr
    done = subprocess.run(
        [str(program)],
        env={"LD_LIBRARY_PATH": str(emulator_home / "lib64")},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.stdout.splitlines() == [
        "text 1, text 0",
        "0 0 0",
        "ge::Session::RemoveGraph(unsigned int) is not emulated: the emulated device runs operators, not graphs",
    ], done.stderr
    assert done.returncode == 0


def test_a_program_without_cpp_is_ended_with_a_message(emulator_home: Path) -> None:
    code = "import ctypes; ctypes.CDLL('libgraph.so')._ZN2ge11GraphBufferC1Ev()"
    done = subprocess.run(
        [sys.executable, "-S", "-c", code], env=environment(emulator_home), capture_output=True, text=True, timeout=60
    )
    assert done.returncode < 0
    assert "ge::GraphBuffer::GraphBuffer() is not emulated" in done.stderr


def test_the_graph_engine_is_whole(emulator_home: Path) -> None:
    library = ctypes.CDLL(str(emulator_home / "lib64" / "libgraph.so"))
    names = headers.graph_functions()
    assert len(names) > 150
    for name in names:
        assert hasattr(library, name), name
    of_strings = "_ZN2ge12AscendString"  # libmetadef has them, more than these clients ask for
    emulated = {name for name in emulated_functions() if name.startswith("_ZN2ge") and not name.startswith(of_strings)}
    assert emulated <= set(names)


# ------------------------------------------------------------------------------------------------------ MindSpore itself


@pytest.fixture(scope="module")
def mindspore() -> str:
    found = os.environ.get("ASCEND_ACLNN_MINDSPORE")
    if not found:
        pytest.skip("MindSpore is 800 MB and wants an older NumPy: ASCEND_ACLNN_MINDSPORE names a Python that has it")
    return found


@pytest.mark.parametrize("streams", ["background", "eager", "deferred"])
def test_mindspore_trains(mindspore: str, streams: str) -> None:
    """Losses and weights of softmax regression, against the formulas in float64; what runs through graphs says so."""
    variables = environment(build(), ASCEND_EMULATOR_STREAMS=streams, GLOG_v="4", PYTHONPATH=str(ROOT))
    done = subprocess.run(
        [mindspore, str(CLIENTS / "mindspore_training.py")], env=variables, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.findall(r"^ok: .*", done.stdout, re.M) == ["ok: training", "ok: jit", "ok: bfloat16", "ok: refused"]


def test_ranks_of_mindspore(mindspore: str, tmp_path: Path) -> None:
    port = free_port()
    variables = environment(build(), GLOG_v="4")
    variables["PATH"] = os.pathsep.join([str(Path(mindspore).parent), variables.get("PATH", os.defpath)])
    launcher = ["msrun", "--worker_num=2", "--local_worker_num=2", f"--master_port={port}", "--join=True"]
    command = [*launcher, f"--log_dir={tmp_path}", "--cluster_time_out=60", str(CLIENTS / "mindspore_ranks.py")]
    done = subprocess.run(command, env=variables, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    logs = {path.name: path.read_text() for path in sorted(tmp_path.glob("worker_*.log"))}
    assert done.returncode == 0, (done.stderr, logs)
    assert [f"rank {rank} of 2 is right" in logs[f"worker_{rank}.log"] for rank in (0, 1)] == [True, True]


@pytest.mark.parametrize("fault", ["", "aclnnTanhBackward:wrong-element", "aclnnMean:wrong-element"])
def test_the_layer_names_the_operator_of_mindspore_that_is_wrong(mindspore: str, fault: str, tmp_path: Path) -> None:
    variables = environment(build(), GLOG_v="4", ASCEND_EMULATOR_FAULT=fault, ASCEND_EMULATOR_LEAKS="0")
    variables["PYTHONPATH"] = str(ROOT)
    command = [
        sys.executable,
        "-m",
        "ascend_aclnn",
        "layer",
        "run",
        "--check",
        "--failures",
        "off",
        "--",
        mindspore,
        str(CLIENTS / "mindspore_checked.py"),
    ]
    done = subprocess.run(command, env=variables, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    name = fault.partition(":")[0]
    assert done.returncode == (1 if fault else 0), done.stdout + done.stderr
    assert re.findall(r"first wrong launch: #\d+ (\w+):", done.stdout) == ([name] if fault else [])
    checked = re.search(r"checked (\d+) launches: (\d+) wrong; 0 not compared", done.stdout)
    assert checked is not None and int(checked[1]) >= 20 and (int(checked[2]) == 2) == bool(fault)
