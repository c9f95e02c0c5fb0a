"""The file format: what is written is read again, a file that was cut off is read up to there, hostile files are refused."""

from __future__ import annotations

import json
import os
import signal
import struct
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from recordings import ADD, HEADER, description, record_an_addition

from ascend_aclnn.core.dtypes import DataType, Format
from ascend_aclnn.recording import (
    Call,
    Frame,
    Launch,
    Note,
    Prototype,
    Recording,
    RecordingError,
    ScalarValue,
    TensorDescription,
    TensorValue,
    Value,
    Writer,
    chunks,
    elements,
    shown_frames,
)


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    x = record_an_addition(tmp_path / "a")
    with Recording(tmp_path / "a") as recording:
        assert recording.header == HEADER
        assert recording.ended is not None and recording.ended.launches == 1
        launch, call, note = recording.events()
        assert isinstance(launch, Launch) and launch == recording.launches[0] == recording.launches[-1]
        assert launch.operator == ADD and launch.statuses == (0, 0)
        assert launch.site == (Frame("a.py", 3, "main"),)
        assert launch.named["alpha"].content.value == 1.0
        np.testing.assert_array_equal(recording.array(launch.named["self"].content), x)
        np.testing.assert_array_equal(recording.array(launch.named["out"].content, "after"), x + x)
        assert isinstance(call, Call) and call.arguments["devPtr"] == 1 << 40
        assert note == Note("one of two") and recording.notes() == ["one of two"]
        assert recording.cut == ""


def test_values_of_every_kind_are_read_again(tmp_path: Path) -> None:
    tensor = TensorValue(description((2, 0)), 64)
    values = (
        Value("null", None),
        Value("integer", -1),
        Value("integer", (1 << 64) - 1),
        Value("number", float("inf")),
        Value("string", "äöü\x00\n"),
        Value("integers", (1, -(1 << 63))),
        Value("floats", (0.1, float("-inf"))),
        Value("booleans", (True, False)),
        Value("tensors", (tensor, None)),
        Value("scalars", (ScalarValue(int(DataType.BF16), b"\x80\x3f"),)),
        Value("unknown", 1 << 50),
    )
    names = tuple(f"p{n}" for n in range(len(values)))
    with Writer(tmp_path / "a", HEADER) as writer:
        writer.launch(Prototype("aclnnX", names, ("in",) * len(names)), values, statuses=(161002, None), error="no")
    with Recording(tmp_path / "a") as recording:
        assert recording.launches[0].values == values
        assert recording.launches[0].statuses == (161002, None)


@pytest.mark.parametrize("dtype", [DataType.BF16, DataType.INT4, DataType.BOOL, DataType.COMPLEX64, DataType.UINT64])
def test_elements_of_every_width_are_read_again(tmp_path: Path, dtype: DataType) -> None:
    assert dtype.numpy is not None
    x = np.array([1, 0, 1, 1, 0, 1]).astype(dtype.numpy).reshape(3, 2)
    with Writer(tmp_path / "a", HEADER) as writer:
        key = writer.tensor(x, description((3, 2), dtype))
    with Recording(tmp_path / "a") as recording:
        found = recording.array(TensorValue(description((3, 2), dtype), 0, before=key))
        assert found.dtype == dtype.numpy
        assert found.tolist() == x.tolist()


def test_a_strided_view_is_read_from_the_bytes_that_it_reaches() -> None:
    memory = np.arange(100, dtype=ml_dtypes.bfloat16)
    view = description((3, 4), DataType.BF16, strides=(1, 20), offset=7)
    start, stop = view.byte_range
    assert (start, stop) == (14, 2 * (7 + 2 + 60 + 1))
    found = elements(view, memory.tobytes()[start:stop])
    np.testing.assert_array_equal(
        found.astype(int), [[7 + i + 20 * j if 7 + i + 20 * j < 100 else 0 for j in range(4)] for i in range(3)]
    )


