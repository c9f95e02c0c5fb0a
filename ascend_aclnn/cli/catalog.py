"""``ascend-aclnn ops`` and ``ascend-aclnn show``: looking things up in the catalog."""

from __future__ import annotations

import argparse
import difflib
import fnmatch
import json
import re
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Optional

from ascend_aclnn import catalog
from ascend_aclnn.catalog import REQUIRED, Operator, Parameter, life, single
from ascend_aclnn.catalog.headers import HeaderReport, compare
from ascend_aclnn.catalog.naming import operator_python_name
from ascend_aclnn.catalog.signature import (
    c_prototype,
    end_words,
    example_lines,
    meaning,
    parameter_words,
    product_words,
    python_signature,
    release_of,
    since_words,
    status_words,
)
from ascend_aclnn.catalog.single import SingleOperator
from ascend_aclnn.cli.refusals import refusals
from ascend_aclnn.core.dtypes import DataType
from ascend_aclnn.core.errors import status_name

PRODUCTS = ("A2", "A3", "310P", "310B", "910", "950")
WIDTH = 120


def add_commands(subparsers: Any) -> None:
    """Adds ``ops`` and ``show`` to the command line."""
    ops = subparsers.add_parser("ops", help="list operators, or compare a CANN's headers with the catalog")
    ops.add_argument(
        "pattern",
        nargs="?",
        default="",
        help="part of a name, a pattern with * and ?, or words: of names and summaries",
    )
    ops.add_argument("--family", default="", help='part of a family: "norm", "ops-nn/index"')
    ops.add_argument("--product", choices=PRODUCTS, help="documented for this product")
    ops.add_argument("--dtype", help='a tensor or scalar of it is documented: "BF16" (on --product, if given)')
    ops.add_argument("--has-reference", action="store_true", help="the NumPy backend computes it")
    ops.add_argument("--from-headers", type=Path, metavar="DIR", help="what CANN headers add, change or lack")
    ops.add_argument(
        "--single", action="store_true", help="single operators by type name, which torch_npu runs, instead"
    )
    ops.add_argument("--json", action="store_true", help="for programs")
    ops.set_defaults(run=run_ops)
    show = subparsers.add_parser("show", help="what an operator takes, in C and in Python")
    show.add_argument(
        "name", help="aclnnRmsNormGrad, RmsNormGrad or rms_norm_grad; or a single operator's type: MaxPool3D"
    )
    show.add_argument("--json", action="store_true", help="for programs")
    show.set_defaults(run=run_show)


# ------------------------------------------------------------------------------------------------- ops


def run_ops(options: argparse.Namespace) -> int:
    if options.from_headers is not None:
        report = compare(options.from_headers)
        print(json.dumps(report_json(report), indent=2) if options.json else report_text(report))
        return 0
    if options.single:
        return run_single(options)
    operators = select(
        options.pattern,
        family=options.family,
        product=options.product,
        dtype=options.dtype,
        has_reference=options.has_reference,
    )
    if options.json:
        print(json.dumps([summary_json(operator) for operator in operators], indent=2))
        return 0
    rows = [
        [
            operator.python_name,
            operator.name,
            operator.family.replace("experimental/", ""),
            " ".join(operator.products or ()) or "-",
            release_of(operator),
            ("experimental: " if operator.experimental else "")
            + ("deprecated: " if life.of(operator.name).announced else "")
            + operator.summary,
        ]
        for operator in operators
    ]
    if rows:
        print(table(["function", "operator", "family", "products", "since", "what it computes"], rows))
    print(f"{len(rows)} of {sum(1 for _ in catalog.names())} operators")
    return 0 if rows else 1


def select(
    pattern: str = "",
    family: str = "",
    product: Optional[str] = None,
    dtype: Optional[str] = None,
    has_reference: bool = False,
) -> list[Operator]:
    """The operators that match all conditions, in the order of their C names."""
    if dtype is not None and dtype.upper() not in DataType.__members__:
        raise ValueError(f"unknown data type {dtype!r}; known: {', '.join(DataType.__members__)}")
    selected = []
    for name in matching(pattern):
        operator = catalog.get(name)
        if family.lower() not in operator.family:
            continue
        if product is not None and product not in (operator.products or ()):
            continue
        if dtype is not None and not _documents(operator, DataType[dtype.upper()], product):
            continue
        if has_reference and not _has_reference(operator):
            continue
        selected.append(operator)
    return selected


def matching(pattern: str) -> list[str]:
    """Names that contain a pattern; with several words or no match, also operators whose summaries have all words."""
    names = list(catalog.names())
    if any(letter in pattern for letter in "*?["):
        return [
            name
            for name in names
            if any(
                fnmatch.fnmatch(form.lower(), pattern.lower())
                for form in (name, operator_python_name(name), _bare(name))
            )
        ]
    words = pattern.lower().split()
    matches = {name for name in names if plain("".join(words)) in plain(name)}
    if len(words) > 1 or not matches:
        matches |= {name for name in names if all(word in _text(name) for word in words)}
    return [name for name in names if name in matches]


