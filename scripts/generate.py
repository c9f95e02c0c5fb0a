#!/usr/bin/env python3
"""Writes what is derived from data: the type stub, the operator pages, the page of error codes, the notebook's outputs.

    scripts/generate.py            # writes what has changed
    scripts/generate.py --check    # writes nothing; fails where a committed file is not what would be written

Run it after changing the catalog or the error codes, or after adding rules or references. Every module of
``scripts/generators`` that is part of it has ``files()``, the text of each file by its path, and ``FOLDER``, a folder that
holds nothing else (or None).
"""

from __future__ import annotations

import argparse
import difflib
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from generators import errors, notebook, pages, stub

ROOT = Path(__file__).resolve().parent.parent
PARTS = (stub, pages, errors, notebook)
SHOWN = 12  # lines of a difference that --check prints


def generated() -> dict[Path, str]:
    """The text of every generated file; "" for one that should not be there."""
    files: dict[Path, str] = {}
    for part in PARTS:
        if part.FOLDER is not None:
            files.update(dict.fromkeys(part.FOLDER.glob("*"), ""))
        files.update(part.files())
    return files


def present(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def report(path: Path, text: str) -> str:
    """The first lines in which a committed file differs from what would be written."""
    lines = difflib.unified_diff(present(path).splitlines(), text.splitlines(), "committed", "generated", "", "", 0)
    shown = [line.rstrip() for line in lines][: SHOWN + 1]
    return "\n  ".join([f"{path.relative_to(ROOT)}:", *shown[:SHOWN], *(["..."] if len(shown) > SHOWN else [])])


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a committed file would change")
    arguments = parser.parse_args()
    stale = {path: text for path, text in generated().items() if present(path) != text}
    if arguments.check:
        for path, text in sorted(stale.items()):
            print(report(path, text))
        print(f"{len(stale)} stale files: run scripts/generate.py" if stale else "generated files are up to date")
        return 1 if stale else 0
    for path, text in stale.items():
        if text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        else:
            path.unlink()
    print("\n".join(sorted(str(path.relative_to(ROOT)) for path in stale)) or "nothing has changed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
