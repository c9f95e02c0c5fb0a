"""docs/errors.md has every code once and is what the data make."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from ascend_aclnn.core import error_codes

ROOT = Path(__file__).parents[2]


def codes_of(text: str) -> list[str]:
    return re.findall(r"(?:^\| |, |: |：)`([A-Z0-9_]+)`", text.partition("## ")[2], re.M)


def test_every_code_is_on_the_page_once() -> None:
    codes = codes_of((ROOT / "docs" / "errors.md").read_text(encoding="utf-8"))
    assert sorted(codes) == sorted(entry.code for entry in error_codes.all_codes() if entry.code != "0")


def test_the_page_is_current_and_there_is_a_chinese_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(ROOT / "scripts"), *sys.path])
    from generators import errors

    assert errors.PAGE.read_text(encoding="utf-8") == errors.page()
    chinese = errors.page(chinese=True)
    assert sorted(codes_of(chinese)) == sorted(codes_of(errors.page()))
    assert "校验失败" in chinese and "处理" in chinese
    for fit in (errors.page(fit=True), errors.page(chinese=True, fit=True)):  # the site's
        found = [*codes_of(fit), *re.findall(r"<td[^>]*><code>(\w+)</code>", fit)]
        assert sorted(found) == sorted(codes_of(chinese))
    for group in error_codes.groups().values():
        assert re.search("[\u4e00-\u9fff]", group.chinese_meaning), group
