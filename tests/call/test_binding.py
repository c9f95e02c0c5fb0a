"""How Python arguments become C values and results come back: kinds, outputs, errors, in-place operators."""

from __future__ import annotations

import contextlib
import inspect
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ascend_aclnn as aclnn
from ascend_aclnn import AclError, Tensor, ops
from ascend_aclnn.backends.interface import Backend
from ascend_aclnn.reference import DataError, Reference

ROOT = Path(__file__).parents[2]
GRAD = np.arange(1, 13, dtype=np.float32).reshape(6, 2)
ORDER = np.array([2, 0, 4, 3, 1, 5], np.int32)
SUMS = [[6, 8], [16, 18], [14, 16]]


# ------------------------------------------------------------------------------------------ signatures


def test_signatures_of_the_contract() -> None:
    expected = {
        "moe_token_permute_grad": "(permuted_output_grad, sorted_indices, num_topk, padded_mode=False",
        "moe_token_permute": "(tokens, indices, num_out_tokens=0, padded_mode=False",
        "moe_token_unpermute": "(permuted_tokens, sorted_indices, probs=None, padded_mode=False, restore_shape=None",
        "moe_token_unpermute_grad": "(permuted_tokens, unpermuted_tokens_grad, sorted_indices, probs=None,"
        " padded_mode=False, restore_shape=None",
        "rms_norm_grad": "(dy, x, rstd, gamma",
        "rms_norm": "(x, gamma, epsilon=1e-06",
        "embedding_dense_backward": "(grad, indices, num_weights, padding_idx, scale_grad_by_freq=False",
        "embedding": "(weight, indices",
        "moe_init_routing": "(x, row_idx, expert_idx, active_num",
        "mm": "(self, mat2, cube_math_type=0",
        "moe_init_routing_quant": "(x, row_idx, expert_idx, active_num, scale, offset",
    }
    for name, text in expected.items():
        assert str(inspect.signature(getattr(ops, name))) == text + ", *, out=None, stream=None)"


def test_unknown_names_suggest_known_ones() -> None:
    for wrong, right in [
        ("RmsNormGrad", "rms_norm_grad"),
        ("aclnnMm", "mm"),
        ("embeddingdensebackward", "embedding_dense_backward"),
        ("concat", "cat"),
        ("matmul_", "matmul"),
        ("add_", "inplace_add"),
        ("arctan2", "atan2"),
        ("eq", "eq_tensor or eq_scalar"),
        ("isfinite", "is_finite"),
        ("masked_fill_", "inplace_masked_fill_"),
        ("npu_swiglu", "swi_glu"),
        ("npu_fusion_attention", "flash_attention_score"),
    ]:
        with pytest.raises(AttributeError, match=f"did you mean {right}"):
            getattr(ops, wrong)
    with pytest.raises(AttributeError):
        ops.no_such_operator_at_all  # noqa: B018
    with pytest.raises(AttributeError, match=r"has no operator '_abs'$"):
        ops._abs  # noqa: B018


def test_names_of_torch_and_numpy_lead_to_operators() -> None:
    names = aclnn.catalog.python_names()
    for name, operators in aclnn.catalog.other_names().items():
        assert name not in names or aclnn.catalog.get(names[name]).experimental
        for operator in operators.split():
            assert operator in dir(ops) or "." in operator or "[" in operator, (name, operator)
            assert operator not in names or not aclnn.catalog.get(names[operator]).experimental, (name, operator)


def test_a_contributed_operator_with_a_name_of_torchs_says_so() -> None:
    x = np.array([1, 4], np.float32)
    lacking = "ops.pow is the contributed aclnnPow, which CANN's packages lack; .* in torch is ops.pow_tensor_scalar or"
    with pytest.warns(UserWarning, match=lacking) as told:
        assert ops.pow(x, x).tolist() == [1, 256]
    assert [warning.filename for warning in told] == [__file__]
    for name, call in {
        "split": lambda: ops.split(x, 0, [1]),
        "masked_fill": lambda: ops.masked_fill(x, x > 1, np.float32(0)),
        "relu6": lambda: ops.relu6(x),
        "inv": lambda: ops.inv(x),
    }.items():
        with (
            pytest.warns(UserWarning, match=f"ops.{name} is the contributed"),
            contextlib.suppress(AclError, TypeError),
        ):
            call()
    # torch's other functions of these names have no other operator in CANN.
    names = aclnn.catalog.python_names()
    alone = {"as_strided", "gaussian_nll_loss", "hinge_embedding_loss", "huber_loss", "ndtri", "softsign", "view_copy"}
    of_torch = {"pow", "split", "masked_fill", "relu6", "inv", *alone}
    contributed = {name for name in of_torch if aclnn.catalog.get(names[name]).experimental}
    assert contributed == of_torch and of_torch & aclnn.catalog.other_names().keys() == of_torch - alone


