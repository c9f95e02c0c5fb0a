"""Inputs without elements that CANN accepts: what it fills, what it leaves as it was, and what it does not accept."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ascend_aclnn as aclnn
import samples
from ascend_aclnn import AclError, catalog, ops

F32, F16 = np.float32, np.float16


def ones(*shape: int, dtype: Any = F32) -> np.ndarray:
    return np.ones(shape, dtype)


# ------------------------------------------------------------------------------------------------- zeros, or untouched


@pytest.mark.parametrize("function", [ops.softmax_backward, ops.log_softmax_backward])
def test_a_softmax_gradient_of_nothing_is_not_written(function: Any) -> None:
    assert not function(ones(2, 3), ones(2, 0), 1).any()
    assert function(ones(0, 3), ones(0, 3), 1).shape == (0, 3)


def test_an_operator_that_ends_early_leaves_memory_in_place_alone() -> None:
    cache = np.arange(24, dtype=np.int8).reshape(2, 1, 4, 3)
    indices, updates, scales, points = np.array([0, 1]), ones(2, 1, 1, 3, dtype=F16), ones(3), np.zeros(3, np.int32)
    before = cache.copy()
    for emptied in (
        (indices[:0], updates, scales),
        (indices, updates[:, :, :, :0], scales),
        (indices, updates, scales[:0]),
    ):
        ops.inplace_quant_scatter(cache, *emptied, points, -2, -1, 1)
        assert np.array_equal(cache, before)
    ops.inplace_quant_scatter(cache, indices, updates, scales, points, -2, -1, 1)
    assert not np.array_equal(cache, before)


def test_regions_of_no_image_are_zeros() -> None:
    boxes = np.array([[0, 0, 2, 2]], F32)
    actual = ops.roi_align(ones(0, 3, 4, 4), boxes, np.zeros(1, np.int32), "avg", 3, 2, 0, 1.0)
    assert actual.shape == (1, 3, 3, 2)
    assert not actual.any()


@pytest.mark.parametrize("batch", [0, 2])
def test_gradients_of_a_convolution_without_operands_are_zeros(batch: int) -> None:
    """Also that of the bias where there are channels out, but none in: CANN fills it, and does not sum."""
    channels = 0 if batch else 3
    actual = ops.convolution_backward(
        ones(batch, 4, 4),
        ones(batch, channels, 6),
        ones(4, channels, 3),
        [4],
        [1],
        [0],
        [1],
        False,
        [0],
        1,
        [True] * 3,
        0,
    )
    assert [x.shape for x in actual] == [(batch, channels, 6), (4, channels, 3), (4,)]
    assert not any(x.any() for x in actual)


@pytest.mark.parametrize("emptied", ["grad_out", "x"])
def test_sums_of_a_batch_norm_without_elements_are_zeros(emptied: str) -> None:
    grad, x = (ones(0 if emptied == name else 8, 3, 4) for name in ("grad_out", "x"))
    actual = ops.batch_norm_reduce_backward(grad, x, ones(3), ones(3), ones(3), True, True, True)
    assert [value.shape for value in actual] == [(3,)] * 4
    assert not any(value.any() for value in actual)


# ------------------------------------------------------------------------------------------------- other numbers


@pytest.mark.filterwarnings("ignore:reduction. .mean.")
@pytest.mark.parametrize("reduction", ["none", "mean", "sum", "batchmean"])
@pytest.mark.parametrize("log_target", [False, True])
def test_kl_divergence_of_nothing_is_torchs(reduction: str, log_target: bool) -> None:
    torch = pytest.importorskip("torch", reason="torch is what divergences of nothing are compared with")
    empty = torch.empty(0, 3)
    wanted = torch.nn.functional.kl_div(empty, empty, reduction=reduction, log_target=log_target).numpy()
    number = ["none", "mean", "sum", "batchmean"].index(reduction)
    np.testing.assert_array_equal(ops.kl_div(empty.numpy(), empty.numpy(), number, log_target), wanted)


def test_kl_divergence_of_operands_that_do_not_fit() -> None:
    """NaN for a mean, also over a batch of nothing; 0 for sums; nothing is compared."""
    actual = [ops.kl_div(ones(3), ones(0), reduction, False) for reduction in (1, 2, 3)]
    assert [str(float(x)) for x in actual] == ["nan", "0.0", "0.0"]
    assert np.isnan(ops.kl_div(ones(0), ones(3), 3, False))


def test_training_on_an_empty_batch_keeps_what_ran() -> None:
    mean, variance = np.array([1, 2, 3], F32), np.array([4, 5, 6], F32)
    *_, out, saved, inverse = ops.batch_norm(ones(0, 3, 2), None, None, mean, variance, True, 0.1, 1e-5)
    assert out.shape == (0, 3, 2)
    assert not saved.any()
    assert np.isnan(inverse).all()
    assert mean.tolist() == [1, 2, 3]
    assert variance.tolist() == [4, 5, 6]


def attend(query: np.ndarray, key: np.ndarray, value: np.ndarray) -> Any:
    return ops.flash_attention_score(
        query, key, value, None, None, None, None, None, 1.0, 1.0, 65536, 65536, query.shape[1], "BNSD", 0, 0
    )


def test_attention_over_no_keys_is_zeros() -> None:
    query, key = ones(1, 2, 4, 16, dtype=F16), ones(1, 2, 0, 16, dtype=F16)
    highest, total, output = (x for x in attend(query, key, key) if x is not None)
    assert (highest.shape, total.shape, output.shape) == ((1, 2, 4, 8), (1, 2, 4, 8), (1, 2, 4, 16))
    assert not any(x.any() for x in (highest, total, output))


def test_fused_inference_over_no_keys_has_no_weight() -> None:
    """Zeros, and infinite logarithms of sums, as CANN documents them."""
    query, key = ones(1, 4, 32, dtype=F16), ones(1, 0, 32, dtype=F16)
    output, lse = ops.fused_infer_attention_score(
        query,
        [key],
        [key],
        num_heads=2,
        scale_value=1.0,
        input_layout="BSH",
        num_key_value_heads=2,
        softmax_lse_flag=True,
    )
    assert output.shape == (1, 4, 32)
    assert not output.any()
    assert lse.shape == (1, 2, 4, 1)
    assert np.isposinf(lse).all()


# ------------------------------------------------------------------------------------------------- no tokens


def example(name: str, **emptied: int) -> dict[str, Any]:
    """The arguments of an operator's example by C name, some without elements on an axis."""
    operator = catalog.get(name)
    arguments = dict(zip((p.name for p in operator.inputs), samples.call(operator).arguments))
    return arguments | {key: arguments[key].take([], axis) for key, axis in emptied.items()}


