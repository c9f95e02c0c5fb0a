"""Compares a result with a golden one by an accuracy standard."""

from __future__ import annotations

import dataclasses
import html
import json
import math
from pathlib import Path
from typing import Any, Optional, Union

import ml_dtypes
import numpy as np
import numpy.typing as npt

from ascend_aclnn import catalog
from ascend_aclnn.core import hifloat8, notebook
from ascend_aclnn.core.dtypes import DataType, DTypeLike, as_datatype
from ascend_aclnn.core.tensor import Tensor
from ascend_aclnn.testing import pictures
from ascend_aclnn.testing.pictures import HeatMap, heat_map
from ascend_aclnn.testing.standards import EPSILON, MATCHED_RATIO, RATIOS, STANDARDS, ULPS, Thresholds, thresholds

_WORST = 8  # elements that a Comparison lists

Array = npt.NDArray[Any]


@dataclasses.dataclass(frozen=True)
class Deviation:
    """One element: where it is, what came, what was expected, and how far apart they are."""

    index: tuple[int, ...]
    actual: Any
    golden: Any
    error: float  # absolute
    ulp: float  # the same in units of the output data type's last place at the golden value; NaN for integers


class Comparison:
    """The outcome of ``compare``. True in a condition when the result is accurate.

    Attributes: accurate, standard (its name), dtype, size, reason ("" when accurate), figures (by name), worst (Deviations),
    wrong (how many elements the standard refuses by themselves; those that differ at all where only their mean is refused),
    options (what ``compare`` was asked for).
    """

    def __init__(
        self,
        standard: str,
        dtype: DataType,
        size: int,
        reason: str,
        figures: dict[str, float],
        worst: list[Deviation],
        wrong: Optional[Array] = None,
    ) -> None:
        self.accurate = not reason
        self.standard = standard
        self.dtype = dtype
        self.size = size
        self.reason = reason
        self.figures = figures
        self.worst = worst
        self.wrong = 0 if wrong is None or self.accurate else int(np.count_nonzero(wrong))
        self._mask = wrong if self.wrong else None
        self.options: dict[str, Any] = {
            "standard": standard,
            "operator": None,
            "hf32": False,
            "rtol": None,
            "atol": None,
        }
        self._arrays: Optional[tuple[Array, Array]] = None

    def __bool__(self) -> bool:
        return self.accurate

    def __str__(self) -> str:
        verdict = "accurate" if self.accurate else f"not accurate: {self.reason}"
        lines = [f"{verdict} ({self.standard}, {self.dtype.name}, {self.size} elements)"]
        if self.summary:
            lines.append(f"  {self.summary}")
        lines += [f"  {name:<16} {value:.6g}" for name, value in self.figures.items()]
        if self.worst and not self.accurate:
            lines.append("  worst elements")
            for item in self.worst:
                where = f"[{', '.join(map(str, item.index))}]"
                ulp = "" if math.isnan(item.ulp) else f", {item.ulp:.4g} ULP"
                lines.append(f"    {where} actual {item.actual}, golden {item.golden}, error {item.error:.6g}{ulp}")
        return "\n".join([*lines, *(f"  {line}" for line in self.picture())])

    __repr__ = __str__

    @property
    def summary(self) -> str:
        """How many elements are wrong and which is the worst: "6 of 1,000 elements, worst at (3, 7)"; "" when accurate."""
        if not self.wrong:
            return ""
        return f"{self.wrong:,} of {self.size:,} elements, worst at {self.worst[0].index}"

    def _repr_html_(self) -> str:
        """For notebooks: the verdict, the figures, the worst elements, the picture."""
        verdict, colour = ("accurate", "#2e7d32") if self.accurate else (f"not accurate: {self.reason}", "#c62828")
        parts = [
            f'<b style="color: {colour}">{html.escape(verdict)}</b>',
            html.escape(f" ({self.standard}, {self.dtype.name}, {self.size} elements)"),
            notebook.table((name, f"{value:.6g}") for name, value in self.figures.items()),
        ]
        if self.worst:
            rows = [(list(d.index), d.actual, d.golden, f"{d.error:.6g}", f"{d.ulp:.4g}") for d in self.worst]
            parts.append(notebook.table(rows, ("worst elements", "actual", "golden", "error", "ULP")))
        if not self.accurate:
            parts.append(self.svg())
        return "".join(parts)

    def to_json(self) -> str:
        """The same as a JSON object."""
        return json.dumps(
            {
                "accurate": self.accurate,
                "standard": self.standard,
                "dtype": self.dtype.name,
                "size": self.size,
                "wrong": self.wrong,
                "reason": self.reason,
                "figures": self.figures,
                "worst": [
                    {**dataclasses.asdict(d), "actual": str(d.actual), "golden": str(d.golden)} for d in self.worst
                ],
            }
        )

    @property
    def arrays(self) -> Optional[tuple[Array, Array]]:
        """What was compared: actual and golden; None after ``forget_arrays``."""
        return self._arrays

    def forget_arrays(self) -> None:
        """Lets go of the arrays that were compared, and with them of the histogram and the heat map."""
        self._arrays = self._mask = None

    def histogram(self) -> dict[str, int]:
        """Elements by the size of their error: "0", then up to 1, 2, 4, ... ULP (of integers: units), at last "NaN, inf".

        "0" are those that equal the golden rounded to the output's data type.
        """
        if self._arrays is None or self._arrays[0].shape != self._arrays[1].shape:
            return {}
        return _histogram(*self._arrays, self.dtype)

    def heat_map(self) -> Optional[HeatMap]:
        """Where the wrong elements are; None for an accurate result."""
        return None if self._mask is None else heat_map(self._mask)

    def picture(self) -> list[str]:
        """The histogram and the heat map as lines of text; none for an accurate result."""
        found = self.heat_map()
        if found is None:
            return []
        return [*pictures.histogram_lines(self.histogram(), self._unit), *pictures.heat_map_lines(found)]

    def plot(self, path: Union[str, Path]) -> None:
        """Writes a picture of the errors: how many are how large, where, and the worst elements.

        The path ends in .svg, or in .html for a page that has the figures too.
        """
        path = Path(path)
        if path.suffix not in (".svg", ".html"):
            raise ValueError(f"path is {str(path)!r}; a picture is an SVG or a page, so it must end in .svg or .html")
        whole = self.svg() if path.suffix == ".svg" else pictures.page("comparison", [self._repr_html_()])
        path.write_text(whole, encoding="utf-8")

    def svg(self, of: str = "", fault: str = "") -> str:
        """The picture that ``plot`` writes. ``of`` names what was compared; ``fault`` says why an accurate result is wrong."""
        verdict = "not accurate" if not self.accurate else "wrong" if fault else "accurate"
        facts = f"{self.standard}, {self.dtype.name}, {self.size} elements"
        reasons = [*self.reason.split("; "), self.summary] if self.reason else [fault] if fault else []
        reasons = [of, *reasons] if of else reasons
        worst = [(str(list(d.index)), d.actual, d.golden, d.error) for d in self.worst]
        return pictures.svg(verdict, facts, reasons, self.histogram(), self._unit, self.heat_map(), worst)

    @property
    def _unit(self) -> str:
        return "ULP" if thresholds(self.dtype) is not None else "units"


