"""Checking while a program runs: the wrong launch is named, its victims are told from it."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any, Optional

import numpy as np
from layer_tools import run
from recordings import HEADER, description

from ascend_aclnn.cli.emulator import environment as emulated_environment
from ascend_aclnn.layer.check import NOT_FINITE, Checker, Finding, Memory, Written
from ascend_aclnn.recording import Frame, Prototype, Recording, TensorValue, Value, Writer
from ascend_aclnn.selection import use_backend

EXP = Prototype("aclnnExp", ("self", "out"), ("in", "out"))
SHAPE = description((4,))
SITE = (Frame("net.py", 7, "forward"),)
X = np.array([0.5, 1, 1.5, 2], np.float32)


def tensor(writer: Writer, address: int, values: Any, when: str) -> Value:
    key = writer.tensor(np.asarray(values, np.float32), SHAPE)
    return Value("tensor", TensorValue(SHAPE, address, **{when: key}))


def exp(writer: Writer, source: int, x: Any, target: int, result: Any, **more: Any) -> None:
    writer.launch(
        EXP, (tensor(writer, source, x, "before"), tensor(writer, target, result, "after")), site=SITE, **more
    )


def checked(path: Path) -> list[Finding]:
    with Recording(path) as recording, use_backend("numpy"):
        return list(Checker(recording).advance(ended=True))


def test_the_origin_is_told_from_its_victims(tmp_path: Path) -> None:
    wrong = np.exp(X)
    wrong[2] = 9
    with Writer(tmp_path / "a", HEADER) as writer:
        exp(writer, 100, X, 200, np.exp(X))
        exp(writer, 100, X, 300, wrong)  # the fault
        exp(writer, 300, wrong, 400, np.exp(wrong))  # right, with wrong inputs
        exp(writer, 400, X, 500, wrong)  # wrong itself, too
    first, second = checked(tmp_path / "a")
    assert (first.launch.index, first.kind, first.inputs) == (1, "wrong result", ())
    assert "[2]" in first.text and "net.py:7 in forward" in str(first) and "out[2] is 9.0" in str(first)
    assert second.launch.index == 3
    (line,) = second.inputs
    assert line.startswith("an input was written by #2 aclnnExp, which had inherited #1 (aclnnExp: out FLOAT (4,)")


def test_what_is_overwritten_with_right_values_is_no_longer_wrong(tmp_path: Path) -> None:
    with Writer(tmp_path / "a", HEADER) as writer:
        exp(writer, 100, X, 300, X)
        exp(writer, 100, X, 300, np.exp(X))
        exp(writer, 300, np.exp(X), 400, X)
    first, second = checked(tmp_path / "a")
    assert first.launch.index == 0 and (second.launch.index, second.inputs) == (2, ())


def test_nan_and_infinity_are_named_where_they_first_appear(tmp_path: Path) -> None:
    large = np.array([1, 1000, 2, 3], np.float32)
    with np.errstate(over="ignore"):
        result = np.exp(large)
    with Writer(tmp_path / "a", HEADER) as writer:
        exp(writer, 100, X, 200, np.exp(X))
        exp(writer, 100, large, 300, result)
        exp(writer, 300, result, 400, np.exp(result))
    (finding,) = checked(tmp_path / "a")
    assert (finding.launch.index, finding.kind, finding.is_fault) == (1, NOT_FINITE, False)
    assert finding.text == "1 of 4 elements are NaN or infinite; its inputs have neither"


def test_errors_are_named_at_the_launch_that_made_them(tmp_path: Path) -> None:
    with Writer(tmp_path / "a", HEADER) as writer:
        exp(writer, 100, X, 200, X, late=507015, error="aicore exception")
        exp(writer, 100, X, 200, X, statuses=(0, None))
    late, unfinished = checked(tmp_path / "a")
    assert late.kind == "error" and "507015" in late.text and "aicore exception" in late.text
    assert unfinished.text == "phase two never returned: the program ended in it"


def test_a_launch_under_way_is_waited_for(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "a", HEADER)
    exp(writer, 100, X, 200, X, statuses=(0, None))
    with Recording(tmp_path / "a") as recording, use_backend("numpy"):
        checker = Checker(recording)
        assert list(checker.advance()) == []
        assert len(list(checker.advance(ended=True))) == 1
    writer.close()


def test_what_cannot_be_compared_is_counted_with_the_reason(tmp_path: Path) -> None:
    with Writer(tmp_path / "a", HEADER) as writer:
        values = (Value("tensor", TensorValue(SHAPE, 1)), Value("tensor", TensorValue(SHAPE, 2)))
        writer.launch(EXP, values)
        writer.launch(EXP, values, statuses=(161001, None))
    with Recording(tmp_path / "a") as recording, use_backend("numpy"):
        checker = Checker(recording)
        assert list(checker.advance(ended=True)) == [] and checker.checked == 0
        assert sum(checker.left_out.values()) == 2


def test_memory_knows_the_last_writer_of_each_byte() -> None:
    memory, expected = Memory(), [-1] * 100
    draw = random.Random(5)
    for number in range(300):
        start = draw.randrange(99)
        stop = draw.randint(start + 1, 100)
        memory.write(Written(start, stop, number, "x", None, False))
        expected[start:stop] = [number] * (stop - start)
        found = [-1] * 100
        for part in memory.read(0, 100):
            found[part.start : part.stop] = [part.launch] * (part.stop - part.start)
        assert found == expected
        low = draw.randrange(99)
        assert {part.launch for part in memory.read(low, low + 1)} == {expected[low]} - {-1}


# ------------------------------------------------------------------------------------------------- the command


def check(
    home: Path, program: list[str], fault: str, status: Optional[int], *options: str
) -> subprocess.CompletedProcess[str]:
    if "--failures" not in options:
        options = (*options, "--failures", "off")
    command = [sys.executable, "-m", "ascend_aclnn", "layer", "run", "--check", *options, "--", *program]
    return run(command, emulated_environment(home, ASCEND_EMULATOR_FAULT=fault), status)


def test_a_program_is_checked(client: str, emulator_home: Path, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    kept = tmp_path / "kept"
    done = check(emulator_home, [client], "aclnnCat:wrong-element", 1, "--report", str(report), "--failures", str(kept))
    assert "out: 1 of 8 elements, worst at (" in done.stderr and "where: shape (2, 4)" in done.stderr
    (own,) = kept.iterdir()
    assert f"ascend-aclnn replay {own} --compare" in done.stderr
    with Recording(own) as recording:
        assert [launch.operator.name for launch in recording.launches] == ["aclnnCat", "compare"]
    assert "first wrong launch: #1 aclnnCat: out FLOAT (2, 4): 1 of 8 elements" in done.stdout
    assert done.stdout.splitlines()[-1] == "checked 2 launches: 1 wrong; 0 not compared"
    assert f"at {client}+0x" in done.stderr
    (said,) = json.loads(report.read_text()).values()
    assert [finding["operator"] for finding in said["findings"]] == ["aclnnCat"]
    done = check(emulator_home, [client], "", 0)
    assert "checked 2 launches: 0 wrong" in done.stdout and done.stderr == ""
    done = check(emulator_home, [client, "kill"], "", 128 + 9)
    assert "checked 1 launches: 0 wrong" in done.stdout


def test_an_error_that_comes_late_is_found_and_still_reaches_the_program(emulator_home: Path, tmp_path: Path) -> None:
    program = """
