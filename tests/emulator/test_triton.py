"""Triton under emulator run, with a stand-in for its interpreter: the suite's environment has no Triton."""

from __future__ import annotations

import contextlib
import ctypes
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from emulator_client import NEWEST, Cann, client, run_body

from ascend_aclnn.cli.emulator import environment
from ascend_aclnn.emulator import triton_kernels

INTERPRETER = """
import ctypes
import numpy as np

class _interpreter:
    @staticmethod
    def load(pointers, mask, other, dtype):
        def at(pointer): return np.frombuffer(ctypes.string_at(int(pointer), np.dtype(dtype).itemsize), dtype)[0]
        return np.array([at(p) if m else o for p, m, o in zip(pointers, mask, other)], dtype)

    @staticmethod
    def store(pointers, values, mask):
        for pointer, value, stores in zip(pointers, values, mask):
            if stores: ctypes.memmove(int(pointer), value.tobytes(), values.dtype.itemsize)

    atomic_cas = atomic_rmw = None

class TensorHandle:
    def __init__(self, data, dtype):
        self.data, self.dtype = data, dtype

class InterpreterBuilder: pass

interpreter_builder = InterpreterBuilder()

class GridExecutor:
    def __init__(self, fn, arg_names, grid):
        self.fn, self.arg_names, self.grid = fn, arg_names, grid

    def _init_args_hst(self, args, kwargs): raise AssertionError("copies")
    def _restore_args_dev(self, *args): raise AssertionError("copies back")

    def __call__(self, *args, **kwargs):
        args, kwargs = self._init_args_hst(args, kwargs)
        _patch_lang(self.fn)
        self.fn(*args, **kwargs)
        self._restore_args_dev(args)

class ReduceOps:
    def __init__(self, axis, combine_fn, keep_dims):
        self.axis, self.combine_fn, self.keep_dims = axis, combine_fn, keep_dims

    def apply_impl(self, inputs): return "element by element"

    def min_max(self, data, of_values, of_indices=None):
        functions = (of_values,) if of_indices is None else (of_values, of_indices)
        return [function(data, axis=self.axis, keepdims=self.keep_dims).tolist() for function in functions]

def _patch_lang(fn): pass
def _implicit_cvt(value): return f"tensor of {value}"

class InterpretedFunction:
    def __init__(self, fn, **kwargs):
        self.fn = fn
        self.arg_names = list(fn.__code__.co_varnames[: fn.__code__.co_argcount])

    def rewrite(self): return self.fn
"""
CORE = "def is_builtin(function): return getattr(function, 'builtin', False)\n"


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """A directory with a package ``triton``."""
    for name, text in (("runtime/interpreter", INTERPRETER), ("language/core", CORE)):
        path = tmp_path / "triton" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        for folder in (path.parent, path.parent.parent):
            (folder / "__init__.py").touch()
    return tmp_path


