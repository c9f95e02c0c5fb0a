"""Operators that change the description of the caller's aclTensors: the next call must not see it."""

from __future__ import annotations

import ctypes
import json
import re
from pathlib import Path

import numpy as np
from emulator_client import Cann, client, int64s

import ascend_aclnn as aclnn
from ascend_aclnn import catalog, ops
from ascend_aclnn.backends.npu.backend import NpuBackend

ROOT = Path(__file__).parents[3]
TRAITS = json.loads((catalog.DATA.parent / "traits.json").read_text(encoding="utf-8"))


def dtype_of(cann: Cann, handle: int) -> int:
    found = ctypes.c_int32()
    cann.aclGetDataType(handle, ctypes.byref(found))
    return found.value


# ------------------------------------------------------------------------------------------ the emulated device


@client()
def test_phase_one_changes_the_dtype_of_the_callers_tensor(cann: Cann) -> None:
    scale, out = cann.tensor(np.ones(16, np.float32)), cann.tensor(np.zeros(16, np.int64))
    assert dtype_of(cann, out.handle) == aclnn.DataType.INT64
    cann.run("aclnnTransQuantParamV2", scale, None, out)
    assert dtype_of(cann, out.handle) == aclnn.DataType.UINT64


@client()
def test_an_aclTensor_that_was_changed_is_refused_the_next_time(cann: Cann) -> None:
    x1, x2 = cann.tensor(np.ones((16, 32), np.int8)), cann.tensor(np.ones((32, 16), np.int8))
    scale, out = cann.tensor(np.ones(16, np.uint64)), cann.tensor(np.zeros((16, 16), np.float16))
    arguments = (x1, x2, None, scale, False, False, out)
    executor, _ = cann.prepare("aclnnQuantMatmulV2", *arguments)
    cann.aclDestroyAclOpExecutor(executor)
    size, again = ctypes.c_uint64(), ctypes.c_void_p()
    handles = [getattr(a, "handle", a) for a in arguments]
    error = cann.failure("aclnnQuantMatmulV2GetWorkspaceSize", *handles, ctypes.byref(size), ctypes.byref(again))
    assert error.status == 161002


@client()
def test_pooling_to_the_mean_takes_the_format_away(cann: Cann) -> None:
    x = cann.tensor(np.ones((2, 3, 4, 4), np.float32), format=aclnn.Format.NCHW)
    out = cann.tensor(np.zeros((2, 3, 1, 1), np.float32), format=aclnn.Format.NCHW)
    size = cann.aclCreateIntArray(int64s([1, 1]), 2)
    cann.run("aclnnAdaptiveAvgPool2d", x, size, out)
    cann.aclDestroyIntArray(size)
    found = ctypes.c_int32()
    cann.aclGetFormat(x.handle, ctypes.byref(found))
    assert found.value == aclnn.Format.ND


@client()
def test_a_gradients_dtype_becomes_the_results(cann: Cann) -> None:
    gradient, y = cann.tensor(np.ones((1, 1, 8, 32), np.float16)), cann.tensor(np.ones((1, 1, 8, 32), np.float16))
    mask, out = cann.tensor(np.zeros((1, 1, 8, 32), np.bool_)), cann.tensor(np.zeros((1, 1, 8, 32), np.float32))
    executor, _ = cann.prepare("aclnnScaledMaskedSoftmaxBackward", gradient, y, mask, 1.0, False, out)
    cann.aclDestroyAclOpExecutor(executor)
    assert dtype_of(cann, out.handle) == aclnn.DataType.FLOAT16


def test_what_the_emulated_device_rewrites_is_a_parameter_that_the_traits_name(emulator_home: Path) -> None:
    source = (ROOT / "ascend_aclnn/emulator/csrc/nnopbase/rewriting.c").read_text(encoding="utf-8")
    rows = re.findall(r'\{"(aclnn\w+)", "(\w+)", [A-Z_]+\}', source)
    assert len(rows) > 40
    for name, parameter in rows:
        assert name in TRAITS["rewrites_arguments"]["operators"], name
        assert parameter in catalog.get(name).positions, (name, parameter)


# ------------------------------------------------------------------------------------------ the npu backend


