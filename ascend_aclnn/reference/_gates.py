"""Activations by name, and gates: the activated half of an axis times the other half."""

from __future__ import annotations

import numpy as np

from ascend_aclnn.numerics import Array
from ascend_aclnn.reference._special import normal_distribution, sigmoid


def activated(y: Array, operation: str) -> Array:
    """An activation by its name."""
    if operation == "relu":
        return np.maximum(y, 0)
    if operation == "gelu_tanh":
        inner = np.float32(np.sqrt(2 / np.pi)) * (y + np.float32(0.044715) * y * y * y)
        return np.asarray(np.float32(0.5) * y * (1 + np.tanh(inner)))
    if operation == "gelu_erf":
        return np.asarray(y * normal_distribution(y))
    if operation == "fast_gelu":
        return np.asarray(y / (1 + np.exp(np.float32(-1.702) * y)))
    if operation == "silu":
        return np.asarray(y / (1 + np.exp(-y)))
    return y


def swiglu(x: Array, activate_left: bool, axis: int = -1) -> Array:
    """silu(A) * B, A and B being the halves of an axis, A the left one if ``activate_left``."""
    halves = np.split(x, 2, axis)
    a, b = halves if activate_left else reversed(halves)
    return np.asarray(a * sigmoid(a) * b)


def clamped_gate(x: Array, mode: int, limit: float, alpha: float, bias: float, activate_left: bool, axis: int) -> Array:
    """The gates of swigluMode: 0 plain, 1 (even and odd elements) and 2 clamped before, 3 clamped afterwards."""
    if mode == 0:
        return swiglu(x, activate_left, axis)
    gate, linear = (x[..., ::2], x[..., 1::2]) if mode == 1 else np.split(x, 2, axis)
    linear = np.clip(linear, -limit, limit)
    if mode == 3:
        return np.asarray(np.minimum(gate * sigmoid(gate), limit) * linear)
    gate = np.minimum(gate, limit)
    return np.asarray(gate * sigmoid(np.float32(alpha) * gate) * (linear + np.float32(bias)))


def situ(x: Array, beta: float, linear_beta: float, activate_left: bool) -> Array:
    """beta * tanh(gate / beta) * sigmoid(gate) * up of the halves of the last axis; with linearBeta up is squashed too."""
    halves = np.split(x, 2, -1)
    gate, up = halves if activate_left else halves[::-1]
    if linear_beta > 0:
        up = np.tanh(up * np.float32(1 / linear_beta)) * np.float32(linear_beta)
    return np.asarray(np.tanh(gate * np.float32(1 / beta)) * np.float32(beta) * sigmoid(gate) * up, np.float32)
