"""Rules of ops-transformer/mc2: operators that compute and communicate. What phase one checks; most need a communicator.

The number of devices is known to the communicator alone, so shapes that depend on it are not inferred.
"""

from __future__ import annotations

from ascend_aclnn.rules.mc2 import experts, groups, products, reduced

__all__ = ["experts", "groups", "products", "reduced"]
