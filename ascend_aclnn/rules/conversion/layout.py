"""Rules of ops-math/conversion: axes in another order, other shapes, other storage formats."""

from __future__ import annotations

import math

from ascend_aclnn.core.dtypes import DataType, Format
from ascend_aclnn.core.errors import INNER_NULLPTR, PARAM_NULLPTR, RUNTIME_ERROR
from ascend_aclnn.rules.language import *

# ------------------------------------------------------------------------------------------------- axes

_PERMUTED = (
    "FLOAT FLOAT16 INT8 INT16 INT32 INT64 UINT8 UINT16 UINT32 UINT64 BOOL DOUBLE COMPLEX64 COMPLEX128 HIFLOAT8 "
    "FLOAT8_E5M2 FLOAT8_E4M3FN"
)


def _permuted(call: Call) -> Shape:
    sizes = call.shape("self")
    return tuple(call.size("self", axis) for axis in normalise_axes(call, "dims", call["dims"], len(sizes)))


rule(
    "aclnnPermute",
    dtypes(plus_bf16(_PERMUTED), "self"),
    same_dtype("self", "out"),
    require("len(out) == len(self)", "len(dims) == len(self)"),
    max_rank(8, "self"),
    valid_axes("dims", "self"),
    with_status(INNER_NULLPTR, require("self.size > 0 or out.size == 0", argument="out")),
    unless_empty("self", output_shape_relaxed(out=_permuted)),
    infer_shape(out=_permuted),
)

_ROLLED = "FLOAT FLOAT16 INT8 UINT8 INT32 UINT32 BOOL INT64"


rule(
    "aclnnRoll",
    dtypes({"A2 A3": _ROLLED + " BF16 INT16", "950": _ROLLED + " BF16 INT16 COMPLEX64", "": _ROLLED}, "x", "out"),
    same_dtype("x", "out"),
    output_shape(out=shape_of("x")),
    require("len(shifts) == (len(dims) or 1)"),
    max_rank(8, "x"),
    # Axes may be named more than once; a 0-d tensor has none to name.
    unless_empty("x", require("all(-len(x) <= axis < len(x) for axis in dims)", argument="dims")),
)


rule(
    "aclnnFlatten",
    same_dtype("self", "out"),
    dtypes(plus_bf16("FLOAT FLOAT16 INT32 INT8 UINT8 INT64 INT16 UINT16 UINT32 UINT64 BOOL"), "self"),
    max_rank(8, "self"),
    valid_axis("axis", "self"),
    define(place="axis % max(len(self), 1)"),
    output_shape(out="(prod(self[:place]), prod(self[place:]))"),
)


rule(
    "aclnnChannelShuffle",
    same_dtype("self", "out"),
    dtypes("FLOAT16 FLOAT DOUBLE INT8 UINT8 INT16 INT32 INT64 BOOL COMPLEX64 COMPLEX128 BF16", "self"),
    positive("groups"),
    require("(self[1] if len(self) > 1 else 0) % groups == 0", argument="groups"),
    output_shape(out=shape_of("self")),
    rank(3, 7, "self"),
)


def _confused(call: Call) -> Shape:
    """Transposed and then reshaped, or the other way round."""
    came, wanted, order = call.shape("x"), tuple(call["shape"]), call["perm"]
    turned = came if call["transpose_first"] else wanted
    text = f"has {len(order)} items; it must have {len(turned)}, one for every axis that is transposed"
    call.require(len(order) == len(turned), "perm", text)
    axes = normalise_axes(call, "perm", order, len(turned))
    fits = min(wanted, default=0) >= 0 and math.prod(wanted) == math.prod(came)
    call.require(fits, "shape", f"is {wanted}; it must hold the {math.prod(came)} elements of x {came}")
    return wanted if call["transpose_first"] else tuple(wanted[axis] for axis in axes)


rule(
    "aclnnConfusionTranspose",
    dtypes("INT8 INT16 INT32 INT64 UINT8 UINT16 UINT32 UINT64 FLOAT16 FLOAT BF16", "x"),
    same_dtype("x", "out"),
    unless_empty("x", copied_output_shape(out=_confused)),
)

# ------------------------------------------------------------------------------------------------- weights


def _weight_dimensions(call: Call) -> None:
    ndim = len(call.shape("weightIn"))
    call.require(ndim == 4, "weightIn", f"has rank {ndim}; it must be 4")
    call.require(not call["transposed"], "transposed", "is True; it must be False")
    call.require(call["groups"] != 0, "groups", "is 0")


def _both_empty(call: Call) -> None:
    text = f"has shape {call.shape('weightOut')}; it must be empty just when weight_in is"
    call.require((call["weightIn"].size == 0) == (call["weightOut"].size == 0), "weightOut", text)


