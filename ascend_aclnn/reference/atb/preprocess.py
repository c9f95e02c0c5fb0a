"""ATB's preparation of tokens for attention with latent keys (MLA)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ascend_aclnn.numerics import Array, round_into, widen
from ascend_aclnn.reference.atb._operations import Arguments, operation_reference
from ascend_aclnn.reference.attention._pages import write_rows
from ascend_aclnn.reference.attention.mla import rms_norm, rotate
from ascend_aclnn.reference.matmul.quant import exact_product, fixed_scale

_EPSILON = 1e-6  # the kernel's own: the parameter is not read
_JOINED, _SPLIT, _INT8, _NZ = range(4)  # cacheMode
_LATENT, _ROPE = 512, 64


def _unfolded(weight: Array) -> Array:
    """(..., rows, columns) of fractals (..., columns / c, rows, c)."""
    if weight.ndim < 4:
        return weight
    moved = np.moveaxis(weight, -3, -2)
    return moved.reshape(*moved.shape[:-2], -1)


def _rounded(x: Array, dtype: np.dtype[Any]) -> Array:
    """In a type of 16 bits and back, as between the steps of the kernel."""
    return widen(x.astype(np.float32).astype(dtype))


def _integers(x: Array) -> Array:
    """In 8 bits, through FLOAT16 as the kernel has it."""
    with np.errstate(over="ignore"):
        return np.clip(np.rint(x.astype(np.float16)), -128, 127).astype(np.int8)


def _projected(x: Array, args: Arguments, number: int, weight: str, dtype: np.dtype[Any]) -> Array:
    """The norm of x, quantised, times a transposed weight; scaled back."""
    x = rms_norm(x, widen(args[f"gamma{number}"]), _EPSILON) + widen(args[f"beta{number}"])
    w = _unfolded(args[weight]).reshape(-1, x.shape[-1])
    scale = fixed_scale(args[f"descale{number}"])
    if args["quantMode"] == 0:
        factor, offset = (widen(args[f"quant{part}{number}"]).reshape(-1)[0] for part in ("Scale", "Offset"))
        whole = _integers(x * (np.float32(1) / np.float32(factor)) + np.float32(offset))
        product = exact_product(whole, w.T) + args[f"bias{number}"]
        return _rounded(product.astype(np.float32) * scale, dtype)
    rows = np.abs(x).max(-1, keepdims=True) / np.float32(127)
    with np.errstate(divide="ignore", invalid="ignore"):
        whole = _integers(np.where(rows == 0, 0, x * (np.float32(1) / rows)))
    return _rounded(exact_product(whole, w.T).astype(np.float32) * scale * rows, dtype)


@operation_reference("MlaPreprocess", raw=True)
def mla_preprocess(args: Arguments) -> None:
    """Tokens through a norm and a product to latents of keys (512 and 64 to rotate) and of queries; the latter through another.

    Queries come out beside each other (heads, 512 and 64) or apart, and so are the caches, at the slots of the tokens.
    """
    dtype, mode = args["input"].dtype, args["cacheMode"]
    up = widen(_unfolded(args["wuk"]))
    down = _projected(widen(args["input"]), args, 0, "wdqkv", dtype)
    latent, key, query = np.split(down, [_LATENT, _LATENT + _ROPE], -1)
    heads = _projected(query, args, 1, "wuq", dtype).reshape(len(down), len(up), -1)
    nope = _rounded(np.einsum("tnd,ndc->tnc", heads[..., : up.shape[1]], up, optimize=True), dtype)
    cos, sin = widen(args["cos"]), widen(args["sin"])
    rope = rotate(heads[..., up.shape[1] :], cos[:, None], sin[:, None], False)
    latent, key = rms_norm(latent, widen(args["gamma2"]), _EPSILON), rotate(key, cos, sin, False)
    if mode == _JOINED:
        round_into(args["qOut0"], np.concatenate([nope, rope], -1))
        write_rows(args["kvCacheOut0"], np.concatenate([latent, key], -1), args["slotMapping"], "slotMapping")
        return
    if mode == _INT8:
        latent = _integers(latent * (np.float32(1) / np.float32(widen(args["ctkvScale"]).reshape(-1)[0])))
        nope = _integers(nope * widen(args["qNopeScale"]).reshape(-1, 1))  # not divided, as the keys are
    round_into(args["qOut0"], nope)
    round_into(args["qOut1"], rope)
    for cache, rows in ((args["kvCacheOut0"], latent), (args["kvCacheOut1"], key)):
        write_rows(cache if mode == _SPLIT else cache.swapaxes(1, 2), rows, args["slotMapping"], "slotMapping")
