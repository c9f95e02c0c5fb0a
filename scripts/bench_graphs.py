#!/usr/bin/env python3
"""Eager calls beside replays of a graph: a small operator, and a decoder step of 64 operators.

    scripts/bench_graphs.py                      everything below, each in a process of its own
    scripts/bench_graphs.py numpy                the NumPy backend
    scripts/bench_graphs.py emulator             the emulated device, through this package; needs a C compiler
    scripts/bench_graphs.py torch                the same through torch_npu (NPUGraph), where it is installed
    scripts/bench_graphs.py device               the Ascend device of this host, through this package; only where it is named

Eager calls and replays take turns; of the rounds the one that took the least processor time counts. One thread for NumPy and
torch. With --write it also writes docs/results/graphs.md.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bench_results
import bench_torch_npu
import numpy as np
from bench_torch_npu import Spent

ROOT = Path(__file__).resolve().parent.parent
TOKENS, HIDDEN, HEADS, LENGTH, LAYERS = 8, 64, 4, 32, 2
WIDTH = HIDDEN // HEADS
RNG = np.random.default_rng(0)

Step = Callable[[], Any]


class Backend:
    """The operators of the step under one name each, for ``ops`` and for torch."""

    tensor: Callable[[np.ndarray], Any]
    rms_norm: Callable[[Any, Any], Any]
    mm: Callable[[Any, Any], Any]
    bmm: Callable[[Any, Any], Any]
    mul: Callable[..., Any]
    add: Callable[..., Any]
    sub: Callable[..., Any]
    scale: Callable[[Any, float], Any]
    softmax: Callable[[Any], Any]
    silu: Callable[[Any], Any]
    copy: Callable[[Any, Any], Any]
    transposed: Callable[[Any], Any]
    empty: Callable[..., Any]


def decoder_step(b: Any) -> Step:
    """Two layers on 8 tokens: norms, projections, rotary embedding, attention over a cache, a gated feed-forward network."""

    def weights(*shape: int) -> Any:
        return b.tensor(RNG.standard_normal(shape, np.float32) / HIDDEN**0.5)

    half = HIDDEN // 2
    x = weights(TOKENS, HIDDEN)
    cosine, sine = weights(TOKENS, half), weights(TOKENS, half)
    layers = []
    for _ in range(LAYERS):
        square = [weights(HIDDEN, HIDDEN) for _ in range(4)]
        forward = [weights(HIDDEN, 4 * HIDDEN), weights(HIDDEN, 4 * HIDDEN), weights(4 * HIDDEN, HIDDEN)]
        caches = [weights(HEADS, WIDTH, LENGTH), weights(HEADS, LENGTH, WIDTH)]
        layers.append((b.tensor(np.ones(HIDDEN, np.float32)), square, forward, caches))

    def rotated(y: Any) -> Any:
        turned = b.empty(TOKENS, HIDDEN)
        left, right = y[:, :half], y[:, half:]
        b.sub(b.mul(left, cosine), b.mul(right, sine), turned[:, :half])
        b.add(b.mul(right, cosine), b.mul(left, sine), turned[:, half:])
        return turned

    def step() -> Any:
        y = x
        for gamma, (wq, wk, wv, wo), (gate, up, down), (keys, values) in layers:
            h = b.rms_norm(y, gamma)
            q, k, v = rotated(b.mm(h, wq)), rotated(b.mm(h, wk)), b.mm(h, wv)
            by_head = [b.transposed(t.reshape(TOKENS, HEADS, WIDTH)) for t in (q, k, v)]
            b.copy(keys[:, :, :TOKENS], by_head[1].transpose(1, 2) if b.torch else by_head[1].mT)
            b.copy(values[:, :TOKENS], by_head[2])
            attention = b.softmax(b.scale(b.bmm(by_head[0], keys), WIDTH**-0.5))
            joined = b.empty(TOKENS, HIDDEN)
            b.copy(b.transposed(joined.reshape(TOKENS, HEADS, WIDTH)), b.bmm(attention, values))
            y = b.add(b.mm(joined, wo), y)
            h = b.rms_norm(y, gamma)
            y = b.add(b.mm(b.mul(b.silu(b.mm(h, gate)), b.mm(h, up)), down), y)
        return y

    return step


def of_ops() -> Any:
    import ascend_aclnn as aclnn
    from ascend_aclnn import ops

    b: Any = Backend()
    b.torch = False
    b.tensor = lambda array: aclnn.asarray(array.astype(np.float32))
    b.rms_norm = lambda x, gamma: ops.rms_norm(x, gamma)[0]
    b.mm, b.bmm = ops.mm, ops.batch_mat_mul
    b.mul = ops.mul
    b.add = lambda x, y, out=None: ops.add(x, y, 1, out=out)
    b.sub = lambda x, y, out=None: ops.sub(x, y, 1, out=out)
    b.scale = ops.muls
    b.softmax = lambda x: ops.softmax(x, -1)
    b.silu = ops.silu
    b.copy = ops.inplace_copy
    b.transposed = lambda x: x.transpose(1, 0, 2)
    b.empty = lambda *shape: aclnn.empty(shape, "FLOAT")
    return b


def of_torch() -> Any:
    import torch
    import torch_npu

    b: Any = Backend()
    b.torch = True
    b.tensor = lambda array: torch.from_numpy(array.astype(np.float32)).npu()
    b.rms_norm = lambda x, gamma: torch_npu.npu_rms_norm(x, gamma, 1e-6)[0]
    b.mm, b.bmm, b.mul, b.scale = torch.mm, torch.bmm, torch.mul, torch.mul
    b.add = lambda x, y, out=None: torch.add(x, y, out=out)
    b.sub = lambda x, y, out=None: torch.sub(x, y, out=out)
    b.softmax = lambda x: torch.softmax(x, -1)
    b.silu = torch.nn.functional.silu
    b.copy = lambda x, y: x.copy_(y)
    b.transposed = lambda x: x.transpose(0, 1)
    b.empty = lambda *shape: torch.empty(shape, device="npu")
    return b


def compare(name: str, eager: Step, replay: Step, count: int, finish: Step, spent: Callable[[], Spent]) -> None:
    """Prints what a call takes, and a replay, in microseconds, as a line of JSON."""
    costs: dict[str, list[Spent]] = {"eager": [], "replayed": []}
    for step in (eager, replay):
        for _ in range(5):
            step()
        finish()
    for _ in range(12):
        for kind, step in (("eager", eager), ("replayed", replay)):
            before = spent()
            for _ in range(count):
                step()
            finish()
            costs[kind].append(Spent(*(value / count * 1e6 for value in spent().since(before))))
    best = {kind: min(taken, key=lambda took: took.program + took.device) for kind, taken in costs.items()}
    print(json.dumps([name, best["eager"], best["replayed"]]), flush=True)


def on_host() -> Spent:
    return Spent(time.perf_counter(), time.process_time(), 0.0)


def of_package(spent: Callable[[], Spent]) -> None:
    import ascend_aclnn as aclnn
    from ascend_aclnn import ops

    x, out = (aclnn.asarray(np.ones(4, np.float32)) for _ in range(2))
    steps: list[tuple[str, Step, int]] = [
        ("a small operator", lambda: ops.add(x, x, 1, out=out), 1000),
        ("a decoder step of 64 operators", decoder_step(of_ops()), 30),
    ]
    stream = aclnn.Stream()
    for name, step, count in steps:
        for _ in range(3):
            step()  # so that calls are remembered, and CANN's caches are filled
        aclnn.synchronize()
        graph = aclnn.Graph()
        with graph.capture(stream):
            step()
        assert len(graph.nodes) in (1, 64), len(graph.nodes)
        compare(name, step, graph.replay, count, aclnn.synchronize, spent)


def numpy() -> None:
    of_package(on_host)


def emulator() -> None:
    of_package(bench_torch_npu.spent)


def device() -> None:
    of_package(on_host)


def torch() -> None:
    import torch
    import torch_npu

    torch.set_num_threads(1)
    npu: Any = torch_npu.npu
    x, out = (torch.ones(4, device="npu") for _ in range(2))
    steps: list[tuple[str, Step, int]] = [
        ("a small operator", lambda: torch.add(x, x, out=out), 1000),
        ("a decoder step of 64 operators", decoder_step(of_torch()), 30),
    ]
    for name, step, count in steps:
        for _ in range(3):
            step()
        npu.synchronize()
        graph = npu.NPUGraph()
        with npu.graph(graph):
            step()
        compare(name, step, graph.replay, count, npu.synchronize, bench_torch_npu.spent)


PARTS: dict[str, tuple[str, Callable[[], None]]] = {
    "numpy": ("NumPy backend", numpy),
    "emulator": ("emulated device, this package", emulator),
    "torch": ("emulated device, torch_npu", torch),
    "device": ("NPU", device),
}
USUAL = ["numpy", "emulator", "torch"]
TEXT = """Microseconds of an eager call (or step) and of a replay of the graph that captured it: of the wall clock, and of
processor time of the program and the device process together. Eager calls and replays take turns; of the rounds the one with the
least processor time counts. One thread each for NumPy and torch. The decoder step has two layers, 8 tokens and hidden size 64.
On a card the device computes beside the host: there a replay saves the host's share, which these figures do not show."""
HEAD = ("what", "where", "eager, wall", "replayed, wall", "ratio", "eager, processor", "replayed, processor", "ratio")


