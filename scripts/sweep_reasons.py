"""Why cells of the sweep exceed its limits, in the words of docs/results: by operator, "family: name" or the part up to a comma.

``bench_sweep.py`` prints them beside such cells and says where there is none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Optional

_FLOAT64 = "float64 sums in one order, with the helper and without; torch adds in float32"
_WINDOWS = (
    "widened to float32 first; each place of a window is a pass over a row of results, which torch keeps in registers"
)
_TILES = "several operations pass through tiles in the first-level cache; torch keeps a vector in registers"
_CALL = "the call itself and some NumPy calls on few elements"
_BLAS = "NumPy's BLAS has no instructions for bfloat16, and the helper uses AVX512-BF16 alone: elsewhere products are float32's"

SLOWER = {
    "math: reduce_sum": _FLOAT64,
    "math: mean": _FLOAT64,
    "math: linalg_vector_norm": _FLOAT64,
    "math: cumsum": "float64 sums, an addition after the other in each row; torch's are of float32",
    "math: topk": "a row is widened, read for its columns' largest and again for what exceeds their limit",
    "math: lerp": "both forms of the formula are computed and one is chosen, in tiles",
    "conversion: flip": "NumPy copies element by element where the last axis is reversed",
    "conversion: constant_pad_nd": "rows are copied one by one, and the call itself",
    "conversion: split_tensor": "one copy for each part, and the call itself",
    "conversion: permute": "NumPy copies element by element where the innermost axis changes",
    "conversion: slice": "NumPy copies row by row",
    "conversion: repeat": "NumPy copies row by row",
    "conversion: inplace_fill_scalar": "NumPy fills 16-bit elements one by one",
    "activation: softmax": _FLOAT64,
    "activation: softmax_backward": _FLOAT64,
    "activation: log_softmax": _FLOAT64,
    "activation: log_softmax_backward": _FLOAT64,
    "activation: gelu": "a tail without lost digits takes fifty operations and exp; of 16 bits a table of all values, looked up",
    "norm: layer_norm": "mean and variance are float64 sums in one order, one pass over the row for each",
    "norm: layer_norm_backward": "the gradients of weight and bias are summed in float64, row by row, in a pass of their own",
    "norm: group_norm": "mean and variance are float64 sums in one order, one pass over the group for each",
    "norm: batch_norm": "mean and variance are float64 sums over planes",
    "norm: add_rms_norm": "the sum is rounded to the data type before its norm, as in the kernel, in a pass of its own",
    "index: index": "NumPy gathers row by row",
    "index: index_add": "rows are gathered by runs, added up in float64 and rounded once",
    "index: index_put_impl": "NumPy scatters row by row into memory that it has to read as well",
    "index: gather": "NumPy gathers element by element, after the indices have been checked",
    "attention: incre_flash_attention": "keys and values are widened to float32 first; torch multiplies 16 bits where it can",
    "index: index_select": "NumPy copies row by row, and the call itself",
    "index: scatter_add": "added up in float64 by NumPy, element by element, and rounded once; torch adds in the data type",
    "index: scatter": "a copy, into which NumPy scatters element by element after the indices have been checked",
    "index: embedding_dense_backward": "rows of equal words are added up in float64 and rounded once",
    "index: nonzero": "the coordinates of each axis are found first and joined then",
    "loss: nll_loss": _CALL,
    "loss: cross_entropy_loss": "float64 sums, and logarithms of them by NumPy between two calls of the helper",
    "loss: smooth_l1_loss": "both forms of the formula are computed and one is chosen, in tiles",
    "attention: flash_attention_score": "products, scaling, mask and exponentials are passes of their own over a block of scores",
    "matmul: mm": _BLAS,
    "matmul: addmm": _BLAS,
    "matmul: batch_mat_mul": _BLAS,
    "conv: convolution": "one product for each place of the kernel, because one long product sums in another order",
    "conv: conv_tbc": "one product for each place of the kernel, because one long product sums in another order",
    "pooling: max_pool2d_with_indices": _WINDOWS,
    "pooling: max_pool2d_with_indices_backward": _WINDOWS,
    "pooling: avg_pool2d": _WINDOWS,
    "pooling: adaptive_avg_pool2d": _FLOAT64,
    "moe: moe_gating_top_k_softmax": "softmax is some NumPy calls on all scores, by one thread",
}

_PASSES = "some ten passes over blocks of a megabyte, each of them a call that gives the interpreter lock away; torch passes once"
_HALF = (
    "float16 is widened in six passes over a block and rounded in thirteen: NumPy's own conversions, two to three times as "
    "slow, take an element at a time (conversions.md has both); torch passes once"
)
_SUMS = (
    "widened, converted to float64 and added up in passes of their own: 0.4 ns an element beyond what has to be read"
)

_PLACES = "some ten NumPy operations on a block of planes for each place of a window"

SLOWER_ALONE = {
    "index: inplace_masked_fill_scalar": "NumPy writes through a mask element by element",
    "pooling: max_pool2d_with_indices": _PLACES,
    "pooling: max_pool2d_with_indices_backward": _PLACES,
    "pooling: avg_pool2d": _PLACES,
    "moe: moe_gating_top_k_softmax": "NumPy sorts 64-bit integers of value and place, rows of 64",
    "posembedding: rotary_position_embedding": _CALL,
    "math: reduce_sum": _SUMS,
    "math: mean": _SUMS,
    "math: linalg_vector_norm": _SUMS,
    "math: cumsum": "NumPy's running sum of float64 along rows takes 3.5 ns an element, and its rounding to float16 2.4",
    "math: erf": "a quotient of polynomials takes twenty-five operations, each a pass over a block",
    "activation: gelu": "a tail without lost digits takes fifty operations and exp, each a pass over a block",
    "activation: softmax_backward": _SUMS,
    "activation: log_softmax_backward": _SUMS,
    "norm: layer_norm": _SUMS,
    "norm: layer_norm_backward": _SUMS,
    "norm: group_norm": _SUMS,
    "pooling: adaptive_avg_pool2d": _SUMS,
    "index: index_add": "six passes: rows gathered, runs added, targets gathered, results scattered",
    "loss: nll_loss": _CALL,
}

LARGER = {
    "math: unique2": "a sorted copy of all elements with their places",
    "index: masked_select": "the selected elements, before they are stored",
    "index: nonzero": "room for the coordinates of all elements, and those that are not 0 before they are stored",
    "matmul: mm": "both operands in float32, as BLAS takes them",
    "matmul: addmm": "both operands in float32, as BLAS takes them",
    "matmul: batch_mat_mul": "both operands and the product in float32, as BLAS takes them",
    "conv: convolution": "the padded input in float32, and one product",
    "attention: flash_attention_score": "queries, keys and values in float32, and a block of scores on each thread",
    "math: cumsum": "float64 sums of a block, whose columns are whole",
}

_KEPT = "arrays of a block, 1 or 2 MB each, that each thread keeps"


def reason(reasons: Mapping[str, str], operator: str) -> Optional[str]:
    """Why an operator exceeds a limit, None where nothing says so; "nll_loss, 2048 rows" has nll_loss's reason."""
    return reasons.get(operator, reasons.get(operator.partition(",")[0]))


def slower(operator: str, dtype: str, with_helper: bool) -> Optional[str]:
    """Why a cell is slower than torch beyond the limit of its table."""
    if with_helper:
        element_wise = operator.partition(":")[0] in ("math", "activation", "loss", "foreach")
        return reason(SLOWER, operator) or (_TILES if element_wise else None)
    other = {"fp16": _HALF, "bf16": _PASSES}
    return reason(SLOWER_ALONE, operator) or other.get(dtype) or reason(SLOWER, operator)


def larger(operator: str, with_helper: bool) -> Optional[str]:
    """Why a cell takes more memory than the limit."""
    return reason(LARGER, operator) or (None if with_helper else _KEPT)
