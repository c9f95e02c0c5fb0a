#!/usr/bin/env python3
"""Finds the CANN release that brought each operator, and what its documents have stopped to list since.

    scripts/find_operator_releases.py CHECKOUT...

Each CHECKOUT is a clone, with its branches and tags, of an operator repository (ops-nn, ops-math, ops-cv, ops-transformer);
several of one repository complete each other. An operator that the headers of CANN 8.1.RC1 have counts as 8.1.RC1; the
releases between it and 8.5.0 were never published as source, so what appeared there counts as 8.5.0. The result is
``catalog/data/releases.json``. Changes of prototypes are printed only: documents have errors, so a reader decides
which of them go into ``catalog/data/life.json``; so are functions that the catalog lacks and a later release does, too.
"""

from __future__ import annotations

import argparse
import io
import json
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import read_sources

from ascend_aclnn import catalog
from ascend_aclnn.catalog.headers import abi_type

TARGET = catalog.DATA / "releases.json"
OLDEST = "8.1.RC1"
# Release -> the revisions that may hold it, the best first; of those that only a mirror's master is as new as, that.
REVISIONS = {
    "8.5.0": ("v8.5.0",),
    "9.0.0": ("v9.0.0",),
    "9.1.0": ("v9.1.0", "9.1.0"),
    "9.2.0-beta.2": ("v9.2.0-beta.2", "9.2.0-beta.2", "master"),
}
LAST_DAY = "2026-08-21"  # of the branch 9.2.0-beta.2: a master counts as it up to then
# Headers, documents, and what the build generates and exports functions from without either.
READ = re.compile(r"(^|/)(aclnn\w*\.h|docs/acl[\w&]*\.md|CMakeLists\.txt|\w+_def\.cpp|op_api/(.*/)?acl\w*\.cpp)$")
NOT_READ = re.compile(r"(^|/)(tests?|examples?)/")


def git(checkout: Path, *arguments: str) -> bytes:
    return subprocess.run(["git", "-C", str(checkout), *arguments], capture_output=True, check=True).stdout


def commit_of(checkout: Path, revision: str) -> tuple[str, str]:
    """The day and the commit of a revision, "" where the checkout has none."""
    until = [f"--until={LAST_DAY} 23:59"] if revision == "master" else []
    for name in (revision, f"origin/{revision}"):
        done = subprocess.run(
            ["git", "-C", str(checkout), "log", "-1", *until, "--format=%cs %H", name], capture_output=True, text=True
        )
        if done.returncode == 0 and done.stdout.strip():
            day, commit = done.stdout.split()
            return day, commit
    return "", ""


def repository_of(checkout: Path, commit: str) -> str:
    """Which repository a checkout is of, by the package that its version.cmake or README names."""
    text = git(checkout, "show", f"{commit}:README.md").decode(errors="replace")
    return max(("ops-nn", "ops-math", "ops-cv", "ops-transformer"), key=text.count)


def facts(checkout: Path, commit: str) -> dict[str, read_sources.Facts]:
    """What a commit states of its operators."""
    paths = git(checkout, "ls-tree", "-r", "--name-only", commit).decode().splitlines()
    wanted = [path for path in paths if READ.search(path) and not NOT_READ.search(path)]
    with tempfile.TemporaryDirectory() as folder:
        archive = git(checkout, "archive", commit, *wanted)
        with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
            tar.extractall(folder)
        return read_sources.read(Path(folder))


def mentioned(checkout: Path, commit: str, names: list[str]) -> set[str]:
    """The operators without header and prototype that other files of a commit name."""
    if not names:
        return set()
    pattern = rf"\b({'|'.join(names)})(GetWorkspaceSize)?\b"
    done = subprocess.run(
        [
            "git",
            "-C",
            str(checkout),
            "grep",
            "-hoE",
            pattern,
            commit,
            "--",
            "*.md",
            "*.h",
            "*.cpp",
            "*.txt",
            ":!*tests*",
        ],
        capture_output=True,
        text=True,
    )
    return {line.removesuffix("GetWorkspaceSize") for line in done.stdout.split()}


def lost_dtypes(
    name: str, before: read_sources.Facts, after: read_sources.Facts
) -> Iterator[tuple[str, list[str], list[str]]]:
    """Tensors of an operator whose document lists fewer dtypes: the name, what is gone, what is new.

    What the catalog has all the same, of the operator's code, was never gone.
    """
    tensors = {p.name: p.dtypes or () for p in catalog.get(name).parameters if p.kind.value.startswith("aclTensor")}
    for parameter, row in before.parameters.items():
        later = after.parameters.get(parameter, {})
        if parameter in tensors and "dtypes" in row and "dtypes" in later:
            old, new = row["dtypes"].split(), later["dtypes"].split()
            gone = [dtype for dtype in old if dtype not in new and dtype not in tensors[parameter]]
            if gone:
                yield parameter, gone, [dtype for dtype in new if dtype not in old]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("checkouts", type=Path, nargs="+")
    checkouts = parser.parse_args().checkouts
    known = list(catalog.names())
    first = {name: OLDEST for name in known if catalog.get(name).since == OLDEST}
    before: dict[str, read_sources.Facts] = {}
    earlier: dict[str, set[str]] = {}  # of each repository, the functions of the release before
    changed = []
    for release, revisions in REVISIONS.items():
        found: dict[str, read_sources.Facts] = {}
        done: set[str] = set()
        for revision in revisions:
            newest_first = sorted(((*commit_of(checkout, revision), checkout) for checkout in checkouts), reverse=True)
            for _, commit, checkout in newest_first:
                repository = repository_of(checkout, commit) if commit else ""
                if not commit or repository in done:
                    continue
                done.add(repository)
                stated = facts(checkout, commit)
                found.update(stated)
                lost = earlier.get(repository, set()) - stated.keys() - set(known)
                if lost:
                    print(f"{release}: no longer in {repository}, and not in the catalog: {' '.join(sorted(lost))}")
                earlier[repository] = set(stated)
                rest = [name for name in known if name not in first and name not in found]
                first.update(dict.fromkeys(mentioned(checkout, commit, rest), release))
                print(f"{release}: {repository} at {revision}, {commit[:12]}")
        for name in known:
            if name not in found:
                continue
            first.setdefault(name, release)
            if name in before:
                one, other = before[name].prototype, found[name].prototype
                if one and other and [abi_type(c) for c, _ in one] != [abi_type(c) for c, _ in other]:
                    print(f"{release}: the prototype of {name} has changed: {one} -> {other}")
                for parameter, gone, new in lost_dtypes(name, before[name], found[name]):
                    changed.append({"name": name, "release": release, "parameter": parameter, "gone": gone, "new": new})
        before.update(found)
    names_of = {release: " ".join(name for name in known if first.get(name) == release) for release in REVISIONS}
    print("not found:", " ".join(name for name in known if name not in first))
    rows = ['"changed": [\n  ' + ",\n  ".join(json.dumps(row) for row in changed) + "\n]"]
    lines = ",\n".join(f"  {json.dumps(release)}: {json.dumps(text)}" for release, text in names_of.items())
    TARGET.write_text('{\n"brought": {\n' + lines + "\n},\n" + rows[0] + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