def row(where: str, name: str, eager: list[float], replayed: list[float]) -> list[str]:
    cells = [name, where]
    for first, second in ((eager[0], replayed[0]), (sum(eager[1:]), sum(replayed[1:]))):
        cells += [f"{first:.1f}", f"{second:.1f}", f"{second / first:.2f}"]
    return cells


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", default=USUAL, metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--write", action="store_true", help="write docs/results/graphs.md")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        PARTS[options.parts[0]][1]()
        return 0
    rows = []
    for part in options.parts:
        if part == "torch" and importlib.util.find_spec("torch_npu") is None:
            print("torch_npu is not installed: its part is left out", file=sys.stderr)
            continue
        variables = {**os.environ, "OMP_NUM_THREADS": "1", "ASCEND_ACLNN_THREADS": "1", "ASCEND_EMULATOR_LEAKS": "0"}
        if part in ("numpy", "device"):
            variables["ASCEND_ACLNN_BACKEND"] = "npu" if part == "device" else part
        else:
            from ascend_aclnn.cli.emulator import environment
            from ascend_aclnn.emulator.build import build

            variables = {**variables, **environment(build())}
        command = [sys.executable, __file__, part, "--measure"]
        done = subprocess.run(command, env=variables, check=True, stdout=subprocess.PIPE, text=True)
        rows += [row(PARTS[part][0], *json.loads(line)) for line in done.stdout.splitlines()]
        for cells in rows[-2:]:
            print("  ".join(f"{cell:>{width}}" for cell, width in zip(cells, (30, 30, 8, 8, 5, 8, 8, 5))), flush=True)
    if options.write:
        parts = [] if options.parts == USUAL else options.parts
        call = " ".join(["python scripts/bench_graphs.py", *parts, "--write"])
        bench_results.write("graphs", "Graphs", call, TEXT, [bench_results.Table(HEAD, rows)])
    return 0


if __name__ == "__main__":
    sys.exit(main())
