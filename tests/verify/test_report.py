"""``ascend-aclnn verify --report`` and ``--against``: the page, the recordings of failures, two runs beside each other."""

from __future__ import annotations

import html.parser
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ascend_aclnn import catalog, use_backend
from ascend_aclnn.backends.npu import library
from ascend_aclnn.cli import verify as command
from ascend_aclnn.cli.main import main
from ascend_aclnn.emulator.faults import VARIABLE
from ascend_aclnn.recording import Recording
from ascend_aclnn.replay import replay
from ascend_aclnn.testing.failures import COMPARE, compared
from ascend_aclnn.verify import failures, history, suite
from ascend_aclnn.verify.batches import Outcome
from ascend_aclnn.verify.calls import Case, build, golden
from ascend_aclnn.verify.cases import cases
from ascend_aclnn.verify.page import page
from ascend_aclnn.verify.report import Report

SOC = "Ascend910B1"
DEVICE = {"soc": SOC, "cann": "8.1.RC1", "emulated": True, "driver": None, "devices": 2, "library": ""}
PROGRAM = Path(command.__file__).parents[2]
UNITS = [name for name in catalog.names() if catalog.get(name).family == "ops-nn/vfusion"]
# A fault of each kind, its operator, and what a replay of the recording says.
FAULTS = {
    "aclnnModulate:wrong-rounding": "rounded wrongly",
    "aclnnModulateBackward:swallow": "it is refused now, and was not",
    "aclnnMultiScaleDeformableAttentionGrad:low-precision": "outside of the tolerance",
    "aclnnMultiScaleDeformableAttnFunction:after=1:times=1:fail": "507015 (ACL_ERROR_RT_AICORE_EXCEPTION) was recorded",
    "aclnnScaledMaskedSoftmax:wrong-element": "1 of ",
    "aclnnScaledMaskedSoftmaxBackward:axes-swapped": "outside of the tolerance",
}


def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    if library.search({}).runtime is not None:
        pytest.skip("this host has CANN, so that the command does not look for the emulated device")
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("ASCEND_", "LD_"))}
    cache = {name: value for name, value in os.environ.items() if name == "ASCEND_EMULATOR_CACHE"}
    return subprocess.run(
        [sys.executable, "-m", "ascend_aclnn", "verify", "--family", "vfusion", *arguments],
        env={**plain, **cache, "PYTHONPATH": str(PROGRAM), **variables},
        capture_output=True,
        text=True,
        timeout=500,
    )


