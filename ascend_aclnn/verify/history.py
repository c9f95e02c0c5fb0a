"""Two results of ``verify`` beside each other: what became wrong, what was mended, what is left out now, what became slower."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Optional

SLOWER = 2.0  # times the host's cost of a call before; what varies from run to run is less
LEAST = 20.0  # microseconds by which a call has to be slower
_SHOWN = 50  # lines of a part


@dataclasses.dataclass
class History:
    """What differs from an older result. Each part has the texts by unit."""

    wrong: dict[str, str]
    mended: dict[str, str]
    left_out: dict[str, str]
    slower: dict[str, str]
    faster: dict[str, str]
    changed: list[str]  # of the devices and versions
    missing: int  # units of the older result that this run did not try

    @property
    def ok(self) -> bool:
        """Nothing became wrong."""
        return not self.wrong

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        return {"ok": self.ok, **dataclasses.asdict(self), "slower_factor": SLOWER}

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield from (f"changed     {line}" for line in self.changed)
        parts = (
            ("became wrong", self.wrong),
            ("mended", self.mended),
            ("left out now, and was not", self.left_out),
            (f"slower on the host (beyond {SLOWER:g} times, {LEAST:g} us)", self.slower),
            (f"faster on the host (beyond {SLOWER:g} times, {LEAST:g} us)", self.faster),
        )
        for title, units in parts:
            if units:
                yield f"{title}: {len(units)}"
                yield from (f"  {unit}  {text}" for unit, text in list(units.items())[:_SHOWN])
                if len(units) > _SHOWN:
                    yield f"  ... {len(units) - _SHOWN} more; --json lists all"
        if self.missing:
            yield f"of the older run, {self.missing} were not tried in this one"
        if not any(units for _, units in parts):
            yield "nothing became wrong, mended, left out, slower or faster"


def read(path: Path) -> dict[str, Any]:
    """A result that ``verify --report`` or ``--json`` has written; ValueError where it is none."""
    try:
        result = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is no result of verify: {error}") from None
    if not isinstance(result, dict) or not isinstance(result.get("units"), list) or "device" not in result:
        raise ValueError(f"{path} is no result of verify; it must be a result.json of --report, or what --json prints")
    return result


def compare(old: dict[str, Any], new: dict[str, Any]) -> History:
    """What differs between two results."""
    before = {unit["unit"]: unit for unit in old["units"]}
    after = {unit["unit"]: unit for unit in new["units"]}
    history = History({}, {}, {}, {}, {}, list(_changed(old, new)), sum(unit not in after for unit in before))
    for name, unit in after.items():
        was = before.get(name)
        wrong = _wrong(was, unit)
        if wrong:
            history.wrong[name] = wrong
        if was is None:
            continue
        tried, tries = was["left_out"] is None, unit["left_out"] is None
        if tried and not tries:
            history.left_out[name] = unit["left_out"]
        if was["faults"] and tries and not unit["faults"]:
            history.mended[name] = f"was: {_text(was['faults'][0])}"
        _note_cost(history, name, was, unit)
    return history


def _wrong(was: Optional[dict[str, Any]], unit: dict[str, Any]) -> str:
    """What fails now and did not before; "" where nothing does."""
    if not unit["faults"]:
        return ""
    known = {fault["case"] for fault in was["faults"]} if was is not None else set()
    new = [fault for fault in unit["faults"] if fault["case"] not in known]
    if not new:
        return ""
    cases = len({fault["case"] for fault in new})
    state = "was not in the older run; " if was is None else "was left out; " if was["left_out"] is not None else ""
    return f"{state}{cases} of {max(unit['cases'], cases)} cases: {_text(new[0])}"


def _text(fault: dict[str, Any]) -> str:
    where = f"[{fault['case']}] " if fault["case"] else ""
    return where + str(fault["text"]).partition("\n")[0]


def _note_cost(history: History, name: str, was: dict[str, Any], unit: dict[str, Any]) -> None:
    before, after = was["figures"].get("host_us"), unit["figures"].get("host_us")
    if not before or not after or abs(after - before) < LEAST:
        return
    text = f"{after:g} us, was {before:g} us"
    if after > SLOWER * before:
        history.slower[name] = text
    elif before > SLOWER * after:
        history.faster[name] = text


def _changed(old: dict[str, Any], new: dict[str, Any]) -> Iterator[str]:
    """What else differs: the device, CANN, versions, seeds."""
    for part in ("device", "environment"):
        before, after = old.get(part) or {}, new.get(part) or {}
        for name in dict.fromkeys([*before, *after]):
            if before.get(name) != after.get(name):
                yield f"{name}: {after.get(name)}, was {before.get(name)}"
    for name in ("seed", "all"):
        if name in old and old[name] != new.get(name):
            yield f"{name}: {new.get(name)}, was {old[name]}"


__all__ = ["LEAST", "SLOWER", "History", "compare", "read"]
