"""The examples of help(): each prints what it says. tests/properties asks for one for every reference."""

from __future__ import annotations

import re

import numpy as np
import pytest

import samples
from ascend_aclnn import catalog, ops

OPERATORS = [catalog.get(name) for name in catalog.names()]
SHAPE = re.compile(r",\s+shape=\([\d, ]*\)")  # newer NumPy says it of arrays that are not printed whole
NUMBER = re.compile(r"-?(?:\d+\.?\d*(?:e[+-]?\d+)?|inf)|nan")


@pytest.mark.parametrize("family", sorted({o.family for o in OPERATORS if o.example is not None}))
def test_an_example_prints_what_it_says(family: str) -> None:
    for operator in OPERATORS:
        if operator.family != family or operator.example is None:
            continue
        with np.errstate(all="ignore"):
            got, wanted = repr(samples.run(operator)), operator.example.result
        got, wanted = (SHAPE.sub("", text) for text in (got, wanted))
        assert NUMBER.sub("0", got).split() == NUMBER.sub("0", wanted).split(), f"{operator.example.call}: {got}"
        if operator.accuracy_standard != "unspecified":
            found, expected = ([float(text) for text in NUMBER.findall(printed)] for printed in (got, wanted))
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6, err_msg=operator.example.call)


def test_the_example_is_in_the_docstring() -> None:
    text = ops.relu.__doc__ or ""
    assert "\nExample:\n    >>> ops.relu(" in text
    assert "# doctest: +SKIP" in (ops.attention_to_ffn.__doc__ or "")
