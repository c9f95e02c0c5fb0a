"""Rules of products with a collective before or behind them: gather, scatter, all to all."""

from __future__ import annotations

from ascend_aclnn.core.dtypes import DataType
from ascend_aclnn.core.errors import INNER_ERROR, INNER_NULLPTR, PARAM_INVALID, PARAM_NULLPTR
from ascend_aclnn.rules.gmm.common import transposed
from ascend_aclnn.rules.language import (
    Call,
    Check,
    Shape,
    array_length,
    contiguous,
    documented_dtypes,
    dtypes,
    formats,
    infer_shape,
    no_private_format,
    on_products,
    one_of,
    only_products,
    output_dtype,
    output_shape,
    rank,
    rule,
    same_dtype,
    unless_empty,
    when,
)
from ascend_aclnn.rules.mc2.common import comm_mode, communicator, stop_on_failure, whole_or_transposed

_16 = "FLOAT16 BF16"

# --------------------------------------------------------------------------------------------------- gather, scatter


def _inner_axis(call: Call) -> None:
    """x1 (m, k) by x2 (k, n), 256 <= k < 65535; the columns of out are those of x2."""
    rank(2, 2, "x1", "x2")(call)
    k = call.shape("x1")[1]
    call.require(not transposed(call["x1"]), "x1", "must not be stored transposed")
    call.require(
        call.shape("x2")[0] == k, "x2", f"has shape {call.shape('x2')}; its first axis must be {k}, as x1's last"
    )
    call.require(256 <= k < 65535, "x1", f"has shape {call.shape('x1')}; its last axis must be in [256, 65534]")


def _columns(call: Call) -> None:
    n = call.shape("x2")[1]
    fits = call.size("output", 1) == n
    call.require(fits, "output", f"has shape {call.shape('output')}; its last axis must be {n}, as x2's")


def _gathered(call: Call) -> None:
    if call.is_present("gatherOut") and call["gatherOut"].size:
        k = call.shape("x1")[1]
        fits = call.size("gatherOut", 1) == k
        call.require(fits, "gatherOut", f"has shape {call.shape('gatherOut')}; its last axis must be {k}, as x1's")


def _some_k(call: Call) -> None:
    call.require(call.size("x1", 1) != 0, "x1", f"has shape {call.shape('x1')}; its last axis must not be empty")


for _name, _more in (("aclnnAllGatherMatmul", (_gathered,)), ("aclnnMatmulReduceScatter", ())):
    rule(
        _name,
        dtypes(_16, "x1", "x2", "output", "bias"),
        same_dtype("x1", "x2", "output", "bias"),
        stop_on_failure,
        _some_k,
        unless_empty("x1" if _more else "x1 x2", _inner_axis, _columns, *_more, whole_or_transposed("x2")),
    )


def _aiv_product(call: Call) -> None:
    """A2 and A3: x2 may be given transposed, as its shape tells."""
    rank(2, 2, "x1", "x2")(call)
    call.require(not transposed(call["x1"]), "x1", "must not be stored transposed")
    k, x2 = call.shape("x1")[1], call.shape("x2")
    moved = k != x2[0] and k == x2[1]
    n = x2[0] if moved else x2[1]
    call.require(k in x2, "x2", f"has shape {x2}; one axis must be {k}, as x1's last")
    _gathered(call)
    fits = call.size("output", 1) == n
    call.require(fits, "output", f"has shape {call.shape('output')}; its last axis must be {n}")
    if not moved:
        whole_or_transposed("x2")(call)


def _small_floats(call: Call) -> None:
    """Ascend 950: operands of 16 bits, or small floats with scales."""
    x1 = call.dtype("x1")
    if x1.name in _16.split():
        same_dtype("x1", "x2", "output", "bias")(call)
    else:
        if x1 in (DataType.HIFLOAT8, DataType.FLOAT4_E2M1):
            same_dtype("x1", "x2")(call)
        dtypes("FLOAT", "bias")(call)
        for name in ("x1Scale", "x2Scale"):
            call.require(call.is_present(name), name, f"is None; with {x1.name} operands it is required")


def _no_mode(status: int) -> Check:
    def check(call: Call) -> None:
        call.require(call.is_present("commMode"), "commMode", "is None (a null pointer); it is required", status)

    return check


