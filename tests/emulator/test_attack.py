"""``scripts/attack``: what it finds it reports, keeps and ends with 1 for; some of its scenarios, in short."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def one_at_a_time(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Of all workers of pytest-xdist: what one test leaves in /dev/shm on purpose would be the other's finding."""
    base = tmp_path_factory.getbasetemp()
    with open((base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "attack.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def attack(keep: Path, *options: str) -> subprocess.CompletedProcess[str]:
    places = [str(ROOT), str(ROOT / "scripts"), str(ROOT / "tests" / "helpers")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(places), "ASCEND_ACLNN_ATTACKS": "broken_scenarios"}
    command = [sys.executable, "-m", "attacks.runner", "0.001", f"--keep={keep}", *options]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)


def test_findings_are_reported_and_kept(tmp_path: Path) -> None:
    """A scenario that is broken on purpose and leaves a process, shared memory and a file; one that crashes; one that holds."""
    done = attack(tmp_path, "--only=broken", "--only=crashes", "--only=holds", "--seed=5", "--grace=0")
    assert done.returncode == 1, done.stdout + done.stderr
    finding = next(line for line in done.stdout.splitlines() if line.startswith("FINDING broken"))
    for path in re.findall(r"/dev/shm/attack-left-\d+", finding):
        Path(path).unlink()
    for text in ("round 0: broken on purpose", "processes are left", "shared memory is left: /dev/shm/", "left.txt"):
        assert text in finding
    assert "ended with -11" in next(line for line in done.stdout.splitlines() if line.startswith("FINDING crashes"))
    assert "| broken | 1 | 1 |" in done.stdout
    assert re.search(r"\| holds \| 1 \| [1-9]\d* \| \d+ \| 0 \| [1-9]\d* held \|", done.stdout)
    assert done.stdout.endswith("2 findings\n")
    kept = {path.name.rpartition("-")[0]: path for path in tmp_path.iterdir()}
    assert sorted(kept) == ["broken", "crashes"]
    steps = (kept["broken"] / "steps.txt").read_text().splitlines()
    seed = kept["broken"].name.rpartition("-")[2]
    assert steps[0] == f"round 0 of seed {seed}" and re.fullmatch(r"the number \d+ is drawn", steps[1])
    again = f"again: scripts/attack 1 --only broken --seed {seed} --round 0"
    assert again in (kept["broken"] / "finding.txt").read_text()
    done = attack(tmp_path / "again", "--only=broken", f"--seed={seed}", "--round=0", "--grace=0")
    for path in re.findall(r"/dev/shm/attack-left-\d+", done.stdout):
        Path(path).unlink()
    assert (tmp_path / "again" / f"broken-{seed}" / "steps.txt").read_text().splitlines() == steps


def test_the_page_names_every_scenario_and_no_finding() -> None:
    page = (ROOT / "docs" / "results" / "attack.md").read_text(encoding="utf-8")
    rows = [line.strip("| ").split(" | ") for line in page.splitlines() if line.count(" | ") == 5][1:]
    assert rows and {row[4] for row in rows} == {"0"}
    listed = attack(ROOT, "--list").stdout.splitlines()
    own = {line.split()[0] for line in listed} - {"broken", "crashes", "holds"}
    assert own == {name for name in own if re.search(rf"\b{name}\b", page)} and {row[0] for row in rows} <= own


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler (cc): the emulated device cannot be built")
def test_scenarios_hold(tmp_path: Path) -> None:
    """A turn each, of a round or two."""
    names = ("virtual-memory", "memory-keys")
    done = attack(tmp_path, *(f"--only={name}" for name in names), "--grace=60")
    assert done.returncode == 0, done.stdout + done.stderr
    for name in names:
        assert re.search(rf"\| {name} \| 1 \| [1-9]\d* \| \d+ \| 0 \| [1-9]\d* ", done.stdout), done.stdout
    assert list(tmp_path.iterdir()) == []
