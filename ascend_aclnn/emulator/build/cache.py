"""Directories of builds: which are complete, which are ours, and what may be removed.

A build leaves a manifest, ``emulator.json``, in its directory: the size and the SHA-256 of every file, and the target of every
link. Only what is still as the manifest says is ever removed or replaced (`core.files`); everything else stays and is named.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import re
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Optional

from ascend_aclnn.core import files

MARK = "emulator.json"
HOME = "cann"  # in a build: links to what it has
OBJECTS = "objects"  # a directory of the cache: compiled sources, which builds of other options share
VARIABLE = "ASCEND_EMULATOR_CACHE"
_ENTRY = re.compile(r"[0-9a-f]{20}(-\w+)?(\.\d+)?")
_OBJECT = re.compile(r"[0-9a-f]{32}-([0-9a-f]{64})\.o")
_KEPT_SECONDS = 30 * 24 * 3600


class NotOurs(ValueError):
    """A directory, or a file in one, that `emulator build` has not made."""


# -------------------------------------------------------------------------------------------------------------- manifests


class Manifest(NamedTuple):
    """What a build consists of: the contents (`files.content_of`) that may lie under each name, and the sizes of files."""

    contents: dict[str, set[str]]
    sizes: dict[str, int]
    complete: bool

    def text(self, before: Optional[Manifest] = None) -> bytes:
        """As JSON; ``before``: what is being replaced, while it is."""
        rows: dict[str, Any] = {"made_by": "ascend_aclnn", "files": self._rows()}
        if before is not None:
            rows["replaces"] = before._rows()
        return json.dumps(rows, indent=0).encode()

    def _rows(self) -> dict[str, Any]:
        return {
            name: [self.sizes.get(name), *sorted(contents)]
            for name, contents in sorted(self.contents.items())
            if contents
        }


def _read(directory: Path) -> Optional[Manifest]:
    """The manifest of a directory; None where it has none of ours. Nothing in it is believed before it is compared."""
    try:
        with files.Folder(directory) as folder:
            rows = json.loads(folder.read(MARK))
    except (OSError, ValueError, RecursionError, files.Refused):
        return None
    if not isinstance(rows, dict) or rows.get("made_by") != "ascend_aclnn":
        return None
    contents: dict[str, set[str]] = {}
    sizes: dict[str, int] = {}
    for key in ("files", "replaces"):
        listed = rows.get(key)
        for name, row in listed.items() if isinstance(listed, dict) else ():
            known = row if isinstance(row, list) else []  # earlier versions kept sizes alone
            contents.setdefault(name, set()).update(content for content in known[1:] if isinstance(content, str))
            if known and isinstance(known[0], int):
                sizes[name] = known[0]
    return Manifest(contents, sizes, bool(contents) and "replaces" not in rows)


def _scan(directory: Path) -> Manifest:
    """The manifest of what lies in a directory that has just been built."""
    contents, sizes = {}, {}
    for path in sorted(directory.rglob("*")):
        name = path.relative_to(directory).as_posix()
        if name != MARK and (path.is_symlink() or path.is_file()):
            contents[name] = {files.content_of(path)}
            if not path.is_symlink():
                sizes[name] = path.stat().st_size
    return Manifest(contents, sizes, True)


def finish(directory: Path) -> None:
    """Writes down what is there: from now on the build is complete."""
    with files.Folder(directory) as folder:
        folder.put(MARK, _scan(directory).text())


def is_complete(directory: Path) -> bool:
    """Whether every file of a build is there in its full size."""
    manifest = _read(directory)
    if manifest is None or not manifest.complete:
        return False
    return all(_size(f"{directory}/{name}") == size for name, size in manifest.sizes.items())


def _size(path: str) -> int:
    try:
        status = os.lstat(path)
    except (OSError, ValueError):
        return -1
    return status.st_size if stat.S_ISREG(status.st_mode) else -1


def make_home(directory: Path) -> None:
    """Links to what a build has, in a directory ``cann``: MindSpore looks for one of that name above ``lib64``."""
    with files.Folder(directory) as folder:
        for part in sorted(directory.iterdir()):
            if part.name not in (HOME, MARK):
                folder.put_link(f"{HOME}/{part.name}", f"../{part.name}")


def _named(reasons: Mapping[str, str]) -> str:
    """Names with reasons, for a message."""
    lines = [f"{name} ({reason})" for name, reason in sorted(reasons.items())]
    return ", ".join(lines[:10]) + (f" and {len(lines) - 10} more" if len(lines) > 10 else "")


# ---------------------------------------------------------------------------------------------- a directory of the user's


def install(directory: Path, build: Path) -> None:
    """Copies a complete build into a directory that is absent, empty or an earlier build; what else lies there stays.

    Nothing is changed where a file that another one would replace is not as it was installed: NotOurs names it.
    """
    remedy = f"give another directory: ascend-aclnn emulator build {directory / 'cann'}"
    with files.explaining(str(directory), remedy), files.Folder(directory, create=True) as folder:
        folder.lock()
        old = _read(directory)
        if old is None and not folder.is_empty():
            raise NotOurs(
                f"{directory} is not empty and was not made by `ascend-aclnn emulator build`, so nothing there is replaced; "
                f"{remedy}"
            )
        old = old or Manifest({}, {}, False)
        new = _scan(build)
        known = {name: contents | old.contents.get(name, set()) for name, contents in new.contents.items()}
        foreign = _reasons((name, folder.why_not(name, contents)) for name, contents in known.items())
        if foreign:
            raise NotOurs(
                f"{directory} has files that a build would replace and that are not as a build has left them, so nothing is "
                f"changed: {_named(foreign)}; move them away, or {remedy}"
            )
        folder.put(MARK, new.text(before=old))
        for name, contents in new.contents.items():
            (content,) = contents
            target = files.link_target(content)
            path = build / name
            try:
                if target is None:
                    folder.put(name, path.read_bytes(), known[name], executable=os.access(path, os.X_OK))
                else:
                    folder.put_link(name, target, known[name])
            except files.Refused as reason:  # it has changed since
                raise NotOurs(f"{directory / name} is left, and with it half a build: {reason}; {remedy}") from None
        left = _remove(folder, {name: contents for name, contents in old.contents.items() if name not in new.contents})
        folder.put(MARK, new.text())
    if left:
        print(f"ascend-aclnn: left in {directory}, whose {MARK} lists it: {_named(left)}", file=sys.stderr)


def _remove(folder: files.Folder, contents: Mapping[str, set[str]]) -> dict[str, str]:
    """Removes what a manifest lists; the names of what is left, with reasons."""
    return _reasons((name, folder.remove(name, known)) for name, known in contents.items())


def _reasons(answers: Iterable[tuple[str, Optional[str]]]) -> dict[str, str]:
    return {name: reason for name, reason in answers if reason is not None}


# -------------------------------------------------------------------------------------------------------------- the cache


def cache_directory() -> Path:
    """Where builds are kept: ``ASCEND_EMULATOR_CACHE``, else ascend_aclnn/emulator in the user's cache directory."""
    return files.cache_place(VARIABLE, "emulator")[0]


