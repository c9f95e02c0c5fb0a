"""Compares a program's launches with their references while it runs, and tells the origin of an error from its victims."""

from __future__ import annotations

import bisect
from collections.abc import Generator, Iterator
from typing import Any, NamedTuple, Optional

import numpy as np

from ascend_aclnn.core.errors import status_name
from ascend_aclnn.recording import Launch, Recording, RecordingError, TensorValue, shown_frames
from ascend_aclnn.replay import Outcome, replay
from ascend_aclnn.replay.failures import Failures


class Finding(NamedTuple):
    """What is wrong with a launch; ``inputs`` says which of its inputs were wrong before it, and from which launch on."""

    launch: Launch
    kind: str  # "wrong result", "error", NOT_FINITE
    text: str
    inputs: tuple[str, ...] = ()  # where its inputs came from
    outcome: Optional[Outcome] = None

    @property
    def title(self) -> str:
        return f"#{self.launch.index} {self.launch.operator.name}"

    @property
    def is_fault(self) -> bool:
        """Whether something is wrong: NaN and infinity may be meant."""
        return self.kind != NOT_FINITE

    def __str__(self) -> str:
        lines = [f"{self.title}: {self.kind}: {self.text}"]
        lines += [f"  {line}" for line in self.inputs]
        if self.outcome is not None:
            for name, comparison in self.outcome.comparisons.items():
                if not comparison.accurate:
                    lines += [
                        f"  {name}{list(d.index)} is {d.actual}, golden {d.golden}" for d in comparison.worst[:_WORST]
                    ]
        lines += [f"  at {frame}" for frame in shown_frames(self.launch.site, _FRAMES)]
        if self.outcome is not None:
            lines += [f"  {line}" for line in (*self.outcome.picture(), *self.outcome.recorded)]
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        site = [list(frame) for frame in self.launch.site]
        record = {
            "index": self.launch.index,
            "operator": self.launch.operator.name,
            "kind": self.kind,
            "text": self.text,
        }
        recorded = self.outcome.recorded if self.outcome is not None else []
        return {**record, "inputs": list(self.inputs), "site": site, "recorded": recorded}


MEMORY = 1 << 30  # bytes of a launch's tensors; larger ones are compared by blocks of rows
NOT_FINITE = "NaN or infinity"
_FRAMES, _WORST = 4, 3


class Written(NamedTuple):
    """A range of device memory: who wrote it, and whether that was wrong, by its own fault or by its inputs'."""

    start: int
    stop: int
    launch: int
    operator: str
    origin: Optional[int]  # the launch whose error is in it
    not_finite: bool


