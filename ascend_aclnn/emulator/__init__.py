"""An emulated Ascend device: drop-in CANN libraries for a plain host that answer with the NumPy references."""

from __future__ import annotations

from ascend_aclnn.emulator.build import CompilerError, build

__all__ = ["CompilerError", "build"]
