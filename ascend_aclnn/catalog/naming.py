"""From CANN's names to Python's: one mechanical rule, so that a user can guess a name from a document."""

from __future__ import annotations

import functools
import keyword
import re
from collections.abc import Iterable


def snake_case(name: str) -> str:
    """``RmsNormGrad`` -> ``rms_norm_grad``, ``NLLLoss`` -> ``nll_loss``, ``Im2Col`` -> ``im2_col``."""
    name = re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1_\2", name)
    return re.sub(r"([a-z\d])([A-Z])", r"\1_\2", name).lower()


@functools.cache
def operator_python_name(name: str) -> str:
    """``aclnnRmsNormGrad`` -> ``rms_norm_grad``."""
    return operator_python_names([name])[0]


def operator_python_names(names: Iterable[str]) -> list[str]:
    """The Python names of many operators at once: one text is converted faster than a thousand."""
    text = re.sub(r"^acl(nn)?", "", "\n".join(names), flags=re.MULTILINE)
    return [f"{name}_" if keyword.iskeyword(name) else name for name in snake_case(text).split("\n")]


@functools.cache
def parameter_python_name(name: str, direction: str) -> str:
    """``probsOptional`` -> ``probs``, ``dxOut`` -> ``dx`` (outputs only), ``lambda`` -> ``lambda_``."""
    bare = re.sub(r"(Optional|Ref)+$", "", name) or name
    if direction == "out":
        bare = re.sub(r"Out$", "", bare) or bare
    bare = snake_case(bare)
    is_reserved = keyword.iskeyword(bare) or (direction != "out" and bare in ("out", "stream"))
    return bare + "_" if is_reserved else bare