def compare(
    actual: Any,
    golden: Any,
    standard: Optional[str] = None,
    dtype: Optional[DTypeLike] = None,
    *,
    operator: Optional[str] = None,
    competitor: Any = None,
    hf32: bool = False,
    rtol: Optional[float] = None,
    atol: Optional[float] = None,
) -> Comparison:
    """Compares a result with a golden one: arrays, Tensors or torch tensors of the same shape.

    ``standard`` is a name of ``STANDARDS``; without one it is that of the ``operator`` (its C name), else "default".
    ``dtype`` is the output's data type where ``actual`` is held in a wider one. ``competitor`` is a result of the same
    precision, for "double_benchmark"; ``hf32`` says that products were rounded to HiFLOAT32. A golden is best computed in
    float64: an element that equals the golden rounded to the output's type has no error. ``rtol`` and ``atol`` replace the
    standard by one rule: every element within ``atol + rtol * abs(golden)``.
    """
    if operator is not None and operator not in catalog.names():
        raise ValueError(catalog.unknown_name(operator))
    options = {"standard": standard or "", "operator": operator, "hf32": hf32, "rtol": rtol, "atol": atol}
    own_limits = rtol is not None or atol is not None
    if own_limits and standard is not None:
        raise ValueError(f"standard {standard!r} and rtol or atol; a comparison has one or the other")
    by_operator = standard is None and operator is not None
    if standard is None:
        standard = "default" if operator is None else catalog.get(operator).accuracy_standard
    if standard not in STANDARDS:
        raise ValueError(f"standard is {standard!r}; it must be one of {', '.join(STANDARDS)}")
    actual_array, golden_array = as_array(actual), as_array(golden)
    data_type = as_datatype(actual_array.dtype if dtype is None else dtype)
    if actual_array.shape != golden_array.shape:
        reason = f"the shape is {actual_array.shape}; the golden's is {golden_array.shape}"
        comparison = Comparison(standard, data_type, actual_array.size, reason, {}, [])
    elif own_limits and actual_array.size:
        comparison = _within(actual_array, golden_array, data_type, rtol or 0.0, atol or 0.0)
    else:
        comparison = _judged(actual_array, golden_array, data_type, standard, by_operator, competitor, hf32)
    comparison.options = options
    comparison._arrays = actual_array, golden_array
    return comparison


