"""The layer in front of the emulated device and of stand-ins: what it records, and that it changes nothing."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builds import compiled_sources
from layer_tools import run

from ascend_aclnn.cli.emulator import environment as emulated_environment
from ascend_aclnn.emulator import protocol
from ascend_aclnn.layer import run as layer_run
from ascend_aclnn.layer.build import CSRC, build_layer
from ascend_aclnn.layer.exports import read_library
from ascend_aclnn.recording import Call, Recording
from ascend_aclnn.replay import replay
from ascend_aclnn.selection import use_backend

SOURCE = Path(__file__).parent / "client.c"


def variables(home: Path, record: Path, **options: Any) -> dict[str, str]:
    """The environment of a program under the layer, on the emulated device."""
    return layer_run.environment(layer_run.Options(record, **options), emulated_environment(home))


def launches(recording: Recording) -> list[str]:
    return [launch.operator.name for launch in recording.launches]


def test_a_linked_program_is_recorded_with_its_data(client: str, emulator_home: Path, tmp_path: Path) -> None:
    done = run([client], variables(emulator_home, tmp_path / "a.aclnn", data="all", stacks=True))
    assert done.stdout == "0 11 22 33 44\n" and done.stderr == ""
    with Recording(tmp_path / "a.aclnn") as recording:
        assert recording.ended is not None and recording.cut == ""
        assert launches(recording) == ["aclnnAdd", "aclnnCat"]
        assert recording.header.soc == "Ascend910B1" and recording.header.emulated
        assert recording.header.program[0] == client
        add, cat = recording.launches
        assert add.statuses == (0, 0) and add.stream != 0 and add.left_out == ""
        x, y, alpha, out = (value.content for value in add.values)
        assert x.description.shape == (2, 2) and x.description.storage_shape == (4,)
        np.testing.assert_array_equal(recording.array(x), [[1, 2], [3, 4]])
        np.testing.assert_array_equal(recording.array(y), [[10, 20], [30, 40]])
        np.testing.assert_array_equal(recording.array(out, "after"), [[11, 22], [33, 44]])
        assert alpha.value == 1.0
        assert any(frame.file == client and frame.line < 0 for frame in add.site)
        members = cat.named["tensors"].content
        np.testing.assert_array_equal(recording.array(members[1]), [[10, 20], [30, 40]])
        after = recording.array(cat.named["out"].content, "after")
        np.testing.assert_array_equal(after, [[1, 2, 10, 20], [3, 4, 30, 40]])
        calls = [event for event in recording.events() if isinstance(event, Call)]
        names = [call.name for call in calls]
        assert names[:3] == ["aclInit", "aclrtSetDevice", "aclrtCreateStream"]
        assert {"aclrtMalloc", "aclrtMemcpy", "aclrtSynchronizeStream", "aclrtFree", "aclFinalize"} <= set(names)
        allocated = {call.arguments["devPtr"] for call in calls if call.name == "aclrtMalloc"}
        assert x.address in allocated and calls[2].arguments["stream"] == add.stream
        assert all(call.status == 0 and call.times[0] <= call.times[1] for call in calls)


def test_without_data_and_stacks_nothing_is_copied(client: str, emulator_home: Path, tmp_path: Path) -> None:
    run([client], variables(emulator_home, tmp_path / "a.aclnn"))
    with Recording(tmp_path / "a.aclnn") as recording:
        assert launches(recording) == ["aclnnAdd", "aclnnCat"]
        for launch in recording.launches:
            assert launch.site == ()
            assert all(t.before is None and t.after is None for value in launch.values for t in value.tensors())
        waits = [e for e in recording.events() if isinstance(e, Call) and e.name == "aclrtSynchronizeStream"]
        assert len(waits) == 2  # the program's own


@pytest.mark.parametrize(
    ("data", "recorded"), [("first=1", [True, False]), ("Cat", [False, True]), ("aclnnAdd,Mm", [True, False])]
)
def test_data_of_some_launches(
    client: str, emulator_home: Path, tmp_path: Path, data: str, recorded: list[bool]
) -> None:
    run([client], variables(emulator_home, tmp_path / "a.aclnn", data=data))
    with Recording(tmp_path / "a.aclnn") as recording:
        assert [launch.named["out"].content.after is not None for launch in recording.launches] == recorded


def test_data_above_a_limit_are_left_out_and_named(client: str, emulator_home: Path, tmp_path: Path) -> None:
    run([client], variables(emulator_home, tmp_path / "a.aclnn", data="all", tensor_limit=16))
    with Recording(tmp_path / "a.aclnn") as recording:
        add, cat = recording.launches
        assert add.left_out == "" and "tensors of more than 16 bytes" in cat.left_out
    run([client], variables(emulator_home, tmp_path / "b.aclnn", data="all", file_limit=1000))
    with Recording(tmp_path / "b.aclnn") as recording:
        assert recording.launches[0].left_out == "data: the file's limit is reached"


def test_a_killed_program_leaves_its_launches(client: str, emulator_home: Path, tmp_path: Path) -> None:
    run([client, "kill"], variables(emulator_home, tmp_path / "a.aclnn", data="all"), -signal.SIGKILL)
    with Recording(tmp_path / "a.aclnn") as recording:
        assert launches(recording) == ["aclnnAdd"] and recording.ended is None
        out = recording.launches[0].named["out"].content
        np.testing.assert_array_equal(recording.array(out, "after"), [[11, 22], [33, 44]])


def test_a_killed_program_leaves_its_brief_launches(client: str, emulator_home: Path, tmp_path: Path) -> None:
    run([client, "kill"], variables(emulator_home, tmp_path / "a.aclnn"), -signal.SIGKILL)
    with Recording(tmp_path / "a.aclnn") as recording:
        (add,) = recording.launches
        assert recording.ended is None and recording.cut == "" and add.statuses == (0, 0)
        assert add.times[0] <= add.times[1] <= add.times[2] < add.times[3]
    is_brief = add.times[1] - add.times[0] < 1 << 32  # a busy machine may take longer for the first phase one
    assert (b"LAUN" in (tmp_path / "a.aclnn").read_bytes()) == is_brief


def test_a_refused_launch_is_recorded_and_the_client_still_gets_the_message(
    client: str, emulator_home: Path, tmp_path: Path
) -> None:
    plain = run([client, "refused"], emulated_environment(emulator_home)).stdout
    done = run([client, "refused"], variables(emulator_home, tmp_path / "a.aclnn"))
    assert "161001" in plain
    assert done.stdout.splitlines()[:3] == plain.splitlines()[:3]  # behind that come the process and the time
    with Recording(tmp_path / "a.aclnn") as recording:
        refused = recording.launches[1]
        assert refused.operator.name == "aclnnAdd" and refused.statuses == (161001, None)
        assert refused.named["self"].kind == "null" and plain.splitlines()[2] in refused.error
        assert refused.site != ()


def test_the_child_of_a_fork_does_not_disturb_the_file(client: str, emulator_home: Path, tmp_path: Path) -> None:
    run([client, "fork"], variables(emulator_home, tmp_path / "a.aclnn"))
    assert [path.name for path in tmp_path.iterdir()] == ["a.aclnn"]
    with Recording(tmp_path / "a.aclnn") as recording:
        assert launches(recording) == ["aclnnAdd", "aclnnCat"] and recording.ended is not None


PYTHON = """
import numpy as np
import ascend_aclnn as aclnn
from ascend_aclnn import ops

