"""What clients other than aclnn's link against: descriptions, attributes, compiler options, the newer name of the runtime."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from emulator_client import Cann, client, int64s, run_body

from ascend_aclnn import catalog
from ascend_aclnn.catalog import single
from ascend_aclnn.core.dtypes import DataType, Format, as_datatype
from ascend_aclnn.core.spec import TensorSpec
from ascend_aclnn.emulator.process import single_operators
from ascend_aclnn.emulator.process.single_operators import Attributes, Item, NotTranslated, translate


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
    assert compiler.aclopCompileAndExecute(b"DecodeJpeg", *nothing, 0, 0, None, None) == 200006
    assert cann.message() == (
        "EMULATOR_NOT_SUPPORTED: DecodeJpeg: it decodes JPEG files, for which neither NumPy nor this package has a decoder"
    )
    assert compiler.aclopCompileAndExecute(b"NoSuchType", *nothing, 0, 0, None, None) == 200006
    assert cann.message() == "EMULATOR_NOT_SUPPORTED: NoSuchType: no aclnn operator stands for NoSuchType"
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
            elif isinstance(value, str):
                assert self.runtime.aclopSetAttrString(attr, key.encode(), value.encode()) == 0
            elif isinstance(value, bool):
                assert self.runtime.aclopSetAttrBool(attr, key.encode(), ctypes.c_uint8(value)) == 0
            elif isinstance(value, int):
                assert self.runtime.aclopSetAttrInt(attr, key.encode(), ctypes.c_int64(value)) == 0
            elif value and isinstance(value[0], float):
                floats = (ctypes.c_float * len(value))(*value)
                assert self.runtime.aclopSetAttrListFloat(attr, key.encode(), len(value), floats) == 0
            else:
                assert self.runtime.aclopSetAttrListInt(attr, key.encode(), len(value), int64s(value)) == 0
        items = [[i if type(i) is tuple else self.item(i) for i in side] for side in (inputs, outputs)]
        columns = [(ctypes.c_void_p * len(side))(*(i[k] for i in side)) for side in items for k in (0, 1)]
        arguments = (len(inputs), columns[0], columns[1], len(outputs), columns[2], columns[3], attr)
        status = self.compiler.aclopCompileAndExecute(name.encode(), *arguments, 0, 0, None, None)
        waited = self.cann._function("aclrtSynchronizeStream")(None)
        self.runtime.aclopDestroyAttr(attr)
        for desc, buffer in (*items[0], *items[1]):
            self.cann.aclDestroyTensorDesc(desc)
            self.cann.aclDestroyDataBuffer(buffer)
        assert status == 0, (status, self.cann.message())
        assert waited == 0, (waited, self.cann.message())


X = np.arange(24, dtype=np.float32).reshape(4, 6) / 8 - 1


@client()
def test_single_operators_that_an_aclnn_operator_stands_for(cann: Cann) -> None:
    single = Single(cann)
    i64 = np.int64
    swish = X / (1 + np.exp(-1.5 * X.astype(np.float64)))
    shifted = X.astype(np.float64) - X.max(1, keepdims=True)
    for name, inputs, attributes, expected in (
        ("Identity", [X], {}, X),
        ("Assign", [X, 2 * X], {}, 2 * X),
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


def in_blocks(x: Any, depth: bool) -> Any:
    """NC1HWC0, or NDC1HWC0, element by element."""
    n, c, *d, h, w = x.shape
    blocks = np.zeros((n, *d, -(-c // 16), h, w, 16), x.dtype)
    for at in np.ndindex(*x.shape):
        blocks[(at[0], *at[2:-2], at[1] // 16, *at[-2:], at[1] % 16)] = x[at]
    return blocks


def kernels_in_blocks(x: Any) -> Any:
    """FRACTAL_Z, or FRACTAL_Z_3D, element by element: (D, C1, H, W) of blocks of 16 kernels by 16 channels."""
    o, c, *d, h, w = x.shape
    blocks = np.zeros((*d, -(-c // 16), h, w, -(-o // 16), 16, 16), x.dtype)
    for at in np.ndindex(*x.shape):
        blocks[(*at[2:-2], at[1] // 16, *at[-2:], at[0] // 16, at[0] % 16, at[1] % 16)] = x[at]
    return blocks.reshape(-1, *blocks.shape[-3:])


class InBlocks:
    """A tensor in device memory whose description has another shape than its storage."""

    def __init__(self, single: Single, values: Any, blocks: Any, format: int) -> None:
        self.single, self.values, self.format = single, values, format
        self.stored = single.cann.tensor(blocks)

    def item(self) -> tuple[int, int]:
        whole = self.stored._replace(array=self.values)
        desc, buffer = self.single.item(whole, self.format, self.stored.array.shape)
        self.single.cann.aclUpdateDataBuffer(buffer, self.stored.address, self.stored.array.nbytes)
        return desc, buffer


@client()
def test_images_and_kernels_in_blocks(cann: Cann) -> None:
    """Identity packs and unpacks; a convolution takes blocks and gives them, and a product of matrices."""
    single, rng = Single(cann), np.random.default_rng(0)
    for shape, formats in (((2, 20, 3, 4), (3, 4)), ((2, 20, 2, 3, 4), (32, 33))):
        x = rng.integers(1, 100, shape).astype(np.float16)
        for format, blocks in zip(formats, (in_blocks(x, len(shape) == 5), kernels_in_blocks(x))):
            made, back = InBlocks(single, x, np.full_like(blocks, 7), format), cann.tensor(np.zeros_like(x))
            single.run("Identity", [cann.tensor(x)], [made.item()])
            np.testing.assert_array_equal(cann.read(made.stored), blocks)
            single.run("TransData", [made.item()], [back])
            np.testing.assert_array_equal(cann.read(back), x)
    x, w = (
        rng.integers(-3, 4, (1, 3, 3, 3, 3)).astype(np.float16),
        rng.integers(-3, 4, (2, 3, 2, 2, 2)).astype(np.float16),
    )
    y = np.zeros((1, 2, 2, 2, 2), np.float16)
    for at in np.ndindex(2, 2, 2, 2):
        y[(0, *at)] = (x[0, :, at[1] : at[1] + 2, at[2] : at[2] + 2, at[3] : at[3] + 2] * w[at[0]]).sum()
    settings = {"strides": [1] * 5, "pads": [0] * 6, "dilations": [1] * 5, "groups": 1, "data_format": "NCDHW"}
    filters = InBlocks(single, w, kernels_in_blocks(w), 33)
    out = InBlocks(single, y, in_blocks(0 * y, True), 32)
    single.run("Conv3D", [InBlocks(single, x, in_blocks(x, True), 32).item(), filters.item()], [out.item()], **settings)
    np.testing.assert_array_equal(cann.read(out.stored), in_blocks(y, True))
    whole = np.zeros((1, 3, 3, 3, 3), np.float16)  # each element of y spreads a kernel
    for at in np.ndindex(2, 2, 2, 2):
        whole[0, :, at[1] : at[1] + 2, at[2] : at[2] + 2, at[3] : at[3] + 2] += y[(0, *at)] * w[at[0]]
    out = InBlocks(single, whole, in_blocks(0 * whole, True), 32)
    size = np.array(whole.shape, np.int64)
    single.run("Conv3DTranspose", [size, single.item(cann.tensor(y)), filters.item()], [out.item()], **settings)
    np.testing.assert_array_equal(cann.read(out.stored), in_blocks(whole, True))
    a, b = (rng.integers(-3, 4, s).astype(np.float16) for s in ((2, 5, 20), (2, 20, 17)))
    padded = np.zeros((2, 16, 32), np.float16)
    padded[:, :5, :17] = a @ b
    out = InBlocks(single, a @ b, np.zeros((2, 2, 1, 16, 16), np.float16), 29)
    single.run("BatchMatMul", [cann.tensor(a), cann.tensor(b)], [out.item()])
    np.testing.assert_array_equal(cann.read(out.stored), padded.reshape(2, 1, 16, 2, 16).transpose(0, 3, 1, 2, 4))
    both = cann.tensor(np.zeros((2, 6, 17), np.float16))
    single.run("ConcatD", [out.item(), cann.tensor(b[:, :1])], [both], concat_dim=1, N=2)
    np.testing.assert_array_equal(cann.read(both), np.concatenate([a @ b, b[:, :1]], 1))


@client()
def test_single_operators_stay_in_their_buffers(cann: Cann) -> None:
    single = Single(cann)
    x, out = cann.tensor(X), cann.tensor(np.zeros_like(X))
    desc, buffer = single.item(x)
    cann.aclUpdateDataBuffer(buffer, x.address, 16)  # a description of more than there is
    try:
        single.run("Identity", [(desc, buffer)], [out])
    except AssertionError as error:
        assert "Identity: input 0: shape (4, 6)" in str(error)
        assert "reaches elements 0 to 23" in str(error)
    else:
        raise AssertionError("the input's buffer has 16 bytes")


def describe_what_cannot_be(cann: Cann) -> None:
    single = Single(cann)
    x, out = cann.tensor(X), cann.tensor(np.zeros_like(X))
    for shape in ((1 << 40, 1 << 40), (1 << 62,), (-2, 3)):
        for at, constant in ((0, False), (0, True), (1, False)):
            items = [single.item(X if constant and at == 0 else x), single.item(out)]
            cann.aclDestroyTensorDesc(items[at][0])
            desc = cann.aclCreateTensorDesc(0, len(shape), int64s(shape), 2)
            if constant:
                cann.aclSetTensorConst(desc, X.ctypes.data, X.nbytes)
            items[at] = (desc, items[at][1])
            try:
                single.run("Identity", items[:1], items[1:])
            except AssertionError as error:
                assert f"Identity: {'input' if at == 0 else 'output'} 0: " in str(error), str(error)
                assert "161002" in str(error), str(error)
            else:
                raise AssertionError(f"{shape} cannot be")


def test_impossible_descriptions_are_errors_with_names(emulator_home: Path) -> None:
    done = run_body(describe_what_cannot_be, emulator_home)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr


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
    assert cann.message().startswith("aclSetCompileopt: option is 17")


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
    for name in ("rtGetC2cCtrlAddr", "MsprofReportApi"):  # kernels as binaries: test_check.py
        assert getattr(runtime, name)(None, None, None, None, None, None) != 0
        assert f"{name}: the emulator lacks this function" in cann.message()


def lstm(x: Any, by_input: Any, by_state: Any, bias: Any, h: Any, c: Any) -> tuple[Any, ...]:
    """Each step's h, c and gates, with the gates as input, cell, forget, output."""
    sigmoid, rows = lambda a: 1 / (1 + np.exp(-a)), []
    for step in x.astype(np.float64):
        i, j, f, o = np.split(step @ by_input + h @ by_state + bias, 4, 1)
        i, j, f, o = sigmoid(i), np.tanh(j), sigmoid(f), sigmoid(o)
        c = f * c + i * j
        h = o * np.tanh(c)
        rows.append((h, h, c, i, j, f, o, np.tanh(c)))
    return tuple(np.stack(column) for column in zip(*rows))


