"""Operators through the emulated libraries: both phases, executors, refusals, repeatable executors."""

from __future__ import annotations

import ctypes
import threading
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from emulator_client import D2H, H2D, Cann, CannError, Tensor, client, int64s, run_body

from ascend_aclnn import weights
from ascend_aclnn.core.dtypes import DataType

PERMUTE_GRAD = "aclnnMoeTokenPermuteGrad"


def permute_grad(cann: Cann, dtype: Any = np.float32) -> tuple[Any, ...]:
    """The tensors of a small call, whose result is [[4, 6]]."""
    gradient = cann.tensor(np.array([[1, 2], [3, 4]], dtype))
    return gradient, cann.tensor(np.array([0, 1], np.int32)), cann.tensor(np.zeros((1, 2), dtype))


@client()
def test_an_operator_computes_on_device_memory(cann: Cann) -> None:
    for dtype in (np.float32, np.float16, ml_dtypes.bfloat16):
        gradient, indices, out = permute_grad(cann, dtype)
        cann.run(PERMUTE_GRAD, gradient, indices, 2, False, out)
        assert cann.read(out).astype(float).tolist() == [[4, 6]]


@client()
def test_strided_and_offset_views_are_read_where_they_lie(cann: Cann) -> None:
    base = cann.tensor(np.arange(24, dtype=np.float32))
    view = cann.describe((3, 2), np.float32, base.address, strides=(1, 6), offset=2, storage=(24,))
    right = cann.tensor(np.eye(2, dtype=np.float32))
    out = cann.tensor(np.zeros((3, 2), np.float32))
    cann.run("aclnnMm", view, right, out, 0)
    assert cann.read(out).tolist() == [[2, 8], [3, 9], [4, 10]]
    cann.aclDestroyTensor(view)


@client()
def test_a_weight_gets_the_blocks_of_the_hardware_in_place(cann: Cann) -> None:
    generator = np.random.default_rng(3)
    weight = generator.integers(-3, 4, (40, 24)).astype(np.float16)
    x = generator.integers(-3, 4, (5, 40)).astype(np.float16)
    size = 48 * 32  # elements, in blocks of 16 rows and 16 columns
    block, short = cann.malloc(2 * size), cann.malloc(weight.nbytes)
    cann.aclrtMemcpy(block, weight.nbytes, weight.ctypes.data, weight.nbytes, H2D)
    handle = cann.describe(weight.shape, np.float16, block)
    cann.run("aclnnTransMatmulWeight", handle)
    format = ctypes.c_int32()
    cann.aclGetFormat(handle, ctypes.byref(format))
    assert format.value == 29  # FRACTAL_NZ
    found = np.empty(size, np.float16)
    cann.aclrtMemcpy(found.ctypes.data, found.nbytes, block, found.nbytes, D2H)
    padded = np.zeros((48, 32), np.float16)
    padded[:40, :24] = weight
    assert np.array_equal(found, padded.reshape(3, 16, 2, 16).transpose(2, 0, 1, 3).reshape(-1))
    left, out = cann.tensor(x), cann.tensor(np.zeros((5, 24), np.float16))
    cann.run("aclnnMm", left, handle, out, 0)
    assert np.array_equal(cann.read(out), x @ weight)
    # As ggml describes it to a product: transposed, the blocks in one axis.
    other = cann.describe((24, 40), np.float16, block, strides=(1, 24), format=29, storage=(size,))
    right, transposed = cann.tensor(x[:, :24].copy()), cann.tensor(np.zeros((5, 40), np.float16))
    cann.run("aclnnMm", right, other, transposed, 0)
    assert np.array_equal(cann.read(transposed), x[:, :24] @ weight.T)
    small = cann.describe(weight.shape, np.float16, short)
    executor, workspace = cann.prepare("aclnnTransMatmulWeight", small)
    error = cann.failure("aclnnTransMatmulWeight", None, workspace, executor, None)  # no memory for the blocks
    assert error.error == "EMULATOR_OUT_OF_BOUNDS", error
    for each in (handle, other, small):
        cann.aclDestroyTensor(each)
    for address in (block, short):
        cann.aclrtFree(address)


@client()
def test_attributes_arrive_as_they_were_passed(cann: Cann) -> None:
    x = cann.tensor(np.array([[1, 2, 2], [0, 3, 4]], np.float32))
    gamma = cann.tensor(np.array([1, 0.5, 2], np.float32))
    y, rstd = cann.tensor(np.zeros((2, 3), np.float32)), cann.tensor(np.zeros((2, 1), np.float32))
    cann.run("aclnnRmsNorm", x, gamma, 1e-6, y, rstd)  # a double
    assert np.allclose(cann.read(rstd)[:, 0], [0.577350172965, 0.346410140729], rtol=1e-7)
    gradient = cann.tensor(np.array([[1, 2], [3, 4], [5, 6], [7, 8], [9, 10]], np.float32))
    indices = cann.tensor(np.array([2, 0, 2, 2, 1], np.int64))
    out = cann.tensor(np.zeros((4, 2), np.float32))
    none = 2**64 - 1  # uint64_t paddingIdx
    cann.run("aclnnEmbeddingDenseBackward", gradient, indices, 4, none, True, out)
    assert np.allclose(cann.read(out), [[3, 4], [9, 10], [13 / 3, 16 / 3], [0, 0]], rtol=1e-6)


