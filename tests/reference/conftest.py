"""What tests of references share."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from ascend_aclnn.native import library


@pytest.fixture(scope="session")
def built_helper(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory with the compiled helper, which the first of the workers that needs it builds."""
    base = tmp_path_factory.getbasetemp()
    place = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "native-helper"
    place.mkdir(mode=0o700, exist_ok=True)
    with open(place / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (place / library.library_name()).exists():
            library.build(place)
    return place
