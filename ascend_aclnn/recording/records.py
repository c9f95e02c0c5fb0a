"""What the chunks of a recording say, as Python objects; every field of a record that is read is checked here."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Optional, Union

import numpy as np

from ascend_aclnn.core.dtypes import DataType, Format
from ascend_aclnn.core.spec import TensorSpec, contiguous_strides

MOST_DIMS = 64
MOST_ITEMS = 1 << 20  # of a list in a record
_INT64 = 1 << 63
_DIGEST = re.compile("[0-9a-f]{32}")
_FRAMES = 1000


class TensorDescription(NamedTuple):
    """What aclCreateTensor was called with, but for the address. Data types and formats are CANN's numbers."""

    dtype: int
    format: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]  # elements
    offset: int  # elements, from the address
    storage_shape: tuple[int, ...]

    @classmethod
    def of(cls, spec: TensorSpec) -> TensorDescription:
        return cls(int(spec.dtype), int(spec.format), spec.shape, spec.strides, spec.offset, spec.storage_shape)

    @property
    def spec(self) -> TensorSpec:
        """The same as a TensorSpec; ValueError for a data type or format that this version does not know."""
        return TensorSpec(
            self.shape, DataType(self.dtype), self.strides, self.offset, Format(self.format), self.storage_shape
        )

    @property
    def byte_range(self) -> tuple[int, int]:
        """The bytes, counted from the address, that recorded data of such a tensor hold: the elements and what lies between.

        Of a private format it is the whole storage shape. (0, 0) for a tensor without elements or of an unknown data type.
        """
        bits = _bits(self.dtype)
        if not bits or any(n <= 0 for n in self.shape):
            return 0, 0
        if _private(self.format):
            low, high = self.offset, self.offset + math.prod(max(n, 0) for n in self.storage_shape)
        else:
            reach = [(n - 1) * step for n, step in zip(self.shape, self.strides)]
            low = self.offset + sum(r for r in reach if r < 0)
            high = self.offset + sum(r for r in reach if r > 0) + 1
        return low * bits // 8, -(-high * bits // 8)

    def to_json(self, number: int) -> dict[str, Any]:
        record = {"id": number, "dtype": self.dtype, "format": self.format, "shape": list(self.shape)}
        record["strides"], record["offset"] = list(self.strides), self.offset
        record["storage_shape"] = list(self.storage_shape)
        return record


class Prototype(NamedTuple):
    """An operator as the recording knows it: its C name, and its parameters in C order."""

    name: str
    parameters: tuple[str, ...]
    directions: tuple[str, ...]  # "in", "out" or "inout"


class TensorValue(NamedTuple):
    """A tensor argument: its description, its address, and the keys of its recorded bytes before and after the launch."""

    description: TensorDescription
    address: int
    before: Optional[str] = None
    after: Optional[str] = None


class ScalarValue(NamedTuple):
    """An aclScalar: CANN's number of its data type, and its bytes."""

    dtype: int
    data: bytes

    @property
    def value(self) -> Any:
        """The value as a Python number; the bytes where the data type has no NumPy counterpart."""
        numpy = DataType(self.dtype).numpy if self.dtype in _MEMBERS else None
        if numpy is None or numpy.itemsize != len(self.data):
            return self.data
        return np.frombuffer(self.data, numpy)[0].item()


class Value(NamedTuple):
    """The value of a parameter. ``content`` by ``kind``:

    "null" None; "tensor" TensorValue; "tensors" a tuple of TensorValue and None; "scalar" ScalarValue; "scalars" a tuple of
    ScalarValue; "integers", "floats", "booleans" tuples; "string" str; "number" float; "integer" int; "unknown" the
    address of a handle that the recorder has not seen made.
    """

    kind: str
    content: Any

    def tensors(self) -> Iterator[TensorValue]:
        """The tensors in it."""
        if self.kind == "tensor":
            yield self.content
        elif self.kind == "tensors":
            yield from (member for member in self.content if member is not None)


