"""The C headers of the emulated CANN: written from the package's data, at the include paths that CANN uses.

Hand-written are only the structures (``include/``); enums, constants, runtime prototypes and all operators come from
the catalog, so that the headers, the libraries and the Python layer cannot disagree.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from ascend_aclnn import catalog
from ascend_aclnn.catalog import life
from ascend_aclnn.emulator import releases
from ascend_aclnn.emulator.build import atb

INCLUDE = Path(__file__).parents[1] / "include"

# Headers of the runtime and what each includes besides what its own prototypes need.
_RUNTIME_HEADERS = {
    "acl/acl_base.h": ("acl/acl_types.h",),
    "acl/acl_rt.h": ("acl/acl_base.h",),
    "acl/acl_rt_allocator.h": ("acl/acl_base.h",),
    "acl/acl_rt_memory_soma.h": ("acl/acl_base.h",),
    "acl/acl_mdl.h": ("acl/acl_base.h", "acl/acl_rt.h"),
    "acl/acl_platform.h": ("acl/acl_base.h",),
    "acl/acl.h": ("acl/acl_rt.h", "acl/acl_op.h", "acl/acl_mdl.h"),
    "aclnn/acl_meta.h": ("aclnn/acl_meta_types.h",),
    "aclnn/aclnn_base.h": ("aclnn/acl_meta.h",),
    "hccl/hccl.h": ("hccl/hccl_types.h", "hccl/hccl_comm.h", "acl/acl.h"),
    "hccl/hccl_comm.h": ("hccl/hccl_types.h",),
}

# What CANN 8.1 has besides a header for each operator: all of them together, by what they are for; and each of the older ones
# also below level2/. The families of operators do not tell inference from training.
_AGGREGATES = {
    "aclnnop/aclnn_ops_infer.h": "",
    "aclnnop/aclnn_ops_train.h": "",
    "aclnnop/aclnn_math.h": "ops-math/",
    "aclnnop/aclnn_rand.h": "ops-math/random",
}

_C_TYPES = {"void", "char", "int", "float", "double", "bool", "size_t"} | {
    f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)
}


def runtime_functions() -> dict[str, Any]:
    """Every function outside the operators: name -> returns, params, since, library, header."""
    data: dict[str, Any] = json.loads((catalog.DATA / "runtime_functions.json").read_text(encoding="utf-8"))
    return data


# Their libraries; aclprof's code lies in the first one here, where torch_npu asks for it too.
_HAND_WRITTEN = (
    ("acl_op.h", "libascendcl.so", "libascendcl.so"),
    ("acl_prof.h", "libascendcl.so", "libmsprofiler.so"),
    ("acl_op_compiler.h", "libacl_op_compiler.so", "libacl_op_compiler.so"),
)


def single_operator_functions() -> dict[str, Any]:
    """The functions of the headers that are written by hand: name -> what it returns, and its libraries."""
    functions: dict[str, Any] = {}
    for header, library, newest in _HAND_WRITTEN:
        text = (INCLUDE / "acl" / header).read_text(encoding="utf-8")
        for returns, name in re.findall(r"^(?!typedef|static)(\w[\w ]*[ *])(\w+)\([^;{]*\);", text, re.M):
            functions[name] = {"returns": returns.strip(), "library": library, "newest_library": newest}
    return functions


def graph_functions() -> dict[str, str]:
    """The graph engine's functions that MindSpore 2.10 and torchair link against: the linker's name -> the C++ one."""
    data: dict[str, str] = json.loads((catalog.DATA / "graph_functions.json").read_text(encoding="utf-8"))
    return data


def helper_functions() -> dict[str, Any]:
    """The one-phase host functions that lie in the operators' headers: name -> header, returns, parameters."""
    data: dict[str, Any] = json.loads((catalog.DATA / "helpers.json").read_text(encoding="utf-8"))
    return data