@pytest.mark.parametrize(
    ("name", "index", "caches"),
    [
        ("aclnnMlaProlog", "cacheIndex", ("kvCacheRef", "krCacheRef")),
        ("aclnnMlaPrologV3", "cacheIndexOptional", ("kvCacheRef", "krCacheRef")),
    ],
)
def test_no_tokens_leave_the_caches_of_latent_attention_alone(name: str, index: str, caches: tuple[str, str]) -> None:
    tokens = {"tokenX": 0, "ropeSin": 0, "ropeCos": 0, index: 0}
    if name == "aclnnMlaPrologV3":
        tokens["dequantScaleXOptional"] = 0
    arguments = example(name, **tokens)
    for number, cache in enumerate(caches):
        arguments[cache] = np.full_like(arguments[cache], number + 1)
    heads, _, latent = arguments["weightUk"].shape
    with aclnn.use_backend("numpy", soc=samples.soc(catalog.get(name))):
        actual = getattr(ops, catalog.get(name).python_name)(*arguments.values())
    for number, cache in enumerate(caches):
        assert (arguments[cache] == number + 1).all()
    assert [x.shape for x in actual if x is not None and x.shape[1:] == (heads, latent)] == [(0, heads, latent)]


def test_no_tokens_are_routed_with_counts_of_zero() -> None:
    arguments = example("aclnnMoeInitRoutingV3", x=0, expertIdx=0, scaleOptional=0)
    expanded, rows, counts, scales = ops.moe_init_routing_v3(*arguments.values())
    assert (expanded.shape, rows.shape, scales.shape) == ((0, 12), (0,), (0,))
    assert counts.tolist() == [0, 0, 0]


