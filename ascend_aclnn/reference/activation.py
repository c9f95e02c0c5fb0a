"""Activations and their gradients (ops-nn/activation).

Where a document and CANN's kernels differ at a single point (the border of a range), the kernel is followed, which then
does what torch does. NaN goes through unless a comparison is all that there is.
"""

from __future__ import annotations

import math
from typing import Any, Callable, Optional

import numpy as np

from ascend_aclnn.numerics import Array, DataError, round_into, row_maximum, sum_over, where, widen
from ascend_aclnn.reference import _special as special
from ascend_aclnn.reference._pointwise import floats, is_whole, number, on_floats, rows
from ascend_aclnn.reference._quantise import largest as largest_value
from ascend_aclnn.reference._quantise import store
from ascend_aclnn.reference._special import sigmoid
from ascend_aclnn.reference.declare import reference

_ALPHA, _SCALE = 1.6732632423543772848, 1.0507009873554804934  # SELU
FAST_GELU_SCALE = 1.702  # of FastGelu
GELU_CUBIC, GELU_TANH_SCALE = 0.044715, 2 * math.sqrt(2 / math.pi)  # of GELU with tanh; tanh(u) = 2 sigmoid(2u) - 1

# ------------------------------------------------------------------------------------------------------ GELU and others


def gelu(x: Array, tanh: bool) -> Any:
    """x times the normal distribution function of x, exact or by tanh."""
    if tanh:
        return x * sigmoid(GELU_TANH_SCALE * (x + GELU_CUBIC * x * x * x))
    return x * special.normal_distribution(x)


def gelu_derivative(x: Array, tanh: bool) -> Any:
    """The derivative of ``gelu``."""
    square = x * x
    if tanh:
        s = sigmoid(GELU_TANH_SCALE * (x + GELU_CUBIC * x * square))
        curve = x * s * (1 - s) * GELU_TANH_SCALE * (1 + 3 * GELU_CUBIC * square)
        return s + where(np.isnan(curve), 0, curve)  # NaN where the square overflows
    density = np.exp(-0.5 * square) * (1 / math.sqrt(2 * math.pi))
    return special.normal_distribution(x) + x * density


def silu(x: Array) -> Any:
    return x * sigmoid(x)


def silu_derivative(x: Array) -> Any:
    """The derivative of ``silu``."""
    s = sigmoid(x)
    return s * (1 + x * (1 - s))


def _relu(x: Array) -> Any:
    return np.maximum(x, 0)


def _hard_sigmoid(x: Array, alpha: float = 1 / 6, beta: float = 0.5) -> Any:
    clipped = np.clip(alpha * floats(x) + beta, 0, 1)
    return np.trunc(clipped) if is_whole(x) else clipped


def _hard_swish(x: Array) -> Any:
    return x * np.clip(x + 3, 0, 6) / 6


def _selu(x: Array) -> Any:
    y = floats(x)
    y = _SCALE * where(y > 0, y, _ALPHA * np.expm1(y))
    if not is_whole(x):
        return y
    return np.trunc(y).astype(np.int16) if x.dtype == np.int8 else np.trunc(y)  # INT8 wraps around, INT32 saturates


def _mish(x: Array) -> Any:
    return x * np.tanh(special.softplus(x))


for _names, _function in (
    ("Erfinv*", on_floats(special.erfinv)),
    ("FastGelu", lambda x: x * sigmoid(FAST_GELU_SCALE * x)),
    ("Gelu", lambda x: gelu(x, True)),
    ("GeluV2", lambda x, approximate: gelu(x, approximate == 1)),
    ("Hardsigmoid* HardSigmoid", _hard_sigmoid),
    ("Hardswish* HardSwish", _hard_swish),
    ("LogSigmoid", special.log_sigmoid),
    ("LogSigmoidForward", lambda x: (special.log_sigmoid(x), None)),  # the buffer is for other devices
    ("Mish*", _mish),
    ("Relu*", _relu),
    ("Selu*", _selu),
    ("Sigmoid*", on_floats(sigmoid)),
    ("Silu", silu),
    ("SquaredRelu", lambda x: np.square(_relu(x))),
):
    rows(_names, _function)

