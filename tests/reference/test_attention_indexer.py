"""Lightning indexers against their formula, query by query in float64."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from attention_tools import close, numbers, wide

from ascend_aclnn import AclError, ops

RNG = np.random.default_rng(12)
F32, F16 = np.float32, np.float16


def score(query: Any, key: Any, weights: Any) -> float:
    """One query's heads and one key."""
    return sum(float(w) * max(0.0, float(wide(head) @ wide(key))) for head, w in zip(query, wide(weights)))


def check_choice(indices: Any, values: Any, scores: list[float], offset: int = 0) -> None:
    """The best, in descending order; after them -1 and -inf."""
    best = sorted(scores, reverse=True)[: len(indices)]
    assert list(indices[len(best) :]) == [-1] * (len(indices) - len(best))
    chosen = [scores[i - offset] for i in indices[: len(best)]]
    np.testing.assert_allclose(chosen, best, rtol=1e-5)
    assert len(set(indices[: len(best)])) == len(best)
    if values is not None:
        np.testing.assert_allclose(wide(values[: len(best)]), best, rtol=2.0**-8)
        assert np.isneginf(wide(values[len(best) :])).all()


@pytest.mark.parametrize("layout", ["BSND", "TND", "PA_BSND"])
def test_lightning_indexer(layout: str) -> None:
    heads, width, count, lengths, key_lengths = 8, 128, 8, [3, 2], [12, 5]
    q, w = numbers(RNG, 2, 3, heads, width), numbers(RNG, 2, 3, heads)
    k = numbers(RNG, 2, 12, 1, width)
    table = None
    if layout == "TND":
        flat = [np.concatenate([x[b, :n] for b, n in enumerate(many)]) for x, many in ((q, lengths), (w, lengths))]
        keys, query_ends, key_ends = np.concatenate([k[0], k[1, :5]]), [3, 5], [12, 17]
        arguments: Any = (flat[0], keys, flat[1], np.array(query_ends, np.int32), np.array(key_ends, np.int32))
    else:
        keys, used = k, (np.array(lengths, np.int32), np.array(key_lengths, np.int32))
        if layout == "PA_BSND":
            table = np.array([[2], [0]], np.int32)
            keys = np.zeros((3, 16, 1, width), k.dtype)
            keys[2, :12], keys[0, :5] = k[0], k[1, :5]
        arguments = (q, keys, w, *used)
    out, values = ops.lightning_indexer(
        *arguments,
        table,
        "TND" if layout == "TND" else "BSND",
        layout,
        count,
        3,
        2**63 - 1,
        2**63 - 1,
        layout != "PA_BSND",
    )
    for b in range(2):
        for i in range(lengths[b]):
            row = (sum(lengths[:b]) + i,) if layout == "TND" else (b, i)
            seen = key_lengths[b] - lengths[b] + i + 1
            scores = [score(q[b, i], k[b, j, 0], w[b, i]) for j in range(seen)]
            check_choice(out[row][0], None if values is None else values[row][0], scores)
    if layout != "TND":
        assert (out[1, 2] == -1).all()


@pytest.mark.parametrize("ratio", [1, 4])
def test_lightning_indexer_v2_with_compressed_keys(ratio: int) -> None:
    q, w, k = numbers(RNG, 1, 6, 8, 128), numbers(RNG, 1, 6, 8, dtype=F32), numbers(RNG, 1, 5, 1, 128)
    residual = 2 if ratio == 4 else 0
    out, values = ops.lightning_indexer_v2(
        q,
        k,
        w,
        cmp_residual_k=np.array([residual], np.int32) if residual else None,
        output_idx_offset=np.array([100], np.int32),
        topk=4,
        mask_mode=3,
        cmp_ratio=ratio,
        return_value=1,
    )
    tokens = 5 * ratio + residual
    for i in range(6):
        position = tokens - 6 + i
        seen = [j for j in range(5) if (j + 1) * ratio - 1 <= position]  # whose last token is there
        check_choice(out[0, i, 0], values[0, i, 0], [score(q[0, i], k[0, j, 0], w[0, i]) for j in seen], 100)


