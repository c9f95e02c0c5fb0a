"""Faults on demand: the rules, and each kind through this package and through torch_npu."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ascend_aclnn.cli.emulator import environment
from ascend_aclnn.emulator.faults import CALL_KINDS, DEVICE_KINDS, VARIABLE, Fault, parse

# ------------------------------------------------------------------------------------------------ the rules


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("aclrtMalloc:after=10:status=207001", Fault("aclrtMalloc", "status", 207001, 10)),
        ("aclrtMalloc:status=ACL_ERROR_RT_MEMORY_ALLOCATION", Fault("aclrtMalloc", "status", 207001)),
        ("aclnnAdd:after=3:tail", Fault("aclnnAdd", "tail", after=3)),
        ("aclnn*:times=1:fail", Fault("aclnn*", "fail", times=1)),
        ("aclnnAdd:fail=507035", Fault("aclnnAdd", "fail", 507035)),
        ("HcclAllReduce:rank=0:die", Fault("HcclAllReduce", "die", rank=0)),
        ("aclnnAddGetWorkspaceSize:slow=5", Fault("aclnnAddGetWorkspaceSize", "slow", 5)),
    ],
)
def test_a_rule_is_read_and_written(text: str, fault: Fault) -> None:
    assert parse(text) == [fault]
    assert parse(str(fault)) == [fault]


def test_who_makes_a_fault_follows_from_its_kind_and_name() -> None:
    made = {
        text: parse(text)[0].of_device
        for text in ("aclnnAdd:slow=1", "aclnnAdd:status=561000", "aclrt*:slow=1", "aclnn*:die", "RopeOperation:nan")
    }
    assert list(made.values()) == [True, False, False, True, True]


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ("aclnnAdd", "does not say what goes wrong"),
        ("aclnnAdd:wrong", "'wrong'"),
        ("aclnnAdd:after=x:stale", "'after=x'"),
        ("aclnnAdd:stale:tail", "'tail'"),
        ("aclnnAd:stale", "aclnnAdd"),
        ("aclrtMalloc:stale", "stale is for operators; aclrtMalloc is a function of CANN"),
        ("aclrtMaloc:status=5", "'aclrtMaloc' is neither an operator nor a function of CANN"),
        ("aclrtMalloc:status", "'status'"),
        ("aclrtMalloc:status=0", "it must be a status or its name"),
        ("aclrtMalloc:status=NO_SUCH", "it must be a status or its name"),
        ("aclrtMalloc:slow=x", "it must be a number of milliseconds"),
    ],
)
def test_a_rule_that_cannot_be_read_is_refused(rule: str, text: str) -> None:
    with pytest.raises(ValueError, match=VARIABLE) as caught:
        parse(rule)
    assert text in str(caught.value)


# ------------------------------------------------------------------------------------------------ each kind

PROGRAM = """
import signal, sys, time
import numpy as np
import ascend_aclnn as aclnn
from ascend_aclnn import ops

def attempt(n):
    try:
        a = aclnn.asarray(np.full(8, n, np.float32))
        begin = time.monotonic()
        values = ops.add(a, a).numpy().tolist()
        return ("right" if values == [2 * n] * 8 else "wrong"), time.monotonic() - begin
    except aclnn.AclError as error:
        return error.status, str(error)
for n in range(1, 4):
    result = attempt(n)
    print(result[0], "|", repr(result[1]), flush=True)
"""
TORCH_PROGRAM = """
import time
import torch, torch_npu
def attempt(n):
    try:
        a = torch.full((8,), float(n)).npu()
        begin = time.monotonic()
        values = (a + a).cpu().tolist()
        return ("right" if values == [2 * n] * 8 else "wrong"), time.monotonic() - begin
    except RuntimeError as error:
        return "error", str(error)
for n in range(1, 4):
    result = attempt(n)
    print(result[0], "|", repr(result[1]), flush=True)
