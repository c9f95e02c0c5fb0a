"""What every aclnn operator takes: prototypes and documented facts, as data.

``get(name)`` reads one operator's entry on first use; ``names()`` lists all of them without parsing any entry. The data
lies beside this module, one JSON file per family; entries are separated by blank lines, so that one can be read, and
corrected, alone:

``data/``          what CANN's public headers and documents state; ``sources.json`` has the commits they were read at
``descriptions/``  what each operator computes: a sentence, and a formula in the names of its Python parameters
``meanings.json``  what parameters mean, by name and kind
``chinese.json``   the sentences of ``descriptions/`` in Chinese
``relations.json`` gradient operators whose names do not say of which operator
``examples/``      a call of each operator that has a reference, and its result
``overlay.json``   corrections of that, a reason each
``defaults.json``  defaults of attributes, the evidence of each
``gradients.json``  gradients of inputs, as expressions of operators and torch functions: see ``Operator.gradients``
``other_names.json``  names of torch and NumPy, and the operators that are meant
``traits.json``    what prototypes and documents do not say: data-dependent shapes, workspaces, standards of accuracy
"""

from __future__ import annotations

import enum
import functools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, NamedTuple, Optional

from ascend_aclnn.catalog.naming import operator_python_name, operator_python_names, parameter_python_name
from ascend_aclnn.core.dtypes import DataType

FOLDER = Path(__file__).parent
DATA = FOLDER / "data"


class Kind(enum.Enum):
    """What a C parameter is, by its C type."""

    TENSOR = "aclTensor*"
    TENSOR_LIST = "aclTensorList*"
    SCALAR = "aclScalar*"
    SCALAR_LIST = "aclScalarList*"
    INT_ARRAY = "aclIntArray*"
    FLOAT_ARRAY = "aclFloatArray*"
    BOOL_ARRAY = "aclBoolArray*"
    STRING = "char*"
    DATA_TYPE = "aclDataType"
    FLOAT = "float"
    DOUBLE = "double"
    BOOL = "bool"
    INT8 = "int8_t"
    INT32 = "int32_t"
    UINT32 = "uint32_t"
    INT64 = "int64_t"
    UINT64 = "uint64_t"

    __hash__ = object.__hash__  # enum's own is a function of Python

    def __init__(self, ctype: str) -> None:
        self.pointer = ctype.endswith("*")
        self.integer = ctype.endswith("_t")


class _Required:
    """The default of a required Python parameter that stands after an optional one."""

    def __repr__(self) -> str:
        return "<required>"


REQUIRED: Any = _Required()


@dataclass(frozen=True)
class Parameter:
    """One parameter of phase one, in C order; workspaceSize and executor are not among them."""

    name: str  # as in C
    ctype: str  # "const aclTensor*"
    direction: str  # "in", "out" or "inout"
    optional: bool  # a null pointer is allowed
    dtypes: Optional[tuple[str, ...]] = None  # documented names of DataType ("FLOAT", "BF16"), None where not stated
    formats: Optional[tuple[str, ...]] = None  # documented names of Format
    rank: Optional[str] = None  # as documented: "2", "1-8", "<=8", "any", "same:x" or a symbolic shape
    noncontiguous: Optional[bool] = None
    default: Any = REQUIRED  # the documented default of an attribute

    @property
    def kind(self) -> Kind:
        return _kind(self.ctype)

    @property
    def python_name(self) -> str:
        return parameter_python_name(self.name, self.direction)


@functools.cache
def _kind(ctype: str) -> Kind:
    bare = ctype.replace("const ", "").replace(" ", "")
    return Kind("int32_t" if bare == "int" else bare)