@client()
def test_scalars_arrays_strings_and_enums_arrive(cann: Cann) -> None:
    x = cann.tensor(np.array([[1, 2], [3, 4]], np.float32))
    out = cann.tensor(np.zeros((2, 2), np.float32))
    scalars = [scalar(cann, ctypes.c_double(10), 11), scalar(cann, ctypes.c_int64(3), 9)]
    cann.run("aclnnAdds", x, *scalars, out)
    assert cann.read(out).tolist() == [[31, 32], [33, 34]]
    half = scalar(cann, ctypes.c_uint16(0x4000), 1)  # 2.0 in float16
    cann.run("aclnnMuls", x, half, out)
    assert cann.read(out).tolist() == [[2, 4], [6, 8]]
    dims = cann.aclCreateIntArray(int64s((1,)), 1)
    total = cann.tensor(np.zeros((2, 1), np.float32))
    cann.run("aclnnReduceSum", x, dims, True, 0, total)
    assert cann.read(total).tolist() == [[3], [7]]
    two = vector(cann)
    cann.run("aclnnNanToNum", cann.tensor(np.array([np.nan, np.inf], np.float32)), 1.5, 2.5, -3.5, two)
    assert cann.read(two).tolist() == [1.5, 2.5]
    ones = cann.tensor(np.ones((2, 2), np.float32))
    results = []
    for approximate in (b"none", b"tanh"):
        cann.run("aclnnGeluBackwardV2", ones, x, approximate, out)
        results.append(cann.read(out))
    assert np.abs(results[0] - results[1]).max() > 1e-5
    assert np.allclose(results[0], results[1], atol=1e-2)
    for made in (*scalars, half):
        cann.aclDestroyScalar(made)
    cann.aclDestroyIntArray(dims)


def scalar(cann: Cann, value: ctypes._SimpleCData[int], dtype: int) -> int:
    return int(cann.aclCreateScalar(ctypes.byref(value), dtype))


def vector(cann: Cann, count: int = 2) -> Tensor:
    return cann.tensor(np.zeros(count, np.float32))


@client()
def test_lists_of_tensors_arrive_in_launches_of_any_size(cann: Cann) -> None:
    """The larger one is more than what is sent ahead of the answers."""
    for count in (3, 5000):
        block, target = cann.malloc(32 * count), vector(cann, 1)
        ones = np.ones(8 * count, np.float32)
        cann.aclrtMemcpy(block, ones.nbytes, ones.ctypes.data, ones.nbytes, H2D)
        members = (ctypes.c_void_p * count)(*(cann.describe((1,), np.float32, block + 32 * i) for i in range(count)))
        tensors = cann.aclCreateTensorList(members, count)
        for _ in range(3):
            cann.run("aclnnAddN", tensors, target)
            assert cann.read(target).tolist() == [count]
        cann.aclDestroyTensorList(tensors)
        cann.aclrtFree(block)


@client()
def test_lists_of_scalars_and_arrays_of_bools_arrive(cann: Cann) -> None:
    inputs = [cann.tensor(np.full(2, n, np.float32)) for n in (1, 2)]
    outputs = [vector(cann), vector(cann)]
    lists = []
    for tensors in (inputs, outputs):
        handles = [cann.describe((2,), np.float32, tensor.address) for tensor in tensors]
        lists.append(cann.aclCreateTensorList((ctypes.c_void_p * 2)(*handles), 2))
    numbers = [scalar(cann, ctypes.c_float(n), 0) for n in (10, 20)]
    scalars = cann.aclCreateScalarList((ctypes.c_void_p * 2)(*numbers), 2)
    assert cann.failure("aclDestroyScalar", numbers[0]).error == "EMULATOR_LIST_MEMBER"
    cann.run("aclnnForeachAddScalarList", lists[0], scalars, lists[1])
    assert [cann.read(out).tolist() for out in outputs] == [[11, 11], [22, 22]]
    cann.aclDestroyScalarList(scalars)
    for made in lists:
        cann.aclDestroyTensorList(made)
    gradient, x = cann.tensor(np.array([[1, 2]], np.float32)), cann.tensor(np.array([[3, 5]], np.float32))
    mean, rstd = cann.tensor(np.array([[4]], np.float32)), cann.tensor(np.array([[1]], np.float32))
    shape = cann.aclCreateIntArray(int64s((2,)), 1)
    mask = cann.aclCreateBoolArray((ctypes.c_bool * 3)(False, False, True), 3)
    bias = vector(cann)
    cann.run("aclnnLayerNormBackward", gradient, x, shape, mean, rstd, None, None, mask, None, None, bias)
    assert cann.read(bias).tolist() == [1, 2]
    cann.aclDestroyIntArray(shape)
    cann.aclDestroyBoolArray(mask)


@client()
def test_a_shape_that_depends_on_data_can_be_read_back(cann: Cann) -> None:
    x, mask = cann.tensor(np.arange(6, dtype=np.float32)), cann.tensor(np.array([0, 1, 1, 0, 0, 1], np.bool_))
    for wanted in ([1, 2, 5], [5]):
        out = vector(cann, 6)
        cann.run("aclnnMaskedSelect", x, mask, out)
        dims, rank = ctypes.POINTER(ctypes.c_int64)(), ctypes.c_uint64()
        cann.aclGetViewShape(out.handle, ctypes.byref(dims), ctypes.byref(rank))
        assert dims[: rank.value] == [len(wanted)]
        assert cann.read(out)[: len(wanted)].tolist() == wanted
        cann.aclrtMemset(mask.address, 6, 0, 3)  # the same arguments, other data


