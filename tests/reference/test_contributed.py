"""Contributed operators, against loops over elements, OpenCV's weights and torch's gradients."""

from __future__ import annotations

import itertools
import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from rule_tools import A2, NEW_950

import ascend_aclnn as aclnn
from ascend_aclnn import ops

RNG = np.random.default_rng(5)


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
@pytest.mark.parametrize("width", [4, 5])
def test_pixels_in_pairs_share_their_colour(layout: str, dtype: Any, width: int) -> None:
    image = RNG.integers(0, 256, (2, 3, width, 3)).astype(dtype)
    weights = np.array([[0.299, 0.587, 0.114], [-0.16874, -0.33126, 0.5], [0.5, -0.41869, -0.08131]])
    yuv = image.astype(float) @ weights.T + np.array([0, 1, 1]) * (128 if dtype == np.uint8 else 0)
    wanted = np.empty((2, 3, width, 2))
    for column in range(width):
        wanted[..., column, 0] = yuv[..., column, 0]
        wanted[..., column, 1] = yuv[..., column - column % 2, 1 + column % 2]
    x = image if layout == "NHWC" else np.moveaxis(image, -1, 1)
    with aclnn.use_backend("numpy", soc=NEW_950):
        found = ops.rgb2yuv422(np.ascontiguousarray(x), layout)
    found = found if layout == "NHWC" else np.moveaxis(found, 1, -1)
    if dtype == np.uint8:
        assert np.abs(found.astype(float) - np.clip(wanted, 0, 255)).max() <= 0.501
    else:
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize("width", [4, 5])
def test_colours_of_pairs_are_averaged(width: int) -> None:
    x = RNG.integers(-20, 300, (3, width, 4)).astype(np.float16)
    x[0, 0, 0] = 2.5  # rounded away from zero
    wanted = np.empty((3, width, 2))
    for row, column in np.ndindex(3, width):
        even = column - column % 2
        if even + 1 == width:
            wanted[row, column] = x[row, column, :2]
        else:
            mean = (x[row, even].astype(float) + x[row, even + 1]) / 2
            wanted[row, column] = (x[row, even, 0], mean[1]) if column == even else (x[row, even, 2], mean[3])
    with aclnn.use_backend("numpy", soc=NEW_950):
        found = ops.yuv444_to_yuv422(x)
    assert found.dtype == np.uint8 and found[0, 0, 0] == 3
    np.testing.assert_array_equal(found, np.clip(np.sign(wanted) * np.floor(np.abs(wanted) + 0.5), 0, 255))


def gaussian(size: int, sigma: float) -> Any:
    places = np.arange(size) - size // 2
    weights = np.exp(-(places**2) / (2 * sigma**2))
    return weights / weights.sum()


@pytest.mark.parametrize(("border", "mode"), [(0, "constant"), (1, "edge"), (2, "symmetric"), (4, "reflect")])
@pytest.mark.parametrize("shape", [(9, 11), (9, 11, 3)])
def test_blurred_images(border: int, mode: Any, shape: Any) -> None:
    image = RNG.standard_normal(shape).astype(np.float32)
    padded = np.pad(image.astype(float), [(2, 2), (3, 3), *[(0, 0)] * (len(shape) - 2)], mode)
    kernel = np.outer(gaussian(5, 0.8), gaussian(7, 1.5))
    wanted = sum(kernel[i, j] * padded[i : i + 9, j : j + 11] for i, j in np.ndindex(5, 7))
    with aclnn.use_backend("numpy", soc=NEW_950):
        np.testing.assert_allclose(ops.gaussian_blur(image, (7, 5), 1.5, 0.8, border), wanted, rtol=1e-4, atol=1e-5)
        one = ops.gaussian_blur(
            np.eye(5, dtype=np.float32)[2:3].T @ np.eye(5, dtype=np.float32)[2:3], (5, 3), 0.0, 0.0, 0
        )
        np.testing.assert_array_equal(one, np.outer([0, 1, 2, 1, 0], [1, 4, 6, 4, 1]) / 64)  # OpenCV's, without a sigma
        by_sigma = ops.gaussian_blur(image, (0, 0), 0.5, 0.0, border)  # four sigma to each side: 5
        np.testing.assert_allclose(by_sigma, ops.gaussian_blur(image, (5, 5), 0.5, 0.5, border))


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("override", [0, 7])
def test_gradients_of_means(padded: bool, override: int) -> None:
    torch = pytest.importorskip("torch", reason="the gradient is torch's")
    x = torch.randn(2, 3, 7, 6, dtype=torch.float64, requires_grad=True)
    y = torch.nn.functional.avg_pool2d(x, (3, 2), (2, 1), 1, False, padded, override or None)
    grad = RNG.standard_normal(y.shape).astype(np.float32)
    y.backward(torch.tensor(grad, dtype=torch.float64))
    found = ops.average_pooling_grad((2, 3, 7, 6), grad, 3, 2, 2, 1, 1, 1, 1, 1, False, padded, override)
    np.testing.assert_allclose(found, x.grad.numpy(), rtol=1e-5, atol=1e-6)


