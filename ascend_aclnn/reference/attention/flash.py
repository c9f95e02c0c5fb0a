"""FlashAttentionScore and its gradient in all versions: padded sequences, packed ones (TND), and both."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, Optional

import numpy as np

from ascend_aclnn.numerics import Array, DataError
from ascend_aclnn.reference._named import Given, reference_by_name
from ascend_aclnn.reference.attention._dense import (
    COPIES,
    SLOPE_TYPES,
    Attention,
    attention_of,
    backward,
    forward,
    heads_first,
    in_layout,
    sink_gradient,
    with_sink,
)

# ------------------------------------------------------------------------------------------------- padded sequences


def _whole(given: Given, key: Array, bias: str) -> Attention:
    return attention_of(
        given["query"],
        key,
        given["value"],
        given[bias],
        given["dropMask"],
        given["attenMask"],
        given["prefix"],
        (given["qStartIdx"], given["kvStartIdx"]),
        given["scaleValue"],
        given["keepProb"],
        given["preTokens"],
        given["nextTokens"],
        given["headNum"],
        given["inputLayout"],
        given["sparseMode"],
        given["pseType"],
    )


@reference_by_name("aclnnFlashAttentionScore", "aclnnFlashAttentionScoreV2", "aclnnFlashAttentionScoreV3")
def flash_attention_score(given: Given) -> dict[str, Array]:
    """softmax(mask((query key^T + bias) scale)) value, with dropout of the probabilities and, from V3 on, sinks."""
    attention = _whole(given, given["key"], "realShift")
    layout, sink = given["inputLayout"], given["sink"]
    highest, total, _, output = forward(attention, "BNSD")
    if sink is not None:
        most, sums, made = with_sink(sink, *(x.swapaxes(1, 2) for x in (highest, total, output)))
        highest, total, output = (x.swapaxes(1, 2) for x in (most, sums, made))
    return {"softmaxMaxOut": highest, "softmaxSumOut": total, "attentionOutOut": in_layout(output, layout)}


@reference_by_name("aclnnFlashAttentionScoreGrad", "aclnnFlashAttentionScoreGradV2", "aclnnFlashAttentionScoreGradV3")
def flash_attention_score_grad(given: Given) -> dict[str, Any]:
    """Gradients of query, key, value, bias and sink; probabilities come from the maxima and sums of the forward pass."""
    attention = _whole(given, given["keyIn"], "pseShift")
    layout, heads, sink = given["inputLayout"], given["headNum"], given["sinkIn"]
    statistics = given["softmaxMax"], given["softmaxSum"]
    dq, dk, dv, dbias = backward(attention, given["dy"], *statistics, layout, heads)
    results = {"dqOut": dq, "dkOut": dk, "dvOut": dv, "dpseOut": dbias}
    if sink is not None:
        grad, output = (heads_first(given[name], layout, heads) for name in ("dy", "attentionIn"))
        taken = (x.swapaxes(1, 2) for x in (*statistics, grad, output))
        results["dsinkOut"] = sink_gradient(sink, *taken)
    return results


# ------------------------------------------------------------------------------------------------- packed sequences


class _Part(NamedTuple):
    """One sequence: its tokens, and what of the bias and of the dropout's bits belongs to it."""

    number: int
    queries: slice
    keys: slice
    first_score: int  # where its scores begin among those of all sequences, head by head

    @property
    def shape(self) -> tuple[int, int]:
        return self.queries.stop - self.queries.start, self.keys.stop - self.keys.start


def _parts(given: Given, heads: int) -> Iterator[_Part]:
    """The sequences, by their running totals."""
    ends, key_ends = given["actualSeqQLen"] or (), given["actualSeqKvLen"] or ()
    if len(ends) != len(key_ends):
        raise DataError("actualSeqKvLenOptional", f"has {len(key_ends)} items; it must have {len(ends)}")
    score, start, key_start = 0, 0, 0
    for number, (end, key_end) in enumerate(zip(ends, key_ends)):
        yield _Part(number, slice(start, end), slice(key_start, key_end), score)
        score += heads * (end - start) * (key_end - key_start)
        start, key_start = end, key_end


def _bias(given: Given, part: _Part, heads: int, name: str) -> Optional[Array]:
    """The bias of one sequence: slopes, a piece of a long row, or a matrix for all."""
    values: Optional[Array] = given[name]
    if values is None or values.size == 0:
        return None
    queries, keys = part.shape
    if given["pseType"] in SLOPE_TYPES:
        return values[part.number][None] if values.ndim == 2 else values
    if values.ndim == 1:
        return values[part.first_score : part.first_score + heads * queries * keys].reshape(1, heads, queries, keys)
    if values.shape[2] < queries:
        raise DataError(
            name + "Optional", f"has shape {values.shape}: a bias of the last rows only is not computed here"
        )
    own: Array = values[part.number if len(values) > 1 else 0]
    return own[None, :, :queries, :keys]


