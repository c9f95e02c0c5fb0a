#!/usr/bin/env python3
"""Compares the catalog with checkouts of the public source repositories, and takes over what they state.

    scripts/read_sources.py ops-nn ops-math          # a summary: new operators, others, prototypes, facts that differ
    scripts/read_sources.py ops-nn --check           # only what differs with a reason; exit code 1 where one is missing
    scripts/read_sources.py ops-nn --write           # takes facts, new operators and the commit into catalog/data

A checkout's folder is called as its repository: ops-nn, ops-math, ops-cv, ops-transformer, ops-ras. Prototypes come from headers
(``acl*.h``), documents (``docs/acl*.md``), functions that a source file under ``op_api/`` exports without a header, and the
definitions (``*_def.cpp``) that CANN's build generates functions from; products, dtypes, formats and ranks from the tables of the
documents. What is not stated in a form that can be read is left as the catalog has it, and so is a changed
prototype: it needs a reader. ``source_reasons.json`` beside this script has the reasons of known differences.
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
from ascend_aclnn.catalog.headers import Prototype, abi_type, guess_direction, parse_prototypes
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
COLUMNS = {
    "数据类型": "dtypes",
    "数据格式": "formats",
    "维度": "rank",
    "非连续": "noncontiguous",
    "输入/输出": "direction",
}
DIRECTIONS = {
    "输入": "in",
    "可选输入": "in",
    "输出": "out",
    "可选输出": "out",
    "输入/输出": "inout",
    "输入输出": "inout",
}
REASONS = Path(__file__).resolve().parent / "source_reasons.json"


@dataclass
class Facts:
    """What the sources state of one operator."""

    prototype: Optional[Prototype] = None
    source: str = ""  # where the prototype stands: "document", "header", "function" or "definition"
    document: Optional[str] = None
    products: Optional[str] = None
    parameters: dict[str, dict[str, Any]] = field(default_factory=dict)
    path: Path = Path()  # the file of the prototype

    def take(self, source: str, prototype: Prototype, path: Path) -> None:
        self.source, self.prototype, self.path = source, prototype, path


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
    words = [DTYPES.get(word, word) for word in re.split(r"[、,，\s/]+", row.get("dtypes", "")) if word]
    dtypes = list(dict.fromkeys(words))
    if dtypes and all(name in DataType.__members__ for name in dtypes):
        facts["dtypes"] = " ".join(dtypes)
    formats = [word for word in re.split(r"[、,，\s/]+", row.get("formats", "")) if word]
    if formats and all(name in Format.__members__ for name in formats):
        facts["formats"] = " ".join(formats)
    if re.fullmatch(r"\d(-\d)?", row.get("rank", "")):
        facts["rank"] = row["rank"]
    if row.get("noncontiguous") in ("√", "×", "x"):
        facts["noncontiguous"] = row["noncontiguous"] == "√"
    if row.get("direction") in DIRECTIONS:
        facts["direction"] = DIRECTIONS[row["direction"]]
    return facts


# How the generator of CANN's build (opbuild) names the C type of an attribute.
ATTRIBUTES = {
    "Int": "int64_t",
    "Float": "double",
    "Bool": "bool",
    "String": "char*",
    "ListInt": "const aclIntArray*",
    "ListFloat": "const aclFloatArray*",
    "ListBool": "const aclBoolArray*",
}


def camel_case(name: str) -> str:
    first, *others = name.split("_")
    return first[:1].lower() + first[1:] + "".join(word[:1].upper() + word[1:] for word in others)


def defined_prototypes(text: str) -> dict[str, Prototype]:
    """The prototypes that CANN's build generates from the definitions (``*_def.cpp``) in a text.

    Inputs come first, then attributes, then outputs. One that is input and output is called ``...Ref``; the only output ``out``.
    What is marked ``.Version(2)`` is a parameter of the function ``...V2`` only.
    """
    prototypes = {}
    text = re.sub(r"//[^\n]*", "", text)
    for match in re.finditer(r"class\s+(\w+)\s*:\s*public\s+OpDef\b(.*?)OP_ADD\(\s*\1\b", text, re.DOTALL):
        members = re.findall(r'this->(Input|Output|Attr)\(\s*"(\w+)"\s*\)(.*?);', match.group(2), re.DOTALL)
        versions = [introduced(rest, text) for _, _, rest in members]
        for version in {1, *versions}:
            name = f"aclnn{match.group(1)}" + (f"V{version}" if version > 1 else "")
            prototypes[name] = defined_prototype([row for row, since in zip(members, versions) if since <= version])
    return prototypes


def introduced(rest: str, text: str) -> int:
    """The version that brought a parameter: a number, or a constant of the text."""
    version = re.search(r"\.Version\((\w+)\)", rest)
    if version is None:
        return 1
    constant = re.search(rf"\b{version.group(1)}\s*=\s*(\d+)", text)
    return int(constant.group(1) if constant else version.group(1))


def defined_prototype(members: list[tuple[str, str, str]]) -> Prototype:
    """A prototype from the rows (Input, Output or Attr; name; properties) of a definition."""
    inputs = {name: rest for kind, name, rest in members if kind == "Input"}
    outputs = {name: rest for kind, name, rest in members if kind == "Output"}
    prototype = [
        defined_tensor(rest, camel_case(name) + ("Ref" if name in outputs else ""), changed=name in outputs)
        for name, rest in inputs.items()
    ]
    for name, rest in ((name, rest) for kind, name, rest in members if kind == "Attr"):
        ctype = next(ATTRIBUTES[kind] for kind in re.findall(r"\.(\w+)\(", rest) if kind in ATTRIBUTES)
        suffix = "Optional" if "OPTIONAL" in rest and ctype.endswith("*") else ""
        prototype.append((ctype, camel_case(name) + suffix))
    pure = {name: rest for name, rest in outputs.items() if name not in inputs}
    return prototype + [
        defined_tensor(rest, "out" if len(pure) == 1 else camel_case(name) + "Out") for name, rest in pure.items()
    ]


def defined_tensor(rest: str, name: str, changed: bool = False) -> tuple[str, str]:
    """C type and name of an input or output with these properties (what follows ``Input("name")``)."""
    ctype = "aclTensor*"
    if "ValueDepend(" in rest:  # its values are known on the host
        ctype = "aclFloatArray*" if "DT_FLOAT" in rest else "aclBoolArray*" if "DT_BOOL" in rest else "aclIntArray*"
    elif ".ScalarList()" in rest or ".Scalar()" in rest:
        ctype = "aclScalarList*" if ".ScalarList()" in rest else "aclScalar*"
    elif "DYNAMIC" in rest:
        ctype = "aclTensorList*"
    optional = re.search(r"ParamType\(\s*OPTIONAL", rest) is not None
    return ("" if changed else "const ") + ctype, name + ("Optional" if optional else "")


def generated_operators(checkout: Path) -> Iterator[tuple[Path, str, Prototype]]:
    """The operators whose C functions CANN's build generates: ``ACLNNTYPE aclnn`` in the CMakeLists.txt of the folder."""
    for path in sorted(checkout.rglob("CMakeLists.txt"), key=order):
        text = re.sub(r"#.*", "", path.read_text(encoding="utf-8", errors="replace"))
        if re.search(r"\bACLNNTYPE(\s+\w+)*?\s+aclnn\b(?!_)", text) and "template" not in path.parts:
            folder = path.parent
            for definition in sorted({*folder.glob("*_def.cpp"), *folder.glob("op_host/**/*_def.cpp")}):
                source = definition.read_text(encoding="utf-8", errors="replace")
                yield from ((definition, name, prototype) for name, prototype in defined_prototypes(source).items())


