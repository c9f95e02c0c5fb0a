"""Recordings from strangers: refused with a RecordingError that names the file, in bounded memory, or read as what they are."""

from __future__ import annotations

import random
import struct
import time
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hostile_recordings import bomb, mutated, old_launch, original, parts, put_together, use, words_launch
from recordings import HEADER, description

from ascend_aclnn import catalog, use_backend
from ascend_aclnn.cli.main import main
from ascend_aclnn.core.dtypes import DataType
from ascend_aclnn.recording import (
    Prototype,
    Recording,
    RecordingError,
    TensorDescription,
    TensorValue,
    Value,
    Writer,
    chunks,
)
from ascend_aclnn.replay import replay
from ascend_aclnn.replay.arguments import Unavailable, arguments

LAUN, LNCH, LRET = chunks.BRIEF, chunks.OLD_LAUNCH, chunks.OLD_RETURN
HUGE = b"\xff" * 9 + b"\x01"  # 2 ** 64 - 1


@pytest.fixture
def whole(tmp_path: Path) -> list[tuple[bytes, bytes]]:
    return parts(original(tmp_path / "original"))


def test_the_original_is_read(tmp_path: Path, whole: list[tuple[bytes, bytes]]) -> None:
    with use_backend("numpy"):
        assert use(put_together(tmp_path / "a", whole), tmp_path)
    with Recording(tmp_path / "a") as recording:
        launch = recording.launches[2]
        assert launch.statuses == (0, 0) and launch.times == (10, 13, 5, 14) and launch.site == ()
        values = [value.kind for value in launch.values]
        assert values == ["null", "tensor", "integer", "tensor"] and launch.values[2].content == 3
        assert launch.values[1].content.address == 128
        launch = recording.launches[3]
        assert (
            launch.statuses == (0, 0) and launch.times == (10, 13, 15, 24) and launch.site == recording.launches[0].site
        )
        assert (launch.workspace, launch.repeatable, launch.stream, launch.device) == ((64, 4096), True, 5, 1)
        assert launch.threads == (70, 71) and [value.kind for value in launch.values] == values
        assert [launch.values[i].content.address for i in (1, 3)] == [128, 1 << 60] and launch.values[2].content == -3


@pytest.mark.parametrize(
    ("kind", "payload", "words"),
    [
        (LAUN, b"", "the return is not there: the record has 0 words"),
        (LAUN, words_launch(4)[:-1], "whole words"),
        (LAUN, words_launch(4)[:-8], "3 words behind the last field"),
        (LAUN, words_launch(4) + bytes(8), "behind the last field"),
        (LAUN, words_launch(7), "says that it is number 7"),
        (LAUN, words_launch(4, op=4 << 32 | 9), "op is 9; 1 have been described"),
        (LAUN, words_launch(4, thread=8 << 48), "flags are 8"),
        (LAUN, words_launch(4, site=77), "site is 77; 1 have been described"),
        (LAUN, words_launch(4, other=9 << 48), "other is 9; 1 have been described"),
        (LAUN, words_launch(4, kinds=0x08020100), "a value of kind 8"),
        (LAUN, words_launch(4, kinds=0x07020500, other=1 << 63), "9223372036854775808 items"),
        (LAUN, words_launch(4, kinds=0x07020400, other=99 << 32), "a scalar of 99 bytes"),
        (LNCH, b"", "index does not end"),
        (LNCH, b"\x80" * 11, "index does not end"),
        (LNCH, b"\xff" * 9 + b"\x02", "more than 64 bits"),
        (LNCH, old_launch(4)[:-1], "out does not end"),
        (LNCH, old_launch(4) + b"\0", "1 bytes behind the last field"),
        (LNCH, old_launch(7), "says that it is number 7"),
        (LNCH, bytes([4, 9]), "op is 9; 1 have been described"),
        (LNCH, bytes([4, 0, 0, 0, 0, 5, 0, 1, 1, 10, 3, 1, 1, 77, 0]), "self is 77; 1 have been described"),
        (LNCH, bytes([4, 0, 0, 0, 0, 5, 0, 1, 1, 10, 3, 1, 9]), "a value of kind 9"),
        (LNCH, bytes([4, 0, 0, 0, 0, 5, 0, 1, 1, 10, 3, 1, 5]) + HUGE, "18446744073709551615 items"),
        (LNCH, bytes([4, 0, 0, 0, 0, 5, 0, 1, 1, 10, 3, 1, 4, 0, 99]), "a scalar of 99 bytes"),
        (LNCH, bytes([4, 0, 0, 0, 0, 5, 0, 1, 1, 10, 3, 1, 3, 0]), "has 1 bytes; it must have 8"),
        (LNCH, old_launch(4)[:11] + b"\x08" + old_launch(4)[12:], "site is 4; 1 have been described"),
        (LRET, bytes([2, 5, 9]), "index is 2; there is no launch of that number, or it has returned"),
        (LRET, HUGE, "there is no launch"),
        (LRET, b"", "index does not end"),
    ],
)
def test_a_record_that_no_recorder_writes_is_refused(
    tmp_path: Path, whole: list[tuple[bytes, bytes]], kind: bytes, payload: bytes, words: str
) -> None:
    before = [part for part in whole if part[0] != chunks.END]
    with (
        pytest.raises(RecordingError, match=words),
        Recording(put_together(tmp_path / "a", [*before, (kind, payload)])) as r,
    ):
        list(r.launches)


