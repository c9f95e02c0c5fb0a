"""Compiles and links the libraries with the system's C compiler."""

from __future__ import annotations

import concurrent.futures
import hashlib
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from ascend_aclnn.core import files
from ascend_aclnn.core.progress import Progress
from ascend_aclnn.emulator import releases
from ascend_aclnn.emulator.build import atb, cache, headers
from ascend_aclnn.emulator.build.generated import absent_functions, graph_lines, name_lines, operator_lines, stub_lines
from ascend_aclnn.emulator.build.libraries import CSRC, GENERATED, Options, filters, libraries

FLAGS = ("-std=gnu11", "-D_GNU_SOURCE", "-O2", "-fPIC", "-fvisibility=hidden", "-pthread", "-Wall", "-Wextra")
LINK = ("-shared", "-pthread", "-Wl,-z,now", "-Wl,-z,nodelete", "-Wl,-rpath,$ORIGIN", "-Wl,--no-undefined")


class CompilerError(RuntimeError):
    """There is no C compiler, or it failed."""


class NoCompilerError(CompilerError):
    """There is no C compiler."""


def find_compiler() -> str:
    """The C compiler: ``CC``, cc or gcc; NoCompilerError when there is none."""
    for name in filter(None, (os.environ.get("CC"), "cc", "gcc", "clang")):
        path = shutil.which(name)
        if path:
            return path
    raise NoCompilerError(
        "the emulator needs a C compiler (cc, gcc or clang) on PATH, or its name in CC; none was found. "
        f"The wheels for manylinux need none for CANN {releases.DEFAULT} without --split and --sanitize"
    )


def compile_libraries(directory: Path, compiler: str, options: Options, shared_objects: Path | None = None) -> None:
    """Compiles the libraries into ``directory/lib64``; ``shared_objects`` is a directory of objects that builds share."""
    parts_of = libraries(options)
    lib64, work = directory / "lib64", directory / "work"
    include = work / "include"
    lib64.mkdir(parents=True)
    work.mkdir()
    headers.write(include, with_operators=False)
    for name, text in GENERATED.items():
        (work / name).write_text(text(), encoding="utf-8")
    # Without optimisation: it compiles in a quarter of the time.
    sanitize = [f"-fsanitize={','.join(options.sanitize)}", "-g", "-O0"] if options.sanitize else []
    sources: dict[str, list[Path]] = {}
    for library, parts in parts_of.items():
        sources[library] = parts.sources()
        stubs = work / f"{library.split('.')[0]}_stubs.c"
        graphs = graph_lines() if parts.graphs else ()
        stubs.write_text("\n".join((*stub_lines(parts.functions, options.cann), *graphs)), encoding="utf-8")
        sources[library].append(stubs)
        if parts.operations:
            path = work / "atb_operations.c"
            path.write_text("\n".join(atb.operation_lines()), encoding="utf-8")
            sources[library].append(path)
        for repository in parts.operators:
            path = work / f"{repository}.c"
            path.write_text("\n".join(operator_lines(repository, options.cann)), encoding="utf-8")
            sources[library].append(path)

    objects_of = Objects(compiler, (include, CSRC, work), (CSRC, work), work, shared_objects)

    def compile_one(source: Path, own_flags: Sequence[str]) -> Path:
        object_file = objects_of.compiled(source, [*FLAGS, *own_flags], source.stem)
        progress.step()
        return object_file

    targets = filters(options)
    for library in targets:
        path = work / f"{library.split('.')[0]}_names.c"
        path.write_text("\n".join(name_lines(library, options.cann)), encoding="utf-8")
        sources[library] = [path]
    hidden = work / "hidden.map"
    names = "".join(f" {name};" for name in sorted(absent_functions(options.cann)))
    hidden.write_text(f"{{ global: *; local: emu_no_such_function;{names} }};\n", encoding="utf-8")

    def flags_of(library: str) -> list[str]:
        return sanitize if library not in parts_of or parts_of[library].sanitized else []

    def link(library: str) -> list[str]:
        # Sanitizers are not linked into libraries but come with the program.
        flags = flags_of(library)
        linked = (flag for flag in LINK if not (flags and "no-undefined" in flag))
        return [compiler, *linked, *flags, f"-Wl,--version-script={hidden}", f"-Wl,-soname,{library}"]

    progress = Progress(f"building the emulated device of CANN {options.cann}", sum(map(len, sources.values())))
    with progress, concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        try:
            objects = {
                library: [pool.submit(compile_one, path, flags_of(library)) for path in paths]
                for library, paths in sources.items()
            }
            for library, parts in parts_of.items():
                object_files = [str(future.result()) for future in objects[library]]
                links = [
                    f"-L{lib64}",
                    "-Wl,--no-as-needed",
                    *(f"-l:{name}" for name in parts.needs),
                    "-Wl,--as-needed",
                    "-lm",
                ]
                run_compiler([*link(library), "-o", str(lib64 / library), *object_files, *links])
            for library, target in targets.items():
                object_files = [str(future.result()) for future in objects[library]]
                run_compiler([*link(library), f"-Wl,--filter={target}", "-o", str(lib64 / library), *object_files])
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)  # what fails need not compile the rest first
            raise
    files.remove_tree(work)


class Objects:
    """Compiles sources, or takes what an earlier build has compiled of the same source with the same headers and flags."""

    def __init__(
        self, compiler: str, places: Sequence[Path], headers: Sequence[Path], work: Path, shared: Path | None
    ) -> None:
        """``places``: where includes are looked for; ``headers``: directories, with those below them, that have all headers."""
        self._compiler, self._work, self._shared = compiler, work, shared
        self._includes = [f"-I{place}" for place in places]
        self._common = hashlib.sha256(identity(compiler).encode())
        texts = {(str(path.relative_to(place)), path.read_bytes()) for place in headers for path in place.rglob("*.h")}
        for header, content in sorted(texts):  # in an order that does not depend on where the directories are
            self._common.update(header.encode() + b"\0" + content)

    def compiled(self, source: Path, flags: Sequence[str], name: str) -> Path:
        """The object of a source; ``name``: of the new file, without its suffix."""
        digest = self._common.copy()
        digest.update("\0".join([*flags, source.name, ""]).encode() + source.read_bytes())
        key = digest.hexdigest()[:32]
        object_file = None if self._shared is None else cache.object_of(self._shared, key)
        if object_file is None:
            object_file = self._work / f"{name}.o"
            run_compiler([self._compiler, *flags, *self._includes, "-c", str(source), "-o", str(object_file)])
            if self._shared is not None:
                object_file = cache.keep_object(self._shared, key, object_file)
        return object_file


def identity(compiler: str) -> str:
    """What changes when another compiler takes the place of this one."""
    path = Path(compiler).resolve()
    status = path.stat()
    return f"{path} {status.st_size} {status.st_mtime_ns}"


def run_compiler(command: list[str]) -> None:
    """Runs a command; CompilerError, with its first messages, where it fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    except OSError as error:
        raise CompilerError(f"{command[0]} cannot be run: {error.strerror}") from None
    if done.returncode != 0:
        first = "\n".join(done.stderr.strip().splitlines()[:30])
        raise CompilerError(f"{' '.join(command)}\n{first}")
