"""docs/results: each page says when, where and at which commit it was measured, and the command that measures it again."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs" / "results").glob("*.md"))


def test_there_are_results() -> None:
    assert PAGES


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_result_has_its_conditions(page: Path) -> None:
    conditions = dict(re.findall(r"^\| (\w+) \| (.*?) \|$", page.read_text(encoding="utf-8"), re.M))
    assert list(conditions)[:5] == ["command", "date", "commit", "machine", "software"]
    assert re.fullmatch(r"20\d\d-\d\d-\d\d", conditions["date"])
    assert re.match(r"[0-9a-f]{7}", conditions["commit"])
    script = re.search(r"scripts/(attack\b|\w+\.py)", conditions["command"])
    assert script is not None
    code = "scripts/attacks/runner.py" if script[1] == "attack" else script[0]
    assert '"--write"' in (ROOT / code).read_text(encoding="utf-8")
    writers = [
        path for path in (ROOT / "scripts").rglob("*.py") if f'"{page.stem}"' in path.read_text(encoding="utf-8")
    ]
    assert writers
