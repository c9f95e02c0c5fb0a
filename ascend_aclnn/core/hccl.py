"""What HCCL takes, for all backends: data types and reductions by product, and the configuration of a communicator.

Facts are those of CANN's sources: hcomm's ``CheckDataType``, ``CheckReduceDataType`` and ``CommConfig``, hccl's
``op_common``, and of the documents of the collectives where the sources leave a product out.
"""

from __future__ import annotations

import ctypes
import dataclasses
import enum
import re
from collections.abc import Sequence
from typing import Any, Optional

from ascend_aclnn.core.dtypes import DataType
from ascend_aclnn.core.errors import AclError

PARAMETER, NOT_SUPPORTED = 1, 5  # of HcclResult

REDUCTIONS = ("sum", "prod", "max", "min")  # in the order of HcclReduceOp

# HcclRootInfo, of which HCCL says only the size. This package's begins with a magic word, a secret, and the address of rank 0.
ROOT_INFO_BYTES = 4108
ROOT_INFO_MAGIC = b"ASCENDHC"
ROOT_INFO_SECRET_BYTES = 32
ROOT_INFO_ADDRESS_BYTES = 64
PORTS = 16  # that HCCL uses from HCCL_IF_BASE_PORT on

# ------------------------------------------------------------------------------------------------- data types


class HcclDataType(enum.IntEnum):
    """HCCL's data types by its names; those from HIF8 on came with CANN 8.2."""

    INT8 = 0
    INT16 = 1
    INT32 = 2
    FP16 = 3
    FP32 = 4
    INT64 = 5
    UINT64 = 6
    UINT8 = 7
    UINT16 = 8
    UINT32 = 9
    FP64 = 10
    BFP16 = 11
    INT128 = 12
    HIF8 = 14
    FP8E4M3 = 15
    FP8E5M2 = 16
    FP8E8M0 = 17


_OF = {
    DataType.INT8: HcclDataType.INT8,
    DataType.INT16: HcclDataType.INT16,
    DataType.INT32: HcclDataType.INT32,
    DataType.FLOAT16: HcclDataType.FP16,
    DataType.FLOAT: HcclDataType.FP32,
    DataType.INT64: HcclDataType.INT64,
    DataType.UINT64: HcclDataType.UINT64,
    DataType.UINT8: HcclDataType.UINT8,
    DataType.BOOL: HcclDataType.UINT8,
    DataType.UINT16: HcclDataType.UINT16,
    DataType.UINT32: HcclDataType.UINT32,
    DataType.DOUBLE: HcclDataType.FP64,
    DataType.BF16: HcclDataType.BFP16,
    DataType.HIFLOAT8: HcclDataType.HIF8,
    DataType.FLOAT8_E4M3FN: HcclDataType.FP8E4M3,
    DataType.FLOAT8_E5M2: HcclDataType.FP8E5M2,
    DataType.FLOAT8_E8M0: HcclDataType.FP8E8M0,
}

PRODUCTS = ("910", "310P", "A2", "A3", "950")  # that have HCCL

_T = HcclDataType
_COMMON = {_T.INT8, _T.INT32, _T.FP16, _T.FP32}
_A2 = _COMMON | {_T.INT16, _T.INT64, _T.BFP16}
_REDUCED = {
    "910": _COMMON | {_T.INT64},
    "310P": _COMMON | {_T.INT16},
    "A2": _A2,
    "A3": _A2,
    "950": _A2 | {_T.UINT64, _T.FP64},
}
_NOT_MULTIPLIED = {product: {_T.INT16, _T.BFP16} for product in ("A2", "A3", "950")}
_ONLY_SUMMED = {"310P": {_T.INT16}}
_NOT_MOVED = {"310P": {_T.BFP16}, "950": {_T.INT128}}


