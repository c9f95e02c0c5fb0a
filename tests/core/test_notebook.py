"""What notebooks show: HTML of Tensors, results and comparisons; help and source of operators."""

from __future__ import annotations

import inspect
import linecache
import pickle
import traceback
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

import ascend_aclnn as aclnn
from ascend_aclnn import ops
from ascend_aclnn.backends.interface import Backend
from ascend_aclnn.core import notebook
from ascend_aclnn.testing import compare


def texts(made: str) -> list[str]:
    """The texts of well-formed HTML, in order."""
    return [text.strip() for text in ElementTree.fromstring(f"<div>{made}</div>").itertext() if text.strip()]


def test_a_tensor_shows_what_it_is_and_its_values(each_backend: Backend) -> None:
    x = aclnn.asarray(np.arange(6, dtype=np.float16).reshape(2, 3))
    found = texts(x._repr_html_())
    assert found[:5] == ["Tensor", "shape", "(2, 3)", "dtype", "FLOAT16"]
    assert found[-1].split() == ["[[0.,", "1.,", "2.],", "[3.,", "4.,", "5.]]"]
    assert f"{each_backend.name}:0" in found
    turned = texts(x.transpose(1, 0)._repr_html_())
    assert turned[turned.index("strides") + 1] == "(1, 3)"


def test_a_large_tensor_is_not_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    x = aclnn.zeros((notebook.MOST_VALUES + 1,), np.float32)

    def refuse(self: object) -> None:
        raise AssertionError("fetched")

    monkeypatch.setattr(aclnn.Tensor, "numpy", refuse)
    assert texts(x._repr_html_())[-1] == f"{notebook.MOST_VALUES + 1} elements; .numpy() fetches them"


def test_results_show_their_fields() -> None:
    actual = ops.rms_norm(np.ones((2, 4), np.float16), np.ones(4, np.float16))
    assert texts(actual._repr_html_()) == [
        "RmsNormResult", "field", "type", "shape", "dtype",
        "y", "ndarray", "(2, 4)", "float16", "rstd", "ndarray", "(2, 1)", "float32",
    ]  # fmt: skip
    actual = ops.rms_norm(aclnn.asarray(np.ones((2, 4), np.float16)), aclnn.asarray(np.ones(4, np.float16)))
    assert texts(actual._repr_html_())[5:9] == ["y", "Tensor", "(2, 4)", "FLOAT16"]
    assert pickle.loads(pickle.dumps(actual))._repr_html_() == actual._repr_html_()


def test_a_comparison_shows_verdict_and_worst_elements() -> None:
    golden = np.array([1, 2, 3], np.float64)
    assert texts(compare(golden.astype(np.float32), golden)._repr_html_())[0] == "accurate"
    found = texts(compare(np.array([1, 2, 4], np.float32), golden)._repr_html_())
    assert found[0].startswith("not accurate: ")
    assert found[found.index("worst elements") + 5 :][:3] == ["[2]", "4.0", "3.0"]
    assert "&lt;" in notebook.table([("<b>",)])


def test_source_of_an_operator_ends_with_its_reference() -> None:
    source = inspect.getsource(ops.rms_norm)
    assert source.startswith("def rms_norm(x, gamma, epsilon=")
    assert "ascend_aclnn.reference.norm" in source and "    #     def " in source
    compile(source, "source", "exec")
    assert inspect.getsource(ops.rms_norm) == source  # it stays, though no file of that name exists
    linecache.checkcache()
    assert inspect.getsource(ops.rms_norm) == source


def test_source_of_an_operator_without_reference() -> None:
    from ascend_aclnn import catalog, reference

    name = next(name for name in catalog.names() if reference.find(catalog.get(name)) is None)
    source = inspect.getsource(getattr(ops, catalog.get(name).python_name))
    assert "the NumPy backend has no reference for it" in source


def test_source_of_an_operator_whose_reference_is_a_function_of_numpy() -> None:
    assert "# aclnnNeg on a device; on the NumPy backend, with widened arguments, negative." in inspect.getsource(
        ops.neg
    )


def test_a_traceback_shows_the_call() -> None:
    try:
        ops.mm(np.ones((2, 3), np.float32), np.ones((2, 3), np.float32))
    except aclnn.AclError:
        text = traceback.format_exc()
    assert "raise _outside(error)" in text
