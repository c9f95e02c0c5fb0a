"""What every program does with a device, apart from operators: each check raises where the device does it wrongly.

A check takes the backend and returns None, the reason why it was left out, or figures for the report.
"""

from __future__ import annotations

import threading
import time
from typing import Any, Callable, Union

import numpy as np

import ascend_aclnn as aclnn
from ascend_aclnn import Executor, Graph, ops
from ascend_aclnn.communicator import Communicator
from ascend_aclnn.core.errors import OUT_OF_MEMORY, AclError, LibraryNotFound, UnsupportedOperator
from ascend_aclnn.core.streams import Device, Stream

Outcome = Union[None, str, dict[str, float]]
SIZE = 4099  # elements: prime, so that the last tile is a part of one
ROUNDS = 50


def numbers(start: int = 0) -> Any:
    return (np.arange(SIZE) + start).astype(np.float32)


def equal(result: Any, wanted: Any, what: str) -> None:
    """AssertionError that says where an array is wrong."""
    result, wanted = np.asarray(result), np.asarray(wanted)
    if result.shape != wanted.shape:
        raise AssertionError(f"{what}: the shape is {result.shape}; it must be {wanted.shape}")
    wrong = np.argwhere(result != wanted)
    if len(wrong):
        at = tuple(map(int, wrong[0]))
        raise AssertionError(
            f"{what}: {len(wrong)} elements are wrong; {list(at)} is {result[at]}, expected {wanted[at]}"
        )


def null_stream(backend: Any) -> Outcome:
    """A chain of operators on the device's default stream."""
    x = aclnn.asarray(numbers())
    for _ in range(ROUNDS):
        x = ops.add(x, x, 1)
        x = ops.muls(x, 0.5)
    equal(x.numpy(), numbers(), "default stream")
    return None


def created_streams(backend: Any) -> Outcome:
    """Two created streams, one of which waits for the other's event."""
    first, second = Stream(), Stream()
    with first:
        x = aclnn.asarray(numbers())
        for _ in range(ROUNDS):
            x = ops.adds(x, 1, 1)
        event = first.record_event()
    second.wait_event(event)
    x.record_stream(second)
    with second:
        y = ops.add(x, x, 1)
    equal(y.numpy(), 2 * (numbers() + ROUNDS), "second stream behind an event of the first")
    return None


def two_threads(backend: Any) -> Outcome:
    """Two threads with a stream each."""
    failed: list[BaseException] = []

    def work(start: int) -> None:
        try:
            with aclnn.use_backend("npu"), Stream():
                x = aclnn.asarray(numbers(start))
                for _ in range(ROUNDS):
                    x = ops.adds(x, 1, 1)
                equal(x.numpy(), numbers(start) + ROUNDS, f"thread that starts at {start}")
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(1000 * number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]
    return None


def repeatable_executor(backend: Any) -> Outcome:
    """One executor that runs again and again, with other numbers in its input."""
    x, out = aclnn.asarray(numbers()), aclnn.zeros((SIZE,), np.float32)
    one = aclnn.Scalar(1, np.float32)
    with Executor("aclnnAdds", x, one, one, out, repeatable=True) as executor:
        for turn in range(5):
            x.assign(numbers(turn))
            out.assign(np.full(SIZE, -1, np.float32))
            executor.run()
            equal(out.numpy(), numbers(turn) + 1, f"run {turn + 1} of a repeatable executor")
    return None


def pinned_copies(backend: Any) -> Outcome:
    """Asynchronous copies from and to pinned memory, with an operator between them."""
    source, target = aclnn.pinned((SIZE,), np.float32), aclnn.pinned((SIZE,), np.float32)
    x = aclnn.zeros((SIZE,), np.float32)
    stream = Stream()
    for turn in range(3):
        source[...], target[...] = numbers(turn), -1
        with stream:
            x.copy_from(source)
            y = ops.adds(x, 1, 1)
            y.copy_to(target)
        stream.synchronize()
        equal(target, numbers(turn) + 1, f"pinned copy {turn + 1}")
    return None


def graphs(backend: Any) -> Outcome:
    """A graph on two streams, with a task group that is updated; left out where CANN lacks graphs."""
    x, first, second = aclnn.asarray(numbers()), Stream(), Stream()
    ops.adds(x, 1, 1, stream=first).numpy()  # what the first call does is no part of a graph
    with Graph() as graph:
        try:
            with graph.capture(first):
                y = ops.adds(x, 1, 1)
                second.wait_stream(first)
                z = ops.add(y, y, 1, stream=second)
                first.wait_stream(second)
                with graph.group() as group:
                    out = ops.muls(z, 2.0)
        except LibraryNotFound as error:
            return f"this CANN has no graphs: {error}"
        for turn in range(5):
            x.assign(numbers(turn))
            graph.replay(second)
            equal(out.numpy(), 4 * (numbers(turn) + 1), f"replay {turn + 1} of a graph")
        with graph.update(group):
            ops.muls(z, 3.0, out=out)
        graph.replay()
        equal(out.numpy(), 6 * (numbers(4) + 1), "replay of an updated graph")
    return None


