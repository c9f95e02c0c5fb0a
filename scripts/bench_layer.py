#!/usr/bin/env python
"""What the recording layer costs the host: operators of torch_npu and of C that do nothing, with the layer and without it.

    scripts/bench_layer.py                   torch_npu (where it is installed) and C, side by side
    scripts/bench_layer.py --write           also docs/results/layer.md, on an idle machine

The device is the emulated one with ASCEND_EMULATOR_NOOP: operators succeed and compute nothing. Two programs without the layer
and two with it run beside each other and take turns of 200 calls, so that other work of the machine meets all; the least turn of
each counts. Where a process has its memory makes a difference of a few percent, so there are several starts: a share is the
median, over starts and pairs of programs, of what the one with the layer takes more than the one without. Beside it stands what
two programs of the same kind differ by: a smaller share says nothing.
"queue off" is TASK_QUEUE_ENABLE=0: the calling thread does all of torch_npu's work for an operator.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import bench_results

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]
TURN = 200

TORCH = """
import sys, time
import torch, torch_npu
a, b = (torch.ones(4, 4).npu() for _ in range(2))
out = torch.empty(4, 4).npu()
gamma = torch.ones(4).npu()
calls = {
    "mm": lambda: torch.mm(a, b, out=out),
    "add": lambda: torch.add(a, b, out=out),
    "rms_norm": lambda: torch_npu.npu_rms_norm(a, gamma),
}
for call in calls.values():
    for _ in range(300):
        call()
torch.npu.synchronize()
print("ready", flush=True)
for line in sys.stdin:
    call, count = calls[line.strip()], int(sys.argv[1])
    begin, spent = time.perf_counter_ns(), time.process_time_ns()
    for _ in range(count):
        call()
    calling = time.perf_counter_ns() - begin
    torch.npu.synchronize()
    print(calling / count / 1e3, (time.process_time_ns() - spent) / count / 1e3, flush=True)
