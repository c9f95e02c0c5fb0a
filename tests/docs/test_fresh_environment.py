"""What people copy works in a fresh environment: the README's steps, and the sample project's CI file with a wheel file."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from long_tests import LONG

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not LONG, reason="makes an environment from a package index: ./scripts/test --long"),
]
# Steps of the README that need a card, or minutes.
ON_A_CARD = ("source ", "ascend-aclnn verify", "ascend-aclnn layer run")


def commands(text: str) -> list[str]:
    """The commands of a block that begins with a prompt, without comments."""
    return [line[2:].split("  #")[0].strip() for line in text.splitlines() if line.startswith("$ ")]


def run(command: str, environment: Path, folder: Path) -> str:
    """The output of a shell command that succeeds, with an environment's programs first."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("ASCEND_", "PYTEST_", "PYTHON", "VIRTUAL_ENV"))}
    kept["PATH"] = f"{environment / 'bin'}:{kept['PATH']}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command], cwd=folder, env=kept, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """A new environment that has pip alone; skips where no package index can be reached."""
    folder = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    pip = [
        str(folder / "bin" / "python"),
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-deps",
        "--dest",
        str(tmp_path / "try"),
    ]
    if subprocess.run([*pip, "ml_dtypes"], capture_output=True, check=False).returncode:
        pytest.skip("pip reaches no package index")
    return folder


@pytest.fixture
def checkout(tmp_path: Path) -> Iterator[Path]:
    """The files of this checkout that Git knows, elsewhere."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("this is no Git checkout: it may have files that are not the project's")
    target = tmp_path / "checkout"
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)
    yield target


def test_the_steps_of_the_readme(environment: Path, checkout: Path) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    block = re.search(r"## On an Atlas A2\n\n```console\n(.*?)```", readme, re.S)
    assert block is not None
    steps = [step for step in commands(block[1]) if not step.startswith(ON_A_CARD)]
    assert steps[0] == 'pip install -e ".[samples]"'
    # The reader's own program, whose operators stay in the release that the README names.
    (checkout / "model.py").write_text("from ascend_aclnn import ops\n\nops.rms_norm\n", encoding="utf-8")
    outputs = {step: run(step, environment, checkout) for step in steps}
    assert "backend          numpy" in outputs["ascend-aclnn doctor"]
    assert "EE2002" in outputs["ascend-aclnn explain EE2002"]
    assert outputs["python samples/moe_graph.py"].strip()


def test_the_ci_file_of_the_sample_project(environment: Path, checkout: Path, tmp_path: Path) -> None:
    project = tmp_path / "project"
    shutil.copytree(checkout / "samples" / "testing_project", project)
    run(f"pip wheel --quiet --no-deps --wheel-dir {project / 'wheels'} {checkout}", environment, tmp_path)
    workflow = (project / ".github" / "workflows" / "test.yml").read_text(encoding="utf-8")
    steps = re.findall(r"^ *- run: (.*)$", workflow, re.M)
    assert [step.split()[0] for step in steps] == ["pip", "pytest"]
    outputs = [run(step, environment, project) for step in steps]
    assert re.search(r"\b7 passed, 1 skipped\b", outputs[-1]), outputs[-1]
    readme = (project / "README.md").read_text(encoding="utf-8")
    assert commands(readme) == steps
