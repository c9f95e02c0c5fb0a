"""Sparse latent attention with shared keys and values: a window of the sequence, and (chosen) compressed keys before it."""

from __future__ import annotations

from typing import Any, NamedTuple, Optional

import ml_dtypes
import numpy as np

from ascend_aclnn.numerics import Array, DataError, widen
from ascend_aclnn.reference._named import NamedArguments, reference_by_name
from ascend_aclnn.reference._rows import check_range
from ascend_aclnn.reference.attention._blocks import (
    Side,
    packed_parts,
    seen_keys,
    side,
    softmax_derivative,
    softmax_or_zero,
)

_NO_MASK, _CAUSAL, _BAND = 0, 3, 4
_UNLIMITED = -1


class _KeysOfKind(NamedTuple):
    """The keys of one kind: the sequence's own (ori), or compressed ones (cmp)."""

    kind: str
    kv: Array
    side: Side
    chosen: Optional[Array]

    @classmethod
    def of(cls, args: NamedArguments, kind: str, layout: str, kv: Optional[Array] = None) -> Optional[_KeysOfKind]:
        kv = args[f"{kind}Kv"] if kv is None else kv
        if kv is None or kv.size == 0:
            return None
        name = kind.capitalize()
        table, used = args[f"{kind}BlockTable"], args[f"seqused{name}Kv"]
        if layout.startswith("PA") and used is None and table is not None:
            used = np.full(len(table), table.shape[1] * kv.shape[1])
        names = f"cuSeqlens{name}KvOptional", f"seqused{name}KvOptional"
        keys = side(kv, layout, names, args[f"cuSeqlens{name}Kv"], used, table)
        chosen = args[f"{kind}SparseIndices"]
        return cls(kind, kv, keys, None if chosen is None or chosen.size == 0 else chosen)

    def first_and_last(self, args: NamedArguments, number: int, queries: int) -> tuple[Array, Array]:
        """The keys that each query sees, from one up to before another."""
        keys, mode = self.side.lengths[number], args[f"{self.kind}MaskMode"]
        zero = np.zeros(queries, np.int64)
        if mode not in (_NO_MASK, _CAUSAL, _BAND) or (mode == _BAND and self.kind == "cmp"):
            raise DataError(f"{self.kind}MaskMode", f"is {mode}; allowed: 0, 3{', 4' if self.kind == 'ori' else ''}")
        if self.kind == "cmp":
            residual = 0 if args["cmpResidualKv"] is None else int(args["cmpResidualKv"][number])
            return zero, seen_keys(queries, keys, args["cmpRatio"], residual, mode == _CAUSAL)
        if mode != _BAND:
            return zero, seen_keys(queries, keys, causal=mode == _CAUSAL)
        diagonal = keys - queries + np.arange(queries)
        left, right = args["oriWinLeft"], args["oriWinRight"]
        first = zero if left == _UNLIMITED else np.maximum(diagonal - left, 0)
        last = zero + keys if right == _UNLIMITED else np.clip(diagonal + right + 1, 0, keys)
        return first, last

    def tokens(self, where: Any, row: int, first: int, last: int) -> Array:
        if self.chosen is None:
            return np.arange(first, max(first, last))
        indices = self.chosen[where][row, 0]
        check_range(f"{self.kind}SparseIndicesOptional", indices, -1, None)
        return np.asarray(indices[(indices >= first) & (indices < last)])


class _QueryKeys(NamedTuple):
    """One query, and its keys of each kind: places among all tokens of the sequence, and the keys."""

    where: Any
    row: int
    number: int
    tokens: list[Array]
    keys: list[Array]


class _SparseAttention:
    def __init__(self, args: NamedArguments, query: Array, kv: dict[str, Array]) -> None:
        self.args = args
        self.query = query
        names = "cuSeqlensQOptional", "sequsedQOptional"
        self.queries = side(query, args["layoutQ"], names, args["cuSeqlensQ"], args["sequsedQ"])
        layout = args["layoutKv"] or "BSND"
        candidates = (_KeysOfKind.of(args, kind, layout, kv.get(kind)) for kind in ("ori", "cmp"))
        self.parts = [part for part in candidates if part is not None]
        if not self.parts:
            raise DataError("oriKvOptional", "and cmp_kv are None; one of them is required")

    def rows(self) -> Any:
        for number in range(len(self.queries)):
            where, many = self.queries.at(number), self.queries.lengths[number]
            keys = [part.side.take(part.kv, number)[:, 0] for part in self.parts]
            limits = [part.first_and_last(self.args, number, many) for part in self.parts]
            for row in range(many):
                tokens = [
                    part.tokens(where, row, int(first[row]), int(last[row]))
                    for part, (first, last) in zip(self.parts, limits)
                ]
                yield _QueryKeys(where, row, number, tokens, [k[t] for k, t in zip(keys, tokens)])

    def forward(self, scale: float) -> tuple[Array, Array]:
        """Results, and log(sum(exp(scores))) as (batch, 1, tokens, heads) or (1, tokens, heads)."""
        output = np.zeros(self.query.shape, np.float32)
        lse = np.zeros(self.query.shape[:-1], np.float32)
        sinks = self.args["sinks"]
        for row in self.rows():
            keys = np.concatenate(row.keys)
            scores = (self.query[row.where][row.row] @ keys.T) * np.float32(scale)
            attended = softmax_or_zero(scores, np.zeros(scores.shape, bool), None if sinks is None else sinks[:, None])
            output[row.where][row.row] = attended.probabilities @ keys
            lse[row.where][row.row] = attended.log_sum_exp[:, 0]
        return output, np.expand_dims(lse, -3)


