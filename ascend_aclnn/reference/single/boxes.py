"""Single operators on boxes: overlaps and their gradients, encoding and assignment for training, suppression."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ascend_aclnn.numerics import Array
from ascend_aclnn.reference import objdetect
from ascend_aclnn.reference.declare import DataError, reference


def _numbers(values: Sequence[float]) -> Array:
    return np.asarray(values, np.float32)


# ------------------------------------------------------------------------------------- overlaps of pairs, corners on axis 0

_TINY = np.float32(1e-16)  # the kernels add it to widths, heights and squares
_SMALL = np.float32(1e-9)  # the same in the kernels of gradients


def _corners(boxes: Array, centred: bool) -> Array:
    return np.concatenate([boxes[:2] - boxes[2:] / 2, boxes[:2] + boxes[2:] / 2]) if centred else boxes


class _Pair(NamedTuple):
    """Two lists of boxes side by side: their sizes, and the sizes of their intersection and of the box that encloses both."""

    a: Array
    b: Array
    a_sizes: Array
    b_sizes: Array
    shared_sides: Array  # negative where they are apart
    enclosing: Array

    @classmethod
    def of(cls, a: Array, b: Array, tiny: Any) -> _Pair:
        return cls(
            a,
            b,
            a[2:] - a[:2] + tiny,
            b[2:] - b[:2] + tiny,
            np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2]),
            np.maximum(a[2:], b[2:]) - np.minimum(a[:2], b[:2]) + tiny,
        )

    @property
    def shared(self) -> Array:
        return np.asarray(np.maximum(self.shared_sides, 0).prod(0))

    @property
    def union(self) -> Array:
        return np.asarray(self.a_sizes.prod(0) + self.b_sizes.prod(0) - self.shared)

    @property
    def between(self) -> Array:
        """From the centre of the first to that of the second."""
        return np.asarray(((self.b[:2] + self.b[2:]) - (self.a[:2] + self.a[2:])) / 2)


def _overlap(pair: _Pair, mode: str) -> tuple[Array, Array]:
    """The overlap, and what it is a share of."""
    whole = pair.b_sizes.prod(0) if mode == "iof" else pair.union
    return pair.shared / whole, whole


@reference("GIoU")
def giou(boxes: Array, truth: Array, centred: bool, mode: str) -> Array:
    """The overlap less the part of the enclosing box that belongs to neither."""
    pair = _Pair.of(_corners(boxes, centred), _corners(truth, centred), _TINY)
    overlap, whole = _overlap(pair, mode)
    enclosing = pair.enclosing.prod(0)
    return np.asarray(overlap - (enclosing - whole) / enclosing)[None]


@reference("CIoU")
def ciou(boxes: Array, truth: Array, centred: bool, mode: str) -> tuple[Array, Array]:
    """As aclnnCIoU, for any number of boxes."""
    result: tuple[Any, Any] = objdetect.ciou(boxes, truth, centred, False, mode)
    return result


@reference("DIoU")
def diou(boxes: Array, truth: Array, centred: bool, mode: str) -> Array:
    """The overlap less the squared distance of the centres in terms of the enclosing box's diagonal."""
    pair = _Pair.of(_corners(boxes, centred), _corners(truth, centred), _TINY)
    return np.asarray(_overlap(pair, mode)[0] - (pair.between**2).sum(0) / (pair.enclosing**2).sum(0))[None]