@client()
def test_members_of_lists_take_new_addresses(cann: Cann) -> None:
    first, second = (cann.tensor(np.full(2, n, np.float32)) for n in (1, 2))
    handles = [cann.describe((2,), np.float32, tensor.address) for tensor in (first, second)]
    tensors, out = cann.aclCreateTensorList((ctypes.c_void_p * 2)(*handles), 2), vector(cann)
    executor, size = cann.prepare("aclnnAddN", tensors, out)
    cann.aclSetAclOpExecutorRepeatable(executor)
    cann.launch("aclnnAddN", executor, size)
    other = cann.tensor(np.full(2, 10, np.float32))
    cann.aclSetDynamicInputTensorAddr(executor, 0, 1, tensors, other.address)
    cann.launch("aclnnAddN", executor, size)
    cann.aclrtSynchronizeStream(None)
    assert cann.read(out).tolist() == [11, 11]
    cann.aclSetDynamicTensorAddr(executor, 0, 0, tensors, other.address)
    cann.aclSetTensorAddr(executor, 2, out.handle, out.address)  # members count one by one
    cann.launch("aclnnAddN", executor, size)
    cann.aclrtSynchronizeStream(None)
    assert cann.read(out).tolist() == [20, 20]
    for index, member in ((0, 2), (1, 0)):
        error = cann.failure("aclSetDynamicInputTensorAddr", executor, index, member, tensors, other.address)
        assert error.status == 161002
    cann.aclDestroyAclOpExecutor(executor)
    cann.aclDestroyTensorList(tensors)


@client()
def test_more_kinds_of_arguments_than_are_remembered(cann: Cann) -> None:
    """Plans that were not used for long are forgotten, here and in the device process; one in use is kept."""
    x, out = cann.tensor(np.zeros(1, np.float32)), vector(cann, 1)
    alpha = scalar(cann, ctypes.c_int64(1), 9)
    kept = scalar(cann, ctypes.c_int64(-5), 9)
    executor, size = cann.prepare("aclnnAdds", x, kept, alpha, out)
    assert size == 0
    for value in range(10_000):
        other = scalar(cann, ctypes.c_int64(value), 9)
        one, _ = cann.prepare("aclnnAdds", x, other, alpha, out)
        cann.aclnnAdds(None, 0, one, None)
        cann.aclDestroyScalar(other)
    cann.aclrtSynchronizeStream(None)
    assert cann.read(out).tolist() == [9999]
    cann.aclnnAdds(None, 0, executor, None)
    cann.aclrtSynchronizeStream(None)
    assert cann.read(out).tolist() == [-5]
    for made in (alpha, kept):
        cann.aclDestroyScalar(made)


@client()
def test_refusals_of_phase_one_carry_status_and_text(cann: Cann) -> None:
    gradient, indices, out = permute_grad(cann)
    wrong = cann.tensor(np.array([0, 1], np.int64))
    error = failure(cann, PERMUTE_GRAD, gradient, wrong, 2, False, out)
    assert error.status == 161002
    assert PERMUTE_GRAD in error.message
    assert "INT64" in error.message
    assert failure(cann, PERMUTE_GRAD, None, indices, 2, False, out).status == 161001
    undefined = cann.describe((2, 2), 99, gradient.address)
    error = failure(cann, PERMUTE_GRAD, undefined, indices, 2, False, out)
    assert error.status == 161002
    assert "data type 99" in error.message
    cann.aclDestroyTensor(undefined)
    assert cann.live("executor") == 0
    assert cann.message() == ""


@client()
def test_null_results_of_phase_one_are_refused(cann: Cann) -> None:
    gradient, indices, out = permute_grad(cann)
    size, executor = ctypes.c_uint64(), ctypes.c_void_p()
    arguments = (gradient.handle, indices.handle, 2, False, out.handle)
    name = f"{PERMUTE_GRAD}GetWorkspaceSize"
    assert cann.failure(name, *arguments, None, ctypes.byref(executor)).status == 161001
    assert cann.failure(name, *arguments, ctypes.byref(size), None).status == 161001


@client()
def test_an_operator_without_reference_is_refused_in_phase_one(cann: Cann) -> None:
    error = failure_of_missing(cann)
    assert error.status == 561003
    assert error.error == "EMULATOR_NOT_SUPPORTED"


def failure_of_missing(cann: Cann) -> CannError:
    """The refusal of some operator that has no reference: found by asking, so that the test outlives each of them."""
    from ascend_aclnn import catalog, reference

    for name in catalog.names():
        operator = catalog.get(name)
        kinds = [p.kind.name for p in operator.parameters]
        if reference.find(operator) is not None or set(kinds) != {"TENSOR"} or len(kinds) != 2 or operator.experimental:
            continue
        x, out = cann.tensor(np.ones((4, 4), np.float32)), cann.tensor(np.ones((4, 4), np.float32))
        error = failure(cann, name, x, out)
        if error.status == 561003:
            assert name in error.message
            return error
    raise AssertionError("every operator of two tensors has a reference or refuses float32")


