"""The emulated libatb.so, called from C++ as its clients call it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from ascend_aclnn.catalog import atb

CALLER = Path(__file__).with_name("atb_caller.cpp")


def test_a_cpp_caller(emulator_home: Path, tmp_path: Path) -> None:
    compiler = shutil.which("g++") or shutil.which("c++")
    if compiler is None:
        pytest.skip("no C++ compiler (g++)")
    home = emulator_home / "atb" / "cxx_abi_1"  # what ATB_HOME_PATH names
    places = [f"-I{home / 'include'}", f"-L{home / 'lib'}", "-latb", "-lnnopbase", "-lascendcl"]
    program = tmp_path / "caller"
    command = [compiler, "-std=c++17", "-Wall", "-Wextra", "-Werror", str(CALLER), "-o", str(program), *places]
    built = subprocess.run(command, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    environment = {"LD_LIBRARY_PATH": str(home / "lib"), "ASCEND_EMULATOR_STRICT": "1", "PATH": os.defpath}
    done = subprocess.run([str(program)], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    # x.T is ((1, 3), (2, 1)), the weight ((2, 1), (1, 3)): their product is added twice.
    number = {name.removeprefix("ERROR_"): value for name, value in atb.shared_enums()["ErrorType"].items()}
    assert done.stdout.splitlines() == [
        "streams 1 1",
        "create 0 infer 0 outputs 1 of dtype 0 (2, 2)",
        "LinearOperation takes 3 and gives 1",
        "setup 0 execute 0 result 15 30 35 45",
        "setup 0 execute 0 result 20 40 40 50",
        f"no heads {number['INVALID_PARAM']}",
        f"not emulated {number['INTERNAL_ERROR']}",
        f"reserved {number['INVALID_PARAM']}",
        "create 0",
        "good 0",
        f"no context {number['INVALID_PARAM']}",
        f"tensor number {number['INVALID_IN_TENSOR_NUM']}",
        f"data type {number['INVALID_TENSOR_INI_MATCH']}",
        f"dim number {number['INVALID_TENSOR_DIM_NUM']}",
        f"dim {number['INVALID_TENSOR_DIM']}",
        f"address {number['INVALID_TENSOR_ADDR']}",
        f"host {number['INVALID_PARAM']}",
        f"not set up {number['INVALID_PARAM']}",
        "clone 0 2",
    ]
    refusals = done.stderr.splitlines()
    assert len(refusals) == 11 and all(line.startswith("[ERROR] ") for line in refusals), done.stderr
    assert "scaleType is 1; the emulated device takes SCALE_TYPE_TOR (0)" in done.stderr
    assert "contextLens has no data on the host" in done.stderr
    wrong = subprocess.run(
        [str(program)],
        env={**environment, "ASCEND_EMULATOR_FAULT": "LinearOperation:after=1:stale"},
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    results = [line for line in wrong.stdout.splitlines() if " result " in line]
    assert results[0].endswith("15 30 35 45") and not results[1].endswith("20 40 40 50"), wrong.stderr
