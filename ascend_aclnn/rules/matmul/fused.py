"""Rules of products fused with what stands before or behind them, and of compressed or packed weights."""

from __future__ import annotations

from ascend_aclnn.core.dtypes import DataType, Format
from ascend_aclnn.core.errors import PARAM_NULLPTR, RUNTIME_ERROR
from ascend_aclnn.rules.language import *
from ascend_aclnn.rules.matmul.core import cube_math_type, inner_axes


def product_shape(
    call: Call, left: str = "x1", right: str = "x2", trans_left: str = "", trans_right: str = ""
) -> Shape:
    """Shape of left @ right whose last two axes may be transposed; the batches broadcast."""
    a, b = call.shape(left), call.shape(right)
    for name, sizes in ((left, a), (right, b)):
        call.require(len(sizes) >= 2, name, f"has rank {len(sizes)} (shape {sizes}); it must be at least 2")
    m, k = (a[-1], a[-2]) if trans_left and call[trans_left] else (a[-2], a[-1])
    n, k2 = (b[-2], b[-1]) if trans_right and call[trans_right] else (b[-1], b[-2])
    call.require(
        k == k2, right, f"has shape {b}, which does not fit {call.python_name(left)} {a}: {k2} rows for {k} columns"
    )
    batch = broadcast_shapes(a[:-2], b[:-2])
    if batch is None:
        call.refuse(right, f"has shape {b}, whose batch does not broadcast with that of {a}")
    return (*batch, m, n)


# --------------------------------------------------------------------------------------------------- quantised result


def _batch_matmul_quant_out(call: Call) -> Shape:
    return product_shape(call, "x1", "x2", "transposeX1", "transposeX2")


