"""What aclGetRecentErrMsg says after a refusal: a sentence of this package, and the line of CANN's own check."""

from __future__ import annotations

import ctypes
import os
import re
from typing import Any

import numpy as np
import pytest
from emulator_client import Cann, CannError, client, int64s

# The words are those of aclnn_kernels/common/op_error_check.h of CANN 8.1.RC1.
HEADING = re.compile(r"EZ1001: \[PID: (\d+)\] \d{4}(?:-\d\d){3}:\d\d:\d\d\.\d{3}\.\d{3} ")


def refused(cann: Cann, name: str, *arguments: Any) -> list[str]:
    """The lines of the message."""
    with pytest.raises(CannError) as caught:
        cann.prepare(name, *arguments)
    return caught.value.message.split("\n")


@client()
def test_common_checks_print_the_words_of_cann(cann: Cann) -> None:
    x, wide = cann.tensor(np.ones((2, 3), np.float32)), cann.tensor(np.ones((4, 5), np.float32))
    whole, deep = cann.tensor(np.ones((2, 3), np.int32)), cann.tensor(np.ones((1,) * 9, np.float32))
    value = ctypes.c_float(1)
    one = cann.aclCreateScalar(ctypes.byref(value), 0)
    for name, arguments, expected in (
        ("aclnnAdd", (x, wide, one, x), "the size of tensor self [2,3] must match the size of tensor other [4,5]."),
        ("aclnnAdd", (x, x, one, whole), "result type DT_FLOAT can't be cast to the desired output type DT_INT32."),
        ("aclnnAbs", (deep, deep), "the self tensor cannot be larger than 8 dimensions."),
        ("aclnnAbs", (x, None), "expected a proper Tensor but got null for argument out."),
    ):
        own, check, *rest = refused(cann, name, *arguments)
        assert own.startswith(f"{name}: "), own
        found = HEADING.match(check)
        assert found is not None, check
        assert found[1] == str(os.getpid())
        assert (check[found.end() :], rest) == (expected, []), name
    cann.aclDestroyScalar(one)


@client()
def test_data_types_print_the_words_of_cann(cann: Cann) -> None:
    _, check = refused(
        cann, "aclnnErfinv", cann.tensor(np.ones(3, np.complex64)), cann.tensor(np.ones(3, np.complex64))
    )
    text = check[check.index("self") :]
    assert re.fullmatch(
        r"self not implemented for DT_COMPLEX64, should be in dtype support list \[(DT_[A-Z0-9]+,)+\]\.", text
    )
    assert "DT_FLOAT," in text


@client()
def test_some_operators_tell_which_part_of_their_checks_has_failed(cann: Cann) -> None:
    x, out = cann.tensor(np.ones((2, 3), np.float32)), cann.tensor(np.ones((2, 4), np.float32))
    value = ctypes.c_float(0)
    zero = cann.aclCreateScalar(ctypes.byref(value), 0)
    pads = cann.aclCreateIntArray(int64s((1, 1)), 2)
    message = refused(cann, "aclnnConstantPadNd", x, pads, zero, out)
    assert message[-1].endswith("CheckShape failed!")
    cann.aclDestroyIntArray(pads)
    cann.aclDestroyScalar(zero)


@client(ASCEND_EMULATOR_CANN="9.0.0")
def test_later_releases_begin_with_a_capital(cann: Cann) -> None:
    deep = cann.tensor(np.ones((1,) * 9, np.float32))
    assert "The self tensor cannot be larger than 8 dimensions." in refused(cann, "aclnnAbs", deep, deep)[1]
