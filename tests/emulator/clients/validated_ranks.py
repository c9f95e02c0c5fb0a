"""Two ranks that share memory, with and without an order between them: a function for each case, whose name findings show."""

import ctypes
import json
import subprocess
import sys

import numpy as np
from emulator_client import Cann

FLOAT, SUM, ANYBODY, KEY_BYTES, IPC_EVENT = 4, 0, 1, 65, 64


class EventHandle(ctypes.Structure):
    _fields_ = [("reserved", ctypes.c_char * 64)]


class Rank:
    def __init__(self, number, talk):
        self.number, self.talk = number, talk
        self.cann = Cann()
        self.library = ctypes.CDLL("libhccl.so")
        self.cann.aclrtSetDevice(number)
        self.first, self.second = (self.cann.create("aclrtCreateStream") for _ in range(2))
        self.comm, self.back = self.join(), self.join()
        self.own, self.out, self.x, self.y = (self.cann.tensor(np.ones((4, 8), np.float32)) for _ in range(4))
        self.open()
        self.reduce(self.first)  # the first call of a kind waits for the other rank
        self.message(self.comm, 0, self.first)
        self.message(self.back, 1, self.first)
        self.meet()

    def join(self):
        root, comm = (ctypes.c_char * 4108)(), ctypes.c_void_p()
        if self.number == 0:
            self.hccl("GetRootInfo", root)
            self.say(bytes(root).hex())
        else:
            ctypes.memmove(root, bytes.fromhex(self.hear()), len(root))
        self.hccl("CommInitRootInfo", 2, root, self.number, ctypes.byref(comm))
        return comm

    def hccl(self, name, *arguments):
        values = [ctypes.c_uint64(a) if isinstance(a, int) else a for a in arguments]
        assert getattr(self.library, f"Hccl{name}")(*values) == 0, self.cann.message()

    def reduce(self, stream):
        self.hccl("AllReduce", self.own.address, self.own.address, 32, FLOAT, SUM, self.comm, stream)

    def message(self, comm, sender, stream):
        """From a rank to the other one."""
        name, tensor = ("Send", self.own) if self.number == sender else ("Recv", self.out)
        self.hccl(name, tensor.address, 32, FLOAT, 1 - self.number, comm, stream)

    def say(self, value=None):
        print(json.dumps(value), file=self.talk[1], flush=True)

    def hear(self):
        return json.loads(self.talk[0].readline())

    def open(self):
        """Memory of rank 0 that both ranks use, and an event of it."""
        if self.number == 0:
            address = self.cann.malloc(128)
            self.cann.aclrtMemset(address, 128, 0, 128)
            key = ctypes.create_string_buffer(KEY_BYTES)
            self.cann.aclrtIpcMemGetExportKey(address, 128, key, KEY_BYTES, ANYBODY)
            self.event = self.cann.create("aclrtCreateEventExWithFlag", IPC_EVENT)
            handle = EventHandle()
            self.cann.aclrtIpcGetEventHandle(self.event, ctypes.byref(handle))
            self.say([key.value.decode(), bytes(handle).hex()])
        else:
            name, event = self.hear()
            address = self.cann.create("aclrtIpcMemImportByKey", name.encode(), 1)
            handle = EventHandle.from_buffer_copy(bytes.fromhex(event))
            opened, function = ctypes.c_void_p(), self.cann.libraries[0].aclrtIpcOpenEventHandle
            function.argtypes = [EventHandle, ctypes.c_void_p]
            assert function(handle, ctypes.byref(opened)) == 0, self.cann.message()
            self.event = opened.value
        self.flag = address + 64
        self.shared = self.cann.describe((2, 8), np.float32, address)
        self.part = [self.cann.describe((2, 8), np.float32, tensor.address) for tensor in (self.x, self.y)]

    def multiply(self, source, out, stream):
        executor, _ = self.cann.prepare("aclnnMul", source, source, out)
        self.cann.aclnnMul(None, 0, executor, stream)

    def write(self, stream=None):
        self.multiply(self.part[0], self.shared, stream or self.first)

    def read(self, stream=None):
        self.multiply(self.shared, self.part[1], stream or self.first)

    def meet(self):
        """The hosts have waited for everything, and know of each other."""
        self.cann.aclrtSynchronizeDevice()
        self.say()
        self.hear()


# ------------------------------------------------------------------------------------------------------------- in order


def host_waits(rank):
    if rank.number == 0:
        rank.write()
        rank.cann.aclrtSynchronizeStream(rank.first)
        rank.say()
    else:
        rank.hear()
        rank.read()


