"""Operators as torch operators: what torch.compile, torch.export, FakeTensor and autograd need to know of them.

``aclnn.torch_function("aclnnRmsNorm")`` defines ``torch.ops.aclnn.rms_norm`` once and returns a function that calls it. On the
CPU it runs on the NumPy backend, on an NPU on the device; shapes come from the operator's rule. The gradient is what
``catalog/gradients.json`` says; backward of another operator raises NotImplementedError.
"""

from __future__ import annotations

import inspect
import itertools
import sys
import threading
from collections.abc import Iterator, Sequence
from types import CodeType
from typing import Any, Callable, NamedTuple

from ascend_aclnn import call, catalog
from ascend_aclnn.backends.interface import current_backend
from ascend_aclnn.call.torch_call import call_without_values
from ascend_aclnn.catalog import Kind, Operator
from ascend_aclnn.catalog.signature import PythonParameter, docstring, is_required, python_parameters
from ascend_aclnn.core.scalar import Scalar
from ascend_aclnn.core.torch_interop import from_array

NAMESPACE = "aclnn"

# What torch's schemas call a parameter.
_TYPES = {
    Kind.TENSOR: "Tensor",
    Kind.TENSOR_LIST: "Tensor[]",
    Kind.SCALAR: "Scalar",
    Kind.SCALAR_LIST: "Scalar[]",
    Kind.INT_ARRAY: "SymInt[]",
    Kind.FLOAT_ARRAY: "float[]",
    Kind.BOOL_ARRAY: "bool[]",
    Kind.STRING: "str",
    Kind.DATA_TYPE: "ScalarType",
    Kind.FLOAT: "float",
    Kind.DOUBLE: "float",
    Kind.BOOL: "bool",
}


def torch_function(name: str) -> Callable[..., Any]:
    """The function of an operator, by its C name, for torch code that is differentiated, compiled or exported.

    It takes and returns torch tensors as ``ops`` does, without ``out`` and ``stream``; enums are numbers, data types
    torch's. In-place operators change their tensors. ValueError for a name that is not in the catalog, and for an operator
    that torch cannot describe: see ``obstacle``.
    """
    try:
        operator = catalog.get(name)
    except KeyError:
        raise ValueError(catalog.unknown_name(name)) from None
    return _function(operator)


def obstacle(operator: Operator) -> str:
    """Why an operator cannot be a torch operator; "" if it can."""
    if operator.data_dependent and operator.dynamic_axis is None:
        return "the shapes of its outputs depend on data, and on each other"
    if not operator.outputs:
        return "it has no output"
    if operator.chosen_output:
        return f"its output has to be passed: {operator.chosen_output}"
    return ""


def schema(operator: Operator) -> str:
    """The operator's signature in torch's words, without the name."""
    letters = iter("abcdefghijklmnopqrstuvwxyz")
    rows = python_parameters(operator)
    last_required = max((i for i, row in enumerate(rows) if is_required(row)), default=-1)
    words = []
    for i, (name, parameter, default) in enumerate(rows):
        kind = _TYPES.get(parameter.kind, "SymInt")
        if parameter.direction == "inout":
            mark = f"({next(letters)}!)"
            kind = kind.replace("[]", f"{mark}[]") if kind.endswith("[]") else kind + mark
        if default is None or (parameter.kind.pointer and parameter.optional) or _may_be_null(rows[i]):
            kind += "?"
        shown = "" if i < last_required or is_required(rows[i]) else f"={_default(default)}"
        words.append(f"{kind} {name}{shown}")
    results = [_TYPES[p.kind] for p in operator.outputs if p.direction == "out"]
    returned = results[0] if len(results) == 1 else f"({', '.join(results)})"
    return f"({', '.join(words)}) -> {returned}"


def _may_be_null(row: PythonParameter) -> bool:
    """An array without a default: a rule refuses None where CANN does."""
    return is_required(row) and row.parameter.kind in (Kind.INT_ARRAY, Kind.FLOAT_ARRAY, Kind.BOOL_ARRAY)


def _default(value: Any) -> str:
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return str(list(value)) if isinstance(value, tuple) else str(value)


class _Defined(NamedTuple):
    operator: Operator
    library: Any  # torch's registrations, which live as long as it does
    function: Callable[..., Any]


_defined: dict[str, _Defined] = {}  # by C name
_lock = threading.Lock()


def _function(operator: Operator) -> Callable[..., Any]:
    why = obstacle(operator)
    if why:
        raise ValueError(f"{operator.name} is no torch operator: {why}")
    with _lock:
        known = _defined.get(operator.name)
        if known is None or known.operator is not operator:
            if known is not None:  # registered again, perhaps with another prototype
                known.library._destroy()
            import torch

            library = torch.library.Library(NAMESPACE, "FRAGMENT")
            function = _python_function(operator, _define(operator, library))
            known = _defined[operator.name] = _Defined(operator, library, function)
        return known.function


