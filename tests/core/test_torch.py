"""torch tensors on the host: as arguments, as outputs, shared with Tensors, and their dtypes."""

from __future__ import annotations

import subprocess
import sys
from types import FrameType
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ascend_aclnn as aclnn
from ascend_aclnn import ops
from ascend_aclnn.backends.interface import Backend

torch: Any = pytest.importorskip("torch", reason="torch is not installed: its tensors are not tested as arguments")

DTYPES = ["float32", "float64", "float16", "bfloat16", "int8", "uint8", "int16", "int32", "int64", "bool", "complex64"]


@pytest.mark.parametrize("name", [*DTYPES, "float8_e4m3fn", "float8_e5m2", "complex128", "uint16", "uint32", "uint64"])
def test_every_common_dtype_is_shared_both_ways(name: str) -> None:
    there = torch.arange(6).reshape(2, 3).to(getattr(torch, name))
    here = aclnn.from_torch(there)
    assert here.data_ptr == there.data_ptr() and here.shape == (2, 3)
    assert here.dtype == aclnn.core.dtypes.as_datatype(there.dtype)  # type: ignore[attr-defined]
    back = here.torch()
    assert back.dtype == there.dtype and back.data_ptr() == there.data_ptr()
    assert torch.equal(back.view(torch.uint8), there.view(torch.uint8))


def test_views_keep_their_strides_and_offset() -> None:
    base = torch.arange(24.0).reshape(4, 6)
    view = base[1:, ::2].t()
    here = aclnn.from_torch(view)
    assert here.strides == tuple(view.stride()) and here.offset == view.storage_offset()
    np.testing.assert_array_equal(here.numpy(), view.numpy())
    base.zero_()
    assert not here.numpy().any()


def test_a_torch_tensor_keeps_the_memory_of_the_tensor_it_came_from() -> None:
    there = aclnn.asarray(np.arange(1000, dtype=np.float32)).torch()
    aclnn.zeros((1000,), np.float32)
    assert there.sum() == 499500


def test_torch_tensors_in_give_torch_tensors_out(each_backend: Backend) -> None:
    x, gamma = torch.rand(4, 8, dtype=torch.bfloat16), torch.ones(8, dtype=torch.bfloat16)
    y, rstd = ops.rms_norm(x, gamma)
    assert y.dtype == torch.bfloat16 and isinstance(rstd, torch.Tensor) and rstd.shape == (4, 1)
    expected = torch.nn.functional.rms_norm(x.float(), (8,), gamma.float(), 1e-6)
    torch.testing.assert_close(y.float(), expected, atol=1e-2, rtol=1e-2)


def test_out_accepts_torch_tensors(each_backend: Backend) -> None:
    x = torch.tensor([-1.0, 2.0])
    out = torch.empty(2)
    result = ops.abs(x, out=out)
    assert result is out and out.tolist() == [1.0, 2.0]
    half = torch.empty(2, dtype=torch.bfloat16)
    assert ops.abs(x.bfloat16(), out=half) is half and half.tolist() == [1.0, 2.0]


def test_an_operator_in_place_changes_the_torch_tensor(each_backend: Backend) -> None:
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=torch.bfloat16)
    result = ops.inplace_add(x, torch.ones(2, dtype=torch.bfloat16), 1)
    assert result is x and x.tolist() == [[2.0, 3.0], [4.0, 5.0]]


def test_lists_of_torch_tensors_give_lists(each_backend: Backend) -> None:
    parts = [torch.ones(2), torch.zeros(2)]
    assert ops.cat(parts, 0).tolist() == [1, 1, 0, 0]
    assert [t.tolist() for t in ops.foreach_abs([torch.tensor([-1.0]), torch.tensor([-2.0])])] == [[1.0], [2.0]]


