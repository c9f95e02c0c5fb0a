"""What clients link against: emulator check, the libraries of extensions, kernels that are launched as binaries."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ascend_aclnn.cli.main import main
from ascend_aclnn.emulator.build.hardware import platform

CLIENT = """
extern int aclrtMalloc(void **, unsigned long, int);
extern int aclrtFromAnotherPlanet(void);
extern int helper(void);
const char *const names[] = {
    "aclnnAdd", "aclnnNoSuchThingGetWorkspaceSize", "AtbMLAGetWorkspaceSize", "AtbNoSuchThingGetWorkspaceSize", "AtbTensor"};
int client(void) { return aclrtMalloc(0, 0, 0) + aclrtFromAnotherPlanet() + helper() + (names[0] != names[1]); }
"""


def compile_library(path: Path, source: str, *flags: str) -> Path:
    path.with_suffix(".c").write_text(source)
    command = ["cc", "-shared", "-fPIC", str(path.with_suffix(".c")), "-o", str(path), *flags]
    subprocess.run(command, check=True)
    return path


def test_what_a_client_lacks_is_printed(emulator_home: Path, tmp_path: Path, capsys: Any) -> None:
    stub = compile_library(tmp_path / "libascend_nowhere.so", "")
    client = compile_library(
        tmp_path / "libclient.so", CLIENT, "-Wl,--no-as-needed", str(stub), "-Wl,-soname,libclient.so"
    )
    stub.unlink()
    helper = compile_library(tmp_path / "libhelper.so", "int helper(void) { return 0; }")
    assert main(["emulator", "check", str(client), str(helper), "--names"]) == 1
    nowhere = (
        str(stub)
        if "/" in subprocess.run(["readelf", "-d", client], capture_output=True, text=True).stdout
        else stub.name
    )
    assert capsys.readouterr().out.splitlines() == [
        f"libclient.so: library {nowhere}",
        "libclient.so: symbol aclrtFromAnotherPlanet",
        "libclient.so: looks up AtbNoSuchThing",
        "libclient.so: looks up aclnnNoSuchThing",
    ]
    assert main(["emulator", "check", str(helper)]) == 0
    assert capsys.readouterr().out == ""
    assert main(["emulator", "check", __file__]) == 1
    assert "is no shared library" in capsys.readouterr().err


MY_OPERATOR = """
import ascend_aclnn

ascend_aclnn.register_operator(
    "aclnnStatus aclnnVendorOwnGetWorkspaceSize(const aclTensor *x, aclTensor *y, "
    "uint64_t *workspaceSize, aclOpExecutor **executor)"
)
"""


def test_operators_of_a_vendor_are_named_and_not_loaded(emulator_home: Path, tmp_path: Path, capsys: Any) -> None:
    """They need CANN's internals; what counts is which of their operators nothing else offers."""
    names = ("aclnnAdd", "aclnnVendorOther", "aclnnVendorOwn")
    phases = "".join(
        f"int {name}(void) {{ return 0; }} int {name}GetWorkspaceSize(void) {{ return 0; }}" for name in names
    )
    places = [tmp_path / "vendors/mine" / place for place in ("op_api/lib", "op_proto/lib/linux/x86_64")]
    for place in places:
        place.mkdir(parents=True)
    internals = f"extern int NnopbaseSomething(void); int f(void) {{ return NnopbaseSomething(); }} {phases}"
    api = compile_library(places[0] / "libcust_opapi.so", internals)
    proto = compile_library(
        places[1] / "libcust_opsproto.so",
        "extern int of_the_framework(void); int f(void) { return of_the_framework(); }",
    )
    assert main(["emulator", "check", str(api), str(proto)]) == 0
    assert capsys.readouterr().out == (
        "libcust_opapi.so: kernels launched as binaries (2): aclnnVendorOther aclnnVendorOwn\n"
    )
    module = tmp_path / "vendor_own.py"
    module.write_text(MY_OPERATOR)
    assert command("check", str(api), "--operators", str(module)) == (
        "libcust_opapi.so: kernels launched as binaries (1): aclnnVendorOther\n"
    )
    client = compile_library(tmp_path / "libclient.so", internals)
    assert main(["emulator", "check", str(client)]) == 1
    assert capsys.readouterr().out == "libclient.so: symbol NnopbaseSomething\n"


