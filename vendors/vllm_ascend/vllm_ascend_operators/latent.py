"""mla_preprocess, a kernel that vllm-ascend launches as a binary: tokens to latents of keys and to queries, in one launch."""

from __future__ import annotations

from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from ascend_aclnn.numerics import Array, round_into, rounded_to, widen
from ascend_aclnn.reference.attention.mla import rms_norm, rotate
from ascend_aclnn.reference.kernels import DataError, Pointer, kernel
from vllm_ascend_operators.quantised import product

_EPSILON = 1e-6
_SPLIT, _BLOCKS = 1, 3  # caches as rows of tokens, or in blocks of 128 tokens and 16 columns
_UNQUANTISED = 3
_KEYS = (1, 257, 259, 281, 769, 771)  # that the kernel knows, of caches in two parts
_BLOCK = 128


class _Sizes(NamedTuple):
    """What the tiling in device memory says."""

    dtype: np.dtype[Any]
    cache: int
    quantised: bool
    inner: bool
    tokens: int
    heads: int
    hidden: int
    queries: int  # columns of the latents of queries,
    latents: int  # of keys,
    rope: int
    nope: int

    @classmethod
    def read(cls, tiling: Pointer) -> _Sizes:
        words = [int(word) for word in tiling.array(114, np.uint32)]
        key = words[0]
        if key not in _KEYS:
            raise DataError("tiling", f"has the key {key}; the kernel knows {', '.join(map(str, _KEYS))}")
        dtype = np.dtype(ml_dtypes.bfloat16 if key >> 8 & 1 else np.float16)
        mode = key >> 3 & 7
        sizes = (words[15], words[78], words[102], words[106], words[107], words[108], words[112])
        return cls(dtype, key & 7, mode != _UNQUANTISED, bool(key >> 9 & 1), *sizes)

    @property
    def down(self) -> int:
        """The columns of the first product: latents, rotated part, queries."""
        return self.latents + self.rope + self.queries

    @property
    def up(self) -> int:
        """The columns of the second product."""
        return self.heads * (self.nope + self.rope)


class _Quantisation(NamedTuple):
    scale: Pointer
    offset: Pointer
    bias: Pointer
    descale: Pointer


