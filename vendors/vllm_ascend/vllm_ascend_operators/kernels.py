"""Kernels that vllm-ascend launches as binaries: torch.ops._C_ascend.bgmv_shrink and others without an aclnn operator.

Their arguments are addresses and sizes; shapes are what ``csrc/torch_binding.cpp`` passes.
"""

from __future__ import annotations

from typing import Any, Optional

import ml_dtypes
import numpy as np

from ascend_aclnn.numerics import Array, round_into, rounded_to, widen
from ascend_aclnn.reference.kernels import DataError, Pointer, kernel

_TYPES = {"half": np.dtype(np.float16), "bfloat16_t": np.dtype(ml_dtypes.bfloat16)}

# ------------------------------------------------------------------------------------------------- LoRA

_RANKS = (8, 16, 32, 64)  # that the kernels of expand can sum


def _adapters_by_length(adapters: Pointer, lengths: Pointer, count: int, tokens: int) -> Array:
    """The adapter of each token, from those of successive sequences; -1 behind the last."""
    repeated = np.repeat(adapters.array(count, np.int64), np.maximum(lengths.array(count, np.int64), 0))[:tokens]
    return np.concatenate([repeated, np.full(tokens - repeated.size, -1)])


def _weights(weight: Pointer, adapters: Array, rows: int, columns: int, dtype: np.dtype[Any]) -> Array:
    """The weights up to the last adapter that a token has."""
    return weight.array((int(adapters.max(initial=-1)) + 1, rows, columns), dtype)


# `sizes` of these two are what follows batchSize in the prototypes; how many tokens a core takes does not matter here.


def _shrink(dtype: np.dtype[Any], x: Pointer, weight: Pointer, adapters: Array, y: Pointer, *sizes: Any) -> None:
    """y = scale * x @ weight[adapter].T, in FLOAT; tokens without an adapter keep what y has."""
    _, hidden, rank, scale = sizes
    tokens, result = x.array((adapters.size, hidden), dtype), y.array((adapters.size, rank), np.float32)
    weights = _weights(weight, adapters, rank, hidden, dtype)
    for adapter in np.unique(adapters[adapters >= 0]):
        at = adapters == adapter
        result[at] = (widen(tokens[at]) @ widen(weights[adapter]).T) * np.float32(scale)


def _expand(
    dtype: np.dtype[Any], x: Pointer, weight: Pointer, adapters: Array, y_in: Pointer, y_out: Pointer, *sizes: int
) -> None:
    """Columns of y, from an offset on, plus x @ weight[adapter].T."""
    _, rank, columns, offset, width = sizes
    if rank not in _RANKS:
        raise DataError("maxLoRARank", f"is {rank}; the kernel sums {', '.join(map(str, _RANKS))}")
    tokens, weights = x.array((adapters.size, rank), np.float32), _weights(weight, adapters, columns, rank, dtype)
    part = slice(offset, offset + columns)
    source, target = (y.array((adapters.size, width), dtype)[:, part] for y in (y_in, y_out))
    for adapter in np.unique(adapters[adapters >= 0]):
        at = adapters == adapter
        target[at] = rounded_to(widen(source[at]) + tokens[at] @ widen(weights[adapter]).T, dtype)


# What they read and write. How many adapters the weights are depends on the tokens' adapters.


def _shrink_reads(tokens: int, sizes: tuple[Any, ...]) -> dict[str, Optional[int]]:
    return {"x": 2 * tokens * sizes[1], "weight": None}


def _shrink_writes(tokens: int, sizes: tuple[Any, ...]) -> dict[str, Optional[int]]:
    return {"y": 4 * tokens * sizes[2]}


def _expand_reads(tokens: int, sizes: tuple[int, ...]) -> dict[str, Optional[int]]:
    return {"x": 4 * tokens * sizes[1], "weight": None, "yIn": 2 * tokens * sizes[4]}


