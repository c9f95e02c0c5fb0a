"""ascend_aclnn.array_api beside NumPy's own namespace, which follows the same standard."""

from __future__ import annotations

import inspect
import operator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ascend_aclnn as aclnn
from ascend_aclnn import array_api as xp
from ascend_aclnn.backends.interface import Backend
from ascend_aclnn.cli.main import main
from ascend_aclnn.core.tensor import Tensor

pytestmark = pytest.mark.skipif(
    np.lib.NumpyVersion(np.__version__) < "2.1.0", reason="NumPy has the standard from 2.1 on"
)

F = np.array([[0.5, -0.25, 0.75, 1.0], [-1.0, 0.125, 0.0, -0.5]], np.float32)
G = np.array([[2.0, 3.0, -1.0, 0.5], [4.0, -2.0, 1.0, 0.25]], np.float32)
N = np.array([[3, -1, 2, 0], [7, 5, 3, 6]], np.int32)
J = np.array([[1, 2, 2, 3], [1, 1, 3, 2]], np.int32)
B = N > 2
C = (F + 1j * G).astype(np.complex64)
S = np.array([1, 3, 3, 7, 9], np.int32)
NEXT = np.array([0.0, -0.0, 1.0, -1.0, 1e-45, np.inf, -np.inf, np.nan, 3.4028235e38], np.float32)
P = np.array([2, 0, 1], np.int64)

