"""Rules of products whose results are summed over the devices."""

from __future__ import annotations

import math

from ascend_aclnn.core.dtypes import DataType, Format
from ascend_aclnn.core.errors import INNER_ERROR, PARAM_NULLPTR
from ascend_aclnn.rules.gmm.common import transposed
from ascend_aclnn.rules.language import (
    Call,
    Shape,
    array_length,
    dtypes,
    infer_shape,
    no_private_format,
    on_products,
    one_of,
    output_dtype,
    output_shape,
    rank,
    rule,
    same_dtype,
    same_shape,
    shape_of,
)
from ascend_aclnn.rules.mc2.common import communicator, stop_on_failure, whole_or_transposed

_16 = {"310P": "FLOAT16", "": "FLOAT16 BF16"}
_SUM = (one_of("reduceOp", "sum"), stop_on_failure)


def _mode(call: Call) -> None:
    if "commMode" in call.operator.positions:
        allowed = ("ai_cpu", "ccu") if call.product == "950" else ("ai_cpu",)
        mode = call["commMode"]
        call.require(mode in allowed, "commMode", f"is {mode!r}; on {call.soc.name} it must be {' or '.join(allowed)}")


def _name(call: Call, *names: str) -> str:
    return next((n for n in names if n in call.operator.positions), "")


def _product(call: Call) -> Shape:
    """x1 (..., k) by x2 (k, n)."""
    rank(2, 3, "x1")(call)
    x2 = call["x2"]
    if x2.format is Format.FRACTAL_NZ and x2.ndim == 4:
        k, n = x2.shape[1] * x2.shape[2], x2.shape[0] * x2.shape[3]
    else:
        rank(2, 2, "x2")(call)
        k, n = x2.shape
        if call.product == "310P" and x2.format is Format.FRACTAL_NZ:
            k, n = n, k
    *rows, inner = call.shape("x1", least=1)
    call.require(inner == k, "x2", f"has shape {x2.shape}; its inner axis must be {inner}, as x1's last")
    return (*rows, n)


def _extras(call: Call) -> None:
    """A bias for each column, and a matrix that is added."""
    made = _product(call)
    for name, wanted in (
        (_name(call, "bias", "biasOptional"), made[-1:]),
        (_name(call, "x3", "x3Optional"), made),
    ):
        if name and call.is_present(name):
            call.require(call.shape(name) == wanted, name, f"has shape {call.shape(name)}; it must be {wanted}")


def _plain_weight(call: Call) -> None:
    stored = call["x2"].format is Format.FRACTAL_NZ and len(call["x2"].storage_shape) == 4
    call.require(not stored, "x2", "has format FRACTAL_NZ; it must be ND")


def _no_x3(call: Call) -> None:
    if call.product == "310P" and _name(call, "x3"):
        call.require(not call.is_present("x3"), "x3", "is given; on 310P it must be None")


for _operator in ("aclnnMatmulAllReduce", "aclnnMatmulAllReduceV2", "aclnnMatmulAllReduceV3"):
    _third = () if _operator == "aclnnMatmulAllReduce" else ("x3",)
    rule(
        _operator,
        dtypes(_16, "x1", "x2", "output", "bias", *_third),
        same_dtype("x1", "x2", "output", "bias", *_third),
        *_SUM,
        on_products("A2 A3 950 910", _plain_weight),
        output_shape(output=_product),
        _extras,
        whole_or_transposed("x2"),
        _no_x3,
        _mode,
        nullable="bias x3",
    )

# --------------------------------------------------------------------------------------------------- quantised operands


def _quant_dtypes(call: Call) -> None:
    scale = _name(call, "dequantScale", "x2Scale")
    x3 = _name(call, "x3", "x3Optional")
    dtypes("INT8", "x1", "x2")(call)
    dtypes({"310P": "UINT64 INT64", "": "UINT64 INT64 BF16 FLOAT"}, scale)(call)
    dtypes(_16, "output", x3)(call)
    dtypes("INT32", _name(call, "bias", "biasOptional"))(call)
    same_dtype("output", x3)(call)
    if DataType.BF16 in (call.dtype("output"), call.dtype(scale)):
        same_dtype("output", scale)(call)
    token = _name(call, "pertokenScaleOptional")
    if token and call.is_present(token):
        dtypes("FLOAT", token)(call)
        if call.dtype("output") is DataType.FLOAT16:
            same_dtype(scale, token)(call)
    _comm_scales(call)