class Frame(NamedTuple):
    """A line of a call site; a negative line is the offset in a native file, as addr2line takes it."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        if self.line < 0:
            return f"{self.file}+{-self.line:#x}" + (f" in {self.function}" if self.function != "?" else "")
        return f"{self.file}:{self.line} in {self.function}"

    @property
    def installed(self) -> bool:
        """Whether it is a library's rather than the program's."""
        return any(part in self.file for part in _INSTALLED) or (self.line < 0 and ".so" in Path(self.file).name)


_INSTALLED = ("/site-packages/", "/dist-packages/", "/lib/python3", "ascend_aclnn")


def shown_frames(site: tuple[Frame, ...], most: int) -> tuple[Frame, ...]:
    """The innermost frames of a call site; the last one is the innermost of the program's own where none of these is."""
    own = next((frame for frame in site if not frame.installed), None)
    return site[:most] if own is None or own in site[:most] else (*site[: most - 1], own)


@dataclasses.dataclass(frozen=True)
class Launch:
    """An operator that was launched, or whose phase one was refused.

    It is in the file before phase two is called. What phase two returned follows: a program that crashed in it leaves a launch
    whose second status is None.
    """

    index: int  # counts the launches of the recording from 0
    operator: Prototype
    values: tuple[Value, ...]  # in C order, without workspaceSize and executor
    statuses: tuple[int, Optional[int]]  # of both phases; None where phase two was not called, or never returned
    workspace: tuple[int, int]  # bytes, address
    repeatable: bool
    stream: int  # the handle
    device: int
    threads: tuple[int, int]
    times: tuple[int, int, int, int]  # ns of the header's clock: phase one's begin and end, phase two's
    site: tuple[Frame, ...]  # the innermost first; () where it is not known
    error: str  # aclGetRecentErrMsg's text, where a phase failed
    left_out: str  # which data were left out, and why
    late: int = (
        0  # the status that the stream ended with behind the launch, where the recorder waited for it (with data)
    )

    @property
    def status(self) -> Optional[int]:
        """What it ended with: the first status that is a failure's, the late one too; None where phase two never returned."""
        first, second = self.statuses
        return first or (None if second is None else second or self.late)

    @property
    def named(self) -> dict[str, Value]:
        """The values by the parameters' C names."""
        return dict(zip(self.operator.parameters, self.values))


class Call(NamedTuple):
    """Any other function of CANN: memory, copies, streams, events, collectives."""

    name: str
    arguments: dict[str, Union[int, str]]  # what it was called with, and what it gave through pointers
    status: int
    device: int
    thread: int
    times: tuple[int, int]
    data: dict[str, str]  # keys of recorded bytes by the name of the argument; "NAME after": what a call has left in it
    error: str
    left_out: str = ""  # which data were left out, and why
    site: tuple[Frame, ...] = ()  # the innermost first; () where it is not known


class Header(NamedTuple):
    """What ran where. Absent facts are empty."""

    package: str  # the version of ascend_aclnn
    cann: str
    soc: str
    emulated: bool
    program: tuple[str, ...]
    environment: dict[str, str]  # variables of CANN, HCCL, torch_npu, ranks
    process: int
    host: str
    started: str  # UTC, ISO 8601
    clock: str  # what times count
    data: str  # the option --data
    rank: int  # -1 where there is none

    def to_json(self) -> dict[str, Any]:
        return {**self._asdict(), "program": list(self.program)}


class End(NamedTuple):
    """That the program ended in order, and what was recorded and left out until then."""

    launches: int
    calls: int
    left_out: str


# ------------------------------------------------------------------------------------------------- reading


