"""The very numbers of random operators: Philox 4x32-10 written out with Python's integers, and each kernel's order."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ascend_aclnn as aclnn
from ascend_aclnn import ops
from ascend_aclnn.reference._philox import words

SEED, OFFSET = 0x1234567_89ABCDEF, 40
F32, F16, BF16 = np.dtype(np.float32), np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)


def philox(low: int, high: int, seed: int = SEED) -> list[int]:
    """The four words of a counter."""
    c = [low % 2**32, low >> 32, high % 2**32, high >> 32]
    k = [seed % 2**32, seed >> 32]
    for _ in range(10):
        (h0, l0), (h1, l1) = divmod(0xD2511F53 * c[0], 2**32), divmod(0xCD9E8D57 * c[2], 2**32)
        c = [h1 ^ c[1] ^ k[0], l1, h0 ^ c[3] ^ k[1], l0]
        k = [(k[0] + 0x9E3779B9) % 2**32, (k[1] + 0xBB67AE85) % 2**32]
    return c


# kat_vectors of Random123: counter, key and words of philox4x32 with 10 rounds.
KNOWN = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@pytest.mark.parametrize(("counter", "key", "expected"), KNOWN, ids=["zeros", "ones", "pi"])
def test_known_answers(counter: tuple[int, ...], key: tuple[int, ...], expected: tuple[int, ...]) -> None:
    low, high, seed = (a | b << 32 for a, b in (counter[:2], counter[2:], key))
    assert philox(low, high, seed) == list(expected)
    made = words(seed, np.array([low], np.uint64), np.array([high], np.uint64))
    assert made.tolist() == [list(expected)]


def in_a_row(count: int) -> list[int]:
    """The words of the kernels that work on vectors: one counter after the other, the offset in the upper half."""
    return [word for group in range(-(-count // 4)) for word in philox(group, OFFSET)][:count]


def spread(index: int, count: int, offset: int = OFFSET) -> int:
    """The word of an element where 624 blocks of 256 threads at most take four elements a grid apart."""
    threads = 256 * min(-(-count // 256), 624)
    turn, step = divmod(index // threads, 4)
    return philox(-(-offset // 4) + turn, index % threads)[step]


def opened(word: int) -> Any:
    return np.float32(word) * np.float32(2.0**-32) + np.float32(2.0**-33)


def filled(function: Any, dtype: Any, count: int, *arguments: Any) -> Any:
    x = np.zeros(count, dtype)
    function(x, *arguments, SEED, OFFSET)
    return x


@pytest.mark.parametrize(("dtype", "bits"), [(F32, 23), (F16, 10), (BF16, 7)], ids=str)
def test_uniform(dtype: Any, bits: int) -> None:
    """The mantissa of a number from 1 to 2, less 1; then scaled, FLOAT16 and FLOAT in steps that round each."""
    unit = np.array([word % 2**bits / 2**bits for word in in_a_row(77)])
    np.testing.assert_array_equal(filled(ops.inplace_uniform, dtype, 77, 0.0, 1.0).astype(np.float64), unit)
    scaled = unit.astype(dtype) * dtype.type(3.5) if dtype != BF16 else unit.astype(np.float32) * np.float32(3.5)
    expected = (scaled - scaled.dtype.type(1.25)).astype(dtype)
    np.testing.assert_array_equal(filled(ops.inplace_uniform, dtype, 77, -1.25, 2.25), expected)


def test_uniform_beyond_a_block() -> None:
    x = filled(ops.inplace_uniform, F32, 200_001, 0.0, 1.0)
    for index in (0, 65_535, 65_536, 131_072, 200_000):
        assert x[index] == philox(index // 4, OFFSET)[index % 4] % 2**23 / 2**23
    wide = np.zeros((400, 3), F32)[::2]
    ops.inplace_uniform(wide, 0.0, 1.0, SEED, OFFSET)
    np.testing.assert_array_equal(wide.ravel(), x[:600])


@pytest.mark.parametrize("dtype", [F32, F16, np.dtype(np.int64), np.dtype(np.uint8)], ids=str)
def test_integers(dtype: Any) -> None:
    unit = np.float32([word % 2**23 / 2**23 for word in in_a_row(50)])
    expected = unit * np.float32(9) - (unit * np.float32(2) - np.float32(2))
    np.testing.assert_array_equal(filled(ops.inplace_random, dtype, 50, 2, 9), np.floor(expected).astype(dtype))


@pytest.mark.parametrize(("dtype", "error"), [(F32, 2e-6), (F16, 8e-3), (BF16, 6e-2)], ids=str)
def test_normal(dtype: Any, error: float) -> None:
    unit = np.array([word % 2**23 / 2**23 for word in in_a_row(52)]).reshape(-1, 2)
    radius = np.sqrt(-2 * np.log(np.maximum(unit[:, 0], 1e-7)))
    pairs = np.stack((np.sin(2 * math.pi * unit[:, 1]) * radius, np.cos(2 * math.pi * unit[:, 1]) * radius), 1)
    expected = (pairs.ravel() * 1.5 + 0.25)[:51]
    np.testing.assert_allclose(filled(ops.inplace_normal, dtype, 51, 0.25, 1.5).astype(float), expected, atol=error)
    out = np.zeros((3, 17), dtype)
    with aclnn.use_backend("numpy", soc="Ascend950"):
        ops.normal_float_float(0.25, 1.5, SEED, OFFSET, out=out)
    np.testing.assert_allclose(out.astype(float).ravel(), expected, atol=error)


def test_dropout_mask() -> None:
    kept = [opened(word) < np.float32(1 - 0.3) for word in in_a_row(150)]
    expected = np.packbits(kept, bitorder="little")
    mask = ops.dropout_gen_mask([3, 50], 0.3, SEED, OFFSET)
    np.testing.assert_array_equal(mask[: expected.size], expected)
    assert mask.size == 32 and not mask[expected.size :].any()


def test_bernoulli() -> None:
    """Threads, as many as 512 for each 2,048 elements, take four elements in a row."""
    drawn = [opened(philox(OFFSET // 4, index // 4)[index % 4]) for index in range(3000)]
    np.testing.assert_array_equal(ops.bernoulli(np.zeros(3000, F32), 0.4, SEED, OFFSET), drawn <= np.float32(0.4))
    np.testing.assert_array_equal(
        ops.bernoulli(np.zeros(30, F32), 0.4, SEED, OFFSET - 3), drawn[:30] <= np.float32(0.4)
    )


@pytest.mark.parametrize(
    ("dtype", "count", "run"), [(F32, 48, 4), (F16, 48, 8), (F16, 12, 4), (BF16, 30, 2), (F32, 33, 1)]
)
def test_dropout_v3(dtype: Any, count: int, run: int) -> None:
    """A thread takes as many elements in a row as a vector of 16 bytes has, at most 8, that divide the count."""

    def word(index: int) -> int:
        if run == 1:
            return spread(index, count)
        counter, place = divmod(index % run, 4)
        return philox(OFFSET // 4 + counter, index // run)[place]

    kept = np.array([opened(word(index)) < np.float32(0.75) for index in range(count)])
    with aclnn.use_backend("numpy", soc="Ascend950"):
        result, mask = ops.dropout_v3(np.ones(count, dtype), None, 0.25, SEED, OFFSET)
    np.testing.assert_array_equal(np.unpackbits(mask, bitorder="little")[:count], kept)
    np.testing.assert_array_equal(result, (kept / 0.75).astype(dtype))


@pytest.mark.parametrize("count", [700, 700_000])
def test_exponential(count: int) -> None:
    x = filled(ops.sim_thread_exponential, F32, count, count, 4.0)
    for index in (0, 1, 255, 256, count // 2, count - 1):
        np.testing.assert_allclose(x[index], -math.log(opened(spread(index, count))) / 4, rtol=1e-6)


@pytest.mark.parametrize("more", [1, 2, 3])
def test_exponential_from_the_middle_of_a_counter(more: int) -> None:
    """The kernel of Atlas A2 has cases for 2 and 3 words more; 1 is as none."""
    x = np.zeros(600, F32)
    ops.sim_thread_exponential(x, 600, 1.0, SEED, OFFSET + more)
    skipped = 0 if more == 1 else more
    for index in range(0, 600, 7):
        drawn = philox(OFFSET // 4, index) + philox(OFFSET // 4 + 1, index)
        np.testing.assert_allclose(x[index], -math.log(opened(drawn[skipped])), rtol=1e-6)


def test_integers_without_limits() -> None:
    with aclnn.use_backend("numpy", soc="Ascend950"):
        small = filled(ops.inplace_random_without_from_to, np.int8, 700)
        large = filled(ops.inplace_random_without_from_to, np.int64, 700)
        rounded = filled(ops.inplace_random_without_from_to, F16, 700)
    for index in range(0, 700, 9):
        assert small[index] == spread(index, 700) % 2**7
        assert rounded[index] == np.float16(spread(index, 700) % (2**11 + 1))
        high, low = philox(OFFSET // 4, index)[:2]
        assert large[index] == (high << 32 | low) % 2**63


@pytest.mark.parametrize(("n", "seed", "equal"), [(1, 0, 0), (20, 3, 0), (5, 13, 1), (300, 15, 1), (3000, 3, 0)])
def test_permutation(n: int, seed: int, equal: int) -> None:
    """Sorted by keys of two words; where keys are equal, Fisher and Yates with the words of the first one's thread."""
    bits = math.ceil(math.log2(n - (6 * n * n + 1) / (math.log(0.9) * 12))) if n > 1 else 1
    threads, keys = 256 * -(-n // 256), []
    for index in range(n):
        turn, step = divmod(index // threads, 2)
        pair = philox(OFFSET // 4 + turn, index % threads, seed)[2 * step : 2 * step + 2]
        keys.append((pair[0] << 32 | pair[1]) % (2**32 - 1) % 2**bits)
    order = sorted(range(n), key=keys.__getitem__)
    assert n - len(set(keys)) == equal
    start = 0
    while start < n:
        size = sum(keys[index] == keys[order[start]] for index in order[start:])
        following = OFFSET // 4 + n // (2 * threads) + 1
        drawn = [word for turn in range(size // 4 + 1) for word in philox(following + turn, start, seed)]
        for last, word in zip(range(size - 1, 0, -1), drawn):
            other = word % (last + 1)
            order[start + last], order[start + other] = order[start + other], order[start + last]
        start += size
    assert ops.randperm(n, seed, OFFSET).tolist() == order


def test_multinomial() -> None:
    weights = np.float32([[0, 1, 3, 0, 4], [2, 0, 0, 2, 1]])
    ends = np.cumsum(weights / weights.sum(1, keepdims=True), 1, dtype=np.float32)
    actual = ops.multinomial(weights, 200, True, SEED, OFFSET)
    for row in range(2):
        for sample in range(200):
            drawn = opened(philox(OFFSET // 4, row * 256 + sample)[0])
            assert actual[row, sample] == int(np.argmax(ends[row] >= drawn))
    once = ops.multinomial(weights, 2, False, SEED, OFFSET)
    drawn = np.array([-math.log(opened(spread(index, 10))) for index in range(10)]).reshape(2, 5)
    np.testing.assert_array_equal(once, np.argsort(-(weights / drawn), 1)[:, :2])
