"""Rules of the experimental operators of ops-math/math, from their documents, definitions and shape inference."""

from __future__ import annotations

from ascend_aclnn.rules.language import *

# ------------------------------------------------------------------------------------------------- one operand

elementwise("AcosV2", "A2", FLOATS, "self", "out")
elementwise("CoshV2", "A2 950", FLOATS, "self", "out")
elementwise("CeilV2 SinhV2 SquareV2 TanV2 TanV3 TruncV2", "A2", FLOATS_WITHOUT_BF16, "x", "out")
elementwise("Log1pV2", "A2", FLOATS_WITHOUT_BF16, "x1", "out")
elementwise("ErfInv", "A2 A3 950", FLOATS_WITHOUT_BF16, "x", "out")
elementwise("FresnelCos FresnelSin", "950", FLOATS, "x", "out")
elementwise("Ndtri", "950", FLOATS, "self", "out")
elementwise("InvertV2", "A2", "INT16 UINT16", "x", "out")

for _name, _out, _products in (
    ("AsinWithAgent", "y", "A2"),
    ("AsinhWithAgent", "out", "A2"),
    ("AsinhV2", "out", "950"),
):
    rule(
        f"aclnn{_name}",
        only_products(_products),
        dtypes(REAL, "x"),
        has_dtype(_out, floated("x")),
        max_rank(8, "x"),
        output_shape(**{_out: "x"}),
    )
rule(
    "aclnnRealV2",
    only_products("950"),
    dtypes("FLOAT FLOAT16 COMPLEX64 COMPLEX32", "self"),
    has_dtype("out", real_of("self")),
    max_rank(8, "self"),
    output_shape(out="self"),
)

rule(
    "aclnnCastV2",
    only_products("A2"),
    dtype_table(
        "x out",
        "FLOAT16 FLOAT/UINT8/INT8/INT16/INT32",
        "FLOAT FLOAT16/INT16/INT32/INT64/BF16",
        "BF16 FLOAT/INT32",
        "UINT8/INT8 FLOAT16",
        "INT16 FLOAT16/FLOAT",
        "INT32 FLOAT16/FLOAT/INT16/INT64",
        "INT64 FLOAT/INT32",
    ),
    same_shape("x", "out"),
)
rule(
    "aclnnCastV3",
    only_products("310P"),
    dtype_table(
        "x y",
        "FLOAT/INT8/INT32/INT16/UINT8/BOOL/BF16/INT64 FLOAT16",
        "FLOAT16/BF16/INT32/BOOL/INT8/UINT8/INT16/INT64 FLOAT",
        "FLOAT/FLOAT16/BF16/INT8/UINT8/INT16/BOOL/INT64 INT32",
        "FLOAT16/FLOAT/INT32/UINT8/BOOL/BF16/INT16 INT8",
        "FLOAT16/FLOAT/INT32/INT8/INT16/BF16/BOOL UINT8",
        "FLOAT16/FLOAT/INT8/INT32/UINT8/BF16/INT64 BOOL",
        "BF16/FLOAT16/FLOAT/INT32/INT8/BOOL/UINT8 INT16",
    ),
    has_dtype("y", dtype_attribute("dstType")),
    output_shape(y="x"),
)

# ------------------------------------------------------------------------------------------------- two operands

elementwise("AcosGrad", "950", FLOATS, "y_grad x", "x_grad")
elementwise("AcosGradV2", "A2", FLOATS, "y dy", "z")
elementwise("AcoshGrad", "A2 A3", FLOATS, "y dy", "dx")
elementwise("AsinGrad", "A2 A3", FLOATS, "y dy", "z")
elementwise("AsinhGrad", "950", FLOATS, "y dy", "z")
elementwise("AtanGrad", "A2 950", FLOATS, "x dy", "dx")
elementwise("SqrtBackward", "A2", FLOATS, "y dy", "z")
elementwise("AssignSub", "A2 A3", f"{FLOATS} INT8 INT32 UINT8 INT64", "var value", "varOut")
elementwise("DivV2 SubV2", "A2", f"{FLOATS} INT32 INT16", "x1 x2", "out")
elementwise("DivV3", "A2 A3", f"{FLOATS} INT32 INT16", "self other", "out", one_of("mode", 0, 1, 2))
elementwise("MulV2", "A2", f"{FLOATS_WITHOUT_BF16} INT32 INT16", "x1 x2", "out")
elementwise("MaximumV2", "A2", f"{FLOATS} INT32 INT16 INT8", "x1 x2", "out")
elementwise("FloorDiv", "A2", f"{FLOATS} INT32 INT8 UINT8", "self_x self_y", "out")
elementwise("TruncateMod", "A2 A3", f"{FLOATS} INT32 INT8 UINT8", "x1 x2", "out")
elementwise("AxpyV3", "A2", FLOATS_WITHOUT_BF16, "x y", "out")


