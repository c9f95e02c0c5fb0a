#!/usr/bin/env python3
"""Looks at the built site in Chromium, 1280 and 390 pixels wide: nothing may be wider than the screen, and the search finds
exact names first. Screenshots go beside the site. Needs Chromium (Debian: apt install chromium fonts-noto-cjk).

    scripts/site && scripts/look_at_site.py                     # build/site, some pages
    scripts/look_at_site.py --pages operators/aclnnExp zh       # these pages
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any, Optional

sys.path.insert(0, str(Path(__file__).resolve().parent))

import chromium

ROOT = Path(__file__).resolve().parents[1]
WIDTHS = (1280, 390)
HEIGHT = 1400  # of screenshots
SHOWN = ("", "operators/aclnnRmsNormGrad", "operators/ops-nn.norm", "errors", "zh", "zh/operators/aclnnRmsNormGrad",
         "zh/operators/ops-nn.norm")  # fmt: skip
PAGES = (*SHOWN, "start", "operators", "operators/aclnnAddRmsNormQuant", "operators/aclnnBatchNormBackward",
         "hardware", "testing",
         "performance", "results/references", "results/collectives", "cann-and-numpy", "emulator", "zh/errors", "changelog",
         "CHANGELOG", "first-steps", "zh/start", "zh/hardware", "zh/testing", "zh/emulator", "zh/operators")  # fmt: skip
# Search terms: what the first result has to be, by language.
SEARCHES: dict[str, dict[str, Optional[str]]] = {
    "": {
        "rms_norm": "rms_norm",
        "layer_norm": "layer_norm",
        "batch_norm": "batch_norm",
        "norm": "norm",
        "add_rms_norm": "add_rms_norm",
        "aclnnRmsNorm": "rms_norm",
        "RmsNorm": "rms_norm",
    },
    "zh": {"归一化": None, "rms_norm": "rms_norm"},
}
# Of the whole site only, for their pages are of other families.
MORE_SEARCHES: dict[str, Optional[str]] = {
    "softmax": "softmax",
    "exp": "exp",
    "add": "add",
    "matmul": "matmul",
    "topk": "topk",
}
PATIENCE = 240.0  # seconds for all pages

HARNESS = """<!doctype html><meta charset="utf-8"><body style="margin:0"><script>
const pages = PAGES, searches = SEARCHES, widths = WIDTHS, found = [];
const wait = ms => new Promise(done => setTimeout(done, ms));
function load(path, width) {
  return new Promise(done => {
    const frame = document.createElement("iframe");
    frame.style.cssText = `border:0;height:900px;width:${width}px`;
    frame.onload = () => done(frame);
    frame.src = path;
    document.body.appendChild(frame);
  });
}
function scrolls(element, view) {
  for (let e = element; e && e.parentElement; e = e.parentElement) {
    const style = view.getComputedStyle(e);
    if (["auto", "scroll", "hidden"].includes(style.overflowX) || style.position == "fixed") return true;
  }
  return false;
}
function name(element) {
  return element.tagName.toLowerCase() + "." + element.className + ": " + element.textContent.trim().slice(0, 60);
}
async function look(path, width) {
  const frame = await load("/" + path, width);
  await wait(150);
  const view = frame.contentWindow, page = view.document, problems = [];
  const content = page.querySelector(".md-content") || page.body;
  for (const part of page.querySelectorAll("details.unit, details.unit details")) part.open = true;
  if (!page.querySelector("h1")) problems.push("no heading");
  if (page.documentElement.scrollWidth > width) problems.push("the page is " + page.documentElement.scrollWidth + " wide");
  for (const element of content.querySelectorAll("*")) {
    const box = element.getBoundingClientRect();
    if (box.width && box.right > width + 1 && !scrolls(element.parentElement, view)) problems.push("too wide: " + name(element));
  }
  for (const table of content.querySelectorAll("table.fit"))
    if (table.scrollWidth > table.parentElement.clientWidth + 1) problems.push("a table does not fit: " + name(table));
  for (const pre of page.querySelectorAll(".hero pre code"))
    if (width > 1000 && pre.scrollWidth > pre.clientWidth + 1) problems.push("code does not fit: " + name(pre));
  for (const image of content.querySelectorAll("img"))
    if (image.complete && !image.naturalWidth) problems.push("no image: " + image.src);
  frame.remove();
  for (const problem of new Set(problems.slice(0, 6))) found.push(`${path.replace(/.$/, "") || "home"} at ${width}: ${problem}`);
}
async function search(site, term, first) {
  const frame = await load(`/${site ? site + "/" : ""}?q=${encodeURIComponent(term)}`, 1280);
  let titles = [];
  for (let i = 0; i < 100 && !titles.length; i++) {
    await wait(200);
    titles = [...frame.contentDocument.querySelectorAll(".md-search-result__item h1")].map(e => e.textContent.trim());
  }
  if (!titles.length) found.push(`search for ${term} in ${site || "en"} finds nothing`);
  else if (first && titles[0] != first) found.push(`search for ${term} in ${site || "en"} finds ${titles.slice(0, 4)} first`);
  frame.remove();
}
(async () => {
  try {
    for (const path of pages) for (const width of widths) await look(path ? path + "/" : "", width);
    for (const site in searches) for (const term in searches[site]) await search(site, term, searches[site][term]);
  } catch (error) { found.push("harness: " + error + error.stack); }
  await fetch("/result", {method: "POST", body: JSON.stringify(found)});
})();
</script>"""


class Report:
    """What the harness has found."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self.arrived = threading.Event()


