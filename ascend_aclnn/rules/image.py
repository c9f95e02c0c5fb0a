"""Rules of ops-cv/image: resampling of images, (N, C, spatial axes) or, with NHWC and NDHWC, (N, spatial axes, C)."""

from __future__ import annotations

from ascend_aclnn.core.errors import INNER_NULLPTR, PARAM_INVALID
from ascend_aclnn.rules.language import *

_WITH_DOUBLE = FLOATS + " DOUBLE"
_DOUBLE_OF_PRODUCT = plus_bf16(FLOATS_AND_DOUBLE)

_L = ("scales",)
_HW = ("scalesH", "scalesW")
_DHW = ("scalesD", "scalesH", "scalesW")


def _int32_sizes(*names: str) -> Check:
    """Sizes of tensors and arrays fit in 32 bits, but on Ascend 950."""
    return when("product != '950'", require(*(f"all(n <= 2**31 - 1 for n in {name})" for name in names)))


# ------------------------------------------------------------------------------------------------------- forward


def _upsample(
    name: str,
    axes: int,
    allowed: DtypeSet,
    *more: Check,
    whole_batch: bool = False,
    layout: str = "out",
    empty: str = "",
) -> None:
    """Resamples ``image`` to outputSize: (n, c, *sizes) becomes ``resized``, in the layout of the output.

    ``more`` says how the output is compared; ``whole_batch``: whether the batch, too, must not be empty; ``empty`` names
    the tensors with which, empty, nothing is checked.
    """
    words = (
        dtypes(allowed, "image"),
        same_dtype("image", "out"),
        array_length("outputSize", axes),
        rank(axes + 2, axes + 2, "image"),
        define(
            last="image.format in (NHWC, NDHWC)",
            out_last=f"last if {layout} is None else {layout}.format in (NHWC, NDHWC)",
            c="image[-1] if last else image[1]",
            sizes="image[1:-1] if last else image[2:]",
            resized="(image[0], *outputSize, c) if out_last else (image[0], c, *outputSize)",
        ),
        require("c > 0", "all(size > 0 for size in sizes)", *(("image[0] > 0",) if whole_batch else ())),
        positive("outputSize"),
        *more,
    )
    rule(f"aclnnUpsample{name}", *((unless_empty(empty, *words),) if empty else words), aliases=_IMAGE)


_IMAGE = {"image": "self input x"}
_SPATIAL_OUT = require("len(out) == len(image)", "(out[1:-1] if out_last else out[2:]) == outputSize", argument="out")
_SAME_IMAGES = require("len(out) == len(image)", "out[0] == image[0]", "out[-1 if last else 1] == c")


def _layouts(allowed: str) -> tuple[Check, ...]:
    return formats(allowed, "image"), same_format("image", "out")


def _scales_agree(*names: str) -> tuple[Check, ...]:
    """outputSize is size * scale, to 1e-5, for each positive scale."""
    return tuple(
        when(
            f"{name} > 0 and isfinite({name})",
            require(
                f"int(sizes[{i}] * ({name} - 1e-5)) <= outputSize[{i}] <= int(sizes[{i}] * ({name} + 1e-5))",
                argument=name,
            ),
        )
        for i, name in enumerate(names)
    )


def _shrinks_50_times(division: str) -> Check:
    """Each size shrinks at most 50 times; no limit on Ascend 950."""
    factors = (f"(1 / {s} if {s} > 0 else sizes[{i}] {division} outputSize[{i}]) <= 50" for i, s in enumerate(_HW))
    return when("product != '950'", *(require(factor, argument=name) for factor, name in zip(factors, _HW)))


_NEAREST = plus_bf16(FLOATS_AND_DOUBLE + " UINT8")
_EXACT: DtypeSet = {"950": FLOATS, "": FLOATS + " UINT8"}
_OUT, _COPIED = output_shape(out="resized"), copied_output_shape(out="resized")