def _comm_scales(call: Call) -> None:
    """Scales of what is communicated: both, or neither."""
    names = ("commQuantScale1Optional", "commQuantScale2Optional")
    if names[0] in call.operator.positions and all(call.is_present(n) for n in names):
        dtypes("FLOAT16 BF16", *names)(call)
        same_dtype("output", *names)(call)


def _comm_scale_shapes(call: Call) -> None:
    first, second = "commQuantScale1Optional", "commQuantScale2Optional"
    if first not in call.operator.positions:
        return
    call.require(
        call.is_present(first) is call.is_present(second), second, "and comm_quant_scale1 are given both, or neither"
    )
    if call.is_present(first):
        n = _product(call)[-1]
        for name in (first, second):
            fits = call.shape(name) in ((n,), (1, n)) and call.shape(name) == call.shape(first)
            call.require(fits, name, f"has shape {call.shape(name)}; it must be {(n,)} or {(1, n)}")


def _quant_shapes(call: Call) -> None:
    made, name = _product(call), "dequantScale"
    got = call.shape(name)
    fits = got in ((1,), made[-1:], (1, made[-1]))
    call.require(fits, name, f"has shape {got}; it must be {made[-1:]}, {(1, made[-1])} or (1,)")
    if "pertokenScaleOptional" in call.operator.positions and call.is_present("pertokenScaleOptional"):
        wanted = (math.prod(made[:-1]),)
        got = call.shape("pertokenScaleOptional")
        call.require(got == wanted, "pertokenScaleOptional", f"has shape {got}; it must be {wanted}")
    _comm_scale_shapes(call)


def _not_empty(call: Call) -> None:
    call.require(call["output"].size > 0, "output", "is empty")


_SKIPPABLE = "bias biasOptional x3 x3Optional"
for _operator in ("aclnnQuantMatmulAllReduce", "aclnnQuantMatmulAllReduceV2", "aclnnQuantMatmulAllReduceV3"):
    rule(
        _operator,
        _quant_dtypes,
        *_SUM,
        output_shape(output=_product),
        *(() if _operator.endswith("V3") else (_not_empty,)),
        _extras,
        _quant_shapes,
        whole_or_transposed("x2"),
        output_dtype(
            output=lambda call: DataType.BF16 if call.dtype("dequantScale") is DataType.BF16 else DataType.FLOAT16
        ),
        nullable=_SKIPPABLE,
    )


def _v4_dtypes(call: Call) -> None:
    small = "FLOAT8_E4M3FN FLOAT8_E5M2 HIFLOAT8 FLOAT4_E2M1"
    dtypes("INT8 " + small, "x1", "x2")(call)
    dtypes("UINT64 INT64 BF16 FLOAT FLOAT8_E8M0", "x2Scale")(call)
    is_small = call.dtype("x1").name in small.split()
    dtypes("FLOAT16 BF16 FLOAT" if is_small else "FLOAT16 BF16", "output", "x3Optional")(call)
    dtypes("INT32 FLOAT", "biasOptional")(call)
    same_dtype("output", "x3Optional")(call)
    if not is_small and DataType.BF16 in (call.dtype("output"), call.dtype("x2Scale")):
        same_dtype("output", "x2Scale")(call)
    dtypes("FLOAT FLOAT8_E8M0", "x1ScaleOptional")(call)
    _comm_scales(call)


for _operator in ("aclnnQuantMatmulAllReduceV4", "aclnnQuantMatmulAllReduceV5"):
    rule(
        _operator,
        _v4_dtypes,
        *_SUM,
        output_shape(output=_product),
        _not_empty,
        _extras,
        _mode,
        output_dtype(output=lambda call: DataType.BF16 if call.dtype("x2Scale") is DataType.BF16 else DataType.FLOAT16),
        nullable=_SKIPPABLE,
    )