@client()
def test_an_lstm_as_a_single_operator(cann: Cann) -> None:
    single = Single(cann)
    random = np.random.default_rng(1)
    steps, batch, features, hidden = 3, 2, 5, 4
    x, w, b, h, c = (
        random.standard_normal(shape).astype(np.float32)
        for shape in (
            (steps, batch, features),
            (features + hidden, 4 * hidden),
            4 * hidden,
            (1, batch, hidden),
            (1, batch, hidden),
        )
    )
    expected = lstm(x, w[:features], w[features:], b, h[0], c[0])
    device = {name: cann.tensor(a) for name, a in (("x", x), ("w", w), ("b", b), ("h", h), ("c", c))}
    split = [cann.tensor(np.ascontiguousarray(part)) for part in (w[:features], w[features:])]
    absent = (cann.aclCreateTensorDesc(-1, 0, None, 2), cann.aclCreateDataBuffer(None, 0))
    for name, weights in (("DynamicRNN", [device["w"]]), ("DynamicRNNV2", split)):
        outputs = [cann.tensor(np.zeros((steps, batch, hidden), np.float32)) for _ in range(8)]
        inputs = [device["x"], *weights, device["b"], absent, device["h"], device["c"]]
        absent = (cann.aclCreateTensorDesc(-1, 0, None, 2), cann.aclCreateDataBuffer(None, 0))
        single.run(name, inputs, outputs, gate_order="ijfo")
        for found, wanted in zip(outputs, expected):
            np.testing.assert_allclose(cann.read(found), wanted, rtol=1e-5, atol=1e-6, err_msg=name)
            cann.drop(found)
    cann.aclDestroyTensorDesc(absent[0])
    cann.aclDestroyDataBuffer(absent[1])
    for tensor in (*device.values(), *split):
        cann.drop(tensor)


