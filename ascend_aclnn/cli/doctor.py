"""``ascend-aclnn doctor``: what was found of CANN and its devices, what was not, and what to do about it."""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional

import numpy as np

from ascend_aclnn import catalog, ops, reference
from ascend_aclnn.backends.npu import find_backend, library
from ascend_aclnn.cli.host_checks import Finding, check_host, last_log_lines, remedy_for, value_of
from ascend_aclnn.core.errors import AclError, LibraryNotFound
from ascend_aclnn.core.socs import DEFAULT_SOC, soc
from ascend_aclnn.core.streams import Device
from ascend_aclnn.creation import asarray
from ascend_aclnn.selection import use_backend

if TYPE_CHECKING:
    from ascend_aclnn.backends.npu.backend import NpuBackend

ROOT = Path("/")  # of the host that is looked at


def add_commands(subparsers: Any) -> None:
    """Adds ``doctor`` to the command line."""
    parser = subparsers.add_parser("doctor", help="what was found, what was not, and what to do about it")
    parser.add_argument("--json", action="store_true", help="for programs")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    found = report()
    print(json.dumps(found, indent=2) if options.json else render(found))
    return 0


def report() -> dict[str, Any]:
    """Everything that ``render`` says, for programs."""
    wanted = os.environ.get("ASCEND_ACLNN_BACKEND", "auto")
    search = library.search(os.environ)
    found: dict[str, Any] = {
        "backend": "numpy",
        "asked_for": wanted,
        "looked_in": search.looked_in,
        "refused": [{"path": str(path), "reason": reason} for path, reason in search.refused],
        "library": None if search.runtime is None else str(search.runtime),
        "problem": None,
        "advice": None,
        "soc": os.environ.get("ASCEND_ACLNN_SOC", DEFAULT_SOC),
        "operators": sum(1 for _ in catalog.names()),
        "references": reference.count(),
        "compiler": _compiler(),
    }
    npu: Optional[NpuBackend] = None
    try:
        npu = find_backend()
    except LibraryNotFound as error:
        problem, _, rest = str(error).partition("\n")
        lines = [line.strip() for line in rest.splitlines()]
        found["advice"] = search.remedy() if search.runtime is None else lines.pop() if lines else None
        # Where nothing was found, the places and refusals above say the rest.
        found["problem"] = problem if search.runtime is None else "\n".join([problem, *lines])
    else:
        found.update(_device(npu))
        if wanted != "numpy":
            found["backend"] = "npu"
    if found["backend"] == "numpy":
        found["product"] = _product(found["soc"])
    findings: list[Finding] = []
    if npu is None or not npu.emulated:  # the emulated device asks nothing of the host
        findings += check_host(ROOT, os.environ, npu.library_path if npu else search.runtime, _short_name(npu))
    if npu is not None:
        findings += _try_devices(npu)
    elif search.runtime is not None and found["problem"]:
        findings.append(Finding("runtime", found["problem"].splitlines()[0], remedy_for(found["problem"])))
    found["findings"] = [finding._asdict() for finding in findings]
    found["log"] = last_log_lines(ROOT, os.environ) if findings else []
    return found


def _short_name(npu: Optional[NpuBackend]) -> Optional[str]:
    return None if npu is None else soc(npu.soc).short


def _try_devices(npu: NpuBackend) -> list[Finding]:
    """One checked addition on each device. A device that fails is a finding; the others are tried all the same."""
    findings = []
    for index in range(npu.device_count()):
        try:
            with use_backend("npu"), Device(index):
                x = asarray(np.arange(64, dtype=np.float32))
                total = ops.add(x, x, 1).numpy()
            if not np.array_equal(total, 2 * np.arange(64)):
                text = f"device {index} adds wrongly: {total[:4].tolist()} for [0, 2, 4, 6]"
                findings.append(Finding(f"device {index}", text, "keep the card out of use and look at  npu-smi info"))
        except (AclError, OSError, RuntimeError) as error:
            findings.append(Finding(f"device {index}", f"device {index} adds nothing: {error}", remedy_for(str(error))))
    return findings


def _device(npu: NpuBackend) -> dict[str, Any]:
    libraries = npu.runtime.libraries
    usable, refused = libraries.operator_paths
    devices = []
    for index in range(npu.device_count()):
        try:
            memory = npu.memory_info(index)
        except AclError as error:  # one device's fault ends its line, not the report
            devices.append({"index": index, "problem": str(error)})
        else:
            devices.append({"index": index, "free": memory.free, "total": memory.total})
    return {
        "library": str(npu.library_path),
        "soc": npu.soc,
        "product": _product(npu.soc),
        "emulated": npu.emulated,
        "cann": _cann_version(libraries),
        "driver": value_of(library.driver_home() / "version.info", "Version"),
        "devices": devices,
        "operator_libraries": [str(path) for path in usable],
        "operator_libraries_refused": [{"path": str(path), "reason": reason} for path, reason in refused],
        "exported": sum(libraries.has(catalog.get(name)) for name in catalog.names()),
        "advice": _environment_advice(npu),
    }


