"""Rules of grouped products behind an activation, quantised again."""

from __future__ import annotations

from ascend_aclnn.core.dtypes import DataType, Format
from ascend_aclnn.core.errors import PARAM_NULLPTR
from ascend_aclnn.rules.gmm.common import operand, optional_list, transposed
from ascend_aclnn.rules.language import (
    Call,
    Shape,
    array_length,
    documented_dtypes,
    dtypes,
    infer_shape,
    no_private_format,
    one_of,
    only_products,
    output_dtype,
    output_shape,
    rank,
    rule,
)

# --------------------------------------------------------------------------------------------------- SwiGLU, version 1


def _is(call: Call, name: str, *wanted: int) -> None:
    call.require(call.shape(name) == wanted, name, f"has shape {call.shape(name)}; it must be {wanted}")


def _gate_pointers(call: Call) -> None:
    int4 = call.dtype("weight") is DataType.INT4
    if call.dtype("x") is DataType.INT8 and int4:
        call.require(
            call.is_present("bias"), "bias", "is None (a null pointer); with INT4 weights it is required", PARAM_NULLPTR
        )


def _scale_sizes(call: Call, scale: Shape) -> tuple[int, int]:
    """Columns, and groups along the inner axis, of a scale of rank 2 or 3."""
    return scale[-1], scale[1] if len(scale) == 3 else 1


def _nz_shape(e: int, k: int, n: int, inner: int) -> Shape:
    return e, n // inner, k // 16, 16, inner


