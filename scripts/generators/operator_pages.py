"""The site's pages of operators and of families, in English (0) and Chinese (1)."""

from __future__ import annotations

import functools
import html
import re
from collections.abc import Iterator, Sequence

from ascend_aclnn import catalog
from ascend_aclnn.catalog import Operator, Parameter, life
from ascend_aclnn.catalog.relations import relations
from ascend_aclnn.catalog.signature import (
    c_prototype,
    end_words,
    example_lines,
    meaning,
    parameter_words,
    product_words,
    python_signature,
    since_words,
    status_words,
)
from ascend_aclnn.cli.coverage import coverage
from ascend_aclnn.cli.refusals import refusals
from ascend_aclnn.core.errors import status_name
from generators import mathematics, pages
from generators.chinese import SAY, SAY_LIFE, SAY_LIST

RELATED = (
    ("forward", "gradient of"),
    ("gradients", "gradient"),
    ("in_place", "in place"),
    ("out_of_place", "not in place"),
    ("versions", "versions"),
)
LOW_PRECISION = {"FLOAT16", "BF16", "HIFLOAT8", "FLOAT8_E5M2", "FLOAT8_E4M3FN"}
STANDARDS = {
    "bit_equal": "every bit must be the same",
    "off_by_one": "integers may differ by one",
    "unspecified": "random: shape and data type only",
}
SIGNATURE_WIDTH = 76
MEANINGS_ARE_ENGLISH = "参数含义一列为英文；报错信息和链接的文档也可能为英文。"


def escaped(text: str) -> str:
    return html.escape(text, quote=False)


def code(text: str) -> str:
    return f"<code>{escaped(text)}</code>"


def table(kind: str, head: Sequence[str], rows: Sequence[Sequence[str]], columns: int = 0) -> list[str]:
    """A table of HTML cells that fits a screen: style.css puts the cells of a row below each other on a phone."""
    if not rows:
        return []
    lines = [f'<table class="fit {kind}"><colgroup>{"<col>" * (columns or len(rows[0]))}</colgroup>']
    if any(head):
        lines.append(f"<thead><tr>{''.join(f'<th>{title}</th>' for title in head)}</tr></thead>")
    lines.append("<tbody>")
    for row in rows:
        cells = "".join(
            f'<td data-label="{title}">{cell}</td>' if title else f"<td>{cell}</td>" for title, cell in zip(head, row)
        )
        lines.append(f"<tr>{cells}</tr>")
    return [*lines, "</tbody></table>", ""]


def signature_lines(operator: Operator) -> list[str]:
    """The signature, a parameter to a line where it is long."""
    text = f"ops.{python_signature(operator)}"
    if len(text) <= SIGNATURE_WIDTH:
        return [text]
    call, _, results = text.rpartition(" -> ")
    name, _, parameters = call[:-1].partition("(")
    lines, line = [f"{name}("], "   "
    for parameter in split(parameters):
        if len(line) + len(parameter) > SIGNATURE_WIDTH:
            lines.append(line)
            line = "   "
        line += f" {parameter},"
    lines.append(line)
    if len(results) <= SIGNATURE_WIDTH - 5:
        return [*lines, f") -> {results}"]
    return [*lines, ") -> (", *(f"    {result.strip()}," for result in results[1:-1].split(", ")), ")"]


def split(parameters: str) -> Iterator[str]:
    """At the commas outside brackets."""
    depth, start = 0, 0
    for i, letter in enumerate(parameters):
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and not depth:
            yield parameters[start:i].strip()
            start = i + 1
    yield parameters[start:].strip()


