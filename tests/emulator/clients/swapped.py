"""Tensors in host memory that operators of the device work on, and pinned memory that is registered."""

import gc

import torch
import torch_npu


def main() -> None:
    swapped = torch_npu.empty_with_swapped_memory([1000, 3], dtype=torch.float32, device=torch.device("npu:0"))
    swapped.fill_(2)
    swapped.mul_(torch.arange(3, dtype=torch.float32, device="npu"))
    out = swapped + 1
    assert out.sum(0).tolist() == [1000, 3000, 5000]
    del swapped
    gc.collect()
    pinned = torch.arange(10, dtype=torch.float32).pin_memory()
    assert pinned.to("npu", non_blocking=True).sum().item() == 45
    print("swapped")


if __name__ == "__main__":
    main()