@client()
def test_single_operators_of_the_table(cann: Cann) -> None:
    """One of each kind of argument: attributes, constants, lists, views, and types with a reference of their own."""
    single = Single(cann)
    i32 = np.int32
    power = np.abs(X.astype(np.float64)) ** 3
    boxes = np.array([[0, 0, 10, 10], [5, 5, 15, 15]], np.float16)
    grown = np.broadcast_to(X[:, None], (4, 4, 6)), np.broadcast_to(X[None], (4, 4, 6))
    distance = np.sqrt(((grown[0] - grown[1]).astype(np.float64) ** 2).sum(-1))
    for name, inputs, attributes, expected in (
        ("LeakyRelu", [X], {"negative_slope": 0.25}, [np.where(X > 0, X, 0.25 * X)]),
        ("SigmoidGrad", [X, X], {}, [X.astype(np.float64) ** 2 * (1 - X)]),
        ("SoftmaxGrad", [X, X], {"axes": [1]}, [X * (X - (X * X).sum(1, keepdims=True))]),
        ("MseLoss", [X, X + 1], {"reduction": "none"}, [np.ones_like(X)]),
        ("ReduceSum", [X, np.array([0], i32)], {"keep_dims": 1}, [X.sum(0, keepdims=True)]),
        ("ReduceMax", [X, np.array([1], i32)], {}, [X.max(1)]),
        ("Tile", [X, np.array([2, 1], np.int64)], {}, [np.tile(X, (2, 1))]),
        ("ReverseV2", [X, np.array([0], np.int64)], {}, [X[::-1]]),
        ("ClipByValueV2", [X, np.array(0, np.float32), np.array(1, np.float32)], {}, [X.clip(0, 1)]),
        ("ConcatD", [X, X], {"concat_dim": 1, "N": 2}, [np.concatenate([X, X], 1)]),
        ("Pack", [X, X + 1], {"axis": 0, "N": 2}, [np.stack([X, X + 1])]),
        ("Pad", [X, np.array([[1, 0], [0, 2]], i32)], {}, [np.pad(X, ((1, 0), (0, 2)))]),
        ("BroadcastTo", [X[:1], np.array([4, 6], np.int64)], {}, [np.broadcast_to(X[:1], (4, 6))]),
        ("AsStrided", [X, *(np.array(v, np.int64) for v in ([3, 2], [1, 6], [2]))], {}, [X[:2, 2:5].T]),
        ("BatchMatMul", [X[None], X[None]], {"adj_x1": False, "adj_x2": True}, [(X @ X.T)[None]]),
        ("ArgMaxWithValue", [X], {"dimension": 1, "keep_dims": False}, [X.argmax(1).astype(i32), X.max(1)]),
        ("ArgMinWithValue", [X], {"dimension": 0, "keep_dims": True}, [X.argmin(0)[None].astype(i32), X.min(0)[None]]),
        ("SortV2", [X[:, ::-1].copy()], {"axis": -1, "descending": False}, [X]),
        ("LpNormReduceV2", [X], {"p": 3.0, "axes": [1], "keepdim": False}, [power.sum(1)]),
        ("LpNormUpdateV2", [power.sum(1).astype(np.float32)], {"p": 3.0}, [power.sum(1) ** (1 / 3)]),
        ("LpNormReduceV2", [X], {"p": float(2**31), "axes": [0], "keepdim": False}, [np.abs(X).max(0)]),
        ("Cdist", [*grown], {"p": 2.0}, [distance]),
        ("CdistGrad", [np.ones((4, 4, 6), np.float32), *grown, np.broadcast_to(distance[..., None], (4, 4, 6))], {"p": 2.0}, [
            np.divide((grown[0] - grown[1]), distance[..., None], where=distance[..., None] > 0, out=np.zeros((4, 4, 6))).sum(1)
        ]),
        ("Iou", [boxes, boxes], {"mode": "iou", "eps": 0.0}, [np.array([[1, 25 / 175], [25 / 175, 1]], np.float16)]),
        ("SignBitsPack", [np.array([1, -1, 1, 1, -1, 1, 1, 1], np.float32)], {"size": 1}, [np.array([[0b11101101]], np.uint8)]),
    ):  # fmt: skip
        constants = {
            "ReduceSum": 1,
            "ReduceMax": 1,
            "Tile": 1,
            "ReverseV2": 1,
            "ClipByValueV2": 2,
            "Pad": 1,
            "BroadcastTo": 1,
        }
        fixed = constants.get(name, 3 if name == "AsStrided" else 0)
        given = [
            np.ascontiguousarray(i).astype(np.float32) if i.dtype == np.float64 else np.ascontiguousarray(i)
            for i in inputs
        ]
        put = [cann.tensor(i) if at < len(given) - fixed else i for at, i in enumerate(given)]
        dtypes = [e.dtype if e.dtype != np.float64 else np.float32 for e in expected]
        outputs = [cann.tensor(np.zeros(np.shape(e), d)) for e, d in zip(expected, dtypes)]
        single.run(name, put, outputs, **attributes)
        for output, wanted in zip(outputs, expected):
            np.testing.assert_allclose(
                cann.read(output), wanted, rtol=2e-3 if wanted.dtype == np.float16 else 1e-5, atol=1e-6, err_msg=name
            )
        for tensor in (*put, *outputs):
            if not isinstance(tensor, np.ndarray):
                cann.drop(tensor)


