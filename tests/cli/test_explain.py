"""``ascend-aclnn explain``: codes, names, pasted text, and what is none."""

from __future__ import annotations

import io
import json
import sys
import traceback

import pytest

from ascend_aclnn.cli import main
from ascend_aclnn.core.errors import AclError

PLOG = """[ERROR] RUNTIME(107002,python):2026-11-23-21:00:00.107.003 [api_impl.cc:3423] GetDeviceCount:Value 1,1 for
environment variable ASCEND_RT_VISIBLE_DEVICES is invalid. Expected value: Cannot be duplicated. ErrorCode=EE2002.
[ERROR] ASCENDCL(107002,python):2026-11-23-21:00:00.107.004 [device.cpp:94] get device count failed, runtime result = 207004.
"""


def traceback_text() -> str:
    error = AclError(507015, "aclrtSynchronizeStream", "EZ2001: [PID: 161002] ...")
    try:
        raise error
    except AclError:
        return traceback.format_exc()


@pytest.mark.parametrize(
    ("words", "titles"),
    [
        (["EE2002"], ["EE2002 Config Error Invalid Environment Variable (runtime)"]),
        (["ee2002"], ["EE2002 Config Error Invalid Environment Variable (runtime)"]),
        (["507015"], ["507015 ACL_ERROR_RT_AICORE_EXCEPTION (runtime)"]),
        (["561000"], ["561000 ACLNN_ERR_INNER (aclnn)"]),
        (["ACLNN_ERR_PARAM_INVALID"], ["161002 ACLNN_ERR_PARAM_INVALID (aclnn)"]),
        (["5"], ["5 HCCL_E_NOT_SUPPORT (HCCL)"]),
        (["emulator_double_free"], ["EMULATOR_DOUBLE_FREE (emulated device)"]),
        (
            ["161002", "EE1002"],
            ["161002 ACLNN_ERR_PARAM_INVALID (aclnn)", "EE1002 Execution Error Stream Synchronize Timeout (runtime)"],
        ),
        (["error", "code", "is", "507015"], ["507015 ACL_ERROR_RT_AICORE_EXCEPTION (runtime)"]),
        (
            [PLOG],
            ["EE2002 Config Error Invalid Environment Variable (runtime)", "207004 ACL_ERROR_RT_NO_DEVICE (runtime)"],
        ),
        (
            [traceback_text()],
            ["EZ2001 Execution Error (aclnn and operators)", "507015 ACL_ERROR_RT_AICORE_EXCEPTION (runtime)"],
        ),
    ],
)
def test_each_kind_of_input(words: list[str], titles: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", *words]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line and line[0] != " "] == titles
    for label in ("means", "cause", "to do"):
        assert sum(line.startswith(f"  {label} ") for line in lines) == len(titles)


def test_standard_input(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(PLOG))
    assert main(["explain"]) == 0
    assert "EE2002" in capsys.readouterr().out


def test_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "--json", PLOG]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [entry["code"] for entry in found["codes"]] == ["EE2002", "207004"] and found["unknown"] == []
    assert "ascending numbers" in found["codes"][0]["remedy"]


def test_in_chinese(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "--chinese", "161002"]) == 0
    printed = capsys.readouterr().out
    assert "含义" in printed and "校验失败" in printed and "means" not in printed


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["EE2902"], "near it: EE2002"),
        (["ACLNN_ERR_PARAM_INVALD"], "near it: ACLNN_ERR_PARAM_INVALID"),
        (["E61234"], "codes like it are of TBE operators"),
        (["zzz"], "zzz is no code that is known here"),
        (["EE2002", "EE9999"], "EE9999 is no code"),
        (["nothing to see here"], "there is no error code in the text"),
        (["an", "array", "of", "100000"], "there is no error code in the text"),
    ],
)
def test_what_is_not_known(words: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", *words]) == 1
    assert text in capsys.readouterr().err
