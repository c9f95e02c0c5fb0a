"""The environment in which a program runs under the layer."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple, Optional

from ascend_aclnn.backends.npu.library import flaw, search, vendor_libraries
from ascend_aclnn.backends.npu.versions import value_of
from ascend_aclnn.layer.build import ATB, VENDORS, build_atb, build_layer, build_vendor, layer_of
from ascend_aclnn.version import __version__

PREFIX = "ASCEND_LAYER_"
_CUSTOM = "ASCEND_CUSTOM_OPP_PATH"  # directories of vendors, which come before those that opp/vendors/config.ini lists


class Options(NamedTuple):
    """What is recorded. Sizes in bytes; None: the layer's default."""

    record: Path
    data: str = ""  # "all", "first=N", "sample=P" or names of operators
    stacks: bool = False
    tensor_limit: Optional[int] = None
    file_limit: Optional[int] = None
    times: bool = False  # of the device, by MSPTI


def environment(options: Options, environ: Mapping[str, str]) -> dict[str, str]:
    """The variables of a process that finds the layer in front of the CANN that this environment has.

    LookupError where it has none. The layer is built if it has not been.
    """
    cann = search(environ)
    if cann.runtime is None:
        raise LookupError(cann.explain())
    directory = cann.runtime.parent
    settings = {
        "RECORD": str(options.record.absolute()),
        "DATA": checked_data(options.data),
        "STACKS": "1" if options.stacks else "0",
        "TENSOR_LIMIT": "" if options.tensor_limit is None else str(options.tensor_limit),
        "FILE_LIMIT": "" if options.file_limit is None else str(options.file_limit),
        "TIMES": "1" if options.times else "0",
        "HEADER": json.dumps(_facts(directory)),
    }
    variables = {**environ, **{PREFIX + name: value for name, value in settings.items()}}
    return in_front(variables, directory)


def in_front(environ: Mapping[str, str], directory: Path) -> dict[str, str]:
    """The variables with the layer's directory in front of that of the libraries behind it, and of those of vendors."""
    layer = build_layer(directory)
    opp = Path(environ.get("ASCEND_OPP_PATH") or directory.parent / "opp")
    custom = _vendors(environ.get(_CUSTOM, "").split(":"), vendor_libraries(environ, opp), layer)
    places = [root / VENDORS.parent for root in custom if layer_of(root / VENDORS.parent) is not None]
    listed = [Path(path) for path in environ.get("LD_LIBRARY_PATH", "").split(":") if path]
    paths = [*places, *_atb(environ, [*listed, directory], layer), layer / "lib64", directory, *listed]
    variables = {**environ, "LD_LIBRARY_PATH": ":".join(dict.fromkeys(map(str, paths)))}
    if custom:
        variables[_CUSTOM] = ":".join(map(str, custom))
    return variables


def _atb(environ: Mapping[str, str], listed: Iterable[Path], layer: Path) -> list[Path]:
    """The directory of a shim in front of ATB's library, where there is one."""
    home = environ.get("ATB_HOME_PATH")
    places = [Path(home) / "lib", *listed] if home else listed
    library = next((place / ATB for place in places if (place / ATB).is_file() and layer_of(place) is None), None)
    return [] if library is None or flaw(library) is not None else [build_atb(library, layer)]


def _vendors(listed: Iterable[str], libraries: Iterable[Path], layer: Path) -> list[Path]:
    """Where CANN's clients look for vendors' operators, in that order: shims for those that have some, the others as they are."""
    roots = [Path(entry) for entry in listed if entry]
    roots += [path.parents[2] for path in libraries if path.is_file()]
    custom = []
    for root in dict.fromkeys(roots):
        has_shim = layer_of(root / VENDORS.parent) is not None
        usable = (root / VENDORS).is_file() and flaw(root / VENDORS) is None
        custom.append(build_vendor(root, layer) if usable and not has_shim else root)
    return custom


def keep_in_front(environ: Mapping[str, str]) -> dict[str, str]:
    """For a program that changes LD_LIBRARY_PATH under the layer: the layer in front of what it now names."""
    if not environ.get(PREFIX + "RECORD"):
        return dict(environ)
    paths = [path for path in environ.get("LD_LIBRARY_PATH", "").split(":") if path and layer_of(Path(path)) is None]
    variables = {**environ, "LD_LIBRARY_PATH": ":".join(paths)}
    cann = search(variables)
    if cann.runtime is None:
        return variables
    variables[PREFIX + "HEADER"] = json.dumps(_facts(cann.runtime.parent))
    return in_front(variables, cann.runtime.parent)


def _facts(directory: Path) -> dict[str, object]:
    """What the recording's header says of the CANN: what its files tell."""
    home = directory.parent
    places = [(home / "ascend_toolkit_install.info", "version"), (home / "runtime" / "version.info", "Version")]
    resolved = directory.resolve().parent
    places += [(resolved / "ascend_toolkit_install.info", "version")]
    places += [(resolved / "share" / "info" / "runtime" / "version.info", "Version")]
    cann = next(filter(None, (value_of(path, key) for path, key in places)), "")
    emulated = (directory / "emulator.conf").is_file()
    return {"package": __version__, "cann": cann, "emulated": emulated}


def checked_data(text: str) -> str:
    """The value of --data; ValueError where it says nothing that the layer knows."""
    name, equals, value = text.partition("=")
    if not equals:
        if text and not re.fullmatch(r"\w+(,\w+)*", text):
            raise ValueError(
                f"--data {text}: it is all, first=N, sample=P, or operators' names with commas between them"
            )
        return text
    if name == "first" and value.isdigit() and int(value) > 0:
        return text
    if name == "sample" and re.fullmatch(r"0?\.\d+|1(\.0*)?", value) and float(value) > 0:
        return text
    raise ValueError(f"--data {text}: first=N wants a number of launches, sample=P a share such as 0.01")


def clean(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The environment without the layer's variables."""
    return {name: value for name, value in environ.items() if not name.startswith(PREFIX)}
