"""The sweep of ``bench_references.py --sweep``: whole calls of many operators beside torch, in three data types.

Our side is ``ops.*`` on ndarrays, outputs made by the call. Both sides run alternately, and the fastest call of each counts:
what other work of the machine disturbs least. The spread is that of the ratios of calls that ran beside each other. With
``--processor`` both have one thread and the processor time of a call is taken, for a machine that is not idle.
"""

from __future__ import annotations

import math
import os
import statistics
import threading
import time
import tracemalloc
from collections.abc import Iterator, Sequence
from typing import Any, Callable, NamedTuple, Optional

import bench_results
import sweep_cases
import sweep_reasons


class Data:
    """The arrays of ``sweep_cases.data``, or torch tensors of the same values; made on first use."""

    def __init__(self, makers: dict[str, Callable[[], Any]], convert: Callable[[Any], Any]) -> None:
        self._makers, self._convert = makers, convert

    def __getattr__(self, name: str) -> Any:
        argument = self._makers[name]()
        value = argument if isinstance(argument, int) else self._convert(argument)
        setattr(self, name, value)
        return value

    def drop_written(self) -> None:
        """Forgets the arrays that operators write to: the next one gets new ones."""
        for name in sweep_cases.WRITTEN:
            vars(self).pop(name, None)


LABELS = ("fp32", "bf16", "fp16")
SPINNING = 0.02  # seconds after which torch's threads sleep
TEXT = """Whole calls of `ops.*` on ndarrays, outputs made by the call, beside what torch calls the same: time of ours
/ time of torch's. Both sides run in one process by turns, with {threads} each; the fastest of {repeat} calls counts.
Below 1, NumPy is faster. In brackets are the quartiles of the ratios of calls beside each other. The last column is
what a call allocates at its peak beyond its results, the largest of the three data types. Products of float16 are left
out: torch takes half a minute for one on processors without such instructions."""


class Measured(NamedTuple):
    """One operator in one data type."""

    ratio: float
    operator: str
    megabytes: float
    quartiles: tuple[float, float]


def sweep(torch: Any, pattern: str, repeat: int, processor: bool, write: bool) -> int:
    """Prints a row for each operator and data type, then geometric means; the number of cases that failed."""
    import ml_dtypes
    import numpy as np

    from ascend_aclnn import native, ops, use_backend

    use_backend("numpy")
    clock = time.process_time if processor else time.perf_counter
    status = native.status()
    print(f"compiled helper: {status.instructions or 'not used, ' + status.reason}")
    print(f"{'operator':44} {'numpy ms':>9} {'torch ms':>9} {'ratio':>7} {'extra MB':>9}")
    dtypes = {"fp32": np.dtype(np.float32), "bf16": np.dtype(ml_dtypes.bfloat16), "fp16": np.dtype(np.float16)}
    codes = {"fp32": 0, "bf16": 27, "fp16": 1}
    results: dict[str, list[Measured]] = {label: [] for label in dtypes}
    failures = 0
    sides = {}
    for label, dtype in dtypes.items():
        makers = sweep_cases.data(np, dtype, codes[label])
        sides[label] = Data(makers, lambda array: array), Data(makers, lambda array: as_tensor(torch, np, array))
    for case in sweep_cases.CASES:
        for label in dtypes:
            name = f"{case.family}: {case.name}, {label}"
            if label not in case.dtypes.split() or pattern not in name:
                continue
            arrays, tensors = sides[label]
            for side in sides[label]:
                side.drop_written()

            def ours(case: Any = case, arrays: Any = arrays) -> Any:
                return case.ours(ops, arrays)

            def theirs(case: Any = case, tensors: Any = tensors) -> Any:
                return case.theirs(torch, tensors)

            try:
                difference = compare(np, torch, ours(), theirs(), label) if case.exact else ""
                sides_times = times_of([ours, theirs], repeat, clock)
                extra = extra_megabytes(ours)
            except Exception as error:
                failures += 1
                print(f"{name:44} {type(error).__name__}: {str(error)[:200]}", flush=True)
                continue
            first, second = map(min, sides_times)
            one = Measured(first / second, f"{case.family}: {case.name}", extra, quartiles(*sides_times))
            results[label].append(one)
            print(
                f"{name:44} {first * 1e3:9.2f} {second * 1e3:9.2f} {first / second:7.2f} {extra:9.1f}{difference}",
                flush=True,
            )
            failures += bool(difference)
    for label, measured in results.items():
        if measured:
            count, mean, worst = summary(measured)
            print(f"{label}: {count} operators, geometric mean {mean}, largest {worst}")
    if write:
        write_page(results, status.instructions, repeat, processor)
    return failures


def summary(measured: Sequence[Measured]) -> list[str]:
    """Of one data type: how many operators, their geometric mean, the largest ratio with its operator."""
    mean = math.exp(sum(math.log(each.ratio) for each in measured) / len(measured))
    worst = max(measured)
    return [str(len(measured)), f"{mean:.2f}", f"{worst.ratio:.1f} ({worst.operator})"]


def in_words(ratio: float) -> str:
    """A ratio with two digits, three from 10 on."""
    return f"{ratio:.2f}" if ratio < 1 else f"{ratio:.1f}"


def cell(measured: Optional[Measured]) -> str:
    """A ratio with its quartiles."""
    if measured is None:
        return "-"
    return f"{in_words(measured.ratio)} ({' to '.join(map(in_words, measured.quartiles))})"


MOST = {True: 2.0, False: 8.0}  # times torch's time, with the helper and without, from which a cell has a reason
MOST_MEGABYTES = 16


