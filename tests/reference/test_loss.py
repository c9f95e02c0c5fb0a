"""References of ops-nn/loss through the public functions, against torch in float64 and torch's own gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ascend_aclnn import AclError, catalog, ops, reference

torch = pytest.importorskip("torch", reason="torch is the oracle of losses; without it they are not tested")
from torch_tools import FLOATS, check, oracle, sample, tensor  # noqa: E402 (it imports torch)

F = torch.nn.functional
REDUCTIONS = ["none", "mean", "sum"]


def direct(name: str) -> Any:
    """The function of an operator that only Ascend 950 has, which the public functions refuse by default."""
    found = reference.find(catalog.get(f"aclnn{name}"))
    assert found is not None
    return found.function


def normal(*shape: int, dtype: Any = np.float32, seed: int = 3) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def gradients(function: Any, grad: np.ndarray, *values: np.ndarray) -> list[np.ndarray]:
    """torch's gradients of a function for some arrays."""
    tensors = [tensor(value).requires_grad_() for value in values]
    result = function(*tensors)
    result.backward(tensor(np.broadcast_to(grad, result.shape)))
    return [np.asarray(t.grad.numpy()) for t in tensors]


# ------------------------------------------------------------------------------------------------- distances

# name -> numbers after the reduction, torch's function of input, target and reduction
DISTANCES: dict[str, tuple[tuple[float, ...], Any]] = {
    "l1_loss": ((), lambda x, t, how: F.l1_loss(x, t, reduction=how)),
    "mse_loss": ((), lambda x, t, how: F.mse_loss(x, t, reduction=how)),
    "smooth_l1_loss": ((0.75,), lambda x, t, how: F.smooth_l1_loss(x, t, reduction=how, beta=0.75)),
    "soft_margin_loss": ((), lambda x, t, how: F.soft_margin_loss(x, t, reduction=how)),
}


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("reduction", [0, 1, 2])
@pytest.mark.parametrize("name", DISTANCES)
def test_distances(name: str, reduction: int, dtype: Any) -> None:
    numbers, function = DISTANCES[name]
    x, target = normal(6, 50, dtype=dtype), normal(6, 50, dtype=dtype, seed=4)
    target[:, :5] = x[:, :5]
    how = REDUCTIONS[reduction]
    result = getattr(ops, name)(x, target, reduction, *numbers)
    assert result.dtype == dtype
    check(result, oracle(lambda a, b: function(a, b, how), x, target), 2)
    grad = normal(6, 50, dtype=dtype, seed=5) if reduction == 0 else np.array([[0.75]], dtype)
    wanted = gradients(lambda a: function(a, tensor(target), how), grad.reshape((6, 50) if reduction == 0 else ()), x)[
        0
    ]
    check(getattr(ops, f"{name}_backward")(grad, x, target, reduction, *numbers), wanted, 2)


@pytest.mark.parametrize("name", DISTANCES)
def test_distances_broadcast(name: str) -> None:
    numbers, _ = DISTANCES[name]
    x, target, grad = normal(4, 1, 3), normal(5, 1), normal(4, 5, 3)
    wide = [np.broadcast_to(a, (4, 5, 3)).copy() for a in (x, target)]
    operator = getattr(ops, name)
    np.testing.assert_array_equal(operator(x, target, 0, *numbers), operator(*wide, 0, *numbers))
    np.testing.assert_allclose(operator(x, target, 1, *numbers), operator(*wide, 1, *numbers), rtol=1e-6)
    if name != "mse_loss":  # its gradient too, but for one data type only
        backward = getattr(ops, f"{name}_backward")
        np.testing.assert_allclose(
            backward(grad, x, target, 1, *numbers), backward(grad, *wide, 1, *numbers), rtol=1e-6
        )


