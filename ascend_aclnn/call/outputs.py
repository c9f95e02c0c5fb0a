"""Outputs: taken from ``out=``, or allocated with the specs that the operator's rule infers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional, Union

import numpy as np
import numpy.typing as npt

from ascend_aclnn import rules
from ascend_aclnn.call.arguments import Invocation, WriteBack
from ascend_aclnn.call.plan import CallPlan, OutputSpec
from ascend_aclnn.catalog import Kind, Parameter
from ascend_aclnn.core.dtypes import Format
from ascend_aclnn.core.errors import AclError, RuleViolation
from ascend_aclnn.core.scalar import Scalar
from ascend_aclnn.core.socs import soc
from ascend_aclnn.core.spec import TensorSpec
from ascend_aclnn.core.tensor import Tensor

_REMEMBERED = 256  # combinations of input specs whose outputs a plan remembers


def bind_outputs(call: Invocation, out: Any) -> None:
    """Puts the output tensors into the call's values."""
    plan = call.plan
    if not plan.outputs:
        output_items(plan, out)
        return
    specs: Optional[dict[str, OutputSpec]] = None
    for (position, parameter), item in zip(plan.outputs, output_items(plan, out)):
        if item is not None:
            call.given_outputs[position] = item
            call.values[position] = _passed_output(call, position, parameter, item)
            continue
        if parameter.optional and out is not None:
            continue  # skipped: a null pointer
        if specs is None:
            specs = _output_specs(call)
        spec = specs.get(parameter.name)
        if spec is not None:
            call.values[position] = _allocate(call, spec)
        elif not parameter.optional and parameter.name not in specs:
            raise TypeError(_missing(plan, parameter))


def _missing(plan: CallPlan, parameter: Parameter) -> str:
    rank = f" of rank {parameter.rank}" if parameter.rank else ""
    dtype = f" with dtype {' / '.join(parameter.dtypes)}" if parameter.dtypes else ""
    why = plan.operator.chosen_output
    return (
        f"{plan.operator.name}: the shape of the output {parameter.python_name} does not follow from the inputs"
        f"{f' ({why})' if why else ''}; pass a tensor{rank}{dtype} in out="
    )


def output_items(plan: CallPlan, out: Any) -> Sequence[Any]:
    """``out=`` as one item for every pure output."""
    outputs = plan.outputs
    if out is None:
        return plan.no_outputs
    is_list = len(outputs) == 1 and outputs[0][1].kind is Kind.TENSOR_LIST
    items: Sequence[Any] = out if isinstance(out, tuple) and not (is_list and len(out) != 1) else (out,)
    if len(items) != len(outputs):
        names = ", ".join(p.python_name for _, p in outputs) or "none"
        raise TypeError(f"{plan.operator.name}: out has {len(items)} items; the outputs are {len(outputs)} ({names})")
    return items


def _passed_output(call: Invocation, position: int, parameter: Parameter, item: Any) -> Any:
    if parameter.kind is Kind.TENSOR_LIST and isinstance(item, (list, tuple)):
        return [_passed_tensor(call, position, parameter, part) for part in item]
    return _passed_tensor(call, position, parameter, item)


def _passed_tensor(call: Invocation, position: int, parameter: Parameter, item: Any) -> Any:
    if isinstance(item, Tensor):
        return call.formatted(position, call.of_backend(parameter, item))
    if not isinstance(item, np.ndarray):
        text = f"(out=) is a {type(item).__name__}; it must be a Tensor or ndarray"
        raise TypeError(call.describe(parameter, text))
    if call.on_device:
        raise TypeError(call.describe(parameter, "(out=) is an ndarray beside Tensors; it must be a Tensor too"))
    if not item.flags.writeable:
        raise ValueError(call.describe(parameter, "(out=) is read-only"))
    tensor = call.from_host(parameter, item)
    if tensor.storage.array is not item:
        call.write_backs.append(WriteBack(tensor, item))
    return call.formatted(position, tensor)


