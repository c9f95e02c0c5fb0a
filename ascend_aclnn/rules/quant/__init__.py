"""Rules of ops-nn/quant: quantising to integers, to small floats, in blocks of shared scales."""
