"""What clients other than aclnn's link against: descriptions, attributes, compiler options, the newer name of the runtime."""

from __future__ import annotations

import ctypes
import os
from typing import Any

import numpy as np
from emulator_client import Cann, client, int64s

from ascend_aclnn.core.dtypes import as_datatype


def library(name: str) -> Any:
    return ctypes.CDLL(os.path.join(os.environ["LD_LIBRARY_PATH"].split(os.pathsep)[0], name))


@client()
def test_descriptions_keep_what_they_are_given(cann: Cann) -> None:
    desc = cann.aclCreateTensorDesc(0, 3, int64s((2, 3, 4)), 2)
    assert cann.aclGetTensorDescType(desc) == 0
    assert cann.aclGetTensorDescFormat(desc) == 2
    assert cann.aclGetTensorDescNumDims(desc) == 3
    assert cann.aclGetTensorDescElementCount(desc) == 24
    assert cann.aclGetTensorDescSize(desc) == 96
    size = ctypes.c_int64()
    cann.aclGetTensorDescDimV2(desc, 1, ctypes.byref(size))
    assert size.value == 3
    assert cann.failure("aclGetTensorDescDimV2", desc, 3, ctypes.byref(size)).status == 100000
    cann.aclSetTensorDescName(desc, b"x")
    assert cann.aclGetTensorDescName(desc) == b"x"
    cann.aclSetTensorFormat(desc, 29)
    cann.aclSetTensorShape(desc, 2, int64s((6, 4)))
    cann.aclSetTensorPlaceMent(desc, 1)
    assert cann.aclGetTensorDescFormat(desc) == 2, "the storage's format is another matter"
    assert cann.live("tensor_desc") == 1
    cann.aclDestroyTensorDesc(desc)
    assert cann.live("tensor_desc") == 0
    assert cann.failure("aclSetTensorFormat", desc, 2).error == "EMULATOR_USE_AFTER_DESTROY"


@client()
def test_running_a_single_operator_is_refused_by_its_name(cann: Cann) -> None:
    runtime, compiler = library("libascendcl.so"), library("libacl_op_compiler.so")
    runtime.aclopCreateAttr.restype = ctypes.c_void_p
    attributes = ctypes.c_void_p(runtime.aclopCreateAttr())
    assert runtime.aclopSetAttrInt(attributes, b"axis", ctypes.c_int64(1)) == 0
    assert runtime.aclopSetAttrString(attributes, b"mode", None) == 100000
    assert runtime.aclopSetAttrListInt(attributes, b"axes", 2, int64s((0, 1))) == 0
    nothing = (0, None, None, 0, None, None, attributes)
    assert compiler.aclopCompileAndExecute(b"DynamicRNN", *nothing, 0, 0, None, None) == 200006
    assert cann.message() == "EMULATOR_NOT_SUPPORTED: DynamicRNN: no aclnn operator stands for DynamicRNN"
    assert runtime.aclopExecuteV2(b"Identity", *nothing, None) == 200006
    assert "0 inputs and 0 outputs are not what Identity has" in cann.message()
    assert cann.message() == "", "a message is read once"
    runtime.aclopDestroyAttr(attributes)
    assert compiler.aclopCompile(b"Abs") != 0
    assert "aclopCompile: the emulator lacks this function" in cann.message()


