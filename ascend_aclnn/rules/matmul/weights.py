"""Rules of products with packed, quantised and compressed weights, and of making such weights."""

from __future__ import annotations

from ascend_aclnn.core.dtypes import DataType, Format
from ascend_aclnn.core.errors import INNER_NULLPTR, PARAM_INVALID
from ascend_aclnn.rules.language import *
from ascend_aclnn.rules.matmul.common import A2, TRANSPOSES, product_of, product_shape_of
from ascend_aclnn.rules.matmul.core import inner_axes

# --------------------------------------------------------------------------------------------------- first version


def _anti_quant_sizes(call: Call) -> None:
    """Up to 64 rows the kernel dequantises on its own way and needs the fixpipe's parameters."""
    product = product_of(call, "x1", "x2", *TRANSPOSES)
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
    output_shape(out=product_shape_of("x1", "x2", *TRANSPOSES)),
    output_dtype(out="FLOAT16"),
    null_status=PARAM_INVALID,
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
    product = product_of(call, "x", "weight")
    call.require(min(product.m, product.k, product.n) > 0, "x", f"has shape {call.shape('x')}; the product is empty")
    if call.product in A2:
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
    output_shape(y=product_shape_of("x", "weight")),
    output_dtype(y=lambda call: DataType.INT8 if call.is_present("quantScaleOptional") else call.dtype("x")),
)
rule("aclnnWeightQuantBatchMatmulV2 aclnnWeightQuantBatchMatmulNz", *_WEIGHT_QUANT)
rule("aclnnWeightQuantBatchMatmulV3", *_WEIGHT_QUANT, one_of("innerPrecise", 0, 1))

# --------------------------------------------------------------------------------------------------- packed weights

_PACKS = {DataType.INT32: "INT32 INT4", DataType.FLOAT: "FLOAT FLOAT4_E2M1"}


def _packed_shape(call: Call) -> Shape:
    """Eight 4-bit numbers lie in each 32-bit element."""
    sizes = call.shape("weight")
    call.require(len(sizes) in (2, 3), "weight", f"has rank {len(sizes)}; it must be 2 or 3")
    return (*sizes[:-1], sizes[-1] // 8)


def _int4_pack(call: Call) -> None:
    weight, packed = call["weight"], call["weightInt4Pack"]
    for name in ("weight", "weightInt4Pack"):
        call.require(call[name].is_contiguous, name, "is not contiguous; it must be")
    dtypes("INT32 FLOAT", "weight")(call)
    dtypes(_PACKS[weight.dtype], "weightInt4Pack")(call)
    formats("ND", "weight")(call)
    formats("ND FRACTAL_NZ", "weightInt4Pack")(call)
    rank(2, 3, "weight", "weightInt4Pack")(call)
    per_element = 8 if packed.dtype in (DataType.INT32, DataType.FLOAT) else 1
    rows, columns = weight.shape[-2:]
    align = max(per_element, 2)
    call.require(
        columns % align == 0, "weight", f"has {columns} columns; for {packed.dtype.name} a multiple of {align}"
    )
    wanted = (rows, columns // per_element)
    call.require(packed.shape[-2:] == wanted, "weightInt4Pack", f"has shape {packed.shape}; it must end in {wanted}")
    if packed.format is Format.FRACTAL_NZ:
        _int4_storage(call, *wanted)


def _int4_storage(call: Call, rows: int, columns: int) -> None:
    packed = call["weightInt4Pack"]
    storage = packed.storage_shape
    call.require(len(storage) in (4, 5), "weightInt4Pack", f"has a storage shape {storage}; FRACTAL_NZ has 4 or 5 axes")
    if packed.dtype is DataType.INT4:
        width = storage[-1] if call.product == "950" else 64
    elif packed.dtype is DataType.INT32:
        width = 2 if call.product == "950" else 8
    else:
        return
    wanted = (-(-columns // max(width, 1)), -(-rows // 16), 16, width)
    text = f"has a storage shape {storage}; it must end in {wanted}"
    call.require(storage[-4:] == wanted, "weightInt4Pack", text)


rule("aclnnConvertWeightToINT4Pack", _int4_pack, infer_shape(weightInt4Pack=_packed_shape))

# --------------------------------------------------------------------------------------------------- compressed weights


def _compress_shapes(call: Call) -> None:
    """The graph is not built for other ranks."""
    for name, count in (("x", 2), ("weight", 1), ("bias", 1), ("compressIndex", 1), ("out", 2)):
        came = len(call.shape(name))
        call.require(came == count, name, f"has rank {came}; it must be {count}", INNER_NULLPTR)
    columns = call.shape("bias")[0]
    text = f"has shape {call.shape('out')}; it must have {columns} columns, the items of bias"
    call.require(call.shape("out")[1] == columns, "out", text, INNER_NULLPTR)


rule(
    "aclnnMatmulCompress",
    dtypes("FLOAT16", "x", "out"),
    dtypes("INT8", "weight", "compressIndex"),
    dtypes("FLOAT", "bias"),
    _compress_shapes,
    infer_shape(out=shape_from(("x", 0), ("bias", 0))),
    output_dtype(out="FLOAT16"),
)


def _unzipped(call: Call) -> Shape:
    array_length("compressInfo", *range(4, 9))(call)
    return call.shape("x1")[0], call["compressInfo"][3]


def _unzipped_rows(call: Call) -> None:
    """compressInfo holds tiles of rows, tiles of columns, rows, columns and the tiling's size."""
    info, columns = call["compressInfo"], call.shape("x1")[1]
    text = f"is {info}; its third item must be {columns}, the columns of x1"
    call.require(len(info) > 2 and info[2] == columns, "compressInfo", text)


rule(
    "aclnnMatmulCompressDequant",
    dtypes("INT8", "x1", "x2", "compressIndex"),
    dtypes("INT32", "bias"),
    dtypes("UINT64", "deqScale"),
    dtypes("FLOAT16", "out"),
    rank(2, 2, "x1"),
    rank(1, 1, "x2"),
    _unzipped_rows,
    infer_shape(out=_unzipped),
    output_dtype(out="FLOAT16"),
)

_SPLIT_SCALE = 2.0**-8


def _split_scale(call: Call) -> None:
    scale = call["wLowScale"]
    call.require(abs(scale - _SPLIT_SCALE) <= 1e-7, "wLowScale", f"is {scale}; it must be {_SPLIT_SCALE}")


rule(
    "aclnnMatmulEmuSplitWeight",
    dtypes("BF16", "x", "wHigh", "wLow"),
    one_of("yDtype", 0),
    dtypes("FLOAT", "y"),
    formats("ND", "x", "wHigh", "wLow", "y"),
    _split_scale,
    rank(2, 2, "x", "wHigh", "wLow", "y"),
    not_empty("x", "wHigh"),
    inner_axes("x", "wHigh"),
    same_shape("wHigh", "wLow"),
    output_shape(y=shape_from(("x", 0), ("wHigh", 1))),
    output_dtype(y="FLOAT"),
)
