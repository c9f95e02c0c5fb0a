#!/usr/bin/env python3
"""Finds the aclnn operators that change the description of an aclTensor which their caller gave them.

    scripts/find_rewritten_arguments.py REPOSITORY... [--write]

A REPOSITORY is a clone of ops-nn, ops-math, ops-cv or ops-transformer. The C++ sources beside each operator's phase one
are searched for setters (SetDataType, SetViewShape, ...) on tensors, and each such tensor is traced back through local
variables, struct members and calls within its repository. What ends at a parameter of a phase one is printed with its
place; --write puts the result, with the commits it was read from, into ascend_aclnn/catalog/traits.json.

The trace over-approximates: a tensor that cannot be traced counts against every operator of its file, and a variable
counts as everything that is ever assigned to it. An operator that is listed without need costs a microsecond for each
of its tensors; one that is missing would leave its caller with a wrong description.
"""

from __future__ import annotations

import argparse
import bisect
import functools
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from ascend_aclnn import catalog  # noqa: E402

TRAITS = ROOT / "ascend_aclnn" / "catalog" / "traits.json"

_SETTER = re.compile(
    r"->\s*(Set(?:DataType|ViewShape|StorageShape|OriginalShape|ViewStrides|ViewOffset|"
    r"ViewFormat|StorageFormat|OriginalFormat|StorageAddr|FromTensor|ShapeAndStride\w*))\s*\("
)
_FUNCTION = re.compile(r"\b([A-Za-z_]\w*)\s*\(([^;{}]*)\)\s*(?:const\s*)?\{")
_DECLARATION = re.compile(r"\b([A-Za-z_]\w*)\s*\([^;{}()]*\bconst aclTensor(?:List)?\s*\*[^;{}()]*\)\s*;")
_NO_FUNCTIONS = frozenset({"if", "for", "while", "switch", "catch", "return", "sizeof"})
_CAST = re.compile(r"^(?:const_cast|static_cast|reinterpret_cast)\s*<[^<>]*>\s*\((.*)\)$", re.DOTALL)
# Calls whose result is another aclTensor than their argument.
_MAKERS = re.compile(
    r"CreateView|AllocTensor|AllocHostTensor|AllocIntArray|ConvertToTensor|aclCreateTensor|AllocTensorList|\bnew\b|"
    r"GetTensorList|CreateExecutor"
)
# Functions of the operators' own layer that answer with their first argument where there is nothing to do.
_MAY_RETURN_ARGUMENT = frozenset(
    {"ReFormat", "Cast", "TransData", "TransDataSpecial", "Reshape", "Transpose", "SetTensor"}
)

# Read by hand: what is set is the storage shape of a FRACTAL_NZ tensor, on a view (matmul_util.cpp); a tensor in a private
# format never shares its aclTensor, so these much used operators need no fresh ones.
_ONLY_PRIVATE_FORMATS = ("aclnnMm", "aclnnMatmul", "aclnnAddmm", "aclnnInplaceAddmm")

# l0op::Contiguous and its helpers change views that they have made, and results that still lie in the workspace.
_VIEWS_ONLY = "conversion/contiguous/op_host/op_api/contiguous.cpp"


@dataclass
class Function:
    """A C++ function: where it is, its parameters and its body."""

    file: str
    name: str
    line: int
    parameters: list[str]
    body: str
    local: bool  # it can only be called in its own file
    setters: dict[int, set[str]] = field(default_factory=dict)  # parameter index -> places that set it


def is_op_api(name: str) -> bool:
    """Whether a path is that of a source beside operators' phase one."""
    return (
        name.endswith((".cpp", ".h", ".hpp"))
        and ("op_api" in name or "aclnn" in Path(name).name)
        and not re.search(r"/op_tiling/|/op_kernel/", name)
    )


