"""What the tests of attention share: attention of single queries in float64, numbers that BF16 and FLOAT16 hold."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

import ascend_aclnn as aclnn
from ascend_aclnn import catalog
from ascend_aclnn.reference import find

BF16 = np.dtype(ml_dtypes.bfloat16)


def numbers(rng: Any, *shape: int, dtype: Any = BF16) -> Any:
    return rng.standard_normal(shape).astype(np.float32).astype(dtype)


def hifloat8_numbers(rng: Any, *shape: int) -> Any:
    return aclnn.asarray(numbers(rng, *shape, dtype=np.float32), "HIFLOAT8").numpy()


def wide(x: Any) -> Any:
    return np.asarray(x).astype(np.float64)


def attend(query: Any, keys: Any, values: Any, scale: float, sink: Any = None) -> tuple[Any, Any]:
    """Result and probabilities of one query, all keys seen; in float64."""
    scores = np.array([float(wide(query) @ wide(key)) * scale for key in keys])
    weights = np.exp(scores - scores.max()) if len(scores) else scores
    total = weights.sum() + (0.0 if sink is None else np.exp(float(sink) - scores.max()))
    probabilities = weights / total
    return sum((p * wide(v) for p, v in zip(probabilities, values)), np.zeros(wide(values).shape[-1])), probabilities


def close(actual: Any, expected: Any, tolerance: float = 2.0**-8) -> None:
    """To a rounding of BF16 by default, and as much of the largest number as sums lose."""
    expected = np.asarray(expected, np.float64)
    limit = np.abs(expected).max(initial=1e-3)
    np.testing.assert_allclose(wide(actual), expected, rtol=tolerance, atol=limit * tolerance / 4)


def call(name: str, **given: Any) -> dict[str, Any]:
    """A reference's results by C name; arguments that are not given are None."""
    operator = catalog.get(name)
    found = find(operator)
    assert found is not None
    unknown = set(given) - set(operator.positions)
    assert not unknown, unknown
    results = found.function(*(given.get(p.name) for p in operator.parameters if p.direction != "out"))
    outputs = [p.name for p in operator.parameters if p.direction != "in"]
    return {outputs[0]: results} if len(outputs) == 1 else dict(zip(outputs, results))
