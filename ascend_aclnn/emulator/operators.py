"""Files of operators that an emulated device knows beside the catalog: ``emulator run --operators my_ops.py``.

A file declares operators (``register_operator``), their rules and references, as docs/adding-an-operator.md shows. The
command line loads it to generate the operators' library, the device process loads it to compute them.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from ascend_aclnn import catalog
from ascend_aclnn.catalog import Operator

VARIABLE = "ASCEND_EMULATOR_OPERATORS"  # the files, with colons between them


def load(paths: Sequence[str]) -> list[Operator]:
    """Imports the files, each under its own name, and gives the operators that they declare.

    ValueError for a file that is absent or cannot be imported; it names the file and the error.
    """
    before = set(catalog.registered())
    for path in map(Path, paths):
        if path.suffix != ".py" or not path.is_file():
            raise ValueError(f"operators: {path} is no Python file")
        place = str(path.resolve().parent)
        if place not in sys.path:
            sys.path.insert(0, place)  # the file may import its neighbours
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None and spec.loader is not None
        if path.stem in sys.modules:
            continue
        module = sys.modules[path.stem] = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except Exception as error:
            del sys.modules[path.stem]
            raise ValueError(f"operators: {path} cannot be imported: {type(error).__name__}: {error}") from error
    return [catalog.get(name) for name in catalog.registered() if name not in before]


def load_from_environment() -> None:
    """Loads what ``VARIABLE`` lists."""
    listed = os.environ.get(VARIABLE, "")
    if listed:
        load(listed.split(":"))
