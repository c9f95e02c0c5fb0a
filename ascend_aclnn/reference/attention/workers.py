"""Attention ranks whose experts are on other ranks: they wait for the experts' results and combine them."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from ascend_aclnn.numerics import Array, round_into, widen
from ascend_aclnn.reference._schedule import READY, Schedule, wait
from ascend_aclnn.reference.declare import reference

_FFN_ONLY, _ATTENTION = 0, 1  # schedule_mode
_TYPES = (np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16))  # tokenDtype


def _next_micro_batch(schedule: Schedule, count: int) -> int:
    schedule.require(schedule["attention_micro_batch_id"] < count, "attention_micro_batch_id", f"below {count}")
    return (schedule["attention_micro_batch_id"] + 1) % count


@reference("aclnnInplaceAttentionWorkerScheduler", raw=True)
def attention_worker_scheduler(context: Array, *, out: Any) -> None:
    """Waits until all results of the next micro batch have come, or run_flag is 0, and takes their flags back."""
    schedule = Schedule(context, "scheduleContextRef")
    schedule.require(schedule["schedule_mode"] == _ATTENTION, "schedule_mode", f"{_ATTENTION} (attention)")
    count, size, experts = schedule.positive("micro_batch_num", "micro_batch_size", "selected_expert_num")
    schedule.require(schedule["attention_token_data_buf"] != 0, "attention_token_data_buf", "an address")
    flags = schedule.buffer("attention_token_info_buf", (count, size * experts), sized=True)
    number = _next_micro_batch(schedule, count)
    if schedule.wait(lambda: bool((flags[number] == READY).all())):
        flags[number] = 0
        schedule["attention_micro_batch_id"] = number


@reference("aclnnAttentionWorkerCombine", raw=True)
def attention_worker_combine(
    context: Array,
    scales: Array,
    layer: Array,
    hidden_size: int,
    token_dtype: int,
    need_schedule: int,
    *,
    out: tuple[Array, Array],
) -> None:
    """The results of each token's experts, weighted, and that of its shared expert, which comes last; next layer_id.

    With needSchedule it waits for the next micro batch itself, and takes the flags back.
    """
    schedule = Schedule(context, "scheduleContext")
    (count,) = schedule.positive("micro_batch_num")
    tokens, experts = scales.shape
    number = _next_micro_batch(schedule, count) if need_schedule else schedule["attention_micro_batch_id"]
    schedule.require(number < count, "attention_micro_batch_id", f"below {count}")
    results = schedule.buffer(
        "attention_token_data_buf", (count, tokens, experts + 1, hidden_size), _TYPES[token_dtype]
    )[number]
    flags = None
    if need_schedule:
        flags = schedule.buffer("attention_token_info_buf", (count, tokens * (experts + 1)))[number]
        waited = flags
        wait(lambda: int(waited.sum()) == waited.size, "scheduleContext")
    y = np.zeros((tokens, hidden_size), np.float32)
    for expert in range(experts):
        y += widen(results[:, expert]) * scales[:, expert, None]
    round_into(out[0], y + widen(results[:, experts]))
    out[1][...] = layer + 1
    if flags is not None:
        flags[...] = 0
        schedule["attention_micro_batch_id"] = number
