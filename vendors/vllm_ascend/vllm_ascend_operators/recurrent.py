"""Convolutions and gates in front of gated delta rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional

import numpy as np

import ascend_aclnn as aclnn
from ascend_aclnn.core.errors import PARAM_INVALID
from ascend_aclnn.numerics import Array, DataError, round_into, rounded_to, widen
from ascend_aclnn.reference import reference
from ascend_aclnn.rules.language import *

_UPDATE = 1  # of runMode: the next tokens of each sequence; 0: whole sequences

aclnn.register_operator(
    """
aclnnStatus aclnnCausalConv1dGetWorkspaceSize(
    const aclTensor *x, const aclTensor *weight, const aclTensor *biasOptional, const aclTensor *convStates,
    const aclTensor *queryStartLocOptional, const aclTensor *cacheIndicesOptional, const aclTensor *initialStateModeOptional,
    const aclTensor *numAcceptedTokensOptional, int64_t activationMode, int64_t padSlotId, int64_t runMode,
    const aclTensor *out, uint64_t *workspaceSize, aclOpExecutor **executor);
""",
    directions={"convStates": "inout"},
)

rule(
    "aclnnCausalConv1d",
    only_products("A2 A3"),
    dtypes(HALVES, "x"),
    same_dtype("x", "weight", "biasOptional", "convStates", "out"),
    dtypes(INDICES, "queryStartLocOptional", "cacheIndicesOptional", "numAcceptedTokensOptional"),
    dtypes(f"BOOL {INDICES}", "initialStateModeOptional"),
    contiguous("convStates"),
    tiling(
        one_of("activationMode", 0, 1),
        one_of("runMode", 0, 1),
        rank(2, 3, "x"),
        require("x[-1] > 0", "x[-1] % 16 == 0"),
        rank(2, "weight"),
        require("weight[1] == x[-1]", "2 <= weight[0] <= 4"),
        rank(3, "convStates"),
        require("convStates[0] > 0", "convStates[1] >= weight[0] - 1", "convStates[2] == x[-1]"),
        rank(1, "queryStartLocOptional", "initialStateModeOptional", "numAcceptedTokensOptional"),
        when("len(x) == 2 and runMode == 0", require("queryStartLocOptional is not None")),
        require("queryStartLocOptional[0] > 0"),
        define(batch="x[0] if len(x) == 3 or queryStartLocOptional is None else queryStartLocOptional[0] - 1"),
        require("queryStartLocOptional[0] == batch + 1", word="batch"),
        rank(1, 2, "cacheIndicesOptional"),
        require("cacheIndicesOptional[0] == batch"),
        when("cacheIndicesOptional is None", require("convStates[0] >= batch", argument="convStates")),
        when(f"runMode == {_UPDATE}", absent("initialStateModeOptional", why="of sequences that go on")),
        when("runMode == 0", absent("numAcceptedTokensOptional", why="of whole sequences")),
        has_shape(initialStateModeOptional="(batch,)", numAcceptedTokensOptional="(batch,)", biasOptional="x[-1:]"),
        when("numAcceptedTokensOptional is not None", require("weight[0] == 4", word="accepted")),
        output_shape(out="x"),
    ),
)


@reference("aclnnCausalConv1d", raw=True)
def causal_conv1d(
    x: Array,
    weight: Array,
    bias: Optional[Array],
    _: Array,
    starts: Optional[Array],
    indices: Optional[Array],
    initial: Optional[Array],
    accepted: Optional[Array],
    activation: int,
    padding: int,
    mode: int,
    *,
    out: Sequence[Array],
) -> None:
    """Each channel by its own taps, over what its state has and the sequence; states begin with a sequence's last tokens.

    With ``accepted`` a state keeps all tokens of the call behind two earlier ones, and the next call begins after those
    that were accepted. A sequence whose state is ``padding``, or no state, is left out.
    """
    states, y = out
    y[...] = 0
    taps = widen(weight)
    history = len(taps) - 1
    for number, where in enumerate(_sequences(x, starts)):
        line = number if indices is None else int(indices.reshape(len(indices), -1)[number, 0])
        if line == padding or not 0 <= line < len(states) or x[where].size == 0:
            continue
        tokens = x[where].reshape(-1, x.shape[-1])
        first = 0 if accepted is None else int(np.clip(accepted[number] - 1, 0, states.shape[1] - history))
        before = states[line, first : first + history].copy()
        if mode != _UPDATE and (initial is None or not initial[number]):
            before[...] = 0
        padded = np.concatenate([before, tokens])
        wide = widen(padded)
        sums = sum(wide[k : k + len(tokens)] * taps[k] for k in range(len(taps)))
        sums = sums if bias is None else sums + widen(bias)
        round_into(y[where], np.reshape(sums / (1 + np.exp(-sums)) if activation else sums, y[where].shape))
        if accepted is not None and 2 + len(tokens) <= states.shape[1]:
            states[line, : 2 + len(tokens)] = padded[1:]
        else:
            states[line, :history] = padded[-history:]


def _sequences(x: Array, starts: Optional[Array]) -> list[Any]:
    """Where each sequence lies in x: (batch, tokens, channels), packed tokens, or a token each."""
    if x.ndim == 3:
        return list(range(len(x)))
    if starts is None:
        return [slice(token, token + 1) for token in range(len(x))]
    if starts[0] < 0 or starts[-1] > len(x) or (np.diff(starts) < 0).any():
        raise DataError("queryStartLocOptional", f"is {starts.tolist()}; it must rise from 0 to at most {len(x)}")
    return [slice(int(start), int(end)) for start, end in zip(starts, starts[1:])]


aclnn.register_operator("""
aclnnStatus aclnnFusedGdnGatingGetWorkspaceSize(
    const aclTensor *aLog, const aclTensor *a, const aclTensor *b, const aclTensor *dtBias, float beta, float threshold,
    aclTensor *g, aclTensor *betaOutput, uint64_t *workspaceSize, aclOpExecutor **executor);
