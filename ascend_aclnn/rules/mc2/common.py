"""What the rules of communicating operators share."""

from __future__ import annotations

from ascend_aclnn.core.errors import PARAM_INVALID, PARAM_NULLPTR
from ascend_aclnn.rules.language import *

LONGEST_NAME = 127


def communicator(*names: str, null: int = PARAM_NULLPTR, long: int = PARAM_INVALID) -> Check:
    """The names of communicators: neither empty (which counts as null) nor longer than 127 characters."""

    def check(call: Call) -> None:
        for name in names:
            call.require(bool(call[name]), name, "is None or empty; it must name a communicator", null)
        for name in names:
            optional_communicator(name, long)(call)

    return check


def optional_communicator(name: str, long: int = PARAM_INVALID) -> Check:
    """The name of a second communicator, for later versions: none, or not too long."""

    def check(call: Call) -> None:
        length = len(call[name] or "")
        call.require(length <= LONGEST_NAME, name, f"has {length} characters; it must have at most 127", long)

    return check


stop_on_failure = one_of("streamMode", 1)

# Which engine communicates.
COMM_MODE = (
    required("commMode"),
    on_products("A2", one_of("commMode", "aiv")),
    on_products("950", one_of("commMode", "ai_cpu", "ccu")),
    when("product not in ('A2', '950')", one_of("commMode", "ai_cpu")),
)
COMM_MODE_WITHOUT_AIV = (
    required("commMode", status=PARAM_INVALID),
    on_products("950", one_of("commMode", "ai_cpu", "ccu")),
    when("product != '950'", one_of("commMode", "ai_cpu")),
)


def whole_or_transposed(*names: str) -> Check:
    """On A2, matrices are stored in order, or transposed as a whole (or are empty)."""

    def check(call: Call) -> None:
        for name in names if call.product == "A2" else ():
            shape = call.shape(name)
            if call.is_present(name) and not (shape.empty or shape.contiguous or shape.transposed):
                text = (
                    f"is stored with gaps (shape {tuple(shape)}, strides {call[name].strides}); it must be contiguous"
                )
                call.refuse(name, f"{text}, or transposed as a whole")

    return check