def parameter_row(operator: Operator, parameter: Parameter, language: int) -> list[str]:
    say = SAY[language]
    kind, dtypes, rank, formats, notes = parameter_words(parameter)
    kind = say(kind)
    words = ("; ", "；")[language].join(filter(None, (meaning(operator, parameter), SAY_LIST[language](notes))))
    brackets = ("({})", "（{}）")[language]
    products = (brackets.format(escaped(say(words))) for words in product_words(operator, parameter))
    by_product = "".join(f"<br>{words}" for words in products)
    what = " ".join(filter(None, (dtypes, formats)))
    types = f'{kind}<span class="small">{what}{by_product}</span>' if what or by_product else kind
    name = f'{code(parameter.python_name)}<span class="small">{say(parameter.direction)}</span>'
    return [name, types, escaped(say(rank)), escaped(words)]


def related(operator: Operator, language: int) -> list[str]:
    found = relations(operator)
    rows = []
    for field, title in RELATED:
        names: tuple[str, ...] = getattr(found, field)
        if names:
            links = ", ".join(f'<a href="../{name}/">{catalog.get(name).python_name}</a>' for name in names)
            rows.append(f"<dt>{SAY[language](title)}</dt><dd>{links}</dd>")
    return [f'<dl class="related">{"".join(rows)}</dl>', ""] if rows else []


def comparison_rows(operator: Operator, language: int = 0) -> list[tuple[str, str]]:
    """What CANN does, what NumPy does, and where they differ."""
    say, covered = SAY[language], coverage(operator)
    dtypes = {name for parameter in operator.parameters for name in parameter.dtypes or ()}
    random = operator.family.endswith("/random") or operator.accuracy_standard == "unspecified"
    ends = [f"CANN {change.release}: {change.what}" for change in life.of(operator.name).changes]
    ends += filter(None, [end_words(operator)])
    rows = [("since", since_words(operator))]
    if operator.experimental:
        rows.append(("experimental", "yes: a default build of CANN does not install it"))
    rows += [(f"determinism, {products}", words) for products, words in (operator.determinism or {}).items()]
    rows += [
        ("NumPy backend", "has a reference" if covered.reference else "no reference: phase one checks, then 561003"),
        ("checks", "own rules" if covered.checks else "the tables of the document"),
        ("outputs", "allocated by a rule" if covered.outputs else "to be passed as out="),
    ]
    if covered.reference:
        if dtypes & LOW_PRECISION and not random:
            rows.append(("rounding", "low precision is widened to float32, computed, and rounded once to the output"))
        rows.append(
            ("accuracy standard", STANDARDS.get(operator.accuracy_standard, "that of floats, or equal integers"))
        )
    if operator.data_dependent:
        rows.append(("data-dependent", "outputs are allocated for the worst case and cut after the operator has run"))
    if random:
        rows.append(("random numbers", "see the page on random numbers"))
    said = [(say(name), say(words)) for name, words in rows]
    said[1:1] = [(say("life"), SAY_LIFE[language](words)) for words in ends]
    products = " ".join(operator.products or ()) or say("not documented")
    return [(say("products"), products), *said, (say("header"), code(operator.header))]


@functools.cache
def _longer_names() -> dict[str, int]:
    """How many names continue a name, each the next: rms_norm, rms_norm_grad, rms_norm_grad_quant give 2, 1, 0."""
    depths: dict[str, int] = {}
    words = {word.lower() for operator in map(catalog.get, catalog.names()) for word in search_names(operator)}
    names = sorted(words, reverse=True)  # what continues a name comes before it
    for i, name in enumerate(names):
        longer = 0
        for other in reversed(names[:i]):
            if not other.startswith(name):
                break
            longer = max(longer, depths[other] + 1)
        depths[name] = longer
    return depths


def boost(operator: Operator) -> float:
    """Of a page in the search, which takes a word for the beginning of a name: the operator of exactly that name comes first."""
    weight = 4.0 ** min(max(_longer_names()[word.lower()] for word in search_names(operator)), 4)
    return weight if operator.experimental else 2 * weight


def search_names(operator: Operator) -> list[str]:
    """The names by which an operator is looked for: in Python, in C, and that without its prefix."""
    return [operator.python_name, operator.name, re.sub("^acl(nn)?", "", operator.name)]


