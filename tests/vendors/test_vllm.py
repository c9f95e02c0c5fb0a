"""vLLM with vllm-ascend, unmodified, where ASCEND_ACLNN_VLLM names a Python that has them (scripts/demo_vllm makes one)."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OPERATORS = ROOT / "vendors" / "vllm_ascend" / "vllm_ascend_operators"


@pytest.fixture
def python() -> str:
    found = os.environ.get("ASCEND_ACLNN_VLLM")
    if not found:
        pytest.skip("vLLM's environment is 8 GB: scripts/demo_vllm makes it, ASCEND_ACLNN_VLLM names its Python")
    return found


def test_a_server_answers_a_prompt(python: str) -> None:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST")}
    environment.update({"ASCEND_EMULATOR_LEAKS": "0", "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"})
    environment.pop("TORCH_DEVICE_BACKEND_AUTOLOAD", None)
    command = [python, "-m", "ascend_aclnn", "emulator", "run", "--cann", "9.0.0", "--operators", str(OPERATORS), "--"]
    program = [python, str(ROOT / "samples" / "vllm_server.py")]
    done = subprocess.run([*command, *program], env=environment, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr[-3000:]
    assert re.search(r"^tokens      16 in ", done.stdout, re.M), done.stdout
