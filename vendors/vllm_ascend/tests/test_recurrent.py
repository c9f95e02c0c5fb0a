"""Causal convolutions and gates in float64, token by token."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import vllm_ascend_operators  # noqa: F401 - declares the operators

import ascend_aclnn as aclnn
from ascend_aclnn import ops

CHANNELS = 32


def golden(history, tokens, weight, bias, silu):
    """A token's sum over itself and those before it, the last tap for itself."""
    line = [*history.astype(np.float64), *tokens.astype(np.float64)]
    rows = []
    for position in range(len(history), len(line)):
        total = sum(line[position - k] * weight[len(weight) - 1 - k].astype(np.float64) for k in range(len(weight)))
        total = total + (0 if bias is None else bias.astype(np.float64))
        rows.append(total / (1 + np.exp(-total)) if silu else total)
    return np.array(rows)


def data(seed, dtype, width, lines=5, size=6):
    random = np.random.default_rng(seed)
    return [
        random.normal(size=shape).astype(dtype)
        for shape in ((7, CHANNELS), (width, CHANNELS), (CHANNELS,), (lines, size, CHANNELS))
    ]


@pytest.mark.parametrize("width", [2, 4])
@pytest.mark.parametrize("silu", [0, 1])
def test_whole_sequences(aclnn_backend, width, silu):
    """Four tokens after a state, one token after zeros, and two that are left out."""
    x, weight, bias, states = data(1, ml_dtypes.bfloat16, width)
    starts, lines = np.array([0, 4, 5, 7]), np.array([3, 0, -1], np.int32)
    tensor, history = aclnn.asarray(states), width - 1
    arguments = weight, bias, tensor, starts, lines, np.array([True, False, True]), None, silu, -1, 0
    y = np.asarray(ops.causal_conv1d(x, *arguments)[1]).astype(np.float64)
    expected = states.copy()
    before = states[3, :history], np.zeros((history, CHANNELS), x.dtype)
    for where, line, old in ((slice(0, 4), 3, before[0]), (slice(4, 5), 0, before[1])):
        assert np.allclose(y[where], golden(old, x[where], weight, bias, silu), rtol=2e-2, atol=2e-2)
        expected[line, :history] = np.concatenate([old, x[where]])[-history:]
    assert not y[5:].any() and (tensor.numpy() == expected).all()


def test_next_tokens(aclnn_backend):
    """A token of each sequence, whose states move on by one."""
    x, weight, _, states = data(2, np.float16, 4, lines=7)
    tensor = aclnn.asarray(states)
    y = np.asarray(ops.causal_conv1d(x, weight, None, tensor, None, None, None, None, 1, -1, 1)[1]).astype(np.float64)
    for token in range(7):
        assert np.allclose(y[token], golden(states[token, :3], x[token : token + 1], weight, None, 1)[0], atol=1e-2)
        after = np.concatenate([states[token, 1:3], x[token : token + 1]])
        assert (tensor.numpy()[token, :3] == after).all()


def test_next_tokens_of_which_some_were_accepted(aclnn_backend):
    """Three tokens each: the sequence goes on behind the accepted ones of the last call, and keeps all of this one."""
    x, weight, bias, states = data(3, np.float16, 4)
    x, accepted, tensor = x[:6].reshape(2, 3, CHANNELS), np.array([1, 3], np.int32), aclnn.asarray(states)
    arguments = weight, bias, tensor, None, np.array([4, 1], np.int32), None, accepted, 0, -1, 1
    y = np.asarray(ops.causal_conv1d(x, *arguments)[1]).astype(np.float64)
    expected = states.copy()
    for number, (line, first) in enumerate(((4, 0), (1, 2))):
        old = states[line, first : first + 3]
        assert np.allclose(y[number], golden(old, x[number], weight, bias, 0), rtol=1e-2, atol=1e-2)
        expected[line, :5] = np.concatenate([old[1:], x[number]])
    assert (tensor.numpy() == expected).all()


@pytest.mark.parametrize(
    ("change", "argument"), [({"mode": 2}, "run_mode"), ({"starts": None}, "query_start_loc"), ({"taps": 5}, "weight")]
)
def test_causal_conv1d_refuses(aclnn_backend, change, argument):
    of = {"mode": 0, "starts": np.array([0, 7]), "taps": 4, **change}
    x, weight, _, states = data(4, np.float16, of["taps"])
    with pytest.raises(aclnn.AclError) as refused:
        ops.causal_conv1d(x, weight, None, aclnn.asarray(states), of["starts"], None, None, None, 0, -1, of["mode"])
    assert (refused.value.status, refused.value.argument) == (561002, argument)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16], ids=str)
