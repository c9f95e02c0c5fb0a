"""DeepEP's operators on two ranks, against loops over tokens."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from ranks import EACH, EXPERTS, ROUNDS, SIZE, SOC, TOKENS, H, arguments, experts_of

LOCAL = EXPERTS // SIZE


@pytest.fixture(scope="module")
def results(aclnn_module_backend, tmp_path_factory):
    directory = tmp_path_factory.mktemp("ranks")
    command = [sys.executable, str(Path(__file__).with_name("ranks.py"))]
    paths = os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])
    started = [
        subprocess.Popen(
            [*command, str(rank), str(SIZE), str(directory), aclnn_module_backend.name],
            env={**os.environ, "PYTHONPATH": paths, "ASCEND_ACLNN_SOC": SOC},
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


def copies(rank):
    """(round, expert, token, choice) of each copy of a rank's tokens, in their order."""
    _, ids, _ = arguments(rank)
    return [(t // EACH, int(e), t, k) for t, row in enumerate(ids) for k, e in enumerate(row) if e >= 0]


def test_dispatch_layout(results):
    for rank, result in enumerate(results):
        counts, places = np.zeros((ROUNDS, EXPERTS), int), np.zeros((TOKENS[rank], 3), int)
        in_rank = np.zeros((TOKENS[rank], SIZE), int)
        for turn, expert, token, choice in copies(rank):
            places[token, choice] = counts[turn, expert]
            counts[turn, expert] += 1
            in_rank[token, expert // LOCAL] = 1
        assert (result["plain counts"] == counts).all() and (result["plain places"] == places).all()
        assert (result["plain in_rank"] == in_rank).all() and (result["plain per_rank"] == in_rank.sum(0)).all()


def rows_of(rank):
    """(source, token, choice) of each row that comes to a rank: by expert, source, round, and token."""
    arrived = [
        (e, source, turn, t, k) for source in range(SIZE) for turn, e, t, k in copies(source) if e // LOCAL == rank
    ]
    return [(source, token, choice) for _, source, _, token, choice in sorted(arrived)]


def test_rows_lie_by_expert_source_and_round(results):
    for rank, result in enumerate(results):
        wanted = rows_of(rank)
        assert result["plain sources"].reshape(-1, 3).tolist() == [list(row) for row in wanted]
        sent = np.stack([arguments(source)[0][token] for source, token, _ in wanted])
        assert (result["plain rows"] == sent).all()
        wide = sent.astype(np.float64)
        assert np.allclose(result["int8 scales"], np.abs(wide).max(1) / 127, rtol=1e-5)
        assert np.abs(result["int8 rows"] - wide / result["int8 scales"][:, None]).max() < 0.51
        assert result["plain most"] == max(TOKENS)
        received = np.zeros((ROUNDS, LOCAL), int)
        for source in range(SIZE):
            for turn, expert, _, _ in copies(source):
                if expert // LOCAL == rank:
                    received[turn, expert % LOCAL] += 1
        assert (result["plain per_expert"] == received.ravel()).all()


def test_combined_rows_are_weighted_sums(results):
    """Experts that change nothing: each token times the sum of its weights."""
    for rank, result in enumerate(results):
        x, ids, weights = arguments(rank)
        golden = x.astype(np.float64) * (weights * (ids >= 0)).sum(1, keepdims=True)
        assert np.abs(result["plain combined"] - golden).max() < 2e-3 * np.abs(golden).max()
        assert np.abs(result["int8 combined"] - golden).max() < 2e-2 * np.abs(golden).max()


def test_low_latency(results):
    """Experts that double: each token times twice the sum of its weights, as by CANN's operators."""
    for rank, result in enumerate(results):
        x, _, weights = arguments(rank)
        golden = 2 * x[:4].astype(np.float64) * weights[:4].sum(1, keepdims=True)
        assert np.abs(result["low moe_low_latency"] - golden).max() < 2e-3 * np.abs(golden).max()
        assert (result["low moe_low_latency"] == result["low moe_distribute"]).all()


def test_dispatch_ffn_combine(results):
    """Each token by each of its experts, as if nothing was rounded."""
    received = np.zeros((SIZE, LOCAL), int)
    for rank, result in enumerate(results):
        x, ids, probs = arguments(rank)
        golden = np.zeros((TOKENS[rank], H))
        for token, choices in enumerate(np.abs(ids)):
            for expert, prob in zip(choices, probs[token]):
                owner, number = divmod(int(expert), LOCAL)
                received[owner, number] += 1
                first, second = (w[number] * s[number].astype(np.float64) for w, s in zip(*experts_of(owner)))
                left, right = np.split(x[token].astype(np.float64) @ first, 2)
                golden[token] += prob * (left / (1 + np.exp(-left)) * right @ second)
        assert np.abs(result["fused out"] - golden).max() < 0.03 * np.abs(golden).max()
    assert [result["fused counts"].tolist() for result in results] == received.tolist()
