"""References of grouped products (ops-transformer/gmm): each group by a matrix of its own.

Rows after the last group, which the device leaves as they were, become zero.
"""