def _matrix(weight: Pointer, rows: int, columns: int, dtype: np.dtype[Any]) -> Array:
    """A matrix in FRACTAL_NZ: blocks of 32 bytes of columns, in which all rows lie, a multiple of 16 of them."""
    width, padded = 32 // dtype.itemsize, -(-rows // 16) * 16
    blocks = weight.array((-(-columns // width), padded, width), dtype)
    return blocks.transpose(1, 0, 2).reshape(padded, -1)[:rows, :columns]


def _projected(x: Array, weight: Pointer, columns: int, quantisation: _Quantisation, sizes: _Sizes) -> Array:
    """x @ weight.T, in the data type; through 8 bits where weights are so."""
    if not sizes.quantised:
        return widen(rounded_to(x @ widen(_matrix(weight, columns, x.shape[1], sizes.dtype)).T, sizes.dtype))
    factor = np.float32(1) / np.float32(quantisation.scale.array(1, sizes.dtype)[0])
    offset = np.float32(quantisation.offset.array(1, np.int8)[0])
    with np.errstate(over="ignore"):
        codes = np.clip(np.rint((x * factor + offset).astype(np.float16)), -128, 127)
    total = product(codes, _matrix(weight, columns, x.shape[1], np.dtype(np.int8)).T)
    total = total + quantisation.bias.array(columns, np.int32)
    if sizes.dtype == np.float16:  # in the fixpipe's format: 19 bits of a float in the lower half of 64
        words = quantisation.descale.array(columns, np.uint64).astype(np.uint32)
        scales = (words & np.uint32(0xFFFFE000)).view(np.float32)
    else:
        scales = quantisation.descale.array(columns, np.float32)
    return widen(rounded_to(total.astype(np.float32) * scales, sizes.dtype))


def _store(cache: Pointer, rows: Array, slots: Array, sizes: _Sizes) -> None:
    """Rows to the slots of their tokens, -1 for none."""
    kept = slots != -1
    slots, rows = slots[kept].astype(np.int64), rounded_to(rows[kept], sizes.dtype)
    if not slots.size:
        return
    if sizes.cache == _SPLIT:
        cache.array((int(slots.max()) + 1, rows.shape[1]), sizes.dtype)[slots] = rows
        return
    blocks = cache.array((int(slots.max()) // _BLOCK + 1, rows.shape[1] // 16, _BLOCK, 16), sizes.dtype)
    blocks[slots // _BLOCK, :, slots % _BLOCK] = rows.reshape(len(rows), -1, 16)


@kernel(
    """void mla_preprocess(uint64_t sync, GM_ADDR hiddenState, GM_ADDR quantScale1, GM_ADDR quantOffset1, GM_ADDR wdqkv,
    GM_ADDR bias1, GM_ADDR gamma2, GM_ADDR beta2, GM_ADDR quantScale2, GM_ADDR quantOffset2, GM_ADDR gamma3, GM_ADDR sin1,
    GM_ADDR cos1, GM_ADDR sin2, GM_ADDR cos2, GM_ADDR keycache, GM_ADDR slotMapping, GM_ADDR wuq, GM_ADDR bias2, GM_ADDR wuk,
    GM_ADDR descale1, GM_ADDR descale2, GM_ADDR ctkvScale, GM_ADDR qnopeScale, GM_ADDR q, GM_ADDR keycacheOut, GM_ADDR q2,
    GM_ADDR keycacheOut2, GM_ADDR innerOut, GM_ADDR workspace, GM_ADDR tiling)"""
)
def mla_preprocess(
    sync: int,
    hidden: Pointer,
    scale_1: Pointer,
    offset_1: Pointer,
    down: Pointer,
    bias_1: Pointer,
    gamma_2: Pointer,
    beta_2: Pointer,
    scale_2: Pointer,
    offset_2: Pointer,
    gamma_3: Pointer,
    sin_1: Pointer,
    cos_1: Pointer,
    sin_2: Pointer,
    cos_2: Pointer,
    cache: Pointer,
    slots: Pointer,
    up: Pointer,
    bias_2: Pointer,
    of_keys: Pointer,
    descale_1: Pointer,
    descale_2: Pointer,
    cache_scale: Pointer,
    query_scale: Pointer,
    nope_out: Pointer,
    latents_out: Pointer,
    rope_out: Pointer,
    rotated_out: Pointer,
    inner_out: Pointer,
    workspace: Pointer,
    tiling: Pointer,
) -> None:
    """The norms, products and rotations of MLA up to its attention; latents and their rotated part go to the slots of the caches.

    Between its steps the kernel rounds to the data type of the tokens, as ATB's operation of this name does.
    """
    s = _Sizes.read(tiling)

    def wide(pointer: Pointer, *shape: int) -> Array:
        return widen(pointer.array(shape, s.dtype))

    first, second = (
        _Quantisation(scale_1, offset_1, bias_1, descale_1),
        _Quantisation(scale_2, offset_2, bias_2, descale_2),
    )
    x = _projected(wide(hidden, s.tokens, s.hidden), down, s.down, first, s)
    latents, rotated, queries = np.split(x, [s.latents, s.latents + s.rope], -1)
    queries = rms_norm(queries, wide(gamma_2, s.queries), _EPSILON) + wide(beta_2, s.queries)
    if s.inner:
        round_into(inner_out.array(queries.shape, s.dtype), queries)
    if not s.quantised:
        queries = widen(rounded_to(queries, s.dtype))
    heads = _projected(queries, up, s.up, second, s).reshape(s.tokens, s.heads, -1)
    keys = wide(of_keys, s.heads, s.nope, s.latents)
    nope = np.matmul(heads[..., : s.nope].transpose(1, 0, 2), keys).transpose(1, 0, 2)
    round_into(nope_out.array(nope.shape, s.dtype), nope)
    cos, sin = wide(cos_1, s.tokens, s.rope), wide(sin_1, s.tokens, s.rope)
    rope = rotate(heads[..., s.nope :], cos[:, None], sin[:, None], False)
    round_into(rope_out.array(rope.shape, s.dtype), rope)
    at = slots.array(s.tokens, np.int32)
    _store(latents_out, rms_norm(latents, wide(gamma_3, s.latents), _EPSILON), at, s)
    _store(rotated_out, rotate(rotated, cos, sin, False), at, s)
