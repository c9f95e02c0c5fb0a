"""Plans of work: one core takes everything, and the operators that follow take the plans."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ascend_aclnn as aclnn
from ascend_aclnn import AclError, catalog, ops, reference
from ascend_aclnn.reference.unavailable import REASONS

ENDS = np.array([0, 3, 8], np.int32)


def test_heads_of_sequences() -> None:
    plan = ops.lightning_indexer_v2_metadata(ENDS, None, None, None, None, 64, 1, 128, 16, 0, 5, 9, "TND", "BSND", 0, 1)
    assert plan.shape == (1024,) and plan.dtype == np.int32
    assert plan[:8].tolist() == [1, 0, 0, 0, 2, 0, 0, 0] and not plan[8:].any()


def test_queries() -> None:
    plan = ops.sparse_lightning_indexer_kl_loss_grad_metadata(
        ENDS, ENDS, None, None, None, 2, 5, 5, 8, 1, 128, 16, "TND", "TND", 0, 1
    )
    assert plan[:3].tolist() == [1, 8, 8] and plan[8:33].tolist() == [0] + [8] * 24
    with aclnn.use_backend("numpy", soc="Ascend950PR_9599"):
        loss = ops.dense_lightning_indexer_kl_loss_grad_metadata(
            ENDS, ENDS, None, None, None, 2, 5, 5, 8, 1, 128, "TND", "TND", 0, 1
        )
        assert loss[:6].tolist() == [8, 8, 8, 0, 1, 5]
        lse = ops.dense_lightning_indexer_softmax_lse_v2_metadata(
            None, None, None, None, None, 2, 7, 9, 8, 1, 128, "BSND", "BSND", 0, 1
        )
        assert lse[:4].tolist() == [1, 0, 14, 0]


@pytest.mark.parametrize("used", [np.array([2, -1], np.int32)])
def test_lengths_below_zero(used: Any) -> None:
    with pytest.raises(AclError):
        ops.sparse_lightning_indexer_kl_loss_grad_metadata(
            ENDS, ENDS, used, None, None, 2, 5, 5, 8, 1, 128, 16, "TND", "TND", 0, 1
        )


def test_flash() -> None:
    out = np.ones(16 * 109, np.int32)
    ops.flash_attn_metadata(None, None, None, None, 2, 4, 4, 8, 4, 128, 0, -1, -1, "BSND", "BSND", "BSND", out=out)
    assert out[:4].tolist() == [1, 0, 128, 128] and out[19] == 8 and out.sum() == 265


@pytest.mark.parametrize("name", sorted(REASONS))
def test_unavailable(name: str) -> None:
    operator = catalog.get(name)
    assert reference.find(operator) is None
