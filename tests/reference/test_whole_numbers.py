"""Floats that become whole numbers: NaN and what no integer holds, which processors convert differently."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ascend_aclnn import catalog, ops
from ascend_aclnn.core.errors import DataError
from ascend_aclnn.reference import find, image
from ascend_aclnn.reference._rows import check_range, whole_within
from ascend_aclnn.reference.single.boxes import anchor_response_flags

FAR = [np.nan, np.inf, -np.inf, 1e30, -1e30]


def function(name: str) -> Any:
    found = find(catalog.get(name))
    assert found is not None
    return found.function


@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=str)
def test_whole_numbers_lie_within_their_range(dtype: Any) -> None:
    values = np.array([*FAR, 2.9, -0.5, 7.5], dtype)
    assert whole_within(values, 5).tolist() == [0, 5, 0, 5, 0, 2, 0, 5]
    assert whole_within(values[:4], 2**62).tolist() == [0, 2**62, 0, 2**62]


@pytest.mark.parametrize("high", [4, None])
def test_a_nan_among_indices_is_named(high: Any) -> None:
    with pytest.raises(DataError, match=r"element \[2\] is nan"):
        check_range("boxes", np.array([1, 2, np.nan, 3], np.float32), 0, high)


@pytest.mark.parametrize("value", FAR)
def test_regions_outside_the_image_are_zero(value: float) -> None:
    x = np.ones((1, 1, 4, 4), np.float32)
    boxes = np.array([[0, value, value, value, value], [0, 0, 0, 3, 3]], np.float32)
    with np.errstate(all="ignore"):
        regions = ops.roi_align_v2(x, boxes, 2, 2, 1.0, 2, False)
        values, places = function("aclnnRoiPoolingWithArgMax")(x, boxes, 2, 2, 1.0, 1.0)
    assert not regions[0].any()
    assert regions[1].all()
    assert not values[0].any()
    assert (places[0] == -1).all()


def test_regions_of_an_image_that_is_not_there_are_refused() -> None:
    x, rois = np.ones((1, 1, 4, 4), np.float32), np.array([[np.nan, 0, 0, 3, 3]], np.float32)
    pooled, places = np.ones((1, 1, 2, 2), np.float32), np.zeros((1, 1, 2, 2), np.int32)
    with pytest.raises(DataError, match=r"rois.*element \[0\] is nan"):
        function("aclnnRoiPoolingWithArgMax")(x, rois, 2, 2, 1.0, 1.0)
    with pytest.raises(DataError, match=r"rois.*element \[0\] is nan"):
        function("aclnnRoiPoolingGradWithArgMax")(pooled, x, rois, places, 2, 2, 1.0)


@pytest.mark.parametrize("value", FAR)
def test_places_outside_the_maps_count_as_zero(value: float) -> None:
    value_of_keys, weight = np.ones((1, 4, 1, 8), np.float32), np.ones((1, 32, 1, 1, 4), np.float32)
    location = np.full((1, 32, 1, 1, 4, 2), 0.5, np.float32)
    location[0, 0, ..., 0] = value
    shapes, starts = np.array([[2, 2]], np.int32), np.zeros(1, np.int32)
    with np.errstate(all="ignore"):
        sums = ops.multi_scale_deformable_attn_function(value_of_keys, shapes, starts, location, weight)
    assert not sums[0, 0].any()
    assert (sums[0, 1] == 4).all()


def test_positions_far_beyond_an_image_are_its_last_pixel() -> None:
    scale = 1e-35  # steps of 1e35 pixels
    single = np.dtype(np.float32)
    with np.errstate(all="ignore"):
        assert image.nearest(4, 3, 1 / scale, False).source[:, 0].tolist() == [0, 3, 3]
        assert (image.linear(4, 3, scale, False, single).source == 3).all()
        assert (image.cubic(4, 3, scale, False, single).source == 3).all()
    assert image.cubic(4, 8, 0, False, single).source[0].tolist() == [0, 0, 0, 1]


def test_triangles_far_from_the_screen_are_left_out() -> None:
    corners = np.array([[0, 0, 0, 1], [1, 0, 0, 1], [0, 1, 0, 1]], np.float32)
    far = corners * np.array([1e25, 1e25, 1, 1], np.float32) + np.array([1e25, 1e25, 0, 0], np.float32)
    faces = np.array([[0, 1, 2], [3, 4, 5], [6, 7, 8]], np.int32)
    vertices = np.concatenate([far, far * np.array([-1, -1, 1, 1], np.float32), corners * 2 - 1])
    vertices[6:, 2:] = 0, 1
    found, _ = function("aclnnRasterizer")(vertices, faces, None, 6, 5, 0.0, 0)
    assert set(found.reshape(-1).tolist()) == {0, 3}


@pytest.mark.parametrize("value", [*FAR, -1.0, 32.0])
def test_boxes_centred_outside_of_a_grid_are_refused(value: float) -> None:
    boxes = np.array([[0, 0, 8, 8], [0, value, 0, value]], np.float32)
    with pytest.raises(DataError, match=r"gt_bboxes.*outside of the grid of 2 by 4 cells"):
        anchor_response_flags(boxes, [2, 4], [16, 16], 1)
    assert anchor_response_flags(boxes[:1], [2, 4], [16, 16], 1).tolist() == [1, 0, 0, 0, 0, 0, 0, 0]