def test_a_damaged_word_of_a_brief_record_is_seen(tmp_path: Path, whole: list[tuple[bytes, bytes]]) -> None:
    path = put_together(tmp_path / "a", whole)
    intact, start = path.read_bytes(), path.stat().st_size - len(words_launch())
    for at in range(start, len(intact)):
        damaged = bytearray(intact)
        damaged[at] ^= 1 << at % 8
        path.write_bytes(damaged)
        if at < start + 8:  # what phase two returned is filled in later, and is not in the check
            with Recording(path) as recording:
                assert recording.launches[3].times[:2] == (10, 13)
            continue
        with pytest.raises(RecordingError, match="CRC of a chunk LAUN is wrong"):
            Recording(path)


@pytest.mark.parametrize("seed", range(4))
def test_changed_records_are_refused_or_harmless(tmp_path: Path, whole: list[tuple[bytes, bytes]], seed: int) -> None:
    draw, refused = random.Random(seed), 0
    before = set(tmp_path.parent.iterdir())
    with use_backend("numpy"):
        for _ in range(60):
            path = put_together(tmp_path / "a", mutated(whole, draw))
            refused += not use(path, tmp_path)
    assert 5 < refused < 60 and set(tmp_path.parent.iterdir()) == before


def test_elements_before_an_address_are_read_or_left_out(tmp_path: Path) -> None:
    """Strides may be negative in a file. Elements of less than a byte have no place before an address."""
    with Writer(tmp_path / "a", HEADER) as writer:
        for dtype in (DataType.INT8, DataType.INT4):
            shape = TensorDescription(int(dtype), 2, (2, 4), (4, -1), 0, (2, 4))
            start, stop = shape.byte_range
            assert start < 0
            key = writer.data(bytes(range(stop - start)))
            tensors = [TensorValue(shape, 64, before=key), TensorValue(shape, 1 << 20)]
            writer.launch(Prototype("aclnnAbs", ("self", "out"), ("in", "out")), [Value("tensor", t) for t in tensors])
    with Recording(tmp_path / "a") as recording, use_backend("numpy"):
        whole, packed = recording.launches
        assert arguments(recording, whole, catalog.get("aclnnAbs"))[0].numpy().tolist() == [[3, 2, 1, 0], [7, 6, 5, 4]]
        with pytest.raises(Unavailable, match="elements before its address"):
            arguments(recording, packed, catalog.get("aclnnAbs"))


def test_a_launch_of_more_blocks_than_can_be_counted_is_left_out(tmp_path: Path) -> None:
    shape = TensorDescription(int(DataType.INT8), 2, (1 << 62,), (1,), 0, (1 << 62,))
    with Writer(tmp_path / "a", HEADER) as writer:
        key = writer.data(b"8")
        tensors = [TensorValue(shape, 64, before=key), TensorValue(shape, 128, after=key)]
        writer.launch(Prototype("aclnnAbs", ("self", "out"), ("in", "out")), [Value("tensor", t) for t in tensors])
    with Recording(tmp_path / "a") as recording, use_backend("numpy"):
        (outcome,) = replay(recording)
        assert "blocks; the limit is 1048576" in outcome.left_out


