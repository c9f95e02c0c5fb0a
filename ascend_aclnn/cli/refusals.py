"""The checks of an operator's phase one, as ``show`` and the documentation list them."""

from __future__ import annotations

from typing import NamedTuple

from ascend_aclnn import rules
from ascend_aclnn.catalog import Operator
from ascend_aclnn.core.errors import PARAM_INVALID


class ListedRefusal(NamedTuple):
    """One check: what ``AclError.rule`` says of it, CANN's status, and where the check comes from."""

    identifier: str
    status: int
    source: str


def refusals(operator: Operator) -> list[ListedRefusal]:
    """Those of the operator's rule, in CANN's order of checks."""
    by_identifier = rules.rule_of(operator).refusals(operator)
    return [
        ListedRefusal(identifier, refusal.status or PARAM_INVALID, refusal.source or "document")
        for identifier, refusal in by_identifier.items()
    ]
