"""A vendor's library for the emulated device: both phases of operators that the catalog lacks, and their headers.

    directory/op_api/lib/libcust_opapi.so
    directory/op_api/include/aclnn_scaled_rows.h

This is where CANN's clients look below each directory of ASCEND_CUSTOM_OPP_PATH.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path

from ascend_aclnn.catalog import Operator
from ascend_aclnn.core import files
from ascend_aclnn.emulator.build import cache, headers
from ascend_aclnn.emulator.build.compiler import FLAGS, LINK, find_compiler, run_compiler
from ascend_aclnn.emulator.build.generated import phases
from ascend_aclnn.emulator.build.libraries import CSRC, GENERATED, runtime_of

LIBRARY, NAME = "op_api/lib", "libcust_opapi.so"
_QUIET = "-Wno-missing-field-initializers"  # an operator's description leaves out what it is not


def build_vendor(operators: Sequence[Operator], emulator: Path) -> Path:
    """The directory of a library with these operators beside the emulated CANN of a build; made once and kept in the cache."""
    code = "\n".join(['#include "nnopbase/executor.h"', *(line for one in operators for line in phases(one))])
    digest = hashlib.sha256("\0".join([*FLAGS, *LINK, str(emulator), code]).encode()).hexdigest()[:20]

    def make(directory: Path) -> None:
        work, library, include = directory / "work", directory / LIBRARY, directory / "op_api" / "include"
        for place in (work, library, include):
            place.mkdir(parents=True)
        for name, text in GENERATED.items():
            (work / name).write_text(text(), encoding="utf-8")
        source = work / "operators.c"
        source.write_text(code, encoding="utf-8")
        for operator in operators:
            (include / f"{_snake_case(operator.name)}.h").write_text(_header(operator), encoding="utf-8")
        places = [f"-I{place}" for place in (emulator / "include", CSRC, work)]
        lib64 = emulator / "lib64"
        names = (f"-Wl,-rpath,{lib64}", f"-Wl,-soname,{NAME}", str(source), "-o", str(library / NAME), f"-L{lib64}")
        needed = [f"-l:{name}" for name in ("libnnopbase.so", runtime_of(lib64))]
        run_compiler([find_compiler(), *FLAGS, _QUIET, *places, *LINK, *names, *needed])
        files.remove_tree(work)
        cache.finish(directory)

    return cache.cached(digest, make)


def _header(operator: Operator) -> str:
    guard = f"VENDOR_{_snake_case(operator.name).upper()}_H"
    lines = [f"#ifndef {guard}", f"#define {guard}", '#include "aclnn/acl_meta.h"', "", "#ifdef __cplusplus"]
    lines += ['extern "C" {', "#endif", *headers.operator_prototypes(operator), "#ifdef __cplusplus", "}", "#endif"]
    return "\n".join([*lines, "#endif", ""])


def _snake_case(name: str) -> str:
    """aclnnScaledRows is aclnn_scaled_rows, as CANN names the header."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()
