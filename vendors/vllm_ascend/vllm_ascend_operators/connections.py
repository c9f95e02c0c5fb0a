"""Hyper-connections: residual streams that a layer's input is gathered from, and its output is spread over.

There are h streams, each d wide; the leading axes are tokens, or batch and sequence.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import ascend_aclnn as aclnn
from ascend_aclnn.numerics import Array
from ascend_aclnn.reference import function_of, reference
from ascend_aclnn.rules.language import *

aclnn.register_operator("""
aclnnStatus aclnnHcPreInvRmsGetWorkspaceSize(
    const aclTensor *x, double epsilon, const aclTensor *out, uint64_t *workspaceSize, aclOpExecutor **executor);
""")

rule(
    "aclnnHcPreInvRms",
    only_products("A2 A3"),
    dtypes(FLOATS, "x"),
    dtypes("FLOAT", "out"),
    tiling(shape_patterns((1, 2), x="* h d", out="* 1"), require("epsilon > 0")),
)


@reference("aclnnHcPreInvRms")
def hc_pre_inv_rms(x: Array, epsilon: float) -> Any:
    """The reciprocal root mean square of all streams of a token."""
    return 1 / np.sqrt(np.square(x).mean((-2, -1))[..., None] + np.float32(epsilon))


aclnn.register_operator("""
aclnnStatus aclnnHcPreSinkhornGetWorkspaceSize(
    const aclTensor *mixes, const aclTensor *rsqrt, const aclTensor *hcScale, const aclTensor *hcBase, const aclTensor *x,
    int64_t hcMult, int64_t hcSinkhornIters, double hcEps, const aclTensor *yOut, const aclTensor *postOut,
    const aclTensor *combFragOut, uint64_t *workspaceSize, aclOpExecutor **executor);
""")

rule(
    "aclnnHcPreSinkhorn",
    only_products("A2 A3"),
    dtypes("FLOAT", "mixes", "rsqrt", "hcScale", "hcBase", "postOut", "combFragOut"),
    dtypes("BF16", "x", "yOut"),
    define(h="hcMult", mix="(hcMult + 2) * hcMult"),
    tiling(
        require("hcMult > 0"),
        shape_patterns(
            (1, 2),
            mixes="* mix",
            rsqrt="* 1",
            hcScale="3",
            hcBase="mix",
            x="* h d",
            yOut="* d",
            postOut="* h",
            combFragOut="* h h",
        ),
        require("hcSinkhornIters > 0"),
    ),
)


@reference("aclnnHcPreSinkhorn")
def hc_pre_sinkhorn(
    mixes: Array, rsqrt: Array, scale: Array, base: Array, x: Array, h: int, iterations: int, eps: float
) -> tuple[Any, Any, Any]:
    """The layer's input, each stream's gate behind the layer, and the matrix that mixes the streams.

    The matrix is a softmax by rows whose columns and rows are divided by their sums in turn, columns last.
    """
    least = np.float32(eps)
    scaled = mixes * rsqrt
    before, after = (_sigmoid(scaled[..., i * h :][..., :h] * scale[i] + base[i * h :][:h]) for i in (0, 1))
    mixing = (scaled[..., 2 * h :] * scale[2] + base[2 * h :]).reshape(*scaled.shape[:-1], h, h)
    mixing = np.exp(mixing - mixing.max(-1, keepdims=True))
    mixing = mixing / mixing.sum(-1, keepdims=True) + least
    mixing = mixing / (mixing.sum(-2, keepdims=True) + least)
    for _ in range(iterations - 1):
        mixing = mixing / (mixing.sum(-1, keepdims=True) + least)
        mixing = mixing / (mixing.sum(-2, keepdims=True) + least)
    return (x * (before + least)[..., None]).sum(-2), 2 * after, mixing


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


aclnn.register_operator("""
aclnnStatus aclnnHcPreGetWorkspaceSize(
    const aclTensor *x, const aclTensor *hcFn, const aclTensor *hcScale, const aclTensor *hcBase, int64_t hcMult,
    int64_t hcSinkhornIters, double hcEps, double normEps, const aclTensor *yOut, const aclTensor *postOut,
    const aclTensor *combFragOut, uint64_t *workspaceSize, aclOpExecutor **executor);
""")

rule(
    "aclnnHcPre",
    only_products("A2 A3"),
    dtypes("BF16", "x", "yOut"),
    dtypes("FLOAT", "hcFn", "hcScale", "hcBase", "postOut", "combFragOut"),
    define(mix="(hcMult + 2) * hcMult"),
    tiling(
        rank(3, 4, "x"),
        require("hcMult > 0", "x[-2] == hcMult"),
        shape_patterns(
            (1, 2),
            x="* h d",
            hcFn="mix h*d",
            hcScale="3",
            hcBase="mix",
            yOut="* d",
            postOut="* h",
            combFragOut="* h h",
        ),
        require("hcSinkhornIters > 0"),
    ),
)


@reference("aclnnHcPre")
def hc_pre(
    x: Array, weight: Array, scale: Array, base: Array, h: int, iterations: int, eps: float, norm_eps: float
) -> tuple[Any, Any, Any]:
    """HcPreSinkhorn of the products of all streams with ``weight`` and of HcPreInvRms."""
    mixes = np.matmul(x.reshape(*x.shape[:-2], -1), weight.T)
    gates: tuple[Any, Any, Any] = hc_pre_sinkhorn(
        mixes, hc_pre_inv_rms(x, norm_eps), scale, base, x, h, iterations, eps
    )
    return gates


aclnn.register_operator("""
aclnnStatus aclnnHcPostGetWorkspaceSize(
    const aclTensor *x, const aclTensor *residual, const aclTensor *post, const aclTensor *comb, const aclTensor *out,
    uint64_t *workspaceSize, aclOpExecutor **executor);
""")

rule(
    "aclnnHcPost",
    only_products("A2 A3"),
    dtypes(FLOATS, "x", "post"),
    same_dtype("x", "residual", "out"),
    same_dtype("post", "comb"),
    tiling(shape_patterns((1, 2), residual="* h d", x="* d", post="* h", comb="* h h", out="* h d")),
)

_mhc_post = function_of("aclnnMhcPost")


@reference("aclnnHcPost")
def hc_post(x: Array, residual: Array, post: Array, comb: Array) -> Any:
    """Stream m is the layer's output x times post[m] plus the sum of the streams k times comb[k, m]."""
    return _mhc_post(residual, comb, x, post)
