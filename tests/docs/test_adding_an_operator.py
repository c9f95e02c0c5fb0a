"""docs/adding-an-operator.md: its files and commands, run in a directory of their own, and its table of dtypes."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ascend_aclnn.backends.interface import Backend
from ascend_aclnn.reference import kernels
from ascend_aclnn.rules.language import dtype_families

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "adding-an-operator.md").read_text(encoding="utf-8")

# The same without making an environment, and without writing into the checkout. The repository's own tests run by themselves.
INSTEAD = {
    "./scripts/test": [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--collect-only"],
    "ascend-aclnn": [sys.executable, "-m", "ascend_aclnn"],
    "python": [sys.executable],
}


def blocks(kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", PAGE, re.S)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of the page, and the repository's scripts."""
    folder = tmp_path_factory.mktemp("page")
    for block in blocks("python"):
        name = re.match(r"# (\w+\.py)\n", block)
        if name is not None:
            (folder / name[1]).write_text(block, encoding="utf-8")
    (folder / "scripts").symlink_to(ROOT / "scripts")
    return folder


def commands() -> list[str]:
    lines = [line for block in blocks("console") for line in block.splitlines()]
    assert all(line.startswith("$ ") for line in lines)
    return [line[2:].partition("  #")[0].strip() for line in lines]


@pytest.mark.parametrize("command", commands())
def test_commands_run(folder: Path, command: str) -> None:
    program, *arguments = shlex.split(command)
    words = [*INSTEAD[program], *arguments]
    if "scripts/generate.py" in words:
        words.append("--help")  # tests/catalog/test_generated.py runs it
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])  # "python" is this one
    paths = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": paths, "PATH": path}
    place = ROOT if program == "./scripts/test" else folder  # scripts/test goes there by itself
    done = subprocess.run(words, cwd=place, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_test_of_the_repository_passes(each_backend: Backend) -> None:
    scope: dict[str, Any] = {}
    exec(next(block for block in blocks("python") if block.startswith("# of tests")), scope)
    scope["test_embedding"](each_backend)


def test_the_kernel_runs() -> None:
    exec(next(block for block in blocks("python") if block.startswith("# my_kernels.py")), {})
    x, y = np.arange(6, dtype=np.float16), np.zeros(6, np.float16)
    try:
        kernels.run("scale_rows", x, y, 2, 3, 0.5)
    finally:
        kernels.KERNELS.pop("scale_rows", None)
    assert y.tolist() == [0, 0.5, 1, 1.5, 2, 2.5]


def test_every_family_of_dtypes_is_listed() -> None:
    rows = dict(re.findall(r"^\| `([A-Z0-9_]+)` \| `([A-Z0-9_ ]+)` \|$", PAGE, re.M))
    names = [name for name in dtype_families.__all__ if not name.startswith("PRODUCTS_")]
    assert rows == {name: getattr(dtype_families, name) for name in names}
    of_expressions = list(rows)[:-4]  # "all but the last four"
    assert sorted(of_expressions) == sorted(dtype_families.FAMILIES)