def command(*arguments: str) -> str:
    """The output of ``emulator ...`` in a process of its own: operators that are declared stay."""
    done = subprocess.run(
        [sys.executable, "-m", "ascend_aclnn", "emulator", *arguments], capture_output=True, text=True, check=True
    )
    return done.stdout


def test_a_function_that_a_release_lacks_is_lacking(emulator_home: Path, tmp_path: Path, capsys: Any) -> None:
    source = "extern int aclrtLaunchHostFunc(void *); int f(void) { return aclrtLaunchHostFunc(0); }"
    client = compile_library(tmp_path / "libnewer.so", source)
    assert main(["emulator", "check", "--cann", "8.1.RC1", str(client)]) == 1
    assert capsys.readouterr().out == "libnewer.so: symbol aclrtLaunchHostFunc\n"


# --------------------------------------------------------------------------------------- facts about the SoC

FACTS = r"""
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
namespace fe {
enum class LocalMemType { L0_A, L0_B, L0_C, L1, L2, UB, HBM };
class PlatFormInfos {
 public:
    bool GetPlatformResWithLock(const std::string &label, const std::string &key, std::string &value);
    uint32_t GetCoreNum() const;
    void GetLocalMemSize(const LocalMemType &type, uint64_t &size);
    void GetLocalMemBw(const LocalMemType &type, uint64_t &rate);
    void SetCoreNumByCoreType(const std::string &type);
 private:
    uint32_t core_count_{0};
    std::shared_ptr<int> implementation_;
};
class PlatformInfoManager {
 public:
    static PlatformInfoManager &Instance();
    uint32_t InitRuntimePlatformInfos(const std::string &soc);
    uint32_t GetRuntimePlatformInfosByDevice(const uint32_t &device, PlatFormInfos &infos, bool copy = false);
};
}
extern "C" int CheckLogLevel(int, int);
extern "C" void DlogRecord(int, int, const char *, ...);
extern "C" int mmGetTid(void);
int main(int, char **) {
    fe::PlatFormInfos infos;
    auto &manager = fe::PlatformInfoManager::Instance();
    if (manager.InitRuntimePlatformInfos("Ascend910B1") != 0 || manager.GetRuntimePlatformInfosByDevice(0, infos) != 0) return 1;
    std::printf("%u\n", infos.GetCoreNum());
    infos.SetCoreNumByCoreType("AIV");
    std::printf("%u\n", infos.GetCoreNum());
    uint64_t size = 0;
    for (auto type : {fe::LocalMemType::L0_C, fe::LocalMemType::L1, fe::LocalMemType::UB, fe::LocalMemType::L2}) {
        infos.GetLocalMemSize(type, size);
        std::printf("%lu\n", (unsigned long)size);
    }
    infos.GetLocalMemBw(fe::LocalMemType::HBM, size);
    std::printf("%lu\n", (unsigned long)size);
    std::string value = "as it was";
    bool found = infos.GetPlatformResWithLock("version", "Short_SoC_version", value);
    std::printf("%d %s\n", found, value.c_str());
    found = infos.GetPlatformResWithLock("version", "NoSuchKey", value);
    std::printf("%d %s\n", found, value.c_str());
    if (CheckLogLevel(1, 0)) DlogRecord(1, 0, "%d", 7);
    return mmGetTid() > 0 ? 0 : 2;
}
"""