def _neither(status: int) -> Check:
    def check(call: Call) -> None:
        there = call.product in ("A2", "A3", "950")
        call.require(there, None, f"the operator is not implemented on {call.soc.name}", status)

    return check


_SMALL = "FLOAT16 BF16 FLOAT8_E4M3FN FLOAT8_E5M2 HIFLOAT8 FLOAT4_E2M1"
rule(
    "aclnnAllGatherMatmulV2",
    _no_mode(INNER_NULLPTR),
    _neither(PARAM_INVALID),
    on_products(
        "A2 A3", one_of("commMode", "aiv"), dtypes("FLOAT16 BF16 INT8 INT4", "x1", "x2"), dtypes(_16, "output")
    ),
    on_products("950", dtypes(_SMALL, "x1", "x2"), dtypes(_16 + " FLOAT", "output", "bias"), _small_floats),
    stop_on_failure,
    on_products("A2 A3", _aiv_product),
    on_products("950", formats("ND", "x1", "x2", "output", "bias", "gatherOut", "amaxOut")),
    on_products("950", unless_empty("x1", _inner_axis, _columns, one_of("commMode", "ai_cpu", "ccu"))),
    nullable="commMode gatherOut",
)
rule(
    "aclnnMatmulReduceScatterV2",
    _neither(INNER_ERROR),
    on_products(
        "A2 A3", dtypes("FLOAT16 BF16 INT8", "x1", "x2"), dtypes(_16, "output"), dtypes(_16 + " FLOAT", "bias")
    ),
    on_products("950", dtypes(_SMALL, "x1", "x2"), dtypes(_16 + " FLOAT", "output", "bias")),
    stop_on_failure,
    on_products("950", _no_mode(PARAM_NULLPTR), one_of("commMode", "ai_cpu", "ccu")),
    on_products("A2 A3", _inner_axis, whole_or_transposed("x2")),
    on_products("950", unless_empty("x1 x2", _inner_axis, _small_floats)),
    nullable="commMode",
)

# --------------------------------------------------------------------------------------------------- all to all


def _x2(call: Call) -> None:
    """Looked at before everything else."""
    call.require(call.is_present("x2"), "x2", "is None (a null pointer); it is required", PARAM_NULLPTR)
    call.require(call["x2"].size > 0, "x2", f"has shape {call.shape('x2')}; it must not be empty")
    rank(2, 2, "x2")(call)
    if call.product == "950":
        both = call["transposeX2"] and transposed(call["x2"])
        call.require(not both, "x2", "is stored transposed, and transpose_x2 is True")
    else:
        contiguous("x2")(call)


def _sizes(call: Call) -> tuple[int, int]:
    """k and n of x2."""
    a, b = call.sizes("x2", 2)
    return (b, a) if bool(call["transposeX2"]) is not transposed(call["x2"]) else (a, b)


def _rows_there(before: bool) -> Check:
    def check(call: Call) -> None:
        k, n = _sizes(call)
        rows, inner = call.size("x1", 0), call.size("x1", 1)
        fine = inner and k and n and (rows or (before and call.product == "950") or call.product == "950")
        call.require(bool(fine), "x1", f"has shape {call.shape('x1')}; neither it nor x2 may be empty")

    return check


def _product_shapes(before: bool) -> Check:
    """``before``: the rows are exchanged before the product, so only the communicator knows how long x1's are then."""

    def check(call: Call) -> None:
        names = ("x1", "x2", "output", *(("alltoAllOutOptional",) if before else ()))
        rank(2, 2, *names)(call)
        k, n = _sizes(call)
        inner = call.shape("x1")[1]
        if not before:
            call.require(inner == k, "x2", f"has shape {call.shape('x2')}; its inner axis must be {inner}, as x1's")
            call.require(
                1 <= inner <= 65535, "x1", f"has shape {call.shape('x1')}; its last axis must be at most 65535"
            )
        rank(1, 1, "biasOptional")(call)
        if call.is_present("biasOptional"):
            fits = call.shape("biasOptional") == (n,)
            call.require(fits, "biasOptional", f"has shape {call.shape('biasOptional')}; it must be {(n,)}")

    return check


