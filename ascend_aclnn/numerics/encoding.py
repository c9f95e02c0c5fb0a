"""Programs as the compiled helper reads them: instructions with registers, operands, constants (native/csrc/program.c)."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple, Optional

import ml_dtypes
import numpy as np

from ascend_aclnn import native
from ascend_aclnn.numerics.threads import Array
from ascend_aclnn.numerics.tracing import BOOL, FLOAT32, FLOAT64, Node, Number, Untraceable, as_type

# As numbered in native/csrc/program.c; those from next on are not on elements but on numbers of rows.
_OPERATIONS = """
    load store add subtract multiply divide multiply_add maximum minimum copysign fmod remainder
    less less_equal equal not_equal and or xor not select clip
    negative absolute sqrt square reciprocal rint floor ceil trunc sign isnan isfinite isinf signbit exp logistic log normal ones
    row_sum row_squares row_max
    next number_copy number_add number_subtract number_multiply number_divide number_maximum number_minimum
    number_less number_less_equal number_equal number_not_equal number_select
    number_negative number_absolute number_sqrt number_isfinite number_log
"""
_NUMBERS = {name: number for number, name in enumerate(_OPERATIONS.split())}
_OF_ROWS = ("row_sum", "row_squares", "row_max")
TYPES = {
    FLOAT32: 0,
    np.dtype(np.float16): 1,
    np.dtype(ml_dtypes.bfloat16): 2,
    BOOL: 3,
    np.dtype(ml_dtypes.float8_e4m3fn): 4,
    np.dtype(ml_dtypes.float8_e5m2): 5,
    np.dtype(np.int8): 6,
    FLOAT64: 7,
}
READ, WRITTEN = frozenset(list(TYPES)[:4]), frozenset(list(TYPES)[:7])
_MOST_REGISTERS = 48  # of 4 KB on the stack


class Operand(NamedTuple):
    """What an operand of a phase is: an input (from a column on), an output, memory, numbers of rows, a number."""

    kind: str  # "input", "output", "scratch", "row", "number"
    number: int
    first: int = 0


class Phase(NamedTuple):
    """What one call of the helper does with each row, or with elements alone."""

    code: bytes
    instructions: int
    constants: bytes
    constant_count: int
    registers: int
    operands: list[Operand]
    computed: list[int]  # nodes with numbers of rows that it computes
    numbers: Array  # float64
    sums: int  # that it adds up at a time


# An operation, its target, its arguments: of elements values by number, of the others operands.
Code = list[tuple[str, int, Sequence[int]]]


class Assembly:
    """The code of one phase: parts that each go over all elements of a row, and between them what is done with numbers."""

    def __init__(self) -> None:
        self.operands: list[Operand] = []
        self.constants: dict[bytes, int] = {}
        self.numbers: list[float] = []
        self.computed: list[int] = []
        self.fixed: set[int] = set()  # values whose register is not given to others
        self.values = 0
        self._parts: list[Code] = []

    def operand(self, what: Operand) -> int:
        if what not in self.operands:
            self.operands.append(what)
        return self.operands.index(what)

    def value(self) -> int:
        self.values += 1
        return self.values - 1

    def constant(self, number: bytes) -> int:
        if number not in self.constants:
            self.constants[number] = self.value()
        return self.constants[number]

    def load(self, code: Code, what: Operand) -> int:
        value = self.value()
        self.fixed.add(value)
        code.append(("load", self.operand(what), (value,)))
        return value

    def number(self, value: float) -> int:
        self.numbers.append(value)
        return self.operand(Operand("number", len(self.numbers) - 1))

    def put_first(self, part: Code) -> None:
        self._parts.insert(0, part)

    def encoded(self) -> Phase:
        """Instructions with registers for values, constants first; a value's register is free after its last use."""
        code: Code = []
        for part in filter(None, self._parts):
            code += [("next", -1, ()), *part] if code else part
        code = _with_fused_products(code)
        last = {value: place for place, item in enumerate(code) for value in item[2] if _is_of_elements(item[0])}
        constants = len(self.constants)
        places = {value: number for number, value in enumerate(self.constants.values())}
        free: list[int] = []
        clean: list[int] = []  # from an earlier part: a number is loaded once per row
        count = constants
        words: list[int] = []
        sums = most_sums = 0
        for place, (operation, target, values) in enumerate(code):
            number = _NUMBERS[operation]
            if not _is_of_elements(operation):
                words += (number, target, *values, *[-1] * (3 - len(values)))
                free, clean, sums = [], list(range(constants, count)), 0
                continue
            if operation == "load":
                places[values[0]] = clean.pop() if clean else count
                count = max(count, places[values[0]] + 1)
                words += (number, target, -1, -1, places[values[0]])
                continue
            registers = [places[value] for value in values]
            done = [
                value
                for value in set(values)
                if last[value] == place and value not in self.fixed and places[value] >= constants
            ]
            if operation != "store" and operation not in _OF_ROWS:
                late = operation in ("fmod", "remainder")  # which reads its operands after it has written
                if not late:
                    free += [places[value] for value in done]
                places[target] = free.pop() if free else clean.pop() if clean else count
                count = max(count, places[target] + 1)
                free += [places[value] for value in done] if late else []
                target = places[target]
            else:
                free += [places[value] for value in done]
            if operation in ("row_sum", "row_squares"):
                registers, sums = [*registers, -2 - sums], sums + 1
                most_sums = max(most_sums, sums)
            words += (number, target, *registers, *[-1] * (3 - len(registers)))
        if count > _MOST_REGISTERS:
            raise Untraceable("too many values at a time")
        packed = struct.pack(f"{len(words)}i", *words)
        constant_bytes, numbers = b"".join(self.constants), np.array(self.numbers, FLOAT64)
        return Phase(
            packed, len(code), constant_bytes, constants, count, self.operands, self.computed, numbers, most_sums
        )


