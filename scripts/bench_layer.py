#!/usr/bin/env python
"""What the recording layer costs the host: operators of torch_npu and of C that do nothing, with the layer and without it.

    scripts/bench_layer.py                   torch_npu (where it is installed) and C, side by side
    scripts/bench_layer.py --write           also docs/results/layer.md, on an idle machine

The device is the emulated one with ASCEND_EMULATOR_NOOP: operators succeed and compute nothing. Two programs without the layer
and two with it run beside each other and take turns of 200 calls, so that other work of the machine meets all; the lower quartile
of a program's turns counts. The calling thread has one core, the program's other threads share another: where the kernel puts
them makes a difference of tens of percent. So does where a process has its memory: there are several starts, and a share is the
median, over starts and pairs of programs, of what the one with the layer takes more. Beside it stands the control,
the same of two programs of one kind, which would be 0. Of both there is the range in which 90 % of the medians of starts lie that
are drawn with replacement from those measured. Times are of the processors: the machine's other work changes them less than the
time that passes.
"Two threads" is what torch_npu's queue does, in C: one thread makes handles and calls phase one, another calls phase two and
destroys them. Of the first the median of single calls is taken, which an interruption does not change.
"queue off" is TASK_QUEUE_ENABLE=0: the calling thread does all of torch_npu's work for an operator.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import random
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
import os, sys, time
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
cores = sorted(os.sched_getaffinity(0))
for thread in map(int, os.listdir("/proc/self/task")):
    os.sched_setaffinity(thread, {cores[0] if thread == os.getpid() else cores[-1]})
print("ready", flush=True)
for line in sys.stdin:
    call, count = calls[line.strip()], int(sys.argv[1])
    begin, spent = time.thread_time_ns(), time.process_time_ns()
    for _ in range(count):
        call()
    calling = time.thread_time_ns() - begin
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
        double begin = now(CLOCK_THREAD_CPUTIME_ID), spent = now(CLOCK_PROCESS_CPUTIME_ID);
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
        printf("%f ", (now(CLOCK_THREAD_CPUTIME_ID) - begin) / COUNT);
        printf("%f\n", (now(CLOCK_PROCESS_CPUTIME_ID) - spent) / COUNT);
        fflush(stdout);
    }
    return 0;
}
"""

TWO_THREADS = r"""
#define _GNU_SOURCE
#include "acl/acl.h"
#include "aclnnop/aclnn_mm.h"
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#define QUEUE 1024
static struct { aclOpExecutor *executor; aclTensor *tensors[3]; } queue[QUEUE];
static unsigned long head __attribute__((aligned(64))), tail __attribute__((aligned(64)));
static aclrtStream stream;
static double now(clockid_t clock) { struct timespec t; clock_gettime(clock, &t); return t.tv_sec * 1e6 + t.tv_nsec / 1e3; }
static int compare(const void *a, const void *b) { return *(const double *)a < *(const double *)b ? -1 : 1; }
static void stay(int last) { /* on the first or the last of the cores */
    cpu_set_t cores, one;
    sched_getaffinity(0, sizeof cores, &cores);
    CPU_ZERO(&one);
    for (int i = 0; i < CPU_SETSIZE; i++) {
        if (!CPU_ISSET(i, &cores)) continue;
        if (last) CPU_ZERO(&one);
        CPU_SET(i, &one);
        if (!last) break;
    }
    sched_setaffinity(0, sizeof one, &one);
}
static void *launch(void *unused) {
    stay(1);
    aclrtSetDevice(0);
    for (unsigned long at = 0;; at++) {
        while (__atomic_load_n(&head, __ATOMIC_ACQUIRE) == at) sched_yield();
        aclnnMm(NULL, 0, queue[at % QUEUE].executor, stream);
        for (int i = 0; i < 3; i++) aclDestroyTensor(queue[at % QUEUE].tensors[i]);
        __atomic_store_n(&tail, at + 1, __ATOMIC_RELEASE);
    }
    return unused;
}
int main(void) {
    int64_t dims[2] = {4, 4}, strides[2] = {4, 1};
    void *address[3];
    static double times[COUNT];
    char line[64];
    pthread_t thread;
    aclInit(NULL);
    aclrtSetDevice(0);
    aclrtCreateStream(&stream);
    for (int i = 0; i < 3; i++) aclrtMalloc(&address[i], 64, ACL_MEM_MALLOC_HUGE_FIRST);
    pthread_create(&thread, NULL, launch, NULL);
    stay(0);
    printf("ready\n");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin) != NULL) {
        double spent = now(CLOCK_PROCESS_CPUTIME_ID);
        for (int k = 0; k < COUNT; k++) {
            unsigned long at = head;
            uint64_t size;
            double begin = now(CLOCK_MONOTONIC);
            aclTensor **t = queue[at % QUEUE].tensors;
            for (int i = 0; i < 3; i++)
                t[i] = aclCreateTensor(dims, 2, ACL_FLOAT, strides, 0, ACL_FORMAT_ND, dims, 2, address[i]);
            aclnnMmGetWorkspaceSize(t[0], t[1], t[2], 0, &size, &queue[at % QUEUE].executor);
            times[k] = now(CLOCK_MONOTONIC) - begin;
            __atomic_store_n(&head, at + 1, __ATOMIC_RELEASE);
            for (volatile int i = 0; i < 1000; i++) {} /* a client does more than that */
        }
        while (__atomic_load_n(&tail, __ATOMIC_ACQUIRE) != head) sched_yield();
        qsort(times, COUNT, sizeof times[0], compare);
        printf("%f %f\n", times[COUNT / 2], (now(CLOCK_PROCESS_CPUTIME_ID) - spent) / COUNT);
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


class Median(NamedTuple):
    """A median of ratios less one, and the range in which it lies."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:+.1%} ({self.low:+.1%} to {self.high:+.1%})"