"""

C = r"""
#include "acl/acl.h"
#include "aclnnop/aclnn_add.h"
#include <stdio.h>
#include <string.h>
#include <time.h>
static double now(clockid_t clock) { struct timespec t; clock_gettime(clock, &t); return t.tv_sec * 1e6 + t.tv_nsec / 1e3; }
int main(void) {
    int64_t dims[2] = {4, 4};
    float one = 1;
    void *address[3];
    aclrtStream stream;
    char line[64];
    aclInit(NULL);
    aclrtSetDevice(0);
    aclrtCreateStream(&stream);
    for (int i = 0; i < 3; i++) aclrtMalloc(&address[i], 64, ACL_MEM_MALLOC_HUGE_FIRST);
    printf("ready\n");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin) != NULL) {
        double begin = now(CLOCK_MONOTONIC), spent = now(CLOCK_PROCESS_CPUTIME_ID);
        for (int k = 0; k < COUNT; k++) {
            aclTensor *t[3];
            uint64_t size;
            aclOpExecutor *executor;
            for (int i = 0; i < 3; i++) t[i] = aclCreateTensor(dims, 2, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, dims, 2, address[i]);
            aclScalar *alpha = aclCreateScalar(&one, ACL_FLOAT);
            aclnnAddGetWorkspaceSize(t[0], t[1], alpha, t[2], &size, &executor);
            aclnnAdd(NULL, 0, executor, stream);
            for (int i = 0; i < 3; i++) aclDestroyTensor(t[i]);
            aclDestroyScalar(alpha);
        }
        printf("%f ", (now(CLOCK_MONOTONIC) - begin) / COUNT);
        printf("%f\n", (now(CLOCK_PROCESS_CPUTIME_ID) - spent) / COUNT);
        fflush(stdout);
    }
    return 0;
}
"""


class Program:
    """A program that answers a line with what a turn of calls took: microseconds of the caller, and of the processors."""

    def __init__(self, command: list[str], variables: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            command, env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self.process.stdout is not None and self.process.stdin is not None
        self.answers, self.questions = self.process.stdout, self.process.stdin
        while self.answers.readline().strip() != "ready":
            if self.process.poll() is not None:
                raise SystemExit(f"{command[0]} ended with {self.process.returncode}")

    def turn(self, name: str) -> tuple[float, float]:
        self.questions.write(name + "\n")
        self.questions.flush()
        calling, processors = self.answers.readline().split()
        return float(calling), float(processors)

    def close(self) -> None:
        self.questions.close()
        self.process.wait(60)


class Measured(NamedTuple):
    """Microseconds of the least turns without and with the layer, the share, and how far two programs of one kind lie apart."""

    without: float
    layered: float
    share: float
    median_apart: float
    most_apart: float

    @property
    def cells(self) -> list[str]:
        more = self.layered - self.without
        apart = f"{self.median_apart:.0%}, {self.most_apart:.0%}"
        return [f"{self.without:.2f}", f"{self.layered:.2f}", f"{more:+.2f}", f"{self.share:+.0%}", apart]


def measured(starts: list[list[float]]) -> Measured:
    """Of each start, the least turns of two programs without and two with the layer."""
    shares = [layered / plain - 1 for start in starts for plain in start[:2] for layered in start[2:]]
    apart = [max(pair) / min(pair) - 1 for start in starts for pair in (start[:2], start[2:])]
    without, layered = (statistics.median([x for start in starts for x in start[at : at + 2]]) for at in (0, 2))
    return Measured(without, layered, statistics.median(shares), statistics.median(apart), max(apart))


def compared(
    command: list[str], names: list[str], plain: dict[str, str], layered: list[dict[str, str]], turns: int, starts: int
) -> dict[str, tuple[Measured, Measured]]:
    """For each name, of the calling thread and of all processors. ``layered`` are the variables of the programs of all starts."""
    best: dict[str, list[list[tuple[float, float]]]] = {name: [] for name in names}
    for start in range(starts):
        programs = [Program(command, variables) for variables in (plain, plain, *layered[2 * start : 2 * start + 2])]
        for name in names:
            best[name].append([(1e9, 1e9)] * len(programs))
        for _ in range(turns):
            for name in names:
                least = best[name][-1]
                for at, program in enumerate(programs):
                    calling, processors = program.turn(name)
                    least[at] = (min(least[at][0], calling), min(least[at][1], processors))
        for program in programs:
            program.close()
    return {
        name: (measured([[c for c, _ in row] for row in rows]), measured([[p for _, p in row] for row in rows]))
        for name, rows in best.items()
    }


def main() -> None:
    from ascend_aclnn.cli.emulator import environment
    from ascend_aclnn.emulator.build import build, find_compiler
    from ascend_aclnn.layer import run as layer_run

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=40, help="of each operator in each start (%(default)s)")
    parser.add_argument("--starts", type=int, default=5, help="of each four programs (%(default)s)")
    parser.add_argument("--write", action="store_true", help="write docs/results/layer.md")
    options = parser.parse_args()
    home = build()
    rows: list[list[str]] = []

    with tempfile.TemporaryDirectory() as folder:
        number = 0

        def measure(title: str, command: list[str], names: list[str], recording: bool = True, **settings: str) -> None:
            nonlocal number
            number += 1
            plain = environment(home, ASCEND_EMULATOR_NOOP="1", ASCEND_EMULATOR_LEAKS="0", **settings)
            layered = []
            for at in range(2 * options.starts):
                record = Path(folder) / f"{number}_{at}.aclnn"
                layered.append(layer_run.environment(layer_run.Options(record), plain))
                if not recording:
                    del layered[-1]["ASCEND_LAYER_RECORD"]
            for name, (calling, both) in compared(
                command, names, plain, layered, options.turns, options.starts
            ).items():
                row = [f"{title}: {name}", *calling.cells, *both.cells]
                rows.append(row)
                print(f"{row[0]:32}" + "".join(f"{cell:>10}" for cell in row[1:]), flush=True)

        parts = ["without", "with", "more", "share", "apart"]
        head = ["", *parts, *(f"both, {part}" for part in parts)]
        print(f"load {os.getloadavg()[0]:.1f} as it begins")
        print(f"{'microseconds per operator':32}" + "".join(f"{cell:>10}" for cell in (*parts, *parts)))
        source, program = Path(folder) / "client.c", Path(folder) / "client"
        source.write_text(C)
        places = [f"-I{home / 'include'}", f"-L{home / 'lib64'}", "-lopapi", "-lnnopbase", "-lascendcl"]
        subprocess.run(
            [find_compiler(), "-O2", f"-DCOUNT={TURN}", str(source), *places, "-o", str(program)], check=True
        )
        measure("C", [str(program)], ["add"])
        measure("C, recording nothing", [str(program)], ["add"], recording=False)
        if importlib.util.find_spec("torch_npu"):
            names = ["mm", "add", "rms_norm"]
            measure("torch_npu", [sys.executable, "-c", TORCH, str(TURN)], names, OMP_NUM_THREADS="1")
            measure(
                "torch_npu, queue off",
                [sys.executable, "-c", TORCH, str(TURN)],
                names,
                OMP_NUM_THREADS="1",
                TASK_QUEUE_ENABLE="0",
            )
    if options.write:
        text = (
            "Microseconds per operator without data: of the calling thread, and (both) of all the program's threads on the "
            "processors; medians of the programs' least turns. Apart is what two programs of the same kind differ by, the median "
            "and the most of all starts: a smaller share says nothing. Operators do nothing. Queue off is TASK_QUEUE_ENABLE=0: "
            "the calling thread does all of torch_npu's work. Recording nothing is the floor: the shims forward and know the "
            "handles."
        )
        bench_results.write(
            "layer", "The recording layer", "scripts/bench_layer.py --write", text, [bench_results.Table(head, rows)]
        )


if __name__ == "__main__":
    main()
