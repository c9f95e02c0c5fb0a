"""The report at the end of a verification: failures first, then the units tried, left out and measured."""

from __future__ import annotations

import collections
import dataclasses
import json
import platform
import statistics
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any, Optional

from ascend_aclnn import catalog
from ascend_aclnn.core import files
from ascend_aclnn.core.socs import soc
from ascend_aclnn.verify.batches import Outcome
from ascend_aclnn.verify.checks import CHECKS
from ascend_aclnn.version import __version__

RESULT, PAGE, CASES = "result.json", "index.html", "cases"  # in the directory of a report
FORMAT = 1  # of result.json
_PACKAGES = ("numpy", "ml_dtypes", "torch", "torch_npu")


def family(unit: str) -> str:
    """The family of an operator, "checks" for a check."""
    return "checks" if unit in CHECKS else catalog.get(unit).family


def _replace(directory: Path, name: str, content: str) -> None:
    new = directory / f".{name}.new"
    new.write_text(content, encoding="utf-8")
    files.move(new, directory / name)


@dataclasses.dataclass
class Report:
    """The device, the outcome of each unit, and what ended the verification early, if anything did."""

    device: dict[str, Any]
    outcomes: list[Outcome]
    seconds: float
    stopped: Optional[str] = None
    seed: int = 0
    thorough: bool = False
    sample: int = 0  # cases of each operator; 0: not a sampled run
    left: list[str] = dataclasses.field(default_factory=list)  # not tried for want of time

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
            "format": FORMAT,
            "ok": self.ok,
            "seed": self.seed,
            "all": self.thorough,
            "sample": self.sample,
            "environment": environment(),
            "device": self.device,
            "seconds": round(self.seconds, 1),
            "cases": sum(outcome.cases for outcome in self.outcomes),
            "failed": [outcome.unit for outcome in self.failed],
            "left_out": self.left_out(),
            "stopped": self.stopped,
            "left": self.left,
            "units": [{**dataclasses.asdict(o), "family": family(o.unit)} for o in self.outcomes],
        }

    def write(self, directory: Path) -> None:
        """Writes ``result.json`` and ``index.html``; each is whole at any time."""
        from ascend_aclnn.verify.page import page  # only a report needs it

        result = self.to_json()
        _replace(directory, RESULT, json.dumps(result, indent=1))
        _replace(directory, PAGE, page(result))

    def save(self, directory: Path) -> None:
        """Writes ``result.json`` alone."""
        _replace(directory, RESULT, json.dumps(self.to_json(), indent=1))

    def __str__(self) -> str:
        return "\n".join(line for part in (self._failures(), self._rows()) for line in part)

    def _failures(self) -> Iterator[str]:
        if self.failed:
            yield f"{len(self.failed)} of {len(self.tried)} fail:"
        width = max((len(outcome.unit) for outcome in self.failed), default=0)
        for outcome in self.failed:
            first = outcome.faults[0]
            wrong = len({fault["case"] for fault in outcome.faults})
            case = _case(outcome.unit, first)
            where = f"{wrong} of {max(outcome.cases, wrong)} cases, first {case}: " if first["case"] else ""
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
        if self.left:
            yield f"not tried   {len(self.left)}: the time was up; the same command goes on"
        for reason, count in self.left_out().items():
            yield f"left out    {count}: {reason}"
        costs = [o.figures["host_us"] for o in operators if o.figures.get("host_us")]
        if costs:
            yield f"host        {statistics.median(costs):.0f} us for a call of an operator (median of {len(costs)})"
        for outcome in self.tried:
            if outcome.unit in CHECKS and outcome.figures:
                figures = ", ".join(f"{name[:-3]} {value} us" for name, value in outcome.figures.items())
                yield f"host        {figures}, with {catalog.get('aclnnAdds').name} on small tensors"


def _case(unit: str, fault: dict[str, Any]) -> str:
    """A case by its number in the suite, and its label."""
    number = "" if fault.get("number") is None else f"{fault['number']:04} "
    return f"[{number}{fault['case']}]"


def environment() -> dict[str, str]:
    """Versions of what takes part on the host."""
    versions = {"ascend_aclnn": __version__, "python": platform.python_version()}
    for package in _PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return {**versions, "system": f"{platform.system()} {platform.release()} {platform.machine()}"}


def title(device: dict[str, Any]) -> str:
    """The device in a line."""
    name = device["soc"]
    if not device["devices"]:
        return f"NumPy references, by the rules of {name} ({soc(name).title})"
    versions = f"CANN {device['cann'] or 'of unknown version'}"
    if device["driver"]:
        versions += f", driver {device['driver']}"
    kind = "emulated device, " if device["emulated"] else ""
    return f"{kind}{name} ({soc(name).title}), {versions}, {device['devices']} devices"
