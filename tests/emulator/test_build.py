"""Building the emulated libraries, and the commands that use them."""

from __future__ import annotations

import ctypes
import errno
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from builds import compiled_sources

from ascend_aclnn import catalog, cli
from ascend_aclnn.catalog import life
from ascend_aclnn.core import files
from ascend_aclnn.emulator import build as building
from ascend_aclnn.emulator import releases
from ascend_aclnn.emulator.build import cache, headers, prebuilt_libraries
from ascend_aclnn.emulator.build.libraries import GENERATED, PACKAGE
from ascend_aclnn.emulator.process.device import RingFunctions

NAMES = ("libascendcl.so", "libnnopbase.so", "libopapi.so", "libhccl.so")


def exported(library: Path) -> set[str]:
    """The functions that a library defines."""
    done = subprocess.run(["nm", "-D", "--defined-only", str(library)], capture_output=True, text=True, check=True)
    return {line.split()[2] for line in done.stdout.splitlines() if line.split()[1] in "TW"}


def dynamic(library: Path) -> dict[str, list[str]]:
    """SONAME, NEEDED and RUNPATH of a library."""
    done = subprocess.run(["readelf", "-dW", str(library)], capture_output=True, text=True, check=True)
    found: dict[str, list[str]] = {}
    for line in done.stdout.splitlines():
        if "[" in line and "(" in line:
            found.setdefault(line.split("(")[1].split(")")[0], []).append(line.split("[")[1].split("]")[0])
    return found


def operators_of_the_release() -> list[catalog.Operator]:
    """The operators of the catalog that the emulated release has."""
    release = releases.chosen(None)
    return [catalog.get(name) for name in catalog.names() if not releases.lacks_operator(release, name)]


def test_libraries_have_the_names_of_cann(emulator_home: Path) -> None:
    lib64 = emulator_home / "lib64"
    for name in NAMES:
        found = dynamic(lib64 / name)
        assert found["SONAME"] == [name]
        assert found["RUNPATH"] == ["$ORIGIN"]
    assert "libascendcl.so" in dynamic(lib64 / "libnnopbase.so")["NEEDED"]
    assert "libnnopbase.so" in dynamic(lib64 / "libopapi.so")["NEEDED"]


def test_every_function_of_the_catalog_is_exported(emulator_home: Path) -> None:
    lib64 = emulator_home / "lib64"
    operators = {name for op in operators_of_the_release() for name in (op.name, op.phase_one)}
    functions = exported(lib64 / "libopapi.so")
    assert functions >= operators | set(headers.helper_functions())
    assert not functions & set(catalog.names()) - operators
    # Fast paths that a client takes when it finds all of them: only what keeps phase one out of the cache is there.
    cache = {"PTAGetExecCache", "PTAFindExecCache", "CanUsePTACache", "InitHugeMemThreadLocal"}
    assert not cache & exported(lib64 / "libnnopbase.so")


@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize("release", [releases.DEFAULT, "8.3.RC1", life.NEWEST_READ])
def test_the_runtimes_functions_are_those_of_the_release(release: str) -> None:
    lib64 = building.build(cann=release) / "lib64"
    for library, names in (
        ("libascendcl.so", ("libascendcl.so", "libacl_rt.so")),
        ("libnnopbase.so", ("libnnopbase.so",)),
        ("libhccl.so", ("libhccl.so", "libhcomm.so")),
        ("libacl_rt.so", ()),
    ):
        found = exported(lib64 / library)
        for name, row in headers.runtime_functions().items():
            present = releases.has(release, row["since"]) or name in releases.LINKED
            if row["library"] in names:
                assert (name in found) == present, name
            elif not present:
                assert name not in found, name
    code = (
        "import ctypes; r = ctypes.CDLL('libascendcl.so'); text = ctypes.create_string_buffer(512);"
        "r.aclsysGetCANNVersion(0, text); print(text.value.decode())"
    )
    variables = {key: value for key, value in os.environ.items() if not key.startswith("ASCEND_")}
    variables["LD_LIBRARY_PATH"] = str(lib64)
    done = subprocess.run([sys.executable, "-c", code], env=variables, capture_output=True, text=True)
    assert done.stdout.strip() == release, done.stderr


