"""Running a reference on tensors: widen, compute, round once into the outputs."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Any, Optional

import numpy as np

from ascend_aclnn import numerics, reference
from ascend_aclnn.backends.numpy.storage import HostStorage, host_view
from ascend_aclnn.catalog import Operator
from ascend_aclnn.core.dtypes import Format
from ascend_aclnn.core.errors import OUT_OF_MEMORY, PARAM_INVALID, AclError, DataError, UnsupportedOperator
from ascend_aclnn.core.scalar import Scalar
from ascend_aclnn.core.socs import Soc
from ascend_aclnn.core.spec import TensorSpec, contiguous_strides
from ascend_aclnn.core.tensor import Tensor
from ascend_aclnn.rules.language import Call


def unsupported(operator: Operator, values: Sequence[Any], soc: Soc) -> Optional[str]:
    """Why the NumPy backend cannot run an operator on such values (specs suffice), though CANN can; None if it can."""
    found = reference.find(operator)
    if found is None:
        return "the NumPy backend has no reference for this operator"
    for parameter, value in zip(operator.parameters, values):
        for spec in value if isinstance(value, list) else (value,):
            if not isinstance(spec, TensorSpec):
                continue
            if spec.dtype.numpy is None:
                return f"{parameter.python_name} has dtype {spec.dtype.name}, which has no host type"
            if spec.format.private and spec.format is not Format.FRACTAL_NZ:
                return f"{parameter.python_name} has format {spec.format.name}, whose layout is not known"
    return None if found.unsupported is None else found.unsupported(Call(operator, values, soc))


def execute(operator: Operator, values: Sequence[Any], soc: Soc) -> None:
    """Runs the reference on values that phase one has passed; the results are in the output tensors."""
    why = unsupported(operator, values, soc)
    found = reference.find(operator)
    if why is not None or found is None:
        raise UnsupportedOperator(operator.name, why or "")
    try:
        arguments = [_host(operator, p.name, v, p.direction) for p, v in zip(operator.parameters, values)]
        if found.channels_first is True or soc.product in (found.channels_first or "").split():
            _move_channels_first(arguments)
        directions = [p.direction for p in operator.parameters]
        inputs = [h for h, direction in zip(arguments, directions) if direction != "out"]
        outputs = [h for h, direction in zip(arguments, directions) if direction != "in"]
        with np.errstate(all="ignore"):
            if found.raw:
                written = [_arrays(h) for h, direction in zip(arguments, directions) if direction == "out"]
                separate = (_separate(_arrays(h), written) for h in inputs)
                found.function(*separate, out=tuple(map(_arrays, outputs)))
            else:
                results = found.function(*(_widened(_arrays(h)) for h in inputs))
                _store(operator, results, outputs)
        for output in outputs:
            for item in output if isinstance(output, list) else (output,):
                if isinstance(item, _HostTensor):
                    item.commit()
    except DataError as error:
        position = operator.positions.get(error.argument)
        argument = None if position is None else operator.parameters[position].python_name
        detail = f"{argument or error.argument} {error.detail}"
        raise AclError(PARAM_INVALID, operator.name, detail, operator=operator.name, argument=argument) from None
    except MemoryError as error:
        detail = f"the reference needs more memory than this host has: {error}"
        raise AclError(OUT_OF_MEMORY, operator.name, detail, operator=operator.name) from error
    except AclError:
        raise
    except Exception as error:  # a fault of the reference, not of the arguments
        note = f"in the NumPy reference of {operator.name} ({_shapes(operator, values)})"
        if sys.version_info >= (3, 11):
            error.add_note(note)
            raise
        raise error from RuntimeError(note)


class _HostTensor:
    """A tensor's elements as an ndarray: over its own memory, or decoded (packed and blocked storage) and put back."""

    __slots__ = ("array", "decoded", "tensor")

    def __init__(self, tensor: Tensor, direction: str) -> None:
        self.tensor = tensor
        self.decoded = tensor.storage.array is None and (tensor.dtype.packed or tensor.format.private)
        if not self.decoded:
            self.array = host_view(tensor)
        elif direction == "out":
            self.array = np.empty(tensor.shape, tensor.dtype.numpy)
        else:
            self.array = tensor.numpy()

    def commit(self) -> None:
        if self.decoded:
            self.tensor.assign(self.array)


