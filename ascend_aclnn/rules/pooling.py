"""Rules of ops-nn/pooling: averages and maxima over windows, fixed or adaptive, and their gradients."""

from __future__ import annotations

from ascend_aclnn.core.errors import PARAM_NULLPTR
from ascend_aclnn.rules.language import *

_PLAIN = {3: "NCL", 4: "NCHW"}


def _windows(axes: int, stride: str = "stride", padding: str = "padding", **attributes: str) -> Check:
    """``windows``: how many fit on each spatial axis of self, ``plane``.

    Attributes have an item for each axis, or one for all of them; without a stride it is the size of the kernel.
    """
    expressions = {
        "plane": f"self[-{axes}:]",
        "kernels": f"spread(kernelSize, {axes})",
        "steps": f"spread(kernelSize if {stride} is None else {stride} or kernelSize, {axes})",
        "before": f"spread({padding}, {axes})",
        "after": "before",
        "spacings": f"spread(dilation, {axes})",
        **attributes,
    }
    axis = "zip(plane, kernels, steps, before, after, spacings)"
    towards_zero = expressions.pop("towards_zero", "False")
    return define(
        **expressions,
        windows=f"tuple(window_count(*axis, ceilMode, {towards_zero}) for axis in {axis})",
    )


def _some_channels(most: str) -> Check:
    return require(f"all(n > 0 for n in self[{most}:])", why="as only the batch may be empty")


_HALF_KERNEL = require("all(0 <= p <= k // 2 for p, k in zip(before, kernels))", argument="padding")
# Positions in a plane are INT32 but on Ascend 950.
_PLANE_FITS_INT32, _BOX_FITS_INT32 = (
    when("product != '950'", require(f"prod(self[-{axes}:]) <= 2**31 - 1")) for axes in (2, 3)
)

# ------------------------------------------------------------------------------------------------- average

_NO_DILATION = "(1,) * len(kernels)"

rule(
    "aclnnAvgPool2d",
    dtypes(FLOATS_OF_PRODUCT, "self", "out"),
    same_dtype("self", "out"),
    formats_by_rank(_PLAIN, "self", "out"),
    require("all(n >= 0 for n in self)", "all(n >= 0 for n in out)"),
    positive("kernelSize", "strides"),
    not_negative("paddings"),
    require("len(out) == len(self)"),
    _some_channels("-3"),
    array_length("kernelSize", 1, 2),
    array_length("paddings", 1, 2),
    array_length("strides", 0, 1, 2),
    _windows(2, "strides", "paddings", spacings=_NO_DILATION, towards_zero="True"),
    require("all(2 * p <= k for p, k in zip(before, kernels))", argument="paddings"),
    require("all(n > 0 for n in windows)", argument="kernelSize"),
    output_shape(out="(*self[:-2], *windows)"),
    *cube_math_type("self"),
)
rule(
    "aclnnAvgPool2dBackward",
    dtypes(FLOATS_OF_PRODUCT, "gradOutput", "self", "gradInput"),
    same_dtype("gradOutput", "gradInput"),
    formats("NCHW NCL", "gradOutput", "self", "gradInput"),
    when("len(gradOutput) == 4", formats("NCHW", "gradOutput", "gradInput")),
    rank(3, 4, "gradOutput"),
    require("len(gradInput) == len(gradOutput)"),
    require("all(n >= 0 for n in gradOutput)", "all(n >= 0 for n in self)", "all(n >= 0 for n in gradInput)"),
    array_length("kernelSize", 1, 2),
    positive("kernelSize", "stride"),
    array_length("stride", 0, 1, 2),
    array_length("padding", 1, 2),
    define(kernels="spread(kernelSize, 2)", before="spread(padding, 2)"),
    require("all(2 * p <= k for p, k in zip(before, kernels))", argument="padding"),
    in_range("cubeMathType", 0, 3),
    output_shape(gradInput="self"),
    # One window over the whole plane is computed by a division, without further checks.
    define(one_window="kernels == self[-2:] and gradOutput[-2:] == (1, 1) and divisorOverride == 0"),
    unless_empty(
        "gradOutput self gradInput",
        when("product not in ('A2', 'A3', '950') and not one_window", in_range("divisorOverride", -255, 255)),
        tiling(require("gradOutput[:-2] == self[:-2]")),
    ),
)

