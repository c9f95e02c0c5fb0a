"""Lightning indexers: which keys each query attends to, their gradients, and the losses that train them.

A key's score for a query is the sum over heads of weight * relu(query @ key).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, Optional

import numpy as np

from ascend_aclnn.numerics import Array, DataError, widen
from ascend_aclnn.reference._named import NamedArguments, reference_by_name
from ascend_aclnn.reference._rows import check_range
from ascend_aclnn.reference.attention._blocks import Side, from_zero, joined, largest, seen_keys, side
from ascend_aclnn.reference.declare import reference

_CAUSAL = 3  # sparseMode, maskMode
_ELEMENTS = 1 << 22  # of a block of scores
_SMALLEST = np.float32(1e-8)  # below which the kernels take no logarithm


def _blocks(rows: int, heads: int, keys: int) -> Iterator[slice]:
    step = max(1, _ELEMENTS // max(1, heads * keys))
    for start in range(0, rows, step):
        yield slice(start, min(start + step, rows))


def _relu_products(query: Array, key: Array) -> Array:
    """relu(query @ key^T): rows, heads, keys."""
    return np.asarray(np.maximum(np.einsum("rnd,sd->rns", query, key, optimize=True), 0))


# --------------------------------------------------------------------------------------------------- choice of keys


class _Choice(NamedTuple):
    """One call of an indexer, in any version."""

    query: Array
    key: Array
    weights: Array
    queries: Side
    keys: Side
    top: int
    causal: bool
    ratio: int = 1
    residual: Optional[Array] = None
    offset: Optional[Array] = None

    def run(self) -> tuple[Array, Array]:
        """Indices and scores of the keys with the largest scores, in descending order; -1 and -inf where none is left."""
        lead = self.query.shape[:-2]
        indices = np.full((*lead, 1, self.top), -1, np.int32)
        values = np.full(indices.shape, -np.inf, np.float32)
        if len(self.queries) != len(self.keys):
            raise DataError("key", f"has {len(self.keys)} sequences; query has {len(self.queries)}")
        for number in range(len(self.queries)):
            where = self.queries.at(number)
            top = self._sequence(number, where)
            indices[where], values[where] = top[0][:, None], top[1][:, None]
        return indices, values

    def _sequence(self, number: int, where: Any) -> tuple[Array, Array]:
        query, weights = self.query[where], self.weights[where]
        key = self.keys.take(self.key, number)[:, 0]
        residual = int(self.residual[number]) if self.residual is not None and self.residual.size else 0
        seen = seen_keys(len(query), len(key), self.ratio, residual, self.causal)
        indices = np.full((len(query), self.top), -1, np.int32)
        values = np.full(indices.shape, -np.inf, np.float32)
        many = min(self.top, len(key))
        for rows in _blocks(len(query), query.shape[1], len(key)):
            scores = np.einsum("rns,rn->rs", _relu_products(query[rows], key), weights[rows])
            scores = np.where(np.arange(len(key)) < seen[rows, None], scores, -np.inf)
            order = largest(scores, many)
            there = np.arange(many) < seen[rows, None]
            first = 0 if self.offset is None else int(self.offset.reshape(-1)[number])
            indices[rows, :many] = np.where(there, order + first, -1)
            values[rows, :many] = np.where(there, np.take_along_axis(scores, order, -1), -np.inf)
        return indices, values


def _sides(args: NamedArguments) -> tuple[Side, Side]:
    """The sequences of the first versions: lengths, or in layout TND running totals without the 0."""
    names = "actualSeqLengthsQueryOptional", "actualSeqLengthsKeyOptional"
    sides = []
    for x, name, layout, table in (
        (args["query"], names[0], args["layoutQuery"], None),
        (args["key"], names[1], args["layoutKey"], args["blockTable"]),
    ):
        values = args[name[: -len("Optional")]]
        totals, used = (from_zero(values), None) if layout == "TND" else (None, values)
        sides.append(side(x, layout, (name, name), totals, used, table))
    return sides[0], sides[1]


@reference_by_name("aclnnLightningIndexer")
def lightning_indexer(args: NamedArguments) -> dict[str, Any]:
    """Top-k of sum over heads of weight * relu(query @ key); of equal scores the first keys."""
    operands = args["query"], args["key"], args["weights"]
    choice = _Choice(*operands, *_sides(args), args["sparseCount"], args["sparseMode"] == _CAUSAL)
    indices, values = choice.run()
    return {"sparseIndicesOut": indices, "sparseValuesOut": values if args["returnValues"] else None}


@reference_by_name("aclnnQuantLightningIndexer")
def quant_lightning_indexer(args: NamedArguments) -> dict[str, Array]:
    """The same with queries and keys that have one scale for each head of each token."""
    query = widen(args["query"]).astype(np.float32) * args["queryDequantScale"][..., None]
    key = widen(args["key"]).astype(np.float32) * args["keyDequantScale"][..., None]
    queries, keys = _sides(args)
    causal = args["sparseMode"] == _CAUSAL
    choice = _Choice(query, key, args["weights"], queries, keys, args["sparseCount"], causal)
    return {"out": choice.run()[0]}


def _new_sides(
    args: NamedArguments, query: str, key: str, layout_q: str, layout_k: str, names: tuple[str, ...]
) -> tuple[Side, Side]:
    """The sequences of the second versions: running totals from 0 on, and how many tokens are used."""
    cu_q, cu_k, used_q, used_k = (args[name] for name in names)
    short = [name + "Optional" for name in names]
    return (
        side(args[query], args[layout_q], (short[0], short[2]), cu_q, used_q),
        side(args[key], args[layout_k], (short[1], short[3]), cu_k, used_k, args["blockTable"]),
    )


_USED = ("cuSeqlensQ", "cuSeqlensK", "sequsedQ", "sequsedK")
_USED_OF_QUANT = ("cuSeqLensQ", "cuSeqLensK", "sequsedQ", "sequsedK")
_USED_OF_LOSS = ("cuSeqLensQ", "cuSeqLensK", "seqUsedQ", "seqUsedK")


@reference_by_name("aclnnLightningIndexerV2")
def lightning_indexer_v2(args: NamedArguments) -> dict[str, Any]:
    """The same for compressed keys too; metadata, which only shares out the work, changes nothing."""
    indices, values = _Choice(
        args["q"],
        args["k"],
        args["w"],
        *_new_sides(args, "q", "k", "layoutQ", "layoutK", _USED),
        args["topk"],
        args["maskMode"] == _CAUSAL,
        args["cmpRatio"],
        args["cmpResidualK"],
        args["outputIdxOffset"],
    ).run()
    return {"sparseIndices": indices, "sparseValues": values if args["returnValue"] else None}


def _dequantised(x: Array, scale: Array) -> Array:
    """With one scale for each head, or (FLOAT8_E8M0) one for each 32 elements of its last axis."""
    values = widen(x).astype(np.float32)
    if scale.ndim == x.ndim - 1:
        return values * scale[..., None]
    return np.asarray(values * np.repeat(scale.reshape(*x.shape[:-1], -1), 32, -1)[..., : x.shape[-1]])


@reference_by_name("aclnnQuantLightningIndexerV2")
def quant_lightning_indexer_v2(args: NamedArguments) -> dict[str, Any]:
    indices, values = _Choice(
        _dequantised(args["query"], args["queryDequantScale"]),
        _dequantised(args["key"], args["keyDequantScale"]),
        args["weights"],
        *_new_sides(args, "query", "key", "layoutQ", "layoutK", _USED_OF_QUANT),
        args["topk"],
        args["maskMode"] == _CAUSAL,
        args["cmpRatio"],
        args["cmpResidualK"],
        args["outputIdxOffset"],
    ).run()
    return {"sparseIndicesOut": indices, "sparseValuesOut": values if args["returnValue"] else None}


# --------------------------------------------------------------------------------------------------- gradients


class _ScoredKeys(NamedTuple):
    """The keys of one query that take part, and their scores."""

    products: Array  # relu(query @ key^T): heads, keys
    scores: Array  # keys

    @classmethod
    def of(cls, query: Array, key: Array, weights: Array) -> _ScoredKeys:
        products = np.maximum(query @ key.T, 0)
        return cls(products, weights @ products)

    def gradients(self, derivative: Array, query: Array, key: Array, weights: Array) -> tuple[Array, Array, Array]:
        """Gradients of query, key and weights, from the gradient of the scores."""
        inner = (self.products > 0) * weights[:, None] * derivative
        return inner @ key, inner.T @ query, self.products @ derivative


def _chosen(indices: Array, seen: int) -> Array:
    """The places of a row's chosen keys; indices below 0 stand for none."""
    places = np.flatnonzero(indices >= 0)
    check_range("sparseIndices", indices[places], 0, seen)
    return places


