"""``ascend-aclnn verify``: a healthy device passes, each fault is found and named, and what hangs or dies ends a batch only."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ascend_aclnn import catalog, reference
from ascend_aclnn.backends.npu import library
from ascend_aclnn.cli import verify as command
from ascend_aclnn.cli.emulator import environment
from ascend_aclnn.emulator.faults import DEVICE_KINDS, VARIABLE
from ascend_aclnn.verify import suite
from ascend_aclnn.verify.batches import Batches, NoDevice, Outcome
from ascend_aclnn.verify.calls import NULL, Case, build, golden
from ascend_aclnn.verify.cases import cases
from ascend_aclnn.verify.checks import CHECKS
from ascend_aclnn.verify.ranks import WORKS
from ascend_aclnn.verify.report import Report

SOC = "Ascend910B1"
WORKERS_SOC = "Ascend910_9391"
PROGRAM = Path(command.__file__).parents[2]


def batches(home: Path, fault: str = "", timeout: float = 120, thorough: bool = False) -> Batches:
    return Batches({**environment(home), "ASCEND_ACLNN_SOC": SOC, VARIABLE: fault}, timeout, thorough)


def outcomes(home: Path, units: list[str], fault: str = "", timeout: float = 120) -> dict[str, Outcome]:
    found = {outcome.unit: outcome for outcome in batches(home, fault, timeout).outcomes(units)}
    assert list(found) == units
    return found


def texts(outcome: Outcome) -> str:
    return "; ".join(fault["text"] for fault in outcome.faults)


# ------------------------------------------------------------------------------------------ a healthy device


def test_a_healthy_device_passes(emulator_home: Path) -> None:
    units = [*CHECKS, "aclnnAdd", "aclnnCast", "aclnnRmsNorm", "aclnnMm", "aclnnInplaceNormal", "aclnnUnique2"]
    found = outcomes(emulator_home, units)
    assert {unit: outcome.faults for unit, outcome in found.items() if outcome.faults} == {}
    assert all(outcome.left_out is None for outcome in found.values())
    assert found["aclnnAdd"].cases >= 8  # the example, other values, and a data type each
    assert found["host cost"].figures["call_us"] > 0


def test_what_is_left_out_has_a_reason(emulator_home: Path) -> None:
    needs = next(n for n in catalog.names() if (e := catalog.get(n).example) and e.soc == "Ascend950PR_9599")
    without = next(n for n in catalog.names() if reference.find(catalog.get(n)) is None)
    among_four = "aclnnAlltoAllAllGatherBatchMatMul"
    prepared = batches(emulator_home)
    prepared.special[among_four] = {"ASCEND_ACLNN_SOC": WORKS[among_four].soc}  # and the two devices that there are
    found = {outcome.unit: outcome for outcome in prepared.outcomes([needs, without, among_four])}
    assert found[needs].left_out == "its example needs the rules of Ascend950PR_9599"
    assert found[without].left_out == "no NumPy reference"
    assert found[among_four].left_out == "works among 4 ranks, each with a device of its own"


def test_every_operator_with_a_reference_has_a_case() -> None:
    """``verify --all`` on the emulated device judges each of them: nothing is left out for want of an example or of ranks."""
    names = [name for name in catalog.names() if reference.find(catalog.get(name)) is not None]
    assert [name for name in names if name not in suite.read(catalog.get(name).family)] == []


def test_ranks_are_judged(emulator_home: Path) -> None:
    """Each rank's results, of the operators before too; a wrong one is named. Rank 1 alone has the fault."""
    units = ["aclnnMoeDistributeCombineSetup", "aclnnAlltoAllvQuantGroupedMatMul"]

    def judged(fault: str) -> list[Outcome]:
        prepared = batches(emulator_home, fault)
        prepared.special = {unit: {"ASCEND_ACLNN_SOC": "Ascend950PR_9599"} for unit in units}
        return list(prepared.outcomes(units))

    assert [(o.unit, o.cases, o.left_out, o.faults) for o in judged("")] == [(unit, 1, None, []) for unit in units]
    wrong, right = judged("aclnnMoeDistributeDispatchTeardown:wrong-element")
    assert "rank 1, aclnnMoeDistributeDispatchTeardown before it: expand_x" in texts(wrong)
    assert not right.faults
    failed = judged("aclnnAlltoAllvQuantGroupedMatMul:fail")[1]
    assert "507015" in texts(failed)


