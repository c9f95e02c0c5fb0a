"""Generated files are what their scripts make (the catalog, the stub and the operator pages have tests of their own)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPTS = Path(__file__).parents[2] / "scripts"


def check(script: str) -> None:
    done = subprocess.run([sys.executable, SCRIPTS / script, "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_module_index() -> None:
    check("make_module_index.py")


def test_runtime_data(shared: Path) -> None:
    check("make_runtime_data.py")
