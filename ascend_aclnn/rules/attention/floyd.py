"""Rules of Floyd attention: scores from two pairs of keys and values, of five axes."""

from __future__ import annotations

from typing import Any

from ascend_aclnn.rules.language import *

_INPUTS: dict[str, Any] = {
    "query": "b h n m d",
    "key1": "b h n k d",
    "value1": "b h n k d",
    "key2": "b h k m d",
    "value2": "b h k m d",
    "attenMaskOptional": "b 1 n 1 k",
}

rule(
    "aclnnFusedFloydAttention",
    documented_products,
    documented_dtypes(),
    tiling(
        shape_patterns(
            **_INPUTS,
            softmaxMaxOut="b h n m 8",
            softmaxSumOut="b h n m 8",
            attentionOutOut="b h n m d",
        )
    ),
)
rule(
    "aclnnFusedFloydAttentionGrad",
    documented_products,
    documented_dtypes(),
    tiling(
        shape_patterns(
            **_INPUTS,
            dy="b h n m d",
            softmaxMax="b h n m 8",
            softmaxSum="b h n m 8",
            attentionIn="b h n m d",
            dqOut="b h n m d",
            dk1Out="b h n k d",
            dv1Out="b h n k d",
            dk2Out="b h k m d",
            dv2Out="b h k m d",
        )
    ),
)
