"""What a recorded program asks of CANN: its operators with data types and counts, and where they would not run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from ascend_aclnn import catalog, reference, rules
from ascend_aclnn.catalog import Kind, Operator, life
from ascend_aclnn.core.dtypes import DataType
from ascend_aclnn.core.scalar import Scalar
from ascend_aclnn.core.socs import soc as find_soc
from ascend_aclnn.recording import Launch, Value

# A chip of each product, whose rules stand for it.
PRODUCTS = {
    "A2": "Ascend910B1",
    "A3": "Ascend910_9391",
    "950": "Ascend950PR_9599",
    "310P": "Ascend310P3",
    "910": "Ascend910A",
}
_SHOWN = 3  # forms of an operator that the text lists


class OperatorUse:
    """An operator that was launched: how often, in which forms (data types of its tensors), and what is known of it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.count = 0
        self.refused = 0  # by CANN, in the recorded run
        self.forms: Counter[str] = Counter()
        self.broken: dict[
            str, str
        ] = {}  # product -> what the rules of its chip say of the first launch that they refuse
        self.unchecked = 0  # kinds of launches whose arguments the recording does not tell
        self._seen: set[Any] = set()
        self.operator = catalog.get(name) if name in catalog.names() else None

    def add(self, launch: Launch) -> None:
        """Counts a launch, and checks it by every product's rules where it differs from those before."""
        self.count += 1
        self.refused += launch.statuses[0] != 0
        self.forms[_form(launch)] += 1
        operator = self.operator
        if operator is None or launch.statuses[0] != 0:
            return
        if launch.operator.parameters != tuple(parameter.name for parameter in operator.parameters):
            self.unchecked += 1  # of a CANN with another prototype
            return
        key = tuple(map(_key, launch.values))
        if key in self._seen:
            return
        self._seen.add(key)
        try:
            values = [_spec(p.kind, value) for p, value in zip(operator.parameters, launch.values)]
        except ValueError:
            self.unchecked += 1
            return
        for product, soc in PRODUCTS.items():
            if product not in self.broken:
                text = _refusal(operator, values, soc)
                if text:
                    self.broken[product] = text

    @property
    def has_reference(self) -> bool:
        return self.operator is not None and reference.find(self.operator) is not None

    @property
    def deprecated(self) -> str:
        """The release that deprecates it, and what replaces it; "" where none does."""
        facts = life.of(self.name)
        if not facts.deprecated:
            return ""
        return f"since CANN {facts.deprecated}" + (f"; use {', '.join(facts.replaced_by)}" if facts.replaced_by else "")

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "operator": self.name,
            "launches": self.count,
            "refused": self.refused,
            "forms": dict(self.forms.most_common()),
            "in_catalog": self.operator is not None,
            "reference": self.has_reference,
            "deprecated": self.deprecated,
            "breaks_on": self.broken,
            "unchecked": self.unchecked,
        }


def usage(launches: Iterable[Launch]) -> list[OperatorUse]:
    """The operators of some launches, the most frequent first."""
    uses: dict[str, OperatorUse] = {}
    for launch in launches:
        name = launch.operator.name
        uses.setdefault(name, OperatorUse(name)).add(launch)
    return sorted(uses.values(), key=lambda use: -use.count)


def lines(uses: list[OperatorUse]) -> Iterator[str]:
    """The same as text."""
    total = sum(use.count for use in uses)
    yield f"{len(uses)} operators in {total} launches"
    yield f"{'launches':>9}  {'operator':40} {'reference':9}  data types"
    for use in uses:
        forms = [form for form, _ in use.forms.most_common(_SHOWN)]
        more = f" and {len(use.forms) - _SHOWN} more" if len(use.forms) > _SHOWN else ""
        yield f"{use.count:>9}  {use.name:40} {'yes' if use.has_reference else 'no':9}  {'; '.join(forms)}{more}"
    for product, soc in PRODUCTS.items():
        broken = [use for use in uses if product in use.broken]
        if broken:
            yield f"{len(broken)} would be refused on {product} (by the rules of {soc}):"
            yield from (f"  {use.name}: {use.broken[product]}" for use in broken)
    yield from (f"{use.name} is deprecated {use.deprecated}" for use in uses if use.deprecated)
    yield from (f"{use.name} is not in the catalog" for use in uses if use.operator is None)


def _form(launch: Launch) -> str:
    """The data types of a launch's inputs, each named once for a run of equal ones."""
    names: list[str] = []
    for direction, value in zip(launch.operator.directions, launch.values):
        if direction != "out":
            names += [_dtype(tensor.description.dtype) for tensor in value.tensors()]
    return " ".join(name for at, name in enumerate(names) if at == 0 or name != names[at - 1]) or "no tensors"


def _dtype(number: int) -> str:
    try:
        return DataType(number).name
    except ValueError:
        return f"data type {number}"


def _key(value: Value) -> Any:
    """What rules look at, to be compared: of tensors the description alone."""
    if value.kind == "tensor":
        return value.content.description
    if value.kind == "tensors":
        return tuple(None if member is None else member.description for member in value.content)
    return value


def _spec(kind: Kind, value: Value) -> Any:
    """A value as rules take it; ValueError where the recording does not tell it."""
    if value.kind == "unknown":
        raise ValueError("a handle that the recorder had not seen made")
    if value.kind == "tensor":
        return value.content.description.spec
    if value.kind == "tensors":
        return [None if member is None else member.description.spec for member in value.content]
    if value.kind == "scalar":
        return _scalar(value.content)
    if value.kind == "scalars":
        return [None if member is None else _scalar(member) for member in value.content]
    return bool(value.content) if kind is Kind.BOOL else value.content


def _scalar(recorded: Any) -> Scalar:
    number = recorded.value
    if isinstance(number, bytes):
        raise ValueError("a scalar of a data type without values in NumPy")
    return Scalar(number, DataType(recorded.dtype))


def _refusal(operator: Operator, values: list[Any], soc: str) -> str:
    """Why the rules of a chip refuse a launch; "" where they do not."""
    violation = rules.check(operator, values, find_soc(soc))
    return "" if violation is None else str(rules.error(operator, violation)).splitlines()[0]
