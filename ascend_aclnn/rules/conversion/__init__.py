"""Rules of ops-math/conversion, by what an operator does with the elements it is given."""
