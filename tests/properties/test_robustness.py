"""Whatever the arguments, phase one and inference answer, or raise RuleViolation, without touching data.

Every operator gets some sets of random arguments, the same on every run. One in five types, ranks and formats is none
that the operator documents, and attributes go to their extremes.
"""

from __future__ import annotations

import random
from typing import Any, NoReturn, Optional

import numpy as np
import numpy.typing as npt
import pytest
from long_tests import LONG
from rule_tools import A2, A3, CODE, NEW_950, OLD, OLD_310P

from ascend_aclnn import catalog, rules
from ascend_aclnn.catalog import Kind, Operator, Parameter
from ascend_aclnn.core.dtypes import DataType, Format
from ascend_aclnn.core.errors import RuleViolation
from ascend_aclnn.core.scalar import Scalar
from ascend_aclnn.core.socs import Soc, soc
from ascend_aclnn.core.spec import contiguous_strides
from ascend_aclnn.core.tensor import Tensor
from ascend_aclnn.rules.language.call import GUARDS

SETS = 30 if LONG else 10
SOCS = [soc(name) for name in (A2, A3, OLD, OLD_310P, NEW_950)]
INTEGERS = [-(2**63), -(2**31), -100, -9, -8, 5, 7, 8, 9, 16, 32, 100, 512, 65536, 2**24, 2**31, 2**63 - 1]
FLOATS = [0.0, -0.0, 1.0, -1.0, 0.5, 1e-6, 1e30, -1e300, float("inf"), -float("inf"), float("nan")]
STRINGS = ["", "none", "sum", "mean", "constant", "BSH", "BNSD", "TND", "silu", "half_pixel", "\u4e2d", "x" * 300]
RANGES = {
    Kind.INT8: 2**7,
    Kind.INT32: 2**31,
    Kind.UINT32: 2**32,
    Kind.INT64: 2**63,
    Kind.UINT64: 2**64,
}


class Untouchable:
    """The storage (and backend) of tensors whose data nobody may look at."""

    name, device, nbytes, has_memory = "untouchable", 0, 0, False
    graph, captures = None, ()  # no stream is captured

    @property
    def backend(self) -> Untouchable:
        return self

    def _touched(self, *arguments: Any) -> NoReturn:
        raise AssertionError("a check touched data")

    address = property(_touched)
    read = write = record_stream = _touched


STORAGE: Any = Untouchable()


class Maker:
    """Random arguments of one operator."""

    def __init__(self, operator: Operator) -> None:
        self.random = random.Random(operator.name)
        self.operator = operator
        self.soc: Soc = SOCS[0]

    def values(self) -> list[Any]:
        chance = self.random.random
        self.soc = SOCS[0] if chance() < 0.6 else self.random.choice(SOCS)
        values = [self.value(p) for p in self.operator.parameters]
        like = next((v for v in values if isinstance(v, Tensor)), None)
        if like is not None and chance() < 0.2:  # what agrees gets further
            values = [like if isinstance(v, Tensor) else v for v in values]
        return values

    def value(self, parameter: Parameter) -> Any:
        kind, pick, chance = parameter.kind, self.random.choice, self.random.random
        if kind.pointer and chance() < (0.3 if parameter.optional else 0.04):
            return None
        if kind is Kind.TENSOR:
            return self.tensor(parameter)
        if kind is Kind.TENSOR_LIST:
            return [None if chance() < 0.05 else self.tensor(parameter) for _ in range(pick([0, 1, 1, 2, 3]))]
        if kind is Kind.SCALAR:
            return self.scalar()
        length = range(pick([0, 1, 1, 2, 2, 3, 4, 6, 9]))
        if kind is Kind.SCALAR_LIST:
            return [self.scalar() for _ in length]
        if kind is Kind.INT_ARRAY:
            return tuple(self.integer(Kind.INT64) for _ in length)
        if kind is Kind.FLOAT_ARRAY:
            return tuple(pick(FLOATS) for _ in length)
        if kind is Kind.BOOL_ARRAY:
            return tuple(pick([False, True]) for _ in length)
        if kind is Kind.STRING:
            return pick(STRINGS)
        if kind is Kind.DATA_TYPE:
            return int(pick([*DataType, 5, 99, -7, 2**31 - 1]))
        if kind in (Kind.FLOAT, Kind.DOUBLE):
            return pick(FLOATS)
        return pick([False, True]) if kind is Kind.BOOL else self.integer(kind)

    def tensor(self, parameter: Parameter) -> Tensor:
        pick, chance = self.random.choice, self.random.random
        known = self.operator.dtypes(parameter, self.soc.product)
        dtype = pick(known) if known and chance() < 0.8 else pick(list(DataType))
        rank = pick([0, 1, 2, 2, 3, 4, 4, 5, 6, 8, 9])
        if parameter.rank and parameter.rank.isdigit() and chance() < 0.7:
            rank = int(parameter.rank)
        sizes = [0, 1, 2, 3, 4, 8, 16, 32, 64, 128]
        if chance() < 0.1:
            sizes += [-1, 2**31, 2**40, 2**62]
        shape = (pick(sizes),) * rank if chance() < 0.5 else tuple(pick(sizes) for _ in range(rank))
        strides = contiguous_strides(shape) if chance() < 0.9 else tuple(pick([0, 1, 2, 7]) for _ in shape)
        label: Optional[Format] = pick(list(Format)) if chance() < 0.1 else None
        physical = tuple(pick(sizes) for _ in range(pick([1, 4, 5]))) if label and chance() < 0.5 else None
        return Tensor(STORAGE, shape, dtype, strides, pick([0, 0, 0, 3]), label, physical)

    def scalar(self) -> Scalar:
        value = self.random.choice([*FLOATS, *INTEGERS, True, False, 1j])
        try:
            return Scalar(value, self.random.choice([None, *DataType]))
        except ValueError:  # a value that the data type does not have
            return Scalar(value)

    def integer(self, kind: Kind) -> int:
        low, high = (0, RANGES[kind]) if "u" in kind.value else (-RANGES[kind], RANGES[kind])
        several = INTEGERS if self.random.random() < 0.3 else range(-3, 5)
        return self.random.choice([i for i in several if low <= i < high])


