"""Runs the operator on whatever backend this host has; see README.md for the emulated device."""

import numpy as np
import scaled_rows  # noqa: F401 - declares the operator

import ascend_aclnn as aclnn
from ascend_aclnn import ops

x = np.arange(12, dtype=np.float32).reshape(4, 3)
backend = aclnn.backend()
print(f"backend      {backend.name}{' (the emulated device)' if backend.emulated else ''}")
print("x[[3, 1]] * 0.5:")
print(ops.scaled_rows(x, np.array([3, 1]), 0.5))
try:
    ops.scaled_rows(x, np.array([3, 1]), -1.0)
except aclnn.AclError as error:
    print("a mistake:")
    print(error)
