"""The emulated ``npu-smi``: what programs ask it, in the layout of the real one.

The devices are those of ``ASCEND_EMULATOR_DEVICES`` and of the SoC (``ASCEND_ACLNN_SOC``), the processes those that use one of
them now. Memory in use is the shared memory that these processes have touched, of which device memory is nearly all. What an
emulated device has not (power, temperature, serial numbers) is NA.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple, NoReturn, Optional

from ascend_aclnn.core.socs import DEFAULT_SOC, Soc, soc
from ascend_aclnn.emulator.build.hardware import Hardware, hardware
from ascend_aclnn.version import __version__

_MIB = 1 << 20
_INFERENCE = ("310", "310P", "310B")  # without HBM
_DEVICES, _MOST_DEVICES = 2, 16  # as csrc/ascendcl/core/settings.c and device.h have them


class Chip(NamedTuple):
    """A device: an NPU of Atlas A3 has two, every other one."""

    device: int
    npu: int
    number: int  # in its NPU

    @property
    def bus(self) -> str:
        return f"0000:{0xC1 - 0x10 * self.npu + self.number & 0xFF:02X}:00.0"


class Process(NamedTuple):
    device: int
    pid: int
    name: str
    mebibytes: int


class Host(NamedTuple):
    soc: Soc
    hardware: Hardware
    chips: list[Chip]
    processes: list[Process]

    @property
    def memory(self) -> int:
        """MiB of a device."""
        size = re.fullmatch("([0-9]+)([KMGT]?)", os.environ.get("ASCEND_EMULATOR_MEMORY", ""), re.IGNORECASE)
        total = int(size[1]) << 10 * " KMGT".index(size[2].upper() or " ") if size else self.hardware.memory
        return total // _MIB

    def used(self, chip: Chip) -> int:
        return sum(process.mebibytes for process in self.processes if process.device == chip.device)

    @property
    def chip_name(self) -> str:
        """As npu-smi prints it: 910B1, 310P3; Ascend910 for Atlas A3, Ascend950PR."""
        name = self.soc.name.partition("_")[0]
        return name if self.soc.product in ("A3", "950") else name[len("Ascend") :]

    def chips_of(self, npu: int) -> list[Chip]:
        return [chip for chip in self.chips if chip.npu == npu]


def _find_host() -> Host:
    name = os.environ.get("ASCEND_ACLNN_SOC") or DEFAULT_SOC
    facts = hardware(name)
    if facts is None:
        raise ValueError(f"the SoC {name} is not emulated")
    text = os.environ.get("ASCEND_EMULATOR_DEVICES", "")
    count = min(int(text), _MOST_DEVICES) if re.fullmatch("[0-9]{1,9}", text) else _DEVICES
    dies = 2 if soc(name).product == "A3" else 1
    chips = [Chip(device, device // dies, device % dies) for device in range(count)]
    return Host(soc(name), facts, chips, list(_processes()))


# -------------------------------------------------------------------------------------------------------------- processes


def _hash(text: bytes) -> int:
    value = 0xCBF29CE484222325
    for byte in text:
        value = (value ^ byte) * 0x100000001B3 & (1 << 64) - 1
    return value


def _links(folder: Path) -> Iterator[str]:
    """Where links lead, those that disappear meanwhile left out."""
    for name in os.listdir(folder):
        with contextlib.suppress(FileNotFoundError):
            yield os.readlink(folder / name)


def _processes() -> Iterator[Process]:
    """The processes that use a device: each holds a socket whose name csrc/ascendcl/core/processes.c gives it."""
    host = os.fsencode(os.environ.get("ASCEND_EMULATOR_HOST", ""))
    pattern = re.compile(rf"(\d+) @ascend-emulator-{os.getuid()}-{_hash(host):016x}-(\d+)-\d+$")
    devices = {}
    for line in Path("/proc/net/unix").read_text(encoding="utf-8", errors="replace").splitlines():
        match = pattern.search(line)
        if match is not None:
            devices[f"socket:[{match[1]}]"] = int(match[2])
    if not devices:
        return
    for folder in sorted(Path("/proc").glob("[0-9]*"), key=lambda path: int(path.name)):
        try:
            links = set(_links(folder / "fd"))
            name = (folder / "comm").read_text(encoding="utf-8", errors="replace").strip()
            status = (folder / "status").read_text(encoding="utf-8", errors="replace")
        except OSError:  # of another user, or it has ended
            continue
        shared = re.search(r"^RssShmem:\s*(\d+) kB", status, re.M)
        for link in sorted(links & set(devices)):
            yield Process(devices[link], int(folder.name), name, int(shared[1]) // 1024 if shared else 0)


# ----------------------------------------------------------------------------------------------------------------- tables


class Table(NamedTuple):
    """The widths of the three columns, and of the parts of the first and of the third."""

    widths: tuple[int, int, int]
    first: int
    third: tuple[int, int]

    def row(self, first: str, second: str, third: str, *others: str) -> str:
        """A row of the devices: two cells in the first column, one in the second, three in the third."""
        number, name = first.split("|")
        parts = [f"{part:<{width}}" for part, width in zip((third, *others), (*self.third, 0))]
        return _row(self.widths, f"{number:<{self.first}}{name}", second, "".join(parts))


def _row(widths: tuple[int, ...], *cells: str) -> str:
    return "|" + "|".join(f" {cell}".ljust(width)[:width] for width, cell in zip(widths, cells)) + "|"


def _line(widths: tuple[int, ...], mark: str = "-") -> str:
    return "+" + "+".join(mark * width for width in widths) + "+"


_WITH_HBM = Table((27, 15, 52), 6, (12, 18))
_WITHOUT_HBM = Table((31, 17, 54), 8, (13, 18))


def _info(host: Host) -> str:
    """``npu-smi info``: the devices, then the processes on them."""
    inference = host.soc.product in _INFERENCE
    a3 = host.soc.product == "A3"
    table = _WITHOUT_HBM if inference else _WITH_HBM
    whole = (sum(table.widths) + 2,)
    usage = ("AICore(%)", "Memory-Usage(MB)", "" if inference else "HBM-Usage(MB)")
    lines = [_line(whole), _row(whole, f"npu-smi {__version__:<24} Version: {__version__}"), _line(table.widths)]
    lines.append(table.row("NPU|Name", "Health", "Power(W)", "Temp(C)", "Hugepages-Usage(page)"))
    lines.append(table.row(f"Chip|{'Device' if inference else 'Phy-ID' if a3 else ''}", "Bus-Id", *usage))
    lines.append(_line(table.widths, "="))
    for chip in host.chips:
        memory, none = f"{host.used(chip):<5}/ {host.memory}", f"{0:<5}/ 0"
        device = str(chip.device) if inference or a3 else ""
        lines.append(table.row(f"{chip.npu}|{host.chip_name}", "OK", "NA", "NA", none))
        cells = (memory, "") if inference else (none, memory)
        lines.append(table.row(f"{chip.number}|{device}", chip.bus, "0", *cells))
        lines.append(_line(table.widths, "=") if chip == host.chips_of(chip.npu)[-1] else _line(whole))
    return "\n".join([*lines, *_process_lines(host, table.widths)])


def _process_lines(host: Host, widths: tuple[int, int, int]) -> Iterator[str]:
    columns = (*widths[:2], widths[2] // 2, widths[2] - widths[2] // 2 - 1)
    yield _line(widths)
    yield _row(columns, f"{'NPU':<8}Chip", "Process id", "Process name", "Process memory(MB)")
    yield _line(widths, "=")
    for npu in sorted({chip.npu for chip in host.chips}):
        running = [(chip, p) for chip in host.chips_of(npu) for p in host.processes if p.device == chip.device]
        for chip, process in running:
            place = f"{npu:<8}{chip.number}"
            yield _row(columns, place, str(process.pid), process.name, str(process.mebibytes))
        if not running:
            yield _row((sum(widths) + 2,), f"No running processes found in NPU {npu}")
        yield _line(widths, "=")


def _fields(fields: Mapping[str, object]) -> str:
    return "\n".join(f"\t{name:<30} : {value}" for name, value in fields.items())


def _list(host: Host) -> str:
    """``npu-smi info -l``"""
    npus = sorted({chip.npu for chip in host.chips})
    parts = [_fields({"Total Count": len(npus)})]
    parts += [_fields({"NPU ID": npu, "Chip Count": len(host.chips_of(npu))}) for npu in npus]
    return "\n\n".join(parts)


def _mapping(host: Host) -> str:
    """``npu-smi info -m``: the last row of an NPU is its controller, which is no device."""
    heads = ("NPU ID", "Chip ID", "Chip Logic ID", *(("Chip Phy-ID",) if host.soc.product == "A3" else ()), "Chip Name")
    name = host.chip_name if host.chip_name.startswith("Ascend") else f"Ascend {host.chip_name}"
    rows: list[tuple[object, ...]] = [heads]
    for npu in sorted({chip.npu for chip in host.chips}):
        chips = host.chips_of(npu)
        rows += [(npu, chip.number, *[chip.device] * (len(heads) - 3), name) for chip in chips]
        rows.append((npu, len(chips), *["-"] * (len(heads) - 3), "Mcu"))
    return "\n".join("\t" + "".join(f"{cell!s:<31}" for cell in row).rstrip() for row in rows)


# ------------------------------------------------------------------------------------------------------------------ types


def _chip_names(host: Host) -> dict[str, object]:
    if host.soc.product in ("A3", "950"):
        return {"Chip Name": host.chip_name, "NPU Name": host.soc.name.partition("_")[2] or "NA"}
    return {"Chip Type": "Ascend", "Chip Name": host.chip_name}


def _board(host: Host, npu: int, chip: Optional[Chip]) -> str:
    if chip is not None:
        return _fields({"NPU ID": npu, "Chip ID": chip.number, **_chip_names(host), "Chip Version": "V1"})
    names = _chip_names(host) if host.soc.product == "950" else {}
    fields: dict[str, object] = {"NPU ID": npu, "Product Name": "NA", **names, "Serial Number": "NA"}
    fields |= {"Software Version": __version__, "Firmware Version": "NA", "Board ID": "NA", "PCB ID": "NA"}
    first = host.chips_of(npu)[0]
    return _fields({**fields, "PCIe Bus Info": first.bus, "Chip Count": len(host.chips_of(npu))})


def _health(host: Host, npu: int, chip: Optional[Chip]) -> str:
    return _fields({"Health Status": "OK", "Error Code": "NA", "Error Information": "NA"})


def _memory(host: Host, npu: int, chip: Optional[Chip]) -> str:
    kind = "DDR" if host.soc.product in _INFERENCE else "HBM"
    return _fields({"NPU ID": npu, "Chip Count": len(host.chips_of(npu)), f"{kind} Capacity(MB)": host.memory})


def _usages(host: Host, npu: int, chip: Optional[Chip]) -> str:
    kind = "DDR" if host.soc.product in _INFERENCE else "HBM"
    asked = chip or host.chips_of(npu)[0]
    rate = 100 * host.used(asked) // host.memory if host.memory else 0
    fields: dict[str, object] = {"NPU ID": npu, "Chip Count": len(host.chips_of(npu))}
    fields |= {f"{kind} Capacity(MB)": host.memory, f"{kind} Usage Rate(%)": rate}
    return _fields({**fields, "Aicore Usage Rate(%)": 0, "Aicpu Usage Rate(%)": 0, "Ctrlcpu Usage Rate(%)": 0})


def _temperature(host: Host, npu: int, chip: Optional[Chip]) -> str:
    return _fields({"NPU ID": npu, "Chip Count": len(host.chips_of(npu)), "Temperature (C)": "NA"})


def _power(host: Host, npu: int, chip: Optional[Chip]) -> str:
    return _fields({"NPU ID": npu, "Chip Count": len(host.chips_of(npu)), "Power Dissipation(W)": "NA"})


_TYPES = {
    "board": _board,
    "health": _health,
    "memory": _memory,
    "usages": _usages,
    "temp": _temperature,
    "power": _power,
}


def _topology(host: Host) -> str:
    """``npu-smi info -t topo``: devices are linked to each other, and every processor of this host is near them all."""
    names = [f"NPU{chip.device}" for chip in host.chips]
    processors = sorted(os.sched_getaffinity(0))
    whole = processors == list(range(processors[0], processors[-1] + 1)) and len(processors) > 1
    affinity = f"{processors[0]}-{processors[-1]}" if whole else ",".join(map(str, processors))
    rows = [["", *names, "CPU Affinity"]]
    for name in names:
        rows.append([name, *("X" if name == other else "HCCS" for other in names), affinity])
    legend = ["", "Legend:", "", "  X    = Self", "  HCCS = Connection traversing HCCS."]
    return "\n".join([*("".join(f"{cell:<11}" for cell in row).rstrip() for row in rows), *legend])


# ----------------------------------------------------------------------------------------------------------- command line


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ValueError(message)


def _answer(arguments: list[str]) -> str:
    if arguments in (["-v"], ["--version"]):
        return f"npu-smi version: {__version__}"
    if arguments[:1] != ["info"]:
        raise ValueError(f"the emulated one answers info and -v; {' '.join(arguments) or 'nothing'} was asked")
    parser = _Parser(prog="npu-smi info", add_help=False)
    parser.add_argument("-l", action="store_true")
    parser.add_argument("-m", action="store_true")
    parser.add_argument("-t", dest="type")
    parser.add_argument("-i", dest="npu", type=int)
    parser.add_argument("-c", dest="chip", type=int)
    options = parser.parse_args(arguments[1:])
    host = _find_host()
    if options.l or options.m:
        return _list(host) if options.l else _mapping(host)
    if options.type is None:
        return _info(host)
    if options.type == "topo":
        return _topology(host)
    if options.type not in _TYPES:
        raise ValueError(f"the emulated one has no type {options.type}; it has {', '.join(_TYPES)} and topo")
    chips = [c for c in host.chips if c.npu == options.npu and options.chip in (None, c.number)]
    if not chips:
        known = ", ".join(map(str, sorted({chip.npu for chip in host.chips}))) or "none"
        raise ValueError(f"no NPU {options.npu} with chip {options.chip or 0}; NPUs are {known}")
    return _TYPES[options.type](host, options.npu, None if options.chip is None else chips[0])


def main(arguments: list[str]) -> int:
    """Prints an answer; 1 with a message on standard error where there is none."""
    try:
        print(_answer(arguments))
    except ValueError as error:
        print(f"npu-smi: {error}", file=sys.stderr)
        return 1
    return 0
