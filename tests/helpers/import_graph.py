"""Circles in graphs of files: what the tests of the import directions share."""

from __future__ import annotations


def circles(edges: dict[str, set[str]]) -> list[tuple[str, ...]]:
    """The strongly connected components of more than one node."""

    def reachable(start: str) -> set[str]:
        seen: set[str] = set()
        left = [start]
        while left:
            for following in edges[left.pop()] - seen:
                seen.add(following)
                left.append(following)
        return seen

    reach = {node: reachable(node) for node in edges}
    return sorted({tuple(sorted(m for m in reach[n] if n in reach[m])) for n in edges if n in reach[n]})