def _host(operator: Operator, name: str, value: Any, direction: str) -> Any:
    """One value as a reference takes it, tensors still with what is needed to write them."""
    if isinstance(value, Tensor):
        try:
            return _HostTensor(value, direction)
        except (TypeError, ValueError) as error:
            raise UnsupportedOperator(operator.name, f"{name}: the NumPy backend cannot use it: {error}") from None
    if isinstance(value, Scalar):
        return value.value
    if isinstance(value, list):
        return [_host(operator, name, item, direction) for item in value]
    return value


def _move_channels_first(arguments: Sequence[Any]) -> None:
    """Views with the channels in axis 1 of tensors that have them last."""
    for item in arguments:
        if isinstance(item, _HostTensor) and item.tensor.format in (Format.NHWC, Format.NDHWC):
            item.array = np.moveaxis(item.array, -1, 1)


def _arrays(argument: Any) -> Any:
    if isinstance(argument, list):
        return [_arrays(item) for item in argument]
    return argument.array if isinstance(argument, _HostTensor) else argument


def _separate(value: Any, written: Sequence[Any]) -> Any:
    """An input that no destination overlaps: the input itself, or a copy."""
    if isinstance(value, list):
        return [_separate(item, written) for item in value]
    if isinstance(value, np.ndarray):
        for target in written:
            for array in target if isinstance(target, list) else (target,):
                if array is not None and np.may_share_memory(value, array):
                    return value.copy()
    return value


def _widened(value: Any) -> Any:
    if isinstance(value, list):
        return [_widened(item) for item in value]
    return numerics.widen(value) if isinstance(value, np.ndarray) else value


def _store(operator: Operator, results: Any, outputs: Sequence[Any]) -> None:
    """Rounds what a reference returned into the outputs."""
    several = results if isinstance(results, tuple) else (results,)
    if len(several) != len(outputs):
        raise RuntimeError(f"{operator.name}: the reference gave {len(several)} results for {len(outputs)} outputs")
    for value, target, parameter in zip(several, outputs, operator.outputs):
        if target is None:
            continue
        targets: list[_HostTensor] = target if isinstance(target, list) else [target]
        if value is None:  # CANN does not write it either; rubbish would be another one each time
            for destination in targets if parameter.direction == "out" else ():
                destination.array[...] = 0
            continue
        sources = list(value) if isinstance(target, list) else [value]
        if len(sources) != len(targets):
            raise DataError(parameter.name, f"has {len(targets)} tensors; it must have {len(sources)}")
        for source, destination in zip(sources, targets):
            source = np.asarray(source)
            if source.shape != destination.array.shape:
                _shrink(operator, parameter.name, destination, source.shape)
            numerics.round_into(destination.array, source)


def _shrink(operator: Operator, name: str, output: _HostTensor, shape: tuple[int, ...]) -> None:
    """An output whose shape depends on data takes the front of what was allocated, as aclGetViewShape then tells."""
    tensor, whole = output.tensor, output.array
    fits = math.prod(shape) <= whole.size and whole.flags.c_contiguous and not output.decoded
    if not operator.data_dependent or not fits:
        raise DataError(name, f"has shape {whole.shape}; it must be {shape}")
    output.array = whole.reshape(-1)[: math.prod(shape)].reshape(shape)
    tensor.shape, tensor.strides = shape, contiguous_strides(shape)
    assert isinstance(tensor.storage, HostStorage)
    if tensor.storage.array is not None:
        tensor.storage.array = output.array


def _shapes(operator: Operator, values: Sequence[Any]) -> str:
    """What tensors came, for a message: "x (2, 3), gamma (3,)"."""
    words = []
    for parameter, value in zip(operator.parameters, values):
        tensors = [item for item in (value if isinstance(value, list) else [value]) if isinstance(item, Tensor)]
        if tensors:
            words.append(f"{parameter.python_name} {', '.join(str(tensor.shape) for tensor in tensors)}")
    return "; ".join(words)
