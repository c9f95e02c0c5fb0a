"""DLPack on the NumPy backend: memory is shared in both directions and released exactly once."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ascend_aclnn as aclnn
from ascend_aclnn.core import dlpack

DTYPES = [np.float32, np.float16, np.int64, np.uint8, np.bool_, np.complex64, ml_dtypes.bfloat16, ml_dtypes.float8_e5m2]


@pytest.fixture(autouse=True)
def on_numpy() -> Iterator[None]:
    with aclnn.use_backend("numpy"):
        yield


class Capsule:
    """A consumer's view of an exported tensor: an object that hands the capsule on once."""

    def __init__(self, tensor: aclnn.Tensor) -> None:
        self.tensor = tensor

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.tensor.__dlpack_device__()

    def __dlpack__(self, **options: Any) -> Any:
        return self.tensor.__dlpack__()


class Copied(Capsule):
    def __dlpack__(self, **options: Any) -> Any:
        return self.tensor.__dlpack__(copy=True)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_tensor_goes_out_and_comes_back_over_the_same_memory(dtype: Any) -> None:
    tensor = aclnn.asarray(np.arange(12).reshape(3, 4).astype(dtype))
    view = tensor[1:, ::2].T
    back = aclnn.from_dlpack(Capsule(view))
    assert (back.shape, back.strides, back.dtype) == (view.shape, view.strides, view.dtype)
    np.testing.assert_array_equal(back.numpy(), view.numpy())
    tensor.assign(1)
    np.testing.assert_array_equal(back.numpy(), np.ones((2, 2), dtype))


@pytest.mark.parametrize("dtype", [np.float32, np.int64, ml_dtypes.bfloat16])
def test_an_array_is_shared(dtype: Any) -> None:
    array = np.arange(6).reshape(2, 3).astype(dtype)
    tensor = aclnn.from_dlpack(array[:, 1:])
    array[...] = 7
    np.testing.assert_array_equal(tensor.numpy(), np.full((2, 2), 7, dtype))


def test_numpy_takes_a_tensor() -> None:
    tensor = aclnn.asarray(np.arange(4, dtype=np.float32))
    array = np.from_dlpack(tensor)
    tensor.assign(3)
    np.testing.assert_array_equal(array, [3, 3, 3, 3])


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
@pytest.mark.parametrize("taken", [True, False], ids=["taken", "left in the capsule"])
def test_an_exported_tensor_is_released_once(dtype: Any, taken: bool) -> None:
    tensor = aclnn.asarray(np.ones(4, dtype))
    storage = weakref.ref(tensor.storage)
    keeper: Any = aclnn.from_dlpack(Capsule(tensor)) if taken else tensor.__dlpack__()
    del tensor
    gc.collect()
    assert storage() is not None
    del keeper
    gc.collect()
    dlpack.release_unused()  # what the next export does
    assert storage() is None
    assert not dlpack._exported


def test_an_imported_array_is_kept_as_long_as_a_view_lives() -> None:
    array = np.ones((4, 4), np.float32)
    gone = weakref.ref(array)
    view = aclnn.from_dlpack(array)[2:]
    del array
    gc.collect()
    assert gone() is not None
    np.testing.assert_array_equal(view.numpy(), np.ones((2, 4), np.float32))
    del view
    gc.collect()
    assert gone() is None


def test_what_cannot_be_shared_says_why() -> None:
    fixed = np.ones(3, np.float32)
    fixed.flags.writeable = False
    with pytest.raises(BufferError, match="read-only"):
        aclnn.from_dlpack(fixed)
    with pytest.raises(BufferError, match="negative"):
        aclnn.from_dlpack(np.ones(3, np.float32)[::-1])
    with pytest.raises(BufferError, match="FRACTAL_NZ"):
        aclnn.empty((16, 16), np.float32, format="FRACTAL_NZ").__dlpack__()
    with pytest.raises(BufferError, match="INT4"):
        aclnn.empty(4, ml_dtypes.int4).__dlpack__()
    copied = np.from_dlpack(Copied(aclnn.asarray(np.ones(4, np.float32))))
    np.testing.assert_array_equal(copied, np.ones(4))
    with pytest.raises(BufferError, match="not on"):
        aclnn.asarray(np.ones(4, np.float32)).__dlpack__(dl_device=(2, 0))

    class Elsewhere:
        def __dlpack_device__(self) -> tuple[int, int]:
            return 2, 0

    with pytest.raises(BufferError, match=r"\(2, 0\)"):
        aclnn.from_dlpack(Elsewhere())


def test_torch_shares_both_ways() -> None:
    torch = pytest.importorskip("torch")
    tensor = aclnn.asarray(np.arange(6).reshape(2, 3).astype(ml_dtypes.bfloat16))
    there = torch.from_dlpack(tensor)
    assert there.dtype == torch.bfloat16 and there.tolist() == [[0, 1, 2], [3, 4, 5]]
    there += 1
    np.testing.assert_array_equal(tensor.numpy().astype(int), [[1, 2, 3], [4, 5, 6]])
    here = aclnn.from_dlpack(torch.ones(3, dtype=torch.bfloat16))
    np.testing.assert_array_equal(here.numpy(), np.ones(3, ml_dtypes.bfloat16))
