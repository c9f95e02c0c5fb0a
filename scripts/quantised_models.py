"""Quantises small models for vLLM as msModelSlim does, and a copy for transformers by steps as large.

Schemes are vllm-ascend's: W8A8_DYNAMIC (weights by output, activations by token), W8A8 (attention only; activations by one step),
W4A8_DYNAMIC (weights of 4 bits).
"""

from __future__ import annotations

import functools
import json
import re
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

_GROUP = 64  # weights of 4 bits that share a scale


def quantise(directory: Path, model: Any, scheme: str, prompts: list[list[int]]) -> None:
    """Quantises the checkpoint in a directory; the model, in float32, gets weights and activations of as many steps.

    ``prompts`` say how large activations are, where that is settled beforehand.
    """
    tensors = load_file(directory / "model.safetensors")
    kinds = dict.fromkeys(tensors, "FLOAT")
    has_experts = any(".experts." in name for name in tensors)
    largest = _largest_inputs(model, prompts) if scheme == "W8A8" else {}
    for name in list(tensors):
        layer = name.removesuffix(".weight")
        kind = _kind(layer, scheme, has_experts)
        if kind == "FLOAT":
            continue
        of_expert = ".experts." in layer
        weight = tensors.pop(name)
        if kind == "W4A8_DYNAMIC":
            columns = 16 if layer.endswith("down_proj") else 1
            parts, stepped = _four_bits_by_output(weight, columns) if of_expert else _four_bits_by_group(weight)
        else:
            parts, stepped = _eight_bits(weight)
        if kind == "W8A8":
            parts |= _static(parts["weight_scale"], largest[layer])
        if kind != "W4A8_DYNAMIC" and not of_expert:
            step = parts["input_scale"].float() if kind == "W8A8" else None
            model.get_submodule(layer).register_forward_pre_hook(functools.partial(_step_inputs, step))
        with torch.no_grad():
            _weight(model, layer).copy_(stepped)
        tensors |= {f"{layer}.{part}": tensor.contiguous() for part, tensor in parts.items()}
        kinds |= dict.fromkeys((f"{layer}.{part}" for part in parts), kind)
    if has_experts and scheme != "W8A8":
        for module in model.modules():
            if type(module).__name__.endswith("Experts"):
                module.forward = functools.partial(_experts_in_steps, module)
    save_file(tensors, directory / "model.safetensors")
    description: dict[str, Any] = {**kinds, "model_quant_type": scheme}
    if scheme == "W4A8_DYNAMIC":  # of experts in the newer layout: two weights in a byte, no groups
        description |= {"group_size": 0, "version": "1.0.0"} if has_experts else {"group_size": _GROUP, "version": "0"}
    (directory / "quant_model_description.json").write_text(json.dumps(description))


def _kind(layer: str, scheme: str, has_experts: bool) -> str:
    """What becomes of a layer: attention beside experts of 4 bits has 8."""
    if not re.search(r"_proj(_with_mqa)?$", layer):
        return "FLOAT"
    if scheme == "W8A8":
        return scheme if "self_attn" in layer and not layer.endswith("kv_b_proj") else "FLOAT"
    return "W8A8_DYNAMIC" if has_experts and ".experts." not in layer else scheme


def _weight(model: Any, layer: str) -> Any:
    """The weight of a layer; transformers has those of all experts in two tensors."""
    experts, _, rest = layer.partition(".experts.")
    if not rest:
        return model.get_submodule(layer).weight
    number, _, part = rest.partition(".")
    module = model.get_submodule(f"{experts}.experts")
    if part == "down_proj":
        return module.down_proj[int(number)]
    return module.gate_up_proj[int(number)].chunk(2)[part == "up_proj"]


# ------------------------------------------------------------------------------------------------------ weights


def _codes(weight: Any, scale: Any, largest: int) -> Any:
    return (weight.float() / scale.float()).round().clamp(-largest - 1, largest)


def _eight_bits(weight: Any) -> tuple[dict[str, Any], Any]:
    """A scale for each output."""
    scale = (weight.float().abs().amax(1, keepdim=True) / 127).to(weight.dtype)
    codes = _codes(weight, scale, 127)
    parts = {"weight": codes.to(torch.int8), "weight_scale": scale, "weight_offset": torch.zeros_like(scale)}
    return parts, codes * scale.float()


