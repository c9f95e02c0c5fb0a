"""Residual streams that are mixed by learnt matrices (ops-transformer/mhc), n of them, each d wide.

Gradients are those of the documents, in float32; Sinkhorn's ignores its small summand. What the forward
pass saves for them lies step by step; MhcSinkhorn pads the rows to eight.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Optional

import numpy as np

from ascend_aclnn.numerics import Array
from ascend_aclnn.reference._special import sigmoid
from ascend_aclnn.reference.declare import reference

_ALIGNED = 8

# --------------------------------------------------------------------------------------------------- after the layer


@reference("aclnnMhcPost")
def mhc_post(x: Array, mixing: Optional[Array], layer_output: Array, gate: Array) -> Any:
    """The mixed streams plus the layer's output times each stream's gate."""
    mixed = x if mixing is None else np.matmul(mixing.swapaxes(-1, -2), x)
    return mixed + layer_output[..., None, :] * gate[..., None]


@reference("aclnnMhcPostBackward")
def mhc_post_backward(
    grad: Array, x: Array, mixing: Optional[Array], layer_output: Array, gate: Array
) -> tuple[Any, Any, Any, Any]:
    back = grad if mixing is None else np.matmul(mixing, grad)
    of_mixing = np.matmul(x, grad.swapaxes(-1, -2))
    return back, of_mixing, (grad * gate[..., None]).sum(-2), (grad * layer_output[..., None, :]).sum(-1)


# --------------------------------------------------------------------------------------------------- before the layer


class _Gates(NamedTuple):
    """What is computed from the streams: reciprocal root mean square, products with phi, and their three parts."""

    inverse: Array
    products: Array
    before: Array
    after: Array
    mixing: Optional[Array]


def _gates(x: Array, phi: Array, alpha: Array, bias: Array, gamma: Optional[Array], eps: float, least: float) -> _Gates:
    """alpha of two items: the streams are not mixed, and the gates after the layer keep away from 0 too."""
    *lead, n, _ = x.shape
    flat = x.reshape(*lead, -1)
    inverse = 1 / np.sqrt(np.square(flat).mean(-1, keepdims=True) + np.float32(eps))
    products = np.matmul(flat if gamma is None else flat * gamma.reshape(-1), phi.T)
    scaled = products * inverse
    both = [scaled[..., i * n : (i + 1) * n] * alpha[i] + bias[i * n : (i + 1) * n] for i in (0, 1)]
    before, after = sigmoid(both[0]) + np.float32(least), 2 * sigmoid(both[1])
    if alpha.size == 2:
        return _Gates(inverse, products, before, after + np.float32(least), None)
    mixing = scaled[..., 2 * n :] * alpha[2] + bias[2 * n :]
    return _Gates(inverse, products, before, after, mixing.reshape(*lead, n, n))


def _layer_input(x: Array, before: Array) -> Any:
    """The layer's input: the sum of the streams times their gates."""
    return (x * before[..., None]).sum(-2)


@reference("aclnnMhcPre")
def mhc_pre(
    x: Array, phi: Array, alpha: Array, bias: Array, gamma: Optional[Array], eps: float, least: float
) -> tuple[Any, ...]:
    gates = _gates(x, phi, alpha, bias, gamma, eps, least)
    return _layer_input(x, gates.before), gates.after, gates.mixing, gates.inverse[..., 0], gates.products, gates.before


@reference("aclnnMhcPreV2")
def mhc_pre_v2(
    x: Array, phi: Array, alpha: Array, bias: Array, gamma: Optional[Array], eps: float, least: float, mode: int
) -> tuple[Any, ...]:
    results: tuple[Any, ...] = mhc_pre(x, phi, alpha, bias, gamma, eps, least)
    return results


def _pre_backward(
    x: Array,
    phi: Array,
    alpha: Array,
    gamma: Optional[Array],
    grads: tuple[Array, Array, Array],
    inverse: Array,
    products: Array,
    before: Array,
    after: Array,
    least: float,
) -> tuple[Any, Any, Any, Any, Any]:
    """Gradients of x, phi, alpha, bias and gamma; ``inverse`` has an axis of 1 at its end."""
    n, d = x.shape[-2:]
    d_input, d_gate, d_mixing = grads
    scaled = products * inverse
    probs = before - np.float32(least)
    linear = [
        (d_input[..., None, :] * x).sum(-1) * probs * (1 - probs),
        d_gate * after * (1 - after / 2),
        d_mixing.reshape(*x.shape[:-2], n * n),
    ]
    ends = (0, n, 2 * n, 2 * n + n * n)
    of_alpha = [(part * scaled[..., a:b]).sum(dtype=np.float32) for part, a, b in zip(linear, ends, ends[1:])]
    of_bias = np.concatenate([part.reshape(-1, part.shape[-1]).sum(0) for part in linear])
    back = np.concatenate([part * a for part, a in zip(linear, alpha)], -1)
    of_products = back * inverse
    of_inverse = (back * products).sum(-1, keepdims=True)
    flat = x.reshape(*x.shape[:-2], n * d)
    weighted = flat if gamma is None else flat * gamma.reshape(-1)
    of_weighted = np.matmul(of_products, phi)
    of_phi = of_products.reshape(-1, of_products.shape[-1]).T @ weighted.reshape(-1, n * d)
    of_flat = of_weighted if gamma is None else of_weighted * gamma.reshape(-1)
    of_flat = of_flat - of_inverse * inverse**3 / np.float32(n * d) * flat
    of_gamma = None if gamma is None else (of_weighted * flat).reshape(-1, n, d).sum(0)
    of_x = d_input[..., None, :] * before[..., None] + of_flat.reshape(x.shape)
    return of_x, of_phi, np.array(of_alpha, np.float32), of_bias, of_gamma


