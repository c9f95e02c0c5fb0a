"""Products by quantised, packed and sparse weights, and of a part of a vocabulary, against float64 and torch."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ascend_aclnn as aclnn
from ascend_aclnn import AclError, DataType, ops, weights
from ascend_aclnn.core.layouts import from_nz, nz_shape
from ascend_aclnn.reference.matmul.weights import dense_weight

RNG = np.random.default_rng(23)


def numbers(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32).astype(dtype)


def test_rotation_and_rows() -> None:
    x, rotation = numbers(6, 64, dtype=np.float16), numbers(16, 16, dtype=np.float16)
    made, scales = ops.rotate_quant(x, rotation, None, -1, None, 0, 0.0, False)
    rotated = (x.astype(float).reshape(-1, 16) @ rotation.astype(float)).reshape(6, 64).astype(np.float16).astype(float)
    expected = np.abs(rotated).max(-1) / 127
    np.testing.assert_allclose(scales, expected, rtol=2e-3)
    assert np.abs(made - rotated / expected[:, None]).max() < 0.7


@pytest.mark.parametrize("rows", [3, 70])
@pytest.mark.parametrize("turned", [False, True])
def test_weight_quant_batch_matmul_v1(rows: int, turned: bool) -> None:
    """Up to 64 rows the fixpipe's parameters count, beyond them the float ones."""
    x = numbers(rows, 24, dtype=np.float16)
    weight = RNG.integers(-128, 128, (10, 24) if turned else (24, 10)).astype(np.int8)
    offset, scale = RNG.integers(-9, 9, 10).astype(np.int32), np.float32(2.0) ** RNG.integers(-8, 0, 10)
    add, mul = numbers(10, dtype=np.float16), numbers(10, dtype=np.float16)
    bias = numbers(10)
    column = (slice(None), None) if turned else slice(None)
    actual = ops.weight_quant_batch_matmul(
        x, weight, np.eye(32, dtype=np.int8), offset, scale.astype(np.float32).view(np.uint32).astype(np.uint64),
        add[column], mul[column], bias, False, turned, 0.5, 3.0,
    )  # fmt: skip
    wide = weight.astype(float).T if turned else weight.astype(float)
    if rows <= 64:
        right = (wide + offset) * scale
    else:
        right = ((wide + 3) * 0.5).astype(np.float16).astype(float) + add.astype(float)
        right = (right.astype(np.float16).astype(float) * mul.astype(float)).astype(np.float16).astype(float)
        bias = bias.astype(np.float16)
    expected = x.astype(float) @ right + bias
    np.testing.assert_allclose(actual.astype(float), expected, rtol=2e-3, atol=2e-3 * np.abs(expected).max())


@pytest.mark.parametrize("shape", [(1,), (1, 1), (12,), (1, 12)])
def test_weights_with_one_scale_or_scales_of_columns(shape: tuple[int, ...]) -> None:
    x, weight = numbers(4, 20, dtype=np.float16), RNG.integers(-128, 128, (20, 12)).astype(np.int8)
    scale = np.abs(numbers(*shape, dtype=np.float16))
    actual = ops.weight_quant_batch_matmul_v2(x, weight, scale, scale, None, None, None, 0)
    values = scale.astype(float).reshape(-1)
    expected = x.astype(float) @ ((weight + values) * values)
    np.testing.assert_allclose(actual.astype(float), expected, rtol=2e-3, atol=2e-3 * np.abs(expected).max())


def test_packed_weights() -> None:
    weight = RNG.integers(-8, 8, (5, 16)).astype(np.int32)
    packed = ops.convert_weight_to_int4_pack(weight)
    assert packed.dtype == np.int32 and packed.shape == (5, 2)
    nibbles = (packed[..., None] >> np.arange(0, 32, 4)) & 15
    np.testing.assert_array_equal((nibbles ^ 8) - 8, weight.reshape(5, 2, 8))
    narrow = ops.convert_weight_to_int4_pack(weight, out=np.empty((5, 16), ml_dtypes.int4))
    np.testing.assert_array_equal(narrow.astype(np.int32), weight)
    blocked = aclnn.empty((5, 16), "INT4", format="FRACTAL_NZ")
    ops.convert_weight_to_int4_pack(aclnn.asarray(weight), out=blocked)
    np.testing.assert_array_equal(blocked.numpy().astype(np.int32), weight)


