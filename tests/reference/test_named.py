"""References that get their arguments by name: what a version lacks is None, what no operator of the family has is an error."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ascend_aclnn.reference import _named


def call(function: Any) -> Any:
    return _named._by_position("aclnnAbs", function, False)(np.ones(2))


def test_an_argument_that_another_operator_has_is_none() -> None:
    assert call(lambda given: {"out": (given["mask"], given["other"], given["self"].size)}) == (None, None, 2)


def test_a_name_that_no_operator_has_is_an_error() -> None:
    with pytest.raises(LookupError, match="aclnnAbs: no operator of ops-math/math has a parameter slef"):
        call(lambda given: {"out": given["slef"]})
    with pytest.raises(LookupError, match="has a parameter othr"):
        call(lambda given: {"out": given.either("othr", "self")})


def test_an_output_that_no_operator_has_is_an_error() -> None:
    with pytest.raises(LookupError, match="has a parameter outt"):
        call(lambda given: {"outt": given["self"]})
