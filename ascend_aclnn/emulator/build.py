"""Builds the emulated CANN: headers and drop-in libraries, with the system's C compiler.

    directory/include/      acl/, aclnn/, aclnnop/, hccl/: made from the catalog (headers.py)
    directory/lib64/        libascendcl.so, libnnopbase.so, libopapi.so and those that clients want beside them; emulator.conf

The hand-written part is ``csrc/``; both phases of every operator, and a refusing stub for every function of CANN's
interface that the emulator lacks, are generated.
"""

from __future__ import annotations

import concurrent.futures
import fcntl
import functools
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ascend_aclnn import catalog
from ascend_aclnn.catalog import Operator
from ascend_aclnn.emulator import hardware, headers, protocol

CSRC = Path(__file__).parent / "csrc"
PACKAGE = Path(__file__).parent.parent

_FLAGS = ("-std=gnu11", "-D_GNU_SOURCE", "-O2", "-fPIC", "-fvisibility=hidden", "-pthread", "-Wall", "-Wextra")
_LINK = ("-shared", "-pthread", "-Wl,-z,now", "-Wl,-z,nodelete", "-Wl,-rpath,$ORIGIN", "-Wl,--no-undefined")


class _Library(NamedTuple):
    """What a library is made of."""

    sources: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()  # the libraries whose functions it exports, as the catalog names them
    operators: tuple[str, ...] = ()  # the repositories whose operators it has


_LIBRARIES = {
    "libascendcl.so": _Library(
        (
            *(
                "settings.c",
                "messages.c",
                "calls.c",
                "handles.c",
                "blocks.c",
                "device.c",
                "memory.c",
                "host_memory.c",
                "link.c",
            ),
            *(
                "stream.c",
                "event.c",
                "callback.c",
                "allocation.c",
                "copies.c",
                "inspect.c",
                "runtime.c",
                "op.c",
                "internal.c",
            ),
        ),
        functions=("libascendcl.so", "libacl_rt.so"),
    ),
    "libnnopbase.so": _Library(
        ("objects.c", "rewriting.c", "executor_cache.c", "executor.c"), ("libascendcl.so",), ("libnnopbase.so",)
    ),
    "libhccl.so": _Library(("hccl.c",), ("libnnopbase.so", "libascendcl.so"), ("libhccl.so", "libhcomm.so")),
    "libacl_op_compiler.so": _Library(("op_compiler.c",), ("libascendcl.so",), ("libacl_op_compiler.so",)),
    # torch_npu links against these and uses nothing of them before it needs a compiled graph or a data channel.
    "libge_runner.so": _Library(),
    "libgraph.so": _Library(),
    "libacl_tdt_channel.so": _Library(),
}

# The operators lie in one library, or, in newer CANN, in one for each repository.
_REPOSITORIES = ("ops-math", "ops-nn", "ops-cv", "ops-transformer")
_BASE = ("libnnopbase.so", "libascendcl.so")
_WHOLE = {"libopapi.so": _Library(("helpers.c",), _BASE, operators=_REPOSITORIES)}
_SPLIT = {
    f"libopapi_{name.partition('-')[2]}.so": _Library(
        ("helpers.c",) if name == "ops-math" else (), _BASE, operators=(name,)
    )
    for name in _REPOSITORIES
}

# Newer CANN's name of a library, and the library that answers for it: it has nothing but the names.
_FILTERS = {"libacl_rt.so": "libascendcl.so"}

# What a refusing stub returns, by its return type; everything else returns 0 or a null pointer.
_REFUSALS = {
    "aclError": "ACL_ERROR_RT_FEATURE_NOT_SUPPORT",
    "aclnnStatus": "ACLNN_ERR_INNER_FIND_KERNEL_ERROR",
    "HcclResult": "HCCL_E_NOT_SUPPORT",
    "aclDataType": "ACL_DT_UNDEFINED",
    "aclFormat": "ACL_FORMAT_UNDEFINED",
}

_KEPT_SECONDS = 30 * 24 * 3600  # how long the cache keeps a build


class CompilerError(RuntimeError):
    """There is no C compiler, or it failed."""


def find_compiler() -> str:
    """The C compiler: ``CC``, cc or gcc; CompilerError when there is none."""
    for name in filter(None, (os.environ.get("CC"), "cc", "gcc", "clang")):
        found = shutil.which(name)
        if found:
            return found
    raise CompilerError("the emulator needs a C compiler (cc, gcc or clang) on PATH, or its name in CC; none was found")


