"""Arguments for any operator, found by trying: small random ones, until phase one and the reference accept a set."""

from __future__ import annotations

import functools
import random
from pathlib import Path
from typing import Any, Callable, Optional

import numpy as np
from long_tests import LONG

import ascend_aclnn as aclnn
import samples
from ascend_aclnn import AclError, ops, reference
from ascend_aclnn.catalog import REQUIRED, Kind, Operator, Parameter
from ascend_aclnn.core.dtypes import DataType

TRIES = 300
TRIES_BESIDE_AN_EXAMPLE = TRIES if LONG else 60  # most such operators ask for more than chance finds
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


class Search:
    """Tries arguments of one operator, the same ones on every run."""

    def __init__(self, operator: Operator) -> None:
        self.operator = operator
        self.random = random.Random(operator.name)

    def find(self, count: int) -> list[list[Any]]:
        """Up to ``count`` sets that run on the NumPy backend."""
        function, found = getattr(ops, self.operator.python_name), []
        with aclnn.use_backend("numpy"):
            for _ in range(TRIES if self.operator.example is None else TRIES_BESIDE_AN_EXAMPLE):
                arguments = self.arguments()
                try:
                    function(*copied(arguments))
                except AclError:
                    continue
                except (TypeError, ValueError) as error:  # a wrong call; one from inside does not begin so
                    if not str(error).startswith(self.operator.name + ":"):
                        raise
                    continue
                found.append(arguments)
                if len(found) == count:
                    break
        return found

    def arguments(self) -> list[Any]:
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


@functools.cache
def found(operator: Operator) -> list[list[Any]]:
    """A set of arguments that a search finds, by the default's rules; two where there is no example."""
    if reference.find(operator) is None or samples.soc(operator) is not None:
        return []
    return Search(operator).find(2 if operator.example is None else 1)


def copied(value: Any) -> Any:
    """The arguments again, in memory of their own: in-place operators change theirs."""
    if isinstance(value, list):
        return [copied(item) for item in value]
    return value.copy() if isinstance(value, np.ndarray) else value


def changed(value: Any, change: Callable[[Any], Any], shape: Optional[tuple[int, ...]] = None) -> Any:
    """An array, or the arrays of a list, changed; with ``shape``, where they have it."""
    if isinstance(value, list):
        return [changed(item, change, shape) for item in value]
    return change(value) if isinstance(value, np.ndarray) and shape in (None, value.shape) else value


def shapes(arguments: list[Any]) -> str:
    """The arguments in words, arrays by data type and shape."""
    return ", ".join(f"{a.dtype} {a.shape}" if isinstance(a, np.ndarray) else repr(a) for a in arguments)


def listed(path: Path) -> set[str]:
    """The operators of a list of gaps: the first word of each line that is no comment."""
    return {line.split()[0] for line in path.read_text().splitlines() if line[0] != "#"}


def spread(value: Any) -> Any:
    """The same arguments as views with gaps, backwards and in column-major order."""
    if isinstance(value, list):
        return [spread(item) for item in value]
    if not isinstance(value, np.ndarray) or not value.ndim:
        return value
    wide = np.zeros((*(2 * n for n in value.shape[:-1]), 3 * value.shape[-1]), value.dtype, "F")
    view = wide[(*(slice(None, None, -2) for _ in value.shape[:-1]), slice(1, None, 3))]
    view[...] = value
    return view


def arrays(results: Any) -> list[Any]:
    """The results of an operator in one flat list."""
    if isinstance(results, (list, tuple)):
        return [array for item in results for array in arrays(item)]
    return [results]
