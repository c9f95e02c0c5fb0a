"""Products and experts on several ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional

import numpy as np

import ascend_aclnn as aclnn
from ascend_aclnn.collectives import groups
from ascend_aclnn.collectives.groups import Ranks
from ascend_aclnn.numerics import Array, DataError, matmul, round_into, rounded_to, widen
from ascend_aclnn.reference import reference
from ascend_aclnn.reference.matmul.quant import product_with_int4
from ascend_aclnn.rules.language import *
from vllm_ascend_operators.quantised import matrix, product, quantised, swiglu

# ------------------------------------------------------------------------------------------------- tensor parallel

aclnn.register_operator(
    """
aclnnStatus aclnnMatmulAllreduceAddRmsnormGetWorkspaceSize(
    const aclTensor *x1, const aclTensor *x2, const aclTensor *residual, const aclTensor *gamma, char *groupTp,
    int64_t tpRankSize, int64_t tpRankId, double epsilon, bool isTransB, bool isGatherAddOut, const aclTensor *y,
    const aclTensor *addOut, uint64_t *workspaceSize, aclOpExecutor **executor);
""",
    directions={"y": "out", "addOut": "out"},
)

rule(
    "aclnnMatmulAllreduceAddRmsnorm",
    only_products("A2"),
    dtypes(HALVES, "x1"),
    same_dtype("x1", "x2", "residual", "gamma", "y", "addOut"),
    tiling(
        rank(2, 3, "x1"),
        rank(2, "x2"),
        rank(1, "gamma"),
        define(k="x2[1] if isTransB else x2[0]", n="x2[0] if isTransB else x2[1]"),
        require("x1[-1] == k", argument="x2"),
        require("residual.size == prod(x1[:-1]) * n", "residual[-1:] == (n,)"),
        require("gamma == (n,)"),
        like(y="residual", addOut="residual"),
    ),
)


@reference("aclnnMatmulAllreduceAddRmsnorm", raw=True, communicates=True)
def matmul_allreduce_add_rmsnorm(
    x1: Array,
    x2: Array,
    residual: Array,
    gamma: Array,
    group: str,
    size: int,
    rank_id: int,
    epsilon: float,
    transposed: bool,
    gathered: bool,
    *,
    out: Sequence[Array],
) -> Optional[list[Array]]:
    """The sum of x1 @ x2 over all ranks plus the residual, and its RMS norm.

    Ranks add and norm a share of the rows each, in order; without ``gathered`` a rank has the sums of its own share alone.
    """
    ranks = _ranks(group, {"tpRankSize": (size, "size"), "tpRankId": (rank_id, "rank")})
    weight = x2.T if transposed else x2
    product = matmul(widen(x1.reshape(-1, x1.shape[-1])), widen(weight))
    total = widen(ranks.all_reduce(rounded_to(product, x1.dtype))) + widen(residual.reshape(product.shape))
    total = widen(rounded_to(total, x1.dtype))
    rstd = 1 / np.sqrt(np.mean(np.square(total), -1, keepdims=True) + np.float32(epsilon))
    round_into(out[0], (total * rstd * widen(gamma)).reshape(out[0].shape))
    round_into(out[1], total.reshape(out[1].shape))
    if not gathered:
        rows = out[1].reshape(product.shape)
        share = -(-len(rows) // ranks.size)
        return [rows[: ranks.rank * share], rows[(ranks.rank + 1) * share :]]
    return None


def _ranks(group: str, expected: dict[str, tuple[int, str]]) -> Ranks:
    """The ranks of a group, whose size and own number must be what the arguments say."""
    ranks = groups.find(group)
    for argument, (value, attribute) in expected.items():
        if value != getattr(ranks, attribute):
            raise DataError(argument, f"is {value}; the {attribute} of {ranks.name} is {getattr(ranks, attribute)}")
    return ranks


# ------------------------------------------------------------------------------------------------- expert parallel

_EXPERTS = (
    required_lists("weight1", "weight2"),
    dtypes("INT32", "expertId", "expertTokenNums"),
    dtypes("FLOAT", "probs"),
    dtypes("INT64", "scale1", "scale2"),
    same_dtype("x", "out"),
    tiling(
        rank(2, "x", "expertId", "probs", "out"),
        define(one="len(weight1) == 1 and len(weight1[0]) == 3"),
        define(experts="weight1[0][0] if one else len(weight1)"),
        define(packs="8 if weight1[0].dtype == INT32 else 1"),
        require("expertId[0] == x[0]"),
        require("probs == expertId"),
        require("len(weight2) == len(weight1)"),
        require(
            "all(w[-2] == x[1] and w[-1] * packs == 2 * v[-2] for w, v in zip(weight1, weight2))", argument="weight1"
        ),
        require("all(w[-1] * packs == x[1] for w in weight2)"),
        rank(1, "expertTokenNums"),
        require("expertTokenNums[0] >= experts"),
        require("maxOutputSize > 0"),
        like(out="x"),
    ),
    infer_shape(expertTokenNums="(experts,)"),
)

aclnn.register_operator(
    """
