"""From Python arguments to one value per C parameter, and from output values back to Python results.

Only ndarrays in: ndarrays out, synchronous. Any Tensor, a Tensor ``out=`` or ``stream=``: Tensors out, asynchronous on
the stream. Every operator goes through ``call``; what differs between them is data of the catalog and the rules.
"""

from __future__ import annotations

import collections
import functools
import math
import numbers
import operator as python_operator
from collections.abc import Sequence
from typing import Any, Callable, NamedTuple, Optional, Union

import numpy as np
import numpy.typing as npt

from ascend_aclnn import rules
from ascend_aclnn.backends import Backend, backend
from ascend_aclnn.backends.numpy import NumpyBackend, host_memory, refusal, wrap
from ascend_aclnn.catalog import REQUIRED, Kind, Operator, Parameter
from ascend_aclnn.dtypes import DataType, Format, as_datatype
from ascend_aclnn.rules.language import OutputSpec
from ascend_aclnn.scalar import Scalar
from ascend_aclnn.socs import soc
from ascend_aclnn.streams import Stream, check_stream
from ascend_aclnn.tensor import Tensor, contiguous_strides, empty

# Ranges of the by-value integers.
_INTEGERS = {
    Kind.INT8: (-(2**7), 2**7 - 1),
    Kind.INT32: (-(2**31), 2**31 - 1),
    Kind.UINT32: (0, 2**32 - 1),
    Kind.INT64: (-(2**63), 2**63 - 1),
    Kind.UINT64: (0, 2**64 - 1),
}
_ARRAYS: dict[Kind, Callable[[Any], Any]] = {
    Kind.INT_ARRAY: python_operator.index,
    Kind.FLOAT_ARRAY: float,
    Kind.BOOL_ARRAY: bool,
}
# What "auto" becomes where an operator documents this format.
_BY_RANK = {3: Format.NCL, 4: Format.NCHW, 5: Format.NCDHW}


class _WriteBack(NamedTuple):
    """A device copy of an ndarray that the operator changes."""

    tensor: Tensor
    array: npt.NDArray[Any]


class _Allocation(NamedTuple):
    """How to make an inferred output."""

    shape: tuple[int, ...]
    dtype: DataType
    strides: tuple[int, ...]
    nbytes: int
    format: Optional[Format]


Made = Union[_Allocation, list[_Allocation], None]  # of an output: a tensor, a tensor list, a null pointer


class Plan:
    """What binding knows of an operator, worked out once."""

    def __init__(self, operator: Operator) -> None:
        positions = list(enumerate(operator.parameters))
        self.operator = operator
        self.inputs = [(i, p, p.kind) for i, p in positions if p.direction != "out"]
        self.outputs = [(i, p) for i, p in positions if p.direction == "out"]
        self.results = [i for i, p in positions if p.direction != "in"]
        self.formats = {i: _auto_formats(p) for i, p in positions if p.kind in (Kind.TENSOR, Kind.TENSOR_LIST)}
        self.inferred: dict[Any, dict[str, Made]] = {}
        names = [operator.parameters[i].python_name for i in self.results]
        short = operator.name.replace("aclnn", "", 1)
        self.result_type = collections.namedtuple(short + "Result", names) if len(names) > 1 else None


@functools.cache
def plan(operator: Operator) -> Plan:
    return Plan(operator)


