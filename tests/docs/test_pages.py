"""The pages: links lead somewhere, both READMEs have the same structure, code in them runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ascend_aclnn.core.interface import Backend

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "README.zh-CN.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")])


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{page.name}: {target}"


def structure(page: Path) -> list[str]:
    """Levels of headings, fences, list items and table rows, in order, and the code as it is."""
    shape, fenced = [], False
    for line in page.read_text(encoding="utf-8").splitlines():
        if line.startswith("```"):
            fenced = not fenced
            shape.append(line)
        elif fenced:
            shape.append(line.split("#")[0].rstrip())
        elif line.startswith("#"):
            shape.append(line.split()[0])
        elif line.startswith("- "):
            shape.append("-")
        elif line.startswith("|"):
            shape.append("|" * line.count("|"))
    return shape


def test_both_readmes_have_the_same_structure() -> None:
    assert structure(ROOT / "README.md") == structure(ROOT / "README.zh-CN.md")


def python_blocks(page: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.S)


def test_the_readme_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its Python blocks in order, in one namespace; those that need an NPU's torch tensor are left to its own tests."""
    import ascend_aclnn as aclnn

    scope: dict[str, object] = {}
    with aclnn.use_backend("numpy"):
        for block in python_blocks(ROOT / "README.md"):
            if "from_torch" in block:
                continue
            exec(
                compile(
                    block.replace("(4096, 7168)", "(8, 7168)").replace("4096, 7168", "8, 7168"), "README.md", "exec"
                ),
                scope,
            )


def test_the_page_on_testing_runs() -> None:
    exec(compile(python_blocks(ROOT / "docs" / "testing.md")[0], "testing.md", "exec"), {})


def test_the_page_on_streams_runs(each_backend: Backend) -> None:
    scope: dict[str, object] = {}
    for block in python_blocks(ROOT / "docs" / "streams.md"):
        exec(compile(block, "streams.md", "exec"), scope)
    assert scope["done"].result() == 131072.0  # type: ignore[attr-defined]
