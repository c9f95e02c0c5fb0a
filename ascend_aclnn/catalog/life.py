"""The life of operators, runtime functions and libraries: since which release, deprecated, changed, gone, replaced by what.

``data/life.json`` has what release notes and headers say, a source each; ``data/releases.json``, made by
``scripts/find_operator_releases.py``, the release that brought each operator and the data types that documents have stopped
to list. What no source says is not in them.
"""

from __future__ import annotations

import functools
import json
import re
from typing import Any, NamedTuple, Optional

from ascend_aclnn import catalog
from ascend_aclnn.catalog.naming import operator_python_name

OLDEST = "8.1.RC1"
# Those whose public sources were read; what a release between two of them added counts as the later one's.
NEWEST_READ = "9.2.0-beta.2"
KNOWN = (OLDEST, "8.5.0", "9.0.0", "9.1.0", NEWEST_READ, "9.2.0")


def order(release: str) -> tuple[int, int, int, int, str, int]:
    """What releases are ordered by: 8.1.RC1 < 8.5.0 < 9.2.0-beta.2 < 9.2.0. ValueError for anything of another form."""
    match = re.match(r"(\d+)\.(\d+)(?:\.(\d+))?(?:[.-]?(alpha|beta|rc)\.?(\d+))?(?=$|[.-])", release, re.IGNORECASE)
    if match is None:
        raise ValueError(f"CANN release {release!r} is not of the form 8.1.RC1 or 9.0.0; known are {', '.join(KNOWN)}")
    major, minor, patch, stage, number = match.groups()
    # 8.1.RC1 is what was released, as no 8.1.0 followed; 9.2.0-beta.1 comes before 9.2.0.
    early = stage is not None and (patch is not None or stage.lower() != "rc")
    return (int(major), int(minor), int(patch or 0), 0 if early else 1, (stage or "").lower(), int(number or 0))


class Announcement(NamedTuple):
    """What a release says of the end of a name."""

    release: str  # that marks it as deprecated
    after: str  # "2026-12-30": releases after that day may lack it; "" where no day is said
    replaced_by: tuple[str, ...]  # C names; empty where nothing replaces it
    note: str
    source: str  # the address or description of what says so


class Change(NamedTuple):
    """What a release changed."""

    release: str
    kind: str  # "signature": a call by the earlier prototype is wrong; "dtypes": the document lists fewer
    what: str
    source: str


class Life(NamedTuple):
    """The life of one name."""

    name: str
    kind: str  # "operator", "function" or "library"
    since: str  # the release that brought it, 8.1.RC1 for that or an earlier one; "" where it is not known
    announced: tuple[Announcement, ...] = ()  # the earliest first
    removed: str = ""  # the release that lacks it, as far as sources of one have been read
    removed_source: str = ""
    changes: tuple[Change, ...] = ()
    successors: tuple[str, ...] = ()  # what replaces one that was removed without an announcement

    @property
    def deprecated(self) -> str:
        """The first release that marks it as deprecated; ""."""
        return self.announced[0].release if self.announced else ""

    @property
    def removal(self) -> str:
        """The earliest day that is announced: releases after it may lack the name; ""."""
        return min((row.after for row in self.announced if row.after), default="")

    @property
    def replaced_by(self) -> tuple[str, ...]:
        """By what the latest announcement that names something replaces it."""
        return next((row.replaced_by for row in reversed(self.announced) if row.replaced_by), self.successors)

    @property
    def source(self) -> str:
        """Where the first announcement, or the removal, is said."""
        return self.announced[0].source if self.announced else self.removed_source

    @property
    def assumed_removal(self) -> str:
        """The first release that counts as one after the announced day; "": no day is announced. No notes say which it is."""
        return str(_data()["assumed"].get(self.removal, "")) if self.removal else ""

    def deprecated_in(self, release: str) -> bool:
        return bool(self.announced) and order(release) >= order(self.deprecated)

    def absent_from(self, release: str) -> bool:
        """Whether a release lacks the name: its sources do, or the announced day counts as passed."""
        gone = self.removed or self.assumed_removal
        return bool(gone) and order(release) >= order(gone)


@functools.cache
def _data() -> dict[str, Any]:
    data: dict[str, Any] = json.loads((catalog.DATA / "life.json").read_text(encoding="utf-8"))
    return data


@functools.cache
def _brought() -> dict[str, str]:
    """Operator -> the release that brought it, of those that 8.1.RC1 does not have."""
    rows = json.loads((catalog.DATA / "releases.json").read_text(encoding="utf-8"))["brought"]
    return {name: release for release, names in rows.items() for name in names.split()}