def call(plan: Plan, args: Sequence[Any], out: Any, stream: Optional[Stream]) -> Any:
    """One call of an operator: bind, infer or take the outputs, run, and give back what the contract says."""
    engine = backend()
    operator = plan.operator
    if stream is not None:
        check_stream(stream, engine)
    on_device = stream is not None or _holds_tensor(args) or _holds_tensor((out,))
    values: list[Any] = [None] * len(operator.parameters)
    changed: list[_WriteBack] = []
    for (position, parameter, kind), arg in zip(plan.inputs, args):
        if arg is REQUIRED:
            raise TypeError(f"{operator.python_name}() missing required argument: {parameter.python_name!r}")
        if kind is Kind.TENSOR and type(arg) is Tensor and arg.storage.backend is engine and not plan.formats[position]:
            values[position] = arg  # what happens most, without a further call
            continue
        values[position] = _value(engine, plan, position, parameter, kind, arg, on_device, changed)
    results = _outputs(engine, plan, values, out, on_device, changed)
    engine.run(operator, values, stream)
    if operator.name in rules.DATA_DEPENDENT:
        _cut_to_data(engine, plan, values)
    if not on_device:
        return _host_results(engine, plan, values, results, changed)
    return _pack(plan, [values[i] for i in plan.results])


def _cut_to_data(engine: Backend, plan: Plan, values: Sequence[Any]) -> None:
    """Gives outputs whose shape depends on data the shape they got: the front of what was allocated. Waits for it."""
    for position, _ in plan.outputs:
        tensor = values[position]
        if isinstance(tensor, Tensor):
            shape = engine.view_shape(tensor)
            if shape != tensor.shape:
                tensor.shape, tensor.strides = shape, contiguous_strides(shape)


def exact_values(engine: Backend, operator: Operator, args: Sequence[Any]) -> list[Any]:
    """Values for ``Executor``: one argument for every C parameter, in C order, outputs too."""
    if len(args) != len(operator.parameters):
        names = ", ".join(p.name for p in operator.parameters)
        raise TypeError(f"{operator.name} takes {len(operator.parameters)} arguments ({names}); {len(args)} were given")
    made = plan(operator)
    values = []
    for position, (parameter, arg) in enumerate(zip(operator.parameters, args)):
        if isinstance(arg, np.ndarray) and parameter.kind in (Kind.TENSOR, Kind.TENSOR_LIST):
            if not isinstance(engine, NumpyBackend):
                raise TypeError(
                    _about(operator, parameter, "is an ndarray; an Executor on the npu backend takes Tensors")
                )
            if parameter.direction != "in" and not arg.flags.writeable:
                raise ValueError(_about(operator, parameter, "is read-only; the operator writes to it"))
        values.append(_value(engine, made, position, parameter, parameter.kind, arg, False, []))
    return values


# ------------------------------------------------------------------------------------------------- arguments


def _holds_tensor(items: Any) -> bool:
    for item in items:
        if type(item) is Tensor:
            return True
        if isinstance(item, (list, tuple)) and any(isinstance(part, Tensor) for part in item):
            return True
    return False


def _value(
    engine: Backend,
    plan: Plan,
    position: int,
    parameter: Parameter,
    kind: Kind,
    arg: Any,
    on_device: bool,
    changed: list[_WriteBack],
) -> Any:
    """One argument as a backend takes it."""
    if kind is Kind.TENSOR:
        return _tensor(engine, plan, position, parameter, arg, on_device, changed)
    if arg is None and kind.pointer:
        return None
    operator = plan.operator
    if kind in _INTEGERS:
        return _integer(operator, parameter, kind, arg)
    if kind is Kind.BOOL:
        if isinstance(arg, (bool, np.bool_)) or (isinstance(arg, (int, np.integer)) and arg in (0, 1)):
            return bool(arg)
        raise TypeError(_about(operator, parameter, f"is {arg!r}; it must be a bool"))
    if kind in (Kind.DOUBLE, Kind.FLOAT):
        if isinstance(arg, numbers.Real) or (isinstance(arg, np.ndarray) and arg.ndim == 0):
            return float(arg)
        raise TypeError(_about(operator, parameter, f"is {arg!r}; it must be a number"))
    if kind in _ARRAYS:
        return _array(operator, parameter, kind, arg)
    if kind is Kind.SCALAR:
        return _scalar(operator, parameter, arg)
    if kind is Kind.TENSOR_LIST:
        items = _items(operator, parameter, arg, "tensors")
        return [_tensor(engine, plan, position, parameter, item, on_device, changed) for item in items]
    if kind is Kind.SCALAR_LIST:
        return [_scalar(operator, parameter, item) for item in _items(operator, parameter, arg, "numbers")]
    if kind is Kind.STRING:
        if isinstance(arg, str):
            return arg
        raise TypeError(_about(operator, parameter, f"is {arg!r}; it must be a str"))
    return _data_type(operator, parameter, arg)