@client()
def test_a_data_type_that_the_host_lacks_is_refused_in_phase_one(cann: Cann) -> None:
    """aclnnComplex makes COMPLEX32 of FLOAT16, which CANN accepts and NumPy does not have."""
    real, imaginary = (cann.tensor(np.ones(4, np.float16)) for _ in range(2))
    address = cann.malloc(16)
    out = cann.describe((4,), int(DataType.COMPLEX32), address)
    error = failure(cann, "aclnnComplex", real, imaginary, out)
    assert (error.status, error.error) == (561003, "EMULATOR_NOT_SUPPORTED")
    assert "out has dtype COMPLEX32" in error.message
    cann.aclDestroyTensor(out)
    cann.aclrtFree(address)


@client()
def test_the_workspace_must_be_there_and_large_enough(cann: Cann) -> None:
    for workspace, given, status in ((None, 0, 161001), (None, 1 << 20, 161001), ("small", 16, 161002)):
        gradient, indices, out = permute_grad(cann)
        executor, size = cann.prepare(PERMUTE_GRAD, gradient, indices, 2, False, out)
        assert size > 16
        address = cann.malloc(16) if workspace else None
        assert cann.failure(PERMUTE_GRAD, address, given, executor, None).status == status
        assert cann.live("executor") == 0, "phase two ends the executor, whatever comes of it"
        if address:
            cann.aclrtFree(address)
    executor, size = cann.prepare(PERMUTE_GRAD, gradient, indices, 2, False, out)
    address = cann.malloc(16)
    error = cann.failure(PERMUTE_GRAD, address, size, executor, None)
    assert (error.status, error.error) == (161002, "EMULATOR_OUT_OF_BOUNDS")
    cann.aclrtFree(address)


@client()
def test_packing_weights_takes_no_workspace(cann: Cann) -> None:
    """CANN packs on the host, in phase one: programs pass a null workspace."""
    weight = cann.tensor(np.arange(-8, 8, dtype=np.int32).reshape(1, 16))
    packed = cann.tensor(np.zeros((1, 2), np.int32))
    executor, size = cann.prepare("aclnnConvertWeightToINT4Pack", weight, packed)
    assert size == 0
    cann.launch("aclnnConvertWeightToINT4Pack", executor, size)
    cann.aclrtSynchronizeDevice()
    assert cann.read(packed).view(np.uint32).tolist() == [[0xFEDCBA98, 0x76543210]]


@client(ASCEND_EMULATOR_WORKSPACE="1M")
def test_the_workspace_size_can_be_set(cann: Cann) -> None:
    executor, size = cann.prepare(PERMUTE_GRAD, *permute_grad_arguments(cann))
    assert size == 1 << 20
    cann.aclDestroyAclOpExecutor(executor)


def permute_grad_arguments(cann: Cann) -> tuple[Any, ...]:
    gradient, indices, out = permute_grad(cann)
    return gradient, indices, 2, False, out


@client()
def test_an_executor_works_once(cann: Cann) -> None:
    executor, size = cann.prepare(PERMUTE_GRAD, *permute_grad_arguments(cann))
    cann.launch(PERMUTE_GRAD, executor, size)
    workspace = cann.malloc(size)
    error = cann.failure(PERMUTE_GRAD, workspace, size, executor, None)
    assert (error.status, error.error) == (161002, "EMULATOR_USE_AFTER_DESTROY")
    assert cann.failure("aclDestroyAclOpExecutor", executor).error == "EMULATOR_DOUBLE_DESTROY"
    other, size = cann.prepare(PERMUTE_GRAD, *permute_grad_arguments(cann))
    error = cann.failure("aclnnMm", workspace, size, other, None)
    assert (error.status, error.error) == (161002, "EMULATOR_WRONG_EXECUTOR")
    assert cann.failure(PERMUTE_GRAD, workspace, size, None, None).status == 161001
    cann.aclrtFree(workspace)


@client()
def test_arguments_may_go_once_phase_two_has_returned(cann: Cann) -> None:
    arguments = permute_grad_arguments(cann)
    executor, size = cann.prepare(PERMUTE_GRAD, *arguments)
    workspace = cann.malloc(size)
    cann.aclnnMoeTokenPermuteGrad(workspace, size, executor, None)
    for tensor in (arguments[0], arguments[1], arguments[4]):
        cann.aclDestroyTensor(tensor.handle)
    cann.aclrtSynchronizeStream(None)
    assert cann.read(arguments[4]).tolist() == [[4, 6]]
    for tensor in (arguments[0], arguments[1], arguments[4]):
        cann._owned.remove(tensor)
        cann.aclrtFree(tensor.address)
    cann.aclrtFree(workspace)


@client()
def test_arguments_must_live_until_phase_two(cann: Cann) -> None:
    arguments = permute_grad_arguments(cann)
    executor, size = cann.prepare(PERMUTE_GRAD, *arguments)
    cann.aclDestroyTensor(arguments[1].handle)
    workspace = cann.malloc(size)
    error = cann.failure(PERMUTE_GRAD, workspace, size, executor, None)
    assert (error.status, error.error) == (161002, "EMULATOR_USE_AFTER_DESTROY")
    assert "sortedIndices" in error.message
    cann.aclrtFree(workspace)
    cann._owned.remove(arguments[1])
    cann.aclrtFree(arguments[1].address)


