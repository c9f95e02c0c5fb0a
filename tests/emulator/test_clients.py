"""torch_npu, unmodified, as a client of the emulated device.

The suite lies in ``clients/``: pytest files, and programs that must end by themselves. Each run is a process of its own,
started as a user would: ``ascend-aclnn emulator run -- ...``. ``-m clients_short`` is the part that CI runs.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import trace_format
from ports import free_port
from requirements import needs_torch_npu

from ascend_aclnn.recording import Call, Recording
from ascend_aclnn.replay import replay
from ascend_aclnn.selection import use_backend

CLIENTS = Path(__file__).parent / "clients"
SECONDS = 600  # far more than any run takes: only a hang reaches it

pytestmark = [
    pytest.mark.clients,
    needs_torch_npu,
    pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler (cc): the emulated device cannot be built"),
    pytest.mark.usefixtures("emulator_home"),  # built before the time of a program begins
]

short = pytest.mark.clients_short


def run(program: list[str], *options: str, status: int = 0, **variables: str) -> str:
    """Runs a Python program on the emulated device; its output. It must end with the status."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST", "TORCH_DEVICE", "TASK_QUEUE"))}
    command = [sys.executable, "-m", "ascend_aclnn", "emulator", "run", *options, "--", sys.executable, *program]
    done = subprocess.run(
        command, cwd=CLIENTS, env={**environment, **variables}, capture_output=True, text=True, timeout=SECONDS
    )
    assert done.returncode == status, (
        f"{' '.join(program)} ended with {done.returncode}\n{done.stdout}\n{done.stderr[-3000:]}"
    )
    return done.stdout


def run_suite(names: str, *options: str, chosen: str = "", **variables: str) -> None:
    """Runs files of the suite in one process; some tests of each must have run, and all of them passed."""
    pytest_options = ["-v", "-c", "pytest.ini", "--rootdir=.", "--confcutdir=.", *(["-k", chosen] if chosen else [])]
    files = [f"suite_{name}.py" for name in names.split()]
    output = run(["-m", "pytest", *pytest_options, *files], *options, **variables)
    for file in files:
        assert re.search(rf"^{re.escape(file)}::.* PASSED", output, re.MULTILINE), output
    print(output)


MODES = [pytest.param("0"), pytest.param("1", marks=short), pytest.param("2")]


# Files of a mode share a process, for torch_npu takes seconds to import. Not single_operators: autograd's thread reads
# jit_compile at its first gradient and never again.
@pytest.mark.parametrize(
    "mode, names",
    [
        pytest.param("0", "operators errors", marks=short),
        pytest.param("0", "single_operators", marks=short),
        ("0", "device training atb"),
        pytest.param("1", "device training atb npu_functions torch_function", marks=short),
        ("1", "operators errors"),
        ("1", "single_operators"),
        ("2", "device operators training"),
    ],
)
def test_the_suite(mode: str, names: str) -> None:
    run_suite(names, TASK_QUEUE_ENABLE=mode)


@pytest.mark.parametrize("mode", MODES)
def test_graphs(mode: str) -> None:
    """In a process of their own: a capture that failed leaves its stream the current one."""
    run_suite("graphs", TASK_QUEUE_ENABLE=mode)


def test_atb_with_fractal_caches() -> None:
    run_suite("atb_310p", "--soc", "Ascend310P3", TASK_QUEUE_ENABLE="0")


def test_operators_as_single_operators() -> None:
    """Without complex numbers, what op-plugin sorts in half precision, and gradients without an epsilon."""
    left_out = "complex or imaginary or kthvalue or linear] or (gradients and layer_norm)"
    run_suite("operators", chosen=f"not ({left_out})", TASK_QUEUE_ENABLE="0", SINGLE_OPERATORS="1")
    run_suite("training", TASK_QUEUE_ENABLE="0", SINGLE_OPERATORS="1")


@pytest.mark.parametrize("streams", ["eager", "deferred"])
def test_stream_modes(streams: str) -> None:
    run_suite("device", "--streams", streams)
    run_suite("training", "--streams", streams, chosen="foreach")


@pytest.mark.parametrize("soc", ["Ascend910_9391", "Ascend910A"])
def test_other_chips(soc: str) -> None:
    run_suite("training", "--soc", soc, chosen="test_language_model and (foreach or momentum)")


def test_a_newer_release() -> None:
    """torch_npu takes other paths where it is told of a newer CANN."""
    run_suite("training", chosen="test_language_model", ASCEND_EMULATOR_CANN="9.1.0")