def _judged(
    actual: Array, golden: Array, data_type: DataType, standard: str, by_operator: bool, competitor: Any, hf32: bool
) -> Comparison:
    """The comparison by a standard of ``STANDARDS``."""
    limits = thresholds(data_type, hf32)
    if by_operator and standard == "off_by_one" and limits is not None:
        standard = "default"  # the float results of an operator that quantises
    if standard == "default":
        standard = "bit_equal" if limits is None else "mixed and mere_mare"
    elif standard in ("mixed", "mere_mare", "double_benchmark") and limits is None:
        raise ValueError(f"standard {standard!r} is for floating-point results; the data type is {data_type.name}")
    if standard == "unspecified" or actual.size == 0:
        return Comparison(standard, data_type, actual.size, "", {}, [])
    if standard == "bit_equal":
        return _bit_equal(actual, golden, data_type)
    if standard == "off_by_one":
        return _off_by_one(actual, golden, data_type)
    assert limits is not None
    other = None if competitor is None else as_array(competitor)
    return _floats(standard, actual, golden, data_type, limits, other)


def _within(actual: Array, golden: Array, dtype: DataType, rtol: float, atol: float) -> Comparison:
    """Every element within the caller's tolerances; NaN where the golden has NaN, infinities equal."""
    values, expected = _wide(actual), _wide(golden)
    with np.errstate(all="ignore"):
        error = np.abs(values - expected)
        wrong = ~((error <= atol + rtol * np.abs(expected)) & np.isfinite(expected))
    wrong &= ~((values == expected) | (np.isnan(values) & np.isnan(expected)))
    count = int(np.count_nonzero(wrong))
    rule = f"atol {atol:g} + rtol {rtol:g} * abs(golden)"
    reason = f"{count} of {wrong.size} elements are not within {rule}" if count else ""
    finite = error[np.isfinite(error)]
    figures = {"max_abs_error": float(finite.max()) if finite.size else 0.0, "different": float(count)}
    return Comparison("rtol and atol", dtype, actual.size, reason, figures, _worst(actual, golden, wrong, dtype), wrong)


_LARGEST_BIN = 10  # errors above 2 ** 9 ULP are counted together


def _histogram(actual: Array, golden: Array, dtype: DataType) -> dict[str, int]:
    values, expected = _wide(actual), _wide(golden)
    rounded = _rounded(expected, dtype)
    misplaced = _misplaced(values, rounded)
    with np.errstate(all="ignore"):
        error = np.abs(values - expected) / _ulp(np.where(np.isfinite(expected), expected, 0), dtype)
        exact = (values == rounded) | (np.isnan(values) & np.isnan(rounded))
        error = error[~exact & ~misplaced & np.isfinite(error)].astype(np.float64)
        power = np.clip(np.ceil(np.log2(np.maximum(error, 1))), 0, _LARGEST_BIN).astype(int)
    counts = np.bincount(power)
    names = [*(str(2**k) for k in range(_LARGEST_BIN)), "more"]
    bins = {"0": int(np.count_nonzero(exact)), **{name: int(count) for name, count in zip(names, counts)}}
    return {**bins, "NaN, inf": int(np.count_nonzero(misplaced))} if misplaced.any() else bins