class _Gradients:
    """Gradients of the corners of both boxes of pairs. Where corners are equal, they belong to the second box."""

    def __init__(self, pair: _Pair) -> None:
        self.pair = pair
        self.a, self.b = np.zeros_like(pair.a), np.zeros_like(pair.b)

    def _choose(self, low: Array, high: Array, low_is_a: Array, high_is_a: Array) -> None:
        slopes, is_a = np.concatenate([low, high]), np.concatenate([low_is_a, high_is_a])
        self.a += np.where(is_a, slopes, 0)
        self.b += np.where(is_a, 0, slopes)

    def shared(self, slope: Array) -> None:
        pair = self.pair
        sides = np.maximum(pair.shared_sides, 0)
        side = np.where(pair.shared_sides >= 0, slope * sides[::-1], 0)
        self._choose(-side, side, pair.a[:2] > pair.b[:2], pair.a[2:] < pair.b[2:])

    def areas(self, slope: Array) -> None:
        """Of both boxes."""
        for grad, sizes in ((self.a, self.pair.a_sizes), (self.b, self.pair.b_sizes)):
            grad += np.concatenate([-slope * sizes[::-1], slope * sizes[::-1]])

    def enclosing(self, side: Array) -> None:
        pair = self.pair
        self._choose(-side, side, pair.a[:2] < pair.b[:2], pair.a[2:] > pair.b[2:])

    def centres(self, slope: Array) -> None:
        """Of the vector from the first centre to the second."""
        half = np.concatenate([slope, slope]) / 2
        self.a -= half
        self.b += half

    def sizes(self, a: Array, b: Array) -> None:
        self.a += np.concatenate([-a, a])
        self.b += np.concatenate([-b, b])

    def overlap(self, dy: Array) -> None:
        """Of shared / union."""
        pair = self.pair
        d_union = -dy * pair.shared / pair.union**2
        self.shared(dy / pair.union - d_union)
        self.areas(d_union)

    def distance(self, dy: Array) -> None:
        """Of the squared distance of the centres in terms of the diagonal, which is subtracted."""
        pair = self.pair
        diagonal = (pair.enclosing**2).sum(0) + _SMALL
        self.centres(-2 * dy / diagonal * pair.between)
        self.enclosing(2 * pair.enclosing * dy * (pair.between**2).sum(0) / diagonal**2)

    def results(self, centred: bool) -> tuple[Array, Array]:
        if not centred:
            return self.a, self.b
        return tuple(np.concatenate([g[:2] + g[2:], (g[2:] - g[:2]) / 2]) for g in (self.a, self.b))  # type: ignore[return-value]


def _gradients(boxes: Array, truth: Array, centred: bool) -> _Gradients:
    return _Gradients(_Pair.of(_corners(boxes, centred), _corners(truth, centred), _SMALL))


@reference("GIoUGrad")
def giou_grad(dy: Array, boxes: Array, truth: Array, centred: bool) -> tuple[Array, Array]:
    gradients = _gradients(boxes, truth, centred)
    pair, dy = gradients.pair, dy.reshape(-1)
    enclosing = pair.enclosing.prod(0) + _SMALL
    d_union = dy / enclosing - dy * pair.shared / pair.union**2
    gradients.shared(dy / pair.union - d_union)
    gradients.areas(d_union)
    gradients.enclosing(-dy * pair.union / enclosing**2 * pair.enclosing[::-1])
    return gradients.results(centred)


@reference("DIoUGrad")
def diou_grad(dy: Array, boxes: Array, truth: Array, centred: bool) -> tuple[Array, Array]:
    gradients = _gradients(boxes, truth, centred)
    gradients.overlap(dy.reshape(-1))
    gradients.distance(dy.reshape(-1))
    return gradients.results(centred)


@reference("CIoUGrad")
def ciou_grad(dy: Array, boxes: Array, truth: Array, angles: Array, centred: bool) -> tuple[Array, Array]:
    """``angles``: the difference of the angles of both diagonals, truth less box. Their weight counts as a constant."""
    gradients = _gradients(boxes, truth, centred)
    pair, dy, angles = gradients.pair, dy.reshape(-1), angles.reshape(-1)
    gradients.overlap(dy)
    gradients.distance(dy)
    factor = np.float32(4 / np.pi**2)
    v = factor * angles**2
    d_angle = -dy * v / (1 + v - pair.shared / pair.union + _SMALL) * 2 * factor * angles
    slopes = []
    for sizes, sign in ((pair.a_sizes, -1), (pair.b_sizes, 1)):
        ratio = sizes[0] / sizes[1]
        wide = sign * d_angle / (1 + ratio**2) / sizes[1]
        slopes.append(np.stack([wide, -wide * ratio]))
    gradients.sizes(*slopes)
    return gradients.results(centred)


