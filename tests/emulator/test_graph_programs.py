"""C programs that capture and replay: several threads, and ranks that replay a collective together."""

from __future__ import annotations

from pathlib import Path

import pytest
from c_clients import run_c_client
from emulator_client import NEWEST

SANITIZERS = [("thread",), ("address", "undefined")]
RELEASE = NEWEST


def test_two_ranks_replay_a_collective(tmp_path: Path) -> None:
    run_c_client("graph_ranks", tmp_path, libraries=["hccl"], cann=RELEASE)


def test_threads_capture_replay_and_destroy_graphs(tmp_path: Path) -> None:
    run_c_client("graph_threads", tmp_path, str(tmp_path / "graph.json"), cann=RELEASE)


@pytest.mark.long
@pytest.mark.parametrize("sanitize", SANITIZERS, ids=",".join)
def test_ranks_hold_under_sanitizers(sanitize: tuple[str, ...], tmp_path: Path) -> None:
    run_c_client("graph_ranks", tmp_path, libraries=["hccl"], cann=RELEASE, sanitize=sanitize)


@pytest.mark.long
@pytest.mark.parametrize("sanitize", SANITIZERS, ids=",".join)
def test_threads_hold_under_sanitizers(sanitize: tuple[str, ...], tmp_path: Path) -> None:
    run_c_client("graph_threads", tmp_path, str(tmp_path / "graph.json"), cann=RELEASE, sanitize=sanitize)