def order(path: Path) -> tuple[bool, Path]:
    """Contributed operators first: of one that is there twice the regular one counts, which comes later."""
    return "experimental" not in path.parts, path


def read(checkout: Path) -> dict[str, Facts]:
    """Everything that the sources below a folder state, by operator. Tests and examples of operators are not read."""
    facts_of: dict[str, Facts] = {}
    for path in sorted(checkout.rglob("docs/acl*.md"), key=order):
        text = path.read_text(encoding="utf-8", errors="replace")
        for name, prototype in parse_prototypes(text).items():
            if name in facts_of and name not in path.stem:
                continue  # a document of another operator that calls this one
            document = path.relative_to(checkout)
            facts_of[name] = Facts(prototype, "document", document.as_posix(), products(text), path=document)
        for name, parameters in parameter_tables(text):
            if name in facts_of and facts_of[name].document == path.relative_to(checkout).as_posix():
                facts_of[name].parameters = parameters
    for path in sorted(checkout.rglob("acl*.h"), key=order):
        for name, prototype in parse_prototypes(path.read_text(encoding="utf-8", errors="replace")).items():
            facts_of.setdefault(name, Facts()).take("header", prototype, path.relative_to(checkout))
    for path, name, prototype in generated_operators(checkout):
        facts = facts_of.setdefault(name, Facts())
        if facts.source == "" or (facts.source == "definition" and "experimental" not in path.parts):
            facts.take("definition", prototype, path.relative_to(checkout))
    for path in sorted(checkout.rglob("op_api/**/acl*.cpp"), key=order):
        text = path.read_text(encoding="utf-8", errors="replace")
        for name, prototype in parse_definitions(text).items():
            facts = facts_of.setdefault(name, Facts())
            if facts.source == "" or (facts.source == "definition" and "experimental" not in path.parts):
                facts.take("function", prototype, path.relative_to(checkout))
    return {name: facts for name, facts in facts_of.items() if not name.startswith("aclnnInner")}


