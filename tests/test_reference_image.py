"""Resampling against CPU torch: every mode, enlarging and shrinking, by sizes and by factors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ascend_aclnn import catalog
from ascend_aclnn.reference import find

torch = pytest.importorskip("torch", reason="torch is not installed: resampling is not compared with it")
F = torch.nn.functional

# Operator (and its gradient), mode of interpolate, spatial sizes, whether alignCorners is a parameter.
OPERATORS = [
    ("Nearest1dV2", "Nearest1dBackward", "nearest", 1, False),
    ("Nearest2dV2", "Nearest2dBackward", "nearest", 2, False),
    ("Nearest3d", "Nearest3dBackward", "nearest", 3, False),
    ("NearestExact1d", "NearestExact1dBackward", "nearest-exact", 1, False),
    ("NearestExact2d", "NearestExact2dBackward", "nearest-exact", 2, False),
    ("NearestExact3d", "NearestExact3dBackward", "nearest-exact", 3, False),
    ("Linear1d", "Linear1dBackward", "linear", 1, True),
    ("Bilinear2d", "Bilinear2dBackward", "bilinear", 2, True),
    ("Trilinear3d", "Trilinear3dBackward", "trilinear", 3, True),
    ("Bicubic2d", "Bicubic2dBackward", "bicubic", 2, True),
    ("Bilinear2dAA", "Bilinear2dAABackward", "bilinear", 2, True),
    ("Bicubic2dAA", "Bicubic2dAAGrad", "bicubic", 2, True),
]
SIZES = {"larger": (7, 11, 13), "smaller": (3, 2, 4), "mixed": (9, 3, 6), "one": (1, 1, 1)}


def function(name: str) -> Any:
    found = find(catalog.get(f"aclnnUpsample{name}"))
    assert found is not None
    return found.function


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES.keys())
@pytest.mark.parametrize(
    "name, backward, mode, axes, aligned, align",
    [pytest.param(*row, align, id=f"{row[0]}-{align}") for row in OPERATORS for align in (False, True)[: 1 + row[4]]],
)
def test_sizes(name: str, backward: str, mode: str, axes: int, aligned: bool, align: bool, sizes: Any) -> None:
    image = torch.rand(2, 3, *(5, 6, 8)[:axes], generator=torch.Generator().manual_seed(1), requires_grad=True)
    options = {"align_corners": align} if aligned else {}
    wanted = F.interpolate(image, size=sizes[:axes], mode=mode, antialias=name.endswith("AA"), **options)
    grad = torch.linspace(-1, 1, wanted.numel()).reshape(wanted.shape)
    (slope,) = torch.autograd.grad(wanted, image, grad)
    rest = ((align,) if aligned else ()) + (0.0,) * axes
    found = function(name)(image.detach().numpy(), sizes[:axes], *rest)
    np.testing.assert_allclose(found, wanted.detach().numpy(), rtol=1e-5, atol=2e-6)
    shape = tuple(image.shape)
    found = function(backward)(grad.numpy(), sizes[:axes], shape, *rest)
    np.testing.assert_allclose(found, slope.numpy(), rtol=1e-5, atol=5e-6)


@pytest.mark.parametrize("factor", [2.0, 1.7, 0.6])
@pytest.mark.parametrize("name, backward, mode, axes, aligned", OPERATORS, ids=[row[0] for row in OPERATORS])
def test_factors(name: str, backward: str, mode: str, axes: int, aligned: bool, factor: float) -> None:
    image = torch.rand(1, 2, *(5, 6, 8)[:axes], generator=torch.Generator().manual_seed(2))
    options = {"align_corners": False} if aligned else {}
    wanted = F.interpolate(image, scale_factor=factor, mode=mode, antialias=name.endswith("AA"), **options)
    rest = ((False,) if aligned else ()) + (factor,) * axes
    found = function(name)(image.numpy(), tuple(wanted.shape[2:]), *rest)
    np.testing.assert_allclose(found, wanted.numpy(), rtol=1e-5, atol=2e-6)


def test_nearest_takes_elements_as_they_are() -> None:
    image = np.array([[[0.0, np.nan, np.inf]]], np.float32)
    found = function("Nearest1d")(image, (6,))
    np.testing.assert_array_equal(found, np.repeat(image, 2, -1))
    whole = np.arange(6, dtype=np.uint8).reshape(1, 1, 6)
    assert function("Nearest1d")(whole, (3,)).dtype == np.uint8


@pytest.mark.parametrize(
    "kernel, stride, padding, dilation", [((2, 3), (1, 2), (0, 1), (1, 1)), ((2, 2), (2, 1), (1, 1), (2, 1))]
)
def test_fold(kernel: Any, stride: Any, padding: Any, dilation: Any) -> None:
    image = torch.rand(2, 3, 6, 7)
    columns = F.unfold(image, kernel, dilation, padding, stride)
    wanted = F.fold(columns, (6, 7), kernel, dilation, padding, stride)
    found = find(catalog.get("aclnnIm2colBackward"))
    assert found is not None
    ours = found.function(columns.numpy(), (6, 7), kernel, dilation, padding, stride)
    np.testing.assert_allclose(ours, wanted.numpy(), rtol=1e-6)
