"""The optional compiled helper: what NumPy does slowly, in C, with the same bits as results.

``ASCEND_ACLNN_NATIVE`` chooses: ``auto`` (the default) uses the helper where it was built, ``0`` never, ``1`` always, and builds
it where it is missing. Nothing is compiled unless ``ascend-aclnn native build`` or ``1`` asks for it. ``status()`` reports what
is used. Calls run without the interpreter lock, and only on blocks that are large enough to pay for ctypes.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import math
import os
import struct
import threading
from collections.abc import Iterator, Sequence
from typing import Any, Callable, NamedTuple, Optional

import ml_dtypes
import numpy as np
import numpy.typing as npt

from ascend_aclnn.native.library import BuildError, build, find, is_outdated
from ascend_aclnn.native.prototypes import declare

Array = npt.NDArray[Any]

_FLOAT32, _INT64 = np.dtype(np.float32), np.dtype(np.int64)

_word, _HEAD = ctypes.c_size_t.from_address, object.__basicsize__


def _address(array: Array) -> int:
    return _word(id(array) + _HEAD).value


def _interface_address(array: Array) -> int:
    at: int = array.__array_interface__["data"][0]
    return at


_probes = (np.empty(1), np.empty((3, 2), ">f4")[1:])
# Where an array begins: the first word of NumPy's structure behind what each object has, where that is so. A small call has
# several arrays, and __array_interface__ takes ten times as long.
address = _address if all(_address(probe) == _interface_address(probe) for probe in _probes) else _interface_address

# The helper's numbers of its conversions, by the data types of source and target; it says them when it is loaded.
_CONVERSIONS: dict[tuple[np.dtype[Any], np.dtype[Any]], int] = {}


class Status(NamedTuple):
    """The state of the helper."""

    mode: str  # of ASCEND_ACLNN_NATIVE: "auto", "0" or "1"
    path: Optional[str]  # the library in use, or None
    instructions: Optional[str]  # "avx512", "avx2", "neon" or "plain"
    reason: str  # why there is none, "" where there is one


_lock = threading.Lock()
_library: Optional[ctypes.CDLL] = None
_status: Optional[Status] = None


def status() -> Status:
    """The state of the helper; loads it on the first call."""
    global _status
    if _status is None:
        with _lock:
            if _status is None:
                _status = _load()
    return _status


def _load() -> Status:
    global _library
    mode = os.environ.get("ASCEND_ACLNN_NATIVE", "auto").strip() or "auto"
    if mode not in ("auto", "0", "1"):
        raise ValueError(f"ASCEND_ACLNN_NATIVE is {mode!r}; it must be auto, 0 or 1")
    if mode == "0":
        return Status(mode, None, None, "ASCEND_ACLNN_NATIVE is 0")
    path = find()
    if path is None and mode == "1":
        path = build()
    if path is None:
        built = "built for another version of ascend_aclnn" if is_outdated() else "not built"
        return Status(mode, None, None, f"{built}; ascend-aclnn native build builds it")
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        if mode == "1":
            raise
        return Status(mode, None, None, f"cannot be loaded: {error}")
    declare(library)
    _CONVERSIONS.update(_conversions(library))
    _library = library
    return Status(mode, str(path), library.ascend_native_instructions().decode(), "")


def _conversions(library: ctypes.CDLL) -> Iterator[tuple[tuple[np.dtype[Any], np.dtype[Any]], int]]:
    """The data types of each conversion, and its number."""
    for number in itertools.count():
        names: Optional[bytes] = library.ascend_native_conversion(number)
        if names is None:
            return
        source, target = (np.dtype(getattr(ml_dtypes, name, name)) for name in names.decode().split())
        yield (source, target), number


def use_instructions(name: str) -> bool:
    """Uses "plain", "avx2", "avx512" or "neon", for tests; False where the processor or the helper lacks it."""
    status()
    return _library is not None and _library.ascend_native_use(name.encode()) == 0


def converts(source: np.dtype[Any], target: np.dtype[Any]) -> bool:
    """True where the helper is there and has the conversion of one data type to another."""
    if _status is None:
        status()
    return _library is not None and (source, target) in _CONVERSIONS


def convert(source: Array, target: Array) -> bool:
    """Widens or rounds into an array of the same shape; False, with nothing written, where the helper cannot.

    It takes contiguous arrays, and matrices whose rows are.
    """
    number = _CONVERSIONS.get((source.dtype, target.dtype))
    if number is None or _library is None or source.shape != target.shape:
        return False
    if source.flags.c_contiguous and target.flags.c_contiguous:
        rows, columns, source_step, target_step = 1, source.size, 0, 0
    elif source.ndim == 2 and source.strides[1] == source.itemsize and target.strides[1] == target.itemsize:
        (rows, columns), source_step, target_step = source.shape, source.strides[0], target.strides[0]
    else:
        return False
    if not (source.flags.aligned and target.flags.aligned):
        return False
    at, to = address(source), address(target)
    _library.ascend_native_convert(number, at, to, rows, columns, source_step, target_step)
    return True


def cuts_off(source: Array, target: Array) -> bool:
    """True where ``cut_off`` takes arrays like these: contiguous float32 or 16-bit floats, and int32."""
    if not runs_programs() or source.dtype not in _FLOATS or target.dtype != np.int32:
        return False
    return all(array.flags.c_contiguous and array.flags.aligned for array in (source, target))


def cut_off(source: Array, target: Array) -> None:
    """Floats to int32, cut off towards zero and saturated, NaN as 0; only where ``cuts_off``."""
    assert _library is not None
    _library.ascend_native_cut_off(_FLOATS[source.dtype], address(source), address(target), source.size)


def runs_programs() -> bool:
    """True where the helper is there, which runs the programs of ``numerics.programs``."""
    if _status is None:
        status()
    return _library is not None


def placed_function() -> Callable[[int, bytes], int]:
    """ascend_native_run_placed of csrc/program.c; only where ``runs_programs``."""
    assert _library is not None
    function: Callable[[int, bytes], int] = _library.ascend_native_run_placed
    return function


def call_function() -> Optional[Any]:
    """The helper's function for ``calls.NativeCall``; None without the helper, or where it cannot pass all arguments."""
    if status().path is None or os.uname().machine not in ("x86_64", "aarch64"):
        return None
    return _library and _library.ascend_native_call


