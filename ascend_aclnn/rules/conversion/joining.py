"""Rules of ops-math/conversion: joining tensors and splitting them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Callable

from ascend_aclnn.core.dtypes import DataType
from ascend_aclnn.core.errors import INNER_NULLPTR, PARAM_NULLPTR
from ascend_aclnn.core.spec import TensorSpec
from ascend_aclnn.rules.language import *


def _promoted_list(call: Call) -> DataType:
    """The data type to which the tensors promote, the later ones first."""
    items = _joined(call)
    if not items:
        return DataType.FLOAT
    common = items[0].dtype
    for item in items[1:]:
        common = promote(item.dtype, common)
        if common is DataType.DT_UNDEFINED:
            call.refuse("tensors", f"have dtypes that do not promote: {', '.join(t.dtype.name for t in items)}")
    return common


def _joined(call: Call) -> list[TensorSpec]:
    """The tensors that Cat looks at: 1-D tensors without elements do not count."""
    skipped = (0,) if call.operator.name == "aclnnCat" else None
    return [t for t in call["tensors"] or () if t is not None and t.shape != skipped]


def _one_format(call: Call) -> None:
    items = _joined(call)
    text = f"have the private format {items[0].format.name}"
    call.require(not items[0].format.private, "tensors", text)
    for tensor in items[1:]:
        text = f"have formats {items[0].format.name} and {tensor.format.name}; they must agree"
        call.require(tensor.format is items[0].format, "tensors", text)
    text = f"has format {call['out'].format.name}; it must be {items[0].format.name}, as tensors"
    call.require(call["out"].format is items[0].format, "out", text)


def _axis(call: Call, extent: int) -> int:
    axis = call["dim"]
    call.require(-extent <= axis < extent, "dim", f"is {axis}; it must be in [{-extent}, {extent - 1}]")
    return int(axis % extent)


def _cat_inputs(call: Call) -> None:
    items = _joined(call)
    first = items[0].shape
    call.require(len(first) <= 8, "tensors", f"have rank {len(first)}; it must be at most 8")
    call.require(bool(first), "dim", f"is {call['dim']}; tensors without axes cannot be joined")
    axis = _axis(call, len(first))
    for tensor in items[1:]:
        sizes = tensor.shape
        text = f"have shapes {first} and {sizes}; all axes but {axis} must agree"
        fits_ = len(sizes) == len(first) and all(a == b for i, (a, b) in enumerate(zip(first, sizes)) if i != axis)
        call.require(fits_, "tensors", text)


def _cat_shape(call: Call) -> Shape:
    items = _joined(call)
    if not items:
        return (0,)
    _cat_inputs(call)
    sizes = list(items[0].shape)
    axis = _axis(call, len(sizes))
    sizes[axis] = sum(t.shape[axis] for t in items)
    return tuple(sizes)


def _cat_output(call: Call) -> None:
    """Two tensors with elements are joined and compared; one is only copied, which fails the graph where it cannot."""
    filled = sum(t.size > 0 for t in _joined(call))
    if filled:
        _goes_to(call, "out", call["out"], _cat_shape(call), copied=filled == 1)


def _goes_to(call: Call, name: str, tensor: TensorSpec, sizes: Shape, copied: bool) -> None:
    """An output has the shape of what is written to it, or both have one element."""
    fits_ = tensor.shape == sizes or tensor.size == math.prod(sizes) == 1
    text = f"has shape {tensor.shape}; it must be {sizes}"
    call.require(fits_, name, text, INNER_NULLPTR if copied else None)


def _no_wide_complex(call: Call) -> None:
    wide = _promoted_list(call) is DataType.COMPLEX128
    call.require(not wide, "tensors", "promote to COMPLEX128, which is not supported")


_CAT = "FLOAT INT32 INT64 FLOAT16 INT16 INT8 UINT8 DOUBLE COMPLEX64 BOOL"
_CAT_950 = _CAT + " BF16 UINT16 UINT32 UINT64 FLOAT8_E4M3FN FLOAT8_E5M2 HIFLOAT8 FLOAT8_E8M0 FLOAT4_E1M2 FLOAT4_E2M1"
rule(
    "aclnnCat",
    no_null_item("tensors"),
    when(
        lambda call: bool(_joined(call)),
        dtypes({"310P 910": _CAT, "A2 A3 310B": _CAT + " BF16", "950": _CAT_950, "": ""}, "tensors", "out"),
        _no_wide_complex,
        castable(_promoted_list, "out"),
        _one_format,
        _cat_inputs,
        _cat_output,
    ),
    infer_shape(out=_cat_shape),
    output_dtype(out=_promoted_list),
)


def _stack_inputs(call: Call) -> None:
    first, *others = call.shapes("tensors")
    call.require(len(first) <= 8, "tensors", f"have rank {len(first)}; it must be at most 8")
    _axis(call, len(first) + 1)
    for shape in others:
        call.require(shape == first, "tensors", f"have shapes {first} and {shape}; they must agree")


def _stack_shape(call: Call) -> Shape:
    _stack_inputs(call)
    sizes = call["tensors"][0].shape
    axis = _axis(call, len(sizes) + 1)
    return (*sizes[:axis], len(call["tensors"]), *sizes[axis:])


rule(
    "aclnnStack",
    no_null_item("tensors"),
    dtypes(
        plus_bf16("INT8 INT16 INT32 INT64 UINT8 UINT16 UINT32 UINT64 FLOAT16 FLOAT BOOL DOUBLE COMPLEX64 COMPLEX128"),
        "tensors",
        "out",
    ),
    castable(_promoted_list, "out"),
    _stack_inputs,
    when(lambda call: any(t.size for t in call["tensors"]), output_shape_relaxed(out=_stack_shape)),
    infer_shape(out=_stack_shape),
    output_dtype(out=_promoted_list),
    null_status=INNER_NULLPTR,
)


def _first_axis(call: Call) -> None:
    call.require(call["dim"] == 0, "dim", f"is {call['dim']}; it must be 0")


def _chunk_types(call: Call) -> None:
    items = call["tensors"]
    for tensor in items[1:]:
        text = f"have dtypes {items[0].dtype.name} and {tensor.dtype.name}; they must agree"
        call.require(tensor.dtype is items[0].dtype, "tensors", text)


def _no_narrowing(call: Call) -> None:
    narrowed = call.dtype("tensors") is DataType.FLOAT and call.dtype("out") is not DataType.FLOAT
    call.require(not narrowed, "out", f"has dtype {call.dtype('out').name}; for FLOAT tensors it must be FLOAT")


def _with_axes(call: Call) -> None:
    for tensor in call.items("tensors"):
        call.require(0 < tensor.ndim <= 8, "tensors", f"have rank {tensor.ndim}; it must be between 1 and 8")


def _chunked_shape(call: Call) -> Shape:
    """Every tensor is cut into rows of chunks, the last one filled up with zeros; a row joins them."""
    chunks = call["numChunks"]
    call.require(chunks > 0, "numChunks", f"is {chunks}; it must be positive")
    _with_axes(call)
    width = sum(-(-t.shape[0] // chunks) * math.prod(t.shape[1:]) for t in call["tensors"] if t.size)
    return chunks, width


_CHUNKED = {"A2 A3 950": "FLOAT FLOAT16 BF16", "": ""}
rule(
    "aclnnChunkCat",
    _first_axis,
    present(PARAM_NULLPTR, "tensors"),
    when(
        lambda call: bool(call["tensors"]),
        present(PARAM_NULLPTR, "out"),
        no_null_item("tensors"),
        dtype_in(dtype_of("tensors"), _CHUNKED, "tensors"),
        _chunk_types,
        dtypes(_CHUNKED, "out"),
        _no_narrowing,
        no_private_format("tensors", "out"),
        _with_axes,
        when(lambda call: any(t.size for t in call["tensors"]), output_shape_relaxed(out=_chunked_shape)),
    ),
    infer_shape(out=_chunked_shape),
    output_dtype(out=dtype_of("tensors")),
    nullable="tensors out",
)

# ------------------------------------------------------------------------------------------------- splitting

_SPLIT = "DOUBLE FLOAT FLOAT16 BF16 INT64 INT32 INT16 INT8 UINT8 BOOL COMPLEX128 COMPLEX64"
_MOST_PIECES = 1 << 20  # beyond it an absurd size would take all memory before anybody could refuse it
_SPLIT_TYPES = dtypes({"950": _SPLIT + " UINT64 UINT32 UINT16", "": _SPLIT}, "self", "out")


def _one_out_type(call: Call) -> None:
    items = call.tensors("out")
    for tensor in items[1:]:
        text = f"has dtypes {items[0].dtype.name} and {tensor.dtype.name}; they must agree"
        call.require(tensor.dtype is items[0].dtype, "out", text)


def _pieces(call: Call, sizes: Sequence[int]) -> list[Shape]:
    whole = call.shape("self")
    axis = _axis(call, len(whole))
    return [(*whole[:axis], n, *whole[axis + 1 :]) for n in sizes]


def _section(call: Call) -> None:
    whole, section = call.shape("self"), call["splitSections"]
    length = whole[_axis(call, len(whole))]
    text = f"is {section}; for an axis of {length} elements it must be {'positive' if length else '0'}"
    call.require((length == 0) == (section == 0), "splitSections", text)


def _sections(call: Call) -> list[Shape]:
    _section(call)
    whole, section = call.shape("self"), call["splitSections"]
    length = whole[_axis(call, len(whole))]
    if length in (0, section):
        return [whole]
    whole_sections, rest = divmod(length, section)
    most = _MOST_PIECES if call["out"] is None else len(call["out"])
    text = f"has room for {most} tensors; an axis of {length} elements makes {whole_sections + (rest > 0)} of {section}"
    call.require(whole_sections + (rest > 0) <= most, "out", text)
    return _pieces(call, [section] * whole_sections + [rest] * (rest > 0))


def _split_output(pieces: Callable[[Call], list[Shape]]) -> Check:
    """Every piece goes to its output; a single one is only copied."""

    def check(call: Call) -> None:
        shapes, outputs = pieces(call), call["out"]
        call.require(len(outputs) >= len(shapes), "out", f"has {len(outputs)} tensors; it must have {len(shapes)}")
        for tensor, sizes in zip(outputs, shapes):
            _goes_to(call, "out", tensor, sizes, copied=len(shapes) == 1)

    return check


def _has_elements(call: Call) -> bool:
    return bool(call["self"].size)


rule(
    "aclnnSplitTensor",
    no_null_item("out"),
    _SPLIT_TYPES,
    _one_out_type,
    rank(1, 8, "self"),
    max_rank(8, "out"),
    valid_axis("dim", "self"),
    _section,
    when(_has_elements, _split_output(_sections)),
    infer_shape(out=_sections),
    output_dtype(out=dtype_of("self")),
)


def _sized_pieces(call: Call) -> list[Shape]:
    _sizes_add_up(call)
    return _pieces(call, call["splitSize"])


def _sizes_add_up(call: Call) -> None:
    sizes, length = call["splitSize"], call.size("self", _axis(call, len(call.shape("self"))))
    call.require(sum(sizes) == length, "splitSize", f"is {sizes}; its sum must be {length}, the size of the axis")


def _split_sizes(call: Call) -> None:
    _sizes_add_up(call)
    sizes = call["splitSize"]
    call.require(len(sizes) == len(call["out"]), "out", f"has {len(call['out'])} tensors; it must have {len(sizes)}")


rule(
    "aclnnSplitWithSize",
    no_null_item("out"),
    _SPLIT_TYPES,
    rank(1, 8, "self"),
    max_rank(8, "out"),
    valid_axis("dim", "self"),
    _split_sizes,
    when(_has_elements, _split_output(_sized_pieces)),
    infer_shape(out=_sized_pieces),
    output_dtype(out=dtype_of("self")),
)