class Example(NamedTuple):
    """A call of an operator as Python text, and what it prints."""

    call: str  # "ops.relu(np.array([-1, 0, 2], np.float32))"; names: aclnn, comm (of one rank), ml_dtypes, np, ops
    result: str  # "array([0., 0., 2.], dtype=float32)"
    shown: str = "{}"  # the part of the result that is printed: "{}.shape" where the whole would be too long
    soc: Optional[str] = None  # the one whose rules allow the call, where the default's do not

    @property
    def text(self) -> str:
        """The text that a user types."""
        return self.shown.format(self.call)


PHASE_ONE = "GetWorkspaceSize"  # what follows the name of an operator in that of its phase one


@dataclass(frozen=True, eq=False)  # one object per operator: compared and hashed by identity
class Operator:
    """One aclnn operator: its C prototype and what its document says."""

    name: str
    parameters: tuple[Parameter, ...]
    header: str  # include path, "aclnnop/aclnn_add.h"
    family: str  # "ops-nn/norm"
    document: Optional[str] = None
    products: Optional[tuple[str, ...]] = None  # "A2", "A3", "310P", "910", "310B", "950"
    since: str = ""  # oldest snapshot known to have it: "8.1.RC1", or the month of the public sources ("2026-08")
    experimental: bool = False
    product_dtypes: Optional[dict[str, dict[str, dict[str, list[str]]]]] = None
    statuses: tuple[str, ...] = ()  # documented: "161002 rank", in the order of the document
    determinism: Optional[dict[str, str]] = None  # product -> "deterministic", "switchable", ...
    phase_two: tuple[tuple[str, str], ...] = ()  # (C type, name) of what phase two takes again, before the stream
    variants: Optional[dict[str, list[dict[str, str]]]] = None  # snapshot -> parameters of an incompatible prototype

    @property
    def python_name(self) -> str:
        return operator_python_name(self.name)

    @property
    def phase_one(self) -> str:
        """Name of the C function of phase one."""
        return self.name + PHASE_ONE

    @functools.cached_property
    def inputs(self) -> tuple[Parameter, ...]:
        """Parameters that the Python function takes: in and inout, in C order."""
        return tuple(p for p in self.parameters if p.direction != "out")

    @functools.cached_property
    def outputs(self) -> tuple[Parameter, ...]:
        """Parameters that the Python function returns: inout and out, in C order."""
        return tuple(p for p in self.parameters if p.direction != "in")

    @functools.cached_property
    def positions(self) -> dict[str, int]:
        """Position of each C parameter by name."""
        return {p.name: i for i, p in enumerate(self.parameters)}

    @functools.cached_property
    def groups(self) -> tuple[int, ...]:
        """Positions of the parameters that name a communicator."""
        names = ("group", "groupEp", "groupTp", "commGroup", "epGroupName")
        return tuple(i for i, p in enumerate(self.parameters) if p.name in names and p.kind is Kind.STRING)

    @property
    def summary(self) -> str:
        """What the operator computes, in one sentence; "" where that is not known (a vendor's)."""
        return _description(self)[0]

    @property
    def formula(self) -> str:
        """What it computes, in the names of the Python function; "" where the summary says it all."""
        return _description(self)[1]

    @property
    def chinese_summary(self) -> str:
        """The summary in Chinese; "" where there is none yet."""
        rows = _chinese()
        plain = self.name.replace("aclnnInplace", "aclnn")
        if self.name in rows or plain not in rows or not self.outputs:
            return rows.get(self.name, "")
        return f"{rows[plain]}原地操作：结果写回 {self.outputs[0].python_name}。"

    @property
    def example(self) -> Optional[Example]:
        """A call that runs on the NumPy backend; None where there is no reference."""
        row = _row(FOLDER / "examples" / (self.family.replace("/", ".") + ".json"), self.name)
        return None if row is None else Example(**row)

    @property
    def url(self) -> Optional[str]:
        """Where the operator's document can be read."""
        if self.document is None:
            return None
        repository, _, path = self.document.partition("/")
        pattern, revisions = _documents()
        revision = revisions.get(self.document, revisions["*"])
        return pattern.format(repository=repository, revision=revision, path=path)

    @functools.cached_property
    def gradients(self) -> dict[str, str]:
        """Gradients of inputs as Python expressions; {} where none is known.

        The key names the inputs whose gradients the results are, in order; "x1,x2": both have the same one. The names in an
        expression are the inputs and outputs of the Python function, ``grad_<output>``, operators (``rms_norm_grad``), and
        the helpers of ``ascend_aclnn.torch_ops``.
        """
        return _row(FOLDER / "gradients.json", self.name) or {}

    @functools.cached_property
    def data_dependent(self) -> bool:
        """Some outputs' shapes depend on data: they are allocated for the worst case and cut after phase two."""
        return _has_trait("data_dependent", self)

    @property
    def dynamic_axis(self) -> Optional[int]:
        """The axis along which the only output's size depends on data; None where that is not known, or no such thing."""
        axes: dict[str, int] = _rows()["dynamic_axis"]["operators"]
        return axes.get(self.name)

    @functools.cached_property
    def chosen_output(self) -> Optional[str]:
        """Why no rule can infer an output, so that it has to be passed; None where a rule does."""
        reasons: dict[str, str] = _rows()["chosen_outputs"]["operators"]
        return reasons.get(self.name)

    @functools.cached_property
    def not_empty(self) -> Sequence[str]:
        """The tensors that must have elements: by the operator's document, and for every reference."""
        names: dict[str, list[str]] = _rows()["not_empty"]["operators"]
        return names.get(self.name, ())

    @functools.cached_property
    def unwritten_outputs(self) -> Mapping[str, str]:
        """Outputs for which CANN takes memory in every call, and the attribute (bool) without which it is not written."""
        names: dict[str, dict[str, str]] = _rows()["unwritten_outputs"]["operators"]
        return names.get(self.name, {})

    @functools.cached_property
    def idle_if_empty(self) -> Sequence[str]:
        """The inputs without whose elements CANN computes nothing: outputs are 0, in-place tensors stay as they are."""
        names: dict[str, list[str]] = _rows()["idle_if_empty"]["operators"]
        return names.get(self.name, ())

    @functools.cached_property
    def needs_workspace(self) -> bool:
        return not _has_trait("no_workspace", self)

    @functools.cached_property
    def repeatable(self) -> bool:
        """CANN can keep an executor of the operator."""
        return not _has_trait("not_repeatable", self)

    @functools.cached_property
    def accuracy_standard(self) -> str:
        """How ``testing.compare`` judges a result of the operator by default: a name of ``testing.STANDARDS``."""
        for standard in ("bit_equal", "off_by_one", "unspecified"):
            if _has_trait(f"accuracy_{standard}", self):
                return standard
        return "default"

    @functools.cached_property
    def keeps_arguments(self) -> bool:
        """Phase one does not change its aclTensors: known from the source, for CANN's own operators."""
        is_own = self.name in _index() and _registered.get(self.name) is not self
        return is_own and not self.rewrites_arguments and not _has_trait("source_not_read", self)

    @functools.cached_property
    def rewrites_arguments(self) -> bool:
        """Phase one is known to change the description of an aclTensor that it is given."""
        return _has_trait("rewrites_arguments", self)

    @functools.cached_property
    def knows_tensor_indices(self) -> bool:
        """CANN's executor numbers tensors by counting parameters: known from the source, for CANN's own operators."""
        is_own = self.name in _index() and _registered.get(self.name) is not self
        return is_own and not _has_trait("tensor_indices", self)

    @functools.cached_property
    def slots(self) -> frozenset[str]:
        """The arrays and scalars that CANN's executor counts among the input tensors, as far as one comes after them."""
        names: dict[str, list[str]] = _rows()["tensor_indices"]["slots"]
        return frozenset(names.get(self.name, ()))

    def dtypes(self, parameter: Parameter, product: str) -> Optional[tuple[DataType, ...]]:
        """Documented dtypes of a parameter on one product ("A2"), None where the document does not say."""
        names = parameter.dtypes
        notes = (self.product_dtypes or {}).get(product, {})
        for key in ("*", parameter.name):
            note = notes.get(key, {})
            if names is not None and "only" in note and (key != "*" or set(names) & set(note["only"])):
                names = tuple(note["only"])
            if names is not None and "not" in note:
                names = tuple(n for n in names if n not in note["not"])
        return None if names is None else tuple(DataType[n] for n in names)


