"""Detection of objects (ops-cv/objdetect): overlaps of boxes, pooling of regions, images laid over each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Optional

import numpy as np

from ascend_aclnn.numerics import Array, matmul
from ascend_aclnn.reference._rows import check_range, whole_within
from ascend_aclnn.reference.declare import reference

# --------------------------------------------------------------------------------------------------- boxes


def _shared(a: Any, b: Any, eps: Any = 0) -> Any:
    """Area of what two boxes have in common; corners along axis 0."""
    sides = np.minimum(a[2:], b[2:]) + eps - np.maximum(a[:2], b[:2])
    return np.maximum(sides, 0).prod(0)


def _area(a: Any, eps: Any = 0) -> Any:
    return (a[2:] - a[:2] + eps).prod(0)


@reference("aclnnIou")
def iou(boxes: Array, truth: Array, mode: str, eps: float, aligned: bool) -> Any:
    """Overlap over union, or (iof) over the second box: pairs of rows, or each with each. eps widens every side."""
    a, b, wider = boxes.T, truth.T, np.float32(eps)
    if not aligned:
        a, b = a[:, :, None], b[:, None, :]
    both = _shared(a, b, wider)
    whole = _area(b, wider)
    if mode == "iou":
        whole = _area(a, wider) + whole - both
    return (both / whole)[:, None] if aligned else both / whole


@reference("aclnnCIoU")
def ciou(boxes: Array, truth: Array, trans: bool, is_cross: bool, mode: str) -> tuple[Any, Any]:
    """Overlap less the distance of the centres and the difference of the proportions; corners along axis 0."""

    def corners(x: Array) -> Any:
        return np.concatenate([x[:2] - x[2:] / 2, x[:2] + x[2:] / 2]) if trans else x

    a, b = corners(boxes), corners(truth)
    both = _shared(a, b)
    overlap = both / (_area(b) if mode == "iof" else _area(a) + _area(b) - both)
    (wide, high), (true_wide, true_high) = a[2:] - a[:2], b[2:] - b[:2]
    difference = np.arctan(true_wide / true_high) - np.arctan(wide / high)
    distance = (((a[:2] + a[2:]) - (b[:2] + b[2:])) ** 2).sum(0) / 4
    diagonal = ((np.maximum(a[2:], b[2:]) - np.minimum(a[:2], b[:2])) ** 2).sum(0)
    v = np.float32(4 / np.pi**2) * difference**2
    alpha = v / (1 - overlap + v)
    return (overlap - distance / diagonal - alpha * v)[None], difference[None]


@reference("aclnnNonMaxSuppression")
def non_max_suppression(
    boxes: Array,
    scores: Array,
    most: Sequence[int],
    iou_threshold: Sequence[float],
    score_threshold: Sequence[float],
    center: int,
) -> Array:
    """For each batch and class the boxes of the highest scores that overlap no chosen one too much: batch, class, box.

    Each class has as many rows as it may choose boxes; rows that are not needed, or whose score is too low, hold -1.
    """
    count = most[0] if most else 0
    limit = np.float32(iou_threshold[0] if iou_threshold else 0)
    least = np.float32(score_threshold[0] if score_threshold else 0)
    batches, classes = scores.shape[:2]
    selected = np.full((batches, classes, count, 3), -1, np.int32)
    for batch in range(batches):
        corners = _corners(boxes[batch].T, center)
        areas = _area(corners)
        for group in range(classes):
            remaining = np.argsort(-scores[batch, group], kind="stable")
            for row in range(min(count, len(remaining))):
                if not len(remaining):
                    break
                best = remaining[0]
                if scores[batch, group, best] > least:
                    selected[batch, group, row] = batch, group, best
                both = _shared(corners[:, remaining], corners[:, best, None])
                near = both > (areas[remaining] + areas[best]) * (limit / (1 + limit))
                near[0] = True
                remaining = remaining[~near]
    return selected.reshape(-1, 3)


def _corners(boxes: Any, center: int) -> Any:
    if center:
        return np.concatenate([boxes[:2] - boxes[2:] / 2, boxes[:2] + boxes[2:] / 2])
    return np.concatenate([np.minimum(boxes[:2], boxes[2:]), np.maximum(boxes[:2], boxes[2:])])


# --------------------------------------------------------------------------------------------------- aligned regions


def _interpolations(start: Any, extent: Any, bins: int, samples: int, size: int) -> Array:
    """How much each of an axis's pixels takes part in each sample of each bin; none in one outside the axis."""
    if samples <= 0:
        samples = max(int(np.ceil(extent / bins)), 1)
    step = np.float32(extent / bins)
    at = start + np.arange(bins, dtype=np.float32)[:, None] * step
    at = (at + (np.arange(samples, dtype=np.float32) + np.float32(0.5)) * (step / np.float32(samples))).astype(
        np.float32
    )
    inside = (at >= -1) & (at <= size)
    at = np.maximum(at, 0)
    low = whole_within(at, size - 1)
    high = np.minimum(low + 1, size - 1)
    share = np.where(low == size - 1, 0, at - low).astype(np.float32)
    weights = np.zeros((*at.shape, size), np.float32)
    places = tuple(np.indices(at.shape))
    np.add.at(weights, (*places, low), np.where(inside, 1 - share, 0))
    np.add.at(weights, (*places, high), np.where(inside, share, 0))
    return weights


