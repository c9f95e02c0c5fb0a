"""Python values of the by-value parameters, aclScalars and arrays: converted, or refused by name."""

from __future__ import annotations

import numbers
import operator as python_operator
from typing import Any, Callable

import numpy as np

from ascend_aclnn.catalog import Kind, Operator, Parameter
from ascend_aclnn.core.dtypes import DataType, as_datatype
from ascend_aclnn.core.scalar import Scalar

# Ranges of the by-value integers.
INTEGERS = {
    Kind.INT8: (-(2**7), 2**7 - 1),
    Kind.INT32: (-(2**31), 2**31 - 1),
    Kind.UINT32: (0, 2**32 - 1),
    Kind.INT64: (-(2**63), 2**63 - 1),
    Kind.UINT64: (0, 2**64 - 1),
}
ARRAYS: dict[Kind, Callable[[Any], Any]] = {
    Kind.INT_ARRAY: python_operator.index,
    Kind.FLOAT_ARRAY: float,
    Kind.BOOL_ARRAY: bool,
}


# Names of the values of attributes that CANN's documents give names to, from 0 on.
MEANINGS = {"cubeMathType": ("KEEP_DTYPE", "ALLOW_FP32_DOWN_PRECISION", "USE_FP16", "USE_HF32")}


def describe(operator: Operator, parameter: Parameter, text: str) -> str:
    """A message about one argument: "aclnnAdd: alpha is 'x'; it must be a number"."""
    return f"{operator.name}: {parameter.python_name} {text}"


def plain_value(operator: Operator, parameter: Parameter, kind: Kind, arg: Any) -> Any:
    """One argument that is no tensor and no list of tensors, as a backend takes it."""
    if arg is None and kind.pointer:
        return None
    if kind in INTEGERS:
        return integer(operator, parameter, kind, arg)
    if kind is Kind.BOOL:
        if isinstance(arg, (bool, np.bool_)) or (isinstance(arg, (int, np.integer)) and arg in (0, 1)):
            return bool(arg)
        raise TypeError(describe(operator, parameter, f"is {arg!r}; it must be a bool"))
    if kind in (Kind.DOUBLE, Kind.FLOAT):
        if isinstance(arg, numbers.Real) or (isinstance(arg, np.ndarray) and arg.ndim == 0):
            return float(arg)
        raise TypeError(describe(operator, parameter, f"is {arg!r}; it must be a number"))
    if kind in ARRAYS:
        return array(operator, parameter, kind, arg)
    if kind is Kind.SCALAR:
        return scalar(operator, parameter, arg)
    if kind is Kind.SCALAR_LIST:
        return [scalar(operator, parameter, item) for item in items(operator, parameter, arg, "numbers")]
    if kind is Kind.STRING:
        if isinstance(arg, str):
            return arg
        raise TypeError(describe(operator, parameter, f"is {arg!r}; it must be a str"))
    return data_type(operator, parameter, arg)


def integer(operator: Operator, parameter: Parameter, kind: Kind, arg: Any) -> int:
    meanings = MEANINGS.get(parameter.name)
    if meanings is not None and isinstance(arg, str):
        meant = [name for name in meanings if name == arg.upper() or name.endswith("_" + arg.upper())]  # "hf32" too
        if len(meant) != 1:
            raise ValueError(describe(operator, parameter, f"is {arg!r}; it must be one of {', '.join(meanings)}"))
        return meanings.index(meant[0])
    try:
        value = python_operator.index(arg)
    except TypeError:
        choices = "" if meanings is None else f" or one of {', '.join(meanings)}"
        raise TypeError(describe(operator, parameter, f"is {arg!r}; it must be an integer{choices}")) from None
    low, high = INTEGERS[kind]
    if kind is Kind.UINT64 and -(2**63) <= value < 0:
        value += 2**64  # as C converts: paddingIdx = -1 is 2**64 - 1
    if not low <= value <= high:
        raise ValueError(describe(operator, parameter, f"is {value}; it must be in [{low}, {high}] ({kind.value})"))
    return value


def array(operator: Operator, parameter: Parameter, kind: Kind, arg: Any) -> tuple[Any, ...]:
    convert = ARRAYS[kind]
    items = arg.reshape(-1).tolist() if isinstance(arg, np.ndarray) else arg
    items = (items,) if isinstance(items, numbers.Number) else items
    try:
        converted = tuple(convert(item) for item in items)
    except (TypeError, ValueError):
        word = {Kind.INT_ARRAY: "ints", Kind.FLOAT_ARRAY: "floats", Kind.BOOL_ARRAY: "bools"}[kind]
        raise TypeError(describe(operator, parameter, f"is {arg!r}; it must be a sequence of {word}")) from None
    if kind is Kind.INT_ARRAY and not all(-(2**63) <= item < 2**63 for item in converted):
        raise ValueError(describe(operator, parameter, f"is {arg!r}; its items must be int64"))
    return converted


_NARROWER = {
    DataType.DOUBLE: (DataType.FLOAT,),
    DataType.COMPLEX128: (DataType.COMPLEX64,),
    DataType.INT64: (DataType.INT32, DataType.FLOAT),
}


def scalar(operator: Operator, parameter: Parameter, arg: Any) -> Scalar:
    """A Scalar; Python numbers become the widest type of their kind that the operator documents."""
    if isinstance(arg, Scalar):
        return arg
    if isinstance(arg, np.ndarray) and arg.ndim == 0:
        arg = arg[()]
    if type(arg) not in (int, float) and not isinstance(arg, (numbers.Number, np.generic)):
        raise TypeError(describe(operator, parameter, f"is {arg!r}; it must be a number or a Scalar"))
    documented = parameter.dtypes
    try:
        value = Scalar(arg)
        if documented and value.dtype in _NARROWER and value.dtype.name not in documented:
            for narrow in _NARROWER[value.dtype]:
                if narrow.name in documented:
                    return Scalar(arg, narrow)
    except ValueError as error:
        raise ValueError(describe(operator, parameter, f"cannot be passed: {error}")) from None
    return value


def items(operator: Operator, parameter: Parameter, arg: Any, word: str) -> list[Any]:
    if isinstance(arg, (list, tuple)):
        return list(arg)
    raise TypeError(describe(operator, parameter, f"is a {type(arg).__name__}; it must be a sequence of {word}"))


def data_type(operator: Operator, parameter: Parameter, arg: Any) -> int:
    if isinstance(arg, (int, np.integer)) and not isinstance(arg, bool):
        return int(arg)
    try:
        return int(as_datatype(arg))
    except TypeError:
        raise TypeError(describe(operator, parameter, f"is {arg!r}; it must be a DataType or a NumPy dtype")) from None