# ------------------------------------------------------------------------------------------------------------ turned boxes


def _outline(boxes: Array, corners: bool) -> tuple[Array, Array]:
    """The four corners (boxes, 4, 2), and the areas, of boxes (5, boxes) whose angles are in degrees."""
    first, second, angle = boxes[:2].astype(np.float64), boxes[2:4].astype(np.float64), np.radians(boxes[4])
    centre, size = ((first + second) / 2, second - first) if corners else (first, second)
    along = size[0] / 2 * np.stack([np.cos(angle), np.sin(angle)])
    across = size[1] / 2 * np.stack([-np.sin(angle), np.cos(angle)])
    vertices = [centre + s * along + t * across for s, t in ((-1, -1), (1, -1), (1, 1), (-1, 1))]
    return np.stack(vertices, 1).transpose(2, 1, 0), np.where((size > 0).all(0), size.prod(0), 0)


def _cross(a: Array, b: Array) -> Array:
    return np.asarray(a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0])


def _inside(points: Array, outline: Array) -> Array:
    """Which points (..., n, 2) are in or on convex outlines (..., 4, 2)."""
    sides = np.roll(outline, -1, -2) - outline
    from_corner = points[..., :, None, :] - outline[..., None, :, :]
    length = np.abs(sides).sum(-1)[..., None, :]
    return np.asarray((_cross(sides[..., None, :, :], from_corner) >= -1e-9 * length**2).all(-1))


def _shared_areas(one: Array, others: Array) -> Array:
    """Areas that a convex outline (4, 2) shares with each of others (k, 4, 2)."""
    one = np.broadcast_to(one, others.shape)
    sides, other_sides = np.roll(one, -1, -2) - one, np.roll(others, -1, -2) - others
    gap = others[:, None, :, :] - one[:, :, None, :]
    slope = _cross(sides[:, :, None, :], other_sides[:, None, :, :])
    parallel = np.abs(slope) < 1e-12
    safe = np.where(parallel, 1, slope)
    s = _cross(gap, other_sides[:, None, :, :]) / safe
    t = _cross(gap, sides[:, :, None, :]) / safe
    met = ~parallel & (s >= 0) & (s <= 1) & (t >= 0) & (t <= 1)
    crossings = one[:, :, None, :] + s[..., None] * sides[:, :, None, :]
    points = np.concatenate([one, others, crossings.reshape(len(others), 16, 2)], 1)
    valid = np.concatenate([_inside(one, others), _inside(others, one), met.reshape(len(others), 16)], 1)
    count = valid.sum(1)
    centre = (points * valid[..., None]).sum(1) / np.maximum(count, 1)[:, None]
    around = points - centre[:, None]
    angle = np.where(valid, np.arctan2(around[..., 1], around[..., 0]), np.inf)
    order = np.argsort(angle, 1)
    sorted_points = np.take_along_axis(around, order[..., None], 1)
    sorted_valid = np.take_along_axis(valid, order, 1)[..., None]
    sorted_points = np.where(sorted_valid, sorted_points, sorted_points[:, :1])  # invalid points add no area
    return np.where(count > 2, np.abs(_cross(sorted_points, np.roll(sorted_points, -1, 1)).sum(1)) / 2, 0)


