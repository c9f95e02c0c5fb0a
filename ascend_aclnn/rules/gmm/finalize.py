"""Rules of a grouped product whose rows are weighted and added up (routing of experts, the last step)."""

from __future__ import annotations

from typing import Optional

from ascend_aclnn.core.dtypes import DataType
from ascend_aclnn.core.errors import PARAM_NULLPTR
from ascend_aclnn.core.spec import TensorSpec
from ascend_aclnn.rules.gmm.common import nz_storage
from ascend_aclnn.rules.language import (
    Call,
    Shape,
    absent,
    define,
    documented_dtypes,
    dtypes,
    formats,
    has_shape,
    infer_shape,
    on_products,
    output_dtype,
    rank,
    require,
    rule,
    when,
)

_ROLES = {
    "x": ("x1", "x"),
    "w": ("x2", "w"),
    "scale": ("scale", "scaleOptional"),
    "bias": ("bias", "biasOptional"),
    "offset": ("offsetOptional",),
    "token": ("pertokenScaleOptional",),
    "groups": ("groupList", "groupListOptional"),
    "shared": ("sharedInput", "sharedInputOptional"),
    "logit": ("logit", "logitOptional"),
    "row": ("rowIndex", "rowIndexOptional"),
    "out": ("out", "y"),
    "transpose_x": ("transposeX1", "transposeX"),
    "transpose_w": ("transposeX2", "transposeW"),
}


def _name(call: Call, role: str) -> str:
    """What the version calls a parameter; "" where it has none."""
    return next((n for n in _ROLES[role] if n in call.operator.positions), "")


def _tensor(call: Call, role: str) -> Optional[TensorSpec]:
    name = _name(call, role)
    found: Optional[TensorSpec] = call[name] if name else None
    return found


def _weight(call: Call) -> tuple[Shape, DataType]:
    """Shape and dtype of the weight in elements: an INT32 holds eight INT4."""
    tensor = call.items(_name(call, "w"))[0]
    if tensor.dtype is DataType.INT32 and tensor.ndim:
        return (*tensor.shape[:-1], tensor.shape[-1] * 8), DataType.INT4
    return tensor.shape, tensor.dtype


def _nz(call: Call) -> bool:
    return "WeightNz" in call.operator.name


def _pointers(call: Call) -> None:
    if call.operator.name.endswith("WeightNzV2"):
        required: tuple[str, ...] = ("x", "w")
        if call.product != "950":
            if _tensor(call, "w") is not None and _weight(call)[1] is DataType.INT4:
                required += ("token",)
            required += ("scale", "logit", "groups", "row")
    elif _nz(call):
        required = ("x", "w", "scale", "logit", "groups", "row")
    else:
        required = ("x", "w", "scale", "token", "groups", "logit", "row")
        required += () if call.operator.name.endswith("V3") and call.product == "950" else ("bias",)
    for role in ("out", *required):
        name = _name(call, role)
        call.require(call.is_present(name), name, "is None (a null pointer); it is required", PARAM_NULLPTR)
    for name in ("antiquantScaleOptional", "antiquantOffsetOptional"):
        if name in call.operator.positions:
            call.require(not call.is_present(name), name, "is given; it must be None", PARAM_NULLPTR)


def _attributes(call: Call) -> None:
    call.require(call["dtype"] == 0, "dtype", f"is {call['dtype']}; it must be 0 (FLOAT)")
    w = _name(call, "w")
    rank(2, 99, w)(call)
    for role in ("transpose_x", "transpose_w"):
        allowed = role == "transpose_w" and call.product == "950"
        name = _name(call, role)
        call.require(allowed or not call[name], name, "is True; it must be False")
    if call.product == "950":
        return
    if _nz(call):
        formats("ND", _name(call, "x"))(call)
        formats("FRACTAL_NZ", w)(call)
        (*_, k, n), dtype = _weight(call)
        nz_storage(call, w, k, n, transpose=False, k0=16, n0=64 if dtype is DataType.INT4 else 32)
    else:
        dtypes("INT32", w)(call)


def _dtypes(call: Call) -> None:
    int4 = _weight(call)[1] is DataType.INT4
    named = {role: _name(call, role) for role in _ROLES}
    dtypes("INT8", named["x"])(call)
    if not int4:
        dtypes("INT8", named["w"])(call)
    dtypes("INT64" if int4 else "FLOAT INT64 BF16", named["scale"])(call)
    dtypes("INT64" if int4 else "INT64 INT32", named["row"])(call)
    dtypes("FLOAT" if int4 else "BF16", named["bias"])(call)
    if int4 and named["offset"]:
        dtypes("FLOAT", named["offset"])(call)
    dtypes("FLOAT", named["token"], named["logit"], named["out"])(call)
    dtypes("INT64", named["groups"])(call)
    dtypes("BF16", named["shared"])(call)


def _shape_is(call: Call, role: str, *wanted: int) -> None:
    tensor = _tensor(call, role)
    if tensor is not None:
        fits = tensor.shape == wanted
        call.require(fits, _name(call, role), f"has shape {tensor.shape}; it must be {wanted}")


