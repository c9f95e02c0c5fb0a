"""The pytest plugin, on test files of its own."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

import pytest

from ascend_aclnn.testing.devices import device_of_worker, devices

pytest_plugins = ["pytester"]


def _installed() -> bool:
    try:
        importlib.metadata.version("ascend-aclnn")
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


# An installed package is found by its entry point; in a bare checkout the plugin must be named.
PLUGIN = [] if _installed() else ["-p", "ascend_aclnn.testing.plugin"]

TESTS = """
import numpy as np
import pytest
import ascend_aclnn as aclnn
from ascend_aclnn import ops
from ascend_aclnn.testing import assert_accurate

def test_exp(aclnn_backend):
    x = np.linspace(-3, 3, 50, dtype=np.float32)
    assert_accurate(ops.exp(aclnn.asarray(x)), np.exp(x.astype(np.float64)))

def test_stream(aclnn_device, aclnn_stream):
    assert aclnn.current_stream() is aclnn_stream and aclnn_device.index == 0

@pytest.mark.npu(soc="Ascend910B*")
def test_device(aclnn_backend):
    assert aclnn_backend.name == "npu"

@pytest.mark.npu(min_cann="99.0")
def test_newer(aclnn_backend):
    raise AssertionError
"""


@pytest.fixture
def with_emulator(emulator_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The emulated device as it was built for the other tests; pytester changes HOME, and the cache would be empty."""
    monkeypatch.setenv("ASCEND_EMULATOR_CACHE", str(emulator_home.parent))