aclnnStatus aclnnDispatchFFNCombineBF16GetWorkspaceSize(
    const aclTensor *x, const aclTensorList *weight1, const aclTensorList *weight2, const aclTensor *expertId,
    const aclTensorList *scale1, const aclTensorList *scale2, const aclTensor *probs, const char *group, int64_t maxOutputSize,
    const aclTensor *out, const aclTensor *expertTokenNums, uint64_t *workspaceSize, aclOpExecutor **executor);
""",
    directions={"expertTokenNums": "out"},
)

rule(
    "aclnnDispatchFFNCombineBF16",
    only_products("A3"),
    dtypes(HALVES, "x"),
    same_dtype("x", "weight1", "weight2"),
    *_EXPERTS,
)


class _Received:
    """Rows that all ranks have sent to the experts of this one, by expert, then by rank; and the way back."""

    def __init__(self, ranks: Ranks, expert_ids: Array, experts: int, most: int) -> None:
        flat = expert_ids.reshape(-1).astype(np.int64)
        if flat.size and not (flat.min() >= 0 and flat.max() < experts * ranks.size):
            limit = experts * ranks.size
            raise DataError("expertId", f"lies between {flat.min()} and {flat.max()}; there are {limit} experts")
        self.ranks = ranks
        self.order = np.argsort(flat, kind="stable")  # copies of tokens, by expert and so by rank
        self._ends = np.searchsorted(flat[self.order], np.arange(1, ranks.size) * experts)
        numbers = np.concatenate(ranks.all_to_all(np.split(flat[self.order] % experts, self._ends)))
        self.counts = np.bincount(numbers, minlength=experts)
        if numbers.size > most:
            raise DataError("maxOutputSize", f"is {most}; {numbers.size} tokens have come to the experts of this rank")
        self._by_expert = np.argsort(numbers, kind="stable")
        self.spans = [slice(end - count, end) for end, count in zip(np.cumsum(self.counts), self.counts)]

    def take(self, rows: Array) -> Array:
        """Rows of this rank's copies, in their order, become those of this rank's experts."""
        sent = self.ranks.all_to_all(np.split(rows[self.order], self._ends))
        self._sizes = [len(part) for part in sent]
        return np.concatenate(sent)[self._by_expert]

    def give_back(self, rows: Array) -> Array:
        """Rows of this rank's experts become those of this rank's copies."""
        sent = np.empty_like(rows)
        sent[self._by_expert] = rows
        back = np.concatenate(self.ranks.all_to_all(np.split(sent, np.cumsum(self._sizes)[:-1])))
        copies = np.empty_like(back)
        copies[self.order] = back
        return copies


def _each(weight: Sequence[Array]) -> Any:
    """One matrix for each expert, from a list of them or one tensor of all."""
    return weight[0] if len(weight) == 1 and weight[0].ndim == 3 else weight


def _each_row(rows: Sequence[Array], experts: int) -> Array:
    """One row for each expert, from a list of them or one tensor of all."""
    return np.concatenate([part.reshape(-1) for part in rows]).reshape(experts, -1)


def _finish(received: _Received, rows: Array, probs: Array, out: Sequence[Array]) -> None:
    """The weighted sums of the experts' rows of each token, and how many tokens each expert got."""
    copies = widen(received.give_back(rows)).reshape(*probs.shape, -1)
    round_into(out[0], (copies * probs[..., None]).sum(1))
    out[1][...] = 0
    out[1][: len(received.counts)] = received.counts


