"""Tensors as arrays: text, reductions, iteration, what NumPy's functions say, files."""

from __future__ import annotations

import operator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ascend_aclnn as aclnn
from ascend_aclnn.backends.interface import Backend

HOST = np.array([[3, -1, 2, 0], [7, 5, 4, 6]], np.float32)


def test_the_text_shows_values_as_numpy_does(each_backend: Backend) -> None:
    x = aclnn.asarray(HOST)
    place = f"{each_backend.name}:0"
    assert repr(x) == f"{repr(HOST).replace('array', 'Tensor')[: -len(', dtype=float32)')]}, FLOAT, {place})".replace(
        "\n      ", "\n       "
    )
    assert str(x) == str(HOST) == f"{x}"
    assert f"{x[0, 0]:.3f}" == "3.000"
    with pytest.raises(TypeError, match=r"format '\.3f' is for a 0-d tensor"):
        f"{x:.3f}"
    assert repr(aclnn.asarray([1, 2.5], "HIFLOAT8")) == f"Tensor([1. , 2.5], HIFLOAT8, {place})"
    assert repr(x.T[1:]).endswith(f"FLOAT, strides=(1, 4), offset=1, {place})")
    for shape in ((2000,), (7, 300), (30, 2, 50), (40, 5, 6, 7)):
        large = np.random.default_rng(0).standard_normal(shape, dtype=np.float32)
        assert str(aclnn.asarray(large)) == str(large)
    assert repr(aclnn.zeros((40, 50))).endswith(f"shape=(40, 50), FLOAT, {place})")


def test_other_objects_say_what_they_are(each_backend: Backend) -> None:
    emulated = ", emulated" if each_backend.emulated else ""
    assert repr(each_backend) == f"Backend('{each_backend.name}', {each_backend.soc}{emulated})"
    assert repr(aclnn.Event()) == "Event(device 0)"
    x = aclnn.asarray(HOST)
    with aclnn.Executor("aclnnRelu", x, aclnn.empty_like(x)) as executor:
        assert repr(executor) == f"Executor('aclnnRelu', one-shot, {each_backend.name})"
        executor.run()
        assert repr(executor) == f"Executor('aclnnRelu', one-shot, has run, {each_backend.name})"
    assert {"Executor", "asarray", "ops"} <= set(dir(aclnn)) and "Any" not in dir(aclnn)


def test_text_reserves_no_memory_and_copies_only_what_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    with aclnn.use_backend("numpy"):
        huge = aclnn.empty((1 << 40,), "float32")
        assert repr(huge) == "Tensor(shape=(1099511627776,), FLOAT, numpy:0)" and not huge.storage.has_memory
        assert repr(aclnn.empty((2, -1), "float32")) == "Tensor(shape=(2, -1), FLOAT, numpy:0)"
        x = aclnn.zeros((1000, 1000))
        read: list[int] = []
        real = type(x.storage).read
        monkeypatch.setattr(
            type(x.storage),
            "read",
            lambda s, at, n: read.append(n) or real(s, at, n),  # type: ignore[func-returns-value]
        )
        repr(x)
        assert sum(read) == 7 * (4 + 3) * 4


@pytest.mark.parametrize("axis", [None, 0, -1, (0, 1)])
def test_reductions_are_numpys(each_backend: Backend, axis: Any) -> None:
    x = aclnn.asarray(HOST)
    for name in ("sum", "mean", "max", "min", "prod", "std", "var", "any", "all"):
        for keepdims in (False, True):
            actual = getattr(x, name)(axis, keepdims=keepdims)
            expected = np.asarray(getattr(HOST, name)(axis, keepdims=keepdims))
            assert actual.shape == expected.shape and actual.dtype == expected.dtype, name
            np.testing.assert_allclose(actual.numpy(), expected, rtol=1e-6)
    if not isinstance(axis, tuple):
        for name in ("argmax", "argmin"):
            np.testing.assert_array_equal(getattr(x, name)(axis).numpy(), getattr(HOST, name)(axis))


def test_integers_sum_to_int64_and_their_mean_is_a_float(each_backend: Backend) -> None:
    x = aclnn.asarray(HOST.astype(np.int32))
    assert x.sum().dtype == np.int64 and x.prod(0).dtype == np.int64
    assert x.mean().item() == 3.25
    assert (x > 0).sum().item() == 6
    assert x.sum(dtype="float32").dtype == np.float32


def test_views_and_iteration(each_backend: Backend) -> None:
    x = aclnn.asarray(HOST)
    np.testing.assert_array_equal(x.T.flatten().numpy(), HOST.T.flatten())
    assert x[None, :, None].squeeze().shape == (2, 4) and x[None].squeeze(0).shape == (2, 4)
    with pytest.raises(ValueError, match="not of size 1"):
        x.squeeze(0)
    assert [row.tolist() for row in x] == HOST.tolist()
    np.testing.assert_array_equal(x.mT.numpy(), HOST.T)
    with pytest.raises(IndexError, match="axis 2 is out of bounds for a tensor of rank 2"):
        x.sum(2)


