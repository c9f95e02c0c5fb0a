"""Grouped products of lists (part of ops-transformer/gmm): groups of rows, or of the inner axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional

import ml_dtypes
import numpy as np

from ascend_aclnn.numerics import Array, DataError, is_integer, matmul, round_into, widen
from ascend_aclnn.reference._gates import activated
from ascend_aclnn.reference._quantise import store
from ascend_aclnn.reference.declare import reference
from ascend_aclnn.reference.gmm._groups import ENDS, parts, scale_bits
from ascend_aclnn.reference.matmul.quant import exact_product, fixed_scale, integers
from ascend_aclnn.reference.matmul.weights import dequantised_weight

_INT4 = np.dtype(ml_dtypes.int4)
_ACTIVATIONS = ("", "relu", "gelu_tanh", "", "fast_gelu", "silu")  # actType

List = Optional[Sequence[Any]]


def _unsupported(call: Any) -> Optional[str]:
    """Shared exponents, and offsets of packed weights whose scales are the bits of floats."""
    scales, offsets, antiquant = (
        (call.get(name) or [None])[0] for name in ("scaleOptional", "offsetOptional", "antiquantScaleOptional")
    )
    x, weight = call["x"][0].dtype.name, call["weight"][0].dtype.name
    if scales is not None and scales.size and scales.dtype.name == "FLOAT8_E8M0":
        return "the NumPy backend has no grouped products with FLOAT8_E8M0 scales"
    if x == "INT8" and weight in ("INT4", "INT32") and offsets is not None and offsets.size:
        return "the NumPy backend has no offsets of INT4 weights"
    if x in ("FLOAT", "FLOAT16", "BF16") and weight.startswith("INT") and (antiquant is None or not antiquant.size):
        return "the NumPy backend takes weights of integers with antiquant_scale only"
    return None


class Parameters:
    """What goes with the weights: tensors for each weight, or rows of one tensor."""

    def __init__(self, weights: Sequence[Array], lists: dict[str, List]) -> None:
        self.weights = [integers(w) for w in weights]
        present = {name: items for name, items in lists.items() if items and items[0] is not None}
        self.lists = {name: items for name, items in present.items() if items[0].size}
        self.single = len(weights) == 1 and weights[0].ndim > 2
        self.packed = False  # whether weights for INT8 rows were INT4, eight in an INT32

    def weight(self, group: int) -> Array:
        if self.single and not 0 <= group < len(self.weights[0]):  # phase one takes any list for a weight of one group
            raise DataError("groupListOptional", f"has group {group}; weight has {len(self.weights[0])}")
        return self.weights[0][group] if self.single else self.weights[min(group, len(self.weights) - 1)]

    def of(self, name: str, group: int) -> Optional[Array]:
        items = self.lists.get(name)
        if items is None:
            return None
        operand = items[0][group] if self.single else items[min(group, len(items) - 1)]
        return np.asarray(operand)


def _product(x: Array, parameters: Parameters, group: int, tokens: Optional[Array], operation: str, out: Array) -> None:
    """One group's product into its place; the operands' data types decide how it is scaled."""
    weight, bias, scale = parameters.weight(group), parameters.of("bias", group), parameters.of("scale", group)
    if not is_integer(x.dtype):
        antiquant = parameters.of("antiquant_scale", group)
        if antiquant is not None:
            right = dequantised_weight(weight, antiquant, parameters.of("antiquant_offset", group))
        else:
            right = widen(weight)
        y = matmul(widen(x), right)
        store_sum(out, y, bias)
        return
    if (
        weight.dtype in (_INT4, np.dtype(np.int8))
        and scale is not None
        and _is_int4_weight(weight, scale, parameters.packed)
    ):
        right = dequantised_weight(weight, scale_bits(scale), None)
        # 8-bit rows are taken apart into halves, the lower ones less 8: bias has what that takes away.
        y = matmul(x.astype(np.float32) - (8 if bias is not None else 0), right)
        y = y if bias is None else y + widen(bias).reshape(-1)
        store(out, y if tokens is None else y * tokens[:, None])
        return
    total = exact_product(x, weight)
    whole = bias is not None and is_integer(bias.dtype)
    total = total + bias if bias is not None and whole else total
    if out.dtype == np.int32:
        round_into(out, total)
        return
    y = total.astype(np.float32) if scale is None else total.astype(np.float32) * fixed_scale(scale)
    if tokens is not None:
        y = y * tokens[:, None]
    if bias is not None and not whole:
        y = y + widen(bias)
    offset = parameters.of("offset", group)
    y = y if offset is None else y + offset
    store(out, activated(y, operation))


def store_sum(out: Array, y: Array, bias: Optional[Array]) -> None:
    round_into(out, y if bias is None else y + widen(bias))


def _is_int4_weight(weight: Array, scale: Array, packed: bool) -> bool:
    """4-bit weights (unpacked ones are INT8) whose scales are the bits of floats, for outputs or groups of rows."""
    return scale.dtype in (np.uint64, np.int64) and (scale.ndim > 1 or weight.dtype == _INT4 or packed)


def grouped_matmul(
    xs: Sequence[Array],
    weights: Sequence[Array],
    lists: dict[str, List],
    tokens: List,
    groups: Any,
    kind: int,
    list_type: int,
    operation: str,
    outs: Sequence[Array],
) -> None:
    """The products of ``kind`` -1 (lists, tensor by tensor), 0 (groups of rows) or 2 (groups of the inner axis)."""
    parameters = Parameters(weights, lists)
    parameters.packed = xs[0].dtype == np.int8 and weights[0].dtype == np.int32
    xs = [integers(x) for x in xs]
    if kind == 2:
        x, weight = widen(xs[0]), widen(weights[0])
        for target in outs:
            target[...] = 0
        for number, part in parts(groups, list_type):
            round_into(outs[0][number], matmul(x[:, part], weight[part]))
        return
    if kind == -1 or (len(xs) == len(outs) > 1):
        for group, (x, out) in enumerate(zip(xs, outs)):
            _product(x, parameters, group, None, operation, out)
        return
    if len(xs) > 1:  # several inputs, one output: their rows lie one after the other
        ends = np.cumsum([len(x) for x in xs])
        for group, (x, end) in enumerate(zip(xs, ends)):
            _product(x, parameters, group, None, operation, outs[0][end - len(x) : end])
        return
    rows = xs[0]
    scales = None if not tokens or tokens[0] is None else widen(tokens[0]).reshape(-1)
    if len(outs) == 1:
        outs[0][...] = 0
    for number, part in parts(groups, list_type):
        out = outs[0][part] if len(outs) == 1 else outs[number]
        _product(rows[part], parameters, number, None if scales is None else scales[part], operation, out)


@reference("aclnnGroupedMatmul", "aclnnGroupedMatmulV2", "aclnnGroupedMatmulV3", raw=True, unsupported=_unsupported)
def grouped_matmul_v3(
    x: Sequence[Array],
    weight: Sequence[Array],
    bias: List,
    scale: List,
    offset: List,
    antiquant_scale: List,
    antiquant_offset: List,
    groups: Any,
    split_item: int,
    kind: Optional[int] = None,
    *,
    out: tuple[Sequence[Array]],
) -> None:
    """groupList has the ends of the groups; the first version derives from the lists whether it splits."""
    outs = out[0]
    if kind is None:
        several = len(x) > 1 and (len(outs) > 1 or split_item in (0, 1))
        kind = -1 if several or len(weight) == len(x) == 1 else 0
    lists = {
        "bias": bias,
        "scale": scale,
        "offset": offset,
        "antiquant_scale": antiquant_scale,
        "antiquant_offset": antiquant_offset,
    }
    grouped_matmul(x, weight, lists, None, groups, kind, ENDS, "", outs)


@reference(
    "aclnnGroupedMatmulV4", "aclnnGroupedMatmulV5", "aclnnGroupedMatmulWeightNz", raw=True, unsupported=_unsupported
)
def grouped_matmul_v5(
    x: Sequence[Array],
    weight: Sequence[Array],
    bias: List,
    scale: List,
    offset: List,
    antiquant_scale: List,
    antiquant_offset: List,
    tokens: List,
    groups: Optional[Array],
    activation_input: List,
    activation_scale: List,
    activation_offset: List,
    split_item: int,
    kind: int,
    list_type: int,
    act_type: int,
    *tuning: Any,
    out: tuple[Any, Any, Any],
) -> None:
    """As aclnnGroupedMatmulV3, with scales of rows and an activation."""
    lists = {
        "bias": bias,
        "scale": scale,
        "offset": offset,
        "antiquant_scale": antiquant_scale,
        "antiquant_offset": antiquant_offset,
    }
    grouped_matmul(x, weight, lists, tokens, groups, kind, list_type, _ACTIVATIONS[act_type], out[0])
