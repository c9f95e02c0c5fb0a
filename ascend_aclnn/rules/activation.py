"""Rules of ops-nn/activation."""

from __future__ import annotations

import math
from typing import Any

from ascend_aclnn.core.dtypes import DataType
from ascend_aclnn.core.errors import PARAM_NULLPTR, RUNTIME_ERROR
from ascend_aclnn.rules.language import *

# Some operators shut BF16 out on two old products only, and so let it pass on 310B and 310.
NOT_910_310P: DtypeSet = {"910 310P": FLOATS_WITHOUT_BF16, "": FLOATS}


def _value(name: str, allowed: str, test: Any) -> Check:
    """The value of an aclScalar passes a test; ``allowed`` says it in words."""

    def check(call: Call) -> None:
        value = number(call, name)
        if not isinstance(value, complex):
            call.require(test(value), name, f"is {value}; it must be {allowed}")

    return check


def _not_negative(name: str) -> Check:
    return _value(name, "0 or more", lambda value: not value < 0)


def _as_float(*names: str) -> Check:
    """Scalars that can be cast to FLOAT; absent ones pass."""

    def check(call: Call) -> None:
        for name in names:
            fits = not call.is_present(name) or can_cast(call.dtype(name), DataType.FLOAT)
            call.require(fits, name, f"has dtype {call.dtype(name).name}, which cannot be cast to FLOAT")

    return check


# ------------------------------------------------------------------------------------------------------ one input


def _formatted(source: str, target: str) -> tuple[Check, ...]:
    return (same_format(source, target),)


forms(
    "Celu",
    unary(
        NOT_910_310P,
        cast=dtype_of,
        extra=lambda *names: (_as_float("alpha"), _value("alpha", "something else than 0", lambda value: value != 0)),
    ),
    inplace="selfRef selfRef",
)
forms(
    "Elu",
    unary(
        f"{FLOATS_AND_DOUBLE} BF16", cast=dtype_of, extra=lambda *names: (_as_float("alpha", "scale", "inputScale"),)
    ),
    inplace="selfRef selfRef",
)
forms("Erfinv", unary(plus_bf16(f"{FLOATS_WITHOUT_BF16} BOOL {INTEGERS}"), cast=floated), inplace="selfRef selfRef")
forms("FastGelu", unary({PRODUCTS_WITH_BF16: FLOATS, "": ""}, extra=_formatted))
forms("Gelu", unary(FLOATS_OF_PRODUCT, extra=lambda *names: (no_private_format(*names),)))
forms("GeluV2", unary(FLOATS_OF_PRODUCT, most=None), "x y")
forms("Hardshrink", unary(NOT_910_310P, NOT_910_310P))
forms("Hardsigmoid", unary(plus_bf16(f"{FLOATS_WITHOUT_BF16} INT32"), extra=_formatted), inplace="self self")
forms("Hardswish", unary(FLOATS_OF_PRODUCT, FLOATS_OF_PRODUCT, most=None), inplace="self self")
forms("LeakyRelu", unary(plus_bf16(FLOATS_AND_DOUBLE), cast=dtype_of), inplace="selfRef selfRef")
forms("LogSigmoid", unary(FLOATS_OF_PRODUCT, most=None))
# The buffer is for other devices: no kernel writes it, and the one of torch_npu is empty.
rule(
    "aclnnLogSigmoidForward",
    *unary(FLOATS_OF_PRODUCT, most=None)("self", "out"),
    infer_shape(buffer=shape_of("self")),
    output_dtype(buffer=dtype_of("self")),
)
forms("Mish", unary(FLOATS_OF_PRODUCT), inplace="selfRef selfRef")
forms("Relu", unary(plus_bf16(f"{FLOATS_WITHOUT_BF16} INT8 UINT8 INT32 INT64")), inplace="selfRef selfRef")
_SELU = plus_bf16(f"{FLOATS_WITHOUT_BF16} INT32 INT8")
forms("Selu", unary(_SELU, _SELU, makes=dtype_of("self"), most=None), inplace="selfRef selfRef")
forms(
    "Shrink",
    unary(
        FLOATS_WITHOUT_BF16, FLOATS_WITHOUT_BF16, most=None, extra=lambda *n: (_not_negative("lambd"), *_formatted(*n))
    ),
)
forms(
    "Sigmoid",
    unary(
        plus_bf16(REAL_AND_COMPLEX),
        f"{FLOATS_AND_DOUBLE} {COMPLEX} BF16",
        changes=plus_bf16(f"{FLOATS_AND_DOUBLE} {COMPLEX}"),
    ),
    inplace="selfRef selfRef",
)
forms("Silu", unary(FLOATS_OF_PRODUCT, most=None))
forms(
    "Softshrink",
    unary(FLOATS_OF_PRODUCT, FLOATS_OF_PRODUCT, extra=lambda *names: (_not_negative("lambd"),)),
)
forms(
    "Softplus",
    unary(
        FLOATS_OF_PRODUCT,
        cast=dtype_of,
        extra=lambda *names: (takes_dtype(dtype_of("self"), "beta", "threshold"),),
    ),
)
forms("Swish", unary(FLOATS_OF_PRODUCT, extra=lambda *names: (_as_float("betaOptional"),)))


