#!/usr/bin/env python3
"""What a small operator costs through the emulated device, and where the time goes.

    python scripts/bench_emulator.py [OPERATOR ...] [--write]     --write also writes docs/results/round-trip.md

Every number is microseconds for one call, the least of some rounds: see ``MEANING``.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "helpers")]

OPERATORS = ("aclnnMm", "aclnnAbs", "aclnnRmsNormGrad", "aclnnMoeTokenPermuteGrad")
CALLS, ROUNDS = 500, 7
COLUMNS = ("phase one", "phase two", "reference", "the way", "round trip", "both use", "sleeps")
MEANING = """Microseconds for one call from Python by ctypes, the least of seven rounds. Phase one and phase two are the
client's own work: arguments that were seen before, a launch without a wait. The round trip is both phases and the wait for the
result. The reference is the same operator bound on the NumPy backend, in the client. The way is what remains: to the device
process and back. Both processes use so many microseconds of processor time for a round trip, and their threads sleep so often."""


def arrays(name: str) -> list[object]:
    """The arguments of a small call: arrays for tensors, None for an optional one."""
    import numpy as np

    square = np.ones((4, 4), np.float32)
    return {
        "aclnnMm": [square, square, square.copy(), 0],
        "aclnnAbs": [square, square.copy()],
        "aclnnRmsNormGrad": [square, square, np.ones((4, 1), np.float32), square[0], square.copy(), square[0].copy()],
        "aclnnMoeTokenPermuteGrad": [square, np.arange(4, dtype=np.int32), 2, False, np.ones((2, 4), np.float32)],
    }[name]


def least(call: Callable[[], object], after: Callable[[], object] = lambda: None) -> float:
    """Microseconds for one call."""
    rounds = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        for _ in range(CALLS):
            call()
        rounds.append((time.perf_counter() - started) / CALLS * 1e6)
        after()
    return min(rounds)


def measure(name: str) -> None:
    """Runs in a process with the emulated libraries."""
    import ctypes

    import bench_switches
    import numpy as np
    from emulator_client import Cann

    from ascend_aclnn import catalog
    from ascend_aclnn.backends.numpy import find_backend as numpy_backend
    from ascend_aclnn.backends.numpy.storage import wrap_array
    from ascend_aclnn.core.dtypes import as_datatype

    cann = Cann()
    arguments = arrays(name)
    values = [cann.tensor(a).handle if isinstance(a, np.ndarray) else a for a in arguments]
    size, executor = ctypes.c_uint64(), ctypes.c_void_p()
    one, two = cann._function(f"{name}GetWorkspaceSize"), cann._function(name)
    results = ctypes.byref(size), ctypes.byref(executor)
    workspace = cann.malloc(1 << 20)
    executors: list[int] = []

    def phase_one() -> None:
        one(*values, *results)
        executors.append(executor.value or 0)

    def phase_two() -> None:
        two(workspace, size, executors.pop(), None)

    def round_trip() -> None:
        one(*values, *results)
        two(workspace, size, executor, None)
        cann.aclrtSynchronizeStream(None)

    phase_one()
    phase_two()
    cann.aclrtSynchronizeStream(None)
    first = least(phase_one)
    second = least(phase_two, lambda: cann.aclrtSynchronizeStream(None))
    pid = bench_switches.device_process()

    def used() -> tuple[float, int]:
        """Microseconds of both processes, and how often their threads have slept."""
        seconds = time.process_time() + time.clock_gettime(~pid << 3 | 2)
        return seconds * 1e6, sum(bench_switches.switches_of_both())

    whole = least(round_trip)
    before = used()
    for _ in range(ROUNDS * CALLS):
        round_trip()
    both, sleeps = ((now - then) / (ROUNDS * CALLS) for now, then in zip(used(), before))
    backend, operator = numpy_backend("Ascend910B1"), catalog.get(name)
    host = [wrap_array(backend, a, as_datatype(a.dtype)) if isinstance(a, np.ndarray) else a for a in arguments]
    reference = least(backend.bind(operator, host).run)
    rest = whole - first - second - reference
    cann.aclrtFree(workspace)
    cann.finish()
    print(*(f"{number:.1f}" for number in (first, second, reference, rest, whole, both, sleeps)))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("operators", nargs="*", default=list(OPERATORS), metavar="OPERATOR")
    parser.add_argument("--write", action="store_true", help="write docs/results/round-trip.md")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        measure(options.operators[0])
        return 0
    from bench_results import Table, write
    from emulator_client import environment

    from ascend_aclnn.emulator.build import build

    home = build()
    print(f"{'microseconds':28}" + "".join(f"{column:>12}" for column in COLUMNS), flush=True)
    rows = []
    for name in options.operators:
        command = [sys.executable, __file__, name, "--measure"]
        settings = {**environment(home), "OMP_NUM_THREADS": "2"}
        done = subprocess.run(command, env=settings, stdout=subprocess.PIPE, text=True, check=True)
        rows.append([name, *done.stdout.split()])
        print(f"{name:28}" + "".join(f"{cell:>12}" for cell in rows[-1][1:]), flush=True)
    if options.write:
        title, command_line = "A small operator on the emulated device", "python scripts/bench_emulator.py --write"
        write("round-trip", title, command_line, MEANING, [Table(("operator", *COLUMNS), rows)])
    return 0


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "2")
    sys.exit(main())
