"""Rows quantised on their way into the pages of a cache; slot -1 keeps a row out."""

from __future__ import annotations

from typing import Any, Optional

import ml_dtypes
import numpy as np

from ascend_aclnn.core import hifloat8
from ascend_aclnn.numerics import BFLOAT16, Array, DataError, rounded_to, widen
from ascend_aclnn.reference import _mx
from ascend_aclnn.reference._named import NamedArguments, reference_by_name
from ascend_aclnn.reference._quantise import largest
from ascend_aclnn.reference._rows import check_range

_LEAST = np.float32(1e-4)  # of the largest magnitude, where a power of two becomes the scale
_ROPE = 64
_FP8 = np.dtype(ml_dtypes.float8_e4m3fn)


def _power_above(scale: Array) -> Array:
    """The least power of two that is not below, as the exponent field of a float32."""
    bits = scale.astype(np.float32).view(np.uint32)
    return np.asarray((bits >> 23) + ((bits & 0x7FFFFF) != 0))


def _of_exponent(field: Array) -> Array:
    return np.asarray((field.astype(np.uint32) << 23).view(np.float32))


def _write(cache: Array, rows: Array, slots: Array, name: str) -> None:
    """Rows at the beginning of their slots' memory in a cache (blocks, tokens, 1, width)."""
    if rows.shape[1] > cache.shape[-1]:
        raise DataError(name, f"has rows of {cache.shape[-1]} elements; {rows.shape[1]} must fit")
    slots = slots.reshape(-1)
    check_range("slotMapping", slots, -1, len(cache) * cache.shape[1])
    there = np.flatnonzero(slots >= 0)
    block, place = np.divmod(slots[there], cache.shape[1])
    cache[block, place, 0, : rows.shape[1]] = rows[there]


def _bytes(x: Array) -> Array:
    return np.ascontiguousarray(x).view(np.uint8).reshape(len(x), -1)


def _hifloat8(x: Array) -> Array:
    return rounded_to(np.clip(x, -hifloat8.LARGEST, hifloat8.LARGEST), hifloat8.DTYPE)


def _of_four_bits(plain: Array) -> tuple[Array, Array]:
    """Groups in FLOAT4_E2M1, two to a byte, and their scales; the products are made in BF16, as the kernel's are."""
    most = np.abs(plain).max(-1, keepdims=True)
    factors = widen(rounded_to(np.where(most > 0, 6 / np.where(most > 0, most, 1), 0), BFLOAT16))
    quotients = widen(rounded_to(plain * factors, BFLOAT16))
    codes = rounded_to(np.clip(quotients, -6, 6), np.dtype(ml_dtypes.float4_e2m1fn)).view(np.uint8)
    codes = codes.reshape(len(plain), -1, 2)
    return codes[..., 0] & 15 | codes[..., 1] << 4, rounded_to(most[..., 0] * np.float32(1 / 6), BFLOAT16)


@reference_by_name("aclnnKvCompressEpilog", raw=True)
def kv_compress_epilog(args: NamedArguments) -> dict[str, Any]:
    """Bytes of a row: the last 64 columns as they are, the others in 8 bits, a scale for each 64 of them.

    The scales are BF16, filled up to 32 bytes, or FLOAT8_E8M0 (mode 1); the order is the kernel's. Mode 2 has the last 64
    columns times xScale in HIFLOAT8, the others in FLOAT4_E2M1, a scale for each group.
    """
    x, mode = widen(args["x"]).astype(np.float32).reshape(-1, args["x"].shape[-1]), args["quantMode"]
    if mode == 2:
        rope = _hifloat8(x[:, -_ROPE:] * np.float32(args["xScale"]))
        pairs, scale = _of_four_bits(x[:, :-_ROPE].reshape(len(x), -1, args["quantGroupSize"]))
        row = np.concatenate([_bytes(part) for part in (rope, pairs, scale)], 1)
        _write(args["cacheRef"], np.pad(row, ((0, 0), (0, -row.shape[1] % 32))), args["slotMapping"], "cacheRef")
        return {"cacheRef": args["cacheRef"]}
    plain = x[:, :-_ROPE].reshape(len(x), -1, 64)
    scale = np.maximum(np.abs(plain).max(-1), _LEAST) * np.float32(1 / 448)
    if args["roundScale"]:
        scale = _of_exponent(_power_above(scale))
    quantised = rounded_to(np.clip(plain / scale[..., None], -448, 448), _FP8)
    rotated = np.ascontiguousarray(args["x"].reshape(x.shape)[:, -_ROPE:])
    stored = (scale.view(np.uint32) >> 23).astype(np.uint8) if mode == 1 else rounded_to(scale, BFLOAT16)
    row = np.concatenate([_bytes(part) for part in (rotated, quantised, stored)], 1)
    if mode == 0:
        row = np.pad(row, ((0, 0), (0, -row.shape[1] % 32)))
    _write(args["cacheRef"], row, args["slotMapping"], "cacheRef")
    return {"cacheRef": args["cacheRef"]}


def _undocumented(call: Any) -> Optional[str]:
    if call["quantMode"] == 1 and call["cacheRef"].dtype.name == "UINT8":
        return "what a cache of UINT8 holds in quant_mode 1 is not documented"
    return None


@reference_by_name("aclnnIndexerQuantCache", raw=True, unsupported=_undocumented)
def indexer_quant_cache(args: NamedArguments) -> dict[str, Any]:
    """Rows and their scales: a power of two for each 32 elements (modes 0 and 3) or one float32 (mode 1).

    Mode 2 is x * xScale in HIFLOAT8, whatever the cache's data type; its scales, which the kernel fills with what its
    memory holds, stay as they are.
    """
    x, mode, cache = widen(args["x"]).astype(np.float32), args["quantMode"], args["cacheRef"]
    x = x.reshape(-1, x.shape[-1])
    if mode == 2:
        codes = _hifloat8(x * np.float32(args["xScale"])).view(cache.dtype)
        _write(cache, codes, args["slotMapping"], "cacheRef")
        return {"cacheRef": cache, "cacheScaleRef": args["cacheScaleRef"]}
    if mode == 3:
        quantised, field = _mx.quantised(x, cache.dtype)
        scale = np.ascontiguousarray(field[:, : x.shape[1] // 32]).view(ml_dtypes.float8_e8m0fnu)
    elif mode == 0:
        blocks = x.reshape(len(x), -1, 32)
        field = _power_above(np.maximum(np.abs(blocks).max(-1), _LEAST) * np.float32(1 / largest(cache.dtype)))
        quantised = (blocks / _of_exponent(field)[..., None]).reshape(x.shape)
        scale = field.astype(np.uint8).view(ml_dtypes.float8_e8m0fnu)
    else:
        scale = np.abs(x).max(-1, keepdims=True) * np.float32(1 / largest(cache.dtype))
        if args["roundScale"]:
            scale = np.where(scale > 0, _of_exponent(_power_above(scale)), np.float32(0))
        quantised = np.where(scale > 0, x / np.where(scale > 0, scale, np.float32(1)), x)
    scales = args["cacheScaleRef"]
    _write(cache, rounded_to(np.asarray(quantised, np.float32), cache.dtype), args["slotMapping"], "cacheRef")
    _write(scales, scale.reshape(len(x), -1).astype(scales.dtype), args["slotMapping"], "cacheScaleRef")
    return {"cacheRef": cache, "cacheScaleRef": scales}
