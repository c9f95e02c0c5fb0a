"""Triton's kernels as operators: launched in stream order, in captured graphs too, where the interpreter takes milliseconds.

The names of operators are this distribution's own; a card has compiled kernels in their place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional

import numpy as np

import ascend_aclnn as aclnn
from ascend_aclnn import ops
from ascend_aclnn.emulator.triton_kernels import triton_kernel
from ascend_aclnn.numerics import Array, DataError, round_into, widen
from ascend_aclnn.reference import reference
from ascend_aclnn.rules.language import *

_KERNELS = "vllm_ascend.ops.triton"

# ------------------------------------------------------------------------------------------------- slots of tokens

aclnn.register_operator(
    """
aclnnStatus aclnnTritonComputeSlotMappingGetWorkspaceSize(
    const aclTensor *queryStartLoc, const aclTensor *positions, const aclTensor *blockTable, const aclTensor *slotMapping,
    int64_t requests, int64_t numTokens, int64_t maxNumTokens, int64_t blockTableStride, int64_t blockSize,
    int64_t cpWorldSize, int64_t cpRank, int64_t cpInterleave, int64_t padId, uint64_t *workspaceSize, aclOpExecutor **executor);
""",
    directions={"slotMapping": "inout"},
)

rule(
    "aclnnTritonComputeSlotMapping",
    dtypes("INT32", "queryStartLoc", "blockTable"),
    dtypes("INT32 INT64", "positions", "slotMapping"),
    tiling(
        rank(1, "queryStartLoc", "positions", "slotMapping"),
        contiguous("blockTable"),
        positive("blockSize", "cpWorldSize", "cpInterleave"),
        require("queryStartLoc[0] > requests"),
        require("maxNumTokens <= slotMapping[0]", argument="maxNumTokens"),
    ),
)


@reference("aclnnTritonComputeSlotMapping", raw=True)
def compute_slot_mapping(
    loc: Array,
    positions: Array,
    table: Array,
    _: Array,
    requests: int,
    tokens: int,
    most: int,
    stride: int,
    size: int,
    world: int,
    rank: int,
    interleave: int,
    pad: int,
    *,
    out: Sequence[Array],
) -> None:
    """Where each token's key lies in the cache: its block, by the request's row of the table, and its place there.

    With context parallelism, tokens of other ranks get ``pad``, as do those from ``tokens`` to ``most``.
    """
    slots = out[0]
    slots[tokens:most] = pad
    loc = loc[: requests + 1].astype(np.int64)
    if (np.diff(loc) < 0).any() or loc[0] < 0 or loc[-1] > min(len(positions), len(slots)):
        raise DataError("queryStartLoc", f"is {loc.tolist()}; it must rise from 0 to at most {len(positions)}")
    begin, end = loc[0], loc[-1]
    if begin == end:
        return
    position = positions[begin:end].astype(np.int64)
    request = np.repeat(np.arange(requests), np.diff(loc))
    block, within = np.divmod(position, size * world)
    local = within // interleave % world == rank
    place = within // (world * interleave) * interleave + within % interleave
    inside = (block >= 0) & (block < stride)
    at = request * stride + np.where(inside, block, 0)
    flat = table.reshape(-1)
    if (at >= flat.size).any():
        raise DataError("queryStartLoc", f"has {requests} requests; the table has {flat.size // stride}")
    slots[begin:end] = np.where(local, np.where(inside, flat[at], 0) * size + place, pad)


@triton_kernel("vllm.v1.worker.block_table._compute_slot_mapping_kernel")
def _launch_slot_mapping(
    *,
    grid: tuple[int, ...],
    num_tokens: int,
    max_num_tokens: int,
    query_start_loc_ptr: Any,
    positions_ptr: Any,
    block_table_ptr: Any,
    block_table_stride: int,
    block_size: int,
    slot_mapping_ptr: Any,
    TOTAL_CP_WORLD_SIZE: int,
    TOTAL_CP_RANK: int,
    CP_KV_CACHE_INTERLEAVE_SIZE: int,
    PAD_ID: int,
    **_: Any,
) -> None:
    """The last program pads, the others have a request each."""
    ops.triton_compute_slot_mapping(
        query_start_loc_ptr,
        positions_ptr,
        block_table_ptr,
        slot_mapping_ptr,
        grid[0] - 1,
        num_tokens,
        max_num_tokens,
        block_table_stride,
        block_size,
        TOTAL_CP_WORLD_SIZE,
        TOTAL_CP_RANK,
        CP_KV_CACHE_INTERLEAVE_SIZE,
        PAD_ID,
    )


# ------------------------------------------------------------------------------------------------- rotary embedding

aclnn.register_operator(
    """
