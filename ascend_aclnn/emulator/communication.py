"""The emulated HCCL's side in the device process: communicators, and the operators that collectives are queued as.

``csrc/hccl.c`` asks for actions on communicators (``Device.communicate``) and queues HcclCollective and HcclPointToPoint,
which read and write device memory where it lies: the other ranks' device processes map it.
"""

from __future__ import annotations

import dataclasses
import hashlib
import hmac
import os
import struct
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Callable

import numpy as np
import numpy.typing as npt

from ascend_aclnn import catalog
from ascend_aclnn.catalog.headers import operator_from_prototype
from ascend_aclnn.collectives import groups
from ascend_aclnn.collectives.algorithms import REDUCTIONS, Buffer, Collectives
from ascend_aclnn.collectives.interface import DEVICE, CommunicationError, Location, RootInfo, TimedOut, rank_table_info
from ascend_aclnn.core.dtypes import DataType, as_datatype
from ascend_aclnn.core.errors import AclError
from ascend_aclnn.emulator.protocol import Collective, Communication, Descriptor
from ascend_aclnn.reference import reference

PARAMETER, NOT_FOUND, TIMEOUT, REMOTE = 1, 6, 9, 21  # of HcclResult

_ACTION = struct.Struct("<IIIIQ128s")
_PROTOTYPES = (
    "aclnnStatus aclnnHcclCollectiveGetWorkspaceSize(const char *comm, int64_t operation, int64_t reduction, int64_t root, "
    "const aclIntArray *counts, const aclTensor *send, aclTensor *receive, uint64_t *workspaceSize, aclOpExecutor **executor);",
    "aclnnStatus aclnnHcclPointToPointGetWorkspaceSize(const char *comm, const aclIntArray *destinations, "
    "const aclTensorList *sends, const aclIntArray *sources, aclTensorList *receives, uint64_t *workspaceSize, "
    "aclOpExecutor **executor);",
)
_CHANGED = ("receive", "receives")

Array = npt.NDArray[Any]


