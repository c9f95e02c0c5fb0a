"""Rules of ops-nn/matmul: plain products, fused ones, and products of quantised operands."""