@pytest.mark.parametrize("name", DISTANCES)
def test_distances_of_nothing(name: str) -> None:
    numbers, _ = DISTANCES[name]
    x = np.empty((0, 3), np.float32)
    operator = getattr(ops, name)
    assert operator(x, x, 0, *numbers).shape == (0, 3)
    assert np.isnan(operator(x, x, 1, *numbers)) and operator(x, x, 2, *numbers) == 0
    assert getattr(ops, f"{name}_backward")(x, x, x, 1, *numbers).shape == (0, 3)


def test_distance_details() -> None:
    x, target = np.array([5, -7], np.int64), np.array([9, 2], np.int64)
    result = ops.l1_loss(x, target, 2)
    assert result.dtype == np.int64 and result == 13
    near = np.array([0.0, 2.0], np.float32)
    np.testing.assert_array_equal(ops.smooth_l1_loss(near, np.zeros(2, np.float32), 0, 0.0), [0, 2])
    one = np.empty(1, np.float32)
    ops.smooth_l1_loss(near, np.zeros(2, np.float32), 2, 1.0, out=one)
    assert one[0] == 1.5
    x, target = normal(4, 3), normal(4, 3, seed=4)
    squares = oracle(lambda a, b: (a - b) ** 2, x, target)
    for reduction, wanted in ((0, squares), (1, squares.mean(0)), (2, squares.sum(0))):
        check(ops.mse_loss_out(x, target, reduction), wanted)


# ------------------------------------------------------------------------------------------------- binary cross entropy


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("reduction", [0, 1, 2])
def test_binary_cross_entropy(reduction: int, weighted: bool, dtype: Any) -> None:
    how = REDUCTIONS[reduction]
    x, target = (np.abs(sample(dtype, 0.02, 0.98, special=False, n=301)[i : i + 300]) for i in (0, 1))
    weight = sample(dtype, 0.5, 2, special=False) if weighted else None
    grad = sample(dtype, special=False) if reduction == 0 else np.array(0.75, dtype)
    doubles = None if weight is None else tensor(weight)

    def loss(a: Any, b: Any) -> Any:
        return F.binary_cross_entropy(a, b, doubles, reduction=how)

    check(ops.binary_cross_entropy(x, target, weight, reduction), oracle(loss, x, target), 2)
    wanted = gradients(lambda a: loss(a, tensor(target)), grad, x)[0]
    check(ops.binary_cross_entropy_backward(grad, x, target, weight, reduction), wanted, 8)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("reduction", [0, 1, 2])
def test_binary_cross_entropy_with_logits(reduction: int, weighted: bool, dtype: Any) -> None:
    how = REDUCTIONS[reduction]
    x, target = normal(20, 15, dtype=dtype), np.abs(sample(dtype, 0, 1, special=False)).reshape(20, 15)
    weight = np.linspace(0.5, 2, 20).astype(dtype)[:, None] if weighted else None
    positive = np.linspace(0.5, 2, 15).astype(dtype) if weighted else None
    grad = normal(20, 15, dtype=dtype, seed=5) if reduction == 0 else np.array(0.75, dtype)
    doubles = [None if w is None else tensor(w) for w in (weight, positive)]

    def loss(a: Any, b: Any) -> Any:
        return F.binary_cross_entropy_with_logits(a, b, doubles[0], pos_weight=doubles[1], reduction=how)

    check(ops.binary_cross_entropy_with_logits(x, target, weight, positive, reduction), oracle(loss, x, target), 2)
    wanted = gradients(lambda a: loss(a, tensor(target)), grad, x)[0]
    result = ops.binary_cross_entropy_with_logits_backward(grad, x, target, weight, positive, reduction)
    check(result, wanted, 4)


