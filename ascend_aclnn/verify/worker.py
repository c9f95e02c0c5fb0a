"""The process that works through a batch: ``python -m ascend_aclnn.verify.worker DESCRIPTOR``, its task on standard input.

The task is a JSON object: ``units`` (names of operators and of checks), ``thorough``, ``seed``, ``describe``, ``report``
(the directory of a report, or null) and ``again``: an earlier worker has lost the device. Events, a JSON object a line,
go to the descriptor:

    {"event": "absent", "text": ...}                                       there is no device; the process ends
    {"event": "device", "soc": ..., "devices": ..., "exported": [...]}     if it is to describe the device
    {"event": "host"}                                                      the reference is at work, which may take long
    {"event": "begin", "unit": ..., "case": ...}                           before the device gets work
    {"event": "fault", "unit": ..., "case": ..., "text": ..., "recording": ...}   what is wrong, and a file in the report
    {"event": "case", "unit": ..., "case": ..., "outputs": [...]}          for a report: how far the results are off
    {"event": "end", "unit": ..., "cases": ..., ...}                       a unit is done
    {"event": "lost", "unit": ..., "text": ...}                            the device no longer answers; the process ends
    {"event": "done"}
"""

from __future__ import annotations

import functools
import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any, Callable, Optional

import numpy as np

import ascend_aclnn as aclnn
from ascend_aclnn import catalog, ops, reference
from ascend_aclnn.backends.npu.library import driver_home
from ascend_aclnn.backends.npu.versions import cann_version, value_of
from ascend_aclnn.catalog import Operator
from ascend_aclnn.communicator import Communicator
from ascend_aclnn.core.errors import AclError, LibraryNotFound
from ascend_aclnn.core.socs import soc as find_soc
from ascend_aclnn.core.streams import Stream
from ascend_aclnn.selection import find_backend
from ascend_aclnn.verify import failures
from ascend_aclnn.verify.cases import Case, NoCase, cases, comm, root_info
from ascend_aclnn.verify.checks import CHECKS
from ascend_aclnn.verify.judge import Judgement, Output, host_microseconds, judge, refusal, refused_input

WORST = 3  # elements of an accurate output that a report lists


