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
    "a sum over the rows": ("aclnnReduceSum", X, [0], False, int(DataType.FLOAT), np.zeros(16, np.float32)),
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


def numbers(*shape: int) -> np.ndarray[Any, Any]:
    return RNG.integers(-9, 9, shape).astype(np.int8)


B, S, D = 12, 16, 16
QUERY, KEY, V = (array(B, 2, S, D, dtype=F16) for _ in range(3))
MASK = np.triu(np.ones((B, 1, S, S), bool), 1)
LENGTHS = [S - at % 3 for at in range(B)]
STATISTICS = [np.zeros((B, 2, S, 8), np.float32) for _ in range(2)]
NOTHING = (None,) * 5
FORWARD = (0.25, 1.0, 65536, 65536, 2, "BNSD", 0, 0)
INFER = (2, 0.25, 65536, 65536, "BNSD", 2, 0, 0)
RESULT = np.zeros((B, 2, S, D), F16)
BATCHES: dict[str, tuple[Any, ...]] = {
    "aclnnQuantMatmulV4": (
        numbers(B, 32),
        numbers(32, 16),
        np.ones(16, np.float32),
        None,
        np.linspace(0.1, 2, B).astype(np.float32),
        None,
        False,
        False,
        np.zeros((B, 16), F16),
    ),
    "aclnnWeightQuantBatchMatmulV2": (
        array(B, 32, dtype=F16),
        numbers(32, 16),
        np.full(1, 0.1, F16),
        *(None,) * 4,
        0,
        np.zeros((B, 16), F16),
    ),
    "aclnnAddmm": (
        array(B, 16, dtype=F16),
        array(B, 8, dtype=F16),
        array(8, 16, dtype=F16),
        1.0,
        2.0,
        np.zeros((B, 16), F16),
        0,
    ),
    "aclnnConvolution": (
        array(B, 3, 8),
        array(4, 3, 3),
        array(4),
        [1],
        [0],
        [1],
        False,
        [0],
        1,
        np.zeros((B, 4, 6), np.float32),
        0,
    ),
    "aclnnFlashAttentionScore": (QUERY, KEY, V, None, None, None, MASK, None, *FORWARD, *STATISTICS, None, RESULT),
    "aclnnPromptFlashAttentionV3": (QUERY, KEY, V, None, MASK, LENGTHS, LENGTHS, *NOTHING, *INFER, RESULT),
    "aclnnFusedInferAttentionScoreV3": (
        QUERY,
        [KEY],
        [V],
        *(None,) * 3,
        LENGTHS,
        *(None,) * 20,
        *INFER,
        0,
        0,
        True,
        0,
        0,
        RESULT,
        np.zeros((B, 2, S, 1), np.float32),
    ),
    "aclnnReduceSum": (array(B, 4, 5), [1, -1], False, int(DataType.FLOAT), np.zeros(B, np.float32)),
    "aclnnTopk": (array(B, 40), 5, -1, True, True, np.zeros((B, 5), np.float32), np.zeros((B, 5), np.int64)),
}


@pytest.mark.parametrize("name", BATCHES)
def test_batches_come_out_of_the_same_batches(name: str, tmp_path: Path) -> None:
    path = recorded(tmp_path / "right", name, *BATCHES[name])
    with Recording(path) as recording:
        launch = recording.launches[0]
        rows = blocks.rows_of(catalog.get(name), launch)
        assert rows is not None and rows.number == B
        memory = rows.whole_bytes + 3 * rows.row_bytes
        assert len(rows.blocks(memory)) == 4 and blocks.nbytes_of(launch) > memory
    right = replayed(path, memory=memory)
    assert (right.difference, right.left_out, right.partly) == ("", "", "") and len(right.comparisons) % 4 == 0

    def spoil(*results: Any) -> None:
        last = next(result for result in reversed(results) if result is not None and result.size >= B)
        last.reshape(B, -1)[7, 0] += 3

    wrong = replayed(recorded(tmp_path / "wrong", name, *BATCHES[name], wrong=spoil), memory=memory)
    assert "[6:9]" in wrong.difference, (wrong.difference, wrong.left_out)


MEMBERS: dict[str, tuple[Any, ...]] = {
    "aclnnForeachAddListV2": (
        [array(20) for _ in range(9)],
        [array(20) for _ in range(9)],
        2.0,
        [np.zeros(20, np.float32)] * 9,
    ),
    "aclnnForeachMulScalarList": (
        [array(20) for _ in range(9)],
        [float(at) for at in range(9)],
        [np.zeros(20, np.float32)] * 9,
    ),
}


@pytest.mark.parametrize("name", MEMBERS)
def test_lists_are_compared_by_members(name: str, tmp_path: Path) -> None:
    *inputs, zeros = MEMBERS[name]
    out = [zero.copy() for zero in zeros]
    path = recorded(tmp_path / "right", name, *inputs, [zero.copy() for zero in out])
    right = replayed(path, memory=1000)
    assert (right.difference, right.left_out) == ("", "") and list(right.comparisons)[-1] in [
        f"out[{at}]" for at in range(9)
    ]
    assert len(right.comparisons) == 9

    def spoil(result: Any) -> None:
        result[4][3] += 1

    wrong = replayed(
        recorded(tmp_path / "wrong", name, *inputs, [zero.copy() for zero in out], wrong=spoil), memory=1000
    )
    assert wrong.difference.startswith("out[4] ") and "[3]" in wrong.difference


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
