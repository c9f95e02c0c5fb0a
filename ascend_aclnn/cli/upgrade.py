"""``ascend-aclnn upgrade``: what of a program, or of a list of names, breaks between two CANN releases, and what replaces it."""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, Optional

from ascend_aclnn import catalog
from ascend_aclnn.backends.npu import library
from ascend_aclnn.backends.npu.versions import noted_version
from ascend_aclnn.catalog import life
from ascend_aclnn.catalog.life import Life
from ascend_aclnn.cli.catalog import life_json, wrap
from ascend_aclnn.recording import Recording
from ascend_aclnn.recording.chunks import MAGIC

# What a finding is, the worst first; ``--fail-on`` names the mildest that makes the exit status 1.
STATUSES = ("gone", "not yet", "changed", "deprecated", "documented otherwise")
_FAIL_ON: dict[str, tuple[str, ...]] = {
    "gone": STATUSES[:2],
    "changed": STATUSES[:3],
    "deprecated": STATUSES[:4],
    "documented": STATUSES,
    "never": (),
}

_CODE = (".c", ".cc", ".cpp", ".cxx", ".cu", ".h", ".hh", ".hpp", ".py")
_C_NAME = re.compile(r"\b(?:acl\w+|lib\w+\.so)\b")
_LINKED = re.compile(r"-l(\w+)|\b(ascendcl|opapi)\b")


class Use(NamedTuple):
    """A place where a name is used."""

    name: str  # as in C
    file: str
    line: int  # of a recording the launch, counted from 0


class Finding(NamedTuple):
    """A name that an upgrade concerns."""

    life: Life
    status: str  # of STATUSES
    may_be_gone: bool  # the day after which releases may lack it counts as passed
    changes: tuple[life.Change, ...]  # between the two releases
    uses: tuple[Use, ...]


class Report(NamedTuple):
    """What an upgrade means for some names."""

    before: str
    after: str
    findings: tuple[Finding, ...]
    unchanged: tuple[str, ...]
    unknown: tuple[str, ...]  # not in the catalog: a vendor's, or of a release that was not read


def add_commands(subparsers: Any) -> None:
    """Adds ``upgrade`` to the command line."""
    parser = subparsers.add_parser(
        "upgrade",
        help="what breaks when CANN is upgraded",
        epilog="Exit status: 0 where nothing was found that --fail-on names, 1 where something was, 2 for wrong usage.",
    )
    parser.add_argument(
        "programs",
        nargs="*",
        type=Path,
        metavar="PROGRAM",
        help="Python programs, read by their imports and calls; C and C++ sources, read by their words; directories of them; "
        "recordings",
    )
    parser.add_argument(
        "--names", type=Path, metavar="FILE", help="names in C or Python, separated by white space; # begins a comment"
    )
    parser.add_argument("--to", required=True, metavar="RELEASE", help="the release after the upgrade: 9.2.0")
    parser.add_argument(
        "--from",
        dest="before",
        metavar="RELEASE",
        help=f"the release before it (default: the installed one, else {life.OLDEST})",
    )
    parser.add_argument(
        "--fail-on",
        choices=_FAIL_ON,
        default="deprecated",
        help="the mildest finding for which the exit status is 1 (default: deprecated)",
    )
    parser.add_argument("--json", action="store_true", help="for programs")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    try:
        if options.names is None and not options.programs:
            raise ValueError("upgrade: name a program, or a file of names with --names")
        uses = [use for path in options.programs for use in uses_in(path)]
        if options.names is not None:
            uses += named(options.names)
        result = report(uses, options.before or _installed() or life.OLDEST, options.to)
    except (ValueError, OSError) as error:
        print(f"ascend-aclnn: {error}", file=sys.stderr)
        return 2
    print(json.dumps(as_json(result), indent=2) if options.json else text(result))
    return int(any(finding.status in _FAIL_ON[options.fail_on] for finding in result.findings))


def _installed() -> Optional[str]:
    """The release of the CANN of this host, as its files say; None where there is none."""
    runtime = library.search(os.environ).runtime
    return None if runtime is None else noted_version(runtime.parent.resolve().parent)


# ------------------------------------------------------------------------------------------------- what is used


def named(path: Path) -> list[Use]:
    """The names that a file lists."""
    uses = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        uses += [Use(_c_name(word), str(path), number) for word in line.partition("#")[0].replace(",", " ").split()]
    return uses


