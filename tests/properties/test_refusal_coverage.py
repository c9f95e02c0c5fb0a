"""The tables of refusals that calls reach are current: checked for a part of the operators, a larger one with what takes long."""

from __future__ import annotations

from pathlib import Path

import refusal_coverage
from long_tests import LONG

from ascend_aclnn import catalog

FOLDER = Path(__file__).parent
STEP = 48 if LONG else 96
MOST_CHECKS = 100  # of an operator with more, the search takes up to 15 s


def lines(file: str) -> list[str]:
    return [line for line in (FOLDER / file).read_text(encoding="utf-8").splitlines() if not line.startswith("#")]


def test_the_tables_are_current() -> None:
    """Where this fails, run scripts/count_refusals.py: a check may have got lost, or is reached no more."""
    table = {line.split()[0]: tuple(map(int, line.split()[1:])) for line in lines("refusal_coverage.txt")}
    unreached = lines("unreached_refusals.txt")
    assert table.keys() == set(catalog.names())
    for name in list(catalog.names())[::STEP]:
        if table[name][-1] > MOST_CHECKS:
            continue
        row = refusal_coverage.reached(catalog.get(name))
        assert row.counts == table[name], name
        assert row.lines(name) == [line for line in unreached if line.split()[0] == name]


def test_an_example_reaches_most_checks_of_its_operator() -> None:
    row = refusal_coverage.reached(catalog.get("aclnnRmsNorm"))
    passed, refused, both, listed = row.counts
    assert both <= min(passed, refused) <= listed and both > 0.8 * listed


def test_a_check_that_no_call_comes_to_is_not_passed() -> None:
    """An absent argument passes nothing, nor does a call that a group does not apply to."""
    operator = catalog.get("aclnnMm")
    search = refusal_coverage.Search(operator)
    with search.recording():
        values, chip = next(iter(search.first_calls()))
        assert search.check(values, chip).identifier == ""
        assert "aclnnMm/mat2/shape" in search.passed and not search.refused
        search.check([None, *values[1:]], chip)
    assert search.refused == {"aclnnMm/self/null"}
