"""Which backends a test runs on, and what must be left when it ends.

``pytest --backend numpy,emulator`` (the default) runs each test that asks for ``engine`` on the NumPy backend and on the
emulated device; ``--backend npu`` runs the same tests, unedited, on the Ascend device of this host.
"""

from __future__ import annotations

import ctypes
import gc
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import ascend_aclnn as aclnn
from ascend_aclnn.backends import Backend

# Tests that do not ask for `engine` run on the NumPy backend, whatever device this host or an earlier test has.
os.environ["ASCEND_ACLNN_BACKEND"] = "numpy"

SHARED = Path(__file__).parents[2] / "shared"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--backend", default="numpy,emulator", help="backends for tests with `engine`: numpy, emulator, npu"
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "engine" in metafunc.fixturenames:
        metafunc.parametrize("engine", metafunc.config.getoption("--backend").split(","), indirect=True)


@pytest.fixture(scope="session")
def emulator_home() -> Path:
    """The emulated device's libraries, built once; tests that need them are skipped where there is no C compiler."""
    if shutil.which("cc") is None:
        pytest.skip("no C compiler (cc): the emulated device cannot be built")
    from ascend_aclnn.emulator.build import build

    return Path(build())


@pytest.fixture
def engine(request: pytest.FixtureRequest) -> Iterator[Backend]:
    """A backend in use for the test; afterwards nothing of the test may be left on an emulated device."""
    name = request.param
    if name == "numpy":
        with aclnn.use_backend("numpy") as backend:
            yield backend
        return
    if name == "emulator":
        os.environ["ASCEND_HOME_PATH"] = str(request.getfixturevalue("emulator_home"))
    with aclnn.use_backend("npu") as backend:
        yield backend
        if backend.emulated:
            assert_nothing_left()


def assert_nothing_left() -> None:
    """No tensor, scalar, executor, event or allocation of the emulated device outlives the test that made it."""
    gc.collect()
    aclnn.synchronize()
    aclnn.empty_cache()
    left = live_objects()
    assert not left, f"left on the emulated device: {left}"


def live_objects() -> dict[str, int]:
    """Live handles and allocations by kind, streams and contexts of the runtime itself excepted."""
    from ascend_aclnn.backends.npu import npu_backend

    runtime = ctypes.CDLL(str(npu_backend().library_path))
    runtime.aclemuLiveCount.argtypes = [ctypes.c_char_p]
    runtime.aclemuLiveCount.restype = ctypes.c_int64
    kinds = ("tensor", "scalar", "int_array", "float_array", "bool_array", "tensor_list", "scalar_list", "executor")
    counts = {kind: runtime.aclemuLiveCount(kind.encode()) for kind in (*kinds, "event", "allocation")}
    return {kind: count for kind, count in counts.items() if count}


@pytest.fixture
def shared() -> Path:
    """The folder with the fact files and cases beside a checkout, where there is one."""
    if not SHARED.is_dir():
        pytest.skip("the fact files and conformance cases are not beside this checkout")
    return SHARED