@pytest.mark.parametrize(
    "release, allocator",
    [
        pytest.param("8.1.RC1", "expandable_segments:True", id="physical-memory"),
        pytest.param("8.5.0", "", id="keys", marks=short),
        pytest.param("9.0.0", "expandable_segments:True", id="newer"),
    ],
)
def test_tensors_go_to_other_processes(release: str, allocator: str) -> None:
    assert "shared" in run(["sharing.py"], "--cann", release, PYTORCH_NPU_ALLOC_CONF=allocator)


@pytest.mark.parametrize("profiler", ["torch_profiler", "torch_npu_profiler"])
def test_profilers(profiler: str) -> None:
    """torch.profiler ties a kernel to what is called on its thread; with a task queue that is another one."""
    assert "profiled" in run(["profiled.py", profiler], TASK_QUEUE_ENABLE="0")


@pytest.mark.parametrize("profiler", ["torch_npu_profiler", "torch_profiler_with_queue"])
def test_profilers_with_a_task_queue(profiler: str) -> None:
    assert "profiled" in run(["profiled.py", profiler], TASK_QUEUE_ENABLE="1")


@pytest.mark.parametrize("profiler", ["torch_profiler", "torch_npu_profiler"])
def test_perfetto_reads_a_training_step(profiler: str, tmp_path: Path) -> None:
    """Every run of a kernel has an arrow from the call that launched it, in Perfetto itself."""
    trace_format.perfetto()
    run(["profiled.py", profiler], TASK_QUEUE_ENABLE="0", TRACES=str(tmp_path))
    (trace,) = [*tmp_path.glob("torch.json"), *tmp_path.rglob("trace_view.json")]
    events = json.loads(trace.read_text())
    events = events if isinstance(events, list) else events["traceEvents"]
    runs = [e for e in events if e.get("cat") == "kernel" or "Task Type" in e.get("args", {})]
    read = trace_format.opened(trace, time_of_day=profiler == "torch_npu_profiler")
    assert read.problems == {}
    arrows = [arrow for arrow in read.arrows if arrow["category"] in ("privateuse1_runtime", None)]
    assert all(arrow["launch"] and arrow["run"] for arrow in read.arrows)
    assert len(runs) > 10 and sorted(e["name"] for e in runs) == sorted(arrow["run"] for arrow in arrows)


@pytest.mark.parametrize("release", ["8.1.RC1", "9.0.0"])
def test_tensors_in_host_memory(release: str) -> None:
    assert "swapped" in run(["swapped.py"], "--cann", release)


def test_a_chip_for_inference() -> None:
    """It lacks the gradients of some operators, and bfloat16."""
    run_suite("operators", "--soc", "Ascend310P3", chosen="test_float32 and (softmax or relu or layer_norm or cat)")


@pytest.mark.parametrize("mode", MODES)
def test_nothing_hangs(mode: str) -> None:
    assert run(["programs.py", "all"], TASK_QUEUE_ENABLE=mode).endswith("done\n")


@pytest.mark.parametrize("program", ["exit_with_work_pending", "exit_by_sys_exit", "exit_by_an_error"])
@pytest.mark.parametrize("mode", MODES)
def test_exit(mode: str, program: str) -> None:
    status = 1 if program == "exit_by_an_error" else 0
    assert run(["programs.py", program], status=status, TASK_QUEUE_ENABLE=mode).endswith("done\n")


def run_ranks(
    ranks: int, program: str, *arguments: str, options: Sequence[str] = (), status: int = 0, **variables: str
) -> str:
    """Runs a program under torchrun."""
    launcher = ["-m", "torch.distributed.run", f"--nproc_per_node={ranks}", f"--master_port={free_port()}"]
    variables = {"ASCEND_EMULATOR_LEAKS": "0", "OMP_NUM_THREADS": "1", **variables}
    return run([*launcher, program, *arguments], *options, status=status, **variables)


@pytest.mark.parametrize("ranks", [1, pytest.param(2, marks=short), 3, 4, 8])
def test_distributed(ranks: int) -> None:
    names = ["collectives", "groups", "ddp", "ddp_hooks", "zero", "fsdp", "fsdp2"]
    names += ["tensor_parallel", "pipeline", "checkpoint"]
    output = run_ranks(ranks, "distributed.py", *names)
    assert [line.split()[0] for line in output.splitlines() if line.endswith(" done")] == names


@pytest.mark.parametrize("mode", ["0", "1"])
def test_graphs_of_ranks(mode: str) -> None:
    assert run_ranks(2, "distributed.py", "graphs", TASK_QUEUE_ENABLE=mode).count("graphs done") == 1


@pytest.mark.parametrize("release", ["8.1.RC1", "9.0.0"])
def test_distributed_in_expandable_segments(release: str) -> None:
    """Physical memory that is mapped in parts, which the other ranks do not see where it is mapped."""
    names = ["collectives", "ddp", "fsdp2"]
    options = ("--cann", release)
    output = run_ranks(2, "distributed.py", *names, options=options, PYTORCH_NPU_ALLOC_CONF="expandable_segments:True")
    assert [line.split()[0] for line in output.splitlines() if line.endswith(" done")] == names


