"""A mixture-of-experts layer, captured once and replayed for each batch, beside the same calls made eagerly.

    x -> RmsNorm -> router -> MoeGatingTopKSoftmax -> MoeInitRoutingV2 -> GroupedMatmul, SwiGlu, GroupedMatmul
      -> MoeFinalizeRoutingV2, plus a shared expert, which a second stream computes meanwhile -> out

Nothing of the layer goes through the host, not even how many tokens each expert gets, so that all of it can be captured. The
results of eager calls and replays must be equal bit for bit. Runs on an Ascend NPU, on the emulated device or on the NumPy
backend:

    python samples/moe_graph.py
    ascend-aclnn emulator run -- python samples/moe_graph.py --draw moe.svg
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

import ascend_aclnn as aclnn
from ascend_aclnn import ops


class Weights(NamedTuple):
    gamma: aclnn.Tensor
    router: aclnn.Tensor  # hidden, experts
    up: aclnn.Tensor  # experts, hidden, 2 * width
    down: aclnn.Tensor  # experts, width, hidden
    shared_up: aclnn.Tensor
    shared_down: aclnn.Tensor


def make_weights(hidden: int, width: int, experts: int, rng: np.random.Generator) -> Weights:
    def normal(*shape: int) -> aclnn.Tensor:
        return aclnn.asarray((rng.standard_normal(shape, np.float32) / shape[-2] ** 0.5).astype(np.float16))

    return Weights(
        aclnn.asarray(np.ones(hidden, np.float16)),
        normal(hidden, experts),
        normal(experts, hidden, 2 * width),
        normal(experts, width, hidden),
        normal(hidden, 2 * width),
        normal(width, hidden),
    )


def grouped(rows: aclnn.Tensor, weights: aclnn.Tensor, ends: aclnn.Tensor) -> aclnn.Tensor:
    """Each expert's rows times its matrix; ``ends`` are the numbers of the rows where the experts' parts end."""
    products = ops.grouped_matmul_v5(
        [rows], [weights], group_list=ends, split_item=3, group_type=0, group_list_type=0, act_type=0
    )
    return products.out[0]


def layer(x: aclnn.Tensor, w: Weights, topk: int, side: aclnn.Stream) -> aclnn.Tensor:
    """The layer's output for a batch; the shared expert is computed on ``side``."""
    main = aclnn.current_stream()
    normed, _ = ops.rms_norm(x, w.gamma)
    side.wait_stream(main)
    with side:
        shared = ops.mm(ops.swi_glu(ops.mm(normed, w.shared_up)), w.shared_down)

    probs, experts, _ = ops.moe_gating_top_k_softmax(ops.mm(normed, w.router), k=topk)
    count = w.up.shape[0]
    expanded, places, ends, _ = ops.moe_init_routing_v2(
        normed, experts, expert_num=count, expert_tokens_count_or_cumsum_flag=1
    )
    ends = ops.cast(ends, "INT64")
    rows = grouped(ops.swi_glu(grouped(expanded, w.up, ends)), w.down, ends)

    main.wait_stream(side)
    return ops.moe_finalize_routing_v2(rows, places, x, shared, None, probs, experts)


def milliseconds(run: Callable[[], object], times: int) -> float:
    """One run, without the wait at the end: the best of three rounds."""
    rounds = []
    for _ in range(3):
        start = time.perf_counter()
        for _ in range(times):
            run()
        aclnn.synchronize()
        rounds.append((time.perf_counter() - start) / times * 1e3)
    return min(rounds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=8)
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--width", type=int, default=64, help="of each expert's hidden layer")
    parser.add_argument("--experts", type=int, default=8)
    parser.add_argument("--topk", type=int, default=2)
    parser.add_argument("--batches", type=int, default=4, help="to compare")
    parser.add_argument("--times", type=int, default=50, help="runs in each round of the measurement")
    parser.add_argument("--draw", type=Path, metavar="FILE.svg", help="write a picture of the graph")
    options = parser.parse_args()

    rng = np.random.default_rng(7)
    weights = make_weights(options.hidden, options.width, options.experts, rng)
    x = aclnn.asarray(np.zeros((options.tokens, options.hidden), np.float16))
    stream, side = aclnn.Stream(), aclnn.Stream()
    engine = aclnn.backend()
    print(
        f"backend {engine.name} ({engine.soc}{', emulated' if engine.emulated else ''}): {options.tokens} tokens, hidden "
        f"{options.hidden}, {options.experts} experts, {options.topk} per token, and a shared one"
    )

    def eager() -> aclnn.Tensor:
        with stream:
            return layer(x, weights, options.topk, side)

    eager()  # the first call of each operator prepares it, which a capture should not
    aclnn.synchronize()
    graph = aclnn.Graph()
    with graph.capture(stream):
        out = layer(x, weights, options.topk, side)
    print(f"\n{graph}\n")

    for number in range(options.batches):
        x.assign(rng.standard_normal(x.shape, np.float32).astype(np.float16))
        expected = eager().numpy()
        graph.replay(stream)
        if not np.array_equal(out.numpy().view(np.uint16), expected.view(np.uint16)):
            raise SystemExit(f"FAILED: eager and replayed results of batch {number} differ")
    print(f"{options.batches} batches: eager and replayed results are equal bit for bit")

    one, other = milliseconds(eager, options.times), milliseconds(lambda: graph.replay(stream), options.times)
    print(f"eager {one:.2f} ms, replayed {other:.2f} ms for a batch ({other / one:.2f} of it)")
    if options.draw is not None:
        options.draw.write_text(graph.draw(), encoding="utf-8")
        print(f"picture of the graph: {options.draw}")


if __name__ == "__main__":
    main()
