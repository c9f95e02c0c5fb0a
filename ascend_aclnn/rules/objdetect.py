"""Rules of ops-cv/objdetect."""

from __future__ import annotations

from ascend_aclnn.core.errors import PARAM_NULLPTR, RUNTIME_ERROR
from ascend_aclnn.rules.language import *

_TINY = 2.0**-126  # the smallest normal float32


def _runs_on(products: str) -> Check:
    """The kernel exists on some products only: elsewhere 361001."""

    def check(call: Call) -> None:
        text = f"the operator is not implemented on {call.soc.name}; it is on {products}"
        call.require(call.product in products.split(), None, text, RUNTIME_ERROR)

    return check


def _axis_is(name: str, axis: int, size: int) -> Check:
    def check(call: Call) -> None:
        sizes = call.shape(name)
        call.require(sizes[axis] == size, name, f"has shape {sizes}; axis {axis} must be {size}")

    return check


def _same_axis(name: str, axis: int, other: str, other_axis: int) -> Check:
    def check(call: Call) -> None:
        a, b = call.shape(name), call.shape(other)
        text = f"has shape {a}; axis {axis} must be {b[other_axis]}, as axis {other_axis} of {call.python_name(other)}"
        call.require(a[axis] == b[other_axis], name, text)

    return check


def _above(name: str, limit: float = 0.0) -> Check:
    def check(call: Call) -> None:
        call.require(call[name] > limit, name, f"is {call[name]}; it must be positive")

    return check


def _not_negative(name: str) -> Check:
    def check(call: Call) -> None:
        call.require(call[name] >= 0, name, f"is {call[name]}; it must not be negative")

    return check


# ------------------------------------------------------------------------------------------------------- overlaps


def _overlap_shape(call: Call) -> Shape:
    """(ground truths, boxes), or one overlap for each pair."""
    boxes, truths = call.shape("bBoxes"), call.shape("gtBoxes")
    call.require(len(boxes) == 2, "bBoxes", f"has rank {len(boxes)}; it must be 2")
    call.require(len(truths) == 2, "gtBoxes", f"has rank {len(truths)}; it must be 2")
    return (boxes[0], 1) if call["aligned"] else (boxes[0], truths[0])


rule(
    "aclnnIou",
    same_dtype("bBoxes", "gtBoxes", "overlap"),
    dtypes("FLOAT FLOAT16 BF16", "bBoxes"),
    formats("ND", "bBoxes", "gtBoxes", "overlap"),
    one_of("mode", "iou", "iof"),
    _not_negative("eps"),
    rank(2, 2, "bBoxes", "gtBoxes", "overlap"),
    _axis_is("bBoxes", 1, 4),
    _axis_is("gtBoxes", 1, 4),
    lambda call: call.require(
        not call["aligned"] or (call.shape("bBoxes")[0] == call.shape("gtBoxes")[0] and call.shape("overlap")[1] == 1),
        "overlap",
        f"has shape {call.shape('overlap')} for boxes {call.shape('bBoxes')} and {call.shape('gtBoxes')}; "
        "aligned boxes come in pairs and give (pairs, 1)",
    ),
    copied_output_shape(overlap=_overlap_shape),
)

rule(
    "aclnnCIoU",
    _runs_on("950"),
    same_dtype("bBoxes", "gtBoxes", "overlap", "atanSub"),
    dtypes("FLOAT FLOAT16", "bBoxes"),
    formats("ND", "bBoxes", "gtBoxes", "overlap", "atanSub"),
    one_of("isCross", False),
    one_of("mode", "iou", "iof"),
    rank(2, 2, "bBoxes", "gtBoxes", "overlap", "atanSub"),
    _axis_is("bBoxes", 0, 4),
    same_shape("bBoxes", "gtBoxes"),
    lambda call: call.require(
        call.shape("bBoxes")[1] % 1024 == 0,
        "bBoxes",
        f"has shape {call.shape('bBoxes')}; its last axis must be a multiple of 1024",
    ),
    output_shape(overlap="(1, bBoxes[1])", atanSub="(1, bBoxes[1])"),
)

