"""The table of refusals that tests reach is current: checked for a part of the operators, for all with what takes long."""

from __future__ import annotations

from pathlib import Path

import refusal_coverage
from long_tests import LONG

from ascend_aclnn import catalog

TABLE = Path(__file__).with_name("refusal_coverage.txt")
STEP = 1 if LONG else 16


def rows() -> dict[str, tuple[int, int]]:
    lines = (line.split() for line in TABLE.read_text(encoding="utf-8").splitlines() if not line.startswith("#"))
    return {name: (int(reached), int(listed)) for name, reached, listed in lines}


def test_the_table_is_current() -> None:
    """Where this fails, run scripts/count_refusals.py: a check may have got lost, or is reached no more."""
    table = rows()
    assert table.keys() == set(catalog.names())
    chosen = list(catalog.names())[::STEP]
    assert {name: refusal_coverage.counts(catalog.get(name)) for name in chosen} == {n: table[n] for n in chosen}


def test_an_example_reaches_most_checks_of_its_operator() -> None:
    reached, listed = refusal_coverage.counts(catalog.get("aclnnRmsNorm"))
    assert 0 < reached <= listed and reached > 0.8 * listed
