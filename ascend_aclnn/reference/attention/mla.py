"""What comes before latent attention (MLA): queries and keys by products, norms and rotation, keys into their caches.

Everything between the inputs and the results is float32 where it is not quantised; the device rounds the results of its
products to BF16.
"""

from __future__ import annotations

import math
from typing import Any, Optional

import ml_dtypes
import numpy as np

from ascend_aclnn.numerics import Array, is_integer, widen
from ascend_aclnn.reference import _mx
from ascend_aclnn.reference._named import NamedArguments, reference_by_name
from ascend_aclnn.reference.attention._pages import lengths_of, slots_of_blocks, write_rows
from ascend_aclnn.reference.matmul.quant import exact_product, fixed_scale

_PLAIN, _PARTIAL, _INT8, _MXFP8, _FP8, _HIF8 = range(6)  # weightQuantMode
_TENSOR, _CHANNEL, _TILE = 1, 2, 3  # kvCacheQuantMode
_BLOCK = 32  # elements with one scale in MXFP8
_FLOAT8 = np.dtype(ml_dtypes.float8_e4m3fn)


def rms_norm(x: Array, gamma: Optional[Array], epsilon: float) -> Array:
    """gamma * x / sqrt(mean(x^2) + epsilon) of the last axis."""
    normed = x / np.sqrt(np.mean(np.square(x), -1, keepdims=True) + np.float32(epsilon))
    return np.asarray(normed if gamma is None else normed * gamma)


def rotate(x: Array, cos: Array, sin: Array, interleaved: bool = True) -> Array:
    """x cos + rotated(x) sin, in halves; ``interleaved`` first puts the elements with even numbers before the others."""
    if interleaved:
        x = np.concatenate([x[..., ::2], x[..., 1::2]], -1)
    first, second = np.split(x, 2, -1)
    return np.asarray(x * cos + np.concatenate([-second, first], -1) * sin)


def by_row(x: Array, dtype: np.dtype[Any]) -> tuple[Array, Array]:
    """Each row in 8 bits, over its largest magnitude, and its scale (..., 1)."""
    most = np.float32(127 if is_integer(dtype) else 448)
    scale = np.max(np.abs(x), -1, keepdims=True, initial=0) / most
    scaled = np.where(scale == 0, 0, x / np.where(scale == 0, 1, scale))
    return _rounded(scaled, dtype), np.asarray(scale, np.float32)


def _rounded(x: Array, dtype: np.dtype[Any]) -> Array:
    """As float32 numbers that the type holds."""
    if is_integer(dtype):
        return np.asarray(np.clip(np.rint(x), -128, 127), np.float32)
    return np.asarray(np.clip(x, -448, 448).astype(dtype).astype(np.float32))


# --------------------------------------------------------------------------------------------------- prologue


