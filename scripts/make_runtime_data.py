#!/usr/bin/env python3
"""Writes the package's data about CANN's runtime interface: prototypes, enums and constants.

    scripts/make_runtime_data.py [--facts DIR] [--check]

The facts are a directory with ``acl_functions.json`` and ``acl_enums.json`` as collected from CANN's public headers. The
results are ``runtime_functions.json`` (one prototype per line) and ``enums.json`` in the catalog's data directory. With
``--check`` nothing is written and the exit status tells whether the committed files are what this script makes.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

FACTS = Path(__file__).resolve().parents[2] / "shared" / "facts"
DATA = Path(__file__).resolve().parent.parent / "ascend_aclnn" / "catalog" / "data"


def functions(facts: list[dict[str, Any]]) -> dict[str, Any]:
    """name -> returns, params (pairs of name and C type), since, library and header."""
    rows = {}
    for fact in facts:
        row: dict[str, Any] = {
            "returns": fact["returns"],
            "params": [[p["name"], p["ctype"]] for p in fact["params"]],
            "since": fact["since"],
            "library": fact["library"],
            "header": fact["header"],
        }
        if fact.get("newest_library") and fact["newest_library"] != fact["library"]:
            row["newest_library"] = fact["newest_library"]
        if fact.get("variadic"):
            # The fact names the parameter before the dots; C needs only the dots.
            row["params"] = [pair for pair in row["params"] if pair[1] != "..."]
            row["variadic"] = True
        rows[fact["name"]] = row
    return rows


def enums(facts: dict[str, Any]) -> dict[str, dict[str, int]]:
    """enum -> member -> value; "constants" holds what CANN defines outside enums."""

    def values(members: dict[str, Any]) -> dict[str, int]:
        return {name: member["value"] for name, member in members.items()}

    result = {"aclDataType": values(facts["aclDataType"]), "aclFormat": values(facts["aclFormat"])}
    result.update({name: values(enum["values"]) for name, enum in facts["enums"].items()})
    result.update({name: values(enum["values"]) for name, enum in facts["hccl"]["enums"].items()})
    result["aclError"] = {name: value for group in facts["aclError"].values() for name, value in values(group).items()}
    result["aclnnStatus"] = values(facts["aclnnStatus"])
    result["constants"] = {**values(facts["constants"]), **values(facts["hccl"]["constants"])}
    return result


def lines(table: dict[str, Any]) -> str:
    """JSON with one entry per line, so that one can be read and corrected alone."""
    rows = (f"{json.dumps(key)}: {json.dumps(value)}" for key, value in table.items())
    return "{\n" + ",\n".join(rows) + "\n}\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--facts", type=Path, default=FACTS, help="folder with acl_functions.json and acl_enums.json")
    parser.add_argument("--check", action="store_true", help="compare with the committed files instead of writing")
    options = parser.parse_args()
    made = {
        "runtime_functions.json": lines(functions(json.loads((options.facts / "acl_functions.json").read_text()))),
        "enums.json": lines(enums(json.loads((options.facts / "acl_enums.json").read_text()))),
    }
    if options.check:
        stale = [name for name, text in made.items() if (DATA / name).read_text(encoding="utf-8") != text]
        print("stale: " + ", ".join(stale) if stale else "up to date")
        return 1 if stale else 0
    DATA.mkdir(parents=True, exist_ok=True)
    for name, text in made.items():
        (DATA / name).write_text(text, encoding="utf-8")
        print(f"{DATA / name}: {text.count(chr(10)) - 2} entries")
    return 0


if __name__ == "__main__":
    sys.exit(main())