def supports(product: str, kind: HcclDataType, reduction: Optional[str] = None) -> bool:
    """Whether a product's collectives move elements of this type (no reduction), or reduce them."""
    if reduction is None:
        return product in PRODUCTS and kind not in _NOT_MOVED.get(product, ())
    if reduction != "sum" and kind in _ONLY_SUMMED.get(product, ()):
        return False
    if reduction == "prod" and kind in _NOT_MULTIPLIED.get(product, ()):
        return False
    return kind in _REDUCED.get(product, ())


def hccl_type(dtype: DataType) -> HcclDataType:
    """HCCL's name of a tensor's data type; ValueError where it has none."""
    if dtype not in _OF:
        raise ValueError(f"the tensor has dtype {dtype.name}, which HCCL does not have")
    return _OF[dtype]


def data_type(kind: int) -> Optional[DataType]:
    """The data type of HCCL's number; None where it has no counterpart."""
    return next((dtype for dtype, number in _OF.items() if number == kind), None)


# ------------------------------------------------------------------------------------------------- configuration

_NOT_SET = 0xFFFFFFFF
_YEAR = 365 * 86400.0
_MAGIC = 0xF0F0F0F0
_VERSION = 11  # of the newest structure; older HCCL reads the part that it knows
_CONFIG_NAME = "HcclCommInitRootInfoConfig"  # the routine that HCCL names in its messages


class _Structure(ctypes.Structure):
    """HcclCommConfig in its newest version; an older one ends earlier."""

    _fields_ = [
        ("size", ctypes.c_size_t),
        ("magic", ctypes.c_uint32),
        ("version", ctypes.c_uint32),
        ("reserved", ctypes.c_uint64),
        ("hcclBufferSize", ctypes.c_uint32),
        ("hcclDeterministic", ctypes.c_uint32),
        ("hcclCommName", ctypes.c_char * 128),
        ("hcclUdi", ctypes.c_char * 128),
        ("hcclOpExpansionMode", ctypes.c_uint32),
        ("hcclRdmaTrafficClass", ctypes.c_uint32),
        ("hcclRdmaServiceLevel", ctypes.c_uint32),
        ("hcclWorldRankID", ctypes.c_uint32),
        ("hcclJobID", ctypes.c_uint64),
        ("aclGraphZeroCopyEnable", ctypes.c_uint8),
        ("hcclExecTimeOut", ctypes.c_int32),
        ("hcclAlgo", ctypes.c_char * 1600),
        ("hcclRetryEnable", ctypes.c_char * 50),
        ("hcclRetryParams", ctypes.c_char * 128),
        ("hcclBufferName", ctypes.c_char * 128),
        ("hcclQos", ctypes.c_uint32),
        ("hcclSymWinMaxMemSizePerRank", ctypes.c_uint64),
        ("hcclChannelSqDepth", ctypes.c_uint32),
    ]


CONFIG_BYTES = ctypes.sizeof(_Structure)


def _field(name: str, version: int, default: Any, unset: Any = None, capability: int = -1) -> Any:
    """An item of the configuration: HCCL's name, the version that has it first, the value that leaves it to HCCL."""
    about = {"hccl": name, "version": version, "unset": default if unset is None else unset, "capability": capability}
    return dataclasses.field(default=default, metadata=about)


