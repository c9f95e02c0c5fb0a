"""Rules of attention to the residuals of earlier blocks: their sums first, then the block that is being computed."""

from __future__ import annotations

from ascend_aclnn.core.errors import RUNTIME_ERROR
from ascend_aclnn.rules.language import *

_EPSILON = require("0 < eps <= 1.7976931348623157e+308")
_ONLY_950 = with_status(RUNTIME_ERROR, only_products("950"))

# tokens, blocks, width; a query for each slot.
rule(
    "aclnnBlockAttnResPrepare",
    documented_dtypes(),
    formats("ND", "blockRes", "validBlocks", "pseudoQuery", "numerator", "logitMax", "expSum"),
    shape_patterns(
        blockRes="t n d", pseudoQuery="s d", numerator="s t d", logitMax="s t", expSum="s t", where="1 <= n <= 64"
    ),
    has_shape(validBlocks="(1,)"),
    require("1 <= d <= 8192", argument="blockRes"),
    contiguous("blockRes", "validBlocks", "pseudoQuery", "numerator", "logitMax", "expSum"),
    _EPSILON,
    _ONLY_950,
    output_dtype(numerator="FLOAT", logitMax="FLOAT", expSum="FLOAT"),
)
_STATE = ("partialBlockRef", "delta", "pseudoQuery", "numerator", "logitMax", "expSum", "h")
rule(
    "aclnnBlockAttnResUpdate",
    documented_dtypes(),
    formats("ND", *_STATE),
    shape_patterns(
        partialBlockRef="t d", delta="t d", pseudoQuery="d", numerator="t d", logitMax="t", expSum="t", h="t d"
    ),
    require("d <= 8192", argument="partialBlockRef"),
    contiguous(*_STATE),
    _EPSILON,
    _ONLY_950,
    output_dtype(h="BF16"),
)