def _define(operator: Operator, library: Any) -> Any:
    """Defines ``torch.ops.aclnn.<name>``; returns its only overload."""
    import torch

    name = operator.python_name
    qualified = f"{NAMESPACE}::{name}"
    library.define(name + schema(operator), tags=(torch.Tag.pt2_compliant_tag,))
    plan = call.plan(operator)
    lists = [p.kind is Kind.TENSOR_LIST for p in operator.outputs if p.direction == "out"]
    returned = [at for at, i in enumerate(plan.results) if operator.parameters[i].direction == "out"]

    def select(results: Any) -> Any:
        """What torch's operator returns: what it does not change in place."""
        items = [results[at] for at in returned] if plan.result_type is not None else [results] * len(returned)
        items = [
            [] if is_list and item is None else item for item, is_list in zip(items, lists)
        ]  # torch has no null list
        return items[0] if len(items) == 1 else tuple(items) if items else None

    defaults = [row.default for row in python_parameters(operator)]

    def run(*args: Any) -> Any:
        results = call.call(plan, (*args, *defaults[len(args) :]), None, None)
        if next(_tensors(args), None) is None:  # arrays came back
            results = tuple(map(from_array, results)) if plan.result_type is not None else from_array(results)
        return select(results)

    def infer(*args: Any) -> Any:
        device = next((t.device for t in _tensors(args)), torch.device("cpu"))
        with torch.no_grad():  # the gradient is recorded around this
            complete = (*args, *defaults[len(args) :])  # torch leaves out what equals the default
            inferred = select(call_without_values(current_backend(), plan, complete, None, device))
        axis = operator.dynamic_axis
        if axis is None:
            return inferred
        size = torch.library.get_ctx().new_dynamic_size()
        return inferred.new_empty((*inferred.shape[:axis], size, *inferred.shape[axis + 1 :]))

    library.impl(name, run, "CompositeExplicitAutograd")
    torch.library.register_fake(qualified, infer, lib=library)
    if not plan.changed:
        gradient = _Gradient(operator)
        torch.library.register_autograd(qualified, gradient.backward, setup_context=gradient.save, lib=library)
    return getattr(getattr(torch.ops, NAMESPACE), name).default


def _tensors(values: Sequence[Any]) -> Iterator[Any]:
    kind = sys.modules["torch"].Tensor
    for value in values:
        if isinstance(value, kind):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from _tensors(value)


def _python_function(operator: Operator, overload: Any) -> Callable[..., Any]:
    """What users call: the torch operator with the results of ``ops``: named, changed tensors among them."""
    plan = call.plan(operator)
    result_type = plan.result_type
    positions = dict(plan.changed)
    # Of each result the argument that it is, or None for a new tensor; and its name.
    sources = [(positions.get(i), operator.parameters[i].python_name) for i in plan.results]
    takes_scalars = any(p.kind in (Kind.SCALAR, Kind.SCALAR_LIST) for p in operator.inputs)

    def function(*args: Any, **kwargs: Any) -> Any:
        if takes_scalars:
            args = tuple([_number(value) for value in args])
            kwargs = {name: _number(value) for name, value in kwargs.items()}
        new = overload(*args, **kwargs)
        if positions:
            fresh = list(new) if isinstance(new, tuple) else [new]
            new = [fresh.pop(0) if at is None else args[at] if at < len(args) else kwargs[name] for at, name in sources]
            return new[0] if result_type is None else result_type(*new)
        return new if result_type is None else result_type(*new)

    function.__name__ = function.__qualname__ = operator.python_name
    function.__doc__ = docstring(operator)
    function.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default)
            for name, _, default in python_parameters(operator)
        ]
    )
    return function


def _number(value: Any) -> Any:
    """A Scalar as the number that it holds."""
    if isinstance(value, (list, tuple)):
        return [_number(item) for item in value]
    return value.value if isinstance(value, Scalar) else value


# ------------------------------------------------------------------------------------------------------- gradients


class _Formula(NamedTuple):
    inputs: list[list[str]]  # for each result, the inputs whose gradient it is
    code: CodeType


