"""Two steps of training, among ranks where there are some; it is run under the layer."""

import os

import torch
import torch.distributed
import torch_npu  # noqa: F401  registers the device

RANK = int(os.environ.get("RANK", "-1"))


def main() -> None:
    if RANK >= 0:
        torch.npu.set_device(RANK)
        torch.distributed.init_process_group("hccl")
    torch.manual_seed(0)
    layers = [torch.nn.Embedding(50, 32), torch.nn.LayerNorm(32), torch.nn.Linear(32, 64), torch.nn.GELU()]
    net: torch.nn.Module = torch.nn.Sequential(*layers, torch.nn.Linear(64, 50)).npu()
    if RANK >= 0:
        net = torch.nn.parallel.DistributedDataParallel(net, device_ids=[RANK])
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
    x, y = (torch.randint(0, 50, (16,)).npu() for _ in range(2))
    for _ in range(2):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
    print(f"loss {loss.item():.3f}")
    if RANK >= 0:
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
