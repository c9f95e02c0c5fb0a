"""FlashAttentionScore and its gradient in all versions: padded sequences, packed ones (TND), and both."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, Optional

import numpy as np

from ascend_aclnn.core import hifloat8
from ascend_aclnn.numerics import Array, DataError
from ascend_aclnn.reference._named import NamedArguments, reference_by_name
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


def _whole(args: NamedArguments, key: Array, bias: str) -> Attention:
    return attention_of(
        args["query"],
        key,
        args["value"],
        args[bias],
        args["dropMask"],
        args["attenMask"],
        args["prefix"],
        (args["qStartIdx"], args["kvStartIdx"]),
        args["scaleValue"],
        args["keepProb"],
        args["preTokens"],
        args["nextTokens"],
        args["headNum"],
        args["inputLayout"],
        args["sparseMode"],
        args["pseType"],
    )


@reference_by_name("aclnnFlashAttentionScore", "aclnnFlashAttentionScoreV2", "aclnnFlashAttentionScoreV3")
def flash_attention_score(args: NamedArguments) -> dict[str, Array]:
    """softmax(mask((query key^T + bias) scale)) value, with dropout of the probabilities and, from V3 on, sinks."""
    attention = _whole(args, args["key"], "realShift")
    layout, sink = args["inputLayout"], args["sink"]
    row_max, row_sum, _, output = forward(attention, "BNSD")
    if sink is not None:
        new_max, new_sum, new_output = with_sink(sink, *(x.swapaxes(1, 2) for x in (row_max, row_sum, output)))
        row_max, row_sum, output = (x.swapaxes(1, 2) for x in (new_max, new_sum, new_output))
    return {"softmaxMaxOut": row_max, "softmaxSumOut": row_sum, "attentionOutOut": in_layout(output, layout)}


@reference_by_name("aclnnFlashAttentionScoreGrad", "aclnnFlashAttentionScoreGradV2", "aclnnFlashAttentionScoreGradV3")
def flash_attention_score_grad(args: NamedArguments) -> dict[str, Any]:
    """Gradients of query, key, value, bias and sink; probabilities come from the maxima and sums of the forward pass."""
    attention = _whole(args, args["keyIn"], "pseShift")
    layout, heads, sink = args["inputLayout"], args["headNum"], args["sinkIn"]
    statistics = args["softmaxMax"], args["softmaxSum"]
    dq, dk, dv, dbias = backward(attention, args["dy"], *statistics, args["attentionIn"], layout, heads)
    results = {"dqOut": dq, "dkOut": dk, "dvOut": dv, "dpseOut": dbias}
    if sink is not None:
        grad, output = (heads_first(args[name], layout, heads) for name in ("dy", "attentionIn"))
        operands = (x.swapaxes(1, 2) for x in (*statistics, grad, output))
        results["dsinkOut"] = sink_gradient(sink, *operands)
    return results


# ------------------------------------------------------------------------------------------------- packed sequences


class _Sequence(NamedTuple):
    """One sequence: its tokens, and what of the bias and of the dropout's bits belongs to it."""

    number: int
    queries: slice
    keys: slice
    first_score: int  # where its scores begin among those of all sequences, head by head

    @property
    def shape(self) -> tuple[int, int]:
        return self.queries.stop - self.queries.start, self.keys.stop - self.keys.start


def _parts(args: NamedArguments, heads: int) -> Iterator[_Sequence]:
    """The sequences, from their running totals."""
    ends, key_ends = args["actualSeqQLen"] or (), args["actualSeqKvLen"] or ()
    if len(ends) != len(key_ends):
        raise DataError("actualSeqKvLenOptional", f"has {len(key_ends)} items; it must have {len(ends)}")
    score, start, key_start = 0, 0, 0
    for number, (end, key_end) in enumerate(zip(ends, key_ends)):
        yield _Sequence(number, slice(start, end), slice(key_start, key_end), score)
        score += heads * (end - start) * (key_end - key_start)
        start, key_start = end, key_end


def _bias(args: NamedArguments, part: _Sequence, heads: int, name: str) -> Optional[Array]:
    """The bias of one sequence: slopes, a piece of a long row, or a matrix for all."""
    values: Optional[Array] = args[name]
    if values is None or values.size == 0:
        return None
    queries, keys = part.shape
    if args["pseType"] in SLOPE_TYPES:
        return values[part.number][None] if values.ndim == 2 else values
    if values.ndim == 1:
        return values[part.first_score : part.first_score + heads * queries * keys].reshape(1, heads, queries, keys)
    if values.shape[2] < queries:
        raise DataError(
            name + "Optional", f"has shape {values.shape}: a bias of the last rows only is not computed here"
        )
    matrix: Array = values[part.number if len(values) > 1 else 0]
    return matrix[None, :, :queries, :keys]


