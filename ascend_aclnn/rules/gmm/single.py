"""Rules of grouped products with single tensors: added to what is there, or dequantised."""

from __future__ import annotations

from ascend_aclnn.core.dtypes import Format
from ascend_aclnn.core.errors import PARAM_NULLPTR
from ascend_aclnn.rules.gmm.common import transposed
from ascend_aclnn.rules.language import (
    Call,
    Shape,
    contiguous,
    dtype_table,
    dtypes,
    formats,
    infer_shape,
    one_of,
    only_products,
    output_dtype,
    rank,
    rule,
    same_dtype,
    unless_empty,
)

# --------------------------------------------------------------------------------------------------- added


def _sizes_of_add(call: Call) -> None:
    rank(2, 2, "x", "weight")(call)
    rank(1, 1, "groupList")(call)
    (k, m), (k2, n), (groups,) = call.sizes("x", 2), call.sizes("weight", 2), call.sizes("groupList", 1)
    call.require(k == k2, "weight", f"has shape {call.shape('weight')}; its first axis must be {k}, as that of x")
    size, wanted = call["yRef"].size, m * n * groups
    call.require(size == wanted, "yRef", f"has {size} elements; it must have {wanted}")
    if call.product == "950":
        fits = call.shape("yRef")[:1] == (groups,) and len(call.shape("yRef")) == 3
        call.require(fits, "yRef", f"has shape {call.shape('yRef')}; it must be {(groups, m, n)}")


for _name, _types in (("aclnnGroupedMatmulAdd", ()), ("aclnnGroupedMatmulAddV2", (0, 1))):
    rule(
        _name,
        formats("ND", "x", "weight", "groupList"),
        formats("ND NCL", "yRef"),
        _sizes_of_add,
        dtypes("FLOAT", "yRef"),
        dtypes("INT64", "groupList"),
        dtypes("FLOAT16 BF16", "x"),
        same_dtype("x", "weight"),
        *(one_of("groupListType", *_types) for _ in _types[:1]),
        one_of("groupType", 2),
        one_of("transposeX", True),
        one_of("transposeWeight", False),
    )


def _sizes_of_inplace(call: Call) -> None:
    rank(2, 2, "x1", "x2")(call)
    rank(1, 1, "groupList")(call)
    (m, k), (k2, n) = call.sizes("x1", 2), call.sizes("x2", 2)
    call.require(k == k2, "x2", f"has shape {call.shape('x2')}; its first axis must be {k}, as the last one of x1")
    wanted = (call.shape("groupList")[0], m, n)
    call.require(call.shape("yRef") == wanted, "yRef", f"has shape {call.shape('yRef')}; it must be {wanted}")


def _scales_of_inplace(call: Call) -> None:
    small = ("FLOAT8_E4M3FN", "FLOAT8_E5M2")
    if call.dtype("x1").name in small and call.dtype("x2").name in small:
        rank(4 - 1, 3, "scale1Optional", "scale2")(call)
        dtypes("FLOAT8_E8M0", "scale1Optional", "scale2")(call)
        for name in ("scale1Optional", "scale2"):
            call.require(call.shape(name)[-1] == 2, name, f"has shape {call.shape(name)}; its last axis must be 2")
    else:
        dtypes("HIFLOAT8", "x1", "x2")(call)


def _stored_transposed(call: Call) -> None:
    call.require(transposed(call["x1"]), "x1", "must be stored transposed")
    call.require(not transposed(call["x2"]), "x2", "must not be stored transposed")


def _inplace_pointers(call: Call) -> None:
    for name in ("x1", "x2"):
        call.require(call.is_present(name), name, "is None (a null pointer); it is required", PARAM_NULLPTR)
    for name in ("scale2", "groupList", "yRef", "scale1Optional"):
        call.require(call.is_present(name), name, "is None; it is required")


rule(
    "aclnnQuantGroupedMatmulInplaceAdd",
    _inplace_pointers,
    unless_empty(
        "yRef",
        only_products("950"),
        one_of("groupListType", 0, 1),
        one_of("groupSize", 0),
        formats("ND", "x1", "x2", "groupList"),
        formats("ND NCL", "scale1Optional", "scale2", "yRef"),
        _sizes_of_inplace,
        dtypes("FLOAT", "yRef"),
        dtypes("INT64", "groupList"),
        _scales_of_inplace,
        _stored_transposed,
    ),
    nullable="x1 x2 scale1Optional scale2 groupList yRef",
)

# --------------------------------------------------------------------------------------------------- dequantised


def _unused(call: Call) -> None:
    for name in ("biasOptional", "xOffsetOptional"):
        call.require(not call.is_present(name), name, "is given; it must be None", PARAM_NULLPTR)


def _stored(call: Call) -> None:
    weight = call["weight"]
    plain = weight.ndim == 3 and weight.format in (Format.ND, Format.NCL)
    tiles = len(weight.storage_shape) == 5 and (weight.format is Format.FRACTAL_NZ or call.operator.name.endswith("NZ"))
    call.require(
        plain or tiles, "weight", f"has format {weight.format.name} and shape {weight.shape}; ND or FRACTAL_NZ"
    )


def _tiles(call: Call) -> None:
    stored = call["weight"].storage_shape
    call.require(len(stored) == 5, "weight", f"has storage {stored}; its rank must be 5")


def _dequantised(call: Call) -> Shape:
    rank(2, 2, "x")(call)
    rank(2, 2, "weightScale")(call)
    return call.shape("x")[0], call.shape("weightScale")[1]


for _name in ("aclnnQuantGroupedMatmulDequant", "aclnnQuantGroupedMatmulDequantWeightNZ"):
    rule(
        _name,
        *((_tiles,) if _name.endswith("NZ") else ()),
        one_of("transposeWeight", True),
        _unused,
        only_products("310P"),
        same_dtype("x", "out"),
        dtype_table(
            "x weight weightScale groupList xScaleOptional smoothScaleOptional",
            "FLOAT16 INT8 FLOAT INT64 FLOAT FLOAT16",
            "FLOAT16 INT8 INT64 INT64 FLOAT16 FLOAT16",
        ),
        unless_empty("x weight weightScale groupList", contiguous("weight", "out"), _stored),
        infer_shape(out=_dequantised),
        output_dtype(out="FLOAT16"),
    )