def _shapes(call: Call) -> None:
    x, w, out = (_name(call, role) for role in ("x", "w", "out"))
    (*_, k, n), dtype = _weight(call)
    rank(2, 2, x, out)(call)
    rank(3, 3, w)(call)
    int4 = dtype is DataType.INT4
    rows, experts = call.shape(x)[0], call.shape(w)[0]
    call.require(call.shape(x)[1] == k, x, f"has shape {call.shape(x)}; its last axis must be {k}, as that of w")
    if int4:
        fits = n % (64 if _nz(call) else 8) == 0 and k % 64 == 0 and n > 64 and k > 128
        call.require(fits, w, f"has {k} rows and {n} columns; multiples of 64 and {64 if _nz(call) else 8} are needed")
        _shape_is(call, "scale", experts, 1, n)
        _shape_is(call, "offset", experts, 1, n)
        _shape_is(call, "bias", experts, n)
    else:
        fits = k % 16 == 0 and n % 32 == 0 and n >= 256
        call.require(fits, w, f"has {k} rows and {n} columns; multiples of 16 and 32 (at least 256) are needed")
        _shape_is(call, "scale", experts, n)
    for role, size in (("token", rows), ("groups", experts), ("logit", rows), ("row", rows)):
        _shape_is(call, role, size)
    batch, columns = call.sizes(out, 2)
    text = f"has shape {call.shape(out)}; it must have at most {rows} rows, and {n} columns"
    call.require(batch <= rows and columns == n, out, text)
    kind, start = call["groupListType"], call["sharedInputOffset"]
    call.require(kind in (0, 1), "groupListType", f"is {kind}; it must be 0 or 1")
    shared = _tensor(call, "shared")
    if shared is not None:
        fits = shared.ndim == 2 and shared.shape[0] <= batch and shared.shape[1] == n
        call.require(fits, _name(call, "shared"), f"has shape {shared.shape}; it must fit into {(batch, n)}")
    last = start + (shared.shape[0] if shared is not None else 0)
    call.require(start >= 0 and last <= batch, "sharedInputOffset", f"is {start}; the shared rows must lie in out")


def _rest(call: Call) -> None:
    named = [_name(call, role) for role in ("x", "scale", "bias", "token", "groups", "shared", "logit", "row", "out")]
    formats("ND", *(name for name in named if name))(call)
    formats("ND FRACTAL_NZ", _name(call, "w"))(call)
    for role in ("x", "w", "scale", "groups", "token", "shared", "logit", "row"):
        tensor = _tensor(call, role)
        call.require(tensor is None or tensor.size > 0, _name(call, role), "is empty")
    if "tuningConfigOptional" in call.operator.positions and call["tuningConfigOptional"]:
        expected, rows = call["tuningConfigOptional"][0], call.shape(_name(call, "x"))[0]
        fits = 0 <= expected <= rows
        call.require(fits, "tuningConfigOptional", f"starts with {expected}; it must be in [0, {rows}]")


_MX_GROUPS = (
    define(k="x1[1]", n="x2[1] if transposeX2 else x2[2]"),
    dtypes("FLOAT8_E4M3FN FLOAT8_E5M2 FLOAT4_E2M1", "x1", "x2"),
    require("(x1.dtype in FLOAT4S) == (x2.dtype in FLOAT4S)"),
    dtypes("FLOAT8_E8M0", "scaleOptional", "pertokenScaleOptional"),
    dtypes("BF16", "biasOptional", "sharedInputOptional"),
    dtypes("FLOAT", "logitOptional", "out"),
    dtypes("INT64", "groupListOptional", "rowIndexOptional"),
    absent("offsetOptional"),
    rank(2, 2, "x1", "out"),
    rank(3, 3, "x2"),
    require("0 < x2[0] <= 1024", "x2[2 if transposeX2 else 1] == k", "k > 0", argument="x2"),
    when("x1.dtype in FLOAT4S", require("k % 2 == 0", "k != 2", "transposeX2 or n % 2 == 0", argument="x2")),
    has_shape(
        scaleOptional="(x2[0], n, ceil_div(k, 64), 2) if transposeX2 else (x2[0], ceil_div(k, 64), n, 2)",
        pertokenScaleOptional="(x1[0], ceil_div(k, 64), 2)",
        biasOptional="(x2[0], n)",
        groupListOptional="(x2[0],)",
        logitOptional="(x1[0],)",
        rowIndexOptional="(x1[0],)",
    ),
    require("out[1] == n", "out[0] <= x1[0]", "0 <= sharedInputOffset <= out[0]", "groupListType in (0, 1)"),
    rank(2, 2, "sharedInputOptional"),
    require("sharedInputOptional[1] == n", "sharedInputOptional[0] + sharedInputOffset <= out[0]"),
)


def _on_others(call: Call) -> None:
    if call.product != "950":
        _dtypes(call)
        _shapes(call)
        _rest(call)


def _largest(call: Call) -> Shape:
    """How many rows are left depends on the row numbers: at most as many as x has."""
    weight, _ = _weight(call)
    call.require(len(weight) >= 2, _name(call, "w"), f"has shape {weight}; its rank must be at least 2")
    return call.size(_name(call, "x"), 0), weight[-1]


for _operator in ("", "V2", "V3", "WeightNz", "WeightNzV2"):
    rule(
        "aclnnGroupedMatmulFinalizeRouting" + _operator,
        _pointers,
        _attributes,
        _on_others,
        on_products("950", *(_MX_GROUPS if _operator == "V3" else (documented_dtypes(),))),
        infer_shape(out=_largest, y=_largest),
        output_dtype(out="FLOAT", y="FLOAT"),
        nullable="x x1 x2 w scale groupList sharedInput logit rowIndex out y",
    )