# ------------------------------------------------------------------------------------------------------- regions


def _pooled(boxes: str, height: str, width: str) -> Check:
    return output_shape(out=shape_from((boxes, 0), ("self", 1), height, width))


rule(
    "aclnnRoiAlign",
    dtypes("FLOAT FLOAT16", "self"),
    dtypes("INT32", "batchIndices"),
    same_dtype("self", "rois", "out"),
    formats("NCHW", "self", "out"),
    formats("ND", "rois", "batchIndices"),
    rank(4, 4, "self", "out"),
    rank(2, 2, "rois"),
    rank(1, 1, "batchIndices"),
    _same_axis("batchIndices", 0, "rois", 0),
    _axis_is("rois", 1, 4),
    _pooled("rois", "outputHeight", "outputWidth"),
    one_of("mode", "avg", "max"),
    _not_negative("samplingRatio"),
    _above("spatialScale"),
)
rule(
    "aclnnRoiAlignV2",
    dtypes("FLOAT FLOAT16", "self"),
    same_dtype("self", "boxes", "out"),
    formats("NCHW", "self", "out"),
    formats("ND", "boxes"),
    rank(4, 4, "self", "out"),
    rank(2, 2, "boxes"),
    lambda call: call.require(
        all(call.shape("self")[axis] for axis in (0, 2, 3)),
        "self",
        f"has shape {call.shape('self')}; only its channels may be empty",
    ),
    _axis_is("boxes", 1, 5),
    _pooled("boxes", "pooledHeight", "pooledWidth"),
    _not_negative("samplingRatio"),
    _above("spatialScale", _TINY),
)


_IMAGE_SHAPE = "tuple(inputShape)"


rule(
    "aclnnRoiAlignV2Backward",
    dtypes("FLOAT", "gradOutput"),
    same_dtype("gradOutput", "boxes", "gradInput"),
    formats("NCHW", "gradOutput", "gradInput"),
    formats("ND", "boxes"),
    rank(4, 4, "gradOutput"),
    rank(2, 2, "boxes"),
    _axis_is("boxes", 1, 5),
    array_length("inputShape", 4),
    output_shape(gradOutput="(boxes[0], gradOutput[1], pooledHeight, pooledWidth)"),
    rank(4, 4, "gradInput"),
    _same_axis("gradInput", 1, "gradOutput", 1),
    output_shape(gradInput=_IMAGE_SHAPE),
    _not_negative("samplingRatio"),
    _above("spatialScale", _TINY),
)
rule(
    "aclnnROIAlignGrad",
    dtype_table("ydiff rois roisNOptional out", "FLOAT FLOAT INT32 FLOAT"),
    infer_shape(out="tuple(xdiffShape)"),
    tiling(
        rank(4, 4, "ydiff"),
        rank(2, 2, "rois"),
        array_length("xdiffShape", 4),
        require("min(xdiffShape) > 0", "pooledHeight > 0", "pooledWidth > 0", "spatialScale > 0", "sampleNum >= 0"),
        one_of("roiEndMode", 0, 1, 2, 3),
        has_shape(ydiff="(rois[0], xdiffShape[1], pooledHeight, pooledWidth)", rois="(ydiff[0], 5)"),
        has_shape(out="tuple(xdiffShape)"),
    ),
)


def _few_rows(name: str) -> Check:
    def check(call: Call) -> None:
        rows = call.shape(name)[0]
        call.require(rows <= 1024, name, f"has {rows} rows; at most 1024 are supported")

    return check