def test_memory_behind_addresses_is_judged(emulator_home: Path) -> None:
    """In which a scheduler writes down what has come, and from which the others read."""
    units = ["aclnnInplaceFfnWorkerScheduler", "aclnnAttentionWorkerCombine", "aclnnWeightQuantPreprocess"]
    socs = (WORKERS_SOC, SOC, "Ascend950PR_9599")

    def judged(fault: str) -> list[Outcome]:
        prepared = batches(emulator_home, fault)
        prepared.special = {unit: {"ASCEND_ACLNN_SOC": soc} for unit, soc in zip(units, socs)}
        found = {outcome.unit: outcome for outcome in prepared.outcomes(units)}
        return [found[unit] for unit in units]

    assert [outcome.faults for outcome in judged("")] == [[], [], []]
    wrong = judged("aclnnInplaceFfnWorkerScheduler:stale;aclnnWeightQuantPreprocess:wrong-element")
    assert [bool(outcome.faults) for outcome in wrong] == [True, False, True]
    assert "schedule_context[3]" in texts(wrong[0])  # where the layers are written down


def test_rules_of_another_soc_decide_there(emulator_home: Path) -> None:
    prepared = batches(emulator_home)
    prepared.environment["ASCEND_ACLNN_SOC"] = "Ascend950PR_9579"
    example = next(n for n in catalog.names() if (e := catalog.get(n).example) and e.soc == "Ascend950PR_9599")
    one, other = prepared.outcomes([example, "aclnnMlaPreprocess"])
    assert one.left_out is None and not one.faults  # of the same product
    assert other.left_out == "the rules of Ascend950PR_9579 refuse its example"
    assert "it is on A2 A3" in other.figures["detail"]


# ------------------------------------------------------------------------------------------ faults

FOUND = {
    "wrong-element": ("aclnnRmsNorm", "elements are outside of the tolerance"),
    "wrong-rounding": ("aclnnSwish", "rounded wrongly"),
    "low-precision": ("aclnnMean", "MERE"),
    "nan": ("aclnnSigmoid", "NaN"),
    "axes-swapped": ("aclnnSoftmax", "elements are outside of the tolerance"),
    "tail": ("aclnnSort", "elements differ"),
    "stale": ("aclnnArgMax", "elements differ"),
    "swallow": ("aclnnMul", "a null pointer for self gives success; it must be status 161001"),
}


def test_faults_are_found_and_named(emulator_home: Path) -> None:
    wanted = dict(FOUND.values())
    rules = ";".join(f"{operator}:{kind}" for kind, (operator, _) in FOUND.items())
    found = outcomes(emulator_home, ["aclnnExp", *wanted, "aclnnNeg"], rules)
    assert [unit for unit, outcome in found.items() if outcome.faults] == [*wanted]
    assert {
        operator: texts(found[operator]) for operator, text in wanted.items() if text not in texts(found[operator])
    } == {}


@pytest.mark.parametrize("kind", ["wrong-element", "tail", "stale", "swallow"])
def test_a_fault_is_found_in_every_kind_of_output(emulator_home: Path, kind: str) -> None:
    operators = ["aclnnInplaceAdd", "aclnnUnique2", "aclnnForeachAbs", "aclnnDynamicQuant"]
    found = outcomes(emulator_home, operators, ";".join(f"{operator}:{kind}" for operator in operators))
    assert [operator for operator in operators if not found[operator].faults] == []


def test_a_wrong_rounding_of_float32_is_found_where_it_is_rounded_once(emulator_home: Path) -> None:
    found = outcomes(emulator_home, ["aclnnMul"], "aclnnMul:wrong-rounding")["aclnnMul"]
    assert [fault for fault in found.faults if "FLOAT," in fault["case"] and "rounded wrongly" in fault["text"]]


