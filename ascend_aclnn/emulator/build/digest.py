"""What a build is made of, and the name in the cache that follows from it."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from ascend_aclnn.emulator.build.compiler import FLAGS, LINK
from ascend_aclnn.emulator.build.libraries import PACKAGE, Options


def name_of(options: Options) -> str:
    """The name of a build in the cache: a digest of what it is made of, this interpreter included."""
    return hashlib.sha256(os.fsencode(f"{libraries_digest(options)}\0{configuration(options)}")).hexdigest()[:20]


@functools.cache
def libraries_digest(options: Options) -> str:
    """A digest of what the libraries are made of."""
    digest = hashlib.sha256("\0".join([*FLAGS, *LINK, repr(options)]).encode())
    for path in sorted(_inputs()):
        digest.update(path.relative_to(PACKAGE).as_posix().encode() + b"\0")
        digest.update(path.read_bytes())
    return digest.hexdigest()[:20]


def _inputs() -> Iterator[Path]:
    builder = ("emulator/build/*.py", "emulator/client.py", "emulator/protocol.py", "emulator/releases.py")
    data = ("catalog/*.py", "catalog/*.json", "catalog/data/*", "core/hccl.py", "core/socs.py")
    for pattern in ("emulator/csrc/**/*.[ch]", "emulator/include/**/*.h", *builder, *data):
        yield from (path for path in PACKAGE.glob(pattern) if path.is_file())


def configuration(options: Options) -> str:
    """The release, and how the libraries start the device process: this interpreter, this package and what it needs."""
    return f"python={interpreter()}\npath={':'.join(packages())}\ncann={options.cann}\n"


def interpreter() -> str:
    """This interpreter, by its own name: its aliases share a build."""
    return os.path.realpath(sys.executable)


def packages() -> list[str]:
    """The directories of this package and of what it needs."""
    paths = [str(PACKAGE.parent)]
    for name in ("numpy", "ml_dtypes"):
        spec = importlib.util.find_spec(name)
        origin = None if spec is None else spec.origin
        if origin is not None and str(Path(origin).parent.parent) not in paths:
            paths.append(str(Path(origin).parent.parent))
    return paths
