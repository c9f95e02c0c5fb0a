"""References of operators that come in many versions: one function that gets the arguments by name."""

from __future__ import annotations

from typing import Any, Callable, Optional

import numpy as np

from ascend_aclnn import catalog
from ascend_aclnn.numerics import round_into
from ascend_aclnn.reference.declare import reference


class Given(dict[str, Any]):
    """The in and inout arguments by C name, without "Optional" at its end; None for those that a version does not have."""

    operator = ""

    def __missing__(self, name: str) -> None:
        return None


def reference_by_name(
    *names: str, raw: bool = False, unsupported: Optional[Callable[[Any], Optional[str]]] = None
) -> Callable[[Callable[[Given], Any]], Callable[[Given], Any]]:
    """Registers a function of ``Given`` as the reference of the named operators.

    It returns a dict of results by C name, again without "Optional"; outputs that are not in it are left away. With
    ``raw`` it gets the arrays as they are stored; the results are rounded all the same. ``unsupported``: see ``reference``.
    """

    def register(function: Callable[[Given], Any]) -> Callable[[Given], Any]:
        for name in names:
            parameters = catalog.get(name).parameters
            inputs = [short(p.name) for p in parameters if p.direction != "out"]
            outputs = [short(p.name) for p in parameters if p.direction != "in"]

            def results(values: Any, name: str = name, inputs: list[str] = inputs, outputs: list[str] = outputs) -> Any:
                given = Given(zip(inputs, values))
                given.operator = name
                made = function(given)
                return tuple(made.get(output) for output in outputs)

            def run(*values: Any, results: Callable[[Any], Any] = results) -> Any:
                made = results(values)
                return made[0] if len(made) == 1 else made

            def run_raw(*values: Any, out: Any, results: Callable[[Any], Any] = results) -> None:
                for made, target in zip(results(values), out):
                    if target is not None and made is not target:
                        round_into(target, np.zeros(target.shape) if made is None else np.asarray(made))

            reference(name, raw=raw, unsupported=unsupported)(run_raw if raw else run)
        return function

    return register


def short(name: str) -> str:
    return name[: -len("Optional")] if name.endswith("Optional") else name