# ------------------------------------------------------------------------------------------------------ with scalars


def _elu(x: Array, alpha: float, scale: float, input_scale: float) -> Array:
    return where(x > 0, scale * x, alpha * scale * np.expm1(x * input_scale))


def _soft_shrink(x: Array, lambd: float) -> Array:
    return where(np.abs(x) <= lambd, 0, x - np.copysign(x.dtype.type(lambd), x))


def _shrink(x: Array, lambd: float, bias: float) -> Array:
    return where(x > lambd, x - bias, where(x < -lambd, x + bias, 0))


def _softplus(x: Array, beta: float, threshold: float) -> Array:
    bx = beta * x
    return where(bx > threshold, x, special.softplus(bx) / beta)


def _threshold(x: Array, threshold: float, value: float) -> Array:
    if is_whole(x):
        threshold, value = number(int(threshold), x), number(int(value), x)
    return where(x <= threshold, value, x)


for _names, _scalar_function in (
    ("Celu*", lambda x, alpha: np.maximum(x, 0) + np.minimum(alpha * np.expm1(x / alpha), 0)),
    ("Elu*", _elu),
    ("Hardshrink", lambda x, lambd: where(np.abs(x) <= lambd, 0, x)),
    ("LeakyRelu*", lambda x, slope: where(x > 0, x, slope * x)),
    ("Shrink", _shrink),
    ("Softplus", _softplus),
    ("Softshrink", _soft_shrink),
    ("Swish", lambda x, beta: x * sigmoid((1.0 if beta is None else beta) * x)),
    ("Threshold*", _threshold),
    ("AddRelu*", lambda x, y, alpha: _relu(x + number(alpha, y) * y)),
):
    rows(_names, _scalar_function)


@reference("aclnnHeaviside", raw=True)
def heaviside(x: Array, values: Array, *, out: tuple[Array]) -> None:
    """0 below zero (and for NaN), ``values`` at zero, 1 above; the output may have another shape of the same size."""
    round_into(out[0], where(x == 0, widen(values), x > 0).reshape(out[0].shape))


def _per_channel(x: Array, weight: Array) -> Array:
    """PReLU's weights beside x: one for all, or one for each index of axis 1."""
    if weight.size == 1:
        return weight.reshape(())
    return weight.reshape(-1, *[1] * (x.ndim - 2))


@reference("aclnnPrelu")
def prelu(x: Array, weight: Array) -> Array:
    return where(x > 0, x, _per_channel(x, weight) * x)


@reference("aclnnPreluBackward")
def prelu_backward(grad: Array, x: Array, weight: Array) -> tuple[Array, Array]:
    """The weights' gradient is summed over all axes but the channels'."""
    grad = np.broadcast_to(grad, x.shape)
    terms = where(x > 0, 0, grad * x)
    axes = None if weight.size == 1 else tuple(axis for axis in range(x.ndim) if axis != 1)
    sums = terms.sum(axis=axes, dtype=np.float64)
    shape = weight.shape if weight.size == 1 else sums.shape
    return where(x > 0, grad, _per_channel(x, weight) * grad), sums.reshape(shape)


@reference("aclnnRReluWithNoise", "aclnnInplaceRReluWithNoise", raw=True)
def rrelu_with_noise(
    x: Array,
    noise: Array,
    lower: float,
    upper: float,
    training: bool,
    seed: int,
    offset: int,
    *,
    out: tuple[Array],
) -> None:
    """x times its slope below zero: the middle of the range, or in training a random number, which ``noise`` keeps.

    CANN declares ``noise`` an input and yet writes it. The numbers come from a counter-based generator of seed and
    offset; they are not the hardware's.
    """
    wide = widen(x)
    if not training:
        round_into(out[0], where(wide > 0, wide, (lower + upper) / 2 * wide))
        return
    if not noise.flags.writeable:
        raise DataError("noise", "is read-only; training writes the slopes to it")
    generator = np.random.Generator(np.random.Philox(key=seed % 2**64, counter=offset % 2**64))
    slopes = lower + (upper - lower) * generator.random(x.shape, np.float32)
    slopes = where(wide < 0, slopes, 1)
    round_into(out[0], wide * slopes)
    stored = np.empty(noise.shape, noise.dtype)
    stored[...] = noise
    round_into(stored.reshape(-1)[: x.size], slopes.reshape(-1))
    noise[...] = stored


