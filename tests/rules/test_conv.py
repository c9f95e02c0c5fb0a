"""Rules of ops-nn/conv: windows, groups, transposed ones, old products, gradients, inference."""

from __future__ import annotations

from typing import Any

from rule_tools import A2, OLD, by_name, each_case, made, status, t

from ascend_aclnn.core.dtypes import DataType, Format
from ascend_aclnn.core.spec import TensorSpec

OK, NULL, INVALID, TILING = 0, 161001, 161002, 561002

CONV: dict[str, Any] = {
    "input": t([2, 6, 9, 11], format="NCHW"),
    "weight": t([8, 6, 3, 2], format="NCHW"),
    "bias": t([8]),
    "stride": (2, 1),
    "padding": (1, 0),
    "dilation": (1, 2),
    "outputPadding": (0, 0),
    "groups": 1,
    "output": t([2, 8, 5, 9], format="NCHW"),
}
TURNED: dict[str, Any] = {
    **CONV,
    "weight": t([6, 8, 3, 2], format="NCHW"),
    "transposed": True,
    "outputPadding": (1, 0),
    "output": t([2, 8, 18, 13], format="NCHW"),
}
BACK: dict[str, Any] = {
    **{k: v for k, v in CONV.items() if k not in ("bias", "output")},
    "gradOutput": t([2, 8, 5, 9], format="NCHW"),
    "biasSizes": (8,),
    "outputMask": (True, True, True),
    "gradInput": CONV["input"],
    "gradWeight": CONV["weight"],
    "gradBias": t([8]),
}
DEPTH: dict[str, Any] = {
    "self": t([2, 6, 9, 11], format="NCHW"),
    "weight": t([12, 1, 3, 3], format="NCHW"),
    "kernelSize": (3, 3),
    "stride": (1, 1),
    "padding": (1, 1),
    "dilation": (1, 1),
    "out": t([2, 12, 9, 11], format="NCHW"),
}
TBC: dict[str, Any] = {
    "self": t([7, 2, 6]),
    "weight": t([3, 6, 8]),
    "bias": t([8]),
    "pad": 1,
    "output": t([7, 2, 8]),
}

# A weight in tiles of 16 kernels by 32 channels.
TILED = {
    "input": t([1, 32, 4, 4, 4], "INT8", "NCDHW"),
    "weight": TensorSpec((16, 32, 1, 1, 1), DataType.INT8, None, 0, Format.FRACTAL_Z_3D, (1, 1, 16, 32)),
    "bias": t([16]),
    "scale": t([16]),
    "stride": (1, 1, 1),
    "padding": (0, 0, 0),
    "dilation": (1, 1, 1),
    "outputPadding": (0, 0, 0),
    "groups": 1,
    "output": t([1, 16, 4, 4, 4], "FLOAT16", "NCDHW"),
}

CASES: list[tuple[str, int, dict[str, Any], str]] = [
    ("aclnnQuantConvolutionWeightNz", OK, TILED, A2),
    ("aclnnQuantConvolutionWeightNz", INVALID, {**TILED, "weight": t([16, 32, 1, 1, 1], "INT8", "NCDHW")}, A2),
    ("aclnnConvolution", OK, CONV, A2),
    ("aclnnConvolution", NULL, {**CONV, "stride": None}, A2),
    ("aclnnConvolution", OK, {**CONV, "bias": None}, A2),
    ("aclnnConvolution", INVALID, {**CONV, "input": t([2, 6, 9, 11], "INT8", "NCHW")}, A2),
    ("aclnnConvolution", INVALID, {**CONV, "output": t([2, 8, 5, 8], format="NCHW")}, A2),
    ("aclnnConvolution", INVALID, {**CONV, "groups": 4}, A2),
    ("aclnnConvolution", INVALID, {**CONV, "stride": (0, 1)}, A2),
    ("aclnnConvolution", INVALID, {**CONV, "bias": t([7])}, A2),
    ("aclnnConvolution", INVALID, {**CONV, "cubeMathType": 9}, A2),
    ("aclnnConvolution", OK, TURNED, A2),
    ("aclnnConvolutionBackward", OK, BACK, A2),
    ("aclnnConvolutionBackward", INVALID, BACK, OLD),  # float32 only as FLOAT16
    ("aclnnConvolutionBackward", NULL, {**BACK, "outputMask": None}, A2),
    ("aclnnConvolutionBackward", TILING, {**BACK, "gradOutput": t([2, 8, 4, 9], format="NCHW")}, A2),
    ("aclnnConvDepthwise2d", OK, DEPTH, A2),
    ("aclnnConvDepthwise2d", INVALID, {**DEPTH, "weight": t([12, 2, 3, 3], format="NCHW")}, A2),
    ("aclnnConvTbc", OK, TBC, A2),
    ("aclnnConvTbc", INVALID, {**TBC, "weight": t([3, 5, 8])}, A2),
    ("aclnnConvTbc", NULL, {**TBC, "bias": None}, A2),
]


@each_case(CASES)
def test_status(name: str, expected: int, values: dict[str, Any], soc: str) -> None:
    assert status(name, *by_name(name, **values), soc=soc) == expected


def test_inference() -> None:
    assert made("aclnnConvolution", **CONV) == {"output": ((2, 8, 5, 9), "FLOAT")}
    assert made("aclnnConvolution", **TURNED) == {"output": ((2, 8, 18, 13), "FLOAT")}
    assert made("aclnnConvTbc", **TBC) == {"output": ((7, 2, 8), "FLOAT")}
    assert made("aclnnConvDepthwise2d", **DEPTH) == {"out": ((2, 12, 9, 11), "FLOAT")}


def test_channels_last() -> None:
    last = {**CONV, "input": t([2, 9, 11, 6], format="NHWC"), "weight": t([8, 3, 2, 6], format="NHWC")}
    assert made("aclnnConvolution", **last)["output"][0] == (2, 5, 9, 8)


def test_gradients_that_are_not_requested_are_omitted() -> None:
    found = made("aclnnConvolutionBackward", **{**BACK, "outputMask": (True, False, False)})
    assert found["gradInput"] == ((2, 6, 9, 11), "FLOAT")
    assert (found["gradWeight"][0], found["gradBias"][0]) == (None, None)
