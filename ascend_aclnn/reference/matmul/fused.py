"""Products with what stands before or after them (part of ops-nn/matmul)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional

import numpy as np

from ascend_aclnn.numerics import BFLOAT16, Array, matmul, round_into, rounded_to, widen
from ascend_aclnn.reference import _mx as mx
from ascend_aclnn.reference._gates import activated
from ascend_aclnn.reference._quantise import largest, offset_of, scale_of, store, target
from ascend_aclnn.reference._rows import check_range
from ascend_aclnn.reference.declare import DataError, reference
from ascend_aclnn.reference.matmul.quant import turned


@reference("aclnnFusedMatmul")
def fused_matmul(
    x1: Array, x2: Array, bias: Optional[Array], x3: Optional[Array], operation: str, cube_math_type: int
) -> Any:
    """An operation on x1 @ x2 + bias: with x3 ("add", "mul"), an activation, or none."""
    y = matmul(x1, x2)
    y = y if bias is None else y + bias
    if operation == "add":
        return y + x3
    return y * x3 if operation == "mul" else activated(y, operation)


@reference("aclnnBatchMatmulQuant", raw=True)
def batch_matmul_quant(
    x1: Array,
    x2: Array,
    parameters: Array,
    bias: Optional[Array],
    transpose_x1: bool,
    transpose_x2: bool,
    *,
    out: tuple[Array],
) -> None:
    """(x1 @ x2 + bias) * scale + offset, rounded to INT8; the parameters are filled up to a multiple of 16."""
    y = matmul(turned(widen(x1), transpose_x1), turned(widen(x2), transpose_x2))
    y = y if bias is None else y + widen(bias)
    columns = parameters if parameters.size == 1 else parameters[: y.shape[-1]]
    store(out[0], (y * scale_of(columns) + offset_of(columns)).reshape(out[0].shape))


@reference("aclnnTransposeBatchMatMul", "aclnnTransposeBatchMatMulWeightNz", raw=True)
def transpose_batch_matmul(
    x1: Array,
    x2: Array,
    bias: Optional[Array],
    scale: Optional[Array],
    perm_x1: Sequence[int],
    perm_x2: Sequence[int],
    perm_y: Sequence[int],
    cube_math_type: int,
    split: int,
    *,
    out: tuple[Array],
) -> None:
    """The product of transposed operands, transposed itself.

    With scales, or its batch split, the columns of the batch (or of each part of it) lie side by side.
    """
    y = matmul(widen(x1).transpose(tuple(perm_x1)), widen(x2).transpose(tuple(perm_x2)))
    y = y if bias is None else y + widen(bias)
    batch, rows, columns = y.shape
    if scale is not None:
        flat = y.transpose(1, 0, 2).reshape(rows, 1, batch * columns)
        store(out[0], flat * scale_of(scale) + offset_of(scale))
    elif split > 1:
        parts = y.reshape(split, batch // split, rows, columns).transpose(0, 2, 1, 3)
        round_into(out[0], parts.reshape(out[0].shape))
    else:
        round_into(out[0], y.transpose(tuple(perm_y)).reshape(out[0].shape))


@reference("aclnnMatmulEmuSplitWeight")
def matmul_emu_split_weight(x: Array, high: Array, low: Array, low_scale: float, y_dtype: int) -> Array:
    """x @ wHigh + wLowScale * (x @ wLow): a weight of float32 in two halves."""
    return np.asarray(matmul(x, high) + np.float32(low_scale) * matmul(x, low))


# ------------------------------------------------------------------------------------------------------- losses


@reference("aclnnFusedLinearOnlineMaxSum", raw=True)
def fused_linear_online_max_sum(
    x: Array, weight: Array, targets: Array, start: int, end: int, *, out: tuple[Any, ...]
) -> None:
    """Of the logits x @ weight.T, rounded to the data type of x: the largest of each row and the sum of exp after it.

    Targets outside of [start, end) are masked (end itself too, which the document includes and the kernel does not),
    their index and their logit are 0. Bits of the mask lie from the lowest one on, those after the rows are 1.
    """
    maxima, sums, predicted, mask, index, logits = out
    rounded = np.empty((len(x), len(weight)), x.dtype)
    round_into(rounded, matmul(widen(x), widen(weight).T))
    wide = widen(rounded)
    row_max = wide.max(-1)
    masked = (targets < start) | (targets >= end)
    local_target = np.where(masked, 0, targets - start)
    if local_target.size and local_target.max() >= len(weight):
        raise DataError(
            "target", f"has {local_target.max() + start}; there are logits for {start} to {start + len(weight) - 1}"
        )
    chosen = np.take_along_axis(wide, local_target[:, None].astype(np.int64), -1)[:, 0]
    np.copyto(maxima, row_max)
    round_into(sums, np.exp(wide - row_max[:, None]).sum(-1, dtype=np.float64).astype(np.float32))
    np.copyto(predicted, np.where(masked, np.float32(0), chosen - row_max))
    padded = np.ones(len(mask) * 8, bool)
    padded[: len(masked)] = masked
    np.copyto(mask, np.packbits(padded, bitorder="little"))
    np.copyto(index, local_target, casting="unsafe")
    if logits is not None:
        np.copyto(logits, rounded)


@reference("aclnnFusedLinearCrossEntropyLossGrad", raw=True)
def fused_linear_cross_entropy_loss_grad(
    grad: Array,
    x: Array,
    weight: Array,
    mask: Array,
    index: Array,
    label_smoothing: float,
    maxima: Optional[Array],
    sums: Optional[Array],
    softmax: Optional[Array],
    *,
    out: tuple[Array, Array],
) -> None:
    """The gradients for x and weight: (softmax - 1 at targets that are not masked) * grad, rounded, by weight and x."""
    if softmax is None:
        assert maxima is not None and sums is not None
        logits = matmul(widen(x), widen(weight).T)
        softmax = np.exp(logits - maxima[:, None]) / sums[:, None]
    rows = len(grad)
    masked = mask[:rows] if mask.dtype == np.bool_ else np.unpackbits(mask, count=rows, bitorder="little").astype(bool)
    check_range("maskedTarget", np.where(masked, 0, index), 0, len(weight))
    d_logits = np.array(softmax, np.float32)
    unmasked = np.flatnonzero(~masked)
    d_logits[unmasked, index[unmasked]] -= 1
    d_logits = widen(rounded_to(d_logits * grad[:, None], x.dtype))
    round_into(out[0], matmul(d_logits, widen(weight)))
    round_into(out[1], matmul(d_logits.T, widen(x)))


# ------------------------------------------------------------------------------------------------------- rotation


@reference("aclnnRotateQuant", raw=True)
def rotate_quant(
    x: Array,
    rotation: Array,
    alpha: Optional[Array],
    axis: int,
    round_mode: Optional[str],
    algorithm: int,
    type_max: float,
    transpose: bool,
    *,
    out: tuple[Array, Array],
) -> None:
    """Parts of the columns by a rotation, then quantised: rows to 8 or 4 bits, or (Ascend 950) blocks with exponents.

    The product is rounded to the data type of x, on Ascend 950 to BFLOAT16, and there clamped to alpha of the largest
    magnitude of each 32.
    """
    size = rotation.shape[-1]
    parts = widen(x).reshape(-1, x.shape[-1] // size, 1, size)
    blocks = np.broadcast_to(widen(rotation), (x.shape[-1] // size, size, size))
    product = matmul(parts, blocks).reshape(x.shape)
    if out[0].dtype in (np.int8, np.int32):
        y, most = widen(rounded_to(product, x.dtype)), np.float32(largest(target(out[0])))
        peaks = np.max(np.abs(y), -1, keepdims=True, initial=0)
        store(out[0], np.nan_to_num(y * (most / peaks), nan=0.0))
        round_into(out[1], (peaks * (np.float32(1) / most)).reshape(out[1].shape))
        return
    y = product.astype(BFLOAT16).astype(np.float32)
    if alpha is not None and 0 < float(alpha[0]) < 1:
        cut = y.reshape(*y.shape[:-1], -1, mx.BLOCK)
        peaks = np.max(np.abs(cut), -1, keepdims=True)
        limits = (peaks * np.float32(alpha[0])).astype(BFLOAT16).astype(np.float32)
        y = np.clip(cut, -limits, limits).reshape(y.shape)
    how = mx.Scaling(algorithm, round_mode or "rint", type_max=type_max)
    mx.store(*out, *mx.along(y, -1, out[0].dtype, how))


# --------------------------------------------------------------------------------------------------- experimental


@reference("aclnnFusedMatmulGelu")
def fused_matmul_gelu(x: Array, weight: Array, bias: Optional[Array], approximate: int) -> Array:
    """gelu(x @ weight^T + bias), by tanh."""
    product = matmul(x, weight.T)
    return activated(product if bias is None else product + bias, "gelu_tanh")


@reference("aclnnFusedPatchMlp")
def fused_patch_mlp(x: Array, weights: Array, biases: Array, layers: int) -> Array:
    """Linear layers with gelu (by tanh) between them; weights has their matrices (inputs, outputs) one after the other.

    Between the layers everything is float32; the device rounds the rows to the type of x.
    """
    hidden, start, y = len(biases) // layers, 0, x
    for layer, bias in enumerate(biases.reshape(layers, hidden)):
        stop = start + y.shape[-1] * hidden
        y = matmul(y, weights[start:stop].reshape(-1, hidden)) + bias
        y = activated(y, "gelu_tanh") if layer < layers - 1 else y
        start = stop
    return y


@reference("aclnnMatmulFp32")
def matmul_fp32(x1: Array, x2: Array, bias: Optional[Array], transpose_x1: bool, transpose_x2: bool) -> Array:
    """x1 @ x2 + bias, each matrix optionally transposed."""
    product = matmul(x1.T if transpose_x1 else x1, x2.T if transpose_x2 else x2)
    return product if bias is None else product + bias


@reference("aclnnWeightQuantBatchMatmulExperiment")
def weight_quant_batch_matmul_experiment(x: Array, weight: Array, scale: Array) -> Any:
    """x @ (weight * scale) in groups of 128, for which x becomes three digits of 4 bits below its largest magnitude.

    The first digit is worth 1 / 7.49 of it, each later one 1 / 14.98 of the one before (the kernel, and its README).
    """
    result = np.zeros((x.shape[0], weight.shape[1]), np.float32)
    for number, factors in enumerate(scale):
        group = slice(number * 128, number * 128 + 128)
        most = np.abs(x[:, group]).max(-1, keepdims=True, initial=0)
        rest, worth, product = x[:, group] / np.where(most == 0, 1, most), np.float32(1), np.zeros_like(result)
        for base in (7.49, 14.98, 14.98):
            rest, worth = rest * np.float32(base), worth / np.float32(base)
            digit = np.trunc(rest + np.copysign(np.float32(0.5), rest))
            product += matmul(digit, weight[group]) * worth
            rest = rest - digit
        result += product * factors * most
    return result
