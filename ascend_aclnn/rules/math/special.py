"""Rules of ops-math/math: operators of training and inference frameworks that fit no other group."""

from __future__ import annotations

from ascend_aclnn.core.dtypes import DataType
from ascend_aclnn.rules.language import (
    Call,
    Check,
    Shape,
    dtype_of,
    dtype_table,
    dtypes,
    formats,
    in_range,
    infer_shape,
    one_of,
    only_products,
    output_dtype,
    output_shape,
    plus_bf16,
    rank,
    rule,
    same_dtype,
    same_shape,
    shape_from,
    shape_of,
    tiling,
)

# ------------------------------------------------------------------------------------------------- segment sums

_FLOATS = "FLOAT16 FLOAT BF16"
rule(
    "aclnnExpSegsum",
    dtypes(_FLOATS, "self"),
    same_dtype("self", "out"),
    rank(3, 4, "self"),
    output_shape(out=lambda call: call.shape("self") + call.shape("self")[-1:]),
    formats("ND", "self", "out"),
)


def _square_ends(call: Call) -> None:
    sizes = call.shape("gradOutput")
    call.require(sizes[-1] == sizes[-2], "gradOutput", f"has shape {sizes}; its last two axes must be equal")


rule(
    "aclnnExpSegsumBackward",
    dtypes(_FLOATS, "gradOutput", "gradSelf"),
    same_dtype("gradOutput", "gradInput"),
    rank(4, 5, "gradOutput"),
    _square_ends,
    same_shape("gradOutput", "gradSelf"),
    output_shape(gradInput=lambda call: call.shape("gradOutput")[:-1]),
    formats("ND", "gradOutput", "gradSelf", "gradInput"),
)

# ------------------------------------------------------------------------------------------------- bias gradients


def _group_inputs(call: Call) -> None:
    sizes, grouped = call.shape("gradY"), call.is_present("groupIdxOptional")
    ndim = 2 if grouped else 3
    text = f"has rank {len(sizes)}; {'with' if grouped else 'without'} group_idx it must be {ndim}"
    call.require(len(sizes) == ndim, "gradY", text)
    if grouped:
        index = call.shape("groupIdxOptional")
        call.require(len(index) == 1, "groupIdxOptional", f"has rank {len(index)}; it must be 1")
        call.require(index[0] <= 2048, "groupIdxOptional", f"names {index[0]} groups; at most 2048 are supported")


def _bias_shape(call: Call) -> Shape:
    groups = call.size("groupIdxOptional" if call.is_present("groupIdxOptional") else "gradY", 0)
    return groups, call.size("gradY", -1)


_BIAS_GRAD = (
    dtypes(_FLOATS, "gradY", "out"),
    same_dtype("gradY", "out"),
    dtypes("INT32 INT64", "groupIdxOptional"),
    _group_inputs,
    output_shape(out=_bias_shape),
)
rule("aclnnGroupedBiasAddGrad", *_BIAS_GRAD)
rule("aclnnGroupedBiasAddGradV2", *_BIAS_GRAD, one_of("groupIdxType", 0, 1))

# ------------------------------------------------------------------------------------------------- silent errors

rule(
    "aclnnSilentCheck",
    dtypes(_FLOATS, "val", "inputGradRef"),
    dtypes("FLOAT", "sfdaRef"),
    dtypes("INT64", "stepRef"),
    rank(0, 0, "val"),
    output_shape(sfdaRef=shape_from(3), stepRef=shape_from(1)),
    infer_shape(result=shape_from(1)),
    output_dtype(result="INT32"),
)


def _thresholds(call: Call) -> None:
    text = f"is {call['cThreshL1']}; it must be above c_thresh_l2, {call['cThreshL2']}"
    call.require(call["cThreshL1"] > call["cThreshL2"], "cThreshL1", text)


rule(
    "aclnnSilentCheckV2",
    dtypes(_FLOATS, "val", "max", "avgRef", "inputGradRef"),
    dtypes("INT64", "stepRef"),
    rank(1, 1, "val", "max", "avgRef", "stepRef"),
    _thresholds,
    in_range("beta1", 0, 1),
    infer_shape(result=shape_from(1)),
    output_dtype(result="INT32"),
)


def _few_columns(call: Call) -> None:
    columns_ = call.shape("cost")[1]
    call.require(columns_ <= 4096, "cost", f"has {columns_} columns; at most 4096 are supported")


rule(
    "aclnnSinkhorn",
    dtypes(plus_bf16("FLOAT FLOAT16"), "cost", "p"),
    rank(2, 2, "cost"),
    output_shape(p=shape_of("cost")),
    _few_columns,
    output_dtype(p=dtype_of("cost")),
    nullable="tol",
)

# ------------------------------------------------------------------------------------------------- generated wrappers