def _tensor(
    engine: Backend,
    plan: Plan,
    position: int,
    parameter: Parameter,
    arg: Any,
    on_device: bool,
    changed: list[_WriteBack],
) -> Optional[Tensor]:
    if isinstance(arg, Tensor):
        if arg.storage.backend is not engine:
            text = f"is a Tensor of the {arg.storage.backend.name} backend; the backend in use is {engine.name}"
            raise TypeError(_about(plan.operator, parameter, text))
        return _formatted(plan, position, arg)
    if arg is None:
        return None
    written = parameter.direction == "inout"
    if written and not isinstance(arg, np.ndarray):
        text = f"is a {type(arg).__name__}; the operator changes it, so it must be an ndarray or a Tensor"
        raise TypeError(_about(plan.operator, parameter, text))
    if written and on_device:
        text = "is an ndarray beside Tensors; the operator changes it, so it must be a Tensor too"
        raise TypeError(_about(plan.operator, parameter, text))
    array = arg if isinstance(arg, np.ndarray) else _as_array(plan.operator, parameter, arg)
    if written and not array.flags.writeable:
        raise ValueError(_about(plan.operator, parameter, "is read-only; the operator changes it in place"))
    tensor = _to_backend(engine, plan.operator, parameter, array)
    if written and not _shares(tensor, array):
        changed.append(_WriteBack(tensor, array))
    return _formatted(plan, position, tensor)


def _to_backend(engine: Backend, operator: Operator, parameter: Parameter, array: npt.NDArray[Any]) -> Tensor:
    """A Tensor with an ndarray's values: over the same memory on the NumPy backend, else a copy on the device."""
    try:
        dtype = as_datatype(array.dtype)
    except TypeError as error:
        raise TypeError(_about(operator, parameter, f"has a dtype without a CANN counterpart ({error})")) from None
    if isinstance(engine, NumpyBackend):
        plain = all(s >= 0 and s % array.itemsize == 0 for s in array.strides) and array.dtype.isnative
        return wrap(engine, array if plain else np.array(array, dtype.numpy, order="C"), dtype)
    tensor = empty(array.shape, dtype)
    tensor.assign(array)
    return tensor


def _shares(tensor: Tensor, array: npt.NDArray[Any]) -> bool:
    return getattr(tensor.storage, "array", None) is array


def _as_array(operator: Operator, parameter: Parameter, arg: Any) -> npt.NDArray[Any]:
    """A sequence where a tensor is meant: 64-bit numbers become what the operator documents."""
    if not isinstance(arg, (list, tuple, range)) and not hasattr(arg, "__array__"):
        text = f"is a {type(arg).__name__}; it must be a Tensor, an ndarray or a sequence"
        raise TypeError(_about(operator, parameter, text))
    array = np.asarray(arg)
    if isinstance(arg, (list, tuple, range)):
        known = parameter.dtypes or ()
        for dtype, name, narrower in ((np.int64, "INT64", np.int32), (np.float64, "DOUBLE", np.float32)):
            if array.dtype == dtype and (name not in known or narrower is np.float32):
                array = array.astype(narrower)
    return array


def _formatted(plan: Plan, position: int, tensor: Tensor) -> Tensor:
    """The tensor with the format that the operator documents for its rank, while its own is still open."""
    formats = plan.formats[position]
    if formats and tensor.has_auto_format and tensor.ndim in formats:
        return tensor.with_format(formats[tensor.ndim])
    return tensor


