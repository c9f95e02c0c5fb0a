"""The page of a report: one HTML file that needs nothing else, from what ``result.json`` holds."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Optional

from ascend_aclnn import catalog
from ascend_aclnn.core import drawing
from ascend_aclnn.core.dtypes import DataType
from ascend_aclnn.testing.standards import thresholds

STATES = ("failed", "passed", "left out")
_OPEN = 12  # failed operators that are open at first
_WORST = 8  # elements of an operator
_WIDTH, _HEIGHT, _MARGIN = 560, 150, 16  # of a histogram

_STYLE = """
:root { color-scheme: light dark; --paper: #fff; --ink: #1f2328; --muted: #59636e; --line: #d0d7de; --soft: #f6f8fa;
  --red: #b42318; --green: #2f7d32; --blue: #3f6ea3; }
@media (prefers-color-scheme: dark) { :root { --paper: #0f1419; --ink: #e6e9ed; --muted: #9aa4af; --line: #323a43;
  --soft: #181f26; --red: #ff7b72; --green: #6cc070; --blue: #79aee8; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1200px; padding: 1rem; background: var(--paper); color: var(--ink);
  font: 15px/1.5 ui-sans-serif, system-ui, "Segoe UI", "Noto Sans", sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; margin: .2rem 0; } h3 { font-size: 1rem; margin: 1rem 0 .3rem; }
p { margin: .3rem 0; } a { color: var(--blue); }
.muted { color: var(--muted); } .failed > summary b, .bad { color: var(--red); } .good { color: var(--green); }
.filters { position: sticky; top: 0; z-index: 1; background: var(--paper); border-bottom: 1px solid var(--line);
  display: flex; flex-wrap: wrap; gap: .5rem 1rem; align-items: center; padding: .6rem 0; margin: .6rem 0; }
input[type=search], select { font: inherit; padding: .25rem .5rem; border: 1px solid var(--line); border-radius: 6px;
  background: var(--soft); color: inherit; max-width: 100%; min-width: 0; }
input[type=search] { flex: 1 1 12rem; }
details.unit { border: 1px solid var(--line); border-radius: 6px; margin: .4rem 0; padding: .35rem .7rem;
  content-visibility: auto; contain-intrinsic-size: auto 2.4rem; }
details.failed { border-left: 4px solid var(--red); } details.passed { border-left: 4px solid var(--green); }
summary { cursor: pointer; } summary .muted { font-size: .9em; margin-left: .6rem; }
.scroll { overflow-x: auto; max-width: 100%; }
table { border-collapse: collapse; font-size: .88rem; } th, td { border-bottom: 1px solid var(--line);
  padding: .2rem .7rem .2rem 0; text-align: left; vertical-align: top; } th { color: var(--muted); font-weight: 600; }
th, td { white-space: nowrap; } td.text { white-space: normal; min-width: 16rem; }
code, pre { font: .86em ui-monospace, "Noto Sans Mono", monospace; }
svg { max-width: 100%; height: auto; display: block; fill: var(--ink); }
svg [fill="#ffffff"] { fill: none; } svg [fill="#6e7781"] { fill: var(--muted); } svg text { fill: var(--ink); }
svg line { stroke: var(--line); }
figure { margin: .3rem 0; } button { font: inherit; font-size: .85rem; padding: .1rem .6rem; border: 1px solid var(--line);
  border-radius: 6px; background: var(--soft); color: inherit; cursor: pointer; }
[hidden] { display: none !important; }
"""

_SCRIPT = """
const units = [...document.querySelectorAll(".unit")], count = document.getElementById("count");
const search = document.getElementById("search"), family = document.getElementById("family");
const boxes = [...document.querySelectorAll("input[name=state]")];
function filter() {
  const words = search.value.toLowerCase().split(/\\s+/).filter(Boolean);
  const states = new Set(boxes.filter(box => box.checked).map(box => box.value));
  let shown = 0;
  for (const unit of units) {
    const text = unit.dataset.text;
    const fits = states.has(unit.dataset.state) && (!family.value || family.value === unit.dataset.family)
      && words.every(word => text.includes(word));
    unit.hidden = !fits;
    shown += fits;
  }
  count.textContent = shown + " of " + units.length;
}
function go() {
  const unit = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (unit && unit.tagName === "DETAILS") { unit.hidden = false; unit.open = true; unit.scrollIntoView(); }
}
/* A picture as it was drawn, without the page's colours, in twice its size: what a comment of a bug report takes. */
async function png(svg) {
  const {width, height} = svg.viewBox.baseVal, image = new Image(), canvas = document.createElement("canvas");
  image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(new XMLSerializer().serializeToString(svg));
  await image.decode();
  canvas.width = 2 * width;
  canvas.height = 2 * height;
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise(done => canvas.toBlob(done, "image/png"));
}
async function copy(button) {
  const figure = button.closest("figure"), blob = await png(figure.querySelector("svg"));
  try {
    await navigator.clipboard.write([new ClipboardItem({"image/png": blob})]);
    button.textContent = "copied";
  } catch (refused) { /* no right to the clipboard: a file, then */
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = figure.closest(".unit").id + ".png";
    link.click();
    button.textContent = "saved as " + link.download;
  }
}
for (const button of document.querySelectorAll("figure button")) button.addEventListener("click", () => copy(button));
for (const control of [search, family, ...boxes]) control.addEventListener("input", filter);
addEventListener("hashchange", go);
filter();
go();
"""


def page(result: dict[str, Any]) -> str:
    """The HTML document of a result; the failed units come first."""
    units = sorted(result["units"], key=lambda unit: STATES.index(state(unit)))
    opened = 0
    parts = []
    for unit in units:
        opened += state(unit) == "failed"
        parts.append(_unit(unit, state(unit) == "failed" and opened <= _OPEN))
    policy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
    return "\n".join(
        [
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>verify: {_text(result['device']['soc'])}</title>",
            f"<style>{_STYLE}</style>\n</head>\n<body>",
            *_head(result),
            *_filters(units),
            "<main>",
            *parts,
            "</main>",
            f"<script>{_SCRIPT}</script>\n</body>\n</html>\n",
        ]
    )


def state(unit: dict[str, Any]) -> str:
    """Of ``STATES``."""
    return "failed" if unit["faults"] else "passed" if unit["left_out"] is None else "left out"


def _head(result: dict[str, Any]) -> Iterator[str]:
    device, count = result["device"], dict.fromkeys(STATES, 0)
    for unit in result["units"]:
        count[state(unit)] += 1
    kind = "Emulated device" if device["emulated"] else "Device"
    yield f"<h1>{kind} {_text(device['soc'])} against the NumPy references</h1>"
    verdict = f'<b class="bad">{count["failed"]} failed</b>' if count["failed"] else "<b>none failed</b>"
    yield (
        f'<p>{verdict}, <span class="good">{count["passed"]} passed</span>, {count["left out"]} left out; '
        f"{result['cases']} cases in {result['seconds']:g} s</p>"
    )
    if result["stopped"] is not None:
        yield f'<p class="bad">stopped: {_text(result["stopped"])}</p>'
    if result["left"]:
        yield f"<p>{len(result['left'])} were not tried: the time was up. The same command goes on.</p>"
    facts = {
        "CANN": device["cann"] or "unknown",
        "driver": device["driver"] or "unknown",
        "library": device.get("library", ""),
        "devices": device["devices"],
        "seed": result["seed"],
        "cases": "all (--all)"
        if result["all"]
        else f"{result['sample']} of each"
        if result["sample"]
        else "the usual ones",
        **result["environment"],
    }
    yield f"<details><summary>Environment</summary>{_table(facts.items())}</details>"
    if result["left_out"]:
        rows = ((number, reason) for reason, number in result["left_out"].items())
        yield f"<details><summary>Left out, and why</summary>{_table(rows)}</details>"


def _filters(units: Sequence[dict[str, Any]]) -> Iterator[str]:
    families = sorted({unit["family"] for unit in units})
    choices = "".join(f'<option value="{_text(name)}">{_text(name)}</option>' for name in families)
    yield '<form class="filters" onsubmit="return false">'
    yield '<input type="search" id="search" placeholder="operator, case, text" aria-label="search">'
    yield f'<select id="family" aria-label="family"><option value="">all families</option>{choices}</select>'
    for name in STATES:
        yield f'<label><input type="checkbox" name="state" value="{name}" checked> {name}</label>'
    yield '<span class="muted" id="count"></span></form>'


def _unit(unit: dict[str, Any], opened: bool) -> str:
    """The section of an operator or a check."""
    name, kind = unit["unit"], state(unit)
    words = [name, unit["family"], unit["left_out"] or "", *(f"{f['case']} {f['text']}" for f in unit["faults"])]
    words += [_case(case) for case in unit["judged"]]
    notes = [unit["family"], kind if unit["left_out"] is None else f"left out: {unit['left_out']}"]
    if unit["cases"]:
        wrong = len({fault["case"] for fault in unit["faults"]})
        notes.append(f"{wrong} of {max(unit['cases'], wrong)} cases" if wrong else f"{unit['cases']} cases")
    if unit["figures"].get("host_us"):
        notes.append(f"{unit['figures']['host_us']:g} us on the host")
    return "\n".join(
        [
            f'<details class="unit {kind.replace(" ", "-")}" id="{_text(name)}" data-state="{kind}" '
            f'data-family="{_text(unit["family"])}" data-text="{_text(" ".join(words).lower())}"'
            f"{' open' if opened else ''}>",
            f'<summary><b>{_text(name)}</b><span class="muted">{_text(" · ".join(notes))}</span></summary>',
            *_body(unit),
            "</details>",
        ]
    )


def _body(unit: dict[str, Any]) -> Iterator[str]:
    name = unit["unit"]
    address = catalog.get(name).url if name in catalog.names() else None
    if address:
        yield f'<p><a href="{_text(address)}">document of CANN</a></p>'
    if unit["figures"].get("detail"):
        yield f"<p>{_text(unit['figures']['detail'])}</p>"
    if unit["faults"]:
        yield "<h3>What is wrong</h3>"
        yield _raw_table(([_text(_case(f) or "-"), _text(f["text"]), _recording(f)] for f in unit["faults"]),
                         ("case", "text", "recording"))  # fmt: skip
        if any(fault["recording"] for fault in unit["faults"]):
            yield "<p class='muted'>ascend-aclnn replay RECORDING --compare shows the difference again.</p>"
    outputs = [(_case(case), output) for case in unit["judged"] for output in case["outputs"] if "size" in output]
    for title, judged in (("ULP", _floats(outputs)), ("units", _integers(outputs))):
        bins = _summed(judged)
        if bins:
            yield f"<h3>Errors in {title}</h3>"
            yield _figure(_histogram(bins, f"{name}: elements by error, at most so many {title}"))
    for case, output in outputs:
        if output.get("picture"):
            yield f"<h3>{_text(case)}: {_text(output['name'])}</h3>"
            yield _figure(output["picture"])
    worst = _worst(outputs)
    if worst:
        yield "<h3>Worst elements</h3>"
        yield _table(worst, ("case", "output", "index", "device", "reference", "error", "ULP"))
    if outputs:
        yield f"<details><summary>{len(unit['judged'])} cases</summary>"
        yield _table(
            map(_row, outputs), ("case", "output", "dtype", "elements", "standard", "largest error", "verdict")
        )
        yield "</details>"


def _case(case: dict[str, Any]) -> str:
    """A case by its number in the suite, and its label."""
    return case["case"] if case.get("number") is None else f"{case['number']:04} {case['case']}"


def _recording(fault: dict[str, Any]) -> str:
    place = fault["recording"]
    return f'<a href="{_text(place)}"><code>{_text(place)}</code></a>' if place else ""


def _row(pair: tuple[str, dict[str, Any]]) -> list[Any]:
    case, output = pair
    largest = output["figures"].get("max_abs_error", output["figures"].get("different", ""))
    verdict = "failed" if output["fault"] else "passed"
    return [case, output["name"], output["dtype"], output["size"], output["standard"], largest, verdict]


Outputs = list[tuple[str, dict[str, Any]]]


def _floats(outputs: Outputs) -> list[dict[str, Any]]:
    return [output for _, output in outputs if thresholds(DataType[output["dtype"]]) is not None]


def _integers(outputs: Outputs) -> list[dict[str, Any]]:
    return [output for _, output in outputs if thresholds(DataType[output["dtype"]]) is None]


def _summed(outputs: list[dict[str, Any]]) -> dict[str, int]:
    """The histograms of outputs as one, its bins in the order of the errors."""
    names = ["0", *(str(2**k) for k in range(64)), "more", "NaN, inf"]
    total: dict[str, int] = {}
    for output in outputs:
        for name, count in output["histogram"].items():
            total[name] = total.get(name, 0) + count
    return {name: total[name] for name in sorted(total, key=names.index)}


def _worst(outputs: Outputs) -> list[list[Any]]:
    """The elements that are farthest off, those of failed outputs first."""
    elements = [
        (bool(output["fault"]), _size(ulp if ulp != "nan" else error), [case, output["name"], index, *rest, error, ulp])
        for case, output in outputs
        for index, *rest, error, ulp in output["worst"]
    ]
    elements.sort(key=lambda item: (not item[0], -item[1]))
    return [row for _, _, row in elements[:_WORST]]


def _size(number: Any) -> float:
    value = float(number)
    return math.inf if math.isnan(value) else value


def _histogram(bins: dict[str, int], title: str) -> str:
    """Bars whose heights go by the logarithm of the counts."""
    bottom = _HEIGHT - 24
    parts = drawing.bars(_MARGIN, bottom, _WIDTH - 2 * _MARGIN, bottom - 22, bins)
    return drawing.picture(_WIDTH, _HEIGHT, title, parts)


def _figure(picture: str) -> str:
    return f'<figure>{picture}<button type="button">copy the picture</button></figure>'


def _table(rows: Iterable[Iterable[Any]], head: Optional[Sequence[str]] = None) -> str:
    return _raw_table(([_text(cell) for cell in row] for row in rows), head)


def _raw_table(rows: Iterable[list[str]], head: Optional[Sequence[str]] = None) -> str:
    """A table of cells that are HTML already; it scrolls where it is wider than the screen."""
    lines = [f"<tr>{''.join(f'<th>{cell}</th>' for cell in head)}</tr>"] if head else []
    for row in rows:
        lines.append(f"<tr>{''.join(f'<td{_wide(cell)}>{cell}</td>' for cell in row)}</tr>")
    return f'<div class="scroll"><table>{"".join(lines)}</table></div>'


def _wide(cell: str) -> str:
    return ' class="text"' if len(cell) > 60 else ""


def _text(value: Any) -> str:
    return html.escape(str(value))


__all__ = ["STATES", "page", "state"]