FLOATING = "acos asin asinh atan atanh cos cosh exp expm1 sin sinh tan tanh"
POSITIVE = "acosh log log1p log2 log10 sqrt reciprocal"
ARITHMETIC = (
    "add",
    "subtract",
    "multiply",
    "divide",
    "floor_divide",
    "remainder",
    "maximum",
    "minimum",
    "atan2",
    "hypot",
)
INTEGRAL = ("add", "subtract", "multiply", "floor_divide", "remainder", "pow", "maximum", "minimum", "equal", "less")
CALLS: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    *((name, (F * 0.9,), {}) for name in FLOATING.split()),
    *((name, (np.abs(G) + 1,), {}) for name in POSITIVE.split()),
    *((name, (x,), {}) for name in ("ceil", "floor", "round", "trunc", "sign", "abs", "negative") for x in (F * 3, N)),
    *((name, (x,), {}) for name in ("square", "positive", "isnan", "isinf", "isfinite") for x in (F / np.float32(0.5), N)),
    *((n, (F, G), {}) for n in ARITHMETIC),
    *((n, (F, G), {}) for n in ["copysign", "logaddexp", "equal", "not_equal", "less", "less_equal", "greater", "greater_equal"]),
    *((n, (N, J), {}) for n in INTEGRAL),
    *((n, (N, J), {}) for n in ["bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift"]),
    *((n, (B, N == 3), {}) for n in ["logical_and", "logical_or", "logical_xor", "bitwise_and", "bitwise_or", "bitwise_xor"]),
    *((n, (F, 2.0), {}) for n in ["add", "subtract", "multiply", "divide", "pow", "maximum", "less"]),
    ("pow", (np.abs(G), F), {}),
    ("add", (F[:, :1], G[0]), {}),
    ("signbit", (np.array([0.0, -0.0, 1, -1, np.inf, -np.inf, np.nan, -np.nan], np.float32),), {}),
    ("isfinite", (np.array([0, np.inf, np.nan], np.float32),), {}),
    ("isinf", (np.array([0, -np.inf, np.nan], np.float32),), {}),
    ("isnan", (np.array([0, -np.inf, np.nan], np.float32),), {}),
    ("negative", (np.array([0, 1, 255], np.uint8),), {}),
    *((n, (F.astype(np.float64),), {"axis": 1, "correction": 1}) for n in ("var", "std")),
    *((n, (x,), {}) for n in ("expm1", "tanh", "trunc") for x in (F * np.float32(1e-5), NEXT)),
    *((n, (x.astype(np.float64),), {}) for n in ("expm1", "tanh", "trunc") for x in (F * 1e-5, NEXT, np.linspace(-50.0, 50, 11))),
    ("var", (F.astype(np.float64),), {}),
    ("matmul", (F.astype(np.float64), G.T.astype(np.float64)), {}),
    ("tensordot", (F.astype(np.float64), G.T.astype(np.float64)), {"axes": 1}),
    *((n, (NEXT.astype(t)[:, None], NEXT.astype(t)), {}) for n in ["nextafter"] for t in ("float32", "float64")),
    *((n, (C * size,), {}) for n in ("acos", "expm1", "log1p", "tanh") for size in (1, 30)),
    ("bitwise_invert", (N,), {}),
    ("bitwise_invert", (B,), {}),
    ("logical_not", (B,), {}),
    ("clip", (F,), {"min": -0.3, "max": 0.6}),
    ("clip", (N,), {"max": 3}),
    ("real", (C,), {}),
    ("imag", (C,), {}),
    ("conj", (C,), {}),
    ("broadcast_to", (F[:, :1], (3, 2, 4)), {}),
    ("expand_dims", (F,), {"axis": 1}),
    ("expand_dims", (F,), {"axis": -1}),
    ("squeeze", (F[:, None], 1), {}),
    ("flip", (F,), {}),
    ("flip", (F,), {"axis": -1}),
    ("permute_dims", (F, (1, 0)), {}),
    ("matrix_transpose", (F,), {}),
    ("moveaxis", (F[None], 0, -1), {}),
    ("moveaxis", (F[None], (0, 2), (2, 0)), {}),
    ("reshape", (F.T, (2, -1)), {}),
    ("repeat", (F, 2), {"axis": 1}),
    ("repeat", (N, 3), {}),
    ("repeat", (F.astype(np.float64), 3), {"axis": 1}),
    ("repeat", (C, np.array([1, 2], np.int64)), {"axis": 0}),
    ("repeat", (N, np.array([1, 2], np.int64)), {"axis": 0}),
    ("tile", (F, (2, 1, 3)), {}),
    ("tile", (F, (2,)), {}),
    ("roll", (F, 3), {}),
    ("roll", (F, (1, -2)), {"axis": (0, 1)}),
    ("matmul", (F, G.T.copy()), {}),
    ("matmul", (N, J.T.copy()), {}),
    ("matmul", (F, G[0]), {}),
    ("matmul", (N[0], J.T.copy()), {}),
    ("tensordot", (F, G), {"axes": ((0, 1), (0, 1))}),
    ("tensordot", (F, G.T.copy()), {"axes": 1}),
    ("tensordot", (N, J), {"axes": 0}),
    ("vecdot", (F, G), {}),
    ("vecdot", (N, J), {"axis": 0}),
    *((n, (N,), {"axis": axis}) for n in ("argmax", "argmin", "count_nonzero") for axis in (None, 0, 1)),
    ("argmax", (F,), {"axis": 1, "keepdims": True}),
    ("nonzero", (N,), {}),
    ("searchsorted", (S, np.array([0, 3, 8, 10], np.int32)), {}),
    ("searchsorted", (S, np.array([0, 3, 8, 10], np.int32)), {"side": "right"}),
    ("where", (B, F, G), {}),
    ("where", (B[0], N, J), {}),
    *((n, (N,), {"axis": axis}) for n in ("sort", "argsort") for axis in (0, -1)),
    ("take", (F, P), {"axis": 1}),
    ("take", (S, P), {}),
    ("take_along_axis", (F, np.array([[1, 0], [3, 2]], np.int64)), {"axis": 1}),
    *((n, (J,), {}) for n in ("unique_all", "unique_counts", "unique_inverse")),
    *((n, (x,), k) for n in ("sum", "prod", "max", "min") for x in (F, N) for k in ({}, {"axis": 0, "keepdims": True})),
    *((n, (F,), {"axis": (0, 1)}) for n in ("sum", "prod", "max", "min", "mean", "var", "std", "any", "all")),
    *((n, (F,), {"axis": ()}) for n in ("sum", "prod", "max", "mean", "any")),
    ("sum", (F,), {"dtype": "float16"}),
    ("var", (F,), {"axis": 1, "correction": 1}),
    ("std", (F,), {"correction": 0.5}),
    ("any", (B,), {"axis": 0}),
    ("all", (N,), {"axis": 1}),
    ("cumulative_sum", (F,), {"axis": 1}),
    ("cumulative_sum", (N,), {"axis": 0, "include_initial": True}),
    ("cumulative_prod", (F,), {"axis": 1}),
    ("diff", (F,), {}),
    ("diff", (N,), {"axis": 0}),
    ("diff", (F,), {"n": 2}),
    ("tril", (F,), {"k": 1}),
    ("triu", (N,), {"k": -1}),
]  # fmt: skip