def work():
    x = aclnn.asarray(np.arange(6, dtype=np.float16).reshape(2, 3))
    return [ops.add(x[:, 1:], x[:, :2]) for _ in range(4)]

assert aclnn.backend().emulated
print([y.numpy().tolist() for y in work()][3])
"""


def test_this_package_is_recorded_with_its_lines(emulator_home: Path, tmp_path: Path) -> None:
    """Calls that are made again keep their executors' handles: their addresses are recorded, too."""
    (tmp_path / "program.py").write_text(PYTHON)
    program = [sys.executable, str(tmp_path / "program.py")]
    done = run(program, variables(emulator_home, tmp_path / "a.aclnn", data="all", stacks=True))
    assert done.stdout == "[[1.0, 3.0], [7.0, 9.0]]\n"
    with Recording(tmp_path / "a.aclnn") as recording:
        assert launches(recording) == ["aclnnAdd"] * 4
        addresses = set()
        for launch in recording.launches:
            x = launch.named["self"].content
            assert x.description.strides == (3, 1) and x.description.offset == 1
            np.testing.assert_array_equal(recording.array(x), [[1, 2], [4, 5]])
            out = launch.named["out"].content
            addresses.add(out.address)
            np.testing.assert_array_equal(recording.array(out, "after"), [[1, 3], [7, 9]])
            lines = [(frame.function, frame.line) for frame in launch.site if frame.file.endswith("program.py")]
            assert lines[0][1] == 8 and ("<module>", 11) in lines
        assert len(addresses) == 4