def test_a_number_in_place_of_a_tensor_names_the_operator_that_takes_one() -> None:
    x = np.ones(3, np.float32)
    for function, other in [
        (ops.add, "adds"),
        (ops.inplace_mul, "inplace_muls"),
        (ops.eq_tensor, "eq_scalar"),
        (ops.pow_tensor_tensor, "pow_tensor_scalar"),
        (ops.remainder_tensor_tensor, "remainder_tensor_scalar"),
    ]:
        with pytest.raises(TypeError, match=rf"is an int; it must be a Tensor.*; ops\.{other} takes a number there"):
            function(x, 2)
    with pytest.raises(TypeError, match=r"mat2 is an int; it must be a Tensor, an ndarray or a sequence$"):
        ops.matmul(x, 2)


def test_a_wrong_call_shows_the_callers_line_and_a_fault_of_a_reference_its_own() -> None:
    x = np.ones(3, np.float32)
    for call, error in ((lambda: ops.add(x, 2), TypeError), (lambda: ops.mm(x, x, 300), ValueError)):
        with pytest.raises(error) as caught:
            call()
        assert len(caught.traceback) == 3, caught.traceback  # this function, the lambda and the generated one
    try:
        raise ValueError("of a reference")
    except ValueError as error:
        assert ops._outside(error).__traceback__ is not None


def test_dir_lists_every_operator() -> None:
    assert len(dir(ops)) == len(set(aclnn.operators())) == 1381
    assert "rms_norm_grad" in dir(ops)


def test_signature_of_c() -> None:
    parameters = aclnn.signature("aclnnRmsNormGrad").parameters
    assert [p.name for p in parameters] == ["dy", "x", "rstd", "gamma", "dxOut", "dgammaOut"]
    assert [p.direction for p in parameters] == ["in"] * 4 + ["out"] * 2
    assert parameters[0].ctype == "const aclTensor*" and not parameters[0].optional
    with pytest.raises(ValueError, match="no operator"):
        aclnn.signature("aclnnNoSuch")


# ------------------------------------------------------------------------------------------ kinds


def test_ndarrays_in_ndarrays_out(each_backend: Backend) -> None:
    out = ops.moe_token_permute_grad(GRAD, ORDER, 2)
    assert isinstance(out, np.ndarray) and out.tolist() == SUMS


def test_a_tensor_in_tensors_out(each_backend: Backend) -> None:
    out = ops.moe_token_permute_grad(aclnn.asarray(GRAD), ORDER, 2)  # the ndarray beside it is uploaded
    assert isinstance(out, Tensor) and out.numpy().tolist() == SUMS
    assert out.backend is each_backend


def test_a_stream_makes_tensors_of_ndarrays(each_backend: Backend) -> None:
    stream = aclnn.Stream()
    out = ops.moe_token_permute_grad(GRAD, ORDER, 2, stream=stream)
    assert isinstance(out, Tensor) and out.numpy().tolist() == SUMS
    stream.close()
    stream.close()


def test_results_are_named(each_backend: Backend) -> None:
    result = ops.rms_norm(np.ones((2, 8), np.float32), np.ones(8, np.float32))
    assert result._fields == ("y", "rstd") and type(result).__name__ == "RmsNormResult"
    y, rstd = result
    assert y is result.y and rstd.shape == (2, 1)


def test_out_of_the_caller(each_backend: Backend) -> None:
    out = np.zeros((3, 2), np.float32)
    assert ops.moe_token_permute_grad(GRAD, ORDER, 2, out=out) is out
    assert out.tolist() == SUMS
    wide = np.zeros((3, 4), np.float32)
    ops.moe_token_permute_grad(GRAD, ORDER, 2, out=wide[:, ::2])
    assert wide.tolist() == [[6, 0, 8, 0], [16, 0, 18, 0], [14, 0, 16, 0]]
    tensor = aclnn.empty((3, 2), np.float32)
    assert ops.moe_token_permute_grad(GRAD, ORDER, 2, out=tensor) is tensor
    assert tensor.numpy().tolist() == SUMS


