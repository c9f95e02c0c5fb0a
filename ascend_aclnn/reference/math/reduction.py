"""References of ops-math/math: operators that reduce axes to one value, and pooling over whole planes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Callable, Optional

import numpy as np

from ascend_aclnn.core.dtypes import DataType
from ascend_aclnn.numerics import BLOCK, Array, along, column_sums, is_low_precision, round_into, sum_type, widen
from ascend_aclnn.reference._arrays import cast, converted, count, reduced_axes, total
from ascend_aclnn.reference._pointwise import floats, is_whole
from ascend_aclnn.reference.declare import reference
from ascend_aclnn.reference.loss._reduction import block_sums, store_loss

Axes = Optional[Sequence[int]]


def _dims(x: Array, dims: Any = None, *_: Any) -> tuple[int, ...]:
    """The axes that an operator reduces whose second argument they are, one or several."""
    return (dims,) if isinstance(dims, int) else reduced_axes(dims, x.ndim)


def _all_axes(x: Array, *_: Any) -> tuple[int, ...]:
    return tuple(range(x.ndim))


def _reduction(
    *names: str, empty: Any = None, axes: Any = _dims, typed_sum: bool = False
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers a reduction. Of an empty tensor CANN only fills the output, whatever its shape, or leaves it alone.

    ``typed_sum``: a sum or mean after a cast to the data type that is the last attribute.
    """

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        def whole(x: Array, *attributes: Any, out: tuple[Array, ...]) -> None:
            if x.size == 0:
                for dst in out if empty is not None else ():
                    dst[...] = converted(empty, dst.dtype)
                return
            if typed_sum and is_low_precision(x.dtype) and DataType(attributes[-1]).numpy == x.dtype:
                attributes = (*attributes[:-1], int(DataType.FLOAT))  # widened values are what the cast would leave
            few = typed_sum and x.dtype == np.float32 and x.size <= BLOCK
            if not few:
                to_float = typed_sum and attributes[-1] == DataType.FLOAT
                if to_float and _sum_columns(x, axes(x, *attributes), function is mean, out[0]):
                    return
                if along(function, axes, (x, *attributes), out):
                    return
            if typed_sum and attributes[-1] == DataType.FLOAT and _sum_all(x, function is mean, out[0]):
                return
            results = function(widen(x), *attributes)
            for dst, values in zip(out, results if isinstance(results, tuple) else (results,)):
                round_into(dst, np.asarray(values))

        reference(*names, raw=True)(whole)
        return function

    return register


def _sum_columns(x: Array, axes: tuple[int, ...], is_mean: bool, out: Array) -> bool:
    """The sums or means over the first axes, as values are stored; False, and nothing done, where that is not asked for."""
    first = {axis % x.ndim for axis in axes}
    if x.size <= BLOCK or len(first) == x.ndim or first != set(range(len(first))) or not x.flags.c_contiguous:
        return False
    rows = count(x, tuple(first))
    sums = column_sums(x.reshape(rows, -1))
    if sums is None:
        return False
    round_into(out, (sums / rows if is_mean else sums).reshape(out.shape))
    return True


def _row_totals(rows: Array) -> Any:
    return total(rows, (1,))


def _sum_all(x: Array, is_mean: bool, out: Array) -> bool:
    """The sum or mean of all elements, by rows, widened in blocks; False, and nothing done, where that is not asked for."""
    if out.size != 1 or x.ndim < 2 or not x.flags.c_contiguous or is_whole(widen(x.reshape(-1)[:1])):
        return False
    rows = x.reshape(-1, x.shape[-1])
    sums = np.empty(len(rows))
    if not along(_row_totals, lambda rows: (1,), [rows], [sums]):
        return False
    round_into(out, np.asarray(total(sums) / (x.size if is_mean else 1)).reshape(out.shape))
    return True


# ------------------------------------------------------------------------------------------------- logical


@reference("aclnnAll", along=_dims)
def all_(x: Array, dim: Axes, keepdim: bool) -> Any:
    return np.all(x, reduced_axes(dim, x.ndim), keepdims=keepdim)


@_reduction("aclnnAny", empty=False)
def any_(x: Array, dim: Axes, keepdim: bool) -> Any:
    return np.any(x, reduced_axes(dim, x.ndim), keepdims=keepdim)


@reference("aclnnEqual")
def equal(x: Array, other: Array) -> Any:
    """True for two tensors of the same shape and the same values; NaN equals nothing."""
    return np.array([x.shape == other.shape and bool(np.all(x == other))])


# ------------------------------------------------------------------------------------------------- extremes


def _extreme(function: Callable[..., Any], x: Array, dim: Axes = None, keepdim: bool = False) -> Any:
    """NaN wins over all numbers."""
    return function(x, reduced_axes(dim, x.ndim), keepdims=keepdim)