def test_packed_weights_can_be_given_again(npu: NpuBackend) -> None:
    """GroupedMatmulV4 makes INT4 tensors of eight times the columns of its INT32 ones."""
    weight = aclnn.asarray(np.full((2, 16, 4), 0x11111111, np.int32))
    x = aclnn.asarray(np.ones((8, 16), np.float16))
    scale, offset = aclnn.asarray(np.ones((2, 32), np.float16)), aclnn.asarray(np.zeros((2, 32), np.float16))
    groups = aclnn.asarray(np.array([4, 8], np.int64))
    for _ in range(2):
        actual = ops.grouped_matmul_v4(
            [x], [weight], antiquant_scale=[scale], antiquant_offset=[offset],
            group_list=groups, split_item=3, group_type=0, group_list_type=0, act_type=0,
        )  # fmt: skip
        np.testing.assert_array_equal(actual[0][0].numpy(), np.full((8, 32), 16, np.float16))
    assert weight.shape == (2, 16, 4) and weight.dtype == np.int32


def test_a_pooled_image_keeps_its_format(npu: NpuBackend) -> None:
    x = aclnn.asarray(np.ones((2, 3, 4, 4), np.float32), format="NCHW")
    for _ in range(2):
        assert (ops.adaptive_avg_pool2d(x, [1, 1]).numpy() == 1).all()
    assert x.format == aclnn.Format.NCHW


def test_a_tensor_can_be_given_again_to_an_operator_that_changes_it(npu: NpuBackend) -> None:
    x1, x2 = aclnn.asarray(np.ones((16, 32), np.int8)), aclnn.asarray(np.ones((32, 16), np.int8))
    scale = aclnn.asarray(np.ones(16, np.uint64))
    out = aclnn.empty((16, 16), np.float16)
    for _ in range(2):
        with aclnn.Executor("aclnnQuantMatmulV2", x1, x2, None, scale, False, False, out):
            pass
    assert scale.shape == (16,)


def test_an_output_whose_dtype_an_operator_changes_keeps_its_own(npu: NpuBackend) -> None:
    scale = aclnn.asarray(np.arange(1, 17, dtype=np.float32))
    out = aclnn.empty((16,), np.int64)
    for _ in range(2):
        ops.trans_quant_param_v2(scale, None, out=out)
    doubled = ops.add(out, out, 1)  # an operator that shares the Tensor's aclTensor: it must be INT64 still
    assert doubled.dtype == np.int64
    np.testing.assert_array_equal(doubled.numpy(), 2 * out.numpy())


def test_data_dependent_outputs_of_an_executor_leave_the_tensor_as_it_was(npu: NpuBackend) -> None:
    x, mask = aclnn.asarray(np.arange(6, dtype=np.float32)), aclnn.asarray(np.arange(6) % 2 == 0)
    out = aclnn.zeros((6,), np.float32)
    ops.abs(out, out=out)  # now the Tensor keeps an aclTensor
    executor = aclnn.Executor("aclnnMaskedSelect", x, mask, out)
    executor.run()
    executor.close()
    aclnn.synchronize()
    assert ops.abs(out).numpy().shape == (6,)
    assert ops.masked_select(x, mask).shape == (3,)


def test_unknown_operators_get_fresh_aclTensors(npu: NpuBackend) -> None:
    known = catalog.get("aclnnAbs")
    assert known.keeps_arguments
    assert not catalog.get("aclnnQuantMatmulV2").keeps_arguments
    vendor = aclnn.register_operator(
        "aclnnStatus aclnnVendorThingGetWorkspaceSize(const aclTensor *x, aclTensor *out, "
        "uint64_t *workspaceSize, aclOpExecutor **executor);"
    )
    assert not vendor.keeps_arguments


def test_the_operators_of_the_traits_exist() -> None:
    trait = TRAITS["rewrites_arguments"]
    assert set(trait["operators"]) < set(catalog.names())
    assert set(trait["arguments"]) == set(trait["operators"])
    assert all(len(commit) == 40 for commit in trait["source"].values())
    unread = set(TRAITS["source_not_read"]["operators"])
    assert not unread & set(trait["operators"]) and unread < set(catalog.names())
