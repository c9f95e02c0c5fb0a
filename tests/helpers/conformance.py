"""Runs first-phase status cases (a .jsonl.gz file, see its README) through the NumPy backend's checks.

As a script it prints agreement by family and the disagreements:
python tests/helpers/conformance.py [FILE] [--family F] [--op NAME]
"""

from __future__ import annotations

import argparse
import collections
import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, Optional

from ascend_aclnn import catalog, rules
from ascend_aclnn.backends.numpy import find_backend as numpy_backend
from ascend_aclnn.catalog import Kind
from ascend_aclnn.core.dtypes import DataType, Format
from ascend_aclnn.core.errors import PARAM_NULLPTR
from ascend_aclnn.core.scalar import Scalar
from ascend_aclnn.core.spec import contiguous_strides
from ascend_aclnn.core.tensor import Tensor

CASES = Path(__file__).parents[3] / "shared" / "conformance" / "phase1_status.jsonl.gz"
SOCS = {
    "ascend910b": "Ascend910B1",
    "ascend910_93": "Ascend910_9391",
    "ascend910": "Ascend910A",
    "ascend310p": "Ascend310P3",
    "ascend310": "Ascend310",
    "ascend310b": "Ascend310B1",
    "ascend950": "Ascend950PR_9599",
}


class Outcome(NamedTuple):
    number: int  # line of the case in the file, from 1
    operator: str
    expected: Any
    got: int
    detail: str

    @property
    def agrees(self) -> bool:
        if self.expected == "nonzero":
            return self.got != 0
        return self.got == self.expected or (self.expected == 0 and self.got in (561002, 561003))


def cases(path: Path = CASES) -> list[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def run(case: dict[str, Any], number: int = 0) -> Outcome:
    """The status that the checks give for one case."""
    if case.get("workspace_size_null"):
        return Outcome(number, case["op"], case["expect"], PARAM_NULLPTR, "workspaceSize is a null pointer")
    operator = catalog.get(case["op"])
    backend = numpy_backend(SOCS[case["soc"]])
    values = [_value(arg, p.kind) for arg, p in zip(case["args"], operator.parameters)]
    problem = rules.check(operator, values, backend._soc)
    status, detail = (0, "") if problem is None else (problem.status, problem.detail)
    return Outcome(number, case["op"], case["expect"], status, detail)


def _value(arg: dict[str, Any], kind: Kind) -> Any:
    if arg.get("null"):
        return None
    if "t" in arg:
        return _tensor(arg["t"])
    if "s" in arg:
        return Scalar(_number(arg["s"].get("value", 0)), _dtype(arg["s"].get("dtype", "ACL_FLOAT")))
    for key in ("ia", "fa", "ba"):
        if key in arg:
            return tuple(_number(item) for item in arg[key])
    if "tl" in arg:
        return [_value(item if "t" in item or item.get("null") else {"t": item}, Kind.TENSOR) for item in arg["tl"]]
    if "sl" in arg:
        return [_value(item if "s" in item else {"s": item}, Kind.SCALAR) for item in arg["sl"]]
    return _number(arg["attr"]) if not isinstance(arg["attr"], str) or kind is not Kind.STRING else arg["attr"]


def _tensor(entry: dict[str, Any]) -> Tensor:
    shape = tuple(entry.get("shape", (1, 1, 16, 16)))
    strides = tuple(entry.get("strides") or contiguous_strides(shape))
    storage = tuple(entry["storage"]) if entry.get("storage") is not None else None
    label = entry.get("format", "ACL_FORMAT_NCHW")
    format_ = Format[label.replace("ACL_FORMAT_", "").replace("ACL_", "")]
    tensor = Tensor(
        _NO_STORAGE, shape, _dtype(entry.get("dtype", "ACL_FLOAT")), strides, entry.get("offset", 0), format_, storage
    )
    tensor.storage = numpy_backend("Ascend910B1").allocate(0, 0)
    return tensor


_NO_STORAGE: Any = None


def _dtype(name: str) -> DataType:
    return DataType[name.replace("ACL_", "")] if isinstance(name, str) else DataType(name)


def _number(value: Any) -> Any:
    return float(value) if isinstance(value, str) and value.strip("-").lower() in ("nan", "inf") else value


def outcomes(path: Path = CASES, family: Optional[str] = None, name: Optional[str] = None) -> Iterator[Outcome]:
    for number, case in enumerate(cases(path), 1):
        wanted = (family is None or catalog.get(case["op"]).family.endswith(family)) and (
            name is None or case["op"] == name
        )
        if wanted:
            yield run(case, number)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", nargs="?", type=Path, default=CASES)
    parser.add_argument("--family", help="families whose name ends so, e.g. math/math or nn/activation")
    parser.add_argument("--op", help="one operator's C name")
    parser.add_argument("--args", action="store_true", help="print the arguments of each disagreeing case")
    options = parser.parse_args()
    by_family: dict[str, list[Outcome]] = collections.defaultdict(list)
    everything = cases(options.file)
    for outcome in outcomes(options.file, options.family, options.op):
        by_family[catalog.get(outcome.operator).family].append(outcome)
        if not outcome.agrees:
            print(
                f"{outcome.number} {outcome.operator}: expected {outcome.expected}, got {outcome.got} {outcome.detail}"
            )
            if options.args:
                print("   ", everything[outcome.number - 1]["soc"], json.dumps(everything[outcome.number - 1]["args"]))
    total = [outcome for rows in by_family.values() for outcome in rows]
    for label, rows in [*sorted(by_family.items()), ("all", total)]:
        good = sum(outcome.agrees for outcome in rows)
        split = ", ".join(
            f"{status}: {sum(o.agrees for o in rows if o.expected == status)}/{sum(o.expected == status for o in rows)}"
            for status in sorted({o.expected for o in rows}, key=str)
        )
        print(f"{label:24} {good}/{len(rows)} {100 * good / max(len(rows), 1):.1f} %   ({split})")


if __name__ == "__main__":
    main()