@dataclasses.dataclass(frozen=True)
class CommunicatorConfig:
    """HcclCommConfig: settings of one communicator; None leaves a setting to HCCL's variable and default."""

    buffer_size: Optional[int] = _field("hcclBufferSize", 1, None, _NOT_SET, 0)  # MB; HCCL_BUFFSIZE
    deterministic: Optional[int] = _field("hcclDeterministic", 1, None, _NOT_SET, 1)  # 0, 1; 2 on Atlas A2 and A3
    name: str = _field("hcclCommName", 2, "", capability=2)  # ``Communicator.name``: no other in the process has it
    udi: str = _field("hcclUdi", 3, "", capability=2)  # any text
    # 0 default, 1 host, 2 AI CPU, 3 vector cores, 4 vector cores only, 5 and 6 CCU
    op_expansion_mode: int = _field("hcclOpExpansionMode", 4, 0, capability=3)
    traffic_class: Optional[int] = _field("hcclRdmaTrafficClass", 5, None, _NOT_SET, 4)
    service_level: Optional[int] = _field("hcclRdmaServiceLevel", 5, None, _NOT_SET, 4)
    world_rank: int = _field("hcclWorldRankID", 6, 0, capability=5)
    job: int = _field("hcclJobID", 6, 0, capability=6)
    acl_graph_zero_copy: int = _field("aclGraphZeroCopyEnable", 7, 0, capability=7)  # 0 or 1
    exec_timeout: Optional[int] = _field("hcclExecTimeOut", 8, None, -1, 8)  # seconds, 0: none; HCCL_EXEC_TIMEOUT
    algo: str = _field("hcclAlgo", 8, "", capability=9)  # as HCCL_ALGO
    retry_enable: str = _field("hcclRetryEnable", 8, "", capability=10)  # as HCCL_OP_RETRY_ENABLE
    retry_params: str = _field("hcclRetryParams", 8, "", capability=10)  # as HCCL_OP_RETRY_PARAMS
    buffer_name: str = _field("hcclBufferName", 9, "", capability=11)  # communicators of one name share a buffer
    qos: Optional[int] = _field("hcclQos", 10, None, _NOT_SET, 11)
    symmetric_memory: int = _field("hcclSymWinMaxMemSizePerRank", 10, 16, capability=11)  # GB of each rank
    sq_depth: Optional[int] = _field("hcclChannelSqDepth", 11, None, _NOT_SET, 11)

    def pack(self) -> bytes:
        """The structure, as HcclCommConfigInit initialises it; ValueError for values that its fields cannot hold."""
        structure = _Structure(size=CONFIG_BYTES, magic=_MAGIC, version=_VERSION)
        for item in dataclasses.fields(self):
            name, value = item.metadata["hccl"], getattr(self, item.name)
            value = item.metadata["unset"] if value is None else value
            field = getattr(_Structure, name)
            if isinstance(value, str):
                data = value.encode()
                if b"\0" in data or len(data) >= field.size:
                    raise ValueError(
                        f"{item.name} has {len(data)} bytes; it must have less than {field.size}, none of them 0"
                    )
                setattr(structure, name, data)
                continue
            low = -1 if name == "hcclExecTimeOut" else 0
            high = (1 << (8 * field.size - (low < 0))) - 1
            if not low <= int(value) <= high:
                raise ValueError(f"{item.name} is {value}; it must be in [0, {high}]")
            setattr(structure, name, int(value))
        return bytes(structure)

    @classmethod
    def unpack(cls, data: bytes) -> CommunicatorConfig:
        """The configuration in a structure of any version. AclError 1 unless HcclCommConfigInit has initialised it."""
        size = int.from_bytes(data[:8], "little")
        structure = _Structure.from_buffer_copy(data[: min(size, len(data))].ljust(CONFIG_BYTES, b"\0")[:CONFIG_BYTES])
        if structure.magic != _MAGIC:
            text = f"config begins with {structure.magic:#x}; HcclCommConfigInit must have filled it"
            raise AclError(PARAMETER, _CONFIG_NAME, text)
        values: dict[str, Any] = {}
        for item in dataclasses.fields(cls):
            about = item.metadata
            value = getattr(structure, about["hccl"])
            if structure.version < about["version"] or value == about["unset"]:
                continue
            values[item.name] = value.decode(errors="replace") if isinstance(value, bytes) else value
        return cls(**values)

    def check(self, product: str) -> None:
        """AclError 1 for values that HCCL refuses; values that it ignores with a warning pass."""
        for name, wrong, allowed in (
            ("buffer_size", self.buffer_size == 0, "at least 1"),
            ("deterministic", (self.deterministic or 0) > 2, "0, 1 or 2"),
            (
                "deterministic",
                self.deterministic == 2 and product not in ("A2", "A3"),
                "0 or 1; 2 is for Atlas A2 and A3",
            ),
            ("acl_graph_zero_copy", self.acl_graph_zero_copy > 1, "0 or 1"),
            (
                "algo",
                not _is_algorithm(self.algo),
                "as HCCL_ALGO: level0:NA;level1:ring, or allreduce=level0:NA;level1:ring/...",
            ),
            ("retry_enable", _is_unfinished(self.retry_enable), "as L1:0, L2:1"),
            (
                "retry_params",
                not _are_retry_parameters(self.retry_params),
                "as MaxCnt:1, HoldTime:5000, IntervalTime:1000",
            ),
        ):
            if wrong:
                raise AclError(PARAMETER, _CONFIG_NAME, f"{name} is {getattr(self, name)!r}; it must be {allowed}")

    def timeout(self, default: float) -> float:
        """Seconds that a collective waits for the other ranks; without end (0) is a year."""
        if self.exec_timeout is None or self.exec_timeout < 0:
            return default
        return self.exec_timeout or _YEAR

    def missing(self, capability: int) -> Optional[str]:
        """A setting that an HCCL of this HcclGetCommConfigCapability does not have yet."""
        for item in dataclasses.fields(self):
            if getattr(self, item.name) != item.default and item.metadata["capability"] >= capability:
                return item.name
        return None