def _text(name: str) -> str:
    """A name, as words, and its summary in English and Chinese."""
    operator = catalog.get(name)
    return f"{operator_python_name(name).replace('_', ' ')} {operator.summary.lower()} {operator.chinese_summary}"


def _documents(operator: Operator, dtype: DataType, product: Optional[str]) -> bool:
    for parameter in operator.parameters:
        if product is not None:
            if dtype in (operator.dtypes(parameter, product) or ()):
                return True
        elif dtype.name in (parameter.dtypes or ()):
            return True
    return False


def _has_reference(operator: Operator) -> bool:
    from ascend_aclnn import reference  # imports NumPy code of the family: only on request

    return reference.find(operator) is not None


def report_text(report: HeaderReport) -> str:
    """How a directory of headers differs from the catalog, for people."""
    lines = [f"{report.directory}: {len(report.same)} operators as in the catalog"]
    lines += ["", f"added ({len(report.added)}): not in the catalog; callable after aclnn.register_operator(...)"]
    for name, prototype in report.added.items():
        text = f"{name}({', '.join(f'{ctype} {parameter}' for ctype, parameter in prototype)})"
        lines += wrap(text, "  ")
    broken = sum(change.abi for change in report.changed)
    lines += ["", f"changed ({len(report.changed)}, of which {broken} cannot be called by the catalog's prototype)"]
    for change in report.changed:
        lines += wrap(f"{change.name}{' (ABI)' if change.abi else ''}: {change.what}", "  ")
    lines += ["", f"lacking ({len(report.lacking)}): in the catalog, not in these headers"]
    lines += wrap(" ".join(report.lacking), "  ")
    return "\n".join(lines)


def report_json(report: HeaderReport) -> dict[str, Any]:
    def rows(prototype: Iterable[tuple[str, str]]) -> list[dict[str, str]]:
        return [{"ctype": ctype, "name": name} for ctype, name in prototype]

    return {
        "directory": report.directory,
        "same": list(report.same),
        "added": {name: rows(prototype) for name, prototype in report.added.items()},
        "changed": {
            change.name: {"abi": change.abi, "what": change.what, "parameters": rows(change.theirs)}
            for change in report.changed
        },
        "lacking": list(report.lacking),
    }


# ------------------------------------------------------------------------------------------------- show


def run_show(options: argparse.Namespace) -> int:
    entry = single.find(options.name)
    try:
        operators = find(options.name)
    except ValueError:
        if entry is None:
            raise
        operators = []
    if options.json:
        rows = [operator_json(operator) for operator in operators]
        rows += [single_json(entry)] if entry is not None and not operators else []
        print(json.dumps(rows[0] if len(rows) == 1 else rows, indent=2))
        return 0
    texts = [operator_text(operator) for operator in operators]
    print("\n\n".join([*texts, *([single_text(entry)] if entry is not None else [])]))
    return 0


def plain(name: str) -> str:
    """A name without case, underscores and prefix."""
    return re.sub(r"^acl(nn)?", "", name.replace("_", "").lower())


def _bare(name: str) -> str:
    return re.sub(r"^acl(nn)?", "", name)


def find(text: str) -> list[Operator]:
    """The operator of a C or Python name; several where they differ only in case or underscores. ValueError if none."""
    names = list(catalog.names())
    for candidates in (
        [name for name in names if text in (name, _bare(name))],
        [catalog.python_names()[text]] if text in catalog.python_names() else [],
        [name for name in names if plain(name) == plain(text)],
    ):
        if candidates:
            return [catalog.get(name) for name in candidates]
    by_plain = {plain(name): name for name in names}
    close = [by_plain[key] for key in difflib.get_close_matches(plain(text), by_plain, 5, 0.6)]
    inside = [name for name in names if len(plain(text)) > 2 and plain(text) in plain(name)]
    suggestions = list(dict.fromkeys([*close, *inside[:5]]))
    hint = f"; did you mean {', '.join(suggestions)}?" if suggestions else ""
    raise ValueError(f"no operator {text!r} in the catalog{hint}")