rule(
    "aclnnApproximateEqual",
    only_products("950"),
    same_dtype("x1", "x2", among=FLOATS),
    dtypes("BOOL", "y"),
    same_shape("x1", "x2"),
    max_rank(8, "x1"),
    require("tolerance >= 0", "isfinite(tolerance)"),
    output_shape(y="x1"),
)
rule(
    "aclnnMulNoNan",
    only_products("950"),
    same_dtype("x", "y", "z", among=FLOATS),
    max_rank(8, "x", "y"),
    output_shape(z=broadcast_shape("x", "y")),
)
_POWERS = "INT8 UINT8 INT16 INT32 FLOAT16 BF16 FLOAT"
rule(
    "aclnnPow2",
    only_products("A2"),
    dtypes(_POWERS, "x1", "x2"),
    has_dtype("out", promoted("x1", "x2")),
    max_rank(8, "x1", "x2"),
    output_shape(out=broadcast_shape("x1", "x2")),
)
_QUOTIENT = "FLOAT if self.dtype == BOOL else self.dtype"
rule(
    "aclnnRealDiv",
    only_products("A2"),
    same_dtype("self", "other", among=f"{FLOATS} BOOL INT32"),
    has_dtype("out", _QUOTIENT),
    max_rank(8, "self"),
    same_shape("self", "other"),
    output_shape(out="self"),
)
rule(
    "aclnnTruncateDiv",
    only_products("A2 A3"),
    dtype_table(
        "x1 x2 out",
        "T T T",
        "FLOAT16/INT32 FLOAT FLOAT",
        "FLOAT FLOAT16/INT32 FLOAT",
        T=f"{FLOATS} {INTEGERS}",
    ),
    max_rank(8, "x1", "x2"),
    same_shape("x1", "x2"),
    output_shape(out="x1"),
)
rule(
    "aclnnComplexV2",
    only_products("A2"),
    same_dtype("x1", "x2", "out", among=FLOATS_WITHOUT_BF16),
    rank(1, 8, "x1"),
    same_shape("x1", "x2"),
    output_shape(out="(2 * x1[0], *x1[1:])"),
)
_COMPLEX = "COMPLEX64 if real.dtype == FLOAT else COMPLEX32"
rule(
    "aclnnComplexV3",
    only_products("A2 950"),
    same_dtype("real", "imag", among=FLOATS_WITHOUT_BF16),
    has_dtype("out", _COMPLEX),
    max_rank(8, "real", "imag"),
    output_shape(out=broadcast_shape("real", "imag")),
)

# ------------------------------------------------------------------------------------------------- with factors

elementwise("AddMatMatElements", "950", FLOATS, "a b c", "cOut")


