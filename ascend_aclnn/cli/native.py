"""``ascend-aclnn native``: build the optional compiled helper, say what is used of it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from ascend_aclnn import native
from ascend_aclnn.native.library import BuildError, build


def add_commands(subparsers: Any) -> None:
    """Adds ``native build`` and ``native status`` to the command line."""
    parser = subparsers.add_parser("native", help="the compiled helper that makes the NumPy backend faster")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    command = commands.add_parser("build", help="build it with the system's C compiler")
    command.add_argument(
        "directory", nargs="?", type=Path, help="where to (default: the user's cache, where it is found)"
    )
    command.set_defaults(run=_build)

    command = commands.add_parser("status", help="whether it is used")
    command.set_defaults(run=_show_status)


def _build(options: argparse.Namespace) -> int:
    try:
        print(build(options.directory))
    except BuildError as error:
        print(f"ascend-aclnn: {error}", file=sys.stderr)
        return 1
    return 0


def _show_status(options: argparse.Namespace) -> int:
    status = native.status()
    if status.path is None:
        print(f"not used: {status.reason}")
        return 1
    print(f"{status.path} ({status.instructions})")
    return 0