aclnnStatus aclnnTritonRopeGetWorkspaceSize(
    const aclTensor *query, const aclTensor *keyOptional, const aclTensor *cosOptional, const aclTensor *sinOptional,
    const aclTensor *cosSinOptional, const aclTensor *positionsOptional, int64_t ropeDim, bool neox,
    uint64_t *workspaceSize, aclOpExecutor **executor);
""",
    directions={"query": "inout", "keyOptional": "inout"},
)

rule(
    "aclnnTritonRope",
    dtypes(FLOATS, "query", "cosOptional", "sinOptional", "cosSinOptional"),
    same_dtype("query", "keyOptional"),
    dtypes("INT32 INT64", "positionsOptional"),
    tiling(
        rank(3, "query", "keyOptional"),
        rank(2, "cosOptional", "sinOptional", "cosSinOptional"),
        rank(1, "positionsOptional"),
        require("0 < ropeDim <= query[2]", "ropeDim % 2 == 0", argument="ropeDim"),
        require("(cosSinOptional is None) == (positionsOptional is None)", argument="positionsOptional"),
        require("(cosOptional is None) == (sinOptional is None)", argument="sinOptional"),
        require("(cosOptional is None) != (cosSinOptional is None)", argument="cosSinOptional"),
    ),
)


@reference("aclnnTritonRope", raw=True)
def rope(
    _query: Array,
    _key: Optional[Array],
    cos: Optional[Array],
    sin: Optional[Array],
    both: Optional[Array],
    positions: Optional[Array],
    width: int,
    neox: bool,
    *,
    out: Sequence[Optional[Array]],
) -> None:
    """Turns pairs of each head's first ``width`` elements in place: halves with ``neox``, else neighbours.

    The sines of a row of cosSin begin at half the power of two from ``width`` on, as the kernel reads them.
    """
    half = width // 2
    if both is not None and positions is not None:
        if positions.size and not (positions.min() >= 0 and positions.max() < len(both)):
            raise DataError(
                "positions", f"lie between {positions.min()} and {positions.max()}; allowed: 0 to {len(both) - 1}"
            )
        begin = (1 << (width - 1).bit_length()) // 2
        rows = both[positions]
        cos, sin = rows[:, :half], rows[:, begin : begin + half]
    assert cos is not None and sin is not None
    cosine, sine = (widen(np.asarray(part[:, :half]))[:, None, :] for part in (cos, sin))
    first = slice(0, half) if neox else slice(0, width, 2)
    second = slice(half, width) if neox else slice(1, width, 2)
    for heads in out:
        if heads is None:
            continue
        turned = widen(heads[..., :width])
        result = np.empty(turned.shape, turned.dtype)
        x, y = turned[..., first], turned[..., second]
        np.subtract(x * cosine, y * sine, out=result[..., first])
        np.add(y * cosine, x * sine, out=result[..., second])
        round_into(heads[..., :width], result)


@triton_kernel(f"{_KERNELS}.rope._triton_rope", f"{_KERNELS}.rope._triton_rope_siso")
def _launch_rope(
    *,
    q_ptr: Any = None,
    qk_ptr: Any = None,  # of the second kernel, which turns queries or keys
    k_ptr: Any = None,
    cos_ptr: Any,
    sin_ptr: Any,
    cos_sin_ptr: Any,
    pos_ptr: Any,
    rope_dim: int,
    IS_NEOX_STYLE: bool,
    **_: Any,
) -> None:
    query = q_ptr if qk_ptr is None else qk_ptr
    ops.triton_rope(query, k_ptr, cos_ptr, sin_ptr, cos_sin_ptr, pos_ptr, rope_dim, IS_NEOX_STYLE)


# ------------------------------------------------------------------------------------------------- greedy rejection

aclnn.register_operator(
    """
