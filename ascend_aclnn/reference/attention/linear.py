"""Linear attention: the gated delta rule, by steps and by chunks; states and sums are float32."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Optional

import numpy as np

from ascend_aclnn.numerics import Array, DataError
from ascend_aclnn.reference._named import NamedArguments, reference_by_name
from ascend_aclnn.reference._rows import check_range

# --------------------------------------------------------------------------------------------------- by steps


class _Steps(NamedTuple):
    """Tokens (tokens, heads of values, ...): what each step of the rule takes."""

    query: Array
    key: Array
    value: Array
    beta: Array
    decay: Array  # (tokens, heads, 1 or width of keys)

    @classmethod
    def of(cls, args: NamedArguments, scale: float) -> _Steps:
        value = args["value"].astype(np.float32)
        share = value.shape[1] // args["key"].shape[1]
        query, key = (np.repeat(args[name].astype(np.float32), share, 1) for name in ("query", "key"))
        decay = np.ones((*value.shape[:2], 1), np.float32)
        for name in ("g", "gk"):
            if args[name] is not None:
                exponent = args[name].astype(np.float32)
                decay = decay * np.exp(exponent if exponent.ndim == 3 else exponent[..., None])
        return cls(query * np.float32(scale), key, value, args["beta"].astype(np.float32), decay)

    def step(self, state: Array, token: int) -> tuple[Array, Array]:
        """S = a S + beta (v - a S k) k^T and S q, for all heads: (heads, width of values, width of keys)."""
        state = state * self.decay[token][:, None]
        key = self.key[token][:, None]
        missing = self.value[token] - (state * key).sum(-1)
        state = state + (self.beta[token][:, None] * missing)[..., None] * key
        return state, np.asarray((state * self.query[token][:, None]).sum(-1))


def _spans(lengths: Array, tokens: int) -> list[slice]:
    if (lengths < 0).any() or lengths.sum() > tokens:
        raise DataError("actualSeqLengths", f"is {lengths.tolist()}; there are {tokens} tokens")
    ends = np.cumsum(lengths)
    return [slice(int(end - n), int(end)) for end, n in zip(ends, lengths)]


@reference_by_name("aclnnChunkGatedDeltaRule")
def chunk_gated_delta_rule(args: NamedArguments) -> dict[str, Array]:
    """The rule for whole sequences: results of every token, and the last state of each sequence."""
    steps, states = _Steps.of(args, args["scaleValue"]), args["initialState"].astype(np.float32)
    out, final = np.zeros(args["value"].shape, np.float32), states.copy()
    for number, span in enumerate(_spans(args["actualSeqLengths"], len(out))):
        state = states[number]
        for token in range(span.start, span.stop):
            state, out[token] = steps.step(state, token)
        final[number] = state
    return {"out": out, "finalState": final}


@reference_by_name("aclnnRecurrentGatedDeltaRule")
def recurrent_gated_delta_rule(args: NamedArguments) -> dict[str, Array]:
    """The rule for a few tokens of each sequence; every token's state is stored where its index says.

    A sequence begins with the state of its first token, or with that of the last token that was accepted.
    """
    steps, states = _Steps.of(args, args["scaleValue"]), args["stateRef"].astype(np.float32)
    out, indices, accepted = (
        np.zeros(args["value"].shape, np.float32),
        args["ssmStateIndices"],
        args["numAcceptedTokens"],
    )
    check_range("ssmStateIndices", indices, 0, len(states))
    for number, span in enumerate(_spans(args["actualSeqLengths"], len(out))):
        if span.start == span.stop:
            continue
        first = 0
        if accepted is not None:
            check_range("numAcceptedTokens", accepted[number : number + 1], 1, span.stop - span.start + 1)
            first = int(accepted[number]) - 1
        state = states[indices[span.start + first]]
        for token in range(span.start, span.stop):
            state, out[token] = steps.step(state, token)
            states[indices[token]] = state
    return {"stateRef": states, "out": out}


_LONGEST = 8  # tokens of a sequence


@reference_by_name("aclnnRecurrentKda")
def recurrent_kda(args: NamedArguments) -> dict[str, Array]:
    """The delta rule with a gate for each element of a key, for a few tokens of each sequence.

    Without indices sequence i has state i. With them a sequence begins with the state of its first token, or with that of
    the last one that was accepted, and the state after each token is stored where its index says.
    """
    layout, value = args["layout"], args["value"]
    query, key, values, gate, beta = (
        args[name].astype(np.float32).reshape(-1, *args[name].shape[len(layout) - 2 :])
        for name in ("query", "key", "value", "gate", "beta")
    )
    if args["useQkL2normInKernel"]:
        query, key = (x / np.sqrt((x * x).sum(-1, keepdims=True) + np.float32(1e-6)) for x in (query, key))
    if args["useBetaSigmoidInKernel"]:
        beta = (2 if args["allowNegEigval"] else 1) / (1 + np.exp(-beta))
    share = values.shape[1] // key.shape[1]
    query, key = (np.repeat(x, share, 1) for x in (query, key))
    decay = np.exp(_activated(args, gate.swapaxes(0, 1)[None])[0].swapaxes(0, 1))
    steps = _Steps(query * np.float32(args["scale"]), key, values, beta, decay)
    states = args["initialStateRef"].astype(np.float32)
    states = states if args["stateVFirst"] else states.swapaxes(2, 3)
    before, states = states, states.copy()
    out = np.zeros(values.shape, np.float32)
    indices, accepted, ends = args["ssmStateIndices"], args["numAcceptedTokens"], args["cuSeqlens"]
    if indices is not None:
        check_range("ssmStateIndices", indices, 0, len(states))
    if ends is None:
        ends = np.arange(0, len(out) + 1, value.shape[1] if len(layout) == 4 else max(len(out), 1))
    lengths = np.diff(ends)
    if ends[0] != 0 or ends[-1] > len(out) or (lengths < 0).any() or (lengths > _LONGEST).any():
        raise DataError(
            "cuSeqlensOptional", f"is {ends.tolist()}; sequences of {len(out)} tokens have 0 to {_LONGEST} each"
        )
    for number, (start, end) in enumerate(zip(ends[:-1].tolist(), ends[1:].tolist())):
        if start == end:
            continue
        places = (
            np.full(end - start, number)
            if indices is None
            else (indices[start:end] if indices.ndim == 1 else indices[number, : end - start])
        )
        if len(places) < end - start:
            raise DataError(
                "ssmStateIndicesOptional", f"has {len(places)} steps; sequence {number} has {end - start} tokens"
            )
        first = 0
        if accepted is not None:
            check_range("numAcceptedTokens", accepted[number : number + 1], 1, end - start + 1)
            first = int(accepted[number]) - 1
        state = states[places[first]]
        for step, token in enumerate(range(start, end)):
            state, out[token] = steps.step(state, token)
            states[places[step]] = state
    results = [x if args["stateVFirst"] else x.swapaxes(2, 3) for x in (states, before)]
    return {
        "initialStateRef": results[0 if args["inplaceFinalState"] else 1],
        "attnOut": out.reshape(value.shape),
        "finalState": results[0] if args["outputFinalState"] else np.zeros_like(results[0]),
    }


# --------------------------------------------------------------------------------------------------- chunks with key gates


def _heads_first(x: Array, layout: str) -> Array:
    """(batch, heads, tokens, ...), whatever the layout."""
    x = x if layout[0] == "B" else x[None]
    return x if layout in ("BNSD", "NTD") else x.swapaxes(1, 2)


def _activated(args: NamedArguments, g: Array) -> Array:
    """The gate as a natural logarithm: (batch, heads, tokens, width)."""
    if not args["useGateInKernel"]:
        return g
    rate = np.exp(args["aLog"])[:, None, None]
    x = g if args["dtBias"] is None else g + args["dtBias"].reshape(g.shape[1], 1, -1)
    if args["safeGate"]:
        return np.asarray(np.float32(args["lowerBound"]) / (1 + np.exp(-rate * x)))
    return np.asarray(-rate * np.logaddexp(0, x))


class _Chunk(NamedTuple):
    """What one chunk of one sequence makes: (heads, tokens, ...), and the state after it."""

    gk: Array
    aqk: Array
    akk: Array
    w: Array
    u: Array
    qg: Array
    kg: Array
    v_new: Array
    attended: Array
    state: Array

    @classmethod
    def of(cls, q: Array, k: Array, v: Array, gate: Array, beta: Array, state: Array, scale: float) -> _Chunk:
        gk = np.cumsum(gate, 1) / np.float32(np.log(2))
        tokens = gk.shape[1]
        lower = np.tril(np.ones((tokens, tokens), bool))
        aqk, akk = (np.zeros((len(q), tokens, tokens), np.float32) for _ in range(2))
        for head in range(len(q)):
            # The exponent is at most 0 where it counts: no difference of two large powers.
            difference = np.where(lower[..., None], gk[head][:, None] - gk[head][None], -np.inf)
            decayed = np.exp2(difference) * k[head][None]
            aqk[head] = np.einsum("id,ijd->ij", q[head], decayed) * np.float32(scale)
            strict = np.tril(np.einsum("id,ijd->ij", k[head], decayed) * beta[head][:, None], -1)
            akk[head] = np.linalg.inv(np.eye(tokens) + strict)
        qg, last = q * np.exp2(gk), gk[:, -1:]
        kg = k * np.exp2(last - gk)
        w = akk @ (beta[..., None] * k * np.exp2(gk))
        u = akk @ (beta[..., None] * v)
        v_new = u - w @ state
        attended = np.float32(scale) * (qg @ state) + aqk @ v_new
        after = np.exp2(last).swapaxes(1, 2) * state + kg.swapaxes(1, 2) @ v_new
        return cls(gk, aqk, akk, w, u, qg, kg, v_new, attended, after)


def _pieces(ends: Optional[Sequence[int]], tokens: int, batch: int) -> list[tuple[int, int, int]]:
    """Batch, start and end of each sequence."""
    if ends is not None:
        return [(0, int(a), int(b)) for a, b in zip(ends, ends[1:])]
    return [(number, 0, tokens) for number in range(batch)]


@reference_by_name("aclnnChunkKdaFwd")
def chunk_kda_fwd(args: NamedArguments) -> dict[str, Array]:
    """The delta rule with a gate for each element of a key, chunk by chunk, and what its gradients need."""
    layout, size, transposed = args["layout"], args["chunkSize"], args["stateVFirst"]
    q, k, v, g, beta = (_heads_first(args[n].astype(np.float32), layout) for n in ("q", "k", "v", "g", "beta"))
    share = v.shape[1] // q.shape[1]
    q, k = np.repeat(q, share, 1), np.repeat(k, share, 1)
    gate = _activated(args, g)
    batch, heads, tokens, wide = v.shape
    width = q.shape[-1]
    pieces = _pieces(args["cuSeqlens"], tokens, batch)
    initial = args["initialState"]
    states = np.zeros((len(pieces), heads, width, wide), np.float32)
    if initial is not None:
        states[:] = initial.swapaxes(2, 3) if transposed else initial
    lasts = {"gk": width, "aqk": size, "akk": size, "w": width, "u": wide, "qg": width, "kg": width, "vNew": wide}
    saved = {name: np.zeros((batch, heads, tokens, last), np.float32) for name, last in lasts.items()}
    attended = np.zeros((batch, heads, tokens, wide), np.float32)
    history: list[list[Array]] = [[] for _ in range(batch)]
    for number, (row, start, end) in enumerate(pieces):
        for first in range(start, end, size):
            part = slice(first, min(first + size, end))
            history[row].append(states[number].copy())
            q_part, k_part, v_part, gate_part, beta_part = (x[row][:, part] for x in (q, k, v, gate, beta))
            chunk = _Chunk.of(q_part, k_part, v_part, gate_part, beta_part, states[number], args["scale"])
            for name in lasts:
                values = chunk.v_new if name == "vNew" else getattr(chunk, name)
                saved[name][row][:, part, : values.shape[-1]] = values
            attended[row][:, part], states[number] = chunk.attended, chunk.state
    before = np.stack([np.stack(h) if h else np.zeros((0, *states.shape[1:]), np.float32) for h in history])
    results = {f"{name}Out": x if layout[0] == "B" else x[0] for name, x in saved.items()}
    tokens_first = attended.swapaxes(1, 2)
    hidden = before if layout[0] == "B" else before[0]
    return results | {
        "attnOut": tokens_first if layout[0] == "B" else tokens_first[0],
        "finalStateOut": states.swapaxes(-1, -2) if transposed else states,
        "hOut": hidden.swapaxes(-1, -2) if transposed else hidden,
    }