CAPTURED = """
import numpy as np
import ascend_aclnn as aclnn
from ascend_aclnn import ops
x = aclnn.asarray(np.ones(4, np.float32))
stream, graph = aclnn.Stream(), aclnn.Graph()
out = aclnn.empty(4, np.float32)
ops.exp(x, out=out, stream=stream)
with graph.capture(stream):
    ops.exp(x, out=out, stream=stream)
graph.replay(stream)
stream.synchronize()
ops.exp(x, out=out, stream=stream)
aclnn.synchronize()
"""


def test_data_of_captured_launches_are_left_out(emulator_home: Path, tmp_path: Path) -> None:
    run([sys.executable, "-c", CAPTURED], variables(emulator_home, tmp_path / "a.aclnn", data="all"))
    with Recording(tmp_path / "a.aclnn") as recording:
        assert launches(recording) == ["aclnnExp"] * 3
        before, captured, after = recording.launches
        assert captured.left_out == "data: a stream is being captured"
        assert before.left_out == after.left_out == "" and after.named["out"].content.after is not None
        names = [event.name for event in recording.events() if isinstance(event, Call)]
        assert (
            names.index("aclmdlRICaptureBegin")
            < names.index("aclmdlRICaptureEnd")
            < names.index("aclmdlRIExecuteAsync")
        )


UNWRITTEN = """
import numpy as np
import ascend_aclnn as aclnn
from ascend_aclnn import ops
print(ops.neg(aclnn.empty(4, np.int32)).numpy().tolist())
"""


def test_data_of_unwritten_memory_are_what_the_operator_reads(emulator_home: Path, tmp_path: Path) -> None:
    """The recorder comes first, and memory is filled where it is first read."""
    environment = variables(emulator_home, tmp_path / "a.aclnn", data="all")
    environment.update(ASCEND_EMULATOR_VALIDATE="memory", ASCEND_EMULATOR_VALIDATE_QUIET="1")
    printed = run([sys.executable, "-c", UNWRITTEN], environment).stdout
    with Recording(tmp_path / "a.aclnn") as recording:
        (launch,) = recording.launches
        before, after = (
            recording.array(launch.named[name].content, when) for name, when in (("self", "before"), ("out", "after"))
        )
    assert before.any()
    np.testing.assert_array_equal(after, -before)
    assert printed == f"{after.tolist()}\n"


RANKS = """
import ctypes
import sys
import numpy as np
import ascend_aclnn as aclnn
from ascend_aclnn import ops
comm = aclnn.Communicator.from_env()
with aclnn.Device(comm.rank):
    x = aclnn.asarray(np.full(4, comm.rank + 1.0, np.float32))
    comm.all_reduce(x)
    print(x.numpy().tolist())
    y = comm.all_gather(ops.mul(x, np.float32(comm.rank + 2)))
    y.numpy()
    other, z = 1 - comm.rank, aclnn.empty(4, np.float32)
    comm.batch_send_recv([("send", x, other), ("recv", z, other)])
    if comm.rank == 0:
        comm.send(y[4:], other)
    else:
        ops.mul(comm.recv(z, other), np.float32(2), out=z)  # the buffer is written to behind the receive
    with comm.group():
        comm.send(x, other)
        comm.recv(z, other)
    comm.all_to_all_v(x, [1, 3], [1, 1] if comm.rank == 0 else [3, 3])
    stream = aclnn.Stream()
    hccl = ctypes.CDLL("libhccl.so")
    if hasattr(hccl, "HcclAlltoAllVC"):  # of newer CANN
        counts, sent, came = (ctypes.c_uint64 * 4)(1, 2, 3, 1), aclnn.empty(4, np.float32), aclnn.empty(4, np.float32)
        aclnn.synchronize()
        pointers = [ctypes.c_void_p(value) for value in (sent.data_ptr, came.data_ptr, stream.handle)]
        assert hccl.HcclAlltoAllVC(pointers[0], counts, 4, pointers[1], 4, comm._endpoint.handle, pointers[2]) == 0
        stream.synchronize()
comm.close()
"""


