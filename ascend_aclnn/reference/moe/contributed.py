"""References of the contributed operators of ops-transformer/moe."""

from __future__ import annotations

from typing import Any, Optional

import numpy as np

from ascend_aclnn.numerics import Array, round_into, widen
from ascend_aclnn.reference._quantise import unpacked
from ascend_aclnn.reference._rows import check_range
from ascend_aclnn.reference.declare import reference


def _weight(packed: Array, scale: Array, offset: Optional[Array], group: int) -> Array:
    """(w + offset) * scale of one expert (k, n); packed in squares of 16 by 16, eight numbers of 4 bits in an INT32.

    The sum is FLOAT16, the product of the scale's data type.
    """
    squares = widen(unpacked(np.ascontiguousarray(packed))).astype(np.float32)  # k / 16, n / 16, 16, 16
    whole = squares.swapaxes(1, 2).reshape(squares.shape[0] * 16, -1)
    if offset is not None:
        whole = (whole + widen(np.repeat(offset, group, 0)[: len(whole)])).astype(np.float16).astype(np.float32)
    return _rounded(whole * widen(np.repeat(scale, group, 0)[: len(whole)]), scale)


def _rounded(x: Array, like: Array) -> Array:
    return np.asarray(x.astype(like.dtype).astype(np.float32))


@reference("aclnnMoeFFN", raw=True)
def moe_ffn(
    x: Array,
    weight13: Array,
    scale13: Array,
    weight2: Array,
    scale2: Array,
    experts: Array,
    rows: Array,
    positions: Array,
    weights: Array,
    offset13: Optional[Array],
    offset2: Optional[Array],
    group: int,
    topk: int,
    *,
    out: tuple[Array],
) -> None:
    """Rows sorted by expert go through its layer: (swish(a) * b) @ w2, where (a, b) = x @ w13; each token adds up its own.

    Between the steps everything is of x's data type.
    """
    check_range("expandedExpertIdxOptional", experts, 0, len(weight13))
    check_range("sortedRowIdxOptional", rows, 0, len(x))
    check_range("expandedRowIdxOptional", positions, 0, max(len(rows), 1))
    wide, results = widen(x), np.zeros((len(rows), x.shape[1]), np.float32)
    for expert in np.unique(experts).tolist():
        of_expert = np.flatnonzero(experts == expert)
        both: Any = wide[rows[of_expert]] @ _weight(weight13[expert], scale13[expert], _of(offset13, expert), group)
        gate, linear = np.split(_rounded(both, x), 2, -1)
        inner = _rounded(gate / (1 + np.exp(-gate)) * linear, x)
        second = inner @ _weight(weight2[expert], scale2[expert], _of(offset2, expert), group)
        results[of_expert] = _rounded(second, x)
    round_into(out[0], (results[positions] * widen(weights)[..., None]).sum(1))


def _of(offset: Optional[Array], expert: int) -> Optional[Array]:
    return None if offset is None else offset[expert]
