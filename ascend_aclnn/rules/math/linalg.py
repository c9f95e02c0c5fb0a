"""Rules of ops-math/math: products of vectors, matrix decompositions, distances, transforms to frequencies."""

from __future__ import annotations

from ascend_aclnn.core.dtypes import DataType
from ascend_aclnn.core.errors import INNER_NULLPTR
from ascend_aclnn.rules.language import *

# ------------------------------------------------------------------------------------------------- vectors

rule(
    "aclnnDot",
    same_dtype("self", "tensor", "out"),
    dtypes(plus_bf16("FLOAT FLOAT16 INT8 INT32 UINT8"), "self"),
    rank(1, 1, "self", "tensor"),
    same_shape("self", "tensor"),
    output_shape(out="()"),
)
rule(
    "aclnnGer",
    dtypes(
        {
            "950": "FLOAT FLOAT16 INT32 DOUBLE INT8 UINT8 INT16 BOOL BF16 INT64 COMPLEX64 COMPLEX128",
            "": "FLOAT FLOAT16 INT32 DOUBLE INT8 UINT8 INT16 BOOL INT64 COMPLEX64 COMPLEX128",
        },
        "self",
        "vec2",
    ),
    castable(promoted("self", "vec2"), "out"),
    rank(1, 1, "self", "vec2"),
    rank(2, 2, "out"),
    output_shape(out="(self[0], vec2[0])"),
    output_dtype(out=promoted("self", "vec2")),
)


def _integral(name: str, call: Call) -> bool:
    return is_integral(call.dtype(name), with_bool=True)


def _addr_factors(target: str) -> Check:
    """beta and alpha: boolean only among booleans, integers among integers."""

    def check(call: Call) -> None:
        vectors = (target, "vec1", "vec2")
        common = promoted("vec2", "vec1")(call)
        from_all = promoted(*vectors)(call) if common is not DataType.DT_UNDEFINED else common
        integers = all(_integral(name, call) for name in vectors)
        for name in ("betaOptional", "alphaOptional"):
            if not call.is_present(name):
                continue
            dtype = call.dtype(name)
            text = f"has dtype {dtype.name}; the tensors promote to {from_all.name}"
            call.require(dtype is not DataType.BOOL or from_all is DataType.BOOL, name, text)
            call.require(not integers or _integral(name, call), name, text)

    return check


_ADDED = plus_bf16("DOUBLE FLOAT FLOAT16 INT64 INT32 INT16 INT8 UINT8 BOOL")
rule(
    "aclnnAddr",
    dtypes(_ADDED, "self", "vec1", "vec2", "out", "betaOptional", "alphaOptional"),
    _addr_factors("self"),
    rank(1, 1, "vec1", "vec2"),
    max_rank(2, "self"),
    require("all(n in (1, m) for n, m in zip(self[::-1], (*vec1, *vec2)[::-1]))"),
    unless_empty("vec1 vec2", output_shape(out="(*vec1, *vec2)")),
    output_dtype(out=promoted("self", "vec1", "vec2")),
)
rule(
    "aclnnInplaceAddr",
    dtypes(_ADDED, "selfRef", "vec1", "vec2", "betaOptional", "alphaOptional"),
    _addr_factors("selfRef"),
    rank(1, 1, "vec1", "vec2"),
    rank(2, 2, "selfRef"),
    output_shape(selfRef="(*vec1, *vec2)"),
)


rule(
    "aclnnLinalgCross",
    dtypes(plus_bf16("FLOAT FLOAT16 DOUBLE INT8 INT16 INT32 INT64 COMPLEX64 COMPLEX128 UINT8"), "self"),
    same_dtype("self", "other", "out"),
    max_rank(8, "self", "other", "out"),
    output_shape(out=broadcast_shape("self", "other")),
    require("len(self) > 0"),
    valid_axis("dim", "self"),
    # dim counts from the front of self, which may have fewer axes than other.
    define(axis="dim + max(0, len(other) - len(self)) if dim >= 0 else dim"),
    require("out.empty or out[axis] == 3", argument="dim"),
)

# ------------------------------------------------------------------------------------------------- matrices


def trace_type(call: Call) -> DataType:
    return DataType.INT64 if _integral("self", call) else call.dtype("self")


