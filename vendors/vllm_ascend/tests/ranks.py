"""One of the ranks of test_communication.py: ranks.py RANK SIZE DIRECTORY BACKEND SOC PROGRAM, results in DIRECTORY/RANK.npz."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import ml_dtypes
import numpy as np
import vllm_ascend_operators  # noqa: F401 - declares the operators

import ascend_aclnn as aclnn
from ascend_aclnn import ops

SIZE, TOKENS, K, N, EXPERTS, TOP = 2, 6, 32, 32, 2, 2  # experts of each rank
BF16 = ml_dtypes.bfloat16


def matmul_arguments(rank):
    random = np.random.default_rng(rank)
    x1, x2 = (random.normal(size=size).astype(np.float16) for size in ((TOKENS, K), (K, N)))
    shared = np.random.default_rng(99)
    residual, gamma = (shared.normal(size=size).astype(np.float16) for size in ((TOKENS, N), N))
    return x1, x2, residual, gamma


def expert_arguments(rank, program):
    """x, both weights, the experts of each token, the weights' scales, and the tokens' weights."""
    quantised = program != "bf16"
    k, n = (512, 512) if program == "decode" else (K, N)
    random = np.random.default_rng(rank + 10)
    x = random.normal(size=(TOKENS, k)).astype(BF16)
    if quantised:
        weight1, weight2 = (random.integers(-99, 99, size, np.int8) for size in ((EXPERTS, k, 2 * n), (EXPERTS, n, k)))
        scale1, scale2 = (random.uniform(1e-3, 3e-3, (EXPERTS, width)).astype(np.float32) for width in (2 * n, k))
        if program == "w4a8":  # of 4 bits, by scales that are exact in any format
            weight1, weight2 = (weight >> 4 for weight in (weight1, weight2))
            scale1, scale2 = (np.exp2(np.round(np.log2(scale * 16))) for scale in (scale1, scale2))
    else:
        weight1, weight2 = (
            random.normal(size=size, scale=0.2).astype(BF16) for size in ((EXPERTS, k, 2 * n), (EXPERTS, n, k))
        )
        scale1 = scale2 = np.zeros((EXPERTS, 1), np.float32)
    ids = np.stack([random.permutation(SIZE * EXPERTS)[:TOP] for _ in range(TOKENS)]).astype(np.int32)
    return x, weight1, weight2, ids, scale1, scale2, random.uniform(size=(TOKENS, TOP)).astype(np.float32)


def packed(codes):
    """Eight codes of 4 bits in an INT32, in blocks."""
    nibbles = (codes & 15).astype(np.uint32).reshape(*codes.shape[:-1], -1, 8) << (4 * np.arange(8, dtype=np.uint32))
    return aclnn.asarray(nibbles.sum(-1, dtype=np.uint32).view(np.int32)).to_format("FRACTAL_NZ")


def run(comm, program):
    if program == "matmul":
        x1, x2, residual, gamma = matmul_arguments(comm.rank)
        arguments = comm.name, comm.size, comm.rank, 1e-6, False, True
        return ops.matmul_allreduce_add_rmsnorm(x1, x2, residual, gamma, *arguments)
    x, weight1, weight2, ids, scale1, scale2, probs = expert_arguments(comm.rank, program)
    scales = [[scale.view(np.int32).astype(np.int64)] for scale in (scale1, scale2)]
    lists = [weight1], [weight2], ids, *scales, probs
    if program == "decode":
        weights = [weight1], [scale1], [weight2], [scale2]
        arguments = comm.name, comm.size, comm.rank, SIZE * EXPERTS, 1, 0, 0, 0
        return ops.dispatch_gmm_combine_decode(x, ids, *weights, probs, None, None, *arguments)
    if program == "w4a8":
        biases = [[8 * (w * s[:, None]).sum(1)] for w, s in ((weight1, scale1), (weight2, scale2))]
        arguments = [packed(weight1)], [packed(weight2)], ids, *scales, *biases, probs, None, comm.name, 100, 0.5
        return ops.dispatch_ffn_combine_w4_a8(x, *arguments)
    if program == "int8":
        return ops.dispatch_ffn_combine(x, *lists, None, comm.name, 100, 0.5)
    return ops.dispatch_ffn_combine_bf16(x, *lists, comm.name, 100)


def main():
    rank, size, directory, backend, soc, *programs = sys.argv[1:]
    info = Path(directory) / "info"
    with aclnn.use_backend(backend, **({"soc": soc} if backend == "numpy" else {})):
        if rank == "0":
            part = info.with_suffix(".part")
            part.write_bytes(aclnn.Communicator.root_info())
            part.rename(info)
        while not info.exists():
            time.sleep(0.01)
        with aclnn.Communicator.from_root_info(info.read_bytes(), int(rank), int(size)) as comm:
            results = {}
            for program in programs:
                for number, result in enumerate(run(comm, program)):
                    array = np.asarray(result)
                    results[f"{program}{number}"] = array.astype(np.float32) if array.dtype.kind != "i" else array
            np.savez(Path(directory) / f"{rank}.npz", **results)


if __name__ == "__main__":
    main()
