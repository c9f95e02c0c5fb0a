"""Rules of the batch norms: whole, in the parts that distributed training uses, and quantised; of the instance norm."""

from __future__ import annotations

from ascend_aclnn.core.dtypes import DataType, Format
from ascend_aclnn.core.errors import PARAM_INVALID, PARAM_NULLPTR
from ascend_aclnn.rules.language import *
from ascend_aclnn.rules.norm.layer import if_wanted, wanted_outputs

_RUNNING = ("runningMean", "runningVar")
_SAVED = ("saveMean", "saveInvstd")


def _channels(call: Call, name: str) -> int:
    """Channels: axis 1, or the last one of a channels-last tensor on Ascend 950."""
    last = call.product == "950" and call[name].format in (Format.NHWC, Format.NDHWC)
    return call.size(name, -1 if last else 1)


def _per_channel(source: str, *names: str) -> Check:
    """Tensors have one item for every channel."""

    def check(call: Call) -> None:
        wanted = (_channels(call, source),)
        for name in names:
            if call.is_present(name):
                came = call.shape(name)
                call.require(came == wanted, name, f"has shape {came}; it must be {wanted}, one for every channel")

    return check


def _channel_shape(name: str) -> ShapeRule:
    return lambda call: (_channels(call, name),)


def _box_format(*names: str, old: bool) -> Check:
    """5-d tensors are NCDHW, or NDHWC on Ascend 950."""

    def check(call: Call) -> None:
        allowed = (Format.NCDHW, Format.NDHWC) if call.product == "950" else (Format.NCDHW,)
        if call.product != "950" and not old:
            return
        for name in names:
            tensor = call[name]
            fits = tensor.ndim != 5 or tensor.format in allowed
            call.require(fits, name, f"has format {tensor.format.name}; with rank 5 it must be {allowed[0].name}")

    return check


def _training(call: Call) -> bool:
    return bool(call["training"])


def _saves_given(call: Call) -> None:
    for name in _SAVED:
        missing = _training(call) and not call.is_present(name)
        call.require(not missing, name, "is None (a null pointer); training needs it", PARAM_NULLPTR)


rule(
    "aclnnBatchNorm",
    _saves_given,
    unless_empty(
        "input",
        dtypes({"A2 A3 950": "FLOAT FLOAT16 BF16", "910 310P": "FLOAT FLOAT16", "": ""}, "input", "output"),
        when(_training, dtypes(FLOATS_OF_PRODUCT, *_SAVED)),
        dtypes(FLOATS_OF_PRODUCT, "weight", "bias", *_RUNNING),
        same_format("input", "output"),
        _box_format("input", "output", old=True),
        no_private_format("input"),
        rank(2, 8, "input", "output"),
        output_shape(output=shape_of("input")),
        _per_channel("input", "weight", "bias", *_RUNNING),
        when(_training, _per_channel("input", *_SAVED)),
    ),
    infer_shape(
        saveMean=lambda call: (_channels(call, "input"),) if _training(call) else None,
        saveInvstd=lambda call: (_channels(call, "input"),) if _training(call) else None,
    ),
    output_dtype(output=dtype_of("input"), saveMean="FLOAT", saveInvstd="FLOAT"),
)

# ------------------------------------------------------------------------------------------------- gradient

_GRADS = ("gradInput", "gradWeight", "gradBias")


def _mask(call: Call) -> None:
    """outputMask has items (three on Ascend 950), and the outputs it asks for are there; else a null pointer is answered."""
    n = len(call["outputMask"])
    fits = n == 3 if call.product == "950" else n >= 1
    call.require(fits, "outputMask", f"has {n} items; it must have 3", PARAM_NULLPTR)
    for name in wanted_outputs(call, _GRADS):
        call.require(
            call.is_present(name), name, "is None (a null pointer), but output_mask asks for it", PARAM_NULLPTR
        )


def _wanted_dtypes(allowed: str) -> Check:
    def check(call: Call) -> None:
        names = {"A2 A3 950": f"{allowed} BF16", "": allowed} if allowed == "FLOAT FLOAT16" else allowed
        dtypes(names, *wanted_outputs(call, _GRADS))(call)

    return check


