"""Rules of ops-math/math: products of vectors, matrix decompositions, distances, transforms to frequencies."""

from __future__ import annotations

import math
from typing import Callable

from ascend_aclnn.core.dtypes import DataType
from ascend_aclnn.core.errors import INNER_NULLPTR
from ascend_aclnn.rules.language import (
    Call,
    Check,
    Shape,
    ShapeRule,
    broadcast_shape,
    broadcast_shapes,
    castable,
    dtype_of,
    dtypes,
    formats,
    has_dtype,
    infer_shape,
    is_complex,
    is_integral,
    max_rank,
    no_private_format,
    one_of,
    only_products,
    output_dtype,
    output_shape,
    plus_bf16,
    promoted,
    rank,
    rule,
    same_dtype,
    same_format,
    same_shape,
    shape_from,
    shape_of,
    unless_empty,
    valid_axis,
    when,
)

# ------------------------------------------------------------------------------------------------- vectors

rule(
    "aclnnDot",
    same_dtype("self", "tensor", "out"),
    dtypes(plus_bf16("FLOAT FLOAT16 INT8 INT32 UINT8"), "self"),
    rank(1, 1, "self", "tensor"),
    same_shape("self", "tensor"),
    output_shape(out=lambda call: ()),
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
    output_shape(out=shape_from(("self", 0), ("vec2", 0))),
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


def _outer(call: Call) -> Shape:
    return call.shape("vec1") + call.shape("vec2")


def _broadcasts_to_outer(call: Call) -> None:
    outer = _outer(call)
    text = f"has shape {call.shape('self')}, which does not broadcast to {outer}"
    call.require(broadcast_shapes(call.shape("self"), outer) == outer, "self", text)


_ADDED = plus_bf16("DOUBLE FLOAT FLOAT16 INT64 INT32 INT16 INT8 UINT8 BOOL")
rule(
    "aclnnAddr",
    dtypes(_ADDED, "self", "vec1", "vec2", "out", "betaOptional", "alphaOptional"),
    _addr_factors("self"),
    rank(1, 1, "vec1", "vec2"),
    max_rank(2, "self"),
    _broadcasts_to_outer,
    unless_empty("vec1 vec2", output_shape(out=_outer)),
    output_dtype(out=promoted("self", "vec1", "vec2")),
)
rule(
    "aclnnInplaceAddr",
    dtypes(_ADDED, "selfRef", "vec1", "vec2", "betaOptional", "alphaOptional"),
    _addr_factors("selfRef"),
    rank(1, 1, "vec1", "vec2"),
    rank(2, 2, "selfRef"),
    output_shape(selfRef=_outer),
)


def _three_along_axis(call: Call) -> None:
    sizes, axis = broadcast_shape("self", "other")(call), call["dim"]
    if axis >= 0:
        axis += max(0, len(call.shape("other")) - len(call.shape("self")))
    if math.prod(sizes):
        text = f"is {call['dim']}; that axis has {sizes[axis]} elements instead of 3"
        call.require(sizes[axis] == 3, "dim", text)


rule(
    "aclnnLinalgCross",
    dtypes(plus_bf16("FLOAT FLOAT16 DOUBLE INT8 INT16 INT32 INT64 COMPLEX64 COMPLEX128 UINT8"), "self"),
    same_dtype("self", "other", "out"),
    max_rank(8, "self", "other", "out"),
    output_shape(out=broadcast_shape("self", "other")),
    lambda call: call.require(bool(call.shape("self")), "self", "has no axes; it needs one of 3 elements"),
    valid_axis("dim", "self"),
    _three_along_axis,
)

# ------------------------------------------------------------------------------------------------- matrices


def trace_type(call: Call) -> DataType:
    return DataType.INT64 if _integral("self", call) else call.dtype("self")


rule(
    "aclnnTrace",
    rank(2, 2, "self"),
    output_shape(out=lambda call: ()),
    dtypes(plus_bf16("FLOAT FLOAT16 DOUBLE COMPLEX64 COMPLEX128 INT32 INT64 INT16 INT8 UINT8 BOOL"), "self"),
    has_dtype("out", trace_type),
    output_dtype(out=trace_type),
)


def _square(name: str) -> Check:
    def check(call: Call) -> None:
        sizes = call.shape(name)
        call.require(sizes[-1] == sizes[-2], name, f"has shape {sizes}; its last two axes must be equal")

    return check


def _batch(name: str) -> ShapeRule:
    """The shape without its last two axes."""
    return lambda call: call.shape(name)[:-2]


def _with_last(name: str, *last: str) -> Callable[[Call], Shape]:
    """A batch shape followed by matrix sizes: "m", "n", "k" = min(m, n)."""

    def shape_(call: Call) -> Shape:
        m, n = call.size(name, -2), call.size(name, -1)
        sizes = {"m": m, "n": n, "k": min(m, n)}
        return (*call.shape(name)[:-2], *(sizes[item] for item in last))

    return shape_


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
    _square("self"),
    output_shape(out=_batch("self")),
    output_dtype(out=dtype_of("self")),
)
rule(
    "aclnnSlogdet",
    dtypes(_SOLVED, "self", "signOut", "logOut"),
    _complex_stays("signOut", "logOut"),
    rank(2, 99, "self"),
    _square("self"),
    output_shape(signOut=_batch("self"), logOut=_batch("self")),
    output_dtype(signOut=dtype_of("self"), logOut=dtype_of("self")),
)