def apply(name: str, source: Array, target: Array) -> None:
    """The programs' "exp" or "log" of contiguous float32; only where ``runs_programs``."""
    at, to = address(source), address(target)
    getattr(_library, f"ascend_native_{name}")(at, to, source.size)


LONG_ROW = 8192


@functools.cache
def adds_long_rows() -> bool:
    """True where NumPy adds up rows of more than LONG_ROW float64 pairwise as a whole, as the helper does: from NumPy 2 on."""
    row = np.random.default_rng(0).standard_normal(20_000)
    quarters = np.add.reduce(row.reshape(4, -1), axis=1)
    return bool(np.add.reduce(row) == (quarters[0] + quarters[1]) + (quarters[2] + quarters[3]))


@functools.cache
def has(name: str) -> bool:
    """True where the programs' "exp" or "log" has the bits of NumPy's, which depend on its version and on the processor."""
    if not runs_programs() or status().instructions == "plain":
        return False
    function, low, high = _COMPARED[name]
    exponents = np.exp2(np.linspace(-149, 127, 3_000)).astype(np.float32)
    source = np.concatenate((np.linspace(low, high, 30_000, dtype=np.float32), exponents, np.array(_EDGES, np.float32)))
    target = np.empty_like(source)
    apply(name, source, target)
    with np.errstate(all="ignore"):
        return bool(np.array_equal(target.view(np.uint32), function(source).view(np.uint32)))


