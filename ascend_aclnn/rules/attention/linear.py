"""Rules of linear attention: the gated delta rule, by chunks and by steps, and causal convolutions before it."""

from __future__ import annotations

from ascend_aclnn.core.errors import PARAM_INVALID
from ascend_aclnn.rules.language import *

_GROUPED = require("k > 0", "v % k == 0")
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
        _GROUPED,
    ),
    infer_shape(out="value", finalState="initialState"),
    output_dtype(finalState="initialState"),
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
        _GROUPED,
    ),
    infer_shape(out="value"),
    null_status=PARAM_INVALID,
)

_STATES = "(stateCount, v, e, d) if stateVFirst else (stateCount, v, d, e)"
rule(
    "aclnnRecurrentKda",
    documented_dtypes(),
    same_dtype("initialStateRef", "finalState"),
    require("layout in ('BSND', 'TND')", "len(query) == len(layout)"),
    shape_patterns(query="* k d", key="* k d", value="* v e", gate="* v d", beta="* v", attnOut="* v e"),
    require("d == 128", argument="query"),
    require("e in (128, 256)", "v % k == 0", argument="value"),
    rank(1, "cuSeqlensOptional"),
    require("cuSeqlensOptional[0] >= 2"),
    define(
        capacity="prod(query[:-2])",
        sequences="(query[0] if len(query) == 4 else 1) if cuSeqlensOptional is None else cuSeqlensOptional[0] - 1",
        stateCount="initialStateRef[0] if len(initialStateRef) else 0",
    ),
    has_shape(initialStateRef=_STATES, finalState=_STATES),
    when("ssmStateIndicesOptional is None", require("initialStateRef[0] == sequences", argument="initialStateRef")),
    rank(1, 2, "ssmStateIndicesOptional"),
    when(
        "ssmStateIndicesOptional is not None and len(ssmStateIndicesOptional) == 1",
        require("ssmStateIndicesOptional[0] >= capacity"),
        word="packed",
    ),
    when(
        "ssmStateIndicesOptional is not None and len(ssmStateIndicesOptional) == 2",
        require("ssmStateIndicesOptional[0] == sequences"),
        word="steps",
    ),
    has_shape(numAcceptedTokensOptional="(sequences,)"),
    when(
        "useGateInKernel",
        required("aLogOptional", status=PARAM_INVALID),
        has_shape(aLogOptional="(v,)"),
        require("dtBiasOptional in ((v * d,), (v, d))"),
        when("safeGate", require("-5 <= lowerBound < 0")),
        word="gate",
    ),
    when("not useGateInKernel", absent("aLogOptional", "dtBiasOptional"), require("not safeGate"), word="no-gate"),
    when("ssmStateIndicesOptional is None", absent("numAcceptedTokensOptional"), word="no-indices"),
    documented_products,
    infer_shape(finalState="initialStateRef"),
    output_dtype(attnOut="BF16", finalState="initialStateRef"),
)

# --------------------------------------------------------------------------------------------------- chunks with key gates

# Results between: CANN writes those for which there is a tensor.
_OF_KEYS, _OF_VALUES = ("gkOut", "wOut", "qgOut", "kgOut"), ("uOut", "vNewOut")
_BETWEEN = (*_OF_KEYS, *_OF_VALUES, "hOut")
rule(
    "aclnnChunkKdaFwd",
    define(
        known_layout="known(layout, 'BSND', 'BNSD', 'TND', 'NTD')",
        queries="by_letter(q, known_layout)",
        values="by_letter(v, known_layout)",
        packed="'T' in values",
        tokens="values.T if packed else values.S",
        heads="values.N",
        # A number for each token of each head: tokens lie first, heads lie first, or both lie as in the inputs.
        tokensFirst="(tokens, heads) if packed else (values.B, tokens, heads)",
        headsFirst="(heads, tokens) if packed else (values.B, heads, tokens)",
        asGiven="headsFirst if layout in ('BNSD', 'NTD') else tokensFirst",
    ),
    define(
        # Without their ends all of the tokens (of a batch) are one sequence.
        ends="(0, tokens) if cuSeqlensOptional is None else cuSeqlensOptional",
        sequences="(1 if packed else values.B) if cuSeqlensOptional is None else len(cuSeqlensOptional) - 1",
        chunks="tuple(ceil_div(b - a, chunkSize) for a, b in zip(ends, ends[1:]))",
        # A matrix for each head of each sequence; what it was before each chunk.
        matrix="(v[-1], q[-1]) if stateVFirst else (q[-1], v[-1])",
        state="(sequences, heads, *matrix)",
        history="(*(() if packed else (values.B,)), sum(chunks), heads, *matrix)",
    ),
    one_of("chunkSize", 64, 128),
    require("queries.N > 0", "len(k) == len(layout)", "len(g) == len(layout)"),
    same_shape("q", "k"),
    has_shape(v="(*asGiven, v[-1])", g="(*asGiven, q[-1])", beta="asGiven"),
    require("queries.B == values.B", "queries.S == values.S", "queries.T == values.T", argument="v"),
    require("queries.N <= heads <= 128", "heads % queries.N == 0", argument="v"),
    *(require(f"16 <= {name}[-1] <= 256", f"{name}[-1] % 16 == 0") for name in ("q", "v")),
    same_dtype("q", "k", "v", among=HALVES),
    dtypes("FLOAT BF16", "g", "beta"),
    dtypes("FLOAT", "aLogOptional", "dtBiasOptional", "initialStateOptional"),
    require("len(cuSeqlensOptional) >= 2", "cuSeqlensOptional[0] == 0", "cuSeqlensOptional[-1] == tokens"),
    require("all(b >= a for a, b in zip(cuSeqlensOptional, cuSeqlensOptional[1:]))"),
    when("cuSeqlensOptional is not None and not packed", require("values.B == 1")),
    require("len(cuSeqlensOptional) <= 1025"),
    when(
        "chunkIndicesOptional is not None",
        require("cuSeqlensOptional is not None", argument="chunkIndicesOptional"),
        word="chunks",
    ),
    require(
        "chunkIndicesOptional == tuple(n for row, m in enumerate(chunks) for chunk in range(m) for n in (row, chunk))",
        why="each chunk of each sequence, in order, by two numbers",
    ),
    has_shape(initialStateOptional="state"),
    when(
        "useGateInKernel",
        required("aLogOptional"),
        has_shape(aLogOptional="(heads,)", dtBiasOptional="(heads * q[-1],)"),
        when("safeGate", require("-5 <= lowerBound < 0")),
        word="gate",
    ),
    same_dtype("q", "attnOut", "aqkOut", "akkOut"),
    output_shape(
        attnOut="(*tokensFirst, v[-1])",
        aqkOut="(*headsFirst, chunkSize)",
        akkOut="(*headsFirst, chunkSize)",
        finalStateOut="state",
    ),
    has_shape(**dict.fromkeys(_OF_KEYS, "(*headsFirst, q[-1])")),
    has_shape(**dict.fromkeys(_OF_VALUES, "(*headsFirst, v[-1])"), hOut="history"),
    dtypes("FLOAT", "gkOut", "finalStateOut"),
    same_dtype("q", *(name for name in _BETWEEN if name != "gkOut")),
    documented_products,
    infer_shape(**dict.fromkeys(_BETWEEN, "None")),
)

# --------------------------------------------------------------------------------------------------- causal convolutions
