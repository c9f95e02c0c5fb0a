"""Widening, rounding and threads: what the references compute with.

Low-precision floats are widened to float32, computed, and rounded once, half to even: ``widen`` and ``round_into`` are
the two ends of that (``convert``). ``elementwise`` does all three in blocks that fit the caches (``blocks``); ``for_blocks``
spreads blocks over the cores, ``scratch`` lends each thread memory (``threads``).
"""

from __future__ import annotations

import ml_dtypes
import numpy as np

from ascend_aclnn.core.errors import DataError
from ascend_aclnn.numerics.blocks import SMALL, Axes, along, elementwise, of_all, placed, prepared
from ascend_aclnn.numerics.choose import where
from ascend_aclnn.numerics.convert import (
    BLOCK,
    codes,
    in_parts,
    is_integer,
    is_low_precision,
    move,
    round_into,
    rounded_to,
    rows_per_block,
    set_all,
    widen,
    widened,
    workplace,
)
from ascend_aclnn.numerics.products import matmul, matmul_few_rows, multiply_bf16, multiply_narrow
from ascend_aclnn.numerics.programs import Placed
from ascend_aclnn.numerics.rows import add_rows
from ascend_aclnn.numerics.sums import (
    add_columns,
    column_sums,
    row_maximum,
    row_products,
    running_sum,
    running_sum_into,
    sum_of_squares,
    sum_over,
    sum_type,
)
from ascend_aclnn.numerics.threads import Array, for_blocks, scratch, share, side_by_side, thread_count
from ascend_aclnn.numerics.tracing import Traced

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)

__all__ = [
    "BFLOAT16",
    "BLOCK",
    "SMALL",
    "Array",
    "Axes",
    "DataError",
    "Placed",
    "Traced",
    "add_columns",
    "add_rows",
    "along",
    "codes",
    "column_sums",
    "elementwise",
    "for_blocks",
    "in_parts",
    "is_integer",
    "is_low_precision",
    "matmul",
    "matmul_few_rows",
    "move",
    "multiply_bf16",
    "multiply_narrow",
    "of_all",
    "placed",
    "prepared",
    "round_into",
    "rounded_to",
    "row_maximum",
    "row_products",
    "rows_per_block",
    "running_sum",
    "running_sum_into",
    "scratch",
    "set_all",
    "share",
    "side_by_side",
    "sum_of_squares",
    "sum_over",
    "sum_type",
    "thread_count",
    "where",
    "widen",
    "widened",
    "workplace",
]