def _at_most_8192(call: Call) -> None:
    n = call.shape("self")[-1]
    call.require(n <= 8192, "self", f"has matrices of {n} rows; at most 8192 are supported")


rule(
    "aclnnLinalgCholesky",
    same_dtype("self", "out"),
    dtypes({"A2 A3 950": "FLOAT BF16 FLOAT16", "": ""}, "self"),
    same_format("self", "out"),
    no_private_format("self"),
    rank(2, 8, "self"),
    output_shape(out=shape_of("self")),
    unless_empty("self", _square("self"), _at_most_8192),
)

_QR_MODES = {0: ("k", "k"), 1: ("m", "m")}  # reduced, complete: columns of Q and rows of R; 2 is R alone


def _q_shape(call: Call) -> Shape:
    if call["mode"] == 2:
        return (0,)
    return _with_last("self", "m", _QR_MODES.get(call["mode"], _QR_MODES[0])[0])(call)


def _r_shape(call: Call) -> Shape:
    return _with_last("self", _QR_MODES.get(call["mode"], _QR_MODES[0])[1], "n")(call)


_DECOMPOSED = "FLOAT FLOAT16 DOUBLE COMPLEX64 COMPLEX128"
rule(
    "aclnnLinalgQr",
    dtypes(_DECOMPOSED, "self", "Q", "R"),
    rank(2, 8, "self"),
    output_shape(Q=_q_shape, R=_r_shape),
    output_dtype(Q=dtype_of("self"), R=dtype_of("self")),
    null_status=INNER_NULLPTR,
)
rule(
    "aclnnQr",
    dtypes(_DECOMPOSED, "self", "Q", "R"),
    rank(2, 8, "self"),
    output_shape(
        Q=lambda call: _with_last("self", "m", "k" if call["some"] else "m")(call),
        R=lambda call: _with_last("self", "k" if call["some"] else "m", "n")(call),
    ),
    output_dtype(Q=dtype_of("self"), R=dtype_of("self")),
    null_status=INNER_NULLPTR,
)


def _svd_vectors(rows: str) -> ShapeRule:
    return lambda call: _with_last("input", rows, rows if call["fullMatrices"] else "k")(call)


rule(
    "aclnnSvd",
    dtypes(_SOLVED, "input", "sigma", "u", "v"),
    same_dtype("input", "sigma", "u", "v"),
    rank(2, 8, "input"),
    output_shape(sigma=_with_last("input", "k")),
    when(lambda call: bool(call["computeUV"]), output_shape(u=_svd_vectors("m"), v=_svd_vectors("n"))),
    infer_shape(u=_svd_vectors("m"), v=_svd_vectors("n")),
    output_dtype(sigma=dtype_of("input"), u=dtype_of("input"), v=dtype_of("input")),
)


def _solved_rows(call: Call) -> None:
    rows, n = call.shape("self")[-2], call.shape("A")[-1]
    call.require(rows == n, "self", f"has shape {call.shape('self')}; A has {n} rows")


