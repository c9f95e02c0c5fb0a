"""Vendors' libraries of operators under the layer: with headers and without, found in each way in which CANN's clients look."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from layer_tools import run

from ascend_aclnn.cli.emulator import environment as emulated_environment
from ascend_aclnn.layer import run as layer_run
from ascend_aclnn.layer.build import VENDORS, layer_of
from ascend_aclnn.recording import Call, Recording
from ascend_aclnn.replay import replay
from ascend_aclnn.selection import use_backend

ATB_CALLER = Path(__file__).parents[1] / "emulator" / "atb_caller.cpp"
SAMPLE = Path(__file__).parents[2] / "samples" / "vendor_operator"
DECLARED = str(SAMPLE / "scaled_rows.py")


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "ascend_aclnn", *arguments]


def plain() -> dict[str, str]:
    """The environment without a CANN."""
    variables = {k: v for k, v in os.environ.items() if not k.startswith(("ASCEND_", "LD_"))}
    variables["PYTHONPATH"] = os.pathsep.join([str(SAMPLE), *sys.path])
    return {**variables, **{k: v for k, v in os.environ.items() if k == "ASCEND_EMULATOR_CACHE"}}


def test_a_vendors_operator_is_recorded_and_replays(emulator_home: Path, tmp_path: Path) -> None:
    compiler = shutil.which("c++")
    if compiler is None:
        pytest.skip("no C++ compiler (c++)")
    build = (
        f'{compiler} -std=c++14 "{SAMPLE / "caller.cpp"}" -o "{tmp_path / "caller"}" -I"$ASCEND_HOME_PATH/include" '
        '-I"$ASCEND_CUSTOM_OPP_PATH/op_api/include" -L"$ASCEND_HOME_PATH/lib64" -L"$ASCEND_CUSTOM_OPP_PATH/op_api/lib" '
        "-lcust_opapi -lnnopbase -lascendcl"
    )
    record = tmp_path / "a.aclnn"
    layered = f'"{sys.executable}" -m ascend_aclnn layer run --record "{record}" --data all -- "{tmp_path / "caller"}"'
    done = run(command("emulator", "run", "--operators", DECLARED, "--", "sh", "-c", f"{build} && {layered}"), plain())
    assert done.stdout == "out: 8 10 0 2\n", done.stderr
    with Recording(record) as recording:
        (launch,) = recording.launches
        assert launch.operator.name == "aclnnScaledRows" and launch.statuses == (0, 0) and launch.left_out == ""
        assert launch.operator.parameters == ("x", "rows", "factor", "out")
        assert recording.array(launch.named["out"].content, "after").tolist() == [[8, 10], [0, 2]]
    replayed = run(command("replay", str(record), "--compare", "--operators", DECLARED), plain())
    assert "1 launches as recorded, 0 different, 0 left out" in replayed.stdout


def test_a_vendors_operator_is_checked(emulator_home: Path, tmp_path: Path) -> None:
    """With the layer outside of the emulated device's command, too."""
    program = [sys.executable, str(SAMPLE / "main.py")]
    emulated = command("emulator", "run", "--operators", DECLARED, "--fault", "aclnnScaledRows:wrong-element")
    layered = command("layer", "run", "--check", "--failures", "off", "--operators", DECLARED)
    done = run([*layered, "--", *emulated, "--", *program], plain(), 1)
    assert "first wrong launch: #0 aclnnScaledRows: out FLOAT (2, 3): 1 of 6 elements" in done.stdout, done.stderr


VENDOR = """
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>
static double seen;
int aclnnMysteryGetWorkspaceSize(double a, int b, int c, int d, int e, int f, int g, int h, uint64_t *size, void **executor) {
    seen = a + b + c + d + e + f + g + h;
    *size = 0;
    *executor = &seen;
    return 0;
}
int aclnnMystery(void *workspace, uint64_t size, void *executor, void *stream) {
    if (size == 1 && fork() > 0) wait(NULL);
    return (int)*(double *)executor;
}
int aclnnAlone(int a) { return a; }
"""
PROGRAM = """
import ctypes, os, sys
vendor = ctypes.CDLL(sys.argv[1] or os.environ["ASCEND_CUSTOM_OPP_PATH"] + "/op_api/lib/libcust_opapi.so")
size, executor = ctypes.c_uint64(), ctypes.c_void_p()
arguments = [ctypes.c_double(0.5), *range(1, 8), ctypes.byref(size), ctypes.byref(executor)]
print(vendor.aclnnMysteryGetWorkspaceSize(*arguments), vendor.aclnnMystery(None, 0, executor, None), vendor.aclnnAlone(9))
"""
FORKING = (
    PROGRAM
    + """
sys.stdout.flush()
parent = os.getpid()
vendor.aclnnMystery(None, 1, executor, None)
if os.getpid() != parent:
    os._exit(0)
"""
)


