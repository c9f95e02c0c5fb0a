"""Deformable and quantised convolutions against PyTorch, whose gradients are automatic."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from rule_tools import NEW_950

import ascend_aclnn as aclnn
from ascend_aclnn import UnsupportedOperator, ops

torch = pytest.importorskip("torch")
RNG = np.random.default_rng(31)


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def sampled(x: Any, offset: Any, kernel: Any, stride: Any, padding: Any, dilation: Any, deformable_groups: int) -> Any:
    """What each tap reads, as grid_sample does it: (N, C, oh * kh, ow * kw)."""
    n, _, height, width = x.shape
    kh, kw = kernel
    rows, columns = offset.shape[2:]
    parts = offset.reshape(n, 3, deformable_groups, kh, kw, rows, columns)
    y0 = torch.arange(rows)[:, None] * stride[2] - padding[0] + torch.arange(kh)[None] * dilation[2]  # (oh, kh)
    x0 = torch.arange(columns)[:, None] * stride[3] - padding[2] + torch.arange(kw)[None] * dilation[3]
    images = []
    for group in range(deformable_groups):
        dx, dy, factor = (parts[:, i, group].permute(0, 3, 1, 4, 2) for i in range(3))  # (n, oh, kh, ow, kw)
        column, row = dx + x0[None, None, None], dy + y0[None, :, :, None, None]
        grid = torch.stack([2 * column / (width - 1) - 1, 2 * row / (height - 1) - 1], -1)
        grid = grid.reshape(n, rows * kh, columns * kw, 2)
        part = x.reshape(n, deformable_groups, -1, height, width)[:, group]
        read = torch.nn.functional.grid_sample(part, grid, align_corners=True, padding_mode="zeros")
        images.append(read * factor.reshape(n, 1, rows * kh, columns * kw))
    return torch.cat(images, 1)


CASES = [
    # channels, outputs, kernel, stride, padding, dilation, groups, deformable groups
    (4, 6, (3, 3), (1, 1, 1, 1), (1, 1, 1, 1), (1, 1, 1, 1), 1, 1),
    (4, 6, (3, 2), (1, 1, 2, 1), (0, 2, 1, 0), (1, 1, 1, 2), 2, 2),
    (6, 3, (1, 2), (1, 1, 1, 3), (2, 0, 0, 1), (1, 1, 2, 1), 3, 2),
]


@pytest.mark.parametrize(
    ("channels", "outputs", "kernel", "stride", "padding", "dilation", "groups", "deformable"), CASES
)
def test_deformable_convolution_and_its_gradients(
    channels: int, outputs: int, kernel: Any, stride: Any, padding: Any, dilation: Any, groups: int, deformable: int
) -> None:
    x, weight, bias = floats(2, channels, 7, 9), floats(outputs, channels // groups, *kernel), floats(outputs)
    rows = (7 + padding[0] + padding[1] - dilation[2] * (kernel[0] - 1) - 1) // stride[2] + 1
    columns = (9 + padding[2] + padding[3] - dilation[3] * (kernel[1] - 1) - 1) // stride[3] + 1
    offset = floats(2, 3 * deformable * kernel[0] * kernel[1], rows, columns) * np.float32(2)
    names = (kernel, stride, padding, dilation, groups, deformable, True)
    y, deformed = ops.deformable_conv2d(x, weight, offset, bias, *names)
    assert deformed.shape == (2, channels, rows * kernel[0], columns * kernel[1])

    leaves = [torch.tensor(a.astype(np.float64), requires_grad=True) for a in (x, weight, offset, bias)]
    read = sampled(leaves[0], leaves[2], kernel, stride, padding, dilation, deformable)
    expected = torch.nn.functional.conv2d(read, leaves[1], leaves[3], stride=kernel, groups=groups)
    np.testing.assert_allclose(deformed, read.detach().numpy(), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(y, expected.detach().numpy(), rtol=1e-4, atol=1e-3)

    dy = floats(*y.shape)
    expected.backward(torch.tensor(dy.astype(np.float64)))
    with aclnn.use_backend("numpy", soc=NEW_950):
        tensors = [aclnn.asarray(a, format="NCHW") for a in (x, dy, deformed, weight, offset)]
        outs = [aclnn.empty(a.shape, np.float32, format="NCHW") for a in (x, weight, offset)]
        made = ops.deformable_conv2d_backward(*tensors, *names, out=(*outs, aclnn.empty((outputs,), np.float32)))
        made = [tensor.numpy() for tensor in made]
    for actual, leaf in zip(made, leaves):
        np.testing.assert_allclose(actual, leaf.grad.numpy(), rtol=1e-3, atol=2e-3)


@pytest.mark.parametrize("bias_type", [np.float32, np.float16])
def test_quantised_convolution(bias_type: Any) -> None:
    x, weight = RNG.integers(-128, 128, (2, 3, 4, 6, 5)), RNG.integers(-128, 128, (4, 3, 2, 3, 3))
    scale, bias = np.abs(floats(4)) * np.float32(1e-3), floats(4).astype(bias_type)
    stride, padding, dilation = (1, 2, 1), (1, 0, 2), (1, 1, 2)
    out = aclnn.empty((2, 4, 5, 2, 5), np.float16, format="NCDHW")
    arrays = [aclnn.asarray(a.astype(np.int8), format="NCDHW") for a in (x, weight)]
    rest = [aclnn.asarray(a) for a in (bias, scale)]
    y = ops.quant_convolution(*arrays, *rest, None, stride, padding, dilation, False, None, 1, 0, None, out=out).numpy()
    sums = torch.nn.functional.conv3d(
        torch.tensor(x.astype(np.float64)), torch.tensor(weight.astype(np.float64)), None, stride, padding, dilation
    ).numpy()
    each = (slice(None), None, None, None)
    np.testing.assert_allclose(y, sums * scale[each].astype(float) + bias[each], rtol=2e-3, atol=1e-3)


@pytest.mark.parametrize("rank", [2, 3])
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("offset_x", [0, -7])
def test_quantised_convolution_of_950(rank: int, groups: int, offset_x: int) -> None:
    """(sums + bias) * scale, scales as the fixpipe takes them (19 bits); what lies around is offsetx."""
    size, kernel, padding = (4, 6, 5)[-rank:], (2, 3, 3)[-rank:], (1, 0, 2)[-rank:]
    x = RNG.integers(-128, 128, (2, 4, *size)).astype(np.int8)
    weight = RNG.integers(-128, 128, (6, 4 // groups, *kernel)).astype(np.int8)
    bias, scale = RNG.integers(-3000, 3000, 6).astype(np.int32), np.abs(floats(6)) * np.float32(1e-3)
    cut = (scale.view(np.uint32) & 0xFFFFE000).astype(np.uint64)
    layout = "NCHW" if rank == 2 else "NCDHW"
    ones = (1,) * rank
    around = np.pad(x, [(0, 0), (0, 0), *((p, p) for p in padding)], constant_values=offset_x)
    convolve = torch.nn.functional.conv2d if rank == 2 else torch.nn.functional.conv3d
    sums = convolve(torch.tensor(around.astype(float)), torch.tensor(weight.astype(float)), groups=groups).numpy()
    each = (slice(None), *(None,) * rank)
    wanted = (sums + bias[each]) * cut.astype(np.uint32).view(np.float32)[each].astype(float)
    with aclnn.use_backend("numpy", soc=NEW_950):
        out = aclnn.empty(wanted.shape, np.float16, format=layout)
        arrays = [aclnn.asarray(a, format=layout) for a in (x, weight)]
        rest = [aclnn.asarray(a) for a in (bias, cut)]
        y = ops.quant_convolution(
            *arrays, *rest, None, ones, padding, ones, False, None, groups, offset_x, None, out=out
        ).numpy()
    np.testing.assert_allclose(y, wanted, rtol=1e-3, atol=1e-3)


def test_quantised_convolution_of_blocked_kernels() -> None:
    """FRACTAL_Z_3D: (D, C1, H, W, O1, 16, 32) of the kernels; the same numbers as in NCDHW."""
    x, weight = (RNG.integers(-128, 128, s).astype(np.int8) for s in ((2, 40, 4, 6, 5), (20, 40, 2, 3, 3)))
    scale, bias, ones = np.abs(floats(20)) * np.float32(1e-3), floats(20), (1, 1, 1)
    blocks = (2 * 2 * 3 * 3, 2, 16, 32)
    blocked = aclnn.empty(weight.shape, "INT8", format="FRACTAL_Z_3D", storage_shape=blocks)
    blocked.assign(weight)
    np.testing.assert_array_equal(blocked.numpy(), weight)
    flat = aclnn.Tensor(blocked.storage, blocks, blocked.dtype).numpy().reshape(2, 2, 3, 3, 2, 16, 32)
    assert flat[1, 0, 2, 1, 1, 3, 31] == weight[19, 31, 1, 2, 1] and flat[0, 1, 0, 2, 0, 5, 7] == weight[5, 39, 0, 0, 2]
    rest = [aclnn.asarray(a) for a in (bias, scale)]
    arrays = aclnn.asarray(x, format="NCDHW"), aclnn.asarray(weight, format="NCDHW")
    outs = [aclnn.empty((2, 20, 3, 4, 3), np.float16, format="NCDHW") for _ in range(2)]
    attributes = (None, ones, (0, 0, 0), ones, False, None, 1, 0, None)
    ops.quant_convolution(*arrays, *rest, *attributes, out=outs[0])
    ops.quant_convolution_weight_nz(arrays[0], blocked, *rest, *attributes, out=outs[1])
    np.testing.assert_array_equal(outs[1].numpy(), outs[0].numpy())


def test_quantised_convolution_of_small_floats() -> None:
    """FLOAT8 is saturated where it is stored."""
    e4m3 = np.dtype(ml_dtypes.float8_e4m3fn)
    x, weight = (floats(*shape).astype(e4m3) for shape in ((1, 3, 5, 5), (2, 3, 3, 3)))
    bias, scale = floats(2), np.array([0.5, 1000], np.float32).view(np.uint32).astype(np.uint64)
    sums = torch.nn.functional.conv2d(*(torch.tensor(a.astype(float)) for a in (x, weight, bias)))
    wanted = np.clip(sums.numpy() * np.array([0.5, 1000])[:, None, None], -448, 448)
    with aclnn.use_backend("numpy", soc=NEW_950):
        out = aclnn.empty(wanted.shape, "FLOAT8_E4M3FN", format="NCHW")
        arrays = [aclnn.asarray(a, format="NCHW") for a in (x, weight)]
        rest = [aclnn.asarray(a) for a in (bias, scale)]
        y = ops.quant_convolution(*arrays, *rest, None, (1, 1), (0, 0), (1, 1), False, None, 1, 0, "rint", out=out)
        np.testing.assert_array_equal(y.numpy(), wanted.astype(np.float32).astype(e4m3))


def test_a_layout_that_is_not_public_is_refused() -> None:
    val, grad = np.float32(1), np.ones(4, np.float32)
    sfda, step = np.zeros(3, np.float32), np.zeros(1, np.int64)
    with pytest.raises(UnsupportedOperator, match="its kernel is not public"):
        ops.silent_check(val, grad, sfda, step, 7, 1e6, 1e5, 1e4, 5e3, 1)
