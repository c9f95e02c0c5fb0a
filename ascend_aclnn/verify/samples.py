"""Calls of operators whose example would be too long for a page: arguments in the order of the parameters, and outputs.

Arrays are new each time, and Tensors of the backend in use. What several ranks do together is in ``ranks``.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, Callable, NamedTuple, Optional

import ml_dtypes
import numpy as np

import ascend_aclnn as aclnn
from ascend_aclnn import SCHEDULE_CONTEXT, ops
from ascend_aclnn.catalog import Operator
from ascend_aclnn.core import hifloat8
from ascend_aclnn.core.tensor import Tensor

A3, NEW_950 = "Ascend910_9391", "Ascend950PR_9599"


class ExampleCall(NamedTuple):
    """The arguments of an operator in the order of its parameters, and the outputs that an example passes."""

    arguments: list[Any]
    options: dict[str, Any]
    judged: Callable[[list[Any]], list[Any]] = list  # the results that are compared, of the operator's


class Sample(NamedTuple):
    """How to make an operator's call, and the SoC whose rules it takes (None: the default's)."""

    make: Callable[[], ExampleCall]
    soc: Optional[str] = None
    alone: bool = False  # no other values are tried, with which a call takes minutes, or waits for ever


_HANS = 32768  # elements: the fewest that HansEncode takes
_ROOM = -(-(_HANS + _HANS // 64 + 8448 + 512 + 64) // 4) * 4  # bytes of fixed, with its header and tail


def _hans_encode() -> ExampleCall:
    x = np.random.default_rng(1).standard_normal(_HANS).astype(np.float16)
    out = tuple(np.zeros(size // 2, np.float16) for size in (_HANS, _ROOM, _HANS))
    return ExampleCall([x, np.zeros(256, np.int32), True, False], {"out": out})


def _hans_decode() -> ExampleCall:
    encoded = _hans_encode()
    with aclnn.use_backend("numpy"):
        counts, mantissa, fixed, others = ops.hans_encode(*encoded.arguments, **encoded.options)
    return ExampleCall([mantissa, fixed, others, counts, False], {"out": np.zeros(_HANS, np.float16)})


def _quant_convolution_weight_nz() -> ExampleCall:
    random = np.random.default_rng(2)
    x, weight = (random.integers(-128, 128, s).astype(np.int8) for s in ((2, 40, 4, 6, 5), (20, 40, 2, 3, 3)))
    scale, bias = (
        (np.abs(random.standard_normal(20)) * 1e-3).astype(np.float32),
        random.standard_normal(20).astype(np.float32),
    )
    blocked = aclnn.empty(weight.shape, "INT8", format="FRACTAL_Z_3D", storage_shape=(2 * 2 * 3 * 3, 2, 16, 32))
    blocked.assign(weight)
    ones = (1, 1, 1)
    tensors = [aclnn.asarray(x, format="NCDHW"), blocked, aclnn.asarray(bias), aclnn.asarray(scale)]
    out = aclnn.empty((2, 20, 3, 4, 3), np.float16, format="NCDHW")
    return ExampleCall([*tensors, None, ones, (0, 0, 0), ones, False, None, 1, 0, None], {"out": out})


def _quant_flash_attention_score() -> ExampleCall:
    """The smallest sizes that tiling has a kernel of HIFLOAT8 for."""
    random = np.random.default_rng(3)
    heads, queries, keys, width = 40, 7200, 512, 128
    numbers = hifloat8.convert(random.standard_normal(256), hifloat8.DTYPE)
    query, key, value = (
        numbers[random.integers(0, 256, (1, n, heads, width), np.uint8)] for n in (queries, keys, keys)
    )
    scales = [
        np.exp2(random.normal(0, 0.5, (1, heads, -(-n // block), 1))).astype(np.float32)
        for n, block in ((queries, 128), (keys, 256), (keys, 512))
    ]
    all_keys = 2**31 - 1
    attributes = (0.05, all_keys, all_keys, heads, "BSND", 0)
    return ExampleCall([query, key, value, None, *scales, np.ones(1, np.float32), *attributes], {})


def _weight_quant_preprocess() -> ExampleCall:
    """A weight that lies transposed, and comes out in blocks of 16 rows and 32 columns of what is stored."""
    random = np.random.default_rng(4)
    k, n = 96, 40
    stored = random.integers(0, 16, (n, k), np.uint8).view(np.dtype(ml_dtypes.float4_e2m1fn))
    exponents = random.integers(100, 140, (n, -(-k // 64), 2), np.uint8).view(np.dtype(ml_dtypes.float8_e8m0fnu))
    blocks = (-(-k // 32), -(-n // 16), 16, 32)
    out = aclnn.empty((k, n), "FLOAT4_E2M1", format="FRACTAL_NZ_C0_32", storage_shape=blocks)
    weight, scale = aclnn.asarray(stored).mT, aclnn.asarray(exponents).transpose(1, 0, 2)
    out_scale = aclnn.empty(exponents.shape, "FLOAT8_E8M0").transpose(1, 0, 2)
    attributes = ("FLOAT8_E4M3FN", "FLOAT8_E8M0", 32)
    return ExampleCall([weight, scale, None, None, *attributes], {"out": (out, out_scale, None, None)})


# ------------------------------------------------------------------------------------------------- by address

_SESSIONS, _TOKENS, _PLACES, _HIDDEN = 2, 3, 2, 1024  # of two attention ranks: tokens, and the experts of each


def _schedule(**fields: Any) -> Any:
    """A schedule context; a Tensor stands for its address, and for its size in the field behind it."""
    context = np.zeros(1, SCHEDULE_CONTEXT)
    sizes = {"session_num": _SESSIONS, "micro_batch_num": 1, "micro_batch_size": _TOKENS, "run_flag": 1}
    for name, value in {**sizes, "selected_expert_num": _PLACES, **fields}.items():
        context[name] = value.data_ptr if isinstance(value, Tensor) else value
        if isinstance(value, Tensor):
            context[f"{name}_size"] = value.nbytes
    return context.view(np.int8)


def _results_and_memory(memory: Sequence[Tensor], results: list[Any]) -> list[Any]:
    """The context without addresses, which are other ones on each backend, and the memory that they are of."""
    fields = np.array(results[0]).view(SCHEDULE_CONTEXT)
    for name in SCHEDULE_CONTEXT.names or ():
        if name.endswith("_buf"):
            fields[name] = 0
    return [[fields.view(np.int8), *(tensor.numpy() for tensor in memory)]]


def _results(memory: Sequence[Tensor], results: list[Any]) -> list[Any]:
    """The results; ``memory``, which a context has the addresses of, lives as long as this is at hand."""
    return results


def _inplace_attention_worker_scheduler() -> ExampleCall:
    """All results have come: their flags are 1."""
    flags = aclnn.asarray(np.ones((1, _TOKENS, _PLACES), np.int32))
    data = aclnn.zeros((1, _TOKENS, _PLACES, _HIDDEN), "FLOAT16")
    context = _schedule(schedule_mode=1, attention_token_info_buf=flags, attention_token_data_buf=data)
    return ExampleCall([aclnn.asarray(context)], {}, functools.partial(_results_and_memory, (flags, data)))


def _attention_worker_combine() -> ExampleCall:
    random = np.random.default_rng(5)
    data = aclnn.asarray(random.standard_normal((1, _TOKENS, _PLACES, _HIDDEN)).astype(np.float16))
    flags = aclnn.asarray(np.ones((1, _TOKENS, _PLACES), np.int32))
    context = _schedule(
        schedule_mode=1,
        ffn_to_attn_token_size=2 * _HIDDEN,
        attention_token_info_buf=flags,
        attention_token_data_buf=data,
    )
    weights = random.random((_TOKENS, _PLACES - 1)).astype(np.float32)  # the last expert is the shared one
    arguments = [aclnn.asarray(context), weights, np.zeros(1, np.int32), _HIDDEN, 0, 0]
    return ExampleCall(arguments, {}, functools.partial(_results, (flags, data)))


def _notes(**values: Any) -> dict[str, Tensor]:
    """What a scheduler of FFN writes down: the layer, session, micro batch and experts of what has come."""
    widths = {"layer_ids": 1, "session_ids": 1, "micro_batch_ids": 1, "expert_ids": _TOKENS * _PLACES}
    return {
        f"ffn_{name}_buf": aclnn.asarray(np.asarray(values.get(name, np.zeros((_SESSIONS, width))), np.int32))
        for name, width in widths.items()
    }


_EXPERTS = np.array([[0, 2, 1, 2, 0, 1], [1, 0, 2, 0, 2, 1]], np.int32)  # of each session's tokens and places


def _inplace_ffn_worker_scheduler() -> ExampleCall:
    """Both sessions' tokens of layer 5 have come."""
    table = np.concatenate([np.tile(np.array([1, 5], np.int32), (_SESSIONS, 1)), _EXPERTS], axis=1)
    info = aclnn.asarray(table[:, None])
    data = aclnn.zeros((_SESSIONS, 1, _TOKENS, _PLACES, _HIDDEN), "FLOAT16")
    notes = _notes()
    context = _schedule(ffn_token_info_buf=info, ffn_token_data_buf=data, **notes)
    judged = functools.partial(_results_and_memory, (info, data, *notes.values()))
    return ExampleCall([aclnn.asarray(context), _SESSIONS, 0], {}, judged)


