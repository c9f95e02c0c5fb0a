"""Parts of a recording: a shorter one, and a test case that stands by itself."""

from __future__ import annotations

import base64
import os
import textwrap
import zlib
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Union

from ascend_aclnn.recording import Launch, Recording, Writer

FilePath = Union[str, "os.PathLike[str]"]
_MOST_TEXT = 8 << 20  # bytes of a recording that a test case holds

_TEST = '''"""{name} as it was launched by {program}
on {device}, launch {index} of {launches}.

Made by: ascend-aclnn recording export {file} --op {index}. It needs ascend_aclnn and pytest, and nothing else.
"""

import base64
import zlib

import pytest

from ascend_aclnn.recording import Recording
from ascend_aclnn.replay import replay, rules_of

RECORDING = """
{text}
"""


@pytest.fixture
def recording(tmp_path):
    path = tmp_path / "launch.aclnn"
    path.write_bytes(zlib.decompress(base64.b64decode(RECORDING)))
    with Recording(path) as opened:
        yield opened


def test_{function}_on_this_backend_gives_what_was_recorded(recording, aclnn_backend):
    """The recorded results against those of the backend in use: of the reference on NumPy, of the device elsewhere."""
    with rules_of(recording):
        (outcome,) = replay(recording)
    assert not outcome.left_out, outcome.left_out
    assert not outcome.difference, "\\n".join([outcome.difference, *outcome.picture()])
'''


def trim(recording: Recording, launches: Iterable[int], path: FilePath) -> int:
    """Writes some launches, with their data, into a new recording; the number of data that were not recorded."""
    missing = 0
    with Writer(path, recording.header) as writer:
        for index in launches:
            missing += copy_launch(recording, recording.launches[index], writer)
    return missing


def copy_launch(recording: Recording, launch: Launch, writer: Writer) -> int:
    """Writes a launch with its data into another recording; the number of data that were not recorded."""
    missing = 0
    for value in launch.values:
        for tensor in value.tensors():
            for key in (tensor.before, tensor.after):
                if key is None:
                    missing += 1
                else:
                    writer.data(recording.data(key))
    writer.copy(launch)
    return missing


def export(recording: Recording, index: int, path: FilePath) -> None:
    """Writes a pytest case of one launch that stands by itself: its data are in the file.

    ValueError for a launch whose data do not fit into a source file; ``trim`` takes those.
    """
    launch = recording.launches[index]
    with TemporaryDirectory() as directory:
        part = Path(directory) / "launch.aclnn"
        trim(recording, [index], part)
        data = zlib.compress(part.read_bytes(), 9)
    if len(data) > _MOST_TEXT:
        raise ValueError(
            f"launch {index} has {len(data)} bytes of data; a test case holds at most {_MOST_TEXT}. "
            "ascend-aclnn recording trim writes a recording of it"
        )
    header = recording.header
    text = _TEST.format(
        name=_one_line(launch.operator.name),
        program=_one_line(" ".join(header.program)) or "an unknown program",
        device=_one_line(f"{header.soc or 'an unknown SoC'}, CANN {header.cann or 'unknown'}"),
        index=index,
        launches=len(recording.launches),
        file=_one_line(recording.path.name),
        function=_identifier(launch.operator.name),
        text="\n".join(textwrap.wrap(base64.b64encode(data).decode(), 120)),
    )
    Path(path).write_text(text, encoding="utf-8")


def default_name(recording: Recording, index: int) -> str:
    """The file name of a launch's test: a stranger's operator may be called ../../x."""
    return f"test_{_identifier(recording.launches[index].operator.name)}_{index}.py"


def _one_line(text: str) -> str:
    """A stranger's text as part of a docstring: no line breaks, quotes or backslashes."""
    return "".join(c if c.isprintable() and c not in "\"'\\" else "?" for c in text)[:200]


def _identifier(name: str) -> str:
    return "".join(c if c.isascii() and c.isalnum() else "_" for c in name)[:100]
