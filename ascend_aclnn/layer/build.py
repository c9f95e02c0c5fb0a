"""Builds the layer for one CANN: a directory that looks like it, with shims where its libraries are.

    cann/lib64/libascend_layer.so        the recorder (csrc/)
    cann/lib64/libopapi.so, ...          shims: the functions that are recorded, and the real library behind them
    cann/include, opp, ...               links to what the CANN has

A vendor's operators are in a library of their own (libcust_opapi.so), which gets a shim in a directory like the vendor's.
ATB's library gets one, too.

It is kept in the emulator's cache, under a digest of what it is made of: these sources, the catalog, the compiler, and the
path, the size and the time of each library.
"""

from __future__ import annotations

import concurrent.futures
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Optional

from ascend_aclnn.core import files
from ascend_aclnn.core.progress import Progress
from ascend_aclnn.emulator import protocol
from ascend_aclnn.emulator.build import NoCompilerError, cache, find_compiler, headers
from ascend_aclnn.emulator.build.compiler import FLAGS, Objects, identity, run_compiler
from ascend_aclnn.emulator.build.libraries import PACKAGE
from ascend_aclnn.layer import generated
from ascend_aclnn.layer.exports import read_library

CSRC = Path(__file__).parent / "csrc"
EMULATOR = PACKAGE / "emulator" / "csrc"
SHARED = (  # what it has of the emulated device's
    EMULATOR / "ascendcl" / "core" / "frames.c",
    EMULATOR / "ascendcl" / "core" / "frames.h",
    EMULATOR / "atb" / "atb_layout.h",
)
CORE = "libascend_layer.so"
HOME = "cann"  # by this part of the path of a library MindSpore finds where CANN is
MARK = "layer.json"  # in lib64 of a layer: what it stands in front of, and what it leaves out
VENDORS = Path("op_api", "lib", "libcust_opapi.so")  # below the directory of a vendor
ATB = "libatb.so"
_NAMES = (
    "libascendcl.so",
    "libacl_rt.so",
    "libnnopbase.so",
    "libopapi.so",
    "libhccl.so",
    "libhcomm.so",
    "libacl_op_compiler.so",
)
_PATTERNS = ("libopapi_*.so", "libaclnn_*.so")
_FIRST = ("libascendcl.so", "libacl_rt.so", "libnnopbase.so")  # loaded before any library that needs them
_PARTS = 4  # of a library's operators, which are compiled beside each other


def build_layer(directory: Path) -> Path:
    """The layer in front of the CANN whose libraries lie in a directory; made once for each state of both."""
    if (directory / MARK).is_file():
        raise ValueError(f"{directory} is a layer itself; a program runs under one layer at a time")
    libraries = _libraries(directory)
    try:
        compiler = find_compiler()
    except NoCompilerError:
        raise NoCompilerError(
            "the layer is built once for each CANN, with a C compiler: cc, gcc or clang on PATH, or its name in CC; "
            "none was found"
        ) from None
    return cache.cached(f"{_digest(libraries, compiler)}-layer", lambda work: _make(work, libraries, compiler)) / HOME


def _libraries(directory: Path) -> list[Path]:
    names = {path.name for pattern in _PATTERNS for path in directory.glob(pattern)} | set(_NAMES)
    libraries = [directory / name for name in sorted(names) if (directory / name).is_file()]
    if not libraries:
        raise ValueError(f"{directory} has none of CANN's libraries ({', '.join(_NAMES)})")
    return libraries


def _digest(libraries: list[Path], compiler: str) -> str:
    digest = hashlib.sha256(f"{identity(compiler)}\0{' '.join(FLAGS)}".encode())
    digest.update("\0".join(sorted(entry.name for entry in libraries[0].parent.iterdir())).encode())
    for path in libraries:
        status = path.stat()
        digest.update(os.fsencode(f"{path}\0{status.st_size}\0{status.st_mtime_ns}\0"))
    for path in _own_sources():
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:20]


def _own_sources() -> Iterator[Path]:
    """The files of this package that a layer is made of."""
    sources = (
        "layer/csrc/*",
        *(str(path.relative_to(PACKAGE)) for path in SHARED),
        "layer/build.py",
        "layer/generated.py",
        "layer/exports.py",
        "emulator/build/*.py",
        "emulator/protocol.py",
        "emulator/include/**/*.h",
    )
    for pattern in (*sources, "catalog/*.py", "catalog/*.json", "catalog/data/*"):
        for path in sorted(PACKAGE.glob(pattern)):
            if path.is_file() and path.suffix != ".pyc":
                yield path


