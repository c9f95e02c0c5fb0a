"""Reads prototypes of aclnn operators from C headers: a directory of CANN's, a vendor's header, or a signature string.

The reader knows the shape of these declarations, not C: it drops comments, preprocessor lines and attributes, finds
``aclnnStatus NAMEGetWorkspaceSize(...)`` and splits the list of parameters.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Optional, Union

from ascend_aclnn import catalog
from ascend_aclnn.catalog import Kind, Operator, Parameter

Prototype = list[tuple[str, str]]  # (C type, name) of each parameter, without workspaceSize and executor

_DROPPED = re.compile(
    r"/\*.*?\*/"  # comments
    r"|//[^\n]*"
    r"|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*",  # preprocessor lines, with their continuations
    re.DOTALL | re.MULTILINE,
)
_ATTRIBUTE = re.compile(r"__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\)|__declspec\s*\([^)]*\)|\[\[[^\]]*\]\]")
_DECLARATION = re.compile(r"\baclnnStatus\s+(?:\w+\s+)*?(acl\w+)GetWorkspaceSize\s*\(([^()]*)\)")
_ATB_DECLARATION = re.compile(r"\bStatus\s+(Atb\w+)GetWorkspaceSize\s*\(([^()]*)\)")
# Spellings of one type of the ABI.
_SAME_TYPE = {"int": "int32_t", "long": "int64_t", "long long": "int64_t", "unsigned": "uint32_t"}


def normal_ctype(text: str) -> str:
    """``const  aclTensor *`` and ``aclTensor const*`` -> ``const aclTensor*``."""
    words = re.findall(r"\w+|\*", text)
    pointers = "*" * words.count("*")
    names = [word for word in words if word not in ("*", "const", "struct", "enum")]
    # A const after the last star concerns the callee's copy of the argument, which callers cannot see.
    constant = "const" in words[: len(words) - words[::-1].index("*") if pointers else None]
    return ("const " if constant else "") + " ".join(names) + pointers


def abi_type(ctype: str) -> str:
    """A C type less what does not change how an argument is passed: const, and spellings of one integer."""
    bare = ctype.replace("const ", "")
    return _SAME_TYPE.get(bare, bare)


def _parameter(text: str) -> tuple[str, str]:
    text = text.split("=")[0].strip()
    array = text.endswith("]")
    match = re.match(r"(.*?)(\w+)$", text[: text.index("[")].strip() if array else text, re.DOTALL)
    if not match or not match.group(1).strip():
        return normal_ctype(text), ""  # a parameter without a name
    return normal_ctype(match.group(1) + ("*" if array else "")), match.group(2)


def _named(prototype: Prototype) -> Prototype:
    return [(ctype, name or f"arg{i}") for i, (ctype, name) in enumerate(prototype)]


def parse_prototypes(text: str) -> dict[str, Prototype]:
    """Every phase one that a text declares, by the operator's name."""
    text = _ATTRIBUTE.sub(" ", _DROPPED.sub(" ", text))
    prototypes = {}
    for match in _DECLARATION.finditer(text):
        rows = [_parameter(row) for row in match.group(2).split(",")]
        if [abi_type(ctype) for ctype, _ in rows[-2:]] == ["uint64_t*", "aclOpExecutor**"]:
            prototypes[match.group(1)] = _named(rows[:-2])
    return prototypes


def parse_atb_prototypes(text: str) -> dict[str, Prototype]:
    """The parameters of every phase one of ATB's C functions that a text declares, less workspaceSize, op and context."""
    rows = {match[1]: match[2].split(",") for match in _ATB_DECLARATION.finditer(_DROPPED.sub(" ", text))}
    return {name: _named([_parameter(row) for row in parameters[:-3]]) for name, parameters in rows.items()}


def header_files(directory: Path) -> Iterator[Path]:
    """The headers of operators below a directory, ``aclnnop/level2`` included; the directory may be CANN's own."""
    if not directory.is_dir():
        raise NotADirectoryError(f"no such directory of headers: {directory}")
    yield from sorted(directory.rglob("acl*.h"))


def parse_headers(directory: Union[str, Path]) -> dict[str, Prototype]:
    """Every operator that the headers below a directory declare. The internal ``aclnnInner...`` are left out."""
    prototypes: dict[str, Prototype] = {}
    for path in header_files(Path(directory)):
        for name, prototype in parse_prototypes(path.read_text(encoding="utf-8", errors="replace")).items():
            if not name.startswith("aclnnInner"):
                prototypes.setdefault(name, prototype)
    return prototypes


@dataclass(frozen=True)
class Change:
    """An operator whose declaration in headers differs from the catalog's."""

    name: str
    theirs: Prototype
    ours: Prototype

    @property
    def abi(self) -> bool:
        """True where a call made by the catalog's prototype would be wrong."""
        return [abi_type(c) for c, _ in self.theirs] != [abi_type(c) for c, _ in self.ours]

    @property
    def what(self) -> str:
        """The difference in a few words."""
        if self.abi:
            variants = (catalog.get(self.name).variants or {}).items()
            for snapshot, rows in variants:
                if [abi_type(row["ctype"]) for row in rows] == [abi_type(c) for c, _ in self.theirs]:
                    return f"the incompatible prototype of {snapshot}"
            if len(self.theirs) != len(self.ours):
                return f"{len(self.theirs)} parameters instead of {len(self.ours)}"
        pairs = zip(self.theirs, self.ours)
        if self.abi:
            return "types: " + ", ".join(
                f"{o[1]} {o[0]} -> {t[0]}" for t, o in pairs if abi_type(t[0]) != abi_type(o[0])
            )
        names = [f"{o[1]} -> {t[1]}" for t, o in pairs if t[1] != o[1]]
        return "names: " + ", ".join(names) if names else "const only"


