"""Recordings run again, compared with each other, cut and exported; and what the command line says of them."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from recordings import HEADER, description, record_call

import ascend_aclnn as aclnn
from ascend_aclnn.catalog import atb
from ascend_aclnn.cli.main import main
from ascend_aclnn.core.dtypes import DataType, Format, as_datatype
from ascend_aclnn.recording import Prototype, Recording, TensorDescription, TensorValue, Value, Writer
from ascend_aclnn.replay import Replay, differences, replay, trim

F16, F32 = np.float16, np.float32
RNG = np.random.default_rng(5)


def step(path: Path, wrong: Any = None, tail: bool = False) -> Path:
    """A product, an addition and a norm; ``wrong`` changes the results of the norm."""
    a, b = (RNG.standard_normal((4, 8)).astype(F16), RNG.standard_normal((8, 4)).astype(F16))
    with Writer(path, HEADER) as writer:
        record_call(writer, "aclnnMm", a, b, np.zeros((4, 4), F16), 0)
        record_call(writer, "aclnnAdd", a, a, 1.0, np.zeros_like(a))
        y, rstd = np.zeros((4, 8), F16), np.zeros((4, 1), F32)
        record_call(writer, "aclnnRmsNorm", a, np.ones(8, F16), 1e-6, y, rstd, wrong=wrong)
        if tail:
            record_call(writer, "aclnnAbs", a, np.zeros_like(a))
    return path


def one_element(y: Any, rstd: Any) -> None:
    y[2, 3] += 1


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a replay finds wrong is recorded below the current directory."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def right(tmp_path: Path) -> Path:
    global RNG
    RNG = np.random.default_rng(5)
    return step(tmp_path / "right.aclnn")


@pytest.fixture
def faulty(tmp_path: Path) -> Path:
    global RNG
    RNG = np.random.default_rng(5)
    return step(tmp_path / "faulty.aclnn", one_element, tail=True)


def outcomes(path: Path, **options: Any) -> list[Any]:
    with Recording(path) as recording, aclnn.use_backend("numpy"):
        return list(replay(recording, **options))


# ------------------------------------------------------------------------------------------------ replay


def test_launches_give_what_was_recorded(right: Path) -> None:
    results = outcomes(right)
    assert [one.difference or one.left_out for one in results] == ["", "", ""]
    assert [sorted(one.comparisons) for one in results] == [["out"], ["out"], ["rstdOut", "yOut"]]


def test_a_wrong_element_is_found_at_its_launch(faulty: Path) -> None:
    results = outcomes(faulty)
    assert [bool(one.difference) for one in results] == [False, False, True, False]
    assert "#2 aclnnRmsNorm differs: yOut FLOAT16 (4, 8)" in str(results[2])
    assert "1 of 32 elements are outside of the tolerance" in str(results[2])
    assert "worst at [2, 3]" in str(results[2]) and "train.py:31 in step" in str(results[2])
    assert not any(one.difference for one in outcomes(faulty, comparing=False))
    drawn = Replay(results)._repr_html_()
    assert "4 launches: 1 different, 0 left out" in drawn and "#2 aclnnRmsNorm" in drawn and "<svg" in drawn
    assert "#1 aclnnAdd is as recorded" in results[1]._repr_html_()


def test_tensors_that_share_memory_share_it_again(tmp_path: Path) -> None:
    """x[0:4] and x[2:6] of one array, added into x[1:5]: with memory of their own the result would be another."""
    names = Prototype("aclnnInplaceAdd", ("selfRef", "other", "alpha"), ("inout", "in", "in"))
    x = np.arange(6, dtype=F32)
    base = 1 << 40

    def at(start: int) -> TensorDescription:
        return TensorDescription(int(DataType.FLOAT), int(Format.ND), (4,), (1,), 0, (4,))

    path = tmp_path / "shared.aclnn"
    with Writer(path, HEADER) as writer:
        after = x.copy()
        after[:4] += x[2:]
        values = [
            Value("tensor", TensorValue(at(0), base, writer.tensor(x[:4], at(0)), writer.tensor(after[:4], at(0)))),
            Value("tensor", TensorValue(at(2), base + 8, writer.tensor(x[2:], at(2)))),
            Value("scalar", aclnn_scalar(1.0)),
        ]
        writer.launch(names, values)
    with Recording(path) as recording, aclnn.use_backend("numpy"):
        from ascend_aclnn import catalog
        from ascend_aclnn.replay.arguments import arguments

        first, second, _ = arguments(recording, recording.launches[0], catalog.get("aclnnInplaceAdd"))
        assert first.storage is second.storage
        assert second.offset - first.offset == 2
        np.testing.assert_array_equal(second.numpy(), x[2:])
        (outcome,) = replay(recording)
    assert not outcome.difference and not outcome.left_out


def aclnn_scalar(value: float) -> Any:
    from ascend_aclnn.recording import ScalarValue

    return ScalarValue(int(DataType.FLOAT), F32(value).tobytes())


def test_a_launch_that_was_refused_is_refused_again(tmp_path: Path) -> None:
    path = tmp_path / "refused.aclnn"
    with Writer(path, HEADER) as writer:
        record_call(writer, "aclnnAbs", np.ones(3, F32), np.ones(4, F32), status=161002)
        record_call(writer, "aclnnAbs", np.ones(3, F32), np.ones(3, F32), status=161002)
    first, second = outcomes(path)
    assert not first.difference and not first.left_out
    assert "161002 (ACLNN_ERR_PARAM_INVALID) was recorded, and it succeeds now" in second.difference


def test_data_that_limits_left_out_are_counted_by_the_limit(tmp_path: Path, capsys: Any) -> None:
    path, shape = tmp_path / "limits.aclnn", description((3,))
    tensors = [Value("tensor", TensorValue(shape, at << 40)) for at in (1, 2)]
    why = "data: tensors of more than 300 bytes; data: the file's limit is reached; "
    with Writer(path, HEADER) as writer:
        writer.launch(Prototype("aclnnAbs", ("self", "out"), ("in", "out")), tensors, left_out=2 * why)
        writer.launch(Prototype("aclnnInplaceRelu", ("selfRef",), ("inout",)), tensors[:1], left_out=why)
    text = run("replay", path, "--compare", capsys=capsys)[1]
    assert "2 left out: data were not recorded (tensors of more than 300 bytes; the file's limit is reached)" in text
    shown = run("recording", "show", path, "--op", 0, capsys=capsys)[1]
    assert "left out: data: tensors of more than 300 bytes; data: the file's limit is reached\n" in shown


def test_a_status_that_came_late_is_the_launch_s(tmp_path: Path, capsys: Any) -> None:
    """CANN names the stream, and the recorder the launch behind which it had failed."""
    late, right = tmp_path / "late.aclnn", tmp_path / "right.aclnn"
    x, shape = np.ones(3, F32), description((3,))
    for path, status in ((late, 507015), (right, 0)):
        with Writer(path, HEADER) as writer:
            before, after = writer.tensor(-x, shape), writer.tensor(x, shape)
            values = [
                Value("tensor", TensorValue(shape, 1 << 40, before)),
                Value("tensor", TensorValue(shape, 1 << 41, None, None if status else after)),
            ]
            error = "aicore exception" if status else ""
            writer.launch(Prototype("aclnnAbs", ("self", "out"), ("in", "out")), values, late=status, error=error)
    assert [bool(one.difference) for path in (late, right) for one in outcomes(path)] == [True, False]
    name = "507015 (ACL_ERROR_RT_AICORE_EXCEPTION)"
    status, text = run("replay", late, "--compare", capsys=capsys)
    assert status == 1 and f"its stream ended with status {name}, and it succeeds now. aicore exception" in text
    assert "aclnnAbs                             failed 507015" in run("recording", "show", late, capsys=capsys)[1]
    shown = run("recording", "show", late, "--op", 0, capsys=capsys)[1]
    assert "  stream     ended with 507015 ACL_ERROR_RT_AICORE_EXCEPTION behind it\n" in shown
    assert "failed 507015 and ok. aicore exception" in run("recording", "diff", late, right, capsys=capsys)[1]


@pytest.mark.parametrize("wrong", [False, True])
def test_caches_of_atb_in_fractals_are_compared_by_the_rules_of_their_device(
    wrong: bool, tmp_path: Path, capsys: Any
) -> None:
    """Ascend 310P's: (blocks, heads * width / 16, tokens of a block, 16). Another device refuses such caches."""
    keys, slots = RNG.standard_normal((3, 2, 32)).astype(F16), np.array([21, 0, 47], np.int32)
    empty = np.zeros((3, 4, 16, 16), F16)
    cache = empty.copy()
    for slot, key in zip(slots, keys):
        cache[slot // 16, :, slot % 16] = key.reshape(4, 16)
    written = cache.copy()
    written[1, 2, 5, 3] += wrong
    fractal = {"format": Format.FRACTAL_NZ, "storage_shape": empty.shape}
    path = tmp_path / "a.aclnn"
    with Writer(path, HEADER._replace(soc="Ascend310P3")) as writer:

        def tensor(address: int, array: Any, after: Any = None, **more: Any) -> Value:
            shape = description(array.shape, as_datatype(array.dtype), **more)
            results = None if after is None else writer.tensor(after, shape)
            return Value("tensor", TensorValue(shape, address << 20, writer.tensor(array, shape), results))

        caches = [tensor(at, empty, after, **fractal) for at, after in ((3, written), (4, cache))]
        read = [Value("tensor", one.content._replace(after=None)) for one in caches]
        rest = [tensor(5, slots), Value("integer", 0), Value("integer", 0)]
        names = tuple(p.name for p in atb.get("ReshapeAndCache").operator.parameters)
        directions = (*["in"] * 7, "inout", "inout")
        values = [tensor(1, keys), tensor(2, keys), *read, *rest, *caches]
        writer.launch(Prototype("ReshapeAndCacheOperation", names, directions), values)
    status, text = run("replay", path, "--compare", capsys=capsys)
    assert status == wrong and f"{1 - wrong} launches as recorded, {int(wrong)} different, 0 left out" in text
    assert ("worst at [1, 2, 5, 3]" in text) is wrong
    case = tmp_path / "test_case.py"
    run("recording", "export", path, "--op", 0, "--to", case, capsys=capsys)
    source = compile(case.read_text(), "test_case.py", "exec")
    names_of_case: dict[str, Any] = {}
    exec(source, names_of_case)
    test = names_of_case["test_ReshapeAndCacheOperation_on_this_backend_gives_what_was_recorded"]
    fails = pytest.raises(AssertionError, match="worst at") if wrong else contextlib.nullcontext()
    with Recording(path) as recording, aclnn.use_backend("numpy", soc="Ascend910B1") as backend, fails:
        test(recording, backend)


def test_what_cannot_be_run_again_is_left_out_with_the_reason(tmp_path: Path) -> None:
    path = tmp_path / "without.aclnn"
    with Writer(path, HEADER) as writer:
        shape = TensorDescription(int(DataType.FLOAT), int(Format.ND), (3,), (1,), 0, (3,))
        unknown = Prototype("aclnnNoSuchOperator", ("x",), ("in",))
        writer.launch(unknown, [Value("tensor", TensorValue(shape, 64))])
        names = Prototype("aclnnAbs", ("self", "out"), ("in", "out"))
        values = [Value("tensor", TensorValue(shape, 64)), Value("tensor", TensorValue(shape, 128))]
        writer.launch(names, values, left_out="--data names other operators")
        writer.launch(names, [Value("unknown", 77), values[1]])
        writer.launch(Prototype("aclnnAbs", ("self",), ("in",)), values[:1])
    reasons = [one.left_out for one in outcomes(path)]
    assert reasons[0] == "this version does not know aclnnNoSuchOperator"
    assert reasons[1] == "the data of self were not recorded (--data names other operators)"
    assert reasons[2] == "self was a handle that the recorder had not seen made"
    assert reasons[3].startswith("it was recorded with the parameters (self); this version knows (self, out)")


def test_values_of_another_kind_leave_the_process_alive(tmp_path: Path) -> None:
    """A string where a tensor must be, and a tensor whose strides reach over more memory than any file describes."""
    path = tmp_path / "hostile.aclnn"
    names = Prototype("aclnnAbs", ("self", "out"), ("in", "out"))
    far = TensorDescription(int(DataType.FLOAT), int(Format.ND), (2,), (1 << 60,), 0, (2,))
    with Writer(path, HEADER) as writer:
        writer.launch(names, [Value("string", "x"), Value("integer", 3)])
        writer.launch(names, [Value("null", None), Value("tensor", TensorValue(far, 64))])
    with Recording(path) as recording, aclnn.use_backend("numpy"):
        (outcome,) = replay(recording, [0])
        assert "TypeError" in outcome.left_out
        (outcome,) = replay(recording, [1])
        assert "the limit is" in outcome.left_out


# ------------------------------------------------------------------------------------------------ differences


def test_two_runs_are_compared_launch_by_launch(right: Path, faulty: Path) -> None:
    with Recording(right) as one, Recording(right) as other:
        assert list(differences(one, other)) == []
    with Recording(right) as one, Recording(faulty) as other:
        found = list(differences(one, other))
    assert [difference.kind for difference in found] == ["output", "launch"]
    assert str(found[0]).startswith("#2 aclnnRmsNorm: same inputs; yOut differs: ") and "ULP" in str(found[0])
    assert str(found[1]) == "#3 aclnnAbs: the first recording has no such launch here"


@pytest.mark.parametrize(
    ("change", "kind", "text"),
    [
        (lambda a, s: (a + 1, s), "input", "its input self differs already: 6 of 6 elements; out then differs"),
        (lambda a, s: (a, 2.0), "argument", "alpha is 1.0 (FLOAT) and 2.0 (FLOAT)"),
        (lambda a, s: (a[:, :2], s), "argument", "self is FLOAT (2, 3) and FLOAT (2, 2)"),
    ],
)
def test_the_origin_of_a_difference_is_told_from_what_inherits_it(
    tmp_path: Path, change: Any, kind: str, text: str
) -> None:
    a = np.arange(6, dtype=F32).reshape(2, 3)
    for name, (x, alpha) in (("one", (a, 1.0)), ("other", change(a, 1.0))):
        with Writer(tmp_path / name, HEADER) as writer:
            record_call(writer, "aclnnAdd", x.copy(), x.copy(), alpha, np.zeros_like(x))
    with Recording(tmp_path / "one") as one, Recording(tmp_path / "other") as other:
        (found,) = differences(one, other)
    assert found.kind == kind and found.is_origin == (kind != "input")
    assert text in found.text


# ------------------------------------------------------------------------------------------------ command line


def run(*arguments: Any, capsys: Any) -> tuple[int, str]:
    status = main([str(argument) for argument in arguments])
    return status, capsys.readouterr().out


def test_replay_exits_with_1_and_names_the_first_difference(right: Path, faulty: Path, capsys: Any) -> None:
    assert run("replay", right, "--compare", capsys=capsys)[0] == 0
    status, text = run("replay", faulty, "--compare", capsys=capsys)
    assert status == 1
    assert text.startswith("first difference: #2 aclnnRmsNorm differs: yOut ")
    assert run("replay", faulty, "--compare", "--op", 1, capsys=capsys)[0] == 0
    assert run("replay", faulty, "--compare", "--from", 0, "--to", 1, capsys=capsys)[0] == 0
    assert main(["replay", str(faulty), "--op", "9"]) == 1
    assert "has no launch 9; it has 4, numbered from 0" in capsys.readouterr().err


def test_show_lists_launches_and_describes_one(faulty: Path, capsys: Any) -> None:
    text = run("recording", "show", faulty, capsys=capsys)[1]
    assert "recorded   4 launches; data: all" in text
    assert [line.split()[1] for line in text.splitlines() if line.startswith("#")] == [
        "aclnnMm",
        "aclnnAdd",
        "aclnnRmsNorm",
        "aclnnAbs",
    ]
    text = run("recording", "show", faulty, "--op", 2, capsys=capsys)[1]
    assert "rstdOut" in text and "FLOAT16 (4, 8) at 0x" in text and "mean" in text and "at train.py:31 in step" in text


def test_diff_exits_with_1_where_runs_differ(right: Path, faulty: Path, capsys: Any) -> None:
    assert run("recording", "diff", right, right, capsys=capsys) == (0, "3 launches are alike\n")
    status, text = run("recording", "diff", right, faulty, capsys=capsys)
    assert status == 1 and text.startswith("first difference: #2 aclnnRmsNorm: same inputs; yOut differs: ")


def test_trim_keeps_launches_with_their_data(faulty: Path, tmp_path: Path, capsys: Any) -> None:
    part = tmp_path / "part.aclnn"
    assert run("recording", "trim", faulty, "--from", 1, "--to", 2, part, capsys=capsys)[0] == 0
    with Recording(part) as recording:
        assert [launch.operator.name for launch in recording.launches] == ["aclnnAdd", "aclnnRmsNorm"]
    assert [bool(one.difference) for one in outcomes(part)] == [False, True]


def test_an_exported_case_fails_as_the_recorded_launch_did(faulty: Path, tmp_path: Path, capsys: Any) -> None:
    for number, passed in ((1, True), (2, False)):
        case = tmp_path / f"test_case_{number}.py"
        assert run("recording", "export", faulty, "--op", number, "--to", case, capsys=capsys)[0] == 0
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", "-p", "no:cacheprovider", str(case)]
        result = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
        assert (result.returncode == 0) is passed, result.stdout + result.stderr
        assert ("worst at [2, 3]" in result.stdout) is not passed


def test_a_stranger_s_names_do_not_leave_the_text_of_an_exported_case(tmp_path: Path) -> None:
    header = HEADER._replace(program=('"""', "\nimport os\n", "\\"), soc='x"""')
    with Writer(tmp_path / "a.aclnn", header) as writer:
        record_call(writer, "aclnnAbs", np.ones(3, F32), np.ones(3, F32))
    with Recording(tmp_path / "a.aclnn") as recording:
        from ascend_aclnn.replay import export

        export(recording, 0, tmp_path / "test_a.py")
        assert trim(recording, [0], tmp_path / "b.aclnn") == 2  # before of out, after of self
    compile((tmp_path / "test_a.py").read_text(), "test_a.py", "exec")
    assert "\nimport os\n" not in (tmp_path / "test_a.py").read_text().partition("import base64")[0]


def test_the_emulated_device_runs_launches_again(faulty: Path, emulator_home: Path) -> None:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("ASCEND_", "LD_LIBRARY"))}
    command = [sys.executable, "-m", "ascend_aclnn", "replay", str(faulty), "--backend", "emulator", "--compare"]
    result = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=600, check=False)
    assert result.returncode == 1, result.stderr
    assert result.stdout.startswith("first difference: #2 aclnnRmsNorm differs: yOut ")
    assert "on the emulated device (Ascend910B1): 3 launches as recorded, 1 different, 0 left out" in result.stdout


