"""Products with a collective before or after them: gather, scatter, all to all."""

from __future__ import annotations

from typing import Any, Optional

import ml_dtypes
import numpy as np

from ascend_aclnn.collectives.groups import Ranks
from ascend_aclnn.core.dtypes import DataType
from ascend_aclnn.numerics import Array, is_integer, matmul, rounded_to, widen
from ascend_aclnn.reference._gates import activated
from ascend_aclnn.reference._quantise import INT4, by_row, largest, store
from ascend_aclnn.reference.declare import DataError
from ascend_aclnn.reference.matmul.quant import integers
from ascend_aclnn.reference.mc2._local import E8M0, columns_of, plain_product, product
from ascend_aclnn.reference.mc2.common import Arguments, communicating, shares

_INT8: np.dtype[Any] = np.dtype(np.int8)
_FLOAT8_E4M3FN: np.dtype[Any] = np.dtype(ml_dtypes.float8_e4m3fn)
_FLOAT8_E5M2: np.dtype[Any] = np.dtype(ml_dtypes.float8_e5m2)
_ACTIVATIONS = ("", "gelu_erf", "silu", "relu", "fast_gelu")  # actType


# --------------------------------------------------------------------------------------------------- gather, scatter


@communicating("aclnnAllGatherMatmul", "aclnnAllGatherMatmulV2")
def all_gather_matmul(args: Arguments) -> None:
    """The rows of all ranks times this rank's x2. Scales of rows and blocks are gathered too, one scale is this rank's."""
    ranks, x1, scale1 = args.ranks(), args["x1"], args["x1Scale"]
    rows = ranks.all_gather(x1)
    of_matrix = scale1 is None or (scale1.size == 1 and not is_integer(x1.dtype))
    scales: Any = [scale1] * ranks.size if of_matrix else ranks.all_gather(scale1)
    x2 = columns_of(args["x2"], x1.shape[1])
    parts = [
        product(part, x2, args["bias"], scale, args["x2Scale"], args["groupSize"] or 0, scaled_bias=True)
        for part, scale in zip(rows, scales)
    ]
    args.store("output", np.concatenate(parts))
    args.store("gather", rows.reshape(-1, x1.shape[1]))


@communicating("aclnnAllGatherAdd")
def all_gather_add(args: Arguments) -> None:
    """The rows of all ranks, and this rank's b added to them."""
    ranks = args.ranks(size="rankSize")
    rows = ranks.all_gather(args["a"]).reshape(args["b"].shape)
    args.store("c", rounded_to(widen(rows) + widen(args["b"]), args["b"].dtype))
    args.store("gatherOut", rows)


@communicating("aclnnMatmulReduceScatter", "aclnnMatmulReduceScatterV2")
def matmul_reduce_scatter(args: Arguments) -> None:
    """This rank's share of the rows of the sum of all ranks' products."""
    ranks, x1, target = args.ranks(), args["x1"], args.out["output"]
    x2 = columns_of(args["x2"], x1.shape[1])
    y = product(x1, x2, args["bias"], args["x1Scale"], args["x2Scale"], args["groupSize"] or 0)
    shares(ranks, y, "x1")
    args.store("output", ranks.reduce_scatter(rounded_to(y, target.dtype)))


# --------------------------------------------------------------------------------------------------- all to all


def _rows_for_columns(ranks: Ranks, x: Array, name: str) -> Array:
    """This rank's share of all ranks' rows, the ranks' columns side by side: (rows / ranks, ranks * columns, ...)."""
    return np.concatenate(ranks.all_to_all(shares(ranks, x, name)), axis=1)


def _after_exchange(args: Arguments, exchanged: Array) -> Array:
    """x2 as (k, n). The length of k depends on the number of ranks."""
    x2 = columns_of(args["x2"], exchanged.shape[1], args["transposeX2"])
    if len(x2) != exchanged.shape[1]:
        raise DataError("x2", f"has {len(x2)} rows; x1 has {exchanged.shape[1]} columns after the exchange")
    return x2


@communicating("aclnnAlltoAllMatmul", "aclnnAlltoAllMatmulV2")
def all_to_all_matmul(args: Arguments) -> None:
    """Rows are exchanged for columns, then multiplied."""
    exchanged = _rows_for_columns(args.ranks(), args["x1"], "x1")
    args.store("output", plain_product(exchanged, _after_exchange(args, exchanged), args["bias"]))
    args.store("alltoAll", exchanged)


def _scaled_bias(x2: Array) -> bool:
    """Products of integers (Atlas A2) add the bias behind the scaling, those of small floats (Ascend 950) before it."""
    return not is_integer(x2.dtype)


@communicating("aclnnAlltoAllQuantMatmul", "aclnnAlltoAllQuantMatmulV2")
def all_to_all_quant_matmul(args: Arguments) -> None:
    """As aclnnAlltoAllMatmul on quantised operands; x1QuantMode 7 quantises the rows after the exchange.

    A smoothing scale (x1Scale in mode 7) is multiplied into the rows before, which its document does not say in so many
    words. In mode 3 x1Scale has this rank's share of the rows already, or is exchanged where it has all of them.
    """
    ranks, x1, scale = args.ranks(), integers(args["x1"]), args["x1Scale"]
    exchanged = _rows_for_columns(ranks, x1, "x1")
    x2 = integers(_after_exchange(args, exchanged))
    rows: Array = exchanged
    if args["x1QuantMode"] == 7:
        wide = widen(exchanged) if scale is None else widen(exchanged) * widen(scale)
        rows, scale = _dynamic(wide, _dynamic_dtype(args, x2))
    elif scale is not None and scale.dtype == E8M0:
        scale = _rows_for_columns(ranks, scale, "x1Scale")
    elif scale is not None and scale.size == len(x1) != len(exchanged):
        scale = scale.reshape(-1)[ranks.rank * len(exchanged) :][: len(exchanged)]
    y = product(rows, x2, args["bias"], scale, args["x2Scale"], scaled_bias=_scaled_bias(x2))
    args.store("output", y)
    if args.wants("alltoAll"):
        store(args.out["alltoAll"], widen(exchanged))


