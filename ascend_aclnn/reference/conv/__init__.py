"""References of ops-nn/conv."""