@pytest.fixture
def interpreter(packages: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module, extended."""
    modules = stand_ins()
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(Tensor=()))
    monkeypatch.setattr(triton_kernels, "_kernels", {})
    triton_kernels._declared.cache_clear()
    triton_kernels._of_function.cache_clear()
    triton_kernels.extend(modules["triton.runtime.interpreter"])
    return modules["triton.runtime.interpreter"]


def stand_ins() -> dict[str, ModuleType]:
    """The modules of Triton that extending its interpreter takes."""
    names = ("triton", "triton.language", "triton.language.core", "triton.runtime.interpreter")
    modules = {name: ModuleType(name) for name in names}
    exec(CORE, modules["triton.language.core"].__dict__)
    exec(INTERPRETER, modules["triton.runtime.interpreter"].__dict__)
    return modules


def kernel(log: list[Any], x_ptr: Any, size: Any, BLOCK: int = 64) -> None:
    log.append(("interpreted", x_ptr, size, BLOCK))


def test_a_declared_kernel_is_launched_by_its_declaration(interpreter: ModuleType) -> None:
    """It gets arguments by name, defaults and the grid; what is meant for the compiler is left out."""

    @triton_kernels.triton_kernel(f"{__name__}.kernel")
    def launch(*, grid: tuple[int, ...], log: list[Any], size: int, **others: Any) -> None:
        if size > 100:
            raise NotImplementedError
        log.append((grid, size, others))

    log: list[Any] = []
    function = interpreter.InterpretedFunction(kernel)
    function[(3,)](log, "x", 5, num_warps=4)
    function.run(log, "x", size=6, BLOCK=8, grid=lambda values: (values["size"] // values["BLOCK"] + 1,), warmup=False)
    function[(1,)](log, "x", 7, warmup=True)
    function[(1,)](log, "x", 101, multibuffer=True)
    assert log == [
        ((3,), 5, {"x_ptr": "x", "BLOCK": 64}),
        ((1,), 6, {"x_ptr": "x", "BLOCK": 8}),
        ("interpreted", "x", 101, 64),
    ]


def test_another_kernel_is_interpreted_on_memory_in_place(interpreter: ModuleType) -> None:
    log: list[Any] = []
    array = np.zeros(2)
    interpreter.InterpretedFunction(kernel)[(1,)](log, array, 5, BLOCK=8)
    assert log == [("interpreted", array, 5, 8)] and log[0][1] is array


def test_parts_of_tensors_are_read_and_written(interpreter: ModuleType) -> None:
    builder, handle = interpreter.interpreter_builder, interpreter.TensorHandle
    data = np.arange(24).reshape(4, 6)
    source = handle(data.copy(), "int64")
    one, two = handle(np.array([1]), "int32"), handle(np.array([2]), "int32")
    assert builder.create_extract_scalar(source, [one, two]).data == data[1, 2]
    part = builder.create_extract_slice(source, [one, two], [2, 2], [1, 2])
    assert (part.data == data[1:3, 2:6:2]).all() and part.dtype == "int64"
    whole = builder.create_insert_slice(source, handle(-part.data, "int64"), [one, two], [2, 2], [1, 2])
    expected = data.copy()
    expected[1:3, 2:6:2] *= -1
    assert (whole.data == expected).all() and (source.data == data).all()


def test_reductions_of_triton_ascend_are_computed_as_a_whole(interpreter: ModuleType) -> None:
    def reduce(name: str, data: Any, module: str = "triton.language.standard") -> Any:
        function = SimpleNamespace(__name__=name, __module__=module)
        reduction = interpreter.ReduceOps(1, SimpleNamespace(fn=function), False)
        return reduction.apply_impl((data, np.arange(data.shape[1])))

    data = np.array([[3.0, 7.0, 7.0], [np.nan, 1.0, 0.0]])
    assert reduce("_argmax_combine_tie_break_left", data[:1]) == [[7], [1]]
    assert reduce("_argmin_combine_tie_break_left", -data[:1]) == [[-7], [1]]
    assert reduce("_elementwise_max_default", data) == [[7, 1]]
    assert np.isnan(reduce("_elementwise_max_propagate_nan", data)[0][1])
    assert reduce("_elementwise_min", data) == [[3, 0]]
    assert reduce("_xor_combine", np.array([[6, 3, 1]])) == [[4]]
    assert reduce("_my_own", data) == reduce("_elementwise_min", data, "kernels") == "element by element"


def test_functions_that_a_kernels_module_imported_by_name_get_the_builder(
    interpreter: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    def get_element(source: Any, indices: Any, _builder: Any = None) -> Any:
        return source, indices, _builder

    get_element.builtin = True  # type: ignore[attr-defined]
    monkeypatch.setitem(globals(), "get_element", get_element)
    interpreter.InterpretedFunction(kernel)[(1,)]([], 1, 2)
    assert globals()["get_element"]("x", (2,)) == ("x", ["tensor of 2"], interpreter.interpreter_builder)


class OnDevice:
    """A tensor of torch's on an NPU, as far as launches look at it."""

    is_npu, device, dtype = True, "npu:0", "float32"

    def __init__(self, address: int) -> None:
        self.address = address

    def data_ptr(self) -> int:
        return self.address


def extended(current_stream: Callable[[], SimpleNamespace], is_capturing: Callable[[], bool]) -> Any:
    """Triton's interpreter with the emulated device's extension, beside a torch_npu that has these streams."""
    npu = SimpleNamespace(
        device=contextlib.nullcontext,
        current_stream=lambda _: current_stream(),
        is_current_stream_capturing=is_capturing,
    )
    sys.modules.update(stand_ins())
    sys.modules["torch"] = SimpleNamespace(Tensor=OnDevice, npu=npu)  # type: ignore[assignment]
    interpreter = sys.modules["triton.runtime.interpreter"]
    triton_kernels.extend(interpreter)
    return interpreter


@client(ASCEND_EMULATOR_CANN="9.0.0")
def test_an_interpreted_kernel_is_captured_as_a_host_function(cann: Cann) -> None:
    """It runs at each replay in the order of the stream, holds no tensor, and its failure is the stream's."""
    stream = cann.create("aclrtCreateStream")
    captured = True

    interpreter = extended(lambda: SimpleNamespace(npu_stream=stream), lambda: captured)

    def add(x_ptr: Any, count: int, step: int = 1) -> None:
        values = np.frombuffer((ctypes.c_float * count).from_address(x_ptr.data_ptr()), np.float32)
        assert values[0] < 50, "fifty"
        values += step

    x = cann.tensor(np.full(4, 10, np.float32))
    cann.aclmdlRICaptureBegin(stream, 0)
    executor, size = cann.prepare("aclnnInplaceRelu", x)
    cann.launch("aclnnInplaceRelu", executor, size, stream)
    tensor = OnDevice(x.address)
    interpreter.InterpretedFunction(add)[lambda values: (values["count"],)](tensor, 4, step=20)
    references = sys.getrefcount(tensor)
    graph = ctypes.c_void_p()
    cann.aclmdlRICaptureEnd(stream, ctypes.byref(graph))
    captured = False
    assert cann.read(x).tolist() == [10] * 4 and references == 2
    for expected in (30, 50):
        cann.aclmdlRIExecuteAsync(graph, stream)
        cann.aclrtSynchronizeStream(stream)
        assert cann.read(x).tolist() == [expected] * 4
    cann.aclmdlRIExecuteAsync(graph, stream)
    error = cann.failure("aclrtSynchronizeStream", stream)
    assert error.status == 507015 and "the interpreted kernel add raised AssertionError: fifty" in error.message
    assert cann.read(x).tolist() == [50] * 4
    cann.aclmdlRIDestroy(graph)
    cann.aclrtDestroyStream(stream)


def body_compared(cann: Cann) -> None:
    """Kernels and operators on two streams; a line on standard error stands before each case."""
    first, second = cann.create("aclrtCreateStream"), cann.create("aclrtCreateStream")
    event = cann.create("aclrtCreateEvent")
    current = first

    interpreter = extended(
        lambda: SimpleNamespace(npu_stream=current, synchronize=lambda: cann.aclrtSynchronizeStream(current)),
        lambda: False,
    )
    memory = interpreter._interpreter

    def double(x_ptr: Any, y_ptr: Any, start: int, step: int) -> None:
        at = np.arange(start, 32, step, dtype=np.uint64) * np.uint64(4)
        mask = at < np.uint64(4 * 30)
        values = memory.load(at + np.uint64(x_ptr.data_ptr()), mask, np.zeros(at.size, np.float32), np.float32)
        memory.store(at + np.uint64(y_ptr.data_ptr()), values * np.float32(2), mask)

    x, y, z = (cann.tensor(np.ones((4, 8), np.float32)) for _ in range(3))

    def interpret(source: Any, out: Any, stream: int, start: int = 0, step: int = 1) -> None:
        nonlocal current
        current = stream
        interpreter.InterpretedFunction(double)[(1,)](OnDevice(source.address), OnDevice(out.address), start, step)

    def multiply(source: Any, out: Any, stream: int) -> None:
        executor, size = cann.prepare("aclnnMul", source, source, out)
        cann.launch("aclnnMul", executor, size, stream)

    def begin(name: str) -> None:
        cann.aclrtSynchronizeDevice()
        print("===", name, file=sys.stderr, flush=True)

    def wait() -> None:
        cann.aclrtRecordEvent(event, first)
        cann.aclrtStreamWaitEvent(second, event)

    for ordered in (True, False):
        begin(f"kernel, operator {ordered}")
        interpret(x, y, first)
        if ordered:
            wait()
        multiply(y, z, second)
        begin(f"operator, kernel {ordered}")
        multiply(x, y, first)
        if ordered:
            wait()
        interpret(y, z, second)
    begin("written before it is read")
    interpret(x, y, first)
    multiply(z, x, second)
    begin("each its own elements")
    interpret(x, y, first, 0, 2)
    interpret(x, y, second, 1, 2)
    begin("in place")
    interpret(y, y, first)
    interpret(y, y, second)
    begin("end")
    cann.aclrtDestroyEvent(event)
    for stream in (first, second):
        cann.aclrtDestroyStream(stream)


def body_captured(cann: Cann) -> None:
    """What only an interpreted kernel of a graph writes is read."""
    stream, captured = cann.create("aclrtCreateStream"), True

    interpreter = extended(lambda: SimpleNamespace(npu_stream=stream), lambda: captured)

    def count(y_ptr: Any) -> None:
        np.frombuffer((ctypes.c_float * 32).from_address(y_ptr.data_ptr()), np.float32)[:] = np.arange(32)

    fresh = cann.malloc(128)
    y, z = cann.describe((4, 8), np.float32, fresh), cann.tensor(np.zeros((4, 8), np.float32))
    cann.aclmdlRICaptureBegin(stream, 0)
    interpreter.InterpretedFunction(count)[(1,)](OnDevice(fresh))
    graph = ctypes.c_void_p()
    cann.aclmdlRICaptureEnd(stream, ctypes.byref(graph))
    captured = False
    cann.aclmdlRIExecuteAsync(graph, stream)
    executor, size = cann.prepare("aclnnMul", y, y, z)
    cann.launch("aclnnMul", executor, size, stream)
    cann.aclrtSynchronizeStream(stream)
    assert cann.read(z).ravel().tolist() == [float(n * n) for n in range(32)]
    cann.aclmdlRIDestroy(graph)
    cann.aclDestroyTensor(y)
    cann.aclrtFree(fresh)
    cann.aclrtDestroyStream(stream)


@pytest.mark.own_validation
def test_what_an_interpreted_kernel_of_a_graph_writes_is_written(emulator_home: Path) -> None:
    done = run_body(body_captured, emulator_home, ASCEND_EMULATOR_VALIDATE="sync,memory", ASCEND_EMULATOR_CANN=NEWEST)
    assert done.returncode == 0 and "never written" not in done.stderr and ": 0 findings" in done.stderr, done.stderr


@pytest.mark.own_validation
def test_interpreted_kernels_are_compared_with_launches(emulator_home: Path) -> None:
    """By the bytes that they touch; the interpreter's own waiting is no order, which a device would not have."""
    done = run_body(body_compared, emulator_home, ASCEND_EMULATOR_VALIDATE="sync,memory", ASCEND_EMULATOR_CANN=NEWEST)
    assert done.returncode == 0, done.stderr
    found: dict[str, list[str]] = {}
    for line in done.stderr.splitlines():
        pair = (
            r"EMULATOR_VALIDATE: (\S+): (\S+ \S+) \(launch .* is not ordered after (\S+ \S+) \(launch .*: (\d+) bytes"
        )
        match = re.match(pair, line)
        if line.startswith("==="):
            found[line[4:]] = []
        elif match:
            assert "test_triton.py:" in line and " in interpret < " in line
            list(found.values())[-1].append(", ".join(match.groups()))
    raw, war = "sync/read-after-write, ", "sync/write-after-read, "
    assert found == {
        "kernel, operator True": [],
        "operator, kernel True": [],
        "kernel, operator False": [
            raw + "aclnnMul self, double y_ptr, 120",
            raw + "aclnnMul other, double y_ptr, 120",
        ],
        "operator, kernel False": [raw + "double x_ptr, aclnnMul out, 120"],
        "written before it is read": [war + "aclnnMul out, double x_ptr, 120"],
        "each its own elements": [],
        "in place": [raw + "double y_ptr, double y_ptr, 120"],
        "end": [],
    }, done.stderr


def test_a_program_has_the_interpreter_extended_and_its_own_sitecustomize_run(
    emulator_home: Path, packages: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (packages / "sitecustomize.py").write_text("import builtins; builtins.customized = __file__\n", encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", f"{packages}:{':'.join(filter(None, sys.path))}")
    program = (
        "import sys; before = 'ascend_aclnn' in sys.modules; import triton.runtime.interpreter as module; "
        "print(before, hasattr(module.InterpreterBuilder, 'create_extract_scalar'), customized)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment(emulator_home), capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["False", "True", str(packages / "sitecustomize.py")], done.stderr
