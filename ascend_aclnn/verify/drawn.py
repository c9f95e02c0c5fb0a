"""Arguments for any operator by chance: small random ones, among which an operator's rules choose."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np

import ascend_aclnn as aclnn
from ascend_aclnn import ops
from ascend_aclnn.catalog import REQUIRED, Kind, Operator, Parameter
from ascend_aclnn.core.dtypes import DataType
from ascend_aclnn.core.errors import AclError

TRIES = 60  # sets that are drawn for an operator; most that take none of these take none at all
SHAPES = [(2, 3), (4, 4), (6,), (2, 3, 4), (2, 3, 4, 4), (2, 2, 3, 4, 4), (1, 16), (16,), (1,), (), (8, 64), (2, 128)]
DTYPES = [
    DataType.FLOAT,
    DataType.FLOAT,
    DataType.FLOAT16,
    DataType.BF16,
    DataType.INT32,
    DataType.INT64,
    DataType.BOOL,
    DataType.COMPLEX64,
]
STRINGS = ["none", "sum", "mean", "constant", "trunc", "floor", "", "tanh", "BSH", "BNSD", "right", "left", "add"]


class Draws:
    """Draws sets of arguments of one operator, the same ones in every process."""

    def __init__(self, operator: Operator) -> None:
        self.operator = operator
        self.random = random.Random(operator.name)

    def arguments(self, number: int) -> list[Any]:
        """The set of a number, from 1."""
        self.random = random.Random(self.operator.name)
        for _ in range(number - 1):
            self.draw()
        return self.draw()

    def accepted(self, count: int, soc: str) -> Iterator[int]:
        """The numbers of the first sets, up to ``count``, that run on the NumPy backend with the rules of a SoC."""
        function = getattr(ops, self.operator.python_name)
        self.random = random.Random(self.operator.name)
        with aclnn.use_backend("numpy", soc=soc), np.errstate(all="ignore"):
            for number in range(1, TRIES + 1):
                try:
                    function(*self.draw())
                except (AclError, TypeError, ValueError):  # what else a reference raises is its fault
                    continue
                yield number
                count -= 1
                if not count:
                    return

    def draw(self) -> list[Any]:
        """The next set."""
        pick = self.random.choice
        shape, dtype = pick(SHAPES), pick(DTYPES)
        return [self.argument(parameter, shape, dtype) for parameter in self.operator.inputs]

    def argument(self, parameter: Parameter, shape: tuple[int, ...], dtype: DataType) -> Any:
        kind, pick, chance = parameter.kind, self.random.choice, self.random.random
        if kind.pointer and parameter.optional and chance() < 0.6:
            return None
        if parameter.default not in (REQUIRED, None) and chance() < 0.7:
            return parameter.default
        if kind is Kind.TENSOR:
            return self.array(parameter, shape, dtype)
        if kind is Kind.TENSOR_LIST:
            return [self.array(parameter, shape, dtype) for _ in range(2)]
        if kind is Kind.SCALAR:
            return pick([1, 2, 0.5, 1.0])
        if kind is Kind.SCALAR_LIST:
            return pick([[1.0, 2.0], [1, 2]])
        if kind is Kind.INT_ARRAY:
            axes = list(range(len(shape)))
            lengths = [[n] * count for n in (0, 1, 2) for count in (1, 2, 3, 4, 6)]
            return pick([list(shape), axes, [-1], [0, 1], [1, 0], [1] * len(shape), [0] * len(shape), *lengths])
        if kind is Kind.FLOAT_ARRAY:
            return [1.0] * pick([1, 2])
        if kind is Kind.BOOL_ARRAY:
            return [True] * pick([1, 2, 3])
        if kind is Kind.STRING:
            return pick(STRINGS)
        if kind is Kind.DATA_TYPE:
            return pick([dtype, DataType.FLOAT, DataType.INT32])
        if kind in (Kind.FLOAT, Kind.DOUBLE):
            return pick([0.5, 1.0, 0.0, 1e-5])
        return chance() < 0.5 if kind is Kind.BOOL else pick([0, 0, 1, 1, 2, -1, 3, 4, 8])

    def array(self, parameter: Parameter, shape: tuple[int, ...], dtype: DataType) -> Any:
        pick, chance = self.random.choice, self.random.random
        known = [d for d in self.operator.dtypes(parameter, "A2") or [DataType.FLOAT] if d.numpy is not None]
        if not known:
            return None
        if dtype not in known or chance() < 0.1:
            dtype = pick(known)
        if chance() < 0.25:
            shape = pick(SHAPES)
        if parameter.rank and parameter.rank.isdigit() and len(shape) != int(parameter.rank) and chance() < 0.8:
            shape = tuple(pick([1, 2, 3, 4]) for _ in range(int(parameter.rank)))
        shape = pick([shape] * 8 + [shape[-1:], shape[:-1]])
        numbers = np.random.default_rng(self.random.getrandbits(32))
        assert dtype.numpy is not None
        if dtype.name.startswith("COMPLEX"):
            return (numbers.random(shape) + 1j * numbers.random(shape)).astype(dtype.numpy)
        if "INT" in dtype.name or dtype is DataType.BOOL:
            return np.asarray(numbers.integers(0, 2, shape)).astype(dtype.numpy)
        return np.asarray(numbers.random(shape) * 0.9 + 0.05).astype(dtype.numpy)