def test_out_may_name_some(each_backend: Backend) -> None:
    y = np.empty((2, 8), np.float32)
    result = ops.rms_norm(np.ones((2, 8), np.float32), np.ones(8, np.float32), out=(y, None))
    assert result.y is y and result.rstd.shape == (2, 1)


def test_out_may_overlap_an_input(each_backend: Backend) -> None:
    grad = np.ones((4, 2), np.float32)
    ops.moe_token_permute_grad(grad, np.array([0, 1, 2, 3], np.int32), 2, out=grad[:2])
    assert grad.tolist() == [[2, 2], [2, 2], [1, 1], [1, 1]]


def test_optional_outputs_are_skipped(each_backend: Backend) -> None:
    grad, dout = np.ones((2, 4), np.float32), np.ones((2, 4), np.float32)
    result = ops.moe_token_unpermute_grad(grad, dout, np.array([1, 0], np.int32))
    assert result.probs_grad is None and result.permuted_tokens_grad.tolist() == dout.tolist()


def test_lists_and_numbers_where_arrays_are_meant(each_backend: Backend) -> None:
    assert ops.moe_token_permute_grad(GRAD, ORDER.tolist(), 2).tolist() == SUMS  # ints become the documented INT32
    table = np.arange(6, dtype=np.float32).reshape(3, 2)
    assert ops.embedding(table, [2, 0]).tolist() == [[4, 5], [0, 1]]
    assert ops.embedding_dense_backward(GRAD, [0, 1, 1, 0, 0, 0], np.int64(2), np.int32(-1)).shape == (2, 2)


# ------------------------------------------------------------------------------------------ wrong calls


@pytest.mark.parametrize(
    "call,error,text",
    [
        (lambda: ops.rms_norm_grad(GRAD, GRAD), TypeError, "missing 2 required positional arguments: 'rstd' and 'gamma'"),
        (lambda: ops.moe_token_permute_grad(GRAD, ORDER, "2"), TypeError, "num_topk is '2'; it must be an integer"),
        (lambda: ops.moe_token_permute_grad(GRAD, ORDER, 2.0), TypeError, "num_topk is 2.0; it must be an integer"),
        (lambda: ops.moe_token_permute_grad(GRAD, ORDER, 2**63), ValueError, "num_topk is 9223372036854775808"),
        (lambda: ops.moe_token_permute_grad("x", ORDER, 2), TypeError, "permuted_output_grad is a str"),
        (lambda: ops.moe_token_permute_grad(1.0, ORDER, 2), TypeError, "permuted_output_grad is a float"),
        (lambda: ops.moe_token_permute_grad(GRAD, ORDER, 2, padded_mode="no"), TypeError, "padded_mode is 'no'"),
        (lambda: ops.moe_token_permute_grad(GRAD, ORDER, 2, out="x"), TypeError, "out .out=. is a str"),
        (lambda: ops.moe_token_permute_grad(GRAD, ORDER, 2, out=(None, None)), TypeError, r"out has 2 items"),
        (lambda: ops.rms_norm(GRAD, GRAD[0], "x"), TypeError, "epsilon is 'x'; it must be a number"),
        (lambda: ops.mm(GRAD, GRAD.T, 300), ValueError, r"cube_math_type is 300; it must be in \[-128, 127\] \(int8_t\)"),
        (lambda: ops.moe_token_permute_grad(np.array(["a"]), ORDER, 2), TypeError, "without a CANN counterpart"),
    ],
)  # fmt: skip
def test_wrong_calls(each_backend: Backend, call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call()


def test_read_only_results_are_refused(each_backend: Backend) -> None:
    out = np.zeros((3, 2), np.float32)
    out.flags.writeable = False
    with pytest.raises(ValueError, match=r"out .out=. is read-only"):
        ops.moe_token_permute_grad(GRAD, ORDER, 2, out=out)


def test_kinds_are_not_mixed_for_results(each_backend: Backend) -> None:
    with pytest.raises(TypeError, match="is an ndarray beside Tensors"):
        ops.moe_token_permute_grad(aclnn.asarray(GRAD), ORDER, 2, out=np.zeros((3, 2), np.float32))


def test_a_tensor_of_the_other_backend(each_backend: Backend) -> None:
    if each_backend.name == "numpy":
        pytest.skip("the NumPy backend is the other one here")
    with aclnn.use_backend("numpy"):
        foreign = aclnn.asarray(GRAD)
    with pytest.raises(TypeError, match="is a Tensor of the numpy backend; the backend in use is npu"):
        ops.moe_token_permute_grad(foreign, ORDER, 2)


def test_an_error_ends_at_the_callers_line() -> None:
    with aclnn.use_backend("numpy"), pytest.raises(AclError) as caught:
        ops.mm(GRAD, GRAD)
    assert len(caught.traceback) == 2  # this function, and the generated one


def test_errors_survive_pickling() -> None:
    with aclnn.use_backend("numpy"), pytest.raises(AclError) as caught:
        ops.mm(GRAD, GRAD)
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value)
    assert (again.status, again.operator, again.argument) == (161002, "aclnnMm", "mat2")


