"""Triton's kernels on the emulated device: no compiler makes binaries of them, and none would run.

A kernel whose meaning a module of operators declares is launched as an operator, in stream order and in captured graphs too:

    @triton_kernel("vllm_ascend.ops.triton.rope._triton_rope")
    def rope(q_ptr, k_ptr, cos_ptr, ..., **_):      # the kernel's parameters by their names, and grid
        ops.triton_rope(q_ptr, k_ptr, cos_ptr, ...)

All others are run by Triton's interpreter, on device memory itself, after the work of the stream; while it is captured, by a host
function of the graph. Under --validate the bytes that a kernel reads and writes are compared as those of a launch of its stream;
not so in graphs, where they are known only when it has run. The interpreter of triton-ascend 3.2.0 lacks its extensions of the
language; those that read and write parts of tensors are added. It also lacks triton-ascend's functions of reductions, and would
go through elements in Python.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import os
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Callable, Optional

import numpy as np

from ascend_aclnn.backends.npu import library
from ascend_aclnn.emulator import operators
from ascend_aclnn.emulator.faults import KERNEL_FAULT

Launch = Callable[..., None]

_kernels: dict[str, Launch] = {}
# The parameter that has indices, of triton-ascend's extensions.
_INDICES = {"get_element": 1, "extract_slice": 1, "insert_slice": 2}
# What triton-ascend's functions of reductions do with all of an axis: to values, and which index they give.
_REDUCTIONS: dict[str, tuple[Callable[..., Any], Optional[Callable[..., Any]]]] = {
    "_argmax_combine_tie_break_left": (np.max, np.argmax),
    "_argmin_combine_tie_break_left": (np.min, np.argmin),
    "_elementwise_max_default": (np.fmax.reduce, None),
    "_elementwise_max_propagate_nan": (np.max, None),
    "_elementwise_min": (np.fmin.reduce, None),
    "_xor_combine": (np.bitwise_xor.reduce, None),
}
_HOST_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)

_interpreting = threading.Lock()  # the interpreter has one grid position for all threads
_captured: list[Any] = []  # host functions of graphs, which may be replayed as long as the process lives


def triton_kernel(*names: str) -> Callable[[Launch], Launch]:
    """Declares what launches of kernels do, by the modules and names of their functions.

    The function gets a kernel's arguments by name and ``grid``, a tuple, and queues its work on torch's current stream.
    NotImplementedError leaves the launch to the interpreter.
    """

    def declare(launch: Launch) -> Launch:
        _kernels.update(dict.fromkeys(names, launch))
        return launch

    return declare


@functools.cache
def _declared() -> dict[str, Launch]:
    """All declarations, those of ASCEND_EMULATOR_OPERATORS included."""
    operators.load_from_environment()
    return _kernels


def extend(interpreter: Any) -> None:
    """Changes Triton's interpreter, a module, in place."""
    executor, function, builder = (
        interpreter.GridExecutor,
        interpreter.InterpretedFunction,
        interpreter.InterpreterBuilder,
    )
    executor._init_args_hst = _arguments_in_place
    executor._restore_args_dev = _nothing_to_restore
    run = executor.__call__

    def launch(self: Any, *args: Any, **kwargs: Any) -> None:
        if kwargs.get("warmup"):
            return
        kwargs = {name: value for name, value in kwargs.items() if name in self.arg_names}  # others are the compiler's
        values = {**self.defaults, **dict(zip(self.arg_names, args)), **kwargs}
        if self.declared is not None:
            try:
                self.declared(grid=tuple(self.grid(values) if callable(self.grid) else self.grid), **values)
                return
            except NotImplementedError:
                pass
        devices = {value.device for value in values.values() if _is_of_device(value)}
        captured = next(filter(_is_captured, devices), None)
        if captured is not None:
            if callable(self.grid):
                self.grid = self.grid(values)
            fixed = {name: _Address(value) if _is_of_device(value) else value for name, value in values.items()}
            _run_in_graph(self.fn.__name__, functools.partial(run, self, **fixed), captured)
            _count_as_used(self.fn.__name__, values)
            return
        with _uncounted():
            for device in devices:
                sys.modules["torch"].npu.current_stream(device).synchronize()
        with _interpreting, _compared(self.fn.__name__, values):
            run(self, *args, **kwargs)

    executor.__call__ = launch
    if _validates():
        interpreter._interpreter = _Watched(interpreter._interpreter)

    def executor_of(self: Any, grid: Any) -> Any:
        known = self.__dict__.get("known_executor")  # making one reads all annotations of the function
        if known is None:
            known = self.known_executor = executor(self.rewrite(), self.arg_names, None)
            known.declared, known.defaults = _of_function(self.fn)
        of_grid = executor.__new__(executor)
        of_grid.__dict__.update(known.__dict__, grid=grid)
        return of_grid

    function.__getitem__ = executor_of
    start = function.__init__

    def prepare(self: Any, fn: Any, **kwargs: Any) -> None:
        start(self, fn, **kwargs)
        self.run = lambda *args, **options: executor_of(self, options["grid"])(*args, **options)

    function.__init__ = prepare
    _add_extensions(interpreter, builder)


