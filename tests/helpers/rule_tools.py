"""What the tests of the rules share: tensors without data, the status of a call, what binding would allocate."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Optional

import pytest

from ascend_aclnn import catalog, rules
from ascend_aclnn.core.dtypes import DataType, Format
from ascend_aclnn.core.scalar import Scalar
from ascend_aclnn.core.socs import soc as find_soc
from ascend_aclnn.core.spec import TensorSpec

A2, A3, OLD, OLD_310P, NEW_950 = "Ascend910B1", "Ascend910_9391", "Ascend910A", "Ascend310P3", "Ascend950PR_9599"


# What a message has no place for: pieces of the rules' own notation.
CODE = re.compile(
    r"\b(len|prod|all|any|max|min|sum|zip|range|broadcasts?|ceil_div)\(|\[[^\]]*:[^\]]*\]|\bif\b.*\belse\b|[=!<>]=|\blambda\b"
)


def t(
    shape: Sequence[int], dtype: str = "FLOAT", format: str = "ND", strides: Optional[Sequence[int]] = None
) -> TensorSpec:
    """A tensor of a shape and data type, without memory."""
    return TensorSpec(tuple(shape), DataType[dtype], None if strides is None else tuple(strides), 0, Format[format])


def s(value: Any, dtype: str) -> Scalar:
    scalar = Scalar(value)
    scalar.dtype = DataType[dtype]
    return scalar


def status(name: str, *values: Any, soc: str = A2) -> int:
    """What phase one returns."""
    problem = rules.check(catalog.get(name), values, find_soc(soc))
    return 0 if problem is None else problem.status


def each_case(cases: Sequence[tuple[str, int, tuple[Any, ...], str]]) -> pytest.MarkDecorator:
    """Runs a test on each (operator, status of phase one, arguments, SoC)."""
    names = [f"{i}-{name}-{expected}-{soc}" for i, (name, expected, _, soc) in enumerate(cases)]
    return pytest.mark.parametrize(("name", "expected", "values", "soc"), cases, ids=names)


def detail(name: str, *values: Any, soc: str = A2) -> str:
    problem = rules.check(catalog.get(name), values, find_soc(soc))
    return "" if problem is None else problem.detail


def inferred(name: str, *values: Any, soc: str = A2) -> list[tuple[Any, str]]:
    """Shape and data type of each pure output, from the values of the other parameters."""
    operator = catalog.get(name)
    left = iter(values)
    full = [None if p.direction == "out" else next(left) for p in operator.parameters]
    specs = rules.infer(operator, full, find_soc(soc))
    outputs = [p.name for p in operator.parameters if p.direction == "out"]
    return [_shape_and_dtype(specs[n]) for n in outputs]


def _shape_and_dtype(spec: Any) -> tuple[Any, str]:
    """Of an inferred output; of a list, the shapes of its tensors and their data type; None for a null pointer."""
    if isinstance(spec, list):
        return [item.shape for item in spec], spec[0].dtype.name if spec else ""
    return (None, "") if spec is None else (spec.shape, spec.dtype.name)


def accepted(name: str, *values: Any, soc: str = A2) -> int:
    """What phase one returns for outputs as they are allocated."""
    operator = catalog.get(name)
    left, made = iter(values), iter(inferred(name, *values, soc=soc))

    def output() -> Any:
        shape, dtype = next(made)
        if isinstance(shape, list):
            return [t(sizes, dtype) for sizes in shape]
        return None if shape is None else t(shape, dtype)

    full = [output() if p.direction == "out" else next(left) for p in operator.parameters]
    return status(name, *full, soc=soc)


def by_name(name: str, **given: Any) -> list[Any]:
    """The values of all parameters by C name; those not given are null pointers or zeros."""
    operator = catalog.get(name)
    unknown = set(given) - set(operator.positions)
    assert not unknown, f"{name} has no parameters {unknown}"
    return [given.get(p.name, None if p.kind.pointer else 0) for p in operator.parameters]


def made(name: str, soc: str = A2, **given: Any) -> dict[str, Any]:
    """Shape and data type of each output that binding would allocate, by C name."""
    operator = catalog.get(name)
    specs = rules.infer(operator, by_name(name, **given), find_soc(soc))
    return {p.name: _shape_and_dtype(specs[p.name]) for p in operator.outputs if p.name in specs}
