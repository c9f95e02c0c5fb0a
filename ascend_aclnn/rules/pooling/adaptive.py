"""Rules of adaptive pooling."""

from __future__ import annotations

from ascend_aclnn.core.dtypes import DataType, Format
from ascend_aclnn.rules.language import *
from ascend_aclnn.rules.pooling.windows import format_by_rank, items_at_least, plane_fits_int32, plane_rank, rank_like

_OLD = "910 310P 310B 310"


def _resized(spatial: int) -> ShapeRule:
    """self with the spatial axes of output_size; on Ascend 950 one number stands for all, none for self's."""

    def sizes(call: Call) -> Shape:
        given, own = tuple(call["outputSize"]), call.shape("self")
        if len(given) == 1:
            given *= spatial
        return own[:-spatial] + (given or own[-spatial:])

    return sizes


def _lead_axes(call: Call, spatial: int, first: str, *others: str) -> None:
    """Batch and channel axes are those of the first."""
    wanted = call.shape(first)[:-spatial]
    for name in others:
        came = call.shape(name)
        text = f"has shape {came}; its first axes must be {wanted}, as {call.python_name(first)}"
        call.require(came[:-spatial] == wanted, name, text)


def _no_empty_axis(call: Call, name: str, first: int) -> None:
    sizes = call.shape(name)
    call.require(all(n > 0 for n in sizes[first:]), name, f"has shape {sizes}; axes from {first} on must not be empty")


# ------------------------------------------------------------------------------------------------- average


def _plane_and_output(call: Call) -> None:
    plane_rank(call, 2, "self")
    rank_like(call, "self", "out")
    _lead_axes(call, 2, "self", "out")
    if call.product == "950":
        _no_empty_axis(call, "self", len(call.shape("self")) - 2)


def _output_size(spatial: int, least: int = 1) -> Check:
    def check(call: Call) -> None:
        array_length("outputSize", spatial)(call)
        items_at_least("outputSize", call["outputSize"], least if call.product == "950" else 1)(call)

    return check


rule(
    "aclnnAdaptiveAvgPool2d",
    _plane_and_output,
    dtypes(FLOATS_OF_PRODUCT, "self", "out"),
    same_dtype("self", "out"),
    same_format("self", "out"),
    format_by_rank("self", "out"),
    _output_size(2, 0),
    output_shape(out=_resized(2)),
    output_dtype(out="self"),
)


def _backward_planes(call: Call) -> None:
    rank_like(call, "self", "gradOutput")
    for name in ("self", "gradOutput"):
        sizes = call.shape(name)
        call.require(all(n >= 0 for n in sizes), name, f"has shape {sizes}; axes must not be negative")
    plane_rank(call, 2, "out")
    rank_like(call, "self", "out")
    _lead_axes(call, 2, "self", "out", "gradOutput")


rule(
    "aclnnAdaptiveAvgPool2dBackward",
    _backward_planes,
    dtypes(FLOATS_OF_PRODUCT, "gradOutput", "self"),
    same_dtype("self", "gradOutput"),
    same_format("gradOutput", "self"),
    no_private_format("gradOutput"),
    copied_output_shape(out="self"),
    output_dtype(out="self"),
)


def _boxes(call: Call) -> None:
    plane_rank(call, 3, "self")
    rank_like(call, "self", "out")
    _no_empty_axis(call, "self", 1 if call.product == "950" else 0)
    _lead_axes(call, 3, "self", "out")
    _no_empty_axis(call, "out", len(call.shape("out")) - 3)


_BOX_FORMAT = (
    when("product == '950'", require("self.format in (NCDHW, NCHW, ND)")),
    when("product != '950'", no_private_format("self")),
)


rule(
    "aclnnAdaptiveAvgPool3d",
    _boxes,
    dtypes(FLOATS_OF_PRODUCT, "self", "out"),
    same_dtype("self", "out"),
    same_format("self", "out"),
    *_BOX_FORMAT,
    _output_size(3),
    output_shape(out=_resized(3)),
    output_dtype(out="self"),
)


def _backward_boxes(call: Call) -> None:
    plane_rank(call, 3, "self")
    rank_like(call, "self", "gradOutput", "out")
    first = 1 if call.product == "950" else 0
    _no_empty_axis(call, "self", first)
    sizes, out = call.shape("self"), call.shape("out")
    call.require(sizes[first:] == out[first:], "out", f"has shape {out}; it must be {sizes}, as self")
    _lead_axes(call, 3, "self", "gradOutput")
    _no_empty_axis(call, "gradOutput", len(sizes) - 3)


def _global_pool(call: Call) -> bool:
    return call.shape("gradOutput")[-3:] == (1, 1, 1)


def _backward_dtypes(call: Call) -> None:
    """DOUBLE only for a gradient of one number a plane on the newer chips, any on the older ones."""
    new = call.product in ("A2", "A3", "950")
    names = "FLOAT FLOAT16" + (" BF16" if new else "") + ("" if new and not _global_pool(call) else " DOUBLE")
    dtypes(names, "gradOutput", "self")(call)