@dataclass(frozen=True)
class HeaderReport:
    """How a directory of headers differs from the catalog."""

    directory: str
    same: tuple[str, ...]
    added: dict[str, Prototype]  # declared there, not in the catalog
    changed: tuple[Change, ...]
    lacking: tuple[str, ...]  # in the catalog, not declared there; experimental ones are not counted


def compare(directory: Union[str, Path]) -> HeaderReport:
    """Compares the headers below a directory with the catalog."""
    declared = parse_headers(directory)
    cataloged = {name: catalog.get(name) for name in catalog.names()}
    same, changed = [], []
    for name in sorted(declared.keys() & cataloged.keys()):
        parameters = [(p.ctype, p.name) for p in cataloged[name].parameters]
        if parameters == declared[name]:
            same.append(name)
        else:
            changed.append(Change(name, declared[name], parameters))
    return HeaderReport(
        directory=str(directory),
        same=tuple(same),
        added={name: declared[name] for name in sorted(declared.keys() - cataloged.keys())},
        changed=tuple(changed),
        lacking=tuple(sorted(n for n, op in cataloged.items() if n not in declared and not op.experimental)),
    )


def guess_direction(ctype: str, name: str) -> str:
    """The direction that a parameter's type and name imply: ``selfRef`` inout; ``out``, ``yOut``, ``aclTensor*`` out."""
    if "aclTensor" not in ctype:
        return "in"
    bare = re.sub(r"Optional$", "", name)
    if bare.endswith("Ref"):
        return "inout"
    return "out" if bare == "out" or bare.endswith("Out") or not ctype.startswith("const ") else "in"


def operator_from_prototype(
    source: Union[str, Path],
    directions: Optional[Mapping[str, str]] = None,
    optional: Iterable[str] = (),
    header: str = "",
    family: str = "vendor",
) -> Operator:
    """An Operator from the declaration of its phase one.

    Args:
        source: ``"aclnnStatus aclnnMyOpGetWorkspaceSize(const aclTensor* x, ..., uint64_t*, aclOpExecutor**)"``, or the
            ``Path`` of a header that declares one operator.
        directions: "in", "out" or "inout" by C name, for parameters whose type and name do not imply it.
        optional: C names of parameters that may be null, beside those whose name ends in ``Optional``.
        header: its include path.
        family: the family to list it under.
    """
    text = source if isinstance(source, str) else source.read_text(encoding="utf-8", errors="replace")
    prototypes = parse_prototypes(text)
    if len(prototypes) != 1:
        where = source.strip()[:80] if isinstance(source, str) else str(source)
        raise ValueError(
            f"expected one declaration 'aclnnStatus NAMEGetWorkspaceSize(..., uint64_t*, aclOpExecutor**)', "
            f"found {', '.join(prototypes) or 'none'} in {where!r}"
        )
    if isinstance(source, Path) and not header:
        header = f"aclnnop/{source.name}"
    ((name, prototype),) = prototypes.items()
    return _operator(name, prototype, directions or {}, set(optional), header, family)


def operators_from_header(path: Union[str, Path], family: str = "vendor") -> list[Operator]:
    """All operators that one header declares, with directions by types and names."""
    path = Path(path)
    prototypes = parse_prototypes(path.read_text(encoding="utf-8", errors="replace"))
    return [_operator(n, p, {}, set(), f"aclnnop/{path.name}", family) for n, p in prototypes.items()]


def variant(name: str, snapshot: str) -> Operator:
    """An operator with the incompatible prototype it has in another CANN, for ``register_operator``."""
    operator = catalog.get(name)
    variants = operator.variants or {}
    if snapshot not in variants:
        raise ValueError(f"{name} has no variant {snapshot!r}; it has {', '.join(variants) or 'none'}")
    parameters = {(p.ctype, p.name): p for p in operator.parameters}
    rows = [(row["ctype"], row["name"]) for row in variants[snapshot]]
    declared = _operator(name, rows, {}, set(), operator.header, operator.family)
    return dataclasses.replace(
        operator,
        parameters=tuple(parameters.get((p.ctype, p.name), p) for p in declared.parameters),
        since=snapshot,
        variants=None,
    )


def _operator(
    name: str, prototype: Prototype, directions: Mapping[str, str], optional: set[str], header: str, family: str
) -> Operator:
    names = {parameter for _, parameter in prototype}
    for unknown in (set(directions) | optional) - names:
        raise ValueError(f"{name} has no parameter {unknown!r}; it has {', '.join(n for _, n in prototype)}")
    parameters = []
    for ctype, parameter in prototype:
        direction = directions.get(parameter) or guess_direction(ctype, parameter)
        if direction not in ("in", "out", "inout"):
            raise ValueError(f"{name}: direction of {parameter} is {direction!r}; allowed are 'in', 'out', 'inout'")
        row = Parameter(parameter, ctype, direction, parameter in optional or parameter.endswith("Optional"))
        _require_kind(name, row)
        parameters.append(row)
    return Operator(name, tuple(parameters), header, family)


def _require_kind(operator: str, parameter: Parameter) -> Kind:
    try:
        return parameter.kind
    except ValueError:
        kinds = ", ".join(kind.value for kind in Kind)
        raise ValueError(
            f"{operator}: {parameter.name} has the unknown C type {parameter.ctype!r}; known are {kinds}"
        ) from None