_upsample("Nearest1d", 1, _NEAREST, *_layouts("NCL"), _COPIED)
_upsample("Nearest1dV2", 1, _NEAREST, *_layouts("NCL"), _SPATIAL_OUT, _COPIED)
_upsample("Nearest2d", 2, _NEAREST, *_layouts("NCHW NHWC"), _OUT, _int32_sizes("image", "out"))
_upsample("Nearest2dV2", 2, _NEAREST, formats("NCHW NHWC", "image", "out"), _OUT, empty="image out")
_upsample(
    "Nearest3d",
    3,
    {"310P": FLOATS_WITHOUT_BF16, "950": _WITH_DOUBLE + " UINT8", "": _WITH_DOUBLE},
    _OUT,
    layout="image",
)
_upsample("NearestExact1d", 1, _EXACT, _COPIED, whole_batch=True)
_upsample("NearestExact2d", 2, _EXACT, _SAME_IMAGES, *_layouts("NCHW NHWC ND"), _COPIED, empty="image out")
_upsample(
    "NearestExact3d",
    3,
    {"310P": FLOATS_WITHOUT_BF16, "": FLOATS},
    when("scalesD > 0 and scalesH > 0 and scalesW > 0", *_scales_agree(*_DHW)),
    _OUT,
    layout="image",
)
# A scale that is given (not negative) scales the length to outputSize.
_upsample(
    "Linear1d",
    1,
    FLOATS,
    _OUT,
    when("product != '950' and not scales < 0", require("isfinite(scales)", "int(sizes[0] * scales) == outputSize[0]")),
)
_upsample(
    "Bilinear2dAA",
    2,
    FLOATS,
    *_layouts("ND NCHW"),
    when("image.format == NCHW", _SAME_IMAGES),
    not_negative(*_HW),
    _int32_sizes("image", "outputSize"),
    _shrinks_50_times("//"),
    _COPIED,
    whole_batch=True,
)
_upsample(
    "Bicubic2d",
    2,
    FLOATS_OF_PRODUCT,
    *_layouts("NCHW NHWC ND"),
    _OUT,
    _int32_sizes("image", "outputSize"),
    when("product != '950'", *_scales_agree(*_HW)),
)
_upsample(
    "Bicubic2dAA",
    2,
    FLOATS,
    formats("ND NCHW", "image", "out"),
    _SPATIAL_OUT,
    _int32_sizes("image", "outputSize"),
    _shrinks_50_times("/"),
    _COPIED,
)
_upsample(
    "Trilinear3d",
    3,
    {"310P 310B": FLOATS_WITHOUT_BF16, "950": FLOATS, "": _WITH_DOUBLE},
    formats("ND NCDHW NDHWC", "image"),
    _OUT,
    _int32_sizes("image", "out"),
)
rule(
    "aclnnUpsampleBilinear2d",
    dtypes(_WITH_DOUBLE, "self"),
    same_dtype("self", "out"),
    same_format("self", "out"),
    formats("NCHW NHWC", "self"),
    rank(4, "self", "out"),
    when("self.format == NCHW", dtypes(FLOATS, "self")),
    not_negative(*_HW),
    required("outputSize", status=PARAM_INVALID),
    array_length("outputSize", 2),
    output_shape(
        out="(self[0], *outputSize, self[3]) if self.format == NHWC else (self[0], self[1], *outputSize)",
    ),
    nullable="outputSize",
    null_status=INNER_NULLPTR,
)
# Batch and channels stay; the other sizes are those of self times the scales, to 1e-5 of these.
rule(
    "aclnnResize",
    require("mode.startswith(('nearest', 'bilinear'))"),
    dtypes({"310B 310": FLOATS_WITHOUT_BF16, "": FLOATS}, "self"),
    same_dtype("self", "out"),
    same_format("self", "out"),
    formats("NCHW NHWC", "self"),
    rank(4, "self"),
    array_length("scales", 4),
    require("all(isfinite(scale) for scale in scales)"),
    rank(4, "out"),
    define(spatial="(1, 2) if self.format == NHWC else (2, 3)"),
    require(
        "all(int(self[i] * (scales[i] - 1e-5)) <= out[i] <= int(self[i] * (scales[i] + 1e-5)) for i in spatial)",
        "all(out[i] == self[i] for i in range(4) if i not in spatial)",
        argument="out",
    ),
    infer_shape(
        out="tuple(int(n * scale) if i in spatial and isfinite(scale) else n for i, (n, scale) in "
        "enumerate(zip(self, scales)))",
    ),
)

# ------------------------------------------------------------------------------------------------------- backward


