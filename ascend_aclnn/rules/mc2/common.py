"""What the rules of communicating operators share."""

from __future__ import annotations

from ascend_aclnn.core.errors import PARAM_INVALID, PARAM_NULLPTR
from ascend_aclnn.rules.language import *


def communicator(*names: str, null: int = PARAM_NULLPTR, long: int = PARAM_INVALID) -> tuple[Check, ...]:
    """The names of communicators: neither empty (which counts as null) nor longer than 127 characters."""
    return (
        with_status(null, required(*names, status=null), not_empty(*names)),
        *(optional_communicator(name, long) for name in names),
    )


def optional_communicator(name: str, long: int = PARAM_INVALID) -> Check:
    """The name of a second communicator, for later versions: none, or not too long."""
    return with_status(long, require(f"len({name}) <= 127"))


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
    return on_products("A2", require(*(f"{x}.contiguous or {x}.transposed or {x}.empty" for x in names)))
