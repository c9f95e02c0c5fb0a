"""Single operators, which clients run by their type names (``aclopCompileAndExecute``): what they take, what does their work.

An entry of ``data/single.json`` has

``inputs``       "tensor", "optional tensor" or "list of tensors" by name, in the order of the type's definition
``outputs``      names
``attributes``   type and default by name; an attribute without a default is required
``operators``    the aclnn operators that do the work; without any, a reference of the family "single" does
``arguments``    what each parameter of the operator gets, in its order; without them a function of
                 ``emulator/process/single_operators.py`` chooses operator and arguments
``refused``      what the emulated device does not take
``unsupported``  why the type is not run at all

They are no aclnn operators: neither ``catalog.names()`` nor ``ops`` has them.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Optional

from ascend_aclnn.catalog import DATA, REQUIRED, Operator, Parameter, _row, _text, get

FAMILY = "single"
_FILE = DATA / "single.json"

# The C type of a parameter of a reference, by the form of what it gets.
_CTYPES = {
    "tensor": "const aclTensor*",
    "list of tensors": "const aclTensorList*",
    "channels first": "const aclTensor*",
    "channels first from NHWC": "const aclTensor*",
    "16-bit words": "const aclTensor*",
    "number": "double",
    "complement": "double",
    "integer": "int64_t",
    "position": "int64_t",
    "number of elements": "int64_t",
    "number of 16-bit words": "int64_t",
    "bool": "bool",
    "string": "const char*",
    "integers": "const aclIntArray*",
    "middle integers": "const aclIntArray*",
    "shape": "const aclIntArray*",
    "numbers": "const aclFloatArray*",
}


class Attribute(NamedTuple):
    type: str  # "integer", "number", "bool", "string", "integers", "numbers", "bools", "lists of integers", "data type"
    default: Any  # REQUIRED where it has none

    @property
    def words(self) -> str:
        """``integers = [1, 1]``"""
        return self.type if self.default is REQUIRED else f"{self.type} = {self.default!r}"


class Argument(NamedTuple):
    """What a parameter of the operator that does the work gets."""

    source: str  # "input", "output", "attribute" or "constant"
    value: Any  # the name of the input, output or attribute; the constant
    form: str  # what of it: "tensor", "shape", "integers", "middle integers", ...
    choices: tuple[str, ...] = ()  # the texts of an attribute of which the position is passed


class NotEmulated(NamedTuple):
    """What the emulated device does not take: an input, the absence of one, or an attribute that is not ``unless``."""

    what: str  # "input", "without" or "attribute"
    name: str
    unless: Any = None

    @property
    def words(self) -> str:
        if self.what == "attribute":
            return f"{self.name} other than {self.unless!r}"
        return f"{self.what} {self.name}"


@dataclass(frozen=True, eq=False)  # one object per type: compared and hashed by identity
class SingleOperator:
    """One type of single operators: its prototype, and its translation to an aclnn operator."""

    name: str  # "MaxPool3D"
    inputs: Mapping[str, str]  # name -> "tensor", "optional tensor", "list of tensors"
    outputs: tuple[str, ...]
    attributes: Mapping[str, Attribute]
    operators: tuple[str, ...]
    arguments: Optional[Mapping[str, Argument]]
    refused: tuple[NotEmulated, ...]
    unsupported: Optional[str]

    @functools.cached_property
    def operator(self) -> Operator:
        """What runs where ``arguments`` are data: the aclnn operator, or one of the type's own name for its reference."""
        if self.arguments is None:
            raise ValueError(f"{self.name} has no arguments in the catalog")
        if self.operators:
            return get(self.operators[0])
        return Operator(self.name, tuple(map(self._parameter, self.arguments, self.arguments.values())), "", FAMILY)

    @property
    def attributes_read(self) -> frozenset[str]:
        """The attributes that change what is done or whether it is; all of them where a function translates."""
        if self.arguments is None:
            return frozenset(self.attributes)
        read = {argument.value for argument in self.arguments.values() if argument.source == "attribute"}
        return frozenset(read | {refusal.name for refusal in self.refused if refusal.what == "attribute"})

    def words(self, argument: Argument) -> str:
        """``strides as middle integers``; without a form where it is the type of the attribute."""
        if argument.source == "constant":
            return repr(argument.value)
        name = str(argument.value)
        if argument.choices:
            return f"{name} as position in {', '.join(argument.choices)}"
        usual = self.attributes[name].type if argument.source == "attribute" else self.inputs.get(name, "tensor")
        return name if argument.form in (usual, "tensor") else f"{name} as {argument.form}"

    def _parameter(self, name: str, argument: Argument) -> Parameter:
        ctype = _CTYPES[argument.form]
        output = argument.source == "output" and ctype == "const aclTensor*"
        required = any(refusal.what == "without" and refusal.name == argument.value for refusal in self.refused)
        optional = argument.source == "input" and self.inputs[argument.value] == "optional tensor" and not required
        return Parameter(name, "aclTensor*" if output else ctype, "out" if output else "in", optional)


@functools.cache
def names() -> tuple[str, ...]:
    """The name of every type, those that are not run included."""
    return tuple(re.findall('^"([a-zA-Z0-9]+)": ', _text(_FILE), re.M))


@functools.cache
def find(name: str) -> Optional[SingleOperator]:
    """The entry of a type, None where there is none."""
    entry = _row(_FILE, name)
    if entry is None:
        return None
    inputs: dict[str, str] = entry["inputs"]
    attributes = {
        attribute: Attribute(row["type"], row.get("default", REQUIRED))
        for attribute, row in entry.get("attributes", {}).items()
    }
    forms = {**dict.fromkeys(inputs, "tensor"), **dict.fromkeys(entry["outputs"], "tensor")}
    forms.update((list_, form) for list_, form in inputs.items() if form == "list of tensors")

    def argument(row: dict[str, Any]) -> Argument:
        source, value = next(iter(row.items()))
        if source == "attribute":
            form = attributes[value].type
        elif source == "constant":
            form = "bools" if isinstance(value, list) else "integer"
        else:
            form = forms[value]
        return Argument(source, value, row.get("as", form), tuple(row.get("of", ())))

    return SingleOperator(
        name,
        inputs,
        tuple(entry["outputs"]),
        attributes,
        tuple(entry.get("operators", ())),
        {key: argument(row) for key, row in entry["arguments"].items()} if "arguments" in entry else None,
        tuple(map(_refusal, entry.get("refused", ()))),
        entry.get("unsupported"),
    )


def _refusal(row: dict[str, Any]) -> NotEmulated:
    what, name = next(iter(row.items()))
    return NotEmulated(what, name, row.get("unless"))