"""
RIGHT = "right"


def run(home: Path, program: str, *rules: str, **variables: str) -> subprocess.CompletedProcess[str]:
    plain = {k: v for k, v in environment(home).items() if k not in ("RANK", "TORCH_DEVICE_BACKEND_AUTOLOAD")}
    plain["PYTHONPATH"] = os.pathsep.join(sys.path)
    plain[VARIABLE] = ";".join(rules)
    return subprocess.run(
        [sys.executable, "-c", program],
        env={**plain, **variables},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def outcomes(done: subprocess.CompletedProcess[str]) -> list[tuple[str, str]]:
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line.split(" | ", 1) for line in done.stdout.splitlines()]
    return [(result, detail) for result, detail in lines]


PROGRAMS = [
    pytest.param(PROGRAM, id="ascend_aclnn"),
    pytest.param(
        TORCH_PROGRAM,
        id="torch_npu",
        marks=[
            pytest.mark.clients,
            pytest.mark.skipif(
                importlib.util.find_spec("torch_npu") is None,
                reason="torch_npu is not installed: ./scripts/test --clients runs its tests on the emulated device",
            ),
        ],
    ),
]
each_program = pytest.mark.parametrize("program", PROGRAMS)


@each_program
def test_a_launch_fails_with_a_status(emulator_home: Path, program: str) -> None:
    # With torch_npu's queue on, an error ends the queue, and later operators are dropped without a word.
    done = run(emulator_home, program, "aclnnAdd:after=1:times=1:status=561000", TASK_QUEUE_ENABLE="0")
    first, second, third = outcomes(done)
    assert first[0] == third[0] == RIGHT
    assert second[0] in ("561000", "error") and "561000" in second[0] + second[1]


@each_program
def test_phase_one_fails_with_a_status(emulator_home: Path, program: str) -> None:
    first, second, third = outcomes(run(emulator_home, program, "aclnnAddGetWorkspaceSize:times=1:status=161002"))
    assert "161002" in first[0] + first[1] and "EMULATOR_INJECTED" in first[1]
    assert second[0] == third[0] == RIGHT


@each_program
def test_a_kernel_fails_at_the_synchronisation(emulator_home: Path, program: str) -> None:
    done = run(emulator_home, program, "aclnnAdd:after=1:times=1:fail")
    first, second, _ = outcomes(done)
    assert first[0] == RIGHT
    assert second[0] in ("507015", "error") and "507015" in second[0] + second[1]
    assert "aclnnAdd: EMULATOR_INJECTED: the kernel was made to fail with 507015" in second[1] + done.stderr


@each_program
@pytest.mark.parametrize("kind", ["wrong-element", "nan", "tail", "stale"])
def test_an_answer_is_wrong(emulator_home: Path, program: str, kind: str) -> None:
    first, second, third = outcomes(run(emulator_home, program, f"aclnnAdd:after=1:times=1:{kind}"))
    assert first[0] == third[0] == RIGHT
    assert second[0] == "wrong"


@each_program
def test_a_kernel_is_slow(emulator_home: Path, program: str) -> None:
    first, second, third = outcomes(run(emulator_home, program, "aclnnAdd:after=1:times=1:slow=400"))
    assert first[0] == second[0] == third[0] == RIGHT
    assert float(second[1]) >= 0.4


@each_program
def test_a_device_is_lost(emulator_home: Path, program: str) -> None:
    first, second, third = outcomes(run(emulator_home, program, "aclnn*:after=1:die"))
    assert first[0] == RIGHT
    for result, detail in (second, third):
        assert result in ("507899", "error") and "EMULATOR_DEVICE_LOST" in detail


def test_memory_ends_after_some_allocations(emulator_home: Path) -> None:
    program = """
import ascend_aclnn as aclnn
tensors = []
try:
    while len(tensors) < 20:
        tensors.append(aclnn.zeros((1 << 20,), "float32"))
except aclnn.AclError as error:
    print(len(tensors), error.status, error.name, error.routine)
