"""The emulated HCCL's side in the device process: communicators, and the operators that collectives are queued as.

``csrc/hccl/hccl.c`` asks for actions on communicators (``Device.communicate``) and queues HcclCollective and HcclPointToPoint,
which read and write device memory where it lies: the other ranks' device processes map it.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import hmac
import os
import struct
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Callable, NamedTuple, Optional

import numpy as np
import numpy.typing as npt

from ascend_aclnn import catalog
from ascend_aclnn.catalog.headers import operator_from_prototype
from ascend_aclnn.collectives import groups
from ascend_aclnn.collectives.algorithms import Buffer, CollectiveCall, Collectives, Parts
from ascend_aclnn.collectives.interface import (
    DEVICE,
    KEPT_BYTES,
    CommunicationError,
    Location,
    RootInfo,
    TimedOut,
    execute_timeout,
    rank_table_info,
)
from ascend_aclnn.core.dtypes import as_datatype
from ascend_aclnn.core.errors import AclError
from ascend_aclnn.core.hccl import DEFAULT_CONFIG, REDUCTIONS, CommunicatorConfig
from ascend_aclnn.emulator.process.mappings import Mappings
from ascend_aclnn.emulator.protocol import Collective, Communication, Descriptor
from ascend_aclnn.reference import reference

PARAMETER, NOT_FOUND, TIMEOUT, REMOTE = 1, 6, 9, 21  # of HcclResult

_ACTION = struct.Struct("<IIIIQ128s")
_WINDOW = struct.Struct("<QQ")
_PROTOTYPES = (
    "aclnnStatus aclnnHcclCollectiveGetWorkspaceSize(const char *comm, int64_t operation, int64_t reduction, int64_t root, "
    "const aclIntArray *counts, const aclTensor *send, aclTensor *receive, uint64_t *workspaceSize, aclOpExecutor **executor);",
    "aclnnStatus aclnnHcclPointToPointGetWorkspaceSize(const char *comm, const aclIntArray *destinations, "
    "const aclTensorList *sends, const aclIntArray *sources, aclTensorList *receives, uint64_t *workspaceSize, "
    "aclOpExecutor **executor);",
)
_CHANGED = ("receive", "receives")

Array = npt.NDArray[Any]


class _Request(NamedTuple):
    """What hccl.c asks for: the name is that of a communicator that is there; text is a root info, a path, ranks."""

    rank: int
    size: int
    number: int
    name: str
    config: CommunicatorConfig
    text: bytes


class Queued(NamedTuple):
    """What ``aclnnHcclCollective`` has beside the communicator's name; counts are starts and counts of each rank's part."""

    operation: int
    reduction: int
    root: int
    counts: Sequence[int]
    send: Array
    receive: Array


class Communicators:
    """The communicators of one device, by name."""

    def __init__(self, memory: npt.NDArray[np.uint8], mappings: Mappings, product: str) -> None:
        self._base = memory.ctypes.data
        self._mappings = mappings
        self._product = product
        self._members: dict[str, Collectives] = {}
        self._ranks: dict[str, groups.Ranks] = {}
        self._secrets: dict[str, bytes] = {}
        self._lock = threading.Lock()
        self._actions: dict[int, Callable[[_Request], bytes]] = {
            Communication.JOIN: lambda request: self._join(request, request.text),
            Communication.CLUSTER: self._join_cluster,
            Communication.SPLIT: self._split,
            Communication.LEAVE: self._leave,
            Communication.STATE: self._state,
            Communication.ABORT: self._abort,
            Communication.RESUME: self._resume,
            Communication.WINDOW: self._share_window,
            Communication.LINK: self._link,
        }
        _register(self)

    def act(self, payload: bytes) -> tuple[int, bytes]:
        """One request of hccl.c: a HcclResult, and what came of it or what went wrong."""
        action, rank, size, config_size, number, name = _ACTION.unpack_from(payload)
        config, text = payload[_ACTION.size :][:config_size], payload[_ACTION.size + config_size :]
        try:
            chosen = CommunicatorConfig.unpack(config) if config else DEFAULT_CONFIG
            return 0, self._actions[action](_Request(rank, size, number, name.rstrip(b"\0").decode(), chosen, text))
        except AclError as error:
            return error.status, error.detail.encode()
        except TimedOut as error:
            return TIMEOUT, str(error).encode()
        except CommunicationError as error:
            return REMOTE, str(error).encode()
        except KeyError as error:
            return NOT_FOUND, f"no communicator is called {error}".encode()
        except (ValueError, OSError) as error:
            return PARAMETER, str(error).encode()

    def _join(
        self, request: _Request, root_info: bytes, default_name: str = "", processes: Optional[dict[int, int]] = None
    ) -> bytes:
        config, rank, size = request.config, request.rank, request.size
        config.check(self._product)
        name = config.name or default_name or "hccl_" + hashlib.sha256(b"name" + root_info).hexdigest()[:16]
        timeout = config.timeout(execute_timeout())
        collectives = Collectives.join(root_info, rank, size, Descriptor.MEMORY, timeout, processes)
        with self._lock:
            if name in self._members:
                collectives.group.close()
                raise ValueError(f"a communicator of this process is called {name!r} already")
            self._members[name] = collectives
            self._ranks[name] = groups.enter(name, self._members[name])
            self._secrets[name] = root_info
        return struct.pack("<II", rank, size) + name.encode()

    def _join_cluster(self, request: _Request) -> bytes:
        info, ranks = rank_table_info(Path(os.fsdecode(request.text)))
        return self._join(request._replace(size=ranks), info.pack())

    def _split(self, request: _Request) -> bytes:
        parent, ranks = request.text[:128].rstrip(b"\0").decode(), request.text[128:]
        members = struct.unpack(f"<{request.size}I", ranks)
        if len(set(members)) != request.size or max(members) >= self._members[parent].group.size:
            raise ValueError(f"rankIds are {members}; they must be different ranks of {parent}")
        seed = hmac.digest(self._secrets[parent], b"sub %d " % request.number + ranks, "sha256")
        info = RootInfo.of(seed, RootInfo.parse(self._secrets[parent]).address)
        processes = self._members[parent].processes(members)
        return self._join(request, info.pack(), f"{parent}_sub_{request.number}", processes)

    def _leave(self, request: _Request) -> bytes:
        with self._lock:
            self._secrets.pop(request.name, None)
            members = self._members.pop(request.name)
            groups.leave(self._ranks.pop(request.name))
        members.group.close()  # a collective that is under way ends first, with an error
        return b""

    def _state(self, request: _Request) -> bytes:
        failure = self._members[request.name].group.failure
        if failure is not None:
            raise CommunicationError(failure)
        return b""

    def _abort(self, request: _Request) -> bytes:
        self._members[request.name].group.fail("the communicator was aborted")
        return b""

    def _resume(self, request: _Request) -> bytes:
        self._members[request.name].resume()
        return b""

    def _link(self, request: _Request) -> bytes:
        """text: the ranks to wait for before sends and receives; empty before a collective, which is the number."""
        member = self._members[request.name]
        if request.size:
            member.link("send or receive", struct.unpack(f"<{request.size}I", request.text))
        else:
            member.link(Collective(request.number).name.lower())
        return b""

    def _share_window(self, request: _Request) -> bytes:
        """text: offset in the device memory, bytes, the ranks to share it with."""
        offset, nbytes = _WINDOW.unpack_from(request.text)
        peers = struct.unpack(f"<{request.size}I", request.text[_WINDOW.size :])
        member = self._members[request.name]
        if peers and max(peers) >= member.group.size:
            raise ValueError(f"peerRanks are {peers}; the communicator has {member.group.size} ranks")
        place = self._mappings.locate(offset, nbytes)
        if place is None:
            raise ValueError("the window lies in physical memory of several handles, or of another process")
        member.share_window(Location(DEVICE, place), nbytes, peers)
        return b""

    # ---------------------------------------------------------------------------------------- collectives
    def find(self, name: str) -> Collectives:
        try:
            return self._members[name]
        except KeyError:
            raise AclError(groups.REMOTE_ERROR, "HcclCollective", f"no communicator is called {name!r}") from None

    def buffer(self, array: Array) -> Buffer:
        """Device memory where peers can read it in place; a copy is made of what they cannot reach, and of what is small."""
        if array.nbytes <= KEPT_BYTES:
            return Buffer(array)
        offset = self._mappings.locate(array.ctypes.data - self._base, array.nbytes)
        return Buffer(array, None if offset is None else Location(DEVICE, offset))

    def run(self, comm: str, queued: Queued) -> None:
        member = self.find(comm)
        receive = queued.receive
        operation, send_parts, receive_parts = _divided(queued.operation, tuple(queued.counts), member.group.size)
        call = CollectiveCall(
            operation,
            as_datatype(receive.dtype),
            self.buffer(receive if operation == "broadcast" else queued.send),
            receive,
            REDUCTIONS[queued.reduction],
            queued.root,
            send_parts,
            receive_parts,
        )
        member.run(call)

    def exchange(
        self,
        comm: str,
        destinations: Sequence[int],
        sends: Sequence[Array],
        sources: Sequence[int],
        receives: Sequence[Array],
    ) -> None:
        outgoing = [(peer, self.buffer(array)) for peer, array in zip(destinations, sends)]
        self.find(comm).send_receive(outgoing, list(zip(sources, receives)))


@functools.lru_cache(1024)
def _divided(number: int, counts: tuple[int, ...], size: int) -> tuple[str, Optional[Parts], Optional[Parts]]:
    """A collective's name, and the parts of what it sends and receives, by a launch's numbers."""
    operation = Collective(number)
    numbers = [counts[low : low + size] for low in range(0, len(counts), size)]
    parts = list(zip(numbers[::2], numbers[1::2]))
    send_parts = None if operation == Collective.ALL_GATHER or not parts else parts[0]
    return operation.name.lower(), send_parts, parts[-1] if parts else None


def _register(communicators: Communicators) -> None:
    """Makes the two operators known to this process."""
    for prototype in _PROTOTYPES:
        operator = operator_from_prototype(
            prototype, {name: "inout" for name in _CHANGED if f"*{name}," in prototype}, ()
        )
        catalog.register(dataclasses.replace(operator, family="hccl"))

    @reference("aclnnHcclCollective", raw=True, communicates=True)
    def collective(comm: str, *values: Any, out: Any) -> None:
        operation, reduction, root, counts, send, receive = values
        queued = Queued(operation, reduction, root, counts or (), send, receive)
        _as_stream_error(comm, lambda: communicators.run(comm, queued))

    @reference("aclnnHcclPointToPoint", raw=True, communicates=True)
    def point_to_point(comm: str, destinations: Any, sends: Any, sources: Any, receives: Any, out: Any) -> None:
        _as_stream_error(
            comm, lambda: communicators.exchange(comm, destinations or (), sends or (), sources or (), receives or ())
        )


def _as_stream_error(comm: str, run: Callable[[], None]) -> None:
    """A failed collective is the stream's error, as a card reports one of a remote rank."""
    try:
        run()
    except CommunicationError as error:
        raise AclError(groups.REMOTE_ERROR, "HcclCollective", f"communicator {comm}: {error}") from None
