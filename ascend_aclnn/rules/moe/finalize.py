"""Weighted sums of the experts' rows, per token."""

from __future__ import annotations

from ascend_aclnn.rules.language import (
    Call,
    documented_products,
    dtype_of,
    dtype_table,
    dtypes,
    formats,
    infer_shape,
    one_of,
    output_dtype,
    output_shape,
    rank,
    rule,
    same_dtype,
    shape_from,
    shape_of,
    tiling,
    unless_empty,
    when,
)

_FLOATS = {"310P": "FLOAT16 FLOAT", "": "FLOAT16 BF16 FLOAT"}


def _equal(call: Call, *parts: tuple[str, int]) -> None:
    """Axes of given tensors have one size."""
    first = parts[0]
    wanted = call.size(*first)
    for name, axis in parts[1:]:
        if call.is_present(name):
            size = call.size(name, axis)
            text = f"has {size} items in axis {axis}; {call.python_name(first[0])} has {wanted} in axis {first[1]}"
            call.require(size == wanted, name, text)


def _v1(call: Call) -> None:
    _equal(call, ("x1", 0), ("scales", 0), ("expandedExpertIdx", 0), ("out", 0), ("x2Optional", 0))
    _equal(call, ("x1", 1), ("expandedX", 1), ("bias", 1), ("out", 1), ("x2Optional", 1))
    _equal(call, ("scales", 1), ("expandedExpertIdx", 1))
    _equal(call, ("expandedX", 0), ("expandedRowIdx", 0))
    call.require(call.size("bias", 0) > 0, "bias", "has no rows; it needs one for each expert")
    call.require(call.size("scales", 1) > 0, "scales", "has no columns; it needs one for each expert of a token")


rule(
    "aclnnMoeFinalizeRouting",
    dtype_table(
        "expandedX x1 x2Optional bias scales expandedRowIdx expandedExpertIdx out",
        "FLOAT16 FLOAT16 FLOAT16 FLOAT16 FLOAT16 INT32 INT32 FLOAT16",
        "FLOAT FLOAT FLOAT FLOAT FLOAT INT32 INT32 FLOAT",
        "BF16 BF16 BF16 BF16 BF16 INT32 INT32 BF16",
    ),
    documented_products,
    tiling(
        rank(2, 2, "expandedX", "x1", "x2Optional", "bias", "scales"),
        rank(1, 1, "expandedRowIdx"),
        rank(2, 2, "expandedExpertIdx", "out"),
        _v1,
        output_shape(out=shape_of("x1")),
    ),
    output_dtype(out=dtype_of("x1")),
)


def _rows(call: Call) -> int:
    """Tokens: one row of scales each; without scales, each token went to one expert (or, V4, to k)."""
    if call.is_present("scalesOptional"):
        return call.size("scalesOptional", 0)
    copies = call.size("expandedRowIdx", 0)
    k = call["k"] if "k" in call.operator.positions else 1
    return copies // k if k > 0 else copies


_LIKE_X = "x1Optional x2Optional biasOptional scalesOptional"
_PADDED = (1, 3)  # drop modes in which every expert has its own block of rows


def _expanded_x(call: Call) -> None:
    wanted = 3 if call["dropPadMode"] in _PADDED else 2
    rank(wanted, wanted, "expandedX")(call)


def _expanded_x_format(call: Call) -> None:
    formats("ND NCL" if len(call.shape("expandedX")) == 3 else "ND", "expandedX")(call)


def _finalize(name: str, extra: str) -> None:
    """``extra``: the copied and constant experts' tensors of V3 and V4."""
    like_x = f"x1Optional x2Optional biasOptional {extra}".split()
    rest = [*like_x, "scalesOptional", "expandedRowIdx", "expertIdxOptional", "out"]

    def rank_of_rest(call: Call) -> None:
        given = [n for n in [*like_x, "scalesOptional", "expertIdxOptional", "out"] if not call.is_empty(n)]
        rank(2, 2, *given)(call)

    rule(
        name,
        dtypes(_FLOATS, "expandedX", *like_x, "scalesOptional", "out"),
        dtypes("INT32", "expandedRowIdx", "expertIdxOptional"),
        same_dtype("expandedX", *like_x, "out"),
        _expanded_x_format,
        formats("ND", *rest),
        unless_empty("expandedX", _expanded_x),
        unless_empty("expandedRowIdx", rank(1, 1, "expandedRowIdx")),
        rank_of_rest,
        documented_products,
        tiling(one_of("dropPadMode", 0, 1, 2, 3), output_shape(out=shape_from(_rows, ("expandedX", -1)))),
        output_dtype(out=dtype_of("expandedX")),
    )


