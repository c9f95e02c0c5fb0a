"""Groups of checks by the status of ATB's that they fail with, and what all operations have in common."""

from __future__ import annotations

from typing import Any

from ascend_aclnn.catalog import atb
from ascend_aclnn.rules.language import *

ABSENT = atb.status("ERROR_INVALID_TENSOR_DIM_NUM")  # a tensor without axes, where one is needed


def of_parameters(*words: Check) -> Check:
    return with_status(atb.status("ERROR_INVALID_PARAM"), *words)


def of_dtypes(*words: Check) -> Check:
    """ATB compares data types and formats with the rows of a table."""
    return with_status(atb.status("ERROR_INVALID_TENSOR_INI_MATCH"), *words)


def of_ranks(*words: Check) -> Check:
    return with_status(atb.status("ERROR_INVALID_TENSOR_DIM_NUM"), *words)


def of_shapes(*words: Check) -> Check:
    return with_status(atb.status("ERROR_INVALID_TENSOR_DIM"), *words)


def operation(name: str, parameters: Check, *words: Check, inputs: str, **options: Any) -> None:
    """The rules of an operation: of its parameters alone, and of both. ``inputs`` are those that it always has."""
    rule(f"{name}Param", parameters)
    needed = required(*inputs.split(), status=ABSENT)
    rule(f"{name}Operation", parameters, needed, *words, null_status=ABSENT, **options)
