"""The pytest plugin: which backends a test runs on, and what must be left when it ends.

    pytest --aclnn-backend=numpy,emulator        # every test with one of these fixtures, on both
    pytest --aclnn-backend=npu                   # the same tests, unedited, on the device of this host
    pytest --aclnn-emulator                      # any project's tests of torch_npu or CANN, on the emulated device

Fixtures: ``aclnn_backend`` (the backend in use for the test), ``aclnn_module_backend`` (the same for a module and its own
fixtures), ``aclnn_device`` (a Device), ``aclnn_stream`` (a new Stream, entered). Marker:
``@pytest.mark.npu(soc="Ascend910B*", min_cann="8.3")`` for a test that needs a device, of some kind.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import fnmatch
import gc
import inspect
import os
import re
import tempfile
import warnings
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any, NamedTuple, Optional

import pytest

import ascend_aclnn as aclnn
from ascend_aclnn.backends.interface import Backend
from ascend_aclnn.core import files
from ascend_aclnn.core.socs import known_soc
from ascend_aclnn.emulator import validation
from ascend_aclnn.testing import failures
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
_FIXTURES = ("aclnn_backend", "aclnn_device", "aclnn_stream")
_PASSED = pytest.StashKey[bool]()
_VALIDATED = pytest.StashKey["_Validated"]()
_FINDINGS = pytest.StashKey[validation.Reader]()
# Of the printed findings, how many; of those between processes, how often each has occurred.
_REPORTED = pytest.StashKey[tuple[int, dict[str, int]]]()


class LeakWarning(pytest.PytestWarning):
    """A test left something on an emulated device (``--aclnn-leaks=warn``)."""


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
    group.addoption(
        "--aclnn-leaks",
        default="error",
        choices=("error", "warn", "off"),
        help="what becomes of a test that passed and left something on an emulated device",
    )
    group.addoption(
        "--aclnn-failures",
        default=None,
        metavar="DIR",
        help="where inputs, result and golden of assert_accurate are recorded when a test fails, or off "
        "(default: aclnn-failures in pytest's cache)",
    )

    group.addoption(
        "--aclnn-validate",
        default=None,
        metavar="LIST",
        help="fail tests in which the emulated device finds accesses without an order (sync) or wrong use of memory and "
        "handles (memory): memory, sync or memory,sync",
    )
    group.addoption(
        "--aclnn-validate-suppress", default=None, metavar="FILE", help="findings that do not count, as in emulator run"
    )
    group.addoption(
        "--aclnn-emulator",
        action="store_true",
        help="load the emulated CANN into the test process before any conftest.py or test: what is imported there (torch_npu, "
        "acl) runs on the emulated device",
    )
    group.addoption("--aclnn-cann", default=None, help="with --aclnn-emulator: the CANN release to emulate, as 9.0.0")
    group.addoption(
        "--aclnn-operators",
        action="append",
        default=[],
        metavar="MODULE",
        help="with --aclnn-emulator: a Python module that declares operators, as emulator run --operators takes it: a file, the "
        "directory of a package, or a name that can be imported; may be repeated",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Activates the emulated device: conftest files import torch, and torch its backends."""
    options = early_config.known_args_namespace
    for option, value in (("--aclnn-cann", options.aclnn_cann), ("--aclnn-operators", options.aclnn_operators)):
        if value and not options.aclnn_emulator:
            raise pytest.UsageError(f"{option} is for --aclnn-emulator")
    if options.aclnn_emulator:
        from ascend_aclnn import emulator

        _set_host_of_worker()
        try:
            emulator.activate(options.aclnn_soc, options.aclnn_streams, options.aclnn_cann, options.aclnn_operators)
        except (RuntimeError, ValueError) as error:
            raise pytest.UsageError(f"--aclnn-emulator: {error}") from None


def _set_host_of_worker() -> None:
    """Gives a worker of pytest-xdist an emulated host, whose devices take so many processes, to itself."""
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    if worker:
        run = os.environ.get("PYTEST_XDIST_TESTRUNUID", "")
        os.environ.setdefault("ASCEND_EMULATOR_HOST", f"{run}-{worker}")


