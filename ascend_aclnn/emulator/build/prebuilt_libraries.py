"""The libraries that a wheel for one platform carries, so that a build of the default options needs no compiler."""

from __future__ import annotations

import platform
from pathlib import Path

from ascend_aclnn.emulator.build.digest import libraries_digest
from ascend_aclnn.emulator.build.libraries import Options

PREBUILT = Path(__file__).parents[1] / "prebuilt"


def prebuilt_name(options: Options, machine: str | None = None) -> str:
    """The directory in ``prebuilt/`` with the libraries of these options for a processor family (default: this host's)."""
    return f"{machine or platform.machine()}-{libraries_digest(options)}"


def prebuilt(options: Options) -> Path | None:
    """The libraries that the package carries for these options and this host; None where it has none."""
    directory = PREBUILT / prebuilt_name(options)
    return directory if directory.is_dir() else None