@functools.cache
def _of_function(function: Any) -> tuple[Launch | None, Mapping[str, Any]]:
    """The declaration for a kernel's function, and the defaults of its parameters."""
    import inspect

    parameters = inspect.signature(function).parameters.values()
    defaults = {p.name: p.default for p in parameters if p.default is not inspect.Parameter.empty}
    return _declared().get(f"{function.__module__}.{function.__qualname__}"), defaults


def _arguments_in_place(_: Any, args: Any, kwargs: Any) -> tuple[Any, Any]:
    """Device memory is mapped here: kernels read and write it where it lies."""
    return args, kwargs


def _nothing_to_restore(*_: Any) -> None:
    pass


# -------------------------------------------------------------------------------------------------- --validate


class _Accesses:
    """The bytes that an interpreted kernel reads and writes, as they come."""

    def __init__(self) -> None:
        self._ranges: dict[bool, list[Any]] = {False: [], True: []}  # read, written: arrays of starts and ends

    def add(self, addresses: Any, size: int, writes: bool) -> None:
        starts = np.unique(addresses)
        if starts.size > 0:
            self._ranges[writes].append(_joined(starts, starts + np.uint64(size)))

    def ranges(self) -> tuple[Any, Any, Any]:
        """Starts, ends and kinds of disjoint ranges: 0 read, 1 read and written, 2 written."""
        sets = []
        for ranges in self._ranges.values():
            starts, ends = np.concatenate(ranges, axis=1) if ranges else np.zeros((2, 0), np.uint64)
            order = np.argsort(starts, kind="stable")
            sets.append(_joined(starts[order], ends[order]))
        points = np.unique(np.concatenate([np.ravel(ranges) for ranges in sets]))
        at, to = points[:-1], points[1:]
        read, written = (
            np.searchsorted(starts, at, "right") > np.searchsorted(ends, at, "right") for starts, ends in sets
        )
        used = read | written
        return at[used], to[used], np.where(written, np.where(read, 1, 2), 0)[used]


def _joined(starts: Any, ends: Any) -> tuple[Any, Any]:
    """Ranges of bytes, by their starts, of which those that touch are one."""
    if starts.size == 0:
        return starts, ends
    reached = np.maximum.accumulate(ends)
    first = np.concatenate([[True], starts[1:] > reached[:-1]])
    return starts[first], reached[np.append(np.flatnonzero(first)[1:] - 1, starts.size - 1)]


_watched: Optional[_Accesses] = None  # of the kernel that is interpreted now


class _Watched:
    """The interpreter's functions that touch memory, which note where."""

    def __init__(self, functions: Any) -> None:
        self._functions = functions

    def __getattr__(self, name: str) -> Any:
        return getattr(self._functions, name)

    def load(self, addresses: Any, mask: Any, other: Any, dtype: Any) -> Any:
        _note(addresses, mask, np.dtype(dtype).itemsize, False)
        return self._functions.load(addresses, mask, other, dtype)

    def store(self, addresses: Any, values: Any, mask: Any) -> Any:
        _note(addresses, mask, values.dtype.itemsize, True)
        return self._functions.store(addresses, values, mask)

    def atomic_cas(self, addresses: Any, expected: Any, values: Any, order: Any) -> Any:
        for writes in (False, True):
            _note(addresses, True, values.dtype.itemsize, writes)
        return self._functions.atomic_cas(addresses, expected, values, order)

    def atomic_rmw(self, operation: Any, addresses: Any, values: Any, mask: Any, order: Any) -> Any:
        for writes in (False, True):
            _note(addresses, mask, values.dtype.itemsize, writes)
        return self._functions.atomic_rmw(operation, addresses, values, mask, order)


