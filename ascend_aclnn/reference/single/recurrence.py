"""Recurrent single operators: one layer and direction over the steps of x (steps, batch, features), and their gradients.

Weights have rows for the inputs and columns for the gates, which lie beside each other in an order that an attribute names.
"""

from __future__ import annotations

from typing import Any, Optional

import numpy as np

from ascend_aclnn.numerics import Array
from ascend_aclnn.reference.declare import reference
from ascend_aclnn.reference.rnn import GruRun, LayerWeights, LstmRun, gru_gradients, lstm_gradients, run_gru, run_lstm

_LSTM, _GRU = "ifjo", "rzh"  # the orders of reference.rnn


def _gates(array: Array, order: str, wanted: str) -> Array:
    """The last axis with its gates in another order."""
    parts = np.split(array, len(order), -1)
    return np.concatenate([parts[order.index(gate)] for gate in wanted], -1)


def _mask(lengths: Optional[Array]) -> Optional[Array]:
    """Which samples still run at each step; torch_npu gives a number where all of them always do."""
    return None if lengths is None or lengths.ndim != 3 else np.asarray(lengths != 0)


def _lstm_weights(
    by_input: Array, by_state: Array, bias: Optional[Array], order: str, forget_bias: float
) -> LayerWeights:
    hidden = by_state.shape[0]
    offsets = np.zeros(4 * hidden, np.float32) if bias is None else _gates(bias, order, _LSTM)
    offsets[hidden : 2 * hidden] += forget_bias
    return LayerWeights(_gates(by_input, order, _LSTM).T, _gates(by_state, order, _LSTM).T, offsets)


def _first(state: Optional[Array], like: Array) -> Array:
    return np.zeros_like(like) if state is None else state.reshape(like.shape)


@reference("DynamicRNNV2")
def dynamic_rnn_v2(
    x: Array,
    by_input: Array,
    by_state: Array,
    bias: Optional[Array],
    lengths: Optional[Array],
    first_h: Optional[Array],
    first_c: Optional[Array],
    gate_order: str,
    forget_bias: float,
    direction: str,
) -> tuple[Array, ...]:
    state = np.zeros((x.shape[1], by_state.shape[0]), np.float32)
    weights = _lstm_weights(by_input, by_state, bias, gate_order.replace("c", "j"), forget_bias)
    h, c = _first(first_h, state), _first(first_c, state)
    run = run_lstm(x, weights, h, c, direction == "REDIRECTIONAL", _mask(lengths))
    return run.y, run.h, run.c, run.i, run.j, run.f, run.o, run.tanh_c


@reference("DynamicRNN")
def dynamic_rnn(x: Array, weight: Array, *rest: Any) -> tuple[Array, ...]:
    """The weights of the features stand above those of the state."""
    features = x.shape[-1]
    run: tuple[Array, ...] = dynamic_rnn_v2(x, weight[:features], weight[features:], *rest)
    return run


@reference("DynamicRNNV2Grad")
def dynamic_rnn_v2_grad(
    x: Array,
    by_input: Array,
    by_state: Array,
    first_h: Array,
    first_c: Array,
    h: Array,
    c: Array,
    dy: Array,
    dh: Array,
    dc: Array,
    i: Array,
    j: Array,
    f: Array,
    o: Array,
    tanh_c: Array,
    lengths: Optional[Array],
    gate_order: str,
    direction: str,
) -> tuple[Array, ...]:
    """Gradients of both weights, the bias, x and the first states."""
    order = gate_order.replace("c", "j")
    batch, hidden = x.shape[-2], by_state.shape[0]
    original_x, x = x, x.reshape(-1, batch, by_input.shape[0])
    run = LstmRun(*(array.reshape(len(x), batch, hidden) for array in (h, i, j, f, o, h, c, tanh_c)))
    weights = _lstm_weights(by_input, by_state, None, order, 0)
    h, c, dh, dc = (state.reshape(batch, hidden) for state in (first_h, first_c, dh, dc))
    dx, d_first_h, d_first_c, parameter_gradients = lstm_gradients(
        x, run, weights, h, c, dy.reshape(run.h.shape), dh, dc, direction == "REDIRECTIONAL", _mask(lengths)
    )
    d_input, d_state, d_bias = (_gates(array.T, _LSTM, order) for array in parameter_gradients[:3])
    return (
        d_input,
        d_state,
        d_bias,
        dx.reshape(original_x.shape),
        d_first_h.reshape(first_h.shape),
        d_first_c.reshape(first_c.shape),
    )


@reference("DynamicRNNGrad")
def dynamic_rnn_grad(x: Array, weight: Array, *rest: Any) -> tuple[Array, ...]:
    """As the second version, with the gradients of both parts of the weights in one array."""
    features = x.shape[-1]
    d_input, d_state, *others = dynamic_rnn_v2_grad(x, weight[:features], weight[features:], *rest)
    return (np.concatenate([d_input, d_state]), *others)


@reference("DynamicGRUV2")
def dynamic_gru_v2(
    x: Array,
    by_input: Array,
    by_state: Array,
    input_bias: Optional[Array],
    state_bias: Optional[Array],
    first_h: Optional[Array],
    gate_order: str,
) -> tuple[Array, ...]:
    """Output, states, the gates update, reset and new of each step, and the new gate's share of the state."""
    hidden = by_state.shape[0]
    nothing = np.zeros(3 * hidden, np.float32)
    biases = [nothing if bias is None else _gates(bias, gate_order, _GRU) for bias in (input_bias, state_bias)]
    weights = LayerWeights(_gates(by_input, gate_order, _GRU).T, _gates(by_state, gate_order, _GRU).T, *biases)
    run = run_gru(x, weights, _first(first_h, np.zeros((x.shape[1], hidden), np.float32)), False)
    return run.h, run.h, run.z, run.r, run.n, run.hn


@reference("DynamicGRUV2Grad")
def dynamic_gru_v2_grad(
    x: Array,
    by_input: Array,
    by_state: Array,
    first_h: Array,
    h: Array,
    dy: Array,
    dh: Array,
    update: Array,
    reset: Array,
    new: Array,
    hidden_new: Array,
    gate_order: str,
) -> tuple[Array, ...]:
    """Gradients of both weights, both biases, x and the first state."""
    nothing = np.zeros(by_state.shape[-1], np.float32)
    weights = LayerWeights(_gates(by_input, gate_order, _GRU).T, _gates(by_state, gate_order, _GRU).T, nothing, nothing)
    first = first_h.reshape(h.shape[1:])
    run = GruRun(reset, update, new, hidden_new, h)
    dx, d_first, parameter_gradients = gru_gradients(x, run, weights, first, dy, dh.reshape(first.shape), False)
    d_input, d_state, d_input_bias, d_state_bias = (_gates(array.T, _GRU, gate_order) for array in parameter_gradients)
    return d_input, d_state, d_input_bias, d_state_bias, dx, d_first.reshape(first_h.shape)