def cached(name: str, make: Callable[[Path], None]) -> Path:
    """A complete build of a name; of several processes that need it at once, one makes it and the others wait."""
    directory, source = files.cache_place(VARIABLE, "emulator")
    with files.explaining_cache(directory, source, VARIABLE):
        cache = private_directory(directory)
        target = _entry(cache, name)
        if target.exists():
            return target
        with _locked(cache) as builder:
            target = _entry(cache, name)  # another process may have made it during the wait
            if target.exists():
                return target
            prune(cache)
            _clear(cache, name)
            target = _entry(cache, name)
            work = Path(tempfile.mkdtemp(prefix="build-", dir=cache))
            builder.write(files.identity(work))
            builder.flush()
            try:
                make(work)
                os.chmod(work, 0o755)
                files.move(work, target)
            finally:
                files.remove_tree(work)
        return target


def has(name: str) -> bool:
    """Whether the cache has a complete build of a name."""
    return is_complete(_entry(cache_directory(), name))


@contextlib.contextmanager
def _locked(cache: Path) -> Iterator[Any]:
    """The cache's lock, open to write there which directory is being filled; removes the one that a killed process left."""
    descriptor = os.open(cache / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with open(descriptor, "r+", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        files.remove_abandoned(cache, lock.read(1000))
        lock.seek(0)
        lock.truncate()
        yield lock


def _entry(cache: Path, name: str) -> Path:
    """The directory of a name: a complete build, or the first name beside it that is free."""
    for number in range(100):
        path = cache / (f"{name}.{number}" if number else name)
        if is_complete(path) or not os.path.lexists(path):
            return path
    raise FileExistsError(errno.EEXIST, "it has a hundred directories that are not complete builds", str(cache / name))


def _clear(cache: Path, name: str) -> None:
    """Removes what is left of builds of a name that are not complete."""
    for path in (cache / name, *cache.glob(f"{name}.*")):
        if _ENTRY.fullmatch(path.name) and not is_complete(path) and _read(path) is not None:
            print(f"ascend-aclnn: {path} is not complete and is built again", file=sys.stderr)
            _remove_entry(path)


def prune(cache: Path) -> None:
    """Removes builds and objects that have not been made for a month."""
    before = time.time() - _KEPT_SECONDS
    for path in cache.iterdir():
        if _ENTRY.fullmatch(path.name) and not path.is_symlink() and path.stat().st_mtime < before:
            _remove_entry(path)
    if (cache / OBJECTS).is_dir():
        with files.Folder(cache / OBJECTS) as folder:
            for path in (cache / OBJECTS).iterdir():
                match = _OBJECT.fullmatch(path.name)
                if match and path.lstat().st_mtime < before:
                    folder.remove(path.name, {match[1]})


def _remove_entry(directory: Path) -> None:
    """Removes a build from the cache: what is as it was built, and what Python has compiled of it. Names the rest."""
    manifest = _read(directory)
    if manifest is None:
        return
    with files.Folder(directory) as folder:
        left = _remove(folder, manifest.contents)
        for name in manifest.contents:
            if name.endswith(".py") and name not in left:
                place = Path(name).parent / "__pycache__"
                for path in (directory / place).glob(f"{Path(name).stem}.*.pyc"):
                    folder.remove((place / path.name).as_posix(), {files.content_of(path)})
        folder.remove(MARK, {files.content_of(directory / MARK)})
    others = (path.relative_to(directory).as_posix() for path in directory.rglob("*") if not path.is_dir())
    left = {**dict.fromkeys(others, "the build did not have it"), **left}
    if left:
        print(f"ascend-aclnn: left in {directory}: {_named(left)}", file=sys.stderr)
    with contextlib.suppress(OSError):
        directory.rmdir()


def object_of(shared_objects: Path, key: str) -> Optional[Path]:
    """The compiled source of a key, where the cache has it whole."""
    for path in shared_objects.glob(f"{key}-*.o"):
        match = _OBJECT.fullmatch(path.name)
        if match and not path.is_symlink() and files.content_of(path) == match[1]:
            return path
    return None


def keep_object(shared_objects: Path, key: str, unfinished: Path) -> Path:
    """Puts a compiled source into the cache, under a name that has its key and its digest."""
    shared_objects.mkdir(exist_ok=True)
    path = shared_objects / f"{key}-{files.content_of(unfinished)}.o"
    files.move(unfinished, path)
    return path


def private_directory(directory: Path) -> Path:
    """The directory if this user, and no other, can write to it; otherwise a private one, with a warning."""
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            os.mkdir(directory, 0o700)
        reason = why_not_private(directory)
    except OSError as error:  # a HOME that is absent or not writable
        reason = f"it cannot be made ({error})"
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
    """Why others could have put something there, or this user can not; None when neither is so."""
    status = os.lstat(directory)
    if stat.S_ISLNK(status.st_mode):
        return "it is a symbolic link"
    if not stat.S_ISDIR(status.st_mode):
        return "it is not a directory"
    if status.st_uid != os.getuid():
        return f"it belongs to user {status.st_uid}"
    if not os.access(directory, os.W_OK):
        return "it cannot be written to"
    return "others can write to it" if status.st_mode & 0o022 else None
