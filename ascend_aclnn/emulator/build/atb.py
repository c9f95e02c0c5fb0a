"""The C code and the headers that are made of ATB's operations (``catalog/atb.py``).

The emulated libatb.so has functions of C++, under the names that a C++ compiler gives them, and classes, whose tables of virtual
functions lie in ``csrc/atb``. Here are the structures of parameters, for C and for C++, and what belongs to each operation: which
inputs it has, the values of its parameters, the functions that take its structure, and the C functions.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from ascend_aclnn.catalog import Operator, atb
from ascend_aclnn.catalog.atb import Field, Function, Operation
from ascend_aclnn.emulator import protocol

_PARAMETERS = "op->"  # of a structure in the generated code


def data_header() -> str:
    """``atb_data.h``: ATB's statuses for C."""
    statuses = atb.shared_enums()["ErrorType"]
    lines = ["/* atb_data.h: made by ascend_aclnn from catalog/data/atb.json. */", "#ifndef EMU_ATB_DATA_H"]
    lines += ["#define EMU_ATB_DATA_H", "", *(f"#define ATB_{name} {number}" for name, number in statuses.items())]
    return "\n".join([*lines, f"#define ATB_LAST_ERROR {max(statuses.values())}", "", "#endif", ""])


def operation_lines() -> Iterator[str]:
    """The source of all operations and of the C functions."""
    yield '#include "atb/atb_operation.h"\n'
    for operation in map(atb.get, atb.names()):
        yield from _operation(operation)
    for function in atb.functions():
        yield from _function(function, atb.get(function.operation))


def structure_lines(operation: Operation, value: str) -> Iterator[str]:
    """The structure of an operation's parameters in C; which inputs and outputs are there; its values, each a ``value``."""
    name = operation.name
    structure = f"const {name}_structure *op"
    yield f"/* {name} */\ntypedef struct {{"
    for field in operation.fields:
        if field.type in operation.structs:
            inner = " ".join(_member(operation, member) for member in operation.structs[field.type])
            yield f"    struct {{ {inner} }} {field.name};"
        else:
            yield f"    {_member(operation, field)}"
    yield f"}} {name}_structure;\n"
    yield f"static uint64_t present_{name}(const void *structure) {{\n    {structure} = structure;\n    (void)op;"
    bits = [
        f"(uint64_t)({_condition(operation, slot.condition)}) << {bit}"
        for bit, slot in enumerate((*operation.inputs, *operation.outputs))
    ]
    yield "    return " + " | ".join(bits) + ";\n}\n"
    yield f"static void read_{name}(const void *structure, {value} *values) {{\n    {structure} = structure;"
    for at, one in enumerate(operation.values):
        member = "number" if one.ctype == "double" else "integer"
        yield f"    values[{at}].{member} = {_PARAMETERS}{one.member};"
    yield "}\n"


def _operation(operation: Operation) -> Iterator[str]:
    name = operation.name
    structure = f"const {name}_structure *op"
    yield from structure_lines(operation, "emu_value")
    yield f"static bool is_reserved_clear_{name}(const void *structure) {{\n    {structure} = structure;"
    for field in operation.fields:
        if field.reserved:
            yield f"    for (int i = 0; i < {field.reserved}; i++) if ({_PARAMETERS}{field.name}[i] != 0) return false;"
    yield "    return true;\n}\n"
    yield f"static const emu_atb_kind kind_{name} = {{"
    yield f'    "{name}Operation",\n    {_described(operation.operator)},\n    {_described(operation.parameter_operator)},'
    counts = len(operation.inputs), len(operation.values), len(operation.outputs)
    yield f"    sizeof({name}_structure), {', '.join(map(str, counts))}, {on_host(operation)}u,"
    yield f"    present_{name}, read_{name}, is_reserved_clear_{name},\n}};\n"
    for symbol, parameters, call in (
        (
            _mangled("CreateOperation", name, "RKT_PPNS_9OperationE"),
            "const void *structure, atb_operation **operation",
            f"atb_create(&kind_{name}, structure, operation)",
        ),
        (
            _mangled("CloneOperationParam", name, "PKNS_9OperationERT_"),
            "const atb_operation *operation, void *structure",
            f"atb_clone(&kind_{name}, operation, structure)",
        ),
        (
            _mangled("UpdateOperationParam", name, "PNS_9OperationERKT_"),
            "atb_operation *operation, const void *structure",
            f"atb_update(&kind_{name}, operation, structure)",
        ),
    ):
        yield f"LINK atb_status {symbol}({parameters});"
        yield f"LINK atb_status {symbol}({parameters}) {{ return {call}; }}\n"