def event_is_shared(rank):
    for _ in range(2):
        if rank.number == 0:
            rank.write()
            rank.cann.aclrtRecordEvent(rank.event, rank.first)
            rank.say()
            rank.hear()
            rank.cann.aclrtStreamWaitEvent(rank.second, rank.event)
            rank.write(rank.second)
            rank.cann.aclrtSynchronizeStream(rank.second)
        else:
            rank.hear()
            rank.cann.aclrtStreamWaitEvent(rank.second, rank.event)
            rank.read(rank.second)
            rank.cann.aclrtRecordEvent(rank.event, rank.second)
            rank.say()


def host_waits_for_the_event(rank):
    if rank.number == 0:
        rank.write()
        rank.cann.aclrtRecordEvent(rank.event, rank.first)
        rank.say()
    else:
        rank.hear()
        rank.cann.aclrtSynchronizeEvent(rank.event)
        rank.read()


def collective_orders(rank):
    """Rank 1 queues everything before rank 0 begins."""
    if rank.number == 0:
        rank.hear()
        rank.write()
        rank.reduce(rank.first)
    else:
        rank.reduce(rank.first)
        rank.read()
        rank.say()


def value_orders(rank):
    """Rank 1 waits for the value before it is written."""
    if rank.number == 0:
        rank.hear()
        rank.write()
        rank.cann.aclrtValueWrite(rank.flag, 7, 0, rank.first)
    else:
        rank.cann.aclrtValueWait(rank.flag, 7, 1, rank.first)
        rank.read()
        rank.say()


def other_rank_orders(rank):
    """What rank 0 gets back comes after what it has sent: its two streams are in order."""
    if rank.number == 0:
        rank.multiply(rank.own, rank.y, rank.first)
    rank.message(rank.comm, 0, rank.first)
    rank.message(rank.back, 1, rank.second if rank.number == 0 else rank.first)
    if rank.number == 0:
        rank.multiply(rank.out, rank.y, rank.second)


# --------------------------------------------------------------------------------------------------------------- races


# Nothing waits before both have queued their part: what a host has waited for comes before all that is queued later.


def read_after_write(rank):
    if rank.number == 0:
        rank.write()
        rank.say()
        rank.hear()
    else:
        rank.hear()
        rank.read()
        rank.say()


def write_after_read(rank):
    if rank.number == 0:
        rank.hear()
        rank.write()
        rank.say()
    else:
        rank.read()
        rank.say()
        rank.hear()


def write_after_write(rank):
    """The event was recorded too early."""
    if rank.number == 0:
        rank.cann.aclrtRecordEvent(rank.event, rank.first)
        rank.write()
        rank.say()
        rank.hear()
    else:
        rank.hear()
        rank.cann.aclrtStreamWaitEvent(rank.first, rank.event)
        rank.write()
        rank.say()


def collective_of_another_stream(rank):
    if rank.number == 0:
        rank.hear()
        rank.write(rank.second)
        rank.reduce(rank.first)
        rank.say()
    else:
        rank.reduce(rank.first)
        rank.read()
        rank.say()
        rank.hear()


def other_rank_sends_first(rank):
    """What rank 0 gets does not depend on what it sends."""
    if rank.number == 0:
        rank.multiply(rank.own, rank.y, rank.first)
        rank.message(rank.comm, 0, rank.first)
        rank.message(rank.back, 1, rank.second)
        rank.multiply(rank.out, rank.y, rank.second)
        rank.say()
    else:
        rank.message(rank.back, 1, rank.first)
        rank.message(rank.comm, 0, rank.first)
        rank.hear()


ORDERED = (
    host_waits,
    event_is_shared,
    host_waits_for_the_event,
    collective_orders,
    value_orders,
    other_rank_orders,
)
RACES = (read_after_write, write_after_read, write_after_write, collective_of_another_stream, other_rank_sends_first)


def main(number, talk):
    rank = Rank(number, talk)
    for case in (*ORDERED, *RACES):
        print(number, case.__name__, file=sys.stderr, flush=True)
        case(rank)
        rank.meet()
    if number == 0:
        rank.cann.aclrtValueWrite(rank.flag, 0, 0, rank.first)
    rank.meet()


if __name__ == "__main__":
    if len(sys.argv) == 1:
        other = subprocess.Popen(
            [sys.executable, __file__, "1"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        main(0, (other.stdout, other.stdin))
        other.stdin.close()
        sys.exit(other.wait())
    else:
        main(1, (sys.stdin, sys.stdout))
