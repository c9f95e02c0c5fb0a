"""Operators that no reference can compute from what is public, and why."""

from __future__ import annotations

_SCHEDULE = "its schedule holds addresses in the memory of other devices, which the NumPy backend does not have"

REASONS = {  # by C name
    "aclnnAttentionWorkerCombine": _SCHEDULE,
    "aclnnFfnWorkerBatching": _SCHEDULE,
    "aclnnInplaceAttentionWorkerScheduler": _SCHEDULE,
    "aclnnInplaceFfnWorkerScheduler": _SCHEDULE,
}
