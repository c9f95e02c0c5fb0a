"""Rules of ops-cv/image: resampling of images, (N, C, spatial axes) or, with NHWC and NDHWC, (N, spatial axes, C)."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ascend_aclnn.core.dtypes import DataType, Format
from ascend_aclnn.core.errors import INNER_NULLPTR
from ascend_aclnn.rules.language import *

_INT32_MAX = 2**31 - 1
_NO_BF16 = "FLOAT FLOAT16"
_FLOATS_A2: DtypeSet = {"A2 A3 950": FLOATS, "": _NO_BF16}
_WITH_DOUBLE = "FLOAT FLOAT16 BF16 DOUBLE"


# ------------------------------------------------------------------------------------------------------- layouts


def _channels_last(call: Call, *names: str) -> bool:
    """Whether the first given of some tensors keeps its channels in the last axis."""
    return next((call[n].format in (Format.NHWC, Format.NDHWC) for n in names if call.is_present(n)), False)


def _laid_out(n: int, c: int, spatial: Sequence[int], channels_last: bool) -> Shape:
    return (n, *spatial, c) if channels_last else (n, c, *spatial)


def _image(call: Call, name: str, spatial: int) -> tuple[int, int, Shape]:
    """Batch, channels and spatial sizes of a tensor."""
    sizes = call.shape(name)
    call.require(len(sizes) == spatial + 2, name, f"has rank {len(sizes)} (shape {sizes}); it must be {spatial + 2}")
    return (sizes[0], sizes[-1], sizes[1:-1]) if _channels_last(call, name) else (sizes[0], sizes[1], sizes[2:])


def _sizes(call: Call, name: str, count: int) -> Shape:
    """An array of sizes."""
    values = call[name]
    call.require(values is not None, name, "is None; it is required")
    call.require(len(values) == count, name, f"has {len(values)} items; it must have {count}")
    return tuple(values)


def _scaled(x: str, spatial: int, out: str = "out") -> ShapeRule:
    """Shape of an image after resampling to outputSize, in the layout of the output."""

    def shape_(call: Call) -> Shape:
        n, c, _ = _image(call, x, spatial)
        return _laid_out(n, c, _sizes(call, "outputSize", spatial), _channels_last(call, out, x))

    return shape_


def _input_sizes(call: Call, dy: str, spatial: int, channels_first: bool) -> tuple[int, int, Shape]:
    """Batch, channels and spatial sizes that inputSize names; it follows dy's layout unless always channels first."""
    sizes = _sizes(call, "inputSize", spatial + 2)
    if _channels_last(call, dy) and not channels_first:
        return sizes[0], sizes[-1], sizes[1:-1]
    return sizes[0], sizes[1], sizes[2:]


# ------------------------------------------------------------------------------------------------------- checks


def _filled(x: str, spatial: int, batch: bool = False) -> Check:
    """Channels, spatial sizes and outputSize are positive (and the batch, if asked for)."""

    def check(call: Call) -> None:
        n, c, sizes = _image(call, x, spatial)
        good = c > 0 and all(size > 0 for size in sizes) and (n > 0 or not batch)
        call.require(good, x, f"has shape {call.shape(x)}; only its batch may be empty" if not batch else "is empty")
        wanted = _sizes(call, "outputSize", spatial)
        call.require(all(size > 0 for size in wanted), "outputSize", f"is {wanted}; it must be positive")

    return check


def _int32_sizes(*names: str) -> Check:
    """Sizes of tensors and arrays fit in 32 bits, except on Ascend 950."""

    def check(call: Call) -> None:
        if call.product == "950":
            return
        for name in names:
            sizes = call[name] if isinstance(call[name], tuple) else call.shape(name)
            text = f"has sizes {sizes}; they must not exceed {_INT32_MAX}"
            call.require(all(size <= _INT32_MAX for size in sizes), name, text)

    return check


def _not_negative(*names: str) -> Check:
    def check(call: Call) -> None:
        for name in names:
            call.require(call[name] >= 0, name, f"is {call[name]}; it must not be negative")

    return check