def _mask(args: NamedArguments, part: _Sequence) -> Optional[Array]:
    mask: Optional[Array] = args["attenMask"]
    if mask is None or mask.ndim < 2:
        return mask
    queries, keys = part.shape
    if mask.ndim == 4:
        mask = mask[part.number if len(mask) > 1 else 0]
    return mask[..., :queries, :keys]


def _drop_mask(args: NamedArguments, part: _Sequence, heads: int) -> Optional[Array]:
    """The dropout bits of one sequence."""
    bits: Optional[Array] = args["dropMask"]
    if bits is None or bits.size == 0:
        return None
    count = heads * part.shape[0] * part.shape[1]
    first = part.first_score
    some = np.unpackbits(bits.reshape(-1).view(np.uint8)[first // 8 : -(-(first + count) // 8)], bitorder="little")
    return np.packbits(some[first % 8 : first % 8 + count], bitorder="little")


def _attention(args: NamedArguments, part: _Sequence, query: Array, key: Array, value: Array, bias: str) -> Attention:
    heads = query.shape[1]
    prefix = args["prefix"]
    return attention_of(
        query[None, part.queries],
        key[None, part.keys],
        value[None, part.keys],
        _bias(args, part, heads, bias),
        _drop_mask(args, part, heads),
        _mask(args, part),
        prefix[part.number : part.number + 1] if prefix else None,
        (args["qStartIdx"], args["kvStartIdx"]),
        args["scaleValue"],
        args["keepProb"],
        args["preTokens"],
        args["nextTokens"],
        heads,
        "BSND",
        args["sparseMode"],
        args["pseType"],
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
def flash_attention_var_len_score(args: NamedArguments) -> dict[str, Array]:
    """softmax(mask((query key^T + bias) scale)) value, for each sequence."""
    query, key = _joined(args["query"], args["queryRope"]), _joined(args["key"], args["keyRope"])
    value = args["value"]
    output = np.zeros((*query.shape[:2], value.shape[2]), np.float32)
    row_max = np.zeros((*query.shape[:2], COPIES), np.float32)
    row_sum = np.zeros_like(row_max)
    for part in _parts(args, query.shape[1]):
        part_max, part_sum, _, part_output = forward(_attention(args, part, query, key, value, "realShift"), "BSND")
        row_max[part.queries], row_sum[part.queries] = part_max[0].swapaxes(0, 1), part_sum[0].swapaxes(0, 1)
        output[part.queries] = part_output[0]
    if args["sink"] is not None:
        row_max, row_sum, output = with_sink(args["sink"], row_max, row_sum, output)
    return {"softmaxMaxOut": row_max, "softmaxSumOut": row_sum, "attentionOutOut": output}


@reference_by_name(
    "aclnnFlashAttentionUnpaddingScoreGrad",
    "aclnnFlashAttentionUnpaddingScoreGradV2",
    "aclnnFlashAttentionUnpaddingScoreGradV3",
    "aclnnFlashAttentionUnpaddingScoreGradV4",
    "aclnnFlashAttentionUnpaddingScoreGradV5",
)
def flash_attention_unpadding_score_grad(args: NamedArguments) -> dict[str, Any]:
    query, key = _joined(args["query"], args["queryRope"]), _joined(args["keyIn"], args["keyInRope"])
    value, grad = args["value"], args["dy"]
    dq, dk, dv = (np.zeros(x.shape, np.float32) for x in (query, key, value))
    bias = args["pseShift"]
    dbias = None
    if bias is not None and args["pseType"] not in SLOPE_TYPES:
        dbias = np.zeros(bias.shape, np.float32)
    statistics = [args["softmaxMax"], args["softmaxSum"]]
    for part in _parts(args, query.shape[1]):
        attention = _attention(args, part, query, key, value, "pseShift")
        part_statistics = [None if s is None else s[part.queries].swapaxes(0, 1)[None] for s in statistics]
        output = None if args["attentionIn"] is None else args["attentionIn"][None, part.queries]
        row_max, row_sum = part_statistics
        gradients = backward(attention, grad[None, part.queries], row_max, row_sum, output, "BSND", query.shape[1])
        dq[part.queries], dk[part.keys], dv[part.keys] = gradients[0][0], gradients[1][0], gradients[2][0]
        if dbias is not None and gradients[3] is not None:
            _add_bias(dbias, gradients[3], part)
    wide, wide_key = args["query"].shape[2], args["keyIn"].shape[2]
    results = {"dqOut": dq[..., :wide], "dkOut": dk[..., :wide_key], "dvOut": dv, "dpseOut": dbias}
    if args["queryRope"] is not None and args["queryRope"].size:
        results |= {"dqRopeOut": dq[..., wide:], "dkRopeOut": dk[..., wide_key:]}
    if args["sinkIn"] is not None:
        operands = (args["sinkIn"], *statistics, grad, args["attentionIn"])
        results["dsinkOut"] = sink_gradient(*operands)
    return results


def _add_bias(dbias: Array, part_grad: Array, part: _Sequence) -> None:
    queries, keys = part.shape
    if dbias.ndim == 1:
        dbias[part.first_score : part.first_score + part_grad.size] = part_grad.reshape(-1)
    else:
        dbias[part.number if len(dbias) > 1 else 0, :, :queries, :keys] += part_grad[0]


# --------------------------------------------------------------------------------------------------- one version for both


def _drawn_dropout(call: Any) -> Optional[str]:
    bits = call["dropMaskOptional"]
    if call["keepProb"] < 1 and (bits is None or bits.size == 0):
        return "a dropout mask drawn from seed and offset has no reference on the NumPy backend; pass drop_mask"
    return None


_SCALED_TOKENS = {"Q": 128, "K": 256, "V": 512}  # tokens with one scale, of queries, keys and values


def _dequantised(args: NamedArguments, name: str, heads: int, scale: str) -> Array:
    """Heads first (batch, heads, tokens, width), restored by scales (batch, heads, blocks, 1)."""
    x = heads_first(args[name], args["inputLayout"], heads)
    factors = args[f"dScale{scale}"]
    if factors is None or factors.size == 0:
        return x
    return np.asarray(x * np.repeat(factors, _SCALED_TOKENS[scale], 2)[:, :, : x.shape[2]])


def _as_bnsd(args: NamedArguments, key: str, ropes: tuple[str, str]) -> NamedArguments:
    """The same call in one layout: queries, keys and values with heads first, dequantised, their rotated parts joined."""
    layout, heads = args["inputLayout"], args["headNum"]
    query = _dequantised(args, "query", heads, "Q")
    shared = args[key].shape[2] // max(1, query.shape[3]) if layout in ("BSH", "SBH") else 0
    converted = NamedArguments(args)
    converted.operator = args.operator
    rotated = [args[name] for name in ropes]
    parts = [x if x is None or not x.size else heads_first(x, layout, n) for x, n in zip(rotated, (heads, shared))]
    converted["query"], converted[key] = (
        _joined(query, parts[0]),
        _joined(_dequantised(args, key, shared, "K"), parts[1]),
    )
    converted["value"] = _dequantised(args, "value", shared, "V")
    converted["inputLayout"] = "BNSD"
    return converted


@reference_by_name("aclnnFlashAttentionScoreV4", unsupported=_drawn_dropout)
def flash_attention_score_v4(args: NamedArguments) -> dict[str, Any]:
    """Sequences of one length or several, with rotated parts, sinks, and operands of 8 bits."""
    layout = args["inputLayout"]
    results: dict[str, Any]
    if layout == "TND":
        results = flash_attention_var_len_score(args)
        return results
    results = flash_attention_score(_as_bnsd(args, "key", ("queryRope", "keyRope")))
    return {**results, "attentionOutOut": in_layout(results["attentionOutOut"], layout)}


@reference_by_name("aclnnFlashAttentionScoreGradV4", unsupported=_drawn_dropout)
def flash_attention_score_grad_v4(args: NamedArguments) -> dict[str, Any]:
    """Of the same: queries, keys, values, rotated parts, bias and sinks."""
    results: dict[str, Any]
    layout, heads = args["inputLayout"], args["headNum"]
    if layout == "TND":
        args["keyInRope"] = args["keyRope"]
        results = flash_attention_unpadding_score_grad(args)
        return results
    converted = _as_bnsd(args, "keyIn", ("queryRope", "keyRope"))
    width = converted["query"].shape[3] - (0 if args["queryRope"] is None else args["queryRope"].shape[-1])
    if layout in ("BSH", "SBH") and args["queryRope"] is not None:
        width = converted["query"].shape[3] - args["queryRope"].shape[-1] // heads
    for name, scale in (("dy", "Dy"), ("attentionIn", "O")):
        x = heads_first(args[name], layout, heads)
        factor = args[f"dScale{scale}"]
        converted[name] = x if factor is None or factor.size == 0 else x * factor.reshape(-1)[0]
    results = flash_attention_score_grad(converted)
    for name, rope in (("dq", "queryRope"), ("dk", "keyRope")):
        whole = results[f"{name}Out"]
        results[f"{name}Out"] = in_layout(whole[..., :width], layout)
        if args[rope] is not None and args[rope].size:
            results[f"{name}RopeOut"] = in_layout(whole[..., width:], layout)
    results["dvOut"] = in_layout(results["dvOut"], layout)
    return results


@reference_by_name("aclnnQuantFlashAttentionScore")
def quant_flash_attention_score(args: NamedArguments) -> dict[str, Any]:
    """Operands of HIFLOAT8, dequantised first; the device quantises the probabilities between its products."""
    args |= {"keepProb": 1.0, "pseType": 1, "sparseMode": 0}
    layout = args["inputLayout"]
    results = flash_attention_score(_as_bnsd(args, "key", ("queryRope", "keyRope")))
    statistics = (results[name][..., :1] for name in ("softmaxMaxOut", "softmaxSumOut"))
    row_max, row_sum = statistics
    attended = in_layout(results["attentionOutOut"], layout)
    return {"softmaxMaxOut": row_max, "softmaxSumOut": row_sum, "attentionOutOut": attended}


@reference_by_name("aclnnQuantFlashAttentionScoreGrad")
def quant_flash_attention_score_grad(args: NamedArguments) -> dict[str, Array]:
    """Gradients of operands of HIFLOAT8 (batch, tokens, heads, width), of which 512 tokens of a head have one scale.

    Between the products the probabilities times pScale are HIFLOAT8, and so are their derivatives times dsScale.
    """
    heads = args["headNum"]
    shared = args["keyIn"].shape[2]
    tensors, scales = {}, {}
    for name, letter, count in (
        ("query", "Q", heads),
        ("keyIn", "K", shared),
        ("value", "V", shared),
        ("dy", "Dy", heads),
    ):
        x = heads_first(args[name], "BSND", count)
        factor = np.repeat(args[f"dScale{letter}"], 512, 2)[:, :, : x.shape[2]]
        if count == shared != heads:
            x, factor = (np.repeat(a, heads // shared, 1) for a in (x, factor))
        tensors[name], scales[name] = x, factor
    query, key, value, dy = (tensors[name] * scales[name] for name in ("query", "keyIn", "value", "dy"))
    p_scale, ds_scale = (np.float32(args[name].reshape(())) for name in ("pScale", "dsScale"))
    scale = np.float32(args["scaleValue"])
    row_max, row_sum = args["softmaxMax"][..., :1], args["softmaxSum"][..., :1]
    probabilities = np.exp((query @ key.swapaxes(-1, -2)) * scale - row_max) / np.where(row_sum == 0, 1, row_sum)
    delta = (dy * heads_first(args["attentionIn"], "BSND", heads)).sum(-1, keepdims=True)
    derivative = probabilities * (dy @ value.swapaxes(-1, -2) - delta)
    weights, slopes = (_hifloat8(x) for x in (probabilities * p_scale, derivative * ds_scale))
    results = {
        "dqOut": slopes @ key * (scale / ds_scale),
        "dkOut": slopes.swapaxes(-1, -2) @ query * (scale / ds_scale),
        "dvOut": weights.swapaxes(-1, -2) @ dy / p_scale,
    }
    for name in ("dkOut", "dvOut"):  # of all heads that share them
        whole = results[name]
        results[name] = whole.reshape(len(whole), shared, heads // shared, *whole.shape[2:]).sum(2)
    return {name: in_layout(x, "BSND") for name, x in results.items()}


def _hifloat8(x: Array) -> Array:
    return hifloat8.decode(hifloat8.encode(np.clip(x, -hifloat8.LARGEST, hifloat8.LARGEST).astype(np.float32)))
