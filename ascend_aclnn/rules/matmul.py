"""Rules of ops-nn/matmul."""

from __future__ import annotations

from ascend_aclnn.rules.language import Call, dims, documented, promoted, rank, result, rule, shape


def _inner_axes_match(call: Call) -> None:
    left, right = call.shape("self"), call.shape("mat2")
    text = f"has shape {right}; its first axis must be {left[1]}, the last axis of self {left}"
    call.require(left[1] == right[0], "mat2", text)


rule(
    "aclnnMm",
    documented("self", "mat2", "out"),
    rank(2, 2, "self", "mat2", "out"),
    _inner_axes_match,
    shape(out=dims(("self", 0), ("mat2", 1))),
    result(out=promoted("self", "mat2")),
)

