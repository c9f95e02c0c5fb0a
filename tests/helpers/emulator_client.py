"""Test bodies that run in a process of their own, on the emulated CANN, through plain ctypes.

    @client(ASCEND_EMULATOR_STREAMS="deferred")
    def test_something(cann): ...

The decorated test forks a Python process with the emulated libraries on LD_LIBRARY_PATH and runs the body there: the
settings of the emulator are read once for each process, and a body may crash or kill what it likes. Nothing of the
package's own device path is used.
"""

from __future__ import annotations

import atexit
import concurrent.futures
import ctypes
import functools
import importlib
import importlib.util
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import traceback
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Callable, NamedTuple, Optional

import numpy as np

from ascend_aclnn import catalog
from ascend_aclnn.catalog import Kind
from ascend_aclnn.core.dtypes import as_datatype

HERE = Path(__file__).parent
TIMEOUT = 600
KEPT = ("ASCEND_EMULATOR_HOST", "ASCEND_EMULATOR_VALIDATE")  # of the environment: what pytest's options say

H2D, D2H, D2D = 1, 2, 3
NEWEST = "9.2.0-beta.2"  # a release that has all functions, and nothing is gone yet


def client(**settings: str) -> Callable[[Callable[..., None]], Callable[[Path], None]]:
    """Runs a test's body in a process of its own with the emulated libraries and some settings."""

    def decorate(body: Callable[..., None]) -> Callable[[Path], None]:
        def test(emulator_home: Path) -> None:
            done = run_body(body, emulator_home, **settings)
            assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"

        functools.update_wrapper(test, body)
        del test.__wrapped__  # pytest would ask for the body's arguments
        test.body = body  # type: ignore[attr-defined]
        return test

    return decorate


def run_body(body: Callable[..., None], home: Path, **settings: str) -> subprocess.CompletedProcess[str]:
    """Runs a body in a new process and gives its exit status and output."""
    if "ASCEND_EMULATOR_CANN" in settings:  # libraries with the functions of that release
        from ascend_aclnn.emulator.build import build  # not in the new process, which imports as little as it can

        home = build(cann=settings["ASCEND_EMULATOR_CANN"])
    if home not in _parents:
        if not _parents:
            atexit.register(_end_parents)
        _parents[home] = _Parent(home)
    try:
        return _parents[home].run(body.__code__.co_filename, body.__name__, environment(home, **settings))
    except BaseException:
        _parents.pop(home).end()
        raise


class _Parent:
    """A process that has imported what bodies need, with some emulated libraries on LD_LIBRARY_PATH: bodies are forked from it.

    An import of NumPy for each body would take half of the processor time of most. The libraries themselves are loaded by bodies.
    """

    def __init__(self, home: Path) -> None:
        self._socket, theirs = socket.socketpair()
        code = f"import emulator_client; emulator_client.fork_bodies({theirs.fileno()})"
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", code],
                env=environment(home),
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )

    def run(self, file: str, name: str, environ: dict[str, str]) -> subprocess.CompletedProcess[str]:
        """As ``subprocess.run`` does: the output ends when all processes have ended that have it."""
        output, errors = os.pipe(), os.pipe()
        try:
            request = json.dumps([file, name, environ]).encode()
            socket.send_fds(self._socket, [struct.pack("<I", len(request))], [output[1], errors[1]])
            self._socket.sendall(request)
        finally:
            os.close(output[1])
            os.close(errors[1])
        with open(output[0]) as out, open(errors[0]) as err, concurrent.futures.ThreadPoolExecutor(2) as readers:
            texts = [readers.submit(stream.read) for stream in (out, err)]
            if concurrent.futures.wait(texts, TIMEOUT).not_done:
                self.end()
                raise subprocess.TimeoutExpired([file, name], TIMEOUT)
            status = struct.unpack("<i", _read(self._socket, 4))[0]
            return subprocess.CompletedProcess([file, name], status, *(text.result() for text in texts))

    def end(self) -> None:
        """Ends it, and with it a body that still runs."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._socket.close()


_parents: dict[Path, _Parent] = {}  # by what home their libraries have


def _end_parents() -> None:
    for parent in _parents.values():
        parent.end()


def _read(connection: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            raise EOFError("the process that forks bodies has ended")
        data += more
    return bytes(data)


def fork_bodies(descriptor: int) -> None:
    """In the process that bodies are forked from: forks one after the other, each with its environment and output."""
    _prototypes()
    catalog.get("aclnnAdd")
    with socket.socket(fileno=descriptor) as connection:
        while True:
            size, outputs, _, _ = socket.recv_fds(connection, 4, 2)
            if not size:
                return
            file, name, environ = json.loads(_read(connection, struct.unpack("<I", size)[0]))
            pid = os.fork()
            if pid == 0:
                break
            for output in outputs:
                os.close(output)
            connection.sendall(struct.pack("<i", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])))
    for number, output in enumerate(outputs, 1):
        os.dup2(output, number)
        os.close(output)
    os.environ.clear()
    os.environ.update(environ)
    main(file, name)


def environment(home: Path, **settings: str) -> dict[str, str]:
    """The environment of a program on the emulated libraries, and nothing that would change them."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("ASCEND_") or k.startswith(KEPT)}
    path = os.pathsep.join([str(HERE.parents[1]), str(HERE), *filter(None, [kept.get("PYTHONPATH")])])
    return {**kept, "LD_LIBRARY_PATH": str(home / "lib64"), "PYTHONPATH": path, **settings}