def _packed_sides(args: NamedArguments, query: str, key: str, names: tuple[str, str], layout: str) -> tuple[Side, Side]:
    """Running totals without 0 in layout TND; else the whole sequences."""
    packed = args[layout] == "TND"
    sides = [
        side(args[x], args[layout], (name + "Optional",) * 2, from_zero(args[name]) if packed else None)
        for x, name in zip((query, key), names)
    ]
    return sides[0], sides[1]


@reference_by_name("aclnnLightningIndexerGrad")
def lightning_indexer_grad(args: NamedArguments) -> dict[str, Array]:
    """Gradients of query, key and weights, from those of the chosen keys' scores (dy, shaped as sparseIndices)."""
    query, key, weights, indices = (args[n] for n in ("query", "key", "weights", "sparseIndices"))
    indices = indices.reshape(*weights.shape[:-1], -1)
    dy = args["dy"].reshape(*weights.shape[:-1], -1)
    dq, dk, dw = (np.zeros(x.shape, np.float32) for x in (query, key, weights))
    queries, keys = _packed_sides(args, "query", "key", ("actualSeqQLen", "actualSeqKvLen"), "inputLayout")
    for number in range(len(queries)):
        at, key_at = queries.at(number), keys.at(number)
        own_keys, own_dk = key[key_at][:, 0], dk[key_at]
        for row in range(queries.lengths[number]):
            places = _chosen(indices[at][row], len(own_keys))
            tokens = indices[at][row, places]
            row_of = query[at][row], own_keys[tokens], weights[at][row]
            gradients = _ScoredKeys.of(*row_of).gradients(dy[at][row, places], *row_of)
            dq[at][row], dw[at][row] = gradients[0], gradients[2]
            np.add.at(own_dk, (tokens, 0), gradients[1])
    return {"dqOut": dq, "dkOut": dk, "dweightsOut": dw}