def test_a_wrong_rounding_of_small_results_is_found(emulator_home: Path) -> None:
    """Of which each case has three elements: its numbers are drawn again until there are enough."""
    found = outcomes(emulator_home, ["aclnnStd"], "aclnnStd:wrong-rounding")["aclnnStd"]
    assert [fault["case"] for fault in found.faults if "rounded wrongly" in fault["text"]] == ["all cases"] * 2
    assert found.cases < 12


def test_a_fault_that_begins_later_is_found(emulator_home: Path) -> None:
    found = outcomes(emulator_home, ["aclnnRmsNorm"], "aclnnRmsNorm:after=2:stale")["aclnnRmsNorm"]
    usual = suite.usual(suite.numbered(catalog.get("aclnnRmsNorm"), SOC))
    tried = [(item.number, item.case.label) for item in usual if item.case.values != NULL]
    wrong = dict.fromkeys((fault["number"], fault["case"]) for fault in found.faults)
    assert len(tried) > 4 and list(wrong) == tried[2:]


def test_a_check_finds_what_it_is_for(emulator_home: Path) -> None:
    found = outcomes(emulator_home, ["repeatable executor", "all_reduce"], "aclnnAdds:after=1:stale")
    assert "run 2 of a repeatable executor" in texts(found["repeatable executor"])
    assert not found["all_reduce"].faults


def test_what_hangs_or_dies_is_named_and_the_rest_is_tried(emulator_home: Path) -> None:
    units = ["aclnnExp", "aclnnLog", "aclnnSin", "aclnnCos", "aclnnNeg"]
    for timeout in (4, 15, 200):
        found = outcomes(emulator_home, units, "aclnnLog:hang;aclnnCos:die", timeout=timeout)
        wrong = [unit for unit in units if found[unit].faults]
        if wrong == ["aclnnLog", "aclnnCos"]:
            break  # on a busy machine more of them may take so long
    assert wrong == ["aclnnLog", "aclnnCos"]
    assert f"hangs: no answer for {timeout} s" in texts(found["aclnnLog"])
    assert "the device no longer answers" in texts(found["aclnnCos"])
    assert found["aclnnNeg"].cases > 3


def test_a_worker_that_is_killed_is_named(emulator_home: Path, tmp_path: Path) -> None:
    """By the program's own death, not the device's: a crash in CANN ends the process."""
    killer = tmp_path / "sitecustomize.py"
    killer.write_text(
        "import sys\n"
        "if any('verify.worker' in a for a in sys.orig_argv):\n"
        "    import os\n"
        "    from ascend_aclnn.verify import judge, worker\n"
        "    real = judge.judge\n"
        "    def crash(operator, *rest):\n"
        "        if operator.name == 'aclnnLog':\n"
        "            os.abort()\n"
        "        return real(operator, *rest)\n"
        "    worker.judge = judge.judge = crash\n"
    )
    if sys.version_info < (3, 10):
        pytest.skip("sys.orig_argv came with Python 3.10")
    prepared = batches(emulator_home)
    prepared.environment["PYTHONPATH"] = f"{tmp_path}{os.pathsep}{prepared.environment['PYTHONPATH']}"
    found = {outcome.unit: outcome for outcome in prepared.outcomes(["aclnnExp", "aclnnLog", "aclnnNeg"])}
    assert "the process ended with signal SIGABRT" in texts(found["aclnnLog"])
    assert found["aclnnNeg"].cases > 3


def test_a_device_that_never_starts_is_said(emulator_home: Path) -> None:
    found = batches(emulator_home, "aclnnNoSuch:stale").outcomes(["aclnnExp", "aclnnLog", "aclnnNeg"])
    assert "the device no longer answers" in texts(next(found))
    with pytest.raises(NoDevice, match="the device no longer works"):
        next(found)


# ------------------------------------------------------------------------------------------ the command


