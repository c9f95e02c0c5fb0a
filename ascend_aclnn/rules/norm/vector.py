"""Rules of the vector norms and of renormalisation, and of the masked softmax that stands beside the norms."""

from __future__ import annotations

from ascend_aclnn.rules.language import *

rule(
    "aclnnNorm",
    on_products("950", dtypes(FLOATS, "self", "out")),
    has_common(promoted("self", "out"), "out"),
    valid_axes("dim", "self"),
    max_rank(8, "self", "out"),
    output_shape(out=reduced_shape("self", "dim", "keepdim")),
    output_dtype(out="self"),
)
rule(
    "aclnnLinalgVectorNorm",
    has_dtype("out", dtype_attribute("dtype")),
    not_complex("self", "out"),
    on_products("950", dtypes(FLOATS, "self", "out"), require("dtype in (self.dtype, FLOAT)")),
    has_common(promoted("self", "out"), "out"),
    valid_axes("dims", "self"),
    max_rank(8, "self", "out"),
    output_shape(out=reduced_shape("self", "dims", "keepDims")),
)
in_both_forms(
    "Renorm",
    dtypes({"910": FLOATS_WITHOUT_BF16, "": FLOATS}, "self", "out"),
    same_dtype("self", "out"),
    same_format("self", "out"),
    rank(2, 8, "self", "out"),
    output_shape(out="self"),
    not_complex("p", "maxNorm"),
    not_negative("p"),
    valid_axis("dim", "self"),
    not_negative("maxNorm"),
)
# Experimental: matrices only; the kernel leaves other tensors unchanged.
rule(
    "aclnnRenormV2",
    only_products("A2"),
    dtypes("FLOAT FLOAT16", "x"),
    same_dtype("x", "out"),
    formats("ND", "x", "out"),
    tiling(not_empty("x"), rank(2, "x"), output_shape(out="x")),
    require("p > 0", "maxNorm >= 0"),
    one_of("dim", 0, 1),
)
rule(
    "aclnnEmbeddingRenorm",
    dtypes(FLOATS_OF_PRODUCT, "selfRef"),
    dtypes(INDICES, "indices"),
    rank(2, "selfRef"),
    max_rank(8, "indices"),
    require("selfRef.format != FRACTAL_NZ", "indices.format != FRACTAL_NZ"),
)
rule(
    "aclnnMaskedSoftmaxWithRelPosBias",
    only_products("A2 A3 310P 950"),
    dtype_table("x attenMaskOptional relativePosBias out", "T T T T", T=FLOATS_OF_PRODUCT),
    tiling(
        rank(4, 5, "x"),
        require(
            "relativePosBias.size == prod(x[-3:])",
            "attenMaskOptional.size > 0",
            "attenMaskOptional.size % prod(x[-2:]) == 0",
        ),
        require("attenMaskOptional.size == x[1] * prod(x[-2:]) or len(x) == 4", word="of-windows"),
        require("x[0] * prod(x[-2:]) % attenMaskOptional.size == 0 or len(x) == 5", word="repeats"),
        output_shape(out="x"),
    ),
)
