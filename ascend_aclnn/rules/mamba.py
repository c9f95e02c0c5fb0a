"""Rules of ops-transformer/mamba: causal convolutions of one channel each, with cached states."""

from __future__ import annotations

from ascend_aclnn.core.errors import PARAM_INVALID
from ascend_aclnn.rules.language import *

_FN, _UPDATE = "aclnnCausalConv1dFn", "aclnnCausalConv1dUpdate"

rule(
    f"{_FN} {_UPDATE}",
    dtypes(HALVES, "x"),
    same_dtype("x", "weight", "convStatesRef", "y", "biasOptional"),
    dtypes("INT32", "queryStartLocOptional", "cacheIndicesOptional"),
    documented_dtypes(),
    # x (tokens, channels) or (batch, tokens, channels); a kernel of 2 to 4 taps; states of as many tokens but one.
    rank(2, 3, "x"),
    rank(2, "weight"),
    rank(3, "convStatesRef"),
    require("2 <= weight[0] <= 4", "weight[1] == x[-1]"),
    require("convStatesRef[1] >= weight[0] - 1", "convStatesRef[2] == x[-1]"),
    has_shape(biasOptional="x[-1:]"),
    require("64 <= x[-1] <= 16384", "x[-1] % 16 == 0"),
    # Where the sequences start is given by their starts, or by the first axis of x.
    rank(1, "queryStartLocOptional", "initialStateModeOptional"),
    define(count="queryStartLocOptional[0] - 1 if queryStartLocOptional[0] > 0 else None"),
    when(
        "len(x) == 2",
        required("queryStartLocOptional", status=PARAM_INVALID),
        require("queryStartLocOptional[0] > 0"),
        on_operators(_UPDATE, required("numAcceptedTokensOptional", status=PARAM_INVALID)),
    ),
    on_operators(
        _FN,
        when("len(x) == 3", require("x[1] > 0", "count == x[0]")),
        define(batch="x[0] if len(x) == 3 else count"),
    ),
    on_operators(
        _UPDATE,
        when("numAcceptedTokensOptional is not None", require("weight[0] == 4")),
        define(batch="x[0] if len(x) == 3 and count is None else count"),
    ),
    require("1 <= batch <= 1024", "batch <= convStatesRef[0]", argument="convStatesRef"),
    tiling(
        rank(1, 2, "cacheIndicesOptional"),
        require("cacheIndicesOptional[0] == batch"),
        has_shape(biasOptional="(x[-1],)", initialStateModeOptional="(batch,)"),
        require("numComputedTokensOptional[0] == batch", "numAcceptedTokensOptional[0] == batch"),
    ),
    require("len(y) == len(x)"),
    one_of("activation", "silu", "none", ""),
    documented_products,
    infer_shape(y="x"),
    nullable="activation",
)
