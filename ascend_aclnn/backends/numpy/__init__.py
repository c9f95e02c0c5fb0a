"""The NumPy backend: ``backend`` puts it together, ``storage`` is its memory, ``run`` calls references."""

from __future__ import annotations

import functools

from ascend_aclnn.backends.numpy.backend import NumpyBackend


@functools.cache
def find_backend(soc: str) -> NumpyBackend:
    """The NumPy backend with the rules of a SoC."""
    return NumpyBackend(soc)


__all__ = ["NumpyBackend", "find_backend"]