def on_host(operation: Operation) -> int:
    """A bit for each input that ATB reads on the host."""
    return sum(1 << bit for bit, slot in enumerate(operation.inputs) if slot.on_host)


def _mangled(function: str, name: str, parameters: str) -> str:
    """A function template of ATB's for a structure, as C++ names it: ``Status CreateOperation<infer::...>(...)``."""
    structure = f"{name}Param"
    return f"_ZN3atb{len(function)}{function}INS_5infer{len(structure)}{structure}EEEi{parameters}"


def _described(operator: Operator) -> str:
    letters = {"in": "i", "out": "o", "inout": "x"}
    directions = "".join(letters[p.direction] for p in operator.parameters)
    names = " ".join(p.name for p in operator.parameters)
    phase = "::Setup" if operator.outputs else "::CreateOperation"
    return (
        f'{{"{operator.name}", "{operator.name}{phase}", "{protocol.kinds(operator)}", "{directions}", "{names}", '
        f".any_alignment = true{'' if operator.outputs else ', .no_workspace = true'}}}"
    )


def _member(operation: Operation, field: Field) -> str:
    """A member of a structure in C, where enumerations are integers of their size."""
    if field.reserved:
        return f"uint8_t {field.name}[{field.reserved}];"
    return f"{_c_type(operation, field.type)} {field.name};"


def _c_type(operation: Operation, ctype: str) -> str:
    if ctype in atb.shared_enums() or ctype == "aclDataType":
        return "int32_t"
    for name in operation.enums:
        enum, _, underlying = name.partition(": ")
        if enum == ctype:
            return underlying or "int32_t"
    return ctype


def _condition(operation: Operation, text: str) -> str:
    """A condition on the parameters, in C."""
    members = {value.name: value.member for value in operation.values}

    def spelled(node: ast.expr) -> str:
        if isinstance(node, ast.BoolOp):
            sign = " && " if isinstance(node.op, ast.And) else " || "
            return f"({sign.join(map(spelled, node.values))})"
        if isinstance(node, ast.Compare):
            left, right = spelled(node.left), node.comparators[0]
            if isinstance(right, ast.Tuple):
                is_in = isinstance(node.ops[0], ast.In)
                parts = [f"{left} {'==' if is_in else '!='} {spelled(item)}" for item in right.elts]
                return f"({(' || ' if is_in else ' && ').join(parts)})"
            return f"{left} {'==' if isinstance(node.ops[0], ast.Eq) else '!='} {spelled(right)}"
        if isinstance(node, ast.Name):
            return _PARAMETERS + members[node.id] if node.id in members else str(operation.members[node.id])
        return ast.unparse(node)

    return spelled(ast.parse(text, mode="eval").body) if text else "true"


def _function(function: Function, operation: Operation) -> Iterator[str]:
    """Both C functions."""
    name = operation.name
    first = f"LINK atb_status {phase_one(function, 'atb_operation **op, atb_context *context')}"
    yield f"{first};\n{first} {{"
    yield from argument_lines(function, operation)
    arguments = f'&kind_{name}, "{function.name}GetWorkspaceSize", &structure, ins, outs, workspaceSize, op, context'
    yield f"    return atb_prepare({arguments});\n}}\n"
    second = f"LINK atb_status {function.name}(void *workspace, uint64_t size, atb_operation *op, atb_context *context)"
    yield f'{second};\n{second} {{ return atb_run("{function.name}", op, workspace, size, context); }}\n'