def operator_text(operator: Operator) -> str:
    """Everything the catalog knows of an operator, for people."""
    from ascend_aclnn.cli.coverage import coverage

    lines = wrap(f"ops.{python_signature(operator)}", "", hanging="    ")
    lines += wrap(operator.summary, "")
    lines += [f"    {part}" for part in operator.formula.split("; ") if part]
    lines += wrap(end_words(operator), "")
    rows = []
    for parameter in operator.parameters:
        kind, dtypes, rank, formats, notes = parameter_words(parameter)
        what = " ".join(word for word in (dtypes, formats) if word)
        notes = "; ".join(word for word in (notes, meaning(operator, parameter)) if word)
        rows.append([parameter.python_name, parameter.direction, kind, what, rank, notes])
        rows += [["", "", "", f"({words})", "", ""] for words in product_words(operator, parameter)]
    lines += ["", textwrap.indent(table(None, rows, limits={3: 60, 4: 40, 5: 60}), "  "), ""]
    facts = [f"products {' '.join(operator.products or ()) or 'not documented'}", f"since {since_words(operator)}"]
    facts += ["experimental"] if operator.experimental else []
    facts += [f"{products} {words}" for products, words in (operator.determinism or {}).items()]
    lines += wrap(" | ".join(facts), "")
    lived = life.of(operator.name)
    for said in lived.announced:
        lines += wrap(f"life     CANN {said.release}: deprecated{announced_words(said)}", "", hanging="    ")
    if lived.removed:
        lines += wrap(f"life     CANN {lived.removed}: gone ({lived.removed_source})", "", hanging="    ")
    for change in lived.changes:
        lines += wrap(f"life     CANN {change.release}: {change.what}", "", hanging="    ")
    for code, words in status_words(operator):
        lines += wrap(f"status {code} {status_name(code)}: {words}", "", hanging="    ")
    covered = coverage(operator)
    lines += [
        f"outputs  {'allocated by a rule' if covered.outputs else 'to be passed as out='}",
        f"checks   {'own rules' if covered.checks else 'the tables of the document'}",
        f"NumPy    {'has a reference' if covered.reference else 'no reference'}",
        f"family   {operator.family}",
        f"header   {operator.header}",
    ]
    if operator.url:
        lines.append(f"document {operator.url}")
    rows = [[refusal.identifier, str(refusal.status), refusal.source] for refusal in refusals(operator)]
    lines += ["", "checks (AclError.rule), their statuses and sources:", textwrap.indent(table(None, rows), "  ")]
    lines.append("")
    for line in example_lines(operator):
        lines += wrap(line.strip(), line[: len(line) - len(line.lstrip())], hanging="    ")
    lines.append("")
    for declaration in c_prototype(operator).splitlines():
        lines += wrap(declaration, "", hanging="    ")
    return "\n".join(lines)


def announced_words(said: life.Announcement) -> str:
    """What an announcement says beside the release: the day, what replaces the name, a note, the source."""
    day = f", releases after {said.after} may lack it" if said.after else ""
    by = f"; use {' and '.join(said.replaced_by)}" if said.replaced_by else ""
    note = f"; {said.note}" if said.note else ""
    return f"{day}{by}{note} ({said.source})"


def life_json(lived: life.Life) -> dict[str, Any]:
    """The life of a name, for programs."""
    return {
        "since": lived.since or None,
        "deprecated": lived.deprecated or None,
        "removal_after": lived.removal or None,
        "removed": lived.removed or None,
        "replaced_by": list(lived.replaced_by),
        "source": lived.source or None,
        "announced": [said._asdict() for said in lived.announced],
        "changes": [change._asdict() for change in lived.changes],
    }


def summary_json(operator: Operator) -> dict[str, Any]:
    return {
        "name": operator.name,
        "python_name": operator.python_name,
        "family": operator.family,
        "products": list(operator.products or ()),
        "since": release_of(operator),
        "experimental": operator.experimental,
        "deprecated": life.of(operator.name).deprecated or None,
        "summary": operator.summary,
    }


def operator_json(operator: Operator) -> dict[str, Any]:
    """Everything the catalog knows of an operator, for programs."""
    from ascend_aclnn.cli.coverage import coverage

    return {
        **summary_json(operator),
        "python_signature": python_signature(operator),
        "c_prototype": c_prototype(operator).splitlines(),
        "header": operator.header,
        "formula": operator.formula,
        "life": life_json(life.of(operator.name)),
        "document": operator.document,
        "url": operator.url,
        "example": None if operator.example is None else operator.example._asdict(),
        "determinism": operator.determinism or {},
        "statuses": [
            {"status": code, "name": status_name(code), "conditions": words} for code, words in status_words(operator)
        ],
        "checks": [refusal._asdict() for refusal in refusals(operator)],
        "coverage": coverage(operator)._asdict(),
        "parameters": [parameter_json(operator, parameter) for parameter in operator.parameters],
    }


