#!/usr/bin/env python
"""What --validate costs: a training step of torch_npu on the emulated device, without it, with sync and with everything.

    scripts/bench_validate.py                   side by side: some four minutes on two idle cores
    scripts/bench_validate.py --write           also docs/results/validate.md, on an idle machine
    scripts/bench_validate.py --starts 5 --rounds 12

Programs with and without it run beside each other and take turns of a few steps, so that other work of the machine meets
all. What counts is processor time, of the program and of the device process: the median of all turns. A ratio is the median of
the ratios of turns of the same round, to the two programs without it. All are started several times, and one program without
it is measured against the other: as far as that ratio is from 1, so far may the others be wrong. BLAS has one thread
(OPENBLAS_NUM_THREADS): several wait for each other by spinning, for as long as chance has it. "queue off" is
TASK_QUEUE_ENABLE=0.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import NamedTuple, Optional

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
KINDS = {"off": None, "off, again": None, "sync": "sync", "memory,sync": "memory,sync"}
OFF = ("off", "off, again")
SHAPES = {"width 64, 2 layers": (64, 2, 8, 32), "width 256, 2 layers": (256, 2, 8, 64)}


def start(kinds: Optional[str], shape: tuple[int, ...], queue: str) -> subprocess.Popen[str]:
    options = [] if kinds is None else [f"--validate={kinds}"]
    command = [sys.executable, "-m", "ascend_aclnn", "emulator", "run", *options, "--", sys.executable, "-c", PROGRAM]
    variables = {
        **os.environ,
        "TASK_QUEUE_ENABLE": queue,
        "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",
        "OPENBLAS_NUM_THREADS": "1",
    }
    return subprocess.Popen(
        [*command, *map(str, shape)], env=variables, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


class Turn(NamedTuple):
    """Milliseconds of processor time for a step."""

    program: float
    device: float

    @property
    def both(self) -> float:
        return self.program + self.device


Rounds = list[dict[str, Turn]]  # a turn of each of KINDS


def measure(shape: tuple[int, ...], queue: str, rounds: int) -> Rounds:
    """Some rounds of programs that are started for them, all at once."""
    processes = {name: start(kinds, shape, queue) for name, kinds in KINDS.items()}

    def say(process: subprocess.Popen[str], steps: int) -> None:
        assert process.stdin is not None
        process.stdin.write(f"{steps}\n")
        process.stdin.flush()

    def answer(process: subprocess.Popen[str]) -> str:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, "the program has ended"
        return line

    for process in processes.values():
        while answer(process) != "ready\n":
            pass
    measured: Rounds = []
    for number in range(rounds):
        turns = {}
        for name in list(KINDS)[:: -1 if number % 2 else 1]:  # none is always the first after the others
            say(processes[name], STEPS)
            turns[name] = Turn(*map(float, answer(processes[name]).split()))
        measured.append(turns)
    for process in processes.values():
        process.communicate()
    return measured


def ratio(rounds: Rounds, name: str) -> float:
    """A kind of validation to none; of one program without it to the other."""
    others = [other for other in OFF if other != name] if name in OFF else OFF
    return median(turns[name].both * len(others) / sum(turns[other].both for other in others) for turns in rounds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=8, help="in which each program has a turn, after each start (8)")
    parser.add_argument("--starts", type=int, default=3, help="of all programs (3)")
    parser.add_argument("--shape", choices=SHAPES, help="only this one")
    parser.add_argument("--write", action="store_true", help="also write docs/results/validate.md")
    options = parser.parse_args()
    head = ("training step", "validated", "program, ms", "device process, ms", "both", "ratio", "of each start")
    rows = []
    for shape in [options.shape] if options.shape else SHAPES:
        for queue, word in (("1", "queue on"), ("0", "queue off")):
            starts = [measure(SHAPES[shape], queue, options.rounds) for _ in range(options.starts)]
            together = [turns for rounds in starts for turns in rounds]
            for name in KINDS:
                program = median(turns[name].program for turns in together)
                device = median(turns[name].device for turns in together)
                both = median(turns[name].both for turns in together)
                ratios = sorted(ratio(rounds, name) for rounds in starts)
                cells = (f"{program:.1f}", f"{device:.1f}", f"{both:.1f}", f"{ratio(together, name):.2f}")
                rows.append((f"{shape}, {word}", name, *cells, f"{ratios[0]:.2f} to {ratios[-1]:.2f}"))
                print("  ".join(f"{cell:>12}" for cell in rows[-1]), flush=True)
    if options.write:
        chosen = f' --shape "{options.shape}"' if options.shape else ""
        text = (
            "A training step of a small transformer with torch_npu on the emulated device: processor time of the program and "
            "of the device process, medians, without `--validate`, with `--validate=sync` and with all of it. Ratios are medians "
            "of those of turns of the same round, to the two programs without it; that of the second one of these to the first "
            "says how far the others may be wrong. BLAS has one thread, because several wait for each other by spinning."
        )
        bench_results.write(
            "validate",
            "The cost of validation",
            f"scripts/bench_validate.py{chosen} --starts {options.starts} --rounds {options.rounds} --write",
            text,
            [bench_results.Table(head, rows)],
        )


if __name__ == "__main__":
    main()
