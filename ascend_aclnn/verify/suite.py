"""The conformance suite: the cases of every operator by number, and what the NumPy reference gave for them.

``suite/FAMILY.txt`` has a line for each case, ``aclnnRmsNorm/0003 normal -> FLOAT[2,4] 0.8; FLOAT[2,1] 1.1``: its identifier, its
label, and of each output the data type, the shape, the mean magnitude of the finite elements and how many are not finite, or
the status of a refusal. Of an operator that works among ranks these are the outputs of rank 0, of rank 1 and so on.
``scripts/write_suite.py`` writes the files.
"""

from __future__ import annotations

import functools
import random
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Optional

import numpy as np

from ascend_aclnn.catalog import Operator
from ascend_aclnn.core.dtypes import as_datatype
from ascend_aclnn.core.socs import DEFAULT_SOC
from ascend_aclnn.verify import samples
from ascend_aclnn.verify.calls import NULL, RANDOM, Case, arrays
from ascend_aclnn.verify.cases import cases
from ascend_aclnn.verify.ranks import WORKS

FOLDER = Path(__file__).parent / "suite"
TURNS = 32  # of ``again``
_STRIDE = 1 << 20  # between the seeds of its turns
_TOLERANCE = 0.02  # of a mean magnitude: other orders of sums, other versions of NumPy
_LINE = re.compile(r"(\w+)/(\d+) (.+?) -> (.*)")
_OUTPUT = re.compile(r"(\w+\[[\d,]*\])(?: (\S+))?(?: \+(\d+))?")


class Numbered(NamedTuple):
    """A case of the suite; ``expected`` is None where the suite does not know the operator."""

    operator: str
    number: int
    case: Case
    expected: Optional[str]

    @property
    def identifier(self) -> str:
        return f"{self.operator}/{self.number:04}"

    def __str__(self) -> str:
        return f"{self.identifier} {self.case.label} -> {self.expected}"


def file_of(family: str) -> Path:
    """The file with the cases of a family."""
    return FOLDER / f"{family.replace('/', '.')}.txt"


@functools.lru_cache(8)
def read(family: str) -> dict[str, list[Numbered]]:
    """The cases of a family's operators, with the numbers of seed 0."""
    found: dict[str, list[Numbered]] = {}
    path = file_of(family)
    for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else ():
        match = _LINE.fullmatch(line)
        if match is None:
            raise ValueError(f"{path}: {line!r} is no case")
        name, number, label, expected = match.groups()
        found.setdefault(name, []).append(Numbered(name, int(number), Case.parse(label), expected))
    return found


def wanted_soc(operator: Operator) -> Optional[str]:
    """The SoC whose rules an operator's example, sample or job among ranks takes; None: the default's, or there is none."""
    return WORKS[operator.name].soc if operator.name in WORKS else samples.wanted_soc(operator)


def soc_of(operator: Operator) -> str:
    """The SoC whose rules the suite takes an operator's cases by."""
    return wanted_soc(operator) or DEFAULT_SOC


def numbered(operator: Operator, soc: str, seed: int = 0) -> Iterable[Numbered]:
    """The cases of an operator, those of the suite where it has some; NoCase where the rules refuse its example."""
    known = read(operator.family).get(operator.name)
    found: Iterable[Numbered]
    if known is None:
        found = (Numbered(operator.name, number, case, None) for number, case in enumerate(enumerated(operator, soc)))
    else:
        found = known
    return (item._replace(case=item.case._replace(seed=seed)) for item in found)


def enumerated(operator: Operator, soc: str) -> Iterator[Case]:
    """The cases of an operator as the suite numbers them. One that works among ranks has its job."""
    if operator.name in WORKS:
        yield Case()
        return
    yield from cases(operator, soc)
    yield Case(NULL)


def usual(items: Iterable[Numbered]) -> list[Numbered]:
    """Those that a plain verification tries: the example, a case for each data type, two of its own, the null pointer."""
    chosen, seen = [], set()
    for item in items:
        case = item.case
        kind = (case.values,) if case.dtype is None else (case.dtype, "")
        plain = case.values in (*RANDOM, "example") and not case.layout and case.attribute is None
        first = plain and kind not in seen and case.axis == 0 and case.size != 0
        if item.number == 0 or case.values == NULL or first:
            seen.add(kind)
            chosen.append(item)
    return chosen


def sample(items: Sequence[Numbered], count: int, seed: int) -> list[Numbered]:
    """Some cases, other ones for each seed, in order."""
    if len(items) <= count:
        return list(items)
    chosen = random.Random(f"{seed} {items[0].operator}").sample(items, count)
    return sorted(chosen, key=lambda item: item.number)


def again(items: Iterable[Numbered]) -> Iterator[Numbered]:
    """The cases of random numbers over and over, with other numbers: of small results one set says little about rounding."""
    chosen = [item for item in items if item.case.values in RANDOM and not item.case.layout and item.case.size != 0]
    for turn in range(1, TURNS + 1):
        for item in chosen:
            yield item._replace(case=item.case._replace(seed=item.case.seed + turn * _STRIDE), expected=None)


def describe(results: Sequence[Any], random_values: bool = False) -> str:
    """The results of a case as the suite has them; of random ones the types and shapes."""
    return "; ".join(_described(value, random_values) for value in arrays(list(results)))


def _described(value: Any, random_values: bool) -> str:
    if value is None:
        return "none"
    array = np.asarray(value)
    text = f"{as_datatype(array.dtype).name}[{','.join(map(str, array.shape))}]"
    if random_values or not array.size:
        return text
    wide = np.abs(array.astype(np.complex128 if array.dtype.kind == "c" else np.float64))
    finite = np.isfinite(wide)
    count = int(array.size - np.count_nonzero(finite))
    magnitude = float(np.mean(wide[finite])) if count < array.size else 0.0
    return f"{text} {magnitude:.3g}{f' +{count}' if count else ''}"


def difference(expected: Optional[str], found: str, figures: bool = True) -> str:
    """What is wrong with results, as ``describe`` has them; "" where they are as expected. ``figures``: magnitudes too."""
    if expected is None or _alike(expected, found, figures):
        return ""
    return f"the reference gives {found}; the suite has {expected}"


def _alike(expected: str, found: str, figures: bool) -> bool:
    one, other = expected.split("; "), found.split("; ")
    return len(one) == len(other) and all(_same_output(a, b, figures) for a, b in zip(one, other))


def _same_output(expected: str, found: str, figures: bool) -> bool:
    one, other = _OUTPUT.fullmatch(expected), _OUTPUT.fullmatch(found)
    if one is None or other is None:
        return expected == found
    if one[1] != other[1]:
        return False
    if not figures:
        return True
    if (one[2] is None) != (other[2] is None):
        return False
    a, b = float(one[2] or 0), float(other[2] or 0)
    return one[3] == other[3] and abs(a - b) <= _TOLERANCE * max(a, b) + 1e-30


__all__ = [
    "Numbered",
    "again",
    "describe",
    "difference",
    "enumerated",
    "file_of",
    "numbered",
    "read",
    "sample",
    "soc_of",
    "usual",
    "wanted_soc",
]
