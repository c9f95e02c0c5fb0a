"""Which refusals of an operator's rule are reached: by a call that passes the check, and by one that it refuses.

The search begins with the call of the operator's example, or with plain tensors, on every product, and with calls that tests
make (``recorded_calls``). A call is changed in one argument, or in all that share a size, a data type or a rank; where the
words of a rule name limits, or its expressions numbers and data types, with these. A call that comes to a check that no call
came to before is itself changed further. What refuses such a call is mended, so that the checks behind it are reached: order
of checks is order of positions in the rule. At last each refusal that is left is aimed at by itself: in calls that pass the
check, what it looks at is changed; to come to a check, the conditions under which it is made; and what refuses the call
before is mended while that stays as it is.
"""

from __future__ import annotations

import ast
import contextlib
import itertools
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Optional
from unittest import mock

import recorded_calls
from rule_tools import A2, A3, NEW_950, OLD, OLD_310P

import ascend_aclnn as aclnn
import samples
from ascend_aclnn import catalog, rules
from ascend_aclnn.backends.interface import current_backend
from ascend_aclnn.call.arguments import Invocation
from ascend_aclnn.call.outputs import bind_outputs
from ascend_aclnn.call.plan import plan
from ascend_aclnn.catalog import Kind, Operator, Parameter
from ascend_aclnn.core.dtypes import DataType, Format
from ascend_aclnn.core.errors import AclError, RuleViolation
from ascend_aclnn.core.layouts import nz_shape
from ascend_aclnn.core.scalar import Scalar
from ascend_aclnn.core.socs import soc
from ascend_aclnn.core.spec import TensorSpec
from ascend_aclnn.rules import Call
from ascend_aclnn.rules.language import declare, groups
from ascend_aclnn.rules.language.call import Refusal, refusals_of
from ascend_aclnn.rules.language.expressions import Absent, Expression
from ascend_aclnn.rules.language.groups import Group

CHIPS = (A2, NEW_950, OLD_310P, OLD, A3, "Ascend310B1")
DTYPES = tuple(DataType)
FORMATS = (Format.FRACTAL_NZ, Format.NC1HWC0, Format.NHWC, Format.NCHW, Format.NCL, Format.NCDHW, Format.NDC1HWC0)
PATIENCE = 1500  # calls that reach nothing new, in a row, after which the search ends
MOST_SIZE = 2**20
PART = 60  # changes of a call that are tried in a row
MOST_REMEDIES = 500
ROUNDS = 2
MOST_CHANGES = 400
MOST_MENDS = 150
MOST_HINDERED = 3
MOST_BASES = 2
STEPS = 3
NO_VALUE = (Absent, RuleViolation, ArithmeticError, AttributeError, LookupError, NameError, TypeError, ValueError)
TENSORS = (Kind.TENSOR, Kind.TENSOR_LIST)

Values = list[Any]
Place = tuple[int, ...]  # of a word: its position in the rule, in a group of the rule, and so on
END: Place = (1 << 30,)


def example_values(operator: Operator) -> Optional[Values]:
    """The values of all parameters of the example's call; tensors are specs. None where there is no example."""
    if operator.example is None:
        return None
    with aclnn.use_backend("numpy", soc=samples.soc(operator)), contextlib.suppress(AclError, TypeError):
        invocation = Invocation(current_backend(), plan(operator), False)
        no_memory: Any = plain
        invocation.allocate = no_memory
        call = samples.call(operator)
        invocation.bind_inputs(call.arguments)
        bind_outputs(invocation, call.options.get("out"))
        return [plain(value) for value in invocation.values]
    return None


def plain(value: Any) -> Any:
    if isinstance(value, list):
        return [plain(item) for item in value]
    if not isinstance(value, TensorSpec):
        return value
    return TensorSpec(value.shape, value.dtype, value.strides, 0, value.format, value.storage_shape)


# ------------------------------------------------------------------------------------------------ changes


def resized(shape: tuple[int, ...], axis: int, size: int) -> tuple[int, ...]:
    return (*shape[:axis], size, *shape[axis + 1 :])


def of_rank(shape: tuple[int, ...], rank: int) -> tuple[int, ...]:
    """A shape with ones before it, or without its first axes."""
    return (*(1,) * (rank - len(shape)), *shape[max(len(shape) - rank, 0) :])


def in_format(tensor: TensorSpec, form: Format) -> TensorSpec:
    tiled = form is Format.FRACTAL_NZ and tensor.ndim >= 2 and tensor.dtype.bits
    return TensorSpec(
        tensor.shape, tensor.dtype, None, 0, form, nz_shape(tensor.shape, tensor.dtype) if tiled else None
    )


def reshaped(tensor: TensorSpec, shape: Sequence[int]) -> TensorSpec:
    sizes = tuple(shape)
    return in_format(TensorSpec(sizes, tensor.dtype), tensor.format)