@functools.cache
def _rows() -> dict[str, Any]:
    """traits.json."""
    rows: dict[str, Any] = json.loads(_text(FOLDER / "traits.json"))
    return rows


@functools.cache
def _traits() -> dict[str, tuple[frozenset[str], frozenset[str]]]:
    rows = _rows()
    return {
        trait: (frozenset(row.get("operators", ())), frozenset(row.get("families", ()))) for trait, row in rows.items()
    }


def _has_trait(trait: str, operator: Operator) -> bool:
    operators, families = _traits()[trait]
    return operator.name in operators or operator.family in families


@functools.cache
def _index() -> dict[str, str]:
    """C name -> file of its family, in the order of names."""
    files = {}
    for path in DATA.glob("ops-*.json"):
        files.update(dict.fromkeys(re.findall('\n"([a-zA-Z0-9]+)": ', _text(path)), path.name))
    return {name: files[name] for name in sorted(files)}


@functools.cache
def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


def _row(path: Path, name: str) -> Any:
    """One entry of a file, parsed alone (a file as a whole takes a hundred times as long); None where it has none."""
    text = _text(path)
    start = text.find(f'\n"{name}": ')
    return None if start < 0 else json.JSONDecoder().raw_decode(text, start + len(name) + 5)[0]


@functools.cache
def _corrections() -> dict[str, list[dict[str, Any]]]:
    corrections: dict[str, list[dict[str, Any]]] = {}
    for row in json.loads(_text(FOLDER / "overlay.json")):
        corrections.setdefault(row["operator"], []).append(row)
    return corrections