def test_a_tensor_in_a_private_format_is_read() -> None:
    matrix = np.arange(16 * 32, dtype=np.float16).reshape(16, 32)
    blocks = np.ascontiguousarray(matrix.reshape(16, 2, 16).transpose(1, 0, 2)).reshape(2, 1, 16, 16)
    nz = description((16, 32), DataType.FLOAT16, format=Format.FRACTAL_NZ)
    np.testing.assert_array_equal(elements(nz, blocks.tobytes()), matrix)


def test_data_are_compressed_and_stored_once(tmp_path: Path) -> None:
    zeros = np.zeros(1 << 20, np.uint8)
    with Writer(tmp_path / "a", HEADER) as writer:
        assert writer.data(zeros) == writer.data(bytes(1 << 20))
    assert (tmp_path / "a").stat().st_size < 10_000
    with Writer(tmp_path / "b", HEADER, compress=False) as writer:
        key = writer.data(zeros)
    assert (tmp_path / "b").stat().st_size > 1 << 20
    with Recording(tmp_path / "b") as recording:
        assert recording.data(key) == bytes(1 << 20)


def test_a_recording_grows_while_it_is_read(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "a", HEADER)
    recording = Recording(tmp_path / "a")
    assert len(recording.launches) == 0 and recording.ended is None
    writer.launch(Prototype("aclnnX", (), ()), ())
    assert recording.refresh() == 1
    writer.launch(Prototype("aclnnX", (), ()), ())
    writer.close()
    assert recording.refresh() == 1
    assert [launch.index for launch in recording.launches] == [0, 1]
    assert recording.ended is not None
    recording.close()


def test_the_program_s_own_line_is_among_the_frames_that_are_shown() -> None:
    inside = Frame("/venv/lib/python3.11/site-packages/torch/nn/modules/module.py", 1789, "_call_impl")
    library, own = Frame("/usr/lib/libtorch_cpu.so.2", -4096, "?"), Frame("train.py", 8, "step")
    outer = Frame("train.py", 20, "<module>")
    site = (library, inside, inside, own, outer)
    assert shown_frames(site, 1) == (own,) and shown_frames(site, 2) == (library, own)
    assert shown_frames(site, 4) == site[:4] and shown_frames(site[:3], 2) == site[:2] and shown_frames((), 2) == ()
    native = Frame("/home/me/a.out", -4096, "main")
    assert shown_frames((library, native), 1) == (native,)


def test_an_existing_file_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("mine")
    with pytest.raises(FileExistsError):
        Writer(tmp_path / "a", HEADER)
    assert (tmp_path / "a").read_text() == "mine"


# ------------------------------------------------------------------------------------------------- cut off


def test_a_file_that_is_cut_off_anywhere_opens_up_to_there(tmp_path: Path) -> None:
    record_an_addition(tmp_path / "a", launches=2)
    whole = (tmp_path / "a").read_bytes()
    counts = set()
    for size in range(chunks.PREFIX.size, len(whole)):
        (tmp_path / "b").write_bytes(whole[:size])
        with Recording(tmp_path / "b") as recording:
            counts.add(len(recording.launches))
            for launch in recording.launches[-1:]:
                when = "before" if launch.statuses[1] is None else "after"
                recording.array(launch.named["self" if when == "before" else "out"].content, when)
    assert counts == {0, 1, 2}


def test_zeros_behind_the_last_chunk_are_its_end(tmp_path: Path) -> None:
    record_an_addition(tmp_path / "a")
    with open(tmp_path / "a", "ab") as file:
        file.write(bytes(1 << 16))
    with Recording(tmp_path / "a") as recording:
        assert len(recording.launches) == 1 and recording.cut == ""
    with open(tmp_path / "a", "r+b") as file:  # the type, which is written last, is missing
        file.seek(-(1 << 16), os.SEEK_END)
        file.write(chunks.HEADER.pack(b"\0\0\0\0", 1, 8))
    with Recording(tmp_path / "a") as recording:
        assert len(recording.launches) == 1 and "not finished" in recording.cut


