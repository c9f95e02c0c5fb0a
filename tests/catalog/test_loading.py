"""What an import loads: no operator's rule or reference, none of the slow modules of the standard library."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys, numpy, ml_dtypes
before = set(sys.modules)
import ascend_aclnn.ops
print(*sorted(set(sys.modules) - before))
from ascend_aclnn import catalog
assert len(list(catalog.names())) == 1381
assert catalog._entry.__name__ and not catalog._description.cache_info().currsize
before = set(sys.modules)
ascend_aclnn.ops.rms_norm(numpy.ones(4, numpy.float32), numpy.ones(4, numpy.float32))
print(*sorted(set(sys.modules) - before))
"""


def test_what_an_import_and_a_first_call_load() -> None:
    environment = {
        "ASCEND_ACLNN_BACKEND": "numpy",
        "PYTHONPATH": ":".join(path for path in sys.path if path),
        "PATH": "",
    }
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    imported, called = (set(line.split()) for line in done.stdout.splitlines())
    for slow in ("importlib.metadata", "email", "ctypes", "subprocess", "json.tool", "unittest", "asyncio"):
        assert slow not in imported, slow
    for module in imported:
        parts = module.split(".")
        family = len(parts) > 2 and parts[1] in ("rules", "reference") and parts[2] not in ("language", "declare")
        assert not family, f"{module} is imported before one of its operators is called"
    families = {tuple(module.split(".")[1:3]) for module in called if module.startswith("ascend_aclnn.rules.")}
    assert ("rules", "norm") in families and not families & {("rules", "attention"), ("rules", "gmm")}
