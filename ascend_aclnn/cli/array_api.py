"""``ascend-aclnn array-api``: how much of the Array API standard there is."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any


def add_commands(commands: Any) -> None:
    parser = commands.add_parser("array-api", help="the share of the Array API's functions, and what is excluded")
    parser.add_argument(
        "--tests",
        type=Path,
        metavar="CHECKOUT",
        help="run the suite of a checkout of data-apis/array-api-tests (minutes)",
    )
    parser.add_argument("--examples", type=int, default=10, help="examples that each of its tests tries (default: 10)")
    parser.add_argument("arguments", nargs="*", metavar="-- ARGUMENT", help="further arguments of the suite's pytest")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    if options.tests is None:
        from ascend_aclnn import array_api

        print(array_api.report())
        return 0
    from ascend_aclnn.verify import array_api_tests

    result = array_api_tests.run(options.tests, options.examples, options.arguments)
    print(result)
    return int(bool(result.failed))
