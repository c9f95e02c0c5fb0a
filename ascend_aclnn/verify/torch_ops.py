"""Whether operators are good torch operators: torch.library.opcheck on the example of each.

Checked are operators that change no argument and have a reference; ``Result.reason`` says why another one is not.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, Optional

import numpy as np

import ascend_aclnn as aclnn
from ascend_aclnn import catalog, reference, torch_ops
from ascend_aclnn.catalog import Kind, Operator
from ascend_aclnn.core.dtypes import as_datatype
from ascend_aclnn.core.scalar import Scalar
from ascend_aclnn.core.torch_interop import from_array, torch_dtype
from ascend_aclnn.verify import calls


class Result(NamedTuple):
    """What opcheck says of an operator."""

    operator: str
    status: str  # "passes", "fails" or "not checked"
    reason: str = ""
    has_gradient: bool = False
    fixed_sizes: str = ""  # "1 of 3": sizes of the example that become numbers where torch traces them as symbols


def check(names: Optional[Iterable[str]] = None) -> Iterator[Result]:
    """The result of each operator, by C name (None: all)."""
    for name in catalog.names() if names is None else names:
        operator = catalog.get(name)
        why = obstacle(operator)
        status = "not checked" if why else "passes"
        fixed = ""
        if not why:
            with aclnn.use_backend("numpy", soc_of_example(operator)):
                try:
                    arguments = torch_arguments(operator)
                except TypeError as error:
                    status, why = "not checked", f"{error}"
                else:
                    why = _unsuited(operator, arguments)
                    status = "not checked"
                    if not why:
                        why = _opcheck(operator, arguments)
                        status = "fails" if why else "passes"
                        fixed = fixed_sizes(operator, arguments)
        yield Result(name, status, why, bool(operator.gradients), fixed)


def obstacle(operator: Operator) -> str:
    """Why an operator is not checked, as far as the catalog tells; "" if it is."""
    if reference.find(operator) is None:
        return "no reference"
    if any(p.direction == "inout" for p in operator.parameters):
        return "changes an argument in place"
    return torch_ops.obstacle(operator) or ("" if operator.example else "no example")


def soc_of_example(operator: Operator) -> Optional[str]:
    """The SoC whose rules allow the example; None: the default."""
    return None if operator.example is None else operator.example.soc


def torch_arguments(operator: Operator) -> list[Any]:
    """The arguments of an operator's example as torch takes them; TypeError where torch cannot hold one."""
    call = calls.example(operator)
    if call.options:
        raise TypeError("its example passes out=")
    return [_torch(parameter.kind, value) for parameter, value in zip(operator.inputs, call.arguments)]


def _torch(kind: Kind, value: Any) -> Any:
    if value is None:
        return None
    if kind is Kind.TENSOR:
        return _tensor(value)
    if kind is Kind.TENSOR_LIST:
        return [_tensor(item) for item in value]
    if kind is Kind.DATA_TYPE:
        return torch_dtype(aclnn.DataType(value) if isinstance(value, int) else as_datatype(value))
    if isinstance(value, Scalar):
        return value.value
    if isinstance(value, (np.ndarray, list, tuple)):
        items = value.tolist() if isinstance(value, np.ndarray) else value
        return [item.value if isinstance(item, Scalar) else item for item in items]
    if kind in (Kind.INT_ARRAY, Kind.FLOAT_ARRAY, Kind.BOOL_ARRAY):
        return [value]
    return value.item() if isinstance(value, np.generic) else value


def _tensor(value: Any) -> Any:
    """A torch tensor of an example's array, sequence or Tensor."""
    if isinstance(value, aclnn.Tensor):
        if value.format.private:
            raise TypeError(f"its example has a tensor in {value.format.name}")
        return value.torch()
    array = np.asarray(value)
    if not isinstance(value, np.ndarray):
        array = array.astype({"i": np.int32, "f": np.float32}.get(array.dtype.kind, array.dtype))
    return from_array(array.copy())


def _unsuited(operator: Operator, arguments: list[Any]) -> str:
    """Why opcheck says nothing about an example; "" if it does."""
    import torch

    if {"self", "input"} <= {p.python_name for p in operator.inputs}:
        return "opcheck itself calls the parameter self input, which is another one"
    try:
        results = torch_ops.torch_function(operator.name)(*arguments)
    except TypeError as error:
        if "pass a tensor" in str(error):
            return "its output has to be passed"
        if "has no dtype" in str(error):
            return str(error)
        raise
    tensors = [t for t in calls.arrays(results) if isinstance(t, torch.Tensor)]
    if any(
        t.dtype.is_floating_point and t.dtype.itemsize == 1
        for t in (*tensors, *calls.arrays(arguments))
        if isinstance(t, torch.Tensor)
    ):
        return "opcheck itself does not work on float8"
    if any(bool(torch.isnan(t).any()) for t in tensors if t.is_floating_point()):
        return "its example gives NaN, which opcheck finds unequal"
    return ""


def _opcheck(operator: Operator, arguments: list[Any]) -> str:
    """What opcheck finds wrong; "" if nothing."""
    import torch

    overload = getattr(getattr(torch.ops, torch_ops.NAMESPACE), operator.python_name).default
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's own, of tracing
        results = torch.library.opcheck(overload, tuple(arguments), raise_exception=False)
    return "; ".join(f"{name}: {_first_line(text)}" for name, text in results.items() if text != "SUCCESS")


def fixed_sizes(operator: Operator, arguments: list[Any]) -> str:
    """How many sizes an operator needs as numbers, "1 of 3", where torch traces those of its arguments as symbols; "" if none.

    Sizes 0 and 1 do not count: torch itself takes them as numbers.
    """
    from torch._subclasses import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext

    function = torch_ops.torch_function(operator.name)
    with FakeTensorMode(shape_env=ShapeEnv()) as mode:

        def traced(value: Any) -> Any:
            if isinstance(value, list):
                return [traced(item) for item in value]
            if not hasattr(value, "dim"):
                return value
            context = StatelessSymbolicContext(dynamic_sizes=[DimDynamic.DYNAMIC] * value.dim())
            return mode.from_tensor(value, symbolic_context=context)

        given = [traced(value) for value in arguments]
        sizes = [size for tensor in calls.arrays(given) if hasattr(tensor, "dim") for size in tensor.shape]
        symbols = [size for size in sizes if not isinstance(size, int) and size.node.maybe_as_int() is None]
        function(*given)
        fixed = sum(size.node.maybe_as_int() is not None for size in symbols)
    return f"{fixed} of {len(symbols)}" if fixed else ""


def _first_line(text: Any) -> str:
    return next((line for line in str(text).splitlines() if line.strip()), "")