@pytest.mark.parametrize("family", sorted({catalog.get(name).family for name in catalog.names()}))
def test_phase_one_answers_whatever_comes(family: str) -> None:
    for operator in (catalog.get(name) for name in catalog.names()):
        if operator.family != family:
            continue
        maker = Maker(operator)
        for _ in range(SETS):
            values = maker.values()
            description = f"{operator.name} on {maker.soc.name}: {values}"
            problem = check(operator, values, maker.soc, description)
            if problem is not None:
                assert problem.argument is None or problem.argument in operator.positions, f"{description}: {problem}"
                assert problem.status > 100000 and problem.detail, f"{description}: {problem}"
                assert not CODE.search(problem.detail), f"{description}: {problem}"
                assert is_listed(operator, problem), f"{description}: {problem.check}"
            infer(operator, values, maker.soc, description)


def is_listed(operator: Operator, problem: RuleViolation) -> bool:
    """Whether a refusal is one of the rule's, or says what an expression needs of an argument."""
    known = rules.identifier(operator, problem) in rules.rule_of(operator).refusals(operator)
    return known or not GUARDS.isdisjoint(problem.check.split("/"))


def check(operator: Operator, values: list[Any], soc: Soc, description: str) -> Optional[RuleViolation]:
    try:
        return rules.check(operator, values, soc)
    except Exception as error:
        raise AssertionError(f"checking {description}") from error


def infer(operator: Operator, values: list[Any], soc: Soc, description: str) -> None:
    """A rule says what is wrong with inputs that admit no output."""
    inputs = [None if p.direction == "out" else v for p, v in zip(operator.parameters, values)]
    try:
        rules.infer(operator, inputs, soc)
    except RuleViolation:
        pass
    except Exception as error:
        raise AssertionError(f"inferring {description}") from error


def test_the_arguments_are_worth_it() -> None:
    """Among the sets of an elementwise operator are accepted ones and refused ones."""
    maker = Maker(catalog.get("aclnnAbs"))
    problems = [rules.check(maker.operator, maker.values(), maker.soc) for _ in range(SETS * 4)]
    assert None in problems and len({p.status for p in problems if p is not None}) > 1


def test_touching_data_is_noticed() -> None:
    tensor = Tensor(STORAGE, (2,), DataType.FLOAT, (1,))
    with pytest.raises(AssertionError, match="touched data"):
        tensor.numpy()
    array: npt.NDArray[np.float32] = np.zeros(2, np.float32)
    with pytest.raises(AssertionError, match="touched data"):
        tensor.assign(array)
