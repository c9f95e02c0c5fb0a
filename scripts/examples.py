#!/usr/bin/env python3
"""Adds examples of operators to the catalog, or brings the results of all of them up to date, by running them.

    scripts/examples.py "ops.relu(np.array([-1, 0, 2], np.float32))" ...    # adds one for each call
    scripts/examples.py --soc Ascend950PR_9599 "ops.square(...)"            # for calls that need its rules
    scripts/examples.py                                                     # runs all again; tells which fail

A result is printed as it is where that is short; of a longer one, of random numbers, and of memory that the operator
leaves unwritten, the shapes are. ``comm`` in a call is a communicator of one rank.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any, Optional

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import ml_dtypes
import numpy as np

import ascend_aclnn as aclnn
from ascend_aclnn import catalog, ops
from ascend_aclnn.catalog import Operator

FOLDER = catalog.FOLDER / "examples"
with aclnn.use_backend("numpy"):
    COMM = aclnn.Communicator.from_root_info(aclnn.Communicator.root_info(), 0, 1)
NAMES = {"aclnn": aclnn, "comm": COMM, "ml_dtypes": ml_dtypes, "np": np, "ops": ops}
WAYS = (
    "{}",
    "{}.shape",
    "[r.shape for r in {}]",
    "[r if r is None else r.shape for r in {}]",
    "[np.shape(r) for r in {}]",
    "[type(r).__name__ for r in {}]",
)
LONG, LINES = 240, 5


def printed(call: str, soc: Optional[str], shapes: bool) -> tuple[str, str]:
    """How a call's result is shown, and as what."""
    with aclnn.use_backend("numpy", soc=soc), np.errstate(all="ignore"):
        value: Any = eval(call, dict(NAMES))
        for shown in WAYS[shapes:]:
            try:
                text = repr(eval(shown.format("value"), {"np": np, "value": value}))
            except (AttributeError, ValueError):
                continue
            if len(text) <= LONG and text.count("\n") < LINES:
                return shown, text
    return "{}", repr(value)


def entry(operator: Operator, call: str, soc: Optional[str], shown: str = "{}") -> dict[str, str]:
    """The row of an example."""
    shown, result = printed(call, soc, shown != "{}" or operator.accuracy_standard == "unspecified")
    row = {"call": call, **({} if shown == "{}" else {"shown": shown}), "result": result}
    return row if soc is None else {**row, "soc": soc}


def save(rows: dict[str, dict[str, str]]) -> None:
    """Writes rows by operator into the files of their families."""
    families: dict[str, list[str]] = {}
    for name in sorted(rows):
        line = f"{json.dumps(name)}: {json.dumps(rows[name], ensure_ascii=False)}"
        families.setdefault(catalog.get(name).family.replace("/", "."), []).append(line)
    for family, lines in families.items():
        (FOLDER / f"{family}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("calls", nargs="*", help='like "ops.relu(np.ones(3, np.float32))"')
    parser.add_argument("--soc", help="the rules that the calls need, if not the default's")
    options = parser.parse_args()
    rows: dict[str, dict[str, str]] = {}
    for path in FOLDER.glob("*.json"):
        rows.update(json.loads(path.read_text(encoding="utf-8")))
    failed = []
    if options.calls:
        for call in options.calls:
            match = re.match(r"ops\.(\w+)\(", call)
            if match is None:
                parser.error(f"{call!r} is not a call of an operator")
            operator = catalog.get(catalog.python_names()[match.group(1)])
            rows[operator.name] = entry(operator, call, options.soc)
    else:
        for name, row in list(rows.items()):
            try:
                rows[name] = entry(catalog.get(name), row["call"], row.get("soc"), row.get("shown", "{}"))
            except Exception as error:
                failed.append(f"{name}: {type(error).__name__}: {error}")
    save(rows)
    print("\n".join([*failed, f"{len(rows)} examples, {len(failed)} of them fail"]))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