def pytest_configure(config: pytest.Config) -> None:
    kinds = config.getoption("--aclnn-validate")
    if kinds is not None:
        _validate(config, kinds)
    config.addinivalue_line(
        "markers",
        "npu(soc=None, min_cann=None): needs an Ascend device (or the emulated one), whose SoC matches a pattern and "
        "whose CANN is not older",
    )
    config.addinivalue_line(
        "markers",
        "aclnn_findings(*identifiers): what --aclnn-validate finds in the test is caused on purpose; of all identifiers, or of "
        "those that fit a pattern",
    )
    for name in _backends(config):
        if name not in BACKENDS:
            raise pytest.UsageError(f"--aclnn-backend is {name!r}; it must be one of {', '.join(BACKENDS)}")
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    if worker:  # each has an emulated host, whose devices take so many processes, to itself
        run = os.environ.get("PYTEST_XDIST_TESTRUNUID", "")
        os.environ.setdefault("ASCEND_EMULATOR_HOST", f"{run}-{worker}")
    failures.defer(config)
    config.add_cleanup(lambda: failures.undefer(config))
    soc = config.getoption("--aclnn-soc")
    if soc is not None:
        try:
            known_soc(soc)
        except ValueError as error:
            raise pytest.UsageError(f"--aclnn-soc: {error}") from None


def _failures_directory(config: pytest.Config) -> str:
    """Where failures are recorded: the option, else pytest's cache; "off" where pytest has none."""
    chosen: Optional[str] = config.getoption("--aclnn-failures")
    cache = getattr(config, "cache", None)
    if chosen is not None:
        return chosen if chosen == "off" else str(config.invocation_params.dir / chosen)
    return "off" if cache is None else str(cache.mkdir("aclnn-failures"))


def _validate(config: pytest.Config, kinds: str) -> None:
    """The emulated device, which is loaded later, writes its findings to a file."""
    try:
        kinds = validation.parse(kinds)
    except argparse.ArgumentTypeError as error:
        raise pytest.UsageError(f"--aclnn-validate: {error}") from None
    number, path = tempfile.mkstemp(prefix="ascend-validate-")
    os.close(number)
    config.add_cleanup(lambda: files.discard(Path(path)))
    suppress = config.getoption("--aclnn-validate-suppress")
    report = validation.Report(kinds, None if suppress is None else Path(suppress))
    try:
        os.environ.update({**validation.variables(report, path), validation.QUIET: "1"})
        patterns = [] if suppress is None else validation.suppressions(Path(suppress))
    except OSError as error:
        raise pytest.UsageError(f"--aclnn-validate-suppress: {error}") from None
    config.stash[_FINDINGS], config.stash[_REPORTED] = validation.Reader(path, patterns), (0, {})


class _Validated:
    """What --aclnn-validate has seen of a test."""

    def __init__(self, on_device: bool) -> None:
        self.on_device, self.meant, self.others = on_device, False, False