def _threshold(source: str, target: str) -> tuple[Check, ...]:
    takes = plus_bf16(f"{FLOATS_WITHOUT_BF16} INT8 UINT8 INT16 INT32 INT64")
    return (
        dtypes(takes, source),
        on_products(PRODUCTS_BEFORE_950, castable(source, target)),
        max_rank(8, source),
        output_shape(**{target: shape_of(source)}),
        output_dtype(**{target: dtype_of(source)}),
    )


forms("Threshold", _threshold, inplace="selfRef selfRef")


def _rrelu(source: str, target: str) -> tuple[Check, ...]:
    def noise(call: Call) -> None:
        fits = not call["training"] or call[source].size <= call["noise"].size
        call.require(fits, "noise", f"has {call['noise'].size} elements; training needs one for each of self")

    return (
        dtypes(FLOATS_OF_PRODUCT, source, "noise", target),
        dtypes(f"{FLOATS} DOUBLE", "lower", "upper"),
        same_dtype(source, "noise", target),
        output_shape(**{target: shape_of(source)}),
        noise,
        max_rank(32, source, "noise"),
        same_format(target, source, "noise"),
        output_dtype(**{target: dtype_of(source)}),
    )


forms("RReluWithNoise", _rrelu, inplace="self self")


def _add_relu(a: str, b: str, out: str) -> tuple[Check, ...]:
    common = promoted(a, b)
    takes = plus_bf16(f"{FLOATS_WITHOUT_BF16} {INTEGERS}")
    return (
        dtypes(takes, a, b),
        takes_dtype(common, "alpha"),
        castable(common, out),
        *pair(a, b, out=out),
        output_dtype(**{out: common}),
    )


forms("AddRelu", _add_relu, *PAIR)

# These three have no checks of their own in CANN, only what their registry lists.
_SAME = [f"{name} {name}" for name in FLOATS.split()]
rule(
    "aclnnHardSigmoid",
    only_products("950"),
    dtype_table("inputX out", *_SAME, "INT32 INT32"),
    tiling(output_shape(out=shape_of("inputX"))),
)
rule("aclnnHardSwish", only_products("950"), dtype_table("x out", *_SAME), tiling(output_shape(out=shape_of("x"))))
rule(
    "aclnnSquaredRelu",
    only_products(PRODUCTS_WITH_BF16),
    dtype_table("input out", *_SAME),
    tiling(output_shape(out=shape_of("input"))),
)


def _heaviside_size(call: Call) -> None:
    wanted, out = math.prod(broadcast_shape("input", "values")(call)), call["out"].size
    call.require(out == wanted, "out", f"has {out} elements; it must have {wanted}")


rule(
    "aclnnHeaviside",
    dtypes(FLOATS, "input", "values", "out"),
    max_rank(8, "input", "values"),
    _heaviside_size,
    infer_shape(out=broadcast_shape("input", "values")),
    output_dtype(out=dtype_of("input")),
)


def _channels(name: str) -> Any:
    def count(call: Call) -> int:
        sizes = call.shape(name)
        return sizes[1] if len(sizes) > 1 else 1

    return count


def _per_channel(call: Call) -> None:
    count, size = _channels("self")(call), call["weight"].size
    call.require(size in (1, count), "weight", f"has {size} elements; it must have 1 or {count}, the channels of self")


rule(
    "aclnnPrelu",
    dtypes(FLOATS_OF_PRODUCT, "self", "weight", "out"),
    castable(promoted("self", "weight"), "out"),
    max_rank(8, "self", "weight"),
    output_shape(out=shape_of("self")),
    _per_channel,
    output_dtype(out=promoted("self", "weight")),
)


def _weight_grad(call: Call) -> Shape:
    return call.shape("weight") if call["weight"].size == 1 else (_channels("self")(call),)


rule(
    "aclnnPreluBackward",
    dtypes(FLOATS_OF_PRODUCT, "self"),
    same_dtype("self", "gradOutput", "weight", "gradInput", "gradWeight"),
    max_rank(8, "gradOutput", "self", "weight"),
    when(lambda call: call["weight"].size != 1, rank(1, 8, "self")),
    _per_channel,
    output_shape(gradInput=shape_of("self"), gradWeight=_weight_grad),
    broadcastable("gradOutput", "self"),
    output_dtype(gradInput=dtype_of("self"), gradWeight=dtype_of("self")),
)