def _entry(name: str) -> Any:
    """What the sources state of an operator, with defaults and corrections."""
    entry = _row(DATA / _index()[name], name)
    rows = {row["name"]: row for row in entry["parameters"]}
    for parameter, default in (_row(FOLDER / "defaults.json", name) or {}).items():
        rows[parameter]["default"] = default["value"]
    for correction in _corrections().get(name, ()):
        for target in [rows[p] for p in correction["parameter"].split()] if "parameter" in correction else [entry]:
            target.update(correction["set"])
    return entry


@functools.cache
def _documents() -> tuple[str, dict[str, str]]:
    """The pattern of documents' URLs, and the revision of those that have left the newest one."""
    sources = json.loads(_text(FOLDER / "sources.json"))
    return sources["documents"], sources["revisions"]


@functools.cache
def _chinese() -> dict[str, str]:
    rows: dict[str, str] = json.loads(_text(FOLDER / "chinese.json"))
    return rows


@functools.cache
def _description(operator: Operator) -> tuple[str, str]:
    """Summary and formula. An in-place operator without a row of its own does what the operator of the plain name does."""
    path = FOLDER / "descriptions" / (operator.family.replace("/", ".") + ".json")
    row = _row(path, operator.name)
    if row is not None:
        return row["summary"], row.get("formula", "")
    row = _row(path, operator.name.replace("aclnnInplace", "aclnn"))
    if row is None or not operator.outputs:
        return "", ""
    changed = operator.outputs[0].python_name
    formula = re.sub(r"\bout\b", changed, row.get("formula", "")).replace(f"{changed} = {changed}; ", "")
    return f"{row['summary']} In place: the result replaces {changed}.", formula


_registered: dict[str, Operator] = {}


