"""The documentation site: what its pages say, and that both languages have the same navigation."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest

from ascend_aclnn import catalog
from ascend_aclnn.cli.catalog import operator_text

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def site() -> Any:
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        from generators import site
    finally:
        sys.path.remove(str(ROOT / "scripts"))
    return site


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


def test_every_page_of_the_repository_is_on_the_site(site: Any) -> None:
    listed = {source for source, _, _ in site.NAVIGATION}
    present = {path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md")}
    present = {name for name in present if not name.startswith("docs/operators/")}
    assert listed == present | {"README.md", "CONTRIBUTING.md", "CHANGELOG.md"}
    assert set(site.chinese_files()) <= set(site.files())


def test_every_operator_has_a_page_that_a_family_leads_to(site: Any) -> None:
    files = site.files()
    named = {name.partition("/")[2][:-3] for name in files if name.startswith("operators/acl")}
    assert named == set(catalog.names())
    linked = {
        found
        for name, text in files.items()
        if name.startswith("operators/ops-")
        for found in re.findall(r"\]\((acl\w+)\.md\)", text)
    }
    assert linked == named


def words(text: str) -> set[str]:
    return set(re.findall(r"[\w.]+", text))


def test_a_page_says_what_show_prints(site: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def unwrapped(head: Any, rows: list[list[str]], limits: Any = None) -> str:
        return "\n".join(" ".join(row) for row in rows)

    monkeypatch.setattr("ascend_aclnn.cli.catalog.table", unwrapped)
    for operator in map(catalog.get, catalog.names()):
        page, shown = site.operator_page(operator), operator_text(operator)
        known = words(shown)
        cells = [cell for line in page.splitlines() if line.startswith("| ") for cell in re.split(r" (?<!\\)\| ", line)]
        labels = words(
            "name direction kind dtypes and formats shape meaning status when determinism br experimental header yes"
            " identifier source"
        )
        for cell in cells:
            assert words(cell.replace("br>", " ")) - labels <= known, (operator.name, cell)
        for part in (operator.summary, operator.formula, operator.url or ""):
            assert words(part) <= words(page.replace("&lt;", "<").replace("&gt;", ">")) & known, (operator.name, part)
        for parameter in operator.parameters:
            assert f"| `{parameter.python_name}` | {parameter.direction} |" in page
