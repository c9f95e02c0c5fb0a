"""Collectives in the recordings of all ranks: right ones are right, and one wrong element is named where it is."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Union

import ml_dtypes
import numpy as np
import pytest
from recordings import HEADER

from ascend_aclnn.cli.main import main
from ascend_aclnn.core.dtypes import as_datatype
from ascend_aclnn.core.hccl import hccl_type
from ascend_aclnn.recording import Call, Recording, Writer
from ascend_aclnn.replay.collectives import RECEIVED, Exchange, exchanges

SIZE = 3
ROOT = 1
SUM, PROD, MAX = 0, 1, 2
MATRIX = np.array([[1, 2, 0], [3, 1, 2], [2, 0, 4]], np.uint64)  # elements from a rank to a rank
Buffers = dict[str, np.ndarray[Any, Any]]
Row = tuple[dict[str, int], Buffers]
Tamper = Callable[[int, Buffers], object]


def sent(rank: int, count: int, dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    return (np.arange(count) * 0.37 + 0.11 * rank).astype(dtype)


def starts(counts: Any) -> Any:
    return (np.cumsum(counts) - counts).astype(np.uint64)


def row(name: str, rank: int, dtype: Any = np.float32) -> Row:
    """The arguments of a rank's call, and its buffers, by NumPy's own means."""
    everyone = [sent(r, 12, dtype) for r in range(SIZE)]
    own = everyone[rank]
    if name == "HcclBroadcast":
        return {"root": ROOT, "count": 12}, {"buf": own, "buf after": everyone[ROOT]}
    if name == "HcclAllGather":
        return {"sendCount": 12}, {"sendBuf": own, "recvBuf": np.concatenate(everyone)}
    if name == "HcclScatter":
        part = np.split(everyone[ROOT], SIZE)[rank]
        return {"root": ROOT, "recvCount": 4}, {"recvBuf": part, **({"sendBuf": own} if rank == ROOT else {})}
    if name == "HcclAlltoAll":
        parts = [np.split(each, SIZE)[rank] for each in everyone]
        return {"sendCount": 4, "recvCount": 4}, {"sendBuf": own, "recvBuf": np.concatenate(parts)}
    if name in ("HcclAlltoAllV", "HcclAlltoAllVC"):
        cut = [
            np.split(everyone[r][: int(MATRIX[r].sum())], starts(MATRIX[r])[1:].astype(int))[rank] for r in range(SIZE)
        ]
        counts: Buffers = {"sendCountMatrix": MATRIX}
        if name == "HcclAlltoAllV":
            come = MATRIX[:, rank].copy()
            counts = {
                "sendCounts": MATRIX[rank],
                "sdispls": starts(MATRIX[rank]),
                "recvCounts": come,
                "rdispls": starts(come),
            }
        return {}, {"sendBuf": own[: int(MATRIX[rank].sum())], "recvBuf": np.concatenate(cut), **counts}
    if name == "HcclAllGatherV":
        numbers = np.array([2, 5, 1], np.uint64)
        gathered = np.concatenate([everyone[r][: int(numbers[r])] for r in range(SIZE)])
        own = own[: int(numbers[rank])]
        counts = {"recvCounts": numbers, "recvDispls": starts(numbers)}
        return {"sendCount": int(numbers[rank])}, {"sendBuf": own, "recvBuf": gathered, **counts}
    total = np.sum([each.astype(np.float64) for each in everyone], axis=0).astype(dtype)
    if name == "HcclReduceScatter":
        return {"recvCount": 4, "op": SUM}, {"sendBuf": own, "recvBuf": total[4 * rank : 4 * rank + 4]}
    if name == "HcclReduceScatterV":
        numbers = np.array([3, 7, 2], np.uint64)
        first = int(starts(numbers)[rank])
        arguments = {"recvCount": int(numbers[rank]), "op": SUM}
        came = total[first : first + int(numbers[rank])]
        return arguments, {"sendBuf": own, "recvBuf": came, "sendCounts": numbers, "sendDispls": starts(numbers)}
    if name == "HcclReduce":
        return {"root": ROOT, "count": 12, "op": SUM}, {"sendBuf": own, **({"recvBuf": total} if rank == ROOT else {})}
    assert name == "HcclAllReduce"
    return {"count": 12, "op": SUM}, {"sendBuf": own, "recvBuf": total}


MOVES = ("Broadcast", "AllGather", "AllGatherV", "Scatter", "AlltoAll", "AlltoAllV", "AlltoAllVC")
REDUCTIONS = ("AllReduce", "Reduce", "ReduceScatter", "ReduceScatterV")


def call(name: str, arguments: dict[str, Union[int, str]], data: dict[str, str] = {}) -> Call:  # noqa: B006
    return Call(name, arguments, 0, 0, 1, (0, 0), data, "")


def record(folder: Path, name: str, tamper: Tamper = lambda rank, buffers: None, dtype: Any = np.float32) -> list[Path]:
    """A recording for each rank, with one collective."""
    folder = Path(tempfile.mkdtemp(dir=folder))
    paths = [folder / f"{name}.rank{rank}.aclnn" for rank in range(SIZE)]
    for rank, path in enumerate(paths):
        with Writer(path, HEADER) as writer:
            numbers, buffers = row(name, rank, dtype)
            buffers = {key: value.copy() for key, value in buffers.items()}
            tamper(rank, buffers)
            keys = {key: writer.data(value.view(np.uint8)) for key, value in buffers.items()}
            kind = hccl_type(as_datatype(dtype)).value
            member: dict[str, Union[int, str]] = {"group": "world", "rank": rank, "ranks": SIZE, "stream": 5}
            writer.call(call(name, {**numbers, "dataType": kind, **member}, keys))
    return paths


def outcomes(paths: list[Path]) -> list[Exchange]:
    with contextlib.ExitStack() as stack:
        return list(exchanges([stack.enter_context(Recording(path)) for path in paths]))


@pytest.mark.parametrize("name", MOVES + REDUCTIONS)
def test_a_right_collective_is_right_and_one_wrong_element_is_named(name: str, tmp_path: Path) -> None:
    name = f"Hccl{name}"
    (right,) = outcomes(record(tmp_path, name))
    assert str(right) == f"{name}, number 0 of world is right"

    def spoil(rank: int, buffers: Buffers) -> None:
        if rank == ROOT:
            buffers["buf after" if name == "HcclBroadcast" else "recvBuf"][2] += 0.01

    if name == "HcclBroadcast":  # the root's own buffer stays as it is
        spoil_rank = 2
        broken = record(tmp_path, name, lambda r, b: b["buf after"].__setitem__(2, 9) if r == spoil_rank else None)
    else:
        spoil_rank = ROOT
        broken = record(tmp_path, name, spoil)
    (wrong,) = outcomes(broken)
    assert wrong.difference.startswith(f"rank {spoil_rank}") and next(iter(wrong.comparisons)) in wrong.difference
    (comparison,) = wrong.comparisons.values()
    assert comparison.wrong == 1 and comparison.picture() != [] and "<svg" in wrong._repr_html_()


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_a_sum_may_be_rounded_at_each_step(dtype: Any, tmp_path: Path) -> None:
    def stepwise(rank: int, buffers: Buffers) -> None:
        total = sent(SIZE - 1, 12, dtype)
        for other in range(SIZE - 1):
            total = (total + sent(other, 12, dtype)).astype(dtype)
        buffers["recvBuf"][:] = total

    (right,) = outcomes(record(tmp_path, "HcclAllReduce", stepwise, dtype))
    assert right.difference == right.left_out == ""


def test_integers_are_summed_exactly_and_wrap(tmp_path: Path) -> None:
    def wrap(rank: int, buffers: Buffers) -> None:
        buffers["sendBuf"][:] = 100
        buffers["recvBuf"][:] = 300 - 256

    (right,) = outcomes(record(tmp_path, "HcclAllReduce", wrap, np.int8))
    assert right.difference == right.left_out == ""


def test_what_cannot_be_compared_says_why(tmp_path: Path) -> None:
    paths = record(tmp_path, "HcclAllReduce")
    (missing,) = outcomes(paths[:2])
    assert missing.left_out == "of 3 ranks those recorded are 0, 1"
    (without,) = outcomes(record(tmp_path, "HcclAllGather", lambda rank, buffers: buffers.pop("sendBuf")))
    assert without.left_out == "sendBuf of rank 0 was not recorded"
    (short,) = outcomes(record(tmp_path, "HcclScatter", lambda rank, b: b.update(recvBuf=b["recvBuf"][:3])))
    assert short.left_out == "3 elements were recorded; 0 to 4 are expected"
    mixed = [record(tmp_path, "HcclAllReduce")[0], *record(tmp_path, "HcclBroadcast")[1:]]
    (different,) = outcomes(mixed)
    assert different.difference.startswith("the ranks called HcclAllReduce (rank 0), HcclBroadcast (rank 1)")


def paired(folder: Path, wrong: bool = False, lost: bool = False) -> list[Path]:
    """Rank 0 sends to rank 1, which answers in a batch; what came is recorded behind the call."""
    there, back = sent(0, 4), sent(1, 6)
    dtype = hccl_type(as_datatype(np.float32)).value
    items = np.zeros(
        1, [("kind", "<i4"), ("", "<i4"), ("buf", "<u8"), ("count", "<u8"), ("dtype", "<i4"), ("peer", "<u4")]
    )
    folder = Path(tempfile.mkdtemp(dir=folder))
    paths = [folder / f"pair.rank{rank}.aclnn" for rank in range(2)]
    for rank, path in enumerate(paths):
        member: dict[str, Union[int, str]] = {"group": "world", "rank": rank, "ranks": 2, "stream": 5}
        with Writer(path, HEADER) as writer:
            items["kind"], items["count"], items["dtype"], items["peer"] = rank == 0, 6, dtype, 1 - rank
            if rank == 0:
                keys = {"sendBuf": writer.data(there.view(np.uint8))}
                writer.call(call("HcclSend", {"destRank": 1, "dataType": dtype, **member}, keys))
                batch = {"sendRecvInfo": writer.data(items.view(np.uint8))}
                writer.call(call("HcclBatchSendRecv", {**member, "ticket": 1}, batch))
                came = back + np.float32(wrong) * (np.arange(6) == 5)
                writer.call(call(RECEIVED, {"ticket": 1}, {"sendRecvInfo[0]": writer.data(came.view(np.uint8))}))
                continue
            writer.call(call("HcclRecv", {"srcRank": 0, "dataType": dtype, "ticket": 1, **member}))
            if not lost:
                writer.call(call(RECEIVED, {"ticket": 1}, {"recvBuf": writer.data(there.view(np.uint8))}))
            batch = {
                "sendRecvInfo": writer.data(items.view(np.uint8)),
                "sendRecvInfo[0]": writer.data(back.view(np.uint8)),
            }
            writer.call(call("HcclBatchSendRecv", member, batch))
    return paths


def test_sends_are_compared_with_their_receives(tmp_path: Path) -> None:
    assert [(one.difference, one.left_out) for one in outcomes(paired(tmp_path))] == [("", "")] * 2
    there, back = outcomes(paired(tmp_path, wrong=True))
    assert there.difference == "" and back.name == "send from rank 1 to rank 0"
    assert back.difference.startswith("rank 0: ") and "[5]" in back.difference
    assert outcomes(paired(tmp_path, lost=True))[0].left_out == "recvBuf of rank 1 was not recorded"


def test_the_command_compares_ranks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    right = [str(path) for path in record(tmp_path, "HcclAllReduce")]
    assert main(["replay", "--compare", *right]) == 0
    assert "collectives: 1 right, 0 different, 0 left out" in capsys.readouterr().out
    wrong = [str(path) for path in paired(tmp_path, wrong=True)]
    assert main(["replay", "--compare", "--html", "page.html", *wrong]) == 1
    assert "send from rank 1 to rank 0" in (tmp_path / "page.html").read_text()
    out = capsys.readouterr().out
    assert "1 of 6 elements" in out and "collectives: 1 right, 1 different, 0 left out" in out
    (written,) = (tmp_path / "aclnn-failures").iterdir()
    assert main(["replay", "--compare", str(written)]) == 1
