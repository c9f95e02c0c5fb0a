"""Importing the one module that holds an operator's rule or reference.

Rules and references lie by family ("ops-nn/norm" -> ``rules.norm``, a module or a package of modules). Which module of a
family has an operator is kept in ``catalog/data/modules.txt``, so that a first call imports that one only; the file is made by
``scripts/make_module_index.py`` and is no source of truth: an operator that it does not place is looked for in its family.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import pkgutil
from collections.abc import Mapping
from types import ModuleType
from typing import TypeVar

from ascend_aclnn.catalog import DATA, Operator

PACKAGES = ("ascend_aclnn.rules", "ascend_aclnn.reference")  # in the order of the file's columns
INDEX = DATA / "modules.txt"

Found = TypeVar("Found")


@functools.cache
def _load_indexed(package: str, name: str) -> bool:
    """Imports the module that the index names for an operator; False if it names none."""
    row = _row(name)
    if row is None or row[PACKAGES.index(package)] == "-":
        return False
    module = f"{package}.{row[PACKAGES.index(package)]}"
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module:  # a fault in the module, not a row that is out of date
            raise
        return False
    return True


@functools.cache
def load_family(package: str, family: str) -> None:
    """Imports all modules of a family, if it has any."""
    module = f"{package}.{family.rpartition('/')[2]}"
    if importlib.util.find_spec(module) is not None:
        _import_with_parts(module)


def load_all(package: str) -> None:
    """Imports every module of ``rules`` or ``reference``."""
    for item in pkgutil.iter_modules(importlib.import_module(package).__path__, package + "."):
        _import_with_parts(item.name)


def find(package: str, operator: Operator, registry: Mapping[str, Found]) -> Found | None:
    """What a module of ``package`` has registered for an operator, after importing it; None if nothing."""
    found = registry.get(operator.name)
    if found is None and _load_indexed(package, operator.name):
        found = registry.get(operator.name)
    if found is None:
        load_family(package, operator.family)
        found = registry.get(operator.name)
    return found


def _import_with_parts(name: str) -> ModuleType:
    module = importlib.import_module(name)
    for item in pkgutil.iter_modules(getattr(module, "__path__", ()), name + "."):
        importlib.import_module(item.name)
    return module


@functools.cache
def _text() -> str:
    return "\n" + INDEX.read_text(encoding="utf-8") if INDEX.exists() else ""


def _row(name: str) -> list[str] | None:
    text = _text()
    start = text.find(f"\n{name} ")
    if start < 0:
        return None
    return text[start + 1 : text.find("\n", start + 1)].split()[1:]
