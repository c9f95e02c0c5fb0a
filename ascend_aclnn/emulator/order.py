"""Launches of several processes without an order between them, from what each has written of itself (``csrc/.../journal.h``).

A process knows the order of its own streams, as vector clocks. It writes down what orders it with others: what it has
published under a key (a recording of a shared event, its part in a collective) with its clock, and from which task on a
timeline comes after what others have published so. Which launches that puts into an order is known when all have written: a
rank may queue a collective, and what follows it, long before another rank does.

What the host of a process has waited for comes before everything that any process queues later: how processes talk with each
other is not seen.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable
from typing import Any, NamedTuple, Optional

Record = dict[str, Any]
Process = int
Timeline = tuple[Process, int]
Clock = dict[Timeline, int]  # the number of the last task of each timeline that has passed

COMMUNICATOR = "sync/communicator"  # a finding about no memory
HOST = 0
READ, UPDATE = 0, 1  # kinds of accesses; the third writes


class _Published(NamedTuple):
    process: Process
    clock: Clock
    hosts: Clock  # what all hosts had waited for then


class _Waits(NamedTuple):
    """A timeline's waits for other processes, in order."""

    numbers: list[int]
    published: list[list[_Published]]  # of each what it waits for, which grows until everything is read

    def count(self, number: int) -> int:
        """How many there are up to a number."""
        return bisect.bisect_right(self.numbers, number)


class _Side(NamedTuple):
    process: Process
    label: int
    timeline: Timeline
    number: int
    shown: int


class _Access(NamedTuple):
    side: _Side
    kind: int
    start: int  # in the file
    size: int
    rows: int
    pitch: int
    address: int  # minus `start`: equal ones are compared in the process
    clock: Clock
    hosts: Clock

    @property
    def end(self) -> int:
        return self.start + (self.rows - 1) * self.pitch + self.size


class _Pair(NamedTuple):
    """Two tasks of which nothing that is known yet says that the later one comes after the earlier one."""

    identifier: str
    earlier: _Side
    later: _Side
    nbytes: int
    where: str
    clock: Clock  # of the later one
    hosts: Clock
    clock_of_earlier: Clock
    hosts_of_earlier: Clock


def _satisfied(value: int, wanted: int, flag: int) -> bool:
    """Whether aclrtValueWait goes on at a value."""
    mask = (1 << 64) - 1
    if flag == 0:
        return (value - wanted & mask) < 1 << 63
    return (value == wanted, value & wanted != 0, ~(value | wanted) & mask != 0)[flag - 1]


