"""Deleting and overwriting files: the only module of the package that does either, and where its caches lie.

Names in a directory often come from a manifest, which may have come with an archive. So a name is relative and has no "..";
it is resolved part by part from the descriptor of the directory, never through a link; directories and files on the way
belong to the caller; and a file is removed or replaced only while its content is what was installed under its name. Whatever
else is found is left, with the reason.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import secrets
import shutil
import stat
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Optional

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


class Refused(Exception):
    """Why a file is left as it is."""


class DirectoryError(OSError):
    """A directory that the package writes to cannot be used: which, why, and what to do."""

    def __str__(self) -> str:
        return str(self.args[-1])


class Folder:
    """An open directory, and the files below it that the caller may have installed."""

    def __init__(self, path: Path, create: bool = False) -> None:
        if create:
            path.mkdir(parents=True, exist_ok=True)
        self.path = path
        self._descriptor = os.open(path, _DIRECTORY)

    def __enter__(self) -> Folder:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)

    def lock(self) -> None:
        """Waits until no other process has locked the directory; the lock ends with this object."""
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)

    def is_empty(self) -> bool:
        """Whether nothing lies in the directory."""
        return not os.listdir(self._descriptor)

    def read(self, name: str) -> bytes:
        """The content of a regular file of the caller's; FileNotFoundError or Refused otherwise."""
        with self._parent(name) as (parent, base), _opened(parent, base) as file:
            return b"".join(_blocks(file))

    def why_not(self, name: str, installed: Collection[str]) -> Optional[str]:
        """Why what lies under a name is not what was installed; None where it is, or where nothing lies there.

        ``installed``: contents (`content_of`) that the caller has put there.
        """
        try:
            with self._parent(name) as (parent, base):
                _verify(parent, base, installed)
        except FileNotFoundError:
            return None
        except Refused as reason:
            return str(reason)
        return None

    def remove(self, name: str, installed: Collection[str]) -> Optional[str]:
        """Removes what was installed under a name, and directories that are empty then; why not, where it is left."""
        try:
            with self._parent(name) as (parent, base):
                _verify(parent, base, installed)
                os.unlink(base, dir_fd=parent)
        except FileNotFoundError:
            return None
        except Refused as reason:
            return str(reason)
        except OSError as error:
            return error.strerror
        self._remove_empty(name)
        return None

    def _remove_empty(self, name: str) -> None:
        """Removes the directories above a name that hold nothing more."""
        parts = name.split("/")[:-1]
        with contextlib.suppress(OSError, Refused):
            while parts:
                with self._parent("/".join(parts)) as (parent, base):
                    os.rmdir(base, dir_fd=parent)
                parts.pop()

    def remove_unfinished(self, prefix: str, file: str) -> None:
        """Removes directories of a prefix with one file, which processes that were killed have left.

        To be called under a lock that each process holds while its directory is there.
        """
        for name in os.listdir(self._descriptor):
            if name.startswith(prefix):
                with contextlib.suppress(OSError, Refused), self._parent(f"{name}/{file}") as (parent, base):
                    with contextlib.suppress(FileNotFoundError), _opened(parent, base):
                        os.unlink(base, dir_fd=parent)
                    os.rmdir(name, dir_fd=self._descriptor)

    def put(
        self, name: str, content: bytes, installed: Optional[Collection[str]] = None, executable: bool = False
    ) -> None:
        """Puts a file under a name. It is written beside that name first, so a process that has the old file open keeps it.

        What lies there is replaced if it is what was ``installed``; without that, whatever it is. Refused otherwise.
        """

        def write(temporary: str, parent: int) -> None:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            with open(os.open(temporary, flags, 0o777 if executable else 0o666, dir_fd=parent), "wb") as stream:
                stream.write(content)

        self._place(name, write, installed)

    def put_link(self, name: str, target: str, installed: Optional[Collection[str]] = None) -> None:
        """`put` for a symbolic link."""
        self._place(name, lambda temporary, parent: os.symlink(target, temporary, dir_fd=parent), installed)

    def _place(self, name: str, write: Callable[[str, int], None], installed: Optional[Collection[str]]) -> None:
        with self._parent(name, create=True) as (parent, base):
            temporary = f".ascend-aclnn-{secrets.token_hex(8)}"
            try:
                write(temporary, parent)
                if installed is not None:
                    with contextlib.suppress(FileNotFoundError):
                        _verify(parent, base, installed)
                os.replace(temporary, base, src_dir_fd=parent, dst_dir_fd=parent)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(temporary, dir_fd=parent)
                raise

    @contextlib.contextmanager
    def _parent(self, name: str, create: bool = False) -> Iterator[tuple[int, str]]:
        """The open directory of a name, and the last part of the name."""
        *directories, base = _parts(name)
        descriptor = os.dup(self._descriptor)
        try:
            for part in directories:
                if create:
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(part, 0o755, dir_fd=descriptor)
                below = _open(part, _DIRECTORY | os.O_NOFOLLOW, descriptor)
                os.close(descriptor)
                descriptor = below
                _check_owner(os.fstat(descriptor), f"{part}/ ")
            yield descriptor, base
        finally:
            os.close(descriptor)


def _parts(name: str) -> list[str]:
    """The parts of a name below a directory."""
    parts = name.split("/")
    if name.startswith("/"):
        raise Refused("the name is absolute")
    if ".." in parts:
        raise Refused("the name has '..'")
    if "" in parts or "." in parts or "\0" in name:
        raise Refused("the name is not that of a file")
    with contextlib.suppress(UnicodeEncodeError):
        os.fsencode(name)
        return parts
    raise Refused("the name has characters that file names here cannot have")