def _global_on_910(call: Call) -> None:
    sizes = call.shape("gradOutput")
    text = f"has shape {sizes}; on {call.soc.name} it must hold one number for every plane"
    call.require(call.product != "910" or _global_pool(call), "gradOutput", text)


rule(
    "aclnnAdaptiveAvgPool3dBackward",
    _backward_boxes,
    _backward_dtypes,
    same_dtype("self", "gradOutput", "out"),
    same_format("self", "gradOutput", "out"),
    no_private_format("gradOutput"),
    _global_on_910,
    infer_shape(out="self"),
    output_dtype(out="self"),
)

# ------------------------------------------------------------------------------------------------- maximum

_MAX2D = "FLOAT DOUBLE FLOAT16"


def _max_plane(call: Call) -> None:
    plane_rank(call, 2, "self")
    same_shape("outputOut", "indicesOut")(call)
    _no_empty_axis(call, "self", 1)


rule(
    "aclnnAdaptiveMaxPool2d",
    dtypes(plus_bf16(_MAX2D), "self", "outputOut"),
    same_dtype("self", "outputOut"),
    dtypes("INT64", "indicesOut"),
    _max_plane,
    _output_size(2),
    unless_empty("self", output_shape_relaxed(outputOut=_resized(2), indicesOut=_resized(2))),
    output_dtype(outputOut="self", indicesOut="INT64"),
)

_ON_NEW = {"A2 A3 950": "BF16 FLOAT16 FLOAT", "": ""}


def _backward_shapes(call: Call) -> None:
    rank_like(call, "self", "gradInput", "gradOutput", "indices")
    same_shape("gradOutput", "indices")(call)
    same_shape("self", "gradInput")(call)


def _formats_and_ranks(spatial: int) -> Check:
    names = ("gradOutput", "gradInput", "indices")

    def check(call: Call) -> None:
        same_format("self", *names)(call)
        no_private_format("self", *names)(call)
        plane_rank(call, spatial, "self", *names)

    return check


_MAX_BACKWARD = (
    same_dtype("self", "gradOutput", "gradInput"),
    dtypes(_ON_NEW, "self"),
    dtypes("INT32 INT64", "indices"),
    _backward_shapes,
)
rule(
    "aclnnAdaptiveMaxPool2dBackward",
    *_MAX_BACKWARD,
    _formats_and_ranks(2),
    plane_fits_int32(2),
    infer_shape(gradInput="self"),
    output_dtype(gradInput="self"),
)
rule(
    "aclnnAdaptiveMaxPool3dBackward",
    *_MAX_BACKWARD,
    plane_fits_int32(3),
    _formats_and_ranks(3),
    on_products("A2 A3", dtypes("INT32", "indices")),
    infer_shape(gradInput="self"),
    output_dtype(gradInput="self"),
)


def _max_boxes(call: Call) -> None:
    plane_rank(call, 3, "self", "outputOut", "indicesOut")


def _max_box_format(call: Call) -> None:
    allowed = (Format.NCDHW, Format.NCHW) + ((Format.ND,) if call.product == "950" else ())
    came = call["self"].format
    names = ", ".join(f.name for f in allowed)
    call.require(came in allowed, "self", f"has format {came.name}; on {call.soc.name} it must be {names}")


def _max_box_sizes(call: Call) -> None:
    given = call["outputSize"]
    lengths = (0, 1, 3) if call.product == "950" else (3,)
    array_length("outputSize", *lengths)(call)
    wanted, came = _resized(3)(call), call.shape("outputOut")
    call.require(came == wanted, "outputOut", f"has shape {came}; it must be {wanted}")
    # CANN compares as many axes of indices as output_size has items.
    indices = call.shape("indicesOut")
    n = len(given)
    call.require(indices[:n] == came[:n], "indicesOut", f"has shape {indices}; it must be {came}, as output_out")


def _max_box_values(call: Call) -> None:
    _no_empty_axis(call, "self", 1)
    if call.product != "950" or call.dtype("indicesOut") is DataType.INT32:
        sizes = call.shape("self")[-3:]
        total = sizes[0] * sizes[1] * sizes[2]
        call.require(total <= 2**31 - 1, "self", f"has {total} positions in a box; INT32 indices reach {2**31 - 1}")
    items_at_least("outputSize", call["outputSize"])(call)


rule(
    "aclnnAdaptiveMaxPool3d",
    _max_boxes,
    dtypes(_ON_NEW, "self", "outputOut"),
    dtypes({"950": "INT32 INT64", "": "INT32"}, "indicesOut"),
    _max_box_format,
    same_format("self", "outputOut"),
    _max_box_sizes,
    same_dtype("self", "outputOut"),
    _max_box_values,
    unless_empty("self", output_shape_relaxed(outputOut=_resized(3), indicesOut=_resized(3))),
    output_dtype(outputOut="self", indicesOut="INT32"),
)