# ------------------------------------------------------------------------------------------------------ gradients


def _backward(
    takes: DtypeSet,
    *extra: Check,
    first: str = "gradOutput",
    second: str = "self",
    out: str = "gradInput",
    most: int = 8,
) -> tuple[Check, ...]:
    """A gradient and what it belongs to: one data type, one shape."""
    return (
        dtypes(takes, first, second),
        same_dtype(first, second, out),
        max_rank(most, first, second),
        same_shape(first, second),
        output_shape(**{out: shape_of(second)}),
        *extra,
        output_dtype(**{out: dtype_of(second)}),
    )


def _mixed_backward(
    takes: DtypeSet, *extra: Check, out: str = "gradInput", second: str = "self", first: str = "gradOutput"
) -> tuple[Check, ...]:
    """A gradient that broadcasts and promotes with what it belongs to."""
    common = promoted(first, second)
    return (
        dtypes(takes, first, second),
        castable(common, out),
        *extra,
        *pair(first, second, out=out),
        output_dtype(**{out: common}),
    )


_ANY_RANK = 99

rule(
    "aclnnEluBackward",
    dtypes(FLOATS_OF_PRODUCT, "gradOutput"),
    same_dtype("gradOutput", "selfOrResult"),
    _as_float("alpha", "scale", "inputScale"),
    castable("gradOutput", "gradInput"),
    max_rank(8, "gradOutput"),
    same_shape("gradOutput", "selfOrResult"),
    output_shape(gradInput=shape_of("gradOutput")),
    when(lambda call: bool(call["isResult"]), _not_negative("alpha")),
    output_dtype(gradInput=dtype_of("gradOutput")),
)
rule(
    "aclnnFastGeluBackward",
    *_backward({PRODUCTS_WITH_BF16: FLOATS, "": ""}, same_format("self", "gradOutput", "gradInput")),
)
rule(
    "aclnnGeluBackward",
    dtype_in(promoted("gradOutput", "self"), FLOATS_OF_PRODUCT, "self"),
    *pair("gradOutput", "self", out="gradInput"),
    output_dtype(gradInput=promoted("gradOutput", "self")),
)
rule(
    "aclnnGeluBackwardV2",
    dtype_in(promoted("gradOutput", "self"), FLOATS_OF_PRODUCT, "self"),
    has_dtype("gradInput", promoted("gradOutput", "self")),
    output_shape(gradInput=broadcast_shape("gradOutput", "self")),
    one_of("approximate", "none", "tanh"),
    output_dtype(gradInput=promoted("gradOutput", "self")),
)


rule(
    "aclnnHardshrinkBackward",
    dtypes(FLOATS_OF_PRODUCT, "gradOutput", "self", "gradInput"),
    max_rank(8, "gradOutput", "self", "gradInput"),
    castable(promoted("gradOutput", "self"), "gradInput"),
    unless_empty("gradOutput self", output_shape(gradInput=broadcast_shape("gradOutput", "self"))),
    output_dtype(gradInput=promoted("gradOutput", "self")),
)
rule(
    "aclnnHardsigmoidBackward",
    dtypes(FLOATS_OF_PRODUCT, "gradOutput", "self"),
    castable(promoted("gradOutput", "self"), "out"),
    max_rank(8, "gradOutput", "self"),
    same_shape("self", "gradOutput"),
    output_shape(out=shape_of("self")),
    output_dtype(out=promoted("gradOutput", "self")),
)
rule("aclnnHardswishBackward aclnnHardswishBackwardV2", *_backward(FLOATS_OF_PRODUCT, out="out"))
rule(
    "aclnnHardtanhBackward",
    dtypes(FLOATS_OF_PRODUCT, "gradOutput", "self", "out"),
    same_dtype("self", "gradOutput"),
    max_rank(8, "gradOutput", "self"),
    same_shape("self", "gradOutput"),
    infer_shape(out=shape_of("self")),
    output_dtype(out=dtype_of("self")),
)
rule(
    "aclnnLeakyReluBackward",
    dtypes(plus_bf16(f"{FLOATS_AND_DOUBLE} {INTEGERS} BOOL"), "negativeSlope"),
    when(lambda call: bool(call["selfIsResult"]), _not_negative("negativeSlope")),
    *_mixed_backward(plus_bf16(FLOATS_AND_DOUBLE), out="out"),
)
rule("aclnnLogSigmoidBackward", *_backward(FLOATS_OF_PRODUCT, most=_ANY_RANK))
rule(
    "aclnnMishBackward",
    dtypes(FLOATS_OF_PRODUCT, "gradOutput", "self", "gradInput"),
    *pair("gradOutput", "self", out="gradInput"),
    output_dtype(gradInput=promoted("gradOutput", "self")),
)
rule(
    "aclnnSeluBackward",
    *_backward(plus_bf16(f"{FLOATS_WITHOUT_BF16} INT32 INT8"), second="result", most=_ANY_RANK),
)
rule(
    "aclnnSigmoidBackward",
    dtypes(plus_bf16(f"{FLOATS_AND_DOUBLE} {COMPLEX}"), "gradOutput"),
    dtypes(f"{FLOATS_AND_DOUBLE} {COMPLEX} BF16", "output", "gradInput"),
    *_mixed_backward(f"{FLOATS_AND_DOUBLE} {COMPLEX} BF16", second="output"),
)


