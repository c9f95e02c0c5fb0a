"""Feed-forward layers (ops-transformer/ffn): two products with an activation between them, for one expert or several.

Between the inputs and the result everything is float32; the device rounds the inner rows to the type of the outer ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional

import numpy as np

from ascend_aclnn.numerics import Array, is_integer, matmul, widen
from ascend_aclnn.reference._gates import activated, swiglu
from ascend_aclnn.reference._named import NamedArguments, reference_by_name
from ascend_aclnn.reference._schedule import READY, Schedule, fence, wait
from ascend_aclnn.reference.declare import DataError, reference
from ascend_aclnn.reference.gmm._groups import parts
from ascend_aclnn.reference.matmul.quant import exact_product, fixed_scale, integers
from ascend_aclnn.reference.matmul.weights import dequantised_weight

_ENDS, _SIZES = 0, 1
_QUANTISED = 2  # tokenDtype of FfnWorkerBatching: INT8, and behind the elements a float32
_NOTED = 0x7F7F7F7F  # FfnWorkerScheduler writes this over the experts that it has noted
_SOURCE = ("session_ids", "micro_batch_ids")
_NO_EXPERT = 1_000_000  # expert numbers are below this
_PLAIN = {"fastgelu": "fast_gelu", "gelu": "gelu_tanh", "relu": "relu", "silu": "silu"}
_GATED = {"geglu": "gelu_tanh", "swiglu": "silu", "reglu": "relu"}


def _activate(y: Array, name: str) -> Array:
    """Gated ones multiply the first half of the columns with the activated second half."""
    if name in _PLAIN:
        return activated(y, _PLAIN[name])
    first, second = np.split(y, 2, -1)
    return np.asarray(first * activated(second, _GATED[name]))


class _Expert:
    """The parameters of one expert: rows of the tensors for all experts, or the whole tensors."""

    def __init__(self, args: NamedArguments, number: int) -> None:
        self.args = args
        self.number = number
        self.several = args["weight1"].ndim == 3

    def of(self, name: str) -> Optional[Array]:
        values: Optional[Array] = self.args[name]
        if values is None or values.size == 0:
            return None
        return np.asarray(values[self.number]) if self.several else values

    def product(self, x: Array, layer: str) -> Any:
        """x by a layer's weight, restored if it is quantised, and its bias; of 8 bits the sums are scaled."""
        weight, bias = self.of("weight" + layer), self.of("bias" + layer)
        assert weight is not None
        weight = integers(weight)
        scale = self.of("antiquantScale" + layer)
        if scale is not None:
            weight = dequantised_weight(weight, scale, self.of("antiquantOffset" + layer))
        y: Any = exact_product(x, weight)
        y = y if bias is None else y + bias
        deq_scale = self.of("deqScale" + layer)
        return y if deq_scale is None else y.astype(np.float32) * fixed_scale(deq_scale)

    def layers(self, x: Array, activation: str) -> Array:
        inner = _activate(np.asarray(self.product(x, "1"), np.float32), activation)
        scale, offset = self.of("scale"), self.of("offset")
        if scale is not None and is_integer(x.dtype):
            inner = inner * scale if offset is None else inner * scale + offset
            inner = np.clip(np.rint(inner), -128, 127).astype(np.int8)
        return np.asarray(self.product(inner, "2"), np.float32)


@reference_by_name("aclnnFFN", "aclnnFFNV2", "aclnnFFNV3")
def ffn(args: NamedArguments) -> dict[str, Array]:
    """activation(x @ weight1 + bias1) @ weight2 + bias2; each expert takes its rows of x."""
    x, tokens, activation = args["x"], args["expertTokens"], args["activation"].lower()
    rows = widen(x.reshape(-1, x.shape[-1]))
    y = np.zeros((len(rows), args["weight2"].shape[-1]), np.float32)
    if tokens is None or len(tokens) == 0:
        y[:] = _Expert(args, 0).layers(rows, activation)
    else:
        for number, span in parts(tokens, _ENDS if args["tokensIndexFlag"] else _SIZES):
            if span.stop > span.start:
                y[span] = _Expert(args, number).layers(rows[span], activation)
    return {"y": y.reshape(*x.shape[:-1], y.shape[-1])}


