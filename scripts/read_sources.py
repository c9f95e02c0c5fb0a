#!/usr/bin/env python3
"""Reads the facts of operators from a checkout of a public source repository, and compares them with the catalog's.

    scripts/read_sources.py ops-nn          # prints where headers and documents differ from catalog/data
    scripts/read_sources.py ops-nn --write  # takes over what they state, and the commit, into catalog/data and sources.json

The checkout is one of ops-nn, ops-math, ops-cv, ops-transformer; the folder's name tells which. Prototypes come from
the headers ``aclnn_*.h``, else from the documents ``docs/acl*.md``; products, dtypes, formats and ranks from the tables of the
documents. What is not stated in a form that can be read is left as the catalog has it. Operators that the catalog does
not have are listed: their directions and optional parameters need a reader.
"""

from __future__ import annotations

import argparse
import html
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from ascend_aclnn import catalog
from ascend_aclnn.catalog.headers import Prototype, abi_type, parse_headers, parse_prototypes
from ascend_aclnn.core.dtypes import DataType, Format

PRODUCTS = {
    "A2": "Atlas A2 训练系列产品",
    "A3": "Atlas A3 训练系列产品",
    "310P": "Atlas 推理系列产品",
    "910": "Atlas 训练系列产品",
    "310B": "Atlas 200I/500 A2 推理产品",
    "950": "Ascend 950PR",
}
DTYPES = {"FLOAT32": "FLOAT", "FLOAT64": "DOUBLE", "BFLOAT16": "BF16"}
COLUMNS = {"数据类型": "dtypes", "数据格式": "formats", "维度": "rank", "非连续": "noncontiguous"}


@dataclass
class Facts:
    """What the sources state of one operator."""

    prototype: Optional[Prototype] = None
    document: Optional[str] = None
    products: Optional[str] = None
    parameters: dict[str, dict[str, Any]] = field(default_factory=dict)


def products(text: str) -> Optional[str]:
    """The products that a document marks as supported; None where its list is of another form."""
    names = []
    for product, term in PRODUCTS.items():
        match = re.search(rf"<term>{re.escape(term)}[^<]*</term>[：:|\s]*(支持|不支持|√|×|x)", text)
        if match is None:
            return None
        names += [product] if match.group(1) in ("支持", "√") else []
    return " ".join(names)


def cells(row: str) -> list[str]:
    texts = re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row, re.DOTALL)
    return [html.unescape(re.sub(r"<[^>]+>", " ", text)).strip() for text in texts]


def parameter_tables(text: str) -> Iterator[tuple[str, dict[str, dict[str, Any]]]]:
    """For each operator of a document, the facts in the table of its parameters."""
    for section in re.split(r"^## ", text, flags=re.MULTILINE):
        match = re.match(r"(acl\w+)GetWorkspaceSize", section)
        table = re.search(r"<table.*?</table>", section, re.DOTALL)
        if match is None or table is None or "rowspan" in table.group() or "colspan" in table.group():
            continue
        rows = [cells(row) for row in re.findall(r"<tr>(.*?)</tr>", table.group(), re.DOTALL)]
        head = [next((COLUMNS[word] for word in COLUMNS if title.startswith(word)), "") for title in rows[0]]
        yield (
            match.group(1),
            {
                re.split(r"[（(\s]", row[0])[0]: parameter_facts(dict(zip(head, row)))
                for row in rows[1:]
                if row and row[0]
            },
        )


def parameter_facts(row: dict[str, str]) -> dict[str, Any]:
    """The cells of one parameter as the catalog writes them; what is not plain is left out."""
    facts: dict[str, Any] = {}
    dtypes = [DTYPES.get(word, word) for word in re.split(r"[、,，\s/]+", row.get("dtypes", "")) if word]
    if dtypes and all(name in DataType.__members__ for name in dtypes):
        facts["dtypes"] = " ".join(dtypes)
    formats = [word for word in re.split(r"[、,，\s/]+", row.get("formats", "")) if word]
    if formats and all(name in Format.__members__ for name in formats):
        facts["formats"] = " ".join(formats)
    if re.fullmatch(r"\d(-\d)?", row.get("rank", "")):
        facts["rank"] = row["rank"]
    if row.get("noncontiguous") in ("√", "×", "x"):
        facts["noncontiguous"] = row["noncontiguous"] == "√"
    return facts


