"""AclError and its few kinds; status numbers and their names."""

from __future__ import annotations

from typing import Any, Optional

from ascend_aclnn.core import error_codes

# The statuses that this package itself returns. All others are looked up by number in core/data/errors.json.
PARAM_NULLPTR = 161001
PARAM_INVALID = 161002
RUNTIME_ERROR = 361001
INNER_ERROR = 561000
TILING_ERROR = 561002
OUT_OF_MEMORY = 207001
FIND_KERNEL_ERROR = 561003
INNER_NULLPTR = 561103

# Of captured graphs. ``core.error_codes`` says what to do about each.
INVALID_PARAM = 100000
RT_PARAM_INVALID = 107000
INVALID_HANDLE = 107017
CAPTURE_DEPENDENCY = 107024
STREAM_UNJOINED = 107025
MODEL_CAPTURED = 107026
STREAM_CAPTURED = 107027
EVENT_CAPTURED = 107028
STREAM_NOT_CAPTURED = 107029
CAPTURE_MODE_NOT_SUPPORT = 107030
CAPTURE_IMPLICIT = 107031
CAPTURE_CONFLICT = 107032
TASK_GROUP_STATUS = 107033
TASK_GROUP_INTERRUPTED = 107034
CAPTURE_WRONG_THREAD = 107038
RT_INTERNAL_ERROR = 507000
FORKED = 507899
CAPTURE_INVALIDATED = 507903


def status_name(status: int) -> str:
    """CANN's name of a status number ("ACLNN_ERR_PARAM_INVALID"), "" where it has none."""
    entry = error_codes.find(str(status))
    return entry.name if entry else ""


def status_hint(status: int) -> str:
    """What a status means in a few words, "" where nothing is known."""
    entry = error_codes.find(str(status))
    return entry.meaning if entry else ""


Cause = tuple[str, dict[str, Any]]


class RuleViolation(Exception):
    """Phase one would refuse a call: the status CANN returns, the C parameter it is about, what came and what is allowed.

    ``cause`` has the same as values, where CANN has a common check for it: the kind of check, and what it prints.
    """

    def __init__(
        self, status: int, argument: Optional[str], detail: str, cause: Optional[Cause] = None, check: str = ""
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.argument = argument
        self.detail = detail
        self.cause = cause
        self.check = check  # which check it was, to follow the operator's name: "mat2/shape/inner"


class DataError(ValueError):
    """A reference refuses data that break the operator's rules: the C parameter, what came and what is allowed.

    The only exception of a reference that means bad input (161002); any other is a fault of the reference.
    """

    def __init__(self, argument: str, detail: str) -> None:
        super().__init__(f"{argument}: {detail}")
        self.argument = argument
        self.detail = detail

    def __reduce__(self) -> tuple[object, ...]:
        return DataError, (self.argument, self.detail)


class AclError(RuntimeError):
    """A CANN call failed, or would fail on the SoC whose rules apply.

    Attributes: status (int), name (CANN's constant), routine (the C function), operator (the aclnn name or None),
    argument (the Python name of the argument at fault, or None), detail (what was wrong, and what is allowed), rule (the
    identifier of the check that refused, "aclnnMm/mat2/shape", or None where no rule explains the status). The text's last
    line says what to do, where that is more than the detail says.
    """

    _explained = False  # the detail says what to do

    def __init__(
        self,
        status: int,
        routine: str,
        detail: str = "",
        *,
        operator: Optional[str] = None,
        argument: Optional[str] = None,
        rule: Optional[str] = None,
        explained: bool = False,
    ) -> None:
        """``explained``: the detail says what to do."""
        self._explained = self._explained or explained
        self.status = status
        self.rule = rule
        self.name = status_name(status)
        self.routine = routine
        self.operator = operator
        self.argument = argument
        head = f"{operator}: " if operator else ""
        if head and detail.startswith(head):  # CANN's own text may name it already
            detail = detail[len(head) :]
        self.detail = detail or status_hint(status)
        lines = [f"{head}{self.detail or 'failed'}", f"status {status} {self.name} from {routine}".replace("  ", " ")]
        # What a check refuses its text explains; the remedies of statuses are about devices and drivers.
        remedy = "" if self._explained or rule else error_codes.remedy_of(self.detail, status)
        if remedy:
            lines.append(f"to do: {remedy}")
        super().__init__("\n  ".join(lines))

    def __reduce__(self) -> tuple[object, ...]:
        state = {"operator": self.operator, "argument": self.argument, "rule": self.rule, "explained": self._explained}
        return _rebuild, (type(self), self.status, self.routine, self.detail, state)


def _rebuild(kind: type[AclError], status: int, routine: str, detail: str, names: dict[str, Any]) -> AclError:
    return kind(status, routine, detail, **names)


class UnsupportedOperator(AclError):
    """The operator is not in the installed CANN, or the NumPy backend has no reference for it (status 561003)."""

    _explained = True

    def __init__(
        self,
        operator: str,
        detail: str,
        *,
        routine: Optional[str] = None,
        status: int = FIND_KERNEL_ERROR,
        argument: Optional[str] = None,
    ) -> None:
        super().__init__(status, routine or operator, detail, operator=operator, argument=argument)

    def __reduce__(self) -> tuple[object, ...]:
        state = {"routine": self.routine, "status": self.status, "argument": self.argument}
        return _rebuild_unsupported, (self.operator, self.detail, state)


def _rebuild_unsupported(operator: str, detail: str, rest: dict[str, Any]) -> UnsupportedOperator:
    return UnsupportedOperator(operator, detail, **rest)


class LibraryNotFound(OSError):
    """A CANN library could not be loaded: which, where it was looked for, why it was refused, what to do."""
