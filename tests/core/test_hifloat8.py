"""HIFLOAT8, which NumPy lacks: its 256 codes against a table written from the format's definition, and what is stored in it."""

from __future__ import annotations

import bisect
import math
import pickle
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import ascend_aclnn as aclnn
from ascend_aclnn import ops
from ascend_aclnn.backends.interface import Backend
from ascend_aclnn.core import hifloat8
from ascend_aclnn.testing import assert_accurate, compare

HIFLOAT8 = aclnn.DataType.HIFLOAT8
A5 = "Ascend950PR_9599"
EVERY_CODE = np.arange(256, dtype=np.uint8)


def table() -> list[Any]:
    """Values by code: bits of the dot, exponents in the order of their fields, bits of the mantissa."""
    rows = (
        ("0001", [("", 0)], 3),
        ("001", [("0", 1), ("1", -1)], 3),
        ("01", [("00", 2), ("01", 3), ("10", -2), ("11", -3)], 3),
        ("10", [(f"{n:03b}", e) for n, e in enumerate([4, 5, 6, 7, -4, -5, -6, -7])], 2),
        ("11", [(f"{n:04b}", e) for n, e in enumerate([*range(8, 16), *range(-8, -16, -1)])], 1),
    )
    values: list[Any] = [None] * 256
    for sign, prefix in ((1, "0"), (-1, "1")):
        for n in range(1, 8):
            values[int(f"{prefix}0000{n:03b}", 2)] = sign * Fraction(1, 2 ** (23 - n))
        for dot, exponents, width in rows:
            for field, exponent in exponents:
                for mantissa in range(1 << width):
                    value = sign * Fraction(2) ** exponent * (1 + Fraction(mantissa, 1 << width))
                    values[int(f"{prefix}{dot}{field}{mantissa:0{width}b}", 2)] = value
    values[0x00], values[0x80] = Fraction(0), math.nan
    values[0x6F], values[0xEF] = math.inf, -math.inf
    return values


TABLE = table()
FINITE = sorted((v, code) for code, v in enumerate(TABLE) if isinstance(v, Fraction))
CANDIDATES = [(Fraction(-49152), 0xEF), *FINITE, (Fraction(49152), 0x6F)]  # in order, with what infinity's would be


def nearest(x: float) -> int:
    """The code of a value by comparing exact distances to the codes beside it, halves away from zero."""
    if math.isnan(x):
        return 0x80
    if math.isinf(x):
        return 0x6F if x > 0 else 0xEF
    exact = Fraction(x)
    if abs(exact) > 49152:
        return 0x6F if exact > 0 else 0xEF
    place = bisect.bisect_left(CANDIDATES, (exact,))
    return min(CANDIDATES[max(place - 1, 0) : place + 1], key=lambda c: (abs(c[0] - exact), -abs(c[0])))[1]


def codes(array: Any) -> list[int]:
    found: list[int] = array.view(np.uint8).reshape(-1).tolist()
    return found


def test_every_code_has_the_value_of_the_definition() -> None:
    assert None not in TABLE and len({str(v) for v in TABLE}) == 256
    values = EVERY_CODE.view(HIFLOAT8.numpy).astype(np.float32)
    np.testing.assert_array_equal(values, np.array([float(v) for v in TABLE], np.float32))
    assert [float(x) for x in EVERY_CODE.view(HIFLOAT8.numpy)[:128]] == [float(v) for v in TABLE[:128]]


def test_values_round_to_the_nearest_and_halves_away_from_zero() -> None:
    ordered = [float(v) for v, _ in FINITE]
    ties = [(a + b) / 2 for a, b in zip(ordered, ordered[1:])] + [40960.0, -40960.0]
    beside = (
        [math.nextafter(x, way) for x in ties for way in (-math.inf, math.inf)] if hasattr(math, "nextafter") else []
    )
    beside32 = [float(np.nextafter(np.float32(x), np.float32(way))) for x in ties for way in (-np.inf, np.inf)]
    random = np.random.default_rng(5)
    spread = (random.choice([-1.0, 1.0], 500) * np.exp2(random.uniform(-26, 18, 500))).tolist()
    special = [0.0, -0.0, math.inf, -math.inf, math.nan, 1e-45, -1e-45, 1e300, -1e300, 1e-300]
    for numbers, dtype in (
        (ordered + ties + beside32 + special + np.float32(spread).tolist(), np.float32),
        (ordered + ties + beside + beside32 + special + spread, np.float64),
    ):
        with np.errstate(over="ignore", under="ignore"):
            given = np.array(numbers, dtype)
            made = hifloat8.encode(given)
        assert codes(made) == [nearest(float(x)) for x in given]


