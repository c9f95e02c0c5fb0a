"""Layouts of queries, keys and values: B batch, S sequence, N heads, D width of a head, H = N * D, T = tokens of all."""

from __future__ import annotations

from ascend_aclnn.rules.language import *


def by_tokens(layout: str, *names: str) -> Check:
    """Tensors (batch, tokens, heads, width), (tokens, heads, width) in layout TND, or pages (pages, tokens, heads, width)."""
    packed = f"{layout} is not None and {layout} == 'TND'"
    return require(*(f"len({name}) == (3 if {packed} else 4)" for name in names))
