"""Rules of ops-transformer/moe.

Most operators have generated wrappers: phase one checks dtypes (161002), the tiling of the kernel the rest (561002).
"""