# ------------------------------------------------------------------------------------------ in place


def test_in_place_operators_write_back(each_backend: Backend) -> None:
    x = np.ones((2, 3), np.float32)
    result = ops.inplace_add(x, np.full((2, 3), 2, np.float32), 3)
    assert result is x and x.tolist() == [[7, 7, 7], [7, 7, 7]]
    t = aclnn.asarray(np.ones((2, 3), np.float32))
    assert ops.inplace_add(t, np.full((2, 3), 2, np.float32), 3) is t
    assert t.numpy().tolist() == [[7, 7, 7], [7, 7, 7]]


def test_in_place_operators_refuse_what_they_cannot_change(each_backend: Backend) -> None:
    x = np.ones((2, 3), np.float32)
    x.flags.writeable = False
    with pytest.raises(ValueError, match="self is read-only"):
        ops.inplace_add(x, x, 1)
    with pytest.raises(TypeError, match="the operator changes it, so it must be a Tensor too"):
        ops.inplace_add(np.ones((2, 3), np.float32), aclnn.asarray(x), 1)
    with pytest.raises(TypeError, match="the operator changes it, so it must be an ndarray or a Tensor"):
        ops.inplace_add([1.0, 2.0], np.ones(2, np.float32), 1)


# ------------------------------------------------------------------------------------------ Executor


def test_executor(each_backend: Backend) -> None:
    grad, order = aclnn.asarray(GRAD), aclnn.asarray(ORDER)
    out = aclnn.zeros((3, 2), np.float32)
    with aclnn.Executor("aclnnMoeTokenPermuteGrad", grad, order, 2, False, out) as executor:
        assert executor.workspace_size >= 0
        executor.run()
        with pytest.raises(RuntimeError, match="has run"):
            executor.run()
    assert out.numpy().tolist() == SUMS
    with pytest.raises(RuntimeError, match="is closed"):
        executor.run()
    executor.close()


def test_repeatable_executor_sees_new_values(each_backend: Backend) -> None:
    grad, order = aclnn.asarray(GRAD), aclnn.asarray(ORDER)
    out = aclnn.zeros((3, 2), np.float32)
    with aclnn.Executor("aclnnMoeTokenPermuteGrad", grad, order, 2, False, out, repeatable=True) as executor:
        executor.run()
        assert out.numpy().tolist() == SUMS
        grad.assign(GRAD * 2)
        executor.run()
        assert out.numpy().tolist() == (2 * np.array(SUMS)).tolist()


def test_an_executor_that_never_runs_leaves_nothing(each_backend: Backend) -> None:
    out = aclnn.empty((3, 2), np.float32)
    aclnn.Executor("aclnnMoeTokenPermuteGrad", aclnn.asarray(GRAD), aclnn.asarray(ORDER), 2, False, out)


def test_executor_takes_ndarrays_on_numpy_only(each_backend: Backend) -> None:
    out = np.zeros((3, 2), np.float32)
    if each_backend.name == "numpy":
        aclnn.Executor("aclnnMoeTokenPermuteGrad", GRAD, ORDER, 2, False, out).run()
        assert out.tolist() == SUMS
    else:
        with pytest.raises(TypeError, match="an Executor on the npu backend takes Tensors"):
            aclnn.Executor("aclnnMoeTokenPermuteGrad", GRAD, ORDER, 2, False, out)


