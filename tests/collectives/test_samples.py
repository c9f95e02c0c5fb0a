"""Samples over several ranks: a layer gives what it gives on one rank."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SAMPLES = Path(__file__).parents[2] / "samples"
SIZES = ["--hidden", "64", "--tokens", "16"]
FEWER = ["--layers", "2", "--tokens", "16", "--experts", "4"]  # several of each, as by default


@pytest.mark.parametrize("backend", ["numpy", "emulator"])
@pytest.mark.parametrize("ranks", [2, pytest.param(4, marks=pytest.mark.long)])
def test_expert_parallel(backend: str, ranks: int, request: pytest.FixtureRequest) -> None:
    pytest.importorskip("tqdm", reason="samples show their progress with tqdm")
    command = [sys.executable, str(SAMPLES / "expert_parallel.py"), "--ranks", str(ranks), *SIZES]
    if backend == "emulator":
        request.getfixturevalue("emulator_home")
        command = [sys.executable, "-m", "ascend_aclnn", "emulator", "run", "--", *command]
    found = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert found.returncode == 0, found.stdout + found.stderr
    assert f"{ranks} ranks on {'numpy' if backend == 'numpy' else 'npu'}" in found.stdout
    assert "all within 2e-02 of the layer on one rank" in found.stdout


@pytest.mark.parametrize("backend", ["numpy", "emulator"])
@pytest.mark.parametrize("sizes", [(1, 1), (2, 2), pytest.param((3, 2), marks=pytest.mark.long)])
def test_attention_ffn(backend: str, sizes: tuple[int, int], request: pytest.FixtureRequest) -> None:
    attention, ffn = map(str, sizes)
    command = [sys.executable, str(SAMPLES / "attention_ffn.py"), "--attention", attention, "--ffn", ffn, *FEWER]
    if backend == "emulator":
        request.getfixturevalue("emulator_home")
        options = ["--cann", "8.5.0", "--soc", "Ascend910_9391"]
        command = [sys.executable, "-m", "ascend_aclnn", "emulator", "run", *options, "--", *command]
    found = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert found.returncode == 0, found.stdout + found.stderr
    assert "all within 2e-03 of the layers on one rank" in found.stdout
