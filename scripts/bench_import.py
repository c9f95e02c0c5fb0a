"""Times what a user waits for before the first result: imports, listing, first calls (milliseconds, best of several runs)."""

from __future__ import annotations

import subprocess
import sys

CASES = {
    "import ascend_aclnn, beyond numpy and ml_dtypes": ("import numpy, ml_dtypes", "import ascend_aclnn"),
    "import ascend_aclnn.ops, beyond numpy and ml_dtypes": ("import numpy, ml_dtypes", "import ascend_aclnn.ops"),
    "list all names": ("import ascend_aclnn as a", "list(a.operators())"),
    "dir(ops)": ("from ascend_aclnn import ops", "dir(ops)"),
    "entry of one operator": ("import ascend_aclnn as a", "a.signature('aclnnAdd').parameters"),
    "first call of add (NumPy backend)": (
        "import numpy as np; from ascend_aclnn import ops; x = np.ones(4, np.float32); ops.relu(x)",
        "ops.add(x, x, 1)",
    ),
    "first call of rms_norm (NumPy backend)": (
        "import numpy as np; from ascend_aclnn import ops; x = np.ones(4, np.float32); ops.relu(x)",
        "ops.rms_norm(x, x)",
    ),
    "second operator of a family (sub after add)": (
        "import numpy as np; from ascend_aclnn import ops; x = np.ones(4, np.float32); ops.add(x, x, 1)",
        "ops.sub(x, x, 1)",
    ),
}
TIMER = "{setup}\nimport time\nstart = time.perf_counter()\n{code}\nprint(time.perf_counter() - start)\n"


def main() -> None:
    for label, (setup, code) in CASES.items():
        program = TIMER.format(setup=setup, code=code)
        env = {"ASCEND_ACLNN_BACKEND": "numpy", "PATH": "/usr/bin:/bin"}
        runs = []
        for _ in range(7):
            done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=env, check=True)
            runs.append(float(done.stdout) * 1e3)
        print(f"{label:52} {min(runs):8.2f} ms")


if __name__ == "__main__":
    main()
