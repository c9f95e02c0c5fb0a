"""Rules of ops-cv/objdetect."""

from __future__ import annotations

from ascend_aclnn.core.errors import PARAM_NULLPTR, RUNTIME_ERROR
from ascend_aclnn.rules.language import *

_SCALE = require("spatialScale > 2.0**-126")  # the smallest normal float32

# ------------------------------------------------------------------------------------------------------- overlaps

rule(
    "aclnnIou",
    same_dtype("bBoxes", "gtBoxes", "overlap"),
    dtypes(FLOATS, "bBoxes"),
    formats("ND", "bBoxes", "gtBoxes", "overlap"),
    one_of("mode", "iou", "iof"),
    not_negative("eps"),
    rank(2, "bBoxes", "gtBoxes", "overlap"),
    require("bBoxes[1] == 4", "gtBoxes[1] == 4"),
    when("aligned", require("gtBoxes[0] == bBoxes[0]", "overlap[1] == 1")),
    # (boxes, ground truths), or one overlap for each pair.
    copied_output_shape(overlap="(bBoxes[0], 1 if aligned else gtBoxes[0])"),
)

rule(
    "aclnnCIoU",
    with_status(RUNTIME_ERROR, only_products("950")),
    same_dtype("bBoxes", "gtBoxes", "overlap", "atanSub"),
    dtypes(FLOATS_WITHOUT_BF16, "bBoxes"),
    formats("ND", "bBoxes", "gtBoxes", "overlap", "atanSub"),
    one_of("isCross", False),
    one_of("mode", "iou", "iof"),
    rank(2, "bBoxes", "gtBoxes", "overlap", "atanSub"),
    require("bBoxes[0] == 4"),
    same_shape("bBoxes", "gtBoxes"),
    require("bBoxes[1] % 1024 == 0"),
    output_shape(overlap="(1, bBoxes[1])", atanSub="(1, bBoxes[1])"),
)

# ------------------------------------------------------------------------------------------------------- regions