def _static(scale: Any, largest: float) -> dict[str, Any]:
    """What W8A8 has besides: the step of inputs, and the scale of products, for float16 as CANN's quantised operators take it."""
    step = torch.tensor([largest / 127]).to(scale.dtype)
    descale = step.float() * scale.float().flatten()
    return {
        "input_scale": step,
        "input_offset": torch.zeros(1, dtype=torch.int8),
        "quant_bias": torch.zeros(len(scale), dtype=torch.int32),
        "deq_scale": descale.view(torch.int32).to(torch.int64) if scale.dtype == torch.float16 else descale,
    }


def _four_bits_by_group(weight: Any) -> tuple[dict[str, Any], Any]:
    """Linear layers of W4A8_DYNAMIC, for which vllm-ascend leaves activations alone: scales of outputs times those of groups."""
    first = (weight.float().abs().amax(1, keepdim=True) / 127).to(weight.dtype)
    groups = (weight.float() / first.float()).view(len(weight), -1, _GROUP)
    second = (groups.abs().amax(2) / 7).to(weight.dtype)
    scale = (first.float() * second.float()).to(weight.dtype).repeat_interleave(_GROUP, 1)
    codes = _codes(weight, scale, 7)
    parts = {
        "weight": codes.to(torch.int8),
        "weight_scale": first,
        "weight_offset": torch.zeros_like(first),
        "weight_scale_second": second,
        "weight_offset_second": torch.zeros(second.shape, dtype=torch.int64),
    }
    return parts, codes * scale.float()


def _four_bits_by_output(weight: Any, columns: int) -> tuple[dict[str, Any], Any]:
    """Experts of W4A8_DYNAMIC: the weights of two outputs in a byte, a scale for each, and eight times the sum of its weights.

    The sum is split by inputs into ``columns``, which a rank may have some of.
    """
    scale = weight.float().abs().amax(1, keepdim=True) / 7
    codes = _codes(weight, scale, 7)
    even, odd = codes.to(torch.int8).view(-1, 2, weight.shape[1]).unbind(1)
    parts = {
        "weight": (even & 15) | (odd << 4),
        "weight_scale": scale,
        "weight_offset": torch.zeros_like(scale),
        "scale_bias": 8 * (codes * scale).view(len(weight), columns, -1).sum(2),
    }
    return parts, codes * scale


# -------------------------------------------------------------------------------------------------- activations


def _largest_inputs(model: Any, prompts: list[list[int]]) -> dict[str, float]:
    """The largest magnitude that each linear layer gets."""
    largest: dict[str, float] = {}

    def observe(name: str, _: Any, inputs: Any) -> None:
        largest[name] = max(largest.get(name, 0), float(inputs[0].abs().max()))

    linear = [(name, module) for name, module in model.named_modules() if isinstance(module, torch.nn.Linear)]
    hooks = [module.register_forward_pre_hook(functools.partial(observe, name)) for name, module in linear]
    with torch.no_grad():
        model(torch.tensor(prompts))
    for hook in hooks:
        hook.remove()
    return largest


def _in_steps(x: Any, step: Any = None) -> Any:
    """Rounded to steps; without one, to those of each token."""
    if step is None:
        step = x.abs().amax(-1, keepdim=True) / 127
    return (x / step).round().clamp(-128, 127) * step


def _step_inputs(step: Any, _: Any, inputs: Any) -> Any:
    return (_in_steps(inputs[0], step), *inputs[1:])


def _experts_in_steps(experts: Any, x: Any, chosen: Any, shares: Any) -> Any:
    """What experts give together, all of them computed for each token. What each of their two layers gets is in steps."""
    gate, up = torch.einsum("ti,eoi->eto", _in_steps(x), experts.gate_up_proj).chunk(2, -1)
    between = _in_steps(torch.nn.functional.silu(gate) * up)
    each = torch.einsum("eti,eoi->eto", between, experts.down_proj)
    return torch.einsum("eto,te->to", each, torch.zeros(len(x), len(each)).scatter(1, chosen, shares.float()))