def as_array(value: Any) -> Array:
    """An ndarray of the values: of a Tensor, a torch tensor (bfloat16 too) or anything that NumPy takes."""
    if isinstance(value, Tensor):
        return value.numpy()
    results = (Tensor, np.ndarray) if isinstance(value, tuple) else Tensor
    if isinstance(value, (tuple, list)) and any(isinstance(item, results) for item in value):
        raise TypeError(f"a {type(value).__name__} of {len(value)} results; compare them one by one")
    if type(value).__module__.partition(".")[0] == "torch":
        value = value.detach().cpu()
        if str(value.dtype) == "torch.bfloat16":
            bits = value.contiguous().view(__import__("torch").int16).numpy()
            return np.asarray(bits.view(ml_dtypes.bfloat16))
        return np.asarray(value.resolve_conj().numpy())
    return np.asarray(value)


def _bit_equal(actual: Array, golden: Array, dtype: DataType) -> Comparison:
    expected = hifloat8.convert(golden, actual.dtype)
    equal = (actual == expected) | (_isnan(actual) & _isnan(expected))
    if dtype.numpy is not None and _is_float(expected):
        equal &= np.signbit(_wide(actual).real) == np.signbit(_wide(expected).real)
        equal |= _isnan(actual) & _isnan(expected)
    wrong = int(equal.size - np.count_nonzero(equal))
    reason = f"{wrong} of {equal.size} elements differ" if wrong else ""
    return Comparison(
        "bit_equal", dtype, actual.size, reason, {"different": wrong}, _worst(actual, golden, ~equal, dtype), ~equal
    )


def _off_by_one(actual: Array, golden: Array, dtype: DataType) -> Comparison:
    error = np.abs(_wide(actual) - _wide(golden))
    largest, count = float(error.max()), int(np.count_nonzero(error > 1))
    reason = f"{count} of {error.size} elements differ by more than 1 (the largest by {largest:g})" if count else ""
    figures = {"max_abs_error": largest, "different": float(np.count_nonzero(error))}
    worst = _worst(actual, golden, error > 0, dtype)
    return Comparison("off_by_one", dtype, actual.size, reason, figures, worst, error > 1)


def _floats(
    standard: str, actual: Array, golden: Array, dtype: DataType, limits: Thresholds, competitor: Optional[Array]
) -> Comparison:
    values, golden_values = _wide(actual), _wide(golden)
    misplaced = _misplaced(values, _rounded(golden_values, dtype))
    if misplaced.any():
        count = int(np.count_nonzero(misplaced))
        reason = (
            f"{count} of {misplaced.size} elements are NaN or infinite where the golden is not, or the other way round"
        )
        worst = _worst(actual, golden, misplaced, dtype)
        return Comparison(standard, dtype, actual.size, reason, {"misplaced": float(count)}, worst, misplaced)
    finite = np.isfinite(_rounded(golden_values, dtype)) & np.isfinite(values)
    error = np.where(finite, np.abs(np.where(finite, values, 0) - np.where(finite, golden_values, 0)), 0.0)
    error[values == _rounded(golden_values, dtype)] = 0.0  # as near as the output's type can be
    figures, reasons = {"max_abs_error": float(error.max())}, []
    wrong = np.zeros(error.shape, bool)
    if "mixed" in standard:
        wrong = error > limits.atol + limits.rtol * np.where(finite, np.abs(golden_values), 0)
        outside = int(np.count_nonzero(wrong))
        matched = 1 - outside / error.size
        worst_at = np.unravel_index(int(error.argmax()), error.shape)
        limit = max(limits.error_limit, ULPS * float(_ulp(golden_values[worst_at], dtype)))
        figures.update(matched_ratio=matched, max_abs_error_limit=limit)
        if matched < MATCHED_RATIO:
            reasons.append(
                f"{outside} of {error.size} elements are outside of the tolerance, {1 - matched:.4%}; "
                f"at most {1 - MATCHED_RATIO:.0%} may be"
            )
        if figures["max_abs_error"] > limit:
            reasons.append(
                f"the largest absolute error is {figures['max_abs_error']:.6g}; it must be at most {limit:.6g}"
            )
    relative = error / (np.where(finite, np.abs(golden_values), 0) + EPSILON)
    figures.update(mere=float(relative.mean()), mare=float(relative.max()))
    if "mere_mare" in standard:
        wrong |= relative >= 10 * limits.relative
        for name, bound in (("mere", limits.relative), ("mare", 10 * limits.relative)):
            if not figures[name] < bound:
                reasons.append(f"{name.upper()} is {figures[name]:.6g}; it must be below {bound:.6g}")
    if standard == "double_benchmark":
        reasons += _against_competitor(error, relative, competitor, golden_values, dtype, figures)
    worst = _worst(actual, golden, error > 0, dtype)
    if not wrong.any():  # only a mean is too large
        wrong = error > 0
    return Comparison(standard, dtype, actual.size, "; ".join(reasons), figures, worst, wrong)


