"""References of ops-transformer/posembedding."""
