"""Images against torch: resampling, grid sampling and their gradients."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from comparisons import assert_near

import ascend_aclnn as aclnn
from ascend_aclnn import ops

RNG = np.random.default_rng(11)
LIMIT = {"float64": 1e-12, "float32": 2e-5, "float16": 2e-3, "bfloat16": 1.6e-2}


def numbers(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return RNG.standard_normal(shape).astype(dtype)


def oracle() -> Any:
    return pytest.importorskip("torch", reason="torch is the oracle of images: left out without it")


def leaf(torch: Any, x: np.ndarray) -> Any:
    wide = x.astype(np.float64) if x.dtype == np.float64 else x.astype(np.float32)
    return torch.tensor(wide, requires_grad=True)


# mode in torch, forward and backward here, spatial axes, whether alignCorners is a parameter, antialiasing
RESAMPLING = [
    ("nearest", "upsample_nearest1d_v2", "upsample_nearest1d_backward", 1, False, False),
    ("nearest", "upsample_nearest2d_v2", "upsample_nearest2d_backward", 2, False, False),
    ("nearest", "upsample_nearest3d", "upsample_nearest3d_backward", 3, False, False),
    ("nearest-exact", "upsample_nearest_exact1d", "upsample_nearest_exact1d_backward", 1, False, False),
    ("nearest-exact", "upsample_nearest_exact2d", "upsample_nearest_exact2d_backward", 2, False, False),
    ("nearest-exact", "upsample_nearest_exact3d", "upsample_nearest_exact3d_backward", 3, False, False),
    ("linear", "upsample_linear1d", "upsample_linear1d_backward", 1, True, False),
    ("bilinear", "upsample_bilinear2d", "upsample_bilinear2d_backward", 2, True, False),
    ("bilinear", "upsample_bilinear2d", "upsample_bilinear2d_backward_v2", 2, True, False),
    ("trilinear", "upsample_trilinear3d", "upsample_trilinear3d_backward", 3, True, False),
    ("bicubic", "upsample_bicubic2d", "upsample_bicubic2d_backward", 2, True, False),
    ("bilinear", "upsample_bilinear2d_aa", "upsample_bilinear2d_aa_backward", 2, True, True),
    ("bicubic", "upsample_bicubic2d_aa", "upsample_bicubic2d_aa_grad", 2, True, True),
]
SIZES = [((5, 6, 7), (9, 13, 16)), ((5, 12, 9), (4, 5, 3)), ((2, 3, 4), (2, 3, 4)), ((4, 4, 5), (1, 1, 2))]


def calls(row: Any) -> Any:
    """The names as the operators spell them: aclnn..2d and aclnn..2D differ in snake case."""
    by_letters = {name.replace("_", ""): name for name in dir(ops)}
    return [getattr(ops, by_letters[name.replace("_", "")]) for name in row[1:3]]


@pytest.mark.parametrize("sizes,made", SIZES)
@pytest.mark.parametrize(
    "row,align_corners", [(row, align) for row in RESAMPLING for align in ((False, True) if row[4] else (False,))]
)
def test_resampling(row: Any, sizes: tuple[int, ...], made: tuple[int, ...], align_corners: bool) -> None:
    torch = oracle()
    mode, _, _, rank, aligns, antialias = row
    forward, backward = calls(row)
    sizes, made = sizes[:rank], made[:rank]
    x, dy = numbers(2, 3, *sizes), numbers(2, 3, *made)
    tx = leaf(torch, x)
    expected = torch.nn.functional.interpolate(
        tx, size=made, mode=mode, align_corners=align_corners if aligns else None, antialias=antialias
    )
    expected.backward(torch.tensor(dy))
    none = -1.0 if mode == "linear" else 0.0  # 0 is a scale to the linear one
    attributes = [align_corners] * aligns + [none] * rank
    assert_near(forward(x, made, *attributes), expected.detach(), LIMIT, floor=1.0)
    assert_near(backward(dy, made, x.shape, *attributes), tx.grad, LIMIT, floor=1.0)


@pytest.mark.parametrize("row", RESAMPLING, ids=[row[2] for row in RESAMPLING])
def test_scales_count(row: Any) -> None:
    torch = oracle()
    mode, _, _, rank, aligns, antialias = row
    sizes, scales = (6, 7, 5)[:rank], (1.6, 2.3, 1.5)[:rank]
    x = numbers(1, 2, *sizes)
    tx = leaf(torch, x)
    expected = torch.nn.functional.interpolate(
        tx, scale_factor=scales, mode=mode, align_corners=False if aligns else None, antialias=antialias
    )
    dy = numbers(*expected.shape)
    expected.backward(torch.tensor(dy))
    forward, backward = calls(row)
    made = expected.shape[2:]
    attributes = [False] * aligns + list(scales)
    assert_near(forward(x, made, *attributes), expected.detach(), LIMIT, floor=1.0)
    if mode != "nearest-exact" and mode != "nearest":  # their gradients split the outputs at rounded bounds
        assert_near(backward(dy, made, x.shape, *attributes), tx.grad, LIMIT, floor=1.0)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_low_precision(dtype: Any) -> None:
    torch = oracle()
    x = numbers(1, 2, 5, 7, dtype=dtype)
    wide = torch.tensor(x.astype(np.float32))
    for mode, call in (("bilinear", ops.upsample_bilinear2d), ("bicubic", ops.upsample_bicubic2d)):
        expected = torch.nn.functional.interpolate(wide, size=(9, 4), mode=mode, align_corners=False)
        actual = call(x, [9, 4], False, 0.0, 0.0)
        assert actual.dtype == dtype
        assert_near(actual, expected, LIMIT, floor=1.0)


def test_nearest_keeps_whole_numbers_and_specials() -> None:
    x = np.array([[[1, 250, 3]]], np.uint8)
    assert ops.upsample_nearest1d(x, [6]).tolist() == [[[1, 1, 250, 250, 3, 3]]]
    y = ops.upsample_nearest1d(np.array([[[np.nan, np.inf]]], np.float32), [4])
    np.testing.assert_array_equal(y, [[[np.nan, np.nan, np.inf, np.inf]]])


def test_doubling_a_small_image_ignores_scales() -> None:
    x = numbers(1, 1, 3, 3)
    np.testing.assert_array_equal(ops.upsample_nearest2d_v2(x, [6, 6], 2.3, 2.3), x.repeat(2, 2).repeat(2, 3))


def test_channels_last() -> None:
    with aclnn.use_backend("numpy"):
        x = numbers(1, 4, 5, 3)
        expected = ops.upsample_bilinear2d(np.moveaxis(x, -1, 1).copy(), [7, 9], False, 0.0, 0.0)
        made = aclnn.empty((1, 7, 9, 3), np.float32, format="NHWC")
        ops.upsample_bilinear2d(aclnn.asarray(x, format="NHWC"), [7, 9], False, 0.0, 0.0, out=made)
        np.testing.assert_array_equal(np.moveaxis(made.numpy(), -1, 1), expected)


@pytest.mark.parametrize("mode", ["nearest", "bilinear"])
def test_resize(mode: str) -> None:
    torch = oracle()
    x = numbers(2, 3, 6, 8)
    actual = ops.resize(x, [1, 1, 1.5, 0.5], mode)
    align = {"align_corners": False} if mode == "bilinear" else {}
    assert_near(
        actual, torch.nn.functional.interpolate(torch.tensor(x), size=(9, 4), mode=mode, **align), LIMIT, floor=1.0
    )


GRID_MODES = ["bilinear", "nearest", "bicubic"]
PADDINGS = ["zeros", "border", "reflection"]


@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("padding", range(3))
@pytest.mark.parametrize(
    "spatial,mode,dtype",
    [(2, 2, np.float32), *((n, mode, dtype) for n in (2, 3) for mode in (0, 1) for dtype in (np.float32, np.float64))],
)
def test_grid_sampler(spatial: int, mode: int, padding: int, align_corners: bool, dtype: Any) -> None:
    torch = oracle()
    x = numbers(2, 3, *(4, 6, 5)[:spatial], dtype=dtype)
    grid = RNG.uniform(-1.8, 1.8, (2, *(3, 4, 2)[:spatial], spatial)).astype(dtype)
    tx, tg = leaf(torch, x), leaf(torch, grid)
    expected = torch.nn.functional.grid_sample(tx, tg, GRID_MODES[mode], PADDINGS[padding], align_corners)
    dy = numbers(*expected.shape, dtype=dtype)
    expected.backward(torch.tensor(dy))
    attributes = (mode, padding, align_corners)
    forward = ops.grid_sampler2_d if spatial == 2 else ops.grid_sampler3_d
    backward = ops.grid_sampler2_d_backward if spatial == 2 else ops.grid_sampler3_d_backward
    assert_near(forward(x, grid, *attributes), expected.detach(), LIMIT, floor=1.0)
    dx, dgrid = backward(dy, x, grid, *attributes, [True, True])
    assert_near(dx, tx.grad, LIMIT, floor=1.0)
    assert_near(dgrid, tg.grad, {name: 5 * limit for name, limit in LIMIT.items()}, floor=1.0)


def test_points_off_the_image_do_not_read_it() -> None:
    x = np.full((1, 1, 2, 2), np.inf, np.float32)
    grid = np.array([[[[np.nan, 0], [5, 5]]]], np.float32)
    assert ops.grid_sampler2_d(x, grid, 0, 0, False).tolist() == [[[[0, 0]]]]


@pytest.mark.parametrize("batch", [(), (2,)])
def test_im2col_backward(batch: tuple[int, ...]) -> None:
    torch = oracle()
    window = {"kernel_size": (2, 3), "dilation": (2, 1), "padding": (1, 0), "stride": (1, 2)}
    columns = torch.nn.functional.unfold(torch.zeros(1, 3, 6, 7), **window)
    dy = numbers(*batch, *columns.shape[1:])
    expected = torch.nn.functional.fold(torch.tensor(dy), (6, 7), **window)
    assert_near(ops.im2col_backward(dy, [6, 7], *map(list, window.values())), expected, LIMIT, floor=1.0)


def test_three_interpolate_backward() -> None:
    dy, weight = numbers(2, 3, 7), numbers(2, 7, 3)
    index = RNG.integers(0, 5, (2, 7, 3)).astype(np.int32)
    expected = np.zeros((2, 3, 5))
    for b, n, i in np.ndindex(2, 7, 3):
        expected[b, :, index[b, n, i]] += dy[b, :, n].astype(float) * weight[b, n, i]
    actual = ops.three_interpolate_backward(dy[..., None], index, weight, 5)
    assert_near(actual[..., 0], expected, LIMIT, floor=1.0)
    with pytest.raises(aclnn.AclError, match="idx"):
        ops.three_interpolate_backward(dy[..., None], index + 5, weight, 5)
    with aclnn.use_backend("numpy", soc="Ascend950PR_9599"):
        assert_near(ops.three_interpolate_backward(dy, index, weight, 5), expected, LIMIT, floor=1.0)
        with pytest.raises(aclnn.AclError, match=r"(?s)grad_x.*561002"):
            ops.three_interpolate_backward(dy[..., None], index, weight, 5)