# What boxes are: continuous, their last pixel included, or pixel centres shifted by half (2 and 3).
_CONTINUOUS, _INCLUSIVE, _CENTRES = 0, 1, 2


def _regions(
    boxes: Array, scale: float, kind: int, bins: tuple[int, int], samples: int, size: tuple[int, int]
) -> Iterator[tuple[Array, Array]]:
    """The weights of rows and of columns at the samples of each bin, for each region."""
    offset, factor = np.float32(0.5 if kind >= _CENTRES else 0), np.float32(scale)
    for left, top, right, bottom in boxes * factor - offset:
        wide, high = right - left, bottom - top
        if kind == _INCLUSIVE:
            wide, high = wide + factor, high + factor
        if kind < _CENTRES:
            wide, high = max(wide, np.float32(1)), max(high, np.float32(1))
        rows = _interpolations(top, high, bins[0], samples, size[0])
        yield rows, _interpolations(left, wide, bins[1], samples, size[1])


def align(
    x: Array,
    boxes: Array,
    batch: Array,
    bins: tuple[int, int],
    scale: float,
    samples: int,
    kind: int,
    largest: bool = False,
) -> Any:
    """The mean (or the largest) of the samples of each bin of each region."""
    pooled = np.empty((len(boxes), x.shape[1], *bins), np.float32)
    regions = _regions(boxes, scale, kind, bins, samples, (x.shape[2], x.shape[3]))
    for number, (rows, columns) in enumerate(regions):
        image = x[int(batch[number])]
        if largest:
            values = rows.reshape(-1, rows.shape[-1]) @ image @ columns.reshape(-1, columns.shape[-1]).T
            pooled[number] = values.reshape(-1, *rows.shape[:2], *columns.shape[:2]).max((2, 4))
        else:
            pooled[number] = rows.mean(1) @ image @ columns.mean(1).T
    return pooled


@reference("aclnnRoiAlign")
def roi_align(
    x: Array, rois: Array, batch: Array, mode: str, height: int, width: int, samples: int, scale: float
) -> Any:
    """The mean of each bin of each region; in mode "max", the largest of its interpolated samples.

    So does the kernel of Atlas A2 (impl/roi_align.py of CANN 8.1): samples are interpolated first, unlike in opset 10 of
    ONNX, whose runtime takes the largest of the weighted corners. A sample outside the image counts as 0.
    """
    check_range("batchIndices", batch, 0, len(x))
    return align(x, rois, batch, (height, width), scale, samples, _CONTINUOUS, mode == "max")


@reference("aclnnRoiAlignV2")
def roi_align_v2(x: Array, boxes: Array, height: int, width: int, scale: float, samples: int, aligned: bool) -> Any:
    """Boxes have their batch in front; ``aligned`` ones are half a pixel further up and left, and may be thin."""
    check_range("boxes", boxes[:, 0], 0, len(x))
    return align(x, boxes[:, 1:], boxes[:, 0], (height, width), scale, samples, _CENTRES if aligned else _CONTINUOUS)


@reference("aclnnRoiAlignV2Backward")
def roi_align_v2_backward(
    grad: Array,
    boxes: Array,
    shape: tuple[int, ...],
    height: int,
    width: int,
    scale: float,
    samples: int,
    aligned: bool,
) -> Any:
    return _align_gradient(grad, boxes, shape, (height, width), scale, samples, _CENTRES if aligned else _CONTINUOUS)


