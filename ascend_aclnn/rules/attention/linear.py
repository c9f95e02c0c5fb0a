"""Rules of linear attention: the gated delta rule, by chunks and by steps, and causal convolutions before it."""

from __future__ import annotations

from typing import Optional

from ascend_aclnn.core.errors import PARAM_INVALID, PARAM_NULLPTR
from ascend_aclnn.rules.attention.layouts import named
from ascend_aclnn.rules.language import *

rule(
    "aclnnChunkGatedDeltaRule",
    dtypes("BF16", "query", "key", "value"),
    dtypes("BF16 FLOAT", "initialState"),
    dtypes("BF16", "beta"),
    dtypes("INT32", "actualSeqLengths"),
    dtypes("FLOAT", "gOptional"),
    dtypes("BF16", "out"),
    dtypes("BF16 FLOAT", "finalState"),
    documented_products,
    tiling(
        shape_patterns(
            query="t k d", key="t k d", value="t v e", beta="t v", initialState="b v e d", actualSeqLengths="b"
        ),
        has_shape(gOptional="(t, v)"),
        require("k > 0", "v % k == 0"),
    ),
    infer_shape(out=shape_of("value"), finalState=shape_of("initialState")),
    output_dtype(finalState=dtype_of("initialState")),
    null_status=PARAM_INVALID,
)
rule(
    "aclnnRecurrentGatedDeltaRule",
    dtypes("BF16", "query", "key", "value"),
    dtypes("BF16 FLOAT", "stateRef"),
    dtypes("BF16", "beta"),
    dtypes("INT32", "actualSeqLengths", "ssmStateIndices"),
    dtypes("FLOAT", "g", "gk"),
    dtypes("INT32", "numAcceptedTokens"),
    dtypes("BF16", "out"),
    documented_products,
    tiling(
        shape_patterns(query="t k d", key="t k d", value="t v e", beta="t v", stateRef="n v e d", actualSeqLengths="b"),
        has_shape(ssmStateIndices="(t,)", g="(t, v)", gk="(t, v, d)", numAcceptedTokens="(b,)"),
        require("k > 0", "v % k == 0"),
    ),
    infer_shape(out=shape_of("value")),
    null_status=PARAM_INVALID,
)

# --------------------------------------------------------------------------------------------------- chunks with key gates

_LAYOUTS = ("BSND", "BNSD", "TND", "NTD")


def _layout(call: Call) -> str:
    layout: str = call["layout"]
    call.require(layout in _LAYOUTS, "layout", f"is {layout!r}; it must be one of {', '.join(_LAYOUTS)}")
    return layout


def _tokens_first(call: Call, *last: int) -> Shape:
    """A shape (batch, tokens, ...) of one number for each head, or (tokens, ...)."""
    v = named(call, "v", _layout(call))
    return (v["T"], v["N"], *last) if "T" in v else (v["B"], v["S"], v["N"], *last)


def _heads_first(call: Call, *last: int) -> Shape:
    v = named(call, "v", _layout(call))
    return (v["N"], v["T"], *last) if "T" in v else (v["B"], v["N"], v["S"], *last)


def _in_layout(call: Call, *last: int) -> Shape:
    """As the inputs lie."""
    return (_heads_first if _layout(call) in ("BNSD", "NTD") else _tokens_first)(call, *last)


def _sequences(call: Call) -> int:
    ends = call["cuSeqlensOptional"]
    v = named(call, "v", _layout(call))
    return v.get("B", 1) if ends is None else len(ends) - 1


def _lengths(call: Call) -> list[int]:
    """Of the sequences; without their ends all of the tokens are one."""
    v = named(call, "v", _layout(call))
    ends = call["cuSeqlensOptional"]
    return [v.get("T", v.get("S", 0))] if ends is None else [b - a for a, b in zip(ends, ends[1:])]


