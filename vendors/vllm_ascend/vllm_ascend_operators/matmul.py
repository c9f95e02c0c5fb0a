"""Products of the groups of tokens that experts get with the experts' matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional

import numpy as np

import ascend_aclnn as aclnn
from ascend_aclnn.numerics import Array, DataError, matmul, widen
from ascend_aclnn.reference import reference
from ascend_aclnn.reference.matmul.quant import product_with_int4
from ascend_aclnn.rules import words_of
from ascend_aclnn.rules.language import *
from vllm_ascend_operators.quantised import matrix, product, quantised, swiglu

# ------------------------------------------------------------------------------------------------- without quantisation

_GROUPED = (
    only_products("A2 A3"),
    required_lists("x", "weight", "out"),
    dtypes(HALVES, "x"),
    same_dtype("x", "weight", "out"),
    dtypes(INDICES, "groupList"),
    tiling(
        rank(2, "x", "groupList", "out"),
        rank(3, "weight"),
        define(k="weight[0][2 if transposeWeight else 1]", n="weight[0][1 if transposeWeight else 2]"),
        require("len(x) == 1"),
        require("len(weight) == 1"),
        require("len(out) == 1"),
        require("x[0][1] == k", argument="weight"),
        require("groupList[1] == 2"),
        output_shape(out="[(x[0][0], n)]"),
    ),
)

for _name in ("aclnnMoeGroupedMatmul", "aclnnMoeGroupedMatmulWeightNz"):
    aclnn.register_operator(f"""
    aclnnStatus {_name}GetWorkspaceSize(
        const aclTensorList *x, const aclTensorList *weight, const aclTensor *groupList, bool transposeWeight,
        aclTensorList *out, uint64_t *workspaceSize, aclOpExecutor **executor);
    """)

rule("aclnnMoeGroupedMatmul", *_GROUPED)
rule(
    "aclnnMoeGroupedMatmulWeightNz",
    *_GROUPED,
    require("all(n % 16 == 0 for shape in weight for n in shape[1:])", argument="weight"),
)


@reference("aclnnMoeGroupedMatmul", "aclnnMoeGroupedMatmulWeightNz")
def moe_grouped_matmul(x: Sequence[Array], weight: Sequence[Array], groups: Array, transpose: bool) -> Any:
    """Rows by the matrices of their experts; ``groups`` has pairs of an expert and how many rows it gets. Others are 0."""
    matrices = weight[0].swapaxes(-1, -2) if transpose else weight[0]
    out = np.zeros((len(x[0]), matrices.shape[-1]), np.float32)
    for expert, rows in _spans(np.cumsum(groups[:, 1]), len(out)):
        number = groups[expert, 0]
        if not 0 <= number < len(matrices):
            raise DataError("groupList", f"names expert {number}; there are {len(matrices)}")
        out[rows] = matmul(x[0][rows], matrices[number])
    return [out]


def _spans(ends: Array, most: int) -> list[tuple[int, slice]]:
    """The groups that have rows, and their rows; ``ends`` rise to at most ``most``."""
    starts = np.concatenate([np.zeros(1, ends.dtype), ends[:-1]])
    if ends.size and not ((starts <= ends).all() and ends[-1] <= most):
        raise DataError("groupList", f"leads to ends of groups {ends.tolist()}; they must rise to at most {most}")
    return [(group, slice(start, end)) for group, (start, end) in enumerate(zip(starts, ends)) if end > start]


# ------------------------------------------------------------------------------------------------- SwiGLU, quantised

_NOT_NEGATIVE = {name: tiling(not_negative(name)) for name in ("limited", "swigluLimit")}


def _only_int8_rows(call: Call) -> Optional[str]:
    weights = call.items("weight")
    if call["x"].dtype.name == "INT8" and all(weight.dtype.name in ("INT8", "INT4", "INT32") for weight in weights):
        return None
    return f"the reference takes INT8 by INT8 or INT4, not {call['x'].dtype.name} by {weights[0].dtype.name}"


def _swiglu_quant(
    x: Array,
    weights: Any,
    scales: Any,
    assist: Any,
    x_scale: Array,
    ends: Array,
    limit: float,
    y: Array,
    y_scale: Array,
) -> None:
    """x @ weight * scales, SwiGLU, and each row quantised by its largest magnitude. ``assist`` is that of 4-bit weights."""
    y[...], y_scale[...] = 0, 0
    for group, rows in _spans(ends, len(x)):
        if scales[group].dtype.kind in "iu":
            scaled = product_with_int4(x[rows], weights[group], scales[group], assist[group])
            scaled = scaled * widen(x_scale)[rows, None]
        else:
            scaled = product(x[rows], weights[group]) * widen(x_scale)[rows, None] * widen(scales[group])
        y[rows], row_scales = quantised(swiglu(scaled, limit))
        y_scale[rows] = row_scales[:, 0]


for _name in ("aclnnGroupedMatmulSwigluQuant", "aclnnGroupedMatmulSwigluQuantWeightNZ"):
    _words = words_of(_name)
    aclnn.register_operator(
        f"""
        aclnnStatus {_name}GetWorkspaceSize(
            const aclTensor *x, const aclTensor *weight, const aclTensor *bias, const aclTensor *offset,
            const aclTensor *weightScale, const aclTensor *xScale, const aclTensor *groupList, double limited, aclTensor *output,
            aclTensor *outputScale, aclTensor *outputOffset, uint64_t *workspaceSize, aclOpExecutor **executor);
        """,
        optional=("bias", "offset", "outputOffset"),
    )
    rule(_name, _words, _NOT_NEGATIVE["limited"], replaces=True)


@reference(
    "aclnnGroupedMatmulSwigluQuant",
    "aclnnGroupedMatmulSwigluQuantWeightNZ",
    raw=True,
    unsupported=_only_int8_rows,
    replaces=True,
)
def grouped_matmul_swiglu_quant(
    x: Array,
    weight: Array,
    bias: Optional[Array],
    offset: Optional[Array],
    weight_scale: Array,
    x_scale: Array,
    groups: Array,
    limit: float,
    *,
    out: Sequence[Array],
) -> None:
    _swiglu_quant(x, matrix(weight, 3), weight_scale, bias, x_scale, groups, limit, out[0], out[1])


for _name in ("aclnnGroupedMatmulSwigluQuantV2", "aclnnGroupedMatmulSwigluQuantWeightNzV2"):
    _words = words_of(_name)
    aclnn.register_operator(
        f"""
        aclnnStatus {_name}GetWorkspaceSize(
            const aclTensor *x, const aclTensorList *weight, const aclTensorList *weightScale,
            const aclTensorList *weightAssistMatrix, const aclTensor *bias, const aclTensor *xScale, const aclTensor *smoothScale,
            const aclTensor *groupList, int64_t dequantMode, int64_t dequantDtype, int64_t quantMode, int64_t groupListType,
            const aclIntArray *tuningConfigOptional, double swigluLimit, aclTensor *output, aclTensor *outputScale,
            uint64_t *workspaceSize, aclOpExecutor **executor);
        """,
        optional=("weightAssistMatrix", "bias", "smoothScale"),
    )
    rule(_name, _words, _NOT_NEGATIVE["swigluLimit"], empty_lists="weightAssistMatrix", replaces=True)


@reference(
    "aclnnGroupedMatmulSwigluQuantV2",
    "aclnnGroupedMatmulSwigluQuantWeightNzV2",
    raw=True,
    unsupported=_only_int8_rows,
    replaces=True,
)
def grouped_matmul_swiglu_quant_v2(
    x: Array,
    weight: Sequence[Array],
    weight_scale: Sequence[Array],
    assist: Any,
    bias: Optional[Array],
    x_scale: Array,
    smooth: Optional[Array],
    groups: Array,
    dequant_mode: int,
    dequant_dtype: int,
    quant_mode: int,
    list_type: int,
    tuning: Optional[Sequence[int]],
    limit: float,
    *,
    out: Sequence[Array],
) -> None:
    """One weight for all groups, or one for each; ``list_type`` 0: ``groups`` are ends, 1: they are sizes."""
    single = len(weight) == 1 and weight[0].ndim in (3, 5)
    weights = matrix(weight[0], 3) if single else [matrix(one, 2) for one in weight]
    scales, assists = (weight_scale[0], assist and assist[0]) if single else (weight_scale, assist)
    ends = np.cumsum(groups) if list_type == 1 else groups
    _swiglu_quant(x, weights, scales, assists, x_scale, ends, limit, out[0], out[1])


aclnn.register_operator(
    """
    aclnnStatus aclnnGroupedMatmulSwigluQuantWeightNzTensorListGetWorkspaceSize(
        const aclTensor *x, const aclTensorList *weight, const aclTensor *bias, const aclTensor *offset,
        const aclTensorList *weightScale, const aclTensor *xScale, const aclTensor *groupList, float swigluLimit,
        aclTensor *output, aclTensor *outputScale, aclTensor *outputOffset, uint64_t *workspaceSize, aclOpExecutor **executor);
    """,
    optional=("bias", "offset", "outputOffset"),
)

rule(
    "aclnnGroupedMatmulSwigluQuantWeightNzTensorList",
    only_products("A2 A3"),
    required_lists("weight", "weightScale"),
    require("all(len(w.storage) == 4 for w in weight)"),
    define(m="x[0]", k="x[1]", n="weightScale[0][0]"),
    rank(2, "x", "output"),
    rank(1, "weightScale", "xScale", "groupList", "outputScale"),
    require("n % 2 == 0", argument="weightScale"),
    require("all(w == ((n // 32, k // 16, 16, 32) if len(w) == 4 else (k, n)) for w in weight)"),
    require("len(weightScale) == len(weight)", "all(s == (n,) for s in weightScale)"),
    has_shape(xScale="(m,)", output="(m, n // 2)", outputScale="(m,)"),
    require("1 <= groupList[0] <= len(weight)"),
    require("n // 2 <= 4096", argument="weightScale"),
    require("k < 65536", argument="x"),
    dtypes("INT8", "x", "weight", "output"),
    dtypes(FLOATS, "weightScale", "xScale"),
    dtypes("INT64", "groupList"),
    dtypes("FLOAT", "outputScale"),
    no_private_format("x", "output"),
    tiling(not_negative("swigluLimit")),
    infer_shape(output="(m, n // 2)", outputScale="(m,)", outputOffset="None"),
    source="csrc/gmm/grouped_matmul_swiglu_quant_weight_nz_tensor_list",
)


@reference("aclnnGroupedMatmulSwigluQuantWeightNzTensorList", raw=True)
def grouped_matmul_swiglu_quant_tensor_list(
    x: Array,
    weight: Sequence[Array],
    bias: Optional[Array],
    offset: Optional[Array],
    weight_scale: Sequence[Array],
    x_scale: Array,
    groups: Array,
    limit: float,
    *,
    out: Sequence[Array],
) -> None:
    """``groups`` are the ends of the experts' rows."""
    _swiglu_quant(x, [matrix(one, 2) for one in weight], weight_scale, None, x_scale, groups, limit, out[0], out[1])