class Single:
    """Runs single operators as torch_npu does."""

    def __init__(self, cann: Cann) -> None:
        self.cann, self.runtime, self.compiler = cann, library("libascendcl.so"), library("libacl_op_compiler.so")
        self.runtime.aclopCreateAttr.restype = ctypes.c_void_p

    def item(self, tensor: Any, format: int = 2, storage: Any = None) -> tuple[int, int]:
        """Description and buffer of a tensor in device memory, or, of an array, of a constant."""
        array = tensor if isinstance(tensor, np.ndarray) else tensor.array
        desc = self.cann.aclCreateTensorDesc(int(as_datatype(array.dtype)), array.ndim, int64s(array.shape), 2)
        self.cann.aclSetTensorFormat(desc, format)
        self.cann.aclSetTensorShape(desc, len(storage or array.shape), int64s(storage or array.shape))
        address = array.ctypes.data if isinstance(tensor, np.ndarray) else tensor.address
        if isinstance(tensor, np.ndarray):
            self.cann.aclSetTensorPlaceMent(desc, 1)
            self.cann.aclSetTensorConst(desc, address, array.nbytes)
        return desc, self.cann.aclCreateDataBuffer(address, array.nbytes)

    def run(self, name: str, inputs: list[Any], outputs: list[Any], **attributes: Any) -> None:
        attr = ctypes.c_void_p(self.runtime.aclopCreateAttr())
        for key, value in attributes.items():
            if isinstance(value, float):
                assert self.runtime.aclopSetAttrFloat(attr, key.encode(), ctypes.c_float(value)) == 0
            elif isinstance(value, int):
                assert self.runtime.aclopSetAttrInt(attr, key.encode(), ctypes.c_int64(value)) == 0
            else:
                assert self.runtime.aclopSetAttrListInt(attr, key.encode(), len(value), int64s(value)) == 0
        items = [[i if type(i) is tuple else self.item(i) for i in side] for side in (inputs, outputs)]
        columns = [(ctypes.c_void_p * len(side))(*(i[k] for i in side)) for side in items for k in (0, 1)]
        arguments = (len(inputs), columns[0], columns[1], len(outputs), columns[2], columns[3], attr)
        status = self.compiler.aclopCompileAndExecute(name.encode(), *arguments, 0, 0, None, None)
        self.cann._function("aclrtSynchronizeStream")(None)
        self.runtime.aclopDestroyAttr(attr)
        for desc, buffer in (*items[0], *items[1]):
            self.cann.aclDestroyTensorDesc(desc)
            self.cann.aclDestroyDataBuffer(buffer)
        assert status == 0, (status, self.cann.message())


X = np.arange(24, dtype=np.float32).reshape(4, 6) / 8 - 1


@client()
def test_single_operators_that_an_aclnn_operator_stands_for(cann: Cann) -> None:
    single = Single(cann)
    i64 = np.int64
    swish = X / (1 + np.exp(-1.5 * X.astype(np.float64)))
    shifted = X.astype(np.float64) - X.max(1, keepdims=True)
    for name, inputs, attributes, expected in (
        ("Identity", [X], {}, X),
        ("Transpose", [X, np.array([1, 0], i64)], {}, X.T),
        ("Slice", [X, np.array([1, 2], i64), np.array([2, -1], i64)], {}, X[1:3, 2:]),
        ("StridedSlice", [X, *np.array([[1, 0], [4, 5], [2, 3]], i64)], {"end_mask": 2}, X[1:4:2, ::3]),
        ("StridedSlice", [X, *np.array([[-1, 0], [0, 6], [1, 1]], i64)], {"shrink_axis_mask": 1}, X[-1]),
        ("Fill", [np.array([2, 3], i64), np.array([2.5], np.float32)], {}, np.full((2, 3), 2.5, np.float32)),
        ("Swish", [X], {"scale": 1.5}, swish),
        ("LogSoftmaxV2", [X], {"axes": [-1]}, shifted - np.log(np.exp(shifted).sum(1, keepdims=True))),
        ("Mul", [X, X], {}, X * X),
        ("Add", [X, np.float32([3]).reshape(1, 1)], {}, X + 3),
        ("MatMul", [X, X], {"transpose_x2": 1}, X @ X.T),
    ):
        device = cann.tensor(inputs[0]) if name != "Fill" else inputs[0]
        arguments = [device, *(device if value is X else np.ascontiguousarray(value) for value in inputs[1:])]
        out = cann.tensor(np.zeros(np.shape(expected), np.float32))
        single.run(name, arguments, [out], **attributes)
        np.testing.assert_allclose(cann.read(out), expected, rtol=2e-6, atol=1e-6, err_msg=name)


