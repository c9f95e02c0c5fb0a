"""Faults on demand: the rules, and each kind through this package and through torch_npu."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from ports import free_port
from requirements import needs_torch_npu

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

CLIENTS = ("ascend_aclnn", "torch_npu")
WITH_TORCH_NPU = [pytest.mark.clients, needs_torch_npu]
TRIED: set[tuple[str, str]] = set()  # kinds of faults that a test makes, and the client that they are made to


def kind_of(fault: Fault) -> str:
    return f"{'operator' if fault.of_device else 'call'} {fault.kind}"


def tries(*texts: str, programs: dict[str, str]) -> pytest.MarkDecorator:
    """Runs a test with each text of rules and with the program of each client: its arguments ``rules`` and ``program``."""
    made = []
    for text in texts:
        for client, program in programs.items():
            TRIED.update((kind_of(fault), client) for fault in parse(text))
            marks = WITH_TORCH_NPU if client == "torch_npu" else []
            made.append(pytest.param(text, program, id=f"{text.partition(';')[0]}-{client}", marks=marks))
    return pytest.mark.parametrize(("rules", "program"), made)


# Sums of halves that have to be rounded, of no two equal elements, so that each kind of wrong answer is seen.
ADDS = {
    "ascend_aclnn": """
import os, time
import numpy as np
import ascend_aclnn as aclnn
from ascend_aclnn import ops

def attempt(n):
    x = ((np.arange(8) + n) / 3).astype(np.float16)
    y = (x * np.float16(0.37)).astype(np.float16)
    wanted = (x.astype(np.float32) + y).astype(np.float16)
    try:
        a, b = aclnn.asarray(x), aclnn.asarray(y)
        begin = time.monotonic()
        values = ops.add(a, b).numpy()
        return ("right" if np.array_equal(values, wanted) else "wrong"), time.monotonic() - begin
    except aclnn.AclError as error:
        return error.status, str(error)
for n in range(int(os.environ.get("ATTEMPTS", 3))):
    result = attempt(n + 1)
    print(result[0], "|", repr(result[1]), flush=True)
""",
    "torch_npu": """
import os, time
import torch, torch_npu
def attempt(n):
    x = ((torch.arange(8) + n) / 3).half()
    y = (x * 0.37).half()
    try:
        a, b = x.npu(), y.npu()
        begin = time.monotonic()
        values = (a + b).cpu()
        return ("right" if torch.equal(values, x + y) else "wrong"), time.monotonic() - begin
    except RuntimeError as error:
        return "error", str(error)
for n in range(int(os.environ.get("ATTEMPTS", 3))):
    result = attempt(n + 1)
    print(result[0], "|", repr(result[1]), flush=True)
