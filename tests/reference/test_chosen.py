"""What the compiled helper chooses, adds up in windows and in running sums, and turns: NumPy's bits, on every instruction set."""

from __future__ import annotations

import shutil
from typing import Any, Callable

import ml_dtypes
import numpy as np
import pytest

from ascend_aclnn import AclError, native, ops

pytestmark = [
    pytest.mark.skipif(
        not any(map(shutil.which, ("cc", "gcc", "clang"))), reason="no C compiler to build the helper with"
    ),
    pytest.mark.usefixtures("helper"),
]

FLOATS = [np.dtype(np.float32), np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)]
CODES = {"float32": 0, "float16": 1, "bfloat16": 27}  # aclDataType
SPECIAL = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, -np.nan, 1e-45, -1e-40, 3e38, -3e38, 65504.0]


def values(shape: tuple[int, ...], dtype: np.dtype[Any], special: bool = True) -> Any:
    """Normal numbers of several sizes, some of them equal, with special ones among them."""
    rng = np.random.default_rng(len(shape))
    made = np.round(rng.standard_normal(shape), 2) * 10.0 ** rng.integers(-1, 2, shape)
    if special:
        made.reshape(-1)[rng.integers(0, made.size, made.size // 40)] = rng.choice(SPECIAL, made.size // 40)
    with np.errstate(all="ignore"):
        return made.astype(np.float32).astype(dtype)


def check_same(monkeypatch: pytest.MonkeyPatch, function: Callable[..., Any], *arguments: Any) -> Any:
    """The results with the helper, which have NumPy's bits; NaN is NaN."""
    found = function(*arguments)
    with monkeypatch.context() as patch:
        patch.setattr(native, "runs_programs", lambda: False)
        patch.setattr(native, "_library", None)
        wanted = function(*arguments)
    for a, b in zip(*(item if isinstance(item, (tuple, list)) else (item,) for item in (found, wanted))):
        a, b = np.ascontiguousarray(a), np.ascontiguousarray(b)
        same = a.view(f"u{a.itemsize}") == b.view(f"u{b.itemsize}")
        assert np.all(same | ((a != a) & (b != b)))
    return found


WINDOWS = {  # kernel, stride, padding, dilation, ceil_mode
    "usual": ([3, 3], [2, 2], [1, 1], [1, 1], False),
    "dilated": ([2, 3], [1, 3], [1, 1], [1, 1], True),
    "apart": ([1, 2], [3, 4], [0, 1], [1, 1], False),
}


@pytest.mark.parametrize("name", WINDOWS)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_windows(name: str, dtype: np.dtype[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, stride, padding, dilation, ceil = WINDOWS[name]
    x = values((2, 30, 27, 33), dtype)
    best, places = check_same(monkeypatch, ops.max_pool2d_with_indices, x, kernel, stride, padding, dilation, ceil)
    chosen = np.take_along_axis(x.reshape(2, 30, -1), places.reshape(2, 30, -1).astype(np.int64), -1)
    assert np.array_equal(chosen.reshape(best.shape), best, equal_nan=True)
    for padded in (True, False):
        check_same(monkeypatch, ops.avg_pool2d, x, kernel, stride, padding, ceil, padded, 0)
    if dtype == np.float32:
        check_same(
            monkeypatch, ops.max_pool2d_with_indices_backward, best, x, places, kernel, stride, padding, dilation, ceil
        )


def test_a_place_outside_the_plane_is_refused() -> None:
    x, grad = np.zeros((1, 64, 32, 32), np.float32), np.zeros((1, 64, 16, 16), np.float32)
    places = np.zeros(grad.shape, np.int32)
    places[0, 60, 3, 4] = 32 * 32
    with pytest.raises(AclError, match=r"element \[0, 60, 3, 4\] is 1024; allowed: 0 to 1023"):
        ops.max_pool2d_with_indices_backward(grad, x, places, [2, 2], [2, 2], [0, 0], [1, 1], False)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_means_of_whole_planes(dtype: np.dtype[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    x = values((2, 40, 27, 33), dtype, special=False)
    found = check_same(monkeypatch, ops.adaptive_avg_pool2d, x, [1, 1])
    wanted = x.astype(np.float64).mean((2, 3), keepdims=True)
    np.testing.assert_allclose(found.astype(np.float64), wanted, rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("shape", [(300, 200), (40, 257), (12, 5000)])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_the_largest_of_rows(
    shape: tuple[int, int], dtype: np.dtype[Any], largest: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of equal ones the first; also rows of one number, and of NaN alone."""
    x = values(shape, dtype)
    x[3], x[4] = 1.5, np.nan
    for k in (1, 8, 17, 64):
        _, places = check_same(monkeypatch, ops.topk, x, k, 1, largest, True)
        wide = x.astype(np.float64)
        ranks = np.argsort(wide if not largest else -np.where(np.isnan(wide), np.inf, wide), 1, kind="stable")
        first = np.isnan(x).sum(1) == 0  # infinities and NaN have one rank here
        assert np.array_equal(places[first], ranks[first, :k])


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_the_best_experts(dtype: np.dtype[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    gates = values((300, 64), dtype, special=False)
    for k in (1, 8):
        check_same(monkeypatch, ops.moe_gating_top_k_softmax, gates, None, k)


@pytest.mark.parametrize("shape", [(2, 3, 50, 64), (1, 2, 7, 1024), (3, 5, 1, 2)])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_rotary_embeddings(dtype: np.dtype[Any], shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    x = values(shape, dtype)
    cos, sin = values((1, 1, *shape[2:]), dtype), values((1, 1, *shape[2:]), dtype)[..., ::-1].copy()
    with np.errstate(all="ignore"):
        check_same(monkeypatch, ops.rotary_position_embedding, x, cos, sin, 0)


@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_running_sums(dtype: np.dtype[Any], dim: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for shape in ((3, 37, 530), (70, 9, 1), (1, 6, 1100)):
        x = values(shape, dtype)
        with np.errstate(all="ignore"):
            check_same(monkeypatch, ops.cumsum, x, dim, CODES[dtype.name])


@pytest.mark.parametrize("dtype", [*FLOATS, np.dtype(np.int8), np.dtype(np.int64)], ids=str)
def test_masked_elements(dtype: np.dtype[Any]) -> None:
    rng = np.random.default_rng(0)
    for shape in ((7,), (3, 1001), (400, 1000)):
        x = rng.integers(0, 1 << 8, (*shape, dtype.itemsize), dtype=np.uint8).view(dtype).reshape(shape)
        mask = rng.random(shape) < 0.5
        found = x.copy()
        ops.inplace_masked_fill_scalar(found, mask, 3)
        bits = f"u{dtype.itemsize}"
        assert np.array_equal(found.view(bits), np.where(mask, np.array(3).astype(dtype).view(bits), x.view(bits)))