def _expand_writes(tokens: int, sizes: tuple[int, ...]) -> dict[str, Optional[int]]:
    return {"yOut": 2 * tokens * sizes[4]}


def _declare(name: str, dtype: np.dtype[Any]) -> None:
    @kernel(
        f"""void bgmv_shrink_{name}(void *x, void *weight, void *indices, uint32_t indicesSize, void *y, uint32_t batchSize,
        uint32_t numTokensPerCore, uint32_t inputHiddenDim, uint32_t maxLoRARank, float scale)""",
        reads=lambda x, weight, indices, _, y, tokens, *sizes: {**_shrink_reads(tokens, sizes), "indices": 8 * tokens},
        writes=lambda x, weight, indices, _, y, tokens, *sizes: _shrink_writes(tokens, sizes),
    )
    def bgmv_shrink(
        x: Pointer, weight: Pointer, indices: Pointer, _: int, y: Pointer, tokens: int, *sizes: Any
    ) -> None:
        _shrink(dtype, x, weight, indices.array(tokens, np.int64), y, *sizes)

    @kernel(
        f"""void sgmv_shrink_{name}(void *x, void *weight, void *loraIndices, uint32_t loraIndicesSize, void *seqLen,
        uint32_t seqLenSize, void *y, uint32_t batchSize, uint32_t numTokensPerCore, uint32_t inputHiddenDim,
        uint32_t maxLoRARank, float scale)""",
        reads=lambda x, weight, adapters, _, lengths, count, y, tokens, *sizes: {
            **_shrink_reads(tokens, sizes), "loraIndices": 8 * count, "seqLen": 8 * count,
        },
        writes=lambda x, weight, adapters, _, lengths, count, y, tokens, *sizes: _shrink_writes(tokens, sizes),
    )  # fmt: skip
    def sgmv_shrink(
        x: Pointer, weight: Pointer, adapters: Pointer, _: int, lengths: Pointer, sequences: int, y: Pointer, tokens: int,
        *sizes: Any,
    ) -> None:  # fmt: skip
        _shrink(dtype, x, weight, _adapters_by_length(adapters, lengths, sequences, tokens), y, *sizes)

    @kernel(
        f"""void bgmv_expand_{name}(void *x, void *weight, void *indices, uint32_t indicesSize, void *yIn, void *yOut,
        uint32_t batchSize, uint32_t numTokensPerCore, uint32_t maxLoRARank, uint32_t outputHiddenDim, uint32_t sliceOffset,
        uint32_t outputFullDim)""",
        reads=lambda x, weight, indices, _, y_in, y_out, tokens, *sizes: {
            **_expand_reads(tokens, sizes), "indices": 8 * tokens,
        },
        writes=lambda x, weight, indices, _, y_in, y_out, tokens, *sizes: _expand_writes(tokens, sizes),
    )  # fmt: skip
    def bgmv_expand(
        x: Pointer, weight: Pointer, indices: Pointer, _: int, y_in: Pointer, y_out: Pointer, tokens: int, *sizes: int
    ) -> None:
        _expand(dtype, x, weight, indices.array(tokens, np.int64), y_in, y_out, *sizes)

    @kernel(
        f"""void sgmv_expand_{name}(void *x, void *weight, void *loraIndices, uint32_t loraIndicesSize, void *seqLen,
        uint32_t seqLenSize, void *yIn, void *yOut, uint32_t batchSize, uint32_t numTokensPerCore, uint32_t maxLoRARank,
        uint32_t outputHiddenDim, uint32_t sliceOffset, uint32_t outputFullDim)""",
        reads=lambda x, weight, adapters, _, lengths, count, y_in, y_out, tokens, *sizes: {
            **_expand_reads(tokens, sizes), "loraIndices": 8 * count, "seqLen": 8 * count,
        },
        writes=lambda x, weight, adapters, _, lengths, count, y_in, y_out, tokens, *sizes: _expand_writes(tokens, sizes),
    )  # fmt: skip
    def sgmv_expand(
        x: Pointer, weight: Pointer, adapters: Pointer, _: int, lengths: Pointer, sequences: int, y_in: Pointer, y_out: Pointer,
        tokens: int, *sizes: int,
    ) -> None:  # fmt: skip
        _expand(dtype, x, weight, _adapters_by_length(adapters, lengths, sequences, tokens), y_in, y_out, *sizes)


