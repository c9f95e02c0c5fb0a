"""Rules of ops-nn/rnn: LSTM and GRU layers, forward and backward, and the fused LSTM cell."""

from __future__ import annotations

from ascend_aclnn.core.errors import PARAM_NULLPTR
from ascend_aclnn.rules.language import *

# A stack of layers: each layer and direction is a cell, with weights and gates of its own.
_DIRECTION = {"both": "bidirectional bidirection"}


def _cells(gates: int) -> Check:
    return define(
        directions="2 if both else 1",
        cells="directions * numLayers",
        per_cell="4 if hasBias else 2",
        state="(cells, batch, hidden)",
        gate="(steps, batch, hidden)",
        rows=f"{gates} * hidden",
        # Of each cell the matrices of input and state, and the two biases.
        weights="[shape for cell in range(cells) for shape in "
        "((rows, input[-1] if cell < directions else hidden * directions), (rows, hidden), (rows,), (rows,))"
        "[:per_cell]]",
    )


def _length(size: str, *names: str) -> Check:
    return require(*(f"len({name}) == {size}" for name in names))


def _shapes(shape: str, *names: str) -> Check:
    """Every tensor of the lists has a shape; null pointers pass."""
    return require(*(f"all(t == {shape} for t in {name} if t is not None)" for name in names))


def _weights(*names: str) -> Check:
    return require(*(f"all(t == shape for t, shape in zip({name}, weights))" for name in names))


# ------------------------------------------------------------------------------------------------- forward

_PACKED = "batchSizes is not None"


def _forward(gates: int) -> Check:
    """Packed sequences have the rows of all steps in one matrix, and come out padded."""
    return define(
        hidden=f"params[0][0] // {gates}",
        steps=f"batchSizes.size if {_PACKED} else input[1] if batchFirst else input[0]",
        batch=f"input[0] // steps if {_PACKED} else input[0] if batchFirst else input[1]",
        sequence=f"(steps, batch, directions * hidden) if {_PACKED} else (*input[:2], directions * hidden)",
    )


def _dtypes(states: tuple[str, ...], gate_values: tuple[str, ...]) -> tuple[Check, ...]:
    return (
        dtypes(FLOATS_WITHOUT_BF16, "input"),
        same_dtype("input", "params", "hx", "output", *states),
        when("train", same_dtype("input", *gate_values)),
    )


def _padded(states: tuple[str, ...], gate_values: tuple[str, ...], hx: tuple[Check, ...]) -> tuple[Check, ...]:
    """``gate_values``: the gates' values of each cell, for the backward pass."""
    return (
        when("train", required(*gate_values)),
        *_dtypes(states, gate_values),
        _length("cells * per_cell", "params"),
        when("train", _length("cells", *gate_values)),
        rank(3, "input"),
        _weights("params"),
        *hx,
        has_shape(output="sequence", **dict.fromkeys(states, "state")),
        when("train", _shapes("gate", *gate_values)),
    )


def _outputs(states: tuple[str, ...], gate_values: tuple[str, ...]) -> tuple[Check, ...]:
    return (
        infer_shape(
            output="sequence",
            **dict.fromkeys(states, "state"),
            # Where there are more cells than parameters, those are refused.
            **dict.fromkeys(gate_values, "[gate] * min(cells, len(params)) if train else None"),
        ),
        output_dtype(**dict.fromkeys(("output", *states, *gate_values), "input")),
    )


_LSTM_STATES = ("hy", "cy")
_LSTM_KEPT = ("iOut", "jOut", "fOut", "oOut", "hOut", "cOut", "tanhCOut")
_LSTM_PACKED = (
    required("params"),
    no_null_item("params"),
    _length("2", "hx"),
    no_null_item("hx"),
    when("train", required(*_LSTM_KEPT), no_null_item(*_LSTM_KEPT)),
    positive("numLayers"),
    unless_empty(
        "input",
        rank(2, "input"),
        _length("cells * per_cell", "params"),
        rank(1, "batchSizes"),
        when("train", _length("cells", *_LSTM_KEPT)),
        require("batchSizes[0] > 0", "input[0] % batchSizes[0] == 0"),
        _weights("params"),
        _shapes("state", "hx"),
        has_shape(output="sequence", hy="state", cy="state"),
        when("train", _shapes("gate", *_LSTM_KEPT)),
        *_dtypes(_LSTM_STATES, _LSTM_KEPT),
        dtypes("INT64", "batchSizes"),
    ),
)