# ------------------------------------------------------------------------------------------------------ gradients


def _elu_backward(grad: Array, alpha: float, scale: float, input_scale: float, is_result: bool, x: Array) -> Any:
    low = x + alpha * scale if is_result else alpha * scale * np.exp(x * input_scale)
    return grad * where(x > 0, scale, input_scale * low)


def _mish_backward(grad: Array, x: Array) -> Any:
    t = np.tanh(special.softplus(x))
    return grad * (t + x * sigmoid(x) * (1 - t * t))


def _fast_gelu_backward(grad: Array, x: Array) -> Any:
    return grad * silu_derivative(FAST_GELU_SCALE * x)


def _selu_backward(grad: Array, result: Array) -> Any:
    return grad * where(result > 0, _SCALE, floats(result) + _SCALE * _ALPHA)


def _sigmoid_backward(grad: Array, y: Array) -> Any:
    """In the kernels' order: the product of the results first, so that where it overflows a gradient of 0 gives NaN."""
    return np.conj((1 - y) * y) * grad


def _softplus_backward(grad: Array, x: Array, beta: float, threshold: float) -> Any:
    """The quotient of the kernel: where exp(-bx) overflows, infinite gradients give NaN and others 0."""
    bx = beta * x
    return where(bx > threshold, grad, grad / (1 + np.exp(-bx)))


def _swish_backward(grad: Array, x: Array, beta: Optional[float]) -> Any:
    return grad * silu_derivative((1.0 if beta is None else beta) * x)


def _outside(grad: Array, x: Array, lambd: float) -> Any:
    """The gradient, but nothing where |x| <= lambd."""
    return where(np.abs(x) <= lambd, 0, grad)


def _bce_target_backward(
    grad: Array, x: Array, target: Array, weight: Optional[Array], pos_weight: Optional[Array], reduction: int
) -> Array:
    """The gradient of binary cross entropy with logits for the targets; reduction 1 is the mean."""
    positive = special.log_sigmoid(x) if pos_weight is None else pos_weight * special.log_sigmoid(x)
    result: Array = grad * (special.log_sigmoid(-x) - positive)
    if weight is not None:
        result = result * weight
    return result / target.size if reduction == 1 else result


for _names, _gradient in (
    ("EluBackward", _elu_backward),
    ("FastGeluBackward", _fast_gelu_backward),
    ("GeluBackward", lambda grad, x: grad * gelu_derivative(x, True)),  # the slope of aclnnGelu, as in its kernels
    ("GeluBackwardV2", lambda grad, x, approximate: grad * gelu_derivative(x, approximate == "tanh")),
    ("HardshrinkBackward SoftshrinkBackward", _outside),
    ("HardsigmoidBackward", lambda grad, x: where((x > -3) & (x < 3), grad / 6, 0)),
    ("HardswishBackward", lambda grad, x: grad * where(x < -3, 0, where(x > 3, 1, x / 3 + 0.5))),
    ("HardswishBackwardV2", lambda grad, x: grad * where(x <= -3, 0, where(x >= 3, 1, x / 3 + 0.5))),
    ("HardtanhBackward", lambda grad, x, low, high: where((x <= low) | (x >= high), 0, grad)),
    ("LeakyReluBackward", lambda grad, x, slope, _: where(x > 0, grad, slope * grad)),
    ("LogSigmoidBackward", lambda grad, x, buffer: grad * sigmoid(-x)),
    ("MishBackward", _mish_backward),
    ("SeluBackward", _selu_backward),
    ("SigmoidBackward", _sigmoid_backward),
    ("SiluBackward", lambda grad, x: grad * silu_derivative(x)),
    ("SoftplusBackward", _softplus_backward),
    ("SwishBackward", _swish_backward),
    ("ThresholdBackward", lambda grad, x, threshold: where(x <= threshold, 0, grad)),
):
    rows(_names, _gradient)

