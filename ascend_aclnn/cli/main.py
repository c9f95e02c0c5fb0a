"""The command line: ``ascend-aclnn doctor``, ``upgrade``, ``verify``, ``explain``, ``ops``, ``show``, ``replay``, ..."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Optional

import ascend_aclnn
from ascend_aclnn.cli import array_api, doctor, explain, recording, torch_ops, upgrade, verify
from ascend_aclnn.cli import catalog as cli_catalog
from ascend_aclnn.cli import emulator as cli_emulator
from ascend_aclnn.cli import layer as cli_layer
from ascend_aclnn.cli import native as cli_native
from ascend_aclnn.core.errors import AclError, LibraryNotFound
from ascend_aclnn.emulator.build import CompilerError


def make_parser() -> argparse.ArgumentParser:
    """The parser of all commands; what it parses has ``run``, a function of the options, unless no command was named."""
    parser = argparse.ArgumentParser(prog="ascend-aclnn", description="CANN aclnn operators from plain Python.")
    parser.add_argument("--version", action="version", version=f"ascend-aclnn {ascend_aclnn.__version__}")
    commands = parser.add_subparsers(metavar="COMMAND")
    doctor.add_commands(commands)
    explain.add_commands(commands)
    upgrade.add_commands(commands)
    verify.add_commands(commands)
    cli_catalog.add_commands(commands)
    cli_emulator.add_commands(commands)
    cli_layer.add_commands(commands)
    cli_native.add_commands(commands)
    array_api.add_commands(commands)
    recording.add_commands(commands)
    torch_ops.add_commands(commands)
    return parser


def main(argv: Optional[Sequence[str]] = None) -> int:
    """Runs one command; 0 on success, 1 when something was not found or refused, 2 for wrong usage."""
    parser = make_parser()
    options = parser.parse_args(argv)
    if not hasattr(options, "run"):
        parser.print_help()
        return 0
    try:
        return int(options.run(options) or 0)
    except BrokenPipeError:  # the reader (head, less) has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (AclError, CompilerError, LibraryNotFound, ValueError, OSError) as error:
        print(f"ascend-aclnn: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