def _scale_agrees(x: str, spatial: int, names: Sequence[str], all_or_none: bool = False) -> Check:
    """outputSize is size * scale (to 1e-5) for each positive scale (except on Ascend 950), or if all are positive."""

    def check(call: Call) -> None:
        scales = [call[name] for name in names]
        if all_or_none and not all(scale > 0 for scale in scales):
            return
        if call.product == "950" and not all_or_none:
            return
        sizes, wanted = _image(call, x, spatial)[2], _sizes(call, "outputSize", spatial)
        for name, scale, size, target in zip(names, scales, sizes, wanted):
            if not 0 < scale < math.inf:
                continue
            fits = target == int(size * scale) or int(size * (scale - 1e-5)) <= target <= int(size * (scale + 1e-5))
            text = f"is {scale}, which scales {size} to {int(size * scale)}; output_size asks for {target}"
            call.require(fits, name, text)

    return check


def _shrinks_at_most(limit: float, x: str, names: Sequence[str], whole: bool = False) -> Check:
    """Each size shrinks by at most a factor (``whole``: counted in whole numbers); no limit on Ascend 950."""

    def check(call: Call) -> None:
        if call.product == "950":
            return
        sizes, wanted = _image(call, x, len(names))[2], _sizes(call, "outputSize", len(names))
        for name, size, target in zip(names, sizes, wanted):
            factor = 1 / call[name] if call[name] > 0 else size // target if whole else size / target
            call.require(factor <= limit, name, f"shrinks {size} to {target}, by {factor:g}; at most {limit:g}")

    return check


def _grows_at_most(limit: float, dy: str, names: Sequence[str], products: str = "") -> Check:
    """A gradient's input was enlarged at most by a factor; no limit on Ascend 950 (or on other than the products)."""

    def check(call: Call) -> None:
        if (call.product not in products.split()) if products else call.product == "950":
            return
        before, after = call["inputSize"][2:], call.shape(dy)[2:]
        for name, size, grown in zip(names, before, after):
            ratio = 1 / call[name] if call[name] > 0 else size / grown if grown else 0.0
            text = f"enlarges {size} to {grown}, by more than {limit:g}, the most that is supported"
            call.require(ratio >= 1 / limit, name, text)

    return check


def _same_images(first: str, second: str, by_layout: bool = True) -> Check:
    """Two images have the same batch and channels (those of the first's layout, else the first two axes)."""

    def check(call: Call) -> None:
        at = -1 if by_layout and _channels_last(call, first) else 1
        a, b = call.shape(first), call.shape(second)
        fits = len(a) == len(b) and (a[0], a[at]) == (b[0], b[at])
        text = f"has shape {b}; its batch and channels must be those of {call.python_name(first)}, {a}"
        call.require(fits, second, text)

    return check


def _spatial_out(x: str, spatial: int) -> Check:
    """The spatial sizes of out are those of outputSize."""

    def check(call: Call) -> None:
        n, c, _ = _image(call, x, spatial)
        wanted = _laid_out(n, c, _sizes(call, "outputSize", spatial), _channels_last(call, "out"))
        axes = range(1, 1 + spatial) if _channels_last(call, "out") else range(2, 2 + spatial)
        came = call.shape("out")
        fits = len(came) == len(wanted) and all(came[axis] == wanted[axis] for axis in axes)
        call.require(fits, "out", f"has shape {came}; output_size asks for {wanted}")

    return check


# ------------------------------------------------------------------------------------------------------- forward


def _upsample(x: str, spatial: int, allowed: DtypeSet, *more: Check, filled_batch: bool = False) -> tuple[Check, ...]:
    """What all forward operators ask for; ``more`` says how the output is compared."""
    return (
        dtypes(allowed, x),
        same_dtype(x, "out"),
        array_length("outputSize", spatial),
        rank(spatial + 2, spatial + 2, x),
        _filled(x, spatial, filled_batch),
        *more,
    )


def _layouts(allowed: str, x: str, y: str = "out") -> tuple[Check, ...]:
    return formats(allowed, x), same_format(x, y)


_NEAREST: DtypeSet = {"A2 A3 950": "FLOAT FLOAT16 BF16 DOUBLE UINT8", "": "FLOAT FLOAT16 DOUBLE UINT8"}
_EXACT: DtypeSet = {"950": FLOATS, "": "FLOAT FLOAT16 BF16 UINT8"}
_HW = ("scalesH", "scalesW")
_DHW = ("scalesD", "scalesH", "scalesW")