def _turned(boxes: Array, others: Array, corners: bool) -> tuple[Array, Array, Array]:
    """Shared areas (batch, n, k), and the areas of both, of boxes (batch, 5, n) and (batch, 5, k)."""
    shared, areas, other_areas = [], [], []
    for batch in range(len(boxes)):
        (outlines, area), (other_outlines, other_area) = (
            _outline(boxes[batch], corners),
            _outline(others[batch], corners),
        )
        rows = [_shared_areas(outline, other_outlines) * (other_area > 0) for outline in outlines]
        shared.append(np.stack(rows) * (area > 0)[:, None])
        areas.append(area[:, None])
        other_areas.append(other_area[None])
    return np.stack(shared), np.stack(areas), np.stack(other_areas)


@reference("RotatedOverlaps")
def rotated_overlaps(boxes: Array, others: Array, corners: bool) -> Array:
    return _turned(boxes, others, corners)[0]


@reference("RotatedIou")
def rotated_iou(boxes: Array, others: Array, corners: bool, mode: str) -> Array:
    """Each with each; ``iof`` is the share of the first box."""
    shared, area, other = _turned(boxes, others, corners)
    return np.asarray(shared / ((area if mode == "iof" else area + other - shared) + 1e-6))


def _centres(boxes: Array) -> tuple[Array, Array]:
    """Centres and sizes of (batch, 5, n); no side is shorter than 1."""
    sizes = np.maximum(boxes[:, 2:4] - boxes[:, :2], 1)
    return boxes[:, :2] + sizes / 2, sizes


def _tangent(angles: Array) -> Array:
    return np.asarray(np.tan(np.radians(angles)))


@reference("RotatedBoxEncode")
def rotated_box_encode(anchors: Array, truth: Array, weight: Sequence[float]) -> Array:
    (centre, size), (true_centre, true_size) = _centres(anchors), _centres(truth)
    turn = _tangent(truth[:, 4:]) - _tangent(anchors[:, 4:])
    deltas = np.concatenate([(true_centre - centre) / size, np.log(true_size / size), turn], 1)
    return np.asarray(deltas * _numbers(weight)[:, None])


@reference("RotatedBoxDecode")
def rotated_box_decode(anchors: Array, deltas: Array, weight: Sequence[float]) -> Array:
    deltas = deltas / _numbers(weight)[:, None]
    centre, size = _centres(anchors)
    centre, size = centre + deltas[:, :2] * size, np.exp(deltas[:, 2:4]) * size
    angle = np.degrees(np.arctan(_tangent(anchors[:, 4:]) + deltas[:, 4:]))
    return np.concatenate([centre - size / 2, centre + size / 2, angle], 1)


# --------------------------------------------------------------------------------------------- what training encodes, assigns


def _inclusive(boxes: Array) -> tuple[Array, Array]:
    """Centres and sizes of rows of corners whose last pixel belongs to them."""
    return (boxes[:, :2] + boxes[:, 2:]) / 2, boxes[:, 2:] - boxes[:, :2] + 1


@reference("Iou")
def iou(boxes: Array, truth: Array, mode: str, eps: float, aligned: bool) -> Array:
    """As aclnnIou, but each row of the result belongs to a box of the second list: (M, N) of N boxes and M true ones."""
    overlaps: Array = objdetect.iou(boxes, truth, mode, eps, aligned)
    return overlaps if aligned else overlaps.T


def _encoded(anchors: Array, truth: Array, means: Sequence[float], deviations: Sequence[float]) -> Array:
    """Each step in the data type of the boxes; the deviations as factors."""
    (centre, size), (true_centre, true_size) = _inclusive(anchors), _inclusive(truth)
    deltas = np.concatenate([(true_centre - centre) / size, np.log(true_size / size)], 1)
    return np.asarray(
        (deltas - _numbers(means).astype(anchors.dtype)) * (1 / _numbers(deviations)).astype(anchors.dtype)
    )


@reference("BoundingBoxEncode")
def bounding_box_encode(anchors: Array, truth: Array, means: Sequence[float], deviations: Sequence[float]) -> Array:
    """In FLOAT16, whatever the boxes are: npu_bounding_box_encode's document has 13.3281 for 4 / 3 / 0.1 of FLOATs."""
    return _encoded(anchors.astype(np.float16), truth.astype(np.float16), means, deviations).astype(np.float32)