def test_dtype_arguments_accept_torch_dtypes(each_backend: Backend) -> None:
    assert ops.cast(torch.ones(2), torch.bfloat16).dtype == torch.bfloat16
    assert ops.cast(np.ones(2, np.float32), torch.bfloat16).dtype == ml_dtypes.bfloat16
    assert aclnn.empty((2,), torch.float8_e4m3fn).dtype is aclnn.DataType.FLOAT8_E4M3FN


def test_torch_tensors_that_require_gradients_are_refused_with_what_to_write(each_backend: Backend) -> None:
    x = torch.tensor([-1.0], requires_grad=True)
    for call in (lambda: ops.abs(x), lambda: ops.cat([x.detach(), x]), lambda: ops.abs(x.detach(), out=x)):
        with pytest.raises(TypeError, match=r"requires grad.*torch\.no_grad\(\),( or)? pass x\.detach\(\)"):
            call()
    with torch.no_grad():
        assert ops.abs(x).tolist() == [1.0]
    assert ops.abs(x.detach()).tolist() == [1.0]


def test_asarray_copies_a_torch_tensor(each_backend: Backend) -> None:
    there = torch.ones(3, dtype=torch.bfloat16)
    here = aclnn.asarray(there)
    there.zero_()
    assert here.dtype is aclnn.DataType.BF16 and here.numpy().tolist() == [1, 1, 1]


def test_what_is_ambiguous_is_refused_with_what_to_write(each_backend: Backend) -> None:
    x = torch.ones(2)
    with pytest.raises(TypeError, match="from_torch"):
        ops.add(x, aclnn.asarray(np.ones(2, np.float32)), 1)
    with pytest.raises(TypeError, match="leave stream out"):
        ops.abs(x, stream=aclnn.current_stream())
    with pytest.raises(TypeError, match="it must be a torch"):
        aclnn.from_torch(np.ones(2))
    with pytest.raises(TypeError, match="cpu and meta; they must be on one device"):
        ops.add(x, torch.empty(2, device="meta"))
    with pytest.raises(BufferError, match="sparse"):
        aclnn.core.torch_interop.describe(torch.ones(2).to_sparse())  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match="no dtype for INT4"):
        aclnn.empty((2,), aclnn.DataType.INT4).torch()


def test_torch_stream_on_the_numpy_backend_is_the_default_stream() -> None:
    stream = aclnn.torch_stream()
    with stream:
        assert ops.abs(aclnn.asarray(np.array([-1.0], np.float32))).numpy() == 1


def test_a_tensor_that_torch_npu_keeps_in_a_blocked_format() -> None:
    from ascend_aclnn.core import torch_interop

    shape = (32, 40)
    assert torch_interop._private_format(2, shape, aclnn.DataType.FLOAT16) == (None, None)
    found = torch_interop._private_format(29, shape, aclnn.DataType.FLOAT16)
    assert found == (aclnn.Format.FRACTAL_NZ, (3, 2, 16, 16))
    with pytest.raises(BufferError, match="NC1HWC0"):
        torch_interop._private_format(3, shape, aclnn.DataType.FLOAT16)


@pytest.mark.parametrize("name", ["float32", "bfloat16"])
def test_a_call_that_came_before_looks_nothing_up(name: str) -> None:
    x, entered = torch.ones(4, dtype=getattr(torch, name)), []

    def note(frame: FrameType, event: str, argument: object) -> None:
        entered.append(frame.f_code.co_name)

    ops.abs(x)
    sys.setprofile(note)
    try:
        ops.abs(x)
    finally:
        sys.setprofile(None)
    assert "call_with_torch" in entered
    assert not {"import_module", "_name_get"} & set(entered)  # no module, and no name of a NumPy dtype


def test_nothing_imports_torch() -> None:
    code = (
        "import sys, numpy as np, ascend_aclnn as a; from ascend_aclnn import ops\n"
        "ops.abs(a.asarray(np.ones(2, np.float32))); ops.add(np.ones(2), np.ones(2), 1)\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
