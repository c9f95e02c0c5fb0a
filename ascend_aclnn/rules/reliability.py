"""Rules of ops-ras: encryption, checked products, obfuscation."""

from __future__ import annotations

from ascend_aclnn.rules.language import *

_TEXT = "FLOAT FLOAT16 INT32 INT64 INT16 INT8 UINT8 DOUBLE BF16"
rule(
    "aclnnCrypto",
    absent("aad"),
    dtypes("UINT8", "key", "iv", "tag"),
    dtypes(_TEXT, "inputText"),
    same_dtype("inputText", "outputText"),
    dtypes("UINT32", "opConfig", "out"),
    same_shape("inputText", "outputText"),
    documented_products,
    infer_shape(outputText="inputText", out="(1,)"),
    output_dtype(out="UINT32"),
)
rule(
    "aclnnMatmulAbftVerify",
    documented_products,
    dtypes(FLOATS, "a"),
    same_dtype("a", "b", "checksumWeight"),
    dtypes("FLOAT", "c"),
    rank(2, "a", "b", "c"),
    require("a[1] == b[0]", "c == (a[0], b[1])", "checksumWeight == b[1:]", "eMax >= 0"),
    output_shape(compRow="(ceil_div(a[0], 8) * ceil_div(b[1], 256),)"),
    output_dtype(compRow="UINT8"),
)
_ENGINE = (documented_products, documented_dtypes())
rule("aclnnObfuscationSetup aclnnObfuscationSetupV2", *_ENGINE, output_shape(fd="(1,)"), output_dtype(fd="INT32"))
rule(
    "aclnnObfuscationCalculate aclnnObfuscationCalculateV2",
    *_ENGINE,
    same_dtype("x", "y"),
    output_shape(y="x"),
)