class _Gradient:
    """An operator's gradient for torch's autograd: what is saved, and the expressions of the catalog."""

    def __init__(self, operator: Operator) -> None:
        self._operator = operator
        self._inputs = [p.python_name for p in operator.inputs]
        self._outputs = [p.python_name for p in operator.outputs]
        self._formulas = [
            _Formula([names.split(",") for names in key.split()], compile(text, f"gradient of {operator.name}", "eval"))
            for key, text in operator.gradients.items()
        ]
        names = {name for formula in self._formulas for name in formula.code.co_names}
        self._used = [name for name in (*self._inputs, *self._outputs) if name in names]
        self._without_gradient = [i for i, name in enumerate(self._outputs) if f"grad_{name}" not in names]

    def save(self, ctx: Any, inputs: Sequence[Any], output: Any) -> None:
        """Before backward: keeps the values that the expressions name."""
        torch = sys.modules["torch"]
        results = output if isinstance(output, tuple) else (output,)
        if self._formulas:
            ctx.mark_non_differentiable(*_tensors([results[i] for i in self._without_gradient]))
        values = {**dict(zip(self._outputs, results)), **dict(zip(self._inputs, inputs))}
        tensors = {name: values[name] for name in self._used if isinstance(values[name], torch.Tensor)}
        ctx.save_for_backward(*tensors.values())
        ctx.saved_names = list(tensors)
        ctx.plain = {name: values[name] for name in self._used if name not in tensors}

    def backward(self, ctx: Any, *grads: Any) -> Any:
        """The gradient of each input, from those of the outputs; NotImplementedError where the catalog knows none."""
        values = _Names({**ctx.plain, **dict(zip(ctx.saved_names, ctx.saved_tensors))})
        values.update((f"grad_{name}", grad) for name, grad in zip(self._outputs, grads))
        wanted = {name for name, needs in zip(self._inputs, ctx.needs_input_grad) if needs is True or _some(needs)}
        gradients: dict[str, Any] = {}
        for inputs, code in self._formulas:
            if not wanted.isdisjoint(itertools.chain(*inputs)):
                result = eval(code, {}, values)  # an expression of the catalog
                for names, gradient in zip(inputs, result if len(inputs) > 1 else (result,)):
                    gradients.update(dict.fromkeys(names, gradient))
        for name in wanted:
            if gradients.get(name) is None:
                raise NotImplementedError(
                    f"{self._operator.name}: the catalog knows no gradient of {name}; detach it, or write a "
                    "torch.autograd.Function"
                )
        return tuple(gradients[name] if name in wanted else None for name in self._inputs)


def _some(needs: Any) -> bool:
    return isinstance(needs, (list, tuple)) and any(needs)


class _Names(dict[str, Any]):
    """The names of an expression: values, helpers, operators."""

    def __missing__(self, name: str) -> Any:
        if name in HELPERS:
            return HELPERS[name]
        c_name = catalog.python_names().get(name)
        if c_name is None:
            raise KeyError(name)
        return torch_function(c_name)


def _sum_to(gradient: Any, tensor: Any) -> Any:
    """A gradient summed over the axes along which a tensor was broadcast."""
    return gradient.sum_to_size(tensor.shape).to(tensor.dtype)


def _spread(gradient: Any, tensor: Any, axes: Sequence[int], kept: bool) -> Any:
    """The gradient of a sum, for each element of the sum."""
    if not kept:
        for axis in sorted(axis % tensor.dim() for axis in axes or range(tensor.dim())):
            gradient = gradient.unsqueeze(axis)
    return gradient.to(tensor.dtype).expand(tensor.shape)


def _share(larger: Any, smaller: Any) -> Any:
    """Where the first is the larger one: 1; of two equal ones each gets half of the gradient."""
    return (larger > smaller).to(larger.dtype) + 0.5 * (larger == smaller).to(larger.dtype)


def _present(*tensors: Any) -> list[bool]:
    """An output mask: gradients of the tensors that there are."""
    return [tensor is not None for tensor in tensors]


def _matmul_gradients(gradient: Any, first: Any, second: Any, type: int) -> tuple[Any, Any]:
    """Gradients of a product as torch.matmul broadcasts it: vectors stand for matrices of one row or column."""
    rows = first.unsqueeze(0) if first.dim() == 1 else first
    columns = second.unsqueeze(-1) if second.dim() == 1 else second
    if second.dim() == 1:
        gradient = gradient.unsqueeze(-1)
    if first.dim() == 1:
        gradient = gradient.unsqueeze(-2)
    product = torch_function("aclnnMatmul")
    of_first = _sum_to(product(gradient, columns.mT, type), rows)
    of_second = _sum_to(product(rows.mT, gradient, type), columns)
    return of_first.reshape(first.shape), of_second.reshape(second.shape)


HELPERS: dict[str, Callable[..., Any]] = {
    "matmul_gradients": _matmul_gradients,
    "present": _present,
    "share": _share,
    "spread": _spread,
    "sum_to": _sum_to,
}

__all__ = ["HELPERS", "obstacle", "schema", "torch_function"]
