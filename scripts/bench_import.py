"""Times what a user waits for before the first result: imports, listing, first calls (milliseconds, best of several runs).

python scripts/bench_import.py [--write]     --write also writes docs/results/import.md
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys

from bench_results import Table, write

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
    parser = argparse.ArgumentParser(description="Times imports and first calls.")
    parser.add_argument("--write", action="store_true", help="write docs/results/import.md")
    options = parser.parse_args()
    rows = []
    for label, (setup, code) in CASES.items():
        program = TIMER.format(setup=setup, code=code)
        env = {**os.environ, "ASCEND_ACLNN_BACKEND": "numpy"}
        runs = []
        for _ in range(7):
            done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=env, check=True)
            runs.append(float(done.stdout) * 1e3)
        print(f"{label:52} {min(runs):8.2f} ms")
        rows.append([label, f"{min(runs):.2g}"])
    if options.write:
        text = "Each step in a process of its own, on the NumPy backend; the least of seven runs."
        command = "python scripts/bench_import.py --write"
        write("import", "From import to the first result", command, text, [Table(("step", "ms"), rows)])


if __name__ == "__main__":
    main()
