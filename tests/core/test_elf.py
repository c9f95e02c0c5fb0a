"""Reading the dynamic section of shared libraries."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from ascend_aclnn.core import elf

SOURCE = """
extern int wanted(void);
extern int optional(void) __attribute__((weak));
__attribute__((visibility("hidden"))) int hidden(void) { return 1; }
const char *const names = "xaclnnNo";
static const char name[] = "aclnnYes";
int offered(void) { return wanted() + (optional ? optional() : 0) + hidden() + name[0]; }
const char *look(void) { return name; }
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler (cc)")
    directory = tmp_path_factory.mktemp("elf")
    (directory / "a.c").write_text(SOURCE)
    path = directory / "liba.so"
    flags = ["-shared", "-fPIC", "-Wl,-soname,liba.so.1", "-Wl,-rpath,$ORIGIN/lib", "-Wl,--no-as-needed", "-lm"]
    subprocess.run([compiler, str(directory / "a.c"), "-o", str(path), *flags], check=True)
    return path


def test_what_a_library_asks_for_and_offers(library: Path) -> None:
    read = elf.read(library)
    assert read.soname == "liba.so.1"
    assert "libm.so.6" in read.needed
    assert read.search_path == (str(library.parent / "lib"),)
    assert {"offered", "look", "names"} <= read.exports and "hidden" not in read.exports
    assert "wanted" in read.imports and "optional" not in read.imports
    assert elf.strings(library, "aclnn[A-Z][a-z]+") == ["aclnnYes"]


def test_files_that_are_no_libraries_are_refused(library: Path, tmp_path: Path) -> None:
    for data in (b"", b"text", b"\x7fELF\x01\x01" + bytes(100)):
        (tmp_path / "no").write_bytes(data)
        with pytest.raises(ValueError, match="no shared library"):
            elf.read(tmp_path / "no")
    with pytest.raises(FileNotFoundError):
        elf.read(tmp_path / "absent")


def test_a_damaged_library_is_refused_or_read_but_does_not_crash(library: Path, tmp_path: Path) -> None:
    whole = library.read_bytes()
    for cut in (7, 40, 64, 200, len(whole) // 2, len(whole) - 1):
        (tmp_path / "cut").write_bytes(whole[:cut])
        with pytest.raises(ValueError, match="damaged"):
            elf.read(tmp_path / "cut")
    table = int.from_bytes(whole[40:48], "little")
    for at in range(table, len(whole), 8):
        (tmp_path / "changed").write_bytes(whole[:at] + b"\xff" * 8 + whole[at + 8 :])
        try:
            elf.read(tmp_path / "changed")
        except ValueError as error:
            assert "damaged" in str(error)