def _output_specs(call: Invocation) -> dict[str, OutputSpec]:
    """The specs that the operator's rule infers, remembered by what they can depend on."""
    plan, values = call.plan, call.values
    key = (call.backend.soc, *map(_key, values))
    specs = plan.output_specs.get(key)
    if specs is None:
        try:
            inferred = rules.infer(plan.operator, values, soc(call.backend.soc))
        except RuleViolation as violation:
            # Phase one may refuse the inputs for another reason, which CANN would report first.
            first = rules.check_inputs(plan.operator, values, soc(call.backend.soc))
            raise rules.error(plan.operator, first or violation) from None
        formats = _input_formats(values)
        positions = plan.operator.positions
        specs = {name: _with_format(plan, positions[name], spec, formats) for name, spec in inferred.items()}
        if len(plan.output_specs) >= _REMEMBERED:
            plan.output_specs.clear()
        if specs:  # a rule may still be declared for an operator that has none yet
            plan.output_specs[key] = specs
    return specs


def _input_formats(values: Sequence[Any]) -> dict[int, Format]:
    """The plain format other than ND that the first input of each rank has: an output of that rank gets it too."""
    formats: dict[int, Format] = {}
    for value in values:
        if isinstance(value, Tensor) and value.format is not Format.ND and not value.format.private:
            formats.setdefault(value.ndim, value.format)
    return formats


def _with_format(plan: CallPlan, position: int, spec: OutputSpec, formats: dict[int, Format]) -> OutputSpec:
    if spec is None:
        return None
    if isinstance(spec, list):
        return [item for part in spec if isinstance(item := _with_format(plan, position, part, formats), TensorSpec)]
    shape = spec.shape
    format = formats.get(len(shape), plan.formats[position].get(len(shape)))
    if any(n < 0 for n in shape):  # it results from a bad attribute, which phase one refuses
        shape = tuple(max(n, 0) for n in shape)
    elif format is None:
        return spec
    return TensorSpec(shape, spec.dtype, format=format)


def _key(value: Any) -> Any:
    if type(value) is Tensor:
        return value.shape, value.dtype, value.format
    if isinstance(value, list):
        return tuple(map(_key, value))
    return (value.value, value.dtype) if isinstance(value, Scalar) else value


def blame_inputs(call: Invocation, error: AclError) -> AclError:
    """The error of a refused call; where it names an output that the call did not pass, what is wrong with the inputs."""
    inferred = {p.python_name: p.name for i, p in call.plan.outputs if i not in call.given_outputs}
    if error.argument not in inferred:
        return error
    operator, positions = call.plan.operator, call.plan.operator.positions
    unknown = {positions[name] for name in inferred.values()}
    values = [None if i in unknown else value for i, value in enumerate(call.values)]
    chip = soc(call.backend.soc)
    violation = rules.check_inputs(operator, values, chip, rules.check(operator, call.values, chip))
    return error if violation is None else rules.error(operator, violation)


def _allocate(call: Invocation, spec: Union[TensorSpec, list[TensorSpec]]) -> Any:
    if isinstance(spec, list):
        return [_allocate(call, item) for item in spec]
    if call.allocate is not None:
        return call.allocate(spec)
    return call.backend.allocate_output(spec, not call.on_device)


def host_results(call: Invocation) -> list[Any]:
    """The results as ndarrays, the caller's own where it passed them."""
    written = {id(tensor.storage): array for tensor, array in call.write_backs}
    for tensor, array in call.write_backs:
        array[...] = _elements(tensor)

    from_caller = call.given_outputs
    return [from_caller[i] if i in from_caller else _host(call.values[i], written) for i in call.plan.results]


def _host(value: Any, written: dict[int, npt.NDArray[Any]]) -> Any:
    """A result as an ndarray: the caller's own, by its storage, or a copy of the elements."""
    # Not a nested function: a recursive one is a reference cycle, which would keep the caller's arrays alive.
    if value is None:
        return None
    if isinstance(value, list):
        return [_host(item, written) for item in value]
    array = written.get(id(value.storage))
    return _elements(value) if array is None else array


def _elements(tensor: Tensor) -> npt.NDArray[Any]:
    """The elements as an ndarray: the one that stands for the tensor, or a copy of the storage."""
    array = tensor.storage.array
    return tensor.numpy() if array is None else array
