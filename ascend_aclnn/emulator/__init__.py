"""An emulated Ascend device: drop-in CANN libraries for a plain host that answer with the NumPy references."""