def sources(repository: Path, wanted: Callable[[str], bool] = is_op_api) -> tuple[str, dict[str, str]]:
    """The commit of a clone, and the text of the sources that are wanted by path, without tests and examples."""

    def git(*arguments: str, stdin: Optional[bytes] = None) -> bytes:
        return subprocess.run(
            ["git", "-C", str(repository), *arguments], input=stdin, stdout=subprocess.PIPE, check=True
        ).stdout

    commit = git("rev-parse", "HEAD").decode().strip()
    names = [
        name
        for name in git("ls-tree", "-r", "--name-only", "HEAD").decode().splitlines()
        if wanted(name) and not re.search(r"(^|/)(tests?|examples?|ut|st)/|test_", name)
    ]
    answer = git("cat-file", "--batch", stdin="".join(f"HEAD:{name}\n" for name in names).encode())
    texts, at = {}, 0
    for name in names:
        end = answer.index(b"\n", at)
        size = int(answer[at:end].split()[-1])
        texts[name] = answer[end + 1 : end + 1 + size].decode(errors="replace")
        at = end + 1 + size + 1
    return commit, texts


def bare(text: str) -> str:
    """The text with comments and strings blanked; line numbers stay."""
    pattern = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)
    return pattern.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), text)


def balanced(text: str, at: int, pair: str = "{}") -> int:
    """The index after what closes the bracket at ``at``."""
    depth = 0
    for i in range(at, len(text)):
        if text[i] == pair[0]:
            depth += 1
        elif text[i] == pair[1]:
            depth -= 1
            if depth == 0:
                return i + 1
    return len(text)


def split_arguments(text: str) -> list[str]:
    """What stands between the commas of the outermost level."""
    parts, depth, start = [], 0, 0
    for i, letter in enumerate(text):
        if letter in "([{<":
            depth += 1
        elif letter in ")]}>" and text[i - 1 : i + 1] != "->":
            depth -= 1
        elif letter == "," and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    return [*parts, text[start:].strip()] if text.strip() else []


def functions(file: str, text: str) -> Iterator[Function]:
    lines = [m.start() for m in re.finditer("\n", text)]
    for match in _FUNCTION.finditer(text):
        if match.group(1) in _NO_FUNCTIONS:
            continue
        names = []
        for parameter in split_arguments(match.group(2)):
            name = re.search(r"(\w+)\s*(?:\[\w*\])?\s*(?:=.*)?$", parameter)
            names.append(name.group(1) if name else "")
        end = balanced(text, match.end() - 1)
        line = bisect.bisect(lines, match.start()) + 1
        head = text[max(text.rfind(letter, 0, match.start()) for letter in ";{}") + 1 : match.start()]
        local = bool(re.search(r"\bstatic\b|::\s*$", head)) or match.group(1) in _anonymous(file, text)
        yield Function(file, match.group(1), line, names, text[match.end() : end], local)


@functools.cache
def _anonymous(file: str, text: str) -> frozenset[str]:
    """The names of functions in the unnamed namespaces of a file."""
    names: set[str] = set()
    for match in re.finditer(r"\bnamespace\s*\{", text):
        inner = text[match.end() : balanced(text, match.end() - 1)]
        names.update(m.group(1) for m in _FUNCTION.finditer(inner))
    return frozenset(names)


def subject(text: str, arrow: int) -> str:
    """The expression that ends before an arrow."""
    at, depth = arrow, 0
    while at > 0:
        letter = text[at - 1]
        if letter in ")]":
            depth += 1
        elif letter in "([":
            if depth == 0:
                break
            depth -= 1
        elif letter == ">" and depth == 0 and text[at - 2 : at] != "->":
            at = text.rindex("<", 0, at)
            continue
        elif depth == 0 and not (letter.isalnum() or letter in "_.>-:"):
            break
        at -= 1
    return text[at:arrow].strip()


