"""A small mixture-of-experts layer, forward and backward, with aclnn operators, checked against plain NumPy.

    ids -> Embedding -> RmsNorm -> top-k routing -> MoeTokenPermute -> Mm per expert -> MoeTokenUnpermute -> out

and back through the same operators' gradients to the embedding table. Full model sizes: --tokens 4096 --hidden 7168.
Runs on an Ascend NPU or on the NumPy backend and says which.
"""

from __future__ import annotations

import argparse
import time
from contextlib import contextmanager

import ml_dtypes
import numpy as np
from tqdm import tqdm

import ascend_aclnn as aclnn
from ascend_aclnn import ops

DTYPES = {"float32": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
# Largest error relative to the largest value: a few units in the last place of each type, summed over `hidden` products.
TOLERANCE = {"float32": 2e-5, "float16": 2e-2, "bfloat16": 1e-1}


class Timer:
    """Seconds per step; each step is synchronised so that device time counts where it belongs."""

    def __init__(self, steps: int) -> None:
        self.seconds: dict[str, float] = {}
        self.bar = tqdm(total=steps, unit="op", ncols=80, disable=None)  # None: off when not on a terminal

    @contextmanager
    def __call__(self, name: str):
        self.bar.set_description(name)
        start = time.perf_counter()
        yield
        aclnn.synchronize()
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start
        self.bar.update()

    def table(self) -> None:
        self.bar.close()
        total = sum(self.seconds.values())
        print(f"\n{'step':26} {'ms':>9} {'share':>6}")
        for name, seconds in self.seconds.items():
            print(f"{name:26} {seconds * 1e3:9.2f} {100 * seconds / total:5.1f} %")
        print(f"{'total':26} {total * 1e3:9.2f}")


def route(x: np.ndarray, router: np.ndarray, topk: int) -> tuple[np.ndarray, np.ndarray]:
    """Experts and their probabilities for every token: softmax over the router's logits, the largest kept, renormalised."""
    logits = x.astype(np.float32) @ router
    experts = np.argsort(-logits, axis=1, kind="stable")[:, :topk].astype(np.int32)
    chosen = np.take_along_axis(logits, experts, axis=1)
    weights = np.exp(chosen - chosen.max(axis=1, keepdims=True))
    return experts, (weights / weights.sum(axis=1, keepdims=True)).astype(np.float32)


def layer(ids, table, gamma, experts_w, dout, router, topk, dtype, timer):
    """Forward and backward on Tensors. Returns what the check compares, as ndarrays."""
    experts = len(experts_w)
    ids_t, table_t, gamma_t, dout_t = (aclnn.asarray(a) for a in (ids, table, gamma, dout))
    weights = [aclnn.asarray(w) for w in experts_w]

    with timer("Embedding"):
        x = ops.embedding(table_t, ids_t)
    with timer("RmsNorm"):
        normed, rstd = ops.rms_norm(x, gamma_t, 1e-6)
    with timer("routing (host)"):
        indices, probs = route(normed.numpy(), router, topk)
        probs_t, indices_t = aclnn.asarray(probs.astype(dtype)), aclnn.asarray(indices)
        ends = np.cumsum(np.bincount(indices.reshape(-1), minlength=experts)).tolist()
        parts = [slice(a, b) for a, b in zip([0, *ends[:-1]], ends)]
    with timer("MoeTokenPermute"):
        permuted, order = ops.moe_token_permute(normed, indices_t)
    hidden = aclnn.empty(permuted.shape, permuted.dtype)
    for part, weight in zip(parts, weights):
        with timer("Mm forward"):
            if part.stop > part.start:
                ops.mm(permuted[part], weight, out=hidden[part])
    with timer("MoeTokenUnpermute"):
        out = ops.moe_token_unpermute(hidden, order, probs_t)

    with timer("MoeTokenUnpermuteGrad"):
        dhidden, dprobs = ops.moe_token_unpermute_grad(hidden, dout_t, order, probs_t)
    dpermuted = aclnn.empty(permuted.shape, permuted.dtype)
    dweights = []
    for part, weight in zip(parts, weights):
        with timer("Mm backward"):
            if part.stop > part.start:
                ops.mm(dhidden[part], weight.T, out=dpermuted[part])
                dweights.append(ops.mm(permuted[part].T, dhidden[part]))
            else:
                dweights.append(aclnn.zeros(weight.shape, weight.dtype))
    with timer("MoeTokenPermuteGrad"):
        dnormed = ops.moe_token_permute_grad(dpermuted, order, topk)
    with timer("RmsNormGrad"):
        dx, dgamma = ops.rms_norm_grad(dnormed, x, rstd, gamma_t)
    with timer("EmbeddingDenseBackward"):
        dtable = ops.embedding_dense_backward(dx, ids_t, len(table), -1)

    results = {"out": out, "d probs": dprobs, "d gamma": dgamma, "d table": dtable}
    arrays = {name: tensor.numpy().astype(np.float32) for name, tensor in results.items()}
    arrays["d experts"] = np.stack([w.numpy().astype(np.float32) for w in dweights])
    return arrays, indices, probs


def formula(ids, table, gamma, experts_w, dout, indices, probs, eps=1e-6):
    """The same layer as a plain formula in float64."""
    table, gamma, dout = (np.asarray(a, np.float64) for a in (table, gamma, dout))
    weights = np.stack([np.asarray(w, np.float64) for w in experts_w])
    x = table[ids]
    rstd = 1 / np.sqrt((x**2).mean(axis=1, keepdims=True) + eps)
    xhat = x * rstd
    normed = xhat * gamma
    out = np.zeros_like(normed)
    dnormed, dprobs, dweights = np.zeros_like(normed), np.zeros(probs.shape), np.zeros_like(weights)
    for expert, weight in enumerate(weights):
        tokens, slot = np.nonzero(indices == expert)
        share = probs[tokens, slot][:, None].astype(np.float64)
        hidden = normed[tokens] @ weight
        np.add.at(out, tokens, share * hidden)
        dprobs[tokens, slot] = (dout[tokens] * hidden).sum(axis=1)
        dhidden = share * dout[tokens]
        dweights[expert] = normed[tokens].T @ dhidden
        np.add.at(dnormed, tokens, dhidden @ weight.T)
    dgamma = (dnormed * xhat).sum(axis=0)
    t = dnormed * gamma
    dx = (t - xhat * (t * xhat).mean(axis=1, keepdims=True)) * rstd
    dtable = np.zeros_like(table)
    np.add.at(dtable, ids, dx)
    return {"out": out, "d probs": dprobs, "d gamma": dgamma, "d table": dtable, "d experts": dweights}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--hidden", type=int, default=1024)
    parser.add_argument("--experts", type=int, default=8)
    parser.add_argument("--topk", type=int, default=2)
    parser.add_argument("--vocabulary", type=int, default=1000)
    parser.add_argument("--dtype", choices=DTYPES, default="float32")
    parser.add_argument("--no-check", action="store_true", help="skip the float64 formula (slow at full model sizes)")
    options = parser.parse_args()

    dtype = DTYPES[options.dtype]
    rng = np.random.default_rng(7)
    hidden, experts = options.hidden, options.experts
    ids = rng.integers(0, options.vocabulary, options.tokens, dtype=np.int32)
    table = rng.standard_normal((options.vocabulary, hidden), np.float32).astype(dtype)
    gamma = rng.uniform(0.5, 1.5, hidden).astype(dtype)
    router = rng.standard_normal((hidden, experts), np.float32)
    weights = [(rng.standard_normal((hidden, hidden), np.float32) / hidden**0.5).astype(dtype) for _ in range(experts)]
    dout = rng.standard_normal((options.tokens, hidden), np.float32).astype(dtype)

    engine = aclnn.backend()
    print(
        f"backend {engine.name} ({engine.soc}{', emulated' if engine.emulated else ''}), {options.dtype}: "
        f"{options.tokens} tokens, hidden {hidden}, {experts} experts, {options.topk} per token"
    )
    timer = Timer(steps=9 + 2 * experts)
    results, indices, probs = layer(ids, table, gamma, weights, dout, router, options.topk, dtype, timer)
    timer.table()
    if options.no_check:
        return

    expected = formula(ids, table, gamma, weights, dout, indices, probs.astype(dtype).astype(np.float32))
    print(f"\n{'against float64 NumPy':26} {'relative error':>15}")
    worst = 0.0
    for name, value in results.items():
        error = float(np.abs(value - expected[name]).max() / np.abs(expected[name]).max())
        worst = max(worst, error)
        print(f"{name:26} {error:15.2e}")
    limit = TOLERANCE[options.dtype]
    if not worst <= limit:
        raise SystemExit(f"FAILED: error {worst:.2e} is above {limit:.0e}")
    print(f"all within {limit:.0e}")


if __name__ == "__main__":
    main()
