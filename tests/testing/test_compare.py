"""The accuracy standards: what each lets pass, and which faults of an operator each catches."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Callable
from xml.etree import ElementTree

import ml_dtypes
import numpy as np
import pytest

import ascend_aclnn as aclnn
from ascend_aclnn.testing import Comparison, assert_accurate, compare, thresholds

FLOATS = [np.float16, ml_dtypes.bfloat16, np.float32]
RNG = np.random.default_rng(7)
GOLDEN = RNG.normal(0, 1, (64, 96))


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: np.dtype(d).name)
def test_a_correctly_rounded_result_is_accurate(dtype: Any) -> None:
    for golden in (GOLDEN, GOLDEN * 1e-6, GOLDEN * 1e4, np.zeros(5), np.full(3, 1e-30)):
        comparison = compare(golden.astype(dtype), golden)
        assert comparison and comparison.figures["mare"] == 0, comparison


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


MUTANTS: dict[str, Callable[[Any, Any], Any]] = {
    "one wrong element": lambda g, d: _with(g.astype(d), (3, 5), 1.5),
    "swapped rows": lambda g, d: _swapped(g.astype(d)),
    "rounded to eight bits": lambda g, d: g.astype(ml_dtypes.float8_e4m3fn).astype(d),
    "tail not written": lambda g, d: _with(g.astype(d), (63, slice(95, 96)), 0.0),
    "transposed block": lambda g, d: _transposed(g.astype(d)),
    "one NaN": lambda g, d: _with(g.astype(d), (0, 0), np.nan),
    "scaled by 1 + 16 T": lambda g, d: (g * (1 + 16 * _relative(d))).astype(d),
}


def _relative(dtype: Any) -> float:
    limits = thresholds(aclnn.asarray(np.zeros(1, dtype)).dtype)
    assert limits is not None
    return limits.relative


def _with(array: Any, index: Any, value: float) -> Any:
    array[index] = value
    return array


def _swapped(array: Any) -> Any:
    array[[1, 2]] = array[[2, 1]]
    return array


def _transposed(array: Any) -> Any:
    array[:8, :8] = array[:8, :8].T.copy()
    return array


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: np.dtype(d).name)
@pytest.mark.parametrize("mutant", MUTANTS)
def test_the_default_standard_catches_every_mutant(mutant: str, dtype: Any) -> None:
    comparison = compare(MUTANTS[mutant](GOLDEN.copy(), dtype), GOLDEN)
    assert not comparison, comparison


def test_which_standard_catches_which_mutant() -> None:
    """Neither standard alone sees all: one small element hides from the ratio, a small bias from the tolerance."""
    caught = {
        name: [s for s in ("mixed", "mere_mare") if not compare(make(GOLDEN.copy(), np.float32), GOLDEN, s)]
        for name, make in MUTANTS.items()
    }
    assert caught["one wrong element"] == ["mixed", "mere_mare"]
    assert caught["one NaN"] == ["mixed", "mere_mare"]
    small = GOLDEN.astype(np.float32)
    small[0, 0] = 0.004
    golden = GOLDEN.copy()
    golden[0, 0] = 0.001  # an absolute error of 0.003: below the limit, and one element of 6,144
    assert compare(small, golden, "mixed") and not compare(small, golden, "mere_mare")


def test_a_sum_in_half_precision_is_caught() -> None:
    x = RNG.random((4, 4096)).astype(np.float16)
    half = np.zeros(4, np.float16)
    for column in x.T:
        half += column
    assert not compare(half, x.astype(np.float64).sum(1))
    assert compare(x.astype(np.float32).sum(1).astype(np.float16), x.astype(np.float64).sum(1))


def test_infinities_and_nans_keep_their_places() -> None:
    golden = np.array([np.inf, -np.inf, np.nan, 1.0])
    assert compare(golden.astype(np.float32), golden)
    for at, value in ((0, 3e38), (1, np.inf), (2, 0.0), (3, np.nan), (3, np.inf)):
        wrong = golden.astype(np.float32)
        wrong[at] = value
        comparison = compare(wrong, golden)
        assert not comparison and comparison.worst[0].index == (at,), comparison
    assert compare(np.array([np.inf], np.float16), np.array([1e6]))  # the golden overflows the output's type


def test_tolerances_are_those_of_the_document() -> None:
    golden = np.full(1000, 100.0)
    actual = golden.astype(np.float32)
    actual[:10] += np.float32(0.009)  # one in a hundred may leave the tolerance, not the limit
    assert compare(actual, golden, "mixed")
    actual[:11] = 100.2
    assert "elements are outside of the tolerance" in compare(actual, golden, "mixed").reason
    actual = golden.astype(np.float32)
    actual[0] += np.float32(0.011)
    assert "largest absolute error" in compare(actual, golden, "mixed").reason
    big = np.full(1000, 1e6)  # 32 ULP of 1e6 in float32 is 2
    near = big.astype(np.float32)
    near[0] += 2
    assert compare(near, big, "mixed")
    near[0] += 1
    assert not compare(near, big, "mixed")


def test_mere_and_mare() -> None:
    golden = np.ones(100)
    actual = (golden * (1 + 1.01 * 2**-13)).astype(np.float32)
    comparison = compare(actual, golden, "mere_mare")
    assert not comparison and comparison.figures["mere"] == pytest.approx(1.01 * 2**-13, rel=1e-3)
    actual = golden.astype(np.float32)
    actual[7] += np.float32(11 * 2**-13)
    assert compare(actual, golden, "mere_mare").reason.startswith("MARE")


def test_a_competitor_sets_the_measure() -> None:
    golden = softmax(GOLDEN)
    competitor = (golden * (1 + 2**-20)).astype(np.float32)
    assert compare((golden * (1 + 2**-20)).astype(np.float32), golden, "double_benchmark", competitor=competitor)
    worse = compare((golden * (1 + 2**-17)).astype(np.float32), golden, "double_benchmark", competitor=competitor)
    assert not worse and "times the competitor's" in worse.reason
    with pytest.raises(ValueError, match="needs competitor="):
        compare(competitor, golden, "double_benchmark")


def test_integers_are_equal_or_off_by_one() -> None:
    golden = np.array([[1, 2], [3, 4]], np.int8)
    off = golden + np.int8([[0, 1], [0, 0]])
    assert compare(golden, golden).standard == "bit_equal" and not compare(off, golden)
    assert compare(off, golden, "off_by_one") and compare(off, golden, "off_by_one").figures["different"] == 1
    assert not compare(golden + np.int8(2), golden, "off_by_one")
    with pytest.raises(ValueError, match="floating-point results"):
        compare(golden, golden, "mixed")
    big = np.array([2**62, 2**62 + 1])
    assert not compare(big, big[::-1])


def test_bits_tell_zeros_apart() -> None:
    assert not compare(np.array([-0.0], np.float32), np.array([0.0], np.float32), "bit_equal")
    assert compare(np.array([np.nan], np.float32), np.array([np.nan], np.float32), "bit_equal")


def test_an_error_names_the_worst_element() -> None:
    wrong = GOLDEN.astype(np.float32)
    wrong[2, 3] = 9
    with pytest.raises(AssertionError, match=rf"\[2, 3\] actual 9.0, golden {GOLDEN[2, 3]}") as caught:
        assert_accurate(wrong, GOLDEN)
    assert "not accurate: " in str(caught.value) and "ULP" in str(caught.value)
    shown = [str(entry.path) for entry in caught.traceback if not entry.ishidden(caught)]
    assert shown == [__file__]  # the line of the test, and none of the package
    comparison = compare(wrong, GOLDEN)
    assert json.loads(comparison.to_json())["worst"][0]["index"] == [2, 3]
    assert isinstance(assert_accurate(GOLDEN.astype(np.float32), GOLDEN), Comparison)


def test_shapes_and_names() -> None:
    assert "the shape is (3,); the golden's is (2,)" in compare(np.ones(3), np.ones(2)).reason
    assert compare(np.ones((0, 3), np.float32), np.ones((0, 3)))
    with pytest.raises(ValueError, match="standard is 'exact'"):
        compare(np.ones(1), np.ones(1), "exact")
    wide = GOLDEN.astype(ml_dtypes.bfloat16).astype(np.float32)
    assert compare(wide, GOLDEN, dtype="bfloat16") and not compare(wide, GOLDEN)


def test_tolerances_of_the_caller() -> None:
    golden = np.array([1.0, 100.0, np.nan, np.inf])
    assert compare(golden + np.array([0.1, 0.1, 0, 0]), golden, rtol=0.001, atol=0.1)
    wrong = compare(golden + np.array([0.2, 0.1, 0, 0]), golden, atol=0.15)
    assert wrong.reason == "1 of 4 elements are not within atol 0.15 + rtol 0 * abs(golden)"
    assert wrong.worst[0].index == (0,)
    assert not compare(np.array([1.0, np.nan]), np.array([1.0, np.inf]), rtol=1)
    with pytest.raises(ValueError, match="one or the other"):
        compare(golden, golden, "mixed", rtol=1)


def test_wrong_calls() -> None:
    two = (np.ones(2), np.ones((3, 3)))
    with pytest.raises(TypeError, match="a tuple of 2 results; compare them one by one"):
        compare(two, two)
    with pytest.raises(ValueError, match="no operator 'aclnnExpp' in the catalog; did you mean 'aclnnExp"):
        compare(np.ones(1), np.ones(1), operator="aclnnExpp")
    assert thresholds("float16") == thresholds(aclnn.DataType.FLOAT16) is not None


def test_tensors_and_torch_tensors() -> None:
    with aclnn.use_backend("numpy"):
        assert compare(aclnn.asarray(GOLDEN.astype(np.float16)), GOLDEN)
    torch = pytest.importorskip("torch", reason="torch is not installed")
    tensor = torch.from_numpy(GOLDEN)
    assert compare(tensor.bfloat16(), tensor) and compare(tensor.half().requires_grad_(), GOLDEN)


def test_complex_results() -> None:
    golden = GOLDEN + 1j * GOLDEN[::-1]
    assert compare(golden.astype(np.complex64), golden)
    assert not compare((golden * 1.01).astype(np.complex64), golden)


def test_the_histogram_counts_elements_by_their_error() -> None:
    golden = np.array([1.0, 1.0, 1.0, 1.0, 1.0, 1.0, np.nan, np.inf])
    ulp = 2.0**-10  # of float16 at 1
    steps = np.array([0, 1, 2, 3, 40, 5000, 0, 0])
    actual = (np.nan_to_num(golden, nan=1, posinf=1) + steps * ulp).astype(np.float16)
    actual[6:] = [np.nan, 7]
    counts = compare(actual, golden).histogram()
    assert {name: count for name, count in counts.items() if count} == {
        "0": 2,
        "1": 1,
        "2": 1,
        "4": 1,
        "64": 1,
        "more": 1,
        "NaN, inf": 1,
    }
    assert sum(counts.values()) == golden.size
    assert compare(np.array([1, 2, 9]), np.array([1, 3, 3])).histogram() == {"0": 1, "1": 1, "2": 0, "4": 0, "8": 1}


def test_a_picture_is_an_svg_with_the_counts_and_the_worst_elements(tmp_path: Path) -> None:
    golden = np.linspace(1, 2, 100)
    actual = golden.astype(np.float16)
    actual[7] = 9
    comparison = compare(actual, golden)
    comparison.plot(tmp_path / "errors.svg")
    root = ElementTree.parse(tmp_path / "errors.svg").getroot()
    assert root.get("viewBox") == f"0 0 {root.get('width')} {root.get('height')}"
    words = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "not accurate" in words and "99" in words and "[7]" in words and "9.0" in words
    for shape in root.iter("{http://www.w3.org/2000/svg}rect"):
        assert float(shape.get("x", "")) >= 0 and float(shape.get("width", "")) >= 0
        assert float(shape.get("y", "")) + float(shape.get("height", "")) <= float(root.get("height", ""))
    with pytest.raises(ValueError, match=r"must end in \.svg"):
        comparison.plot("errors.png")
    ElementTree.fromstring(compare(np.zeros(2), np.zeros(3)).svg())  # nothing to count