def test_binary_cross_entropy_at_the_borders() -> None:
    x, target = np.array([0, 1, 0, 1], np.float32), np.array([0, 0, 1, 1], np.float32)
    np.testing.assert_array_equal(ops.binary_cross_entropy(x, target, None, 0), [0, 100, 100, 0])
    slope = ops.binary_cross_entropy_backward(np.ones(4, np.float32), x, target, None, 0)
    np.testing.assert_allclose(slope, [0, 1e12, -1e12, 0], rtol=1e-6)
    nothing = np.empty(0, np.float32)
    for function in (
        lambda how: ops.binary_cross_entropy(nothing, nothing, None, how),
        lambda how: ops.binary_cross_entropy_with_logits(nothing, nothing, None, None, how),
    ):
        assert np.isnan(function(1)) and function(2) == 0 and function(0).shape == (0,)
    large = np.array([-200, 200], np.float32)
    np.testing.assert_array_equal(ops.binary_cross_entropy_with_logits(large, target[1:3], None, None, 0), [0, 0])


# ------------------------------------------------------------------------------------------------- KL divergence


@pytest.mark.filterwarnings("ignore:reduction")  # torch's, about its future
@pytest.mark.parametrize("log_target", [False, True])
@pytest.mark.parametrize("reduction", [0, 1, 2, 3])
def test_kl_div(reduction: int, log_target: bool) -> None:
    how = [*REDUCTIONS, "batchmean"][reduction]
    x, target = normal(4, 1, 3), normal(5, 3, seed=4)
    if not log_target:
        target = np.exp(target)
    grad = normal(4, 5, 3, seed=5) if reduction == 0 else np.array(0.75, np.float32)

    def loss(a: Any, b: Any) -> Any:
        a, b = torch.broadcast_tensors(a, b)
        return F.kl_div(a, b, reduction=how, log_target=log_target)

    wanted = gradients(loss, grad, x, target)
    for name, expected in (("kl_div_backward", wanted[0]), ("kl_div_target_backward", wanted[1])):
        check(getattr(ops, name)(grad, x, target, reduction, log_target), expected, 8)


# ------------------------------------------------------------------------------------------------- log odds


@pytest.mark.parametrize("eps", [-1.0, 0.0, 0.25])
def test_logit(eps: float) -> None:
    x = np.array([-0.5, 0, 0.1, 0.25, 0.5, 0.75, 0.9, 1, 1.5, np.nan], np.float32)
    limit = None if eps < 0 else eps
    check(ops.logit(x, eps), oracle(lambda a: torch.logit(a, limit), x), 2)
    grad = normal(10)
    wanted = oracle(lambda g, a: torch.ops.aten.logit_backward(g, a, limit), grad, x)
    wanted[-1] = np.nan  # where torch has 0 and the document NaN
    check(ops.logit_grad(x, grad, eps), wanted, 2)


# ------------------------------------------------------------------------------------------------- classes


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("label", [np.int64, np.int32, np.uint8])
@pytest.mark.parametrize("shape", [(7, 5), (2, 5, 3, 4)])
@pytest.mark.parametrize("reduction", [0, 1, 2])
def test_nll_loss(reduction: int, shape: Any, label: Any, dtype: Any) -> None:
    name = "nll_loss" if len(shape) == 2 else "nll_loss2d"
    x, weight = normal(*shape, dtype=dtype), np.linspace(0.5, 2, 5).astype(dtype)
    target = np.random.default_rng(6).integers(0, 5, (shape[0], *shape[2:])).astype(label)
    how = REDUCTIONS[reduction]
    wide = tensor(target.astype(np.int64))

    def loss(a: Any) -> Any:
        return F.nll_loss(a, wide, tensor(weight), ignore_index=3, reduction=how)

    result, whole = getattr(ops, name)(x, target, weight, reduction, 3)
    check(result, oracle(loss, x), 2)
    if reduction:
        check(whole, np.array(weight[target[target != 3]].astype(np.float64).sum()))
    grad = normal(*target.shape, dtype=dtype) if reduction == 0 else np.array(0.75, dtype)
    exact = gradients(loss, grad, x)[0]
    check(getattr(ops, f"{name}_backward")(grad, x, target, weight, reduction, 3, whole), exact, 2)


