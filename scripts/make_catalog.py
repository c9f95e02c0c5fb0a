#!/usr/bin/env python3
"""Writes ascend_aclnn/catalog/data/ from the fact files.

The facts are mechanical extracts of CANN's public headers, registry files and documents. Two hand-kept files of the
package correct and complete them: ``overlay.json`` (corrections, a reason each) and ``defaults.json`` (defaults of
attributes, the evidence of each). The result is committed; ``--check`` tells whether it is what this script makes.

    scripts/make_catalog.py [--facts DIR] [--check]
"""

from __future__ import annotations

import argparse
import difflib
import itertools
import json
import re
import sys
from pathlib import Path
from typing import Any, Optional

ROOT = Path(__file__).resolve().parent.parent
CATALOG = ROOT / "ascend_aclnn" / "catalog"
DATA = CATALOG / "data"
FACTS = ROOT.parent / "shared" / "facts"
FACT_FILES = ("aclnn_signatures.json", "aclnn_doc_facts.json", "acl_enums.json")

PRODUCTS = ("A2", "A3", "310P", "910", "310B", "950")
# Kinds of parameter for which a documented list of dtypes says something that the C type does not.
_TYPED = ("aclTensor*", "aclTensorList*", "aclScalar*", "aclScalarList*")
_TENSORS = _TYPED[:2]


