"""The decorator of references of ATB's operations: one function that gets inputs and parameters by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Callable, Optional

from ascend_aclnn.catalog import atb
from ascend_aclnn.reference.declare import reference

Arguments = Mapping[
    str, Any
]  # inputs, parameters, and outputs of which a part is written; inputs on the host are tuples


def operation_reference(
    name: str,
    *,
    raw: bool = False,
    stored: Sequence[str] = (),
    unsupported: Optional[Callable[[Any], Optional[str]]] = None,
    product: str = "",
) -> Callable[[Callable[[Arguments], Any]], Callable[[Arguments], Any]]:
    """Registers a function as the reference of an operation: ``operation_reference("PagedAttention")``.

    It returns the output, or a tuple of them. ``raw``: it writes into the outputs, which are among its arguments, and returns
    nothing. ``stored``, ``unsupported`` and ``product``: see ``reference``.
    """
    operator = atb.get(name).operator
    inputs = [parameter.name for parameter in operator.inputs]
    outputs = [parameter.name for parameter in operator.outputs]

    def register(function: Callable[[Arguments], Any]) -> Callable[[Arguments], Any]:
        def run(*values: Any) -> Any:
            return function(dict(zip(inputs, values)))

        def run_raw(*values: Any, out: Sequence[Any]) -> None:
            function({**dict(zip(inputs, values)), **dict(zip(outputs, out))})

        declare = reference(operator.name, raw=raw, stored=stored, unsupported=unsupported, product=product)
        declare(run_raw if raw else run)
        return function

    return register