def _gradient(name: str, axes: int, *more: Check, allowed: DtypeSet = "", layout: str = "dy") -> None:
    """dy has the shape of the resampled image, dx that of the image, which inputSize names in the layout of ``layout``."""
    rule(
        f"aclnnUpsample{name}",
        *((dtypes(allowed, "dy"), same_dtype("dy", "dx")) if allowed else ()),
        rank(axes + 2, axes + 2, "dy"),
        array_length("outputSize", axes),
        array_length("inputSize", axes + 2),
        define(
            dy_last="dy.format in (NHWC, NDHWC)",
            dx_last="dy_last if dx is None else dx.format in (NHWC, NDHWC)",
            named_last="dy_last" if layout == "dy" else "False",
            c="inputSize[-1] if named_last else inputSize[1]",
            sizes="inputSize[1:-1] if named_last else inputSize[2:]",
        ),
        require("all(size > 0 for size in sizes)"),
        positive("outputSize"),
        has_shape(dy="(inputSize[0], *outputSize, c) if dy_last else (inputSize[0], c, *outputSize)"),
        output_shape(dx="(inputSize[0], *sizes, c) if dx_last else (inputSize[0], c, *sizes)"),
        *more,
        aliases=_GRADIENTS,
    )


_GRADIENTS = {"dy": "gradOut gradOutput", "dx": "out gradInput"}
_SAME_CHANNELS = require("len(dx) == len(dy)", "dx[:2] == dy[:2]")
_SAME_CHANNELS_NCHW = when("dy.format == NCHW", _SAME_CHANNELS)


def _copied_gradient(name: str, axes: int, *more: Check, empty: str = "") -> None:
    """Gradients that compare dx with dy only in batch and channels, and copy the result."""
    words = (
        dtypes(FLOATS, "dy"),
        same_dtype("dy", "dx"),
        same_format("dy", "dx"),
        rank(axes + 2, axes + 2, "dy", "dx"),
        array_length("inputSize", axes + 2),
        array_length("outputSize", axes),
        *more,
        not_empty("dy"),
        require("all(size > 0 for size in inputSize[2:])"),
        copied_output_shape(dx="inputSize"),
    )
    rule(f"aclnnUpsample{name}", *((unless_empty(empty, *words),) if empty else words), aliases=_GRADIENTS)


def _grows_50_times(*names: str) -> tuple[Check, ...]:
    """The image was enlarged at most 50 times."""
    return tuple(
        require(f"(1 / {s} if {s} > 0 else inputSize[{i}] / dy[{i}] if dy[{i}] else 0) >= 1 / 50", argument=s)
        for i, s in enumerate(names, 2)
    )


_gradient("Nearest1dBackward", 1, allowed=_WITH_DOUBLE)
_gradient("Nearest2dBackward", 2, formats("NCHW NHWC", "dx"), allowed=FLOATS_OF_PRODUCT)
_gradient("Nearest3dBackward", 3, _int32_sizes("outputSize", "inputSize"), allowed=_WITH_DOUBLE, layout="NCDHW")
_copied_gradient("NearestExact1dBackward", 1, _SAME_CHANNELS, not_negative(*_L), *_grows_50_times(*_L))
_copied_gradient(
    "NearestExact2dBackward",
    2,
    formats("NCHW ND", "dy"),
    _SAME_CHANNELS,
    not_negative(*_HW),
    *_grows_50_times(*_HW),
    empty="dy dx",
)
_gradient(
    "NearestExact3dBackward",
    3,
    *(
        require(f"({s} if {s} > 0 else outputSize[{i}] / inputSize[{i + 2}]) <= 50", argument=s)
        for i, s in enumerate(_DHW)
    ),
    _int32_sizes("dy"),
    allowed=FLOATS,
    layout="NCDHW",
)
# The kernel of A2 and A3 enlarges at most 500 times; it runs unless the scale disagrees with the sizes.
_gradient(
    "Linear1dBackward",
    1,
    only_products("A2 A3 910 950"),
    _int32_sizes("dy", "dx"),
    define(long="inputSize[2]", grown="outputSize[0]"),
    unless_empty(
        "dy",
        when(
            "product in ('A2', 'A3') and grown < 1000000 and "
            "(abs(scales) <= 1e-9 or grown == long * scales // 1 or long == grown)",
            require("(scales if scales > 0 else grown / long) <= 500", argument="scales"),
        ),
    ),
    allowed=FLOATS,
)
# Resampling to the same size copies any dtype; Ascend 950 may narrow an fp32 gradient.
_gradient(
    "Bilinear2dBackward",
    2,
    formats("NCHW NHWC", "dy", "dx"),
    when("dy != inputSize", dtypes({"950": FLOATS, "": FLOATS_WITHOUT_BF16}, "dy")),
    define(narrows="product == '950' and dy.dtype == FLOAT and dy != inputSize"),
    when("narrows", dtypes(FLOATS, "dx")),
    when("not narrows", same_dtype("dy", "dx")),
    on_products("950", same_format("dy", "dx")),
)
_gradient(
    "Bilinear2dBackwardV2",
    2,
    formats("NCHW NHWC", "dy", "dx"),
    when(
        "dy != inputSize",
        only_products("A2 A3 950 310P 910"),
        dtypes({"310P 910": FLOATS_WITHOUT_BF16, "": FLOATS}, "dy"),
    ),
    same_dtype("dy", "dx"),
    _int32_sizes("dy"),
)
_copied_gradient(
    "Bilinear2dAABackward",
    2,
    formats("ND NCHW", "dy"),
    _SAME_CHANNELS_NCHW,
    not_negative(*_HW),
    _int32_sizes("inputSize", "outputSize"),
    on_products("A2 A3", *_grows_50_times(*_HW)),
)
_copied_gradient(
    "Bicubic2dAAGrad",
    2,
    not_negative(*_HW),
    _SAME_CHANNELS_NCHW,
    formats("ND NCHW", "dy", "dx"),
    when("product != '950'", *_grows_50_times(*_HW)),
    _int32_sizes("dy", "inputSize"),
)
_gradient(
    "Bicubic2dBackward",
    2,
    on_products("950", formats("ND NCHW NHWC", "dy"), same_format("dy", "dx")),
    when("product != '950'", formats("ND NCHW", "dy")),
    on_products(
        "A2 A3",
        _int32_sizes("inputSize", "outputSize"),
        require("inputSize[0] * inputSize[1] * outputSize[0] <= 2**31 - 1"),
    ),
    allowed=FLOATS_OF_PRODUCT,
)
_gradient(
    "Trilinear3dBackward",
    3,
    formats("ND NCDHW NDHWC", "dy"),
    _int32_sizes("dy"),
    allowed=_WITH_DOUBLE,
    layout="NCDHW",
)

