"""The C sources: which file may know which, and what both sides of the wire take from one place."""

from __future__ import annotations

import functools
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from import_graph import circles

from ascend_aclnn.core.socs import KNOWN, soc
from ascend_aclnn.emulator import protocol
from ascend_aclnn.emulator.build import hardware, headers
from ascend_aclnn.emulator.build.libraries import CSRC, GENERATED

# Folder of csrc/ -> the folders that its files may include and call, beside itself.
_CORE = "ring ascendcl/core"
_STREAM = f"{_CORE} ascendcl/validate ascendcl/stream"
_MEMORY = f"{_STREAM} ascendcl/memory"
_MODEL = f"{_MEMORY} ascendcl/model"
_ASCENDCL = f"{_MODEL} ascendcl/runtime"
ALLOWED = {
    "ring": "",
    "securec": "ascendcl/core",
    "metadef": "ascendcl/core",
    "graph": "ascendcl/core",
    "log": "ascendcl/core",
    "mmpa": "ascendcl/core",
    "platform": "ascendcl/core",
    "ascendcl/core": "ring",
    "ascendcl/validate": "ascendcl/core",
    "ascendcl/stream": f"{_CORE} ascendcl/validate",
    "ascendcl/memory": _STREAM,
    "ascendcl/kernel": _MEMORY,
    "ascendcl/model": _MEMORY,
    "ascendcl/runtime": _MODEL,
    "ascendcl/operator": _ASCENDCL,
    "hal": _ASCENDCL,
    "mspti": "ascendcl/core",
    "mstx": _STREAM,
    "nnopbase": _ASCENDCL,
    "opcompiler": f"{_ASCENDCL} ascendcl/operator",
    "opapi": f"{_ASCENDCL} nnopbase",
    "hccl": f"{_ASCENDCL} nnopbase",
    "atb": f"{_ASCENDCL} nnopbase",
    "datadist": f"{_MEMORY} metadef",
    "hixl": "ascendcl/core datadist",
}

Edges = dict[str, set[str]]  # unit -> units; a unit is a source with its header, named by its path without suffix


def unit(path: Path) -> str:
    return path.relative_to(CSRC).with_suffix("").as_posix()


def folder(name: str) -> str:
    return name.rpartition("/")[0]


@functools.cache
def files() -> dict[Path, str]:
    """Every source and header -> its text without comments and string literals; names of included files stay."""
    found = {}
    for path in sorted(CSRC.rglob("*.[ch]")):
        text = re.sub(r"/\*.*?\*/", " ", path.read_text(encoding="utf-8"), flags=re.S)
        found[path] = re.sub(
            r"^(?!#include)(.*)$", lambda line: re.sub(r'"(\\.|[^"\\])*"', '""', line[1]), text, flags=re.M
        )
    return found


def defined(text: str) -> set[str]:
    """The functions and variables of a source that other sources can use."""
    found = re.findall(r"^(?!static|extern|typedef|return|#)[A-Za-z_][\w ]*[ *](\w+)\([^;{}]*\) \{", text, re.M)
    return {
        *found,
        *re.findall(
            r"^(?!static|extern|typedef|return|#)[A-Za-z_][\w ]*[ *](\w+)(?:\[\w*\])*(?: =[^;]*)?;", text, re.M
        ),
    }


def includes() -> Edges:
    edges: Edges = {unit(path): set() for path in files()}
    for path, text in files().items():
        for name in re.findall(r'^#include "([^"]+)"', text, re.M):
            if (CSRC / name).exists():
                edges[unit(path)].add(unit(CSRC / name))
    return {name: targets - {name} for name, targets in edges.items()}


def uses() -> Edges:
    """Whose functions and variables each unit uses."""
    owner = {name: unit(path) for path, text in files().items() if path.suffix == ".c" for name in defined(text)}
    edges: Edges = {unit(path): set() for path in files()}
    for path, text in files().items():
        # What a header only declares is no use of it.
        body = re.sub(r"^\w[\w ]*[ *]\w+\([^;{}]*\);|^extern [^;]*;", " ", text, flags=re.M)
        used = {owner[word] for word in re.findall(r"(?<![.>])\b[A-Za-z_]\w*", body) if word in owner}
        edges[unit(path)] |= used - {unit(path)}
    return edges


