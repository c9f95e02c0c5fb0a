"""References of choosing experts, routing and summing up, against loops over tokens and torch's gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ascend_aclnn as aclnn
from ascend_aclnn import AclError, catalog, ops, reference

torch = pytest.importorskip("torch", reason="torch is the oracle of the experts' routing; without it it is not tested")
from torch_tools import FLOATS, check, tensor  # noqa: E402 (it imports torch)

N, H, K, E = 7, 12, 3, 5  # tokens, hidden size, experts per token, experts
I32 = np.dtype(np.int32)


def some(shape: Any, seed: int = 0, dtype: Any = np.float32) -> Any:
    return np.random.default_rng([seed, *shape]).uniform(-2, 2, shape).astype(dtype)


def chosen(seed: int = 0, n: int = N, k: int = K, e: int = E) -> Any:
    """Different experts for every token."""
    rng = np.random.default_rng(seed)
    return np.stack([rng.permutation(e)[:k] for _ in range(n)]).astype(np.int32)


def direct(name: str, *values: Any, out: Any = None) -> Any:
    found = reference.find(catalog.get(f"aclnn{name}"))
    assert found is not None
    return found.function(*values) if out is None else found.function(*values, out=out)


def numbers(value: Any) -> Any:
    return np.asarray(value.detach().numpy())


# ------------------------------------------------------------------------------------------------- gating


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_softmax_gating(dtype: Any) -> None:
    x = some((N, 16), 0, dtype)
    probabilities, experts = torch.softmax(tensor(x), -1).topk(K)
    y, idx, rows = ops.moe_gating_top_k_softmax(x, None, K)
    check(y, numbers(probabilities))
    np.testing.assert_array_equal(idx, numbers(experts))
    np.testing.assert_array_equal(rows, np.arange(N * K).reshape(K, N).T)
    finished = np.arange(N) % 2 == 0
    idx = ops.moe_gating_top_k_softmax(x, finished, K)[1]
    np.testing.assert_array_equal(idx, np.where(finished[:, None], 16, numbers(experts)))
    y, idx, kept = ops.moe_gating_top_k_softmax_v2(x, None, K, 0, True)
    check(y, numbers(probabilities))
    check(kept, numbers(torch.softmax(tensor(x), -1)))
    y, idx, kept = ops.moe_gating_top_k_softmax_v2(x, None, K, 1, False)
    check(y, numbers(torch.softmax(tensor(x).topk(K)[0], -1)))
    assert kept is None


@pytest.mark.parametrize("norm_type", [0, 1])
@pytest.mark.parametrize(("mode", "renorm"), [(0, 0), (1, 1)])
def test_grouped_gating(norm_type: int, mode: int, renorm: int) -> None:
    groups, k_group, experts = 4, 2, 16
    x, bias = some((N, experts)), some((experts,), 1)
    scores = torch.softmax(tensor(x), -1) if norm_type == 0 else torch.sigmoid(tensor(x))
    y, idx, kept = ops.moe_gating_top_k(x, bias, K, k_group, groups, mode, renorm, norm_type, True, 2.5, 1e-20)
    check(kept, numbers(scores))
    ranked = numbers(scores) + bias
    for row in range(N):
        parts = ranked[row].reshape(groups, -1)
        worth = np.sort(parts, 1)[:, -2:].sum(1) if mode else parts.max(1)
        allowed = np.argsort(-worth)[:k_group]
        open_ = [e for e in range(experts) if e // (experts // groups) in allowed]
        best = sorted(open_, key=lambda e: -ranked[row, e])[:K]
        assert idx[row].tolist() == best
        picked = numbers(scores)[row, best]
        total = picked.sum() if norm_type or renorm else 1
        check(y[row], picked / total * 2.5, 2)


def test_gating_by_a_table() -> None:
    x, ids = some((4, E)), np.array([2, 0, 1, 2])
    table = chosen(1, 3, 2)
    y, idx, _ = direct("MoeGatingTopKV2", x, None, ids, table, 2, 1, 1, 0, 0, 1, False, 1.0, 0.0)
    np.testing.assert_array_equal(idx, table[ids])
    scores = 1 / (1 + np.exp(-x.astype(np.float64)))
    picked = np.take_along_axis(scores, table[ids], 1)
    check(y.astype(np.float32), picked / picked.sum(1, keepdims=True), 2)


def test_gating_backward() -> None:
    x, grad = tensor(some((N, E))).requires_grad_(), some((N, K), 1)
    scores = torch.sigmoid(x)
    picked, idx = scores.topk(K)
    (picked / (picked.sum(-1, keepdim=True) + 1e-6) * 1.5).backward(tensor(grad))
    actual = ops.moe_gating_top_k_backward(
        numbers(scores).astype(np.float32), grad, numbers(idx).astype(I32), 1, 1, 1.5, 1e-6
    )
    check(actual, x.grad.numpy(), 4)


def test_fused_gating() -> None:
    groups, group_topk, top_n, experts = 4, 2, 2, 16
    x, add = some((N, experts)), some((experts,), 1) + np.float32(3)
    copies, table = np.full(experts, 2, np.int32), np.arange(experts * 2, dtype=np.int32).reshape(experts, 2)
    y, idx = ops.moe_fused_topk(x, add, copies, table, groups, group_topk, top_n, K, 0, True, 2.0, True)
    scores = 1 / (1 + np.exp(-x.astype(np.float64)))
    for row in range(N):
        ranked = scores[row] + add
        worth = np.sort(ranked.reshape(groups, -1), 1)[:, -top_n:].sum(1)
        open_ = np.isin(np.arange(experts) // (experts // groups), np.argsort(-worth)[:group_topk])
        best = np.argsort(-np.where(open_, ranked, 0), kind="stable")[:K]
        np.testing.assert_array_equal(idx[row], 2 * best + row % 2)
        check(y[row], scores[row, best] / scores[row, best].sum() * 2, 2)


# ------------------------------------------------------------------------------------------------- routing


def copies_of(experts: Any) -> list[tuple[int, int, int]]:
    """(expert, copy, token) in the order of experts."""
    k = experts.shape[1]
    return sorted((int(e), c, c // k) for c, e in enumerate(experts.reshape(-1)))


@pytest.mark.parametrize("active", [0, 10])
def test_routing_without_drops(active: int) -> None:
    x, experts = some((N, H)), chosen()
    expanded, row_idx, counts, before = ops.moe_init_routing_v2(x, experts, active, 0, E, 0, 1, False)
    order = copies_of(experts)
    rows = active or N * K
    np.testing.assert_array_equal(expanded, [x[t] for _, _, t in order[:rows]])
    for place, (_, copy, _) in enumerate(order):
        assert row_idx[copy] == place
    np.testing.assert_array_equal(counts, np.cumsum(np.bincount(experts.reshape(-1), minlength=E)))
    assert before is None
    counts = ops.moe_init_routing_v2(x, experts, active, 0, E, 0, 2, False)[2]
    np.testing.assert_array_equal(counts, np.bincount(experts.reshape(-1), minlength=E))


def blocks(x: Any, experts: Any, capacity: int) -> tuple[Any, Any]:
    """Each expert's block of rows, and the row of each copy."""
    expanded, rows = np.zeros((E, capacity, x.shape[1]), x.dtype), np.full(experts.size, -1)
    fill = [0] * E
    for e, copy, token in copies_of(experts):
        if fill[e] < capacity:
            expanded[e, fill[e]] = x[token]
            rows[copy] = e * capacity + fill[e]
            fill[e] += 1
    return expanded, rows


