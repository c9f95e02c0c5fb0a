"""The pages of docs/results: what a benchmark measured, with its date, machine and commit. ``bench_*.py --write`` writes them."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Optional

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "results"
PACKAGES = ("numpy", "ml_dtypes", "torch", "torch_npu")


class Table(NamedTuple):
    """Cells as they are printed; a first column of names, and numbers."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    title: str = ""


def page(title: str, conditions: Mapping[str, str], text: str, tables: Sequence[Table]) -> str:
    """A page in Markdown. ``conditions`` has ``command``, ``date``, ``commit``, ``machine`` and ``software``."""
    lines = ["<!-- Made by the command below; do not edit. -->", f"# {title}", "", "| | |", "|---|---|"]
    lines += [f"| {name} | {value} |" for name, value in conditions.items()]
    lines += ["", text]
    for table in tables:
        lines += ["", *([f"## {table.title}", ""] if table.title else [])]
        lines += [f"| {' | '.join(table.head)} |", f"|---{'|---:' * (len(table.head) - 1)}|"]
        lines += [f"| {' | '.join(row)} |" for row in table.rows]
    return "\n".join(lines) + "\n"


def conditions(command: str) -> dict[str, str]:
    """What a figure depends on, as it is now; the load is that of the last minute, this benchmark's own included."""
    return {
        "command": f"`{command}`",
        "date": time.strftime("%Y-%m-%d"),
        "commit": commit(),
        "machine": f"{processor()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}",
        "software": ", ".join([f"Python {platform.python_version()}", *filter(None, map(version, PACKAGES))]),
    }


def write(name: str, title: str, command: str, text: str, tables: Sequence[Table]) -> None:
    FOLDER.mkdir(exist_ok=True)
    path = FOLDER / f"{name}.md"
    path.write_text(page(title, conditions(command), text, tables), encoding="utf-8")
    print(f"written: {path.relative_to(ROOT)}")


def commit() -> str:
    """The commit of the checkout, and whether files differ from it."""
    git = ["git", "-C", str(ROOT)]
    name = subprocess.run([*git, "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    if name.returncode != 0:
        return "not known"
    changed = subprocess.run([*git, "diff", "--quiet", "HEAD", "--", ".", ":!docs"]).returncode
    return name.stdout.strip() + (", changed" if changed else "")


def processor() -> str:
    """The processor's name as the system has it."""
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return f"{line.partition(':')[2].strip()} ({platform.machine()})"
    return platform.machine()


def version(package: str) -> Optional[str]:
    try:
        return f"{package} {importlib.metadata.version(package)}"
    except importlib.metadata.PackageNotFoundError:
        return None