class Memory:
    """Who wrote which bytes of device memory last."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ranges: list[Written] = []

    def write(self, written: Written) -> None:
        first, last = self._overlapping(written.start, written.stop)
        parts = []
        for old in self._ranges[first:last]:
            if old.start < written.start:
                parts.append(old._replace(stop=written.start))
            if old.stop > written.stop:
                parts.append(old._replace(start=written.stop))
        replaced = sorted([*parts, written])
        self._ranges[first:last] = replaced
        self._starts[first:last] = [part.start for part in replaced]

    def read(self, start: int, stop: int) -> list[Written]:
        first, last = self._overlapping(start, stop)
        return self._ranges[first:last]

    def _overlapping(self, start: int, stop: int) -> tuple[int, int]:
        first = bisect.bisect_right(self._starts, start) - 1
        if first < 0 or self._ranges[first].stop <= start:
            first += 1
        return first, bisect.bisect_left(self._starts, stop, first)


class Checker:
    """Checks the launches of one recording, in order, as it grows. The NumPy backend is in use."""

    def __init__(
        self,
        recording: Recording,
        failures: Optional[Failures] = None,
        memory: int = MEMORY,
        seconds: Optional[float] = None,
    ) -> None:
        self.recording = recording
        self._failures = failures
        self._memory_limit, self._seconds = memory, seconds
        self.partly = 0  # launches of which a part was compared
        self.checked = 0  # launches that were compared
        self.left_out: dict[str, int] = {}  # why others were not
        self.findings: list[Finding] = []
        self._next = 0
        self._memory = Memory()
        self._not_finite_shown = False
        self._wrong: dict[int, str] = {}  # what was wrong, by launch

    def advance(self, ended: bool = False) -> Iterator[Finding]:
        """Findings in what has been recorded since; ``ended``: nothing more will come, so that no launch is waited for."""
        self.recording.refresh()
        while self._next < len(self.recording.launches):
            launch = self.recording.launches[self._next]
            if launch.statuses[0] == 0 and launch.statuses[1] is None and not ended:
                return  # phase two is under way
            self._next += 1
            for finding in self._check(launch):
                self.findings.append(finding)
                yield finding
                if finding.outcome is not None:  # it has been shown
                    finding.outcome.forget_arrays()

    def _check(self, launch: Launch) -> Iterator[Finding]:
        sources = [source for tensor in _tensors(launch, "in", "inout") for source in self._sources(tensor)]
        if launch.statuses[1] is None and launch.statuses[0] == 0:
            yield Finding(launch, "error", "phase two never returned: the program ended in it")
            return
        if launch.late:
            name = status_name(launch.late)
            yield Finding(
                launch, "error", f"its stream ended with status {launch.late} ({name}) {launch.error}".rstrip()
            )
        elif launch.statuses[0] or launch.statuses[1]:
            self._count("phase one or two refused it")
            return
        has_data = any(tensor.before or tensor.after for value in launch.values for tensor in value.tensors())
        try:
            outcome = self._replayed(launch) if has_data else Outcome(launch, left_out=_NO_DATA)
        except RecordingError as error:
            outcome = Outcome(launch, left_out=str(error))
        inherited = next((source.origin for source in sources if source.origin is not None), None)
        inputs = tuple(dict.fromkeys(self._described(source) for source in sources if source.origin is not None))
        if outcome.left_out:
            self._count(outcome.left_out)
        else:
            self.checked += 1
            self.partly += bool(outcome.partly)
        if outcome.difference and not launch.late:
            if self._failures is not None:
                outcome.recorded = self._failures.write(self.recording, outcome)
            yield Finding(launch, "wrong result", outcome.difference, inputs, outcome)
            inherited = launch.index
            self._wrong[launch.index] = f"{launch.operator.name}: {outcome.difference}"
        not_finite = yield from self._finiteness(launch)
        for tensor in _tensors(launch, "out", "inout"):
            start, stop = _extent(tensor)
            if stop > start:
                written = Written(start, stop, launch.index, launch.operator.name, inherited, not_finite)
                self._memory.write(written)

    def _replayed(self, launch: Launch) -> Outcome:
        return next(iter(replay(self.recording, [launch.index], True, self._memory_limit, self._seconds)))

    def _finiteness(self, launch: Launch) -> Generator[Finding, None, bool]:
        """Whether the results have NaN or infinity; a finding where the inputs had none, the first time."""
        counts = [self._not_finite(tensor, "after") for tensor in _tensors(launch, "out", "inout")]
        if not any(count for count, _ in counts):
            return False
        had = any(self._not_finite(tensor, "before")[0] for tensor in _tensors(launch, "in", "inout"))
        if not had and not self._not_finite_shown:
            self._not_finite_shown = True
            count, size = max(counts)
            text = f"{count} of {size} elements are NaN or infinite; its inputs have neither"
            yield Finding(launch, NOT_FINITE, text)
        return True

    def _not_finite(self, tensor: TensorValue, when: str) -> tuple[int, int]:
        if getattr(tensor, when) is None:
            return 0, 0
        try:
            array = self.recording.array(tensor, when)
            if array.dtype.kind in "iub":
                return 0, array.size
            with np.errstate(all="ignore"):
                wide = array if array.dtype.kind in "fc" else array.astype(np.float32)
                return int(np.count_nonzero(~np.isfinite(wide))), array.size
        except (RecordingError, TypeError, ValueError):
            return 0, 0

    def _sources(self, tensor: TensorValue) -> list[Written]:
        return self._memory.read(*_extent(tensor))

    def _described(self, source: Written) -> str:
        assert source.origin is not None
        by = f"an input was written by #{source.launch} {source.operator}"
        text = self._wrong[source.origin]
        return (
            f"{by}, which was wrong ({text})"
            if source.origin == source.launch
            else f"{by}, which had inherited #{source.origin} ({text})"
        )

    def _count(self, reason: str) -> None:
        self.left_out[reason] = self.left_out.get(reason, 0) + 1


_NO_DATA = "its data were not recorded"


def _tensors(launch: Launch, *directions: str) -> list[TensorValue]:
    pairs = zip(launch.operator.directions, launch.values)
    return [tensor for direction, value in pairs if direction in directions for tensor in value.tensors()]


def _extent(tensor: TensorValue) -> tuple[int, int]:
    start, stop = tensor.description.byte_range
    return tensor.address + start, tensor.address + stop


__all__ = ["NOT_FINITE", "Checker", "Finding", "Memory", "Written"]