class Worker:
    """Works through units on the device and tells events."""

    def __init__(self, backend: Any, tell: Callable[[dict[str, Any]], None], task: dict[str, Any]) -> None:
        self.backend = backend
        self.tell = tell
        self.thorough: bool = task["thorough"]
        self.seed: int = task["seed"]
        self.report = None if task["report"] is None else Path(task["report"])
        self.soc: str = backend.soc
        self.stream = Stream()
        self._comm: Optional[Communicator] = None

    def describe(self) -> None:
        libraries = self.backend.runtime.libraries
        exported = [name for name in catalog.names() if libraries.has(catalog.get(name))]
        self.tell(
            {
                "event": "device",
                **self._device,
                "driver": value_of(driver_home() / "version.info", "Version"),
                "library": str(self.backend.library_path),
                "devices": self.backend.device_count(),
                "exported": exported,
            }
        )

    @functools.cached_property
    def _device(self) -> dict[str, Any]:
        cann = cann_version(self.backend.runtime.libraries)
        return {"soc": self.soc, "emulated": self.backend.emulated, "cann": cann}

    def run(self, unit: str) -> None:
        self.tell({"event": "begin", "unit": unit, "case": ""})
        if unit in CHECKS:
            self._check(unit)
        else:
            self._operator(catalog.get(unit))

    def _check(self, name: str) -> None:
        noted = self._guarded(name, "", lambda: CHECKS[name](self.backend))
        left_out = noted if isinstance(noted, str) else None
        figures = noted if isinstance(noted, dict) else {}
        self.tell({"event": "end", "unit": name, "cases": 0 if left_out else 1, "left_out": left_out, **figures})

    def _operator(self, operator: Operator) -> None:
        self.tell({"event": "host"})
        left_out = self._why_not(operator)
        done, cost, detail = 0, None, None
        if left_out is None:
            if operator.groups and self._comm is None:
                comm()
                self._comm = Communicator.from_root_info(root_info(), 0, 1)
            try:
                for number, case in enumerate(cases(operator, self.soc, self.thorough, self.seed)):
                    self._case(operator, number, case)
                    self.tell({"event": "host"})
                    done += 1
            except NoCase as error:
                left_out, detail = f"the rules of {self.soc} refuse its example", str(error)
        if left_out is None:
            self.tell({"event": "begin", "unit": operator.name, "case": "null pointer"})
            text = self._guarded(operator.name, "null pointer", refusal, operator, self.soc)
            if text:
                recorded = self._record(operator, "null", Case(), absent=refused_input(operator, self.soc)[0])
                self._fault(operator.name, "null pointer", text, **recorded)
            self.tell({"event": "begin", "unit": operator.name, "case": "host cost"})
            cost = self._guarded(operator.name, "host cost", host_microseconds, operator, self.soc)
        figures = {"host_us": cost} if detail is None else {"detail": detail}
        self.tell({"event": "end", "unit": operator.name, "cases": done, "left_out": left_out, **figures})

    def _case(self, operator: Operator, number: int, case: Case) -> None:
        """Judges a case and tells what is wrong with it; for a report also how far results are off, and a recording."""
        begin = {"event": "begin", "unit": operator.name, "case": case.label}
        stream = self.stream if number % 2 else None
        record = functools.partial(self._record, operator, str(number), case)
        arguments = (operator, case, self.soc, stream, functools.partial(self.tell, begin))
        judgement: Optional[Judgement] = self._guarded(operator.name, case.label, judge, *arguments, record=record)
        if judgement is None:
            return
        failed = [(o.comparison, o.name) for o in judgement.outputs if o.fault and o.comparison is not None]
        recorded = record(results=judgement.results, failed=failed) if judgement.faults else {}
        for text in judgement.faults:
            self._fault(operator.name, case.label, text, **recorded)
        if self.report is not None:
            outputs = [_figures(output) for output in judgement.outputs]
            self.tell({"event": "case", "unit": operator.name, "case": case.label, "outputs": outputs})
            for output in judgement.outputs:
                if output.fault and output.comparison is not None:
                    picture = self.report / "cases" / f"{operator.name}-{number}.{output.name}.svg"
                    picture.write_text(output.comparison.svg(), encoding="utf-8")

    def _fault(
        self, unit: str, case: str, text: str, recording: Optional[str] = None, not_recorded: Optional[str] = None
    ) -> None:
        text += f" (not recorded: {not_recorded})" if not_recorded else ""
        self.tell({"event": "fault", "unit": unit, "case": case, "text": text, "recording": recording})

    def _record(self, operator: Operator, number: str, case: Case, **outcome: Any) -> dict[str, str]:
        """Writes a recording of a failure for the report: its name there, or why there is none."""
        if self.report is None:
            return {}
        name = f"cases/{operator.name}-{number}.aclnn"
        try:
            failures.record(self.report / name, self._device, operator, case, **outcome)
        except Exception as error:  # a report without a recording is worth more than none
            traceback.print_exc()
            return {"not_recorded": f"{type(error).__name__}: {error}"}
        return {"recording": name}

    def _why_not(self, operator: Operator) -> Optional[str]:
        if operator.example is None:
            return "no example" if reference.find(operator) is not None else "no NumPy reference"
        wanted = operator.example.soc
        if wanted is not None and find_soc(wanted).product != find_soc(self.soc).product:
            return f"its example needs the rules of {wanted}"
        return None

    def _guarded(self, unit: str, case: str, function: Callable[..., Any], *arguments: Any, record: Any = None) -> Any:
        """Calls a function; what it raises is a fault of the unit, and perhaps the end of the device.

        ``record`` makes a recording of a failure of the device, from its status and text.
        """
        try:
            return function(*arguments)
        except NoCase:
            raise
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
            if not isinstance(error, (AclError, AssertionError, TimeoutError)):
                traceback.print_exc()
            recorded = {}
            if record is not None and isinstance(error, AclError) and error.status:
                recorded = record(statuses=(error.status, None), error=str(error).splitlines()[0])
            self._fault(unit, case, text, **recorded)
            self._probe(unit)
        return None

    def _probe(self, unit: str) -> None:
        """Ends the process where the device no longer works: CANN's contexts do not recover from most errors."""
        text = illness()
        if text:
            self.tell({"event": "lost", "unit": unit, "text": text})
            os._exit(0)


def _figures(output: Output) -> dict[str, Any]:
    """An output as a report keeps it."""
    figures: dict[str, Any] = {"name": output.name, "fault": output.fault}
    comparison = output.comparison
    if comparison is not None:
        figures.update(
            dtype=comparison.dtype.name,
            size=comparison.size,
            standard=comparison.standard,
            figures={name: _number(value) for name, value in comparison.figures.items()},
            histogram=comparison.histogram(),
            worst=[
                [list(d.index), str(d.actual), str(d.golden), _number(d.error), _number(d.ulp)]
                for d in comparison.worst[: None if output.fault else WORST]
            ],
        )
    return figures


def _number(value: float) -> Any:
    """A number as JSON has it: NaN and infinities are words."""
    return float(f"{value:.6g}") if np.isfinite(value) else str(value)


def illness() -> str:
    """Why the current device cannot be used; "" where it copies and launches."""
    values = np.arange(64, dtype=np.float32)
    try:
        aclnn.synchronize()
        x = aclnn.asarray(values)
        if not np.array_equal(x.numpy(), values):
            return "a copy to the device and back is wrong"
        try:  # one of two operators has to run: the other may be what is wrong
            ops.inplace_zero(x)
            x.numpy()
        except AclError:
            ops.adds(x, 1, 1).numpy()
    except AclError as error:
        return str(error).splitlines()[0]
    return ""


def main() -> None:
    task = json.load(sys.stdin)
    with open(int(sys.argv[1]), "w", encoding="utf-8") as events:

        def tell(event: dict[str, Any]) -> None:
            events.write(json.dumps(event) + "\n")
            events.flush()

        try:
            backend = find_backend("npu")
        except LibraryNotFound as error:
            tell({"event": "absent", "text": str(error)})
            return
        with aclnn.use_backend("npu"):
            worker = Worker(backend, tell, task)
            if task["describe"]:
                worker.describe()
            text = illness() if task["again"] else ""
            if text:
                tell({"event": "absent", "text": f"the device no longer works: {text}"})
                return
            for unit in task["units"]:
                worker.run(unit)
            tell({"event": "done"})


if __name__ == "__main__":
    main()
