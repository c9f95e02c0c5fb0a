"""The Python view of a catalog entry: parameters with defaults, results, and the text that describes them.

``ops.py``, the stub ``ops.pyi``, ``ascend-aclnn show`` and the reference in ``docs/`` all take it from here.
"""

from __future__ import annotations

import fnmatch
import functools
import inspect
import json
from typing import Any, NamedTuple

from ascend_aclnn.catalog import FOLDER, REQUIRED, Kind, Operator, Parameter, life
from ascend_aclnn.core.errors import status_name

# What a caller passes, in words.
KIND_WORDS = {
    Kind.TENSOR: "tensor",
    Kind.TENSOR_LIST: "tensors",
    Kind.SCALAR: "scalar",
    Kind.SCALAR_LIST: "scalars",
    Kind.INT_ARRAY: "ints",
    Kind.FLOAT_ARRAY: "floats",
    Kind.BOOL_ARRAY: "bools",
    Kind.STRING: "str",
    Kind.DATA_TYPE: "DataType",
    Kind.FLOAT: "float",
    Kind.DOUBLE: "float",
    Kind.BOOL: "bool",
}

# Conditions of statuses, as the catalog's entries name them.
CONDITION_WORDS = {
    "nullptr": "a required pointer is null",
    "dtype_unsupported": "a dtype is not supported",
    "dtype_mismatch": "dtypes do not go together",
    "dtype_promotion": "dtypes cannot be promoted to one",
    "dtype_conversion": "a dtype cannot be converted to the output's",
    "format_unsupported": "a format is not supported",
    "rank": "a rank is out of range",
    "shape_invalid": "a shape is not allowed",
    "shape_mismatch": "shapes do not match",
    "broadcast": "shapes cannot be broadcast",
    "value_range": "a value is out of range",
    "empty_tensor": "a tensor is empty",
    "constraint": "a constraint of the document does not hold",
    "noncontiguous": "a tensor is not contiguous",
    "platform_unsupported": "the product is not supported",
}

# Defaults that do not say themselves what they mean.
DEFAULT_WORDS: dict[object, str] = {
    (): "() (all axes)",
    None: "None (the data type of the input, INT64 for integers)",
}


class PythonParameter(NamedTuple):
    """A parameter of the Python function; ``default`` is ``inspect.Parameter.empty`` where there is none."""

    name: str
    parameter: Parameter
    default: Any


class ResultField(NamedTuple):
    """One result of the Python function."""

    name: str
    parameter: Parameter


def python_parameters(operator: Operator) -> list[PythonParameter]:
    """What the function takes, in C order. After the first default, required ones have the sentinel ``REQUIRED``."""
    rows = []
    required: Any = inspect.Parameter.empty
    for parameter in operator.inputs:
        default = parameter.default
        if default is REQUIRED and parameter.optional and parameter.kind.pointer:
            default = None
        if default is REQUIRED:
            default = required
        else:
            required = REQUIRED
        rows.append(PythonParameter(parameter.python_name, parameter, default))
    return rows


def is_required(row: PythonParameter) -> bool:
    """A parameter that a call must have."""
    return row.default is inspect.Parameter.empty or row.default is REQUIRED


def result_fields(operator: Operator) -> list[ResultField]:
    """What the function returns, in C order: the inout and out parameters."""
    return [ResultField(parameter.python_name, parameter) for parameter in operator.outputs]


def result_type_name(operator: Operator) -> str:
    """Name of the named tuple of an operator with several results: ``RmsNormGradResult``."""
    return operator.name[5 if operator.name.startswith("aclnn") else 3 :] + "Result"


def python_signature(operator: Operator) -> str:
    """``rms_norm_grad(dy, x, rstd, gamma, *, out=None, stream=None) -> (dx, dgamma)``."""
    words = []
    for name, _, default in python_parameters(operator):
        words.append(name if default is inspect.Parameter.empty else f"{name}={default!r}")
    results = [field.name for field in result_fields(operator)]
    returned = results[0] if len(results) == 1 else f"({', '.join(results)})" if results else "None"
    return f"{operator.python_name}({', '.join([*words, '*', 'out=None', 'stream=None'])}) -> {returned}"


def c_prototype(operator: Operator) -> str:
    """Both phases as C declares them."""
    parameters = "".join(f"{p.ctype} {p.name}, " for p in operator.parameters)
    again = "".join(f"{ctype} {name}, " for ctype, name in operator.phase_two)
    return (
        f"aclnnStatus {operator.phase_one}({parameters}uint64_t* workspaceSize, aclOpExecutor** executor);\n"
        f"aclnnStatus {operator.name}(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor, "
        f"{again}aclrtStream stream);"
    )


def rank_words(rank: str) -> str:
    """A documented rank or shape in words: "rank 1-8", "shape of x", "shape (B,S,H)"."""
    if rank == "any":
        return "any rank"
    if rank.startswith("same:"):
        return "shape of " + rank[len("same:") :]
    return ("rank " if rank[0] in "0123456789<" else "shape ") + rank


def product_words(operator: Operator, parameter: Parameter) -> list[str]:
    """How a parameter's dtypes differ on some products: "310P 910: not BF16"."""
    products: dict[str, list[str]] = {}
    general = parameter.dtypes or ()
    for product in operator.products or ():
        here = [d.name for d in operator.dtypes(parameter, product) or ()]
        if set(here) != set(general):
            missing = " ".join(name for name in general if name not in here)
            words = " ".join(here) if set(here) - set(general) else f"not {missing}"
            products.setdefault(words, []).append(product)
    return [f"{' '.join(names)}: {words}" for words, names in products.items()]