def _align_gradient(
    grad: Array, boxes: Array, shape: Sequence[int], bins: tuple[int, int], scale: float, samples: int, kind: int
) -> Array:
    gradient = np.zeros(shape, np.float32)
    regions = _regions(boxes[:, 1:], scale, kind, bins, samples, (shape[2], shape[3]))
    for number, (rows, columns) in enumerate(regions):
        batch = int(boxes[number, 0])
        if 0 <= batch < len(gradient):  # boxes of other images are left out
            gradient[batch] += matmul(matmul(rows.mean(1).T, grad[number]), columns.mean(1))
    return gradient


@reference("aclnnROIAlignGrad")
def roi_align_grad(
    grad: Array,
    boxes: Array,
    counts: Optional[Array],
    shape: Sequence[int],
    width: int,
    height: int,
    scale: float,
    samples: int,
    end_mode: int,
) -> Array:
    """``roi_align_v2_backward`` with any kind of box; the kernel does not read how many boxes an image has."""
    return _align_gradient(grad, boxes, shape, (height, width), scale, samples, end_mode)


# --------------------------------------------------------------------------------------------------- pooled regions


@reference("aclnnRoiPoolingWithArgMax")
def roi_pooling_with_argmax(
    x: Array, rois: Array, height: int, width: int, scale_h: float, scale_w: float
) -> tuple[Any, Any]:
    """The largest value of each bin of each region, and where it is; empty bins have 0 and -1."""
    check_range("rois", rois[:, 0], 0, len(x))
    channels, size = x.shape[1], x.shape[2:]
    values = np.zeros((len(rois), channels, height, width), np.float32)
    places = np.full(values.shape, -1, np.int32)
    scales = np.array([scale_h, scale_w], np.float32)
    for number, roi in enumerate(rois.astype(np.float32)):
        start = roi[[2, 1]] * scales
        extent = (roi[[4, 3]] + 1) * scales - start
        if (extent <= 0).any():
            continue
        edges = []
        for first, whole, bins, most in zip(start, extent, (height, width), size):
            step, low = whole / np.float32(bins), np.arange(bins, dtype=np.float32)
            begin, end = np.floor(low * step + first), np.ceil((low + 1) * step + first)
            edges.append(whole_within(np.stack([begin, end], 1), most))
        image = x[int(roi[0])]
        for row, (top, bottom) in enumerate(edges[0]):
            for column, (left, right) in enumerate(edges[1]):
                part = image[:, top:bottom, left:right].reshape(channels, -1)
                if part.size:
                    best = part.argmax(-1)
                    values[number, :, row, column] = np.take_along_axis(part, best[:, None], -1)[:, 0]
                    down, right_of = np.divmod(best, right - left)
                    places[number, :, row, column] = (top + down) * size[1] + left + right_of
    return values, places


@reference("aclnnRoiPoolingGradWithArgMax")
def roi_pooling_grad_with_argmax(
    grad: Array, accumulated: Array, rois: Array, places: Array, height: int, width: int, scale: float
) -> Any:
    """Gradients go to where the values came from, onto what is there."""
    check_range("rois", rois[:, 0], 0, len(accumulated))
    result = accumulated.reshape(*accumulated.shape[:2], -1).copy()
    batch = np.broadcast_to(rois[:, 0].astype(np.int64)[:, None, None, None], places.shape)
    channel = np.broadcast_to(np.arange(accumulated.shape[1])[:, None, None], places.shape)
    there = places >= 0
    np.add.at(result, (batch[there], channel[there], places[there]), grad[there])
    return result.reshape(accumulated.shape)


# --------------------------------------------------------------------------------------------------- images


@reference("aclnnBackgroundReplace")
def background_replace(background: Array, source: Array, mask: Array) -> Any:
    return background * (1 - mask) + source * mask


def _over(rgb: Array, alpha: Array, frame: Optional[Array]) -> Any:
    share = alpha.astype(np.float32) / np.float32(255)
    blended = rgb * share
    return blended if frame is None else blended + frame * (1 - share)


@reference("aclnnBlendImagesCustom")
def blend_images_custom(rgb: Array, alpha: Array, frame: Array) -> Any:
    """rgb over frame, as thick as alpha of 255 says."""
    return _over(rgb, alpha, frame)


@reference("aclnnMrgbaCustom")
def mrgba_custom(rgb: Array, alpha: Array) -> Any:
    return _over(rgb, alpha, None)