@client()
def test_adam_as_a_single_operator_works_in_place(cann: Cann) -> None:
    single = Single(cann)
    numbers = {"beta1_power": 0.9, "beta2_power": 0.99, "lr": 0.1, "beta1": 0.9, "beta2": 0.99, "epsilon": 1e-8}
    var, m, v, grad = (cann.tensor(a) for a in (X, np.zeros_like(X), np.zeros_like(X), X + 2))
    single.run("ApplyAdamD", [var, m, v, *(np.array([n], np.float32) for n in numbers.values()), grad], [var, m, v])
    # the first step of Adam goes by the learning rate against the gradient's sign
    np.testing.assert_allclose(cann.read(var), X - 0.1 * np.sign(X + 2), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(cann.read(m), 0.1 * (X + 2), rtol=1e-5, atol=1e-6)
    for tensor in (var, m, v, grad):
        cann.drop(tensor)


# ------------------------------------------------------------------------------------------------------------------ images

NHWC = 1


def images(single: Single, *arrays: Any) -> list[tuple[Any, tuple[int, int]]]:
    """Tensors in the format NHWC, and their descriptions and buffers."""
    tensors = [single.cann.tensor(array) for array in arrays]
    return [(tensor, single.item(tensor, NHWC)) for tensor in tensors]


def taps(x: Any, offsets: Any, kernel: int, stride: int, pad: int, groups: int) -> Any:
    """The image (batch, height, width, channels) of all taps, one by one, in float64."""
    x, offsets = x.astype(np.float64), offsets.astype(np.float64)
    batch, height, width, channels = x.shape
    rows, columns = offsets.shape[1:3]
    parts = offsets.reshape(batch, rows, columns, 3, groups, kernel, kernel)
    made = np.zeros((batch, rows * kernel, columns * kernel, channels))
    for n, r, c, g, i, j in np.ndindex(batch, rows, columns, groups, kernel, kernel):
        right, below, factor = parts[n, r, c, :, g, i, j]
        left, top = c * stride - pad + j + right, r * stride - pad + i + below
        own = slice(g * channels // groups, (g + 1) * channels // groups)
        for y in range(max(0, int(np.ceil(top - 1))), min(height, int(np.floor(top + 1)) + 1)):
            for z in range(max(0, int(np.ceil(left - 1))), min(width, int(np.floor(left + 1)) + 1)):
                share = max(0, 1 - abs(y - top)) * max(0, 1 - abs(z - left))
                made[n, r * kernel + i, c * kernel + j, own] += share * factor * x[n, y, z, own]
    return made


@client()
def test_deformed_sampling_and_its_gradients(cann: Cann) -> None:
    single, random = Single(cann), np.random.default_rng(3)
    kernel, stride, pad, groups = 2, 2, 1, 2
    x = random.standard_normal((1, 5, 4, 4)).astype(np.float32)
    offsets = random.uniform(-1.5, 1.5, (1, 3, 3, 3 * groups * kernel * kernel)).astype(np.float32)
    wanted = taps(x, offsets, kernel, stride, pad, groups)
    dy = random.standard_normal(wanted.shape).astype(np.float32)
    settings = {"ksize": [2, 2], "strides": [1, 2, 2, 1], "pads": [1] * 4, "dilations": [1] * 4, "deformable_groups": 2}
    settings.update(data_format="NHWC", modulated=True)
    made = images(single, np.zeros(wanted.shape, np.float32))
    inputs = images(single, x, offsets)
    single.run("DeformableOffsets", [item for _, item in inputs], [item for _, item in made], **settings)
    np.testing.assert_allclose(cann.read(made[0][0]), wanted, rtol=1e-5, atol=1e-5)

    def loss(x: Any, offsets: Any) -> float:
        return float((taps(x, offsets, kernel, stride, pad, groups) * dy).sum())

    slopes = images(single, np.zeros_like(x), np.zeros_like(offsets))
    inputs = images(single, dy, x, offsets)
    single.run("DeformableOffsetsGrad", [item for _, item in inputs], [item for _, item in slopes], **settings)
    for at, (slope, _) in enumerate(slopes):
        found, values = cann.read(slope), [x.astype(np.float64), offsets.astype(np.float64)]
        for place in random.choice(found.size, 12, replace=False):
            where, step = np.unravel_index(place, found.shape), 1e-5
            up, down = ([v.copy() for v in values] for _ in range(2))
            up[at][where] += step
            down[at][where] -= step
            expected = (loss(*up) - loss(*down)) / (2 * step)
            np.testing.assert_allclose(found[where], expected, rtol=1e-3, atol=1e-3)


@client()
def test_images_as_single_operators(cann: Cann) -> None:
    single, random = Single(cann), np.random.default_rng(4)
    bytes_ = random.integers(0, 256, (2, 4, 5, 3)).astype(np.uint8)
    x = random.standard_normal((2, 4, 5, 3)).astype(np.float32)
    (_, item), tensor = images(single, bytes_)[0], cann.tensor(np.zeros((2, 3, 4, 5), np.float32))
    single.run("ImgToTensor", [item], [tensor])
    np.testing.assert_allclose(cann.read(tensor), bytes_.transpose(0, 3, 1, 2) / 255, rtol=1e-6)
    mean, deviation = (values.reshape(1, 3, 1, 1) for values in np.array([[1, 2, 3], [0.5, 4, 2]], np.float32))
    (given, result) = images(single, x, np.zeros_like(x))
    single.run("NormalizeV2", [given[1], mean, deviation], [result[1]], dtype=0)
    np.testing.assert_allclose(cann.read(result[0]), (x - [1, 2, 3]) / np.float64([0.5, 4, 2]), rtol=1e-5, atol=1e-6)

    boxes = np.array([[0, 0, 1, 1], [0.9, 0.5, 0.1, 1.25], [0.25, 0.5, 0.5, 0.5]], np.float32)
    which, size = np.array([1, 0, 1], np.int32), (3, 4)
    for method in ("bilinear", "nearest"):
        expected = np.full((3, *size, 3), -7.0)
        for box, row, column in np.ndindex(3, *size):
            top, left, bottom, right = boxes[box].astype(np.float64)
            y, z = (top + (bottom - top) * row / 2) * 3, (left + (right - left) * column / 3) * 4
            if 0 <= y <= 3 and 0 <= z <= 4:
                image = x[which[box]].astype(np.float64)
                a, b = int(y), int(z)
                c, d = min(a + 1, 3), min(b + 1, 4)
                u, v = y - a, z - b
                mixed = (image[a, b] * (1 - v) + image[a, d] * v) * (1 - u) + (
                    image[c, b] * (1 - v) + image[c, d] * v
                ) * u
                expected[box, row, column] = mixed if method == "bilinear" else image[int(y + 0.5), int(z + 0.5)]
        (given, result) = images(single, x, np.zeros(expected.shape, np.float32))
        inputs = [given[1], boxes, which, np.array(size, np.int32)]
        single.run("CropAndResizeV2", inputs, [result[1]], method=method, extrapolation_value=-7.0)
        np.testing.assert_allclose(cann.read(result[0]), expected, rtol=1e-5, atol=1e-5, err_msg=method)


@client()
def test_maxima_and_resizing_and_their_gradients(cann: Cann) -> None:
    single, random = Single(cann), np.random.default_rng(5)
    x = random.integers(0, 3, (1, 2, 4, 5, 4)).astype(np.float32)  # with equal maxima, of which the first counts
    sizes, strides, pad = (2, 3, 2), (2, 1, 2), (0, 1, 1)
    shape = tuple((n + 2 * p - k) // s + 1 for n, p, k, s in zip(x.shape[2:], pad, sizes, strides))
    dy, expected = random.standard_normal((1, 2, *shape)).astype(np.float32), np.zeros(x.shape)
    maxima = np.zeros_like(dy)
    for at in np.ndindex(dy.shape):
        starts = [i * s - p for i, s, p in zip(at[2:], strides, pad)]
        window = tuple(slice(max(a, 0), a + k) for a, k in zip(starts, sizes))
        seen = x[at[:2]][window]
        first = np.unravel_index(seen.argmax(), seen.shape)
        maxima[at] = seen.max()
        expected[at[:2]][window][first] += dy[at]
    out = cann.tensor(np.zeros_like(x))
    inputs = [cann.tensor(value) for value in (x, maxima, dy)]
    pads = [end for p in pad for end in (p, p)]
    single.run(
        "MaxPool3DGrad", inputs, [out], ksize=[1, 1, *sizes], strides=[1, 1, *strides], pads=pads,
        padding="CALCULATED", data_format="NCDHW",
    )  # fmt: skip
    np.testing.assert_allclose(cann.read(out), expected, rtol=1e-5, atol=1e-6)
    found = cann.tensor(np.zeros_like(maxima))
    single.run(
        "MaxPool3D", inputs[:1], [found], ksize=[1, 1, *sizes], strides=[1, 1, *strides], pads=pads, dilation=[1, 1, 1],
        padding="CALCULATED", ceil_mode=0, data_format="NCDHW",
    )  # fmt: skip
    np.testing.assert_array_equal(cann.read(found), maxima)
    values = random.standard_normal((1, 2, 7, 4, 6)).astype(np.float32)
    spread = cann.tensor(np.zeros((1, 2, 3, 2, 2), np.float32))  # taps 2 and 3 apart
    single.run(
        "MaxPool3D", [cann.tensor(values)], [spread], ksize=[1, 1, 2, 1, 2], strides=[1, 1, 2, 2, 2], pads=[0] * 6,
        dilation=[2, 1, 3], padding="CALCULATED", ceil_mode=0, data_format="NCDHW",
    )  # fmt: skip
    taps = [values[:, :, i : i + 5 : 2, ::2, j : j + 3 : 2] for i in (0, 2) for j in (0, 3)]
    np.testing.assert_array_equal(cann.read(spread), np.maximum.reduce(taps))

    def linear(size: int, made: int) -> Any:
        """(made, size): the shares of the places, half pixels."""
        places = ((np.arange(made) + 0.5) * size / made - 0.5).clip(0, size - 1)
        return np.maximum(0, 1 - np.abs(places[:, None] - np.arange(size)))

    def cubic(size: int, made: int) -> Any:
        shares = np.zeros((made, size))
        for i, place in enumerate((np.arange(made) + 0.5) * size / made - 0.5):
            for tap in range(int(np.floor(place)) - 1, int(np.floor(place)) + 3):
                t = abs(place - tap)
                near = 1.25 * t**3 - 2.25 * t**2 + 1
                shares[i, min(max(tap, 0), size - 1)] += near if t <= 1 else -0.75 * (t**3 - 5 * t**2 + 8 * t - 4)
        return shares

    signal = random.standard_normal((2, 3, 1, 4)).astype(np.float32)
    for shape in ((2, 3, 7), (2, 3, 1, 7)):
        out = cann.tensor(np.zeros(shape, np.float32))
        settings = {"coordinate_transformation_mode": "half_pixel", "sizes": [7]}
        single.run("ResizeD", [cann.tensor(signal)], [out], mode="linear", scales=[1.75], **settings)
        expected = (signal.astype(np.float64) @ linear(4, 7).T).reshape(shape)
        np.testing.assert_allclose(cann.read(out), expected, rtol=1e-4, atol=1e-5)
    grad = random.standard_normal((2, 3, 1, 7)).astype(np.float32)
    out = cann.tensor(np.zeros((2, 3, 4), np.float32))
    settings = {"coordinate_transformation_mode": "half_pixel", "original_size": [2, 3, 4]}
    single.run("ResizeGradD", [cann.tensor(grad)], [out], mode="linear", scales=[1.75], **settings)
    np.testing.assert_allclose(cann.read(out), grad[:, :, 0].astype(np.float64) @ linear(4, 7), rtol=1e-4, atol=1e-5)
    grad = random.standard_normal((6, 7, 2, 3)).astype(np.float32)  # HWNC
    out = cann.tensor(np.zeros((2, 3, 4, 3), np.float32))
    settings.update(original_size=[2, 3, 4, 3], data_format="HWNC")
    single.run("ResizeGradD", [cann.tensor(grad)], [out], mode="cubic", scales=[0.0, 0.0], **settings)
    expected = np.einsum("hwnc,hi,wj->ncij", grad.astype(np.float64), cubic(4, 6), cubic(3, 7))
    np.testing.assert_allclose(cann.read(out), expected, rtol=1e-4, atol=1e-5)


@client()
def test_singular_values_and_different_rows(cann: Cann) -> None:
    single, random = Single(cann), np.random.default_rng(6)
    x = random.standard_normal((2, 4, 3)).astype(np.float32)
    outputs = [cann.tensor(np.zeros(shape, np.float32)) for shape in ((2, 3), (2, 4, 3), (2, 3, 3))]
    single.run("Svd", [cann.tensor(x)], outputs, compute_uv=True, full_matrices=False)
    sigma, u, v = map(cann.read, outputs)
    np.testing.assert_allclose(u * sigma[:, None] @ v.swapaxes(1, 2), x, atol=1e-5)
    np.testing.assert_allclose(u.swapaxes(1, 2) @ u, np.broadcast_to(np.eye(3), (2, 3, 3)), atol=1e-5)
    assert (np.diff(sigma) <= 0).all()
    rows = np.array([[2, 1], [0, 5], [2, 1], [0, 4], [0, 5]], np.float32)
    outputs = [cann.tensor(rows), *(cann.tensor(np.full(5, -1, np.int64)) for _ in range(3))]
    axis = np.array([0], np.int64)
    single.run("UniqueWithCountsExt2", [cann.tensor(rows), axis], outputs, sorted=True, return_inverse=True)
    values, first, counts, inverse = map(cann.read, outputs)
    assert values[:3].tolist() == [[0, 4], [0, 5], [2, 1]]
    assert (first[:3].tolist(), counts[:3].tolist()) == ([3, 1, 0], [1, 2, 2])
    assert inverse.tolist() == [2, 1, 2, 0, 1]


def tensor(*shape: int, number: int = 0) -> Item:
    return Item(TensorSpec(shape, DataType.FLOAT), number)


def constant(*values: int) -> Item:
    return Item(TensorSpec((len(values),), DataType.INT64), None, np.array(values))


def test_what_types_without_arguments_in_the_catalog_become() -> None:
    entries = [entry for entry in map(single.find, single.names()) if entry is not None and entry.unsupported is None]
    by_function = {entry.name for entry in entries if entry.arguments is None}
    assert by_function == set(single_operators.functions())
    call = translate("Transpose", [tensor(2, 3), constant(1, 0)], [tensor(3, 2, number=1)], {})
    assert call.operator is catalog.get("aclnnInplaceCopy")
    assert [item.spec.shape for item in call.arguments] == [(3, 2), (3, 2)]


def test_arguments_are_what_the_catalog_says_of_inputs_and_attributes() -> None:
    x, y = tensor(2, 3, 4), tensor(2, 4, number=1)
    call = translate("ReduceSum", [x, constant(1)], [y], {"keep_dims": True})
    assert (call.operator.name, call.arguments) == ("aclnnReduceSum", [x, (1,), True, int(DataType.FLOAT), y])
    assert translate("ReduceSum", [x, constant(1)], [y], {}).arguments[2] is False, "the default"
    call = translate("SoftmaxV2", [x], [y], {"axes": [-2]})
    assert call.arguments == [x, -2, y]
    call = translate("NLLLoss", [x, y, None], [y, y], {"reduction": "sum"})
    assert call.arguments[:4] == [x, y, None, 2], "the position of the text"
    pads, sizes = [0, 0, 1, 1, 0, 0], [1, 1, 2, 3, 2]
    settings = {"ksize": sizes, "strides": sizes, "padding": "CALCULATED", "pads": pads, "data_format": "NCDHW"}
    call = translate("MaxPool3D", [x], [y], settings)
    assert call.operator.family == "single"
    assert call.arguments == [x, tuple(sizes), tuple(sizes), tuple(pads), (1, 1, 1), (2, 4), y]
    window = {"ksize": [1, 3, 2, 1], "strides": [1, 2, 2, 1], "pads": [1, 0, 1, 1]}
    call = translate("MaxPoolWithArgmaxV1", [x], [y, y], window)
    assert call.arguments[1:5] == [(3, 2), (2, 2), (0, 1), (1, 1)], "the middle ones, of the default too"
    in_memory = TensorSpec((2, 3, 6, 2), DataType.UINT16, format=Format.NC1HWC0, storage_shape=(2, 1, 6, 2, 16))
    words, mask = translate("MaxPoolWithArgmaxV1", [x], [y, Item(in_memory, 2)], window).arguments[6:9:2]
    assert (words, mask.spec.shape, mask.blocks) == (384, (384,), None), "a mask's words, not its rows"
    assert translate("Pack", [x, y, x], [x], {"axis": 1}).arguments == [[x, y, x], 1, x]


def test_the_logarithm_of_a_sum_has_base_e_or_2() -> None:
    x = tensor(2)
    assert translate("LogAddExp", [x, x], [x], {}).operator.name == "aclnnLogAddExp"
    powers_of_two = {"base": 2.0, "scale": 1.0, "shift": 0.0}
    assert translate("LogAddExp", [x, x], [x], powers_of_two).operator.name == "aclnnLogAddExp2"


@pytest.mark.parametrize(
    ("name", "inputs", "attributes", "reason"),
    [
        ("NoSuchType", [], {}, "no aclnn operator stands for NoSuchType"),
        ("RotatedNMS", [], {}, "no public header or source defines it"),
        ("Sort", [], {}, "0 inputs and 1 outputs are not what Sort has"),
        ("GatherV2D", [tensor(2), constant(1)], {}, "attribute axis is absent"),
        ("SoftmaxV2", [tensor(2)], {"axes": [0, 1]}, r"axes are \[0, 1\]; one is needed"),
        ("SoftmaxV2", [tensor(2)], {"axes": "all"}, "attribute axes is 'all'; a number is needed"),
        (
            "KLDiv",
            [tensor(2), tensor(2)],
            {"reduction": "max"},
            "reduction is 'max'; allowed: none, mean, sum, batchmean",
        ),
        ("Cumprod", [tensor(2), constant(0)], {"reverse": True}, "reverse is True; the emulator takes False"),
        ("Cumsum", [tensor(2), tensor(1)], {}, "input axis is in device memory; the emulator needs it as a constant"),
        ("Cumsum", [tensor(2), constant(0)], {"exclusive": True}, "exclusive is True; the emulator takes False"),
        ("LogAddExp", [tensor(2), tensor(2)], {"base": 3.0}, "base 3.0 with scale 1.0 and shift 0.0"),
        ("MatrixInverse", [tensor(2, 2)], {"adjoint": True}, "adjoint is True; the emulator takes False"),
        ("GatherV2", [tensor(2), tensor(2), constant(0)], {"batch_dims": 1}, "batch_dims is 1; the emulator takes 0"),
        ("Gather", [tensor(2), tensor(2)], {"batch_dims": 1}, "batch_dims is 1; the emulator takes 0"),
        ("LpLoss", [tensor(2), tensor(2)], {"p": 2}, "p is 2; the emulator takes 1"),
        ("ROIAlign", [tensor(2), tensor(2)], {"pool_mode": "max"}, "pool_mode is 'max'; the emulator takes 'avg'"),
        ("Range", [constant(0), constant(1), constant(1)], {"is_closed": True}, "is_closed is True; "),
        ("DynamicRNN", [tensor(2)] * 3, {"cell_clip": 1.0}, "cell_clip is 1.0; the emulator takes -1.0"),
        ("GIoU", [tensor(2, 4), tensor(2, 4)], {}, "is_cross is True; the emulator takes False"),  # its default
        ("ROIAlign", [tensor(2), tensor(2), tensor(2)], {}, "input rois_n is there"),
        ("PadV3", [tensor(2), constant(1, 1), None], {}, "input constant_values is absent"),
    ],
)
def test_what_is_not_translated_is_refused_with_the_reason(
    name: str, inputs: list[Any], attributes: Attributes, reason: str
) -> None:
    with pytest.raises(NotTranslated, match=f"^{reason}"):
        translate(name, inputs, [tensor(2, number=1)], attributes)
