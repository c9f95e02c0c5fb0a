"""Rules of the attention that takes all layouts (part of ops-transformer/attention)."""

from __future__ import annotations

from ascend_aclnn.rules.language import *


def _layout(name: str, *paged: str) -> str:
    """An expression for a layout: in letters of any case, BSND where there is none."""
    upper = f"({name} or 'BSND').upper() if {name} is not None else 'BSND'"
    return f"known({upper}, *{('BSND', 'BNSD', 'TND', 'NTD', *paged)})"


# Paged caches end as the others do; the fractal one in three axes.
_PAGED = {"PA_NZ": "PNDSC", "PA_ND": "PSND", "PA_BBND": "PSND", "PA_BNBD": "PNSD"}

_LSE = "(queries.B, queries.N, queries.S) if 'B' in queries else "

rule(
    "aclnnFlashAttn aclnnQuantFlashAttn",
    define(
        queries=f"by_letter(q, {_layout('layoutQ')})",
        kvLayout=_layout("layoutKv", *_PAGED),
        keys=f"by_letter(k, {_PAGED}.get(kvLayout, kvLayout))",
        values=f"by_letter(v, {_PAGED}.get(kvLayout, kvLayout))",
        width="values.D * (values.C if 'C' in values else 1)",
        result=f"arranged({_layout('layoutOut')}, queries, width)",
    ),
    documented_products,
    on_operators("aclnnFlashAttn", same_dtype("q", "k", "v")),
    tiling(not_empty("q", "k", "v", "qDescale", "kDescale", "vDescale")),
    tiling(
        output_shape(attnOut="result"),
        define(keyWidth="keys.D * (keys.C if 'C' in keys else 1)"),
        require("keyWidth == queries.D", "keys.N > 0", "queries.N % keys.N == 0"),
        require(*(f"values.{letter} == keys.{letter}" for letter in "BTPNS")),
        when("'B' in queries and 'B' in keys", require("keys.B == queries.B")),
        on_operators(
            "aclnnQuantFlashAttn",
            when(
                "quantMode == 6",
                has_shape(qDescale="(queries.N, queries.T)", kDescale="k[:-1]"),
                require("vDescale.size in (1, keys.N)"),
            ),
        ),
        rank(1, "cuSeqlensQOptional", "cuSeqlensKvOptional", "sequsedQOptional", "sequsedKvOptional"),
        rank(2, "blockTableOptional"),
    ),
    when(
        "returnSoftmaxLse",
        on_operators("aclnnFlashAttn", infer_shape(softmaxLseOptional=_LSE + "(queries.T, queries.N)")),
        on_operators("aclnnQuantFlashAttn", infer_shape(softmaxLseOptional=_LSE + "(queries.N, queries.T)")),
    ),
    output_dtype(attnOut="BF16", softmaxLseOptional="FLOAT"),
    on_operators("aclnnFlashAttn", output_dtype(attnOut="q")),
)
