"""CI files that people copy: of the sample project and in the documentation. Their steps parse, and name commands that exist;
the job of docs/emulator/torch-npu.md runs as it is written (long)."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from long_tests import LONG

from ascend_aclnn.cli.main import make_parser

yaml: Any = pytest.importorskip("yaml", reason="PyYAML is not installed: CI files are not read")

ROOT = Path(__file__).resolve().parents[2]
PAGES = [path for path in sorted((ROOT / "docs").rglob("*.md")) if "```yaml" in path.read_text(encoding="utf-8")]
FILES = [*PAGES, *sorted((ROOT / "samples").rglob(".github/workflows/*.yml"))]
TORCH_NPU = ROOT / "docs" / "emulator" / "torch-npu.md"
# What pip may be asked to install, beside the wheel.
REQUIREMENTS = {"torch==2.13.0", "torch_npu==2.13.0", "numpy", "pyyaml", "setuptools", "pytest"}


def jobs(path: Path) -> list[dict[str, Any]]:
    """The jobs of a file of CI, or of those that a page shows."""
    text = path.read_text(encoding="utf-8")
    blocks = re.findall(r"```yaml\n(.*?)```", text, re.S) if path.suffix == ".md" else [text]
    return [job for block in blocks for job in yaml.safe_load(block).get("jobs", {}).values()]


def expanded(text: str, values: dict[str, str]) -> str:
    """A text with the values of a matrix."""
    return re.sub(r"\$\{\{ *matrix\.(\w+) *\}\}", lambda match: values[match[1]], text)


def variants(job: dict[str, Any]) -> list[dict[str, str]]:
    """The values of a job's matrix, of one axis."""
    matrix: dict[str, list[str]] = job.get("strategy", {}).get("matrix", {})
    assert len(matrix) <= 1
    return [{name: value} for name, values in matrix.items() for value in values] or [{}]


def check_step(step: dict[str, Any], values: dict[str, str]) -> None:
    if "uses" in step:
        assert re.fullmatch(r"actions/[\w-]+@v\d+", step["uses"])
        return
    assert all(isinstance(expanded(value, values), str) for value in step.get("env", {}).values())
    command, *words = shlex.split(step["run"], comments=True)
    if command == "pip":
        assert words[0] == "install"
        named = [w for w in words[1:] if not w.startswith(("-", "https://"))]
        assert named and all(w in REQUIREMENTS or w == "wheels/ascend_aclnn-*.whl" for w in named), named
    elif command == "ascend-aclnn":
        options = make_parser().parse_args(words)  # exits where it knows an option not
        assert callable(options.run) and next(word for word in options.program if word != "--") == "pytest"
    else:
        assert command == "pytest"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_steps_parse_and_name_commands_that_exist(path: Path) -> None:
    found = jobs(path)
    assert found or path.suffix == ".md"
    for job in found:
        for values in variants(job):
            for step in job["steps"]:
                check_step(step, values)


def test_the_page_on_torch_npu_has_its_job() -> None:
    (job,) = jobs(TORCH_NPU)
    assert [values["queue"] for values in variants(job)] == ["0", "1"]
    assert sum(step.get("run", "").startswith("ascend-aclnn") for step in job["steps"]) == 2


@pytest.mark.parametrize("step", ["ascend-aclnn emulator rum -- pytest", "ascend-aclnn emulator run --memroy 8G -- pytest",
                                  "pip install ascend-aclnn", "make test"])  # fmt: skip
def test_wrong_steps_are_noticed(step: str) -> None:
    with pytest.raises((AssertionError, SystemExit)):
        check_step({"run": step}, {})


TESTS = """
import os
import torch
import torch_npu

def test_training_step():
    weight = torch.ones(4, 2).npu().requires_grad_()
    loss = (torch.arange(12.0).reshape(3, 4).npu() @ weight).relu().sum()
    loss.backward()
    assert weight.grad.cpu()[:, 0].tolist() == [12.0, 15.0, 18.0, 21.0]
    assert os.environ.get("TASK_QUEUE_ENABLE", "1") in "01"
"""


def run(command: str, environment: Path, folder: Path, variables: dict[str, str]) -> str:
    """The output of a step that succeeds, with an environment's programs first."""
    unwanted = ("ASCEND_", "PYTEST_", "PYTHON", "VIRTUAL_ENV", "TORCH_", "TASK_QUEUE")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(unwanted)}
    kept["PATH"] = f"{environment / 'bin'}:{kept['PATH']}"
    words = ["bash", "-euo", "pipefail", "-c", command]
    done = subprocess.run(words, cwd=folder, env={**kept, **variables}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr[-4000:]}"
    return done.stdout


@pytest.mark.long
@pytest.mark.skipif(not LONG, reason="makes an environment with torch and torch_npu: ./scripts/test --long")
@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler (cc): the emulated device cannot be built")
def test_the_job_of_torch_npu_runs_as_it_is_written(tmp_path: Path) -> None:
    """Each step, for each value of its matrix. Where torch's own index cannot be reached, torch comes from the usual one."""
    environment, project = tmp_path / "environment", tmp_path / "project"
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
    (project / "tests" / "npu").mkdir(parents=True)
    (project / "tests" / "npu" / "test_step.py").write_text(TESTS, encoding="utf-8")
    pip = [str(environment / "bin" / "pip"), "wheel", "--quiet", "--no-deps", "--wheel-dir", str(project / "wheels")]
    built = subprocess.run([*pip, str(ROOT)], capture_output=True, text=True, check=False)
    if built.returncode:
        pytest.skip(f"a wheel cannot be built, as pip reaches no package index: {built.stderr.splitlines()[-1]}")
    (job,) = jobs(TORCH_NPU)
    steps = [step for step in job["steps"] if "run" in step]
    for step in (step for step in steps if step["run"].startswith("pip")):
        command, _, index = step["run"].partition(" --index-url ")
        reached = index and not subprocess.run(["curl", "-sfI", "-m", "10", index], capture_output=True).returncode
        run(step["run"] if reached else command, environment, project, {})
    for values in variants(job):
        for step in (step for step in steps if not step["run"].startswith("pip")):
            variables = {name: expanded(value, values) for name, value in step.get("env", {}).items()}
            output = run(step["run"], environment, project, variables)
            assert "1 passed" in output, output