def test_executor_statuses(each_backend: Backend) -> None:
    grad, order = aclnn.asarray(GRAD), aclnn.asarray(ORDER)
    with pytest.raises(AclError) as caught:
        aclnn.Executor("aclnnMoeTokenPermuteGrad", grad, order, 2, False, None)
    assert (caught.value.status, caught.value.argument) == (161001, "out")
    with pytest.raises(TypeError, match="takes 5 arguments"):
        aclnn.Executor("aclnnMoeTokenPermuteGrad", grad, order, 2)
    with pytest.raises(ValueError, match="no operator 'aclnnNoSuch'"):
        aclnn.Executor("aclnnNoSuch")


def test_checks_never_touch_data() -> None:
    with aclnn.use_backend("numpy"):
        huge = aclnn.empty((1 << 40, 1 << 10), np.float32)
        with pytest.raises(AclError) as caught:
            aclnn.Executor("aclnnMm", huge, huge, huge, 0)
        assert caught.value.status == 161002
        for dtype in aclnn.DataType:
            aclnn.empty((-2, 3), dtype)


def test_an_operator_without_a_reference_is_still_checked() -> None:
    name = "aclnnTransMatmulWeight"  # changes the format of its argument, which host tensors cannot
    with aclnn.use_backend("numpy"):
        with pytest.raises(AclError) as caught:
            aclnn.Executor(name, None)
        assert caught.value.status == 161001
        executor = aclnn.Executor(name, aclnn.empty((512, 512), np.float16))
        with pytest.raises(aclnn.UnsupportedOperator, match=name) as unsupported:
            executor.run()
        assert unsupported.value.status == 561003


# ------------------------------------------------------------------------------------------ import


def test_importing_opens_no_library() -> None:
    code = (
        "import ctypes, sys\n"
        "def refuse(*a, **k): raise SystemExit('a library was opened')\n"
        "import numpy, ml_dtypes\n"
        "ctypes.CDLL.__init__ = refuse\n"
        "import ascend_aclnn, ascend_aclnn.ops\n"
        "print(len(dir(ascend_aclnn.ops)), 'ascend_aclnn.rules.moe' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.stdout.split() == ["1381", "False"], done.stderr


def test_backend_is_chosen_by_the_environment() -> None:
    code = "import ascend_aclnn as a; print(a.backend().name, a.backend().soc, a.backend().emulated)"
    env = {"ASCEND_ACLNN_BACKEND": "numpy", "ASCEND_ACLNN_SOC": "Ascend310P3", "PATH": "/usr/bin:/bin"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, env=env)
    assert done.stdout.split() == ["numpy", "Ascend310P3", "False"], done.stderr
    env["ASCEND_ACLNN_BACKEND"] = "gpu"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, env=env)
    assert "backend is 'gpu'; it must be 'numpy', 'npu', 'shapes' or 'auto'" in done.stderr


def test_formats_follow_the_documents_and_the_inputs(each_backend: Backend) -> None:
    x, w = np.ones((1, 2, 4, 4), np.float32), np.ones((3, 2, 1, 1), np.float32)
    attributes = ([1, 1], [0, 0], [1, 1], False, [0, 0], 1, 0)
    y = ops.convolution(aclnn.asarray(x), w, None, *attributes)  # "auto" becomes NCHW for a convolution
    assert y.format is aclnn.Format.NCHW and y.numpy().tolist() == np.full((1, 3, 4, 4), 2).tolist()
    labelled = ops.abs(aclnn.asarray(x, format="NCHW"))
    assert labelled.format is aclnn.Format.NCHW and labelled.numpy().tolist() == x.tolist()
    assert ops.abs(aclnn.asarray(x)).format is aclnn.Format.ND


def test_bfloat16_goes_through(each_backend: Backend) -> None:
    x = np.array([[1, 2], [3, 4]], ml_dtypes.bfloat16)
    assert aclnn.asarray(x).numpy().dtype == x.dtype
    assert ops.moe_token_permute_grad(x, [0, 1], 2).astype(float).tolist() == [[4, 6]]


# ------------------------------------------------------------------------------------------ scalars


