"""Modules of operators that an emulated device knows beside the catalog: ``emulator run --operators my_ops.py``.

A module declares operators (``register_operator``), their rules and references, or references of kernels
(``reference.kernels``), as docs/adding-an-operator.md shows. The command line (``activate``, pytest's ``--aclnn-operators``)
loads it to generate the operators' library, the device process loads it to compute them.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from ascend_aclnn import catalog
from ascend_aclnn.catalog import Operator

VARIABLE = "ASCEND_EMULATOR_OPERATORS"  # files and directories of packages, with colons between them


def locate(name: str) -> Path:
    """Where a module lies: a file ``my_ops.py``, or the directory of a package.

    ``name`` is either, or the name of a top-level module that can be imported here. ValueError where it is none of them.
    The device process, which does not have the caller's PYTHONPATH, gets paths.
    """
    path = Path(name)
    if path.is_file() if path.suffix == ".py" else (path / "__init__.py").is_file():
        return path.resolve()
    spec = importlib.util.find_spec(name) if name.isidentifier() else None
    if spec is None or spec.origin is None or not spec.has_location:  # "sys" has an origin and no file
        raise ValueError(
            f"operators: {name} is no Python file, directory of a package, or top-level module that can be imported"
        )
    return Path(spec.origin).parent if spec.submodule_search_locations else Path(spec.origin)


def load(names: Sequence[str]) -> list[Operator]:
    """Imports modules, each under its own name, and gives the operators that they declare.

    ValueError for one that is absent or cannot be imported; it names the module and the error.
    """
    before = set(catalog.registered())
    for path in map(locate, names):
        place = str(path.parent)
        if place not in sys.path:
            sys.path.insert(0, place)  # a file may import its neighbours
        if path.stem in sys.modules:
            continue
        package = path.is_dir()
        spec = importlib.util.spec_from_file_location(
            path.stem,
            path / "__init__.py" if package else path,
            submodule_search_locations=[str(path)] if package else None,
        )
        assert spec is not None and spec.loader is not None
        module = sys.modules[path.stem] = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except Exception as error:
            del sys.modules[path.stem]
            raise ValueError(f"operators: {path} cannot be imported: {type(error).__name__}: {error}") from error
    return [catalog.get(name) for name in catalog.registered() if name not in before]


def variables(
    environ: Mapping[str, str], names: Sequence[str], declared: Sequence[Operator], home: Path
) -> dict[str, str]:
    """An environment in which programs and the device process know the operators that some modules have declared.

    ``home`` is the emulated CANN's directory. Where there are operators, a library of them is built.
    """
    from ascend_aclnn.emulator.build.vendor import LIBRARY, build_vendor

    result = {**environ, VARIABLE: ":".join(str(locate(name)) for name in names)}
    if declared:
        vendor = build_vendor(declared, home)
        result["ASCEND_CUSTOM_OPP_PATH"] = str(vendor)
        result["LD_LIBRARY_PATH"] = f"{vendor / LIBRARY}:{environ['LD_LIBRARY_PATH']}"
    return result


def load_from_environment() -> None:
    """Loads what ``VARIABLE`` lists."""
    listed = os.environ.get(VARIABLE, "")
    if listed:
        load(listed.split(":"))
