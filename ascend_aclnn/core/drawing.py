"""Pictures as SVG, in one style: the colours, the font, and the few shapes that all of them are made of.

A picture has a size of its own in pixels and a viewBox, so it stays sharp and in proportion at any other size.
"""

from __future__ import annotations

import html
from collections.abc import Sequence

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
    "line",
    "picture",
    "rectangle",
    "text",
]
