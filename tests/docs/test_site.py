"""The documentation site: what its pages say, and that both languages have the same navigation."""

from __future__ import annotations

import html
import importlib.util
import re
import sys
import xml.dom.minidom
from pathlib import Path
from typing import Any

import pytest

import ascend_aclnn as aclnn
from ascend_aclnn import catalog
from ascend_aclnn.cli.catalog import operator_text

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def generators() -> Any:
    """The package scripts/generators with the modules of the site."""
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        import build_site  # noqa: F401
        import generators
    finally:
        sys.path.remove(str(ROOT / "scripts"))
    return generators


@pytest.fixture(scope="module")
def site(generators: Any) -> Any:
    return generators.site


@pytest.fixture(scope="module")
def english(site: Any) -> dict[str, str]:
    return dict(site.files())


@pytest.fixture(scope="module")
def chinese(site: Any) -> dict[str, str]:
    return dict(site.chinese_files())


def titles(entries: list[Any]) -> list[Any]:
    """The pages of a navigation, without their titles."""
    return [
        titles(next(iter(entry.values()))) if isinstance(entry, dict) and isinstance(next(iter(entry.values())), list)
        else next(iter(entry.values())) if isinstance(entry, dict) else entry
        for entry in entries
    ]  # fmt: skip


def test_both_languages_have_the_same_navigation(site: Any) -> None:
    english, chinese = site.navigation(0), site.navigation(1)
    assert titles(english) == titles(chinese)
    written = [next(iter(entry)) for entry in chinese]
    assert all(re.search("[\u4e00-\u9fff]", title) for title in written), written