def _reference_or_float(call: Call) -> None:
    """On Ascend 950 the small tensors are FLOAT or of gradOut's type, in pairs alike."""
    wanted = wanted_outputs(call, _GRADS)
    pairs = [(name, "gradOut") for name in ("weight", *_RUNNING)]
    _float_or(call, pairs)
    if call.is_present("runningMean"):
        same_dtype("runningMean", "runningVar")(call)
    _float_or(call, [(name, "gradOut") for name in _SAVED])
    if call.is_present("saveMean"):
        same_dtype("saveMean", "saveInvstd")(call)
    if "gradInput" in wanted:
        same_dtype("gradOut", "gradInput")(call)
    _float_or(call, [(name, "weight") for name in _GRADS[1:] if name in wanted])
    if call.is_present("gradWeight"):
        same_dtype("gradWeight", "gradBias")(call)


def _float_or(call: Call, pairs: list[tuple[str, str]]) -> None:
    for name, source in pairs:
        if call.is_present(name) and call.is_present(source) and call.dtype(name) is not DataType.FLOAT:
            same_dtype(source, name)(call)


def _grad_format(call: Call) -> None:
    same_format("gradOut", "input")(call)
    if "gradInput" in wanted_outputs(call, _GRADS):
        same_format("gradOut", "gradInput")(call)


def _grad_shapes(call: Call) -> None:
    rank(2, 8, "input", "gradOut")(call)
    same_shape("input", "gradOut")(call)
    if "gradInput" in wanted_outputs(call, _GRADS):
        same_shape("gradOut", "gradInput")(call)


def _saved_channels(call: Call) -> None:
    """On Ascend 950: one item for every channel, or none outside training."""
    channels = _channels(call, "input")
    allowed = ((channels,),) if _training(call) else ((channels,), (0,))
    for name in _SAVED:
        if call.is_present(name):
            came = call.shape(name)
            call.require(came in allowed, name, f"has shape {came}; it must be ({channels},)")
    _per_channel("input", *(n for n in wanted_outputs(call, _GRADS) if n != "gradInput"))(call)


def _batch_backward(name: str, allowed: str, *new: Check, last: tuple[Check, ...] = ()) -> None:
    floats = plus_bf16(allowed) if allowed == "FLOAT FLOAT16" else allowed
    rule(
        name,
        unless_empty(
            "input gradOut",
            _mask,
            dtypes(floats, "gradOut", "input"),
            same_dtype("gradOut", "input"),
            _wanted_dtypes(allowed),
            dtypes(floats, "weight", *_RUNNING, *_SAVED),
            *new,
            _grad_format,
            no_private_format("gradOut", "input"),
            _grad_shapes,
            _per_channel("input", "weight", *_RUNNING),
            tiling(when(_training, _per_channel("input", *_SAVED))),
            *last,
        ),
        tiling(same_shape("input", "gradOut")),
        infer_shape(
            gradInput=if_wanted("gradInput", _GRADS, shape_of("input")),
            gradWeight=if_wanted("gradWeight", _GRADS, _channel_shape("input")),
            gradBias=if_wanted("gradBias", _GRADS, _channel_shape("input")),
        ),
        output_dtype(gradInput=dtype_of("input"), gradWeight=_weight_dtype, gradBias=_weight_dtype),
    )


def _weight_dtype(call: Call) -> DataType:
    return call.dtype("weight") if call.is_present("weight") else DataType.FLOAT


_batch_backward(
    "aclnnBatchNormBackward",
    "FLOAT FLOAT16",
    on_products("950", _reference_or_float),
    last=(on_products("950", _box_format("input", old=False), _saved_channels),),
)
_batch_backward("aclnnFastBatchNormBackward", "FLOAT FLOAT16 BF16")

# ------------------------------------------------------------------------------------------------- elementwise part


def _some_channel(name: str) -> Check:
    def check(call: Call) -> None:
        rank(2, 8, name)(call)
        sizes = call.shape(name)
        call.require(sizes[1] != 0, name, f"has shape {sizes}; there must be at least one channel")

    return check