def retyped(tensor: TensorSpec, dtype: DataType) -> TensorSpec:
    return TensorSpec(tensor.shape, dtype, tensor.strides, 0, tensor.format, tensor.storage_shape)


def transposed(tensor: TensorSpec) -> TensorSpec:
    """Stored with the last two axes in the other order."""
    strides = (*tensor.strides[:-2], 1, tensor.shape[-2])
    return TensorSpec(tensor.shape, tensor.dtype, strides, 0, tensor.format)


def variants(value: Any, limits: Sequence[Any] = ()) -> Iterator[Any]:
    """A value that is changed in one respect: data type, shape, rank, strides, format, number, presence."""
    numbers = sorted({n + by for n in limits if isinstance(n, int) and abs(n) <= 2**40 for by in (-1, 0, 1)})
    if isinstance(value, TensorSpec):
        shape = value.shape
        yield from (retyped(value, dtype) for dtype in DTYPES if dtype is not value.dtype)
        shapes = [(1, *shape), (*shape, 1), (1,) * 9, (), shape[1:], (0, *shape[1:]), (value.size,), shape[:-1]]
        for axis, size in enumerate(shape):
            sizes = dict.fromkeys((size + 1, size - 1, size * 2, 0, 1, MOST_SIZE, *numbers))
            shapes += [resized(shape, axis, n) for n in sizes if n >= 0]
        shapes += [of_rank(shape, n) for n in numbers if 0 <= n <= 40]
        yield from (reshaped(value, other) for other in dict.fromkeys(shapes) if other != shape)
        yield from (in_format(value, form) for form in FORMATS if form is not value.format)
        yield TensorSpec(shape, value.dtype, (7,) * len(shape))
        yield TensorSpec((1,) * 9, value.dtype, (7,) * 9)
        if value.storage_shape != shape:
            for other in (shape[1:], (1, *shape), resized(shape, -1 % len(shape), 2 * shape[-1])) if shape else ():
                yield TensorSpec(other, value.dtype, None, 0, value.format, value.storage_shape)
            for stored in (value.storage_shape[1:], (1, *value.storage_shape), (*value.storage_shape[:-1], 1)):
                yield TensorSpec(shape, value.dtype, None, 0, value.format, stored)
        if len(shape) > 1:
            yield transposed(value)
    elif isinstance(value, Scalar):
        yield from (Scalar(number) for number in (-1, 0, 1e300, 1j, True, float("nan"), *numbers))
        for dtype in DTYPES:
            if dtype is not value.dtype:
                changed = Scalar(1)
                changed.dtype = dtype
                yield changed
    elif isinstance(value, list) and value:
        yield from ([], value[:-1], [*value, value[-1]], [*value[:-1], None], [None, *value[1:]])
        yield from ([value[0]] * n for n in numbers if 0 < n <= 300)
        for item in variants(value[-1], limits):
            if item is not None:
                yield [*value[:-1], item]
                if len(value) > 1:
                    yield [item, *value[1:]]
                    yield [item] * len(value)
    elif isinstance(value, tuple):
        yield from ((), (*value, 1), value[:-1], tuple(-1 for _ in value), tuple(0 for _ in value), (99,) * len(value))
        for axis, item in enumerate(value):
            others = [not item] if isinstance(item, bool) else [item + 1, item - 1, *numbers]
            yield from (resized(value, axis, other) for other in others)
        yield from ((value or (1,))[:1] * n for n in numbers if 0 <= n <= 300)
        yield value[:1] * len(value)
    elif isinstance(value, bool):
        yield not value
    elif isinstance(value, str):
        yield from ("", "none", "x" * 300, *(text for text in limits if isinstance(text, str) and text != value))
    elif isinstance(value, (int, float)):
        yield from dict.fromkeys((-(2**31), -9, -1, 0, 1, 2, 3, 4, 5, 8, 16, 17, 32, 2**31 - 1, *numbers))
        yield from (number for number in limits if isinstance(number, float))
        if isinstance(value, float):
            yield from (float("nan"), float("inf"))
    if value is not None and not isinstance(value, (int, float)):  # a pointer
        yield None


def fillers(parameter: Parameter, values: Values) -> Iterator[Any]:
    """Values for an argument that is absent: as the other arguments have them, and plain ones."""
    kind = parameter.kind
    if kind in TENSORS:
        others = [v[0] if isinstance(v, list) and v else v for v in values]
        tensors = [v for v in others if isinstance(v, TensorSpec)] or [TensorSpec((2, 16), DataType.FLOAT16)]
        shapes = dict.fromkeys(tensor.shape for tensor in tensors)
        sizes = dict.fromkeys((*(n for shape in shapes for n in shape), 1))
        dtypes = dict.fromkeys((*(tensor.dtype for tensor in tensors), DataType.FLOAT, DataType.INT64, DataType.BOOL))
        for shape in (*shapes, *((n,) for n in sizes)):
            for dtype in dtypes:
                tensor = TensorSpec(shape, dtype)
                yield tensor if kind is Kind.TENSOR else [tensor]
    elif kind is Kind.SCALAR:
        yield from (Scalar(1.0), Scalar(1))
    elif kind is Kind.SCALAR_LIST:
        yield [Scalar(1.0)]
    elif kind is Kind.INT_ARRAY:
        yield from ((1,), (2, 2), (0, 1))
    elif kind is Kind.FLOAT_ARRAY:
        yield (1.0,)
    elif kind is Kind.BOOL_ARRAY:
        yield from ((True,), (True, True, True))
    elif kind is Kind.STRING:
        yield "a"


