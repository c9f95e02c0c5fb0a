"""Versions of an installation: of CANN, of its operator package, and of what a file states as ``key=value``."""

from __future__ import annotations

import ctypes
import os
import re
import sys
import warnings
from pathlib import Path
from typing import Optional

from ascend_aclnn.backends.npu.library import Libraries
from ascend_aclnn.catalog import Operator, life

# The operator package's parts, which may be upgraded alone; "opp" is the whole one of CANN before 8.5.
OPS_PACKAGES = ("ops_legacy", "ops_nn", "ops_math", "ops_cv", "ops_transformer", "opp")


def value_of(path: Path, key: str) -> Optional[str]:
    """The value of ``key=value`` in a file, None where there is no such file or line."""
    try:
        match = re.search(rf"^{key}\s*=\s*(.+?)\s*$", path.read_text(encoding="utf-8", errors="replace"), re.MULTILINE)
    except OSError:
        return None
    return match.group(1) if match else None


_VERSION_SIZE = 128  # ACL_PKG_VERSION_MAX_SIZE


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
    ask = libraries.optional("aclsysGetVersionStr")  # where aclsysGetCANNVersion is gone
    text = ctypes.create_string_buffer(_VERSION_SIZE)
    if ask is not None and ask(b"runtime", text) == 0 and text.value:
        return text.value.decode(errors="replace")
    return noted_version(libraries.directory.resolve().parent)


def noted_version(home: Path) -> Optional[str]:
    """The version of a CANN as the files of its installation say."""
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


def package_version(home: Path, package: str) -> Optional[str]:
    """The version of a package of a CANN, by its version.info."""
    places = (home / "share/info" / package / "version.info", home / package / "version.info")
    return next(filter(None, (value_of(path, "Version") or value_of(path, "version") for path in places)), None)


def ops_versions(home: Path) -> dict[str, str]:
    """The versions of the operator package's parts that are installed, by their names."""
    versions = ((package, package_version(home, package)) for package in OPS_PACKAGES)
    return {package: version for package, version in versions if version is not None}


def ops_version(libraries: Libraries) -> Optional[str]:
    """The release of the operators: of the part that is the newest, else of the whole CANN."""
    versions = ops_versions(libraries.directory.resolve().parent)
    return max(versions.values(), key=_order, default=None) or cann_version(libraries)


def _order(release: str) -> tuple[object, ...]:
    try:
        return life.order(release)
    except ValueError:
        return (0,)


def warn_of_deprecated(operator: Operator, libraries: Libraries) -> None:
    """A DeprecationWarning at the caller's line where the installed operators' release marks an operator as deprecated."""
    lived = life.of(operator.name)
    if not lived.announced:
        return
    release = ops_version(libraries)
    try:
        says_so = release is not None and lived.deprecated_in(release)
    except ValueError:  # a version of another form
        return
    if says_so:
        text = f"{operator.name} is {life.end_words(lived)}; this CANN's operators are {release}"
        warnings.warn(text, DeprecationWarning, stacklevel=_callers_level())


def _callers_level() -> int:
    """The stack level, for the caller of this function, of the first frame outside the package."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and (
        frame.f_globals.get("__name__", "").split(".")[0] == "ascend_aclnn"
        or frame.f_code.co_filename.startswith("ascend_aclnn.ops/")
    ):
        level, frame = level + 1, frame.f_back
    return level