@reference("aclnnLightningIndexerKLLoss")
def lightning_indexer_kl_loss(target: Array, probabilities: Array, eps: float, weight_type: Optional[str]) -> Array:
    """sum(weight * (log(max(P, eps)) - log(probabilities + eps))), where P is target over its sums."""
    small = np.float32(eps)
    target, probabilities = target.astype(np.float32), probabilities.astype(np.float32)
    share = target / (target.sum(-1, keepdims=True) + small)
    difference = np.log(np.maximum(share, small)) - np.log(probabilities + small)
    return np.asarray((difference * (target if weight_type == "logits" else share)).sum(dtype=np.float64)).reshape(1)


def _divergence(target: Array, predicted: Array) -> float:
    """The Kullback-Leibler divergence of two distributions; numbers below 1e-8 count as 1e-8."""
    target, predicted = np.maximum(target, _SMALLEST), np.maximum(predicted, _SMALLEST)
    return float((target * (np.log(target) - np.log(predicted))).sum(dtype=np.float64))


def _target(args: NamedArguments, where: Any, row: int, keys: Array, heads_of_keys: bool) -> Array:
    """The attention's probabilities of a query for some keys (keys, heads, width), over all of its heads."""
    query = joined(args["query"][where][row], None if args["queryRope"] is None else args["queryRope"][where][row])
    pattern = "nd,snd->ns" if heads_of_keys else "nd,sd->ns"
    scores = np.einsum(pattern, query, keys if heads_of_keys else keys[:, 0], optimize=True)
    row_max, row_sum = (_of_row(args, name, where, row) for name in ("softmaxMax", "softmaxSum"))
    weights = np.exp(scores * np.float32(args["scaleValue"]) - row_max[:, None]) / row_sum[:, None]
    return np.asarray(weights.sum(0) / np.float32(len(query)))


def _of_row(args: NamedArguments, name: str, where: Any, row: int) -> Array:
    """Statistics (batch, heads of keys, tokens, group), or (heads of keys, tokens, group), of one query: all heads."""
    values = args[name]
    if isinstance(where, tuple):
        return np.asarray(values[where[0], :, row].reshape(-1))
    return np.asarray(values[:, where.start + row].reshape(-1))


