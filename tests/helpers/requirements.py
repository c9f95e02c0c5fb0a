"""Marks of tests that need what an installation may lack."""

from __future__ import annotations

import importlib.util

import pytest

needs_torch_npu = pytest.mark.skipif(
    importlib.util.find_spec("torch_npu") is None,
    reason="torch_npu is not installed: ./scripts/test --clients runs its tests on the emulated device",
)
