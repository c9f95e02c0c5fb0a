"""References of single operators (``aclopCompileAndExecute``) that no aclnn operator does the work of, by their type names.

Parameters are the arguments of the type's entry in ``catalog/data/single.json``, in that order.
"""
