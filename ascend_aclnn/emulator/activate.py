"""The emulated device in the running process: for notebooks and IDEs, where ``emulator run`` cannot be written in front.

from ascend_aclnn import emulator
emulator.activate()          # before anything of CANN is loaded
import torch, torch_npu
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Optional

from ascend_aclnn.core.socs import known_soc

# In the order in which they need each other.
_LIBRARIES = (
    "libascendcl.so",
    "libacl_rt.so",
    "libnnopbase.so",
    "libopapi.so",
    "libopapi_math.so",
    "libopapi_nn.so",
    "libopapi_cv.so",
    "libopapi_transformer.so",
    "libhccl.so",
    "libacl_op_compiler.so",
    "libge_runner.so",
    "libgraph.so",
    "libfmk_parser.so",
    "libascend_protobuf.so",
    "libacl_tdt_channel.so",
    "libascend_hal.so",
    "libatb.so",
)

# What programs are to assume where their environment says nothing else. Kernels of Triton can be interpreted here, not compiled.
ASSUMED = {"TRITON_INTERPRET": "1"}


def activate(
    soc: Optional[str] = None,
    streams: Optional[str] = None,
    cann: Optional[str] = None,
    operators: Sequence[str] = (),
) -> Path:
    """Loads the emulated CANN into this process and makes the npu backend the default; returns its directory.

    What is imported afterwards (torch_npu) finds these libraries, because the dynamic linker takes what is loaded already.
    RuntimeError where torch_npu or a CANN library has been loaded before. ``streams`` is "background", "eager" or "deferred",
    ``cann`` the release ("9.0.0"), ``operators`` modules of operators as ``emulator run --operators`` takes them: files,
    directories of packages, names of modules; ValueError for one that cannot be imported.
    """
    loaded = _loaded()
    if loaded:
        raise RuntimeError(
            f"{loaded} is loaded already; call activate() first, or start with: ascend-aclnn emulator run"
        )
    from ascend_aclnn.emulator import client
    from ascend_aclnn.emulator.build import ATB_HOME, PROGRAMS, PYTHON_PACKAGES, build, cache

    directory = build(cann=cann) / cache.HOME
    settings = {
        "ASCEND_HOME_PATH": str(directory),
        "ASCEND_OPP_PATH": str(directory / "opp"),
        "ATB_HOME_PATH": str(directory / ATB_HOME),
        "ASCEND_ACLNN_BACKEND": "npu",
        "ASCEND_ACLNN_SOC": None if soc is None else known_soc(soc),
        "ASCEND_EMULATOR_STREAMS": streams,
        "ASCEND_EMULATOR_CANN": cann,
    }
    os.environ.update({name: value for name, value in settings.items() if value is not None})
    for name, value in ASSUMED.items():
        os.environ.setdefault(name, value)
    os.environ["PATH"] = f"{directory / PROGRAMS}:{os.environ.get('PATH', os.defpath)}"
    paths = [str(directory / "lib64"), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
    os.environ["LD_LIBRARY_PATH"] = ":".join(paths)  # for child processes
    sys.path.append(str(directory / PYTHON_PACKAGES))
    client.install(str(Path(__file__).parents[2]))
    for name in _LIBRARIES:
        path = directory / "lib64" / name
        if path.exists():
            ctypes.CDLL(str(path), ctypes.RTLD_GLOBAL)
    if operators:
        _add_operators(operators, directory)
    return directory


def _add_operators(names: Sequence[str], directory: Path) -> None:
    """Makes operators known to the device process, and loads their library: clients look its functions up by its name."""
    from ascend_aclnn.emulator import operators
    from ascend_aclnn.emulator.build.vendor import LIBRARY, NAME

    declared = operators.load(names)
    os.environ.update(operators.variables(os.environ, names, declared, directory))
    if declared:
        ctypes.CDLL(str(Path(os.environ["ASCEND_CUSTOM_OPP_PATH"], LIBRARY, NAME)))


def _loaded() -> str:
    """What of CANN, or of its clients, this process has loaded; "" if nothing."""
    if "torch_npu" in sys.modules:
        return "torch_npu"
    for line in os.fsdecode(Path("/proc/self/maps").read_bytes()).splitlines():
        name = line.rpartition("/")[2]
        if name.startswith(("libascendcl.so", "libacl_rt.so")):
            return line.partition("/")[1] + line.partition("/")[2]
    return ""