def test_a_killed_writer_leaves_what_it_has_recorded(tmp_path: Path) -> None:
    program = (
        "import os, signal, sys; from ascend_aclnn.recording import *\n"
        f"w = Writer(sys.argv[1], Header(*{tuple(HEADER)!r}))\n"
        "for _ in range(5): w.launch(Prototype('aclnnX', (), ()), ())\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path / "a")], check=False)
    assert done.returncode == -signal.SIGKILL
    with Recording(tmp_path / "a") as recording:
        assert len(recording.launches) == 5 and recording.ended is None


# ------------------------------------------------------------------------------------------------- hostile files


def written(path: Path, *parts: tuple[bytes, Any], header: Any = None) -> Path:
    """A file of chunks whose frames are right, whatever they say; a payload that is not bytes becomes JSON."""
    prefix = chunks.PREFIX.pack(chunks.MAGIC, chunks.VERSION, 0)
    pairs = [(chunks.HEAD, {} if header is None else header), *parts]
    texts = [(kind, payload if isinstance(payload, bytes) else json.dumps(payload).encode()) for kind, payload in pairs]
    path.write_bytes(prefix + b"".join(chunks.chunk(kind, payload) for kind, payload in texts))
    return path


X = {"id": 0, "name": "aclnnX", "parameters": ["x"], "directions": ["in"]}
PLAIN = {"index": 0, "op": 0, "args": [None], "status": 0, "workspace": [0, 0], "threads": [0, 0], "times": [0, 0]}
T = {"id": 0, "dtype": 0, "format": 2, "shape": [2], "strides": [1], "offset": 0, "storage_shape": [2]}


def data_chunk(raw: bytes, size: int, codec: int = chunks.ZLIB, digest: bytes = bytes(16)) -> bytes:
    return chunks.DATA_HEADER.pack(digest, codec, 0, size) + raw


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"index": 1}, "says that it is number 1"),
        ({"index": -1}, "index is -1"),
        ({"index": True}, "index is True"),
        ({"op": 1}, "op is 1; 1 have been described so far"),
        ({"op": -1}, "op is -1"),
        ({"args": []}, "aclnnX has 1 parameters; 0 values are here"),
        ({"args": [{"tensor": 0}]}, "tensor is 0; 0 have been described so far"),
        ({"args": [{"tensor": 10**30}]}, "a number of 31 digits"),
        ({"args": [{"scalar": 0, "bytes": "0" * 100}]}, "1 to 16 bytes"),
        ({"args": [{"integers": [1.5]}]}, "must be an integer"),
        ({"args": [{"integers": [1], "floats": [1]}]}, "one must say its kind"),
        ({"args": [{"floats": ["nope"]}]}, "must be a number"),
        ({"args": [{"booleans": [0]}]}, "true or false"),
        ({"args": ["text"]}, "a str where an object must be"),
        ({"args": [2**70]}, "a value is"),
        ({"status": [0]}, "status is"),
        ({"times": [0]}, "times has 1 items; it must have 2"),
        ({"site": 0}, "site is 0; 0 have been described so far"),
        ({"error": 1}, "must be a string"),
    ],
)
def test_a_launch_that_does_not_fit_is_refused(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    path = written(tmp_path / "a", (chunks.OPERATOR, X), (chunks.LAUNCH, {**PLAIN, **change}))
    with Recording(path) as recording, pytest.raises(RecordingError, match=words):
        recording.launches[0]


R = {"index": 0, "status": 0, "times": [0, 0]}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"index": 1}, "there is no launch of that number"),
        ({"status": None}, "no field 'status'|status is None"),
        ({"after": [None, None]}, "after has 2 items; aclnnX has 1 parameters"),
        ({"after": ["0" * 32]}, "must be a list"),
        ({"after": [["0" * 32]]}, "1 keys for a value of the kind 'null'"),
    ],
)
def test_a_return_that_does_not_fit_is_refused(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    parts = ((chunks.OPERATOR, X), (chunks.LAUNCH, PLAIN), (chunks.RETURN, {**R, **change}))
    with pytest.raises(RecordingError, match=words), Recording(written(tmp_path / "a", *parts)) as recording:
        recording.launches[0]


def test_a_launch_returns_once(tmp_path: Path) -> None:
    parts = ((chunks.OPERATOR, X), (chunks.LAUNCH, PLAIN), (chunks.RETURN, R), (chunks.RETURN, R))
    with pytest.raises(RecordingError, match="returned before"):
        Recording(written(tmp_path / "a", *parts))


def test_a_launch_that_never_returned_has_no_second_status(tmp_path: Path) -> None:
    with Recording(written(tmp_path / "a", (chunks.OPERATOR, X), (chunks.LAUNCH, PLAIN))) as recording:
        assert recording.launches[0].statuses == (0, None)


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ([(chunks.TENSOR, {**T, "shape": [2**63]})], "more than 64 bits|must be an integer"),
        ([(chunks.TENSOR, {**T, "strides": []})], "0 strides for 1 dimensions"),
        ([(chunks.TENSOR, {**T, "shape": [1] * 65, "strides": [1] * 65})], "65 dimensions; at most 64"),
        ([(chunks.TENSOR, {**T, "id": 5})], "id is 5; the next one is 0"),
        ([(chunks.TENSOR, {**T, "shape": "ab"})], "must be a list"),
        ([(chunks.TENSOR, [])], "a list where an object must be"),
        ([(chunks.OPERATOR, {**X, "directions": []})], "1 parameters with the directions"),
        ([(chunks.OPERATOR, {**X, "directions": ["sideways"]})], "1 parameters with the directions"),
        ([(chunks.SITE, {"id": 0, "frames": [["a", "b", "c"]]})], "line is 'b'"),
        ([(chunks.SITE, {"id": 0, "frames": [["a", 1, "f"]] * 1001})], "1001 frames; at most 1000"),
        ([(chunks.HEAD, {})], "a second header"),
        ([(chunks.TENSOR, b"[" * 100_000)], "nested too deeply|is refused"),
        ([(chunks.TENSOR, b'{"id": NaN}')], "NaN is not JSON"),
        ([(chunks.TENSOR, b'{"id": ' + b"9" * 100_000 + b"}")], "a number of 100000 digits"),
        ([(chunks.TENSOR, b"\xff\xfe\xfd")], "is refused"),
        ([(chunks.DATA, b"short")], "has no head"),
        ([(b"EVIL", b"")], "is no type of a chunk"),
    ],
)
def test_a_record_that_does_not_fit_is_refused(tmp_path: Path, parts: list[tuple[bytes, Any]], words: str) -> None:
    with pytest.raises(RecordingError, match=words):
        Recording(written(tmp_path / "a", *parts))


