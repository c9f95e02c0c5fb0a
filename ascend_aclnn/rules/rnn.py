"""Rules of ops-nn/rnn: LSTM and GRU layers, forward and backward, and the fused LSTM cell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional

from ascend_aclnn.core.errors import PARAM_NULLPTR
from ascend_aclnn.rules.language import *


def _given_items(call: Call, *names: str) -> None:
    """Lists are there, and so are their tensors."""
    for name in names:
        call.require(call.is_present(name), name, "is None (a null pointer); it is required", PARAM_NULLPTR)
        for position, tensor in enumerate(call[name]):
            call.require(tensor is not None, name, f"[{position}] is None (a null pointer)", PARAM_NULLPTR)


def _length(call: Call, wanted: int, *names: str, status: int = 0) -> None:
    for name in names:
        came = len(call[name])
        call.require(came == wanted, name, f"has {came} tensors; it must have {wanted}", status or None)


def _shapes(call: Call, wanted: Shape, *names: str) -> None:
    """A tensor, or every tensor of a list, has a shape; absent ones pass."""
    for name in names:
        for tensor in call.tensors(name):
            call.require(tensor.shape == wanted, name, f"has shape {tensor.shape}; it must be {wanted}")


class _Layers:
    """The sizes of a stack of layers, from the arguments that all forward operators share."""

    def __init__(self, call: Call, gates: int, bidirectional: str) -> None:
        self.gates = gates
        self.directions = 2 if call[bidirectional] else 1
        self.count = int(call["numLayers"])
        self.bias = bool(call["hasBias"])
        self.per_direction = 4 if self.bias else 2

    @property
    def cells(self) -> int:
        """Layers times directions: each has its own weights and gates."""
        return self.directions * self.count

    @property
    def weights(self) -> int:
        return self.per_direction * self.cells

    def weight_shapes(self, width: int, hidden: int) -> list[Shape]:
        """Shapes of the parameters in order: for every layer and direction the weights of input and state, then biases."""
        out: list[Shape] = []
        for cell in range(self.cells):
            own = width if cell < self.directions else hidden * self.directions
            rows = self.gates * hidden
            out += [(rows, own), (rows, hidden)] + ([(rows,), (rows,)] if self.bias else [])
        return out


def _weights_fit(call: Call, name: str, wanted: Sequence[Shape]) -> None:
    for position, (tensor, sizes) in enumerate(zip(call.items(name), wanted)):
        call.require(tensor.shape == sizes, name, f"[{position}] has shape {tensor.shape}; it must be {sizes}")


def _steps_and_batch(call: Call) -> tuple[int, int]:
    rank(3, 3, "input")(call)
    first, second = call.size("input", 0), call.size("input", 1)
    return (second, first) if call["batchFirst"] else (first, second)


def _hidden_size(call: Call, gates: int) -> int:
    params = call.tensors("params")
    call.require(bool(params) and params[0].ndim == 2, "params", "must begin with a matrix")
    return params[0].shape[0] // gates


# ------------------------------------------------------------------------------------------------- forward


class _Forward:
    """What LSTM and GRU check in the same way; their outputs by name."""

    def __init__(self, gates: int, bidirectional: str, states: Sequence[str], kept: Sequence[str]) -> None:
        self.gates = gates
        self.bidirectional = bidirectional
        self.states = tuple(states)  # hy, cy
        self.kept = tuple(kept)  # the gates' values of each cell, for the backward pass

    def layers(self, call: Call) -> _Layers:
        return _Layers(call, self.gates, self.bidirectional)

    def kept_given(self, call: Call) -> None:
        if call["train"]:
            for name in self.kept:
                call.require(call.is_present(name), name, "is None (a null pointer); training needs it", PARAM_NULLPTR)

    def dtypes(self, call: Call) -> None:
        dtypes(FLOATS_WITHOUT_BF16, "input")(call)
        same_dtype("input", "params", "hx", "output", *self.states)(call)
        if call["train"]:
            same_dtype("input", *self.kept)(call)

    def sizes(self, call: Call) -> None:
        layers = self.layers(call)
        _length(call, layers.weights, "params")
        if isinstance(call["hx"], list) and call["hx"]:
            _length(call, 2, "hx")
        if call["train"]:
            _length(call, layers.cells, *self.kept)
        steps, batch = _steps_and_batch(call)
        hidden = _hidden_size(call, self.gates)
        _weights_fit(call, "params", layers.weight_shapes(call.size("input", 2), hidden))
        _shapes(call, (layers.cells, batch, hidden), "hx", *self.states)
        _shapes(call, self.output(call), "output")
        if call["train"]:
            _shapes(call, (steps, batch, hidden), *self.kept)

    def output(self, call: Call) -> Shape:
        """Packed sequences of an LSTM come out padded: steps, batch, hidden."""
        layers, hidden = self.layers(call), _hidden_size(call, self.gates)
        if call.is_present("batchSizes"):
            return (*self.packed_sizes(call), layers.directions * hidden)
        return (*call.shape("input")[:2], layers.directions * hidden)

    def packed_sizes(self, call: Call) -> tuple[int, int]:
        """Steps and batch of packed rows."""
        rows, steps = call.size("input", 0), call["batchSizes"].size
        call.require(steps > 0, "batchSizes", "is empty")
        call.require(rows % steps == 0, "input", f"has {rows} rows; it must be a multiple of the {steps} steps")
        return steps, rows // steps

    def state(self, call: Call) -> Shape:
        batch = self.packed_sizes(call)[1] if call.is_present("batchSizes") else _steps_and_batch(call)[1]
        return self.layers(call).cells, batch, _hidden_size(call, self.gates)

    def kept_shapes(self, call: Call) -> Optional[list[Shape]]:
        if not call["train"]:
            return None
        steps, batch = self.packed_sizes(call) if call.is_present("batchSizes") else _steps_and_batch(call)
        return [(steps, batch, _hidden_size(call, self.gates))] * self.layers(call).cells

    def inferred(self) -> dict[str, ShapeRule]:
        rules: dict[str, ShapeRule] = {"output": self.output}
        rules.update(dict.fromkeys(self.states, self.state))
        rules.update(dict.fromkeys(self.kept, self.kept_shapes))
        return rules

    def result_dtypes(self) -> Check:
        return output_dtype(**{name: dtype_of("input") for name in ("output", *self.states, *self.kept)})


_LSTM = _Forward(4, "bidirectional", ("hy", "cy"), ("iOut", "jOut", "fOut", "oOut", "hOut", "cOut", "tanhCOut"))
_GRU = _Forward(3, "bidirection", ("hy",), ("rOut", "zOut", "nOut", "hnOut", "hOut"))


def _packed(call: Call) -> bool:
    return call.is_present("batchSizes")


def _lstm_packed(call: Call) -> None:
    """Rows of all steps in one matrix: input (steps * batch, width), output (steps, batch, hidden)."""
    _given_items(call, "params")
    if call.is_present("hx"):
        _length(call, 2, "hx")
        _given_items(call, "hx")
    if call["train"]:
        _given_items(call, *_LSTM.kept)
    layers = _LSTM.layers(call)
    call.require(layers.count >= 1, "numLayers", f"is {layers.count}; it must be positive")
    if call.is_empty("input"):
        return
    rank(2, 2, "input")(call)
    _length(call, layers.weights, "params")
    rank(1, 1, "batchSizes")(call)
    rank(3, 3, "output", "hy", "cy")(call)
    if call["train"]:
        _length(call, layers.cells, *_LSTM.kept)
    steps, batch = _LSTM.packed_sizes(call)
    width = call.size("output", 2)
    call.require(width % layers.directions == 0, "output", f"has {width} features; two directions need an even number")
    hidden = width // layers.directions
    _weights_fit(call, "params", layers.weight_shapes(call.size("input", 1), hidden))
    _shapes(call, (layers.cells, batch, hidden), "hx", "hy", "cy")
    _shapes(call, (steps, batch, width), "output")
    if call["train"]:
        _shapes(call, (steps, batch, hidden), *_LSTM.kept)
    _LSTM.dtypes(call)
    dtypes("INT64", "batchSizes")(call)


def _lstm_padded(call: Call) -> None:
    _LSTM.kept_given(call)
    _LSTM.dtypes(call)
    _LSTM.sizes(call)
    if call.product == "950":
        kept = _LSTM.kept if call["train"] else ()
        no_private_format("input", "params", "hx", "output", "hy", "cy", *kept)(call)


rule(
    "aclnnLSTM",
    when(_packed, _lstm_packed),
    when(lambda call: not _packed(call), _lstm_padded),
    infer_shape(**_LSTM.inferred()),
    _LSTM.result_dtypes(),
    nullable=" ".join(_LSTM.kept),
)


def _no_packing(call: Call) -> None:
    call.require(not _packed(call), "batchSizes", "is given; packed sequences are not supported")


rule(
    "aclnnGRU",
    _no_packing,
    _GRU.kept_given,
    _GRU.dtypes,
    _GRU.sizes,
    infer_shape(**_GRU.inferred()),
    _GRU.result_dtypes(),
)

# ------------------------------------------------------------------------------------------------- backward

_GRU_GATES = ("r", "z", "n", "hn", "h")


def _gru_dtypes(call: Call) -> None:
    single, lists = ("input", "hx", "dy", "dh", "dxOut", "dhPrevOut"), ("params", *_GRU_GATES, "dparamsOut")
    dtypes(FLOATS_WITHOUT_BF16, "input")(call)
    same_dtype("input", *single, *lists)(call)
    formats("ND NCL", *single, *lists)(call)
    call.require(not call.is_present("batchSizes"), "batchSizes", "is given; packed sequences are not supported")


def _gru_backward_shapes(call: Call) -> None:
    layers = _Layers(call, 3, "bidirection")
    steps, batch = _steps_and_batch(call)
    sizes = call.shape("input")
    call.require(all(n > 0 for n in sizes), "input", f"has shape {sizes}; it must not be empty")
    hidden = call.size("hx", -1)
    call.require(hidden > 0, "hx", "has no features")
    state = (layers.cells, batch, hidden)
    _shapes(call, state, "hx", "dh", "dhPrevOut")
    _shapes(call, (*sizes[:2], hidden * layers.directions), "dy")
    _length(call, layers.cells, *_GRU_GATES)
    _shapes(call, (steps, batch, hidden), *_GRU_GATES)
    _length(call, layers.weights, "params", "dparamsOut")
    _shapes(call, sizes, "dxOut")


def _like_params(call: Call) -> list[Shape]:
    return [tensor.shape for tensor in call.tensors("params")]


rule(
    "aclnnGRUBackward",
    lambda call: _given_items(call, "params", *_GRU_GATES, "dparamsOut"),
    _gru_dtypes,
    _gru_backward_shapes,
    infer_shape(dxOut="input", dhPrevOut="hx", dparamsOut=_like_params),
    output_dtype(dxOut="input", dhPrevOut="input", dparamsOut="input"),
)

_LSTM_GATES = ("i", "g", "f", "o", "h", "c", "tanhc")


def _lstm_lists(call: Call) -> None:
    """Lists of the wrong length are answered as null pointers."""
    layers = _Layers(call, 4, "bidirectional")
    _length(call, 2, "hx", status=PARAM_NULLPTR)
    _length(call, layers.cells, *_LSTM_GATES, status=PARAM_NULLPTR)
    _length(call, layers.weights, "params", "dparamsOut", status=PARAM_NULLPTR)
    _given_items(call, "hx", *_LSTM_GATES, "dparamsOut")


def _lstm_dtypes(call: Call) -> None:
    dtypes(FLOATS_WITHOUT_BF16, "input")(call)
    same_dtype("input", "dy", "dh", "dc", "dxOut", "dhPrevOut", "dcPrevOut")(call)
    dtypes("INT64", "batchSizesOptional")(call)
    same_dtype("input", "hx", "params", *_LSTM_GATES, "dparamsOut")(call)


def _lstm_backward_shapes(call: Call) -> None:
    layers = _Layers(call, 4, "bidirectional")
    gate = call["i"][0]
    call.require(gate.ndim == 3, "i", f"[0] has shape {gate.shape}; it must have rank 3")
    batch, hidden = gate.shape[1:]
    packed = call.is_present("batchSizesOptional")
    axes = 2 if packed else 3
    rank(axes, axes, "input")(call)
    width = call.size("input", -1)
    if packed:
        rank(1, 1, "batchSizesOptional")(call)
        steps = call.size("batchSizesOptional", 0)
        rows: Shape = (steps * batch,)
    else:
        steps = call.size("input", 1 if call["batchFirst"] else 0)
        rows = (batch, steps) if call["batchFirst"] else (steps, batch)
    call.require(layers.count > 0, "numLayers", f"is {layers.count}; it must be positive")
    state = (layers.cells, batch, hidden)
    _shapes(call, (*rows, width), "input", "dxOut")
    _shapes(call, state, "hx", "dhPrevOut", "dcPrevOut", "dh", "dc")
    _shapes(call, (*rows, hidden * layers.directions), "dy")
    wanted = layers.weight_shapes(width, hidden)
    _weights_fit(call, "params", wanted)
    _weights_fit(call, "dparamsOut", wanted)
    _shapes(call, (steps, batch, hidden), *_LSTM_GATES)


def _lstm_formats(call: Call) -> None:
    flat = "ND" if call.is_present("batchSizesOptional") else "NCL"
    formats(flat, "input", "dy", "dxOut")(call)
    formats("NCL", "dh", "dc", "dhPrevOut", "dcPrevOut")(call)
    formats("ND", "batchSizesOptional", "params", "dparamsOut")(call)
    formats("NCL", "hx", *_LSTM_GATES)(call)


def _first_state(call: Call) -> Shape:
    states = call.tensors("hx")
    call.require(bool(states), "hx", "is empty")
    return states[0].shape


rule(
    "aclnnLstmBackward",
    _lstm_lists,
    _lstm_dtypes,
    _lstm_backward_shapes,
    _lstm_formats,
    infer_shape(dxOut="input", dhPrevOut=_first_state, dcPrevOut=_first_state, dparamsOut=_like_params),
    output_dtype(**dict.fromkeys(("dxOut", "dhPrevOut", "dcPrevOut", "dparamsOut"), dtype_of("input"))),
    nullable="outputMask",
)

# ------------------------------------------------------------------------------------------------- one cell

_BIASES = ("inputBiasOptional", "hiddenBiasOptional")


def _both_biases(call: Call) -> None:
    text = "is None (a null pointer); the two biases go together"
    for name, other in (_BIASES, _BIASES[::-1]):
        call.require(call.is_present(name) or not call.is_present(other), name, text, PARAM_NULLPTR)


def _cell_shapes(call: Call) -> None:
    rank(2, 2, "inputGates", "hiddenGates", "cx", "hyOut", "cyOut", "storageOut")(call)
    rank(1, 1, *_BIASES)(call)
    batch, hidden = call.sizes("cx", 2)
    _shapes(call, (batch, 4 * hidden), "inputGates", "hiddenGates", "storageOut")
    _shapes(call, (4 * hidden,), *_BIASES)
    _shapes(call, (batch, hidden), "hyOut", "cyOut")


rule(
    "aclnnThnnFusedLstmCell",
    _both_biases,
    unless_empty(
        "inputGates",
        _cell_shapes,
        dtypes(FLOATS_WITHOUT_BF16, "inputGates"),
        same_dtype("inputGates", "hiddenGates", "cx", *_BIASES, "hyOut", "cyOut", "storageOut"),
    ),
    infer_shape(hyOut="cx", cyOut="cx", storageOut="inputGates"),
    output_dtype(hyOut="inputGates", cyOut="inputGates", storageOut="inputGates"),
)


def _cell_backward_shapes(call: Call) -> None:
    rank(2, 2, "gradHyOptional")(call)
    batch, hidden = call.sizes("gradHyOptional", 2)
    call.require(batch > 0 and hidden > 0, "gradHyOptional", f"has shape {(batch, hidden)}; it must not be empty")
    _shapes(call, (batch, hidden), "gradCOptional", "cx", "cy", "gradCxOut")
    _shapes(call, (batch, 4 * hidden), "storage", "gradGatesOut")
    if call["hasBias"]:
        _shapes(call, (4 * hidden,), "gradBiasOut")


_CELL_GRADS = ("gradHyOptional", "gradCOptional", "cx", "cy", "storage", "gradGatesOut", "gradCxOut", "gradBiasOut")
rule(
    "aclnnThnnFusedLstmCellBackward",
    dtypes(FLOATS_WITHOUT_BF16, *_CELL_GRADS[1:]),
    same_dtype("gradHyOptional", *_CELL_GRADS[1:]),
    _cell_backward_shapes,
    formats("ND", *_CELL_GRADS),
    infer_shape(
        gradGatesOut="storage",
        gradCxOut="cx",
        gradBiasOut=lambda call: (call.size("storage", -1),),
    ),
    output_dtype(**dict.fromkeys(("gradGatesOut", "gradCxOut", "gradBiasOut"), dtype_of("cx"))),
    required="gradHyOptional gradCOptional",
)

# ------------------------------------------------------------------------------------------------- Atlas inference series

_HALF = (
    "x initH initC wIh wHh bIhOptional bHhOptional "
    "wIhReverseOptional wHhReverseOptional bIhReverseOptional bHhReverseOptional"
)


_SEQUENCE_SHAPES = (
    rank(3, 3, "initH", "initC"),
    rank(2, 2, "wIh", "wHh", "wIhReverseOptional", "wHhReverseOptional"),
    rank(1, 1, "bIhOptional", "bHhOptional", "bIhReverseOptional", "bHhReverseOptional"),
    require("wHh[0] == 4 * initH[2]"),
)


_SEQUENCE_OUTPUT = "(*x[:-1], initH[2] * (2 if bidirection else 1))"


for _name, _sizes in (("aclnnBidirectionLSTM", ""), ("aclnnBidirectionLSTMV2", " batchSizeOptional")):
    rule(
        _name,
        only_products("310P"),
        dtype_table(f"{_HALF} yOut outputHOut outputCOut{_sizes}", "FLOAT16 " * 14 + ("INT32" if _sizes else "")),
        tiling(
            *_SEQUENCE_SHAPES,
            output_shape(yOut=_SEQUENCE_OUTPUT, outputHOut="initH", outputCOut="initC"),
        ),
    )
