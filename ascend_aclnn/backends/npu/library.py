"""Where CANN's libraries are, which are refused and why, and the functions they export.

``search()`` only looks at the file system; ``Libraries`` opens what was found and resolves functions when they are
first asked for. All libraries of a process come from one directory: mixing releases is undefined.
"""

from __future__ import annotations

import ctypes
import functools
import grp
import os
import pwd
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Optional

from ascend_aclnn.backends.npu import prototypes
from ascend_aclnn.catalog import Operator
from ascend_aclnn.catalog.headers import Change, parse_prototypes
from ascend_aclnn.catalog.signature import end_words, since_words
from ascend_aclnn.core.errors import LibraryNotFound, UnsupportedOperator

DEFAULT_PREFIXES = (Path("/usr/local/Ascend/ascend-toolkit/latest"), Path("/usr/local/Ascend/cann"))
INSTALL_INFO = "etc/ascend_install.info"  # below the root; written by the driver's installer
RUNTIME_NAMES = ("libascendcl.so", "libacl_rt.so")  # the second is the newer name of the same functions
BASE_NAME = "libnnopbase.so"
DRIVER_NAME = "libascend_hal.so"
# Operator libraries without the split: the whole, then the parts of CANN 8.1.
WHOLE_NAMES = (
    "libopapi.so",
    "libaclnn_ops_infer.so",
    "libaclnn_ops_train.so",
    "libaclnn_math.so",
    "libaclnn_sparse.so",
    "libaclnn_fft.so",
    "libaclnn_rand.so",
)
# A split that has these serves everything; CANN says that libopapi.so must then stay out of the process.
SPLIT_CORE = frozenset({"libopapi_math.so", "libopapi_nn.so"})

HOW_TO_INSTALL = "to use a card: install CANN 8.1.RC1 or later, then  source <CANN>/set_env.sh"

_MACHINES = {62: "x86_64", 183: "aarch64"}  # ELF e_machine


class RejectedLibrary(NamedTuple):
    """A file that was found and not used."""

    path: Path
    reason: str


@dataclass
class Search:
    """What looking for the runtime found."""

    looked_in: list[str] = field(default_factory=list)  # one readable entry for each place
    refused: list[RejectedLibrary] = field(default_factory=list)
    runtime: Optional[Path] = None

    def explain(self) -> str:
        """Why nothing was found, in lines."""
        lines = [f"no usable {RUNTIME_NAMES[0]} found", "looked in " + ", ".join(self.looked_in)]
        lines += [f"refused {path}: {reason}" for path, reason in self.refused]
        return "\n  ".join([*lines, self.remedy()])

    def remedy(self) -> str:
        """The one thing to do."""
        reasons = " ".join(reason for _, reason in self.refused)
        if "built for" in reasons:
            return f"install the CANN package for {os.uname().machine}"
        if "Permission denied" in reasons:
            return NO_PERMISSION
        if "stub" in reasons:
            return "take devlib out of LD_LIBRARY_PATH; on a host with a card, install driver and CANN toolkit"
        return HOW_TO_INSTALL


def kind_of(path: Path) -> tuple[str, Optional[str]]:
    """What a path is: "file", "directory" or "" (absent, or something else), and why that cannot be known.

    A CANN that was installed for a group only refuses even this question to other users.
    """
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return "", None
    except OSError as error:
        return "", f"cannot be looked at ({error.strerror}){_whose(path)}"
    return ("file" if stat.S_ISREG(mode) else "directory" if stat.S_ISDIR(mode) else ""), None


def is_file(path: Path) -> bool:
    return kind_of(path)[0] == "file"


def _whose(path: Path) -> str:
    """The owner of the first directory on the way to a path that this user may not enter."""
    for directory in reversed(path.parents):
        if not os.access(directory, os.X_OK):
            try:
                status = directory.stat()
            except OSError:
                break
            return f": {directory} belongs to {owner_of(status)}, mode {stat.S_IMODE(status.st_mode):04o}"
    return ""


