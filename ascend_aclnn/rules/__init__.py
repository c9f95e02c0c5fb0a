"""What CANN's phase one accepts, and what shape and dtype the outputs have: rules of every operator, by family.

``rules/<family>.py`` ("ops-nn/norm" -> ``norm``) declares its operators with the words of ``rules.language``. An operator
that no module declares gets the documented rule: null pointers, then dtypes, formats and ranks as its catalog entry
states them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional

from ascend_aclnn import families
from ascend_aclnn.catalog import Operator
from ascend_aclnn.dtypes import DataType
from ascend_aclnn.errors import Problem
from ascend_aclnn.rules.language import Call, OutputSpec, Refusal, Rule, declared, documented_rule
from ascend_aclnn.socs import Soc

# Operators some of whose outputs are allocated for the worst case and cut to what the data gave: a reference returns the
# smaller array, and the output tensor's shape is set to it (C: aclGetViewShape after phase two).
DATA_DEPENDENT = frozenset(
    {
        "aclnnMaskedSelect",
        "aclnnNonzero",
        "aclnnNonzeroV2",
        "aclnnUnique",
        "aclnnUnique2",
        "aclnnUniqueConsecutive",
        "aclnnUniqueDim",
        "aclnnNonMaxSuppression",
    }
)


def find(operator: Operator) -> Optional[Rule]:
    """The declared rule of an operator, None where only its document speaks."""
    return families.find(__name__, operator, declared)


def rule_of(operator: Operator) -> Rule:
    """The rule that applies to an operator: the declared one, else the documented one."""
    return find(operator) or documented_rule(operator)


def check(operator: Operator, values: Sequence[Any], soc: Soc) -> Optional[Problem]:
    """What phase one would refuse about the values, None if nothing."""
    try:
        rule_of(operator).check(Call(operator, values, soc))
    except Refusal as refusal:
        return refusal.problem
    return None


def infer(operator: Operator, values: Sequence[Any], soc: Soc) -> dict[str, OutputSpec]:
    """Shape and dtype of each output that the rule can tell, by C name; Refusal where the inputs admit none."""
    return rule_of(operator).infer(Call(operator, values, soc))


__all__ = ["DATA_DEPENDENT", "Call", "DataType", "OutputSpec", "Refusal", "Rule", "check", "find", "infer", "rule_of"]
