#!/usr/bin/env python3
"""Counts, for each operator, the checks of its rule that tests reach: passed by its example, refused for a changed argument.

scripts/count_refusals.py                   # writes tests/properties/refusal_coverage.txt
scripts/count_refusals.py --missing NAME    # the checks of an operator that no changed argument reaches
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "helpers")]

import refusal_coverage  # noqa: E402

from ascend_aclnn import catalog, rules  # noqa: E402

TABLE = ROOT / "tests" / "properties" / "refusal_coverage.txt"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--missing", metavar="NAME", help="print what is not reached of one operator")
    arguments = parser.parse_args()
    if arguments.missing:
        operator = catalog.get(arguments.missing)
        reached = refusal_coverage.reached(operator)
        print("\n".join(name for name in rules.rule_of(operator).refusals(operator) if name not in reached))
        return 0
    rows = {name: refusal_coverage.counts(catalog.get(name)) for name in catalog.names()}
    reached, listed = (sum(counts) for counts in zip(*rows.values()))
    lines = [
        "# Made by scripts/count_refusals.py: of each operator's checks, how many refuse a changed argument, and all.",
        f"# all {reached} {listed} ({reached / listed:.1%})",
        *(f"{name} {some} {every}" for name, (some, every) in rows.items()),
    ]
    TABLE.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(lines[1])
    return 0


if __name__ == "__main__":
    sys.exit(main())