rule(
    "aclnnUpsampleNearest1d",
    *_upsample("self", 1, _NEAREST, *_layouts("NCL", "self"), copied_output_shape(out=_scaled("self", 1))),
)
rule(
    "aclnnUpsampleNearest1dV2",
    *_upsample(
        "self",
        1,
        _NEAREST,
        *_layouts("NCL", "self"),
        _spatial_out("self", 1),
        copied_output_shape(out=_scaled("self", 1)),
    ),
)
rule(
    "aclnnUpsampleNearest2d",
    *_upsample(
        "self",
        2,
        _NEAREST,
        *_layouts("NCHW NHWC", "self"),
        output_shape(out=_scaled("self", 2)),
        _int32_sizes("self", "out"),
    ),
)
rule(
    "aclnnUpsampleNearest2dV2",
    unless_empty(
        "self out",
        *_upsample("self", 2, _NEAREST, formats("NCHW NHWC", "self", "out"), output_shape(out=_scaled("self", 2))),
    ),
)
rule(
    "aclnnUpsampleNearest3d",
    *_upsample(
        "self",
        3,
        {"310P": _NO_BF16, "950": "FLOAT FLOAT16 BF16 DOUBLE UINT8", "": _WITH_DOUBLE},
        output_shape(out=_scaled("self", 3, "self")),
    ),
)
rule(
    "aclnnUpsampleNearestExact1d",
    *_upsample("self", 1, _EXACT, copied_output_shape(out=_scaled("self", 1)), filled_batch=True),
)
rule(
    "aclnnUpsampleNearestExact2d",
    unless_empty(
        "self out",
        *_upsample(
            "self",
            2,
            _EXACT,
            _same_images("self", "out"),
            *_layouts("NCHW NHWC ND", "self"),
            copied_output_shape(out=_scaled("self", 2)),
        ),
    ),
)
rule(
    "aclnnUpsampleNearestExact3d",
    *_upsample(
        "self",
        3,
        {"310P": _NO_BF16, "": FLOATS},
        _scale_agrees("self", 3, _DHW, all_or_none=True),
        output_shape(out=_scaled("self", 3, "self")),
    ),
)


def _linear_scale(call: Call) -> None:
    """A scale that is given (not negative) scales the length to outputSize."""
    scale, length, wanted = call["scales"], call.shape("self")[2], call["outputSize"][0]
    scaled = int(length * scale) if math.isfinite(scale) else scale
    text = f"is {scale}, which scales {length} to {scaled}; output_size asks for {wanted}"
    call.require(scale < 0 or call.product == "950" or scaled == wanted, "scales", text)


rule("aclnnUpsampleLinear1d", *_upsample("self", 1, FLOATS, output_shape(out=_scaled("self", 1)), _linear_scale))


_NOT_DOUBLE_IN_NCHW = (require("self.dtype != DOUBLE or self.format == NHWC"),)


rule(
    "aclnnUpsampleBilinear2d",
    dtypes(_WITH_DOUBLE, "self"),
    same_dtype("self", "out"),
    same_format("self", "out"),
    formats("NCHW NHWC", "self"),
    rank(4, 4, "self", "out"),
    *_NOT_DOUBLE_IN_NCHW,
    _not_negative(*_HW),
    output_shape(out=_scaled("self", 2)),
    nullable="outputSize",
    null_status=INNER_NULLPTR,
)
rule(
    "aclnnUpsampleBilinear2dAA",
    *_upsample(
        "input",
        2,
        FLOATS,
        *_layouts("ND NCHW", "input"),
        when(lambda call: call["input"].format is Format.NCHW, _same_images("input", "out")),
        _not_negative(*_HW),
        _int32_sizes("input", "outputSize"),
        _shrinks_at_most(50, "input", _HW, whole=True),
        copied_output_shape(out=_scaled("input", 2)),
        filled_batch=True,
    ),
)
rule(
    "aclnnUpsampleBicubic2d",
    *_upsample(
        "self",
        2,
        _FLOATS_A2,
        *_layouts("NCHW NHWC ND", "self"),
        output_shape(out=_scaled("self", 2)),
        _int32_sizes("self", "outputSize"),
        _scale_agrees("self", 2, _HW),
    ),
)
rule(
    "aclnnUpsampleBicubic2dAA",
    *_upsample(
        "x",
        2,
        FLOATS,
        formats("ND NCHW", "x", "out"),
        _spatial_out("x", 2),
        _int32_sizes("x", "outputSize"),
        _shrinks_at_most(50, "x", _HW),
        copied_output_shape(out=_scaled("x", 2)),
    ),
)
rule(
    "aclnnUpsampleTrilinear3d",
    *_upsample(
        "self",
        3,
        {"310P 310B": _NO_BF16, "950": FLOATS, "": _WITH_DOUBLE},
        formats("ND NCDHW NDHWC", "self"),
        output_shape(out=_scaled("self", 3)),
        _int32_sizes("self", "out"),
    ),
)


