"""Operators that belong together: forward and gradient, in-place forms, versions.

Names say it, but for the gradients that ``relations.json`` lists and those that ``gradients.json`` computes with.
"""

from __future__ import annotations

import functools
import json
import re
from typing import NamedTuple

from ascend_aclnn import catalog
from ascend_aclnn.catalog import FOLDER, Operator


class NameParts(NamedTuple):
    """``aclnnInplaceAcosGradV2`` in its parts."""

    base: str  # in lower case, for spellings differ: ForeachAcos, ForeachACosInplace
    gradient: bool
    in_place: bool
    version: int


class Relations(NamedTuple):
    """The C names of related operators, each in the order of names."""

    forward: tuple[str, ...]
    gradients: tuple[str, ...]
    in_place: tuple[str, ...]
    out_of_place: tuple[str, ...]
    versions: tuple[str, ...]


def name_parts(name: str) -> NameParts:
    match = re.fullmatch(r"acl(?:nn)?(Inplace)?(.+?)(?:V(\d+))?(Grad|Backward)?(Inplace)?(?:V(\d+))?", name)
    assert match is not None, name
    before, base, version, gradient, behind, last = match.groups()
    return NameParts(base.lower(), bool(gradient), bool(before or behind), int(last or version or 1))


@functools.cache
def _groups() -> dict[str, dict[str, NameParts]]:
    """Base -> the operators that have it."""
    groups: dict[str, dict[str, NameParts]] = {}
    for name in catalog.names():
        parts = name_parts(name)
        groups.setdefault(parts.base, {})[name] = parts
    return groups


@functools.cache
def _forward_of() -> dict[str, tuple[str, ...]]:
    """Gradient operators whose names do not name their forward operators, and these."""
    rows: dict[str, str] = json.loads((FOLDER / "relations.json").read_text(encoding="utf-8"))
    return {gradient: tuple(forward.split()) for gradient, forward in rows.items()}


def relations(operator: Operator) -> Relations:
    """What else there is of an operator."""
    this = name_parts(operator.name)
    group = {name: parts for name, parts in _groups().get(this.base, {}).items() if name != operator.name}
    listed = _forward_of()
    forward = {name for name, parts in group.items() if this.gradient and not parts.gradient}
    gradients = {name for name, parts in group.items() if parts.gradient and not this.gradient}
    forward |= set(listed.get(operator.name, ()))
    gradients |= {gradient for gradient, names in listed.items() if operator.name in names}
    same = {name: parts for name, parts in group.items() if parts.gradient == this.gradient}
    others = {name for name, parts in same.items() if parts.in_place != this.in_place}
    versions = {name for name, parts in same.items() if parts.in_place == this.in_place}
    return Relations(
        tuple(sorted(forward)),
        tuple(sorted(gradients)),
        () if this.in_place else tuple(sorted(others)),
        tuple(sorted(others)) if this.in_place else (),
        tuple(sorted(versions)),
    )


def _forget(operator: Operator) -> None:
    _groups.cache_clear()


catalog.when_registered(_forget)
