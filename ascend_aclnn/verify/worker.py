"""The process that works through a batch: ``python -m ascend_aclnn.verify.worker DESCRIPTOR``, its task on standard input.

The task is a JSON object: ``units`` (names of operators and of checks), ``seed``, ``describe``, ``report`` (the directory of
a report, or null), ``again``: an earlier worker has lost the device; and which cases of the suite are tried: all with
``thorough``, so many of each operator with ``sample``, those of ``numbers`` (by operator), else the usual ones. With
``numpy`` the references alone are held against the suite, without a device. Events, a JSON object a line, go to the descriptor:

    {"event": "absent", "text": ...}                                       there is no device; the process ends
    {"event": "device", "soc": ..., "devices": ..., "exported": [...]}     if it is to describe the device
    {"event": "host"}                      the reference or a comparison is at work, which may take long
    {"event": "begin", "unit": ..., "case": ..., "number": ...}            before the device gets work
    {"event": "fault", "unit": ..., "case": ..., "number": ..., "text": ..., "recording": ...}   and a file in the report
    {"event": "case", "unit": ..., "number": ..., "case": ..., "outputs": [...]}   for a report: how far the results are off
    {"event": "end", "unit": ..., "cases": ..., ...}                       a unit is done
    {"event": "lost", "unit": ..., "text": ...}                            the device no longer answers; the process ends
    {"event": "done"}
"""

from __future__ import annotations

import functools
import json
import os
import re
import sys
import traceback
from collections.abc import Iterable
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
from ascend_aclnn.testing.rounding import ENOUGH, Sides
from ascend_aclnn.verify import failures, ranks, suite
from ascend_aclnn.verify.calls import NULL, SPECIAL, Case, NoCase, arrays, comm, reference_results, root_info
from ascend_aclnn.verify.checks import CHECKS
from ascend_aclnn.verify.judge import (
    Judgement,
    Output,
    host_microseconds,
    judge,
    refusal,
    refused_input,
)
from ascend_aclnn.verify.ranks import WORKS
from ascend_aclnn.verify.samples import SAMPLES

SHOWN = 2  # pictures of an operator's wrong outputs in the report's page; files have all
WORST = 3  # elements of an accurate output that a report lists