def build_vendor(root: Path, layer: Path) -> Path:
    """A directory that looks like a vendor's, with a shim where its library of operators is; made once for each state of both."""
    headers = sorted((root / "op_api" / "include").glob("*.h"))
    return _build_beside(root / VENDORS, layer, headers, "vendor", lambda *made: _make_vendor(root, *made))


def build_atb(library: Path, layer: Path) -> Path:
    """A directory with a shim in front of ATB's library."""
    headers = [path for path in [_atb_header(library)] if path.is_file()]
    return _build_beside(library, layer, headers, "atb", lambda *made: _make_atb(library, *made))


def _atb_header(library: Path) -> Path:
    """Where ATB declares its C functions."""
    return library.parent.parent / "include" / "atb" / "atb_acl.h"


def _build_beside(
    library: Path, layer: Path, headers: list[Path], title: str, make: Callable[[Path, Path, str], None]
) -> Path:
    status = library.stat()
    compiler = find_compiler()
    text = f"{identity(compiler)}\0{' '.join(FLAGS)}\0{layer}\0{library}\0{status.st_size}\0{status.st_mtime_ns}"
    digest = hashlib.sha256(os.fsencode(text))
    for path in (*headers, *_own_sources()):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return cache.cached(f"{digest.hexdigest()[:20]}-{title}", lambda work: make(work, layer, compiler))


class _Shims:
    """Compiles and links shims."""

    def __init__(self, work: Path, compiler: str) -> None:
        self.sources = work / "build"
        self.sources.mkdir()
        self.include = self.sources / "include"
        headers.write(self.include, with_operators=False)  # shims declare what they have themselves
        (self.sources / "protocol.h").write_text(protocol.c_header(), encoding="utf-8")
        self._compiler = compiler
        self._flags = [*FLAGS, "-ftls-model=initial-exec", "-fexceptions", "-Wno-unused-parameter"]
        places = (self.include, CSRC, EMULATOR, self.sources)
        headers_in = (self.sources, CSRC, EMULATOR)
        self._objects = Objects(compiler, places, headers_in, self.sources, work.parent / cache.OBJECTS)

    def compiled(self, library: str, source: Path) -> Path:
        """Layers in front of other libraries have most objects in common."""
        level = "-O2" if library == CORE else "-O1"
        return self._objects.compiled(source, [*self._flags, level], f"{library}.{source.stem}")

    def linked(self, target: Path, parts: Iterable[Path], needed: Iterable[str]) -> None:
        """``needed``: libraries in the order in which they are loaded."""
        link = [self._compiler, "-shared", "-pthread", "-Wl,-z,now", "-Wl,-z,nodelete", "-Wl,--no-undefined"]
        link += ["-Wl,-Bsymbolic-functions"] if target.name == CORE else []
        link += ["-Wl,-rpath,$ORIGIN", f"-Wl,-soname,{target.name}", "-o", str(target), *map(str, parts)]
        run_compiler([*link, "-Wl,--no-as-needed", *needed])

    def stand_in(self, soname: str) -> str:
        return _stand_in(self.sources, self._compiler, soname)


def _make_vendor(root: Path, work: Path, layer: Path, compiler: str) -> None:
    behind = root / VENDORS
    exports = read_library(behind).functions
    operators, others = generated.vendors_operators(exports, root / "op_api" / "include")
    lines = [*generated.operator_lines(operators, exports), *generated.unknown_lines(others)]
    _make_shim(work / VENDORS, lines, behind, work, layer, compiler)
    for place in (Path(), Path("op_api"), Path("op_api/lib")):
        for entry in sorted((root / place).iterdir()):
            if not (work / place / entry.name).exists() and entry.name != cache.MARK:
                (work / place / entry.name).symlink_to(entry)
    cache.finish(work)


def _make_atb(behind: Path, work: Path, layer: Path, compiler: str) -> None:
    header = _atb_header(behind)
    lines = list(generated.atb_lines(read_library(behind).functions, header))
    _make_shim(work / behind.name, lines, behind, work, layer, compiler)
    cache.finish(work)


