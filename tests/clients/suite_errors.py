"""What fails says so, with the operator's name, and the program goes on."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch_npu
from comparing import numbers

from ascend_aclnn import catalog
from ascend_aclnn.reference import find

# In mode 2 torch_npu learns of every refusal on its own thread, and from then on skips all operators.
pytestmark = pytest.mark.skipif(
    os.environ.get("TASK_QUEUE_ENABLE") == "2", reason="TASK_QUEUE_ENABLE=2: torch_npu does not go on after an error"
)


def half(*shape: int) -> torch.Tensor:
    return numbers(*shape).half().npu()


# Functions whose operator is not likely to get a reference soon: the first one that has none is tried.
EXOTIC: dict[str, Callable[[], Any]] = {
    "aclnnLightningIndexer": lambda: torch_npu.npu_lightning_indexer(
        half(1, 4, 8, 128), half(1, 4, 1, 128), half(1, 4, 8), sparse_count=4
    ),
    "aclnnLSTM": lambda: torch.nn.LSTM(4, 8).npu()(torch.ones(3, 2, 4, device="npu")),
    "aclnnNsaCompress": lambda: torch_npu.npu_nsa_compress(
        half(64, 1, 128), half(32, 1), compress_block_size=32, compress_stride=16, actual_seq_len=[64]
    ),
    "aclnnIou": lambda: torch_npu.npu_iou(half(4, 4), half(4, 4)),
}


def assert_works() -> None:
    assert torch.equal((torch.ones(4).npu() + 1).cpu(), torch.full((4,), 2.0))


def test_an_operator_without_a_reference() -> None:
    operator = next(name for name in EXOTIC if name in catalog.names() and find(catalog.get(name)) is None)
    for _ in range(2):
        with pytest.raises(RuntimeError, match=f"{operator}: the emulator has no reference for this operator"):
            EXOTIC[operator]()
        assert_works()


def test_an_operator_that_only_the_old_interface_has() -> None:
    """What torch_npu would run by aclopCompileAndExecute is refused, too: never silent zeros."""
    boxes = torch.tensor([[0.0, 0.0, 2.0, 2.0, 0.0]]).npu()
    with pytest.raises(RuntimeError, match="RotatedNMS was to be run as a single operator"):
        torch_npu.npu_nms_rotated(boxes, torch.ones(1).npu(), 0.5, 0.5, 3, 1)
    assert_works()


def test_arguments_that_the_operator_refuses() -> None:
    with pytest.raises(RuntimeError, match="gamma has shape"):
        torch_npu.npu_rms_norm(numbers(4, 8).npu(), numbers(9).npu())
    assert_works()


def test_an_error_message_appears_once() -> None:
    with pytest.raises(RuntimeError, match="RotatedNMS"):
        torch_npu.npu_nms_rotated(torch.ones(1, 5).npu(), torch.ones(1).npu(), 0.5, 0.5, 3, 1)
    with pytest.raises(RuntimeError) as caught:
        torch.ones(3).npu() + torch.ones(4).npu()
    assert "RotatedNMS" not in str(caught.value)
    assert_works()


def test_an_index_out_of_range_is_told_when_the_device_is_waited_for() -> None:
    """Hardware leaves it undefined; the emulated device refuses it, once the operator has run."""
    table, index = numbers(5, 4).npu(), torch.tensor([1, 7]).npu()
    with pytest.raises(RuntimeError, match="aclnnEmbedding"):
        torch.nn.functional.embedding(index, table)
        torch.npu.synchronize()
    assert_works()