def page(operator: Operator, language: int = 0) -> str:
    """What `ascend-aclnn show` prints, as a page."""
    say, family = SAY[language], pages.family_of(operator)
    lines = [
        "---",
        f"search: {{boost: {boost(operator)}}}",
        f"tags: [{', '.join(search_names(operator))}]",  # which the search finds before titles
        "---",
        f"# {operator.python_name}",
        "",
        f"`{operator.name}`{', ' if not language else '，'}[{family}]({pages.page_name(family)})",
        "",
        escaped(operator.chinese_summary or operator.summary if language else operator.summary),
        "",
    ]
    if operator.formula:
        lines += [mathematics.typeset(operator.formula, [p.python_name for p in operator.parameters]), ""]
    lines += ["```python", *signature_lines(operator), "```", "", *related(operator, language)]
    rows = [parameter_row(operator, parameter, language) for parameter in operator.parameters]
    head = [say(word) for word in ("name", "type", "shape", "meaning")]
    lines += [say("## Parameters and results"), "", *([MEANINGS_ARE_ENGLISH, ""] if language else [])]
    lines += table("parameters", head, rows) or [say("None."), ""]
    title, *call = example_lines(operator)
    lines += [say("## Example"), "", *([] if title == "Example:" else [say(title), ""])]
    lines += ["```pycon", *(line[4:] for line in call), "```", ""]
    lines += [say("## CANN and NumPy"), ""]
    lines += table("facts", ("", ""), [[escaped(name), words] for name, words in comparison_rows(operator, language)])
    lines += [say("[CANN and NumPy](../cann-and-numpy.md) says what these mean and where results may differ."), ""]
    statuses = [
        [str(status), code(status_name(status)), escaped(SAY_LIST[language](words))]
        for status, words in status_words(operator)
    ]
    head = [say(word) for word in ("status", "name", "when")]
    lines += [say("## Statuses"), "", *table("statuses", head, statuses)] if statuses else []
    checks = [[code(check.identifier), str(check.status), say(check.source)] for check in refusals(operator)]
    head = [say(word) for word in ("identifier (AclError.rule)", "status", "source")]
    lines += [say("## Checks"), "", *table("checks", head, checks)]
    lines += [say("## In C"), "", "```c", *c_lines(operator), "```", ""]
    if operator.url:
        lines += [say(f"[Document of {operator.name}]({operator.url})"), ""]
    return "\n".join(lines)


def c_lines(operator: Operator) -> list[str]:
    """Both prototypes, a parameter to a line."""
    lines = []
    for prototype in c_prototype(operator).splitlines():
        head, _, parameters = prototype.rstrip(";").rstrip(")").partition("(")
        lines += [f"{head}(", *(f"    {parameter}," for parameter in parameters.split(", "))]
        lines[-1] = lines[-1].rstrip(",") + ");"
    return lines


def family_page(family: str, operators: Sequence[Operator], language: int) -> str:
    """The operators of a family with one line each."""
    head = (("function", "what it computes", "products"), ("函数", "计算内容", "产品系列"))[language]
    titles = ("## Experimental", "## 实验性算子")
    lines = [f"# {family}", ""]
    for experimental in (False, True):
        some = [operator for operator in operators if operator.experimental is experimental]
        rows = []
        for operator in some:
            summary = operator.chinese_summary or operator.summary if language else operator.summary
            name = f'<a href="../{operator.name}/">{operator.python_name}</a>'
            products = " ".join(operator.products or ())
            rows.append([f'{name}<span class="small">{operator.name}</span>', escaped(summary), products])
        lines += [*([titles[language], ""] if experimental and rows else []), *table("list", head, rows)]
    return "\n".join([*lines, ""])


def families(only: str = "") -> dict[str, list[Operator]]:
    """The operators of each family, or of those that contain ``only``."""
    found: dict[str, list[Operator]] = {}
    for operator in map(catalog.get, catalog.names()):
        family = pages.family_of(operator)
        if only in family:
            found.setdefault(family, []).append(operator)
    return dict(sorted(found.items()))