def _environment_advice(npu: NpuBackend) -> Optional[str]:
    """The device answers, but operators will not find their kernels."""
    if npu.emulated or os.environ.get("ASCEND_OPP_PATH"):
        return None
    return f"ASCEND_OPP_PATH is not set, so operators find no kernels: source {npu.library_path.parents[1]}/set_env.sh"


def _product(name: str) -> str:
    try:
        return soc(name).title
    except ValueError:
        return "unknown product"


def _compiler() -> Optional[str]:
    """The C compiler that builds the emulated device: its command and version."""
    command = shutil.which("cc")
    if command is None:
        return None
    answer = subprocess.run([command, "--version"], capture_output=True, text=True, check=False).stdout
    return answer.splitlines()[0] if answer else command


class _PackageVersion(ctypes.Structure):
    """aclCANNPackageVersion: the whole version, its four parts, and room to grow."""

    _fields_ = [
        ("version", ctypes.c_char * 128),
        ("parts", (ctypes.c_char * 64) * 4),
        ("reserved", ctypes.c_char * 128),
    ]


def _cann_version(libraries: library.Libraries) -> Optional[str]:
    """As the runtime says, else as the files of the installation do."""
    ask = libraries.optional("aclsysGetCANNVersion")
    answer = _PackageVersion()
    if ask is not None and ask(0, ctypes.byref(answer)) == 0 and answer.version:
        return bytes(answer.version).decode(errors="replace")
    home = libraries.directory.resolve().parent
    for file, key in (
        (home / "ascend_toolkit_install.info", "version"),
        (home / f"{os.uname().machine}-linux" / "ascend_toolkit_install.info", "version"),
        (home / "share" / "info" / "runtime" / "version.info", "Version"),
        (home / "runtime" / "version.info", "Version"),
    ):
        version = value_of(file, key)
        if version:
            return version
    return None


# ------------------------------------------------------------------------------------------------------- text


def render(found: Optional[dict[str, Any]] = None) -> str:
    """The report as text."""
    found = report() if found is None else found
    rows: list[tuple[str, str]] = []
    on_device = "devices" in found
    if found["backend"] == "npu":
        rows.append(("backend", f"npu ({'emulated device' if found['emulated'] else found['product']})"))
    elif on_device:
        rows.append(("backend", "numpy (ASCEND_ACLNN_BACKEND=numpy; there is a usable device)"))
    elif found["library"] is None:
        rows.append(("backend", f"numpy (no Ascend device: {found['problem']})"))
    else:
        rows.append(("backend", "numpy (no usable Ascend device)"))
        rows += [("problem" if i == 0 else "", line) for i, line in enumerate(found["problem"].splitlines())]
    if on_device:
        rows += _device_rows(found)
    else:
        rows.append(("looked in", ", ".join(found["looked_in"])))
    rows += [("refused", f"{item['path']}: {item['reason']}") for item in found["refused"]]
    if found["advice"]:
        label, colon, text = found["advice"].partition("to use a card: ")
        rows.append(("to use a card", text) if colon else ("to do", label))
    for item in found["findings"]:
        rows += [(item["check"], item["text"].splitlines()[0]), ("  to do", item["remedy"])]
    rows += [("plog", line) for line in found["log"]]
    if found["backend"] == "npu" and not found["findings"]:
        rows.append(("checked", "one addition on each device"))
    if found["backend"] == "numpy":
        rows.append(("rules of", f"{found['soc']} ({found['product']}); change with ASCEND_ACLNN_SOC"))
    rows.append(("operators", _operators(found)))
    compiler = found["compiler"]
    rows.append(("emulator", f"can be built ({compiler})" if compiler else "cannot be built: no C compiler (cc) found"))
    width = max(len(label) for label, _ in rows) + 4
    return "\n".join(f"{label:<{width}}{text}".rstrip() for label, text in rows)


def _device_rows(found: dict[str, Any]) -> list[tuple[str, str]]:
    versions = f"{found['cann'] or 'version not known'}"
    if found["driver"]:
        versions += f", driver {found['driver']}"
    rows = [("library", found["library"]), ("CANN", versions)]
    for device in found["devices"]:
        if "problem" in device:
            rows += [(f"device {device['index']}", line) for line in device["problem"].splitlines()[:1]]
            continue
        free, total = (device[key] / 2**30 for key in ("free", "total"))
        rows.append((f"device {device['index']}", f"{found['soc']}, {free:.1f} of {total:.1f} GiB free"))
    names = [Path(path).name for path in found["operator_libraries"]]
    rows.append(("libraries", ", ".join(names) or "no operator library found beside the runtime"))
    rows += [("refused", f"{item['path']}: {item['reason']}") for item in found["operator_libraries_refused"]]
    return rows


def _operators(found: dict[str, Any]) -> str:
    text = f"{found['operators']} in the catalog"
    if "exported" in found:
        text += f", {found['exported']} in this CANN"
    return f"{text}, {found['references']} with a NumPy reference"