def build(directory: Path | str | None = None, split: bool = False) -> Path:
    """Headers and libraries in a directory, or, without one, in the user's cache; returns the directory.

    ``split``: the operators in libopapi_math.so, libopapi_nn.so, ... as newer CANN has them, and no libopapi.so.

    A build in the cache is made once for each state of the package, the compiler and the interpreter; of several
    processes that need it at the same time, one builds and the others wait.
    """
    compiler = find_compiler()
    if directory is not None:
        target = Path(directory).absolute()
        with tempfile.TemporaryDirectory(prefix="ascend-emulator-") as work:
            made = Path(work) / "build"
            _build_in(made, compiler, split)
            for part in ("include", "lib64"):
                shutil.rmtree(target / part, ignore_errors=True)
                shutil.copytree(made / part, target / part)
        return target
    target = cache_directory() / (fingerprint(compiler) + ("-split" if split else ""))
    if (target / "lib64").is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with (target.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # whoever waited here finds the build done
        if not (target / "lib64").is_dir():
            _build_cached(target, compiler, split)
    return target


def _build_cached(target: Path, compiler: str, split: bool) -> None:
    """A build that appears under its name when it is complete; builds of long ago go."""
    for old in target.parent.iterdir():
        if old.is_dir() and old.stat().st_mtime < time.time() - _KEPT_SECONDS:
            shutil.rmtree(old, ignore_errors=True)
    work = Path(tempfile.mkdtemp(prefix="build-", dir=target.parent))
    try:
        _build_in(work, compiler, split)
        os.chmod(work, 0o755)
        os.rename(work, target)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def cache_directory() -> Path:
    """Where builds are kept: ``ASCEND_EMULATOR_CACHE``, else ascend_aclnn/emulator in the user's cache directory."""
    given = os.environ.get("ASCEND_EMULATOR_CACHE")
    if given:
        return Path(given)
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "ascend_aclnn" / "emulator"


def fingerprint(compiler: str) -> str:
    """A name for what a build is made of."""
    version = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False).stdout
    digest = hashlib.sha256("\0".join([version, *_FLAGS, *_LINK, _configuration()]).encode())
    for path in sorted(_inputs()):
        digest.update(path.relative_to(PACKAGE).as_posix().encode() + b"\0")
        digest.update(path.read_bytes())
    return digest.hexdigest()[:20]


def _inputs() -> Iterator[Path]:
    own = (f"emulator/{name}.py" for name in ("build", "hardware", "headers", "protocol"))
    data = ("catalog/*.py", "catalog/*.json", "catalog/data/*", "core/socs.py")
    for pattern in ("emulator/csrc/*", "emulator/include/**/*.h", *own, *data):
        yield from (path for path in PACKAGE.glob(pattern) if path.is_file())


def _configuration() -> str:
    """How the libraries start the device process: this interpreter, with this package and what it needs."""
    paths = [str(PACKAGE.parent)]
    for name in ("numpy", "ml_dtypes"):
        spec = importlib.util.find_spec(name)
        origin = None if spec is None else spec.origin
        if origin is not None and str(Path(origin).parent.parent) not in paths:
            paths.append(str(Path(origin).parent.parent))
    return f"python={sys.executable}\npath={':'.join(paths)}\n"


# ------------------------------------------------------------------------------------------------------------ compiling


def _build_in(directory: Path, compiler: str, split: bool) -> None:
    libraries = {**_LIBRARIES, **(_SPLIT if split else _WHOLE)}
    include, lib64, work = directory / "include", directory / "lib64", directory / "work"
    lib64.mkdir(parents=True)
    work.mkdir()
    headers.write(include)
    (work / "protocol.h").write_text(protocol.c_header(), encoding="utf-8")
    (work / "socs.h").write_text(hardware.c_header(), encoding="utf-8")
    sources: dict[str, list[Path]] = {}
    for library, parts in libraries.items():
        sources[library] = [CSRC / name for name in parts.sources]
        stubs = work / f"{library.split('.')[0]}_stubs.c"
        stubs.write_text("\n".join(_stub_lines(parts.functions)), encoding="utf-8")
        sources[library].append(stubs)
        for repository in parts.operators:
            path = work / f"{repository}.c"
            path.write_text("\n".join(_operator_lines(repository)), encoding="utf-8")
            sources[library].append(path)

    def compile_one(source: Path) -> Path:
        made = work / (source.stem + ".o")
        _run([compiler, *_FLAGS, f"-I{include}", f"-I{CSRC}", f"-I{work}", "-c", str(source), "-o", str(made)])
        return made

    for library in _FILTERS:
        path = work / f"{library.split('.')[0]}_names.c"
        path.write_text("\n".join(_name_lines(library)), encoding="utf-8")
        sources[library] = [path]

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        objects = {library: [pool.submit(compile_one, path) for path in paths] for library, paths in sources.items()}
        for library, made_of in libraries.items():
            made = [str(future.result()) for future in objects[library]]
            links = [
                f"-L{lib64}",
                "-Wl,--no-as-needed",
                *(f"-l:{name}" for name in made_of.needs),
                "-Wl,--as-needed",
                "-lm",
            ]
            _run([compiler, *_LINK, f"-Wl,-soname,{library}", "-o", str(lib64 / library), *made, *links])
        for library, behind in _FILTERS.items():
            made = [str(future.result()) for future in objects[library]]
            flags = [f"-Wl,-soname,{library}", f"-Wl,--filter={behind}"]
            _run([compiler, *_LINK, *flags, "-o", str(lib64 / library), *made])
    shutil.rmtree(work)
    (lib64 / "emulator.conf").write_text(_configuration(), encoding="utf-8")


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        first = "\n".join(done.stderr.strip().splitlines()[:30])
        raise CompilerError(f"{' '.join(command)}\n{first}")