def _extreme_unless_noop(x: Array, dims: Axes, keepdims: bool, noop: bool) -> Any:
    return x if noop and not dims else _extreme(np.max, x, dims, keepdims)


def _both(x: Array, dim: Axes = None, keepdim: bool = False) -> Any:
    return _extreme(np.min, x, dim, keepdim), _extreme(np.max, x, dim, keepdim)


_reduction("aclnnMax")(lambda x: _extreme(np.max, x))
_reduction("aclnnMin")(lambda x: _extreme(np.min, x))
_reduction("aclnnAmax")(lambda x, dim, keepdim: _extreme(np.max, x, dim, keepdim))
_reduction("aclnnAmin")(lambda x, dim, keepdim: _extreme(np.min, x, dim, keepdim))
_reduction("aclnnMaxV2")(_extreme_unless_noop)
_reduction("aclnnAminmax", "aclnnAminmaxAll")(_both)
_reduction("aclnnAminmaxDim")(lambda x, dim, keepdim: _both(x, [dim], keepdim))


def _position(argument: Callable[..., Any], x: Array, dim: int, keepdim: bool) -> Any:
    """Where an extreme is along an axis: the first of several, the first NaN where there is one."""
    if x.ndim == 0:
        return np.zeros((), np.int64)
    # argmax is many times faster along the last axis
    index = argument(np.ascontiguousarray(np.moveaxis(x, dim, -1)), -1)
    return np.expand_dims(index, dim) if keepdim else index


def _with_position(argument: Callable[..., Any], x: Array, dim: int, keepdim: bool) -> Any:
    positions = _position(argument, x, dim, True)
    if x.ndim == 0:
        return x, positions
    values = np.take_along_axis(x, positions, dim)
    return (values, positions) if keepdim else (values.squeeze(dim), positions.squeeze(dim))


_reduction("aclnnArgMax")(lambda x, dim, keepdim: _position(np.argmax, x, dim, keepdim))
_reduction("aclnnArgMin")(lambda x, dim, keepdim: _position(np.argmin, x, dim, keepdim))
_reduction("aclnnMaxDim")(lambda x, dim, keepdim: _with_position(np.argmax, x, dim, keepdim))
_reduction("aclnnMinDim")(lambda x, dim, keepdim: _with_position(np.argmin, x, dim, keepdim))

# ------------------------------------------------------------------------------------------------- sums and products


@_reduction("aclnnReduceSum", empty=0, typed_sum=True)
def reduce_sum(x: Array, dims: Axes, keepdims: bool, dtype: int) -> Any:
    """The sum of the elements after a cast to the data type."""
    return total(cast(x, dtype), reduced_axes(dims, x.ndim), keepdims)


@_reduction("aclnnReduceNansum", empty=0)
def reduce_nansum(x: Array, dim: Axes, keepdim: bool, dtype: int) -> Any:
    """The sum with NaN counted as 0."""
    return reduce_sum(x if is_whole(x) else np.where(np.isnan(x), x.dtype.type(0), x), dim, keepdim, dtype)


@_reduction("aclnnReduceLogSum", empty=0)
def reduce_log_sum(x: Array, axes: Axes, keepdims: bool, noop: bool) -> Any:
    """The logarithm of a sum."""
    return x if noop and not axes else np.log(total(x, reduced_axes(axes, x.ndim), keepdims))


@reference("aclnnLogSumExp", along=_dims)
def log_sum_exp(x: Array, dim: Axes, keepdim: bool) -> Any:
    """log(sum(exp(x))), without overflow."""
    x, axes = floats(x), reduced_axes(dim, x.ndim)
    most = np.max(x, axes, keepdims=True, initial=-np.inf)
    base = np.where(np.isfinite(most), most, x.dtype.type(0))
    result = base + np.log(total(np.exp(x - base), axes, keepdims=True))
    return result if keepdim else np.squeeze(result, axes)


def _average(x: Array, axes: tuple[int, ...], keepdims: bool) -> Any:
    mean = np.true_divide(total(x, axes, keepdims), count(x, axes))
    return np.trunc(mean) if is_whole(x) else mean


@_reduction("aclnnMean", empty=np.nan, typed_sum=True)
def mean(x: Array, dim: Axes, keepdim: bool, dtype: int) -> Any:
    """The mean of the elements after a cast to the data type; integers are cut off."""
    return _average(cast(x, dtype), reduced_axes(dim, x.ndim), keepdim)


@_reduction("aclnnMeanV2", empty=np.nan)
def mean_unless_noop(x: Array, dim: Axes, keepdim: bool, noop: bool) -> Any:
    return x if noop and not dim else _average(x, reduced_axes(dim, x.ndim), keepdim)


