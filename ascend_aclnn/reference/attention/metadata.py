"""Plans of how cores share the work of the operators that follow: here the first core does everything.

CANN's plans come from its model of what each core's work costs, and change no result; the consumers' references read none
of them. The layouts are those of the operators' documents and of ops-transformer's ``*_metadata.h``.
"""

from __future__ import annotations

from typing import Any, Optional

import numpy as np

from ascend_aclnn import catalog
from ascend_aclnn.numerics import Array, DataError, round_into
from ascend_aclnn.reference._named import NamedArguments, reference_by_name, short
from ascend_aclnn.reference.declare import reference

_FLASH, _QUANT_FLASH = (
    [short(p.name) for p in catalog.get(name).parameters]
    for name in ("aclnnFlashAttnMetadata", "aclnnQuantFlashAttnMetadata")
)


def _batch(args: NamedArguments) -> int:
    ends, used = _first(args, "cuSeqlensQ", "cuSeqLensQ"), _first(args, "sequsedQ", "seqUsedQ")
    if used is not None:
        return int(used.size)
    return int(ends.size - 1) if ends is not None else int(args["batchSize"])


def _first(args: NamedArguments, *names: str) -> Optional[Array]:
    """The first of the arrays that is there and has elements."""
    there = (args.get(name) for name in names)  # spellings, some of which no operator has
    return next((array for array in there if array is not None and array.size), None)


def _lengths(args: NamedArguments, side: str) -> Array:
    """Of the sequences of a side, whether their totals, their lengths, or only the longest is given."""
    used, ends = (
        _first(args, f"{a}{side}", f"{b}{side}") for a, b in (("seqused", "seqUsed"), ("cuSeqlens", "cuSeqLens"))
    )
    lengths = used.reshape(-1) if used is not None else np.diff(ends.reshape(-1)) if ends is not None else None
    if lengths is not None:
        if (lengths < 0).any():
            raise DataError(f"cuSeqlens{side}Optional", f"and seqused give the lengths {lengths}; none may be negative")
        return lengths
    most = args.get(f"maxSeqlen{side}") or args.get(f"maxSeqLen{side}") or 0
    return np.full(max(_batch(args), 0), max(most, 0), np.int64)


def _queries(args: NamedArguments) -> int:
    return int(_lengths(args, "Q").sum())


def _longest(args: NamedArguments, side: str) -> int:
    return int(_lengths(args, side).max(initial=0))


def _plan(length: int, *items: int) -> dict[str, Any]:
    plan = np.zeros(length, np.int32)
    plan[: len(items)] = items
    return {"metadata": plan, "metaData": plan}


# --------------------------------------------------------------------------------------------------- by heads of sequences


@reference_by_name(
    "aclnnSparseFlashMlaMetadata", "aclnnQuantSparseFlashMlaMetadata", "aclnnMixedQuantSparseFlashMlaMetadata"
)
def heads_of_mla(args: NamedArguments) -> dict[str, Any]:
    """36 cores: does it work; the head of a sequence, row and column where it starts, and ends; workspace; columns at most."""
    return _plan(1024, 1, 0, 0, 0, _batch(args) * args["numHeadsKv"])


@reference_by_name("aclnnLightningIndexerV2Metadata", "aclnnQuantLightningIndexerV2Metadata")
def heads_of_indexer(args: NamedArguments) -> dict[str, Any]:
    """36 cores: does it work; the head of a sequence, row and column where it starts, and ends; workspace."""
    return _plan(1024, 1, 0, 0, 0, _batch(args) * args["numHeadsK"])


@reference("aclnnFlashAttnMetadata", "aclnnQuantFlashAttnMetadata", raw=True)
def heads_of_flash(*values: Any, out: Any) -> None:
    """One section, which is never merged, of blocks of 128 rows and columns; from 16 on where each core starts and ends."""
    args, plan = NamedArguments(zip(_FLASH if len(values) == 16 else _QUANT_FLASH, values)), out[0]
    args.operator = "aclnnFlashAttnMetadata"
    items = (1, 0, 128, 128, *([0] * 12), 0, 0, 0, _batch(args) * args["numHeadsKv"])
    if plan.size < len(items):
        raise DataError("metaData", f"has {plan.size} items; it must have at least {len(items)}")
    words = np.zeros(plan.size, np.int64)
    words[: len(items)] = items
    round_into(plan, words.reshape(plan.shape))


# --------------------------------------------------------------------------------------------------- by queries


@reference_by_name("aclnnSparseFlashMlaGradMetadata")
def queries_of_mla_gradient(args: NamedArguments) -> dict[str, Any]:
    """Queries in all, of each core, one less, how many cores take those, how many work; the longest keys of both kinds."""
    total = _queries(args)
    longest = [_longest(args, side) if args[f"has{side}"] else 0 for side in ("OriKv", "CmpKv")]
    return _plan(1024, total, total, total - 1, 0, min(total, 1), *longest)


