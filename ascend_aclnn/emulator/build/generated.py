"""The C code that is made of the catalog: both phases of every operator, and what refuses all that ``csrc/`` lacks."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator

from ascend_aclnn import catalog
from ascend_aclnn.catalog import Operator
from ascend_aclnn.emulator import protocol, releases
from ascend_aclnn.emulator.build import headers
from ascend_aclnn.emulator.build.libraries import CSRC, REPOSITORIES

# What a refusing stub returns, by its return type; everything else returns 0 or a null pointer.
_REFUSALS = {
    # Not ACL_ERROR_RT_FEATURE_NOT_SUPPORT: torch_npu continues after it, with results that were never computed.
    "aclError": "ACL_ERROR_FEATURE_UNSUPPORTED",
    "aclnnStatus": "ACLNN_ERR_INNER_FIND_KERNEL_ERROR",
    "HcclResult": "HCCL_E_NOT_SUPPORT",
    "aclDataType": "ACL_DT_UNDEFINED",
    "aclFormat": "ACL_FORMAT_UNDEFINED",
    "acltdtTensorType": "ACL_TENSOR_DATA_UNDEFINED",
}


@functools.cache
def emulated_functions() -> frozenset[str]:
    """The functions of CANN's interface that csrc/ implements."""
    functions: set[str] = set()
    for path in sorted(CSRC.rglob("*.c")):
        text = path.read_text(encoding="utf-8")
        functions.update(re.findall(r"^API [^(]*?\b(\w+)\(", text, re.M))
        for pair in re.findall(r"^SET_(?:TENSOR|MEMBER)\((\w+), (\w+),", text, re.M):
            functions.update(pair)
    return frozenset(functions)


def absent_functions(cann: str) -> frozenset[str]:
    """The runtime's functions that a release does not have."""
    return releases.absent(cann, {name: row["since"] for name, row in headers.runtime_functions().items()})


def stub_lines(libraries: tuple[str, ...], cann: str) -> Iterator[str]:
    """A refusing function for everything in these libraries of a release that csrc/ does not have."""
    absent = absent_functions(cann)
    yield "#include <stddef.h>\n#include <stdint.h>"
    rows = {**headers.runtime_functions(), **headers.single_operator_functions()}
    for name, row in rows.items():
        if row["library"] in libraries and name not in emulated_functions() and name not in absent:
            yield from _stub(name, row["returns"])


def name_lines(library: str, cann: str) -> Iterator[str]:
    """The functions of a library whose code lies in another one, which the dynamic linker asks first."""
    absent = absent_functions(cann)
    for name, row in {**headers.runtime_functions(), **headers.single_operator_functions()}.items():
        if library in (row["library"], row.get("newest_library"), _part_of(name)) and name not in absent:
            yield f'__attribute__((visibility("default"))) void {name}(void) {{}}'


def _part_of(function: str) -> str:
    """The library that has a function of libascendcl.so where that is taken apart; "" for the runtime itself."""
    if function.startswith("aclmdl") and not function.startswith("aclmdlRI"):
        return "libacl_mdl.so"
    return "libacl_op_executor.so" if function.startswith(("aclop", "aclblas")) else ""


def _stub(name: str, returns: str) -> Iterator[str]:
    """One refusing function, without parameters: by Linux's calling conventions the caller removes its arguments."""
    refusal = _enum(returns)[_REFUSALS[returns]] if returns in _REFUSALS else 0
    status = refusal if refusal > 0 else _enum("aclError")[_REFUSALS["aclError"]]
    ctype = "void *" if returns.endswith("*") or returns in _HANDLES else "int" if returns in _REFUSALS else returns
    result = "" if returns == "void" else f" return {f'({ctype})' if ctype == 'void *' else ''}{refusal};"
    yield "int emu_not_emulated(const char *routine, int refusal);"
    yield f'__attribute__((visibility("default"))) {ctype} {name}(void) {{'
    yield f'    emu_not_emulated("{name}", {status});{result}\n}}'


def graph_lines() -> Iterator[str]:
    """A refusing function for every one of the graph engine's that csrc/ does not have."""
    yield '#include "graph/graph_engine.h"'
    for symbol, function in headers.graph_functions().items():
        if symbol not in emulated_functions():
            yield f'__attribute__((visibility("default"))) void {symbol}(void) {{ emu_refuse_graph("{function}"); }}'


def _enum(name: str) -> dict[str, int]:
    return headers.enums().get(name, {})


# Handles that are returned by value and are pointers.
_HANDLES = ("aclrtBinary", "aclrtAllocatorDesc")


def operator_lines(repository: str, cann: str) -> Iterator[str]:
    """Both phases of every operator that a repository of a release still has, and its helpers that the emulator lacks."""
    yield '#include "nnopbase/executor.h"'
    for operator in map(catalog.get, catalog.names()):
        if _repository(operator.family) == repository and not releases.lacks_operator(cann, operator.name):
            yield from phases(operator)
    for name, row in headers.helper_functions().items():
        if (
            _repository(row["family"]) == repository
            and name not in emulated_functions()
            and name not in _second_phase_ones()
        ):
            yield from _stub(name, row["returns"])


def _second_phase_ones() -> list[str]:
    return [f"{name}GetMaxWorkspaceSize" for name in MAX_WORKSPACE]


def _repository(family: str) -> str:
    """Where a family of operators comes from; a vendor's would go with the first."""
    repository = family.partition("/")[0]
    return repository if repository in REPOSITORIES else REPOSITORIES[0]


# Operators with a second phase one, for the largest workspace that other lengths of the same sequences may need. It takes the
# same arguments, and here, where no workspace is used, it is the same.
MAX_WORKSPACE = (
    "aclnnFlashAttentionUnpaddingScoreGradV5",
    "aclnnFlashAttentionVarLenScoreV5",
    "aclnnFusedInferAttentionScoreV3",
    "aclnnFusedInferAttentionScoreV4",
    "aclnnNsaCompressAttentionInfer",
)


def phases(operator: Operator) -> Iterator[str]:
    """Both phases of an operator."""
    one, two = (text.rstrip(";") for text in headers.operator_prototypes(operator))
    names = " ".join(p.name for p in operator.parameters)
    letters = {"in": "i", "out": "o", "inout": "x"}
    directions = "".join("s" if p.name in operator.slots else letters[p.direction] for p in operator.parameters)
    values = ", ".join(f"{{.{protocol.member(p.kind)} = {p.name}}}" for p in operator.parameters) or "{.integer = 0}"
    flags = ", .communicates = true" if operator.groups else ""
    flags += ", .data_dependent = true" if operator.data_dependent else ""
    yield f"static const emu_operator operator_{operator.name} = {{"
    yield f'    "{operator.name}", "{operator.phase_one}", "{protocol.kinds(operator)}", "{directions}", "{names}"{flags}}};'
    yield f"LINK {one};\nLINK {one} {{"
    yield f"    const emu_value emu_values[] = {{{values}}};"
    yield f"    return emu_phase_one(&operator_{operator.name}, emu_values, workspaceSize, executor);\n}}"
    if operator.name in MAX_WORKSPACE:
        most = one.replace(operator.phase_one, f"{operator.name}GetMaxWorkspaceSize")
        yield f"LINK {most};\nLINK {most} {{"
        yield f"    return {operator.phase_one}({names.replace(' ', ', ')}, workspaceSize, executor);\n}}"
    yield f"LINK {two};\nLINK {two} {{"
    yield "".join(f"    (void){name};\n" for _, name in operator.phase_two)
    yield f"    return emu_phase_two(&operator_{operator.name}, workspace, workspaceSize, executor, stream);\n}}"
