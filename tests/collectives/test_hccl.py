"""What HCCL takes and refuses: data types by product, HcclCommConfig; and that nothing is left of what fails half-way."""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Callable

import ml_dtypes
import numpy as np
import pytest
from rank_tools import Crew

import ascend_aclnn as aclnn
from ascend_aclnn import AclError, Communicator, CommunicatorConfig, catalog
from ascend_aclnn.backends.npu.communication import Hccl
from ascend_aclnn.core.dtypes import DataType
from ascend_aclnn.core.hccl import CONFIG_BYTES, DEFAULT_CONFIG, REDUCTIONS, HcclDataType, supports

BACKENDS = ("numpy", "emulator")


A2, NEW_950 = "Ascend910B1", "Ascend950PR_9599"


def start(backend: str, request: pytest.FixtureRequest, soc: str, size: int = 2) -> Crew:
    home = str(request.getfixturevalue("emulator_home")) if backend == "emulator" else ""
    return Crew(size, "npu" if home else "numpy", soc, home)


@pytest.fixture(scope="module")
def crews() -> Iterator[dict[tuple[str, str], Crew]]:
    """Two ranks by backend and SoC, started when first asked for."""
    started: dict[tuple[str, str], Crew] = {}
    yield started
    for crew in started.values():
        crew.close()


def shared_crew(backend: str, request: pytest.FixtureRequest, soc: str) -> Crew:
    """Ranks for tests that leave them as they were."""
    crews: dict[tuple[str, str], Crew] = request.getfixturevalue("crews")
    if (backend, soc) not in crews:
        crews[backend, soc] = start(backend, request, soc)
    return crews[backend, soc]


# ------------------------------------------------------------------------------------------------- data types

# As the document of HcclAllReduce has them; its "bfp16" is BFP16.
DOCUMENTED = {
    "950": "int8 int16 int32 int64 uint64 fp16 fp32 fp64 bfp16",
    "A3": "int8 int16 int32 int64 fp16 fp32 bfp16",
    "A2": "int8 int16 int32 int64 fp16 fp32 bfp16",
    "910": "int8 int32 int64 fp16 fp32",
    "310P": "int8 int16 int32 fp16 fp32",
}


def test_data_types_are_those_of_the_headers() -> None:
    values = json.loads((catalog.DATA / "enums.json").read_text())["HcclDataType"]
    ours = {f"HCCL_DATA_TYPE_{kind.name}": int(kind) for kind in HcclDataType}
    assert ours == {name: value for name, value in values.items() if not name.endswith("RESERVED")}


@pytest.mark.parametrize("product", DOCUMENTED)
def test_reductions_are_the_documented_ones(product: str) -> None:
    summed = {HcclDataType[name.upper()] for name in DOCUMENTED[product].split()}
    not_multiplied = {"910": set(), "310P": {HcclDataType.INT16}}.get(product, {HcclDataType.INT16, HcclDataType.BFP16})
    not_compared = {HcclDataType.INT16} if product == "310P" else set()
    expected = {
        "sum": summed,
        "prod": summed - not_multiplied,
        "max": summed - not_compared,
        "min": summed - not_compared,
    }
    for reduction in REDUCTIONS:
        assert {kind for kind in HcclDataType if supports(product, kind, reduction)} == expected[reduction], reduction


FLOAT8: list[Any] = [
    *(ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.float8_e8m0fnu),
    DataType.HIFLOAT8.numpy,
]


def every_byte(dtype: Any, rank: int) -> Any:
    return np.roll(np.arange(256, dtype=np.uint8), rank).view(dtype)