""")

rule(
    "aclnnFusedGdnGating",
    only_products("A2 A3"),
    dtypes(FLOATS, "aLog"),
    dtypes(HALVES, "a"),
    dtypes("FLOAT", "g"),
    same_dtype("a", "b", "betaOutput"),
    same_dtype("aLog", "dtBias"),
    tiling(
        rank(2, "a"),
        same_shape("a", "b"),
        has_shape(aLog="a[1:]", dtBias="a[1:]"),
        output_shape(g="(1, *a)", betaOutput="(1, *a)"),
    ),
)


@reference("aclnnFusedGdnGating")
def fused_gdn_gating(
    a_log: Array, a: Array, b: Array, dt_bias: Array, beta: float, threshold: float
) -> tuple[Any, Any]:
    """g = -exp(aLog) * softplus(a + dtBias), and sigmoid(b); softplus is the identity where beta * x exceeds threshold."""
    x = a + dt_bias
    scaled = x * np.float32(beta)
    soft = np.log(1 + np.exp(np.minimum(scaled, np.float32(threshold)))) / np.float32(beta)
    g = -np.exp(a_log) * np.where(scaled <= np.float32(threshold), soft, x)
    return g[None], (1 / (1 + np.exp(-b)))[None]


# ------------------------------------------------------------------------------------------------- delta rules by chunks

aclnn.register_operator("""
aclnnStatus aclnnChunkGatedDeltaRuleFwdHGetWorkspaceSize(
    const aclTensor *k, const aclTensor *w, const aclTensor *u, const aclTensor *gOptional, const aclTensor *gkOptional,
    const aclTensor *initalStateOptional, bool outputFinalState, int64_t chunkSize, bool saveNewValue,
    const aclIntArray *cuSeqlensOptional, const aclIntArray *chunkIndicesOptional, bool useExp2, bool transposeStateLayout,
    const aclTensor *hOut, const aclTensor *vNewOut, const aclTensor *finalStateOut, uint64_t *workspaceSize,
    aclOpExecutor **executor);
