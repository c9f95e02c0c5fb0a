"""The documentation site: docs/ and both READMEs, and a page for each operator, as pages for MkDocs.

Nothing here is committed: ``scripts/site`` writes these files and has MkDocs build them. The Chinese site has the same
navigation (``NAVIGATION`` gives both titles of each page), and leads to the operators' pages of the English one.
"""

from __future__ import annotations

import functools
import html
import json
import posixpath
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ascend_aclnn import catalog
from ascend_aclnn.catalog import Operator
from ascend_aclnn.catalog.signature import (
    attribute_words,
    c_prototype,
    example_lines,
    parameter_words,
    product_words,
    python_signature,
    since_words,
    status_words,
)
from ascend_aclnn.cli.coverage import Coverage, coverage
from ascend_aclnn.cli.refusals import refusals
from ascend_aclnn.core.errors import status_name
from generators import errors, pages

ROOT = Path(__file__).resolve().parents[2]

# Every page of docs/: its file, its title in both languages. Families of operators are added. Folders are sections.
NAVIGATION = (
    ("README.md", "Home", "首页"),
    ("docs/hardware.md", "The first day on a card", "在卡上的第一天"),
    ("docs/errors.md", "Error codes", "错误码"),
    ("docs/arrays.md", "Tensors as arrays", "数组用法"),
    ("docs/streams.md", "Streams and memory", "流与内存"),
    ("docs/torch.md", "torch: gradients, shapes", "torch:梯度与形状"),
    ("docs/emulator/README.md", "Start here", "快速开始"),
    ("docs/emulator/torch-npu.md", "torch_npu", "使用 torch_npu"),
    ("docs/emulator/mindspore.md", "MindSpore", "使用 MindSpore"),
    ("docs/emulator/cpp.md", "C++ clients, ggml, llama.cpp", "C++ 程序、ggml 与 llama.cpp"),
    ("docs/emulator/graphs.md", "Graphs", "图捕获"),
    ("docs/emulator/reference.md", "Reference", "参考手册"),
    ("docs/emulator/functions.md", "Functions that torch_npu looks up", "torch_npu 查找的函数"),
    ("docs/emulator/how-it-works.md", "How it works", "工作原理"),
    ("docs/distributed.md", "Many ranks", "多卡通信"),
    ("docs/testing.md", "Testing", "精度测试工具"),
    ("docs/reliability.md", "Reliability", "可靠性"),
    ("docs/random-numbers.md", "Random numbers", "随机数"),
    ("docs/recording.md", "Recording", "录制"),
    ("docs/performance.md", "Performance", "性能"),
    ("docs/results/references.md", "Large operators", "大算子"),
    ("docs/results/sweep.md", "Many operators", "大量算子"),
    ("docs/results/sweep-without-helper.md", "Many operators, NumPy alone", "大量算子(仅 NumPy)"),
    ("docs/results/conversions.md", "Conversions", "类型转换"),
    ("docs/results/small-calls.md", "Small calls", "小算子调用"),
    ("docs/results/host-cost.md", "The host's share", "主机侧开销"),
    ("docs/results/torch-tensors.md", "torch's NPU tensors", "torch 的 NPU 张量"),
    ("docs/results/emulated-device.md", "The emulated device", "仿真设备"),
    ("docs/results/collectives.md", "Collectives", "集合通信"),
    ("docs/results/collectives-ranks.md", "Collectives of many ranks", "集合通信(多 rank)"),
    ("docs/results/import.md", "Import", "导入耗时"),
    ("docs/architecture.md", "Architecture", "架构"),
    ("docs/internals.md", "Internals", "内部实现"),
    ("docs/adding-an-operator.md", "Adding an operator", "添加算子"),
    ("docs/catalog.md", "The catalog", "算子目录"),
    ("docs/glossary.md", "Glossary", "术语表"),
    ("CONTRIBUTING.md", "Contributing", "参与贡献"),
    ("CHANGELOG.md", "Changelog", "更新日志"),
)
SECTIONS = {"docs/emulator": ("The emulated device", "仿真设备"), "docs/results": ("Results", "测量结果")}
OPERATORS = ("Operators", "算子")
# The words of family pages in Chinese; what each operator computes stays in English, as everywhere.
CHINESE = {
    "operator": "算子",
    "what it computes": "计算内容",
    "function": "函数",
    "products": "产品",
    "since": "起始版本",
    "outputs": "输出推导",
    "checks": "校验规则",
    "NumPy": "NumPy 参考实现",
    "family": "类别",
    "operators": "算子数",
    "all": "合计",
}