rows("BinaryCrossEntropyWithLogitsTargetBackward", _bce_target_backward, elementwise=False)  # counts the elements

# ------------------------------------------------------------------------------------------------------ softmax


def _along(function: Callable[..., Array]) -> Callable[..., Array]:
    """A function of arrays and an axis; an array without axes counts as one of one element."""

    def on_axis(*arguments: Any) -> Any:
        *arrays, dim = arguments
        if arrays[0].ndim:
            return function(*arguments)
        return function(*map(np.atleast_1d, arrays), dim).reshape(())

    return on_axis


def _sum(x: Array, axis: int) -> Any:
    """A sum that keeps its axis, good to one rounding."""
    return sum_over(x, (axis,), True).astype(x.dtype)


def _shifted(x: Array, axis: int) -> Any:
    return x - row_maximum(x, axis)


def softmax(x: Array, axis: int) -> Any:
    e = np.exp(_shifted(x, axis))
    return e / _sum(e, axis)


def log_softmax(x: Array, axis: int) -> Any:
    y = _shifted(x, axis)
    return y - np.log(_sum(np.exp(y), axis))


def _softmax_backward(grad: Array, y: Array, axis: int) -> Any:
    product = grad * y
    return product - _sum(product, axis) * y


def _log_softmax_backward(grad: Array, y: Array, axis: int) -> Any:
    return grad - _sum(grad, axis) * np.exp(y)


def _last_argument(*arguments: Any) -> tuple[int]:
    """The axis that the operators are given last."""
    return (arguments[-1],)


def _given_dim(x: Array, dim: int, *_: Any) -> tuple[int]:
    return (dim,)


def _given_dim_of_gradient(grad: Array, x: Array, dim: int, *_: Any) -> tuple[int]:
    return (dim,)


rows("Softmax", _along(softmax), along=_last_argument)
rows("LogSoftmax", _along(log_softmax), along=_last_argument)
rows("SoftmaxBackward", _along(_softmax_backward), along=_last_argument)
rows("LogSoftmaxBackward", _along(_log_softmax_backward), along=_last_argument)


@reference("aclnnSoftmaxCrossEntropyWithLogits")
def softmax_cross_entropy_with_logits(features: Array, labels: Array) -> tuple[Array, Array]:
    """The loss of each row and its gradient for the features, with labels that sum to one."""
    features, labels = np.broadcast_arrays(features, labels)
    loss = -_sum(labels * log_softmax(features, 1), 1)
    return loss[:, 0], softmax(features, 1) - labels


# ------------------------------------------------------------------------------------------------------ gated units


def _halves(x: Array, axis: int, interleaved: bool = False) -> tuple[Array, Array]:
    """The first and second half of an axis; interleaved, the even and odd places in memory from that axis on."""
    if interleaved:
        pairs = x.reshape(*x.shape[: axis % x.ndim], -1, 2)
        half = _half_shape(x.shape, axis)
        return pairs[..., 0].reshape(half), pairs[..., 1].reshape(half)
    last = axis % x.ndim == x.ndim - 1
    x = x if last else np.moveaxis(x, axis, -1)
    first, second = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]
    return (first, second) if last else (np.moveaxis(first, -1, axis), np.moveaxis(second, -1, axis))


