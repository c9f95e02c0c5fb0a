"""Calls of operators whose example would be too long for a page: arguments in the order of the parameters, and outputs.

Arrays are new each time, and Tensors of the backend in use.
"""

from __future__ import annotations

from typing import Any, Callable, NamedTuple

import numpy as np

import ascend_aclnn as aclnn
from ascend_aclnn import ops


class ExampleCall(NamedTuple):
    """The arguments of an operator in the order of its parameters, and the outputs that an example passes."""

    arguments: list[Any]
    options: dict[str, Any]


_HANS = 32768  # elements: the fewest that HansEncode takes
_ROOM = -(-(_HANS + _HANS // 64 + 8448 + 512 + 64) // 4) * 4  # bytes of fixed, with its header and tail


def _hans_encode() -> ExampleCall:
    x = np.random.default_rng(1).standard_normal(_HANS).astype(np.float16)
    out = tuple(np.zeros(size // 2, np.float16) for size in (_HANS, _ROOM, _HANS))
    return ExampleCall([x, np.zeros(256, np.int32), True, False], {"out": out})


def _hans_decode() -> ExampleCall:
    arguments, options = _hans_encode()
    with aclnn.use_backend("numpy"):
        counts, mantissa, fixed, others = ops.hans_encode(*arguments, **options)
    return ExampleCall([mantissa, fixed, others, counts, False], {"out": np.zeros(_HANS, np.float16)})


def _quant_convolution_weight_nz() -> ExampleCall:
    random = np.random.default_rng(2)
    x, weight = (random.integers(-128, 128, s).astype(np.int8) for s in ((2, 40, 4, 6, 5), (20, 40, 2, 3, 3)))
    scale, bias = (
        (np.abs(random.standard_normal(20)) * 1e-3).astype(np.float32),
        random.standard_normal(20).astype(np.float32),
    )
    blocked = aclnn.empty(weight.shape, "INT8", format="FRACTAL_Z_3D", storage_shape=(2 * 2 * 3 * 3, 2, 16, 32))
    blocked.assign(weight)
    ones = (1, 1, 1)
    tensors = [aclnn.asarray(x, format="NCDHW"), blocked, aclnn.asarray(bias), aclnn.asarray(scale)]
    out = aclnn.empty((2, 20, 3, 4, 3), np.float16, format="NCDHW")
    return ExampleCall([*tensors, None, ones, (0, 0, 0), ones, False, None, 1, 0, None], {"out": out})


SAMPLES: dict[str, Callable[[], ExampleCall]] = {
    "aclnnHansEncode": _hans_encode,
    "aclnnHansDecode": _hans_decode,
    "aclnnQuantConvolutionWeightNz": _quant_convolution_weight_nz,
}


__all__ = ["SAMPLES", "ExampleCall"]
