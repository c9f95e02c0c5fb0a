"""Lightning indexers: which keys each query attends to, their gradients, and the losses that train them.

A key's score for a query is the sum over heads of weight * relu(query @ key).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, Optional

import numpy as np

from ascend_aclnn.numerics import Array, DataError, widen
from ascend_aclnn.reference._named import Given, reference_by_name
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
    """One call of an indexer, whatever its version calls things."""

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
            found = self._sequence(number, where)
            indices[where], values[where] = found[0][:, None], found[1][:, None]
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


def _sides(given: Given) -> tuple[Side, Side]:
    """Of the first versions: lengths, or in layout TND running totals without the 0."""
    names = "actualSeqLengthsQueryOptional", "actualSeqLengthsKeyOptional"
    found = []
    for x, name, layout, table in (
        (given["query"], names[0], given["layoutQuery"], None),
        (given["key"], names[1], given["layoutKey"], given["blockTable"]),
    ):
        values = given[name[: -len("Optional")]]
        totals, used = (from_zero(values), None) if layout == "TND" else (None, values)
        found.append(side(x, layout, (name, name), totals, used, table))
    return found[0], found[1]


@reference_by_name("aclnnLightningIndexer")
def lightning_indexer(given: Given) -> dict[str, Any]:
    """Top-k of sum over heads of weight * relu(query @ key); of equal scores the first keys."""
    operands = given["query"], given["key"], given["weights"]
    choice = _Choice(*operands, *_sides(given), given["sparseCount"], given["sparseMode"] == _CAUSAL)
    indices, values = choice.run()
    return {"sparseIndicesOut": indices, "sparseValuesOut": values if given["returnValues"] else None}


@reference_by_name("aclnnQuantLightningIndexer")
def quant_lightning_indexer(given: Given) -> dict[str, Array]:
    """The same with queries and keys that have one scale for each head of each token."""
    query = widen(given["query"]).astype(np.float32) * given["queryDequantScale"][..., None]
    key = widen(given["key"]).astype(np.float32) * given["keyDequantScale"][..., None]
    queries, keys = _sides(given)
    causal = given["sparseMode"] == _CAUSAL
    choice = _Choice(query, key, given["weights"], queries, keys, given["sparseCount"], causal)
    return {"out": choice.run()[0]}


def _new_sides(
    given: Given, query: str, key: str, layout_q: str, layout_k: str, names: tuple[str, ...]
) -> tuple[Side, Side]:
    """Of the second versions: running totals from 0 on, and how many tokens are used."""
    cu_q, cu_k, used_q, used_k = (given[name] for name in names)
    short = [name + "Optional" for name in names]
    return (
        side(given[query], given[layout_q], (short[0], short[2]), cu_q, used_q),
        side(given[key], given[layout_k], (short[1], short[3]), cu_k, used_k, given["blockTable"]),
    )


_USED = ("cuSeqlensQ", "cuSeqlensK", "sequsedQ", "sequsedK")
_USED_OF_QUANT = ("cuSeqLensQ", "cuSeqLensK", "sequsedQ", "sequsedK")
_USED_OF_LOSS = ("cuSeqLensQ", "cuSeqLensK", "seqUsedQ", "seqUsedK")


@reference_by_name("aclnnLightningIndexerV2")
def lightning_indexer_v2(given: Given) -> dict[str, Any]:
    """The same for compressed keys too; metadata, which only shares out the work, changes nothing."""
    indices, values = _Choice(
        given["q"],
        given["k"],
        given["w"],
        *_new_sides(given, "q", "k", "layoutQ", "layoutK", _USED),
        given["topk"],
        given["maskMode"] == _CAUSAL,
        given["cmpRatio"],
        given["cmpResidualK"],
        given["outputIdxOffset"],
    ).run()
    return {"sparseIndices": indices, "sparseValues": values if given["returnValue"] else None}


def _dequantised(x: Array, scale: Array) -> Array:
    """With one scale for each head, or (FLOAT8_E8M0) one for each 32 elements of its last axis."""
    values = widen(x).astype(np.float32)
    if scale.ndim == x.ndim - 1:
        return values * scale[..., None]
    return np.asarray(values * np.repeat(scale.reshape(*x.shape[:-1], -1), 32, -1)[..., : x.shape[-1]])


@reference_by_name("aclnnQuantLightningIndexerV2")
def quant_lightning_indexer_v2(given: Given) -> dict[str, Any]:
    indices, values = _Choice(
        _dequantised(given["query"], given["queryDequantScale"]),
        _dequantised(given["key"], given["keyDequantScale"]),
        given["weights"],
        *_new_sides(given, "query", "key", "layoutQ", "layoutK", _USED_OF_QUANT),
        given["topk"],
        given["maskMode"] == _CAUSAL,
        given["cmpRatio"],
        given["cmpResidualK"],
        given["outputIdxOffset"],
    ).run()
    return {"sparseIndicesOut": indices, "sparseValuesOut": values if given["returnValue"] else None}


# --------------------------------------------------------------------------------------------------- gradients


class _Row(NamedTuple):
    """The keys of one query that take part, and their scores."""

    products: Array  # relu(query @ key^T): heads, keys
    scores: Array  # keys

    @classmethod
    def of(cls, query: Array, key: Array, weights: Array) -> _Row:
        products = np.maximum(query @ key.T, 0)
        return cls(products, weights @ products)

    def gradients(self, derivative: Array, query: Array, key: Array, weights: Array) -> tuple[Array, Array, Array]:
        """Of query, key and weights, from that of the scores."""
        inner = (self.products > 0) * weights[:, None] * derivative
        return inner @ key, inner.T @ query, self.products @ derivative


def _chosen(indices: Array, seen: int) -> Array:
    """Where a row's chosen keys stand; those below 0 are none."""
    places = np.flatnonzero(indices >= 0)
    check_range("sparseIndices", indices[places], 0, seen)
    return places