class Order:
    """What a journal says, as far as it was added; ``findings`` compares it.

    Tasks that are in order stay so, however much is added: what ``findings`` decides once it does not look at again.
    """

    def __init__(self) -> None:
        self._labels: dict[tuple[Process, int], Record] = {}
        self._published: dict[str, list[_Published]] = {}
        self._waits: dict[Timeline, _Waits] = {}
        # Of a file, those to be compared: None: it was freed, and begins anew.
        self._new: dict[int, list[Optional[_Access]]] = {}
        self._open: dict[
            int, list[_Access]
        ] = {}  # of a file, the earlier ones that later ones may have to be compared with
        self._pairs: list[_Pair] = []
        self._hosts: Clock = {}  # with everything that comes before
        self._values: dict[tuple[int, int], list[tuple[int, list[_Published]]]] = {}  # by place: what was written
        self._expected: dict[tuple[int, int], list[tuple[int, int, list[_Published]]]] = {}  # waits for later writes

    def add(self, records: Iterable[Record]) -> None:
        """The next records of the journal."""
        for record in records:
            getattr(self, f"_add_{record['journal']}")(record["process"], record)

    # ----------------------------------------------------------------------------------------------------- reading
    def _side(self, process: Process, numbers: list[int]) -> _Side:
        label, timeline, number, shown = numbers
        return _Side(process, label, (process, timeline), number, shown)

    def _clock(self, process: Process, record: Record) -> Clock:
        return {(process, int(timeline)): number for timeline, number in record["clock"].items()}

    def _publish(self, process: Process, record: Record) -> _Published:
        return _Published(process, self._clock(process, record), self._hosts)

    def _add_side(self, process: Process, record: Record) -> None:
        self._labels[process, record["side"]] = record

    def _add_access(self, process: Process, record: Record) -> None:
        side = self._side(process, record["side"])
        start, address = record["offset"], record["address"] - record["offset"]
        sizes = record["size"], record["rows"], record["pitch"]
        clock = self._clock(process, record)
        access = _Access(side, record["kind"], start, *sizes, address, clock, self._hosts)
        self._new.setdefault(record["file"], []).append(access)
        if side.timeline[1] == HOST:  # a copy that has come to its end
            self._pass(side.timeline, side.number)

    def _add_freed(self, process: Process, record: Record) -> None:
        self._new.setdefault(record["file"], []).append(None)

    def _add_doubt(self, process: Process, record: Record) -> None:
        earlier, later = self._side(process, record["earlier"]), self._side(process, record["later"])
        self._pairs.append(
            _Pair(
                record["identifier"],
                earlier,
                later,
                record["bytes"],
                hex(record["start"]),
                self._clock(process, record),
                self._hosts,
                clock_of_earlier={earlier.timeline: earlier.number},
                hosts_of_earlier={},
            )
        )

    def _add_publish(self, process: Process, record: Record) -> None:
        self._published.setdefault(record["key"], []).append(self._publish(process, record))

    def _add_receive(self, process: Process, record: Record) -> None:
        self._wait(process, record, self._published.setdefault(record["key"], []))

    def _wait(self, process: Process, record: Record, published: list[_Published]) -> None:
        timeline = process, record["timeline"]
        waits = self._waits.setdefault(timeline, _Waits([], []))
        waits.numbers.append(record["number"])
        waits.published.append(published)
        if record["timeline"] == HOST:
            self._pass(timeline, record["number"])

    def _add_write(self, process: Process, record: Record) -> None:
        place, published = (record["file"], record["offset"]), self._publish(process, record)
        self._values.setdefault(place, []).append((record["value"], [published]))
        open_ = self._expected.get(place, [])
        for wanted, flag, waits in open_:
            if _satisfied(record["value"], wanted, flag):
                waits.append(published)
        self._expected[place] = [each for each in open_ if not _satisfied(record["value"], *each[:2])]

    def _add_wait(self, process: Process, record: Record) -> None:
        """The latest writes may end it, of which the first is certain to have come; else the first that does so later."""
        place, wanted, flag = (record["file"], record["offset"]), record["value"], record["flag"]
        published: list[_Published] = []
        for value, by in reversed(self._values.get(place, [])):
            if not _satisfied(value, wanted, flag):
                break
            published = by
        if not published:
            self._expected.setdefault(place, []).append((wanted, flag, published))
        self._wait(process, record, published)

    def _add_passed(self, process: Process, record: Record) -> None:
        self._pass((process, record["timeline"]), record["number"])

    def _pass(self, timeline: Timeline, number: int) -> None:
        """A host has waited for a timeline: all that happens from now on comes after it."""
        self._hosts, _ = self._before({timeline: number}, self._hosts)

    # ----------------------------------------------------------------------------------------------------- comparing
    def _before(self, clock: Clock, hosts: Clock) -> tuple[Clock, bool]:
        """Everything that comes before, in all processes; whether that is all."""
        result, known = dict(hosts), True
        todo: Clock = {}
        done: Clock = {}  # how many waits of each timeline
        for timeline, number in clock.items():
            if result.get(timeline, 0) < number:
                result[timeline] = todo[timeline] = number
        while todo:
            timeline, number = todo.popitem()
            waits = self._waits.get(timeline)
            if waits is None:
                continue
            first, last = max(done.get(timeline, 0), waits.count(hosts.get(timeline, 0))), waits.count(number)
            done[timeline] = max(first, last)
            for published in waits.published[first:last]:
                known = known and bool(published)
                for one in published:
                    for other, passed in (*one.clock.items(), *one.hosts.items()):
                        if result.get(other, 0) < passed:
                            result[other] = todo[other] = passed
        return result, known

    def _ordered(self, earlier: _Side, before_later: tuple[Clock, bool]) -> bool:
        return not before_later[1] or _is_known_to_follow(earlier, before_later)

    def _text(self, side: _Side, elsewhere: bool) -> tuple[str, Record]:
        """A side as findings show it."""
        label = self._labels[side.process, side.label]
        shown: Record = {**label["is"], "number": side.shown}
        member = f"[{shown['member']}]" if shown["member"] >= 0 else ""
        stream = "the host" if shown["stream"] < 0 else f"stream {shown['stream']}"
        where = f"{shown['kind']} {side.shown} of {stream}" + (f" of process {side.process}" if elsewhere else "")
        place = f", {label['place']}" if label["place"] else ""
        argument = f" {shown['argument']}" if shown["argument"] else ""
        if elsewhere:
            shown["process"] = side.process
        return f"{shown['operator']}{argument}{member} ({where}{place})", shown

    def _finding(self, identifier: str, earlier: _Side, later: _Side, nbytes: int, where: str) -> Record:
        elsewhere = earlier.process != later.process
        first, second = self._text(earlier, elsewhere), self._text(later, elsewhere)
        about = ", of the same communicator" if identifier == COMMUNICATOR else f": {nbytes} bytes at {where}"
        text = f"{second[0]} is not ordered after {first[0]}{about}"
        sides = {"later": second[1], "earlier": first[1]}
        return {"process": later.process, "identifier": identifier, "severity": "error", "text": text, **sides}

    def findings(self) -> list[Record]:
        """What is not in order; each pair of sides that is alike once, with how often it was seen."""
        for file, accesses in self._new.items():
            self._compare(file, accesses)
        self._new.clear()
        by_kind: dict[tuple[Any, ...], Record] = {}
        undecided = []
        for pair in self._pairs:
            before = self._before(pair.clock, pair.hosts)
            if _is_known_to_follow(pair.earlier, before):
                continue
            undecided.append(pair)
            if self._ordered(pair.earlier, before):
                continue
            # Others may have made the one that was queued first the later one.
            if self._ordered(pair.later, self._before(pair.clock_of_earlier, pair.hosts_of_earlier)):
                continue
            key = pair.identifier, pair.earlier[:3], pair.later[:3]
            if key in by_kind:
                by_kind[key]["times"] += 1
            else:
                by_kind[key] = {**self._finding(*pair[:5]), "times": 1}
        self._pairs = undecided
        return list(by_kind.values())

    def _compare(self, file: int, accesses: list[Optional[_Access]]) -> None:
        """Compares new accesses of a file with earlier ones: the pairs that are not in order yet."""
        open_ = self._open.get(file, [])
        for later in accesses:
            if later is None:
                open_ = []
                continue
            before, remaining = self._before(later.clock, later.hosts), []
            for earlier in open_:
                common = _common(earlier, later)
                if common and not _is_known_to_follow(earlier.side, before):
                    where = hex(later.start + later.address)
                    clocks = later.clock, later.hosts, earlier.clock, earlier.hosts
                    self._pairs.append(_Pair(_rule(earlier, later), earlier.side, later.side, common, where, *clocks))
                after = self._ordered(earlier.side, before)
                if not (after and later.kind >= min(earlier.kind, UPDATE) and _covers(later, earlier)):
                    remaining.append(earlier)
            open_ = [*remaining, later]
        self._open[file] = open_


