#!/usr/bin/env python3
"""What the emulated device costs, from C and through torch_npu: processor time of the program and of the device process.

    scripts/bench_torch_npu.py                    everything below, each in a process of its own
    scripts/bench_torch_npu.py stream             operators from C (scripts/bench_stream.c), which needs a C compiler
    scripts/bench_torch_npu.py operator           a small operator: torch.add(a, b, out=c), 4 floats
    scripts/bench_torch_npu.py training           a training step of a small transformer, beside torch on the CPU
    scripts/bench_torch_npu.py large              the same, hidden size 512 and 4 layers
    scripts/bench_torch_npu.py start              from the first use of the device to the end of the first operator

Of some rounds the one that took the least processor time counts. One thread each for torch and NumPy. The device process has the
compiled helper, as from a wheel; in a checkout it is built. With --write it also writes docs/results/emulated-device.md.
"""

from __future__ import annotations

import argparse
import itertools
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import bench_results
import bench_switches

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]


class Spent(NamedTuple):
    """Seconds of the wall clock, and of processor time of the program and of the device process; how often threads slept."""

    wall: float
    program: float
    device: float
    program_sleeps: float = float("nan")  # not counted
    device_sleeps: float = float("nan")

    def since(self, earlier: Spent) -> Spent:
        return Spent(*(now - then for now, then in zip(self, earlier)))


def spent() -> Spent:
    """What has been spent so far; the device process's clock as clock_getcpuclockid(3) gives it."""
    pid = bench_switches.device_process()
    device = time.clock_gettime(~pid << 3 | 2) if pid else 0.0
    return Spent(time.perf_counter(), time.process_time(), device, *bench_switches.switches_of_both())


def least(call: Callable[[], Any], count: int, finish: Callable[[], Any], rounds: int = 8) -> Spent:
    """What one call takes, with its share in ``finish`` after ``count`` of them."""
    costs: list[Spent] = []
    for _ in range(rounds):
        before = spent()
        for _ in range(count):
            call()
        finish()
        costs.append(Spent(*(value / count for value in spent().since(before))))
    return min(costs, key=lambda took: took.program + took.device)


def show(name: str, took: Spent, unit: float, word: str) -> None:
    wall, program, device = (value * unit for value in took[:3])
    sleeps = "".join(f"{'-' if count != count else f'{count:.2f}':>10}" for count in took[3:])
    print(f"{name:40}{wall:10.1f}{program:10.1f}{device:10.1f}{program + device:10.1f} {word}{sleeps}", flush=True)


def stream() -> None:
    """Microseconds for each operator of a stream of small ones, and for one that is waited for, from C."""
    from ascend_aclnn.emulator.build import find_compiler

    home = Path(os.environ["ASCEND_HOME_PATH"])
    with tempfile.TemporaryDirectory() as folder:
        program = f"{folder}/bench_stream"
        places = [f"-I{home / 'include'}", f"-L{home / 'lib64'}", "-lopapi", "-lnnopbase", "-lascendcl"]
        source = str(ROOT / "scripts" / "bench_stream.c")
        subprocess.run([find_compiler(), "-O2", source, *places, "-o", program], check=True)
        done = subprocess.run([program, "60000", "10000"], check=True, stdout=subprocess.PIPE, text=True)
    for name, line in zip(("from C, a stream of operators", "from C, each waited for"), done.stdout.splitlines()):
        show(name, Spent(*(float(word) for word in line.split())), 1, "us")


def operator() -> None:
    """Microseconds for each call, without and with waiting for it."""
    import torch
    import torch_npu

    npu = torch_npu.npu
    a, b, c = (torch.ones(4, device="npu") for _ in range(3))
    several = [torch.ones(4, device="npu") for _ in range(64)]
    turn = itertools.count()

    def same() -> None:
        torch.add(a, b, out=c)

    def changing() -> None:
        at = next(turn)
        torch.add(several[at % 64], several[at * 7 % 64], out=several[at * 5 % 64])

    def waited() -> None:
        torch.add(a, b, out=c)
        npu.synchronize()

    for name, call in (("one after the other", same), ("on changing addresses", changing), ("each waited for", waited)):
        least(call, 200, npu.synchronize, 1)
        show(f"torch.add, {name}", least(call, 2000, npu.synchronize), 1e6, "us")