def _make_shim(target: Path, lines: list[str], behind: Path, work: Path, layer: Path, compiler: str) -> None:
    """One shim beside a layer, and the mark in its directory."""
    shims = _Shims(work, compiler)
    target.parent.mkdir(parents=True, exist_ok=True)
    source = shims.sources / "shim.c"
    source.write_text("\n".join([*generated.shim_lines(behind), *lines]), encoding="utf-8")
    first = [shims.stand_in(name) for name in _FIRST if (layer / "lib64" / name).exists()]
    needed = [str(layer / "lib64" / CORE), *first, shims.stand_in(str(behind))]
    shims.linked(target, [shims.compiled(target.name, source)], needed)
    (target.parent / MARK).write_text(json.dumps({"libraries": [str(behind)]}))
    files.remove_tree(shims.sources)


def _make(work: Path, libraries: list[Path], compiler: str) -> None:
    home = libraries[0].parent.parent
    lib64 = work / HOME / "lib64"
    lib64.mkdir(parents=True)
    shims = _Shims(work, compiler)
    installed = home / "include" if (home / "include").is_dir() else None
    jobs: dict[str, list[Path]] = {CORE: [*sorted(CSRC.glob("*.c")), SHARED[0]]}
    left_out: dict[str, list[str]] = {}
    behind: dict[str, Path] = {}
    for path in libraries:
        exports, filtee = read_library(path)
        # A filter is left out: the linker would move the library that answers for it, and with it the shim, in its order.
        behind[path.name] = path.parent / (filtee or path.name)
        operators, others = generated.operators_of(exports, installed)
        if others:
            left_out[path.name] = others
        texts = [
            list(generated.shim_lines(behind[path.name])),
            list(generated.function_lines(exports, shims.include)),
        ]
        texts += [
            list(generated.operator_lines(operators[part::_PARTS], exports))
            for part in range(_PARTS)
            if operators[part::_PARTS]
        ]
        jobs[path.name] = []
        for number, lines in enumerate(texts):
            source = shims.sources / f"{path.stem}_{number}.c"
            source.write_text("\n".join(lines), encoding="utf-8")
            jobs[path.name].append(source)
    progress = Progress("building the layer", sum(map(len, jobs.values())))

    def compile_one(library: str, source: Path) -> Path:
        target = shims.compiled(library, source)
        progress.step()
        return target

    with progress, concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        objects = {
            library: [pool.submit(compile_one, library, path) for path in paths] for library, paths in jobs.items()
        }
        for library, futures in objects.items():
            parts = [future.result() for future in futures]
            if library == CORE:
                shims.linked(lib64 / library, parts, ["-ldl", "-lm"])
                continue
            needed = [str(lib64 / CORE)]
            needed += [shims.stand_in(name) for name in _FIRST if name in jobs and name != library]
            shims.linked(lib64 / library, parts, [*needed, shims.stand_in(str(behind[library]))])
    for entry in sorted(home.iterdir()):
        if entry.name not in ("lib64", cache.MARK, MARK):
            (work / HOME / entry.name).symlink_to(entry)
    for entry in sorted(
        libraries[0].parent.iterdir()
    ):  # what is opened by its path in the directory that CANN seems to be in
        if entry.name not in jobs and entry.name != cache.MARK:
            (lib64 / entry.name).symlink_to(entry)
    (lib64 / MARK).write_text(json.dumps({"libraries": [str(path) for path in libraries], "left_out": left_out}))
    files.remove_tree(shims.sources)
    cache.finish(work)


def _stand_in(directory: Path, compiler: str, soname: str) -> str:
    """An empty library with a name that the linker then notes as needed, a path for one."""
    path = directory / f"stand_in_{hashlib.sha256(soname.encode()).hexdigest()[:8]}.so"
    if not path.exists():
        run_compiler([compiler, "-shared", "-x", "c", "/dev/null", f"-Wl,-soname,{soname}", "-o", str(path)])
    return str(path)


def layer_of(directory: Path) -> Optional[dict[str, object]]:
    """What a layer's directory says of itself; None for another directory."""
    try:
        mark = json.loads((directory / MARK).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return mark if isinstance(mark, dict) else None