import numpy as np
import ascend_aclnn as aclnn
from ascend_aclnn import ops
x = aclnn.asarray(np.ones(4, np.float32))
ops.exp(x)
y = ops.abs(x)
try:
    aclnn.synchronize()
    print("nothing came")
except aclnn.AclError as error:
    print("came", error.status)
"""
    done = check(emulator_home, [sys.executable, "-c", program], "aclnnExp:fail", None)
    assert "came 507015" in done.stdout
    assert "first wrong launch: #0 aclnnExp: its stream ended with status 507015" in done.stdout


def test_an_operator_that_is_wrong_again_and_again_is_printed_ten_times(emulator_home: Path) -> None:
    program = """
import numpy as np
import ascend_aclnn as aclnn
from ascend_aclnn import ops
x = aclnn.asarray(np.ones(4, np.float32))
for _ in range(30):
    ops.exp(x)
"""
    done = check(emulator_home, [sys.executable, "-c", program], "aclnnExp:wrong-element", 1)
    assert done.stderr.count("aclnnExp: wrong result") == 10
    assert done.stderr.count("more launches of aclnnExp are counted only") == 1
    assert "checked 30 launches: 30 wrong" in done.stdout


def test_an_error_of_a_launch_that_is_not_checked_is_noted(emulator_home: Path) -> None:
    program = """
