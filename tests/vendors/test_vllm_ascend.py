"""vllm-ascend's operators (vendors/vllm_ascend): its tests, in processes of their own, which declare them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

VENDOR = Path(__file__).parents[2] / "vendors" / "vllm_ascend"
PACKAGE = "vllm_ascend_operators"
PYTEST = [sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", "-p", "no:cacheprovider", str(VENDOR)]


def run(*command: str) -> str:
    plain = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST")}
    environment = {**plain, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, cwd=VENDOR, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_on_numpy() -> None:
    assert re.search(r"^\d+ passed in ", run(*PYTEST, "--aclnn-backend=numpy"), re.M)


def test_on_the_emulated_device(emulator_home: Path) -> None:
    """The device process computes them, behind a library in C."""
    emulator = [sys.executable, "-m", "ascend_aclnn", "emulator", "run", "--operators", str(VENDOR / PACKAGE), "--"]
    assert re.search(r"^\d+ passed in ", run(*emulator, *PYTEST, "--aclnn-backend=npu"), re.M)


def test_the_package_is_imported_by_nothing_of_the_core() -> None:
    core = Path(__file__).parents[2] / "ascend_aclnn"
    assert [path for path in core.rglob("*.py") if PACKAGE in path.read_text(encoding="utf-8")] == []
