"""Named tuples for operators with several results.

The types are made on demand from the catalog and found again by their names here, so that results can be pickled.
"""

from __future__ import annotations

import collections
import functools
from typing import Any

from ascend_aclnn import catalog
from ascend_aclnn.catalog import Operator
from ascend_aclnn.core import notebook

_SUFFIX = "Result"


def result_type(operator: Operator) -> Any:
    """The named tuple of an operator's inout and out parameters, in C order: aclnnRmsNorm -> RmsNormResult(y, rstd)."""
    name = operator.name.replace("aclnn", "", 1) + _SUFFIX
    return _named_tuple(name, tuple(p.python_name for p in operator.outputs))


@functools.cache
def _named_tuple(name: str, fields: tuple[str, ...]) -> Any:
    return _shown_in_notebooks(collections.namedtuple(name, fields, module=__name__))


def _shown_in_notebooks(named_tuple: Any) -> Any:
    named_tuple._repr_html_ = notebook.results_html
    return named_tuple


def __getattr__(name: str) -> Any:
    operator = name[: -len(_SUFFIX)] if name.endswith(_SUFFIX) else ""
    for candidate in ("aclnn" + operator, operator):
        try:
            return result_type(catalog.get(candidate))
        except KeyError:
            continue
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
