"""What a look at the file system tells about a host that is meant to have an Ascend device: findings, each with a remedy.

Every check takes the root directory and the environment, so that it can be tried on a made-up tree, and answers with what
it found wrong. None of them opens a library.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple, Optional

from ascend_aclnn.backends.npu.library import INSTALL_INFO, RUNTIME_NAMES, driver_home, is_file, kind_of, owner_of
from ascend_aclnn.backends.npu.versions import ops_versions, package_version, value_of
from ascend_aclnn.catalog import life
from ascend_aclnn.core.error_codes import find, remedy_of

CONTROL_NODES = ("davinci_manager", "devmm_svm", "hisi_hdc")
_CONTAINERS = re.compile(r"docker|kubepods|containerd|libpod|lxc")
_PLOG_LINES = 5


class Finding(NamedTuple):
    """Something wrong: which check found it, what was found, what to do."""

    check: str
    text: str
    remedy: str


def check_host(
    root: Path, environ: Mapping[str, str], library: Optional[Path] = None, soc: Optional[str] = None
) -> list[Finding]:
    """All findings. ``library`` is the runtime library in use, ``soc`` CANN's short name of the device ("Ascend910B")."""
    meant = library is not None or is_driver_installed(root) or bool(device_nodes(root))
    if not meant:
        return []
    findings = [*check_device_nodes(root), *check_search_path(environ)]
    if library is not None:
        findings += check_home(environ, library)
        home = Path(os.path.realpath(library)).parents[1]
        findings += check_versions(home)
        findings += check_driver(driver_home(root), home)
        if soc is not None:
            findings += check_kernels(Path(environ.get("ASCEND_OPP_PATH") or home / "opp"), soc)
    return findings


# ------------------------------------------------------------------------------------------------------- devices


def is_driver_installed(root: Path) -> bool:
    return kind_of(driver_home(root))[0] == "directory" or is_file(root / INSTALL_INFO)


def device_nodes(root: Path) -> list[Path]:
    """The device files of the cards: /dev/davinci0 and so on."""
    try:
        return sorted(path for path in (root / "dev").iterdir() if re.fullmatch(r"davinci\d+", path.name))
    except OSError:
        return []


def in_container(root: Path) -> bool:
    if kind_of(root / ".dockerenv")[0] or kind_of(root / "run/.containerenv")[0]:
        return True
    try:
        return bool(_CONTAINERS.search((root / "proc/1/cgroup").read_text(encoding="utf-8")))
    except OSError:
        return False


def check_device_nodes(root: Path) -> Iterator[Finding]:
    """Missing device files, and those that this user may not use."""
    nodes = device_nodes(root)
    missing = [f"/dev/{name}" for name in CONTROL_NODES if not (root / "dev" / name).exists()]
    if not nodes or missing:
        absent = ", ".join((["/dev/davinci0 (no card at all)"] if not nodes else []) + missing)
        if in_container(root):
            remedy = (
                "start the container with --device=/dev/davinci0 (one for each card) --device=/dev/davinci_manager "
                "--device=/dev/devmm_svm --device=/dev/hisi_hdc and the driver mounted, or with the Ascend Docker runtime; "
                "a card that another container holds is not given to this one"
            )
        else:
            remedy = "check that the driver is installed and loaded:  npu-smi info , dmesg | grep -i davinci"
        yield Finding("device files", f"{absent} absent", remedy)
    for path in [*nodes, *(root / "dev" / name for name in CONTROL_NODES)]:
        try:
            status = path.stat()
        except OSError:
            continue  # said above
        if not os.access(path, os.R_OK | os.W_OK):
            owner, group = owner_of(status).split(":")
            mode = f"{status.st_mode & 0o777:03o}"
            text = f"/dev/{path.name} belongs to {owner}:{group}, mode {mode}; {_ourselves()} may not use it"
            yield Finding("device files", text, f"usermod -a -G {group} {_user()}  and log in again")


def _user() -> str:
    return os.environ.get("USER") or str(os.geteuid())


