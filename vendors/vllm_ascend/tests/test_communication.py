"""Products and experts on two ranks, against the formulas in float64 on what all ranks have."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from ranks import EXPERTS, SIZE, TOKENS, TOP, expert_arguments, matmul_arguments

import ascend_aclnn as aclnn

PROGRAMS = {"Ascend910B1": ["matmul", "int8"], "Ascend910_9391": ["bf16", "decode", "w4a8"]}


def start(directory, backend, soc):
    """What the operators give on each rank: a process each."""
    command = [sys.executable, str(Path(__file__).with_name("ranks.py"))]
    paths = os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])
    environment = {**os.environ, "PYTHONPATH": paths, "ASCEND_ACLNN_SOC": soc}
    started = [
        subprocess.Popen(
            [*command, str(rank), str(SIZE), str(directory), backend, soc, *PROGRAMS[soc]],
            env=environment,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(SIZE)
    ]
    try:
        for process in started:
            _, text = process.communicate(timeout=300)
            assert process.returncode == 0, text
    finally:
        for process in started:  # a rank that fails leaves the others waiting
            with process:
                process.kill()
    return [dict(np.load(directory / f"{rank}.npz")) for rank in range(SIZE)]


@pytest.fixture(scope="module")
def results(aclnn_module_backend, tmp_path_factory):
    backend = aclnn_module_backend.name
    both = [start(tmp_path_factory.mktemp("ranks"), backend, soc) for soc in PROGRAMS]
    return [{**first, **second} for first, second in zip(*both)]


def test_matmul_allreduce_add_rmsnorm(results):
    sides = [[side.astype(np.float64) for side in matmul_arguments(rank)] for rank in range(SIZE)]
    total = sum(x1 @ x2 for x1, x2, _, _ in sides) + sides[0][2]
    norm = total / np.sqrt((total**2).mean(1, keepdims=True) + 1e-6) * sides[0][3]
    for of_rank in results:
        assert np.allclose(of_rank["matmul1"], total, rtol=1e-2, atol=2e-2)
        assert np.allclose(of_rank["matmul0"], norm, rtol=1e-2, atol=1e-2)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


@pytest.mark.parametrize(("program", "limit"), [("bf16", np.inf), ("int8", 0.5), ("w4a8", 0.5), ("decode", np.inf)])
def test_dispatch_ffn_combine(results, program, limit):
    """Each token by each of its experts; with quantised weights as if nothing was rounded."""
    ranks = [expert_arguments(rank, program) for rank in range(SIZE)]
    received = np.zeros((SIZE, EXPERTS), int)
    for rank, (x, _, _, ids, _, _, probs) in enumerate(ranks):
        golden = np.zeros(x.shape)
        for token in range(TOKENS):
            for choice in range(TOP):
                owner, expert = divmod(int(ids[token, choice]), EXPERTS)
                received[owner, expert] += 1
                _, weight1, weight2, _, scale1, scale2, _ = ranks[owner]
                factors = (scale1[expert], scale2[expert]) if program != "bf16" else (1, 1)
                inner = x[token].astype(np.float64) @ weight1[expert].astype(np.float64) * factors[0]
                left, right = np.split(inner, 2)
                left, right = np.minimum(left, limit), np.clip(right, -limit, limit)
                gated = left * sigmoid(left) * right
                golden[token] += probs[token, choice] * (gated @ weight2[expert].astype(np.float64) * factors[1])
        error = np.abs(results[rank][f"{program}0"] - golden).max()
        assert error < 0.03 * np.abs(golden).max(), error
    assert [of_rank[f"{program}1"].tolist() for of_rank in results] == received.tolist()


def test_a_group_that_is_not_there_is_refused(aclnn_backend):
    x1, x2, residual, gamma = matmul_arguments(0)
    with pytest.raises(aclnn.AclError, match="group_tp is 'none'"):
        aclnn.function("aclnnMatmulAllreduceAddRmsnorm")(x1, x2, residual, gamma, "none", 2, 0, 1e-6, False, True)
