"""Waiting for the device so that Ctrl-C is heard, without native waits that time out.

CANN treats a wait that times out as a fault: lines in the log, an entry of its error manager, on some devices a task that
reads the device's state. A native wait without a timeout cannot be interrupted. Therefore:

- The main thread, which hears signals, first asks for some microseconds whether the work has passed, and then leaves the
  native wait to a helper thread. Ctrl-C leaves the helper to its wait; the next wait has another one.
- A wait with a timeout asks again and again, with growing pauses.
- Other threads wait natively.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from typing import Callable, NamedTuple, Optional

_ASK_SECONDS = 40e-6  # before the helper is used: about what its use costs
_LONGEST_PAUSE = 2e-3

# A context and the arguments of a native wait: a stream, an event, or nothing for the device.
Key = tuple[int, ...]


class WaitOutcome(NamedTuple):
    """How a native wait ended."""

    status: int
    text: str  # aclGetRecentErrMsg of the helper's thread; "" where the calling thread waited itself


class _NativeWait:
    """One native wait on a helper thread. ``over`` is held until it has ended."""

    def __init__(self, function: Callable[..., int], context: int, arguments: Key) -> None:
        self.function, self.context, self.arguments = function, context, arguments
        self.over = threading.Lock()
        self.over.acquire()
        self.outcome: WaitOutcome

    def ended(self, seconds: float = -1) -> bool:
        """Waits for its end, for ever by default; whether it has come."""
        if not self.over.acquire(timeout=min(seconds, threading.TIMEOUT_MAX)):
            return False
        self.over.release()
        return True


# What a helper waits for next; None ends it.
_Requests = queue.SimpleQueue[Optional[_NativeWait]]


class Waits:
    """The waits of a process: a helper thread that is kept, and what helpers wait for."""

    def __init__(self, set_context: Callable[[int], int], recent_error: Callable[[], str]) -> None:
        self._set_context = set_context
        self._recent_error = recent_error
        self._idle: list[_Requests] = []  # helpers
        self._pending: dict[Key, _NativeWait] = {}

    def forget(self) -> None:
        """In a forked child, which has no helper."""
        self._idle.clear()
        self._pending.clear()

    def under_way(self, context: int, handle: int) -> bool:
        """Whether a helper still waits for a stream or event, for a caller or left to itself."""
        wait = self._pending.get((context, handle))
        return wait is not None and wait.over.locked()

    def all_ended(self, seconds: float) -> bool:
        """Waits for what Ctrl-C or a timeout has left to helpers; False if one has not ended in time."""
        end = time.monotonic() + seconds
        return all(wait.ended(max(end - time.monotonic(), 0)) for wait in list(self._pending.values()))

    def wait(
        self,
        function: Callable[..., int],
        context: int,
        arguments: Key,
        passed: Callable[[], bool],
        seconds: Optional[float],
        exact: bool = True,
    ) -> Optional[WaitOutcome]:
        """Waits by a native function of a context, which is current; None after ``seconds``.

        ``passed`` asks CANN without waiting. ``exact``: the native wait then returns at once.
        """
        start = time.monotonic()
        key = (context, *arguments)
        earlier = self._pending.get(key)
        if earlier is not None:  # so that there is one for each stream at most, and none when the stream is destroyed
            if not earlier.ended(-1 if seconds is None else max(seconds, 0)):
                return None
            self._pending.pop(key, None)
        on_main = threading.current_thread() is threading.main_thread()
        if seconds is None and not on_main:
            return WaitOutcome(function(*arguments), "")
        has_passed = _ask(passed, start, _ASK_SECONDS if seconds is None else seconds)
        if not has_passed and seconds is not None:
            return None
        if has_passed and exact:
            return WaitOutcome(function(*arguments), "")  # which reports faults
        seconds_left = -1 if seconds is None else max(start + seconds - time.monotonic(), 0)
        return self._wait_on_helper(_NativeWait(function, context, arguments), seconds_left)

    def _wait_on_helper(self, wait: _NativeWait, seconds: float) -> Optional[WaitOutcome]:
        try:
            helper = self._get_helper()
        except RuntimeError:  # no more threads: since Python 3.12 also at the end of the interpreter
            return WaitOutcome(wait.function(*wait.arguments), "")
        key, in_time = (wait.context, *wait.arguments), False
        try:
            helper.put(wait)
            self._pending[key] = wait
            in_time = wait.ended(seconds)
        finally:
            if in_time and not self._idle:  # there may be one: of a signal handler that waited meanwhile
                self._idle.append(helper)
            else:
                helper.put(None)
        if not in_time:
            return None
        self._pending.pop(key, None)
        return wait.outcome

    def _get_helper(self) -> _Requests:
        with contextlib.suppress(IndexError):
            return self._idle.pop()
        requests: _Requests = queue.SimpleQueue()
        threading.Thread(target=self._work, args=(requests,), name="ascend-aclnn-wait", daemon=True).start()
        return requests

    def _work(self, requests: _Requests) -> None:
        while True:
            wait = requests.get()
            if wait is None:
                return
            status = self._set_context(wait.context) or wait.function(*wait.arguments)
            wait.outcome = WaitOutcome(status, self._recent_error() if status else "")
            wait.over.release()


def _ask(passed: Callable[[], bool], start: float, seconds: float) -> bool:
    """Asks until the answer is yes or the time is over; with pauses of a sixteenth of what has gone by."""
    while not passed():
        gone = time.monotonic() - start
        if gone >= seconds:
            return False
        if gone >= _ASK_SECONDS:
            time.sleep(min(gone / 16, seconds - gone, _LONGEST_PAUSE))
    return True
