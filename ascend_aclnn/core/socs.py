"""The SoCs whose rules can be applied: aclrtGetSocName's names and the product each belongs to."""

from __future__ import annotations

import functools
import re
import warnings
from typing import NamedTuple, Optional


class Soc(NamedTuple):
    """One SoC: the name aclrtGetSocName gives, the short name of CANN's registries, the product line of the documents."""

    name: str
    short: str
    product: str  # "A2", "A3", "310P", "910", "310B", "950", "310"
    title: str


# Pattern of the full name -> short name, product, product line. The first that matches counts: "Ascend910B" without a
# digit is the old 910, "Ascend910B1" is Atlas A2.
_PATTERNS = (
    (r"Ascend910B\d.*", "Ascend910B", "A2", "Atlas A2"),
    (r"Ascend910_93\w*", "Ascend910_93", "A3", "Atlas A3"),
    (r"Ascend910(A|B|ProA|ProB|PremiumA)?", "Ascend910", "910", "Atlas training series"),
    (r"Ascend310P\d?", "Ascend310P", "310P", "Atlas inference series"),
    (r"Ascend310B\d?", "Ascend310B", "310B", "Atlas 200I/500 A2"),
    (r"Ascend310", "Ascend310", "310", "Atlas 300I/200"),
    (r"Ascend950\w*", "Ascend950", "950", "Ascend 950"),
)


DEFAULT_SOC = "Ascend910B1"

# The full names that aclrtGetSocName is known to give.
KNOWN = (
    *(f"Ascend910{name}" for name in ("B1", "B2", "B2C", "B3", "B4", "B4-1")),
    *(f"Ascend910_93{name}" for name in (61, 62, 71, 72, 81, 82, 91, 92)),
    *(f"Ascend910{name}" for name in ("", "A", "B", "ProA", "ProB", "PremiumA")),
    *(f"Ascend310{name}" for name in ("", "P1", "P3", "P5", "P7", "B1", "B2", "B3", "B4")),
)


@functools.cache
def soc(name: str) -> Soc:
    """The SoC of a full name, by its pattern ("Ascend910B1" is Atlas A2); ValueError where no pattern fits."""
    for pattern, short, product, title in _PATTERNS:
        if re.fullmatch(pattern, name):
            return Soc(name, short, product, title)
    if name in _reported:
        return soc(_reported[name])._replace(name=name)
    raise ValueError(f"unknown SoC {name!r}; known are {', '.join(KNOWN)} and Ascend950 with its variants")


def known_soc(name: str) -> str:
    """Checks a user's SoC name: one of ``KNOWN``, or of the Ascend950 line."""
    if name not in KNOWN and not re.fullmatch(r"Ascend950\w*", name):
        import difflib  # for errors only

        close = difflib.get_close_matches(name, (*KNOWN, "Ascend950"), 1)
        hint = f"did you mean {close[0]}? The " if close else "the "
        raise ValueError(
            f"unknown SoC {name!r}; {hint}known ones are {', '.join(KNOWN)} and Ascend950 with its variants"
        )
    return name


# Beginnings of names that a device may report -> a known name of the same product. "Ascend910_95.." came before Ascend950.
_RELATIVES = (
    ("Ascend910_95", "Ascend950"),
    ("Ascend910_9", "Ascend910_9391"),
    ("Ascend910B", "Ascend910B1"),
    ("Ascend910", "Ascend910A"),
    ("Ascend310P", "Ascend310P3"),
    ("Ascend310B", "Ascend310B1"),
    ("Ascend310", "Ascend310"),
    ("Ascend95", "Ascend950"),
)
_reported: dict[str, str] = {}


def relative_of(name: str) -> Optional[str]:
    """The known SoC whose rules hold for one that a device reports: itself, or one of the same product; None for another."""
    try:
        return known_soc(name)
    except ValueError:
        return next((known_name for start, known_name in _RELATIVES if name.startswith(start)), None)


def accept_reported(name: str) -> None:
    """Makes ``soc`` accept a name that a device reports, with the rules of its product; warns if the name is not known."""
    try:
        soc(name)
    except ValueError:
        relative = _reported[name] = relative_of(name) or DEFAULT_SOC
        title = soc(relative).title
        text = f"the device reports SoC {name!r}, which is not known; errors are explained by the rules of {title}"
        warnings.warn(text, RuntimeWarning, stacklevel=3)
