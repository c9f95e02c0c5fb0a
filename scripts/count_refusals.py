#!/usr/bin/env python3
"""Counts, for each operator, the checks of its rule that calls reach: those that a call passes, and those that refuse one.

scripts/count_refusals.py [--jobs 2]          # writes refusal_coverage.txt and unreached_refusals.txt of tests/properties
scripts/count_refusals.py "aclnnFFN*" ...     # counts some operators again, and leaves the lines of the others
scripts/count_refusals.py --missing NAME      # prints the checks of an operator that are not reached both ways
"""

from __future__ import annotations

import argparse
import fnmatch
import multiprocessing
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "helpers")]

import refusal_coverage  # noqa: E402

from ascend_aclnn import catalog  # noqa: E402

FOLDER = ROOT / "tests" / "properties"
TABLE, UNREACHED = "refusal_coverage.txt", "unreached_refusals.txt"


class Row(NamedTuple):
    """What the tables say of an operator."""

    counts: tuple[int, ...]
    unreached: list[str]


def count(name: str) -> Row:
    reached = refusal_coverage.reached(catalog.get(name))
    return Row(reached.counts, reached.lines(name))


def read() -> dict[str, Row]:
    """What the tables say now."""
    table, unreached = (
        [line for line in (FOLDER / file).read_text(encoding="utf-8").splitlines() if line[0] != "#"]
        for file in (TABLE, UNREACHED)
    )
    rows = {name: Row(tuple(map(int, counts)), []) for name, *counts in map(str.split, table)}
    for line in unreached:
        rows[line.split()[0]].unreached.append(line)
    return rows


def write(rows: Mapping[str, Row]) -> str:
    """Writes both files; the line about all operators."""
    passed, refused, both, listed = (sum(counts) for counts in zip(*(row.counts for row in rows.values())))
    total = f"# all {passed} {refused} {both} {listed} ({both / listed:.1%})"
    table = [
        "# Made by scripts/count_refusals.py: of each operator's checks, how many a call passes, how many refuse one,",
        "# how many do both, and how many there are.",
        total,
        *(" ".join([name, *map(str, row.counts)]) for name, row in rows.items()),
    ]
    unreached = [
        "# Made by scripts/count_refusals.py: the checks that no call reaches both ways: passed only, refused only, neither.",
        *(line for row in rows.values() for line in row.unreached),
    ]
    for file, lines in ((TABLE, table), (UNREACHED, unreached)):
        (FOLDER / file).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return total


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", help='operators to count, "aclnnFFN*" for several; all by default')
    parser.add_argument("--missing", metavar="NAME", help="print what is not reached of one operator")
    parser.add_argument("--jobs", type=int, default=2, help="how many processes count")
    arguments = parser.parse_args()
    if arguments.missing:
        print("\n".join(count(arguments.missing).unreached))
        return 0
    everything = list(catalog.names())
    chosen = [n for n in everything if any(fnmatch.fnmatchcase(n, p) for p in arguments.names or ["*"])]
    rows = read() if arguments.names else {}
    with multiprocessing.Pool(arguments.jobs) as pool:
        rows.update(zip(chosen, pool.imap(count, chosen, chunksize=1)))
    print(write({name: rows[name] for name in everything}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