def test_releases() -> None:
    assert releases.has("8.1.RC1", "8.1.RC1")
    assert not releases.has("8.3.RC1", "8.5.0")
    assert releases.has("10.0.0", "newer")
    assert not releases.has("9.1.0", "newer")
    for bad, text in (("7.0.0", "older than 8.1.RC1"), ("newest", "not of the form")):
        with pytest.raises(ValueError, match=text):
            releases.chosen(bad)


# ------------------------------------------------------------------------------------------- directories of other people


def test_a_directory_that_is_not_ours_is_refused(tmp_path: Path) -> None:
    (tmp_path / "include").mkdir()
    mine = tmp_path / "include" / "mine.h"
    mine.write_text("mine")
    with pytest.raises(cache.NotOurs, match=r"was not made by `ascend-aclnn emulator build`.*emulator build .*/cann"):
        building.build(tmp_path)
    assert mine.read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["include"]


@pytest.mark.usefixtures("compiler")
def test_a_directory_of_ours_is_built_again_and_keeps_what_others_put_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    building.build(tmp_path, split=True)
    for name in ("include/mine.h", "lib64/libmine.so", "notes.txt"):
        (tmp_path / name).write_text("mine")
    (tmp_path / "lib64" / "libopapi_nn.so").write_text("mine")  # the build without --split has none of that name
    building.build(tmp_path)
    for name in ("include/mine.h", "lib64/libmine.so", "notes.txt", "lib64/libopapi_nn.so"):
        assert (tmp_path / name).read_text() == "mine"
    assert (tmp_path / "lib64" / "libopapi.so").is_file()
    assert not (tmp_path / "lib64" / "libopapi_math.so").exists()
    assert cache.is_complete(tmp_path)
    assert "libopapi_nn.so (it is not what was installed there)" in capsys.readouterr().err
    (tmp_path / "lib64" / "emulator.conf").write_text("mine")  # what a build would replace
    with pytest.raises(
        cache.NotOurs, match=r"emulator\.conf \(it is not what was installed there\); move them away, or"
    ):
        building.build(tmp_path)
    assert (tmp_path / "lib64" / "emulator.conf").read_text() == "mine"


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def test_a_manifest_is_not_believed(emulator_home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As one that comes with an archive may be: names elsewhere, sizes for digests, a digest of another content."""
    elsewhere, directory = tmp_path / "elsewhere", tmp_path / "cann"
    (directory / "include").mkdir(parents=True)
    elsewhere.mkdir()
    for name in ("a.txt", "b.txt", "c.txt"):
        (elsewhere / name).write_text("mine")
    (directory / "link").symlink_to(elsewhere)
    for name in ("sized.h", "changed.h", "known.h"):
        (directory / "include" / name).write_text("mine")
    rows = {
        str(elsewhere / "a.txt"): [4, digest("mine")],
        "link/b.txt": [4, digest("mine")],
        "../elsewhere/c.txt": [4, digest("mine")],
        "include/sized.h": 4,
        "include/changed.h": [4, digest("theirs")],
        "include/known.h": [4, digest("mine")],
        "include/absent.h": [4, digest("mine")],
    }
    (directory / cache.MARK).write_text(json.dumps({"made_by": "ascend_aclnn", "files": rows}))
    building.build(directory)
    said = capsys.readouterr().err
    assert sorted(path.name for path in elsewhere.iterdir()) == ["a.txt", "b.txt", "c.txt"]
    assert {path.name for path in (directory / "include").glob("*.h")} >= {"sized.h", "changed.h"}
    assert not (directory / "include" / "known.h").exists()
    assert cache.is_complete(directory)
    for name in rows:
        assert (name in said) == (name not in ("include/known.h", "include/absent.h"))


@pytest.mark.parametrize(
    "hostile", ["[" * 100_000, '{"made_by": "ascend_aclnn", "files": 3, "replaces": []}', "{", "[]"]
)
def test_a_manifest_that_is_none_is_refused_or_empty(emulator_home: Path, tmp_path: Path, hostile: str) -> None:
    (tmp_path / cache.MARK).write_text(hostile)
    (tmp_path / "lib64").mkdir()
    (tmp_path / "lib64" / "libascendcl.so").write_text("mine")
    with pytest.raises(cache.NotOurs):
        building.build(tmp_path)
    assert (tmp_path / "lib64" / "libascendcl.so").read_text() == "mine"


def test_nothing_is_written_through_a_link(emulator_home: Path, tmp_path: Path) -> None:
    elsewhere, directory = tmp_path / "elsewhere", tmp_path / "cann"
    elsewhere.mkdir()
    directory.mkdir()
    (directory / "lib64").symlink_to(elsewhere)
    (directory / cache.MARK).write_text(json.dumps({"made_by": "ascend_aclnn", "files": {}}))
    with pytest.raises(cache.NotOurs, match=r"libacl_rt\.so \(lib64 is a link\)"):
        building.build(directory)
    assert not list(elsewhere.iterdir())
    assert sorted(path.name for path in directory.iterdir()) == [cache.MARK, "lib64"]
    (elsewhere / "mark").write_text((directory / cache.MARK).read_text())
    (directory / cache.MARK).unlink()
    (directory / cache.MARK).symlink_to(elsewhere / "mark")
    with pytest.raises(cache.NotOurs, match="was not made by"):
        building.build(directory)


def test_an_installation_that_was_killed_is_finished_by_the_next(
    emulator_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    building.build(tmp_path)
    header = next(tmp_path.glob("include/aclnnop/*.h"))
    header.write_text("old")  # as another version of the package installed it
    cache.finish(tmp_path)
    put, count = files.Folder.put, []

    def dying(self: files.Folder, *arguments: Any, **options: Any) -> None:
        count.append(arguments)
        if len(count) == 20:
            raise KeyboardInterrupt
        put(self, *arguments, **options)

    monkeypatch.setattr(files.Folder, "put", dying)
    with pytest.raises(KeyboardInterrupt):
        building.build(tmp_path)
    monkeypatch.undo()
    assert not cache.is_complete(tmp_path)
    building.build(tmp_path)
    assert cache.is_complete(tmp_path)
    assert header.read_text() != "old"


def test_a_cache_may_have_any_name_in_any_locale(tmp_path: Path) -> None:
    """Twice: what was made is found again."""
    place = tmp_path / "\u00fc \u7f13\u5b58"
    code = (
        "import os\nfrom ascend_aclnn.emulator.build import cache, tree\n"
        "def make(work):\n    tree._write_programs(work / 'bin')\n    cache.finish(work)\n    print('made')\n"
        "print(ascii(os.path.basename(cache.cached('a' * 20, make))))"
    )
    locale = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    variables = {**os.environ, **locale, **dict.fromkeys(("HOME", "TMPDIR", "ASCEND_EMULATOR_CACHE"), str(place))}
    for printed in (["made", f"'{'a' * 20}'"], [f"'{'a' * 20}'"]):
        done = subprocess.run([sys.executable, "-c", code], env=variables, capture_output=True, text=True)
        assert (done.stdout.split(), done.stderr) == (printed, "")


def test_what_a_cache_lacks_is_said_with_its_place_and_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A HOME that cannot be: a directory for temporary files is used instead, here without space."""
    monkeypatch.setenv("HOME", "/proc/nope")
    for name in ("XDG_CACHE_HOME", "ASCEND_EMULATOR_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def make(directory: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(directory / "part"))

    with pytest.raises(files.DirectoryError) as refused:
        cache.cached("a" * 20, make)
    for text in ("/proc/nope/.cache/ascend_aclnn/emulator", "HOME", "No space left", "ASCEND_EMULATOR_CACHE"):
        assert text in str(refused.value)
    assert f"{tmp_path}/ascend-aclnn-emulator-{os.getuid()} is" in capsys.readouterr().err


def test_the_directory_of_a_killed_builder_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASCEND_EMULATOR_CACHE", str(tmp_path))
    code = (
        "import os, sys\nfrom ascend_aclnn.emulator.build import cache\n"
        "def make(work):\n    (work / 'part').write_text('part')\n    os.kill(os.getpid(), 9)\n"
        "cache.cached('a' * 20, make)"
    )
    (tmp_path / "build-mine").mkdir(mode=0o700)  # of such a name, and not a builder's
    tmp_path.chmod(0o700)
    assert subprocess.run([sys.executable, "-c", code]).returncode == -9
    assert len(list(tmp_path.glob("build-*/part"))) == 1

    def make(directory: Path) -> None:
        (directory / "part").write_text("whole")
        cache.finish(directory)

    cache.cached("b" * 20, make)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b" * 20, "build-mine", "lock"]


def make_entry(directory: Path, mark: bool = True) -> None:
    directory.mkdir(parents=True)
    (directory / "data").write_text("data")
    if mark:
        cache.finish(directory)
    os.utime(directory, (0, 0))


def test_the_cache_removes_nothing_that_is_not_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_entry(tmp_path / ("a" * 20))
    kept = ["notes", "b" * 20, "elsewhere", "link" + "c" * 20, "d" * 20]
    make_entry(tmp_path / "notes")  # our mark, and no name of ours
    make_entry(tmp_path / ("b" * 20), mark=False)  # our name, and no mark
    make_entry(tmp_path / "elsewhere")
    (tmp_path / ("c" * 20)).symlink_to(tmp_path / "elsewhere")
    make_entry(tmp_path / kept[3])
    make_entry(tmp_path / ("d" * 20))
    (tmp_path / ("d" * 20) / "data").write_text("mine")
    os.utime(tmp_path / ("d" * 20), (0, 0))
    objects = tmp_path / cache.OBJECTS
    objects.mkdir()
    for name in (f"{'1' * 32}-{digest('data')}.o", f"{'2' * 32}-{digest('data')}.o", "mine.o"):
        (objects / name).write_text("mine" if name.startswith("2") else "data")
        os.utime(objects / name, (0, 0))
    cache.prune(tmp_path)
    assert sorted(path.name[0] for path in objects.iterdir()) == ["2", "m"]
    kept.append(cache.OBJECTS)
    assert (tmp_path / ("d" * 20) / "data").read_text() == "mine"
    assert "data (it is not what was installed there)" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*kept, "c" * 20])
    assert (tmp_path / "elsewhere" / "data").is_file()


