"""Every CANN aclnn operator from plain Python, on an Ascend NPU or, with the same results, on NumPy.

    from ascend_aclnn import ops
    ops.rms_norm_grad(dy, x, rstd, gamma)

Importing this opens no library; the backend is chosen at first use.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Optional, Union

from ascend_aclnn import catalog as _catalog
from ascend_aclnn.backends.interface import current_backend as backend
from ascend_aclnn.catalog import Operator
from ascend_aclnn.core.array_methods import set_operator_loader as _set_operator_loader
from ascend_aclnn.core.dtypes import DataType, Format
from ascend_aclnn.core.errors import AclError, LibraryNotFound, UnsupportedOperator
from ascend_aclnn.core.interface import MemoryInfo
from ascend_aclnn.core.scalar import Scalar
from ascend_aclnn.core.schedule import SCHEDULE_CONTEXT
from ascend_aclnn.core.streams import (
    Device,
    Event,
    Stream,
    current_stream,
    device_count,
    empty_cache,
    memory_info,
    memory_snapshot,
    memory_statistics,
    overflow_mode,
    pinned,
    profiling_range,
    record_memory_origins,
    reset_memory_peaks,
    set_deterministic,
    set_memory_limit,
    set_operator_timeout,
    set_overflow_mode,
    synchronize,
)
from ascend_aclnn.core.tensor import Tensor
from ascend_aclnn.core.torch_interop import torch_stream
from ascend_aclnn.creation import (
    arange,
    asarray,
    empty,
    empty_like,
    from_dlpack,
    from_torch,
    full,
    full_like,
    linspace,
    ones,
    ones_like,
    zeros,
    zeros_like,
)
from ascend_aclnn.files import load, save
from ascend_aclnn.selection import is_available, shapes_only, show_config, use_backend
from ascend_aclnn.version import __version__


def signature(name: str) -> Operator:
    """The prototype of an operator by its C name: ``signature("aclnnRmsNormGrad").parameters``."""
    try:
        return _catalog.get(name)
    except KeyError:
        raise ValueError(_catalog.unknown_name(name)) from None


def operators() -> Iterator[str]:
    """Iterates over the C names of all operators."""
    return _catalog.names()


def register_operator(
    prototype: Union[str, Path, Operator],
    *,
    directions: Optional[Mapping[str, str]] = None,
    optional: Iterable[str] = (),
) -> Operator:
    """Makes an operator callable that the catalog does not have (a vendor's, or one of a newer CANN).

    ``prototype`` is the C declaration of its phase one, the ``Path`` of a header that declares one operator, or an
    Operator (``catalog.headers.variant`` makes those that another CANN has). ``directions`` ("in", "out", "inout" by C
    name) and ``optional`` add what the declaration lacks. Its function is ``ops.<name>`` at once; see
    docs/adding-an-operator.md.
    """
    from ascend_aclnn.catalog.headers import operator_from_prototype

    if isinstance(prototype, Operator):
        operator = prototype
    else:
        operator = operator_from_prototype(prototype, directions, optional)
    _catalog.register(operator)
    return operator


def _load_tensor_operators() -> object:
    """``t + u`` and similar expressions load the operators at their first use."""
    from ascend_aclnn import tensor_operators

    return tensor_operators


_set_operator_loader(_load_tensor_operators)


def function(name: str) -> Callable[..., Any]:
    """The function of an operator by its C name, for operators unknown to type checkers: a vendor's, a newer CANN's.

    ``aclnn.function("aclnnMyScale")(x, 2.0)`` is ``ops.my_scale(x, 2.0)``. ValueError for a name that is not in the catalog.
    """
    from ascend_aclnn import ops as functions

    operator_function: Callable[..., Any] = getattr(functions, signature(name).python_name)
    return operator_function


if TYPE_CHECKING:
    from ascend_aclnn import ops
    from ascend_aclnn.communicator import Communicator, CommunicatorConfig
    from ascend_aclnn.executor import Executor
    from ascend_aclnn.graph import Graph, TaskGroup
    from ascend_aclnn.profiling import Profile, benchmark, profile
    from ascend_aclnn.torch_ops import torch_function
else:

    def __getattr__(name):
        """Modules and classes that load the backends are imported at the first use, and ``torch_function`` with them."""
        import importlib

        if name in ("array_api", "ops"):
            return importlib.import_module(f"ascend_aclnn.{name}")
        if name in ("Communicator", "CommunicatorConfig"):
            return getattr(importlib.import_module("ascend_aclnn.communicator"), name)
        if name in ("Graph", "TaskGroup"):
            return getattr(importlib.import_module("ascend_aclnn.graph"), name)
        if name in ("Profile", "benchmark", "profile"):
            return getattr(importlib.import_module("ascend_aclnn.profiling"), name)
        if name == "Executor":
            return importlib.import_module("ascend_aclnn.executor").Executor
        if name == "torch_function":
            return importlib.import_module("ascend_aclnn.torch_ops").torch_function
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__():
        return __all__


__all__ = [
    "SCHEDULE_CONTEXT",
    "AclError",
    "Communicator",
    "CommunicatorConfig",
    "DataType",
    "Device",
    "Event",
    "Executor",
    "Format",
    "Graph",
    "LibraryNotFound",
    "MemoryInfo",
    "Profile",
    "Scalar",
    "Stream",
    "TaskGroup",
    "Tensor",
    "UnsupportedOperator",
    "__version__",
    "arange",
    "asarray",
    "backend",
    "benchmark",
    "current_stream",
    "device_count",
    "empty",
    "empty_cache",
    "empty_like",
    "from_dlpack",
    "from_torch",
    "full",
    "full_like",
    "function",
    "is_available",
    "linspace",
    "load",
    "memory_info",
    "memory_snapshot",
    "memory_statistics",
    "ones",
    "ones_like",
    "operators",
    "ops",
    "overflow_mode",
    "pinned",
    "profile",
    "profiling_range",
    "record_memory_origins",
    "register_operator",
    "reset_memory_peaks",
    "save",
    "set_deterministic",
    "set_memory_limit",
    "set_operator_timeout",
    "set_overflow_mode",
    "shapes_only",
    "show_config",
    "signature",
    "synchronize",
    "torch_function",
    "torch_stream",
    "use_backend",
    "zeros",
    "zeros_like",
]