def parse_definitions(text: str) -> dict[str, Prototype]:
    """The operators whose two functions a source file defines: a header may be missing, the symbols are exported."""
    return {
        name: prototype
        for name, prototype in parse_prototypes(text).items()
        if re.search(rf"\baclnnStatus\s+{name}\s*\([^()]*\)\s*\{{", text)
    }


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
                if row.get(key) != value and key != "direction":
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


def new_entry(name: str, facts: Facts, repository: str, since: str) -> dict[str, Any]:
    """The entry of an operator that the catalog does not have. A reader checks directions and what may be null."""
    folders = [part for part in facts.path.parts if part != "examples"]
    contributed = "experimental" in folders or "examples" in facts.path.parts
    family = "/".join(folders[: 2 if folders[0] == "experimental" else 1])
    snake = re.sub(r"(?<=[a-z0-9])([A-Z])|(?<=[A-Z])([A-Z][a-z])", r"_\1\2", name).lower()
    header = facts.path.name if facts.source == "header" else f"{snake}.h"
    entry: dict[str, Any] = {"header": f"aclnnop/{header}", "family": f"{repository}/{family}"}
    if facts.document is not None:
        entry["document"] = f"{repository}/{facts.document}"
    if facts.products is not None:
        entry["products"] = facts.products
    entry["since"] = since
    if contributed:
        entry["experimental"] = True
    entry["parameters"] = []
    for ctype, parameter in facts.prototype or ():
        stated = dict(facts.parameters.get(parameter, {}))
        direction = stated.pop("direction", None) or guess_direction(ctype, parameter)
        row: dict[str, Any] = {"name": parameter, "ctype": ctype}
        if direction != "in":
            row["direction"] = direction
        if parameter.endswith("Optional") and ctype.endswith("*"):
            row["optional"] = True
        entry["parameters"].append({**row, **(stated if "Tensor" in ctype else {})})
    return entry


@dataclass
class Comparison:
    """A checkout beside the catalog."""

    repository: str
    facts: dict[str, Facts]
    files: dict[Path, dict[str, dict[str, Any]]]  # the entries of each file of the repository's families
    changes: dict[str, dict[str, tuple[Any, Any]]]  # by operator

    @property
    def names(self) -> set[str]:
        return {name for entries in self.files.values() for name in entries}

    @property
    def new(self) -> list[str]:
        return sorted(self.facts.keys() - set(catalog.names()))

    @property
    def gone(self) -> list[str]:
        return sorted(self.names - self.facts.keys())

    def remarks(self) -> dict[str, str]:
        """What differs: a key that ``source_reasons.json`` may have (``aclnnX``, ``aclnnX products``) and a sentence."""
        remarks = {name: f"not in the catalog ({self.facts[name].source} {self.facts[name].path})" for name in self.new}
        remarks |= dict.fromkeys(self.gone, "not in the sources")
        for name, changes in self.changes.items():
            for key, (ours, theirs) in changes.items():
                text = prototype_change(ours, theirs) if key == "prototype" else f"{ours} -> {theirs}"
                remarks[f"{name} {key}"] = text
        return remarks


