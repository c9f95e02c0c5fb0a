"""References of operators that come in many versions: one function that gets the arguments by name."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Callable, Optional

import numpy as np

from ascend_aclnn import catalog
from ascend_aclnn.numerics import round_into
from ascend_aclnn.reference.declare import reference


class NamedArguments(dict[str, Any]):
    """The in and inout arguments by C name, without "Optional" at its end; None for arguments that this version does not have.

    A name that no operator of the family has is a LookupError.
    """

    operator = ""
    outputs: Mapping[str, Any] = MappingProxyType({})  # with raw arrays: the outputs to fill, by C name

    def __missing__(self, name: str) -> None:
        _check_known(self.operator, name)

    def either(self, *names: str) -> Any:
        """The value of one argument that has a different name in each version; None if all are absent."""
        return next((self[name] for name in names if self[name] is not None), None)


def reference_by_name(
    *names: str,
    raw: bool = False,
    stored: Sequence[str] = (),
    unsupported: Optional[Callable[[Any], Optional[str]]] = None,
) -> Callable[[Callable[[NamedArguments], Any]], Callable[[NamedArguments], Any]]:
    """Registers a function of ``NamedArguments`` as the reference of the named operators.

    It returns a dict of results by C name, again without "Optional"; outputs that are not in it are not written. With
    ``raw`` it gets the arrays as they are stored; the results are rounded all the same. ``stored`` and ``unsupported``: see
    ``reference``.
    """

    def register(function: Callable[[NamedArguments], Any]) -> Callable[[NamedArguments], Any]:
        for name in names:
            reference(name, raw=raw, stored=stored, unsupported=unsupported)(_by_position(name, function, raw))
        return function

    return register


def _by_position(name: str, function: Callable[[NamedArguments], Any], raw: bool) -> Callable[..., Any]:
    """The same function, called with an operator's arguments in their order."""
    inputs, outputs = short_names(name)
    _DECLARED.update(inputs, outputs)

    def results(values: Sequence[Any], out: Sequence[Any] = ()) -> list[Any]:
        arguments = NamedArguments(zip(inputs, values))
        arguments.operator, arguments.outputs = name, dict(zip(outputs, out))
        outputs_by_name = function(arguments)
        for output in outputs_by_name.keys() - outputs:
            _check_known(name, output)
        return [outputs_by_name.get(output) for output in outputs]

    def run(*values: Any) -> Any:
        arrays = results(values)
        return arrays[0] if len(arrays) == 1 else tuple(arrays)

    def run_raw(*values: Any, out: Sequence[Any]) -> None:
        for array, target in zip(results(values, out), out):
            if target is not None and array is not target:
                round_into(target, np.zeros(target.shape) if array is None else np.asarray(array))

    return run_raw if raw else run


# The parameters of the operators declared so far: they answer for most names, without reading the whole catalog.
_DECLARED: set[str] = set()


@functools.cache  # attention asks for thirty names that its version does not have
def _check_known(operator: str, name: str) -> None:
    family = catalog.get(operator).family
    if name not in _DECLARED and name not in _known_names(family.replace("experimental/", "")):
        raise LookupError(f"{operator}: no operator of {family} has a parameter {name}")


@functools.cache
def _known_names(family: str) -> frozenset[str]:
    """The parameters of all operators of a family: what its references share reads those of any."""
    operators = (catalog.get(name) for name in catalog.names())
    members = (operator for operator in operators if operator.family.replace("experimental/", "") == family)
    return frozenset(short(parameter.name) for operator in members for parameter in operator.parameters)


def short_names(operator: str) -> tuple[list[str], list[str]]:
    """The names of what an operator reads (in and inout) and of what it writes (out and inout)."""
    parameters = catalog.get(operator).parameters
    inputs = [short(p.name) for p in parameters if p.direction != "out"]
    return inputs, [short(p.name) for p in parameters if p.direction != "in"]


def short(name: str) -> str:
    return name[: -len("Optional")] if name.endswith("Optional") else name
