"""The conformance suite: its files, what the references give for it, and the faults that its cases show."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from ascend_aclnn import catalog, reference
from ascend_aclnn.cli.main import main
from ascend_aclnn.testing.rounding import Sides
from ascend_aclnn.verify import suite
from ascend_aclnn.verify.calls import NULL, Case, build, laid_out
from ascend_aclnn.verify.ranks import WORKS

ROOT = Path(__file__).resolve().parents[2]
# Of several kinds: in place, lists, masks, indices, quantised, another SoC's, attention, among ranks, by address.
# All: scripts/write_suite.py --check
SAMPLE = [
    "aclnnAbs", "aclnnInplaceAdd", "aclnnForeachAbs", "aclnnScaledMaskedSoftmax", "aclnnGather", "aclnnUnique2",
    "aclnnDynamicQuant", "aclnnRmsNormGrad", "aclnnMm", "aclnnArgMax", "aclnnApplyAdamax",
    "aclnnAttentionToFFN", "aclnnMoeDistributeCombineTeardown", "aclnnFfnWorkerBatching",
]  # fmt: skip


def script(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "scripts" / name), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=500)


def test_the_files_hold_what_the_references_give() -> None:
    done = script("write_suite.py", "--check", *SAMPLE)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_line_is_a_case_with_a_number_in_order() -> None:
    families = {catalog.get(name).family for name in catalog.names()}
    found = {}
    for family in families:
        for name, items in suite.read(family).items():
            assert catalog.get(name).family == family and reference.find(catalog.get(name)) is not None
            assert [item.number for item in items] == list(range(len(items)))
            assert items[0].case == Case() and (items[-1].case.values == NULL or name in WORKS)
            assert len({item.case for item in items}) == len(items)
            found[name] = items
    assert len(found) > 1200
    assert sum(map(len, found.values())) > 20 * len(found)


@pytest.mark.parametrize(
    "case",
    [
        Case("uniform", "FLOAT16", 1023, 1, "strided outputs"),
        Case("nan", "BF16"),
        Case(size=1, axis=-1),
        Case(attribute=("reduction", "mean, or = none")),
        Case(attribute=("keepdim", True)),
        Case("drawn", draw=12),
        Case(NULL),
    ],
)
def test_a_label_is_read_again(case: Case) -> None:
    assert Case.parse(case.label) == case
    for wrong in ("uniform, FLOAT17", "even", "", "uniform, size x"):
        with pytest.raises(ValueError, match="names no case"):
            Case.parse(wrong)


def test_a_reference_that_has_changed_is_noticed(capsys: pytest.CaptureFixture[str]) -> None:
    expected = "FLOAT[2,3] 1.25; INT32[2] 3"
    assert suite.difference(expected, "FLOAT[2,3] 1.24; INT32[2] 3") == ""
    for other in (
        "FLOAT[2,3] 1.2; INT32[2] 3",
        "FLOAT[3,2] 1.25; INT32[2] 3",
        "FLOAT[2,3] 1.25",
        "FLOAT[2,3] 1.25 +1; INT32[2] 3",
    ):
        assert "the suite has" in suite.difference(expected, other)
    assert suite.difference(expected, "FLOAT[2,3] 9; INT32[2] 4", figures=False) == ""
    assert suite.describe([np.array([1, -2, np.nan], np.float16), None]) == "FLOAT16[3] 1.5 +1; none"
    assert main(["verify", "--on", "numpy", "--case", "aclnnAbs/0000", f"aclnnAbs/{9000}"]) == 0
    assert "1 operators in 1 cases" in capsys.readouterr().out


@pytest.mark.parametrize("identifier", ["aclnnAbs", "aclnnAbs/x", "aclnnNoSuch/0001"])
def test_what_is_no_case_is_refused(identifier: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", "--case", identifier]) != 0
    assert "aclnn" in capsys.readouterr().err


def test_layouts_keep_the_values() -> None:
    operator = catalog.get("aclnnMm")
    plain = build(operator, Case("uniform"))
    for layout in ("strided", "offset"):
        moved = laid_out(operator, plain, layout).arguments[0]
        np.testing.assert_array_equal(np.asarray(moved), plain.arguments[0])
        assert moved.offset > 0 and (moved.strides[-1] != 1) == (layout == "strided")


def test_special_values_are_in_the_first_tensor() -> None:
    x = build(catalog.get("aclnnSoftmax"), Case("nan", "FLOAT16")).arguments[0]
    assert np.isnan(x).any() and not np.isnan(x).all()
    x = build(catalog.get("aclnnSoftmax"), Case("denormal", "FLOAT16")).arguments[0]
    assert ((x != 0) & (np.abs(x) < np.finfo(np.float16).smallest_normal)).any()


def test_rounding_is_judged_over_many_small_results() -> None:
    sides = Sides("aclnnNorm")
    for seed in range(12):
        exact = np.random.default_rng(seed).random(4).astype(np.float16)
        sides.add(np.nextafter(exact, np.float16(0)), exact)
        assert bool(sides.fault) == (seed >= 3)


def test_faults_in_references_are_caught() -> None:
    """Of one family; scripts/fault_table.py --references prints the table of all."""
    done = script("fault_table.py", "--references", "--family", "vfusion")
    (row,) = [line.split() for line in done.stdout.splitlines() if line.startswith("all ")]
    assert row[2:] == ["6/6"] * 4, done.stdout  # wrong elements, swapped axes, low precision, tails
    assert "aclnnScaledMaskedSoftmax," not in done.stdout, done.stdout


def test_faults_in_jobs_among_ranks_are_caught() -> None:
    """Of one rank of a job, each kind of fault that changes something; the table has all jobs."""
    program = (
        "import sys, fault_table\n"
        "verdicts, _ = fault_table.noticed_among_ranks('aclnnAlltoAllvQuantGroupedMatMul')\n"
        "print(*(f'{kind}={verdict}' for kind, verdict in verdicts.items()))"
    )
    paths = os.pathsep.join([str(ROOT / "scripts"), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True
    )
    kinds = ("wrong-rounding", "wrong-element", "axes-swapped", "low-precision", "tail")
    assert done.stdout.split() == [f"{kind}=caught" for kind in kinds], done.stdout + done.stderr


def test_an_interrupted_verification_ends_with_a_report_and_goes_on(tmp_path: Path) -> None:
    """Killed first, which leaves what had been tried; the same command goes on, and is interrupted."""
    report = tmp_path / "r"
    command = [sys.executable, "-m", "ascend_aclnn", "verify", "--on", "numpy", "--all", "--family", "math"]

    def begun() -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*command, "--report", str(report)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=dict(os.environ),
            start_new_session=True,
        )

    def tried() -> int:
        found = report / "result.json"  # replaced as a whole
        return len(json.loads(found.read_text(encoding="utf-8"))["units"]) if found.exists() else 0

    process = begun()
    while process.poll() is None and not tried():
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGKILL)
    _, said = process.communicate(timeout=600)
    assert process.returncode == -signal.SIGKILL, said
    before = tried()
    assert before
    process = begun()
    assert process.stderr is not None
    process.stderr.readline()  # how many operators there are
    assert f": {before} of " in process.stderr.readline()  # have been tried
    while process.poll() is None and tried() == before:
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=600)
    assert process.returncode == 128 + signal.SIGTERM
    assert "stopped: interrupted; " in out
    assert (report / "index.html").is_file() and (report / "result.json").is_file()