def test_packed_floats() -> None:
    """Sign, exponent and one bit of the fraction are kept; what FLOAT4_E2M1 has no exponent for is 0."""
    values = np.array([[0, -0.0, 0.5, 0.7, 1.4, 1.5, -1.9, 2, 3.5, -4, 5.9, 7, 8, 0.3, 6, -6]], np.float32)
    kept = [0, 0, 0.5, 0.5, 1, 1.5, -1.5, 2, 3, -4, 4, 6, 0, 0, 6, -6]
    with aclnn.use_backend("numpy", soc="Ascend950PR_9599"):
        actual = ops.convert_weight_to_int4_pack(values, out=np.empty((1, 16), ml_dtypes.float4_e2m1fn))
        eight = ops.convert_weight_to_int4_pack(values, out=np.empty((1, 2), np.float32))
    assert actual.astype(np.float32).tolist() == [kept]
    codes = (eight.view(np.uint32)[..., None] >> np.arange(0, 32, 4, dtype=np.uint32)) & 15
    np.testing.assert_array_equal(codes.reshape(1, 16), actual.view(np.uint8))


def test_a_weight_in_two_halves() -> None:
    x, weight = numbers(5, 30, dtype=ml_dtypes.bfloat16), numbers(30, 7)
    high = weight.astype(ml_dtypes.bfloat16)
    low = ((weight - high.astype(np.float32)) * 256).astype(ml_dtypes.bfloat16)
    with aclnn.use_backend("numpy", soc="Ascend950PR_9599"):
        actual = ops.matmul_emu_split_weight(x, high, low, 1 / 256, 0)
    np.testing.assert_allclose(actual, x.astype(float) @ weight.astype(float), rtol=1e-4, atol=1e-4)