def _new_findings(item: pytest.Item) -> list[str]:
    """The findings since the last time, without warnings and those that the test causes on purpose."""
    config = item.config
    backends = getattr(getattr(item, "callspec", None), "params", {})
    on_device = "emulator" in (backends.get("aclnn_backend"), backends.get("aclnn_module_backend"))
    validated = item.stash.setdefault(_VALIDATED, _Validated(on_device or config.getoption("--aclnn-emulator")))
    expected = [pattern for marker in item.iter_markers("aclnn_findings") for pattern in marker.args or ("*",)]
    reader = config.stash.get(_FINDINGS, None)
    before = 0 if reader is None else len(reader.processes)
    if reader is None or not reader.update():
        return []
    validated.on_device = validated.on_device or len(reader.processes) > before
    count, reported = config.stash[_REPORTED]
    compared = {f"{f['identifier']}: {f['text']}": f["times"] for f in reader.compared}
    printed = [f"{f['identifier']}: {f['text']}" for f in reader.printed[count:] if f["severity"] == "error"]
    new = [*printed, *(text for text, times in compared.items() if times > reported.get(text, 0))]
    config.stash[_REPORTED] = len(reader.printed), compared
    with contextlib.suppress(OSError, AttributeError):  # this process may have no emulated device, but others
        ctypes.CDLL(None).aclemuForgetFindings()
    others = [text for text in new if not any(fnmatch.fnmatchcase(text.partition(":")[0], each) for each in expected)]
    validated.meant = validated.meant or len(others) < len(new)
    validated.others = validated.others or bool(others)
    return others


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """How much --aclnn-validate has seen: a suite without the emulated device has no findings either."""
    if config.getoption("--aclnn-validate") is None:
        return
    seen = [
        getattr(report, "aclnn_validated", None) for reports in terminalreporter.stats.values() for report in reports
    ]
    tests, meant, others = (sum(values) for values in zip((0, 0, 0), *filter(None, seen)))
    terminalreporter.write_line(
        f"--aclnn-validate: {tests} tests on the emulated device, {meant} with findings on purpose, {others} with others"
    )


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
    for name, scope in (("aclnn_module_backend", "module"), ("aclnn_backend", "function")):
        if name in metafunc.fixturenames:
            metafunc.parametrize(name, _backends(metafunc.config), indirect=True, scope=scope)  # type: ignore[arg-type]
            return


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Hypothesis refuses fixtures that live for all examples of a test, as ours are meant to."""
    for item in items:
        function = getattr(item, "obj", None)
        if getattr(function, "is_hypothesis_test", False) and isinstance(item, pytest.Function):
            _allow_fixtures(item, function)


def _allow_fixtures(item: pytest.Function, function: Any) -> None:
    """Takes Hypothesis' check of fixtures off a test whose only fixtures of a function's lifetime are ours."""
    from hypothesis import HealthCheck, settings

    fixtures = item._fixtureinfo.name2fixturedefs
    arguments = [name for name in inspect.signature(function).parameters if name in fixtures]
    lifetimes = {name: fixtures[name][-1].scope for name in arguments}
    if any(name not in _FIXTURES and scope == "function" for name, scope in lifetimes.items()):
        return
    function = getattr(function, "__func__", function)  # of a method
    current = getattr(function, "_hypothesis_internal_use_settings", None) or settings()
    allowed = {*current.suppress_health_check, HealthCheck.function_scoped_fixture}
    function._hypothesis_internal_use_settings = settings(current, suppress_health_check=tuple(allowed))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, None]:
    report: pytest.TestReport = (yield).get_result()
    findings = _new_findings(item)
    if findings and report.passed:
        report.outcome = "failed"
        report.longrepr = "found by --aclnn-validate:\n" + "\n".join(findings)
    elif findings:
        report.sections.append(("--aclnn-validate", "\n".join(findings)))
    if report.when == "teardown" and _VALIDATED in item.stash:
        validated = item.stash[_VALIDATED]
        report.aclnn_validated = [validated.on_device, validated.meant, validated.others]  # type: ignore[attr-defined]
    if report.when == "call":
        item.stash[_PASSED] = report.passed
    if report.failed and call.excinfo is not None and isinstance(call.excinfo.value, failures.AccuracyError):
        error, name = call.excinfo.value, failures.file_name(item.nodeid)
        lines = failures.written(error.comparison, error.inputs, _failures_directory(item.config), name)
        if lines:
            report.sections.append(("ascend_aclnn", "\n".join(lines)))
    if report.failed and call.excinfo is not None and "backend; the backend in use is" in str(call.excinfo.value):
        text = (
            "A Tensor belongs to the backend that was in use when it was made. A fixture of a module or a class that makes "
            "Tensors takes aclnn_module_backend as its argument; it is made again for each backend."
        )
        report.sections.append(("ascend_aclnn", text))


@pytest.fixture(scope="session")
def aclnn_emulator_home(pytestconfig: pytest.Config) -> Path:
    """The emulated device's libraries, built once.

    Where they cannot be built, the test is an error if the emulated device was asked for, and skipped otherwise.
    """
    from ascend_aclnn.emulator.build import NoCompilerError, build

    try:
        return Path(build())
    except NoCompilerError as error:
        text = f"the emulated device cannot be built: {error}"
        if "emulator" in _backends(pytestconfig):
            pytest.fail(f"--aclnn-backend asks for the emulator; {text}", pytrace=False)
        pytest.skip(text)


@pytest.fixture(scope="module")
def aclnn_module_backend(request: pytest.FixtureRequest) -> Iterator[Backend]:
    """A backend in use for a module, from the first test that asks for it: for fixtures that make Tensors for many tests.

    ``aclnn_backend`` of the same test is the same backend.
    """
    with _in_use(request) as backend:
        yield backend


@pytest.fixture
def aclnn_backend(request: pytest.FixtureRequest) -> Iterator[Backend]:
    """A backend in use for the test. What a test that passed has left on an emulated device is reported afterwards."""
    leaks: str = request.config.getoption("--aclnn-leaks")
    with contextlib.ExitStack() as stack:
        if "aclnn_module_backend" in request.fixturenames:
            backend: Backend = request.getfixturevalue("aclnn_module_backend")
        else:
            backend = stack.enter_context(_in_use(request))
        marker = request.node.get_closest_marker("npu")
        if marker is not None:
            _skip_unless(backend, **marker.kwargs)
        checked = backend.emulated and leaks != "off"
        if checked:
            backend.record_origins(True)
            before = _what_is_alive(backend)
        yield backend
        if checked:
            backend.record_origins(False)
            if request.node.stash.get(_PASSED, False):
                left = what_is_left(backend, before)
                if left and leaks == "warn":
                    warnings.warn(LeakWarning(f"the test left on the emulated device: {left}"), stacklevel=1)
                elif left:
                    pytest.fail(f"the test left on the emulated device: {left}", pytrace=False)


@contextlib.contextmanager
def _in_use(request: pytest.FixtureRequest) -> Iterator[Backend]:
    """The backend that a fixture's parameter names, made ready and in use."""
    name = request.param
    soc: Optional[str] = request.config.getoption("--aclnn-soc")
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
        yield backend


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