aclnnStatus aclnnTritonRejectGreedyGetWorkspaceSize(
    const aclTensor *outputTokenIds, const aclTensor *cuNumDraftTokensOptional, const aclTensor *draftTokenIds,
    const aclTensor *targetArgmax, const aclTensor *bonusTokenIds, const aclTensor *isGreedyOptional, int64_t requests,
    uint64_t *workspaceSize, aclOpExecutor **executor);
""",
    directions={"outputTokenIds": "inout"},
)

rule(
    "aclnnTritonRejectGreedy",
    dtypes(
        "INT32 INT64", "outputTokenIds", "cuNumDraftTokensOptional", "draftTokenIds", "targetArgmax", "bonusTokenIds"
    ),
    dtypes("BOOL", "isGreedyOptional"),
    tiling(
        rank(2, "outputTokenIds"),
        rank(1, "cuNumDraftTokensOptional", "draftTokenIds", "targetArgmax", "isGreedyOptional"),
        require("draftTokenIds == targetArgmax", argument="targetArgmax"),
        require("0 <= requests <= outputTokenIds[0]", "requests <= bonusTokenIds.size", argument="requests"),
        require(
            "cuNumDraftTokensOptional is None or requests <= cuNumDraftTokensOptional[0]",
            argument="cuNumDraftTokensOptional",
        ),
        require("isGreedyOptional is None or requests <= isGreedyOptional[0]", argument="isGreedyOptional"),
    ),
)


@reference("aclnnTritonRejectGreedy", raw=True)
def reject_greedy(
    _: Array,
    ends: Optional[Array],
    drafts: Array,
    targets: Array,
    bonus: Array,
    greedy: Optional[Array],
    requests: int,
    *,
    out: Sequence[Array],
) -> None:
    """A greedy request gets the model's own tokens up to the first that was not drafted, and behind all of them its bonus.

    ``ends`` counts the drafts of all requests so far; without it each request has one.
    """
    output = out[0]
    last = np.arange(1, requests + 1) if ends is None else ends[:requests].astype(np.int64)
    counts = np.diff(last, prepend=0)
    if requests and not (counts.min() >= 0 and counts.max() < output.shape[1] and last[-1] <= len(drafts)):
        raise DataError(
            "cuNumDraftTokensOptional",
            f"is {last.tolist()}; it must rise by less than {output.shape[1]}, to at most {len(drafts)}",
        )
    chosen = np.ones(requests, bool) if greedy is None else greedy[:requests]
    place = np.arange(output.shape[1] - 1)
    drafted = place < counts[:, None]
    at = np.where(drafted, (last - counts)[:, None] + place, 0)
    target = targets[at] if targets.size else np.zeros(at.shape, targets.dtype)
    accepted = drafted & (drafts[at] == target) if drafts.size else drafted
    before = np.cumprod(np.pad(accepted, ((0, 0), (1, 0)), constant_values=True)[:, :-1], axis=1).astype(bool)
    written = drafted & before & chosen[:, None]
    output[:requests, :-1][written] = target[written]
    whole = np.flatnonzero((accepted == drafted).all(axis=1) & chosen)
    output[whole, counts[whole]] = bonus.reshape(-1)[whole]


@triton_kernel(
    f"{_KERNELS}.reject_sample.rejection_greedy_sample_triton",
    f"{_KERNELS}.reject_sample.rejection_greedy_sample_spec_len_1_triton",
)
def _launch_reject_greedy(
    *,
    output_token_ids_ptr: Any,
    cu_num_draft_tokens_ptr: Any = None,  # the second kernel has neither: one draft for each request, all of them greedy
    is_greedy_ptr: Any = None,
    draft_token_ids_ptr: Any,
    target_argmax_ptr: Any,
    bonus_token_ids_ptr: Any,
    vec_len: int,
    **_: Any,
) -> None:
    drafts = (draft_token_ids_ptr, target_argmax_ptr, bonus_token_ids_ptr)
    ops.triton_reject_greedy(output_token_ids_ptr, cu_num_draft_tokens_ptr, *drafts, is_greedy_ptr, vec_len)