_finalize("aclnnMoeFinalizeRoutingV2", "")
_finalize("aclnnMoeFinalizeRoutingV3", "xOptional a1Optional a2Optional vOptional")
_finalize("aclnnMoeFinalizeRoutingV4", "xOptional a1Optional a2Optional vOptional")


def _grad_expanded_x(call: Call) -> tuple[int, ...]:
    hidden = call.size("gradY", -1)
    if call["dropPadMode"] == 1:
        return int(call["expertNum"]), int(call["expertCapacity"]), hidden
    rows, active = call.size("expandedRowIdx", 0), call["activeNum"]
    return (min(rows, active) if active > 0 else rows), hidden


def _grad_scales(call: Call) -> tuple[int, ...]:
    return call.shape("scalesOptional") if call.is_present("scalesOptional") else (call.size("gradY", 0), 1)


def _v2_grad(call: Call) -> None:
    mode = call["dropPadMode"]
    call.require(mode in (0, 1), "dropPadMode", f"is {mode}; it must be 0 or 1")
    if mode == 1:
        text = f"is {call['expertNum']}; it must be positive, as expert_capacity ({call['expertCapacity']})"
        call.require(call["expertNum"] > 0 and call["expertCapacity"] > 0, "expertNum", text)
    rank(2, 2, "gradY")(call)
    rank(1, 1, "expandedRowIdx")(call)
    copies = call.size("expandedRowIdx", 0)
    if not call.is_present("scalesOptional"):
        text = f"has {copies} items; without scales it must have one for each row of grad_y ({call.size('gradY', 0)})"
        call.require(copies == call.size("gradY", 0), "expandedRowIdx", text)
        return
    call.require(call.is_present("expandedXOptional"), "expandedXOptional", "is None; scales need it")
    _equal(call, ("gradY", 0), ("scalesOptional", 0))
    _equal(call, ("gradY", 1), ("expandedXOptional", -1))
    scales = call["scalesOptional"].size
    call.require(scales == copies, "scalesOptional", f"has {scales} items; expanded_row_idx has {copies}")
    if call.is_present("biasOptional"):
        call.require(call.is_present("expertIdxOptional"), "expertIdxOptional", "is None; bias needs it")
        _equal(call, ("gradY", 0), ("expertIdxOptional", 0))
        _equal(call, ("gradY", 1), ("biasOptional", 1))


_GRAD_NAMES = (
    "gradY expandedRowIdx expandedXOptional scalesOptional expertIdxOptional biasOptional "
    "gradExpandedXOut gradScalesOut"
)

rule(
    "aclnnMoeFinalizeRoutingV2Grad",
    dtype_table(
        _GRAD_NAMES,
        "FLOAT16 INT32 FLOAT16 FLOAT16 INT32 FLOAT16 FLOAT16 FLOAT16",
        "FLOAT INT32 FLOAT FLOAT INT32 FLOAT FLOAT FLOAT",
        "BF16 INT32 BF16 BF16 INT32 BF16 BF16 BF16",
        products="A2 A3",
    ),
    dtype_table(
        _GRAD_NAMES,
        *(f"{x} INT32 {x} {s} INT32 {x} {x} {s}" for x in _FLOATS[""].split() for s in _FLOATS[""].split()),
        products="950",
    ),
    documented_products,
    tiling(_v2_grad, output_shape(gradExpandedXOut=_grad_expanded_x)),
    when(lambda call: call.is_present("scalesOptional"), tiling(output_shape(gradScalesOut=_grad_scales))),
    infer_shape(gradScalesOut=_grad_scales),
    output_dtype(
        gradExpandedXOut=dtype_of("gradY"),
        gradScalesOut=lambda call: call.dtype("scalesOptional" if call.is_present("scalesOptional") else "gradY"),
    ),
)
