"""A client of CANN that is linked against its libraries."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def client(compiler: str, emulator_home: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    program = tmp_path_factory.mktemp("client") / "client"
    lib64 = emulator_home / "lib64"
    command = [
        compiler,
        str(Path(__file__).parent / "client.c"),
        "-o",
        str(program),
        f"-I{emulator_home / 'include'}",
        f"-L{lib64}",
    ]
    subprocess.run([*command, "-lopapi", "-lnnopbase", "-lacl_op_compiler", "-lascendcl"], check=True)
    return str(program)
