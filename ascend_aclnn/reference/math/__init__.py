"""References of ops-math/math, by kind of operator."""
