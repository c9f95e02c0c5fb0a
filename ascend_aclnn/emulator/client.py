"""What Python programs on the emulated device load at their start, as ``sitecustomize``: this file alone, until more is needed.

Triton's interpreter is extended when it is imported (``triton_kernels``).
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # typing is not imported for it
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Optional

_INTERPRETER = "triton.runtime.interpreter"


class _AtImport:
    """Finds Triton's interpreter as Python does, and has it extended once it is loaded."""

    def __init__(self, package: str) -> None:
        self.package = package

    def find_spec(
        self, name: str, path: Optional[Sequence[str]] = None, target: Optional[ModuleType] = None
    ) -> Optional[ModuleSpec]:
        if name != _INTERPRETER:
            return None
        import importlib.util

        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def execute_and_extend(module: ModuleType) -> None:
            execute(module)
            if importlib.util.find_spec("ascend_aclnn") is None:
                sys.path.append(self.package)
            from ascend_aclnn.emulator.triton_kernels import extend

            extend(module)

        setattr(spec.loader, "exec_module", execute_and_extend)  # noqa: B010 - a method, for mypy
        return spec


def install(package: str) -> None:
    """Has the interpreter extended, now if it is imported already. ``package``: the directory that has ascend_aclnn."""
    if _INTERPRETER in sys.modules:
        from ascend_aclnn.emulator.triton_kernels import extend

        extend(sys.modules[_INTERPRETER])
    else:
        sys.meta_path.insert(0, _AtImport(package))


def run_next(file: str) -> None:
    """Runs the ``sitecustomize`` that this one, a file that is first on the path, hides."""
    import os
    from importlib.machinery import PathFinder

    here = os.path.dirname(file)
    spec = PathFinder.find_spec("sitecustomize", [place for place in sys.path if place != here])
    if spec is not None and spec.loader is not None:
        import importlib.util

        spec.loader.exec_module(importlib.util.module_from_spec(spec))