def owner_of(status: os.stat_result) -> str:
    """user:group of a file, by name where they have one."""
    try:
        user = pwd.getpwuid(status.st_uid).pw_name
    except KeyError:
        user = str(status.st_uid)
    try:
        group = grp.getgrgid(status.st_gid).gr_name
    except KeyError:
        group = str(status.st_gid)
    return f"{user}:{group}"


NO_PERMISSION = (
    "CANN was installed for its group only: add this user to the group (usermod -a -G <group> <user>, then log in again), "
    "or reinstall CANN with --install-for-all"
)


def flaw(path: Path) -> Optional[str]:
    """Why a shared library cannot be used on this host; None if it can be."""
    real = path.resolve()
    if {"devlib", "stub", "stubs"} & set(real.parts) or {"devlib", "stub", "stubs"} & set(path.parts):
        return "a stub for compiling (devlib), whose functions do nothing"
    try:
        with real.open("rb") as stream:
            header = stream.read(20)
    except OSError as error:
        return f"cannot be read ({error.strerror}){_whose(real)}"
    if len(header) < 20 or header[:4] != b"\x7fELF":
        return "not a shared library"
    machine = int.from_bytes(header[18:20], "little" if header[5] == 1 else "big")
    if _MACHINES.get(machine) != os.uname().machine or header[4] != 2:
        built_for = _MACHINES.get(machine, f"ELF machine {machine}")
        return f"built for {built_for}{'' if header[4] == 2 else ' (32 bit)'}, this host is {os.uname().machine}"
    return None


def _directories(environ: Mapping[str, str], prefixes: tuple[Path, ...], looked_in: list[str]) -> Iterator[Path]:
    """Directories that may hold the runtime, in the order of preference; notes each place."""
    # LD_LIBRARY_PATH first: the dynamic linker resolves the libraries' own dependencies through it.
    entries = [Path(entry) for entry in environ.get("LD_LIBRARY_PATH", "").split(":") if entry]
    count = f"{len(entries)} entries" if len(entries) != 1 else "1 entry"
    looked_in.append(f"LD_LIBRARY_PATH ({count if entries else 'not set'})")
    yield from entries
    for variable in ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME"):
        home = environ.get(variable)
        looked_in.append(f"{variable} ({home or 'not set'})")
        if home:
            yield Path(home) / "lib64"
    for prefix in prefixes:
        kind, refusal = kind_of(prefix)
        looked_in.append(str(prefix) if kind == "directory" else f"{prefix} ({refusal or 'absent'})")
        yield prefix / "lib64"


def search(environ: Mapping[str, str], prefixes: Optional[tuple[Path, ...]] = None) -> Search:
    """Looks for the runtime library without opening anything."""
    result = Search()
    seen: set[Path] = set()
    for directory in _directories(environ, DEFAULT_PREFIXES if prefixes is None else prefixes, result.looked_in):
        for path in (directory / name for name in RUNTIME_NAMES):
            kind, reason = kind_of(path)
            if path in seen or (kind != "file" and reason is None):
                continue
            seen.add(path)
            reason = reason or flaw(path)
            if reason is None:
                result.runtime = path
                return result
            result.refused.append(RejectedLibrary(path, reason))
    return result


def driver_home(root: Path = Path("/")) -> Path:
    """Where the driver is installed, by its installer's note or by default."""
    prefix = "usr/local/Ascend"
    try:
        note = (root / INSTALL_INFO).read_text(encoding="utf-8")
    except OSError:
        pass  # no driver has been installed with its installer
    else:
        match = re.search(r"^Driver_Install_Path_Param=(.+)$", note, re.MULTILINE)
        prefix = match.group(1).strip().lstrip("/") if match else prefix
    return root / prefix / "driver"


def driver_directories() -> list[Path]:
    """Where the driver keeps libascend_hal.so; CANN 8.1's set_env.sh does not name these."""
    root = driver_home() / "lib64"
    return [root, root / "driver", root / "common"]


