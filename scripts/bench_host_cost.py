#!/usr/bin/env python
"""What one call costs the host, and where the time goes: on the emulated device, with operators that do nothing.

python scripts/bench_host_cost.py             calls with and without the compiled helper, one Executor.run, and their parts
python scripts/bench_host_cost.py --device    the same on the Ascend device of this host (kernels run meanwhile)
python scripts/bench_host_cost.py --all       this table, --torch and --wait one after another (also with --device)
python scripts/bench_host_cost.py --wait      how long after some device work each way to wait for it ends (also with --device)
python scripts/bench_host_cost.py --numpy     small calls on the NumPy backend, beside torch where it is installed
python scripts/bench_host_cost.py --torch     calls on Tensors, on torch's NPU tensors, and torch_npu's own; needs torch_npu

With --write each also writes its page of docs/results.
"""

from __future__ import annotations

import argparse
import importlib.util
import math
import os
import statistics
import subprocess
import sys
import time
import timeit
from collections.abc import Sequence
from typing import Any, Callable, Optional

import bench_results
import numpy as np

import ascend_aclnn as aclnn
from ascend_aclnn import native, ops, rules
from ascend_aclnn.backends.npu import waiting
from ascend_aclnn.backends.npu.backend import NpuBackend
from ascend_aclnn.backends.npu.runtime import STREAM_COMPLETE
from ascend_aclnn.call import plan as call_plan