class Handler(chromium.Handler):
    """The site, the harness at /look, a page in a frame at /frame/WIDTH/PAGE, and where the harness reports."""

    def __init__(self, *arguments: Any, harness: str, report: Report, **options: Any) -> None:
        self.harness = harness
        self.report = report
        super().__init__(*arguments, **options)

    def do_GET(self) -> None:
        if self.path.startswith("/frame/"):
            _, _, width, page = self.path.split("/", 3)
            style = f"border:0;width:{width}px;height:{HEIGHT}px"
            text = f"<!doctype html><body style='margin:0'><iframe style='{style}' src='/{page}'></iframe>"
        elif self.path == "/look":
            text = self.harness
        else:
            with contextlib.suppress(ConnectionError):  # the harness is done with a page before the browser is
                super().do_GET()
            return
        self.reply(text.encode(), "text/html; charset=utf-8")

    def do_POST(self) -> None:
        self.report.problems = json.loads(self.posted())
        self.report.arrived.set()


def look(site: Path, pages: list[str], searches: dict[str, Any], screenshots: Path, shown: list[str]) -> list[str]:
    """What is wrong with the pages of a built site. Writes a screenshot of each of ``shown`` at each width."""
    browser = chromium.find()
    if browser is None:
        raise FileNotFoundError(chromium.MISSING)
    harness = HARNESS
    for word, value in (("PAGES", pages), ("SEARCHES", searches), ("WIDTHS", WIDTHS)):
        harness = harness.replace(word, json.dumps(value), 1)
    report = Report()
    handler = functools.partial(Handler, harness=harness, report=report, directory=str(site))
    with chromium.served(handler) as address:
        with chromium.opened(browser, f"{address}/look"):
            report.arrived.wait(PATIENCE)
        screenshots.mkdir(parents=True, exist_ok=True)
        for page in shown:
            for width in WIDTHS:
                name = f"{page.replace('/', '.') or 'home'}-{width}.png"
                # A window is at least 500 pixels wide, a frame is not.
                place = f"{address}/frame/{width}/{page}{'/' if page else ''}"
                options = (f"--window-size={max(width, 500)},{HEIGHT}", f"--screenshot={screenshots / name}")
                _run(browser, *options, place)
    if not report.arrived.is_set():
        return [f"Chromium did not finish within {PATIENCE:.0f} s"]
    return report.problems


def _run(browser: str, *arguments: str) -> None:
    with tempfile.TemporaryDirectory(prefix="ascend-aclnn-look-", ignore_cleanup_errors=True) as profile:
        command = [browser, *chromium.FLAGS, f"--user-data-dir={profile}", *arguments]
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=PATIENCE)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--site", type=Path, default=ROOT / "build" / "site")
    parser.add_argument("--screenshots", type=Path, default=ROOT / "build" / "screenshots")
    parser.add_argument("--pages", nargs="*", help="pages instead of the usual ones; without searches and screenshots")
    options = parser.parse_args()
    if options.pages is None:
        pages = [page for page in PAGES if (options.site / page / "index.html").exists()]
        shown = [page for page in SHOWN if page in pages]
        whole = (options.site / "operators" / "aclnnExp").exists()
        searches = {**SEARCHES, "": {**SEARCHES[""], **(MORE_SEARCHES if whole else {})}}
        problems = look(options.site, pages, searches, options.screenshots, shown)
        print(f"{len(pages)} pages at {' and '.join(map(str, WIDTHS))} px; screenshots in {options.screenshots}")
    else:
        problems = look(options.site, [page.strip("/") for page in options.pages], {}, options.screenshots, [])
    print("\n".join(problems) or "all fit")
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