@client()
def test_errors_in_the_data_surface_at_the_next_synchronisation(cann: Cann) -> None:
    indices = cann.tensor(np.array([0, 7], np.int64))
    weight, out = cann.tensor(np.eye(2, dtype=np.float32)), cann.tensor(np.zeros((2, 2), np.float32))
    stream = cann.create("aclrtCreateStream")
    executor, size = cann.prepare("aclnnEmbedding", weight, indices, out)
    workspace = cann.malloc(max(size, 1))
    cann.aclnnEmbedding(workspace, size, executor, stream)
    error = cann.failure("aclrtSynchronizeStream", stream)
    assert error.status == 161002
    assert "aclnnEmbedding" in error.message
    cann.aclrtSynchronizeStream(stream)  # told once
    good, size = cann.prepare("aclnnEmbedding", weight, cann.tensor(np.array([1, 0], np.int64)), out)
    cann.aclnnEmbedding(workspace, size, good, stream)
    cann.aclrtSynchronizeStream(stream)
    assert cann.read(out).tolist() == [[0, 1], [1, 0]]
    cann.aclrtFree(workspace)
    cann.aclrtDestroyStream(stream)


def run_on_an_unaligned_address(cann: Cann) -> None:
    block = cann.malloc(64)
    values = np.arange(4, dtype=np.float32)
    cann.aclrtMemcpy(block + 4, 16, values.ctypes.data, 16, H2D)
    x, out = cann.describe((4,), np.float32, block + 4), cann.tensor(np.zeros(4, np.float32))
    for _ in range(2):
        cann.run("aclnnAbs", x, out)
    assert cann.read(out).tolist() == values.tolist()
    cann.aclDestroyTensor(x)
    cann.aclrtFree(block)


def test_unaligned_addresses_are_reported_once(emulator_home: Path) -> None:
    for mode, lines in (("warn", 1), ("allow", 0), ("", 1)):
        done = run_body(run_on_an_unaligned_address, emulator_home, ASCEND_EMULATOR_ALIGNMENT=mode)
        assert done.returncode == 0, done.stderr
        assert done.stderr.count("EMULATOR_UNALIGNED_ADDRESS: aclnnAbs: self") == len(done.stderr.splitlines()) == lines


@client(ASCEND_EMULATOR_ALIGNMENT="refuse")
def test_addresses_are_checked_when_launching(cann: Cann) -> None:
    gradient, indices, out = permute_grad(cann)
    freed = cann.malloc(64)
    cann.aclrtFree(freed)
    host = np.zeros((4, 2), np.float32)
    inside = cann.malloc(64)
    for address, error in (
        (freed, "EMULATOR_USE_AFTER_FREE"),
        (host.ctypes.data & ~31, "EMULATOR_INVALID_ADDRESS"),
        (None, "EMULATOR_INVALID_ADDRESS"),
        (inside + 4, "EMULATOR_UNALIGNED_ADDRESS"),
        (inside + 64 - 32, ""),
        (inside + 64, "EMULATOR_OUT_OF_BOUNDS"),
    ):
        view = cann.describe((2, 2), np.float32, address)
        executor, size = cann.prepare(PERMUTE_GRAD, view, indices, 2, False, out)
        workspace = cann.malloc(size)
        if error:
            found = cann.failure(PERMUTE_GRAD, workspace, size, executor, None)
            assert (found.status, found.error) == (161002, error), found.message
        else:
            cann.aclnnMoeTokenPermuteGrad(workspace, size, executor, None)
        cann.aclrtSynchronizeStream(None)
        cann.aclDestroyTensor(view)
        cann.aclrtFree(workspace)
    large = cann.describe((2, 9), np.float32, inside)
    wide = cann.tensor(np.zeros((1, 9), np.float32))
    executor, size = cann.prepare(PERMUTE_GRAD, large, indices, 2, False, wide)
    workspace = cann.malloc(size)
    found = cann.failure(PERMUTE_GRAD, workspace, size, executor, None)
    assert found.error == "EMULATOR_OUT_OF_BOUNDS"
    assert "permutedOutputGrad needs 72 bytes" in found.message
    cann.aclDestroyTensor(large)
    for address in (inside, workspace):
        cann.aclrtFree(address)
    assert gradient


@client(ASCEND_EMULATOR_ALIGNMENT="refuse")
def test_a_repeatable_executor_takes_new_addresses(cann: Cann) -> None:
    gradient, indices, out = permute_grad(cann)
    executor, size = cann.prepare(PERMUTE_GRAD, gradient, indices, 2, False, out)
    cann.aclSetAclOpExecutorRepeatable(executor)
    for _ in range(3):
        cann.launch(PERMUTE_GRAD, executor, size)
    assert cann.read(out).tolist() == [[4, 6]]
    other = cann.tensor(np.array([[10, 20], [30, 40]], np.float32))
    target = cann.tensor(np.zeros((1, 2), np.float32))
    cann.aclSetInputTensorAddr(executor, 0, gradient.handle, other.address)
    cann.aclSetOutputTensorAddr(executor, 0, out.handle, target.address)
    cann.launch(PERMUTE_GRAD, executor, size)
    assert cann.read(target).tolist() == [[40, 60]]
    assert cann.read(out).tolist() == [[4, 6]]
    cann.AclSetTensorAddr(executor, 2, out.handle, out.address)  # inputs, then outputs
    cann.launch(PERMUTE_GRAD, executor, size)
    assert cann.read(out).tolist() == [[40, 60]]
    cann.aclSetRawTensorAddr(gradient.handle, gradient.address)
    cann.launch(PERMUTE_GRAD, executor, size)
    assert cann.read(out).tolist() == [[4, 6]]
    assert cann.failure("aclSetInputTensorAddr", executor, 2, gradient.handle, other.address).status == 161002
    assert cann.failure("aclSetInputTensorAddr", executor, 1, gradient.handle, other.address).status == 161002
    assert cann.failure("aclSetInputTensorAddr", executor, 0, None, other.address).status == 561103
    assert cann.failure("aclSetInputTensorAddr", None, 0, gradient.handle, other.address).status == 561103
    error = cann.failure("aclSetInputTensorAddr", executor, 0, gradient.handle, other.address + 8)
    assert error.error == "EMULATOR_UNALIGNED_ADDRESS"
    cann.aclDestroyAclOpExecutor(executor)


