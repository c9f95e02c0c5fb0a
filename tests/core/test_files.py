"""Files are removed and replaced by one module, and only those that were installed."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from pathlib import Path

import pytest

import ascend_aclnn
from ascend_aclnn.core import files

PACKAGE = Path(ascend_aclnn.__file__).parent
OLD = {hashlib.sha256(b"old").hexdigest()}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory with an installed file ``lib/a`` and links out of it, beside a directory with a file of the same content."""
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    for directory in (inside / "lib", outside):
        directory.mkdir(parents=True)
        (directory / "a").write_text("old")
    (inside / "link").symlink_to(outside)
    (inside / "file-link").symlink_to(outside / "a")
    return inside


def test_only_files_below_the_directory_are_removed(place: Path) -> None:
    outside = place.parent / "outside" / "a"
    fifo = place / "fifo"
    os.mkfifo(fifo)
    refused = {
        str(outside): "absolute",
        "../outside/a": "'..'",
        "lib/../../outside/a": "'..'",
        "link/a": "link is a link",
        "file-link": "it is a link",
        "lib": "not a file",
        "lib/a/b": "a is not a directory",
        "fifo": "not a file",
        "": "not that of a file",
        "lib//a": "not that of a file",
        "./lib/a": "not that of a file",
        "lib/a\0": "not that of a file",
        "x" * 300: "too long",
    }
    with files.Folder(place) as folder:
        for name, text in refused.items():
            assert text in (folder.remove(name, OLD) or ""), name
            assert text in (folder.why_not(name, OLD) or ""), name
            with pytest.raises(files.Refused):
                folder.put(name, b"new", OLD)
            assert outside.read_text() == "old"
        assert "nothing says" in (folder.remove("lib/a", ()) or "")
        assert "not what was installed" in (folder.remove("lib/a", {"0" * 64}) or "")
        assert folder.remove("lib/absent", OLD) is None
        assert folder.remove("lib/a", OLD) is None
    assert sorted(path.name for path in place.iterdir()) == ["fifo", "file-link", "link"]


def test_hard_links_keep_their_content(place: Path) -> None:
    outside = place.parent / "outside"
    for name in ("one", "two"):
        os.link(place / "lib" / "a", outside / name)
    with files.Folder(place) as folder:
        folder.put("lib/a", b"new", OLD)
        assert (place / "lib" / "a").read_text() == "new"
        assert (outside / "one").read_text() == "old"
        os.link(outside / "two", place / "b")
        assert folder.remove("b", OLD) is None
    assert (outside / "two").read_text() == "old"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_files_of_other_users_are_left(place: Path) -> None:
    os.chown(place / "lib" / "a", 4711, -1)
    with files.Folder(place) as folder:
        assert folder.remove("lib/a", OLD) == "belongs to user 4711"
        os.chown(place / "lib" / "a", os.geteuid(), -1)
        os.chown(place / "lib", 4711, -1)
        assert folder.remove("lib/a", OLD) == "lib/ belongs to user 4711"
        with pytest.raises(files.Refused, match="lib/ belongs to user 4711"):
            folder.put("lib/b", b"new")
    target = place / "target"
    target.write_text("old")
    os.chown(target, 4711, -1)
    with pytest.raises(FileExistsError, match="not a file of this user's"):
        files.move(place / "lib" / "a", target)


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_link_that_is_swapped_in_is_not_followed(place: Path, monkeypatch: pytest.MonkeyPatch, moment: str) -> None:
    """``before``: a directory of the name becomes a link; ``after``: the file does, when its content has been read."""
    outside = place.parent / "outside"
    verify, opened = files._verify, files._blocks
    swapped = []

    def swap_directory(directory: int, name: str, installed: object) -> None:
        (place / "lib").rename(place / "moved")
        (place / "lib").symlink_to(outside)
        verify(directory, name, OLD)

    def swap_file(file: int) -> object:
        yield from opened(file)
        (place / "lib" / "a").unlink()
        (place / "lib" / "a").symlink_to(outside / "a")
        swapped.append(file)

    if moment == "before":
        monkeypatch.setattr(files, "_verify", swap_directory)
    else:
        monkeypatch.setattr(files, "_blocks", swap_file)
    with files.Folder(place) as folder:
        reason = folder.remove("lib/a", OLD)
    assert (outside / "a").read_text() == "old"
    if moment == "before":
        assert reason is None and not (place / "moved" / "a").exists()
    else:
        assert reason == "it has been replaced" and swapped and (place / "lib" / "a").is_symlink()


def test_a_directory_is_known_again_by_its_inode(tmp_path: Path) -> None:
    work = tmp_path / "build-1"
    work.mkdir()
    (work / "a").write_text("a")
    identity = files.identity(work)
    work.rename(tmp_path / "kept")
    work.mkdir()
    for text in (identity, "", "x", f". {identity.split(' ', 1)[1]}", identity.replace("build-1", "../build-1")):
        files.remove_abandoned(tmp_path, text)
    assert work.is_dir()
    files.remove_abandoned(tmp_path, identity.replace("build-1", "kept"))
    assert not (tmp_path / "kept").exists()


def test_a_copy_that_fails_says_why_once(tmp_path: Path) -> None:
    """shutil.copytree raises a list with a row for each file."""
    source = tmp_path / "source"
    source.mkdir()
    for name in "ab":
        (source / name).symlink_to("absent")
    with pytest.raises(files.DirectoryError) as refused, files.explaining("the cache", "give another directory"):
        shutil.copytree(source, tmp_path / "target")
    assert re.fullmatch(
        rf"the cache cannot be used: .*No such file or directory: '{re.escape(str(source))}/[ab]'; give another directory",
        str(refused.value.strerror),
    )


def test_no_other_module_removes_or_replaces_files() -> None:
    calls = r"unlink|rmtree|replace|rename|rmdir|removedirs|copyfile|copy2?|copytree|truncate"
    pattern = re.compile(rf"\b(?:os|shutil)\.(?:{calls})\(|\.(?:unlink|rename|rmdir|touch|write_text|write_bytes)\(")
    found = {
        f"{path.relative_to(PACKAGE)}: {match[0]}"
        for path in PACKAGE.rglob("*.py")
        for match in pattern.finditer(path.read_text(encoding="utf-8"))
    }
    fresh = (
        "build/__init__.py: shutil.copytree(",
        "headers.py",
        "tree.py",
        "compiler.py: .write_text(",
        "emulator/build/vendor.py: .write_text(",
        "layer/build.py: .write_text(",
    )  # new directories
    # By the caller: a file, or a directory in which this package has begun it.
    named = (
        "testing/compare.py: .write_text(",
        "emulator/msprof.py: .write_text(",
        "replay/export.py: .write_",
        "cli/layer.py: .write_text(",
        "cli/recording.py: .write_text(",
        "emulator/validation.py: .write_text(",
        "verify/report.py: .write_text(",
        "verify/worker.py: .write_text(",
    )
    others = {
        line
        for line in found
        if not line.startswith("core/files.py") and not any(name in line for name in (*fresh, *named))
    }
    assert others == {"emulator/build/cache.py: .rmdir("}  # of a build that is empty: nothing is lost
