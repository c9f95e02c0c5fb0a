"""Copies of the tokens in the order of their experts, with counts and (optionally) quantised."""

from __future__ import annotations

from typing import Optional

from ascend_aclnn.core.dtypes import DataType
from ascend_aclnn.core.errors import INNER_NULLPTR, PARAM_INVALID
from ascend_aclnn.rules.language import (
    Call,
    DtypeSet,
    Shape,
    documented_products,
    dtype_of,
    dtype_table,
    dtypes,
    infer_shape,
    one_of,
    only_products,
    output_dtype,
    output_shape,
    rank,
    rule,
    same_dtype,
    same_shape,
    shape_from,
    shape_of,
    tiling,
    when,
)

_FLOATS = "FLOAT16 BF16 FLOAT"
_FLOATS_310P: DtypeSet = {"310P": "FLOAT16 FLOAT", "": _FLOATS}


def _copies(call: Call) -> int:
    """Tokens times experts per token."""
    sizes = call.shape("expertIdx")
    return call.size("expertIdx", 0) * (sizes[1] if len(sizes) > 1 else 1)


# ------------------------------------------------------------------------------------------------ V1


def _active_rows(call: Call) -> int:
    """Rows of expandedX: activeNum counts tokens."""
    return int(min(call.size("x", 0), call["activeNum"]) * call.size("expertIdx", 1))


def _routing_inputs(call: Call) -> None:
    x, experts = call.shape("x"), call.shape("expertIdx")
    text = f"has {experts[0]} rows; x has {x[0]}"
    call.require(experts[0] == x[0], "expertIdx", text)
    call.require(call["activeNum"] >= 0, "activeNum", f"is {call['activeNum']}; it must not be negative")


_ROUTING = tiling(
    rank(2, 2, "x", "rowIdx", "expertIdx"),
    same_shape("expertIdx", "rowIdx"),
    _routing_inputs,
    output_shape(
        expandedXOut=shape_from(_active_rows, ("x", 1)),
        expandedRowIdxOut=shape_from(_copies),
        expandedExpertIdxOut=shape_from(_copies),
    ),
)
_INDEXES = output_dtype(expandedRowIdxOut="INT32", expandedExpertIdxOut="INT32")

rule(
    "aclnnMoeInitRouting",
    only_products("A2 A3 950"),
    dtype_table(
        "x rowIdx expertIdx expandedXOut expandedRowIdxOut expandedExpertIdxOut",
        "FLOAT16 INT32 INT32 FLOAT16 INT32 INT32",
        "BF16 INT32 INT32 BF16 INT32 INT32",
        "FLOAT INT32 INT32 FLOAT INT32 INT32",
    ),
    _ROUTING,
    output_dtype(expandedXOut=dtype_of("x")),
    _INDEXES,
)

rule(
    "aclnnMoeInitRoutingQuant",
    only_products("A2 A3"),
    dtype_table(
        "x rowIdx expertIdx expandedXOut expandedRowIdxOut expandedExpertIdxOut",
        "FLOAT16 INT32 INT32 INT8 INT32 INT32",
        "BF16 INT32 INT32 INT8 INT32 INT32",
        "FLOAT INT32 INT32 INT8 INT32 INT32",
    ),
    _ROUTING,
    output_dtype(expandedXOut="INT8"),
    _INDEXES,
)

# ------------------------------------------------------------------------------------------------ V2


def _attribute(call: Call, name: str) -> int:
    """An attribute of V2, whose names end in Optional, or of QuantV2, whose names do not."""
    return int(call[name if name in call.operator.positions else name + "Optional"])


def _expanded(call: Call) -> Shape:
    """Rows that are copied: all, the first activeNum, or a block of the capacity for each expert."""
    if _attribute(call, "dropPadMode") == 1:
        return _attribute(call, "expertNum"), _attribute(call, "expertCapacity"), call.size("x", 1)
    copies, active = _copies(call), _attribute(call, "activeNum")
    if call.product == "950" and active < 0:  # drops that many
        return max(copies + active, 0), call.size("x", 1)
    return min(copies, active) if active > 0 else copies, call.size("x", 1)


def _counts(call: Call) -> Optional[Shape]:
    flag = _attribute(call, "expertTokensCountOrCumsumFlag") > 0 and _attribute(call, "dropPadMode") == 0
    return (_attribute(call, "expertNum"),) if flag else None