def exceptions(results: dict[str, list[Measured]], with_helper: bool) -> list[bench_results.Table]:
    """Which cells exceed the limits, and why."""
    slow: list[list[str]] = []
    large: dict[str, float] = {}
    for label, of_type in results.items():
        for each in of_type:
            if each.ratio > MOST[with_helper]:
                why = sweep_reasons.slower(each.operator, label, with_helper)
                slow.append([f"{each.operator}, {label}", why or "not known", in_words(each.ratio)])
            if each.megabytes > MOST_MEGABYTES:
                large[each.operator] = max(each.megabytes, large.get(each.operator, 0))
    slow.sort()
    memory = [
        [name, sweep_reasons.larger(name, with_helper) or "not known", f"{megabytes:.0f}"]
        for name, megabytes in sorted(large.items())
    ]
    for name, why, _ in (*slow, *memory):
        if why == "not known":
            print(f"no reason is known: {name}")
    return [
        bench_results.Table(("cell", "reason", "ratio"), slow, f"More than {MOST[with_helper]:.0f} times torch's time"),
        bench_results.Table(("operator", "what it is", "MB"), memory, f"More than {MOST_MEGABYTES} MB beyond results"),
    ]


def write_page(results: dict[str, list[Measured]], instructions: Optional[str], repeat: int, processor: bool) -> None:
    """docs/results/sweep.md, or sweep-without-helper.md where the compiled helper is not used."""
    operators = list(dict.fromkeys(f"{case.family}: {case.name}" for case in sweep_cases.CASES))
    ratios = {label: {each.operator: each for each in measured} for label, measured in results.items()}
    rows = []
    for operator in operators:
        of_types = [ratios[label].get(operator) for label in LABELS]
        megabytes = max((each.megabytes for each in of_types if each is not None), default=math.nan)
        rows.append([operator, *map(cell, of_types), f"{megabytes:.0f}"])
    means = [[label, *summary(measured)] for label, measured in results.items() if measured]
    helper = f"the compiled helper ({instructions})" if instructions else "NumPy alone"
    name, setting = ("sweep", "") if instructions else ("sweep-without-helper", "ASCEND_ACLNN_NATIVE=0 ")
    command = f"{setting}python scripts/bench_references.py --sweep --write" + " --processor" * processor
    threads = "one thread, in processor time," if processor else "two threads"
    bench_results.write(
        name,
        f"Many operators beside torch on the CPU, {helper}",
        command,
        TEXT.format(threads=threads, repeat=repeat),
        [
            bench_results.Table(("data type", "operators", "geometric mean", "largest"), means),
            bench_results.Table(("operator", *LABELS, "extra MB"), rows, "Each operator"),
            *exceptions(results, instructions is not None),
        ],
    )


def as_tensor(torch: Any, np: Any, array: Any) -> Any:
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view(np.int16).copy()).view(torch.bfloat16)
    return torch.from_numpy(array.copy())


def times_of(calls: list[Callable[[], Any]], repeat: int, clock: Callable[[], float]) -> list[list[float]]:
    """The times of each call, taken alternately, each after a pause and one that is not timed.

    OpenMP lets torch's threads spin after their work, on the core that a thread of ours needs: for 3 to 9 ms on the machine of
    docs/results, longer than most cells take.
    """
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(repeat):
        for side, call in zip(times, calls):
            time.sleep(SPINNING)
            call()
            start = clock()
            call()
            side.append(clock() - start)
    return times


def quartiles(ours: Sequence[float], theirs: Sequence[float]) -> tuple[float, float]:
    """The quarters of the ratios of calls beside each other between which half of them lie."""
    ratios = [a / max(b, 1e-9) for a, b in zip(ours, theirs)]
    if len(ratios) < 2:
        return ratios[0], ratios[0]
    low, _, high = statistics.quantiles(ratios, n=4, method="inclusive")
    return low, high


def extra_megabytes(call: Callable[[], Any]) -> float:
    """What one call allocates at its peak beyond its results: in a child process, on a thread without scratch memory."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        results: list[Any] = []
        worker = threading.Thread(target=lambda: results.append(call()))
        tracemalloc.start()
        worker.start()
        worker.join()
        peak = tracemalloc.get_traced_memory()[1] - sum(array.nbytes for array in flat(results))
        os.write(write, str(max(0.0, peak / 1e6)).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as answer:
        text = answer.read()
    os.waitpid(child, 0)
    return float(text or "nan")


def flat(results: Any) -> Iterator[Any]:
    """The arrays or tensors among results, of lists and tuples too."""
    if isinstance(results, (list, tuple)):
        for item in results:
            yield from flat(item)
    elif hasattr(results, "dtype"):
        yield results


def compare(np: Any, torch: Any, ours: Any, theirs: Any, label: str) -> str:
    """What is wrong with the first result, roughly: that both sides do the same work."""
    first, second = next(flat(ours)), next(flat(theirs))
    if first.shape != tuple(second.shape):
        return f"  SHAPE {first.shape}, torch {tuple(second.shape)}"
    some = slice(None, None, max(1, first.size >> 18))  # a sample of large ones
    wanted = second.reshape(-1)[some].to(torch.float32).numpy()
    values = first.reshape(-1)[some].astype(np.float32)
    tolerance = {"fp32": 1e-3, "bf16": 4e-2, "fp16": 1e-2}[label]
    with np.errstate(all="ignore"):
        wrong = ~np.isclose(values, wanted, rtol=tolerance, atol=tolerance, equal_nan=True)
    share = float(wrong.mean()) if wrong.size else 0.0
    return f"  DIFFERS in {share:.1%}" if share > 0.001 else ""
