"""rule(...): declares what phase one checks of an operator, and what is known of its outputs."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Optional, Union

from ascend_aclnn import registry
from ascend_aclnn.catalog import Kind, Operator, Parameter
from ascend_aclnn.core.dtypes import DataType
from ascend_aclnn.core.errors import PARAM_NULLPTR, TILING_ERROR, RuleViolation
from ascend_aclnn.core.spec import TensorSpec
from ascend_aclnn.rules.language.call import Call, Check, Refusal, ShapeRule, Shapes, make_checks, refuses
from ascend_aclnn.rules.language.conditions import conjuncts
from ascend_aclnn.rules.language.data_types import documented_dtypes, documents_dtypes
from ascend_aclnn.rules.language.expressions import Absent, Expression, expression
from ascend_aclnn.rules.language.groups import Group, place_word
from ascend_aclnn.rules.language.identifiers import condition_check
from ascend_aclnn.rules.language.layout import rank

__all__ = ["RULES", "OutputSpecs", "Rule", "documented_rank", "documented_rule", "rule"]

OutputSpecs = Union[TensorSpec, list[TensorSpec], None]  # what is allocated: a tensor, a list, a null pointer


_UNKNOWN = object()


class _Recorded(list[Any]):
    """The values of a call, and the positions of those that were read, in order."""

    def __init__(self, values: Sequence[Any]) -> None:
        super().__init__(values)
        self.positions: list[int] = []

    def __getitem__(self, position: Any) -> Any:
        self.positions.append(position)
        return super().__getitem__(position)


class Rule:
    """Checks in CANN's order, and what is known of the outputs.

    Where several words infer one output, the last one whose condition holds is believed; where none holds, an output
    that may be a null pointer is one.
    """

    def __init__(
        self,
        name: str,
        words: Sequence[Check],
        nullable: str = "",
        required: str = "",
        null_status: int = PARAM_NULLPTR,
        versions: Sequence[str] = (),
        aliases: Mapping[str, str] = MappingProxyType({}),
        empty_lists: str = "",
        source: str = "",
        replaces: bool = False,
    ) -> None:
        self.name = name
        self.replaces = replaces
        self.source = source
        self.versions = tuple(versions) or (name,)
        self.null_status = null_status
        group = Group(words)
        self.words = group
        self.shapes = {name: inferences[::-1] for name, inferences in group.shapes.items()}
        self.dtypes = {name: inferences[::-1] for name, inferences in group.dtypes.items()}
        self.empty_lists = empty_lists.split()
        self.aliases = {name: others.split() for name, others in aliases.items()}
        self._positions: dict[Operator, dict[str, int]] = {}
        self._checks: dict[tuple[Operator, str], Sequence[Check]] = {}  # the words' that are left of them
        self._needed: dict[tuple[Operator, bool], list[tuple[int, str]]] = {}
        self._refusals: dict[Operator, dict[str, Refusal]] = {}
        self._known_as: dict[str, list[str]] = {}
        # An alias is None in a version that has none of its parameters.
        nothing: list[Any] = [(None, expression("None"))]
        self.definitions = {**dict.fromkeys(self.aliases, nothing), **group.definitions}
        self.conditional = group.conditional
        self.expressions = group.expressions
        self.nullable = frozenset(nullable.split())
        self.required = frozenset(required.split())

    def check(self, call: Call) -> None:
        """RuleViolation at the first thing that CANN's phase one would refuse."""
        self._begin(call)
        self._check_null(call, outputs=True)
        self._check_words(call)

    def check_inputs(self, call: Call) -> None:
        """As ``check``, for a call whose outputs are still to be inferred where they are None."""
        self._begin(call)
        call.not_passed = frozenset(
            p.name for p in call.operator.parameters if p.direction == "out" and call[p.name] is None
        )
        self._check_null(call, outputs=False)
        self._check_words(call)

    def inferred_from(self, call: Call, violation: RuleViolation) -> Optional[Parameter]:
        """The argument from which the output that a violation is about was inferred: an attribute, or the last tensor."""
        output = next(p for p in call.operator.parameters if p.name == violation.argument)
        self._begin(call)
        call.values = read = _Recorded(call.values)
        if violation.cause is not None and "dtype" in violation.cause[0]:
            self._output_dtype(call, output)
        else:
            self._spec(call, output)
        parameters = {p.name: p for p in (call.operator.parameters[i] for i in read.positions)}
        present = [parameter for name, parameter in parameters.items() if call[name] is not None]
        attributes = [parameter for parameter in present if parameter.kind not in (Kind.TENSOR, Kind.TENSOR_LIST)]
        return next(reversed(attributes or present or list(parameters.values())), None)

    def _check_words(self, call: Call) -> None:
        key = call.operator, call.product
        checks = self._checks.get(key)
        if checks is None:
            checks = self._checks[key] = self.words.settled(*key)
        make_checks(checks, call)
        for name in call.operator.not_empty:
            if call.is_empty(name):
                call.refuse(name, "is empty; it must have elements", TILING_ERROR, check="empty/kernel")

    def positions(self, operator: Operator) -> Mapping[str, int]:
        """Where the parameters are, by C name and by alias."""
        if not self.aliases:
            return operator.positions
        positions = self._positions.get(operator)
        if positions is None:
            positions = self._positions[operator] = dict(operator.positions)
            for alias, names in self.aliases.items():
                if alias not in operator.positions:
                    positions.update((alias, operator.positions[name]) for name in names if name in operator.positions)
        return positions

    def _begin(self, call: Call) -> None:
        """Prepares a call for the words of this rule."""
        call.definitions, call.versions, call.positions = self.definitions, self.versions, self.positions(call.operator)

        for name in self.empty_lists:
            if call.is_present(name) and _holds_nothing(call[name]):
                call.leave_out(name)

    def _check_null(self, call: Call, outputs: bool) -> None:
        needed = self._needed.get((call.operator, outputs))
        if needed is None:
            parameters = call.operator.parameters if outputs else call.operator.inputs
            pointers = [p.name for p in parameters if self._is_needed(p)]
            needed = [(call.operator.positions[name], name) for name in pointers]
            self._needed[call.operator, outputs] = needed
        for position, name in needed:
            if call.values[position] is None:
                kind = call.operator.parameters[position].ctype.replace("const ", "").rstrip("* ")
                text = "is None (a null pointer); it is required"
                call.refuse(name, text, self.null_status, ("null", {"kind": kind}), check="null")

    def may_be_null(self, parameter: Parameter) -> bool:
        return (parameter.optional or parameter.name in self.nullable) and parameter.name not in self.required

    def accepts_null(self, operator: Operator, parameter: Parameter) -> bool:
        """Whether a null pointer is accepted in some calls at least: not refused outright, nor on each product."""
        if not self.may_be_null(parameter):
            return False
        start = f"{operator.name}/{parameter.name}/null"
        refusing = [name[len(start) :] for name in self.refusals(operator) if name.startswith(start)]
        products = {product for place in refusing if place.startswith("/on-") for product in place[4:].split("-")}
        return "" not in refusing and not products.issuperset(operator.products or "?")

    def _left_out(self, call: Call) -> set[str]:
        """The outputs that are not computed in this call (see ``conditional_outputs``)."""
        return {
            name
            for name, conditions in self.conditional.items()
            if name in call.positions
            and any((where is None or where(call)) and not computed(call) for where, computed in conditions)
        }

    def infer(self, call: Call) -> dict[str, OutputSpecs]:
        """Shape and dtype of the outputs whose shape is inferred; RuleViolation where the inputs admit none."""
        self._begin(call)
        self._check_null(call, outputs=False)
        specs: dict[str, OutputSpecs] = {}
        left_out = self._left_out(call) if self.conditional else set()
        for parameter in call.operator.outputs:
            if not left_out.isdisjoint(self._names(parameter)):
                specs[parameter.name] = None
                continue
            spec = self._spec(call, parameter)
            if spec is not _UNKNOWN:
                specs[parameter.name] = spec
        return specs

    def _spec(self, call: Call, parameter: Parameter) -> Any:
        """What an output is allocated as; _UNKNOWN where no word says it."""
        inferences = [inference for name in self._names(parameter) for inference in self.shapes.get(name, ())]
        for condition, rule in inferences:
            if condition is None or condition(call):
                return self._specs(call, parameter, rule)
        return None if inferences and self.may_be_null(parameter) else _UNKNOWN

    def _specs(self, call: Call, parameter: Parameter, rule: ShapeRule) -> OutputSpecs:
        """What one rule infers of an output; where it needs an absent argument, a null pointer if the output may be one."""
        try:
            shapes = rule(call)
        except Absent as absent:
            if not self.may_be_null(parameter):
                call.refuse(
                    expression(absent.name).blamed(call), "is None (a null pointer); it is required", check="needed"
                )
            return None
        return _output_specs(shapes, self._output_dtype(call, parameter))

    def refusals(self, operator: Operator) -> Mapping[str, Refusal]:
        """The reasons for which an operator's phase one refuses a call, by identifier."""
        refusals = self._refusals.get(operator)
        if refusals is None:
            refusals = self._refusals[operator] = {}
            for identifier, refusal in self.listed_refusals(operator):
                refusals.setdefault(identifier, refusal)
        return refusals

    def listed_refusals(self, operator: Operator) -> Iterator[tuple[str, Refusal]]:
        """As ``refusals``, with those that several words make of one argument."""
        yield from self.identified(
            operator,
            (
                *(Refusal(p.name, "null", "", self.null_status) for p in operator.parameters if self._is_needed(p)),
                *self.words.refusals,
                *(Refusal(name, "empty/kernel", "tiling", TILING_ERROR) for name in operator.not_empty),
            ),
        )

    def identified(self, operator: Operator, refusals: Iterable[Refusal]) -> Iterator[tuple[str, Refusal]]:
        """Refusals of words of the rule, with their identifiers, as far as they concern an operator."""
        positions = self.positions(operator)
        for refusal in refusals:
            if refusal.applies is not None and not refusal.applies(operator):
                continue
            if refusal.other and self._is_itself(operator, positions, refusal):
                continue
            if any(isinstance(place, Expression) and self._never_holds(operator, place) for place in refusal.places):
                continue
            name = refusal.argument
            if refusal.condition is not None:
                name = name or refusal.condition.subject(positions, self.definitions)
                check = condition_check(operator, positions, name, refusal.condition.tree, refusal.check)
                names_exist = all(self._is_known(operator, other) for other in refusal.condition.names)
                if not (name and (names_exist or refusal.condition.branching)):
                    continue  # of a parameter that this version does not have
            else:
                check = refusal.check
            check = "/".join([check, *map(place_word, refusal.places)])
            if refusal.check == "length/list" and name not in self._lists(operator):
                continue
            if name == "*":
                kinds = (Kind.TENSOR, Kind.TENSOR_LIST)
                names = [p.name for p in operator.parameters if p.kind in kinds and documents_dtypes(operator, p.name)]
            elif name and name not in positions:
                continue
            else:
                names = [operator.parameters[positions[name]].name] if name else [""]
            for name in names:
                identifier = "/".join(filter(None, (operator.name, name, check)))
                yield identifier, refusal._replace(source=refusal.source or self.source)

    def _lists(self, operator: Operator) -> set[str]:
        """The names of the tensor lists."""
        parameters = operator.parameters
        return {n for n, i in self.positions(operator).items() if parameters[i].kind is Kind.TENSOR_LIST}

    @staticmethod
    def _is_itself(operator: Operator, positions: Mapping[str, int], refusal: Refusal) -> bool:
        """Whether an in-place form compares an argument with itself; of a list the members are compared."""
        position = positions.get(refusal.argument)
        if positions.get(refusal.other) != position:
            return False
        return position is None or operator.parameters[position].kind is not Kind.TENSOR_LIST

    def _never_holds(self, operator: Operator, condition: Expression) -> bool:
        """Whether a condition of ``when`` needs a parameter that this version of the operator does not have."""
        positions = self.positions(operator)
        for part in map(expression, conjuncts(condition.text)):
            asks = isinstance(part.tree, ast.Compare) and isinstance(part.tree.ops[0], ast.IsNot)
            if (asks or not part.branching) and any(
                name not in positions and (name in self.aliases or not self._is_known(operator, name))
                for name in part.names
            ):
                return True
        return False

    def _is_known(self, operator: Operator, name: str) -> bool:
        return name in self.positions(operator) or name in self.definitions or name == "product"

    def _is_needed(self, parameter: Parameter) -> bool:
        return parameter.kind.pointer and not self.may_be_null(parameter)

    def infers(self, parameter: Parameter) -> bool:
        """The rule can say what an output looks like, for some inputs at least."""
        return any(name in self.shapes for name in self._names(parameter))

    def _names(self, parameter: Parameter) -> list[str]:
        """The names under which the rule may speak of a parameter."""
        all_names = self._known_as.get(parameter.name)
        if all_names is None:
            aliases = (alias for alias, names in self.aliases.items() if parameter.name in names)
            all_names = self._known_as[parameter.name] = [parameter.name, *aliases]
        return all_names

    def _output_dtype(self, call: Call, parameter: Parameter) -> DataType:
        """As inferred, else the only documented dtype, else the dtype of the first tensor input."""
        for condition, rule in (
            inference for name in self._names(parameter) for inference in self.dtypes.get(name, ())
        ):
            if condition is None or condition(call):
                return rule(call)
        documented = call.operator.dtypes(parameter, call.product)
        if documented is not None and len(documented) == 1:
            return documented[0]
        for other in call.operator.inputs:
            if other.kind in (Kind.TENSOR, Kind.TENSOR_LIST) and call[other.name] is not None:
                return call.dtype(other.name)
        return DataType.FLOAT


