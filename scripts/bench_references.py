"""Times the NumPy references against torch on the CPU, two threads each, and measures the memory they need.

    python scripts/bench_references.py [PATTERN] [--repeat 5] [--threads 2]
    python scripts/bench_references.py --sweep [PATTERN] [--repeat 5]       over a hundred operators, as users call them
    python scripts/bench_references.py [--sweep] --write                    also writes docs/results

torch answers at very different speeds, depending on whether its results land in memory that is already mapped. Both
sides run here with malloc told to keep what it has (the script starts itself again with those settings), so the ratio
is about the work and not about page faults. Results are compared before they are timed. Without torch only NumPy's
times are shown. Memory is the peak of what one call allocates beside its outputs.
"""

from __future__ import annotations

import argparse
import functools
import os
import resource
import statistics
import sys
import threading
import time
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Callable, NamedTuple, Optional

WARM = {"MALLOC_MMAP_THRESHOLD_": str(1 << 33), "MALLOC_TRIM_THRESHOLD_": str(1 << 40), "MALLOC_TOP_PAD_": str(1 << 12)}


class Case(NamedTuple):
    """One row of the table: our call on fresh outputs, torch's, and the most that ours may take of torch's time."""

    name: str
    target: float
    outputs: Sequence[tuple[tuple[int, ...], Any]]
    ours: Callable[[tuple[Any, ...]], None]
    theirs: Callable[[Any], Any]
    tolerance: Optional[float]  # None: bit for bit


