"""Directories of builds: which are complete, which are ours, and what may be removed.

A build leaves ``emulator.json`` in its directory, written before everything else as a mark and once more, with the size of
every file, when all is there. Only what such a mark (or, of earlier versions, ``lib64/emulator.conf``) names is ever removed.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

MARK = "emulator.json"
HOME = "cann"  # in a build: links to what it has
OBJECTS = "objects"  # a directory of the cache: compiled sources, which builds of other options share
_OLD_MARK = "lib64/emulator.conf"
_ENTRY = re.compile(r"[0-9a-f]{20}(-\w+)?(\.\d+)?|build-\w+")
_KEPT_SECONDS = 30 * 24 * 3600


class NotOurs(ValueError):
    """A directory that `emulator build` has not made."""


# ---------------------------------------------------------------------------------------------------------------- marks


def begin(directory: Path) -> None:
    """Marks a new directory as one of ours."""
    (directory / MARK).write_text(json.dumps({"made_by": "ascend_aclnn", "files": None}), encoding="utf-8")


def finish(directory: Path) -> None:
    """Writes down what is there: from now on the build is complete."""
    files = {p.relative_to(directory).as_posix(): p.stat().st_size for p in sorted(_files(directory)) if p.name != MARK}
    text = json.dumps({"made_by": "ascend_aclnn", "files": files}, indent=0)
    temporary = directory / f"{MARK}.new"
    temporary.write_text(text, encoding="utf-8")
    os.replace(temporary, directory / MARK)


def is_complete(directory: Path) -> bool:
    """Whether every file of a build is there in its full size."""
    files = _listed(directory)
    return bool(files) and all(_size(directory / name) == size for name, size in files.items())


def is_ours(directory: Path) -> bool:
    """Whether a directory carries our mark, or that of an earlier version."""
    if directory.is_symlink() or not directory.is_dir():
        return False
    if (directory / MARK).is_file():
        with contextlib.suppress(OSError, ValueError):
            mark = json.loads((directory / MARK).read_text(encoding="utf-8"))
            return isinstance(mark, dict) and mark.get("made_by") == "ascend_aclnn"
    return _made_by_an_earlier_version(directory)


def _made_by_an_earlier_version(directory: Path) -> bool:
    with contextlib.suppress(OSError, ValueError):
        return (directory / _OLD_MARK).read_text(encoding="utf-8").startswith("python=")
    return False


def _listed(directory: Path) -> dict[str, int]:
    with contextlib.suppress(OSError, ValueError, AttributeError):
        files = json.loads((directory / MARK).read_text(encoding="utf-8")).get("files")
        return files if isinstance(files, dict) else {}
    return {}


def _files(directory: Path) -> Iterator[Path]:
    return (path for path in directory.rglob("*") if path.is_file() and not path.is_symlink())


def _size(path: Path) -> int:
    try:
        status = path.lstat()
    except OSError:
        return -1
    return status.st_size if stat.S_ISREG(status.st_mode) else -1


def make_home(directory: Path) -> None:
    """Links to what a build has, in a directory ``cann``: MindSpore looks for one of that name above ``lib64``."""
    named = directory / HOME
    named.mkdir(exist_ok=True)
    for part in directory.iterdir():
        if part.name not in (HOME, MARK) and not os.path.lexists(named / part.name):
            (named / part.name).symlink_to(Path("..", part.name))


# ---------------------------------------------------------------------------------------------- a directory of the user's


def install(directory: Path, make: Callable[[Path], None]) -> None:
    """Puts a build into a directory that is absent, empty or an earlier build; what else lies there stays."""
    used = directory.exists() and any(directory.iterdir())
    if used and not is_ours(directory):
        raise NotOurs(
            f"{directory} is not empty and was not made by `ascend-aclnn emulator build`, so nothing there is replaced; "
            f"give another directory: ascend-aclnn emulator build {directory / 'cann'}"
        )
    with tempfile.TemporaryDirectory(prefix="ascend-emulator-") as work:
        build = Path(work) / "build"
        build.mkdir()
        make(build)
        new = {path.relative_to(build).as_posix() for path in _files(build)}
        old = set(_listed(directory)) if used else set()
        if used and _made_by_an_earlier_version(directory):
            old |= {path.relative_to(directory).as_posix() for path in (directory / "lib64").glob("libopapi*.so")}
        for name in old - new:
            path = directory / name
            if ".." not in Path(name).parts and not path.is_symlink():
                path.unlink(missing_ok=True)
        directory.mkdir(parents=True, exist_ok=True)
        begin(directory)
        for name in new - {MARK}:
            (directory / name).parent.mkdir(parents=True, exist_ok=True)
            # Beside it and then over it: a program that has the old one open keeps it.
            shutil.copyfile(build / name, directory / f"{name}.new")
            os.replace(directory / f"{name}.new", directory / name)
        make_home(directory)
        shutil.copyfile(build / MARK, directory / MARK)


# -------------------------------------------------------------------------------------------------------------- the cache


def cache_directory() -> Path:
    """Where builds are kept: ``ASCEND_EMULATOR_CACHE``, else ascend_aclnn/emulator in the user's cache directory."""
    variable = os.environ.get("ASCEND_EMULATOR_CACHE")
    if variable:
        return Path(variable).absolute()
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "ascend_aclnn" / "emulator"