def _results(args: NamedArguments, attention: _SparseAttention, scale: float) -> dict[str, Any]:
    output, lse = attention.forward(scale)
    return {"attnOutOut": output, "softmaxLseOut": lse if args["returnSoftmaxLse"] else None}


@reference_by_name("aclnnSparseFlashMla")
def sparse_flash_mla(args: NamedArguments) -> dict[str, Any]:
    """softmax(q @ kv~^T scale) @ kv~ with a sink for each head; metadata, which shares out the work, changes nothing."""
    return _results(args, _SparseAttention(args, args["q"], {}), args["softmaxScale"])


@reference_by_name("aclnnQuantSparseFlashMla")
def quant_sparse_flash_mla(args: NamedArguments) -> dict[str, Any]:
    """The same with queries and keys of HIFLOAT8, which have one scale for the tensor."""

    def scaled(name: str) -> Array:
        x, scale = widen(args[name]).astype(np.float32), args[f"{name}Descale"]
        return x if scale is None else x * scale.reshape(-1)[0]

    kv = {kind: scaled(f"{kind}Kv") for kind in ("ori", "cmp") if args[f"{kind}Kv"] is not None}
    return _results(args, _SparseAttention(args, scaled("q"), kv), args["softmaxScale"])


_TILE = 64  # elements that have one scale


def _unpacked(packed: Array, mode: int, rope: int, width: int) -> Array:
    """Elements of FLOAT8_E4M3FN times the scales of groups of 64, then the rotated part in BF16.

    Mode 1 stores the rotated part first and scales of BF16, mode 2 the elements first and scales of FLOAT8_E8M0.
    """
    nope, tiles = width - rope, (width - rope) // _TILE
    elements, rotated = (nope, ml_dtypes.float8_e4m3fn), (rope, ml_dtypes.bfloat16)
    scale = (tiles, ml_dtypes.bfloat16 if mode == 1 else ml_dtypes.float8_e8m0fnu)
    first, second = (rotated, elements) if mode == 1 else (elements, rotated)
    parts = [widen(part).astype(np.float32) for part in packed_parts(packed, first, second, scale)]
    turned, plain = (parts[0], parts[1]) if mode == 1 else (parts[1], parts[0])
    return np.concatenate([plain * np.repeat(parts[2], _TILE, -1), turned], -1)


@reference_by_name("aclnnMixedQuantSparseFlashMla", raw=True)
def mixed_quant_sparse_flash_mla(args: NamedArguments) -> dict[str, Any]:
    """The same with keys of 8 bits, whose scales and rotated parts lie beside them in the cache."""
    sizes = args["quantMode"], args["ropeHeadDim"], args["q"].shape[-1]
    kv = {kind: _unpacked(args[f"{kind}Kv"], *sizes) for kind in ("ori", "cmp") if args[f"{kind}Kv"] is not None}
    return _results(args, _SparseAttention(args, widen(args["q"]), kv), args["softmaxScale"])


@reference_by_name("aclnnSparseFlashMlaGrad")
def sparse_flash_mla_grad(args: NamedArguments) -> dict[str, Any]:
    """Of the queries, of both kinds of keys (which are values too) and of the sinks."""
    args["layoutKv"] = args["layoutKv"] or args["layoutQ"]
    attention = _SparseAttention(args, args["query"], {})
    scale, sinks = np.float32(args["scaleValue"]), args["sinks"]
    lse = args["lse"].squeeze(-3)
    dq = np.zeros(args["query"].shape, np.float32)
    gradients = {part.kind: np.zeros(part.kv.shape, np.float32) for part in attention.parts}
    norms = {part.kind: np.zeros(part.chosen.shape, np.float32) for part in attention.parts if part.chosen is not None}
    dsinks = None if sinks is None else np.zeros(sinks.shape, np.float32)
    for row in attention.rows():
        q, dy, keys = args["query"][row.where][row.row], args["dOut"][row.where][row.row], np.concatenate(row.keys)
        probabilities = np.exp((q @ keys.T) * scale - lse[row.where][row.row][:, None])
        inner = dy @ keys.T
        # With a sink the probabilities do not add up to 1: it lowers all of them by the same factor.
        derivative = softmax_derivative(probabilities, inner) * scale
        dq[row.where][row.row] = derivative @ keys
        dkv = derivative.T @ q + probabilities.T @ dy
        ends = np.cumsum([len(tokens) for tokens in row.tokens])
        for part, tokens, block, share in zip(
            attention.parts, row.tokens, np.split(dkv, ends[:-1]), np.split(probabilities, ends[:-1], -1)
        ):
            np.add.at(gradients[part.kind][part.side.at(row.number)], (tokens, 0), block)
            if part.chosen is not None:
                places = np.flatnonzero(np.isin(part.chosen[row.where][row.row, 0], tokens))
                norms[part.kind][row.where][row.row, 0, places] = share.mean(0)
        if dsinks is not None:
            sunk = np.exp(sinks - lse[row.where][row.row])
            dsinks -= (probabilities * inner).sum(-1) * sunk
    return {
        "dQueryOut": dq,
        "dOriKvOut": gradients.get("ori"),
        "dCmpKvOut": gradients.get("cmp"),
        "dSinksOut": dsinks,
        "oriSoftmaxL1Norm": norms.get("ori"),
        "cmpSoftmaxL1Norm": norms.get("cmp"),
    }