class _IndexerGradients:
    """The gradients of an indexer's operands; rows are added one by one."""

    def __init__(self, query: Array, key: Array, weights: Array) -> None:
        self.operands = query, key, weights
        self.gradients = [np.zeros(x.shape, np.float32) for x in self.operands]

    def add(self, at: Any, key_at: Any, row: int, tokens: Array, target: Array, lse: Optional[Array] = None) -> Array:
        """The derivative of the divergence is softmax(scores) - target. Returns that softmax.

        ``lse``: the logarithm of the scores' sum of exponentials, where the forward pass has saved it.
        """
        query, key, weights = self.operands
        row_of = query[at][row], key[key_at][:, 0][tokens], weights[at][row]
        scored = _ScoredKeys.of(*row_of)
        if lse is None:
            exponentials = np.exp(scored.scores - scored.scores.max(initial=-np.inf))
            probs = exponentials / exponentials.sum()
        else:
            probs = np.exp(scored.scores - lse)
        dq, dk, dw = scored.gradients(probs - target, *row_of)
        self.gradients[0][at][row], self.gradients[2][at][row] = dq, dw
        np.add.at(self.gradients[1][key_at][:, 0], tokens, dk)
        return np.asarray(probs)


def _seen(args: NamedArguments) -> Iterator[tuple[Any, Any, int, int, int]]:
    """Where a sequence's queries and keys are, a row of it, how many keys the row sees, and how many there are."""
    names = ("actualSeqLengthsQuery", "actualSeqLengthsKey")
    queries, keys = _packed_sides(args, "queryIndex", "keyIndex", names, "layout")
    for number in range(len(queries)):
        length = keys.lengths[number]
        seen = seen_keys(queries.lengths[number], length, causal=args["sparseMode"] == _CAUSAL)
        for row in range(queries.lengths[number]):
            yield queries.at(number), keys.at(number), row, seen[row], length


def _results(gradients: _IndexerGradients, loss: float) -> dict[str, Any]:
    dq, dk, dw = gradients.gradients
    return {"dQueryIndex": dq, "dKeyIndex": dk, "dWeights": dw, "loss": np.array([loss])}


def _without_sinks(call: Any) -> Optional[str]:
    return None if call["sinks"] is None else "its document does not say how sinks change the target distribution"


@reference_by_name("aclnnSparseLightningIndexerGradKLLoss")
@reference_by_name("aclnnSparseLightningIndexerGradKLLossV2", unsupported=_without_sinks)
def sparse_lightning_indexer_grad_kl_loss(args: NamedArguments) -> dict[str, Any]:
    """The divergence of the indexer's softmax over the chosen keys from the attention's, and its gradients."""
    gradients, loss = _IndexerGradients(args["queryIndex"], args["keyIndex"], args["weights"]), 0.0
    whole = joined(args["key"], args["keyRope"])
    for at, key_at, row, seen, length in _seen(args):
        indices = args["sparseIndices"][at][row, 0]
        indices = indices[: min(len(indices), seen)]
        tokens = indices[_chosen(indices, length)]
        if len(tokens):
            target = _target(args, at, row, whole[key_at][tokens], False)
            loss += _divergence(target, gradients.add(at, key_at, row, tokens, target))
    return _results(gradients, loss)


@reference_by_name("aclnnDenseLightningIndexerGradKLLoss")
def dense_lightning_indexer_grad_kl_loss(args: NamedArguments) -> dict[str, Any]:
    """The same over all keys that a query sees; the indexer's softmax comes from its maxima and sums."""
    gradients, loss = _IndexerGradients(args["queryIndex"], args["keyIndex"], args["weights"]), 0.0
    whole = joined(args["key"], args["keyRope"])
    for at, key_at, row, seen, _ in _seen(args):
        tokens = np.arange(seen)
        if len(tokens):
            row_max, row_sum = (_of_row(args, name, at, row) for name in ("softmaxMaxIndex", "softmaxSumIndex"))
            target = _target(args, at, row, whole[key_at][tokens], True)
            loss += _divergence(target, gradients.add(at, key_at, row, tokens, target, row_max + np.log(row_sum)))
    return _results(gradients, loss)


def _residual(args: NamedArguments, number: int) -> int:
    residual = args["cmpResidualK"]
    return int(residual[number]) if residual is not None and residual.size else 0


def _rows_of_loss(args: NamedArguments) -> Iterator[tuple[Any, Any, int, int, int]]:
    """Each query: where its batch's queries and keys are, its row there, the keys that it sees, the batch's keys."""
    queries, keys = _new_sides(args, "q", "k", "layoutQ", "layoutK", _USED_OF_LOSS)
    for number in range(len(queries)):
        sizes = queries.lengths[number], keys.lengths[number]
        seen = seen_keys(*sizes, args["cmpRatio"], _residual(args, number), args["maskMode"] == _CAUSAL)
        for row in range(queries.lengths[number]):
            yield queries.at(number), keys.at(number), row, int(seen[row]), keys.lengths[number]


