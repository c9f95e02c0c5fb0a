#!/usr/bin/env python3
"""Records the calls of tests that pass checks no example passes, in tests/properties/recorded_calls.jsonl.

scripts/record_calls.py                        # runs the tests of rules, references and calls; takes some minutes
scripts/record_calls.py tests/rules/test_x.py  # runs these, and keeps what was recorded of others

Then scripts/count_refusals.py counts what the search of refusals reaches from there.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "helpers")]

import pytest  # noqa: E402
import recorded_calls  # noqa: E402
import refusal_coverage  # noqa: E402
from recorded_calls import RecordedCall  # noqa: E402

from ascend_aclnn import catalog  # noqa: E402
from ascend_aclnn.rules import Call, Rule  # noqa: E402

TESTS = ("tests/rules", "tests/reference", "tests/call")


def calls_of_tests(paths: Sequence[str]) -> dict[str, RecordedCall]:
    """Every call that the tests check, once, by its text."""
    names = set(catalog.names())
    calls: dict[str, RecordedCall] = {}
    check = Rule.check

    def record(rule: Rule, call: Call) -> None:
        if call.operator.name in names:
            recorded = RecordedCall(call.operator.name, call.soc.name, refusal_coverage.plain(list(call.values)))
            calls.setdefault(recorded_calls.text(recorded), recorded)
        check(rule, call)

    with mock.patch.object(Rule, "check", record):
        # The package is imported before pytest can rewrite the assertions of its plugin.
        options = ["-q", "-p", "no:randomly", "-n", "0", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
        status = pytest.main([*options, *(str(ROOT / path) for path in paths)])
    if status != 0:
        raise SystemExit(f"the tests failed ({status}): nothing is recorded")
    return calls


def new_ones(calls: dict[str, RecordedCall]) -> Iterator[RecordedCall]:
    """Those that pass a check that the operator's example and the calls before do not."""
    by_operator: dict[str, list[RecordedCall]] = {}
    for call in calls.values():
        by_operator.setdefault(call.operator, []).append(call)
    for name, others in sorted(by_operator.items()):
        search = refusal_coverage.Search(catalog.get(name))
        with search.recording():
            for values, chip in search.example_calls():
                search.check(values, chip)
            for call in others:
                before = len(search.passed)
                search.check(call.values, call.soc)
                if len(search.passed) > before:
                    yield call


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("tests", nargs="*", help="the tests to run; all by default")
    tests = parser.parse_args().tests
    calls: dict[str, RecordedCall] = {}
    if tests:
        calls = {recorded_calls.text(call): call for some in recorded_calls.read().values() for call in some}
    for text, call in calls_of_tests(tests or TESTS).items():
        calls.setdefault(text, call)
    recorded_calls.write(list(new_ones(calls)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
