"""The cases of an operator: its example, with other values, data types, shapes, layouts and attributes.

What is tried beside the example is found by asking the NumPy backend, which refuses what CANN would refuse: a reference
that accepts a variation, and gives finite results where the example's are, gives a case. As CANN's standard for operators asks
(see ``calls``), sizes are powers of two and one less; NaN and infinities, empty tensors and tensors of one element have cases
of their own.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Optional

import numpy as np
import numpy.typing as npt

import ascend_aclnn as aclnn
from ascend_aclnn.catalog import Kind, Operator, Parameter
from ascend_aclnn.core.socs import soc as find_soc
from ascend_aclnn.verify.calls import (
    ALL_AXES,
    FLOATS,
    LAYOUTS,
    SPECIAL,
    Case,
    NoCase,
    arrays,
    build,
    call_tensors,
    example,
    first_array,
    golden,
    numpy_type,
    reference_results,
)
from ascend_aclnn.verify.drawn import Draws
from ascend_aclnn.verify.samples import SAMPLES, ExampleCall

Array = npt.NDArray[Any]
SIZES = {"uniform": (1023, 255, 63), "normal": (1024, 256, 64)}  # of the axes that grow; of other values as for uniform
MOST = 1 << 17  # elements of a case's arguments and of its results
DRAWS = 2  # sets of arguments found by chance
OPTIONS = 3  # other values of an attribute
MOST_OPTIONS = 8  # of all attributes
STRINGS = (
    "none",
    "sum",
    "mean",
    "constant",
    "reflect",
    "trunc",
    "floor",
    "tanh",
    "none",
    "BSH",
    "BNSD",
    "right",
    "left",
    "add",
)


def cases(operator: Operator, soc: str) -> Iterator[Case]:
    """The cases of an operator by the rules of a SoC, the example's first; NoCase where the example itself does not pass.

    Each data type has cases of uniform and of normal values, of the larger sizes where there are some.
    """
    with aclnn.use_backend("numpy", soc=soc):
        call = example(operator)
        plain = _accept(operator, Case(), soc)
    yield Case()
    if operator.name in SAMPLES and SAMPLES[operator.name].alone:
        return
    first = first_array(operator, call)
    if first is not None:
        varying = dict.fromkeys(_varying(operator, soc, call, first, plain))
        yield from (case for case in varying if case != Case())
    yield from (Case(attribute=option) for option in _options(operator, soc, call, plain))
    yield from (Case("drawn", draw=number) for number in Draws(operator).accepted(DRAWS, soc))


def _varying(operator: Operator, soc: str, call: ExampleCall, first: Array, plain: list[Any]) -> Iterator[Case]:
    """The cases with other values, data types, sizes and layouts."""
    accepted = functools.partial(_accepted, operator, soc, _finite(plain))
    tensors = call_tensors(operator, call)
    base, floating = Case(), None
    for number, dtype in enumerate([None, *_other_dtypes(operator, first, soc)]):
        kind = first.dtype if dtype is None else numpy_type(dtype)
        variation = functools.partial(Case, dtype=dtype)
        modes = [next((mode for mode in choice if accepted(variation(mode))), "") for choice in _modes(kind, dtype)]
        modes = list(dict.fromkeys(filter(None, modes)))
        if not modes:
            continue
        for at, mode in enumerate(modes):
            size = _larger(tensors, plain, variation(mode), accepted)
            yield variation(mode, size=size)
            if dtype is None or at == number % 2:
                yield variation(mode)
        if floating is None and kind.name in FLOATS:
            floating, base = dtype or "", variation(modes[0])
        if kind.kind in "iu" and _taken(operator, soc, variation("extreme")):
            yield variation("extreme")
    if floating is not None:
        special = (Case(values, floating or None) for values in SPECIAL)
        yield from (case for case in special if _taken(operator, soc, case))
    yield from (case for case in (base._replace(layout=layout) for layout in LAYOUTS) if _taken(operator, soc, case))
    ones = base._replace(size=1, axis=ALL_AXES)
    if any(n != 1 for n in first.shape) and accepted(ones):
        yield ones
    empty = (base._replace(size=0, axis=axis) for axis, n in enumerate(first.shape) if n)
    yield from [case for case in empty if _taken(operator, soc, case)][:1]


def _modes(kind: np.dtype[Any], dtype: Optional[str]) -> Sequence[tuple[str, ...]]:
    """The values to try for a data type: of each tuple, the first that is accepted makes cases."""
    if kind.name in FLOATS:
        return ("uniform", "unit", "near", "example"), ("normal",)
    data = dtype is not None or kind.itemsize == 1  # numbers, and no indices
    return (("uniform", "example") if data and kind.kind in "iu" else ("example",),)


def _options(operator: Operator, soc: str, call: ExampleCall, plain: list[Any]) -> Iterator[tuple[str, Any]]:
    """Other values of attributes that the operator takes."""
    found = 0
    for parameter, value in zip(operator.inputs, call.arguments):
        accepted = 0
        for other in _other_values(parameter, value):
            if accepted == OPTIONS or found == MOST_OPTIONS:
                break
            if _accepted(operator, soc, _finite(plain), Case(attribute=(parameter.python_name, other))):
                accepted += 1
                found += 1
                yield parameter.python_name, other


_SEEDS = re.compile(
    "seed|offset|size|num|count|len|max|rank|world|depth|limit|capacity|cube_math"
)  # no numbers to try others of


def _other_values(parameter: Parameter, value: Any) -> list[Any]:
    if parameter.kind is Kind.BOOL:
        return [not value]
    if parameter.kind is Kind.STRING and isinstance(value, str):
        return [text for text in dict.fromkeys(STRINGS) if text != value]
    if parameter.kind.integer and not isinstance(value, bool) and isinstance(value, int):
        return [] if _SEEDS.search(parameter.python_name) else [n for n in (0, 1, -1, 2) if n != value]
    if parameter.kind in (Kind.FLOAT, Kind.DOUBLE) and isinstance(value, (int, float)):
        return [n for n in (0.5, 2.0) if n != value][:1]
    return []


def _other_dtypes(operator: Operator, first: Array, soc: str) -> list[str]:
    """The data types that the document allows beside the example's, for the parameter of its first array."""
    product = find_soc(soc).product
    for parameter in operator.inputs:
        if parameter.kind in (Kind.TENSOR, Kind.TENSOR_LIST):
            allowed = operator.dtypes(parameter, product) or ()
            return [d.name for d in allowed if d.numpy not in (None, first.dtype) and not d.packed]
    return []


