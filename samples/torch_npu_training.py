"""An ordinary training script for torch_npu: nothing in it depends on where it runs.

On a host with an NPU: python samples/torch_npu_training.py
On any other host:     ascend-aclnn emulator run -- python samples/torch_npu_training.py
"""

import argparse
import time

import torch
import torch.nn.functional as F
import torch_npu  # noqa: F401
from torch import nn

parser = argparse.ArgumentParser(description="Train a small causal language model on the digits of counting.")
parser.add_argument("--steps", type=int, default=60)
parser.add_argument("--width", type=int, default=64)
parser.add_argument("--device", default="npu")
options = parser.parse_args()


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.first_norm, self.second_norm = nn.RMSNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, _ = x.shape
        q, k, v = self.qkv(self.first_norm(x)).view(batch, length, 3, 4, -1).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(x.shape)
        x = x + self.out(attended)
        return x + self.down(F.gelu(self.up(self.second_norm(x)), approximate="tanh"))


class Model(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(11, width), nn.Embedding(32, width)
        self.blocks = nn.Sequential(Block(width), Block(width))
        self.head = nn.Linear(width, 11)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.blocks(self.tokens(x) + self.positions.weight[: x.shape[1]]))


text = torch.tensor([10 if c == " " else int(c) for number in range(2000) for c in f"{number} "])
torch.manual_seed(0)
model = Model(options.width).to(options.device)
optimizer = torch.optim.AdamW(model.parameters(), 3e-3)
name = torch.npu.get_device_name() if options.device == "npu" else options.device
print(f"{sum(p.numel() for p in model.parameters())} parameters on {name}")

started = time.perf_counter()
for step in range(1, options.steps + 1):
    starts = torch.randint(len(text) - 33, (16,))
    batch = torch.stack([text[at : at + 33] for at in starts]).to(options.device)
    loss = F.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    if step % 10 == 0 or step == 1:
        spent = (time.perf_counter() - started) / step
        print(f"step {step:4}  loss {loss.item():.4f}  gradient norm {norm.item():.3f}  {spent * 1e3:.0f} ms a step")