def _ourselves() -> str:
    groups = ",".join(map(str, sorted({os.getegid(), *os.getgroups()})))
    return f"user {_user()} (groups {groups})"


def check_visible_devices(environ: Mapping[str, str]) -> Iterator[Finding]:
    """An ASCEND_RT_VISIBLE_DEVICES that CANN refuses, or reads up to its first bad entry only."""
    value = environ.get("ASCEND_RT_VISIBLE_DEVICES")
    if value is None:
        return
    entries = value.split(",")
    numbers = [int(entry) for entry in itertools.takewhile(lambda entry: re.fullmatch("[0-9]+", entry), entries)]
    if numbers != sorted(set(numbers)):
        reads = "numbers must ascend and not repeat; CANN sees no device"
    elif not numbers:
        reads = "CANN sees no device"
    elif len(numbers) < len(entries):
        reads = f"CANN reads {','.join(map(str, numbers))} of it: {entries[len(numbers)]!r} is no number"
    else:
        return
    entry = find("EE2002")
    yield Finding("variable", f"ASCEND_RT_VISIBLE_DEVICES is {value!r}: {reads}", entry.remedy if entry else "")


# ------------------------------------------------------------------------------------------------------- installation


def check_search_path(environ: Mapping[str, str]) -> Iterator[Finding]:
    """Several CANNs in LD_LIBRARY_PATH: their libraries do not go together."""
    homes: dict[str, str] = {}
    for entry in filter(None, environ.get("LD_LIBRARY_PATH", "").split(":")):
        for name in RUNTIME_NAMES:
            path = Path(entry) / name
            if is_file(path) and not {"devlib", "stub", "stubs"} & set(path.parts):
                homes.setdefault(os.path.realpath(path), entry)
    directories = list(dict.fromkeys(homes.values()))
    if len({os.path.dirname(real) for real in homes}) > 1:
        text = f"LD_LIBRARY_PATH has {len(directories)} CANNs: {', '.join(directories)}"
        yield Finding("search path", text, f"in a new shell, source one set_env.sh only; now {directories[0]} is used")


def check_home(environ: Mapping[str, str], library: Path) -> Iterator[Finding]:
    """ASCEND_HOME_PATH of another CANN than the library in use: operators would look for their kernels there."""
    home = environ.get("ASCEND_HOME_PATH")
    if not home:
        return
    real = Path(os.path.realpath(library))
    if Path(os.path.realpath(home)) not in real.parents:
        text = f"ASCEND_HOME_PATH is {home}, but the library in use is {library}"
        yield Finding("environment", text, "in a new shell, source the set_env.sh of the CANN that is to be used")


def check_kernels(opp: Path, soc: str) -> Iterator[Finding]:
    """No binary kernels for the device: operators then fail with 561112, 561103 or 561107."""
    wanted = soc.lower()
    kernels: set[str] = set()
    for package in sorted(opp.parent.glob("opp*")):
        kernels.update(path.name for path in package.glob("built-in/op_impl/ai_core/tbe/kernel/*") if path.is_dir())
    if wanted in kernels or kernels & {wanted.replace("ascend", "ascend_"), f"{wanted}_"}:
        return
    others = ", ".join(sorted(kernels - {"config"})) or "none at all"
    text = f"no kernels for {wanted} below {opp} (there: {others}); operators answer 561112, 561103 or 561107"
    yield Finding("kernels", text, f"install the kernels (ops) package of this CANN for {soc}")


def check_versions(home: Path) -> Iterator[Finding]:
    """Packages of one CANN that do not go together: since 8.5.2 operators of another release may, where release notes say so."""
    packages = ("runtime", "opp_kernel", "compiler")
    package_versions = ((package, package_version(home, package)) for package in packages)
    versions = {package: version for package, version in package_versions if version is not None}
    toolkit = versions.get("runtime")
    for package, version in ops_versions(home).items():
        if toolkit is None or life.supported(toolkit, version) is None:
            versions[package] = version
    if len({_release(version) for version in versions.values()}) > 1:
        listed = ", ".join(f"{package} {version}" for package, version in versions.items())
        text = f"packages of different releases in {home}: {listed}"
        yield Finding("versions", text, _GO_TOGETHER)


