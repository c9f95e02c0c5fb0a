"""The report at the end of a verification: failures first, then the units tried, left out and measured."""

from __future__ import annotations

import collections
import dataclasses
import statistics
from collections.abc import Iterator
from typing import Any, Optional

from ascend_aclnn import catalog
from ascend_aclnn.core.socs import soc
from ascend_aclnn.verify.batches import Outcome
from ascend_aclnn.verify.checks import CHECKS


def family(unit: str) -> str:
    """The family of an operator, "checks" for a check."""
    return "checks" if unit in CHECKS else catalog.get(unit).family


@dataclasses.dataclass
class Report:
    """The device, the outcome of each unit, and what ended the verification early, if anything did."""

    device: dict[str, Any]
    outcomes: list[Outcome]
    seconds: float
    stopped: Optional[str] = None

    @property
    def failed(self) -> list[Outcome]:
        return [outcome for outcome in self.outcomes if outcome.faults]

    @property
    def tried(self) -> list[Outcome]:
        return [outcome for outcome in self.outcomes if outcome.left_out is None]

    @property
    def ok(self) -> bool:
        return bool(self.tried) and not self.failed and self.stopped is None

    def left_out(self) -> dict[str, int]:
        """How many units were left out, by reason, the most frequent first."""
        reasons = (outcome.left_out for outcome in self.outcomes if outcome.left_out is not None)
        return dict(collections.Counter(reasons).most_common())

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "ok": self.ok,
            "device": self.device,
            "seconds": round(self.seconds, 1),
            "cases": sum(outcome.cases for outcome in self.outcomes),
            "failed": [outcome.unit for outcome in self.failed],
            "left_out": self.left_out(),
            "stopped": self.stopped,
            "units": [{**dataclasses.asdict(o), "family": family(o.unit)} for o in self.outcomes],
        }

    def __str__(self) -> str:
        return "\n".join(line for part in (self._failures(), self._rows()) for line in part)

    def _failures(self) -> Iterator[str]:
        if self.failed:
            yield f"{len(self.failed)} of {len(self.tried)} fail:"
        width = max((len(outcome.unit) for outcome in self.failed), default=0)
        for outcome in self.failed:
            first = outcome.faults[0]
            wrong = len({fault["case"] for fault in outcome.faults})
            where = f"{wrong} of {max(outcome.cases, wrong)} cases, first [{first['case']}]: " if first["case"] else ""
            yield f"  {outcome.unit:<{width}}  {where}{first['text'].splitlines()[0]}"
        if not self.tried and self.stopped is None:
            yield "nothing was tried"
        if self.stopped is not None:
            yield f"stopped: {self.stopped}"

    def _rows(self) -> Iterator[str]:
        yield f"device      {title(self.device)}"
        operators = [outcome for outcome in self.tried if outcome.unit not in CHECKS]
        passed = len(self.tried) - len(self.failed)
        minutes, seconds = divmod(round(self.seconds), 60)
        cases = sum(outcome.cases for outcome in operators)
        yield (
            f"verified    {passed} of {len(self.tried)} pass: {len(operators)} operators in {cases} cases, "
            f"{len(self.tried) - len(operators)} checks; {minutes}:{seconds:02}"
        )
        for reason, count in self.left_out().items():
            yield f"left out    {count}: {reason}"
        costs = [o.figures["host_us"] for o in operators if o.figures.get("host_us")]
        if costs:
            yield f"host        {statistics.median(costs):.0f} us for a call of an operator (median of {len(costs)})"
        for outcome in self.tried:
            if outcome.unit in CHECKS and outcome.figures:
                figures = ", ".join(f"{name[:-3]} {value} us" for name, value in outcome.figures.items())
                yield f"host        {figures}, with {catalog.get('aclnnAdds').name} on small tensors"


def title(device: dict[str, Any]) -> str:
    """The device in a line."""
    name = device["soc"]
    versions = f"CANN {device['cann'] or 'of unknown version'}"
    if device["driver"]:
        versions += f", driver {device['driver']}"
    kind = "emulated device, " if device["emulated"] else ""
    return f"{kind}{name} ({soc(name).title}), {versions}, {device['devices']} devices"