def median_of(starts: list[list[float]]) -> Median:
    """The median of all, and how far it depends on the starts."""

    def median(chosen: list[list[float]]) -> float:
        return statistics.median([ratio for start in chosen for ratio in start])

    draw = random.Random(0)
    drawn = sorted(median(draw.choices(starts, k=len(starts))) for _ in range(1000))
    return Median(median(starts), drawn[50], drawn[949])


class Measured(NamedTuple):
    """Microseconds without and with the layer, the share, and the same of two programs of one kind."""

    without: float
    layered: float
    share: Median
    control: Median

    @property
    def cells(self) -> list[str]:
        more = self.layered - self.without
        return [f"{self.without:.2f}", f"{self.layered:.2f}", f"{more:+.2f}", str(self.share), str(self.control)]


def measured(starts: list[list[float]]) -> Measured:
    """Of each start, the times of two programs without and two with the layer."""
    shares = [[layered / plain - 1 for plain in start[:2] for layered in start[2:]] for start in starts]
    controls = [[start[1] / start[0] - 1, start[3] / start[2] - 1] for start in starts]
    without, layered = (statistics.median([x for start in starts for x in start[at : at + 2]]) for at in (0, 2))
    return Measured(without, layered, median_of(shares), median_of(controls))


def lower_quartile(values: list[float]) -> float:
    return sorted(values)[len(values) // 4]


def compared(
    command: list[str], names: list[str], plain: dict[str, str], layered: list[dict[str, str]], turns: int, starts: int
) -> dict[str, tuple[Measured, Measured]]:
    """For each name, of the calling thread and of all processors. ``layered`` are the variables of the programs of all starts."""
    times: dict[str, tuple[list[list[float]], list[list[float]]]] = {name: ([], []) for name in names}
    for start in range(starts):
        programs = [Program(command, variables) for variables in (plain, plain, *layered[2 * start : 2 * start + 2])]
        seen = {name: [[program.turn(name) for program in programs] for _ in range(turns)] for name in names}
        for name, rows in seen.items():
            for which, of_starts in enumerate(times[name]):
                of_starts.append([lower_quartile([row[at][which] for row in rows]) for at in range(len(programs))])
        for program in programs:
            program.close()
    return {name: (measured(calling), measured(both)) for name, (calling, both) in times.items()}


def print_row(cells: list[str]) -> None:
    widths = [32, *(8, 8, 8, 26, 26) * 2]
    print(
        "".join(f"{cell:{'<' if at == 0 else '>'}{width}}" for at, (cell, width) in enumerate(zip(cells, widths))),
        flush=True,
    )


def main() -> None:
    from ascend_aclnn.cli.emulator import environment
    from ascend_aclnn.emulator.build import build, find_compiler
    from ascend_aclnn.layer import run as layer_run

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=60, help="of each operator in each start (%(default)s)")
    parser.add_argument("--starts", type=int, default=12, help="of each four programs (%(default)s)")
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
                print_row(row)

        parts = ["without", "with", "more", "share", "control"]
        head = ["", *parts, *(f"both, {part}" for part in parts)]
        print(f"load {os.getloadavg()[0]:.1f} as it begins")
        print_row(["microseconds per operator", *parts, *parts])
        places = [f"-I{home / 'include'}", f"-L{home / 'lib64'}", "-lopapi", "-lnnopbase", "-lascendcl"]
        programs = []
        for name, text in (("client", C), ("two_threads", TWO_THREADS)):
            source = Path(folder) / f"{name}.c"
            source.write_text(text)
            programs.append(str(source.with_suffix("")))
            command = [find_compiler(), "-O2", "-pthread", f"-DCOUNT={TURN}", str(source), *places, "-o", programs[-1]]
            subprocess.run(command, check=True)
        measure("C", programs[:1], ["add"])
        measure("C, recording nothing", programs[:1], ["add"], recording=False)
        measure("C, two threads", programs[1:], ["mm"])
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
            "Microseconds of the processors per operator without data: of the calling thread, and (both) of all the program's "
            "threads; medians of the programs' lower quartiles. Control is what the second of two programs of one kind takes "
            "more than the first, which would be 0. In brackets: 90 % of the medians of starts drawn with replacement. "
            "Operators do nothing. The calling thread has a core of its own. Queue off is TASK_QUEUE_ENABLE=0: the calling "
            "thread does all of torch_npu's work. Recording nothing is the floor: the shims forward and know the handles. Two "
            "threads do in C what torch_npu's do with the queue: the first column is of a call that makes three handles and "
            "calls phase one, with nothing of torch_npu in it."
        )
        bench_results.write(
            "layer", "The recording layer", "scripts/bench_layer.py --write", text, [bench_results.Table(head, rows)]
        )


if __name__ == "__main__":
    main()
