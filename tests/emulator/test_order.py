"""The order of several processes, from their journals: read as it grows, it says the same as read at once."""

from __future__ import annotations

import random
from typing import Any

import pytest

from ascend_aclnn.emulator.order import Order

Record = dict[str, Any]
READ, WRITE = 0, 2
SIDE = {
    "operator": "aclnnMul",
    "kind": "launch",
    "argument": "out",
    "member": -1,
    "stream": 1,
    "number": 0,
    "frames": [],
}


class Process:
    """A process with one stream, and what it writes down."""

    def __init__(self, number: int) -> None:
        self.number, self.task = number, 0
        self.records: list[Record] = []
        self._write("side", side=1, place="", **{"is": SIDE})

    def _write(self, journal: str, **content: Any) -> None:
        self.records.append({"process": self.number, "journal": journal, **content})

    def access(self, kind: int, start: int, size: int) -> None:
        self.task += 1
        place = {"file": 7, "offset": start, "size": size, "rows": 1, "pitch": 0, "address": start + 4096 * self.number}
        self._write("access", side=[1, 1, self.task, self.task], kind=kind, clock={"1": self.task}, **place)

    def publish(self, key: str) -> None:
        self._write("publish", key=key, clock={"1": self.task})

    def receive(self, key: str) -> None:
        self.task += 1
        self._write("receive", key=key, timeline=1, number=self.task)


def _said(order: Order) -> set[tuple[str, str, int]]:
    return {(f["identifier"], f["text"], f["times"]) for f in order.findings()}


@pytest.mark.parametrize("seed", range(20))
def test_a_growing_journal_says_what_the_whole_one_does(seed: int) -> None:
    rng = random.Random(seed)
    processes = [Process(number) for number in (1, 2, 3)]
    journal: list[Record] = []
    published: list[str] = []
    for step in range(60):
        process = rng.choice(processes)
        before = len(process.records)
        action = rng.random()
        if action < 0.7:
            process.access(rng.choice((READ, WRITE)), 16 * rng.randrange(4), rng.choice((16, 32)))
        elif action < 0.85 or not published:
            published.append(f"event {step}")
            process.publish(published[-1])
        else:
            process.receive(rng.choice(published))
        journal += process.records[0 if before == 1 else before :]
    at_once, growing = Order(), Order()
    at_once.add(journal)
    while journal:
        count = rng.randrange(1, 8)
        growing.add(journal[:count])
        growing.findings()
        del journal[:count]
    assert _said(growing) == _said(at_once) != set()


def test_what_is_published_later_puts_pairs_in_order() -> None:
    first, second = Process(1), Process(2)
    first.access(WRITE, 0, 64)
    second.receive("event")
    second.access(READ, 0, 64)
    second.access(READ, 64, 64)
    order = Order()
    order.add(first.records + second.records)
    assert order.findings() == []  # it may still be put in order
    told = len(first.records)
    first.publish("event")
    first.access(WRITE, 64, 64)
    order.add(first.records[told:])
    (found,) = order.findings()
    assert found["identifier"] == "sync/write-after-read" and found["times"] == 1
    assert "of process 1) is not ordered after" in found["text"]
    assert order.findings() == [found]
