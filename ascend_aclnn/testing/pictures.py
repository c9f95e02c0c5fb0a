"""Errors of a result, drawn as text and as SVG: how many are how large, and where."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Optional

import numpy as np
import numpy.typing as npt

from ascend_aclnn.core import drawing

Array = npt.NDArray[Any]
_ROWS, _COLUMNS = 16, 64  # of cells, at most
_BAR = 40  # characters of the longest bar
_SHADES = ".:+*#"  # none, up to a third, up to two thirds, more, all of a cell's elements
_LEGEND = "'.' none wrong, ':' few, '+' many, '*' most, '#' all"


class HeatMap(NamedTuple):
    """Where elements are wrong. All dimensions but the last are the rows; cells are blocks of ``block`` rows and columns.

    ``wrong`` and ``sizes`` have, for each cell, how many elements are wrong and how many there are.
    """

    wrong: Array
    sizes: Array
    block: tuple[int, int]
    shape: tuple[int, ...]

    @property
    def shares(self) -> Array:
        """The share of each cell that is wrong, from 0 to 1."""
        return np.asarray(self.wrong / self.sizes)

    def row_name(self, row: int) -> str:
        """The index of the first element of a row of cells."""
        index = np.unravel_index(row * self.block[0], self.shape[:-1]) if self.shape[:-1] else ()
        return f"({', '.join(map(str, (*map(int, index), 0)))}{',' if len(self.shape) == 1 else ''})"

    @property
    def words(self) -> str:
        """What rows, columns and cells are."""
        rows, columns = self.block
        return f"shape {self.shape}; a cell is {rows} x {columns} elements of the rows and of the last dimension"


def heat_map(wrong: Array) -> HeatMap:
    """Counts the wrong elements of an array of truth values in at most 16 x 64 cells."""
    shape = wrong.shape or (1,)
    grid = wrong.reshape(-1, shape[-1])
    block = (-(-grid.shape[0] // _ROWS), -(-grid.shape[1] // _COLUMNS))
    starts = [np.arange(0, n, size) for n, size in zip(grid.shape, block)]
    counts = np.add.reduceat(grid, starts[1], axis=1, dtype=np.int64)
    counts = np.add.reduceat(counts, starts[0], axis=0)
    lengths = [np.diff([*begin, n]) for begin, n in zip(starts, grid.shape)]
    return HeatMap(counts, np.outer(*lengths), block, shape)


def histogram_lines(counts: Mapping[str, int], unit: str) -> Iterator[str]:
    """A histogram as text; the lengths of the bars go by the logarithm of the counts. Empty bins are left out."""
    if not any(counts.values()):
        return
    yield f"elements by error, at most so many {unit}"
    tallest = math.log1p(max(counts.values()))
    for name, count in counts.items():
        if count:
            yield f"  {name:>8} {count:>12,} {'#' * math.ceil(_BAR * math.log1p(count) / tallest)}"


def heat_map_lines(found: HeatMap) -> Iterator[str]:
    """A heat map as text, a character for each cell."""
    yield f"where: {found.words}; {_LEGEND}"
    shades = np.where(found.wrong == found.sizes, len(_SHADES) - 1, np.ceil(3 * found.shares)).astype(int)
    names = [found.row_name(row) for row in range(len(shades))]
    width = max(map(len, names))
    for name, row in zip(names, shades):
        yield f"  {name:>{width}} {''.join(_SHADES[shade] for shade in row)}"


_WIDTH, _BARS, _MARGIN = 640, 190, 20  # of the picture, in pixels


def svg(
    verdict: str,
    facts: str,
    reasons: Iterable[str],
    counts: Mapping[str, int],
    unit: str,
    where: Optional[HeatMap],
    worst: Sequence[tuple[str, Any, Any, float]],
) -> str:
    """The picture of a comparison: verdict, reasons, histogram, heat map, and a table of the worst elements."""
    color = drawing.GREEN if verdict == "accurate" else drawing.RED
    lines = [row for part in reasons for row in textwrap.wrap(part, 95)]
    parts = [
        drawing.text(_MARGIN, 28, verdict, color=color, bold=True),
        drawing.text(_MARGIN + 90, 28, facts),
        *(drawing.text(_MARGIN, 46 + 16 * i, row, color=drawing.MUTED) for i, row in enumerate(lines)),
    ]
    bottom = 66.0 + 16 * len(lines) + _BARS
    parts += drawing.bars(_MARGIN, bottom, _WIDTH - 2 * _MARGIN, _BARS - 20, counts)
    if counts:
        words = f"elements by error, at most so many {unit}"
        parts.append(drawing.text(_WIDTH / 2, bottom + 34, words, "middle", drawing.MUTED))
    y = bottom + 60
    if where is not None:
        height = max(12 * len(where.wrong), 24)
        parts.append(drawing.text(_MARGIN, y, "where the wrong elements are", bold=True))
        parts += drawing.cells(_MARGIN, y + 10, _WIDTH - 2 * _MARGIN, height, _cells(where))
        parts.append(drawing.text(_WIDTH / 2, y + height + 26, where.words, "middle", drawing.MUTED))
        y += height + 56
    if worst:
        columns = (("worst elements", _MARGIN), ("actual", 220), ("golden", 360), ("error", 500))
        parts += [drawing.text(x, y, head, bold=True) for head, x in columns]
        for index, actual, golden, error in worst:
            y += 18
            row = (index, f"{actual!s:.16}", f"{golden!s:.16}", f"{error:.4g}")
            parts += [drawing.text(x, y, cell) for cell, (_, x) in zip(row, columns)]
    return drawing.picture(_WIDTH, y + 20, f"errors of a result: {verdict}, {facts}", parts)


def _cells(where: HeatMap) -> Iterator[list[tuple[float, str]]]:
    for row, (shares, wrong, sizes) in enumerate(zip(where.shares, where.wrong, where.sizes)):
        name = where.row_name(row)
        yield [
            (float(s), f"row {name}, column {j * where.block[1]}: {w} of {n}")
            for j, (s, w, n) in enumerate(zip(shares, wrong, sizes))
        ]


_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
body {{ margin: 1rem auto; max-width: 60rem; padding: 0 1rem; color: {ink}; font: 15px/1.5 {font}; overflow-wrap: anywhere; }}
table {{ border-collapse: collapse; font-size: .88rem; margin: .6rem 0; }}
th, td {{ border-bottom: 1px solid {line}; padding: .2rem .7rem .2rem 0; text-align: left; vertical-align: top; }}
svg {{ max-width: 100%; height: auto; display: block; }}
</style>
</head>
<body>
{body}
</body>
</html>
"""


def page(title: str, sections: Iterable[str]) -> str:
    """One HTML file that needs nothing else; ``title`` and the sections are HTML already."""
    return _PAGE.format(
        title=title, body="\n".join(sections), ink=drawing.TEXT, line=drawing.LINE, font=drawing.FONT.replace('"', "'")
    )


__all__ = ["HeatMap", "heat_map", "heat_map_lines", "histogram_lines", "page", "svg"]