def _auto_formats(parameter: Parameter) -> dict[int, Format]:
    """What "auto" becomes for each rank: the rank's own format, where the operator documents it."""
    known = parameter.formats or ()
    return {rank: f for rank, f in _BY_RANK.items() if f.name in known}


def _integer(operator: Operator, parameter: Parameter, kind: Kind, arg: Any) -> int:
    try:
        value = python_operator.index(arg)
    except TypeError:
        raise TypeError(_about(operator, parameter, f"is {arg!r}; it must be an integer")) from None
    low, high = _INTEGERS[kind]
    if kind is Kind.UINT64 and -(2**63) <= value < 0:
        value += 2**64  # as C converts: paddingIdx = -1 is 2**64 - 1
    if not low <= value <= high:
        raise ValueError(_about(operator, parameter, f"is {value}; it must be in [{low}, {high}] ({kind.value})"))
    return value


def _array(operator: Operator, parameter: Parameter, kind: Kind, arg: Any) -> tuple[Any, ...]:
    convert = _ARRAYS[kind]
    items = arg.reshape(-1).tolist() if isinstance(arg, np.ndarray) else arg
    items = (items,) if isinstance(items, numbers.Number) else items
    try:
        made = tuple(convert(item) for item in items)
    except (TypeError, ValueError):
        word = {Kind.INT_ARRAY: "ints", Kind.FLOAT_ARRAY: "floats", Kind.BOOL_ARRAY: "bools"}[kind]
        raise TypeError(_about(operator, parameter, f"is {arg!r}; it must be a sequence of {word}")) from None
    if kind is Kind.INT_ARRAY and not all(-(2**63) <= item < 2**63 for item in made):
        raise ValueError(_about(operator, parameter, f"is {arg!r}; its items must be int64"))
    return made


def _scalar(operator: Operator, parameter: Parameter, arg: Any) -> Scalar:
    """A Scalar; Python numbers become the widest type of their kind that the operator documents."""
    if isinstance(arg, Scalar):
        return arg
    if isinstance(arg, np.ndarray) and arg.ndim == 0:
        arg = arg[()]
    if not isinstance(arg, (numbers.Number, np.generic)):
        raise TypeError(_about(operator, parameter, f"is {arg!r}; it must be a number or a Scalar"))
    known = parameter.dtypes
    try:
        made = Scalar(arg)
        for wide, narrow in (
            (DataType.DOUBLE, DataType.FLOAT),
            (DataType.COMPLEX128, DataType.COMPLEX64),
            (DataType.INT64, DataType.INT32),
            (DataType.INT64, DataType.FLOAT),
        ):
            if known and made.dtype is wide and wide.name not in known and narrow.name in known:
                return Scalar(arg, narrow)
    except ValueError as error:
        raise ValueError(_about(operator, parameter, f"cannot be passed: {error}")) from None
    return made


def _items(operator: Operator, parameter: Parameter, arg: Any, word: str) -> list[Any]:
    if isinstance(arg, (list, tuple)):
        return list(arg)
    raise TypeError(_about(operator, parameter, f"is a {type(arg).__name__}; it must be a sequence of {word}"))


def _data_type(operator: Operator, parameter: Parameter, arg: Any) -> int:
    if isinstance(arg, (int, np.integer)) and not isinstance(arg, bool):
        return int(arg)
    try:
        return int(as_datatype(arg))
    except TypeError:
        raise TypeError(_about(operator, parameter, f"is {arg!r}; it must be a DataType or a NumPy dtype")) from None


def _about(operator: Operator, parameter: Parameter, text: str) -> str:
    return f"{operator.name}: {parameter.python_name} {text}"


# ------------------------------------------------------------------------------------------------- outputs