_GO_TOGETHER = (
    "install the toolkit and the operators (ops) of one release, or a pair that release notes name "
    "(docs/upgrading.md: toolkit and operators)"
)


def check_driver(driver: Path, home: Path) -> Iterator[Finding]:
    """A driver that does not go with this CANN, or firmware that does not go with the driver.

    Driver and toolkit both say which branch they were built from (``Innerversion``, such as V100R001C21SPC001B238) and which
    branches they go with (``compatible_version``): one of the two has to name the other. What is not said is not judged.
    """
    note, toolkit = driver / "version.info", _toolkit_note(home)
    version, built, goes_with = (value_of(note, key) for key in ("Version", "Innerversion", "compatible_version"))
    cann, cann_built, cann_goes_with = (
        value_of(toolkit, key) for key in ("version", "innerversion", "compatible_version")
    )
    if built and cann_built and (goes_with or cann_goes_with):
        branch, cann_branch = _branch(built), _branch(cann_built)
        if branch not in _listed(cann_goes_with) and cann_branch not in _listed(goes_with):
            text = f"driver {version} ({branch}) and CANN {cann} ({cann_branch}) do not name each other as compatible"
            yield Finding("versions", text, f"install the driver that the release notes of CANN {cann} name")
    firmware, ranges = (
        value_of(driver.parent / "firmware/version.info", "Version"),
        value_of(note, "compatible_version_fw"),
    )
    if firmware and ranges:
        bounds = re.findall(r"\[([\d.]+),([\d.]+)\]", ranges)
        if bounds and not any(_numbers(low) <= _numbers(firmware)[:3] <= _numbers(high) for low, high in bounds):
            text = f"firmware {firmware} is outside of what driver {version} goes with: {ranges}"
            yield Finding("versions", text, "install driver and firmware of one package, firmware last, and restart")


def _toolkit_note(home: Path) -> Path:
    """The file in which the toolkit's installer wrote its versions."""
    name = "ascend_toolkit_install.info"
    inner = home / f"{os.uname().machine}-linux" / name
    return inner if is_file(inner) else home / name


def _branch(inner: str) -> str:
    """V100R001C21SPC001B238 -> V100R001C21."""
    match = re.match(r"V\d+R\d+C\d+", inner)
    return match.group() if match else inner


def _listed(names: Optional[str]) -> list[str]:
    return re.findall(r"\[(\w+)\]", names or "")


def _numbers(version: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", version)]


def _release(version: str) -> str:
    """8.1.RC1.alpha002 -> 8.1; 7.7.0.1.238 -> 7.7: what has to agree."""
    return ".".join(version.split(".")[:2])


# ------------------------------------------------------------------------------------------------------- the log


def last_log_lines(root: Path, environ: Mapping[str, str]) -> list[str]:
    """The last error lines of the newest plog, CANN's own log of a process."""
    configured = environ.get("ASCEND_PROCESS_LOG_PATH")
    home = Path(configured) if configured else root / environ.get("HOME", "/root").lstrip("/") / "ascend/log"
    logs = [path for folder in ("debug/plog", "run/plog", "plog") for path in home.glob(f"{folder}/plog-*.log")]
    try:
        newest = max(logs, key=lambda path: path.stat().st_mtime, default=None)
        text = "" if newest is None else newest.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return [line for line in text.splitlines() if line.startswith("[ERROR]")][-_PLOG_LINES:]


# ------------------------------------------------------------------------------------------------------- symptoms

# Texts without a code, from users' reports -> the code that means the same.
_SAYINGS = (("verify the OPP", "E30006"), ("-8005", "507008"))
_CARD = "look at  npu-smi info  and the driver's log; another process or container may hold the card"


def symptom_of(text: str) -> str:
    """What to do about an error whose text has no code; "" where nothing is known of it."""
    return next((remedy_of(code) for saying, code in _SAYINGS if saying in text), "")


def remedy_for(text: str) -> str:
    """What to do about an error, by its text."""
    return symptom_of(text) or remedy_of(text) or _CARD
