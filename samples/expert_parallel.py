"""The mixture-of-experts layer of moe_layer.py with its experts divided between ranks, checked against that layer.

    ids -> Embedding -> RmsNorm -> top-k routing -> MoeDistributeDispatch -> Mm per expert -> MoeDistributeCombine -> out

Every rank has tokens of its own and experts / ranks experts; a dispatch sends each token to the ranks of its experts, a
combine brings the results back, weighted and added up. At the end each rank computes its tokens alone, with all experts,
and compares.

    python samples/expert_parallel.py --ranks 4                                     # NumPy, on any host
    ascend-aclnn emulator run -- python samples/expert_parallel.py --ranks 4        # the emulated device
    torchrun --nproc_per_node=4 samples/expert_parallel.py                          # cards; any launcher of from_env()
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time

import numpy as np
from moe_layer import DTYPES, TOLERANCE, Timer, layer, route

import ascend_aclnn as aclnn
from ascend_aclnn import Communicator, ops


def forward(comm, x, router, experts_w, topk, dtype):
    """The layer's output for this rank's tokens, and how many rows its experts got; ``experts_w`` are this rank's."""
    indices, probs = route(x.numpy(), router, topk)
    indices_t, probs_t = aclnn.asarray(indices), aclnn.asarray(probs)
    where = (
        comm.name,
        comm.size,
        comm.rank,
        len(experts_w) * comm.size,
    )  # group, its size, this rank, experts of all ranks

    rows, _, info, counts, received, _, row_weights = ops.moe_distribute_dispatch_v2(
        x, indices_t, None, None, probs_t, *where
    )

    ends = np.cumsum(counts.numpy())
    done = aclnn.zeros(rows.shape, dtype)
    for start, end, weight in zip([0, *ends[:-1].tolist()], ends.tolist(), experts_w):
        if end > start:
            ops.mm(rows[start:end], weight, out=done[start:end])

    out = ops.moe_distribute_combine_v2(
        done, indices_t, info, received, probs_t, None, None, None, None, None, row_weights, None, *where
    )
    return out, int(ends[-1])


def run(comm: Communicator, options: argparse.Namespace) -> None:
    """One rank's part."""
    dtype = DTYPES[options.dtype]
    common = np.random.default_rng(7)  # what all ranks know
    hidden, experts = options.hidden, options.experts
    table = common.standard_normal((options.vocabulary, hidden), np.float32).astype(dtype)
    gamma = common.uniform(0.5, 1.5, hidden).astype(dtype)
    router = common.standard_normal((hidden, experts), np.float32)
    weights = [
        (common.standard_normal((hidden, hidden), np.float32) / hidden**0.5).astype(dtype) for _ in range(experts)
    ]
    ids = np.random.default_rng(100 + comm.rank).integers(0, options.vocabulary, options.tokens, dtype=np.int32)

    per_rank = experts // comm.size
    mine = [aclnn.asarray(w) for w in weights[comm.rank * per_rank : (comm.rank + 1) * per_rank]]
    x = ops.embedding(aclnn.asarray(table), aclnn.asarray(ids))
    normed, _ = ops.rms_norm(x, aclnn.asarray(gamma), 1e-6)
    comm.barrier()
    aclnn.synchronize()
    start = time.perf_counter()
    out, rows = forward(comm, normed, router, mine, options.topk, dtype)
    result = out.numpy().astype(np.float32)
    seconds = time.perf_counter() - start

    alone, _, _ = layer(ids, table, gamma, weights, np.zeros_like(x.numpy()), router, options.topk, dtype, Timer(0))
    error = float(np.abs(result - alone["out"]).max() / np.abs(alone["out"]).max())
    reports = np.asarray(comm.all_gather(aclnn.asarray(np.array([[rows, seconds, error]], np.float32))))
    if comm.rank == 0:
        backend = aclnn.backend()
        emulated = ", emulated" if backend.emulated else ""
        print(
            f"{comm.size} ranks on {backend.name} ({backend.soc}{emulated}), {options.dtype}: {options.tokens} tokens each, "
        )
        print(f"  hidden {hidden}, {experts} experts, {options.topk} per token\n")
        print(f"{'rank':>4} {'rows':>6} {'ms':>9} {'relative error':>15}")
        for rank, (count, time_taken, difference) in enumerate(reports):
            print(f"{rank:4} {int(count):6} {time_taken * 1e3:9.2f} {difference:15.2e}")
    limit = TOLERANCE[options.dtype]
    worst = float(reports[:, 2].max())
    if not worst <= limit:
        raise SystemExit(f"FAILED: rank {comm.rank}: error {worst:.2e} is above {limit:.0e}")
    if comm.rank == 0:
        print(f"all within {limit:.0e} of the layer on one rank")


def start(info: bytes, rank: int, options: argparse.Namespace) -> None:
    """A rank that this program started itself."""
    aclnn.Device(rank % aclnn.backend().device_count()).use()
    with Communicator.from_root_info(info, rank, options.ranks) as comm:
        run(comm, options)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, help="start so many ranks; without it a launcher has started them")
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--hidden", type=int, default=1024)
    parser.add_argument("--experts", type=int, default=8)
    parser.add_argument("--topk", type=int, default=2)
    parser.add_argument("--vocabulary", type=int, default=1000)
    parser.add_argument("--dtype", choices=["float16", "bfloat16"], default="float16")
    options = parser.parse_args()
    if options.ranks is None:
        with Communicator.from_env() as comm:
            run(comm, options)
        return
    info = Communicator.root_info()
    context = multiprocessing.get_context("spawn")
    ranks = [context.Process(target=start, args=(info, rank, options)) for rank in range(options.ranks)]
    for process in ranks:
        process.start()
    for process in ranks:
        process.join()
    sys.exit(max(abs(process.exitcode or 0) for process in ranks))


if __name__ == "__main__":
    main()
