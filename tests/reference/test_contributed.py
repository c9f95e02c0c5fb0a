"""Contributed operators on images and pooled maps, against loops over pixels, OpenCV's weights and torch's gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from rule_tools import NEW_950

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
