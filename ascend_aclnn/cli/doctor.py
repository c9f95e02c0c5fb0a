"""``ascend-aclnn doctor``: what was found of CANN and its devices, what was not, and what to do about it.

It exits with 1 where something stops work: a CANN that was found and cannot be used, a device that fails or computes
wrongly, or a backend that is asked for and not there. A host without CANN is in order, and so is one on which
ASCEND_ACLNN_BACKEND=numpy asks for no device.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional

import numpy as np

from ascend_aclnn import catalog, ops, reference
from ascend_aclnn.backends.npu import find_backend, library
from ascend_aclnn.backends.npu.library import is_file
from ascend_aclnn.backends.npu.versions import cann_version, ops_version, value_of
from ascend_aclnn.catalog import life
from ascend_aclnn.cli import variables
from ascend_aclnn.cli.host_checks import (
    Finding,
    check_host,
    check_visible_devices,
    last_log_lines,
    remedy_for,
    symptom_of,
)
from ascend_aclnn.core.errors import AclError, LibraryNotFound
from ascend_aclnn.core.socs import DEFAULT_SOC, soc
from ascend_aclnn.core.streams import Device
from ascend_aclnn.creation import asarray
from ascend_aclnn.emulator import releases
from ascend_aclnn.emulator.build import CompilerError, Options, cache, find_compiler, name_of, prebuilt
from ascend_aclnn.selection import NAMES, use_backend

if TYPE_CHECKING:
    from ascend_aclnn.backends.npu.backend import NpuBackend

ROOT = Path("/")  # of the host that is looked at


HOST_BACKENDS = ("numpy", "shapes")  # which need no device


def add_commands(subparsers: Any) -> None:
    """Adds ``doctor`` to the command line."""
    parser = subparsers.add_parser("doctor", help="what was found, what was not, and what to do about it")
    parser.add_argument("--json", action="store_true", help="for programs")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    facts = report()
    print(json.dumps(facts, indent=2) if options.json else render(facts))
    return int(bool(facts["stops"]))


def report() -> dict[str, Any]:
    """Everything that ``render`` says, for programs."""
    wanted = os.environ.get("ASCEND_ACLNN_BACKEND") or "auto"
    search = library.search(os.environ)
    facts: dict[str, Any] = {
        "backend": wanted if wanted in HOST_BACKENDS else "numpy",
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
        "emulator": _emulator(),
        "environment": variables.values(os.environ),
    }
    npu: Optional[NpuBackend] = None
    try:
        npu = find_backend()
    except LibraryNotFound as error:
        problem, _, rest = str(error).partition("\n")
        lines = [line.strip() for line in rest.splitlines()]
        last = lines.pop() if search.runtime is not None and lines else None
        facts["advice"] = search.remedy() if search.runtime is None else symptom_of(str(error)) or last
        # Where nothing was found, the places and refusals above say the rest.
        facts["problem"] = problem if search.runtime is None else "\n".join([problem, *lines])
    else:
        facts.update(_device(npu))
        if wanted not in HOST_BACKENDS:
            facts["backend"] = "npu"
    if facts["backend"] != "npu":
        facts["product"] = _product(facts["soc"])
    findings: list[Finding] = []
    if npu is not None or search.runtime is not None:
        findings += check_visible_devices(os.environ)
    if not _is_emulated(npu, search.runtime):  # the emulated device asks nothing of the host
        findings += check_host(ROOT, os.environ, npu.library_path if npu else search.runtime, _short_name(npu))
    faults = [] if npu is None else [*_silent(facts["devices"]), *_try_devices(npu, facts["devices"])]
    findings += faults
    facts["findings"] = [finding._asdict() for finding in findings]
    unusable = npu is None and (search.runtime is not None or bool(search.refused))
    facts["stops"] = _stops(wanted, npu is not None, unusable, faults)
    facts["log"] = last_log_lines(ROOT, os.environ) if findings or unusable else []
    return facts


def _is_emulated(npu: Optional[NpuBackend], runtime: Optional[Path]) -> bool:
    if npu is not None:
        return npu.emulated
    return runtime is not None and is_file(runtime.parent / "emulator.conf")


def _stops(wanted: str, usable: bool, unusable: bool, faults: list[Finding]) -> list[str]:
    """What stops work: reasons for an exit status of 1."""
    if wanted not in (*NAMES, "auto"):
        return [f"ASCEND_ACLNN_BACKEND is {wanted!r}; it must be {', '.join(NAMES)} or auto"]
    if wanted in HOST_BACKENDS:
        return []
    reasons = [finding.text.splitlines()[0] for finding in faults]
    if unusable:
        reasons.append("a CANN was found and cannot be used")
    if wanted == "npu" and not usable:
        reasons.append("ASCEND_ACLNN_BACKEND=npu asks for a device, and none can be used")
    return reasons


def _short_name(npu: Optional[NpuBackend]) -> Optional[str]:
    return None if npu is None else soc(npu.soc).short


def _silent(devices: list[dict[str, Any]]) -> Iterator[Finding]:
    """Devices that do not even tell their memory."""
    for device in devices:
        if "problem" in device:
            index, problem = device["index"], device["problem"]
            yield Finding(f"device {index}", f"device {index} does not answer: {problem}", remedy_for(problem))


def _try_devices(npu: NpuBackend, devices: list[dict[str, Any]]) -> list[Finding]:
    """One checked addition on each device that answers. One that fails is a finding; the others are tried all the same."""
    findings = []
    for index in (device["index"] for device in devices if "problem" not in device):
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
        "cann": cann_version(libraries),
        "ops": ops_version(libraries),
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
    try:
        command = find_compiler()
    except CompilerError:
        return None
    answer = subprocess.run(
        [command, "--version"], capture_output=True, text=True, errors="replace", check=False
    ).stdout
    return answer.splitlines()[0] if answer else command


def _emulator() -> str:
    """Whether the emulated device can be used: `ascend-aclnn emulator doctor` tries it."""
    try:
        options = Options(releases.chosen(None))
        if cache.has(name_of(options)):
            return "ready: it has been built"
        if prebuilt(options) is not None:
            return "ready: the package carries its libraries"
    except (ValueError, OSError) as error:
        return f"cannot be used: {error}"
    compiler = _compiler()
    return f"can be built ({compiler})" if compiler else "cannot be built: no C compiler (cc, gcc or clang) found"


# ------------------------------------------------------------------------------------------------------- text


def render(facts: Optional[dict[str, Any]] = None) -> str:
    """The report as text."""
    facts = report() if facts is None else facts
    rows: list[tuple[str, str]] = []
    on_device = "devices" in facts
    if facts["backend"] == "npu":
        rows.append(("backend", f"npu ({'emulated device' if facts['emulated'] else facts['product']})"))
    elif on_device:
        name = facts["backend"]
        rows.append(("backend", f"{name} (ASCEND_ACLNN_BACKEND={name}; there is a usable device)"))
    elif facts["backend"] == "shapes":
        rows.append(("backend", "shapes (ASCEND_ACLNN_BACKEND=shapes; no operator computes)"))
    elif facts["library"] is None:
        rows.append(("backend", f"numpy (no Ascend device: {facts['problem']})"))
    else:
        rows.append(("backend", "numpy (no usable Ascend device)"))
        rows += [("problem" if i == 0 else "", line) for i, line in enumerate(facts["problem"].splitlines())]
    if on_device:
        rows += _device_rows(facts)
    else:
        rows.append(("looked in", ", ".join(facts["looked_in"])))
    rows += [("refused", f"{item['path']}: {item['reason']}") for item in facts["refused"]]
    if facts["advice"]:
        label, colon, text = facts["advice"].partition("to use a card: ")
        rows.append(("to use a card", text) if colon else ("to do", label))
    said = {facts["advice"]}
    for item in facts["findings"]:
        rows.append((item["check"], item["text"].splitlines()[0]))
        if item["remedy"] not in said:
            rows.append(("  to do", item["remedy"]))
        said.add(item["remedy"])
    rows += [("plog", line) for line in facts["log"]]
    if facts["backend"] == "npu" and not facts["findings"]:
        rows.append(("checked", "one addition on each device"))
    if facts["backend"] != "npu":
        rows.append(("rules of", f"{facts['soc']} ({facts['product']}); change with ASCEND_ACLNN_SOC"))
    rows.append(("operators", _operators(facts)))
    rows.append(("emulator", facts["emulator"]))
    rows += [
        ("variable", f"{name}={value}   ({variables.meaning(name)})")
        for name, value in facts["environment"].items()
        if value is not None
    ]
    rows += [("stops work", reason) for reason in facts["stops"]]
    width = max(len(label) for label, _ in rows) + 4
    return "\n".join(f"{label:<{width}}{text}".rstrip() for label, text in rows)


def _device_rows(facts: dict[str, Any]) -> list[tuple[str, str]]:
    versions = f"{facts['cann'] or 'version not known'}{_operators_words(facts)}"
    if facts["driver"]:
        versions += f", driver {facts['driver']}"
    rows = [("library", facts["library"]), ("CANN", versions)]
    for device in facts["devices"]:
        if "problem" in device:  # a finding, below
            continue
        free, total = (device[key] / 2**30 for key in ("free", "total"))
        rows.append((f"device {device['index']}", f"{facts['soc']}, {free:.1f} of {total:.1f} GiB free"))
    names = [Path(path).name for path in facts["operator_libraries"]]
    rows.append(("libraries", ", ".join(names) or "no operator library found beside the runtime"))
    rows += [("refused", f"{item['path']}: {item['reason']}") for item in facts["operator_libraries_refused"]]
    return rows


def _operators_words(facts: dict[str, Any]) -> str:
    """The release of the operators, where it is another one than the toolkit's, and whether the two go together."""
    if not facts["cann"] or not facts["ops"] or facts["ops"] == facts["cann"]:
        return ""
    source = life.supported(facts["cann"], facts["ops"])
    return f", operators {facts['ops']} ({'a pair of ' + source if source else 'a pair that no release notes name'})"


def _operators(facts: dict[str, Any]) -> str:
    text = f"{facts['operators']} in the catalog"
    if "exported" in facts:
        text += f", {facts['exported']} in this CANN"
    return f"{text}, {facts['references']} with a NumPy reference"
