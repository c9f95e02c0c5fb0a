"""The decorator that registers references, and what they raise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Callable, NamedTuple, Optional, Union

from ascend_aclnn import registry
from ascend_aclnn.core.errors import DataError
from ascend_aclnn.numerics import Axes


class Reference(NamedTuple):
    function: Callable[..., Any]
    raw: bool
    channels_first: Union[bool, str]
    unsupported: Optional[Callable[[Any], Optional[str]]]
    elementwise: bool = False
    along: Optional[Axes] = None
    communicates: bool = False
    stored: Sequence[str] = ()
    products: Mapping[str, Reference] = MappingProxyType({})  # that have another function
    replaces: bool = False  # a vendor's, for an operator of the catalog

    def of(self, product: str) -> Reference:
        """The reference for a product line: "A2", "950", ...."""
        return self.products.get(product, self)


REFERENCES: dict[str, Reference] = {}  # by C name


def reference(
    *names: str,
    raw: bool = False,
    channels_first: Union[bool, str] = False,
    unsupported: Optional[Callable[[Any], Optional[str]]] = None,
    elementwise: bool = False,
    along: Optional[Axes] = None,
    communicates: bool = False,
    stored: Sequence[str] = (),
    product: str = "",
    replaces: bool = False,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers a function as the reference of the named operators.

    ``unsupported`` takes a ``rules.language.Call`` and returns what the reference lacks for such arguments (the
    call is then refused with 561003), or None. ``elementwise``: each element of the results depends on nothing but the
    elements at its place of the arrays, broadcast, and on the numbers; large arrays then arrive in pieces of any shape.
    ``along`` takes the function's arguments and gives the axes of the first that it works along, None where that is not
    known: the function treats the indices of all other axes independently, and large arrays arrive cut beside them.
    ``communicates``: other ranks wait for the function, so it runs even where every output is empty.
    ``stored``: inputs by C name that are not widened, because whole they would be too large.
    ``product``: the function is for this product line alone ("950"); that for all others is registered before it.
    ``replaces``: the function is a vendor's, for its form of an operator that the catalog has too (``register_operator`` with
    its prototype); the package's own reference does not count in this process.
    ``raw``: the arrays come as they are stored, and the function writes into ``out``. An output that it leaves unwritten, as
    CANN does, is among the arrays that it returns; of outputs that it returns as None, others say the same.
    """

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        entry = Reference(
            function, raw, channels_first, unsupported, elementwise, along, communicates, stored, replaces=replaces
        )
        for name in names:
            if product:
                others = REFERENCES[name]
                REFERENCES[name] = others._replace(products={**others.products, product: entry})
            elif registry.counts(name, replaces, REFERENCES, "references"):
                REFERENCES[name] = entry
        return function

    return register


__all__ = ["REFERENCES", "DataError", "Reference", "reference"]