@reference_by_name("aclnnSparseFlashMlaSoftmaxL1Norm")
def sparse_flash_mla_softmax_l1_norm(args: NamedArguments) -> dict[str, Array]:
    """The mean over heads of the probabilities of every key, or of every chosen one."""
    query, lse, scale = args["q"], args["softmaxLse"].squeeze(-3), np.float32(args["softmaxScale"])
    names = ("cuSeqlensQOptional", "sequsedQOptional"), ("cuSeqlensKOptional", "sequsedKOptional")
    queries = side(query, args["layoutQ"], names[0], args["cuSeqlensQ"], args["sequsedQ"])
    keys = side(args["k"], args["layoutK"], names[1], args["cuSeqlensK"], args["sequsedK"])
    chosen = args["sparseIndices"]
    chosen = None if chosen is None or chosen.size == 0 else chosen
    packed = query.ndim == 3
    last = chosen.shape[-1] if chosen is not None else args["maxSeqlenK"] if packed else args["k"].shape[1]
    result = np.zeros((*query.shape[:-2], 1, last), np.float32)
    for number in range(len(queries)):
        where, many, own_keys = queries.at(number), queries.lengths[number], keys.take(args["k"], number)[:, 0]
        residual = 0 if args["cmpResidualK"] is None else int(args["cmpResidualK"][number])
        seen = seen_keys(many, len(own_keys), args["cmpRatio"], residual, args["maskMode"] == _CAUSAL)
        for row in range(many):
            tokens = places = np.arange(seen[row])
            if chosen is not None:
                indices = chosen[where][row, 0]
                places = np.flatnonzero((indices >= 0) & (indices < seen[row]))
                tokens = indices[places]
            scores = (query[where][row] @ own_keys[tokens].T) * scale
            result[where][row, 0, places] = np.exp(scores - lse[where][row][:, None]).mean(0)
    return {"out": result}


def _with_compressed_lengths(args: NamedArguments) -> NamedArguments:
    """The lengths of the compressed keys: one for so many tokens of the sequence's own, of which some are left over."""
    used = args["sequsedKv"]
    if used is None and args["oriKv"] is not None and not (args["layoutKv"] or "").startswith("PA"):
        used = np.full(len(args["oriKv"]), args["oriKv"].shape[1])
    args["sequsedOriKv"] = used
    if used is not None:
        args["sequsedCmpKv"], args["cmpResidualKv"] = used // args["cmpRatio"], used % args["cmpRatio"]
    return args


@reference_by_name("aclnnSparseAttnSharedkv")
def sparse_attn_shared_kv(args: NamedArguments) -> dict[str, Any]:
    """As SparseFlashMla, with the compressed keys' lengths from the sequences' own."""
    return _results(args, _SparseAttention(_with_compressed_lengths(args), args["q"], {}), args["softmaxScale"])


@reference_by_name("aclnnKvQuantSparseAttnSharedkv", raw=True)
def kv_quant_sparse_attn_shared_kv(args: NamedArguments) -> dict[str, Any]:
    """The same with keys of 8 bits: the rotated part of 64 BF16, 448 elements, and a BF16 scale for each 64 of them.

    The scales' data type is the kernel's (kv_quant_sparse_attn_sharedkv_scfa_block_vector.h); the document says
    FLOAT8_E8M0. Products with them are BF16.
    """
    kv = {}
    for kind in ("ori", "cmp"):
        if args[f"{kind}Kv"] is not None:
            parts = packed_parts(
                args[f"{kind}Kv"],
                (args["ropeHeadDim"], ml_dtypes.bfloat16),
                (448, args[f"{kind}Kv"].dtype),
                (448 // args["tileSize"], ml_dtypes.bfloat16),
            )
            rotated, elements, scales = (widen(part).astype(np.float32) for part in parts)
            plain = (elements * np.repeat(scales, args["tileSize"], -1)).astype(ml_dtypes.bfloat16)
            kv[kind] = np.concatenate([plain.astype(np.float32), rotated], -1)
    return _results(args, _SparseAttention(_with_compressed_lengths(args), widen(args["q"]), kv), args["softmaxScale"])