def _solved_matrices(call: Call) -> Shape:
    """A's shape, with the batches of both."""
    right = call.shape("self")
    both = broadcast_shapes(call.shape("A"), (*right[:-1], call.size("self", -2)))
    if both is None:
        call.refuse("A", f"has shape {call.shape('A')}, whose batches do not broadcast with those of {right}")
    return both


def _solution(call: Call) -> Shape:
    return _solved_matrices(call)[:-1] + call.shape("self")[-1:]


def _unitriangular_float(call: Call) -> None:
    text = f"has dtype {call.dtype('A').name}; a unitriangular one must be FLOAT"
    call.require(not call["unitriangular"] or call.dtype("A") is DataType.FLOAT, "A", text)


rule(
    "aclnnTriangularSolve",
    dtypes(_SOLVED, "self", "A", "xOut"),
    same_dtype("self", "A", "xOut", "mOut"),
    rank(2, 8, "self", "A", "xOut"),
    _square("A"),
    _solved_rows,
    output_shape(xOut=_solution, mOut=_solved_matrices),
    unless_empty("A self", _unitriangular_float),
    output_dtype(xOut=dtype_of("self"), mOut=dtype_of("self")),
    null_status=INNER_NULLPTR,
)

# ------------------------------------------------------------------------------------------------- distances


def _distance_order(call: Call) -> None:
    p = call["p"]
    call.require(p >= 0, "p", f"is {p}; it must not be negative or NaN")
    text = f"is {call['compute_mode']}; for p = 2 it must be 2"
    call.require(abs(p - 2.0) >= 1e-6 or call["compute_mode"] == 2, "compute_mode", text)


def _same_columns(call: Call) -> None:
    left, right = call.shape("x1"), call.shape("x2")
    call.require(left[-1] == right[-1], "x2", f"has shape {right}; its last axis must be {left[-1]}, as x1's")


def _cdist_shape(call: Call) -> Shape:
    left, right = call.shape("x1"), call.shape("x2")
    batches = broadcast_shapes(left[:-2], right[:-2])
    if batches is None:
        call.refuse("x2", f"has shape {right}, whose batches do not broadcast with those of {left}")
    return (*batches, call.size("x1", -2), call.size("x2", -2))


def _has_rows(call: Call) -> bool:
    """CANN makes nothing when x1 or x2 is empty before its last axis."""
    return all(math.prod(call.shape(name)[:-1]) > 0 for name in ("x1", "x2"))


rule(
    "aclnnCdist",
    dtypes({"A2 A3 950": "FLOAT FLOAT16 BF16", "": ""}, "x1", "x2", "out"),
    same_dtype("out", "x1", "x2"),
    rank(2, 8, "x1", "x2", "out"),
    _same_columns,
    _distance_order,
    when(_has_rows, output_shape(out=_cdist_shape)),
    infer_shape(out=_cdist_shape),
)


def _one_rank(*names: str) -> Check:
    def check(call: Call) -> None:
        ndim = len(call.shape(names[0]))
        for name in names[1:]:
            sizes = call.shape(name)
            text = f"has shape {sizes}; it must have rank {ndim}, as {call.python_name(names[0])}"
            call.require(len(sizes) == ndim, name, text)

    return check


def _backward_distance(call: Call) -> None:
    p = call["p"]
    call.require(p >= 0 or p == -1, "p", f"is {p}; it must be -1 (infinity) or not negative")


def _last_axes_broadcast(call: Call) -> None:
    left, right = call.shape("x1")[-1], call.shape("x2")[-1]
    call.require(left == right or 1 in (left, right), "x2", f"has {right} columns; x1 has {left}")


rule(
    "aclnnCdistBackward",
    dtypes("FLOAT FLOAT16 BF16", "grad", "x1", "x2", "cdist", "out"),
    same_dtype("grad", "x1", "x2", "cdist", "out"),
    rank(2, 7, "grad"),
    _one_rank("grad", "x1", "x2", "cdist", "out"),
    _last_axes_broadcast,
    output_shape(cdist=_cdist_shape, grad=_cdist_shape, out=shape_of("x1")),
    _backward_distance,
    output_dtype(out=dtype_of("x1")),
)