def _chunks(call: Call) -> list[int]:
    return [-(-length // call["chunkSize"]) for length in _lengths(call)]


def _state(call: Call) -> Shape:
    """A matrix for each head of each sequence; widths change places with stateVFirst."""
    k, v = (call.size(name, -1) for name in ("q", "v"))
    heads = named(call, "v", _layout(call))["N"]
    return (_sequences(call), heads, v, k) if call["stateVFirst"] else (_sequences(call), heads, k, v)


def _history(call: Call) -> Shape:
    """The state before each chunk."""
    _, heads, *last = _state(call)
    v = named(call, "v", _layout(call))
    lead = (v["B"],) if "B" in v else ()
    return (*lead, sum(_chunks(call)), heads, *last)


def _delta_ranks(call: Call) -> None:
    one_of("chunkSize", 64, 128)(call)
    layout = _layout(call)
    for name in ("q", "k", "v", "g"):
        named(call, name, layout)
    same_shape("q", "k")(call)
    width = call.size("q", -1)
    for name, wanted in (
        ("v", _in_layout(call, call.size("v", -1))),
        ("g", _in_layout(call, width)),
        ("beta", _in_layout(call)),
    ):
        got = call.shape(name)
        call.require(got == wanted, name, f"has shape {got}; it must be {wanted}")
    q = {k: n for k, n in named(call, "q", layout).items() if k not in "ND"}
    v = {k: n for k, n in named(call, "v", layout).items() if k not in "ND"}
    call.require(q == v, "v", f"has shape {call.shape('v')}; batch and tokens must be as those of q {call.shape('q')}")
    heads, gated = named(call, "q", layout)["N"], named(call, "v", layout)["N"]
    fits = 0 < heads <= gated <= 128 and gated % heads == 0
    call.require(fits, "v", f"has {gated} heads; there must be a multiple of q's {heads}, at most 128")
    for name in ("q", "v"):
        wide = call.size(name, -1)
        fits = 16 <= wide <= 256 and wide % 16 == 0
        call.require(fits, name, f"has heads {wide} wide; they must be a multiple of 16, at most 256")


def _ends(call: Call) -> None:
    ends = call["cuSeqlensOptional"]
    v = named(call, "v", _layout(call))
    if ends is not None:
        tokens = v.get("T", v.get("S", 0))
        fits = len(ends) >= 2 and ends[0] == 0 and ends[-1] == tokens and tuple(ends) == tuple(sorted(ends))
        call.require(fits, "cuSeqlensOptional", f"is {ends}; it must rise from 0 to {tokens}")
        call.require(v.get("B", 1) == 1, "v", f"has batch {v.get('B')}; with cu_seqlens it must be 1")
        call.require(len(ends) <= 1025, "cuSeqlensOptional", f"has {len(ends)} items; there must be at most 1025")
    indices = call["chunkIndicesOptional"]
    if indices is not None:
        call.require(ends is not None, "chunkIndicesOptional", "is given without cu_seqlens")
        pairs = tuple(n for row, many in enumerate(_chunks(call)) for chunk in range(many) for n in (row, chunk))
        text = "must name each chunk of each sequence, in order, by two numbers"
        call.require(tuple(indices) == pairs, "chunkIndicesOptional", text)


def _gate(call: Call) -> None:
    if not call["useGateInKernel"]:
        return
    heads, width = named(call, "v", _layout(call))["N"], call.size("q", -1)
    text = "is None (a null pointer); with use_gate_in_kernel it is required"
    call.require(call.is_present("aLogOptional"), "aLogOptional", text, PARAM_NULLPTR)
    for name, wanted in (("aLogOptional", (heads,)), ("dtBiasOptional", (heads * width,))):
        got = call.shape(name)
        call.require(not call.is_present(name) or got == wanted, name, f"has shape {got}; it must be {wanted}")
    bound = call["lowerBound"]
    call.require(not call["safeGate"] or -5 <= bound < 0, "lowerBound", f"is {bound}; it must be in [-5, 0)")


def _wide_as(name: str) -> ShapeRule:
    return lambda call: _heads_first(call, call.size(name, -1))


def _square(call: Call) -> Shape:
    return _heads_first(call, call["chunkSize"])


def _left_away(call: Call) -> Optional[Shape]:
    """Results between: CANN writes those for which there is a tensor."""
    return None


def _between_shapes(call: Call) -> None:
    k, v = _wide_as("q")(call), _wide_as("v")(call)
    wanted = {"gkOut": k, "wOut": k, "qgOut": k, "kgOut": k, "uOut": v, "vNewOut": v, "hOut": _history(call)}
    for name, sizes in wanted.items():
        if call.is_present(name):
            got, kind = call.shape(name), "FLOAT" if name == "gkOut" else call.dtype("q").name
            call.require(got == sizes, name, f"has shape {got}; it must be {sizes}")
            dtypes(kind, name)(call)


rule(
    "aclnnChunkKdaFwd",
    _delta_ranks,
    dtypes("FLOAT16 BF16", "q"),
    same_dtype("q", "k", "v"),
    dtypes("FLOAT BF16", "g", "beta"),
    dtypes("FLOAT", "aLogOptional", "dtBiasOptional", "initialStateOptional"),
    _ends,
    output_shape(initialStateOptional=_state),
    _gate,
    same_dtype("q", "attnOut", "aqkOut", "akkOut"),
    output_shape(
        attnOut=lambda call: _tokens_first(call, call.size("v", -1)),
        aqkOut=_square,
        akkOut=_square,
        finalStateOut=_state,
    ),
    _between_shapes,
    dtypes("FLOAT", "finalStateOut"),
    documented_products,
    infer_shape(
        gkOut=_left_away,
        wOut=_left_away,
        uOut=_left_away,
        qgOut=_left_away,
        kgOut=_left_away,
        vNewOut=_left_away,
        hOut=_left_away,
    ),
    output_dtype(gkOut="FLOAT"),
)

# --------------------------------------------------------------------------------------------------- causal convolutions

rule("aclnnFusedCausalConv1d", documented_products, documented_dtypes(), infer_shape(y=shape_of("x")))
rule("aclnnInplaceFusedCausalConv1d", documented_products, documented_dtypes())
rule("aclnnMaskedCausalConv1d", documented_products, documented_dtypes(), infer_shape(out=shape_of("x")))
rule(
    "aclnnMaskedCausalConv1dBackward",
    documented_products,
    documented_dtypes(),
    infer_shape(gradXOut=shape_of("x"), gradWeightOut=shape_of("weight")),
)