def test_quantised_indexers() -> None:
    q, k = (RNG.integers(-127, 128, s).astype(np.int8) for s in ((1, 2, 8, 128), (3, 16, 1, 128)))
    w, sq, sk = (np.abs(numbers(RNG, *s, dtype=F16)) for s in ((1, 2, 8), (1, 2, 8), (3, 16, 1)))
    table, used = np.array([[2, 1]], np.int32), np.array([20], np.int32)
    out = ops.quant_lightning_indexer(
        q, k, w, sq, sk, None, used, table, 0, 0, "BSND", "PA_BSND", 6, 0, 2**63 - 1, 2**63 - 1
    )
    keys = np.concatenate([wide(k[p]) * wide(sk[p])[..., None] for p in (2, 1)])[:20, 0]
    for i in range(2):
        scores = [score(wide(q[0, i]) * wide(sq[0, i])[:, None], key, w[0, i]) for key in keys]
        check_choice(out[0, i, 0], None, scores)


def test_indexer_with_microscaling(monkeypatch: pytest.MonkeyPatch) -> None:
    import ascend_aclnn as aclnn

    fp8, e8m0 = np.dtype(ml_dtypes.float8_e4m3fn), np.dtype(ml_dtypes.float8_e8m0fnu)
    q, k = numbers(RNG, 4, 8, 128, dtype=fp8), numbers(RNG, 9, 1, 128, dtype=fp8)
    sq, sk = (np.exp2(RNG.integers(-3, 4, s)).astype(F32).astype(e8m0) for s in ((4, 8, 2, 2), (9, 1, 2, 2)))
    w, ends = numbers(RNG, 4, 8, dtype=F32), [np.array(e, np.int32) for e in ([0, 4], [0, 9])]
    with aclnn.use_backend("numpy", soc="Ascend950PR_9599"):
        out, _ = ops.quant_lightning_indexer_v2(
            q,
            k,
            w,
            sq,
            sk,
            *ends,
            metadata=np.zeros(1024, np.int32),
            topk=3,
            quant_mode=3,
            layout_q="TND",
            layout_k="TND",
        )
    for i in range(4):
        query = wide(q[i]) * np.repeat(wide(sq[i]).reshape(8, 4), 32, -1)
        keys = wide(k[:, 0]) * np.repeat(wide(sk).reshape(9, 4), 32, -1)
        check_choice(out[i, 0], None, [score(query, key, w[i]) for key in keys])


def test_sequences_that_are_not_there() -> None:
    q, k, w = numbers(RNG, 2, 3, 8, 128), numbers(RNG, 2, 5, 1, 128), numbers(RNG, 2, 3, 8)
    with pytest.raises(AclError, match=r"actual_seq_lengths_key element \[1\] is 6; allowed: 0 to 5"):
        ops.lightning_indexer(q, k, w, None, np.array([5, 6], np.int32), sparse_count=4)


def scores_of(q: Any, k: Any, w: Any) -> Any:
    """All queries (rows, heads, width), all keys: rows, keys."""
    return np.array([[score(query, key, weight) for key in k] for query, weight in zip(q, w)])


def directional(function: Any, x: Any, gradient: Any) -> None:
    """The derivative along some directions is as the gradient says."""
    for _ in range(4):
        step = RNG.standard_normal(x.shape)
        expected = (function(x + 1e-5 * step) - function(x - 1e-5 * step)) / 2e-5
        assert float((wide(gradient) * step).sum()) == pytest.approx(
            expected, rel=0.02, abs=0.02 * np.abs(wide(gradient)).sum() ** 0.5
        )


def fast_scores(q: Any, k: Any, w: Any) -> Any:
    return sum(w[:, n, None] * np.maximum(q[:, n] @ k.T, 0) for n in range(q.shape[1]))


