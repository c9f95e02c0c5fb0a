"""The gated delta rule, step by step in float64; causal convolutions, token by token."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from attention_tools import BF16, close, numbers, wide

import ascend_aclnn as aclnn
from ascend_aclnn import AclError, ops

RNG = np.random.default_rng(16)
F32 = np.float32


def i32(*values: int) -> Any:
    return np.array(values, np.int32)


def unit(*shape: int) -> Any:
    x = RNG.standard_normal(shape)
    return (x / np.linalg.norm(x, axis=-1, keepdims=True)).astype(F32).astype(BF16)


def rule_step(state: Any, q: Any, k: Any, v: Any, beta: float, decay: Any) -> tuple[Any, Any]:
    """The document's formula with its matrices."""
    identity = np.eye(len(k))
    state = (state * decay) @ (identity - beta * np.outer(k, k)) + beta * np.outer(v, k)
    return state, state @ q


@pytest.mark.parametrize("gated", [False, True])
def test_chunk_gated_delta_rule(gated: bool) -> None:
    lengths, nk, nv, dk, dv, scale = [5, 3], 2, 4, 16, 8, 0.25
    q, k, v, beta = (
        unit(8, nk, dk),
        unit(8, nk, dk),
        numbers(RNG, 8, nv, dv),
        RNG.random((8, nv)).astype(F32).astype(BF16),
    )
    g = -RNG.random((8, nv)).astype(F32) if gated else None
    initial = numbers(RNG, 2, nv, dv, dk, dtype=F32)
    out, final = ops.chunk_gated_delta_rule(q, k, v, beta, initial, i32(*lengths), g, scale)
    for head in range(nv):
        token = 0
        for number, length in enumerate(lengths):
            state = wide(initial[number, head])
            for _ in range(length):
                decay = np.exp(wide(g[token, head])) if gated else 1.0
                rows = wide(q[token, head // 2]) * scale, wide(k[token, head // 2]), wide(v[token, head])
                state, wanted = rule_step(state, *rows, float(wide(beta[token, head])), decay)
                close(out[token, head], wanted)
                token += 1
            np.testing.assert_allclose(final[number, head], state, rtol=1e-3, atol=1e-5)


def test_recurrent_gated_delta_rule() -> None:
    lengths, nk, nv, dk, dv, scale = [2, 3], 1, 2, 16, 8, 0.5
    q, k, v, beta = (
        unit(5, nk, dk),
        unit(5, nk, dk),
        numbers(RNG, 5, nv, dv),
        RNG.random((5, nv)).astype(F32).astype(BF16),
    )
    g, gk = -RNG.random((5, nv)).astype(F32), -RNG.random((5, nv, dk)).astype(F32)
    states, indices = numbers(RNG, 9, nv, dv, dk, dtype=F32), i32(3, 0, 7, 2, 5)
    before, accepted = states.copy(), i32(2, 1)
    got, out = ops.recurrent_gated_delta_rule(q, k, v, beta, states, i32(*lengths), indices, g, gk, accepted, scale)
    assert got is states
    token = 0
    for number, length in enumerate(lengths):
        for head in range(nv):
            state = wide(before[indices[token + accepted[number] - 1], head])
            for i in range(token, token + length):
                decay = np.exp(wide(g[i, head])) * np.exp(wide(gk[i, head]))
                rows = wide(q[i, 0]) * scale, wide(k[i, 0]), wide(v[i, head])
                state, wanted = rule_step(state, *rows, float(wide(beta[i, head])), decay)
                close(out[i, head], wanted)
                np.testing.assert_allclose(states[indices[i], head], state, rtol=1e-3, atol=1e-5)
        token += length
    np.testing.assert_array_equal(states[[1, 4, 6, 8]], before[[1, 4, 6, 8]])


@pytest.mark.parametrize("layout", ["BSND", "BNSD", "TND", "NTD"])
@pytest.mark.parametrize("gate", ["given", "softplus", "bounded"])
def test_chunk_kda(layout: str, gate: str) -> None:
    tokens, heads, more, width, wide_v, scale = 70, 1, 2, 16, 32, 0.25
    ends = [0, 40, 70] if layout in ("TND", "NTD") else None
    batch = 1 if ends else 2
    q, k = unit(batch, tokens, heads, width), unit(batch, tokens, heads, width)
    v, beta = numbers(RNG, batch, tokens, more, wide_v), RNG.random((batch, tokens, more)).astype(F32)
    g = numbers(RNG, batch, tokens, more, width, dtype=F32)
    g = -np.abs(g) / 4 if gate == "given" else g
    a_log, bias = numbers(RNG, more, dtype=F32) / 4, numbers(RNG, more * width, dtype=F32)
    sequences = [(0, 0, 40), (0, 40, 70)] if ends else [(0, 0, 70), (1, 0, 70)]
    initial = numbers(RNG, len(sequences), more, wide_v, width, dtype=F32)

    def lay(x: Any) -> Any:
        x = x if layout in ("BSND", "TND") else x.swapaxes(1, 2)
        return np.ascontiguousarray(x if layout[0] == "B" else x[0])

    shape = (more, 128, width) if layout[0] == "B" else None
    actual = ops.chunk_kda_fwd(
        *(lay(x) for x in (q, k, v, g, beta)), a_log if gate != "given" else None, bias if gate != "given" else None,
        initial, ends, None, layout, scale, 64, gate == "bounded", -2.0, gate != "given", True,
    )  # fmt: skip
    assert shape is None or actual[0].shape == (batch, tokens, more, wide_v)
    out, final = (actual[0] if layout[0] == "B" else actual[0][None]), actual[1]
    for number, (row, start, end) in enumerate(sequences):
        for head in range(more):
            state = wide(initial[number, head])
            for t in range(start, end):
                x = wide(g[row, t, head])
                if gate != "given":
                    x = x + wide(bias).reshape(more, width)[head]
                    rate = np.exp(wide(a_log[head]))
                    x = -2.0 / (1 + np.exp(-rate * x)) if gate == "bounded" else -rate * np.log1p(np.exp(x))
                rows = wide(q[row, t, 0]) * scale, wide(k[row, t, 0]), wide(v[row, t, head])
                state, wanted = rule_step(state, *rows, float(beta[row, t, head]), np.exp(x))
                close(out[row, t, head], wanted, 2.0**-7)
            np.testing.assert_allclose(final[number, head], state, rtol=1e-2, atol=1e-3)
    square = actual[3] if layout[0] == "B" else actual[3][None]
    np.testing.assert_allclose(
        wide(square[0, 0, 0, 0]), wide(q[0, 0, 0]) @ wide(k[0, 0, 0]) * scale, rtol=0.02, atol=1e-3
    )


# --------------------------------------------------------------------------------------------------- convolutions


@pytest.mark.parametrize("masked", [False, True])
def test_masked_convolution_and_its_gradients(masked: bool) -> None:
    tokens, batch, channels = 5, 2, 384
    x, weight, grad = (
        numbers(RNG, tokens, batch, channels),
        numbers(RNG, 3, channels),
        numbers(RNG, tokens, batch, channels),
    )
    mask = RNG.random((batch, tokens)) < 0.6 if masked else None
    with aclnn.use_backend("numpy", soc="Ascend950PR_9599"):
        out = ops.masked_causal_conv1d(x, weight, mask)
        dx, dweight = ops.masked_causal_conv1d_backward(grad, x, weight, mask)
    want, want_dx, want_dw = np.zeros(x.shape), np.zeros(x.shape), np.zeros(weight.shape)
    for i in range(tokens):
        for j in range(batch):
            if masked and not mask[j, i]:
                continue
            for k in range(3):
                if i - k >= 0:
                    want[i, j] += wide(x[i - k, j]) * wide(weight[2 - k])
                    want_dx[i - k, j] += wide(grad[i, j]) * wide(weight[2 - k])
                    want_dw[2 - k] += wide(grad[i, j]) * wide(x[i - k, j])
    for found, wanted in ((out, want), (dx, want_dx), (dweight, want_dw)):
        close(found, wanted)


def convolution(history: Any, x: Any, weight: Any) -> Any:
    """Each token with those before it."""
    before = [wide(h) for h in history] + [wide(row) for row in x]
    taps, many = len(weight), len(history)
    return [sum(before[many + t - taps + 1 + k] * wide(weight[k]) for k in range(taps)) for t in range(len(x))]


@pytest.mark.parametrize("inplace", [False, True])
def test_fused_convolution(inplace: bool) -> None:
    channels, starts = 64, [0, 3, 4, 9]
    x, weight, states = numbers(RNG, 9, channels), numbers(RNG, 3, channels), numbers(RNG, 6, 5, channels)
    before, given = states.copy(), x.copy()
    indices, accepted, computed = i32(4, 0, 2), i32(2, 1, 1), i32(7, 0, 20)
    arguments = (weight, states, i32(*starts), indices, None, None, accepted, computed)
    options: dict[str, Any] = {
        "activation_mode": 0,
        "conv_mode": 0,
        "run_mode": 0,
        "pad_slot_id": -1,
        "max_query_len": 5,
        "residual_connection": 1,
        "block_size": 128,
    }
    with aclnn.use_backend("numpy", soc="Ascend950PR_9599"):
        if inplace:
            y, got = ops.inplace_fused_causal_conv1d(x, *arguments, **options)
            assert y is x
        else:
            got, y = ops.fused_causal_conv1d(x, *arguments, **options)
    assert got is states
    for number, line in enumerate(indices):
        own = given[starts[number] : starts[number + 1]]
        fresh = computed[number] == 0
        offset = 0 if fresh else accepted[number] - 1
        cached = np.zeros((2, channels), BF16) if fresh else before[line, : offset + 2]
        for t, wanted in enumerate(convolution(cached[-2:], own, weight)):
            close(y[starts[number] + t], wanted + wide(own[t]))
        together = np.concatenate([cached, own])[-5:]
        np.testing.assert_array_equal(states[line, 5 - len(together) :], together)
        np.testing.assert_array_equal(states[line, : 5 - len(together)], before[line, : 5 - len(together)])
    np.testing.assert_array_equal(states[[1, 3, 5]], before[[1, 3, 5]])


def test_fused_convolution_fills_the_blocks_of_a_prefix_cache() -> None:
    channels, size, computed = 64, 4, 6
    whole, weight = numbers(RNG, computed + 9, channels), numbers(RNG, 3, channels)
    x, states = whole[computed:], np.zeros((8, 2, channels), BF16)
    blocks = np.array([[3, 7, 1, 5]], np.int32)  # of tokens 0 to 3, 4 to 7, 8 to 11, 12 to 15
    states[7] = whole[computed - 2 : computed]
    with aclnn.use_backend("numpy", soc="Ascend950PR_9599"):
        _, y = ops.fused_causal_conv1d(
            np.ascontiguousarray(x), weight, states, i32(0, 9), blocks, None, None, None, i32(computed), i32(1), i32(3),
            i32(1), 0, -1, 0, 9, 0, size, 0,
        )  # fmt: skip
    for t, wanted in enumerate(convolution(whole[computed - 2 : computed], x, weight)):
        close(y[t], wanted)
    for block, line in ((1, 7), (2, 1)):  # complete now: their last two tokens
        end = (block + 1) * size
        np.testing.assert_array_equal(states[line], whole[end - 2 : end])
    np.testing.assert_array_equal(states[5], whole[-2:])
    assert not states[3].any()


@pytest.mark.parametrize("packed", [False, True])
def test_mamba_prefill(packed: bool) -> None:
    channels, taps, lines = 64, 4, [2, -1, 0]
    lengths = [5, 2, 1] if packed else [4, 4, 4]
    rows = [numbers(RNG, n, channels) for n in lengths]
    x = np.concatenate(rows) if packed else np.stack(rows)
    weight, bias, states = numbers(RNG, taps, channels), numbers(RNG, channels), numbers(RNG, 3, 3, channels)
    before, mode = states.copy(), i32(1, 1, 0)
    starts = i32(0, *np.cumsum(lengths)) if packed else None
    with aclnn.use_backend("numpy", soc="Ascend950PR_9599"):
        _, y = ops.causal_conv1d_fn(
            x,
            weight,
            states,
            bias,
            starts,
            i32(*lines),
            mode,
            activation="silu",
            null_block_id=-1,
            block_size_to_align=0,
        )
    for number, line in enumerate(lines):
        found = y[sum(lengths[:number]) : sum(lengths[: number + 1])] if packed else y[number]
        if line < 0:
            assert not found.any()
            continue
        history = before[line] if mode[number] else np.zeros((3, channels), BF16)
        for t, wanted in enumerate(convolution(history, rows[number], weight)):
            wanted = wanted + wide(bias)
            close(found[t], wanted / (1 + np.exp(-wanted)))
        np.testing.assert_array_equal(states[line], np.concatenate([history, rows[number]])[-3:])
    np.testing.assert_array_equal(states[1], before[1])


@pytest.mark.parametrize("speculative", [False, True])
def test_mamba_update(speculative: bool) -> None:
    channels, taps, size = 64, 4, 6
    lengths = [2, 3] if speculative else [1, 1]
    rows = [numbers(RNG, n, channels) for n in lengths]
    x = np.concatenate(rows) if speculative else np.stack(rows)
    weight, states = numbers(RNG, taps, channels), numbers(RNG, 2, size, channels)
    before, accepted = states.copy(), i32(3, 1) if speculative else None
    starts = i32(0, 2, 5) if speculative else None
    with aclnn.use_backend("numpy", soc="Ascend950PR_9599"):
        _, y = ops.causal_conv1d_update(
            x, weight, states, None, starts, i32(1, 0), accepted, activation="none", null_block_id=-1, max_query_len=3
        )
    for number, line in enumerate((1, 0)):
        offset = accepted[number] - 1 if speculative else 0
        history = before[line, offset : offset + 3]
        found = y[sum(lengths[:number]) : sum(lengths[: number + 1])] if speculative else y[number]
        for t, wanted in enumerate(convolution(history, rows[number], weight)):
            close(found[t], wanted)
        together = np.concatenate([history[1:], rows[number]])
        np.testing.assert_array_equal(states[line, : len(together)], together)


def test_states_that_are_not_there() -> None:
    q, v, beta = unit(1, 1, 16), numbers(RNG, 1, 1, 8), np.ones((1, 1), BF16)
    with pytest.raises(AclError, match=r"ssm_state_indices element \[0\] is 4; allowed: 0 to 1"):
        ops.recurrent_gated_delta_rule(q, q, v, beta, np.zeros((2, 1, 8, 16), F32), i32(1), i32(4), scale_value=1.0)


@pytest.mark.parametrize("layout", ["BSND", "TND"])
@pytest.mark.parametrize("kernel", [False, True])
def test_recurrent_kda(layout: str, kernel: bool) -> None:
    """The document's formula; ``kernel``: gates, beta and lengths of vectors are worked out by the operator."""
    tokens, nk, nv, dk, dv = 3, 1, 2, 128, 128
    lead = (2, tokens) if layout == "BSND" else (2 * tokens,)
    q, k, v = (numbers(RNG, *lead, n, d) for n, d in ((nk, dk), (nk, dk), (nv, dv)))
    gate = (-RNG.random((*lead, nv, dk))).astype(F32)
    beta = RNG.random((*lead, nv)).astype(F32)
    states = RNG.normal(size=(2, nv, dk, dv)).astype(F32)
    a_log, bias = RNG.normal(size=nv).astype(F32), RNG.normal(size=(nv, dk)).astype(F32)
    ends = None if layout == "BSND" else i32(0, tokens, 2 * tokens)
    changed = states.copy()
    out, final = ops.recurrent_kda(
        q, k, v, gate, beta, changed, ends, None, a_log if kernel else None, bias if kernel else None, None,
        layout, 0.5, True, True, kernel, kernel, kernel, kernel, kernel, -2.0, False,
    )[1:]  # fmt: skip
    np.testing.assert_array_equal(changed, final)
    flat = [wide(x).reshape(2, tokens, *x.shape[len(lead) :]) for x in (q, k, v, gate, beta)]
    for b in range(2):
        for head in range(nv):
            state = wide(states[b, head]).T
            for t in range(tokens):
                query, key, value, g, b_t = (
                    flat[0][b, t, 0],
                    flat[1][b, t, 0],
                    flat[2][b, t, head],
                    *(x[b, t, head] for x in flat[3:]),
                )
                if kernel:
                    query, key = (x / np.linalg.norm(x) for x in (query, key))
                    g = -2 / (1 + np.exp(-np.exp(a_log[head]) * (g + bias[head])))
                    b_t = 2 / (1 + np.exp(-b_t))
                state, wanted = rule_step(state, query * 0.5, key, value, b_t, np.exp(g))
                close(out.reshape(2, tokens, nv, dv)[b, t, head], wanted)
            np.testing.assert_allclose(final[b, head], state.T, rtol=1e-3, atol=1e-3)


def test_states_of_recurrent_kda_by_index() -> None:
    """A sequence goes on with the state of its last accepted token; every token's state is stored."""
    q, k, v = numbers(RNG, 3, 1, 128), numbers(RNG, 3, 1, 128), numbers(RNG, 3, 1, 128)
    gate, beta = np.zeros((3, 1, 128), F32), np.ones((3, 1), F32)
    pool = RNG.normal(size=(5, 1, 128, 128)).astype(F32)
    options = (None, None, "TND", 1.0, True, False, False, False, False, False, False, -1.0, True)
    places = i32(4, 2, 0)
    _, out, final = ops.recurrent_kda(
        q, k, v, gate, beta, pool.copy(), i32(0, 3), places, *options[:2], i32(2), *options[2:]
    )
    state = wide(pool[2, 0])
    for t, place in enumerate(places):
        state, wanted = rule_step(state, wide(q[t, 0]), wide(k[t, 0]), wide(v[t, 0]), 1.0, 1.0)
        close(out[t, 0], wanted)
        np.testing.assert_allclose(final[place, 0], state, rtol=1e-3, atol=1e-3)
    np.testing.assert_array_equal(final[[1, 3]], pool[[1, 3]])
    with pytest.raises(AclError, match="a_log"):
        ops.recurrent_kda(q, k, v, gate, beta, pool, i32(0, 3), places, None, None, None, "TND", 1.0, *[True] * 3, True,
                          *[False] * 3, -1.0, True)  # fmt: skip
    with pytest.raises(AclError, match="cu_seqlens"):
        ops.recurrent_kda(q, k, v, gate, beta, pool, i32(1, 3), places, *options[:2], None, *options[2:])