@dataclass
class Repository:
    functions: list[Function]
    declared: frozenset[str]  # what the headers declare for other files

    def __post_init__(self) -> None:
        self.by_name: dict[str, list[Function]] = {}
        for function in self.functions:
            function.local = function.local and function.name not in self.declared
        for function in self.functions:
            self.by_name.setdefault(function.name, []).append(function)
        self.members: dict[str, dict[str, set[str]]] = {}  # file -> struct member -> places

    def origins(self, function: Function, expression: str, seen: frozenset[str]) -> Iterator[tuple[str, str]]:
        """What an expression may stand for: ("parameter", name), ("member", name) or ("untraced", text)."""
        text = re.sub(r"^\(void\)", "", expression.strip())
        while text.startswith("(") and balanced(text, 0, "()") == len(text):
            text = text[1:-1].strip()
        text = text.lstrip("*&").strip()
        cast = _CAST.match(text)
        if cast:
            yield from self.origins(function, cast.group(1), seen)
            return
        if text in ("nullptr", "NULL", "") or _MAKERS.search(text):
            return
        text = re.sub(r"^\(\*(\w+)\)\[.*\]$", r"\1", text)
        text = re.sub(r"(\w+)\[.*\]$", r"\1", text)
        call = re.match(r"^(?:\w+::)*(\w+)\s*(?:<[^<>]*>)?\s*\((.*)\)$", text, re.DOTALL)
        if call:
            if call.group(1) in _MAY_RETURN_ARGUMENT or "l0op::" not in text:
                if call.group(1) in ("get", "tie", "make_tuple", "move") or call.group(1) in _MAY_RETURN_ARGUMENT:
                    for argument in split_arguments(call.group(2))[:1]:
                        yield from self.origins(function, argument, seen)
                    return
                if "l0op::" in text:
                    return
                functions = self.by_name.get(call.group(1), [])
                if functions and not any(re.search(r"\breturn\s+\w+\s*;", f.body) for f in functions):
                    return
                for argument in split_arguments(call.group(2)):
                    if re.fullmatch(r"\w+", argument):
                        yield from self.origins(function, argument, seen)
            return
        member = re.match(r"^\w+(?:(?:\.|->)\w+)*(?:\.|->)(\w+)$", text)
        if member:
            if not re.search(r"\(", text):
                yield "member", member.group(1)
            return
        method = re.match(r"^(\w+)(?:\.|->)\w+\(", text)
        if method or "l0op::" in text or not re.fullmatch(r"\w+", text):
            return
        if text in seen:
            return
        is_returned = False
        if text in function.parameters:
            is_returned = True
            yield "parameter", text
        for assigned in re.finditer(rf"(?<![\w.>])\b{text}\s*=(?!=)\s*([^;]*);", function.body):
            is_returned = True
            yield from self.origins(function, assigned.group(1), seen | {text})
        for bound in re.finditer(rf"\bfor\s*\([^;:()]*\b{text}\s*:\s*([^)]*)\)", function.body):
            is_returned = True
            yield from self.origins(function, bound.group(1), seen | {text})
        if not is_returned and not re.search(rf"[*&\s]{text}\s*(;|\{{|\()", function.body):
            yield "member", text

    def note(self, function: Function, expression: str, place: str) -> bool:
        """Books a setter on an expression; True if it is news."""
        news = False
        for kind, name in self.origins(function, expression, frozenset()):
            if kind == "parameter":
                places = function.setters.setdefault(function.parameters.index(name), set())
            else:
                places = self.members.setdefault(function.file, {}).setdefault(name, set())
            news = news or place not in places
            places.add(place)
        return news

    def trace(self) -> None:
        for function in self.functions:
            if function.file.endswith(_VIEWS_ONLY):
                continue
            for match in _SETTER.finditer(function.body):
                line = function.line + function.body[: match.start()].count("\n")
                place = f"{function.file}:{line} {match.group(1)}"
                self.note(function, subject(function.body, match.start()), place)
        while self._propagate():
            pass

    def _propagate(self) -> bool:
        news = False
        setting: dict[str, list[Function]] = {}
        for function in self.functions:
            if function.setters and not function.name.endswith("GetWorkspaceSize"):
                setting.setdefault(function.name, []).append(function)
        if not setting:
            return False
        pattern = re.compile(r"\b(" + "|".join(map(re.escape, setting)) + r")\s*(?:<[^<>;]*>)?\s*\(")
        for caller in self.functions:
            for match in pattern.finditer(caller.body):
                end = balanced(caller.body, match.end() - 1, "()")
                arguments = split_arguments(caller.body[match.end() : end - 1])
                candidates = [
                    f for f in setting[match.group(1)] if f is not caller and len(f.parameters) >= len(arguments)
                ]
                in_its_file = any(f.file == caller.file for f in self.by_name[match.group(1)])
                for called in candidates:
                    if called.file != caller.file if in_its_file else called.local:
                        continue
                    for index, places in list(called.setters.items()):
                        for place in list(places) if index < len(arguments) else ():
                            news = self.note(caller, arguments[index], place) or news
        return news

    def result(self) -> tuple[dict[str, dict[str, set[str]]], set[str]]:
        """Operator -> argument -> places; and every operator whose phase one was read."""
        rewritten: dict[str, dict[str, set[str]]] = {}
        read = set()
        by_file: dict[str, list[Function]] = {}
        for function in self.functions:
            if function.name.startswith("aclnn") and function.name.endswith("GetWorkspaceSize"):
                name = function.name[: -len("GetWorkspaceSize")]
                read.add(name)
                by_file.setdefault(function.file, []).append(function)
                for index, places in function.setters.items():
                    rewritten.setdefault(name, {}).setdefault(function.parameters[index], set()).update(places)
        for file, members in self.members.items():
            entries = by_file.get(file) or [
                f for other, fs in by_file.items() if Path(other).parent == Path(file).parent for f in fs
            ]
            for member, places in members.items():
                owners = [f for f in entries if member in f.parameters] or entries
                for function in owners:
                    name = function.name[: -len("GetWorkspaceSize")]
                    label = member if member in function.parameters else "?" + member
                    rewritten.setdefault(name, {}).setdefault(label, set()).update(places)
        return rewritten, read


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("repositories", nargs="+", type=Path)
    parser.add_argument("--write", action="store_true", help="update the catalog's data")
    options = parser.parse_args()
    rewritten: dict[str, dict[str, set[str]]] = {}
    read: set[str] = set()
    commits: dict[str, str] = {}
    for path in options.repositories:
        commit, texts = sources(path)
        plain = {file: bare(text) for file, text in texts.items()}
        declared = {name for file, text in plain.items() if file.endswith("h") for name in _DECLARATION.findall(text)}
        repository = Repository([f for file, text in plain.items() for f in functions(file, text)], frozenset(declared))
        repository.trace()
        operators, entries = repository.result()
        for name, arguments in operators.items():
            for argument, places in arguments.items():
                rewritten.setdefault(name, {}).setdefault(argument, set()).update(places)
        read |= entries
        commits[repository_name(path)] = commit
        print(f"# {path} {commit}: {len(entries)} operators read, {len(operators)} with setters", file=sys.stderr)
    for name in _ONLY_PRIVATE_FORMATS:
        rewritten.pop(name, None)
    for name in sorted(rewritten):
        for argument, places in sorted(rewritten[name].items()):
            print(name, argument, "; ".join(sorted(places)[:2]))
    catalog_names = set(catalog.names())
    print(f"# {len(rewritten)} operators; {len(catalog_names - read)} of the catalog not read", file=sys.stderr)
    if options.write:
        in_catalog = {name: sorted(rewritten[name]) for name in sorted(rewritten) if name in catalog_names}
        write(commits, in_catalog, sorted(catalog_names - read))