def _packed_sides(given: Given, query: str, key: str, names: tuple[str, str], layout: str) -> tuple[Side, Side]:
    """Running totals without 0 in layout TND; else the whole sequences."""
    packed = given[layout] == "TND"
    found = [
        side(given[x], given[layout], (name + "Optional",) * 2, from_zero(given[name]) if packed else None)
        for x, name in zip((query, key), names)
    ]
    return found[0], found[1]


@reference_by_name("aclnnLightningIndexerGrad")
def lightning_indexer_grad(given: Given) -> dict[str, Array]:
    """Of query, key and weights, from those of the chosen keys' scores (dy, as sparseIndices)."""
    query, key, weights, indices = (given[n] for n in ("query", "key", "weights", "sparseIndices"))
    indices = indices.reshape(*weights.shape[:-1], -1)
    dy = given["dy"].reshape(*weights.shape[:-1], -1)
    dq, dk, dw = (np.zeros(x.shape, np.float32) for x in (query, key, weights))
    queries, keys = _packed_sides(given, "query", "key", ("actualSeqQLen", "actualSeqKvLen"), "inputLayout")
    for number in range(len(queries)):
        at, key_at = queries.at(number), keys.at(number)
        own, own_dk = key[key_at][:, 0], dk[key_at]
        for row in range(queries.lengths[number]):
            places = _chosen(indices[at][row], len(own))
            tokens = indices[at][row, places]
            row_of = query[at][row], own[tokens], weights[at][row]
            made = _Row.of(*row_of).gradients(dy[at][row, places], *row_of)
            dq[at][row], dw[at][row] = made[0], made[2]
            np.add.at(own_dk, (tokens, 0), made[1])
    return {"dqOut": dq, "dkOut": dk, "dweightsOut": dw}


@reference("aclnnLightningIndexerKLLoss")
def lightning_indexer_kl_loss(target: Array, probabilities: Array, eps: float, weight_type: Optional[str]) -> Array:
    """sum(weight * (log(max(P, eps)) - log(probabilities + eps))), where P is target over its sums."""
    small = np.float32(eps)
    target, probabilities = target.astype(np.float32), probabilities.astype(np.float32)
    share = target / (target.sum(-1, keepdims=True) + small)
    difference = np.log(np.maximum(share, small)) - np.log(probabilities + small)
    return np.asarray((difference * (target if weight_type == "logits" else share)).sum(dtype=np.float64)).reshape(1)


def _divergence(target: Array, found: Array) -> float:
    """Of two distributions, numbers below 1e-8 taken for that."""
    target, found = np.maximum(target, _SMALLEST), np.maximum(found, _SMALLEST)
    return float((target * (np.log(target) - np.log(found))).sum(dtype=np.float64))


def _target(given: Given, where: Any, row: int, keys: Array, heads_of_keys: bool) -> Array:
    """The attention's probabilities of a query for some keys (keys, heads, width), over all of its heads."""
    query = joined(given["query"][where][row], None if given["queryRope"] is None else given["queryRope"][where][row])
    pattern = "nd,snd->ns" if heads_of_keys else "nd,sd->ns"
    scores = np.einsum(pattern, query, keys if heads_of_keys else keys[:, 0], optimize=True)
    row_max, row_sum = (_of_row(given, name, where, row) for name in ("softmaxMax", "softmaxSum"))
    weights = np.exp(scores * np.float32(given["scaleValue"]) - row_max[:, None]) / row_sum[:, None]
    return np.asarray(weights.sum(0) / np.float32(len(query)))


