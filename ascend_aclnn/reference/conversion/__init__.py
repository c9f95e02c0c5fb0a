"""References of ops-math/conversion, by what an operator does with the elements it is given.

Elements are moved as they are stored, NaN payloads included; where data types differ they are cast on the way.
"""