def load(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def bare_dtype(name: str) -> str:
    return re.sub(r"^ACL_", "", name)


def bare_format(name: str) -> str:
    return re.sub(r"^ACL_(FORMAT_)?", "", name)


def family_stem(family: str) -> str:
    """``ops-nn/norm`` -> ``ops-nn.norm``, the name of its data file."""
    return family.replace("/", ".")


def first_seen(snapshots: list[str]) -> str:
    """The oldest snapshot that has the operator: "8.1.RC1", or the month of the public sources ("2026-08")."""
    return "8.1.RC1" if "8.1.RC1" in snapshots else min(s.split("-experimental")[0] for s in snapshots)


def document_name(path: Optional[str]) -> Optional[str]:
    """``hicann/ops-nn norm/.../aclnnX.md`` -> ``ops-nn/norm/.../aclnnX.md``: forks hold it at the same place."""
    if not path:
        return None
    repository, file = path.split(" ", 1)
    return f"{repository.split('/')[-1]}/{file}"


def parameter_entry(
    row: dict[str, str], fact: dict[str, Any], document: dict[str, Any], defaults: dict[str, Any]
) -> dict[str, Any]:
    name, ctype = row["name"], row["ctype"]
    entry: dict[str, Any] = {"name": name, "ctype": ctype}
    if fact["directions"][name] != "in":
        entry["direction"] = fact["directions"][name]
    if name in fact["optional"]:
        entry["optional"] = True
    bare = ctype.replace("const ", "")

    def documented(key: str) -> Any:
        return (document.get(key) or {}).get(name)

    if bare in _TYPED and documented("dtypes"):
        entry["dtypes"] = " ".join(bare_dtype(n) for n in documented("dtypes"))
    if bare in _TENSORS:
        if documented("formats"):
            entry["formats"] = " ".join(bare_format(n) for n in documented("formats"))
        if documented("dims"):
            entry["rank"] = documented("dims")
        if documented("noncontiguous") is not None:
            entry["noncontiguous"] = documented("noncontiguous")
    if name in defaults:
        entry["default"] = defaults[name]["value"]
    return entry


def operator_entry(fact: dict[str, Any], document: dict[str, Any], defaults: dict[str, Any]) -> dict[str, Any]:
    entry: dict[str, Any] = {"header": fact["header"], "family": fact["family"]}
    if fact["doc"]:
        entry["document"] = document_name(fact["doc"])
    if fact["products"]:
        entry["products"] = " ".join(p for p in PRODUCTS if p in fact["products"])
    entry["since"] = first_seen(fact["in"])
    if fact.get("experimental"):
        entry["experimental"] = True
    if "phase2" in fact:
        standard = ("workspace", "workspaceSize", "executor", "stream")
        entry["phase_two"] = [p for p in fact["phase2"] if p["name"] not in standard]
    variants = {k: v["params"] for k, v in fact.get("variants", {}).items() if not v["abi_same"]}
    if variants:
        entry["variants"] = variants
    if document.get("return_codes"):
        entry["statuses"] = list(dict.fromkeys(f"{code} {why or ''}".strip() for code, why in document["return_codes"]))
    determinism = {k: v for k, v in (document.get("determinism") or {}).items() if v}
    if determinism:
        entry["determinism"] = determinism
    if document.get("product_dtypes"):
        entry["product_dtypes"] = {
            product: {
                parameter: {how: [bare_dtype(n) for n in names] for how, names in note.items()}
                for parameter, note in notes.items()
            }
            for product, notes in document["product_dtypes"].items()
        }
    entry["parameters"] = [parameter_entry(row, fact, document, defaults) for row in fact["params"]]
    return entry


def apply_overlay(entries: dict[str, dict[str, Any]], corrections: list[dict[str, Any]]) -> None:
    """Overrides fields of operators and parameters (several names in one string); a field set to null is removed."""
    for correction in corrections:
        entry, name = entries[correction["operator"]], correction["operator"]
        if not correction.get("reason"):
            raise SystemExit(f"overlay: the correction of {name} gives no reason")
        targets: list[dict[str, Any]] = [entry]
        if "parameter" in correction:
            rows = {p["name"]: p for p in entry["parameters"]}
            targets = [rows[parameter] for parameter in correction["parameter"].split()]
        for target, (key, value) in itertools.product(targets, correction["set"].items()):
            if target.get(key) == value:
                raise SystemExit(f"overlay: {name} {target.get('name', '')}: {key} already is {value!r}; remove that")
            if value is None:
                del target[key]
            else:
                target[key] = value
    order = ("name", "ctype", "direction", "optional", "dtypes", "formats", "rank", "noncontiguous", "default")
    for entry in entries.values():
        entry["parameters"] = [dict(sorted(p.items(), key=lambda i: order.index(i[0]))) for p in entry["parameters"]]


def entry_text(name: str, entry: dict[str, Any]) -> str:
    """One entry, a line per fact and per parameter, without blank lines."""

    def line(value: Any) -> str:
        return json.dumps(value, ensure_ascii=False)

    lines = [f"  {line(key)}: {line(value)}," for key, value in entry.items() if key != "parameters"]
    parameters = ",\n".join(f"    {line(parameter)}" for parameter in entry["parameters"])
    return "\n".join([f"{line(name)}: {{", *lines, '  "parameters": [', parameters, "  ]", "}"])


def statuses(enums: dict[str, Any]) -> dict[str, list[str]]:
    """Number -> name and what it means; of several names of one number, the first that is in CANN's headers now."""
    found: dict[str, list[str]] = {}
    rows = [*enums["aclnnStatus"].items(), *(row for group in enums["aclError"].values() for row in group.items())]
    for name, row in rows:
        found.setdefault(str(row["value"]), [name, row.get("meaning", row.get("hint", ""))])
    return dict(sorted(found.items(), key=lambda item: int(item[0])))


def make(facts: Path) -> dict[str, str]:
    """The text of every data file, by file name."""
    signatures, documents, enums = (load(facts / name) for name in FACT_FILES)
    defaults = load(CATALOG / "defaults.json") if (CATALOG / "defaults.json").exists() else {}
    entries = {
        name: operator_entry(fact, documents["operators"].get(name, {}), defaults.get(name, {}))
        for name, fact in sorted(signatures["operators"].items())
    }
    for name, rows in defaults.items():
        unknown = set(rows) - {p["name"] for p in entries[name]["parameters"]}
        if unknown:
            raise SystemExit(f"defaults: {name} has no parameter {', '.join(sorted(unknown))}")
    apply_overlay(entries, load(CATALOG / "overlay.json"))

    files = {"index.txt": "".join(f"{name} {family_stem(entry['family'])}\n" for name, entry in entries.items())}
    families: dict[str, list[str]] = {}
    for name, entry in entries.items():
        families.setdefault(family_stem(entry["family"]), []).append(entry_text(name, entry))
    for family, texts in families.items():
        files[f"{family}.json"] = "{\n" + ",\n\n".join(texts) + "\n}\n"
    rows = [f"{json.dumps(number)}: {json.dumps(row)}" for number, row in statuses(enums).items()]
    files["status.json"] = "{\n" + ",\n".join(rows) + "\n}\n"
    helpers = {
        name: {
            "header": fact["header"],
            "family": fact["family"],
            "since": first_seen(fact["in"]),
            "returns": fact["returns"],
            "parameters": fact["params"],
        }
        for name, fact in sorted(signatures["helpers"].items())
    }
    files["helpers.json"] = "{\n" + ",\n\n".join(entry_text(n, e) for n, e in helpers.items()) + "\n}\n"
    return files


def differences(files: dict[str, str]) -> list[str]:
    """What the committed data says otherwise, as a short unified diff per file."""
    found = []
    for name in sorted(files.keys() | {path.name for path in DATA.glob("ops-*.json")}):
        path = DATA / name
        old = path.read_text(encoding="utf-8") if path.exists() else ""
        new = files.get(name, "")
        if old != new:
            diff = list(
                difflib.unified_diff(old.splitlines(), new.splitlines(), f"committed {name}", "made", "", "", 1)
            )
            found += [line.rstrip() for line in diff[:40]]
            if len(diff) > 40:
                found.append(f"... {len(diff) - 40} more lines")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--facts", type=Path, default=FACTS, help="folder with " + ", ".join(FACT_FILES))
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the committed data differs")
    arguments = parser.parse_args()
    files = make(arguments.facts)
    if arguments.check:
        found = differences(files)
        print("\n".join(found) if found else "catalog data is up to date")
        return 1 if found else 0
    DATA.mkdir(exist_ok=True)
    for path in DATA.glob("ops-*.json"):  # other scripts keep other files here
        if path.name not in files:
            path.unlink()
    for name, text in files.items():
        (DATA / name).write_text(text, encoding="utf-8")
    size = sum(len(text) for text in files.values())
    print(f"{len(files)} files, {size / 1e6:.1f} MB in {DATA}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
