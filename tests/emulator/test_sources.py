"""The C sources: which file may know which, and what both sides of the wire take from one place."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from ascend_aclnn.core.socs import KNOWN, soc
from ascend_aclnn.emulator import protocol
from ascend_aclnn.emulator.build import hardware, headers
from ascend_aclnn.emulator.build.libraries import CSRC, GENERATED


def own_includes(path: Path) -> set[str]:
    """The names, without suffix, of the files beside it that a file includes."""
    found = re.findall(r'^#include "([^"/]+)"', path.read_text(encoding="utf-8"), re.M)
    here = {header.name for header in CSRC.glob("*.h")}
    return {Path(name).stem for name in found if name in here}


def test_every_header_belongs_to_the_source_of_its_name() -> None:
    sources = {path.stem for path in CSRC.glob("*.c")}
    assert {path.stem for path in CSRC.glob("*.h")} - {"api"} <= sources
    for path in CSRC.glob("*.c"):
        if path.with_suffix(".h").exists():
            first = re.search(r'^#include "([^"]+)"', path.read_text(encoding="utf-8"), re.M)
            assert first is not None and first[1] == f"{path.stem}.h", f"{path.name} must include its own header first"


def test_includes_have_a_direction() -> None:
    """A unit is a source with its header. Following includes from unit to unit never leads back."""
    units: dict[str, set[str]] = {}
    for path in CSRC.glob("*.[ch]"):
        units.setdefault(path.stem, set()).update(own_includes(path) - {path.stem})
    done: list[str] = []
    while len(done) < len(units):
        free = [name for name, needs in units.items() if name not in done and needs <= set(done)]
        assert free, f"a circle among {sorted(set(units) - set(done))}"
        done += free


def test_functions_are_declared_in_the_header_of_their_source() -> None:
    """No source declares another one's function by itself."""
    for path in CSRC.glob("*.c"):
        text = path.read_text(encoding="utf-8")
        assert not re.findall(r"^\w[\w ]*\*?\bemu_\w+\([^;{]*\);", text, re.M), path.name


@pytest.fixture(scope="module")
def include(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("include")
    headers.write(directory)
    for header, text in GENERATED.items():
        (directory / header).write_text(text(), encoding="utf-8")
    return directory


@pytest.mark.parametrize("name", sorted(path.name for path in CSRC.glob("*.c")))
def test_sources_compile_without_warnings(name: str, include: Path, compiler: str) -> None:
    flags = ["-std=gnu11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]
    command = [compiler, *flags, f"-I{include}", f"-I{CSRC}", str(CSRC / name)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_wire_constants_come_from_one_place() -> None:
    text = protocol.c_header()
    for call in protocol.Call:
        assert f"#define CALL_{call.name} {call.value}\n" in text
    for path in CSRC.glob("*.[ch]"):
        assert not re.search(r"#define (CALL|DESCRIPTOR|LETTER)_", path.read_text(encoding="utf-8")), path.name


def test_the_table_of_socs_is_that_of_the_package() -> None:
    rows = dict(re.findall(r'\{"(\w[\w-]*)", "(\w+)", ', hardware.c_header()))
    assert rows == {name: soc(name).product for name in (*KNOWN, "Ascend950") if hardware.hardware(name)}
    assert set(KNOWN) - set(rows) == {"Ascend310"}