@functools.cache
def _changes() -> dict[str, list[Change]]:
    sources = _data()["sources"]
    changes: dict[str, list[Change]] = {}
    for row in _data()["changed"]:
        changes.setdefault(row["name"], []).append(
            Change(row["release"], row["kind"], row["what"], sources[row["source"]])
        )
    for row in json.loads((catalog.DATA / "releases.json").read_text(encoding="utf-8"))["changed"]:
        new = f" (new: {' '.join(row['new'])})" if row["new"] else ""
        what = f"{row['parameter']} is no longer documented as {' '.join(row['gone'])}{new}"
        changes.setdefault(row["name"], []).append(Change(row["release"], "dtypes", what, sources["documents"]))
    return {name: sorted(rows, key=lambda row: order(row.release)) for name, rows in changes.items()}


@functools.cache
def _announced() -> dict[str, list[Announcement]]:
    sources = _data()["sources"]
    announced: dict[str, list[Announcement]] = {}
    for row in _data()["announced"]:
        said = Announcement(
            row["release"],
            row.get("after", ""),
            tuple(row.get("replaced_by", "").split()),
            row.get("note", ""),
            sources[row["source"]],
        )
        for name in row["names"].split():
            announced.setdefault(name, []).append(said)
    return {name: sorted(rows, key=lambda row: order(row.release)) for name, rows in announced.items()}


@functools.cache
def _removed() -> dict[str, tuple[str, str, tuple[str, ...]]]:
    sources = _data()["sources"]
    return {
        name: (row["release"], sources[row["source"]], tuple(row.get("replaced_by", "").split()))
        for row in _data()["removed"]
        for name in row["names"].split()
    }


@functools.cache
def functions() -> dict[str, str]:
    """Every runtime function -> the release that brought it; "newer" than the tags that were read counts as the newest."""
    rows = json.loads((catalog.DATA / "runtime_functions.json").read_text(encoding="utf-8"))
    return {name: NEWEST_READ if row["since"] == "newer" else row["since"] for name, row in rows.items()}


def names() -> list[str]:
    """Every name whose end is announced or has come."""
    return sorted({*_announced(), *_removed()})


@functools.cache
def of(name: str) -> Life:
    """The life of an operator, function or library by its C name; one without events for what is not known."""
    if ".so" in name:
        kind, since = "library", OLDEST if name in _announced() or name in _removed() else ""
    elif name in _brought():
        kind, since = "operator", _brought()[name]
    elif name in catalog.names():
        kind, since = "operator", OLDEST if catalog.get(name).since == OLDEST else ""
    elif name.startswith("aclnn"):  # one that the catalog lacks: builds generated its function
        kind, since = "operator", ""
    else:
        kind, since = "function", functions().get(name, OLDEST if name in _announced() else "")
    removed, source, successors = _removed().get(name, ("", "", ()))
    changes = tuple(_changes().get(name, ()))
    return Life(name, kind, since, tuple(_announced().get(name, ())), removed, source, changes, successors)


def called(name: str) -> str:
    """What users of Python call an operator; other names as they are."""
    return f"ops.{operator_python_name(name)}" if name in catalog.names() else name


def end_words(life: Life, python: bool = True) -> str:
    """The end of a name in a sentence: "deprecated since CANN 8.5.0 (use ops.x); releases after 2026-12-30 may lack it"; ""."""
    replacements = " and ".join(called(name) if python else name for name in life.replaced_by)
    use = f" (use {replacements})" if replacements and life.announced else ""
    parts = [f"deprecated since CANN {life.deprecated}{use}"] if life.announced else []
    if life.removed:
        parts.append(f"not in CANN {life.removed} and later")
    elif life.removal:
        parts.append(f"releases after {life.removal} may lack it")
    return "; ".join(parts)


def pairs() -> list[tuple[str, tuple[str, ...], str]]:
    """Which toolkits each release of the operator package goes with, and the source."""
    data = _data()
    return [(row["ops"], tuple(row["toolkits"].split()), data["sources"][row["source"]]) for row in data["pairs"]]


def supported(toolkit: str, ops: str) -> Optional[str]:
    """The source that says that an operator package goes with a toolkit; None where none says so."""
    if toolkit == ops:
        return "one release"
    for release, toolkits, source in pairs():
        if release == ops and any(toolkit == name or name == f"{toolkit.rpartition('.')[0]}.x" for name in toolkits):
            return source
    return None
