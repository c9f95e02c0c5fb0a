"""References of ops-nn/control."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ascend_aclnn.reference.declare import reference


@reference("aclnnSleep")
def sleep(cycles: Sequence[int]) -> Any:
    """Keeps a stream of a device busy; here streams run at once, and there is nothing to keep."""
    return ()