def _resize_mode(call: Call) -> None:
    mode = call["mode"]
    known = mode.startswith(("nearest", "bilinear"))
    call.require(known, "mode", f"is {mode!r}; it must be 'nearest' or 'bilinear'")


def _resize_out(call: Call) -> Shape:
    n, c, sizes = _image(call, "self", 2)
    scales = call["scales"]
    call.require(len(scales) == 4, "scales", f"has {len(scales)} items; it must have 4")
    call.require(all(map(math.isfinite, scales)), "scales", f"is {scales}; its items must be finite")
    last = _channels_last(call, "self")
    pair = scales[1:3] if last else scales[2:]
    return _laid_out(n, c, [int(size * scale) for size, scale in zip(sizes, pair)], last)


def _resized(call: Call) -> None:
    """out is self scaled, to 1e-5 of the scales; batch and channels stay."""
    wanted, came, sizes = _resize_out(call), call.shape("out"), call.shape("self")
    call.require(len(came) == 4, "out", f"has rank {len(came)}; it must be 4")
    for axis, (target, n, size, scale) in enumerate(zip(wanted, came, sizes, call["scales"])):
        fits = int(size * (scale - 1e-5)) <= n <= int(size * (scale + 1e-5))
        spatial = axis in ((1, 2) if _channels_last(call, "self") else (2, 3))
        call.require(fits if spatial else n == size, "out", f"has shape {came}; axis {axis} must be {target}")


rule(
    "aclnnResize",
    _resize_mode,
    dtypes({"310B 310": _NO_BF16, "": FLOATS}, "self"),
    same_dtype("self", "out"),
    same_format("self", "out"),
    formats("NCHW NHWC", "self"),
    _resized,
    infer_shape(out=_resize_out),
)

# ------------------------------------------------------------------------------------------------------- backward


def _upsample_grad(
    dy: str, dx: str, spatial: int, allowed: DtypeSet, *more: Check, channels_first: bool = False
) -> tuple[Check, ...]:
    """What most gradients ask for: dy has the shape of the resampled image, dx that of the image (inputSize)."""

    def grown(call: Call) -> Shape:
        n, c, _ = _input_sizes(call, dy, spatial, channels_first)
        return _laid_out(n, c, _sizes(call, "outputSize", spatial), _channels_last(call, dy))

    def original(call: Call) -> Shape:
        n, c, sizes = _input_sizes(call, dy, spatial, channels_first)
        return _laid_out(n, c, sizes, _channels_last(call, dx, dy))

    def filled(call: Call) -> None:
        for name in ("inputSize", "outputSize"):
            sizes = _input_sizes(call, dy, spatial, channels_first)[2] if name == "inputSize" else call[name]
            call.require(all(n > 0 for n in sizes), name, f"is {call[name]}; its spatial sizes must be positive")

    return (
        dtypes(allowed, dy),
        same_dtype(dy, dx),
        rank(spatial + 2, spatial + 2, dy),
        array_length("outputSize", spatial),
        array_length("inputSize", spatial + 2),
        filled,
        output_shape(**{dy: grown, dx: original}),
        *more,
    )


def _exact_grad(dy: str, spatial: int, *more: Check) -> tuple[Check, ...]:
    """Gradients that compare dx with dy only in batch and channels, and copy the result."""

    def filled(call: Call) -> None:
        sizes, inputs = call.shape(dy), call["inputSize"]
        call.require(all(n > 0 for n in sizes), dy, f"has shape {sizes}; it must not be empty")
        call.require(all(n > 0 for n in inputs[2:]), "inputSize", f"is {inputs}; its spatial sizes must be positive")

    def original(call: Call) -> Shape:
        return _sizes(call, "inputSize", spatial + 2)

    return (
        dtypes(FLOATS, dy),
        same_dtype(dy, "out"),
        same_format(dy, "out"),
        rank(spatial + 2, spatial + 2, dy, "out"),
        array_length("inputSize", spatial + 2),
        array_length("outputSize", spatial),
        *more,
        filled,
        copied_output_shape(out=original),
    )


