"""Where in the device's file bytes lie that are mapped elsewhere, against a list of every byte's place."""

from __future__ import annotations

import random
from typing import Optional

from ascend_aclnn.emulator.process.mappings import Mappings

SIZE = 60


def brute_force(places: list[Optional[int]], start: int, nbytes: int) -> Optional[int]:
    found = places[start : start + nbytes]
    first = found[0]
    if first is None or any(place != first + at for at, place in enumerate(found)):
        return None
    return first


def test_mappings() -> None:
    """Random maps and unmaps; bytes in several parts may be called out of reach, even if they lie one after another."""
    generator = random.Random(5)
    for _ in range(60):
        mappings, places = Mappings(), [*range(SIZE)]
        parts: list[int] = [0] * SIZE  # the number of the part that each byte is in
        real: list[Optional[int]] = list(places)
        for number in range(1, 12):
            start = generator.randrange(SIZE)
            nbytes = generator.randint(1, SIZE - start)
            kind = generator.choice(["own", "foreign", "back"])
            if kind == "back":
                mappings.remove(start, nbytes)
                real[start : start + nbytes] = places[start : start + nbytes]
            else:
                home = generator.randrange(1000, 2000) if kind == "own" else None
                mappings.add(start, nbytes, home)
                real[start : start + nbytes] = [None if home is None else home + at for at in range(nbytes)]
            parts[start : start + nbytes] = [0 if kind == "back" else number] * nbytes
            for _ in range(40):
                start = generator.randrange(SIZE)
                nbytes = generator.randint(1, SIZE - start)
                found, expected = mappings.locate(start, nbytes), brute_force(real, start, nbytes)
                assert found in (None, expected)
                if len(set(parts[start : start + nbytes])) == 1:
                    assert found == expected
