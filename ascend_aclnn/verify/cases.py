"""The calls of an operator that are tried: its example, with other values, data types and a larger size.

What is tried beside the example is found by asking the NumPy backend, which refuses what CANN would refuse: a reference
that accepts a variation, and gives finite results where the example's are, gives a case.
"""

from __future__ import annotations

import functools
import inspect
import math
import zlib
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, NamedTuple, Optional

import ml_dtypes
import numpy as np
import numpy.typing as npt

import ascend_aclnn as aclnn
from ascend_aclnn import ops
from ascend_aclnn.catalog import Kind, Operator
from ascend_aclnn.communicator import Communicator
from ascend_aclnn.core import hifloat8
from ascend_aclnn.core.dtypes import DataType
from ascend_aclnn.core.errors import AclError
from ascend_aclnn.core.socs import soc as find_soc

SIZES = (1031, 257, 67)  # of the axes that grow: prime, so that the last tile of every tiling is a part of one
MOST = 1 << 17  # elements of a case's arguments and of its results
FLOATS = ("float16", "bfloat16", "float32", "float64")
Array = npt.NDArray[Any]


class ExampleCall(NamedTuple):
    """The arguments of an operator in the order of its parameters, and the outputs that an example passes."""

    arguments: list[Any]
    options: dict[str, Any]


class Case(NamedTuple):
    """A variation of an operator's example; ``label`` names it."""

    values: str = "example"  # the example's, "uniform", "normal", or "near" the example's
    dtype: Optional[str] = None  # of CANN, in place of the data type of the example's first array
    size: int = 0  # of every axis that is as long as the first array's first; 0: the example's
    seed: int = 0  # of the numbers

    @property
    def label(self) -> str:
        words = [self.values, self.dtype or "", f"size {self.size}" if self.size else ""]
        return ", ".join(filter(None, words))


@functools.cache
def comm() -> Communicator:
    """The communicator of one rank that examples of operators that communicate name, on the NumPy backend."""
    with aclnn.use_backend("numpy"):
        return Communicator.from_root_info(root_info(), 0, 1)


@functools.cache
def root_info() -> bytes:
    """Names come from the root info: a communicator of another backend with the same one has the same name."""
    with aclnn.use_backend("numpy"):
        return Communicator.root_info()


def example(operator: Operator) -> ExampleCall:
    """The call of an operator's example: new arrays each time, and Tensors of the current backend."""
    if operator.example is None:
        raise ValueError(f"{operator.name} has no example")
    signature = inspect.signature(getattr(ops, operator.python_name))

    def collect(*args: Any, out: Any = None, **kwargs: Any) -> ExampleCall:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return ExampleCall(list(bound.args), {} if out is None else {"out": out})

    names = {
        "aclnn": aclnn,
        "comm": comm() if "comm." in operator.example.call else None,
        "ml_dtypes": ml_dtypes,
        "np": np,
        "ops": SimpleNamespace(**{operator.python_name: collect}),
    }
    call: ExampleCall = eval(operator.example.call, names)
    return call


def build(operator: Operator, case: Case) -> ExampleCall:
    """The arguments of a case, the same numbers each time."""
    call = example(operator)
    if case == Case():
        return call
    first = _first_array(operator, call)
    random = np.random.default_rng([zlib.crc32(f"{operator.name} {case.label}".encode()), case.seed])
    dtype = None if first is None or case.dtype is None else (first.dtype, _numpy(case.dtype))
    axis = (first.shape[0], case.size) if first is not None and first.ndim and case.size else None
    vary = functools.partial(_varied, values=case.values, dtype=dtype, axis=axis, random=random)
    arguments = [
        _each(value, vary) if parameter.kind in (Kind.TENSOR, Kind.TENSOR_LIST) else value
        for parameter, value in zip(operator.inputs, call.arguments)
    ]
    return ExampleCall(arguments, call.options)


def _numpy(name: str) -> np.dtype[Any]:
    """The NumPy type of a data type that has one."""
    dtype = DataType[name].numpy
    assert dtype is not None
    return dtype


def _each(value: Any, change: Callable[[Array], Array]) -> Any:
    """The arrays of an argument, changed; what is no array (None, a Tensor) stays."""
    if isinstance(value, list):
        return [_each(item, change) for item in value]
    return change(value) if isinstance(value, np.ndarray) else value


def arrays(value: Any) -> list[Any]:
    """The items of an argument or of results in one flat list."""
    if isinstance(value, (list, tuple)):
        return [array for item in value for array in arrays(item)]
    return [value]


def _tensors(operator: Operator, call: ExampleCall) -> list[Any]:
    """The tensors of a call, without absent ones."""
    pairs = zip(operator.inputs, call.arguments)
    tensors = [x for p, value in pairs if p.kind in (Kind.TENSOR, Kind.TENSOR_LIST) for x in arrays(value)]
    return [x for x in tensors if x is not None]