def _is_known_to_follow(earlier: _Side, before_later: tuple[Clock, bool]) -> bool:
    return before_later[0].get(earlier.timeline, 0) >= earlier.number


def _rule(earlier: _Access, later: _Access) -> str:
    if earlier.kind == READ:
        return "sync/write-after-read"
    return "sync/write-after-write" if later.kind > UPDATE else "sync/read-after-write"


def _covers(outer: _Access, inner: _Access) -> bool:
    return outer.rows == 1 and outer.start <= inner.start and outer.end >= inner.end


def _common(earlier: _Access, later: _Access) -> int:
    """The bytes that two accesses of different processes, or at different addresses of one, have in common; 0: both read."""
    same = earlier.side.process == later.side.process and earlier.address == later.address
    if (
        same
        or (earlier.kind == READ and later.kind == READ)
        or earlier.end <= later.start
        or later.end <= earlier.start
    ):
        return 0
    starts = [[a.start + row * a.pitch for row in range(a.rows)] for a in (earlier, later)]
    if earlier.rows > later.rows:
        starts, fewer, more = starts[::-1], later.size, earlier.size
    else:
        fewer, more = earlier.size, later.size
    return sum(
        max(0, min(one + fewer, other + more) - max(one, other))
        for one in starts[0]
        for other in starts[1][_index(starts[1], one - more) : _index(starts[1], one + fewer)]
    )


def _index(starts: list[int], place: int) -> int:
    return bisect.bisect_right(starts, place)