_ARRAYS_3D = (array_length("kernelSize", 1, 3), array_length("padding", 1, 3), array_length("stride", 0, 1, 3))
_WINDOWS_3D = _windows(3, spacings=_NO_DILATION, towards_zero="True")

rule(
    "aclnnAvgPool3d",
    dtypes(FLOATS_OF_PRODUCT, "self"),
    same_dtype("self", "out"),
    same_format("self", "out"),
    no_private_format("self"),
    rank(4, 5, "self"),
    require("len(out) == len(self)"),
    *_ARRAYS_3D,
    _WINDOWS_3D,
    require("all(0 < k <= n for k, n in zip(kernels, plane))", argument="kernelSize"),
    positive("stride"),
    _HALF_KERNEL,
    output_shape(out="(*self[:-3], *windows)"),
)
rule(
    "aclnnAvgPool3dBackward",
    dtypes({PRODUCTS_WITH_BF16: FLOATS, "": ""}, "gradOuput", "self", "output"),
    rank(4, 5, "gradOuput"),
    require("len(self) == len(gradOuput)", "output == self"),
    *_ARRAYS_3D,
    same_format("gradOuput", "output"),
    no_private_format("gradOuput"),
    _WINDOWS_3D,
    unless_empty(
        "gradOuput",
        positive("kernelSize", "stride"),
        _HALF_KERNEL,
        require("all(n >= 0 for n in windows)", argument="kernelSize"),
        has_shape(gradOuput="(*self[:-3], *windows)"),
    ),
    infer_shape(output="self"),
    output_dtype(output="self"),
)

# ------------------------------------------------------------------------------------------------- adaptive average


def _output_size(axes: int) -> Check:
    """On Ascend 950 one number stands for all axes, none for those of self."""
    return define(resized=f"(*self[:-{axes}], *(spread(outputSize, {axes}) or self[-{axes}:]))")


rule(
    "aclnnAdaptiveAvgPool2d",
    rank(3, 4, "self"),
    require("len(out) == len(self)", "out[:-2] == self[:-2]"),
    on_products("950", _some_channels("-2")),
    dtypes(FLOATS_OF_PRODUCT, "self", "out"),
    same_dtype("self", "out"),
    same_format("self", "out"),
    formats_by_rank(_PLAIN, "self", "out"),
    array_length("outputSize", 2),
    on_products("950", not_negative("outputSize")),
    when("product != '950'", positive("outputSize")),
    output_shape(out="(*self[:-2], *outputSize)"),
)
rule(
    "aclnnAdaptiveAvgPool2dBackward",
    require("len(gradOutput) == len(self)"),
    require("all(n >= 0 for n in self)", "all(n >= 0 for n in gradOutput)"),
    rank(3, 4, "out"),
    require("len(out) == len(self)", "out[:-2] == self[:-2]", "gradOutput[:-2] == self[:-2]"),
    dtypes(FLOATS_OF_PRODUCT, "gradOutput", "self"),
    same_dtype("self", "gradOutput"),
    same_format("gradOutput", "self"),
    no_private_format("gradOutput"),
    copied_output_shape(out="self"),
    output_dtype(out="self"),
)
rule(
    "aclnnAdaptiveAvgPool3d",
    rank(4, 5, "self"),
    require("len(out) == len(self)"),
    _some_channels("1"),
    when("product != '950'", not_empty("self")),
    require("out[:-3] == self[:-3]", "all(n > 0 for n in out[-3:])"),
    dtypes(FLOATS_OF_PRODUCT, "self", "out"),
    same_dtype("self", "out"),
    same_format("self", "out"),
    on_products("950", formats("NCDHW NCHW ND", "self")),
    when("product != '950'", no_private_format("self")),
    array_length("outputSize", 3),
    positive("outputSize"),
    output_shape(out="(*self[:-3], *outputSize)"),
)
rule(
    "aclnnAdaptiveAvgPool3dBackward",
    rank(4, 5, "self"),
    require("len(gradOutput) == len(self)", "len(out) == len(self)"),
    _some_channels("1"),
    require("out[1:] == self[1:]"),
    when("product != '950'", not_empty("self"), require("out == self")),
    require("gradOutput[:-3] == self[:-3]", "all(n > 0 for n in gradOutput[-3:])"),
    # DOUBLE on the newer products only for a gradient of one number a plane.
    define(one_window="gradOutput[-3:] == (1, 1, 1)"),
    on_products(PRODUCTS_WITH_BF16, when("not one_window", dtypes(FLOATS, "gradOutput", "self"))),
    dtypes(plus_bf16(FLOATS_AND_DOUBLE), "gradOutput", "self"),
    same_dtype("self", "gradOutput", "out"),
    same_format("self", "gradOutput", "out"),
    no_private_format("gradOutput"),
    on_products("910", require("gradOutput[-3:] == (1, 1, 1)")),
    infer_shape(out="self"),
)

