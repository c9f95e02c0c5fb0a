"""Comparisons that failed, as recordings: inputs, result and golden in a file that ``ascend-aclnn replay`` opens.

The last launches of such a recording are named ``compare``; each holds one result and its golden. Where the operator and its
inputs are known, its launch stands before them.
"""

from __future__ import annotations

import datetime
import os
import platform
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Optional, Union

import numpy as np
import numpy.typing as npt

from ascend_aclnn import catalog, selection
from ascend_aclnn.backends.interface import current_backend
from ascend_aclnn.call import plan
from ascend_aclnn.call.arguments import Invocation
from ascend_aclnn.call.outputs import bind_outputs
from ascend_aclnn.catalog import Kind, Operator
from ascend_aclnn.core import files
from ascend_aclnn.core.dtypes import DataType, as_datatype
from ascend_aclnn.core.scalar import Scalar
from ascend_aclnn.core.spec import TensorSpec
from ascend_aclnn.core.tensor import Tensor
from ascend_aclnn.creation import asarray
from ascend_aclnn.recording import (
    Header,
    Launch,
    Prototype,
    Recording,
    ScalarValue,
    TensorDescription,
    TensorValue,
    Value,
    Writer,
)
from ascend_aclnn.testing.compare import Comparison, as_array, compare
from ascend_aclnn.version import __version__

Array = npt.NDArray[Any]
Inputs = Union[Mapping[str, Any], Sequence[Any]]

VARIABLE = "ASCEND_ACLNN_FAILURES"  # the directory, or "off"
DIRECTORY = "aclnn-failures"  # without it, below the current directory
COMPARE = "compare"  # the name of a launch that holds a result and its golden
LIMIT = 64 << 20  # bytes of arrays in a file
MOST_FILES = 20  # that a process writes

_ALIGNMENT = 512  # of the addresses that a recording tells; they only keep its tensors apart
_FACTS = ("actual", "golden", "standard", "operator", "output", "dtype", "hf32", "rtol", "atol")
_KINDS = {
    Kind.INT_ARRAY: "integers",
    Kind.FLOAT_ARRAY: "floats",
    Kind.BOOL_ARRAY: "booleans",
    Kind.STRING: "string",
    Kind.FLOAT: "number",
    Kind.DOUBLE: "number",
}


class AccuracyError(AssertionError):
    """A result is not accurate. ``comparison`` tells by how much, ``inputs`` are those that ``assert_accurate`` got."""

    def __init__(self, text: str, comparison: Comparison, inputs: Optional[Inputs]) -> None:
        super().__init__(text)
        self.comparison = comparison
        self.inputs = inputs


def assert_accurate(
    actual: Any, golden: Any, standard: Optional[str] = None, *, inputs: Optional[Inputs] = None, **options: Any
) -> Comparison:
    """``compare`` that raises AssertionError, with the worst elements, where the result is not accurate.

    Result, golden and ``inputs`` are then written into a recording, which the message names. ``inputs``: the operator's arguments
    in the order of ``ops.x``, or any arrays by name. ASCEND_ACLNN_FAILURES is the directory ("aclnn-failures"), or "off". In
    pytest the plugin writes the files of failed tests instead (``--aclnn-failures``).
    """
    __tracebackhide__ = True  # pytest shows the line of the test
    comparison = compare(actual, golden, standard, **options)
    if not comparison.accurate:
        lines = [str(comparison)]
        if not _deferred:
            lines += written(comparison, inputs, os.environ.get(VARIABLE, DIRECTORY))
        raise AccuracyError("\n".join(lines), comparison, inputs)
    return comparison


_deferred: list[object] = []  # what writes the files of failures instead of assert_accurate: the pytest plugin


def defer(owner: object) -> None:
    """From now on ``owner`` writes the files of failures."""
    _deferred.append(owner)


def undefer(owner: object) -> None:
    _deferred.remove(owner)


_count = 0