def tensors(value: Any) -> Any:
    return aclnn.asarray(value) if isinstance(value, np.ndarray) else value


def arrays(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.numpy()
    return [arrays(v) for v in value] if isinstance(value, (tuple, list)) else value


def same(actual: Any, expected: Any, where: str) -> None:
    if isinstance(expected, (tuple, list)):
        assert len(actual) == len(expected), where
        for one, other in zip(actual, expected):
            same(one, other, where)
        return
    expected = np.asarray(expected)
    assert actual.shape == expected.shape and actual.dtype == expected.dtype, f"{where}: {actual.dtype} {actual.shape}"
    exact = expected.dtype.kind not in "fc"
    np.testing.assert_allclose(actual, expected, rtol=0 if exact else 2e-6, atol=0 if exact else 1e-6, err_msg=where)


def test_functions_agree_with_numpys(each_backend: Backend) -> None:
    for name, arguments, options in CALLS:
        where = f"{name} {[getattr(a, 'dtype', a) for a in arguments]} {options}"
        with np.errstate(all="ignore"):
            expected = getattr(np, name)(*arguments, **options)
        actual = getattr(xp, name)(*map(tensors, arguments), **options)
        same(arrays(actual), expected, where)


INF, NAN = np.inf, np.nan
# What the standard says of complex numbers without a size, an angle, or either: function, argument, result.
SPECIAL = [
    ("acos", complex(-INF, 3), complex(np.pi, -INF)),
    ("acos", complex(INF, INF), complex(np.pi / 4, -INF)),
    ("acos", complex(0, NAN), complex(np.pi / 2, NAN)),
    ("acos", complex(NAN, 1), complex(NAN, NAN)),
    ("expm1", complex(0, 0), complex(0, 0)),
    ("expm1", complex(INF, 0), complex(INF, 0)),
    ("expm1", complex(-INF, NAN), complex(-1, 0)),
    ("expm1", complex(INF, INF), complex(INF, NAN)),
    ("expm1", complex(NAN, 0), complex(NAN, 0)),
    ("log1p", complex(-1, 0), complex(-INF, 0)),
    ("log1p", complex(-INF, 2), complex(INF, np.pi)),
    ("log1p", complex(INF, NAN), complex(INF, NAN)),
    ("tanh", complex(INF, 2), complex(1, 0)),
    ("tanh", complex(30, INF), complex(NAN, NAN)),
    ("tanh", complex(0, INF), complex(0, NAN)),
    ("tanh", complex(NAN, 0), complex(NAN, 0)),
]


def test_complex_infinities(each_backend: Backend) -> None:
    for name, argument, expected in SPECIAL:
        actual = getattr(xp, name)(aclnn.asarray(np.array([argument], np.complex64))).numpy()[0]
        where = f"{name}({argument})"
        np.testing.assert_allclose([actual.real, actual.imag], [expected.real, expected.imag], 1e-6, err_msg=where)


def test_small_complex_numbers_keep_their_digits() -> None:
    z = np.array([1e-9 + 2e-9j, -3e-8 + 1e-12j], np.complex128)
    for name, series in (("expm1", z + z * z / 2), ("log1p", z - z * z / 2), ("tanh", z)):
        np.testing.assert_allclose(getattr(xp, name)(aclnn.asarray(z)).numpy(), series, 1e-15, err_msg=name)


def test_unique_values(each_backend: Backend) -> None:
    assert sorted(xp.unique_values(aclnn.asarray(J)).tolist()) == [1, 2, 3]  # in any order


def test_lists_of_tensors(each_backend: Backend) -> None:
    f, i = aclnn.asarray(F), aclnn.asarray(N)
    same(xp.concat([f, i.astype("float32")], axis=1).numpy(), np.concat([F, N.astype(np.float32)], axis=1), "concat")
    same(xp.concat([f, f], axis=None).numpy(), np.concat([F, F], axis=None), "concat")
    same(xp.stack([i, i], axis=-1).numpy(), np.stack([N, N], axis=-1), "stack")
    same(arrays(xp.unstack(f, axis=1)), np.unstack(F, axis=1), "unstack")
    same(arrays(xp.broadcast_arrays(f, f[0])), np.broadcast_arrays(F, F[0]), "broadcast_arrays")
    for indexing in ("xy", "ij"):
        grids = xp.meshgrid(f[0], i[1], i[0], indexing=indexing)
        same(arrays(grids), np.meshgrid(F[0], N[1], N[0], indexing=indexing), "meshgrid")  # type: ignore[call-overload]


def test_creation(each_backend: Backend) -> None:
    like = aclnn.asarray(N)
    for actual, expected in (
        (xp.zeros((2, 3)), np.zeros((2, 3), np.float32)),
        (xp.ones(3, dtype=xp.int8), np.ones(3, np.int8)),
        (xp.full((2,), 7), np.full((2,), 7)),
        (xp.full((2,), True), np.full((2,), True)),
        (xp.arange(1, 7, 2), np.arange(1, 7, 2)),
        (xp.linspace(0, 1, 5), np.linspace(0, 1, 5, dtype=np.float32)),
        (xp.eye(3, 4, k=1), np.eye(3, 4, 1, np.float32)),
        (xp.zeros_like(like), np.zeros_like(N)),
        (xp.ones_like(like, dtype=xp.float16), np.ones_like(N, np.float16)),
        (xp.full_like(like, 5), np.full_like(N, 5)),
        (xp.asarray([[1, 2], [3, 4]]), np.array([[1, 2], [3, 4]])),
        (xp.asarray(1.5), np.asarray(1.5, np.float32)),
        (xp.asarray(like, copy=True), N),
        (xp.astype(like, xp.float32), N.astype(np.float32)),
    ):
        same(actual.numpy(), expected, repr(expected))
    assert xp.empty((2, 3)).shape == xp.empty_like(like[:, :3]).shape == (2, 3)
    assert xp.from_dlpack(like) is like


def test_data_types() -> None:
    assert xp.result_type(xp.int8, xp.int16) is xp.int16 and xp.result_type(xp.uint8, xp.int8) is xp.int16
    assert xp.result_type(xp.float16, 1.0) is xp.float16 and xp.result_type(xp.int32, 1) is xp.int32
    assert xp.result_type(xp.int32, 1.0) is xp.float32
    assert xp.isdtype(xp.float32, "real floating") and not xp.isdtype(xp.int8, ("bool", "unsigned integer"))
    assert xp.can_cast(xp.int8, xp.int16) and not xp.can_cast(xp.int16, xp.int8)
    assert xp.finfo(xp.float16).eps == 2**-10 and xp.finfo(xp.complex64).dtype is xp.float32
    assert xp.iinfo(xp.int8)[:3] == (8, 127, -128)
    info = xp.__array_namespace_info__()
    assert info.dtypes(kind="signed integer") == {f"int{n}": getattr(xp, f"int{n}") for n in (8, 16, 32, 64)}
    assert info.dtypes(kind="unsigned integer") == {"uint8": xp.uint8}
    assert info.default_dtypes()["real floating"] is xp.float32 and info.default_device() in info.devices()


def test_the_namespace_of_a_tensor(each_backend: Backend) -> None:
    x = aclnn.asarray(F)
    assert x.__array_namespace__() is xp is x.__array_namespace__(api_version="2024.12")
    with pytest.raises(ValueError, match=r"api_version is '2020\.01'; it must be one of 2024\.12"):
        x.__array_namespace__(api_version="2020.01")
    assert operator.index(aclnn.asarray(np.int64(3))) == 3
    with pytest.raises(TypeError):
        operator.index(x[0, 0])


def test_all_functions_are_there_but_those_that_are_excluded_and_signatures_are_the_standards() -> None:
    missing = [name for name in xp.FUNCTIONS if not hasattr(xp, name)]
    assert missing == list(xp.EXCLUDED) and len(missing) < 0.05 * len(xp.FUNCTIONS)
    assert f"{len(xp.FUNCTIONS) - len(missing)} of {len(xp.FUNCTIONS)} functions" in xp.report()
    assert "134 of 134 functions" in xp.report()
    strict = pytest.importorskip("array_api_strict", reason="array-api-strict is not installed")
    theirs = {n for n in dir(strict) if callable(getattr(strict, n)) and n.islower() and not n.startswith("_")}
    theirs -= {
        *strict.__array_namespace_info__().dtypes(),
        "bool",
        "set_array_api_strict_flags",
        "reset_array_api_strict_flags",
    }
    theirs -= {"get_array_api_strict_flags", "linalg", "fft", "broadcast_shapes", "isin"}  # the last two: of 2025.12
    assert sorted(n for n in theirs if n not in xp.FUNCTIONS and inspect.isfunction(getattr(strict, n))) == []
    for name in xp.FUNCTIONS:
        if name in missing or not inspect.isfunction(getattr(strict, name, None)):
            continue
        ours, standard = (inspect.signature(getattr(m, name)).parameters for m in (xp, strict))
        keywords = [n for n, p in standard.items() if p.kind is inspect.Parameter.KEYWORD_ONLY]
        assert [n for n in keywords if n not in ours] == [], name


def test_assignment_by_masks_and_arrays(each_backend: Backend) -> None:
    x, host = aclnn.asarray(F), F.copy()
    x[x > 0.3] = 0
    host[host > 0.3] = 0
    x[[1]] = 7.0
    host[[1]] = 7.0
    x[[0, 1], [2, 3]] = np.array([5, 6], np.float32)
    host[[0, 1], [2, 3]] = [5, 6]
    x[x == 7] = np.array([1, 2, 3], np.float32)
    host[host == 7] = [1, 2, 3]
    same(x.numpy(), host, "setitem")


SUITE = """
import os
import pytest

def test_versions():
    names = ("MODULE", "VERSION", "SKIP_DTYPES")
    assert [os.environ[f"ARRAY_API_TESTS_{n}"] for n in names] == ["ascend_aclnn.array_api", "2024.12", "uint16,uint32,uint64"]

@pytest.mark.parametrize("name", ["linalg-qr", "fft-fft", "exp"])
def test_has_names(name, pytestconfig):
    assert pytestconfig.getoption("--max-examples") == "3" and name == "@"

@pytest.mark.skip
def test_skipped():
    pass
"""


def test_the_standards_own_suite_is_run_and_what_fails_has_a_reason(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "array_api_tests").mkdir()
    (tmp_path / "array_api_tests" / "test_has_names.py").write_text(SUITE, encoding="utf-8")
    options = "parser.addoption('--max-examples'), parser.addoption('--disable-deadline', action='store_true')"
    (tmp_path / "conftest.py").write_text(f"def pytest_addoption(parser):\n    {options}\n", encoding="utf-8")
    assert main(["array-api", "--tests", str(tmp_path), "--examples", "3"]) == 1
    lines = capfd.readouterr().out.splitlines()
    assert "excluded     the extension linalg is not there; ops.linalg_* is CANN's (1 tests)" in lines
    assert "fails        test_has_names.py::test_has_names[exp]" in lines
    assert lines[-1] == "array-api-tests: 1 pass, 1 fail, 2 are excluded, 1 are skipped"
    assert main(["array-api", "--tests", str(tmp_path), "--", "-k", "versions or qr"]) == 0
    assert main(["array-api", "--tests", str(tmp_path / "missing")]) == 1
