"""Collectives between the processes of one host: what the NumPy backend and the emulated device communicate by.

``transport`` connects the ranks and exchanges small messages and memory, ``algorithms`` are the collectives. A card's
own HCCL does not pass here: that is ``backends/npu/hccl.py``.
"""
