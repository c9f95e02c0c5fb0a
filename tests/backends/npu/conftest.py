"""The npu backend on the emulated device."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from emulated_device import Emulator
from live_objects import assert_nothing_left

import ascend_aclnn as aclnn
from ascend_aclnn.backends.npu.backend import NpuBackend


@pytest.fixture
def npu(emulator_home: Path) -> Iterator[NpuBackend]:
    """The backend; afterwards nothing of the test may be left on the device."""
    os.environ["ASCEND_HOME_PATH"] = str(emulator_home)
    with aclnn.use_backend("npu") as backend:
        assert isinstance(backend, NpuBackend)
        if not backend.emulated:
            pytest.skip("these tests need the emulated device")
        yield backend
        assert_nothing_left()


@pytest.fixture
def emulator(npu: NpuBackend) -> Iterator[Emulator]:
    """The emulated device's own functions."""
    functions = Emulator(npu.library_path)
    yield functions
    functions.reset()
