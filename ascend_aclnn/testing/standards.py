"""Accuracy standards as data: thresholds by data type, with their source.

Source of ``mixed``: "Ecosystem operator accuracy standard" of CANN's opbase repository, docs/zh/ops_precision_standard/
experimental_standard.md (section 2), and of ``mere_mare``: docs/en/ops_precision_standard/experimental_standard.md; both
read on 2026-11-22 at commit aa3cd74b7f6d772acd64ff48292a7e65a9bc8142. The rows of DOUBLE are this package's own, and so
are the ratios of ``double_benchmark``.
"""

from __future__ import annotations

from typing import NamedTuple, Optional

from ascend_aclnn.core.dtypes import DataType, DTypeLike, as_datatype


class Thresholds(NamedTuple):
    """The limits of one data type. ``rtol`` to ``error_limit`` belong to ``mixed``, ``relative`` to ``mere_mare``."""

    rtol: float
    atol: float
    error_limit: float  # the floor of the limit on the largest absolute error; 32 ULP where that is larger
    relative: float  # MERE stays below it, MARE below ten times it


FLOATS: dict[str, Thresholds] = {
    "FLOAT16": Thresholds(2**-9, 2**-9, 1e-1, 2**-10),
    "BF16": Thresholds(2**-6, 2**-6, 1.0, 2**-7),
    "FLOAT": Thresholds(2**-10, 2**-16, 1e-2, 2**-13),
    "HIFLOAT32": Thresholds(2**-9, 2**-10, 1e-1, 2**-11),  # cubeMathType USE_HF32
    "FLOAT8_E4M3FN": Thresholds(2**-2, 2**-4, 1.0, 2**-3),
    "FLOAT8_E5M2": Thresholds(2**-1, 2**-3, 1e-1, 2**-2),
    "DOUBLE": Thresholds(2**-36, 2**-42, 1e-8, 2**-39),
}
MATCHED_RATIO = 0.99  # of elements within atol + rtol * |golden|
ULPS = 32  # of the golden value at the worst element
EPSILON = 1e-7  # added to |golden| in relative errors

# double_benchmark: error of the device divided by that of a competitor of the same precision, both against a wider golden.
RATIOS = {"mare": 10.0, "mere": 2.0, "rmse": 2.0}


class Standard(NamedTuple):
    """A way to judge a result: its name, and what it asks."""

    name: str
    asks: str


STANDARDS = {
    s.name: s
    for s in (
        Standard("default", "mixed and mere_mare for floats, bit_equal for everything else"),
        Standard(
            "mixed", "99 % of elements within atol + rtol * |golden|, none beyond the limit of the absolute error"
        ),
        Standard("mere_mare", "the mean relative error below T, the largest below 10 T"),
        Standard(
            "double_benchmark", "errors at most 10 (largest), 2 (mean), 2 (root mean square) times a competitor's"
        ),
        Standard("bit_equal", "the same bits; NaNs where the golden has NaNs"),
        Standard("off_by_one", "integers that differ by at most one"),
        Standard("unspecified", "shape and dtype only: the values are random or left to the hardware"),
    )
}


def thresholds(dtype: DTypeLike, hf32: bool = False) -> Optional[Thresholds]:
    """The thresholds of a data type; None for one that is compared bit by bit."""
    dtype = as_datatype(dtype)
    if dtype in (DataType.COMPLEX64, DataType.COMPLEX32):
        dtype = DataType.FLOAT if dtype is DataType.COMPLEX64 else DataType.FLOAT16
    elif dtype is DataType.COMPLEX128:
        dtype = DataType.DOUBLE
    return FLOATS.get("HIFLOAT32" if hf32 and dtype is DataType.FLOAT else dtype.name)
