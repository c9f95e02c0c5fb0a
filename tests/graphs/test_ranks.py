"""Collectives in graphs: several ranks capture them and replay together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from rank_tools import Crew

import ascend_aclnn as aclnn
from ascend_aclnn import Communicator, Graph, Stream, ops


def _replays(comm: Communicator) -> list[Any]:
    """A layer of two ranks: its parts of a sum, an all_reduce on a stream beside, what everyone has, and an exchange."""
    rank, other = comm.rank, 1 - comm.rank
    x, received = aclnn.zeros((4, 8)), aclnn.zeros((4, 8))
    half = aclnn.asarray(np.full((16, 256), rank + 1, np.float16))
    weight = aclnn.asarray(np.ones((256, 16), np.float16))
    stream, side, graph = Stream(), Stream(), Graph()
    with stream:
        ops.add(comm.all_reduce(ops.muls(x, 2), out=x.copy()), x, 1)
    aclnn.synchronize()
    with graph.capture(stream):
        part = ops.muls(x, rank + 1)
        side.wait_stream(stream)
        total = comm.all_reduce(part, out=aclnn.empty(part.shape, part.dtype), stream=side)
        stream.wait_stream(side)
        gathered = comm.all_gather(ops.adds(total, rank, 1))
        comm.batch_send_recv([("send", part, other), ("recv", received, other)])
        product = ops.matmul_all_reduce(half, weight, None, comm.name, stream_mode=1)  # it communicates itself
    outcomes = []
    for turn in range(3):
        x.assign(np.full((4, 8), turn + 1.0))
        graph.replay(stream)
        outcomes.append([total.numpy(), gathered.numpy(), received.numpy(), product.numpy()])
    kinds = [(node.kind, node.name, node.stream) for node in graph.nodes if node.kind == "collective"]
    graph.close()
    return [outcomes, kinds]


@pytest.mark.parametrize("backend", ["numpy", "npu"])
def test_ranks_replay_together(backend: str, request: pytest.FixtureRequest) -> None:
    home = "" if backend == "numpy" else str(request.getfixturevalue("emulator_home"))
    crew = Crew(2, backend, home=home)
    try:
        answers = crew.run(_replays)
    finally:
        crew.close()
    for rank, answer in enumerate(answers):
        assert not isinstance(answer, BaseException), answer
        outcomes, kinds = answer
        for turn, (total, gathered, received, product) in enumerate(outcomes):
            value = turn + 1.0
            assert (total == 3 * value).all()
            assert (gathered[:4] == 3 * value).all()
            assert (gathered[4:] == 3 * value + 1).all()
            assert (received == value * (2 - rank)).all()
            assert (product == 256 * 3).all()
        assert [(kind, stream) for kind, _, stream in kinds] == [
            ("collective", 1),
            ("collective", 0),
            ("collective", 0),
        ]
        assert kinds[0][1] == "HcclAllReduce"