def _half_shape(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    at = axis % len(shape)
    return (*shape[:at], shape[at] // 2, *shape[at + 1 :])


def _joined(first: Array, second: Array, axis: int, interleaved: bool = False) -> Array:
    """What ``_halves`` took apart."""
    if not interleaved:
        return np.concatenate((first, second), axis)
    at = axis % first.ndim
    return np.stack((first, second), -1).reshape(*first.shape[:at], 2 * first.shape[at], *first.shape[at + 1 :])


def _gate_and_other(x: Array, dim: int, activate_left: bool) -> tuple[Array, Array]:
    """The half to activate, and the one that it multiplies."""
    first, second = _halves(x, dim)
    return (first, second) if activate_left else (second, first)


@reference("aclnnGlu", along=_given_dim)
def glu(x: Array, dim: int) -> Any:
    a, b = _halves(x, dim)
    return a * sigmoid(b)


@reference("aclnnGluBackward", along=_given_dim_of_gradient)
def glu_backward(grad: Array, x: Array, dim: int) -> Array:
    a, b = _halves(x, dim)
    s = sigmoid(b)
    return _joined(grad * s, grad * s * (1 - s) * a, dim)


@reference("aclnnSwiGlu", along=_given_dim)
def swi_glu(x: Array, dim: int) -> Any:
    a, b = _halves(x, dim)
    return silu(a) * b


@reference("aclnnSwiGluGrad", along=_given_dim_of_gradient)
def swi_glu_grad(grad: Array, x: Array, dim: int) -> Array:
    a, b = _halves(x, dim)
    return _joined(grad * silu_derivative(a) * b, grad * silu(a), dim)


@reference("aclnnGeGlu", "aclnnGeGluV3", along=_given_dim)
def ge_glu(x: Array, dim: int, approximate: int, activate_left: bool = False) -> tuple[Array, Array]:
    """One half times GELU of the other, and GELU alone."""
    active, plain = _gate_and_other(x, dim, activate_left)
    activated = gelu(active, approximate == 1)
    return plain * activated, activated


@reference("aclnnGeGluBackward", "aclnnGeGluV3Backward")
def ge_glu_backward(
    grad: Array, x: Array, activated: Array, dim: int, approximate: int, activate_left: bool = False
) -> Array:
    active, plain = _gate_and_other(x, dim, activate_left)
    grad_active, grad_plain = grad * plain * gelu_derivative(active, approximate == 1), grad * activated
    return _joined(grad_active, grad_plain, dim) if activate_left else _joined(grad_plain, grad_active, dim)


@reference("aclnnGeluMul", along=lambda *_: (-1,))
def gelu_mul(x: Array, approximate: str) -> Any:
    a, b = _halves(x, -1)
    return gelu(a, approximate == "tanh") * b


@reference("aclnnFatreluMul")
def fatrelu_mul(x: Array, threshold: Array) -> Any:
    """The kernel keeps what is greater than the threshold; the document also keeps what equals it."""
    a, b = _halves(x, -1)
    return where(a > threshold.reshape(()), a, 0) * b


@reference("aclnnSituGlu", along=_given_dim)
def situ_glu(x: Array, dim: int, beta: float, linear_beta: float, activate_left: bool) -> Any:
    """beta * tanh(gate / beta) * sigmoid(gate) * up, with up bent by tanh too where ``linear_beta`` is positive."""
    gate, up = _gate_and_other(x, dim, activate_left)
    if linear_beta > 0:
        up = linear_beta * np.tanh(up / linear_beta)
    return beta * np.tanh(gate / beta) * sigmoid(gate) * up


@reference("aclnnSituGluGrad", along=_given_dim_of_gradient)
def situ_glu_grad(grad: Array, x: Array, dim: int, beta: float, linear_beta: float, activate_left: bool) -> Array:
    gate, up = _gate_and_other(x, dim, activate_left)
    t, s = np.tanh(gate / beta), sigmoid(gate)
    grad_up = grad * (beta * t * s)
    if linear_beta > 0:
        bent = np.tanh(up / linear_beta)
        up, grad_up = linear_beta * bent, grad_up * (1 - bent * bent)
    grad_gate = grad * up * s * ((1 - t * t) + beta * t * (1 - s))
    return _joined(grad_gate, grad_up, dim) if activate_left else _joined(grad_up, grad_gate, dim)


def _in_groups(rows: int, group_index: Optional[Array]) -> int:
    """How many leading rows the groups' sizes add up to; all where there are no groups."""
    return rows if group_index is None else max(0, min(rows, int(group_index.sum())))


def _blank_rest(x: Array, group_index: Optional[Array], dim: int) -> Array:
    """Zeros in the rows beyond the groups, which CANN's forward operators leave as they were."""
    if group_index is None:
        return x
    dim = dim % x.ndim
    count = math.prod(x.shape[:dim])
    x = np.array(x, order="C")
    x.reshape(count, math.prod(x.shape[dim:]))[_in_groups(count, group_index) :] = 0
    return x


def _clipped_halves(x: Array, dim: int, limit: float, interleaved: bool = False) -> tuple[Array, Array]:
    """The gate limited above, the other half on both sides."""
    a, b = _halves(x, dim, interleaved)
    return np.minimum(a, limit), np.clip(b, -limit, limit)


@reference("aclnnClippedSwiglu", "aclnnClippedSwigluV2")
def clipped_swiglu(
    x: Array,
    group_index: Optional[Array],
    dim: int,
    alpha: float,
    limit: float,
    bias: float,
    interleaved: bool,
    clamp_mode: int = 0,
) -> Array:
    """SwiGlu of limited halves with a steepness and a bias; in mode 1 the activated gate is limited, without these."""
    if clamp_mode == 1:
        a, b = _halves(x, dim, interleaved)
        y = np.minimum(silu(a), limit) * np.clip(b, -limit, limit)
    else:
        a, b = _clipped_halves(x, dim, limit, interleaved)
        y = a * sigmoid(alpha * a) * (b + bias)
    return _blank_rest(y, group_index, dim)


@reference("aclnnClippedSwigluGrad")
def clipped_swiglu_grad(
    grad: Array,
    x: Array,
    group_index: Optional[Array],
    dim: int,
    alpha: float,
    limit: float,
    bias: float,
    interleaved: bool,
) -> Array:
    first, second = _halves(x, dim, interleaved)
    a, b = _clipped_halves(x, dim, limit, interleaved)
    grad_a = grad * (b + bias) * silu_derivative(alpha * a) * (first <= limit)
    grad_b = grad * a * sigmoid(alpha * a) * (np.abs(second) <= limit)
    return _blank_rest(_joined(grad_a, grad_b, dim, interleaved), group_index, dim)


def _per_row(weight: Array, x: Array) -> Array:
    return weight.reshape(*x.shape[:-1], 1)


def _group_swiglu(x: Array, weight: Optional[Array], clamp_limit: float) -> Any:
    a, b = _clipped_halves(x, -1, clamp_limit if clamp_limit > 0 else math.inf)
    y = silu(a) * b
    return y if weight is None else y * _per_row(weight, x)


@reference("aclnnSwigluGroup")
def swiglu_group(x: Array, weight: Optional[Array], group_index: Optional[Array], clamp_limit: float) -> Array:
    """SwiGlu of the last axis' halves, limited where ``clamp_limit`` is positive, times a weight of each row."""
    return _blank_rest(_group_swiglu(x, weight, clamp_limit), group_index, -1)


@reference("aclnnSwigluGroupQuantGrad")
def swiglu_group_quant_grad(
    grad: Array,
    x: Array,
    weight: Optional[Array],
    y_origin: Optional[Array],
    group_index: Optional[Array],
    clamp_limit: float,
) -> tuple[Array, Optional[Array]]:
    """Gradients of SwigluGroup's input and weights; quantising counts as the identity."""
    grad_weight = None
    if weight is not None and y_origin is not None:
        grad_weight = _blank_rest(_sum(grad * y_origin, -1), group_index, -1).reshape(weight.shape)
    if weight is not None:
        grad = grad * _per_row(weight, x)
    limit = clamp_limit if clamp_limit > 0 else math.inf
    first, second = _halves(x, -1)
    a, b = _clipped_halves(x, -1, limit)
    grad_a = grad * b * silu_derivative(a) * (first < limit)
    grad_b = grad * silu(a) * (np.abs(second) < limit)
    return _blank_rest(_joined(grad_a, grad_b, -1), group_index, -1), grad_weight


# ------------------------------------------------------------------------------------------------------ quantised


def _only_fp8(call: Any) -> Optional[str]:
    """The document describes blocks of FLOAT8 elements; how FLOAT4 ones are scaled it does not say."""
    dtype = call["yOut"].dtype.name
    if dtype not in ("FLOAT8_E4M3FN", "FLOAT8_E5M2"):
        return f"the NumPy backend makes FLOAT8_E4M3FN and FLOAT8_E5M2, not {dtype}"
    return None


@reference("aclnnSwigluGroupQuant", raw=True, unsupported=_only_fp8)
def swiglu_group_quant(
    x: Array,
    weight: Optional[Array],
    group_index: Optional[Array],
    scale: Optional[Array],
    dst_type: int,
    quant_mode: int,
    block_size: int,
    round_scale: bool,
    clamp_limit: float,
    type_max: float,
    output_origin: bool,
    *,
    out: tuple[Array, Array, Optional[Array]],
) -> list[Optional[Array]]:
    """SwigluGroup in blocks of 128 (quantMode 0) or 32 (1), each over a scale that makes its largest the type's largest.

    Magnitudes count as at least 1e-4, infinities and NaN in blocks of 128 not at all. The scales of blocks of 32, and
    with roundScale all, are the next powers of two.
    """
    wide = widen(x).astype(np.float32)
    y = np.asarray(_blank_rest(_group_swiglu(wide, weight, clamp_limit), group_index, -1), np.float32)
    quantised, scales, origin = out
    mx_blocks = quant_mode == 1
    blocks = y.reshape(*y.shape[:-1], -1, 32 if mx_blocks else 128)
    most = np.float32(largest_value(quantised.dtype))
    sizes = np.abs(blocks) if mx_blocks else np.where(np.isfinite(blocks), np.abs(blocks), 0)
    largest = np.maximum(sizes.max(-1), np.float32(1e-4))
    factor = most / largest
    raw = largest * (1 / most)
    if round_scale or mx_blocks:
        fraction, exponent = np.frexp(raw)
        exponent = exponent - (fraction == 0.5)
        raw, factor = np.ldexp(np.float32(1), exponent), np.ldexp(np.float32(1), -exponent)
    scaled = blocks * factor[..., None]
    scaled = scaled if mx_blocks else np.where(np.isfinite(scaled), scaled, blocks)
    round_into(quantised, scaled.reshape(y.shape))
    round_into(scales, _blank_rest(raw, group_index, -1).reshape(scales.shape))
    if origin is not None and output_origin:
        round_into(origin, y)
    return [] if output_origin else [origin]


@reference("aclnnGeluQuant", raw=True)
def gelu_quant(
    x: Array,
    scale: Optional[Array],
    offset: Optional[Array],
    approximate: str,
    quant_mode: str,
    round_mode: str,
    dst_type: int,
    *,
    out: tuple[Array, Optional[Array]],
) -> list[Optional[Array]]:
    """GELU times given scales plus offsets, or divided by what makes the largest of each row the largest of the type."""
    y, row_scale = out
    values = gelu(widen(x), approximate == "tanh")
    if scale is not None:
        values = values * widen(scale)
    if quant_mode == "dynamic":
        scales = np.abs(values).max(axis=-1) * np.float32(1 / largest_value(y.dtype))
        values = values / scales[..., None]
        if row_scale is not None:
            round_into(row_scale, scales)
    elif offset is not None:
        values = values + widen(offset)
    store(y, values.astype(np.float16) if y.dtype == np.int8 else values)  # kernels make INT8 from FLOAT16
    return [] if quant_mode == "dynamic" else [row_scale]


# ------------------------------------------------------------------------------------------------------ experimental


def _fast_gelu_v2(x: Array) -> Array:
    """Two parabolas instead of the error function, as the document of FastGeluV2 has them."""
    missing = np.minimum(np.float32(0.7071) * np.abs(x), np.float32(1.769)) - np.float32(1.769)
    side = np.float32(0.5) - np.float32(0.1444) * np.square(missing)
    return np.asarray(x * (np.where(x < 0, -side, side) + np.float32(0.5)))


_EXPERIMENTAL: tuple[tuple[str, Callable[..., Any]], ...] = (
    ("CeluV2 CeluV3", lambda x, alpha: np.maximum(x, 0) + np.minimum(alpha * np.expm1(x / alpha), 0)),
    (
        "EluV2",
        lambda x, alpha, scale, input_scale: (
            scale * np.where(x > 0, x, alpha * np.expm1(input_scale * np.minimum(x, 0)))
        ),
    ),
    ("FastGeluV2", _fast_gelu_v2),
    ("HardShrink", lambda x, lambd: np.where(np.abs(x) <= lambd, 0, x)),
    ("HardSwishV2", _hard_swish),
    ("HardsigmoidV2 InplaceHardsigmoidV2", _hard_sigmoid),
    ("LeakyreluV2", lambda x, slope: np.maximum(x, 0) + slope * np.minimum(x, 0)),
    ("LogsigmoidV2", special.log_sigmoid),
    ("SiluMul", lambda x, y: silu(x) * y),
    ("SoftPlusV2", special.softplus),
    ("Softsign", lambda x: x / (1 + np.abs(x))),
    ("ThresholdV2", _threshold),
    ("FusedBiasLeakyRelu", lambda x, bias, slope, scale: scale * np.where(x + bias >= 0, x + bias, slope * (x + bias))),
    ("HardSigmoidGradV2", lambda grad, x: np.where((x > -3) & (x < 3), grad / 6, 0)),
    ("LeakyReluGradV2", lambda grad, x, slope: np.where(x > 0, grad, slope * grad)),
    ("ReluGradV4", lambda grad, mask, threshold: np.where(mask != 0, grad, 0)),
    ("SoftsignBackward", lambda grad, x: grad / np.square(1 + np.abs(x))),
    ("EluGrad", lambda grad, y: (np.minimum(y, 0) + 1) * grad),
    ("HardShrinkGrad", lambda grad, x, lambd: np.where(np.abs(x) > lambd, grad, 0)),
    ("HardtanhGrad", lambda y, grad, low, high: np.where((y >= low) & (y <= high), grad, 0)),
    ("Relu6", lambda x: np.minimum(np.maximum(x, 0), 6)),
    ("TanhGrad", lambda y, grad: grad * (1 - y * y)),
)
for _names, _function in _EXPERIMENTAL:
    rows(_names, _function)


@reference("aclnnLogSoftmaxV2")
def log_softmax_v2(x: Array, dim: int) -> Any:
    axis = dim if x.ndim else None
    shifted = x - np.max(x, axis, keepdims=True, initial=-np.inf)
    return shifted - np.log(sum_over(np.exp(shifted), None if axis is None else (axis,), True))


@reference("aclnnSoftmaxV2")
def softmax_v2(x: Array, dim: int) -> Any:
    """The largest element that is subtracted is at least 0, as in the kernel."""
    powers = np.exp(x - np.max(x, dim, keepdims=True, initial=0))
    return powers / sum_over(powers, (dim,), True)


@reference("aclnnReluGradV3")
def relu_grad_v3(x: Array, grad: Array) -> Any:
    """The gradient, which may be one number for all, where x is positive."""
    return np.where(x > 0, grad.reshape(()) if grad.size == 1 else grad, 0).astype(x.dtype)


@reference("aclnnReluV3")
def relu_v3(x: Array) -> Any:
    """The positive elements, and a mask of them: a bit each, the lowest first."""
    return _relu(x), np.packbits(x > 0, -1, bitorder="little")


@reference("aclnnSwigluClamp")
def swiglu_clamp(x: Array, limit: float) -> Any:
    """SiLU of the first half, cut off above, times the second half, cut off on both sides."""
    gate, up = np.split(x, 2, -1)
    return np.minimum(silu(gate), limit) * np.clip(up, -limit, limit)
