"""Rules of ops-nn/norm: RMS norms, layer norms, adaptive layer norms, batch norms, group norms, vector norms."""
