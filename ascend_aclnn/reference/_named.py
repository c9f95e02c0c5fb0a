"""References of operators that come in many versions: one function that gets the arguments by name."""

from __future__ import annotations

from typing import Any, Callable

from ascend_aclnn import catalog
from ascend_aclnn.reference.declare import reference


class Given(dict[str, Any]):
    """The in and inout arguments by C name, without "Optional" at its end; None for those that a version does not have."""

    operator = ""

    def __missing__(self, name: str) -> None:
        return None


def reference_by_name(*names: str) -> Callable[[Callable[[Given], Any]], Callable[[Given], Any]]:
    """Registers a function of ``Given`` as the reference of the named operators.

    It returns a dict of results by C name, again without "Optional"; outputs that are not in it are left away.
    """

    def register(function: Callable[[Given], Any]) -> Callable[[Given], Any]:
        for name in names:
            parameters = catalog.get(name).parameters
            inputs = [_short(p.name) for p in parameters if p.direction != "out"]
            outputs = [_short(p.name) for p in parameters if p.direction != "in"]

            def run(*values: Any, name: str = name, inputs: list[str] = inputs, outputs: list[str] = outputs) -> Any:
                given = Given(zip(inputs, values))
                given.operator = name
                made = function(given)
                results = tuple(made.get(output) for output in outputs)
                return results[0] if len(results) == 1 else results

            reference(name)(run)
        return function

    return register


def _short(name: str) -> str:
    return name[: -len("Optional")] if name.endswith("Optional") else name