rule(
    "aclnnTrace",
    rank(2, 2, "self"),
    output_shape(out="()"),
    dtypes(plus_bf16("FLOAT FLOAT16 DOUBLE COMPLEX64 COMPLEX128 INT32 INT64 INT16 INT8 UINT8 BOOL"), "self"),
    has_dtype("out", trace_type),
)


def _complex_stays(*outputs: str) -> Check:
    def check(call: Call) -> None:
        for name in outputs:
            text = f"has dtype {call.dtype(name).name}; it must be complex, as self"
            call.require(not is_complex(call.dtype("self")) or is_complex(call.dtype(name)), name, text)

    return check


_SOLVED = "FLOAT DOUBLE COMPLEX64 COMPLEX128"
rule(
    "aclnnLogdet",
    dtypes(_SOLVED, "self", "out"),
    _complex_stays("out"),
    rank(2, 99, "self"),
    require("self[-1] == self[-2]"),
    output_shape(out="self[:-2]"),
)
rule(
    "aclnnSlogdet",
    dtypes(_SOLVED, "self", "signOut", "logOut"),
    _complex_stays("signOut", "logOut"),
    rank(2, 99, "self"),
    require("self[-1] == self[-2]"),
    output_shape(signOut="self[:-2]", logOut="self[:-2]"),
)


rule(
    "aclnnLinalgCholesky",
    same_dtype("self", "out"),
    dtypes({"A2 A3 950": "FLOAT BF16 FLOAT16", "": ""}, "self"),
    same_format("self", "out"),
    no_private_format("self"),
    rank(2, 8, "self"),
    output_shape(out=shape_of("self")),
    unless_empty("self", require("self[-1] == self[-2]", "self[-1] <= 8192")),
)

_DECOMPOSED = "FLOAT FLOAT16 DOUBLE COMPLEX64 COMPLEX128"
rule(
    "aclnnLinalgQr",
    dtypes(_DECOMPOSED, "self", "Q", "R"),
    rank(2, 8, "self"),
    # mode 0 is the reduced decomposition, 1 the complete one, 2 R alone; any other number counts as 0.
    define(k="min(self[-2], self[-1])", columns="self[-2] if mode == 1 else k"),
    output_shape(Q="(0,) if mode == 2 else (*self[:-1], columns)", R="(*self[:-2], columns, self[-1])"),
    null_status=INNER_NULLPTR,
)
rule(
    "aclnnQr",
    dtypes(_DECOMPOSED, "self", "Q", "R"),
    rank(2, 8, "self"),
    define(columns="min(self[-2], self[-1]) if some else self[-2]"),
    output_shape(Q="(*self[:-1], columns)", R="(*self[:-2], columns, self[-1])"),
    null_status=INNER_NULLPTR,
)


_VECTORS = {
    "u": "(*input[:-1], input[-2] if fullMatrices else k)",
    "v": "(*input[:-2], input[-1], input[-1] if fullMatrices else k)",
}
rule(
    "aclnnSvd",
    dtypes(_SOLVED, "input", "sigma", "u", "v"),
    same_dtype("input", "sigma", "u", "v"),
    rank(2, 8, "input"),
    define(k="min(input[-2], input[-1])"),
    output_shape(sigma="(*input[:-2], k)"),
    when("computeUV", has_shape(**_VECTORS)),
    infer_shape(**_VECTORS),
)


def _solved_matrices(call: Call) -> Shape:
    """A's shape, with the batches of both."""
    right = call.shape("self")
    both = broadcast_shapes(call.shape("A"), (*right[:-1], call.size("self", -2)))
    if both is None:
        call.refuse("A", f"has shape {call.shape('A')}, whose batches do not broadcast with those of {right}")
    return both


def _solution(call: Call) -> Shape:
    return _solved_matrices(call)[:-1] + call.shape("self")[-1:]


rule(
    "aclnnTriangularSolve",
    dtypes(_SOLVED, "self", "A", "xOut"),
    same_dtype("self", "A", "xOut", "mOut"),
    rank(2, 8, "self", "A", "xOut"),
    require("A[-1] == A[-2]", "self[-2] == A[-1]"),
    output_shape(xOut=_solution, mOut=_solved_matrices),
    unless_empty("A self", when("unitriangular", require("A.dtype == FLOAT"))),
    null_status=INNER_NULLPTR,
)

# ------------------------------------------------------------------------------------------------- distances