@pytest.fixture(scope="module")
def vendor(compiler: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A vendor's directory without headers."""
    root = tmp_path_factory.mktemp("opp") / "vendors" / "acme"
    (root / VENDORS.parent).mkdir(parents=True)
    (root / "op_impl").mkdir()
    shared = [compiler, "-x", "c", "-shared", "-fPIC", "-", f"-Wl,-soname,{VENDORS.name}", "-o", str(root / VENDORS)]
    subprocess.run(shared, input=VENDOR, text=True, check=True)
    return root


def test_an_operator_without_a_header_is_a_launch_without_arguments(
    vendor: Path, emulator_home: Path, tmp_path: Path
) -> None:
    """The vendor is found as CANN's clients find it: by opp/vendors/config.ini."""
    opp = vendor.parents[1]
    (opp / "vendors" / "config.ini").write_text("load_priority=acme\n")
    environ = {**emulated_environment(emulator_home), "ASCEND_OPP_PATH": str(opp)}
    variables = layer_run.environment(layer_run.Options(tmp_path / "a.aclnn", data="all"), environ)
    mirror = Path(variables["ASCEND_CUSTOM_OPP_PATH"])
    assert layer_of(mirror / VENDORS.parent) is not None and (mirror / "op_impl").resolve() == vendor / "op_impl"
    done = run([sys.executable, "-c", PROGRAM, ""], variables)
    assert done.stdout == "0 28 9\n", done.stderr
    with Recording(tmp_path / "a.aclnn") as recording:
        (launch,) = recording.launches
        assert launch.operator.name == "aclnnMystery" and launch.values == () and launch.statuses == (0, 28)
        assert "has no header" in launch.left_out or "has no header" in launch.error


def test_a_fork_within_phase_two_returns_into_no_file_of_the_child(
    vendor: Path, emulator_home: Path, tmp_path: Path
) -> None:
    """The launch is in the parent's file; a return without it would be all that the child's file had."""
    environ = {**emulated_environment(emulator_home), "ASCEND_CUSTOM_OPP_PATH": str(vendor)}
    done = run(
        [sys.executable, "-c", FORKING, ""], layer_run.environment(layer_run.Options(tmp_path / "a.aclnn"), environ)
    )
    assert done.stdout == "0 28 9\n", done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["a.aclnn"]
    with Recording(tmp_path / "a.aclnn") as recording:
        assert [launch.statuses for launch in recording.launches] == [(0, 28)] * 2 and recording.ended is not None


def test_a_vendor_is_found_by_the_library_path_and_stays_in_its_order(
    vendor: Path, emulator_home: Path, tmp_path: Path
) -> None:
    first = tmp_path / "kernels_only"
    (first / "op_impl").mkdir(parents=True)
    environ = {**emulated_environment(emulator_home), "ASCEND_CUSTOM_OPP_PATH": f"{first}:{vendor}"}
    variables = layer_run.environment(layer_run.Options(tmp_path / "a.aclnn"), environ)
    listed = variables["ASCEND_CUSTOM_OPP_PATH"].split(":")
    assert listed[0] == str(first) and len(listed) == 2 and layer_of(Path(listed[1]) / VENDORS.parent) is not None
    assert layer_run.keep_in_front(variables)["ASCEND_CUSTOM_OPP_PATH"] == variables["ASCEND_CUSTOM_OPP_PATH"]
    done = run([sys.executable, "-c", PROGRAM, VENDORS.name], variables)
    assert done.stdout == "0 28 9\n", done.stderr
    with Recording(tmp_path / "a.aclnn") as recording:
        assert [launch.operator.name for launch in recording.launches] == ["aclnnMystery"]


def built(source: Path, program: Path, emulator_home: Path) -> dict[str, str]:
    """Builds a client of ATB; the environment that it runs in."""
    compiler = shutil.which("g++") or shutil.which("c++")
    if compiler is None:
        pytest.skip("no C++ compiler (g++)")
    home = emulator_home / "atb" / "cxx_abi_1"
    places = [f"-I{home / 'include'}", f"-L{home / 'lib'}", "-latb", "-lnnopbase", "-lascendcl"]
    subprocess.run([compiler, "-std=c++17", str(source), "-o", str(program), *places], check=True)
    return {**emulated_environment(emulator_home), "ATB_HOME_PATH": str(home)}


def test_c_functions_of_atb_are_launches_of_their_operations(emulator_home: Path, tmp_path: Path) -> None:
    emulated = built(Path(__file__).with_name("atb_functions.cpp"), tmp_path / "caller", emulator_home)
    record = tmp_path / "a.aclnn"
    done = run([str(tmp_path / "caller")], layer_run.environment(layer_run.Options(record, data="all"), emulated))
    assert done.stdout == "load 0 0\nring 0 0\nring 1\n", done.stderr
    with Recording(record) as recording:
        load, ring, refused = recording.launches
        names = [launch.operator.name for launch in (load, ring, refused)]
        assert names == ["PagedCacheLoadOperation", "RingMLAOperation", "RingMLAOperation"]
        assert recording.array(load.named["keyOut"].content, "after").shape == (20, 1, 16)
        assert (load.named["blockTables"].kind, load.named["seqStarts"].kind) == ("tensor", "null")
        named = {name: value.content for name, value in ring.named.items()}
        assert named["seqLen"] == (2, 3)  # as it was in phase one
        assert (named["headNum"], named["calcType"], named["qkScale"], named["prevOut"]) == (2, 1, 0.5, None)
        assert refused.named["headNum"].content == 3 and refused.statuses[0] == 1 and refused.error
        with use_backend("numpy", soc=recording.header.soc):
            outcomes = list(replay(recording))
        assert [outcome.difference for outcome in outcomes] == ["", "", ""]
        assert [outcome.left_out for outcome in outcomes[:2]] == ["", ""]
    case = tmp_path / "test_case.py"
    run(command("recording", "export", str(record), "--op", "1", "--to", str(case)), os.environ)
    on_numpy = ["--aclnn-backend=numpy", str(case)]  # where operations of ATB are replayed
    run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *on_numpy], os.environ)
    checked = [*command("layer", "run", "--check", "--failures", "off"), "--", str(tmp_path / "caller")]
    wrong = run(checked, {**os.environ, **emulated, "ASCEND_EMULATOR_FAULT": "RingMLAOperation:wrong-element"}, 1)
    assert "first wrong launch: #1 RingMLAOperation: output FLOAT16 (5, 2, 128)" in wrong.stdout, wrong.stderr


