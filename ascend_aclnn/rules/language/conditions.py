"""Conditions from text: those that must hold, and those of ``when``."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from ascend_aclnn.rules.language.call import Call, Check, Refusal, Word
from ascend_aclnn.rules.language.explanations import explain
from ascend_aclnn.rules.language.expressions import Absent, Expression
from ascend_aclnn.rules.language.identifiers import condition_check

__all__ = ["require"]


class Conditional:
    """A condition of ``when`` from text: false where it names a null pointer, unless it asks for None."""

    def __init__(self, text: str, word: str = "") -> None:
        self.expression = Expression(text, word)

    def __call__(self, call: Call) -> bool:
        try:
            return bool(self.expression.compute(call))
        except Absent:
            return False


class _Require(Word):
    """Conditions that must hold."""

    def __init__(self, conditions: Sequence[str], why: str, argument: str, word: str) -> None:
        super().__init__()
        self.expressions = [Expression(part) for text in conditions for part in conjuncts(text)]
        self.why = why and f", {why}"
        self.argument, self.word = argument, word
        self.refusals = [Refusal(argument, word, condition=part) for part in self.expressions]

    def __call__(self, call: Call) -> None:
        for part in self.expressions:
            try:
                holds = part.compute(call)
            except Absent:
                continue
            if not holds:
                subject = self.argument or part.subject(call.positions, call.definitions)
                text = explain(call, part.tree, self.argument) + self.why
                check = condition_check(call.operator, call.positions, subject, part.tree, self.word)
                call.refuse(self.argument or part.blamed(call), text, check=check, of=subject)


def require(*conditions: str, why: str = "", argument: str = "", word: str = "") -> Check:
    """Conditions that must hold; one that names an absent argument passes (unless it asks ``is None``).

    ``argument`` is the parameter to blame, by default the first one named; ``why`` is added to the message.
    ``word`` is the last part of the identifier, by default made from the condition.
    """
    return _Require(conditions, why, argument, word)


def conjuncts(text: str) -> list[str]:
    """Conditions joined by ``and`` as separate ones, so that each is explained by itself."""
    if " and " not in text:
        return [text]
    tree = ast.parse(text.strip(), mode="eval").body
    if isinstance(tree, ast.BoolOp) and isinstance(tree.op, ast.And):
        return [ast.unparse(part) for part in tree.values]
    return [text]