class Communicators:
    """The communicators of one device, by name."""

    def __init__(self, memory: npt.NDArray[np.uint8]) -> None:
        self._base = memory.ctypes.data
        self._members: dict[str, Collectives] = {}
        self._ranks: dict[str, groups.Ranks] = {}
        self._secrets: dict[str, bytes] = {}
        self._lock = threading.Lock()
        self._actions: dict[int, Callable[[int, int, int, str, bytes], bytes]] = {
            Communication.JOIN: self._join,
            Communication.CLUSTER: self._join_cluster,
            Communication.SPLIT: self._split,
            Communication.LEAVE: self._leave,
            Communication.STATE: self._state,
            Communication.ABORT: self._abort,
            Communication.RESUME: self._resume,
        }
        _register(self)

    def act(self, payload: bytes) -> tuple[int, bytes]:
        """One request of hccl.c: a HcclResult, and what came of it or what went wrong."""
        action, rank, size, _, number, name = _ACTION.unpack_from(payload)
        try:
            text = payload[_ACTION.size :]
            return 0, self._actions[action](rank, size, number, name.rstrip(b"\0").decode(), text)
        except TimedOut as error:
            return TIMEOUT, str(error).encode()
        except CommunicationError as error:
            return REMOTE, str(error).encode()
        except KeyError as error:
            return NOT_FOUND, f"no communicator is called {error}".encode()
        except (ValueError, OSError) as error:
            return PARAMETER, str(error).encode()

    def _join(self, rank: int, size: int, number: int, name: str, root_info: bytes) -> bytes:
        collectives = Collectives.join(root_info, rank, size, device_memory=Descriptor.MEMORY)
        name = name or "hccl_" + hashlib.sha256(b"name" + root_info).hexdigest()[:16]
        with self._lock:
            if name in self._members:
                collectives.group.close()
                raise ValueError(f"a communicator of this process is called {name!r} already")
            self._members[name] = collectives
            self._ranks[name] = groups.enter(name, self._members[name])
            self._secrets[name] = root_info
        return struct.pack("<II", rank, size) + name.encode()

    def _join_cluster(self, rank: int, size: int, number: int, name: str, path: bytes) -> bytes:
        info, ranks = rank_table_info(Path(os.fsdecode(path)))
        return self._join(rank, ranks, number, name, info.pack())

    def _split(self, rank: int, size: int, number: int, name: str, text: bytes) -> bytes:
        parent = text[:128].rstrip(b"\0").decode()
        members = struct.unpack(f"<{size}I", text[128:])
        if len(set(members)) != size or max(members) >= self._members[parent].group.size:
            raise ValueError(f"rankIds are {members}; they must be different ranks of {parent}")
        seed = hmac.digest(self._secrets[parent], b"sub %d " % number + text[128:], "sha256")
        return self._join(
            rank, size, number, name, RootInfo.of(seed, RootInfo.parse(self._secrets[parent]).address).pack()
        )

    def _leave(self, rank: int, size: int, number: int, name: str, text: bytes) -> bytes:
        with self._lock:
            self._secrets.pop(name, None)
            members = self._members.pop(name)
            groups.leave(self._ranks.pop(name))
            members.group.close()
        return b""

    def _state(self, rank: int, size: int, number: int, name: str, text: bytes) -> bytes:
        failure = self._members[name].group.failure
        if failure is not None:
            raise CommunicationError(failure)
        return b""

    def _abort(self, rank: int, size: int, number: int, name: str, text: bytes) -> bytes:
        self._members[name].group.fail("the communicator was aborted")
        return b""

    def _resume(self, rank: int, size: int, number: int, name: str, text: bytes) -> bytes:
        self._members[name].resume()
        return b""

    # ---------------------------------------------------------------------------------------- collectives
    def find(self, name: str) -> Collectives:
        try:
            return self._members[name]
        except KeyError:
            raise AclError(groups.REMOTE_ERROR, "HcclCollective", f"no communicator is called {name!r}") from None

    def buffer(self, array: Array) -> Buffer:
        """Device memory where peers can read it in place."""
        return Buffer(array, Location(DEVICE, array.ctypes.data - self._base))

    def run(
        self, comm: str, operation: int, reduction: int, root: int, counts: Sequence[int], send: Array, receive: Array
    ) -> None:
        member = self.find(comm)
        size, dtype = member.group.size, as_datatype(receive.dtype)
        name = REDUCTIONS[reduction]
        if operation == Collective.BARRIER:
            member.barrier()
        elif operation == Collective.ALL_REDUCE:
            member.all_reduce(self.buffer(send), receive, dtype, name)
        elif operation == Collective.REDUCE:
            member.reduce(self.buffer(send), receive if member.group.rank == root else None, dtype, root, name)
        elif operation == Collective.BROADCAST:
            member.broadcast(self.buffer(receive), dtype, root)
        elif operation == Collective.SCATTER:
            member.scatter(self.buffer(send), receive, dtype, root)
        elif operation == Collective.REDUCE_SCATTER:
            self._reduce_scatter(member, counts, send, receive, dtype, name)
        elif operation == Collective.ALL_GATHER:
            starts, sizes = _parts(counts, size, receive.size)
            targets = [receive[s : s + n] for s, n in zip(starts, sizes)]
            member.all_gather(self.buffer(send), targets, dtype, sizes)
        else:
            starts, sizes = _parts(counts[: 2 * size], size, send.size)
            targets_at = _parts(counts[2 * size :], size, receive.size)
            targets = [receive[s : s + n] for s, n in zip(*targets_at)]
            member.all_to_all(self.buffer(send), starts, sizes, targets, dtype)

    def _reduce_scatter(
        self, member: Collectives, counts: Sequence[int], send: Array, receive: Array, dtype: DataType, reduction: str
    ) -> None:
        starts, sizes = _parts(counts, member.group.size, send.size)
        member.reduce_scatter(self.buffer(send), receive, dtype, sizes, reduction, starts)

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


def _parts(counts: Sequence[int], size: int, total: int) -> tuple[list[int], list[int]]:
    """Starts and sizes of each rank's part: as given, else equal ones."""
    if counts:
        return list(counts[:size]), list(counts[size : 2 * size])
    part = total // size
    return [part * rank for rank in range(size)], [part] * size


def _register(communicators: Communicators) -> None:
    """Makes the two operators known to this process."""
    for prototype in _PROTOTYPES:
        operator = operator_from_prototype(
            prototype, {name: "inout" for name in _CHANGED if f"*{name}," in prototype}, ()
        )
        catalog.register(dataclasses.replace(operator, family="hccl"))

    @reference("aclnnHcclCollective", raw=True, communicates=True)
    def collective(
        comm: str, operation: int, reduction: int, root: int, counts: Any, send: Array, receive: Array, out: Any
    ) -> None:
        _told(comm, lambda: communicators.run(comm, operation, reduction, root, counts or (), send, receive))

    @reference("aclnnHcclPointToPoint", raw=True, communicates=True)
    def point_to_point(comm: str, destinations: Any, sends: Any, sources: Any, receives: Any, out: Any) -> None:
        _told(
            comm, lambda: communicators.exchange(comm, destinations or (), sends or (), sources or (), receives or ())
        )


def _told(comm: str, run: Callable[[], None]) -> None:
    """A failed collective is the stream's error, as a card reports one of a remote rank."""
    try:
        run()
    except CommunicationError as error:
        raise AclError(groups.REMOTE_ERROR, "HcclCollective", f"communicator {comm}: {error}") from None