@pytest.mark.parametrize(
    ("header", "words"),
    [
        ([], "a list where an object must be"),
        ({"program": "python"}, "must be a list"),
        ({"environment": {"A": 1}}, "environment.A is 1; it must be a string"),
        ({"emulated": 1}, "true or false"),
    ],
)
def test_a_header_that_does_not_fit_is_refused(tmp_path: Path, header: Any, words: str) -> None:
    with pytest.raises(RecordingError, match=words):
        Recording(written(tmp_path / "a", header=header))


@pytest.mark.parametrize(
    ("payload", "words"),
    [
        (data_chunk(zlib.compress(bytes(100)), 1 << 60), "the limit is"),
        (data_chunk(zlib.compress(bytes(100)), 1 << 30), "compressed bytes claim to be"),
        (data_chunk(zlib.compress(bytes(1 << 20)), 10), "do not end with the chunk"),
        (data_chunk(zlib.compress(bytes(100)) + b"more", 100), "do not end with the chunk"),
        (data_chunk(b"no zlib", 7), "damaged"),
        (data_chunk(b"abc", 3, chunks.RAW), "not what their key says"),
        (data_chunk(b"abc", 4, chunks.RAW), "not what their key says"),
        (data_chunk(b"abc", 3, 9), "codec 9"),
    ],
)
def test_data_that_do_not_fit_are_refused(tmp_path: Path, payload: bytes, words: str) -> None:
    with (
        Recording(written(tmp_path / "a", (chunks.DATA, payload))) as recording,
        pytest.raises(RecordingError, match=words),
    ):
        recording.data("0" * 32)