rule(
    "aclnnLSTM",
    _cells(4),
    _forward(4),
    when(_PACKED, *_LSTM_PACKED),
    when(
        "batchSizes is None",
        when("len(hx) > 0", _length("2", "hx")),
        *_padded(_LSTM_STATES, _LSTM_KEPT, (_shapes("state", "hx"),)),
        on_products(
            "950",
            no_private_format("input", "params", "hx", "output", "hy", "cy"),
            when("train", no_private_format(*_LSTM_KEPT)),
        ),
    ),
    *_outputs(_LSTM_STATES, _LSTM_KEPT),
    nullable=" ".join(_LSTM_KEPT),
    aliases=_DIRECTION,
)

_GRU_KEPT = ("rOut", "zOut", "nOut", "hnOut", "hOut")

rule(
    "aclnnGRU",
    absent("batchSizes", why="as packed sequences are not supported"),
    _cells(3),
    _forward(3),
    *_padded(("hy",), _GRU_KEPT, (has_shape(hx="state"),)),
    *_outputs(("hy",), _GRU_KEPT),
    aliases=_DIRECTION,
)

# ------------------------------------------------------------------------------------------------- backward

_GRU_GATES = ("r", "z", "n", "hn", "h")
_GRU_TENSORS = ("input", "hx", "dy", "dh", "dxOut", "dhPrevOut", "params", *_GRU_GATES, "dparamsOut")

rule(
    "aclnnGRUBackward",
    no_null_item("params", *_GRU_GATES, "dparamsOut"),
    dtypes(FLOATS_WITHOUT_BF16, "input"),
    same_dtype("input", *_GRU_TENSORS),
    formats("ND NCL", *_GRU_TENSORS),
    absent("batchSizes", why="as packed sequences are not supported"),
    _cells(3),
    define(
        hidden="hx[-1]",
        steps="input[1] if batchFirst else input[0]",
        batch="input[0] if batchFirst else input[1]",
    ),
    rank(3, "input"),
    not_empty("input"),
    require("hx[-1] > 0"),
    has_shape(hx="state", dh="state", dhPrevOut="state", dy="(*input[:2], hidden * directions)"),
    _length("cells", *_GRU_GATES),
    _shapes("gate", *_GRU_GATES),
    _length("cells * per_cell", "params", "dparamsOut"),
    tiling(_weights("params")),  # which the document says
    output_shape(dxOut="input"),
    infer_shape(dhPrevOut="hx", dparamsOut="params"),
    aliases=_DIRECTION,
)

_LSTM_GATES = ("i", "g", "f", "o", "h", "c", "tanhc")
_LSTM_STATE_GRADIENTS = ("dh", "dc", "dhPrevOut", "dcPrevOut")

rule(
    "aclnnLstmBackward",
    _cells(4),
    define(
        joined="batchSizesOptional is not None",
        batch="i[0][1]",
        hidden="i[0][2]",
        steps="batchSizesOptional[0] if joined else input[1] if batchFirst else input[0]",
        lead="(steps * batch,) if joined else (batch, steps) if batchFirst else (steps, batch)",
    ),
    # Lists of the wrong length are answered as null pointers.
    with_status(
        PARAM_NULLPTR,
        _length("2", "hx"),
        _length("cells", *_LSTM_GATES),
        _length("cells * per_cell", "params", "dparamsOut"),
    ),
    no_null_item("hx", *_LSTM_GATES, "dparamsOut"),
    dtypes(FLOATS_WITHOUT_BF16, "input"),
    same_dtype("input", "dy", "dh", "dc", "dxOut", "dhPrevOut", "dcPrevOut"),
    dtypes("INT64", "batchSizesOptional"),
    same_dtype("input", "hx", "params", *_LSTM_GATES, "dparamsOut"),
    require("len(i[0]) == 3"),
    when("joined", rank(2, "input"), rank(1, "batchSizesOptional")),
    when("not joined", rank(3, "input")),
    positive("numLayers"),
    has_shape(input="(*lead, input[-1])", dxOut="input", dy="(*lead, hidden * directions)"),
    has_shape(**dict.fromkeys(_LSTM_STATE_GRADIENTS, "state")),
    _shapes("state", "hx"),
    _weights("params", "dparamsOut"),
    _shapes("gate", *_LSTM_GATES),
    when("joined", formats("ND", "input", "dy", "dxOut")),
    when("not joined", formats("NCL", "input", "dy", "dxOut")),
    formats("ND", "batchSizesOptional", "params", "dparamsOut"),
    formats("NCL", "hx", *_LSTM_GATES, *_LSTM_STATE_GRADIENTS),
    infer_shape(dxOut="input", dhPrevOut="hx[0]", dcPrevOut="hx[0]", dparamsOut="params"),
    nullable="outputMask",
    aliases=_DIRECTION,
)