def repository_name(path: Path) -> str:
    """The name in the clone's remote, else the directory's."""
    command = ["git", "-C", str(path), "remote", "get-url", "origin"]
    remote = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False).stdout
    repository = re.search(r"(ops-\w+)", remote) or re.search(r"(ops-\w+)", str(path))
    return repository.group(1) if repository else path.name


def write(commits: dict[str, str], rewriting: dict[str, list[str]], unread: list[str]) -> None:
    """The two traits that this script finds."""
    write_traits(
        {
            "rewrites_arguments": {
                "why": "phase one changes the description of an aclTensor of the caller's "
                "(by scripts/find_rewritten_arguments.py)",
                "source": commits,
                "operators": list(rewriting),
                "arguments": {name: [a for a in names if not a.startswith("?")] for name, names in rewriting.items()},
            },
            "source_not_read": {
                "why": "the source of phase one is not public (most are generated by CANN's build): "
                "they may change descriptions",
                "operators": unread,
            },
        }
    )


def write_traits(rows: dict[str, dict[str, Any]]) -> None:
    """Puts traits into the catalog's file; the text of the others stays as it is."""
    text = TRAITS.read_text(encoding="utf-8")
    for trait, row in rows.items():
        values = ",\n".join(f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in row.items())
        entry = f" {json.dumps(trait)}: {{\n{values}\n }}"
        before = re.search(rf"^ {json.dumps(trait)}: \{{.*?^ \}}", text, re.DOTALL | re.MULTILINE)
        if before:
            text = text[: before.start()] + entry + text[before.end() :]
        else:
            text = text.rstrip().removesuffix("}").rstrip() + f",\n{entry}\n}}\n"
    TRAITS.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
