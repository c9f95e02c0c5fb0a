"""Rules of ops-cv/objdetect: boxes, regions of images, products, inference."""

from __future__ import annotations

from typing import Any

from rule_tools import A2, NEW_950, OLD_310P, by_name, each_case, made, status, t

OK, NULL, INVALID, RUNTIME = 0, 161001, 161002, 361001

IOU: dict[str, Any] = {
    "bBoxes": t([5, 4]),
    "gtBoxes": t([3, 4]),
    "mode": "iou",
    "eps": 1e-5,
    "overlap": t([5, 3]),
}
ROI: dict[str, Any] = {
    "self": t([2, 3, 16, 16], format="NCHW"),
    "boxes": t([5, 5]),
    "pooledHeight": 4,
    "pooledWidth": 6,
    "spatialScale": 1.0,
    "out": t([5, 3, 4, 6], format="NCHW"),
}
BACK: dict[str, Any] = {
    "gradOutput": t([5, 3, 4, 6], format="NCHW"),
    "boxes": t([5, 5]),
    "inputShape": (2, 3, 16, 16),
    "pooledHeight": 4,
    "pooledWidth": 6,
    "spatialScale": 1.0,
    "gradInput": t([2, 3, 16, 16], format="NCHW"),
}

CASES: list[tuple[str, int, dict[str, Any], str]] = [
    ("aclnnIou", OK, IOU, A2),
    ("aclnnIou", NULL, {**IOU, "gtBoxes": None}, A2),
    ("aclnnIou", INVALID, {**IOU, "mode": "giou"}, A2),
    ("aclnnIou", INVALID, {**IOU, "bBoxes": t([5, 5])}, A2),
    ("aclnnIou", INVALID, {**IOU, "bBoxes": t([5, 4], "FLOAT16")}, A2),
    ("aclnnRoiAlignV2", OK, ROI, A2),
    ("aclnnRoiAlignV2", INVALID, {**ROI, "boxes": t([5, 4])}, A2),
    ("aclnnRoiAlignV2", INVALID, {**ROI, "pooledHeight": 0}, A2),
    ("aclnnRoiAlignV2", INVALID, {**ROI, "out": t([4, 3, 4, 6], format="NCHW")}, A2),
    ("aclnnRoiAlignV2Backward", OK, BACK, A2),
    ("aclnnRoiAlignV2Backward", INVALID, {**BACK, "inputShape": (2, 3, 16)}, A2),
]


@each_case(CASES)
def test_status(name: str, expected: int, values: dict[str, Any], soc: str) -> None:
    assert status(name, *by_name(name, **values), soc=soc) == expected


def test_inference() -> None:
    assert made("aclnnIou", **IOU) == {"overlap": ((5, 3), "FLOAT")}
    aligned = {**IOU, "gtBoxes": t([5, 4]), "aligned": True}
    assert made("aclnnIou", **aligned)["overlap"][0] == (5, 1)
    assert made("aclnnRoiAlignV2", **ROI) == {"out": ((5, 3, 4, 6), "FLOAT")}
    assert made("aclnnRoiAlignV2Backward", **BACK) == {"gradInput": ((2, 3, 16, 16), "FLOAT")}


def test_chosen_boxes_are_allocated_for_the_most() -> None:
    arguments = {"boxes": t([2, 6, 4]), "scores": t([2, 3, 6]), "maxOutputBoxesPerClass": (4,)}
    limits = {"iouThreshold": (0.5,), "scoreThreshold": (0.1,)}
    found = made("aclnnNonMaxSuppression", OLD_310P, **arguments, **limits)
    assert found == {"selectedIndices": ((2 * 3 * 4, 3), "INT32")}


def test_chips() -> None:
    boxes, pairs = t([4, 1024]), t([1, 1024])
    arguments = {"bBoxes": boxes, "gtBoxes": boxes, "mode": "iou", "overlap": pairs, "atanSub": pairs}
    assert status("aclnnCIoU", *by_name("aclnnCIoU", **arguments), soc=NEW_950) == OK
    assert status("aclnnCIoU", *by_name("aclnnCIoU", **arguments), soc=A2) == RUNTIME
