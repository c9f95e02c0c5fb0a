"""Recurrent layers and their gradients, in float32.

Gates lie in PyTorch's order: input, forget, cell, output of an LSTM; reset, update, new of a GRU. Layers are listed with
their directions innermost: (layer 0 forward, layer 0 backward, layer 1 forward, ...).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Optional

import numpy as np

from ascend_aclnn.numerics import Array, DataError
from ascend_aclnn.reference._special import sigmoid
from ascend_aclnn.reference.declare import reference


class LayerWeights(NamedTuple):
    """The weights of one layer and direction: by input, by state, and (where there are biases) both biases."""

    by_input: Array
    by_state: Array
    input_bias: Optional[Array] = None
    state_bias: Optional[Array] = None

    @classmethod
    def of_all(cls, params: Sequence[Array], has_bias: bool) -> list[LayerWeights]:
        step = 4 if has_bias else 2
        return [cls(*params[i : i + step]) for i in range(0, len(params), step)]


def _over(x: Array, weight: Array, bias: Optional[Array]) -> Array:
    product = np.asarray(np.matmul(x, weight.T))
    return product if bias is None else product + bias


def _times(steps: int, reverse: bool) -> Sequence[int]:
    return range(steps - 1, -1, -1) if reverse else range(steps)


def _present(batch_sizes: Optional[Array], steps: int, batch: int) -> Optional[Array]:
    """Which samples still run at each step (steps, batch, 1); None where all do."""
    if batch_sizes is None:
        return None
    sizes = batch_sizes.reshape(-1)
    if sizes.size != steps or (sizes.size and (sizes.min() < 0 or sizes.max() > batch)):
        raise DataError("batchSizes", f"is {sizes.tolist()}; it must have {steps} items in [0, {batch}]")
    return np.asarray(np.arange(batch)[None, :, None] < sizes[:, None, None])


def _unless_ended(present: Optional[Array], t: int, new: Array, old: Array) -> Array:
    """New states; those of samples that have ended stay as they were."""
    return new if present is None else np.where(present[t], new, old)


# ------------------------------------------------------------------------------------------------- LSTM


class LstmRun(NamedTuple):
    """What one layer and direction gives at every step: its output, gates, states and the cell's tanh."""

    y: Array
    i: Array
    j: Array
    f: Array
    o: Array
    h: Array
    c: Array
    tanh_c: Array


def run_lstm(x: Array, w: LayerWeights, h: Array, c: Array, reverse: bool, present: Optional[Array]) -> LstmRun:
    steps, batch, hidden = x.shape[0], x.shape[1], w.by_state.shape[1]
    inputs = _over(x, w.by_input, w.input_bias)
    run = LstmRun(*(np.zeros((steps, batch, hidden), np.float32) for _ in LstmRun._fields))
    for t in _times(steps, reverse):
        gates = inputs[t] + _over(h, w.by_state, w.state_bias)
        i, f, j, o = np.split(gates, 4, 1)
        run.i[t], run.f[t], run.j[t], run.o[t] = sigmoid(i), sigmoid(f), np.tanh(j), sigmoid(o)
        new_c = run.f[t] * c + run.i[t] * run.j[t]
        run.tanh_c[t] = np.tanh(new_c)
        new_h = run.o[t] * run.tanh_c[t]
        run.y[t] = new_h if present is None else new_h * present[t]
        h, c = _unless_ended(present, t, new_h, h), _unless_ended(present, t, new_c, c)
        run.h[t], run.c[t] = h, c
    return run


def _last(states: Array, reverse: bool, first: Array) -> Array:
    return first if len(states) == 0 else states[0 if reverse else -1]


