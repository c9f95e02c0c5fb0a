"""Rules of ops-math/conversion: axes in another order, other shapes, other storage formats."""

from __future__ import annotations

from ascend_aclnn.core.errors import INNER_NULLPTR, RUNTIME_ERROR
from ascend_aclnn.rules.language import *

# ------------------------------------------------------------------------------------------------- axes

rule(
    "aclnnPermute",
    same_dtype("self", "out", among=plus_bf16(f"{REAL_AND_COMPLEX} {UNSIGNED} {FLOAT8S}")),
    require("len(out) == len(self)", "len(dims) == len(self)"),
    max_rank(8, "self"),
    valid_axes("dims", "self"),
    with_status(INNER_NULLPTR, require("self.size > 0 or out.size == 0", argument="out")),
    unless_empty("self", output_shape_relaxed(out="tuple(self[i] for i in dims)")),
)

_ROLLED = "FLOAT FLOAT16 INT8 UINT8 INT32 UINT32 BOOL INT64"
rule(
    "aclnnRoll",
    dtypes({"A2 A3": _ROLLED + " BF16 INT16", "950": _ROLLED + " BF16 INT16 COMPLEX64", "": _ROLLED}, "x", "out"),
    same_dtype("x", "out"),
    output_shape(out="x"),
    require("len(shifts) == (len(dims) or 1)"),
    max_rank(8, "x"),
    # Axes may be named more than once; a 0-d tensor has none to name.
    unless_empty("x", require("all(-len(x) <= axis < len(x) for axis in dims)", argument="dims")),
)
rule(
    "aclnnFlatten",
    same_dtype("self", "out", among=plus_bf16(f"{FLOATS_WITHOUT_BF16} {INTEGERS} {UNSIGNED} BOOL")),
    max_rank(8, "self"),
    valid_axis("axis", "self"),
    define(place="axis % max(len(self), 1)"),
    output_shape(out="(prod(self[:place]), prod(self[place:]))"),
)
rule(
    "aclnnChannelShuffle",
    same_dtype("self", "out", among=f"{REAL_AND_COMPLEX} BF16"),
    positive("groups"),
    require("(self[1] if len(self) > 1 else 0) % groups == 0", argument="groups"),
    output_shape(out="self"),
    rank(3, 7, "self"),
)
rule(
    "aclnnConfusionTranspose",
    same_dtype("x", "out", among=f"{INTEGERS} {UNSIGNED} {FLOATS}"),
    # Transposed and then reshaped, or the other way round. ``known`` refuses other counts of elements in inference too, where
    # empty tensors are not checked.
    define(turned="x if transpose_first else shape", count="known(prod(shape), prod(x))"),
    unless_empty(
        "x",
        with_status(
            INNER_NULLPTR,
            require("len(perm) == len(turned)"),
            require("all(-len(perm) <= i < len(perm) for i in perm)"),
            require(
                "len({i % len(perm) for i in perm}) == len(perm)", argument="perm", why="each axis once", word="twice"
            ),
            require("all(n >= 0 for n in shape)", "count >= 0", argument="shape"),
        ),
        copied_output_shape(out="count >= 0 and (shape if transpose_first else tuple(shape[i] for i in perm))"),
    ),
)

# ------------------------------------------------------------------------------------------------- weights

rule(
    # The blocked copy is larger than the weight: its size comes from a helper of CANN's, so it must be given.
    "aclnnTransConvolutionWeight",
    require("len(weightIn) == 4", "not transposed", "groups != 0"),
    only_products("310P"),
    dtypes("FLOAT16 FLOAT", "weightIn"),
    dtypes("FLOAT16", "weightOut"),
    formats("NCHW", "weightIn", "weightOut"),
    contiguous("weightOut"),
    require("weightOut.empty == weightIn.empty"),
)
_WEIGHTS = "FLOAT16 BF16 INT8 FLOAT8_E4M3FN HIFLOAT8 UINT8"
rule(
    "aclnnTransMatmulWeight",
    dtypes({"A2 A3 950": _WEIGHTS, "310P": "FLOAT16 INT8", "": "FLOAT16"}, "mmWeightRef"),
    formats("ND", "mmWeightRef"),
    max_rank(8, "mmWeightRef"),
    unless_empty(
        "mmWeightRef",
        define(most="6 if product in ('A2', 'A3') or mmWeightRef.dtype == INT8 else 2"),
        require("2 <= len(mmWeightRef) <= most"),
    ),
)

