"""References of ops-nn/norm: rows by their root mean square or by mean and variance, batches, groups, vectors."""
