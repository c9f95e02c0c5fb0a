"""Rules of ops-nn/norm."""

from __future__ import annotations

import math

from ascend_aclnn.rules.language import Call, Check, columns, dtype_of, only_on, rank, result, rule, same, same_shape, shape, tiling

# (x, gamma): A2 also mixes a 16-bit x with an fp32 gamma.
_RMS_A2 = ("FLOAT16 FLOAT16", "FLOAT16 FLOAT", "BF16 BF16", "BF16 FLOAT", "FLOAT FLOAT")
_RMS_OLD = ("FLOAT16 FLOAT16", "FLOAT FLOAT")


def _rms_columns(names: str, *, grad: bool) -> tuple[Check, ...]:
    """dtype rows for RmsNorm (x gamma y rstd) and RmsNormGrad (dy x rstd gamma dx dgamma)."""

    def rows(pairs: tuple[str, ...]) -> list[str]:
        cells = (pair.split() for pair in pairs)
        return [f"{x} {x} FLOAT {g} {x} FLOAT" if grad else f"{x} {g} {x} FLOAT" for x, g in cells]

    return (
        columns(names, *rows(_RMS_A2), products="A2 A3 950"),
        columns(names, *rows(_RMS_OLD), products="310P 910"),
    )


def _split(call: Call) -> int:
    """Leading axes of x that are not normalised; gamma must be the trailing ones."""
    x, gamma = call.shape("x"), call.shape("gamma")
    n = len(x) - len(gamma)
    fits = n >= 0 and x[n:] == gamma
    call.require(fits, "gamma", f"has shape {gamma}; it must be the trailing axes of x, {x}")
    return n


def _grad_shapes(call: Call) -> None:
    x, rstd = call.shape("x"), call.shape("rstd")
    n = _split(call)
    rows = math.prod(x[:n])
    text = f"has shape {rstd}; it must be the leading axes of x, {x[:n]}"
    call.require(all(a == b for a, b in zip(rstd, x[:n])), "rstd", text)
    call.require(all(a == 1 for a in x[len(rstd) : n]) and math.prod(rstd) == rows, "rstd", text)
    call.require(x[-1] > 0 and rows > 0, "x", f"has shape {x}; empty tensors are not supported")
    text = f"normalises {math.prod(x[n:])} elements a row; on {call.soc.name} it must be a multiple of 64"
    call.require(call.product != "910" or math.prod(x[n:]) % 64 == 0, "gamma", text)


rule(
    "aclnnRmsNormGrad",
    only_on("A2 A3 310P 910 950"),
    *_rms_columns("dy x rstd gamma dxOut dgammaOut", grad=True),
    tiling(
        rank(1, 8, "dy", "x", "rstd", "gamma", "dxOut", "dgammaOut"),
        same_shape("x", "dy"),
        shape(dxOut=same("x"), dgammaOut=same("gamma")),
        _grad_shapes,
    ),
    result(dxOut=dtype_of("x"), dgammaOut="FLOAT"),
)


def _rstd_shape(call: Call) -> tuple[int, ...]:
    n = _split(call)
    return call.shape("x")[:n] + (1,) * len(call.shape("gamma"))


rule(
    "aclnnRmsNorm",
    only_on("A2 A3 310P 910 950"),
    *_rms_columns("x gamma yOut rstdOut", grad=False),
    tiling(
        rank(1, 8, "x", "gamma", "yOut", "rstdOut"),
        shape(yOut=same("x"), rstdOut=_rstd_shape),
    ),
    result(yOut=dtype_of("x"), rstdOut="FLOAT"),
)