@reference("BoundingBoxEncode", product="950")
def bounding_box_encode_950(anchors: Array, truth: Array, means: Sequence[float], deviations: Sequence[float]) -> Array:
    """In FLOAT, as the kernel of ops-cv."""
    return _encoded(anchors, truth, means, deviations)


@reference("BoundingBoxDecode")
def bounding_box_decode(
    rois: Array,
    deltas: Array,
    means: Sequence[float],
    deviations: Sequence[float],
    most: Sequence[int],
    clip: float,
) -> Array:
    """Sizes change by no more than the ratio ``clip``; corners are clipped to an image of height and width ``most``."""
    deltas = deltas * _numbers(deviations) + _numbers(means)
    ratio = np.float32(abs(np.log(clip)))
    centre, size = _inclusive(rois)
    centre, size = centre + deltas[:, :2] * size, size * np.exp(np.clip(deltas[:, 2:], -ratio, ratio))
    decoded = np.concatenate([centre - size / 2 + 0.5, centre + size / 2 - 0.5], 1)
    return np.clip(decoded, 0, _numbers([most[1], most[0]] * 2) - 1) if most else decoded


@reference("YoloBoxesEncode")
def yolo_boxes_encode(anchors: Array, truth: Array, stride: Array) -> Array:
    """The centre's place in its cell of the grid, and the logarithms of the sizes' ratios, kept within the kernel's limits."""
    least, most = np.float32(1e-6), np.float32(65504)
    offset = ((truth[:, :2] + truth[:, 2:]) - (anchors[:, :2] + anchors[:, 2:])) / 2 / stride[:, None]
    ratio = (truth[:, 2:] - truth[:, :2]) / (anchors[:, 2:] - anchors[:, :2])
    parts = [np.clip(offset + 0.5, least, 1 - least), np.log(np.clip(ratio, least, most))]
    return np.concatenate(parts, 1).astype(np.float32)


@reference("AnchorResponseFlags")
def anchor_response_flags(truth: Array, grid: Sequence[int], strides: Sequence[int], anchors: int) -> Array:
    """1 for every anchor of the cells that hold a box's centre."""
    cell = np.floor((truth[:, :2] + truth[:, 2:]) * (np.float32(0.5) / _numbers(strides)))
    if not ((cell >= 0) & (cell < [grid[1], grid[0]])).all():
        raise DataError("gt_bboxes", f"has a box whose centre is outside of the grid of {grid[0]} by {grid[1]} cells")
    column, row = cell.T.astype(np.int64)
    flags = np.zeros((grid[0] * grid[1], anchors), np.uint8)
    flags[row * grid[1] + column] = 1
    return flags.reshape(-1)


@reference("GridAssignPositive")
def grid_assign_positive(
    assigned: Array,
    overlaps: Array,
    flags: Array,
    highest: Array,
    best_truth: Array,
    truth_highest: Array,
    truth_best: Array,
    count: Array,
    threshold: float,
    least: float,
    every: bool,
) -> Array:
    """Anchors in charge get the number of the box that they overlap most, and each box its best anchor, or all of them."""
    if int(count.reshape(-1)[0]) > len(overlaps):
        raise DataError("num_gts", f"is {int(count.reshape(-1)[0])}; overlaps has {len(overlaps)} rows")
    assignment, charge = assigned.copy(), flags == 1
    assignment = np.where((highest > np.float32(threshold)) & charge, best_truth + 1, assignment).astype(assigned.dtype)
    for number in range(int(count.reshape(-1)[0])):
        if truth_highest[number] > np.float32(least):
            chosen = (
                (overlaps[number] == truth_highest[number])
                if every
                else np.arange(len(assignment)) == truth_best[number]
            )
            assignment[chosen & charge] = number + 1
    return assignment