def everywhere(values: Values, change: Any) -> Values:
    """The values with each tensor, those of lists too, as ``change`` has it."""
    return [
        [change(item) if isinstance(item, TensorSpec) else item for item in value]
        if isinstance(value, list)
        else change(value)
        if isinstance(value, TensorSpec)
        else value
        for value in values
    ]


def with_sizes(values: Values, old: int, new: int) -> Values:
    """The values with another size on each axis of one size, and where a number or an array has it."""

    def change(tensor: TensorSpec) -> TensorSpec:
        return reshaped(tensor, [new if n == old else n for n in tensor.shape]) if old in tensor.shape else tensor

    def number(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(number, value))
        return new if type(value) is int and value == old and old > 1 else value

    return [number(value) for value in everywhere(values, change)]


def with_dtypes(values: Values, old: DataType, new: DataType) -> Values:
    return everywhere(values, lambda tensor: retyped(tensor, new) if tensor.dtype is old else tensor)


def with_ranks(values: Values, old: int, new: int) -> Values:
    return everywhere(values, lambda t: reshaped(t, of_rank(t.shape, new)) if t.ndim == old else t)


def together(values: Values) -> Iterator[Values]:
    """All arguments that share a size, a data type or a rank changed alike."""
    tensors = [t for v in values for t in (v if isinstance(v, list) else [v]) if isinstance(t, TensorSpec)]
    for dtype in dict.fromkeys(t.dtype for t in tensors):
        yield from (with_dtypes(values, dtype, other) for other in DTYPES if other is not dtype)
    for size in dict.fromkeys(n for t in tensors for n in t.shape):
        yield from (with_sizes(values, size, n) for n in (0, 1, size + 1, size * 2, size * 16, size * 128))
    for rank in dict.fromkeys(t.ndim for t in tensors):
        yield from (with_ranks(values, rank, n) for n in range(9) if n != rank)
    yield everywhere(values, lambda t: reshaped(t, (1, *t.shape)))
    yield everywhere(values, lambda t: reshaped(t, t.shape[1:]))
    yield everywhere(values, lambda t: TensorSpec(of_rank(t.shape, 9), t.dtype, (7,) * 9))
    for count in (1, 2, 3):
        yield [v[:1] * count if isinstance(v, list) else v for v in values]
    for form in FORMATS:
        yield everywhere(values, lambda t, form=form: in_format(t, form))


# ------------------------------------------------------------------------------------------------ the search


class Outcome(NamedTuple):
    """What phase one says of a call."""

    identifier: str  # of the refusal; "" where the call is accepted
    place: Place  # of the word that refused; END
    violation: Optional[RuleViolation]
    is_news: bool  # a check was passed or refused, or come to, for the first time