rule(
    "aclnnAddMatMatElementsPlus",
    only_products("A2 A3 950"),
    same_dtype("c", "a", "b", "beta", "alpha", "cOut", among=FLOATS),
    max_rank(8, "a", "b", "c"),
    require("beta.size == 1", "alpha.size == 1"),
    output_shape(cOut=broadcast_shape("a", "b", "c")),
)
rule(
    "aclnnAxpyV2",
    only_products("A2"),
    same_dtype("self", "other", "alpha", "out", among=f"{FLOATS} INT32"),
    max_rank(8, "self"),
    same_shape("self", "other"),
    require("alpha.size == 1"),
    output_shape(out="self"),
)
rule(
    "aclnnFusedMulAddN",
    only_products("A2"),
    same_dtype("x1", "x2", "x3", "y", among=f"{FLOATS} INT32 INT16"),
    same_shape("x1", "x2"),
    require("x3.size == 1"),
    output_shape(y="x1"),
)
rule(
    "aclnnBiasAdd",
    only_products("A2"),
    same_dtype("x", "bias", "out", among=f"{FLOATS} INT32"),
    rank(2, 8, "x"),
    rank(1, "bias"),
    define(layout="dataFormatOptional or 'NHWC'"),
    require("'C' in layout", argument="dataFormatOptional"),
    when("dataFormatOptional is not None and dataFormatOptional[1:2] == 'C'", require("bias[0] == x[1]")),
    when("dataFormatOptional is None or dataFormatOptional[1:2] != 'C'", require("bias[0] == x[-1]")),
    output_shape(out="x"),
)

in_both_forms(
    "AddrV2",
    only_products("A2"),
    same_dtype("self", "vec1", "vec2", "out", among=f"{REAL} BF16"),
    rank(1, "vec1", "vec2"),
    require("len(self) <= 2", "all(n in (1, m) for n, m in zip(self[::-1], (vec2[0], vec1[0])))"),
    output_shape(out="(vec1[0], vec2[0])"),
)
rule(
    "aclnnGerV2",
    only_products("A2"),
    same_dtype("x", "y", "a", "out", among=f"{FLOATS_WITHOUT_BF16} INT32 INT16"),
    shape_patterns(x="m", y="n", a="m n", out="m n"),
)
rule(
    "aclnnSumV2",
    no_null_item("tensors"),
    only_products("950"),
    require("len(tensors) > 0"),
    same_dtype("tensors", "tensors", "out", among="FLOAT FLOAT16 INT32 INT8 UINT8"),
    max_rank(8, "tensors"),
    output_shape(out=broadcast_of_list("tensors")),
)
rule(
    "aclnnSelectV3",
    only_products("A2"),
    same_dtype("x", "y", "out", among=FLOATS_WITHOUT_BF16),
    dtypes("INT8", "b"),
    same_shape("x", "y", "b"),
    output_shape(out="x"),
)

# ------------------------------------------------------------------------------------------------- matrices, vectors

rule(
    "aclnnDotV2",
    only_products("A2"),
    same_dtype("x1", "x2", "out", among=FLOATS_WITHOUT_BF16),
    same_shape("x1", "x2"),
    output_shape_relaxed(out="(1,)"),
)
rule(
    "aclnnTraceV2",
    only_products("A2"),
    same_dtype("x", "out", among=FLOATS_WITHOUT_BF16),
    rank(2, "x"),
    output_shape_relaxed(out="(1,)"),
)
rule(
    "aclnnDiagPart",
    only_products("A2"),
    same_dtype("x", "y", among=f"{FLOATS_WITHOUT_BF16} INT32"),
    shape_patterns(x="n n", y="n"),
)
rule(
    "aclnnEyeV2",
    only_products("A2"),
    same_dtype("out", "xOptional", among=f"{FLOATS_WITHOUT_BF16} INT32 INT16"),
    not_negative("rows", "cols"),
    output_shape(out="(rows, cols)"),
    output_dtype(out="xOptional.dtype if xOptional is not None else FLOAT"),
)
rule(
    "aclnnExpandv",
    only_products("A2"),
    same_dtype("self", "out", among=f"{REAL} BF16"),
    max_rank(8, "self"),
    require("len(shape) >= len(self)", "all(n >= 0 for n in shape)"),
    require("all(n in (1, m) for n, m in zip(self[::-1], shape[::-1]))"),
    output_shape(out="shape"),
)
rule(
    "aclnnLinSpaceD",
    only_products("A2 310P 910 310B"),
    dtypes(f"{FLOATS} INT8 INT16 INT32 UINT8", "start", "end"),
    require("start.size == 1", "end.size == 1"),
    dtypes("FLOAT", "out"),
    array_length("num", 1),
    positive("num"),
    output_shape(out="num"),
)