rule(
    "aclnnBatchNormElemt",
    dtypes(FLOATS_OF_PRODUCT, "input", "weight", "bias", "mean", "invstd", "output"),
    same_format("input", "output"),
    no_private_format("input"),
    rank(2, 8, "input", "output"),
    output_shape(output=shape_of("input")),
    _some_channel("input"),
    _per_channel("input", "weight", "bias", "mean", "invstd"),
    output_dtype(output=dtype_of("input")),
    null_status=PARAM_INVALID,
)
rule(
    "aclnnBatchNormElemtBackward",
    dtypes(FLOATS_OF_PRODUCT, "gradOut", "input", "mean", "invstd", "weight", "sumDy", "sumDyXmu"),
    dtypes("FLOAT FLOAT16 INT32", "counter"),
    dtypes(FLOATS_OF_PRODUCT, "gradInput"),
    no_private_format("gradOut", "input", "gradInput"),
    rank(2, 8, "input"),
    max_rank(8, "gradOut", "gradInput", "counter"),
    _some_channel("input"),
    same_shape("input", "gradOut"),
    output_shape(gradInput=shape_of("input")),
    _per_channel("input", "mean", "invstd", "weight", "sumDy", "sumDyXmu"),
    output_dtype(gradInput=dtype_of("gradOut")),
)

# ------------------------------------------------------------------------------------------------- statistics

_SUMS = (("sumDy", "inputG"), ("sumDyXmu", "inputG"), ("gradWeight", "weightG"), ("gradBias", "biasG"))


def _asked_for(call: Call) -> list[str]:
    return [name for name, flag in _SUMS if call[flag]]


def _reduce_backward(call: Call) -> None:
    asked = _asked_for(call)
    for name in asked:
        call.require(call.is_present(name), name, "is None (a null pointer), but its flag is set", PARAM_NULLPTR)
    dtypes(FLOATS_OF_PRODUCT, "gradOut", "input", "mean", "invstd")(call)
    same_dtype("gradOut", "input")(call)
    dtypes(FLOATS_OF_PRODUCT, *asked)(call)
    same_format("gradOut", "input")(call)
    no_private_format("gradOut", "input", "mean", "invstd", *asked)(call)
    rank(2, 8, "gradOut", "input")(call)
    _some_channel("input")(call)
    wanted = (call.size("input", 1),)
    for name in asked:
        came = call.shape(name)
        call.require(came == wanted, name, f"has shape {came}; it must be {wanted}, one for every channel")


def _if_asked(name: str) -> ShapeRule:
    return lambda call: (call.size("input", 1),) if name in _asked_for(call) else None


rule(
    "aclnnBatchNormReduceBackward",
    _reduce_backward,
    tiling(require("mean.size == input[1]", "invstd.size == input[1]", "weight.size == input[1]")),
    infer_shape(**{name: _if_asked(name) for name, _ in _SUMS}),
    output_dtype(**{name: dtype_of("mean") for name, _ in _SUMS}),
    nullable="weight",
)


def _gathered(call: Call) -> None:
    """mean and invstd have a row for every process, counts a number for each."""
    rank(2, 8, "input")(call)
    rank(2, 2, "mean", "invstd")(call)
    mean, invstd, counts = call.shape("mean"), call.shape("invstd"), call.shape("counts")
    call.require(invstd[0] == mean[0], "invstd", f"has {invstd[0]} rows; mean has {mean[0]}")
    call.require(counts[:1] == mean[:1], "counts", f"has shape {counts}; it must be ({mean[0]},)")
    channels = call.size("input", 1)
    for name in ("mean", "invstd"):
        came = call.size(name, 1)
        call.require(came == channels, name, f"has {came} columns; input has {channels} channels")
    for name in (*_RUNNING, "counts"):
        if call.is_present(name):
            sizes, wanted = call.shape(name), mean[:1] if name == "counts" else (channels,)
            call.require(sizes == wanted, name, f"has shape {sizes}; it must be {wanted}")


rule(
    "aclnnBatchNormGatherStatsWithCounts",
    dtypes(FLOATS_OF_PRODUCT, "input", "mean", "invstd", *_RUNNING, "counts", "meanAll", "invstdAll"),
    no_private_format("input", "mean", "invstd", "counts"),
    _gathered,
    output_shape(meanAll=lambda call: (call.size("input", 1),), invstdAll=lambda call: (call.size("input", 1),)),
    output_dtype(meanAll=dtype_of("mean"), invstdAll=dtype_of("mean")),
)


def _image_channels(call: Call) -> Shape:
    return (call.size("x", 3 if call["x"].format is Format.NHWC else 1),)


