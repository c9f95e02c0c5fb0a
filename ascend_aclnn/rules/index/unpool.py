"""Rules of max-unpooling."""

from __future__ import annotations

import math

from ascend_aclnn.rules.language import (
    Call,
    Check,
    array_length,
    castable,
    contiguous,
    dtype_of,
    dtypes,
    infer_shape,
    output_dtype,
    output_shape,
    rule,
    same_dtype,
    same_shape,
    shape_of,
)

_NUMBERS = "FLOAT FLOAT16 INT8 UINT8 INT16 INT32 INT64"


def _plane_rank(spatial: int) -> Check:
    """self has spatial axes behind (N, C) or (C)."""

    def check(call: Call) -> None:
        n = len(call.shape("self"))
        allowed = (spatial + 1, spatial + 2)
        call.require(n in allowed, "self", f"has rank {n}; it must be {allowed[0]} or {allowed[1]}")

    return check


def _no_empty_plane(call: Call) -> None:
    sizes = call.shape("self")
    call.require(all(n > 0 for n in sizes[1:]), "self", f"has shape {sizes}; only the first axis may be empty")


def _output_holds_all(spatial: int) -> Check:
    """output_size has one positive number for every spatial axis, and holds at least the pooled items."""

    def check(call: Call) -> None:
        array_length("outputSize", spatial)(call)
        wanted, sizes = call["outputSize"], call.shape("self")[-spatial:]
        call.require(all(n > 0 for n in wanted), "outputSize", f"is {wanted}; it must be positive")
        fits = math.prod(wanted) >= math.prod(sizes)
        call.require(fits, "outputSize", f"is {wanted}; it must hold at least the pooled plane {sizes}")

    return check


def _is_enlarged(name: str, spatial: int) -> Check:
    def check(call: Call) -> None:
        came, wanted = call.shape(name), call.shape("self")[:-spatial] + tuple(call["outputSize"])
        call.require(
            came == wanted, name, f"has shape {came}; it must be {wanted}, the planes of self enlarged to output_size"
        )

    return check


def _strides(call: Call) -> None:
    array_length("stride", 3)(call)
    array_length("padding", 3)(call)
    call.require(all(n > 0 for n in call["stride"]), "stride", f"is {call['stride']}; it must be positive")


rule(
    "aclnnMaxUnpool2d",
    dtypes(f"{_NUMBERS} DOUBLE", "self"),
    same_dtype("self", "out"),
    dtypes("INT32 INT64", "indices"),
    _plane_rank(2),
    same_shape("self", "indices"),
    _no_empty_plane,
    _output_holds_all(2),
    infer_shape(out=lambda call: call.shape("self")[:-2] + tuple(call["outputSize"])),
    output_dtype(out=dtype_of("self")),
)

rule(
    "aclnnMaxUnpool3d",
    contiguous("outRef"),
    dtypes(f"{_NUMBERS} DOUBLE", "self"),
    same_dtype("self", "outRef"),
    dtypes("INT32 INT64", "indices"),
    _plane_rank(3),
    same_shape("self", "indices"),
    _no_empty_plane,
    array_length("outputSize", 3),
    _strides,
    _output_holds_all(3),
    _is_enlarged("outRef", 3),
)

rule(
    "aclnnMaxUnpool2dBackward",
    dtypes(f"{_NUMBERS} BOOL", "gradOutput", "self", "out"),
    castable("gradOutput", "out"),
    same_dtype("self", "gradOutput"),
    dtypes("INT32 INT64", "indices"),
    _plane_rank(2),
    same_shape("self", "indices"),
    output_shape(out=shape_of("self")),
    array_length("outputSize", 2),
    _is_enlarged("gradOutput", 2),
    output_dtype(out=dtype_of("self")),
)

rule(
    "aclnnMaxUnpool3dBackward",
    contiguous("out"),
    dtypes(f"{_NUMBERS} DOUBLE", "gradOutput", "self", "out"),
    same_dtype("gradOutput", "self", "out"),
    dtypes("INT64", "indices"),
    _plane_rank(3),
    same_shape("self", "indices"),
    output_shape(out=shape_of("self")),
    _no_empty_plane,
    array_length("outputSize", 3),
    _strides,
    _output_holds_all(3),
    _is_enlarged("gradOutput", 3),
    output_dtype(out=dtype_of("self")),
)
