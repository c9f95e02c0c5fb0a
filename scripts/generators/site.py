"""The documentation site: a home page, docs/, the README and a page for each operator, as pages for MkDocs.

Nothing here is committed: ``scripts/site`` writes these files and has MkDocs build them. The Chinese site has the same
navigation (``NAVIGATION`` gives both titles of each page). A page in Chinese lies beside its original, as ``testing.zh-CN.md``;
where there is none the English one stands there and says so. Operators' pages are made in both languages; what a parameter
means is English in both.
"""

from __future__ import annotations

import json
import posixpath
import re
from pathlib import Path
from typing import Any

from ascend_aclnn import catalog
from generators import charts, errors, home, notebook, operator_pages, pages

ROOT = Path(__file__).resolve().parents[2]

NOTEBOOK = "samples/first_steps.ipynb"
# Every page of the repository: its file, its title in both languages. Families of operators are added. Folders are sections.
NAVIGATION = (
    ("README.md", "Getting started", "快速入门"),
    (NOTEBOOK, "First steps, a notebook", "入门 notebook"),
    ("docs/hardware.md", "The first day on a card", "在卡上的第一天"),
    ("docs/upgrading.md", "Upgrading CANN", "升级 CANN"),
    ("docs/errors.md", "Error codes", "错误码"),
    ("docs/arrays.md", "Tensors as arrays", "数组用法"),
    ("docs/streams.md", "Streams and memory", "流与内存"),
    ("docs/graphs.md", "Graphs", "图的捕获与重放"),
    ("docs/torch.md", "torch: gradients, shapes", "torch：梯度与形状"),
    ("docs/emulator/README.md", "Start here", "快速开始"),
    ("docs/emulator/torch-npu.md", "torch_npu", "使用 torch_npu"),
    ("docs/emulator/vllm.md", "vLLM", "使用 vLLM"),
    ("docs/emulator/from-mocks.md", "From mocks to the emulated device", "从 mock 迁移到仿真设备"),
    ("docs/emulator/mindspore.md", "MindSpore", "使用 MindSpore"),
    ("docs/emulator/cpp.md", "C++ clients, ggml, llama.cpp", "C++ 程序、ggml 与 llama.cpp"),
    ("docs/emulator/graphs.md", "Graphs", "仿真设备上的图"),
    ("docs/emulator/validate.md", "Validation", "校验"),
    ("docs/emulator/reference.md", "Reference", "参考手册"),
    ("docs/emulator/functions.md", "Functions that torch_npu looks up", "torch_npu 查找的函数"),
    ("docs/emulator/how-it-works.md", "How it works", "工作原理"),
    ("docs/distributed.md", "Many ranks", "多卡通信"),
    ("docs/testing.md", "Testing", "精度测试工具"),
    ("docs/reliability.md", "Reliability", "可靠性"),
    ("docs/cann-and-numpy.md", "CANN and NumPy", "CANN 与 NumPy"),
    ("docs/random-numbers.md", "Random numbers", "随机数"),
    ("docs/trust.md", "Is my card right?", "检查昇腾卡"),
    ("docs/recording.md", "Recording", "录制"),
    ("docs/performance.md", "Performance", "性能"),
    ("docs/results/references.md", "Large operators", "大算子"),
    ("docs/results/sweep.md", "Many operators", "大量算子"),
    ("docs/results/sweep-without-helper.md", "Many operators, NumPy alone", "大量算子（仅 NumPy）"),
    ("docs/results/conversions.md", "Conversions", "类型转换"),
    ("docs/results/small-calls.md", "Small calls", "小算子调用"),
    ("docs/results/host-cost.md", "The host's share", "主机侧开销"),
    ("docs/results/torch-tensors.md", "torch's NPU tensors", "torch 的 NPU 张量"),
    ("docs/results/emulated-device.md", "The emulated device", "仿真设备"),
    ("docs/results/round-trip.md", "A round trip", "一次往返"),
    ("docs/results/graphs.md", "Graphs", "图"),
    ("docs/results/races.md", "Deleted waits", "删去的等待"),
    ("docs/results/validate.md", "The cost of validation", "校验的开销"),
    ("docs/results/layer.md", "The layer", "录制层"),
    ("docs/results/faults.md", "Faults on purpose", "故意注入的错误"),
    ("docs/results/collectives.md", "Collectives", "集合通信"),
    ("docs/results/collectives-ranks.md", "Collectives of many ranks", "集合通信（多 rank）"),
    ("docs/results/import.md", "Import", "导入耗时"),
    ("docs/results/attack.md", "The standing attacker", "常备攻击"),
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
HOME = ("Home", "首页")
ENGLISH = "（英文）"  # what a title in the Chinese site's navigation ends with where the page is not translated
ENGLISH_NOTE = '!!! note ""\n    本页为英文，尚无中文译文。\n\n'
CHINESE_HEADS = {
    "family": "类别",
    "operators": "算子数",
    "outputs": "输出推导",
    "checks": "校验规则",
    "NumPy": "NumPy 参考实现",
    "all": "合计",
}
SLUGIFY = "!!python/name:markdown.extensions.toc.slugify_unicode"  # a tag of YAML: Chinese headings have anchors
STYLE = Path(__file__).resolve().parent / "assets" / "style.css"


# -------------------------------------------------------------------------------------------------------------- pages


def place(source: str) -> str:
    """Where a page of the repository lies on the site."""
    source = source.replace(".zh-CN.md", ".md")
    if source in ("README.md", NOTEBOOK):
        return "start.md" if source == "README.md" else "first-steps.md"
    return re.sub(r"(^|/)README\.md$", r"\1index.md", source.removeprefix("docs/"))


def source_text(source: str) -> str:
    return notebook.page() if source == NOTEBOOK else (ROOT / source).read_text(encoding="utf-8")


def translation(source: str) -> str:
    """The page in Chinese, as a file of the repository; "" where there is none."""
    name = source.replace(".md", ".zh-CN.md")
    return name if name != source and (ROOT / name).exists() else ""


def rewritten(text: str, source: str) -> str:
    """A page with links as the site has them, and with its chart."""
    folder = posixpath.dirname(source)
    on_the_site = posixpath.dirname(place(source))

    def link(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(folder, match[1]))
        return f"]({posixpath.relpath(place(target), on_the_site or '.')}{match[2]})"

    def source_file(match: re.Match[str]) -> str:
        """A file of the repository that is no page stays a name: the site does not have it."""
        path = ROOT / folder / match[2]
        return match[1] if path.is_file() and path.suffix not in (".md", ".svg") else match[0]

    text = re.sub(r"\[([^\]\n]+)\]\(([^)#:\s]+)\)", source_file, text)
    # From one language to the other: MkDocs knows the pages of its own language only.
    here = posixpath.splitext(place(source))[0].removesuffix("index").rstrip("/")
    up = "../" * (here.count("/") + bool(here))
    path = f"{here}/" if here else ""
    text = re.sub(
        r"\[中文(?:说明)?\]\(([^)]*)\)", lambda m: f'<a href="{up}zh/{path}">{m[0][1 : m[0].index("]")]}</a>', text
    )
    text = re.sub(r"\[English\]\(([^)]*)\)", f'<a href="{up}../{path}">English</a>', text)
    return re.sub(r"\]\(([^)#:]+\.md)((?:#[^)]*)?)\)", link, charts.with_chart(source, text))


def overview(chinese: bool) -> str:
    """The list of families."""
    text = (pages.FOLDER / "README.md").read_text(encoding="utf-8").replace(pages.NOTE, "")
    if not chinese:
        return text
    translated = [
        "| " + " | ".join(CHINESE_HEADS.get(cell.strip(), cell.strip()) for cell in line.strip("|").split("|")) + " |"
        for line in text.splitlines()
        if line.startswith("|")
    ]
    count = sum(1 for _ in catalog.names())
    lines = [f"# {OPERATORS[1]}", "", f"共 {count:,} 个算子，按类别列出；算子页面为中文，其中参数含义为英文。", ""]
    lines += ["![各类别的覆盖情况](coverage.svg)", "", *translated, ""]
    return "\n".join(lines)


def operator_files(language: int, only: str) -> dict[str, str]:
    """The pages of families and of operators."""
    files = {"operators/index.md": overview(bool(language))}
    for name in ("single.md", "atb.md", "coverage.svg"):
        files[f"operators/{name}"] = (pages.FOLDER / name).read_text(encoding="utf-8").replace(pages.NOTE, "")
    for family, operators in operator_pages.families(only).items():
        files[f"operators/{pages.page_name(family)}"] = operator_pages.family_page(family, operators, language)
        files.update(
            (f"operators/{operator.name}.md", operator_pages.page(operator, language)) for operator in operators
        )
    return {name: text.replace("(README.md)", "(index.md)") for name, text in files.items()}


def files(only: str = "") -> dict[str, str]:
    """The English site's pages by their paths; of operators only those whose families contain ``only``."""
    files = {"index.md": home.page(0), "style.css": STYLE.read_text(encoding="utf-8"), **operator_files(0, only)}
    for source, _, _ in NAVIGATION:
        files[place(source)] = rewritten(source_text(source), source)
    files["errors.md"] = rewritten(errors.page(fit=True), "docs/errors.md")
    return files


def chinese_files(only: str = "") -> dict[str, str]:
    """The Chinese site's: pages that are translated, the others as they are, families and operators."""
    files = {"index.md": home.page(1), "style.css": STYLE.read_text(encoding="utf-8"), **operator_files(1, only)}
    for name in ("operators/single.md", "operators/atb.md"):
        files[name] = ENGLISH_NOTE + files[name]
    for source, _, _ in NAVIGATION:
        translated = translation(source) or source
        text = rewritten(source_text(translated), translated)
        files[place(source)] = text if translated != source else ENGLISH_NOTE + text
    files["errors.md"] = rewritten(errors.page(chinese=True, fit=True), "docs/errors.md")
    return files


def title_of(source: str, titles: list[str], language: int) -> str:
    """A page's title in the navigation; in Chinese it says whether the page is English."""
    translated = not language or source == "docs/errors.md" or translation(source)
    return titles[language] + ("" if translated else ENGLISH)


def gaps() -> list[str]:
    """What is still to be written: the site is built without it."""
    operators = [catalog.get(name) for name in catalog.names()]
    chinese = [operator.name for operator in operators if not operator.chinese_summary]
    cells = [
        f"{operator.name}.{parameter.python_name}"
        for operator in operators
        if operator_pages.coverage(operator).reference
        for parameter in operator.parameters
        if not operator_pages.meaning(operator, parameter)
    ]
    kinds = (("no summary in Chinese", chinese), ("no meaning", cells))
    return [f"{title} ({len(names)}): {' '.join(names[:20])}" for title, names in kinds if names]


def navigation(language: int, only: str = "") -> list[dict[str, Any]]:
    """MkDocs' nav: titles in English (0) or Chinese (1), and the same pages in the same order."""
    families = [f"operators/{pages.page_name(family)}" for family in operator_pages.families(only)]
    entries: list[dict[str, Any]] = []
    for source, *titles in NAVIGATION:
        entry = {title_of(source, titles, language): place(source)}
        section = SECTIONS.get(posixpath.dirname(source), ("", ""))[language]
        if not section:
            entries.append(entry)
        elif section in entries[-1]:
            entries[-1][section].append(entry)
        else:
            entries.append({section: [entry]})
    of_family: list[Any] = [{Path(name).stem.replace(".", "/", 1): name} for name in families]
    of_family.append({("Single operators", f"单算子{ENGLISH}")[language]: "operators/single.md"})
    of_family.append({("Operations of ATB", f"ATB 算子{ENGLISH}")[language]: "operators/atb.md"})
    listed = {OPERATORS[language]: [{OPERATORS[language]: "operators/index.md"}, *of_family]}
    return [{HOME[language]: "index.md"}, entries[0], listed, *entries[1:]]


def configuration(language: int, source: Path, target: Path, address: str, only: str = "") -> str:
    """mkdocs.yml, in the part of YAML that is JSON."""
    theme = {
        "name": "material",
        "language": ("en", "zh")[language],
        "font": False,  # nothing is fetched from elsewhere, neither while building nor while reading
        "features": ["content.code.copy", "content.tabs.link", "navigation.top", "search.highlight", "search.share"],
        "palette": [
            {
                "media": "(prefers-color-scheme)",  # as the system has it
                "toggle": {"icon": "material/brightness-auto", "name": ("light", "浅色")[language]},
            },
            {
                "media": "(prefers-color-scheme: light)",
                "scheme": "default",
                "toggle": {"icon": "material/weather-sunny", "name": ("dark", "深色")[language]},
            },
            {
                "media": "(prefers-color-scheme: dark)",
                "scheme": "slate",
                "toggle": {"icon": "material/weather-night", "name": ("as the system", "跟随系统")[language]},
            },
        ],
    }
    home = ("./", "../")[language]
    text = json.dumps(
        {
            "site_name": "ascend_aclnn",
            "site_url": address,
            "docs_dir": str(source),
            "site_dir": str(target),
            "theme": theme,
            "extra_css": ["style.css"],
            "nav": navigation(language, only),
            "not_in_nav": "/operators/*.md\n",
            "plugins": [{"search": {"lang": ["en", "zh"] if language else ["en"]}}],
            "markdown_extensions": [
                "admonition",
                "md_in_html",
                "meta",
                "tables",
                {"toc": {"permalink": True, "slugify": SLUGIFY}},
                "pymdownx.superfences",
                {"pymdownx.tabbed": {"alternate_style": True}},
            ],
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
    return text.replace(json.dumps(SLUGIFY), SLUGIFY)
