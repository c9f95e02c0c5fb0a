"""One of the ranks of test_experts.py: ranks.py RANK SIZE DIRECTORY BACKEND, results in DIRECTORY/RANK.npz."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
import sgl_kernel_npu_operators  # noqa: F401 - declares the operators

import ascend_aclnn as aclnn
from ascend_aclnn import ops

SOC = "Ascend910_9391"
SIZE, H, EXPERTS, TOP, ROUNDS, EACH = 2, 32, 6, 3, 3, 4  # three rounds of up to four tokens, of which the last is empty
TOKENS = (7, 5)  # of each rank


def arguments(rank):
    random = np.random.default_rng(rank)
    x = random.normal(size=(TOKENS[rank], H)).astype(np.float16)
    ids = np.stack([random.permutation(EXPERTS)[:TOP] for _ in x]).astype(np.int64)
    ids[1, 2] = -1
    return x, ids, random.uniform(size=ids.shape).astype(np.float32)


def normal(comm, quantised):
    """DeepEP's way for prompts: what goes where, how much comes, the rows, and their weighted sums."""
    x, ids, weights = arguments(comm.rank)
    layout = len(x), SIZE, EXPERTS, TOP, SIZE, EACH, comm.rank
    counts = np.zeros((ROUNDS, EXPERTS), np.int32)
    per_rank, counts, in_rank, _, places = ops.dispatch_layout(ids, *layout, out=(None, counts, None, None, None))
    of_ranks = comm.name, SIZE, comm.rank
    send = np.zeros((ROUNDS, 3 * EXPERTS), np.int32)
    notified = ops.notify_dispatch(send, counts, 3, len(x), *of_ranks, SIZE, comm.rank, ROUNDS, EACH)
    send_offset, _, recv_count, recv_offset, of_expert, of_source, of_round, total, most, per_expert = map(
        np.asarray, notified
    )
    n = int(total[0])
    out = np.zeros((n, H), np.int8 if quantised else x.dtype), np.zeros(n, np.float32), np.zeros(3 * n, np.int32), None
    rows, scales, sources, _ = ops.cam_moe_dispatch_normal(
        x,
        ids.astype(np.int32),
        send_offset,
        places,
        recv_offset,
        recv_count,
        of_expert,
        of_source,
        of_round,
        *of_ranks,
        comm.name,
        1,
        0,
        EXPERTS,
        2 if quantised else 0,
        int(most[0]),
        SIZE * EACH,
        ROUNDS,
        EACH,
        out=out,
    )
    values = np.asarray(rows) * np.asarray(scales)[:, None] if quantised else np.asarray(rows)
    half, last = values.astype(np.float16), np.asarray(recv_count).sum(0, dtype=np.int32)
    combined, _ = ops.cam_moe_combine_normal(
        half, sources, last, weights, ids.astype(np.int32), None, *of_ranks, comm.name, 1, 0, EXPERTS, 4, ROUNDS, EACH
    )
    named = {"per_rank": per_rank, "counts": counts, "in_rank": in_rank, "places": places, "per_expert": per_expert}
    return {**named, "most": most, "rows": rows, "scales": scales, "sources": sources, "combined": combined}


def low_latency(comm):
    """DeepEP's way for single tokens, beside CANN's operators, which have more parameters."""
    x, ids, weights = arguments(comm.rank)
    x, ids, weights = x[:4], np.abs(ids[:4]).astype(np.int32), weights[:4]
    ids[1] = [0, 1, 2]
    group = comm.name, SIZE, comm.rank, EXPERTS, "", 1, 0, 0, 0, 0
    results = {}
    for name in ("moe_low_latency", "moe_distribute"):
        ours = name == "moe_low_latency"
        dispatch, combine = getattr(ops, f"{name}_dispatch_v2"), getattr(ops, f"{name}_combine_v2")
        sent = dispatch(x, ids, None, None, *(() if ours else (None,)), *group, 0, 0, 1, "")
        rows, _, notes, _, counts, _ = sent[:6]
        rows = (np.asarray(rows).astype(np.float32) * 2).astype(np.float16)
        back = combine(rows, ids, notes, counts, weights, *[None] * 7, *group, 0, 0, 0, 0, "")
        results[name] = back[0] if isinstance(back, tuple) else back
    return results


def experts_of(rank):
    """Both weights of a rank's experts, and their scales, which are exact in any format."""
    random, local = np.random.default_rng(rank + 20), EXPERTS // SIZE
    weights = [random.integers(-99, 99, (local, *size), np.int8) for size in ((H, 2 * H), (H, H))]
    scales = [np.exp2(random.integers(-10, -7, (local, w.shape[2]))).astype(np.float32) for w in weights]
    return weights, scales


def fused(comm):
    """All at once: rows to experts, products, and the way back."""
    x, ids, weights = arguments(comm.rank)
    both, scales = experts_of(comm.rank)
    packed = [scale.view(np.int32).astype(np.int64) for scale in scales]
    last = comm.name, SIZE, comm.rank, SIZE * max(TOKENS) * TOP
    out, counts = ops.dispatch_ffn_combine(x, *both, np.abs(ids).astype(np.int32), *packed, weights, *last)
    return {"out": out, "counts": counts}


def main():
    rank, size, directory, backend = sys.argv[1:]
    info = Path(directory) / "info"
    with aclnn.use_backend(backend, **({"soc": SOC} if backend == "numpy" else {})):
        if rank == "0":
            part = info.with_suffix(".part")
            part.write_bytes(aclnn.Communicator.root_info())
            part.rename(info)
        while not info.exists():
            time.sleep(0.01)
        with aclnn.Communicator.from_root_info(info.read_bytes(), int(rank), int(size)) as comm:
            both = {
                "plain": normal(comm, False),
                "int8": normal(comm, True),
                "low": low_latency(comm),
                "fused": fused(comm),
            }
            results = {f"{name} {key}": np.asarray(value) for name, part in both.items() for key, value in part.items()}
            np.savez(Path(directory) / f"{rank}.npz", **results)


if __name__ == "__main__":
    main()