def test_operations_of_atb_are_launches(emulator_home: Path, tmp_path: Path) -> None:
    """Setup and Execute are virtual functions of C++: the layer puts itself into the table of each operation that is made."""
    program = tmp_path / "caller"
    emulated = built(ATB_CALLER, program, emulator_home)
    variables = layer_run.environment(layer_run.Options(tmp_path / "a.aclnn", data="all"), emulated)
    done = run([str(program)], variables)
    results = [line for line in done.stdout.splitlines() if " result " in line]
    assert [line.rpartition("result ")[2] for line in results] == ["15 30 35 45", "20 40 40 50"], done.stderr
    with Recording(tmp_path / "a.aclnn") as recording:
        assert recording.ended is not None
        made = [event for event in recording.events() if isinstance(event, Call) and event.name.startswith("atb::")]
        assert [call.arguments["type"] for call in made][:2] == ["infer::LinearParam", "infer::PagedAttentionParam"]
        products = [launch for launch in recording.launches if launch.operator.name == "LinearOperation"]
        assert len(products) == 2 and all(launch.statuses == (0, 0) for launch in products)
        stream = next(
            e.arguments["stream"] for e in recording.events() if getattr(e, "name", "") == "aclrtCreateStream"
        )
        for launch, last in zip(products, ([15, 30, 35, 45], [20, 40, 40, 50])):
            named = {name: value.content for name, value in launch.named.items()}
            assert launch.stream == stream and launch.left_out == ""
            assert (named["transposeA"], named["transposeB"], named["hasBias"], named["enAccum"]) == (1, 0, 0, 1)
            assert recording.array(named["x"]).tolist() == [[1, 2], [3, 1]] and named["bias"] is None
            assert recording.array(named["out"], "after").ravel().tolist() == last
        attention = [launch for launch in recording.launches if launch.operator.name == "PagedAttentionOperation"]
        assert len(attention) == 8 and all(launch.statuses[0] and launch.error for launch in attention[:7])
        assert attention[0].named["headNum"].content == 2 and attention[0].named["contextLens"].content == (3,)
        assert attention[7].statuses[0] == 0 and attention[7].statuses[1] != 0  # set up, and executed without tensors
        few = next(launch for launch in attention if len(launch.values) == 5)  # there is a tensor less than asked for
        assert few.operator.parameters == ("input0", "input1", "input2", "input3", "output0")
        with use_backend("numpy", soc=recording.header.soc):
            outcomes = [outcome for outcome in replay(recording) if outcome.launch.index < 2]
        assert [str(outcome) for outcome in outcomes if outcome.difference or outcome.left_out] == []
        assert all(outcome.comparisons["out"].accurate for outcome in outcomes)
    shown = run(command("recording", "show", str(tmp_path / "a.aclnn"), "--op", "2"), os.environ).stdout
    assert "1 ERROR_INVALID_PARAM" in shown
    checked = [*command("layer", "run", "--check", "--failures", "off"), "--", str(program)]
    wrong = run(checked, {**os.environ, **emulated, "ASCEND_EMULATOR_FAULT": "LinearOperation:after=1:stale"}, 1)
    assert "first wrong launch: #1 LinearOperation: out FLOAT (2, 2): 4 of 4 elements" in wrong.stdout, wrong.stderr