class Alive(NamedTuple):
    """What is alive on an emulated device: handles and allocations by kind, and the package's blocks of memory."""

    counts: dict[str, int]
    blocks: dict[int, str]  # address -> size, and the line of the program that asked for it


def live_objects(backend: Any) -> dict[str, int]:
    """Live handles and allocations of the emulated device by kind, streams and contexts of the runtime itself excepted."""
    runtime = ctypes.CDLL(str(backend.library_path))
    runtime.aclemuLiveCount.argtypes = [ctypes.c_char_p]
    runtime.aclemuLiveCount.restype = ctypes.c_int64
    counts = {kind: runtime.aclemuLiveCount(kind.encode()) for kind in (*_KINDS, "allocation")}
    return {kind: count for kind, count in counts.items() if count}


def _what_is_alive(backend: Backend) -> Alive:
    snapshot = backend.memory_snapshot(backend.current_device())
    blocks = {b.address: f"{b.nbytes} bytes, allocated at {b.origin or 'an unknown line'}" for b in snapshot}
    return Alive(live_objects(backend), blocks)


def what_is_left(backend: Backend, before: Alive) -> str:
    """What is alive on an emulated device and was not before, with the lines that made it; "" where there is nothing."""

    def new() -> dict[str, int]:
        counts = live_objects(backend)
        if before.blocks:  # a Tensor from before the test may have got its aclTensor, or memory, at its first use
            counts.pop("tensor", None)
        return {kind: n - before.counts.get(kind, 0) for kind, n in counts.items() if n > before.counts.get(kind, 0)}

    aclnn.synchronize()
    aclnn.empty_cache()
    left = new()
    for generation in (1, 2):  # perhaps in reference cycles; collecting the old generation takes longer than most tests
        if left:
            gc.collect(generation)
            aclnn.synchronize()
            aclnn.empty_cache()
            left = new()
    if not left:
        return ""
    blocks = [text for address, text in _what_is_alive(backend).blocks.items() if before.blocks.get(address) != text]
    return "\n  ".join([", ".join(f"{count} {kind}" for kind, count in left.items()), *blocks])


def assert_nothing_left(backend: Backend) -> None:
    """AssertionError where a tensor, executor, event or allocation is alive on an emulated device; nothing elsewhere."""
    if backend.emulated:
        left = what_is_left(backend, Alive({}, {}))
        assert not left, f"left on the emulated device: {left}"