def _against_competitor(
    error: Array,
    relative: Array,
    competitor: Optional[Array],
    golden: Array,
    dtype: DataType,
    figures: dict[str, float],
) -> list[str]:
    if competitor is None:
        raise ValueError("standard 'double_benchmark' needs competitor=, a result of the same precision")
    competitor_error = np.abs(_wide(competitor) - golden)
    competitor_error[_wide(competitor) == _rounded(golden, dtype)] = 0.0
    competitor_relative = competitor_error / (np.abs(golden) + EPSILON)
    reasons = []
    for name, figure, competitor_figure in (
        ("mare", float(relative.max()), float(competitor_relative.max())),
        ("mere", float(relative.mean()), float(competitor_relative.mean())),
        ("rmse", math.sqrt(float(np.mean(error**2))), math.sqrt(float(np.mean(competitor_error**2)))),
    ):
        figures[f"{name}_ratio"] = ratio = (
            figure / competitor_figure if competitor_figure else (0.0 if figure == 0 else math.inf)
        )
        if ratio > RATIOS[name]:
            reasons.append(f"{name.upper()} is {ratio:.4g} times the competitor's; at most {RATIOS[name]:g} is allowed")
    return reasons


def _misplaced(actual: Array, golden: Array) -> Array:
    """Where NaNs or infinities (with their signs) are in one and not in the other."""
    infinite = np.isinf(actual) | np.isinf(golden)
    return np.asarray((np.isnan(actual) != np.isnan(golden)) | (infinite & (actual != golden) & ~np.isnan(actual)))


def _worst(actual: Array, golden: Array, candidates: Array, dtype: DataType) -> list[Deviation]:
    """The elements with the largest errors among the candidates; NaN and infinity first."""
    flat = np.flatnonzero(candidates)
    if flat.size == 0:
        return []
    with np.errstate(all="ignore"):
        error = np.abs(_wide(actual).reshape(-1)[flat] - _wide(golden).reshape(-1)[flat])
    rank = np.where(np.isfinite(error), error, np.inf)
    chosen = np.argsort(-rank, kind="stable")[:_WORST]
    listed = []
    for at, distance in zip(flat[chosen], error[chosen]):
        index = tuple(int(i) for i in np.unravel_index(int(at), candidates.shape))
        ulp = float(distance / _ulp(_wide(golden)[index], dtype)) if thresholds(dtype) is not None else math.nan
        listed.append(Deviation(index, actual[index], golden[index], float(distance), ulp))
    return listed


def _wide(array: Array) -> Array:
    """In float64 (complex128): every comparison is made there. 64-bit integers keep their differences as Python's do."""
    if array.dtype.kind == "c":
        return np.asarray(array, np.complex128)
    if array.dtype.kind in "iu" and array.dtype.itemsize == 8:
        return np.asarray(array, np.longdouble)
    return np.asarray(array, np.float64)


def _rounded(golden: Array, dtype: DataType) -> Array:
    """The golden as the output's data type holds it."""
    if dtype.numpy is None:
        return golden
    with np.errstate(all="ignore"):
        return _wide(hifloat8.convert(golden, dtype.numpy))


def _ulp(value: Any, dtype: DataType) -> Any:
    """The distance to the next value of the data type, at a value's magnitude."""
    if dtype.numpy is None or thresholds(dtype) is None:
        return 1.0
    real = np.dtype(np.zeros(0, dtype.numpy).real.dtype)
    info: Any = ml_dtypes.finfo(real)  # type: ignore[no-untyped-call]
    magnitude = np.maximum(np.abs(value), float(info.smallest_normal))
    if not np.all(np.isfinite(magnitude)):
        return 1.0
    return np.exp2(np.floor(np.log2(magnitude)) - info.nmant)


def _is_float(array: Array) -> bool:
    return array.dtype.kind not in "iub" and array.dtype.kind != "c"


def _isnan(array: Array) -> Array:
    wide = _wide(array)
    return np.asarray(np.isnan(wide))