def test_lightning_indexer_grad() -> None:
    q, k, w = numbers(RNG, 5, 8, 16), numbers(RNG, 9, 1, 16), numbers(RNG, 5, 8)
    indices = np.stack([RNG.permutation(9)[:4] for _ in range(5)]).astype(np.int32)
    indices[0, 2:] = -1
    dy = numbers(RNG, 5, 4)
    ends = [np.array(e, np.int32) for e in ([5], [9])]
    dq, dk, dw = ops.lightning_indexer_grad(q, k, dy, indices, w, *ends, 8, "TND", 3, deterministic=True)
    weight = np.zeros((5, 9))
    for i in range(5):
        for j, token in enumerate(indices[i]):
            if token >= 0:
                weight[i, token] = wide(dy[i, j])

    def loss(a: Any, b: Any, c: Any) -> float:
        return float((fast_scores(a, b, c) * weight).sum())

    a, b, c = wide(q), wide(k)[:, 0], wide(w)
    directional(lambda x: loss(x, b, c), a, dq)
    directional(lambda x: loss(a, x, c), b, dk[:, 0])
    directional(lambda x: loss(a, b, x), c, dw)


def divergence(target: Any, scores: Any) -> float:
    """KL(target, softmax(scores)) of one row."""
    log_softmax = scores - scores.max() - np.log(np.exp(scores - scores.max()).sum())
    return float((target * (np.log(target) - log_softmax)).sum())


def attention_target(query: Any, keys: Any, scale: float) -> tuple[Any, Any, Any]:
    """Probabilities summed over heads and normalised; maxima and sums of each head."""
    scores = np.array([[head @ key for key in own] for head, own in zip(query, keys)]) * scale
    most = scores.max(-1)
    total = np.exp(scores - most[:, None]).sum(-1)
    p = (np.exp(scores - most[:, None]) / total[:, None]).sum(0)
    return p / p.sum(), most, total