class Worker:
    """Works through units on the device and tells events."""

    def __init__(self, backend: Any, tell: Callable[[dict[str, Any]], None], task: dict[str, Any]) -> None:
        self.backend = backend
        self.tell = tell
        self.task = task
        self.seed: int = task["seed"]
        self.numpy: bool = task["numpy"]
        self.report = None if task["report"] is None else Path(task["report"])
        self.soc: str = backend.soc
        self.stream = Stream()
        self._comm: Optional[Communicator] = None
        self._number: Optional[int] = None  # of the case at work
        self._sides: dict[str, Sides] = {}  # of the operator at work, by dtype
        self._shown = 0  # pictures of the operator at work that the report's page has

    def describe(self) -> None:
        if self.numpy:
            facts = {"driver": None, "library": "", "devices": 0, "exported": list(catalog.names())}
            self.tell({"event": "device", **self._device, **facts})
            return
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
        if self.numpy:
            return {"soc": self.soc, "emulated": False, "cann": None}
        cann = cann_version(self.backend.runtime.libraries)
        return {"soc": self.soc, "emulated": self.backend.emulated, "cann": cann}

    def run(self, unit: str) -> None:
        self._number = None
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
        figures: dict[str, Any] = {}
        done = refused = self._shown = 0
        if left_out is None and operator.name in WORKS:
            done, left_out = self._among_ranks(operator)
            self.tell({"event": "end", "unit": operator.name, "cases": done, "left_out": left_out})
            return
        if left_out is None:
            if operator.groups and self._comm is None and not self.numpy:
                comm()
                self._comm = Communicator.from_root_info(root_info(), 0, 1)
            tried: list[suite.Numbered] = []
            try:
                for item in self._chosen(operator):
                    try:
                        self._case(operator, item)
                        tried.append(item)
                        done += 1
                    except NoCase:
                        if item.number == 0:
                            raise
                        refused += 1
                    self.tell({"event": "host"})
            except NoCase as error:
                left_out, figures = f"the rules of {self.soc} refuse its example", {"detail": str(error)}
        if left_out is None and not self.numpy:
            if not self.task["numbers"] and not self.task["sample"]:
                self._add_sides(operator, tried)
            self._number = None
            self._judge_sides(operator)
            self.tell({"event": "begin", "unit": operator.name, "case": "host cost"})
            figures["host_us"] = self._guarded(operator.name, "host cost", host_microseconds, operator, self.soc)
        if refused:
            figures["refused"] = refused
        self.tell({"event": "end", "unit": operator.name, "cases": done, "left_out": left_out, **figures})

    def _chosen(self, operator: Operator) -> Iterable[suite.Numbered]:
        """The cases that the task asks for."""
        found = suite.numbered(operator, self.soc, self.seed)
        numbers = self.task["numbers"].get(operator.name)
        if numbers is not None:
            return (item for item in found if item.number in numbers)
        if self.task["sample"]:
            return suite.sample(list(found), self.task["sample"], self.seed)
        return found if self.task["thorough"] else suite.usual(found)

    def _case(self, operator: Operator, item: suite.Numbered) -> None:
        """Judges a case and tells what is wrong with it; for a report also how far results are off, and a recording."""
        case, self._number = item.case, item.number
        if case.values == NULL:
            self._null_pointer(operator, item)
            return
        begin = {"event": "begin", "unit": operator.name, "case": case.label, "number": item.number}
        random_values = operator.accuracy_standard == "unspecified"
        if self.numpy:
            self.tell(begin)
            results = self._guarded(operator.name, case.label, reference_results, operator, case, self.soc)
            if results is not None:
                self._against_suite(operator, item, suite.describe(results, random_values))
            return
        stream = self.stream if item.number % 2 else None
        record = functools.partial(self._record, operator, item.number, case)
        begin_and_end = functools.partial(self.tell, begin), functools.partial(self.tell, {"event": "host"})
        arguments = (operator, case, self.soc, stream, *begin_and_end)
        judgement: Optional[Judgement] = self._guarded(operator.name, case.label, judge, *arguments, record=record)
        if judgement is None:
            return
        failed = [(o.comparison, o.name) for o in judgement.outputs if o.fault and o.comparison is not None]
        recorded = record(results=judgement.results, failed=failed) if judgement.faults else {}
        for text in judgement.faults:
            self._fault(operator.name, case.label, text, **recorded)
        if not judgement.faults and not random_values and case.values not in SPECIAL:
            self._note_sides(operator, judgement)
        self._against_suite(operator, item, suite.describe(judgement.reference, random_values))
        self._tell_case(operator, item, judgement)

    def _tell_case(self, operator: Operator, item: suite.Numbered, judgement: Judgement) -> None:
        """For a report: how far the outputs are off, and pictures of those that are wrong."""
        if self.report is None:
            return
        outputs = []
        for output in judgement.outputs:
            outputs.append(_figures(output))
            if output.fault and output.comparison is not None:
                name = re.sub(r"[^\w\[\]]+", "-", output.name)
                title = f"{operator.name}/{item.number:04} {item.case.label}: {output.name}, on {self.soc}"
                drawn = output.comparison.svg(title, output.fault)
                picture = self.report / "cases" / f"{operator.name}-{item.number:04}.{name}.svg"
                picture.write_text(drawn, encoding="utf-8")
                if self._shown < SHOWN:
                    outputs[-1]["picture"] = drawn
                    self._shown += 1
        event = {"event": "case", "unit": operator.name, "number": item.number, "case": item.case.label}
        self.tell({**event, "outputs": outputs})

    def _note_sides(self, operator: Operator, judgement: Judgement) -> None:
        """Counts to which side results are off: small ones say too little alone."""
        for one, other in zip(arrays(judgement.results), arrays(judgement.reference)):
            if one is not None and other is not None:
                result, wanted = np.asarray(one), np.asarray(other)
                self._sides.setdefault(result.dtype.name, Sides(operator.name)).add(result, wanted)

    def _add_sides(self, operator: Operator, tried: list[suite.Numbered]) -> None:
        """Counts the sides of more numbers in the same cases, where there are results to count, and few."""
        if operator.data_dependent:
            return
        for item in suite.again(tried):
            if not any(0 < sides.size < ENOUGH for sides in self._sides.values()):
                return
            label, self._number = f"{item.case.label}, seed {item.case.seed}", item.number
            begin = {"event": "begin", "unit": operator.name, "case": label, "number": item.number}
            begin_and_end = functools.partial(self.tell, begin), functools.partial(self.tell, {"event": "host"})
            try:
                arguments = (operator, item.case, self.soc, None, *begin_and_end)
                judgement: Optional[Judgement] = self._guarded(operator.name, label, judge, *arguments)
            except NoCase:
                continue  # the reference does not take these numbers
            if judgement is None:
                return
            for text in judgement.faults:
                self._fault(operator.name, label, text)
            if judgement.faults:
                return
            self._note_sides(operator, judgement)

    def _judge_sides(self, operator: Operator) -> None:
        for dtype, sides in self._sides.items():
            if sides.fault:
                self._fault(operator.name, "all cases", f"{dtype}: {sides.fault}")
        self._sides = {}

    def _among_ranks(self, operator: Operator) -> tuple[int, Optional[str]]:
        """Judges what each rank of an operator's job gives: how many cases that were, or why it was left out."""
        work = WORKS[operator.name]
        (item,) = suite.numbered(operator, self.soc, self.seed)
        chosen = self.task["numbers"].get(operator.name)
        if chosen is not None and item.number not in chosen:
            return 0, None
        self._number = item.number
        expected = self._guarded(operator.name, item.case.label, ranks.on_numpy, work, self.seed)
        begin = {"event": "begin", "unit": operator.name, "case": item.case.label, "number": item.number}
        self.tell(begin)
        if expected is None:
            return 1, None
        if not self.numpy:
            absent = None

            def run() -> Any:
                nonlocal absent
                try:
                    return ranks.on_devices(work, self.seed)
                except LibraryNotFound as error:  # HCCL's windows, of later CANNs
                    absent = str(error).splitlines()[0]
                    return None

            actual = self._guarded(operator.name, item.case.label, run)
            if absent is not None:
                return 0, absent
            if actual is None:
                return 1, None
            judgement = ranks.judge(operator, actual, expected)
            for text in judgement.faults:
                self._fault(operator.name, item.case.label, text)
            self._tell_case(operator, item, judgement)
        self._against_suite(operator, item, suite.describe(ranks.values(operator, expected)))
        return 1, None

    def _null_pointer(self, operator: Operator, item: suite.Numbered) -> None:
        self.tell({"event": "begin", "unit": operator.name, "case": NULL, "number": item.number})
        position, status = refused_input(operator, self.soc)
        self._against_suite(operator, item, str(status))
        if self.numpy:
            return
        text = self._guarded(operator.name, NULL, refusal, operator, self.soc)
        if text:
            recorded = self._record(operator, item.number, Case(), absent=position)
            self._fault(operator.name, NULL, text, **recorded)
        if self.report is not None:
            self.tell({"event": "case", "unit": operator.name, "number": item.number, "case": NULL, "outputs": []})

    def _against_suite(self, operator: Operator, item: suite.Numbered, found: str) -> None:
        """Holds what the reference gave against the suite, which knows the numbers of seed 0 and one SoC's rules."""
        if self.seed and operator.data_dependent:
            return  # other numbers, other shapes
        if suite.soc_of(operator) == self.soc:
            text = suite.difference(item.expected, found, figures=self.seed == 0)
            if text:
                self._fault(operator.name, item.case.label, text)

    def _fault(
        self, unit: str, case: str, text: str, recording: Optional[str] = None, not_recorded: Optional[str] = None
    ) -> None:
        text += f" (not recorded: {not_recorded})" if not_recorded else ""
        where = {"unit": unit, "case": case, "number": self._number}
        self.tell({"event": "fault", **where, "text": text, "recording": recording})

    def _record(self, operator: Operator, number: int, case: Case, **outcome: Any) -> dict[str, str]:
        """Writes a recording of a failure for the report: its name there, or why there is none."""
        if self.report is None:
            return {}
        name = f"cases/{operator.name}-{number:04}.aclnn"
        try:
            failures.record(self.report / name, self._device, operator, case, **outcome)
        except Exception as error:  # a report without a recording is worth more than none
            traceback.print_exc()
            return {"not_recorded": f"{type(error).__name__}: {error}"}
        return {"recording": name}

    def _why_not(self, operator: Operator) -> Optional[str]:
        work = WORKS.get(operator.name)
        if operator.example is None and operator.name not in SAMPLES and work is None:
            return "no example" if reference.find(operator) is not None else "no NumPy reference"
        wanted = suite.wanted_soc(operator)
        if wanted is not None and find_soc(wanted).product != find_soc(self.soc).product:
            return f"its example needs the rules of {wanted}"
        devices = 0 if self.numpy else self.backend.device_count()
        if work is not None and not self.numpy and devices < work.ranks:
            return f"works among {work.ranks} ranks, each with a device of its own"
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
        text = "" if self.numpy else illness()
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

        kind = "numpy" if task["numpy"] else "npu"
        try:
            backend = find_backend(kind)
        except LibraryNotFound as error:
            tell({"event": "absent", "text": str(error)})
            return
        with aclnn.use_backend(kind):
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
