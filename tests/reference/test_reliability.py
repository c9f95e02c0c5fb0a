"""AES-128 against the vectors of NIST SP 800-38A (counter mode) and of GCM's specification; checksums of products."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from ascend_aclnn import AclError, UnsupportedOperator, ops


def data(text: str) -> Any:
    return np.frombuffer(bytes.fromhex(text), np.uint8)


def config(mode: int, algorithm: int) -> Any:
    return np.array([1, mode, algorithm, 1, 0, 0], np.uint32)


# F.5.1 of SP 800-38A; test case 3 of McGrew and Viega.
CTR = {
    "key": data("2b7e151628aed2a6abf7158809cf4f3c"),
    "iv": data("f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff"),
    "plain": data(
        "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51"
        "30c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710"
    ),
    "secret": data(
        "874d6191b620e3261bef6864990db6ce9806f66b7970fdff8617187bb9fffdff"
        "5ae4df3edbd5d35e5b4f09020db03eab1e031dda2fbe03d1792170a0f3009cee"
    ),
}
GCM = {
    "key": data("feffe9928665731c6d6a8f9467308308"),
    "iv": data("cafebabefacedbaddecaf888"),
    "plain": data(
        "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72"
        "1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b391aafd255"
    ),
    "secret": data(
        "42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e"
        "21d514b25466931c7d8f6a5aac84aa051ba30b396a0aac973d58e091473f5985"
    ),
    "tag": data("4d5c2af327cd64a62cf35abd2ba6fab4"),
}


def test_counter_mode(each_backend: Any) -> None:
    for mode, given, wanted in ((1, "plain", "secret"), (2, "secret", "plain")):
        made = ops.crypto(CTR["key"], CTR[given], CTR["iv"], config(mode, 1))
        np.testing.assert_array_equal(made.output_text, CTR[wanted])
        assert made.tag is None and made.out.tolist() == [0]


def test_galois_counter_mode(each_backend: Any) -> None:
    tag = np.zeros(16, np.uint8)
    made = ops.crypto(GCM["key"], GCM["plain"], GCM["iv"], config(1, 2), tag)
    np.testing.assert_array_equal(made.output_text, GCM["secret"])
    np.testing.assert_array_equal(tag, GCM["tag"])
    back = ops.crypto(GCM["key"], GCM["secret"], GCM["iv"], config(2, 2), tag)
    np.testing.assert_array_equal(back.output_text, GCM["plain"])
    with pytest.raises(AclError, match="tag"):
        ops.crypto(GCM["key"], GCM["secret"], GCM["iv"], config(2, 2), np.zeros(16, np.uint8))


@pytest.mark.parametrize("algorithm", [1, 2])
def test_tensors_of_any_size_and_type_come_back(algorithm: int) -> None:
    """7,001 half-precision numbers: more blocks than the hash has lanes, and a last one that is not full."""
    x = np.random.default_rng(0).normal(size=(7001,)).astype(np.float16)
    iv, tag = np.arange(16, dtype=np.uint8), np.zeros(16, np.uint8)
    secret = ops.crypto(CTR["key"], x, iv, config(1, algorithm), tag).output_text
    assert secret.dtype == x.dtype and (secret.view(np.int16) != x.view(np.int16)).mean() > 0.99
    back = ops.crypto(CTR["key"], secret, iv, config(2, algorithm), tag).output_text
    np.testing.assert_array_equal(back, x)


def test_the_counter_carries_over_all_its_bytes() -> None:
    """Block i of a stream is block 0 of the stream whose counter is i higher."""
    zeros, last = np.zeros(32, np.uint8), np.full(16, 255, np.uint8)
    two = ops.crypto(CTR["key"], zeros, last, config(1, 1)).output_text
    first = ops.crypto(CTR["key"], zeros[:16], np.zeros(16, np.uint8), config(1, 1)).output_text
    np.testing.assert_array_equal(two[16:], first)


def test_refusals() -> None:
    for arguments, word in (
        ((CTR["key"][:8], CTR["plain"], CTR["iv"], config(1, 1)), "key"),
        ((CTR["key"], CTR["plain"], CTR["iv"][:12], config(1, 1)), "iv"),
        ((CTR["key"], CTR["plain"], CTR["iv"], config(0, 1)), "key service"),
        ((CTR["key"], CTR["plain"], CTR["iv"], config(1, 3)), "algorithm 3"),
        ((CTR["key"], CTR["plain"], CTR["iv"], config(1, 1)[:5]), "op_config|opConfig"),
    ):
        with pytest.raises(AclError, match=word):
            ops.crypto(*arguments)
    with pytest.raises(AclError, match="aad"):
        ops.crypto(CTR["key"], CTR["plain"], CTR["iv"], config(1, 1), None, CTR["iv"])
    with pytest.raises(UnsupportedOperator, match="trusted environment"):
        ops.obfuscation_setup(0, 0, 8, 0, 1, 2, 1, 1)


# ----------------------------------------------------------------------------------------------- checksums of products


def threshold(a: Any, b: Any, e_max: float) -> float:
    """The kernel's threshold for one row of A and one slice of B, where all weights are 1, element by element."""
    depth, n = b.shape
    mean = math.fsum(a) / depth
    deviation = math.sqrt((max(a) - mean) * (mean - min(a)))
    of_rows = [math.fsum(row) / n for row in b]
    variance = math.fsum((max(row) - m) * (m - min(row)) for row, m in zip(b, of_rows))
    first = n * abs(mean) * math.fsum(map(abs, of_rows))
    second = math.sqrt(16 * n * variance * mean**2 + 16 * n**2 * math.fsum(m * m for m in of_rows) * deviation**2)
    third = math.sqrt(n * variance) * deviation
    return 6 * e_max * math.sqrt(depth / 1024) * (first + second + third)


