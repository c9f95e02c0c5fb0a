"""Rules of ops-nn/conv."""