""",
}
RIGHT = "right"


def run(home: Path, program: str, rules: str, **variables: str) -> subprocess.CompletedProcess[str]:
    plain = {k: v for k, v in environment(home).items() if k not in ("RANK", "TORCH_DEVICE_BACKEND_AUTOLOAD")}
    plain["PYTHONPATH"] = os.pathsep.join(sys.path)
    plain[VARIABLE] = rules
    return subprocess.run(
        [sys.executable, "-c", program],
        env={**plain, **variables},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def outcomes(done: subprocess.CompletedProcess[str]) -> list[tuple[str, str]]:
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line.split(" | ", 1) for line in done.stdout.splitlines()]
    return [(result, detail) for result, detail in lines]


@tries("aclnnAdd:after=1:times=1:status=561000", programs=ADDS)
def test_a_launch_fails_with_a_status(emulator_home: Path, rules: str, program: str) -> None:
    # With torch_npu's queue on, an error ends the queue, and later operators are dropped without a word.
    first, second, third = outcomes(run(emulator_home, program, rules, TASK_QUEUE_ENABLE="0"))
    assert first[0] == third[0] == RIGHT
    assert second[0] in ("561000", "error") and "561000" in second[0] + second[1]


@tries("aclnnAddGetWorkspaceSize:times=1:status=161002", programs=ADDS)
def test_phase_one_fails_with_a_status(emulator_home: Path, rules: str, program: str) -> None:
    first, second, third = outcomes(run(emulator_home, program, rules))
    assert "161002" in first[0] + first[1] and "EMULATOR_INJECTED" in first[1]
    assert second[0] == third[0] == RIGHT


@tries("aclnnAdd:after=1:times=1:fail", programs=ADDS)
def test_a_kernel_fails_at_the_synchronisation(emulator_home: Path, rules: str, program: str) -> None:
    done = run(emulator_home, program, rules)
    first, second, _ = outcomes(done)
    assert first[0] == RIGHT
    assert second[0] in ("507015", "error") and "507015" in second[0] + second[1]
    assert "aclnnAdd: EMULATOR_INJECTED: the kernel was made to fail with 507015" in second[1] + done.stderr


WRONG = ("wrong-element", "nan", "wrong-rounding", "low-precision", "tail", "stale", "axes-swapped")


@tries(";".join(f"aclnnAdd:after={2 * n + 1}:times=1:{kind}" for n, kind in enumerate(WRONG)), programs=ADDS)
def test_an_answer_is_wrong(emulator_home: Path, rules: str, program: str) -> None:
    """Each other answer, in another way each time."""
    done = run(emulator_home, program, rules, ATTEMPTS=str(2 * len(WRONG) + 1))
    assert [result for result, _ in outcomes(done)] == [RIGHT, *["wrong", RIGHT] * len(WRONG)]


LOOKS_UP = {  # row 9 of three
    "ascend_aclnn": """
import numpy as np
import ascend_aclnn as aclnn
from ascend_aclnn import ops
for _ in range(2):
    try:
        ops.embedding(np.ones((3, 4), np.float32), np.array([9], np.int64))
        aclnn.synchronize()
        print("passes", flush=True)
    except aclnn.AclError:
        print("error", flush=True)
""",
    "torch_npu": """
import os
import torch, torch_npu
for _ in range(2):
    try:
        torch.nn.functional.embedding(torch.tensor([9]).npu(), torch.ones(3, 4).npu())
        torch.npu.synchronize()
        print("passes", flush=True)
    except RuntimeError:
        print("error", flush=True)
os._exit(0)  # the context does not recover
""",
}


@tries("aclnnEmbedding:times=1:swallow", programs=LOOKS_UP)
def test_an_error_is_swallowed(emulator_home: Path, rules: str, program: str) -> None:
    done = run(emulator_home, program, rules, TASK_QUEUE_ENABLE="0")
    assert done.stdout == "passes\nerror\n", done.stdout + done.stderr


@tries("aclnnAdd:after=1:times=1:slow=400", "aclnnAddGetWorkspaceSize:after=1:times=1:slow=400", programs=ADDS)
def test_a_kernel_or_a_call_is_slow(emulator_home: Path, rules: str, program: str) -> None:
    first, second, third = outcomes(run(emulator_home, program, rules))
    assert first[0] == second[0] == third[0] == RIGHT
    assert float(second[1]) >= 0.4


@tries("aclnn*:after=1:die", programs=ADDS)
def test_a_device_is_lost(emulator_home: Path, rules: str, program: str) -> None:
    first, second, third = outcomes(run(emulator_home, program, rules))
    assert first[0] == RIGHT
    for result, detail in (second, third):
        assert result in ("507899", "error") and "EMULATOR_DEVICE_LOST" in detail


WAITS = {  # what has been launched before the second addition ends; that one never does
    "ascend_aclnn": """
import os
import numpy as np
import ascend_aclnn as aclnn
from ascend_aclnn import ops
a = aclnn.asarray(np.ones(4, np.float32))
stream = aclnn.Stream()
ops.add(a, a, stream=stream)
stream.synchronize()
ops.add(a, a, stream=stream)
try:
    stream.synchronize(timeout=0.5)
    print("ends", flush=True)
except TimeoutError:
    print("hangs", flush=True)
os._exit(0)
""",
    "torch_npu": """