@pytest.mark.parametrize(
    ("soc", "facts"),
    [
        ("Ascend910B1", "24 48 131072 524288 196608 201326592 32 1 Ascend910B 0 Ascend910B"),
        ("Ascend910_9391", "24 48 131072 524288 196608 201326592 32 1 Ascend910_93 0 Ascend910_93"),
        ("Ascend310P3", "8 7 262144 1048576 262144 16777216 17 1 Ascend310P 0 Ascend310P"),
    ],
)
def test_tilings_of_clients_learn_the_soc(emulator_home: Path, tmp_path: Path, soc: str, facts: str) -> None:
    source, program = tmp_path / "facts.cpp", tmp_path / "facts"
    source.write_text(FACTS)
    lib = emulator_home / "lib64"
    names = (
        "platform",
        "unified_dlog",
        "mmpa",
        "register",
        "error_manager",
        "ge_common_base",
        "ascend_dump",
        "profapi",
        "ascendcl",
    )
    flags = ["-D_GLIBCXX_USE_CXX11_ABI=0", f"-L{lib}", "-Wl,--no-as-needed", *(f"-l{name}" for name in names)]
    built = subprocess.run(
        ["c++", "-std=c++14", str(source), "-o", str(program), *flags], capture_output=True, text=True
    )
    assert built.returncode == 0, built.stderr
    environment = {"LD_LIBRARY_PATH": str(lib), "PATH": os.defpath, "ASCEND_ACLNN_SOC": soc}
    done = subprocess.run([str(program)], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == facts.split() and done.stderr == ""
    logged = subprocess.run(
        [str(program)], env={**environment, "ASCEND_EMULATOR_LOG": "1"}, capture_output=True, text=True
    )
    assert logged.stderr == "[DEBUG] module 1: 7\n"


def test_every_soc_has_its_facts() -> None:
    from ascend_aclnn.core.socs import KNOWN
    from ascend_aclnn.emulator.build.hardware import hardware

    for name in KNOWN:
        if hardware(name) is not None:
            assert int(platform(name)["AICoreSpec", "ub_size"]) > 100_000, name


# ------------------------------------------------------------------------------------- kernels as binaries

KERNEL = """
import ctypes, sys
cann = ctypes.CDLL("libascendcl.so")
cann.aclGetRecentErrMsg.restype = ctypes.c_char_p
assert cann.aclInit(None) == 0 and cann.aclrtSetDevice(0) == 0
streams = [ctypes.c_void_p(), ctypes.c_void_p()]
for stream in streams:
    assert cann.aclrtCreateStream(ctypes.byref(stream)) == 0
cann.aclrtCreateBinary.restype = ctypes.c_void_p
binary = ctypes.c_void_p(cann.aclrtCreateBinary(b"ELF", ctypes.c_size_t(3)))
handle, function = ctypes.c_void_p(), ctypes.c_void_p()
assert cann.aclrtBinaryLoad(binary, ctypes.byref(handle)) == 0
assert cann.aclrtBinaryGetFunction(handle, b"bgmv_shrink_half", ctypes.byref(function)) == 0
stub = ctypes.create_string_buffer(1)
assert cann.rtFunctionRegister(handle, stub, b"rope_custom", None, 0) == 0
for launch in (lambda: cann.aclrtLaunchKernel(function, 8, None, ctypes.c_size_t(0), streams[0]),
               lambda: cann.rtKernelLaunch(stub, 8, None, 0, None, streams[1])):
    print(launch(), (cann.aclGetRecentErrMsg() or b"").decode().splitlines()[0])
for stream in streams:
    for _ in range(2):
        print(cann.aclrtSynchronizeStream(stream), "bgmv_shrink_half" in (text := (cann.aclGetRecentErrMsg() or b"").decode()),
              "rope_custom" in text)
third = ctypes.c_void_p()
assert cann.aclrtCreateStream(ctypes.byref(third)) == 0
print(cann.aclrtSynchronizeStream(third))
for stream in (*streams, third):
    cann.aclrtDestroyStream(stream)
assert cann.aclrtBinaryUnLoad(handle) == 0 and cann.aclrtDestroyBinary(binary) == 0
"""


def test_a_kernel_that_is_launched_as_a_binary_breaks_its_stream(emulator_home: Path) -> None:
    """Launchers that a compiler made ignore statuses: every wait says that the kernel has not run."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("ASCEND_", "LD_"))}
    environment["LD_LIBRARY_PATH"] = str(emulator_home / "lib64")
    done = subprocess.run([sys.executable, "-c", KERNEL], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["207000"] * 6 + ["0"]
    assert "EMULATOR_KERNEL_BINARY" in lines[0] and "bgmv_shrink_half" in lines[0] and "rope_custom" in lines[1]
    assert lines[2:6] == ["207000 True False"] * 2 + ["207000 False True"] * 2
