#!/usr/bin/env python3
"""Writes ``ascend_aclnn/verify/suite``: the cases of every operator by number, and what the NumPy reference gives for them.

    scripts/write_suite.py                       # writes what has changed
    scripts/write_suite.py aclnnAdd aclnnMm      # of these operators only
    scripts/write_suite.py --check [NAMES]       # writes nothing; fails where a line is not what would be written
    scripts/write_suite.py --check --sample 50   # of operators by chance

Run it after an operator, its example, its rule or its reference has changed. ``ascend-aclnn verify`` tries these cases.
"""

from __future__ import annotations

import argparse
import random
import sys
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np

import ascend_aclnn as aclnn
from ascend_aclnn import catalog, reference
from ascend_aclnn.catalog import Operator
from ascend_aclnn.verify import ranks, suite
from ascend_aclnn.verify.calls import NULL, reference_results
from ascend_aclnn.verify.judge import refused_input
from ascend_aclnn.verify.ranks import WORKS
from ascend_aclnn.verify.samples import SAMPLES

SHOWN = 20  # lines that --check prints


def lines(operator: Operator) -> list[str]:
    """The lines of an operator, which has a reference and an example."""
    soc = suite.soc_of(operator)
    found = []
    with aclnn.use_backend("numpy", soc=soc), np.errstate(all="ignore"):
        for number, case in enumerate(suite.enumerated(operator, soc)):
            if case.values == NULL:
                expected = str(refused_input(operator, soc)[1])
            elif operator.name in WORKS:
                expected = suite.describe(ranks.values(operator, ranks.on_numpy(WORKS[operator.name], 0)))
            else:
                results = reference_results(operator, case, soc)
                expected = suite.describe(results, operator.accuracy_standard == "unspecified")
            found.append(str(suite.Numbered(operator.name, number, case, expected)))
    return found


def has_cases(operator: Operator) -> bool:
    known = operator.example is not None or operator.name in SAMPLES or operator.name in WORKS
    return known and reference.find(operator) is not None


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="operators; default: all")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a line would change")
    parser.add_argument("--sample", type=int, metavar="N", help="so many operators by chance")
    options = parser.parse_args()
    operators = [catalog.get(name) for name in options.names or catalog.names()]
    operators = [operator for operator in operators if has_cases(operator)]
    if options.sample:
        operators = random.sample(operators, options.sample)
    wanted: dict[Path, dict[str, list[str]]] = {}
    stale = []
    broken = 0
    for operator in operators:
        try:
            found = lines(operator)
        except Exception:  # of the reference itself: refusals are no errors here
            broken += 1
            print(f"{operator.name}: {traceback.format_exc()}", file=sys.stderr)
            continue
        wanted.setdefault(suite.file_of(operator.family), {})[operator.name] = found
        committed = [str(item) for item in suite.read(operator.family).get(operator.name, ())]
        if committed != found:
            changed = [line for line in found if line not in committed] or [f"{operator.name}: fewer cases"]
            stale.append(f"{changed[0]}  ({len(changed)} lines)")
        if sys.stderr.isatty():
            print(f"\r{operator.name:60}", end="", file=sys.stderr)
    if options.check:
        print("\n".join(stale[:SHOWN]))
        print(f"{len(stale)} operators differ: run scripts/write_suite.py" if stale else "the suite is up to date")
        return 1 if stale or broken else 0
    for path, operators_lines in wanted.items():
        write(path, operators_lines, whole=not options.names and not options.sample)
    print(f"{len(stale)} of {len(operators)} operators have changed; the references of {broken} fail")
    return 1 if broken else 0


def write(path: Path, found: dict[str, list[str]], whole: bool) -> None:
    """Writes a family's file; the lines of other operators stay unless it is ``whole``."""
    kept: dict[str, list[str]] = {}
    if not whole and path.is_file():
        for line in path.read_text(encoding="utf-8").splitlines():
            kept.setdefault(line.partition("/")[0], []).append(line)
    kept.update(found)
    path.parent.mkdir(exist_ok=True)
    text = "".join(f"{line}\n" for name in sorted(kept) for line in kept[name])
    path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