@pytest.mark.parametrize("release", ["8.1.RC1", "8.5.0", "9.0.0"])
def test_coalesced_collectives(release: str) -> None:
    """Before CANN 9.0 there is no HcclGroupStart: torch_npu's error ends the program before it has read a result."""
    status = 0 if release == "9.0.0" else 1
    output = run_ranks(2, "distributed.py", "coalescing", options=("--cann", release), status=status)
    if status:
        assert "operator name is hcclGroupStart" in output
    else:
        assert output.endswith("coalescing done\n")


@short
def test_attention_and_ffn_on_ranks_of_their_own() -> None:
    """torch_npu's windows, schedule contexts and operators."""
    output = run_ranks(2, "attention_ffn.py", options=("--cann", "8.5.0", "--soc", "Ascend910_9391"))
    assert sorted(output.splitlines()) == [f"rank {rank}: tokens went there and back" for rank in range(2)]


@pytest.mark.parametrize("ranks", [2, 4])
def test_the_sample_of_data_parallel_training(ranks: int) -> None:
    output = run_ranks(ranks, str(CLIENTS.parents[2] / "samples" / "ddp.py"))
    assert f"{ranks} ranks on Ascend910B1" in output and "largest difference from gloo on the CPU" in output


def replayed(path: Path) -> list[str]:
    """The operators of a recording, all of which must replay on NumPy as they were recorded."""
    names = []
    with Recording(path) as recording, use_backend("numpy", soc=recording.header.soc):
        assert recording.ended is not None
        for outcome in replay(recording):
            assert not outcome.difference and not outcome.left_out, str(outcome)
            names.append(outcome.launch.operator.name)
        calls = {event.name for event in recording.events() if isinstance(event, Call)}
        assert {"aclrtMallocAlign32", "aclrtMemcpy"} <= calls  # found by dlsym, and linked
        sites = [launch.site for launch in recording.launches if launch.operator.name == "aclnnEmbedding"]
        assert all(any(frame.file.endswith("recorded.py") for frame in site) for site in sites) and sites
    return names


@pytest.mark.parametrize("mode", [pytest.param("1", marks=short), "0"])
def test_a_recorded_training_replays(mode: str, tmp_path: Path) -> None:
    command = [
        "-m",
        "ascend_aclnn",
        "layer",
        "run",
        "--record",
        str(tmp_path / "run.aclnn"),
        "--data",
        "all",
        "--stacks",
    ]
    run([*command, "--", sys.executable, "recorded.py"], TASK_QUEUE_ENABLE=mode)
    names = replayed(tmp_path / "run.aclnn")
    assert names.count("aclnnEmbedding") == 2 and "aclnnLayerNormBackward" in names


def test_recorded_ranks_replay(tmp_path: Path) -> None:
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node=2", f"--master_port={free_port()}"]
    command = [
        "-m",
        "ascend_aclnn",
        "layer",
        "run",
        "--record",
        str(tmp_path / "run.aclnn"),
        "--data",
        "all",
        "--stacks",
    ]
    run([*command, "--", *torchrun, "recorded.py"])
    assert replayed(tmp_path / "run.rank0.aclnn") == replayed(tmp_path / "run.rank1.aclnn")
    assert len(list(tmp_path.iterdir())) == 2


def test_the_check_names_every_operator_that_is_wrong_on_purpose() -> None:
    run([str(CLIENTS.parents[2] / "scripts" / "fault_table.py")])


# ------------------------------------------------------------------------------------------ faults on purpose

_ANSWERS = "Neg:wrong-element;aclnnSin:nan;aclnnCos:tail;aclnnExp:stale;aclnnLog:axes-swapped;aclnnSqrt:low-precision"
FAULTS = {
    "operators": f"aclnn{_ANSWERS}",
    "slow": "aclnnAbs:after=1:slow=300",
    "fails": "aclnnAbs:fail",
    "lost": "aclnnAbs:die",
    "call": "aclrtCreateStream*:after=1:status=207005",
}


@pytest.mark.parametrize("kind", ["operators", "slow", "fails", "lost", "call"])
def test_a_fault_on_purpose_is_seen(kind: str) -> None:
    lines = run(
        ["faulty.py", kind], "--fault", FAULTS[kind], TASK_QUEUE_ENABLE="0", ASCEND_EMULATOR_LEAKS="0"
    ).splitlines()
    if kind == "operators":
        assert lines == ["neg one", "sin one", "cos one", "exp all", "log all", "sqrt all", "sigmoid right"]
    else:
        assert len(lines) == 1 and lines[0].endswith(" True"), lines