def test_gradients_of_maxima() -> None:
    x = RNG.permutation(24).reshape(4, 6).astype(np.float32)
    y = x.reshape(2, 2, 3, 2).max((1, 3)).repeat(2, 0).repeat(2, 1)
    grad = RNG.standard_normal((4, 6)).astype(np.float32)
    np.testing.assert_array_equal(ops.max_pooling_grad(grad, x, y), np.where(x == y, grad, 0))


# ------------------------------------------------------------------------------------------------- plain meanings


def run(name: str, *arguments: Any, soc: str = A2, **named: Any) -> Any:
    with aclnn.use_backend("numpy", soc=soc):
        return getattr(ops, name)(*arguments, **named)


def windows_of(x: Any, axis: int, kernel: int, stride: int, before: int, after: int, dilation: int, ceil: bool) -> Any:
    """The elements of each window of one axis of an array; a last one that begins behind the elements does not count."""
    n = x.shape[axis]
    room = n + before + after - dilation * (kernel - 1) - 1
    count = (math.ceil if ceil else math.floor)(room / stride) + 1
    if ceil and (count - 1) * stride >= n + before:
        count -= 1
    return [[p for k in range(kernel) if 0 <= (p := i * stride - before + k * dilation) < n] for i in range(count)]


def brute_maxima(x: Any, of_axes: Any, axes: Any) -> Any:
    for axis, groups in zip(axes, of_axes):
        parts = [x.take(g, axis).max(axis) if g else np.full(x.take(0, axis).shape, -np.inf) for g in groups]
        x = np.stack(parts, axis)
    return x


@pytest.mark.parametrize("ceil", [False, True])
def test_largest_elements_of_planes(ceil: bool) -> None:
    x = RNG.standard_normal((2, 3, 7, 6)).astype(np.float16)
    found = run("max_pool_v3", x, [1, 1, 3, 2], [1, 1, 2, 3], [1, 0, 1, 2], ceil)
    axes = windows_of(x, 2, 3, 2, 1, 0, 1, ceil), windows_of(x, 3, 2, 3, 1, 2, 1, ceil)
    np.testing.assert_array_equal(found, brute_maxima(x, axes, (2, 3)))


@pytest.mark.parametrize("layout", ["NDHWC", "NCDHW"])
@pytest.mark.parametrize("padding", ["VALID", "SAME", "CALCULATED"])
def test_largest_elements_of_boxes(layout: str, padding: str) -> None:
    x = RNG.standard_normal((2, 7, 5, 6, 7) if layout == "NCDHW" else (2, 5, 6, 7, 3)).astype(np.float32)
    kernel, stride, dilation, pads = (2, 3, 2), (2, 1, 3), (2, 1, 2), (1, 0, 1, 1, 0, 2)
    first = 2 if layout == "NCDHW" else 1
    groups = []
    for axis, (k, s, d) in enumerate(zip(kernel, stride, dilation)):
        n, before, after = x.shape[first + axis], *pads[2 * axis : 2 * axis + 2]
        if padding != "CALCULATED":
            before = after = 0
        if padding == "SAME":
            count = math.ceil(n / s)
            needed = max((count - 1) * s + (k - 1) * d + 1 - n, 0)
            before, after = needed // 2, needed - needed // 2
        groups.append(windows_of(x, first + axis, k, s, before, after, d, padding == "CALCULATED"))
        if padding == "SAME":
            groups[-1] = groups[-1][:count]
    found = run("max_pool3_d", x, kernel, stride, padding, pads, dilation, 1, layout)
    np.testing.assert_array_equal(found, brute_maxima(x, groups, range(first, first + 3)))


def test_one_element_of_an_axis_is_repeated() -> None:
    column = np.arange(8, dtype=np.float32)[:, None]
    np.testing.assert_array_equal(run("broadcast_v2", column, 0, 2, 0, 1, 3), column * np.ones((1, 3)))
    with pytest.raises(aclnn.UnsupportedOperator, match="depends on the number of cores"):
        run("broadcast_v2", column, 0, 2, 0, 0, 3)


@pytest.mark.parametrize("descending", [False, True])
def test_indices_go_with_their_values(descending: bool) -> None:
    x = RNG.integers(0, 4, (5, 6)).astype(np.float16)
    index = RNG.integers(0, 99, (5, 6)).astype(np.uint32)
    found = run("sort_v2", x, index, 0, descending)
    for column in range(6):
        pairs = sorted(zip(x[:, column], index[:, column]), key=lambda p: -p[0] if descending else p[0])
        assert list(zip(found.out[:, column], found.dst_index[:, column])) == pairs