rule("aclnnUpsampleNearest1dBackward", *_upsample_grad("gradOut", "out", 1, _WITH_DOUBLE))
rule(
    "aclnnUpsampleNearest2dBackward",
    *_upsample_grad("gradOut", "gradInput", 2, _FLOATS_A2, formats("NCHW NHWC", "gradInput")),
)
rule(
    "aclnnUpsampleNearest3dBackward",
    *_upsample_grad(
        "gradOut", "gradInput", 3, _WITH_DOUBLE, _int32_sizes("outputSize", "inputSize"), channels_first=True
    ),
)
rule(
    "aclnnUpsampleNearestExact1dBackward",
    *_exact_grad(
        "gradOutput",
        1,
        _same_images("gradOutput", "out", by_layout=False),
        _not_negative("scales"),
        _grows_at_most(50, "gradOutput", ("scales",), "A2 A3 310P 910 310B 310 950"),
    ),
)
rule(
    "aclnnUpsampleNearestExact2dBackward",
    unless_empty(
        "gradOutput out",
        *_exact_grad(
            "gradOutput",
            2,
            formats("NCHW ND", "gradOutput"),
            _same_images("gradOutput", "out", by_layout=False),
            _not_negative(*_HW),
            _grows_at_most(50, "gradOutput", _HW, "A2 A3 310P 910 310B 310 950"),
        ),
    ),
)


def _exact_3d_scales(call: Call) -> None:
    for name, size, grown in zip(_DHW, call["inputSize"][2:], call["outputSize"]):
        scale = call[name] if call[name] > 0 else grown / size
        call.require(scale <= 50, name, f"enlarges by {scale:g}; at most 50 is supported")


rule(
    "aclnnUpsampleNearestExact3dBackward",
    *_upsample_grad("gradOut", "gradInput", 3, FLOATS, _exact_3d_scales, _int32_sizes("gradOut"), channels_first=True),
)


def _linear_grad_scale(call: Call) -> None:
    """The kernel of A2 and A3 enlarges at most 500 times; it runs unless the scale disagrees with the sizes."""
    size, grown, scale = call["inputSize"][2], call["outputSize"][0], call["scales"]
    agrees = abs(scale) <= 1e-9 or grown == size * scale // 1
    if call.product in ("A2", "A3") and grown < 1_000_000 and (agrees or size == grown):
        ratio = scale if scale > 0 else grown / size
        call.require(ratio <= 500, "scales", f"enlarges by {ratio:g}; at most 500 is supported")


rule(
    "aclnnUpsampleLinear1dBackward",
    only_products("A2 A3 910 950"),
    *_upsample_grad(
        "gradOut", "out", 1, FLOATS, _int32_sizes("gradOut", "out"), unless_empty("gradOut", _linear_grad_scale)
    ),
)


def _unchanged_size(call: Call) -> bool:
    return call.is_present("inputSize") and call.shape("gradOut") == call["inputSize"]


def _bilinear_dtypes(call: Call) -> None:
    """Resampling to the same size copies any dtype; Ascend 950 may narrow an fp32 gradient."""
    if not _unchanged_size(call):
        dtypes({"950": FLOATS, "": _NO_BF16}, "gradOut")(call)
    if call.product == "950" and call.dtype("gradOut") is DataType.FLOAT and not _unchanged_size(call):
        dtypes(FLOATS, "out")(call)
    else:
        same_dtype("gradOut", "out")(call)


_bilinear_grad = _upsample_grad("gradOut", "out", 2, FLOATS, formats("NCHW NHWC", "gradOut", "out"))[2:]