def _open(name: str, flags: int, directory: int) -> int:
    try:
        return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
    except FileNotFoundError:
        raise
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            what = "a link" if _is_link(name, directory) else "not a directory"
            raise Refused(f"{name} is {what}") from None
        raise Refused(f"{name}: {error.strerror}") from None


def _is_link(name: str, directory: int) -> bool:
    with contextlib.suppress(OSError):
        return stat.S_ISLNK(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode)
    return False


def _check_owner(status: os.stat_result, what: str = "") -> None:
    if status.st_uid != os.geteuid():
        raise Refused(f"{what}belongs to user {status.st_uid}")


@contextlib.contextmanager
def _opened(directory: int, name: str) -> Iterator[int]:
    """A regular file of the caller's, open for reading."""
    file = _open(name, os.O_RDONLY | os.O_NONBLOCK, directory)
    try:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            raise Refused("it is not a file")
        _check_owner(status)
        yield file
    finally:
        os.close(file)


def _blocks(file: int) -> Iterator[bytes]:
    return iter(lambda: os.read(file, 1 << 20), b"")


def _verify(directory: int, name: str, installed: Collection[str]) -> None:
    """Passes where a directory has what was installed under a name; FileNotFoundError where it has nothing."""
    if not installed:
        os.stat(name, dir_fd=directory, follow_symlinks=False)
        raise Refused("nothing says what was installed there")
    if _is_link(name, directory):
        if _link_content(os.readlink(name, dir_fd=directory)) not in installed:
            raise Refused("it is a link")
        return
    with _opened(directory, name) as file:
        digest = hashlib.sha256()
        for block in _blocks(file):
            digest.update(block)
        if digest.hexdigest() not in installed:
            raise Refused("it is not what was installed there")
        before, now = os.fstat(file), os.stat(name, dir_fd=directory, follow_symlinks=False)
        if (before.st_dev, before.st_ino) != (now.st_dev, now.st_ino):
            raise Refused("it has been replaced")


def _link_content(target: str) -> str:
    return f"-> {target}"


def content_of(path: Path) -> str:
    """What a manifest keeps of a file: its SHA-256, or "-> " and the target of a symbolic link."""
    if path.is_symlink():
        return _link_content(os.readlink(path))
    return hashlib.sha256(path.read_bytes()).hexdigest()


def link_target(content: str) -> Optional[str]:
    """The target where a content is that of a symbolic link."""
    return content[3:] if content.startswith("-> ") else None


# ------------------------------------------------------------------------------- what this process makes for itself


def remove_tree(directory: Path) -> None:
    """Removes a directory that the caller has made and filled, such as one to work in; links in it are not followed."""
    shutil.rmtree(directory, ignore_errors=True)


def move(source: Path, target: Path) -> None:
    """Puts a finished file or directory of the caller's under its name, where nothing or a file of the caller's is."""
    with contextlib.suppress(FileNotFoundError):
        status = os.lstat(target)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
            raise FileExistsError(
                errno.EEXIST, "what lies there is not a file of this user's, and is left", str(target)
            )
    os.replace(source, target)


def discard(file: Path) -> None:
    """Removes a file that this process has begun to write and not finished; nothing where there is none."""
    file.unlink(missing_ok=True)


def identity(directory: Path) -> str:
    """Name and inode of a directory: what a later process needs to know it again."""
    status = os.lstat(directory)
    return f"{directory.name} {status.st_dev} {status.st_ino}"


def remove_abandoned(parent: Path, identified: str) -> None:
    """Removes a directory whose process has ended before it could: the one that `identity` described, and no other."""
    name = identified.split(" ")[0]
    if name and "/" not in name and name not in (".", ".."):
        directory = parent / name
        with contextlib.suppress(OSError):
            if stat.S_ISDIR(os.lstat(directory).st_mode) and identity(directory) == identified:
                remove_tree(directory)


# ----------------------------------------------------------------------------------------------------------- caches


def cache_place(variable: str, room: str) -> tuple[Path, str]:
    """Where a cache lies, and the variable that says so: ``variable``, else ascend_aclnn/<room> in the user's cache."""
    for name, parts in ((variable, ()), ("XDG_CACHE_HOME", ("ascend_aclnn", room))):
        value = os.environ.get(name)
        if value:
            return Path(value, *parts).absolute(), name
    home = os.path.expanduser("~")
    return Path(home, ".cache", "ascend_aclnn", room).absolute(), "HOME"


@contextlib.contextmanager
def explaining(subject: str, remedy: str) -> Iterator[None]:
    """Says of an OSError which directory it is about and what to do."""
    try:
        yield
    except DirectoryError:
        raise
    except OSError as error:
        name, reason = error.filename, error.strerror or str(error)
        if isinstance(error, shutil.Error):  # shutil.copytree's: source, target and reason of each file that failed
            reason = str(error.args[0][0][2])
        place = f" ({os.fsdecode(name)})" if isinstance(name, (str, bytes)) and os.fsdecode(name) not in subject else ""
        raise DirectoryError(error.errno, f"{subject} cannot be used: {reason}{place}; {remedy}") from error


def explaining_cache(directory: Path, source: str, variable: str) -> contextlib.AbstractContextManager[None]:
    """`explaining` for a cache whose place follows from ``source`` and that ``variable`` can move."""
    return explaining(
        f"the cache {directory}, which {source} names,",
        f"let {variable} name a directory that this user can write to and that has space",
    )