def test_every_header_belongs_to_the_source_of_its_name() -> None:
    headers_alone = {
        path.relative_to(CSRC).as_posix()
        for path in files()
        if path.suffix == ".h" and not path.with_suffix(".c").exists()
    }
    assert headers_alone == {"ascendcl/core/api.h", "atb/atb_layout.h"}  # of types alone
    for path, text in files().items():
        if path.suffix == ".c" and path.with_suffix(".h").exists():
            first = re.search(r'^#include "([^"]+)"', text, re.M)
            assert first is not None and first[1] == f"{unit(path)}.h", f"{path.name} must include its own header first"


def test_no_two_sources_have_the_same_name() -> None:
    names = [path.name for path in files()]
    assert sorted(set(names)) == sorted(names)


@pytest.mark.parametrize("edges", [includes, uses])
def test_no_source_is_in_a_circle(edges: Callable[[], Edges]) -> None:
    """Neither by what it includes nor by whose functions it uses. What calls back upwards is registered as a hook."""
    assert circles(edges()) == []


@pytest.mark.parametrize("edges", [includes, uses])
def test_a_folder_knows_only_what_lies_below_it(edges: Callable[[], Edges]) -> None:
    assert {folder(name) for name in edges()} == set(ALLOWED)
    upward = [
        f"{name} -> {target}"
        for name, targets in edges().items()
        for target in targets
        if folder(target) not in {folder(name), *ALLOWED[folder(name)].split()}
    ]
    assert upward == []


def test_the_folders_themselves_have_a_direction() -> None:
    assert circles({name: set(below.split()) for name, below in ALLOWED.items()}) == []


def test_uses_are_those_that_the_linker_sees() -> None:
    """The finder of functions misses none that is known: of each kind of definition one."""
    assert {"emu_fail", "emu_null_argument"} <= defined(files()[CSRC / "ascendcl/core/messages.c"])
    assert {"emu_world", "emu_devices", "emu_current_context"} <= defined(files()[CSRC / "ascendcl/core/device.c"])
    assert "aclrtSetDevice" in defined(files()[CSRC / "ascendcl/runtime/runtime.c"])
    assert "ascendcl/core/device" in uses()["ascendcl/memory/memory"]
    assert "ascendcl/runtime/runtime" in uses()["nnopbase/objects"]


def test_functions_are_declared_in_the_header_of_their_source() -> None:
    """No source declares another one's function by itself."""
    for path, text in files().items():
        if path.suffix == ".c":
            assert not re.findall(r"^\w[\w ]*\*?\bemu_\w+\([^;{]*\);", text, re.M), path.name


@pytest.fixture(scope="module")
def include(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("include")
    headers.write(directory)
    for header, text in GENERATED.items():
        (directory / header).write_text(text(), encoding="utf-8")
    return directory


@pytest.mark.parametrize("name", sorted(path.relative_to(CSRC).as_posix() for path in CSRC.rglob("*.c")))
def test_sources_compile_without_warnings(name: str, include: Path, compiler: str) -> None:
    flags = ["-std=gnu11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]
    command = [compiler, *flags, f"-I{include}", f"-I{CSRC}", str(CSRC / name)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_wire_constants_come_from_one_place() -> None:
    text = protocol.c_header()
    for call in protocol.Call:
        assert f"#define CALL_{call.name} {call.value}\n" in text
    for path in CSRC.rglob("*.[ch]"):
        assert not re.search(r"#define (CALL|DESCRIPTOR|LETTER)_", path.read_text(encoding="utf-8")), path.name


def test_the_table_of_socs_is_that_of_the_package() -> None:
    rows = dict(re.findall(r'\{"(\w[\w-]*)", "(\w+)", ', hardware.c_header()))
    assert rows == {name: soc(name).product for name in (*KNOWN, "Ascend950") if hardware.hardware(name)}
    assert set(KNOWN) - set(rows) == {"Ascend310"}