rule(
    # The blocked copy is larger than the weight: its size comes from a helper of CANN's, so it must be given.
    "aclnnTransConvolutionWeight",
    _weight_dimensions,
    only_products("310P"),
    dtypes("FLOAT16 FLOAT", "weightIn"),
    dtypes("FLOAT16", "weightOut"),
    formats("NCHW", "weightIn", "weightOut"),
    contiguous("weightOut"),
    _both_empty,
)


def _weight_rank(call: Call) -> None:
    most = 6 if call.product in ("A2", "A3") or call.dtype("mmWeightRef") is DataType.INT8 else 2
    rank(2, most, "mmWeightRef")(call)


_WEIGHTS = "FLOAT16 BF16 INT8 FLOAT8_E4M3FN HIFLOAT8 UINT8"
rule(
    "aclnnTransMatmulWeight",
    dtypes({"A2 A3 950": _WEIGHTS, "310P": "FLOAT16 INT8", "": "FLOAT16"}, "mmWeightRef"),
    formats("ND", "mmWeightRef"),
    max_rank(8, "mmWeightRef"),
    unless_empty("mmWeightRef", _weight_rank),
)

# ------------------------------------------------------------------------------------------------- formats

_CAST = "INT8 UINT8 FLOAT FLOAT16 BF16 INT32 UINT32"
_CAST_ANY = _CAST + " FLOAT8_E4M3FN FLOAT4_E2M1 HIFLOAT8 FLOAT4_E1M2"
# Plain layouts and the blocked ones to which Atlas A2 / A3 cast them, and back.
_BLOCKED = {
    "FRACTAL_NZ": "ND NCL NCHW NCDHW",
    "NDC1HWC0": "NCDHW NDHWC",
    "FRACTAL_Z_3D": "NCDHW",
    "NC1HWC0": "NCHW NHWC",
    "FRACTAL_Z": "NCHW HWCN",
}


def _castable_formats(call: Call) -> None:
    """CANN leaves its executor unset, and reports success, for other pairs."""
    source, target = call["srcTensor"].format, call["dstTensor"].format
    pairs = ((source, target), (target, source))
    known = any(plain.name in _BLOCKED.get(blocked.name, "").split() for plain, blocked in pairs)
    call.require(known, "dstTensor", f"has format {target.name}, to which {source.name} cannot be cast")


def _nz_cast(call: Call) -> None:
    """Ascend 950 casts between plain layouts and FRACTAL_NZ of matrix weights."""
    source, target = call["srcTensor"], call["dstTensor"]
    if target.format is Format.FRACTAL_NZ:
        plain = source.format.name in ["ND", "NCL", "NCHW", "NCDHW"]
        text = f"has format {source.format.name} and rank {source.ndim}; a weight of 2 to 6 axes in ND is needed"
        call.require(plain and 2 <= source.ndim <= 6, "srcTensor", text)
        text = f"has a storage of rank {len(target.storage_shape)}; it must be between 4 and 8"
        call.require(4 <= len(target.storage_shape) <= 8, "dstTensor", text)
    elif source.format.name.startswith("FRACTAL_NZ"):
        text = f"has a storage of shape {source.storage_shape}; it must have two axes more than dst_tensor"
        call.require(len(source.storage_shape) == target.ndim + 2, "srcTensor", text)
    else:
        dtypes(_CAST, "srcTensor", "dstTensor")(call)
        _castable_formats(call)


rule(
    # The blocked copy's storage comes from a helper of CANN's, so it must be given.
    "aclnnNpuFormatCast",
    only_products("A2 A3 950"),
    contiguous("srcTensor", "dstTensor"),
    dtypes(_CAST_ANY, "srcTensor", "dstTensor"),
    on_products("A2 A3", dtypes(_CAST, "srcTensor", "dstTensor"), _castable_formats),
    on_products("950", _nz_cast),
)


def _known_chip(call: Call) -> None:
    call.require(call.product == "950", None, f"the operator is not supported on {call.soc.name}", RUNTIME_ERROR)


rule(
    # Weights are blocked for the kernel that reads them: the outputs must be given.
    "aclnnWeightQuantPreprocess",
    _known_chip,
    present(PARAM_NULLPTR, "weight", "weightScale", "outWeight", "outWeightScale"),
    dtypes("FLOAT4_E2M1", "weight", "outWeight"),
    dtypes("FLOAT8_E8M0", "weightScale", "outWeightScale"),
    dtypes("FLOAT16 BF16", "biasOptional", "outBiasOptional"),
    rank(2, 3, "weight"),
    rank(3, 4, "weightScale"),
    nullable="weight weightScale outWeight outWeightScale",
)