def _mask(given: Given, part: _Part) -> Optional[Array]:
    mask: Optional[Array] = given["attenMask"]
    if mask is None or mask.ndim < 2:
        return mask
    queries, keys = part.shape
    if mask.ndim == 4:
        mask = mask[part.number if len(mask) > 1 else 0]
    return mask[..., :queries, :keys]


def _kept(given: Given, part: _Part, heads: int) -> Optional[Array]:
    """The bits of one sequence."""
    bits: Optional[Array] = given["dropMask"]
    if bits is None or bits.size == 0:
        return None
    count = heads * part.shape[0] * part.shape[1]
    first = part.first_score
    some = np.unpackbits(bits.reshape(-1).view(np.uint8)[first // 8 : -(-(first + count) // 8)], bitorder="little")
    return np.packbits(some[first % 8 : first % 8 + count], bitorder="little")


def _attention(given: Given, part: _Part, query: Array, key: Array, value: Array, bias: str) -> Attention:
    heads = query.shape[1]
    prefix = given["prefix"]
    return attention_of(
        query[None, part.queries],
        key[None, part.keys],
        value[None, part.keys],
        _bias(given, part, heads, bias),
        _kept(given, part, heads),
        _mask(given, part),
        prefix[part.number : part.number + 1] if prefix else None,
        (given["qStartIdx"], given["kvStartIdx"]),
        given["scaleValue"],
        given["keepProb"],
        given["preTokens"],
        given["nextTokens"],
        heads,
        "BSND",
        given["sparseMode"],
        given["pseType"],
    )


def _joined(x: Array, rotated: Optional[Array]) -> Array:
    return x if rotated is None or rotated.size == 0 else np.concatenate([x, rotated], -1)


@reference_by_name(
    "aclnnFlashAttentionVarLenScore",
    "aclnnFlashAttentionVarLenScoreV2",
    "aclnnFlashAttentionVarLenScoreV3",
    "aclnnFlashAttentionVarLenScoreV4",
    "aclnnFlashAttentionVarLenScoreV5",
)
def flash_attention_var_len_score(given: Given) -> dict[str, Array]:
    """softmax(mask((query key^T + bias) scale)) value, for each sequence."""
    query, key = _joined(given["query"], given["queryRope"]), _joined(given["key"], given["keyRope"])
    value = given["value"]
    output = np.zeros((*query.shape[:2], value.shape[2]), np.float32)
    highest = np.zeros((*query.shape[:2], COPIES), np.float32)
    total = np.zeros_like(highest)
    for part in _parts(given, query.shape[1]):
        most, sums, _, made = forward(_attention(given, part, query, key, value, "realShift"), "BSND")
        highest[part.queries], total[part.queries] = most[0].swapaxes(0, 1), sums[0].swapaxes(0, 1)
        output[part.queries] = made[0]
    if given["sink"] is not None:
        highest, total, output = with_sink(given["sink"], highest, total, output)
    return {"softmaxMaxOut": highest, "softmaxSumOut": total, "attentionOutOut": output}


@reference_by_name(
    "aclnnFlashAttentionUnpaddingScoreGrad",
    "aclnnFlashAttentionUnpaddingScoreGradV2",
    "aclnnFlashAttentionUnpaddingScoreGradV3",
    "aclnnFlashAttentionUnpaddingScoreGradV4",
    "aclnnFlashAttentionUnpaddingScoreGradV5",
)
def flash_attention_unpadding_score_grad(given: Given) -> dict[str, Any]:
    query, key = _joined(given["query"], given["queryRope"]), _joined(given["keyIn"], given["keyInRope"])
    value, grad = given["value"], given["dy"]
    dq, dk, dv = (np.zeros(x.shape, np.float32) for x in (query, key, value))
    bias = given["pseShift"]
    dbias = None
    if bias is not None and given["pseType"] not in SLOPE_TYPES:
        dbias = np.zeros(bias.shape, np.float32)
    statistics = [given["softmaxMax"], given["softmaxSum"]]
    for part in _parts(given, query.shape[1]):
        attention = _attention(given, part, query, key, value, "pseShift")
        own = [None if s is None else s[part.queries].swapaxes(0, 1)[None] for s in statistics]
        made = backward(attention, grad[None, part.queries], own[0], own[1], "BSND", query.shape[1])
        dq[part.queries], dk[part.keys], dv[part.keys] = made[0][0], made[1][0], made[2][0]
        if dbias is not None and made[3] is not None:
            _add_bias(dbias, made[3], part)
    wide, wide_key = given["query"].shape[2], given["keyIn"].shape[2]
    results = {"dqOut": dq[..., :wide], "dkOut": dk[..., :wide_key], "dvOut": dv, "dpseOut": dbias}
    if given["queryRope"] is not None and given["queryRope"].size:
        results |= {"dqRopeOut": dq[..., wide:], "dkRopeOut": dk[..., wide_key:]}
    if given["sinkIn"] is not None:
        taken = (given["sinkIn"], *statistics, grad, given["attentionIn"])
        results["dsinkOut"] = sink_gradient(*taken)
    return results


def _add_bias(dbias: Array, made: Array, part: _Part) -> None:
    queries, keys = part.shape
    if dbias.ndim == 1:
        dbias[part.first_score : part.first_score + made.size] = made.reshape(-1)
    else:
        dbias[part.number if len(dbias) > 1 else 0, :, :queries, :keys] += made[0]


# --------------------------------------------------------------------------------------------------- one version for both


def _drawn_dropout(call: Any) -> Optional[str]:
    bits = call["dropMaskOptional"]
    if call["keepProb"] < 1 and (bits is None or bits.size == 0):
        return "a dropout mask drawn from seed and offset has no reference on the NumPy backend; pass drop_mask"
    return None


_SCALED_TOKENS = {"Q": 128, "K": 256, "V": 512}  # tokens with one scale, of queries, keys and values


def _dequantised(given: Given, name: str, heads: int, scale: str) -> Array:
    """Heads first (batch, heads, tokens, width), restored by scales (batch, heads, blocks, 1)."""
    x = heads_first(given[name], given["inputLayout"], heads)
    factors = given[f"dScale{scale}"]
    if factors is None or factors.size == 0:
        return x
    return np.asarray(x * np.repeat(factors, _SCALED_TOKENS[scale], 2)[:, :, : x.shape[2]])


def _as_bnsd(given: Given, key: str, ropes: tuple[str, str]) -> Given:
    """The same call in one layout: queries, keys and values with heads first, dequantised, their rotated parts joined."""
    layout, heads = given["inputLayout"], given["headNum"]
    query = _dequantised(given, "query", heads, "Q")
    shared = given[key].shape[2] // max(1, query.shape[3]) if layout in ("BSH", "SBH") else 0
    made = Given(given)
    made.operator = given.operator
    rotated = [given[name] for name in ropes]
    parts = [x if x is None or not x.size else heads_first(x, layout, n) for x, n in zip(rotated, (heads, shared))]
    made["query"], made[key] = _joined(query, parts[0]), _joined(_dequantised(given, key, shared, "K"), parts[1])
    made["value"] = _dequantised(given, "value", shared, "V")
    made["inputLayout"] = "BNSD"
    return made


@reference_by_name("aclnnFlashAttentionScoreV4", unsupported=_drawn_dropout)
def flash_attention_score_v4(given: Given) -> dict[str, Any]:
    """Sequences of one length or several, with rotated parts, sinks, and operands of 8 bits."""
    layout = given["inputLayout"]
    results: dict[str, Any]
    if layout == "TND":
        results = flash_attention_var_len_score(given)
        return results
    results = flash_attention_score(_as_bnsd(given, "key", ("queryRope", "keyRope")))
    return {**results, "attentionOutOut": in_layout(results["attentionOutOut"], layout)}


@reference_by_name("aclnnFlashAttentionScoreGradV4", unsupported=_drawn_dropout)
def flash_attention_score_grad_v4(given: Given) -> dict[str, Any]:
    """Of the same: queries, keys, values, rotated parts, bias and sinks."""
    results: dict[str, Any]
    layout, heads = given["inputLayout"], given["headNum"]
    if layout == "TND":
        given["keyInRope"] = given["keyRope"]
        results = flash_attention_unpadding_score_grad(given)
        return results
    made = _as_bnsd(given, "keyIn", ("queryRope", "keyRope"))
    width = made["query"].shape[3] - (0 if given["queryRope"] is None else given["queryRope"].shape[-1])
    if layout in ("BSH", "SBH") and given["queryRope"] is not None:
        width = made["query"].shape[3] - given["queryRope"].shape[-1] // heads
    for name, scale in (("dy", "Dy"), ("attentionIn", "O")):
        x = heads_first(given[name], layout, heads)
        factor = given[f"dScale{scale}"]
        made[name] = x if factor is None or factor.size == 0 else x * factor.reshape(-1)[0]
    results = flash_attention_score_grad(made)
    for name, rope in (("dq", "queryRope"), ("dk", "keyRope")):
        whole = results[f"{name}Out"]
        results[f"{name}Out"] = in_layout(whole[..., :width], layout)
        if given[rope] is not None and given[rope].size:
            results[f"{name}RopeOut"] = in_layout(whole[..., width:], layout)
    results["dvOut"] = in_layout(results["dvOut"], layout)
    return results


@reference_by_name("aclnnQuantFlashAttentionScore")
def quant_flash_attention_score(given: Given) -> dict[str, Any]:
    """Operands of HIFLOAT8, dequantised first; the device quantises the probabilities between its products."""
    given |= {"keepProb": 1.0, "pseType": 1, "sparseMode": 0}
    layout = given["inputLayout"]
    results = flash_attention_score(_as_bnsd(given, "key", ("queryRope", "keyRope")))
    statistics = (results[name][..., :1] for name in ("softmaxMaxOut", "softmaxSumOut"))
    row_max, row_sum = statistics
    attended = in_layout(results["attentionOutOut"], layout)
    return {"softmaxMaxOut": row_max, "softmaxSumOut": row_sum, "attentionOutOut": attended}
