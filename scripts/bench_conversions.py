"""Times conversions, exp and row sums on one core, with NumPy alone and with each instruction set of the compiled helper.

    python scripts/bench_conversions.py [--write]     --write also writes docs/results/conversions.md

Needs the helper (ascend-aclnn native build). Arrays have 64 k elements, which stay in the second-level cache.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import subprocess
import sys
import timeit
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench_results import Table, write

VARIANTS = {
    "NumPy": "numpy",
    "NumPy's own cast": "cast",
    "plain C": "plain",
    "AVX2": "avx2",
    "AVX-512": "avx512",
    "NEON": "neon",
}
ELEMENTS, CALLS, ROUNDS = 1 << 16, 50, 20
TEXT = """Nanoseconds for one element, one core, arrays of 65,536 elements; the least of twenty rounds. A dash: the
processor or the helper lacks it. Without the helper (the column NumPy) float16 is converted in integer and float32 steps over
whole blocks, because NumPy's own cast takes an element at a time."""


def cases(own_cast: bool = False) -> dict[str, Callable[[], object]]:
    """Calls by name; ``own_cast``: NumPy's and ml_dtypes' own conversions, nothing else."""
    import ml_dtypes
    import numpy as np

    from ascend_aclnn import native, numerics

    values = np.random.default_rng(0).standard_normal(ELEMENTS, dtype=np.float32)
    wide = np.empty_like(values)
    calls: dict[str, Callable[[], object]] = {}
    for name, dtype in (("float16", np.dtype(np.float16)), ("bfloat16", np.dtype(ml_dtypes.bfloat16))):
        narrow = values.astype(dtype)
        if own_cast:
            calls[f"{name} to float32"] = functools.partial(np.copyto, wide, narrow)
            calls[f"float32 to {name}"] = functools.partial(np.copyto, np.empty_like(narrow), values, casting="unsafe")
            continue
        calls[f"{name} to float32"] = functools.partial(numerics.widen, narrow, wide)
        calls[f"float32 to {name}"] = functools.partial(numerics.round_into, np.empty_like(narrow), values)
    if own_cast:
        return calls
    eight = np.empty(ELEMENTS, ml_dtypes.float8_e4m3fn)
    calls["float32 to float8_e4m3fn"] = lambda: numerics.round_into(eight, values)
    if native.runs_programs():
        calls["exp of float32"] = lambda: native.apply("exp", values, wide)
    else:
        calls["exp of float32"] = lambda: np.exp(values, out=wide)
    rows = values.reshape(-1, 4096)
    calls["float64 sums of rows of 4,096 float32"] = lambda: numerics.sum_over(rows, (1,))
    return calls


def measure(variant: str) -> dict[str, float]:
    """Nanoseconds by case, {} where this processor lacks the instructions."""
    from ascend_aclnn import native

    if variant not in ("numpy", "cast") and not native.use_instructions(variant):
        return {}
    return {
        name: min(timeit.repeat(call, number=CALLS, repeat=ROUNDS)) / CALLS / ELEMENTS * 1e9
        for name, call in cases(variant == "cast").items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Times conversions with and without the compiled helper.")
    parser.add_argument("--write", action="store_true", help="write docs/results/conversions.md")
    parser.add_argument("--measure", choices=VARIANTS.values(), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options.measure)))
        return
    columns: dict[str, dict[str, float]] = {}
    for title, variant in VARIANTS.items():
        helper = "0" if variant in ("numpy", "cast") else "1"
        settings = {**os.environ, "ASCEND_ACLNN_NATIVE": helper, "ASCEND_ACLNN_THREADS": "1"}
        command = [sys.executable, __file__, "--measure", variant]
        done = subprocess.run(command, env=settings, check=True, stdout=subprocess.PIPE, text=True)
        columns[title] = json.loads(done.stdout)
    rows = [
        [name, *(f"{column[name]:.2f}" if name in column else "-" for column in columns.values())]
        for name in columns["NumPy"]
    ]
    for row in (["", *columns], *rows):
        print(f"{row[0]:40}" + "".join(f"{cell:>10}" for cell in row[1:]))
    if options.write:
        command_line = "python scripts/bench_conversions.py --write"
        write(
            "conversions", "Conversions, exp and sums", command_line, TEXT, [Table(("ns an element", *columns), rows)]
        )


if __name__ == "__main__":
    main()
