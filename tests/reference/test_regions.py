"""Triangles on a screen, and the gradients of aligned regions, against loops in float64."""

from __future__ import annotations

import numpy as np
import pytest

from ascend_aclnn import AclError, ops

RNG = np.random.default_rng(37)


def rasterized(v: np.ndarray, f: np.ndarray, width: int, height: int) -> tuple[np.ndarray, np.ndarray]:
    """Each pixel by itself: signed areas tell whether its centre is inside, cross-multiplied depths which is nearest."""
    faces, shares = np.zeros((height, width), int), np.zeros((height, width, 3))
    screen = np.empty((len(v), 2))
    screen[:, 0] = (v[:, 0] / v[:, 3] * 0.5 + 0.5) * (width - 1) + 0.5
    screen[:, 1] = (0.5 + 0.5 * v[:, 1] / v[:, 3]) * (height - 1) + 0.5
    depths = v[:, 2] / v[:, 3] * 0.49999 + 0.5
    for row in range(height):
        for column in range(width):
            nearest = np.inf
            for number, face in enumerate(f, 1):
                matrix = np.vstack([screen[face].T, np.ones(3)])
                weights = np.linalg.solve(matrix, [column + 0.5, row + 0.5, 1])
                if (weights < 0).any():
                    continue
                depth = np.trunc(weights @ depths[face] * 2**18)
                if depth < nearest:
                    nearest, faces[row, column] = depth, number
                    corrected = weights / v[face, 3]
                    shares[row, column] = corrected / corrected.sum()
    return faces, shares


def test_triangles() -> None:
    rng = np.random.default_rng(37)
    v = rng.uniform(-1.2, 1.2, (12, 4)).astype(np.float32)
    v[:, 3] = rng.uniform(0.6, 1.6, 12)
    # The fifth repeats the first corner by corner: another order may round to another depth, which is then no tie.
    f = np.array([[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11], [0, 1, 2], [8, 4, 0]], np.int32)
    found, shares = ops.rasterizer(v, f, None, 40, 30, 0.0, 0)
    faces, expected = rasterized(v.astype(float), f, 40, 30)
    same = found == faces
    assert same.mean() > 0.995  # centres on an edge may be on either side of it
    assert {0, 1, 2} <= set(faces.ravel())
    np.testing.assert_allclose(shares[same], expected[same], rtol=1e-3, atol=1e-4)
    assert not (found == 5).any()  # of two triangles of the same depth the first is taken


def test_a_triangle_without_area_covers_nothing() -> None:
    v = np.array([[0, 0, 0, 1], [0.5, 0.5, 0, 1], [-0.5, -0.5, 0, 1]], np.float32)
    found, shares = ops.rasterizer(v, np.array([[0, 1, 2]], np.int32), None, 8, 8, 0.0, 0)
    assert not found.any() and not shares.any()


def test_a_corner_without_vertex_is_refused() -> None:
    v = np.ones((3, 4), np.float32)
    with pytest.raises(AclError, match="f"):
        ops.rasterizer(v, np.array([[0, 1, 3]], np.int32), None, 8, 8, 0.0, 0)


@pytest.mark.parametrize("mode", [0, 1, 2, 3])
@pytest.mark.parametrize("samples", [0, 2])
def test_gradients_of_aligned_regions(mode: int, samples: int) -> None:
    shape, high, wide, scale = (2, 3, 7, 9), 2, 3, 0.5
    boxes = np.array([[0, 1, 2, 13, 11], [1, 4, 0, 5, 1], [1, -3, -2, 20, 16]], np.float32)
    grad = RNG.standard_normal((3, 3, high, wide)).astype(np.float32)
    actual = ops.roi_align_grad(grad, boxes, None, shape, wide, high, scale, samples, mode)
    expected = np.zeros(shape)
    for (batch, *box), dy in zip(boxes.astype(float), grad.astype(float)):
        left, top, right, bottom = (c * scale - (0.5 if mode > 1 else 0) for c in box)
        width, height = right - left + scale * (mode == 1), bottom - top + scale * (mode == 1)
        if mode < 2:
            width, height = max(width, 1), max(height, 1)
        rows = samples or max(int(np.ceil(height / high)), 1)
        columns = samples or max(int(np.ceil(width / wide)), 1)
        for i in range(high * rows):
            for j in range(wide * columns):
                y, x = top + (i + 0.5) * height / high / rows, left + (j + 0.5) * width / wide / columns
                if not (-1 <= y <= 7 and -1 <= x <= 9):
                    continue
                y, x = min(max(y, 0), 6), min(max(x, 0), 8)
                share = dy[:, i // rows, j // columns] / (rows * columns)
                for row in {int(y), min(int(y) + 1, 6)}:
                    for column in {int(x), min(int(x) + 1, 8)}:
                        expected[int(batch), :, row, column] += share * (1 - abs(y - row)) * (1 - abs(x - column))
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)