def main() -> int:
    parser = argparse.ArgumentParser(description="Times the NumPy references against torch on the CPU.")
    parser.add_argument("pattern", nargs="?", default="", help="only cases whose name contains this")
    parser.add_argument("--repeat", type=int, default=5, help="timed calls of each side (default 5)")
    parser.add_argument("--threads", type=int, default=2, help="threads of each side (default 2)")
    parser.add_argument("--sweep", action="store_true", help="many operators, each as a whole call, fastest of REPEAT")
    parser.add_argument("--processor", action="store_true", help="with --sweep: processor time, one thread each")
    parser.add_argument("--write", action="store_true", help="write docs/results; for a whole run on an idle machine")
    arguments = parser.parse_args()
    if arguments.write and arguments.pattern:
        parser.error("--write is for all cases, without PATTERN")
    arguments.threads = 1 if arguments.processor else arguments.threads
    if any(os.environ.get(name) != value for name, value in WARM.items()):
        threads = str(arguments.threads)
        counts = dict.fromkeys(("ASCEND_ACLNN_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), threads)
        environment = {**os.environ, **WARM, **counts}
        os.execve(sys.executable, [sys.executable, *sys.argv], environment)
    bytes_mapped = b"1" * (4 << 30)  # malloc keeps it for the next allocation
    del bytes_mapped
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    torch = import_torch(arguments.threads)
    if arguments.write and torch is None:
        return 1
    if arguments.sweep:
        if torch is None:
            return 1
        from bench_sweep import sweep

        return 1 if sweep(torch, arguments.pattern, arguments.repeat, arguments.processor, arguments.write) else 0
    return 1 if bench(arguments.pattern, arguments.repeat, torch, arguments.write) else 0


def import_torch(threads: int) -> Any:
    try:
        import torch
    except ImportError:
        print("torch is not installed: only NumPy's times are shown\n")
        return None
    torch.set_num_threads(threads)
    return torch


HEAD = ("case", "NumPy ms", "torch ms", "ratio", "extra MB")
TEXT = """The NumPy references on large inputs, with the compiled helper. Both sides run in one process by turns, with
two threads each; each figure is the median of five calls. torch has its memory warm: glibc keeps what was freed. A
ratio below 1 means that NumPy is faster. The last column is what a call allocates at its peak beyond its inputs and
outputs."""


def bench(pattern: str, repeat: int, torch: Any, write: bool) -> int:
    """Prints the table; the number of cases beyond their target (15 % are allowed for noise)."""
    from bench_results import Table
    from bench_results import write as write_page

    print(f"{'case':34} {'numpy ms':>9} {'torch ms':>9} {'ratio':>6} {'target':>6}  {'extra MB':>8}")
    rows: list[list[str]] = []
    slow = sum(bench_case(make(), repeat, torch, rows) for name, make in cases().items() if pattern in name)
    if write:
        command = "python scripts/bench_references.py --write"
        write_page("references", "References beside torch on the CPU", command, TEXT, [Table(HEAD, rows)])
    return slow


def bench_case(case: Case, repeat: int, torch: Any, rows: list[list[str]]) -> bool:
    """Prints one row, and adds it to those of the page; True if it misses its target."""
    extra = extra_memory(case)
    difference = compare(case, torch) if torch else ""
    sides: list[Callable[[], Any]] = [lambda: run(case)]
    if torch:
        sides.append(lambda: case.theirs(torch))
    warm_up(sides)
    times: list[list[float]] = [[] for _ in sides]
    for _ in range(repeat):  # alternately, so that a busy machine disturbs both
        for side, call in zip(times, sides):
            call()  # OpenMP lets torch's threads spin for a while after their work: they must not meet ours
            side.append(warm_milliseconds(call))
    middle = [statistics.median(side) for side in times]
    row = [f"{case.name:34} {middle[0]:9.1f}"]
    slow = False
    if torch:
        ratio = middle[0] / middle[1]
        slow = ratio > case.target * 1.15
        row.append(f"{middle[1]:9.1f} {ratio:6.2f} {case.target:6.2f}")
        rows.append([case.name, f"{middle[0]:.1f}", f"{middle[1]:.1f}", f"{ratio:.2f}", f"{extra:.1f}"])
    else:
        row.append(f"{'-':>9} {'-':>6} {case.target:6.2f}")
    row.append(f" {extra:8.1f}{'  SLOW' if slow else ''}{difference}")
    print(*row, flush=True)
    return slow or bool(difference)


def run(case: Case) -> tuple[Any, ...]:
    import numpy as np

    out = tuple(np.empty(shape, dtype) for shape, dtype in case.outputs)
    case.ours(out)
    return out


def milliseconds(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return 1e3 * (time.perf_counter() - start)


def warm_milliseconds(call: Callable[[], Any]) -> float:
    """One time, measured again where the call met fresh pages after all."""
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        time_taken = milliseconds(call)
        if resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before < 2000:
            break
    return time_taken


def warm_up(sides: list[Callable[[], Any]]) -> None:
    """Calls until no side meets fresh pages any more."""
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        for call in sides:
            call()
        if resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before < 2000:
            return


def extra_memory(case: Case) -> float:
    """Megabytes allocated at the peak of one call, beyond inputs and outputs.

    In a child process and a new thread, because threads keep scratch memory from call to call.
    """
    import numpy as np

    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        out = tuple(np.empty(shape, dtype) for shape, dtype in case.outputs)
        worker = threading.Thread(target=case.ours, args=(out,))
        tracemalloc.start()
        worker.start()
        worker.join()
        os.write(write, str(tracemalloc.get_traced_memory()[1] / 1e6).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as answer:
        megabytes = float(answer.read())
    os.waitpid(child, 0)
    return megabytes


def compare(case: Case, torch: Any) -> str:
    import numpy as np

    ours, theirs = run(case)[0], case.theirs(torch)
    theirs = theirs[0] if isinstance(theirs, tuple) else theirs
    theirs = theirs.to(torch.float32).numpy()
    ours = ours.astype(np.float32)
    if case.tolerance is None:
        wrong = int(np.count_nonzero(ours != theirs))
        return f"  {wrong} BITS DIFFER" if wrong else ""
    error = float(np.max(np.abs(ours - theirs) / (1 + np.abs(theirs))))
    return f"  WRONG by {error}" if error > case.tolerance else ""


# ---------------------------------------------------------------------------------------------------------- cases


def cases() -> dict[str, Callable[[], Case]]:
    import ml_dtypes
    import numpy as np

    cases: dict[str, Callable[[], Case]] = {}
    dtypes = {"fp32": np.dtype(np.float32), "bf16": np.dtype(ml_dtypes.bfloat16), "fp16": np.dtype(np.float16)}

    def add(name: str, targets: tuple[float, float, float], make: Callable[..., Case], *arguments: Any) -> None:
        for (label, dtype), target in zip(dtypes.items(), targets):
            full = f"{name} {label}"
            cases[full] = functools.partial(make, full, target, dtype, *arguments)

    add("RmsNormGrad 8192x7168", (0.4, 0.4, 1.0), rms_norm_grad, 8192, 7168)
    add("MoeTokenPermuteGrad 4096x8x7168", (0.7, 1.0, 2.0), permute_grad, 4096, 8, 7168)
    add("EmbeddingDenseBackward uniform", (1.2, 0.8, 0.8), embedding, 8192, 4096, 32768, False)
    add("EmbeddingDenseBackward skewed", (1.4, 0.8, 0.8), embedding, 8192, 4096, 32768, True)
    add("MoeInitRoutingQuant 4096x8x7168", (1.5, 1.0, 1.2), routing_quant, 4096, 8, 7168)
    return cases


def normal(shape: tuple[int, ...], dtype: Any) -> Any:
    import numpy as np

    return np.random.default_rng(0).standard_normal(shape, dtype=np.float32).astype(dtype)


def tensor(torch: Any, array: Any) -> Any:
    """A torch tensor over the same memory."""
    import numpy as np

    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def tolerance(dtype: Any) -> float:
    return {"float32": 1e-4, "float16": 1e-3, "bfloat16": 8e-3}[dtype.name]


def rms_norm_grad(name: str, target: float, dtype: Any, rows: int, width: int) -> Case:
    import numpy as np

    from ascend_aclnn.reference.norm.rms import rms_norm_grad as ours

    dy, x, gamma = normal((rows, width), dtype), normal((rows, width), dtype)[::-1].copy(), normal((width,), dtype)
    rstd = (1 / np.sqrt(1 + np.abs(normal((rows, 1), np.float32)))).astype(np.float32)

    def theirs(torch: Any) -> Any:
        a, b, g, r = (tensor(torch, array).to(torch.float32) for array in (dy, x, gamma, rstd))
        xh, t = b * r, a * g
        m = (t * xh).mean(-1, keepdim=True)
        return ((t - xh * m) * r).to(tensor(torch, x).dtype), (a * xh).sum(0)

    outputs = [((rows, width), dtype), ((width,), np.float32)]
    return Case(name, target, outputs, lambda out: ours(dy, x, rstd, gamma, out=out), theirs, tolerance(dtype))


def permute_grad(name: str, target: float, dtype: Any, tokens: int, top_k: int, width: int) -> Case:
    import numpy as np

    from ascend_aclnn.reference.moe.tokens import moe_token_permute_grad as ours

    grad = normal((tokens * top_k, width), dtype)
    order = np.random.default_rng(1).permutation(tokens * top_k).astype(np.int32)

    def theirs(torch: Any) -> Any:
        return tensor(torch, grad).index_select(0, tensor(torch, order)).view(tokens, top_k, width).sum(1)

    outputs = [((tokens, width), dtype)]
    return Case(name, target, outputs, lambda out: ours(grad, order, top_k, False, out=out), theirs, tolerance(dtype))


def embedding(name: str, target: float, dtype: Any, rows: int, width: int, vocabulary: int, skewed: bool) -> Case:
    import numpy as np

    from ascend_aclnn.reference.index.embedding import embedding_dense_backward as ours

    rng = np.random.default_rng(2)
    grad = normal((rows, width), dtype)
    if skewed:
        indices = np.minimum(rng.zipf(1.2, rows) - 1, vocabulary - 1).astype(np.int64)
    else:
        indices = rng.integers(0, vocabulary, rows)

    def theirs(torch: Any) -> Any:
        gradient = tensor(torch, grad)
        wide = gradient.to(torch.float32)  # torch adds 16-bit floats in 16 bits, which is another operator
        result = torch.ops.aten.embedding_dense_backward(wide, tensor(torch, indices), vocabulary, -1, False)
        return result.to(gradient.dtype)

    def call(out: tuple[Any, ...]) -> None:
        ours(grad, indices, vocabulary, 2**64 - 1, False, out=out)

    return Case(name, target, [((vocabulary, width), dtype)], call, theirs, tolerance(dtype))


def routing_quant(name: str, target: float, dtype: Any, tokens: int, top_k: int, width: int) -> Case:
    import numpy as np

    from ascend_aclnn.reference.moe.tokens import moe_init_routing_quant as ours

    scale, offset = 23.5, 1.25  # exact in half
    x = normal((tokens, width), dtype)
    experts = np.random.default_rng(3).integers(0, 256, (tokens, top_k)).astype(np.int32)
    rows = np.arange(tokens * top_k, dtype=np.int32).reshape(top_k, tokens).T.copy()

    def theirs(torch: Any) -> Any:
        h = tensor(torch, x).to(torch.float16)
        h = (h * scale + offset).round().clamp(-128, 127).to(torch.int8)
        order = tensor(torch, experts).reshape(-1).sort(stable=True)
        r = tensor(torch, rows).reshape(-1)[order.indices]
        places = torch.empty_like(r)
        places[r.long()] = torch.arange(len(r), dtype=r.dtype)
        return h.index_select(0, r % tokens), places, order.values

    outputs = [((tokens * top_k, width), np.int8), ((tokens * top_k,), np.int32), ((tokens * top_k,), np.int32)]

    def call(out: tuple[Any, ...]) -> None:
        ours(x, rows, experts, tokens, scale, offset, out=out)

    return Case(name, target, outputs, call, theirs, None)


if __name__ == "__main__":
    sys.exit(main())