def _note(addresses: Any, mask: Any, size: int, writes: bool) -> None:
    if _watched is not None:
        _watched.add(np.asarray(addresses)[np.broadcast_to(mask, np.shape(addresses))], size, writes)


class _Access(ctypes.Structure):  # aclemuAccess
    _fields_ = [
        ("address", ctypes.c_void_p),
        ("size", ctypes.c_uint64),
        ("kind", ctypes.c_uint32),
        ("argument", ctypes.c_uint32),
    ]


def _validates() -> bool:
    return bool(os.environ.get("ASCEND_EMULATOR_VALIDATE"))


@contextmanager
def _uncounted() -> Iterator[None]:
    """Waits of this thread order nothing: a launch on a device does not wait."""
    runtime = library.already_loaded("libascendcl.so") if _validates() else None
    if runtime is not None:
        runtime.aclemuCountWaits(0)
    try:
        yield
    finally:
        if runtime is not None:
            runtime.aclemuCountWaits(1)


@contextmanager
def _compared(name: str, values: Mapping[str, Any]) -> Iterator[None]:
    """Interprets a kernel, and compares what it has accessed as a launch of the stream of its tensors' device."""
    global _watched
    runtime = library.already_loaded("libascendcl.so") if _validates() else None
    tensors = {argument: value for argument, value in values.items() if _is_of_device(value)}
    if runtime is None or not tensors:
        yield
        return
    accesses = _watched = _Accesses()
    try:
        yield
    finally:
        _watched = None
    _compare(runtime, name, tensors, *accesses.ranges())


def _compare(runtime: Any, name: str, tensors: Mapping[str, Any], starts: Any, ends: Any, kinds: Any) -> None:
    # Pointers lead into the tensor that begins last before them.
    begins = sorted((value.data_ptr(), argument) for argument, value in tensors.items())
    of = np.maximum(np.searchsorted(np.array([at for at, _ in begins], np.uint64), starts, "right"), 1) - 1
    rows = zip(starts.tolist(), (ends - starts).tolist(), kinds.tolist(), of.tolist())
    launched = (_Access * starts.size)(*(_Access(*row) for row in rows))
    stream = sys.modules["torch"].npu.current_stream(next(iter(tensors.values())).device).npu_stream
    arguments = " ".join(argument for _, argument in begins)
    compare = runtime.aclemuCompareLaunch
    compare.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t]
    status = compare(stream, name.encode(), arguments.encode(), launched, starts.size)
    if status != 0:
        raise RuntimeError(f"the kernel {name} cannot be compared with other launches: status {status}")


def _count_as_used(name: str, values: Mapping[str, Any]) -> None:
    """What an interpreted kernel of a graph accesses is not known before it has run: it may write all of its tensors."""
    runtime = library.already_loaded("libascendcl.so") if _validates() else None
    tensors = {argument: value for argument, value in values.items() if _is_of_device(value)}
    if runtime is None or not tensors:
        return
    starts = np.array([tensor.data_ptr() for tensor in tensors.values()], np.uint64)
    _compare(runtime, name, tensors, starts, starts + np.uint64(1), np.ones(starts.size, np.uint32))


# ---------------------------------------------------------------------------------------------------- graphs


class _Address:
    """A tensor for the interpreter. It holds no memory: that of a graph is the graph's."""

    def __init__(self, tensor: Any) -> None:
        self.dtype, self._address = tensor.dtype, tensor.data_ptr()

    def data_ptr(self) -> int:
        return int(self._address)


def _is_of_device(value: Any) -> bool:
    return isinstance(value, sys.modules["torch"].Tensor) and value.is_npu


def _is_captured(device: Any) -> bool:
    npu = sys.modules["torch"].npu
    with npu.device(device):
        return bool(npu.is_current_stream_capturing())