def test_a_view_is_copied_into_a_view() -> None:
    dst, src = RNG.integers(0, 99, (4, 5)).astype(np.int16), RNG.integers(0, 99, 30).astype(np.int16)
    geometry = ([2, 3], [6, 2], [1], [2, 3], [1, 4], [3])
    found = run("view_copy", dst, *(np.array(g) for g in geometry[:3]), src, *(np.array(g) for g in geometry[3:]))
    wanted = dst.reshape(-1).copy()
    for i, j in np.ndindex(2, 3):
        wanted[1 + 6 * i + 2 * j] = src[3 + i + 4 * j]
    np.testing.assert_array_equal(found.reshape(-1), wanted)
    with pytest.raises(aclnn.AclError, match="dst_stride leads to element 21; dst has 20"):
        run("view_copy", dst, *map(np.array, ([2], [20], [1])), src, *map(np.array, ([2], [1], [0])))


def test_rows_are_written_in_order() -> None:
    x, updates = RNG.standard_normal((5, 3)).astype(np.float32), RNG.standard_normal((4, 3)).astype(np.float32)
    wanted = x.copy()
    for row, update in zip([3, 0, 3, 1], updates):
        wanted[row] = update
    np.testing.assert_array_equal(run("scatterupdate_v2", x, np.array([3, 0, 3, 1], np.int32), updates), wanted)


