"""Rules of ops-cv/image: sizes and scales, formats, ranks, old products, gradients, grids, inference."""

from __future__ import annotations

from typing import Any

import pytest
from rule_tools import A2, OLD, by_name, each_case, made, status, t

OK, NULL, INVALID, INNER_NULL = 0, 161001, 161002, 561103

IMAGE = t([2, 3, 8, 10], format="NCHW")
NEAREST: dict[str, Any] = {"self": IMAGE, "outputSize": (16, 5), "out": t([2, 3, 16, 5], format="NCHW")}
BILINEAR: dict[str, Any] = {**NEAREST, "scalesH": 2.0, "scalesW": 0.5}
LINEAR: dict[str, Any] = {
    "self": t([2, 3, 8], format="NCL"),
    "outputSize": (4,),
    "scales": 0.5,
    "out": t([2, 3, 4], format="NCL"),
}
VOLUME: dict[str, Any] = {
    "self": t([2, 3, 4, 6, 8], format="NCDHW"),
    "outputSize": (2, 3, 4),
    "out": t([2, 3, 2, 3, 4], format="NCDHW"),
}
BACK: dict[str, Any] = {
    "gradOut": t([2, 3, 16, 5], format="NCHW"),
    "outputSize": (16, 5),
    "inputSize": (2, 3, 8, 10),
    "gradInput": IMAGE,
}
GRID: dict[str, Any] = {
    "input": IMAGE,
    "grid": t([2, 4, 5, 2]),
    "out": t([2, 3, 4, 5], format="NCHW"),
}

CASES: list[tuple[str, int, dict[str, Any], str]] = [
    ("aclnnUpsampleNearest2d", OK, NEAREST, A2),
    ("aclnnUpsampleNearest2d", NULL, {**NEAREST, "outputSize": None}, A2),
    ("aclnnUpsampleNearest2d", INVALID, {**NEAREST, "outputSize": (16,)}, A2),
    ("aclnnUpsampleNearest2d", INVALID, {**NEAREST, "out": t([2, 3, 16, 6], format="NCHW")}, A2),
    ("aclnnUpsampleNearest2d", INVALID, {**NEAREST, "self": t([2, 3, 8], format="NCL")}, A2),
    ("aclnnUpsampleBilinear2d", OK, BILINEAR, A2),
    ("aclnnUpsampleBilinear2d", INNER_NULL, {**BILINEAR, "self": None}, A2),
    ("aclnnUpsampleBilinear2d", INVALID, {**BILINEAR, "outputSize": (16, 0)}, A2),
    ("aclnnUpsampleLinear1d", OK, LINEAR, A2),
    ("aclnnUpsampleLinear1d", INVALID, {**LINEAR, "outputSize": (4, 4)}, A2),
    ("aclnnUpsampleNearest3d", OK, VOLUME, A2),
    ("aclnnUpsampleTrilinear3d", INVALID, {**VOLUME, "out": t([2, 3, 2, 3, 5], format="NCDHW")}, A2),
    ("aclnnUpsampleNearest2dBackward", OK, BACK, A2),
    ("aclnnUpsampleNearest2dBackward", INVALID, {**BACK, "inputSize": (2, 3, 8)}, A2),
    ("aclnnUpsampleNearest2dBackward", INVALID, {**BACK, "gradOut": t([2, 4, 16, 5], format="NCHW")}, A2),
    ("aclnnUpsampleNearest2dBackward", INVALID, {**BACK, "gradOut": t([2, 3, 16, 5], "BF16", "NCHW")}, OLD),
    ("aclnnGridSampler2D", OK, GRID, A2),
    ("aclnnGridSampler2D", INVALID, {**GRID, "grid": t([2, 4, 5, 3])}, A2),
    ("aclnnGridSampler2D", INVALID, {**GRID, "grid": t([3, 4, 5, 2])}, A2),
    ("aclnnGridSampler2D", INVALID, {**GRID, "paddingMode": 3}, A2),
    ("aclnnGridSampler2D", INVALID, {**GRID, "interpolationMode": 3}, A2),
    ("aclnnGridSampler2D", INVALID, {**GRID, "input": t([2, 3, 8, 10], "INT32", "NCHW")}, A2),
]


@each_case(CASES)
def test_status(name: str, expected: int, values: dict[str, Any], soc: str) -> None:
    assert status(name, *by_name(name, **values), soc=soc) == expected


@pytest.mark.parametrize("name", ["aclnnUpsampleNearest2d", "aclnnUpsampleBilinear2d", "aclnnUpsampleBicubic2d"])
def test_channels_stay_where_they_are(name: str) -> None:
    assert made(name, self=IMAGE, outputSize=(16, 5)) == {"out": ((2, 3, 16, 5), "FLOAT")}
    last = t([2, 8, 10, 3], "FLOAT16", "NHWC")
    assert made(name, self=last, outputSize=(16, 5)) == {"out": ((2, 16, 5, 3), "FLOAT16")}


def test_inference() -> None:
    assert made("aclnnUpsampleLinear1d", **LINEAR) == {"out": ((2, 3, 4), "FLOAT")}
    assert made("aclnnUpsampleTrilinear3d", **VOLUME) == {"out": ((2, 3, 2, 3, 4), "FLOAT")}
    assert made("aclnnUpsampleNearest2dBackward", **BACK) == {"gradInput": ((2, 3, 8, 10), "FLOAT")}
    assert made("aclnnGridSampler2D", **GRID) == {"out": ((2, 3, 4, 5), "FLOAT")}


def test_gradients_that_are_not_requested_are_omitted() -> None:
    arguments = {"gradOutput": t([2, 3, 4, 5], format="NCHW"), "input": IMAGE, "grid": GRID["grid"]}
    both = made("aclnnGridSampler2DBackward", **arguments, outputMask=(True, True))
    assert both == {"inputGrad": ((2, 3, 8, 10), "FLOAT"), "gridGrad": ((2, 4, 5, 2), "FLOAT")}
