#!/usr/bin/env python3
"""What a small operator costs through the emulated device, and where the time goes.

    scripts/bench_emulator.py [OPERATOR ...]

Every number is microseconds for one call, the median of some rounds. "phase one" and "phase two" are the client's own
work (a known set of arguments, a launch that nobody waits for); "round trip" is both phases and waiting for the result;
"reference" is the same operator on the NumPy backend in this process; the rest is the way to the device process and back.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "helpers")]

OPERATORS = ("aclnnMm", "aclnnAbs", "aclnnRmsNormGrad", "aclnnMoeTokenPermuteGrad")
CALLS, ROUNDS = 500, 7


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


def median(call: Callable[[], object], after: Callable[[], object] = lambda: None) -> float:
    """Microseconds for one call."""
    rounds = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        for _ in range(CALLS):
            call()
        rounds.append((time.perf_counter() - started) / CALLS * 1e6)
        after()
    return statistics.median(rounds)


def measure(name: str) -> None:
    """Runs in a process with the emulated libraries."""
    import ctypes

    import numpy as np
    from emulator_client import Cann

    from ascend_aclnn import catalog
    from ascend_aclnn.backends.numpy import find_backend as numpy_backend
    from ascend_aclnn.backends.numpy.storage import wrap_array
    from ascend_aclnn.core.dtypes import as_datatype

    cann = Cann()
    given = arrays(name)
    values = [cann.tensor(a).handle if isinstance(a, np.ndarray) else a for a in given]
    size, executor = ctypes.c_uint64(), ctypes.c_void_p()
    one, two = cann._function(f"{name}GetWorkspaceSize"), cann._function(name)
    results = ctypes.byref(size), ctypes.byref(executor)
    workspace = cann.malloc(1 << 20)
    made: list[int] = []

    def phase_one() -> None:
        one(*values, *results)
        made.append(executor.value or 0)

    def phase_two() -> None:
        two(workspace, size, made.pop(), None)

    def round_trip() -> None:
        one(*values, *results)
        two(workspace, size, executor, None)
        cann.aclrtSynchronizeStream(None)

    phase_one()
    phase_two()
    cann.aclrtSynchronizeStream(None)
    first = median(phase_one)
    second = median(phase_two, lambda: cann.aclrtSynchronizeStream(None))
    whole = median(round_trip)
    backend, operator = numpy_backend("Ascend910B1"), catalog.get(name)
    host = [wrap_array(backend, a, as_datatype(a.dtype)) if isinstance(a, np.ndarray) else a for a in given]
    reference = median(lambda: backend.execute(operator, host))
    rest = whole - first - second - reference
    cann.aclrtFree(workspace)
    cann.finish()
    print(f"{name:28}{first:12.1f}{second:12.1f}{reference:12.1f}{rest:12.1f}{whole:14.1f}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("operators", nargs="*", default=list(OPERATORS), metavar="OPERATOR")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        measure(options.operators[0])
        return 0
    from emulator_client import environment

    from ascend_aclnn.emulator.build import build

    home = build()
    columns = ("phase one", "phase two", "reference", "way there", "round trip")
    print(f"{'microseconds':28}" + "".join(f"{c:>12}" for c in columns[:-1]) + f"{columns[-1]:>14}", flush=True)
    for name in options.operators:
        command = [sys.executable, __file__, name, "--measure"]
        subprocess.run(command, env={**environment(home), "OMP_NUM_THREADS": "2"}, check=True)
    return 0


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "2")
    sys.exit(main())
