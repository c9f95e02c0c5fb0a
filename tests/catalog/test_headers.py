"""Prototypes from C headers: read, compared with the catalog, compiled against, registered."""

from __future__ import annotations

import inspect
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ascend_aclnn import catalog, function, ops, register_operator
from ascend_aclnn.catalog.headers import (
    compare,
    guess_direction,
    normal_ctype,
    operator_from_prototype,
    operators_from_header,
    parse_headers,
    parse_prototypes,
    variant,
)
from ascend_aclnn.catalog.signature import c_prototype, python_signature

ROOT = Path(__file__).resolve().parents[2]

BASE = """
#pragma once
#include <stdint.h>
struct aclTensor; struct aclScalar; struct aclIntArray; struct aclOpExecutor;
typedef int aclnnStatus;
typedef void *aclrtStream;
"""

HEADER = """
#ifndef OP_API_INC_SOME_H_
#define OP_API_INC_SOME_H_
#include "aclnn/aclnn_base.h"
#define SOME_MACRO(x) \\
    aclnnStatus aclnnNotThisGetWorkspaceSize(int x, uint64_t *w, aclOpExecutor **e)
#ifdef __cplusplus
extern "C" {
#endif
/**
 * @brief aclnnStatus aclnnNorThisGetWorkspaceSize(int a, uint64_t *w, aclOpExecutor **e)
 */
__attribute__((visibility("default"))) ACLNN_API aclnnStatus aclnnAbsGetWorkspaceSize(
    const aclTensor *self,  // the input
    aclTensor* out, uint64_t *workspaceSize, aclOpExecutor **executor);
ACLNN_API aclnnStatus aclnnAbs(void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, const aclrtStream s);
aclnnStatus ACLNN_API aclnnNewThingGetWorkspaceSize(aclTensor const *x, const int64_t dims[], double eps = 1e-5,
    aclTensor * const yOut, uint64_t* /* size */, aclOpExecutor**);
aclnnStatus aclnnInnerThingGetWorkspaceSize(const aclTensor *x, uint64_t *workspaceSize, aclOpExecutor **executor);
aclnnStatus aclnnHelperGetWorkspaceSize(const aclTensor *x, uint64_t *size);
#ifdef __cplusplus
}
#endif
#endif
"""


@pytest.fixture()
def include(tmp_path: Path) -> Path:
    (tmp_path / "aclnnop" / "level2").mkdir(parents=True)
    (tmp_path / "aclnn").mkdir()
    (tmp_path / "aclnn" / "aclnn_base.h").write_text(BASE)
    (tmp_path / "aclnnop" / "aclnn_some.h").write_text(HEADER)
    return tmp_path


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("const  aclTensor *", "const aclTensor*"),
        ("aclTensor const *", "const aclTensor*"),
        ("aclTensor * const", "aclTensor*"),
        ("const struct aclTensor*", "const aclTensor*"),
        ("aclOpExecutor **", "aclOpExecutor**"),
        ("const int64_t", "const int64_t"),
    ],
)
def test_ctypes_are_normalised(text: str, expected: str) -> None:
    assert normal_ctype(text) == expected


def test_parse_is_forgiving(include: Path) -> None:
    assert parse_headers(include) == {
        "aclnnAbs": [("const aclTensor*", "self"), ("aclTensor*", "out")],
        "aclnnNewThing": [
            ("const aclTensor*", "x"),
            ("const int64_t*", "dims"),
            ("double", "eps"),
            ("aclTensor*", "yOut"),
        ],
    }


def test_missing_directory(tmp_path: Path) -> None:
    with pytest.raises(NotADirectoryError, match="nowhere"):
        parse_headers(tmp_path / "nowhere")


