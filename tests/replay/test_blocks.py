"""Large launches, run and compared by blocks of rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from recordings import HEADER, record_call

from ascend_aclnn import catalog, use_backend
from ascend_aclnn.core.dtypes import DataType
from ascend_aclnn.recording import Recording, Writer
from ascend_aclnn.replay import blocks, replay

RNG = np.random.default_rng(2)
N = 300


def array(*shape: int, dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    return RNG.standard_normal(shape).astype(dtype)


X, OUT = array(N, 16), np.zeros((N, 16), np.float32)
F16 = np.float16
CASES: dict[str, tuple[Any, ...]] = {
    "aclnnAdd": (X, array(16), 2.0, OUT),
    "aclnnExp": (array(1, N, 4), np.zeros((1, N, 4), np.float32)),
    "aclnnInplaceMul": (X, array(N, 1)),
    "aclnnMm": (array(N, 8, dtype=F16), array(8, 5, dtype=F16), np.zeros((N, 5), F16), 0),
    "aclnnSoftmax": (X, -1, OUT),
    "aclnnRmsNorm": (X, array(16), 1e-6, OUT, np.zeros((N, 1), np.float32)),
    "aclnnEmbedding": (array(7, 16), RNG.integers(0, 7, N), OUT),
    "aclnnSwiGlu": (X, 1, np.zeros((N, 8), np.float32)),
}
WHOLE: dict[str, tuple[Any, ...]] = {
    "softmax over the rows": ("aclnnSoftmax", X, 0, OUT),
    "a norm of all": ("aclnnRmsNorm", X, array(N, 16), 1e-6, OUT, np.zeros((1, 1), np.float32)),
    "a sum of rows": ("aclnnCumsum", X, 0, int(DataType.FLOAT), OUT),
}


def recorded(path: Path, name: str, *arguments: Any, wrong: Any = None) -> Path:
    copies = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
    with Writer(path, HEADER) as writer:
        record_call(writer, name, *copies, wrong=wrong)
    return path


def replayed(path: Path, **bounds: Any) -> Any:
    with Recording(path) as recording, use_backend("numpy"):
        (outcome,) = replay(recording, **bounds)
    return outcome


@pytest.mark.parametrize("name", CASES)
def test_rows_come_out_of_the_same_rows(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Right results are right by blocks; one wrong element is found, in the block that has it."""
    memory = 2048
    path = recorded(tmp_path / "right", name, *CASES[name])
    with Recording(path) as recording:
        rows = blocks.rows_of(catalog.get(name), recording.launches[0])
        assert rows is not None and rows.number == N and blocks.nbytes_of(recording.launches[0]) > memory
        listed = rows.blocks(memory)
    assert len(listed) > 3 and sorted(listed)[0][0] == 0 and listed[1][1] == N
    assert all(a[1] == b[0] for a, b in zip(sorted(listed), sorted(listed)[1:]))
    outcome = replayed(path, memory=memory)
    assert (outcome.difference, outcome.left_out, outcome.partly) == ("", "", "") and len(outcome.comparisons) >= len(
        listed
    )
    row = sorted(listed)[2][0] + 1

    def spoil(result: Any, *_: Any) -> None:
        result.reshape(N, -1)[row, 2] += 3

    outcome = replayed(recorded(tmp_path / "wrong", name, *CASES[name], wrong=spoil), memory=memory)
    start, stop = sorted(listed)[2]
    assert f"{start}:{stop}]" in outcome.difference
    (failed,) = (one for one in outcome.comparisons.values() if not one.accurate)
    assert failed.wrong == 1 and failed.worst[0].index[-2:] == (1, 2)
    assert f"{start}:{stop}]" not in replayed(tmp_path / "wrong").difference  # whole, where there is no bound


@pytest.mark.parametrize("title", WHOLE)
def test_what_has_no_rows_is_left_out_and_says_so(title: str, tmp_path: Path) -> None:
    name, *arguments = WHOLE[title]
    path = recorded(tmp_path / "a", name, *arguments)
    assert "is not known to compute rows from rows" in replayed(path, memory=4096).left_out
    assert replayed(path).left_out == "" == replayed(path).difference


def test_time_is_bounded_and_what_was_not_run_is_said(tmp_path: Path) -> None:
    path = recorded(tmp_path / "a", "aclnnAdd", *CASES["aclnnAdd"])
    outcome = replayed(path, memory=4096, seconds=0)
    assert outcome.difference == "" and outcome.partly.startswith("2 of ")
    assert set(outcome.comparisons) == {"out[0:31]", "out[279:300]"}  # a fault of the tail is found
    assert f"is as recorded in {outcome.partly}" in str(outcome)
