"""The table of the functions that torch_npu looks up (docs/emulator/functions.md), against the built libraries."""

from __future__ import annotations

import ctypes
import functools
import os
import re
import subprocess
from pathlib import Path

import pytest
from emulator_client import NEWEST, Cann, client

from ascend_aclnn.emulator import releases
from ascend_aclnn.emulator.build import build, emulated_functions, headers

DOCUMENT = Path(__file__).parents[2] / "docs" / "emulator" / "functions.md"
COLUMNS = ("8.1.RC1", "8.5.0", "later")


@functools.cache
def table() -> dict[str, tuple[str, str]]:
    """Function -> what stands in front of its row, and its column."""
    found: dict[str, tuple[str, str]] = {}
    rows = [line for line in DOCUMENT.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    for line in rows:
        cells = line.strip("|").split("|")
        for column, cell in zip(COLUMNS if len(cells) == 4 else ("absent",), cells[1:]):
            for name in re.findall(r"`(\w+)`", cell):
                assert name not in found, name
                found[name] = (cells[0].strip(), column)
    return found


def since(name: str) -> str:
    return str(headers.runtime_functions().get(name, {}).get("since", "8.1.RC1"))


def exported(home: Path) -> set[str]:
    paths = [str(path) for path in sorted((home / "lib64").glob("*.so"))]
    done = subprocess.run(["nm", "-D", "--defined-only", *paths], capture_output=True, text=True, check=True)
    return {words[2] for words in map(str.split, done.stdout.splitlines()) if len(words) == 3}


def test_the_table_is_whole() -> None:
    assert len(table()) > 200
    for name, (row, column) in table().items():
        assert (name in emulated_functions()) == row.startswith("emulated"), name
        if column != "absent":
            assert (since(name) if since(name) in COLUMNS else "later") == column, name


@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize("release", ["8.1.RC1", "8.5.0", NEWEST])
def test_a_release_has_the_functions_that_the_table_says(release: str) -> None:
    names = exported(build(cann=release))
    for name, (_, column) in table().items():
        assert (name in names) == (column != "absent" and releases.has(release, since(name))), name


@client(ASCEND_EMULATOR_CANN=NEWEST)
def test_what_is_not_emulated_refuses(cann: Cann) -> None:
    folder = Path(os.environ["LD_LIBRARY_PATH"].split(os.pathsep)[0])
    libraries = [ctypes.CDLL(str(path)) for path in sorted(folder.glob("*.so"))]
    refused = [name for name, (row, column) in table().items() if column != "absent" and not row.startswith("emulated")]
    for name in refused:
        function = next(getattr(library, name) for library in libraries if hasattr(library, name))
        function.restype = ctypes.c_ssize_t
        function()
        assert f"{name}: the emulator lacks this function" in cann.message(), name
    assert refused
