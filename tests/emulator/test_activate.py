"""The emulated device in the running process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from requirements import needs_torch_npu

from ascend_aclnn.emulator.build import cache

PLAIN = """
from ascend_aclnn import emulator
emulator.activate(soc="Ascend910_9391")
import numpy as np
import ascend_aclnn as aclnn
from ascend_aclnn import ops
assert aclnn.backend().emulated and aclnn.backend().soc == "Ascend910_9391"
print(ops.exp(np.zeros(2, np.float32)).tolist())
try:
    emulator.activate()
except RuntimeError as error:
    print("is loaded already" in str(error))
"""
TORCH = """
from ascend_aclnn import emulator
emulator.activate()
import torch, torch_npu
print(torch.ones(3).npu().add(1).cpu().tolist(), torch.npu.get_device_name(0))
"""


def run(program: str) -> list[str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("ASCEND_", "LD_LIBRARY", "TORCH_DEVICE"))}
    if cache.VARIABLE in os.environ:  # where `emulator_home` has been built
        environment[cache.VARIABLE] = os.environ[cache.VARIABLE]
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_activate(emulator_home: Path) -> None:
    assert run(PLAIN) == ["[1.0, 1.0]", "True"]


@pytest.mark.clients
@pytest.mark.clients_short
@needs_torch_npu
def test_torch_npu_after_activate(emulator_home: Path) -> None:
    assert "[2.0, 2.0, 2.0] Ascend910B1" in run(TORCH)
