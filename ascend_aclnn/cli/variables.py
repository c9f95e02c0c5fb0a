"""The environment variables that CANN, HCCL, torch_npu and this package read, and what each is for.

They are listed in ``core/data/variables.json``.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from typing import NamedTuple, Optional

from ascend_aclnn.core.error_codes import DATA


class Variable(NamedTuple):
    """One variable. An important one is worth knowing of even where it is not set."""

    name: str
    meaning: str
    important: bool


@functools.cache
def known() -> tuple[Variable, ...]:
    """All variables, the important and those of CANN first."""
    stored = json.loads(DATA.with_name("variables.json").read_text(encoding="utf-8"))
    return tuple(Variable(name, *words) for name, words in stored.items())


def values(environ: Mapping[str, str]) -> dict[str, Optional[str]]:
    """The values of the variables that are set, and None for the important ones that are not."""
    return {v.name: environ.get(v.name) for v in known() if v.important or v.name in environ}


def meaning(name: str) -> str:
    return next(v.meaning for v in known() if v.name == name)
