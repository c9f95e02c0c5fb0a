"""References of matrix products."""
