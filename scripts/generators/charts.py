"""Charts of speed for the site, drawn from the tables of docs/results. Their colours come from style.css, light or dark."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Optional

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "docs" / "results"
COLOURS = ("first", "second", "third")
WIDTH, NAMES, BAR = 640, 230, 11
LETTER = 7.2  # pixels that a letter of a row takes, on average, in wide fonts


class Chart(NamedTuple):
    """Which columns of a page's table are drawn, and their unit. Bars, or with ``bins`` how many rows fall into each."""

    columns: tuple[str, ...]
    unit: str
    bins: tuple[float, ...] = ()
    logarithmic: bool = False
    pair: tuple[str, str] = ("", "")  # a cell "a / b" of the one column is two bars with these names


CHARTS = {
    "references": Chart(("NumPy ms", "torch ms"), "ms"),
    "sweep": Chart(("fp32", "bf16", "fp16"), "our time / torch's time: how many operators", (0.5, 1, 1.5, 2, 3, 5)),
    "sweep-without-helper": Chart(
        ("fp32", "bf16", "fp16"), "our time / torch's time: how many operators", (0.5, 1, 1.5, 2, 3, 5)
    ),
    "conversions": Chart(("NumPy", "AVX2", "AVX-512"), "ns for one element"),
    "small-calls": Chart(("ours", "torch"), "microseconds"),
    "host-cost": Chart(("Python alone", "with the helper"), "microseconds"),
    "torch-tensors": Chart(("Tensors", "torch tensors", "torch_npu's own"), "microseconds"),
    "collectives": Chart(
        ("all_reduce, 2 ranks",),
        "ms, all_reduce of 2 ranks, logarithmic",
        logarithmic=True,
        pair=("emulated HCCL", "gloo"),
    ),
    "import": Chart(("ms",), "ms"),
}


def tables(text: str) -> list[list[list[str]]]:
    """The tables of a page: rows of cells, the head first."""
    found: list[list[list[str]]] = []
    before = ""
    for line in text.splitlines():
        if line.startswith("|"):
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            if not before.startswith("|"):
                found.append([])
            if not re.fullmatch(r"[|: -]+", line) or not any(set(cell) <= set("-: ") for cell in cells):
                found[-1].append(cells)
        before = line
    return found


def number(cell: str) -> Optional[float]:
    """The number in a cell; of "2 to 3" the larger one."""
    match = re.fullmatch(r"(?:[\d.]+ to )?([\d.]+)(?: \(.*\))?", cell)
    return float(match[1]) if match else None


def series(name: str, chart: Chart) -> tuple[list[str], list[tuple[str, list[Optional[float]]]]]:
    """The names of the bars, and of each row of the table its own name and their values."""
    text = (RESULTS / f"{name}.md").read_text(encoding="utf-8")
    table = next(table for table in tables(text) if set(chart.columns) <= set(table[0]) and len(table) > 3)
    places = [table[0].index(column) for column in chart.columns]
    rows = []
    for cells in table[1:]:
        values = [cells[place] for place in places]
        if chart.pair[0]:
            values = [part.strip() for part in values[0].split("/")]
        rows.append((re.sub(r"[`]|&emsp;", "", cells[0]), [number(value) for value in values]))
    return list(chart.pair if chart.pair[0] else chart.columns), rows


def text_element(x: float, y: float, text: str, more: str = "") -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}" font-size="11" {more}>{html.escape(text)}</text>'


def legend(names: Sequence[str]) -> list[str]:
    lines, x = [], NAMES
    for name, colour in zip(names, COLOURS):
        lines.append(f'<rect class="{colour}" x="{x}" y="6" width="11" height="11"/>')
        lines.append(text_element(x + 16, 16, name))
        x += 34 + int(6.4 * len(name))
    return lines


def svg(height: int, title: str, lines: Sequence[str]) -> str:
    head = f'<svg class="drawn chart" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img"'
    return "".join([f'{head} aria-label="{html.escape(title)}">', *lines, "</svg>"])


