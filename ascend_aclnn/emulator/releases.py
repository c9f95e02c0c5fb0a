"""The CANN releases whose interface can be emulated, and which functions each of them has."""

from __future__ import annotations

import os
import re

DEFAULT = "8.1.RC1"

# Those whose public headers were read; what a release between two of them added counts as the later one's.
KNOWN = ("8.1.RC1", "8.5.0", "9.0.0", "9.1.0", "9.2.0")

# Functions that clients are linked against, so that they cannot be loaded without: every release has them, and they refuse.
LINKED = ("aclrtBinaryLoadFromData",)  # torch_npu 2.13


def number(release: str) -> tuple[int, int]:
    """What releases are ordered by: 8.1 of 8.1.RC1. ValueError for anything that does not begin like that."""
    match = re.match(r"(\d+)\.(\d+)(\.|$)", release)
    if match is None:
        raise ValueError(f"CANN release {release!r} is not of the form 8.1.RC1 or 9.0.0; known are {', '.join(KNOWN)}")
    return int(match[1]), int(match[2])


def chosen(release: str | None) -> str:
    """A release as given, else ``ASCEND_EMULATOR_CANN``, else the default."""
    name = release or os.environ.get("ASCEND_EMULATOR_CANN") or DEFAULT
    if number(name) < number(DEFAULT):
        raise ValueError(f"CANN release {name} is older than {DEFAULT}, the oldest that can be emulated")
    return name


def has(release: str, since: str) -> bool:
    """Whether a release has what another one brought; "newer" is later than all that are known."""
    return number(release) >= number(KNOWN[-1] if since == "newer" else since)


def absent(release: str, since: dict[str, str]) -> frozenset[str]:
    """The functions that a release does not have, of the releases that each of them came with."""
    return frozenset(name for name, came in since.items() if name not in LINKED and not has(release, came))
