#!/usr/bin/env python3
"""Finds the first CANN release whose public headers declare each runtime function, and writes it to the catalog.

    scripts/find_function_releases.py RUNTIME_CHECKOUT

RUNTIME_CHECKOUT is a clone of the open runtime (hicann/runtime) with its tags. Functions of CANN 8.1.RC1 are known from that
release's own headers; the releases between it and 8.5.0 were never published as source, so what appeared there counts as
8.5.0.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
from pathlib import Path

DATA = Path(__file__).parent.parent / "ascend_aclnn" / "catalog" / "data" / "runtime_functions.json"
TAGS = {"8.5.0": "v8.5.0", "9.0.0": "v9.0.0", "9.1.0": "v9.1.0", "9.2.0-beta.1": "v9.2.0-beta.1"}
OLDEST = "8.1.RC1"


def declared(checkout: Path, revision: str) -> set[str]:
    """The functions that the public headers of a revision declare."""

    def git(*arguments: str) -> str:
        return subprocess.run(
            ["git", "-C", str(checkout), *arguments], capture_output=True, text=True, check=True
        ).stdout

    names = git("ls-tree", "-r", "--name-only", revision).splitlines()
    headers = [name for name in names if re.search(r"(^|/)include/external/acl/.*\.h$", name)]
    return {
        function for name in headers for function in re.findall(r"\b(acl\w+)\s*\(", git("show", f"{revision}:{name}"))
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("checkout", type=Path)
    checkout = parser.parse_args().checkout
    rows = json.loads(DATA.read_text(encoding="utf-8"))
    releases = {release: declared(checkout, tag) for release, tag in TAGS.items()}
    for name, row in rows.items():
        if row["since"] != OLDEST and name.startswith("acl"):  # HCCL's are not in the runtime
            row["since"] = next((release for release, names in releases.items() if name in names), "newer")
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(row)}" for name, row in rows.items())
    DATA.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