def _before_capacity(call: Call) -> Optional[Shape]:
    flag = _attribute(call, "expertTokensBeforeCapacityFlag") and _attribute(call, "dropPadMode") == 1
    return (_attribute(call, "expertNum"),) if flag else None


def _v2_inputs(call: Call) -> None:
    rank(2, 2, "x")(call)
    rank(1 if call.product == "950" else 2, 2, "expertIdx")(call)
    tokens = call.size("x", 0)
    text = f"has {call.size('expertIdx', 0)} rows; x has {tokens}"
    call.require(call.size("expertIdx", 0) == tokens, "expertIdx", text)
    for name in ("activeNum", "expertCapacity", "expertNum"):
        value = _attribute(call, name)
        call.require(value >= 0 or (name == "activeNum" and call.product == "950"), name, f"is {value}; it is negative")
    experts, capacity = _attribute(call, "expertNum"), _attribute(call, "expertCapacity")
    mode, counts = _attribute(call, "dropPadMode"), _attribute(call, "expertTokensCountOrCumsumFlag")
    call.require(mode in (0, 1), "dropPadMode", f"is {mode}; it must be 0 or 1")
    call.require(counts in (0, 1, 2), "expertTokensCountOrCumsumFlag", f"is {counts}; it must be 0, 1 or 2")
    call.require(experts > 0 or not (mode or counts), "expertNum", f"is {experts}; it must be positive")
    if mode == 1:
        call.require(
            0 < capacity <= tokens, "expertCapacity", f"is {capacity}; it must be in [1, {tokens}], the tokens"
        )
    given = {"expertTokensCountOrCumsumOutOptional": _counts, "expertTokensBeforeCapacityOutOptional": _before_capacity}
    for name, shape_ in given.items():
        call.require(call.is_present(name) or shape_(call) is None, name, "is None, but its flag is set")


_V2_SHAPES = output_shape(
    expandedXOut=_expanded,
    expandedRowIdxOut=shape_from(_copies),
    expertTokensCountOrCumsumOutOptional=_counts,
    expertTokensBeforeCapacityOutOptional=_before_capacity,
)
_V2_RESULT = output_dtype(
    expandedRowIdxOut="INT32",
    expertTokensCountOrCumsumOutOptional="INT32",
    expertTokensBeforeCapacityOutOptional="INT32",
)
_V2_INDEXES = dtypes(
    "INT32",
    "expandedRowIdxOut",
    "expertTokensCountOrCumsumOutOptional",
    "expertTokensBeforeCapacityOutOptional",
)

rule(
    "aclnnMoeInitRoutingV2",
    dtypes(_FLOATS_310P, "x", "expandedXOut"),
    dtypes({"950": "INT32 INT64", "": "INT32"}, "expertIdx"),
    same_dtype("x", "expandedXOut"),
    _V2_INDEXES,
    documented_products,
    tiling(_v2_inputs, _V2_SHAPES),
    output_dtype(expandedXOut=dtype_of("x")),
    _V2_RESULT,
)


def _v2_scale(call: Call) -> None:
    mode, scale = call["quantMode"], call["scaleOptional"]
    call.require(mode in (0, 1), "quantMode", f"is {mode}; it must be 0 (static) or 1 (dynamic)")
    if mode == 0:
        for name in ("scaleOptional", "offsetOptional"):
            call.require(call.is_present(name), name, "is None; a static quantisation needs it")
            call.require(call.shape(name) == (1,), name, f"has shape {call.shape(name)}; it must be (1,)")
    else:
        name = "dynamicQuantScaleOutOptional"
        call.require(call.is_present(name), name, "is None; a dynamic quantisation writes it")
        if scale is not None:
            rank(2, 2, "scaleOptional")(call)
            rows, experts = call.size("scaleOptional", 0), call["expertNum"]
            text = f"has {rows} rows; it must have 1 or expert_num ({experts})"
            call.require(rows in (1, experts), "scaleOptional", text)
            text = f"has {call.size('scaleOptional', 1)} columns; x has {call.size('x', 1)}"
            call.require(call.size("scaleOptional", 1) == call.size("x", 1), "scaleOptional", text)


def _dynamic_scales(call: Call) -> Optional[Shape]:
    if call["quantMode"] != 1:
        return None
    rows = _expanded(call)[:-1]
    return (rows[0] * rows[1] if len(rows) > 1 else rows[0],)


