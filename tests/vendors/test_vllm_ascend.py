"""vllm-ascend's operators (vendors/vllm_ascend) against formulas in float64; in a process of their own, which declares them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

VENDOR = Path(__file__).parents[2] / "vendors" / "vllm_ascend"

PROGRAM = """
import ml_dtypes, numpy as np
import vllm_ascend_operators
import ascend_aclnn as aclnn
from ascend_aclnn import ops

random = np.random.default_rng(3)
for dtype, allowed in ((np.float32, 1e-5), (np.float16, 4e-3), (ml_dtypes.bfloat16, 3e-2)):
    x1, x2 = (random.normal(size=(3, 5, 64)).astype(dtype) for _ in range(2))
    gamma, beta = (random.normal(size=64).astype(dtype) for _ in range(2))
    total = (x1.astype(np.float32) + x2.astype(np.float32)).astype(dtype).astype(np.float64)
    rstd = 1 / np.sqrt((total**2).mean(-1, keepdims=True) + 1e-5)
    for shift in (None, beta):
        golden = total * rstd * gamma.astype(np.float64) + (0 if shift is None else shift.astype(np.float64))
        y, inverse, x = ops.add_rms_norm_bias(x1, x2, gamma, shift, 1e-5)
        assert y.dtype == dtype and inverse.dtype == np.float32 and inverse.shape == (3, 5, 1)
        assert (x == total.astype(dtype)).all() and np.allclose(inverse, rstd, rtol=1e-5)
        worst = np.abs(y.astype(np.float64) - golden).max()
        assert worst < allowed * np.abs(golden).max(), (dtype, shift is None, worst)
try:
    ops.add_rms_norm_bias(x1, x2, gamma[:8], None, 1e-5)
except aclnn.AclError as error:
    print(error.status, error.argument)
"""


def run(program: str) -> str:
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(VENDOR), *sys.path]),
        "ASCEND_ACLNN_BACKEND": "numpy",
    }
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_add_rms_norm_bias() -> None:
    assert run(PROGRAM) == "561002 gamma\n"


ROUTING = """
import numpy as np
import vllm_ascend_operators
from ascend_aclnn import ops

random = np.random.default_rng(5)
x = random.normal(size=(6, 16)).astype(np.float16)
experts = np.stack([random.permutation(4)[:2] for _ in range(6)]).astype(np.int32)
order = np.argsort(experts.ravel(), kind="stable")
rows, places, counts, _ = ops.moe_init_routing_custom(x, experts, None, None, 12, -1, 4, 0, 1, True, -1, [0, 4], 0)
assert (rows == x[order // 2]).all() and (places == np.argsort(order)).all()
assert (counts == np.bincount(experts.ravel(), minlength=4)).all()
kept = [copy for copy in order if 1 <= experts.ravel()[copy] < 3]
rows, places, counts, _ = ops.moe_init_routing_custom(x, experts, None, None, 12, -1, 4, 0, 1, True, -1, [1, 3], 0)
assert (rows[: len(kept)] == x[np.array(kept) // 2]).all() and (counts == np.bincount(experts.ravel(), minlength=4)[1:3]).all()
codes, _, _, scales = ops.moe_init_routing_custom(x, experts, None, None, 12, -1, 4, 0, 1, True, 1, [0, 4], 0)
wide = x[order // 2].astype(np.float64)
assert codes.dtype == np.int8 and np.allclose(scales, np.abs(wide).max(1) / 127, rtol=1e-5)
assert np.abs(codes - wide / scales[:, None]).max() < 0.51
"""


def test_moe_init_routing_custom() -> None:
    """Copies of tokens by expert, of a range of experts, and quantised by row."""
    run(ROUTING)
