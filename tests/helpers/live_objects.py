"""What is alive on the emulated device, for tests that must leave nothing behind."""

from __future__ import annotations

from ascend_aclnn.backends.npu import find_backend
from ascend_aclnn.testing import plugin


def assert_nothing_left() -> None:
    """No tensor, scalar, executor, event or allocation of the emulated device outlives the test that made it."""
    plugin.assert_nothing_left(find_backend())