rule(
    "aclnnUpsampleBilinear2dBackward",
    *_bilinear_grad,
    _bilinear_dtypes,
    when(lambda call: call.product == "950", same_format("gradOut", "out")),
)
rule(
    "aclnnUpsampleBilinear2dBackwardV2",
    *_bilinear_grad,
    when(
        lambda call: not _unchanged_size(call),
        only_products("A2 A3 950 310P 910"),
        dtypes({"310P 910": _NO_BF16, "": FLOATS}, "gradOut"),
    ),
    same_dtype("gradOut", "out"),
    _int32_sizes("gradOut"),
)
rule(
    "aclnnUpsampleBilinear2dAABackward",
    *_exact_grad(
        "gradOutput",
        2,
        formats("ND NCHW", "gradOutput"),
        when(lambda call: call["gradOutput"].format is Format.NCHW, _same_images("gradOutput", "out")),
        _not_negative(*_HW),
        _int32_sizes("inputSize", "outputSize"),
        _grows_at_most(50, "gradOutput", _HW, "A2 A3"),
    ),
)
rule(
    "aclnnUpsampleBicubic2dAAGrad",
    *_exact_grad(
        "gradOutput",
        2,
        _not_negative(*_HW),
        when(lambda call: call["gradOutput"].format is Format.NCHW, _same_images("gradOutput", "out")),
        formats("ND NCHW", "gradOutput", "out"),
        _grows_at_most(50, "gradOutput", _HW),
        _int32_sizes("gradOutput", "inputSize"),
    ),
)


_BICUBIC_LIMITS = (
    when("product in ('A2', 'A3')", require("inputSize[0] * inputSize[1] * outputSize[0] <= 2 ** 31 - 1")),
)


rule(
    "aclnnUpsampleBicubic2dBackward",
    *_upsample_grad("gradOut", "gradInput", 2, _FLOATS_A2),
    when(lambda call: call.product == "950", formats("ND NCHW NHWC", "gradOut"), same_format("gradOut", "gradInput")),
    when(lambda call: call.product != "950", formats("ND NCHW", "gradOut")),
    when(lambda call: call.product in ("A2", "A3"), _int32_sizes("inputSize", "outputSize")),
    *_BICUBIC_LIMITS,
)
rule(
    "aclnnUpsampleTrilinear3dBackward",
    *_upsample_grad(
        "gradOut",
        "gradInput",
        3,
        _WITH_DOUBLE,
        formats("ND NCDHW NDHWC", "gradOut"),
        _int32_sizes("gradOut"),
        channels_first=True,
    ),
)

# ------------------------------------------------------------------------------------------------------- grid sampling


def _grid_shapes(dy: str, spatial: int) -> tuple[Check, ...]:
    """input (N, C, sizes), grid (N, sampled sizes, one coordinate per spatial axis), dy (N, C, sampled sizes).

    Two spatial axes are always the last ones, whatever the format says.
    """

    def sampled(call: Call) -> Shape:
        grid, image = call.shape("grid"), call.shape("input")
        if spatial == 2:
            call.require(len(image) == 4, "input", f"has rank {len(image)} (shape {image}); it must be 4")
            n, c = image[:2]
        else:
            n, c, _ = _image(call, "input", spatial)
        call.require(len(grid) == spatial + 2, "grid", f"has rank {len(grid)}; it must be {spatial + 2}")
        call.require(grid[0] == n, "grid", f"has shape {grid}; its batch must be that of input, {n}")
        call.require(grid[-1] == spatial, "grid", f"has shape {grid}; its last axis must be {spatial}")
        if spatial == 2 or dy == "out":  # of three spatial sizes the last two are looked at
            call.require(all(size > 0 for size in image[-2:]), "input", f"has shape {image}; it has no pixels")
        return _laid_out(n, c, grid[1:-1], spatial == 3 and _channels_last(call, "input"))

    return (output_shape(**{dy: sampled}),)


# Bicubic sampling runs on the vector cores only, which take floats of at most 32 bits.
_BICUBIC_ON_CORES = (require("interpolationMode != 2 or (product in ('A2', 'A3', '950') and input.dtype != DOUBLE)"),)


rule(
    "aclnnGridSampler2D",
    same_dtype("input", "grid", "out"),
    dtypes({"310P": "FLOAT FLOAT16 DOUBLE", "": _WITH_DOUBLE}, "input"),
    in_range("interpolationMode", 0, 2),
    in_range("paddingMode", 0, 2),
    *_grid_shapes("out", 2),
    unless_empty("input grid", *_BICUBIC_ON_CORES),
)
rule(
    "aclnnGridSampler3D",
    same_dtype("input", "grid", "out"),
    dtypes(_WITH_DOUBLE, "input"),
    formats("NCDHW NDHWC ND", "input", "out"),
    in_range("paddingMode", 0, 2),
    in_range("interpolationMode", 0, 1),
    *_grid_shapes("out", 3),
    unless_empty("input grid", dtypes({"A2 A3 950": _WITH_DOUBLE, "": "FLOAT FLOAT16 DOUBLE"}, "input")),
)


