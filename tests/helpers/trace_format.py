"""Rules of the Trace Event Format, which Perfetto and chrome://tracing read: fields by phase, nesting, and what arrows join.

They are those of the format's public description, and of what Perfetto's reader drops: arrows whose ids are no numbers, and spans
of a thread that overlap without one being inside of the other. ``scripts/ask_perfetto.py`` asks Perfetto itself.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, Callable, NamedTuple

Event = dict[str, Any]

# What an event needs, by its phase.
REQUIRED = {
    "M": {"name", "pid", "args"},
    "X": {"name", "pid", "tid", "ts", "dur"},
    "C": {"name", "pid", "ts", "args"},
    "s": {"name", "cat", "id", "pid", "tid", "ts"},
    "f": {"name", "cat", "id", "pid", "tid", "ts", "bp"},
    "i": {"name", "ts", "s"},
    "b": {"name", "cat", "id", "pid", "ts"},
    "e": {"name", "cat", "id", "pid", "ts"},
}
METADATA = {"process_name", "process_labels", "process_sort_index", "thread_name", "thread_sort_index"}


_NOTHING = Decimal("1e-6")  # us: where a sum of doubles is rounded


class Arrow(NamedTuple):
    """The events at both ends of an arrow."""

    begin: Event
    end: Event


def check(events: Iterable[Event], of: Callable[[Event], bool] = lambda event: True) -> list[Arrow]:
    """AssertionError where a trace breaks a rule. The arrows that ``of`` chooses, each from inside a span to inside a span."""
    spans: dict[Any, list[tuple[Decimal, Decimal]]] = defaultdict(list)
    begins: dict[Any, Event] = {}
    ends: list[Event] = []
    for event in events:
        assert event.keys() >= REQUIRED[event["ph"]] and event["name"], event
        assert all(_time(event[name]) >= 0 for name in ("ts", "dur") if name in event), event
        assert all(isinstance(event[name], (int, str)) for name in ("pid", "tid") if name in event), event
        if event["ph"] == "M":
            assert event["name"] in METADATA, event
        elif event["ph"] == "C":
            assert all(isinstance(value, (int, float)) for value in event["args"].values()), event
        elif event["ph"] == "X":
            begin = _time(event["ts"])
            spans[event["pid"], event["tid"]].append((begin, begin + _time(event["dur"])))
        elif event["ph"] in "sf":
            int(event["id"])  # ValueError: Perfetto drops it
            if event["ph"] == "s":
                assert (event["cat"], event["name"], event["id"]) not in begins, f"two arrows have one id: {event}"
                begins[event["cat"], event["name"], event["id"]] = event
            else:
                ends.append(event)
    for place, lengths in spans.items():
        _check_nesting(place, lengths)
    arrows = [Arrow(begins[end["cat"], end["name"], end["id"]], end) for end in ends if of(end)]
    for arrow in arrows:
        assert _time(arrow.begin["ts"]) <= _time(arrow.end["ts"]) + _NOTHING, arrow
        for side in arrow:
            at, lengths = _time(side["ts"]), spans[side["pid"], side["tid"]]
            assert any(begin - _NOTHING <= at <= end + _NOTHING for begin, end in lengths), side
    assert len(arrows) >= sum(map(of, begins.values())), "an arrow has no end"
    return arrows


def _time(value: Any) -> Decimal:
    """Microseconds as they are written: a double has a quarter of one for times of the day."""
    return Decimal(str(value))


def _check_nesting(place: Any, lengths: Sequence[tuple[Decimal, Decimal]]) -> None:
    around: list[tuple[Decimal, Decimal]] = []
    for begin, end in sorted(lengths, key=lambda span: (span[0], -span[1])):
        while around and around[-1][1] <= begin + _NOTHING:
            around.pop()
        assert not around or end <= around[-1][1] + _NOTHING, (
            f"spans of {place} overlap: {around[-1]} and {(begin, end)}"
        )
        around.append((begin, end))


# ---------------------------------------------------------------------------------------------------- Perfetto

_ARROWS = (
    "SELECT a.category AS category, a.name AS launch, b.name AS run FROM flow f LEFT JOIN slice a ON f.slice_out = a.id "
    "LEFT JOIN slice b ON f.slice_in = b.id ORDER BY b.ts"
)
# A double has a quarter of a microsecond for times of the day, so that spans which touch each other overlap for Perfetto.
_TOUCHING = "slice_drop_overlapping_complete_event"


class Opened(NamedTuple):
    """What Perfetto says of a trace: arrows with the category of their begin, and what it did not understand."""

    arrows: list[dict[str, Any]]
    problems: dict[str, int]
    slices: int


def perfetto() -> Any:
    """scripts/ask_perfetto.py; the test is skipped where Perfetto or Chromium is missing."""
    import pytest

    scripts = str(Path(__file__).resolve().parents[2] / "scripts")
    if scripts not in sys.path:
        sys.path.append(scripts)
    import ask_perfetto

    if ask_perfetto.missing():
        pytest.skip(ask_perfetto.missing())
    return ask_perfetto


def opened(trace: Path, time_of_day: bool = False) -> Opened:
    """A trace as Perfetto reads it, of a profile with times of the day or of times since its begin."""
    ask_perfetto = perfetto()
    arrows, problems, (count,) = ask_perfetto.ask(
        trace, [_ARROWS, ask_perfetto.PROBLEMS, "SELECT count(*) AS slices FROM slice"]
    )
    counts = {row["name"]: row["value"] for row in problems if not (time_of_day and row["name"] == _TOUCHING)}
    return Opened(arrows, counts, count["slices"])