def _silu_dtypes(call: Call) -> None:
    if call.product == "950" and call.dtype("gradOutput") is not call.dtype("self"):
        return has_dtype("gradInput", fixed_dtype("FLOAT"))(call)
    return same_dtype("gradInput", "gradOutput", "self")(call)


rule(
    "aclnnSiluBackward",
    dtypes(FLOATS_OF_PRODUCT, "gradOutput", "self", "gradInput"),
    _silu_dtypes,
    max_rank(8, "gradOutput", "self"),
    on_products(PRODUCTS_BEFORE_950, same_shape("self", "gradOutput")),
    output_shape(gradInput=broadcast_shape("gradOutput", "self")),
    output_dtype(gradInput=promoted("gradOutput", "self")),
)
rule(
    "aclnnSoftshrinkBackward",
    dtypes(NOT_910_310P, "gradOutput", "self", "gradInput"),
    *pair("gradOutput", "self", out="gradInput"),
    _not_negative("lambda"),
    output_dtype(gradInput=promoted("gradOutput", "self")),
)
rule(
    "aclnnSoftplusBackward",
    dtypes(plus_bf16(FLOATS_AND_DOUBLE), "gradOutput", "gradInput"),
    dtypes(plus_bf16(f"{FLOATS_AND_DOUBLE} {INTEGERS} BOOL"), "self"),
    max_rank(8, "gradOutput", "self"),
    same_shape("self", "gradOutput"),
    output_shape(gradInput=shape_of("self")),
    output_dtype(gradInput=dtype_of("gradOutput")),
    nullable="beta threshold",
)
rule("aclnnSwishBackward", *_backward(FLOATS_OF_PRODUCT, _as_float("betaOptional")))


def _threshold_backward(call: Call) -> None:
    value = number(call, "threshold")
    zero = abs(value) <= 2.0**-23  # CANN's comparison with zero, which picks the kernel that also has INT64
    names = f"{FLOATS_WITHOUT_BF16} INT32 INT8 UINT8"
    late = f"{names} BF16 INT64" if zero else f"{names} BF16"
    dtypes({"950": late, "A2 A3": f"{names} BF16", "": names}, "gradOutput", "self")(call)


rule(
    "aclnnThresholdBackward",
    _threshold_backward,
    same_dtype("self", "gradOutput", "out"),
    *pair("gradOutput", "self", out="out"),
    output_dtype(out=dtype_of("self")),
)


def _bce_common(call: Call) -> DataType:
    common = promoted("self", "target", "gradOutput", "weightOptional", "posWeightOptional")(call)
    return DataType.FLOAT if is_floating(common) and common is not DataType.DOUBLE else common


rule(
    "aclnnBinaryCrossEntropyWithLogitsTargetBackward",
    max_rank(8, "gradOutput", "self", "target", "weightOptional", "posWeightOptional", "gradTarget"),
    dtypes(FLOATS, "gradOutput", "self", "target", "weightOptional", "posWeightOptional", "gradTarget"),
    same_dtype("target", "gradTarget"),
    same_format("self", "target", "gradTarget"),
    unless_empty(
        "self",
        same_shape("self", "target"),
        output_shape(gradTarget=shape_of("self")),
        *(broadcastable(name, "self") for name in ("gradOutput", "weightOptional", "posWeightOptional")),
    ),
    one_of("reduction", 0, 1, 2),
    unless_empty("self", castable(_bce_common, "gradTarget")),
    output_dtype(gradTarget=dtype_of("target")),
)

# ------------------------------------------------------------------------------------------------------ softmax

rule(
    "aclnnSoftmax",
    unless_empty(
        "self",
        dtypes(plus_bf16(FLOATS_AND_DOUBLE), "self", "out"),
        valid_axis("dim", "self"),
        max_rank(8, "self"),
        output_shape(out=shape_of("self")),
    ),
    output_dtype(out=dtype_of("self")),
)
rule(
    "aclnnLogSoftmax",
    valid_axis("dim", "self"),
    dtypes(plus_bf16(FLOATS_AND_DOUBLE), "self", "out"),
    max_rank(8, "self"),
    output_shape(out=shape_of("self")),
    output_dtype(out=dtype_of("self")),
)