def _first_array(operator: Operator, call: ExampleCall) -> Optional[Array]:
    return next((x for x in _tensors(operator, call) if isinstance(x, np.ndarray)), None)


def _varied(
    array: Array,
    values: str,
    dtype: Optional[tuple[np.dtype[Any], np.dtype[Any]]],
    axis: Optional[tuple[int, int]],
    random: np.random.Generator,
) -> Array:
    """An array of the case: of another type and size, with other numbers where they are floats."""
    kind = dtype[1] if dtype is not None and array.dtype == dtype[0] else array.dtype
    shape = tuple(axis[1] if axis is not None and n == axis[0] else n for n in array.shape)
    if kind.name not in FLOATS or values == "example":
        return hifloat8.convert(np.resize(array, shape), kind)
    if values == "uniform":
        numbers = random.uniform(0.05, 1, shape)
    elif values == "normal":
        numbers = random.standard_normal(shape)
    else:
        numbers = np.resize(array.astype(np.float64), shape) * random.uniform(0.8, 1.2, shape)
    return hifloat8.convert(numbers, kind)


class NoCase(Exception):
    """No case: the reference does not accept the call, or gives what cannot be compared."""


def golden(operator: Operator, call: ExampleCall, soc: str, out: Any = None) -> list[Any]:
    """The results of the NumPy reference by the rules of a SoC, one for each output; a list for a list of tensors."""
    options = call.options if out is None else {"out": out}
    with aclnn.use_backend("numpy", soc=soc), np.errstate(all="ignore"):
        try:
            results = getattr(ops, operator.python_name)(*call.arguments, **options)
        except (AclError, TypeError, ValueError) as error:
            raise NoCase(str(error).splitlines()[0]) from None
    return list(results) if len(operator.outputs) > 1 else [results]


def cases(operator: Operator, soc: str, thorough: bool = False, seed: int = 0) -> Iterator[Case]:
    """The cases of an operator by the rules of a SoC, the example's first; NoCase where the example itself does not pass.

    Each data type has one case, of uniform and of normal values in turn and of the larger size where there is one;
    ``thorough`` gives it both values in both sizes.
    """
    with aclnn.use_backend("numpy", soc=soc):
        call = example(operator)
        plain = _accept(operator, Case(), soc)
    yield Case()
    first = _first_array(operator, call)
    if first is None:
        return
    finite = _finite(plain)
    kinds = [None, *_other_dtypes(operator, first, soc)]
    for number, dtype in enumerate(kinds):
        accepted = functools.partial(_accepted, operator, soc, finite)
        variation = functools.partial(Case, dtype=dtype, seed=seed)
        modes = [mode for mode in ("uniform", "normal") if accepted(variation(mode))]
        modes = modes or [mode for mode in ("near", "example") if accepted(variation(mode))][:1]
        if not modes:
            continue
        size = _larger(_tensors(operator, call), plain, variation(modes[-1]), accepted)
        chosen = [variation(modes[number % len(modes)], size=size)]
        if dtype is None:
            chosen += [variation(mode) for mode in modes]
        if thorough:
            chosen += [variation(mode, size=length) for mode in modes for length in (0, size)]
        yield from (case for case in dict.fromkeys(chosen) if case._replace(seed=0) != Case())


def _other_dtypes(operator: Operator, first: Array, soc: str) -> list[str]:
    """The data types that the document allows beside the example's, for the parameter of its first array."""
    product = find_soc(soc).product
    for parameter in operator.inputs:
        if parameter.kind in (Kind.TENSOR, Kind.TENSOR_LIST):
            allowed = operator.dtypes(parameter, product) or ()
            return [d.name for d in allowed if d.numpy not in (None, first.dtype) and not d.packed]
    return []


def _larger(tensors: list[Any], results: list[Any], case: Case, accepted: Callable[[Case], bool]) -> int:
    """The size of a larger case of a call with these tensors and results; 0 where there is none.

    Only calls of floats grow: indices belong to their shapes.
    """
    first = next(x for x in tensors if isinstance(x, np.ndarray))
    kind = first.dtype if case.dtype is None else _numpy(case.dtype)
    if not all(isinstance(x, np.ndarray) for x in tensors) or not first.ndim or first.shape[0] < 2:
        return 0
    if not all((kind if x.dtype == first.dtype else x.dtype).name in FLOATS for x in tensors):
        return 0
    shapes = [x.shape for x in [*tensors, *arrays(results)] if x is not None]
    for size in SIZES:
        grown = (math.prod(size if n == first.shape[0] else n for n in shape) for shape in shapes)
        if max(grown) <= MOST and accepted(case._replace(size=size)):
            return size
    return 0


def _accept(operator: Operator, case: Case, soc: str) -> list[Any]:
    with aclnn.use_backend("numpy", soc=soc):
        return golden(operator, build(operator, case), soc)


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