def test_every_page_of_the_repository_is_on_the_site(
    site: Any, english: dict[str, str], chinese: dict[str, str]
) -> None:
    listed = {source for source, _, _ in site.NAVIGATION}
    present = {path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md")}
    present = {name for name in present if not name.startswith("docs/operators/") and not name.endswith(".zh-CN.md")}
    assert listed == present | {"README.md", "CONTRIBUTING.md", "CHANGELOG.md", site.NOTEBOOK}
    assert set(chinese) == set(english)


def test_every_operator_has_a_page_that_a_family_leads_to(english: dict[str, str], chinese: dict[str, str]) -> None:
    named = {name.partition("/")[2][:-3] for name in english if name.startswith("operators/acl")}
    assert named == set(catalog.names())
    for pages in (english, chinese):
        families = [text for name, text in pages.items() if name.startswith("operators/ops-")]
        assert {found for text in families for found in re.findall(r'"\.\./(acl\w+)/"', text)} == named


def test_pages_that_are_not_translated_say_so(site: Any, chinese: dict[str, str]) -> None:
    titles = {}
    for entry in site.navigation(1):
        for title, value in entry.items():
            titles.update({value: title} if isinstance(value, str) else {v: t for e in value for t, v in e.items()})
    for source, _, _ in site.NAVIGATION:
        english = site.ENGLISH_NOTE in chinese[site.place(source)]
        assert english == titles[site.place(source)].endswith(site.ENGLISH), source
    assert site.ENGLISH_NOTE not in chinese["index.md"] + chinese["start.md"] + chinese["errors.md"]


def words(text: str) -> set[str]:
    return set(re.findall(r"[\w.]+", text))


def words_of_html(text: str) -> set[str]:
    return words(html.unescape(re.sub(r"<[^>]+>", " ", text)))


def test_a_page_says_what_show_prints(generators: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def unwrapped(head: Any, rows: list[list[str]], limits: Any = None) -> str:
        return "\n".join(" ".join(row) for row in rows)

    monkeypatch.setattr("ascend_aclnn.cli.catalog.table", unwrapped)
    for operator in map(catalog.get, catalog.names()):
        page, known = generators.operator_pages.page(operator), words(operator_text(operator))
        parts = re.findall(r'<table class="fit (parameters|statuses|checks)">.*?<tbody>(.*?)</tbody>', page, re.S)
        for kind, rows in parts:
            assert words_of_html(rows) <= known, (operator.name, kind, words_of_html(rows) - known)
        assert [kind for kind, _ in parts][:1] == (["parameters"] if operator.parameters else [])
        assert words(operator.summary) <= words(html.unescape(page)) & known, operator.name
        assert not operator.formula or f'data-text="{html.escape(operator.formula)}"' in page
        assert (operator.url or "") in page
        for parameter in operator.parameters:
            assert f"<code>{parameter.python_name}</code>" in page


# ------------------------------------------------------------------------------------------------------------ formulas


def typeset(generators: Any, formula: str, *names: str) -> str:
    """The MathML of a formula in short: without attributes, rows and the block around it."""
    text = re.sub(r" [\w-]+=\"[^\"]*\"", "", generators.mathematics.typeset(formula, names))
    return re.sub(r"</?(?:mrow|div|math)>", "", text)


@pytest.mark.parametrize(
    ("formula", "expected"),
    [
        ("out = x / 2", "<mi>out</mi> X = X <mfrac><mi>x</mi><mn>2</mn></mfrac>"),
        ("out = (a + b) / sqrt(c)",
         "<mi>out</mi> X = X <mfrac><mi>a</mi>+<mi>b</mi> over <msqrt><mi>c</mi></msqrt></mfrac>"),
        ("y = x^2", "<mi>y</mi> X = X <msup><mi>x</mi><mn>2</mn></msup>"),
        ("y = |x|", "<mi>y</mi> X = X |<mi>x</mi>|"),
        ("out[i] = x[i]", "<msub><mi>out</mi><mi>i</mi></msub> X = X <msub><mi>x</mi><mi>i</mi></msub>"),
        ("out = x[1:n]", "<mi>out</mi> X = X <mi>x</mi>[<mn>1</mn>:<mi>n</mi>]"),
        ("out = sum over k of x[k]",
         "<mi>out</mi> X = X <munder>∑<mi>k</mi></munder><msub><mi>x</mi><mi>k</mi></msub>"),
        ("out = max(x, 0) along dim", "<mi>out</mi> X = X <mi>max</mi>(<mi>x</mi>,<mn>0</mn>) X along X <mi>dim</mi>"),
        ("a = b; c = d", "<mi>a</mi> X = X <mi>b</mi></p><p><mi>c</mi> X = X <mi>d</mi>"),
    ],
)  # fmt: skip
def test_formulas_are_typeset(generators: Any, formula: str, expected: str) -> None:
    shown = typeset(generators, formula, "x", "out", "dim", "a", "b", "c", "d", "n", "y")
    plain = re.sub(r"</?(?:mo|p)>", "", shown.replace("</p><p>", "\n"))
    assert plain.replace(" ", "") == re.sub(r" X | over |</?p>", "", expected.replace("</p><p>", "\n")).replace(" ", "")


def test_every_formula_is_well_formed_and_complete(generators: Any) -> None:
    """Each name and number of a formula is in its MathML, whose elements are closed."""
    for operator in map(catalog.get, catalog.names()):
        if not operator.formula:
            continue
        text = generators.mathematics.typeset(operator.formula, [p.python_name for p in operator.parameters])
        document = xml.dom.minidom.parseString(text)
        document.documentElement.removeAttribute("data-text")
        shown = " ".join(re.findall(r">([^<>]+)<", document.documentElement.toxml().replace("π", "pi")))
        wanted = set(re.findall(r"[A-Za-z]+", operator.formula)) - {
            "sqrt",
            "sum",
            "over",
            "of",
            "floor",
            "ceil",
            "abs",
            "inf",
        }
        assert wanted <= set(re.findall(r"[A-Za-z]+", shown)), (
            operator.name,
            wanted - set(re.findall(r"[A-Za-z]+", shown)),
        )


# --------------------------------------------------------------------------------------------------- home page, charts


def test_the_tabs_of_the_home_page_run(generators: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")  # as torch tensors of the CPU
    for titles, sentences, kind, code in generators.home.TABS:
        assert kind == "python" and len(titles) == len(sentences) == 2
        assert max(map(len, code.splitlines())) <= 66, titles
        if "import torch" in code and importlib.util.find_spec("torch") is None:
            continue
        scope: dict[str, Any] = {}
        with aclnn.use_backend("numpy") as backend:
            exec(compile(code.replace("4096, 7168", "8, 7168"), titles[0], "exec"), scope)
            for name, function in list(scope.items()):
                if name.startswith("test_"):
                    function(backend)


def test_comments_of_the_tabs_are_chinese_on_the_chinese_page(generators: Any) -> None:
    english, chinese = (generators.home.page(language) for language in (0, 1))
    assert english.count("<svg") == chinese.count("<svg") == 1  # one drawing for all widths
    comments = [line.partition("  # ")[2] for line in chinese.splitlines() if "  # " in line]
    assert len(comments) == english.count("  # ") == len(generators.home.COMMENTS)
    assert all(re.search("[\u4e00-\u9fff]", comment) for comment in comments), comments


def test_charts_draw_the_figures_of_their_tables(generators: Any) -> None:
    charts = generators.charts
    for name, chart in charts.CHARTS.items():
        names, rows = charts.series(name, chart)
        drawn = charts.chart(name)
        xml.dom.minidom.parseString(drawn)
        assert all(html.escape(title) in drawn for title in names if len(names) > 1)
        values = [value for _, some in rows for value in some if value is not None]
        assert len(values) >= len(rows) > 2
        if not chart.bins:
            assert drawn.count("<rect") == len(values) + (len(names) if len(names) > 1 else 0)
            assert all(f">{value:g}</text>" in drawn for value in values)
            starts = [float(x) for x in re.findall(r'<rect class="first" x="([\d.]+)" y="(?!6")', drawn)]
            longest = max(len(label) for label in re.findall(r'text-anchor="end"[^>]*>([^<]*)<', drawn))
            assert min(starts) >= 7 * longest  # names have room
        page = charts.with_chart(
            f"docs/results/{name}.md", (ROOT / f"docs/results/{name}.md").read_text(encoding="utf-8")
        )
        assert page.count("<svg") == 1


def test_a_bar_is_as_long_as_its_value_says(generators: Any) -> None:
    charts = generators.charts
    drawn = charts.bars(["a"], [("one", [1.0]), ("four", [4.0])], charts.Chart(("a",), "ms"))
    widths = [float(width) for width in re.findall(r'<rect class="first"[^>]* width="([\d.]+)"', drawn)]
    assert widths[1] == pytest.approx(4 * widths[0], rel=0.01)


def test_the_notebook_shows_what_its_cells_print(generators: Any) -> None:
    """Of two cells; test_generated.py runs all of them."""
    page = generators.notebook.page()
    assert page.count("```python") == page.count("```text") >= 6
    assert "AclError: aclnnRmsNorm: gamma has dtype DOUBLE" in page
    scope: dict[str, Any] = {}
    assert generators.notebook.run_cell("a = 2\nprint(a)\na + 1", scope) == "2\n3\n"
    assert generators.notebook.run_cell("a = 3", scope) == ""


def test_not_found_pages_lead_home(generators: Any) -> None:
    import build_site

    for language, start in ((0, "/docs/"), (1, "/docs/zh/")):
        page = build_site.not_found(language, "https://example.org/docs/")
        assert re.findall(r'href="([^"]*)"', page) == [start, f"{start}operators/"]
    assert 'href="/zh/"' in build_site.not_found(1, "")


def test_chinese_pages_of_operators_say_in_chinese_what_english_ones_say(
    generators: Any, english: dict[str, str], chinese: dict[str, str]
) -> None:
    """Headings, rows and code are the same ones; words of the lists are Chinese, and a line names what is not."""

    def rows(text: str) -> list[int]:
        return [part.count("<tr>") for part in text.split("\n## ")]

    latin = re.compile(r"[a-z]{3,}")
    for operator in map(catalog.get, catalog.names()):
        ours, theirs = (pages[f"operators/{operator.name}.md"] for pages in (chinese, english))
        assert rows(ours) == rows(theirs), operator.name
        assert re.findall(r"```.*?```", ours, re.S) == re.findall(r"```.*?```", theirs, re.S), operator.name
        assert generators.operator_pages.MEANINGS_ARE_ENGLISH in ours
        assert not [line for line in ours.splitlines() if line.startswith("## ") and latin.search(line)], operator.name
        for head in re.findall(r"<th>(.*?)</th>", ours):
            assert re.search("[\u4e00-\u9fff]", head), (operator.name, head)
    page = chinese["operators/aclnnRmsNorm.md"]
    for words in ("归一化", "必选指针为空", "默认 1e-06", "维数 1-8", "不支持 BF16", "低精度先提升到 float32"):
        assert words in page, words
    assert "boost: 32" in page and "tags: [rms_norm, aclnnRmsNorm, RmsNorm]" in page


def test_words_without_a_translation_are_an_error(generators: Any) -> None:
    chinese = generators.operator_pages.SAY[1]
    assert chinese("rank 2-8") == "维数 2-8" and chinese("310P 910: not BF16") == "310P 910：不支持 BF16"
    listed = generators.operator_pages.SAY_LIST[1]
    assert listed("optional, default () (all axes), contiguous only") == "可选，默认 ()（所有轴），须连续"
    life = generators.operator_pages.SAY_LIFE[1]
    assert life("deprecated since CANN 9.0.0 (use ops.a and ops.b); releases after 2026-12-30 may lack it") == (
        "自 CANN 9.0.0 起弃用（改用 ops.a 和 ops.b）；2026-12-30 之后的版本可能不再提供"
    )
    with pytest.raises(LookupError, match="no Chinese for 'a new word'"):
        chinese("a new word")
