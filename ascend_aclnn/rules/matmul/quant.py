"""Rules of products of quantised operands."""

from __future__ import annotations

import math
from typing import NamedTuple

from ascend_aclnn.core.dtypes import DataType, Format
from ascend_aclnn.core.errors import INNER_NULLPTR, PARAM_INVALID, PARAM_NULLPTR, RUNTIME_ERROR
from ascend_aclnn.rules.language import (
    Call,
    Check,
    DtypeRule,
    Shape,
    ShapeRule,
    absent,
    array_length,
    broadcast_shapes,
    define,
    documented_dtypes,
    dtype_of,
    dtype_table,
    dtypes,
    formats,
    has_shape,
    infer_shape,
    not_empty,
    one_of,
    only_products,
    output_dtype,
    output_shape,
    rank,
    require,
    required,
    rule,
    same_dtype,
    shape_from,
    unless_empty,
    when,
)
from ascend_aclnn.rules.language.call import is_transposed
from ascend_aclnn.rules.matmul.fused import not_nz, permuted_product

_A2 = ("A2", "A3")


class Product(NamedTuple):
    """The sizes of x1 @ x2."""

    batch: Shape
    m: int
    k: int
    n: int

    @property
    def shape(self) -> Shape:
        return (*self.batch, self.m, self.n)


def _unpacked(call: Call, name: str) -> Shape:
    """The shape in elements: INT32 (and a FLOAT weight) holds eight 4-bit numbers."""
    sizes = call.shape(name)
    call.require(len(sizes) >= 2, name, f"has rank {len(sizes)} (shape {sizes}); it must be at least 2")
    packed = call.dtype(name) is DataType.INT32 or (name != "x1" and call.dtype(name) is DataType.FLOAT)
    axis = len(sizes) - (2 if is_transposed(call[name]) else 1)  # the one that is stored last
    return tuple(n * 8 if i == axis else n for i, n in enumerate(sizes)) if packed else sizes


def _product(call: Call, left: str = "x1", right: str = "x2", trans_left: str = "", trans_right: str = "") -> Product:
    """The product of two operands whose last two axes may be transposed; the batches broadcast."""
    a, b = _unpacked(call, left), _unpacked(call, right)
    m, k = (a[-1], a[-2]) if trans_left and call[trans_left] else (a[-2], a[-1])
    n, k2 = (b[-2], b[-1]) if trans_right and call[trans_right] else (b[-1], b[-2])
    text = f"has shape {call.shape(right)}, which does not fit {call.python_name(left)} {call.shape(left)}"
    call.require(k == k2, right, text)
    batch = broadcast_shapes(a[:-2], b[:-2])
    if batch is None:
        call.refuse(right, f"has shape {b}, whose batch does not broadcast with that of {a}")
    return Product(batch, m, k, n)


def _product_shape(*names: str) -> ShapeRule:
    return lambda call: _product(call, *names).shape


def _none(name: str, status: int = PARAM_INVALID) -> Check:
    """An optional tensor is not given (or is empty): it is there for later versions."""

    def check(call: Call) -> None:
        given = call.is_present(name) and call[name].size != 0
        call.require(not given, name, "is given; it must be None", status)

    return check


_TRANSPOSES = ("transposeX1", "transposeX2")

# --------------------------------------------------------------------------------------------------- first versions


def _fixed_batches(*transposes: str) -> Check:
    """Operands and out have the same batch."""

    def check(call: Call) -> None:
        rank(2, 3, "x1", "x2")(call)
        a, b = call.shape("x1")[:-2], call.shape("x2")[:-2]
        call.require(a == b[: len(a)], "x2", f"has shape {call.shape('x2')}; its batch must be that of x1, {a}")
        product = _product(call, "x1", "x2", *transposes)
        if call.is_present("bias"):
            wanted = (product.n,)
            call.require(call.shape("bias") == wanted, "bias", f"has shape {call.shape('bias')}; it must be {wanted}")

    return check


def _a2_kernel(call: Call) -> None:
    call.require(call.product in _A2, None, f"the operator is not implemented on {call.soc.name}", RUNTIME_ERROR)