def enums() -> dict[str, dict[str, int]]:
    data: dict[str, dict[str, int]] = json.loads((catalog.DATA / "enums.json").read_text(encoding="utf-8"))
    return data


def write(directory: Path, cann: str = releases.DEFAULT, with_operators: bool = True) -> None:
    """Writes all headers, or all but the two thousand of operators, into a directory, without what a release has no more."""
    shutil.copytree(INCLUDE, directory, dirs_exist_ok=True)
    _write(directory, "acl/acl_enums.h", (), _enum_lines())
    types = _known_types(directory)
    gone = {name for name in runtime_functions() if life.of(name).absent_from(releases.toolkit(cann))}
    for header, includes in _RUNTIME_HEADERS.items():
        rows = ((n, f) for n, f in runtime_functions().items() if f["header"] == header and n not in gone)
        lines = [prototype(name, row) for name, row in rows if _needs(row) <= types]
        _write(directory, header, includes, lines)
    groups: dict[str, list[str]] = {}
    own = set(catalog.registered())  # of vendors and programs: no CANN has headers of these
    names = [name for name in catalog.names() if name not in own and not releases.lacks_operator(cann, name)]
    operators = [catalog.get(name) for name in names] if with_operators else []
    for operator in operators:
        groups.setdefault(operator.header, []).extend(operator_prototypes(operator))
    for name, row in helper_functions().items():
        groups.setdefault(row["header"], []).append(helper_prototype(name, row))
    further = _further_includes()
    for header, lines in groups.items():
        folder, _, name = header.rpartition("/")
        _write(directory, header, ("aclnn/aclnn_base.h", *further.get(name, ())), lines)
        other = f"{folder.removesuffix('/level2')}{'' if folder.endswith('/level2') else '/level2'}/{name}"
        if folder in ("aclnnop", "aclnnop/level2") and other not in groups:
            _write(directory, other, (header,), ())
    for name, text in atb.HEADERS.items():
        (directory / "atb" / name).write_text(text(), encoding="utf-8")
    _write_hixl(directory)
    for header, beginning in _AGGREGATES.items():
        families = {operator.header for operator in operators if operator.family.startswith(beginning)}
        _write(directory, header, sorted(families), ())


def _write_hixl(directory: Path) -> None:
    """``hixl/``: newer CANN's names of what ``adxl/`` has."""
    names = {"adxl_engine.h": "hixl.h", '"adxl.': '"', "adxl": "hixl", "AdxlEngine": "Hixl", "ADXL": "HIXL"}
    (directory / "hixl").mkdir()
    for header, newer in (("adxl_engine.h", "hixl.h"), ("adxl_types.h", "hixl_types.h")):
        text = (directory / "adxl" / header).read_text(encoding="utf-8")
        for name, other in names.items():
            text = text.replace(name, other)
        (directory / "hixl" / newer).write_text(text, encoding="utf-8")


def _further_includes() -> dict[str, list[str]]:
    """What CANN's headers of operators include beside aclnn_base.h, and their users rely on: by the header's name.

    Read from the headers of CANN 8.1.RC1 and of the newest public sources: the earlier ones include more of hccl.
    """
    rows: dict[str, str] = json.loads((catalog.DATA / "header_includes.json").read_text(encoding="utf-8"))
    includes: dict[str, list[str]] = {}
    for include, names in rows.items():
        for name in names.split():
            includes.setdefault(f"{name}.h", []).append(include)
    return includes


def prototype(name: str, row: dict[str, Any]) -> str:
    """The prototype of a runtime function."""
    parameters = [_declaration(ctype, parameter) for parameter, ctype in row["params"]]
    if row.get("variadic"):
        parameters.append("...")
    return f"{row['returns']} {name}({', '.join(parameters) or 'void'});"


