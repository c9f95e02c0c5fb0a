"""Rules of ops-nn/index: gathering, scattering, choosing (sort-like and data-dependent), unpooling, embeddings."""
