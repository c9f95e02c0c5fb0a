"""The decorator that registers references, and what they raise."""

from __future__ import annotations

from typing import Any, Callable, NamedTuple, Optional, Union

from ascend_aclnn.core.errors import DataError


class Reference(NamedTuple):
    function: Callable[..., Any]
    raw: bool
    channels_first: Union[bool, str]
    unsupported: Optional[Callable[[Any], Optional[str]]]


REFERENCES: dict[str, Reference] = {}  # by C name


def reference(
    *names: str,
    raw: bool = False,
    channels_first: Union[bool, str] = False,
    unsupported: Optional[Callable[[Any], Optional[str]]] = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers a function as the reference of the named operators.

    ``unsupported`` takes a ``rules.language.Call`` and tells what of CANN's the reference lacks for such arguments (the
    call is then refused with 561003), or None.
    """

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            if name in REFERENCES:
                raise ValueError(f"{name} has two references")
            REFERENCES[name] = Reference(function, raw, channels_first, unsupported)
        return function

    return register


__all__ = ["REFERENCES", "DataError", "Reference", "reference"]
