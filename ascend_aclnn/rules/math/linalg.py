"""Rules of ops-math/math: products of vectors, matrix decompositions, distances, transforms to frequencies."""

from __future__ import annotations

from ascend_aclnn.core.dtypes import DataType
from ascend_aclnn.core.errors import INNER_NULLPTR
from ascend_aclnn.rules.language import *

# ------------------------------------------------------------------------------------------------- vectors

rule(
    "aclnnDot",
    same_dtype("self", "tensor", "out", among=plus_bf16("FLOAT FLOAT16 INT8 INT32 UINT8")),
    rank(1, "self", "tensor"),
    same_shape("self", "tensor"),
    output_shape(out="()"),
)
rule(
    "aclnnGer",
    dtypes({"950": f"{REAL_AND_COMPLEX} BF16", "": REAL_AND_COMPLEX}, "self", "vec2"),
    castable(promoted("self", "vec2"), "out"),
    rank(1, "self", "vec2"),
    rank(2, "out"),
    output_shape(out="(self[0], vec2[0])"),
    output_dtype(out=promoted("self", "vec2")),
)


@refuses("dtype/tensors", "betaOptional", "alphaOptional")
def _addr_factors(call: Call) -> None:
    """beta and alpha, whose dtypes words do not see: boolean only among booleans, integers among integers."""
    vectors = ("self", "vec1", "vec2")
    from_all = promoted(*vectors)(call)
    integers = all(is_integral(call.dtype(name), with_bool=True) for name in vectors)
    for name in ("betaOptional", "alphaOptional"):
        dtype = call.dtype(name)
        fits = dtype is not DataType.BOOL or from_all is DataType.BOOL
        fits = fits and (not integers or is_integral(dtype, with_bool=True))
        text = f"has dtype {dtype.name}; the tensors promote to {from_all.name}"
        call.require(fits or not call.is_present(name), name, text, check="dtype/tensors")


in_both_forms(
    "Addr",
    dtypes(plus_bf16(REAL), "self", "vec1", "vec2", "out", "betaOptional", "alphaOptional"),
    _addr_factors,
    rank(1, "vec1", "vec2"),
    max_rank(2, "self"),
    require("all(n in (1, m) for n, m in zip(self[::-1], (*vec1, *vec2)[::-1]))"),
    unless_empty("vec1 vec2", output_shape(out="(*vec1, *vec2)")),
    in_place(rank(2, "self"), output_shape(out="(*vec1, *vec2)")),
    output_dtype(out=promoted("self", "vec1", "vec2")),
)
rule(
    "aclnnLinalgCross",
    same_dtype("self", "other", "out", among=plus_bf16(f"{NUMBERS} {COMPLEX}")),
    max_rank(8, "self", "other", "out"),
    output_shape(out=broadcast_shape("self", "other")),
    require("len(self) > 0"),
    valid_axis("dim", "self"),
    # dim counts from the front of self, which may have fewer axes than other.
    define(axis="dim + max(0, len(other) - len(self)) if dim >= 0 else dim"),
    require("out.empty or out[axis] == 3", argument="dim"),
)

# ------------------------------------------------------------------------------------------------- matrices
rule(
    "aclnnTrace",
    rank(2, "self"),
    output_shape(out="()"),
    dtypes(plus_bf16(REAL_AND_COMPLEX), "self"),
    has_dtype("out", "INT64 if self.dtype in INTEGERS or self.dtype == BOOL else self.dtype"),
)
_SOLVED = f"FLOAT DOUBLE {COMPLEX}"
for _name, _outputs in (("Logdet", ("out",)), ("Slogdet", ("signOut", "logOut"))):
    rule(
        f"aclnn{_name}",
        dtypes(_SOLVED, "self", *_outputs),
        when("self.dtype in COMPLEX", dtypes(COMPLEX, *_outputs)),
        rank(2, 99, "self"),
        require("self[-1] == self[-2]"),
        output_shape(**dict.fromkeys(_outputs, "self[:-2]")),
    )
rule(
    "aclnnLinalgCholesky",
    same_dtype("self", "out", among={PRODUCTS_WITH_BF16: FLOATS, "": ""}),
    same_format("self", "out"),
    no_private_format("self"),
    rank(2, 8, "self"),
    output_shape(out="self"),
    unless_empty("self", require("self[-1] == self[-2]", "self[-1] <= 8192")),
)

