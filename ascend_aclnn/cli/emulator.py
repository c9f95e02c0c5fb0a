"""``ascend-aclnn emulator``: build the emulated CANN, run programs on it, check that it works."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from ascend_aclnn.cli.operators import add_operators
from ascend_aclnn.cli.sizes import size
from ascend_aclnn.core.socs import DEFAULT_SOC, soc
from ascend_aclnn.emulator import faults, operators, releases, validation
from ascend_aclnn.emulator.activate import ASSUMED
from ascend_aclnn.emulator.build import (
    ATB_HOME,
    PROGRAMS,
    PYTHON_PACKAGES,
    PYTHON_START,
    CompilerError,
    Options,
    build,
    cache,
    find_compiler,
    name_of,
    prebuilt,
)
from ascend_aclnn.emulator.build.libraries import runtime_of
from ascend_aclnn.layer.run import keep_in_front

# Variables that point to a real CANN: a process must not see two of them.
_OTHER_CANN = ("HOME_PATH", "OPP_PATH", "CUSTOM_OPP_PATH", "TOOLKIT_HOME", "AICPU_PATH")

_MOST_DEVICES, _MOST_MEMORY = 16, 64 << 40  # as csrc/ascendcl/core has them

_PROBE = """
import numpy as np
from ascend_aclnn import backend, ops
product = ops.mm(np.ones((2, 3), np.float32), np.ones((3, 2), np.float32))
assert backend().emulated and (product == 3).all(), (backend().name, product)
"""


def add_commands(subparsers: Any) -> None:
    """Adds ``emulator build``, ``emulator run`` and ``emulator doctor`` to the command line."""
    parser = subparsers.add_parser("emulator", help="run CANN programs on this host without a device")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    command = commands.add_parser("build", help="headers and libraries for building C++ programs")
    command.add_argument("directory", help="gets include/ and lib64/")
    command.add_argument("--split", action="store_true", help="libopapi_math.so, libopapi_nn.so, ... as newer CANN has")
    _add_build_options(command)
    command.set_defaults(run=_build)

    command = commands.add_parser("run", help="run a program on the emulated device: emulator run -- PROGRAM ARGS")
    command.add_argument("--streams", choices=("background", "eager", "deferred"), help="when queued work runs")
    command.add_argument(
        "--memory", type=_memory, metavar="SIZE", help="device memory, as 512M or 16G, up to 64T (default: the SoC's)"
    )
    command.add_argument("--devices", type=_count, metavar="N", help=f"devices, 0 to {_MOST_DEVICES} (default: 2)")
    command.add_argument("--soc", metavar="NAME", help=f"the SoC, as aclrtGetSocName names it (default: {DEFAULT_SOC})")
    command.add_argument("--strict", action="store_true", help="exit with status 86 when handles or memory leak")
    add_validation(command, "report accesses that no order protects")
    command.add_argument(
        "--validate-stop",
        action="store_true",
        help="end the program at the first finding, by SIGABRT; it goes on otherwise",
    )
    command.add_argument(
        "--alignment",
        choices=("allow", "warn", "refuse"),
        help="device addresses that are not 32-byte aligned (default: warn)",
    )
    command.add_argument(
        "--fault",
        action="append",
        default=[],
        metavar="SPEC",
        help='something that goes wrong: "aclrtMalloc:after=10:status=207001", "aclnnAdd:fail"; may be repeated',
    )
    add_operators(command)
    _add_build_options(command)
    command.add_argument("program", nargs=argparse.REMAINDER, metavar="-- PROGRAM ARGS")
    command.set_defaults(run=_run)

    command = commands.add_parser("check", help="what a client's libraries ask of CANN and the emulated one lacks")
    command.add_argument("libraries", nargs="+", metavar="LIBRARY", help="shared libraries, extension modules too")
    command.add_argument(
        "--names", action="store_true", help="also operators that they look up by name (aclnn..., Atb...)"
    )
    add_operators(command)
    _add_build_options(command)
    command.set_defaults(run=_check)

    command = commands.add_parser("doctor", help="say whether the emulator can be built and works")
    command.set_defaults(run=_doctor)


def _count(text: str) -> int:
    if re.fullmatch("[0-9]{1,9}", text, re.ASCII) is None or int(text) > _MOST_DEVICES:
        raise argparse.ArgumentTypeError(f"{text} is not a number from 0 to {_MOST_DEVICES}")
    return int(text)


def _memory(text: str) -> str:
    """An amount of device memory, as the library reads it."""
    if size(text) > _MOST_MEMORY:
        raise argparse.ArgumentTypeError(f"{text} is not a number of bytes up to 64T")
    return text


def _add_build_options(command: argparse.ArgumentParser) -> None:
    releases_text = ", ".join(releases.KNOWN)
    command.add_argument(
        "--cann",
        metavar="RELEASE",
        help=f"the CANN release to emulate (default: {releases.DEFAULT}; known: {releases_text}), or one of the toolkit and "
        "one of the operators: toolkit=9.1.0,ops=9.1.1",
    )
    command.add_argument(
        "--sanitize", metavar="LIST", default="", help="build with -fsanitize=LIST: address,undefined or thread"
    )


def _built(options: argparse.Namespace, directory: str | None = None, split: bool = False) -> Path:
    """The build that command line options describe."""
    return build(directory, split, options.cann, tuple(filter(None, options.sanitize.split(","))))


def sanitizer_variables(sanitize: str) -> dict[str, str]:
    """The environment in which a program without sanitizers can load libraries built with them."""
    names = [name for name in ("address", "thread", "undefined") if name in sanitize.split(",")]
    if not names:
        return {}
    short = {"address": "asan", "thread": "tsan", "undefined": "ubsan"}
    libraries = [
        subprocess.run(
            [find_compiler(), f"-print-file-name=lib{short[name]}.so"], capture_output=True, text=True, check=True
        ).stdout.strip()
        for name in names
    ]
    # An interpreter never frees everything; the emulator reports its own leaks.
    asan = "detect_leaks=0:allocator_may_return_null=1:handle_segv=0"
    return {
        "LD_PRELOAD": ":".join(libraries),
        "ASAN_OPTIONS": asan,
        "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
        "TSAN_OPTIONS": "die_after_fork=0:allocator_may_return_null=1",  # the device process is started like that
    }


def add_validation(command: argparse.ArgumentParser, what: str) -> None:
    """Adds --validate and what belongs to it; ``what`` begins its help."""
    command.add_argument(
        "--validate",
        type=validation.parse,
        nargs="?",
        const=",".join(validation.USUAL),
        metavar="LIST",
        help=f"{what} (sync), and wrong use of memory and handles (memory); exit with status 1 if there is any "
        "(default: memory,sync)",
    )
    command.add_argument(
        "--validate-suppress",
        type=Path,
        metavar="FILE",
        help="findings that do not count, a line each: an identifier and a part of the text, with * and ?",
    )
    command.add_argument("--validate-json", type=Path, metavar="FILE", help="gets the findings as JSON")


def environment(directory: Path, **options: str) -> dict[str, str]:
    """An environment in which programs find the emulated libraries and no others."""
    inherited = {
        key: value for key, value in os.environ.items() if key not in [f"ASCEND_{name}" for name in _OTHER_CANN]
    }
    home = directory / cache.HOME
    paths = [str(home / "lib64"), *filter(None, [inherited.get("LD_LIBRARY_PATH")])]
    packages = [str(home / PYTHON_START), *filter(None, [inherited.get("PYTHONPATH")]), str(home / PYTHON_PACKAGES)]
    programs = [str(home / PROGRAMS), inherited.get("PATH", os.defpath)]
    places = {
        "ASCEND_HOME_PATH": str(home),
        "ASCEND_OPP_PATH": str(home / "opp"),
        "ATB_HOME_PATH": str(home / ATB_HOME),
        "PATH": ":".join(programs),
        "LD_LIBRARY_PATH": ":".join(paths),
        "PYTHONPATH": ":".join(packages),
        "ASCEND_ACLNN_BACKEND": "npu",
    }
    variables = {**ASSUMED, **inherited, **places, **options}
    return keep_in_front(variables)


def _build(options: argparse.Namespace) -> int:
    directory = _built(options, options.directory, options.split)
    operators = " ".join(f"-l{path.stem[3:]}" for path in sorted((directory / "lib64").glob("libopapi*.so")))
    print(f"headers      {directory / 'include'}")
    print(f"libraries    {directory / 'lib64'}")
    runtime = runtime_of(directory / "lib64")[len("lib") : -len(".so")]
    print(
        f"to compile   g++ main.cpp -I{directory / 'include'} -L{directory / 'lib64'} {operators} -lnnopbase -l{runtime}"
    )
    print(f"to run       LD_LIBRARY_PATH={directory / 'lib64'} ./a.out")
    return 0


def _run(options: argparse.Namespace) -> int:
    program = options.program[1:] if options.program[:1] == ["--"] else options.program
    if not program:
        print(
            "ascend-aclnn: emulator run: no program given; write: ascend-aclnn emulator run -- PROGRAM ARGS",
            file=sys.stderr,
        )
        return 2
    home = _built(options)
    declared = operators.load(
        options.operators
    )  # a fault may name one of them; what is built for CANN is none of theirs
    settings = {
        "ASCEND_EMULATOR_STREAMS": options.streams,
        "ASCEND_EMULATOR_MEMORY": options.memory,
        "ASCEND_EMULATOR_DEVICES": None if options.devices is None else str(options.devices),
        "ASCEND_ACLNN_SOC": None if options.soc is None else soc(options.soc).name,
        "ASCEND_EMULATOR_STRICT": "1" if options.strict else None,
        "ASCEND_EMULATOR_ALIGNMENT": options.alignment,
        "ASCEND_EMULATOR_CANN": None if options.cann is None else releases.chosen(options.cann),
        faults.VARIABLE: ";".join(map(str, faults.parse(";".join(options.fault)))) or None,
        **sanitizer_variables(options.sanitize),
    }
    variables = environment(home, **{key: value for key, value in settings.items() if value is not None})
    if options.operators:
        variables = keep_in_front(operators.variables(variables, options.operators, declared, home))
    executable = shutil.which(program[0], path=variables.get("PATH"))
    if executable is None:
        raise ValueError(f"emulator run: {program[0]} was not found, or may not be run")
    sys.stdout.flush()
    if options.validate is not None:
        report = validation.Report(
            options.validate, options.validate_suppress, options.validate_json, options.validate_stop
        )
        return validation.run(executable, program, variables, report)
    return os.execve(executable, program, variables)  # which never returns


def _check(options: argparse.Namespace) -> int:
    """Prints what is lacking, a line each; 1 if anything is."""
    from ascend_aclnn.emulator.check import check

    home = _built(options)
    declared = [operator.name for operator in operators.load(options.operators)]
    lacking = False
    for result in check(options.libraries, home / "lib64", declared):
        lacking = lacking or bool(result)
        for kind, names in (("library", result.libraries), ("symbol", result.symbols)):
            for name in names:
                print(f"{result.path.name}: {kind} {name}")
        if options.names:
            for name in result.operators:
                print(f"{result.path.name}: looks up {name}")
        if result.kernels:
            print(
                f"{result.path.name}: kernels launched as binaries ({len(result.kernels)}): {' '.join(result.kernels)}"
            )
    return 1 if lacking else 0


def _doctor(options: argparse.Namespace) -> int:
    wanted = Options(releases.chosen(None))
    is_built = cache.has(name_of(wanted))
    ready = prebuilt(wanted)
    try:
        print(f"compiler     {find_compiler()}")
    except CompilerError as error:
        print("compiler     none; the package carries the libraries" if ready else f"compiler     none: {error}")
        if not is_built and ready is None:
            return 1
    started = time.perf_counter()
    directory = build()
    spent = "" if is_built else f" (built now, {time.perf_counter() - started:.1f} s)"
    print(f"libraries    {directory / 'lib64'}{spent}")
    chosen = soc(os.environ.get("ASCEND_ACLNN_SOC") or DEFAULT_SOC)
    print(f"emulates     {chosen.name} ({chosen.title}), CANN {releases.chosen(None)}; change with --soc and --cann")
    started = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", _PROBE], env=environment(directory), capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        print(
            f"operators    fail, the program ended with {done.returncode}:\n{done.stderr.strip() or '(it printed nothing)'}"
        )
        return 1
    print(f"operators    work (a program with one operator: {time.perf_counter() - started:.1f} s)")
    return 0