def _of_row(given: Given, name: str, where: Any, row: int) -> Array:
    """Statistics (batch, heads of keys, tokens, group), or (heads of keys, tokens, group), of one query: all heads."""
    values = given[name]
    if isinstance(where, tuple):
        return np.asarray(values[where[0], :, row].reshape(-1))
    return np.asarray(values[:, where.start + row].reshape(-1))


class _Gradients:
    """What the losses' references give back; rows are added one by one."""

    def __init__(self, query: Array, key: Array, weights: Array) -> None:
        self.operands = query, key, weights
        self.made = [np.zeros(x.shape, np.float32) for x in self.operands]

    def add(self, at: Any, key_at: Any, row: int, tokens: Array, target: Array, found: Optional[Array] = None) -> Array:
        """The derivative of the divergence is softmax(scores) - target; returns that softmax (``found`` if given)."""
        query, key, weights = self.operands
        row_of = query[at][row], key[key_at][:, 0][tokens], weights[at][row]
        scored = _Row.of(*row_of)
        if found is None:
            exponentials = np.exp(scored.scores - scored.scores.max(initial=-np.inf))
            found = exponentials / exponentials.sum()
        else:
            found = np.exp(scored.scores - found)
        dq, dk, dw = scored.gradients(found - target, *row_of)
        self.made[0][at][row], self.made[2][at][row] = dq, dw
        np.add.at(self.made[1][key_at][:, 0], tokens, dk)
        return np.asarray(found)


def _seen(given: Given) -> Iterator[tuple[Any, Any, int, int, int]]:
    """Where a sequence's queries and keys are, a row of it, how many keys the row sees, and how many there are."""
    names = ("actualSeqLengthsQuery", "actualSeqLengthsKey")
    queries, keys = _packed_sides(given, "queryIndex", "keyIndex", names, "layout")
    for number in range(len(queries)):
        length = keys.lengths[number]
        seen = seen_keys(queries.lengths[number], length, causal=given["sparseMode"] == _CAUSAL)
        for row in range(queries.lengths[number]):
            yield queries.at(number), keys.at(number), row, seen[row], length


def _results(gradients: _Gradients, loss: float) -> dict[str, Any]:
    dq, dk, dw = gradients.made
    return {"dQueryIndex": dq, "dKeyIndex": dk, "dWeights": dw, "loss": np.array([loss])}


@reference_by_name("aclnnSparseLightningIndexerGradKLLoss")
def sparse_lightning_indexer_grad_kl_loss(given: Given) -> dict[str, Any]:
    """The divergence of the indexer's softmax over the chosen keys from the attention's, and its gradients."""
    gradients, loss = _Gradients(given["queryIndex"], given["keyIndex"], given["weights"]), 0.0
    whole = joined(given["key"], given["keyRope"])
    for at, key_at, row, seen, length in _seen(given):
        indices = given["sparseIndices"][at][row, 0]
        indices = indices[: min(len(indices), seen)]
        tokens = indices[_chosen(indices, length)]
        if len(tokens):
            target = _target(given, at, row, whole[key_at][tokens], False)
            loss += _divergence(target, gradients.add(at, key_at, row, tokens, target))
    return _results(gradients, loss)


@reference_by_name("aclnnDenseLightningIndexerGradKLLoss")
def dense_lightning_indexer_grad_kl_loss(given: Given) -> dict[str, Any]:
    """The same over all keys that a query sees; the indexer's softmax comes from its maxima and sums."""
    gradients, loss = _Gradients(given["queryIndex"], given["keyIndex"], given["weights"]), 0.0
    whole = joined(given["key"], given["keyRope"])
    for at, key_at, row, seen, _ in _seen(given):
        tokens = np.arange(seen)
        if len(tokens):
            row_max, row_sum = (_of_row(given, name, at, row) for name in ("softmaxMaxIndex", "softmaxSumIndex"))
            target = _target(given, at, row, whole[key_at][tokens], True)
            loss += _divergence(target, gradients.add(at, key_at, row, tokens, target, row_max + np.log(row_sum)))
    return _results(gradients, loss)


def _residual(given: Given, number: int) -> int:
    residual = given["cmpResidualK"]
    return int(residual[number]) if residual is not None and residual.size else 0


