"""The Array API's own test suite on ``ascend_aclnn.array_api``: what passes, and why the rest does not.

The suite is a checkout of https://github.com/data-apis/array-api-tests; its requirements are in its requirements.txt.
"""

from __future__ import annotations

import collections
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

from ascend_aclnn import array_api


class Result(NamedTuple):
    """What the suite says."""

    passed: int
    skipped: int
    excluded: dict[str, int]  # reason of ``array_api.EXCLUSIONS`` -> tests that fail for it
    failed: list[str]  # tests that fail and should not

    def __str__(self) -> str:
        lines = [array_api.report(self.excluded), *(f"fails        {name}" for name in self.failed)]
        counts = [
            f"{self.passed} pass",
            f"{len(self.failed)} fail",
            f"{sum(self.excluded.values())} are excluded",
            f"{self.skipped} are skipped",
        ]
        return "\n".join([*lines, f"array-api-tests: {', '.join(counts)}"])


def run(checkout: Path, examples: int, arguments: Sequence[str] = ()) -> Result:
    """Runs the suite of a checkout, whose own output goes to standard error; ValueError where it cannot run.

    ``examples`` are tried by each test; ``arguments`` are pytest's.
    """
    if not (checkout / "array_api_tests").is_dir():
        raise ValueError(f"{checkout} is no checkout of array-api-tests: it has no folder array_api_tests")
    environment = {
        **os.environ,
        "ARRAY_API_TESTS_MODULE": array_api.__name__,
        "ARRAY_API_TESTS_VERSION": array_api.VERSIONS[-1],
        "ARRAY_API_TESTS_SKIP_DTYPES": ",".join(array_api.STORAGE_ONLY),
    }
    with tempfile.TemporaryDirectory(prefix="ascend-aclnn-array-api-") as folder:
        report = Path(folder) / "report.xml"
        options = [
            "--tb=no",
            "--no-summary",
            f"--max-examples={examples}",
            "--disable-deadline",
            f"--junitxml={report}",
        ]
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            *options,
            "array_api_tests",
            *arguments,
        ]
        done = subprocess.run(command, cwd=checkout, env=environment, stdout=sys.stderr.fileno(), check=False)
        if done.returncode not in (0, 1) or not report.is_file():
            requirements = checkout / "requirements.txt"
            raise ValueError(
                f"array-api-tests cannot be run (pytest: {done.returncode}); pip install -r {requirements}"
            )
        return summary(ElementTree.parse(report).iter("testcase"))


def summary(cases: Iterable[ElementTree.Element]) -> Result:
    """Test cases of a JUnit report, sorted."""
    passed = skipped = 0
    failed: list[str] = []
    excluded: collections.Counter[str] = collections.Counter()
    for case in cases:
        kinds = {child.tag for child in case}
        if "skipped" in kinds:
            skipped += 1
        elif kinds.isdisjoint(("failure", "error")):
            passed += 1
        else:
            module = case.get("classname", "").rpartition(".")[2]
            name = f"{module}.py::{case.get('name')}"
            reason = next((e.reason for e in array_api.EXCLUSIONS if re.match(e.tests, name)), None)
            if reason is None:
                failed.append(name)
            else:
                excluded[reason] += 1
    return Result(passed, skipped, dict(excluded), failed)