def _group_size(call: Call) -> None:
    size, k = call["antiquantGroupSize"], call.size("x1", -1)
    if k and size:
        fits = size % 32 == 0 and 32 <= size <= min(k - 1, 2**31 - 1)
        call.require(fits, "antiquantGroupSize", f"is {size}; it must be 0, or a multiple of 32 below {k}")


def _antiquant(call: Call) -> None:
    made, size, k = _product(call), call["antiquantGroupSize"], call.size("x1", -1)
    got, n = call.shape("antiquantScale"), made[-1]
    if k:
        allowed = ((-(-k // size), n),) if size else ((1,), (n,), (1, n))
        call.require(got in allowed, "antiquantScale", f"has shape {got}; it must be {' or '.join(map(str, allowed))}")
        same_shape("antiquantScale", "antiquantOffset")(call)
    moved = transposed(call["x2"]) or (call.product == "310P" and call["x2"].format is Format.FRACTAL_NZ)
    for name in ("antiquantScale", "antiquantOffset"):
        tensor = call[name]
        if call.product in ("A2", "950") and tensor is not None and tensor.ndim == 2 and 1 not in tensor.shape:
            fits = tensor.is_contiguous is not moved
            call.require(fits, name, "must be stored transposed exactly where x2 is")


for _operator in ("aclnnWeightQuantMatmulAllReduce", "aclnnWeightQuantMatmulAllReduceV2"):
    rule(
        _operator,
        dtypes(_16, "x1", "antiquantScale", "output", "antiquantOffset", "x3", "bias"),
        dtypes({"950": "INT8 INT4 FLOAT8_E4M3FN HIFLOAT8", "": "INT8 INT4"}, "x2"),
        same_dtype("x1", "antiquantScale", "output", "bias", "antiquantOffset", "x3"),
        *_SUM,
        _group_size,
        output_shape(output=_product),
        _not_empty,
        _extras,
        _antiquant,
        whole_or_transposed("x2", "antiquantScale", "antiquantOffset"),
        _mode,
        nullable=_SKIPPABLE,
    )

# --------------------------------------------------------------------------------------------------- and normalised


def _norm_shapes(call: Call) -> None:
    rank(1, 99, "x1", "x2", "residual")(call)
    x1, x2, residual = (call.shape(n) for n in ("x1", "x2", "residual"))
    call.require(x1[-1] == x2[0], "x2", f"has shape {x2}; its first axis must be {x1[-1]}, as x1's last")
    call.require(residual[-1] == x2[-1], "residual", f"has shape {residual}; its last axis must be {x2[-1]}, as x2's")


def _norm_scale(call: Call) -> None:
    if "dequantScale" in call.operator.positions:
        call.require(call.is_present("dequantScale"), "dequantScale", "is None; it is required", INNER_ERROR)
    names = [
        n for n in ("x1", "x2", "dequantScale", "antiquantScale", "residual", "gamma") if n in call.operator.positions
    ]
    empty = any(call.is_empty(n) for n in names)
    call.require(not empty or call.shape("x1")[-1] != 0, "x1", "has an empty inner axis")


for _operator in ("", "Quant", "WeightQuant"):
    for _prefix in ("aclnn", "aclnnInplace"):
        rule(
            f"{_prefix}{_operator}MatmulAllReduceAddRmsNorm",
            _norm_shapes,
            _norm_scale,
            stop_on_failure,
            infer_shape(y=shape_of("residual"), normOut=shape_of("residual")),
            output_dtype(y=lambda call: call.dtype("residual"), normOut=lambda call: call.dtype("residual")),
            nullable="bias dequantScale y normOut",
        )

# --------------------------------------------------------------------------------------------------- of groups


def _group_attributes(call: Call) -> None:
    stop_on_failure(call)
    one_of("commTurn", 0)(call)
    one_of("reduceOp", "sum")(call)


def _group_lists(call: Call) -> None:
    """``splitItem``: 0 separate x and y, 1 one x, 2 one y, 3 one of each."""
    split, x, weight, y, ends = (call[n] for n in ("splitItem", "x", "weight", "y", "groupListOptional"))
    one_of("splitItem", 0, 1, 2, 3)(call)
    call.require(1 <= len(weight) <= 64, "weight", f"has {len(weight)} tensors; it must have between 1 and 64")
    for name, tensors in (("x", x), ("weight", weight), ("y", y)):
        call.require(all(t is not None for t in tensors), name, "has None in it")
    single = split in (1, 3)
    wanted = 1 if single else len(weight)
    call.require(len(x) == wanted, "x", f"has {len(x)} tensors; with split_item {split} it must have {wanted}")
    if single:
        fits = ends is not None and len(ends) == len(weight) and list(ends) == sorted(ends)
        call.require(fits, "groupListOptional", f"is {ends}; it must have {len(weight)} items, not decreasing")
        rank(2, 2, "x")(call)
        call.require(
            ends[-1] == x[0].shape[0], "groupListOptional", f"ends with {ends[-1]}; x has {x[0].shape[0]} rows"
        )
    else:
        call.require(not ends, "groupListOptional", f"is given; with split_item {split} it must be None")
    wanted = 1 if split in (2, 3) else len(weight)
    call.require(len(y) == wanted, "y", f"has {len(y)} tensors; with split_item {split} it must have {wanted}")
    rank(2, 6 if split == 0 else 2, "x")(call)
    rank(2, 2, "weight")(call)
    if call["bias"]:
        array_length("bias", len(weight))(call)
        rank(1, 1, "bias")(call)


def _group_dtypes(call: Call) -> None:
    x = call.dtype("x")
    for name, wanted in (
        ("x", x.name if x.name in ("FLOAT16", "BF16") else "FLOAT16 BF16"),
        ("weight", x.name),
        ("y", x.name),
        ("bias", "FLOAT" if x is DataType.BF16 else "FLOAT16"),
    ):
        dtypes(wanted, name)(call)


def _group_shapes(call: Call) -> list[Shape]:
    x, weight, ends = call.shapes("x", 2), call.shapes("weight", 2), call["groupListOptional"] or ()
    split = call["splitItem"]
    text = f"is {ends}; it must have {len(weight)} items, as weight"
    call.require(split in (0, 2) or len(ends) == len(weight), "groupListOptional", text)
    inputs = x if split in (0, 2) else x * len(weight)
    made, before = [], 0
    for i, (t, w) in enumerate(zip(inputs, weight)):
        rows: Shape = t[:-1]
        if split in (1, 3):
            rows, before = (ends[i] - before,), ends[i]
        call.require(t[-1] == w[0], "weight", f"has shape {w}; its first axis must be {t[-1]}")
        made.append((*rows, w[1]))
    if split in (2, 3):
        return [(sum(s[0] for s in made), made[0][1])]
    return made


def _group_result(call: Call) -> None:
    for t, wanted in zip(call["y"], _group_shapes(call)):
        call.require(t.shape == wanted, "y", f"has shape {t.shape}; it must be {wanted}")


rule(
    "aclnnGroupedMatMulAllReduce",
    _group_attributes,
    _group_lists,
    _group_dtypes,
    _group_result,
    infer_shape(y=_group_shapes),
)

# --------------------------------------------------------------------------------------------------- of quantised values


def _two_kinds(call: Call) -> None:
    small = "FLOAT8_E4M3FN FLOAT8_E5M2"
    mx = call.dtype("scales") is DataType.FLOAT8_E8M0
    dtypes("FLOAT FLOAT8_E8M0", "scales")(call)
    dtypes(small if mx else "INT8 HIFLOAT8 " + small, "x")(call)
    dtypes("FLOAT16 BF16 FLOAT", "output")(call)


rule(
    "aclnnQuantAllReduce",
    _two_kinds,
    no_private_format("x", "scales", "output"),
    communicator("group", null=PARAM_NULLPTR),
    infer_shape(output=shape_of("x")),
    output_dtype(output="FLOAT16"),
)
rule("aclnnQuantReduceScatter", _two_kinds, communicator("group", null=PARAM_NULLPTR))
