"""References of ATB's operations where torch_npu does not reach: one layout of caches, or of masks, against another."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ml_dtypes import bfloat16

from ascend_aclnn.numerics import DataError
from ascend_aclnn.reference.atb.attention import (
    paged_attention,
    paged_attention_310p,
    self_attention,
    self_attention_310p,
)
from ascend_aclnn.reference.atb.preprocess import mla_preprocess

TOKENS, HEADS = 2, 2


def latents() -> dict[str, Any]:
    rng = np.random.default_rng(0)

    def halves(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape).astype(bfloat16)

    sizes = {"gamma0": 7168, "beta0": 7168, "gamma1": 1536, "beta1": 1536, "gamma2": 512}
    return {
        **{name: halves(size) for name, size in sizes.items()},
        "input": halves(TOKENS, 7168),
        "wdqkv": rng.integers(-9, 9, (2112, 7168), np.int8),
        "wuq": rng.integers(-9, 9, (HEADS * 192, 1536), np.int8),
        "descale0": np.full(2112, 1e-4, np.float32),
        "descale1": np.full(HEADS * 192, 1e-4, np.float32),
        "wuk": halves(HEADS, 128, 512),
        "cos": halves(TOKENS, 64),
        "sin": halves(TOKENS, 64),
        "slotMapping": np.array([5, 0], np.int32),
        "quantMode": 1,
    }


def test_joined_caches_hold_what_split_ones_hold() -> None:
    args = latents()
    split = [np.zeros(shape, bfloat16) for shape in ((2, 2, 512), (4, 4, 1, 512), (2, 2, 64), (4, 4, 1, 64))]
    mla_preprocess({**args, **dict(zip(("qOut0", "kvCacheOut0", "qOut1", "kvCacheOut1"), split)), "cacheMode": 1})
    joined = [np.zeros(shape, bfloat16) for shape in ((2, 2, 576), (4, 4, 1, 576))]
    mla_preprocess({**args, "qOut0": joined[0], "kvCacheOut0": joined[1], "cacheMode": 0})
    for whole, parts in zip(joined, ((split[0], split[2]), (split[1], split[3]))):
        assert np.any(whole)
        np.testing.assert_array_equal(whole, np.concatenate(parts, -1))


def test_masks_of_a_triangle_on_310p() -> None:
    """In fractals of 128 rows and columns they hide what a mask of all elements hides."""
    rng = np.random.default_rng(1)
    triangle = np.triu(np.full((128, 128), -60000, np.float16), 1)
    fractal = triangle.reshape(128, 8, 16).swapaxes(0, 1)[None]
    args: dict[str, Any] = {"headNum": 2, "kvHeadNum": 1, "qkScale": 0.2, "qScale": 1.0, "kernelType": 0}
    tokens = {
        name: rng.standard_normal((160, heads * 16)).astype(np.float16)
        for name, heads in zip(("query", "key", "value"), (2, 1, 1))
    }
    packed = {**args, **tokens, "calcType": 3, "seqLen": (130, 30)}
    whole = np.triu(np.full((144, 144), -60000, np.float16), 1).reshape(144, 9, 16).swapaxes(0, 1)[None]
    wanted = self_attention_310p({**packed, "maskType": 1, "mask": whole})
    assert np.any(wanted)
    np.testing.assert_array_equal(self_attention_310p({**packed, "maskType": 3, "mask": fractal}), wanted)
    with pytest.raises(DataError, match="mask"):
        self_attention_310p({**packed, "maskType": 3, "mask": -fractal[:, ::-1]})

    pages = {name: rng.standard_normal((3, 1, 128, 16)).astype(np.float16) for name in ("keyCache", "valueCache")}
    paged = {
        **args, **pages, "query": tokens["query"][:5].reshape(5, 2, 16), "calcType": 1, "mlaVHeadSize": 0, "qSeqLen": (3, 2),
        "contextLens": (131, 130), "blockTables": np.array([[2, 1], [0, 1]], np.int32),
        **dict.fromkeys(("keyDescale", "keyOffset", "valueDescale", "valueOffset")),
    }  # fmt: skip
    rows = np.zeros((16, 144), np.float16)
    for row, seen in enumerate([129, 130, 131, 129, 130]):
        rows[row, seen:] = -60000
    by_token = rows.reshape(16, 9, 16).swapaxes(0, 1)[None]
    wanted = paged_attention_310p({**paged, "maskType": 3, "mask": by_token})
    for kind in (4, 5):
        np.testing.assert_array_equal(paged_attention_310p({**paged, "maskType": kind, "mask": fractal}), wanted)


@pytest.mark.parametrize(
    "shape",
    [(1, 4, 32, 16), (1, 3, 32, 32), (2, 32), (32, 2), (3, 1, 32, 32), (0, 1, 32, 32), (1, 2, 2)],
    ids=lambda shape: "x".join(map(str, shape)),
)
def test_masks_that_do_not_fit_are_named(shape: tuple[int, ...]) -> None:
    """Fractals where rows are expected, too few rows, columns, or heads; 3 masks fit no 4 sequences."""
    rng = np.random.default_rng(2)
    mask = np.zeros(shape, np.float16)
    args: dict[str, Any] = {"headNum": 2, "kvHeadNum": 1, "qkScale": 0.2, "qScale": 1.0, "kernelType": 0, "maskType": 1}
    query, key = (rng.standard_normal((16, heads, 16)).astype(np.float16) for heads in (2, 1))
    packed = {**args, "query": query, "key": key, "value": key, "calcType": 3, "seqLen": (4,) * 4}
    with pytest.raises(DataError, match="mask"):
        self_attention({**packed, "mask": mask})
    pages = rng.standard_normal((4, 16, 1, 16)).astype(np.float16)
    paged = {
        **args, "keyCache": pages, "valueCache": pages, "query": query, "calcType": 1, "mlaVHeadSize": 0, "qSeqLen": (4,) * 4,
        "contextLens": (16,) * 4, "blockTables": np.arange(4, dtype=np.int32)[:, None],
        **dict.fromkeys(("keyDescale", "keyOffset", "valueDescale", "valueOffset")),
    }  # fmt: skip
    with pytest.raises(DataError, match="mask"):
        paged_attention({**paged, "mask": mask})
