#!/usr/bin/env python3
"""Compiles the catalog's prototypes against the headers of an installed CANN.

For every operator that the headers declare, C++ is generated that includes its header and declares both phases once
more as the catalog has them; C linkage makes the compiler refuse any difference. Run it after installing another CANN:

    scripts/check_prototypes.py /usr/local/Ascend/ascend-toolkit/latest/include
    scripts/check_prototypes.py DIR_WITH_ACLNNOP --include DIR_WITH_ACLNN_BASE_H

Exit status 0: every operator found agrees. 1: some do not, or none was found.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from ascend_aclnn import catalog
from ascend_aclnn.catalog.headers import header_files, parse_prototypes
from ascend_aclnn.catalog.signature import c_prototype

# Headers that are compiled together. One file per header would be exact about include guards that two headers share,
# and slow; so a batch that fails is compiled again header by header.
BATCH = 40


def source(directory: Path, headers: dict[Path, list[str]]) -> str:
    """C++ that includes headers and redeclares the operators they declare."""
    lines = ["// Made by scripts/check_prototypes.py"]
    for path in headers:
        lines.append(f'#include "{path.relative_to(directory)}"')
    lines.append('extern "C" {')
    for operators in headers.values():
        lines += [c_prototype(catalog.get(name)) for name in operators]
    lines += ["}", *(f"void* use_{name} = (void*)&{name};" for names in headers.values() for name in names)]
    return "\n".join(lines) + "\n"


def compiles(text: str, compiler: str, includes: list[Path]) -> str:
    """The compiler's complaints about a source text, "" where it has none."""
    command = [compiler, "-x", "c++", "-std=c++17", "-fsyntax-only", "-w", "-"]
    for include in includes:
        command[1:1] = ["-I", str(include)]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stderr


def include_directories(directory: Path, more: list[Path]) -> list[Path]:
    """The directory itself, its parent where it is ``aclnnop``, and what the caller names."""
    top = directory.parent if directory.name == "aclnnop" else directory
    return [top, top / "aclnnop", top / "aclnnop" / "level2", *more]


def check(directory: Path, compiler: str, includes: list[Path], jobs: int) -> dict[str, str]:
    """Operator -> complaint ("" where it agrees), for every operator of the catalog that the headers declare."""
    catalog_names = set(catalog.names())
    headers: dict[Path, list[str]] = {}
    seen: set[str] = set()
    for path in header_files(directory):
        names = [
            n for n in parse_prototypes(path.read_text("utf-8", "replace")) if n in catalog_names and n not in seen
        ]
        if names:
            headers[path] = names
            seen.update(names)
    rows = list(headers.items())
    batches = [dict(rows[i : i + BATCH]) for i in range(0, len(rows), BATCH)]

    def check_batch(batch: dict[Path, list[str]]) -> dict[str, str]:
        if not compiles(source(directory, batch), compiler, includes):
            return {name: "" for names in batch.values() for name in names}
        complaints = {}
        for path, names in batch.items():
            for name in names:
                complaints[name] = compiles(source(directory, {path: [name]}), compiler, includes)
        return complaints

    with ThreadPoolExecutor(jobs) as pool:
        return {name: text for complaints in pool.map(check_batch, batches) for name, text in complaints.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("directory", type=Path, help="include directory of a CANN, the one that holds aclnnop/")
    parser.add_argument("--include", type=Path, action="append", default=[], help="another include directory")
    parser.add_argument("--compiler", default=os.environ.get("CXX", "c++"))
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    directory = arguments.directory.resolve()
    includes = include_directories(directory, arguments.include)
    complaints = check(directory, arguments.compiler, includes, arguments.jobs)
    wrong = {name: complaint for name, complaint in complaints.items() if complaint}
    for name, complaint in wrong.items():
        errors = [line for line in complaint.splitlines() if "error" in line] or complaint.splitlines()[:1]
        print(f"{name}: {errors[0]}")
    print(f"{len(complaints) - len(wrong)} of {len(complaints)} operators agree with {directory}")
    return 1 if wrong or not complaints else 0


if __name__ == "__main__":
    sys.exit(main())