def names() -> Iterator[str]:
    """The C name of every operator."""
    yield from _index()
    yield from (name for name in _registered if name not in _index())


def get(name: str) -> Operator:
    """An operator's entry by its C name, the same object each time; KeyError where there is none."""
    return _registered.get(name) or _read(name)


@functools.cache
def _read(name: str) -> Operator:
    return operator_from_json(name, _entry(name))


@functools.cache
def helpers() -> dict[str, dict[str, Any]]:
    """The host-only functions beside the operators: header, family, since, return type and full argument list."""
    functions: dict[str, dict[str, Any]] = json.loads((DATA / "helpers.json").read_text(encoding="utf-8"))
    return functions


def operator_from_json(name: str, entry: dict[str, Any]) -> Operator:
    """An Operator from its entry in the data files."""
    rows = (dict(row) for row in entry["parameters"])
    parameters = tuple(
        Parameter(
            name=row["name"],
            ctype=row["ctype"],
            direction=row.get("direction", "in"),
            optional=row.get("optional", False),
            dtypes=tuple(row["dtypes"].split()) if "dtypes" in row else None,
            formats=tuple(row["formats"].split()) if "formats" in row else None,
            rank=row.get("rank"),
            noncontiguous=row.get("noncontiguous"),
            default=tuple(row["default"]) if isinstance(row.get("default"), list) else row.get("default", REQUIRED),
        )
        for row in rows
    )
    same = ("document", "since", "experimental", "product_dtypes", "determinism", "variants")
    return Operator(
        name,
        parameters,
        entry["header"],
        entry["family"],
        products=tuple(entry["products"].split()) if "products" in entry else None,
        statuses=tuple(entry.get("statuses", ())),
        phase_two=tuple((row["ctype"], row["name"]) for row in entry.get("phase_two", ())),
        **{key: entry[key] for key in same if key in entry},
    )


@functools.cache
def other_names() -> dict[str, str]:
    """What torch and NumPy call a function -> the Python names of its operators here, separated by spaces."""
    rows: dict[str, str] = json.loads(_text(FOLDER / "other_names.json"))
    return rows


def unknown_name(name: str) -> str:
    """The message about a C name that no operator has."""
    import difflib  # for errors only

    close = difflib.get_close_matches(name, list(names()), 1, 0.6)
    hint = f"did you mean {close[0]!r}?" if close else "names are as in C, like 'aclnnRmsNormGrad'"
    return f"no operator {name!r} in the catalog; {hint}"


def register(operator: Operator) -> None:
    """Adds an operator that is not in the catalog (a vendor's, or one of a newer CANN), or replaces one for this process."""
    other = python_names().get(operator.python_name)
    if other not in (None, operator.name):
        raise ValueError(f"{operator.name} would be ops.{operator.python_name}, which is {other} already")
    _registered[operator.name] = operator
    _drop_what_was_made(operator)


def registered() -> list[str]:
    """The C names of the operators that this process has registered."""
    return list(_registered)


def forget(name: str) -> None:
    """Undoes ``register``: the operator is again as the catalog has it, or not there."""
    _drop_what_was_made(_registered.pop(name))


def _drop_what_was_made(operator: Operator) -> None:
    python_names.cache_clear()
    for drop in _when_registered:
        drop(operator)


_when_registered: list[Callable[[Operator], None]] = []


def when_registered(drop: Callable[[Operator], None]) -> None:
    """Adds a function that is called with each operator that is registered or forgotten, to drop what was made of it."""
    _when_registered.append(drop)


@functools.cache
def python_names() -> dict[str, str]:
    """Python name -> C name of every operator."""
    return {**_python_names_of_index(), **{operator.python_name: name for name, operator in _registered.items()}}


@functools.cache
def _python_names_of_index() -> dict[str, str]:
    c_names = list(_index())
    return dict(zip(operator_python_names(c_names), c_names))