def test_each_rank_has_a_file_with_the_data_of_collectives_which_replays(emulator_home: Path, tmp_path: Path) -> None:
    record = tmp_path / "a.aclnn"
    environ = {**variables(emulator_home, record, data="all"), "WORLD_SIZE": "2", "ASCEND_ACLNN_PORT": "0"}
    environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(20000 + os.getpid() % 20000))
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", RANKS],
            env={**environ, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    for process in ranks:
        out, err = process.communicate(timeout=600)
        assert out == "[3.0, 3.0, 3.0, 3.0]\n", err
    for rank in range(2):
        with Recording(tmp_path / f"a.rank{rank}.aclnn") as recording, use_backend("numpy"):
            assert recording.header.rank == rank and recording.header.environment["WORLD_SIZE"] == "2"
            calls = {
                e.name: e
                for e in recording.events()
                if isinstance(e, Call) and e.name in ("HcclAllReduce", "HcclAllGather")
            }
            reduced, gathered = calls["HcclAllReduce"], calls["HcclAllGather"]
            assert reduced.arguments["count"] == 4 and reduced.left_out == ""
            values = {key: np.frombuffer(recording.data(reduced.data[key]), np.float32) for key in reduced.data}
            assert values["sendBuf"].tolist() == [rank + 1] * 4 and values["recvBuf"].tolist() == [3] * 4
            assert np.frombuffer(recording.data(gathered.data["recvBuf"]), np.float32).tolist() == [6] * 4 + [9] * 4
            assert "aclnnMul" in launches(recording)
            assert [str(outcome) for outcome in replay(recording) if outcome.difference or outcome.left_out] == []
    replayed = run(
        [
            sys.executable,
            "-m",
            "ascend_aclnn",
            "replay",
            "--compare",
            *(str(tmp_path / f"a.rank{r}.aclnn") for r in range(2)),
        ],
        os.environ,
    ).stdout
    with Recording(tmp_path / "a.rank1.aclnn") as recording:
        names = [event.name for event in recording.events() if isinstance(event, Call)]
        right = 9 if "HcclAlltoAllVC" in names else 8
        assert f"collectives: {right} right, 0 different, 0 left out" in replayed, replayed
        calls = [event for event in recording.events() if isinstance(event, Call) and "ticket" in event.arguments]
        came = [recording.data(key) for call in calls if call.name == "received" for key in call.data.values()]
        assert [np.frombuffer(each, np.float32).tolist() for each in came] == [[3] * 4, [9] * 4, [3] * 4]
    shown = run(
        [sys.executable, "-m", "ascend_aclnn", "recording", "show", str(tmp_path / "a.rank1.aclnn"), "--calls"],
        os.environ,
    ).stdout
    (line,) = (line for line in shown.splitlines() if "HcclAllReduce" in line)
    assert "ok" in line and "count=4" in line and "sendBuf: 16 bytes, recvBuf: 16 bytes" in line


@pytest.mark.parametrize("name", ["rms_norm_grad", "moe_token_permute_grad"])
def test_a_recorded_cpp_program_replays(name: str, emulator_home: Path, tmp_path: Path) -> None:
    compiler = shutil.which("g++") or shutil.which("c++")
    if compiler is None:
        pytest.skip("no C++ compiler (g++)")
    program = tmp_path / name
    places = [f"-I{emulator_home / 'include'}", f"-L{emulator_home / 'lib64'}"]
    source = Path(__file__).parents[2] / "samples" / "cpp" / f"{name}.cpp"
    libraries = ["-lopapi", "-lnnopbase", "-lascendcl"]
    subprocess.run([compiler, "-std=c++14", *places, str(source), "-o", str(program), *libraries], check=True)
    run([str(program)], variables(emulator_home, tmp_path / "a.aclnn", data="all"))
    with Recording(tmp_path / "a.aclnn") as recording, use_backend("numpy", soc=recording.header.soc):
        outcomes = list(replay(recording))
        assert outcomes and [str(outcome) for outcome in outcomes if outcome.difference or outcome.left_out] == []
        assert all(one.accurate and one.size for outcome in outcomes for one in outcome.comparisons.values())


def test_a_single_operator_is_a_launch(client: str, emulator_home: Path, tmp_path: Path) -> None:
    done = run([client, "single"], variables(emulator_home, tmp_path / "a.aclnn", data="all"))
    assert done.stdout.splitlines()[1] == "0"
    with Recording(tmp_path / "a.aclnn") as recording, use_backend("numpy"):
        assert launches(recording) == ["aclnnAdd", "Neg", "aclnnCat"]
        single = recording.launches[1]
        assert single.statuses == (0, 0) and "single operators" in single.left_out
        x, y = single.named["input0"].content, single.named["output0"].content
        assert x.description.shape == y.description.shape == (2, 2) and x.description.dtype == 0
        first = recording.launches[0].named
        assert x.address == first["self"].content.address and y.address == first["out"].content.address
        assert "is a single operator" in list(replay(recording))[1].left_out
        # What it has written is not known to be anyone else's: aclnnCat reads inputs that it left alone.
        assert list(replay(recording))[2].difference == ""


def test_secrets_are_not_in_the_header(client: str, emulator_home: Path, tmp_path: Path) -> None:
    environ = variables(emulator_home, tmp_path / "a.aclnn")
    environ.update(ASCEND_ACLNN_KEY="sesame", HCCL_API_TOKEN="sesame", HCCL_EXEC_TIMEOUT="17", UNRELATED="sesame")
    run([client], environ)
    assert b"sesame" not in (tmp_path / "a.aclnn").read_bytes()
    with Recording(tmp_path / "a.aclnn") as recording:
        assert recording.header.environment["HCCL_EXEC_TIMEOUT"] == "17"


# ------------------------------------------------------------------------------------------------- the command


def test_the_command_runs_a_program_and_refuses_a_file_that_is_there(
    client: str, emulator_home: Path, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "ascend_aclnn", "layer", "run", "--record", str(tmp_path / "a.aclnn")]
    environ = {**os.environ, **emulated_environment(emulator_home)}
    run([*command, "--", client], environ)
    assert "is there already" in run([*command, "--", client], environ, 1).stderr
    assert "no program given" in run(command, environ, 2).stderr
    inner = [sys.executable, "-m", "ascend_aclnn", "emulator", "run", "--", client]
    command[-1] = str(tmp_path / "b.aclnn")
    plain = {name: value for name, value in environ.items() if name not in ("LD_LIBRARY_PATH", "ASCEND_HOME_PATH")}
    run([*command, "--", *inner], plain)
    for name in "ab":
        with Recording(tmp_path / f"{name}.aclnn") as recording:
            assert launches(recording) == ["aclnnAdd", "aclnnCat"]


@pytest.mark.parametrize("text", ["first=0", "first=x", "sample=2", "sample=0", "last=3", "a b"])
def test_data_that_say_nothing_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="--data"):
        layer_run.checked_data(text)


