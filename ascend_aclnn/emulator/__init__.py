"""An emulated Ascend device: drop-in CANN libraries for a plain host that answer with the NumPy references."""

from __future__ import annotations

from ascend_aclnn.emulator.activate import activate as activate

__all__ = ["activate"]