def _rows_of_loss(given: Given) -> Iterator[tuple[Any, Any, int, int, int]]:
    """Each query: where its batch's queries and keys are, its row there, the keys that it sees, the batch's keys."""
    queries, keys = _new_sides(given, "q", "k", "layoutQ", "layoutK", _USED_OF_LOSS)
    for number in range(len(queries)):
        sizes = queries.lengths[number], keys.lengths[number]
        seen = seen_keys(*sizes, given["cmpRatio"], _residual(given, number), given["maskMode"] == _CAUSAL)
        for row in range(queries.lengths[number]):
            yield queries.at(number), keys.at(number), row, int(seen[row]), keys.lengths[number]


@reference_by_name("aclnnSparseLightningIndexerKLLossGrad")
def sparse_lightning_indexer_kl_loss_grad(given: Given) -> dict[str, Array]:
    """Gradients of the divergence from a distribution over the chosen keys that is given, and the indexer's softmax."""
    gradients, targets = _Gradients(given["q"], given["k"], given["w"]), given["attnSoftmaxL1Norm"]
    softmax_out = np.zeros(targets.shape, np.float32)
    for at, key_at, row, seen, length in _rows_of_loss(given):
        indices = given["sparseIndices"][at][row, 0]
        places = _chosen(indices, length)
        places = places[indices[places] < seen]
        if len(places):
            target = targets[at][row, 0, places]
            softmax_out[at][row, 0, places] = gradients.add(at, key_at, row, indices[places], target)
    dq, dk, dw = gradients.made
    return {"dq": dq, "dk": dk, "dw": dw, "softmaxOut": softmax_out}


@reference_by_name("aclnnDenseLightningIndexerKLLossGrad")
def dense_lightning_indexer_kl_loss_grad(given: Given) -> dict[str, Array]:
    """The same over all keys that a query sees; the indexer's softmax comes from its logarithm of sums."""
    gradients, targets = _Gradients(given["q"], given["k"], given["w"]), given["attnSoftmaxL1Norm"]
    softmax_out = np.zeros(targets.shape, np.float32)
    for at, key_at, row, seen, _ in _rows_of_loss(given):
        tokens = np.arange(min(seen, targets.shape[-1]))
        if len(tokens):
            lse, target = _of_row(given, "softmaxLse", at, row), targets[at][row, 0, tokens]
            softmax_out[at][row, 0, tokens] = gradients.add(at, key_at, row, tokens, target, lse)
    dq, dk, dw = gradients.made
    return {"dq": dq, "dk": dk, "dw": dw, "softmaxOut": softmax_out}


# --------------------------------------------------------------------------------------------------- statistics


def _statistics(given: Given, queries: Side, keys: Side, ratio: int, causal: bool) -> tuple[Array, Array]:
    """Largest score and sum of exponentials of each query: (batch, 1, tokens) or (1, tokens)."""
    query, key, weights = given["queryIndex"], given["keyIndex"], given["weight"]
    shape = query.shape[:-2]
    row_max, row_sum = np.zeros(shape, np.float32), np.zeros(shape, np.float32)
    for number in range(len(queries)):
        at, own = queries.at(number), key[keys.at(number)][:, 0]
        seen = seen_keys(queries.lengths[number], len(own), ratio, _residual(given, number), causal)
        for rows in _blocks(len(query[at]), query.shape[-2], len(own)):
            scores = np.einsum("rns,rn->rs", _relu_products(query[at][rows], own), weights[at][rows])
            there = np.arange(len(own)) < seen[rows, None]
            most = np.max(scores, -1, initial=-np.inf, where=there)
            row_max[at][rows] = most
            row_sum[at][rows] = np.exp(np.where(there, scores - most[:, None], -np.inf)).sum(-1)
    axis = 1 if query.ndim == 4 else 0
    return np.expand_dims(row_max, axis), np.expand_dims(row_sum, axis)


@reference_by_name("aclnnDenseLightningIndexerSoftmaxLse")
def dense_lightning_indexer_softmax_lse(given: Given) -> dict[str, Array]:
    names = ("actualSeqLengthsQuery", "actualSeqLengthsKey")
    sides = _packed_sides(given, "queryIndex", "keyIndex", names, "layout")
    row_max, row_sum = _statistics(given, *sides, 1, given["sparseMode"] == _CAUSAL)
    return {"softmaxMaxOut": row_max, "softmaxSumOut": row_sum}


@reference_by_name("aclnnDenseLightningIndexerSoftmaxLseV2")
def dense_lightning_indexer_softmax_lse_v2(given: Given) -> dict[str, Array]:
    """log(sum(exp(scores))) of the keys that each query sees."""
    sides = _new_sides(given, "queryIndex", "keyIndex", "layoutQ", "layoutK", _USED_OF_LOSS)
    row_max, row_sum = _statistics(given, *sides, given["cmpRatio"], given["maskMode"] == _CAUSAL)
    return {"softmaxLseOut": row_max + np.log(row_sum)}