for _name, _dtype in _TYPES.items():
    _declare(_name, _dtype)

# ------------------------------------------------------------------------------------------------- embeddings in parts


@kernel(
    """void get_masked_input_and_mask_kernel(int32_t *input, int32_t *masked_input, bool *mask_out, int64_t org_vocab_start_index,
    int64_t org_vocab_end_index, int64_t num_org_vocab_padding, int64_t added_vocab_start_index, int64_t added_vocab_end_index,
    int64_t size, uint32_t loop_cnt, uint32_t aiv_num)""",
    reads=lambda tokens, masked, mask, *sizes: {"input": 4 * sizes[5]},
    writes=lambda tokens, masked, mask, *sizes: {"masked_input": 4 * sizes[5], "mask_out": sizes[5]},
)
def get_masked_input_and_mask(
    tokens: Pointer,
    masked: Pointer,
    mask: Pointer,
    start: int,
    end: int,
    padding: int,
    added_start: int,
    added_end: int,
    size: int,
    rounds: int,
    cores: int,
) -> None:
    """Tokens as rows of this rank's part of the vocabulary, 0 and masked where they are in no part of it."""
    ids = tokens.array(size, np.int32)
    base, added = (ids >= start) & (ids < end), (ids >= added_start) & (ids < added_end)
    rows = ids - np.where(base, start, 0) - np.where(added, added_start - (end - start) - padding, 0)
    masked.array(size, np.int32)[...] = np.where(base | added, rows, 0)
    mask.array(size, np.bool_)[...] = ~(base | added)


# ------------------------------------------------------------------------------------------------- products

_TILING_WORDS = 18  # of batch_matmul_transpose: batches, m, k, n, ..., the key at 12
_BY_CODE = {1: _TYPES["half"], 2: _TYPES["bfloat16_t"]}


@kernel(  # the sizes of the others are in the tiling
    "void batch_matmul_transpose(void *gm_a, void *gm_b, void *gm_c, void *gm_tiling_data)",
    reads=lambda *_: {"gm_a": None, "gm_b": None, "gm_tiling_data": 4 * _TILING_WORDS},
    writes=lambda *_: {"gm_c": None},
)
def batch_matmul_transpose(a: Pointer, b: Pointer, c: Pointer, tiling: Pointer) -> None:
    """c[m, batch] = a[m, batch] @ b[batch], whose columns lie in blocks of 16 where the key says so."""
    words = tiling.array(_TILING_WORDS, np.uint32)
    batches, m, k, n = (int(word) for word in words[:4])
    key = int(words[12])
    dtype, is_blocked, is_transposed = _BY_CODE.get(key >> 10 & 7), key >> 2 & 1, key >> 13 & 1
    if dtype is None:
        raise DataError("gm_tiling_data", f"has the key {key:#x}, of a data type other than FLOAT16 and BFLOAT16")
    if is_transposed:
        raise DataError("gm_tiling_data", "says that gm_b is transposed; torch.ops._C_ascend has no such call")
    if is_blocked:
        right = b.array((batches, n // 16, k, 16), dtype).transpose(0, 2, 1, 3).reshape(batches, k, n)
    else:
        right = b.array((batches, k, n), dtype)
    left = a.array((m, batches, k), dtype).transpose(1, 0, 2)
    round_into(c.array((m, batches, n), dtype), np.matmul(widen(left), widen(right)).transpose(1, 0, 2))