class Fields:
    """The fields of a JSON object, each taken with its type checked: ValueError names the field."""

    def __init__(self, record: Any) -> None:
        if not isinstance(record, dict):
            raise ValueError(f"a {type(record).__name__} where an object must be")
        self._record = record

    def __contains__(self, name: str) -> bool:
        return name in self._record

    def keys(self) -> set[str]:
        return set(self._record)

    def take(self, name: str, default: Any = None) -> Any:
        if name not in self._record and default is None:
            raise ValueError(f"no field {name!r}")
        return self._record.get(name, default)

    def integer(self, name: str, default: Optional[int] = None, low: int = -_INT64, high: int = 2 * _INT64 - 1) -> int:
        return integer(name, self.take(name, default), low, high)

    def string(self, name: str, default: Optional[str] = None) -> str:
        return string(name, self.take(name, default))

    def boolean(self, name: str, default: Optional[bool] = None) -> bool:
        value = self.take(name, default)
        if not isinstance(value, bool):
            raise ValueError(f"{name} is {value!r:.100}; it must be true or false")
        return value

    def items(self, name: str, default: Any = None) -> list[Any]:
        return items(name, self.take(name, default))

    def integers(self, name: str, count: Optional[int] = None, low: int = -_INT64) -> tuple[int, ...]:
        listed = self.items(name)
        if count is not None and len(listed) != count:
            raise ValueError(f"{name} has {len(listed)} items; it must have {count}")
        return tuple(integer(name, item, low, 2 * _INT64 - 1) for item in listed)

    def table(self, name: str, of: Callable[[str, Any], Any]) -> dict[str, Any]:
        value = self.take(name, {})
        if not isinstance(value, dict) or len(value) > MOST_ITEMS:
            raise ValueError(f"{name} is a {type(value).__name__}; it must be an object")
        return {key: of(f"{name}.{key:.100}", item) for key, item in value.items()}


def integer(name: str, value: Any, low: int = -_INT64, high: int = 2 * _INT64 - 1) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise ValueError(f"{name} is {value!r:.100}; it must be an integer from {low} to {high}")
    return value


