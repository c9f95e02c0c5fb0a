"""Collectives between processes, used by the NumPy backend and the emulated device.

``shared_memory`` and ``network`` connect the ranks and exchange messages and memory, ``algorithms`` has the collectives. On
a card HCCL does this work: see ``backends/npu/communication.py``.
"""
