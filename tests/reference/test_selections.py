"""Formulas that only select, on the bits of 16-bit floats: the bits that the formula has on float32, rounded."""

from __future__ import annotations

from typing import Any, Callable

import ml_dtypes
import numpy as np
import pytest
from formulas import assert_same, bits, without_helper

from ascend_aclnn.numerics import programs, where
from ascend_aclnn.numerics.blocks import elementwise

DTYPES = [np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)]
FORMULAS: dict[str, Callable[..., Any]] = {
    "maximum": np.maximum,
    "minimum": np.minimum,
    "maximum of negatives": lambda x, y: np.maximum(-x, y),
    "at least 0": lambda x, y: np.maximum(x, 0),
    "at least -0": lambda x, y: np.maximum(x, -0.0),
    "at most 0": lambda x, y: np.minimum(x, 0),
    "at most -0": lambda x, y: np.minimum(x, -0.0),
    "0 or less": lambda x, y: np.minimum(np.float32(0), x),
    "at least 0.1": lambda x, y: np.maximum(x, 0.1),
    "at most less than the least": lambda x, y: np.minimum(x, -1e-44),
    "at most more than float16 has": lambda x, y: np.minimum(x, 1e5),
    "clip above 0": lambda x, y: np.clip(x, 0, 0.3),
    "clip above -0": lambda x, y: np.clip(x, -0.0, 0.3),
    "clip below 0": lambda x, y: np.clip(x, -0.3, 0),
    "clip at 0": lambda x, y: np.clip(x, 0, -0.0),
    "negative": lambda x, y: -x,
    "absolute": lambda x, y: np.abs(x),
    "limits of magnitudes": lambda x, y: -np.clip(np.abs(x), 0.5, 2),
    "y or 0": lambda x, y: where(x > 0, y, 0),
    "0 or y": lambda x, y: where(x >= -0.0, 0, y),
    "y or -0": lambda x, y: where(x < 0, -y, -0.0),
    "y or 0.3": lambda x, y: where(x >= 0.5, y, 0.3),
    "y within limits": lambda x, y: where((x > -1) & ~(x >= 1), y, x),
    "the larger within limits": lambda x, y: np.maximum(where((x <= 0) ^ (y < 1), y, 0.25), y),
    "a condition": lambda x, y: (x <= 0) | (y > 2),
}


@pytest.fixture(autouse=True)
def numpy_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    without_helper(monkeypatch)


def all_values(dtype: np.dtype[Any], seed: int, *but: float) -> Any:
    """All values but NaN and the given ones, and many zeros."""
    every = np.arange(1 << 16, dtype=np.uint16).view(dtype)
    with np.errstate(invalid="ignore"):  # on AArch64 signalling NaN warn
        numbers = every.astype(np.float32)
    every = np.concatenate([every, np.zeros(1 << 15, dtype), -np.zeros(1 << 15, dtype)])
    left_out = np.isin(bits(every), bits(np.array(but, np.float32).astype(dtype)))
    every = every[~left_out & np.append(~np.isnan(numbers), np.ones(1 << 16, bool))][:90_000]
    return np.random.default_rng(seed).permutation(bits(every)).view(dtype)


def expected(formula: Callable[..., Any], x: Any, y: Any, dtype: np.dtype[Any]) -> Any:
    with np.errstate(all="ignore"):
        return np.asarray(formula(x.astype(np.float32), y.astype(np.float32))).astype(dtype)


def result_type(formula: Callable[..., Any], dtype: np.dtype[Any]) -> np.dtype[Any]:
    return (
        np.dtype(formula(np.zeros(1, np.float32), np.zeros(1, np.float32)).dtype)
        if formula is FORMULAS["a condition"]
        else dtype
    )


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", FORMULAS)
def test_all_values(name: str, dtype: np.dtype[Any]) -> None:
    formula = FORMULAS[name]
    kind = result_type(formula, dtype)
    for but in ((), (-0.0,), (0.0,)):
        x, y = all_values(dtype, 0, *but), all_values(dtype, 1, *but)
        x, y = x[: min(x.size, y.size)], y[: min(x.size, y.size)]
        out = np.empty(x.shape, kind)
        assert elementwise(formula, [x, y], [out])
        assert (bits(out) == bits(expected(formula, x, y, kind))).all(), but


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", ["maximum", "at least 0", "y or 0", "negative"])
def test_layouts_and_nan(name: str, dtype: np.dtype[Any]) -> None:
    formula = FORMULAS[name]
    x = all_values(dtype, 0, -0.0)[:65_536].reshape(256, 256)
    y = all_values(dtype, 1, -0.0)[:65_536].reshape(256, 256)
    for a, b in ((x, y[:1]), (x[:, ::-1], y.T), (x[:, :1], y)):
        if formula(a.astype(np.float32), b.astype(np.float32)).shape != x.shape:
            continue
        out = np.empty((256, 512), dtype)[:, ::2]
        assert elementwise(formula, [a, b], [out])
        assert_same(out.copy(), expected(formula, a, b, dtype))
    x[200, 3], y[100, 5] = np.nan, -np.nan
    wanted = expected(formula, x, y, dtype)
    assert elementwise(formula, [x, y], [x])
    assert_same(x, wanted)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_which_formulas_select(dtype: np.dtype[Any]) -> None:
    x = np.empty(4, dtype)

    def selects(formula: Callable[..., Any], inputs: Any = (x, x), output: Any = x) -> bool:
        return programs.selects(formula, list(inputs), [output])

    for name in ("maximum", "at least 0", "clip below 0", "negative", "y or 0.3", "y within limits"):
        assert selects(FORMULAS[name]), name
    assert selects(FORMULAS["a condition"], output=np.empty(4, np.bool_))
    assert not selects(lambda x, y: x + y)
    assert not selects(lambda x, y: where(x > 0.1, y, 0))  # 0.1 is between two values
    assert not selects(FORMULAS["maximum"], output=np.empty(4, np.float32))
    assert not selects(FORMULAS["maximum"], (x, np.empty(4, np.float32)))
