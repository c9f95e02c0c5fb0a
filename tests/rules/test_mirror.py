"""rules/ and reference/ have the same folders and file names, so that an operator's two sides are found by one name."""

from __future__ import annotations

from pathlib import Path

import ascend_aclnn

PACKAGE = Path(ascend_aclnn.__file__).parent
# Of all families; single operators have their rules from the types' prototypes, and kernels of clients have none.
SHARED = {"rules": ("language/",), "reference": ("declare", "kernels", "unavailable", "single/")}


def modules(side: str) -> set[str]:
    """The modules of families, without those that are private to one side."""
    names = {path.relative_to(PACKAGE / side).with_suffix("").as_posix() for path in (PACKAGE / side).rglob("*.py")}
    return {name for name in names if not name.startswith(SHARED[side]) and not _private(name)}


def _private(name: str) -> bool:
    last = name.rpartition("/")[2]
    return last.startswith("_") and last != "__init__"


def test_rules_and_references_have_the_same_modules() -> None:
    rules, references = modules("rules"), modules("reference")
    assert len(rules & references) > 80
    assert rules == references