# ------------------------------------------------------------------------------------------------- adaptive maximum

_NEW = {PRODUCTS_WITH_BF16: FLOATS, "": ""}

rule(
    "aclnnAdaptiveMaxPool2d",
    dtypes(plus_bf16(FLOATS_AND_DOUBLE), "self", "outputOut"),
    same_dtype("self", "outputOut"),
    dtypes("INT64", "indicesOut"),
    rank(3, 4, "self"),
    same_shape("outputOut", "indicesOut"),
    _some_channels("1"),
    array_length("outputSize", 2),
    positive("outputSize"),
    _output_size(2),
    unless_empty("self", output_shape_relaxed(outputOut="resized", indicesOut="resized")),
)
rule(
    "aclnnAdaptiveMaxPool3d",
    rank(4, 5, "self", "outputOut", "indicesOut"),
    dtypes(_NEW, "self", "outputOut"),
    dtypes({"950": INDICES, "": "INT32"}, "indicesOut"),
    when("product != '950'", formats("NCDHW NCHW", "self")),
    on_products("950", formats("NCDHW NCHW ND", "self")),
    same_format("self", "outputOut"),
    when("product != '950'", array_length("outputSize", 3)),
    on_products("950", array_length("outputSize", 0, 1, 3)),
    _output_size(3),
    require("outputOut == resized"),
    # CANN compares as many axes of indices as output_size has items.
    require("indicesOut[:len(outputSize)] == outputOut[:len(outputSize)]"),
    same_dtype("self", "outputOut"),
    _some_channels("1"),
    when("product != '950' or indicesOut.dtype == INT32", require("prod(self[-3:]) <= 2**31 - 1")),
    positive("outputSize"),
    unless_empty("self", output_shape_relaxed(outputOut="resized", indicesOut="resized")),
    output_dtype(indicesOut="INT32"),
)

_GRADIENT = ("gradOutput", "gradInput", "indices")
_SAME_LAYOUT = (same_format("self", *_GRADIENT), no_private_format("self", *_GRADIENT))
_ADAPTIVE_GRADIENT = (
    same_dtype("self", "gradOutput", "gradInput"),
    dtypes(_NEW, "self"),
    dtypes(INDICES, "indices"),
    require(*(f"len({name}) == len(self)" for name in _GRADIENT)),
    same_shape("gradOutput", "indices"),
    output_shape(gradInput="self"),
)
_SAME_PLANES = require("gradOutput[:2] == self[:2] if len(self) == 5 else gradOutput[0] == self[0]")
rule("aclnnAdaptiveMaxPool2dBackward", *_ADAPTIVE_GRADIENT, *_SAME_LAYOUT, rank(3, 4, "self"), _PLANE_FITS_INT32)
rule(
    "aclnnAdaptiveMaxPool3dBackward",
    *_ADAPTIVE_GRADIENT,
    _BOX_FITS_INT32,
    *_SAME_LAYOUT,
    rank(4, 5, "self"),
    on_products("A2 A3", dtypes("INT32", "indices")),
    tiling(_SAME_PLANES),
)