@reference_by_name("aclnnSparseFlashMlaSoftmaxL1NormMetadata")
def queries_of_norm(args: NamedArguments) -> dict[str, Any]:
    """Queries in all, of each core, rounded down, how many cores take those, how many work."""
    total = _some(args)
    return _plan(64, total, total, total, 0, 1)


@reference_by_name("aclnnDenseLightningIndexerKLLossGradMetadata")
def queries_of_dense_loss(args: NamedArguments) -> dict[str, Any]:
    """Queries in all, of each core, rounded down, how many cores take those, how many work; the longest keys."""
    total = _some(args)
    return _plan(64, total, total, total, 0, 1, _longest(args, "K"))


@reference_by_name("aclnnDenseLightningIndexerSoftmaxLseV2Metadata")
def queries_of_dense_lse(args: NamedArguments) -> dict[str, Any]:
    """Cores with more queries, cores with fewer, how many queries those have, and these."""
    return _plan(64, 1, 0, _some(args), 0)


def _other_layout(call: Any) -> Optional[str]:
    return "the layout of Ascend950's plan is not documented" if call.product == "950" else None


@reference_by_name("aclnnSparseLightningIndexerKLLossGradMetadata", unsupported=_other_layout)
def queries_of_sparse_loss(args: NamedArguments) -> dict[str, Any]:
    """Cores, queries in all, of each core, five kept free; then where the cores start."""
    total = _queries(args)
    return _plan(64, 1, total, total, *([0] * 5), 0, *([total] * 24))


def _some(args: NamedArguments) -> int:
    total = _queries(args)
    if total <= 0:
        raise DataError("cuSeqlensQOptional", "gives no queries; there must be some")
    return total


@reference_by_name("aclnnGenericBlockSparseAttentionMetadata")
def generic_block_sparse_attention_metadata(args: NamedArguments) -> dict[str, Array]:
    """Its document calls the plan opaque: a program may not read it, and here its consumer does not."""
    return {"metadata": np.zeros(1024, np.int32)}


# --------------------------------------------------------------------------------------------------- contributed


@reference_by_name("aclnnSparseAttnSharedkvMetadata", "aclnnKvQuantSparseAttnSharedkvMetadata")
def heads_of_shared_kv(args: NamedArguments) -> dict[str, Any]:
    """As of SparseFlashMla. With keys of 8 bits a ninth number of each core, how many steps its loop has, stays 0."""
    return _plan(1024, 1, 0, 0, 0, _batch(args) * args["numHeadsKv"])


@reference_by_name("aclnnQuantLightningIndexerMetadata")
def heads_of_quant_indexer(args: NamedArguments) -> dict[str, Any]:
    """As of LightningIndexerV2: packed queries have running totals, one for each sequence."""
    lengths = args["actualSeqLengthsQuery"]
    batch = args["batchSize"] if lengths is None or lengths.size == 0 else lengths.size
    return _plan(1024, 1, 0, 0, 0, batch * args["numHeadsK"])


_CORES = 24  # that the two plans below have room for


@reference_by_name("aclnnQuantSalsIndexerMetadata")
def heads_of_sals_indexer(args: NamedArguments) -> dict[str, Any]:
    """Where each core ends: heads of sequences, rows, columns; then how many cores work."""
    items = np.zeros(3 * _CORES + 1, np.int32)
    items[0], items[3 * _CORES] = args["batchSize"] * args["keyHeadNum"], 1
    return _plan(1024, *items)


@reference_by_name("aclnnKvQuantSparseFlashAttentionMetadata")
def heads_of_quant_flash(args: NamedArguments) -> dict[str, Any]:
    """As above, then no merging: 0 tasks and cores of it; rows and columns of a block, rows of a merged part."""
    if args["kvHeadNum"] <= 0:
        raise DataError("kvHeadNum", f"is {args['kvHeadNum']}; it must be above 0")
    rows = args["queryHeadNum"] // args["kvHeadNum"] * args["sparseShardSize"]
    items = np.zeros(3 * _CORES, np.int32)
    items[0] = args["batchSize"] * args["kvHeadNum"]
    return _plan(1024, *items, 1, 0, 0, rows, 1024, 8)


@reference_by_name("aclnnStemIndexerMetadata", raw=True)
def heads_of_stem_indexer(args: NamedArguments) -> dict[str, Any]:
    """One section; from 16 on where each core starts and ends."""
    return _plan(args.outputs["metadata"].size, 1, *([0] * 15), 0, 0, 0, args["qSeqLens"].size * args["kvHeads"])


@reference_by_name("aclnnQuantBlockSparseAttnMetadata", raw=True)
def heads_of_quant_block_sparse(args: NamedArguments) -> dict[str, Any]:
    """One section; from 8 on for each core whether it works, and the head of a sequence, row and column of start and end."""
    heads = args["batchSize"] * args["numHeadsQ"]
    return _plan(args.outputs["metadata"].size, 1, *([0] * 7), 1, 0, 0, 0, heads)
