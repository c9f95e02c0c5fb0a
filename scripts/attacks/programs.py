"""Stress programs of the tests, with what takes long."""

from __future__ import annotations

import os
import sys

from attacks.runtime import call_program
from attacks.scenario import Run, patience, scenario

TESTS = (
    "tests/emulator/test_safety.py::test_threads_at_once_have_no_data_races",
    "tests/emulator/test_safety.py::test_entry_points_hold_under_sanitizers",
    "tests/emulator/test_safety.py::test_lists_that_cannot_be_made_hold_under_sanitizers",
    "tests/emulator/test_safety.py::test_blocks_are_what_a_simple_model_says",
    "tests/collectives/test_random_programs.py",
)


@scenario(seconds=60, beyond=360, ASCEND_ACLNN_LONG="1")
def stress_tests(run: Run) -> None:
    """Threads that do everything at once under sanitizers, random programs of collectives: the tests that take long."""
    os.environ["ASCEND_ACLNN_PROGRAMS"] = "100"
    for choice in run.rounds():
        test = choice.choice(TESTS)
        base = run.directory / f"pytest{run.round}"
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-n",
            "0",
            "-p",
            "no:cacheprovider",
            f"--basetemp={base}",
            test,
        ]
        call_program(run, command, patience(300), test.rpartition("/")[2])
