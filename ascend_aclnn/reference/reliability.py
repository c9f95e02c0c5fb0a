"""Encryption and checks of products.

AES-128 (FIPS 197) in counter mode (NIST SP 800-38A) and Galois / counter mode (SP 800-38D); checksums of products (ABFT).
"""

from __future__ import annotations

import functools
from typing import Optional

import numpy as np

from ascend_aclnn.numerics import Array, DataError
from ascend_aclnn.reference.declare import reference

_BLOCK = 16  # bytes
_LANES = 256  # blocks of the hash that are multiplied at once
_READ_KEY, _ENCRYPT, _DECRYPT = range(3)
_CTR, _GCM = 1, 2


def _doubled(x: Array) -> Array:
    """Products with 2 in AES's field of 256 elements."""
    return np.asarray((x << 1) ^ (0x1B * (x >> 7)), np.uint8)


@functools.cache
def _substitution() -> Array:
    """AES's table of bytes: inverses in the field, mixed and moved."""
    powers, value = [], 1
    for _ in range(255):
        powers.append(value)
        value ^= (value << 1) ^ (0x11B if value & 0x80 else 0)  # times 3, which generates the field
    table = np.zeros(256, np.uint8)
    table[powers] = np.array(powers[:1] + powers[:0:-1], np.uint8)  # the inverse of 3^n is 3^(255 - n)
    rotated = [(table << n) | (table >> (8 - n)) for n in range(5)]
    return np.asarray(functools.reduce(np.bitwise_xor, rotated) ^ 0x63, np.uint8)


def _round_keys(key: Array) -> Array:
    words, factor = list(key.reshape(4, 4)), np.uint8(1)
    for number in range(4, 44):
        word = words[-1]
        if number % 4 == 0:
            word = _substitution()[np.roll(word, -1)]
            word[0] ^= factor
            factor = _doubled(factor.reshape(1))[0]
        words.append(words[-4] ^ word)
    return np.stack(words).reshape(11, _BLOCK)


# Row r of the square of bytes moves by r columns; bytes go down the columns.
_SHIFTED = np.array([(i + 4 * (i % 4)) % _BLOCK for i in range(_BLOCK)])


def _encrypted(blocks: Array, keys: Array) -> Array:
    """Blocks (n, 16) of bytes."""
    state = blocks ^ keys[0]
    for number, key in enumerate(keys[1:], 1):
        state = _substitution()[state][:, _SHIFTED]
        if number < len(keys) - 1:
            columns = state.reshape(-1, 4, 4)
            after = np.roll(columns, -1, 2)
            total = np.bitwise_xor.reduce(columns, 2, keepdims=True)
            state = (columns ^ total ^ _doubled(columns ^ after)).reshape(-1, _BLOCK)
        state = state ^ key
    return np.asarray(state)


def _counted(start: Array, count: int, counter_bytes: int) -> Array:
    """Blocks whose last bytes count on from those of the first block."""
    first = int.from_bytes(start[_BLOCK - counter_bytes :].tobytes(), "big")
    words = counter_bytes // 4  # of 32 bits, the lowest last; a sum carries into the next
    blocks, carry = np.tile(start, (count, 1)), np.arange(count, dtype=np.uint64)
    for number in range(words):
        total = np.uint64((first >> (32 * number)) & 0xFFFFFFFF) + (carry & np.uint64(0xFFFFFFFF))
        end = _BLOCK - 4 * number
        blocks[:, end - 4 : end] = total.astype(">u8").view(np.uint8).reshape(-1, 8)[:, 4:]
        carry = (carry >> np.uint64(32)) + (total >> np.uint64(32))
    return blocks


def _combined(text: Array, counters: Array, keys: Array) -> Array:
    stream = _encrypted(counters, keys).reshape(-1)[: len(text)]
    return np.asarray(text ^ stream)


# ------------------------------------------------------------------------------------------------- the hash of GCM

_REDUCTION = 0xE1 << 120  # x^128 = x^7 + x^2 + x + 1, the lowest power in the highest bit


def _times_x(value: int) -> int:
    return (value >> 1) ^ (_REDUCTION if value & 1 else 0)