# ------------------------------------------------------------------------------------------------- maximum


def _pooled(axes: int, **attributes: str) -> tuple[Check, ...]:
    """``pooled``, the shape of the result: (N, C, spatial axes), or (N, spatial axes, C) by self's format."""
    return (
        define(
            last="self.format in (NHWC, NDHWC)",
            channels=f"self[-1 if last else -{axes + 1}]",
            pooled=f"(*self[:-{axes + 1}], *windows, self[-1]) if last else (*self[:-{axes}], *windows)",
        ),
        _windows(axes, plane=f"self[-{axes + 1}:-1] if last else self[-{axes}:]", **attributes),
    )


_SOME_WINDOW = (
    require("channels > 0", "all(n > 0 for n in plane)"),
    require("all(n > 0 for n in windows)", word="windows"),
)


def _max_attributes(axes: int, dilated: str) -> tuple[Check, ...]:
    """Lengths and values of the window attributes; only the products in ``dilated`` take a dilation."""
    return (
        array_length("kernelSize", 1, axes),
        array_length("stride", 0, 1, axes),
        array_length("padding", 1, axes),
        array_length("dilation", 1, axes),
        positive("kernelSize", "stride"),
        *_pooled(axes),
        _HALF_KERNEL,
        positive("dilation"),
        when(f"product not in {tuple(dilated.split())}", require("all(d == 1 for d in dilation)")),
    )


# An empty stride is 1 here; pads are one number, (H, W) or (top, left, bottom, right).
rule(
    "aclnnMaxPool",
    dtypes(
        {"A2 A3": FLOATS_WITHOUT_BF16, "950": f"{FLOATS} INT32 INT64 UINT8 INT16 INT8 UINT16", "": "FLOAT16"}, "self"
    ),
    same_dtype("self", "out"),
    same_format("self", "out"),
    no_private_format("self"),
    rank(3, 4, "self"),
    array_length("kernelShape", 1, 2),
    array_length("strides", 0, 1, 2),
    array_length("pads", 0, 1, 2, 4),
    array_length("dilations", 0, 1, 2, 4),
    one_of("autoPad", 0),  # NOTSET
    require("all(d == 1 for d in dilations)"),
    positive("kernelShape", "strides"),
    define(sides="pads * 2 if len(pads) == 2 else spread(pads or (0,), 4)"),
    *_pooled(
        2,
        kernels="spread(kernelShape, 2)",
        steps="spread(strides or (1,), 2)",
        before="sides[:2]",
        after="sides[2:]",
        spacings=_NO_DILATION,
    ),
    require("all(a + b <= k for a, b, k in zip(before, after, kernels))", argument="pads"),
    *_SOME_WINDOW,
    output_shape(out="pooled"),
)

_WITH_DILATION_2D = _max_attributes(2, "950")


def _with_positions(name: str, allowed: DtypeSet, positions: str, indices_shape: str, *first: Check) -> None:
    rule(
        name,
        *first,
        dtypes(allowed, "self"),
        same_dtype("self", "out"),
        dtypes(positions, "indices"),
        same_format("self", "out"),
        no_private_format("self"),
        rank(3, 4, "self"),
        *_WITH_DILATION_2D,
        *_SOME_WINDOW,
        output_shape(out="pooled", indices=indices_shape),
        output_dtype(indices=positions.split()[-1]),
    )


_BEFORE_950 = only_products("A2 A3 910 310P 310B 310")

_with_positions("aclnnMaxPool2dWithIndices", _NEW, "INT64 INT32", "pooled")
# Bits of the chosen positions: a row for every place in the kernel, a bit for every window, in blocks of 16.
_with_positions(
    "aclnnMaxPool2dWithMask",
    {"A2 A3": FLOATS, "910": FLOATS_WITHOUT_BF16, "310P": "FLOAT", "": ""},
    "INT8",
    "(*pooled[:-2], prod(kernels), (ceil_div(prod(pooled[-2:]), 16) + 1) * 32)",
    array_length("kernelSize", 1, 2),
    _BEFORE_950,
)