def test_compare(include: Path) -> None:
    (include / "aclnnop" / "aclnn_more.h").write_text(
        "aclnnStatus aclnnMulGetWorkspaceSize(const aclTensor* self, const aclTensor* other, const aclTensor* out,"
        " uint64_t* workspaceSize, aclOpExecutor** executor);"
        "aclnnStatus aclnnNegGetWorkspaceSize(const aclTensor* input, aclTensor* out, uint64_t* w, aclOpExecutor** e);"
        "aclnnStatus aclnnExpGetWorkspaceSize(const aclTensor* self, int64_t n, aclTensor* out,"
        " uint64_t* w, aclOpExecutor** e);"
        "aclnnStatus aclnnSinGetWorkspaceSize(const aclScalar* input, aclTensor* out, uint64_t* w, aclOpExecutor** e);"
    )
    report = compare(include)
    assert report.same == ("aclnnAbs",)
    assert list(report.added) == ["aclnnNewThing"]
    changed = {change.name: change for change in report.changed}
    assert {name: change.abi for name, change in changed.items()} == {
        "aclnnMul": False,
        "aclnnNeg": False,
        "aclnnExp": True,
        "aclnnSin": True,
    }
    assert changed["aclnnMul"].what == "const only"
    assert changed["aclnnNeg"].what == "names: self -> input"
    assert changed["aclnnExp"].what == "3 parameters instead of 2"
    assert changed["aclnnSin"].what == "types: self const aclTensor* -> const aclScalar*"
    assert len(report.lacking) == 1188 - 5
    assert "aclnnAdd" in report.lacking


def test_known_variant_is_named(tmp_path: Path) -> None:
    (snapshot,) = catalog.get("aclnnMlaPrologV3WeightNz").variants or {}
    rows = (catalog.get("aclnnMlaPrologV3WeightNz").variants or {})[snapshot]
    parameters = ", ".join(f"{row['ctype']} {row['name']}" for row in rows)
    (tmp_path / "aclnn_mla.h").write_text(
        f"aclnnStatus aclnnMlaPrologV3WeightNzGetWorkspaceSize({parameters}, uint64_t* w, aclOpExecutor** e);"
    )
    (change,) = compare(tmp_path).changed
    assert change.abi and snapshot in change.what


def test_own_prototypes_read_back() -> None:
    for name in catalog.names():
        operator = catalog.get(name)
        expected = [(p.ctype, p.name) for p in operator.parameters]
        assert parse_prototypes(c_prototype(operator))[name] == expected


@pytest.mark.parametrize(
    ("ctype", "name", "expected"),
    [
        ("const aclTensor*", "x", "in"),
        ("aclTensor*", "y", "out"),
        ("const aclTensor*", "yOut", "out"),
        ("const aclTensor*", "yOutOptional", "out"),
        ("const aclTensor*", "out", "out"),
        ("aclTensor*", "selfRef", "inout"),
        ("const aclTensorList*", "xRef", "inout"),
        ("char*", "layoutOut", "in"),
        ("bool", "out", "in"),
    ],
)
def test_directions_are_guessed(ctype: str, name: str, expected: str) -> None:
    assert guess_direction(ctype, name) == expected


