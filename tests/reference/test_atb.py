"""References of ATB's operations where torch_npu does not reach: one layout of caches against another."""

from __future__ import annotations

from typing import Any

import numpy as np
from ml_dtypes import bfloat16

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
