"""Rules of ops-math/math, by kind of operator."""
