"""The process that works through a batch: ``python -m ascend_aclnn.verify.worker DESCRIPTOR``, its task on standard input.

The task is a JSON object: ``units`` (names of operators and of checks), ``thorough``, ``describe``, and ``again``: an
earlier worker has lost the device. Events, a JSON object a line, go to the descriptor:

    {"event": "absent", "text": ...}                                       there is no device; the process ends
    {"event": "device", "soc": ..., "devices": ..., "exported": [...]}     if it is to describe the device
    {"event": "host"}                                                      the reference is at work, which may take long
    {"event": "begin", "unit": ..., "case": ...}                           before the device gets work
    {"event": "fault", "unit": ..., "case": ..., "text": ...}              what is wrong
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
from ascend_aclnn.verify.cases import NoCase, cases, comm, root_info
from ascend_aclnn.verify.checks import CHECKS
from ascend_aclnn.verify.judge import host_microseconds, judge, refusal


class Worker:
    """Works through units on the device and tells events."""

    def __init__(self, backend: Any, tell: Callable[[dict[str, Any]], None], thorough: bool) -> None:
        self.backend = backend
        self.tell = tell
        self.thorough = thorough
        self.soc: str = backend.soc
        self.stream = Stream()
        self._comm: Optional[Communicator] = None

    def describe(self) -> None:
        libraries = self.backend.runtime.libraries
        exported = [name for name in catalog.names() if libraries.has(catalog.get(name))]
        self.tell(
            {
                "event": "device",
                "soc": self.soc,
                "emulated": self.backend.emulated,
                "cann": cann_version(libraries),
                "driver": value_of(driver_home() / "version.info", "Version"),
                "library": str(self.backend.library_path),
                "devices": self.backend.device_count(),
                "exported": exported,
            }
        )

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
                for number, case in enumerate(cases(operator, self.soc, self.thorough)):
                    begin = {"event": "begin", "unit": operator.name, "case": case.label}
                    stream = self.stream if number % 2 else None
                    arguments = (operator, case, self.soc, stream, functools.partial(self.tell, begin))
                    for text in self._guarded(operator.name, case.label, judge, *arguments) or ():
                        self.tell({"event": "fault", "unit": operator.name, "case": case.label, "text": text})
                    self.tell({"event": "host"})
                    done += 1
            except NoCase as error:
                left_out, detail = f"the rules of {self.soc} refuse its example", str(error)
        if left_out is None:
            self.tell({"event": "begin", "unit": operator.name, "case": "null pointer"})
            text = self._guarded(operator.name, "null pointer", refusal, operator, self.soc)
            if text:
                self.tell({"event": "fault", "unit": operator.name, "case": "null pointer", "text": text})
            self.tell({"event": "begin", "unit": operator.name, "case": "host cost"})
            cost = self._guarded(operator.name, "host cost", host_microseconds, operator, self.soc)
        figures = {"host_us": cost} if detail is None else {"detail": detail}
        self.tell({"event": "end", "unit": operator.name, "cases": done, "left_out": left_out, **figures})

    def _why_not(self, operator: Operator) -> Optional[str]:
        if operator.example is None:
            return "no example" if reference.find(operator) is not None else "no NumPy reference"
        wanted = operator.example.soc
        if wanted is not None and find_soc(wanted).product != find_soc(self.soc).product:
            return f"its example needs the rules of {wanted}"
        return None

    def _guarded(self, unit: str, case: str, function: Callable[..., Any], *arguments: Any) -> Any:
        """Calls a function; what it raises is a fault of the unit, and perhaps the end of the device."""
        try:
            return function(*arguments)
        except NoCase:
            raise
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
            if not isinstance(error, (AclError, AssertionError, TimeoutError)):
                traceback.print_exc()
            self.tell({"event": "fault", "unit": unit, "case": case, "text": text})
            self._probe(unit)
        return None

    def _probe(self, unit: str) -> None:
        """Ends the process where the device no longer works: CANN's contexts do not recover from most errors."""
        text = illness()
        if text:
            self.tell({"event": "lost", "unit": unit, "text": text})
            os._exit(0)


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
            worker = Worker(backend, tell, task["thorough"])
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