_opened_first: list[ctypes.CDLL] = []  # dependencies that were opened by path; they stay for the life of the process


def open_library(path: Path) -> ctypes.CDLL:
    """Opens a library and, where the dynamic linker does not find them, the libraries beside it that it needs.

    A dependency that is already loaded satisfies the linker by its SONAME, whatever directory it came from.
    """
    places = [path.parent, *driver_directories()]
    tried = {path.name}
    while True:
        try:
            return ctypes.CDLL(str(path))
        except OSError as error:
            match = re.match(r"(\S+): cannot open shared object file", str(error))
            missing = Path(match.group(1)).name if match else path.name
            dependency = next((d / missing for d in places if is_file(d / missing) and flaw(d / missing) is None), None)
            if missing in tried or dependency is None:
                raise LibraryNotFound(_why_not_opened(path, missing, str(error))) from None
        tried.add(missing)
        _opened_first.append(open_library(dependency))


def _why_not_opened(path: Path, missing: str, error: str) -> str:
    if missing == DRIVER_NAME:
        places = ", ".join(str(d) for d in driver_directories())
        return (
            f"{path} needs {DRIVER_NAME} of the Ascend driver, which was not found (LD_LIBRARY_PATH, {places})\n"
            "  install the driver, or add its lib64/driver directory to LD_LIBRARY_PATH"
        )
    if missing != path.name:
        return f"{path} needs {missing}, which was not found\n  source the set_env.sh of that CANN, or reinstall it"
    return f"{path} cannot be loaded: {error}\n  reinstall the CANN package, or source its set_env.sh"


class _DlInfo(ctypes.Structure):
    _fields_ = [
        ("dli_fname", ctypes.c_char_p),
        ("dli_fbase", ctypes.c_void_p),
        ("dli_sname", ctypes.c_char_p),
        ("dli_saddr", ctypes.c_void_p),
    ]


@functools.cache
def _dladdr() -> Any:
    function = ctypes.CDLL(None).dladdr
    function.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    function.restype = ctypes.c_int
    return function


def library_of(function: Any) -> Path:
    """The file that a function really comes from: dlsym also searches a library's dependencies."""
    info = _DlInfo()
    _dladdr()(ctypes.cast(function, ctypes.c_void_p), ctypes.byref(info))
    return Path(os.fsdecode(info.dli_fname or b"?"))


def already_loaded(name: str) -> Optional[ctypes.CDLL]:
    """A library that another component (torch_npu) has loaded into this process; None if it is not loaded."""
    try:
        return ctypes.CDLL(name, mode=os.RTLD_NOLOAD)
    except OSError:
        return None


def loaded_stubs() -> list[str]:
    """Libraries of this process that came from a devlib or stub directory."""
    try:
        maps = Path("/proc/self/maps").read_text(encoding="utf-8")
    except OSError:
        return []
    paths = {line.split(maxsplit=5)[5] for line in maps.splitlines() if len(line.split(maxsplit=5)) == 6}
    return sorted(p for p in paths if {"devlib", "stub", "stubs"} & set(Path(p).parts) and ".so" in p)