def read(checkout: Path) -> dict[str, Facts]:
    """Everything that the sources below a folder state, by operator."""
    facts_of: dict[str, Facts] = {}
    # Of an operator that is there twice, contributed and regular, the regular one counts.
    for path in sorted(checkout.rglob("docs/acl*.md"), key=lambda path: ("experimental" not in path.parts, path)):
        text = path.read_text(encoding="utf-8", errors="replace")
        for name, prototype in parse_prototypes(text).items():
            facts_of[name] = Facts(prototype, path.relative_to(checkout).as_posix(), products(text))
        for name, parameters in parameter_tables(text):
            if name in facts_of:
                facts_of[name].parameters = parameters
    for name, prototype in parse_headers(checkout).items():
        facts_of.setdefault(name, Facts()).prototype = prototype
    return facts_of


def differences(name: str, facts: Facts, entry: dict[str, Any], repository: str) -> dict[str, tuple[Any, Any]]:
    """Where an entry of the catalog states something else: key -> what it has, what the sources have."""
    differences: dict[str, tuple[Any, Any]] = {}
    if facts.document is not None and entry.get("document") != f"{repository}/{facts.document}":
        differences["document"] = (entry.get("document"), f"{repository}/{facts.document}")
    if facts.products is not None and entry.get("products") != facts.products:
        differences["products"] = (entry.get("products"), facts.products)
    ours = [(abi_type(row["ctype"]), row["name"]) for row in entry["parameters"]]
    theirs = [(abi_type(ctype), parameter) for ctype, parameter in facts.prototype or ()]
    if theirs and ours != theirs:
        differences["prototype"] = (ours, theirs)
    for row in entry["parameters"]:
        if "Tensor" in row["ctype"]:
            for key, value in facts.parameters.get(row["name"], {}).items():
                if row.get(key) != value:
                    differences[f"{row['name']}.{key}"] = (row.get(key), value)
    return differences


def take_over(entry: dict[str, Any], changes: dict[str, tuple[Any, Any]]) -> None:
    """Changes an entry to what the sources state; a prototype with other parameters needs a reader and stays."""
    rows = {row["name"]: row for row in entry["parameters"]}
    for key, (_, value) in changes.items():
        parameter, _, attribute = key.rpartition(".")
        if parameter:
            rows[parameter][attribute] = value
        elif key != "prototype":
            entry[key] = value


def entry_text(name: str, entry: dict[str, Any]) -> str:
    """One entry of a data file: a line for each fact and each parameter, without blank lines."""

    def line(value: Any) -> str:
        return json.dumps(value, ensure_ascii=False)

    lines = [f"  {line(key)}: {line(value)}," for key, value in entry.items() if key != "parameters"]
    parameters = ",\n".join(f"    {line(parameter)}" for parameter in entry["parameters"])
    return "\n".join([f"{line(name)}: {{", *lines, '  "parameters": [', parameters, "  ]", "}"])


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("checkout", type=Path, help="a checkout; its folder is called as the repository")
    parser.add_argument("--write", action="store_true", help="take over what the sources state")
    options = parser.parse_args()
    repository = options.checkout.resolve().name
    facts = read(options.checkout)
    catalog_names: set[str] = set()
    changed = 0
    for path in sorted(catalog.DATA.glob(f"{repository}.*.json")):
        entries = json.loads(path.read_text(encoding="utf-8"))
        catalog_names |= entries.keys()
        for name, entry in entries.items():
            changes = differences(name, facts[name], entry, repository) if name in facts else {}
            changed += bool(changes)
            for key, (ours, theirs) in changes.items():
                print(f"{name} {key}: {ours} -> {theirs}")
            take_over(entry, changes)
        if options.write:
            texts = ",\n\n".join(entry_text(name, entry) for name, entry in entries.items())
            path.write_text("{\n" + texts + "\n}\n", encoding="utf-8")
    print(
        f"{len(catalog_names & facts.keys())} of {len(catalog_names)} operators of {repository} found, {changed} differ"
    )
    new = sorted(name for name in facts.keys() - set(catalog.names()) if not name.startswith("aclnnInner"))
    print(f"not in the catalog: {' '.join(new) or 'none'}")
    if options.write:
        done = subprocess.run(
            ["git", "-C", str(options.checkout), "log", "-1", "--format=%H %cs"],
            capture_output=True,
            text=True,
            check=True,
        )
        commit, date = done.stdout.split()
        place = catalog.FOLDER / "sources.json"
        sources = json.loads(place.read_text(encoding="utf-8"))
        snapshot = sources["snapshots"].setdefault(date[:7], {})
        snapshot[repository] = {"url": f"https://github.com/hicann/{repository}", "commit": commit, "date": date}
        place.write_text(json.dumps(sources, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
