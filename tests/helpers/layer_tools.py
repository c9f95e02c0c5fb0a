"""Programs under the layer."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from typing import Optional


def run(program: list[str], environ: Mapping[str, str], status: Optional[int] = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(program, env=environ, capture_output=True, text=True, timeout=600, check=False)
    assert status is None or done.returncode == status, f"{done.returncode}\n{done.stdout}\n{done.stderr}"
    return done
