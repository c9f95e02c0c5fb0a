#!/usr/bin/env python
"""What --validate costs: a training step of torch_npu on the emulated device, without it, with sync and with everything.

    scripts/bench_validate.py                   side by side
    scripts/bench_validate.py --write           also docs/results/validate.md, on an idle machine
    scripts/bench_validate.py --rounds 20

Programs with and without it run beside each other and take turns of a few steps, so that other work of the machine meets
all. What counts is processor time, of the program and of the device process; the least turn of each. "queue off" is
TASK_QUEUE_ENABLE=0.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path
from typing import Optional

import bench_results

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]
STEPS = 3

PROGRAM = """
import ctypes, sys, time
import torch, torch_npu
import torch.nn.functional as F
from torch import nn

WIDTH, LAYERS, BATCH, LENGTH = map(int, sys.argv[1:5])
torch.set_num_threads(1)
torch.manual_seed(0)

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        q, k, v = self.qkv(self.first(x)).view(BATCH, LENGTH, 3, WIDTH // 16, 16).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(x.shape))
        return x + self.down(F.gelu(self.up(self.second(x)), approximate="tanh"))

parts = [nn.Embedding(100, WIDTH), *(Block() for _ in range(LAYERS)), nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 100)]
model = nn.Sequential(*parts).npu()
optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
text = torch.randint(100, (BATCH, LENGTH + 1)).npu()

def step():
    loss = F.cross_entropy(model(text[:, :-1]).flatten(0, 1), text[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()

for _ in range(3):
    step()
torch.npu.synchronize()
device = ctypes.CDLL("libascendcl.so").aclemuDevicePid(0)
print("ready", flush=True)
for line in sys.stdin:
    count = int(line)
    begin = time.process_time_ns(), time.clock_gettime_ns(~device << 3 | 2)
    for _ in range(count):
        step()
    torch.npu.synchronize()
    end = time.process_time_ns(), time.clock_gettime_ns(~device << 3 | 2)
    print(*((b - a) / count / 1e6 for a, b in zip(begin, end)), flush=True)
"""
KINDS = {"off": None, "sync": "sync", "memory,sync": "memory,sync"}
SHAPES = {"width 64, 2 layers": (64, 2, 8, 32), "width 256, 2 layers": (256, 2, 8, 64)}


def start(kinds: Optional[str], shape: tuple[int, ...], queue: str) -> subprocess.Popen[str]:
    options = [] if kinds is None else [f"--validate={kinds}"]
    command = [sys.executable, "-m", "ascend_aclnn", "emulator", "run", *options, "--", sys.executable, "-c", PROGRAM]
    variables = {**os.environ, "TASK_QUEUE_ENABLE": queue, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    process = subprocess.Popen(
        [*command, *map(str, shape)], env=variables, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    while (line := process.stdout.readline()) != "ready\n":
        assert line, "the program has ended"
    return process


def measure(shape: tuple[int, ...], queue: str, rounds: int) -> dict[str, tuple[float, float]]:
    """Milliseconds of processor time for a step, of the program and of the device process, by what is validated."""
    processes = {name: start(kinds, shape, queue) for name, kinds in KINDS.items()}
    turns: dict[str, list[tuple[float, float]]] = {name: [] for name in processes}
    for _ in range(rounds):
        for name, process in processes.items():
            assert process.stdin is not None and process.stdout is not None
            process.stdin.write(f"{STEPS}\n")
            process.stdin.flush()
            program, device = map(float, process.stdout.readline().split())
            turns[name].append((program, device))
    for process in processes.values():
        process.communicate()
    return {name: min(found, key=sum) for name, found in turns.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--shape", choices=SHAPES, help="only this one")
    parser.add_argument("--write", action="store_true", help="also write docs/results/validate.md")
    options = parser.parse_args()
    head = ("training step", "validated", "program, ms", "device process, ms", "both", "ratio")
    rows = []
    for name in [options.shape] if options.shape else SHAPES:
        for queue, word in (("1", "queue on"), ("0", "queue off")):
            took = measure(SHAPES[name], queue, options.rounds)
            for kinds, (program, device) in took.items():
                both, ratio = program + device, (program + device) / sum(took["off"])
                rows.append(
                    (f"{name}, {word}", kinds, f"{program:.1f}", f"{device:.1f}", f"{both:.1f}", f"{ratio:.2f}")
                )
                print("  ".join(f"{cell:>12}" for cell in rows[-1]), flush=True)
    if options.write:
        chosen = f' --shape "{options.shape}"' if options.shape else ""
        text = (
            "A training step of a small transformer with torch_npu on the emulated device: processor time of the program and "
            "of the device process, without `--validate`, with `--validate=sync` and with all of it. Ratios are to the first "
            "of each three."
        )
        bench_results.write(
            "validate",
            "The cost of validation",
            f"scripts/bench_validate.py{chosen} --rounds {options.rounds} --write",
            text,
            [bench_results.Table(head, rows)],
        )


if __name__ == "__main__":
    main()
