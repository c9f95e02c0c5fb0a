"""Times collectives over the emulated HCCL beside gloo, through torch.distributed, on one host.

    python scripts/bench_collectives.py                 # 2 ranks; needs torch and torch_npu (scripts/test --clients has them)
    python scripts/bench_collectives.py --ranks 4 --sizes 1024 1048576

For each size, both are run alternately, and the least time of several counts. Each rank's device process and gloo's threads
share the host's cores, so the ratio is what a CI job sees; it says nothing about cards.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from typing import Any

SIZES = [1 << 10, 1 << 14, 1 << 18, 1 << 20, 1 << 24, 1 << 26]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="bytes")
    parser.add_argument("--repeat", type=int, default=20)
    options = parser.parse_args()
    if "RANK" in os.environ:
        measure(options)
        return 0
    launcher = ["-m", "torch.distributed.run", f"--nproc_per_node={options.ranks}", "--master_port=29617"]
    command = [sys.executable, "-m", "ascend_aclnn", "emulator", "run", "--", sys.executable, *launcher, *sys.argv]
    environment = {**os.environ, "ASCEND_EMULATOR_LEAKS": "0", "OMP_NUM_THREADS": "1"}
    return subprocess.run(command, env=environment).returncode


def measure(options: argparse.Namespace) -> None:
    import torch
    import torch.distributed as dist
    import torch_npu  # noqa: F401

    device = torch.device("npu", int(os.environ["LOCAL_RANK"]) % torch.npu.device_count())
    torch.npu.set_device(device)
    dist.init_process_group("hccl")
    gloo = dist.new_group(backend="gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    if rank == 0:
        print(f"{size} ranks, least of {options.repeat} runs, milliseconds")
        print(
            f"{'bytes':>10} {'all_reduce':>11} {'gloo':>9} {'ratio':>6}   {'all_gather':>11} {'gloo':>9} {'ratio':>6}"
        )
    for nbytes in options.sizes:
        ours, theirs = torch.ones(nbytes // 4, device=device), torch.ones(nbytes // 4)
        parts = [torch.empty_like(ours) for _ in range(size)], [torch.empty_like(theirs) for _ in range(size)]

        def reduce(tensor: Any, group: Any) -> None:
            dist.all_reduce(tensor, dist.ReduceOp.MAX, group=group)

        def gather(tensor: Any, group: Any, parts: Any = parts) -> None:
            dist.all_gather(parts[0 if group is None else 1], tensor, group=group)

        row = []
        for run in (reduce, gather):
            least = [float("inf"), float("inf")]
            for _ in range(options.repeat):
                for which, (tensor, group) in enumerate(((ours, None), (theirs, gloo))):
                    dist.barrier(group=gloo)
                    start = time.perf_counter()
                    run(tensor, group)
                    torch.npu.synchronize()
                    least[which] = min(least[which], time.perf_counter() - start)
            row += [least[0] * 1e3, least[1] * 1e3, least[0] / least[1]]
        if rank == 0:
            cells = "   ".join(f"{a:>11.3f} {b:>9.3f} {c:>6.2f}" for a, b, c in (row[:3], row[3:]))
            print(f"{nbytes:>10} {cells}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    sys.exit(main())
