"""Which backends a test runs on, and what must be left when it ends.

``pytest --backend numpy,emulator`` (the default) runs each test that asks for ``each_backend`` on the NumPy backend and on the
emulated device; ``--backend npu`` runs the same tests, unedited, on the Ascend device of this host.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from live_objects import assert_nothing_left

import ascend_aclnn as aclnn
from ascend_aclnn.core.interface import Backend

# Tests that do not ask for `each_backend` run on the NumPy backend, whatever device this host or an earlier test has.
os.environ["ASCEND_ACLNN_BACKEND"] = "numpy"

SHARED = Path(__file__).parents[2] / "shared"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--backend", default="numpy,emulator", help="backends for tests with `each_backend`: numpy, emulator, npu"
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "each_backend" in metafunc.fixturenames:
        metafunc.parametrize("each_backend", metafunc.config.getoption("--backend").split(","), indirect=True)


@pytest.fixture(scope="session")
def emulator_home() -> Path:
    """The emulated device's libraries, built once; tests that need them are skipped where there is no C compiler."""
    from ascend_aclnn.emulator.build import CompilerError, build

    try:
        return Path(build())
    except CompilerError as error:
        pytest.skip(f"the emulated device cannot be built: {error}")


@pytest.fixture
def each_backend(request: pytest.FixtureRequest) -> Iterator[Backend]:
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


@pytest.fixture
def shared() -> Path:
    """The folder with the fact files and cases beside a checkout, where there is one."""
    if not SHARED.is_dir():
        pytest.skip("the fact files and conformance cases are not beside this checkout")
    return SHARED
