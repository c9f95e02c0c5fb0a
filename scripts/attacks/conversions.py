"""Low-precision numbers on Ascend 950: the compiled helper, NumPy, and the emulated device, bit for bit."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import numpy as np

import ascend_aclnn as aclnn
from ascend_aclnn import native, ops
from ascend_aclnn.native import library
from ascend_aclnn.numerics import round_into, widen
from attacks.scenario import SHARED, Run, scenario

SOC = "Ascend950PR_9599"
LOW = ("FLOAT8_E4M3FN", "FLOAT8_E5M2", "HIFLOAT8", "INT4", "FLOAT4_E2M1", "FLOAT16", "BF16", "INT8")


def values(choice: random.Random, count: int) -> Any:
    """float32 of every kind: bits at random, near the edges of small floats, whole numbers, midpoints."""
    rng = np.random.default_rng(choice.randrange(1 << 32))
    kind = choice.randrange(4)
    if kind == 0:
        return rng.integers(0, 1 << 32, count, dtype=np.uint32).view(np.float32)
    if kind == 1:
        base = (rng.integers(0, 1 << 13, count, dtype=np.uint32) << 19) + rng.integers(-2, 3, count).astype(np.uint32)
        return base.view(np.float32)
    if kind == 2:
        return (rng.integers(-40, 40, count) / choice.choice((1, 2, 4))).astype(np.float32)
    return (rng.standard_normal(count) * 2.0 ** choice.randrange(-20, 20)).astype(np.float32)


def use_helper(run: Run) -> Any:
    """Loads the helper, which the first turn builds, in most of a minute on a busy host."""
    library.PACKAGED = Path(os.environ[SHARED])
    if not (library.PACKAGED / library.library_name()).exists():
        library.build(library.PACKAGED)
    native._status = native._library = None
    run.expect(native.status().path, f"the compiled helper is not used: {native.status().reason}")
    return native._library


@scenario()
def helper_conversions(run: Run) -> None:
    """Every conversion of the compiled helper, on every instruction set, beside NumPy's on arrays of odd sizes and steps."""
    use_helper(run)
    pairs = sorted(native._CONVERSIONS, key=str)
    for choice in run.rounds():
        source, target = choice.choice(pairs)
        instructions = choice.choice(("plain", "avx2", "avx512", "neon"))
        if not native.use_instructions(instructions):
            continue
        rows, columns = choice.choice((1, 2, 7)), choice.choice((1, 3, 31, 64, 1000, 4097))
        run.step(f"{source} to {target} by {instructions}, {rows} rows of {columns}")
        if source == np.float32:
            x = values(choice, rows * (columns + 5))
        else:
            rng = np.random.default_rng(choice.randrange(1 << 32))
            x = np.frombuffer(rng.bytes(rows * (columns + 5) * source.itemsize), source)
        x = x.reshape(rows, -1)[:, :columns]
        found, wanted = np.empty(x.shape, target), np.empty(x.shape, target)
        with np.errstate(all="ignore"):
            run.expect(native.convert(x, found), "the helper has the conversion and does not make it")
            convert_without(x, wanted)
        nan = np.isnan(x.astype(np.float64)) if source.kind in "fV" else np.zeros(x.shape, bool)
        differ = np.flatnonzero((found.view(f"u{target.itemsize}") != wanted.view(f"u{target.itemsize}")) & ~nan)
        run.expect(
            differ.size == 0,
            f"{x.ravel()[differ[:3]]} became {found.ravel()[differ[:3]]}, NumPy: {wanted.ravel()[differ[:3]]}",
        )
        run.count(f"{source} to {target}")


def convert_without(source: Any, target: Any) -> None:
    """NumPy's path of the package."""
    has = native.converts
    native.converts = lambda *_: False
    try:
        if target.dtype == np.float32:
            target[...] = widen(source)
        else:
            round_into(target, source)
    finally:
        native.converts = has


def without_nan_bits(array: Any) -> Any:
    """The bytes of a result, with one NaN for all, whose bits are left open."""
    array = np.asarray(array)
    if array.dtype == np.float16 or array.dtype.name == "bfloat16" or array.dtype.name.startswith("float8"):
        array = np.where(np.isnan(array.astype(np.float32)), np.float32("nan"), array.astype(np.float32))
    return array.tobytes()


@scenario(emulator=("--soc", SOC), ASCEND_ACLNN_SOC=SOC)
def low_precision_casts(run: Run) -> None:
    """aclnnCast to and from FP8, HIFLOAT8, INT4 and FP4 on 950: with the helper, without it, and on the emulated device."""
    helper = use_helper(run)
    for choice in run.rounds():
        dtype, shape = choice.choice(LOW), choice.choice(((1,), (7,), (64,), (3, 33), (2, 0), (5, 4100)))
        x = values(choice, int(np.prod(shape))).reshape(shape)
        if dtype.startswith(("INT", "FLOAT4")):
            x = np.nan_to_num(np.clip(x, -100, 100))  # beyond, what a conversion gives is left open
            shape = x.shape
        run.step(f"aclnnCast of {shape} float32 to {dtype}; first {x.ravel()[:4]}")
        found: dict[str, bytes] = {}
        for way in ("helper", "numpy", "device"):
            native._library = None if way == "numpy" else helper
            with aclnn.use_backend("npu") if way == "device" else aclnn.use_backend("numpy", soc=SOC):
                low = ops.cast(aclnn.asarray(x), dtype)
                found[way] = without_nan_bits(low.numpy() if dtype == "INT4" else ops.cast(low, "FLOAT").numpy())
        run.expect(found["helper"] == found["numpy"], f"{dtype}: the helper and NumPy differ")
        run.expect(found["device"] == found["numpy"], f"{dtype}: the emulated device and NumPy differ")
        run.count(f"casts to {dtype}")