def _c_name(word: str) -> str:
    """The C name of an operator, function or library that is written in C or in Python."""
    word = word.removeprefix("ascend_aclnn.").removeprefix("aclnn.").removeprefix("ops.")
    stem = word.removesuffix(catalog.PHASE_ONE)
    return catalog.python_names().get(word, stem if stem in catalog.names() else word)


def uses_in(path: Path) -> Iterator[Use]:
    """The operators, runtime functions and libraries that a file, or every source of a directory, uses.

    Of a recording these are the operators that were launched.
    """
    if path.is_dir():
        for file in sorted(path.rglob("*")):
            if file.suffix in _CODE and file.is_file():
                yield from uses_in(file)
        return
    with path.open("rb") as stream:
        is_recording = stream.read(len(MAGIC)) == MAGIC
    if is_recording:
        with Recording(path) as recording:
            yield from (Use(launch.operator.name, str(path), launch.index) for launch in recording.launches)
        return
    source = path.read_text(encoding="utf-8", errors="replace")
    used = _python_names(source, path) if path.suffix == ".py" else _words(source)
    yield from (Use(name, str(path), line) for name, line in sorted(set(used), key=lambda row: (row[1], row[0])))


def _words(source: str) -> Iterator[tuple[str, int]]:
    """Known names among the words of a source in C, or of a build file."""
    for number, line in enumerate(source.splitlines(), 1):
        words = _C_NAME.findall(line)
        words += [f"lib{linked or name}.so" for linked, name in _LINKED.findall(line)]
        yield from ((name, number) for name in map(_c_name, words) if _is_known(name))


def _is_known(name: str) -> bool:
    return name in catalog.names() or name in life.functions() or name in life.names()


def _python_names(source: str, path: Path) -> Iterator[tuple[str, int]]:
    """What a Python program uses: attributes of ``ops``, what it imports from there, and known C names."""
    try:
        tree = ast.parse(source)
    except SyntaxError as error:
        raise ValueError(f"{path}:{error.lineno}: {error.msg}") from None
    packages, modules, functions = _bound(tree)
    operators = catalog.python_names()

    def is_ops(node: ast.expr) -> bool:
        if isinstance(node, ast.Attribute):
            return node.attr == "ops" and isinstance(node.value, ast.Name) and node.value.id in packages
        return isinstance(node, ast.Name) and node.id in modules

    for node in ast.walk(tree):
        name = ""
        if isinstance(node, ast.Attribute):
            name = operators.get(node.attr, node.attr) if is_ops(node.value) else _c_attribute(node.attr)
        elif isinstance(node, ast.Name):
            name = functions.get(node.id, "")
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "getattr" and len(node.args) > 1:
            second = node.args[1]
            if is_ops(node.args[0]) and isinstance(second, ast.Constant):
                name = operators.get(str(second.value), "")
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            name = _c_attribute(node.value.rpartition("/")[2])
        if name:
            yield name, getattr(node, "lineno", 0)


def _c_attribute(text: str) -> str:
    """The known C name that a text is; ""."""
    name = _c_name(text) if _C_NAME.fullmatch(text) else ""
    return name if name and _is_known(name) else ""


