"""Words that group others: under a condition, on some products, with another status.

What stands in a group keeps its meaning: checks are made where the group applies, and outputs are inferred
there too. ``when`` and ``on_products`` hold for both; ``tiling`` and ``unless_empty`` are about checks alone, outputs are
inferred in any case.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Sequence
from typing import Any, Callable, Optional, Union

from ascend_aclnn.catalog import Operator
from ascend_aclnn.core.errors import RUNTIME_ERROR, TILING_ERROR, RuleViolation
from ascend_aclnn.rules.language.call import Call, Check, Condition, Word, make_checks, refusals_of, refuses, settled
from ascend_aclnn.rules.language.conditions import Conditional
from ascend_aclnn.rules.language.expressions import Expression
from ascend_aclnn.rules.language.identifiers import slug

__all__ = [
    "documented_products",
    "on_operators",
    "on_products",
    "only_products",
    "tiling",
    "unless_empty",
    "when",
    "with_status",
]


class Group(Word):
    """Words that apply together; subclasses say when their checks are made."""

    def __init__(self, words: Sequence[Check], where: Optional[Condition] = None) -> None:
        super().__init__()
        self.words = [word for word in words if not isinstance(word, Word) or word.checks]
        self.inferring = [word for word in words if isinstance(word, Word) and not word.checks]
        self.checks = bool(self.words)
        for word in words:
            if isinstance(word, Word):
                _join(self.shapes, word.shapes, where)
                _join(self.dtypes, word.dtypes, where)
                _join(self.definitions, word.definitions, where)
                _join(self.conditional, word.conditional, where)
                self.expressions += word.expressions
        self.refusals = [refusal for word in (*self.words, *self.inferring) for refusal in refusals_of(word)]

    def __call__(self, call: Call) -> None:
        make_checks(self.words, call)

    def settled(self, operator: Operator, product: str) -> Sequence[Check]:
        return settled(self.words, operator, product)

    def _of(self, operator: Operator, product: str) -> Sequence[Check]:
        """The group itself, with what is left of its words: for subclasses, whose condition is still to be asked."""
        group = copy.copy(self)
        group.words = settled(self.words, operator, product)
        return (group,)


def _join(into: dict[str, list[Any]], inferences: dict[str, list[Any]], where: Optional[Condition]) -> None:
    for name, rules in inferences.items():
        into.setdefault(name, []).extend((_both(where, inner), rule) for inner, rule in rules)


def _both(outer: Optional[Condition], inner: Optional[Condition]) -> Optional[Condition]:
    if outer is None or inner is None:
        return outer or inner
    return lambda call: outer(call) and inner(call)


class _When(Group):
    def __init__(
        self,
        words: Sequence[Check],
        where: Condition,
        place: str = "",
        applies: Optional[Callable[[Operator], bool]] = None,
    ) -> None:
        super().__init__(words, where)
        self.condition = where
        self.place: Any = where.expression if isinstance(where, Conditional) else place
        if isinstance(where, Conditional):
            self.expressions.append(where.expression)
        self.refusals = [
            refusal._replace(
                places=(*refusal.places, self.place) if self.place else refusal.places,
                applies=applies if refusal.applies is None else refusal.applies,
            )
            for refusal in self.refusals
        ]

    def __call__(self, call: Call) -> None:
        if not self.condition(call):
            return
        try:
            super().__call__(call)
        except RuleViolation as violation:
            if violation.check and self.place:
                violation.check += f"/{place_word(self.place)}"
            raise

    def settled(self, operator: Operator, product: str) -> Sequence[Check]:
        return self._of(operator, product)


class _On(_When):
    """A condition on the operator and the product alone, which is settled before any call."""

    def __init__(
        self,
        words: Sequence[Check],
        holds: Callable[[Operator, str], bool],
        place: str = "",
        applies: Optional[Callable[[Operator], bool]] = None,
    ) -> None:
        super().__init__(words, lambda call: holds(call.operator, call.product), place, applies)
        self.holds = holds

    def settled(self, operator: Operator, product: str) -> Sequence[Check]:
        if not self.holds(operator, product):
            return ()
        return self._of(operator, product) if self.place else settled(self.words, operator, product)


class _Unless(Group):
    def __init__(self, words: Sequence[Check], where: Condition) -> None:
        super().__init__(words)
        self.condition = where

    def __call__(self, call: Call) -> None:
        if not self.condition(call):
            super().__call__(call)

    def settled(self, operator: Operator, product: str) -> Sequence[Check]:
        return self._of(operator, product)


class _WithStatus(Group):
    def __init__(self, words: Sequence[Check], status: int) -> None:
        super().__init__(words)
        self.status = status
        source = "tiling" if status == TILING_ERROR else ""
        self.refusals = [r._replace(status=r.status or status, source=r.source or source) for r in self.refusals]

    def __call__(self, call: Call) -> None:
        before, call.status = call.status, self.status
        try:
            super().__call__(call)
        finally:
            call.status = before

    def settled(self, operator: Operator, product: str) -> Sequence[Check]:
        return self._of(operator, product)


def when(where: Union[str, Condition], *words: Check, word: str = "") -> Check:
    """What applies under a condition only, to checks as to outputs; the condition is an expression or a function.

    ``word`` stands for the condition in the identifiers of the checks; an expression stands for itself by default.
    """
    condition = Conditional(where, word) if isinstance(where, str) else where
    return _When(words, condition, word)


def place_word(place: Union[str, Expression]) -> str:
    """What a group adds to the identifiers of its checks."""
    if isinstance(place, str) or place.word:
        return place if isinstance(place, str) else place.word
    products = re.fullmatch(r"product (==|!=) '(\w+)'", place.text)
    if products is not None:
        return f"{'' if products[1] == '==' else 'not-'}on-{products[2]}"
    return f"when-{slug(place.tree, 24, 2)}"


def on_products(products: str, *words: Check) -> Check:
    """What applies on some products only ("A2 A3"), to checks as to outputs."""
    chosen = frozenset(products.split())
    return _On(words, lambda _, product: product in chosen, "on-" + "-".join(products.split()))


def on_operators(names: str, *words: Check) -> Check:
    """What applies to some of the operators that share a rule, to checks as to outputs: C names, one may end with *."""
    chosen = frozenset(names.split())
    beginning = tuple(name[:-1] for name in chosen if name.endswith("*"))

    def applies(operator: Operator) -> bool:
        return operator.name in chosen or (bool(beginning) and operator.name.startswith(beginning))

    return _On(words, lambda operator, _: applies(operator), applies=applies)


def unless_empty(names: str, *words: Check) -> Check:
    """Checks that CANN skips, with success, where one of the named tensors is empty."""
    keys = names.split()
    return _Unless(words, lambda call: any(call.is_empty(key) for key in keys))


def tiling(*words: Check) -> Check:
    """Checks that CANN makes when it tiles the kernel: status 561002.

    Skipped where there is no kernel: every output is empty, or an input without which nothing is computed (a trait).
    """
    return _Unless((_WithStatus(words, TILING_ERROR),), _without_kernel)


def _without_kernel(call: Call) -> bool:
    if any(call.is_empty(name) for name in call.operator.idle_if_empty):
        return True
    outputs = [t for p in call.operator.outputs for t in call.tensors(p.name)]
    return bool(outputs) and all(t.size == 0 for t in outputs)


def with_status(status: int, *words: Check) -> Check:
    """Checks that fail with another status than 161002."""
    return _WithStatus(words, status)


def only_products(products: str) -> Check:
    """The operator exists on some products only."""
    chosen = products.split()

    @refuses("product", "")
    def check(call: Call) -> None:
        if call.product not in chosen:
            call.refuse(None, f"the operator is not supported on {call.soc.name}; it is on {products}", check="product")

    return check


@refuses("product", "", status=RUNTIME_ERROR)
def documented_products(call: Call) -> None:
    """The operator's document names the product of the SoC; elsewhere the runtime finds no kernel (361001)."""
    products = call.operator.products
    if products and call.product not in products:
        text = f"the operator is not supported on {call.soc.name}; it is on {' '.join(products)}"
        call.refuse(None, text, RUNTIME_ERROR, check="product")
