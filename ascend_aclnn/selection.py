"""Choosing a backend: by name, by environment, or the device where there is one.

A backend is chosen once, at first use, and is always visible (``backend().name``); there is no silent change for a single
call. Each backend is a module of ``ascend_aclnn.backends`` with a function ``find_backend(soc)``.
"""

from __future__ import annotations

import contextlib
import importlib
import os
from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Optional

from ascend_aclnn.backends import interface
from ascend_aclnn.backends.interface import Backend
from ascend_aclnn.core import current
from ascend_aclnn.core.errors import LibraryNotFound
from ascend_aclnn.core.socs import DEFAULT_SOC, known_soc
from ascend_aclnn.version import __version__

if TYPE_CHECKING:
    from ascend_aclnn.backends.shapes import OperatorCall

NAMES = ("numpy", "npu", "shapes")


class use_backend(contextlib.AbstractContextManager[Backend]):
    """Chooses the backend for this thread (or asyncio task) from now on, or as a context manager for a block.

    "numpy", "npu", "auto" (the device where there is one, else NumPy), or "shapes" (see ``shapes_only``).

    ``soc`` names the SoC whose rules the NumPy backend applies ("Ascend910B1", "Ascend310P3", ...); the npu backend
    takes it from the device.
    """

    def __init__(self, name: str = "auto", soc: Optional[str] = None) -> None:
        self._backend = find_backend(name, soc)
        self._token = current.chosen.set(self._backend)

    def __enter__(self) -> Backend:
        return self._backend

    def __exit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        current.chosen.reset(self._token)


@contextlib.contextmanager
def shapes_only(soc: Optional[str] = None) -> Iterator[list[OperatorCall]]:
    """A block in which no operator computes: Tensors have shapes and dtypes, calls are refused as on a SoC.

    Gives the list of the calls, which grows as they are made; ``str()`` of one is a line. Tensors, ndarrays and torch's meta
    tensors are arguments, results are Tensors (or meta tensors). Values cannot be read (TypeError); an output whose shape
    depends on data has its largest one. ``memory_statistics()`` counts what the Tensors would take.
    """
    from ascend_aclnn.backends.shapes import ShapesBackend  # imported on use: most programs compute

    backend = ShapesBackend(known_soc(soc or current.current_backend().soc))
    backend.calls = []
    token = current.chosen.set(backend)
    try:
        yield backend.calls
    finally:
        current.chosen.reset(token)


def find_backend(name: str, soc: Optional[str] = None) -> Backend:
    """The backend of a name; "auto" is the device's where there is one, else NumPy's."""
    if soc is not None:
        known_soc(soc)
    if name == "auto":
        try:
            return find_backend("npu", soc)
        except LibraryNotFound:
            return find_backend("numpy", soc)
    if name not in NAMES:
        raise ValueError(f"backend is {name!r}; it must be 'numpy', 'npu', 'shapes' or 'auto'")
    chosen_soc = soc or os.environ.get("ASCEND_ACLNN_SOC") or DEFAULT_SOC
    backend: Backend = importlib.import_module(f"ascend_aclnn.backends.{name}").find_backend(known_soc(chosen_soc))
    return backend


def is_available() -> bool:
    """True where the npu backend can be used: CANN is found, can be loaded, and has a device."""
    try:
        find_backend("npu")
    except LibraryNotFound:
        return False
    return True


def show_config() -> None:
    """Prints versions, the backend in use and the settings that chose it."""
    for name, value in _config():
        print(f"{name:<14} {value}")


def _config() -> Iterator[tuple[str, object]]:
    yield "ascend_aclnn", __version__
    import platform

    yield "python", platform.python_version()
    for package in ("numpy", "ml_dtypes"):
        yield package, importlib.import_module(package).__version__
    backend = current.current_backend()
    yield "backend", f"{backend.name}{' (emulated)' if backend.emulated else ''}, rules of {backend.soc}"
    yield "devices", backend.device_count()
    helper = importlib.import_module("ascend_aclnn.native").status()  # imported on use: few programs need it
    yield "helper", f"{helper.path} ({helper.instructions})" if helper.path else f"not used: {helper.reason}"
    for name in sorted(name for name in os.environ if name.startswith(("ASCEND_ACLNN_", "ASCEND_HOME_PATH"))):
        yield name, os.environ[name]


def _default_backend() -> Backend:
    return find_backend(os.environ.get("ASCEND_ACLNN_BACKEND", "auto"))


def _shapes_backend(backend: Backend) -> Backend:
    """On a card the rules refuse nothing: CANN will."""
    shapes_backend: Backend = importlib.import_module("ascend_aclnn.backends.shapes").find_backend(
        backend.soc, backend.name != "npu" or backend.emulated
    )
    return shapes_backend


current.set_default_finder(_default_backend)
interface.set_shapes_finder(_shapes_backend)

__all__ = ["find_backend", "is_available", "shapes_only", "show_config", "use_backend"]