def microseconds(call: Callable[[], Any], number: int, after: Callable[[], Any]) -> float:
    """One call, without the queue (``after`` empties it): the best of short runs, which other work leaves alone."""
    times = []
    for _ in range(max(5, number // 50)):
        times.append(timeit.timeit(call, number=50) / 50 * 1e6)
        after()
    return min(times)


WITHOUT, WITH = "Python alone", "with the helper"


def measure_calls(number: int) -> list[tuple[str, dict[str, float]]]:
    """Rows of the table of calls: what, and microseconds without and, where it is built, with the compiled helper.

    Both take turns of 50 calls, so that other work of the machine meets both; the least of the turns counts.
    """
    arrays = [np.ones((4, 4), np.float32) for _ in range(2)]
    a, b, x = map(aclnn.asarray, (*arrays, arrays[0]))
    gamma, rstd = (aclnn.asarray(np.ones(shape, np.float32)) for shape in ((4,), (4, 1)))
    out = aclnn.empty((4, 4), np.float32)
    calls: dict[str, Callable[[], Any]] = {
        "ops.mm(a, b)": lambda: ops.mm(a, b),
        "ops.mm(a, b, out=out)": lambda: ops.mm(a, b, out=out),
        "ops.add(a, b, 1)": lambda: ops.add(a, b, 1),
        "ops.rms_norm(x, gamma)": lambda: ops.rms_norm(x, gamma),
        "ops.rms_norm_grad(dy, x, rstd, gamma)": lambda: ops.rms_norm_grad(x, x, rstd, gamma),
        "ops.mm of ndarrays": lambda: ops.mm(*arrays),
        "ops.add of ndarrays": lambda: ops.add(*arrays, 1),
    }
    plans = [call_plan(aclnn.signature(name)) for name in ("aclnnMm", "aclnnAdd", "aclnnRmsNorm", "aclnnRmsNormGrad")]
    function = native.call_function
    ways = {WITHOUT: lambda: None, **({WITH: function} if function() else {})}
    remembered: dict[str, list[Any]] = {}  # the remembered calls of each way, which then take turns
    for way, of_helper in ways.items():
        native.call_function = of_helper  # type: ignore[assignment]
        for plan in plans:
            plan.replays.clear()
        for call in calls.values():
            for _ in range(3):
                call()
        remembered[way] = [plan.replays.copy() for plan in plans]
    native.call_function = function
    least = {what: dict.fromkeys(ways, math.inf) for what in calls}
    for _ in range(max(1, number // 50)):
        for way in ways:
            for plan, replays in zip(plans, remembered[way]):
                plan.replays = replays
            for what, call in calls.items():
                least[what][way] = min(least[what][way], timeit.timeit(call, number=50) / 50 * 1e6)
                aclnn.synchronize()
    return list(least.items())


def measure_parts(number: int) -> list[tuple[str, float, str]]:
    """Rows of the table of parts: what, microseconds, remark. Two spaces of indent mark a part of the row above."""
    npu = aclnn.backend()
    assert isinstance(npu, NpuBackend)
    a, b = (aclnn.asarray(np.ones((4, 4), np.float32)) for _ in range(2))
    out = aclnn.empty((4, 4), np.float32)
    operator = aclnn.signature("aclnnMm")
    values = [a, b, out, 0]
    ops.mm(a, b, out=out)
    stream = npu.session.target(None)
    plan = npu.launcher._plans[operator]
    undo: list[Any] = []
    arguments = plan.arguments(values, stream, npu.session.handles, undo, False)
    cells = npu.runtime.cells
    executor = aclnn.Executor("aclnnMm", a, b, out, 0, repeatable=True)
    prepared: Any = executor._prepared
    raw = prepared._executor

    def phases() -> None:
        plan.phase_one(*arguments, cells.workspace_size_at, cells.executor_at)
        plan.phase_two(None, 0, cells.executor.value, None)

    def handle() -> None:
        out.handle = None
        npu.session.handles.shared(out, undo)

    def storage() -> None:
        npu.allocate(64, 0).use(stream)

    def time(call: Callable[[], Any]) -> float:
        return microseconds(call, number, aclnn.synchronize)

    rows = [
        ("backend.run of mm", time(lambda: npu.run(operator, values, None)), "a call that is not remembered"),
        ("  thread's device and stream", time(lambda: npu.session.target(None)), ""),
        (
            "  arguments",
            time(lambda: plan.arguments(values, stream, npu.session.handles, undo, False)),
            "kept aclTensors",
        ),
        ("  both phases, bare", time(phases), "ctypes and the library"),
        ("aclTensor of an output", time(handle), "create and destroy"),
        ("memory of an output", time(storage), "from the cache and back"),
        ("Executor.run, repeatable", time(executor.run), ""),
        ("  phase two, bare", time(lambda: plan.phase_two(None, 0, raw, None)), "ctypes and the library"),
    ]
    executor.close()
    return rows


def measure_torch() -> list[tuple[str, list[float]]]:
    """Rows of the table of torch's NPU tensors: what, and the microseconds of the calling thread for each kind of call.

    The kinds take turns of some calls each, so that other work of the machine meets all of them; the least of the turns counts.
    torch_npu launches from a thread of its own, whose time is left out.
    """
    import torch
    import torch_npu

    def ones(*shape: int) -> tuple[Any, Any]:
        return aclnn.asarray(np.ones(shape, np.float32)), torch.ones(shape, device="npu")

    (x, a), (gamma, g) = ones(4, 4), ones(4)
    calls: dict[str, list[Callable[[], Any]]] = {
        "mm": [lambda: ops.mm(x, x), lambda: ops.mm(a, a), lambda: torch.mm(a, a)],
        "add": [lambda: ops.add(x, x, 1), lambda: ops.add(a, a, 1), lambda: torch.add(a, a)],
        "rms_norm": [
            lambda: ops.rms_norm(x, gamma),
            lambda: ops.rms_norm(a, g),
            lambda: torch_npu.npu_rms_norm(a, g, 1e-6),
        ],
    }
    found = []
    for what, kinds in calls.items():
        least = [math.inf] * len(kinds)
        for _ in range(300):
            for i, call in enumerate(kinds):
                least[i] = min(least[i], timeit.timeit(call, timer=time.thread_time, number=20) / 20 * 1e6)
                torch_npu.npu.synchronize()
                aclnn.synchronize()
        found.append((what, least))
    return found


def shortest(call: Callable[[], Any], number: int = 100) -> float:
    """Microseconds of one call: the best of many short runs, which other work of the machine leaves alone."""
    call()
    return min(timeit.repeat(call, number=number, repeat=200)) / number * 1e6


def measure_numpy() -> list[tuple[str, float, Optional[float]]]:
    """Rows of the table of small calls: what, microseconds here, and torch's."""
    try:
        import torch

        torch.set_num_threads(1)
    except ImportError:
        torch = None
    a, gamma = np.ones((4, 4), np.float32), np.ones(4, np.float32)
    half = a.astype(np.float16)
    words = np.array([0, 1])
    x, out = aclnn.asarray(a), aclnn.empty((4, 4), np.float32)
    executor = aclnn.Executor("aclnnAdd", x, x, aclnn.Scalar(1.0), out, repeatable=True)
    theirs: dict[str, Callable[[], Any]] = {}
    if torch is not None:
        t, g, h, w = (torch.from_numpy(array) for array in (a, gamma, half, words))
        functional = torch.nn.functional
        theirs = {
            "add": lambda: t + t,
            "add, float16": lambda: h + h,
            "add_(a, b)": lambda: t.add_(t),
            "relu": lambda: torch.relu(t),
            "softmax": lambda: t.softmax(-1),
            "mm": lambda: t @ t,
            "reduce_sum": lambda: t.sum(1),
            "cat": lambda: torch.cat([t, t], 0),
            "rms_norm": lambda: functional.rms_norm(t, (4,), g, 1e-6),
            "layer_norm": lambda: functional.layer_norm(t, (4,), g, g),
            "embedding": lambda: functional.embedding(w, t),
        }
    ours: dict[str, Callable[[], Any]] = {
        "add": lambda: ops.add(a, a, 1),
        "add, float16": lambda: ops.add(half, half, 1),
        "add_(a, b)": lambda: ops.inplace_add(a, a, 0),
        "relu": lambda: ops.relu(a),
        "add, Tensors": lambda: ops.add(x, x, 1),
        "add, Tensors, out=": lambda: ops.add(x, x, 1, out=out),
        "Executor.run of add": executor.run,
        "softmax": lambda: ops.softmax(a, -1),
        "mm": lambda: ops.mm(a, a),
        "reduce_sum": lambda: ops.reduce_sum(a, [1], False, 0),
        "cat": lambda: ops.cat([a, a], 0),
        "rms_norm": lambda: ops.rms_norm(a, gamma),
        "layer_norm": lambda: ops.layer_norm(a, [4], gamma, gamma, 1e-5),
        "embedding": lambda: ops.embedding(a, words),
    }
    return [(name, shortest(call), shortest(theirs[name]) if name in theirs else None) for name, call in ours.items()]


def measure_new_shapes() -> list[tuple[str, float, float]]:
    """Calls with shapes that never came before: microseconds of the whole call and of its phase one, the middle of 200."""
    lengths: list[float] = []
    check = rules.check

    def timed(*arguments: Any) -> Any:
        start = time.perf_counter()
        violation = check(*arguments)
        lengths.append(time.perf_counter() - start)
        return violation

    weight = np.ones((2, 16, 8), np.float16)
    options = {"split_item": 3, "group_type": 0, "group_list_type": 0, "act_type": 0, "tuning_config": None}
    calls: dict[str, Callable[[int], Any]] = {
        "add": lambda rows: ops.add(np.ones((rows, 4), np.float32), np.ones((rows, 4), np.float32), 1),
        "cat": lambda rows: ops.cat([np.ones((rows, 3), np.float32), np.ones((rows, 5), np.float32)], 1),
        "grouped_matmul_v5": lambda rows: ops.grouped_matmul_v5(
            [np.ones((rows, 16), np.float16)], [weight], group_list=np.array([rows // 2, rows]), **options
        ),
    }
    found = []
    rules.check = timed
    for name, call in calls.items():
        whole = []
        for rows in range(5, 230):
            start = time.perf_counter()
            call(rows)
            whole.append(time.perf_counter() - start)
        found.append((name, statistics.median(whole[25:]) * 1e6, statistics.median(lengths[25:]) * 1e6))
        lengths.clear()
    rules.check = check
    return found


WAYS = ("native", "helper", "polling", "package")


def measure_waits(repetitions: int) -> list[tuple[str, dict[str, float]]]:
    """Rows of the table of waits: the work, and microseconds from before its launch to the end of each way to wait for it.

    The work is products of matrices that take about as long as the row says where the wait is a native one. The ways take
    turns, and the middle of all turns counts.
    """
    npu = aclnn.backend()
    assert isinstance(npu, NpuBackend)
    runtime, stream = npu.runtime, npu.session.target(None)
    native = runtime.synchronize_stream
    context, handle = stream.device.context, stream.handle

    def passed() -> bool:
        return runtime._has_passed(runtime.query_stream, handle, STREAM_COMPLETE)

    def poll() -> None:
        waiting._ask(passed, time.monotonic(), 3600)
        native(handle)

    ways: dict[str, Callable[[], Any]] = {
        "native": lambda: native(handle),
        "helper": lambda: runtime.waits._wait_on_helper(waiting._NativeWait(native, context, (handle,)), -1),
        "polling": poll,
        "package": lambda: runtime.wait_stream(stream),
    }

    def microseconds(run: Callable[[], Any], way: str) -> float:
        start = time.perf_counter()
        run()
        ways[way]()
        return (time.perf_counter() - start) * 1e6

    def matrices(target: float) -> aclnn.Executor:
        """A product that takes at least so many microseconds."""
        size = 4
        while True:
            x = aclnn.asarray(np.ones((size, size), np.float32))
            product = aclnn.Executor("aclnnMm", x, x, aclnn.empty((size, size), np.float32), 0, repeatable=True)
            if min(microseconds(product.run, "native") for _ in range(5)) >= target:
                return product
            product.close()
            size = size * 5 // 4 + 1

    rows = []
    for name, target in (("none", None), ("20 us", 20), ("1 ms", 1000), ("50 ms", 50_000)):
        product = None if target is None else matrices(target)
        run: Callable[[], Any] = (lambda: None) if product is None else product.run
        times: dict[str, list[float]] = {way: [] for way in WAYS}
        for _ in range(max(20, repetitions if target != 50_000 else repetitions // 20)):
            for way in WAYS:
                times[way].append(microseconds(run, way))
        if product is not None:
            product.close()
        rows.append((name, {way: statistics.median(times[way]) for way in WAYS}))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", action="store_true", help="measure on this host's device")
    parser.add_argument("--wait", action="store_true", help="ways to wait for the device")
    parser.add_argument("--numpy", action="store_true", help="small calls on the NumPy backend")
    parser.add_argument(
        "--torch", action="store_true", help="torch's NPU tensors as arguments, beside torch_npu itself"
    )
    parser.add_argument("--all", action="store_true", help="the calls, --torch and --wait, one after another")
    parser.add_argument("--number", type=int, default=5000, help="calls per measurement")
    parser.add_argument("--write", action="store_true", help="write the page of docs/results; for an idle machine")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.all:
        sys.exit(run_all([argument for argument in sys.argv[1:] if argument != "--all"]))
    if options.numpy:
        with aclnn.use_backend("numpy"):
            print(f"small calls in microseconds, 4 x 4 (NumPy backend, NumPy {np.__version__})\n")
            print(f"{'':<32}{'ours':>8}{'torch':>8}")
            known = measure_numpy()
            for what, ours, theirs in known:
                print(f"{what:<32}{ours:8.1f}{'' if theirs is None else f'{theirs:8.1f}'}")
            print(f"\n{'shapes that are new':<32}{'whole':>8}{'phase one':>12}")
            new = measure_new_shapes()
            for what, whole, phase_one in new:
                print(f"{what:<32}{whole:8.0f}{phase_one:12.0f}")
        if options.write:
            write_numpy(known, new)
        return
    if not options.device and not options.measure:
        from ascend_aclnn.cli.emulator import environment
        from ascend_aclnn.emulator.build import build

        variables = environment(build(), **({} if options.wait else {"ASCEND_EMULATOR_NOOP": "1"}))
        command = [sys.executable, __file__, "--measure", "--number", str(options.number)]
        command += ["--write"] * options.write
        if options.torch:
            command.append("--torch")
            variables["ASCEND_EMULATOR_LEAKS"] = "0"  # torch_npu keeps a stream and its cached memory to the end
        command += ["--wait"] if options.wait else []
        sys.exit(subprocess.run(command, env=variables, check=False).returncode)
    os.environ["ASCEND_ACLNN_BACKEND"] = "npu"
    if options.wait:
        where = "emulated device" if options.measure else aclnn.backend().soc
        print(f"launching and waiting for some work, in microseconds ({where}; Python {sys.version.split()[0]})\n")
        print(f"{'work':<8}" + "".join(f"{way:>12}" for way in WAYS))
        waits = measure_waits(options.number // 10)
        for name, times in waits:
            print(f"{name:<8}" + "".join(f"{times[way]:12.1f}" for way in WAYS))
        if options.write:
            write_waits(waits, where, options.device)
        return
    where = "emulated device, operators do nothing" if options.measure else aclnn.backend().soc
    print(f"host cost of one call in microseconds ({where}; Python {sys.version.split()[0]})\n")
    if options.torch:
        print(f"{'':<12}{'Tensors':>12}{'torch tensors':>16}{'torch_npu':>12}")
        calls = measure_torch()
        for name, (tensors, theirs, torch_npu) in calls:
            print(f"{name:<12}{tensors:12.1f}{theirs:16.1f}{torch_npu:12.1f}")
        if options.write:
            write_torch(calls)
        return
    made_again = measure_calls(options.number)
    ways = list(made_again[0][1])
    print(f"{'':<42}" + "".join(f"{way:>18}" for way in ways))
    for what, costs in made_again:
        print(f"{what:<42}" + "".join(f"{costs[way]:18.1f}" for way in ways))
    if WITH not in ways:
        print(f"(the compiled helper is {native.status().reason})")
    print()
    parts = measure_parts(options.number)
    for what, cost, remark in parts:
        print(f"{what:<42}{cost:8.2f}   {remark}".rstrip())
    if options.write:
        write_calls(made_again, parts, where, options.device)


def run_all(arguments: Sequence[str]) -> int:
    """The tables of a device one after another, each in a process of its own; the first exit status that is not 0."""
    tables = [[], ["--torch"], ["--wait"]]
    if importlib.util.find_spec("torch_npu") is None:
        print("--torch is left out: torch_npu is not installed\n", flush=True)
        tables.remove(["--torch"])
    for table in tables:
        status = subprocess.run([sys.executable, __file__, *table, *arguments], check=False).returncode
        if status:
            return status
        print(flush=True)
    return 0


def write_numpy(known: Sequence[tuple[str, float, Optional[float]]], new: Sequence[tuple[str, float, float]]) -> None:
    text = """Calls on 4 x 4 float32 (but where a row says otherwise), in microseconds: the least of 200 short runs. The
signature was called before; torch has one thread. The second table has shapes that were not called before: the median of 200."""
    rows = [[what, f"{ours:.1f}", "" if theirs is None else f"{theirs:.1f}"] for what, ours, theirs in known]
    tables = [
        bench_results.Table(("call", "ours", "torch"), rows),
        bench_results.Table(
            ("call", "whole", "of which phase one"),
            [[what, f"{whole:.0f}", f"{phase_one:.0f}"] for what, whole, phase_one in new],
            "New shapes",
        ),
    ]
    command = "python scripts/bench_host_cost.py --numpy --write"
    bench_results.write("small-calls", "Small calls on the NumPy backend", command, text, tables)


def write_torch(calls: Sequence[tuple[str, list[float]]]) -> None:
    text = """Time of the calling thread for one call, in microseconds, on the emulated device with operators that do
nothing. The kinds of calls take turns in one run. torch_npu launches from a thread of its own, whose time is not in the table."""
    rows = [[f"`{name}`", *(f"{cost:.1f}" for cost in costs)] for name, costs in calls]
    table = bench_results.Table(("call", "Tensors", "torch tensors", "torch_npu's own"), rows)
    command = "python scripts/bench_host_cost.py --torch --write"
    bench_results.write("torch-tensors", "Calls with torch's NPU tensors", command, text, [table])


def write_waits(waits: Sequence[tuple[str, dict[str, float]]], where: str, device: bool) -> None:
    text = f"""Microseconds from before the launch of some work to the end of a wait for it ({where}): the median. The ways take
turns; the work takes as long as its row says where the wait is a native one."""
    table = bench_results.Table(
        ("work", *WAYS), [[name, *(f"{times[way]:.1f}" for way in WAYS)] for name, times in waits]
    )
    command = f"python scripts/bench_host_cost.py --wait {'--device ' * device}--write"
    bench_results.write(
        "waiting-device" if device else "waiting", "Ways to wait for the device", command, text, [table]
    )


def write_calls(
    calls: Sequence[tuple[str, dict[str, float]]], parts: Sequence[tuple[str, float, str]], where: str, device: bool
) -> None:
    text = f"""What one call costs the host, in microseconds ({where}). Calls are made again with known shapes: the least of
turns of 50, taken in one run. In the second table an indented row is a part of the row above it."""
    ways = list(calls[0][1])
    tables = [
        bench_results.Table(("call", *ways), [[f"`{w}`", *(f"{c[way]:.1f}" for way in ways)] for w, c in calls]),
        bench_results.Table(
            ("part", "us"),
            [[w.replace("  ", "&emsp;") + (f" ({remark})" if remark else ""), f"{c:.2g}"] for w, c, remark in parts],
            "Parts",
        ),
    ]
    command = f"python scripts/bench_host_cost.py {'--device ' * device}--write"
    name = "host-cost-device" if device else "host-cost"
    bench_results.write(name, "The host's share of a call", command, text, tables)


if __name__ == "__main__":
    main()