@dataclass
class Libraries:
    """The opened libraries of one CANN and the functions resolved so far."""

    search_result: Search
    environ: Mapping[str, str]
    runtime: ctypes.CDLL
    base: ctypes.CDLL
    directory: Path
    _functions: dict[str, Any] = field(default_factory=dict)
    _opened: dict[Path, ctypes.CDLL] = field(default_factory=dict)
    _operators: dict[Operator, tuple[Any, Any, Path]] = field(default_factory=dict)

    @classmethod
    def open(cls, environ: Mapping[str, str], prefixes: Optional[tuple[Path, ...]] = None) -> Libraries:
        """Opens runtime and libnnopbase; LibraryNotFound with the places, the refusals and the remedy."""
        runtime = next((library for library in map(already_loaded, RUNTIME_NAMES) if library is not None), None)
        if runtime is not None:
            path = library_of(runtime.aclInit)
            search_result = Search([f"this process ({path} is loaded)"], runtime=path)
            reason = flaw(path)
            if reason is not None:
                search_result.refused.append(RejectedLibrary(path, reason))
                raise LibraryNotFound(search_result.explain())
        else:
            search_result = search(environ, prefixes)
            if search_result.runtime is None:
                raise LibraryNotFound(search_result.explain())
            path = search_result.runtime
            runtime = open_library(path)
        base_path = path.parent / BASE_NAME
        base = already_loaded(BASE_NAME)
        if base is None:
            kind, reason = kind_of(base_path)
            reason = flaw(base_path) if kind == "file" else reason or "absent"
            if reason is not None:
                remedy = NO_PERMISSION if "Permission denied" in reason else "reinstall the CANN toolkit"
                raise LibraryNotFound(f"{path} was found, but not {base_path}: {reason}\n  {remedy}")
            base = open_library(base_path)
        return cls(search_result, environ, runtime, base, path.parent)

    # ------------------------------------------------------------------------------------ runtime functions
    def function(self, name: str) -> Any:
        """A runtime or nnopbase function with its prototype; LibraryNotFound where this CANN lacks it."""
        resolved = self.optional(name)
        if resolved is None:
            since = prototypes.runtime_function(name).since
            raise LibraryNotFound(f"{self.directory} exports no {name} (in CANN since {since})\n  {HOW_TO_INSTALL}")
        return resolved

    def optional(self, name: str) -> Optional[Any]:
        """The same, None where this CANN lacks it."""
        if name not in self._functions:
            prototype = prototypes.runtime_function(name)
            function = next((f for f in (getattr(lib, name, None) for lib in (self.runtime, self.base)) if f), None)
            if function is not None:
                function.restype = prototype.returns
                function.argtypes = prototype.parameters
            self._functions[name] = function
        return self._functions[name]

    def exports(self, name: str) -> bool:
        """True if the runtime library has a symbol of that name."""
        return hasattr(self.runtime, name)

    # ------------------------------------------------------------------------------------ operators
    @functools.cached_property
    def opp(self) -> Path:
        """The operator package directory, which also holds the vendors' operators."""
        variable = self.environ.get("ASCEND_OPP_PATH")
        return Path(variable) if variable else self.directory.parent / "opp"

    @functools.cached_property
    def operator_paths(self) -> tuple[list[Path], list[RejectedLibrary]]:
        """Operator libraries in the order of look-up, and those refused: vendors first, then CANN's own."""
        candidates = list(vendor_libraries(self.environ, self.opp))
        split = sorted(p for p in self.directory.glob("libopapi_*.so") if kind_of(p) != ("", None))
        candidates += split
        if not {p.name for p in split} >= SPLIT_CORE:
            candidates += [self.directory / name for name in WHOLE_NAMES]
        usable: list[Path] = []
        refused: list[RejectedLibrary] = []
        for path in candidates:
            kind, unknown = kind_of(path)
            if kind != "file" and unknown is None:
                continue
            reason = unknown or flaw(path) or (_foreign(path) if path.name == VENDOR_NAME else None)
            if reason is None:
                usable.append(path)
            else:
                refused.append(RejectedLibrary(path, reason))
        return usable, refused

    def has(self, operator: Operator) -> bool:
        """True if some library exports the operator."""
        try:
            self.operator(operator)
        except UnsupportedOperator:
            return False
        return True

    def operator(self, operator: Operator) -> tuple[Any, Any, Path]:
        """Both phases of an operator, from one library, and that library; UnsupportedOperator where none has it."""
        if operator not in self._operators:
            self._operators[operator] = self._find(operator)
        return self._operators[operator]

    def _find(self, operator: Operator) -> tuple[Any, Any, Path]:
        usable, refused = self.operator_paths
        failed = list(refused)
        for path in usable:
            try:
                library = self._open(path)
            except LibraryNotFound as error:
                failed.append(RejectedLibrary(path, str(error).splitlines()[0]))
                continue
            one, two = _symbol(library, operator.phase_one), _symbol(library, operator.name)
            if one is not None and two is not None:
                self._require_prototype(operator, path)
                one.restype = two.restype = prototypes.STATUS
                one.argtypes, two.argtypes = prototypes.phase_one(operator), prototypes.phase_two(operator)
                return one, two, library_of(one)
        raise UnsupportedOperator(operator.name, _not_exported(operator, self.directory, usable, failed))

    def _require_prototype(self, operator: Operator, path: Path) -> None:
        """Refuses an operator whose installed header contradicts the catalog: a call by it would corrupt memory."""
        if path.name == VENDOR_NAME:
            candidates = [path.parents[1] / "include" / Path(operator.header).name]
        else:
            homes = (self.directory.parent, self.directory.resolve().parent)
            candidates = [home / "include" / operator.header for home in homes]
        header = next((h for h in candidates if is_file(h)), None)
        ours = [(p.ctype, p.name) for p in operator.parameters]
        if header is not None:
            theirs = parse_prototypes(header.read_text(encoding="utf-8", errors="replace")).get(operator.name)
            if theirs is not None and Change(operator.name, theirs, ours).abi:
                detail = f"{header} declares another prototype than the catalog's"
                raise UnsupportedOperator(operator.name, f"{detail}; {_REGISTER.format(operator.name)}")
        elif operator.variants:
            since = ", ".join(operator.variants)
            detail = f"releases differ in its prototype ({since}, newer), and {candidates[0]} is absent to tell which"
            raise UnsupportedOperator(operator.name, f"{detail}; {_REGISTER.format(operator.name)}")

    def _open(self, path: Path) -> ctypes.CDLL:
        if path not in self._opened:
            self._opened[path] = open_library(path)
        return self._opened[path]