def _bias_float_or_same(call: Call) -> None:
    if call.is_present("biasOptional") and call.dtype("biasOptional") is not DataType.FLOAT:
        if call.product == "950" or call.dtype("x1") is DataType.FLOAT16:
            same_dtype("x1", "biasOptional")(call)
        else:
            dtypes("FLOAT", "biasOptional")(call)
    elif call.is_present("biasOptional") and call.product != "950" and call.dtype("x1") is DataType.FLOAT16:
        dtypes("FLOAT16", "biasOptional")(call)


def _bias_any(call: Call) -> None:
    if call.is_present("biasOptional") and call.dtype("biasOptional") is not DataType.FLOAT:
        same_dtype("x1", "biasOptional")(call)


def _axes(before: bool) -> Check:
    wanted = (-2, -1) if before else (-1, -2)

    def check(call: Call) -> None:
        axes = call["alltoAllAxesOptional"]
        array_length("alltoAllAxesOptional", 2)(call)
        call.require(axes is None or tuple(axes) == wanted, "alltoAllAxesOptional", f"is {axes}; it must be {wanted}")
        one_of("transposeX1", False)(call)

    return check


def _mode_of_version(call: Call) -> None:
    if "commMode" in call.operator.positions:
        _no_mode(PARAM_NULLPTR)(call)
        comm_mode()(call)