# Functions with the range in which most values are compared.
_COMPARED: dict[str, tuple[Any, float, float]] = {"exp": (np.exp, -105, 90), "log": (np.log, 0.25, 8)}
_EDGES = (
    0.0,
    -0.0,
    np.inf,
    -np.inf,
    np.nan,
    -np.nan,
    1e-45,
    -1e-38,
    88.72283,
    88.72284,
    -103.97208,
    -103.97209,
    3e38,
    -3e38,
)


def run_program(
    phase: tuple[bytes, int, bytes, int, int],
    operands: bytes,
    operand_count: int,
    work: bytes,
    sums: int,
    pieces: Array,
) -> None:
    """Runs one phase of a program, as csrc/program.c has it; only where ``runs_programs``.

    ``pieces``: one int64, the number of pieces that have been begun. Threads that pass the same array share the work.
    """
    assert _library is not None
    _library.ascend_native_run(*phase, operands, operand_count, work, sums, address(pieces))


def add_up(source: Array, target: Array) -> bool:
    """Float64 sums of the rows of a float32 matrix, which are contiguous. False, and nothing done, where the helper cannot."""
    if _library is None or source.dtype != _FLOAT32 or source.strides[1] != 4 or not target.flags.c_contiguous:
        return False
    _library.ascend_native_sum(address(source), address(target), *source.shape, source.strides[0])
    return True


def add_columns(source: Array, target: Array) -> bool:
    """The rows of a matrix of float32 or 16-bit floats, which are contiguous, added to one row of float64.

    False, and nothing done, where the helper cannot.
    """
    if _library is None or source.dtype not in _FLOATS or source.strides[1] != source.itemsize:
        return False
    if not (target.flags.c_contiguous and source.flags.aligned):
        return False
    at, to = address(source), address(target)
    _library.ascend_native_add_columns(_FLOATS[source.dtype], at, to, *source.shape, source.strides[0])
    return True


def _addresses(*arrays: Optional[Array]) -> list[Any]:
    """Where arrays begin; None for one that is absent."""
    return [None if array is None else address(array) for array in arrays]


def running_sum(source: Array, target: Array, of_columns: bool) -> bool:
    """Running float64 sums along the rows of a matrix, or down its columns, rounded once to the target's data type.

    Rows are contiguous, of float32 or 16-bit floats; those of the target may be float64. False, with nothing written, where
    the helper cannot.
    """
    if not runs_programs() or _library is None or source.dtype not in _FLOATS or target.dtype not in _SUMS:
        return False
    for array in (source, target):
        if array.strides[1] != array.itemsize or not array.flags.aligned:
            return False
    at, to = address(source), address(target)
    kinds, steps = (_FLOATS[source.dtype], _SUMS[target.dtype]), (source.strides[0], target.strides[0])
    _library.ascend_native_running_sum(*kinds, at, to, *source.shape, *steps, of_columns)
    return True


def add_runs(target: Array, values: Array, order: Array, starts: Array, rows: Array) -> bool:
    """target[rows[i]] += sum of values[order[starts[i]:starts[i + 1]]] for float64 rows and those of float64 or float32.

    False, and nothing done, where the helper cannot.
    """
    if not runs_programs() or _library is None or target.ndim != 2 or target.dtype != np.float64:
        return False
    if (
        values.dtype not in (_FLOAT32, target.dtype)
        or not target.flags.c_contiguous
        or values.strides[1] != values.itemsize
    ):
        return False
    numbers = [np.ascontiguousarray(array, np.int64) for array in (order, starts, rows)]
    at, to, *lists = _addresses(values, target, *numbers)
    wide = values.dtype == target.dtype
    columns, step = target.shape[1], values.strides[0]
    _library.ascend_native_add_runs(at, wide, to, columns, step, lists[0], lists[1], len(rows), len(order), lists[2])
    return True