VENDOR_NAME = "libcust_opapi.so"
_REGISTER = "declare the one of this CANN with register_operator()  (ascend-aclnn show {})"


def _symbol(library: ctypes.CDLL, name: str) -> Optional[Any]:
    """A function object of its own: operators may be declared anew with another prototype."""
    try:
        return library[name]
    except AttributeError:
        return None


def vendor_libraries(environ: Mapping[str, str], opp: Path) -> Iterator[Path]:
    """Custom operator libraries by priority: ASCEND_CUSTOM_OPP_PATH, then the vendors that config.ini lists."""
    for entry in environ.get("ASCEND_CUSTOM_OPP_PATH", "").split(":"):
        if entry:
            yield Path(entry) / "op_api" / "lib" / VENDOR_NAME
    try:
        config = (opp / "vendors" / "config.ini").read_text(encoding="utf-8")
    except OSError:
        return  # no vendor has installed operators
    match = re.search(r"^\s*load_priority\s*=\s*(.+)$", config, re.MULTILINE)
    for vendor in match.group(1).split(",") if match else ():
        if vendor.strip():
            yield opp / "vendors" / vendor.strip() / "op_api" / "lib" / VENDOR_NAME


def _foreign(path: Path) -> Optional[str]:
    """Why a vendor's library is not trusted: code of another user must not run as this one."""
    owner, user = path.stat().st_uid, os.geteuid()
    if owner in (0, user):
        return None
    return f"owned by user {owner}; user {user} may load only " + ("root's" if user == 0 else "its own and root's")


def _not_exported(operator: Operator, directory: Path, usable: list[Path], failed: list[RejectedLibrary]) -> str:
    names = ", ".join(p.name if p.parent == directory else str(p) for p in usable) or "none found"
    searched = f"no library in {directory} exports {operator.phase_one} (searched: {names})"
    since = f"; it is known since {since_words(operator)}" if operator.since else ""
    end = f"; {end_words(operator)}" if end_words(operator) else ""
    lines = [f"not in this CANN: {searched}{since}{end}"]
    lines += [f"not searched: {path}: {reason}" for path, reason in failed]
    return "\n  ".join(lines)