@pytest.mark.parametrize("dense", [False, True])
def test_indexer_losses_and_their_gradients(dense: bool) -> None:
    rows, tokens, heads, index_heads, count = 4, 10, 32, 8, 6
    key_heads = heads if dense else 1
    width, rope = (128, 64) if dense else (512, 64)
    q, k = numbers(RNG, rows, heads, width), numbers(RNG, tokens, key_heads, width)
    qr, kr = numbers(RNG, rows, heads, rope), numbers(RNG, tokens, key_heads, rope)
    qi, ki, w = (
        numbers(RNG, rows, index_heads, 128),
        numbers(RNG, tokens, 1, 128),
        numbers(RNG, rows, index_heads, dtype=F32),
    )
    w *= F32(0.02)
    scale = 0.05
    chosen = [np.arange(tokens - rows + i + 1) for i in range(rows)]
    indices = np.full((rows, 1, count), -1, np.int32)
    if not dense:
        for i in range(rows):
            chosen[i] = RNG.permutation(chosen[i])[:count]
            indices[i, 0, : len(chosen[i])] = chosen[i]
    whole_q, whole_k = (np.concatenate([wide(a), wide(b)], -1) for a, b in ((q, qr), (k, kr)))
    shape = (key_heads, rows, heads // key_heads)
    row_max, row_sum, targets = np.zeros(shape, F32), np.zeros(shape, F32), []
    for i in range(rows):
        keys = [whole_k[chosen[i], h if dense else 0] for h in range(heads)]
        target, most, total = attention_target(whole_q[i], keys, scale)
        row_max[:, i], row_sum[:, i] = most.reshape(key_heads, -1), total.reshape(key_heads, -1)
        targets.append(target)

    def loss(a: Any, b: Any, c: Any) -> float:
        scores = fast_scores(a, b, c)
        return sum(divergence(targets[i], scores[i, chosen[i]]) for i in range(rows))

    a, b, c = wide(qi), wide(ki)[:, 0], wide(w)
    lengths = [rows], [tokens]
    if dense:
        statistics = ops.dense_lightning_indexer_softmax_lse(qi, ki, w, *lengths, "TND", 3, 2**63 - 1, 2**63 - 1)
        scores = fast_scores(a, b, c)
        for i in range(rows):
            most = scores[i, chosen[i]].max()
            assert statistics[0][0, i] == pytest.approx(most, rel=1e-4)
            assert statistics[1][0, i] == pytest.approx(np.exp(scores[i, chosen[i]] - most).sum(), rel=1e-4)
        dq, dk, dw, found = ops.dense_lightning_indexer_grad_kl_loss(
            q, k, qi, ki, w, row_max, row_sum, *statistics, qr, kr, *lengths, scale, "TND", 3, 2**63 - 1, 2**63 - 1
        )
    else:
        dq, dk, dw, found = ops.sparse_lightning_indexer_grad_kl_loss(
            q, k, qi, ki, w, indices, row_max, row_sum, qr, kr, *lengths, scale, "TND", 3, 2**63 - 1, 2**63 - 1, True
        )
    assert found[0] == pytest.approx(loss(a, b, c), rel=1e-3)
    directional(lambda x: loss(x, b, c), a, dq)
    directional(lambda x: loss(a, x, c), b, dk[:, 0])
    directional(lambda x: loss(a, b, x), c, dw)


@pytest.mark.parametrize("dense", [False, True])
def test_gradients_from_a_given_target(dense: bool) -> None:
    import ascend_aclnn as aclnn

    rows, tokens, ratio, residual, count = 5, 6, 4, 3, 4
    q, k, w = numbers(RNG, 1, rows, 8, 128), numbers(RNG, 1, tokens, 1, 128), numbers(RNG, 1, rows, 8, dtype=F32)
    w *= F32(0.02)
    seen = [
        [j for j in range(tokens) if (j + 1) * ratio <= tokens * ratio + residual - rows + i + 1] for i in range(rows)
    ]
    chosen = seen if dense else [list(RNG.permutation(s)[:count]) for s in seen]
    target, indices = (
        np.zeros((1, rows, 1, tokens if dense else count), F32),
        np.full((1, rows, 1, count), -1, np.int32),
    )
    for i in range(rows):
        p = RNG.random(len(chosen[i])).astype(F32)
        target[0, i, 0, : len(chosen[i])] = p / p.sum()
        if not dense:
            indices[0, i, 0, : len(chosen[i])] = chosen[i]
    a, b, c = wide(q)[0], wide(k)[0, :, 0], wide(w)[0]

    def loss(x: Any, y: Any, z: Any) -> float:
        scores = fast_scores(x, y, z)
        return sum(divergence(wide(target)[0, i, 0, : len(s)], scores[i, s]) for i, s in enumerate(chosen))

    rest: Any = {
        "layout_q": "BSND",
        "layout_k": "BSND",
        "cmp_residual_k": np.array([residual], np.int32),
        "mask_mode": 3,
        "cmp_ratio": ratio,
    }
    with aclnn.use_backend("numpy", soc="Ascend950PR_9599"):
        if dense:
            lse = ops.dense_lightning_indexer_softmax_lse_v2(q, k, w, **rest)
            dq, dk, dw, softmax = ops.dense_lightning_indexer_kl_loss_grad(q, k, w, target, lse, **rest)
        else:
            dq, dk, dw, softmax = ops.sparse_lightning_indexer_kl_loss_grad(q, k, w, indices, target, **rest)
    scores = fast_scores(a, b, c)
    for i, s in enumerate(chosen):
        e = np.exp(scores[i, s] - scores[i, s].max())
        np.testing.assert_allclose(softmax[0, i, 0, : len(s)], e / e.sum(), rtol=1e-3)
        assert not softmax[0, i, 0, len(s) :].any()
    directional(lambda x: loss(x, b, c), a, dq[0])
    directional(lambda x: loss(a, x, c), b, dk[0, :, 0])
    directional(lambda x: loss(a, b, x), c, dw[0])


@pytest.mark.parametrize("kind", ["logits", "probs"])
def test_kl_loss(kind: str) -> None:
    y, p, eps = np.abs(numbers(RNG, 3, 40, dtype=F32)), RNG.dirichlet(np.ones(40), 3).astype(F32), 1e-6
    y[0, :5], p[1, 3] = 0, 0
    total = 0.0
    for row in range(3):
        whole = wide(y[row]).sum() + eps
        for j in range(40):
            share = wide(y[row, j]) / whole
            weight = wide(y[row, j]) if kind == "logits" else share
            total += (np.log(max(share, eps)) - np.log(wide(p[row, j]) + eps)) * weight
    close(ops.lightning_indexer_kl_loss(y, p, eps, kind), [total], 1e-4)