def _lstm_layers(
    x: Array, weights: list[LayerWeights], h: Array, c: Array, directions: int, present: Optional[Array]
) -> tuple[Array, Array, Array, list[LstmRun]]:
    """The last layer's output, the last states, and the runs of all layers and directions."""
    runs: list[LstmRun] = []
    for at in range(0, len(weights), directions):
        layer_runs = [run_lstm(x, weights[at + d], h[at + d], c[at + d], d == 1, present) for d in range(directions)]
        runs += layer_runs
        x = np.concatenate([run.y for run in layer_runs], -1)
    last_h = np.stack([_last(run.h, k % directions == 1, h[k]) for k, run in enumerate(runs)])
    last_c = np.stack([_last(run.c, k % directions == 1, c[k]) for k, run in enumerate(runs)])
    return x, last_h, last_c, runs


def _by_steps(x: Array, batch_first: bool, batch_sizes: Optional[Array]) -> Array:
    """The input as (steps, batch, features): with batch sizes it came as (steps * batch, features)."""
    if batch_sizes is not None:
        steps = max(batch_sizes.size, 1)
        return x.reshape(steps, x.shape[0] // steps, x.shape[-1])
    return x.swapaxes(0, 1) if batch_first else x


@reference("aclnnLSTM")
def lstm(
    x: Array,
    params: Sequence[Array],
    hx: Optional[Sequence[Array]],
    batch_sizes: Optional[Array],
    has_bias: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> Any:
    """Output, last states and (training) gates and states of all steps. CANN does not support dropout: it changes nothing."""
    directions = 2 if bidirectional else 1
    weights = LayerWeights.of_all(params, has_bias)
    x = _by_steps(x, batch_first, batch_sizes)
    nothing = np.zeros((len(weights), x.shape[1], weights[0].by_state.shape[1]), np.float32)
    h, c = (nothing, nothing) if hx is None else hx
    y, last_h, last_c, runs = _lstm_layers(x, weights, h, c, directions, _present(batch_sizes, *x.shape[:2]))
    saved: list[Any] = [None] * 7
    if train:
        saved = [[getattr(run, name) for run in runs] for name in ("i", "j", "f", "o", "h", "c", "tanh_c")]
    return (y.swapaxes(0, 1) if batch_first and batch_sizes is None else y, last_h, last_c, *saved)


def _before(states: Array, first: Array, t: int, reverse: bool) -> Array:
    """The state with which a step began."""
    at = t + 1 if reverse else t - 1
    return states[at] if 0 <= at < len(states) else first


def _weight_gradients(d_input: Array, d_state: Array, x: Array, before: Array, has_bias: bool) -> list[Array]:
    """Gradients of a layer's parameters, from those of what the weights give at every step."""
    flat_input, flat_state = d_input.reshape(-1, d_input.shape[-1]), d_state.reshape(-1, d_state.shape[-1])
    gradients = [flat_input.T @ x.reshape(-1, x.shape[-1]), flat_state.T @ before.reshape(-1, before.shape[-1])]
    return gradients + ([flat_input.sum(0), flat_state.sum(0)] if has_bias else [])


def lstm_gradients(
    x: Array,
    run: LstmRun,
    w: LayerWeights,
    h: Array,
    c: Array,
    dy: Array,
    dh: Array,
    dc: Array,
    reverse: bool,
    present: Optional[Array],
) -> tuple[Array, Array, Array, list[Array]]:
    """Gradients of a layer's input, first states and parameters."""
    steps = len(x)
    d_gates = np.zeros((*x.shape[:2], 4 * h.shape[-1]), np.float32)
    before = np.zeros_like(run.h)
    for t in reversed(_times(steps, reverse)):
        before[t] = _before(run.h, h, t, reverse)
        old_c = _before(run.c, c, t, reverse)
        here = dh + (dy[t] if present is None else dy[t] * present[t])
        i, j, f, o, tanh_c = run.i[t], run.j[t], run.f[t], run.o[t], run.tanh_c[t]
        d_cell = dc + here * o * (1 - np.square(tanh_c))
        parts = (
            d_cell * j * i * (1 - i),
            d_cell * old_c * f * (1 - f),
            d_cell * i * (1 - np.square(j)),
            here * tanh_c * o * (1 - o),
        )
        d_gates[t] = np.concatenate(parts, 1) if present is None else np.concatenate(parts, 1) * present[t]
        dc = _unless_ended(present, t, d_cell * f, dc)
        dh = _unless_ended(present, t, d_gates[t] @ w.by_state, dh)
    return d_gates @ w.by_input, dh, dc, _weight_gradients(d_gates, d_gates, x, before, w.input_bias is not None)


@reference("aclnnLstmBackward")
def lstm_backward(
    x: Array,
    hx: Sequence[Array],
    params: Sequence[Array],
    dy: Optional[Array],
    dh: Optional[Array],
    dc: Optional[Array],
    i: Sequence[Array],
    g: Sequence[Array],
    f: Sequence[Array],
    o: Sequence[Array],
    h: Sequence[Array],
    c: Sequence[Array],
    tanh_c: Sequence[Array],
    batch_sizes: Optional[Array],
    has_bias: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
    output_mask: Optional[Sequence[bool]],
) -> Any:
    """Gradients of the input, the first states and the parameters; absent gradients of outputs are zero."""
    directions = 2 if bidirectional else 1
    weights = LayerWeights.of_all(params, has_bias)
    original = x
    x = _by_steps(x, batch_first, batch_sizes)
    present = _present(batch_sizes, *x.shape[:2])
    runs = [LstmRun(h[k], i[k], g[k], f[k], o[k], h[k], c[k], tanh_c[k]) for k in range(len(weights))]
    zero = np.zeros_like(hx[0])
    dh, dc = zero if dh is None else dh, zero if dc is None else dc
    hidden = hx[0].shape[-1]
    d_output = np.zeros((*x.shape[:2], directions * hidden), np.float32)
    if dy is not None:
        d_output = _by_steps(dy, batch_first, batch_sizes)
    d_h, d_c, d_params = np.zeros_like(hx[0]), np.zeros_like(hx[0]), [[] for _ in weights]  # type: ignore[var-annotated]
    for at in range(len(weights) - directions, -1, -directions):
        layer_input = x
        if at:
            below = [run.h if present is None else run.h * present for run in runs[at - directions : at]]
            layer_input = np.concatenate(below, -1)
        total: Any = 0
        for d in range(directions):
            k = at + d
            d_direction = d_output[..., d * hidden : (d + 1) * hidden]
            d_input, d_h[k], d_c[k], d_params[k] = lstm_gradients(
                layer_input, runs[k], weights[k], hx[0][k], hx[1][k], d_direction, dh[k], dc[k], d == 1, present
            )
            total = total + d_input
        d_output = total
    dx = d_output.swapaxes(0, 1) if batch_first and batch_sizes is None else d_output
    return dx.reshape(original.shape), d_h, d_c, [value for layer_params in d_params for value in layer_params]


# ------------------------------------------------------------------------------------------------- one step


@reference("aclnnThnnFusedLstmCell")
def fused_lstm_cell(
    input_gates: Array, hidden_gates: Array, cx: Array, input_bias: Optional[Array], hidden_bias: Optional[Array]
) -> Any:
    """A step of an LSTM after its products: new states, and the gates."""
    total = input_gates + hidden_gates
    if input_bias is not None and hidden_bias is not None:
        total = total + (input_bias + hidden_bias)
    i, f, g, o = np.split(total, 4, -1)
    i, f, g, o = sigmoid(i), sigmoid(f), np.tanh(g), sigmoid(o)
    cy = f * cx + i * g
    return o * np.tanh(cy), cy, np.concatenate((i, f, g, o), -1)


@reference("aclnnThnnFusedLstmCellBackward")
def fused_lstm_cell_backward(
    grad_h: Optional[Array], grad_c: Optional[Array], cx: Array, cy: Array, storage: Array, has_bias: bool
) -> Any:
    i, f, g, o = np.split(storage, 4, -1)
    zero = np.zeros_like(cx)
    grad_h, grad_c = zero if grad_h is None else grad_h, zero if grad_c is None else grad_c
    tanh_c = np.tanh(cy)
    d_cell = grad_h * o * (1 - np.square(tanh_c)) + grad_c
    parts = (
        d_cell * g * i * (1 - i),
        d_cell * cx * f * (1 - f),
        d_cell * i * (1 - np.square(g)),
        grad_h * tanh_c * o * (1 - o),
    )
    gates = np.concatenate(parts, -1)
    return gates, d_cell * f, gates.sum(0) if has_bias else None


# ------------------------------------------------------------------------------------------------- LSTM of one layer


def _one_layer(
    x: Array, h: Array, c: Array, weights: Sequence[Any], has_bias: bool, bidirection: bool, present: Optional[Array]
) -> tuple[Array, Array, Array]:
    items = 4 if has_bias else 2
    both_directions = [LayerWeights(*weights[at : at + items]) for at in (0, 4)]
    chosen = both_directions if bidirection else both_directions[:1]
    return _lstm_layers(x, chosen, h, c, len(chosen), present)[:3]


@reference("aclnnBidirectionLSTM")
def bidirection_lstm(x: Array, h: Array, c: Array, *rest: Any) -> Any:
    """The weights come one by one; absent biases are zero."""
    weights, (_, has_bias, _, bidirection) = rest[:8], rest[8:]
    return _one_layer(x, h, c, weights, has_bias, bidirection, None)


@reference("aclnnBidirectionLSTMV2")
def bidirection_lstm_v2(x: Array, h: Array, c: Array, *rest: Any) -> Any:
    """Samples may have several lengths; ``packed`` leaves out the steps after their ends."""
    weights, batch_sizes, (_, has_bias, _, bidirection, packed) = rest[:8], rest[8], rest[9:]
    if batch_sizes is None:
        return _one_layer(x, h, c, weights, has_bias, bidirection, None)
    steps, batch = batch_sizes.size, h.shape[1]
    present = _present(batch_sizes, steps, batch)
    assert present is not None
    if not packed:
        return _one_layer(x, h, c, weights, has_bias, bidirection, present)
    if int(batch_sizes.sum()) != len(x):
        raise DataError("batchSizeOptional", f"adds up to {int(batch_sizes.sum())}; x has {len(x)} rows")
    wide = np.zeros((steps, batch, x.shape[-1]), np.float32)
    wide[present[..., 0]] = x
    y, last_h, last_c = _one_layer(wide, h, c, weights, has_bias, bidirection, present)
    return y[present[..., 0]], last_h, last_c


# ------------------------------------------------------------------------------------------------- GRU


class GruRun(NamedTuple):
    """What one layer and direction gives at every step; ``hn`` is the new gate's share of the state."""

    r: Array
    z: Array
    n: Array
    hn: Array
    h: Array


def run_gru(x: Array, w: LayerWeights, h: Array, reverse: bool) -> GruRun:
    hidden = w.by_state.shape[1]
    inputs = _over(x, w.by_input, w.input_bias)
    run = GruRun(*(np.zeros((*x.shape[:2], hidden), np.float32) for _ in GruRun._fields))
    for t in _times(len(x), reverse):
        reset, update, new = np.split(inputs[t], 3, 1)
        own_reset, own_update, run.hn[t] = np.split(_over(h, w.by_state, w.state_bias), 3, 1)
        run.r[t], run.z[t] = sigmoid(reset + own_reset), sigmoid(update + own_update)
        run.n[t] = np.tanh(new + run.r[t] * run.hn[t])
        h = (1 - run.z[t]) * run.n[t] + run.z[t] * h
        run.h[t] = h
    return run


@reference("aclnnGRU")
def gru(
    x: Array,
    params: Sequence[Array],
    hx: Optional[Array],
    batch_sizes: Optional[Array],
    has_bias: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirection: bool,
    batch_first: bool,
) -> Any:
    """Output, last states and (training) gates and states of all steps. CANN takes neither batch sizes nor dropout yet."""
    if batch_sizes is not None and batch_sizes.size:
        raise DataError("batchSizes", "is given; sequences of several lengths are not supported")
    directions = 2 if bidirection else 1
    weights = LayerWeights.of_all(params, has_bias)
    x = _by_steps(x, batch_first, None)
    h = np.zeros((len(weights), x.shape[1], weights[0].by_state.shape[1]), np.float32) if hx is None else hx
    runs: list[GruRun] = []
    for at in range(0, len(weights), directions):
        layer_runs = [run_gru(x, weights[at + d], h[at + d], d == 1) for d in range(directions)]
        runs += layer_runs
        x = np.concatenate([run.h for run in layer_runs], -1)
    last = np.stack([_last(run.h, k % directions == 1, h[k]) for k, run in enumerate(runs)])
    saved: list[Any] = [[getattr(run, name) for run in runs] for name in GruRun._fields] if train else [None] * 5
    return (x.swapaxes(0, 1) if batch_first else x, last, *saved)


def gru_gradients(
    x: Array, run: GruRun, w: LayerWeights, h: Array, dy: Array, dh: Array, reverse: bool
) -> tuple[Array, Array, list[Array]]:
    d_input = np.zeros((*x.shape[:2], 3 * h.shape[-1]), np.float32)
    d_state, before = np.zeros_like(d_input), np.zeros_like(run.h)
    for t in reversed(_times(len(x), reverse)):
        before[t] = _before(run.h, h, t, reverse)
        here = dh + dy[t]
        r, z, n = run.r[t], run.z[t], run.n[t]
        d_new = here * (1 - z) * (1 - np.square(n))
        d_reset = d_new * run.hn[t] * r * (1 - r)
        d_update = here * (before[t] - n) * z * (1 - z)
        d_input[t] = np.concatenate((d_reset, d_update, d_new), 1)
        d_state[t] = np.concatenate((d_reset, d_update, d_new * r), 1)
        dh = d_state[t] @ w.by_state + here * z
    return d_input @ w.by_input, dh, _weight_gradients(d_input, d_state, x, before, w.input_bias is not None)


@reference("aclnnGRUBackward")
def gru_backward(
    x: Array,
    params: Sequence[Array],
    hx: Array,
    dy: Array,
    dh: Array,
    r: Sequence[Array],
    z: Sequence[Array],
    n: Sequence[Array],
    hn: Sequence[Array],
    h: Sequence[Array],
    batch_sizes: Optional[Array],
    has_bias: bool,
    num_layers: int,
    bidirection: bool,
    batch_first: bool,
) -> Any:
    """Gradients of the input, the first state and the parameters."""
    directions, hidden = 2 if bidirection else 1, hx.shape[-1]
    weights = LayerWeights.of_all(params, has_bias)
    x, d_output = _by_steps(x, batch_first, None), _by_steps(dy, batch_first, None)
    d_h = np.zeros_like(hx)
    d_params: list[list[Array]] = [[] for _ in weights]
    for at in range(len(weights) - directions, -1, -directions):
        layer_input = np.concatenate(h[at - directions : at], -1) if at else x
        total: Any = 0
        for d in range(directions):
            k = at + d
            d_direction = d_output[..., d * hidden : (d + 1) * hidden]
            run = GruRun(r[k], z[k], n[k], hn[k], h[k])
            d_input, d_h[k], d_params[k] = gru_gradients(
                layer_input, run, weights[k], hx[k], d_direction, dh[k], d == 1
            )
            total = total + d_input
        d_output = total
    return (
        d_output.swapaxes(0, 1) if batch_first else d_output,
        d_h,
        [value for layer_params in d_params for value in layer_params],
    )
