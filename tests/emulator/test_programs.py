"""What lies in front of PATH under emulator run: npu-smi, and what triton-ascend asks before it counts an NPU as active."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ascend_aclnn.cli.emulator import environment
from ascend_aclnn.emulator import npu_smi
from ascend_aclnn.emulator.build import build
from ascend_aclnn.emulator.build.hardware import hardware

HOST = f"programs-{os.getpid()}"  # npu-smi lists no process of another worker's tests
USER = """
import ctypes, sys
cann = ctypes.CDLL("libascendcl.so")
assert cann.aclInit(None) == 0 and cann.aclrtSetDevice(1) == 0
print("ready", flush=True)
sys.stdin.read()
"""


def run(home: Path, *command: str, **settings: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        env={**environment(home), "ASCEND_EMULATOR_HOST": HOST, **settings},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def fields(text: str) -> dict[str, str]:
    """What lines of a name and a value say."""
    return {k.strip(): v.strip() for k, v in (line.split(" : ") for line in text.splitlines() if " : " in line)}


def rows(table: str) -> list[list[str]]:
    return [re.split(r"[|\s]+", line.strip("| ")) for line in table.splitlines()]


def test_npu_smi_lists_the_devices_and_the_processes_on_them(emulator_home: Path) -> None:
    variables = {**environment(emulator_home), "ASCEND_EMULATOR_HOST": HOST}
    user = subprocess.Popen(
        [sys.executable, "-c", USER], env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert user.stdout is not None and user.stdout.readline() == "ready\n"
        done = run(emulator_home, "npu-smi", "info")
    finally:
        user.communicate("")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len({len(line) for line in lines}) == 1  # a table
    cells = rows(done.stdout)
    assert [row[:3] for row in cells if row[1:2] == ["910B1"]] == [["0", "910B1", "OK"], ["1", "910B1", "OK"]]
    assert any(row[-1] == str(64 * 1024) for row in cells)
    processes = cells[next(i for i, row in enumerate(cells) if "id" in row) :]
    assert [row[:3] for row in processes if str(user.pid) in row] == [["1", "0", str(user.pid)]]
    assert sum("No running processes" in line for line in lines) == 1
    after = run(emulator_home, "npu-smi", "info").stdout
    assert after.count("No running processes") == 2 and not [row for row in rows(after) if str(user.pid) in row]


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """What npu-smi prints for some words under some settings."""

    def answer(words: str, status: int = 0, **settings: str) -> str:
        for name, value in settings.items():
            monkeypatch.setenv(name, value)
        assert npu_smi.main(words.split()) == status
        printed = capsys.readouterr()
        assert (printed.out == "") == bool(status)
        return printed.err if status else printed.out

    return answer


@pytest.mark.parametrize(
    ("soc", "parts", "name"),
    [
        ("Ascend910B3", ("Chip Type", "Chip Name"), "ascend910b3"),
        ("Ascend310P3", ("Chip Type", "Chip Name"), "ascend310p3"),
        ("Ascend910_9391", ("Chip Name", "NPU Name"), "ascend910_9391"),
    ],
)
def test_a_build_finds_the_soc_by_npu_smi(ask: Callable[..., str], soc: str, parts: tuple[str, str], name: str) -> None:
    """As vllm-ascend's setup.py puts it together: type and name of the chip, or the names of chip and NPU."""
    npu = fields(ask("info -l", ASCEND_ACLNN_SOC=soc))["NPU ID"]
    assert "Chip Name" not in fields(ask(f"info -t board -i {npu}"))
    board = fields(ask(f"info -t board -i {npu} -c 0"))
    assert ("_" if parts[1] == "NPU Name" else "").join(board[part] for part in parts).lower() == name


def test_two_chips_of_an_npu_have_numbers_of_their_own(ask: Callable[..., str]) -> None:
    settings = {"ASCEND_ACLNN_SOC": "Ascend910_9391", "ASCEND_EMULATOR_DEVICES": "4"}
    head, *rows = ask("info -m", **settings).splitlines()
    assert re.split(r"\s{2,}", head.strip()) == ["NPU ID", "Chip ID", "Chip Logic ID", "Chip Phy-ID", "Chip Name"]
    assert [row.split()[:3] for row in rows if "Mcu" not in row] == [list("000"), list("011"), list("102"), list("113")]
    assert fields(ask("info -l"))["Total Count"] == "2"


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("info -t board -i 7", "NPUs are 0, 1"),
        ("info -t hccs -i 0", "no type hccs"),
        ("set -t reset -i 0", "set -t reset"),
        ("info -x", "-x"),
    ],
)
def test_npu_smi_refuses_what_it_does_not_know(ask: Callable[..., str], words: str, text: str) -> None:
    assert text in ask(words, status=1, ASCEND_EMULATOR_DEVICES="2")


