"""Rules of max-unpooling."""

from __future__ import annotations

from ascend_aclnn.rules.language import *

_NUMBERS = f"FLOAT FLOAT16 {INTEGERS}"
_SOMETHING = require("0 not in self[1:]", why="only the first axis may be empty")


def _holds_all(spatial: int) -> tuple[Check, ...]:
    """output_size has one positive number for every spatial axis, and holds at least the pooled items."""
    return (
        array_length("outputSize", spatial),
        positive("outputSize"),
        require(f"prod(outputSize) >= prod(self[-{spatial}:])"),
    )


_WINDOWS = (array_length("stride", 3), array_length("padding", 3), positive("stride"))
rule(
    "aclnnMaxUnpool2d",
    same_dtype("self", "out", among=f"{_NUMBERS} DOUBLE"),
    dtypes(INDICES, "indices"),
    rank(3, 4, "self"),
    same_shape("self", "indices"),
    _SOMETHING,
    *_holds_all(2),
    infer_shape(out="(*self[:-2], *outputSize)"),
)

rule(
    "aclnnMaxUnpool3d",
    contiguous("outRef"),
    same_dtype("self", "outRef", among=f"{_NUMBERS} DOUBLE"),
    dtypes(INDICES, "indices"),
    rank(4, 5, "self"),
    same_shape("self", "indices"),
    _SOMETHING,
    array_length("outputSize", 3),
    *_WINDOWS,
    *_holds_all(3),
    has_shape(outRef="(*self[:-3], *outputSize)"),
)

rule(
    "aclnnMaxUnpool2dBackward",
    dtypes(f"{_NUMBERS} BOOL", "gradOutput", "self", "out"),
    castable("gradOutput", "out"),
    same_dtype("self", "gradOutput"),
    dtypes(INDICES, "indices"),
    rank(3, 4, "self"),
    same_shape("self", "indices"),
    like(out="self"),
    array_length("outputSize", 2),
    has_shape(gradOutput="(*self[:-2], *outputSize)"),
)

rule(
    "aclnnMaxUnpool3dBackward",
    contiguous("out"),
    dtypes(f"{_NUMBERS} DOUBLE", "gradOutput", "self", "out"),
    same_dtype("gradOutput", "self", "out"),
    dtypes("INT64", "indices"),
    rank(4, 5, "self"),
    same_shape("self", "indices"),
    like(out="self"),
    _SOMETHING,
    array_length("outputSize", 3),
    *_WINDOWS,
    *_holds_all(3),
    has_shape(gradOutput="(*self[:-3], *outputSize)"),
)
