"""The distributions of vendors' operators: their tests, in processes of their own, which declare the operators."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = sorted(path.parent for path in (ROOT / "vendors").glob("*/*_operators/__init__.py"))
PYTEST = [sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", "-p", "no:cacheprovider"]

each_package = pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.name)


def run(package: Path, *command: str) -> str:
    plain = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST")}
    environment = {**plain, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, cwd=package.parent, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@each_package
def test_on_numpy(package: Path) -> None:
    assert re.search(r"^\d+ passed in ", run(package, *PYTEST, "--aclnn-backend=numpy"), re.M)


@pytest.mark.aclnn_findings("memory/unwritten-output")  # outputs that a mode leaves alone come back as arrays too
@each_package
def test_on_the_emulated_device(package: Path, emulator_home: Path) -> None:
    """The device process computes them, behind a library in C."""
    emulator = [sys.executable, "-m", "ascend_aclnn", "emulator", "run", "--operators", str(package), "--"]
    assert re.search(r"^\d+ passed in ", run(package, *emulator, *PYTEST, "--aclnn-backend=npu"), re.M)


def test_nothing_of_the_core_imports_them() -> None:
    sources = {path: path.read_text(encoding="utf-8") for path in (ROOT / "ascend_aclnn").rglob("*.py")}
    assert len(PACKAGES) >= 2
    assert [path for path, text in sources.items() for package in PACKAGES if package.name in text] == []
