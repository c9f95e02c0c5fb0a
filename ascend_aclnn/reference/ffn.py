"""Feed-forward layers (ops-transformer/ffn): two products with an activation between them, for one expert or several.

Between the inputs and the result everything is float32; the device rounds the inner rows to the type of the outer ones.
"""

from __future__ import annotations

from typing import Any, Optional

import numpy as np

from ascend_aclnn.numerics import Array, is_integer, matmul, widen
from ascend_aclnn.reference._gates import activated, swiglu
from ascend_aclnn.reference._named import Given, reference_by_name
from ascend_aclnn.reference.declare import reference
from ascend_aclnn.reference.gmm._groups import parts
from ascend_aclnn.reference.matmul.quant import exact_product, fixed_scale, integers
from ascend_aclnn.reference.matmul.weights import dequantised_weight

_ENDS, _SIZES = 0, 1
_PLAIN = {"fastgelu": "fast_gelu", "gelu": "gelu_tanh", "relu": "relu", "silu": "silu"}
_GATED = {"geglu": "gelu_tanh", "swiglu": "silu", "reglu": "relu"}


def _activate(y: Array, name: str) -> Array:
    """Gated ones multiply the first half of the columns with the activated second half."""
    if name in _PLAIN:
        return activated(y, _PLAIN[name])
    first, second = np.split(y, 2, -1)
    return np.asarray(first * activated(second, _GATED[name]))


class _Expert:
    """The parameters of one expert: rows of those of all, or all there are."""

    def __init__(self, given: Given, number: int) -> None:
        self.given = given
        self.number = number
        self.several = given["weight1"].ndim == 3

    def of(self, name: str) -> Optional[Array]:
        values: Optional[Array] = self.given[name]
        if values is None or values.size == 0:
            return None
        return np.asarray(values[self.number]) if self.several else values

    def product(self, x: Array, layer: str) -> Any:
        """x by a layer's weight, restored if it is quantised, and its bias; of 8 bits the sums are scaled."""
        weight, bias = self.of("weight" + layer), self.of("bias" + layer)
        assert weight is not None
        weight = integers(weight)
        scale = self.of("antiquantScale" + layer)
        if scale is not None:
            weight = dequantised_weight(weight, scale, self.of("antiquantOffset" + layer))
        y: Any = exact_product(x, weight)
        y = y if bias is None else y + bias
        deq_scale = self.of("deqScale" + layer)
        return y if deq_scale is None else y.astype(np.float32) * fixed_scale(deq_scale)

    def layers(self, x: Array, activation: str) -> Array:
        inner = _activate(np.asarray(self.product(x, "1"), np.float32), activation)
        scale, offset = self.of("scale"), self.of("offset")
        if scale is not None and is_integer(x.dtype):
            inner = inner * scale if offset is None else inner * scale + offset
            inner = np.clip(np.rint(inner), -128, 127).astype(np.int8)
        return np.asarray(self.product(inner, "2"), np.float32)


@reference_by_name("aclnnFFN", "aclnnFFNV2", "aclnnFFNV3")
def ffn(given: Given) -> dict[str, Array]:
    """activation(x @ weight1 + bias1) @ weight2 + bias2; each expert takes its rows of x."""
    x, tokens, activation = given["x"], given["expertTokens"], given["activation"].lower()
    rows = widen(x.reshape(-1, x.shape[-1]))
    made = np.zeros((len(rows), given["weight2"].shape[-1]), np.float32)
    if tokens is None or len(tokens) == 0:
        made[:] = _Expert(given, 0).layers(rows, activation)
    else:
        for number, own in parts(tokens, _ENDS if given["tokensIndexFlag"] else _SIZES):
            if own.stop > own.start:
                made[own] = _Expert(given, number).layers(rows[own], activation)
    return {"y": made.reshape(*x.shape[:-1], made.shape[-1])}


# --------------------------------------------------------------------------------------------------- windows of Swin transformers


@reference_by_name("aclnnSwinTransformerLnQkvQuant", raw=True)
def swin_transformer_ln_qkv_quant(given: Given) -> dict[str, Any]:
    """Queries, keys and values of the windows of a normalised image: (layer_norm(x) in int8 @ weight^T + bias) * scale."""
    x = widen(given["x"]).astype(np.float32)
    high, wide, rows, columns = (given[name] for name in ("oriHeight", "oriWeight", "hWinSize", "wWinSize"))
    centred = x - x.mean(-1, keepdims=True)
    normed = centred / np.sqrt(np.square(centred).mean(-1, keepdims=True) + np.float32(given["epsilon"]))
    normed = normed * widen(given["gamma"]) + widen(given["beta"])
    image = normed.reshape(len(x), high // rows, rows, wide // columns, columns, -1)
    windows = image.swapaxes(2, 3).reshape(-1, rows * columns, x.shape[-1])
    scaled = windows * widen(given["quantScale"]) + widen(given["quantOffset"])
    quantised = np.clip(np.rint(scaled), -128, 127).astype(np.int8)
    total = exact_product(quantised, given["weight"].T) + given["bias"]
    made = np.asarray(total, np.float32) * fixed_scale(given["dequantScale"])
    split = made.reshape(*made.shape[:2], 3, given["headNum"], -1)
    names = "queryOutputOut", "keyOutputOut", "valueOutputOut"
    return {name: split[:, :, number].swapaxes(1, 2) for number, name in enumerate(names)}


# --------------------------------------------------------------------------------------------------- experimental


@reference("aclnnMatmulSwiglu")
def matmul_swiglu(x: Array, weight: Array, bias: Array, transpose_weight: bool) -> Array:
    """silu(gate) * up of [gate | up] = x @ weight + bias."""
    return swiglu(matmul(x, weight.T if transpose_weight else weight) + bias, True)


@reference("aclnnSwigluGatedMlp")
def swiglu_gated_mlp(x: Array, gate_up: Array, down: Array, cube_math_type: int) -> Array:
    """(silu(gate) * up) @ down of [gate | up] = x @ gateUp."""
    return matmul(swiglu(matmul(x, gate_up), True), down)