def cached(name: str, make: Callable[[Path], None]) -> Path:
    """A complete build of a name; of several processes that need it at once, one makes it and the others wait."""
    cache = private_directory(cache_directory())
    target = _entry(cache, name)
    if is_complete(target):
        return target
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        target = _entry(cache, name)  # another process may have made it during the wait
        if is_complete(target):
            return target
        prune(cache)
        work = Path(tempfile.mkdtemp(prefix="build-", dir=cache))
        try:
            begin(work)
            make(work)
            os.chmod(work, 0o755)
            if target.exists():
                print(f"ascend-aclnn: {target} is not complete and is built again", file=sys.stderr)
                shutil.rmtree(target)
            os.rename(work, target)
        finally:
            shutil.rmtree(work, ignore_errors=True)
    return target


def _entry(cache: Path, name: str) -> Path:
    """The directory of a name; another one beside it where `emulator build` has not made the directory of that name."""
    candidates = (cache / (f"{name}.{i}" if i else name) for i in range(100))
    return next(path for path in candidates if is_ours(path) or not os.path.lexists(path))


def prune(cache: Path) -> None:
    """Removes builds and objects that have not been made for a month."""
    before = time.time() - _KEPT_SECONDS
    for old in cache.iterdir():
        if _ENTRY.fullmatch(old.name) and is_ours(old) and old.stat().st_mtime < before:
            shutil.rmtree(old, ignore_errors=True)
    for old in (cache / OBJECTS).glob("*.o"):
        if old.stat().st_mtime < before:
            old.unlink(missing_ok=True)


def private_directory(directory: Path) -> Path:
    """The directory if only this user can write to it; otherwise a private one, with a warning."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        os.mkdir(directory, 0o700)
    reason = why_not_private(directory)
    if reason is None:
        return directory
    private = Path(tempfile.gettempdir()) / f"ascend-aclnn-emulator-{os.getuid()}"
    with contextlib.suppress(FileExistsError):
        os.mkdir(private, 0o700)
    if private == directory or why_not_private(private) is not None:
        private = Path(tempfile.mkdtemp(prefix="ascend-aclnn-emulator-"))
    print(f"ascend-aclnn: the cache {directory} is not used: {reason}; {private} is", file=sys.stderr)
    return private


def why_not_private(directory: Path) -> str | None:
    """Why others could have put something there; None when they could not."""
    status = os.lstat(directory)
    if stat.S_ISLNK(status.st_mode):
        return "it is a symbolic link"
    if not stat.S_ISDIR(status.st_mode):
        return "it is not a directory"
    if status.st_uid != os.getuid():
        return f"it belongs to user {status.st_uid}"
    return "others can write to it" if status.st_mode & 0o022 else None
