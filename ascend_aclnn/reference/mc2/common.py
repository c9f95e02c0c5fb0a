"""What the references of communicating operators share: arguments by name, and the group."""

from __future__ import annotations

from typing import Any, Callable, Optional

import numpy as np

from ascend_aclnn.collectives import groups
from ascend_aclnn.collectives.groups import Ranks
from ascend_aclnn.numerics import Array, round_into
from ascend_aclnn.reference._named import NamedArguments, short_names
from ascend_aclnn.reference.declare import DataError, reference


class Arguments(NamedArguments):
    """Inputs by C name as they are stored, and ``out``: outputs by C name, without "Optional" and "Out" at their ends."""

    out: dict[str, Any]

    def ranks(self, group: str = "group", size: str = "", rank: str = "") -> Ranks:
        """The group that an argument names; the arguments for its size and this rank must agree with it."""
        ranks = groups.find(self[group])
        for name, value in ((size, ranks.size), (rank, ranks.rank)):
            if name and self[name] != value:
                what = "ranks" if name == size else "for this rank's number"
                raise DataError(name, f"is {self[name]}; the group {ranks.name} has {value} {what}")
        return ranks

    def wants(self, name: str) -> bool:
        """Whether an output is there and not empty."""
        target = self.out.get(name)
        return target is not None and target.size > 0

    def store(self, name: str, values: Array) -> None:
        """Rounds a result into an output, if it is wanted; shapes may differ in axes of size 1."""
        if not self.wants(name):
            return
        target = self.out[name]
        if target.size != values.size or target.shape[-1] != values.shape[-1]:
            raise DataError(name, f"has shape {target.shape}; it must be {values.shape}")
        round_into(target, values.reshape(target.shape))

    def store_front(self, name: str, values: Array) -> None:
        """Into the first rows (or elements) of an output, which has room for more; the rest is not written."""
        if self.out.get(name) is None:
            return
        target = self.out[name]
        if len(target) < len(values):
            raise DataError(name, f"has shape {target.shape}; its first axis must be at least {len(values)}")
        round_into(target[: len(values)], values)


# elasticInfo begins with: whether ranks were taken out, how many are left, how many of them have shared experts, how many
# other experts there are.
_ELASTIC_HEAD = 4


def remaining(args: Arguments, ranks: Ranks, info: Array) -> tuple[Ranks, int, int]:
    """The ranks that were not taken out, with new numbers; those that have shared experts, and the number of the others.

    elasticInfo goes on with the new number of each rank (-1: taken out) and the old one of each new number.
    """
    if (args["tpWorldSize"] or 0) > 1:
        raise DataError("elasticInfo", "is given; ranks can be taken out only if tpWorldSize is 0 or 1")
    if len(info) != _ELASTIC_HEAD + 2 * ranks.size:
        raise DataError("elasticInfo", f"has {len(info)} numbers; it must have 4 + 2 * {ranks.size}")
    _, size, shared_ranks, experts = info[:_ELASTIC_HEAD].tolist()
    renumbered, members = np.split(info[_ELASTIC_HEAD:], 2)
    members = members[: max(size, 0)]
    expected = np.full(ranks.size, -1)
    if 0 < size <= ranks.size and members.min() >= 0 and members.max() < ranks.size:
        expected[members] = np.arange(size)
    if not np.array_equal(renumbered, expected) or renumbered[ranks.rank] < 0:
        text = f"has the tables {renumbered.tolist()} and {members.tolist()}; one must undo the other, with this rank in it"
        raise DataError("elasticInfo", text)
    return ranks.among(members.tolist()), shared_ranks, experts


def communicating(
    *names: str, unsupported: Optional[Callable[[Any], Optional[str]]] = None
) -> Callable[[Callable[[Arguments], None]], Callable[[Arguments], None]]:
    """Registers a function of ``Arguments``, which writes the outputs, as the reference of the named operators."""

    def register(function: Callable[[Arguments], None]) -> Callable[[Arguments], None]:
        for name in names:
            reference(name, raw=True, communicates=True, unsupported=unsupported)(_by_position(name, function))
        return function

    return register


def _by_position(name: str, function: Callable[[Arguments], None]) -> Callable[..., None]:
    """The same function, called with an operator's arguments in their order."""
    inputs, outputs = short_names(name)
    outputs = [output.removesuffix("Out") for output in outputs]

    def run(*values: Any, out: tuple[Any, ...]) -> None:
        arguments = Arguments(zip(inputs, values))
        arguments.operator, arguments.out = name, dict(zip(outputs, out))
        function(arguments)

    return run


def shares(ranks: Ranks, x: Array, name: str, axis: int = 0) -> list[Array]:
    """An array in equal parts, one for each rank."""
    if x.shape[axis] % ranks.size:
        text = f"has shape {x.shape}; axis {axis} must be a multiple of {ranks.size}, the ranks of {ranks.name}"
        raise DataError(name, text)
    return np.split(x, ranks.size, axis)