# ------------------------------------------------------------------------------------------------------- grid sampling


def _sampled(axes: int) -> tuple[Check, ...]:
    """input (N, C, sizes) at grid (N, sampled sizes, one coordinate per spatial axis) makes ``sampled``, (N, C, ...).

    Two spatial axes are always the last ones, whatever the format says.
    """
    return (
        rank(axes + 2, axes + 2, "input", "grid"),
        require("grid[0] == input[0]", f"grid[-1] == {axes}"),
        define(
            last="input.format in (NHWC, NDHWC) and len(input) == 5",
            sampled="(grid[0], *grid[1:-1], input[-1]) if last else (grid[0], input[1], *grid[1:-1])",
        ),
    )


# Of three spatial sizes the last two are looked at.
_SOME_PIXELS = require("all(size > 0 for size in input[-2:])")

rule(
    "aclnnGridSampler2D",
    same_dtype("input", "grid", "out"),
    dtypes({"310P": FLOATS_AND_DOUBLE, "": _WITH_DOUBLE}, "input"),
    in_range("interpolationMode", 0, 2),
    in_range("paddingMode", 0, 2),
    *_sampled(2),
    _SOME_PIXELS,
    output_shape(out="sampled"),
    # Bicubic sampling runs on the vector cores only, which take floats of at most 32 bits.
    unless_empty(
        "input grid", when("interpolationMode == 2", only_products(PRODUCTS_WITH_BF16), dtypes(FLOATS, "input"))
    ),
)
rule(
    "aclnnGridSampler3D",
    same_dtype("input", "grid", "out"),
    dtypes(_WITH_DOUBLE, "input"),
    formats("NCDHW NDHWC ND", "input", "out"),
    in_range("paddingMode", 0, 2),
    in_range("interpolationMode", 0, 1),
    *_sampled(3),
    _SOME_PIXELS,
    output_shape(out="sampled"),
    unless_empty("input grid", dtypes(_DOUBLE_OF_PRODUCT, "input")),
)


def _grid_gradients(name: str, axes: int, allowed: DtypeSet, most: int, *more: Check) -> None:
    """Without an outputMask nothing is checked or computed."""
    rule(
        name,
        when(
            "outputMask is not None",
            same_dtype("input", "gradOutput", "grid", "inputGrad", "gridGrad"),
            dtypes(allowed, "input"),
            in_range("interpolationMode", 0, most),
            in_range("paddingMode", 0, 2),
            *_sampled(axes),
            *more,
            has_shape(gradOutput="sampled"),
            same_shape("input", "inputGrad"),
            same_shape("grid", "gridGrad"),
            array_length("outputMask", 2),
        ),
        infer_shape(inputGrad="input", gridGrad="grid"),
        nullable="outputMask",
    )