def two_of_four(weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Kept weights and places as aclnnTransSparse4to2Para stores them, of columns that are a multiple of 64."""
    rows, columns = weight.shape
    kept, codes = np.zeros((rows, columns // 2), np.int8), np.zeros((rows, columns // 4, 2), np.uint8)
    for row, four in np.ndindex(rows, columns // 4):
        part = weight[row, four * 4 : four * 4 + 4]
        first, second = np.flatnonzero(part)
        kept[row, four * 2 : four * 2 + 2] = part[[first, second]]
        codes[row, four] = first, second - 1
    nibbles = codes[..., 0] | codes[..., 1] << 2
    index = nibbles[:, ::2] | nibbles[:, 1::2] << 4
    blocked = np.zeros((columns // 64, -(-rows // 16) * 16, 8), np.uint8)
    blocked[:, :rows] = index.reshape(rows, -1, 8).transpose(1, 0, 2)
    return kept, blocked


def test_two_weights_of_four() -> None:
    dense = np.zeros((20, 32, 4), np.int8)
    for part in dense.reshape(-1, 4):
        part[np.sort(RNG.choice(4, 2, replace=False))] = RNG.choice([-100, -7, 3, 90], 2)
    dense = dense.reshape(20, 128)
    kept, index = two_of_four(dense)
    x, rows, columns = RNG.integers(-128, 128, (6, 128)).astype(np.int8), np.abs(numbers(6)), np.abs(numbers(20))
    bias = numbers(20, dtype=ml_dtypes.bfloat16)
    weight = aclnn.asarray(kept).to_format("FRACTAL_NZ")
    tensors = [aclnn.asarray(a) for a in (index.reshape(-1, 8), rows, columns, bias)]
    actual = ops.sparse4to2_quant_matmul_weight_nz(aclnn.asarray(x), weight, *tensors)
    expected = x.astype(float) @ dense.astype(float).T * columns * rows[:, None] + bias.astype(float)
    np.testing.assert_allclose(actual.numpy().astype(float), expected, rtol=8e-3, atol=1e-2)


def test_two_weights_of_four_are_found() -> None:
    """trans_sparse4to2_para keeps what aclnnTransSparse4to2Para's table does, whose product is the dense one's."""
    dense = np.zeros((20, 40, 4), np.int8)
    for part in dense.reshape(-1, 4):
        part[RNG.choice(4, RNG.integers(3), replace=False)] = RNG.integers(1, 128)
    dense = dense.reshape(20, 160)
    kept, index = weights.trans_sparse4to2_para(dense)
    assert kept.shape == (3, 2, 16, 32) and index.shape == (3, 2, 16, 8)
    flat = from_nz(kept, (20, 96))
    np.testing.assert_array_equal(dense_weight(flat, index.reshape(-1))[:, :160], dense)
    full = np.zeros((20, 128), np.int8)
    full.reshape(-1, 4)[:, [0, 3]] = 1, 2
    wanted, places = two_of_four(full)
    kept, index = weights.trans_sparse4to2_para(full)
    np.testing.assert_array_equal(from_nz(kept, (20, 64)), wanted)
    np.testing.assert_array_equal(index.reshape(-1), places.reshape(-1))
    dense[3, 8:11] = 1
    with pytest.raises(AclError, match=r"more than two of weight\[3, 8:12\]") as caught:
        weights.trans_sparse4to2_para(dense)
    assert caught.value.status == 161002


def test_the_product_of_found_weights() -> None:
    dense = np.zeros((32, 32, 4), np.int8)
    dense[..., 1:3] = RNG.integers(-128, 128, (32, 32, 2))
    dense = dense.reshape(32, 128)
    x, columns = RNG.integers(-128, 128, (6, 128)).astype(np.int8), np.abs(numbers(32))
    kept, index = weights.trans_sparse4to2_para(dense)
    weight = aclnn.empty((32, 64), "INT8", format="FRACTAL_NZ", storage_shape=kept.shape)
    weight.assign(from_nz(kept, (32, 64)))
    tensors = [aclnn.asarray(a) for a in (index.reshape(-1, 8), np.ones(6, np.float32), columns)]
    actual = ops.sparse4to2_quant_matmul_weight_nz(aclnn.asarray(x), weight, *tensors, None)
    expected = x.astype(float) @ dense.astype(float).T * columns
    np.testing.assert_allclose(actual.numpy().astype(float), expected, rtol=8e-3, atol=1e-2)


def test_sizes_of_blocked_weights() -> None:
    for dtype in ("FLOAT16", "BF16", "INT8"):
        assert weights.calculate_matmul_weight_size((3, 17, 33), dtype) == np.prod(
            nz_shape((3, 17, 33), DataType[dtype])
        )
    assert weights.calculate_matmul_weight_size((17, 33)) == 32 * 48
    for shape, groups, size in (
        ((20, 3, 5, 7), 1, 32 * 16 * 35),
        ((32, 40, 3, 3), 1, 32 * 48 * 9),
        ((4, 1, 3, 3), 4, 16 * 16 * 9),  # four groups share the block
        ((64, 1, 1, 1), 64, 4 * 16 * 16),  # 16 groups each
        ((0, 3, 5, 7), 1, 0),
    ):
        assert weights.calculate_convolution_weight_size(shape, groups) == size
    for refused in (
        lambda: weights.calculate_matmul_weight_size((3,)),
        lambda: weights.calculate_matmul_weight_size((3, 0), "INT8"),
        lambda: weights.calculate_convolution_weight_size((3, 4, 5)),
        lambda: weights.calculate_convolution_weight_size((3, 4, 5, 6), 0),
    ):
        with pytest.raises(AclError) as caught:
            refused()
        assert caught.value.status == 161002


def test_packed_weights_in_blocks_of_950() -> None:
    """INT32 of eight INT4 in rows of 2, INT4 in rows of 16: as the rule has the storage on Ascend 950."""
    weight = RNG.integers(-8, 8, (24, 48)).astype(np.int32)
    with aclnn.use_backend("numpy", soc="Ascend950PR_9599"):
        plain = ops.convert_weight_to_int4_pack(weight)
        out = aclnn.empty((24, 6), "INT32", format="FRACTAL_NZ", storage_shape=(3, 2, 16, 2))
        ops.convert_weight_to_int4_pack(aclnn.asarray(weight), out=out)
        np.testing.assert_array_equal(out.numpy(), plain)
        flat = aclnn.Tensor(out.storage, (3, 2, 16, 2), out.dtype).numpy()
        np.testing.assert_array_equal(from_nz(flat, (24, 6)), plain)
        narrow = aclnn.empty((24, 48), "INT4", format="FRACTAL_NZ", storage_shape=(3, 2, 16, 16))
        ops.convert_weight_to_int4_pack(aclnn.asarray(weight), out=narrow)
        np.testing.assert_array_equal(narrow.numpy().astype(np.int32), weight)


@pytest.mark.parametrize("parts", [False, True])
def test_cross_entropy_of_a_part_of_the_vocabulary(parts: bool) -> None:
    """Two parts of a vocabulary together give torch's loss, and its gradients."""
    torch = pytest.importorskip("torch", reason="the loss is torch's")
    rows, width, vocabulary = 11, 24, 256
    x, weight = numbers(rows, width, dtype=np.float16), numbers(vocabulary, width, dtype=np.float16)
    target = RNG.integers(0, vocabulary, rows)
    pieces = [
        ops.fused_linear_online_max_sum(x, weight[start : start + 128], target, start, start + 128)
        for start in (0, 128)
    ]
    largest = np.maximum(*(piece[0] for piece in pieces))
    sums = sum(piece[1] * np.exp(piece[0] - largest) for piece in pieces)
    predicted = np.zeros(rows)
    for piece, start in zip(pieces, (0, 128)):
        masked = np.unpackbits(piece[3], count=rows, bitorder="little").astype(bool)
        np.testing.assert_array_equal(masked, (target < start) | (target >= start + 128))
        np.testing.assert_array_equal(piece[4], np.where(masked, 0, target - start))
        assert not piece[2][masked].any()
        predicted += np.where(masked, 0, piece[2] + piece[0] - largest)
    leaves = [torch.tensor(a.astype(float), requires_grad=True) for a in (x, weight)]
    losses = torch.nn.functional.cross_entropy(leaves[0] @ leaves[1].T, torch.tensor(target), reduction="none")
    np.testing.assert_allclose(np.log(sums) - predicted, losses.detach().numpy(), rtol=2e-3, atol=5e-3)
    slope = np.abs(numbers(rows))
    (losses * torch.tensor(slope)).sum().backward()
    total = np.zeros((rows, width))
    for piece, start in zip(pieces, (0, 128)):
        part = weight[start : start + 128]
        softmax = np.exp(piece[5].astype(np.float32) - largest[:, None]) / sums[:, None]
        given = (None, None, softmax.astype(np.float32)) if not parts else (largest, sums.astype(np.float32), None)
        dx, dw = ops.fused_linear_cross_entropy_loss_grad(slope, x, part, piece[3], piece[4], 0.0, *given)
        total += dx.astype(float)
        wanted = leaves[1].grad.numpy()[start : start + 128]
        np.testing.assert_allclose(dw.astype(float), wanted, rtol=2e-2, atol=1e-2)
    np.testing.assert_allclose(total, leaves[0].grad.numpy(), rtol=2e-2, atol=1e-2)