@client()
def test_scalars_of_generated_operators_count_among_the_inputs(cann: Cann) -> None:
    power = scalar(cann, ctypes.c_float(2), 0)
    members = [cann.tensor(np.array([n], np.float32)) for n in (1, 2, 3, 0)]
    handles = [cann.describe((1,), np.float32, tensor.address) for tensor in members]
    lists = [cann.aclCreateTensorList((ctypes.c_void_p * n)(*h), n) for n, h in ((3, handles[:3]), (1, handles[3:]))]
    outs = [cann.tensor(np.zeros(1, np.float32)) for _ in range(3)]
    targets = [cann.describe((1,), np.float32, out.address) for out in outs]
    results = cann.aclCreateTensorList((ctypes.c_void_p * 3)(*targets), 3)
    executor, size = cann.prepare("aclnnForeachPowScalarAndTensor", power, lists[0], results)
    cann.aclSetAclOpExecutorRepeatable(executor)
    cann.aclSetDynamicInputTensorAddr(executor, 1, 0, lists[0], members[3].address)  # the scalar is 0
    cann.aclSetInputTensorAddr(executor, 2, handles[1], members[3].address)
    cann.aclSetTensorAddr(executor, 4, targets[0], outs[1].address)
    cann.aclSetTensorAddr(executor, 5, targets[1], outs[0].address)
    for index, handle in ((0, handles[0]), (1, handles[1])):
        assert cann.failure("aclSetInputTensorAddr", executor, index, handle, members[3].address).status == 161002
    assert cann.failure("aclSetDynamicInputTensorAddr", executor, 0, 0, lists[0], members[3].address).status == 161002
    cann.launch("aclnnForeachPowScalarAndTensor", executor, size)
    cann.aclrtSynchronizeStream(None)
    assert [cann.read(out).tolist() for out in outs] == [[1], [1], [8]]
    cann.aclDestroyAclOpExecutor(executor)
    cann.aclDestroyScalar(power)
    for made in (*lists, results):
        cann.aclDestroyTensorList(made)


@client()
def test_a_repeatable_executor_runs_fast_from_its_second_run_on(cann: Cann) -> None:
    arguments = (*permute_grad(cann)[:2], 2, False, cann.tensor(np.zeros((1, 2), np.float32)))
    executor, size = cann.prepare(PERMUTE_GRAD, *arguments)
    cann.aclSetAclOpExecutorRepeatable(executor)
    for fast in (0, 1, 2):
        cann.launch(PERMUTE_GRAD, executor, size)
        assert cann.fast_runs() == fast
    cann.aclDestroyAclOpExecutor(executor)
    cann._function("InitPTACacheThreadLocal")()
    executor, size = cann.prepare(PERMUTE_GRAD, *arguments)
    cann._function("UnInitPTACacheThreadLocal")()
    cann.aclSetAclOpExecutorRepeatable(executor)
    for _ in range(3):  # without a key CANN records nothing
        cann.launch(PERMUTE_GRAD, executor, size)
    assert cann.fast_runs() == 2
    cann.aclDestroyAclOpExecutor(executor)


@client()
def test_a_repeatable_executor_needs_its_tensors(cann: Cann) -> None:
    arguments = permute_grad_arguments(cann)
    executor, size = cann.prepare(PERMUTE_GRAD, *arguments)
    cann.aclSetAclOpExecutorRepeatable(executor)
    cann.launch(PERMUTE_GRAD, executor, size)
    cann.aclDestroyTensor(arguments[0].handle)
    workspace = cann.malloc(size)
    assert cann.failure(PERMUTE_GRAD, workspace, size, executor, None).error == "EMULATOR_USE_AFTER_DESTROY"
    cann.aclrtFree(workspace)
    cann.aclDestroyAclOpExecutor(executor)
    cann._owned.remove(arguments[0])
    cann.aclrtFree(arguments[0].address)


@client()
def test_repeatable_must_follow_phase_one_on_its_thread(cann: Cann) -> None:
    first, _ = cann.prepare(PERMUTE_GRAD, *permute_grad_arguments(cann))
    second, _ = cann.prepare(PERMUTE_GRAD, *permute_grad_arguments(cann))
    error = cann.failure("aclSetAclOpExecutorRepeatable", first)
    assert (error.status, error.error) == (561000, "EMULATOR_WRONG_EXECUTOR")
    errors: list[CannError] = []
    worker = threading.Thread(target=lambda: errors.append(cann.failure("aclSetAclOpExecutorRepeatable", second)))
    worker.start()
    worker.join()
    assert (errors[0].status, errors[0].error) == (561000, "EMULATOR_WRONG_THREAD")
    cann.aclDestroyAclOpExecutor(first)
    cann.aclDestroyAclOpExecutor(second)