def out_of_memory(backend: Any) -> Outcome:
    """More memory than the device has is refused, and memory in use stays intact."""
    before = aclnn.asarray(numbers())
    total = aclnn.memory_info().total
    try:
        aclnn.empty((2 * total,), np.uint8)[:1].assign(np.zeros(1, np.uint8))
    except AclError as error:
        if error.status != OUT_OF_MEMORY:
            raise AssertionError(f"{2 * total} bytes give status {error.status}; it must be {OUT_OF_MEMORY}") from error
    else:
        raise AssertionError(f"the device has {total} bytes and gave out {2 * total}")
    equal(before.numpy(), numbers(), "memory from before")
    equal(ops.adds(before, 1, 1).numpy(), numbers() + 1, "an operator after it")
    return None


def host_cost(backend: Any) -> Outcome:
    """Microseconds of the host for a call, an executor's run and a copy up and down: the fastest of some rounds."""
    x, out = aclnn.asarray(numbers()), aclnn.zeros((SIZE,), np.float32)
    one = aclnn.Scalar(1, np.float32)
    host = numbers()
    with Executor("aclnnAdds", x, one, one, out, repeatable=True) as executor:
        return {
            "call_us": _fastest(lambda: ops.adds(x, 1, 1, out=out)),
            "executor_us": _fastest(executor.run),
            "copies_us": _fastest(lambda: aclnn.asarray(host).numpy()),
        }


def _fastest(function: Callable[[], Any]) -> float:
    best = float("inf")
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        function()
        best = min(best, (time.perf_counter() - begin) * 1e6)
    aclnn.synchronize()
    return round(best, 1)


def all_reduce(backend: Any) -> Outcome:
    """The sum of two devices' tensors, on both."""
    if backend.device_count() < 2:
        return "needs two devices"

    def work(rank: int, communicator: Communicator) -> None:
        for turn in range(3):
            x = aclnn.asarray(numbers(rank + turn))
            communicator.all_reduce(x)
            equal(x.numpy(), numbers(turn) + numbers(1 + turn), f"all_reduce {turn + 1} on rank {rank}")

    _on_two_devices(work)
    return None


def matmul_all_reduce(backend: Any) -> Outcome:
    """aclnnMatmulAllReduce on two devices: each rank's product, and their sum in one operator."""
    if backend.device_count() < 2:
        return "needs two devices"
    random = np.random.default_rng(1)
    left = [random.integers(-2, 3, (16, 256)).astype(np.float16) for _ in range(2)]
    right = [random.integers(-2, 3, (256, 64)).astype(np.float16) for _ in range(2)]
    wanted = sum(a.astype(np.float32) @ b.astype(np.float32) for a, b in zip(left, right))

    def work(rank: int, communicator: Communicator) -> None:
        a, b = aclnn.asarray(left[rank]), aclnn.asarray(right[rank])
        result = ops.matmul_all_reduce(a, b, None, communicator.name, "sum", 0, 1)
        equal(result.numpy(), np.asarray(wanted, np.float16), f"rank {rank}")

    try:
        _on_two_devices(work)
    except UnsupportedOperator as error:
        return str(error).splitlines()[0]
    return None


def _on_two_devices(work: Callable[[int, Communicator], None]) -> None:
    """Runs a function on two ranks, a thread for each device."""
    failed: list[BaseException] = []

    def rank(number: int, communicator: Communicator) -> None:
        try:
            with aclnn.use_backend("npu"), Device(number):
                work(number, communicator)
        except BaseException as error:
            failed.append(error)

    communicators = Communicator.of_devices([0, 1])
    try:
        threads = [threading.Thread(target=rank, args=pair) for pair in enumerate(communicators)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        for communicator in communicators:
            communicator.close()
    if failed:
        raise failed[0]


CHECKS: dict[str, Callable[[Any], Outcome]] = {
    "default stream": null_stream,
    "created streams": created_streams,
    "two threads": two_threads,
    "repeatable executor": repeatable_executor,
    "pinned copies": pinned_copies,
    "graphs": graphs,
    "out of memory": out_of_memory,
    "host cost": host_cost,
    "all_reduce": all_reduce,
    "matmul_all_reduce": matmul_all_reduce,
}