class _Prologue:
    """One call; tokens in rows."""

    def __init__(self, args: NamedArguments) -> None:
        self.args = args
        self.lead = args["tokenX"].shape[:-1]
        x, weight = args["tokenX"], args["weightUqQr"]
        stated = args["weightQuantMode"]
        if stated is None:  # the first versions derive it from the data types
            stated = _INT8 if is_integer(x.dtype) else _PARTIAL if is_integer(weight.dtype) else _PLAIN
        self.mode = stated
        self.dtype = np.dtype(np.int8) if self.mode in (_PARTIAL, _INT8) else _FLOAT8
        cache = args["kvCacheQuantMode"]
        if cache is None:
            same = is_integer(args["kvCacheRef"].dtype)
            cache = (_TENSOR if self.mode == _INT8 else _CHANNEL) if same else 0
        self.cache = cache
        self.x = x.reshape(math.prod(x.shape[:-1]), x.shape[-1])

    def wide(self, name: str) -> Array:
        return widen(self.args[name]).astype(np.float32)

    def down(self, weight: str, scale: str) -> Array:
        """The product of the tokens and a weight, dequantised."""
        w = self.args[weight]
        if self.mode not in (_INT8, _MXFP8, _FP8, _HIF8):
            return exact_product(widen(self.x).astype(np.float32), widen(w).astype(np.float32))
        token_scale = self.args["dequantScaleX"]
        return self._scaled(self.x, w, token_scale, self.args[scale])

    def _scaled(self, x: Array, weight: Array, row_scale: Array, scale: Array) -> Array:
        row_scale, scale = (widen(s).astype(np.float32) for s in (row_scale, scale))
        if self.mode == _MXFP8:  # scales of 32 elements along the sum, of weights transposed
            x = widen(x).astype(np.float32) * np.repeat(row_scale.reshape(len(x), -1), _BLOCK, -1)
            weight = widen(weight).astype(np.float32) * np.repeat(scale.reshape(weight.shape[1], -1), _BLOCK, -1).T
            return exact_product(x, weight)
        if is_integer(x.dtype) or is_integer(weight.dtype):
            product = exact_product(x.astype(np.int8), weight)
        else:
            product = exact_product(x, weight)
        return np.asarray(product.astype(np.float32) * row_scale.reshape(-1, 1) * scale.reshape(1, -1))

    def norm_of_query(self) -> tuple[Array, Optional[Array]]:
        """The normalised query, in 8 bits with its scales where the products are."""
        args = self.args
        factor = 1.0 if args["qcQrScale"] is None else args["qcQrScale"]
        down = self.down("weightDq", "dequantScaleWDq")
        normed = rms_norm(down, self.wide("rmsnormGammaCq"), args["rmsnormEpsilonCq"]) * np.float32(factor)
        if self.mode == _PLAIN:
            return normed, None
        if self.mode == _MXFP8:
            elements, scale = _mx.quantised(normed, _FLOAT8)
            return _rounded(elements, _FLOAT8), scale[:, : normed.shape[1] // _BLOCK].view(ml_dtypes.float8_e8m0fnu)
        smooth = args["smoothScalesCq"]
        return by_row(normed if smooth is None else normed * smooth.reshape(1, -1), self.dtype)

    def queries(self, normed: Array, scale: Optional[Array]) -> tuple[Array, Array]:
        """The absorbed part (tokens, heads, latent) and the other one, not rotated yet."""
        weight, up = self.args["weightUqQr"], self.wide("weightUk")
        if scale is None:
            product = exact_product(normed, widen(weight).astype(np.float32))
        else:
            product = self._scaled(normed, weight, scale, self.args["dequantScaleWUqQr"])
        heads, width = up.shape[:2]
        product = product.reshape(len(product), heads, product.shape[1] // heads)
        return np.einsum("tnd,ndc->tnc", product[..., :width], up, optimize=True), product[..., width:]

    def rotated(self, x: Array) -> Array:
        """Tokens (and heads), rotated unless a later operator does that."""
        if self.args["doRope"] is False:
            return x
        cos, sin = (self.wide(name) for name in ("ropeCos", "ropeSin"))
        cos, sin = (part.reshape(len(x), *(1,) * (x.ndim - 2), part.shape[-1]) for part in (cos, sin))
        return rotate(x, cos, sin)

    def run(self) -> dict[str, Any]:
        args = self.args
        normed, scale = self.norm_of_query()
        nope, rope = self.queries(normed, scale)
        rope = self.rotated(rope)
        dequant = None
        if self.cache == _TENSOR and self.mode >= _INT8:
            nope, dequant = by_row(nope, self.dtype)
            rope = rope * (args["quantScaleCkv"].reshape(-1)[0] / dequant)
        self.store()
        heads = nope.shape[1]
        return {
            "kvCacheRef": args["kvCacheRef"],
            "krCacheRef": args["krCacheRef"],
            "queryOut": nope.reshape(*self.lead, heads, nope.shape[-1]),
            "queryRopeOut": rope.reshape(*self.lead, heads, rope.shape[-1]),
            "dequantScaleQNopeOut": dequant,
            "queryNormOut": normed.reshape(*self.lead, normed.shape[-1]),
            "dequantScaleQNormOut": scale,
        }

    # ------------------------------------------------------------------------------------------- keys

    def store(self) -> None:
        """The latent and the rotated key of each token into their caches."""
        args = self.args
        both = self.down("weightDkvKr", "dequantScaleWDkvKr")
        width = args["weightUk"].shape[2]
        factor = 1.0 if args["kcScale"] is None else args["kcScale"]
        latent = rms_norm(both[:, :width], self.wide("rmsnormGammaCkv"), args["rmsnormEpsilonCkv"]) * np.float32(factor)
        key = self.rotated(both[:, width:])
        kv, kr = args["kvCacheRef"], args["krCacheRef"]
        if self.cache == _TILE:
            self._write(kv, self._tiles(latent, key, kv.dtype))
            return
        if self.cache:
            latent = latent * args["quantScaleCkv"].reshape(1, -1)
        if self.cache == _CHANNEL:
            key = key * args["quantScaleCkr"].reshape(1, -1)
        self._write(kv, latent)
        self._write(kr, key)

    def _tiles(self, latent: Array, key: Array, dtype: np.dtype[Any]) -> Array:
        """Elements of 8 bits, the rotated part in BF16, and a float32 scale for each tile, byte by byte."""
        size = self.args["tileSize"] or 128
        tiles = latent.reshape(len(latent), latent.shape[1] // size, size)
        alpha = self.args["kNopeClipAlpha"]
        most = np.max(np.abs(tiles), -1, keepdims=True)
        if alpha is not None:
            most = most * np.float32(np.asarray(alpha).reshape(-1)[0])
            tiles = np.clip(tiles, -most, most)
        scale = most / np.float32(127 if is_integer(dtype) else 448)
        elements = _rounded(np.where(scale == 0, 0, tiles / np.where(scale == 0, 1, scale)), dtype).astype(dtype)
        parts = elements.reshape(latent.shape), key.astype(ml_dtypes.bfloat16), scale[..., 0].astype(np.float32)
        joined = np.concatenate([np.ascontiguousarray(part).view(np.uint8) for part in parts], -1)
        return joined.view(dtype)

    def _write(self, cache: Array, rows: Array) -> None:
        mode, index = self.args["cacheMode"] or "PA_BSND", self.args["cacheIndex"]
        if cache.size == 0 or not len(rows):
            return
        name = "cacheIndex" if self.args.operator in ("aclnnMlaProlog", "aclnnMlaPrologV2") else "cacheIndexOptional"
        if mode in ("BSND", "TND"):
            pages = cache.reshape(1, -1, *cache.shape[-2:])
            write_rows(pages, rows, np.arange(len(rows)), name)
            if not np.may_share_memory(pages, cache):
                cache[...] = pages.reshape(cache.shape)
            return
        if "BLK" in mode:
            lengths = lengths_of(self.args["actualSeqLen"], self.lead)
            index = slots_of_blocks(index, lengths, cache.shape[1], name)
        write_rows(cache, rows, index, name, mode.endswith("NZ"))


@reference_by_name(
    "aclnnMlaProlog",
    "aclnnMlaPrologV2",
    "aclnnMlaPrologV2WeightNz",
    "aclnnMlaPrologV3",
    "aclnnMlaPrologV3WeightNz",
    "aclnnMlaPrologV4WeightNz",
    raw=True,
)
def mla_prolog(args: NamedArguments) -> dict[str, Any]:
    """c^Q = rmsnorm(x W^DQ), q^N = c^Q W^UQ W^UK, q^R = rope(c^Q W^QR); rmsnorm(x W^DKV) and rope(x W^KR) are cached."""
    return _Prologue(args).run()


# --------------------------------------------------------------------------------------------------- preprocess

_JOINED, _SPLIT, _SPLIT_INT8, _SPLIT_NZ = range(4)  # cacheMode


def _normed(x: Array, args: NamedArguments, number: int) -> Array:
    return rms_norm(x, widen(args[f"gamma{number}"]), args["epsilon"]) + widen(args[f"beta{number}"])


def _quantised(x: Array, args: NamedArguments, number: int) -> Array:
    """round(x / scale + offset), in 8 bits."""
    scale, offset = (widen(args[f"quant{part}{number}"]).reshape(-1)[0] for part in ("Scale", "Offset"))
    return np.asarray(np.clip(np.rint(x / np.float32(scale) + np.float32(offset)), -128, 127).astype(np.int8))


def _projected(x: Array, args: NamedArguments, weight: str, number: int) -> Array:
    """x weight^T with a bias, dequantised by column."""
    w = args[weight]
    product = exact_product(x, w.reshape(-1, x.shape[-1]).T)
    bias = args[f"bias{number}"]
    if bias is not None and bias.size:
        product = product + bias
    return np.asarray(product.astype(np.float32) * fixed_scale(args[f"descale{number}"]))


def _preprocess_unsupported(call: Any) -> Optional[str]:
    if call["quantMode"] != 0:
        return f"the NumPy backend computes static quantisation only; quant_mode is {call['quantMode']}"
    return None


@reference_by_name("aclnnMlaPreprocess", "aclnnMlaPreprocessV2", raw=True, unsupported=_preprocess_unsupported)
def mla_preprocess(args: NamedArguments) -> dict[str, Any]:
    """The same with static quantisation of the tokens and of the normalised query; weights are transposed.

    The first product gives the latent of keys, their part that is rotated, then the query's latent.
    """
    up, mode, rope_width = widen(args["wuk"]), args["cacheMode"], args["kRopeDim"] or 64
    width = up.shape[2]
    x = widen(args["input"])
    x = x if args["doRmsNorm"] is False else _normed(x, args, 0)
    down = _projected(_quantised(x, args, 0), args, "wdqkv", 0)
    latent, key, query = np.split(down, [width, width + rope_width], -1)
    query = _normed(query, args, 1)
    up_query = _projected(_quantised(query, args, 1), args, "wuq", 1)
    up_query = up_query.reshape(len(x), up.shape[0], up_query.shape[1] // up.shape[0])
    nope = np.einsum("tnd,ndc->tnc", up_query[..., : up.shape[1]], up, optimize=True)
    rope = up_query[..., up.shape[1] :]
    latent = rms_norm(latent, widen(args["gamma2"]), args["epsilon"])
    if args["cos"] is not None:
        cos, sin = (widen(args[name])[..., :rope_width].reshape(len(x), rope_width) for name in ("cos", "sin"))
        key, rope = rotate(key, cos, sin, False), rotate(rope, cos[:, None], sin[:, None], False)
    kv, slots = np.array(args["kvCache"]), args["slotMapping"]
    results = {"qDownOutOut": query if args["qDownOutFlag"] else None}
    if mode == _JOINED:
        write_rows(kv, np.concatenate([latent, key], -1), slots, "slotMapping")
        return results | {"qOutOut": np.concatenate([nope, rope], -1), "kvCacheOutOut": kv}
    if mode == _SPLIT_INT8:
        latent = latent / np.float32(widen(args["ctkvScale"]).reshape(-1)[0])
        nope = nope * widen(args["qNopeScale"]).reshape(1, -1, 1)  # not divided, as the keys are
    kr = np.array(args["kvCacheRope"])
    for cache, rows in ((kv, latent), (kr, key)):
        _write_pages(cache, rows, slots, mode != _SPLIT)
    return results | {"qOutOut": nope, "kvCacheOutOut": kv, "qRopeOutOut": rope, "krCacheOutOut": kr}


def _write_pages(cache: Array, rows: Array, slots: Array, nz: bool) -> None:
    """Pages (tokens, heads, width), or fractal (width / c, tokens, c)."""
    if nz:
        pages, _, size, _ = cache.shape
        cache = cache.reshape(pages, size, 1, rows.shape[1])
    write_rows(cache, rows, slots, "slotMapping", nz)
