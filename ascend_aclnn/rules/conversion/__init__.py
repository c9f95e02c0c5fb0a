"""Rules of ops-math/conversion, by what an operator does with its elements."""