def test_the_other_types(ask: Callable[..., str]) -> None:
    settings = {"ASCEND_EMULATOR_MEMORY": "16G", "ASCEND_EMULATOR_HOST": HOST, "ASCEND_EMULATOR_DEVICES": "2"}
    assert fields(ask("info -t health -i 0", **settings))["Health Status"] == "OK"
    assert fields(ask("info -t memory -i 1"))["HBM Capacity(MB)"] == "16384"
    assert fields(ask("info -t usages -i 1 -c 0"))["HBM Usage Rate(%)"] == "0"
    rows = [line.split() for line in ask("info -t topo").splitlines() if line.startswith("NPU")]
    assert [row[:3] for row in rows] == [["NPU0", "X", "HCCS"], ["NPU1", "HCCS", "X"]]
    assert ask("-v").startswith("npu-smi version: ")


TRITON = """
#include "runtime/runtime/rt.h"
#include <cstdio>
int main() {
    char name[64];
    uint32_t cores = 0;
    rtDevBinary_t binary = {RT_DEV_BINARY_MAGIC_ELF_AIVEC, 0, "ELF", 3};
    void *handle = nullptr, *host = nullptr, *device = nullptr;
    int32_t small = rtGetSocVersion(name, 4), big = rtGetSocVersion(name, sizeof name), counted = rtGetAiCoreCount(&cores);
    std::printf("%d %d %s %d %u ", small, big, name, counted, cores);
    int status = rtSetDevice(0) | rtDevBinaryRegister(&binary, &handle) | rtMallocHost(&host, 64, RT_MEMORY_HOST);
    status |= rtMalloc(&device, 64, RT_MEMORY_HBM, 0);
    ((int *)host)[0] = 42;
    status |= rtMemcpy(device, 64, host, 64, RT_MEMCPY_HOST_TO_DEVICE);
    ((int *)host)[0] = 0;
    status |= rtMemcpy(host, 64, device, 64, RT_MEMCPY_DEVICE_TO_HOST);
    std::printf("%d %d ", status, ((int *)host)[0]);
    rtStream_t stream = nullptr;
    std::printf("%d\\n", rtStreamCreate(&stream, 0) | rtStreamDestroy(stream) | rtFree(device) | rtFreeHost(host) |
                            rtDevBinaryUnRegister(handle));
}
"""


def test_triton_finds_an_active_npu_and_its_cores(emulator_home: Path, tmp_path: Path) -> None:
    """triton-ascend asks bisheng for its targets, and an extension, which it compiles, for the SoC and its cores."""
    targets = run(emulator_home, "bisheng", "-print-targets")
    assert "hiipu64" in targets.stdout.split() and targets.returncode == 0
    compiled = run(emulator_home, "bisheng", "kernel.cce")
    assert compiled.returncode == 1 and "TRITON_INTERPRET=1" in compiled.stderr
    (tmp_path / "main.cpp").write_text(TRITON, encoding="utf-8")
    home = Path(environment(emulator_home)["ASCEND_HOME_PATH"])
    places = [f"-I{home / 'include' / 'experiment'}", f"-L{home / 'lib64'}", "-lruntime", "-lascendcl"]
    subprocess.run(["g++", str(tmp_path / "main.cpp"), *places, "-o", str(tmp_path / "main")], check=True)
    done = run(emulator_home, str(tmp_path / "main"), ASCEND_ACLNN_SOC="Ascend910B3", ASCEND_EMULATOR_LEAKS="0")
    facts = hardware("Ascend910B3")
    assert facts is not None
    assert done.stdout == f"107000 0 Ascend910B3 0 {facts.cube_cores} 0 42 0\n", done.stderr


def test_kernels_of_triton_are_interpreted_unless_the_environment_says_otherwise(
    emulator_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    assert environment(emulator_home)["TRITON_INTERPRET"] == "1"
    monkeypatch.setenv("TRITON_INTERPRET", "0")
    assert environment(emulator_home)["TRITON_INTERPRET"] == "0"


def test_an_installed_build_has_programs_that_run(emulator_home: Path, tmp_path: Path) -> None:
    installed = build(tmp_path / "cann")
    assert all(os.access(installed / "bin" / name, os.X_OK) for name in ("npu-smi", "bisheng"))
