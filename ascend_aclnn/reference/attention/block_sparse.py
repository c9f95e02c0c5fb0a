"""Attention of blocks of queries to the blocks of keys that a mask (or indices) name, and the choice of that mask."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Optional

import numpy as np

from ascend_aclnn.numerics import Array, DataError, widen
from ascend_aclnn.reference._named import NamedArguments, reference_by_name
from ascend_aclnn.reference._rows import check_range
from ascend_aclnn.reference.attention._blocks import (
    Softmax,
    largest,
    softmax_or_zero,
    tokens_of_blocks,
)

_DEFAULT_BLOCK = (128, 128)


class _Lengths(NamedTuple):
    """The sequences of tensors (tokens, heads, width), (batch, heads, tokens, width) or (batch, tokens, heads, width)."""

    layout: str
    lengths: Sequence[int]

    @classmethod
    def of(cls, x: Array, layout: str, lengths: Optional[Sequence[int]], name: str) -> _Lengths:
        if layout == "TND":
            if not lengths:
                raise DataError(name, "is None; in layout TND it is required")
            if min(lengths) < 0 or sum(lengths) > len(x):
                raise DataError(name, f"is {tuple(lengths)}; there are {len(x)} tokens")
            return cls(layout, lengths)
        there = x.shape[2 if layout == "BNSD" else 1]
        lengths = lengths or [there] * len(x)
        if len(lengths) != len(x) or not all(0 <= n <= there for n in lengths):
            raise DataError(name, f"is {tuple(lengths)}; it must be {len(x)} lengths of at most {there}")
        return cls(layout, lengths)

    def at(self, batch: int, head: int) -> Any:
        """Where one head's tokens of one sequence lie."""
        if self.layout == "TND":
            start = sum(self.lengths[:batch])
            return slice(start, start + self.lengths[batch]), head
        tokens = slice(0, self.lengths[batch])
        return (batch, head, tokens) if self.layout == "BNSD" else (batch, tokens, head)


class _QueryBlock(NamedTuple):
    """One block of queries of one head: where it lies, its rows, its keys, and where those lie."""

    where: Any
    rows: slice
    keys_where: Any
    tokens: Array
    number: tuple[int, int, int]  # batch, head, head of keys