# ---------------------------------------------------------------------------------------------------------- operators


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    cells = [[cell.replace("|", "\\|").replace("\n", "<br>") for cell in row] for row in rows]
    return [f"| {' | '.join(row)} |" for row in [head, ["---"] * len(head), *cells]]


def fact_rows(operator: Operator, coverage: Coverage) -> list[tuple[str, str]]:
    """What is known of an operator beside its parameters."""
    return [
        ("products", " ".join(operator.products or ()) or "not documented"),
        ("since", since_words(operator)),
        *([("experimental", "yes")] if operator.experimental else []),
        *[(f"determinism, {products}", words) for products, words in (operator.determinism or {}).items()],
        ("outputs", "allocated by a rule" if coverage.outputs else "to be passed as out="),
        ("checks", "own rules" if coverage.checks else "the tables of the document"),
        ("NumPy", "has a reference" if coverage.reference else "no reference"),
        ("header", f"`{operator.header}`"),
    ]


def parameter_row(operator: Operator, parameter: catalog.Parameter) -> list[str]:
    kind, dtypes, rank, formats, notes = parameter_words(parameter)
    meaning = "; ".join(filter(None, (notes, attribute_words(parameter))))
    by_product = "".join(f"\n({words})" for words in product_words(operator, parameter))
    what = " ".join(filter(None, (dtypes, formats)))
    return [f"`{parameter.python_name}`", parameter.direction, kind, what + by_product, rank, meaning]


def operator_page(operator: Operator) -> str:
    """What `ascend-aclnn show` prints, as a page."""
    family = pages.family_of(operator)
    lines = [
        f"# {operator.python_name}",
        "",
        f"`{operator.name}`, [{family}]({pages.page_name(family)})",
        "",
        html.escape(operator.summary, quote=False),
        "",
    ]
    if operator.formula:
        lines += ["```text", *(part for part in operator.formula.split("; ") if part), "```", ""]
    lines += ["```python", f"ops.{python_signature(operator)}", "```", "", "## Parameters and results", ""]
    rows = [parameter_row(operator, parameter) for parameter in operator.parameters]
    lines += [*table(("name", "direction", "kind", "dtypes and formats", "shape", "meaning"), rows), ""]
    statuses = [[str(code), f"`{status_name(code)}`", words] for code, words in status_words(operator)]
    if statuses:
        lines += ["## Statuses", "", *table(("status", "name", "when"), statuses), ""]
    checks = [[f"`{check.identifier}`", str(check.status), check.source] for check in refusals(operator)]
    lines += ["## Checks", "", *table(("identifier (AclError.rule)", "status", "source"), checks), ""]
    title, *call = example_lines(operator)
    lines += ["## Example", "", *([] if title == "Example:" else [title, ""])]
    lines += ["```pycon", *(line[4:] for line in call), "```", "", "## Coverage", ""]
    lines += [*table(("", ""), fact_rows(operator, coverage(operator))), ""]
    lines += ["## In C", "", "```c", *c_prototype(operator).splitlines(), "```", ""]
    if operator.url:
        lines += [f"[Document of {operator.name}]({operator.url})", ""]
    return "\n".join(lines)


def linked(text: str, prefix: str, suffix: str) -> str:
    """A family page, or the overview, whose operators lead to their pages here."""

    def link(match: re.Match[str]) -> str:
        target = f"{prefix}{match[1]}{suffix}"
        return f"| [{match[1]}]({target}) |" if suffix == ".md" else f'| <a href="{target}">{match[1]}</a> |'

    text = re.sub(r"^\| \[?(acl\w+)(?:\]\([^)]*\))? \|", link, text, flags=re.M)
    return text.replace("(README.md)", "(index.md)").replace(pages.NOTE, "")


def chinese(text: str) -> str:
    """A family page with Chinese headings."""

    def translate(match: re.Match[str]) -> str:
        words = [cell.strip() for cell in match[0].strip("|").split("|")]
        return f"| {' | '.join(CHINESE.get(word, word) for word in words)} |"

    text = re.sub(r"^\| (?:operator|family) \|.*\|$", translate, text, flags=re.M)
    text = text.replace("# Operators", f"# {OPERATORS[1]}").replace("## Experimental", "## 实验性算子")
    text = re.sub(
        r"Every function also takes .*", "每个函数还接受 `out=None` 与 `stream=None`。[全部类别](index.md)", text
    )
    start, end = text.find("operators: "), text.find("![")
    if start >= 0:  # the overview
        text = (
            f"# {OPERATORS[1]}\n\n共 {len(list(catalog.names()))} 个算子,按类别列出;算子页面为英文。\n\n" + text[end:]
        )
    return text


