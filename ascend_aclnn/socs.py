"""The chips whose rules can be applied: aclrtGetSocName's names and the product each belongs to."""

from __future__ import annotations

import re
from typing import NamedTuple


class Soc(NamedTuple):
    """A chip: the name aclrtGetSocName gives, the short name of CANN's registries, the product line of the documents."""

    name: str
    short: str
    product: str  # "A2", "A3", "310P", "910", "310B", "950", "310"
    title: str


# Pattern of the full name -> short name, product, product line. The first that matches counts: "Ascend910B" without a
# digit is the old 910, "Ascend910B1" is Atlas A2.
_CHIPS = (
    (r"Ascend910B\d.*", "Ascend910B", "A2", "Atlas A2"),
    (r"Ascend910_93\w*", "Ascend910_93", "A3", "Atlas A3"),
    (r"Ascend910(A|B|ProA|ProB|PremiumA)?", "Ascend910", "910", "Atlas training series"),
    (r"Ascend310P\d?", "Ascend310P", "310P", "Atlas inference series"),
    (r"Ascend310B\d?", "Ascend310B", "310B", "Atlas 200I/500 A2"),
    (r"Ascend310", "Ascend310", "310", "Atlas 300I/200"),
    (r"Ascend950\w*", "Ascend950", "950", "Ascend 950"),
)


def soc(name: str) -> Soc:
    """The chip of a full name ("Ascend910B1"); ValueError for an unknown one."""
    for pattern, short, product, title in _CHIPS:
        if re.fullmatch(pattern, name):
            return Soc(name, short, product, title)
    raise ValueError(
        f"unknown SoC {name!r}; known: Ascend910B1, Ascend910_9391, Ascend910A, Ascend310P3, Ascend310B1, ..."
    )
