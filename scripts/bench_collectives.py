"""Times collectives over the emulated HCCL beside gloo, through torch.distributed, on one host.

    python scripts/bench_collectives.py                 # 2 and 4 ranks; needs torch_npu (scripts/test --clients has it)
    python scripts/bench_collectives.py --ranks 2 --sizes 1024 65536 --names all_reduce --repeat 100
    python scripts/bench_collectives.py --scale 2 4 8 16   # by Communicator, on the emulated device: how times grow with ranks

With --write the first also writes docs/results/collectives.md, the last docs/results/collectives-ranks.md. Of each size ours
and gloo's are run alternately, each right after one of its own kind, at which the ranks meet, and after a barrier of gloo's; the
median of several counts. How often threads have slept for it is counted beside it.
Each rank's device process and gloo's threads share the host's cores, so the ratio is what a CI job sees; it says nothing about
cards.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Callable

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
from bench_results import Table, write
from bench_switches import switches_of_both

import ascend_aclnn as aclnn
from ascend_aclnn import Communicator

SCALED = ("all_reduce", "all_gather", "all_to_all")
SCALED_SIZES = {"1 KB": 1 << 10, "1 MB": 1 << 20}
SIZES = [1 << 10, 1 << 14, 1 << 18, 1 << 20, 1 << 24, 1 << 26, 1 << 28]
# The list form of all_gather copies each part with an operator of its own; the others are one call of HCCL.
BESIDE_GLOO = ("all_reduce", "all_gather_into_tensor", "all_gather")
WAYS = ("back to back", "after a barrier")
SLEEPS = "how often threads slept, back to back"
MOST_BYTES = 1 << 30  # of all ranks together: larger sizes are left out


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="bytes")
    parser.add_argument("--names", nargs="+", default=BESIDE_GLOO, choices=BESIDE_GLOO, metavar="COLLECTIVE")
    parser.add_argument("--repeat", type=int, default=20)
    parser.add_argument(
        "--scale", type=int, nargs="+", metavar="RANKS", help="numbers of ranks to compare, without torch"
    )
    parser.add_argument("--write", action="store_true", help="write the page of docs/results")
    options = parser.parse_args()
    if options.scale:
        scale(options)
        return 0
    if "RANK" in os.environ:
        measure(options)
        return 0
    return beside_gloo(options)


def beside_gloo(options: argparse.Namespace) -> int:
    """Prints a table; a job of torchrun measures each number of ranks."""
    environment = {**os.environ, "ASCEND_EMULATOR_LEAKS": "0", "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    cells: dict[tuple[int, int], dict[str, str]] = {}
    for ranks in options.ranks:
        launcher = ["-m", "torch.distributed.run", f"--nproc_per_node={ranks}", "--master_port=29617"]
        command = [sys.executable, "-m", "ascend_aclnn", "emulator", "run", "--", sys.executable, *launcher, *sys.argv]
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True)
        if done.returncode != 0:
            return done.returncode
        for line in done.stdout.splitlines():
            if line.startswith("{"):
                row = json.loads(line)
                cells[row["ranks"], row["bytes"]] = row["cells"]
    columns = [(name, ranks) for name in options.names for ranks in options.ranks]
    head = ["bytes of each rank", *(f"{name}, {ranks} ranks" for name, ranks in columns)]
    tables = []
    for what in (*WAYS, SLEEPS):
        rows = [
            [in_words(nbytes), *(cells.get((ranks, nbytes), {}).get(f"{name}, {what}", "") for name, ranks in columns)]
            for nbytes in options.sizes
        ]
        tables.append(Table(head, rows, what[:1].upper() + what[1:]))
        print(f"\n{tables[-1].title}")
        for row in (head, *rows):
            print(" | ".join(row))
    if options.write:
        text = (
            f"Ours / gloo, in milliseconds, through torch.distributed on one host: the median of {options.repeat} runs, each "
            "right after one of its own kind, and each after a barrier of gloo's. The last table counts, for one collective "
            "of a rank, the voluntary context switches of the program's threads and the device process's, without torch_npu's "
            "threads that poll."
        )
        command = "python scripts/bench_collectives.py --write"
        write("collectives", "Collectives of the emulated HCCL beside gloo", command, text, tables)
    return 0


def in_words(nbytes: int) -> str:
    return f"{nbytes >> 20} MB" if nbytes >= 1 << 20 else f"{nbytes >> 10} KB"


def plain(value: float) -> str:
    """Three significant digits and no exponent."""
    return np.format_float_positional(value, precision=3, unique=False, fractional=False, trim="-")


def scale(options: argparse.Namespace) -> None:
    """Least times of collectives on the emulated device for several numbers of ranks."""
    from ascend_aclnn.emulator.build import build

    os.environ["ASCEND_HOME_PATH"] = str(build())
    context = multiprocessing.get_context("spawn")
    head = [
        "ranks",
        "MB of a device process",
        "barrier",
        *(f"{name} {size}" for name in SCALED for size in SCALED_SIZES),
    ]
    print(" | ".join(head), flush=True)
    rows = []
    for size in options.scale:
        info, results = Communicator.root_info(), context.SimpleQueue()
        ranks = [
            context.Process(target=scaled, args=(info, rank, size, options.repeat, results)) for rank in range(size)
        ]
        for process in ranks:
            process.start()
        rows.append(results.get())
        print(" | ".join(rows[-1]), flush=True)
        for process in ranks:
            process.join()
    if options.write:
        text = f"In milliseconds, the least of {options.repeat} runs; KB and MB are of each rank."
        command = f"python scripts/bench_collectives.py --scale {' '.join(map(str, options.scale))} --write"
        title = "How times of collectives grow with the ranks, on the emulated device"
        write("collectives-ranks", title, command, text, [Table(head, rows)])


def scaled(info: bytes, rank: int, size: int, repeat: int, results: Any) -> None:
    """One rank's part; rank 0 gives the row."""
    os.environ["ASCEND_ACLNN_BENCH"] = str(os.getpid())  # the device process inherits it
    with aclnn.use_backend("npu"), Communicator.from_root_info(info, rank, size) as comm:
        megabytes = resident()  # before the first operator

        def least(run: Callable[[], Any]) -> float:
            least_seconds = float("inf")
            for _ in range(repeat):
                comm.barrier()
                aclnn.synchronize()
                start = time.perf_counter()
                run()
                aclnn.synchronize()
                least_seconds = min(least_seconds, time.perf_counter() - start)
            return least_seconds * 1e3

        cells = [f"{size}", f"{megabytes:.0f}", f"{least(comm.barrier):.2f}"]
        for name in SCALED:
            for nbytes in SCALED_SIZES.values():
                x = aclnn.zeros((nbytes // 4,), np.float32)
                out = aclnn.empty((nbytes // 4 * (size if name == "all_gather" else 1),), np.float32)
                cells.append(f"{least(functools.partial(getattr(comm, name), x, out=out)):.2f}")
        if rank == 0:
            results.put(cells)


def resident() -> float:
    """Megabytes of this process's device process: the one with this process's environment and its own memory."""
    megabytes = 0.0
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if f"ASCEND_ACLNN_BENCH={os.getpid()}".encode() in (path / "environ").read_bytes():
                lines = (path / "status").read_text().splitlines()
                megabytes = max(
                    megabytes, *(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS:"))
                )
    return megabytes


def measure(options: argparse.Namespace) -> None:
    import torch
    import torch.distributed as dist
    import torch_npu  # noqa: F401

    device = torch.device("npu", int(os.environ["LOCAL_RANK"]) % torch.npu.device_count())
    torch.npu.set_device(device)
    dist.init_process_group("hccl")
    gloo = dist.new_group(backend="gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    for nbytes in options.sizes:
        if nbytes * size * size > MOST_BYTES:
            continue
        ours, theirs = torch.ones(nbytes // 4, device=device), torch.ones(nbytes // 4)
        whole = torch.empty(size * len(ours), device=device), torch.empty(size * len(theirs))
        parts = [list(tensor.chunk(size)) for tensor in whole]

        def reduce(tensor: Any, group: Any) -> None:
            dist.all_reduce(tensor, dist.ReduceOp.MAX, group=group)

        def gather(tensor: Any, group: Any, parts: Any = parts) -> None:
            dist.all_gather(parts[0 if group is None else 1], tensor, group=group)

        def gather_whole(tensor: Any, group: Any, whole: Any = whole) -> None:
            dist.all_gather_into_tensor(whole[0 if group is None else 1], tensor, group=group)

        cells = {}
        for name, collective in zip(BESIDE_GLOO, (reduce, gather_whole, gather)):
            if name not in options.names:
                continue

            def run(tensor: Any, group: Any, collective: Any = collective) -> float:
                start = time.perf_counter()
                collective(tensor, group)
                torch.npu.synchronize()
                return time.perf_counter() - start

            both = (ours, None), (theirs, gloo)
            for way in WAYS:
                times: tuple[list[float], list[float]] = [], []
                for _ in range(options.repeat):
                    for seconds, (tensor, group) in zip(times, both):
                        # Awaits the other ranks, and wakes what has slept.
                        _ = dist.barrier(gloo) if way == "after a barrier" else run(tensor, group)
                        seconds.append(run(tensor, group))
                cells[f"{name}, {way}"] = " / ".join(plain(statistics.median(seconds) * 1e3) for seconds in times)
            slept = []
            for tensor, group in both:
                run(tensor, group)
                before = sum(switches_of_both(device.index))
                for _ in range(options.repeat):
                    run(tensor, group)
                slept.append((sum(switches_of_both(device.index)) - before) / options.repeat)
            cells[f"{name}, {SLEEPS}"] = " / ".join(map(plain, slept))
        if rank == 0:
            print(json.dumps({"ranks": size, "bytes": nbytes, "cells": cells}), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    sys.exit(main())