"""
    done = run(emulator_home, program, "aclrtMalloc*:after=3:status=207001")
    assert done.stdout == "3 207001 ACL_ERROR_RT_MEMORY_ALLOCATION aclrtMallocAlign32\n", done.stdout + done.stderr


@pytest.mark.clients
@pytest.mark.clients_short
@pytest.mark.skipif(
    importlib.util.find_spec("torch_npu") is None,
    reason="torch_npu is not installed: ./scripts/test --clients runs its tests on the emulated device",
)
def test_torch_npu_is_out_of_memory(emulator_home: Path) -> None:
    program = """
import torch, torch_npu
try:
    tensors = [torch.zeros(64 << 20, device="npu") for _ in range(8)]
except torch.OutOfMemoryError:
    print("out of memory")
"""
    done = run(emulator_home, program, "aclrtMalloc*:after=3:status=207001")
    assert done.stdout.startswith("out of memory"), done.stdout + done.stderr


def test_a_call_is_slow(emulator_home: Path) -> None:
    begin = time.monotonic()
    assert [result for result, _ in outcomes(run(emulator_home, PROGRAM, "aclnnAddGetWorkspaceSize:slow=300"))] == [
        RIGHT
    ] * 3
    assert time.monotonic() - begin >= 0.9


@pytest.mark.parametrize(("rank", "status"), [("1", -9), ("0", 0)])
def test_a_rank_dies_in_a_call(emulator_home: Path, rank: str, status: int) -> None:
    done = run(emulator_home, PROGRAM, "aclrtMemcpy*:rank=1:after=1:die", RANK=rank)
    assert done.returncode == status, done.stderr


def test_the_other_rank_says_that_a_rank_has_died(emulator_home: Path, tmp_path: Path) -> None:
    """Rank 1 is killed in its second all_reduce; rank 0 gets an error that names it."""
    program = tmp_path / "program.py"
    program.write_text("""
import os
import numpy as np
import ascend_aclnn as aclnn
comm = aclnn.Communicator.from_env()
x = aclnn.asarray(np.ones(4, np.float32))
for step in range(2):
    try:
        print(step, comm.all_reduce(x).numpy().tolist(), flush=True)
    except aclnn.AclError as error:
        print(step, error.status, "rank 1" in str(error), flush=True)
        break
""")
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    plain = environment(emulator_home)
    plain.update(PYTHONPATH=os.pathsep.join(sys.path), WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
    plain[VARIABLE] = "HcclAllReduce:rank=1:after=1:die"
    ranks = [
        subprocess.Popen(
            [sys.executable, str(program)],
            env={**plain, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    (first, error), _ = (rank.communicate(timeout=300) for rank in ranks)
    assert ranks[1].returncode == -9
    lines = first.splitlines()
    assert lines[0] == "0 [2.0, 2.0, 2.0, 2.0]", first + error
    assert lines[1].startswith("1 ") and lines[1].endswith(" True"), first + error


def test_the_command_checks_its_rules(emulator_home: Path) -> None:
    command = [sys.executable, "-m", "ascend_aclnn", "emulator", "run", "--fault"]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [*command, "aclnnAd:stale", "--", "true"], capture_output=True, text=True, env=environ, check=False
    )
    assert done.returncode == 1 and "aclnnAdd" in done.stderr
    show = ["--", sys.executable, "-c", f"import os; print(os.environ[{VARIABLE!r}])"]
    rules = ["aclnnAdd:stale", "--fault", "aclrtMalloc:status=ACL_ERROR_RT_MEMORY_ALLOCATION"]
    done = subprocess.run([*command, *rules, *show], capture_output=True, text=True, env=environ, check=False)
    assert done.stdout == "aclnnAdd:stale;aclrtMalloc:status=207001\n", done.stderr


def test_every_kind_is_tried() -> None:
    text = Path(__file__).read_text() + (Path(__file__).parents[1] / "verify" / "test_verify.py").read_text()
    assert [kind for kind in {**DEVICE_KINDS, **CALL_KINDS} if kind not in text] == []