def test_a_scalar_holds_what_its_type_holds() -> None:
    assert aclnn.Scalar(0.1, np.float32).value == float(np.float32(0.1))
    assert aclnn.Scalar(0.1, ml_dtypes.bfloat16).value == 0.10009765625
    assert aclnn.Scalar(np.float32(0.5)).dtype is aclnn.DataType.FLOAT
    assert aclnn.Scalar(3.7, np.int32).value == 3  # as C converts
    assert aclnn.Scalar(1e300, np.float32).value == float("inf")
    assert aclnn.Scalar(2, np.bool_).value is True
    assert aclnn.Scalar(np.array(7, np.int8)).value == 7
    for value, dtype in [(300, np.int8), (float("inf"), np.int32), (2**63, None), (1j, np.float32)]:
        with pytest.raises(ValueError, match=r"INT8|INT32|INT64|FLOAT"):
            aclnn.Scalar(value, dtype)
    for wrong in ("1", np.zeros(2), None):
        with pytest.raises(TypeError, match="not a number"):
            aclnn.Scalar(wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="aclnnAdds: other cannot be passed: 9223372036854775808 is outside INT64"):
        ops.adds(np.zeros(2, np.int64), 2**63, 1)


def test_a_fault_of_a_reference_reaches_the_caller_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(x: Any) -> Any:
        return {}["typo"]

    monkeypatch.setattr("ascend_aclnn.reference.find", lambda operator: Reference(broken, False, False, None))
    with aclnn.use_backend("numpy"), pytest.raises(KeyError, match="typo") as caught:
        ops.abs(np.ones((2, 3), np.float32))
    if sys.version_info >= (3, 11):
        assert caught.value.__notes__ == ["in the NumPy reference of aclnnAbs (self (2, 3); out (2, 3))"]
    else:
        assert "aclnnAbs" in str(caught.value.__cause__)


def test_only_data_errors_mean_bad_data(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(x: Any) -> Any:
        raise DataError("self", "element [0] is 7; allowed: 0 to 6")

    def too_large(x: Any) -> Any:
        raise MemoryError

    with aclnn.use_backend("numpy"):
        for function, status, argument in ((refuse, 161002, "self"), (too_large, 207001, None)):
            found = Reference(function, False, False, None)
            monkeypatch.setattr("ascend_aclnn.reference.find", lambda operator, found=found: found)
            with pytest.raises(AclError) as caught:
                ops.abs(np.ones((2, 3), np.float32))
            assert (caught.value.status, caught.value.argument) == (status, argument)


# ------------------------------------------------------------------------------------------ odd callers


def test_foreign_byte_order_is_copied(each_backend: Backend) -> None:
    swapped, out = np.array([[1, 2], [3, 4]], ">f4"), np.zeros((2, 2), ">f4")
    assert ops.mm(swapped, np.eye(2, dtype=np.float32), out=out) is out
    assert out.tolist() == swapped.tolist() and aclnn.asarray(swapped).numpy().tolist() == swapped.tolist()


def test_streams_are_checked(each_backend: Backend) -> None:
    x = np.eye(2, dtype=np.float32)
    for wrong in (0, 3, "0"):
        with pytest.raises(TypeError, match="must be a Stream"):
            ops.mm(x, x, stream=wrong)
    closed = aclnn.Stream()
    closed.close()
    with pytest.raises(ValueError, match="is closed"):
        ops.mm(x, x, stream=closed)
    made = [aclnn.asarray(x), aclnn.asarray(x), aclnn.empty((2, 2), np.float32)]
    with aclnn.Executor("aclnnMm", *made, 0) as executor:
        with pytest.raises(ValueError, match="is closed"):
            executor.run(closed)
        executor.run()
    assert made[2].numpy().tolist() == x.tolist()
    if each_backend.name != "numpy":
        with aclnn.use_backend("numpy"):
            other = aclnn.Stream()
        with pytest.raises(TypeError, match="stream is of the numpy backend"):
            ops.mm(x, x, stream=other)


def test_a_list_is_no_tensor_to_write_to(each_backend: Backend) -> None:
    x = np.eye(2, dtype=np.float32)
    with pytest.raises(TypeError, match=r"aclnnMm: out .*is a list"):
        ops.mm(x, x, out=[np.empty((2, 2), np.float32)])


def test_items_of_int_arrays_are_int64() -> None:
    with pytest.raises(
        ValueError, match=r"aclnnPermute: dims is \[1180591620717411303424, 0\]; its items must be int64"
    ):
        ops.permute(np.eye(2, dtype=np.float32), [2**70, 0])


def test_there_is_one_device_on_numpy() -> None:
    with aclnn.use_backend("numpy"):
        for made in (aclnn.Stream, aclnn.Event, aclnn.Device):
            with pytest.raises(ValueError, match="device 7"):
                made(7)


def test_shapes_may_be_numpy_integers(each_backend: Backend) -> None:
    assert aclnn.zeros(np.int64(3), np.float32).shape == (3,)  # type: ignore[arg-type]


def test_more_memory_than_there_is() -> None:
    with aclnn.use_backend("numpy"), pytest.raises(AclError, match="more than this host has") as caught:
        ops.embedding_dense_backward(np.ones((2, 3), np.float32), np.array([0, 1], np.int32), 2**60, -1)
    assert caught.value.status == 207001


def test_unsupported_operators_are_pickled_whole() -> None:
    error = aclnn.UnsupportedOperator("aclnnX", "gone", routine="dlsym", status=161002, argument="x")
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.status, again.routine, again.argument) == (
        type(error),
        str(error),
        161002,
        "dlsym",
        "x",
    )