def move_float8(comm: Communicator) -> int:
    """Every collective that moves, on every bit pattern, NaNs among them; then those that compute, which are refused."""
    ranks = range(comm.size)
    for dtype in FLOAT8:
        parts = [every_byte(dtype, rank) for rank in ranks]
        mine, everything = aclnn.asarray(parts[comm.rank]), np.concatenate(parts).tobytes()
        out = aclnn.empty(mine.shape, dtype)
        halves = b"".join(part.tobytes()[128 * comm.rank :][:128] for part in parts)
        peer = 1 - comm.rank
        found = {
            "all_gather": comm.all_gather(mine),
            "all_gather_v": comm.all_gather_v(mine, [256, 256]),
            "broadcast": comm.broadcast(mine.copy(), 1),
            "scatter": comm.scatter(
                aclnn.asarray(np.concatenate(parts)) if comm.rank == 0 else None, 0, out=out.copy()
            ),
            "all_to_all": comm.all_to_all(mine),
            "all_to_all_v": comm.all_to_all_v(mine, [128, 128], [128, 128]),
        }
        comm.batch_send_recv([("send", mine, peer), ("recv", out, peer)])
        found["recv"] = out
        expected = {"broadcast": parts[1], "scatter": parts[comm.rank], "recv": parts[peer]}
        for name, tensor in found.items():
            wanted = halves if "to_all" in name else everything if "gather" in name else expected[name].tobytes()
            assert np.asarray(tensor).tobytes() == wanted, (name, dtype)
        reductions: list[Callable[[], Any]] = [
            lambda mine=mine: comm.all_reduce(mine),
            lambda mine=mine: comm.reduce(mine, 0),
            lambda mine=mine: comm.reduce_scatter(mine, "max"),
            lambda mine=mine: comm.reduce_scatter_v(mine, [128, 128], "prod"),
        ]
        for reduce in reductions:
            with pytest.raises(AclError) as caught:
                reduce()
            assert caught.value.status == 5
    comm.barrier()
    return len(FLOAT8)


@pytest.mark.parametrize("backend", BACKENDS)
def test_float8_is_moved_and_not_reduced(backend: str, request: pytest.FixtureRequest) -> None:
    assert shared_crew(backend, request, NEW_950).run(move_float8) == [4, 4]


def reduce_all(comm: Communicator, soc_types: list[str]) -> list[str]:
    """What of all types and reductions is refused, as "type op"; what is not must give the right result."""
    refused = []
    for name in soc_types:
        dtype = np.dtype(getattr(ml_dtypes, name, name))
        for op in REDUCTIONS:
            x = np.array([1, 2, 3]).astype(dtype)
            try:
                y = np.asarray(comm.all_reduce(aclnn.asarray(x), op))
            except AclError as error:
                assert error.status == 5 and error.routine == "HcclAllReduce", error
                refused.append(f"{name} {op}")
                continue
            expected = {"sum": [2, 4, 6], "prod": [1, 4, 9], "max": [1, 2, 3], "min": [1, 2, 3]}[op]
            assert y.dtype == dtype and y.astype(float).tolist() == expected, (name, op)
    return refused


TYPES = "int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 bfloat16 bool".split()  # noqa: SIM905
ALL = [f"{{}} {op}" for op in REDUCTIONS]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("soc", "never"),
    [
        (A2, "uint8 uint16 uint32 uint64 float64 bool"),
        (NEW_950, "uint8 uint16 uint32 bool"),
    ],
)
def test_every_type_and_reduction(soc: str, never: str, backend: str, request: pytest.FixtureRequest) -> None:
    for refused in shared_crew(backend, request, soc).run(reduce_all, TYPES):
        assert isinstance(refused, list), refused
        expected = {text.format(name) for name in never.split() for text in ALL}
        assert set(refused) == expected | {"int16 prod", "bfloat16 prod"}


