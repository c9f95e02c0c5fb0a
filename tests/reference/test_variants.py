"""Variants of operators against the operators that other tests compare with formulas: in place, of another version or format.

Both are called with the arguments of the variant's example, by the names that they share, and with other numbers in them:
most examples hold ones.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ascend_aclnn as aclnn
import samples
from ascend_aclnn import catalog, ops
from ascend_aclnn.catalog import Operator

PAIRS = [line.split() for line in (Path(__file__).parent / "variants.txt").read_text().splitlines() if line[0] != "#"]


def plain(name: str) -> str:
    """A parameter's name without what tells versions apart."""
    return re.sub(r"(optional|ref|out)$", "", name.lower().replace("_", ""))


def outputs(operator: Operator, results: Any) -> dict[str, Any]:
    names = [parameter.name for parameter in operator.outputs]
    return dict(zip(map(plain, names), results if len(names) > 1 else (results,)))


def shared_arguments(operator: Operator, call: samples.ExampleCall, other: Operator) -> dict[str, Any]:
    """The arguments of a call, for the parameters of another operator that are called like its own."""
    arguments = {"psetype": 1}  # what the versions without it do
    arguments.update(zip((plain(p.name) for p in operator.inputs), call.arguments))
    return {p.python_name: arguments[plain(p.name)] for p in other.inputs if plain(p.name) in arguments}


def varied(value: Any, random: np.random.Generator) -> Any:
    """An argument with other numbers of the same size, where they are real."""
    if isinstance(value, list):
        return [varied(item, random) for item in value]
    if isinstance(value, np.ndarray) and value.dtype in (np.float16, np.float32, np.float64, ml_dtypes.bfloat16):
        return (value * random.uniform(0.8, 1.2, value.shape)).astype(value.dtype)
    return value


def varied_call(operator: Operator) -> samples.ExampleCall:
    """The same call each time, with arrays of its own."""
    call, random = samples.call(operator), np.random.default_rng(7)
    return call._replace(arguments=[varied(value, random) for value in call.arguments])


def floats(value: Any, dtype: Any) -> Any:
    """The numbers of a result, rounded to a type first."""
    array = np.asarray(value.numpy() if isinstance(value, aclnn.Tensor) else value)
    return array.astype(dtype).astype(np.float64).ravel()


def assert_same(got: Any, wanted: Any) -> None:
    if isinstance(got, (list, tuple)):
        assert len(got) == len(wanted)
        for one, other in zip(got, wanted):
            assert_same(one, other)
    elif got is None:
        assert wanted is None
    else:
        dtype = got.numpy().dtype if isinstance(got, aclnn.Tensor) else got.dtype
        np.testing.assert_allclose(floats(got, dtype), floats(wanted, dtype), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(("variant", "known"), PAIRS)
def test_a_variant_gives_what_the_known_operator_does(variant: str, known: str) -> None:
    operator, other = catalog.get(variant), catalog.get(known)
    with aclnn.use_backend("numpy", soc=samples.soc(operator)):
        call = varied_call(operator)
        results = outputs(other, getattr(ops, other.python_name)(**shared_arguments(operator, call, other)))
        call = varied_call(operator)
        got = outputs(operator, getattr(ops, operator.python_name)(*call.arguments, **call.options))
    names = got.keys() & results.keys()
    if not names:
        assert len(got) == len(results) == 1
        assert_same(*got.values(), *results.values())
    for name in names:
        assert_same(got[name], results[name])