@client(ASCEND_EMULATOR_REPEATABLE="0")
def test_repeatable_can_be_refused(cann: Cann) -> None:
    executor, size = cann.prepare(PERMUTE_GRAD, *permute_grad_arguments(cann))
    assert cann.failure("aclSetAclOpExecutorRepeatable", executor).status == 561000
    cann.launch(PERMUTE_GRAD, executor, size)  # it still works once


@client(ASCEND_EMULATOR_NOOP="1")
def test_operators_can_do_nothing(cann: Cann) -> None:
    gradient, indices, out = permute_grad(cann)
    for _ in range(10):
        cann.run(PERMUTE_GRAD, gradient, indices, 2, False, out)
    assert cann.read(out).tolist() == [[0, 0]]
    assert cann.device_pid() == 0


@client()
def test_empty_tensors_need_no_memory(cann: Cann) -> None:
    gradient = cann.describe((0, 3), np.float32, None)
    indices = cann.describe((0,), np.int64, None)
    out = cann.tensor(np.ones((2, 3), np.float32))
    cann.run("aclnnEmbeddingDenseBackward", gradient, indices, 2, 2**64 - 1, False, out)
    assert cann.read(out).tolist() == [[0, 0, 0], [0, 0, 0]]
    cann.aclDestroyTensor(gradient)
    cann.aclDestroyTensor(indices)


@client()
def test_many_different_arguments_do_not_pile_up(cann: Cann) -> None:
    weight = cann.tensor(np.zeros((4, 1), np.float32))
    for n in range(1, 300):
        indices = cann.tensor(np.zeros(n, np.int64))
        out = cann.tensor(np.ones((n, 1), np.float32))
        cann.run("aclnnEmbedding", weight, indices, out)
        assert not cann.read(out).any()
        cann.drop(out)
        cann.drop(indices)


@client()
def test_threads_run_operators_at_the_same_time(cann: Cann) -> None:
    errors: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            cann.aclrtSetDevice(0)
            stream = cann.create("aclrtCreateStream")
            for i in range(50):
                left = cann.tensor(np.full((4, 4), seed, np.float32))
                right, out = cann.tensor(np.eye(4, dtype=np.float32) * i), cann.tensor(np.zeros((4, 4), np.float32))
                executor, size = cann.prepare("aclnnMm", left, right, out, 0)
                cann.launch("aclnnMm", executor, size, stream)
                cann.aclrtSynchronizeStream(stream)
                assert (cann.read(out) == seed * i).all()
                for tensor in (left, right, out):
                    cann.drop(tensor)
            cann.aclrtDestroyStream(stream)
            cann.aclrtResetDevice(0)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors


@client()
def test_helpers_compute_on_the_host(cann: Cann) -> None:
    size, format = ctypes.c_uint64(), ctypes.c_int32()
    shape = cann.aclCreateIntArray(int64s((3, 17, 40)), 3)
    helpers = cann.libraries[2]
    assert helpers.aclnnCalculateMatmulWeightSize(ctypes.c_void_p(shape), ctypes.byref(size)) == 0
    assert size.value == 3 * 32 * 48
    assert helpers.aclnnCalculateMatmulWeightSizeV2(ctypes.c_void_p(shape), 2, ctypes.byref(size)) == 0  # int8
    assert size.value == 3 * 32 * 64
    cann.aclDestroyIntArray(shape)
    assert helpers.aclnnCalculateMatmulWeightSize(ctypes.c_void_p(shape), ctypes.byref(size)) == 161002
    assert cann.message().startswith("EMULATOR_USE_AFTER_DESTROY")
    matrix = cann.describe((5, 17, 40), np.float16, None)
    dims = ctypes.POINTER(ctypes.c_int64)()
    results = ctypes.byref(dims), ctypes.byref(size), ctypes.byref(format)
    assert helpers.aclnnNpuFormatCastCalculateSizeAndFormat(ctypes.c_void_p(matrix), 29, -1, *results) == 0
    assert (dims[: size.value], format.value) == ([5, 3, 2, 16, 16], 29)
    assert helpers.aclnnNpuFormatCastCalculateSizeAndFormat(ctypes.c_void_p(matrix), 4, -1, *results) == 361001
    assert "EMULATOR_NOT_SUPPORTED" in cann.message()
    cann.aclDestroyTensor(matrix)
    packed = ctypes.POINTER(ctypes.c_uint64)()
    scales, offsets = (ctypes.c_float * 3)(1.0, 2.0, 0.5), (ctypes.c_float * 2)(-1.0, 300.0)
    count = ctypes.c_uint64
    arguments = scales, count(3), offsets, count(2), ctypes.byref(packed), ctypes.byref(size)
    assert helpers.aclnnTransQuantParam(*arguments) == 0
    wanted = [0x3F800000 | 1 << 46 | 0x1FF << 37, 0x40000000 | 1 << 46 | 255 << 37, 0x3F000000 | 1 << 46]
    assert packed[: size.value] == wanted + [0] * 13
    assert helpers.aclnnSetPytorchRandom(1) == 561003
    assert "aclnnSetPytorchRandom" in cann.message()


