"""Rules of products of quantised operands."""

from __future__ import annotations

import math
from typing import NamedTuple

from ascend_aclnn.core.dtypes import DataType, Format
from ascend_aclnn.core.errors import INNER_NULLPTR, PARAM_INVALID, PARAM_NULLPTR, RUNTIME_ERROR
from ascend_aclnn.rules.language import *
from ascend_aclnn.rules.matmul.common import (
    A2,
    TRANSPOSES,
    mx_operands,
    not_given,
    product_of,
    product_shape_of,
    unpacked_shape,
)

# --------------------------------------------------------------------------------------------------- first versions


def _fixed_batches(*transposes: str) -> Check:
    """Operands and out have the same batch."""

    def check(call: Call) -> None:
        rank(2, 3, "x1", "x2")(call)
        a, b = call.shape("x1")[:-2], call.shape("x2")[:-2]
        call.require(a == b[: len(a)], "x2", f"has shape {call.shape('x2')}; its batch must be that of x1, {a}")
        product = product_of(call, "x1", "x2", *transposes)
        if call.is_present("bias"):
            wanted = (product.n,)
            call.require(call.shape("bias") == wanted, "bias", f"has shape {call.shape('bias')}; it must be {wanted}")

    return check


def _a2_kernel(call: Call) -> None:
    call.require(call.product in A2, None, f"the operator is not implemented on {call.soc.name}", RUNTIME_ERROR)