@pytest.mark.parametrize(("dtype", "e_max"), [("float16", 1e-3), ("bfloat16", 1e-3), ("float32", 2e-5)])
def test_a_wrong_element_clears_the_bit_of_its_row_and_slice(dtype: str, e_max: float) -> None:
    m, k, n = 11, 96, 256 + 100
    rng = np.random.default_rng(5)
    a, b = (rng.normal(0.5, 1, shape).astype(np.dtype(dtype)) for shape in ((m, k), (k, n)))
    ones, wide_a, wide_b = np.ones(n, a.dtype), a.astype(np.float64), b.astype(np.float64)
    c = (wide_a @ wide_b).astype(np.float32)
    right = np.full(4, 0xFF)  # two slices of two bytes; the bits of rows past M are set
    np.testing.assert_array_equal(ops.matmul_abft_verify(a, b, c, ones, e_max), right)
    for row, column in ((0, 0), (7, 255), (8, 256), (10, n - 1)):
        of_slice = slice(0, 256) if column < 256 else slice(256, n)
        error = threshold(wide_a[row], wide_b[:, of_slice], e_max)
        for factor in (0.97, -0.97, 1.03, -1.03):
            wrong = c.copy()
            wrong[row, column] += factor * error
            wanted = right.copy()
            if abs(factor) > 1:
                wanted[2 * (column // 256) + row // 8] ^= 1 << row % 8
            np.testing.assert_array_equal(ops.matmul_abft_verify(a, b, wrong, ones, e_max), wanted)


def test_the_checksum_is_weighted() -> None:
    rng = np.random.default_rng(6)
    a, b, weights = (rng.normal(size=shape).astype(np.float32) for shape in ((8, 64), (64, 300), (300,)))
    weights[299] = 0
    c = a @ b
    c[3, 299] += 1e6  # without weight, no fault
    assert ops.matmul_abft_verify(a, b, c, weights, 2e-5).tolist() == [0xFF, 0xFF]
    c[3, 298] = np.nan
    assert ops.matmul_abft_verify(a, b, c, weights, 2e-5).tolist() == [0xFF, 0xFF ^ 8]