def string(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{name} is {value!r:.100}; it must be a string")
    return value


def items(name: str, value: Any) -> list[Any]:
    if not isinstance(value, list) or len(value) > MOST_ITEMS:
        raise ValueError(f"{name} is {value!r:.100}; it must be a list of at most {MOST_ITEMS} items")
    return value


def key_of_data(name: str, value: Any) -> str:
    if not isinstance(value, str) or _DIGEST.fullmatch(value) is None:
        raise ValueError(f"{name} is {value!r:.100}; it must be a key of data, 32 hexadecimal digits")
    return value


def argument(name: str, value: Any) -> Union[int, str]:
    return string(name, value) if isinstance(value, str) else integer(name, value)


def header(record: Any) -> Header:
    fields = Fields(record)
    return Header(
        fields.string("package", ""),
        fields.string("cann", ""),
        fields.string("soc", ""),
        fields.boolean("emulated", False),
        tuple(string("program", item) for item in fields.items("program", [])),
        fields.table("environment", string),
        fields.integer("process", 0),
        fields.string("host", ""),
        fields.string("started", ""),
        fields.string("clock", ""),
        fields.string("data", ""),
        fields.integer("rank", -1),
    )


def prototype(record: Any) -> Prototype:
    fields = Fields(record)
    parameters = tuple(string("parameters", item) for item in fields.items("parameters"))
    directions = tuple(string("directions", item) for item in fields.items("directions"))
    if len(parameters) != len(directions) or not set(directions) <= {"in", "out", "inout"}:
        raise ValueError(f"{len(parameters)} parameters with the directions {directions!r:.100}")
    return Prototype(fields.string("name"), parameters, directions)


def tensor(record: Any) -> TensorDescription:
    """A description; one whose numbers overflow 64 bits, or whose elements reach below the address, is refused."""
    fields = Fields(record)
    shape = fields.integers("shape")
    strides = fields.integers("strides") if "strides" in fields else contiguous_strides(shape)
    storage = fields.integers("storage_shape") if "storage_shape" in fields else shape
    description = TensorDescription(
        fields.integer("dtype", low=-(1 << 31), high=(1 << 31) - 1),
        fields.integer("format", low=-(1 << 31), high=(1 << 31) - 1),
        shape,
        strides,
        fields.integer("offset", 0, high=_INT64 - 1),
        storage,
    )
    if len(strides) != len(shape):
        raise ValueError(f"{len(strides)} strides for {len(shape)} dimensions")
    if max(len(shape), len(storage)) > MOST_DIMS:
        raise ValueError(f"{max(len(shape), len(storage))} dimensions; at most {MOST_DIMS} are read")
    if any(not -_INT64 <= n < _INT64 for n in (*shape, *strides, *storage)):
        raise ValueError("a size or stride that has more than 64 bits")
    return description


class Tables:
    """What launches refer to by number: descriptions of tensors, prototypes and call sites that came before them."""

    def __init__(self) -> None:
        self.tensors: list[TensorDescription] = []
        self.operators: list[Prototype] = []
        self.sites: list[tuple[Frame, ...]] = []

    def add(self, table: list[Any], record: Any, entry: Any) -> None:
        number = Fields(record).integer("id", low=0)
        if number != len(table):
            raise ValueError(f"id is {number}; the next one is {len(table)}")
        if number >= MOST_ITEMS:
            raise ValueError(f"more than {MOST_ITEMS} descriptions of one kind")
        table.append(entry)

    def site(self, record: Any) -> tuple[Frame, ...]:
        listed = Fields(record).items("frames")
        if len(listed) > _FRAMES:
            raise ValueError(f"a call site of {len(listed)} frames; at most {_FRAMES} are read")
        frames = []
        for item in listed:
            if not isinstance(item, list) or len(item) != 3:
                raise ValueError(f"frames has {item!r:.100}; it must be a file, a line and a function")
            frames.append(Frame(string("file", item[0]), integer("line", item[1]), string("function", item[2])))
        return tuple(frames)

    def launch(self, record: Any) -> Launch:
        fields = Fields(record)
        operator = at("op", self.operators, fields.integer("op", low=0))
        values = tuple(self.value(item) for item in fields.items("args"))
        if len(values) != len(operator.parameters):
            raise ValueError(
                f"{operator.name} has {len(operator.parameters)} parameters; {len(values)} values are here"
            )
        workspace, threads, times = (fields.integers(*of) for of in (("workspace", 2), ("threads", 2), ("times", 2)))
        site = fields.integer("site", -1, low=-1)
        return Launch(
            fields.integer("index", low=0),
            operator,
            values,
            (fields.integer("status"), None),
            (workspace[0], workspace[1]),
            fields.boolean("repeatable", False),
            fields.integer("stream", 0),
            fields.integer("device", 0),
            (threads[0], threads[1]),
            (times[0], times[1], 0, 0),
            () if site < 0 else at("site", self.sites, site),
            fields.string("error", ""),
            _each_once(fields.string("left_out", "")),
        )

    @staticmethod
    def returned(launch: Launch, record: Any) -> Launch:
        """The launch with what its phase two returned."""
        fields = Fields(record)
        times = fields.integers("times", 2)
        after = fields.items("after", [])
        values = launch.values
        if after:
            if len(after) != len(values):
                raise ValueError(f"after has {len(after)} items; {launch.operator.name} has {len(values)} parameters")
            values = tuple(_with_after(value, keys) for value, keys in zip(values, after))
        return dataclasses.replace(
            launch,
            values=values,
            statuses=(launch.statuses[0], fields.integer("status")),
            times=(*launch.times[:2], times[0], times[1]),
            late=fields.integer("late", 0),
            error=fields.string("error", launch.error),
            left_out=_each_once(f"{launch.left_out}; {fields.string('left_out', '')}"),
        )

    def call(self, record: Any) -> Call:
        fields = Fields(record)
        times = fields.integers("times", 2)
        site = fields.integer("site", -1, low=-1)
        return Call(
            fields.string("call"),
            fields.table("arguments", argument),
            fields.integer("status", 0),
            fields.integer("device", 0),
            fields.integer("thread", 0),
            (times[0], times[1]),
            fields.table("data", key_of_data),
            fields.string("error", ""),
            _each_once(fields.string("left_out", "")),
            () if site < 0 else at("site", self.sites, site),
        )

    def value(self, record: Any) -> Value:
        """The value of a parameter; see docs/recording.md."""
        if record is None:
            return Value("null", None)
        if isinstance(record, int) and not isinstance(record, bool):
            return Value("integer", integer("a value", record))
        fields = Fields(record)
        kinds = fields.keys() & set(_KINDS)
        if len(kinds) != 1:
            raise ValueError(f"a value with the fields {sorted(fields.keys())!r:.200}; one must say its kind")
        kind = kinds.pop()
        return Value(kind, _KINDS[kind](self, fields))

    def _tensor(self, fields: Fields) -> TensorValue:
        before = key_of_data("before", fields.take("before")) if "before" in fields else None
        description = at("tensor", self.tensors, fields.integer("tensor", low=0))
        return TensorValue(description, fields.integer("address", 0), before)

    def _tensors(self, fields: Fields) -> tuple[Optional[TensorValue], ...]:
        return tuple(None if item is None else self._tensor(Fields(item)) for item in fields.items("tensors"))

    def _scalar(self, fields: Fields) -> ScalarValue:
        text = fields.string("bytes")
        if re.fullmatch("([0-9a-f]{2}){1,16}", text) is None:
            raise ValueError(f"bytes is {text!r:.100}; it must be 1 to 16 bytes in hexadecimal digits")
        return ScalarValue(fields.integer("scalar"), bytes.fromhex(text))

    def _scalars(self, fields: Fields) -> tuple[Optional[ScalarValue], ...]:
        return tuple(None if item is None else self._scalar(Fields(item)) for item in fields.items("scalars"))

    def _integers(self, fields: Fields) -> tuple[int, ...]:
        return fields.integers("integers")

    def _floats(self, fields: Fields) -> tuple[float, ...]:
        return tuple(number("floats", item) for item in fields.items("floats"))

    def _booleans(self, fields: Fields) -> tuple[bool, ...]:
        listed = fields.items("booleans")
        if not all(isinstance(item, bool) for item in listed):
            raise ValueError(f"booleans is {listed!r:.100}; its items must be true or false")
        return tuple(listed)

    def _string(self, fields: Fields) -> str:
        return fields.string("string")

    def _number(self, fields: Fields) -> float:
        return number("number", fields.take("number"))

    def _unknown(self, fields: Fields) -> int:
        return fields.integer("unknown")


_KINDS: Mapping[str, Callable[[Tables, Fields], Any]] = {
    "tensor": Tables._tensor,
    "tensors": Tables._tensors,
    "scalar": Tables._scalar,
    "scalars": Tables._scalars,
    "integers": Tables._integers,
    "floats": Tables._floats,
    "booleans": Tables._booleans,
    "string": Tables._string,
    "number": Tables._number,
    "unknown": Tables._unknown,
}


def _with_after(value: Value, keys: Any) -> Value:
    """The value of a parameter with the keys of its data after the launch: null, a key, or a list of these."""
    if keys is None:
        return value
    if value.kind == "tensor":
        return Value("tensor", value.content._replace(after=key_of_data("after", keys)))
    listed = items("after", keys)
    if value.kind != "tensors" or len(listed) != len(value.content):
        raise ValueError(f"after has {len(listed)} keys for a value of the kind {value.kind!r}")
    pairs = zip(value.content, listed)
    return Value(
        "tensors",
        tuple(
            tensor if tensor is None or key is None else tensor._replace(after=key_of_data("after", key))
            for tensor, key in pairs
        ),
    )


_NOT_JSON = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


def number(name: str, value: Any) -> float:
    """A floating-point value; NaN and infinity are strings."""
    if isinstance(value, str) and value in _NOT_JSON:
        return _NOT_JSON[value]
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise ValueError(f"{name} is {value!r:.100}; it must be a number")
    return float(value)


def from_number(value: float) -> Union[float, str]:
    """The inverse of ``number``."""
    return value if math.isfinite(value) else "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"


def _each_once(reasons: str) -> str:
    """Reasons with "; " between them: the layer writes one for each tensor."""
    return "; ".join(dict.fromkeys(reason for reason in reasons.split("; ") if reason))


def end(record: Any) -> End:
    fields = Fields(record)
    return End(fields.integer("launches", low=0), fields.integer("calls", low=0), fields.string("left_out", ""))


def at(name: str, table: list[Any], index: int) -> Any:
    if index >= len(table):
        raise ValueError(f"{name} is {index}; {len(table)} have been described so far")
    return table[index]


_MEMBERS = frozenset(int(member) for member in DataType)
_FORMATS = frozenset(int(member) for member in Format)


def _bits(dtype: int) -> int:
    return DataType(dtype).bits if dtype in _MEMBERS else 0


def _private(format: int) -> bool:
    return format in _FORMATS and Format(format).private
