"""Graphs as text, JSON, SVG and HTML: nodes, streams, events, bytes."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence

from ascend_aclnn.core import drawing, notebook
from ascend_aclnn.core.graph_record import GraphNode

_HEAD = ("node", "stream", "task", "bytes", "arguments")

# Measures of the picture, in pixels.
_COLUMN, _ROW, _BOX_WIDTH, _BOX_HEIGHT, _TOP, _LEFT = 300, 34, 280, 26, 34, 40
_CHARACTERS = 40  # of a label
_COLORS = {"operator": "#dbe9ff", "collective": "#ffe2c4", "copy": "#e2f4dd", "record": "#eeeeee", "wait": "#eeeeee"}


def json_text(nodes: Sequence[GraphNode], streams: int, memory: int, backend: str) -> str:
    """``{"backend", "streams", "memory", "nodes": [{"node", "kind", "name", "stream", "bytes", ...}]}``."""
    rows = []
    for number, node in enumerate(nodes):
        row = {"node": number, "kind": node.kind, "name": node.name, "stream": node.stream, "bytes": node.nbytes}
        more = {"arguments": node.arguments or None, "event": node.event, "after": node.after, "group": node.group}
        rows.append({**row, **{key: value for key, value in more.items() if value is not None}})
    return json.dumps({"backend": backend, "streams": streams, "memory": memory, "nodes": rows}, indent=1)


def text(title: str, nodes: Sequence[GraphNode], streams: int, memory: int) -> str:
    """A table: a line for each node, the streams as columns of marks."""
    rows = [
        (str(n), _marks(node, streams), _label(node), _bytes(node.nbytes), node.arguments)
        for n, node in _numbered(nodes)
    ]
    widths = [max(map(len, column)) for column in zip(_HEAD, *rows)]
    lines = [f"{title}, {_bytes(memory) or '0 B'} of its own"]
    for row in (_HEAD, *rows):
        number, marks, task, nbytes, arguments = (cell.ljust(width) for cell, width in zip(row, widths))
        right = [number.strip().rjust(widths[0]), marks, task, nbytes.strip().rjust(widths[3]), arguments]
        lines.append("  ".join(right).rstrip())
    return "\n".join(lines)


def html_text(title: str, nodes: Sequence[GraphNode], streams: int, memory: int) -> str:
    """The picture and the table."""
    rows = [(n, node.stream, _label(node), _bytes(node.nbytes), node.arguments) for n, node in _numbered(nodes)]
    facts = f"<b>{html.escape(title)}</b>, {_bytes(memory) or '0 B'} of its own"
    return f"<div>{facts}</div>{svg(nodes, streams)}{notebook.table(rows, _HEAD)}"


def svg(nodes: Sequence[GraphNode], streams: int) -> str:
    """A column for each stream, time downwards; an arrow from the record of an event to each wait for it."""
    width, height = _LEFT + streams * _COLUMN, _TOP + len(nodes) * _ROW + 8
    parts = [
        '<defs><marker id="tip" markerWidth="8" markerHeight="8" refX="7" refY="4" orient="auto">'
        f'<path d="M0,0 L8,4 L0,8 z" fill="{drawing.RED}"/></marker></defs>',
    ]
    for stream in range(streams):
        x = _LEFT + stream * _COLUMN
        parts.append(drawing.text(x, 18, f"stream {stream}", bold=True))
        places = [number for number, node in _numbered(nodes) if node.stream == stream]
        if places:
            middle = x + _BOX_WIDTH // 2
            top, bottom = (_y(place) + _BOX_HEIGHT // 2 for place in (places[0], places[-1]))
            parts.append(drawing.line(middle, top, middle, bottom))
    for number, node in _numbered(nodes):
        parts.append(_box(number, node))
    for number, node in _numbered(nodes):
        if node.after is not None and nodes[node.after].stream != node.stream:
            parts.append(_arrow(node.after, nodes[node.after], number, node))
    return drawing.picture(width, height, f"a graph of {len(nodes)} nodes on {streams} streams", parts)


def _y(number: int) -> int:
    return _TOP + number * _ROW


def _box(number: int, node: GraphNode) -> str:
    x, y = _LEFT + node.stream * _COLUMN, _y(number)
    label = _label(node)
    shown = label if len(label) <= _CHARACTERS else label[: _CHARACTERS - 1] + "…"
    facts = html.escape(" ".join(part for part in (label, node.arguments, _bytes(node.nbytes)) if part))
    border = drawing.RED if node.group is not None else drawing.LINE
    return (
        f"<g><title>{facts}</title>"
        f"{drawing.text(4, y + 17, str(number), color=drawing.MUTED)}"
        f'<rect x="{x}" y="{y}" width="{_BOX_WIDTH}" height="{_BOX_HEIGHT}" rx="4" '
        f'fill="{_COLORS[node.kind]}" stroke="{border}"/>'
        f"{drawing.text(x + 8, y + 17, shown)}</g>"
    )


def _arrow(start: int, first: GraphNode, end: int, then: GraphNode) -> str:
    right = then.stream > first.stream
    x1 = _LEFT + first.stream * _COLUMN + (_BOX_WIDTH if right else 0)
    x2 = _LEFT + then.stream * _COLUMN + (0 if right else _BOX_WIDTH)
    y1, y2 = (_y(number) + _BOX_HEIGHT // 2 for number in (start, end))
    return f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="{drawing.RED}" marker-end="url(#tip)"/>'


def _numbered(nodes: Sequence[GraphNode]) -> list[tuple[int, GraphNode]]:
    return list(enumerate(nodes))


def _marks(node: GraphNode, streams: int) -> str:
    """ "|*|" for a task of the second of three streams."""
    return "".join("*" if stream == node.stream else "|" for stream in range(streams))


def _label(node: GraphNode) -> str:
    if node.kind == "record":
        return f"record event {node.event}"
    if node.kind == "wait":
        return f"wait for event {node.event} (node {node.after})"
    return node.name if node.group is None else f"{node.name} [group {node.group}]"


def _bytes(count: int) -> str:
    """ "3.0 MB"; "" for none."""
    if not count:
        return ""
    for unit in ("B", "KB", "MB"):
        if count < 1024:
            return f"{count} B" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024  # type: ignore[assignment]  # a count of larger units
    return f"{count:.1f} GB"
