"""References of single operators that no aclnn operator does the work of; their names begin with ``aclnnSingle``."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Optional

import numpy as np

from ascend_aclnn import catalog
from ascend_aclnn.catalog.headers import operator_from_prototype
from ascend_aclnn.numerics import Array
from ascend_aclnn.reference.declare import reference
from ascend_aclnn.reference.rnn import LayerWeights, run_lstm

# In C's words, without workspaceSize and executor; what is not const is an output.
_PROTOTYPES = {
    "aclnnSingleDynamicRNN": "const aclTensor *x, const aclTensor *wx, const aclTensor *wh, const aclTensor *b, "
    "const aclTensor *initH, const aclTensor *initC, const char *gateOrder, double forgetBias, bool reverse, "
    "aclTensor *y, aclTensor *h, aclTensor *c, aclTensor *i, aclTensor *j, aclTensor *f, aclTensor *o, aclTensor *tanhC",
    "aclnnSingleArgWithValue": "const aclTensor *x, int64_t dimension, bool keepDims, bool largest, aclTensor *indices, "
    "aclTensor *values",
    "aclnnSingleSort": "const aclTensor *x, int64_t axis, bool descending, aclTensor *y",
    "aclnnSingleCdist": "const aclTensor *x1, const aclTensor *x2, double p, aclTensor *y",
    "aclnnSingleCdistGrad": "const aclTensor *grad, const aclTensor *x1, const aclTensor *x2, const aclTensor *cdist, "
    "double p, aclTensor *y",
    "aclnnSingleLpNormReduce": "const aclTensor *x, double p, const aclIntArray *axes, bool keepDims, aclTensor *y",
    "aclnnSingleLpNormUpdate": "const aclTensor *x, double p, aclTensor *y",
}
_INFINITE = 2.0**31 - 128  # p of this size, rounded to float32, stands for infinity


def _register() -> None:
    for name, parameters in _PROTOTYPES.items():
        text = f"aclnnStatus {name}GetWorkspaceSize({parameters}, uint64_t *workspaceSize, aclOpExecutor **executor);"
        outputs = {row.split("*")[1]: "out" for row in parameters.split(", ") if row.startswith("aclTensor")}
        catalog.register(dataclasses.replace(operator_from_prototype(text, outputs, ()), family="single"))


_register()


@reference("aclnnSingleDynamicRNN")
def dynamic_rnn(
    x: Array,
    by_input: Array,
    by_state: Array,
    bias: Optional[Array],
    first_h: Optional[Array],
    first_c: Optional[Array],
    gate_order: str,
    forget_bias: float,
    reverse: bool,
) -> tuple[Array, ...]:
    """An LSTM over the steps of x (steps, batch, features), whose weights have the gates beside each other in an order."""
    hidden = by_state.shape[0]
    order = gate_order.replace("c", "j")
    places = [order.index(gate) for gate in "ifjo"]

    def gates(weight: Array) -> Array:
        return np.concatenate([weight[..., at * hidden : (at + 1) * hidden] for at in places], -1)

    offsets = gates(np.zeros(4 * hidden, np.float32) if bias is None else bias).astype(np.float32)
    offsets[hidden : 2 * hidden] += forget_bias
    state = np.zeros((x.shape[1], hidden), np.float32)
    h, c = (state if first is None else first.reshape(state.shape) for first in (first_h, first_c))
    weights = LayerWeights(gates(by_input).T, gates(by_state).T, offsets)
    run = run_lstm(x, weights, h, c, reverse, None)
    return run.y, run.h, run.c, run.i, run.j, run.f, run.o, run.tanh_c


@reference("aclnnSingleArgWithValue")
def arg_with_value(x: Array, dimension: int, keep_dims: bool, largest: bool) -> tuple[Array, Array]:
    """The largest, or the smallest, elements along an axis and their first positions."""
    indices = (np.argmax if largest else np.argmin)(x, dimension, keepdims=True)
    values = np.take_along_axis(x, indices, dimension)
    return (indices, values) if keep_dims else (indices.squeeze(dimension), values.squeeze(dimension))


@reference("aclnnSingleSort")
def sort(x: Array, axis: int, descending: bool) -> Array:
    found = np.sort(x, axis)
    return np.flip(found, axis) if descending else found


@reference("aclnnSingleCdist")
def cdist(x1: Array, x2: Array, p: float) -> Array:
    """Distances of rows that have been broadcast against each other; p -1 is the largest difference."""
    difference = np.abs(x1.astype(np.float64) - x2)
    if p == -1:
        return np.asarray(np.max(difference, -1, initial=0))
    if p == 0:
        return np.asarray(np.count_nonzero(difference, -1), np.float64)
    return np.asarray(np.sum(difference**p, -1) ** (1 / p))


@reference("aclnnSingleCdistGrad")
def cdist_grad(grad: Array, x1: Array, x2: Array, distance: Array, p: float) -> Array:
    """With respect to x1, summed over the rows of x2; all inputs are broadcast to (..., rows, other rows, features)."""
    difference = x1.astype(np.float64) - x2
    size = np.abs(difference)
    if p == 0:
        slope = np.zeros_like(size)
    elif p == 1:
        slope = np.sign(difference)
    elif p == -1:
        slope = np.sign(difference) * (size == distance)
    else:
        share = np.divide(size, distance, out=np.zeros_like(size), where=distance != 0)
        slope = np.sign(difference) * np.where(size == 0, 0, share ** (p - 1))
    return np.asarray(np.sum(slope * grad, -2))


@reference("aclnnSingleLpNormReduce")
def lp_norm_reduce(x: Array, p: float, axes: Sequence[int], keep_dims: bool) -> Array:
    """What LpNormUpdateV2 takes the root of: the sum of powers, or, for infinity, the largest or smallest size."""
    size, over = np.abs(x.astype(np.float64)), tuple(axes) or None
    if abs(p) >= _INFINITE:
        return np.asarray((np.max if p > 0 else np.min)(size, over, keepdims=keep_dims))
    power: Any = size != 0 if p == 0 else size**p
    return np.asarray(np.sum(power, over, dtype=np.float64, keepdims=keep_dims))


@reference("aclnnSingleLpNormUpdate")
def lp_norm_update(x: Array, p: float) -> Array:
    return x if p in (0, 1) or abs(p) >= _INFINITE else np.asarray(x.astype(np.float64) ** (1 / p))