_SOFTMAX_BACKWARD = (
    dtypes(FLOATS_OF_PRODUCT, "gradOutput", "output"),
    same_dtype("gradOutput", "output"),
    valid_axis("dim", "gradOutput"),
    max_rank(8, "gradOutput"),
    same_shape("gradOutput", "output"),
    output_shape(out=shape_of("gradOutput")),
)
rule(
    "aclnnSoftmaxBackward aclnnLogSoftmaxBackward",
    on_products("950", *_SOFTMAX_BACKWARD),
    on_products(PRODUCTS_BEFORE_950, unless_empty("gradOutput output", *_SOFTMAX_BACKWARD)),
    output_dtype(out=dtype_of("gradOutput")),
)
rule(
    "aclnnSoftmaxCrossEntropyWithLogits",
    dtypes(FLOATS_OF_PRODUCT, "features", "labels", "loss", "backprop"),
    same_dtype("features", "loss", "backprop"),
    rank(2, 2, "features", "labels"),
    max_rank(8, "loss", "backprop"),
    copied_output_shape(
        loss=lambda call: broadcast_shape("features", "labels")(call)[:1],
        backprop=broadcast_shape("features", "labels"),
    ),
    output_dtype(loss=dtype_of("features"), backprop=dtype_of("features")),
)

# ------------------------------------------------------------------------------------------------------ gated units


def _halved(name: str, axis: str = "dim") -> Any:
    """The shape of a tensor with one axis halved; refuses an axis out of range or of odd length."""

    def shape_(call: Call) -> Shape:
        sizes = list(call.shape(name))
        at = call[axis] if axis else -1
        text = f"is {at}; it must be an axis of {name}, which has rank {len(sizes)}"
        call.require(-len(sizes) <= at < len(sizes), axis or name, text)
        call.require(sizes[at] % 2 == 0, name, f"has {sizes[at]} elements along axis {at}; the number must be even")
        sizes[at] //= 2
        return tuple(sizes)

    return shape_


_GLU = plus_bf16(FLOATS_AND_DOUBLE)
rule(
    "aclnnGlu",
    dtypes(_GLU, "self", "out"),
    rank(1, 8, "self"),
    output_shape(out=_halved("self")),
    output_dtype(out=dtype_of("self")),
)
rule(
    "aclnnGluBackward",
    dtypes(_GLU, "self"),
    same_dtype("self", "gradOut", "out"),
    rank(1, 8, "self"),
    output_shape(gradOut=_halved("self"), out=shape_of("self")),
    output_dtype(out=dtype_of("self")),
)


def _geglu_dtypes(call: Call) -> None:
    if call["self"].size and call.shape("self"):
        same_dtype("self", "out", "outGelu")(call)


rule(
    "aclnnGeGlu aclnnGeGluV3",
    dtypes(FLOATS_OF_PRODUCT, "self", "out", "outGelu"),
    _geglu_dtypes,
    max_rank(8, "self", "out", "outGelu"),
    output_shape(out=_halved("self"), outGelu=_halved("self")),
    one_of("approximate", 0, 1),
    output_dtype(out=dtype_of("self"), outGelu=dtype_of("self")),
)
rule(
    "aclnnGeGluBackward aclnnGeGluV3Backward",
    dtypes(FLOATS_OF_PRODUCT, "gradOutput"),
    same_dtype("gradOutput", "self", "gelu", "gradInput"),
    same_shape("gradOutput", "gelu"),
    output_shape(gradInput=shape_of("self"), gradOutput=_halved("self")),
    one_of("approximate", 0, 1),
    output_dtype(gradInput=dtype_of("self")),
)

_THREE = [f"{row} {row.split()[0]}" for row in _SAME]


def _registered(names: str, products: str, rows: list[str], few: list[str] | None = None) -> tuple[Check, ...]:
    """The dtype rows of an operator's registry, and fewer of them on 310P."""
    if few is None:
        return only_products(products), dtype_table(names, *rows)
    return (
        only_products(f"{products} 310P"),
        dtype_table(names, *rows, products=products),
        dtype_table(names, *few, products="310P"),
    )


rule(
    "aclnnSwiGlu",
    *_registered("x out", PRODUCTS_WITH_BF16, _SAME, _SAME[:2]),
    tiling(rank(1, 8, "x"), output_shape(out=_halved("x"))),
    output_dtype(out=dtype_of("x")),
)
rule(
    "aclnnSwiGluGrad",
    *_registered("yGrad x out", PRODUCTS_WITH_BF16, _THREE, _THREE[:2]),
    tiling(rank(1, 8, "x"), output_shape(yGrad=_halved("x"), out=shape_of("x"))),
    output_dtype(out=dtype_of("x")),
)