def test_a_tensor_that_claims_more_than_its_data_is_refused(tmp_path: Path) -> None:
    with Writer(tmp_path / "a", HEADER) as writer:
        key = writer.data(b"\0" * 4)
    with Recording(tmp_path / "a", limit=1 << 20) as recording:
        for hostile in (
            description((2,)),
            description((1 << 40,), strides=(0,)),  # one element in memory, 4 TB as an array
            description((2, 2), strides=(-1, 1)),
            TensorDescription(12345, 2, (1,), (1,), 0, (1,)),
            TensorDescription(0, 2, (1 << 62, 1 << 62), (0, 0), 0, ()),
        ):
            with pytest.raises(RecordingError):
                recording.array(TensorValue(hostile, 0, before=key))
        with pytest.raises(RecordingError, match="were not recorded"):
            recording.array(TensorValue(description((1,)), 0))
        with pytest.raises(RecordingError, match="were not recorded"):
            recording.data("../../etc/passwd")


def flipped(path: Path, whole: bytes, at: int) -> Path:
    path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :])
    return path


def use_all(recording: Recording) -> None:
    for launch in recording.launches:
        for value in launch.values:
            for tensor in value.tensors():
                for when in ("before", "after"):
                    if getattr(tensor, when):
                        recording.array(tensor, when)
    list(recording.events())


def test_a_damaged_byte_is_noticed_or_harmless(tmp_path: Path) -> None:
    record_an_addition(tmp_path / "a")
    whole = (tmp_path / "a").read_bytes()
    refused = 0
    places = range(0, len(whole), 3)
    for at in places:
        try:
            with Recording(flipped(tmp_path / "b", whole, at)) as recording:
                use_all(recording)
        except RecordingError as error:
            assert str(tmp_path / "b") in str(error)
            refused += 1
    assert (
        refused > len(places) * 0.8
    )  # the rest: padding, the codec's reserved word, lengths that reach beyond the end


@pytest.mark.parametrize("length", [1 << 25, (1 << 64) - 1])
def test_a_length_that_no_writer_writes_is_refused(tmp_path: Path, length: int) -> None:
    path = written(tmp_path / "a")
    with open(path, "ab") as file:
        file.write(chunks.HEADER.pack(chunks.NOTE, 0, length))
    with pytest.raises(RecordingError, match="at most"):
        Recording(path)
    path = written(tmp_path / "b")
    with open(path, "ab") as file:
        file.write(chunks.HEADER.pack(chunks.DATA, 0, length))
    with Recording(path) as recording:
        assert "of which 0 are there" in recording.cut


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is no recording"),
        (b"\x89PNG\r\n\x1a\n" + bytes(100), "is no recording"),
        (struct.pack("<8sII", b"ACLNNREC", 4, 0), "version 4; this ascend_aclnn reads versions up to 3"),
        (struct.pack("<8sII", b"ACLNNREC", 1, 0) + chunks.chunk(b"NOTE", b"{}"), "the first chunk is no header"),
    ],
)
def test_another_file_is_refused(tmp_path: Path, content: bytes, words: str) -> None:
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(RecordingError, match=words):
        Recording(tmp_path / "a")


def test_a_recording_cut_to_less_while_it_is_open_is_an_error_and_no_crash(tmp_path: Path) -> None:
    record_an_addition(tmp_path / "a")
    with Recording(tmp_path / "a") as recording:
        os.truncate(tmp_path / "a", 100)
        with pytest.raises(RecordingError):
            use_all(recording)