def test_numpys_functions_say_what_to_write() -> None:
    with aclnn.use_backend("numpy"):
        x = aclnn.asarray(HOST)
        with pytest.raises(TypeError, match=r"np\.exp takes no Tensor; write ops\.exp\(x\) for a Tensor, or np\.exp\("):
            np.exp(x)
        with pytest.raises(TypeError, match=r"write ops\.atan\(x\)"):
            np.arctan(x)
        with pytest.raises(TypeError, match=r"np\.add takes no Tensor; write x \+ y for a Tensor"):
            np.add(x, x)
        for name in ("sum", "prod", "mean", "std", "var", "max", "min", "any", "all"):
            with pytest.raises(TypeError, match=rf"np\.{name} takes no Tensor; write x\.{name}\(\) for a Tensor, or"):
                getattr(np, name)(x)
        for actual, expected in (
            (HOST + x, HOST + HOST),
            (np.float32(1) - x, 1 - HOST),
            (operator.lt(HOST, x + 1), np.ones_like(HOST, bool)),
        ):
            np.testing.assert_array_equal(actual.numpy(), expected)
        with pytest.raises(TypeError, match=r"write  a = a \+ t"):
            HOST.copy().__iadd__(x)


def test_a_dtype_equals_its_name() -> None:
    dtype = aclnn.DataType.FLOAT16
    assert (
        dtype == "float16" and dtype == "FLOAT16" and dtype != "float32" and dtype != "nonsense" and dtype != "a, text"
    )


def test_creation_with_numpys_defaults(each_backend: Backend) -> None:
    assert aclnn.zeros(3).dtype == np.float32 and aclnn.full(2, True).dtype == np.bool_
    assert aclnn.full_like(aclnn.zeros(2, "float16"), 7).tolist() == [7, 7]
    np.testing.assert_allclose(aclnn.linspace(0, 1, 5).numpy(), np.linspace(0, 1, 5))
    assert aclnn.arange(3).dtype == np.int64 and aclnn.arange(0, 1, 0.5).tolist() == [0, 0.5]
    assert aclnn.ones_like(aclnn.zeros((2, 2))).sum().item() == 4


def test_files_hold_every_data_type(each_backend: Backend, tmp_path: Path) -> None:
    numbers = np.array([[0, 1], [2, 3]])
    dtypes = ["float32", "float16", "bfloat16", "int8", "int64", "bool", "complex64", "HIFLOAT8"]
    dtypes += ["float8_e4m3fn", "float8_e5m2", "INT4"]
    tensors = {name: aclnn.asarray(numbers, name) for name in dtypes}
    tensors["view"] = aclnn.asarray(HOST).T
    tensors["scalar"] = aclnn.asarray(np.float32(5))
    tensors["empty"] = aclnn.zeros((0, 3))
    aclnn.save(tmp_path / "file", tensors)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    loaded = aclnn.load(tmp_path / "file")
    assert list(loaded) == list(tensors)
    for name, tensor in tensors.items():
        assert loaded[name].dtype is tensor.dtype and loaded[name].shape == tensor.shape
        assert loaded[name].tolist() == tensor.tolist()


def test_a_tensor_alone_comes_back_alone(each_backend: Backend, tmp_path: Path) -> None:
    for tensor in (aclnn.asarray(HOST), aclnn.asarray(HOST, "HIFLOAT8")):
        aclnn.save(tmp_path / "file", tensor)
        loaded = aclnn.load(tmp_path / "file")
        assert loaded.dtype is tensor.dtype and loaded.tolist() == tensor.tolist()
    with pytest.raises(TypeError, match="tensors is a list; it must be a Tensor, or a mapping of names to Tensors"):
        aclnn.save(tmp_path / "file", [aclnn.asarray(HOST)])


def test_files_are_safetensors(tmp_path: Path) -> None:
    numpy_files = pytest.importorskip("safetensors.numpy", reason="safetensors is not installed")
    numpy_files.save_file({"x": HOST, "y": np.arange(3)}, tmp_path / "theirs")
    with aclnn.use_backend("numpy"):
        assert aclnn.load(tmp_path / "theirs")["x"].tolist() == HOST.tolist()
        aclnn.save(tmp_path / "ours", {"x": aclnn.asarray(HOST), "b": np.ones(2, ml_dtypes.bfloat16)})
    np.testing.assert_array_equal(numpy_files.load_file(tmp_path / "ours")["x"], HOST)


def test_what_is_no_file_of_tensors_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    aclnn.save(path, {"x": HOST})
    data = path.read_bytes()
    for wrong, text in [
        (b"", "no header's length"),
        (b"\xff" * 16, "no header's length"),
        (data[:8] + b"x" * (len(data) - 8), "not JSON"),
        (data[:-1], "does not fit"),
        (data.replace(b"F32", b"F99"), "the entry of 'x'"),
    ]:
        path.write_bytes(wrong)
        with pytest.raises(ValueError, match=text):
            aclnn.load(path)
    with pytest.raises(TypeError, match="x is a dict"):
        aclnn.save(path, {"x": {}})
