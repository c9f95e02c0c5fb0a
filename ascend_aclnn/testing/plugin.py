"""The pytest plugin: which backends a test runs on, and what must be left when it ends.

    pytest --aclnn-backend=numpy,emulator        # every test with one of these fixtures, on both
    pytest --aclnn-backend=npu                   # the same tests, unedited, on the device of this host

Fixtures: ``aclnn_backend`` (the backend in use for the test), ``aclnn_device`` (a Device), ``aclnn_stream`` (a new Stream,
entered). Marker: ``@pytest.mark.npu(soc="Ascend910B*", min_cann="8.3")`` for a test that needs a device, of some kind.
"""

from __future__ import annotations

import contextlib
import ctypes
import fnmatch
import gc
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Optional

import pytest

import ascend_aclnn as aclnn
from ascend_aclnn.backends.interface import Backend
from ascend_aclnn.core.socs import known_soc
from ascend_aclnn.testing.devices import one_device

BACKENDS = ("auto", "numpy", "emulator", "npu")
_KINDS = (
    "tensor",
    "scalar",
    "int_array",
    "float_array",
    "bool_array",
    "tensor_list",
    "scalar_list",
    "executor",
    "event",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("ascend_aclnn")
    group.addoption(
        "--aclnn-backend",
        default="auto",
        help="backends for tests with a fixture of ascend_aclnn, separated by commas: auto, numpy, emulator, npu",
    )
    group.addoption(
        "--aclnn-soc", default=None, help="the SoC whose rules apply on numpy and the emulator (Ascend910B1)"
    )
    group.addoption(
        "--aclnn-streams",
        default=None,
        choices=("background", "eager", "deferred"),
        help="when the emulated device runs what is queued",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "npu(soc=None, min_cann=None): needs an Ascend device (or the emulated one), whose SoC matches a pattern and "
        "whose CANN is not older",
    )
    for name in _backends(config):
        if name not in BACKENDS:
            raise pytest.UsageError(f"--aclnn-backend is {name!r}; it must be one of {', '.join(BACKENDS)}")
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    if worker:  # each has an emulated host, whose devices take so many processes, to itself
        run = os.environ.get("PYTEST_XDIST_TESTRUNUID", "")
        os.environ.setdefault("ASCEND_EMULATOR_HOST", f"{run}-{worker}")
    soc = config.getoption("--aclnn-soc")
    if soc is not None:
        try:
            known_soc(soc)
        except ValueError as error:
            raise pytest.UsageError(f"--aclnn-soc: {error}") from None


def _backends(config: pytest.Config) -> list[str]:
    names: str = config.getoption("--aclnn-backend")
    return names.split(",")


def pytest_report_header(config: pytest.Config) -> str:
    soc = config.getoption("--aclnn-soc") or os.environ.get("ASCEND_ACLNN_SOC")
    rules = f", SoC {soc}" if soc else ""
    cann = os.environ.get("ASCEND_HOME_PATH")
    where = f", CANN {cann}" if cann else ""
    return f"ascend_aclnn: {aclnn.__version__}, backend {', '.join(_backends(config))}{rules}{where}"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "aclnn_backend" in metafunc.fixturenames:
        metafunc.parametrize("aclnn_backend", _backends(metafunc.config), indirect=True, scope="function")


@pytest.fixture(scope="session")
def aclnn_emulator_home() -> Path:
    """The emulated device's libraries, built once; a test that needs them is skipped where there is no compiler."""
    from ascend_aclnn.emulator.build import NoCompilerError, build

    try:
        return Path(build())
    except NoCompilerError as error:
        pytest.skip(f"the emulated device cannot be built: {error}")


@pytest.fixture
def aclnn_backend(request: pytest.FixtureRequest) -> Iterator[Backend]:
    """A backend in use for the test. Afterwards nothing of the test may be left on an emulated device."""
    name = request.param
    soc: Optional[str] = request.config.getoption("--aclnn-soc")
    marker = request.node.get_closest_marker("npu")
    if name == "emulator":
        os.environ["ASCEND_HOME_PATH"] = str(request.getfixturevalue("aclnn_emulator_home"))
        streams = request.config.getoption("--aclnn-streams")
        if streams is not None:
            os.environ.setdefault("ASCEND_EMULATOR_STREAMS", streams)
        if soc is not None:
            os.environ.setdefault("ASCEND_ACLNN_SOC", soc)
    with contextlib.ExitStack() as stack:
        with contextlib.nullcontext() if name == "emulator" else one_device():
            opened = aclnn.use_backend(
                "npu" if name == "emulator" else name, soc if name in ("numpy", "auto") else None
            )
            backend = stack.enter_context(opened)
        if marker is not None:
            _skip_unless(backend, **marker.kwargs)
        yield backend
        assert_nothing_left(backend)


def _skip_unless(backend: Backend, soc: Optional[str] = None, min_cann: Optional[str] = None) -> None:
    if backend.name != "npu":
        pytest.skip("needs an Ascend device; the backend is numpy")
    if soc is not None and not fnmatch.fnmatch(backend.soc, soc):
        pytest.skip(f"needs a SoC like {soc}; the device is {backend.soc}")
    if min_cann is not None:
        installed = _cann_version()
        if installed is None or installed < _numbers(min_cann):
            text = "unknown" if installed is None else ".".join(map(str, installed))
            pytest.skip(f"needs CANN {min_cann} or later; this one is {text}")


def _cann_version() -> Optional[tuple[int, ...]]:
    """The release that ASCEND_HOME_PATH's version file names."""
    home = Path(os.environ.get("ASCEND_HOME_PATH", "/usr/local/Ascend/ascend-toolkit/latest"))
    names = ("version.cfg", "ascend_toolkit_install.info", "*/ascend_toolkit_install.info")
    for file in (match for name in names for match in sorted(home.glob(name))):
        try:
            match = re.search(
                r"(?:version|running_version)[^0-9]*([0-9]+(?:\.[0-9]+)+)", file.read_text(errors="replace")
            )
        except OSError:
            continue
        if match is not None:
            return _numbers(match.group(1))
    return None


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text)[:2])