@reference_by_name("aclnnSparseLightningIndexerKLLossGrad")
def sparse_lightning_indexer_kl_loss_grad(args: NamedArguments) -> dict[str, Array]:
    """Gradients of the divergence from the target distribution over the chosen keys, and the indexer's softmax."""
    gradients, targets = _IndexerGradients(args["q"], args["k"], args["w"]), args["attnSoftmaxL1Norm"]
    softmax_out = np.zeros(targets.shape, np.float32)
    for at, key_at, row, seen, length in _rows_of_loss(args):
        indices = args["sparseIndices"][at][row, 0]
        places = _chosen(indices, length)
        places = places[indices[places] < seen]
        if len(places):
            target = targets[at][row, 0, places]
            softmax_out[at][row, 0, places] = gradients.add(at, key_at, row, indices[places], target)
    dq, dk, dw = gradients.gradients
    return {"dq": dq, "dk": dk, "dw": dw, "softmaxOut": softmax_out}


@reference_by_name("aclnnDenseLightningIndexerKLLossGrad")
def dense_lightning_indexer_kl_loss_grad(args: NamedArguments) -> dict[str, Array]:
    """The same over all keys that a query sees; the indexer's softmax comes from its logarithm of sums."""
    gradients, targets = _IndexerGradients(args["q"], args["k"], args["w"]), args["attnSoftmaxL1Norm"]
    softmax_out = np.zeros(targets.shape, np.float32)
    for at, key_at, row, seen, _ in _rows_of_loss(args):
        tokens = np.arange(min(seen, targets.shape[-1]))
        if len(tokens):
            lse, target = _of_row(args, "softmaxLse", at, row), targets[at][row, 0, tokens]
            softmax_out[at][row, 0, tokens] = gradients.add(at, key_at, row, tokens, target, lse)
    dq, dk, dw = gradients.gradients
    return {"dq": dq, "dk": dk, "dw": dw, "softmaxOut": softmax_out}


# --------------------------------------------------------------------------------------------------- statistics


def _statistics(args: NamedArguments, queries: Side, keys: Side, ratio: int, causal: bool) -> tuple[Array, Array]:
    """Largest score and sum of exponentials of each query: (batch, 1, tokens) or (1, tokens)."""
    query, key, weights = args["queryIndex"], args["keyIndex"], args["weight"]
    shape = query.shape[:-2]
    row_max, row_sum = np.zeros(shape, np.float32), np.zeros(shape, np.float32)
    for number in range(len(queries)):
        at, own_keys = queries.at(number), key[keys.at(number)][:, 0]
        seen = seen_keys(queries.lengths[number], len(own_keys), ratio, _residual(args, number), causal)
        for rows in _blocks(len(query[at]), query.shape[-2], len(own_keys)):
            scores = np.einsum("rns,rn->rs", _relu_products(query[at][rows], own_keys), weights[at][rows])
            there = np.arange(len(own_keys)) < seen[rows, None]
            block_max = np.max(scores, -1, initial=-np.inf, where=there)
            row_max[at][rows] = block_max
            row_sum[at][rows] = np.exp(np.where(there, scores - block_max[:, None], -np.inf)).sum(-1)
    axis = 1 if query.ndim == 4 else 0
    return np.expand_dims(row_max, axis), np.expand_dims(row_sum, axis)


@reference_by_name("aclnnDenseLightningIndexerSoftmaxLse")
def dense_lightning_indexer_softmax_lse(args: NamedArguments) -> dict[str, Array]:
    names = ("actualSeqLengthsQuery", "actualSeqLengthsKey")
    sides = _packed_sides(args, "queryIndex", "keyIndex", names, "layout")
    row_max, row_sum = _statistics(args, *sides, 1, args["sparseMode"] == _CAUSAL)
    return {"softmaxMaxOut": row_max, "softmaxSumOut": row_sum}


@reference_by_name("aclnnDenseLightningIndexerSoftmaxLseV2")
def dense_lightning_indexer_softmax_lse_v2(args: NamedArguments) -> dict[str, Array]:
    """log(sum(exp(scores))) of the keys that each query sees."""
    sides = _new_sides(args, "queryIndex", "keyIndex", "layoutQ", "layoutK", _USED_OF_LOSS)
    row_max, row_sum = _statistics(args, *sides, args["cmpRatio"], args["maskMode"] == _CAUSAL)
    return {"softmaxLseOut": row_max + np.log(row_sum)}