# ------------------------------------------------------------------------------------------ messages


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (
            lambda x: ops.rms_norm(x, x[0], eps=1e-5),
            TypeError,
            "unexpected keyword argument 'eps'; did you mean 'epsilon'",
        ),
        (
            lambda x: ops.exp([[1.0, 2.0], [3.0]]),
            ValueError,
            "aclnnExp: self is a sequence whose parts differ in length",
        ),
        (lambda x: ops.mm(x.astype(np.float64), x), AclError, r"has dtype DOUBLE; .*\.astype\(np.float32\)"),
        (lambda x: ops.mm(x, x, cube_math_type="tf32"), ValueError, "must be one of KEEP_DTYPE, .*USE_HF32"),
        (lambda x: ops.mm(x, x, cube_math_type=None), TypeError, "must be an integer or one of KEEP_DTYPE"),
        (lambda x: aclnn.Executor("aclnnRmsNrom", x), ValueError, "did you mean 'aclnnRmsNorm'"),
        (lambda x: aclnn.signature("aclnnRmsNrom"), ValueError, "did you mean 'aclnnRmsNorm'"),
        (lambda x: aclnn.zeros((-2,), np.float32), ValueError, r"shape is \(-2,\); its sizes must not be negative"),
        (lambda x: aclnn.Device("npu:0"), TypeError, "device index is 'npu:0'; it must be an integer"),
        (lambda x: aclnn.set_memory_limit(-1), ValueError, "nbytes is -1"),
    ],
)
def test_messages_say_what_came_and_what_to_do(call: Any, kind: type[Exception], text: str) -> None:
    with aclnn.use_backend("numpy"), pytest.raises(kind, match=text):
        call(np.ones((2, 2), np.float32))


def test_enum_names_are_accepted() -> None:
    x = np.ones((2, 2), np.float32)
    with aclnn.use_backend("numpy"):
        for name in ("USE_HF32", "hf32", 3):
            assert ops.mm(x, x, cube_math_type=name).tolist() == [[2, 2], [2, 2]]


def test_lists_within_lists_are_refused() -> None:
    """Among them a list that contains itself."""
    x, endless = [np.ones(3, np.float32)], []  # type: ignore[var-annotated]
    endless.append(endless)
    with aclnn.use_backend("numpy"):
        cases: list[Any] = [[[]], [x], endless, (endless,)]
        for nested in cases:
            with pytest.raises(
                TypeError, match=r"aclnnForeachDivList: out \(out=\) is a (list|tuple); it must be a Tensor"
            ):
                ops.foreach_div_list(x, x, out=nested)
        for call in (
            lambda: ops.foreach_div_list(endless, x),
            lambda: ops.cat(endless, 0),
            lambda: ops.relu(endless),
            lambda: ops.relu(x[0], out=endless),
            lambda: ops.permute(x[0], endless),
        ):
            with pytest.raises((TypeError, ValueError), match="aclnn"):
                call()
