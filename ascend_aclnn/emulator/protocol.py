"""What the libraries (``csrc/``) and the device process (``process/``) agree on; ``c_header`` is the C side of it.

Every request is a length, a call and a payload, every answer a length, a status and a payload; ``csrc/nnopbase/executor.c`` makes
the payloads. Launches go through a ring in shared memory instead (``csrc/ring/ring.h``), and only what they have to say goes
over the socket.
"""

from __future__ import annotations

from enum import IntEnum

from ascend_aclnn.catalog import Kind, Operator


class Descriptor(IntEnum):
    """The descriptors that the device process starts with."""

    CONTROL = 3  # the socket over which connections arrive; the process ends with it
    MEMORY = 4  # the device memory


class Call(IntEnum):
    """The requests."""

    PREPARE = 1  # phase one: checks arguments and keeps them as a plan
    LAUNCH = 2  # phase two: runs a plan on addresses; of launches that are too long for the ring
    DROP = 3  # forgets plans
    COMMUNICATE = 4  # does something to a communicator
    SINGLE = 5  # phase one of a single operator, by its type name; its plan runs once
    MAP = 6  # maps a part of a file of the client's at addresses of the device
    PROFILE = 7  # hands over when launches with a correlation have run: it, begin and end of each (u64)
    PROGRAM = 8  # keeps the steps of a captured graph as a program, which is launched like a plan
    REPLACE = 9  # replaces a step of a program
    INFER = 10  # descriptions of the outputs that arguments without outputs have
    KERNEL = 11  # a kernel that was launched as a binary, and its arguments: a plan that runs once
    MOVE = 12  # where a plan that only moves elements takes bytes of its inputs to


class Step(IntEnum):
    """What a step of a program does; the words behind it are its operands."""

    LAUNCH = 1  # a plan on addresses: plan, offsets
    COPY = 2  # within the device memory: target, bytes, source
    FILL = 3  # target, bytes, value
    SKIP = 4  # nothing: a step that a client has disabled


class Record(IntEnum):
    """The second word of a record in the ring: what it is, and what has become of it."""

    PLAIN = 0  # not done yet, or done with nothing to say
    ANSWERED = 1  # done, and an answer is on the socket
    FILLER = 2  # no launch: the ring's end comes before the next one
    AFTER = 3  # as PLAIN; skipped where the launch before it has failed, or was skipped
    DROPPED = 4  # skipped, unless it has begun: the client aborts


class Ring(IntEnum):
    """The ring of a connection, in bytes (see ``csrc/ring/ring.h``)."""

    HEAD = 128  # before the records
    RECORDS = 1 << 16
    HEADER = 16  # of a record: its length in words, and a Record
    KIND_BITS = 8  # of the word with the Record; above them is the correlation of a launch whose times are noted, or 0


# In the answer of a launch, where a tensor's number and rank would be: bytes that it has left unwritten follow, offset and count.
TOLD_UNWRITTEN = -1

# In the answer to Call.KERNEL: nothing says how many bytes a kernel reads or writes at a pointer.
UNDECLARED = 2**64 - 1


class Communication(IntEnum):
    """What can be done to a communicator."""

    JOIN = 1
    CLUSTER = 2  # join by a rank table
    SPLIT = 3
    LEAVE = 4
    STATE = 5
    ABORT = 6
    RESUME = 7
    WINDOW = 8  # shares a window with peers
    LINK = 9  # waits for peers before the first of a kind of collectives


class Collective(IntEnum):
    """The collectives, as the operator HcclCollective names them."""

    BARRIER = 0
    ALL_REDUCE = 1
    REDUCE = 2
    BROADCAST = 3
    SCATTER = 4
    REDUCE_SCATTER = 5
    ALL_GATHER = 6
    ALL_TO_ALL = 7


class Where(IntEnum):
    """Where the bytes of an input or output of a single operator are."""

    ABSENT = 0
    DEVICE = 1
    CONSTANT = 2  # in the request


# The letter of a kind of parameter; every other kind is an integer.
LETTERS = {
    Kind.TENSOR: "T",
    Kind.TENSOR_LIST: "L",
    Kind.SCALAR: "S",
    Kind.SCALAR_LIST: "M",
    Kind.INT_ARRAY: "I",
    Kind.FLOAT_ARRAY: "F",
    Kind.BOOL_ARRAY: "B",
    Kind.STRING: "s",
    Kind.DOUBLE: "d",
}
INTEGER = "i"


def letter(kind: Kind) -> str:
    """The letter of one kind; a float travels as the double that it becomes."""
    return LETTERS.get(Kind.DOUBLE if kind is Kind.FLOAT else kind, INTEGER)


def kinds(operator: Operator) -> str:
    """A letter for each parameter."""
    return "".join(letter(p.kind) for p in operator.parameters)


def member(kind: Kind) -> str:
    """The member of emu_value that holds a parameter."""
    code = letter(kind)
    return "integer" if code == INTEGER else "number" if code == LETTERS[Kind.DOUBLE] else "pointer"


_NUMBERS: tuple[tuple[str, type[IntEnum]], ...] = (
    ("DESCRIPTOR", Descriptor),
    ("CALL", Call),
    ("STEP", Step),
    ("RECORD", Record),
    ("RING", Ring),
    ("WHERE", Where),
    ("COMMUNICATION", Communication),
    ("COLLECTIVE", Collective),
)


def c_header() -> str:
    """``protocol.h``: the same numbers and letters for C."""
    lines = ["/* protocol.h: made by ascend_aclnn from emulator/protocol.py. */"]
    lines += ["#ifndef EMU_PROTOCOL_H", "#define EMU_PROTOCOL_H", ""]
    for prefix, members in _NUMBERS:
        lines += [f"#define {prefix}_{m.name} {m.value}" for m in members]
    lines.append(f"#define TOLD_UNWRITTEN ({TOLD_UNWRITTEN})")
    lines.append(f"#define UNDECLARED {UNDECLARED}u")
    lines += [f"#define LETTER_{kind.name} '{text}'" for kind, text in LETTERS.items()]
    return "\n".join([*lines, "", "#endif", ""])