# --------------------------------------------------------------------------------------------------- windows of Swin transformers


@reference_by_name("aclnnSwinTransformerLnQkvQuant", raw=True)
def swin_transformer_ln_qkv_quant(args: NamedArguments) -> dict[str, Any]:
    """Queries, keys and values of the windows of a normalised image: (layer_norm(x) in int8 @ weight^T + bias) * scale."""
    x = widen(args["x"]).astype(np.float32)
    high, wide, rows, columns = (args[name] for name in ("oriHeight", "oriWeight", "hWinSize", "wWinSize"))
    centred = x - x.mean(-1, keepdims=True)
    normed = centred / np.sqrt(np.square(centred).mean(-1, keepdims=True) + np.float32(args["epsilon"]))
    normed = normed * widen(args["gamma"]) + widen(args["beta"])
    image = normed.reshape(len(x), high // rows, rows, wide // columns, columns, -1)
    windows = image.swapaxes(2, 3).reshape(-1, rows * columns, x.shape[-1])
    scaled = windows * widen(args["quantScale"]) + widen(args["quantOffset"])
    quantised = np.clip(np.rint(scaled), -128, 127).astype(np.int8)
    total = exact_product(quantised, args["weight"].T) + args["bias"]
    product = np.asarray(total, np.float32) * fixed_scale(args["dequantScale"])
    split = product.reshape(*product.shape[:2], 3, args["headNum"], -1)
    names = "queryOutputOut", "keyOutputOut", "valueOutputOut"
    return {name: split[:, :, number].swapaxes(1, 2) for number, name in enumerate(names)}


# --------------------------------------------------------------------------------------------------- experimental


@reference("aclnnMatmulSwiglu")
def matmul_swiglu(x: Array, weight: Array, bias: Array, transpose_weight: bool) -> Array:
    """silu(gate) * up of [gate | up] = x @ weight + bias."""
    return swiglu(matmul(x, weight.T if transpose_weight else weight) + bias, True)


@reference("aclnnSwigluGatedMlp")
def swiglu_gated_mlp(x: Array, gate_up: Array, down: Array, cube_math_type: int) -> Array:
    """(silu(gate) * up) @ down of [gate | up] = x @ gateUp."""
    return matmul(swiglu(matmul(x, gate_up), True), down)


# --------------------------------------------------------------------------------------------------- other devices


@reference("aclnnInplaceFfnWorkerScheduler", raw=True)
def ffn_worker_scheduler(context: Array, group_size: int, execute_mode: int, *, out: Any) -> None:
    """Waits until a group of attention ranks has sent a micro batch, or run_flag is 0, and notes which ranks have sent a batch.

    With one group the micro batches come in turn; with several, each that is ready gives its first one that is.
    """
    schedule = Schedule(context, "scheduleContextRef")
    schedule.require(schedule["schedule_mode"] == 0, "schedule_mode", "0 (FFN)")
    sessions, count, size, experts = schedule.positive(
        "session_num", "micro_batch_num", "micro_batch_size", "selected_expert_num"
    )
    if not 0 < group_size <= sessions or sessions % group_size:
        raise DataError(
            "syncGroupSize", f"is {group_size}; it must divide the {sessions} sessions of scheduleContextRef"
        )
    schedule.require(schedule["ffn_token_data_buf"] != 0, "ffn_token_data_buf", "an address")
    info = schedule.buffer("ffn_token_info_buf", (sessions, count, 2 + size * experts), sized=True)
    names = ("layer_ids", "session_ids", "micro_batch_ids")
    layers, numbers, micro_batches = (schedule.buffer(f"ffn_{name}_buf", (sessions,), sized=True) for name in names)
    chosen = schedule.buffer("ffn_expert_ids_buf", (sessions, size * experts), sized=True)
    turn = schedule["ffn_polling_index"]
    schedule.require(turn < count, "ffn_polling_index", f"below {count}")
    schedule["ffn_out_num"] = 0
    groups = [slice(first, first + group_size) for first in range(0, sessions, group_size)]
    tried = [turn] if len(groups) == 1 else range(count)

    def ready() -> list[tuple[slice, int]]:
        """Of each group, its first micro batch that is whole."""
        whole = [[batch for batch in tried if (info[group, batch, 0] == READY).all()] for group in groups]
        return [(group, batches[0]) for group, batches in zip(groups, whole) if batches]

    if not schedule.wait(lambda: bool(ready())):
        return
    done = 0
    for group, batch in ready():
        to = slice(done, done + group_size)
        sent = info[group, batch]
        layers[to], chosen[to] = sent[:, 1], sent[:, 2:]
        numbers[to], micro_batches[to] = np.arange(group.start, group.stop), batch
        sent[:, 2:] = _NOTED
        fence()
        sent[:, 0] = 0
        done += group_size
    schedule["ffn_out_num"] = done
    if len(groups) == 1:
        schedule["ffn_polling_index"] = (turn + 1) % count


@reference("aclnnFfnWorkerBatching", raw=True)
def ffn_worker_batching(
    context: Array,
    expert_num: int,
    max_out_shape: Sequence[int],
    token_dtype: int,
    need_schedule: int,
    layer_num: int,
    *,
    out: tuple[Array, ...],
) -> None:
    """The tokens that have come, by expert; tokens of one expert stay in the order of session, token and place.

    expertOffsets is a token's place among its experts, as FFNToAttention takes it. With needSchedule it waits for the next
    micro batch of all sessions itself. The rows behind actualTokenNum are not written.
    """
    schedule = Schedule(context, "scheduleContext")
    sessions, count, size, experts, step = schedule.positive(
        "session_num", "micro_batch_num", "micro_batch_size", "selected_expert_num", "attn_to_ffn_token_size"
    )
    width = (
        max_out_shape[3] * out[0].dtype.itemsize
    )  # bytes of the elements; the scale of quantised ones comes behind them
    if need_schedule:
        turn = schedule["ffn_polling_index"]
        schedule.require(turn < count, "ffn_polling_index", f"below {count}")
        info = schedule.buffer("ffn_token_info_buf", (sessions, count, 2 + size * experts))[:, turn]
        wait(lambda: int(info[:, 0].sum()) == sessions, "scheduleContext")
        chosen, numbers, batches = info[:, 2:].copy(), np.arange(sessions), np.full(sessions, turn)
        info[:, 2:] = np.iinfo(np.int32).max
        fence()
        info[:, 0] = 0
        schedule["ffn_polling_index"] = (turn + 1) % count
    else:
        have = schedule["ffn_out_num"]
        schedule.require(have <= sessions, "ffn_out_num", f"at most {sessions}")
        chosen = schedule.buffer("ffn_expert_ids_buf", (have, size * experts))
        numbers, batches = (schedule.buffer(f"ffn_{name}_buf", (have,)) for name in _SOURCE)
    order = np.argsort(chosen, axis=None, kind="stable")
    order = order[: int((chosen < _NO_EXPERT).sum())]
    if len(order) > len(out[0]):
        raise DataError("maxOutShape", f"has room for {len(out[0])} rows; {len(order)} have come")
    session, place = np.divmod(order, size * experts)
    token, among = np.divmod(place, experts)
    source = numbers[session], batches[session], token, among
    for column, end, name in zip(source, (sessions, count), _SOURCE):
        if column.size and not 0 <= column.min() <= column.max() < end:
            raise DataError("scheduleContext", f"names {name} up to {column.max()}; there are {end}")
    y, groups, *columns, scale, total = out
    if len(order):
        number = (source[0] * count + source[1]) * (size * experts) + place
        rows = schedule.rows("ffn_token_data_buf", int(number.max()) + 1, width + 4 * (token_dtype == _QUANTISED), step)
        y[: len(order)] = rows[number, :width].view(y.dtype)
        if token_dtype == _QUANTISED:
            scale[: len(order)] = rows[number, width:].view(np.float32)[:, 0]
    for column, values in zip(columns, source):
        column[: len(order)] = values
    expert_ids, counts = np.unique(chosen.reshape(-1)[order], return_counts=True)
    if len(expert_ids) > len(groups):
        raise DataError("expertNum", f"is {expert_num}; tokens of {len(expert_ids)} experts have come")
    groups[...] = 0
    groups[: len(expert_ids)] = np.stack([expert_ids, counts], 1)
    total[...] = len(order)