def test_statistics_of_channels_are_updated() -> None:
    torch = pytest.importorskip("torch", reason="the normalisation is torch's")
    x, mean, variance = RNG.standard_normal((3, 2, 4, 5)), RNG.standard_normal(2), RNG.uniform(0.5, 2, 2)
    x, mean, variance = (v.astype(np.float32) for v in (x, mean, variance))
    found = run("sync_bn_training_update_v2", x, mean, variance, 0.9)
    wanted = torch.nn.functional.batch_norm(torch.tensor(x).double(), None, None, training=True, eps=1e-6)
    np.testing.assert_allclose(found.y1, wanted, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(found.y2, 0.9 * mean + 0.1 * x.mean((0, 2, 3)), rtol=1e-5)
    np.testing.assert_allclose(found.y3, 0.9 * variance + 0.1 * x.var((0, 2, 3)), rtol=1e-5)


def test_rows_become_three_digits() -> None:
    """Digits as the README has them, with the fractions of Python."""
    x = RNG.standard_normal((2, 256)).astype(np.float16)
    weight = RNG.integers(-8, 8, (256, 3)).astype(ml_dtypes.int4)
    scale = RNG.uniform(0.5, 2, (2, 3)).astype(np.float16)
    wanted = np.zeros((2, 3))
    for row, group in np.ndindex(2, 2):
        own = x[row, group * 128 : group * 128 + 128].astype(float)
        most = np.abs(own).max()
        for k, value in enumerate(own):
            first = 7.49 * value / most
            second = (first - round(first)) * 14.98
            third = (second - round(second)) * 14.98
            restored = round(first) / 7.49 + round(second) / 7.49 / 14.98 + round(third) / 7.49 / 14.98**2
            wanted[row] += most * restored * weight[group * 128 + k].astype(float) * scale[group].astype(float)
    found = run("weight_quant_batch_matmul_experiment", x, weight, scale)
    np.testing.assert_allclose(found.astype(float), wanted, rtol=2e-3, atol=2e-2)


def alignments(frames: int, labels: int) -> Any:
    """All ways from (0, 0) to the last blank: for each, the (frame, label, is a blank) of its steps."""
    for places in itertools.combinations(range(frames + labels - 1), labels):
        t, u, steps = 0, 0, []
        for step in range(frames + labels - 1):
            steps.append((t, u, step not in places))
            t, u = (t, u + 1) if step in places else (t + 1, u)
        yield [*steps, (t, u, True)]


@pytest.mark.parametrize("fused", [True, False])
def test_sums_over_alignments(fused: bool) -> None:
    torch = pytest.importorskip("torch", reason="the gradient is torch's")
    logits = RNG.standard_normal((2, 4, 3, 5)).astype(np.float32)
    targets = np.array([[1, 3], [2, 0]], np.int32)
    frames, labels = np.array([4, 3], np.int32), np.array([2, 1], np.int32)
    x = torch.tensor(logits, dtype=torch.float64, requires_grad=True)
    log = x.log_softmax(-1) if fused else x
    losses = []
    for b in range(2):
        ways = [
            sum(log[b, t, u, -1 if blank else int(targets[b, u])] for t, u, blank in steps)
            for steps in alignments(int(frames[b]), int(labels[b]))
        ]
        losses.append(-torch.logsumexp(torch.stack(ways), 0))
    sum(losses).backward()
    found = run("optimized_transducer", logits, targets, frames, labels, -1, -1.0, fused, True)
    np.testing.assert_allclose(found.loss, [loss.item() for loss in losses], rtol=1e-5)
    np.testing.assert_allclose(found.grad, x.grad.numpy(), rtol=1e-4, atol=1e-6)
    clamped = run("optimized_transducer", logits, targets, frames, labels, -1, 0.1, fused, True)
    np.testing.assert_allclose(clamped.grad, np.clip(x.grad.numpy(), -0.1, 0.1), rtol=1e-4, atol=1e-6)


def test_factors_of_tall_matrices() -> None:
    a = RNG.standard_normal((2, 128, 16)).astype(np.float32)
    q, r = run("tsqr", a, 32)
    np.testing.assert_allclose(q @ r, a, atol=1e-5)
    np.testing.assert_allclose(q.swapaxes(1, 2) @ q, np.broadcast_to(np.eye(16), (2, 16, 16)), atol=1e-5)
    np.testing.assert_array_equal(np.tril(r, -1), 0)
    for number, matrix in enumerate(a.astype(float)):  # a reflection turns the sign of the column's first element
        tops = [-math.copysign(np.linalg.norm(matrix[i : i + 32, 0]), matrix[i, 0]) for i in range(0, 128, 32)]
        while len(tops) > 1:
            tops = [-math.copysign(math.hypot(*tops[i : i + 2]), tops[i]) for i in range(0, len(tops), 2)]
        assert r[number, 0, 0] == pytest.approx(tops[0], rel=1e-5)
    with pytest.raises(aclnn.AclError, match="block_size") as refused:
        run("tsqr", a, 48)
    assert refused.value.status == 561002


def test_factors_of_flat_matrices() -> None:
    a = RNG.standard_normal((3, 4, 9)).astype(np.float32)
    u, s, v = run("jacobi", a, 10)
    np.testing.assert_allclose(u.swapaxes(1, 2) @ (s[..., None] * v), a, atol=1e-5)
    np.testing.assert_allclose(v @ v.swapaxes(1, 2), np.broadcast_to(np.eye(4), (3, 4, 4)), atol=1e-5)
    np.testing.assert_allclose(s**2, np.linalg.eigvalsh(a @ a.swapaxes(1, 2))[:, ::-1], rtol=1e-4)


@pytest.mark.parametrize("with_offset", [False, True])
def test_experts_of_4_bits(with_offset: bool) -> None:
    tokens, hidden, inner, experts, topk, group = 3, 64, 32, 4, 2, 32
    x = RNG.standard_normal((tokens, hidden)).astype(np.float16)
    whole = [RNG.integers(-8, 8, s) for s in ((experts, hidden, 2 * inner), (experts, inner, hidden))]
    packed = []
    for w in whole:
        squares = w.reshape(experts, w.shape[1] // 16, 16, w.shape[2] // 16, 16).swapaxes(2, 3)
        eights = (squares.reshape(*squares.shape[:-1], 2, 8).astype(np.int64) & 15) << 4 * np.arange(8)
        packed.append(eights.sum(-1).astype(np.uint32).view(np.int32))
    scales = [RNG.uniform(0.01, 0.1, (experts, w.shape[1] // group, w.shape[2])).astype(np.float16) for w in whole]
    offsets = [RNG.integers(-2, 3, s.shape).astype(np.float16) for s in scales] if with_offset else [None, None]
    chosen = np.stack([RNG.permutation(experts)[:topk] for _ in range(tokens)])
    weights = RNG.uniform(0, 1, (tokens, topk)).astype(np.float16)
    order = np.argsort(chosen.reshape(-1), kind="stable")
    places = np.argsort(order).reshape(tokens, topk).astype(np.int32)
    found = run(
        "moe_ffn",
        *(x, packed[0], scales[0], packed[1], scales[1]),
        chosen.reshape(-1)[order].astype(np.int32),
        (order // topk).astype(np.int32),
        places,
        weights,
        *offsets,
        scale_group_size=group,
        topk=topk,
    )
    restored = [
        (w + (0 if o is None else o.astype(float).repeat(group, 1))) * s.astype(float).repeat(group, 1)
        for w, s, o in zip(whole, scales, offsets)
    ]
    for token in range(tokens):
        wanted = np.zeros(hidden)
        for expert, weight in zip(chosen[token], weights[token].astype(float)):
            gate, linear = np.split(x[token].astype(float) @ restored[0][expert], 2)
            wanted += weight * ((gate / (1 + np.exp(-gate)) * linear) @ restored[1][expert])
        np.testing.assert_allclose(found[token].astype(float), wanted, rtol=1e-2, atol=1e-2)