def test_nll_loss_of_one_row() -> None:
    x, weight, target = normal(5), np.linspace(0.5, 2, 5, dtype=np.float32), np.array(2)
    result, _ = ops.nll_loss(x, target, weight, 0, -100)
    assert result == -weight[2] * x[2]
    number, sums = np.empty(1, np.float32), np.empty(1, np.float32)
    ops.nll_loss(x, target, weight, 1, -100, out=(number, sums))
    assert number[0] == -x[2] and sums[0] == weight[2]


def test_nll_loss_of_nothing() -> None:
    x, weight, target = np.empty((0, 5), np.float32), np.ones(5, np.float32), np.empty(0, np.int64)
    assert ops.nll_loss(x, target, weight, 0, -100).out.shape == (0,)
    assert np.isnan(ops.nll_loss(x, target, weight, 1, -100).out)
    assert ops.nll_loss(x, target, weight, 2, -100) == (0, 0)
    ignored = ops.nll_loss(normal(2, 5), np.full(2, 4), weight, 1, 4)
    assert np.isnan(ignored.out) and ignored.total_weight == 0


def test_class_out_of_range() -> None:
    x, weight = normal(3, 5), np.ones(5, np.float32)
    with pytest.raises(AclError, match=r"target element \[1\] is 5; allowed: 0 to 4"):
        ops.nll_loss(x, np.array([0, 5, 1]), weight, 1, -100)
    with pytest.raises(AclError, match=r"target element \[2\] is -1"):
        ops.cross_entropy_loss(x, np.array([0, 3, -1]), None, "mean", -100, 0.0, 0.0, False)


@pytest.mark.parametrize("how", REDUCTIONS)
@pytest.mark.parametrize("smoothing", [0.0, 0.25])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_cross_entropy_loss(dtype: Any, weighted: bool, smoothing: float, how: str) -> None:
    x, target = normal(9, 6, dtype=dtype), np.random.default_rng(6).integers(0, 6, 9)
    target[2] = 4
    weight = np.linspace(0.5, 2, 6, dtype=np.float32) if weighted else None
    doubles = None if weight is None else tensor(weight)

    def loss(a: Any) -> Any:
        return F.cross_entropy(a, tensor(target), doubles, ignore_index=4, reduction=how, label_smoothing=smoothing)

    result, log_prob, _, _ = ops.cross_entropy_loss(x, target, weight, how, 4, smoothing, 0.0, False)
    check(result.reshape(-1), oracle(loss, x).reshape(-1), 3)
    check(log_prob, oracle(lambda a: torch.log_softmax(a, 1), x))
    grad = normal(9, dtype=dtype, seed=5) if how == "none" else np.array([0.75], dtype)
    exact = oracle(lambda a: torch.log_softmax(a, 1), x).astype(dtype)
    wanted = gradients(loss, grad.reshape((9,) if how == "none" else ()), x)[0]
    actual = ops.cross_entropy_loss_grad(grad, exact, target, weight, None, None, how, 4, smoothing, 0.0)
    check(actual, wanted, 6)


def test_cross_entropy_of_a_shard() -> None:
    logits, target = normal(4, 16), np.array([3, 20, 16, 31], np.int32)
    highest = logits.max(1)
    predicted, sums, e, offset, mask = direct("CrossEntropySumExpAndIndexLogit")(logits, target, highest, 16, 32)
    np.testing.assert_array_equal(mask, [True, False, False, False])
    np.testing.assert_array_equal(offset, [0, 4, 0, 15])
    np.testing.assert_array_equal(predicted, np.where(mask, 0, logits[range(4), offset] - highest))
    check(e, np.exp(logits.astype(np.float64) - highest[:, None]))
    check(sums.astype(np.float32), e.sum(1))
    soft, loss = np.empty((4, 16), np.float32), np.empty(4, np.float32)
    ops.fused_cross_entropy_loss_with_max_sum(
        highest, sums.astype(np.float32), predicted.astype(np.float32), 0.0, None, None, out=(logits, loss, soft)
    )
    check(soft, oracle(lambda a: torch.softmax(a, 1), logits), 2)
    check(loss, np.log(sums) - predicted, 2)