def _run_in_graph(name: str, interpret: Callable[[], None], device: Any) -> None:
    """Captures a host function that interprets a kernel whenever the graph is replayed. What it raises is its task's failure."""
    runtime = library.already_loaded("libascendcl.so")
    launch = getattr(runtime, "aclrtLaunchHostFunc", None)
    if runtime is None or launch is None:
        raise RuntimeError(
            f"the kernel {name} is captured, and interpreted; that needs aclrtLaunchHostFunc, from CANN 8.5.0 on"
        )
    fail = runtime.aclemuFailHostFunction

    def interpret_or_fail(_: Any) -> None:
        try:
            with _interpreting:
                interpret()
        except Exception as error:  # a function of C called this one
            fail(KERNEL_FAULT, f"the interpreted kernel {name} raised {type(error).__name__}: {error}".encode())

    function = _HOST_FUNCTION(interpret_or_fail)
    _captured.append(function)
    stream = ctypes.c_void_p(sys.modules["torch"].npu.current_stream(device).npu_stream)
    status = launch(stream, function, None)
    if status != 0:
        raise RuntimeError(f"the kernel {name} cannot be captured: aclrtLaunchHostFunc returned {status}")


# ------------------------------------------------------------------------------------------------- extensions


def _add_extensions(interpreter: Any, builder: Any) -> None:
    handle = interpreter.TensorHandle

    def part(offsets: Any, sizes: Any, strides: Any) -> tuple[slice, ...]:
        starts = [int(np.asarray(offset.data).item()) for offset in offsets]
        return tuple(
            slice(start, start + size * (stride or 1), stride or 1)
            for start, size, stride in zip(starts, map(int, sizes), map(int, strides))
        )

    def extract_scalar(_: Any, source: Any, indices: Any) -> Any:
        at = tuple(int(np.asarray(index.data).item()) for index in indices)
        return handle(np.array([source.data[at]], source.data.dtype), source.dtype)

    def extract_slice(_: Any, source: Any, offsets: Any, sizes: Any, strides: Any) -> Any:
        return handle(source.data[part(offsets, sizes, strides)].copy(), source.dtype)

    def insert_slice(_: Any, whole: Any, sub: Any, offsets: Any, sizes: Any, strides: Any) -> Any:
        data = whole.data.copy()
        data[part(offsets, sizes, strides)] = sub.data
        return handle(data, whole.dtype)

    for name, function in (
        ("create_extract_scalar", extract_scalar),
        ("create_extract_slice", extract_slice),
        ("create_insert_slice", insert_slice),
    ):
        if not hasattr(builder, name):
            setattr(builder, name, function)

    def with_builder(function: Callable[..., Any], name: str) -> Callable[..., Any]:
        """A function of the language for interpreted kernels, in which numbers of loops are Python's, and not tensors."""
        at = _INDICES.get(name)

        def call(*args: Any, **kwargs: Any) -> Any:
            if at is not None and at < len(args):
                indices = [interpreter._implicit_cvt(index) for index in args[at]]
                args = (*args[:at], indices, *args[at + 1 :])
            return function(*args, **{**kwargs, "_builder": interpreter.interpreter_builder})

        return call

    reduction = interpreter.ReduceOps
    reduce = reduction.apply_impl

    def reduce_as_a_whole(self: Any, inputs: Any) -> Any:
        function = getattr(self.combine_fn, "fn", self.combine_fn)
        known = _REDUCTIONS.get(function.__name__) if function.__module__.startswith("triton.") else None
        return reduce(self, inputs) if known is None else self.min_max(inputs[0], *known)

    reduction.apply_impl = reduce_as_a_whole

    patch = interpreter._patch_lang
    patched: dict[int, tuple[Any, int]] = {}  # namespaces, and how many names they had
    is_builtin = importlib.import_module("triton.language.core").is_builtin

    def patch_with_globals(function: Any) -> None:
        """As the interpreter's, and functions of the language that a kernel's module imported by their names. It lasts."""
        names = function.__globals__
        if patched.get(id(names)) == (names, len(names)):
            return
        patched[id(names)] = names, len(names)
        for name, value in list(names.items()):
            if callable(value) and is_builtin(value):
                names[name] = with_builder(value, value.__name__)
        patch(function)

    interpreter._patch_lang = patch_with_globals
