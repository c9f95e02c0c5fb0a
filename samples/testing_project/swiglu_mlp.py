"""A feed-forward layer: (silu(x @ gate) * (x @ up)) @ down."""

from __future__ import annotations

from ascend_aclnn import Tensor, ops


def swiglu_mlp(x: Tensor, gate: Tensor, up: Tensor, down: Tensor) -> Tensor:
    """x (tokens, hidden), gate and up (hidden, inner), down (inner, hidden); float16, bfloat16 or float32."""
    return ops.mm(ops.mul(ops.silu(ops.mm(x, gate)), ops.mm(x, up)), down)