def written(comparison: Comparison, inputs: Optional[Inputs], directory: Union[str, Path], name: str = "") -> list[str]:
    """Writes a failed comparison into a directory; lines that tell which file it is, and what opens it, or why there is none.

    ``name`` is that of the file without its suffix, one of that name is replaced; "": the operator's and a number.
    """
    global _count
    if str(directory) in ("", "off"):
        return []
    operator = comparison.options.get("operator") or ""
    if _count >= MOST_FILES and not name:
        return [f"not recorded: this process has written {MOST_FILES} files of failures"]
    try:
        Path(directory).mkdir(parents=True, exist_ok=True)
        _count += 1
        path = Path(directory) / f"{name or f'{operator or COMPARE}-{os.getpid()}-{_count}'}.aclnn"
        write(path, [(comparison, "")], operator, inputs)
    except (OSError, TypeError, ValueError) as error:
        return [f"not recorded: {error}"]
    return commands(path)


def commands(path: Path) -> list[str]:
    """Lines that name a recording of a failure, and what opens it."""
    shown = os.path.relpath(path) if path.is_relative_to(Path.cwd()) else str(path)
    return [
        f"recorded in {shown}:",
        f"  ascend-aclnn recording show {shown}",
        f"  ascend-aclnn replay {shown} --compare",
    ]


def file_name(text: str) -> str:
    """A text, such as the name of a test, as the name of a file."""
    short = re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-.")
    return short[-150:] or COMPARE


def write(
    path: Path,
    failed: Iterable[tuple[Comparison, str]],
    operator: str = "",
    inputs: Optional[Inputs] = None,
    before: Optional[Callable[[Writer], object]] = None,
    head: Optional[Header] = None,
) -> None:
    """Writes a recording of comparisons that failed, each with the name of its output ("" without one).

    ``before`` writes what stands in front; without it this is the operator's launch, where ``inputs`` are all of its arguments.
    Arrays beyond ``LIMIT`` bytes together are left out, and a note says so. A file that is there is replaced once the new one is
    complete. TypeError for arrays of a dtype that CANN has no counterpart of.
    """
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with Writer(part, head or header()) as writer:
            notes = []
            room = _Room(LIMIT)
            listed = list(failed)
            if before is not None:
                before(writer)
            elif operator and isinstance(inputs, Sequence) and len(listed) == 1:
                notes += _launch_lines(writer, catalog.get(operator), inputs, listed[0][0], room)
            for comparison, output in listed:
                _compare_launch(writer, comparison, operator, output, inputs, room)
                notes.append(str(comparison))
            if room.left_out:
                notes.append(f"left out, beyond {LIMIT} bytes: {', '.join(room.left_out)}")
            for note in notes:
                writer.note(note)
        files.move(part, path)
    except BaseException:
        files.discard(part)
        raise


class _Room:
    """How many bytes of arrays still fit, and the names of those that did not."""

    def __init__(self, limit: int) -> None:
        self._left = limit
        self.left_out: list[str] = []
        self.address = _ALIGNMENT  # the next one

    def takes(self, name: str, nbytes: int) -> bool:
        if nbytes > self._left:
            self.left_out.append(name)
            return False
        self._left -= nbytes
        return True

    def tensor(self, writer: Writer, name: str, array: Array) -> TensorValue:
        array = array.astype(array.dtype.newbyteorder("="), copy=False)
        spec = TensorSpec(array.shape, as_datatype(array.dtype))
        description = TensorDescription.of(spec)
        start, stop = description.byte_range
        before = writer.tensor(array, description) if stop > start and self.takes(name, stop - start) else None
        address = self.address
        self.address = following(address, stop)
        return TensorValue(description, address, before)


def following(address: int, nbytes: int) -> int:
    """The first aligned address behind a tensor."""
    end = address + max(nbytes, 1) + _ALIGNMENT
    return end - end % _ALIGNMENT


def header(soc: str = "", cann: str = "", emulated: bool = False, program: Sequence[str] = ()) -> Header:
    """The header of a recording of failures; without a SoC that of the backend in use."""
    if not soc:
        backend = current_backend()
        soc, emulated = backend.soc, backend.emulated
    chosen = (name for name in os.environ if name.startswith(("ASCEND_", "HCCL_")) and not name.endswith("_KEY"))
    variables = {name: os.environ[name] for name in chosen}
    started = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    command = tuple(program or (Path(sys.argv[0]).name, *sys.argv[1:]))
    return Header(
        __version__, cann, soc, emulated, command, variables, os.getpid(), platform.node(), started, "ns", "all", -1
    )


# ---------------------------------------------------------------------------------------------- results and goldens


