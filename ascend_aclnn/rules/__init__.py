"""What CANN's phase one accepts, and what shape and dtype the outputs have: rules of every operator, by family.

``rules/<family>.py`` ("ops-nn/norm" -> ``norm``) declares its operators with the words of ``rules.language``. An operator
that no module declares gets the documented rule: null pointers, then dtypes, formats and ranks as its catalog entry
states them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional

from ascend_aclnn import catalog, registry
from ascend_aclnn.catalog import Operator
from ascend_aclnn.core.dtypes import DataType
from ascend_aclnn.core.errors import AclError, RuleViolation
from ascend_aclnn.core.socs import Soc
from ascend_aclnn.rules.language import *
from ascend_aclnn.rules.language.groups import Group


def find(operator: Operator) -> Optional[Rule]:
    """The declared rule of an operator, None where only its document speaks."""
    return registry.find(__name__, operator, RULES)


def words_of(name: str) -> Group:
    """What the rule of an operator of the catalog checks and infers, as one word for the rule of one that does the same and more.

    ValueError where no rule is declared for it.
    """
    declared = find(catalog.get(name))
    if declared is None:
        raise ValueError(f"{name} has no rule")
    return declared.words


def rule_of(operator: Operator) -> Rule:
    """The rule that applies to an operator: the declared one, else the documented one."""
    return find(operator) or documented_rule(operator)


def check(operator: Operator, values: Sequence[Any], soc: Soc) -> Optional[RuleViolation]:
    """What phase one would refuse about the values, None if nothing."""
    try:
        rule_of(operator).check(Call(operator, values, soc))
    except RuleViolation as violation:
        return violation
    return None


def check_inputs(
    operator: Operator, values: Sequence[Any], soc: Soc, refused: Optional[RuleViolation] = None
) -> Optional[RuleViolation]:
    """As ``check`` for a call that leaves outputs to be inferred: these are None, and not what is refused.

    ``refused`` is a violation about an output that was inferred: where nothing else is wrong with the inputs, the answer is
    the one from which that output was inferred.
    """
    rule = rule_of(operator)
    try:
        rule.check_inputs(Call(operator, values, soc))
    except RuleViolation as violation:
        return violation
    source = None if refused is None else rule.inferred_from(Call(operator, values, soc), refused)
    if refused is None or source is None:
        return refused
    detail = f"{source.python_name} does not fit: the inferred output {refused.detail}"
    return RuleViolation(refused.status, source.name, detail, check=refused.check)


def infer(operator: Operator, values: Sequence[Any], soc: Soc) -> dict[str, OutputSpecs]:
    """Shape and dtype of each output that the rule can infer, by C name; RuleViolation where the inputs admit none."""
    return rule_of(operator).infer(Call(operator, values, soc))


def error(operator: Operator, violation: RuleViolation) -> AclError:
    """The error of a phase one that refuses a call."""
    position = operator.positions.get(violation.argument or "")
    argument = None if position is None else operator.parameters[position].python_name
    detail = violation.detail
    if _is_numpys_default(violation):
        detail += " (NumPy makes float64 unless a dtype is given: .astype(np.float32))"
    rule = identifier(operator, violation)
    return AclError(violation.status, operator.phase_one, detail, operator=operator.name, argument=argument, rule=rule)


def identifier(operator: Operator, violation: RuleViolation) -> Optional[str]:
    """That of the check that refused: operator, argument, kind of check, and words where several checks share these."""
    return f"{operator.name}/{violation.check}" if violation.check else None


def _is_numpys_default(violation: RuleViolation) -> bool:
    """Whether a tensor is DOUBLE that may be FLOAT."""
    _, values = violation.cause or ("", {})
    allowed = values.get("allowed", ())
    members = allowed if isinstance(allowed, (list, tuple)) else (allowed,)
    return values.get("came") is DataType.DOUBLE and DataType.FLOAT in members


__all__ = ["Call", "OutputSpecs", "Rule", "check", "check_inputs", "error", "find", "identifier", "infer", "rule_of"]
