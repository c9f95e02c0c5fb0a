"""What the rules of quantised products share."""

from __future__ import annotations

from typing import NamedTuple

from ascend_aclnn.core.dtypes import DataType
from ascend_aclnn.core.errors import PARAM_INVALID
from ascend_aclnn.rules.language import *
from ascend_aclnn.rules.language.call import is_transposed

A2 = ("A2", "A3")


class Product(NamedTuple):
    """The sizes of x1 @ x2."""

    batch: Shape
    m: int
    k: int
    n: int

    @property
    def shape(self) -> Shape:
        return (*self.batch, self.m, self.n)


def unpacked_shape(call: Call, name: str) -> Shape:
    """The shape in elements: INT32 (and a FLOAT weight) holds eight 4-bit numbers."""
    sizes = call.shape(name)
    call.require(len(sizes) >= 2, name, f"has rank {len(sizes)} (shape {sizes}); it must be at least 2")
    packed = call.dtype(name) is DataType.INT32 or (name != "x1" and call.dtype(name) is DataType.FLOAT)
    axis = len(sizes) - (2 if is_transposed(call[name]) else 1)  # the one that is stored last
    return tuple(n * 8 if i == axis else n for i, n in enumerate(sizes)) if packed else sizes


def product_of(call: Call, left: str = "x1", right: str = "x2", trans_left: str = "", trans_right: str = "") -> Product:
    """The product of two operands whose last two axes may be transposed; the batches broadcast."""
    a, b = unpacked_shape(call, left), unpacked_shape(call, right)
    m, k = (a[-1], a[-2]) if trans_left and call[trans_left] else (a[-2], a[-1])
    n, k2 = (b[-2], b[-1]) if trans_right and call[trans_right] else (b[-1], b[-2])
    text = f"has shape {call.shape(right)}, which does not fit {call.python_name(left)} {call.shape(left)}"
    call.require(k == k2, right, text)
    batch = broadcast_shapes(a[:-2], b[:-2])
    if batch is None:
        call.refuse(right, f"has shape {b}, whose batch does not broadcast with that of {a}")
    return Product(batch, m, k, n)


def product_shape_of(*names: str) -> ShapeRule:
    return lambda call: product_of(call, *names).shape


def not_given(name: str, status: int = PARAM_INVALID) -> Check:
    """An optional tensor is not given (or is empty): it is there for later versions."""

    def check(call: Call) -> None:
        given = call.is_present(name) and call[name].size != 0
        call.require(not given, name, "is given; it must be None", status)

    return check


TRANSPOSES = ("transposeX1", "transposeX2")


def mx_operands(x1_scale: str, x2_scale: str) -> tuple[Check, ...]:
    """Blocks of 32 with shared exponents: scales lie as their operands do, pairs of them in place of the summed axis."""
    return (
        required(x1_scale, status=PARAM_INVALID),
        dtypes("FLOAT8_E8M0", x1_scale, x2_scale),
        rank(2, 6, "x1", "x2"),
        define(
            pairs="ceil_div(x1[-2] if transposeX1 else x1[-1], 64)",
            rows="x1[-1] if transposeX1 else x1[-2]",
            columns="x2[-2] if transposeX2 else x2[-1]",
        ),
        has_shape(
            **{
                x1_scale: "(*x1[:-2], pairs, rows, 2) if transposeX1 else (*x1[:-2], rows, pairs, 2)",
                x2_scale: "(*x2[:-2], columns, pairs, 2) if transposeX2 else (*x2[:-2], pairs, columns, 2)",
            }
        ),
    )