def _outputs(
    engine: Backend, plan: Plan, values: list[Any], out: Any, on_device: bool, changed: list[_WriteBack]
) -> dict[int, Any]:
    """Puts the output tensors into ``values``; returns what the caller gave for each position."""
    outputs = plan.outputs
    given = _given(plan, out)
    if not outputs:
        return {}
    specs: Optional[dict[str, Made]] = None
    taken: dict[int, Any] = {}
    for (position, parameter), item in zip(outputs, given):
        if item is not None:
            taken[position] = item
            values[position] = _given_output(engine, plan, position, parameter, item, on_device, changed)
            continue
        if parameter.optional and out is not None:
            continue  # skipped: a null pointer
        if specs is None:
            specs = _infer(engine, plan, values)
        spec = specs.get(parameter.name)
        if spec is None:
            if parameter.optional or parameter.name in specs:
                continue
            shape = f" with shape {parameter.rank}" if parameter.rank else ""
            known = f" and dtype {' / '.join(parameter.dtypes)}" if parameter.dtypes else ""
            raise TypeError(
                f"{plan.operator.name}: no rule tells the output {parameter.python_name}; pass out= a tensor{shape}{known}"
            )
        values[position] = _make(engine, spec, on_device)
    return taken


def _given(plan: Plan, out: Any) -> Sequence[Any]:
    """``out=`` as one item for every pure output."""
    outputs = plan.outputs
    if out is None:
        return (None,) * len(outputs)
    lists = len(outputs) == 1 and outputs[0][1].kind is Kind.TENSOR_LIST
    if isinstance(out, tuple) and not (lists and len(out) != 1):
        items: Sequence[Any] = out
    else:
        items = (out,)
    if len(items) != len(outputs):
        names = ", ".join(p.python_name for _, p in outputs) or "none"
        raise TypeError(f"{plan.operator.name}: out has {len(items)} items; the outputs are {len(outputs)} ({names})")
    return items


def _given_output(
    engine: Backend,
    plan: Plan,
    position: int,
    parameter: Parameter,
    item: Any,
    on_device: bool,
    changed: list[_WriteBack],
) -> Any:
    if parameter.kind is Kind.TENSOR_LIST and isinstance(item, (list, tuple)):
        return [_given_output(engine, plan, position, parameter, part, on_device, changed) for part in item]
    if isinstance(item, Tensor):
        return _tensor(engine, plan, position, parameter, item, on_device, changed)
    if not isinstance(item, np.ndarray):
        raise TypeError(
            _about(plan.operator, parameter, f"(out=) is a {type(item).__name__}; it must be a Tensor or ndarray")
        )
    if on_device:
        raise TypeError(
            _about(plan.operator, parameter, "(out=) is an ndarray beside Tensors; it must be a Tensor too")
        )
    if not item.flags.writeable:
        raise ValueError(_about(plan.operator, parameter, "(out=) is read-only"))
    tensor = _to_backend(engine, plan.operator, parameter, item)
    if not _shares(tensor, item):
        changed.append(_WriteBack(tensor, item))
    return _formatted(plan, position, tensor)


def _infer(engine: Backend, plan: Plan, values: Sequence[Any]) -> dict[str, Made]:
    """How to make the outputs that a rule tells, remembered by what that can depend on."""
    key = (engine.soc, *map(_key, values))
    found = plan.inferred.get(key)
    if found is None:
        try:
            specs = rules.infer(plan.operator, values, soc(engine.soc))
        except rules.Refusal as error:
            _phase_one(engine, plan, values)
            raise refusal(plan.operator, error.problem) from None
        except Exception:
            _phase_one(engine, plan, values)  # shape rules need not look for what phase one refuses
            raise
        positions = plan.operator.positions
        labels = _labels(values)
        found = {name: _allocation(plan, positions[name], spec, labels) for name, spec in specs.items()}
        if len(plan.inferred) >= 256:
            plan.inferred.clear()
        if found:  # a rule may still be declared for an operator that has none yet
            plan.inferred[key] = found
    return found


