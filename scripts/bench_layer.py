#!/usr/bin/env python
"""What the recording layer costs the host: operators of torch_npu and of C that do nothing, with the layer and without it.

    scripts/bench_layer.py                   torch_npu (where it is installed) and C, side by side
    scripts/bench_layer.py --write           also docs/results/layer.md, on an idle machine

The device is the emulated one with ASCEND_EMULATOR_NOOP: operators succeed and compute nothing. Programs with and without the
layer run beside each other and take turns of 200 calls, so that other work of the machine meets both; the least turn counts, of
several starts of both, because where a process has its memory makes a difference of a few percent.
"queue off" is TASK_QUEUE_ENABLE=0: the calling thread does all of torch_npu's work for an operator.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import subprocess
import sys
import tempfile
from pathlib import Path

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
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1e6 + t.tv_nsec / 1e3; }
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
        double begin = now();
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
        printf("%f 0\n", (now() - begin) / COUNT);
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


def compared(
    command: list[str], names: list[str], plain: dict[str, str], layered: dict[str, str], turns: int, starts: int
) -> dict[str, list[tuple[float, float]]]:
    """For each name the least of (calling, processors) without and with the layer."""
    best = {name: [(1e9, 1e9), (1e9, 1e9)] for name in names}
    for _ in range(starts):
        programs = [Program(command, plain), Program(command, layered)]
        for _ in range(turns):
            for name in names:
                for at, program in enumerate(programs):
                    calling, processors = program.turn(name)
                    best[name][at] = (min(best[name][at][0], calling), min(best[name][at][1], processors))
        for program in programs:
            program.close()
    return best


def main() -> None:
    from ascend_aclnn.cli.emulator import environment
    from ascend_aclnn.emulator.build import build, find_compiler
    from ascend_aclnn.layer import run as layer_run

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=40)
    parser.add_argument("--starts", type=int, default=3)
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
            record = Path(folder) / f"{number}.aclnn"
            layered = layer_run.environment(layer_run.Options(record), plain)
            if not recording:
                del layered["ASCEND_LAYER_RECORD"]
            best = compared(command, names, plain, layered, options.turns, options.starts)
            for name, ((one, all_one), (other, all_other)) in best.items():
                more = other - one
                row = [f"{title}: {name}", f"{one:.2f}", f"{other:.2f}", f"{more:+.2f}", f"{more / one:+.0%}"]
                row += [f"{all_one:.2f}", f"{all_other:.2f}"] if all_one else ["", ""]
                rows.append(row)
                print(f"{row[0]:36}" + "".join(f"{cell:>12}" for cell in row[1:]), flush=True)

        head = ["", "without", "with", "more", "share", "both, without", "both, with"]
        print(f"load {os.getloadavg()[0]:.1f} as it begins")
        print(f"{'microseconds per operator':36}" + "".join(f"{cell:>12}"[:14] for cell in head[1:]))
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
            "processors; the least of the turns. Operators do nothing. Queue off is TASK_QUEUE_ENABLE=0: the calling thread does "
            "all of torch_npu's work. Recording nothing is the floor: the shims forward and know the handles."
        )
        bench_results.write(
            "layer", "The recording layer", "scripts/bench_layer.py --write", text, [bench_results.Table(head, rows)]
        )


if __name__ == "__main__":
    main()