_FLOATS = {_FLOAT32: 0, np.dtype(np.float16): 1, np.dtype(ml_dtypes.bfloat16): 2}
_SUMS = {**_FLOATS, np.dtype(np.float64): 7}  # as program.h numbers them


def add_rows(target: Array, x: Array, values: Array, order: Array, starts: Array, rows: Array) -> bool:
    """target[rows[i]] = x[rows[i]] + sum of values[order[starts[i]:starts[i + 1]]] for contiguous rows of one data type.

    The sums are float64, rounded once. ``order``, ``starts`` and ``rows`` are contiguous int64. False, and nothing done, where
    the helper cannot.
    """
    arrays = (x, values, target)
    if not runs_programs() or _library is None or target.dtype not in _FLOATS:
        return False
    if any(array.dtype != target.dtype or not array.flags.c_contiguous or not array.flags.aligned for array in arrays):
        return False
    places = _addresses(*arrays, order, starts, rows)
    kind, columns = _FLOATS[target.dtype], target.shape[1]
    _library.ascend_native_add_rows(kind, *places[:3], columns, *places[3:5], len(rows), len(order), places[5])
    return True


def combine_rows(target: Array, source: Array, picks: Array, weights: Optional[Array]) -> bool:
    """target[t] = sum over j of source[picks[t, j]] * weights[t, j] in float32, j by j, rounded once; rows of one data type.

    ``picks`` is contiguous int64, none of them negative, ``weights`` contiguous float32. An index past the end and a weight of
    zero add nothing. False, and nothing done, where the helper cannot.
    """
    if not runs_programs() or _library is None or target.dtype not in _FLOATS or not picks.shape[1]:
        return False
    if any(a.dtype != target.dtype or not a.flags.c_contiguous or not a.flags.aligned for a in (source, target)):
        return False
    if np.may_share_memory(source, target):
        return False
    places = _addresses(source, picks, weights, target)
    rows, columns = target.shape
    kind = _FLOATS[target.dtype]
    _library.ascend_native_combine(kind, places[0], len(source), *places[1:], rows, columns, picks.shape[1])
    return True


MEAN, SUM = 1, 2  # how aclnn reduces losses
_NLL = struct.Struct("4i3q5Q").pack  # ctypes takes a microsecond for as many arguments


def nll(x: Array, weight: Array, classes: Array, ignored: int, reduction: int, loss: Array, whole: Array) -> bool:
    """loss[row] = -weight[class] * x[row, class], 0 for the class to ignore; sums are float64 and rounded once. whole[...] = 0.

    With MEAN or SUM the loss is one number and ``whole`` gets the sum of the weights, by which MEAN divides. False, with nothing
    written, where the helper cannot, or where a class is out of range. It takes contiguous arrays, ``classes`` of int64.
    """
    rows, kind, of_loss, of_whole = len(x), _FLOATS.get(x.dtype), _FLOATS.get(loss.dtype), _FLOATS.get(whole.dtype)
    if kind is None or of_loss is None or of_whole is None or weight.dtype != x.dtype or whole.size != 1:
        return False
    if classes.dtype != _INT64 or loss.size != (1 if reduction in (MEAN, SUM) else rows):
        return False
    if (
        not 0 < rows == classes.size
        or rows > LONG_ROW
        or not _plain(x, weight, classes, loss, whole)
        or _library is None
    ):
        return False
    places = _addresses(x, weight, classes, loss, whole)
    return bool(
        _library.ascend_native_nll(_NLL(kind, of_loss, of_whole, reduction, rows, x.shape[1], ignored, *places))
    )


_PLAIN = 0x101  # NumPy's flags of arrays that are C-contiguous and aligned


def _plain(*arrays: Array) -> bool:
    """True where arrays are contiguous and aligned, and the helper is there."""
    return runs_programs() and all(array.flags.num & _PLAIN == _PLAIN for array in arrays)


