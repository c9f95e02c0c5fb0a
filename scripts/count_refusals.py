#!/usr/bin/env python3
"""Counts, for each operator, the checks of its rule that calls reach: those that a call passes, and those that refuse one.

scripts/count_refusals.py [--jobs 2]        # writes refusal_coverage.txt and unreached_refusals.txt of tests/properties
scripts/count_refusals.py --missing NAME    # the checks of an operator that are not reached both ways
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "helpers")]

import refusal_coverage  # noqa: E402
from refusal_coverage import Reached  # noqa: E402

from ascend_aclnn import catalog  # noqa: E402

FOLDER = ROOT / "tests" / "properties"


def reached(name: str) -> Reached:
    return refusal_coverage.reached(catalog.get(name))


def write(rows: Mapping[str, Reached]) -> str:
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
        *(line for name, row in rows.items() for line in row.lines(name)),
    ]
    for file, lines in (("refusal_coverage.txt", table), ("unreached_refusals.txt", unreached)):
        (FOLDER / file).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return total


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--missing", metavar="NAME", help="print what is not reached of one operator")
    parser.add_argument("--jobs", type=int, default=2, help="how many processes count")
    arguments = parser.parse_args()
    if arguments.missing:
        print("\n".join(reached(arguments.missing).lines(arguments.missing)))
        return 0
    names = list(catalog.names())
    with multiprocessing.Pool(arguments.jobs) as pool:
        rows = dict(zip(names, pool.imap(reached, names, chunksize=4)))
    print(write(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
