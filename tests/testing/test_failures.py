"""Comparisons that fail: what they show, and the recordings they leave."""

from __future__ import annotations

import importlib.metadata
import os
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

import ascend_aclnn as aclnn
from ascend_aclnn.recording import Recording
from ascend_aclnn.replay import replay
from ascend_aclnn.testing import AccuracyError, assert_accurate, compare, failures

pytest_plugins = ["pytester"]

X = np.random.default_rng(3).uniform(0.5, 2, (20, 50)).astype(np.float32)
GOLDEN = np.exp(X.astype(np.float64))


def wrong() -> np.ndarray:
    y = np.exp(X)
    y[3, 7:10] *= 1.5
    y[19, 49] = 0
    return y


@pytest.fixture
def written_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """As in a program without pytest: assert_accurate writes below the current directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(failures, "_deferred", [])
    monkeypatch.setattr(failures, "_count", 0)
    monkeypatch.delenv("ASCEND_ACLNN_FAILURES", raising=False)
    return tmp_path / "aclnn-failures"


def raised(*arguments: object, **options: object) -> str:
    with pytest.raises(AccuracyError) as caught:
        assert_accurate(*arguments, **options)  # type: ignore[arg-type]
    return str(caught.value)


def test_a_failure_tells_how_many_elements_where_and_by_how_much() -> None:
    comparison = compare(wrong(), GOLDEN)
    expected = np.abs(wrong() - GOLDEN) > 0.01
    assert expected.sum() == comparison.wrong == 4
    index = tuple(int(i) for i in np.unravel_index(np.abs(wrong() - GOLDEN).argmax(), X.shape))
    assert comparison.summary == f"4 of 1,000 elements, worst at {index}"
    lines = str(comparison).splitlines()
    assert lines[1].strip() == comparison.summary
    grid = dict(line.split(") ") for line in map(str.strip, lines) if line.startswith("("))
    assert grid["(2, 0"] == "." * 7 + "+++" + "." * 40  # two rows in a line, one of which is wrong
    assert grid["(18, 0"] == "." * 49 + "+" and grid["(0, 0"] == "." * 50 and len(grid) == 10
    assert any(line.split()[:2] == ["more", "4"] for line in lines)
    assert compare(np.exp(X), GOLDEN).summary == "" and compare(np.exp(X), GOLDEN).heat_map() is None


@pytest.mark.parametrize("shape", [(1000,), (7, 130), (3, 5, 300), (2, 2000, 3), ()])
def test_a_heat_map_counts_each_element_once(shape: tuple[int, ...]) -> None:
    mask = np.asarray(np.random.default_rng(0).random(shape) < 0.3)
    mask[(-1,) * mask.ndim] = True
    found = compare(mask.astype(np.int32), np.zeros(shape, np.int32)).heat_map()
    assert found is not None and found.wrong.sum() == mask.sum() and found.sizes.sum() == mask.size
    assert found.wrong.shape[0] <= 16 and found.wrong.shape[1] <= 64
    rows = mask.reshape(-1, shape[-1] if shape else 1)
    last = rows[(len(found.wrong) - 1) * found.block[0] :, (found.wrong.shape[1] - 1) * found.block[1] :]
    assert found.wrong[-1, -1] == last.sum() and found.sizes[-1, -1] == last.size


def test_only_a_mean_that_is_too_large_shows_where_results_differ() -> None:
    comparison = compare(X * np.float32(1 + 3e-4), X.astype(np.float64), "mere_mare")
    assert comparison.reason.startswith("MERE") and comparison.wrong > 900


def test_the_picture_and_the_notebook_show_where(tmp_path: Path) -> None:
    comparison = compare(wrong(), GOLDEN)
    titles = [t.text for t in ElementTree.fromstring(comparison.svg()).iter("{http://www.w3.org/2000/svg}title")]
    assert "row (2, 0), column 7: 1 of 2" in titles and "row (18, 0), column 49: 1 of 2" in titles
    assert len([t for t in titles if t and t.startswith("row")]) == 4
    assert comparison.svg() in comparison._repr_html_()
    comparison.plot(tmp_path / "page.html")
    assert comparison.svg() in (tmp_path / "page.html").read_text()


def test_a_failure_outside_of_pytest_is_recorded(written_here: Path) -> None:
    with aclnn.use_backend("numpy"):
        text = raised(wrong(), GOLDEN, operator="aclnnExp", inputs=[X])
    name = f"aclnn-failures/aclnnExp-{os.getpid()}-1.aclnn"
    assert text.splitlines()[-3:] == [
        f"recorded in {name}:",
        f"  ascend-aclnn recording show {name}",
        f"  ascend-aclnn replay {name} --compare",
    ]
    with Recording(name) as recording, aclnn.use_backend("numpy"):
        launch, last = recording.launches
        arrays = {"self": X, "actual": wrong(), "golden": GOLDEN}
        for key in ("actual", "golden", "self"):
            assert np.array_equal(recording.array(last.named[key].content), arrays[key])
        assert np.array_equal(recording.array(launch.named["self"].content), X)
        assert np.array_equal(recording.array(launch.named["out"].content, "after"), wrong())
        for outcome in replay(recording):
            assert "the largest absolute error" in outcome.difference and outcome.comparisons.popitem()[1].wrong == 4


def test_what_is_recorded_without_an_operator(written_here: Path) -> None:
    raised(np.arange(4, dtype=np.int8), np.zeros(4, np.int8), inputs={"x": X, "seed": 3})
    raised(np.zeros((2, 2), np.float32), np.zeros(3), rtol=0.1)
    first, second = sorted(written_here.iterdir())
    with Recording(first) as recording:
        (launch,) = recording.launches
        assert np.array_equal(recording.array(launch.named["x"].content), X)
        assert recording.array(launch.named["seed"].content) == 3
    with Recording(second) as recording:
        (outcome,) = replay(recording)
        assert "the shape is (2, 2)" in outcome.difference


def test_inputs_that_the_operator_does_not_take_cost_only_its_launch(written_here: Path) -> None:
    with aclnn.use_backend("numpy"):
        raised(wrong(), GOLDEN, operator="aclnnMm", inputs=[X])
    (path,) = written_here.iterdir()
    with Recording(path) as recording:
        assert [launch.operator.name for launch in recording.launches] == ["compare"]
        assert recording.notes()[0].startswith("no launch of aclnnMm is recorded: ")


def test_the_size_and_the_number_of_files_are_bounded(written_here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failures, "LIMIT", X.nbytes + 100)
    monkeypatch.setattr(failures, "MOST_FILES", 2)
    with aclnn.use_backend("numpy"):
        raised(wrong(), GOLDEN, operator="aclnnExp", inputs=[X])
    (path,) = written_here.iterdir()
    assert path.stat().st_size < 2 * X.nbytes
    with Recording(path) as recording:
        (launch,) = recording.launches
        assert np.array_equal(recording.array(launch.named["actual"].content), wrong())
        assert launch.named["golden"].content.before is None
        assert recording.notes()[-1] == f"left out, beyond {failures.LIMIT} bytes: the launch of aclnnExp, golden, self"
        (outcome,) = replay(recording)
        assert "were not recorded" in outcome.left_out
    raised(wrong(), GOLDEN)
    assert "this process has written 2 files" in raised(wrong(), GOLDEN) and len(list(written_here.iterdir())) == 2


def test_recording_failures_can_be_turned_off_and_cannot_hide_them(
    written_here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASCEND_ACLNN_FAILURES", "off")
    assert "recorded" not in raised(wrong(), GOLDEN) and not written_here.exists()
    Path("file").touch()
    monkeypatch.setenv("ASCEND_ACLNN_FAILURES", "file")
    text = raised(wrong(), GOLDEN)
    assert "4 of 1,000 elements" in text and text.splitlines()[-1].startswith("not recorded: ")
    monkeypatch.setenv("ASCEND_ACLNN_FAILURES", "other")
    assert "not recorded: " in raised(np.array(["a"], object) == 1, np.array([1], np.longdouble))
    assert os.listdir("other") == []


TESTS = """
import numpy as np
import pytest
from ascend_aclnn.testing import assert_accurate