def parameter_json(operator: Operator, parameter: Parameter) -> dict[str, Any]:
    row: dict[str, Any] = {
        "name": parameter.name,
        "python_name": parameter.python_name,
        "ctype": parameter.ctype,
        "direction": parameter.direction,
        "optional": parameter.optional,
        "dtypes": None if parameter.dtypes is None else list(parameter.dtypes),
        "formats": None if parameter.formats is None else list(parameter.formats),
        "rank": parameter.rank,
        "noncontiguous": parameter.noncontiguous,
    }
    if parameter.default is not REQUIRED:
        row["default"] = parameter.default
    if parameter.dtypes is not None:
        by_product = {p: operator.dtypes(parameter, p) or () for p in operator.products or ()}
        row["dtypes_by_product"] = {product: [d.name for d in dtypes] for product, dtypes in by_product.items()}
    return row


# ------------------------------------------------------------------------------------------------- single operators


def run_single(options: argparse.Namespace) -> int:
    pattern = options.pattern.lower()
    wanted = [
        name for name in single.names() if fnmatch.fnmatch(name.lower(), pattern) or plain(pattern) in plain(name)
    ]
    entries = [entry for entry in map(single.find, wanted) if entry is not None]
    if options.json:
        print(json.dumps([single_json(entry) for entry in entries], indent=2))
        return 0
    rows = [[entry.name, _work(entry), ", ".join(entry.inputs), ", ".join(entry.outputs)] for entry in entries]
    if rows:
        print(table(["type", "work done by", "inputs", "outputs"], rows, limits={1: 40, 2: 50, 3: 30}))
    print(f"{len(rows)} of {len(single.names())} types of single operators")
    return 0 if rows else 1


def _work(entry: SingleOperator) -> str:
    """What does the work of a type."""
    if entry.unsupported is not None:
        return "nothing"
    return ", ".join(entry.operators) or "a reference"


def single_text(entry: SingleOperator) -> str:
    """Everything the catalog knows of a single operator, for people."""
    lines = [
        f"single operator {entry.name}, run by its type name (aclopCompileAndExecute); work done by: {_work(entry)}"
    ]
    if entry.unsupported is not None:
        lines += wrap(f"not run: {entry.unsupported}", "")
    rows = [[name, "in", form, ""] for name, form in entry.inputs.items()]
    rows += [[name, "out", "tensor", ""] for name in entry.outputs]
    for name, attribute in entry.attributes.items():
        read = entry.unsupported is not None or name in entry.attributes_read
        rows.append([name, "attribute", attribute.words, "" if read else "not read"])
    lines += ["", textwrap.indent(table(None, rows, limits={2: 60}), "  ")]
    if entry.arguments is not None:
        passed = [[parameter, entry.words(argument)] for parameter, argument in entry.arguments.items()]
        lines += ["", f"{entry.operator.name} gets", textwrap.indent(table(None, passed, limits={1: 80}), "  ")]
    for refusal in entry.refused:
        lines += wrap(f"not taken: {refusal.words}", "")
    return "\n".join(lines)


def single_json(entry: SingleOperator) -> dict[str, Any]:
    """Everything the catalog knows of a single operator, for programs."""
    attributes = {
        name: {"type": attribute.type} if attribute.default is REQUIRED else attribute._asdict()
        for name, attribute in entry.attributes.items()
    }
    arguments = None if entry.arguments is None else {name: row._asdict() for name, row in entry.arguments.items()}
    return {
        "type": entry.name,
        "inputs": dict(entry.inputs),
        "outputs": list(entry.outputs),
        "attributes": attributes,
        "operators": list(entry.operators),
        "arguments": arguments,
        "refused": [refusal._asdict() for refusal in entry.refused],
        "unsupported": entry.unsupported,
    }


# ------------------------------------------------------------------------------------------------- text


def wrap(text: str, indent: str, hanging: str = "") -> list[str]:
    """Lines of at most WIDTH columns."""
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=indent,
        subsequent_indent=indent + hanging,
        break_long_words=False,
        break_on_hyphens=False,
    )


def table(head: Optional[Sequence[str]], rows: Sequence[Sequence[str]], limits: Optional[dict[int, int]] = None) -> str:
    """Columns as wide as their longest cell; cells of the columns in ``limits`` are wrapped at that width."""
    split: list[list[list[str]]] = []
    for row in [*([head] if head else []), *rows]:
        width = limits or {}
        split.append([textwrap.wrap(cell, width[i]) or [""] if i in width else [cell] for i, cell in enumerate(row)])
    if not split:
        return ""
    widths = [max(len(line) for row in split for line in row[i]) for i in range(len(split[0]))]
    lines = []
    for parts in split:
        for depth in range(max(map(len, parts))):
            cells = [part[depth] if depth < len(part) else "" for part in parts]
            lines.append("  ".join(cell.ljust(width) for cell, width in zip(cells, widths)).rstrip())
    return "\n".join(lines)
