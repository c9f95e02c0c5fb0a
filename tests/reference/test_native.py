"""The compiled helper: bit for bit NumPy's conversions, on every instruction set; chosen, built and refused as documented."""

from __future__ import annotations

import ctypes
import functools
import itertools
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any, Callable

import ml_dtypes
import numpy as np
import pytest

import ascend_aclnn as aclnn
from ascend_aclnn import catalog, native, ops
from ascend_aclnn.backends.npu import prototypes
from ascend_aclnn.cli import main
from ascend_aclnn.native import calls
from ascend_aclnn.native import library as native_library
from ascend_aclnn.numerics import convert, round_into, rounded_to, widen
from ascend_aclnn.reference._arrays import cast_into
from ascend_aclnn.reference.norm.layer import normalised

BF16, E4M3, E5M2 = (np.dtype(t) for t in (ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2))
HALF = np.dtype(np.float16)

pytestmark = pytest.mark.skipif(
    not any(map(shutil.which, ("cc", "gcc", "clang"))), reason="no C compiler to build the helper with"
)


@functools.lru_cache(1)
def bit_patterns() -> Any:
    """float32: every value of 16 bits with what lies beside it and at its midpoints, and a sample of all others."""
    upper = np.arange(1 << 16, dtype=np.uint32) << 16
    halves = np.arange(1 << 19, dtype=np.uint32) << 13
    random = np.random.default_rng(0).integers(0, 1 << 32, 1 << 22, dtype=np.uint32)
    stepped = np.arange(0, 1 << 32, 1021, dtype=np.uint64).astype(np.uint32)
    edges = [upper + np.uint32(k) for k in (0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF)]
    edges += [halves + np.uint32(k) for k in (0, 1, 0xFFF, 0x1000, 0x1001, 0x1FFF)]
    patterns = np.concatenate([random, stepped, *edges]).view(np.float32)
    patterns.flags.writeable = False
    return patterns