def test_an_entry_is_complete_or_built_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ASCEND_EMULATOR_CACHE", str(tmp_path / "cache"))
    made: list[Path] = []

    def make(directory: Path) -> None:
        made.append(directory)
        (directory / "lib64").mkdir()
        (directory / "lib64" / "libascendcl.so").write_bytes(b"x" * 1000)
        cache.finish(directory)

    name = "d" * 20
    entry = cache.cached(name, make)
    assert cache.cached(name, make) == entry
    assert len(made) == 1
    (entry / "lib64" / "libascendcl.so").write_bytes(b"x" * 10)  # truncated
    assert cache.cached(name, make) == cache.cached(name, make) == entry.with_name(name + ".1")
    assert len(made) == 2
    said = capsys.readouterr().err
    assert "is not complete and is built again" in said
    assert "lib64/libascendcl.so (it is not what was installed there)" in said
    assert [path.name for path in entry.iterdir()] == ["lib64"]
    entry = entry.with_name(name + ".1")
    (entry / "lib64" / "libascendcl.so").unlink()
    (entry / "lib64").rmdir()
    assert cache.cached(name, make) == entry
    assert len(made) == 3
    make_entry(tmp_path / "cache" / ("e" * 20), mark=False)  # somebody else's
    assert cache.cached("e" * 20, make).name == "e" * 20 + ".1"
    assert (tmp_path / "cache" / ("e" * 20) / "data").read_text() == "data"


