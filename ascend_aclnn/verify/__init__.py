"""A check of a device: its operators against their NumPy references, and what every program does with a device.

``cases``     the calls of an operator that are tried: its example, with other values, data types and a larger size
``judge``     one call on both backends, and whether the device's results are accurate
``checks``    streams, threads, repeatable executors, pinned copies, the end of memory, collectives
``worker``    a process that works through operators and checks, and writes down events
``batches``   starts workers, and goes on behind what hangs or dies
``failures``  a case that failed as a recording
``report``    the report at the end, as text and for programs; ``page`` is its HTML
``history``   two results beside each other

``run`` in ``cli/verify.py`` puts them together.
"""