@pytest.mark.parametrize("dtype", [HALF, BF16], ids=str)
def test_rounding_of_float64_is_numpys(helper: str, dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Midpoints of 16-bit floats, what lies next to them in float64, random numbers and NaN of all kinds."""
    with np.errstate(all="ignore"):
        near = np.arange(1 << 16, dtype=np.uint16).view(dtype).astype(np.float64)
        middle = (near[:-1] + near[1:]) / 2
    random = np.random.default_rng(0).integers(0, 1 << 64, 1 << 18, dtype=np.uint64).view(np.float64)
    odd = np.array([1e-45, 2e-45, 7e-46, 5e-324, 65519.999999, 65520.0, 3.4e38, 3.5e38, 1e300, np.nan, -np.nan])
    x = np.concatenate([near, middle, np.nextafter(middle, np.inf), np.nextafter(middle, -np.inf), random, odd])
    found, wanted = np.empty(x.shape, dtype), np.empty(x.shape, dtype)
    round_into(found, x)
    monkeypatch.setattr(native, "converts", lambda *_: False)
    round_into(wanted, x)
    assert np.array_equal(found.view(np.uint16), wanted.view(np.uint16))


def as_numpy(values: Any, dtype: np.dtype[Any]) -> Any:
    with np.errstate(all="ignore"):
        cast = values.astype(dtype)
    if dtype == HALF:  # NumPy keeps some of a NaN's bits
        cast[np.isnan(values) & ~np.signbit(values)] = np.uint16(0x7E00).view(HALF)
        cast[np.isnan(values) & np.signbit(values)] = np.uint16(0xFE00).view(HALF)
    return cast


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("kind", [np.uint8, np.uint16, np.uint32, np.uint64, np.complex128])
def test_triangles_of_any_width_at_any_address(helper: str, kind: Any, upper: bool) -> None:
    """Widths below, at and above a line of 64 bytes; targets that begin within one; rows of several matrices."""
    rng = np.random.default_rng(0)
    for height, width, start, diagonal in itertools.product(
        (1, 5, 70), (1, 7, 64, 130), (0, 3, 40), (-80, -3, 0, 1, 66, 200)
    ):
        x = rng.integers(1, 200, (2, height, width)).astype(kind)
        memory = np.full((2 * height * width + start + 1), 77, kind)
        target = memory[start:-1].reshape(x.shape)
        assert native.triangle(x, target, diagonal, upper, 1, 2 * height)
        expected = (np.triu if upper else np.tril)(x, diagonal).reshape(-1, width)
        assert np.array_equal(target.reshape(-1, width)[1:], expected[1:])
        assert (memory[:start] == 77).all() and memory[-1] == 77 and (target.reshape(-1, width)[0] == 77).all()
        assert native.triangle(x, x, diagonal, upper, 0, 2 * height)
        assert np.array_equal(x.reshape(-1, width), expected)


@pytest.mark.parametrize("columns", [1, 5, 8, 31, 64, 100, 129, 1000, 2048, 9001])
def test_exponentials_of_scores_have_the_bits_of_numpy(helper: str, columns: int) -> None:
    """Rows of which some are hidden, all are, one is NaN or infinite; sums of float32 in NumPy's order."""
    if not native.has("exp"):
        assert native.exponentials(np.zeros((1, 1), np.float32), np.float32(0)) is None
        return
    least = np.finfo(np.float32).min
    scores = (np.random.default_rng(columns).standard_normal((5, 11, columns)) * 20).astype(np.float32)
    scores[0, 0], scores[0, 1:, :3], scores[1, 2, -1], scores[2, 3, columns // 2] = -np.inf, -np.inf, np.nan, np.inf
    with np.errstate(all="ignore"):
        largest = np.maximum(scores.max(-1, keepdims=True), least)
        exponentials = np.exp(scores - largest)
    found = native.exponentials(scores, least)
    assert found is not None
    np.testing.assert_array_equal(found[0], largest)
    np.testing.assert_array_equal(scores, exponentials)
    np.testing.assert_array_equal(found[1], exponentials.sum(-1, keepdims=True))


@pytest.mark.parametrize("kind", [np.uint8, np.uint16, np.float32, np.float64, np.complex128])
def test_planes_with_a_number_around_them(helper: str, kind: Any) -> None:
    """Nothing is written beside the target, whatever its address; no rows or columns on some sides."""
    rng = np.random.default_rng(0)
    for rows, columns, around in itertools.product(
        (1, 5), (1, 7, 70), ([(0, 0), (0, 0)], [(1, 2), (0, 3)], [(0, 1), (40, 0)])
    ):
        x, number = rng.integers(1, 99, (3, rows, columns)).astype(kind), np.array(123, kind)
        expected = np.pad(x, [(0, 0), *around], constant_values=123)
        memory = np.full(expected.size + 4, 77, kind)
        target = memory[3:-1].reshape(expected.shape)
        assert native.pad(x, target, number, around)
        assert np.array_equal(target, expected) and (memory[:3] == 77).all() and memory[-1] == 77
    assert not native.pad(x, target, number, [(-1, 1), (0, 0)]) and not native.pad(x, target, number, [(0, 0)])


@pytest.mark.parametrize("axis", [1, 2])
def test_resampled_axes_have_the_bits_of_numpy(helper: str, axis: int) -> None:
    """Infinities and NaN included: a product for each tap, added in order."""
    rng = np.random.default_rng(0)
    for size, positions, taps in ((1, 1, 1), (7, 30, 2), (40, 33, 4)):
        shape = [3, 35, 35]
        shape[axis] = size
        x = (rng.standard_normal(shape) * 1e3).astype(np.float32)
        x[0, 0], x[1, 0, 0] = np.inf, np.nan
        places = rng.integers(0, size, (taps, positions))
        weights = rng.standard_normal((taps, positions)).astype(np.float32)
        found = native.resample(x, axis, places, weights)
        with np.errstate(all="ignore"):
            terms = [np.take(x, p, axis) * w.reshape(-1, *(1,) * (2 - axis)) for p, w in zip(places, weights)]
            expected = sum(terms[1:], terms[0])
        assert found is not None
        np.testing.assert_array_equal(found, expected)
    assert native.resample(x.astype(np.float64), axis, places, weights) is None


OPERATORS_OF_PLANES: dict[str, Callable[[Any], Any]] = {
    "constant_pad_nd": lambda x: ops.constant_pad_nd(x, [3, 1, 0, 2], 1.5),
    "upsample_linear1d": lambda x: ops.upsample_linear1d(x.reshape(40, 33, 900), [1350], False, 1.5),
    "upsample_bilinear2d": lambda x: ops.upsample_bilinear2d(x, [45, 61], False, 0.0, 0.0),
    "upsample_bicubic2d": lambda x: ops.upsample_bicubic2d(x, [19, 50], True, 0.0, 0.0),
    "flash_attention_score": lambda x: ops.flash_attention_score(
        x, x, x, scale_value=0.3, pre_tokens=9, next_tokens=0, head_num=33, input_layout="BNSD"
    )[3],
}


@pytest.mark.parametrize("dtype", [np.dtype(np.float32), HALF, BF16], ids=str)
@pytest.mark.parametrize("name", OPERATORS_OF_PLANES)
def test_operators_of_planes_have_the_bits_of_numpy(
    helper: str, name: str, dtype: np.dtype[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Large enough for several blocks; without the helper's function each takes NumPy's calls."""
    x = np.random.default_rng(0).standard_normal((40, 33, 30, 30)).astype(dtype)
    refusals = {"pad": False, "resample": None, "exponentials": None}
    answers: list[Any] = []

    def recorded(function: Callable[..., Any], *arguments: Any) -> Any:
        answers.append(function(*arguments))
        return answers[-1]

    for function in refusals:
        monkeypatch.setattr(native, function, functools.partial(recorded, getattr(native, function)))
    found = OPERATORS_OF_PLANES[name](x)
    assert answers
    refused = any(answer is None or answer is False for answer in answers)
    assert not refused or (name == "flash_attention_score" and not native.has("exp"))
    for function, refusal in refusals.items():
        monkeypatch.setattr(native, function, lambda *_, refusal=refusal: refusal)
    assert found.tobytes() == OPERATORS_OF_PLANES[name](x).tobytes()


@pytest.mark.parametrize("dtype", [HALF, BF16], ids=str)
def test_every_value_is_widened_exactly(helper: str, dtype: np.dtype[Any]) -> None:
    every = np.arange(1 << 16, dtype=np.uint16).view(dtype)
    out = np.empty(1 << 16, np.float32)
    assert native.convert(every, out)
    with np.errstate(all="ignore"):
        assert out.tobytes() == every.astype(np.float32).tobytes()


@pytest.mark.parametrize("dtype", [HALF, BF16, E4M3, E5M2], ids=str)
def test_rounding(helper: str, dtype: np.dtype[Any]) -> None:
    given = bit_patterns()
    out = np.empty(given.shape, dtype)
    assert native.convert(given, out)
    want = as_numpy(given, dtype)
    kind = np.uint16 if dtype.itemsize == 2 else np.uint8
    wrong = np.flatnonzero(out.view(kind) != want.view(kind))
    assert wrong.size == 0, f"{given[wrong[:5]]} became {out[wrong[:5]]} instead of {want[wrong[:5]]}"


def test_scales(helper: str) -> None:
    """FLOAT8_E8M0, both ways."""
    scale = np.dtype(ml_dtypes.float8_e8m0fnu)
    every = np.arange(256, dtype=np.uint8).view(scale)
    wide = np.empty(256, np.float32)
    assert native.convert(every, wide)
    np.testing.assert_array_equal(wide, every.astype(np.float32))
    given = bit_patterns()
    out = np.empty(given.shape, scale)
    assert native.convert(given, out)
    want = as_numpy(given, scale)
    wrong = np.flatnonzero(out.view(np.uint8) != want.view(np.uint8))
    assert wrong.size == 0, f"{given[wrong[:5]]} became {out[wrong[:5]]} instead of {want[wrong[:5]]}"


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.int32])
def test_whole_numbers(helper: str, dtype: Any) -> None:
    """As the NumPy path: half to even, saturated, NaN as 0."""
    given = bit_patterns()[::7].copy()
    out, want = (np.empty(given.shape, dtype) for _ in range(2))
    assert native.convert(given, out)
    with np.errstate(all="ignore"):
        convert._round_to_integer(want, given)
    np.testing.assert_array_equal(out, want)


@pytest.mark.parametrize("dtype", [np.dtype(np.float32), HALF, BF16], ids=str)
def test_casts_to_int32(helper: str, dtype: Any) -> None:
    """Cut off towards zero, saturated, NaN as 0: all numbers of 16 bits, and those around the ends of int32."""
    patterns = np.arange(1 << 16, dtype=np.uint16).view(dtype) if dtype.itemsize == 2 else bit_patterns()[::7]
    ends = np.array([-(2**31), 2**31], np.float32)
    edges = np.concatenate([ends, np.nextafter(ends, np.float32(0)), np.nextafter(2 * ends, np.float32(0)), -ends / 2])
    with np.errstate(all="ignore"):
        given = np.concatenate([patterns, edges.astype(dtype)])
        exact = np.nan_to_num(np.trunc(given.astype(np.float64)), nan=0, posinf=2**40, neginf=-(2**40))
    out = np.empty((given.size, 2), np.int32)[:, 0]
    for target in (np.empty(given.shape, np.int32), out):
        with np.errstate(all="ignore"):
            cast_into(target, given)
        np.testing.assert_array_equal(target, np.clip(exact, -(2**31), 2**31 - 1).astype(np.int32))
    assert native.cuts_off(given, np.empty(given.shape, np.int32)) and not native.cuts_off(given, out)


@pytest.mark.parametrize("dtype", [HALF, BF16], ids=str)
def test_sizes_and_strides(helper: str, dtype: np.dtype[Any]) -> None:
    rng = np.random.default_rng(1)
    for size in (*range(70), 3001, 70001):
        x = rng.standard_normal(size, dtype=np.float32)
        around = np.zeros(size + 2, dtype)
        round_into(around[1:-1], x)
        assert around[1:-1].tobytes() == x.astype(dtype).tobytes()
        assert not around[0] and not around[-1]
        assert widen(around)[1:-1].tobytes() == x.astype(dtype).astype(np.float32).tobytes()
    x = rng.standard_normal((90, 80, 70), dtype=np.float32)
    for view in (x.T, x[::2, 3:50], x[:, :, ::3], x[:, 1], np.moveaxis(x, 0, 1), np.broadcast_to(x[:1], x.shape)):
        out = np.zeros((*view.shape[:-1], 2 * view.shape[-1]), dtype)
        round_into(out[..., ::2], view)
        np.testing.assert_array_equal(out[..., ::2], view.astype(dtype))
        assert not out[..., 1::2].any()
        low = x.astype(dtype)
        np.testing.assert_array_equal(widen(low.T), low.T.astype(np.float32))


def test_unaligned_memory(helper: str) -> None:
    raw = np.zeros(2 * 5000 + 1, np.uint8)
    odd = raw[1:].view(HALF)
    x = np.random.default_rng(2).standard_normal(5000, dtype=np.float32)
    round_into(odd, x)
    assert odd.tobytes() == x.astype(HALF).tobytes()
    assert widen(odd).tobytes() == x.astype(HALF).astype(np.float32).tobytes()


def run(code: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(Path(native.__file__).parents[2]), **variables}
    return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)


TELL = "from ascend_aclnn import native; s = native.status(); print(s.mode, s.path, s.reason)"


@pytest.fixture
def ready_compiler(built_helper: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A compiler that knows the result: the real one has made it by the same command and needs ten seconds."""
    path = tmp_path / "ready"
    path.write_text(
        f'#!/bin/sh\nfor target; do :; done\nexec cp "{built_helper / native_library.library_name()}" "$target"\n'
    )
    path.chmod(0o755)
    monkeypatch.setenv("CC", str(path))


@pytest.mark.long
def test_programs_hold_under_sanitizers(tmp_path: Path) -> None:
    """The tests of programs with a helper that ASan and UBSan watch."""
    if shutil.which("cc") is None:
        pytest.skip("there is no C compiler (cc)")
    compiler = tmp_path / "watched"
    compiler.write_text('#!/bin/sh\nexec cc "$@" -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=undefined\n')
    compiler.chmod(0o755)
    names = [f"lib{name}.so" for name in ("asan", "ubsan")]
    found = [
        subprocess.run(["cc", f"-print-file-name={name}"], capture_output=True, text=True).stdout.strip()
        for name in names
    ]
    if not all(map(os.path.isabs, found)):
        pytest.skip(f"the compiler has no {' and no '.join(names)}")
    variables = {
        key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")
    }  # no worker of this run
    variables |= {"CC": str(compiler), "LD_PRELOAD": " ".join(found), "TMPDIR": str(tmp_path)}
    variables |= {
        "ASAN_OPTIONS": "detect_leaks=0:verify_asan_link_order=0",
        "ASCEND_EMULATOR_CACHE": str(tmp_path / "cache"),
    }
    options = ["-q", "-n0", "-p", "no:randomly", "-p", "no:cacheprovider", f"--basetemp={tmp_path / 'base'}"]
    chosen = [str(Path(__file__).with_name("test_programs.py")), "-k", "not exp_is and not (elementwise and avx2)"]
    command = [sys.executable, "-m", "pytest", *options, *chosen]
    done = subprocess.run(command, env=variables, capture_output=True, text=True)
    assert done.returncode == 0 and "passed" in done.stdout, done.stdout[-3000:] + done.stderr[-3000:]
    (library,) = (tmp_path / "cache").glob("*-native/*.so")
    assert b"__asan_report" in library.read_bytes()


def test_the_best_instructions_are_used(built_helper: Path) -> None:
    """Those that the kernel says the processor has: what a compiler's library knows of it may be nothing."""
    cpuinfo = Path("/proc/cpuinfo")
    flags = set(cpuinfo.read_text().split()) if cpuinfo.exists() else set()
    expected = "plain"
    if os.uname().machine == "aarch64":
        expected = "neon"
    elif {"avx2", "f16c", "fma"} <= flags:
        expected = "avx512" if {"avx512f", "avx512bw", "avx512dq", "avx512vl"} <= flags else "avx2"
    code = "from ascend_aclnn import native; print(native.status().instructions)"
    done = run(code, ASCEND_ACLNN_NATIVE="auto", ASCEND_ACLNN_NATIVE_CACHE=str(built_helper))
    assert done.stdout.strip() == expected, done.stderr


def test_modes(tmp_path: Path, ready_compiler: None) -> None:
    cache = tmp_path / "cache"
    done = run(TELL, ASCEND_ACLNN_NATIVE="auto", ASCEND_ACLNN_NATIVE_CACHE=str(cache))
    assert done.stdout.startswith("auto None not built"), done.stderr
    assert not cache.exists(), "auto builds nothing"
    done = run(TELL, ASCEND_ACLNN_NATIVE="1", ASCEND_ACLNN_NATIVE_CACHE=str(cache))
    assert done.stdout.startswith(f"1 {cache}"), done.stderr
    assert stat.S_IMODE(cache.stat().st_mode) == 0o700
    done = run(TELL, ASCEND_ACLNN_NATIVE="auto", ASCEND_ACLNN_NATIVE_CACHE=str(cache))
    assert done.stdout.startswith(f"auto {cache}"), done.stderr
    assert run(TELL, ASCEND_ACLNN_NATIVE="0", ASCEND_ACLNN_NATIVE_CACHE=str(cache)).stdout.startswith("0 None")
    assert "it must be auto, 0 or 1" in run(TELL, ASCEND_ACLNN_NATIVE="yes").stderr
    cache.chmod(0o777)  # anybody could have put the library there
    done = run(TELL, ASCEND_ACLNN_NATIVE="auto", ASCEND_ACLNN_NATIVE_CACHE=str(cache))
    assert done.stdout.startswith("auto None")


def test_without_a_compiler(tmp_path: Path) -> None:
    done = run(TELL, ASCEND_ACLNN_NATIVE="1", ASCEND_ACLNN_NATIVE_CACHE=str(tmp_path / "cache"), PATH="", CC="")
    assert "needs a C compiler" in done.stderr


def test_a_library_of_other_sources_is_not_used(
    built_helper: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = tmp_path / "csrc"
    shutil.copytree(native_library.CSRC, sources)
    (sources / "convert.c").write_text((sources / "convert.c").read_text() + "\n")
    native_library.library_name.cache_clear()
    monkeypatch.setattr(native_library, "CSRC", sources)
    monkeypatch.setattr(native_library, "PACKAGED", built_helper)
    monkeypatch.setenv("ASCEND_ACLNN_NATIVE_CACHE", str(tmp_path / "none"))
    try:
        assert native_library.find() is None
    finally:
        native_library.library_name.cache_clear()


def test_the_command(
    tmp_path: Path, ready_compiler: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ASCEND_ACLNN_NATIVE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(native, "_status", None)
    monkeypatch.setattr(native, "_library", None)
    monkeypatch.setenv("ASCEND_ACLNN_NATIVE", "auto")
    assert main(["native", "status"]) == 1
    assert "ascend-aclnn native build" in capsys.readouterr().out
    assert main(["native", "build"]) == 0
    path = capsys.readouterr().out.strip()
    assert Path(path).parent == tmp_path / "cache"
    monkeypatch.setattr(native, "_status", None)
    assert main(["native", "status"]) == 0
    assert capsys.readouterr().out.startswith(path)
    Path(path).rename(tmp_path / "cache" / f"native-{sys.platform}-{os.uname().machine}-of-older-sources.so")
    monkeypatch.setattr(native, "_status", None)
    assert main(["native", "status"]) == 1
    assert "built for another version of ascend_aclnn; ascend-aclnn native build" in capsys.readouterr().out
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CC", raising=False)
    assert main(["native", "build"]) == 1
    assert "C compiler" in capsys.readouterr().err


def test_show_config_tells_the_helper(helper: str, capsys: pytest.CaptureFixture[str]) -> None:
    aclnn.show_config()
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("helper ")]
    assert len(lines) == 1 and str(native.status().path) in lines[0]


@pytest.mark.parametrize("dtype", [np.dtype(np.float32), HALF, BF16], ids=str)
@pytest.mark.parametrize("shape", [(1, 3), (17, 8), (9, 77), (301, 1029), (43, 2100)], ids=str)
def test_columns_are_added_row_by_row(helper: str, shape: tuple[int, int], dtype: np.dtype[Any]) -> None:
    """Numbers of many sizes, so that the order of the rows shows; onto sums that are there already."""
    rng = np.random.default_rng(shape[1])
    whole = (rng.standard_normal((shape[0], shape[1] + 5)) * 10.0 ** rng.integers(-15, 5, shape[1] + 5)).astype(dtype)
    whole[0, ::3], whole[-1, 1::50] = -0.0, np.inf
    wide = whole.astype(np.float32).astype(np.float64)
    some = slice(2, 2 + shape[1])
    for x, wanted in ((whole[:, some], wide[:, some]), (whole[::-2, some], wide[::-2, some])):
        sums = rng.standard_normal(shape[1])
        wanted = np.add.accumulate(np.concatenate((sums[None], wanted)), 0)[-1]
        assert native.add_columns(x, sums)
        assert np.array_equal(sums.view(np.int64), wanted.view(np.int64))


@pytest.mark.parametrize("count", [1, 7, 8, 31, 32, 33, 1003])
@pytest.mark.parametrize("repeated", ["", "low", "high"])
def test_philox_makes_the_words_that_python_integers_make(helper: str, count: int, repeated: str) -> None:
    key = 0xFEDCBA98_76543210
    rng = np.random.default_rng(count)
    low, high = (rng.integers(0, 1 << 64, count, np.uint64) for _ in range(2))
    low, high = (np.broadcast_to(x[:1], count) if name == repeated else x for name, x in (("low", low), ("high", high)))
    made = np.zeros((count, 4), np.uint32)
    assert native.philox(key, low, high, made)
    for place in {0, count // 2, count - 1}:
        c = [int(half) >> shift & 0xFFFFFFFF for half in (low[place], high[place]) for shift in (0, 32)]
        k = [key & 0xFFFFFFFF, key >> 32]
        for _ in range(10):
            (h0, l0), (h1, l1) = divmod(0xD2511F53 * c[0], 1 << 32), divmod(0xCD9E8D57 * c[2], 1 << 32)
            c = [h1 ^ c[1] ^ k[0], l1, h0 ^ c[3] ^ k[1], l0]
            k = [(k[0] + 0x9E3779B9) % (1 << 32), (k[1] + 0xBB67AE85) % (1 << 32)]
        assert made[place].tolist() == c
    assert native.philox(key, low, high, made[:0].reshape(0, 4)) and not native.philox(
        key, low, np.zeros((count, 2), np.uint64)[:, 0], made
    )


@pytest.mark.parametrize("dtype", [np.dtype(np.float32), HALF, BF16], ids=str)
def test_losses_of_classes_are_those_of_the_formula(helper: str, dtype: np.dtype[Any]) -> None:
    rng = np.random.default_rng(0)
    rows, columns, ignored, none = 2500, 37, 5, 0
    x, weight = (rng.standard_normal(shape).astype(dtype) for shape in ((rows, columns), columns))
    classes = rng.integers(0, columns, rows)
    chosen, weights = (values.astype(np.float32) for values in (x[np.arange(rows), classes], weight[classes]))
    losses = np.where(classes == ignored, 0, -weights * chosen).astype(np.float32)
    total = np.add.reduce(losses.astype(np.float64))
    divisor = np.add.reduce(np.where(classes == ignored, 0, weights).astype(np.float64))
    for kind in (np.dtype(np.float32), HALF, BF16):
        for reduction, wanted in ((none, losses), (native.MEAN, total / divisor), (native.SUM, total)):
            loss, whole = np.empty(np.shape(wanted), kind), np.empty(1, kind)
            assert native.nll(x, weight, classes, ignored, reduction, loss, whole)
            assert loss.tobytes() == rounded_to(wanted, kind).tobytes()
            assert whole == rounded_to(divisor if reduction else 0.0, kind)
    loss, whole = np.full((2, 1), 7, np.float32)
    for wrong in (-1, columns):
        classes[rows - 1] = wrong
        assert not native.nll(x, weight, classes, ignored, native.SUM, loss, whole)
        assert loss == whole == 7
        assert native.nll(x, weight, classes, wrong, native.SUM, loss.copy(), whole.copy())
    classes[rows - 1] = 0
    for arguments in (
        (x[:, ::-1], weight, classes, ignored, native.SUM, loss, whole),
        (x, weight, classes, ignored, none, loss, whole),
        (x, weight, classes.astype(np.int32), ignored, native.SUM, loss, whole),
        (x, weight, classes, ignored, native.SUM, loss.astype(np.float64), whole),
    ):
        assert not native.nll(*arguments)


def test_an_array_begins_where_numpy_says() -> None:
    for array in (np.empty(3), np.empty((4, 5), np.int8)[1:, 2:], np.empty(0, BF16), np.frombuffer(b"abcd", ">u2")[1:]):
        assert native.address(array) == array.__array_interface__["data"][0]


@pytest.mark.parametrize("shape", [(4, 4), (40, 64), (700, 3), (3, 1025), (2, 8192), (2050, 1030)], ids=str)
def test_layer_norm_and_its_gradients_are_those_of_the_formula(helper: str, shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(0)
    x, grad = (rng.standard_normal(shape).astype(np.float32) * 3 + 1 for _ in range(2))
    weight, bias = rng.standard_normal((2, shape[1])).astype(np.float32)
    x[0] = 5  # no deviation

    def mean(values: Any) -> Any:
        return np.add.reduce(values.astype(np.float64), 1, keepdims=True) / shape[1]

    exact = mean(x)
    means = exact.astype(np.float32)
    variance = np.maximum(mean(np.square(x - means)) - np.square(exact - means), 0).astype(np.float32)
    deviations = 1 / np.sqrt(variance + np.float32(1e-5))
    normed = (x - means) * deviations
    for scale, shift in ((weight, bias), (weight, None), (None, None)):
        y = normed if scale is None else normed * scale
        answer = native.layer_norm(x, scale, shift, 1, 1e-5)
        assert answer is not None
        for got, wanted in zip(answer, (y if shift is None else y + shift, means, deviations)):
            assert got.tobytes() == wanted.tobytes()
        g = grad if scale is None else grad * scale
        dx = g - mean(g).astype(np.float32) - normed * mean(g * normed).astype(np.float32)
        columns = [np.add.accumulate(values.astype(np.float64), 0)[-1] for values in (grad * normed, grad)]
        found, sums = np.zeros_like(x), np.zeros((2, shape[1]))
        for of_x, of_columns in ((found, None), (None, sums), (found, sums)):
            found[...] = sums[...] = 0
            share = native.layer_norm_gradient(grad, x, means, deviations, scale, shape[1], of_x, of_columns)
            assert share is not None
            share()
            share()  # nothing is left
            assert found.tobytes() == (np.zeros_like(x) if of_x is None else dx * deviations).tobytes()
            assert sums.tobytes() == (np.zeros_like(sums) if of_columns is None else np.array(columns)).tobytes()
    assert native.layer_norm(x.astype(np.float16), None, None, 1, 1e-5) is None
    assert native.layer_norm(x, weight[1:], None, 1, 1e-5) is None
    assert native.layer_norm_gradient(grad[:, ::-1], x, means, deviations, None, shape[1], found, sums) is None


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_layer_norm_of_few_rows_is_that_of_numpy(helper: str, axes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(axes)
    for shape in ((3, 1, 1), (1, 5, 9), (4, 2, 17), (6, 10, 16)):
        x = rng.standard_normal(shape).astype(np.float32)
        x[0, 0, 0], x[-1] = np.nan, 7
        weight, bias = rng.standard_normal((2, *shape[3 - axes :])).astype(np.float32)
        with np.errstate(invalid="ignore"):
            by_helper = native.layer_norm(x, weight, bias, axes, 1e-5)
            with monkeypatch.context() as without:
                without.setattr(native, "layer_norm", lambda *_: None)
                wanted = normalised(x, weight, bias, axes, 1e-5)
        assert by_helper is not None
        for got, expected in zip(by_helper, wanted):
            assert got.shape == expected.shape and got.tobytes() == expected.tobytes()


@pytest.mark.parametrize("dtype", [np.dtype(np.float32), HALF, BF16], ids=str)
@pytest.mark.parametrize("shape", [(4, 6, 7, 9), (2, 12, 33, 9), (3, 4, 4099), (2, 8, 64, 128)], ids=str)
def test_group_norm_is_that_of_the_formula(helper: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    rng, groups, channels = np.random.default_rng(0), 2, shape[1]
    x, (weight, bias) = (rng.standard_normal(shape) * 3 + 1).astype(dtype), rng.standard_normal((2, channels))
    x[0, 0] = 5
    scale, shift = weight.astype(np.float32), bias.astype(np.float32)
    wide = x.astype(np.float32).reshape(shape[0] * groups, -1)

    def mean(values: Any) -> Any:
        return np.add.reduce(values.astype(np.float64), 1, keepdims=True) / wide.shape[1]

    exact = mean(wide)
    means = exact.astype(np.float32)
    variance = np.maximum(mean(np.square(wide - means)) - np.square(exact - means), 0).astype(np.float32)
    deviations = 1 / np.sqrt(variance + np.float32(1e-5))
    normed = ((wide - means) * deviations).reshape(*shape[:2], -1)
    for a, b in ((scale, shift), (scale, None), (None, shift), (None, None)):
        scaled = normed if a is None else normed * a[:, None]
        wanted = scaled if b is None else scaled + b[:, None]
        for kind in (np.dtype(np.float32), dtype):
            out, moments = np.empty(shape, kind), np.empty((2, len(wide)), np.float32)
            share = native.group_norm(x, a, b, groups, 1e-5, out, *moments)
            if wide.shape[1] > native.LONG_ROW and not native.adds_long_rows():
                assert share is None
                return
            assert share is not None
            share()
            assert out.tobytes() == rounded_to(wanted, kind).tobytes()
            assert moments.tobytes() == means.tobytes() + deviations.tobytes()
            share()  # all rows are done
    moments = np.empty((2, len(wide)), np.float32)
    assert native.group_norm(x[..., ::-1], None, None, groups, 1e-5, np.empty_like(x), *moments) is None
    assert native.group_norm(x, None, None, groups, 1e-5, x.astype(np.float64), *moments) is None


def test_a_call_passes_all_arguments_of_phase_one(built_helper: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_library, "PACKAGED", built_helper)
    monkeypatch.setenv("ASCEND_ACLNN_NATIVE", "auto")
    monkeypatch.setattr(native, "_status", None)
    monkeypatch.setattr(native, "_library", None)
    helper = native.call_function()
    examples = {
        ctypes.c_void_p: lambda n: None if n % 5 == 0 else 2**63 + n,
        ctypes.c_char_p: lambda n: None if n % 5 == 0 else b"text %d" % n,
        ctypes.c_bool: lambda n: n % 2 == 0,
        ctypes.c_uint32: lambda n: 2**32 - n - 1,
        ctypes.c_uint64: lambda n: 2**64 - n - 1,
        ctypes.c_float: lambda n: n + 0.5,
        ctypes.c_double: lambda n: n + 0.1,
    }
    received: list[Any] = []

    def phase_one(*arguments: Any) -> int:
        received[:] = arguments
        ctypes.c_uint64.from_address(arguments[-2]).value = len(arguments)
        ctypes.c_void_p.from_address(arguments[-1]).value = 77
        return 0

    # the most arguments, floating ones before and after the end of the registers for others, every type
    for name in ("FusedInferAttentionScoreV5", "MlaPrologV3", "ApplyAdamWV2", "MoeFusedTopk", "SplitTensor", "Addmm"):
        types = prototypes.phase_one(catalog.get(f"aclnn{name}"))
        function = ctypes.CFUNCTYPE(ctypes.c_int32, *types)(phase_one)
        assert calls.can_call(function)
        values = [examples.get(kind, lambda n: -n - 1)(n) for n, kind in enumerate(types[:-2])]
        call = calls.NativeCall(helper, None, None, function, None, values, [], [])
        assert call.call([], 0, False) == calls.PREPARED
        assert received[:-2] == values and (call.workspace_size, call.executor) == (len(types), 77)