def _aligned_scale(call: Call) -> None:
    n = _product(call, "x1", "x2", "adjX1", "adjX2").n
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
    output_shape(out=_product_shape()),
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
    output_shape(out=_product_shape("x1", "x2", "adjX1", "adjX2")),
    _aligned_scale,
    _a2_kernel,
    output_dtype(out="FLOAT16"),
    null_status=INNER_NULLPTR,
)


def _anti_quant_sizes(call: Call) -> None:
    """Up to 64 rows the kernel dequantises on its own way and needs the fixpipe's parameters."""
    product = _product(call, "x1", "x2", *_TRANSPOSES)
    few = product.m <= 64
    for name in ("diagonalMatrix", "deqOffset", "deqScale") if few else ():
        call.require(
            call.is_present(name), name, f"is None (a null pointer); with {product.m} rows (up to 64) it is required"
        )
    if few:
        dtype_table("diagonalMatrix deqOffset deqScale", "INT8 INT32 UINT64")(call)
        wanted = (32, 32)
        got = call.shape("diagonalMatrix")
        call.require(got == wanted, "diagonalMatrix", f"has shape {got}; it must be {wanted}")
    else:
        dtypes("FLOAT16", "addOffset", "mulScale")(call)
    for name in ("deqOffset", "deqScale") if few else ("addOffset", "mulScale"):
        if call.is_present(name) and call.shape(name):
            axis = -2 if not few and call["transposeX2"] and len(call.shape(name)) > 1 else -1
            size = call.shape(name)[axis]
            call.require(
                size in (1, product.n), name, f"has shape {call.shape(name)}; it must have 1 or {product.n} items"
            )
    if call.is_present("bias") and call.shape("bias"):
        size = call.shape("bias")[-1]
        call.require(
            size in (1, product.n), "bias", f"has shape {call.shape('bias')}; it must have 1 or {product.n} items"
        )


rule(
    "aclnnWeightQuantBatchMatmul",
    dtypes("FLOAT16", "x1"),
    dtypes("INT8", "x2"),
    dtypes("FLOAT", "bias"),
    dtypes("FLOAT16", "out"),
    rank(2, 8, "x1", "x2"),
    _anti_quant_sizes,
    output_shape(out=_product_shape("x1", "x2", *_TRANSPOSES)),
    output_dtype(out="FLOAT16"),
    null_status=PARAM_INVALID,
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
        product = _product(call, "x1", "x2", *_TRANSPOSES)
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
    product = _product(call, "x1", "x2", *_TRANSPOSES)
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
        infer_shape(out=_product_shape("x1", "x2", *_TRANSPOSES)),
        output_dtype(out=_fits_later(names.x2_scale)),
    )


_V5_UNUSED = (_none("yScale"), _none("x1Offset"), _none("yOffset"))

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


