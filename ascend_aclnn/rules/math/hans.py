"""Rules of HansEncode and HansDecode."""

from __future__ import annotations

from ascend_aclnn.rules.language import *

_MANTISSA_META, _TAIL, _CORES = 512, 8448, 1
rule(
    # The sizes of mantissa, fixed and var are the caller's choice: they must be given.
    "aclnnHansEncode",
    only_products(PRODUCTS_WITH_BF16),
    dtype_table("inputTensor pdfRef mantissaOut fixedOut varOut", "T INT32 T T T", T=FLOATS),
    define(width="4 if inputTensor.dtype == FLOAT else 2", count="inputTensor.size"),
    # The device needs more for each core that takes part; one does at least.
    define(needed=f"count + count // 64 + {_TAIL * _CORES + _MANTISSA_META}"),
    tiling(
        require("pdfRef.size == 256"),
        require("count % 64 == 0", "count >= 32768"),
        require("mantissaOut.size * width == (width - 1) * count"),
        require(f"fixedOut.size * width >= (needed if reshuff else {_MANTISSA_META})"),
        require("(fixedOut.size + varOut.size) * width >= needed", argument="varOut"),
    ),
)
rule(
    # The shape of the tensor that was encoded is not stored: out must be given.
    "aclnnHansDecode",
    only_products(PRODUCTS_WITH_BF16),
    dtype_table("mantissa fixed var pdf out", "T T T INT32 T", T=FLOATS),
    define(width="4 if mantissa.dtype == FLOAT else 2"),
    tiling(require("mantissa.size == (width - 1) * out.size // width", "pdf.size == 256")),
)
