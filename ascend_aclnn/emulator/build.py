"""Builds the emulated CANN: headers and drop-in libraries, with the system's C compiler.

    directory/include/      acl/, aclnn/, aclnnop/, hccl/: made from the catalog (headers.py)
    directory/lib64/        libascendcl.so, libnnopbase.so, libopapi.so and those that clients want beside them; emulator.conf
    directory/runtime/, compiler/, opp/     the release, where clients look for it below ASCEND_HOME_PATH
    directory/python/site-packages/         the release, where MindSpore imports it
    directory/cann/         links to all this

The hand-written part is ``csrc/``; both phases of every operator, and a refusing stub for every function of CANN's
interface that the emulator lacks, are generated. A wheel for one platform carries the libraries of the default options in
``prebuilt/``: a build copies them, and needs no compiler.
"""

from __future__ import annotations

import concurrent.futures
import functools
import hashlib
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from ascend_aclnn import catalog
from ascend_aclnn.catalog import Operator
from ascend_aclnn.emulator import cache, hardware, headers, protocol, releases

CSRC = Path(__file__).parent / "csrc"
PREBUILT = Path(__file__).parent / "prebuilt"
PACKAGE = Path(__file__).parent.parent
PYTHON_PACKAGES = "python/site-packages"  # below a build

_FLAGS = ("-std=gnu11", "-D_GNU_SOURCE", "-O2", "-fPIC", "-fvisibility=hidden", "-pthread", "-Wall", "-Wextra")
_LINK = ("-shared", "-pthread", "-Wl,-z,now", "-Wl,-z,nodelete", "-Wl,-rpath,$ORIGIN", "-Wl,--no-undefined")


class _Library(NamedTuple):
    """What a library is made of."""

    sources: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()  # the libraries whose functions it exports, as the catalog names them
    operators: tuple[str, ...] = ()  # the repositories whose operators it has
    graphs: bool = False  # it exports the graph engine's functions
    sanitized: bool = True  # with what -fsanitize asks for