def test_fused_gdn_gating(aclnn_backend, dtype):
    random = np.random.default_rng(5)
    a, b = (random.normal(size=(5, 8), scale=20).astype(dtype) for _ in range(2))
    a_log, dt_bias = (random.normal(size=8).astype(np.float32) for _ in range(2))
    g, beta = ops.fused_gdn_gating(a_log, a, b, dt_bias, 1.0, 20.0)
    x = a.astype(np.float64) + dt_bias
    assert np.allclose(np.asarray(g)[0], -np.exp(a_log) * np.logaddexp(0, x), rtol=1e-4, atol=1e-6)
    gate = 1 / (1 + np.exp(-b.astype(np.float64)))
    assert beta.dtype == dtype and np.allclose(np.asarray(beta)[0].astype(np.float64), gate, rtol=1e-2, atol=1e-6)


def recurrent(q, k, v, beta, g, scale, state):
    """The gated delta rule in its first form, of one head, token by token."""
    outputs = []
    for query, key, value, rate, decay in zip(q, k, v, beta, g):
        state = state * np.exp(decay)
        state = state + np.outer(key, rate * (value - key @ state))
        outputs.append(query @ state * scale)
    return np.array(outputs), state


def chunked_inputs(k, v, beta, g, starts, size):
    """w, u and the running sums of g within chunks, of one head: what clients compute in front of both operators."""
    w, u, sums = np.zeros_like(k), np.zeros_like(v), np.zeros_like(g)
    for start, end in zip(starts, starts[1:]):
        for first in range(start, end, size):
            part = slice(first, min(first + size, end))
            total = np.cumsum(g[part])
            key, rate = k[part], beta[part][:, None]
            inner = np.tril(rate * key @ key.T * np.exp(total[:, None] - total), -1)
            inverse = np.linalg.inv(np.eye(len(key)) + inner)
            u[part], w[part] = inverse @ (rate * v[part]), inverse @ (rate * key * np.exp(total)[:, None])
            sums[part] = total
    return w, u, sums


@pytest.mark.parametrize("packed", [False, True])
def test_a_delta_rule_by_chunks_is_the_recurrence(aclnn_backend, packed):
    """Two heads of values for a head of keys; sequences of one and a half chunks, and of less than one, or a batch of two."""
    random, width, size, heads = np.random.default_rng(6), 16, 8, 2
    batch, tokens = (1, 17) if packed else (2, 12)
    starts = [0, 12, 17] if packed else [0, 12]
    q, k = (random.normal(size=(batch, 1, tokens, width)) for _ in range(2))
    k /= np.linalg.norm(k, axis=-1, keepdims=True)
    v, beta = random.normal(size=(batch, heads, tokens, width)), random.uniform(size=(batch, heads, tokens))
    g = -random.uniform(0, 0.3, size=(batch, heads, tokens))
    first = random.normal(size=(2, heads, width, width)).astype(np.float32)
    parts = [
        [chunked_inputs(k[b, 0], v[b, h], beta[b, h], g[b, h], starts, size) for h in range(heads)]
        for b in range(batch)
    ]
    w, u, sums = (np.array([[head[part] for head in row] for row in parts]) for part in range(3))
    half = [x.astype(np.float16) for x in (q, k, w, u)]
    sums = sums.astype(np.float32)
    sequences = starts if packed else None
    arguments = sums, None, first, True, size, True, sequences, None, False, False
    states, news, finals = ops.chunk_gated_delta_rule_fwd_h(*half[1:], *arguments)
    out = np.asarray(ops.chunk_fwd_o(half[0], half[1], news, states, sums, sequences, None, 0.25, size))
    spans = [(0, 0, 12), (0, 12, 17)] if packed else [(0, 0, 12), (1, 0, 12)]
    for number, (b, start, end) in enumerate(spans):
        part = slice(start, end)
        for h in range(heads):
            of_head = q[b, 0, part], k[b, 0, part], v[b, h, part], beta[b, h, part], g[b, h, part]
            golden, last = recurrent(*of_head, 0.25, first[number, h].astype(np.float64))
            assert np.abs(out[b, h, part] - golden).max() < 0.02 * np.abs(golden).max()
            assert np.abs(np.asarray(finals)[number, h] - last).max() < 0.02 * np.abs(last).max()
