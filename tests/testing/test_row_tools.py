"""Rows of one test: each runs, whatever the others do, and each failure is named."""

from __future__ import annotations

import pytest
from row_tools import in_one_test


def test_every_row_runs_and_every_failure_is_named() -> None:
    ran = []

    @in_one_test("x,y", [(0, 1), (2, 3)])
    @in_one_test("how", ["passes", "is wrong", "fails", "is skipped", "raises nothing"])
    def test(fixture: str, x: int, y: int, how: str) -> None:
        ran.append((fixture, x, y, how))
        if x and how == "fails":
            pytest.fail("so it is")
        if x and how == "is skipped":
            pytest.skip("no such thing")
        if x and how == "raises nothing":
            with pytest.raises(ValueError):
                pass
        assert x == 0 or how != "is wrong", "wrong"

    with pytest.raises(AssertionError) as caught:
        test(fixture="f")
    assert len(ran) == len(set(ran)) == 10
    text = str(caught.value)
    assert "1 of 2 rows failed\nx=2, y=3: AssertionError: 4 of 5 rows failed" in text
    assert [
        how for how in ("passes", "is wrong", "fails", "is skipped", "raises nothing") if f"how={how}:" in text
    ] == [
        "is wrong",
        "fails",
        "is skipped",
        "raises nothing",
    ]


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@in_one_test("row", range(3))
def test_other_parameters_and_fixtures_are_pytests(dtype: str, row: int, request: pytest.FixtureRequest) -> None:
    assert request.node.name == f"test_other_parameters_and_fixtures_are_pytests[{dtype}]" and row in (0, 1, 2)
