"""How far an operator is covered beyond its prototype: output rule, checks, NumPy reference."""

from __future__ import annotations

from typing import NamedTuple

from ascend_aclnn import reference, rules
from ascend_aclnn.catalog import Operator


class Coverage(NamedTuple):
    """What this package knows of an operator. Every operator of the catalog can be called on a device."""

    outputs: bool  # every required output is allocated by a rule (or there is none to allocate)
    checks: bool  # phase one is checked by rules of its own, not by its document's tables alone
    reference: bool  # the NumPy backend computes it


def coverage(operator: Operator) -> Coverage:
    rule = rules.find(operator)
    pure = [p for p in operator.parameters if p.direction == "out" and not p.optional]
    return Coverage(
        outputs=not pure or (rule is not None and all(map(rule.infers, pure))),
        checks=rule is not None,
        reference=reference.find(operator) is not None,
    )
