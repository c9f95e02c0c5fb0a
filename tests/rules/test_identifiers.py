"""Identifiers of refusals: each check of each rule has one, and every refusal says which check it was."""

from __future__ import annotations

import pickle
import re

import numpy as np
import pytest

from ascend_aclnn import AclError, catalog, ops, rules
from ascend_aclnn.backends.interface import Backend
from ascend_aclnn.catalog import Operator
from ascend_aclnn.rules.language.call import GUARDS, Refusal

OPERATORS = [catalog.get(name) for name in catalog.names()]
KINDS = frozenset(
    "absent axis dtype empty format layout length null product range rank shape value".split()  # noqa: SIM905
)
LONGEST = 80  # characters behind the operator's name


def test_errors_tell_the_check(each_backend: Backend) -> None:
    with pytest.raises(AclError) as caught:
        ops.mm(np.ones((2, 3), np.float32), np.ones((4, 5), np.float32))
    assert caught.value.rule == "aclnnMm/mat2/shape"
    assert pickle.loads(pickle.dumps(caught.value)).rule == caught.value.rule
    streams, weights = np.ones((2, 4, 128), np.float16), np.ones((2, 4), np.float32)
    with pytest.raises(AclError) as caught:  # no output can be inferred
        ops.mhc_post_backward(streams, streams, np.ones((2, 5, 5), np.float32), streams[:, 0], weights)
    assert (caught.value.argument, caught.value.rule) == ("h_res", "aclnnMhcPostBackward/hRes/shape")
    assert AclError(161002, "aclnnMmGetWorkspaceSize").rule is None


@pytest.mark.parametrize("family", sorted({operator.family for operator in OPERATORS}))
def test_identifiers_are_well_formed(family: str) -> None:
    for operator in (operator for operator in OPERATORS if operator.family == family):
        names = {parameter.name for parameter in operator.parameters}
        for identifier in rules.rule_of(operator).refusals(operator):
            name, *parts = identifier.split("/")
            kind = parts[1] if parts[0] in names else parts[0]
            assert name == operator.name and kind in KINDS, identifier
            assert parts[0] in names or kind == "product", identifier
            assert re.fullmatch(r"[\w/-]+", identifier), identifier
            assert len("/".join(parts)) <= LONGEST, f"{identifier}: give a condition a word"


def collisions(operator: Operator) -> list[str]:
    """Different conditions with one identifier."""
    seen: dict[str, Refusal] = {}
    found = []
    for identifier, refusal in rules.rule_of(operator).listed_refusals(operator):
        first = seen.setdefault(identifier, refusal)
        texts = {r.condition.text if r.condition is not None else "" for r in (first, refusal)}
        if len(texts) > 1:
            found.append(f"{identifier}: {' | '.join(sorted(texts))}")
    return found


def test_different_conditions_have_different_identifiers() -> None:
    """Where this fails, give one of the conditions a ``word``. Data types, ranks and the like of one argument are one check."""
    assert not [text for operator in OPERATORS for text in collisions(operator)]


def test_what_an_expression_needs_is_no_check_of_a_rule() -> None:
    assert not any(
        identifier.split("/")[-1] in GUARDS for o in OPERATORS for identifier in rules.rule_of(o).refusals(o)
    )