@reference("ROIAlign")
def roi_align(x: Array, rois: Array, scale: float, height: int, width: int, samples: int, end_mode: int) -> Array:
    """As aclnnRoiAlignV2, with any kind of box."""
    features: Array = objdetect.align(x, rois[:, 1:], rois[:, 0], (height, width), scale, samples, end_mode)
    return features


# ------------------------------------------------------------------------------------------------------------- suppression


def _chosen(boxes: Array, order: Array, limit: float, most: int) -> list[int]:
    """In order, up to a number of them, the boxes (rows of corners) that overlap no chosen one more than the limit."""
    corners = boxes.T.astype(np.float32)
    chosen: list[int] = []
    areas = (corners[2:] - corners[:2]).prod(0)
    share = np.float32(limit / (1 + limit))
    while len(order) and len(chosen) < most:
        best, rest = order[0], order[1:]
        chosen.append(int(best))
        sides = np.minimum(corners[2:, rest], corners[2:, best, None]) - np.maximum(
            corners[:2, rest], corners[:2, best, None]
        )
        order = rest[np.maximum(sides, 0).prod(0) <= (areas[rest] + areas[best]) * share]
    return chosen


@reference("NMSWithMask")
def nms_with_mask(scored: Array, limit: float) -> tuple[Array, Array, Array]:
    """Rows of corners and scores, which come sorted, with their numbers and whether they are chosen."""
    mask = np.zeros(len(scored), np.uint8)
    mask[_chosen(scored[:, :4], np.arange(len(scored)), limit, len(scored))] = 1
    return scored, np.arange(len(scored), dtype=np.int32), mask


@reference("NonMaxSuppressionV4")
def non_max_suppression_v4(boxes: Array, scores: Array, most: Array, limit: Array, least: Array) -> tuple[Array, Array]:
    """The chosen boxes by their scores, filled up with 0, and how many there are; corners may come in any order."""
    low, high = np.minimum(boxes[:, :2], boxes[:, 2:]), np.maximum(boxes[:, :2], boxes[:, 2:])
    order = np.argsort(-scores, kind="stable")
    order = order[scores[order] > least.reshape(-1)[0]]
    size = int(most.reshape(-1)[0])
    chosen = _chosen(np.concatenate([low, high], 1), order, float(limit.reshape(-1)[0]), size)
    indices = np.zeros(size, np.int32)
    indices[: len(chosen)] = chosen
    return indices, np.asarray(len(chosen), np.int32)


@reference("BatchMultiClassNonMaxSuppression")
def batch_multi_class_nms(
    boxes: Array, scores: Array, least: float, limit: float, most_of_class: int, most: int
) -> tuple[Array, ...]:
    """For each image the boxes (batch, boxes, 1 or classes, 4) of the highest scores (batch, boxes, classes), 0 behind them."""
    batch, classes = len(boxes), scores.shape[-1]
    outputs = (
        np.zeros((batch, most, 4), np.float32),
        np.zeros((batch, most), np.float32),
        np.zeros((batch, most), np.float32),
    )
    counts = np.zeros(batch, np.int32)
    for image in range(batch):
        candidates: list[tuple[int, int]] = []
        for group in range(classes):
            class_scores = scores[image, :, group]
            order = np.argsort(-class_scores, kind="stable")
            order = order[class_scores[order] > np.float32(least)]
            corners = boxes[image, :, min(group, boxes.shape[2] - 1)]
            candidates += [(box, group) for box in _chosen(corners, order, limit, most_of_class)]
        candidates = sorted(candidates, key=lambda pair: -scores[(image, *pair)])[:most]
        counts[image] = len(candidates)
        for row, (box, group) in enumerate(candidates):
            outputs[0][image, row] = boxes[image, box, min(group, boxes.shape[2] - 1)]
            outputs[1][image, row], outputs[2][image, row] = scores[image, box, group], group
    return (*outputs, counts)