def window_maxima(x: Array, axes: Array, best: Array, places: Array) -> bool:
    """The largest element of each window of planes, the first NaN if there is one, and its place in the plane.

    ``axes`` has for each of two axes its size, the number of windows, their size, stride, padding in front and dilation, as
    int64. ``best`` is float32 and ``places`` int32; 0 and -1 for a window without elements. False, with nothing written,
    where the helper cannot.
    """
    if x.dtype != _FLOAT32 or places.dtype != np.int32 or not _plain(x, best, places) or _library is None:
        return False
    at, to, to_places = _addresses(x, best, places)
    _library.ascend_native_maxima(at, len(x), axes.tobytes(), to, to_places)
    return True


def window_sums(x: Array, axes: Array, sums: Array) -> bool:
    """The float64 sum of each window of float32 planes, over its rows first; ``axes`` as above, without dilation."""
    if x.dtype != _FLOAT32 or sums.dtype != np.float64 or not _plain(x, sums) or _library is None:
        return False
    memory = np.empty(x.shape[2])
    at, to, to_memory = _addresses(x, sums, memory)
    _library.ascend_native_window_sums(at, len(x), axes.tobytes(), to_memory, to)
    return True


def scatter(values: Array, places: Array, target: Array) -> bool:
    """target[p, place] = the float64 sum of values[p, places[p] == place], rounded once; matrices of a plane in each row.

    False where the helper cannot, or where a place is out of range; rows may then be written.
    """
    if values.dtype != _FLOAT32 or places.dtype != np.int32 or target.dtype not in _FLOATS or _library is None:
        return False
    if not _plain(values, places, target):
        return False
    memory = np.empty(target.shape[1])
    at, at_places, to, to_memory = _addresses(values, places, target, memory)
    kind = _FLOATS[target.dtype]
    done: int = _library.ascend_native_scatter(kind, at, at_places, *places.shape, target.shape[1], to_memory, to)
    return bool(done)


