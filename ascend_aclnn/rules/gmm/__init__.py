"""Rules of ops-transformer/gmm: products of groups, one for each expert."""
