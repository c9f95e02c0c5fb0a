"""The words in which rules are written.

A rule is a sequence of words in the order in which CANN checks, most of them with the C names they are about:

    rule("aclnnAdd",
         dtypes("FLOAT FLOAT16 INT32 ...", "self", "other"),
         castable(promoted("self", "other"), "out"),
         max_rank(8, "self", "other"),
         output_shape(out=broadcast_shape("self", "other")),
         output_dtype(out=promoted("self", "other")))

Each word checks, or tells what outputs are allocated with (``infer_shape``, ``output_dtype``), or both (``output_shape``
and its variants, ``shape_patterns``). Groups (``when``, ``on_products``, ``unless_empty``, ``tiling``) leave the words
in them their meaning. Null pointers (161001) are checked first, without a word: every pointer that the catalog does not
call optional must be there. A check that no word says is a function of a ``Call`` that uses ``call.require(...)``.
"""

from __future__ import annotations

import warnings
from typing import Any

from ascend_aclnn.rules.language.attributes import (
    array_length,
    in_range,
    one_of,
    valid_axes,
    valid_axis,
)
from ascend_aclnn.rules.language.call import (
    ArgumentShape,
    Call,
    Check,
    Condition,
    DtypeRule,
    Shape,
    ShapeRule,
    Shapes,
    Word,
    dims_text,
)
from ascend_aclnn.rules.language.data_types import (
    DtypeSet,
    can_cast,
    castable,
    documented_dtypes,
    dtype_attribute,
    dtype_in,
    dtype_of,
    dtype_set,
    dtype_table,
    dtypes,
    fixed_dtype,
    has_dtype,
    is_complex,
    is_floating,
    is_integral,
    output_dtype,
    parse_dtypes,
    plus_bf16,
    promote,
    promoted,
    same_dtype,
)
from ascend_aclnn.rules.language.declare import (
    RULES,
    OutputSpecs,
    Rule,
    documented_rank,
    documented_rule,
    rule,
)
from ascend_aclnn.rules.language.groups import (
    Group,
    documented_products,
    on_products,
    only_products,
    tiling,
    unless_empty,
    when,
    with_status,
)
from ascend_aclnn.rules.language.layout import (
    contiguous,
    formats,
    max_rank,
    no_private_format,
    rank,
    same_format,
)
from ascend_aclnn.rules.language.shapes import (
    broadcast_shape,
    broadcast_shapes,
    broadcastable,
    copied_output_shape,
    infer_shape,
    normalise_axes,
    output_shape,
    output_shape_relaxed,
    reduced_shape,
    same_shape,
    shape_from,
    shape_of,
    shape_patterns,
)

_FORMER_NAMES = {
    "axes_of": "valid_axes",
    "axis_of": "valid_axis",
    "between": "in_range",
    "broadcast": "broadcast_shape",
    "columns": "dtype_table",
    "copied": "copied_output_shape",
    "declared": "RULES",
    "dims": "shape_from",
    "documented": "documented_dtypes",
    "dtype_attr": "dtype_attribute",
    "dtype_is": "fixed_dtype",
    "fit": "shape_patterns",
    "fits": "output_shape_relaxed",
    "infer": "infer_shape",
    "not_private": "no_private_format",
    "on": "on_products",
    "only_on": "only_products",
    "reduced": "reduced_shape",
    "result": "output_dtype",
    "same": "shape_of",
    "shape": "output_shape",
    "supported": "documented_products",
}


def __getattr__(name: str) -> Any:
    """Words under the names that they had before, for the rules of vendors."""
    new = _FORMER_NAMES.get(name)
    if new is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warnings.warn(f"{__name__}.{name} is now called {new}", DeprecationWarning, stacklevel=2)
    return globals()[new]


__all__ = [
    "RULES",
    "ArgumentShape",
    "Call",
    "Check",
    "Condition",
    "DtypeRule",
    "DtypeSet",
    "Group",
    "OutputSpecs",
    "Rule",
    "Shape",
    "ShapeRule",
    "Shapes",
    "Word",
    "array_length",
    "broadcast_shape",
    "broadcast_shapes",
    "broadcastable",
    "can_cast",
    "castable",
    "contiguous",
    "copied_output_shape",
    "dims_text",
    "documented_dtypes",
    "documented_products",
    "documented_rank",
    "documented_rule",
    "dtype_attribute",
    "dtype_in",
    "dtype_of",
    "dtype_set",
    "dtype_table",
    "dtypes",
    "fixed_dtype",
    "formats",
    "has_dtype",
    "in_range",
    "infer_shape",
    "is_complex",
    "is_floating",
    "is_integral",
    "max_rank",
    "no_private_format",
    "normalise_axes",
    "on_products",
    "one_of",
    "only_products",
    "output_dtype",
    "output_shape",
    "output_shape_relaxed",
    "parse_dtypes",
    "plus_bf16",
    "promote",
    "promoted",
    "rank",
    "reduced_shape",
    "rule",
    "same_dtype",
    "same_format",
    "same_shape",
    "shape_from",
    "shape_of",
    "shape_patterns",
    "tiling",
    "unless_empty",
    "valid_axes",
    "valid_axis",
    "when",
    "with_status",
]
