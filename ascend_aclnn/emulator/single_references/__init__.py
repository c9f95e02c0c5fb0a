"""References of single operators that no aclnn operator does the work of; their names begin with ``aclnnSingle``.

Their parameters are those of the first row of ``single_types.py`` that names them.
"""

from __future__ import annotations

import dataclasses

from ascend_aclnn import catalog
from ascend_aclnn.catalog.headers import operator_from_prototype
from ascend_aclnn.emulator import single_types

# In C's words, by the letters of single_types.py.
_CTYPES = {
    "f": "double ",
    "i": "int64_t ",
    "1": "int64_t ",
    "r": "int64_t ",
    "b": "bool ",
    "s": "const char *",
    "I": "const aclIntArray *",
    "M": "const aclIntArray *",
    "L": "const aclFloatArray *",
}
_TENSORS = ("", "raw", *single_types.IMAGES)
_FORMS = {"shape": "I", "words": "i", "spatial": "I", "count": "i", "dropped": "f"}

_DATA_DEPENDENT = ("aclnnSingleUniqueWithCounts",)


class _ShapesFromData(catalog.Operator):
    """An operator that only the data tell the shapes of some outputs."""

    data_dependent = True


def _register() -> None:
    done = set()
    for row in single_types.ARGUMENTS.values():
        name, *tokens = row.split()
        if not name.startswith("aclnnSingle") or name in done:
            continue
        done.add(name)
        parameters, outputs, optional = [], {}, []
        for at, token in enumerate(token for token in tokens if token[0] != "!"):
            word, _, kind = token.partition(":")
            known = word.rstrip("?") if word[0] != "=" else f"number{at}"
            if word == "x*":
                ctype, known = "const aclTensorList *", "inputs"
            elif word[0] == "y" and word[1:].isdigit() and kind in (*_TENSORS, "number"):
                ctype, outputs[known] = "aclTensor *", "out"
            elif word[0] == "x" and kind in _TENSORS:
                ctype = "const aclTensor *"
            else:
                kind = kind.partition("=")[0] or "i"
                known += "" if kind not in _FORMS else kind
                ctype = _CTYPES["i" if "|" in kind or kind in ("first", "last") else _FORMS.get(kind, kind[:1])]
            if word.endswith("?"):
                optional.append(known)
            parameters.append(ctype + known)
        text = f"aclnnStatus {name}GetWorkspaceSize({', '.join(parameters)}, uint64_t *workspaceSize, aclOpExecutor **executor);"
        made = operator_from_prototype(text, outputs, optional)
        kind_of = _ShapesFromData if name in _DATA_DEPENDENT else catalog.Operator
        values = {field.name: getattr(made, field.name) for field in dataclasses.fields(made)}
        catalog.register(kind_of(**{**values, "family": "single"}))


_register()

from ascend_aclnn.emulator.single_references import (  # noqa: E402
    attention,
    boxes,
    images,
    indexing,
    norms,
    plain,
    recurrence,
)

__all__ = ["attention", "boxes", "images", "indexing", "norms", "plain", "recurrence"]
