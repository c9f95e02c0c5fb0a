"""Rules of ops-nn/pooling: adaptive, average and maximum pooling."""
