"""The words for faults on purpose: ``emulator run --fault SPEC``, ``ASCEND_EMULATOR_FAULT``.

A rule is a name and what goes wrong, separated by colons; rules are separated by semicolons.

    aclrtMalloc:after=10:status=207001;aclnnAdd:wrong-element;HcclAllReduce:rank=1:die

The name is that of an operator, of a registered kernel (``reference/kernels.py``), of a phase one
(``aclnnAddGetWorkspaceSize``) or of another function of CANN, and may hold ``*`` and ``?``. What goes wrong with operators and
kernels is done by the device process (``process/faults.py``), what goes wrong with calls by the libraries
(``csrc/ascendcl/core/faults.c``).
"""

from __future__ import annotations

import fnmatch
import json
from collections.abc import Iterator
from typing import NamedTuple, Optional

from ascend_aclnn import catalog
from ascend_aclnn.catalog import atb
from ascend_aclnn.core import error_codes
from ascend_aclnn.reference import kernels

VARIABLE = "ASCEND_EMULATOR_FAULT"
DEVICE_KINDS = {
    "wrong-element": "one element of each output is wrong",
    "nan": "one element of each floating-point output is NaN",
    "wrong-rounding": "results are cut off instead of rounded: half of the elements are one step nearer to zero",
    "low-precision": "results are as precise as if they had been summed in a type of half the width",
    "tail": "the last element of each output is not written",
    "stale": "nothing is computed, and outputs stay as they were; the status says success",
    "axes-swapped": "the last two axes of each output are written in the other order (vectors: from the end)",
    "swallow": "errors of both phases are answered with success",
    "fail": "the kernel fails: 507015, or the status of fail=S, at the next synchronisation of its stream",
    "slow": "the kernel takes slow=MS milliseconds longer",
    "hang": "the launch never ends",
    "die": "the device ends at the launch; later calls give 507899",
}
CALL_KINDS = {
    "status": "the call fails with status=S, and does nothing else but release or wait",
    "slow": "the call takes slow=MS milliseconds longer",
    "die": "the program is killed in the call",
}
KERNEL_FAULT = 507015  # ACL_ERROR_RT_AICORE_EXCEPTION


class Fault(NamedTuple):
    """A rule. ``value`` is the status of "status" and "fail", the milliseconds of "slow"."""

    name: str
    kind: str
    value: int = 0
    after: int = 0  # matching launches or calls that pass before
    times: Optional[int] = None  # how many are affected; None: all that follow
    rank: Optional[int] = None  # the only rank that is affected

    @property
    def of_device(self) -> bool:
        """Whether the device process makes it, and not the libraries."""
        return self.kind in DEVICE_KINDS and next(_operators(self.name), None) is not None

    def __str__(self) -> str:
        items = [self.name]
        items += [f"{key}={n}" for key, n in self._asdict().items() if key in ("after", "times", "rank") and n]
        if self.rank == 0:
            items.append("rank=0")
        valued = self.kind in ("status", "slow") or (self.kind == "fail" and self.value)
        return ":".join([*items, f"{self.kind}={self.value}" if valued else self.kind])


def parse(text: str) -> list[Fault]:
    """The rules of a text; ValueError says what cannot be read, and what is allowed."""
    return [_rule(rule.strip()) for rule in text.split(";") if rule.strip()]


def _rule(rule: str) -> Fault:
    name, *items = rule.split(":")
    kinds = {**DEVICE_KINDS, **CALL_KINDS}
    kind, value = "", 0
    numbers: dict[str, int] = {}
    for item in items:
        key, equals, number = item.partition("=")
        if key in ("after", "times", "rank") and number.isdigit():
            numbers[key] = int(number)
        elif key in kinds and not kind and bool(equals) is _takes_a_value(key, equals):
            kind, value = key, _value(rule, key, number) if equals else 0
        else:
            raise ValueError(
                f"{VARIABLE}: {item!r} in {rule!r} is neither after=N, times=N, rank=N nor what goes wrong, once: "
                f"{', '.join(map(_written, kinds))}"
            )
    if not kind:
        raise ValueError(f"{VARIABLE}: {rule!r} does not say what goes wrong: {', '.join(map(_written, kinds))}")
    fault = Fault(name, kind, value, numbers.get("after", 0), numbers.get("times"), numbers.get("rank"))
    _check_name(fault)
    return fault


def _takes_a_value(kind: str, equals: str) -> bool:
    return kind in ("status", "slow") or (kind == "fail" and bool(equals))


def _written(kind: str) -> str:
    return {"status": "status=S", "slow": "slow=MS", "fail": "fail or fail=S"}.get(kind, kind)


def _value(rule: str, kind: str, text: str) -> int:
    """A number, or the name of a status."""
    if text.isdigit() and len(text) < 10 and (int(text) or kind == "slow"):
        return int(text)
    code = None if kind == "slow" else error_codes.find(text)
    if code is not None and code.name == text and code.code.isdigit():
        return int(code.code)
    allowed = "a number of milliseconds" if kind == "slow" else "a status or its name, 207001 for one"
    raise ValueError(f"{VARIABLE}: {kind} in {rule!r} is {text!r}; it must be {allowed}")


def _check_name(fault: Fault) -> None:
    if fault.of_device:
        return
    if fault.kind in CALL_KINDS and any(fnmatch.fnmatchcase(name, fault.name) for name in _functions()):
        return
    if fault.kind not in CALL_KINDS:
        if any(fnmatch.fnmatchcase(name, fault.name) for name in _functions()):
            raise ValueError(f"{VARIABLE}: {fault.kind} is for operators; {fault.name} is a function of CANN")
        raise ValueError(f"{VARIABLE}: {catalog.unknown_name(fault.name)}")
    raise ValueError(f"{VARIABLE}: {fault.name!r} is neither an operator nor a function of CANN that is emulated")


def _operators(pattern: str) -> Iterator[str]:
    """Operators of the catalog, ATB's ("PagedAttentionOperation"), and kernels with a reference."""
    names = [*catalog.names(), *(atb.get(name).operator.name for name in atb.names()), *kernels.KERNELS]
    if pattern in names:
        yield pattern
    elif "*" in pattern or "?" in pattern:
        yield from fnmatch.filter(names, pattern)


def _functions() -> Iterator[str]:
    """Every function that can be made to fail: of the runtime and of HCCL, and both phases of operators."""
    yield from json.loads((catalog.DATA / "runtime_functions.json").read_text(encoding="utf-8"))
    for name in catalog.names():
        yield name
        yield name + catalog.PHASE_ONE
