"""How the values of a phase one travel between the libraries and the device process."""

from __future__ import annotations

from ascend_aclnn.catalog import Kind, Operator

# The letter of a kind of parameter, as csrc/objects.h has them; every other kind is an integer.
LETTERS = {
    Kind.TENSOR: "T",
    Kind.TENSOR_LIST: "L",
    Kind.SCALAR: "S",
    Kind.SCALAR_LIST: "M",
    Kind.INT_ARRAY: "I",
    Kind.FLOAT_ARRAY: "F",
    Kind.BOOL_ARRAY: "B",
    Kind.STRING: "s",
    Kind.FLOAT: "d",
    Kind.DOUBLE: "d",
}
INTEGER = "i"


def kinds(operator: Operator) -> str:
    """A letter for each parameter."""
    return "".join(LETTERS.get(p.kind, INTEGER) for p in operator.parameters)


def member(kind: Kind) -> str:
    """The member of emu_value that holds a parameter."""
    letter = LETTERS.get(kind, INTEGER)
    return "integer" if letter == INTEGER else "number" if letter == "d" else "pointer"
