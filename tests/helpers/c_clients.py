"""C programs of tests/emulator/clients, compiled against the emulated libraries and run, with sanitizers too."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from emulator_client import environment

from ascend_aclnn.emulator.build import build, find_compiler

# What AddressSanitizer says of a child that has a small stack of its own until it becomes another program.
HARMLESS = [
    "ASan is ignoring requested __asan_handle_no_return",
    "False positive error reports may follow",
    "issues/189",
]
CLIENTS = Path(__file__).parents[1] / "emulator" / "clients"


def run_c_client(
    name: str,
    directory: Path,
    *arguments: str,
    sanitize: Sequence[str] = (),
    libraries: Sequence[str] = (),
    cann: str = "",
) -> None:
    """Compiles a program without warnings and runs it: it must print "done", and the sanitizers nothing."""
    home = build(cann=cann or None, sanitize=tuple(sanitize))
    program = directory / name
    places = [f"-I{home / 'include'}", f"-L{home / 'lib64'}", *(f"-l{library}" for library in libraries)]
    flags = ["-g", "-O1", "-Wall", "-Wextra", *([f"-fsanitize={','.join(sanitize)}"] if sanitize else [])]
    command = [find_compiler(), *flags, str(CLIENTS / f"{name}.c"), *places, "-o", str(program)]
    command += ["-lopapi", "-lnnopbase", "-lascendcl", "-pthread"]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    assert made.returncode == 0 and not made.stderr, made.stderr
    settings = {"TSAN_OPTIONS": "die_after_fork=0:exitcode=66", "ASCEND_EMULATOR_MEMORY": "64M"}  # it shadows addresses
    done = subprocess.run(
        [str(program), *arguments], env=environment(home, **settings), capture_output=True, text=True, timeout=300
    )
    if "unexpected memory mapping" in done.stderr:
        pytest.skip("ThreadSanitizer does not know this kernel's layout of addresses")
    errors = "".join(
        line for line in done.stderr.splitlines(keepends=True) if not any(text in line for text in HARMLESS)
    )
    assert (done.returncode, done.stdout, errors) == (0, "done\n", ""), done.stderr[:4000]