def test_operator_from_a_signature_string() -> None:
    operator = operator_from_prototype(
        "aclnnStatus aclnnMyOpGetWorkspaceSize(const aclTensor* x, const aclTensor* biasOptional, double eps,"
        " const aclTensor* state, const aclTensor* yOut, uint64_t*, aclOpExecutor**)",
        directions={"state": "inout"},
        optional=["yOut"],
    )
    assert operator.phase_one == "aclnnMyOpGetWorkspaceSize"
    assert [p.direction for p in operator.parameters] == ["in", "in", "in", "inout", "out"]
    assert [p.name for p in operator.parameters if p.optional] == ["biasOptional", "yOut"]
    assert python_signature(operator).startswith("my_op(x, bias=None, eps=<required>, state=<required>, *, ")
    assert python_signature(operator).endswith("-> (state, y)")


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("int f(int x)", {}, "expected one declaration"),
        ("aclnnStatus aclnnXGetWorkspaceSize(const aclTensor* x, uint64_t*)", {}, "found none"),
        (
            "aclnnStatus aclnnXGetWorkspaceSize(std_string x, uint64_t*, aclOpExecutor**)",
            {},
            "aclnnX: x has the unknown C type 'std_string'",
        ),
        (
            "aclnnStatus aclnnXGetWorkspaceSize(const aclTensor* x, uint64_t*, aclOpExecutor**)",
            {"directions": {"y": "out"}},
            "no parameter 'y'",
        ),
        (
            "aclnnStatus aclnnXGetWorkspaceSize(const aclTensor* x, uint64_t*, aclOpExecutor**)",
            {"directions": {"x": "sideways"}},
            "'sideways'",
        ),
    ],
)
def test_bad_signature_strings(text: str, options: dict[str, dict[str, str]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        operator_from_prototype(text, **options)  # type: ignore[arg-type]


def test_operators_from_a_vendor_header(tmp_path: Path) -> None:
    path = tmp_path / "aclnn_add_custom.h"
    path.write_text(
        "aclnnStatus aclnnAddCustomGetWorkspaceSize(const aclTensor *x, const aclTensor *y, const aclTensor *out,"
        " uint64_t *workspaceSize, aclOpExecutor **executor);"
    )
    (operator,) = operators_from_header(path)
    assert operator.header == "aclnnop/aclnn_add_custom.h"
    assert python_signature(operator) == "add_custom(x, y, *, out=None, stream=None) -> out"


def test_check_prototypes_script(include: Path) -> None:
    compiler = shutil.which("c++") or shutil.which("g++")
    if not compiler:
        pytest.skip("no C++ compiler")
    command = [sys.executable, str(ROOT / "scripts" / "check_prototypes.py"), str(include), "--compiler", compiler]
    header = include / "aclnnop" / "aclnn_some.h"
    lines = [line for line in HEADER.splitlines() if "NewThing" not in line and "tensor * const yOut" not in line]
    plain = "\n".join(lines).replace("ACLNN_API", "")
    plain = plain.replace("    aclTensor * const yOut, uint64_t* /* size */, aclOpExecutor**);", "")
    header.write_text(plain)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 of 1 operators agree" in done.stdout
    header.write_text(plain.replace("aclTensor* out", "const aclTensor* out"))
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "aclnnAbs: " in done.stdout and "0 of 1" in done.stdout


def test_register_operator(tmp_path: Path) -> None:
    register_operator(
        "aclnnStatus aclnnVendorThingGetWorkspaceSize(const aclTensor* x, aclTensor* yOut, uint64_t*, aclOpExecutor**)"
    )
    assert "aclnnVendorThing" in catalog.names()
    assert str(inspect.signature(function("aclnnVendorThing"))) == "(x, *, out=None, stream=None)"
    register_operator(
        "aclnnStatus aclnnVendorThingGetWorkspaceSize(const aclTensor* x, bool flag, aclTensor* yOut, uint64_t*,"
        " aclOpExecutor**)"
    )
    assert str(inspect.signature(function("aclnnVendorThing"))) == "(x, flag, *, out=None, stream=None)"
    path = tmp_path / "aclnn_vendor_one.h"
    path.write_text("aclnnStatus aclnnVendorOneGetWorkspaceSize(const aclTensor* x, uint64_t*, aclOpExecutor**);")
    assert register_operator(path).header == "aclnnop/aclnn_vendor_one.h"
    assert "vendor_one" in dir(ops)
    path.write_text("// nothing\n")
    with pytest.raises(ValueError, match=r"found none in .*aclnn_vendor_one"):
        register_operator(path)


def test_a_registration_leaves_other_operators_alone() -> None:
    """They are told apart by identity: what is remembered of one must be found again."""
    mm = catalog.get("aclnnMm")
    register_operator("aclnnStatus aclnnVendorThingGetWorkspaceSize(const aclTensor* x, uint64_t*, aclOpExecutor**)")
    assert catalog.get("aclnnMm") is mm


def test_register_refuses_a_colliding_python_name() -> None:
    with pytest.raises(ValueError, match=r"aclnnrms_norm would be ops\.rms_norm, which is aclnnRmsNorm already"):
        register_operator("aclnnStatus aclnnrms_normGetWorkspaceSize(const aclTensor* x, uint64_t*, aclOpExecutor**)")


def test_register_a_variant() -> None:
    old = variant("aclnnMlaPrologV3WeightNz", "2025-11")
    register_operator(old)
    assert list(catalog.names()).count("aclnnMlaPrologV3WeightNz") == 1
    assert "queryNormFlag" in catalog.get("aclnnMlaPrologV3WeightNz").positions
    directions = {p.name: p.direction for p in old.parameters}
    assert directions["kvCacheRef"] == "inout" and directions["queryOut"] == "out"
    with pytest.raises(ValueError, match="no variant '1999'"):
        variant("aclnnAbs", "1999")
