"""A case of an operator, and the call that it stands for: its arguments, where they lie, what the reference gives for them.

Values follow CANN's standard for operators (opbase, docs/zh/ops_precision_standard/experimental_standard.md, section 1): half
of the cases uniform in [-5, 5], half normal with a mean in [-5, 5] and a deviation in [0.1, 2]. Outputs are made before a call
and filled with bytes that are no result, so that what is not written is seen.
"""

from __future__ import annotations

import functools
import inspect
import json
import re
import zlib
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple, Optional

import ml_dtypes
import numpy as np
import numpy.typing as npt

import ascend_aclnn as aclnn
from ascend_aclnn import ops
from ascend_aclnn.catalog import Kind, Operator, Parameter
from ascend_aclnn.communicator import Communicator
from ascend_aclnn.core import hifloat8
from ascend_aclnn.core.dtypes import DataType, as_datatype
from ascend_aclnn.core.errors import AclError
from ascend_aclnn.core.socs import DEFAULT_SOC
from ascend_aclnn.core.socs import soc as find_soc
from ascend_aclnn.verify.drawn import Draws
from ascend_aclnn.verify.samples import SAMPLES, ExampleCall, wanted_soc

FLOATS = ("float16", "bfloat16", "float32", "float64")
RANDOM = ("uniform", "normal", "unit", "near")  # values, the first that an operator takes
SPECIAL = ("zeros", "denormal", "extreme", "inf", "nan")
LAYOUTS = ("strided", "strided outputs", "offset")
NULL = "null pointer"
ALL_AXES = -1
FILL = 0x5B  # in every byte of an output before the call; no truth value, and a large number in every float type
Array = npt.NDArray[Any]


class Case(NamedTuple):
    """A variation of an operator's example. ``label`` says which, and ``parse`` reads it."""

    values: str = "example"  # the example's, one of RANDOM or SPECIAL, "drawn" by chance, or NULL for a required tensor
    dtype: Optional[str] = None  # of CANN, in place of the data type of the example's first array
    size: Optional[int] = None  # of every axis that is as long as an axis of the first array; None: the example's
    axis: int = 0  # this axis of the first array, or ALL_AXES: every axis of every array
    layout: str = ""  # of LAYOUTS
    attribute: Optional[tuple[str, Any]] = None  # a parameter's Python name, and its value
    draw: int = 0  # which of the sets that are drawn
    seed: int = 0  # of the numbers

    @property
    def label(self) -> str:
        axis = "" if self.axis == 0 else " on all axes" if self.axis == ALL_AXES else f" on axis {self.axis}"
        words = [
            self.values,
            self.dtype or "",
            "" if self.size is None else f"size {self.size}{axis}",
            self.layout,
            "" if self.attribute is None else f"{self.attribute[0]}={json.dumps(self.attribute[1])}",
            f"draw {self.draw}" if self.draw else "",
        ]
        return ", ".join(filter(None, words))

    @classmethod
    def parse(cls, label: str, seed: int = 0) -> Case:
        """The case of a label; ValueError for a text that is none."""
        match = _LABEL.fullmatch(label)
        if match is None or (match["dtype"] is not None and match["dtype"] not in DataType.__members__):
            raise ValueError(f"{label!r} names no case")
        size = None if match["size"] is None else int(match["size"])
        axis = int(match["axis"] or 0) if not match["all"] else ALL_AXES
        attribute = None if match["name"] is None else (match["name"], json.loads(match["value"]))
        return cls(
            match["values"], match["dtype"], size, axis, match["layout"] or "", attribute, int(match["draw"] or 0), seed
        )


