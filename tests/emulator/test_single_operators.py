"""What clients other than aclnn's link against: descriptions, attributes, compiler options, the newer name of the runtime."""

from __future__ import annotations

import ctypes
import os
from typing import Any

from emulator_client import Cann, client, int64s


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
    assert compiler.aclopCompileAndExecute(b"Softmax", *nothing, 0, 0, None, None) != 0
    assert cann.message().startswith("EMULATOR_NOT_SUPPORTED: aclopCompileAndExecute")
    assert runtime.aclopExecuteV2(b"MatMul", *nothing, None) != 0
    assert "MatMul was to be run as a single operator" in cann.message()
    assert cann.message() == "", "a message is read once"
    runtime.aclopDestroyAttr(attributes)
    assert compiler.aclopCompile(b"Abs") != 0
    assert "aclopCompile: the emulator lacks this function" in cann.message()


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
    assert hccl.HcclGetRootInfo(None) == 5
    assert cann.message().startswith("EMULATOR_NOT_SUPPORTED: HcclGetRootInfo")


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