def _dynamic_dtype(args: Arguments, x2: Array) -> np.dtype[Any]:
    if is_integer(x2.dtype):
        return INT4 if args["x1QuantDtype"] == DataType.INT4 or x2.dtype == INT4 else _INT8
    return _FLOAT8_E5M2 if args["x1QuantDtype"] == DataType.FLOAT8_E5M2 else _FLOAT8_E4M3FN


def _dynamic(wide: Array, dtype: np.dtype[Any]) -> tuple[Array, Array]:
    """Rows in a small data type, and the scale of each row."""
    quotients, scales = by_row(wide, largest(dtype))
    codes = np.empty(wide.shape, dtype)
    store(codes, quotients)
    return codes, scales


def _columns_for_rows(args: Arguments, y: Array) -> None:
    """Each rank gets its share of the columns of all ranks' rows."""
    ranks, dtype = args.ranks(), args.out["output"].dtype
    args.store("output", np.concatenate(ranks.all_to_all(shares(ranks, rounded_to(y, dtype), "x2", axis=1))))


@communicating("aclnnMatmulAlltoAll", "aclnnMatmulAlltoAllV2")
def matmul_all_to_all(args: Arguments) -> None:
    """The product, whose columns are exchanged for rows."""
    x1 = args["x1"]
    _columns_for_rows(args, plain_product(x1, columns_of(args["x2"], x1.shape[1], args["transposeX2"]), args["bias"]))


@communicating("aclnnQuantMatmulAlltoAll", "aclnnQuantMatmulAlltoAllV2")
def quant_matmul_all_to_all(args: Arguments) -> None:
    """As aclnnMatmulAlltoAll on quantised operands."""
    x1 = integers(args["x1"])
    x2 = integers(columns_of(args["x2"], x1.shape[1], args["transposeX2"]))
    scales = args["x1Scale"], args["x2Scale"]
    _columns_for_rows(args, product(x1, x2, args["bias"], *scales, scaled_bias=_scaled_bias(x2)))


# --------------------------------------------------------------------------------------------------- batches of experts


def _batch_bias(bias: Optional[Array]) -> Any:
    """(experts, columns) or (experts, 1, columns), for (experts, rows, columns)."""
    return 0 if bias is None else widen(bias).reshape(bias.shape[0], 1, -1)


@communicating("aclnnAlltoAllAllGatherBatchMatMul")
def all_to_all_all_gather_batch_matmul(args: Arguments) -> None:
    """Rows go to the ranks of their experts, are gathered within tensor parallelism, and multiplied.

    Where rows are gathered (xShardType 1), those of an expert lie by the rank that sent them, then by the rank of the
    tensor group: inferred from the shapes of the document, in which C is tp parts of C / tp.
    """
    ep, tp = args.ranks("groupEp", "epWorldSize"), args.ranks("groupTp", "tpWorldSize")
    received = np.stack(ep.all_to_all(shares(ep, args["x"], "x")), axis=1)  # experts, ep, rows, columns
    gathered = tp.all_gather(received)
    if args["xShardType"] == 0:
        y2 = np.concatenate(list(gathered), axis=-1)
    else:
        y2 = np.moveaxis(gathered, 0, 2)
    y2 = y2.reshape(len(received), -1, y2.shape[-1])
    y3 = matmul(widen(y2), widen(args["weight"])) + _batch_bias(args["bias"])
    args.store("y1", activated(y3, _ACTIVATIONS[args["actType"]]))
    args.store("y2", y2)
    args.store("y3", y3)


@communicating("aclnnBatchMatMulReduceScatterAlltoAll")
def batch_matmul_reduce_scatter_all_to_all(args: Arguments) -> None:
    """The way back of aclnnAlltoAllAllGatherBatchMatMul: products, summed over the tensor group, plus bias, to their ranks."""
    ep, tp = args.ranks("groupEp", "epWorldSize"), args.ranks("groupTp", "tpWorldSize")
    dtype = args.out["out"].dtype
    y = rounded_to(matmul(widen(args["x"]), widen(args["weight"])), dtype)
    experts = len(y)
    y = y.reshape(experts, ep.size, -1, y.shape[-1])
    parts = np.stack(shares(tp, y, "x", axis=-1 if args["yShardType"] == 0 else 2))
    reduced = tp.reduce_scatter(parts)[0].reshape(experts, -1, parts.shape[-1])
    biased = rounded_to(widen(reduced) + _batch_bias(args["bias"]), dtype).reshape(
        experts, ep.size, -1, reduced.shape[-1]
    )
    args.store("out", np.concatenate(ep.all_to_all([biased[:, rank] for rank in range(ep.size)])))
