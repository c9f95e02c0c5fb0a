"""What notebooks show of Tensors, results and comparisons."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ascend_aclnn.core.printing import why_unread
from ascend_aclnn.core.stored import StoredTensor

MOST_VALUES = 4096  # of more, the values are not fetched from the device


def table(rows: Iterable[Sequence[object]], head: Sequence[str] = ()) -> str:
    """An HTML table; cells are escaped."""
    lines = [f"<tr>{''.join(f'<th>{html.escape(cell)}</th>' for cell in head)}</tr>"] if head else []
    lines += [f"<tr>{''.join(f'<td>{html.escape(str(cell))}</td>' for cell in row)}</tr>" for row in rows]
    return f"<table>{''.join(lines)}</table>"


def facts(tensor: StoredTensor) -> list[tuple[str, str]]:
    """Shape, dtype, format, strides and backend of a Tensor."""
    rows = [("shape", str(tensor.shape)), ("dtype", tensor.dtype.name)]
    if tensor.format.name != "ND":
        rows.append(("format", tensor.format.name))
    if not tensor.is_contiguous:
        rows.append(("strides", str(tensor.strides)))
    return [*rows, ("backend", f"{tensor.backend.name}:{tensor.device}")]


def tensor_html(tensor: StoredTensor) -> str:
    """The facts of a Tensor, and its values where there are few."""
    if tensor.size > MOST_VALUES:
        values = f"{tensor.size} elements; .numpy() fetches them"
    else:
        values = why_unread(tensor) or np.array2string(tensor.numpy(), separator=", ", threshold=64, edgeitems=3)
    return f"<b>Tensor</b>{table(facts(tensor))}<pre>{html.escape(values)}</pre>"


def results_html(results: Any) -> str:
    """The fields of a named tuple of results, with type, shape and dtype."""
    rows = []
    for name, value in zip(results._fields, results):
        fact_by_name = dict(facts(value)) if hasattr(value, "storage") else {}
        shape, dtype = (
            fact_by_name.get("shape", getattr(value, "shape", "")),
            fact_by_name.get("dtype", getattr(value, "dtype", "")),
        )
        rows.append((name, type(value).__name__, shape, dtype))
    return f"<b>{html.escape(type(results).__name__)}</b>{table(rows, ('field', 'type', 'shape', 'dtype'))}"