def _max_backward(name: str, allowed: DtypeSet, positions: DtypeSet, *first: Check) -> None:
    rule(
        name,
        *first,
        dtypes(allowed, "self"),
        same_dtype("self", "gradOutput", "gradInput"),
        dtypes(positions, "indices"),
        same_format("self", "gradOutput", "gradInput"),
        no_private_format("self", *_GRADIENT),
        rank(3, 4, "self", *_GRADIENT),
        *_WITH_DILATION_2D,
        output_shape(gradInput="self"),
        *_SOME_WINDOW,
        require("all(p <= ((k - 1) * d + 1) // 2 for p, k, d in zip(before, kernels, spacings))", argument="padding"),
        has_shape(gradOutput="pooled"),
    )


_max_backward(
    "aclnnMaxPool2dWithIndicesBackward",
    {"A2 A3": "FLOAT", "950": FLOATS, "": ""},
    {"950": INDICES, "": "INT32 INT8"},
)
_max_backward(
    "aclnnMaxPool2dWithMaskBackward",
    {"A2 A3": FLOATS, "910": FLOATS_WITHOUT_BF16, "": ""},
    "INT8",
    _BEFORE_950,
    # A kernel of the wrong length is answered as if it were a null pointer.
    with_status(PARAM_NULLPTR, array_length("kernelSize", 1, 2)),
)

rule(
    "aclnnMaxPool3dWithArgmax",
    only_products(PRODUCTS_WITH_BF16),
    dtypes(FLOATS, "self"),
    dtypes({"950": INDICES, "": "INT32"}, "indices"),
    same_dtype("self", "out"),
    same_format("self", "out", "indices"),
    rank(4, 5, "self"),
    on_products("950", formats("NDHWC NCDHW NCHW ND", "self")),
    *_max_attributes(3, "950 310P 310B 310"),
    unless_empty(
        "self out",
        require("all(n >= 0 for n in windows)", argument="self"),
        output_shape_relaxed(out="pooled", indices="pooled"),
    ),
    output_dtype(indices="INT32"),
)
rule(
    "aclnnMaxPool3dWithArgmaxBackward",
    dtypes(_NEW, "self"),
    dtypes({"950": INDICES, "": "INT32"}, "indices"),
    same_dtype("self", "gradOutput", "gradInput"),
    same_format("self", "gradOutput", "gradInput"),
    no_private_format("self", *_GRADIENT),
    rank(4, 5, "self", *_GRADIENT),
    *_max_attributes(3, "A2 A3 910 950 310P 310B 310"),
    _BOX_FITS_INT32,
    same_shape("gradOutput", "indices"),
    output_shape(gradInput="self"),
)

rule(
    "aclnnMaxPoolWithArgmaxV3",
    only_products("A2"),
    dtypes(FLOATS, "x"),
    same_dtype("x", "yOut"),
    dtypes("INT64", "argmaxOut"),
    rank(4, "x"),
    *(require(f"1 <= len({name}) <= 2") for name in ("kernelSize", "strides", "pads", "dilations")),
    positive("kernelSize", "strides", "dilations"),
    not_negative("pads"),
    define(
        spans="tuple(dilations[-a % len(dilations)] * (kernelSize[-a % len(kernelSize)] - 1) + 1 for a in (2, 1))",
        over="tuple(x[-a] + 2 * pads[-a % len(pads)] - span for a, span in zip((2, 1), spans))",
        steps="tuple(strides[-a % len(strides)] for a in (2, 1))",
        windows="tuple((ceil_div(n, s) if ceilMode else n // s) + 1 for n, s in zip(over, steps))",
    ),
    require("all(n >= 0 for n in over)", argument="kernelSize"),
    output_shape(yOut="(*x[:2], *windows)", argmaxOut="(*x[:2], *windows)"),
)

# ------------------------------------------------------------------------------------------------- experimental