_grid_gradients("aclnnGridSampler2DBackward", 2, _DOUBLE_OF_PRODUCT, 2, _SOME_PIXELS)
_grid_gradients("aclnnGridSampler3DBackward", 3, _WITH_DOUBLE, 1)

# ------------------------------------------------------------------------------------------------------- others

rule(
    "aclnnIm2colBackward",
    dtypes(FLOATS_OF_PRODUCT, "gradOutput", "out"),
    rank(2, 3, "gradOutput"),
    *(array_length(name, 2) for name in ("inputSize", "kernelSize", "dilation", "padding", "stride")),
    positive("kernelSize", "stride", "dilation"),
    not_negative("padding"),
    # The positions of the kernel over the padded image.
    define(
        taps="prod(kernelSize)",
        places="prod(int((n + 2 * p - d * (k - 1) - 1 + s) / s) for n, k, d, p, s in "
        "zip(inputSize, kernelSize, dilation, padding, stride))",
    ),
    require("gradOutput[-2] % taps == 0", "gradOutput[-1] == places"),
    output_shape(out="(*gradOutput[:-2], gradOutput[-2] // taps, *inputSize)"),
)
rule(
    "aclnnThreeInterpolateBackward",
    dtypes(FLOATS_WITHOUT_BF16, "grad_x", "weight"),
    dtypes(INDICES, "idx"),
    tiling(
        on_products("950", rank(3, "grad_x")),
        require("len(grad_x) in (3, 4)", "len(grad_x) == 3 or grad_x[3] == 1"),
        has_shape(idx="(grad_x[0], grad_x[2], 3)", weight="(grad_x[0], grad_x[2], 3)"),
    ),
    # NC1HWC0 has four dimensions; 950 computes on ND.
    copied_output_shape(grad_y="(grad_x[0], grad_x[1], m) if product == '950' else (grad_x[0], grad_x[1], m, 1)"),
)
rule(
    "aclnnRasterizer",
    only_products("A2 A3"),
    dtype_table("v f dOptional findicesOut barycentricOut", "FLOAT INT32 FLOAT INT32 FLOAT"),
    tiling(
        shape_patterns(v="vertices 4", f="faces 3"),
        in_range("height", 1, 4096),
        in_range("width", 1, 4096),
        output_shape(findicesOut="(height, width)", barycentricOut="(height, width, 3)"),
        in_range("useDepthPrior", 0, 0),
    ),
)

rule(
    "aclnnBlendFaceBgPartTwo",
    only_products("A2 950"),
    dtypes("FLOAT", "accFace", "accMask", "maxMask", "out"),
    dtypes("FLOAT UINT8", "bgImg"),
    same_shape("accFace", "accMask", "maxMask", "bgImg"),
    max_rank(8, "accFace"),
    output_shape(out="accFace"),
)
rule(
    "aclnnNMSWithMask",
    only_products("A2"),
    dtypes("FLOAT", "x1", "x2"),
    dtypes("UINT8", "out"),
    require("x1.size == 4 * x2.size"),
    output_shape(out="x2"),
)

# ------------------------------------------------------------------------------------------------- experimental

rule(
    "aclnnRgb2yuv422",
    only_products("950"),
    same_dtype("x", "out", among="UINT8 FLOAT16 FLOAT"),
    one_of("dataFormatOptional", "NHWC", "NCHW"),
    require("len(x) >= 3"),
    define(axis="len(x) - (3 if dataFormatOptional == 'NCHW' else 1)"),
    require("x[axis] == 3"),
    output_shape(out="(*x[:axis], 2, *x[axis + 1:])"),
)
rule(
    "aclnnYuv444ToYuv422",
    only_products("950"),
    dtypes("FLOAT16", "x"),
    dtypes("UINT8", "out"),
    rank(3, "x"),
    require("x[2] == 4"),
    output_shape(out="(*x[:2], 2)"),
    output_dtype(out="UINT8"),
)
rule(
    "aclnnGaussianBlur",
    only_products("950"),
    dtypes("FLOAT", "src", "dst"),
    formats("ND", "src", "dst"),
    rank(2, 3, "src"),
    not_empty("src"),
    require("len(ksize) == 2"),
    require("all(size >= 0 and (size == 0 or size % 2 == 1) and size <= 31 for size in ksize)", argument="ksize"),
    not_negative("sigmaX"),
    require("sigmaX > 0 or 0 not in ksize", argument="sigmaX"),
    one_of("borderType", 0, 1, 2, 4),
    output_shape(dst="src"),
)