rule(
    "aclnnMoeInitRoutingQuantV2",
    dtypes(_FLOATS, "x"),
    dtypes("INT32", "expertIdx"),
    dtypes("FLOAT", "scaleOptional", "offsetOptional", "dynamicQuantScaleOutOptional"),
    dtypes({"950": "INT8 INT4", "": "INT8"}, "expandedXOut"),
    _V2_INDEXES,
    documented_products,
    tiling(_v2_inputs, _v2_scale, _V2_SHAPES, output_shape(dynamicQuantScaleOutOptional=_dynamic_scales)),
    output_dtype(expandedXOut="INT8", dynamicQuantScaleOutOptional="FLOAT"),
    _V2_RESULT,
)


def _v2_grad(call: Call) -> None:
    """The kernel cannot be launched, so the graph holds a null pointer: 561103."""
    call.status = INNER_NULLPTR
    try:
        mode, topk, active = call["dropPadMode"], call["topK"], call["activeNum"]
        call.require(mode in (0, 1), "dropPadMode", f"is {mode}; it must be 0 or 1")
        call.require(topk > 0, "topK", f"is {topk}; it must be positive")
        call.require(active >= 0, "activeNum", f"is {active}; it must not be negative")
        rank(3 if mode else 2, 3, "gradExpandedX")(call)
        rank(1, 1, "expandedRowIdx")(call)
        rows, copies = call.size("gradExpandedX", 0), call.size("expandedRowIdx", 0)
        call.require(copies % topk == 0, "expandedRowIdx", f"has {copies} items; it must be a multiple of {topk}")
        if mode == 0:
            wanted = active or copies
            call.require(rows == wanted, "gradExpandedX", f"has {rows} rows; it must have {wanted}")
        output_shape(out=_v2_grad_out)(call)
    finally:
        call.status = PARAM_INVALID


def _v2_grad_out(call: Call) -> Shape:
    return call.size("expandedRowIdx", 0) // max(call["topK"], 1), call.size("gradExpandedX", -1)


rule(
    "aclnnMoeInitRoutingV2Grad",
    dtypes(_FLOATS, "gradExpandedX", "out"),
    dtypes("INT32", "expandedRowIdx"),
    same_dtype("gradExpandedX", "out"),
    documented_products,
    when(lambda call: not call.is_empty("out"), _v2_grad),
    infer_shape(out=_v2_grad_out),
    output_dtype(out=dtype_of("gradExpandedX")),
)

# ------------------------------------------------------------------------------------------------ V3, V4

_MX = "HIFLOAT8 FLOAT8_E5M2 FLOAT8_E4M3FN FLOAT4_E2M1"
_X: DtypeSet = {"950": f"FLOAT16 BF16 FLOAT INT8 {_MX}", "": "FLOAT16 BF16 FLOAT INT8"}
_EXPANDED_X: DtypeSet = {"950": f"FLOAT16 BF16 FLOAT INT8 INT4 {_MX}", "": "FLOAT16 BF16 FLOAT INT8"}
_SCALE: DtypeSet = {"950": "FLOAT FLOAT8_E8M0", "": "FLOAT"}

# quantMode -> data type of expandedXOut (else that of x), and the block of values that shares a scale (0: the row)
_E5M2, _E4M3 = DataType.FLOAT8_E5M2, DataType.FLOAT8_E4M3FN
_QUANTISED = {
    0: (DataType.INT8, 0),
    1: (DataType.INT8, 0),
    2: (_E5M2, 32),
    3: (_E4M3, 32),
    4: (_E5M2, 128),
    5: (_E4M3, 128),
    6: (DataType.HIFLOAT8, 0),
    7: (DataType.HIFLOAT8, 0),
    8: (DataType.HIFLOAT8, 0),
    9: (DataType.FLOAT4_E2M1, 64),
    11: (_E5M2, 256),
    12: (_E4M3, 256),
    13: (DataType.INT4, 0),
    14: (_E5M2, 128),
    15: (_E4M3, 128),
    16: (_E5M2, 32),
    17: (_E4M3, 32),
}
_PAIRED = (9, 11, 12)  # modes whose scales lie in pairs, in an axis of their own


def _expert_range(call: Call) -> tuple[int, int]:
    limits = call["activeExpertRangeOptional"]
    if limits is None:
        return 0, int(call["expertNum"])
    call.require(len(limits) == 2, "activeExpertRangeOptional", f"has {len(limits)} items; it must be (start, end)")
    return int(limits[0]), int(limits[1])