def test_a_bomb_is_refused_before_it_is_inflated(tmp_path: Path) -> None:
    path = bomb(tmp_path / "a", 1 << 26)
    assert path.stat().st_size < 1 << 17
    with Recording(path, limit=1 << 20) as recording, use_backend("numpy"):
        tracemalloc.start()
        try:
            with pytest.raises(RecordingError, match="the limit is"):
                recording.array(recording.launches[0].named["self"].content)
            (outcome,) = replay(recording)
            assert "the limit is 1048576" in outcome.left_out
            assert tracemalloc.get_traced_memory()[1] < 1 << 22
        finally:
            tracemalloc.stop()


def test_many_tensors_of_one_launch_are_counted_together(tmp_path: Path) -> None:
    shape, count = description((1 << 18,)), 40
    with Writer(tmp_path / "a", HEADER) as writer:
        key = writer.data(bytes(1 << 20))
        many = Value("tensors", tuple(TensorValue(shape, n << 30, before=key) for n in range(count)))
        out = Value("tensor", TensorValue(description((count << 18,)), 1 << 50))
        writer.launch(
            Prototype("aclnnCat", ("tensors", "dim", "out"), ("in", "in", "out")), [many, Value("integer", 0), out]
        )
    with Recording(tmp_path / "a", limit=1 << 25) as recording, use_backend("numpy"):
        assert "its tensors are too large (the limit is 33554432 bytes)" in next(replay(recording)).left_out


def test_a_name_is_no_path_no_code_and_no_command_of_the_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "inner").mkdir()
    monkeypatch.chdir(tmp_path / "inner")
    name = '../../x"""\nopen("../owned", "w")\n"""\x1b]0;owned\x07'
    with Writer("a.aclnn", HEADER._replace(soc="\x1b[2J", program=('"""', "\x1b[2J"))) as writer:
        writer.launch(Prototype(name, ("\x1b[2J",), ("in",)), [Value("string", "\x1b[2J")], error="\x1b[2J")
    for command in (["recording", "show"], ["recording", "show", "--op", "0"], ["replay"], ["replay", "--json"]):
        main([*command, "a.aclnn"])
    assert main(["recording", "export", "a.aclnn", "--op", "0"]) == 0
    assert main(["recording", "diff", "a.aclnn", "a.aclnn"]) == 0
    said = capsys.readouterr()
    assert "\x1b" not in said.out and "owned" in said.out
    (test,) = Path().glob("test_*.py")
    assert set(Path().iterdir()) == {Path("a.aclnn"), test} and set(tmp_path.iterdir()) == {tmp_path / "inner"}
    scope: dict[str, Any] = {}
    exec(compile(test.read_text(), str(test), "exec"), scope)
    assert set(tmp_path.iterdir()) == {tmp_path / "inner"} and "owned" in scope["__doc__"]


def test_a_file_of_many_small_records_takes_time_and_memory_by_its_size(tmp_path: Path) -> None:
    note = chunks.chunk(chunks.NOTE, b'{"text":""}')
    path = put_together(tmp_path / "a", [(chunks.HEAD, b"{}")])
    with open(path, "ab") as file:
        file.write(note * 4_000)
    tracemalloc.start()
    try:
        with Recording(path) as recording:
            assert sum(1 for _ in recording.events()) == 4_000
        assert tracemalloc.get_traced_memory()[1] < 4 * path.stat().st_size + (1 << 22)
    finally:
        tracemalloc.stop()


def test_a_chunk_that_says_it_ends_before_the_file_begins(tmp_path: Path) -> None:
    """Lengths near 2 ** 64 must not lead back to a chunk that was read, for ever."""
    path = put_together(tmp_path / "a", [(chunks.HEAD, b"{}")])
    with open(path, "ab") as file:
        file.write(struct.pack("<4sIQ", chunks.DATA, 0, (1 << 64) - 24) + bytes(32))
    begin = time.monotonic()
    with Recording(path) as recording:
        assert "of a chunk DATA" in recording.cut and time.monotonic() - begin < 60