_LIBRARIES = {
    "libascendcl.so": _Library(
        (
            *(
                "settings.c",
                "messages.c",
                "calls.c",
                "plog.c",
                "clock.c",
                "handles.c",
                "blocks.c",
                "device.c",
                "processes.c",
                "memory.c",
                "host_memory.c",
                "link.c",
            ),
            *(
                "stream.c",
                "event.c",
                "callback.c",
                "allocator.c",
                "stream_memory.c",
                "profiling.c",
                "allocation.c",
                "copies.c",
                "virtual_memory.c",
                "ipc.c",
                "host_mapping.c",
                "sharing.c",
                "aliases.c",
                "limits.c",
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
    # The device process loads it; that one is no sanitized program.
    "libaclemu_ring.so": _Library(("ring.c",), sanitized=False),
    # torch_npu and MindSpore link against these and use nothing of them before they need a graph or a data channel.
    "libgraph.so": _Library(("graph_engine.c",), graphs=True),
    "libge_runner.so": _Library(needs=("libgraph.so",)),
    "libacl_tdt_channel.so": _Library(functions=("libacl_tdt_channel.so",), needs=("libascendcl.so",)),
    "libacl_tdt_queue.so": _Library(functions=("libacl_tdt_queue.so",), needs=("libascendcl.so",)),
    "libc_sec.so": _Library(("securec.c",)),
    # asnumpy links against the first, others against both; they use nothing of them here.
    "libruntime.so": _Library(),
    "libplatform.so": _Library(functions=("libplatform.so",), needs=("libascendcl.so",)),
    "libascend_hal.so": _Library(("hal.c",), ("libascendcl.so",)),
}

# Headers that are made of what the device process knows.
GENERATED = {"protocol.h": protocol.c_header, "socs.h": hardware.c_header, "hccl_data.h": hardware.hccl_header}

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

# Other names of a library, most of them newer CANN's, and the library that answers for it: it has nothing but the names.
_FILTERS = {"libacl_rt.so": "libascendcl.so", "libmsprofiler.so": "libascendcl.so", "libhcomm.so": "libhccl.so"}
_FILTER_SINCE = {"libhcomm.so": "9.0.0"}  # torch_npu asks it for HcclGroupStart where the CANN is one of these

# What a refusing stub returns, by its return type; everything else returns 0 or a null pointer.
_REFUSALS = {
    # Not ACL_ERROR_RT_FEATURE_NOT_SUPPORT: torch_npu goes on after it, with results that nobody has computed.
    "aclError": "ACL_ERROR_FEATURE_UNSUPPORTED",
    "aclnnStatus": "ACLNN_ERR_INNER_FIND_KERNEL_ERROR",
    "HcclResult": "HCCL_E_NOT_SUPPORT",
    "aclDataType": "ACL_DT_UNDEFINED",
    "aclFormat": "ACL_FORMAT_UNDEFINED",
    "acltdtTensorType": "ACL_TENSOR_DATA_UNDEFINED",
}


class CompilerError(RuntimeError):
    """There is no C compiler, or it failed."""


class NoCompilerError(CompilerError):
    """There is no C compiler."""


def find_compiler() -> str:
    """The C compiler: ``CC``, cc or gcc; NoCompilerError when there is none."""
    for name in filter(None, (os.environ.get("CC"), "cc", "gcc", "clang")):
        found = shutil.which(name)
        if found:
            return found
    raise NoCompilerError(
        "the emulator needs a C compiler (cc, gcc or clang) on PATH, or its name in CC; none was found. "
        f"The wheels for manylinux need none for CANN {releases.DEFAULT} without --split and --sanitize"
    )


class Options(NamedTuple):
    """What a build is to be like."""

    cann: str = releases.DEFAULT  # the release that is claimed, and whose functions are exported
    split: bool = (
        False  # the operators in libopapi_math.so, libopapi_nn.so, ... as newer CANN has them, and no libopapi.so
    )
    sanitize: tuple[str, ...] = ()  # what -fsanitize is given


def build(
    directory: Path | str | None = None,
    split: bool = False,
    cann: str | None = None,
    sanitize: Sequence[str] = (),
) -> Path:
    """Headers and libraries in the user's cache, or a copy of them in a directory; returns where they are.

    ``cann`` None: the release of ``ASCEND_EMULATOR_CANN``, else 8.1.RC1. A build in the cache is made once for each state of
    the package and the interpreter, and needs no compiler any more.
    """
    options = Options(releases.chosen(cann), split, tuple(sanitize))

    def make(made: Path) -> None:
        ready = prebuilt(options)
        if ready is None:
            compile_libraries(made, find_compiler(), options, made.parent / cache.OBJECTS)
        else:
            shutil.copytree(ready, made / "lib64")
        _complete(made, options)
        cache.finish(made)

    def copy(made: Path) -> None:
        link = shutil.ignore_patterns(cache.HOME)
        shutil.copytree(cache.cached(name_of(options), make), made, ignore=link, dirs_exist_ok=True)

    if directory is None:
        return cache.cached(name_of(options), make)
    target = Path(directory).absolute()
    cache.install(target, copy)
    return target


def name_of(options: Options) -> str:
    """The name of a build in the cache: a digest of what it is made of, this interpreter included."""
    return hashlib.sha256(f"{_libraries_digest(options)}\0{_configuration(options)}".encode()).hexdigest()[:20]


@functools.cache
def _libraries_digest(options: Options) -> str:
    """A digest of what the libraries are made of."""
    digest = hashlib.sha256("\0".join([*_FLAGS, *_LINK, repr(options)]).encode())
    for path in sorted(_inputs()):
        digest.update(path.relative_to(PACKAGE).as_posix().encode() + b"\0")
        digest.update(path.read_bytes())
    return digest.hexdigest()[:20]


def prebuilt_name(options: Options, machine: str | None = None) -> str:
    """The directory in ``prebuilt/`` with the libraries of these options for a processor family (default: this host's)."""
    return f"{machine or platform.machine()}-{_libraries_digest(options)}"


def prebuilt(options: Options) -> Path | None:
    """The libraries that the package carries for these options and this host; None where it has none."""
    found = PREBUILT / prebuilt_name(options)
    return found if found.is_dir() else None


def _inputs() -> Iterator[Path]:
    own = (f"emulator/{name}.py" for name in ("build", "hardware", "headers", "protocol", "releases"))
    data = ("catalog/*.py", "catalog/*.json", "catalog/data/*", "core/hccl.py", "core/socs.py")
    for pattern in ("emulator/csrc/*", "emulator/include/**/*.h", *own, *data):
        yield from (path for path in PACKAGE.glob(pattern) if path.is_file())


def _configuration(options: Options) -> str:
    """The release, and how the libraries start the device process: this interpreter, this package and what it needs."""
    paths = [str(PACKAGE.parent)]
    for name in ("numpy", "ml_dtypes"):
        spec = importlib.util.find_spec(name)
        origin = None if spec is None else spec.origin
        if origin is not None and str(Path(origin).parent.parent) not in paths:
            paths.append(str(Path(origin).parent.parent))
    # By its own name: the aliases of an interpreter share a build.
    python = os.path.realpath(sys.executable)
    return f"python={python}\npath={':'.join(paths)}\ncann={options.cann}\n"


# ------------------------------------------------------------------------------------------------------------ compiling


def compile_libraries(directory: Path, compiler: str, options: Options, kept: Path | None = None) -> None:
    """Compiles the libraries into ``directory/lib64``; ``kept`` is a directory of objects that builds share."""
    libraries = {**_LIBRARIES, **(_SPLIT if options.split else _WHOLE)}
    lib64, work = directory / "lib64", directory / "work"
    include = work / "include"
    lib64.mkdir(parents=True)
    work.mkdir()
    headers.write(include)
    for name, text in GENERATED.items():
        (work / name).write_text(text(), encoding="utf-8")
    # Without optimisation: it compiles in a quarter of the time.
    sanitize = [f"-fsanitize={','.join(options.sanitize)}", "-g", "-O0"] if options.sanitize else []
    sources: dict[str, list[Path]] = {}
    for library, parts in libraries.items():
        sources[library] = [CSRC / name for name in parts.sources]
        stubs = work / f"{library.split('.')[0]}_stubs.c"
        graphs = _graph_lines() if parts.graphs else ()
        stubs.write_text("\n".join((*_stub_lines(parts.functions, options.cann), *graphs)), encoding="utf-8")
        sources[library].append(stubs)
        for repository in parts.operators:
            path = work / f"{repository}.c"
            path.write_text("\n".join(_operator_lines(repository)), encoding="utf-8")
            sources[library].append(path)

    known = hashlib.sha256(_identity(compiler).encode())
    found = {(path.name, path.read_bytes()) for place in (CSRC, work) for path in place.rglob("*.h")}
    for header, content in sorted(found):  # in an order that does not depend on where the directories are
        known.update(header.encode() + b"\0" + content)

    def compile_one(source: Path, own_flags: Sequence[str]) -> Path:
        flags = [*_FLAGS, *own_flags]
        digest = known.copy()
        digest.update("\0".join([*flags, source.name, ""]).encode() + source.read_bytes())
        made = work / (source.stem + ".o") if kept is None else kept / f"{digest.hexdigest()[:32]}.o"
        if not made.exists():
            unfinished = work / (source.stem + ".part")
            places = [f"-I{place}" for place in (include, CSRC, work)]
            _run([compiler, *flags, *places, "-c", str(source), "-o", str(unfinished)])
            made.parent.mkdir(exist_ok=True)
            os.replace(unfinished, made)
        return made

    filters = {
        name: own for name, own in _FILTERS.items() if releases.has(options.cann, _FILTER_SINCE.get(name, "0.0"))
    }
    for library in filters:
        path = work / f"{library.split('.')[0]}_names.c"
        path.write_text("\n".join(_name_lines(library, options.cann)), encoding="utf-8")
        sources[library] = [path]
    hidden = work / "hidden.map"
    names = "".join(f" {name};" for name in sorted(absent_functions(options.cann)))
    hidden.write_text(f"{{ global: *; local: emu_no_such_function;{names} }};\n", encoding="utf-8")

    def flags_of(library: str) -> list[str]:
        return sanitize if library not in libraries or libraries[library].sanitized else []

    def link(library: str) -> list[str]:
        # Sanitizers are not linked into libraries but come with the program.
        flags = flags_of(library)
        linked = (flag for flag in _LINK if not (flags and "no-undefined" in flag))
        return [compiler, *linked, *flags, f"-Wl,--version-script={hidden}", f"-Wl,-soname,{library}"]

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        objects = {
            library: [pool.submit(compile_one, path, flags_of(library)) for path in paths]
            for library, paths in sources.items()
        }
        for library, made_of in libraries.items():
            made = [str(future.result()) for future in objects[library]]
            links = [
                f"-L{lib64}",
                "-Wl,--no-as-needed",
                *(f"-l:{name}" for name in made_of.needs),
                "-Wl,--as-needed",
                "-lm",
            ]
            _run([*link(library), "-o", str(lib64 / library), *made, *links])
        for library, behind in filters.items():
            made = [str(future.result()) for future in objects[library]]
            _run([*link(library), f"-Wl,--filter={behind}", "-o", str(lib64 / library), *made])
    shutil.rmtree(work)


def _complete(directory: Path, options: Options) -> None:
    """What a build has beside the libraries: headers, the release, how the device process is started."""
    headers.write(directory / "include")
    # What clients look for below ASCEND_HOME_PATH: torch_npu prints warnings, or refuses to be imported, without them.
    for part in ("runtime", "compiler", "opp"):
        (directory / part).mkdir()
        (directory / part / "version.info").write_text(f"Version={options.cann}\n", encoding="utf-8")
    (directory / "ascend_toolkit_install.info").write_text(f"version={options.cann}\n", encoding="utf-8")
    # As far as MindSpore asks before it makes communicators; CANN's set_env.sh has the directory in PYTHONPATH, too.
    package = directory / PYTHON_PACKAGES / "hccl"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "sys_version.py").write_text(f'__sys_version__ = "{options.cann}"\n', encoding="utf-8")
    (directory / "lib64" / "emulator.conf").write_text(_configuration(options), encoding="utf-8")
    cache.make_home(directory)


def _identity(compiler: str) -> str:
    """What changes when another compiler takes the place of this one."""
    path = Path(compiler).resolve()
    found = path.stat()
    return f"{path} {found.st_size} {found.st_mtime_ns}"


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


def absent_functions(cann: str) -> frozenset[str]:
    """The runtime's functions that a release does not have."""
    return releases.absent(cann, {name: row["since"] for name, row in headers.runtime_functions().items()})


def _stub_lines(libraries: tuple[str, ...], cann: str) -> Iterator[str]:
    """A refusing function for everything in these libraries of a release that csrc/ does not have."""
    absent = absent_functions(cann)
    yield "#include <stddef.h>\n#include <stdint.h>"
    rows = {**headers.runtime_functions(), **headers.single_operator_functions()}
    for name, row in rows.items():
        if row["library"] in libraries and name not in emulated_functions() and name not in absent:
            yield from _stub(name, row["returns"])


def _name_lines(library: str, cann: str) -> Iterator[str]:
    """The functions of a library whose code lies in another one, which the dynamic linker asks first."""
    absent = absent_functions(cann)
    for name, row in {**headers.runtime_functions(), **headers.single_operator_functions()}.items():
        if library in (row["library"], row.get("newest_library")) and name not in absent:
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


def _graph_lines() -> Iterator[str]:
    """A refusing function for every one of the graph engine's that csrc/ does not have."""
    yield '#include "graph_engine.h"'
    for symbol, function in headers.graph_functions().items():
        if symbol not in emulated_functions():
            yield f'__attribute__((visibility("default"))) void {symbol}(void) {{ emu_refuse_graph("{function}"); }}'


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
        if (
            _repository(row["family"]) == repository
            and name not in emulated_functions()
            and name not in _second_phase_ones()
        ):
            yield from _stub(name, row["returns"])


def _second_phase_ones() -> list[str]:
    return [f"{name}GetMaxWorkspaceSize" for name in _MAX_WORKSPACE]


def _repository(family: str) -> str:
    """Where a family of operators comes from; a vendor's would go with the first."""
    repository = family.partition("/")[0]
    return repository if repository in _REPOSITORIES else _REPOSITORIES[0]


# Operators with a second phase one, for the largest workspace that other lengths of the same sequences may need. It takes the
# same arguments, and here, where no workspace is used, it is the same.
_MAX_WORKSPACE = (
    "aclnnFlashAttentionUnpaddingScoreGradV5",
    "aclnnFlashAttentionVarLenScoreV5",
    "aclnnFusedInferAttentionScoreV3",
    "aclnnFusedInferAttentionScoreV4",
    "aclnnNsaCompressAttentionInfer",
)


def _operator(operator: Operator) -> Iterator[str]:
    one, two = (text.rstrip(";") for text in headers.operator_prototypes(operator))
    names = " ".join(p.name for p in operator.parameters)
    letters = {"in": "i", "out": "o", "inout": "x"}
    directions = "".join("s" if p.name in operator.slots else letters[p.direction] for p in operator.parameters)
    values = ", ".join(f"{{.{protocol.member(p.kind)} = {p.name}}}" for p in operator.parameters) or "{.integer = 0}"
    flags = ", .communicates = true" if operator.groups else ""
    yield f"static const emu_operator operator_{operator.name} = {{"
    yield f'    "{operator.name}", "{operator.phase_one}", "{protocol.kinds(operator)}", "{directions}", "{names}"{flags}}};'
    yield f"LINK {one};\nLINK {one} {{"
    yield f"    const emu_value emu_values[] = {{{values}}};"
    yield f"    return emu_phase_one(&operator_{operator.name}, emu_values, workspaceSize, executor);\n}}"
    if operator.name in _MAX_WORKSPACE:
        most = one.replace(operator.phase_one, f"{operator.name}GetMaxWorkspaceSize")
        yield f"LINK {most};\nLINK {most} {{"
        yield f"    return {operator.phase_one}({names.replace(' ', ', ')}, workspaceSize, executor);\n}}"
    yield f"LINK {two};\nLINK {two} {{"
    yield "".join(f"    (void){name};\n" for _, name in operator.phase_two)
    yield f"    return emu_phase_two(&operator_{operator.name}, workspace, workspaceSize, executor, stream);\n}}"
