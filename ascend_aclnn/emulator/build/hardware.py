"""What the emulated device says of each SoC: sizes, limits, data types. The headers are csrc's tables of it."""

from __future__ import annotations

from typing import NamedTuple, Optional

from ascend_aclnn.core import hccl
from ascend_aclnn.core.dtypes import DataType
from ascend_aclnn.core.hccl import CONFIG_BYTES, PRODUCTS, REDUCTIONS, HcclDataType, hccl_type, supports
from ascend_aclnn.core.socs import KNOWN, soc

_MIB, _GIB = 1 << 20, 1 << 30


class Hardware(NamedTuple):
    """Core counts, memory and L2 are those of CANN 8.1's platform files, limits those of its documents."""

    memory: int
    cube_cores: int
    vector_cores: int
    l2_bytes: int
    streams: int = 1984
    events: int = 65535
    processes: int = 63
    inf_nan: bool = True  # overflow gives infinity; otherwise the largest number
    bf16: bool = True
    page_1g: bool = True  # has pages of 1 GiB


_910 = Hardware(32 * _GIB, 30, 0, 32 * _MIB, streams=2048, processes=64, inf_nan=False, bf16=False, page_1g=False)
_310P = _910._replace(
    memory=24_000_000_000, cube_cores=8, vector_cores=7, l2_bytes=16 * _MIB, streams=1024, events=1023
)
_310B = _910._replace(cube_cores=1, vector_cores=1, l2_bytes=4 * _MIB, streams=512)

# By the beginning of the name; the first one counts.
_HARDWARE = {
    "Ascend910B3": Hardware(64 * _GIB, 20, 40, 192 * _MIB),
    "Ascend910B4-1": Hardware(32 * _GIB, 20, 40, 168 * _MIB),
    "Ascend910B4": Hardware(32 * _GIB, 20, 40, 96 * _MIB),
    "Ascend910B1": Hardware(64 * _GIB, 24, 48, 192 * _MIB),
    "Ascend910B2": Hardware(64 * _GIB, 24, 48, 192 * _MIB),
    "Ascend910_936": Hardware(32 * _GIB, 20, 40, 168 * _MIB),
    "Ascend910_937": Hardware(64 * _GIB, 20, 40, 192 * _MIB),
    "Ascend910_93": Hardware(64 * _GIB, 24, 48, 192 * _MIB),
    "Ascend910B": _910,
    "Ascend910ProB": _910,
    "Ascend910": _910._replace(cube_cores=32),
    "Ascend310P1": _310P._replace(cube_cores=10, vector_cores=8),
    "Ascend310P": _310P,
    "Ascend310B": _310B,
    "Ascend950": Hardware(128 * _GIB, 32, 64, 128 * _MIB),
}


class Platform(NamedTuple):
    """What platform files say of a core beside ``Hardware``: bytes of its memories, bytes a cycle to L2 and to memory."""

    short_name: str
    core_version: str
    npu_arch: int
    l0_c: int
    l1: int
    ub: int
    l2_rate: int
    ddr_rate: int
    core_types: str
    combine: str  # how cube and vector cores belong together

    def items(self, name: str, row: Hardware) -> dict[tuple[str, str], str]:
        """The values by section and key, as in CANN's platform files."""
        soc_info: dict[str, object] = {
            "ai_core_cnt": row.cube_cores,
            "cube_core_cnt": row.cube_cores if "CubeCore" in self.core_types else "",
            "vector_core_cnt": row.vector_cores,
            "l2_size": row.l2_bytes,
            "memory_size": row.memory,
            "core_type_list": self.core_types,
            "cube_vector_combine": self.combine,
            "support_bf16": int(row.bf16),
        }
        core: dict[str, object] = {
            "l0_a_size": 65536,
            "l0_b_size": 65536,
            "l0_c_size": self.l0_c,
            "l1_size": self.l1,
            "ub_size": self.ub,
        }
        sections: dict[str, dict[str, object]] = {
            "version": {
                "SoC_version": name,
                "Short_SoC_version": self.short_name,
                "AIC_version": self.core_version,
                "NpuArch": self.npu_arch,
            },
            "SoCInfo": soc_info,
            "AICoreSpec": {**core, "cube_m_size": 16, "cube_n_size": 16, "cube_k_size": 16, "ubblock_size": 32},
            "AICoreMemoryRates": {"l2_rate": self.l2_rate, "ddr_rate": self.ddr_rate},
        }
        return {
            (label, key): str(value) for label, pairs in sections.items() for key, value in pairs.items() if value != ""
        }