def _pairs(call: Call) -> int:
    n = call.size("self", 0)
    return n * (n - 1) // 2


_PDIST = (
    dtypes("FLOAT FLOAT16", "self", "out"),
    same_dtype("self", "out"),
    rank(2, 2, "self"),
    rank(1, 1, "out"),
    output_shape(out=shape_from(_pairs)),
)


def _pdist_order(call: Call) -> None:
    p = call["p"]
    call.require(p >= 0, "p", f"is {p}; it must not be negative or NaN")


def _pdist_forward_order(call: Call) -> None:
    p = float(call["pScalar"].value)
    call.require(not p < 0, "pScalar", f"is {p}; it must not be negative")


rule("aclnnPdist", *_PDIST, _pdist_order)
rule("aclnnPdistForward", *_PDIST, _pdist_forward_order, null_status=INNER_NULLPTR)

# ------------------------------------------------------------------------------------------------- frequencies

_LONGEST_FFT = 262144


def _fft_length(call: Call) -> None:
    n = call["n"]
    call.require(n == -1 or 0 < n <= _LONGEST_FFT, "n", f"is {n}; it must be -1 or in [1, {_LONGEST_FFT}]")


def _rfft_shape(call: Call) -> Shape:
    """Complex numbers are pairs of floats along a new last axis."""
    _fft_length(call)
    sizes = list(call.shape("self"))
    length = call.size("self", call["dim"])
    sizes[call["dim"]] = (length if call["n"] == -1 else call["n"]) // 2 + 1
    return (*sizes, 2)


rule(
    "aclRfft1D",
    only_products("A2 A3 950"),
    dtypes("FLOAT", "self"),
    rank(1, 7, "self"),
    _fft_length,
    one_of("norm", 1, 2, 3),
    valid_axis("dim", "self"),
    unless_empty("self", output_shape(out=_rfft_shape)),
    output_dtype(out="FLOAT"),
)


def _stft_lengths(call: Call) -> None:
    length, n, window = call.shape("self")[-1], call["nFft"], call["winLength"]
    call.require(0 < n <= length, "nFft", f"is {n}; it must be in [1, {length}], the length of self")
    call.require(call["hopLength"] > 0, "hopLength", f"is {call['hopLength']}; it must be positive")
    call.require(0 < window <= n, "winLength", f"is {window}; it must be in [1, {n}] (n_fft)")


def _stft_window(call: Call) -> None:
    if call.is_present("windowOptional"):
        sizes = call.shape("windowOptional")
        call.require(len(sizes) == 1, "windowOptional", f"has shape {sizes}; its rank must be 1")
        text = f"has shape {sizes}; it must be ({call['winLength']},)"
        call.require(sizes[0] == call["winLength"], "windowOptional", text)
    complex_in = any(is_complex(t.dtype) for name in ("self", "windowOptional") for t in call.tensors(name))
    call.require(not (complex_in and call["onesided"]), "onesided", "is True; it must be False for complex inputs")


def _stft_shape(call: Call) -> Shape:
    batch, length = call.shape("self")[:-1], call.size("self", -1)
    _stft_lengths(call)
    n = call["nFft"]
    frames = (length - n) // call["hopLength"] + 1
    rows = n // 2 + 1 if call["onesided"] else n
    return (*batch, rows, frames) if call["returnComplex"] else (*batch, rows, frames, 2)


def _stft_type(call: Call) -> DataType:
    double = call.dtype("self") in (DataType.DOUBLE, DataType.COMPLEX128)
    if call["returnComplex"]:
        return DataType.COMPLEX128 if double else DataType.COMPLEX64
    return DataType.DOUBLE if double else DataType.FLOAT


rule(
    "aclStft",
    only_products("A2 A3 950"),
    dtypes("FLOAT DOUBLE COMPLEX64 COMPLEX128", "self", "windowOptional"),
    same_dtype("self", "windowOptional"),
    dtypes("FLOAT DOUBLE COMPLEX64 COMPLEX128", "out"),
    formats("ND", "self"),
    rank(1, 2, "self"),
    rank(2, 4, "out"),
    _stft_lengths,
    _stft_window,
    output_shape(out=_stft_shape),
    output_dtype(out=_stft_type),
)
