"""Error codes as data: complete, found in every kind of text, and at the end of an AclError's."""

from __future__ import annotations

import json
import pickle
import re
from pathlib import Path

import numpy as np
import pytest

import ascend_aclnn
from ascend_aclnn import ops, use_backend
from ascend_aclnn.core import error_codes, errors
from ascend_aclnn.core.errors import AclError, UnsupportedOperator

PACKAGE = Path(ascend_aclnn.__file__).parent


def codes_in(text: str) -> list[str]:
    return [entry.code for entry in error_codes.in_text(text)]


# -------------------------------------------------------------------------------------------------------------- the data


def test_each_code_has_a_name_a_component_and_a_meaning() -> None:
    entries = error_codes.all_codes()
    assert len(entries) == len({entry.code for entry in entries})
    assert [entry.code for entry in entries if not (entry.name and entry.component and entry.meaning)] == []
    assert [entry.code for entry in entries if bool(entry.chinese_meaning) != bool(entry.chinese_remedy)] == []
    assert sum(bool(entry.chinese_meaning) for entry in entries) >= 30
    assert [entry.code for entry in entries if "\n" in entry.remedy] == []


def test_each_status_that_this_package_returns_has_an_entry() -> None:
    statuses = [value for name, value in vars(errors).items() if name.isupper() and isinstance(value, int)]
    assert len(statuses) >= 8
    entries = [error_codes.find(str(status)) for status in statuses]
    assert all(entry and entry.cause and entry.remedy for entry in entries)


def test_each_error_of_the_emulated_device_has_an_entry_and_no_other_has() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in (PACKAGE / "emulator").rglob("*.[ch]"))
    named = {name for name in re.findall(r"(?<!ASCEND_)\bEMULATOR_[A-Z_]+\b", text) if not name.endswith("_")}
    known = {entry.code for entry in error_codes.all_codes() if entry.code.startswith("EMULATOR_")}
    assert named == known


def test_each_result_of_hccl_has_an_entry() -> None:
    assert [error_codes.find(str(number)) is not None for number in range(1, 23)] == [True] * 22
    entry = error_codes.find("hccl_e_timeout")
    assert entry is not None and (entry.code, entry.component) == ("9", "HCCL")


def test_the_data_are_one_code_a_line() -> None:
    lines = error_codes.DATA.read_text(encoding="utf-8").splitlines()
    stored = json.loads("\n".join(lines))
    assert len(lines) == len(stored["groups"]) + len(stored["codes"]) + 6


def test_words_of_unknown_codes() -> None:
    assert error_codes.find("EE2999") is None and error_codes.find("hello") is None
    group = error_codes.group_of("E61234")
    assert group is not None and "TBE" in group.component
    assert error_codes.group_of("123456") is None and error_codes.group_of("hello") is None
    assert "ACLNN_ERR_PARAM_INVALID" in error_codes.near("ACLNN_ERR_PARAM_INVALD")
    assert "EE2002" in error_codes.near("EE2022")


# -------------------------------------------------------------------------------------------------------------- in a text


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ("161002", ["161002"]),
        ("ErrorCode=EE2002.", ["EE2002"]),
        ("EZ9999: [PID: 107002] 2026-11-23-21:00:00.107002 Inner Error!", ["EZ9999"]),
        ("[ERROR] RUNTIME(107002,python):2026-11-23-21:00:00.507014.100 [x.cc:1]retCode=507015", ["507015"]),
        ("call failed, error code is 507015[Error]: The aicore execution is abnormal.", ["507015"]),
        ("507015 and 161002, then 507015", ["507015", "161002"]),
        ("an array of 100000 elements, 561000 more", []),
        ("returned 561000", ["561000"]),
        ("error code is 100000", ["100000"]),
        ("[HcclAllReduce]errNo[0x0000000005000009] timeout", ["9"]),
        ("HCCL function error: HcclAllReduce, error code is 2", ["2"]),
        ("  status 5 HCCL_E_NOT_SUPPORT from HcclAllReduce", ["5"]),
        ("  status 3 from something", []),
        ("ACLNN_ERR_PARAM_INVALID, EMULATOR_USE_AFTER_FREE: x", ["161002", "EMULATOR_USE_AFTER_FREE"]),
        ("0x161002, 1.161002, 161002.5 at line 12", []),
    ],
)
def test_codes_in_a_text(text: str, codes: list[str]) -> None:
    assert codes_in(text) == codes


def test_codes_in_a_traceback() -> None:
    error = AclError(507015, "aclrtSynchronizeStream", "EZ2001: a kernel failed")
    text = f"Traceback (most recent call last):\n  File 'a.py', line 3\nascend_aclnn.core.errors.AclError: {error}\n"
    assert codes_in(text) == ["EZ2001", "507015"]


# -------------------------------------------------------------------------------------------------------------- AclError


def last_line(error: AclError) -> str:
    return str(error).splitlines()[-1]


def test_the_last_line_of_an_error_says_what_to_do() -> None:
    assert last_line(AclError(507015, "aclrtSynchronizeStream")).startswith(
        "  to do: run again with ASCEND_ACLNN_BLOCKING=1"
    )
    error = AclError(207004, "aclrtGetDeviceCount", "EE2002: Value 1,1 for environment variable ...")
    assert "ASCEND_RT_VISIBLE_DEVICES is ascending" in last_line(error)  # the code's remedy, and not that of 207004
    error = AclError(161002, "aclnnAbs", "EMULATOR_USE_AFTER_FREE: aclnnAbs: ...")
    assert last_line(error).startswith("  to do: keep the object until")


def test_an_error_that_explains_itself_has_no_such_line() -> None:
    assert (
        last_line(AclError(161002, "aclnnAbs", "x is None")) == "  status 161002 ACLNN_ERR_PARAM_INVALID from aclnnAbs"
    )
    assert last_line(UnsupportedOperator("aclnnAbs", "no reference")).endswith("FIND_KERNEL_ERROR from aclnnAbs")
    assert "install the kernels" in last_line(AclError(561003, "aclnnAbs", "not found"))
    # a number in a detail counts elements
    assert "to do" not in str(AclError(161002, "aclnnAbs", "x has 507015 elements"))
    assert str(AclError(999999, "aclFoo", "x")) == "x\n  status 999999 from aclFoo"


def test_a_chip_that_an_operator_does_not_support_is_no_matter_of_the_driver() -> None:
    """361001 of a rule is a limit of the operator: npu-smi would find nothing wrong."""
    x = np.ones((1, 1, 64), np.float16)
    with use_backend("numpy", soc="Ascend910A"), pytest.raises(AclError, match="not supported on") as caught:
        ops.prompt_flash_attention(x, x, x, num_heads=1, input_layout="BSH")
    assert caught.value.status == 361001 and "to do" not in str(caught.value)
    assert "npu-smi" in str(AclError(361001, "aclnnAbs"))


def test_an_error_survives_pickling_with_one_such_line() -> None:
    error = AclError(507015, "aclrtSynchronizeStream", "text")
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error) and str(again).count("to do:") == 1