def _larger(tensors: list[Any], results: list[Any], case: Case, accepted: Callable[[Case], bool]) -> Optional[int]:
    """The size of a larger case of a call with these tensors and results; None where there is none.

    Only calls of floats grow, and of truth values: indices belong to their shapes.
    """
    first = next(x for x in tensors if isinstance(x, np.ndarray))
    kind = first.dtype if case.dtype is None else numpy_type(case.dtype)
    if not all(isinstance(x, np.ndarray) for x in tensors) or not first.ndim or first.shape[0] < 2:
        return None
    kinds = [kind if x.dtype == first.dtype else x.dtype for x in tensors]
    data = kind.kind in "iu" and case.dtype is not None  # numbers, and no indices
    if not all(k.name in (*FLOATS, "bool") or (data and k == kind) for k in kinds):
        return None
    shapes = [x.shape for x in [*tensors, *arrays(results)] if x is not None]
    for size in SIZES.get(case.values, SIZES["uniform"]):
        grown = (math.prod(size if n == first.shape[0] else n for n in shape) for shape in shapes)
        if max(grown) <= MOST and accepted(case._replace(size=size)):
            return size
    return None


def _accept(operator: Operator, case: Case, soc: str) -> list[Any]:
    if case.layout:  # outputs may have to be in rows
        return reference_results(operator, case, soc)
    with aclnn.use_backend("numpy", soc=soc):
        return golden(operator, build(operator, case), soc)


def _taken(operator: Operator, soc: str, case: Case) -> bool:
    """Whether the reference takes a case, whose results may hold NaN and infinities."""
    try:
        return bool(sum(x.size for x in arrays(_accept(operator, case, soc)) if x is not None) <= MOST)
    except NoCase:
        return False


def _accepted(operator: Operator, soc: str, finite: list[bool], case: Case) -> bool:
    """Whether the reference takes a case, and its results are of a size and of values that can be compared."""
    try:
        results = _accept(operator, case, soc)
    except NoCase:
        return False
    small = sum(x.size for x in arrays(results) if x is not None) <= MOST
    return small and all(now or not before for now, before in zip(_finite(results), finite))


def _finite(results: list[Any]) -> list[bool]:
    values = (x.numpy() if isinstance(x, aclnn.Tensor) else x for x in arrays(results))
    return [x is None or x.dtype.name not in FLOATS or bool(np.isfinite(x).all()) for x in values]