# ------------------------------------------------------------------------------------------------- reductions

# axes -1 stands for all axes, of which a single element is left; the operators know matrices only.
_KEPT = (
    "tuple(1 if axes in (-1, i) else n for i, n in zip((0, 1), x)) if keepdims == 1"
    " else (1,) if axes == -1 else (x[1 - axes],)"
)
for _name, _out in (("Max", "out"), ("Mean", "out"), ("Min", "y"), ("Prod", "out"), ("Sum", "out")):
    rule(
        f"aclnnReduce{_name}V2",  # ReduceMaxV2 ReduceMeanV2 ReduceMinV2 ReduceProdV2 ReduceSumV2
        only_products("A2"),
        same_dtype("x", _out, among=FLOATS_WITHOUT_BF16),
        rank(2, "x"),
        require("not x.empty"),
        one_of("axes", -1, 0, 1),
        one_of("keepdims", 0, 1),
        output_shape_relaxed(**{_out: _KEPT}),
    )


rule(
    "aclnnReflectionPad1dV2",
    only_products("A2 910 310B 310P"),
    same_dtype("x", "out", among=FLOATS),
    array_length("paddings", 2),
    rank(2, 3, "x"),
    require("all(0 <= n < x[-1] for n in paddings)"),
    output_shape(out="(*x[:-1], x[-1] + sum(paddings))"),
)

# ------------------------------------------------------------------------------------------------- order

rule(
    "aclnnSortWithIndex",
    only_products("A2 950"),
    dtype_table("x index valuesOut indicesOut", "T INT32 T INT32", T=f"{FLOATS} INT32"),
    same_shape("x", "index"),
    valid_axis("axis", "x"),
    output_shape(valuesOut="x", indicesOut="x"),
)


# The shape of the result is the number in elementsNum, which only the device knows: out= tells it.
rule(
    "aclnnIsinPartV1",
    only_products("A2"),
    dtypes("INT32 FLOAT", "value"),
    dtypes("INT32", "index"),
    dtypes("INT32 INT64", "elementsNum"),
    dtypes("BOOL", "out"),
    rank(1, "value", "index"),
    same_shape("value", "index"),
    require("elementsNum.size == 1"),
    rank(1, "out"),
)

elementwise("AddV2", "A2", f"{FLOATS_WITHOUT_BF16} INT32 INT16", "x1 x2", "out")
elementwise("Inv", "950", FLOATS, "self", "out")
elementwise("InvGrad", "950", FLOATS, "y dy", "out")
elementwise("Pow", "A2", f"{FLOATS} UINT8 INT8 INT16 INT32", "x exponent", "out")
elementwise("RsqrtGrad", "A2", f"{FLOATS} INT8 INT32", "y dy", "out")
rule(
    "aclnnEltwise",
    only_products("950"),
    require("1 <= len(inputs) <= 32"),
    dtypes(FLOATS, "inputs"),
    same_dtype("inputs", "inputs", "out"),
    require("all(x == inputs[0] for x in inputs)", argument="inputs"),
    one_of("mode", 0, 1, 2),
    require("len(coeffOptional) in (0, len(inputs))"),
    output_shape(out="inputs[0]"),
)
rule(
    "aclnnMaskedFill",
    only_products("A2 910 310B 310P"),
    same_dtype("x", "out", among=f"{NUMBERS} BF16 UINT16 UINT32 UINT64"),
    dtypes("BOOL", "mask"),
    broadcastable("mask", "x"),
    output_shape(out="x"),
)

# The places behind the sorted values are an input of the prototype, to which the kernel writes.
rule(
    "aclnnSortV2",
    only_products("A2"),
    same_dtype("x", "out", among=FLOATS_WITHOUT_BF16),
    dtypes("UINT32", "index", "dstIndex"),
    has_shape(index="x"),
    tiling(rank(1, 2, "x"), require("-len(x) <= axis < len(x)")),
    output_shape(dstIndex="x", out="x"),
    output_dtype(dstIndex="UINT32"),
)