# ------------------------------------------------------------------------------------------------- foreign exports

STAND_INS = {
    "libascendcl.so": (
        'extern "C" { int aclInit(const char *) { return 0; } int aclrtSynchronizeStream(void *) { return 0; }\n'
        "int aclrtMemcpy(char *to, unsigned long, const char *from, unsigned long count, int) {\n"
        "    for (unsigned long i = 0; i < count; i++) to[i] = from[i];\n    return 0;\n} }\n"
        "namespace ge { int Version(long) { return 42; } }"
    ),
    "libhccl.so": (  # of a CANN that is newer than the emulated device of these tests
        'extern "C" { int HcclGetRankSize(void *, unsigned *ranks) { *ranks = 2; return 0; }\n'
        "int HcclGetRankId(void *, unsigned *rank) { *rank = 0; return 0; }\n"
        "int HcclGetCommName(void *, char *name) { name[0] = 'g'; name[1] = 0; return 0; }\n"
        "int HcclAlltoAllVC(void *, void *, int, float *to, int, void *, void *) { to[3] = 9; return 0; } }"
    ),
    "libnnopbase.so": 'extern "C" { void *aclCreateTensor() { return 0; } bool CanUsePTACache(const char *) { return true; } }',
    "libopapi.so": (
        'extern "C" { int aclnnAddGetWorkspaceSize(void *, void *, void *, void *, unsigned long *, void **) { return 3; }\n'
        "int aclnnAdd(void *, unsigned long, void *, void *) { return 4; } int aclnnFutureThing() { return 7; } }\n"
        "namespace op { struct Shape { virtual int rank(); }; int Shape::rank() { return 5; } }"
    ),
}


