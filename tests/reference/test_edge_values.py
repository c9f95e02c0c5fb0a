"""Infinities, NaN and overflow, as the public kernels of ops-nn and ops-math have them.

Expected values are worked out by hand along each kernel's instructions, which the comment of a case names.
"""

from __future__ import annotations

from typing import Any, Callable

import ml_dtypes
import numpy as np
import pytest

from ascend_aclnn import DataType, ops

INF, NAN, BIG = np.inf, np.nan, 3e38
F32, F16, BF16 = np.float32, np.float16, np.dtype(ml_dtypes.bfloat16)


def f32(*values: float) -> Any:
    return np.array(values, F32)


def adam_w_v2(grad: float, m: float, v: float) -> Any:
    """The variable and the moments after a step with beta1 = beta2 = 0.5 and no decay."""
    state = f32(1), f32(m), f32(v)
    ops.apply_adam_wv2(*state, None, f32(grad), f32(0), 0.5, 0.5, 0.5, 0.0, 0.0, False, False)
    return np.concatenate(state)


CASES: dict[str, tuple[Callable[[], Any], list[Any]]] = {
    # lerp_f32_*.h: below a weight of a half start + w (end - start), else end + (w - 1) (end - start)
    "lerp, infinite end": (lambda: ops.lerp(f32(1, 1, 1), f32(INF, INF, INF), f32(0.25, -1, 2)), [INF, -INF, INF]),
    "lerp, infinite start": (lambda: ops.lerp(f32(INF, INF), f32(1, 1), f32(0.25, 0.75)), [NAN, INF]),
    "lerp, weight NaN": (lambda: ops.lerp(f32(1), f32(2), f32(NAN)), [NAN]),
    "lerp, the step overflows": (lambda: ops.lerp(f32(-BIG, -BIG), f32(BIG, BIG), f32(0.25, 0.75)), [INF, -INF]),
    # foreach_lerp_list.h: from start for weights between -1/2 and 1/2
    "foreach lerp": (
        lambda: ops.foreach_lerp_list([f32(1, 1)], [f32(INF, INF)], [f32(-0.25, -1)])[0],
        [-INF, NAN],
    ),
    # softmax_grad_*.h: y grad + y (-sum(y grad))
    "softmax, infinite gradient": (lambda: ops.softmax_backward(f32(INF, 1), f32(0.5, 0.5), 0), [NAN, -INF]),
    "softmax, infinite gradient of a zero": (lambda: ops.softmax_backward(f32(INF, 1), f32(0, 1), 0), [NAN, NAN]),
    "softmax, the sum overflows": (lambda: ops.softmax_backward(f32(BIG, BIG), f32(1, 1), 0), [-INF, -INF]),
    # sigmoid_grad_f32.h and sigmoid_grad_aicpu.cpp: ((1 - y) y), conjugate for complex numbers, times the gradient
    "sigmoid, the product overflows": (lambda: ops.sigmoid_backward(f32(0, 1), f32(1e30, 1e30)), [NAN, -INF]),
    "sigmoid, infinite gradient": (lambda: ops.sigmoid_backward(f32(INF, INF), f32(1, 0.5)), [NAN, INF]),
    "sigmoid, complex": (
        lambda: ops.sigmoid_backward(np.complex64([1 + 2j, 1]), np.complex64([0.5 + 1j, 2j])),
        [1.25 + 2.5j, 4 - 2j],
    ),
    # gelu_grad_dag.h: 1 / (1 + e^p) and a curve whose NaN count as 0
    "gelu": (lambda: ops.gelu_backward(f32(1, 1, 1, 1, 1), f32(INF, -INF, NAN, 1e20, -1e20)), [1, 0, NAN, 1, 0]),
    "gelu, infinite gradient": (lambda: ops.gelu_backward(f32(INF, INF), f32(INF, -INF)), [INF, NAN]),
    "gelu v2, tanh": (
        lambda: ops.gelu_backward_v2(f32(1, 1, 1), f32(INF, -INF, NAN), "tanh"),
        [1, 0, NAN],
    ),
    # gelu_grad_v2_dag.h, erf: 0.5 + 0.5 erf + x e^(-x^2 / 2) / sqrt(2 pi), where infinity times 0 is NaN
    "gelu v2, erf": (
        lambda: ops.gelu_backward_v2(f32(1, 1, 1, 1, 1), f32(INF, -INF, NAN, 1e18, -1e18), "none"),
        [NAN, NAN, NAN, 1, 0],
    ),
    # softplus_v2_grad_kernel.h: grad / (1 + e^(-beta x)), or grad where beta x is above the threshold
    "softplus": (
        lambda: ops.softplus_backward(f32(1, 1, 1, 1, 2), f32(INF, -INF, NAN, -200, 200), 1, 20),
        [1, 0, NAN, 0, 2],
    ),
    "softplus, infinite gradient": (
        lambda: ops.softplus_backward(f32(INF, INF, INF), f32(1, -200, 30), 1, 20),
        [INF, NAN, INF],
    ),
    # aclnn_prod.cpp casts to the output's type, half precision to float32; the kernel multiplies in float32
    "prod, half precision": (lambda: [ops.prod(np.array([60000, 2, 0.25], F16), DataType.FLOAT16)], [30000]),
    "prod, float32": (lambda: [ops.prod(f32(BIG, 2, 0.25), DataType.FLOAT)], [INF]),
    "prod, infinity times zero": (lambda: [ops.prod(f32(INF, 0), DataType.FLOAT)], [NAN]),
    "prod, NaN": (lambda: [ops.prod(f32(NAN, 0), DataType.FLOAT)], [NAN]),
    "prod, wraps": (lambda: [ops.prod(np.array([100, 3], np.int8), DataType.INT8)], [44]),
    # apply_adam_w_v2_fp.h: m + (1 - beta1)(grad - m); then m / (sqrt(v / c2) + eps)
    "adam w v2, infinite gradient": (lambda: adam_w_v2(INF, 0, 0), [NAN, INF, INF]),
    "adam w v2, infinite moment": (lambda: adam_w_v2(INF, INF, 1), [NAN, NAN, INF]),
    "adam w v2, the square overflows": (lambda: adam_w_v2(1e30, 0, 0), [1, 5e29, INF]),
    "adam w v2, NaN": (lambda: adam_w_v2(NAN, 0, 1), [NAN, NAN, NAN]),
    "adam w v2, zero over zero": (lambda: adam_w_v2(0, 0, 0), [NAN, 0, 0]),
    # aclnn_addmv.cpp: with alpha 0 only beta self
    "addmv, alpha 0": (
        lambda: ops.addmv(f32(1, INF), f32(NAN, 1, INF, 1).reshape(2, 2), f32(1, 1), 0.0, 2.0),
        [2, INF],
    ),
    # cast_struct.h (of Ascend 950): to INT64 by way of the vector unit's conversion, which saturates and makes NaN 0
    "cast to int64": (
        lambda: ops.cast(f32(NAN, INF, -INF, 1e30, 2.9), DataType.INT64),
        [0, 2**63 - 1, -(2**63), 2**63 - 1, 2],
    ),
    "cast to int32": (
        lambda: ops.cast(f32(NAN, INF, -INF, 1e30, -2.9), DataType.INT32),
        [0, 2**31 - 1, -(2**31), 2**31 - 1, -2],
    ),
    "cast to bool": (lambda: ops.cast(f32(NAN, 0, 1e-40), DataType.BOOL), [True, False, True]),
}


@pytest.mark.parametrize("name", CASES)
def test_edge_values(name: str) -> None:
    call, expected = CASES[name]
    with np.errstate(all="ignore"):
        found = np.asarray([x[()] if isinstance(x, np.ndarray) else x for x in call()])
    np.testing.assert_array_equal(found, np.asarray(expected).astype(found.dtype))
