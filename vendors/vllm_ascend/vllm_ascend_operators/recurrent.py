"""Convolutions and gates in front of gated delta rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional

import numpy as np

import ascend_aclnn as aclnn
from ascend_aclnn.numerics import Array, DataError, round_into, widen
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
