"""Operators of ops-transformer/mc2, which compute and communicate: what one rank does, given the others of its group.

What ranks send is rounded to the data type that a card sends; sums over ranks run in rank order, in float32 for 16-bit
types, and are rounded once. A card's order depends on the algorithm that HCCL chooses.
"""
