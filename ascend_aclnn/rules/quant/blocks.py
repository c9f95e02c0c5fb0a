"""Rules of quantising in blocks of rows and columns that share a scale."""

from __future__ import annotations

from ascend_aclnn.rules.language import (
    Call,
    Shape,
    documented_dtypes,
    documented_products,
    dtype_attribute,
    has_dtype,
    one_of,
    output_dtype,
    output_shape,
    rank,
    rule,
    shape_of,
    tiling,
)


def _block_scale(call: Call) -> Shape:
    """One scale for each block of rows and columns; with a list of groups, each of them may leave a part of a block."""
    rank(2, 3, "x")(call)
    rows, columns_ = call["rowBlockSize"], call["colBlockSize"]
    for name, size in (("rowBlockSize", rows), ("colBlockSize", columns_)):
        call.require(size > 0, name, f"is {size}; it must be positive")
    *batch, m, n = call.shape("x")
    if "groupList" in call.operator.positions:
        rank(1, 1, "groupList")(call)
        return (*batch, m // rows + call.size("groupList", 0), -(-n // columns_))
    return (*batch, -(-m // rows), -(-n // columns_))


def _group_blocks(call: Call) -> None:
    one_of("rowBlockSize", 1, 128, 256, 512)(call)
    one_of("colBlockSize", 64, 128, 192, 256)(call)
    call.require(call["minScale"] >= 0, "minScale", f"is {call['minScale']}; it must not be negative")
    call.require(call["groupList"].size > 0, "groupList", "is empty")


for _name in (
    "aclnnDynamicBlockQuant",
    "aclnnDynamicBlockQuantV2",
    "aclnnGroupedDynamicBlockQuant",
    "aclnnGroupedDynamicBlockQuantV2",
):
    rule(
        _name,
        documented_products,
        documented_dtypes(),
        tiling(
            output_shape(yOut=shape_of("x"), scaleOut=_block_scale),
            has_dtype("yOut", dtype_attribute("dstType")),
            *((one_of("groupListType", 0), _group_blocks) if _name.startswith("aclnnGrouped") else ()),
        ),
        output_dtype(yOut=dtype_attribute("dstType"), scaleOut="FLOAT"),
    )
