"""Threads that share handles, destroy them under each other, reset the device and kill its process: clients/handles.c.

    python tests/helpers/stress_handles.py --minutes 10 --seed 1 [--sanitize thread | address,undefined]

Runs of some seconds follow each other, each with a seed of its own and its own share of kills and resets. The first run that
crashes, hangs, answers with another status than the documented ones, or lets a sanitizer speak ends it, with the command that
repeats it. The last line of a good one has the counts.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "helpers")]

from emulator_client import environment  # noqa: E402

from ascend_aclnn.emulator.build import build, find_compiler  # noqa: E402

SOURCE = ROOT / "tests" / "emulator" / "clients" / "handles.c"
# What two threads write to the same device memory at once is the program's race, not the library's.
SUPPRESSIONS = "race:copy_now\n"
INTERVALS = ((0, 0), (0, 300), (1500, 0), (1500, 700))  # milliseconds between kills and between resets; 0: none


class Stress(NamedTuple):
    """The program, and the environment that it runs in."""

    program: Path
    environment: dict[str, str]

    def run(self, seconds: float, seed: int, kill_every: int, reset_every: int) -> subprocess.CompletedProcess[str]:
        command = [str(self.program), *map(str, (seconds, seed, kill_every, reset_every))]
        return subprocess.run(
            command, env=self.environment, capture_output=True, text=True, timeout=seconds + 180, errors="replace"
        )


def compile_stress(directory: Path, sanitize: tuple[str, ...] = ()) -> Stress:
    """Compiles the program against libraries built with the same sanitizers."""
    home, program, suppressions = build(sanitize=sanitize), directory / "handles", directory / "suppressions"
    suppressions.write_text(SUPPRESSIONS, encoding="utf-8")
    flags = ["-g", "-O1", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-pthread"]
    flags += [f"-fsanitize={','.join(sanitize)}"] if sanitize else []
    libraries = ["-lopapi", "-lnnopbase", "-lhccl", "-lascendcl", "-ldl"]
    places = [f"-I{home / 'include'}", f"-L{home / 'lib64'}"]
    command = [find_compiler(), *flags, str(SOURCE), *places, *libraries, "-o", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0 or done.stderr:
        raise RuntimeError(done.stderr)
    settings = {"ASCEND_EMULATOR_LEAKS": "0"}
    if "thread" in sanitize:  # it shadows addresses
        settings["ASCEND_EMULATOR_MEMORY"] = "64M"
        settings["TSAN_OPTIONS"] = f"die_after_fork=0:exitcode=66:suppressions={suppressions}"
    if "address" in sanitize:  # what is alive at the end is in the tables of the program
        settings["ASAN_OPTIONS"] = "detect_leaks=0:alloc_dealloc_mismatch=0"  # the program frees arrays of new[]
        settings["UBSAN_OPTIONS"] = "halt_on_error=1:print_stacktrace=1"
    return Stress(program, environment(home, **settings))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=1)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--seconds", type=float, default=15, help="of one run")
    parser.add_argument("--sanitize", default="", metavar="LIST", help="thread, or address,undefined")
    options = parser.parse_args()
    counts: Counter[str] = Counter()
    end = time.monotonic() + options.minutes * 60
    with tempfile.TemporaryDirectory() as directory:
        stress = compile_stress(Path(directory), tuple(filter(None, options.sanitize.split(","))))
        seed = options.seed
        while time.monotonic() < end:
            intervals = INTERVALS[seed % len(INTERVALS)]
            done = stress.run(options.seconds, seed, *intervals)
            if done.returncode != 0:
                print(done.stdout, done.stderr[-20000:], sep="\n")
                print(f"failed with {done.returncode}: {SOURCE.name} {options.seconds} {seed}", *intervals)
                return 1
            counts["runs"] += 1
            line = done.stdout.strip().splitlines()[-1]
            for number, what in re.findall(r"(\d+) (calls|kills|resets)", line):
                counts[what] += int(number)
            for status, number in re.findall(r"(\d+): (\d+)", line):
                counts[status] += int(number)
            seed += 1
    print(
        "ok", ", ".join(f"{number} {what}" for what, number in counts.items()), f"(seeds {options.seed} to {seed - 1})"
    )
    return 0


if __name__ == "__main__":
    os.environ.setdefault("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")
    sys.exit(main())