def bars(names: Sequence[str], rows: Sequence[tuple[str, Sequence[Optional[float]]]], chart: Chart) -> str:
    """Horizontal bars, grouped by row."""
    numbers = [value for _, values in rows for value in values if value is not None]
    labels = [name if len(name) < 40 else f"{name[:38]}…" for name, _ in rows]
    start = max(NAMES, round(LETTER * max(map(len, labels))) + 8)  # where bars begin
    room = WIDTH - start - 60

    def length(value: float) -> float:
        if chart.logarithmic:
            low = math.log10(min(numbers)) - 0.3
            return room * (math.log10(value) - low) / (math.log10(max(numbers)) - low)
        return room * value / max(numbers)

    lines, y = legend(names) if len(names) > 1 else [], 30
    for label, (_, values) in zip(labels, rows):
        shown = [(value, colour) for value, colour in zip(values, COLOURS) if value is not None]
        if not shown:
            continue
        middle = y + BAR * len(shown) / 2 + 4
        lines.append(text_element(start - 8, middle, label, 'text-anchor="end"'))
        for value, colour in shown:
            lines.append(
                f'<rect class="{colour}" x="{start}" y="{y}" width="{max(1, length(value)):.1f}" height="{BAR - 2}"/>'
            )
            lines.append(text_element(start + length(value) + 5, y + BAR - 3, f"{value:g}", 'class="light"'))
            y += BAR
        y += 7
    lines.append(text_element(start, y + 10, chart.unit, 'class="light"'))
    return svg(y + 18, f"{', '.join(names)}: {chart.unit}", lines)


def histogram(names: Sequence[str], rows: Sequence[tuple[str, Sequence[Optional[float]]]], chart: Chart) -> str:
    """How many rows of each column fall between two edges, as upright bars."""
    edges = [0.0, *chart.bins, math.inf]
    counts = [
        [sum(1 for _, values in rows if (v := values[i]) is not None and low <= v < high) for i in range(len(names))]
        for low, high in zip(edges, edges[1:])
    ]
    most, top, bottom = max(map(max, counts)), 34, 190
    step = (WIDTH - 40) / len(counts)
    lines = legend(names)
    for k, some in enumerate(counts):
        left = 20 + k * step
        for i, (count, colour) in enumerate(zip(some, COLOURS)):
            height = (bottom - top) * count / most
            x = left + i * (step - 16) / 3
            width = (step - 16) / 3 - 2
            place = f'x="{x:.1f}" y="{bottom - height:.1f}"'
            lines.append(f'<rect class="{colour}" {place} width="{width:.1f}" height="{height:.1f}"/>')
            lines.append(
                text_element(x + width / 2, bottom - height - 3, str(count), 'text-anchor="middle" class="light"')
            )
        low, high = edges[k], edges[k + 1]
        words = f"below {high:g}" if not low else f"{low:g} and more" if math.isinf(high) else f"{low:g} to {high:g}"
        lines.append(text_element(left + (step - 16) / 2, bottom + 16, words, 'text-anchor="middle"'))
    lines.append(f'<path class="axis" d="M 16 {bottom} H {WIDTH - 16}"/>')
    lines.append(text_element(20, bottom + 36, chart.unit, 'class="light"'))
    return svg(bottom + 44, chart.unit, lines)


def chart(name: str) -> str:
    """The chart of a page of docs/results, as SVG in one line; "" where it has none."""
    if name not in CHARTS:
        return ""
    names, rows = series(name, CHARTS[name])
    return (histogram if CHARTS[name].bins else bars)(names, rows, CHARTS[name])


def with_chart(source: str, text: str) -> str:
    """A page of the repository with its chart: before the first table of figures."""
    path = Path(source)
    if path.name == "performance.md":
        return text.replace("\n## How to make it faster", f"\n{chart('sweep')}\n\n## How to make it faster")
    drawn = chart(path.stem) if path.parent.name == "results" else ""
    if not drawn:
        return text
    place = re.search(r"\n\n(?=\| [^|])", text[text.index("| software") :])
    assert place is not None, source
    start = text.index("| software") + place.start()
    return f"{text[:start]}\n\n{drawn}{text[start:]}"