def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    if library.search({}).runtime is not None:
        pytest.skip("this host has CANN, so that the command does not look for the emulated device")
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("ASCEND_", "LD_"))}
    paths = {"PYTHONPATH": str(PROGRAM)}
    cache = {name: value for name, value in os.environ.items() if name == "ASCEND_EMULATOR_CACHE"}
    return subprocess.run(
        [sys.executable, "-m", "ascend_aclnn", "verify", *arguments],
        env={**plain, **cache, **paths, **variables},
        capture_output=True,
        text=True,
        timeout=500,
    )


def test_the_command_passes_on_a_healthy_device(emulator_home: Path) -> None:
    done = run("--family", "vfusion")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no Ascend device" in done.stderr and "the emulated device is verified" in done.stderr
    assert "ops-nn/vfusion" in done.stderr  # plain lines where there is no terminal
    assert "6 of 6 pass: 6 operators" in done.stdout


def test_the_command_says_first_what_failed(emulator_home: Path) -> None:
    name = next(n for n in catalog.names() if catalog.get(n).family == "ops-nn/vfusion")
    fault = {VARIABLE: f"{name}:wrong-element"}
    done = run("--family", "vfusion", **fault)
    assert done.returncode == 1
    assert done.stdout.startswith("1 of 6 fail:\n") and name in done.stdout.splitlines()[1]
    done = run("--family", "vfusion", "--json", **fault)
    found = json.loads(done.stdout)
    assert (done.returncode, found["ok"], found["failed"]) == (1, False, [name])
    assert found["device"]["emulated"] and len(found["units"]) == 6


def test_the_command_needs_a_device_or_a_compiler(tmp_path: Path) -> None:
    done = run("--family", "vfusion", PATH=str(tmp_path), ASCEND_EMULATOR_CACHE=str(tmp_path / "cache"))
    assert done.returncode == 1
    assert "no Ascend device" in done.stderr and "no emulated device" in done.stderr


def test_a_card_without_cann_is_not_taken_for_a_host_without_a_card(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev" / "davinci0").touch()
    monkeypatch.setattr(command, "ROOT", tmp_path)
    monkeypatch.setattr(command.library, "search", lambda environ: library.Search())
    with pytest.raises(ValueError, match=r"the card cannot be used \(no libascendcl found\)"):
        command._device(argparse.Namespace(timeout=60, all=False, on=None), {})


def test_an_unknown_family_is_refused() -> None:
    with pytest.raises(ValueError, match=r"there is no family 'nrom'; families are .*norm"):
        command._units(["nrom"])
    assert set(command._units(["ops-nn/vfusion", "checks"])) > set(CHECKS)


def test_a_report_says_what_stopped_it() -> None:
    device = {"soc": SOC, "cann": None, "driver": None, "devices": 1, "emulated": False}
    report = Report(device, [Outcome("aclnnAdd", cases=3)], 1.0, "the card is gone")
    assert not report.ok and "stopped: the card is gone" in str(report)
    assert not Report(device, [Outcome("aclnnAdd", left_out="no example")], 1.0).ok
    assert Report(device, [Outcome("aclnnAdd", cases=3)], 1.0).ok


# ------------------------------------------------------------------------------------------ cases and faults


def test_cases_have_other_values_types_and_sizes() -> None:
    operator = catalog.get("aclnnRmsNorm")
    found = list(cases(operator, SOC))
    assert found[0] == Case() and {case.dtype for case in found} >= {None, "FLOAT16", "BF16"}
    large = next(case for case in found if (case.size or 0) > 100 and case.dtype == "FLOAT16")
    first, second = (golden(operator, build(operator, large), SOC)[0] for _ in range(2))
    assert first.shape[0] == large.size and first.dtype == np.float16
    np.testing.assert_array_equal(first, second)  # the same numbers each time
    assert [item.case for item in suite.numbered(operator, SOC)] == [*found, Case(NULL)]


def test_every_kind_of_fault_is_tried_here() -> None:
    # What a kernel's failure and a slow kernel look like is no question of accuracy: tests/emulator/test_faults.py.
    assert {*FOUND, "hang", "die", "fail", "slow"} == set(DEVICE_KINDS)