def _holds_nothing(value: Any) -> bool:
    """Whether a list is empty, begins with a null pointer, or has one tensor, of shape (0,), only."""
    if not isinstance(value, (list, tuple)):
        return False
    return not value or value[0] is None or (len(value) == 1 and getattr(value[0], "shape", None) == (0,))


def _output_specs(shapes: Shapes, dtype: DataType) -> OutputSpecs:
    if isinstance(shapes, list):
        return [TensorSpec(tuple(shape), dtype) for shape in shapes]
    return None if shapes is None else TensorSpec(tuple(shapes), dtype)


RULES: dict[str, Rule] = {}  # by C name


def rule(
    names: str,
    *words: Check,
    nullable: str = "",
    required: str = "",
    null_status: int = PARAM_NULLPTR,
    aliases: Mapping[str, str] = MappingProxyType({}),
    empty_lists: str = "",
    source: str = "",
    replaces: bool = False,
) -> None:
    """Declares the rule of one or more operators (C names, separated by blanks): versions that differ in parameters.

    Words skip the parameters that a version does not have; ``on_operators`` holds what is special to some. ``aliases`` gives
    parameters whose C names differ between versions one name for the rule: ``{"weight": "w x2"}``; a parameter's own name
    comes first.
    ``empty_lists`` are lists that count as null pointers where they hold nothing.

    ``nullable`` and ``required`` correct what the catalog says of pointers that may be null; a few operators answer a
    null pointer with another ``null_status`` (INNER_NULLPTR).

    ``source`` is what the checks rest on where that is not the operator's document: a file of op_api, or "judgement".

    ``replaces`` is for a vendor's form of an operator that the catalog has too (``register_operator`` with its prototype): the
    package's own rule does not count in this process.
    """
    versions = names.split()
    for name in versions:
        if registry.counts(name, replaces, RULES, "rules"):
            RULES[name] = Rule(
                name, words, nullable, required, null_status, versions, aliases, empty_lists, source, replaces
            )


@functools.cache
def documented_rule(operator: Operator) -> Rule:
    """What the document alone says: dtypes by product, rank where it is a plain range."""

    @refuses("rank", *(p.name for p in operator.parameters if documented_rank(p.rank) is not None))
    def ranks(call: Call) -> None:
        for parameter in operator.parameters:
            limits = documented_rank(parameter.rank)
            if limits is not None and parameter.kind in (Kind.TENSOR, Kind.TENSOR_LIST):
                rank(limits[0], limits[1], parameter.name)(call)

    return Rule(operator.name, (documented_dtypes(), ranks))


def documented_rank(text: Optional[str]) -> Optional[tuple[int, int]]:
    """("2", "1-8", "<=8") -> least and most axes; None where the text says something else."""
    if text is None:
        return None
    if text.isdigit():
        return int(text), int(text)
    if text.startswith("<=") and text[2:].isdigit():
        return 0, int(text[2:])
    low, dash, high = text.partition("-")
    return (int(low), int(high)) if dash and low.isdigit() and high.isdigit() else None
