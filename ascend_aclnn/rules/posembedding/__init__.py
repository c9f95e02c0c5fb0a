"""Rules of ops-transformer/posembedding: rotary embeddings, alone and with norms, caches and quantising around them."""