def _fatrelu(name: str) -> tuple[Check, ...]:
    """Kernels that take rows of at most 1024 elements, and at most 200,000 of them."""

    def rows(call: Call) -> None:
        sizes = call.shape(name)
        last, count = sizes[-1], math.prod(sizes[:-1])
        call.require(0 < last <= 1024, name, f"has a last axis of {last}; it must be between 2 and 1024")
        call.require(count <= 200000, name, f"has {count} rows; at most 200000 are supported")

    return rank(2, 8, name), rows


rule(
    "aclnnFatreluMul",
    *_registered("input threshold out", "A2 A3", _THREE),
    tiling(
        *_fatrelu("input"),
        lambda call: call.require(call["threshold"].size == 1, "threshold", "must have one element"),
        output_shape(out=_halved("input", "")),
    ),
    output_dtype(out=dtype_of("input")),
)
rule(
    "aclnnGeluMul",
    *_registered("input out", PRODUCTS_WITH_BF16, _SAME),
    tiling(
        one_of("approximateOptional", "none", "tanh"),
        *_fatrelu("input"),
        output_shape(out=_halved("input", "")),
    ),
    output_dtype(out=dtype_of("input")),
)

_CLIPPED = tuple(f"{row} INT64" for row in _SAME)


def _positive(name: str) -> Check:
    return lambda call: call.require(call[name] > 0, name, f"is {call[name]}; it must be more than 0")


rule(
    "aclnnClippedSwiglu",
    only_products(PRODUCTS_WITH_BF16),
    dtype_table("x out groupIndexOptional", *_CLIPPED),
    tiling(rank(1, 8, "x"), rank(1, 1, "groupIndexOptional"), _positive("limit"), output_shape(out=_halved("x"))),
    output_dtype(out=dtype_of("x")),
)
rule(
    "aclnnClippedSwigluV2",
    only_products("950"),
    dtype_table("x out groupIndexOptional", *_CLIPPED),
    tiling(
        rank(1, 8, "x"),
        rank(1, 1, "groupIndexOptional"),
        _positive("limit"),
        one_of("clampMode", 0, 1),
        output_shape(out=_halved("x")),
    ),
    output_dtype(out=dtype_of("x")),
)
rule(
    "aclnnClippedSwigluGrad",
    only_products(PRODUCTS_WITH_BF16),
    dtype_table("gradY x gradXOut groupIndexOptional", *(f"{row} INT64" for row in _THREE)),
    tiling(
        rank(1, 8, "x"),
        rank(1, 1, "groupIndexOptional"),
        _positive("limit"),
        output_shape(gradY=_halved("x"), gradXOut=shape_of("x")),
    ),
    output_dtype(gradXOut=dtype_of("x")),
)
rule(
    "aclnnSituGlu",
    *_registered("x out", PRODUCTS_WITH_BF16, _SAME),
    tiling(rank(1, 8, "x"), output_shape(out=_halved("x"))),
    output_dtype(out=dtype_of("x")),
)
rule(
    "aclnnSituGluGrad",
    *_registered("gradY x out", PRODUCTS_WITH_BF16, _THREE),
    tiling(rank(1, 8, "x"), output_shape(gradY=_halved("x"), out=shape_of("x"))),
    output_dtype(out=dtype_of("x")),
)


def _clamp(call: Call) -> None:
    limit = call["clampLimit"]
    call.require(limit == -1 or limit > 0, "clampLimit", f"is {limit}; it must be -1 (no clamping) or more than 0")


def _weight_per_row(call: Call) -> None:
    if call.is_present("weightOptional"):
        rows, size = math.prod(call.shape("x")[:-1]), call["weightOptional"].size
        call.require(size == rows, "weightOptional", f"has {size} elements; it must have {rows}, one for each row of x")


def _groups(call: Call) -> None:
    sizes = call.shape("groupIndexOptional")
    fits = not call.is_present("groupIndexOptional") or (len(sizes) == 1 and sizes[0] > 0)
    call.require(fits, "groupIndexOptional", f"has shape {sizes}; it must have one axis with at least one element")


_GROUP = (rank(1, 8, "x"), _clamp, _weight_per_row, _groups)
rule(
    "aclnnSwigluGroup",
    *_registered("x out", "950", _SAME),
    dtypes("FLOAT", "weightOptional"),
    dtypes("INT64", "groupIndexOptional"),
    tiling(*_GROUP, output_shape(out=_halved("x", ""))),
    output_dtype(out=dtype_of("x")),
)

_BLOCK, _MX, _STATIC, _DYNAMIC = 0, 1, 2, 3  # quantMode


