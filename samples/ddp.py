"""Trains a small model with DistributedDataParallel over HCCL, and checks it against the same training over gloo.

    torchrun --nproc_per_node=2 samples/ddp.py                                          # on cards
    ascend-aclnn emulator run -- torchrun --nproc_per_node=2 samples/ddp.py             # on a host without
    ... samples/ddp.py --steps 10 --width 64                                            # sizes by flags

Every rank trains on its own data; after each step all ranks must have the same parameters. The losses of the device are
compared with those of a second process group (gloo, on the CPU) that sees the same data.
"""

from __future__ import annotations

import argparse
import os

import torch
import torch.distributed as dist
import torch_npu  # noqa: F401  registers the npu device and the hccl backend
from torch import nn


def model(width: int) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(width, width), nn.LayerNorm(width), nn.GELU(approximate="tanh"), nn.Linear(width, 8))


def train(
    device: torch.device, group: dist.ProcessGroup | None, steps: int, width: int
) -> tuple[list[float], torch.Tensor]:
    """Losses of this rank, and all parameters afterwards."""
    ids = [device.index] if device.type == "npu" else None
    net = nn.parallel.DistributedDataParallel(model(width).to(device), device_ids=ids, process_group=group)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
    losses = []
    for step in range(steps):
        torch.manual_seed(100 * step + dist.get_rank())
        x, target = torch.randn(16, width).to(device), torch.randint(0, 8, (16,)).to(device)
        loss = nn.functional.cross_entropy(net(x), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses, torch.cat([p.detach().cpu().reshape(-1) for p in net.parameters()])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--width", type=int, default=32)
    options = parser.parse_args()
    device = torch.device("npu", int(os.environ.get("LOCAL_RANK", "0")) % torch.npu.device_count())
    torch.npu.set_device(device)
    dist.init_process_group("hccl")
    rank, size = dist.get_rank(), dist.get_world_size()
    losses, parameters = train(device, None, options.steps, options.width)
    golden_losses, golden = train(torch.device("cpu"), dist.new_group(backend="gloo"), options.steps, options.width)
    everywhere = [torch.empty_like(parameters).to(device) for _ in range(size)]
    dist.all_gather(everywhere, parameters.to(device))
    assert all(torch.equal(p, everywhere[0]) for p in everywhere), "the ranks' parameters differ"
    worst = max(abs(a - b) for a, b in zip(losses, golden_losses))
    if rank == 0:
        print(
            f"{size} ranks on {torch.npu.get_device_name(device)}, {options.steps} steps: "
            f"loss {losses[0]:.4f} -> {losses[-1]:.4f}"
        )
        print(
            f"largest difference from gloo on the CPU: loss {worst:.1e}, parameters {(parameters - golden).abs().max():.1e}"
        )
    assert worst < 1e-4, f"rank {rank}: losses differ by {worst} from those over gloo"
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