def _compare_launch(
    writer: Writer, comparison: Comparison, operator: str, output: str, inputs: Optional[Inputs], room: _Room
) -> None:
    if comparison.arrays is None:
        raise ValueError("a comparison that has let go of its arrays cannot be recorded")
    options = comparison.options
    arrays = {"actual": comparison.arrays[0], "golden": comparison.arrays[1]}
    values = [Value("tensor", room.tensor(writer, name, array)) for name, array in arrays.items()]
    values += [Value("string", text) for text in (options["standard"], operator, output)]
    values += [Value("integer", int(comparison.dtype)), Value("integer", int(options["hf32"]))]
    values += [
        Value("null", None) if v is None else Value("number", float(v)) for v in (options["rtol"], options["atol"])
    ]
    names = list(_FACTS)
    for name, value in _named(operator, inputs):
        if name not in names:
            names.append(name)
            values.append(Value("tensor", room.tensor(writer, name, as_array(value))))
    writer.launch(Prototype(COMPARE, tuple(names), ("in",) * len(names)), values)


def _named(operator: str, inputs: Optional[Inputs]) -> Iterator[tuple[str, Any]]:
    """The inputs that are arrays, by name."""
    if inputs is None:
        return
    if isinstance(inputs, Mapping):
        pairs = list(inputs.items())
    else:
        parameters = catalog.get(operator).inputs if operator else ()
        names = [p.python_name for p in parameters] + [f"inputs[{at}]" for at in range(len(parameters), len(inputs))]
        pairs = list(zip(names, inputs))
    for name, value in pairs:
        if isinstance(value, (list, tuple)) and any(hasattr(member, "shape") for member in value):
            yield from ((f"{name}[{at}]", member) for at, member in enumerate(value))
        elif value is not None and not isinstance(value, (str, Scalar)):
            array = as_array(value)
            if array.dtype.kind not in "OUS":
                yield str(name), array


class Compared(NamedTuple):
    """What a ``compare`` launch of a recording says."""

    operator: str
    output: str
    comparison: Comparison


def compared(recording: Recording, launch: Launch) -> Compared:
    """Compares what a ``compare`` launch holds again. RecordingError, ValueError or TypeError where it holds something else."""
    named = launch.named
    kinds = {name: named[name].kind if name in named else "nothing" for name in _FACTS}
    wanted = {"actual": "tensor", "golden": "tensor", "standard": "string", "operator": "string", "output": "string"}
    if any(kinds[name] != kind for name, kind in {**wanted, "dtype": "integer", "hf32": "integer"}.items()):
        raise ValueError(f"launch {launch.index} of {recording.path} holds no comparison: {kinds}")
    actual, golden = (recording.array(named[name].content) for name in ("actual", "golden"))
    standard, dtype = named["standard"].content, DataType(named["dtype"].content)
    limits = {name: named[name].content for name in ("rtol", "atol") if kinds[name] == "number"}
    if standard == "double_benchmark":
        raise ValueError("it was judged beside a competitor's result, which is not in the file")
    operator, output = named["operator"].content, named["output"].content
    known = operator if operator in catalog.names() else None
    comparison = compare(
        actual,
        golden,
        None if limits else standard or None,
        dtype,
        operator=known,
        hf32=bool(named["hf32"].content),
        **limits,
    )
    return Compared(operator, output, comparison)


# ------------------------------------------------------------------------------------------------------- launches


def _launch_lines(
    writer: Writer, operator: Operator, inputs: Sequence[Any], comparison: Comparison, room: _Room
) -> list[str]:
    """Writes the launch of an operator with its inputs and its result; why not, where that cannot be."""
    if comparison.arrays is None or len(operator.outputs) != 1:
        return []
    size = comparison.arrays[0].nbytes + sum(as_array(value).nbytes for _, value in _named(operator.name, inputs))
    if not room.takes(f"the launch of {operator.name}", size):
        return []
    soc = current_backend().soc
    try:
        with selection.use_backend("numpy", soc=soc):
            record_launch(writer, operator, inputs, None, [comparison.arrays[0]], room.address)
    except Exception as error:  # inputs that are not the operator's: the comparison is worth recording without it
        return [f"no launch of {operator.name} is recorded: {type(error).__name__}: {error}"]
    room.address += 1 << 40
    return []


