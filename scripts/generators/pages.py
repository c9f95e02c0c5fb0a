"""docs/operators: every operator by family, what is covered of each, and a picture of that."""

from __future__ import annotations

import html
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from ascend_aclnn import catalog
from ascend_aclnn.catalog import Operator, life
from ascend_aclnn.catalog.signature import python_signature, release_of
from ascend_aclnn.cli.coverage import Coverage, coverage
from ascend_aclnn.core import drawing
from generators import atb, single

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "operators"
NOTE = "<!-- Made by scripts/generate.py; do not edit. -->\n"

# The picture: what a bar's parts mean, and their colours.
PARTS = (
    ("NumPy reference", "#1f5fa8"),
    ("own rules, no reference yet", "#7fb0e0"),
    ("bound: document's checks, outputs by out=", "#d5dee8"),
)


class Row(NamedTuple):
    operator: Operator
    coverage: Coverage


def family_of(operator: Operator) -> str:
    """The family page an operator is on: experimental ones stand beside the regular."""
    return operator.family.replace("/experimental", "")


def page_name(family: str) -> str:
    return family.replace("/", ".") + ".md"


def count(rows: Sequence[Row], what: str) -> int:
    return sum(getattr(row.coverage, what) for row in rows)


def mark(value: bool) -> str:
    return "yes" if value else ""


def overview(families: dict[str, list[Row]]) -> str:
    rows = [row for some in families.values() for row in some]
    regular = sum(not row.operator.experimental for row in rows)
    lines = [
        NOTE,
        "# Operators",
        "",
        f"{len(rows)} operators: {regular} regular, {len(rows) - regular} experimental (contributed code that a default",
        "build of CANN does not install). Every one is bound: it has a Python function with a real signature, and runs on a",
        "device whose CANN has it. Beyond that, the columns count the operators",
        "",
        "- *outputs*: whose outputs are allocated by a rule; for the others pass `out=`;",
        "- *checks*: whose arguments are checked by rules of their own, in CANN's order; for the others the tables of the",
        "  operator's document speak: null pointers, dtypes, ranks;",
        "- *NumPy*: that the NumPy backend computes.",
        "",
        "*Life* in the tables of the families is the CANN release that brought an operator, the changes of its prototype and",
        "of its documented dtypes since, and its end as far as release notes and headers announce it",
        "([Upgrading](../upgrading.md)). 8.1.RC1 means that or an earlier release; a month, the public sources in which an",
        "operator was first seen.",
        "",
        "![Coverage by family: bars of operators with a reference, with own rules, and bound only](coverage.svg)",
        "",
        "| family | operators | outputs | checks | NumPy |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for family, some in families.items():
        counts = " | ".join(str(count(some, what)) for what in ("outputs", "checks", "reference"))
        lines.append(f"| [{family}]({page_name(family)}) | {len(some)} | {counts} |")
    totals = " | ".join(str(count(rows, what)) for what in ("outputs", "checks", "reference"))
    lines.append(f"| all | {len(rows)} | {totals} |")
    lines += [
        "",
        "`ascend-aclnn show NAME` tells the rest: dtypes by product, ranks, formats, optional arguments, statuses and the C",
        "prototype. `ascend-aclnn ops --from-headers DIR` compares the catalog with an installed CANN.",
        "",
        "[Single operators by type name](single.md) and [operations of ATB](atb.md), which torch_npu runs beside these, are no",
        "aclnn operators.",
        "",
    ]
    return "\n".join(lines)


def family_page(family: str, rows: list[Row]) -> str:
    lines = [NOTE, f"# {family}", ""]
    for title, some in (
        ("", [row for row in rows if not row.operator.experimental]),
        ("## Experimental", [row for row in rows if row.operator.experimental]),
    ):
        if not some:
            continue
        lines += [title, ""] if title else []
        lines += [
            "| operator | what it computes | function | products | life | outputs | checks | NumPy |",
            "| --- " * 8 + "|",
        ]
        for operator, covered in some:
            signature = python_signature(operator).replace(", *, out=None, stream=None)", ")")
            signature = signature.replace("(*, out=None, stream=None)", "()")
            cells = [
                f"[{operator.name}]({operator.url})" if operator.url else operator.name,
                description(operator),
                f"`{signature}`",
                " ".join(operator.products or ()),
                life_words(operator),
                mark(covered.outputs),
                mark(covered.checks),
                mark(covered.reference),
            ]
            lines.append(f"| {' | '.join(cells)} |")
        lines.append("")
    lines.append("Every function also takes `out=None` and `stream=None`. [All families](README.md)")
    lines.append("")
    return "\n".join(lines)


def life_words(operator: Operator) -> str:
    """The release that brought an operator, the changes since, and its end as far as it is announced."""
    lived = life.of(operator.name)
    words = [release_of(operator)]
    words += [f"{change.release}: {change.what}" for change in lived.changes]
    words += [f"**{life.end_words(lived, python=False)}**"] if life.end_words(lived) else []
    return "<br>".join(words)


def description(operator: Operator) -> str:
    """Summary and formula, for a cell of a table."""
    formula = f"<br>`{operator.formula}`" if operator.formula else ""
    return (html.escape(operator.summary, quote=False) + formula).replace("|", "\\|")


def picture(families: dict[str, list[Row]]) -> str:
    """Horizontal bars, one for each family, as SVG."""
    left, bar, step, top = 220, 560, 22, 60
    longest = max(map(len, families.values()))
    width, height = left + bar + 100, top + step * len(families) + 20
    lines = []
    x = 20
    for name, colour in PARTS:
        lines.append(drawing.rectangle(x, 18, 13, 13, colour))
        lines.append(drawing.text(x + 19, 29, name))
        x += 40 + 7 * len(name)
    for i, (family, rows) in enumerate(families.items()):
        y = top + step * i
        lines.append(drawing.text(left - 8, y + 12, family, "end"))
        references = count(rows, "reference")
        rules = sum(row.coverage.checks and not row.coverage.reference for row in rows)
        start = float(left)
        for number, (_, colour) in zip((references, rules, len(rows) - references - rules), PARTS):
            length = bar * number / longest
            if number:
                lines.append(drawing.rectangle(start, y, length, 15, colour))
            start += length
        lines.append(drawing.text(start + 6, y + 12, f"{references} / {len(rows)}"))
    return drawing.picture(width, height, "coverage by family", lines) + "\n"


def files() -> dict[Path, str]:
    families: dict[str, list[Row]] = {}
    for operator in map(catalog.get, catalog.names()):
        families.setdefault(family_of(operator), []).append(Row(operator, coverage(operator)))
    families = dict(sorted(families.items()))
    pages = {page_name(family): family_page(family, rows) for family, rows in families.items()}
    pages["README.md"] = overview(families)
    pages["single.md"] = single.page(NOTE)
    pages["atb.md"] = atb.page(NOTE)
    pages["coverage.svg"] = picture(families)
    return {FOLDER / name: text for name, text in pages.items()}
