"""Operators that move data, or sum losses, piece by piece: large ones beside plain NumPy."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from comparisons import equal_bits

from ascend_aclnn import ops
from ascend_aclnn.numerics.convert import move, set_all

DTYPES = ["u1", "u2", "u4", "u8", "f4", ml_dtypes.bfloat16]


def bits(shape: tuple[int, ...], dtype: Any, seed: int = 0) -> Any:
    """An array of random bits of any data type, NaN included."""
    dtype = np.dtype(dtype)
    random = np.random.default_rng(seed).integers(0, 256, (*shape, dtype.itemsize), np.uint8)
    return random.view(dtype).reshape(shape)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(300, 1000), (512, 512), (1024, 4096), (2, 300, 400), (70000, 3), (3, 70000)])
def test_transposed_copies_are_the_bits_of_the_source(dtype: Any, shape: tuple[int, ...]) -> None:
    x = bits(shape, dtype)
    made = np.zeros((*shape[:-2], shape[-1], shape[-2]), x.dtype)
    move(made, x.swapaxes(-1, -2))
    back = [[made[..., j, i].tobytes() for j in (0, shape[-1] // 2, -1)] for i in (0, shape[-2] // 2, -1)]
    wanted = [[x[..., i, j].tobytes() for j in (0, shape[-1] // 2, -1)] for i in (0, shape[-2] // 2, -1)]
    assert back == wanted
    assert equal_bits(np.array(made.swapaxes(-1, -2), order="C"), x)


def test_a_transposed_copy_into_its_own_memory_is_that_of_the_old_values() -> None:
    x = np.arange(400 * 400, dtype=np.int32).reshape(400, 400)
    wanted = [[400 * column + row for column in range(400)] for row in range(400)]
    move(x, x.T)
    assert x.tolist() == wanted


@pytest.mark.parametrize("threads", ["1", "2"])
def test_shares_of_threads_cover_everything(monkeypatch: Any, threads: str) -> None:
    monkeypatch.setenv("ASCEND_ACLNN_THREADS", threads)
    x = bits((1501, 2003), np.int32)
    ones, every_other, upper = np.zeros(x.shape, np.int32), np.zeros((1501, 1001), np.int32), np.zeros_like(x)
    set_all(ones, 1)
    assert ones.sum() == x.size
    move(every_other, x[:, 1::2])
    assert every_other.tolist() == [row[1::2] for row in x.tolist()]
    ops.triu(x, 3, out=upper)
    assert all(row.tolist() == [0] * (i + 3) + x[i, i + 3 :].tolist() for i, row in enumerate(upper[:1500]))
    assert (
        ops.cast(x.astype(np.float32), "int32").tolist()
        == x.astype(np.float32).astype(np.int64).clip(max=2**31 - 1).tolist()
    )


@pytest.mark.parametrize("dtype", ["f4", "f2", ml_dtypes.bfloat16, "i8", "c8"])
def test_repeat_keeps_all_bits(dtype: Any) -> None:
    x = bits((3, 200, 150), dtype)
    actual = ops.repeat(x, [2, 1, 3, 2])
    assert actual.shape == (2, 3, 600, 300)
    for i in range(2):
        for j in range(3):
            for k in range(2):
                part = actual[i, :, 200 * j : 200 * j + 200, 150 * k : 150 * k + 150]
                assert equal_bits(part, x)
    assert ops.repeat(x[:, :5, :5].swapaxes(0, 1), [1, 1, 2]).shape == (5, 3, 10)


@pytest.mark.parametrize(
    "shifts, dims",
    [([5], [1]), ([-3, 400], [0, 1]), ([0], [0]), ([200], [0]), ([7, -2], [1, 1]), ([1, 2, 3], [2, 0, -2])],
)
def test_roll_brings_in_at_the_start_what_leaves_at_the_end(shifts: list[int], dims: list[int]) -> None:
    x = bits((200, 300, 4), "f2")
    actual = ops.roll(x, shifts, dims)
    places = [np.arange(n) for n in x.shape]
    for shift, dim in zip(shifts, dims):
        places[dim] = (places[dim] - shift) % x.shape[dim]
    assert equal_bits(actual, x[np.ix_(*places)])


@pytest.mark.parametrize("dim", [0, 1, 2, -1])
@pytest.mark.parametrize("dtype", ["f4", ml_dtypes.bfloat16])
def test_gather_and_index_select_beside_take_along_axis_and_take(dim: int, dtype: Any) -> None:
    x = bits((90, 80, 70), dtype)
    size = x.shape[dim]
    rng = np.random.default_rng(1)
    index = rng.integers(0, size, (60, 70, 65))  # smaller than x along the other axes too
    cut = [slice(n) for n in index.shape]
    cut[dim] = slice(None)
    assert equal_bits(ops.gather(x, dim, index), np.take_along_axis(x[tuple(cut)], index, dim))
    chosen = rng.integers(0, size, 111)
    assert equal_bits(ops.index_select(x, dim, chosen), np.take(x, chosen, dim))
    transposed = x.swapaxes(0, 2)
    assert equal_bits(
        ops.index_select(transposed, dim, chosen % transposed.shape[dim]),
        np.take(transposed, chosen % transposed.shape[dim], dim),
    )


def test_index_select_into_memory_with_gaps() -> None:
    x = bits((50, 40), "f4")
    whole = np.zeros((60, 45, 2), np.float32)
    chosen = np.random.default_rng(2).integers(0, 40, 45)
    ops.index_select(x, 1, chosen, out=whole[:50, :, 0])
    assert equal_bits(whole[:50, :, 0], x[:, chosen])
    assert not whole[..., 1].any() and not whole[50:].any()


@pytest.mark.parametrize("dtype, tolerance", [("f4", 1e-6), ("f2", 1e-3), (ml_dtypes.bfloat16, 8e-3)])
@pytest.mark.parametrize("reduction", [0, 1, 2])
def test_large_losses_beside_float64(dtype: Any, tolerance: float, reduction: int) -> None:
    rng = np.random.default_rng(3)
    x = rng.standard_normal((700, 500)).astype(dtype)
    target = rng.random((700, 500)).astype(dtype)
    weight = rng.random((1, 500)).astype(dtype)
    a, t, w = (values.astype(np.float64) for values in (x, target, weight))

    def reduced(loss: Any) -> Any:
        return loss if reduction == 0 else loss.mean() if reduction == 1 else loss.sum()

    entropy = np.logaddexp(0, a) - t * a
    logarithms = np.where(t > 0, t * (np.log(np.where(t > 0, t, 1)) - a), 0)
    for made, wanted in (
        (ops.binary_cross_entropy_with_logits(x, target, None, None, reduction), entropy),
        (
            ops.binary_cross_entropy_with_logits(x, target, np.broadcast_to(weight, x.shape).copy(), None, reduction),
            w * entropy,
        ),
        (ops.kl_div(x, target, reduction, False), logarithms),
        (ops.kl_div(x, target, reduction, True), np.exp(t) * (t - a)),
    ):
        wanted = reduced(wanted)
        if np.max(np.abs(wanted)) < float(ml_dtypes.finfo(dtype).max):
            np.testing.assert_allclose(made.astype(np.float64), wanted, tolerance, tolerance)


def test_the_mean_over_the_batch_of_a_large_kl_divergence() -> None:
    rng = np.random.default_rng(4)
    x, target = rng.standard_normal((800, 300), np.float32), rng.random((800, 300), np.float32)
    wanted = (target * (np.log(target.astype(np.float64)) - x)).sum() / 800
    np.testing.assert_allclose(ops.kl_div(x, target, 3, False), wanted, 1e-6)


@pytest.mark.parametrize("dtype, tolerance", [("f4", 2e-6), ("f2", 2e-3), (ml_dtypes.bfloat16, 1.6e-2)])
def test_add_rms_norm_of_many_rows_beside_float64(dtype: Any, tolerance: float) -> None:
    rng = np.random.default_rng(5)
    x1, x2 = (rng.standard_normal((500, 301)).astype(dtype) for _ in range(2))
    gamma = rng.random(301).astype(dtype)
    y, rstd, x = ops.add_rms_norm(x1, x2, gamma)
    exact = x1.astype(np.float64) + x2.astype(np.float64)
    normed = exact.astype(dtype).astype(np.float64)  # the kernel norms the sum that it has rounded
    wanted = 1 / np.sqrt((normed**2).mean(1, keepdims=True) + 1e-6)
    np.testing.assert_allclose(x.astype(np.float64), exact, tolerance, tolerance)
    np.testing.assert_allclose(rstd, wanted, 1e-5)
    np.testing.assert_allclose(y.astype(np.float64), exact * wanted * gamma.astype(np.float64), tolerance, tolerance)
    few = [ops.add_rms_norm(x1[i : i + 1], x2[i : i + 1], gamma) for i in (0, 250, 499)]
    for row, place in zip(few, (0, 250, 499)):  # cut in blocks or not, the bits are the same
        assert all(equal_bits(made[0], whole[place]) for made, whole in zip(row, (y, rstd, x)))
    ops.inplace_add_rms_norm(x1, x2, gamma)
    assert equal_bits(x1, y) and equal_bits(x2, x)
