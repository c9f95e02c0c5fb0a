"""Rules of ops-nn/loss: losses of each element, cross entropies, losses of labels."""