def _lora_weights(call: Call) -> None:
    batch, width = call.sizes("y", 2)
    _, layers, rows, low_rank = weight = call.shape("weightB")
    inputs, indices = call.shape("x"), call.shape("indices")
    call.require(inputs[0] == batch, "x", f"has {inputs[0]} rows; y has {batch}")
    call.require(rows <= width, "weightB", f"has shape {weight}; axis 2 must be at most {width}, the columns of y")
    call.require(indices == (batch,), "indices", f"has shape {indices}; it must be ({batch},)")
    if call.is_present("weightAOptional"):
        first, wanted = call.shape("weightAOptional"), (weight[0], layers, low_rank, inputs[1])
        call.require(first == wanted, "weightAOptional", f"has shape {first}; it must be {wanted}")
    call.require(0 <= call["layerIdx"] < layers, "layerIdx", f"is {call['layerIdx']}; it must be in [0, {layers - 1}]")
    offset, slice_ = call["yOffset"], call["ySliceSize"]
    call.require(0 <= offset < width, "yOffset", f"is {offset}; it must be in [0, {width - 1}]")
    call.require(-1 <= slice_ <= rows, "ySliceSize", f"is {slice_}; it must be -1 or at most {rows}")
    call.require(offset + rows <= width, "yOffset", f"is {offset}; y has no room for {rows} columns from there")
    call.require(low_rank % 16 == 0, "weightB", f"has shape {weight}; its last axis must be a multiple of 16")


rule(
    "aclnnAddLora",
    only_products("A2 310P"),
    dtypes("FLOAT16", "y", "x", "weightB", "weightAOptional", "out"),
    dtypes("INT32", "indices"),
    tiling(
        rank(2, 2, "y", "x"),
        rank(4, 4, "weightB", "weightAOptional"),
        rank(1, 1, "indices"),
        _lora_weights,
        output_shape(out=shape_of("y")),
    ),
)


_DTYPE_BYTES = {DataType.FLOAT: 4, DataType.FLOAT16: 2, DataType.BF16: 2}
_MANTISSA_META, _TAIL, _CORES = 512, 8448, 1


def _histogram(name: str) -> Check:
    def check(call: Call) -> None:
        call.require(call[name].size == 256, name, f"has {call[name].size} items; it must have 256")

    return check


def _encoded(call: Call) -> None:
    count, width = call["inputTensor"].size, _DTYPE_BYTES[call.dtype("inputTensor")]
    text = f"has {count} items; it must have a multiple of 64, and at least 32768"
    call.require(count % 64 == 0 and count >= 32768, "inputTensor", text)
    mantissa = call["mantissaOut"].size * width
    text = f"has {mantissa} bytes; it must have {(width - 1) * count}"
    call.require(mantissa == (width - 1) * count, "mantissaOut", text)
    # The chip needs more for each core that takes part; one does at least.
    needed = count + count // 64 + _TAIL * _CORES + _MANTISSA_META
    fixed, rest = call["fixedOut"].size * width, call["varOut"].size * width
    call.require(fixed >= (needed if call["reshuff"] else _MANTISSA_META), "fixedOut", f"has {fixed} bytes, too few")
    call.require(fixed + rest >= needed, "varOut", f"leaves {fixed + rest} bytes; at least {needed} are needed")


rule(
    # The sizes of mantissa, fixed and var are the caller's choice: they must be given.
    "aclnnHansEncode",
    only_products("A2 A3 950"),
    dtype_table(
        "inputTensor pdfRef mantissaOut fixedOut varOut",
        "FLOAT INT32 FLOAT FLOAT FLOAT",
        "BF16 INT32 BF16 BF16 BF16",
        "FLOAT16 INT32 FLOAT16 FLOAT16 FLOAT16",
    ),
    tiling(_histogram("pdfRef"), _encoded),
)


def _decoded(call: Call) -> None:
    width = _DTYPE_BYTES[call.dtype("mantissa")]
    mantissa, count = call["mantissa"].size, call["out"].size
    text = f"has {mantissa} items; for {count} decoded ones it must have {(width - 1) * count // width}"
    call.require(mantissa == (width - 1) * count // width, "mantissa", text)


rule(
    # The shape of the tensor that was encoded is not stored: out must be given.
    "aclnnHansDecode",
    only_products("A2 A3 950"),
    dtype_table(
        "mantissa fixed var pdf out",
        "FLOAT FLOAT FLOAT INT32 FLOAT",
        "BF16 BF16 BF16 INT32 BF16",
        "FLOAT16 FLOAT16 FLOAT16 INT32 FLOAT16",
    ),
    tiling(_decoded, _histogram("pdf")),
)


def _heads(call: Call) -> None:
    sizes, bias, heads = call.shape("qkv"), call.shape("qkvBias"), call["numHeads"]
    call.require(len(sizes) == 3, "qkv", f"has rank {len(sizes)}; it must be 3")
    call.require(heads > 0, "numHeads", f"is {heads}; it must be positive")
    text = f"has shape {sizes}; its last axis must be a multiple of 3 * num_heads ({3 * heads})"
    call.require(sizes[2] % (3 * heads) == 0, "qkv", text)
    call.require(bias == sizes[2:], "qkvBias", f"has shape {bias}; it must be {sizes[2:]}")


def _head_shape(call: Call) -> Shape:
    _heads(call)
    batch, tokens, width = call.sizes("qkv", 3)
    return batch, call["numHeads"], tokens, width // 3 // call["numHeads"]


rule(
    "aclnnTransformBiasRescaleQkv",
    only_products("A2 A3 950"),
    dtype_table(
        "qkv qkvBias qOut kOut vOut",
        "BF16 BF16 BF16 BF16 BF16",
        "FLOAT16 FLOAT16 FLOAT16 FLOAT16 FLOAT16",
        "FLOAT FLOAT FLOAT FLOAT FLOAT",
    ),
    tiling(_heads, output_shape(qOut=_head_shape, kOut=_head_shape, vOut=_head_shape)),
)