DEFAULT_CONFIG = CommunicatorConfig()

_ALGORITHMS = "null|ring|pipeline|fullmesh|H-D_R|pairwise|NHR|NHR_V1|AHC|AHC_BROKE|NB|NA"
_LEVEL = re.compile(rf"level([0-3]):({_ALGORITHMS})")


def _is_algorithm(text: str) -> bool:
    """Levels for all collectives, or for each of some, none twice."""
    if not text.replace(" ", ""):
        return True
    parts = [part.rpartition("=") for part in text.replace(" ", "").split("/")]
    for _, _, levels in parts:
        matches = [_LEVEL.fullmatch(level) for level in levels.split(";")]
        numbers = [match[1] for match in matches if match]
        if len(set(numbers)) < len(matches):
            return False
    return len(parts) == 1 or all(name for name, _, _ in parts)


def _is_unfinished(text: str) -> bool:
    """Whether a list begins or ends with a comma, or has more levels than there are."""
    parts = text.replace(" ", "").split(",")
    return len(parts) > 3 or (len(parts) > 1 and "" in parts)


def _are_retry_parameters(text: str) -> bool:
    if not text:
        return True
    match = re.match(r"MaxCnt:\s*(\d+),\s*HoldTime:\s*(\d+),\s*IntervalTime:\s*(\d+)", text)
    if match is None:
        return False
    count, hold, interval = map(int, match.groups())
    return 1 <= count <= 10 and hold <= 60_000 and interval <= 60_000


def match_items(
    sends: Sequence[tuple[int, DataType]], receives: Sequence[tuple[int, DataType]], rank: int
) -> list[tuple[int, int]]:
    """Which receive gets which of a batch's sends of a rank to itself: pairs of positions. Items are counts and data types.

    A send goes to the first receive of its count and data type that is left (``ProcessSelfSendRecvTasks`` of HCCL's sources).
    ValueError where one is left alone.
    """
    unmatched, pairs = dict(enumerate(receives)), []
    for number, item in enumerate(sends):
        place = next((place for place, receive in unmatched.items() if receive == item), None)
        if place is None:
            raise ValueError(_alone("send", item, rank, "receive from"))
        del unmatched[place]
        pairs.append((number, place))
    for item in unmatched.values():
        raise ValueError(_alone("receive", item, rank, "send to"))
    return pairs


def _alone(kind: str, item: tuple[int, DataType], rank: int, other: str) -> str:
    text = f"the batch has a {kind} of {item[0]} elements of {item[1].name} with rank {rank}, this rank itself"
    return f"{text}, and no {other} itself of the same count and data type"