import os, time
import torch, torch_npu
a = torch.ones(4).npu()
a + a
torch.npu.synchronize()
a + a
event = torch.npu.Event()
event.record()
end = time.monotonic() + 0.5
while time.monotonic() < end and not event.query():
    time.sleep(0.05)
print("ends" if event.query() else "hangs", flush=True)
os._exit(0)
""",
}


@tries("aclnnAdd:after=1:hang", programs=WAITS)
def test_a_kernel_hangs(emulator_home: Path, rules: str, program: str) -> None:
    done = run(emulator_home, program, rules)
    assert done.stdout == "hangs\n", done.stdout + done.stderr


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
@needs_torch_npu
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


@tries("aclrtMemcpy*:rank=1:after=1:die", programs=ADDS)
@pytest.mark.parametrize(("rank", "status"), [("1", -9), ("0", 0)])
def test_a_rank_dies_in_a_call(emulator_home: Path, rank: str, status: int, rules: str, program: str) -> None:
    done = run(emulator_home, program, rules, RANK=rank)
    assert done.returncode == status, done.stderr


# Of each all_reduce when it began and ended, by a clock that all processes share, and what it gave.
REDUCES = {
    "ascend_aclnn": """
import time
import numpy as np
import ascend_aclnn as aclnn
comm = aclnn.Communicator.from_env()
x = aclnn.asarray(np.ones(4, np.float32))
for step in range(3):
    begin = time.monotonic()
    try:
        value = comm.all_reduce(x).numpy().tolist()[0]
        print(step, begin, time.monotonic(), value, flush=True)
    except aclnn.AclError as error:
        print(step, "error", error.status, "rank 1" in str(error), flush=True)
        break
""",
    "torch_npu": """
import os, time
import torch, torch_npu
import torch.distributed as dist
dist.init_process_group("hccl")
torch.npu.set_device(dist.get_rank())
x = torch.ones(4).npu()
for step in range(3):
    begin = time.monotonic()
    try:
        dist.all_reduce(x)
        torch.npu.synchronize()
        print(step, begin, time.monotonic(), x[0].item(), flush=True)
    except RuntimeError as error:
        print(step, "error", flush=True)
        break
os._exit(0)
""",
}


@tries(
    "HcclAllReduce:rank=1:after=1:times=1:slow=600;HcclAllReduce:rank=1:after=2:die",
    programs=REDUCES,
)
def test_a_link_stalls_and_a_rank_dies(emulator_home: Path, rules: str, program: str) -> None:
    """Rank 1 comes late to its second all_reduce, for which rank 0 waits, and is killed in its third, as rank 0 is told."""
    port = str(free_port())
    plain = {k: v for k, v in environment(emulator_home).items() if k != "TORCH_DEVICE_BACKEND_AUTOLOAD"}
    plain.update(PYTHONPATH=os.pathsep.join(sys.path), WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
    plain[VARIABLE] = rules
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", program],
            env={**plain, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    told = [process.communicate(timeout=300) for process in processes]
    assert processes[1].returncode == -9, told
    waiting, late = ([line.split() for line in output.splitlines()] for output, _ in told)
    assert [line[3] for line in waiting[:2]] == [line[3] for line in late] == ["2.0", "4.0"], told
    came = float(late[1][1]) + 0.6  # at the earliest
    assert float(late[1][2]) >= came and float(waiting[1][2]) >= came, told
    third = waiting[2:]
    if "torch" in program:  # the error is raised, or torch's watchdog has ended the process
        assert third == [["2", "error"]] or (not third and processes[0].returncode != 0), told
    else:
        assert [(*line[:2], line[3]) for line in third] == [("2", "error", "True")], told


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


def test_every_kind_is_tried_through_this_package_and_through_torch_npu() -> None:
    kinds = [f"operator {kind}" for kind in DEVICE_KINDS] + [f"call {kind}" for kind in CALL_KINDS]
    assert sorted(TRIED) == sorted((kind, client) for kind in kinds for client in CLIENTS)