# ------------------------------------------------------------------------------------------------- one cell

_BIASES = ("inputBiasOptional", "hiddenBiasOptional")

rule(
    "aclnnThnnFusedLstmCell",
    together(*_BIASES, status=PARAM_NULLPTR),
    unless_empty(
        "inputGates",
        rank(2, "inputGates", "hiddenGates", "cx", "hyOut", "cyOut", "storageOut"),
        rank(1, *_BIASES),
        shape_patterns(
            cx="batch hidden",
            inputGates="batch 4*hidden",
            hiddenGates="batch 4*hidden",
            storageOut="batch 4*hidden",
            inputBiasOptional="4*hidden",
            hiddenBiasOptional="4*hidden",
            hyOut="batch hidden",
            cyOut="batch hidden",
        ),
        dtypes(FLOATS_WITHOUT_BF16, "inputGates"),
        same_dtype("inputGates", "hiddenGates", "cx", *_BIASES, "hyOut", "cyOut", "storageOut"),
    ),
    infer_shape(hyOut="cx", cyOut="cx", storageOut="inputGates"),
)

_CELL_GRADS = ("gradHyOptional", "gradCOptional", "cx", "cy", "storage", "gradGatesOut", "gradCxOut", "gradBiasOut")

rule(
    "aclnnThnnFusedLstmCellBackward",
    dtypes(FLOATS_WITHOUT_BF16, *_CELL_GRADS[1:]),
    same_dtype("gradHyOptional", *_CELL_GRADS[1:]),
    not_empty("gradHyOptional"),
    shape_patterns(
        gradHyOptional="batch hidden",
        gradCOptional="batch hidden",
        cx="batch hidden",
        cy="batch hidden",
        gradCxOut="batch hidden",
        storage="batch 4*hidden",
        gradGatesOut="batch 4*hidden",
    ),
    when("hasBias", has_shape(gradBiasOut="(4 * hidden,)")),
    formats("ND", *_CELL_GRADS),
    infer_shape(gradGatesOut="storage", gradCxOut="cx", gradBiasOut="storage[-1:]"),
    output_dtype(gradGatesOut="cx", gradCxOut="cx", gradBiasOut="cx"),
    required="gradHyOptional gradCOptional",
)

# ------------------------------------------------------------------------------------------------- Atlas inference series

_HALF = (
    "x initH initC wIh wHh bIhOptional bHhOptional "
    "wIhReverseOptional wHhReverseOptional bIhReverseOptional bHhReverseOptional yOut outputHOut outputCOut"
)

rule(
    "aclnnBidirectionLSTM aclnnBidirectionLSTMV2",
    only_products("310P"),
    dtype_table(f"{_HALF} batchSizeOptional", "FLOAT16 " * 14 + "INT32"),
    tiling(
        rank(3, "x", "initH", "initC"),
        rank(2, "wIh", "wHh", "wIhReverseOptional", "wHhReverseOptional"),
        rank(1, "bIhOptional", "bHhOptional", "bIhReverseOptional", "bHhReverseOptional"),
        rank(2, 3, "x"),
        define(state="(2 if bidirection else 1, x[1] if len(x) == 3 else initH[1], initH[2])", gates="4 * initH[2]"),
        has_shape(
            initH="state",
            initC="state",
            wIh="(gates, x[-1])",
            wHh="(gates, initH[2])",
            bIhOptional="(gates,)",
            bHhOptional="(gates,)",
            wIhReverseOptional="(gates, x[-1])",
            wHhReverseOptional="(gates, initH[2])",
            bIhReverseOptional="(gates,)",
            bHhReverseOptional="(gates,)",
        ),
        output_shape(yOut="(*x[:-1], initH[2] * (2 if bidirection else 1))", outputHOut="initH", outputCOut="initC"),
    ),
)
