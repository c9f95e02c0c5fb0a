"""torch_npu's operators for attention and FFN ranks that are apart, over its windows; run by torchrun with two ranks.

Rank 0 is the attention rank, rank 1 has two experts and the shared one. Each token comes back as the weighted sum.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import torch
import torch.distributed as dist
import torch_npu
from torch_npu._afd import create_schedule_context_holder

RANK = int(os.environ["RANK"])
DEVICE = torch.device("npu", int(os.environ["LOCAL_RANK"]) % torch.npu.device_count())
TOKENS, CHOICES, HIDDEN, LAYERS = 4, 2, 1024, 3
PLACES = CHOICES + 1
FACTORS = torch.tensor([2.0, -0.5, 0.25], device=DEVICE)  # of the two experts and the shared one
TO_FFN = [1, 1, 2 + TOKENS * PLACES], [1, 1, TOKENS, PLACES, HIDDEN]
TO_ATTENTION = [1, TOKENS, PLACES], [1, TOKENS, PLACES, HIDDEN]
WINDOW = 1 << 20


def integers(*values: int) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32, device=DEVICE)


def attend(group: str, window: torch.Tensor) -> None:
    schedule = context(1, attention_window=window.data_ptr(), attention_window_size=WINDOW)
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(TOKENS, HIDDEN, generator=generator).half()
    ids = torch.stack([torch.randperm(2, generator=generator)[:CHOICES] for _ in range(TOKENS)]).int()
    weights = torch.rand(TOKENS, CHOICES, generator=generator)
    table = torch.tensor([[[1, 1, expert] for expert in range(3)]], dtype=torch.int32)
    y = x.to(DEVICE)
    for layer in range(LAYERS):
        torch_npu.npu_attention_to_ffn(
            y[None], integers(0), integers(0), integers(layer), ids[None].to(DEVICE), table.to(DEVICE), group, 2,
            *TO_FFN, TO_ATTENTION[0], 2, ffn_start_rank_id=1,
        )  # fmt: skip
        torch_npu.attention_worker_scheduler_(schedule)
        y, following = torch_npu.npu_attention_worker_combine(schedule, weights.to(DEVICE), integers(layer), HIDDEN)
        assert following.tolist() == [layer + 1]
    expected = x
    factors = (weights.double() * FACTORS.cpu()[ids.long()]).sum(1, keepdim=True) + FACTORS[2].item()
    for _ in range(LAYERS):
        expected = (expected.double() * factors).half()
    torch.testing.assert_close(y.cpu(), expected, rtol=LAYERS * 2**-10, atol=1e-6)


def feed(group: str, window: torch.Tensor) -> None:
    schedule = context(0, ffn_window=window.data_ptr(), ffn_window_size=WINDOW)
    for _ in range(LAYERS):
        torch_npu.ffn_worker_scheduler_(schedule, sync_group_size=1)
        y, groups, sessions, batches, tokens, places, _, total = torch_npu.npu_ffn_worker_batching(
            schedule, 3, [1, TOKENS, PLACES, HIDDEN]
        )
        assert groups.tolist() == [[expert, TOKENS] for expert in range(3)] and total.item() == TOKENS * PLACES
        rows = (y * FACTORS.half().repeat_interleave(groups[:, 1])[:, None]).contiguous()
        torch_npu.npu_ffn_to_attention(rows, sessions, batches, tokens, places, total, group, 2, *TO_ATTENTION)
    torch_npu.ffn_worker_scheduler_(schedule, sync_group_size=1)  # for what never comes
    with torch.npu.stream(torch.npu.Stream()):  # a copy on the same stream would wait for it
        HOLDERS[0].stop_schedule()
    torch.npu.synchronize()


def context(mode: int, **windows: int) -> torch.Tensor:
    holder = create_schedule_context_holder(mode, 1, 1, TOKENS, PLACES, 3, 2 * HIDDEN, 2 * HIDDEN, **windows)
    HOLDERS.append(holder)
    dist.barrier()  # the tables are ready
    return holder.get_schedule_context_tensor()


HOLDERS: list[Any] = []  # what the contexts' addresses belong to

torch.npu.set_device(DEVICE)
dist.init_process_group("hccl")
dist.all_reduce(torch.ones(1, device=DEVICE))  # makes the communicator
hccl = dist.group.WORLD._get_backend(DEVICE)
hccl._window_register_and_exchange(WINDOW, [1 - RANK])
name = hccl.get_hccl_comm_name(RANK)
(attend if RANK == 0 else feed)(name, hccl._get_window_mem())
torch.npu.synchronize()
dist.barrier()
sys.stdout.write(f"rank {RANK}: tokens went there and back\n")  # whole, beside the other rank's
dist.destroy_process_group()