@client()
def test_identity_changes_the_format_of_storage(cann: Cann) -> None:
    single = Single(cann)
    x = cann.tensor(np.arange(20 * 17, dtype=np.float16).reshape(20, 17))
    blocks = cann.tensor(np.zeros((2, 2, 16, 16), np.float16))
    back = cann.tensor(np.zeros((20, 17), np.float16))
    whole = blocks._replace(array=x.array)
    desc, buffer = single.item(whole, 29, (2, 2, 16, 16))
    cann.aclUpdateDataBuffer(buffer, blocks.address, blocks.array.nbytes)
    single.run("Identity", [x], [(desc, buffer)])
    padded = np.zeros((32, 32), np.float16)
    padded[:20, :17] = x.array
    np.testing.assert_array_equal(cann.read(blocks), padded.reshape(2, 16, 2, 16).transpose(2, 0, 1, 3))
    desc, buffer = single.item(whole, 29, (2, 2, 16, 16))
    cann.aclUpdateDataBuffer(buffer, blocks.address, blocks.array.nbytes)
    single.run("Identity", [(desc, buffer)], [back])
    np.testing.assert_array_equal(cann.read(back), x.array)


@client()
def test_single_operators_stay_in_their_buffers(cann: Cann) -> None:
    single = Single(cann)
    x, out = cann.tensor(X), cann.tensor(np.zeros_like(X))
    desc, buffer = single.item(x)
    cann.aclUpdateDataBuffer(buffer, x.address, 16)  # a description of more than there is
    try:
        single.run("Identity", [(desc, buffer)], [out])
    except AssertionError as error:
        assert "reaches elements 0 to 23" in str(error)
    else:
        raise AssertionError("the input's buffer has 16 bytes")


@client()
def test_options_of_the_compiler(cann: Cann) -> None:
    compiler = library("libacl_op_compiler.so")
    compiler.aclGetCompileoptSize.restype = ctypes.c_size_t
    jit, precision = 10, 0
    value = ctypes.create_string_buffer(64)
    size = compiler.aclGetCompileoptSize(jit)
    assert compiler.aclGetCompileopt(jit, value, ctypes.c_size_t(size)) == 0
    assert value.value == b"disable"
    assert compiler.aclSetCompileopt(precision, b"must_keep_origin_dtype") == 0
    assert compiler.aclGetCompileopt(precision, value, ctypes.c_size_t(4)) == 100000
    assert compiler.aclGetCompileopt(precision, value, ctypes.c_size_t(64)) == 0
    assert value.value == b"must_keep_origin_dtype"
    assert compiler.aclSetCompileopt(17, b"x") == 100000
    assert cann.message().startswith("aclSetCompileopt: option 17")


@client()
def test_the_newer_runtime_is_the_same_one(cann: Cann) -> None:
    newer = library("libacl_rt.so")
    cann.aclrtSetDevice(1)
    device = ctypes.c_int32(9)
    assert newer.aclrtGetDevice(ctypes.byref(device)) == 0
    assert device.value == 1
    newer.aclrtSetDevice(0)
    cann.aclrtGetDevice(ctypes.byref(device))
    assert device.value == 0
    cann.aclrtResetDevice(1)
    newer.aclrtResetDevice(0)
    cann.aclrtSetDevice(0)


@client()
def test_settings_of_the_communication_library(cann: Cann) -> None:
    hccl = library("libhccl.so")
    value = ctypes.c_int32(1)
    assert hccl.HcclSetConfig(0, value) == 0
    read = ctypes.c_int32()
    assert hccl.HcclGetConfig(0, ctypes.byref(read)) == 0
    assert read.value == 1
    assert hccl.HcclSetConfig(7, value) == 1


@client()
def test_private_functions_that_torch_npu_links_against(cann: Cann) -> None:
    runtime = library("libascendcl.so")
    runtime.MsprofSysCycleTime.restype = runtime.MsprofGetHashId.restype = ctypes.c_uint64
    first = runtime.MsprofSysCycleTime()
    assert runtime.MsprofSysCycleTime() >= first
    assert runtime.MsprofGetHashId(b"a", ctypes.c_size_t(1)) != runtime.MsprofGetHashId(b"b", ctypes.c_size_t(1))
    for name in ("rtKernelLaunch", "rtDevBinaryRegister", "rtFunctionRegister", "rtGetC2cCtrlAddr", "MsprofReportApi"):
        assert getattr(runtime, name)(None, None, None, None, None, None) != 0
        assert f"{name}: the emulator lacks this function" in cann.message()