class _Sparse:
    """The queries, keys and blocks of one call."""

    def __init__(self, args: NamedArguments, query: Array, key: Array, block: Sequence[int]) -> None:
        self.args, self.block = args, block
        lengths, lengths_kv = args["actualSeqLengths"], args["actualSeqLengthsKv"]
        self.queries = _Lengths.of(query, args["qInputLayout"], lengths, "actualSeqLengthsOptional")
        self.keys = _Lengths.of(key, args["kvInputLayout"], lengths_kv, "actualSeqLengthsKvOptional")
        if len(self.queries.lengths) != len(self.keys.lengths):
            raise DataError(
                "actualSeqLengthsKvOptional", f"has {len(self.keys.lengths)} items; query has other sequences"
            )
        axis = 1 if args["qInputLayout"] in ("TND", "BNSD") else 2
        self.heads, self.share = query.shape[axis], query.shape[axis] // key.shape[axis]

    def chosen(self, batch: int, head: int, block: int, first: int) -> Array:
        """The blocks of keys of one block of queries; ``first`` blocks belong to sequences before."""
        indices = self.args["selectIdx"]
        if indices is not None:
            count = int(self.args["selectNumIdx"][first + block, head])
            return np.asarray(indices[first + block, head, :count])
        mask = self.args["blockSparseMask"]
        blocks = -(-self.keys.lengths[batch] // self.block[1])
        if mask is None:
            return np.arange(blocks)
        return np.flatnonzero(mask[batch, head, block, :blocks])

    def parts(self) -> Iterator[_QueryBlock]:
        first = 0
        for batch, (many, there) in enumerate(zip(self.queries.lengths, self.keys.lengths)):
            blocks = -(-many // self.block[0])
            for head in range(self.heads):
                places = self.queries.at(batch, head), self.keys.at(batch, head // self.share)
                for block in range(blocks):
                    rows = slice(block * self.block[0], min((block + 1) * self.block[0], many))
                    chosen = self.chosen(batch, head, block, first)
                    check_range("selectIdx", chosen, -1, max(1, -(-there // self.block[1])))
                    tokens = tokens_of_blocks(chosen, self.block[1], there)
                    yield _QueryBlock(places[0], rows, places[1], tokens, (batch, head, head // self.share))
            first += blocks

    def softmax(self, query: Array, key: Array, part: _QueryBlock) -> Softmax:
        scores = (query[part.where][part.rows] @ key[part.keys_where][part.tokens].T) * np.float32(
            self.args["scaleValue"]
        )
        return softmax_or_zero(scores, np.zeros(scores.shape, bool))


def _dequantised(x: Array, scale: Optional[Array], lengths: _Lengths, size: int) -> Array:
    """With one scale for each block of ``size`` tokens of a head: (batch, heads, blocks, 1)."""
    x = widen(x).astype(np.float32)
    if scale is None:
        return x
    y = x.copy()
    for batch in range(len(lengths.lengths)):
        for head in range(scale.shape[1]):
            where = lengths.at(batch, head)
            many = lengths.lengths[batch]
            # A mask may have fewer blocks than there are keys.
            factors = np.repeat(scale[batch, head, :, 0], size)[:many, None]
            y[where][: len(factors)] *= factors
    return np.asarray(y)


def _small_floats(call: Any) -> Optional[str]:
    if "quantMode" in call.operator.positions and call["quantMode"] in (2, 3):
        return "attention in FLOAT4_E2M1 quantises its probabilities too; the NumPy backend has no reference for it"
    return None


@reference_by_name(
    "aclnnBlockSparseAttention",
    "aclnnBlockSparseAttentionV2",
    "aclnnBlockSparseAttentionV3",
    "aclnnRainFusionAttention",
    unsupported=_small_floats,
)
def block_sparse_attention(args: NamedArguments) -> dict[str, Any]:
    """softmax(scale query key~^T) value~ of the chosen blocks; a query without any gives zeros.

    Operands of 8 bits are dequantised first; the device quantises the probabilities between its two products.
    """
    block = (args["blockShape"] or _DEFAULT_BLOCK)[:2]
    sparse = _Sparse(args, args["query"], args["key"], block)
    query = _dequantised(args["query"], args["qDequantScale"], sparse.queries, block[0])
    key, value = (
        _dequantised(args[name], args[f"{name[0]}DequantScale"], sparse.keys, block[1]) for name in ("key", "value")
    )
    output, lse = np.zeros(query.shape, np.float32), np.zeros((*query.shape[:-1], 1), np.float32)
    for part in sparse.parts():
        attended = sparse.softmax(query, key, part)
        output[part.where][part.rows] = attended.probabilities @ value[part.keys_where][part.tokens]
        lse[part.where][part.rows] = attended.log_sum_exp
    wanted = args["softmaxLseFlag"] is None or args["softmaxLseFlag"]
    return {"attentionOut": output, "softmaxLse": lse if wanted else None}


@reference_by_name("aclnnBlockSparseAttentionGrad")
def block_sparse_attention_grad(args: NamedArguments) -> dict[str, Array]:
    """dS = P (dout value^T - sum(dout attentionOut)): the output may be one of more keys than the call has."""
    query, key, value, grad = args["query"], args["key"], args["value"], args["dout"]
    sparse = _Sparse(args, query, key, (args["blockShape"] or _DEFAULT_BLOCK)[:2])
    dq, dk, dv = (np.zeros(x.shape, np.float32) for x in (query, key, value))
    scale = np.float32(args["scaleValue"])
    for part in sparse.parts():
        queries, dy = query[part.where][part.rows], grad[part.where][part.rows]
        keys, values = key[part.keys_where][part.tokens], value[part.keys_where][part.tokens]
        probabilities = np.exp((queries @ keys.T) * scale - args["softmaxLse"][part.where][part.rows])
        delta = (dy * args["attentionOut"][part.where][part.rows]).sum(-1, keepdims=True)
        derivative = probabilities * (dy @ values.T - delta) * scale
        dq[part.where][part.rows] = derivative @ keys
        dk[part.keys_where][part.tokens] += derivative.T @ queries
        dv[part.keys_where][part.tokens] += probabilities.T @ dy
    return {"dq": dq, "dk": dk, "dv": dv}


# --------------------------------------------------------------------------------------------------- choice of blocks


def _means(x: Array, size: int, counts: Optional[Sequence[int]]) -> Array:
    """Of blocks of tokens (tokens, width); or of the first ``counts`` tokens of each block."""
    blocks = -(-len(x) // size)
    padded = np.zeros((blocks * size, x.shape[1]), np.float32)
    padded[: len(x)] = x
    parts = padded.reshape(blocks, size, -1)
    if counts is None:
        return np.asarray(parts.sum(1) / np.float32(size))
    many = np.asarray(counts)[:blocks, None]
    inside = np.arange(size) < many
    return np.asarray((parts * inside[..., None]).sum(1) / np.maximum(many, 1))


def _counts_of_sequence(args: NamedArguments, name: str, batch: int, blocks: Sequence[int], packed: bool) -> Any:
    """How many tokens of each block of one sequence count."""
    counts: Optional[Sequence[int]] = args[name]
    if not counts:
        return None
    total = sum(blocks) if packed else len(blocks) * max(blocks)
    if len(counts) != total:
        raise DataError(name, f"has {len(counts)} items; it must have {total}, one for each block")
    start = sum(blocks[:batch]) if packed else batch * max(blocks)
    return counts[start : start + blocks[batch]]


@reference_by_name("aclnnBSASelectBlockMask")
def bsa_select_block_mask(args: NamedArguments) -> dict[str, Array]:
    """1 for the pairs of blocks whose mean queries and keys have the largest probabilities, as many as sparsity says."""
    query, key, block = args["query"], args["key"], (args["blockShape"] or _DEFAULT_BLOCK)[:2]
    layout = args["qInputLayout"] or "BNSD"
    queries = _Lengths.of(query, layout, args["actualSeqLengths"], "actualSeqLengths")
    keys = _Lengths.of(key, args["kvInputLayout"] or "BNSD", args["actualSeqLengthsKV"], "actualSeqLengthsKV")
    if len(queries.lengths) != len(keys.lengths):
        raise DataError(
            "actualSeqLengthsKV", f"has {len(keys.lengths)} items; query has {len(queries.lengths)} sequences"
        )
    rows, columns = ([-(-n // size) for n in side.lengths] for side, size in ((queries, block[0]), (keys, block[1])))
    most = (
        (max(rows), max(columns))
        if layout == "TND"
        else tuple(-(-x.shape[2] // n) for x, n in zip((query, key), block))
    )
    mask = np.zeros((len(rows), query.shape[1], *most), np.int8)
    for batch in range(len(rows)):
        counts = [
            _counts_of_sequence(args, f"actualBlockLen{name}", batch, blocks, layout == "TND")
            for name, blocks in (("Query", rows), ("Key", columns))
        ]
        for head in range(query.shape[1]):
            q = _means(query[queries.at(batch, head)], block[0], counts[0])
            k = _means(key[keys.at(batch, head)], block[1], counts[1])
            hidden = np.zeros((len(q), len(k)), bool)
            if counts[1] is not None:
                hidden |= np.asarray(counts[1]) == 0
            probabilities = softmax_or_zero((q @ k.T) * np.float32(args["scaleValue"]), hidden).probabilities
            many = round(args["sparsity"] * probabilities.size)
            chosen = largest(np.where(hidden, -1, probabilities).reshape(-1), many)
            mask[batch, head, chosen // len(k), chosen % len(k)] = 1
            mask[batch, head, : len(q), : len(k)][hidden] = 0
    return {"blockSparseMaskOut": mask}


# ------------------------------------------------------------------------------------------------ chosen in a paged cache


@reference_by_name("aclnnGenericBlockSparseAttention")
def generic_block_sparse_attention(args: NamedArguments) -> dict[str, Array]:
    """Each query attends to the blocks of keys in its list that it sees: causal, from the ends of the sequences.

    The heads of a group share a list. With FLOAT8 inputs CANN converts the probabilities to FLOAT8 too, which is not done here.
    """
    query, key, value = (args[name].astype(np.float32) for name in ("query", "key", "value"))
    tables, size = args["blockTable"], args["blockShape"][1]
    scale = np.float32(args["scaleValue"] or query.shape[-1] ** -0.5)
    starts, key_ends = args["cuSeqLengthsQ"].tolist(), args["cuSeqLengthsKv"]
    stored = np.diff(key_ends)
    used = [
        list(map(int, args[name])) if args[name] is not None else np.diff(args[ends]).tolist()
        for name, ends in (("sequsedQ", "cuSeqLengthsQ"), ("sequsedKv", "cuSeqLengthsKv"))
    ]
    share = query.shape[1] // key.shape[2]
    out = np.zeros(query.shape, np.float32)
    for batch, (length, keys) in enumerate(zip(*used)):
        if not 0 <= length <= starts[batch + 1] - starts[batch] or not 0 <= keys <= stored[batch]:
            raise DataError("sequsedKvOptional", f"has {keys} for sequence {batch}, of {stored[batch]} stored tokens")
        pages = -(-keys // size)
        check_range("blockTableOptional", tables[batch, :pages], 0, len(key))
        paged = [x[tables[batch, :pages]].reshape(-1, *x.shape[2:])[:keys] for x in (key, value)]
        for row in range(length):
            token, seen = starts[batch] + row, keys - length + row + 1
            for head in range(key.shape[2]):
                blocks = args["sparseBlockIdx"][head, token, : args["sparseBlockCount"][head, token]]
                check_range("sparseBlockIdx", blocks, 0, max(-(-int(stored[batch]) // size), 1))
                tokens = (blocks[:, None] * size + np.arange(size)).reshape(-1)
                tokens = tokens[tokens < max(seen, 0)]
                if len(tokens):
                    group = slice(head * share, (head + 1) * share)
                    scores = query[token, group] @ paged[0][tokens, head].T * scale
                    weights = np.exp(scores - scores.max(-1, keepdims=True))
                    out[token, group] = weights @ paged[1][tokens, head] / weights.sum(-1, keepdims=True)
    return {"attentionOut": out}