def parameter_words(parameter: Parameter) -> list[str]:
    """What a parameter is, in the columns that documentation shows: kind, dtypes, rank, formats, notes."""
    rank = rank_words(parameter.rank) if parameter.rank else ""
    formats = " ".join(parameter.formats or ())
    notes = []
    if parameter.optional:
        notes.append("optional")
    if parameter.default is not REQUIRED:
        notes.append("default " + DEFAULT_WORDS.get(parameter.default, repr(parameter.default)))
    if parameter.direction == "inout":
        notes.append("changed in place")
    if parameter.noncontiguous is False:
        notes.append("contiguous only")
    kind = KIND_WORDS.get(parameter.kind, "int")
    return [kind, " ".join(parameter.dtypes or ()), rank, "" if formats == "ND" else formats, ", ".join(notes)]


def status_words(operator: Operator) -> list[tuple[int, str]]:
    """The documented statuses, each with its conditions in words."""
    conditions: dict[int, list[str]] = {}
    for row in operator.statuses:
        code, _, condition = row.partition(" ")
        conditions.setdefault(int(code), []).append(CONDITION_WORDS.get(condition, condition))
    return [(code, ", ".join(word for word in words if word)) for code, words in conditions.items()]


def docstring(operator: Operator) -> str:
    """The docstring of the Python function."""
    lines = [operator.summary or f"Calls {operator.name}.", ""]
    if end_words(operator):
        lines += [f"{end_words(operator)[0].upper()}{end_words(operator)[1:]}.", ""]
    if operator.formula:
        lines += [f"    {part}" for part in operator.formula.split("; ")] + [""]
    for title, parameters in (("Parameters", operator.inputs), ("Results", operator.outputs)):
        rows = []
        for parameter in parameters:
            words = "; ".join(word for word in [*parameter_words(parameter), meaning(operator, parameter)] if word)
            differences = (
                product_words(operator, parameter) if parameter.direction != "inout" or title == "Results" else []
            )
            rows.append(f"    {parameter.python_name}: {words}{''.join(f' [{d}]' for d in differences)}")
        lines += [f"{title}:", *(rows or ["    none"]), ""]
    errors = [
        f"    {code} {status_name(code)}: {words or 'see the document'}" for code, words in status_words(operator)
    ]
    if errors:
        lines += ["Errors (status of the AclError):", *errors, ""]
    lines += [*example_lines(operator), ""]
    place = f"{operator.name}, {'experimental, ' if operator.experimental else ''}{operator.family}"
    products = f"; products {' '.join(operator.products)}" if operator.products else ""
    lines.append(f"{place}{products}; since {since_words(operator)}")
    if operator.url:
        lines.append(operator.url)
    return "\n".join(lines)


def example_lines(operator: Operator) -> list[str]:
    """A call and its result; where the catalog has none, the bare call."""
    example = operator.example
    if example is None:
        names = [
            f"{row.name}={row.name}" if row.default is REQUIRED else row.name for row in python_parameters(operator)
        ]
        arguments = [text for text, row in zip(names, python_parameters(operator)) if is_required(row)]
        call = f"    >>> ops.{operator.python_name}({', '.join(arguments)})  # doctest: +SKIP"
        return ["Example (not run):", call]
    title = "Example:" if example.soc is None else f"Example (with the rules of {example.soc}):"
    return [title, f"    >>> {example.text}", *(f"    {line}" for line in example.result.splitlines())]


@functools.cache
def _meanings() -> dict[str, Any]:
    meanings: dict[str, Any] = json.loads((FOLDER / "meanings.json").read_text(encoding="utf-8"))
    return meanings


def meaning(operator: Operator, parameter: Parameter) -> str:
    """What a parameter means, in the words of ``meanings.json``; "" where it has none.

    A key there is a name and a kind ("axis:int"), with a direction where that decides ("y:tensor:out"). Its value is the
    meaning in every operator, or a meaning for each scope: patterns of operators and families, separated by spaces; the
    first that fits counts.
    """
    kind = KIND_WORDS.get(parameter.kind, "int")
    for key in (f"{parameter.python_name}:{kind}:{parameter.direction}", f"{parameter.python_name}:{kind}"):
        meaning = _meanings().get(key, "")
        if isinstance(meaning, dict):
            meaning = next((words for scope, words in meaning.items() if in_scope(operator, scope)), "")
        if meaning:
            return str(meaning)
    return ""


def in_scope(operator: Operator, scope: str) -> bool:
    """An operator or its family fits one of the patterns ("" fits all)."""
    return not scope or any(
        fnmatch.fnmatchcase(text, pattern) for pattern in scope.split() for text in (operator.name, operator.family)
    )


def release_of(operator: Operator) -> str:
    """The release that brought an operator, else the public sources that it was first seen in: "9.0.0", "2026-08"."""
    return life.of(operator.name).since or operator.since


def since_words(operator: Operator) -> str:
    """Since which CANN an operator is known, in words."""
    release = life.of(operator.name).since
    if release:
        return f"CANN {release}{' or earlier' if release == life.OLDEST else ''}"
    return f"the public sources of {operator.since}" if operator.since else "unknown"


def end_words(operator: Operator) -> str:
    """When an operator's life ends, and what replaces it; "" where nothing is announced."""
    return life.end_words(life.of(operator.name))