""")


def _chunks_of(values: str) -> Check:
    """Sizes of (batch, heads of values, tokens, width), of which heads of keys are a divisor, and how many chunks there are."""
    return define(
        batch=f"{values}[0]",
        heads=f"{values}[1]",
        tokens=f"{values}[2]",
        lengths="[tokens] if cuSeqlensOptional is None else [b - a for a, b in zip(cuSeqlensOptional, cuSeqlensOptional[1:])]",
        chunks="sum(ceil_div(length, chunkSize) for length in lengths)",
    )


rule(
    "aclnnChunkGatedDeltaRuleFwdH",
    only_products("A2 A3"),
    required("gOptional", status=PARAM_INVALID),
    absent("gkOptional"),
    one_of("saveNewValue", True),
    one_of("useExp2", False),
    one_of("transposeStateLayout", False),
    dtypes(HALVES, "k"),
    same_dtype("k", "w", "u", "hOut", "vNewOut"),
    dtypes(FLOATS, "gOptional", "initalStateOptional"),
    tiling(
        rank(4, "k", "w", "u", "initalStateOptional"),
        rank(3, "gOptional"),
        positive("chunkSize"),
        _chunks_of("u"),
        require("k[0] == batch", "k[1] > 0 and heads % k[1] == 0", "k[2] == tokens"),
        has_shape(w="(batch, heads, tokens, k[3])", gOptional="(batch, heads, tokens)"),
        require("cuSeqlensOptional is None or batch == 1", argument="u", word="packed"),
        output_shape(hOut="(batch, heads, chunks, k[3], u[3])", vNewOut="u"),
    ),
    define(sequences="batch if cuSeqlensOptional is None else len(cuSeqlensOptional) - 1"),
    infer_shape(finalStateOut="(sequences, heads, k[3], u[3]) if outputFinalState else (1,)"),
    output_dtype(finalStateOut="k.dtype if initalStateOptional is None else initalStateOptional.dtype"),
)


def _chunks(tokens: int, batch: int, starts: Optional[Sequence[int]], size: int) -> list[tuple[int, int, slice, bool]]:
    """Each chunk: its sequence, its batch, its tokens, and whether it is its sequence's first; without empty sequences."""
    if starts is None:
        spans = [(number, number, 0, tokens) for number in range(batch)]
    else:
        if starts[0] < 0 or starts[-1] > tokens or (np.diff(starts) < 0).any():
            raise DataError("cuSeqlensOptional", f"is {tuple(starts)}; it must rise from 0 to at most {tokens}")
        spans = [(number, 0, start, end) for number, (start, end) in enumerate(zip(starts, starts[1:]))]
    return [
        (number, row, slice(first, min(first + size, end)), first == start)
        for number, row, start, end in spans
        for first in range(start, end, size)
    ]


def _places(chunks: list[tuple[int, int, slice, bool]]) -> list[int]:
    """The number of each chunk within its batch."""
    rows = [row for _, row, _, _ in chunks]
    return [rows[:i].count(row) for i, row in enumerate(rows)]