def _grid_backward(spatial: int, allowed: DtypeSet, most: int) -> tuple[Check, ...]:
    """Without an outputMask nothing is checked or computed."""
    checks = (
        same_dtype("input", "gradOutput", "grid", "inputGrad", "gridGrad"),
        dtypes(allowed, "input"),
        in_range("interpolationMode", 0, most),
        in_range("paddingMode", 0, 2),
        *_grid_shapes("gradOutput", spatial),
        same_shape("input", "inputGrad"),
        same_shape("grid", "gridGrad"),
        array_length("outputMask", 2),
    )
    told = infer_shape(inputGrad="input", gridGrad="grid")
    return when(lambda call: call.is_present("outputMask"), *checks), told


rule(
    "aclnnGridSampler2DBackward",
    *_grid_backward(2, {"A2 A3 950": _WITH_DOUBLE, "": "FLOAT FLOAT16 DOUBLE"}, 2),
    nullable="outputMask",
)
rule("aclnnGridSampler3DBackward", *_grid_backward(3, _WITH_DOUBLE, 1), nullable="outputMask")

# ------------------------------------------------------------------------------------------------------- others


def _blocks(call: Call) -> int:
    """How many kernel positions a convolution has over the padded image."""
    total = 1
    for size, kernel, dilation, padding, stride in zip(
        *(call[name] for name in ("inputSize", "kernelSize", "dilation", "padding", "stride"))
    ):
        total *= int((size + 2 * padding - dilation * (kernel - 1) - 1 + stride) / stride)
    return total


def _im2col_arrays(call: Call) -> None:
    for name, least in (("kernelSize", 1), ("stride", 1), ("dilation", 1), ("padding", 0)):
        call.require(all(n >= least for n in call[name]), name, f"is {call[name]}; its items must be at least {least}")
    plane, blocks = call.shape("gradOutput", least=2)[-2:]
    window = call["kernelSize"][0] * call["kernelSize"][1]
    shape_ = call.shape("gradOutput")
    text = f"has shape {shape_}; its last axis but one must be a multiple of the kernel's {window}"
    call.require(plane % window == 0, "gradOutput", text)
    text = f"has shape {shape_}; its last axis must be {_blocks(call)}, the kernel's positions"
    call.require(blocks == _blocks(call), "gradOutput", text)


def _col2im_shape(call: Call) -> Shape:
    grad = call.shape("gradOutput")
    call.require(len(grad) in (2, 3), "gradOutput", f"has rank {len(grad)}; it must be 2 or 3")
    window = _sizes(call, "kernelSize", 2)[0] * _sizes(call, "kernelSize", 2)[1]
    call.require(window > 0, "kernelSize", f"is {call['kernelSize']}; its items must be positive")
    return (*grad[:-2], grad[-2] // window, *_sizes(call, "inputSize", 2))


rule(
    "aclnnIm2colBackward",
    dtypes(_FLOATS_A2, "gradOutput", "out"),
    rank(2, 3, "gradOutput"),
    array_length("inputSize", 2),
    array_length("kernelSize", 2),
    array_length("dilation", 2),
    array_length("padding", 2),
    array_length("stride", 2),
    _im2col_arrays,
    output_shape(out=_col2im_shape),
)

rule(
    "aclnnThreeInterpolateBackward",
    dtypes(_NO_BF16, "grad_x", "weight"),
    dtypes("INT32 INT64", "idx"),
    tiling(
        require("len(grad_x) in (3, 4)", "len(grad_x) == 3 or grad_x[3] == 1"),
        has_shape(idx="(grad_x[0], grad_x[2], 3)", weight="(grad_x[0], grad_x[2], 3)"),
    ),
    copied_output_shape(grad_y="(grad_x[0], grad_x[1], m, 1)"),
)

rule(
    "aclnnRasterizer",
    only_products("A2 A3"),
    dtype_table("v f dOptional findicesOut barycentricOut", "FLOAT INT32 FLOAT INT32 FLOAT"),
    tiling(
        rank(2, 2, "v", "f"),
        output_shape(v="(v[0], 4)", f="(f[0], 3)"),
        in_range("height", 1, 4096),
        in_range("width", 1, 4096),
        output_shape(findicesOut="(height, width)", barycentricOut="(height, width, 3)"),
        in_range("useDepthPrior", 0, 0),
    ),
)