@pytest.fixture(scope="module")
def stand_in(compiler: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A CANN of three libraries that have C++ functions and an operator that nobody knows."""
    return make_stand_in(compiler, tmp_path_factory.mktemp("stand_in"))


def make_stand_in(compiler: str, directory: Path) -> Path:
    lib64 = directory / "cann" / "lib64"
    lib64.mkdir(parents=True)
    for name, text in STAND_INS.items():
        command = [compiler, "-x", "c++", "-shared", "-fPIC", "-nostdlib", "-", f"-Wl,-soname,{name}"]
        subprocess.run([*command, "-fno-rtti", "-o", str(lib64 / name)], input=text, text=True, check=True)
    return lib64


def test_what_the_layer_does_not_know_is_passed_through(stand_in: Path, compiler: str, tmp_path: Path) -> None:
    layer = build_layer(stand_in) / "lib64"
    program = """
import ctypes, sys
operators = ctypes.CDLL("libopapi.so")
runtime = ctypes.CDLL("libascendcl.so")
base = ctypes.CDLL("libnnopbase.so")
print(runtime._ZN2ge7VersionEl(1), operators._ZN2op5Shape4rankEv(0), operators.aclnnFutureThing(), operators.aclnnAdd(0, 0, 0, 0))
print(hasattr(operators, "aclnnMm"), hasattr(runtime, "aclrtMalloc"), hasattr(operators, "aclnnMmGetWorkspaceSize"))
base.CanUsePTACache.restype = ctypes.c_bool
print(base.CanUsePTACache(b"aclnnAdd"))
"""
    environ = {**os.environ, "LD_LIBRARY_PATH": f"{layer}:{stand_in}"}
    done = run([sys.executable, "-c", program], environ)
    assert done.stdout.splitlines() == ["42 5 7 4", "False False False", "False"], done.stderr
    linked = tmp_path / "linked"
    text = "namespace ge { int Version(long); }\nint main() { return ge::Version(1); }"
    subprocess.run(
        [compiler, "-x", "c++", "-", "-o", str(linked), f"-L{stand_in}", "-lascendcl"],
        input=text,
        text=True,
        check=True,
    )
    run([str(linked)], environ, 42)


MATRIX = """
import ctypes
hccl = ctypes.CDLL("libhccl.so")
ctypes.CDLL("libascendcl.so")
counts, sent, came = (ctypes.c_uint64 * 4)(1, 2, 3, 1), (ctypes.c_float * 4)(1, 2, 3, 4), (ctypes.c_float * 5)()
print(hccl.HcclAlltoAllVC(sent, counts, 4, came, 4, ctypes.c_void_p(1), None))
"""


def test_a_matrix_of_counts_says_what_a_rank_sends_and_gets(stand_in: Path, tmp_path: Path) -> None:
    environ = {"LD_LIBRARY_PATH": f"{build_layer(stand_in) / 'lib64'}:{stand_in}", "ASCEND_LAYER_DATA": "all"}
    environ["ASCEND_LAYER_RECORD"] = str(tmp_path / "a.aclnn")
    assert run([sys.executable, "-c", MATRIX], {**os.environ, **environ}).stdout == "0\n"
    with Recording(tmp_path / "a.aclnn") as recording:
        (call,) = (event for event in recording.events() if isinstance(event, Call))
        assert (call.arguments["group"], call.arguments["rank"], call.arguments["ranks"]) == ("g", 0, 2)
        values = {name: recording.data(key) for name, key in call.data.items()}
        assert np.frombuffer(values["sendCountMatrix"], np.uint64).tolist() == [1, 2, 3, 1]  # [from][to]
        assert np.frombuffer(values["sendBuf"], np.float32).tolist() == [1, 2, 3]
        assert np.frombuffer(values["recvBuf"], np.float32).tolist() == [0, 0, 0, 9]


def test_a_library_tells_its_functions(stand_in: Path) -> None:
    assert {"aclInit", "_ZN2ge7VersionEl"} <= read_library(stand_in / "libascendcl.so").functions
    assert read_library(stand_in / "libascendcl.so").filtee == ""
    with pytest.raises(ValueError, match="is no shared library"):
        read_library(SOURCE)


def test_a_layer_is_not_put_in_front_of_a_layer(stand_in: Path) -> None:
    layer = build_layer(stand_in)
    assert build_layer(stand_in) == layer
    with pytest.raises(ValueError, match="a layer itself"):
        build_layer(layer / "lib64")


def test_an_operator_whose_installed_header_differs_is_left_out(compiler: str, tmp_path: Path) -> None:
    stand_in = make_stand_in(compiler, tmp_path)
    header = stand_in.parent / "include" / "aclnnop" / "aclnn_add.h"
    header.parent.mkdir(parents=True)
    header.write_text(
        "aclnnStatus aclnnAddGetWorkspaceSize(const aclTensor *self, double factor, uint64_t *workspaceSize, "
        "aclOpExecutor **executor);\n"
        "aclnnStatus aclnnAdd(void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, aclrtStream stream);\n"
    )
    layer = build_layer(stand_in) / "lib64"
    assert "aclnnAdd" not in read_library(layer / "libopapi.so").functions


def test_layers_share_what_they_have_in_common(
    stand_in: Path, compiler: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """In front of a CANN at another place only what names the place is compiled again."""
    build_layer(stand_in)
    compiled = compiled_sources(monkeypatch)
    build_layer(make_stand_in(compiler, tmp_path))
    assert sorted(compiled) == sorted(f"{Path(name).stem}_0.c" for name in STAND_INS)


def test_the_emulated_device_is_recognised_behind_the_layer(emulator_home: Path, tmp_path: Path) -> None:
    program = "import ascend_aclnn as a; b = a.backend(); print(b.name, b.emulated, b.library_path.parents[2].name)"
    done = run([sys.executable, "-c", program], variables(emulator_home, tmp_path / "a.aclnn"))
    assert done.stdout.startswith("npu True") and done.stdout.strip().endswith("-layer")


@pytest.mark.parametrize("flags", [(), ("-DLAYER_PLAIN_CRC",)], ids=["by carry-less products", "by tables"])
def test_checksums_are_those_of_zlib(compiler: str, tmp_path: Path, flags: tuple[str, ...]) -> None:
    library = tmp_path / "file.so"
    command = [compiler, "-O2", "-shared", "-fPIC", "-D_GNU_SOURCE", *flags, str(CSRC / "file.c"), "-o", str(library)]
    subprocess.run(command, check=True)
    checksum = ctypes.CDLL(str(library)).file_crc
    checksum.restype, checksum.argtypes = ctypes.c_uint32, (ctypes.c_uint32, ctypes.c_char_p, ctypes.c_size_t)
    data = os.urandom(1000)
    for count in range(len(data)):
        for start in (0, 0xDEADBEEF):
            assert checksum(start, data, count) == zlib.crc32(data[:count], start)


THREADS = r"""
#include "layer.h"
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
static const char *const names[] = {"x"};
static layer_operator op = {"aclnnX", "i", "i", names, 1, 0};
static const layer_function function = {"aclrtX", "i", names};
static void *launch(void *executor) {
    LAYER_ENTER;
    const layer_value value = {.integer = 3};
    uint64_t workspace = 0;
    layer_phase_one(&frame_, &op, &value, 0, &workspace, &executor);
    layer_after_phase_two(layer_before_phase_two(NULL, 0, executor, NULL), 0);
    layer_call(&frame_, &function, &value, 0);
    return NULL;
}
int main(void) {
    size_t before = 0;
    for (int i = 0; i < 600; i++) {
        pthread_t thread;
        pthread_create(&thread, NULL, launch, &thread);
        pthread_join(thread, NULL);
        if (i == 100) before = mallinfo2().uordblks;
    }
    printf("%d\n", mallinfo2().uordblks > before + 5000); /* ten bytes a thread */
    return 0;
}
"""


VALUES = r"""
#include "layer.h"
#include "protocol.h"
static const char *const names[] = {"x", "far", "none", "integer", "number", "scalar", "wide", "integers", "booleans", "many"};
static const char kinds[] = {LETTER_TENSOR, LETTER_TENSOR, LETTER_TENSOR, 'i', LETTER_DOUBLE, LETTER_SCALAR, LETTER_SCALAR,
                             LETTER_INT_ARRAY, LETTER_BOOL_ARRAY, LETTER_INT_ARRAY, 0};
static layer_operator op = {"aclnnX", kinds, "iioiiiiiii", names, 10, 0};
static void launch(const layer_value *values, void *executor) {
    LAYER_ENTER;
    uint64_t workspace = 64;
    layer_phase_one(&frame_, &op, values, 0, &workspace, &executor);
    layer_after_phase_two(layer_before_phase_two((void *)4096, 64, executor, (void *)77), 0);
}
int main(void) {
    static char handles[7][64];
    int64_t dims[2] = {2, 3}, strides[2] = {1, 2}, integers[2] = {-1, INT64_C(1) << 62}, many[40];
    double wide[2] = {1.5, -2.5};
    float half = 0.5f;
    uint8_t booleans[3] = {1, 0, 1};
    for (int i = 0; i < 40; i++) many[i] = -i;
    layer_made_tensor(handles[0], dims, 2, 0, strides, 5, 2, dims, 2, (void *)((UINT64_C(1) << 48) - 1));
    layer_made_tensor(handles[1], dims, 2, 0, NULL, 0, 2, dims, 2, (void *)(UINT64_C(1) << 48));
    layer_made_scalar(handles[2], &half, 0);
    layer_made_scalar(handles[3], wide, 17);
    layer_made_array(handles[4], LETTER_INT_ARRAY, integers, 2);
    layer_made_array(handles[5], LETTER_BOOL_ARRAY, booleans, 3);
    layer_made_array(handles[6], LETTER_INT_ARRAY, many, 40);
    layer_value values[10] = {{.pointer = handles[0]}, {.pointer = handles[1]}, {.pointer = NULL}, {.integer = -7},
                              {.number = -0.25}, {.pointer = handles[2]}, {.pointer = handles[3]},
                              {.pointer = handles[4]}, {.pointer = handles[5]}};
    launch(values, &op);
    values[9].pointer = handles[6]; /* too long for a brief record */
    launch(values, &op);
    return 0;
}
"""


def test_each_kind_of_value_is_read_as_it_was(compiler: str, emulator_home: Path, tmp_path: Path) -> None:
    environ = variables(emulator_home, tmp_path / "a.aclnn")
    places = [Path(place) for place in environ["LD_LIBRARY_PATH"].split(":")]
    lib64 = next(place for place in places if (place / "libascend_layer.so").is_file())
    (tmp_path / "protocol.h").write_text(protocol.c_header())
    program = tmp_path / "values"
    command = [compiler, "-x", "c", "-", "-D_GNU_SOURCE", f"-I{CSRC}", f"-I{tmp_path}", "-o", str(program)]
    subprocess.run([*command, f"-L{lib64}", "-lascend_layer"], input=VALUES, text=True, check=True)
    run([str(program)], environ)
    with Recording(tmp_path / "a.aclnn") as recording:
        brief, long = recording.launches
        for launch, many in ((brief, None), (long, tuple(-i for i in range(40)))):
            named = {name: value.content for name, value in launch.named.items()}
            assert named.pop("x").address == (1 << 48) - 1 and named.pop("far").address == 1 << 48
            assert named.pop("scalar").value == 0.5 and named.pop("wide").value == 1.5 - 2.5j
            assert named.pop("booleans") == (True, False, True) and named.pop("integers") == (-1, 1 << 62)
            assert named == {"none": None, "integer": -7, "number": -0.25, "many": many}
            assert (launch.workspace, launch.stream, launch.statuses) == ((64, 4096), 77, (0, 0))
        assert (
            brief.named["x"].content.description.strides == (1, 2) and brief.named["x"].content.description.offset == 5
        )
    content = (tmp_path / "a.aclnn").read_bytes()
    assert content.count(b"LAUN") == 1 and content.count(b"OPER") == 1


def test_a_thread_leaves_nothing_behind(compiler: str, emulator_home: Path, tmp_path: Path) -> None:
    environ = variables(emulator_home, tmp_path / "a.aclnn")
    places = [Path(place) for place in environ["LD_LIBRARY_PATH"].split(":")]
    lib64 = next(place for place in places if (place / "libascend_layer.so").is_file())
    program = tmp_path / "threads"
    command = [compiler, "-x", "c", "-", "-D_GNU_SOURCE", f"-I{CSRC}", "-o", str(program), "-pthread"]
    subprocess.run([*command, f"-L{lib64}", "-lascend_layer"], input=THREADS, text=True, check=True)
    assert run([str(program)], {**environ, "MALLOC_ARENA_MAX": "1"}).stdout == "0\n"
    with Recording(tmp_path / "a.aclnn") as recording:
        assert launches(recording) == ["aclnnX"] * 600
