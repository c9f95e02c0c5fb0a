"""HansEncode and HansDecode, against what their kernels write for streams that can be worked out by hand."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ascend_aclnn import AclError, ops
from ascend_aclnn.core.errors import DataError

HEADER, TAIL = 512, 8448


def encoded(x: Any, fixed: int, rest: int, pdf: Any = None, reshuff: bool = False) -> tuple[Any, Any, Any, Any]:
    """Distribution, mantissas, fixed and var of so many bytes."""
    width = x.dtype.itemsize
    counts = np.zeros(256, np.int32) if pdf is None else pdf
    out = tuple(np.empty(size // width, x.dtype) for size in (x.size * (width - 1), fixed, rest))
    counts, mantissa, stored, others = ops.hans_encode(x, counts, pdf is None, reshuff, out=out)
    return counts, mantissa, stored, others


def decoded(x: Any, parts: Any, reshuff: bool = False) -> Any:
    counts, mantissa, fixed, others = parts
    return ops.hans_decode(mantissa, fixed, others, counts, reshuff, out=np.empty(x.shape, x.dtype))


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("reshuff", [False, True])
@pytest.mark.parametrize("count", [32768, 65536 + 64, 3 * 32768 + 4096])
def test_what_is_encoded_is_decoded(dtype: Any, reshuff: bool, count: int) -> None:
    x = np.random.default_rng(count).standard_normal(count).astype(dtype)
    width = x.dtype.itemsize
    room = -(-(count + count // 64 + TAIL * (count // 32768) + HEADER + 64) // 4) * 4
    parts = encoded(x, room, count, reshuff=reshuff)
    np.testing.assert_array_equal(parts[0], np.bincount(x.view(np.uint8)[width - 1 :: width], minlength=256))
    found = decoded(x, parts, reshuff)
    np.testing.assert_array_equal(found.view(np.uint8), x.view(np.uint8))
    header = parts[2].view(np.int32)
    assert header[:3].tolist() == [12138 * (count // 32768), count // 32768, count // 64]


def test_bytes_that_do_not_fit_are_kept() -> None:
    """Where fixed is small, the rest of each core's bytes lie in var, one core's after the other's."""
    x = np.random.default_rng(1).integers(0, 1 << 32, 65536).astype(np.uint32).view(np.float32)  # any byte is as common
    parts = encoded(x, HEADER + 2 * 30000, 65536)
    header = parts[2].view(np.int32)
    left = header[64:66]
    assert (left > 0).all() and header[3] + header[4] == 1024 and header[4] * 64 == left.sum()
    high = x.view(np.uint8)[3::4].reshape(2, -1)
    wanted = np.concatenate([high[i, 32768 - n :] for i, n in enumerate(left)])
    np.testing.assert_array_equal(parts[3].view(np.uint8)[: wanted.size], wanted)
    np.testing.assert_array_equal(decoded(x, parts).view(np.uint32), x.view(np.uint32))


def test_the_stream_of_one_value() -> None:
    """The byte of rank 0 takes one bit: after 17 tiles the 64 rows give 16 bits each away, which are all 0."""
    x = np.full(32768 * 3, 1.5, np.float16)  # three cores of 8 tiles
    parts = encoded(x, 100000, 200000)
    header = parts[2].view(np.int32)
    assert header[8:11].tolist() == [8 * 128 + TAIL] * 3, "64 numbers of bits for each tile, and the states"
    stream = parts[2].view(np.uint8)[HEADER:]
    np.testing.assert_array_equal(stream[: 8 * 128].view(np.uint16), 1)
    np.testing.assert_array_equal(stream[8 * 128 :][: 2 * 4096], 0)
    np.testing.assert_array_equal(stream[8 * 128 + 8192 :][:256].view(np.int32), 8)
    np.testing.assert_array_equal(decoded(x, parts), x)


def test_words_of_two_values() -> None:
    """Ranks by a given distribution: 0x3C has rank 1, 0x40 rank 0; states fill from the right, oldest bits first away."""
    x = np.where(np.arange(32768) % 2 == 0, np.float16(1), np.float16(2)).astype(np.float16)
    pdf = np.zeros(256, np.int32)
    pdf[0x40], pdf[0x3C] = 9, 5
    parts = encoded(x, 100000, 32768, pdf)
    stream = parts[2].view(np.uint8)[HEADER:]
    states = stream[8 * 128 :][:8192].view(np.uint16).reshape(64, 64)
    np.testing.assert_array_equal(states[:, ::2], 0xFF)  # eight tiles of rank 1
    np.testing.assert_array_equal(states[:, 1::2], 0)
    np.testing.assert_array_equal(decoded(x, parts), x)


def test_what_was_not_encoded_is_refused() -> None:
    x = np.zeros(32768, np.float32)
    parts = encoded(x, 100000, 32768)
    with pytest.raises((DataError, AclError), match="no header of HansEncode"):
        decoded(x, (parts[0], parts[1], np.zeros_like(parts[2]), parts[3]))
