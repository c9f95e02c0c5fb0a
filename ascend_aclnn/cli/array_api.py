"""``ascend-aclnn array-api``: how much of the Array API standard there is."""

from __future__ import annotations

import argparse
from typing import Any


def add_commands(commands: Any) -> None:
    parser = commands.add_parser("array-api", help="the share of the Array API's functions, and what is excluded")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> None:
    from ascend_aclnn import array_api

    print(array_api.report())
