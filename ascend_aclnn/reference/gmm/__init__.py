"""References of grouped products (ops-transformer/gmm): each group by its own matrix.

Rows after the last group, which the device leaves as they were, become zero.
"""
