"""The site and a report of verify in a real browser, 1280 and 390 pixels wide: nothing overflows, what is searched is found."""

from __future__ import annotations

import contextlib
import importlib.util
import re
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def looking() -> Iterator[Any]:
    """scripts/look_at_site.py; skipped where there is no Chromium."""
    spec = importlib.util.spec_from_file_location("look_at_site", ROOT / "scripts" / "look_at_site.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["look_at_site"] = module
    spec.loader.exec_module(module)
    if module.chromium.find() is None:
        pytest.skip(module.chromium.MISSING)
    yield module
    del sys.modules["look_at_site"]


@pytest.mark.long
def test_pages_fit_and_the_search_finds_exact_names(looking: Any, tmp_path: Path) -> None:
    """Of one family of operators and all other pages. Screenshots are left in build/screenshots."""
    command = [str(ROOT / "scripts" / "site"), "--family", "ops-nn/norm", "--output", str(tmp_path)]
    built = subprocess.run(command, capture_output=True, text=True)
    if built.returncode and "needs a package index" in built.stderr:
        pytest.skip(f"MkDocs cannot be installed: {built.stderr.splitlines()[-1]}")
    assert built.returncode == 0, built.stdout + built.stderr
    pages = [page for page in looking.PAGES if (tmp_path / page / "index.html").exists()]
    assert set(looking.SHOWN) <= set(pages)
    assert looking.look(tmp_path, pages, looking.SEARCHES, ROOT / "build" / "screenshots", list(looking.SHOWN)) == []
    for page in looking.SHOWN:
        for width in looking.WIDTHS:
            picture = ROOT / "build" / "screenshots" / f"{page.replace('/', '.') or 'home'}-{width}.png"
            assert picture.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n" and picture.stat().st_size > 10_000


@pytest.mark.long
def test_what_does_not_fit_is_found(looking: Any, tmp_path: Path) -> None:
    wide = "<!doctype html><h1>Wide</h1><div class='md-content'><p style='width:600px'>text</p></div>"
    table = (
        "<!doctype html><h1>Table</h1><div class='md-content'><div style='overflow:auto'>"
        "<table class='fit'><tr><td><div style='width:700px'>cell</div></table></div></div>"
    )
    for name, text in (("wide", wide), ("table", table)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "index.html").write_text(text, encoding="utf-8")
    problems = "\n".join(looking.look(tmp_path, ["wide", "table"], {}, tmp_path / "pictures", []))
    assert "wide at 390: the page is" in problems and "too wide: p." in problems
    assert "table at 390: a table does not fit" in problems
    assert "at 1280" not in problems


@pytest.mark.long
def test_a_report_of_verify_fits_and_is_filtered(looking: Any, emulator_home: Path, tmp_path: Path) -> None:
    """Of a device with faults. The page forbids the browser every connection; screenshots are left in build/screenshots."""
    from ascend_aclnn.cli.emulator import environment

    fault = "aclnnModulate:wrong-rounding;aclnnScaledMaskedSoftmax:nan"
    subprocess.run(
        [sys.executable, "-m", "ascend_aclnn", "verify", "--family", "vfusion", "--report", str(tmp_path / "report")],
        env={**environment(emulator_home), "ASCEND_EMULATOR_FAULT": fault},
        capture_output=True,
        timeout=500,
    )
    screenshots = ROOT / "build" / "screenshots"
    assert looking.look(tmp_path, ["report"], {}, screenshots, ["report"]) == []
    assert (screenshots / "report-390.png").stat().st_size > 10_000
    text = (tmp_path / "report" / "index.html").read_text(encoding="utf-8")

    def shown(script: str, pattern: str) -> re.Match[str]:
        """The pattern in the page's elements when a script has run in it.

        On a busy machine headless Chromium may write the elements before a picture is decoded, or stop at its virtual time: it
        is asked again then.
        """
        tried = tmp_path / "tried.html"
        tried.write_text(text.replace("</body>", f"<script>{script}</script></body>"), encoding="utf-8")
        output = ""
        for attempt in range(5):
            options = (f"--user-data-dir={tmp_path / f'profile{attempt}'}", "--virtual-time-budget=20000", "--dump-dom")
            command = [looking.chromium.find(), *looking.chromium.FLAGS, *options, tried.as_uri()]
            with contextlib.suppress(subprocess.TimeoutExpired):
                output = subprocess.run(command, capture_output=True, text=True, timeout=60).stdout
            if match := re.search(pattern, output):
                return match
        pytest.fail(f"no {pattern} in {output[-2000:]}")

    for word, count in (("", "6 of 6"), ("softmax", "2 of 6"), ("nan infinite", "1 of 6")):
        typed = f'search.value = "{word}"; search.dispatchEvent(new Event("input"));'
        shown(typed, f'id="count">{count}<')
    assert text.count("<figure>") > text.count("<h3>Errors in")  # where elements are wrong, too
    begin = shown(
        'png(document.querySelector("figure svg")).then(blob => blob.bytes ? blob.bytes() : blob.arrayBuffer())'
        ".then(bytes => { count.textContent = [...new Uint8Array(bytes).slice(0, 24)]; });",
        r'id="count">(\d[\d,]+)<',
    )
    head = bytes(map(int, begin[1].split(",")))
    assert head[:8] == b"\x89PNG\r\n\x1a\n" and struct.unpack(">2I", head[16:]) == (1120, 300)
    shown('document.querySelector("figure button").click();', r"<button[^>]*>(copied|saved as aclnn\w+\.png)<")