def run(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    pytester.makepyfile(TESTS)
    return pytester.runpytest_subprocess("-p", "no:randomly", "-p", "no:cacheprovider", "-rs", *PLUGIN, *arguments)


def test_an_emulator_that_was_asked_for_and_cannot_be_built_is_an_error(
    pytester: pytest.Pytester, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASCEND_EMULATOR_CACHE", str(tmp_path))
    monkeypatch.setenv("CC", "false")
    run(pytester, "--aclnn-backend=emulator", "-k", "exp").assert_outcomes(errors=1)
    monkeypatch.delenv("CC")
    monkeypatch.setenv("PATH", "")
    result = run(pytester, "--aclnn-backend=numpy,emulator", "-k", "exp")
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*--aclnn-backend asks for the emulator; *cannot be built: *C compiler*"])


def test_numpy(pytester: pytest.Pytester) -> None:
    result = run(pytester, "--aclnn-backend=numpy", "--aclnn-soc=Ascend910_9391")
    result.assert_outcomes(passed=2, skipped=2)
    result.stdout.fnmatch_lines(["ascend_aclnn: * backend numpy, SoC Ascend910_9391*", "*needs an Ascend device*"])


def test_numpy_and_the_emulated_device(pytester: pytest.Pytester, with_emulator: None) -> None:
    result = run(pytester, "--aclnn-backend=numpy,emulator", "--aclnn-streams=deferred")
    result.assert_outcomes(passed=5, skipped=3)
    result.stdout.fnmatch_lines(["*needs CANN 99.0 or later*"])


LEAKS = """
import numpy as np
import pytest
import ascend_aclnn as aclnn
from ascend_aclnn import ops

class TestState:
    kept = []

    def test_leak(self, aclnn_backend):
        TestState.kept.append(aclnn.asarray(np.ones(3, np.float32)))  # born here

    def test_next(self, aclnn_backend):
        assert ops.exp(TestState.kept[0]).shape == (3,)

    def test_failing(self, aclnn_backend):
        x = aclnn.asarray(np.ones(3, np.float32))
        TestState.kept.append(x)
        assert x.shape == (4,)

    def test_after_a_failure(self, aclnn_backend):
        aclnn.asarray(np.ones(3, np.float32))

@pytest.fixture(scope="module")
def weight(aclnn_module_backend):
    return aclnn.asarray(np.ones((2, 2), np.float32))

def test_with_a_modules_tensor(weight, aclnn_backend):
    assert ops.add(weight, weight).backend is aclnn_backend
"""


def test_what_a_test_that_passed_leaves_is_named_once(pytester: pytest.Pytester, with_emulator: None) -> None:
    path = pytester.makepyfile(LEAKS)
    line = 1 + LEAKS.lstrip().splitlines().index(next(t for t in LEAKS.splitlines() if "born here" in t))
    result = pytester.runpytest_subprocess(*PLUGIN, "-p", "no:randomly", "--aclnn-backend=emulator")
    result.assert_outcomes(passed=4, failed=1, errors=1)
    result.stdout.fnmatch_lines(
        ["the test left on the emulated device: *1 allocation*", f"  * bytes, allocated at {path}:{line} test_leak"]
    )


def test_hypothesis_a_warning_for_leaks_and_tensors_of_another_backend(
    pytester: pytest.Pytester, with_emulator: None
) -> None:
    pytester.makepyfile(
        """
        import numpy as np
        import pytest
        from hypothesis import given, settings, strategies
        import ascend_aclnn as aclnn
        from ascend_aclnn import ops

        kept = []

        def test_leak(aclnn_backend):
            kept.append(aclnn.ones(3, "float32"))

        @given(n=strategies.integers(1, 9))
        @settings(max_examples=3, deadline=None)
        def test_given(aclnn_backend, n):
            assert ops.add(aclnn.ones(n, "float32"), aclnn.ones(n, "float32")).shape == (n,)

        @pytest.fixture(scope="class")
        def unaware():
            with aclnn.use_backend("numpy"):
                return aclnn.ones(2, "float32")

        def test_with_a_tensor_of_another_backend(unaware, aclnn_backend):
            ops.add(unaware, unaware)

        @given(n=strategies.integers(1, 9))
        def test_tmp_path_is_still_refused(aclnn_backend, tmp_path, n):
            pass
        """
    )
    result = pytester.runpytest_subprocess(
        *PLUGIN, "-p", "no:randomly", "-p", "no:cacheprovider", "--aclnn-backend=emulator", "--aclnn-leaks=warn"
    )
    result.assert_outcomes(passed=2, failed=2, warnings=1)
    result.stdout.fnmatch_lines(
        [
            "*makes Tensors takes aclnn_module_backend*",
            "*FailedHealthCheck*test_tmp_path_is_still_refused*",
            "*LeakWarning: the test left*",
        ]
    )


def test_wrong_options_are_usage_errors(pytester: pytest.Pytester) -> None:
    for option, text in (("--aclnn-backend=gpu", "*must be one of auto*"), ("--aclnn-soc=Ascend911", "*unknown SoC*")):
        result = run(pytester, option)
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        result.stderr.fnmatch_lines([text])


def test_the_sample_project(pytester: pytest.Pytester, with_emulator: None) -> None:
    sample = Path(__file__).parents[2] / "samples" / "testing_project"
    options = [*PLUGIN, "-p", "no:cacheprovider", "--aclnn-backend=numpy,emulator"]
    result = pytester.runpytest_subprocess(
        *options, f"--rootdir={sample}", "-c", str(sample / "pyproject.toml"), str(sample)
    )
    result.assert_outcomes(passed=7, skipped=1)


def test_each_worker_has_a_device_of_its_own(
    pytester: pytest.Pytester, with_emulator: None, emulator_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("xdist", reason="pytest-xdist is not installed")
    pytester.makepyfile(
        """
        import os
        import pytest
        import ascend_aclnn as aclnn

        @pytest.mark.parametrize("turn", range(4))
        def test_one(aclnn_backend, turn):
            assert aclnn.device_count() == 1
            assert os.environ["ASCEND_RT_VISIBLE_DEVICES"] == "0,1"
            assert os.environ["ASCEND_EMULATOR_HOST"].endswith(os.environ["PYTEST_XDIST_WORKER"])
        """
    )
    monkeypatch.setenv("ASCEND_HOME_PATH", str(emulator_home))
    monkeypatch.setenv("ASCEND_RT_VISIBLE_DEVICES", "0,1")
    for name in ("ASCEND_EMULATOR_HOST", "PYTEST_XDIST_WORKER", "PYTEST_XDIST_TESTRUNUID"):
        monkeypatch.delenv(name, raising=False)
    result = pytester.runpytest_subprocess(*PLUGIN, "-p", "no:cacheprovider", "--aclnn-backend=npu", "-n", "2")
    result.assert_outcomes(passed=4)


def test_the_device_of_a_worker(tmp_path: Path) -> None:
    assert devices({}, tmp_path) == [] and device_of_worker("gw0", {}, tmp_path) is None
    for name in ("davinci0", "davinci5", "davinci_manager"):
        (tmp_path / name).touch()
    assert devices({}, tmp_path) == ["0", "1"]  # CANN numbers what a container was given from 0
    visible = {"ASCEND_RT_VISIBLE_DEVICES": "2,4,7"}
    found = [device_of_worker(f"gw{number}", visible, tmp_path) for number in range(4)]
    assert found == ["2", "4", "7", "2"]


CLIENT = """
import ctypes, os, shutil
import acl  # at import, as torch loads its backends
cann = ctypes.CDLL("libascendcl.so")

def test_client():
    assert acl.init() == 0 and acl.get_soc_name() == "Ascend910B3"
    assert acl.rt.get_device_count() == (2, 0)
    assert os.environ["ASCEND_EMULATOR_STREAMS"] == "deferred" and shutil.which("npu-smi")
"""


@pytest.mark.usefixtures("with_emulator")
def test_a_project_runs_on_the_emulated_device(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the project knows of the emulated device; conftest files find it, too."""
    monkeypatch.setenv("ASCEND_EMULATOR_LEAKS", "0")
    pytester.makepyfile(CLIENT)
    pytester.makeconftest("import ctypes; ctypes.CDLL('libnnopbase.so')")
    options = (
        "-p",
        "no:randomly",
        "-p",
        "no:cacheprovider",
        *PLUGIN,
        "--aclnn-soc=Ascend910B3",
        "--aclnn-streams=deferred",
    )
    pytester.runpytest_subprocess(*options, "--aclnn-emulator").assert_outcomes(passed=1)
    without = pytester.runpytest_subprocess(*options)
    assert without.ret == pytest.ExitCode.USAGE_ERROR  # the conftest file cannot be loaded
    without.stderr.fnmatch_lines(["*libnnopbase.so*"])


def test_the_emulated_device_comes_too_late(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(early="import sys; sys.modules['torch_npu'] = sys")
    pytester.syspathinsert()
    late = pytester.runpytest_subprocess("-p", "early", *PLUGIN, "--aclnn-emulator")
    assert late.ret == pytest.ExitCode.USAGE_ERROR
    late.stderr.fnmatch_lines(["*torch_npu is loaded already*emulator run*"])
    for option in ("--aclnn-cann=9.0.0", "--aclnn-operators=my_ops.py"):
        unused = pytester.runpytest_subprocess(*PLUGIN, option)
        assert unused.ret == pytest.ExitCode.USAGE_ERROR
        unused.stderr.fnmatch_lines([f"*{option.partition('=')[0]} is for --aclnn-emulator*"])


OWN = """
import ctypes
import numpy as np
import ascend_aclnn as aclnn
from ascend_aclnn import ops

def test_operators():
    assert aclnn.backend().emulated
    assert ops.scaled_rows(np.ones((2, 2), np.float32), np.array([1]), 3.0).tolist() == [[3.0, 3.0]]
    ctypes.CDLL("libcust_opapi.so").aclnnScaledRowsGetWorkspaceSize  # as torch extensions look it up
"""


@pytest.mark.usefixtures("with_emulator")
def test_a_project_brings_operators_along(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(OWN)
    sample = Path(__file__).parents[2] / "samples" / "vendor_operator" / "scaled_rows.py"
    options = ("-p", "no:randomly", "-p", "no:cacheprovider", *PLUGIN, "--aclnn-emulator")
    pytester.runpytest_subprocess(*options, f"--aclnn-operators={sample}").assert_outcomes(passed=1)
    absent = pytester.runpytest_subprocess(*options, "--aclnn-operators=absent.py")
    assert absent.ret == pytest.ExitCode.USAGE_ERROR
    absent.stderr.fnmatch_lines(["*--aclnn-emulator: operators: absent.py is no Python file*"])