@pytest.fixture
def aclnn_device(aclnn_backend: Backend) -> aclnn.Device:
    """Device 0 of the backend; with ``npu`` each worker of pytest-xdist has a device of its own, and sees no other."""
    return aclnn.Device(0)


@pytest.fixture
def aclnn_stream(aclnn_backend: Backend) -> Iterator[aclnn.Stream]:
    """A new stream, current for the test and synchronised at its end."""
    stream = aclnn.Stream()
    try:
        with stream:
            yield stream
            stream.synchronize()
    finally:
        stream.close()


def live_objects(backend: Any) -> dict[str, int]:
    """Live handles and allocations of the emulated device by kind, streams and contexts of the runtime itself excepted."""
    runtime = ctypes.CDLL(str(backend.library_path))
    runtime.aclemuLiveCount.argtypes = [ctypes.c_char_p]
    runtime.aclemuLiveCount.restype = ctypes.c_int64
    counts = {kind: runtime.aclemuLiveCount(kind.encode()) for kind in (*_KINDS, "allocation")}
    return {kind: count for kind, count in counts.items() if count}


def assert_nothing_left(backend: Backend) -> None:
    """AssertionError where a tensor, executor, event or allocation is alive on an emulated device; nothing elsewhere."""
    if not backend.emulated:
        return
    aclnn.synchronize()
    aclnn.empty_cache()
    live = live_objects(backend)
    for generation in (1, 2):  # perhaps in reference cycles; collecting the old generation takes longer than most tests
        if live:
            gc.collect(generation)
            aclnn.synchronize()
            aclnn.empty_cache()
            live = live_objects(backend)
    assert not live, f"the test left on the emulated device: {live}"