@reference("aclnnMhcPreBackward")
def mhc_pre_backward(
    x: Array,
    phi: Array,
    alpha: Array,
    of_input: Array,
    of_behind: Array,
    of_mixing: Array,
    inverse: Array,
    products: Array,
    before: Array,
    after: Array,
    gamma: Optional[Array],
    more: Optional[Array],
    least: float,
) -> tuple[Any, Any, Any, Any, Any]:
    """``more`` is a gradient of x from elsewhere."""
    grads = (of_input, of_behind, of_mixing)
    gradients = _pre_backward(x, phi, alpha, gamma, grads, inverse[..., None], products, before, after, least)
    return (gradients[0] if more is None else gradients[0] + more, *gradients[1:])


# --------------------------------------------------------------------------------------------------- doubly stochastic


def _sinkhorn(x: Array, iterations: int, eps: float) -> tuple[list[Array], list[Array]]:
    """Results and sums of all steps: rows and columns are made to sum to 1 in turns, after a softmax of the rows."""
    small = np.float32(eps)
    raised = np.exp(x - x.max(-1, keepdims=True))
    norms = [raised / raised.sum(-1, keepdims=True) + small]
    sums = [np.zeros((*x.shape[:-1], 1), np.float32)]
    for step in range(1, 2 * iterations):
        total = norms[-1].sum(-2 if step % 2 else -1, keepdims=True) + small
        sums.append(total)
        norms.append(norms[-1] / total)
    return norms, sums


def _sinkhorn_backward(grad: Array, norms: Any, sums: Any) -> Any:
    """``sums`` keep the axis that they sum over."""
    for step in range(len(norms) - 1, 0, -1):
        dot = (grad * norms[step]).sum(-2 if step % 2 else -1, keepdims=True)
        grad = (grad - dot) / sums[step]
    return (grad - (grad * norms[0]).sum(-1, keepdims=True)) * norms[0]


def _row(total: Array) -> Array:
    return np.asarray(total[..., 0] if total.shape[-1] == 1 else total[..., 0, :])


def _with_axis(sums: Any) -> list[Any]:
    """Sums of columns (odd steps) before the rows, those of rows after them."""
    return [total[..., None, :] if step % 2 else total[..., None] for step, total in enumerate(sums)]


@reference("aclnnMhcSinkhorn")
def mhc_sinkhorn(x: Array, eps: float, iterations: int) -> tuple[Any, Any, Any]:
    norms, sums = _sinkhorn(x, iterations, eps)
    n = x.shape[-1]
    beside = [(0, 0)] * 3 + [(0, _ALIGNED - n)]
    padded_norms = np.pad(np.stack(norms).reshape(len(norms), -1, n, n), beside)
    rows = np.pad(np.stack([_row(s) for s in sums]).reshape(len(sums), -1, n), beside[1:])
    return norms[-1], padded_norms.reshape(-1), rows.reshape(-1)


@reference("aclnnMhcSinkhornBackward")
def mhc_sinkhorn_backward(grad: Array, norms: Array, sums: Array) -> Any:
    n = grad.shape[-1]
    matrices = grad.reshape(-1, n, n)
    saved_norms = norms.reshape(-1, len(matrices), n, _ALIGNED)[..., :n]
    rows = sums.reshape(-1, len(matrices), _ALIGNED)[..., :n]
    return _sinkhorn_backward(matrices, saved_norms, _with_axis(rows)).reshape(grad.shape)


@reference("aclnnMhcPreSinkhorn")
def mhc_pre_sinkhorn(
    x: Array,
    phi: Array,
    alpha: Array,
    bias: Array,
    n: int,
    iterations: int,
    least: float,
    eps: float,
    backward: bool,
) -> tuple[Any, ...]:
    gates = _gates(x, phi, alpha, bias, None, eps, least)
    assert gates.mixing is not None
    norms, sums = _sinkhorn(gates.mixing, iterations, least)
    results = (_layer_input(x, gates.before), gates.after, norms[-1].reshape(*x.shape[:-2], n * n))
    if not backward:
        return (*results, *(np.zeros(0, np.float32),) * 5)
    rows = np.stack([_row(s) for s in sums])
    return (*results, gates.before, gates.products, gates.inverse, rows, np.stack(norms))


@reference("aclnnMhcPreSinkhornBackward")
def mhc_pre_sinkhorn_backward(
    of_taken: Array,
    of_behind: Array,
    of_mixing: Array,
    x: Array,
    phi: Array,
    alpha: Array,
    bias: Array,
    before: Array,
    products: Array,
    inverse: Array,
    sums: Array,
    norms: Array,
    least: float,
) -> tuple[Any, ...]:
    n = x.shape[-2]
    back = _sinkhorn_backward(of_mixing.reshape(*x.shape[:-2], n, n), norms, _with_axis(sums))
    after = 2 * sigmoid(products[..., n : 2 * n] * inverse * alpha[1] + bias[n : 2 * n])
    grads = (of_taken, of_behind, back)
    return _pre_backward(x, phi, alpha, None, grads, inverse, products, before, after, least)[:4]
