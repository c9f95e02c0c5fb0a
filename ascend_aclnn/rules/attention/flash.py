"""Rules of flash attention and its gradients, for sequences of one length (Score) or of several (VarLen, Unpadding)."""

from __future__ import annotations

from typing import Optional

from ascend_aclnn.core.dtypes import DataType, Format
from ascend_aclnn.core.errors import PARAM_INVALID, PARAM_NULLPTR
from ascend_aclnn.rules.attention.layouts import Axes, attended, axes, statistics
from ascend_aclnn.rules.language import *

_QKV = ("query", "key", "value")
_GRADIENT = ("query", "keyIn", "value")
_SMALL = "FLOAT8_E4M3FN FLOAT8_E5M2 HIFLOAT8"


def _axes(call: Call) -> Axes:
    names = _QKV if "key" in call.operator.positions else _GRADIENT
    return axes(call, call["headNum"], call["inputLayout"], names)


def _no_nz(*names: str) -> Check:
    """On A2 and A3 nothing is in FRACTAL_NZ."""

    def check(call: Call) -> None:
        for name in names if call.product in ("A2", "A3") else ():
            if name in call.operator.positions and call.is_present(name):
                plain = call[name].format is not Format.FRACTAL_NZ
                call.require(plain, name, "has format FRACTAL_NZ; it must be ND")

    return check


def _dtypes(call: Call) -> None:
    query, out = call.dtype("query"), call.dtype("attentionOutOut")
    for name in ("key", "value"):
        fits = call.dtype(name) is query
        call.require(fits, name, f"has dtype {call.dtype(name).name}; it must be {query.name}, as query")
    if call.product in ("A2", "A3"):
        dtypes("FLOAT FLOAT16 BF16", "query")(call)
    shift, kind = "realShiftOptional", call["pseType"] if "pseType" in call.operator.positions else 1
    if kind in (2, 3):
        call.require(call.is_present(shift), shift, f"is None; with pse_type {kind} it is required")
        dtypes("FLOAT", shift)(call)
    elif call.is_present(shift):
        fits = call.dtype(shift) is out
        call.require(fits, shift, f"has dtype {call.dtype(shift).name}; it must be {out.name}, as attention_out")
    if "sinkOptional" in call.operator.positions:
        dtypes("FLOAT", "sinkOptional")(call)
    same_out = "pseType" in call.operator.positions and call.product in ("A2", "A3")
    call.require(not same_out or out is query, "attentionOutOut", f"has dtype {out.name}; it must be {query.name}")


def _sizes(call: Call) -> Axes:
    heads = call["headNum"]
    call.require(heads > 0, "headNum", f"is {heads}; it must be positive")
    found = _axes(call)
    fits = found.width == found.key_width
    call.require(fits, "key", f"has heads {found.key_width} wide; they must be {found.width}, as query's")
    wide = f"has heads {found.value_width} wide; they must be at most {found.width}, as query's"
    call.require(found.value_width <= found.width, "value", wide)
    call.require(found.width <= 768, "query", f"has heads {found.width} wide; they must be at most 768")
    return found


def _rope(query: str, key: str) -> Check:
    """Parts of the heads that are rotated come beside the others: BF16, TND, masked, nothing dropped."""

    def check(call: Call) -> None:
        if query not in call.operator.positions:
            return
        both = call.is_present(query) is call.is_present(key)
        call.require(both, query, "and key_rope are given both, or neither", PARAM_NULLPTR)
        if not call.is_present(query):
            return
        found = _axes(call)
        for name in (query, key):
            fits = call.size(name, -1) <= found.width
            call.require(fits, name, f"has shape {call.shape(name)}; its last axis must be at most {found.width}")
        names = [n for n in ("query", "key", "keyIn", "value", query, key) if n in call.operator.positions]
        dtypes("BF16", *names)(call)
        call.require(call["sparseMode"] != 6, "sparseMode", "is 6; with query_rope it must not be")
        text = "is None (a null pointer); with query_rope it is required"
        call.require(call.is_present("attenMaskOptional"), "attenMaskOptional", text, PARAM_NULLPTR)
        for name in ("realShiftOptional", "pseShiftOptional", "dropMaskOptional"):
            if name in call.operator.positions:
                call.require(not call.is_present(name), name, "is given; with query_rope it must be None")
        call.require(call["keepProb"] >= 1, "keepProb", f"is {call['keepProb']}; with query_rope it must be 1")
        call.require(found.layout == "TND", "inputLayout", f"is {found.layout}; with query_rope it must be TND")

    return check


