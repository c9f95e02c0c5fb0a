"""Whether the long part of the suite runs as well: ``ASCEND_ACLNN_LONG=1``, which ``./scripts/test --long`` sets."""

from __future__ import annotations

import os

LONG = os.environ.get("ASCEND_ACLNN_LONG", "0") not in ("", "0")
