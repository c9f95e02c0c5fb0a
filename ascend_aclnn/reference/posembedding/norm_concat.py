"""Queries, keys and values of two streams: normalised, joined along the sequence, rotated; and the gradients of that."""

from __future__ import annotations

from typing import Any, NamedTuple, Optional

import numpy as np

from ascend_aclnn.numerics import Array
from ascend_aclnn.reference._named import NamedArguments, reference_by_name
from ascend_aclnn.reference.posembedding.rotary import rotated

_NONE, _LAYER, _LAYER_AFFINE, _RMS, _RMS_AFFINE = range(5)  # normType
_UNROTATED, _INTERLEAVE, _HALF = range(3)  # ropeType
_ROTARY = {_INTERLEAVE: 1, _HALF: 0}  # as rotary.rotated counts


class _Normed(NamedTuple):
    values: Array
    mean: Optional[Array]
    rstd: Optional[Array]


def _norm(x: Array, kind: int, weight: Optional[Array], bias: Optional[Array], eps: float) -> _Normed:
    if kind == _NONE:
        return _Normed(x, None, None)
    x = x.astype(np.float32)
    mean = x.mean(-1, keepdims=True) if kind in (_LAYER, _LAYER_AFFINE) else np.zeros((*x.shape[:-1], 1), np.float32)
    rstd = 1 / np.sqrt(np.square(x - mean).mean(-1, keepdims=True) + np.float32(eps))
    y = (x - mean) * rstd
    if kind in (_LAYER_AFFINE, _RMS_AFFINE) and weight is not None:
        y = y * weight
    if kind == _LAYER_AFFINE and bias is not None:
        y = y + bias
    return _Normed(y, mean, rstd)


def _joined(first: Array, second: Optional[Array], order: int) -> Array:
    """Along the sequence, heads moved before it."""
    parts = [first] if second is None else [second, first] if order else [first, second]
    return np.asarray(np.concatenate(parts, 1).swapaxes(1, 2))


def _rotate(x: Array, args: NamedArguments) -> Array:
    """The first positions of (batch, heads, tokens, width); those after the tables are left as they are."""
    kind, cos, sin = args["ropeType"], args["ropeCos"], args["ropeSin"]
    if kind == _UNROTATED or cos is None:
        return x
    y, part = x.copy(), x[:, :, : len(cos)]
    y[:, :, : len(cos)] = part * cos + rotated(part, _ROTARY[kind]) * sin
    return np.asarray(y)


@reference_by_name("aclnnNormRopeConcat")
def norm_rope_concat(args: NamedArguments) -> dict[str, Any]:
    """rope(concat(norm(x), norm(encoder x))) for queries and keys, concat for values: (batch, heads, tokens, width)."""
    eps, order = args["eps"], args["concatOrder"]
    results: dict[str, Any] = {"valueOutput": _joined(args["value"], args["encoderValue"], order)}
    for name in ("Query", "Key"):
        weight, bias = args[f"norm{name}Weight"], args[f"norm{name}Bias"]
        normed = _norm(args[name.lower()], args["normType"], weight, bias, eps)
        added = None
        if args[f"encoder{name}"] is not None:
            weight, bias = args[f"normAdded{name}Weight"], args[f"normAdded{name}Bias"]
            added = _norm(args[f"encoder{name}"], args["normAddedType"], weight, bias, eps)
        joined = _joined(normed.values, None if added is None else added.values, order)
        results[f"{name.lower()}Output"] = _rotate(joined, args)
        for prefix, norm in ((f"norm{name}", normed), (f"normAdded{name}", added)):
            for part in ("mean", "rstd"):
                wanted = args["isTraining"] and norm is not None
                results[prefix + part.capitalize()] = getattr(norm, part) if wanted else None
    for name in [name for name in results if name.endswith(("Mean", "Rstd"))]:
        kind = args["normAddedType"] if "Added" in name else args["normType"]
        if kind not in (_LAYER, _LAYER_AFFINE):
            results[name] = None
    return results


class _NormGradients(NamedTuple):
    x: Array
    weight: Optional[Array]
    bias: Optional[Array]


def _norm_gradients(grad: Array, args: NamedArguments, x: Optional[Array], prefix: str, kind: int) -> _NormGradients:
    """Of a layer norm, from its means and reciprocal deviations."""
    if kind == _NONE or x is None:
        return _NormGradients(grad, None, None)
    normed = (x - args[f"{prefix}Mean"]) * args[f"{prefix}Rstd"]
    weight = args[f"{prefix}Weight"] if kind == _LAYER_AFFINE else None
    inner = grad if weight is None else grad * weight
    means = inner.mean(-1, keepdims=True), (inner * normed).mean(-1, keepdims=True)
    dx = args[f"{prefix}Rstd"] * (inner - means[0] - normed * means[1])
    if weight is None:
        return _NormGradients(dx, None, None)
    return _NormGradients(dx, (grad * normed).sum((0, 1, 2)), grad.sum((0, 1, 2)))


def _unrotate(grad: Array, args: NamedArguments) -> Array:
    """The transpose of the rotation."""
    kind, cos, sin = args["ropeType"], args["ropeCos"], args["ropeSin"]
    if kind == _UNROTATED or cos is None:
        return grad
    unrotated, part = grad.copy(), grad[:, :, : len(cos)]
    unrotated[:, :, : len(cos)] = part * cos - rotated(part * sin, _ROTARY[kind])
    return np.asarray(unrotated)


def _parted(grad: Array, count: int, order: int) -> tuple[Array, Array]:
    """The two streams' parts of (batch, heads, tokens, width), tokens before heads."""
    grad = grad.swapaxes(1, 2)
    encoder_count = grad.shape[1] - count
    return (grad[:, encoder_count:], grad[:, :encoder_count]) if order else (grad[:, :count], grad[:, count:])


@reference_by_name("aclnnNormRopeConcatBackward")
def norm_rope_concat_backward(args: NamedArguments) -> dict[str, Any]:
    """Gradients of both streams and of the layer norms' weights."""
    order, tokens = args["concatOrder"], args["key"].shape[1]
    value, encoder_value = _parted(args["gradValueOutput"], tokens, order)
    results: dict[str, Any] = {"gradValue": value, "gradEncoderValue": encoder_value}
    for name in ("Query", "Key"):
        grad = _unrotate(args[f"grad{name}Output"], args)
        main, added = _parted(grad, args[name.lower()].shape[1], order)
        for part, x, prefix, kind, output in (
            (main, args[name.lower()], f"norm{name}", args["normType"], f"grad{name}"),
            (added, args[f"encoder{name}"], f"normAdded{name}", args["normAddedType"], f"gradEncoder{name}"),
        ):
            gradients = _norm_gradients(part, args, x, prefix, kind)
            capital = prefix[0].upper() + prefix[1:]
            results |= {
                output: gradients.x,
                f"grad{capital}Weight": gradients.weight,
                f"grad{capital}Bias": gradients.bias,
            }
    return results
