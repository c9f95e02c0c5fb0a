"""Operations of ATB (the Ascend Transformer Boost library, libatb.so): their parameters, inputs and outputs.

An operation is made of a C++ structure (``atb::infer::PagedAttentionParam``), which says which inputs it has. An entry of
``operations`` in ``data/atb.json`` has

``enums``      enumerations of the structure; "KvCacheCfg: int8_t" has another underlying type than int
``structs``    structures in it
``fields``     type and default by name, in the order of the structure
``inputs``     tensors in ATB's order, and the condition on the parameters under which each is there; "" is always
``on_host``    inputs that ATB reads on the host when an operation is set up: their values are arguments
``outputs``    tensors, as ``inputs``
``in_place``   outputs of which an operation writes a part, and the inputs that have the same memory
``emulated``   the values of parameters that the emulated device takes, where it does not take all

``functions`` are C functions that make an operation, set it up and hand it out (``AtbMLAGetWorkspaceSize``): the operation,
their parameters, which of them are the outputs where the names differ, and what they set beside. ``enums`` are those that
several structures share, ``ErrorType``, ATB's statuses, among them.

Each operation is an operator of its own name ("PagedAttentionOperation") for rules, references and the device process: inputs,
parameters of the structure, outputs. Another one ("PagedAttentionParam") has the parameters alone: what is checked when an
operation is made. Neither is an aclnn operator: ``catalog.names()`` and ``ops`` have none of them.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Optional

from ascend_aclnn.catalog import DATA, Operator, Parameter

FAMILY = "atb"


class Field(NamedTuple):
    """A member of a structure."""

    name: str
    type: str  # "int32_t", "MaskType", "uint8_t[64]"
    default: str  # as C++ has it; "" for a structure and for reserved bytes

    @property
    def reserved(self) -> int:
        """How many bytes are reserved; 0 for any other member."""
        match = re.fullmatch(r"\w+\[(\d+)\]", self.type)
        return int(match.group(1)) if match else 0


class Value(NamedTuple):
    """A parameter of an operation: a member of its structure, or of one in it."""

    name: str  # "epsilon"; "normEpsilon" for normParam.epsilon
    member: str  # "normParam.epsilon"
    type: str  # "float", "bool", "int32_t", "QuantType"

    @property
    def ctype(self) -> str:
        """The type of the operator's parameter."""
        if self.type in ("float", "double"):
            return "double"
        return "bool" if self.type == "bool" else "int64_t"


class Slot(NamedTuple):
    """An input or output of an operation."""

    name: str
    condition: str  # on the parameters: "maskType != UNDEFINED"; "" where it is always there
    on_host: bool = False
    in_place: str = ""  # of an output of which a part is written: the input that has the same memory