def test_a_launch_that_differs_is_recorded_with_its_golden(
    faulty: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["replay", str(faulty), "--compare", "--html", "page.html"]) == 1
    said = capsys.readouterr().out
    assert "yOut: 1 of 32 elements, worst at (2, 3)" in said and "(2, 0) ...#...." in said
    own = Path("aclnn-failures/faulty-2-aclnnRmsNorm.aclnn")
    assert f"  ascend-aclnn recording show {own}\n" in said and os.listdir("aclnn-failures") == [own.name]
    with Recording(faulty) as recording, Recording(own) as part:
        launch, compare = part.launches
        assert launch.operator.name == "aclnnRmsNorm" and compare.operator.name == "compare"
        result = recording.array(recording.launches[2].named["yOut"].content, "after")
        assert np.array_equal(part.array(compare.named["actual"].content), result)
        a = recording.array(recording.launches[2].named["x"].content).astype(np.float64)
        golden = a / np.sqrt((a**2).mean(-1, keepdims=True) + 1e-6)
        assert np.allclose(part.array(compare.named["golden"].content).astype(np.float64), golden, rtol=1e-3)
    first, second = outcomes(own)
    assert "1 of 32 elements" in first.difference and "1 of 32 elements" in second.difference
    assert main(["recording", "show", str(own), "--op", "1"]) == 0
    assert "1 of 32 elements, worst at (2, 3)" in capsys.readouterr().out
    page = Path("page.html").read_text()
    assert "<svg" in page and "row (2, 0), column 3: 1 of 1" in page
    main(["replay", str(faulty), "--compare", "--failures", "off"])
    assert "recorded in" not in capsys.readouterr().out
