"""Handles that threads share, destroy and use at once, with and without sanitizers."""

from __future__ import annotations

import re

from stress_handles import compile_stress

from attacks.scenario import Run, scenario

INTERVALS = ((0, 0), (0, 300), (1500, 0), (1500, 700))  # milliseconds between kills and between resets; 0: none


@scenario()
def shared_handles(run: Run) -> None:
    """Threads share streams, events, memory and executors, destroy them under each other, reset and kill the device."""
    stress(run, ())


@scenario(seconds=60)
def shared_handles_threads(run: Run) -> None:
    """The same under the thread sanitizer."""
    stress(run, ("thread",))


@scenario(seconds=60)
def shared_handles_addresses(run: Run) -> None:
    """The same under the sanitizers of addresses and of undefined behaviour."""
    stress(run, ("address", "undefined"))


def stress(run: Run, sanitize: tuple[str, ...]) -> None:
    program = compile_stress(run.directory, sanitize)
    for choice in run.rounds():
        seconds, seed, intervals = 1 + 5 * choice.random(), choice.randrange(1 << 31), choice.choice(INTERVALS)
        run.step(f"{seconds} seconds, seed {seed}, kills and resets every {intervals} ms")
        done = program.run(seconds, seed, *intervals)
        run.expect(
            done.returncode == 0, f"ended with {done.returncode}:\n{done.stdout[-2000:]}\n{done.stderr[-20000:]}"
        )
        for number, what in re.findall(r"(\d+) (calls|kills|resets)", done.stdout.strip().splitlines()[-1]):
            run.count(what, int(number))