rule(
    "aclnnRoiAlign",
    dtypes(FLOATS_WITHOUT_BF16, "self"),
    dtypes("INT32", "batchIndices"),
    same_dtype("self", "rois", "out"),
    formats("NCHW", "self", "out"),
    formats("ND", "rois", "batchIndices"),
    rank(4, "self", "out"),
    rank(2, "rois"),
    rank(1, "batchIndices"),
    require("batchIndices[0] == rois[0]", "rois[1] == 4"),
    output_shape(out="(rois[0], self[1], outputHeight, outputWidth)"),
    one_of("mode", "avg", "max"),
    not_negative("samplingRatio"),
    positive("spatialScale"),
)
rule(
    "aclnnRoiAlignV2",
    dtypes(FLOATS_WITHOUT_BF16, "self"),
    same_dtype("self", "boxes", "out"),
    formats("NCHW", "self", "out"),
    formats("ND", "boxes"),
    rank(4, "self", "out"),
    rank(2, "boxes"),
    require("self[0] > 0", "self[2] > 0", "self[3] > 0"),
    require("boxes[1] == 5"),
    output_shape(out="(boxes[0], self[1], pooledHeight, pooledWidth)"),
    not_negative("samplingRatio"),
    _SCALE,
)
rule(
    "aclnnRoiAlignV2Backward",
    dtypes("FLOAT", "gradOutput"),
    same_dtype("gradOutput", "boxes", "gradInput"),
    formats("NCHW", "gradOutput", "gradInput"),
    formats("ND", "boxes"),
    rank(4, "gradOutput"),
    rank(2, "boxes"),
    require("boxes[1] == 5"),
    array_length("inputShape", 4),
    has_shape(gradOutput="(boxes[0], gradOutput[1], pooledHeight, pooledWidth)"),
    rank(4, "gradInput"),
    require("gradInput[1] == gradOutput[1]"),
    output_shape(gradInput="inputShape"),
    not_negative("samplingRatio"),
    _SCALE,
)
rule(
    "aclnnROIAlignGrad",
    dtype_table("ydiff rois roisNOptional out", "FLOAT FLOAT INT32 FLOAT"),
    infer_shape(out="xdiffShape"),
    tiling(
        rank(4, "ydiff"),
        rank(2, "rois"),
        array_length("xdiffShape", 4),
        require("min(xdiffShape) > 0", "pooledHeight > 0", "pooledWidth > 0", "spatialScale > 0", "sampleNum >= 0"),
        one_of("roiEndMode", 0, 1, 2, 3),
        has_shape(ydiff="(rois[0], xdiffShape[1], pooledHeight, pooledWidth)", rois="(ydiff[0], 5)"),
        has_shape(out="xdiffShape"),
    ),
)
rule(
    "aclnnRoiPoolingGradWithArgMax",
    dtypes(FLOATS_WITHOUT_BF16, "gradOutput", "rois"),
    dtypes("INT32", "argmax"),
    dtypes(FLOATS_WITHOUT_BF16, "gradInputRef"),
    on_products("950", no_private_format("gradOutput", "rois", "argmax", "gradInputRef")),
    rank(4, "gradOutput", "argmax", "gradInputRef"),
    rank(2, "rois"),
    require("rois[0] == gradOutput[0]", "rois[1] == 5", "rois[0] <= 1024", "gradInputRef[0] <= 1024"),
    same_shape("gradOutput", "argmax"),
    require("argmax[2] == pooledH or argmax[3] == pooledW", "argmax[1] == gradInputRef[1]"),
    positive("pooledH", "pooledW"),
)
rule(
    "aclnnRoiPoolingWithArgMax",
    with_status(RUNTIME_ERROR, only_products("950")),
    dtypes(FLOATS_WITHOUT_BF16, "x"),
    same_dtype("x", "rois", "y"),
    dtypes("INT32", "argmax"),
    formats("ND", "x", "rois", "y", "argmax"),
    rank(4, "x", "y", "argmax"),
    rank(2, "rois"),
    require("rois[1] == 5"),
    output_shape(y="(rois[0], x[1], pooled_h, pooled_w)", argmax="(rois[0], x[1], pooled_h, pooled_w)"),
    positive("pooled_h", "pooled_w", "spatial_scale_h", "spatial_scale_w"),
)
rule(
    "aclnnNonMaxSuppression",
    define(most="maxOutputBoxesPerClass[0] if len(maxOutputBoxesPerClass) > 0 else 0"),
    require("most <= 700"),
    with_status(PARAM_NULLPTR, not_empty("iouThreshold")),
    dtypes(FLOATS_WITHOUT_BF16, "boxes"),
    same_dtype("boxes", "scores"),
    require("0 <= iouThreshold[0] <= 1"),
    formats("ND", "boxes", "scores", "selectedIndices"),
    rank(3, "boxes", "scores"),
    require("boxes == (scores[0], scores[2], 4)"),
    in_range("centerPointBox", 0, 1),
    with_status(RUNTIME_ERROR, only_products("310P")),
    # (batch, class, box) of each box kept: the most there can be, as how many is known from the data only.
    infer_shape(selectedIndices="(min(most, scores[2]) * scores[0] * scores[1], 3)"),
    output_dtype(selectedIndices="INT32"),
)

# ------------------------------------------------------------------------------------------------------- blending

rule(
    "aclnnBackgroundReplace",
    only_products("310P"),
    dtype_table("bkg src mask out", "FLOAT16 FLOAT16 FLOAT16 FLOAT16", "UINT8 UINT8 FLOAT16 UINT8"),
    tiling(same_shape("bkg", "src"), require("mask in (bkg, (*bkg[:-1], 1))")),
    infer_shape(out="bkg"),
)
rule(
    "aclnnBlendImagesCustom",
    only_products("310P"),
    dtypes("UINT8", "rgb", "alpha", "frame", "out"),
    tiling(same_shape("frame", "rgb"), require("alpha == (*rgb[:-1], 1)")),
    infer_shape(out="frame"),
)
rule(
    "aclnnMrgbaCustom",
    only_products("310P"),
    dtypes("UINT8", "rgb", "alpha", "out"),
    tiling(require("alpha == (*rgb[:-1], 1)")),
    infer_shape(out="rgb"),
)