rule(
    "aclnnMaxPoolingGrad",
    only_products("A2"),
    same_dtype("dy", "x", "y", "dx", among="FLOAT FLOAT16"),
    same_shape("x", "dy", "y"),
    output_shape(dx="x"),
)
rule(
    "aclnnAveragePoolingGrad",
    only_products("A2"),
    same_dtype("gradOutput", "out", among="FLOAT FLOAT16"),
    rank(4, "gradOutput"),
    require("len(origInputShape) == 4"),
    positive("kernelH", "kernelW", "strideH", "strideW"),
    not_negative("padTop", "padBottom", "padLeft", "padRight"),
    require("gradOutput[:2] == tuple(origInputShape[:2])"),
    output_shape(out="origInputShape"),
)

rule(
    "aclnnMaxPoolV3",
    only_products("A2"),
    same_dtype("x", "out", among=FLOATS),
    max_rank(8, "x", "out"),
    unless_empty(
        "x out",
        tiling(
            rank(4, "x"),
            array_length("ksize", 4),
            array_length("strides", 4),
            array_length("pads", 4),
            require("min(ksize[2:]) > 0", "min(strides[2:]) > 0"),
        ),
    ),
    define(
        margins="(0, 0, 0, 0) if pads is None else pads",
        ceil="ceilMode is not None and ceilMode != 0",
        rows="window_count(x[2], ksize[2], strides[2], margins[0], margins[1], 1, ceil)",
        columns="window_count(x[3], ksize[3], strides[3], margins[2], margins[3], 1, ceil)",
    ),
    unless_empty("x out", tiling(require("rows > 0", "columns > 0", argument="x"))),
    output_shape(out="(*x[:2], rows, columns)"),
)
# Attributes have one number for all axes, one for each, or five with 1 for the batch and the channels.
_spatial = "({0} * 3 if len({0}) == 1 else {0} if len({0}) == 3 else {0}[first : first + 3])"
rule(
    "aclnnMaxPool3D",
    only_products("A2"),
    same_dtype("x", "out", among=FLOATS),
    define(
        channels_first="dataFormatOptional is not None and dataFormatOptional == 'NCDHW'",
        first="2 if channels_first else 1",
        channel="1 if channels_first else 4",
        spacing="(1,) if dilationOptional is None else dilationOptional",
        explicit="(0,) * 6 if padsOptional is None else padsOptional",
    ),
    unless_empty(
        "x out",
        tiling(
            rank(5, "x"),
            one_of("padding", "VALID", "SAME", "CALCULATED"),
            require("dataFormatOptional in ('NDHWC', 'NCDHW')"),
            *(array_length(name, 1, 3, 5) for name in ("ksize", "strides", "dilationOptional")),
            *(
                when(f"len({name}) == 5", require(f"{name}[0] == 1", f"{name}[channel] == 1"), word=name)
                for name in ("ksize", "strides")
            ),
            when(
                "padding == 'CALCULATED'",
                array_length("padsOptional", 6),
                not_negative("padsOptional"),
                word="calculated",
            ),
        ),
    ),
    define(kernels=_spatial.format("ksize"), steps=_spatial.format("strides"), spacings=_spatial.format("spacing")),
    unless_empty(
        "x out",
        tiling(
            require("min(kernels) > 0", argument="ksize"),
            require("min(steps) > 0", argument="strides"),
            require("min(spacings) > 0", argument="dilationOptional"),
        ),
    ),
    define(
        plane="x[first : first + 3]",
        margins="explicit if padding == 'CALCULATED' else (0,) * 6",
        axis="zip(plane, kernels, steps, margins[::2], margins[1::2], spacings)",
        fitting="tuple(window_count(*a, padding == 'CALCULATED' and ceilMode != 0) for a in axis)",
        windows="tuple(ceil_div(n, s) for n, s in zip(plane, steps)) if padding == 'SAME' else fitting",
    ),
    unless_empty("x out", tiling(require("min(windows) > 0", argument="x"))),
    output_shape(out="(*x[:first], *windows, *x[first + 3 :])"),
)
