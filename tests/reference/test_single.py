"""References of single operators, called as they are, against what CANN's kernels for them compute."""

from __future__ import annotations

import numpy as np
import pytest

from ascend_aclnn.core.errors import DataError
from ascend_aclnn.reference.single import boxes, norms, plain


def test_a_row_of_iou_for_each_true_box() -> None:
    some = np.array([[0, 0, 10, 10], [5, 5, 15, 15], [0, 0, 20, 10]], np.float32)
    truth = np.array([[0, 0, 10, 10], [0, 0, 20, 20]], np.float32)
    expected = np.array([[1, 25 / 175, 0.5], [0.25, 0.25, 0.5]])
    np.testing.assert_allclose(boxes.iou(some, truth, "iou", 0.0, False), expected, rtol=1e-6)
    by_truth = np.array([[1, 0.25, 1], [0.25, 0.25, 0.5]])  # "iof" divides by the true box
    np.testing.assert_allclose(boxes.iou(some, truth, "iof", 0.0, False), by_truth, rtol=1e-6)
    np.testing.assert_allclose(boxes.iou(some[:2], truth, "iou", 0.0, True), [[1], [0.25]], rtol=1e-6)


def test_the_gradient_of_the_largest_difference_allows_for_a_rounded_distance() -> None:
    """The kernel masks differences below the distance; a distance of FLOAT16 may lie below the difference."""
    x1, x2 = np.array([[[2.001, 0.5]]]), np.zeros((1, 1, 2))
    found = plain.cdist_grad(np.ones((1, 1, 2)), x1, x2, np.full((1, 1, 2), 2.0), -1.0)
    assert found.tolist() == [[1, 0]]


def test_norms_of_a_number() -> None:
    for axes in ([], [0], [-1]):
        assert plain.lp_norm_reduce(np.array(-3.0), 2.0, axes, False) == 9
        assert plain.lp_norm_reduce(np.array(-3.0), float(2**31), axes, True) == 3


@pytest.mark.parametrize("kind", ["per_feature", "all_features"])
def test_steps_behind_the_length_are_normalised_by_those_before(kind: str) -> None:
    x = np.random.default_rng(0).standard_normal((2, 3, 6))
    found = norms.normalize_batch(x, np.array([4, 6], np.int32), kind, 1e-5)
    for sample, length in enumerate((4, 6)):
        for feature in range(3):
            counted = x[sample, feature, :length] if kind == "per_feature" else x[sample, :, :length]
            expected = (x[sample, feature] - counted.mean()) / (counted.std(ddof=1) + 1e-5)
            np.testing.assert_allclose(found[sample, feature], expected, rtol=1e-5)


def test_more_true_boxes_than_overlaps_are_refused() -> None:
    one = np.ones(4, np.float32)
    with pytest.raises(DataError, match="num_gts: is 3; overlaps has 2 rows"):
        boxes.grid_assign_positive(
            one, np.ones((2, 4)), one, one, one, np.ones(2), np.ones(2), np.array([3]), 0.5, 0.1, True
        )


def test_offsets_of_boxes_are_halves_but_for_950() -> None:
    """The document of npu_bounding_box_encode prints these for boxes of FLOAT; the kernel of ops-cv (950) takes FLOAT."""
    anchors = np.array([[1, 2, 3, 4], [3, 4, 5, 6]], np.float32)
    truth = np.array([[5, 6, 7, 8], [7, 8, 9, 6]], np.float32)
    attributes = [0.0] * 4, [0.1, 0.1, 0.2, 0.2]
    with np.errstate(invalid="ignore"):  # as the backend has it
        halves = boxes.bounding_box_encode(anchors, truth, *attributes)
        exact = boxes.bounding_box_encode_950(anchors, truth, *attributes)
    wanted = [[13.328125, 13.328125, 0, 0], [13.328125, 6.6640625, 0, np.nan]]
    np.testing.assert_array_equal(halves, np.array(wanted, np.float32))
    np.testing.assert_allclose(exact, [[40 / 3, 40 / 3, 0, 0], [40 / 3, 20 / 3, 0, np.nan]], rtol=1e-6)