# ----------------------------------------------------------------------------------------------------------- generating


@functools.cache
def emulated_functions() -> frozenset[str]:
    """The functions of CANN's interface that csrc/ implements."""
    found: set[str] = set()
    for path in sorted(CSRC.glob("*.c")):
        text = path.read_text(encoding="utf-8")
        found.update(re.findall(r"^API [^(]*?\b(\w+)\(", text, re.M))
        for pair in re.findall(r"^SET_(?:TENSOR|MEMBER)\((\w+), (\w+),", text, re.M):
            found.update(pair)
    return frozenset(found)


def _stub_lines(libraries: tuple[str, ...]) -> Iterator[str]:
    """A refusing function for everything in these libraries that csrc/ does not have."""
    yield "#include <stddef.h>\n#include <stdint.h>"
    rows = {**headers.runtime_functions(), **headers.single_operator_functions()}
    for name, row in rows.items():
        if row["library"] in libraries and name not in emulated_functions():
            yield from _stub(name, row["returns"])


def _name_lines(library: str) -> Iterator[str]:
    """The functions of a library whose code lies in another one, which the dynamic linker asks first."""
    for name, row in headers.runtime_functions().items():
        if library in (row["library"], row.get("newest_library")):
            yield f'__attribute__((visibility("default"))) void {name}(void) {{}}'


def _stub(name: str, returns: str) -> Iterator[str]:
    """One refusing function, without parameters: by Linux's calling conventions the caller removes its arguments."""
    refusal = _enum(returns)[_REFUSALS[returns]] if returns in _REFUSALS else 0
    status = refusal if refusal > 0 else _enum("aclError")[_REFUSALS["aclError"]]
    ctype = "void *" if returns.endswith("*") or returns in _HANDLES else "int" if returns in _REFUSALS else returns
    result = "" if returns == "void" else f" return {f'({ctype})' if ctype == 'void *' else ''}{refusal};"
    yield "int emu_not_emulated(const char *routine, int refusal);"
    yield f'__attribute__((visibility("default"))) {ctype} {name}(void) {{'
    yield f'    emu_not_emulated("{name}", {status});{result}\n}}'


def _enum(name: str) -> dict[str, int]:
    return headers.enums().get(name, {})


# Handles that are returned by value and are pointers.
_HANDLES = ("aclrtBinary", "aclrtAllocatorDesc")


def _operator_lines(repository: str) -> Iterator[str]:
    """Both phases of every operator of a repository, and its helpers that the emulator lacks."""
    yield '#include "executor.h"'
    for operator in map(catalog.get, catalog.names()):
        if _repository(operator.family) == repository:
            yield from _operator(operator)
    for name, row in headers.helper_functions().items():
        if _repository(row["family"]) == repository and name not in emulated_functions():
            yield from _stub(name, row["returns"])


def _repository(family: str) -> str:
    """Where a family of operators comes from; a vendor's would go with the first."""
    repository = family.partition("/")[0]
    return repository if repository in _REPOSITORIES else _REPOSITORIES[0]


def _operator(operator: Operator) -> Iterator[str]:
    one, two = (text.rstrip(";") for text in headers.operator_prototypes(operator))
    names = " ".join(p.name for p in operator.parameters)
    directions = "".join({"in": "i", "out": "o", "inout": "x"}[p.direction] for p in operator.parameters)
    values = ", ".join(f"{{.{protocol.member(p.kind)} = {p.name}}}" for p in operator.parameters) or "{.integer = 0}"
    yield f"static const emu_operator operator_{operator.name} = {{"
    yield f'    "{operator.name}", "{operator.phase_one}", "{protocol.kinds(operator)}", "{directions}", "{names}"}};'
    yield f"LINK {one};\nLINK {one} {{"
    yield f"    const emu_value emu_values[] = {{{values}}};"
    yield f"    return emu_phase_one(&operator_{operator.name}, emu_values, workspaceSize, executor);\n}}"
    yield f"LINK {two};\nLINK {two} {{"
    yield "".join(f"    (void){name};\n" for _, name in operator.phase_two)
    yield f"    return emu_phase_two(&operator_{operator.name}, workspace, workspaceSize, executor, stream);\n}}"