def _v3_expanded(call: Call) -> Shape:
    hidden = call.size("x", 1)
    if call["dropPadMode"] == 1:
        return int(call["expertNum"]), int(call["expertCapacity"]), hidden
    copies = _copies(call)
    active = call["activeNum"] if "activeNum" in call.operator.positions else 0  # V4's is a tensor
    return (min(active, copies) if active > 0 else copies), hidden


def _v3_counts(call: Call) -> Shape:
    if call["expertTokensNumType"] == 2:
        return int(call["expertNum"]), 2
    start, end = _expert_range(call)
    return (max(end - start, 0),)


def _v3_scales(call: Call) -> Shape:
    mode, hidden = call["quantMode"], call.size("x", 1)
    expanded = _v3_expanded(call)
    rows = expanded[0] * (expanded[1] if len(expanded) == 3 else 1)
    block = _QUANTISED.get(mode, (None, 0))[1]
    if mode == -1 and len(call.shape("scaleOptional")) == 3:
        return rows, -(-hidden // 64), 2
    if not block:
        return (rows,)
    blocks = -(-hidden // block)
    if mode in _PAIRED:
        return rows, blocks, 2
    return rows, blocks + blocks % 2 if block == 32 else blocks


def _v3_dtype(call: Call) -> DataType:
    made = _QUANTISED.get(call["quantMode"])
    return made[0] if made else call.dtype("x")


def _v3_scale_dtype(call: Call) -> DataType:
    small = call["quantMode"] in (2, 3, 9, 16, 17) or call.dtype("scaleOptional") is DataType.FLOAT8_E8M0
    return DataType.FLOAT8_E8M0 if small else DataType.FLOAT


def _v3_inputs(call: Call) -> None:
    rank(2, 2, "x", "expertIdx")(call)
    tokens, hidden = call.sizes("x", 2)
    text = f"has {call.size('expertIdx', 0)} rows; x has {tokens}"
    call.require(call.size("expertIdx", 0) == tokens, "expertIdx", text)
    start, end = _expert_range(call)
    if not call.is_present("scaleOptional"):
        return
    if call["quantMode"] == -1 and call.dtype("scaleOptional") is DataType.FLOAT:
        call.require(
            call.shape("scaleOptional") == (tokens,),
            "scaleOptional",
            f"has shape {call.shape('scaleOptional')}; it must be ({tokens},)",
        )
    elif call["quantMode"] == 1:
        rank(2, 2, "scaleOptional")(call)
        rows, columns_ = call.sizes("scaleOptional", 2)
        fits = columns_ == hidden and rows in (1, end - start)
        text = f"has shape ({rows}, {columns_}); it must be ({end - start}, {hidden})"
        call.require(fits, "scaleOptional", text)


_V3 = (
    dtypes(_X, "x"),
    dtypes("INT32", "expertIdx"),
    dtypes(_SCALE, "scaleOptional"),
    dtypes("FLOAT", "offsetOptional"),
    dtypes(_EXPANDED_X, "expandedXOut"),
    dtypes("INT32", "expandedRowIdxOut"),
    dtypes("INT64", "expertTokensCountOrCumsumOut"),
    dtypes(_SCALE, "expandedScaleOut"),
)
_V3_SHAPES = output_shape(
    expandedXOut=_v3_expanded,
    expandedRowIdxOut=shape_from(_copies),
    expertTokensCountOrCumsumOut=_v3_counts,
)
_V3_RESULT = (
    infer_shape(expandedScaleOut=_v3_scales),
    output_dtype(
        expandedXOut=_v3_dtype,
        expandedRowIdxOut="INT32",
        expertTokensCountOrCumsumOut="INT64",
        expandedScaleOut=_v3_scale_dtype,
    ),
)

rule(
    "aclnnMoeInitRoutingV3",
    *_V3,
    documented_products,
    tiling(_v3_inputs, one_of("dropPadMode", 0, 1), one_of("expertTokensNumType", 0, 1, 2), _V3_SHAPES),
    *_V3_RESULT,
)
rule(
    "aclnnMoeInitRoutingV4",
    lambda call: call.require(
        call.is_present("topkWeightOptional") == call.is_present("expandedTopkWeightOut"),
        "expandedTopkWeightOut",
        "and topk_weight_optional go together; only one is given",
    ),
    *_V3,
    dtypes("INT64", "activeNumOptional"),
    dtypes("FLOAT", "topkWeightOptional", "expandedTopkWeightOut"),
    documented_products,
    tiling(_v3_inputs, one_of("dropPadMode", 0, 1), one_of("expertTokensNumType", 0, 1, 2), _V3_SHAPES),
    *_V3_RESULT,
    infer_shape(
        expandedTopkWeightOut=lambda call: (_copies(call), 1) if call.is_present("topkWeightOptional") else None
    ),
    output_dtype(expandedTopkWeightOut="FLOAT"),
)

# ------------------------------------------------------------------------------------------------ counts, re-routing

rule(
    "aclnnMoeComputeExpertTokens",
    dtypes("INT32", "sortedExperts", "out"),
    documented_products,
    tiling(
        rank(1, 1, "sortedExperts"),
        lambda call: call.require(
            0 < call["numExperts"] <= 2048, "numExperts", f"is {call['numExperts']}; it must be in [1, 2048]"
        ),
        output_shape(out=shape_from("numExperts")),
    ),
    output_dtype(out="INT32"),
)

_TOKENS: DtypeSet = {"950": f"FLOAT16 BF16 INT8 {_MX} FLOAT4_E1M2", "": "FLOAT16 BF16 INT8"}


def _re_routing(call: Call) -> None:
    rank(2, 2, "tokens", "expertTokenNumPerRank")(call)
    ranks, experts = call.sizes("expertTokenNumPerRank", 2)
    call.require(ranks > 0 and experts > 0, "expertTokenNumPerRank", f"has shape ({ranks}, {experts}); it is empty")
    if call.is_present("perTokenScalesOptional"):
        rank(1, 3, "perTokenScalesOptional")(call)
        rows = call.size("perTokenScalesOptional", 0)
        text = f"has {rows} rows; tokens has {call.size('tokens', 0)}"
        call.require(rows == call.size("tokens", 0), "perTokenScalesOptional", text)


def _re_routed_scales(call: Call) -> Shape:
    given = call.is_present("perTokenScalesOptional")
    return call.shape("perTokenScalesOptional") if given else (call.size("tokens", 0),)


_RE_ROUTING = (
    dtypes(_TOKENS, "tokens"),
    same_dtype("tokens", "permuteTokensOut"),
    dtypes("INT32 INT64", "expertTokenNumPerRank"),
    same_dtype("expertTokenNumPerRank", "expertTokenNumOut"),
    dtypes(_SCALE, "perTokenScalesOptional", "permutePerTokenScalesOut"),
    same_dtype("perTokenScalesOptional", "permutePerTokenScalesOut"),
    dtypes("INT32", "permuteTokenIdxOut"),
    tiling(
        _re_routing,
        one_of("expertTokenNumType", 1),
        one_of("idxType", 0, 1),
        output_shape(
            permuteTokensOut=shape_of("tokens"),
            permuteTokenIdxOut=shape_from(("tokens", 0)),
            expertTokenNumOut=shape_from(("expertTokenNumPerRank", 1)),
        ),
        when(
            lambda call: call.is_present("perTokenScalesOptional"),
            output_shape(permutePerTokenScalesOut=_re_routed_scales),
        ),
    ),
    infer_shape(permutePerTokenScalesOut=_re_routed_scales),
    output_dtype(
        permuteTokensOut=dtype_of("tokens"),
        permutePerTokenScalesOut=lambda call: (
            call.dtype("perTokenScalesOptional") if call.is_present("perTokenScalesOptional") else DataType.FLOAT
        ),
        permuteTokenIdxOut="INT32",
        expertTokenNumOut=dtype_of("expertTokenNumPerRank"),
    ),
)


def _re_routed_weights(call: Call) -> Optional[Shape]:
    return call.shape("expertTopkWeightOptional") if call.is_present("expertTopkWeightOptional") else None


rule("aclnnMoeReRouting", only_products("A2 A3 950"), *_RE_ROUTING)
rule(
    "aclnnMoeReRoutingV2",
    only_products("950"),
    *_RE_ROUTING,
    dtypes("FLOAT", "expertTopkWeightOptional", "permuteTopkWeightOutOptional"),
    tiling(output_shape(permuteTopkWeightOutOptional=_re_routed_weights)),
    output_dtype(permuteTopkWeightOutOptional="FLOAT"),
)