def test_rows_without_width_are_routed_all_the_same() -> None:
    """Where the rows of each token would go depends on the experts alone."""
    whole = example("aclnnMoeInitRoutingV2")
    assert whole["x"].shape[1] > 0
    wanted = ops.moe_init_routing_v2(*whole.values())
    actual = ops.moe_init_routing_v2(*example("aclnnMoeInitRoutingV2", x=1).values())
    assert actual[0].shape == (*wanted[0].shape[:-1], 0)
    np.testing.assert_array_equal(actual[1], wanted[1])


@pytest.mark.parametrize("version", ["V2", "V3", "V4"])
def test_rows_of_experts_are_added_up_where_they_have_no_weights(version: str) -> None:
    """As the documents of Ascend 950 have it; elsewhere weights are required."""
    name = f"aclnnMoeDistributeCombine{version}"
    function, given = getattr(ops, catalog.get(name).python_name), example(name)
    assert given["expertScales"].size
    given["expertScales"] = np.ones_like(given["expertScales"])
    with aclnn.use_backend("numpy", soc="Ascend950PR_9599"):
        wanted = function(*given.values())
        actual = function(*example(name, expertScales=0).values())
    np.testing.assert_array_equal(actual, wanted)
    assert refused(lambda: function(*example(name, expertScales=0).values())) == (561002, "expert_scales")


# ------------------------------------------------------------------------------------------------- refused


def refused(call: Any) -> tuple[int, str]:
    with pytest.raises(AclError) as caught:
        call()
    return caught.value.status, str(caught.value.argument)


def test_shapes_that_only_an_empty_tensor_has_are_refused() -> None:
    """Where the others have elements, CANN's tiling (or the document, where no check is public) wants theirs."""
    x = ones(8, 64)
    assert refused(lambda: ops.add_layer_norm(x, x, ones(64), ones(64), ones(0, 64), 1e-5, False)) == (561002, "bias")
    query = ones(1, 1, 16, 16, dtype=F16)
    assert refused(lambda: attend(query, query, query[:, :, :0])) == (561002, "value")
    for name, emptied, wanted in (
        ("aclnnMoeDistributeCombineV2", {"expandX": 1}, (561002, "expand_x")),
        ("aclnnMoeDistributeDispatchV2", {"x": 0}, (561002, "expert_ids")),
        ("aclnnKvRmsNormRopeCache", {"kCacheRef": 0}, (561002, "k_cache")),
        ("aclnnNsaSelectedAttention", {"topkIndices": 0}, (561002, "topk_indices")),
        ("aclnnMlaProlog", {"weightUk": 0}, (561002, "weight_uk")),
    ):
        function = getattr(ops, catalog.get(name).python_name)
        assert refused(lambda: function(*example(name, **emptied).values())) == wanted  # noqa: B023


def test_idle_inputs_are_inputs() -> None:
    wrong = []
    for operator in map(catalog.get, catalog.names()):
        idle, tensors = set(operator.idle_if_empty), {p.name for p in operator.inputs if "Tensor" in p.ctype}
        wrong += [f"{operator.name}: {name} is no tensor that it reads" for name in sorted(idle - tensors)]
        wrong += [f"{operator.name}: {name} may not be empty" for name in sorted(idle & set(operator.not_empty))]
    assert wrong == []


def test_an_idle_operator_runs_with_elements_again() -> None:
    """One bound call serves tensors with and without elements."""
    with aclnn.use_backend("numpy"):
        full = ops.softmax_backward(ones(2, 3), ones(2, 3) / 3, 1)
        assert not ops.softmax_backward(ones(2, 3), ones(2, 0), 1).any()
        np.testing.assert_array_equal(ops.softmax_backward(ones(2, 3), ones(2, 3) / 3, 1), full)
