"""Threads that share handles, destroy them under each other, reset the device and kill its process: clients/handles.c.

The program ends with 1 at a status other than the documented ones. ``scripts/attacks/handles.py`` runs it for long.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import NamedTuple

from emulator_client import environment

from ascend_aclnn.emulator.build import build, find_compiler

SOURCE = Path(__file__).resolve().parents[1] / "emulator" / "clients" / "handles.c"
# What two threads write to the same device memory at once is the program's race, not the library's.
SUPPRESSIONS = "race:copy_now\n"


class Stress(NamedTuple):
    """The program, and the environment that it runs in."""

    program: Path
    environment: dict[str, str]

    def run(self, seconds: float, seed: int, kill_every: int, reset_every: int) -> subprocess.CompletedProcess[str]:
        command = [str(self.program), *map(str, (seconds, seed, kill_every, reset_every))]
        return subprocess.run(
            command, env=self.environment, capture_output=True, text=True, timeout=seconds + 600, errors="replace"
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
