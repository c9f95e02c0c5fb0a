"""Where CANN's libraries are looked for, what is refused and why, and which function comes from which library.

The libraries here are a few lines of C each, compiled where a test needs something that the dynamic linker accepts.
"""

from __future__ import annotations

import dataclasses
import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path
from typing import Optional

import pytest

from ascend_aclnn import catalog
from ascend_aclnn.backends.npu import library, prototypes
from ascend_aclnn.backends.npu.library import Libraries, flaw, search
from ascend_aclnn.catalog.headers import variant
from ascend_aclnn.core.errors import LibraryNotFound, UnsupportedOperator

NOWHERE: tuple[Path, ...] = ()
ADD = catalog.get("aclnnAdd")


def elf(path: Path, machine: int, word: int = 2) -> Path:
    """A file that begins like a shared library of some machine."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\x7fELF" + bytes([word, 1]) + bytes(10) + struct.pack("<HH", 3, machine) + bytes(44))
    return path


def here() -> int:
    return next(number for number, name in library._MACHINES.items() if name == os.uname().machine)


def compile_library(path: Path, *functions: str, needs: Optional[Path] = None, soname: bool = False) -> Path:
    """A shared library whose functions return 0 (or what follows "=").

    Without a SONAME by default: the process must not take it for CANN's when a later test looks for what is loaded.
    """
    if shutil.which("cc") is None:
        pytest.skip("no C compiler (cc)")
    path.parent.mkdir(parents=True, exist_ok=True)
    pairs = (f.split("=") if "=" in f else (f, "0") for f in functions)
    source = "".join(f"int {name}(void) {{ return {value}; }}\n" for name, value in pairs)
    options = [f"-Wl,-soname,{path.name}"] if soname else []
    options += [f"-L{needs.parent}", "-Wl,--no-as-needed", f"-l:{needs.name}"] if needs else []
    command = ["cc", "-x", "c", "-", "-shared", "-fPIC", "-o", str(path), *options]
    subprocess.run(command, input=source, text=True, check=True)
    return path


@pytest.fixture(autouse=True)
def nothing_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "already_loaded", lambda name: None)


def cann(home: Path, *operator_libraries: str) -> Path:
    """A CANN of few functions; each operator library has aclnnAdd, whose second phase tells by its result which it is."""
    compile_library(home / "lib64" / "libascendcl.so", "aclInit", "aclrtGetDevice")
    compile_library(home / "lib64" / "libnnopbase.so", "aclCreateTensor")
    for number, name in enumerate(operator_libraries, 1):
        compile_library(home / "lib64" / name, f"aclnnAddGetWorkspaceSize={number}", f"aclnnAdd={number}")
    return home


def opened(home: Path, **environ: str) -> Libraries:
    return Libraries.open({"ASCEND_HOME_PATH": str(home), **environ}, NOWHERE)


# ------------------------------------------------------------------------------------------ looking


def test_every_place_is_named_when_there_is_nothing(tmp_path: Path) -> None:
    environ = {"LD_LIBRARY_PATH": f"{tmp_path}/a:{tmp_path}/b", "ASCEND_TOOLKIT_HOME": f"{tmp_path}/t"}
    found = search(environ, (tmp_path / "prefix",))
    assert found.runtime is None
    assert found.looked_in == [
        "LD_LIBRARY_PATH (2 entries)",
        "ASCEND_HOME_PATH (not set)",
        f"ASCEND_TOOLKIT_HOME ({tmp_path}/t)",
        f"{tmp_path}/prefix (absent)",
    ]
    assert "install CANN" in found.explain()


def test_the_linkers_path_comes_before_the_home_and_the_default_prefix(tmp_path: Path) -> None:
    names = ["linker", "home/lib64", "prefix/lib64"]
    paths = [elf(tmp_path / name / "libascendcl.so", here()) for name in names]
    environ = {"LD_LIBRARY_PATH": f"{tmp_path}/linker", "ASCEND_HOME_PATH": f"{tmp_path}/home"}
    for wanted in paths:
        assert search(environ, (tmp_path / "prefix",)).runtime == wanted
        wanted.unlink()


def test_the_newer_name_of_the_runtime_is_known(tmp_path: Path) -> None:
    path = elf(tmp_path / "lib64" / "libacl_rt.so", here())
    assert search({"ASCEND_HOME_PATH": str(tmp_path)}, NOWHERE).runtime == path


@pytest.mark.parametrize("place", ["devlib", "runtime/lib64/stub/linux/x86_64"])
def test_a_stub_is_refused_with_its_reason(tmp_path: Path, place: str) -> None:
    stub = elf(tmp_path / place / "libascendcl.so", here())
    found = search({"LD_LIBRARY_PATH": str(stub.parent)}, NOWHERE)
    assert found.runtime is None
    assert found.refused[0].path == stub and "stub" in found.refused[0].reason
    assert "driver" in found.remedy()


def test_a_link_to_a_stub_is_refused(tmp_path: Path) -> None:
    stub = elf(tmp_path / "devlib" / "libascendcl.so", here())
    (tmp_path / "lib64").mkdir()
    (tmp_path / "lib64" / "libascendcl.so").symlink_to(stub)
    assert search({"ASCEND_HOME_PATH": str(tmp_path)}, NOWHERE).runtime is None


def test_another_architecture_is_refused_and_named(tmp_path: Path) -> None:
    other = next(n for n in library._MACHINES if n != here())
    path = elf(tmp_path / "libascendcl.so", other)
    assert flaw(path) == f"built for {library._MACHINES[other]}, this host is {os.uname().machine}"
    assert search({"LD_LIBRARY_PATH": str(tmp_path)}, NOWHERE).remedy().endswith(os.uname().machine)
    assert "32 bit" in str(flaw(elf(tmp_path / "narrow.so", here(), word=1)))


def test_what_is_no_library_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "libascendcl.so"
    path.write_text("INPUT(elsewhere)")
    assert flaw(path) == "not a shared library"


# ------------------------------------------------------------------------------------------ opening


def test_a_runtime_without_nnopbase_is_a_broken_install(tmp_path: Path) -> None:
    compile_library(tmp_path / "lib64" / "libascendcl.so", "aclInit")
    with pytest.raises(LibraryNotFound, match=r"libnnopbase\.so: absent"):
        opened(tmp_path)


def test_dependencies_beside_a_library_are_found_without_the_linkers_path(tmp_path: Path) -> None:
    runtime = compile_library(tmp_path / "lib64" / "libaclnn_test_dependency.so", "depth", soname=True)
    compile_library(tmp_path / "lib64" / "libascendcl.so", "aclInit", needs=runtime)
    compile_library(tmp_path / "lib64" / "libnnopbase.so", "aclCreateTensor")
    assert opened(tmp_path).function("aclInit")(None) == 0


def test_a_missing_driver_is_named(tmp_path: Path) -> None:
    driver = compile_library(tmp_path / "away" / "libascend_hal.so", "halInit", soname=True)
    compile_library(tmp_path / "lib64" / "libascendcl.so", "aclInit", needs=driver)
    driver.unlink()
    if any((d / "libascend_hal.so").is_file() for d in library.driver_directories()):
        pytest.skip("this host has an Ascend driver")
    with pytest.raises(LibraryNotFound, match=r"libascend_hal\.so of the Ascend driver") as caught:
        opened(tmp_path)
    assert "install the driver" in str(caught.value)


def test_a_missing_function_of_the_runtime_says_since_when_it_exists(tmp_path: Path) -> None:
    libraries = opened(cann(tmp_path))
    assert libraries.optional("aclrtMalloc") is None
    with pytest.raises(LibraryNotFound, match=r"exports no aclrtMalloc \(in CANN since 8\.1\.RC1\)"):
        libraries.function("aclrtMalloc")
    assert libraries.function("aclInit") is libraries.function("aclInit")


# ------------------------------------------------------------------------------------------ operators


def from_library(libraries: Libraries) -> str:
    return libraries.operator(ADD)[2].name


def test_the_whole_library_comes_before_the_parts(tmp_path: Path) -> None:
    assert from_library(opened(cann(tmp_path, "libopapi.so", "libaclnn_math.so"))) == "libopapi.so"


def test_the_parts_are_searched_after_the_whole(tmp_path: Path) -> None:
    home = cann(tmp_path, "libaclnn_math.so")
    compile_library(home / "lib64" / "libopapi.so", "aclnnMulGetWorkspaceSize", "aclnnMul")
    assert from_library(opened(home)) == "libaclnn_math.so"


def test_a_complete_split_excludes_the_whole(tmp_path: Path) -> None:
    home = cann(tmp_path, "libopapi.so", "libopapi_math.so")
    assert from_library(opened(home)) == "libopapi_math.so"
    compile_library(home / "lib64" / "libopapi_nn.so", "aclnnMulGetWorkspaceSize", "aclnnMul")
    libraries = opened(home)
    assert [p.name for p in libraries.operator_paths[0]] == ["libopapi_math.so", "libopapi_nn.so"]


def test_a_split_of_one_family_is_used_beside_the_whole(tmp_path: Path) -> None:
    home = cann(tmp_path, "libopapi.so")
    compile_library(home / "lib64" / "libopapi_transformer.so", "aclnnMulGetWorkspaceSize", "aclnnMul")
    assert from_library(opened(home)) == "libopapi.so"


def test_vendors_come_first_in_the_order_of_their_configuration(tmp_path: Path) -> None:
    home = cann(tmp_path / "cann", "libopapi.so")
    vendors = tmp_path / "opp" / "vendors"
    phases = "aclnnAddGetWorkspaceSize", "aclnnAdd"
    for name in ("first", "second", "unlisted"):
        compile_library(vendors / name / "op_api" / "lib" / "libcust_opapi.so", *phases)
    (vendors / "config.ini").write_text("load_priority=second,first\n")
    own = compile_library(tmp_path / "own" / "op_api" / "lib" / "libcust_opapi.so", *phases)

    def order(**environ: str) -> list[str]:
        paths = opened(home, ASCEND_OPP_PATH=str(tmp_path / "opp"), **environ).operator_paths[0]
        return [str(p.relative_to(tmp_path)).split("/op_api")[0] for p in paths]

    listed = ["opp/vendors/second", "opp/vendors/first", "cann/lib64/libopapi.so"]
    assert order() == listed
    assert order(ASCEND_CUSTOM_OPP_PATH=f"{tmp_path}/own:{tmp_path}/absent") == ["own", *listed]
    libraries = opened(home, ASCEND_CUSTOM_OPP_PATH=str(tmp_path / "own"))
    assert libraries.operator(ADD)[2] == own


def test_a_vendors_library_of_another_user_is_not_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = elf(tmp_path / "libcust_opapi.so", here())
    assert library._foreign(path) is None
    owner = path.stat().st_uid
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    assert (library._foreign(path) is None) is (owner == 0)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert (library._foreign(path) is None) is (owner == 0)
    if owner == 0:
        os.chown(path, 12345, -1)
        assert "12345" in str(library._foreign(path))


def test_an_operator_that_no_library_has_says_where_it_was_looked_for(tmp_path: Path) -> None:
    libraries = opened(cann(tmp_path, "libopapi.so"))
    with pytest.raises(UnsupportedOperator) as caught:
        libraries.operator(catalog.get("aclnnMul"))
    assert caught.value.status == 561003 and caught.value.operator == "aclnnMul"
    for part in ("libopapi.so", str(tmp_path), "aclnnMulGetWorkspaceSize", "since CANN 8.1.RC1"):
        assert part in str(caught.value)


def test_both_phases_come_from_one_library(tmp_path: Path) -> None:
    home = cann(tmp_path, "libaclnn_math.so")
    compile_library(home / "lib64" / "libopapi.so", "aclnnAddGetWorkspaceSize")
    assert from_library(opened(home)) == "libaclnn_math.so"


def declare(home: Path, operator: str, header: str, parameters: str) -> None:
    path = home / "include" / header
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"aclnnStatus {operator}GetWorkspaceSize({parameters}, uint64_t *size, aclOpExecutor **executor);")


def test_a_header_that_contradicts_the_catalog_stops_the_call(tmp_path: Path) -> None:
    home = cann(tmp_path, "libopapi.so")
    good = "const aclTensor *self, const aclTensor *other, const aclScalar *alpha, aclTensor *out"
    declare(home, "aclnnAdd", ADD.header, good)
    assert from_library(opened(home)) == "libopapi.so"
    declare(home, "aclnnAdd", ADD.header, good.replace("const aclScalar *alpha", "double alpha"))
    with pytest.raises(UnsupportedOperator, match=r"aclnn_add\.h declares another prototype"):
        opened(home).operator(ADD)


def test_an_operator_whose_releases_differ_needs_the_header(tmp_path: Path) -> None:
    name = "aclnnMlaPrologV3WeightNz"
    home = cann(tmp_path)
    compile_library(home / "lib64" / "libopapi.so", name + "GetWorkspaceSize", name)
    with pytest.raises(UnsupportedOperator, match="releases differ"):
        opened(home).operator(catalog.get(name))
    assert opened(home).operator(variant(name, "2025-11"))[2].name == "libopapi.so"


def test_an_operator_declared_anew_has_its_own_prototype(tmp_path: Path) -> None:
    libraries = opened(cann(tmp_path, "libopapi.so"))
    first = libraries.operator(ADD)[0]
    other = dataclasses.replace(ADD, parameters=ADD.parameters[:2])
    second = libraries.operator(other)[0]
    assert (len(first.argtypes), len(second.argtypes)) == (6, 4)


# ------------------------------------------------------------------------------------------ prototypes


def test_every_operators_prototype_has_a_ctype_for_each_parameter() -> None:
    for name in catalog.names():
        operator = catalog.get(name)
        assert len(prototypes.phase_one(operator)) == len(operator.parameters) + 2
        assert len(prototypes.phase_two(operator)) == 4 + len(operator.phase_two)


def test_widths_are_those_of_c() -> None:
    import ctypes as c

    embedding = prototypes.phase_one(catalog.get("aclnnEmbeddingDenseBackward"))
    assert embedding == (c.c_void_p, c.c_void_p, c.c_uint64, c.c_uint64, c.c_bool, c.c_void_p, c.c_void_p, c.c_void_p)
    assert prototypes.phase_one(catalog.get("aclnnMm"))[3] is c.c_int8
    assert prototypes.runtime_function("aclrtMalloc").parameters == (c.c_void_p, c.c_size_t, c.c_int32)
    assert prototypes.runtime_function("aclGetRecentErrMsg").returns is c.c_char_p
    assert prototypes.runtime_function("aclCreateTensor").returns is c.c_void_p


def test_an_unknown_type_is_not_guessed() -> None:
    with pytest.raises(TypeError, match="dim3"):
        prototypes.ctype("dim3")


# ------------------------------------------------------------------------------------------ the backend


def test_without_a_library_the_reason_is_remembered() -> None:
    program = """
import os
os.environ.update(LD_LIBRARY_PATH="", ASCEND_HOME_PATH="/nonexistent")
from ascend_aclnn.backends.npu import find_backend as npu_backend
from ascend_aclnn.backends.npu import library
library.DEFAULT_PREFIXES = ()
for attempt in range(2):
    try:
        npu_backend()
    except OSError as error:
        print(error)
    library.search = None
"""
    lines = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert lines[: len(lines) // 2] == lines[len(lines) // 2 :]
    assert "/nonexistent" in "".join(lines)
