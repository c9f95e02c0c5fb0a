"""Python arguments to one value for each C parameter."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any, Callable, NamedTuple, Optional

import numpy as np
import numpy.typing as npt

from ascend_aclnn.backends.interface import Backend
from ascend_aclnn.call.plan import CallPlan
from ascend_aclnn.call.values import describe, items, plain_value
from ascend_aclnn.catalog import REQUIRED, Kind, Parameter, get, python_names
from ascend_aclnn.core.dtypes import DataType, as_datatype
from ascend_aclnn.core.spec import TensorSpec
from ascend_aclnn.core.tensor import Tensor

# How the names of operators end that take a number in place of a tensor.
_SCALAR_FORMS = ("tensor_scalar", "scalar_tensor", "scalar", "scalar_self", "scalar_other")


class WriteBack(NamedTuple):
    """A device copy of an ndarray that the operator changes."""

    tensor: Tensor
    array: npt.NDArray[Any]


class Invocation:
    """One call of an operator: the value of each C parameter, and the caller's ndarrays that are to be written."""

    __slots__ = ("allocate", "backend", "given_outputs", "on_device", "plan", "values", "write_backs")

    def __init__(self, backend: Backend, plan: CallPlan, on_device: bool) -> None:
        self.backend = backend
        self.plan = plan
        self.allocate: Optional[Callable[[TensorSpec], Tensor]] = None  # makes the outputs, instead of the backend
        self.on_device = on_device  # Tensors are returned, and the call is asynchronous
        self.values: list[Any] = [None] * len(plan.operator.parameters)
        self.write_backs: list[WriteBack] = []
        self.given_outputs: dict[int, Any] = {}  # the caller's items of out=, by position

    # ---------------------------------------------------------------------------------------- inputs
    def bind_inputs(self, args: Sequence[Any]) -> None:
        """The arguments of the Python function: one for each in and inout parameter."""
        backend, formats, values = self.backend, self.plan.formats, self.values
        for (position, parameter, kind), arg in zip(self.plan.inputs, args):
            if arg is REQUIRED:
                operator = self.plan.operator
                raise TypeError(f"{operator.python_name}() missing required argument: {parameter.python_name!r}")
            if arg is None and kind.pointer:
                continue  # a null pointer
            if type(arg) is Tensor and kind is Kind.TENSOR and arg.storage.backend is backend and not formats[position]:
                values[position] = arg  # the most frequent case, without a further call
            else:
                values[position] = self.value(position, parameter, kind, arg)

    def value(self, position: int, parameter: Parameter, kind: Kind, arg: Any) -> Any:
        """One argument as a backend takes it."""
        if kind is Kind.TENSOR:
            return self.tensor(position, parameter, arg)
        if kind is Kind.TENSOR_LIST and arg is not None:
            members = items(self.plan.operator, parameter, arg, "tensors")
            return [self.tensor(position, parameter, item) for item in members]
        if arg is None and kind is Kind.DATA_TYPE and parameter.default is None:
            return self._summed_dtype()
        return plain_value(self.plan.operator, parameter, kind, arg)

    def _summed_dtype(self) -> int:
        """What torch takes for ``dtype=None``: the data type of the first tensor, INT64 where that is an integer or BOOL."""
        dtype = next(
            (v.dtype for v in self.values if isinstance(v, Tensor)), DataType.FLOAT
        )  # None is refused in phase one
        integral = dtype.numpy is not None and dtype.numpy.kind in "biu"
        return int(DataType.INT64 if integral else dtype)

    def tensor(self, position: int, parameter: Parameter, arg: Any) -> Optional[Tensor]:
        if isinstance(arg, Tensor):
            return self.formatted(position, self.of_backend(parameter, arg))
        if arg is None:
            return None
        if parameter.direction == "inout":
            self._check_writable(parameter, arg)
        array = arg if isinstance(arg, np.ndarray) else self._array(parameter, arg)
        tensor = self.from_host(parameter, array)
        if parameter.direction == "inout" and tensor.storage.array is not array:
            self.write_backs.append(WriteBack(tensor, array))
        return self.formatted(position, tensor)

    def of_backend(self, parameter: Parameter, tensor: Tensor) -> Tensor:
        """The Tensor, which must be of the backend in use; where that has no values, any Tensor's description will do."""
        backend = self.backend
        if tensor.storage.backend is backend:
            return tensor
        if backend.has_values:
            text = f"is a Tensor of the {tensor.storage.backend.name} backend; the backend in use is {backend.name}"
            raise TypeError(self.describe(parameter, text))
        return Tensor.on(backend.allocate(tensor.storage.nbytes, 0), tensor)

    def _check_writable(self, parameter: Parameter, arg: Any) -> None:
        if not isinstance(arg, np.ndarray):
            text = f"is a {type(arg).__name__}; the operator changes it, so it must be an ndarray or a Tensor"
            raise TypeError(self.describe(parameter, text))
        if self.on_device:
            text = "is an ndarray beside Tensors; the operator changes it, so it must be a Tensor too"
            raise TypeError(self.describe(parameter, text))
        if not arg.flags.writeable:
            raise ValueError(self.describe(parameter, "is read-only; the operator changes it in place"))

    def _array(self, parameter: Parameter, arg: Any) -> npt.NDArray[Any]:
        """A sequence in place of a tensor: 64-bit numbers become a dtype that the operator documents."""
        sequence = isinstance(arg, (list, tuple, range))
        if not sequence and not hasattr(arg, "__array__"):
            kind = type(arg).__name__
            text = f"is {'an' if kind[0] in 'aeiou' else 'a'} {kind}; it must be a Tensor, an ndarray or a sequence"
            raise TypeError(self.describe(parameter, text + self._takes_scalar(parameter, arg)))
        try:
            array = np.asarray(arg)
        except ValueError:
            text = "is a sequence whose parts differ in length; it must be rectangular"
            raise ValueError(self.describe(parameter, text)) from None
        if sequence:
            documented = parameter.dtypes or ()
            for dtype, name, narrower in ((np.int64, "INT64", np.int32), (np.float64, "DOUBLE", np.float32)):
                if array.dtype == dtype and (name not in documented or narrower is np.float32):
                    array = array.astype(narrower)
        return array

    def _takes_scalar(self, parameter: Parameter, arg: Any) -> str:
        """ "; ops.adds takes a number there" where an operator does."""
        if not isinstance(arg, numbers.Number):
            return ""
        name = self.plan.operator.python_name
        known = python_names()
        changed = [name + "s", name.replace("_tensor", "_scalar")]
        changed += [f"{name.split('_tensor')[0]}_{form}" for form in _SCALAR_FORMS]
        for other in changed:
            operands = get(known[other]).inputs if other in known and other != name else ()
            if any(p.python_name == parameter.python_name and p.kind is Kind.SCALAR for p in operands):
                return f"; ops.{other} takes a number there"
        return ""

    # ---------------------------------------------------------------------------------------- tensors, in and out
    def from_host(self, parameter: Parameter, array: npt.NDArray[Any]) -> Tensor:
        """A tensor with an ndarray's values."""
        try:
            dtype = as_datatype(array.dtype)
        except TypeError as error:
            raise TypeError(self.describe(parameter, f"has a dtype without a CANN counterpart ({error})")) from None
        return self.backend.from_host(array, dtype)

    def formatted(self, position: int, tensor: Tensor) -> Tensor:
        """The tensor with the format that the operator documents for its rank, while its own is still open."""
        formats = self.plan.formats[position]
        if formats and tensor.has_auto_format and tensor.ndim in formats:
            return tensor.with_format(formats[tensor.ndim])
        return tensor

    def describe(self, parameter: Parameter, text: str) -> str:
        return describe(self.plan.operator, parameter, text)


def holds_tensor(arguments: Any) -> bool:
    """True where an argument is a Tensor or a sequence with one."""
    for item in arguments:
        if type(item) is Tensor:
            return True
        if isinstance(item, (list, tuple)) and any(isinstance(part, Tensor) for part in item):
            return True
    return False