# -------------------------------------------------------------------------------------------------------------- pages


def place(source: str) -> str:
    """Where a page of the repository lies on the site."""
    return re.sub(r"(^|/)README\.md$", r"\1index.md", source.removeprefix("docs/"))


def rewritten(text: str, source: str) -> str:
    """A page with links as the site has them."""
    folder = posixpath.dirname(source)
    on_the_site = posixpath.dirname(place(source))

    def link(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(folder, match[1]))
        return f"]({posixpath.relpath(place(target), on_the_site or '.')}{match[2]})"

    if source.startswith("README"):
        text = text.replace("[中文说明](README.zh-CN.md)", '<a href="zh/">中文说明</a>')
        text = text.replace("[English](README.md)", '<a href="../">English</a>')
    return re.sub(r"\]\(([^)#:]+\.md)((?:#[^)]*)?)\)", link, text)


@functools.cache
def family_pages() -> dict[str, str]:
    files = {path.name: text for path, text in pages.files().items()}
    return {f"operators/{'index.md' if name == 'README.md' else name}": text for name, text in files.items()}


def files() -> dict[str, str]:
    """The English site's pages by their paths."""
    families = family_pages()
    files = {name: linked(text, "", ".md") if name.endswith(".md") else text for name, text in families.items()}
    for source, _, _ in NAVIGATION:
        files[place(source)] = rewritten((ROOT / source).read_text(encoding="utf-8"), source)
    for operator in map(catalog.get, catalog.names()):
        files[f"operators/{operator.name}.md"] = operator_page(operator)
    return files


def chinese_files() -> dict[str, str]:
    """The Chinese site's: README and error codes in Chinese, the other pages as they are, families with Chinese headings."""
    files: dict[str, str] = {}
    for name, text in family_pages().items():
        files[name] = chinese(linked(text, "../../../operators/", "/")) if name.endswith(".md") else text
    for source, _, _ in NAVIGATION:
        translated = "README.zh-CN.md" if source == "README.md" else source
        files[place(source)] = rewritten((ROOT / translated).read_text(encoding="utf-8"), translated)
    files["errors.md"] = rewritten(errors.page(chinese=True), "docs/errors.md")
    return files


def navigation(language: int) -> list[dict[str, Any]]:
    """MkDocs' nav: titles in English (0) or Chinese (1), and the same pages in the same order."""
    families = sorted(name for name in family_pages() if name.endswith(".md") and not name.endswith("/index.md"))
    entries: list[dict[str, Any]] = []
    for source, *titles in NAVIGATION:
        entry = {titles[language]: place(source)}
        section = SECTIONS.get(posixpath.dirname(source), ("", ""))[language]
        if not section:
            entries.append(entry)
        elif section in entries[-1]:
            entries[-1][section].append(entry)
        else:
            entries.append({section: [entry]})
    of_family: list[Any] = [{Path(name).stem.replace(".", "/", 1): name} for name in families]
    return [entries[0], {OPERATORS[language]: ["operators/index.md", *of_family]}, *entries[1:]]


def configuration(language: int, source: Path, target: Path, address: str) -> str:
    """mkdocs.yml, in the part of YAML that is JSON."""
    theme = {
        "name": "material",
        "language": ("en", "zh")[language],
        "font": False,  # nothing is fetched from elsewhere, neither while building nor while reading
        "features": ["content.code.copy", "navigation.top", "search.highlight", "search.suggest"],
        "palette": [
            {"scheme": "default", "toggle": {"icon": "material/weather-night", "name": ("dark", "深色")[language]}},
            {"scheme": "slate", "toggle": {"icon": "material/weather-sunny", "name": ("light", "浅色")[language]}},
        ],
    }
    home = ("./", "../")[language]
    return json.dumps(
        {
            "site_name": "ascend_aclnn",
            "site_url": address,
            "docs_dir": str(source),
            "site_dir": str(target),
            "theme": theme,
            "nav": navigation(language),
            "not_in_nav": "/operators/*.md\n",
            "plugins": [{"search": {"lang": ["en", "zh"] if language else ["en"]}}],
            "markdown_extensions": ["admonition", "tables", {"toc": {"permalink": True}}, "pymdownx.superfences"],
            "validation": {"links": {"anchors": "warn", "unrecognized_links": "warn", "absolute_links": "warn"}},
            "extra": {
                "alternate": [
                    {"name": "English", "link": home, "lang": "en"},
                    {"name": "中文", "link": f"{home}zh/", "lang": "zh"},
                ],
                "generator": False,
            },
        },
        ensure_ascii=False,
        indent=1,
    )
