"""Products, and quantised values, that are summed over the ranks."""

from __future__ import annotations

from typing import Any, Optional

import numpy as np

from ascend_aclnn.core.dtypes import Format
from ascend_aclnn.numerics import Array, rounded_to, widen
from ascend_aclnn.reference import _mx as mx
from ascend_aclnn.reference.gmm._groups import ENDS
from ascend_aclnn.reference.gmm.grouped import grouped_matmul
from ascend_aclnn.reference.matmul.quant import fixed_scale
from ascend_aclnn.reference.matmul.weights import weight_quant_batch_matmul
from ascend_aclnn.reference.mc2._local import E8M0, columns_of, product
from ascend_aclnn.reference.mc2.common import Arguments, communicating, shares
from ascend_aclnn.reference.norm.rms_fused import add_norm


def _unsupported(call: Any) -> Optional[str]:
    if len(call.shape("x2")) > 2 and call["x2"].format is Format.FRACTAL_NZ:
        return "the NumPy backend takes x2 in FRACTAL_NZ by the shape of its matrix only"
    if call.get("commQuantMode"):
        return "the NumPy backend has no communication of FLOAT8 tiles (comm_quant_mode 1)"
    return None


# --------------------------------------------------------------------------------------------------- products


def _local_product(args: Arguments) -> Array:
    """This rank's x1 @ x2 + bias with what the version scales by, (rows, n)."""
    x1 = args["x1"].reshape(-1, args["x1"].shape[-1])
    x2 = columns_of(args["x2"], x1.shape[1])
    if args["antiquantScale"] is not None:
        y = np.empty((len(x1), x2.shape[1]), np.float32)
        scale, offset, size = args["antiquantScale"], args["antiquantOffset"], args["antiquantGroupSize"]
        weight_quant_batch_matmul(x1, x2, scale, offset, None, None, args["bias"], size, out=(y,))
        return y
    scale = args["x2Scale"] if args["dequantScale"] is None else args["dequantScale"]
    rows = args["x1Scale"] if args["pertokenScale"] is None else args["pertokenScale"]
    if rows is not None and rows.ndim > 2 and rows.dtype != E8M0:  # blocks of x1 (b, s, k)
        rows = rows.reshape(-1, rows.shape[-1])
    return product(x1, x2, args["bias"], rows, scale, args["groupSize"] or 0, scaled_bias=True)


@communicating(
    "aclnnMatmulAllReduce",
    "aclnnMatmulAllReduceV2",
    "aclnnMatmulAllReduceV3",
    "aclnnQuantMatmulAllReduce",
    "aclnnQuantMatmulAllReduceV2",
    "aclnnQuantMatmulAllReduceV3",
    "aclnnQuantMatmulAllReduceV4",
    "aclnnQuantMatmulAllReduceV5",
    "aclnnWeightQuantMatmulAllReduce",
    "aclnnWeightQuantMatmulAllReduceV2",
    unsupported=_unsupported,
)
def matmul_all_reduce(args: Arguments) -> None:
    """The sum over all ranks of x1 @ x2 + bias + x3: each rank adds its own bias and x3.

    With commQuantScales ranks send eight bits: the sums by commQuantScale1, and what comes of them by commQuantScale2.
    """
    ranks, target = args.ranks(), args.out["output"]
    y = _local_product(args)
    y = y if args["x3"] is None else y + widen(args["x3"]).reshape(y.shape)
    scale1, scale2 = args["commQuantScale1"], args["commQuantScale2"]
    if scale1 is None or scale2 is None:
        args.store("output", ranks.all_reduce(rounded_to(y, target.dtype)))
        return
    first, second = widen(scale1).reshape(-1), widen(scale2).reshape(-1)
    sums = ranks.all_gather(_eight_bits(y / first)).astype(np.float32).sum(axis=0)
    args.store("output", _eight_bits(sums * (first / second)) * second)


def _eight_bits(x: Array) -> Array:
    return np.clip(np.rint(x), -128, 127).astype(np.int8)


@communicating(
    "aclnnMatmulAllReduceAddRmsNorm",
    "aclnnInplaceMatmulAllReduceAddRmsNorm",
    "aclnnQuantMatmulAllReduceAddRmsNorm",
    "aclnnInplaceQuantMatmulAllReduceAddRmsNorm",
    "aclnnWeightQuantMatmulAllReduceAddRmsNorm",
    "aclnnInplaceWeightQuantMatmulAllReduceAddRmsNorm",
    unsupported=_unsupported,
)
def matmul_all_reduce_add_rms_norm(args: Arguments) -> None:
    """The sum over all ranks plus the residual, and its norm; in place the sum becomes the residual."""
    residual = args["residual"]
    total = args.ranks().all_reduce(rounded_to(_local_product(args), residual.dtype))
    norm, _, y = add_norm(total.reshape(residual.shape), residual, args["gamma"], args["epsilon"])
    args.store("residual" if "residual" in args.out else "y", y)
    args.store("norm", norm)


@communicating("aclnnGroupedMatMulAllReduce")
def grouped_matmul_all_reduce(args: Arguments) -> None:
    """The sums over all ranks of the products of groups."""
    ranks, targets = args.ranks(), args.out["y"]
    parts = [np.empty(target.shape, target.dtype) for target in targets]
    xs, groups = args["x"], args["groupList"]
    kind = 0 if groups else -1
    grouped_matmul(xs, args["weight"], {"bias": args["bias"]}, None, groups or (), kind, ENDS, "", parts)
    for part, target in zip(parts, targets):
        np.copyto(target, ranks.all_reduce(part))


# --------------------------------------------------------------------------------------------------- quantised values


def _values(x: Array, scales: Array) -> Array:
    """Values by their scales: of 128 columns each, or shared exponents of 32."""
    if scales.dtype == E8M0:
        return mx.restored(x, scales, -1)
    return np.asarray(widen(x) * np.repeat(fixed_scale(scales), x.shape[-1] // scales.shape[-1], axis=-1))


def _sum(xs: Any, scales: Any) -> Array:
    """In rank order, in float32."""
    total = _values(xs[0], scales[0])
    for x, scale in zip(xs[1:], scales[1:]):
        total = total + _values(x, scale)
    return total


@communicating("aclnnQuantAllReduce")
def quant_all_reduce(args: Arguments) -> None:
    """The sum over all ranks of x * scales, which are sent as they are."""
    ranks = args.ranks()
    args.store("output", _sum(ranks.all_gather(args["x"]), ranks.all_gather(args["scales"])))


@communicating("aclnnQuantReduceScatter")
def quant_reduce_scatter(args: Arguments) -> None:
    """This rank's share of the rows of that sum; the rows of a tensor of three axes are those of its first two."""
    ranks, x, scales = args.ranks(), args["x"], args["scales"]
    rows = x.reshape(-1, x.shape[-1])
    of_rows = scales.reshape(len(rows), *scales.shape[x.ndim - 1 :])
    args.store(
        "output", _sum(ranks.all_to_all(shares(ranks, rows, "x")), ranks.all_to_all(shares(ranks, of_rows, "scales")))
    )