def _cdist_shape(call: Call) -> Shape:
    left, right = call.shape("x1"), call.shape("x2")
    batches = broadcast_shapes(left[:-2], right[:-2])
    if batches is None:
        call.refuse("x2", f"has shape {right}, whose batches do not broadcast with those of {left}")
    return (*batches, call.size("x1", -2), call.size("x2", -2))


rule(
    "aclnnCdist",
    dtypes({"A2 A3 950": "FLOAT FLOAT16 BF16", "": ""}, "x1", "x2", "out"),
    same_dtype("out", "x1", "x2"),
    rank(2, 8, "x1", "x2", "out"),
    require("x2[-1] == x1[-1]"),
    require("p >= 0"),
    require("abs(p - 2.0) >= 1e-6 or compute_mode == 2", argument="compute_mode"),
    # CANN makes nothing when x1 or x2 is empty before its last axis.
    when("prod(x1[:-1]) > 0 and prod(x2[:-1]) > 0", output_shape(out=_cdist_shape)),
    infer_shape(out=_cdist_shape),
)


rule(
    "aclnnCdistBackward",
    dtypes("FLOAT FLOAT16 BF16", "grad", "x1", "x2", "cdist", "out"),
    same_dtype("grad", "x1", "x2", "cdist", "out"),
    rank(2, 7, "grad"),
    require("len(x1) == len(grad)", "len(x2) == len(grad)", "len(cdist) == len(grad)", "len(out) == len(grad)"),
    require("x2[-1] == x1[-1] or 1 in (x1[-1], x2[-1])"),
    output_shape(cdist=_cdist_shape, grad=_cdist_shape, out=shape_of("x1")),
    require("p >= 0 or p == -1", why="-1 stands for infinity"),
    output_dtype(out=dtype_of("x1")),
)


_PDIST = (
    dtypes("FLOAT FLOAT16", "self", "out"),
    same_dtype("self", "out"),
    rank(2, 2, "self"),
    rank(1, 1, "out"),
    output_shape(out="(self[0] * (self[0] - 1) // 2,)"),
)


rule("aclnnPdist", *_PDIST, require("p >= 0"))
rule("aclnnPdistForward", *_PDIST, require("not pScalar < 0"), null_status=INNER_NULLPTR)

# ------------------------------------------------------------------------------------------------- frequencies

_LONGEST_FFT = 262144


rule(
    "aclRfft1D",
    only_products("A2 A3 950"),
    dtypes("FLOAT", "self"),
    rank(1, 7, "self"),
    require(f"n == -1 or 0 < n <= {_LONGEST_FFT}"),
    one_of("norm", 1, 2, 3),
    valid_axis("dim", "self"),
    define(axis="dim % len(self)", frequencies="(self[dim] if n == -1 else n) // 2 + 1"),
    # Complex numbers are pairs of floats along a new last axis.
    unless_empty("self", output_shape(out="(*self[:axis], frequencies, *self[axis + 1 :], 2)")),
    output_dtype(out="FLOAT"),
)


rule(
    "aclStft",
    only_products("A2 A3 950"),
    dtypes("FLOAT DOUBLE COMPLEX64 COMPLEX128", "self", "windowOptional"),
    same_dtype("self", "windowOptional"),
    dtypes("FLOAT DOUBLE COMPLEX64 COMPLEX128", "out"),
    formats("ND", "self"),
    rank(1, 2, "self"),
    rank(2, 4, "out"),
    require("0 < nFft <= self[-1]", "hopLength > 0", "0 < winLength <= nFft"),
    rank(1, 1, "windowOptional"),
    # CANN compares them only where win_length is not n_fft; another length does not fit then either.
    require("windowOptional[0] == winLength"),
    when("self.dtype in (COMPLEX64, COMPLEX128)", require("not onesided", why="for complex inputs")),
    define(rows="nFft // 2 + 1 if onesided else nFft", frames="(self[-1] - nFft) // hopLength + 1"),
    output_shape(out="(*self[:-1], rows, frames) if returnComplex else (*self[:-1], rows, frames, 2)"),
    define(double="self.dtype in (DOUBLE, COMPLEX128)"),
    output_dtype(out="(COMPLEX128 if double else COMPLEX64) if returnComplex else (DOUBLE if double else FLOAT)"),
)