@pytest.mark.parametrize("reduction", [0, 1, 2])
@pytest.mark.parametrize("shape", [(4, 6), (6,)])
def test_multilabel_margin_loss(shape: Any, reduction: int) -> None:
    x = normal(*shape)
    target = np.array([[0, 3, -1, 1, 2, -1], [5, -1, 2, 2, 2, 2], [-1, 1, 1, 1, 1, 1], [5, 4, 3, 2, 1, 0]])
    target = target[: 4 if len(shape) == 2 else 1].reshape(shape)
    wanted, named = torch.ops.aten.multilabel_margin_loss_forward(tensor(x), tensor(target), reduction)
    result, is_target = ops.multilabel_margin_loss(x, target, reduction)
    check(result, wanted.numpy(), 2)
    np.testing.assert_array_equal(is_target, named.numpy())


# ------------------------------------------------------------------------------------------------- CTC

LENGTHS = [(12, 10, 12, 3), (4, 3, 1, 3)]  # of steps and labels; the last sample's labels repeat, so it needs 5 steps


@pytest.mark.parametrize("zero", [False, True])
@pytest.mark.parametrize("padded", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_ctc_loss(dtype: Any, padded: bool, zero: bool) -> None:
    inputs, counts = LENGTHS
    log_probs = oracle(lambda a: torch.log_softmax(a, 2), normal(12, 4, 7)).astype(dtype)
    targets = np.array([[1, 2, 2, 6], [3, 3, 1, 0], [5, 0, 0, 0], [4, 4, 4, 0]])
    given = targets if padded else np.concatenate([row[:n] for row, n in zip(targets, counts)])
    wanted, alphas = torch.ops.aten._ctc_loss(tensor(log_probs), tensor(targets), inputs, counts, 0, zero)
    result, log_alpha = ops.ctc_loss(log_probs, given, inputs, counts, 0, zero)
    expected = wanted.numpy().copy()
    assert np.isinf(expected[3])
    expected[3] = 0 if zero else np.inf
    check(result, expected, 2)
    for sample_alphas, exact, steps, labels in zip(log_alpha, alphas.numpy(), inputs, counts):
        check(sample_alphas[:steps, : 2 * labels + 1], exact[:steps, : 2 * labels + 1], 2)
        assert (sample_alphas[steps:] == -np.inf).all()
    if not zero:
        return
    grad = normal(4, dtype=dtype, seed=5)
    likelihood = wanted.numpy().astype(dtype)
    slope = ops.ctc_loss_backward(grad, log_probs, given, inputs, counts, likelihood, log_alpha, 0, True)
    exact = torch.ops.aten._ctc_loss_backward(
        tensor(grad), tensor(log_probs), tensor(targets), inputs, counts, wanted, alphas, 0, True
    )
    check(slope, exact.numpy(), 60)


@pytest.mark.parametrize("blank", [0, 2])
def test_ctc_loss_where_a_label_is_the_blank(blank: int) -> None:
    log_probs = oracle(lambda a: torch.log_softmax(a, 2), normal(9, 3, 5)).astype(np.float32)
    targets, inputs, counts = np.array([[2, 1, 0], [2, 2, 3], [0, 0, 4]]), [9, 8, 9], [3, 3, 2]
    wanted, _ = torch.ops.aten._ctc_loss(tensor(log_probs), tensor(targets), inputs, counts, blank, False)
    result, log_alpha = ops.ctc_loss(log_probs, targets, inputs, counts, blank, False)
    check(result, wanted.numpy(), 2)
    slope = ops.ctc_loss_backward(
        np.ones(3, np.float32), log_probs, targets, inputs, counts, result, log_alpha, blank, False
    )
    logits = tensor(log_probs).requires_grad_()
    normalised = torch.log_softmax(logits, 2)  # torch's own backward loses a path where the last label is the blank
    states = [[blank, *(s for label in row[:n] for s in (label, blank))] for row, n in zip(targets.tolist(), counts)]
    losses = [path_loss(normalised[:steps, i], states[i]) for i, steps in enumerate(inputs)]
    check(result, torch.stack(losses).detach().numpy(), 2)
    torch.stack(losses).sum().backward()
    check(slope, logits.grad.numpy(), 60)


def path_loss(log_probs: Any, states: list[int]) -> Any:
    """-log of the probability of all paths through the states, one transition after the other."""
    never = torch.full((), -float("inf"), dtype=torch.float64)
    alpha = [log_probs[0, s] if i < 2 else never for i, s in enumerate(states)]
    for step in log_probs[1:]:
        before = alpha
        alpha = []
        for i, s in enumerate(states):
            ways = before[max(i - 1, 0) : i + 1]
            if i > 1 and s != states[i - 2]:
                ways = [before[i - 2], *ways]
            ways = [way for way in ways if way > never]
            alpha.append(torch.logsumexp(torch.stack(ways), 0) + step[s] if ways else never)
    return -torch.logsumexp(torch.stack(alpha[-2:]), 0)


def test_zero_infinity_zeroes_the_gradient_of_a_loss_that_ctc_loss_has_zeroed() -> None:
    log_probs = oracle(lambda a: torch.log_softmax(a, 2), normal(4, 2, 5)).astype(np.float32)
    targets, inputs, counts = np.array([[1, 1, 1], [1, 2, 0]]), [4, 4], [3, 2]  # the first needs five steps
    result, log_alpha = ops.ctc_loss(log_probs, targets, inputs, counts, 0, True)
    assert result[0] == 0 < result[1]
    slope = ops.ctc_loss_backward(
        np.ones(2, np.float32), log_probs, targets, inputs, counts, result, log_alpha, 0, True
    )
    logits = torch.from_numpy(log_probs.astype(np.float64)).requires_grad_()
    F.ctc_loss(
        torch.log_softmax(logits, 2), tensor(targets), inputs, counts, reduction="sum", zero_infinity=True
    ).backward()
    assert not slope[:, 0].any()
    check(slope, logits.grad.numpy(), 60)


def test_ctc_loss_of_one_sample() -> None:
    log_probs = oracle(lambda a: torch.log_softmax(a, 1), normal(6, 5)).astype(np.float32)
    result, _ = ops.ctc_loss(log_probs, np.array([1, 2], np.int32), [6], [2], 0, False)
    wanted = oracle(lambda a: F.ctc_loss(a[:, None], torch.tensor([[1, 2]]), (6,), (2,), reduction="none"), log_probs)
    check(result, wanted[0], 2)


# ------------------------------------------------------------------------------------------------- sets of points


def test_chamfer_distance_backward() -> None:
    first, second = normal(2, 5, 2), normal(2, 5, 2, seed=4)
    grad1, grad2 = normal(2, 5, seed=5), normal(2, 5, seed=6)

    def distances(a: Any, b: Any) -> Any:
        return ((a[:, :, None] - b[:, None]) ** 2).sum(-1)

    between = oracle(distances, first, second)
    index1, index2 = between.argmin(2).astype(np.int32), between.argmin(1).astype(np.int32)
    wanted = gradients(
        lambda a, b: (distances(a, b).amin(2) * tensor(grad1)).sum() + (distances(a, b).amin(1) * tensor(grad2)).sum(),
        np.ones(()),
        first,
        second,
    )
    result = ops.chamfer_distance_backward(first, second, index1, index2, grad1, grad2)
    for actual, expected in zip(result, wanted):
        check(actual, expected, 4)