def test_a_cache_that_others_can_write_to_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    shared, target = tmp_path / "shared", tmp_path / "target"
    shared.mkdir()
    shared.chmod(0o777)
    target.mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(target)
    foreign = tmp_path / "foreign"
    foreign.mkdir(mode=0o700)
    for path, text in ((shared, "others can write to it"), (tmp_path / "link", "it is a symbolic link")):
        found = cache.private_directory(path)
        assert found.parent == tmp_path
        assert found not in (path, target)
        assert found.stat().st_mode & 0o777 == 0o700
        assert text in capsys.readouterr().err
    (tmp_path / "file").touch()  # a HOME that nothing can be made in
    assert cache.private_directory(tmp_path / "file" / ".cache" / "emulator").parent == tmp_path
    assert "it cannot be made" in capsys.readouterr().err
    monkeypatch.setattr("os.getuid", lambda: 4711)
    assert "belongs to user" in (cache.why_not_private(foreign) or "")
    fresh = tmp_path / "fresh"
    monkeypatch.undo()
    assert cache.private_directory(fresh) == fresh
    assert fresh.stat().st_mode & 0o777 == 0o700


def test_libraries_that_the_package_carries_need_no_compiler(
    emulator_home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    emulator_home = building.build(cann=releases.DEFAULT)
    monkeypatch.delenv("ASCEND_EMULATOR_CANN", raising=False)
    monkeypatch.setattr(prebuilt_libraries, "PREBUILT", tmp_path / "prebuilt")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("ASCEND_EMULATOR_CACHE", str(tmp_path / "cache"))
    carried = tmp_path / "prebuilt" / building.prebuilt_name(building.Options(releases.DEFAULT))
    other = tmp_path / "prebuilt" / building.prebuilt_name(building.Options(releases.DEFAULT), "another-machine")
    assert carried != other
    carried.mkdir(parents=True)
    for library in (emulator_home / "lib64").glob("*.so"):
        (carried / library.name).symlink_to(library)
    home = building.build()

    def listed(directory: Path) -> set[str]:
        """But for what Python leaves beside modules that clients have imported."""
        files = (path for path in directory.rglob("*") if path.is_file() and path.parent.name != "__pycache__")
        return {path.relative_to(directory).as_posix() for path in files}

    assert home.parent == tmp_path / "cache"
    assert listed(home) == listed(emulator_home)
    assert cli.main(["emulator", "doctor"]) == 0
    assert "compiler     none; the package carries the libraries" in capsys.readouterr().out
    with pytest.raises(building.CompilerError):  # only what was built for these options is used
        building.build(cann=releases.KNOWN[-1])


def test_builds_share_what_they_have_in_common(
    emulator_home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Another release has other stubs and links again; a header that changes compiles everything again."""
    work = tmp_path / "work"
    work.mkdir()
    compiled = compiled_sources(monkeypatch)
    kept = emulator_home.parent / cache.OBJECTS
    building.compile_libraries(work, building.find_compiler(), building.Options("8.2.RC1"), kept)
    assert not [name for name in compiled if not name.endswith(("_stubs.c", "_names.c"))]
    monkeypatch.setitem(GENERATED, "protocol.h", lambda: "#error another protocol\n")
    with pytest.raises(building.CompilerError, match="another protocol"):
        again = tmp_path / "again"
        again.mkdir()
        building.compile_libraries(again, building.find_compiler(), building.Options("8.2.RC1"), kept)


def test_a_finished_cache_needs_no_compiler(
    emulator_home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    assert building.build() == emulator_home


def test_aliases_of_an_interpreter_share_a_build(tmp_path: Path) -> None:
    code = "from ascend_aclnn.emulator.build import Options, name_of; print(name_of(Options()))"
    alias = tmp_path / "python-by-another-name"
    alias.symlink_to(os.path.realpath(sys.executable))
    path = os.pathsep.join([str(PACKAGE.parent), *(entry for entry in sys.path if entry.endswith("-packages"))])
    found = {
        subprocess.run(
            [program, "-c", code], env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=True
        ).stdout
        for program in (sys.executable, str(alias))
    }
    assert len(found) == 1


@pytest.mark.usefixtures("compiler")
def test_libraries_of_another_version_are_named(emulator_home: Path) -> None:
    with pytest.raises(SystemExit, match=r"libc_sec\.so is of another version .* emulator build"):
        RingFunctions(str(emulator_home / "lib64" / "libc_sec.so"))


def test_operators_can_be_split_as_newer_cann_has_them(tmp_path: Path) -> None:
    home = building.build(tmp_path, split=True)
    assert not (home / "lib64" / "libopapi.so").exists()
    found: set[str] = set()
    for part in ("math", "nn", "cv", "transformer"):
        names = exported(home / "lib64" / f"libopapi_{part}.so")
        assert not found & names
        found |= names
    assert found >= {op.phase_one for op in operators_of_the_release()} | set(headers.helper_functions())
    code = (
        "import numpy as np; from ascend_aclnn import backend, ops\n"
        "assert backend().name == 'npu', backend()\n"
        "x = np.ones((2, 2), np.float32)\n"
        "print(ops.mm(x, x)[0, 0], ops.abs(-x)[0, 0])"
    )
    environment = {key: value for key, value in os.environ.items() if not key.startswith("ASCEND_")}
    environment.update(LD_LIBRARY_PATH=str(home / "lib64"), ASCEND_ACLNN_BACKEND="npu")
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.stdout.split() == ["2.0", "1.0"], done.stderr


def test_only_cann_and_the_emulator_are_exported(emulator_home: Path) -> None:
    for name in NAMES:
        known = ("acl", "Acl", "emu_", "Hccl", "Msprof", "rt", "InitPTACache", "UnInitPTACache", "SetPTAHashKey")
        assert not [symbol for symbol in exported(emulator_home / "lib64" / name) if not symbol.startswith(known)]


def test_one_library_is_enough_to_open_the_others(emulator_home: Path) -> None:
    code = "import ctypes, sys; print(ctypes.CDLL(sys.argv[1]).aclrtGetDeviceCount(None))"
    done = subprocess.run(
        [sys.executable, "-c", code, str(emulator_home / "lib64" / "libopapi.so")], capture_output=True, text=True
    )
    assert done.stdout.strip() == "107000", done.stderr


def test_builders_do_not_disturb_each_other(emulator_home: Path, tmp_path: Path) -> None:
    """Of two processes that need a build at once, one makes it, here slowly and by copying, and the other waits."""
    code = """
import shutil, sys, time
from pathlib import Path
from ascend_aclnn.emulator.build import cache

def make(made):
    print("made by", sys.argv[1])
    for path in sorted(Path(sys.argv[2]).iterdir()):
        copy = shutil.copytree if path.is_dir() else shutil.copy
        copy(path, made / path.name)
        time.sleep(0.2)
    cache.finish(made)

sys.stdin.readline()
print("found", cache.cached("a" * 20, make))
"""
    environment = {**os.environ, "ASCEND_EMULATOR_CACHE": str(tmp_path)}
    command = [sys.executable, "-c", code]
    builders = [
        subprocess.Popen(
            [*command, str(number), str(emulator_home)],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(2)
    ]
    for builder in builders:
        assert builder.stdin is not None
        builder.stdin.write("go\n")
        builder.stdin.flush()
    lines = [line for builder in builders for line in builder.communicate()[0].splitlines()]
    assert len([line for line in lines if line.startswith("made by")]) == 1, lines
    assert lines.count(f"found {tmp_path / ('a' * 20)}") == 2, lines
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a" * 20, "lock"]
    runtime = ctypes.CDLL(str(next(tmp_path.glob("*/lib64/libascendcl.so"))))
    assert runtime.aclrtGetVersion(None, None, None) == 107000


def test_a_host_without_a_compiler_gets_a_clear_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("ASCEND_EMULATOR_CACHE", str(tmp_path / "cache"))
    with pytest.raises(building.CompilerError, match="needs a C compiler"):
        building.build()


def test_a_failing_compiler_is_quoted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    broken = tmp_path / "broken-cc"
    broken.write_text("#!/bin/sh\necho 'no space left' >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("CC", str(broken))
    monkeypatch.setenv("ASCEND_EMULATOR_CACHE", str(tmp_path / "cache"))
    with pytest.raises(building.CompilerError, match="no space left"):
        building.build()
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["lock"]


def test_emulator_run_finds_the_libraries(emulator_home: Path) -> None:
    code = (
        "import ctypes, os; r = ctypes.CDLL('libascendcl.so'); r.aclrtGetSocName.restype = ctypes.c_char_p;"
        "n = ctypes.c_uint32(); r.aclrtGetDeviceCount(ctypes.byref(n));"
        "print(r.aclrtGetSocName().decode(), n.value, os.environ['ASCEND_EMULATOR_STREAMS'])"
    )
    options = ["--streams", "deferred", "--devices", "3", "--soc", "Ascend310P3", "--memory", "1G"]
    done = subprocess.run(
        [sys.executable, "-m", "ascend_aclnn", "emulator", "run", *options, "--", sys.executable, "-c", code],
        capture_output=True,
        text=True,
    )
    assert done.stdout.split() == ["Ascend310P3", "3", "deferred"], done.stderr


def test_emulator_run_refuses_what_a_device_cannot_have(capsys: pytest.CaptureFixture[str]) -> None:
    for option, text in (
        ("--devices", "99"),
        ("--devices", "-1"),
        ("--devices", "two"),
        ("--memory", "99999999T"),
        ("--memory", "65T"),
        ("--memory", "1Q"),
        ("--memory", ""),
    ):
        with pytest.raises(SystemExit):
            cli.main(["emulator", "run", f"{option}={text}", "--", "true"])
        assert f"argument {option}: {text} is not a number" in capsys.readouterr().err


def test_emulator_run_passes_the_exit_status_on(emulator_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = [sys.executable, "-m", "ascend_aclnn", "emulator", "run"]
    done = subprocess.run([*command, "--", sys.executable, "-c", "raise SystemExit(7)"])
    assert done.returncode == 7
    assert cli.main(["emulator", "run", "--"]) == 2
    assert "no program given" in capsys.readouterr().err
    assert cli.main(["emulator", "run", "--", "no-such-program-anywhere"]) == 1
    assert "was not found" in capsys.readouterr().err


def test_emulator_build_leaves_a_cann(emulator_home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["emulator", "build", str(tmp_path / "cann")]) == 0
    assert "libopapi" not in capsys.readouterr().err
    assert (tmp_path / "cann" / "lib64" / "libopapi.so").is_file()
    assert (tmp_path / "cann" / "include" / "aclnnop" / "aclnn_rms_norm_grad.h").is_file()


def test_emulator_doctor(emulator_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["emulator", "doctor"]) == 0
    output = capsys.readouterr().out
    assert "operators    work" in output
    assert "Ascend910B1 (Atlas A2)" in output