def by_c(comm: Communicator, kind: int) -> tuple[int, bool, int, int]:
    """HcclAllGather of 16 bytes of each rank as so many elements of a type that Tensors do not have; then refusals."""
    hccl, endpoint = comm._endpoint._hccl, comm._endpoint  # type: ignore[attr-defined]
    width = 16 if kind == HcclDataType.INT128 else 1
    x, y = aclnn.asarray(np.arange(16, dtype=np.uint8) + 240 * comm.rank), aclnn.zeros((32,), np.uint8)
    aclnn.synchronize()
    created = aclnn.Stream()
    stream = created.handle
    status = hccl.function("HcclAllGather")(x.data_ptr, y.data_ptr, 16 // width, kind, endpoint.handle, stream)
    aclnn.synchronize()
    right = y.tolist() == [*range(16), *range(240, 256)]
    reduce = hccl.function("HcclAllReduce")
    refused = reduce(x.data_ptr, y.data_ptr, 1, kind, 0, endpoint.handle, stream)
    return status, right, refused, reduce(x.data_ptr, y.data_ptr, 1, HcclDataType.FP32, 4, endpoint.handle, stream)


@pytest.mark.parametrize(
    ("soc", "kind", "status"),
    [
        (A2, HcclDataType.INT128, 0),
        (NEW_950, HcclDataType.INT128, 5),
        (NEW_950, HcclDataType.HIF8, 0),
        (NEW_950, 13, 5),
    ],
)
def test_types_that_tensors_do_not_have(soc: str, kind: int, status: int, request: pytest.FixtureRequest) -> None:
    assert shared_crew("emulator", request, soc).run(by_c, int(kind)) == [(status, status == 0, 5, 5)] * 2


# ------------------------------------------------------------------------------------------------- configuration

STRUCTURE = """
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
typedef struct {
    char reserved[24]; uint32_t hcclBufferSize; uint32_t hcclDeterministic; char hcclCommName[128]; char hcclUdi[128];
    uint32_t hcclOpExpansionMode; uint32_t hcclRdmaTrafficClass; uint32_t hcclRdmaServiceLevel; uint32_t hcclWorldRankID;
    uint64_t hcclJobID; uint8_t aclGraphZeroCopyEnable; int32_t hcclExecTimeOut; char hcclAlgo[1600];
    char hcclRetryEnable[50]; char hcclRetryParams[128]; char hcclBufferName[128]; uint32_t hcclQos;
    uint64_t hcclSymWinMaxMemSizePerRank; uint32_t hcclChannelSqDepth;
} config;
int main(int count, char **files) {
    config c;
    FILE *file = fopen(files[1], "rb");
    if (count != 2 || file == NULL || fread(&c, 1, sizeof c, file) != sizeof c || fgetc(file) != EOF) return 1;
    printf("%zu %#x %u %u %s %s %u %u %u %u %llu %u %d %s %s %s %s %u %llu %u\\n", *(size_t *)&c, ((uint32_t *)&c)[2],
        c.hcclBufferSize, c.hcclDeterministic, c.hcclCommName, c.hcclUdi, c.hcclOpExpansionMode, c.hcclRdmaTrafficClass,
        c.hcclRdmaServiceLevel, c.hcclWorldRankID, (unsigned long long)c.hcclJobID, c.aclGraphZeroCopyEnable, c.hcclExecTimeOut,
        c.hcclAlgo, c.hcclRetryEnable, c.hcclRetryParams, c.hcclBufferName, c.hcclQos,
        (unsigned long long)c.hcclSymWinMaxMemSizePerRank, c.hcclChannelSqDepth);
    return 0;
}
"""
FULL = CommunicatorConfig(
    *(7, 1, "ring", "mine", 2, 132, 4, 3, 1 << 40, 1, 60, "level0:NA;level1:ring", "L1:1,L2:0"),
    *("MaxCnt:1,HoldTime:2,IntervalTime:3", "shared", 5, 8, 64),
)


def test_the_structure_is_that_of_the_document(tmp_path: Path) -> None:
    """Read back by a C program with the document's structure."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler: the layout of HcclCommConfig is not compared")
    (tmp_path / "config.c").write_text(STRUCTURE)
    (tmp_path / "config").write_bytes(FULL.pack())
    subprocess.run([compiler, str(tmp_path / "config.c"), "-o", str(tmp_path / "read")], check=True)
    found = subprocess.run([tmp_path / "read", tmp_path / "config"], capture_output=True, text=True, check=True)
    expected = f"{CONFIG_BYTES} 0xf0f0f0f0 " + " ".join(str(value) for value in dataclasses.astuple(FULL))
    assert found.stdout.strip() == expected


def test_a_configuration_survives_its_structure() -> None:
    assert CommunicatorConfig.unpack(FULL.pack()) == FULL
    assert CommunicatorConfig.unpack(DEFAULT_CONFIG.pack()) == DEFAULT_CONFIG
    older = bytearray(FULL.pack()[:300])  # CANN 8.1: version 5, without what came later
    older[:8], older[12:16] = (300).to_bytes(8, "little"), (5).to_bytes(4, "little")
    read = CommunicatorConfig.unpack(bytes(older))
    assert (read.name, read.buffer_size, read.service_level) == ("ring", 7, 4)
    assert (read.job, read.exec_timeout, read.algo) == (0, None, "")


REFUSED = [
    {"buffer_size": 0},
    {"deterministic": 3},
    {"acl_graph_zero_copy": 2},
    {"algo": "level0:NA;level0:ring"},
    {"algo": "level1:star"},
    {"algo": "allreduce=level0:NA/level1:ring"},
    {"retry_enable": "L1:1,"},
    {"retry_params": "MaxCnt:11, HoldTime:5000, IntervalTime:1000"},
    {"retry_params": "three times"},
]


def configured(comm: Communicator, info: bytes, index: int) -> tuple[str, str, str]:
    """Communicators with names; one that HCCL refuses; one that does not wait long for the other rank."""
    values = REFUSED[index]
    with pytest.raises(AclError) as caught:
        Communicator.from_root_info(info, comm.rank, comm.size, config=CommunicatorConfig(**values))
    assert caught.value.status == 1 and next(iter(values)) in str(caught.value), caught.value
    config = CommunicatorConfig(udi="test", buffer_size=64, deterministic=2, op_expansion_mode=2, qos=3, job=1 << 33)
    with Communicator.from_root_info(info, comm.rank, comm.size, name=f"chosen{index}", config=config) as named:
        assert np.asarray(named.all_reduce(aclnn.ones(3, np.float32))).tolist() == [2, 2, 2]
        part, other = named.split([0, 1], config=CommunicatorConfig(name="part")), named.split([1, 0])
        assert part is not None and other is not None
        assert np.asarray(part.all_gather(aclnn.asarray(np.array([comm.rank], np.int32)))).tolist() == [0, 1]
        with part, other:
            return named.name, part.name, other.name


@pytest.mark.parametrize("backend", BACKENDS)
def test_configurations(backend: str, request: pytest.FixtureRequest) -> None:
    ranks = shared_crew(backend, request, A2)
    for index in range(len(REFUSED)):
        with aclnn.use_backend("numpy"):
            info = Communicator.root_info()
        names = (f"chosen{index}", "part", f"chosen{index}_sub_2")
        assert ranks.run(configured, info, index) == [names] * 2, REFUSED[index]


def wait_alone(comm: Communicator) -> tuple[int, str]:
    hasty = comm.split([0, 1], config=CommunicatorConfig(exec_timeout=1))
    assert hasty is not None
    with hasty:
        found = (0, "")
        hasty.barrier()  # the first one waits longer: for links
        if comm.rank == 0:
            try:
                hasty.barrier()
                aclnn.synchronize()
                hasty.check()
            except AclError as error:
                found = error.status, str(error)
        comm.barrier()
        aclnn.synchronize()
    return found


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_collective_waits_as_long_as_is_chosen(backend: str, request: pytest.FixtureRequest) -> None:
    ranks = start(backend, request, "")
    try:
        (status, text), _ = ranks.run(wait_alone)
        assert status in (9, 507057) and "rank 1 did not answer rank 0 in time" in text
    finally:
        ranks.close()


def test_what_no_field_can_hold_is_refused() -> None:
    for values, text in (
        ({"name": "x" * 128}, "name has 128 bytes; it must have less than 128"),
        ({"algo": "a\0b"}, "none of them 0"),
        ({"buffer_size": -1}, "buffer_size is -1"),
        ({"qos": 1 << 32}, "qos is 4294967296"),
    ):
        with pytest.raises(ValueError, match=text):
            CommunicatorConfig(**values).pack()  # type: ignore[arg-type]


def statuses(comm: Communicator) -> list[int]:
    """What HCCL answers to wrong pointers and numbers."""
    hccl, endpoint = comm._endpoint._hccl, comm._endpoint  # type: ignore[attr-defined]
    made, parent = ctypes.c_void_p(), ctypes.c_void_p(endpoint.handle.value)
    ranks, config = (ctypes.c_uint32 * 1)(0), ctypes.create_string_buffer(DEFAULT_CONFIG.pack())
    nothing = ctypes.create_string_buffer(CONFIG_BYTES)
    root = ctypes.create_string_buffer(Communicator.root_info(), 4108)
    address, none = ctypes.addressof, 0xFFFFFFFF
    split, init = hccl.function("HcclCreateSubCommConfig"), hccl.function("HcclCommInitRootInfoConfig")
    of = (address(parent), 1)
    return [
        split(*of, address(ranks), 5, 0, None, address(made)),
        split(*of, address(ranks), 5, 0, address(nothing), address(made)),
        split(*of, address(ranks), none, 0, address(config), address(made)),
        split(*of, None, 5, 0, address(config), address(made)),
        split(*of, address(ranks), 5, 1, address(config), address(made)),
        split(*of, None, none, 0, None, address(made)),
        init(1, address(root), 0, None, address(made)),
        init(1, address(root), 0, address(nothing), address(made)),
    ]


def test_statuses_of_wrong_arguments(request: pytest.FixtureRequest) -> None:
    ranks = start("emulator", request, "", 1)
    try:
        assert ranks.run(statuses) == [[2, 1, 1, 1, 1, 0, 2, 1]]
    finally:
        ranks.close()


# ------------------------------------------------------------------------------------------------- failures


class _Device:
    index = 0


class _Runtime:
    devices = dict.fromkeys(range(5))

    def current(self) -> _Device:
        return _Device()

    def usable(self) -> bool:
        return True

    def drain(self) -> None:
        pass

    def stream(self, device: int, handle: int) -> None:
        pass

    def on(self, device: Any) -> Any:
        return contextlib.nullcontext()

    def recent_error(self) -> str:
        return ""


class _Session:
    runtime = _Runtime()

    def target(self, stream: Any) -> Any:
        return None


class FailingHccl(Hccl):
    """A libhccl that counts its communicators, and whose n-th call fails."""

    def __init__(self, failing: int) -> None:
        self.session = _Session()  # type: ignore[assignment]
        self.communicators = set()
        self.failing, self.calls = failing, 0
        self.alive: set[int] = set()
        self.made = 0

    def function(self, name: str) -> Any:
        return {"HcclGetErrorString": lambda status: b"", "HcclGetCommConfigCapability": lambda: 12}.get(
            name, lambda *arguments: self._called(name, arguments)
        )

    def _called(self, name: str, arguments: tuple[Any, ...]) -> int:
        if name == "HcclCommDestroy":
            self.alive.remove(arguments[0].value)  # KeyError for one that is destroyed twice
            return 0
        self.calls += 1
        if self.calls == self.failing:
            return 4
        if "Init" in name or "Create" in name:
            count = arguments[0] if name == "HcclCommInitAll" else 1
            handles = (ctypes.c_void_p * count).from_address(arguments[-1])
            for index in range(count):
                self.made += 1
                self.alive.add(self.made)
                handles[index] = self.made
        return 0


MAKING: dict[str, Callable[[FailingHccl], Any]] = {
    "root info": lambda hccl: [hccl.join(bytes(4108), 0, 1, DEFAULT_CONFIG)],
    "configured": lambda hccl: [hccl.join(bytes(4108), 0, 1, CommunicatorConfig(name="x"))],
    "rank table": lambda hccl: [hccl.join_cluster("table.json", 0, DEFAULT_CONFIG)],
    "devices": lambda hccl: hccl.join_devices([0, 1, 2, 3, 4]),
}


@pytest.mark.parametrize("way", MAKING)
def test_nothing_is_left_where_a_call_fails(way: str) -> None:
    """Each call of each way to make communicators fails once."""
    whole = FailingHccl(0)
    made = MAKING[way](whole)
    assert len(whole.alive) == len(made) and whole.calls >= 3
    for communicator in made:
        communicator.close()
        communicator.close()
    assert not whole.alive
    for failing in range(1, whole.calls + 1):
        hccl = FailingHccl(failing)
        with pytest.raises(AclError):
            MAKING[way](hccl)
        assert not hccl.alive and not hccl.communicators, f"call {failing} of {whole.calls}"


def test_a_split_that_fails_leaves_its_parent() -> None:
    for failing in range(4, 7):
        hccl = FailingHccl(failing)
        parent = hccl.join(bytes(4108), 0, 1, DEFAULT_CONFIG)
        with pytest.raises(AclError):
            parent.split([0], 1, DEFAULT_CONFIG)
        assert hccl.alive == {1}
        parent.close()