@reference("aclnnDispatchFFNCombineBF16", raw=True, communicates=True)
def dispatch_ffn_combine_bf16(
    x: Array,
    weight1: Sequence[Array],
    weight2: Sequence[Array],
    expert_ids: Array,
    scale1: Any,
    scale2: Any,
    probs: Array,
    group: str,
    most: int,
    *,
    out: Sequence[Array],
) -> None:
    """Each token through its experts, wherever these are: two products with SwiGLU between them; then their weighted sum.

    Each step rounds to the data type of x.
    """
    first, second = _each(weight1), _each(weight2)
    received = _Received(groups.find(group), expert_ids, len(first), most)
    rows = received.take(np.repeat(x, expert_ids.shape[1], 0))
    for expert, span in enumerate(received.spans):
        inner = widen(rounded_to(matmul(widen(rows[span]), widen(first[expert])), x.dtype))
        inner = widen(rounded_to(swiglu(inner), x.dtype))
        rows[span] = rounded_to(matmul(inner, widen(second[expert])), x.dtype)
    _finish(received, rows, probs, out)


aclnn.register_operator(
    """
aclnnStatus aclnnDispatchFFNCombineGetWorkspaceSize(
    const aclTensor *x, const aclTensorList *weight1, const aclTensorList *weight2, const aclTensor *expertId,
    const aclTensorList *scale1, const aclTensorList *scale2, const aclTensor *probs, const aclTensor *xActiveMask,
    const char *group, int64_t maxOutputSize, double swigluLimit, const aclTensor *out, const aclTensor *expertTokenNums,
    uint64_t *workspaceSize, aclOpExecutor **executor);
""",
    directions={"expertTokenNums": "out"},
    optional=("xActiveMask",),
)

rule(
    "aclnnDispatchFFNCombine",
    only_products("A2 A3"),
    required_lists("scale1", "scale2"),
    dtypes(HALVES, "x"),
    dtypes("INT8", "weight1", "weight2"),
    dtypes("BOOL", "xActiveMask"),
    *_EXPERTS,
    tiling(has_shape(xActiveMask="(x[0],)")),
)


def _masked(call: Call) -> Optional[str]:
    return "the reference takes all tokens (x_active_mask)" if call.is_present("xActiveMask") else None