def _ffn_worker_batching() -> ExampleCall:
    random = np.random.default_rng(6)
    data = aclnn.asarray(random.standard_normal((_SESSIONS, 1, _TOKENS, _PLACES, _HIDDEN)).astype(np.float16))
    notes = _notes(session_ids=np.arange(_SESSIONS), expert_ids=_EXPERTS)
    info = aclnn.zeros((_SESSIONS, 1, 2 + _TOKENS * _PLACES), "INT32")
    context = _schedule(
        attn_to_ffn_token_size=2 * _HIDDEN,
        ffn_out_num=_SESSIONS,
        ffn_token_info_buf=info,
        ffn_token_data_buf=data,
        **notes,
    )
    arguments = [aclnn.asarray(context), 4, (_SESSIONS, _TOKENS, _PLACES, _HIDDEN), 0, 0, 0]
    return ExampleCall(arguments, {}, functools.partial(_results, (info, data, *notes.values())))


SAMPLES: dict[str, Sample] = {
    "aclnnAttentionWorkerCombine": Sample(_attention_worker_combine),
    "aclnnFfnWorkerBatching": Sample(_ffn_worker_batching, alone=True),
    "aclnnHansEncode": Sample(_hans_encode),
    "aclnnHansDecode": Sample(_hans_decode),
    "aclnnInplaceAttentionWorkerScheduler": Sample(_inplace_attention_worker_scheduler, A3),
    "aclnnInplaceFfnWorkerScheduler": Sample(_inplace_ffn_worker_scheduler, A3),
    "aclnnQuantConvolutionWeightNz": Sample(_quant_convolution_weight_nz),
    "aclnnQuantFlashAttentionScore": Sample(_quant_flash_attention_score, NEW_950, alone=True),
    "aclnnWeightQuantPreprocess": Sample(_weight_quant_preprocess, NEW_950),
}


def wanted_soc(operator: Operator) -> Optional[str]:
    """The SoC whose rules an operator's example or sample takes; None: the default's, or it has neither."""
    if operator.example is not None:
        return operator.example.soc
    return SAMPLES[operator.name].soc if operator.name in SAMPLES else None


__all__ = ["SAMPLES", "ExampleCall", "Sample", "wanted_soc"]
