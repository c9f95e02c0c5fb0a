"""Which device a test process uses, found without loading CANN: processes that test on a card take one each."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Optional

_VISIBLE = "ASCEND_RT_VISIBLE_DEVICES"


def devices(environ: Mapping[str, str], files: Path = Path("/dev")) -> list[str]:
    """The devices that a process may use: what ASCEND_RT_VISIBLE_DEVICES names, else one for each file of the driver."""
    visible = environ.get(_VISIBLE)
    if visible is not None:
        return [device for device in visible.split(",") if device]
    nodes = [path for path in files.glob("davinci*") if re.fullmatch(r"davinci\d+", path.name)]
    return [str(index) for index in range(len(nodes))]


def device_of_worker(worker: str, environ: Mapping[str, str], files: Path = Path("/dev")) -> Optional[str]:
    """The device of a worker of pytest-xdist ("gw3"); None where no device is found. Workers take turns."""
    visible = devices(environ, files)
    return visible[int(worker[2:]) % len(visible)] if visible else None


@contextlib.contextmanager
def one_device() -> Iterator[None]:
    """For a block in which CANN is opened, and reads what is visible: in a worker, its own device alone."""
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    device = device_of_worker(worker, os.environ) if worker else None
    if device is None:
        yield
        return
    before = os.environ.get(_VISIBLE)
    os.environ[_VISIBLE] = device
    try:
        yield
    finally:  # what tests start themselves sees all devices
        if before is None:
            del os.environ[_VISIBLE]
        else:
            os.environ[_VISIBLE] = before


if __name__ == "__main__":
    print(len(devices(os.environ)))
