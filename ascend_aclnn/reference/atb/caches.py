"""ATB's operations that write and read caches of pages."""

from __future__ import annotations

import numpy as np

from ascend_aclnn.numerics import DataError
from ascend_aclnn.reference._rows import check_range
from ascend_aclnn.reference.atb._operations import Arguments, operation_reference
from ascend_aclnn.reference.attention._pages import write_rows


def _write_caches(args: Arguments, fractal: bool) -> None:
    """Keys and values (tokens, heads, width) at their slots. Pages are (tokens, heads, width), or fractal."""
    for rows, cache in ((args["key"], args["keyCacheOut"]), (args["value"], args["valueCacheOut"])):
        if rows is None or cache is None:
            continue
        pages = cache
        if fractal:  # (pages, heads * width / c, tokens, c)
            pages = cache.swapaxes(1, 2)
            rows = rows.reshape(len(rows), *pages.shape[2:])
        write_rows(pages, rows, args["slotMapping"], "slotMapping")


@operation_reference("ReshapeAndCache", raw=True)
def reshape_and_cache(args: Arguments) -> None:
    """Slots below 0 are left out, as the kernel does."""
    _write_caches(args, args["kvCacheCfg"] == 2)


@operation_reference("ReshapeAndCache", raw=True, product="310P")
def reshape_and_cache_310p(args: Arguments) -> None:
    """The caches of this product are always fractal."""
    _write_caches(args, True)


@operation_reference("PagedCacheLoad", raw=True)
def paged_cache_load(args: Arguments) -> None:
    """The tokens of all sequences one after the other; those of each begin so many tokens into its pages."""
    fractal = args["kvCacheCfg"] == 0
    lengths = args["contextLens"].reshape(-1).astype(np.int64)
    counts = np.diff(lengths) if args["isSeqLensCumsumMode"] else lengths
    starts, table = args["seqStarts"], args["blockTables"]
    if (counts < 0).any() or counts.sum() > len(args["keyOut"]) or len(counts) > len(table):
        text = f"are {lengths.tolist()}; {len(args['keyOut'])} rows and {len(table)} rows of blockTables hold less"
        raise DataError("contextLens", text)
    number = np.repeat(np.arange(len(counts)), counts)
    place = np.arange(len(number)) - np.repeat(np.cumsum(counts) - counts, counts)
    for cache, target in ((args["keyCache"], args["keyOut"]), (args["valueCache"], args["valueOut"])):
        pages = cache.swapaxes(1, 2) if fractal else cache
        size = pages.shape[1]
        page, token = np.divmod(place, size)
        first = 0 if starts is None else starts[number] // size
        check_range("blockTables", page + first, 0, table.shape[1])
        chosen = table[number, page + first]
        check_range("blockTables", chosen, 0, len(pages))
        target[: len(number)] = pages[chosen, token].reshape(len(number), *target.shape[1:])
