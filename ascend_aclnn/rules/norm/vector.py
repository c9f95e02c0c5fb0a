"""Rules of the vector norms and of renormalisation, and of the masked softmax that stands beside the norms."""

from __future__ import annotations

from ascend_aclnn.core.dtypes import DataType, Format
from ascend_aclnn.rules.language import *


def _widens(call: Call, came: DataType, name: str) -> None:
    """On Ascend 950 a norm is computed in self's type or FLOAT."""
    own = call.dtype("self")
    allowed = (own, DataType.FLOAT)
    call.require(came in allowed, name, f"has dtype {came.name}; with self {own.name} it must be {own.name} or FLOAT")


def _promotes(call: Call) -> None:
    promoted("self", "out")(call)


def _real(call: Call) -> None:
    for name in ("self", "out"):
        call.require(not is_complex(call.dtype(name)), name, f"has dtype {call.dtype(name).name}; it must be real")


def _convertible(call: Call) -> None:
    dtypes(FLOATS, "self", "out")(call)
    _widens(call, dtype_attribute("dtype")(call), "dtype")


rule(
    "aclnnNorm",
    on_products("950", dtypes(FLOATS, "self", "out")),
    _promotes,
    valid_axes("dim", "self"),
    max_rank(8, "self", "out"),
    output_shape(out=reduced_shape("self", "dim", "keepdim")),
    output_dtype(out=dtype_of("self")),
)
rule(
    "aclnnLinalgVectorNorm",
    has_dtype("out", dtype_attribute("dtype")),
    _real,
    on_products("950", _convertible),
    _promotes,
    valid_axes("dims", "self"),
    max_rank(8, "self", "out"),
    output_shape(out=reduced_shape("self", "dims", "keepDims")),
    output_dtype(out=dtype_attribute("dtype")),
)


def _renorm_values(target: str) -> Check:
    def check(call: Call) -> None:
        for name in ("p", "maxNorm"):
            call.require(not is_complex(call.dtype(name)), name, f"has dtype {call.dtype(name).name}; it must be real")
        p, most = call["p"].value, call["maxNorm"].value
        call.require(p >= 0, "p", f"is {p}; it must not be negative")
        n, axis = len(call.shape(target)), call["dim"]
        call.require(-n <= axis < n, "dim", f"is {axis}; it must be in [{-n}, {n - 1}]")
        call.require(most >= 0, "maxNorm", f"is {most}; it must not be negative")

    return check


_RENORM = {"910": "FLOAT FLOAT16", "": FLOATS}
rule(
    "aclnnRenorm",
    dtypes(_RENORM, "self", "out"),
    same_dtype("self", "out"),
    same_format("self", "out"),
    rank(2, 8, "self", "out"),
    output_shape(out=shape_of("self")),
    _renorm_values("self"),
    output_dtype(out=dtype_of("self")),
)
rule("aclnnInplaceRenorm", dtypes(_RENORM, "selfRef"), rank(2, 8, "selfRef"), _renorm_values("selfRef"))


def _no_nz(call: Call) -> None:
    for name in ("selfRef", "indices"):
        call.require(
            call[name].format is not Format.FRACTAL_NZ, name, "has format FRACTAL_NZ; it must be a plain format"
        )


rule(
    "aclnnEmbeddingRenorm",
    dtypes(FLOATS_OF_PRODUCT, "selfRef"),
    dtypes("INT32 INT64", "indices"),
    rank(2, 2, "selfRef"),
    max_rank(8, "indices"),
    _no_nz,
)


# ------------------------------------------------------------------------------------------------- masked softmax

_BIAS = "x attenMaskOptional relativePosBias out"


def _row(dtype: str) -> str:
    return " ".join([dtype] * 4)


rule(
    "aclnnMaskedSoftmaxWithRelPosBias",
    only_products("A2 A3 310P 950"),
    dtype_table(_BIAS, *map(_row, ("FLOAT16", "BF16", "FLOAT")), products="A2 A3 950"),
    dtype_table(_BIAS, *map(_row, ("FLOAT16", "FLOAT")), products="310P"),
    tiling(
        rank(4, 5, "x"),
        require(
            "relativePosBias.size == prod(x[-3:])",
            "attenMaskOptional.size % prod(x[-2:]) == 0",
            "attenMaskOptional.size == x[1] * prod(x[-2:]) or len(x) == 4",
        ),
        output_shape(out=shape_of("x")),
    ),
    output_dtype(out=dtype_of("x")),
)