class _Decorators(types.ModuleType):
    """pytest as far as a module of tests needs it to define a body; the import of all of it would take longer than NumPy's.

    pytest itself comes once a body asks for more.
    """

    def __getattr__(self, name: str) -> Any:
        if name == "mark":
            return _Marks()
        if name == "fixture":
            return _as_it_is
        if name == "param":
            return _no_parameter
        if name.startswith("__"):
            raise AttributeError(name)
        if sys.modules.get("pytest") is self:
            del sys.modules["pytest"]
        return getattr(importlib.import_module("pytest"), name)


class _Marks:
    def __getattr__(self, name: str) -> Any:
        return _as_it_is


def _as_it_is(*arguments: Any, **options: Any) -> Any:
    """A decorator, with arguments or without, that leaves a function as it is."""
    bare = len(arguments) == 1 and callable(arguments[0])
    return arguments[0] if bare else lambda function: function


def _no_parameter(*values: Any, **options: Any) -> None:
    """A body gets no parameters."""


def main(file: str, name: str) -> None:
    """In the new process: runs the body, and then nothing may be left."""
    sys.modules["pytest"] = _Decorators("pytest")
    spec = importlib.util.spec_from_file_location(Path(file).stem, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    test = getattr(module, name)
    cann = Cann()
    try:
        getattr(test, "body", test)(cann)
        cann.finish()
    except BaseException:
        traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(1)


class CannError(RuntimeError):
    """A native call failed: its status, and the text of aclGetRecentErrMsg."""

    def __init__(self, routine: str, status: int, message: str) -> None:
        super().__init__(f"{routine}: {status}: {message}")
        self.routine, self.status, self.message = routine, status, message

    @property
    def error(self) -> str:
        """The emulator's name of the error, "" where it has none."""
        head = self.message.partition(":")[0]
        return head if head.startswith("EMULATOR_") else ""


class Location(ctypes.Structure):
    """aclrtMemLocation."""

    _fields_ = [("id", ctypes.c_uint32), ("type", ctypes.c_int32)]


class Property(ctypes.Structure):
    """aclrtPhysicalMemProp."""

    _fields_ = [
        ("handle_type", ctypes.c_int32),
        ("allocation_type", ctypes.c_int32),
        ("attribute", ctypes.c_int32),
        ("location", Location),
        ("reserve", ctypes.c_uint64),
    ]


class Tensor(NamedTuple):
    handle: int
    address: int
    array: np.ndarray  # what it was made from: shape and dtype


@functools.cache
def _prototypes() -> dict[str, Any]:
    """Read once: what was forked and became another user may not read it any more."""
    rows: dict[str, Any] = json.loads((catalog.DATA / "runtime_functions.json").read_text())
    return rows


class Cann:
    """The libraries, with argument types from the package's data; a call that fails raises CannError."""

    def __init__(self, initialise: bool = True) -> None:
        self.libraries = [ctypes.CDLL(name) for name in ("libascendcl.so", "libnnopbase.so", "libopapi.so")]
        rows = _prototypes()
        self._returns = {name: row["returns"] for name, row in rows.items()}
        self._types = {name: [_ctype(t) for _, t in row["params"]] for name, row in rows.items()}
        self._functions: dict[str, Any] = {}
        self._owned: list[Tensor] = []
        self.initialised = initialise
        if initialise:
            self.aclInit(None)
            self.aclrtSetDevice(0)

    # -- functions
    def __getattr__(self, name: str) -> Callable[..., Any]:
        function = self._function(name)
        status = self._returns.get(name, "aclnnStatus") in ("aclError", "aclnnStatus", "HcclResult")

        def call(*arguments: Any) -> Any:
            result = function(*arguments)
            if status and result != 0:
                raise CannError(name, result, self.message())
            return result

        return call

    def _function(self, name: str) -> Any:
        if name not in self._functions:
            function = next(f for f in (getattr(library, name, None) for library in self.libraries) if f is not None)
            if name in self._types:
                function.argtypes = self._types[name]
                function.restype = _restype(self._returns[name])
            elif name.endswith("GetWorkspaceSize"):
                operator = catalog.get(name[: -len("GetWorkspaceSize")])
                function.argtypes = [_argument(p.kind) for p in operator.parameters] + [ctypes.c_void_p] * 2
            elif name.startswith("aclnn"):
                function.argtypes = [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p, ctypes.c_void_p]
            self._functions[name] = function
        return self._functions[name]

    def message(self) -> str:
        """The text of the latest failure on this thread, which is then gone."""
        return (self._function("aclGetRecentErrMsg")() or b"").decode()

    def failure(self, name: str, *arguments: Any) -> CannError:
        """The error of a call that must fail."""
        try:
            result = getattr(self, name)(*arguments)
        except CannError as error:
            return error
        if not result and name in self._returns and self._returns[name].endswith("*"):
            return CannError(name, -1, self.message())  # a null pointer
        raise AssertionError(f"{name} did not fail")

    def create(self, name: str, *arguments: Any) -> int:
        """A handle or address that a function gives through its first parameter."""
        made = ctypes.c_void_p()
        getattr(self, name)(ctypes.byref(made), *arguments)
        assert made.value is not None
        return made.value

    # -- test hooks
    def live(self, kind: Optional[str] = None) -> int:
        function = self._hook("aclemuLiveCount", ctypes.c_int64, ctypes.c_char_p)
        return int(function(None if kind is None else kind.encode()))

    def calls(self) -> int:
        return int(self._hook("aclemuCallCount", ctypes.c_uint64)())

    def fast_runs(self) -> int:
        return int(self._hook("aclemuFastRuns", ctypes.c_uint64)())

    def fail_at(self, nth: int, status: int, name: Optional[str] = None) -> None:
        function = self._hook("aclemuFailAt", None, ctypes.c_char_p, ctypes.c_uint64, ctypes.c_int32)
        function(None if name is None else name.encode(), nth, status)

    def failed_call(self) -> Optional[str]:
        found = self._hook("aclemuFailedCall", ctypes.c_char_p)()
        return None if found is None else found.decode()

    def dump(self) -> Any:
        function = self._hook("aclemuDump", ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t)
        buffer = ctypes.create_string_buffer(function(None, 0) + 1)
        function(buffer, len(buffer))
        return json.loads(buffer.value)

    def device_pid(self, device: int = 0) -> int:
        return int(self._hook("aclemuDevicePid", ctypes.c_int32, ctypes.c_int32)(device))

    def _hook(self, name: str, result: Any, *arguments: Any) -> Any:
        function = getattr(self.libraries[0], name)
        function.restype, function.argtypes = result, list(arguments)
        return function

    # -- tensors and operators
    def malloc(self, nbytes: int) -> int:
        return self.create("aclrtMalloc", nbytes, 0)

    def tensor(self, array: Any, dtype: Any = None, format: int = 2) -> Tensor:
        """A contiguous tensor with the values of an array; released by ``finish`` unless ``drop`` did."""
        values = np.ascontiguousarray(array, dtype)
        address = self.malloc(max(values.nbytes, 1))
        if values.nbytes:
            self.aclrtMemcpy(address, values.nbytes, values.ctypes.data, values.nbytes, H2D)
        made = Tensor(self.describe(values.shape, values.dtype, address, format=format), address, values)
        self._owned.append(made)
        return made

    def describe(
        self,
        shape: Sequence[int],
        dtype: Any,
        address: Optional[int],
        strides: Optional[Sequence[int]] = None,
        offset: int = 0,
        format: int = 2,
        storage: Optional[Sequence[int]] = None,
    ) -> int:
        """aclCreateTensor with Python's sequences."""
        dims = int64s(shape)
        storage_dims = dims if storage is None else int64s(storage)
        number = dtype if isinstance(dtype, int) else int(as_datatype(dtype))
        steps = None if strides is None else int64s(strides)
        handle = self.aclCreateTensor(
            dims, len(dims), number, steps, offset, format, storage_dims, len(storage_dims), address
        )
        assert handle, self.message()
        return int(handle)

    def read(self, tensor: Tensor) -> np.ndarray:
        out = np.empty_like(tensor.array)
        if out.nbytes:
            self.aclrtMemcpy(out.ctypes.data, out.nbytes, tensor.address, out.nbytes, D2H)
        return out

    def drop(self, tensor: Tensor) -> None:
        self._owned.remove(tensor)
        self.aclDestroyTensor(tensor.handle)
        self.aclrtFree(tensor.address)

    def prepare(self, name: str, *arguments: Any) -> tuple[int, int]:
        """Phase one: the executor and the size of its workspace. Tensors are given as such or as handles."""
        size, executor = ctypes.c_uint64(), ctypes.c_void_p()
        values = [a.handle if isinstance(a, Tensor) else a for a in arguments]
        getattr(self, f"{name}GetWorkspaceSize")(*values, ctypes.byref(size), ctypes.byref(executor))
        assert executor.value is not None
        return executor.value, size.value

    def launch(self, name: str, executor: int, size: int, stream: Optional[int] = None) -> None:
        """Phase two, with a workspace that is kept until the stream has passed."""
        workspace = self.malloc(size) if size else None
        try:
            getattr(self, name)(workspace, size, executor, stream)
        finally:
            if workspace is not None:
                try:
                    self.aclrtSynchronizeStream(stream)
                finally:
                    self.aclrtFree(workspace)

    def run(self, name: str, *arguments: Any) -> None:
        """Both phases on the default stream, and waiting for it."""
        executor, size = self.prepare(name, *arguments)
        self.launch(name, executor, size)
        self.aclrtSynchronizeStream(None)

    def finish(self) -> None:
        """Releases what the helpers made; then nothing may be alive."""
        while self._owned:
            self.drop(self._owned[-1])
        if self.initialised:
            assert self.live() == 0, self.dump()
            self.aclrtResetDevice(0)
            self.aclFinalize()


def int64s(values: Sequence[int]) -> Any:
    return (ctypes.c_int64 * len(values))(*values)


_C = {
    "size_t": ctypes.c_size_t,
    "uint64_t": ctypes.c_uint64,
    "int64_t": ctypes.c_int64,
    "uint32_t": ctypes.c_uint32,
    "float": ctypes.c_float,
    "aclFloat16": ctypes.c_uint16,
    "aclrtStream": ctypes.c_void_p,
    "aclrtEvent": ctypes.c_void_p,
    "aclrtContext": ctypes.c_void_p,
    "aclrtAllocator": ctypes.c_void_p,
    "aclrtTaskGrp": ctypes.c_void_p,
    "aclmdlRI": ctypes.c_void_p,
    "aclmdlRITask": ctypes.c_void_p,
    "aclrtNotify": ctypes.c_void_p,
}


def _ctype(text: str) -> Any:
    bare = text.replace("const", "").strip()
    if "*" in text or "[" in text or bare.endswith(("Callback", "Func", "Handle", "Desc")):
        return ctypes.c_void_p
    return _C.get(bare, ctypes.c_int32)


def _restype(text: str) -> Any:
    if text == "const char *":
        return ctypes.c_char_p
    return None if text == "void" else _ctype(text)


def _argument(kind: Kind) -> Any:
    if kind is Kind.STRING:
        return ctypes.c_char_p
    if kind.pointer:
        return ctypes.c_void_p
    return {
        Kind.FLOAT: ctypes.c_float,
        Kind.DOUBLE: ctypes.c_double,
        Kind.BOOL: ctypes.c_bool,
        Kind.INT8: ctypes.c_int8,
        Kind.UINT32: ctypes.c_uint32,
        Kind.INT64: ctypes.c_int64,
        Kind.UINT64: ctypes.c_uint64,
    }.get(kind, ctypes.c_int32)
