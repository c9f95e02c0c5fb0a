"""Nothing reaches outside a storage, and what no host could hold is an error with a name, on either backend."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import ascend_aclnn as aclnn
from ascend_aclnn import ops
from ascend_aclnn.backends.interface import Backend

OUTSIDE: list[tuple[tuple[int, ...], tuple[int, ...], int]] = [
    ((8,), (1,), 1),
    ((8,), (1,), -1),
    ((2,), (1 << 62,), 0),
    ((2,), (1,), 1 << 61),
    ((2,), (1,), -(1 << 62)),
    ((2,), (-9,), 8),
    ((2, 2), ((1 << 63) - 1, (1 << 63) - 1), 2),
]


@pytest.mark.parametrize(("shape", "strides", "offset"), OUTSIDE)
def test_views_stay_in_their_storage(
    each_backend: Backend, shape: Sequence[int], strides: Sequence[int], offset: int
) -> None:
    x = aclnn.asarray(np.arange(8, dtype=np.float32))
    with pytest.raises(ValueError, match="reaches elements"):
        x.view(shape, strides, offset)
    assert x.view((8,), (-1,), 7).numpy().tolist() == list(range(7, -1, -1))


def test_views_of_an_empty_storage_have_no_elements(each_backend: Backend) -> None:
    empty = aclnn.empty((0,), np.float32)
    with pytest.raises(ValueError, match="the storage has 0"):
        empty.view((1024,), (1,), 0)
    with pytest.raises(ValueError, match="the storage has 0"):
        ops.abs(np.ones(65536, np.float32), out=empty.view((65536,), (1,), 0))
    assert empty.view((0,), (1,), 0).shape == (0,)


def test_views_of_packed_types_are_counted_in_elements(each_backend: Backend) -> None:
    packed = aclnn.empty((8,), aclnn.DataType.INT4)
    for shape, offset in (((16,), 0), ((8,), 1)):
        with pytest.raises(ValueError, match="the storage has 8"):
            packed.view(shape, (1,), offset)
    assert packed.view((4,), (2,), 1).shape == (4,)


def test_borrowed_memory_has_an_address(each_backend: Backend) -> None:
    values = np.zeros(4, np.float32)
    for pointer, keywords in (
        (0, {}),
        (-8, {}),
        (values.ctypes.data, {"offset": 1 << 61}),
        (values.ctypes.data, {"offset": -(1 << 62)}),
        (values.ctypes.data, {"strides": (1 << 61,)}),
    ):
        with pytest.raises(ValueError, match=r"ptr is|reaches elements"):
            aclnn.Tensor.from_pointer(pointer, (4,), np.float32, **keywords)


def test_what_no_host_can_hold_is_a_full_device() -> None:
    with aclnn.use_backend("numpy"):
        x = np.ones((3, 1, 2), np.float32)
        for call in (
            lambda: aclnn.zeros((1 << 60,), np.float32),
            lambda: ops.repeat(x[0, 0], [1 << 62]),
            lambda: ops.repeat(x[0, 0], [1 << 33, 1 << 31]),
            lambda: ops.expand(x[0, 0, :1], [1 << 62]),
            lambda: ops.upsample_nearest1d_v2(x, [1 << 62], 0.5),
        ):
            with pytest.raises(aclnn.AclError) as error:
                call()
            assert error.value.status == 207001
        for call, argument in (
            (lambda: ops.topk(x, 1 << 62, -1, True, True), "k"),
            (lambda: ops.upsample_linear1d(x, [1], False, float("inf")), "scales"),
        ):
            with pytest.raises(aclnn.AclError, match=argument) as error:
                call()
            assert error.value.status == 161002
