"""Which backends a test runs on, by the package's own pytest plugin.

``--aclnn-backend=numpy,emulator`` (the default here) runs each test that asks for ``each_backend`` on the NumPy backend and on
the emulated device; ``--aclnn-backend=npu`` runs the same tests, unedited, on the Ascend device of this host.
"""

from __future__ import annotations

import gc
import hashlib
import importlib.metadata
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Optional

import hypothesis
import numpy as np
import pytest
from long_tests import LONG
from meant_findings import MEANT

from ascend_aclnn import catalog, native
from ascend_aclnn.backends.interface import Backend
from ascend_aclnn.emulator.build import NoCompilerError, cache, find_compiler
from ascend_aclnn.emulator.build.compiler import identity
from ascend_aclnn.native import library


def _installed() -> bool:
    try:
        importlib.metadata.version("ascend-aclnn")
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


# An installed package brings the plugin by its entry point; in a bare checkout it must be named.
pytest_plugins = [] if _installed() else ["ascend_aclnn.testing.plugin"]

# Tests that do not ask for `each_backend` run on the NumPy backend, whatever device this host or an earlier test has.
os.environ["ASCEND_ACLNN_BACKEND"] = "numpy"

# How long an example takes says nothing on a machine that others use; what was found is kept where the checkout can be written.
_slow = {"deadline": None, "suppress_health_check": [hypothesis.HealthCheck.too_slow]}
_kept = {} if os.access(Path(__file__).parents[1], os.W_OK) else {"database": None}
hypothesis.settings.register_profile("suite", **_slow, **_kept)
hypothesis.settings.load_profile("suite")

SHARED = Path(__file__).parents[2] / "shared"


def _uses_device(item: pytest.Item) -> bool:
    """Whether a test may use the emulated device, and leaves open what is validated there."""
    if item.get_closest_marker("own_validation") is not None:
        return False
    backends = getattr(getattr(item, "callspec", None), "params", {})
    fixtures = {"aclnn_emulator_home", "compiler"} & set(getattr(item, "fixturenames", ()))
    on_device = "emulator" in (backends.get("aclnn_backend"), backends.get("aclnn_module_backend"))
    return bool(fixtures or on_device or item.get_closest_marker("clients"))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """torch_npu's tests, which take longest, begin first: begun last, one of them runs alone in the end.

    xdist gives each worker an equal part of the items, in their order. --aclnn-validate has nothing to see without a device.
    """
    if config.getoption("--aclnn-validate") is not None:
        config.hook.pytest_deselected(items=[item for item in items if not _uses_device(item)])
        items[:] = filter(_uses_device, items)
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    longest = [item for item in items if item.get_closest_marker("clients") is not None]
    others = [item for item in items if item.get_closest_marker("clients") is None]
    share = -(-len(others) // workers)
    items.clear()
    for number in range(workers):
        items += longest[number::workers]
        items += others[number * share : (number + 1) * share]


@pytest.hookimpl(hookwrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collects no garbage while modules and thousands of tests are made: a quarter of the time, and there is none."""
    gc.disable()
    yield
    gc.enable()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Keeps modules and thousands of tests, which live to the end, out of every garbage collection of a test."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: Optional[pytest.Item]) -> Iterator[None]:
    """Keeps what has come to stay since, such as the catalog and torch's functions, out of them, too.

    Between modules, where it is no test's own; a collection of half a million objects takes half a second.
    """
    yield
    if (nextitem is None or nextitem.path != item.path) and len(gc.get_objects()) > 50_000:
        gc.collect()
        gc.freeze()


def pytest_itemcollected(item: pytest.Item) -> None:
    meant = MEANT.get(Path(item.path).stem, {}).get(item.name.partition("[")[0])
    if meant is not None:
        item.add_marker(pytest.mark.aclnn_findings(*meant))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Leaves out what takes long, unless it is asked for; a test draws the same numbers whichever tests ran before it."""
    module = getattr(item, "module", None)
    if hasattr(module, "RNG"):
        module.RNG = np.random.default_rng(zlib.crc32(item.nodeid.encode()))
    if not LONG and item.get_closest_marker("long") is not None:
        pytest.skip("takes long: ./scripts/test --long (or ASCEND_ACLNN_LONG=1) runs it")


@pytest.fixture(autouse=True)
def registered_operators_are_forgotten() -> Iterator[None]:
    """What a test registers as a vendor's operator is in no other test's catalog."""
    before = set(catalog.registered())
    yield
    for name in set(catalog.registered()) - before:
        catalog.forget(name)


@pytest.fixture(scope="session")
def compiler() -> str:
    """The C compiler; tests that need it are skipped where there is none."""
    try:
        return find_compiler()
    except NoCompilerError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def emulator_home(aclnn_emulator_home: Path) -> Path:
    """The emulated device's libraries, built once; tests that need them are skipped where there is no C compiler."""
    return aclnn_emulator_home


@pytest.fixture(scope="session")
def built_helper() -> Path:
    """The directory with the compiled helper, in the emulated device's cache: built once for its sources and a compiler."""
    made_of = f"{identity(find_compiler())}\0{library.library_name()}"

    def make(directory: Path) -> None:
        library.build(directory)
        cache.finish(directory)

    return cache.cached(f"{hashlib.sha256(made_of.encode()).hexdigest()[:20]}-native", make)


@pytest.fixture(params=["plain", "avx2", "avx512", "neon"])
def helper(request: pytest.FixtureRequest, built_helper: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The compiled helper with one instruction set, in this process for one test."""
    monkeypatch.setattr(library, "PACKAGED", built_helper)
    monkeypatch.setenv("ASCEND_ACLNN_NATIVE", "auto")
    monkeypatch.setattr(native, "_status", None)
    monkeypatch.setattr(native, "_library", None)
    native.has.cache_clear()
    assert native.status().path == str(built_helper / library.library_name())
    if not native.use_instructions(request.param):
        pytest.skip(f"this processor has no {request.param}")
    yield request.param
    native.use_instructions(native.status().instructions or "plain")
    native.has.cache_clear()


@pytest.fixture
def each_backend(aclnn_backend: Backend) -> Backend:
    """A backend in use for the test; afterwards nothing of the test may be left on an emulated device."""
    return aclnn_backend


@pytest.fixture
def torch() -> Any:
    """torch as an independent oracle, where it is installed."""
    return pytest.importorskip("torch", reason="torch is the oracle of this test, and is not installed")


@pytest.fixture
def shared() -> Path:
    """The folder with the fact files and cases beside a checkout, where there is one."""
    if not SHARED.is_dir():
        pytest.skip("the fact files and conformance cases are not beside this checkout")
    return SHARED