def _y_scale(call: Call) -> Shape:
    half = _halved("x", "")(call)
    mode = call["quantMode"]
    if mode == _STATIC:
        return (0,)
    if mode == _DYNAMIC:
        return (call.shape("groupIndexOptional")[0] if call.is_present("groupIndexOptional") else 1,)
    if mode == _MX:
        return (*half[:-1], -(-half[-1] // 64), 2)
    return (*half[:-1], -(-half[-1] // 128))


rule(
    "aclnnSwigluGroupQuant",
    only_products("950"),
    dtypes(FLOATS, "x"),
    dtypes("FLOAT", "weightOptional", "scaleOptional"),
    dtypes("INT64", "groupIndexOptional"),
    dtypes("HIFLOAT8 FLOAT8_E5M2 FLOAT8_E4M3FN FLOAT4_E2M1 FLOAT4_E1M2", "yOut"),
    dtypes("FLOAT FLOAT8_E8M0", "yScaleOut"),
    same_dtype("x", "yOriginOut"),
    tiling(
        *_GROUP,
        one_of("quantMode", _BLOCK, _MX, _STATIC, _DYNAMIC),
        when(
            "quantMode in (0, 1)",
            dtypes("FLOAT16 BF16", "x"),
            dtypes("FLOAT8_E4M3FN FLOAT8_E5M2 FLOAT4_E2M1 FLOAT4_E1M2", "yOut"),
            require("x[-1] >= 256", "x[-1] % 256 == 0", "not outputOrigin"),
        ),
        when("quantMode == 0", require("yOut.dtype not in FLOAT4S"), one_of("blockSize", 0, 128)),
        when("quantMode == 1", one_of("blockSize", 0, 32), one_of("roundScale", True)),
        output_shape(yOut=_halved("x", ""), yScaleOut=_y_scale),
        infer_shape(yOriginOut=_halved("x", "")),
    ),
    output_dtype(
        yOut=lambda call: DataType.HIFLOAT8 if call["quantMode"] >= _STATIC else dtype_attribute("dstType")(call),
        yScaleOut=lambda call: DataType.FLOAT8_E8M0 if call["quantMode"] == _MX else DataType.FLOAT,
        yOriginOut=dtype_of("x"),
    ),
)


def _weight_of(call: Call) -> Any:
    return call.shape("weightOptional") if call.is_present("weightOptional") else None


rule(
    "aclnnSwigluGroupQuantGrad",
    only_products("950"),
    dtypes(FLOATS, "gradY"),
    same_dtype("gradY", "x", "yOriginOptional", "gradXOut"),
    dtypes("FLOAT", "weightOptional", "gradWeightOutOptional"),
    dtypes("INT64", "groupIndexOptional"),
    tiling(
        *_GROUP,
        same_shape("gradY", "yOriginOptional"),
        output_shape(gradY=_halved("x", ""), gradXOut=shape_of("x"), gradWeightOutOptional=_weight_of),
    ),
    output_dtype(gradXOut=dtype_of("x"), gradWeightOutOptional="FLOAT"),
)

# ------------------------------------------------------------------------------------------------------ quantised

_QUANTISED = "FLOAT8_E4M3FN FLOAT8_E5M2 INT8 HIFLOAT8"


def _is_dynamic(call: Call) -> bool:
    return str(call["quantMode"]).startswith("dynamic")


def _gelu_quant_nulls(call: Call) -> None:
    if call.product != "950":
        call.refuse(None, f"the operator is not supported on {call.soc.name}; it is on 950", RUNTIME_ERROR)
    needed = ["quantMode", "self", "approximate", "roundMode", "y"]
    if call.is_present("quantMode"):
        call.require(
            _is_dynamic(call) or str(call["quantMode"]).startswith("static"),
            "quantMode",
            f"is {call['quantMode']!r}; it must be 'dynamic' or 'static'",
        )
        needed.append("outScaleOptional" if _is_dynamic(call) else "inputScaleOptional")
    for name in needed:
        call.require(call.is_present(name), name, "is None (a null pointer); it is required", PARAM_NULLPTR)


def _gelu_quant_options(call: Call) -> None:
    scale, offset, out = (call.is_present(n) for n in ("inputScaleOptional", "inputOffsetOptional", "outScaleOptional"))
    call.require(scale or not offset, "inputOffsetOptional", "needs inputScaleOptional beside it")
    call.require(_is_dynamic(call) or not out, "outScaleOptional", "must be None unless quantMode is 'dynamic'")


def _gelu_quant_scale(call: Call) -> None:
    if call.is_present("inputScaleOptional"):
        x, scale = call.dtype("self"), call.dtype("inputScaleOptional")
        mixed = {x, scale} == {DataType.FLOAT16, DataType.BF16}
        call.require(not mixed, "inputScaleOptional", f"has dtype {scale.name}, which does not go with {x.name}")


def _out_scale(call: Call) -> Any:
    return call.shape("self")[:-1] if _is_dynamic(call) else None


def _gelu_quant_shapes(call: Call) -> None:
    if _is_dynamic(call):
        rank(2, 8, "self")(call)
        rank(1, 7, "outScaleOptional")(call)
    for name in ("inputScaleOptional", "inputOffsetOptional"):
        rank(1, 1, name)(call)
    same_shape("inputScaleOptional", "inputOffsetOptional")(call)


def _round_mode(call: Call) -> None:
    allowed = ("round", "hybrid") if call["dstType"] == DataType.HIFLOAT8 else ("rint",)
    one_of("roundMode", *allowed)(call)


def _no_empty(call: Call) -> None:
    for name in ("self", "inputScaleOptional", "inputOffsetOptional", "y", "outScaleOptional"):
        empty = call.is_present(name) and call[name].size == 0
        call.require(not empty, name, "is empty; the operator needs elements")


rule(
    "aclnnGeluQuant",
    _gelu_quant_nulls,
    _gelu_quant_options,
    dtypes("FLOAT16 BF16 FLOAT", "self", "inputScaleOptional", "inputOffsetOptional"),
    dtypes(_QUANTISED, "y"),
    _gelu_quant_scale,
    same_dtype("inputScaleOptional", "inputOffsetOptional"),
    dtypes("FLOAT", "outScaleOptional"),
    one_of("approximate", "none", "tanh"),
    has_dtype("y", dtype_attribute("dstType")),
    _gelu_quant_shapes,
    max_rank(8, "self"),
    output_shape(y=shape_of("self"), outScaleOptional=_out_scale),
    _round_mode,
    _no_empty,
    output_dtype(y=dtype_attribute("dstType"), outScaleOptional="FLOAT"),
    nullable="self approximate quantMode roundMode y",
)

# ------------------------------------------------------------------------------------------------- experimental

elementwise(
    "CeluV3",
    "A2 950",
    FLOATS,
    "self",
    "out",
    require("alpha != 0"),
)
elementwise("EluV2", "A2", FLOATS, "self", "out")
elementwise("FastGeluV2", "950", FLOATS, "x", "out")
elementwise("FusedBiasLeakyRelu", "950", FLOATS_WITHOUT_BF16, "x bias", "out")
elementwise("HardShrink ThresholdV2", "950", FLOATS, "self", "out")
elementwise("HardSigmoidGradV2", "A2", FLOATS, "gradOutput self", "out")
elementwise("HardSwishV2", "A2", FLOATS, "x", "out")
elementwise("LeakyReluGradV2", "A2", FLOATS_WITHOUT_BF16, "dy x", "out")
elementwise("LeakyreluV2 LogsigmoidV2 SoftPlusV2", "A2", FLOATS_WITHOUT_BF16, "x", "out")
elementwise("LogSoftmaxV2", "A2", FLOATS, "self", "out", valid_axis("dim", "self"))
elementwise("SiluMul", "A2 A3", FLOATS, "x y", "out")
elementwise("Softsign", "A2 A3 950", FLOATS, "self", "out")
elementwise("SoftsignBackward", "950 A2", FLOATS, "gradients features", "out")
elementwise("TanhGrad", "A2", FLOATS, "y dy", "dx")
elementwise("HardsigmoidV2", "A2", f"{FLOATS} INT32", "self", "out")
rule(
    "aclnnInplaceHardsigmoidV2",
    only_products("A2"),
    dtypes(f"{FLOATS} INT32", "self"),
    max_rank(8, "self"),
)


rule(
    "aclnnReluGradV3",
    only_products("A2"),
    dtypes(f"{FLOATS} INT32 UINT8 INT8", "x"),
    same_dtype("x", "y", "z"),
    require("y.size == 1 or y == x"),
    output_shape(z=shape_of("x")),
)
rule(
    "aclnnReluGradV4",
    only_products("A2 A3"),
    dtypes(f"{FLOATS} INT8 UINT8 INT32", "gradOutput"),
    same_dtype("gradOutput", "out"),
    dtypes("UINT8", "self"),
    max_rank(8, "gradOutput"),
    same_shape("gradOutput", "self"),
    require("threshold == 0"),
    output_shape(out=shape_of("gradOutput")),
    output_dtype(out=dtype_of("gradOutput")),
)


rule(
    "aclnnReluV3",
    only_products("A2"),
    dtypes(f"{FLOATS} INT32 INT8 UINT8", "x"),
    same_dtype("x", "yOut"),
    dtypes("UINT8", "maskOut"),
    require("x[-1] % 8 == 0"),
    output_shape(yOut="x", maskOut="(*x[:-1], x[-1] // 8)"),
    output_dtype(yOut=dtype_of("x"), maskOut="UINT8"),
)


rule(
    "aclnnSwigluClamp",
    only_products("A2 A3"),
    dtypes(FLOATS, "x"),
    same_dtype("x", "y"),
    positive("limit"),
    require("x[-1] % 2 == 0"),
    output_shape(y="(*x[:-1], x[-1] // 2)"),
)
