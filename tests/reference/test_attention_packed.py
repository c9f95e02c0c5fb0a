"""Packed flash attention, rotated parts and sinks, against each sequence written out in float64 and torch's gradients."""

from __future__ import annotations

from typing import Any, Optional

import numpy as np
import pytest
from attention_tools import call

from ascend_aclnn import ops

HEADS, KEY_HEADS, WIDTH, VALUE_WIDTH = 4, 2, 16, 8
ENDS, KEY_ENDS = (5, 5, 12), (7, 9, 17)  # the second sequence has no queries
SCALE = 0.3


def numbers(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(np.float32)


QUERY, KEY, VALUE = (
    numbers(ENDS[-1], HEADS, WIDTH),
    numbers(KEY_ENDS[-1], KEY_HEADS, WIDTH, seed=1),
    numbers(KEY_ENDS[-1], KEY_HEADS, VALUE_WIDTH, seed=2),
)
ATTRIBUTES: dict[str, Any] = {
    "actualSeqQLenOptional": ENDS,
    "actualSeqKvLenOptional": KEY_ENDS,
    "scaleValue": SCALE,
    "keepProb": 1.0,
    "preTokens": 2147483647,
    "nextTokens": 2147483647,
    "headNum": HEADS,
    "inputLayout": "TND",
    "innerPrecise": 0,
    "sparseMode": 0,
}


def parts() -> Any:
    for start, end, first, last in zip((0, *ENDS), ENDS, (0, *KEY_ENDS), KEY_ENDS):
        yield slice(start, end), slice(first, last)


def written_out(
    query: Any, key: Any, value: Any, causal: bool = False, sink: Optional[Any] = None, bias: Optional[Any] = None
) -> tuple[Any, Any, Any]:
    """Largest scores, sums of exponentials, results: row by row."""
    output = np.zeros((len(query), HEADS, value.shape[2]))
    most, total = np.zeros((len(query), HEADS)), np.zeros((len(query), HEADS))
    taken = 0
    for rows, columns in parts():
        for head in range(HEADS):
            shared = head * KEY_HEADS // HEADS
            scores = query[rows, head].astype(np.float64) @ key[columns, shared].T
            size = scores.size
            if bias is not None:
                scores = scores + bias[taken : taken + size].reshape(scores.shape)
            taken += size
            scores = scores * SCALE
            if causal:
                i, j = np.indices(scores.shape)
                scores[j > i + scores.shape[1] - scores.shape[0]] = -np.inf
            for number, row in zip(range(rows.start, rows.stop), scores):
                extra = [] if sink is None else [sink[head]]
                most[number, head] = max([*row, *extra])
                chances = np.exp(row - most[number, head])
                total[number, head] = chances.sum() + sum(np.exp(e - most[number, head]) for e in extra)
                output[number, head] = chances @ value[columns, shared] / total[number, head]
    return most, total, output


def check(found: dict[str, Any], expected: tuple[Any, Any, Any]) -> None:
    np.testing.assert_allclose(found["softmaxMaxOut"][..., 0], expected[0], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(found["softmaxSumOut"][..., 7], expected[1], rtol=1e-5)
    np.testing.assert_allclose(found["attentionOutOut"], expected[2], rtol=1e-4, atol=1e-5)


def test_each_sequence_attends_to_itself() -> None:
    actual = call("aclnnFlashAttentionVarLenScore", query=QUERY, key=KEY, value=VALUE, **ATTRIBUTES)
    check(actual, written_out(QUERY, KEY, VALUE))
    causal = {**ATTRIBUTES, "sparseMode": 3, "attenMaskOptional": np.ones((2048, 2048), bool)}
    actual = call("aclnnFlashAttentionVarLenScoreV4", query=QUERY, key=KEY, value=VALUE, **causal)
    check(actual, written_out(QUERY, KEY, VALUE, causal=True))


def test_bias_of_all_sequences_in_one_row() -> None:
    size = HEADS * sum((r.stop - r.start) * (c.stop - c.start) for r, c in parts())
    bias = numbers(size, seed=3)
    actual = call(
        "aclnnFlashAttentionVarLenScore", query=QUERY, key=KEY, value=VALUE, realShiftOptional=bias, **ATTRIBUTES
    )
    check(actual, written_out(QUERY, KEY, VALUE, bias=bias))


def test_rotated_parts_and_sinks() -> None:
    parts_of_heads = {
        "queryRope": numbers(ENDS[-1], HEADS, 6, seed=4),
        "keyRope": numbers(KEY_ENDS[-1], KEY_HEADS, 6, seed=5),
    }
    sink = numbers(HEADS, seed=6)
    arguments = {**ATTRIBUTES, **parts_of_heads, "sinkOptional": sink, "pseType": 1}
    actual = call("aclnnFlashAttentionVarLenScoreV5", query=QUERY, key=KEY, value=VALUE, **arguments)
    query = np.concatenate([QUERY, parts_of_heads["queryRope"]], -1)
    key = np.concatenate([KEY, parts_of_heads["keyRope"]], -1)
    check(actual, written_out(query, key, VALUE, sink=sink))


def test_dropout_takes_the_bits_one_after_the_other() -> None:
    count = HEADS * sum((r.stop - r.start) * (c.stop - c.start) for r, c in parts())
    bits = np.random.default_rng(7).integers(0, 2, count)
    mask = np.packbits(bits.astype(np.uint8), bitorder="little")
    arguments = {**ATTRIBUTES, "keepProb": 0.5, "dropMaskOptional": mask}
    value = np.ones_like(VALUE)  # the result is then the sum of the kept chances
    actual = call("aclnnFlashAttentionVarLenScore", query=np.zeros_like(QUERY), key=KEY, value=value, **arguments)
    taken = 0
    for rows, columns in parts():
        shape = (HEADS, rows.stop - rows.start, columns.stop - columns.start)
        size = int(np.prod(shape))
        share = bits[taken : taken + size].reshape(shape).mean(-1) * 2 if size else np.zeros(shape[:2])
        np.testing.assert_allclose(actual["attentionOutOut"][rows, :, 0], share.T, rtol=1e-5, atol=1e-6)
        taken += size


def test_gradients() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed: gradients of packed attention are not checked")
    sink, rope, key_rope = (
        numbers(HEADS, seed=6),
        numbers(ENDS[-1], HEADS, 6, seed=4),
        numbers(KEY_ENDS[-1], KEY_HEADS, 6),
    )
    grad = numbers(ENDS[-1], HEADS, VALUE_WIDTH, seed=8)
    arguments = {**ATTRIBUTES, "queryRope": rope, "pseType": 1}
    forward = call(
        "aclnnFlashAttentionVarLenScoreV5",
        query=QUERY,
        key=KEY,
        value=VALUE,
        keyRope=key_rope,
        sinkOptional=sink,
        **arguments,
    )
    actual = call(
        "aclnnFlashAttentionUnpaddingScoreGradV5",
        query=QUERY,
        keyIn=KEY,
        keyInRope=key_rope,
        value=VALUE,
        dy=grad,
        sinkInOptional=sink,
        softmaxMaxOptional=forward["softmaxMaxOut"],
        softmaxSumOptional=forward["softmaxSumOut"],
        attentionInOptional=forward["attentionOutOut"],
        **arguments,
    )
    leaves = [
        torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in (QUERY, rope, KEY, key_rope, VALUE, sink)
    ]
    query, key = torch.cat(leaves[:2], -1), torch.cat(leaves[2:4], -1)
    made = torch.zeros(ENDS[-1], HEADS, VALUE_WIDTH, dtype=torch.float64)
    for rows, columns in parts():
        share = HEADS // KEY_HEADS
        keys, values = (x[columns].repeat_interleave(share, 1) for x in (key, leaves[4]))
        scores = torch.einsum("qhd,khd->hqk", query[rows], keys) * SCALE
        extra = leaves[5][:, None, None].expand(HEADS, scores.shape[1], 1)
        chances = torch.cat([scores, extra], -1).softmax(-1)[..., :-1]
        made[rows] = torch.einsum("hqk,khd->qhd", chances, values)
    made.backward(torch.tensor(grad, dtype=torch.float64))
    names = ("dqOut", "dqRopeOut", "dkOut", "dkRopeOut", "dvOut", "dsinkOut")
    for name, leaf in zip(names, leaves):
        np.testing.assert_allclose(actual[name], leaf.grad.numpy(), rtol=1e-4, atol=1e-4, err_msg=name)


def test_gradients_take_the_output_of_all_keys() -> None:
    """Context parallelism: the output may come from keys that the call does not have; the kernel sums dy * attentionIn."""
    grad, output = numbers(ENDS[-1], HEADS, VALUE_WIDTH, seed=8), numbers(ENDS[-1], HEADS, VALUE_WIDTH, seed=9)
    most, total, _ = written_out(QUERY, KEY, VALUE)
    most, total = most + 1, total * 3
    actual = call(
        "aclnnFlashAttentionUnpaddingScoreGrad",
        query=QUERY,
        keyIn=KEY,
        value=VALUE,
        dy=grad,
        softmaxMaxOptional=np.repeat(most[..., None], 8, -1).astype(np.float32),
        softmaxSumOptional=np.repeat(total[..., None], 8, -1).astype(np.float32),
        attentionInOptional=output,
        **ATTRIBUTES,
    )
    dq, dk, dv = (np.zeros(x.shape) for x in (QUERY, KEY, VALUE))
    for rows, columns in parts():
        for head in range(HEADS):
            shared = head * KEY_HEADS // HEADS
            q, k, v = (np.float64(x) for x in (QUERY[rows, head], KEY[columns, shared], VALUE[columns, shared]))
            dy, o = np.float64(grad[rows, head]), np.float64(output[rows, head])
            chances = np.exp(q @ k.T * SCALE - most[rows, head, None]) / total[rows, head, None]
            slope = chances * (dy @ v.T - (dy * o).sum(-1, keepdims=True)) * SCALE
            dq[rows, head] = slope @ k
            dk[columns, shared] += slope.T @ q
            dv[columns, shared] += chances.T @ dy
    for name, wanted in (("dqOut", dq), ("dkOut", dk), ("dvOut", dv)):
        np.testing.assert_allclose(actual[name], wanted, rtol=1e-4, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("layout", ["BSH", "SBH", "BSND", "BNSD"])
def test_sinks_of_sequences_of_one_length(layout: str) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed: sinks are not checked")
    batch, length, keys = 2, 3, 5
    sink = numbers(HEADS, seed=6)
    heads_first = [
        numbers(batch, HEADS, length, 8),
        numbers(batch, HEADS, keys, 8, seed=1),
        numbers(batch, HEADS, keys, 8, seed=2),
    ]
    grad = numbers(batch, HEADS, length, 8, seed=3)

    def lay_out(x: Any) -> Any:
        rows = x.transpose(0, 2, 1, 3)
        flat = rows.reshape(*rows.shape[:2], -1)
        return {"BNSD": x, "BSND": rows, "BSH": flat, "SBH": flat.swapaxes(0, 1)}[layout]

    query, key, value = map(lay_out, heads_first)
    attributes = {**ATTRIBUTES, "inputLayout": layout, "pseType": 1}
    del attributes["actualSeqQLenOptional"], attributes["actualSeqKvLenOptional"]
    actual = call("aclnnFlashAttentionScoreV3", query=query, key=key, value=value, sinkOptional=sink, **attributes)
    leaves = [torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in (*heads_first, sink)]
    scores = leaves[0] @ leaves[1].swapaxes(2, 3) * SCALE
    extra = leaves[3][None, :, None, None].expand(batch, HEADS, length, 1)
    made = torch.cat([scores, extra], -1).softmax(-1)[..., :-1] @ leaves[2]
    np.testing.assert_allclose(actual["attentionOutOut"], lay_out(made.detach().numpy()), rtol=1e-4, atol=1e-5)
    made.backward(torch.tensor(grad, dtype=torch.float64))
    back = call(
        "aclnnFlashAttentionScoreGradV3",
        query=query,
        keyIn=key,
        value=value,
        dy=lay_out(grad),
        sinkInOptional=sink,
        softmaxMaxOptional=actual["softmaxMaxOut"],
        softmaxSumOptional=actual["softmaxSumOut"],
        attentionInOptional=actual["attentionOutOut"],
        **attributes,
    )
    for name, leaf in zip(("dqOut", "dkOut", "dvOut"), leaves):
        np.testing.assert_allclose(back[name], lay_out(leaf.grad.numpy()), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(back["dsinkOut"], leaves[3].grad.numpy(), rtol=1e-4, atol=1e-4)


def test_the_public_path() -> None:
    query, key, value = half = [x.astype(np.float16) for x in (QUERY, KEY, VALUE)]
    most, total, _, output = ops.flash_attention_var_len_score(
        query,
        key,
        value,
        actual_seq_q_len=ENDS,
        actual_seq_kv_len=KEY_ENDS,
        scale_value=SCALE,
        head_num=HEADS,
        input_layout="TND",
        keep_prob=1.0,
        pre_tokens=99,
        next_tokens=99,
        sparse_mode=0,
    )
    expected = written_out(*(x.astype(np.float32) for x in half))
    np.testing.assert_allclose(np.asarray(output, np.float64), expected[2], rtol=2e-3, atol=2e-3)
    assert np.asarray(most).dtype == np.asarray(total).dtype == np.float32