@dataclass(frozen=True, eq=False)
class Operation:
    """An operation, by the name that its structure and its class share: "PagedAttention"."""

    name: str
    enums: Mapping[str, Mapping[str, int]]  # "KvCacheCfg: int8_t" -> members
    structs: Mapping[str, tuple[Field, ...]]
    fields: tuple[Field, ...]
    inputs: tuple[Slot, ...]
    outputs: tuple[Slot, ...]
    emulated: Mapping[str, tuple[Any, ...]]

    @functools.cached_property
    def values(self) -> tuple[Value, ...]:
        """The parameters, those of structures in the structure included; reserved bytes are none."""
        values: list[Value] = []
        for field in self.fields:
            if field.type in self.structs:
                prefix = field.name.removesuffix("Param")
                values += [
                    Value(prefix + inner.name[0].upper() + inner.name[1:], f"{field.name}.{inner.name}", inner.type)
                    for inner in self.structs[field.type]
                    if not inner.reserved
                ]
            elif not field.reserved:
                values.append(Value(field.name, field.name, field.type))
        return tuple(values)

    @functools.cached_property
    def members(self) -> dict[str, int]:
        """The members of the enumerations that the parameters use, by name."""
        used = {value.type for value in self.values}
        tables = [*(table for name, table in shared_enums().items() if name in used), *self.enums.values()]
        return {"ACL_DT_UNDEFINED": -1, **{name: number for table in tables for name, number in table.items()}}

    @functools.cached_property
    def operator(self) -> Operator:
        """The operator that does the work: "PagedAttentionOperation"."""
        tensor = "const aclTensor*"
        inputs = [
            Parameter(slot.name, "const aclIntArray*" if slot.on_host else tensor, "in", True) for slot in self.inputs
        ]
        outputs = [
            Parameter(slot.name, "aclTensor*", "inout" if slot.in_place else "out", bool(slot.condition))
            for slot in self.outputs
        ]
        return Operator(f"{self.name}Operation", (*inputs, *self._parameters, *outputs), "", FAMILY)

    @functools.cached_property
    def parameter_operator(self) -> Operator:
        """The operator that has the parameters alone: "PagedAttentionParam"."""
        return Operator(f"{self.name}Param", self._parameters, "", FAMILY)

    @property
    def _parameters(self) -> tuple[Parameter, ...]:
        return tuple(Parameter(value.name, value.ctype, "in", False) for value in self.values)

    def lacks(self, values: Mapping[str, Any]) -> Optional[str]:
        """Which value of a parameter the emulated device does not take, and which it takes; None if it takes all."""
        for name, allowed in self.emulated.items():
            numbers = [self.members.get(value, value) for value in allowed]
            if values[name] not in numbers:
                return f"{name} is {values[name]}; the emulated device takes {', '.join(map(self._spelled, allowed))}"
        return None

    def _spelled(self, value: Any) -> str:
        return f"{value} ({self.members[value]})" if value in self.members else str(value)


class Function(NamedTuple):
    """A C function that makes an operation and sets it up; a second one, without GetWorkspaceSize, executes it."""

    name: str  # "AtbMLA"
    operation: str
    parameters: Mapping[str, str]  # C type by name: of inputs, parameters and outputs of the operation
    outputs: Mapping[str, str]  # of the operation's outputs the function's parameter, where the names differ
    set: Mapping[str, Any]  # parameters of the operation that the function sets beside


@functools.cache
def _data() -> dict[str, Any]:
    data: dict[str, Any] = json.loads((DATA / "atb.json").read_text(encoding="utf-8"))
    return data


def shared_enums() -> dict[str, dict[str, int]]:
    """The enumerations that several structures share."""
    enums: dict[str, dict[str, int]] = _data()["enums"]
    return enums


def status(name: str) -> int:
    """One of ATB's statuses: "ERROR_INVALID_PARAM"."""
    return shared_enums()["ErrorType"][name]


def names() -> tuple[str, ...]:
    """Every operation, without Operation and Param."""
    return tuple(_data()["operations"])


def functions() -> tuple[Function, ...]:
    return tuple(
        Function(name, row["operation"], row["parameters"], row.get("outputs", {}), row.get("set", {}))
        for name, row in _data()["functions"].items()
    )


@functools.cache
def get(name: str) -> Operation:
    """The entry of an operation; KeyError where there is none."""
    row = _data()["operations"][name]
    on_host, in_place = row.get("on_host", ()), row.get("in_place", {})
    return Operation(
        name,
        row.get("enums", {}),
        {struct: tuple(map(_field, fields, fields.values())) for struct, fields in row.get("structs", {}).items()},
        tuple(map(_field, row["fields"], row["fields"].values())),
        tuple(Slot(slot, condition, on_host=slot in on_host) for slot, condition in row["inputs"].items()),
        tuple(Slot(slot, condition, in_place=in_place.get(slot, "")) for slot, condition in row["outputs"].items()),
        {parameter: tuple(allowed) for parameter, allowed in row.get("emulated", {}).items()},
    )


def _field(name: str, text: str) -> Field:
    ctype, _, default = text.partition(" = ")
    return Field(name, ctype, default)


def find_operator(name: str) -> Optional[Operator]:
    """The operator of an operation ("PagedAttentionOperation") or of its parameters ("PagedAttentionParam")."""
    for suffix in ("Operation", "Param"):
        if name.endswith(suffix) and name.removesuffix(suffix) in _data()["operations"]:
            operation = get(name.removesuffix(suffix))
            return operation.operator if suffix == "Operation" else operation.parameter_operator
    return None