def exponentials(scores: Array, least: Any) -> Optional[tuple[Array, Array]]:
    """Rows of float32 become exp(x - largest), in place; the largest numbers, at least ``least``, and the rows' sums.

    Both with a last axis of 1. None, with nothing written, where the helper cannot.
    """
    if scores.dtype != _FLOAT32 or not scores.size or not _plain(scores) or not has("exp") or _library is None:
        return None
    of_rows, columns = (*scores.shape[:-1], 1), scores.shape[-1]
    maxima, sums = np.empty(of_rows, np.float32), np.empty(of_rows, np.float32)
    at, to_maxima, to_sums = _addresses(scores, maxima, sums)
    _library.ascend_native_exponentials(at, scores.size // columns, columns, least, to_maxima, to_sums)
    return maxima, sums


def resample(x: Array, axis: int, places: Array, weights: Array) -> Optional[Array]:
    """An axis of float32 with other positions: sums of x[..., places[tap], ...] * weights[tap], in the order of taps.

    ``places`` are int64 and in range, (taps, positions). None where the helper cannot.
    """
    if x.dtype != _FLOAT32 or weights.dtype != _FLOAT32 or not _plain(x, places, weights) or _library is None:
        return None
    result = np.empty((*x.shape[:axis], places.shape[1], *x.shape[axis + 1 :]), np.float32)
    sizes = math.prod(x.shape[:axis]), x.shape[axis], places.shape[1], math.prod(x.shape[axis + 1 :])
    _library.ascend_native_resample(*_addresses(x, places, weights, result), *sizes, len(places))
    return result


def pad(x: Array, target: Array, number: Array, around: Sequence[tuple[int, int]]) -> bool:
    """Planes (planes, rows, columns) with a number ``around`` them: rows above and below, columns on the left and on the right.

    False, with nothing written, where the helper cannot. ``target`` shares no memory with x.
    """
    if len(around) != 2 or min(map(min, around)) < 0 or not x.size or x.itemsize not in (1, 2, 4, 8, 16):
        return False
    if not x.dtype == target.dtype == number.dtype or not _plain(x, target) or _library is None:
        return False
    _library.ascend_native_pad(x.itemsize, *_addresses(x, target, number), *x.shape, *itertools.chain(*around))
    return True


_TILE = 1024  # elements; program.h has it, too


def rotary(x: Array, cosines: Array, sines: Array, target: Array) -> bool:
    """x * cosines + turned x * sines; the halves of a row are turned into the negative second one and the first.

    Matrices of one data type, rounded once; the rows of cosines and sines are for those of x again and again. False, with
    nothing written, where the helper cannot.
    """
    arrays = (x, cosines, sines, target)
    if target.dtype not in _FLOATS or any(array.dtype != target.dtype for array in arrays) or x.shape[1] % 2:
        return False
    if not 0 < x.shape[1] <= _TILE or not len(cosines) or not _plain(*arrays) or _library is None:
        return False
    _library.ascend_native_rotary(_FLOATS[target.dtype], *_addresses(*arrays), len(x), len(cosines), x.shape[1])
    return True


MOST_CHOSEN = 64


def choose(x: Array, most: int, largest: bool) -> Optional[Array]:
    """Where the ``most`` largest or smallest elements of each row are, in order, of equal ones the first; NaN is the largest.

    None where the helper cannot: it takes float32 and chooses up to MOST_CHOSEN.
    """
    if x.dtype != _FLOAT32 or not 0 < most <= min(MOST_CHOSEN, x.shape[1]) or not _plain(x) or _library is None:
        return None
    places = np.empty((len(x), most), np.int64)
    at, to = _addresses(x, places)
    _library.ascend_native_choose(at, *x.shape, most, 0 if largest else -1, to)
    return places


def fill_masked(target: Array, mask: Array, value: Array) -> bool:
    """target[mask] = value, an array of one element of the same data type; False, with nothing written, if unsupported."""
    if mask.dtype != np.bool_ or mask.shape != target.shape or target.itemsize not in (1, 2, 4, 8):
        return False
    if value.dtype != target.dtype or not _plain(target, mask) or _library is None:
        return False
    at, to = _addresses(mask, target)
    _library.ascend_native_fill(target.itemsize, at, int.from_bytes(value.tobytes(), "little"), to, target.size)
    return True


def triangle(x: Array, target: Array, diagonal: int, upper: bool, first: int, last: int) -> bool:
    """Rows ``first`` to ``last`` of matrices, counted through all of them: zeros on one side of a diagonal, x elsewhere.

    False, with nothing written, where the helper cannot. ``target`` is x or shares no memory with it.
    """
    if x.dtype != target.dtype or not _plain(x, target) or _library is None:
        return False
    at, to = _addresses(x, target)
    _library.ascend_native_triangle(at, to, first, last, *x.shape[-2:], x.itemsize, diagonal, upper)
    return True


def _floats(*arrays: Optional[Array]) -> bool:
    """True where arrays, but for those that are absent, are float32, contiguous and aligned, and the helper is there."""
    return runs_programs() and all(
        a is None or (a.dtype == _FLOAT32 and a.flags.num & _PLAIN == _PLAIN) for a in arrays
    )


_LAYER_NORM = struct.Struct("2q6Qf").pack


def layer_norm(
    x: Array, weight: Optional[Array], bias: Optional[Array], axes: int, epsilon: float
) -> Optional[tuple[Array, Array, Array]]:
    """The last axes normalised, scaled and shifted; their means and inverse deviations, with axes of size 1.

    None where the helper cannot.
    """
    kept = x.ndim - axes
    columns = math.prod(x.shape[kept:])
    if not 0 < columns <= LONG_ROW or not _floats(x, weight, bias) or _library is None:
        return None
    scale = shift = 0
    if weight is not None:
        if weight.size != columns:
            return None
        scale = address(weight)
    if bias is not None:
        if bias.size != columns:
            return None
        shift = address(bias)
    of_rows = x.shape[:kept] + (1,) * axes
    y, means, deviations = np.empty(x.shape, _FLOAT32), np.empty(of_rows, _FLOAT32), np.empty(of_rows, _FLOAT32)
    places = address(x), scale, shift, address(y), address(means), address(deviations)
    _library.ascend_native_layer_norm(_LAYER_NORM(x.size // columns, columns, *places, epsilon))
    return y, means, deviations


_GRADIENT = struct.Struct("3q8Q").pack


def layer_norm_gradient(
    grad: Array,
    x: Array,
    means: Array,
    deviations: Array,
    weight: Optional[Array],
    columns: int,
    dx: Optional[Array],
    sums: Optional[Array],
) -> Optional[Callable[[], None]]:
    """A function that computes the gradients of x, into ``dx``, and of weight and bias, into ``sums``.

    Threads that call it share the work. ``sums`` are two rows of float64 zeros, ``deviations`` inverse. None where the helper
    cannot.
    """
    if not 0 < columns <= LONG_ROW or not _floats(grad, x, means, deviations, weight, dx):
        return None
    places = [at or 0 for at in _addresses(grad, x, means, deviations, weight, dx)]
    at = 0 if sums is None else address(sums)
    sizes = x.size // columns, columns, sums is not None
    gradient, pieces = _GRADIENT(*sizes, *places, at, at + 8 * columns), np.zeros(1, np.int64)

    def share(arrays: Any = (grad, x, means, deviations, weight, dx, sums)) -> None:  # keeps them alive
        assert _library is not None
        _library.ascend_native_layer_norm_gradient(gradient, address(pieces))

    return share


_GROUP_NORM = struct.Struct("2i4q6Qf").pack


def group_norm(
    x: Array,
    scale: Optional[Array],
    shift: Optional[Array],
    groups: int,
    epsilon: float,
    out: Array,
    means: Array,
    deviations: Array,
) -> Optional[Callable[[], None]]:
    """A function that normalises groups of channels (axis 1 of x) into ``out``, scaled and shifted.

    Threads that call it share the work. Means and inverse deviations, one of each group, are float32 as scale and shift are.
    None where the helper cannot.
    """
    kind, to = _FLOATS.get(x.dtype), _FLOATS.get(out.dtype)
    channels = x.shape[1] // groups
    columns = x.size // (len(x) * groups)
    if kind is None or to is None or not _plain(x, out) or not _floats(scale, shift, means, deviations):
        return None
    if columns > LONG_ROW and not adds_long_rows():
        return None
    sizes = (len(x) * groups, groups, channels, columns // channels)
    places = [at or 0 for at in _addresses(x, scale, shift, out, means, deviations)]
    norm, pieces = _GROUP_NORM(kind, to, *sizes, *places, epsilon), np.zeros(1, np.int64)
    wide = x.dtype == out.dtype == _FLOAT32

    def share(arrays: Any = (x, scale, shift, out, means, deviations)) -> None:  # keeps them alive
        assert _library is not None
        memory = None if wide else np.empty(columns, np.float32)
        _library.ascend_native_group_norm(norm, *_addresses(pieces, memory))

    return share


BF16_PRODUCTS = "ASCEND_ACLNN_BF16_PRODUCTS"


def multiplies_bf16() -> bool:
    """True where the processor has instructions for products of bfloat16, the helper is there, and they are not switched off.

    ``ASCEND_ACLNN_BF16_PRODUCTS`` is ``auto`` (the default) or ``0``.
    """
    mode = os.environ.get(BF16_PRODUCTS, "auto").strip() or "auto"
    if mode not in ("auto", "0"):
        raise ValueError(f"{BF16_PRODUCTS} is {mode!r}; it must be auto or 0")
    return mode == "auto" and runs_programs() and bool(_library and _library.ascend_native_multiplies_bf16())


def product_memory() -> int:
    """Elements of float32 that a thread needs for ``multiply_bf16``."""
    return int(_library.ascend_native_product_memory()) if _library is not None else 0


def multiply_bf16(a: Array, b: Array, out: Array, memory: Array, pieces: Array) -> None:
    """out = a @ b of bfloat16 matrices, in one batch axis each, summed in float32; only where ``multiplies_bf16``.

    ``out`` is float32 or bfloat16, its rows are contiguous. ``pieces``: one int64, the number of pieces that have been begun.
    Threads that pass the same array share the work; each has a ``memory`` of its own.
    """
    assert _library is not None
    steps = [step // array.itemsize for array in (a, b, out) for step in array.strides]
    places = _addresses(a, b, out)
    numbers = (*places, _FLOATS[out.dtype], *a.shape[:2], b.shape[2], a.shape[2], *steps[:8])
    at, to = _addresses(memory, pieces)
    _library.ascend_native_multiply_bf16(np.array(numbers, np.int64).tobytes(), at, to)


MOST_ROWS = 16  # of multiply_few_rows


def multiplies_few_rows() -> bool:
    """True where the processor and the helper have ``multiply_few_rows``."""
    return runs_programs() and bool(_library and _library.ascend_native_multiplies_few_rows())


def multiply_few_rows(a: Array, b: Array, out: Array) -> None:
    """out = a @ b of contiguous float32 and of a matrix of 16 bits whose columns are contiguous; few_rows.c has the sums' order.

    Only where ``multiplies_few_rows``, and up to MOST_ROWS.
    """
    assert _library is not None
    sizes = (len(a), b.shape[1], b.shape[0], b.strides[1] // 2)
    _library.ascend_native_multiply_few_rows(struct.pack("8q", *_addresses(a, b, out), _FLOATS[b.dtype], *sizes))


def philox(key: int, low: Array, high: Array, target: Array) -> bool:
    """The four words of each counter, whose halves are uint64 in a row or all the same, into uint32 rows of four.

    False, and nothing done, where the helper cannot.
    """
    if not runs_programs() or _library is None or not target.flags.c_contiguous:
        return False
    steps = [array.strides[0] // 8 for array in (low, high)]
    if not set(steps) <= {0, 1}:
        return False
    first, second, to = _addresses(low, high, target)
    _library.ascend_native_philox(key, first, steps[0], second, steps[1], to, len(target))
    return True


def look_up(codes: Array, table: Array, target: Array) -> bool:
    """target[...] = table[codes] for contiguous codes of 16 bits and a table of 65,536 entries of at most 4 bytes.

    False, and nothing done, where the helper cannot.
    """
    if _library is None or codes.shape != target.shape or table.itemsize != target.itemsize or table.itemsize > 4:
        return False
    if not (codes.flags.c_contiguous and target.flags.c_contiguous and codes.flags.aligned and target.flags.aligned):
        return False
    _library.ascend_native_look_up(*_addresses(codes, table, target), codes.size, table.itemsize)
    return True


__all__ = [
    "BF16_PRODUCTS",
    "MEAN",
    "MOST_CHOSEN",
    "MOST_ROWS",
    "SUM",
    "BuildError",
    "Status",
    "add_columns",
    "add_rows",
    "add_runs",
    "add_up",
    "address",
    "apply",
    "build",
    "call_function",
    "choose",
    "combine_rows",
    "convert",
    "converts",
    "exponentials",
    "fill_masked",
    "group_norm",
    "layer_norm",
    "layer_norm_gradient",
    "look_up",
    "multiplies_bf16",
    "multiplies_few_rows",
    "multiply_bf16",
    "multiply_few_rows",
    "nll",
    "pad",
    "philox",
    "placed_function",
    "product_memory",
    "resample",
    "rotary",
    "run_program",
    "running_sum",
    "runs_programs",
    "scatter",
    "status",
    "triangle",
    "use_instructions",
    "window_maxima",
    "window_sums",
]