def _exchanged(call: Call) -> Shape:
    """Rows are exchanged for columns before the product: x1 has as many elements as x2 has rows times out's."""
    rank(2, 2, "x1", "x2")(call)
    k, n = _sizes(call)
    return (call["x1"].size // k if k else 0), n


_PLAIN_NAMES = ("x1", "x2", "biasOptional", "output")
for _name, _before in (
    ("aclnnAlltoAllMatmul", True),
    ("aclnnAlltoAllMatmulV2", True),
    ("aclnnMatmulAlltoAll", False),
    ("aclnnMatmulAlltoAllV2", False),
):
    _names = (*_PLAIN_NAMES, *(("alltoAllOutOptional",) if _before else ()))
    rule(
        _name,
        _x2,
        _rows_there(_before),
        _product_shapes(_before),
        dtypes(_16, *(n for n in _names if n != "biasOptional")),
        same_dtype("x1", *(n for n in _names if n not in ("x1", "biasOptional"))),
        _bias_any if _before else _bias_float_or_same,
        no_private_format(*_names),
        _axes(_before),
        communicator("group", null=PARAM_INVALID),
        _mode_of_version,
        *((infer_shape(output=_exchanged, alltoAllOutOptional=lambda call: None),) if _before else ()),
        nullable="x2 group commMode",
    )

_PER_TOKEN, _PER_CHANNEL, _DYNAMIC, _MX = 3, 2, 7, 6


def _quant_scales(before: bool) -> Check:
    """Scales for each row and column, or of MX blocks (Ascend 950, x2 transposed)."""
    x1_scale = "x1ScaleOptional" if before else "x1Scale"

    def check(call: Call) -> None:
        modes = call["x1QuantMode"], call["x2QuantMode"]
        _k, n = _sizes(call)
        if modes == (_MX, _MX):
            call.require(bool(call["transposeX2"]), "transposeX2", "is False; with MX scales it must be True")
            rank(3, 3, x1_scale, "x2Scale")(call)
            for name in (x1_scale, "x2Scale"):
                fits = call.size(name, 2) == 2
                call.require(fits, name, f"has shape {call.shape(name)}; its last axis must be 2")
        elif modes[1] == _PER_CHANNEL:
            rank(1, 1, "x2Scale")(call)
            call.require(
                call.shape("x2Scale") == (n,), "x2Scale", f"has shape {call.shape('x2Scale')}; it must be {(n,)}"
            )
            if not before:
                wanted = (call.shape("x1")[0],)
                call.require(call.shape(x1_scale) == wanted, x1_scale, f"must have shape {wanted}")

    return check


def _quant_before(call: Call) -> None:
    if call.product == "950":
        _product_shapes(True)(call)
        _quant_scales(True)(call)
        documented_dtypes()(call)
    elif call.product == "A2":
        dtypes("FLOAT16 BF16 INT4 INT32", "x1")(call)
        dtypes("INT8 INT4 INT32", "x2")(call)
        dtypes("FLOAT", "x2Scale")(call)
        dtypes(_16, "output")(call)
        if call["x1QuantMode"] == _DYNAMIC:
            same_dtype("x1", "x1ScaleOptional")(call)
        elif call["x1QuantMode"] == _PER_TOKEN:
            dtypes("FLOAT", "x1ScaleOptional")(call)
        same_dtype("x1", "alltoAllOutOptional")(call)


def _quant_behind(call: Call) -> None:
    _product_shapes(False)(call)
    _quant_scales(False)(call)
    if call.product == "950":
        documented_dtypes()(call)
        return
    modes = call["x1QuantMode"], call["x2QuantMode"]
    call.require(
        modes == (_PER_TOKEN, _PER_CHANNEL), "x1QuantMode", f"and x2_quant_mode are {modes}; they must be (3, 2)"
    )
    dtypes("INT8", "x1", "x2")(call)
    dtypes(_16, "output")(call)
    dtypes("FLOAT", "x1Scale", "x2Scale")(call)
    bias = call.dtype("biasOptional")
    wanted = DataType.BF16 if bias is DataType.FLOAT else bias
    fits = call.dtype("output") is wanted
    call.require(fits, "biasOptional", f"has dtype {bias.name}, which does not fit {call.dtype('output').name}")


def _x1_scale_pointer(call: Call) -> None:
    needed = call.product == "950" and call["x1QuantMode"] == _MX
    given = call.is_present("x1ScaleOptional") or not needed
    call.require(given, "x1ScaleOptional", "is None (a null pointer); with MX scales it is required", PARAM_NULLPTR)


def _bias_pointer(call: Call) -> None:
    given = call.is_present("biasOptional") or call.product != "A2"
    call.require(given, "biasOptional", "is None (a null pointer); on A2 it is required", PARAM_NULLPTR)


for _name in ("aclnnAlltoAllQuantMatmul", "aclnnAlltoAllQuantMatmulV2"):
    rule(
        _name,
        _x2,
        _x1_scale_pointer,
        _rows_there(True),
        _quant_before,
        no_private_format("x1", "x2", "biasOptional", "x2Scale", "output", "alltoAllOutOptional"),
        _axes(True),
        communicator("group", null=PARAM_INVALID),
        _mode_of_version,
        infer_shape(output=_exchanged, alltoAllOutOptional=lambda call: None),
        output_dtype(output="FLOAT16"),
        nullable="x2 group commMode",
    )
for _name in ("aclnnQuantMatmulAlltoAll", "aclnnQuantMatmulAlltoAllV2"):
    rule(
        _name,
        _x2,
        _bias_pointer,
        _rows_there(False),
        _quant_behind,
        no_private_format("x1", "x2", "biasOptional", "x1Scale", "x2Scale", "output"),
        _axes(False),
        communicator("group", null=PARAM_INVALID),
        _mode_of_version,
        nullable="x2 group commMode",
    )

# --------------------------------------------------------------------------------------------------- batches of experts

_WORLDS = (2, 4, 8, 16, 32)


def _worlds(call: Call) -> tuple[int, int]:
    return call["epWorldSize"], call["tpWorldSize"]


def _expert_attributes(shard: str) -> Check:
    def check(call: Call) -> None:
        one_of(shard, 0, 1)(call)
        if "actType" in call.operator.positions:
            one_of("actType", 0, 1, 2, 3, 4)(call)
        one_of("epWorldSize", *_WORLDS)(call)
        one_of("tpWorldSize", *_WORLDS)(call)

    return check


def _expert_bias(call: Call) -> None:
    dtypes("FLOAT16 FLOAT", "biasOptional")(call)
    if call.is_present("biasOptional"):
        wanted = DataType.FLOAT if call.dtype("x") is DataType.BF16 else DataType.FLOAT16
        dtypes(wanted.name, "biasOptional")(call)


def _gathered_batches(call: Call) -> Shape:
    rank(3, 3, "x", "weight")(call)
    (experts, rows, k), weight = call.sizes("x", 3), call.shape("weight")
    ep, tp = _worlds(call)
    wide = call["xShardType"] == 0
    call.require(weight[0] * ep == experts, "weight", f"has shape {weight}; its first axis must be {experts} / {ep}")
    inner = k * tp if wide else k
    call.require(weight[1] == inner, "weight", f"has shape {weight}; its second axis must be {inner}")
    return weight[0], rows * ep * (1 if wide else tp), weight[2]


def _gathered_inputs(call: Call) -> Shape:
    made = _gathered_batches(call)
    return made[0], made[1], call.shape("weight")[1]


def _exchanged_batches(call: Call) -> Shape:
    rank(3, 3, "x", "weight")(call)
    (experts, rows, k), weight = call.sizes("x", 3), call.shape("weight")
    ep, tp = _worlds(call)
    wide = call["yShardType"] == 0
    fits = weight[:2] == (experts, k)
    call.require(fits, "weight", f"has shape {weight}; its first axes must be {(experts, k)}")
    for name, size in (("epWorldSize", ep), ("tpWorldSize", tp)):
        call.require(size > 0, name, f"is {size}; it must be positive")
    row_parts, column_parts = (ep, tp) if wide else (ep * tp, 1)
    call.require(rows % row_parts == 0, "x", f"has {rows} rows; they must be a multiple of {row_parts}")
    call.require(
        weight[2] % column_parts == 0, "weight", f"has {weight[2]} columns; a multiple of {column_parts} is needed"
    )
    return experts * ep, rows // row_parts, weight[2] // column_parts


def _bias_of_batches(out: str) -> Check:
    def check(call: Call) -> None:
        name = "biasOptional"
        if call.is_present(name):
            e, n = call.shape("weight")[0], call.shape(out)[-1]
            got = call.shape(name)
            call.require(got in ((e, n), (e, 1, n)), name, f"has shape {got}; it must be {(e, n)} or {(e, 1, n)}")

    return check


def _limits(x_experts: bool) -> Check:
    """How many experts, rows and columns there may be."""

    def check(call: Call) -> None:
        x, weight = call.shape("x"), call.shape("weight")
        experts = x[0] if x_experts else call.shape("out")[0]
        inner = weight[1] if x_experts else x[2]
        rows = x[1] if x_experts else call.shape("out")[1]
        fine = 1 <= weight[0] <= 32 and 2 <= experts <= 512 and rows > 0 and 1 <= inner <= 65535
        call.require(fine and 1 <= weight[2] <= 65535, "x", f"and weight have shapes {x} and {weight}; out of range")

    return check


def _activation_out(call: Call) -> None:
    useless = call.is_present("y3OutOptional") and call["actType"] == 0
    call.require(not useless, "y3OutOptional", "is given; without an activation (act_type 0) it must be None")


rule(
    "aclnnAlltoAllAllGatherBatchMatMul",
    communicator("groupEp", "groupTp"),
    dtypes(_16, "x", "weight", "y1Out", "y2OutOptional", "y3OutOptional"),
    same_dtype("x", "weight", "y1Out", "y2OutOptional", "y3OutOptional"),
    _expert_bias,
    _expert_attributes("xShardType"),
    output_shape(y1Out=_gathered_batches),
    _bias_of_batches("y1Out"),
    _limits(True),
    when(lambda call: call.is_present("y2OutOptional"), output_shape(y2OutOptional=_gathered_inputs)),
    when(lambda call: call.is_present("y3OutOptional"), output_shape(y3OutOptional=_gathered_batches)),
    _activation_out,
    only_products("A2 A3"),
    infer_shape(y2OutOptional=lambda call: None, y3OutOptional=lambda call: None),
    nullable="groupEp groupTp",
)
rule(
    "aclnnBatchMatMulReduceScatterAlltoAll",
    communicator("groupEp", "groupTp"),
    dtypes(_16, "x", "weight", "out"),
    same_dtype("x", "weight", "out"),
    _expert_bias,
    _expert_attributes("yShardType"),
    output_shape(out=_exchanged_batches),
    _bias_of_batches("out"),
    _limits(False),
    only_products("A2 A3"),
    nullable="groupEp groupTp",
)
