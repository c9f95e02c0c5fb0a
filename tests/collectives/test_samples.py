"""samples/expert_parallel.py: the layer over several ranks gives what the layer on one rank gives."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SAMPLE = Path(__file__).parents[2] / "samples" / "expert_parallel.py"
SIZES = ["--hidden", "64", "--tokens", "16"]


@pytest.mark.parametrize("backend", ["numpy", "emulator"])
@pytest.mark.parametrize("ranks", [2, pytest.param(4, marks=pytest.mark.long)])
def test_expert_parallel(backend: str, ranks: int, request: pytest.FixtureRequest) -> None:
    pytest.importorskip("tqdm", reason="samples show their progress with tqdm")
    command = [sys.executable, str(SAMPLE), "--ranks", str(ranks), *SIZES]
    if backend == "emulator":
        request.getfixturevalue("emulator_home")
        command = [sys.executable, "-m", "ascend_aclnn", "emulator", "run", "--", *command]
    found = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert found.returncode == 0, found.stdout + found.stderr
    assert f"{ranks} ranks on {'numpy' if backend == 'numpy' else 'npu'}" in found.stdout
    assert "all within 2e-02 of the layer on one rank" in found.stdout
