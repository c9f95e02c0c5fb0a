"""The choice of experts from gating scores. Of equal scores the first is chosen."""

from __future__ import annotations

from typing import Any, Optional

import numpy as np

from ascend_aclnn import native
from ascend_aclnn.numerics import Array
from ascend_aclnn.reference._rows import check_range
from ascend_aclnn.reference._special import sigmoid, softplus
from ascend_aclnn.reference.declare import reference


def _softmax(x: Array) -> Array:
    shifted = np.exp(x - np.max(x, -1, keepdims=True))
    return np.asarray(shifted / np.sum(shifted, -1, keepdims=True))


def _best(scores: Array, k: int) -> Array:
    """Positions of the k largest, in falling order; NaN comes last."""
    turned = -scores
    first = native.choose(turned.reshape(-1, turned.shape[-1]), k, False) if turned.ndim else None
    if first is not None:
        return first.reshape(*scores.shape[:-1], k)
    return np.argsort(turned, -1, kind="stable")[..., :k]


def _scores_of(scores: Array, experts: Array) -> Array:
    return np.take_along_axis(scores, experts, -1)


# ------------------------------------------------------------------------------------------------- softmax


@reference("aclnnMoeGatingTopKSoftmax")
def gating_top_k_softmax(x: Array, finished: Optional[Array], k: int) -> Any:
    """The best probabilities and their experts; experts of finished rows are the number of experts.

    The third output numbers all choices column by column.
    """
    probabilities = _softmax(x)
    experts = _best(probabilities, k)
    rows = experts.size // k
    numbers = np.arange(experts.size, dtype=np.int32).reshape(k, rows).T.reshape(experts.shape)
    return _scores_of(probabilities, experts), _unless_finished(experts, finished, x.shape[-1]), numbers


def _unless_finished(experts: Array, finished: Optional[Array], count: int) -> Array:
    return experts if finished is None else np.where(finished[..., None], count, experts)


@reference("aclnnMoeGatingTopKSoftmaxV2")
def gating_top_k_softmax_v2(x: Array, finished: Optional[Array], k: int, renorm: int, keep_softmax: bool) -> Any:
    """``renorm`` 1 takes the softmax of the chosen scores only, else of all; then it can be given back."""
    scores = x if renorm else _softmax(x)
    experts = _best(scores, k)
    chosen = _scores_of(scores, experts)
    softmax_out = scores if keep_softmax and not renorm else None
    return _softmax(chosen) if renorm else chosen, _unless_finished(experts, finished, x.shape[-1]), softmax_out


# ------------------------------------------------------------------------------------------------- groups

_SOFTMAX, _SIGMOID = 0, 1


def _normed(x: Array, norm_type: int) -> Array:
    if norm_type == _SOFTMAX:
        return _softmax(x)
    return sigmoid(x) if norm_type == _SIGMOID else np.sqrt(softplus(x))


def _chosen_groups(scores: Array, groups: int, wanted: int, summed: int) -> Array:
    """Which of the groups of experts are among the best (rows, groups); a group counts by the sum of its best ones."""
    parts = scores.reshape(len(scores), groups, -1)
    best = -np.sort(-parts, -1)[..., :summed]
    chosen = np.zeros((len(scores), groups), bool)
    np.put_along_axis(chosen, _best(best.sum(-1), wanted), True, 1)
    return chosen


def _of_group(chosen: Array, experts: int) -> Array:
    return np.repeat(chosen, experts // chosen.shape[1], 1)


@reference("aclnnMoeGatingTopKV2")
def gating_top_k_v2(
    x: Array,
    bias: Optional[Array],
    input_ids: Optional[Array],
    tid2eid: Optional[Array],
    k: int,
    k_group: int,
    group_count: int,
    group_select_mode: int,
    renorm: int,
    norm_type: int,
    out_flag: bool,
    routed_scaling_factor: float,
    eps: float,
) -> Any:
    """The best experts (with bias, of the best groups), or those that a table has for the tokens' ids; their scores."""
    scores = _normed(x, norm_type)
    if input_ids is not None and tid2eid is not None:
        check_range("inputIdsOptional", input_ids, 0, len(tid2eid))
        experts = tid2eid[input_ids.reshape(-1)].astype(np.int64)
        check_range("tid2eidOptional", experts, 0, x.shape[1])
    else:
        ranked = scores if bias is None else scores + bias
        if group_count > 1:
            chosen = _chosen_groups(ranked, group_count, k_group, 2 if group_select_mode == 1 else 1)
            ranked = np.where(_of_group(chosen, x.shape[1]), ranked, -np.inf)
        experts = _best(ranked, k)
    y = _scores_of(scores, experts)
    if norm_type != _SOFTMAX or renorm == 1:
        y = y / (np.sum(y, -1, keepdims=True) + np.float32(eps))
    return y * np.float32(routed_scaling_factor), experts, scores if out_flag else None


@reference("aclnnMoeGatingTopK")
def gating_top_k(x: Array, bias: Optional[Array], *rest: Any) -> Any:
    return gating_top_k_v2(x, bias, None, None, *rest)


@reference("aclnnMoeGatingTopKBackward")
def gating_top_k_backward(
    scores: Array,
    grad: Array,
    experts: Array,
    renorm: int,
    norm_type: int,
    routed_scaling_factor: float,
    eps: float,
) -> Any:
    """The gradient of x from the scores that the forward gave back; as the document has it, of sigmoid scores."""
    check_range("expertIdx", experts, 0, scores.shape[1])
    scaled = grad * np.float32(routed_scaling_factor)
    chosen = _scores_of(scores, experts)
    total = np.sum(chosen, -1, keepdims=True) + np.float32(eps)
    d_chosen = (scaled - np.sum(chosen / total * scaled, -1, keepdims=True)) / total
    d_scores = np.zeros_like(scores)
    np.add.at(d_scores, (np.arange(len(scores))[:, None], experts), d_chosen)
    return scores * (1 - scores) * d_scores


@reference("aclnnMoeFusedTopk")
def fused_topk(
    x: Array,
    add_num: Array,
    mapping_num: Optional[Array],
    mapping_table: Optional[Array],
    group_num: int,
    group_topk: int,
    top_n: int,
    top_k: int,
    activate_type: int,
    is_norm: bool,
    scale: float,
    enable_expert_mapping: bool,
) -> Any:
    """The best experts by sigmoid(x) + addNum of the best groups; experts may stand for several copies of themselves.

    As in the kernel, experts of groups that are not chosen count as 0, and rows take the copies in turn.
    """
    scores = sigmoid(x)
    ranked = scores + add_num
    ranked = ranked * _of_group(_chosen_groups(ranked, group_num, group_topk, top_n), x.shape[1])
    experts = _best(ranked, top_k)
    y = _scores_of(scores, experts)
    if is_norm:
        y = y / np.sum(y, -1, keepdims=True) * np.float32(scale)
    if enable_expert_mapping and mapping_num is not None and mapping_table is not None:
        copies = mapping_num[experts]
        turn = np.where(copies == 0, 0, np.arange(len(x))[:, None] % np.maximum(copies, 1))
        check_range("mappingNum", turn, 0, mapping_table.shape[1])
        experts = mapping_table[experts, turn]
    return y, experts