def record_launch(
    writer: Writer,
    operator: Operator,
    inputs: Sequence[Any],
    out: Any,
    results: Sequence[Any],
    address: int = _ALIGNMENT,
    **fields: Any,
) -> None:
    """Records a launch with the arguments of ``ops.x`` and results in the order of the outputs. The NumPy backend is in use.

    ``out`` is as for ``ops.x``; None: as the operator's rule infers it. ``fields`` are those of ``Writer.launch``. The errors are
    those of a call.
    """
    names = tuple(p.name for p in operator.parameters)
    prototype = Prototype(operator.name, names, tuple(p.direction for p in operator.parameters))
    arguments = list(inputs) + [p.default for p in operator.inputs[len(inputs) :]]
    invocation = Invocation(current_backend(), plan(operator), True)
    invocation.bind_inputs([_with_memory(p.kind, value) for p, value in zip(operator.inputs, arguments)])
    bind_outputs(invocation, out)
    wrote = iter(results)
    values = []
    for parameter, value in zip(operator.parameters, invocation.values):
        result = next(wrote, None) if parameter.direction != "in" else None
        recorded, address = _value(writer, parameter, value, result, address)
        values.append(recorded)
    writer.launch(prototype, values, **fields)


def _with_memory(kind: Kind, value: Any) -> Any:
    """Arrays as Tensors of the backend in use, with memory of their own."""
    if kind is Kind.TENSOR_LIST and isinstance(value, (list, tuple)):
        return [_with_memory(Kind.TENSOR, member) for member in value]
    if kind is not Kind.TENSOR or value is None:
        return value
    if isinstance(value, Tensor) and value.storage.backend is current_backend():
        return value
    return asarray(as_array(value))


def _value(writer: Writer, parameter: Any, value: Any, result: Any, address: int) -> tuple[Value, int]:
    """A recorded value, and the first address behind it. The tensors of ``value`` take the results."""
    if value is None:
        return Value("null", None), address
    if isinstance(value, Tensor):
        tensor, address = _tensor(writer, parameter, value, result, address)
        return Value("tensor", tensor), address
    if parameter.kind is Kind.TENSOR_LIST:
        members: list[Optional[TensorValue]] = []
        for at, member in enumerate(value):
            part = result[at] if isinstance(result, (list, tuple)) and at < len(result) else None
            recorded = None
            if member is not None:
                recorded, address = _tensor(writer, parameter, member, part, address)
            members.append(recorded)
        return Value("tensors", tuple(members)), address
    if parameter.kind is Kind.SCALAR:
        return Value("scalar", _scalar(value)), address
    if parameter.kind is Kind.SCALAR_LIST:
        return Value("scalars", tuple(map(_scalar, value))), address
    kind = _KINDS.get(parameter.kind, "integer")
    content = int(value) if kind == "integer" else value
    return Value(kind, content), address


def _scalar(scalar: Scalar) -> ScalarValue:
    return ScalarValue(int(scalar.dtype), scalar.tobytes())


def _tensor(writer: Writer, parameter: Any, tensor: Tensor, result: Any, address: int) -> tuple[TensorValue, int]:
    description = TensorDescription.of(tensor)
    start, stop = description.byte_range
    before = after = None
    if stop > start:
        if parameter.direction != "out":
            before = writer.data(tensor.storage.read(start, stop - start))
        if result is not None and as_datatype(np.asarray(result).dtype) is tensor.dtype:
            _assign(tensor, np.asarray(result))
            after = writer.data(tensor.storage.read(start, stop - start))
    return TensorValue(description, address, before, after), following(address, stop)


def _assign(tensor: Tensor, result: Any) -> None:
    """Puts a result into the tensor; one whose shape data tell comes to the front of what was allocated."""
    if result.shape == tensor.shape:
        tensor.assign(result)
    elif result.size <= tensor.size:
        tensor.storage.write(0, np.ascontiguousarray(result).reshape(-1).view(np.uint8))


__all__ = [
    "COMPARE",
    "DIRECTORY",
    "LIMIT",
    "MOST_FILES",
    "VARIABLE",
    "AccuracyError",
    "Compared",
    "assert_accurate",
    "commands",
    "compared",
    "defer",
    "file_name",
    "header",
    "record_launch",
    "undefer",
    "write",
    "written",
]