def _labels(values: Sequence[Any]) -> dict[int, Format]:
    """The plain format other than ND that the first input of each rank carries: an output of that rank gets it too."""
    found: dict[int, Format] = {}
    for value in values:
        if isinstance(value, Tensor) and value.format is not Format.ND and not value.format.private:
            found.setdefault(value.ndim, value.format)
    return found


def _allocation(plan: Plan, position: int, spec: OutputSpec, labels: dict[int, Format]) -> Made:
    if spec.shape is None:
        return None
    if isinstance(spec.shape, list):
        made = (_allocation(plan, position, OutputSpec(shape, spec.dtype), labels) for shape in spec.shape)
        return [item for item in made if isinstance(item, _Allocation)]
    shape = tuple(max(n, 0) for n in spec.shape)  # a negative size comes of a bad attribute, which phase one refuses
    nbytes = (math.prod(shape) * spec.dtype.bits + 7) // 8
    label = labels.get(len(shape), plan.formats[position].get(len(shape)))
    return _Allocation(shape, spec.dtype, contiguous_strides(shape), nbytes, label)


def _key(value: Any) -> Any:
    if type(value) is Tensor:
        return value.shape, value.dtype, value.format
    if isinstance(value, list):
        return tuple(map(_key, value))
    return (value.value, value.dtype) if isinstance(value, Scalar) else value


def _phase_one(engine: Backend, plan: Plan, values: Sequence[Any]) -> None:
    """The inputs admit no output: has phase one say so about them, with stand-ins as outputs. Returns if it does not."""
    full = list(values)
    tensors = (item for value in values for item in (value if isinstance(value, list) else (value,)))
    like = next((item for item in tensors if isinstance(item, Tensor)), None)
    shape, dtype = ((), DataType.FLOAT) if like is None else (like.shape, like.dtype)
    for position, parameter in plan.outputs:
        if full[position] is None and not parameter.optional:
            stand_in = Tensor(engine.allocate(0, engine.current_device()), shape, dtype, contiguous_strides(shape))
            full[position] = [stand_in] if parameter.kind is Kind.TENSOR_LIST else stand_in
    engine.prepare(plan.operator, full, False).close()


def _make(engine: Backend, made: Union[_Allocation, list[_Allocation]], on_device: bool) -> Any:
    """An inferred output: a tensor of the backend, or over an ndarray where the caller gets ndarrays from NumPy."""
    if isinstance(made, list):
        return [_make(engine, item, on_device) for item in made]
    shape, dtype, strides, nbytes, label = made
    if not on_device and isinstance(engine, NumpyBackend) and dtype.numpy is not None:
        tensor = wrap(engine, host_memory(shape, dtype.numpy), dtype)
        return tensor if label is None else tensor.with_format(label)
    return Tensor(engine.allocate(nbytes, engine.current_device()), shape, dtype, strides, 0, label)


def _host_results(
    engine: Backend, plan: Plan, values: Sequence[Any], taken: dict[int, Any], changed: Sequence[_WriteBack]
) -> Any:
    """Results as ndarrays, the caller's own where it gave them."""
    originals = {id(tensor.storage): array for tensor, array in changed}
    for tensor, array in changed:
        array[...] = _held(tensor)

    def host(value: Any) -> Any:
        if value is None:
            return None
        if isinstance(value, list):
            return [host(item) for item in value]
        return originals[id(value.storage)] if id(value.storage) in originals else _held(value)

    return _pack(plan, [taken[i] if i in taken else host(values[i]) for i in plan.results])


def _held(tensor: Tensor) -> npt.NDArray[Any]:
    """The elements as an ndarray: the one that stands for the tensor, or a copy of the storage."""
    array: Optional[npt.NDArray[Any]] = getattr(tensor.storage, "array", None)
    return tensor.numpy() if array is None else array


def _pack(plan: Plan, results: list[Any]) -> Any:
    if plan.result_type is not None:
        return plan.result_type(*results)
    return results[0] if results else None