_LABEL = re.compile(
    f"(?P<values>example|drawn|{NULL}|{'|'.join((*RANDOM, *SPECIAL))})"
    "(?:, (?P<dtype>[A-Z][A-Z0-9_]+))?"
    "(?:, size (?P<size>[0-9]+)(?: on (?:(?P<all>all axes)|axis (?P<axis>[0-9]+)))?)?"
    f"(?:, (?P<layout>{'|'.join(sorted(LAYOUTS, key=len, reverse=True))}))?"
    "(?:, (?P<name>[a-z_0-9]+)=(?P<value>.+?))?"
    "(?:, draw (?P<draw>[0-9]+))?"
)


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
        if operator.name not in SAMPLES:
            raise ValueError(f"{operator.name} has no example")
        return SAMPLES[operator.name].make()
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
    """The arguments of a case, the same numbers each time; its layout is for ``laid_out``."""
    if case.values == "drawn":
        return ExampleCall(Draws(operator).arguments(case.draw), {})
    call = example(operator)
    if case.attribute is not None:
        call.arguments[_position(operator, case.attribute[0])] = case.attribute[1]
    first = first_array(operator, call)
    plain = case.values == "example" and case.dtype is None and case.size is None
    if first is None or plain or case.values == NULL:
        return call
    label = case._replace(layout="", attribute=None).label
    random = np.random.default_rng([zlib.crc32(f"{operator.name} {label}".encode()), case.seed])
    arguments = list(call.arguments)
    for at, parameter in enumerate(operator.inputs):
        if parameter.kind in (Kind.TENSOR, Kind.TENSOR_LIST):
            changed = case.dtype is not None and _takes(operator, parameter, case.dtype)
            dtype = (first.dtype, numpy_type(case.dtype)) if case.dtype is not None and changed else None
            vary = functools.partial(_varied, case=case, first=first, dtype=dtype, random=random)
            arguments[at] = _each(arguments[at], vary)
    return call._replace(arguments=arguments)


def _takes(operator: Operator, parameter: Parameter, dtype: str) -> bool:
    """Whether the document lets a parameter have a data type: a statistic that is always FLOAT stays it."""
    allowed = operator.dtypes(parameter, find_soc(wanted_soc(operator) or DEFAULT_SOC).product)
    return not allowed or DataType[dtype] in allowed


def _position(operator: Operator, name: str) -> int:
    return next(i for i, parameter in enumerate(operator.inputs) if parameter.python_name == name)


def laid_out(operator: Operator, call: ExampleCall, layout: str) -> ExampleCall:
    """The call with Tensors of the backend in use in place of its arrays, in memory as the layout says."""
    where = "" if layout == "strided outputs" else layout
    pairs = zip(operator.inputs, call.arguments)
    tensors = (Kind.TENSOR, Kind.TENSOR_LIST)
    return call._replace(arguments=[placed(v, where) if p.kind in tensors else v for p, v in pairs])


def placed(value: Any, layout: str) -> Any:
    """An argument or outputs with ``place`` for each array."""
    if isinstance(value, (list, tuple)):
        return type(value)(placed(item, layout) for item in value)
    return place(value, layout) if isinstance(value, np.ndarray) else value


def place(array: Array, layout: str) -> aclnn.Tensor:
    """An array as a Tensor with memory of its own: in rows, with gaps and in column-major order, or behind other elements."""
    if not layout or not array.size:
        return aclnn.asarray(array)
    if as_datatype(array.dtype).packed:
        raise NoCase(f"elements of {array.dtype} share bytes, which only whole rows do")
    strides, step = [], 2
    for n in array.shape:
        strides.append(step)
        step *= n + 1
    if layout == "offset":
        tensor = aclnn.empty(array.shape, array.dtype, offset=7)
    else:
        tensor = aclnn.empty(array.shape, array.dtype, strides=strides, offset=1)
    tensor.assign(array)
    return tensor


def numpy_type(name: str) -> np.dtype[Any]:
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


def call_tensors(operator: Operator, call: ExampleCall) -> list[Any]:
    """The tensors of a call, without absent ones."""
    pairs = zip(operator.inputs, call.arguments)
    tensors = [x for p, value in pairs if p.kind in (Kind.TENSOR, Kind.TENSOR_LIST) for x in arrays(value)]
    return [x for x in tensors if x is not None]


def first_array(operator: Operator, call: ExampleCall) -> Optional[Array]:
    """The first array of a call, whose data type and shape a case changes; None where there is none."""
    return next((x for x in call_tensors(operator, call) if isinstance(x, np.ndarray)), None)