def _bound(tree: ast.AST) -> tuple[set[str], set[str], dict[str, str]]:
    """The names that a program gives to the package, to ``ops``, and to functions of it (with their C names)."""
    packages, modules, functions = set(), set(), {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name == "ascend_aclnn" or (alias.name == "ascend_aclnn.ops" and not alias.asname):
                    packages.add(alias.asname or "ascend_aclnn")
                elif alias.name == "ascend_aclnn.ops":
                    modules.add(alias.asname or "")
        elif isinstance(node, ast.ImportFrom) and node.module == "ascend_aclnn":
            modules |= {alias.asname or alias.name for alias in node.names if alias.name == "ops"}
        elif isinstance(node, ast.ImportFrom) and node.module == "ascend_aclnn.ops":
            for alias in node.names:
                functions[alias.asname or alias.name] = catalog.python_names().get(alias.name, alias.name)
    return packages, modules, functions


# ------------------------------------------------------------------------------------------------- what breaks


def report(uses: Iterable[Use], before: str, after: str) -> Report:
    """What an upgrade from one release to another means for what is used. ValueError for releases of another form."""
    if life.order(after) < life.order(before):
        raise ValueError(f"upgrade: {after} is older than {before}; --from names the release before the upgrade")
    places: dict[str, list[Use]] = {}
    for use in uses:
        places.setdefault(use.name, []).append(use)
    findings, unchanged, unknown = [], [], []
    for name in sorted(places):
        if not _is_known(name):
            unknown.append(name)
            continue
        lived = life.of(name)
        changes = tuple(
            change
            for change in lived.changes
            if life.order(lived.since or life.OLDEST) <= life.order(before) < life.order(change.release)
            and life.order(change.release) <= life.order(after)
        )
        status = _status(lived, changes, after)
        if status:
            may_be_gone = status == "gone" or lived.absent_from(after)
            findings.append(Finding(lived, status, may_be_gone, changes, tuple(places[name])))
        else:
            unchanged.append(name)
    findings.sort(key=lambda finding: (STATUSES.index(finding.status), not finding.may_be_gone, finding.life.name))
    return Report(before, after, tuple(findings), tuple(unchanged), tuple(unknown))


def _status(lived: Life, changes: tuple[life.Change, ...], after: str) -> str:
    """Of STATUSES, "" where the upgrade does not concern a name. A deprecated one stays so, whenever it became so."""
    if lived.removed and life.order(lived.removed) <= life.order(after):
        return "gone"
    if life.order(lived.since) > life.order(after) if lived.since else _in_no_release(lived, after):
        return "not yet"
    if any(change.kind == "signature" for change in changes):
        return "changed"
    if lived.deprecated_in(after):
        return "deprecated"
    return "documented otherwise" if changes else ""


def _in_no_release(lived: Life, after: str) -> bool:
    """Whether an operator is newer than all releases whose sources were read, and so than this one."""
    return lived.kind == "operator" and not lived.removed and life.order(after) <= life.order(life.NEWEST_READ)


# ------------------------------------------------------------------------------------------------- how it is said


def as_json(result: Report) -> dict[str, Any]:
    """The report for programs."""
    return {
        "from": result.before,
        "to": result.after,
        "findings": [
            {
                "name": finding.life.name,
                "python_name": _python_name(finding.life.name),
                "kind": finding.life.kind,
                "status": finding.status,
                "may_be_gone": finding.may_be_gone,
                **life_json(finding.life),
                "changes": [change._asdict() for change in finding.changes],
                "uses": [{"file": use.file, "line": use.line} for use in finding.uses],
            }
            for finding in result.findings
        ],
        "unchanged": list(result.unchanged),
        "unknown": list(result.unknown),
    }


def _python_name(name: str) -> Optional[str]:
    return catalog.get(name).python_name if name in catalog.names() else None


def text(result: Report) -> str:
    """The report for people."""
    total = len(result.findings) + len(result.unchanged)
    lines = [f"CANN {result.before} -> {result.after}: {len(result.findings)} of {total} names are concerned"]
    titles = {
        ("gone", True): f"gone: {result.after} does not have it",
        ("not yet", False): f"not there yet: a release after {result.after} brings it",
        ("changed", False): "changed",
        ("changed", True): "changed, and may be gone",
        ("deprecated", True): f"deprecated, and may be gone: the announced day counts as passed in {result.after}",
        ("deprecated", False): "deprecated",
        ("documented otherwise", False): "documented with fewer data types; some of these correct the earlier document",
    }
    for (status, may_be_gone), title in titles.items():
        some = [f for f in result.findings if (f.status, f.may_be_gone) == (status, may_be_gone)]
        if some:
            lines += ["", f"{title} ({len(some)})"]
        for finding in some:
            lines += _finding_lines(finding)
    if result.unknown:
        lines += ["", f"not in the catalog: a vendor's, or of a release that was not read ({len(result.unknown)})"]
        lines += wrap(" ".join(result.unknown), "  ")
    return "\n".join(lines)


def _finding_lines(finding: Finding) -> list[str]:
    lived = finding.life
    python = _python_name(lived.name)
    words = [life.end_words(lived, python=False)]
    for release, kind in dict.fromkeys((change.release, change.kind) for change in finding.changes):
        whats = [change.what for change in finding.changes if (change.release, change.kind) == (release, kind)]
        words.append(f"{release}: {', '.join(whats)}")
    if finding.status == "not yet":
        words.append(f"since CANN {lived.since}" if lived.since else f"no release up to CANN {life.NEWEST_READ} has it")
    if finding.status == "gone" and lived.replaced_by and not lived.announced:
        words.append(f"use {' and '.join(lived.replaced_by)}")
    name = f"{lived.name} (ops.{python})" if python else lived.name
    lines = wrap(f"{name}: {'; '.join(word for word in words if word)}", "  ", hanging="    ")
    places = list(dict.fromkeys(f"{use.file}:{use.line}" for use in finding.uses))
    more = f" and {len(places) - 4} more" if len(places) > 4 else ""
    return [*lines, f"      {', '.join(places[:4])}{more}"]