def _gate_shapes(call: Call) -> None:
    int8 = call.dtype("weight") is DataType.INT8
    stored = call["weight"].format.private and len(call.shape("weight")) == 5
    rank(2, 2, "x", "output")(call)
    rank(5 if stored else 3, 5 if stored else 3, "weight")(call)
    rank(2, 2 if int8 else 3, "weightScale")(call)
    rank(1, 1, "xScale", "groupList", "outputScale")(call)
    (m, k), weight = call.sizes("x", 2), operand(call["weight"], unpack=not int8).shape
    e = weight[0]
    n, groups = _scale_sizes(call, call.shape("weightScale"))
    call.require(groups > 0 and k % groups == 0, "weightScale", f"has {groups} groups, which do not divide {k}")
    call.require(n % 2 == 0, "weightScale", f"has {n} columns; they must be even")
    wanted = _nz_shape(e, k, n, 32 if int8 else 64) if stored else (e, k, n)
    call.require(weight == wanted, "weight", f"has shape {weight}; it must be {wanted}")
    call.require(call.shape("weightScale")[0] == e, "weightScale", f"must have {e} rows, as weight")
    if not int8:
        call.require(call.is_present("bias"), "bias", "is None; with INT4 weights it is required")
        _is(call, "bias", e, n)
    for name, sizes in (("xScale", (m,)), ("output", (m, n // 2)), ("outputScale", (m,))):
        _is(call, name, *sizes)
    call.require(call.shape("groupList")[0] <= e, "groupList", f"has more than {e} items")
    call.require(n <= 10240, "weightScale", f"has {n} columns; they must be at most 10240")
    most = 65536 if int8 else 20000
    call.require(k < most, "x", f"has {k} columns; they must be less than {most}")


def _gate(call: Call) -> None:
    dtypes("INT8", "x")(call)
    dtypes("INT8 INT4 INT32", "weight")(call)
    _gate_shapes(call)
    int8 = call.dtype("weight") is DataType.INT8
    dtypes("FLOAT FLOAT16 BF16" if int8 else "UINT64 INT64", "weightScale")(call)
    if not int8:
        dtypes("FLOAT", "bias")(call)
    dtypes("FLOAT FLOAT16 BF16", "xScale")(call)
    dtypes("INT64", "groupList")(call)
    dtypes("INT8", "output")(call)
    dtypes("FLOAT", "outputScale")(call)
    nz = call["weight"].format is Format.FRACTAL_NZ or call.operator.name.endswith("NZ")
    call.require(nz or not int8, "weight", f"has format {call['weight'].format.name}; INT8 must be in FRACTAL_NZ")
    no_private_format("x", "output")(call)


def _gate_tiles(call: Call) -> None:
    stored = call["weight"].storage_shape
    call.require(len(stored) == 5, "weight", f"has storage {stored}; its rank must be 5")


def _gate_out(call: Call) -> Shape:
    rank(2, 2, "x")(call)
    first = call.items("weightScale")[0]
    call.require(first.ndim > 0, "weightScale", "has rank 0")
    return call.shape("x")[0], first.shape[-1] // 2


def _rows(call: Call) -> Shape:
    return (call.size("x", 0),)


for _name in ("aclnnGroupedMatmulSwigluQuant", "aclnnGroupedMatmulSwigluQuantWeightNZ"):
    rule(
        _name,
        *((_gate_tiles,) if _name.endswith("NZ") else ()),
        _gate_pointers,
        _gate,
        infer_shape(output=_gate_out, outputScale=_rows, outputOffset=lambda call: None),
        output_dtype(output="INT8", outputScale="FLOAT"),
    )

# --------------------------------------------------------------------------------------------------- SwiGLU, version 2


def _lists(call: Call) -> None:
    for name in ("weight", "weightScale"):
        call.require(len(call[name]) > 0, name, "is an empty list")
        full = all(t is not None for t in call[name])
        call.require(full, name, "has None in it (a null pointer)", PARAM_NULLPTR)


def _nz_lists(call: Call) -> None:
    single = len(call["weight"]) == 1 and call["weight"][0].ndim in (3, 5)
    for t in call["weight"]:
        wanted = 5 if single else 4
        stored = t.storage_shape
        call.require(len(stored) == wanted, "weight", f"has storage {stored}; its rank must be {wanted}")


def _v2_shapes(call: Call) -> None:
    """A2 and A3: INT8 by INT8 or INT4, and INT4 by INT4; one weight for all groups or one for each."""
    x = operand(call["x"], unpack=True)
    weights, scales = [operand(t, unpack=True) for t in call["weight"]], call["weightScale"]
    int8 = weights[0].dtype is DataType.INT8
    single = len(weights) == 1
    rank(2, 2, "x", "output")(call)
    rank(1, 1, "xScale", "groupList", "outputScale")(call)
    call.require(len(scales) == len(weights), "weightScale", f"must have {len(weights)} tensors, as weight")
    matrices = optional_list(call, "weightAssistMatrix")
    needed = x.dtype is DataType.INT8 and not int8
    if needed or x.dtype is DataType.INT4:
        text = "is required" if needed else "must be None"
        call.require((matrices is not None) is needed, "weightAssistMatrix", text + " with these dtypes")
    (m, k), e = x.shape, weights[0].shape[0] if single else len(weights)
    n = scales[0].shape[-1] if scales[0].ndim else 1
    call.require(n % 2 == 0, "weightScale", f"has {n} columns; they must be even")
    groups = 0 if int8 else call["dequantMode"]
    for t, scale in zip(weights, scales):
        stored = t.tensor.format.private and t.tensor.ndim in (4, 5)
        inner = 32 if int8 else 64
        plain = (e, k, n) if single else (k, n)
        tiles = _nz_shape(e, k, n, inner) if single else _nz_shape(e, k, n, inner)[1:]
        wanted = tiles if stored else plain
        call.require(t.shape == wanted, "weight", f"has shape {t.shape}; it must be {wanted}")
        ndim = (2 if single else 1) + (1 if groups else 0)
        call.require(scale.ndim == ndim, "weightScale", f"has shape {scale.shape}; its rank must be {ndim}")
        call.require(scale.shape[-1] == n and (not single or scale.shape[0] == e), "weightScale", "does not fit weight")
    for matrix in matrices or ():
        wanted = (e, n) if single else (n,)
        call.require(matrix.shape == wanted, "weightAssistMatrix", f"has shape {matrix.shape}; it must be {wanted}")
    for name, sizes in (("xScale", (m,)), ("output", (m, n // 2)), ("outputScale", (m,))):
        _is(call, name, *sizes)
    call.require(call.shape("groupList")[0] <= e, "groupList", f"has more than {e} items")
    call.require(n <= 10240, "weightScale", f"has {n} columns; they must be at most 10240")
    most = 65536 if int8 else 20000
    call.require(k < most, "x", f"has {k} columns; they must be less than {most}")
    if int8:
        call.require(not call.is_present("smoothScale"), "smoothScale", "is given; with INT8 weights it must be None")
    elif call.is_present("smoothScale"):
        dtypes("FLOAT", "smoothScale")(call)
        fits = call.shape("smoothScale") in ((e,), (e, n // 2))
        call.require(fits, "smoothScale", f"has shape {call.shape('smoothScale')}; it must be {(e,)} or {(e, n // 2)}")


def _v2(call: Call) -> None:
    if call.product == "950":
        documented_dtypes()(call)
        return
    only_products("A2 A3 950")(call)
    dtypes("INT8 INT4 INT32", "x")(call)
    dtypes("INT8 INT4 INT32", "weight")(call)
    _v2_shapes(call)
    int8 = call.dtype("weight") is DataType.INT8
    dtypes("FLOAT FLOAT16 BF16" if int8 else "UINT64 INT64", "weightScale")(call)
    dtypes("FLOAT", "xScale", "outputScale", "weightAssistMatrix")(call)
    dtypes("INT64", "groupList")(call)
    dtypes("INT8", "output")(call)
    no_private_format("x", "output")(call)


for _name in ("aclnnGroupedMatmulSwigluQuantV2", "aclnnGroupedMatmulSwigluQuantWeightNzV2"):
    rule(
        _name,
        _lists,
        *((_nz_lists,) if "Nz" in _name else ()),
        _v2,
        infer_shape(output=_gate_out, outputScale=_rows),
        output_dtype(output="INT8", outputScale="FLOAT"),
    )

# --------------------------------------------------------------------------------------------------- GELU, Ascend 950


def _mx_shapes(call: Call) -> None:
    weight, scale = call["weight"][0], call["weightScale"][0]
    rank(2, 2, "x", "y")(call)
    rank(3, 3, "xScaleOptional", "yScale", "weight")(call)
    rank(4, 4, "weightScale")(call)
    rank(1, 1, "groupList")(call)
    (m, k), (e,) = call.sizes("x", 2), call.sizes("groupList", 1)
    moved = transposed(weight)
    n = weight.shape[-1]
    call.require(not transposed(call["x"]) or k == 1, "x", "must not be stored transposed")
    call.require(e <= 1024 and n % 64 == 0, "weight", f"has {n} columns; they must be a multiple of 64")
    call.require(weight.shape == (e, k, n), "weight", f"has shape {weight.shape}; it must be {(e, k, n)}")
    wanted = (e, -(-k // 64), n, 2)
    call.require(scale.shape == wanted, "weightScale", f"has shape {scale.shape}; it must be {wanted}")
    outer, inner = (k, n) if moved else (n, k)
    tiles = (e, -(-outer // 32), -(-inner // 16), 16, 32)
    call.require(weight.storage_shape == tiles, "weight", f"has storage {weight.storage_shape}; it must be {tiles}")
    _is(call, "xScaleOptional", m, -(-k // 64), 2)
    _is(call, "y", m, n)
    _is(call, "yScale", m, -(-n // 64), 2)


def _mx_pointers(call: Call) -> None:
    for name in ("weight", "weightScale"):
        array_length(name, 1)(call)
        call.require(call[name][0] is not None, name, "has None in it (a null pointer)", PARAM_NULLPTR)
    one_of("activationType", "gelu_tanh")(call)
    one_of("quantMode", "mx", "")(call)
    text = "is None (a null pointer); it is required"
    if not call["quantMode"]:
        call.require(call.is_present("xScaleOptional"), "xScaleOptional", text)
    call.require(call.is_present("xScaleOptional"), "xScaleOptional", text, PARAM_NULLPTR)
    one_of("roundMode", "rint", "")(call)
    one_of("groupListType", 0, 1)(call)
    one_of("scaleAlg", 0, 1)(call)
    one_of("dstTypeMax", 0.0)(call)
    call.require(optional_list(call, "bias") is None, "bias", "is given; it must be None")


def _mx_columns(call: Call) -> int:
    n: int = call.shapes("weight", 2)[0][-1]
    return n


rule(
    "aclnnGroupedMatmulActivationQuantWeightNz",
    _mx_pointers,
    dtypes("FLOAT8_E4M3FN FLOAT8_E5M2", "x", "y"),
    dtypes("FLOAT8_E4M3FN", "weight"),
    dtypes("FLOAT8_E8M0", "xScaleOptional", "weightScale", "yScale"),
    dtypes("INT64", "groupList"),
    no_private_format("x", "xScaleOptional", "groupList", "weightScale", "y", "yScale"),
    _mx_shapes,
    output_shape(
        y=lambda call: (call.size("x", 0), _mx_columns(call)),
        yScale=lambda call: (call.size("x", 0), -(-_mx_columns(call) // 64), 2),
    ),
    only_products("950"),
    output_dtype(y="FLOAT8_E4M3FN", yScale="FLOAT8_E8M0"),
)
