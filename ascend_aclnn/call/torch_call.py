"""Calls with torch tensors as arguments: torch tensors come back.

Host tensors go in and out as ndarrays over their own memory, at once. NPU tensors are used in place, on torch's current
stream; outputs are torch's own allocations, so torch's allocator orders their reuse with torch's own work.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, Callable, Optional

from ascend_aclnn.call.plan import CallPlan
from ascend_aclnn.core import torch_interop
from ascend_aclnn.core.current import current_backend
from ascend_aclnn.core.spec import TensorSpec
from ascend_aclnn.core.streams import Device, Stream
from ascend_aclnn.core.tensor import Tensor, share_torch

Allocate = Callable[[TensorSpec], Tensor]
Call = Callable[[CallPlan, Sequence[Any], Any, Optional[Stream], Optional[Allocate]], Any]


def holds_torch(items: Sequence[Any]) -> bool:
    """True where an argument is a torch tensor or a sequence with one."""
    torch = sys.modules.get("torch")
    kind = getattr(torch, "Tensor", None)
    if kind is None:
        return False
    for item in items:
        if isinstance(item, kind):
            return True
        if isinstance(item, (list, tuple)) and any(isinstance(part, kind) for part in item):
            return True
    return False


def call_with_torch(plan: CallPlan, args: Sequence[Any], out: Any, stream: Optional[Stream], call: Call) -> Any:
    """One call of an operator, some of whose arguments are torch tensors."""
    name = plan.operator.name
    tensors: list[Any] = []
    for value in _flat((*args, out)):
        if isinstance(value, Tensor):
            raise TypeError(
                f"{name}: a Tensor beside torch tensors; make one of the other with from_torch() or torch()"
            )
        if torch_interop.is_torch_tensor(value):
            tensors.append(value)
    devices = {tensor.device for tensor in tensors}
    if len(devices) > 1:
        found = ", ".join(sorted(map(str, devices)))
        raise TypeError(f"{name}: the torch tensors are on {found}; they must be on one device")
    (device,) = devices
    if stream is not None:
        text = "torch tensors are worked on where torch is: at once on the host, on its current stream on an NPU"
        raise TypeError(f"{name}: {text}; leave stream out, or make Tensors of them with from_torch()")
    if device.type == "cpu":
        return _on_host(plan, args, out, call)
    if device.type != "npu":
        raise TypeError(f"{name}: the torch tensors are on {device}; they must be on cpu or npu")
    if current_backend().name != "npu":
        text = f"the torch tensors are on {device}, and the backend in use is {current_backend().name}"
        raise TypeError(f'{name}: {text}; choose the NPU with use_backend("npu")')
    if device.index != current_backend().current_device():
        with torch_interop.torch_device(device), Device(device.index):  # each has its own idea of the current one
            return _on_npu(plan, args, out, device.index, call)
    return _on_npu(plan, args, out, device.index, call)


def _on_host(plan: CallPlan, args: Sequence[Any], out: Any, call: Call) -> Any:
    given: dict[int, Any] = {}  # id of an ndarray -> it, and the torch tensor whose memory it is

    def array(value: Any) -> Any:
        made = torch_interop.host_array(value)
        given[id(made)] = (made, value)
        return made

    result = call(plan, _mapped(tuple(args), array), _mapped(out, array), None, None)
    return _results(
        result, lambda value: given[id(value)][1] if id(value) in given else torch_interop.from_array(value)
    )


def _on_npu(plan: CallPlan, args: Sequence[Any], out: Any, device: int, call: Call) -> Any:
    stream = torch_interop.TorchStream(device)
    given: dict[int, Any] = {}  # id of a storage -> the torch tensor whose memory it is

    def shared(value: Any) -> Tensor:
        tensor = share_torch(value, stream)
        given[id(tensor.storage)] = value
        return tensor

    def allocate(spec: TensorSpec) -> Tensor:
        return share_torch(torch_interop.empty_like_spec(spec, device), stream)

    def torch_of(value: Any) -> Any:
        known = given.get(id(value.storage))
        return torch_interop.to_torch(value) if known is None else known

    return _results(call(plan, _mapped(tuple(args), shared), _mapped(out, shared), stream, allocate), torch_of)


def _flat(items: Sequence[Any]) -> list[Any]:
    return [part for item in items for part in (item if isinstance(item, (list, tuple)) else (item,))]


def _mapped(value: Any, function: Callable[[Any], Any]) -> Any:
    """A value with a function applied to each torch tensor in it."""
    if torch_interop.is_torch_tensor(value):
        return function(value)
    if type(value) in (list, tuple):
        return type(value)(_mapped(item, function) for item in value)
    return value


def _results(result: Any, function: Callable[[Any], Any]) -> Any:
    """The results with a function applied to each array in them."""
    if isinstance(result, tuple):
        return type(result)(*(_converted(value, function) for value in result))
    return _converted(result, function)


def _converted(value: Any, function: Callable[[Any], Any]) -> Any:
    if isinstance(value, list):
        return [function(item) for item in value]
    return None if value is None else function(value)