@client()
def test_two_of_four_weights_on_the_host(cann: Cann) -> None:
    """aclnnTransSparse4to2Para gives what ``weights.trans_sparse4to2_para`` does, in memory of malloc's."""
    dense = np.zeros((20, 40, 4), np.int8)
    dense[..., 1], dense[::3, ::2, 3] = 5, -7
    dense = dense.reshape(20, 160)
    shape = cann.aclCreateIntArray(int64s(dense.shape), 2)
    kept, index = ctypes.POINTER(ctypes.c_int8)(), ctypes.POINTER(ctypes.c_uint8)()
    dims, index_dims = ctypes.POINTER(ctypes.c_int64)(), ctypes.POINTER(ctypes.c_int64)()
    counts = ctypes.c_uint64(), ctypes.c_uint64()
    outputs = [ctypes.byref(x) for x in (kept, dims, counts[0], index, index_dims, counts[1])]
    arguments = ctypes.c_void_p(dense.ctypes.data), ctypes.c_void_p(shape), *outputs
    assert cann.libraries[2].aclnnTransSparse4to2Para(*arguments) == 0
    wanted, places = weights.trans_sparse4to2_para(dense)
    assert (dims[: counts[0].value], index_dims[: counts[1].value]) == ([*wanted.shape], [*places.shape])
    assert kept[: wanted.size] == wanted.reshape(-1).tolist()
    assert index[: places.size] == places.reshape(-1).tolist()
    libc = ctypes.CDLL(None)
    for pointer in (kept, index, dims, index_dims):
        libc.free(pointer)
    dense[3, 4:7] = 1
    assert cann.libraries[2].aclnnTransSparse4to2Para(*arguments) == 161002
    cann.aclDestroyIntArray(shape)


@client(ASCEND_ACLNN_SOC="Ascend310P3")
def test_sizes_of_convolution_weights(cann: Cann) -> None:
    size = ctypes.c_uint64()
    for shape, groups, wanted in (((20, 3, 5, 7), 1, 32 * 16 * 35), ((64, 1, 1, 1), 64, 4 * 256), ((0, 1, 1, 1), 1, 0)):
        array = cann.aclCreateIntArray(int64s(shape), 4)
        arguments = ctypes.c_void_p(array), False, ctypes.c_int64(groups), 1, ctypes.byref(size)
        assert cann.libraries[2].aclnnCalculateConvolutionWeightSize(*arguments) == 0
        assert size.value == wanted
        assert cann.libraries[2].aclnnCalculateConvolutionWeightSize(arguments[0], True, *arguments[2:]) == 161002
        cann.aclDestroyIntArray(array)


@client()
def test_tensor_metadata_can_be_read_back(cann: Cann) -> None:
    tensor = cann.describe((2, 3), np.float16, None, strides=(1, 2), offset=5, format=29, storage=(1, 1, 16, 16))
    for name, wanted in (
        ("aclGetViewShape", [2, 3]),
        ("aclGetViewStrides", [1, 2]),
        ("aclGetStorageShape", [1, 1, 16, 16]),
    ):
        numbers, count = ctypes.POINTER(ctypes.c_int64)(), ctypes.c_uint64()
        getattr(cann, name)(tensor, ctypes.byref(numbers), ctypes.byref(count))
        assert numbers[: count.value] == wanted
    offset, format, dtype = ctypes.c_int64(), ctypes.c_int32(), ctypes.c_int32()
    cann.aclGetViewOffset(tensor, ctypes.byref(offset))
    cann.aclGetFormat(tensor, ctypes.byref(format))
    cann.aclGetDataType(tensor, ctypes.byref(dtype))
    assert (offset.value, format.value, dtype.value) == (5, 29, 1)
    dims = int64s((4, 4))
    cann.aclInitTensor(tensor, dims, 2, 0, None, 0, 2, None, 0, None)
    numbers, count = ctypes.POINTER(ctypes.c_int64)(), ctypes.c_uint64()
    cann.aclGetViewStrides(tensor, ctypes.byref(numbers), ctypes.byref(count))
    assert numbers[: count.value] == [4, 1]
    cann.aclDestroyTensor(tensor)


def failure(cann: Cann, name: str, *arguments: Any) -> CannError:
    """The error of a phase one that must fail."""
    try:
        cann.prepare(name, *arguments)
    except CannError as error:
        return error
    raise AssertionError(f"{name} did not fail")


def launch_impossible_shapes(cann: Cann) -> None:
    x = cann.tensor(np.ones((2, 3), np.float32))
    for shape, strides, status in (
        ((1 << 40, 1 << 40), None, 161002),
        ((1 << 40, 1 << 40), (0, 0), 161002),  # within x by its strides
        ((1 << 62,), (0,), 161002),
        ((-2, 3), None, 161002),
        ((1 << 50,), (0,), 207001),  # what any computer could count, and none can compute
    ):
        huge = cann.describe(shape, np.float32, x.address, strides)
        executor, size = cann.prepare("aclnnAbs", huge, huge)
        workspace = cann.malloc(max(size, 1))
        status_found = cann._function("aclnnAbs")(workspace, size, executor, None)
        status_found = status_found or cann._function("aclrtSynchronizeStream")(None)
        message = cann.message()
        assert status_found == status, (shape, strides, message)
        assert "aclnnAbs: " in message
        assert ("self" if status == 161002 else "needs more memory") in message, message
        cann.aclDestroyTensor(huge)
        cann.aclrtFree(workspace)
    out = cann.tensor(np.zeros((2, 3), np.float32))
    cann.run("aclnnAbs", x, out)
    assert cann.read(out).tolist() == [[1.0] * 3] * 2


def test_impossible_shapes_are_errors_with_names(emulator_home: Path) -> None:
    done = run_body(launch_impossible_shapes, emulator_home)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