def prototype_change(ours: Prototype, theirs: Prototype) -> str:
    """The parameters that are not the same; where they are, their order is."""
    only_ours = [f"{ctype} {name}" for ctype, name in ours if (ctype, name) not in theirs]
    only_theirs = [f"{ctype} {name}" for ctype, name in theirs if (ctype, name) not in ours]
    if not only_ours and not only_theirs:
        return "order: " + ", ".join(name for _, name in theirs)
    return f"{', '.join(only_ours) or 'nothing'} -> {', '.join(only_theirs) or 'nothing'}"


def compare(checkout: Path) -> Comparison:
    """Reads a checkout and the catalog's files of its repository."""
    repository = checkout.absolute().name
    facts = read(checkout)
    files = {
        path: json.loads(path.read_text(encoding="utf-8")) for path in sorted(catalog.DATA.glob(f"{repository}.*.json"))
    }
    changes = {
        name: found
        for entries in files.values()
        for name, entry in entries.items()
        if name in facts and (found := differences(name, facts[name], entry, repository))
    }
    return Comparison(repository, facts, files, changes)


def reason(key: str, reasons: dict[str, str]) -> Optional[str]:
    """The reason of a difference: under its own key, or one with a ``*`` at its end."""
    return reasons.get(key) or next(
        (text for pattern, text in reasons.items() if pattern.endswith("*") and key.startswith(pattern[:-1])), None
    )


def summary(comparison: Comparison, reasons: dict[str, str]) -> Iterator[str]:
    """A reviewer's summary: what is new, what is gone, which prototypes and which facts differ."""
    remarks = {key: text for key, text in comparison.remarks().items() if reason(key, reasons) is None}
    known = len(comparison.names & comparison.facts.keys())
    yield f"{comparison.repository}: {known} of {len(comparison.names)} operators found, {len(comparison.changes)} differ"
    prototypes = [key for key in remarks if key.endswith(" prototype")]
    facts = [key for key in remarks if " " in key and key not in prototypes]
    groups = {
        "new": [name for name in comparison.new if name in remarks],
        "gone": [name for name in comparison.gone if name in remarks],
        "prototypes": prototypes,
        "facts": facts,
    }
    for title, keys in groups.items():
        yield f"  {title}: {len(keys)}"
        yield from (f"    {key}: {remarks[key]}" for key in keys)


def write(comparison: Comparison, checkout: Path, reasons: dict[str, str]) -> None:
    """Takes over facts and new operators that no reason keeps apart, and the checkout's commit."""
    command = ["git", "-C", str(checkout), "log", "-1", "--format=%H %cs"]
    commit, date = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    for name, changes in comparison.changes.items():
        kept = {key: change for key, change in changes.items() if reason(f"{name} {key}", reasons) is None}
        take_over(next(entries[name] for entries in comparison.files.values() if name in entries), kept)
    for name in comparison.new:
        if reason(name, reasons) is None:
            entry = new_entry(name, comparison.facts[name], comparison.repository, date[:7])
            path = catalog.DATA / (entry["family"].replace("/", ".") + ".json")
            comparison.files.setdefault(path, {})[name] = entry
    for path, entries in comparison.files.items():
        texts = ",\n\n".join(entry_text(name, entries[name]) for name in sorted(entries))
        path.write_text("{\n" + texts + "\n}\n", encoding="utf-8")
    place = catalog.FOLDER / "sources.json"
    sources = json.loads(place.read_text(encoding="utf-8"))
    snapshot = sources["snapshots"].setdefault(date[:7], {})
    url = snapshot.get(comparison.repository, {}).get("url", f"https://github.com/hicann/{comparison.repository}")
    snapshot[comparison.repository] = {"url": url, "commit": commit, "date": date}
    place.write_text(json.dumps(sources, indent=1) + "\n", encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "checkouts", type=Path, nargs="+", help="checkouts; their folders are called as the repositories"
    )
    parser.add_argument("--check", action="store_true", help="print only reasons; exit code 1 where one is missing")
    parser.add_argument("--write", action="store_true", help="take over what the sources state")
    options = parser.parse_args()
    reasons: dict[str, str] = json.loads(REASONS.read_text(encoding="utf-8"))
    missing = 0
    for checkout in options.checkouts:
        comparison = compare(checkout)
        remarks = comparison.remarks()
        if options.check:
            for key, text in remarks.items():
                why = reason(key, reasons)
                missing += why is None
                print(f"{key}: {why}" if why is not None else f"{key}: NO REASON: {text}")
        else:
            print("\n".join(summary(comparison, reasons)))
        if options.write:
            write(comparison, checkout, reasons)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