def _table(factor: int) -> Array:
    """Products of every byte at each of the 16 places with a factor: (16, 256) of 16 bytes."""
    powers = [factor]
    for _ in range(127):
        powers.append(_times_x(powers[-1]))
    bits = np.frombuffer(b"".join(p.to_bytes(_BLOCK, "big") for p in powers), np.uint8).reshape(_BLOCK, 8, _BLOCK)
    chosen = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1)  # the highest bit first
    products = np.where(chosen[None, :, :, None] != 0, bits[:, None], 0)
    return np.asarray(np.bitwise_xor.reduce(products, 2), np.uint8)


def _product(blocks: Array, table: Array) -> Array:
    return np.asarray(np.bitwise_xor.reduce(table[np.arange(_BLOCK), blocks], 1))


def _hash(blocks: Array, key: int) -> Array:
    """The sum of block i times key^(n - i), in lanes: each lane takes every 256th block."""
    rounds = -(-len(blocks) // _LANES)
    padded = np.zeros((rounds * _LANES, _BLOCK), np.uint8)  # zeros in front change nothing
    padded[rounds * _LANES - len(blocks) :] = blocks
    of_key, power = _table(key), np.frombuffer(key.to_bytes(_BLOCK, "big"), np.uint8)[None]
    for _ in range(_LANES - 1):
        power = _product(power, of_key)
    of_lanes = _table(int.from_bytes(power.tobytes(), "big"))
    lanes = np.zeros((_LANES, _BLOCK), np.uint8)
    for part in padded.reshape(rounds, _LANES, _BLOCK):
        lanes = _product(lanes, of_lanes) ^ part
    total = np.zeros((1, _BLOCK), np.uint8)
    for lane in lanes:
        total = _product(total ^ lane, of_key)
    return np.asarray(total[0])


def _blocks(data: Array) -> Array:
    return np.concatenate((data, np.zeros(-len(data) % _BLOCK, np.uint8))).reshape(-1, _BLOCK)


def _lengths(first: int, second: int) -> Array:
    return np.frombuffer((8 * first).to_bytes(8, "big") + (8 * second).to_bytes(8, "big"), np.uint8)[None]


def _galois(text: Array, iv: Array, keys: Array, encrypt: bool) -> tuple[Array, Array]:
    """The other text, and the tag of the encrypted one."""
    key = int.from_bytes(_encrypted(np.zeros((1, _BLOCK), np.uint8), keys).tobytes(), "big")
    if len(iv) == 12:
        start = np.concatenate((iv, np.array([0, 0, 0, 1], np.uint8)))
    else:
        start = _hash(np.concatenate((_blocks(iv), _lengths(0, len(iv)))), key)
    counters = _counted(start, -(-len(text) // _BLOCK) + 1, 4)
    other = _combined(text, counters[1:], keys)
    hashed = _hash(np.concatenate((_blocks(other if encrypt else text), _lengths(0, len(text)))), key)
    return other, np.asarray(hashed ^ _encrypted(counters[:1], keys)[0])


@reference("aclnnCrypto", raw=True)
def crypto(
    key: Array,
    text: Optional[Array],
    iv: Optional[Array],
    config: Array,
    tag: Optional[Array],
    aad: None,
    *,
    out: tuple[Optional[Array], Optional[Array], Array],
) -> None:
    """The bytes of a tensor, encrypted or decrypted; ``config`` is version, mode, algorithm, kind, number and device.

    Mode 0 reads a key of the host's key service into ``key``, which neither a reference nor an emulated device has.
    """
    if config.size != 6:
        raise DataError("opConfig", f"has {config.size} numbers; it must have 6")
    _, mode, algorithm, _, _, _ = config.reshape(-1).tolist()
    target, tag_out, status = out
    if mode not in (_ENCRYPT, _DECRYPT):
        why = "asks for a key of the host's key service (mode 0)" if mode == _READ_KEY else f"has mode {mode}"
        raise DataError("opConfig", f"{why}; allowed: 1 (encrypt), 2 (decrypt)")
    if algorithm not in (_CTR, _GCM):
        raise DataError("opConfig", f"has algorithm {algorithm}; allowed: 1 (AES-128 CTR), 2 (AES-128 GCM)")
    if key.size != _BLOCK:
        raise DataError("key", f"has {key.size} bytes; AES-128 takes 16")
    if text is None or iv is None or target is None:
        raise DataError("inputText", "inputText, outputText and iv are required to encrypt and decrypt")
    keys, start = _round_keys(np.ascontiguousarray(key).reshape(-1)), np.ascontiguousarray(iv).reshape(-1)
    data = np.ascontiguousarray(text).reshape(-1).view(np.uint8)
    if algorithm == _CTR:
        if len(start) != _BLOCK:
            raise DataError("iv", f"has {len(start)} bytes; counter mode takes 16")
        result = _combined(data, _counted(start, -(-len(data) // _BLOCK), _BLOCK), keys)
    else:
        if tag is None or tag.size != _BLOCK or not len(start):
            raise DataError("tag", "GCM takes a tag of 16 bytes and an iv with elements")
        result, computed_tag = _galois(data, start, keys, mode == _ENCRYPT)
        if mode == _DECRYPT and not np.array_equal(computed_tag, tag.reshape(-1)):
            raise DataError("tag", "does not belong to this text, key and iv")
        if tag_out is not None:
            tag_out[...] = computed_tag.reshape(tag_out.shape)
    target[...] = result.view(target.dtype).reshape(target.shape)
    status[...] = 0


# ----------------------------------------------------------------------------------------------- checksums of products

_SLICE = 256  # columns of B and C under one checksum
_EXTREME = 1e10  # where the kernel's search for the least and the greatest element starts


@reference("aclnnMatmulAbftVerify")
def matmul_abft_verify(a: Array, b: Array, c: Array, checksum_weight: Array, e_max: float) -> Array:
    """Whether the weighted sum of a row of C over a slice of 256 columns is that of A @ B: bits, 1 for a right sum.

    The threshold is that of the public kernel (ops-ras, matmul_abft_verify). For a row of A with mean m and deviation s and a
    slice of n columns it is ``6 * e_max * sqrt(K / 1024) * (n * u * |m| + 4 * sqrt(n * (v * m)^2 + n^2 * q * s^2) +
    sqrt(n) * v * s)``. With the mean of each row of B in the slice, u is the sum of their magnitudes, q the sum of their
    squares and v^2 the sum of the rows' variances. A variance is estimated as (max - mean) * (mean - min).

    The result is (slices, ceil(M / 8)) bytes, flat; row 8 * i + j is bit j of byte i, and rows past M are 1.

    Sums and thresholds are float64 here. The kernel computes them in float32, rounds B @ checksumWeight to the dtype of B,
    and 1 / K to that of A, so a difference close to the threshold may fall on the other side. It sums the columns of C
    without weights, against the formula of its document, and so agrees with it where all weights are 1; it counts u twice
    for the last rows of B where fewer than 64 are left of 256; and it leaves the bits of rows past M undefined.
    """
    (rows, depth), columns = a.shape, b.shape[1]
    starts = np.arange(0, columns, _SLICE)
    widths = np.minimum(columns - starts, _SLICE)
    sums_of_b = np.add.reduceat(b * checksum_weight, starts, axis=1, dtype=np.float64)
    means_of_b = sums_of_b / widths
    spreads = (np.maximum.reduceat(b, starts, axis=1) - means_of_b) * (
        means_of_b - np.minimum.reduceat(b, starts, axis=1)
    )
    deviation_of_b = np.sqrt(np.abs(spreads.sum(0)))
    low = a.min(1, keepdims=True, initial=_EXTREME)
    high = a.max(1, keepdims=True, initial=-_EXTREME)
    mean = a.sum(1, dtype=np.float64, keepdims=True) / max(depth, 1)
    deviation = np.sqrt(np.abs((high - mean) * (mean - low)))
    threshold = widths * np.abs(means_of_b).sum(0) * np.abs(mean)
    threshold += 4 * np.sqrt(
        widths * (deviation_of_b * mean) ** 2 + (widths * deviation) ** 2 * np.square(means_of_b).sum(0)
    )
    threshold += np.sqrt(widths) * deviation_of_b * deviation
    threshold *= 6 * e_max * np.sqrt(depth / 1024)
    sums_of_c = np.add.reduceat(c * checksum_weight, starts, axis=1, dtype=np.float64)
    right = np.abs(sums_of_c - a.astype(np.float64) @ sums_of_b) <= threshold
    padded = np.pad(right.T, ((0, 0), (0, -rows % 8)), constant_values=True)
    return np.packbits(padded, axis=1, bitorder="little").reshape(-1)
