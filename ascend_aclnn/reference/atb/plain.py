"""ATB's operations on rows: rotary positions, groups of experts, products, normalisation and quantisation."""

from __future__ import annotations

import numpy as np

from ascend_aclnn.numerics import Array, DataError
from ascend_aclnn.reference._rows import check_range
from ascend_aclnn.reference.atb._operations import Arguments, operation_reference


def rotated(x: Array, cos: Array, sin: Array, coefficient: int) -> Array:
    """x cos + (x turned by a quarter) sin of heads (tokens, heads, width).

    A head is ``coefficient // 2`` parts; in each the second half, negated, comes before the first half.
    """
    halves = x.reshape(*x.shape[:2], coefficient // 2, 2, -1)
    turned = np.stack([-halves[..., 1, :], halves[..., 0, :]], axis=-2).reshape(x.shape)
    return np.asarray(x * cos[:, None] + turned * sin[:, None])


@operation_reference("Rope")
def rope(args: Arguments) -> tuple[Array, Array]:
    """Tokens (tokens, heads * width), or (batch, tokens, heads, width); cos and sin are (tokens, width)."""
    cos, sin = args["cos"], args["sin"]
    results = []
    for x in (args["query"], args["key"]):
        heads = x.reshape(len(cos), -1, cos.shape[1])
        results.append(rotated(heads, cos, sin, args["rotaryCoeff"]).reshape(x.shape))
    return results[0], results[1]


def _group_values(x: Array, groups: int, count: int) -> Array:
    """The sum of the largest so many of each group (tokens, groups)."""
    parts = np.sort(x.reshape(len(x), groups, -1), axis=-1)
    return np.asarray(parts[..., parts.shape[2] - count :].sum(-1))


def _best(values: Array, count: int) -> Array:
    """Indices of the largest, in falling order; of equal ones the first."""
    return np.argsort(-values, axis=-1, kind="stable")[:, :count]


def _without_other_groups(x: Array, values: Array, count: int) -> Array:
    """Zero outside the groups with the largest values."""
    chosen = np.zeros(values.shape, bool)
    np.put_along_axis(chosen, _best(values, count), True, axis=1)
    return np.where(np.repeat(chosen, x.shape[1] // values.shape[1], axis=1), x, np.float32(0))


@operation_reference("GroupTopk")
def group_topk(args: Arguments) -> Array:
    """Tokens (tokens, experts) with zeros outside of the k groups that have the largest element, or the largest n in sum."""
    x = args["self"]
    values = _group_values(x, args["groupNum"], args["n"] if args["groupMultiFlag"] == 1 else 1)
    return _without_other_groups(x, values, args["k"])


@operation_reference("FusedAddTopkDiv")
def fused_add_topk_div(args: Arguments) -> tuple[Array, Array]:
    """Experts by sigmoid(x) + addNum, in the groups of which the largest n have the largest sums; and their sigmoids."""
    weights = 1 / (1 + np.exp(-args["x"].astype(np.float32)))
    biased = weights + args["addNum"]
    values = _group_values(biased, args["groupNum"], args["n"])
    indices = _best(_without_other_groups(biased, values, args["groupTopk"]), args["k"])
    y = np.take_along_axis(weights, indices, axis=1)
    if args["isNorm"]:
        y = y / y.sum(1, keepdims=True) * np.float32(args["scale"])
    if args["enableExpertMapping"]:
        counts = args["mappingNum"].reshape(-1)[indices].astype(np.int64)
        copy = np.arange(len(y))[:, None] % np.maximum(counts, 1)
        check_range("mappingNum", copy.reshape(-1), 0, args["mappingTable"].shape[1])
        indices = args["mappingTable"][indices, copy]
    return y, indices


@operation_reference("Linear")
def linear(args: Arguments) -> Array:
    """x @ weight, either of them transposed, with a bias, or added to what is there."""
    x, weight = args["x"], args["weight"]
    left = x.swapaxes(-1, -2) if args["transposeA"] else x
    right = weight.swapaxes(-1, -2) if args["transposeB"] else weight
    product = np.matmul(left, right)
    for added in (args["bias"], args["accum"]):
        if added is not None:
            product = product + added
    return np.asarray(product)


def _quantised(x: Array) -> Array:
    return np.clip(np.rint(x), -128, 127)


@operation_reference("Elewise")
def elewise(args: Arguments) -> Array:
    """x / scale + offset as INT8, a scale for each channel or one for all; the quotient is rounded to FLOAT16."""
    quotient = (args["x"] / args["scale"]).astype(np.float16).astype(np.float32)
    offset = args["offset"]
    return _quantised(quotient if offset is None else quotient + offset.astype(np.float32))


@operation_reference("RmsNorm")
def rms_norm(args: Arguments) -> Array:
    """x / rms(x) gamma; with INT8 also + beta, / scale + offset. A beta without elements that are not 0 changes nothing."""
    x = args["x"]
    gamma = args["gamma"].reshape(-1)
    if gamma.size != x.shape[-1]:
        raise DataError("gamma", f"has {gamma.size} elements; the rows have {x.shape[-1]}")
    norm = x / np.sqrt(np.square(x).mean(-1, keepdims=True) + np.float32(args["normEpsilon"])) * gamma
    if args["normQuantType"] == 0:
        return np.asarray(norm)
    scale, offset = (args[name].reshape(-1)[0] for name in ("scale", "offset"))
    return _quantised((norm + args["beta"].reshape(-1)) / scale + np.float32(offset))
