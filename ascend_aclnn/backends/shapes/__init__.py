"""The shapes backend: tensors without memory, rules without arithmetic."""

from __future__ import annotations

import functools

from ascend_aclnn.backends.shapes.backend import OperatorCall, ShapesBackend


@functools.cache
def find_backend(soc: str, checks: bool = True) -> ShapesBackend:
    """The shapes backend with the rules of a SoC."""
    return ShapesBackend(soc, checks)


__all__ = ["OperatorCall", "ShapesBackend", "find_backend"]