def _aligned_scale(call: Call) -> None:
    n = product_of(call, "x1", "x2", "adjX1", "adjX2").n
    wanted = (-(-n // 16) * 16,)
    call.require(
        call.shape("deqScale") == wanted, "deqScale", f"has shape {call.shape('deqScale')}; it must be {wanted}"
    )


rule(
    "aclnnQuantMatmul",
    dtypes("INT8", "x1", "x2"),
    dtypes("INT32", "bias"),
    dtypes("FLOAT16", "out"),
    not_nz("x1", "x2", "bias", "out"),
    _fixed_batches(),
    output_shape(out=product_shape_of()),
    _a2_kernel,
    output_dtype(out="FLOAT16"),
    null_status=INNER_NULLPTR,
)
rule(
    "aclnnQuantMatmulV2",
    dtypes("INT8", "x1", "x2"),
    dtypes("INT32", "bias"),
    dtypes("UINT64", "deqScale"),
    dtypes("FLOAT16", "out"),
    not_nz("x1", "x2", "bias", "deqScale", "out"),
    rank(1, 1, "deqScale"),
    _fixed_batches("adjX1", "adjX2"),
    output_shape(out=product_shape_of("x1", "x2", "adjX1", "adjX2")),
    _aligned_scale,
    _a2_kernel,
    output_dtype(out="FLOAT16"),
    null_status=INNER_NULLPTR,
)


# --------------------------------------------------------------------------------------------------- scales per token and channel


class _Names(NamedTuple):
    """What a version calls the scale of x1 ("" where it takes none), that of x2, and the offset of x2."""

    x1_scale: str
    x2_scale: str
    offset: str

    def per_token(self, call: Call) -> bool:
        """Whether each row of x1 has its own scale."""
        return self.x1_scale != "" and call.is_present(self.x1_scale)


def _is_int4(call: Call, name: str) -> bool:
    return call.dtype(name) in (DataType.INT4, DataType.INT32)


# Without a scale of x1: dtype of out -> dtypes of the scale of x2, of bias, whether an offset is taken.
_PER_CHANNEL = {
    DataType.INT32: ("FLOAT BF16", "INT32", True),
    DataType.BF16: ("FLOAT BF16", "INT32 BF16 FLOAT", False),
    DataType.INT8: ("UINT64 INT64", "INT32", True),
    DataType.FLOAT16: ("UINT64 INT64", "INT32", False),
}
# With one, on A2 and A3.
_PER_TOKEN = {
    DataType.BF16: ("BF16 FLOAT", "INT32 BF16 FLOAT"),
    DataType.FLOAT16: ("FLOAT", "INT32 FLOAT16 FLOAT"),
}


def _quant_dtypes(names: _Names) -> Check:
    """What the cubes of A2, A3 and 310P take; Ascend 950 is checked against the document alone."""

    def check(call: Call) -> None:
        out = call.dtype("out")
        int4 = _is_int4(call, "x1") and _is_int4(call, "x2")
        if call.product not in ("A2", "A3", "310P"):
            text = f"the operator is not implemented on {call.soc.name}"
            call.require(call.product == "950", None, text, RUNTIME_ERROR)
            documented_dtypes()(call)
            return
        if call.product == "310P" or not int4:
            dtypes("INT8", "x1", "x2")(call)
        per_token = names.per_token(call)
        table = {DataType.FLOAT16: ("FLOAT", "INT32")} if call.product == "310P" else _PER_TOKEN
        if int4 and not per_token:
            dtypes("UINT64 INT64", names.x2_scale)(call)
            dtypes("INT32", "bias")(call)
            dtypes("FLOAT16 BF16", "out")(call)
        elif per_token:
            dtypes("FLOAT", names.x1_scale)(call)
            dtypes(" ".join(t.name for t in table), "out")(call)
            scale, bias = table[out]
            dtypes(scale, names.x2_scale)(call)
            dtypes(bias, "bias")(call)
        else:
            dtypes("INT32 BF16 INT8 FLOAT16", "out")(call)
            scale, bias, takes_offset = _PER_CHANNEL[out]
            dtypes(scale, names.x2_scale)(call)
            dtypes(bias, "bias")(call)
            given = call.is_present(names.offset)
            call.require(takes_offset or not given, names.offset, f"is given; with out {out.name} it must be None")
            if out is DataType.INT8:
                dtypes("FLOAT", names.offset)(call)

    return check


def _quant_shapes(names: _Names) -> Check:
    """Scales have one item, or one for each row of x1 and each column of x2; bias one for each column."""

    def check(call: Call) -> None:
        rank(2, 6, "x1", "out")(call)
        product = product_of(call, "x1", "x2", *TRANSPOSES)
        if call.product == "950":
            return
        scale = call.shape(names.x2_scale)
        per_token = names.per_token(call)
        grouped = per_token and len(call.shape(names.x1_scale)) > 1
        if not grouped:
            fits = len(scale) in (1, len(call.shape("x2"))) and scale[0] in (1, product.n)
            text = f"has shape {scale}; it must be ({product.n},) or (1,)"
            call.require(fits, names.x2_scale, text)
        if per_token and not grouped:
            rows = call.shape(names.x1_scale)
            wanted = ((product.m,), (1,))
            call.require(rows in wanted, names.x1_scale, f"has shape {rows}; it must be ({product.m},)")
        if call.is_present(names.offset) and not grouped:
            offset = call.shape(names.offset)
            fits = len(offset) == 1 and offset[0] in (1, product.n)
            call.require(fits, names.offset, f"has shape {offset}; it must be ({product.n},) or (1,)")
        if call.is_present("bias"):
            bias = call.shape("bias")
            fits = bias in ((product.n,), (*product.batch[:1], 1, product.n)) and (
                len(bias) == 1 or len(product.batch) == 1
            )
            call.require(fits, "bias", f"has shape {bias}; it must be ({product.n},), or (batch, 1, {product.n})")
        if _is_int4(call, "x1") and _is_int4(call, "x2"):
            even = product.k if call["transposeX2"] else product.n
            fits = product.k % 2 == 0 and even % 2 == 0 and not call["transposeX1"] and len(call.shape("x2")) == 2
            text = f"has shape {call.shape('x2')}; an INT4 operand is 2-D with even axes, and x1 is not transposed"
            call.require(fits, "x2", text)

    return check


def _quant_out(call: Call) -> None:
    """A 2-D product may also be written as (rows, 1, columns)."""
    product = product_of(call, "x1", "x2", *TRANSPOSES)
    came, flat = call.shape("out"), len(call.shape("x1")) == len(call.shape("x2")) == 2
    fits = came == product.shape or (flat and came == (product.m, 1, product.n))
    call.require(fits, "out", f"has shape {came}; it must be {product.shape}")


def _quant_formats(names: _Names) -> Check:
    def check(call: Call) -> None:
        if call.product == "310P":
            formats("FRACTAL_NZ", "x2")(call)
            return
        formats("ND", "x1")(call)
        formats("ND FRACTAL_NZ", "x2")(call)
        formats("ND", *filter(None, names), "bias")(call)

    return check


def _fits_later(name: str) -> DtypeRule:
    """The dtype that the operands suggest for out."""

    def dtype(call: Call) -> DataType:
        scale = call.dtype(name)
        return DataType.BF16 if scale in (DataType.BF16, DataType.FLOAT) else DataType.FLOAT16

    return dtype


def _checks(names: _Names) -> tuple[Check, ...]:
    return (
        _quant_dtypes(names),
        _quant_shapes(names),
        _quant_out,
        _quant_formats(names),
        when("product != '950'", not_empty("x1", "x2")),
    )


def _outputs(names: _Names) -> tuple[Check, ...]:
    return (
        infer_shape(out=product_shape_of("x1", "x2", *TRANSPOSES)),
        output_dtype(out=_fits_later(names.x2_scale)),
    )


_V5_UNUSED = (not_given("yScale"), not_given("x1Offset"), not_given("yOffset"))

# Rows of 8 bits by packed weights of 4 bits on A2 and A3, with scales of columns or of 256 of the inner axis.
_WIDE_BY_NARROW = "product in ('A2', 'A3') and x1.dtype == INT8 and x2.dtype == INT32"
_WIDE_BY_NARROW_WORDS = (
    define(m="x1[0]", k="x1[1]", n="x2.unpacked[1]"),
    rank(2, 2, "x1", "x2", "out"),
    required("x1Scale", "yOffset", status=PARAM_INVALID),
    absent("yScale", "x1Offset", "x2Offset", "bias"),
    dtypes("FLOAT", "x1Scale", "yOffset"),
    dtypes("UINT64 INT64", "x2Scale"),
    dtypes("FLOAT16 BF16", "out"),
    formats("ND", "x1", "x2", "x1Scale", "x2Scale", "yOffset", "out"),
    one_of("transposeX1", False),
    one_of("transposeX2", False),
    require("0 < k <= 29576", argument="x1"),
    require("x2.unpacked[0] == k", "n > 0"),
    rank(1, 2, "x2Scale"),
    when("len(x2Scale) == 1", require("k % 2 == 0", argument="x1"), one_of("groupSize", 0)),
    when("len(x2Scale) == 2", require("k % 256 == 0", argument="x1"), one_of("groupSize", 256)),
    has_shape(
        x1Scale="(m,) if len(x2Scale) == 1 else (m, 1)",
        x2Scale="(n,) if len(x2Scale) == 1 else (k // 256, n)",
        yOffset="(n,)",
        out="(m, n)",
    ),
)


_MX_PRODUCT = "product == '950' and x2Scale.dtype == FLOAT8_E8M0"
_MX_BIAS = require("bias in ((columns,), (1, columns), (*out[:-2], 1, columns))")

_C0_INT = {DataType.INT4: 64, DataType.INT32: 64}


def _nz_weight(transposed: str = "transposeX2") -> Check:
    """The storage of x2 holds it in blocks of 16 rows and 32 bytes."""

    def check(call: Call) -> None:
        tensor = call["x2"]
        call.require(tensor.ndim >= 2, "x2", f"has rank {tensor.ndim}; it must be at least 2")
        rows, wide = unpacked_shape(call, "x2")[-2:]
        if transposed and tensor.strides[-2] == 1 and tensor.strides[-1] == tensor.shape[-2]:
            rows, wide = wide, rows
        c0 = _C0_INT.get(tensor.dtype, 32)
        elements = math.prod(tensor.shape[:-2]) * -(-rows // 16) * 16 * -(-wide // c0) * c0
        stored = math.prod(tensor.storage_shape) * (8 if tensor.dtype is DataType.INT32 else 1)
        text = f"has a storage shape {tensor.storage_shape}; in FRACTAL_NZ it must have {elements} elements"
        call.require(call.product == "950" or stored == elements, "x2", text)
        vector = 1 in tensor.shape[-2:]
        call.require(not vector, "x2", f"has shape {tensor.shape}; in FRACTAL_NZ its last two axes must not be 1")

    return check


_V3 = _Names("", "scale", "offset")
_V4 = _Names("pertokenScaleOptional", "scale", "offset")
_V5 = _Names("x1Scale", "x2Scale", "x2Offset")

rule("aclnnQuantMatmulV3", *_checks(_V3), *_outputs(_V3))
rule("aclnnQuantMatmulV4", *_checks(_V4), *_outputs(_V4))
_V5_WORDS = (
    when(f"product != '950' and not ({_WIDE_BY_NARROW})", *_V5_UNUSED),
    when(_WIDE_BY_NARROW, *_WIDE_BY_NARROW_WORDS),
    when(f"not ({_WIDE_BY_NARROW})", *_checks(_V5)),
    when(_MX_PRODUCT, *mx_operands("x1Scale", "x2Scale"), _MX_BIAS),
    *_outputs(_V5),
)

rule("aclnnQuantMatmulV5", *_V5_WORDS)
rule("aclnnQuantMatmulWeightNz", _nz_weight(), *_V5_WORDS)

# --------------------------------------------------------------------------------------------------- fused


def _fused_quant(call: Call) -> None:
    op = call["fusedOpType"]
    call.require(op in ("gelu_erf", "gelu_tanh"), "fusedOpType", f"is {op!r}; it must be 'gelu_erf' or 'gelu_tanh'")
    later = ("yScaleOptional", "x1OffsetOptional", "x2OffsetOptional", "yOffsetOptional", "x3Optional")
    for name in later:
        not_given(name, PARAM_NULLPTR)(call)
    size = call["groupSizeOptional"]
    call.require(size == 0, "groupSizeOptional", f"is {size}; it must be 0", PARAM_NULLPTR)
    rank(2, 6, "x1", "out")(call)
    rank(1, 1, "x1Scale", "x2Scale")(call)
    int8 = call.dtype("x1") is call.dtype("x2") is DataType.INT8
    call.require(int8 or (_is_int4(call, "x1") and _is_int4(call, "x2")), "x1", "and x2 must both be INT8 or both INT4")
    product = product_of(call)
    rows, wide = call.shape("x1Scale"), call.shape("x2Scale")
    call.require(rows == (product.m,), "x1Scale", f"has shape {rows}; it must be ({product.m},)")
    call.require(wide in ((product.n,), (1,)), "x2Scale", f"has shape {wide}; it must be ({product.n},) or (1,)")
    dtypes("FLOAT", "x1Scale")(call)
    dtypes("FLOAT16 BF16", "out")(call)
    scale, bias = _PER_TOKEN[call.dtype("out")]
    dtypes(scale, "x2Scale")(call)
    dtypes(bias, "biasOptional")(call)
    if call.is_present("biasOptional"):
        sizes = call.shape("biasOptional")
        call.require(sizes[-1:] == (product.n,), "biasOptional", f"has shape {sizes}; it must end in {product.n}")


_FUSED = (
    _fused_quant,
    output_shape(out=product_shape_of()),
    not_empty("x1", "x2"),
    output_dtype(out=_fits_later("x2Scale")),
)
rule("aclnnFusedQuantMatmul", only_products("A2 A3"), *_FUSED)
rule("aclnnFusedQuantMatmulWeightNz", only_products("A2 A3"), _nz_weight(), *_FUSED)


def _dequant_weight(call: Call) -> None:
    weight = call["weight"]
    for name in ("out", "weight"):
        call.require(call[name].is_contiguous, name, "is not contiguous; it must be")
    flat = weight.ndim == 2 and weight.format is Format.ND
    blocked = weight.ndim == 4 and weight.format is Format.FRACTAL_NZ
    call.require(flat or blocked, "weight", f"has shape {weight.shape}; it must be (N, K), or 4-D in FRACTAL_NZ")
    if flat:
        fits = all(n % 16 == 0 for n in weight.shape)
        call.require(fits, "weight", f"has shape {weight.shape}; its axes must be multiples of 16")


def _dequant_out(call: Call) -> Shape:
    x, weight = call.shape("x"), call.shape("weight")
    call.require(len(x) == 2, "x", f"has rank {len(x)}; it must be 2")
    return x[0], weight[0] if len(weight) == 2 else call.size("weightScale", 0)


rule(
    "aclnnQuantMatmulDequant",
    lambda call: call.require(call["transposeWeight"], "transposeWeight", "is False; it must be True"),
    not_given("biasOptional", PARAM_NULLPTR),
    not_given("xOffsetOptional", PARAM_NULLPTR),
    same_dtype("x", "out"),  # the other dtypes are compared, but nothing comes of it
    only_products("310P"),
    unless_empty("x weight weightScale", _dequant_weight),
    infer_shape(out=_dequant_out),
)


def _reduced_shapes(call: Call) -> None:
    rank(3, 3, "x1", "x2")(call)
    product = product_of(call)
    batch = call.shape("x1")[0]
    call.require(call.shape("x2")[0] == batch, "x2", f"has shape {call.shape('x2')}; its batch must be {batch}, as x1")
    for name, wanted in (("x2Scale", (product.n,)), ("x1Scale", (batch, product.m))):
        call.require(call.shape(name) == wanted, name, f"has shape {call.shape(name)}; it must be {wanted}")


rule(
    "aclnnQuantMatmulReduceSumWeightNz",
    *map(not_given, ("yScale", "x1Offset", "x2Offset", "yOffset", "bias")),
    one_of("transposeX1", False),
    one_of("transposeX2", False),
    lambda call: call.require(call["groupSize"] <= 0, "groupSize", f"is {call['groupSize']}; it must be 0"),
    one_of("keepDims", False),
    dtypes("INT8", "x1", "x2"),
    dtypes("FLOAT", "x1Scale"),
    dtypes("BF16", "x2Scale", "out"),
    not_nz("x1", "x1Scale", "x2Scale", "out"),
    formats("FRACTAL_NZ", "x2"),
    _reduced_shapes,
    infer_shape(out=shape_from(("x1", 1), ("x2", 2))),
    output_dtype(out="BF16"),
)


def _sparse_sizes(call: Call) -> None:
    """Two of four weights are kept, so the weight has half the columns of x."""
    x, weight = call.shape("x"), call.shape("sparseWeight")
    whole = -(-x[1] // 8) * 8
    call.require(whole == 2 * weight[1], "sparseWeight", f"has shape {weight}; it must have {whole // 2} columns")
    call.require(max(x[1], weight[1]) <= 65535, "x", f"has {x[1]} columns; at most 65535 are supported")
    for name, size in (("biasOptional", weight[0]), ("sparseWeightScale", weight[0]), ("xScale", x[0])):
        if call.is_present(name):
            call.require(call.shape(name) == (size,), name, f"has shape {call.shape(name)}; it must be ({size},)")


def _sparse_storage(call: Call) -> None:
    rank(2, 2, "sparseWeight")(call)
    n, k = call.sizes("sparseWeight", 2)
    wanted = (-(-k // 32), -(-n // 16), 16, 32)
    came = call["sparseWeight"].storage_shape
    call.require(came == wanted, "sparseWeight", f"has a storage shape {came}; in FRACTAL_NZ it must be {wanted}")


rule(
    "aclnnSparse4to2QuantMatmulWeightNz",
    only_products("A2 A3"),
    _sparse_storage,
    rank(2, 2, "x", "index", "out"),
    rank(1, 1, "biasOptional", "xScale", "sparseWeightScale"),
    dtype_table(
        "x sparseWeight index biasOptional xScale sparseWeightScale out", "INT8 INT8 UINT8 BF16 FLOAT FLOAT BF16"
    ),
    formats("ND", "x", "index", "xScale", "sparseWeightScale", "biasOptional", "out"),
    _sparse_sizes,
    output_shape(out=shape_from(("x", 0), ("sparseWeight", 0))),
    not_empty("x", "sparseWeight"),
    output_dtype(out="BF16"),
)