def _is_of_elements(operation: str) -> bool:
    return _NUMBERS[operation] < _NUMBERS["next"]


def _with_fused_products(code: Code) -> Code:
    """With one instruction for a product and the sum that alone uses it; it rounds twice, as the two do."""
    uses = [value for operation, _, values in code if _is_of_elements(operation) for value in values]
    products = {target: values for operation, target, values in code if operation == "multiply"}
    fused: Code = []
    dropped = set()
    for operation, target, values in code:
        if operation == "add":
            for value, other in (values, values[::-1]):
                if value in products and uses.count(value) == 1:
                    operation, values = "multiply_add", (*products[value], other)
                    dropped.add(value)
                    break
        fused.append((operation, target, values))
    return [item for item in fused if item[0] != "multiply" or item[1] not in dropped]


# ------------------------------------------------------------------------------------------------------ rows

_SAME_NAME = {name[len("number_") :] for name in _NUMBERS if name.startswith("number_")} - {"copy", "select"}


def row_function(node: Node, nodes: Sequence[Node], assembly: Optional[Assembly], target: int) -> Optional[Code]:
    """The code of a function of one number per row, None where NumPy has to compute it.

    Without ``assembly`` the code is not emitted: an empty list says that the helper can compute it.

    The helper computes in float64 and rounds to float32; for these operations the result is that of NumPy's float32.
    """
    if node.dtype not in (FLOAT32, FLOAT64, BOOL):
        return None
    name = "select" if node.what is np.where else getattr(node.what, "__name__", "")
    arguments = node.arguments
    if node.what in (as_type, np.squeeze):
        name, arguments = "copy", arguments[:1]
    elif name == "square":
        name, arguments = "multiply", arguments * 2
    elif name == "reciprocal":
        name, arguments = "divide", (Number(1.0), *arguments)
    elif name in ("greater", "greater_equal"):
        name, arguments = name.replace("greater", "less"), arguments[::-1]
    elif name not in _SAME_NAME and name != "select":
        return None
    kinds = [a.value if isinstance(a, Number) else np.ones(1, nodes[a].dtype) for a in arguments[name == "select" :]]
    if any(np.ndim(kind) and isinstance(a, Number) for a, kind in zip(arguments[name == "select" :], kinds)):
        return None
    kind = np.result_type(*kinds)
    if name == "log" and (kind != FLOAT32 or not native.has("log")):
        return None
    if kind not in (FLOAT32, FLOAT64) or (name == "select" and isinstance(arguments[0], Number)):
        return None
    if node.dtype == BOOL and not (name.startswith(("less", "equal", "not_equal")) or name == "isfinite"):
        return None
    if assembly is None:
        return []
    operands = [
        assembly.number(float(np.asarray(a.value, kind)))
        if isinstance(a, Number)
        else assembly.operand(Operand("row", a))
        for a in arguments
    ]
    assembly.computed.append(target)
    return [("number_" + name, assembly.operand(Operand("row", target)), operands)]


__all__ = ["READ", "TYPES", "WRITTEN", "Assembly", "Code", "Operand", "Phase", "row_function"]
