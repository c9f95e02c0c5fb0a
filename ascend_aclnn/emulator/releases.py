"""The CANN releases that can be emulated, and which functions, operators and libraries each of them has.

A release is one of the whole CANN, "9.1.0", or one of the toolkit and one of the operators: "toolkit=9.1.0,ops=9.1.1".
"""

from __future__ import annotations

import os
import re

from ascend_aclnn.catalog import life

DEFAULT = life.OLDEST
KNOWN = life.KNOWN

# Functions that clients are linked against, so that they cannot be loaded without: every release has them, and they refuse.
LINKED = ("aclrtBinaryLoadFromData",)  # torch_npu 2.13

_PART = re.compile(r"(toolkit|ops)=([^,=]+)")


def parts(release: str) -> tuple[str, str]:
    """The releases of the toolkit and of the operators. ValueError for a text that is neither one nor such a pair."""
    if "=" not in release:
        return release, release
    pair = dict(_PART.findall(release))
    if set(pair) != {"toolkit", "ops"} or re.fullmatch(rf"{_PART.pattern},{_PART.pattern}", release) is None:
        raise ValueError(f"CANN release {release!r} is not of the form 9.1.0 or toolkit=9.1.0,ops=9.1.1")
    return pair["toolkit"], pair["ops"]


def toolkit(release: str) -> str:
    """The release of the runtime and of everything but the operators."""
    return parts(release)[0]


def operators(release: str) -> str:
    """The release of the operators."""
    return parts(release)[1]


def number(release: str) -> tuple[int, int]:
    """What the functions of releases are compared by: 8.1 of 8.1.RC1, 9.2 of 9.2.0-beta.1. ValueError for other forms."""
    return life.order(toolkit(release))[:2]


def chosen(release: str | None) -> str:
    """A release as given, else ``ASCEND_EMULATOR_CANN``, else the default."""
    name = release or os.environ.get("ASCEND_EMULATOR_CANN") or DEFAULT
    pair = parts(name)
    for part in pair:
        if life.order(part)[:2] < life.order(DEFAULT)[:2]:
            raise ValueError(f"CANN release {part} is older than {DEFAULT}, the oldest that can be emulated")
    if life.supported(*pair) is None:
        known = "; ".join(f"{ops}: {' '.join(toolkits)}" for ops, toolkits, _ in life.pairs())
        raise ValueError(
            f"no release notes say that operators {pair[1]} go with toolkit {pair[0]}; operators and the toolkits that go "
            f"with them are {known}, and those of the same release"
        )
    return pair[0] if pair[0] == pair[1] else f"toolkit={pair[0]},ops={pair[1]}"


def has(release: str, since: str) -> bool:
    """Whether a release's runtime has what another one brought; "newer" is later than all that are known."""
    return number(release) >= number(KNOWN[-1] if since == "newer" else since)


def absent(release: str, since: dict[str, str]) -> frozenset[str]:
    """The functions that a release does not have, of the releases that each of them came with: not yet, or no more."""
    runtime = toolkit(release)
    return frozenset(
        name
        for name, came in since.items()
        if (name not in LINKED and not has(release, came)) or life.of(name).absent_from(runtime)
    )


def lacks_operator(release: str, name: str) -> bool:
    """Whether a release has an operator no more. What came later is there all the same: earlier ones are emulated with it."""
    return life.of(name).absent_from(operators(release))


def lacks_library(release: str, name: str) -> bool:
    """Whether a release has a library's name no more."""
    package = operators(release) if name.startswith("libopapi") else toolkit(release)
    return life.of(name).absent_from(package)
