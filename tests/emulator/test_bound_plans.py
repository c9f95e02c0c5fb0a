"""Which plans the device process keeps ready on their addresses: those that come again."""

from __future__ import annotations

import shutil
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from ascend_aclnn import catalog
from ascend_aclnn.backends.numpy import NumpyBackend
from ascend_aclnn.core.dtypes import DataType, Format
from ascend_aclnn.core.socs import DEFAULT_SOC
from ascend_aclnn.emulator.process import device as process
from ascend_aclnn.emulator.protocol import kinds

COUNT = 4  # elements of each tensor


def with_plan(dtype: DataType) -> process.Device:
    """A device with aclnnAbs of a vector of 32-bit numbers as plan 7."""
    vector = (1, int(dtype), int(Format.ND), 0, 4 * COUNT, 1, 1, COUNT, 1, COUNT)  # as executor.c writes it
    device = process.Device(NumpyBackend(DEFAULT_SOC), np.zeros(1 << 12, np.uint8))
    operator = catalog.get("aclnnAbs")
    name, kind = operator.name.encode(), kinds(operator).encode()
    words = (0, *vector, *vector)
    status, answer = device.prepare(struct.pack(f"<QII{len(words)}q", 7, len(name), len(kind), *words) + name + kind)
    assert status == 0, answer
    return device


@pytest.fixture
def device() -> process.Device:
    """Of integers, which no launch does without binding."""
    return with_plan(DataType.INT32)


def launch(device: process.Device, addresses: Sequence[int], kind: Any = np.int32) -> None:
    x, y = (device.memory[at : at + 4 * COUNT].view(kind) for at in addresses)
    x[:] = np.arange(COUNT) - addresses[1]
    assert device.launch(7, memoryview(struct.pack("<2q", *addresses)), 0) is None
    np.testing.assert_array_equal(y, np.abs(x))


def test_what_comes_again_is_kept(device: process.Device) -> None:
    plan = device.plans[7]
    launch(device, (0, 64))
    assert not plan.bound
    for _ in range(2):
        launch(device, (0, 64))
        assert list(plan.bound) == [struct.pack("<2q", 0, 64)]


def test_what_comes_once_is_forgotten(device: process.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "SEEN", 4)
    for at in range(64, 64 * 6, 64):  # the fifth lets the first four be forgotten
        launch(device, (0, at))
    launch(device, (0, 64))
    assert not device.plans[7].bound
    launch(device, (0, 64))
    assert len(device.plans[7].bound) == 1


@pytest.mark.skipif(not any(map(shutil.which, ("cc", "gcc", "clang"))), reason="no C compiler to build the helper with")
@pytest.mark.parametrize("watched", [False, True])
def test_small_floats_are_not_bound_from_the_third_launch_on(
    helper: str, watched: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But where unwritten memory is told, which a binding does."""
    device = with_plan(DataType.FLOAT)
    device.tells_unwritten = watched
    bound: list[bytes] = []
    original = device._bind_once

    def noted(plan: Any, at: bytes) -> Any:
        bound.append(at)
        return original(plan, at)

    monkeypatch.setattr(device, "_bind_once", noted)
    for at in range(64, 64 * 6, 64):
        launch(device, (0, at), np.float32)
    assert len(bound) == (5 if watched else 2)
