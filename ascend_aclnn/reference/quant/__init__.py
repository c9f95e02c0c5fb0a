"""References of quantising to 8 and 4 bits and back (ops-nn/quant)."""
