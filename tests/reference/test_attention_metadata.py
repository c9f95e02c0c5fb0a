"""Plans of work: one core takes everything, and the operators that follow take the plans.

How a plan is read is in the headers of their kernels (``*_metadata.h`` of ops-transformer).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from operator_arguments import arrays

import ascend_aclnn as aclnn
import samples
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


# ------------------------------------------------------------------------------------------------- with what they plan for


class Pair(NamedTuple):
    """A consumer, whose example is called; the sizes of that call, as its planner takes them; and what the plan covers."""

    consumer: str
    planner: str
    given: dict[str, Any]
    layout: str  # of the plan: "9" (8, 16) numbers for each core, or queries "of_cores", "of_two_kinds", "with_starts"
    work: int  # heads of sequences, or queries
    soc: str = "Ascend950PR_9599"


MLA = {
    "num_heads_q": 4,
    "num_heads_kv": 1,
    "head_dim": 512,
    "layout_q": "BSND",
    "layout_kv": "BSND",
    "has_ori_kv": True,
}
INDEXER = {"num_heads_q": 8, "num_heads_k": 1, "head_dim": 128, "mask_mode": 3, "layout_q": "BSND", "layout_k": "BSND"}
LOSS = {**INDEXER, "batch_size": 1, "max_seqlen_q": 5, "max_seqlen_k": 6, "cmp_ratio": 4}
COMPRESSED = {
    **MLA,
    "batch_size": 1,
    "max_seqlen_q": 3,
    "max_seqlen_ori_kv": 18,
    "max_seqlen_cmp_kv": 4,
    "has_cmp_kv": True,
}
FLASH = {"num_heads_kv": 2, "mask_mode": 0, "win_left": -1, "win_right": -1, "layout_out": "TND", "layout_q": "TND"}


def ends(*values: int) -> Any:
    return np.array(values, np.int32)


PAIRS = [
    Pair("SparseFlashMla", "SparseFlashMla", {**COMPRESSED, "cmp_ratio": 4}, "9", 1),
    Pair("SparseFlashMla", "SparseFlashMla", {**COMPRESSED, "cmp_ratio": 4}, "9", 1, "Ascend910B1"),
    Pair(
        "QuantSparseFlashMla",
        "QuantSparseFlashMla",
        {**MLA, "batch_size": 1, "max_seqlen_q": 2, "quant_mode": 1},
        "9",
        1,
    ),
    Pair(
        "MixedQuantSparseFlashMla",
        "MixedQuantSparseFlashMla",
        {
            **MLA,
            "batch_size": 1,
            "max_seqlen_q": 2,
            "layout_kv": "PA_BBND",
            "seqused_ori_kv": ends(20),
            "quant_mode": 2,
        },
        "9",
        1,
    ),
    Pair(
        "LightningIndexerV2", "LightningIndexerV2", {**INDEXER, "batch_size": 1, "max_seqlen_q": 6, "topk": 4}, "8", 1
    ),
    Pair(
        "QuantLightningIndexerV2",
        "QuantLightningIndexerV2",
        {
            **INDEXER,
            "cu_seqlens_q": ends(0, 4),
            "cu_seqlens_k": ends(0, 9),
            "layout_q": "TND",
            "layout_k": "TND",
            "topk": 3,
        },
        "8",
        1,
    ),
    Pair(
        "FlashAttn",
        "FlashAttn",
        {
            **FLASH,
            "cu_seqlens_q": ends(0, 5, 8),
            "cu_seqlens_kv": ends(0, 20, 32),
            "num_heads_q": 4,
            "layout_kv": "TND",
        },
        "16",
        4,
    ),
    Pair(
        "QuantFlashAttn",
        "QuantFlashAttn",
        {
            **FLASH,
            "cu_seqlens_q": ends(0, 3),
            "seqused_kv": ends(20),
            "num_heads_kv": 1,
            "layout_kv": "PA_BNBD",
            "layout_q_descale": "NT",
            "quant_mode": 6,
        },
        "16",
        1,
    ),
    Pair("SparseFlashMlaGrad", "SparseFlashMlaGrad", {**COMPRESSED, "cmp_ratio": 4}, "of_cores", 3),
    Pair(
        "SparseFlashMlaSoftmaxL1Norm",
        "SparseFlashMlaSoftmaxL1Norm",
        {
            "batch_size": 1,
            "max_seq_len_q": 3,
            "max_seq_len_k": 6,
            "layout_q": "BSND",
            "layout_k": "BSND",
            "cmp_ratio": 2,
        },
        "of_cores",
        3,
    ),
    Pair("DenseLightningIndexerKLLossGrad", "DenseLightningIndexerKLLossGrad", LOSS, "of_cores", 5),
    Pair(
        "DenseLightningIndexerSoftmaxLseV2",
        "DenseLightningIndexerSoftmaxLseV2",
        {
            "batch_size": 1,
            "max_seq_len_q": 5,
            "max_seq_len_k": 6,
            "layout_q": "BSND",
            "layout_k": "BSND",
            "cmp_ratio": 4,
        },
        "of_two_kinds",
        5,
    ),
    Pair("SparseLightningIndexerKLLossGrad", "SparseLightningIndexerKLLossGrad", LOSS, "with_starts", 5, "Ascend910B1"),
]


def covered(plan: Any, layout: str) -> int:
    """How many heads of sequences, or queries, the cores of a plan do together, without gaps, as its kernel reads it."""
    if layout.isdigit():
        stride = int(layout)
        skip, enabled = (16, 0) if stride == 16 else (0, 1)
        cores = plan[skip : skip + 36 * stride].reshape(36, stride)
        end = (0, 0, 0)
        for core in cores[cores[:, 0] != 0] if enabled else cores[cores.any(1)]:
            start, next_end = tuple(core[enabled : enabled + 3]), tuple(core[enabled + 3 : enabled + 6])
            assert start == end and next_end > start
            end = next_end
        assert end[1:] == (0, 0)
        return int(end[0])
    if layout == "of_two_kinds":
        more, fewer, many, few = plan[:4].tolist()
        return int(more * many + fewer * few)
    if layout == "with_starts":
        cores, total = plan[:2].tolist()
        starts = plan[8 : 8 + 25].tolist()
        assert starts[0] == 0 and starts == sorted(starts) and set(starts[cores:]) == {total}
        return int(total)
    total, many, few, cores_of_few, cores = plan[:5].tolist()
    assert total == many * (cores - cores_of_few) + few * cores_of_few and cores >= 1
    return int(total)


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: f"{pair.consumer}-{pair.soc}")
def test_a_plan_covers_the_work_and_its_consumer_takes_it(pair: Pair) -> None:
    consumer, planner = catalog.get(f"aclnn{pair.consumer}"), catalog.get(f"aclnn{pair.planner}Metadata")
    blank = {p.python_name: None if p.kind.pointer else 0 for p in planner.inputs}
    assert not pair.given.keys() - blank.keys()
    position = consumer.inputs.index(next(p for p in consumer.inputs if p.name == "metadataOptional"))
    with aclnn.use_backend("numpy", soc=pair.soc):
        plan = getattr(ops, planner.python_name)(**{**blank, **pair.given})
        assert plan.dtype == np.int32 and covered(plan, pair.layout) == pair.work
        first, second = samples.call(consumer).arguments, samples.call(consumer).arguments
        second[position] = plan
        function = getattr(ops, consumer.python_name)
        for one, other in zip(arrays(function(*first)), arrays(function(*second))):
            assert (one is None) == (other is None)
            if one is not None:
                np.testing.assert_array_equal(one.view(np.uint8), other.view(np.uint8))