def _batch_matmul_quant(call: Call) -> None:
    a, b, quant, came = (call.shape(n) for n in ("x1", "x2", "quantParam", "out"))
    call.require(len(a) == len(b), "x2", f"has rank {len(b)}; it must be {len(a)}, as x1")
    m, n = _batch_matmul_quant_out(call)[-2:]
    whole = -(-n // 16) * 16
    call.require(quant in ((1,), (whole,)), "quantParam", f"has shape {quant}; it must be (1,) or ({whole},)")
    if call.is_present("bias"):
        call.require(call.shape("bias") == (n,), "bias", f"has shape {call.shape('bias')}; it must be ({n},)")
    fits = len(came) >= len(a) and came[len(a) - 2 : len(a)] == (m, n)
    call.require(fits, "out", f"has shape {came}; it must end in ({m}, {n})")


rule(
    "aclnnBatchMatmulQuant",
    dtypes("FLOAT16", "x1", "x2", "bias"),
    dtypes("UINT64", "quantParam"),
    dtypes("INT8", "out"),
    rank(2, 6, "x1", "x2"),
    _batch_matmul_quant,
    not_empty("x1", "x2"),
    infer_shape(out=_batch_matmul_quant_out),
    output_dtype(out="INT8"),
)

# --------------------------------------------------------------------------------------------------- fused epilogues

_EPILOGUES = ("", "16cast32", "add", "mul", "gelu_erf", "gelu_tanh", "relu")
_WITH_BIAS = ("", "16cast32", "relu", "add", "mul")
_WITH_FLOAT = ("", "relu", "add", "mul")


def _fused_op(call: Call) -> None:
    op = call["fusedOpType"]
    call.require(op in _EPILOGUES, "fusedOpType", f"is {op!r}; it must be one of {', '.join(map(repr, _EPILOGUES))}")
    text = f"is given; {op!r} takes no bias"
    call.require(not call.is_present("bias") or op in _WITH_BIAS, "bias", text, PARAM_NULLPTR)
    text = f"is None (a null pointer); {op!r} needs it"
    call.require(call.is_present("x3") or op not in ("add", "mul"), "x3", text, PARAM_NULLPTR)


def _fused_shapes(call: Call) -> None:
    op, x, y = call["fusedOpType"], call.shape("x1"), call.shape("y")
    rank(2, 6 if op in ("", "relu") else 2 if op.startswith("gelu") else 3, "x1", "x2")(call)
    for name in ("x2", "y"):
        call.require(
            len(call.shape(name)) == len(x), name, f"has rank {len(call.shape(name))}; it must be {len(x)}, as x1"
        )
        text = f"has shape {call.shape(name)}; its batch must be that of x1, {x[:-2]}"
        call.require(call.shape(name)[:-2] == x[:-2], name, text)
    if call.is_present("x3"):
        x3 = call.shape("x3")
        fits = x3 == y if len(y) == 2 else x3[-2:] == y[-2:] and x3[:-2] in ((), (1,), y[:-2])
        call.require(
            fits, "x3", f"has shape {x3}; it must be {y}, as y" + (", or without the batch" if len(y) == 3 else "")
        )
    if call.is_present("bias"):
        call.require(x[-1] != 0, "bias", "is given for a product over no elements")
        rank(1, 2, "bias")(call)


def _fused_dtypes(call: Call) -> None:
    op, x = call["fusedOpType"], call.dtype("x1")
    allowed = "FLOAT16 BF16 FLOAT" if op in _WITH_FLOAT else HALVES
    dtypes(allowed, "x1")(call)
    same_dtype("x1", "x2", "x3")(call)
    if op == "16cast32":
        dtypes("FLOAT", "y")(call)
    else:
        same_dtype("x1", "y")(call)
    dtypes(f"{x.name} FLOAT", "bias")(call)
    text = f"is {call['cubeMathType']}; with FLOAT operands it must be 3 (HFLOAT32)"
    call.require(x is not DataType.FLOAT or call["cubeMathType"] == 3, "cubeMathType", text)


rule(
    "aclnnFusedMatmul",
    _fused_op,
    _fused_shapes,
    _fused_dtypes,
    not_nz("x1", "x2", "bias", "x3", "y"),
    cube_math_type("x1", "x2", keep_16_in_32=False),
    inner_axes("x1", "x2"),
    copied_output_shape(y=product_shape),
    output_dtype(y=lambda call: DataType.FLOAT if call["fusedOpType"] == "16cast32" else call.dtype("x1")),
    nullable="bias x3",
)

# --------------------------------------------------------------------------------------------------- fused losses


def _rows(name: str) -> Check:
    """One item for each row of input."""
    return output_shape(**{name: shape_from(("input", 0))})


def _softmax_or_parts(call: Call) -> None:
    for name in ("logitsMaxOptional", "sumExpLogitsOptional"):
        text = "is None (a null pointer); it is required unless softmax is given"
        call.require(call.is_present(name) or call.is_present("softmaxOptional"), name, text, PARAM_NULLPTR)


def _target_mask(call: Call) -> None:
    rows, items = call.shape("grad")[0], call.shape("targetMask")[0]
    if call.dtype("targetMask") is DataType.BOOL:
        call.require(items == rows, "targetMask", f"has {items} items; it must have {rows}")
    else:
        call.require(8 * items >= rows, "targetMask", f"has {items} bytes; {rows} bits need more")


_PARTS = ("logitsMaxOptional", "sumExpLogitsOptional")
_LOSS_TENSORS = ("grad", "input", "weight", "targetMask", "maskedTarget", "inputGradOut", "weightGradOut")

rule(
    "aclnnFusedLinearCrossEntropyLossGrad",
    _softmax_or_parts,
    dtypes("FLOAT", "grad"),
    dtypes(HALVES, "input"),
    dtypes("BOOL UINT8", "targetMask"),
    dtypes("INT32 INT64", "maskedTarget"),
    dtypes("FLOAT", "softmaxOptional"),
    when(
        lambda call: not call.is_present("softmaxOptional"),
        dtypes("FLOAT", *_PARTS),
        formats("ND", *_PARTS),
        rank(1, 1, *_PARTS),
    ),
    same_dtype("input", "weight", "inputGradOut", "weightGradOut"),
    formats("ND", *_LOSS_TENSORS, "softmaxOptional"),
    one_of("labelSmoothing", 0),
    rank(1, 1, "grad", "targetMask", "maskedTarget"),
    rank(2, 2, "input", "weight", "softmaxOptional", "inputGradOut", "weightGradOut"),
    output_shape(input=shape_from(("grad", 0), ("input", 1)), weight=shape_from(("weight", 0), ("input", 1))),
    lambda call: call.require(
        not call.is_present("softmaxOptional") or call.shape("weight")[0] >= 128,
        "weight",
        f"has {call.shape('weight')[0]} rows; with softmax at least 128 are needed",
    ),
    _target_mask,
    output_shape(maskedTarget=shape_from(("grad", 0))),
    when(
        lambda call: call.is_present("softmaxOptional"),
        output_shape(softmaxOptional=shape_from(("grad", 0), ("weight", 0))),
    ),
    when(
        lambda call: not call.is_present("softmaxOptional"),
        output_shape(logitsMaxOptional=shape_from(("grad", 0)), sumExpLogitsOptional=shape_from(("grad", 0))),
    ),
    output_shape(
        inputGradOut=shape_from(("grad", 0), ("input", 1)), weightGradOut=shape_from(("weight", 0), ("input", 1))
    ),
    unless_empty(
        "input weight",
        lambda call: call.require(
            call.product in ("A2", "A3"), None, f"the operator is not implemented on {call.soc.name}", RUNTIME_ERROR
        ),
    ),
    output_dtype(inputGradOut=dtype_of("input"), weightGradOut=dtype_of("input")),
)

_MAX_SUM = ("logitsMaxLocalOut", "sumExpLogitsLocalOut", "predictedLogitsLocalOut")
_ONE_A_ROW = shape_from(("input", 0))

rule(
    "aclnnFusedLinearOnlineMaxSum",
    dtypes(HALVES, "input"),
    dtypes("INT32 INT64", "target"),
    same_dtype("input", "weight"),
    dtypes("FLOAT", *_MAX_SUM),
    dtypes("UINT8", "targetMaskOut"),
    same_dtype("target", "maskedTargetOut"),
    same_dtype("input", "vocabParallelLogitsOutOptional"),
    rank(2, 2, "input", "weight"),
    rank(1, 1, "target"),
    lambda call: call.require(call.shape("weight")[0] > 0, "weight", "has no rows"),
    lambda call: call.require(
        call.shape("input")[1] <= 65534, "input", f"has {call.shape('input')[1]} columns; at most 65534"
    ),
    output_shape(weight=shape_from(("weight", 0), ("input", 1)), target=_ONE_A_ROW),
    output_shape(
        logitsMaxLocalOut=_ONE_A_ROW,
        sumExpLogitsLocalOut=_ONE_A_ROW,
        predictedLogitsLocalOut=_ONE_A_ROW,
        targetMaskOut=shape_from(lambda call: -(-call.shape("input")[0] // 8)),
        maskedTargetOut=_ONE_A_ROW,
        vocabParallelLogitsOutOptional=shape_from(("input", 0), ("weight", 0)),
    ),
    lambda call: call.require(
        0 <= call["vocabStartIndex"] <= call["vocabEndIndex"],
        "vocabStartIndex",
        f"is {call['vocabStartIndex']}; it must be in [0, {call['vocabEndIndex']}]",
    ),
    output_dtype(
        logitsMaxLocalOut="FLOAT",
        sumExpLogitsLocalOut="FLOAT",
        predictedLogitsLocalOut="FLOAT",
        targetMaskOut="UINT8",
        maskedTargetOut=dtype_of("target"),
        vocabParallelLogitsOutOptional=dtype_of("input"),
    ),
)

# --------------------------------------------------------------------------------------------------- rotation, permutation


def _mx_shapes(call: Call) -> None:
    x, rotation = call.shape("x"), call.shape("rotation")
    call.require(1 <= len(x) <= 7, "x", f"has rank {len(x)}; it must be between 1 and 7")
    call.require(len(rotation) in (2, 3), "rotation", f"has rank {len(rotation)}; it must be 2 or 3")
    k = rotation[-1]
    call.require(k in (32, 64, 128), "rotation", f"has shape {rotation}; its last axis must be 32, 64 or 128")
    call.require(x[-1] % k == 0, "x", f"has {x[-1]} columns; they must be a multiple of {k}, as rotation")
    wanted = (k, k) if len(rotation) == 2 else (x[-1] // k, k, k)
    call.require(rotation == wanted, "rotation", f"has shape {rotation}; it must be {wanted}")


def _int_shapes(call: Call) -> None:
    rank(2, 2, "x", "rotation", "yOut")(call)
    columns, k = call.shape("x")[1], call.shape("rotation")[1]
    call.require(columns % 8 == 0, "x", f"has {columns} columns; they must be a multiple of 8")
    call.require(k != 0 and columns % k == 0, "rotation", f"has {k} columns; x's {columns} must be a multiple of them")
    output_shape(rotation=shape_from(("rotation", 1), ("rotation", 1)))(call)


def _rotated(call: Call) -> Shape:
    """The shape of x; INT32 holds eight 4-bit numbers."""
    sizes = call.shape("x")
    packed = call.is_present("yOut") and call.dtype("yOut") is DataType.INT32
    return (*sizes[:-1], sizes[-1] // 8) if packed else sizes


def _rotated_scale(call: Call) -> Shape:
    sizes = call.shape("x")
    call.require(len(sizes) > 0, "x", "is a 0-d tensor; it must have 1 dimension or more")
    return (*sizes[:-1], -(-sizes[-1] // 64), 2) if call.product == "950" else sizes[:1]


def _rotate_attributes(call: Call) -> None:
    mx, y = call.product == "950", call.dtype("yOut")
    if mx:
        dtypes("BF16", "alpha")(call)
        call.require(not call.is_present("alpha") or call.shape("alpha") == (1,), "alpha", "must have shape (1,)")
    else:
        call.require(not call.is_present("alpha"), "alpha", "is given; with integer outputs it must be None")
    last = len(call.shape("x")) - 1
    call.require(call["axis"] in (-1, last), "axis", f"is {call['axis']}; it must be -1 or {last}")
    mode = call["roundMode"] or "rint"
    modes = ("rint",) if y in (DataType.FLOAT8_E4M3FN, DataType.FLOAT8_E5M2) else ("rint", "floor", "round")
    call.require(mode in modes, "roundMode", f"is {mode!r}; it must be {' or '.join(map(repr, modes))}")
    fp4 = y is DataType.FLOAT4_E2M1
    algorithms = (0, 2) if fp4 else (0, 1) if mx else (0,)
    text = f"is {call['scaleAlg']}; for {y.name} it must be {' or '.join(map(str, algorithms))}"
    call.require(call["scaleAlg"] in algorithms, "scaleAlg", text)
    top = call["dstTypeMax"]
    fits = 6 <= top <= 12 if fp4 and call["scaleAlg"] == 2 else top == 0
    call.require(fits, "dstTypeMax", f"is {top}; it must be 0 (in [6, 12] for FLOAT4_E2M1 with scale_alg 2)")
    call.require(not call["trans"], "trans", "is True; it must be False")


rule(
    "aclnnRotateQuant",
    only_products("A2 A3 950"),
    dtypes(HALVES, "x"),
    same_dtype("x", "rotation"),
    dtypes({"950": "FLOAT4_E2M1 FLOAT8_E4M3FN FLOAT8_E5M2", "": "INT32 INT8"}, "yOut"),
    dtypes({"950": "FLOAT8_E8M0", "": "FLOAT"}, "scaleOut"),
    when(lambda call: call.product == "950", _mx_shapes),
    when(lambda call: call.product != "950", _int_shapes),
    output_shape(yOut=_rotated, scaleOut=_rotated_scale),
    not_nz("x", "rotation", "yOut", "scaleOut"),
    _rotate_attributes,
    output_dtype(
        yOut=lambda call: DataType.FLOAT8_E4M3FN if call.product == "950" else DataType.INT8,
        scaleOut=lambda call: DataType.FLOAT8_E8M0 if call.product == "950" else DataType.FLOAT,
    ),
)

_MOST_AXIS = 65536


def permuted_product(call: Call) -> tuple[int, int, int, int]:
    """Batch, rows, inner size and columns of a product whose operands are permuted by permX1 and permX2."""
    x1, x2, p1, p2 = call.shape("x1"), call.shape("x2"), call["permX1"], call["permX2"]
    for name in ("x1", "x2"):
        call.require(len(call.shape(name)) == 3, name, f"has rank {len(call.shape(name))}; it must be 3")
    for name, allowed in (
        ("permX1", ((1, 0, 2), (0, 1, 2))),
        ("permX2", ((0, 1, 2), (0, 2, 1))),
        ("permY", ((1, 0, 2),)),
    ):
        text = f"is {call[name]}; it must be {' or '.join(map(str, allowed))}"
        call.require(tuple(call[name]) in allowed, name, text)
    batch, rows, inner = (x1[axis] for axis in p1)
    inner2, columns = x2[p2[1]], x2[p2[2]]
    call.require(inner == inner2, "x2", f"has shape {x2}, which does not fit x1 {x1} over the summed axis")
    return batch, rows, inner, columns


def _permuted_out(call: Call) -> Shape:
    """(rows, batch, columns); with scale the batch lies in the columns, or is split into factors."""
    batch, rows, _, columns = permuted_product(call)
    factor = call["batchSplitFactor"]
    call.require(
        factor > 0 and batch % factor == 0, "batchSplitFactor", f"is {factor}; it must divide the batch of {batch}"
    )
    if call.is_present("scale"):
        return rows, 1, batch * columns
    return (rows, batch, columns) if factor == 1 else (factor, rows, batch * columns // factor)


def _permuted_limits(call: Call) -> None:
    """The kernels of A2 and A3 address axes with 16 bits."""
    batch, _, inner, columns = permuted_product(call)
    split = call.is_present("scale") or call["batchSplitFactor"] != 1
    if call.is_present("scale"):
        factor = call["batchSplitFactor"]
        call.require(factor == 1, "batchSplitFactor", f"is {factor}; with scale it must be 1")
        wanted = (batch * columns,)
        call.require(call.shape("scale") == wanted, "scale", f"has shape {call.shape('scale')}; it must be {wanted}")
    if call.product == "950":
        return
    moved = tuple(call["permX1"]) == (1, 0, 2)
    fits = max(columns, batch) < _MOST_AXIS and (not call.is_present("scale") or batch * columns < _MOST_AXIS)
    call.require(fits, "x2", f"has shape {call.shape('x2')}; batch and columns must be less than {_MOST_AXIS}")
    wide = inner >= _MOST_AXIS or (moved and batch * inner >= _MOST_AXIS)
    text = f"has shape {call.shape('x1')}; the summed axis must be less than {_MOST_AXIS}"
    call.require(not wide or (moved and not split), "x1", text)
    turned = tuple(call["permX2"]) == (0, 2, 1)
    text = "is (0, 2, 1), which needs perm_x1 (1, 0, 2), no scale and batch_split_factor 1"
    call.require(not turned or (moved and not split), "permX2", text)


def _permuted_dtypes(call: Call) -> None:
    same_dtype("x1", "x2")(call)
    nz = call["x2"].format is Format.FRACTAL_NZ
    if nz:
        only_products("A2 A3 950")(call)
    dtypes("FLOAT16 BF16" if nz else "FLOAT FLOAT16 BF16", "x1")(call)
    if call.is_present("scale"):
        dtypes("INT64 UINT64", "scale")(call)
        dtypes("FLOAT16", "x1")(call)
    dtypes("FLOAT16 BF16 INT8" if nz else "FLOAT FLOAT16 BF16 INT8", "out")(call)
    if nz and call.product in ("A2", "A3"):
        same_dtype("x1", "out")(call)


_PERMUTED = (
    rank(3, 3, "x1", "x2"),
    cube_math_type("x1", "x2"),
    not_nz("x1", "out"),
    _permuted_dtypes,
    _permuted_limits,
    not_empty("x1", "x2"),
    lambda call: call.require(not call.is_present("bias"), "bias", "is given; it must be None"),
    output_shape(out=_permuted_out),
    output_dtype(out=lambda call: DataType.INT8 if call.is_present("scale") else call.dtype("x1")),
)


def _nz_weight(call: Call) -> None:
    formats("FRACTAL_NZ", "x2")(call)
    sizes, storage = call.shape("x2"), call["x2"].storage_shape
    call.require(1 not in sizes[1:], "x2", f"has shape {sizes}; in FRACTAL_NZ its last two axes must not be 1")
    call.require(len(storage) == 5, "x2", f"has a storage shape {storage}; in FRACTAL_NZ it must have 5 axes")


rule("aclnnTransposeBatchMatMul", *_PERMUTED)
rule("aclnnTransposeBatchMatMulWeightNz", *_PERMUTED, _nz_weight)

__all__ = ["not_empty", "not_nz", "permuted_product", "product_shape"]
