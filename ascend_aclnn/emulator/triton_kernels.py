"""Triton's kernels on the emulated device: no compiler makes binaries of them, and none would run.

A kernel whose meaning a module of operators declares is launched as an operator, in stream order and in captured graphs too:

    @triton_kernel("vllm_ascend.ops.triton.rope._triton_rope")
    def rope(q_ptr, k_ptr, cos_ptr, ..., **_):      # the kernel's parameters by their names, and grid
        ops.triton_rope(q_ptr, k_ptr, cos_ptr, ...)

All others are run by Triton's interpreter, on device memory itself, after the work of the stream. The interpreter of
triton-ascend 3.2.0 lacks its extensions of the language; those that read and write parts of tensors are added.
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Mapping
from typing import Any, Callable

import numpy as np

from ascend_aclnn.emulator import operators

Launch = Callable[..., None]

_kernels: dict[str, Launch] = {}
# The parameter that has indices, of triton-ascend's extensions.
_INDICES = {"get_element": 1, "extract_slice": 1, "insert_slice": 2}


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
        kernel = self.declared
        if kernel is not None:
            values = {**self.defaults, **dict(zip(self.arg_names, args)), **kwargs}
            grid = self.grid(values) if callable(self.grid) else self.grid
            try:
                kernel(grid=tuple(grid), **values)
                return
            except NotImplementedError:
                pass
        run(self, *args, **kwargs)

    executor.__call__ = launch

    def executor_of(self: Any, grid: Any) -> Any:
        of_grid = executor(self.rewrite(), self.arg_names, grid)
        of_grid.declared, of_grid.defaults = _of_function(self.fn)
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
    """Device memory is mapped here: kernels read and write it where it lies, once the stream has come so far."""
    torch = sys.modules["torch"]
    devices = {value.device for value in (*args, *kwargs.values()) if isinstance(value, torch.Tensor) and value.is_npu}
    for device in devices:
        torch.npu.current_stream(device).synchronize()
    return args, kwargs


def _nothing_to_restore(*_: Any) -> None:
    pass


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

    patch = interpreter._patch_lang
    is_builtin = importlib.import_module("triton.language.core").is_builtin

    def patch_with_globals(function: Any) -> None:
        """As the interpreter's, and functions of the language that a kernel's module imported by their names."""
        for name, value in list(function.__globals__.items()):
            if callable(value) and is_builtin(value):
                function.__globals__[name] = with_builder(value, value.__name__)
        patch(function)

    interpreter._patch_lang = patch_with_globals