def _half_product(codes: Array, weight: Array, scale: Array) -> Array:
    """Products of integers by a column's scale in FLOAT16, as the cube unit hands them over.

    A scale is a float in the lower half of an INT64, of which 19 bits count.
    """
    factors = (scale.reshape(-1).astype(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
    return widen(rounded_to(product(codes, weight) * factors, np.float16))


@reference("aclnnDispatchFFNCombine", raw=True, communicates=True, unsupported=_masked)
def dispatch_ffn_combine(
    x: Array,
    weight1: Sequence[Array],
    weight2: Sequence[Array],
    expert_ids: Array,
    scale1: Sequence[Array],
    scale2: Sequence[Array],
    probs: Array,
    mask: Optional[Array],
    group: str,
    most: int,
    limit: float,
    *,
    out: Sequence[Array],
) -> None:
    """As ``dispatch_ffn_combine_bf16`` with 8-bit weights: rows are quantised in front of both products."""
    first, second = _each(weight1), _each(weight2)
    scales1, scales2 = (scale[0] if len(scale) == 1 else scale for scale in (scale1, scale2))
    received = _Received(groups.find(group), expert_ids, len(first), most)
    sent, sent_scales = quantised(np.repeat(widen(x), expert_ids.shape[1], 0))
    codes, scales = received.take(sent), received.take(sent_scales)
    rows = np.empty((len(codes), x.shape[1]), x.dtype)
    for expert, span in enumerate(received.spans):
        inner = _half_product(codes[span], first[expert], scales1[expert]) * scales[span]
        inner, inner_scales = quantised(swiglu(inner, limit))
        rows[span] = rounded_to(_half_product(inner, second[expert], scales2[expert]) * inner_scales, x.dtype)
    _finish(received, rows, probs, out)


aclnn.register_operator(
    """
aclnnStatus aclnnDispatchFFNCombineW4A8GetWorkspaceSize(
    const aclTensor *x, const aclTensorList *weight1, const aclTensorList *weight2, const aclTensor *expertId,
    const aclTensorList *scale1, const aclTensorList *scale2, const aclTensorList *bias1, const aclTensorList *bias2,
    const aclTensor *probs, const aclTensor *xActiveMask, const char *group, int64_t maxOutputSize, double swigluLimit,
    const aclTensor *out, const aclTensor *expertTokenNums, uint64_t *workspaceSize, aclOpExecutor **executor);
""",
    directions={"expertTokenNums": "out"},
    optional=("xActiveMask",),
)

rule(
    "aclnnDispatchFFNCombineW4A8",
    only_products("A3"),
    required_lists("scale1", "scale2", "bias1", "bias2"),
    dtypes(HALVES, "x"),
    dtypes("INT32 INT4", "weight1", "weight2"),
    dtypes("FLOAT", "bias1", "bias2"),
    dtypes("BOOL", "xActiveMask"),
    *_EXPERTS,
    tiling(
        has_shape(xActiveMask="(x[0],)"),
        define(inner="2 * weight2[0][-2]"),
        require("sum(prod(part) for part in scale1) == experts * inner", argument="scale1"),
        require("sum(prod(part) for part in bias1) == experts * inner", argument="bias1"),
        require("sum(prod(part) for part in scale2) == experts * x[1]", argument="scale2"),
        require("sum(prod(part) for part in bias2) == experts * x[1]", argument="bias2"),
    ),
)


@reference("aclnnDispatchFFNCombineW4A8", raw=True, communicates=True, unsupported=_masked)
def dispatch_ffn_combine_w4a8(
    x: Array,
    weight1: Sequence[Array],
    weight2: Sequence[Array],
    expert_ids: Array,
    scale1: Sequence[Array],
    scale2: Sequence[Array],
    bias1: Sequence[Array],
    bias2: Sequence[Array],
    probs: Array,
    mask: Optional[Array],
    group: str,
    most: int,
    limit: float,
    *,
    out: Sequence[Array],
) -> None:
    """As ``dispatch_ffn_combine`` with 4-bit weights: products in halves of rows; biases are what their offset takes away."""
    first, second = ([matrix(one, 2) for one in _each(weight)] for weight in (weight1, weight2))
    scales1, scales2, biases1, biases2 = (_each_row(rows, len(first)) for rows in (scale1, scale2, bias1, bias2))
    received = _Received(groups.find(group), expert_ids, len(first), most)
    sent, sent_scales = quantised(np.repeat(widen(x), expert_ids.shape[1], 0))
    codes, scales = received.take(sent), received.take(sent_scales)
    rows = np.empty((len(codes), x.shape[1]), x.dtype)
    for expert, span in enumerate(received.spans):
        inner = product_with_int4(codes[span], first[expert], scales1[expert], biases1[expert]) * scales[span]
        inner, inner_scales = quantised(swiglu(inner, limit))
        outer = product_with_int4(inner, second[expert], scales2[expert], biases2[expert]) * inner_scales
        rows[span] = rounded_to(outer, x.dtype)
    _finish(received, rows, probs, out)


# ------------------------------------------------------------------------------------------------- decoding

aclnn.register_operator(
    """
aclnnStatus aclnnDispatchGmmCombineDecodeGetWorkspaceSize(
    const aclTensor *x, const aclTensor *expertIds, const aclTensorList *gmm1PermutedWeight,
    const aclTensorList *gmm1PermutedWeightScale, const aclTensorList *gmm2Weight, const aclTensorList *gmm2WeightScale,
    const aclTensor *expertScales, const aclTensor *expertSmoothScalesOptional, const aclTensor *xActiveMaskOptional,
    char *groupEp, int64_t epRankSize, int64_t epRankId, int64_t moeExpertNum, int64_t shareExpertNum,
    int64_t shareExpertRankNum, int64_t quantMode, int64_t globalBs, const aclTensor *output, const aclTensor *expertTokenNums,
    uint64_t *workspaceSize, aclOpExecutor **executor);
""",
    directions={"output": "out", "expertTokenNums": "out"},
)

rule(
    "aclnnDispatchGmmCombineDecode",
    only_products("A3"),
    required_lists("gmm1PermutedWeight", "gmm1PermutedWeightScale", "gmm2Weight", "gmm2WeightScale"),
    dtypes(HALVES, "x"),
    dtypes("INT32", "expertIds"),
    dtypes(f"INT8 {HALVES}", "gmm1PermutedWeight"),
    same_dtype("gmm1PermutedWeight", "gmm2Weight"),
    dtypes("FLOAT BF16", "gmm1PermutedWeightScale", "gmm2WeightScale"),
    dtypes("FLOAT", "expertScales", "expertSmoothScalesOptional"),
    dtypes("BOOL", "xActiveMaskOptional"),
    dtypes("INT64", "expertTokenNums"),
    same_dtype("x", "output"),
    tiling(
        rank(2, "x", "expertIds", "expertScales"),
        rank(2, 3, "gmm1PermutedWeight", "gmm2Weight"),
        rank(1, 2, "gmm1PermutedWeightScale", "gmm2WeightScale"),
        require("0 <= epRankId < epRankSize", "0 <= shareExpertRankNum < epRankSize", "0 < moeExpertNum <= 512"),
        one_of("shareExpertNum", 1),
        require("moeExpertNum % (epRankSize - shareExpertRankNum) == 0", argument="moeExpertNum"),
        define(
            bs="x[0]",
            h="x[1]",
            n="gmm1PermutedWeight[0][-1]",
            local="1 if epRankId < shareExpertRankNum else moeExpertNum // (epRankSize - shareExpertRankNum)",
        ),
        require("1 <= bs <= 256", "512 <= h <= 7168"),
        require("1024 <= n <= 6144", argument="gmm1PermutedWeight"),
        require("expertIds[0] == bs", "expertIds[1] <= 12"),
        require("expertScales == expertIds"),
        require("all(w[-2:] == (h, n) for w in gmm1PermutedWeight)", argument="gmm1PermutedWeight"),
        require("all(w[-2:] == (n // 2, h) for w in gmm2Weight)", argument="gmm2Weight"),
        require(
            "local == (len(gmm1PermutedWeight) if len(gmm1PermutedWeight[0]) == 2 else gmm1PermutedWeight[0][0])",
            argument="gmm1PermutedWeight",
            word="experts",
        ),
        require(
            "local == (len(gmm2Weight) if len(gmm2Weight[0]) == 2 else gmm2Weight[0][0])",
            argument="gmm2Weight",
            word="experts",
        ),
        require("all(s[-1] == n for s in gmm1PermutedWeightScale)", argument="gmm1PermutedWeightScale"),
        require("all(s[-1] == h for s in gmm2WeightScale)", argument="gmm2WeightScale"),
        require("globalBs >= 0", "globalBs % epRankSize == 0"),
        has_shape(xActiveMaskOptional="(bs,)"),
        output_shape(output="x", expertTokenNums="(local,)"),
    ),
)


def _other_decoding(call: Call) -> Optional[str]:
    if any(weight.dtype.name != "INT8" for weight in call.items("gmm1PermutedWeight")):
        return "the reference takes weights in INT8"
    if call["shareExpertRankNum"] or any(
        call.is_present(name) for name in ("expertSmoothScalesOptional", "xActiveMaskOptional")
    ):
        return "the reference has no shared experts, smoothing scales and masks"
    return None


@reference("aclnnDispatchGmmCombineDecode", raw=True, communicates=True, unsupported=_other_decoding)
def dispatch_gmm_combine_decode(
    x: Array,
    expert_ids: Array,
    weight1: Sequence[Array],
    scale1: Sequence[Array],
    weight2: Sequence[Array],
    scale2: Sequence[Array],
    probs: Array,
    smooth: Optional[Array],
    mask: Optional[Array],
    group: str,
    size: int,
    rank_id: int,
    experts: int,
    shared: int,
    shared_ranks: int,
    quant_mode: int,
    global_bs: int,
    *,
    out: Sequence[Array],
) -> None:
    """As ``dispatch_ffn_combine`` with scales in float; in 0.23.0 the first weight's halves are what is left and right."""
    first, second = _each(weight1), _each(weight2)
    scales1, scales2 = (s[0] if len(s) == 1 and s[0].ndim == 2 else s for s in (scale1, scale2))
    ranks = _ranks(group, {"epRankSize": (size, "size"), "epRankId": (rank_id, "rank")})
    received = _Received(ranks, expert_ids, len(first), ranks.size * expert_ids.size * len(first))
    sent, sent_scales = quantised(np.repeat(widen(x), expert_ids.shape[1], 0))
    codes, scales = received.take(sent), received.take(sent_scales)
    rows = np.empty((len(codes), x.shape[1]), x.dtype)
    for expert, span in enumerate(received.spans):
        inner = product(codes[span], first[expert]) * widen(scales1[expert]) * scales[span]
        inner, inner_scales = quantised(swiglu(inner))
        rows[span] = rounded_to(product(inner, second[expert]) * widen(scales2[expert]) * inner_scales, x.dtype)
    _finish(received, rows, probs, out)