def test_a_tensor_of_codes(each_backend: Backend) -> None:
    x = np.array([[1.0625, -3.3, 1e5], [2.0**-23, -1e-9, np.nan]], np.float32)
    t = aclnn.asarray(x, "HIFLOAT8")
    assert (t.dtype, t.shape, t.nbytes) == (HIFLOAT8, (2, 3), 6)
    assert codes(t.numpy()) == [nearest(float(v)) for v in x.reshape(-1)]
    wanted = [[1.125, -3.25, math.inf], [2.0**-22, 0.0, math.nan]]
    for values in (t.tolist(), t.numpy().astype(np.float32), np.asarray(t, np.float64), t[:, :].numpy().astype(float)):
        np.testing.assert_array_equal(np.array(values), np.array(wanted))
    assert (t[0, 1].item(), float(t[0, 0]), int(t[0, 1])) == (-3.25, 1.125, -3) and bool(t[0, 0])
    assert t.T[:, 0].tolist() == wanted[0] and t[0, ::2].tolist() == [1.125, math.inf]
    assert codes(t.copy().numpy()) == codes(aclnn.asarray(t.numpy()).numpy()) == codes(t.numpy())
    assert codes(pickle.loads(pickle.dumps(t)).numpy()) == codes(t.numpy())
    t[0] = 7.6
    assert t[0].tolist() == [7.5] * 3
    assert aclnn.full((2,), 2.6, "HIFLOAT8").tolist() == [2.5] * 2 and aclnn.zeros((2,), HIFLOAT8).tolist() == [0] * 2


def test_blocks_of_codes(each_backend: Backend) -> None:
    x = np.arange(20 * 40).reshape(20, 40) % 13
    t = aclnn.asarray(x, "HIFLOAT8", format="FRACTAL_NZ")
    assert t.storage_shape == (2, 2, 16, 32) and t.tolist() == x.tolist()


def test_memory_of_the_host(each_backend: Backend) -> None:
    source = aclnn.pinned(3, HIFLOAT8)
    source[...] = np.array([8, 9, 10], np.uint8).view(HIFLOAT8.numpy)
    t = aclnn.empty((3,), HIFLOAT8)
    t.copy_from(source)
    assert t.tolist() == [1, 1.125, 1.25]


def test_bytes_that_nobody_named_are_not_taken_for_codes() -> None:
    with pytest.raises(TypeError, match=r"CANN has no data type for NumPy's \|V1"):
        aclnn.asarray(np.zeros(3, "V1"))


def test_scalars() -> None:
    scalar = aclnn.Scalar(3.3, "HIFLOAT8")
    assert scalar.value == 3.25 and scalar.tobytes() == bytes([nearest(3.3)])


@pytest.mark.parametrize("count", [7, 70_000, 300_000])  # one conversion of NumPy's, one block, several
@pytest.mark.parametrize("dtype", ["FLOAT", "FLOAT16", "BF16"])
def test_cast(dtype: str, count: int) -> None:
    x = np.random.default_rng(7).normal(0, 100, count).astype(np.float32)
    with aclnn.use_backend("numpy", soc=A5):
        given = ops.cast(x, dtype)
        rounded = ops.cast(given, "HIFLOAT8")
        assert rounded.dtype == HIFLOAT8.numpy
        wide = given.astype(np.float32)
        assert codes(rounded[:500]) == [nearest(float(v)) for v in wide[:500]]
        np.testing.assert_array_equal(rounded.view(np.uint8), hifloat8.encode(wide).view(np.uint8))
        back = ops.cast(rounded, dtype)
        np.testing.assert_array_equal(back.astype(np.float32), rounded.astype(np.float32))
        t = aclnn.asarray(given).astype("HIFLOAT8")
        assert codes(t.numpy()) == codes(rounded) and t.astype(dtype).dtype == aclnn.DataType[dtype]


def test_comparison_with_a_golden_is_by_value() -> None:
    made = aclnn.asarray([1.0, 2.6, np.nan], "HIFLOAT8")
    assert_accurate(made, np.array([1.0, 2.6, np.nan]))
    assert not compare(made, np.array([1.0, 2.8, np.nan])).accurate


def test_rounding_by_random_bits_has_no_reference() -> None:
    with aclnn.use_backend("numpy", soc=A5):
        x, scale = np.ones((2, 3), np.float32), np.ones(3, np.float32)
        assert (ops.ascend_quant_v3(x, scale, None, False, "round", HIFLOAT8, -1).astype(float) == 1).all()
        with pytest.raises(aclnn.UnsupportedOperator, match="random bits"):
            ops.ascend_quant_v3(x, scale, None, False, "hybrid", HIFLOAT8, -1)
