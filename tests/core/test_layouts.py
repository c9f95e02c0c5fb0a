"""FRACTAL_NZ and packed storage on the NumPy backend, data-dependent shapes, vendor operators."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ascend_aclnn as aclnn
from ascend_aclnn import DataType, Format, ops
from ascend_aclnn.backends.interface import Backend
from ascend_aclnn.core.layouts import from_nz, nz_shape, pack_bits, to_nz, unpack_bits


@pytest.mark.parametrize(
    "dtype,shape,physical",
    [
        (DataType.FLOAT16, (16, 16), (1, 1, 16, 16)),
        (DataType.BF16, (3, 33, 17), (3, 2, 3, 16, 16)),
        (DataType.INT8, (20, 40), (2, 2, 16, 32)),
        (DataType.INT4, (20, 65), (2, 2, 16, 64)),
    ],
)
def test_nz_shape(dtype: DataType, shape: tuple[int, ...], physical: tuple[int, ...]) -> None:
    assert nz_shape(shape, dtype) == physical


def test_nz_order() -> None:
    """Element (i, j) of a matrix is element (j // c0, i // 16, i % 16, j % c0) of its storage."""
    matrix = np.arange(40 * 35, dtype=np.int32).astype(np.float16).reshape(40, 35)
    stored = to_nz(matrix, nz_shape(matrix.shape, DataType.FLOAT16))
    for i, j in [(0, 0), (15, 15), (16, 0), (0, 16), (39, 34), (17, 33)]:
        assert stored[j // 16, i // 16, i % 16, j % 16] == matrix[i, j]
    assert stored[2, 2, 8:].sum() == 0  # beyond the matrix
    np.testing.assert_array_equal(from_nz(stored, matrix.shape), matrix)


def test_to_format_and_back(each_backend: Backend) -> None:
    values = np.arange(2 * 20 * 40, dtype=np.float16).reshape(2, 20, 40)
    blocked = aclnn.asarray(values).to_format("FRACTAL_NZ")
    assert (blocked.format, blocked.shape, blocked.storage_shape) == (Format.FRACTAL_NZ, (2, 20, 40), (2, 3, 2, 16, 16))
    np.testing.assert_array_equal(blocked.numpy(), values)
    back = blocked.to_format("ND")
    assert back.format is Format.ND and back.storage_shape == values.shape
    np.testing.assert_array_equal(back.numpy(), values)
    with pytest.raises(ValueError, match="cannot convert ND to NC1HWC0"):
        back.to_format("NC1HWC0")


def test_asarray_takes_a_format(each_backend: Backend) -> None:
    values = np.arange(20 * 40, dtype=np.float16).reshape(20, 40)
    blocked = aclnn.asarray(values, format="FRACTAL_NZ")
    assert (blocked.format, blocked.shape, blocked.storage_shape) == (Format.FRACTAL_NZ, (20, 40), (3, 2, 16, 16))
    np.testing.assert_array_equal(blocked.numpy(), values)
    np.testing.assert_array_equal(blocked.to_format("ND").numpy(), values)


def test_weights_in_nz(each_backend: Backend) -> None:
    x, weight = np.ones((20, 40), np.float16), np.arange(40 * 33).reshape(40, 33).astype(np.float16)
    out = ops.matmul_weight_nz(aclnn.asarray(x), aclnn.asarray(weight).to_format("FRACTAL_NZ"))
    expected = (x.astype(np.float64) @ weight.astype(np.float64)).astype(np.float16)
    np.testing.assert_array_equal(out.numpy(), expected)


def test_a_transposed_weight_keeps_its_blocks(each_backend: Backend) -> None:
    weight = np.arange(33 * 40).reshape(33, 40).astype(np.float16)
    blocked = aclnn.asarray(weight).to_format("FRACTAL_NZ")
    turned = blocked.T
    assert (turned.shape, turned.format, turned.storage_shape) == ((40, 33), blocked.format, blocked.storage_shape)
    np.testing.assert_array_equal(turned.numpy(), weight.T)
    x = np.eye(40, dtype=np.float16)[:20]
    out = ops.matmul_weight_nz(aclnn.asarray(x), turned)
    np.testing.assert_array_equal(out.numpy(), weight.T[:20])
    with pytest.raises(ValueError, match="only the last two axes"):
        aclnn.asarray(np.zeros((2, 16, 16), np.float16)).to_format("FRACTAL_NZ").transpose(1, 0, 2)


def test_blocks_may_be_flattened(each_backend: Backend) -> None:
    weight = np.arange(33 * 40).reshape(33, 40).astype(np.float16)
    blocked = aclnn.asarray(weight).to_format("FRACTAL_NZ")
    flat = blocked.with_format("FRACTAL_NZ", (math.prod(blocked.storage_shape),))
    np.testing.assert_array_equal(flat.numpy(), weight)


def test_blocks_of_bytes_may_hold_int4(each_backend: Backend) -> None:
    """torch_npu's description of INT8 blocks as INT32: a grouped product reads the blocks of INT4 that are there."""
    rng = np.random.default_rng(3)
    groups, k, n = 2, 48, 128
    codes = rng.integers(-8, 8, (groups, k, n))
    halves = codes.reshape(groups, k, n // 2, 2) & 15
    as_bytes = (halves[..., 0] | halves[..., 1] << 4).astype(np.uint8).view(np.int8)
    blocks = aclnn.asarray(as_bytes).to_format("FRACTAL_NZ")
    weight = aclnn.empty(
        (groups, k, n // 8), "INT32", format="FRACTAL_NZ", storage_shape=nz_shape(as_bytes.shape, DataType.INT8)
    )
    weight.storage.write(0, blocks.storage.read(0, blocks.storage_nbytes))
    x = rng.integers(-128, 128, (5, k)).astype(np.int8)
    scale = np.full((groups, 1, n), np.float32(2**-7)).view(np.uint32).astype(np.uint64)
    assist = (8 * codes.sum(1) * 2**-7).astype(np.float32)
    rows = rng.random(5).astype(np.float32)
    out = ops.grouped_matmul_weight_nz(
        [x], [weight], bias=[assist], scale=[scale], per_token_scale=[rows], group_list=np.array([2, 3]),
        split_item=3, group_type=0, group_list_type=1, quant_group_size=0,
        act_type=0, out=([aclnn.empty((5, n), "BF16")], None, None),
    )[0]  # fmt: skip
    expected = np.concatenate([x[:2] @ codes[0], x[2:] @ codes[1]]) * 2.0**-7 * rows[:, None]
    np.testing.assert_allclose(out[0].numpy().astype(np.float64), expected, atol=2**-8 * np.abs(expected).max())


def test_outputs_are_cut_to_what_the_data_gave(each_backend: Backend) -> None:
    x = np.array([[0, 1, 2], [3, 0, 0]], np.float32)
    assert ops.nonzero(x).tolist() == [[0, 1], [0, 2], [1, 0]]
    where = ops.nonzero(aclnn.asarray(x))
    assert (where.shape, where.strides) == ((3, 2), (2, 1)) and where.numpy().tolist() == [[0, 1], [0, 2], [1, 0]]
    assert ops.masked_select(x, x > 0).tolist() == [1, 2, 3]
    assert ops.nonzero(np.zeros((2, 3), np.float32)).shape == (0, 2)


@given(st.lists(st.integers(-8, 7), max_size=40))
def test_packing_int4(values: list[int]) -> None:
    array = np.array(values, np.int8).astype(ml_dtypes.int4)
    packed = pack_bits(array, 4)
    assert packed.size == (len(values) + 1) // 2
    assert unpack_bits(packed, len(values), DataType.INT4).astype(int).tolist() == values


@pytest.mark.parametrize("name", ["INT4", "UINT1", "FLOAT4_E2M1", "FLOAT6_E3M2"])
@pytest.mark.parametrize("count", [0, 1, 7, 508])
def test_elements_lie_one_after_the_other_from_the_lowest_bit(name: str, count: int) -> None:
    """As one big number in little endian: element i is its bits from i * bits on."""
    dtype = DataType[name]
    if dtype.numpy is None:
        pytest.skip(f"{name} has no host type")
    data = np.random.default_rng(4).integers(0, 256, -(-count * dtype.bits // 8) + 3, dtype=np.uint8)
    whole = int.from_bytes(data.tobytes(), "little")
    expected = [whole >> i * dtype.bits & (1 << dtype.bits) - 1 for i in range(count)]
    got = unpack_bits(data, count, dtype)
    assert got.dtype == dtype.numpy and (got.view(np.uint8) & (1 << dtype.bits) - 1).tolist() == expected
    packed = pack_bits(got, dtype.bits)
    assert int.from_bytes(packed.tobytes(), "little") == whole & (1 << count * dtype.bits) - 1
