"""Defaults: what a call may leave out, and that the defaults named after torch are torch's."""

from __future__ import annotations

import importlib
import inspect
import json
import re
from typing import Any

import numpy as np
import pytest

from ascend_aclnn import DataType, catalog, ops

X = np.arange(12, dtype=np.float32).reshape(3, 4)


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda: ops.add(X, X), 2 * X),
        (lambda: ops.adds(X, 1), X + 1),
        (lambda: ops.topk(X, 3).indices, [[3, 2, 1]] * 3),
        (lambda: ops.cat([X, X]), np.concatenate([X, X])),
        (lambda: ops.sort(-X).values, np.sort(-X)),
        (lambda: ops.mean(X), X.mean()),
        (lambda: ops.mean(X, -1), X.mean(-1)),
        (lambda: ops.amax(X), X.max()),
        (lambda: ops.reduce_sum(X, 0), X.sum(0)),
        (lambda: ops.mse_loss(X, X + 2), 4.0),
    ],
)
def test_what_nearly_every_caller_leaves_alone_has_a_default(call: Any, expected: Any) -> None:
    np.testing.assert_allclose(call(), expected)


def test_a_dtype_that_is_left_out_is_the_inputs_and_int64_for_integers() -> None:
    assert ops.reduce_sum(X.astype(np.float16), 0).dtype == np.float16
    assert ops.reduce_sum(X.astype(np.int32), 0).dtype == np.int64
    assert ops.cumsum(X > 1, 0).dtype == np.int64
    assert ops.reduce_sum(X, 0, dtype=DataType.FLOAT16).dtype == np.float16


def _arguments(name: str) -> dict[str, Any]:
    """The defaults of a function of torch by the name of its parameter."""
    torch = pytest.importorskip("torch")
    *parents, last = name.split(".")
    holder = torch
    for parent in parents[1:]:
        holder = importlib.import_module("torch.nn.functional") if parent == "functional" else getattr(holder, parent)
    function = getattr(holder, last)
    if inspect.isclass(function):  # a layer: keyword arguments of the base class
        return {n: p.default for n, p in inspect.signature(torch.nn.modules.rnn.RNNBase.__init__).parameters.items()}
    wrapped = {"max_pool2d": "_max_pool2d", "max_pool3d": "_max_pool3d"}  # behind a switch for return_indices
    if last in wrapped:
        function = getattr(holder, wrapped[last])
    elif last in ("unique", "unique_consecutive"):
        function = getattr(torch.functional, f"_{last}_impl")
    if inspect.isfunction(function):
        return {n: p.default for n, p in inspect.signature(function).parameters.items()}
    operator = f"linalg_{last}" if parents[-1] == "linalg" else last
    if parents[-1] == "fft":
        operator = f"fft_{last}"
    found: dict[str, Any] = {}
    packet = getattr(torch.ops.aten, operator)
    for overload in packet.overloads():
        for argument in getattr(packet, overload)._schema.arguments:
            if argument.has_default_value():
                found.setdefault(argument.name, argument.default_value)
    return found


def test_defaults_named_after_torch_are_torchs() -> None:
    pytest.importorskip("torch")
    rows = json.loads((catalog.FOLDER / "defaults.json").read_text(encoding="utf-8"))
    checked = 0
    wrong = []
    for name, defaults in rows.items():
        for parameter, row in defaults.items():
            match = re.fullmatch(r"torch: ([\w.]+)(?: \((\w+)(?:=(.*))?\))?", row["evidence"])
            if match is None:
                documented = re.fullmatch(
                    r"torch: torch\.\w+, documented", row["evidence"]
                )  # its signature does not say
                assert documented or not row["evidence"].startswith("torch"), (name, parameter, row)
                continue
            function, renamed, value = match.groups()
            theirs = _arguments(function)
            wanted = (renamed or parameter).lower().replace("_", "")
            wanted = re.sub("optional$", "", wanted)
            same = {"clipvaluemin": "minval", "clipvaluemax": "maxval", "pscalar": "p", "keepdims": "keepdim"}
            candidates = (wanted, same.get(wanted, wanted), wanted.rstrip("s"))
            by_name = {n.lower().replace("_", ""): default for n, default in theirs.items()}
            found = next((by_name[c] for c in candidates if c in by_name), "absent")
            if value is not None:
                theirs_text = "None" if found == "absent" else str(found)  # an argument of one overload only
                if theirs_text != value.strip("'"):
                    wrong.append(f"{name}.{parameter}: {row['evidence']}, but {found}")
                checked += 1
                continue
            ours = row["value"]
            ours = ours[0] if isinstance(ours, list) and len(set(ours)) == 1 else ours
            theirs_value = found[0] if isinstance(found, (list, tuple)) and len(found) else found
            if ours != theirs_value and not (ours == [] and list(theirs_value or ()) == []):
                wrong.append(f"{name}.{parameter}: {ours} {function}: {found}")
            checked += 1
    assert not wrong, "\n".join(wrong)
    assert checked > 200