def _copied(call: Call) -> None:
    """CANN copies its results; where a shape does not fit, it answers as for a null pointer."""
    found = _sizes(call)
    call.status = PARAM_NULLPTR
    try:
        for name, wanted in (
            ("softmaxMaxOut", statistics(found)),
            ("softmaxSumOut", statistics(found)),
            ("attentionOutOut", attended(call, found)),
        ):
            got = call[name]
            fits = got.shape == wanted or got.size == 0
            call.require(fits, name, f"has shape {got.shape}; it must be {wanted}")
    finally:
        call.status = PARAM_INVALID


def _unless_empty(*checks: Check, outputs: tuple[str, ...]) -> Check:
    """Nothing is left to be checked where all of the outputs are empty."""

    def check(call: Call) -> None:
        if any(call[name].size for name in outputs):
            for word in checks:
                word(call)

    return check


def _only_tnd(call: Call) -> None:
    layout = call["inputLayout"]
    call.require(layout == "TND", "inputLayout", f"is {layout!r}; for sequences of several lengths it must be TND")


def _of_statistics(call: Call) -> Shape:
    return statistics(_axes(call))


def _no_scores(call: Call) -> Optional[Shape]:
    """The scores themselves are not put out; Ascend 950's version wants an (empty) tensor all the same."""
    return (0,) if call.operator.name == "aclnnFlashAttentionScoreV4" else None


def _result(call: Call) -> DataType:
    return DataType.BF16 if call.dtype("query").name in _SMALL.split() else call.dtype("query")


_OUTPUTS = ("softmaxMaxOut", "softmaxSumOut", "attentionOutOut")
_INPUTS = (*_QKV, "queryRope", "keyRope", "realShiftOptional", "dropMaskOptional", "paddingMaskOptional")
for _name, _products in (
    ("aclnnFlashAttentionScore", ""),
    ("aclnnFlashAttentionScoreV2", ""),
    ("aclnnFlashAttentionScoreV3", ""),
    ("aclnnFlashAttentionScoreV4", "950"),
    ("aclnnFlashAttentionVarLenScore", ""),
    ("aclnnFlashAttentionVarLenScoreV2", ""),
    ("aclnnFlashAttentionVarLenScoreV3", ""),
    ("aclnnFlashAttentionVarLenScoreV4", ""),
    ("aclnnFlashAttentionVarLenScoreV5", ""),
):
    rule(
        _name,
        _unless_empty(
            *((_only_tnd,) if "VarLen" in _name else ()),
            *((only_products(_products),) if _products else ()),
            _no_nz(*_INPUTS, "attenMaskOptional", "sinkOptional", *_OUTPUTS),
            _dtypes,
            _rope("queryRope", "keyRope"),
            _copied,
            documented_products,
            outputs=_OUTPUTS,
        ),
        infer_shape(
            softmaxMaxOut=_of_statistics,
            softmaxSumOut=_of_statistics,
            softmaxOutOut=_no_scores,
            attentionOutOut=lambda call: attended(call, _axes(call)),
        ),
        output_dtype(softmaxMaxOut="FLOAT", softmaxSumOut="FLOAT", softmaxOutOut=_result, attentionOutOut=_result),
    )


def _eight_bit(call: Call) -> None:
    dtypes(_SMALL, *_QKV)(call)


rule(
    "aclnnQuantFlashAttentionScore",
    _unless_empty(only_products("950"), _eight_bit, _copied, outputs=_OUTPUTS),
    infer_shape(
        softmaxMaxOut=_of_statistics,
        softmaxSumOut=_of_statistics,
        softmaxOutout=lambda call: (0,),
        attentionOutOut=lambda call: attended(call, _axes(call)),
    ),
    output_dtype(softmaxMaxOut="FLOAT", softmaxSumOut="FLOAT", softmaxOutout="BF16", attentionOutOut="BF16"),
)

# --------------------------------------------------------------------------------------------------- gradients

_INNER = ("query", "keyIn", "value", "dy", "attentionInOptional")
_OUTER = ("dqOut", "dkOut", "dvOut")


def _called(call: Call, name: str) -> str:
    """The parameter's name with or without "Optional", if it is given; versions differ in it."""
    names = (n for n in (name, name + "Optional") if n in call.operator.positions and call.is_present(n))
    return next(names, "")