def _varied(
    array: Array,
    case: Case,
    first: Array,
    dtype: Optional[tuple[np.dtype[Any], np.dtype[Any]]],
    random: np.random.Generator,
) -> Array:
    """An array of the case: of another type and size, with other numbers where they are floats, other truth values."""
    changed = dtype is not None and array.dtype == dtype[0]
    kind = dtype[1] if dtype is not None and changed else array.dtype
    shape = _resized(array.shape, case, first)
    if kind.name == "bool" and case.values in ("uniform", "normal"):
        return np.asarray(random.random(shape) < 0.5)
    quantised = dtype is None and array.dtype == first.dtype and kind.itemsize == 1
    if (changed or quantised) and kind.kind in "iu" and case.values in ("uniform", "extreme"):
        return _integers(case.values, shape, kind, random)
    if kind.name not in FLOATS or case.values == "example":
        return hifloat8.convert(np.resize(array, shape), kind)
    if case.values == "uniform":
        numbers = random.uniform(-5, 5, shape)
    elif case.values == "normal":
        numbers = random.normal(random.uniform(-5, 5), random.uniform(0.1, 2), shape)
    elif case.values == "near":
        numbers = np.resize(array.astype(np.float64), shape) * random.uniform(0.8, 1.2, shape)
    else:
        numbers = random.uniform(0.05, 1, shape)
    if case.values in SPECIAL and array is first:
        _put_special(numbers, case.values, kind)
    with np.errstate(all="ignore"):
        return hifloat8.convert(numbers, kind)


def _integers(values: str, shape: tuple[int, ...], dtype: np.dtype[Any], random: np.random.Generator) -> Array:
    limits = np.iinfo(dtype)
    numbers = random.integers(max(limits.min, -5), 6, shape)
    if values == "extreme":
        chosen = numbers.reshape(-1)[::3]
        chosen[...] = np.resize([min(limits.max, 2**63 - 1), limits.min], chosen.shape)
    return np.asarray(numbers).astype(dtype)


def _resized(shape: tuple[int, ...], case: Case, first: Array) -> tuple[int, ...]:
    if case.size is None:
        return shape
    if case.axis == ALL_AXES:
        return (case.size,) * len(shape)
    return tuple(case.size if n == first.shape[case.axis] else n for n in shape)


def _put_special(numbers: Array, values: str, dtype: np.dtype[Any]) -> None:
    """Every third number becomes a special one."""
    limits: Any = ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]
    special = {
        "zeros": (0.0, -0.0),
        "denormal": (float(limits.smallest_subnormal), -float(limits.smallest_normal) / 2),
        "extreme": (float(limits.max), float(limits.min), float(limits.smallest_normal)),
        "inf": (np.inf, -np.inf),
        "nan": (np.nan,),
    }[values]
    chosen = numbers.reshape(-1)[::3]
    chosen[...] = np.resize(special, chosen.shape)


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
    return call.judged(list(results) if len(operator.outputs) > 1 else [results])


def reference_results(operator: Operator, case: Case, soc: str) -> list[Any]:
    """The reference's results of a case, in outputs that are filled before: what it leaves alone is no result."""
    with aclnn.use_backend("numpy", soc=soc):
        shapes = golden(operator, _call(operator, case), soc)
        return golden(operator, _call(operator, case), soc, filled_outputs(operator, shapes, case.layout))


def _call(operator: Operator, case: Case) -> ExampleCall:
    """The call of a case: Tensors of the backend in use where the layout asks for them, arrays elsewhere."""
    call = build(operator, case)
    return laid_out(operator, call, case.layout) if case.layout else call


def uploaded(operator: Operator, call: ExampleCall) -> ExampleCall:
    """The call with its arrays in memory of the backend in use."""
    return laid_out(operator, call, "")


def filled_outputs(operator: Operator, expected: list[Any], layout: str = "") -> Any:
    """Filled outputs for ``out=``; None where the data tell their shapes, and the rule allocates for the worst case."""
    return None if operator.data_dependent else like_outputs(operator, expected, layout)


def like_outputs(operator: Operator, expected: list[Any], layout: str = "") -> Any:
    """Filled outputs like the expected ones: Tensors on the device, ndarrays on the NumPy backend."""
    where = {"strided outputs": "strided", "offset": "offset"}.get(layout, "")
    filled = tuple(_filled(value, where) for p, value in zip(operator.outputs, expected) if p.direction == "out")
    return filled if len(filled) > 1 else filled[0] if filled else None


def _filled(value: Any, layout: str) -> Any:
    if isinstance(value, (list, tuple)):
        return [_filled(item, layout) for item in value]
    if isinstance(value, aclnn.Tensor) and not value.has_auto_format:
        out = aclnn.empty(value.shape, value.dtype, format=value.format, storage_shape=value.storage_shape)
        out.assign(filled_array(value.numpy()))
        return out
    if value is None:
        return None
    if isinstance(value, np.ndarray) and aclnn.backend().name == "numpy":
        return filled_array(value)
    return place(filled_array(np.asarray(value)), layout)


def filled_array(array: Array) -> Array:
    return np.frombuffer(bytes([FILL]) * array.nbytes, array.dtype).reshape(array.shape).copy()