@pytest.mark.parametrize("scale", [1, 2])
def test_scale(scale):
    x = np.linspace(1, 2, 12, dtype=np.float32).reshape(3, 4)
    assert_accurate(x * scale, x.astype(np.float64), inputs={"x": x})

def test_expected():
    with pytest.raises(AssertionError):
        assert_accurate(np.ones(2), np.zeros(2))
"""


def plugin() -> list[str]:
    """An installed package's plugin is found by its entry point; in a bare checkout it must be named."""
    points = (point for found in importlib.metadata.distributions() for point in found.entry_points)
    installed = any(point.value == "ascend_aclnn.testing.plugin" for point in points)
    return [] if installed else ["-p", "ascend_aclnn.testing.plugin"]


def test_the_plugin_records_the_failures_of_tests(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(TESTS)
    result = pytester.runpytest_subprocess("-p", "no:randomly", *plugin())
    result.assert_outcomes(passed=2, failed=1)
    file = next(pytester.path.glob(".pytest_cache/d/aclnn-failures/*"))
    assert file.name == "test_the_plugin_records_the_failures_of_tests.py-test_scale-2.aclnn"
    assert [path.name for path in file.parent.iterdir()] == [file.name]
    where = str(file.relative_to(pytester.path))
    result.stdout.fnmatch_lines(
        [
            "*12 of 12 elements, worst at (2, 3)",
            "*- ascend_aclnn -*",
            f"recorded in {where}:",
            f"*replay {where} --compare",
        ]
    )
    with Recording(file) as recording:
        (outcome,) = replay(recording)
        assert outcome.comparisons["result"].wrong == 12
    again = pytester.runpytest_subprocess("-p", "no:randomly", "--aclnn-failures=here", "-k", "2", *plugin())
    again.assert_outcomes(failed=1)
    assert len(os.listdir(pytester.path / "here")) == 1
    off = pytester.runpytest_subprocess("-p", "no:randomly", "--aclnn-failures=off", "-k", "2", *plugin())
    assert "recorded in" not in off.stdout.str() and "12 of 12 elements" in off.stdout.str()
