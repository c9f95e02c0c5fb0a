"""Calls with torch tensors as arguments: torch tensors come back.

Host tensors go in and out as ndarrays over their own memory, at once. NPU tensors are used in place, on torch's current
stream; outputs are torch's own allocations, so torch's allocator orders their reuse with torch's own work.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, Callable, Optional

from ascend_aclnn.backends.interface import Backend, RememberedCall, without_values
from ascend_aclnn.call import torch_sizes
from ascend_aclnn.call.arguments import Invocation
from ascend_aclnn.call.invoke import invoke
from ascend_aclnn.call.outputs import output_items
from ascend_aclnn.call.plan import CallPlan
from ascend_aclnn.call.replay import PLAIN, find_on_device, float_key, remember_on_device, signature
from ascend_aclnn.core import torch_interop
from ascend_aclnn.core.spec import TensorSpec
from ascend_aclnn.core.streams import Device, Stream
from ascend_aclnn.core.tensor import Tensor, share_torch

Call = Callable[[CallPlan, Sequence[Any], Any, Optional[Stream]], Any]

_REMEMBERED = 2048  # Tensors over torch's memory that each device keeps


def first_torch_tensor(items: Sequence[Any]) -> Any:
    """The first torch tensor among arguments and sequences of them; None where there is none."""
    torch = sys.modules.get("torch")
    kind = getattr(torch, "Tensor", None)
    if kind is None:
        return None
    for item in items:
        if isinstance(item, kind):
            return item
        if isinstance(item, (list, tuple)):
            for part in item:
                if isinstance(part, kind):
                    return part
    return None


def call_with_torch(
    backend: Backend, plan: CallPlan, args: Sequence[Any], out: Any, stream: Optional[Stream], first: Any, call: Call
) -> Any:
    """One call of an operator with torch tensors among its arguments, which must all be on the device of the first."""
    name, device = plan.operator.name, first.device
    if stream is not None:
        text = "torch tensors are worked on where torch is: at once on the host, on its current stream on an NPU"
        raise TypeError(f"{name}: {text}; leave stream out, or make Tensors of them with from_torch()")
    if type(first).__name__ == "FakeTensor":
        return call_without_values(backend, plan, args, out, device)
    npu = _npus.get((backend, device))
    if npu is None:
        place = device.type
        if place == "meta" or not backend.has_values:
            return call_without_values(backend, plan, args, out, device)
        if place == "cpu":
            return _on_host(plan, args, out, device, call)
        if place != "npu":
            raise TypeError(f"{name}: the torch tensors are on {device}; they must be on cpu, npu or meta")
        if backend.name != "npu":
            text = f"the torch tensors are on {device}, and the backend in use is {backend.name}"
            raise TypeError(f'{name}: {text}; choose the NPU with use_backend("npu")')
        npu = _npus[backend, device] = _Npu(backend, device)
    results = npu.replay(plan, args, out)
    if results is not None:
        return plan.result(results)
    if device.index != backend.current_device():
        # torch and this package each have a current device.
        with torch_interop.torch_device(device), Device(device.index):
            results = npu.replay(plan, args, out)
            return _on_npu(npu, backend, plan, args, out) if results is None else plan.result(results)
    return _on_npu(npu, backend, plan, args, out)


def _on_host(plan: CallPlan, args: Sequence[Any], out: Any, device: Any, call: Call) -> Any:
    torch_tensors: dict[int, Any] = {}  # id of an ndarray -> the ndarray and the torch tensor that owns its memory

    def array(value: Any) -> Any:
        ndarray = torch_interop.host_array(value)
        torch_tensors[id(ndarray)] = (ndarray, value)
        return ndarray

    def torch_of(value: Any) -> Any:
        return torch_tensors[id(value)][1] if id(value) in torch_tensors else torch_interop.from_array(value)

    arrays = [_mapped(arg, array, plan, device) for arg in args]
    result = call(plan, arrays, _mapped(out, array, plan, device), None)
    if isinstance(result, tuple):
        return type(result)(*(_converted(value, torch_of) for value in result))
    return _converted(result, torch_of)


def call_without_values(backend: Backend, plan: CallPlan, args: Sequence[Any], out: Any, device: Any) -> Any:
    """What a call with torch tensors would return, of torch tensors that have no values (meta tensors, FakeTensors)."""
    shapes = without_values(backend)
    known: dict[int, tuple[Tensor, Any]] = {}  # id of a Tensor -> the Tensor and its torch tensor

    def described(torch_tensor: Any) -> Tensor:
        spec = torch_interop.spec_of(torch_tensor)
        tensor = Tensor.on(shapes.allocate(spec.storage_nbytes, 0), spec)
        known[id(tensor)] = (tensor, torch_tensor)
        return tensor

    def torch_of(tensor: Tensor) -> Any:
        return known[id(tensor)][1] if id(tensor) in known else torch_interop.empty_like_spec(tensor, device)

    def invoked(place: Any, items: Sequence[Any]) -> Invocation:
        invocation = Invocation(shapes, plan, True)
        tensors = [_mapped(item, described, plan, place) for item in items]
        invoke(invocation, tensors, out if out is None else _mapped(out, described, plan, place), None)
        return invocation

    if out is None and torch_sizes.has_symbols(args):
        meta = sys.modules["torch"].device("meta")
        specs = torch_sizes.infer_symbolic(shapes, plan, args, invoked(meta, [torch_sizes.numbers(a) for a in args]))
        if specs is not None:
            new = {i: torch_sizes.empty(specs.get(p.name), device) for i, p in plan.outputs}
            new.update((position, _as_list(args[at])) for position, at in plan.changed)
            return plan.result([new[i] for i in plan.results])
    invocation = invoked(device, args)
    return plan.result([_converted(invocation.values[i], torch_of) for i in plan.results])


class _Npu:
    """torch's memory on one NPU as calls use it: on torch's current stream, while the torch tensors live.

    A Tensor and its aclTensor are reused for arguments with the same elements in the same memory.
    """

    def __init__(self, backend: Backend, device: Any) -> None:
        torch = sys.modules["torch"]
        self.device = device
        self.stream = torch_interop.TorchStream(device.index)
        self._format = torch_interop.format_question()
        self._strided = torch.strided
        self._grad_enabled = torch.is_grad_enabled
        self._tensor, self._parameter = torch.Tensor, torch.nn.Parameter
        self._start = (backend, device.index, "torch")
        self._tensors: dict[tuple[Any, ...], Tensor] = {}

    def signature(self, items: Sequence[Any], new: bool) -> tuple[Optional[tuple[Any, ...]], list[int]]:
        """Everything but data that a call depends on, as a key, and the address of the storage of each item that is a tensor.

        The key is None where an item has none, or is for new_tensor() to refuse.
        """
        torch_kind, parameter_kind, device = self._tensor, self._parameter, self.device
        strided, format_of, grad_enabled = self._strided, self._format, self._grad_enabled
        key: list[Any] = [*self._start, new]
        addresses: list[int] = []
        for item in items:
            kind = type(item)
            if kind is torch_kind or kind is parameter_kind:
                if item.layout is not strided or item.device != device or (item.requires_grad and grad_enabled()):
                    return None, addresses
                storage = item.untyped_storage()
                addresses.append(storage.data_ptr())
                key += (  # all that describe() reads
                    item.dtype,
                    item.shape,
                    item.stride(),
                    item.storage_offset(),
                    storage.nbytes(),
                    format_of(item),
                    item.is_conj(),
                    item.is_neg(),
                )
                continue
            addresses.append(0)
            if kind in PLAIN:
                key.append(item)
            elif kind is float:
                key.append(float_key(item))
            else:
                inner = signature((item,))
                if inner is None:
                    return None, addresses
                key.append(inner)
        key.append(tuple(map(type, items)))
        return tuple(key), addresses

    def replay(self, plan: CallPlan, args: Sequence[Any], out: Any) -> Optional[list[Any]]:
        """The results of a call that is remembered; None, and nothing done, where it is not, or another device is current."""
        items = (*args, *output_items(plan, out))
        key, addresses = self.signature(items, out is None)
        recording = bool(self._start[0].captures)  # a call that is recorded is made in full
        remembered: Optional[_Replay] = None if key is None or recording else find_on_device(plan, key)
        return None if remembered is None else remembered.run(items, addresses, self.stream)

    def tensor(self, torch_tensor: Any) -> Tensor:
        """The Tensor for a torch tensor."""
        if torch_tensor.layout is not self._strided:
            return self.new_tensor(torch_tensor)  # raises for this layout
        storage = torch_tensor.untyped_storage()
        key = (  # all that describe() reads
            storage.data_ptr(),
            storage.nbytes(),
            torch_tensor.shape,
            torch_tensor.stride(),
            torch_tensor.storage_offset(),
            torch_tensor.dtype,
            self._format(torch_tensor),
            torch_tensor.is_conj(),
            torch_tensor.is_neg(),
        )
        kept_tensor = self._tensors.get(key)
        return self._keep(key, self.new_tensor(torch_tensor)) if kept_tensor is None else kept_tensor

    def output(self, torch_tensor: Any, spec: TensorSpec) -> Tensor:
        """The Tensor for a torch tensor that was made for a spec."""
        storage = torch_tensor.untyped_storage()
        key = (storage.data_ptr(), storage.nbytes(), spec.shape, spec.dtype, spec.format)
        kept_tensor = self._tensors.get(key)
        return self._keep(key, self.new_output(torch_tensor, spec)) if kept_tensor is None else kept_tensor

    def new_tensor(self, torch_tensor: Any) -> Tensor:
        """As tensor(), for an operator that changes the Tensor itself: the shape of its outputs depends on data."""
        return share_torch(torch_tensor, self.stream, None)

    def new_output(self, torch_tensor: Any, spec: TensorSpec) -> Tensor:
        """As output(), for the same."""
        return self.new_tensor(torch_tensor).with_format(spec.format)

    def _keep(self, key: tuple[Any, ...], tensor: Tensor) -> Tensor:
        if tensor.size:  # empty tensors of one call have equal keys
            if len(self._tensors) >= _REMEMBERED:
                self._tensors.clear()
            self._tensors[key] = tensor
        return tensor


_npus: dict[tuple[Backend, Any], _Npu] = {}  # by backend and torch.device


class _Replay:
    """A call with torch tensors, ready for others of its signature: their addresses are all that a remembered call needs."""

    __slots__ = ("_call", "_new", "_only_new")

    def __init__(self, call: RememberedCall, device: Any) -> None:
        samples = [torch_interop.empty_like_spec(spec, device) for spec in call.outputs]
        self._call = call
        self._only_new = list(call.results) == [-1 - n for n in range(len(samples))]
        self._new = [(t.shape, t.stride(), {"dtype": t.dtype, "device": device}) for t in samples]

    def run(self, items: Sequence[Any], addresses: Sequence[int], stream: Stream) -> Optional[list[Any]]:
        """The results; None, and nothing done, where the stream is not of the current device."""
        call = self._call
        new: list[Any] = []
        empty = sys.modules["torch"].empty_strided
        used = [addresses[i] for i in call.inputs]
        for shape, strides, options in self._new:
            # faster than torch.empty
            torch_tensor = empty(shape, strides, **options)
            new.append(torch_tensor)
            used.append(torch_tensor.data_ptr())
        if not call.run_at(used, stream):
            return None
        if self._only_new:
            return new
        return [None if at is None else items[at] if at >= 0 else new[-1 - at] for at in call.results]


def _on_npu(npu: _Npu, backend: Backend, plan: CallPlan, args: Sequence[Any], out: Any) -> Any:
    device = npu.device
    again = not plan.operator.data_dependent
    shared, output = (npu.tensor, npu.output) if again else (npu.new_tensor, npu.new_output)
    allocated: dict[int, Any] = {}  # id of a Tensor that was made for an output -> the torch tensor

    def allocate(spec: TensorSpec) -> Tensor:
        torch_tensor = torch_interop.empty_like_spec(spec, device)
        result = output(torch_tensor, spec)
        allocated[id(result)] = torch_tensor
        return result

    def torch_of(result: Tensor) -> Any:
        torch_tensor = allocated[id(result)]
        return (
            torch_tensor
            if again or torch_tensor.shape == result.shape
            else torch_tensor.as_strided(result.shape, result.strides)
        )

    tensors = [_mapped(arg, shared, plan, device) for arg in args]
    out_tensors = out if out is None else _mapped(out, shared, plan, device)
    invocation = Invocation(backend, plan, True)
    invocation.allocate = allocate
    invoke(invocation, tensors, out_tensors, npu.stream)
    results = [invocation.values[i] for i in plan.results]
    key, _ = npu.signature((*args, *output_items(plan, out)), out is None)
    if key is not None and not backend.captures:
        items = (*tensors, *output_items(plan, out_tensors))
        remember_on_device(invocation, key, items, lambda remembered: _Replay(remembered, device))
    passed = {position: args[at] for position, at in plan.changed}
    if out is not None:
        passed.update((i, item) for (i, _), item in zip(plan.outputs, output_items(plan, out)) if item is not None)
    return plan.result(
        [
            _as_list(passed[i]) if i in passed else _converted(result, torch_of)
            for i, result in zip(plan.results, results)
        ]
    )


def _mapped(value: Any, function: Callable[[Any], Any], plan: CallPlan, device: Any) -> Any:
    """A value with a function applied to each torch tensor in it, which must be on a device."""
    if isinstance(value, sys.modules["torch"].Tensor):
        if value.device != device:
            text = f"the torch tensors are on {device} and {value.device}; they must be on one device"
            raise TypeError(f"{plan.operator.name}: {text}")
        lost = torch_interop.why_not_differentiated(value, plan.operator.name, bool(plan.operator.gradients))
        if lost:
            raise TypeError(f"{plan.operator.name}: {lost}")
        return function(value)
    kind = type(value)
    if kind is list or kind is tuple:
        return kind(_mapped(item, function, plan, device) for item in value)
    if isinstance(value, Tensor):
        text = "a Tensor beside torch tensors; make one of the other with from_torch() or torch()"
        raise TypeError(f"{plan.operator.name}: {text}")
    return value


def _converted(value: Any, function: Callable[[Any], Any]) -> Any:
    """A result with a function applied to it, or to each array in it."""
    if isinstance(value, list):
        return [function(item) for item in value]
    return None if value is None else function(value)


def _as_list(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