def test_routing_with_drops() -> None:
    x, experts, capacity = some((N, H)), chosen(), 3
    actual = ops.moe_init_routing_v2(x, experts, 0, capacity, E, 1, 0, True)
    expanded, rows = blocks(x, experts, capacity)
    np.testing.assert_array_equal(actual[0], expanded)
    np.testing.assert_array_equal(actual[1], rows)
    np.testing.assert_array_equal(actual[3], np.bincount(experts.reshape(-1), minlength=E))
    grad = some(expanded.shape, 1)
    wanted = np.zeros((N, H))
    for copy, row in enumerate(rows):
        if row >= 0:
            wanted[copy // K] += grad.reshape(-1, H)[row]
    check(ops.moe_init_routing_v2_grad(grad, actual[1], K, 1, 0), wanted, 2)


def test_experts_out_of_range_are_refused_where_they_have_blocks() -> None:
    with pytest.raises(AclError, match="expert_idx"):
        ops.moe_init_routing_v2(some((N, H)), np.full((N, K), E, I32), 0, 3, E, 1, 0, False)


@pytest.mark.parametrize("smooth", [None, 1, E])
def test_routing_with_dynamic_quantisation(smooth: Any) -> None:
    x, experts = some((N, H)), chosen()
    scale = None if smooth is None else np.abs(some((smooth, H), 1)) + np.float32(0.1)
    q, row_idx, _, _, scales = ops.moe_init_routing_quant_v2(x, experts, scale, None, 0, 0, E, 0, 0, False, 1)
    for place, (e, copy, token) in enumerate(copies_of(experts)):
        assert row_idx[copy] == place
        wanted = x[token] * (1 if scale is None else scale[e if smooth == E else 0])
        check(scales[place], np.abs(wanted.astype(np.float64)).max() / 127)
        assert np.abs(q[place] * scales[place] - wanted).max() <= scales[place] * 0.51


def test_routing_with_static_quantisation() -> None:
    x, experts = some((N, H)), chosen()
    scale, offset = np.array([30], np.float32), np.array([-4], np.float32)
    q, _, _, _, _ = ops.moe_init_routing_quant_v2(x, experts, scale, offset, 0, 3, E, 1, 0, False, 0)
    expanded, rows = blocks(x, experts, 3)
    wanted = np.clip(np.rint(expanded * np.float32(30) - 4), -128, 127)
    there = np.isin(np.arange(E * 3), rows).reshape(E, 3)
    np.testing.assert_array_equal(q[there], wanted[there])
    assert not q[~there].any()


@pytest.mark.parametrize("kind", [0, 1, 2])
@pytest.mark.parametrize("scatter", [0, 1])
def test_routing_to_a_range_of_experts(kind: int, scatter: int) -> None:
    x, experts, scale, first, last = some((N, H)), chosen(), some((N,), 1), 1, 4
    actual = ops.moe_init_routing_v3(x, experts, scale, None, 0, 0, E, 0, kind, True, -1, (first, last), scatter)
    order = [c for c in copies_of(experts) if first <= c[0] < last]
    np.testing.assert_array_equal(actual[0][: len(order)], [x[t] for _, _, t in order])
    np.testing.assert_array_equal(actual[3][: len(order)], [scale[t] for _, _, t in order])
    if scatter:
        np.testing.assert_array_equal(actual[1][: len(order)], [c for _, c, _ in order])
    else:
        places = np.full(N * K, -1)
        places[[c for _, c, _ in order]] = np.arange(len(order))
        np.testing.assert_array_equal(actual[1], places)
    counts = np.bincount(experts.reshape(-1), minlength=E)[first:last]
    if kind == 2:
        np.testing.assert_array_equal(actual[2][: last - first], np.stack([np.arange(first, last), counts], 1))
    else:
        np.testing.assert_array_equal(actual[2], counts if kind else np.cumsum(counts))


@pytest.mark.parametrize("kind", [0, 1, 2])
@pytest.mark.parametrize("scatter", [0, 1])
@pytest.mark.parametrize("quant_mode", [-1, 1])
@pytest.mark.parametrize("active", [None, N * K])
def test_routing_with_weights(kind: int, scatter: int, quant_mode: int, active: Any) -> None:
    """Version 4: the weight of each copy lies where its row does."""
    x, experts, weights, first, last = some((N, H)), chosen(), some((N, K), 1), 1, 4
    number = None if active is None else np.array(active)
    with aclnn.use_backend("numpy", soc="Ascend950PR_9599"):
        actual = ops.moe_init_routing_v4(
            x, experts, None, None, number, weights, 0, E, 0, kind, True, quant_mode, (first, last), scatter
        )
    order = [c for c in copies_of(experts) if first <= c[0] < last]
    rows = np.array([x[t] for _, _, t in order])
    if quant_mode < 0:
        np.testing.assert_array_equal(actual[0][: len(order)], rows)
    else:
        check(actual[3][: len(order)], np.abs(rows.astype(np.float64)).max(1) / 127)
        assert (
            np.abs(actual[0][: len(order)] * actual[3][: len(order), None] - rows)
            <= actual[3][: len(order), None] * 0.51
        ).all()
    assert actual[4].shape == (N * K, 1)
    np.testing.assert_array_equal(actual[4][: len(order), 0], [weights.reshape(-1)[c] for _, c, _ in order])
    copies = [c for _, c, _ in order]
    places = range(len(order))
    np.testing.assert_array_equal(actual[1][places if scatter else copies], copies if scatter else places)
    counts = np.bincount(experts.reshape(-1), minlength=E)[first:last]
    if kind == 2:
        np.testing.assert_array_equal(actual[2][: last - first], np.stack([np.arange(first, last), counts], 1))
    else:
        np.testing.assert_array_equal(actual[2], counts if kind else np.cumsum(counts))


def test_routing_with_drops_and_weights() -> None:
    """Each expert has a block of weights, as of rows; zero where it got no copy."""
    x, experts, weights, capacity = some((N, H)), chosen(), some((N, K), 1), 3
    with aclnn.use_backend("numpy", soc="Ascend950PR_9599"):
        actual = ops.moe_init_routing_v4(x, experts, None, None, None, weights, capacity, E, 1, 1, False, -1, (0, E), 0)
    expanded, rows = blocks(x, experts, capacity)
    wanted = np.zeros((E * capacity, 1), np.float32)
    for copy, row in enumerate(rows):
        if row >= 0:
            wanted[row] = weights.reshape(-1)[copy]
    np.testing.assert_array_equal(actual[0], expanded)
    np.testing.assert_array_equal(actual[1], rows)
    np.testing.assert_array_equal(actual[4], wanted)


def test_counting_expert_tokens() -> None:
    np.testing.assert_array_equal(ops.moe_compute_expert_tokens(np.array([0, 0, 2, 2, 2, 4], I32), 5), [2, 2, 5, 5, 6])


@pytest.mark.parametrize("idx_type", [0, 1])
def test_re_routing(idx_type: int) -> None:
    per_rank = np.array([[2, 0, 1], [1, 3, 2]], np.int64)
    tokens, scales = some((9, H), 0, np.float16), some((9,), 1)
    permuted, new_scales, idx, counts = ops.moe_re_routing(tokens, per_rank, scales, 1, idx_type)
    order = [0, 1, 3, 4, 5, 6, 2, 7, 8]
    np.testing.assert_array_equal(permuted, tokens[order])
    np.testing.assert_array_equal(new_scales, scales[order])
    np.testing.assert_array_equal(idx, np.argsort(order) if idx_type else order)
    np.testing.assert_array_equal(counts, [3, 3, 3])


@pytest.mark.parametrize("idx_type", [0, 1])
@pytest.mark.parametrize("weighted", [False, True])
def test_re_routing_with_weights(idx_type: int, weighted: bool) -> None:
    """Version 2, row by row: rank r's rows of expert e lie behind those of lower experts of the rank, and go behind
    those of lower experts, and of lower ranks of the same expert. Two rows belong to nobody."""
    rng = np.random.default_rng(3)
    per_rank = rng.integers(0, 5, (3, 4))
    count = int(per_rank.sum()) + 2
    tokens = some((count, H), 0, np.float16)
    scales, weights = some((count, 2), 1), some((count,), 2) if weighted else None
    with aclnn.use_backend("numpy", soc="Ascend950PR_9599"):
        permuted, new_scales, idx, counts, new_weights = ops.moe_re_routing_v2(
            tokens, per_rank.astype(np.int64), scales, weights, 1, idx_type
        )
    source, at = {}, 0
    for rank in range(3):
        for expert in range(4):
            source[rank, expert] = range(at, at + per_rank[rank, expert])
            at += per_rank[rank, expert]
    order = [row for expert in range(4) for rank in range(3) for row in source[rank, expert]]
    np.testing.assert_array_equal(permuted[: len(order)], tokens[order])
    np.testing.assert_array_equal(new_scales[: len(order)], scales[order])
    np.testing.assert_array_equal(counts, per_rank.sum(0))
    if idx_type == 0:
        np.testing.assert_array_equal(idx[: len(order)], order)
    else:
        np.testing.assert_array_equal(idx[order], np.arange(len(order)))
    if weights is None:
        assert new_weights is None
    else:
        np.testing.assert_array_equal(new_weights[: len(order)], weights[order])


# ------------------------------------------------------------------------------------------------- finalize


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("mode", [0, 1, 2, 3])
def test_finalize(dtype: Any, mode: int) -> None:
    experts, capacity = chosen(), 4
    scales, bias = some((N, K), 1, dtype), some((E, H), 2, dtype)
    x1, x2 = some((N, H), 3, dtype), some((N, H), 4, dtype)
    rng = np.random.default_rng(5)
    rows = rng.permutation(N * K).astype(I32)
    expanded = some((N * K, H), 6, dtype)
    if mode in (1, 3):
        expanded = some((E, capacity, H), 6, dtype)
        rows = (
            rng.permutation(E * capacity)[: N * K].astype(I32)
            if E * capacity >= N * K
            else rng.integers(-1, 20, N * K, I32)
        )
        rows[::4] = -1
    actual = ops.moe_finalize_routing_v2(expanded, rows, x1, x2, bias, scales, experts, mode)
    flat = expanded.reshape(-1, H).astype(np.float64)
    wanted = x1.astype(np.float64) + x2.astype(np.float64)
    for i in range(N):
        for k in range(K):
            row = rows[i + k * N] if mode < 2 else rows[i * K + k]
            if row >= 0:
                wanted[i] += float(scales[i, k]) * (flat[row] + bias[experts[i, k]].astype(np.float64))
    check(actual, wanted, 8)
    if mode == 0:
        np.testing.assert_array_equal(ops.moe_finalize_routing(expanded, x1, x2, bias, scales, rows, experts), actual)


def test_finalize_with_experts_that_compute_nothing() -> None:
    experts = np.array([[0, 1], [2, 3]], I32)  # ordinary, zero, copy, constant
    expanded, rows, scales, x = some((4, H)), np.array([0, 1, 2, 3], I32), some((2, 2), 1), some((2, H), 2)
    a1, a2, v = some((1, H), 3), some((1, H), 4), some((1, H), 5)
    actual = ops.moe_finalize_routing_v3(
        expanded, rows, None, None, None, scales, experts, x, a1, a2, v, 2, (1, 2), (2, 3), (3, 4)
    )
    check(actual[0], scales[0, 0] * expanded[0], 2)
    check(actual[1], scales[1, 0] * x[1] + scales[1, 1] * (a1[0] * x[1] + a2[0] * v[0]), 4)


@pytest.mark.parametrize("mode", [0, 1, 2, 3])
@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("with_x", [False, True])
def test_finalize_v4(mode: int, scaled: bool, with_x: bool) -> None:
    """Copy by copy: of dropped copies nothing counts, of those after the last row neither; ranges need x."""
    tokens, top_k, width, count, capacity = 7, 3, 8, 8, 4
    rng = np.random.default_rng([mode, scaled, with_x])
    experts = np.stack([rng.permutation(count)[:top_k] for _ in range(tokens)]).astype(I32)
    zero, copy, constant = (2, 4), (4, 5), (5, 7)
    shape = (count, capacity, width) if mode in (1, 3) else (tokens * top_k - 4, width)  # the last 4 copies have no row
    expanded, x = some(shape, 1, np.float16), some((tokens, width), 2, np.float16)
    rows = rng.permutation(count * capacity if mode in (1, 3) else tokens * top_k)[: tokens * top_k].astype(I32)
    if mode in (1, 3):
        rows[rng.permutation(tokens * top_k)[:6]] = -1
    scales = some((tokens, top_k), 3, np.float16) if scaled else None
    bias = some((count, width), 4, np.float16)
    a1, a2, v = (some((2, width), seed, np.float16) for seed in (5, 6, 7))
    x1, x2 = some((tokens, width), 8, np.float16), some((tokens, width), 9, np.float16)
    with aclnn.use_backend("numpy", soc="Ascend950PR_9599"):
        actual = ops.moe_finalize_routing_v4(
            expanded,
            rows,
            x1,
            x2,
            bias,
            scales,
            experts,
            x if with_x else None,
            a1,
            a2,
            v,
            mode,
            zero,
            copy,
            constant,
            top_k,
        )
    flat = expanded.reshape(-1, width).astype(np.float64)
    wanted = x1.astype(np.float64) + x2.astype(np.float64)
    for i, k in np.ndindex(tokens, top_k):
        row, expert = rows[i + k * tokens] if mode < 2 else rows[i * top_k + k], experts[i, k]
        if row < 0 or row >= len(flat):
            continue
        term = flat[row]
        if with_x:
            if zero[0] <= expert < zero[1]:
                continue
            if copy[0] <= expert < copy[1]:
                term = x[i].astype(np.float64)
            elif constant[0] <= expert < constant[1]:
                at = expert - constant[0]
                term = a1[at].astype(np.float64) * x[i] + a2[at].astype(np.float64) * v[at]
        wanted[i] += (1 if scales is None else float(scales[i, k])) * (term + bias[expert])
    check(actual, wanted, 8)


@pytest.mark.parametrize("biased", [False, True])
def test_finalize_backward(biased: bool) -> None:
    experts, rows = chosen(), np.random.default_rng(1).permutation(N * K).astype(I32)
    expanded, scales, bias, grad = some((N * K, H)), some((N, K), 1), some((E, H), 2), some((N, H), 3)
    leaves = [tensor(v).requires_grad_() for v in (expanded, scales)]
    picked = leaves[0][torch.from_numpy(rows.reshape(N, K).astype(np.int64))]
    if biased:
        picked = picked + tensor(bias)[torch.from_numpy(experts.astype(np.int64))]
    (picked * leaves[1][..., None]).sum(1).backward(tensor(grad))
    actual = ops.moe_finalize_routing_v2_grad(
        grad, rows, expanded, scales, experts if biased else None, bias if biased else None, 0, 0, 0, 0
    )
    for value, leaf in zip(actual, leaves):
        check(value, leaf.grad.numpy(), 4)


def test_finalize_backward_without_scales_has_one_copy_of_a_token() -> None:
    """Document: K is 1 where scalesOptional is null."""
    rows, grad = np.array([2, 0, 1], I32), some((3, H))
    for expanded in (None, some((3, H), 1)):
        np.testing.assert_array_equal(
            ops.moe_finalize_routing_v2_grad(grad, rows, expanded, None, None, None, 0, 0, 0, 0)[0], grad[[1, 2, 0]]
        )
    with pytest.raises(AclError, match="expanded_row_idx"):
        ops.moe_finalize_routing_v2_grad(grad, np.arange(6, dtype=I32), None, None, None, None, 0, 0, 0, 0)


# ------------------------------------------------------------------------------------------------- ranks


@pytest.mark.parametrize("limits", [(4, 15), (0, 21)])
def test_permute_on_one_rank(limits: tuple[int, int]) -> None:
    start, end = limits
    x, experts, probs = some((N, H)), chosen(), some((N, K), 1)
    permuted, sorted_indices, own_probs = ops.moe_token_permute_with_ep(x, experts, probs, limits, 0, False)
    order = copies_of(experts)[start:end]
    np.testing.assert_array_equal(permuted, [x[t] for _, _, t in order])
    np.testing.assert_array_equal(own_probs, [probs.reshape(-1)[c] for _, c, _ in order])

    leaves = [tensor(v).requires_grad_() for v in (x, probs)]
    tokens = leaves[0][[t for _, _, t in order]]
    shares = leaves[1].reshape(-1)[[c for _, c, _ in order]]
    grad, share_grad = some((end - start, H), 2), some((end - start,), 3)
    torch.autograd.backward([tokens, shares], [tensor(grad), tensor(share_grad)])
    actual = ops.moe_token_permute_with_ep_grad(grad, sorted_indices, share_grad, K, limits, False)
    for value, leaf in zip(actual, leaves):
        check(value, leaf.grad.numpy(), 4)

    leaves = [tensor(v).requires_grad_() for v in (permuted, probs)]
    weighted = leaves[0] * leaves[1].reshape(-1)[[c for _, c, _ in order], None]
    total = torch.zeros(N, H, dtype=torch.float64).index_add(0, torch.tensor([t for _, _, t in order]), weighted)
    check(ops.moe_token_unpermute_with_ep(permuted, sorted_indices, probs, K, limits, False, None), numbers(total), 4)
    out_grad = some((N, H), 4)
    total.backward(tensor(out_grad))
    actual = ops.moe_token_unpermute_with_ep_grad(out_grad, sorted_indices, permuted, probs, False, None, limits, K)
    for value, leaf in zip(actual, leaves):
        check(value, leaf.grad.numpy(), 4)


# ------------------------------------------------------------------------------------------------- routing maps


def marked(experts: Any) -> Any:
    table = np.zeros((N, E), bool)
    np.put_along_axis(table, experts, True, 1)
    return table


def test_permute_by_a_map() -> None:
    x, table, probs = some((N, H)), marked(chosen()), some((N, E), 1)
    permuted, own_probs, sorted_indices = ops.moe_token_permute_with_routing_map(x, table, probs, N * K, False)
    pairs = [(e, t) for e in range(E) for t in range(N) if table[t, e]]
    np.testing.assert_array_equal(permuted, [x[t] for _, t in pairs])
    np.testing.assert_array_equal(own_probs, [probs[t, e] for e, t in pairs])

    leaves = [tensor(v).requires_grad_() for v in (x, probs)]
    grad, share_grad = some((N * K, H), 2), some((N * K,), 3)
    out = [leaves[0][[t for _, t in pairs]], leaves[1][[t for _, t in pairs], [e for e, _ in pairs]]]
    torch.autograd.backward(out, [tensor(grad), tensor(share_grad)])
    actual = ops.moe_token_permute_with_routing_map_grad(grad, share_grad, sorted_indices, table, E, N, False)
    for value, leaf in zip(actual, leaves):
        check(value, leaf.grad.numpy(), 4)

    leaves = [tensor(v).requires_grad_() for v in (permuted, probs)]
    weighted = leaves[0] * leaves[1][[t for _, t in pairs], [e for e, _ in pairs]][:, None]
    total = torch.zeros(N, H, dtype=torch.float64).index_add(0, torch.tensor([t for _, t in pairs]), weighted)
    back = ops.moe_token_unpermute_with_routing_map(permuted, sorted_indices, table, probs, False, (N, H))
    check(back[0], numbers(total), 4)
    out_grad = some((N, H), 4)
    total.backward(tensor(out_grad))
    actual = ops.moe_token_unpermute_with_routing_map_grad(
        out_grad, back[1], back[2], table, permuted, probs, False, None
    )
    for value, leaf in zip(actual, leaves):
        check(value, leaf.grad.numpy(), 4)


def test_permute_by_a_map_with_padding() -> None:
    x, table, probs, capacity = some((N, H)), marked(chosen()), some((N, E), 1), 4
    permuted, own_probs, token = ops.moe_token_permute_with_routing_map(x, table, probs, E * capacity, True)
    for e in range(E):
        own = [t for t in range(N) if table[t, e]] + [t for t in range(N) if not table[t, e]]
        part = slice(e * capacity, (e + 1) * capacity)
        assert token[part].tolist() == own[:capacity]
        np.testing.assert_array_equal(permuted[part], x[own[:capacity]])
        np.testing.assert_array_equal(own_probs[part], probs[own[:capacity], e])

    experts = np.repeat(np.arange(E), capacity)
    rows = torch.from_numpy(token.astype(np.int64))
    leaves = [tensor(v).requires_grad_() for v in (x, probs)]
    grad, share_grad = some((E * capacity, H), 2), some((E * capacity,), 3)
    torch.autograd.backward([leaves[0][rows], leaves[1][rows, experts]], [tensor(grad), tensor(share_grad)])
    actual = ops.moe_token_permute_with_routing_map_grad(grad, share_grad, token, table, E, N, True)
    for value, leaf in zip(actual, leaves):
        check(value, leaf.grad.numpy(), 4)

    leaves = [tensor(v).requires_grad_() for v in (permuted, probs)]
    total = torch.zeros(N, H, dtype=torch.float64).index_add(0, rows, leaves[0] * leaves[1][rows, experts][:, None])
    back = ops.moe_token_unpermute_with_routing_map(permuted, token, table, probs, True, (N, H))
    check(back[0], numbers(total), 4)
    np.testing.assert_array_equal(back[2], np.sort(token))
    out_grad = some((N, H), 4)
    total.backward(tensor(out_grad))
    actual = ops.moe_token_unpermute_with_routing_map_grad(
        out_grad, back[1], back[2], table, permuted, probs, True, None
    )
    for value, leaf in zip(actual, leaves):
        check(value, leaf.grad.numpy(), 4)


def test_a_map_without_enough_marks_is_refused() -> None:
    with pytest.raises(AclError, match="routing_map marks"):
        ops.moe_token_permute_with_routing_map(some((N, H)), np.zeros((N, E), bool), None, N * K, False)