import numpy as np
import ascend_aclnn as aclnn
from ascend_aclnn import ops
x = aclnn.asarray(np.ones(4, np.float32))
ops.exp(x)
ops.abs(x)
"""
    done = check(emulator_home, [sys.executable, "-c", program], "aclnnExp:fail", None, "Abs")
    assert "note: before a launch of aclnnAbs its stream had failed with status 507015" in done.stdout


def test_the_program_is_stopped_at_the_first_wrong_launch(emulator_home: Path) -> None:
    program = """
import time
import numpy as np
import ascend_aclnn as aclnn
from ascend_aclnn import ops
x = aclnn.asarray(np.ones(4, np.float32))
for _ in range(1000):
    ops.exp(x)
    time.sleep(0.3)
"""
    done = check(emulator_home, [sys.executable, "-c", program], "aclnnExp:stale", 128 + 15, "--stop")
    assert "stopping the program" in done.stderr and "first wrong launch: #0 aclnnExp" in done.stdout


def test_options_that_contradict_each_other_are_refused(emulator_home: Path) -> None:
    command = [sys.executable, "-m", "ascend_aclnn", "layer", "run"]
    environ = emulated_environment(emulator_home)
    done = run([*command, "--check", "Mm", "--data", "all", "--", "true"], environ, 1)
    assert "--check WHAT and --data WHAT differ" in done.stderr
    assert "nothing to do" in run([*command, "--", "true"], environ, 2).stderr


RANKS = """
import numpy as np
import ascend_aclnn as aclnn
comms = aclnn.Communicator.of_devices([0, 1])
tensors = []
for comm in comms:
    with aclnn.Device(comm.rank):
        tensors.append([aclnn.asarray(np.full(4, comm.rank + 1 + other, np.float32)) for other in range(2)])
with aclnn.Communicator.group():
    for comm, (x, y) in zip(comms, tensors):
        with aclnn.Device(comm.rank):
            comm.all_reduce(x)
            comm.send(x, 1 - comm.rank)
            comm.recv(y, 1 - comm.rank)
for comm, (x, y) in zip(comms, tensors):
    with aclnn.Device(comm.rank):
        print(x.tolist(), y.tolist())
"""


def test_collectives_are_compared_when_the_program_has_ended(emulator_home: Path, tmp_path: Path) -> None:
    """Both ranks are devices of one process: a collective runs as their group ends."""
    variables = emulated_environment(emulator_home, ASCEND_EMULATOR_DEVICES="2")
    command = [sys.executable, "-m", "ascend_aclnn", "layer", "run", "--check", "--failures", "off", "--"]
    done = run([*command, sys.executable, "-c", RANKS], variables)
    assert done.stdout.splitlines()[:2] == ["[3.0, 3.0, 3.0, 3.0] [3.0, 3.0, 3.0, 3.0]"] * 2, done.stderr
    assert "checked 3 collectives, sends and receives: 0 wrong" in done.stdout, done.stdout
