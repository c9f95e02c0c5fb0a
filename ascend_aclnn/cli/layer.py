"""``ascend-aclnn layer run``: a program with a layer in front of CANN's libraries."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any

from ascend_aclnn.cli import emulator
from ascend_aclnn.emulator.build import build
from ascend_aclnn.layer import run as layer_run


def add_commands(subparsers: Any) -> None:
    """Adds ``layer run`` to the command line."""
    parser = subparsers.add_parser("layer", help="record what a program asks of CANN")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    command = commands.add_parser("run", help="run a program under the layer: layer run --record FILE -- PROGRAM ARGS")
    command.add_argument(
        "--record", metavar="FILE", type=Path, required=True, help="the recording; it must not exist yet"
    )
    command.add_argument(
        "--data",
        default="",
        metavar="WHAT",
        help="record inputs and outputs, too: all, first=N launches, sample=P (a share), or operators' names (aclnnAdd,Mm)",
    )
    command.add_argument("--stacks", action="store_true", help="record the call site of each launch")
    command.add_argument("--tensor-limit", type=_size, metavar="SIZE", help="data of larger tensors are left out (1G)")
    command.add_argument("--file-limit", type=_size, metavar="SIZE", help="no data beyond this size of the file (16G)")
    command.add_argument("program", nargs=argparse.REMAINDER, metavar="-- PROGRAM ARGS")
    command.set_defaults(run=_run)


def _size(text: str) -> int:
    match = re.fullmatch("([0-9]{1,18})([KMGT]?)", text, re.IGNORECASE | re.ASCII)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text} is not a number of bytes, as 512M or 16G")
    return int(match[1]) << 10 * " KMGT".index(match[2].upper() or " ")


def _run(options: argparse.Namespace) -> int:
    program = options.program[1:] if options.program[:1] == ["--"] else options.program
    if not program:
        print(
            "ascend-aclnn: layer run: no program given; write: ascend-aclnn layer run --record FILE -- PROGRAM ARGS",
            file=sys.stderr,
        )
        return 2
    taken = existing(options.record)
    if taken:
        raise FileExistsError(f"{taken[0]} is there already; remove it, or give another name")
    settings = layer_run.Options(options.record, options.data, options.stacks, options.tensor_limit, options.file_limit)
    try:
        variables = layer_run.environment(settings, os.environ)
    except LookupError:
        print("ascend-aclnn: this host has no CANN; the program runs on the emulated device", file=sys.stderr)
        variables = layer_run.environment(settings, emulator.environment(build()))
    executable = shutil.which(program[0], path=variables.get("PATH"))
    if executable is None:
        raise ValueError(f"layer run: {program[0]} was not found, or may not be run")
    sys.stdout.flush()
    return os.execve(executable, program, variables)  # which never returns


def existing(record: Path) -> list[Path]:
    """The files that a recording of this name would be mixed up with: it, and those of ranks and further processes."""
    pattern = re.compile(rf"{re.escape(record.stem)}(\.rank\d+)?(\.\d+)?{re.escape(record.suffix)}")
    if not record.parent.is_dir():
        raise FileNotFoundError(f"{record.parent} is no directory")
    return sorted(path for path in record.parent.iterdir() if pattern.fullmatch(path.name))
