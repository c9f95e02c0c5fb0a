"""Boxes and regions against what the documents say, element by element."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ascend_aclnn import catalog, ops
from ascend_aclnn.reference import find

RNG = np.random.default_rng(5)


def boxes(count: int, size: float = 10.0) -> Any:
    start = RNG.random((count, 2)) * size
    return np.concatenate([start, start + RNG.random((count, 2)) * size / 2 + 0.5], 1).astype(np.float32)


def function(name: str) -> Any:
    found = find(catalog.get(name))
    assert found is not None
    return found.function


def overlap(a: Any, b: Any, mode: str, eps: float = 0.0) -> float:
    wide = min(a[2], b[2]) - max(a[0], b[0]) + eps
    high = min(a[3], b[3]) - max(a[1], b[1]) + eps
    both = max(wide, 0) * max(high, 0)
    first = (a[2] - a[0] + eps) * (a[3] - a[1] + eps)
    second = (b[2] - b[0] + eps) * (b[3] - b[1] + eps)
    return float(both / (second if mode == "iof" else first + second - both))


@pytest.mark.parametrize("mode", ["iou", "iof"])
@pytest.mark.parametrize("eps", [0.0, 1.0])
def test_iou(mode: str, eps: float) -> None:
    a, b = boxes(7), boxes(5)
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    expected = [[overlap(x, y, mode, eps) for y in wide_b] for x in wide_a]
    # Sides are differences of coordinates of about 10 in float32: where boxes hardly overlap, little of them is left.
    np.testing.assert_allclose(ops.iou(a, b, mode, eps, False), expected, rtol=1e-5, atol=1e-6)
    pairs = [[overlap(x, y, mode, eps)] for x, y in zip(wide_a, wide_b)]
    np.testing.assert_allclose(ops.iou(a[:5], b, mode, eps, True), pairs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("trans", [False, True])
def test_ciou(trans: bool) -> None:
    a, b = boxes(6).T, boxes(6).T
    given = [np.concatenate([(x[:2] + x[2:]) / 2, x[2:] - x[:2]]) if trans else x for x in (a, b)]
    found, difference = function("aclnnCIoU")(*given, trans, False, "iou")
    for number, (x, y) in enumerate(zip(a.T.astype(np.float64), b.T.astype(np.float64))):
        angle = np.arctan((y[2] - y[0]) / (y[3] - y[1])) - np.arctan((x[2] - x[0]) / (x[3] - x[1]))
        rho = ((x[0] + x[2] - y[0] - y[2]) ** 2 + (x[1] + x[3] - y[1] - y[3]) ** 2) / 4
        c = (max(x[2], y[2]) - min(x[0], y[0])) ** 2 + (max(x[3], y[3]) - min(x[1], y[1])) ** 2
        v = 4 / np.pi**2 * angle**2
        expected = overlap(x, y, "iou") - rho / c - v / (1 - overlap(x, y, "iou") + v) * v
        np.testing.assert_allclose(found[0, number], expected, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(difference[0, number], angle, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("center", [0, 1])
def test_non_max_suppression(center: int) -> None:
    corners = np.stack([boxes(20, 6.0) for _ in range(2)])
    scores = RNG.random((2, 3, 20)).astype(np.float32)
    given = corners
    if center:
        given = np.concatenate([(corners[..., :2] + corners[..., 2:]) / 2, corners[..., 2:] - corners[..., :2]], -1)
    actual = function("aclnnNonMaxSuppression")(given, scores, (6,), (0.3,), (0.4,), center).reshape(2, 3, 6, 3)
    for batch, group in np.ndindex(2, 3):
        chosen: list[int] = []
        for box in np.argsort(-scores[batch, group]):
            if len(chosen) < 6 and all(overlap(corners[batch, box], corners[batch, c], "iou") <= 0.3 for c in chosen):
                chosen.append(int(box))
        wanted = [(batch, group, c) if scores[batch, group, c] > 0.4 else (-1, -1, -1) for c in chosen]
        wanted += [(-1, -1, -1)] * (6 - len(wanted))
        assert actual[batch, group].tolist() == [list(w) for w in wanted]


def sample(image: Any, y: float, x: float) -> Any:
    """One value of each channel between four pixels."""
    high, wide = image.shape[1:]
    if y < -1 or y > high or x < -1 or x > wide:
        return np.zeros(len(image))
    y, x = max(y, 0.0), max(x, 0.0)
    top, left = min(int(y), high - 1), min(int(x), wide - 1)
    y, x = (top if top == high - 1 else y), (left if left == wide - 1 else x)
    bottom, right = min(top + 1, high - 1), min(left + 1, wide - 1)
    down, across = y - top, x - left
    above = image[:, top, left] * (1 - across) + image[:, top, right] * across
    below = image[:, bottom, left] * (1 - across) + image[:, bottom, right] * across
    return above * (1 - down) + below * down


def aligned_regions(
    x: Any, rois: Any, bins: tuple[int, int], scale: float, samples: int, aligned: bool, mode: str = "avg"
) -> Any:
    made = np.zeros((len(rois), x.shape[1], *bins))
    offset = 0.5 if aligned else 0.0
    for number, (batch, *box) in enumerate(rois.astype(np.float64)):
        left, top, right, bottom = (c * scale - offset for c in box)
        wide, high = right - left, bottom - top
        if not aligned:
            wide, high = max(wide, 1.0), max(high, 1.0)
        counts = [samples or max(int(np.ceil(e / b)), 1) for e, b in zip((high, wide), bins)]
        for row, column in np.ndindex(*bins):
            values = []
            for i, j in np.ndindex(*counts):
                y = top + (row + (i + 0.5) / counts[0]) * high / bins[0]
                z = left + (column + (j + 0.5) / counts[1]) * wide / bins[1]
                values.append(sample(x[int(batch)].astype(np.float64), y, z))
            made[number, :, row, column] = np.mean(values, 0) if mode == "avg" else np.max(values, 0)
    return made


ROIS = np.array([[0, 1, 2, 12, 14], [1, -3, -2, 5, 6], [0, 10, 10, 30, 31], [1, 4, 4, 4.5, 4.25]], np.float32)


@pytest.mark.parametrize("samples", [0, 2])
@pytest.mark.parametrize("aligned", [False, True])
def test_roi_align(samples: int, aligned: bool) -> None:
    x = RNG.standard_normal((2, 3, 10, 9)).astype(np.float32)
    expected = aligned_regions(x, ROIS, (3, 2), 0.7, samples, aligned)
    actual = ops.roi_align_v2(x, ROIS, 3, 2, 0.7, samples, aligned)
    np.testing.assert_allclose(actual, expected, rtol=1e-3, atol=1e-4)
    if not aligned:
        batch = ROIS[:, 0].astype(np.int32)
        first = ops.roi_align(x, ROIS[:, 1:].copy(), batch, "avg", 3, 2, samples, 0.7)
        np.testing.assert_allclose(first, expected, rtol=1e-3, atol=1e-4)
        largest = ops.roi_align(x, ROIS[:, 1:].copy(), batch, "max", 3, 2, samples, 0.7)
        expected = aligned_regions(x, ROIS, (3, 2), 0.7, samples, aligned, "max")
        np.testing.assert_allclose(largest, expected, rtol=1e-3, atol=1e-4)


def test_gradients_of_regions() -> None:
    shape, bins = (2, 2, 6, 7), (2, 3)
    grad = RNG.standard_normal((len(ROIS), 2, *bins)).astype(np.float32)
    actual = ops.roi_align_v2_backward(grad, ROIS, shape, *bins, 0.5, 2, True)
    x = RNG.standard_normal(shape).astype(np.float32)
    made = aligned_regions(x, ROIS, bins, 0.5, 2, True)
    np.testing.assert_allclose((actual * x).sum(), (made * grad).sum(), rtol=1e-4)  # <Jx, g> = <x, J'g>


def test_pooled_regions() -> None:
    x = RNG.standard_normal((2, 3, 8, 9)).astype(np.float32)
    rois = np.array([[0, 1, 2, 6, 7], [1, 0, 0, 2, 2], [0, 5, 5, 3, 3]], np.float32)
    pool, back = function("aclnnRoiPoolingWithArgMax"), function("aclnnRoiPoolingGradWithArgMax")
    values, places = pool(x, rois, 2, 3, 1.0, 1.0)
    assert (places[2] == -1).all()
    assert not values[2].any()
    for number, channel in np.ndindex(2, 3):
        image = x[int(rois[number, 0]), channel]
        there = places[number, channel]
        np.testing.assert_array_equal(values[number, channel], image.reshape(-1)[there])
    whole = x[0, :, 2:8, 1:7]  # bins of 3 by 2
    np.testing.assert_array_equal(values[0, :, 0, 0], whole[:, :3, :2].max((1, 2)))
    np.testing.assert_array_equal(values[0, :, 1, 2], whole[:, 3:, 4:].max((1, 2)))
    gradient = back(np.ones_like(values), np.zeros_like(x), rois, places, 2, 3, 1.0)
    assert gradient.sum() == (places >= 0).sum()
    assert (gradient[1] > 0).sum() == len({(c, p) for c, row in enumerate(places[1]) for p in row.reshape(-1)})


def test_images() -> None:
    rgb, frame = (RNG.integers(0, 256, (4, 5, 3)).astype(np.uint8) for _ in range(2))
    alpha = RNG.integers(0, 256, (4, 5, 1)).astype(np.uint8)
    share = alpha / 255
    blended = function("aclnnBlendImagesCustom")(rgb, alpha, frame)
    np.testing.assert_allclose(blended, rgb * share + frame * (1 - share), rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(function("aclnnMrgbaCustom")(rgb, alpha), rgb * share, rtol=1e-5, atol=1e-4)
    mask = RNG.random((4, 5, 1)).astype(np.float32)
    replaced = function("aclnnBackgroundReplace")(rgb, frame, mask)
    np.testing.assert_allclose(replaced, rgb * (1 - mask) + frame * mask, rtol=1e-5)
