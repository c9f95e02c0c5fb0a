"""What CANN's own checks print where phase one refuses, for clients that look for these words in aclGetRecentErrMsg.

Operators check with common macros (aclnn_kernels/common/op_error_check.h); a rule's word names the kind of check and its
values (``RuleViolation.cause``). Where a check is the operator's own, CANN's words are its own, too, and nothing is said.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional

from ascend_aclnn.core.dtypes import DataType
from ascend_aclnn.core.errors import PARAM_INVALID, PARAM_NULLPTR, RuleViolation
from ascend_aclnn.emulator import releases

# By kind of check: as the header of 8.1.RC1 has it, and as the open sources of later releases do (the same with a capital
# letter, where there is one).
_TEXTS = {
    "dtype": (
        "{name} not implemented for {came}, should be in dtype support list {allowed}.",
        "Tensor {name} not implemented for {came}, should be in dtype support list {allowed}.",
    ),
    "expected dtype": (
        "{name} expected dtype is {allowed} but found {came}.",
        "Tensor {name} expected dtype is {allowed} but found {came}.",
    ),
    "same dtype": ("expected both tensors to have same dtype, but found {other} {allowed} and {name} {came}.",),
    "cast": ("result type {came} can't be cast to the desired output type {allowed}.",),
    "broadcast": ("the size of tensor {other} {allowed} must match the size of tensor {name} {came}.",),
    "same shape": (
        "expected tensor for {other} to have same size as tensor for {name}, but {allowed} does not equal {came}.",
    ),
    "shape": ("expected tensor for {name} to have same size as {allowed}, but got {came}.",),
    "rank": (
        "expected {count} dimensions input, but got {name} with sizes {came}.",
        "Expected {count} dimension input, but got {name} with sizes {came}.",
    ),
    "most axes": ("the {name} tensor cannot be larger than {count} dimensions.",),
    "least axes": ("the {name} tensor must have at least {count} dimensions.",),
    "null": ("{null}", "Expected a value of type [{kind}] for argument [{name}] but instead found nullptr."),
}
_NULLS = {
    "aclTensor": "expected a proper Tensor but got null for argument {name}.",
    "aclTensorList": "expected a proper TensorList but got null for argument {name}.",
    "aclScalar": "expected a value of type number for argument {name} but instead found type null.",
    "aclIntArray": "expected a value of type List[int] for argument {name} but instead found type null.",
    "aclBoolArray": "expected a value of type List[bool] for argument {name} but instead found type null.",
    "aclFloatArray": "expected a value of type List[float] for argument {name} but instead found type null.",
}

# Operators that report which part of their checks has failed, after the check itself.
_PARTS = {"dtype": "CheckDtypeValid failed!", "null": "CheckNotNull failed!", "shape": "CheckShape failed!"}
_REPORT_PARTS = (
    "AdaLayerNorm AdaLayerNormQuant AdaLayerNormV2 Addcmul BatchNormElemtBackward BatchNormGatherStatsWithCounts Cdist "
    "ConstantPadNd DeformableConv2d DeformableConv2dBackward InplaceAddcmul InplaceLerps Lerps MaxUnpool2dBackward "
    "MaxUnpool3dBackward MultilabelMarginLoss PdistForward"
)
_INDENT = "\n        "


def lines(operator: str, violation: RuleViolation) -> Optional[str]:
    """What CANN prints, without its heading; None where that is not known."""
    if violation.status not in (PARAM_INVALID, PARAM_NULLPTR):
        return None  # tiling has other words
    newer = releases.number(releases.chosen(None)) > releases.number("8.1.RC1")
    parts = []
    if violation.cause is not None:
        kind, values = violation.cause
        texts = _TEXTS[kind]
        text = texts[-1] if newer else texts[0]
        if kind == "null":
            text = text.replace("{null}", _NULLS.get(values["kind"], ""))
        written = {name: _written(value, newer) for name, value in values.items()}
        parts.append(text.format(name=violation.argument, **written))
        if newer:
            parts[0] = parts[0][:1].upper() + parts[0][1:]
    if operator.removeprefix("aclnn") in _REPORT_PARTS.split():
        parts.append(_PARTS[_part(violation)])
    heading = _INDENT + "TraceBack (most recent call last):" + _INDENT
    return heading.join(parts) if parts and parts[0] else None


def _part(violation: RuleViolation) -> str:
    kind = violation.cause[0] if violation.cause is not None else ""
    return "null" if violation.status == PARAM_NULLPTR else "dtype" if "dtype" in kind or kind == "cast" else "shape"


def _written(value: Any, newer: bool) -> str:
    """As CANN writes data types and shapes."""
    if isinstance(value, DataType):
        return "DT_BFLOAT16" if value is DataType.BF16 else f"DT_{value.name.removeprefix('DT_')}"
    if not isinstance(value, Sequence) or isinstance(value, str):
        return str(value)
    if value and isinstance(value[0], DataType):
        return f"[{''.join(_written(item, newer) + ',' for item in value)}]"
    return f"[{(', ' if newer else ',').join(map(str, value))}]"