rule(
    "aclnnLinalgQr aclnnQr",
    dtypes(f"{FLOATS_AND_DOUBLE} {COMPLEX}", "self", "Q", "R"),
    rank(2, 8, "self"),
    # mode 0 is the reduced decomposition, 1 the complete one, 2 R alone; any other number counts as 0.
    define(complete="mode == 1 if some is None else not some"),
    define(columns="self[-2] if complete else min(self[-2], self[-1])"),
    output_shape(R="(*self[:-2], columns, self[-1])"),
    on_operators("aclnnLinalgQr", output_shape(Q="(0,) if mode == 2 else (*self[:-1], columns)")),
    on_operators("aclnnQr", output_shape(Q="(*self[:-1], columns)")),
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
rule(
    "aclnnTriangularSolve",
    dtypes(_SOLVED, "self", "A", "xOut"),
    same_dtype("self", "A", "xOut", "mOut"),
    rank(2, 8, "self", "A", "xOut"),
    require("A[-1] == A[-2]", "self[-2] == A[-1]"),
    define(matrices="broadcast(A, (*self[:-1], self[-2]))"),
    output_shape(xOut="(*matrices[:-1], self[-1])", mOut="matrices"),
    unless_empty("A self", when("unitriangular", require("A.dtype == FLOAT"))),
    null_status=INNER_NULLPTR,
)

# ------------------------------------------------------------------------------------------------- distances

_PAIRS = "(*broadcast(x1[:-2], x2[:-2]), x1[-2], x2[-2])"
rule(
    "aclnnCdist",
    same_dtype("x1", "x2", "out", among={PRODUCTS_WITH_BF16: FLOATS, "": ""}),
    rank(2, 8, "x1", "x2", "out"),
    require("x2[-1] == x1[-1]"),
    require("p >= 0"),
    require("abs(p - 2.0) >= 1e-6 or compute_mode == 2", argument="compute_mode"),
    # CANN makes nothing when x1 or x2 is empty before its last axis; else it copies its result into out.
    when(
        "prod(x1[:-1]) > 0 and prod(x2[:-1]) > 0",
        require("broadcasts(x1[:-2], x2[:-2])", argument="x2"),
        with_status(INNER_NULLPTR, output_shape_relaxed(out=_PAIRS)),
    ),
    infer_shape(out=_PAIRS),
)
rule(
    "aclnnCdistBackward",
    dtypes(FLOATS, "grad", "x1", "x2", "cdist", "out"),
    same_dtype("grad", "x1", "x2", "cdist", "out"),
    rank(2, 7, "grad"),
    require("len(x1) == len(grad)", "len(x2) == len(grad)", "len(cdist) == len(grad)", "len(out) == len(grad)"),
    require("x2[-1] == x1[-1] or 1 in (x1[-1], x2[-1])"),
    output_shape(cdist=_PAIRS, grad=_PAIRS, out="x1"),
    require("p >= 0 or p == -1", why="-1 stands for infinity"),
    output_dtype(out="x1"),
)
_PDIST = (
    dtypes(FLOATS_WITHOUT_BF16, "self", "out"),
    same_dtype("self", "out"),
    rank(2, "self"),
    rank(1, "out"),
    output_shape(out="(self[0] * (self[0] - 1) // 2,)"),
)
rule("aclnnPdist", *_PDIST, require("p >= 0"))
rule("aclnnPdistForward", *_PDIST, require("not pScalar < 0"), null_status=INNER_NULLPTR)

# ------------------------------------------------------------------------------------------------- frequencies

_LONGEST_FFT = 262144
rule(
    "aclRfft1D",
    only_products(PRODUCTS_WITH_BF16),
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
    only_products(PRODUCTS_WITH_BF16),
    dtypes(_SOLVED, "self", "windowOptional"),
    same_dtype("self", "windowOptional"),
    dtypes(_SOLVED, "out"),
    formats("ND", "self"),
    rank(1, 2, "self"),
    rank(2, 4, "out"),
    require("0 < nFft <= self[-1]", "hopLength > 0", "0 < winLength <= nFft"),
    rank(1, "windowOptional"),
    # CANN compares them only where win_length is not n_fft; another length does not fit then either.
    require("windowOptional[0] == winLength"),
    when("self.dtype in (COMPLEX64, COMPLEX128)", require("not onesided", why="for complex inputs")),
    define(rows="nFft // 2 + 1 if onesided else nFft", frames="(self[-1] - nFft) // hopLength + 1"),
    output_shape(out="(*self[:-1], rows, frames) if returnComplex else (*self[:-1], rows, frames, 2)"),
    define(double="self.dtype in (DOUBLE, COMPLEX128)"),
    output_dtype(out="(COMPLEX128 if double else COMPLEX64) if returnComplex else (DOUBLE if double else FLOAT)"),
)
