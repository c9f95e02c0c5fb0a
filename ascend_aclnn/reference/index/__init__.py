"""References of ops-nn/index: reading and writing at indices, choosing, repeating, unpooling, sampling, embeddings."""