rule(
    "aclnnRoiPoolingGradWithArgMax",
    dtypes("FLOAT FLOAT16", "gradOutput", "rois"),
    dtypes("INT32", "argmax"),
    dtypes("FLOAT FLOAT16", "gradInputRef"),
    lambda call: (
        no_private_format("gradOutput", "rois", "argmax", "gradInputRef")(call) if call.product == "950" else None
    ),
    rank(4, 4, "gradOutput", "argmax", "gradInputRef"),
    rank(2, 2, "rois"),
    _same_axis("rois", 0, "gradOutput", 0),
    _axis_is("rois", 1, 5),
    _few_rows("rois"),
    _few_rows("gradInputRef"),
    same_shape("gradOutput", "argmax"),
    lambda call: call.require(
        call.shape("argmax")[2] == call["pooledH"] or call.shape("argmax")[3] == call["pooledW"],
        "argmax",
        f"has shape {call.shape('argmax')}; it must end in ({call['pooledH']}, {call['pooledW']})",
    ),
    _same_axis("argmax", 1, "gradInputRef", 1),
    _above("pooledH"),
    _above("pooledW"),
)

_POOLED = shape_from(("rois", 0), ("x", 1), "pooled_h", "pooled_w")
rule(
    "aclnnRoiPoolingWithArgMax",
    _runs_on("950"),
    dtypes("FLOAT FLOAT16", "x"),
    same_dtype("x", "rois", "y"),
    dtypes("INT32", "argmax"),
    formats("ND", "x", "rois", "y", "argmax"),
    rank(4, 4, "x", "y", "argmax"),
    rank(2, 2, "rois"),
    _axis_is("rois", 1, 5),
    output_shape(y=_POOLED, argmax=_POOLED),
    _above("pooled_h"),
    _above("pooled_w"),
    _above("spatial_scale_h"),
    _above("spatial_scale_w"),
    output_dtype(y="x", argmax="INT32"),
)


def _most_boxes(call: Call) -> int:
    return int(call["maxOutputBoxesPerClass"][0]) if call["maxOutputBoxesPerClass"] else 0


def _selected_shape(call: Call) -> Shape:
    """(batch, class, box) of each box kept: the most there can be, as how many is known from the data only."""
    scores = call.shape("scores")
    call.require(len(scores) == 3, "scores", f"has rank {len(scores)}; it must be 3")
    return min(_most_boxes(call), scores[2]) * scores[0] * scores[1], 3


rule(
    "aclnnNonMaxSuppression",
    lambda call: call.require(
        _most_boxes(call) <= 700,
        "maxOutputBoxesPerClass",
        f"is {_most_boxes(call)}; at most 700 boxes a class are supported",
    ),
    lambda call: call.require(
        bool(call["iouThreshold"]), "iouThreshold", "is empty; it must have an item", PARAM_NULLPTR
    ),
    dtypes("FLOAT FLOAT16", "boxes"),
    same_dtype("boxes", "scores"),
    lambda call: call.require(
        0 <= call["iouThreshold"][0] <= 1, "iouThreshold", f"is {call['iouThreshold'][0]}; it must be in [0, 1]"
    ),
    formats("ND", "boxes", "scores", "selectedIndices"),
    rank(3, 3, "boxes", "scores"),
    _same_axis("boxes", 0, "scores", 0),
    _same_axis("boxes", 1, "scores", 2),
    _axis_is("boxes", 2, 4),
    in_range("centerPointBox", 0, 1),
    _runs_on("310P"),
    infer_shape(selectedIndices=_selected_shape),
    output_dtype(selectedIndices="INT32"),
)

# ------------------------------------------------------------------------------------------------------- blending

rule(
    "aclnnBackgroundReplace",
    only_products("310P"),
    dtype_table("bkg src mask out", "FLOAT16 FLOAT16 FLOAT16 FLOAT16", "UINT8 UINT8 FLOAT16 UINT8"),
    infer_shape(out="bkg"),
)
rule(
    "aclnnBlendImagesCustom",
    only_products("310P"),
    dtypes("UINT8", "rgb", "alpha", "frame", "out"),
    infer_shape(out="frame"),
)
rule("aclnnMrgbaCustom", only_products("310P"), dtypes("UINT8", "rgb", "alpha", "out"), infer_shape(out="rgb"))
