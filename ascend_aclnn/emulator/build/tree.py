"""What a build has beside the libraries: headers, the release, how the device process is started."""

from __future__ import annotations

import functools
import os
import shlex
from pathlib import Path

from ascend_aclnn.backends.npu.versions import OPS_PACKAGES
from ascend_aclnn.emulator import releases
from ascend_aclnn.emulator.build import cache, headers
from ascend_aclnn.emulator.build.digest import configuration, interpreter, packages
from ascend_aclnn.emulator.build.libraries import PACKAGE, Options

PYTHON_PACKAGES = "python/site-packages"  # below a build
PYTHON_START = "python/start"  # below a build: in front of PYTHONPATH, what each Python loads first
ATB_HOME = "atb/cxx_abi_1"  # below a build: strings are those of libstdc++ since C++11
PROGRAMS = "bin"  # below a build: in front of PATH under emulator run

_ACL = """import sys

try:
    import ascend_aclnn.pyacl as pyacl
except ImportError:
    sys.path.append({package!r})
    import ascend_aclnn.pyacl as pyacl
sys.modules[__name__] = pyacl
for _name in pyacl.__all__:
    sys.modules[f"{{__name__}}.{{_name}}"] = getattr(pyacl, _name)
"""

_PYTHON = """#!/bin/sh
exec {python} -I -S -c 'import sys; sys.path[:0] = sys.argv.pop(1).split(":")
from ascend_aclnn.emulator.{module} import main
sys.exit(main(sys.argv[1:]))' {path} "$@"
"""

# CANN's compiler of kernels, as far as it is asked whether it is there: triton-ascend counts an NPU as active where the compiler
# has the target hiipu64. Kernels are not compiled here: Triton's are interpreted.
_BISHENG = """#!/bin/sh
case "$1" in
-print-targets | --print-targets)
    echo "  Registered Targets:"
    echo "    hiipu64 - emulated: kernels are not compiled"
    ;;
*)
    echo "bisheng: EMULATOR_NOT_SUPPORTED: the emulated CANN compiles no kernels; TRITON_INTERPRET=1 interprets Triton's" >&2
    exit 1
    ;;
esac
"""


def complete(directory: Path, options: Options) -> None:
    """Writes it into the directory of a build."""
    headers.write(directory / "include", options.cann)
    toolkit, operators = releases.parts(options.cann)
    # What clients look for below ASCEND_HOME_PATH: torch_npu prints warnings, or refuses to be imported, without them.
    for part, version in (("runtime", toolkit), ("compiler", toolkit), ("opp", operators)):
        (directory / part).mkdir()
        (directory / part / "version.info").write_text(f"Version={version}\n", encoding="utf-8")
    (directory / "ascend_toolkit_install.info").write_text(f"version={toolkit}\n", encoding="utf-8")
    if releases.has(operators, "8.5.0"):  # the operators' parts have versions of their own
        for name in OPS_PACKAGES[:-1]:
            (directory / "share" / "info" / name).mkdir(parents=True)
            note = directory / "share" / "info" / name / "version.info"
            note.write_text(f"Version={operators}\n", encoding="utf-8")
    # ATB is a package of its own, and so is its directory.
    atb = directory / ATB_HOME
    atb.mkdir(parents=True)
    for name, target in (("include", "../../include"), ("lib", "../../lib64")):
        (atb / name).symlink_to(target)
    # As far as MindSpore asks before it makes communicators; CANN's set_env.sh has the directory in PYTHONPATH, too.
    package = directory / PYTHON_PACKAGES / "hccl"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "sys_version.py").write_text(f'__sys_version__ = "{toolkit}"\n', encoding="utf-8")
    # What programs know as pyACL: ascend_aclnn.pyacl, where this package is not among the program's.
    acl = directory / PYTHON_PACKAGES / "acl"
    acl.mkdir()
    (acl / "__init__.py").write_text(_ACL.format(package=str(PACKAGE.parent)), encoding="utf-8")
    # What Python imports at its start.
    text = (PACKAGE / "emulator" / "client.py").read_text(encoding="utf-8")
    start = f"{text}\n\ninstall({str(PACKAGE.parent)!r})\nrun_next(__file__)\n"
    (directory / PYTHON_START).mkdir()
    (directory / PYTHON_START / "sitecustomize.py").write_text(start, encoding="utf-8", errors="surrogateescape")
    _write_programs(directory / PROGRAMS)
    (directory / "lib64" / "emulator.conf").write_bytes(os.fsencode(configuration(options)))
    cache.make_home(directory)


def _write_programs(directory: Path) -> None:
    directory.mkdir()
    python = functools.partial(
        _PYTHON.format, python=shlex.quote(interpreter()), path=shlex.quote(":".join(packages()))
    )
    # torch_npu.profiler exports what aclprofStop leaves by msprof, and looks for a script beside the place where CANN has it.
    tool = directory.parent / "tools" / "profiler"
    for path, text in (
        (directory / "npu-smi", python(module="npu_smi")),
        (directory / "bisheng", _BISHENG),
        (tool / "bin" / "msprof", python(module="msprof")),
        (tool / "profiler_tool" / "analysis" / "msprof" / "msprof.py", "# See ascend_aclnn/emulator/msprof.py.\n"),
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", errors="surrogateescape")
        path.chmod(0o755)
    (directory / "msprof").symlink_to("../tools/profiler/bin/msprof")