_SPLIT = ("CubeCore,VectorCore", "split")
_KIB = 1 << 10
# From CANN's public platform files, by the beginning of the name; the longest one counts.
_PLATFORMS = {
    "Ascend910B1": Platform("Ascend910B", "AIC-C-220", 2201, 128 * _KIB, 512 * _KIB, 192 * _KIB, 110, 32, *_SPLIT),
    "Ascend910_93": Platform("Ascend910_93", "AIC-C-220", 2201, 128 * _KIB, 512 * _KIB, 192 * _KIB, 110, 32, *_SPLIT),
    "Ascend310P": Platform(
        "Ascend310P", "AIC-M-200", 2002, 256 * _KIB, _MIB, 256 * _KIB, 114, 17, "AICore,VectorCore", ""
    ),
    "Ascend310B": Platform(
        "Ascend310B",
        "AIC-M-300",
        3002,
        128 * _KIB,
        _MIB,
        248 * _KIB,
        256,
        17,
        "AICore,VectorCore,CubeCore",
        "fuse,split",
    ),
    "Ascend950": Platform("Ascend950", "AIC-C-310", 3510, 256 * _KIB, 512 * _KIB, 248 * _KIB, 100, 31, *_SPLIT),
    "Ascend910": Platform("Ascend910", "AIC-C-100", 1001, 256 * _KIB, _MIB, 256 * _KIB, 110, 32, "AICore", ""),
}
_PLATFORMS.update(dict.fromkeys(("Ascend910B2", "Ascend910B3", "Ascend910B4"), _PLATFORMS["Ascend910B1"]))

# What collectives compute with; other types are only moved, and travel as bytes.
_COMPUTED = (
    *(DataType.INT8, DataType.INT16, DataType.INT32, DataType.INT64),
    *(DataType.UINT8, DataType.UINT16, DataType.UINT32, DataType.UINT64),
    *(DataType.FLOAT16, DataType.BF16, DataType.FLOAT, DataType.DOUBLE),
)

# Lines of SoCs whose names are not all known.
_LINES = ("Ascend950",)


def hardware(name: str) -> Optional[Hardware]:
    """The hardware of a SoC by its full name; None where nothing is known about it, which aclInit then refuses."""
    return next((row for beginning, row in _HARDWARE.items() if name.startswith(beginning)), None)


def c_header() -> str:
    """``socs.h``: a row for each SoC that ``core.socs`` knows, as csrc/ascendcl/core/settings.h describes it."""
    lines = ["/* socs.h: made by ascend_aclnn from emulator/build/hardware.py and core/socs.py. */"]
    lines += ["#ifndef EMU_SOCS_H", "#define EMU_SOCS_H", "", "static const emu_soc socs[] = {"]
    for name in (*KNOWN, *_LINES):
        row = hardware(name)
        if row is None:
            continue
        values = ", ".join(f"{value}ull" if type(value) is int else str(value).lower() for value in row)
        lines.append(f'    {{"{name}", "{soc(name).product}", {str(name in _LINES).lower()}, {values}}},')
    return "\n".join([*lines, "};", "", "#endif", ""])


def platform(name: str) -> dict[tuple[str, str], str]:
    """What CANN's platform file of a SoC says, by section and key; {} for an unknown one."""
    row = hardware(name)
    beginnings = [beginning for beginning in _PLATFORMS if name.startswith(beginning)]
    return _PLATFORMS[max(beginnings, key=len)].items(name, row) if row is not None and beginnings else {}


def platform_header() -> str:
    """``platform_data.h``: what libplatform answers, a row for each SoC, section and key."""
    lines = ["/* platform_data.h: made by ascend_aclnn from emulator/build/hardware.py. */"]
    lines += ["static const struct {", "    const char *soc, *label, *key, *value;", "} platform_data[] = {"]
    for name in (*KNOWN, *_LINES):
        rows = platform(name).items()
        lines += [f'    {{"{name}", "{label}", "{key}", "{value}"}},' for (label, key), value in rows]
    return "\n".join([*lines, "};", ""])


def hccl_header() -> str:
    """``hccl_data.h``: root info; of each HCCL data type its carrier (an aclDataType), and the products that take it."""
    lines = [
        "/* hccl_data.h: made by ascend_aclnn from core/hccl.py. */",
        "#ifndef EMU_HCCL_DATA_H",
        "#define EMU_HCCL_DATA_H",
        "",
    ]
    lines += [f"#define HCCL_CONFIG_BYTES {CONFIG_BYTES}"]
    lines += ["/* Root info begins with these; ports: that HCCL uses from HCCL_IF_BASE_PORT on. */"]
    lines += [f'#define ROOT_INFO_MAGIC "{hccl.ROOT_INFO_MAGIC.decode()}"']
    lines += [f"#define ROOT_INFO_SECRET_BYTES {hccl.ROOT_INFO_SECRET_BYTES}"]
    lines += [f"#define ROOT_INFO_ADDRESS_BYTES {hccl.ROOT_INFO_ADDRESS_BYTES}"]
    lines += [f"#define HCCL_PORTS {hccl.PORTS}", ""]
    lines += ["/* products: those whose collectives move it, then those that reduce it by each HcclReduceOp. */"]
    lines += [
        "static const struct {",
        "    int hccl, acl;",
        f"    const char *products[{len(REDUCTIONS) + 1}];",
        "} hccl_types[] = {",
    ]
    carriers = {hccl_type(dtype): dtype for dtype in _COMPUTED}
    for kind in HcclDataType:
        carrier = carriers.get(kind, DataType.COMPLEX128 if kind is HcclDataType.INT128 else DataType.UINT8)
        takers = [[p for p in PRODUCTS if supports(p, kind, reduction)] for reduction in (None, *REDUCTIONS)]
        texts = ", ".join(f'" {" ".join(products)} "' for products in takers)
        lines.append(f"    {{{int(kind)}, {int(carrier)}, {{{texts}}}}}, /* {kind.name} */")
    return "\n".join([*lines, "};", "", "#endif", ""])