@reference("aclnnChunkGatedDeltaRuleFwdH", raw=True)
def chunk_gated_delta_rule_fwd_h(
    k: Array,
    w: Array,
    u: Array,
    g: Array,
    gk: Any,
    initial: Optional[Array],
    final: bool,
    size: int,
    save: bool,
    starts: Optional[Sequence[int]],
    indices: Any,
    exp2: bool,
    transposed: bool,
    *,
    out: Sequence[Array],
) -> Optional[list[Array]]:
    """The state in front of each chunk, and the values less what the state has for their keys.

    v = u - w @ state; then state = exp(last g) * state + k^T @ (exp(last g - g) * v). States go from chunk to chunk in the
    data type of k; g is the running sum within a chunk.
    """
    states, news, finals = out
    keys = np.repeat(widen(k), u.shape[1] // k.shape[1], 1)
    states[...] = 0
    news[...] = 0
    if final:
        finals[...] = 0 if initial is None else initial
    chunks = _chunks(u.shape[2], len(u), starts, size)
    state = np.zeros((u.shape[1], k.shape[3], u.shape[3]), np.float32)
    for (number, row, where, is_first), place in zip(chunks, _places(chunks)):
        if is_first:
            state = np.zeros_like(state) if initial is None else widen(initial[number])
        held = widen(rounded_to(state, k.dtype))
        round_into(states[row, :, place], held)
        values = widen(u[row, :, where]) - np.matmul(widen(w[row, :, where]), held)
        round_into(news[row, :, where], values)
        decay = widen(g[row, :, where])
        last = decay[:, -1:, None]
        decayed = widen(rounded_to(values * np.exp(last - decay[..., None]), k.dtype))
        state = held * np.exp(last) + np.matmul(keys[row, :, where].swapaxes(-1, -2), decayed)
        if final:
            round_into(finals[number], state)
    return None if final else [finals]


aclnn.register_operator("""
aclnnStatus aclnnChunkFwdOGetWorkspaceSize(
    const aclTensor *q, const aclTensor *k, const aclTensor *v, const aclTensor *h, const aclTensor *g,
    const aclIntArray *cuSeqlensOptional, const aclIntArray *chunkOffsetsOptional, double scale, int64_t chunkSize,
    const aclTensor *oOut, uint64_t *workspaceSize, aclOpExecutor **executor);
""")

rule(
    "aclnnChunkFwdO",
    only_products("A2 A3"),
    dtypes(HALVES, "q"),
    same_dtype("q", "k", "v", "h", "oOut"),
    dtypes(FLOATS, "g"),
    tiling(
        rank(4, "q", "k", "v"),
        rank(5, "h"),
        rank(3, "g"),
        positive("chunkSize"),
        _chunks_of("v"),
        same_shape("q", "k"),
        require("q[0] == batch", "q[1] > 0 and heads % q[1] == 0", "q[2] == tokens"),
        has_shape(g="(batch, heads, tokens)", h="(batch, heads, chunks, q[3], v[3])"),
        require("cuSeqlensOptional is None or batch == 1", argument="v", word="packed"),
        output_shape(oOut="v"),
    ),
)


@reference("aclnnChunkFwdO", raw=True)
def chunk_fwd_o(
    q: Array,
    k: Array,
    v: Array,
    h: Array,
    g: Array,
    starts: Optional[Sequence[int]],
    offsets: Any,
    scale: float,
    size: int,
    *,
    out: Sequence[Array],
) -> None:
    """What the state in front of each chunk, and its own values up to each token, have for the queries.

    o = scale * (exp(g) * q @ h + (exp(g_i - g_j) * q @ k^T, of j <= i, in the data type of q) @ v)
    """
    out[0][...] = 0
    groups = v.shape[1] // q.shape[1]
    queries, keys = (np.repeat(widen(part), groups, 1) for part in (q, k))
    chunks = _chunks(v.shape[2], len(v), starts, size)
    for (_, row, where, _), place in zip(chunks, _places(chunks)):
        query, decay = queries[row, :, where], widen(g[row, :, where])
        scores = np.matmul(query, keys[row, :, where].swapaxes(-1, -2))
        scores = scores * np.exp(np.minimum(decay[..., None] - decay[..., None, :], 0))
        scores = widen(rounded_to(np.tril(scores), q.dtype))
        of_state = np.matmul(query, widen(h[row, :, place])) * np.exp(decay)[..., None]
        sums = of_state + np.matmul(scores, widen(v[row, :, where]))
        round_into(out[0][row, :, where], sums * np.float32(scale))