def phase_one(function: Function, last: str) -> str:
    """A C function's first phase in C; ``last`` is what follows workspaceSize."""
    parameters = ", ".join(f"{ctype} {parameter}" for parameter, ctype in function.parameters.items())
    return f"{function.name}GetWorkspaceSize({parameters}, uint64_t *workspaceSize, {last})"


def argument_lines(function: Function, operation: Operation) -> Iterator[str]:
    """What a C function makes of its arguments: the operation's ``structure``, and its tensors in order, ``ins`` and ``outs``."""
    yield f"    {operation.name}_structure structure = {{0}};"
    values = {value.name: value.member for value in operation.values}
    defaults = {
        field.name: field.default
        for field in operation.fields
        if field.default and field.name not in function.parameters
    }
    for member, value in {**defaults, **function.set}.items():
        yield f"    structure.{member} = {operation.members.get(value, value)};"
    for parameter in function.parameters:
        if parameter in values:
            yield f"    structure.{values[parameter]} = {parameter};"
    ins = [slot.name if slot.name in function.parameters else "NULL" for slot in operation.inputs]
    outs = [function.outputs.get(slot.name, slot.name) for slot in operation.outputs]
    yield f"    const aclTensor *const ins[] = {{{', '.join(ins)}}};\n    const aclTensor *const outs[] = {{{', '.join(outs)}}};"


# ------------------------------------------------------------------------------------------------------------- C++ headers


def statuses_header() -> str:
    """``atb/error_type.h``: the statuses of all functions."""
    return _header("error_type", ["namespace atb {", *_enum("ErrorType: int", atb.shared_enums()["ErrorType"]), "}"])


def parameters_header() -> str:
    """``atb/infer_op_params.h``: the structures of parameters."""
    lines = ['#include "acl/acl.h"', "#include <cstdint>", "", "namespace atb {", "namespace infer {", ""]
    for name, members in atb.shared_enums().items():
        if name != "ErrorType":
            lines += [*_enum(f"{name}: int", members), ""]
    for operation in map(atb.get, atb.names()):
        lines += [f"struct {operation.name}Param {{"]
        for enum, values in operation.enums.items():
            lines += ["    " + line for line in _enum(enum if ":" in enum else f"{enum}: int", values)]
        for struct, fields in operation.structs.items():
            lines += [f"    struct {struct} {{", *(f"        {_initialised(field)}" for field in fields), "    };"]
        lines += [*(f"    {_initialised(field)}" for field in operation.fields), "};", ""]
    return _header("infer_op_params", [*lines, "}", "}"])


def functions_header() -> str:
    """``atb/atb_acl.h``: the C functions."""
    lines = ['#include "atb/operation.h"', '#include "aclnn/acl_meta.h"', "", 'extern "C" {']
    for function in atb.functions():
        lines += [f"atb::Status {phase_one(function, 'atb::Operation **op, atb::Context *context')};"]
        lines += [
            f"atb::Status {function.name}(void *workspace, uint64_t size, atb::Operation *op, atb::Context *context);"
        ]
    return _header("atb_acl", [*lines, "}"])


def _header(name: str, lines: list[str]) -> str:
    guard = f"ASCEND_ACLNN_ATB_{name.upper()}_H"
    first = f"/* atb/{name}.h: made by ascend_aclnn from catalog/data/atb.json. */"
    return "\n".join([first, f"#ifndef {guard}", f"#define {guard}", "", *lines, "", "#endif", ""])


def _enum(name: str, members: Mapping[str, int]) -> list[str]:
    return [f"enum {name} {{", *(f"    {member} = {number}," for member, number in members.items()), "};"]


def _initialised(field: Field) -> str:
    if field.reserved:
        return f"uint8_t {field.name}[{field.reserved}] = {{0}};"
    return f"{field.type} {field.name}{f' = {field.default}' if field.default else ''};"


HEADERS = {  # of include/atb, that are not written by hand
    "error_type.h": statuses_header,
    "infer_op_params.h": parameters_header,
    "atb_acl.h": functions_header,
}
