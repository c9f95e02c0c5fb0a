"""Importing the modules that declare an operator's rule or reference.

Rules and references lie by family ("ops-nn/norm" -> ``rules.norm``, a module or a package of modules). A first call
imports as few modules of the family as possible: those whose source mentions the operator come first, then those that
mention the beginning of its name (tables add "Backward" or "V2"), then the others. So no list says which module declares
an operator, and an operator can move between the modules of its family.
"""

from __future__ import annotations

import functools
import importlib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Optional, Protocol, TypeVar

from ascend_aclnn.catalog import Operator

Found = TypeVar("Found")
_in_vain: set[tuple[str, str]] = set()  # package and operator: all modules are imported, and none declares it


def find(package: str, operator: Operator, registry: Mapping[str, Found]) -> Optional[Found]:
    """What a module of ``package`` has registered for an operator, after importing it; None if nothing."""
    searched = (package, operator.name)
    if operator.name not in registry and searched not in _in_vain:
        for module in _modules(package, operator):
            importlib.import_module(module)
            if operator.name in registry:
                break
        else:
            _in_vain.add(searched)
    return registry.get(operator.name)


class Declaration(Protocol):
    """A rule or reference."""

    @property
    def replaces(self) -> bool:
        """Whether it is a vendor's, for its form of an operator that the catalog has too."""
        ...


def counts(name: str, replaces: bool, registry: Mapping[str, Declaration], kind: str) -> bool:
    """Whether a declaration becomes that of an operator: a vendor's does, whichever comes first. ValueError for a second one."""
    before = registry.get(name)
    if before is None or replaces:
        return True
    if not before.replaces:
        raise ValueError(f"{name} has two {kind}")
    return False


def load_all(package: str) -> None:
    """Imports every module of ``rules`` or ``reference``."""
    import pkgutil

    for item in pkgutil.walk_packages(importlib.import_module(package).__path__, package + "."):
        importlib.import_module(item.name)


def _modules(package: str, operator: Operator) -> Iterator[str]:
    """The modules of an operator's family, the likeliest first."""
    sources = dict(_sources(package, operator.family.rpartition("/")[2]))
    words = re.findall("[A-Z]?[^A-Z]+|[A-Z]", re.sub("^acl(nn)?", "", operator.name))
    for count in range(len(words), 0, -1):
        end = rb"\b" if count == len(words) else b""
        mention = re.compile(rb"\b(aclnn)?%s%s" % ("".join(words[:count]).encode(), end))
        for module in [module for module, text in sources.items() if mention.search(text)]:
            del sources[module]
            yield module
    yield from sources


@functools.cache
def _sources(package: str, family: str) -> list[tuple[str, bytes]]:
    """The modules of a family with their sources; none where the family has no rules or references."""
    folder = Path(importlib.import_module(package).__path__[0])
    if (folder / f"{family}.py").is_file():
        return [(f"{package}.{family}", b"")]
    paths = sorted(path for path in (folder / family).glob("*.py") if path.stem != "__init__")
    return [(f"{package}.{family}.{path.stem}", path.read_bytes()) for path in paths]
