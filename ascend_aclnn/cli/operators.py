"""The option ``--operators`` of commands: modules that declare operators which the catalog lacks."""

from __future__ import annotations

import argparse

from ascend_aclnn.emulator import operators


def add_operators(command: argparse.ArgumentParser) -> None:
    """Adds the option."""
    command.add_argument(
        "--operators",
        action="append",
        default=[],
        metavar="MODULE",
        help="a Python module that declares operators with rules and references (a vendor's, or your own): a file, the "
        "directory of a package, or a name that can be imported; may be repeated",
    )


def load_operators(options: argparse.Namespace) -> None:
    """Loads the modules of the option, and those of the emulated device in whose environment this runs."""
    operators.load(options.operators)
    operators.load_from_environment()
