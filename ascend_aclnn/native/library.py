"""Building and finding the compiled helper: one small shared library, of ``csrc``, for this processor family.

It lies in the package (``lib/``, where a wheel carries it) or in the user's cache. Its name has a hash of its sources, so
that a build of other sources is never used.
"""

from __future__ import annotations

import functools
import os
import stat
import sys
from pathlib import Path
from typing import Optional

from ascend_aclnn.core import files

CSRC = Path(__file__).parent / "csrc"
PACKAGED = Path(__file__).parent / "lib"

_FLAGS = (
    "-std=gnu11",
    "-O3",
    "-fPIC",
    "-shared",
    "-fvisibility=hidden",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-Wall",
    "-Wextra",
)


class BuildError(RuntimeError):
    """The helper cannot be built: there is no C compiler, it failed, or there is no safe place for the result."""


VARIABLE = "ASCEND_ACLNN_NATIVE_CACHE"
_PREFIX, _UNFINISHED = ".native-", "helper.so"  # directory and file in which a build begins


def cache_directory() -> Path:
    """Where builds are kept: ``ASCEND_ACLNN_NATIVE_CACHE``, else ascend_aclnn/native in the user's cache directory."""
    return files.cache_place(VARIABLE, "native")[0]


@functools.cache
def library_name(machine: Optional[str] = None) -> str:
    """The file name that a build of these sources for a processor family (default: this host's) has."""
    import hashlib

    digest = hashlib.sha256("\0".join(_FLAGS).encode())
    for path in sorted(CSRC.iterdir()):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return f"native-{sys.platform}-{machine or os.uname().machine}-{digest.hexdigest()[:16]}.so"


def find() -> Optional[Path]:
    """The built helper: the package's, else the cache's; None where there is neither."""
    packaged = PACKAGED / library_name()
    if packaged.is_file():
        return packaged
    cached = cache_directory() / library_name()
    return cached if _ours(cached) and _ours(cached.parent) else None


def is_outdated() -> bool:
    """True where the cache has the helper of another version of the package."""
    return any(cache_directory().glob(f"native-{sys.platform}-{os.uname().machine}-*.so"))


def _ours(path: Path) -> bool:
    """True for a file or folder of this user that no other user may write: its code is going to be run."""
    try:
        status = path.stat()
    except OSError:
        return False
    return status.st_uid == os.geteuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def build(directory: Optional[Path] = None, machine: Optional[str] = None) -> Path:
    """Builds the helper in a directory (default: the user's cache, made for this user alone) and returns its path.

    ``machine`` is what the compiler compiles for, where that is not this host. The helper appears under its name when it is
    complete, so that processes may build at the same time.
    """
    import shutil
    import subprocess
    import tempfile

    from ascend_aclnn.core.progress import Progress

    compiler = next(filter(None, map(shutil.which, filter(None, (os.environ.get("CC"), "cc", "gcc", "clang")))), None)
    if compiler is None:
        raise BuildError("the compiled helper needs a C compiler (cc, gcc or clang) on PATH, or its name in CC")
    if directory is None:
        folder, source = files.cache_place(VARIABLE, "native")
        explaining = files.explaining_cache(folder, source, VARIABLE)
    else:
        folder = directory
        explaining = files.explaining(str(directory), "give another directory")
    target = folder / library_name(machine)
    with explaining:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if directory is None and not _ours(folder):
            raise BuildError(
                f"{folder} belongs to another user, or others may write to it; it must be this user's alone"
            )
        with files.Folder(folder) as cache:
            cache.lock()  # for the time of a compilation: of several processes, one compiles at a time
            cache.remove_unfinished(_PREFIX, _UNFINISHED)
            work = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=folder))
            try:
                command = [compiler, *_FLAGS, *map(str, sorted(CSRC.glob("*.c"))), "-lm", "-o", str(work / _UNFINISHED)]
                with Progress("building the compiled helper"):
                    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
                if done.returncode:
                    raise BuildError(f"{' '.join(command)} failed:\n{done.stderr.strip()}")
                os.chmod(work / _UNFINISHED, 0o755)
                files.move(work / _UNFINISHED, target)
            finally:
                files.remove_tree(work)
    return target


__all__ = ["BuildError", "build", "cache_directory", "find", "is_outdated", "library_name"]
