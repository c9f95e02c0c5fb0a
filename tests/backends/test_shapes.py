"""The shapes backend: shapes and refusals of a program, no memory and no arithmetic."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import ascend_aclnn as aclnn
from ascend_aclnn import AclError, ops


def step(x: aclnn.Tensor, gamma: aclnn.Tensor, weight: aclnn.Tensor) -> aclnn.Tensor:
    y, _ = ops.rms_norm(x, gamma)
    return ops.silu(ops.mm(y, weight)) + 1


def test_a_step_at_real_size_has_its_shapes_and_takes_no_memory() -> None:
    with aclnn.shapes_only("Ascend910B1") as calls:
        tokens, hidden = 1 << 20, 1 << 20
        x = aclnn.empty((tokens, hidden), "bfloat16")  # 2 TB
        out = step(x, aclnn.ones(hidden, "bfloat16"), aclnn.empty((hidden, 4096), "bfloat16"))
        assert (out.shape, out.dtype.name) == ((tokens, 4096), "BF16")
        statistics = aclnn.memory_statistics()
        assert statistics.used == x.nbytes + out.nbytes
        assert statistics.peak_used > statistics.used
    assert [str(call) for call in calls] == [
        "aclnnRmsNorm: x BF16 (1048576, 1048576), gamma BF16 (1048576,) -> y BF16 (1048576, 1048576), rstd FLOAT (1048576, 1)",
        "aclnnMm: self BF16 (1048576, 1048576), mat2 BF16 (1048576, 4096) -> out BF16 (1048576, 4096)",
        "aclnnSilu: self BF16 (1048576, 4096) -> out BF16 (1048576, 4096)",
        "aclnnAdds: self BF16 (1048576, 4096) -> out BF16 (1048576, 4096)",
    ]


def test_a_call_is_refused_as_on_the_product() -> None:
    def call() -> None:
        x = aclnn.empty((4, 8), "bfloat16")
        ops.rms_norm(x, aclnn.empty(8, "bfloat16"))

    with aclnn.shapes_only("Ascend910B1"):
        call()
    with aclnn.shapes_only("Ascend310P3"), pytest.raises(AclError) as caught:
        call()
    assert caught.value.status == 161002 and caught.value.argument == "x" and "Ascend310P3" in str(caught.value)
    with aclnn.use_backend("numpy", "Ascend310P3"), pytest.raises(AclError) as on_numpy:
        call()
    assert str(on_numpy.value) == str(caught.value)


def test_values_are_taken_and_cannot_be_read() -> None:
    with aclnn.shapes_only() as calls:
        x = aclnn.asarray(np.arange(6.0, dtype=np.float32).reshape(2, 3))
        assert repr(x) == "Tensor(shape=(2, 3), FLOAT, shapes:0)"
        x[0] = 1.0
        for read in (x.numpy, x.tolist, lambda: float(x[0, 0]), lambda: x.data_ptr, lambda: np.asarray(x)):
            with pytest.raises(TypeError, match="has a shape and a dtype; it has no values"):
                read()
    assert calls == []


def test_arrays_and_tensors_of_other_backends_are_arguments() -> None:
    with aclnn.use_backend("numpy"):
        weight = aclnn.ones((3, 4), "float32")
    with aclnn.shapes_only():
        out = ops.mm(np.ones((2, 3), np.float32), weight)
        assert isinstance(out, aclnn.Tensor) and out.shape == (2, 4)
        assert ops.exp(np.ones(3, np.float32)).shape == (3,)
        assert ops.exp(weight, out=aclnn.empty((3, 4), "float32")).shape == (3, 4)
    np.testing.assert_array_equal(weight.numpy(), np.ones((3, 4)))


def test_operators_in_place_without_a_reference_and_with_shapes_that_depend_on_data() -> None:
    with aclnn.shapes_only() as calls:
        x = aclnn.empty((2, 3), "float32")
        assert ops.inplace_relu(x).shape == (2, 3)
        assert ops.nonzero(x).shape == (6, 2)
        executor = aclnn.Executor("aclnnRelu", x, aclnn.empty((2, 3), "float32"))
        executor.run()
        executor.close()
    assert [call.operator for call in calls] == ["aclnnInplaceRelu", "aclnnNonzero", "aclnnRelu"]


def test_a_memory_limit_refuses_what_a_card_could_not_hold() -> None:
    with aclnn.shapes_only():
        aclnn.set_memory_limit(1 << 20)
        kept = aclnn.empty(1 << 17, "float32")
        with pytest.raises(AclError, match="limit 1048576"):
            aclnn.empty(1 << 18, "float32")
        del kept
        aclnn.empty(1 << 18, "float32")


def test_ranks_need_another_backend() -> None:
    with aclnn.shapes_only(), pytest.raises(TypeError, match="does not communicate"):
        aclnn.Communicator.from_root_info(aclnn.Communicator.root_info(), 0, 1)


def test_chosen_by_name_and_by_environment() -> None:
    with aclnn.use_backend("shapes", "Ascend310P3") as backend:
        assert (backend.name, backend.soc) == ("shapes", "Ascend310P3")
        assert ops.relu(aclnn.empty(3, "float16")).shape == (3,)
    text = "import ascend_aclnn as a; print(a.ops.relu(a.empty(3, 'float32')))"
    environment = {"ASCEND_ACLNN_BACKEND": "shapes", "PATH": "/usr/bin:/bin"}
    result = subprocess.run([sys.executable, "-c", text], env=environment, capture_output=True, text=True, check=True)
    assert result.stdout == "Tensor(shape=(3,), FLOAT, shapes:0)\n"


def test_meta_tensors_of_torch_get_meta_tensors() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    x = torch.empty(4096, 7168, dtype=torch.bfloat16, device="meta")
    y, rstd = ops.rms_norm(x, torch.empty(7168, dtype=torch.bfloat16, device="meta"))
    assert (y.shape, y.dtype, y.device.type) == (x.shape, x.dtype, "meta")
    assert (rstd.shape, rstd.dtype) == ((4096, 1), torch.float32)
    assert ops.inplace_relu(y) is y
    with pytest.raises(AclError, match="gamma has shape"):
        ops.rms_norm(x, torch.empty(3, dtype=torch.bfloat16, device="meta"))
    from torch._subclasses import FakeTensorMode

    with FakeTensorMode():
        assert ops.exp(torch.ones(4096, 7168)).shape == (4096, 7168)
    with aclnn.shapes_only() as calls:  # tensors with values too
        assert ops.exp(torch.ones(3)).shape == (3,)
    assert len(calls) == 1