def training(width: int = 64, layers: int = 2, batch: int = 8, length: int = 32, steps: int = 5) -> None:
    """Milliseconds for each step on the emulated device and on the CPU."""
    import torch
    import torch.nn.functional as F
    import torch_npu
    from torch import nn

    torch.set_num_threads(1)

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            q, k, v = self.qkv(self.first(x)).view(batch, length, 3, width // 16, 16).permute(2, 0, 3, 1, 4)
            attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(attended.transpose(1, 2).reshape(x.shape))
            more: torch.Tensor = self.down(F.gelu(self.up(self.second(x)), approximate="tanh"))
            return x + more

    def run(device: str) -> float:
        torch.manual_seed(0)
        parts = [
            nn.Embedding(100, width),
            *(Block() for _ in range(layers)),
            nn.LayerNorm(width),
            nn.Linear(width, 100),
        ]
        model = nn.Sequential(*parts).to(device)
        optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
        text = torch.randint(100, (batch, length + 1)).to(device)

        def step() -> torch.Tensor:
            loss: torch.Tensor = F.cross_entropy(model(text[:, :-1]).flatten(0, 1), text[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            return loss

        wait = (lambda: None) if device == "cpu" else torch_npu.npu.synchronize
        least(step, 3, wait, 1)
        took = least(step, steps, wait)
        show(f"{layers} layers, hidden {width}, on {device}", took, 1e3, "ms")
        return took.program + took.device

    here, there = run("npu"), run("cpu")
    name = f"{layers} layers, hidden {width}, npu / cpu"
    print(f"{name:40}{'-':>10}{'-':>10}{'-':>10}{here / there:10.2f} times{'-':>10}{'-':>10}", flush=True)


def large() -> None:
    training(512, 4, steps=1)


def start() -> None:
    """Milliseconds from the first use of the device to the end of the first operator, without torch_npu."""
    import numpy as np

    import ascend_aclnn as aclnn
    from ascend_aclnn import ops

    before = spent()
    ops.abs(aclnn.asarray(np.ones(4, np.float32))).numpy()
    after = spent()
    show("from the first use to the first result", after.since(before), 1e3, "ms")


PARTS: dict[str, Callable[..., Any]] = {
    "stream": stream,
    "operator": operator,
    "training": training,
    "large": large,
    "start": start,
}
TEXT = """Time of the wall clock, and processor time of the program and of the device process. Of some rounds the one
that took the least processor time counts. One thread each for torch and NumPy. The device process has the compiled
helper, as from a wheel. A stream has 500 small operators between synchronisations; `torch.add` has four numbers; a
training step is one of a small transformer; the start is from the first use of a device to the end of the first
operator, without torch_npu. Sleeps are voluntary context switches of all threads but torch_npu's that poll: each is
one wake-up of the program or of the device process."""
HEAD = ("what", "wall", "program", "device process", "both", "unit", "sleeps of the program", "of the device process")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", default=list(PARTS), metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--write", action="store_true", help="write docs/results/emulated-device.md")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        PARTS[options.parts[0]]()
        return 0
    from ascend_aclnn import native
    from ascend_aclnn.cli.emulator import environment
    from ascend_aclnn.emulator.build import build

    os.environ["ASCEND_ACLNN_NATIVE"] = "1"
    native.status()  # builds it where it is missing
    threads = {"OMP_NUM_THREADS": "1", "ASCEND_ACLNN_THREADS": "1"}
    variables = {**environment(build()), **threads, "ASCEND_EMULATOR_LEAKS": "0", "PYTHONPATH": str(ROOT)}
    print(
        f"{'':40}{'wall':>10}{'program':>10}{'device':>10}{'both':>10}{'':6}{'sleeps':>7}{'(device)':>10}", flush=True
    )
    rows = []
    for part in options.parts:
        command = [sys.executable, __file__, part, "--measure"]
        done = subprocess.run(command, env=variables, check=True, stdout=subprocess.PIPE, text=True)
        print(done.stdout, end="", flush=True)
        for line in done.stdout.splitlines():
            name, *numbers = re.split(r"\s{2,}", line)
            rows.append([name, *numbers[:3], *numbers[3].rsplit(" ", 1), *numbers[4:]])
    if options.write:
        parts = [] if options.parts == list(PARTS) else options.parts
        call = " ".join(["python scripts/bench_torch_npu.py", *parts, "--write"])
        table = bench_results.Table(HEAD, rows)
        bench_results.write("emulated-device", "What the emulated device costs", call, TEXT, [table])
    return 0


if __name__ == "__main__":
    sys.exit(main())
