"""What the rules of communicating operators share."""

from __future__ import annotations

from ascend_aclnn.core.errors import PARAM_INVALID, PARAM_NULLPTR
from ascend_aclnn.rules.gmm.common import transposed
from ascend_aclnn.rules.language import Call, Check, one_of

LONGEST_NAME = 127


def communicator(*names: str, null: int = PARAM_NULLPTR, long: int = PARAM_INVALID) -> Check:
    """The names of communicators: neither empty (which counts as null) nor longer than 127 characters."""

    def check(call: Call) -> None:
        for name in names:
            call.require(bool(call[name]), name, "is None or empty; it must name a communicator", null)
        for name in names:
            text = f"has {len(call[name])} characters; it must have at most {LONGEST_NAME}"
            call.require(len(call[name]) <= LONGEST_NAME, name, text, long)

    return check


def optional_communicator(name: str, long: int = PARAM_INVALID) -> Check:
    """The name of a second communicator, for later versions: none, or not too long."""

    def check(call: Call) -> None:
        length = len(call[name] or "")
        call.require(length <= LONGEST_NAME, name, f"has {length} characters; it must have at most 127", long)

    return check


stop_on_failure = one_of("streamMode", 1)


def comm_mode(a2: str = "aiv") -> Check:
    """Which engine communicates, by chip."""

    def check(call: Call) -> None:
        allowed = {"A2": (a2,), "A3": ("ai_cpu",), "950": ("ai_cpu", "ccu")}.get(call.product, ("ai_cpu",))
        mode = call["commMode"]
        call.require(mode in allowed, "commMode", f"is {mode!r}; on {call.soc.name} it must be {' or '.join(allowed)}")

    return check


def whole_or_transposed(*names: str) -> Check:
    """On A2, matrices are stored in order, or transposed as a whole (or are empty)."""

    def check(call: Call) -> None:
        if call.product != "A2":
            return
        for name in names:
            tensor = call[name]
            if tensor is not None and tensor.size and not tensor.is_contiguous and not transposed(tensor):
                call.refuse(name, f"is stored with gaps (shape {tensor.shape}, strides {tensor.strides})")

    return check