def _product(x: Array, axes: tuple[int, ...], keepdims: bool) -> Any:
    """The kernel multiplies in float32: where that overflows, or underflows to 0, so does this, else it is rounded once."""
    product = np.prod(x, axes, sum_type(x.dtype), keepdims=keepdims)
    if x.dtype != np.float32:
        return product
    single = np.prod(x, axes, np.float32, keepdims=keepdims)
    return np.where(np.isfinite(single) & (single != 0), product, single)


@_reduction("aclnnProd", empty=1, axes=_all_axes)
def prod(x: Array, dtype: int) -> Any:
    """The product of the elements after a cast to the data type."""
    return _product(cast(x, dtype), reduced_axes(None, x.ndim), False)


@_reduction("aclnnProdDim", empty=1)
def prod_dim(x: Array, dim: int, keepdim: bool, dtype: int) -> Any:
    return _product(cast(x, dtype), reduced_axes([dim], x.ndim), keepdim)


# ------------------------------------------------------------------------------------------------- moments


def moments(x: Array, axes: tuple[int, ...], correction: int, keepdims: bool) -> tuple[Any, Any]:
    """Variance, with ``correction`` taken off the number of elements, and mean."""
    n = count(x, axes)
    mean_ = np.true_divide(total(x, axes, True), n)
    from_mean = np.asarray(x - mean_)
    spread = np.true_divide(total(np.square(from_mean, out=from_mean), axes, True), max(n - correction, 0))
    return (spread, mean_) if keepdims else (np.squeeze(spread, axes), np.squeeze(mean_, axes))


@reference("aclnnVar", "aclnnVarCorrection", along=_dims)
def variance(x: Array, dim: Axes, correction: int, keepdim: bool) -> Any:
    """Var's boolean "unbiased" is a correction of 1."""
    return moments(x, reduced_axes(dim, x.ndim), int(correction), keepdim)[0]


@reference("aclnnStd", along=_dims)
def deviation(x: Array, dim: Axes, correction: int, keepdim: bool) -> Any:
    return np.sqrt(variance(x, dim, correction, keepdim))


@reference("aclnnVarMean", along=_dims)
def variance_and_mean(x: Array, dim: Axes, correction: int, keepdim: bool) -> Any:
    return moments(x, reduced_axes(dim, x.ndim), correction, keepdim)


@reference("aclnnStdMeanCorrection", along=_dims)
def deviation_and_mean(x: Array, dim: Axes, correction: int, keepdim: bool) -> Any:
    spread, mean_ = moments(x, reduced_axes(dim, x.ndim), correction, keepdim)
    return np.sqrt(spread), mean_


@reference("aclnnBatchNormStats")
def batch_norm_stats(x: Array, eps: float) -> Any:
    """Mean and inverse deviation of each channel."""
    spread, mean_ = moments(x, (0, *range(2, x.ndim)), 0, False)
    return mean_, 1 / np.sqrt(spread + eps)


# ------------------------------------------------------------------------------------------------- whole planes


@reference("aclnnGlobalAveragePool")
def global_average_pool(x: Array) -> Any:
    return _average(x, tuple(range(2, x.ndim)), True)


@reference("aclnnGlobalMaxPool")
def global_max_pool(x: Array) -> Any:
    return _extreme(np.max, x, range(2, x.ndim), True) if x.size else None


# ------------------------------------------------------------------------------------------------- comparisons

_NONE, _MEAN, _SUM, _BATCH_MEAN = range(4)


def _kl_div(x: Array, target: Array) -> Any:
    """0 for a target of 0, as the kernel and torch have it; the document says NaN."""
    return target * (np.log(np.where(target == 0, target.dtype.type(1), target)) - x)


def _kl_div_of_logarithms(x: Array, target: Array) -> Any:
    return np.exp(target) * (target - x)


@reference("aclnnKlDiv", raw=True)
def kl_div(x: Array, target: Array, reduction: int, log_target: bool, *, out: tuple[Array]) -> None:
    """target * (log(target) - x)."""
    if not x.size or not target.size:  # they need not broadcast
        if reduction != _NONE:
            mean = reduction == _MEAN or (reduction == _BATCH_MEAN and not all(x.shape[:1]))
            out[0][...] = np.nan if mean else 0
        return
    function = _kl_div_of_logarithms if log_target else _kl_div
    if reduction != _BATCH_MEAN:
        store_loss(function, [x, target], reduction, out[0])
        return
    shape = np.broadcast_shapes(x.shape, target.shape)
    sums = block_sums(function, [x, target])
    whole = total(np.asarray(function(widen(x), widen(target)))) if sums is None else sums
    round_into(out[0], np.broadcast_to(np.true_divide(whole, shape[0] if shape else 1), out[0].shape))


@reference("aclnnPrecisionCompare")
def precision_compare(golden: Array, real: Array) -> Any:
    """0 for tensors with the same values."""
    return np.array(not np.array_equal(golden, real), np.uint32)
