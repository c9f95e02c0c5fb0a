"""The words in which rules are written.

A rule is a sequence of words in the order in which CANN checks, most of them with the C names they are about:

    rule("aclnnAdd",
         dtypes("FLOAT FLOAT16 INT32 ...", "self", "other"),
         castable(promoted("self", "other"), "out"),
         max_rank(8, "self", "other"),
         output_shape(out=broadcast_shape("self", "other")),
         output_dtype(out=promoted("self", "other")))

Each word checks, or infers what outputs are allocated with (``infer_shape``, ``output_dtype``), or both (``output_shape``
and its variants, ``shape_patterns``, ``same_dtype``, ``has_dtype``, ``dtype_table``, a single dtype); where several infer
one output, the last one counts. Groups (``when``, ``on_products``, ``unless_empty``, ``tiling``) leave the words in them
their meaning. Null pointers (161001) are checked first, without a word: every pointer that the catalog does not call
optional must be there. A check that no word says is a function of a ``Call`` that uses ``call.require(...)``.

Each word is exported by the ``__all__`` of the module that defines it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ascend_aclnn.rules.language.attributes import *
from ascend_aclnn.rules.language.call import *
from ascend_aclnn.rules.language.conditions import *
from ascend_aclnn.rules.language.data_types import *
from ascend_aclnn.rules.language.declare import *
from ascend_aclnn.rules.language.dtype_families import *
from ascend_aclnn.rules.language.expressions import *
from ascend_aclnn.rules.language.groups import *
from ascend_aclnn.rules.language.layout import *
from ascend_aclnn.rules.language.operands import *
from ascend_aclnn.rules.language.products import *
from ascend_aclnn.rules.language.shapes import *

if not TYPE_CHECKING:  # a type checker follows the imports above; at run time ``import *`` would take these modules too
    _MODULES = (
        attributes,
        call,
        conditions,
        data_types,
        declare,
        dtype_families,
        expressions,
        groups,
        layout,
        operands,
        products,
        shapes,
    )
    __all__ = [word for module in _MODULES for word in module.__all__]