def _gradient_shapes(call: Call) -> None:
    """Gradients are as their tensors; dy and what was attended are as query, with heads as wide as value's."""
    heads = call["headNum"]
    call.require(heads > 0, "headNum", f"is {heads}; it must be positive")
    found = _axes(call)
    query, key, value, dy, attention = (call.shape(name) for name in _INNER)
    call.require(key[:-1] == value[:-1], "value", f"has shape {value}; but for its last axis it must be {key}, as key")
    call.require(query[:-1] == dy[:-1], "dy", f"has shape {dy}; but for its last axis it must be {query}, as query")
    if "B" in found.layout:
        at = found.layout.index("B")
        call.require(query[at] == key[at], "keyIn", f"has batch {key[at]}; it must be {query[at]}, as query")
    call.require(attention == dy, "attentionInOptional", f"has shape {attention}; it must be {dy}, as dy")
    pairs = [("dqOut", "query"), ("dkOut", "keyIn"), ("dvOut", "value")]
    for gradient, source in (("dqRopeOut", "queryRope"), ("dkRopeOut", "keyRope"), ("dkRopeOut", "keyInRope")):
        found_name = _called(call, source)
        if found_name and gradient in call.operator.positions and call.is_present(gradient):
            pairs.append((gradient, found_name))
    for gradient, source in pairs:
        got, wanted = call.shape(gradient), call.shape(source)
        call.require(got == wanted, gradient, f"has shape {got}; it must be {wanted}, as {call.python_name(source)}")
        fits = call.dtype(gradient) is call.dtype(source)
        text = f"has dtype {call.dtype(gradient).name}; it must be {call.dtype(source).name}"
        call.require(fits, gradient, text)
    fits = found.width == found.key_width
    call.require(fits, "keyIn", f"has heads {found.key_width} wide; they must be {found.width}, as query's")
    wide = f"has heads {found.value_width} wide; they must be at most {found.width}, as query's"
    call.require(found.value_width <= found.width, "value", wide)


def _sinks(call: Call) -> None:
    if _called(call, "sinkIn") and call.is_present("dsinkOut"):
        dtypes("FLOAT", "sinkInOptional", "dsinkOut")(call)
        got, wanted = call.shape("dsinkOut"), call.shape("sinkInOptional")
        fits = got == wanted and len(got) == 1
        call.require(fits or call.is_empty("dsinkOut"), "dsinkOut", f"has shape {got}; it must be {wanted}, of rank 1")


def _gradient_dtypes(call: Call) -> None:
    query = call.dtype("query")
    if query.name not in _SMALL.split():
        for name in ("keyIn", "value", "dy"):
            fits = call.dtype(name) is query
            call.require(fits, name, f"has dtype {call.dtype(name).name}; it must be {query.name}, as query")
    dtypes({"A2 A3": "FLOAT FLOAT16 BF16", "": "FLOAT FLOAT16 BF16 " + _SMALL}, "query")(call)


def _softmax_layout(call: Call) -> None:
    if "softmaxInLayout" in call.operator.positions and call.operator.name.startswith("aclnnFlashAttentionUnpadding"):
        layout = call["softmaxInLayout"]
        call.require(
            layout in (None, "", "same_as_input"), "softmaxInLayout", f"is {layout!r}; it must be same_as_input"
        )


def _as(name: str) -> ShapeRule:
    """The shape of an optional tensor, none without it."""

    def made(call: Call) -> Optional[Shape]:
        found = _called(call, name)
        return call.shape(found) if found else None

    return made


for _name in (
    "aclnnFlashAttentionScoreGrad",
    "aclnnFlashAttentionScoreGradV2",
    "aclnnFlashAttentionScoreGradV3",
    "aclnnFlashAttentionScoreGradV4",
    "aclnnFlashAttentionUnpaddingScoreGrad",
    "aclnnFlashAttentionUnpaddingScoreGradV2",
    "aclnnFlashAttentionUnpaddingScoreGradV3",
    "aclnnFlashAttentionUnpaddingScoreGradV4",
    "aclnnFlashAttentionUnpaddingScoreGradV5",
):
    _tnd = (_only_tnd,) if "Unpadding" in _name else ()
    rule(
        _name,
        *_tnd,
        _softmax_layout,
        _unless_empty(
            *((only_products("950"),) if _name.endswith("ScoreGradV4") and not _tnd else ()),
            _gradient_shapes,
            _sinks,
            _gradient_dtypes,
            _rope("queryRope", "keyInRope"),
            documented_products,
            outputs=_OUTER,
        ),
        infer_shape(
            dqOut=shape_of("query"),
            dkOut=shape_of("keyIn"),
            dvOut=shape_of("value"),
            dpseOut=_as("pseShift"),
            dqRopeOut=_as("queryRope"),
            dkRopeOut=_as("keyInRope") if "Unpadding" in _name else _as("keyRope"),
            dsinkOut=_as("sinkIn"),
        ),
        output_dtype(dsinkOut="FLOAT"),
        required="attentionInOptional",
        nullable="dpseOut dsinkOut dqRopeOut dkRopeOut",
    )
