"""Builds the emulated CANN: headers and drop-in libraries, with the system's C compiler.

    directory/include/      acl/, aclnn/, aclnnop/, hccl/: made from the catalog (headers.py)
    directory/lib64/        libascendcl.so, libnnopbase.so, libopapi.so and those that clients want beside them; emulator.conf
    directory/runtime/, compiler/, opp/     the release, where clients look for it below ASCEND_HOME_PATH
    directory/python/site-packages/         the release, where MindSpore imports it
    directory/atb/cxx_abi_1/                links, where clients look for ATB below ATB_HOME_PATH
    directory/bin/          npu-smi, and the compiler that triton-ascend looks for
    directory/cann/         links to all this

The hand-written part is ``csrc/``; both phases of every operator, and a refusing stub for every function of CANN's
interface that the emulator lacks, are generated. A wheel for one platform carries the libraries of the default options in
``prebuilt/``: a build copies them, and needs no compiler.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from ascend_aclnn.emulator import releases
from ascend_aclnn.emulator.build import cache
from ascend_aclnn.emulator.build.compiler import CompilerError, NoCompilerError, compile_libraries, find_compiler
from ascend_aclnn.emulator.build.digest import name_of
from ascend_aclnn.emulator.build.generated import emulated_functions
from ascend_aclnn.emulator.build.libraries import Options
from ascend_aclnn.emulator.build.prebuilt_libraries import prebuilt, prebuilt_name
from ascend_aclnn.emulator.build.tree import ATB_HOME, PROGRAMS, PYTHON_PACKAGES, PYTHON_START, complete

__all__ = [
    "ATB_HOME",
    "PROGRAMS",
    "PYTHON_PACKAGES",
    "PYTHON_START",
    "CompilerError",
    "NoCompilerError",
    "Options",
    "build",
    "cache",
    "compile_libraries",
    "emulated_functions",
    "find_compiler",
    "name_of",
    "prebuilt",
    "prebuilt_name",
]


def build(
    directory: Path | str | None = None,
    split: bool = False,
    cann: str | None = None,
    sanitize: Sequence[str] = (),
) -> Path:
    """Headers and libraries in the user's cache, or a copy of them in a directory; returns where they are.

    ``cann`` None: the release of ``ASCEND_EMULATOR_CANN``, else 8.1.RC1. A build in the cache is made once for each state of
    the package and the interpreter, and needs no compiler any more.
    """
    options = Options(releases.chosen(cann), split, tuple(sanitize))

    def make(new_build: Path) -> None:
        ready = prebuilt(options)
        if ready is None:
            compile_libraries(new_build, find_compiler(), options, new_build.parent / cache.OBJECTS)
        else:
            shutil.copytree(ready, new_build / "lib64")
        complete(new_build, options)
        cache.finish(new_build)

    ready_build = cache.cached(name_of(options), make)
    if directory is None:
        return ready_build
    target = Path(directory).absolute()
    cache.install(target, ready_build)
    return target
