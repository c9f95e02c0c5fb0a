"""Rules of the RMS norm and its gradient."""

from __future__ import annotations

from ascend_aclnn.rules.language import *

GAMMA_IS_TAIL = require("gamma == x[len(x) - len(gamma):]")


def per_row(x: str) -> str:
    """The shape of one number for every normalised row: that of a tensor, with 1 on the axes of gamma."""
    return f"(*{x}[:len({x}) - len(gamma)], *(1 for n in gamma))"


# gamma has x's data type, or is FLOAT beside an x of 16 bits.
_MIXED: DtypeSet = {PRODUCTS_WITH_BF16: HALVES}

rule(
    "aclnnRmsNormGrad",
    only_products("A2 A3 310P 910 950"),
    dtype_table(
        "dy x rstd gamma dxOut dgammaOut",
        "T T FLOAT T T FLOAT",
        "H H FLOAT FLOAT H FLOAT",
        T=FLOATS_OF_PRODUCT,
        H=_MIXED,
    ),
    tiling(
        rank(1, 8, "dy", "x", "rstd", "gamma", "dxOut", "dgammaOut"),
        same_shape("x", "dy"),
        output_shape(dxOut="x", dgammaOut="gamma"),
        GAMMA_IS_TAIL,
        define(rows="x[:len(x) - len(gamma)]"),
        # rstd has the axes of the rows; trailing ones of size 1 may be left out, or added.
        require(
            "all(r == n for r, n in zip(rstd, rows))",
            "all(n == 1 for n in rows[len(rstd):])",
            "rstd.size == prod(rows)",
            argument="rstd",
        ),
        require("x[-1] > 0", "prod(rows) > 0"),
        on_products("910", require("gamma.size % 64 == 0")),
    ),
)
rule(
    "aclnnRmsNorm",
    only_products("A2 A3 310P 910 950"),
    dtype_table("x gamma yOut rstdOut", "T T T FLOAT", "H FLOAT H FLOAT", T=FLOATS_OF_PRODUCT, H=_MIXED),
    tiling(
        rank(1, 8, "x", "gamma", "yOut", "rstdOut"),
        GAMMA_IS_TAIL,
        output_shape(yOut="x"),
        # As CANN's tiling: each axis is that of x or 1; trailing ones may be left out.
        require(
            "len(rstdOut) <= len(x)",
            "all(r in (n, 1) for r, n in zip(rstdOut, x))",
            "rstdOut.size == prod(x[: len(x) - len(gamma)])",
        ),
    ),
    infer_shape(rstdOut=per_row("x")),
)