def _mx_operands(x1_scale: str, x2_scale: str) -> tuple[Check, ...]:
    """Blocks of 32 with shared exponents: scales lie as their operands do, pairs of them in place of the summed axis."""
    return (
        required(x1_scale, status=PARAM_INVALID),
        dtypes("FLOAT8_E8M0", x1_scale, x2_scale),
        rank(2, 6, "x1", "x2"),
        define(
            pairs="ceil_div(x1[-2] if transposeX1 else x1[-1], 64)",
            rows="x1[-1] if transposeX1 else x1[-2]",
            columns="x2[-2] if transposeX2 else x2[-1]",
        ),
        has_shape(
            **{
                x1_scale: "(*x1[:-2], pairs, rows, 2) if transposeX1 else (*x1[:-2], rows, pairs, 2)",
                x2_scale: "(*x2[:-2], columns, pairs, 2) if transposeX2 else (*x2[:-2], pairs, columns, 2)",
            }
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
        rows, wide = _unpacked(call, "x2")[-2:]
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
    when(_MX_PRODUCT, *_mx_operands("x1Scale", "x2Scale"), _MX_BIAS),
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
        _none(name, PARAM_NULLPTR)(call)
    size = call["groupSizeOptional"]
    call.require(size == 0, "groupSizeOptional", f"is {size}; it must be 0", PARAM_NULLPTR)
    rank(2, 6, "x1", "out")(call)
    rank(1, 1, "x1Scale", "x2Scale")(call)
    int8 = call.dtype("x1") is call.dtype("x2") is DataType.INT8
    call.require(int8 or (_is_int4(call, "x1") and _is_int4(call, "x2")), "x1", "and x2 must both be INT8 or both INT4")
    product = _product(call)
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
    output_shape(out=_product_shape()),
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
    _none("biasOptional", PARAM_NULLPTR),
    _none("xOffsetOptional", PARAM_NULLPTR),
    same_dtype("x", "out"),  # the other dtypes are compared, but nothing comes of it
    only_products("310P"),
    unless_empty("x weight weightScale", _dequant_weight),
    infer_shape(out=_dequant_out),
)


def _reduced_shapes(call: Call) -> None:
    rank(3, 3, "x1", "x2")(call)
    product = _product(call)
    batch = call.shape("x1")[0]
    call.require(call.shape("x2")[0] == batch, "x2", f"has shape {call.shape('x2')}; its batch must be {batch}, as x1")
    for name, wanted in (("x2Scale", (product.n,)), ("x1Scale", (batch, product.m))):
        call.require(call.shape(name) == wanted, name, f"has shape {call.shape(name)}; it must be {wanted}")


rule(
    "aclnnQuantMatmulReduceSumWeightNz",
    *map(_none, ("yScale", "x1Offset", "x2Offset", "yOffset", "bias")),
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

# --------------------------------------------------------------------------------------------------- quantised weights

_WEIGHTS = {"A2 A3": "INT8 INT4 INT32", "310P": "INT8", "": "INT8 INT4 INT32 FLOAT8_E4M3FN HIFLOAT8 FLOAT4_E2M1 FLOAT"}
_SCALES = {"A2 A3": "FLOAT16 BF16 UINT64 INT64", "310P": "FLOAT16", "": "FLOAT16 BF16 FLOAT8_E8M0"}


def _weight_quant(call: Call) -> None:
    quantised, y = call.is_present("quantScaleOptional"), call.dtype("y")
    wanted = DataType.INT8 if quantised else call.dtype("x")
    text = f"has dtype {y.name}; {'with' if quantised else 'without'} quant_scale it must be {wanted.name}"
    call.require(y is wanted, "y", text)
    batch = 6 if call.product == "310P" else 2
    rank(2, batch, "x", "weight", "y")(call)
    product = _product(call, "x", "weight")
    call.require(min(product.m, product.k, product.n) > 0, "x", f"has shape {call.shape('x')}; the product is empty")
    if call.product in _A2:
        call.require(
            max(product.k, product.n) <= 65535, "weight", f"has shape {call.shape('weight')}; axes reach to 65535"
        )
    size, scale = call["antiquantGroupSize"], call.shape("antiquantScale")
    if size > 0:
        fits = size >= 32 and size % 32 == 0 and size < product.k
        call.require(fits, "antiquantGroupSize", f"is {size}; it must be 0, or a multiple of 32 below {product.k}")
    groups = (-(-product.k // size), product.n) if size > 0 else (product.n,)
    allowed = (
        {groups, groups[::-1], (1,), (1, 1), (1, product.n), (product.n, 1)} if size <= 0 else {groups, groups[::-1]}
    )
    call.require(scale in allowed, "antiquantScale", f"has shape {scale}; it must be {groups}")
    if call.is_present("antiquantOffsetOptional"):
        offset = call.shape("antiquantOffsetOptional")
        call.require(
            offset == scale, "antiquantOffsetOptional", f"has shape {offset}; it must be {scale}, as the scale"
        )
    if call.is_present("biasOptional"):
        bias = call.shape("biasOptional")
        call.require(
            bias in ((product.n,), (1, product.n)), "biasOptional", f"has shape {bias}; it must be ({product.n},)"
        )


_WEIGHT_QUANT = (
    only_products("A2 A3 310P 950"),
    dtypes({"310P": "FLOAT16", "": "FLOAT16 BF16"}, "x"),
    dtypes(_WEIGHTS, "weight"),
    dtypes(_SCALES, "antiquantScale"),
    dtypes({"A2 A3": "FLOAT16 BF16 INT8", "310P": "FLOAT16", "": "FLOAT16 BF16"}, "y"),
    _weight_quant,
    output_shape(y=_product_shape("x", "weight")),
    output_dtype(y=lambda call: DataType.INT8 if call.is_present("quantScaleOptional") else call.dtype("x")),
)
rule("aclnnWeightQuantBatchMatmulV2 aclnnWeightQuantBatchMatmulNz", *_WEIGHT_QUANT)
rule("aclnnWeightQuantBatchMatmulV3", *_WEIGHT_QUANT, one_of("innerPrecise", 0, 1))

# --------------------------------------------------------------------------------------------------- Ascend 950 only


def _permuted_quant_out(call: Call) -> Shape:
    batch, rows, _, wide = permuted_product(call)
    return rows, batch, wide


_PERMUTED_QUANT = (
    only_products("950"),
    documented_dtypes(),
    rank(3, 3, "x1", "x2"),
    array_length("permX1", 3),
    array_length("permX2", 3),
    array_length("permY", 3),
    _none("bias"),
    one_of("batchSplitFactor", 1),
    output_shape(out=_permuted_quant_out),
    when(
        "x2Scale.dtype == FLOAT8_E8M0",
        required("x1Scale", status=PARAM_INVALID),
        dtypes("FLOAT8_E8M0", "x1Scale"),
        define(
            pairs="ceil_div(x1[permX1[2]], 64)",
            left="tuple(x1[axis] for axis in permX1)",
            right="tuple(x2[axis] for axis in permX2)",
        ),
        rank(4, 4, "x1Scale", "x2Scale"),
        require(
            "tuple(x1Scale[axis] for axis in permX1) == (*left[:2], pairs)",
            "tuple(x2Scale[axis] for axis in permX2) == (right[0], pairs, right[2])",
            "x1Scale[3] == 2",
            "x2Scale[3] == 2",
        ),
    ),
    when(
        "x2Scale.dtype != FLOAT8_E8M0",
        require("x1Scale in ((x1[permX1[1]],), (1,))", "x2Scale == (x2[permX2[2]],)"),
    ),
    output_dtype(out=lambda call: DataType(call["dtype"]) if call["dtype"] in (0, 1, 27) else DataType.FLOAT16),
)
rule("aclnnTransposeQuantBatchMatMul", *_PERMUTED_QUANT)
rule("aclnnTransposeQuantBatchMatMulWeightNz", *_PERMUTED_QUANT, formats("FRACTAL_NZ", "x2"))

rule(
    "aclnnQuantBatchMatmulInplaceAdd",
    only_products("950"),
    documented_dtypes(),
    rank(2, 2, "x1", "x2", "yRef"),
    output_shape(yRef=_product_shape("x1", "x2", *_TRANSPOSES)),
    when("x2Scale.dtype == FLOAT8_E8M0", *_mx_operands("x1ScaleOptional", "x2Scale")),
)
rule(
    "aclnnDualLevelQuantMatmulWeightNz",
    only_products("950"),
    documented_dtypes(),
    one_of("transposeX1", False),
    one_of("level0GroupSize", 512),
    one_of("level1GroupSize", 32),
    rank(2, 2, "x1", "x2", "out"),
    one_of("transposeX2", True),
    output_shape(out=_product_shape("x1", "x2", *_TRANSPOSES)),
    has_shape(
        x1Level0Scale="(x1[0], ceil_div(x1[1], 512))",
        x2Level0Scale="(ceil_div(x1[1], 512), x2[0])",
        x1Level1Scale="(x1[0], ceil_div(x1[1], 64), 2)",
        x2Level1Scale="(x2[0], ceil_div(x1[1], 64), 2)",
        optionalBias="(x2[0],)",
    ),
    output_dtype(out="BF16"),
)


def _activated_scale(call: Call) -> Shape:
    *batch, n = _product(call, "x1", "x2", *_TRANSPOSES).shape
    return (*batch, -(-n // 64), 2)


rule(
    "aclnnQuantMatmulActivationQuantWeightNz",
    only_products("950"),
    documented_dtypes(),
    output_shape(yOut=_product_shape("x1", "x2", *_TRANSPOSES)),
    infer_shape(yScaleOut=_activated_scale),
    *_mx_operands("x1ScaleOptional", "x2Scale"),
    require("biasOptional in ((columns,), (1, columns), (*yOut[:-2], 1, columns))"),
    require("yScaleOut == (*yOut[:-1], ceil_div(columns, 64), 2)"),
    output_dtype(yOut=dtype_of("x1"), yScaleOut="FLOAT8_E8M0"),
)
