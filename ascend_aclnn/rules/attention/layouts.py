"""Layouts of queries, keys and values: B batch, S sequence, N heads, D width of a head, H = N * D, T = tokens of all."""

from __future__ import annotations

from typing import NamedTuple

from ascend_aclnn.rules.language import *

LAYOUTS = ("BSH", "SBH", "BSND", "BNSD", "TND")


class Axes(NamedTuple):
    """The sizes of one attention; ``batch`` and the sequences are 0 where they lie in T."""

    layout: str
    batch: int
    query_heads: int
    key_heads: int
    queries: int
    keys: int
    width: int
    key_width: int
    value_width: int


def named(call: Call, name: str, layout: str) -> dict[str, int]:
    """The sizes of a tensor by the letters of its layout; RuleViolation where its rank does not fit."""
    sizes = call.shape(name)
    fits = len(sizes) == len(layout)
    call.require(fits, name, f"has shape {sizes}; in layout {layout} its rank is {len(layout)}")
    return dict(zip(layout, sizes))


def axes(call: Call, heads: int, layout: str, names: tuple[str, str, str] = ("query", "key", "value")) -> Axes:
    """The sizes, by a layout; RuleViolation where a rank does not fit it."""
    layout = layout.upper()
    call.require(layout in LAYOUTS, "inputLayout", f"is {layout!r}; it must be one of {', '.join(LAYOUTS)}")
    q, k, v = (named(call, name, layout) for name in names)
    width = q["D"] if "D" in q else q["H"] // heads if heads else 0
    if "N" in k:
        key_heads, key_width, value_width = k["N"], k["D"], v["D"]
    else:
        key_heads = k["H"] // width if width else 0
        key_width, value_width = (k["H"] // key_heads, v["H"] // key_heads) if key_heads else (width, width)
    return Axes(
        layout,
        q.get("B", 0),
        q.get("N", heads),
        key_heads,
        q.get("S", q.get("T", 0)),
        k.get("S", k.get("T", 0)),
        width,
        key_width,
        value_width,
    )


def attended(call: Call, found: Axes, query: str = "query") -> Shape:
    """The shape of the result: the query's, with heads as wide as the values'."""
    sizes = call.shape(query)
    if "D" in found.layout:
        return (*sizes[:-1], found.value_width)
    return (*sizes[:-1], found.query_heads * found.value_width)


def statistics(found: Axes) -> Shape:
    """One maximum (or sum) for each row of scores, eight times."""
    if found.layout == "TND":
        return found.queries, found.query_heads, 8
    return found.batch, found.query_heads, found.queries, 8


def by_tokens(layout: str, *names: str) -> Check:
    """Tensors (batch, tokens, heads, width), (tokens, heads, width) in layout TND, or pages (pages, tokens, heads, width)."""

    def check(call: Call) -> None:
        axes_ = 3 if call.get(layout) == "TND" else 4
        rank(axes_, axes_, *names)(call)

    return check
