"""Formulas, and values for them: numbers of many sizes and every pair of special ones."""

from __future__ import annotations

from typing import Any, Callable

import ml_dtypes
import numpy as np
import pytest

from ascend_aclnn import native
from ascend_aclnn.numerics import blocks, programs, where
from ascend_aclnn.numerics.blocks import along, elementwise

DTYPES = [np.dtype(np.float32), np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)]
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -2.5, np.inf, -np.inf, np.nan, 1e-45, -1e-40, 3e38, -3e38, 6.1e-5, 65504.0]


def values(shape: tuple[int, ...], dtype: np.dtype[Any], seed: int) -> Any:
    """Normal numbers of many sizes, and every pair of special ones."""
    rng = np.random.default_rng(seed)
    made = (rng.standard_normal(shape) * 10.0 ** rng.integers(-3, 4, shape)).astype(np.float32)
    flat, pairs = made.reshape(-1), np.array(SPECIAL, np.float32)
    grid = np.repeat(pairs, len(pairs)) if seed % 2 else np.tile(pairs, len(pairs))
    flat[: grid.size] = grid[: flat.size]
    with np.errstate(all="ignore"):
        return made.astype(dtype)


def bits(array: Any) -> Any:
    return array.view(f"u{array.itemsize}")


def assert_same(results: Any, expected: Any) -> None:
    """The same bits, but for those of NaN: its sign depends on the loop of NumPy, and on how compilers order operands."""
    differ = (bits(results) != bits(expected)) & ~((results != results) & (expected != expected))
    assert not differ.any(), f"{differ.sum()} differ: {results[differ][:5]} and {expected[differ][:5]}"


def without_helper(monkeypatch: pytest.MonkeyPatch) -> None:
    """NumPy alone, in blocks so small that every case has several."""
    monkeypatch.setattr(native, "runs_programs", lambda: False)
    monkeypatch.setattr(native, "has", lambda _: False)
    monkeypatch.setattr(native, "converts", lambda *_: False)
    monkeypatch.setattr(blocks, "SMALL", 1 << 10)
    monkeypatch.setattr("ascend_aclnn.numerics.steps._BLOCK", 1 << 15)


def check_same(
    way: str, function: Callable[..., Any], inputs: list[Any], outputs: list[Any], row_axes: int = 0
) -> None:
    """A formula fills the outputs by its "program" or its "steps" with what it gives on whole blocks."""
    others = [output.copy() for output in outputs]
    with np.errstate(all="ignore"):
        assert getattr(programs, way)(function, inputs, outputs, row_axes, inputs[0]) is not None, f"there is no {way}"
        run: Any = along if row_axes else elementwise
        arguments: Any = (function, lambda *_: range(-row_axes, 0), inputs) if row_axes else (function, inputs)
        assert run(*arguments, outputs)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(programs, way, lambda *_: None)
            assert run(*arguments, others)
    for output, other in zip(outputs, others):
        assert_same(output, other)


ELEMENTWISE: dict[str, Callable[..., Any]] = {
    "add": lambda x, y: x + y,
    "subtract": lambda x, y: x - y,
    "multiply": lambda x, y: x * y,
    "divide": lambda x, y: x / y,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "copysign": np.copysign,
    "fmod": np.fmod,
    "remainder": np.remainder,
    "remainder of a number": lambda x, y: np.remainder(x, 0.7) + y,
    "negative": lambda x, y: -x,
    "absolute": lambda x, y: np.abs(x),
    "square root": lambda x, y: np.sqrt(x),
    "square": lambda x, y: np.square(x),
    "reciprocal": lambda x, y: np.reciprocal(x),
    "rounding": lambda x, y: np.rint(x) + np.floor(x) * np.ceil(y) - np.trunc(y),
    "to the nearest": lambda x, y: np.rint(x),
    "down": lambda x, y: np.floor(x),
    "up": lambda x, y: np.ceil(x),
    "towards zero": lambda x, y: np.trunc(x),
    "a number more": lambda x, y: x + 2.5,
    "a number less": lambda x, y: x - 0.7,
    "times a number": lambda x, y: x * 0.3,
    "divided by a number": lambda x, y: x / 3,
    "at least a number": lambda x, y: np.maximum(x, 0.1),
    "at most a number": lambda x, y: np.minimum(x, -0.0),
    "between numbers": lambda x, y: np.minimum(np.maximum(x, -0.3), 7),
    "a number without it": lambda x, y: 0.7 - x,
    "a number by a root": lambda x, y: 1.5 / np.sqrt(x),
    "a root by a number": lambda x, y: np.sqrt(x) / 1.5,
    "gated": lambda x, y: x * (1 / (1 + np.exp(-y))),
    "gate": lambda x, y: (1 / (1 + np.exp(-x))) * y,
    "gated by itself": lambda x, y: x * (1 / (1 + np.exp(-x))),
    "gate of a gate": lambda x, y: (g := 1 / (1 + np.exp(-x))) * g,
    "a gated number": lambda x, y: 0.3 * (1 / (1 + np.exp(-x))),
    "twice the same": lambda x, y: x * x,
    "sign": lambda x, y: np.sign(x),
    "leaky": lambda x, y: where(x > 0, x, 0.3 * x),
    "leaky by an array": lambda x, y: where(x > 0, x, y * x),
    "leaky elsewhere": lambda x, y: where(x > 0, x, 0.3 * y),
    "leaky above": lambda x, y: where(x > 0.5, x, 0.3 * x),
    "choice": lambda x, y: where(x < y, x, y),
    "choices": lambda x, y: where((x <= 0) | np.isnan(y), 0, where((x > 1) & (y >= 0.5), y, 1.5)),
    "tests": lambda x, y: where(~np.isfinite(x) ^ np.isinf(y), x, where(np.signbit(x), y, x + 1)),
    "clip": lambda x, y: np.clip(x, -1, 1),
    "clip by arrays": lambda x, y: np.clip(x, -np.abs(y), np.abs(y)),
    "masks as numbers": lambda x, y: (x > 0) * y + (y == x) * x,
    "product and sum": lambda x, y: (x * y + 3) * x + y * y,
    "exp between": lambda x, y: x / (1 + np.exp(-y)) * y,
    "polynomial": lambda x, y: ((((((x * 0.1 + 0.2) * x + 0.3) * x + 0.4) * x + 0.5) * x + 0.6) * x + 0.7) * x + y,
    "short polynomials": lambda x, y: ((y * x + 1) * x + 2) + (((y * x + 3) * x + 4) * x + 5) * (y * y + 6),
    "steps of a polynomial used again": lambda x, y: ((z := (x * y + 0.5) * y + 0.25) * y + 2) * z + (z * z + 1) * y,
    "logistic": lambda x, y: 1 / (1 + np.exp(-x)),
    "logistic, with its parts": lambda x, y: np.exp(-x) * y - 1 / (np.exp(-x) + 1) * (1 + np.exp(-x)),
    "not quite logistic": lambda x, y: (
        1 / (y + np.exp(-x)) + 2 / (1 + np.exp(-x)) + (1 + np.exp(-x)) / 1 + 1 / (1 + np.exp(x))
    ),
    "two functions": lambda x, y: np.tanh(np.log1p(np.exp(-np.abs(x)))) * np.log(np.abs(y) + 1),
    "a chain": lambda x, y: np.exp(np.sin(x)) + y,
    "a function alone": lambda x, y: np.exp(x),
    "an input alone": lambda x, y: y,
    "in place": lambda x, y: np.add(np.square(z := x * 2, out=z), y, out=z),
}