class Search:
    """The refusals of one operator that calls have reached so far."""

    def __init__(self, operator: Operator) -> None:
        self.operator = operator
        self.rule = rules.rule_of(operator)
        self.refusals = self.rule.refusals(operator)
        self.example = example_values(operator)
        self.passed: set[str] = set()
        self.refused: set[str] = set()
        self.calls = 0
        self.accepted = 0
        self.sources: deque[tuple[Iterator[tuple[Values, bool]], str]] = deque()
        self.furthest: list[tuple[Values, str]] = []  # refused calls, each of which came further than the one before
        self.furthest_place: Place = ()
        self.last_news = 0  # how many calls there had been when the last refusal was reached
        self.stack: list[int] = []
        self.come_to: set[Place] = set()
        self.accepted_calls: list[tuple[Values, str]] = []
        self.tried: dict[str, list[Values]] = {}  # what was changed with a refusal in view
        self.witnesses: dict[str, tuple[Values, str]] = {}  # of each refusal, the first call that passed the check
        self.open: dict[Place, list[tuple[str, Refusal]]] = {}  # of each word, what no call has passed
        self.inferring: list[tuple[str, Refusal]] = []  # of words that check nothing
        left = iter(self.rule.words.refusals)
        self._read(self.rule.words, (), left)
        self.places = {name: place for place, listed in reversed(self.open.items()) for name, _ in listed}
        self.queue: deque[tuple[Values, str, Outcome]] = deque()
        self.limits: dict[str, list[Any]] = {}
        for identifier, refusal in self.refusals.items():
            name = self.parameter_of(identifier)
            limits = [*refusal.limits, *(constants(refusal.condition.tree) if refusal.condition else ())]
            self.limits.setdefault(name, []).extend(limits)

    def _read(self, group: Group, at: Place, left: Iterator[Refusal]) -> None:
        for index, word in enumerate((*group.words, *group.inferring)):
            if isinstance(word, Group):
                self._read(word, (*at, index), left)
            else:
                listed = list(itertools.islice(left, len(refusals_of(word))))
                identified = list(self.rule.identified(self.operator, listed))
                if index < len(group.words):
                    self.open[(*at, index)] = identified
                else:
                    self.inferring += identified

    def parameter_of(self, identifier: str) -> str:
        name = identifier.split("/")[1]
        return name if name in self.operator.positions else ""

    @property
    def both(self) -> set[str]:
        return self.passed & self.refused

    def is_done(self) -> bool:
        return self.calls >= self.last_news + PATIENCE or len(self.both) == len(self.refusals)

    # -------------------------------------------------------------------------------------------- one call

    def make_checks(self, words: Sequence[Any], call: Call) -> None:
        """As the rules' own, and remembers which words were passed."""
        stack = self.stack
        stack.append(0)
        for index, word in enumerate(words):
            stack[-1] = index
            word(call)
            self.words_passed.append(tuple(stack))
        stack.pop()

    def check(self, values: Values, chip: str) -> Outcome:
        self.calls += 1
        self.stack.clear()
        self.words_passed: list[Place] = []
        call = Call(self.operator, values, soc(chip))
        violation = None
        before = len(self.passed), len(self.refused), len(self.come_to)
        try:
            self.rule.check(call)
        except RuleViolation as refused:
            violation = refused
        identifier = "" if violation is None else rules.identifier(self.operator, violation) or "?"
        if identifier:
            if identifier in self.refusals:
                self.refused.add(identifier)
            if self.stack:
                self.come_to.add(tuple(self.stack))
        self._pass(call, values, identifier)
        place = END if violation is None else tuple(self.stack)
        after = len(self.passed), len(self.refused), len(self.come_to)
        if before[:2] != after[:2]:
            self.last_news = self.calls
        return Outcome(identifier, place, violation, before != after)

    def _pass(self, call: Call, values: Values, identifier: str) -> None:
        for place in self.words_passed:
            waiting = self.open.get(place)
            if waiting is None:
                self.come_to.add(place)
            elif waiting:
                done = {name for name, refusal in waiting if self.has_passed(call, name, refusal)}
                self.passed |= done
                self.witnesses.update(dict.fromkeys(done, (values, call.soc.name)))
                self.open[place] = [(name, refusal) for name, refusal in waiting if name not in done]
        if self.words_passed or not identifier:
            for parameter, value in zip(self.operator.parameters, values):
                self._pass_one(f"{self.operator.name}/{parameter.name}/null", value is not None)
        for name in self.operator.not_empty:
            self._pass_one(f"{self.operator.name}/{name}/empty/kernel", not identifier and call.is_present(name))

    def _pass_one(self, identifier: str, holds: bool) -> None:
        if holds and identifier in self.refusals:
            self.passed.add(identifier)

    def has_passed(self, call: Call, identifier: str, refusal: Refusal) -> bool:
        """Whether a check of a word that was passed had something to check."""
        if refusal.condition is not None:
            try:
                return bool(refusal.condition.compute(call))
            except NO_VALUE:  # an argument that the condition needs is absent
                return False
        name = self.parameter_of(identifier)
        if not name:
            return True
        return call.is_present(name) != identifier.split("/")[2].startswith("absent")

    def infer(self, values: Values, chip: str) -> Optional[Values]:
        """The values with the outputs that binding would allocate; None where they are the same, or there are none."""
        if not self.operator.outputs:
            return None
        asked = [None if p.direction == "out" else v for p, v in zip(self.operator.parameters, values)]
        call = Call(self.operator, asked, soc(chip))
        try:
            specs = self.rule.infer(call)
        except RuleViolation as refused:
            identifier = rules.identifier(self.operator, refused)
            if identifier in self.refusals:
                self.refused.add(identifier or "")
            return None
        for identifier, refusal in self.inferring:
            if identifier not in self.passed and self.has_passed(call, identifier, refusal):
                self.passed.add(identifier)
        changed, is_new = list(values), False
        for name, spec in specs.items():
            position = self.operator.positions[name]
            if self.operator.parameters[position].direction == "out" and not same(values[position], spec):
                changed[position], is_new = spec, True
        return changed if is_new else None

    # -------------------------------------------------------------------------------------------- many calls

    @contextlib.contextmanager
    def recording(self) -> Iterator[None]:
        """Checks of rules tell the search which words they pass: all of the rule's, as it is written."""
        every = self.rule.words
        with contextlib.ExitStack() as patches:
            patches.enter_context(mock.patch.object(self.rule, "_checks", {}))  # not what is left for one product
            patches.enter_context(mock.patch.object(every, "settled", lambda *_: every.words))
            for module in (groups, declare):
                patches.enter_context(mock.patch.object(module, "make_checks", self.make_checks))
            yield

    def run(self) -> None:
        with self.recording():
            for values, chip in self.first_calls():
                self.try_call(values, chip, infers=True)
            self.go_on()
            if not self.accepted:
                for values, chip in self.furthest[-3:]:
                    self.add_changes(values, chip)
                self.go_on()
            self.aim()

    def first_calls(self) -> Iterator[tuple[Values, str]]:
        """The example's call, and those of the operators that share the rule."""
        yield from self.example_calls()
        values = self.example or self.plain_call()
        for version in self.rule.versions:
            other = catalog.get(version)
            calls = [(call.values, call.soc) for call in recorded_calls.read().get(version, ())]
            if other is not self.operator and other.example is not None:
                example = example_values(other)
                calls += [] if example is None else [(example, samples.soc(other) or A2)]
            for others, chip in calls:
                named = {(p.name, p.kind): value for p, value in zip(other.parameters, others)}
                yield [named.get((p.name, p.kind), v) for p, v in zip(self.operator.parameters, values)], chip

    def example_calls(self) -> Iterator[tuple[Values, str]]:
        """The example's call, or a plain one, on each product."""
        chosen = samples.soc(self.operator) or A2
        for chip in {chosen: None, **dict.fromkeys(CHIPS)}:
            yield self.example or self.plain_call(), chip

    def plain_call(self) -> Values:
        """A call of an operator without an example: what is required, as small as it can be."""
        numbers = {Kind.BOOL: False, Kind.FLOAT: 1.0, Kind.DOUBLE: 1.0, Kind.DATA_TYPE: DataType.FLOAT16}
        return [
            (None if self.rule.may_be_null(p) else next(fillers(p, []), None))
            if p.kind.pointer
            else numbers.get(p.kind, 1)
            for p in self.operator.parameters
        ]

    def try_call(self, values: Values, chip: str, infers: bool) -> Outcome:
        """Checks a call, with its outputs as they are and as they would be allocated."""
        outcome = self.check(values, chip)
        if outcome.is_news:
            self.queue.append((values, chip, outcome))
        if not infers:
            return outcome
        inferred = self.infer(values, chip)
        if inferred is None:
            return outcome
        second = self.check(inferred, chip)
        if second.is_news:
            self.queue.append((inferred, chip, second))
        return max(outcome, second, key=lambda o: o.place)

    def go_on(self) -> None:
        """Mends refused calls, and changes accepted ones, a part of the changes of each in turn."""
        while not self.is_done():
            if self.queue:
                values, chip, outcome = self.queue.popleft()
                if outcome.identifier:
                    self.mend(values, chip, outcome)
                else:
                    self.add_changes(values, chip)
            elif self.sources:
                source, chip = self.sources.popleft()
                part = list(itertools.islice(source, PART))
                for changed, infers in part:
                    if self.is_done():
                        return
                    self.try_call(changed, chip, infers)
                if part:
                    self.sources.append((source, chip))
            else:
                return

    # -------------------------------------------------------------------------------------------- one refusal in view

    def aim(self) -> None:
        """Looks for what is left, one refusal after the other, until a round reaches no more."""
        for _ in range(ROUNDS):
            before = len(self.passed), len(self.refused)
            for identifier in self.refusals:
                if identifier not in self.passed:
                    self.aim_to_pass(identifier)
                if identifier in self.passed and identifier not in self.refused:
                    self.aim_to_break(identifier)
            if (len(self.passed), len(self.refused)) == before:
                return
            self.last_news = self.calls
            self.go_on()

    def aim_to_break(self, identifier: str) -> None:
        """Changes what a check looks at, in calls that pass it; what refuses them before that check is mended."""
        place, refusal = self.places.get(identifier, END), self.refusals[identifier]
        position = self.operator.positions.get(self.parameter_of(identifier))
        for values, chip in self.passing(identifier):
            call = self.call(values, chip)
            changes: list[Iterator[Values]] = []
            if position is not None:
                changes.append(replaced(values, position, v) for v in self.alternatives(position, values))
            if refusal.condition is not None:
                changes.append(self.about(call, values, refusal.condition))
            changes.append(together(values))
            hindered: dict[str, tuple[Values, Outcome]] = {}
            for changed in itertools.islice(itertools.chain(*changes), MOST_CHANGES):
                outcome = self.try_call(changed, chip, infers=True)
                if identifier in self.refused:
                    return
                if outcome.identifier and outcome.place < place:
                    hindered.setdefault(outcome.identifier, (changed, outcome))
            for changed, outcome in list(hindered.values())[:MOST_HINDERED]:
                kept = [i for i, (a, b) in enumerate(zip(values, changed)) if a is not b]
                self.mend_for(identifier, changed, chip, outcome, kept)
                if identifier in self.refused:
                    return

    def aim_to_pass(self, identifier: str) -> None:
        """Changes accepted calls so that they come to a check, and mends them there."""
        refusal = self.refusals[identifier]
        conditions = [c for c in (refusal.condition, *refusal.places) if isinstance(c, Expression)]
        for values, chip in self.untried(identifier, self.accepted_calls):
            for changed, other_chip in self.with_argument(identifier, values, chip):
                self.try_call(changed, other_chip, infers=True)
                if identifier in self.passed:
                    return
            call = self.call(values, chip)
            for condition in conditions:
                if self.holds(call, condition):
                    continue
                mended = 0
                for changed in itertools.islice(self.about(call, values, condition), MOST_CHANGES):
                    if mended == MOST_HINDERED or not self.holds(self.call(changed, chip), condition):
                        continue
                    outcome = self.try_call(changed, chip, infers=True)
                    if identifier in self.passed:
                        return
                    if outcome.identifier:
                        mended += 1
                        kept = [i for i, (a, b) in enumerate(zip(values, changed)) if a is not b]
                        self.mend_for(identifier, changed, chip, outcome, kept)
                        if identifier in self.passed:
                            return

    def with_argument(self, identifier: str, values: Values, chip: str) -> Iterator[tuple[Values, str]]:
        """A call with the argument of a check that it lacks, in each data type, on the product that the check names."""
        position = self.operator.positions.get(self.parameter_of(identifier))
        if position is None or values[position] is not None:
            return
        chips = [other for other in CHIPS if f"on-{soc(other).product}" in identifier.split("/")] or [chip]
        arguments = list(itertools.islice(fillers(self.operator.parameters[position], values), MOST_CHANGES // 4))
        for argument in arguments[:1]:
            items = argument if isinstance(argument, list) else [argument]
            if isinstance(items[0], TensorSpec):
                typed = [[retyped(items[0], dtype)] for dtype in DTYPES]
                arguments += typed if isinstance(argument, list) else [item for (item,) in typed]
        for argument in arguments:
            yield from ((replaced(values, position, argument), other) for other in chips)

    def mend_for(self, identifier: str, values: Values, chip: str, outcome: Outcome, kept: Sequence[int]) -> None:
        """As ``mend``, for one refusal in view: some arguments stay as they are."""
        before = identifier in self.passed, identifier in self.refused
        for _ in range(STEPS):
            best: Optional[tuple[Values, Outcome]] = None
            for changed in itertools.islice(self.remedies(values, chip, outcome), MOST_MENDS):
                if any(changed[i] is not values[i] for i in kept):
                    continue
                for candidate in (changed, self.infer(changed, chip)):
                    if candidate is None:
                        continue
                    result = self.check(candidate, chip)
                    if result.is_news:
                        self.queue.append((candidate, chip, result))
                    if (identifier in self.passed, identifier in self.refused) != before:
                        return
                    if result.place > outcome.place:
                        best = candidate, result
                if best is not None:
                    break
            if best is None or not best[1].identifier:
                return
            values, outcome = best

    def passing(self, identifier: str) -> list[tuple[Values, str]]:
        """Calls that pass a check: accepted ones, as far as there are some."""
        found: list[tuple[Values, str]] = []
        place, refusal = self.places.get(identifier), self.refusals[identifier]
        for values, chip in self.accepted_calls:
            self.check(values, chip)
            if (place is None or place in self.words_passed) and self.has_passed(
                self.call(values, chip), identifier, refusal
            ):
                found.append((values, chip))
        if not found and identifier in self.witnesses:
            found.append(self.witnesses[identifier])
        return self.untried(identifier, found)

    def untried(self, identifier: str, calls: list[tuple[Values, str]]) -> list[tuple[Values, str]]:
        """Some calls that were not changed yet with this refusal in view."""
        tried = self.tried.setdefault(identifier, [])
        left = [call for call in calls if not any(call[0] is values for values in tried)][:MOST_BASES]
        tried += [values for values, _ in left]
        return left

    def holds(self, call: Call, condition: Expression) -> bool:
        try:
            return bool(condition.compute(call))
        except NO_VALUE:
            return False

    def call(self, values: Values, chip: str) -> Call:
        """A call whose conditions can be computed."""
        call = Call(self.operator, values, soc(chip))
        self.rule._begin(call)
        return call

    def add_changes(self, values: Values, chip: str) -> None:
        everything = self.accepted < 2
        self.accepted += 1
        self.accepted_calls.append((values, chip))
        for changes in (self.of_one(values, everything), self.of_several(values), self.of_conditions(values, chip)):
            self.sources.append((changes, chip))

    def of_one(self, values: Values, everything: bool) -> Iterator[tuple[Values, bool]]:
        """One argument changed: each of them, or those of which refusals are left."""
        names = {self.parameter_of(i) for i in self.refusals if i not in self.both}
        for position, parameter in enumerate(self.operator.parameters):
            output = parameter.direction == "out"
            if (output or not everything) and parameter.name not in names:
                continue
            for variant in self.alternatives(position, values):
                yield replaced(values, position, variant), not output

    def of_several(self, values: Values) -> Iterator[tuple[Values, bool]]:
        yield from ((changed, True) for changed in together(values))

    def of_conditions(self, values: Values, chip: str) -> Iterator[tuple[Values, bool]]:
        """What the conditions name that no call has met, and those that none has both passed and broken."""
        call = Call(self.operator, values, soc(chip))
        self.rule._begin(call)
        seen: set[Expression] = set()
        for identifier, refusal in self.refusals.items():
            if identifier in self.both:
                continue
            met = identifier in self.passed or identifier in self.refused
            for condition in (refusal.condition, *(() if met else refusal.places)):
                if isinstance(condition, Expression) and condition not in seen:
                    seen.add(condition)
                    yield from ((changed, True) for changed in self.about(call, values, condition))

    def alternatives(self, position: int, values: Values) -> Iterator[Any]:
        parameter, value = self.operator.parameters[position], values[position]
        limits = [*self.limits.get(parameter.name, ()), *self.limits.get("", ())]
        if value is None:
            yield from fillers(parameter, values)
        else:
            yield from variants(value, limits)

    def about(self, call: Call, values: Values, condition: Expression) -> Iterator[Values]:
        """Changes of what a condition names, with the numbers and data types that are in it."""
        yield from Changes(self, call, values, condition)

    def mend(self, values: Values, chip: str, outcome: Outcome) -> None:
        """Changes what refuses a call, until it is accepted or no change leads further."""
        seen = {outcome.identifier}
        for _ in range(20):
            best: Optional[tuple[Values, Outcome]] = None
            for changed in itertools.islice(self.remedies(values, chip, outcome), MOST_REMEDIES):
                if self.is_done():
                    return
                for candidate in (changed, self.infer(changed, chip)):
                    if candidate is None:
                        continue
                    result = self.check(candidate, chip)
                    if result.is_news and not result.identifier:
                        self.queue.append((candidate, chip, result))
                    further = result.place > outcome.place
                    if further or (result.place == outcome.place and result.identifier not in seen):
                        best = candidate, result
                if best is not None:
                    break
            if best is not None and best[1].place > self.furthest_place:
                self.furthest_place = best[1].place
                self.furthest.append((best[0], chip))
            if best is None:
                return
            values, outcome = best
            seen.add(outcome.identifier)
            if not outcome.identifier:
                if outcome.is_news:
                    self.queue.append((values, chip, outcome))
                return

    def remedies(self, values: Values, chip: str, outcome: Outcome) -> Iterator[Values]:
        violation = outcome.violation
        assert violation is not None
        position = self.operator.positions.get(violation.argument or "")
        if position is None:
            return
        value = values[position]
        _, facts = violation.cause or ("", {})
        allowed = facts.get("allowed")
        for wanted in allowed if isinstance(allowed, (list, set, frozenset)) else [allowed]:
            if isinstance(wanted, DataType):
                tensors = value if isinstance(value, list) else [value]
                changed = [retyped(t, wanted) if isinstance(t, TensorSpec) else t for t in tensors]
                yield replaced(values, position, changed if isinstance(value, list) else changed[0])
        if isinstance(allowed, tuple) and isinstance(value, TensorSpec) and all(isinstance(n, int) for n in allowed):
            yield replaced(values, position, reshaped(value, allowed))
        refusal = self.refusals.get(outcome.identifier)
        if refusal is not None and refusal.condition is not None:
            call = Call(self.operator, values, soc(chip))
            self.rule._begin(call)
            yield from self.about(call, values, refusal.condition)
        for variant in self.alternatives(position, values):
            yield replaced(values, position, variant)
        yield from together(values)


def replaced(values: Values, position: int, value: Any) -> Values:
    return [*values[:position], value, *values[position + 1 :]]


def same(one: Any, other: Any) -> bool:
    """Whether two outputs look alike."""
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, TensorSpec) and isinstance(other, TensorSpec):
        return one.shape == other.shape and one.dtype is other.dtype
    return one is None and other is None


def constants(tree: ast.expr) -> list[Any]:
    return [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and node.value is not None]


class Changes:
    """Changed calls: each argument that a condition names, itself or through definitions, with the values in it."""

    def __init__(self, search: Search, call: Call, values: Values, condition: Expression) -> None:
        self.search, self.call, self.values = search, call, values
        self.trees: list[ast.expr] = []
        self._collect(condition, 0)

    def _collect(self, found: Any, depth: int) -> None:
        if depth > 5 or not isinstance(found, Expression) or found.tree in self.trees:
            return
        self.trees.append(found.tree)
        for place in getattr(found, "places", ()):
            self._collect(place, depth + 1)
        for name in found.names:
            for _, defined in self.search.rule.definitions.get(name, ()):
                self._collect(defined, depth + 1)

    def __iter__(self) -> Iterator[Values]:
        numbers = list(dict.fromkeys(n for n in self._numbers() if abs(n) <= 2**31))[:24]
        texts = [c for tree in self.trees for c in constants(tree) if isinstance(c, str)]
        names = [n.id for tree in self.trees for n in ast.walk(tree) if isinstance(n, ast.Name)]
        dtypes = list(dict.fromkeys(DataType[name] for name in names if name in DataType.__members__))
        for name in dict.fromkeys(names):
            position = self.call.positions.get(name)
            if position is None:
                continue
            value = self.values[position]
            parameter = self.search.operator.parameters[position]
            if value is None:
                for filler in fillers(parameter, self.values):
                    yield replaced(self.values, position, filler)
            for variant in self._assigned(value, numbers, texts, dtypes):
                yield replaced(self.values, position, variant)
            yield from self._with_others(value, numbers, dtypes)

    def _numbers(self) -> Iterator[int]:
        for tree in self.trees:
            for node in ast.walk(tree):
                if not isinstance(node, ast.expr):
                    continue
                value: Any = None
                if isinstance(node, ast.Constant):
                    value = node.value
                elif isinstance(node, (ast.Subscript, ast.BinOp, ast.Name, ast.Call)):
                    try:
                        value = Expression(ast.unparse(node)).compute(self.call)
                    except NO_VALUE:  # a part of it has no value by itself
                        continue
                if isinstance(value, int) and not isinstance(value, (bool, DataType, Format)):
                    yield from (value, value + 1, value - 1, value * 2)

    def _assigned(self, value: Any, numbers: list[int], texts: list[str], dtypes: list[DataType]) -> Iterator[Any]:
        if isinstance(value, list):
            for item in self._assigned(value[0], numbers, texts, dtypes) if value else ():
                yield [item] * len(value)
            yield from ([value[0]] * n for n in numbers if value and 0 <= n <= 130)
        elif isinstance(value, TensorSpec):
            yield from (retyped(value, dtype) for dtype in dtypes)
            for axis in range(value.ndim):
                yield from (reshaped(value, resized(value.shape, axis, n)) for n in numbers if 0 <= n <= MOST_SIZE * 4)
            yield from (reshaped(value, of_rank(value.shape, n)) for n in numbers if 0 <= n <= 9)
            yield in_format(value, Format.FRACTAL_NZ)
            if value.ndim > 1:
                yield transposed(value)
                yield reshaped(value, (*value.shape[:-2], value.shape[-1], value.shape[-2]))
            yield None
        elif isinstance(value, str):
            yield from texts
        elif isinstance(value, bool):
            yield not value
        elif isinstance(value, tuple):
            for axis in range(len(value)):
                yield from (resized(value, axis, n) for n in numbers)
            yield from ((value or (1,))[:1] * n for n in numbers if 0 <= n <= 300)
        elif isinstance(value, (int, float)):
            yield from numbers
            yield from map(int, dtypes)
        elif isinstance(value, Scalar):
            yield from map(Scalar, numbers)

    def _with_others(self, value: Any, numbers: list[int], dtypes: list[DataType]) -> Iterator[Values]:
        tensor = value[0] if isinstance(value, list) and value else value
        if isinstance(tensor, TensorSpec):
            yield from (with_dtypes(self.values, tensor.dtype, dtype) for dtype in dtypes if dtype is not tensor.dtype)
            for size in dict.fromkeys(tensor.shape):
                yield from (with_sizes(self.values, size, n) for n in numbers if 0 <= n <= MOST_SIZE and n != size)
            yield from (with_ranks(self.values, tensor.ndim, n) for n in numbers if 0 <= n <= 8 and n != tensor.ndim)


class Reached(NamedTuple):
    """Which refusals of an operator calls have passed, and which have refused one, by identifier."""

    listed: dict[str, tuple[bool, bool]]

    @property
    def counts(self) -> tuple[int, int, int, int]:
        """How many were passed, refused, both, and how many there are."""
        states = self.listed.values()
        passed, refused = (sum(state[way] for state in states) for way in (0, 1))
        return passed, refused, sum(map(all, states)), len(states)

    def lines(self, name: str) -> list[str]:
        """What is not reached both ways, a line for each kind; without the operator's name."""
        kinds = {"passed": (True, False), "refused": (False, True), "neither": (False, False)}
        found = {
            kind: [i.partition("/")[2] for i, state in self.listed.items() if state == wanted]
            for kind, wanted in kinds.items()
        }
        return [" ".join([name, kind, *checks]) for kind, checks in found.items() if checks]


def reached(operator: Operator) -> Reached:
    search = Search(operator)
    search.run()
    return Reached({i: (i in search.passed, i in search.refused) for i in search.refusals})