@pytest.fixture(scope="module")
def healthy(emulator_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a healthy device, made in two runs: the time of the first was up after one operator."""
    directory = tmp_path_factory.mktemp("healthy")
    done = run("--report", str(directory), "--time", "0.0001", "--json")
    first = json.loads(done.stdout)
    assert done.returncode == 0 and len(first["units"]) == 1 and first["left"] == UNITS[1:]
    done = run("--report", str(directory))
    assert done.returncode == 0 and "1 of 6 have been tried" in done.stderr and "6 of 6 pass" in done.stdout
    second = json.loads((directory / "result.json").read_text(encoding="utf-8"))
    assert second["units"][0] == first["units"][0] and second["left"] == []
    return directory


@pytest.fixture(scope="module")
def faulty(healthy: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a device on which each operator of a family has a fault of another kind."""
    directory = tmp_path_factory.mktemp("faulty")
    done = run("--report", str(directory), "--against", str(healthy / "result.json"), **{VARIABLE: ";".join(FAULTS)})
    assert done.returncode == 1, done.stderr
    assert f"replay {directory}/cases/aclnn" in done.stdout
    assert f"against {healthy / 'result.json'}\nbecame wrong: 6\n" in done.stdout
    return directory


class Page(html.parser.HTMLParser):
    """The elements of a page; every one has to be closed."""

    VOID = ("meta", "input")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.units: dict[str, dict[str, Any]] = {}
        self.links: list[str] = []
        self.pictures = 0
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        found = dict(attrs)
        if tag not in self.VOID:
            self.open.append(tag)
        if "unit" in (found.get("class") or "").split():
            self.units[found["id"]] = found
        self.links += [found[name] for name in ("href", "src") if name in found]
        self.pictures += tag == "svg"

    def handle_startendtag(self, tag: str, attrs: Any) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


# ------------------------------------------------------------------------------------------ the report


def test_the_page_has_each_operator_and_needs_no_network(faulty: Path, healthy: Path) -> None:
    for directory, state in ((faulty, "failed"), (healthy, "passed")):
        text = (directory / "index.html").read_text(encoding="utf-8")
        found = Page(text)
        assert set(found.units) == set(UNITS)
        assert {unit["data-state"] for unit in found.units.values()} == {state}
        assert found.pictures >= len(UNITS) - 1  # of the one whose fault is a status there may be no results
        files = [link for link in found.links if not link.startswith("https://")]
        assert all((directory / link).is_file() for link in files)
        assert "src=" not in text and "@import" not in text and "url(" not in text
        assert not directory.joinpath(".index.html.new").exists()
    assert not list(healthy.joinpath("cases").iterdir())


def test_the_result_says_what_was_judged_and_where(healthy: Path) -> None:
    result = json.loads((healthy / "result.json").read_text(encoding="utf-8"), parse_constant=pytest.fail)
    assert result["ok"] and result["seed"] == 0 and result["device"]["soc"] == SOC
    assert result["environment"]["numpy"] == np.__version__
    for unit in result["units"]:
        assert len(unit["judged"]) == unit["cases"]
        for case in unit["judged"]:
            for output in case["outputs"]:
                assert sum(output["histogram"].values()) == output["size"] and output["fault"] == ""


@pytest.mark.parametrize("fault", FAULTS)
def test_a_recording_of_a_failure_shows_it_again(
    faulty: Path, fault: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = json.loads((faulty / "result.json").read_text(encoding="utf-8"))
    name = fault.partition(":")[0]
    unit = next(unit for unit in result["units"] if unit["unit"] == name)
    recordings = {f["recording"] for f in unit["faults"]}
    assert recordings and None not in recordings
    texts = []
    for recording in recordings:
        assert main(["replay", str(faulty / recording), "--compare"]) == 1
        texts.append(capsys.readouterr().out)
    assert any(FAULTS[fault] in text for text in texts), texts
    assert all(f"first difference: #0 {name} differs" in text for text in texts)


def test_a_recording_of_a_failure_has_its_golden(faulty: Path) -> None:
    """Behind the launch stands what was compared: the device's result and the reference's."""
    found = 0
    for path in (faulty / "cases").glob("aclnnModulate-*.aclnn"):
        with Recording(path) as recording:
            names = [launch.operator.name for launch in recording.launches]
            if names[-1] == COMPARE:
                assert names[0] == compared(recording, recording.launches[-1]).operator == "aclnnModulate"
                (outcome,) = replay(
                    recording, [len(names) - 1]
                )  # a result that is rounded to one side is accurate, and wrong
                assert outcome.difference
                found += 1
    assert found


def test_failures_have_pictures(faulty: Path) -> None:
    pictures = {file.name.partition("-")[0] for file in (faulty / "cases").glob("*.svg")}
    assert {"aclnnScaledMaskedSoftmax", "aclnnModulate"} <= pictures
    text = (faulty / "index.html").read_text(encoding="utf-8")
    assert f"aclnnScaledMaskedSoftmax/0000 example: y, on {SOC}" in text  # what a pasted picture is of
    assert not any(">accurate<" in file.read_text(encoding="utf-8") for file in (faulty / "cases").glob("*.svg"))


# ------------------------------------------------------------------------------------------ recordings of right results


@pytest.mark.parametrize(
    "name", ["aclnnAdd", "aclnnInplaceAdd", "aclnnForeachAbs", "aclnnUnique2", "aclnnTopk", "aclnnRmsNorm", "aclnnSplitTensor"]
)  # fmt: skip
def test_right_results_replay_as_recorded(tmp_path: Path, name: str) -> None:
    operator = catalog.get(name)
    for number, case in enumerate([*cases(operator, SOC)][::3]):
        with use_backend("numpy"):
            results = [_host(result) for result in golden(operator, build(operator, case), SOC)]
        failures.record(tmp_path / f"{number}.aclnn", DEVICE, operator, case, results=results)
        with Recording(tmp_path / f"{number}.aclnn") as recording, use_backend("numpy"):
            (outcome,) = replay(recording)
        assert (outcome.difference, outcome.left_out) == ("", "") and outcome.comparisons


def _host(result: Any) -> Any:
    if isinstance(result, (list, tuple)):
        return [_host(item) for item in result]
    return result if isinstance(result, np.ndarray) else result.numpy()


def test_seeds_give_other_numbers_of_the_same_cases() -> None:
    operator = catalog.get("aclnnRmsNorm")
    first, second = ([item.case for item in suite.numbered(operator, SOC, seed)] for seed in (0, 7))
    assert [case.label for case in first] == [case.label for case in second] and first[0] == Case()
    values = [[build(operator, case).arguments[0] for case in found[:2]] for found in (first, second)]
    assert [np.array_equal(one, other) for one, other in zip(*values)][:2] == [True, False]
    np.testing.assert_array_equal(values[1][1], build(operator, second[1]).arguments[0])


# ------------------------------------------------------------------------------------------ older results


def test_what_became_wrong_and_what_was_mended(faulty: Path, healthy: Path) -> None:
    good, bad = (history.read(directory / "result.json") for directory in (healthy, faulty))
    worse, better, same = history.compare(good, bad), history.compare(bad, good), history.compare(bad, bad)
    assert set(worse.wrong) == set(UNITS) and not worse.ok and not worse.mended
    assert set(better.mended) == set(UNITS) and better.ok
    assert same.ok and not same.mended and not same.changed


def result(*units: dict[str, Any], **more: Any) -> dict[str, Any]:
    default = {"unit": "aclnnAdd", "cases": 3, "faults": [], "left_out": None, "figures": {}}
    return {"device": DEVICE, "units": [{**default, **unit} for unit in units], **more}


def test_other_differences_of_two_results() -> None:
    fault = {"case": "uniform", "text": "wrong\nat length"}
    other = {"case": "normal", "text": "wrong too"}
    found = history.compare(result({"faults": [fault]}), result({"faults": [fault, other]}))
    assert found.wrong == {"aclnnAdd": "1 of 3 cases: [normal] wrong too"}
    found = history.compare(result({"left_out": "no example"}), result({"faults": [fault]}))
    assert found.wrong["aclnnAdd"].startswith("was left out; 1 of 3 cases")
    assert "was not in the older run" in history.compare(result(), result({"faults": [fault]})).wrong["aclnnAdd"]
    found = history.compare(result({}), result({"left_out": "not in this CANN"}))
    assert found.ok and found.left_out == {"aclnnAdd": "not in this CANN"}
    found = history.compare(result({}, {"unit": "aclnnSub"}), result({}))
    assert found.missing == 1 and "1 were not tried in this one" in str(found)
    found = history.compare(result({}), {**result({}), "device": {**DEVICE, "cann": "9.0.0"}})
    assert found.changed == ["cann: 9.0.0, was 8.1.RC1"]


@pytest.mark.parametrize(
    ("before", "after", "slower", "faster"),
    [(30, 61, True, False), (30, 60, False, False), (5, 20, False, False), (90, 30, False, True), (None, 90, False, False)],
)  # fmt: skip
def test_calls_that_became_slower(before: Any, after: float, slower: bool, faster: bool) -> None:
    found = history.compare(result({"figures": {"host_us": before}}), result({"figures": {"host_us": after}}))
    assert (bool(found.slower), bool(found.faster), found.ok) == (slower, faster, True)


def test_what_is_no_result_is_refused(tmp_path: Path) -> None:
    for text in ("{", "[]", '{"units": 3}'):
        (tmp_path / "old.json").write_text(text)
        with pytest.raises(ValueError, match=r"old\.json is no result of verify"):
            history.read(tmp_path / "old.json")


@pytest.mark.parametrize(("option", "value"), [("--seed", "-1"), ("--time", "0")])
def test_options_that_mean_nothing_are_refused(option: str, value: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", option, value]) != 0
    assert option in capsys.readouterr().err


# ------------------------------------------------------------------------------------------ the page alone


def test_texts_of_a_device_are_no_markup() -> None:
    text = '<script>alert("1")</script>'
    outcome = Outcome("aclnnAdd", 1, [{"case": text, "text": text, "recording": None}])
    report = Report({**DEVICE, "driver": text}, [outcome, Outcome("aclnnExp", left_out="no example")], 1.0, text)
    shown = page(report.to_json())
    assert shown.count("<script>") == 1
    assert {name: unit["data-state"] for name, unit in Page(shown).units.items()} == {
        "aclnnAdd": "failed",
        "aclnnExp": "left out",
    }