rule(
    "aclnnBatchNormReduce",
    unless_empty(
        "x sum squareSum",
        dtypes("FLOAT FLOAT16 BF16", "x"),
        dtypes("FLOAT", "sum", "squareSum"),
        formats("NCHW NHWC", "x"),
        formats("ND", "sum", "squareSum"),
        rank(4, 4, "x"),
        output_shape(sum=_image_channels, squareSum=_image_channels),
    ),
    output_dtype(sum="FLOAT", squareSum="FLOAT"),
)


def _sync_shapes(call: Call) -> None:
    rank(2, 2, "totalSum", "totalSquareSum")(call)
    rank(1, 1, "sampleCount", "mean", "variance", "batchMean", "batchInvstd")(call)
    same_shape("totalSum", "totalSquareSum")(call)
    processes, channels = call.sizes("totalSum", 2)
    for name, wanted in (
        ("sampleCount", processes),
        *((n, channels) for n in ("mean", "variance", "batchMean", "batchInvstd")),
    ):
        came = call.size(name, 0)
        call.require(came == wanted, name, f"has {came} items; it must have {wanted}")
    call.require(processes > 0, "totalSum", "has no rows")


_SYNC = {"950": "FLOAT FLOAT16 BF16", "": "FLOAT FLOAT16"}
rule(
    "aclnnSyncBatchNormGatherStats",
    dtypes(_SYNC, "totalSum", "totalSquareSum"),
    dtypes({"950": "FLOAT FLOAT16 BF16 INT32", "": "FLOAT FLOAT16 INT32"}, "sampleCount"),
    dtypes(_SYNC, "mean", "variance", "batchMean", "batchInvstd"),
    same_dtype("totalSum", "totalSquareSum", "mean", "variance"),
    same_dtype("batchMean", "batchInvstd"),
    no_private_format("totalSum", "totalSquareSum", "sampleCount", "mean", "variance"),
    _sync_shapes,
    infer_shape(batchMean=lambda call: call.shape("totalSum")[1:], batchInvstd=lambda call: call.shape("totalSum")[1:]),
    output_dtype(batchMean=dtype_of("totalSum"), batchInvstd=dtype_of("totalSum")),
)

# ------------------------------------------------------------------------------------------------- quantised, instance


def _not_empty(call: Call) -> None:
    for name in ("input", "mean", "var", "weight", "bias"):
        call.require(not call.is_empty(name), name, "is empty")


rule(
    "aclnnQuantizedBatchNorm",
    _not_empty,
    dtypes("INT8 UINT8 INT32", "input", "output"),
    same_format("input", "output"),
    no_private_format("input"),
    output_shape(output=shape_of("input")),
    dtypes("FLOAT", "weight", "bias", "mean", "var"),
    _per_channel("input", "weight", "bias", "mean", "var"),
    dtypes("FLOAT", "inputScale"),
    dtypes("INT32", "inputZeroPoint"),
    dtypes("FLOAT", "outputScale"),
    dtypes("INT32", "outputZeroPoint"),
    rank(4, 4, "input"),
    output_dtype(output=dtype_of("input")),
)


def _layout(call: Call) -> None:
    came = call["dataFormat"]
    call.require(came.startswith(("NHWC", "NCHW")), "dataFormat", f"is {came!r}; it must be 'NHWC' or 'NCHW'")


def _instance_channels(call: Call) -> None:
    call.require(call.product == "310P", None, f"the operator is not supported on {call.soc.name}; it is on 310P")
    rank(4, 4, "x")(call)
    rank(1, 1, "gamma", "beta")(call)
    channels, came = call.size("x", 3 if call["dataFormat"].startswith("NHWC") else 1), call.size("gamma", 0)
    call.require(channels == came, "gamma", f"has {came} items; x has {channels} channels")


def _instance_rows(call: Call) -> Shape:
    """One number for every image and channel."""
    batch = call.size("x", 0)
    return (
        (batch, 1, 1, call.size("x", 3)) if call["dataFormat"].startswith("NHWC") else (batch, call.size("x", 1), 1, 1)
    )


rule(
    "aclnnInstanceNorm",
    _layout,
    dtypes("FLOAT FLOAT16", "x"),
    same_dtype("x", "gamma", "beta", "y", "mean", "variance"),
    max_rank(8, "x"),
    _instance_channels,
    infer_shape(y=shape_of("x"), mean=_instance_rows, variance=_instance_rows),
    output_dtype(y=dtype_of("x"), mean=dtype_of("x"), variance=dtype_of("x")),
)