# ------------------------------------------------------------------------------------------------- formats

_CAST = "INT8 UINT8 FLOAT FLOAT16 BF16 INT32 UINT32"
_CAST_ANY = f"{_CAST} FLOAT8_E4M3FN HIFLOAT8 {FLOAT4S}"
# Plain layouts and the blocked ones to which Atlas A2 / A3 cast them, and back.
_BLOCKED = {
    "FRACTAL_NZ": "ND NCL NCHW NCDHW",
    "NDC1HWC0": "NCDHW NDHWC",
    "FRACTAL_Z_3D": "NCDHW",
    "NC1HWC0": "NCHW NHWC",
    "FRACTAL_Z": "NCHW HWCN",
}


@refuses("format/cast", "dstTensor")
def _castable_formats(call: Call) -> None:
    """CANN leaves its executor unset, and reports success, for other pairs."""
    source, target = call["srcTensor"].format, call["dstTensor"].format
    pairs = ((source, target), (target, source))
    castable = any(plain.name in _BLOCKED.get(blocked.name, "").split() for plain, blocked in pairs)
    call.require(
        castable, "dstTensor", f"has format {target.name}, to which {source.name} cannot be cast", check="format/cast"
    )


# Ascend 950 casts between plain layouts and FRACTAL_NZ of matrix weights.
_TO_NZ = "dstTensor.format == FRACTAL_NZ"
_NZ_CAST = (
    when(
        _TO_NZ,
        require("srcTensor.format in (ND, NCL, NCHW, NCDHW)", "2 <= len(srcTensor) <= 6"),
        require("4 <= len(dstTensor.storage) <= 8"),
    ),
    when(f"not {_TO_NZ} and srcTensor.nz", require("len(srcTensor.storage) == len(dstTensor) + 2")),
    when(f"not {_TO_NZ} and not srcTensor.nz", dtypes(_CAST, "srcTensor", "dstTensor"), _castable_formats),
)
rule(
    # The blocked copy's storage comes from a helper of CANN's, so it must be given.
    "aclnnNpuFormatCast",
    only_products("A2 A3 950"),
    contiguous("srcTensor", "dstTensor"),
    dtypes(_CAST_ANY, "srcTensor", "dstTensor"),
    on_products("A2 A3", dtypes(_CAST, "srcTensor", "dstTensor"), _castable_formats),
    on_products("950", *_NZ_CAST),
)
rule(
    # Weights are blocked for the kernel that reads them: the outputs must be given.
    "aclnnWeightQuantPreprocess",
    with_status(RUNTIME_ERROR, only_products("950")),
    required("weight", "weightScale", "outWeight", "outWeightScale"),
    dtypes("FLOAT4_E2M1", "weight", "outWeight"),
    dtypes("FLOAT8_E8M0", "weightScale", "outWeightScale"),
    dtypes("FLOAT16 BF16", "biasOptional", "outBiasOptional"),
    rank(2, 3, "weight"),
    require("xDtype == FLOAT8_E4M3FN", "xScaleDtype == FLOAT8_E8M0"),
    not_empty("weight", "weightScale", "biasOptional", "outWeight", "outWeightScale"),
    formats("ND NCL", "weight"),
    require("weight.transposed", argument="weight"),
    formats("ND NCL NCHW", "weightScale", "outWeightScale"),
    require("weightScale == (*weight[:-2], ceil_div(weight[-2], 64), weight[-1], 2)"),
    require("weightOffsetOptional is None", "outWeightOffsetOptional is None"),
    contiguous("biasOptional", "outBiasOptional"),
    require("biasOptional == (*weight[:-2], weight[-1]) or biasOptional == (1, weight[-1])"),
    require("kGroupSize == 32"),
    formats("FRACTAL_NZ_C0_32", "outWeight"),
    require("outWeight == weight", "outWeightScale == weightScale", "outBiasOptional == biasOptional"),
    require("outWeight.storage == (*weight[:-2], ceil_div(weight[-2], 32), ceil_div(weight[-1], 16), 16, 32)"),
    same_dtype("biasOptional", "outBiasOptional"),
    nullable="weight weightScale outWeight outWeightScale",
)
