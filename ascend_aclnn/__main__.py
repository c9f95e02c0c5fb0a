"""``python -m ascend_aclnn`` is the command ``ascend-aclnn``."""

from __future__ import annotations

import sys

from ascend_aclnn.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
