#!/usr/bin/env python3
"""Finds how nnopbase counts the tensors of an executor, for aclSetInputTensorAddr and its like.

    scripts/find_tensor_indices.py REPOSITORY... [--write]

A REPOSITORY is a clone of ops-nn, ops-math, ops-cv or ops-transformer. There are three kinds of phase one:

- Composed by hand of level-0 operators (CREATE_EXECUTOR): nnopbase sets the address in the aclTensor and ignores the index
  (opbase, src/nnopbase/common/api/acl_op_api.cpp).
- Generated from an operator definition (``OP_ADD``): the index counts the definition's inputs, and one that is an array or a
  scalar in C holds a slot as a tensor does (NnopbaseAddIntArrayInput and NnopbaseAddScalarInput, individual_op_api.cpp).
  The generated function takes the definition's inputs first and in their order.
- Written by hand around a generated one (``aclnnInner...``): counted like the generated one, where it is handed the caller's own
  arguments in the same order.

Printed are the arguments that hold a slot before a tensor, and the operators of which the sources do not tell; --write puts
both, with the commits, into ascend_aclnn/catalog/traits.json.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Optional

from find_rewritten_arguments import (
    Function,
    balanced,
    bare,
    functions,
    repository_name,
    sources,
    split_arguments,
    write_traits,
)

from ascend_aclnn import catalog
from ascend_aclnn.catalog import Kind, Operator

_PHASE_ONE = re.compile(r"aclnn\w+GetWorkspaceSize")
_CALL = re.compile(r"\b([A-Za-z_]\w*)\s*\(")
_DEFINITION = re.compile(r"class\s+(\w+)\s*:\s*public\s+OpDef\s*\{")
_TENSORS = (Kind.TENSOR, Kind.TENSOR_LIST)
_SLOTS = (Kind.INT_ARRAY, Kind.FLOAT_ARRAY, Kind.BOOL_ARRAY, Kind.SCALAR, Kind.SCALAR_LIST)


def definitions(texts: dict[str, str]) -> dict[str, int]:
    """Operator type -> the number of its inputs, where a definition states them for all products."""
    inputs_of = {}
    for text in texts.values():
        added = set(re.findall(r"\bOP_ADD\((\w+)", text))
        for match in _DEFINITION.finditer(text):
            body = text[match.end() : balanced(text, match.end() - 1)]
            inputs = len(re.findall(r"\bthis\s*->\s*Input\s*\(", body))
            if match.group(1) in added and inputs:
                inputs_of[match.group(1)] = inputs
    return inputs_of


class Wrappers:
    """The hand-written phase ones that end in a generated one."""

    def __init__(self, by_hand: Sequence[Function]) -> None:
        self.by_name: dict[str, list[Function]] = {}
        for function in by_hand:
            self.by_name.setdefault(function.name, []).append(function)
        self.wrapping: set[str] = set()  # the names of functions that come to a generated phase one
        while True:
            news = {f.name for f in by_hand if f.name not in self.wrapping and any(self._calls(f))}
            if not news:
                break
            self.wrapping |= news

    def _calls(self, function: Function) -> Iterator[tuple[str, list[str]]]:
        """The calls in a function that come to a generated phase one, with their arguments."""
        for match in _CALL.finditer(function.body):
            name = match.group(1)
            if name == function.name:
                continue
            if name in self.wrapping or (name not in self.by_name and _PHASE_ONE.fullmatch(name)):
                end = balanced(function.body, match.end() - 1, "()")
                yield name, split_arguments(function.body[match.end() : end - 1])

    def hands_on(self, name: str, inputs: int, outputs: int) -> bool:
        """Whether the first parameters of a function are the first ones of the generated phase one, and the last the last.

        An output may be exchanged for a local one at its place.
        """
        if name not in self.by_name:
            return True
        last = slice(-outputs - 2, -2)  # before workspaceSize and executor
        for function in self.by_name[name]:
            parameters = function.parameters
            for called, arguments in self._calls(function):
                passed = [_original(function, argument) for argument in arguments]
                moved = any(a != b and a in parameters for a, b in zip(passed[last], parameters[last]))
                if passed[:inputs] != parameters[:inputs] or moved or not self.hands_on(called, inputs, outputs):
                    return False
        return True


def _original(function: Function, argument: str) -> str:
    """The parameter that a local variable was made from, which stands for it in the call."""
    if argument in function.parameters:
        return argument
    assigned = re.search(rf"\b{re.escape(argument)}\s*=\s*(\w+)\s*;", function.body)
    return assigned.group(1) if assigned else argument


def slots(operator: Operator) -> list[str]:
    """The arguments before the last input tensor that would hold a slot."""
    return [p.name for p in operator.parameters[: _last_input(operator)] if p.kind in _SLOTS]


def _last_input(operator: Operator) -> int:
    inputs = [i for i, p in enumerate(operator.parameters) if p.kind in _TENSORS and p.direction != "out"]
    return inputs[-1] if inputs else -1


def counted(operator: Operator, inputs: Optional[int]) -> bool:
    """Whether the parameters up to the last input tensor are inputs of the definition, which has ``inputs`` of them."""
    head = operator.parameters[: _last_input(operator) + 1]
    directions = {p.direction for p in operator.parameters if p.kind in _TENSORS}
    return (
        all(p.kind in _TENSORS + _SLOTS and p.direction != "out" for p in head)
        and (inputs is None or len(head) <= inputs)
        # what is changed in place is an output of the definition too, at a place that the prototype does not tell
        and not {"inout", "out"} <= directions
    )


def classify(by_hand: Sequence[Function], defined: dict[str, int]) -> tuple[dict[str, list[str]], list[str]]:
    """Operators whose arrays or scalars hold slots, with these, and operators of which it is not known.

    ``by_hand`` are the functions of the sources, ``defined`` the operator types that have a definition, with its inputs.
    """
    wrappers = Wrappers(by_hand)
    holding: dict[str, list[str]] = {}
    unknown = []
    for name in catalog.names():
        operator, phase_one = catalog.get(name), name + "GetWorkspaceSize"
        if phase_one in wrappers.by_name:
            if phase_one not in wrappers.wrapping:
                continue  # composed: the index is ignored
            outputs = sum(p.kind in _TENSORS and p.direction == "out" for p in operator.parameters)
            is_known = counted(operator, None) and wrappers.hands_on(phase_one, _last_input(operator) + 1, outputs)
        else:
            inputs = defined.get(name[len("aclnn") :])
            is_known = inputs is not None and counted(operator, inputs)
        if not is_known:
            unknown.append(name)
        elif slots(operator):
            holding[name] = slots(operator)
    return holding, unknown


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("repositories", nargs="+", type=Path)
    parser.add_argument("--write", action="store_true", help="update the catalog's data")
    options = parser.parse_args()
    by_hand: list[Function] = []
    defined: dict[str, int] = {}
    commits = {}
    for path in options.repositories:
        commit, texts = sources(path)
        by_hand += [f for file, text in texts.items() for f in functions(file, bare(text))]
        commit, texts = sources(path, lambda name: name.endswith("_def.cpp"))
        defined.update(definitions(texts))
        commits[repository_name(path)] = commit
    holding, unknown = classify(by_hand, defined)
    for name, arguments in holding.items():
        print(name, *arguments)
    for name in unknown:
        print("unknown:", name, *slots(catalog.get(name)))
    if options.write:
        write_traits(
            {
                "tensor_indices": {
                    "why": "executors of these operators may count their tensors in another way than the prototype tells; "
                    '"slots" has what counts among the input tensors of others (by scripts/find_tensor_indices.py)',
                    "source": commits,
                    "operators": unknown,
                    "slots": holding,
                }
            }
        )
    print(f"# {len(holding)} with slots, {len(unknown)} unknown", file=sys.stderr)


if __name__ == "__main__":
    main()
