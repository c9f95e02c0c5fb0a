"""Versions of an installation: of CANN, and of what a file states as ``key=value``."""

from __future__ import annotations

import ctypes
import os
import re
from pathlib import Path
from typing import Optional

from ascend_aclnn.backends.npu.library import Libraries


def value_of(path: Path, key: str) -> Optional[str]:
    """The value of ``key=value`` in a file, None where there is no such file or line."""
    try:
        match = re.search(rf"^{key}\s*=\s*(.+?)\s*$", path.read_text(encoding="utf-8", errors="replace"), re.MULTILINE)
    except OSError:
        return None
    return match.group(1) if match else None


class _PackageVersion(ctypes.Structure):
    """aclCANNPackageVersion: the whole version, its four parts, and room to grow."""

    _fields_ = [
        ("version", ctypes.c_char * 128),
        ("parts", (ctypes.c_char * 64) * 4),
        ("reserved", ctypes.c_char * 128),
    ]


def cann_version(libraries: Libraries) -> Optional[str]:
    """As the runtime says, else as the files of the installation do."""
    ask = libraries.optional("aclsysGetCANNVersion")
    answer = _PackageVersion()
    if ask is not None and ask(0, ctypes.byref(answer)) == 0 and answer.version:
        return bytes(answer.version).decode(errors="replace")
    home = libraries.directory.resolve().parent
    for file, key in (
        (home / "ascend_toolkit_install.info", "version"),
        (home / f"{os.uname().machine}-linux" / "ascend_toolkit_install.info", "version"),
        (home / "share" / "info" / "runtime" / "version.info", "Version"),
        (home / "runtime" / "version.info", "Version"),
    ):
        version = value_of(file, key)
        if version:
            return version
    return None