def operator_prototypes(operator: catalog.Operator) -> tuple[str, str]:
    """The prototypes of both phases, without a semicolon's worth of difference to CANN's."""
    one = [_declaration(p.ctype, p.name) for p in operator.parameters]
    one += ["uint64_t *workspaceSize", "aclOpExecutor **executor"]
    two = ["void *workspace", "uint64_t workspaceSize", "aclOpExecutor *executor"]
    two += [_declaration(ctype, name) for ctype, name in operator.phase_two]
    two += ["aclrtStream stream"]
    return (
        f"aclnnStatus {operator.phase_one}({', '.join(one)});",
        f"aclnnStatus {operator.name}({', '.join(two)});",
    )


def helper_prototype(name: str, row: dict[str, Any]) -> str:
    """The prototype of a helper. C has no references: there they are the pointers that they are in the ABI."""
    parameters = [(p["ctype"], p["name"]) for p in row["parameters"]]
    text = f"{row['returns']} {name}({', '.join(_declaration(c, n) for c, n in parameters)});"
    if "&" not in text:
        return text
    return f"#ifdef __cplusplus\n{text}\n#else\n{text.replace('&', '*')}\n#endif"


def _declaration(ctype: str, name: str) -> str:
    array = re.fullmatch(r"(\w+)((?:\[\w*\])+)", ctype.replace(" ", ""))
    if array:
        return f"{array.group(1)} {name}{array.group(2)}"
    bare = re.sub(r"\s*([*&])", r" \1", ctype).strip()
    bare = re.sub(r"([*&])\s+(?=[*&])", r"\1", bare)
    return f"{bare}{name}" if bare.endswith(("*", "&")) else f"{bare} {name}"


def _needs(row: dict[str, Any]) -> set[str]:
    """The type names that a prototype mentions."""
    texts = [row["returns"], *(ctype for _, ctype in row["params"])]
    words = {word for text in texts for word in re.findall(r"[A-Za-z_]\w*", re.sub(r"\[.*", "", text))}
    return words - {"const", "struct"}


def _known_types(directory: Path) -> set[str]:
    """The types that the headers define; a prototype that needs another one is left out (the library still has it)."""
    types = _C_TYPES | {name for name in enums() if name not in _NOT_ENUMS}
    for header in INCLUDE.rglob("*_types.h"):
        text = header.read_text(encoding="utf-8")
        types |= set(re.findall(r"^(?:typedef .*?|\} )(\w+);", text, re.M))
        types |= set(re.findall(r"^typedef .*\(\*(\w+)\)\(", text, re.M))
    return types


_NOT_ENUMS = ("aclError", "aclnnStatus", "constants")


def _enum_lines() -> Iterable[str]:
    tables = enums()
    for name, value in tables["constants"].items():
        yield f"#define {name} {_literal(value)}"
    for group in ("aclError", "aclnnStatus"):
        for name, value in tables[group].items():
            yield f"static const int {name} = {value};"
    for name, members in tables.items():
        if name not in _NOT_ENUMS:
            rows = "".join(f"    {member} = {_literal(value)},\n" for member, value in members.items())
            yield f"typedef enum {name} {{\n{rows}}} {name};"


def _literal(value: int) -> str:
    return f"{value}ULL" if value > 0x7FFFFFFFFFFFFFFF else f"{value}U" if value > 0x7FFFFFFF else str(value)


def _write(directory: Path, header: str, includes: Sequence[str], lines: Iterable[str]) -> None:
    guard = "ASCEND_ACLNN_" + re.sub(r"\W", "_", header).upper()
    text = [f"/* {header}: made by ascend_aclnn from its operator catalog. */"]
    text += [f"#ifndef {guard}", f"#define {guard}", ""]
    text += [f'#include "{include}"' for include in includes if "/" in include]
    standard = [f"#include <{include}>" for include in includes if "/" not in include]  # of C++
    text += ["#ifdef __cplusplus", *standard, "#endif"] if standard else []
    text += ["", "#ifdef __cplusplus", 'extern "C" {', "#endif", "", *lines, ""]
    text += ["#ifdef __cplusplus", "}", "#endif", "", "#endif", ""]
    path = directory / header
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(text), encoding="utf-8")
