"""Pictures as SVG, in one style: the colours, the font, and the few shapes that all of them are made of.

A picture has a size of its own in pixels and a viewBox, so it stays sharp and in proportion at any other size.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Mapping, Sequence

TEXT, MUTED, LINE, PAPER = "#1f2328", "#6e7781", "#d0d7de", "#ffffff"
BLUE, GREEN, ORANGE, RED, GREY = "#4c78a8", "#59a14f", "#f28e2b", "#c0392b", "#e1e4e8"
FONT = "ui-sans-serif, system-ui, 'Segoe UI', 'Noto Sans', sans-serif"


def picture(width: float, height: float, title: str, parts: Sequence[str]) -> str:
    """The SVG document of shapes; ``title`` is what a reader of the screen says."""
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}" '
            f'viewBox="0 0 {width:g} {height:g}" role="img" font-family="{FONT}" font-size="12" fill="{TEXT}">',
            f"<title>{html.escape(title)}</title>",
            rectangle(0, 0, width, height, PAPER),
            *parts,
            "</svg>",
        ]
    )


def rectangle(x: float, y: float, width: float, height: float, fill: str, title: str = "") -> str:
    """A filled rectangle; ``title`` shows where the pointer rests on it."""
    shape = f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" fill="{fill}"'
    return f"{shape}><title>{html.escape(title)}</title></rect>" if title else f"{shape}/>"


def line(x1: float, y1: float, x2: float, y2: float, color: str = LINE) -> str:
    """A straight line."""
    return f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" stroke="{color}"/>'


def text(x: float, y: float, content: str, anchor: str = "start", color: str = TEXT, bold: bool = False) -> str:
    """A line of text at its baseline; ``anchor``: start, middle or end."""
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" fill="{color}"{weight}>{html.escape(content)}</text>'


def bars(x: float, bottom: float, width: float, height: float, counts: Mapping[str, int]) -> list[str]:
    """Bars of a histogram of errors; their heights go by the logarithm of the counts. Names stand below ``bottom``."""
    step = width / max(len(counts), 1)
    tallest = math.log1p(max(counts.values(), default=0)) or 1.0
    parts = []
    for i, (name, count) in enumerate(counts.items()):
        left, tall = x + i * step, height * math.log1p(count) / tallest
        fill = RED if name == "NaN, inf" else GREEN if name == "0" else BLUE
        parts.append(
            rectangle(left + 3, bottom - tall, max(step - 6, 1), tall, fill, f"{count} elements, error {name}")
        )
        parts.append(text(left + step / 2, bottom - tall - 5, str(count) if count else "", "middle"))
        parts.append(text(left + step / 2, bottom + 16, name, "middle", MUTED))
    return [*parts, line(x, bottom, x + width, bottom)]


def cells(x: float, y: float, width: float, height: float, rows: Iterable[Iterable[tuple[float, str]]]) -> list[str]:
    """A grid whose cells have a share from 0 to 1, drawn from grey to red, and a title; those of share 0 are left grey."""
    listed = [list(row) for row in rows]
    tall, wide = height / max(len(listed), 1), width / max(map(len, listed), default=1)
    parts = [rectangle(x, y, width, height, GREY)]
    for i, row in enumerate(listed):
        for j, (share, title) in enumerate(row):
            if share:
                parts.append(rectangle(x + j * wide, y + i * tall, wide, tall, _between(share), title))
    return parts


def _between(share: float) -> str:
    """The colour at a share of the way from a light red to RED: a cell with one wrong element must be seen."""
    light, full = (0xF4, 0xB6, 0xA9), tuple(int(RED[at : at + 2], 16) for at in (1, 3, 5))
    return "#" + "".join(f"{round(a + (b - a) * share):02x}" for a, b in zip(light, full))


__all__ = [
    "BLUE",
    "GREEN",
    "GREY",
    "LINE",
    "MUTED",
    "ORANGE",
    "PAPER",
    "RED",
    "TEXT",
    "bars",
    "cells",
    "line",
    "picture",
    "rectangle",
    "text",
]
